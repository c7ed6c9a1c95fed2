"""Connections that a broker closes before it has done anything for the client: a limit, or SASL that it waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address, counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.clients import oversized, too_old
from kafkascope.reports.incidents.incident import Incident, Subject, Weighed, every
from kafkascope.reports.incidents.planned.alterations import limit_before
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_CLEAR = ("plaintext", "tls")  # security of connections without SASL, or of those that began before the capture


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """Connections of a client that a broker closed unanswered, at one address:port."""

    client: str
    place: str
    rows: tuple[Row, ...]  # of connections, by time
    asked: frozenset[str]  # APIs of the first requests that it did not answer
    greeted: bool  # whether it answered ApiVersions before

    @property
    def names(self) -> list[str]:
        """Client ids on these connections."""
        return sorted({row["client_id"] for row in self.rows if row["client_id"]})

    @property
    def who(self) -> str:
        """``c1 (10.0.1.1)``."""
        return f"{listed(self.names or ['a client'])} ({self.client})"

    @property
    def since(self) -> int:
        """When the first was opened."""
        return int(self.rows[0]["opened"])

    @property
    def until(self) -> int:
        """When the last was closed."""
        return int(max(row["closed"] for row in self.rows))


def found(signs: Signs) -> list[TurnedAway]:
    """All of them, by client and place."""
    unanswered: dict[int, list[tuple[int, str]]] = defaultdict(list)
    where = (pc.field("outcome") == "unanswered") & pc.field("requested").is_valid()
    for row in signs.rows("exchanges", ("connection", "api", "requested"), where):
        unanswered[row["connection"]].append((row["requested"], row["api"] or ""))
    explained = {row["connection"] for one in signs.once(too_old.found) for row in one.rows}
    explained |= {row["connection"] for one in signs.once(oversized.found) for row in one.rows}
    short = {
        number: row
        for number, row in signs.connections_by_number(sorted(unanswered)).items()
        if number not in explained
        and None not in (row["opened"], row["closed"])
        and row["closed"] - row["opened"] <= threshold("connections_short") * SECOND_NS
        and row["client"] != row["broker"]
        and row["packets_down"]
        and not row["lost_bytes"]  # else it may be the capture that lacks the answer
        and row["closed_by"] == "broker"
    }
    answered: dict[int, set[str]] = defaultdict(set)
    where = pc.field("connection").isin(sorted(short)) & (pc.field("outcome") == "answered")
    for row in signs.rows("exchanges", ("connection", "api"), where) if short else ():
        answered[row["connection"]].add(row["api"] or "")
    by_place: dict[tuple[str, str, bool], list[Row]] = defaultdict(list)
    for number, row in short.items():
        if answered[number] <= {"ApiVersions"}:
            key = row["client"], address(row["broker"], row["broker_port"]), bool(answered[number])
            by_place[key].append(row)
    alike = []
    for (client, place, greeted), rows in sorted(by_place.items()):
        if len(rows) >= threshold("turned_away"):
            rows.sort(key=lambda row: (row["opened"], row["connection"]))
            asked = frozenset(min(unanswered[row["connection"]])[1] for row in rows)
            alike.append(TurnedAway(client, place, tuple(rows), asked, greeted))
    return alike


def turned_away(signs: Signs) -> Iterator[Incident]:
    """Incidents of clients without SASL where it is wanted, and of those that have too many connections."""
    served = signs.served({one.place for one in signs.once(found)})
    for one in signs.once(found):
        mine = {row["connection"] for row in one.rows}
        others = [
            row
            for row in served[one.place]
            if row["connection"] not in mine and (row["opened"] is None or row["opened"] <= one.until)
        ]
        if one.greeted:
            mechanisms = sorted({row["security"] for row in others if row["security"] not in (None, *_CLEAR)})
            if not any(row["security"] in _CLEAR and row["opened"] is not None for row in others):
                yield _without_sasl(signs, one, mechanisms)
        else:
            others = [row for row in others if row["closed"] is None or row["closed"] > one.since]
            if any(row["client"] == one.client for row in others) or len({row["client"] for row in others}) > 1:
                yield _too_many(signs, one, [row for row in others if row["client"] == one.client])


def _without_sasl(signs: Signs, one: TurnedAway, mechanisms: Sequence[str]) -> Incident:
    number = counted(len(one.rows), "connection")
    evidence = [
        Weighed(
            f"ApiVersions was answered, and the connection closed at the next request ({listed(one.asked)})",
            row["connection"],
            row["closed"],
            0.6,
        )
        for row in one.rows
    ]
    if mechanisms:
        evidence.insert(0, Weighed(f"others authenticate there by SASL ({listed(mechanisms)})", None, None, 0.9))
    return Incident(
        kind=IncidentKind.AUTHENTICATION_FAILED,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN if mechanisms else Certainty.LIKELY,
        subjects=_subjects(signs, one),
        started=one.since,
        ended=one.until,
        headline=f"{one.who} does not authenticate at {one.place}, which wants SASL"
        f"{f' ({listed(mechanisms)})' if mechanisms else ', as it seems'}: {number} closed by "
        f"{signs.broker_words(signs.where(one.place))} at the first request, from {clock(one.since)} to "
        f"{clock(one.until)}",
        evidence=tuple(evidence),
        advice="Set security.protocol of the client to SASL_PLAINTEXT (SASL_SSL with TLS), with a mechanism and "
        "credentials, or give it the port of a listener without SASL.",
        cost_ms=(one.until - one.since) / MILLISECOND_NS,
        findings=_explained(signs, one),
    )


def _too_many(signs: Signs, one: TurnedAway, working: Sequence[Row]) -> Incident:
    number = counted(len(one.rows), "connection")
    go = "goes" if len(working) == 1 else "go"
    beside = f"while {counted(len(working), 'other')} of it {go} on" if working else "while others are served"
    limit = limit_before(signs, one.client, one.since)
    after = "" if limit is None else f", after {limit.words}"
    return Incident(
        kind=IncidentKind.TURNED_AWAY,
        severity=Severity.CRITICAL,
        certainty=Certainty.LIKELY,
        subjects=_subjects(signs, one),
        started=one.since,
        ended=one.until,
        headline=f"{signs.broker_words(signs.where(one.place))} closed {number} of {one.who} unanswered, from "
        f"{clock(one.since)} to {clock(one.until)}, {beside}: a limit of connections, as it seems{after}",
        evidence=(
            *(
                Weighed(
                    f"connection closed before {listed(one.asked)} was answered", row["connection"], row["closed"], 0.7
                )
                for row in one.rows
            ),
            *(() if limit is None else (limit.evidence(0.6),)),
        ),
        advice="Look at max.connections.per.ip (and its overrides), max.connections and max.connection.creation.rate "
        "of the listener, at connection_creation_rate of the address (kafka-configs.sh --describe --entity-type ips), "
        "and at how many connections this host has: clients that are not closed add up, and so do those of all hosts "
        "behind one address (NAT).",
        cost_ms=(one.until - one.since) / MILLISECOND_NS,
        findings=_explained(signs, one),
    )


def _subjects(signs: Signs, one: TurnedAway) -> tuple[Subject, ...]:
    return (*every(Role.CLIENT, one.names), Subject(Role.HOST, one.client), *signs.broker(signs.where(one.place)))


def _explained(signs: Signs, one: TurnedAway) -> frozenset[str]:
    kinds = ("connection_churn", "metadata_storm", "api_versions_storm", "unanswered")
    return signs.explained(kinds, one.since, one.until, clients=one.names)
