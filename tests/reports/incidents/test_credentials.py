"""As whom clients authenticate in vain, and why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Incident
from tests.reports.incidents.tables_of import H1, H2, Row, at, connection, exchange, finding, found, only

SCRAM = "SCRAM-SHA-512"
FIRST = {"mechanism": SCRAM, "message": "client-first", "username": "app"}
FINAL = {"mechanism": SCRAM, "message": "client-final"}
PLAIN = {"mechanism": "PLAIN", "message": "client-first", "username": "app", "password": "[redacted]"}
SECONDS = at(0) // 1_000_000_000
BEARER = {"mechanism": "OAUTHBEARER", "message": "client-first", "claims": {"sub": "app", "exp": SECONDS + 3600}}
ABORT = {"mechanism": "OAUTHBEARER", "message": "client-abort"}
EXPIRED = BEARER | {"claims": {"sub": "app", "exp": SECONDS - 50}}


def told(status: str) -> Row:
    return {"mechanism": "OAUTHBEARER", "message": "server-error", "error": {"status": status}}


def tokens(*shown: tuple[Row, Row | str], connection: int = 1, **given: Any) -> list[Row]:
    """Exchanges of tokens, of which the last one is refused."""
    return [
        exchange(
            10 * connection + place,
            "SaslAuthenticate",
            10 + place,
            10.5 + place,
            connection=connection,
            error="SASL_AUTHENTICATION_FAILED" if place == len(shown) else "NONE",
            request=json.dumps({"authBytes": token}),
            response=json.dumps({"errorCode": 0, "authBytes": answer}),
            **given,
        )
        for place, (token, answer) in enumerate(shown, 1)
    ]


FAILED = finding("authentication_failed", f"client c1 ({H1})", "3 failures", 10, 20)


def told_of(*exchanges: Row) -> Incident:
    hosts = [connection(number, client=H2 if number == 9 else H1) for number in range(1, 10)]
    return only(findings=[FAILED], exchanges=list(exchanges), connections=hosts)


@pytest.mark.parametrize(
    ("shown", "words", "advice"),
    [
        ([(PLAIN, "")], "as app by PLAIN", FAILED["advice"]),
        ([(FIRST, "")], f"as app by {SCRAM}; the broker has no such user for {SCRAM}", "See whether the user is there"),
        (
            [(FIRST, {"mechanism": SCRAM, "message": "server-first"}), (FINAL, "")],
            f"as app by {SCRAM}; the user is there, and its password is another one",
            "Give the client the password",
        ),
        (
            [(EXPIRED, told("invalid_token")), (ABORT, "")],
            "as app by OAUTHBEARER; its token had expired 1 min 1 s before",
            "Have the client get a new token",
        ),
        (
            [(BEARER, told("insufficient_scope")), (ABORT, "")],
            "as app by OAUTHBEARER; its token lacks a scope that the broker wants: insufficient_scope",
            "Have the client ask for the scope",
        ),
        (
            [(BEARER, told("invalid_token")), (ABORT, "")],
            "as app by OAUTHBEARER; the broker does not take its token: invalid_token",
            "Compare issuer, audience",
        ),
        ([({"mechanism": "GSSAPI", "opaque": "700 bytes"}, "")], "GSSAPI", FAILED["advice"]),
    ],
)
def test_why_a_token_is_refused(shown: list[tuple[Row, Row | str]], words: str, advice: str) -> None:
    one = told_of(*tokens(*shown))
    assert one.headline.endswith(f": 3 failures ({words})")
    assert one.advice.startswith(advice)


@pytest.mark.parametrize(
    ("altered", "time", "told"),
    [
        ({"upsertions": [{"name": "app", "mechanism": 1}]}, 9, True),
        ({"deletions": [{"name": "app", "mechanism": 1}], "upsertions": []}, 9, True),
        ({"upsertions": [{"name": "ghost", "mechanism": 1}]}, 9, False),
        ({"upsertions": [{"name": "app", "mechanism": 1}]}, 10.1, False),
        ({"upsertions": [{"name": "app", "mechanism": 1}]}, -60, False),
    ],
)
def test_who_altered_the_credentials_is_named(altered: Row, time: float, told: bool) -> None:
    asked = exchange(
        3, "AlterUserScramCredentials", time, time + 0.1, connection=8, client_id="adm", request=json.dumps(altered)
    )
    hosts = [connection(1), connection(8, H2, client_id="adm")]
    incidents = found(findings=[FAILED], exchanges=[asked, *tokens((FIRST, ""))], connections=hosts)
    (one,) = [one for one in incidents if one.kind == "authentication_failed"]
    words = f"has no such user for {SCRAM}; adm ({H2}) had changed the credentials of app at {clock(at(time))})"
    assert (one.headline.endswith(words), "adm" in one.headline) == (told, told)
    assert (one.evidence[-1].packet == 3) == told


@pytest.mark.parametrize(
    ("by", "token", "told"),
    [
        (None, FIRST, f"as app by {SCRAM}; the broker has no such user for {SCRAM}"),
        (None, FIRST | {"username": "oth"}, None),
        (None, FINAL, None),  # for another reason
        ("adm", FIRST | {"username": "oth"}, f"the credentials of app, oth at {clock(at(9.5))}"),
        ("other", FIRST | {"username": "oth"}, None),
    ],
)
def test_clients_whose_credentials_fail_for_one_cause_are_one_incident(
    by: str | None, token: Row, told: str | None
) -> None:
    """Of one user for one reason, or as one person altered them."""
    connections = [connection(1), connection(2, H2, client_id="c2"), connection(8, H2, client_id="adm")]
    connections.append(connection(9, H2, client_id="other"))
    failed = [FAILED, finding("authentication_failed", f"client c2 ({H2})", "3 failures", 10, 20)]
    altered = [
        exchange(
            n,
            "AlterUserScramCredentials",
            9 + n / 10,
            9.1 + n / 10,
            connection=8 if name == "adm" else 9,
            client_id=name,
            request=json.dumps({"upsertions": [{"name": user}]}),
        )
        for n, name, user in ((4, "adm", "app"), (5, by, "oth"))
        if by
    ]
    tries = [*tokens((FIRST, "")), *tokens((token, ""), connection=2, client_id="c2")]
    incidents = found(findings=failed, exchanges=[*altered, *tries], connections=connections)
    incidents = [one for one in incidents if one.kind == "authentication_failed"]
    assert len(incidents) == (2 if told is None else 1)
    if told is not None:
        assert incidents[0].headline.startswith("2 clients alike (c1, c2), ")
        assert told in incidents[0].headline


def test_what_differs_between_tries_is_not_said_of_all() -> None:
    other = FIRST | {"username": "ghost"}
    one = told_of(*tokens((FIRST, ""), (FINAL, "")), *tokens((other, ""), connection=2))
    assert one.headline.endswith(f" (as app, ghost by {SCRAM})")
    assert one.advice == FAILED["advice"]
    assert told_of(*tokens((PLAIN, "")), *tokens((FIRST, ""), connection=2)).headline.endswith(f" (PLAIN, {SCRAM})")


def test_another_client_and_another_host_of_that_name_are_not_asked() -> None:
    others = [*tokens((PLAIN, ""), client_id="c2"), *tokens((PLAIN, ""), connection=9)]
    assert told_of(*others).headline.endswith(": 3 failures")


@pytest.mark.parametrize(
    "request_body",
    [None, '{"authBytes": ', "[]", '{"authBytes": "x"}', '{"authBytes": {"mechanism": "a\\n"}}', '{"authBytes": {}}'],
)
def test_tokens_that_cannot_be_read_tell_nothing(request_body: str | None) -> None:
    rows = [row | {"request": request_body, "response": request_body} for row in tokens((PLAIN, ""))]
    assert told_of(*rows).headline.endswith(": 3 failures")


@pytest.mark.parametrize("odd", [{"claims": 7}, {"claims": {"exp": "x"}}, {"claims": {"exp": 1e300, "sub": 7}}])
def test_odd_claims_are_no_reason(odd: Row) -> None:
    one = told_of(*tokens((BEARER | odd, {"error": "x"}), (ABORT, "")))
    assert one.headline.endswith(" (OAUTHBEARER)")
