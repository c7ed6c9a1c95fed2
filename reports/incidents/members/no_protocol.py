"""Streams applications whose protocol (KIP-1071) no broker offers: they end without a word of it.

Their client sees from ApiVersions that StreamsGroupHeartbeat is not there, and ends. What shows is that a member asks
for the application's internal topics, which are not made before it has joined, finds its coordinator, and never joins.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from kafkascope.decoders import apis
from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import client_name, counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.findings.join_rules import JOINS, NO_STREAMS_GROUPS
from kafkascope.reports.groups.body import body_of, rows, text
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS

_INTERNAL = re.compile(r".+-(?:repartition|changelog)$")  # InternalTopologyBuilder: behind application.id
_COLUMNS = ("connection", "client_id", "api", "error", "request", "response", "requested", "answered", "request_packet")


class Unjoined(NamedTuple):
    """A client that found the coordinator of its group, and ended without joining."""

    group: str
    client_id: str
    topics: tuple[str, ...]  # internal ones that it asked for
    offered: Row  # an answer to ApiVersions without that protocol
    found: Row  # its coordinator


def unjoined(signs: Signs) -> list[Unjoined]:
    """All of them, by group and client id."""
    asked: dict[str, set[str]] = defaultdict(set)
    for row in signs.errors:
        is_missing = row["error"] == Error.UNKNOWN_TOPIC_OR_PARTITION and row["api"] == "Metadata"
        if is_missing and row["client_id"] and _INTERNAL.match(row["topic"] or ""):
            asked[row["client_id"]].add(row["topic"])
    said: dict[str, list[Row]] = defaultdict(list)
    where = among("client_id", asked) & pc.field("api").isin(["ApiVersions", "FindCoordinator", *JOINS])
    for row in signs.rows("exchanges", _COLUMNS, where) if asked else ():
        said[row["client_id"]].append(row)
    found = (_unjoined(signs, name, topics, said[name]) for name, topics in sorted(asked.items()))
    return sorted(one for one in found if one is not None)


def _unjoined(signs: Signs, client_id: str, asked: set[str], said: Sequence[Row]) -> Unjoined | None:
    if any(row["api"] in JOINS for row in said):
        return None
    if any(row["closed"] is None for row in signs.connections_named([client_id])):
        return None  # it may join yet
    well = [row for row in said if row["error"] == Error.NONE and row["answered"] is not None]
    offers = [(row, _offered(row)) for row in well if row["api"] == "ApiVersions"]
    offered = next((row for row, keys in offers if keys), None)
    if offered is None or any(apis.key_of("StreamsGroupHeartbeat") in keys for _, keys in offers):
        return None
    for row in well:
        group = _group_of(row) if row["api"] == "FindCoordinator" else None
        topics = tuple(sorted(topic for topic in asked if group and topic.startswith(f"{group}-")))
        if group and topics:
            return Unjoined(group, client_id, topics, offered, row)
    return None


def _offered(row: Row) -> set[object]:
    """The keys of the APIs that a broker has, by its answer to ApiVersions; none if that was cut."""
    return {one.get("apiKey") for one in rows(body_of(row["response"]).get("apiKeys"))}


def _group_of(row: Row) -> str | None:
    """The group whose coordinator was asked for."""
    body = body_of(row["request"])
    keys = body.get("coordinatorKeys") or [body.get("key")]
    return text(keys[0]) or None if body.get("keyType", 0) == 0 and isinstance(keys, list) else None


def not_offered(signs: Signs) -> Iterator[Incident]:
    """Streams applications that end as no broker offers their protocol; one each."""
    by_group: dict[str, list[Unjoined]] = defaultdict(list)
    for one in signs.once(unjoined):
        by_group[one.group].append(one)
    for group, found in sorted(by_group.items()):
        yield _not_offered(signs, group, found)


def _not_offered(signs: Signs, group: str, found: Sequence[Unjoined]) -> Incident:
    names = [one.client_id for one in found]
    since = min(one.offered["requested"] for one in found)
    until = max(row["closed"] for row in signs.connections_named(names))
    topics = listed(sorted({topic for one in found for topic in one.topics}))
    told, away = "ApiVersions told no StreamsGroupHeartbeat", "found its coordinator, and did not ask it to join"
    seen = [(one.offered, told, 0.6) for one in found] + [(one.found, away, 0.7) for one in found]
    return Incident(
        kind=IncidentKind.JOIN_REFUSED,
        severity=Severity.CRITICAL,
        certainty=Certainty.LIKELY,
        subjects=(*signs.clients(names, signs.asked_from(one.offered for one in found)), Subject(Role.GROUP, group)),
        started=since,
        ended=until,
        headline=f"{listed(names)} found the coordinator of Streams application {group}, and ended without joining, "
        f"from {clock(since)} on: group.protocol=streams needs StreamsGroupHeartbeat, which brokers do not offer",
        evidence=(
            *(
                Weighed(f"{client_name(row['client_id'])}: {what}", row["request_packet"], row["answered"], weight)
                for row, what, weight in seen
            ),
            Weighed(f"a missing topic: {topics} would be made when it has joined", None, None, 0.3, True),
        ),
        advice=NO_STREAMS_GROUPS,
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=(Effect("members", f"{counted(len(names), 'client')} cannot work", len(names)),),
        findings=signs.explained(("error_loop", "metadata_storm", "connection_churn"), since, until, clients=names),
    )
