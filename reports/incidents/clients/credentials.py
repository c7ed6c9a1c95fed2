"""As whom clients authenticate in vain, by which mechanism, and what their tokens tell of why."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeGuard

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.words import duration
from kafkascope.reports.groups.body import body_of
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.measures.client_facts import NO_NAME
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_TRIES = 1000  # of clients that are looked at: who fails does so again and again
_SHOWN = 3  # users in words
_MECHANISM = re.compile(r"[\w.-]{1,40}")  # words in capitals: RFC 4422, 3.1


@dataclass(frozen=True, slots=True)
class Refused:
    """One try to authenticate that was refused: what the client showed, and why it is in vain, as far as that shows."""

    mechanism: str
    user: str | None = None
    reason: str = ""
    advice: str = ""


def refused(signs: Signs, names: Collection[str], hosts: Collection[str]) -> tuple[str, str, list[str]]:
    """Words for the end of a headline, advice, and users: how these clients authenticate in vain; empty if unknown."""
    found = list(dict.fromkeys(_tries(signs, names, hosts)))
    mechanisms = sorted({one.mechanism for one in found})
    if len(mechanisms) != 1:
        return listed(mechanisms) if mechanisms else "", "", []
    users = sorted({one.user for one in found if one.user})
    reasons = {one.reason: one.advice for one in found}
    whom = f"as {listed(users, _SHOWN)} by {mechanisms[0]}" if users else mechanisms[0]
    reason, advice = next(iter(reasons.items())) if len(reasons) == 1 else ("", "")
    return whom + (f"; {reason}" if reason else ""), advice, users


def failures(signs: Signs) -> dict[tuple[str, str], list[int]]:
    """When clients, by address and client id, were refused as they authenticated."""
    failed = (pc.field("api") == "SaslAuthenticate") & (pc.field("error") != Error.NONE)
    rows = [
        row
        for batch in signs.batches("exchanges", ("connection", "client_id", "requested"), failed)
        for row in batch.to_pylist()
        if row["client_id"]
    ]
    connections = signs.connections_by_number(sorted({row["connection"] for row in rows}))
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in rows:
        if (connection := connections.get(row["connection"])) is not None:
            found[connection["client"], row["client_id"]].append(row["requested"])
    return found


def _tries(signs: Signs, names: Collection[str], hosts: Collection[str]) -> Iterator[Refused]:
    """What was refused of these clients, in the order of exchanges."""
    failed = pc.field("api").isin(["SaslHandshake", "SaslAuthenticate"]) & (pc.field("error") != Error.NONE)
    columns = ("connection", "number", "client_id", "api", "error", "requested", "request", "response")
    of_all = (row for batch in signs.batches("exchanges", columns, failed) for row in batch.to_pylist())
    rows = list(islice((row for row in of_all if (row["client_id"] or NO_NAME) in names), _TRIES))
    of_hosts = signs.connections_by_number(sorted({row["connection"] for row in rows}))
    rows = [row for row in rows if of_hosts.get(row["connection"], {}).get("client") in hosts]
    shown = _shown_before(signs, [row for row in rows if row["api"] == "SaslAuthenticate"], columns)
    for row in rows:
        if row["error"] == Error.UNSUPPORTED_SASL_MECHANISM:
            wanted, there = body_of(row["request"]).get("mechanism"), body_of(row["response"]).get("mechanisms")
            if _is_mechanism(wanted) and isinstance(there, list):
                yield Refused(wanted, None, f"it has {', '.join(filter(_is_mechanism, there)) or 'none'}")
        elif row["api"] == "SaslAuthenticate":
            yield from _refused(row, shown.get(row["connection"], []))


def _shown_before(signs: Signs, failed: Sequence[Row], columns: Sequence[str]) -> dict[int, list[Row]]:
    """By connection, the tokens that it showed before one was refused."""
    found: dict[int, list[Row]] = defaultdict(list)
    numbers = {row["connection"]: row["number"] for row in failed}
    where = (pc.field("api") == "SaslAuthenticate") & pc.field("connection").isin(sorted(numbers))
    for batch in signs.batches("exchanges", columns, where) if numbers else ():
        for row in batch.to_pylist():
            if row["number"] < numbers[row["connection"]]:
                found[row["connection"]].append(row)
    return found


def _refused(row: Row, before: Sequence[Row]) -> Iterator[Refused]:
    """What a token that was refused tells, with those that the same connection had shown before it."""
    tries = (*before, row)
    shown, answers = ([_token(each[name]) for each in tries] for name in ("request", "response"))
    mechanism = _first(shown, "mechanism")
    if not _is_mechanism(mechanism):
        return
    claims = _first(shown, "claims")
    claims = claims if isinstance(claims, dict) else {}
    user = _first(shown, "username") or claims.get("sub")
    told = _first(answers, "error")
    status = told.get("status") if isinstance(told, dict) else None
    last = shown[-1].get("message")
    reason, advice = "", ""
    if mechanism.startswith("SCRAM") and last == "client-first":  # ScramSaslServer: no credentials of that name
        reason = f"the broker has no such user for {mechanism}"
        advice = (
            "See whether the user is there, for this mechanism, as each has credentials of its own: kafka-configs.sh "
            "--describe --entity-type users; with --alter and --add-config they are made. A delegation token may have "
            "expired."
        )
    elif mechanism.startswith("SCRAM") and last == "client-final":  # its proof is what the broker verifies then
        reason = "the user is there, and its password is another one"
        advice = (
            "Give the client the password that the broker has for this user, or set it anew (kafka-configs.sh --alter)."
        )
    elif (expired := _expired(claims, tries[0]["requested"])) is not None:
        reason = f"its token had expired {duration(expired)} before"
        advice = (
            "Have the client get a new token before the old one expires (its login callback, the token endpoint), and "
            "compare the clocks of both hosts with that of who issues tokens."
        )
    elif status == "insufficient_scope":
        reason = "its token lacks a scope that the broker wants: insufficient_scope"
        advice = "Have the client ask for the scope that the listener wants, and the issuer of tokens grant it."
    elif status:
        reason = f"the broker does not take its token: {status}"
        advice = (
            "Compare issuer, audience, signature and times of the token with what the listener expects "
            "(sasl.oauthbearer.expected.issuer, .audience, .jwks.endpoint.url); the broker's log says which it is."
        )
    yield Refused(mechanism, user if isinstance(user, str) else None, reason, advice)


def _first(tokens: Sequence[dict[str, Any]], name: str) -> Any:
    return next((token[name] for token in tokens if token.get(name)), None)


def _is_mechanism(name: Any) -> TypeGuard[str]:
    return isinstance(name, str) and _MECHANISM.fullmatch(name) is not None


def _expired(claims: dict[str, Any], shown: int) -> float | None:
    """Milliseconds for which a token had expired when it was shown, if it had (RFC 7519, 4.1.4: seconds)."""
    ends = claims.get("exp")
    if not isinstance(ends, int | float) or not 0 <= ends * SECOND_NS <= shown:
        return None
    return (shown - ends * SECOND_NS) / MILLISECOND_NS


def _token(body: str | None) -> Row:
    token = body_of(body).get("authBytes")
    return token if isinstance(token, dict) else {}
