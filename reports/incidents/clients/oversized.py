"""Requests at which a broker closes the connection, as they are larger than it reads (socket.request.max.bytes).

The broker sends no error: it reads the size that stands before a request, and closes the connection
(kafka.network.SocketServer, NetworkReceive). So it shows by sizes: larger ones are never answered, smaller ones are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow.compute as pc

from kafkascope.reports.columns.text import address, counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.clients import too_old
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_COLUMNS = ("connection", "api", "client_id", "requested", "request_bytes", "request_packet")
_EXPLAINED = ("unanswered", "connection_churn", "sent_again", "metadata_storm", "api_versions_storm")
_EVIDENCE = 8


@dataclass(frozen=True, slots=True)
class Oversized:
    """A client, and its requests at which a broker closed the connection, by time."""

    place: str  # address:port of the broker
    host: str
    name: str  # client id
    rows: tuple[Row, ...]  # of exchanges
    largest: int  # bytes of the largest request that the broker answered


def found(signs: Signs) -> list[Oversized]:
    """All of them, by broker and client."""
    where = (
        (pc.field("outcome") == "unanswered")
        & pc.field("requested").is_valid()
        & (pc.field("request_bytes") >= threshold("oversized"))
    )
    rows = sorted(signs.rows("exchanges", _COLUMNS, where), key=lambda row: (row["requested"], row["connection"]))
    connections = signs.connections_by_number(sorted({row["connection"] for row in rows})) if rows else {}
    at_old_requests = {row["connection"] for one in signs.once(too_old.found) for row in one.rows} if rows else set()
    of_client: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        connection = connections.get(row["connection"])
        if (
            connection is not None
            and row["connection"] not in at_old_requests
            and not connection["lost_bytes"]  # else it may be the capture that lacks the answer
            and connection["closed"] is not None
            and 0 <= connection["closed"] - row["requested"] <= SECOND_NS
            and connection["closed_by"] == "broker"
        ):
            place = address(connection["broker"], connection["broker_port"])
            of_client[place, connection["client"], row["client_id"] or "?"].append(row)
    largest = _largest_answered(signs, {place for place, _, _ in of_client}) if of_client else {}
    oversized = []
    for (place, host, name), closed in sorted(of_client.items()):
        too_large = [row for row in closed if row["request_bytes"] > largest.get(place, 0)]
        if len({row["connection"] for row in too_large}) >= threshold("turned_away"):
            oversized.append(Oversized(place, host, name, tuple(too_large), largest.get(place, 0)))
    return oversized


def closed_at(signs: Signs) -> Iterator[Incident]:
    """Incidents of clients whose largest requests end their connections, one for each client and broker."""
    for one in signs.once(found):
        yield _closed_at(signs, one)


def _largest_answered(signs: Signs, places: set[str]) -> dict[str, int]:
    """The size of the largest request that each broker answered."""
    largest: dict[int, int] = {}
    where = pc.field("outcome") == "answered"
    for batch in signs.batches("exchanges", ("connection", "request_bytes"), where):
        for row in batch.group_by("connection").aggregate([("request_bytes", "max")]).to_pylist():
            connection = row["connection"]
            largest[connection] = max(largest.get(connection, 0), row["request_bytes_max"])
    found: dict[str, int] = defaultdict(int)
    for batch in signs.batches("connections", ("connection", "broker", "broker_port")):
        for row in batch.to_pylist():
            if (place := address(row["broker"], row["broker_port"])) in places:
                found[place] = max(found[place], largest.get(row["connection"], 0))
    return found


def _closed_at(signs: Signs, one: Oversized) -> Incident:
    rows, name = one.rows, one.name
    since, until = rows[0]["requested"], rows[-1]["requested"]
    sizes = [row["request_bytes"] for row in rows]
    apis = sorted({row["api"] for row in rows})
    broker = signs.where(one.place)
    effects = (Effect("requests", f"{counted(len(rows), 'request')} never answered", len(rows)),)
    return Incident(
        kind=IncidentKind.RECORD_TOO_LARGE,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(*signs.clients([name], signs.asked_from(rows)), *signs.broker(broker, since)),
        started=since,
        ended=until,
        headline=f"{signs.broker_words(broker, since)} closes the connection at each {', '.join(apis)} of {name} "
        f"({one.host}) of {min(sizes):,} bytes and more, {counted(len(rows), 'time')} from {clock(since)} to "
        f"{clock(until)}: larger than it reads" + outcome(effects),
        evidence=(
            *(
                Weighed(
                    f"{row['api']} of {row['request_bytes']:,} bytes was not answered, and the connection ended",
                    row["request_packet"],
                    row["requested"],
                    0.8,
                )
                for row in rows[:_EVIDENCE]
            ),
            Weighed(f"the largest request that it answered had {one.largest:,} bytes", None, None, 0.7),
        ),
        advice="Compare the size with socket.request.max.bytes of the broker (100 MB by default), which closes the "
        "connection without an error at what is larger; have the client make smaller requests (batch.size, "
        "max.request.size).",
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=effects,
        findings=signs.explained(_EXPLAINED, since, until, clients=[name]),
    )
