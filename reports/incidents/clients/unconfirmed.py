"""Writes without acknowledgement (acks=0) that a broker refuses: it closes the connection, and says nothing else.

There is no answer in which it could tell why (kafka.server.KafkaApis, handleProduceRequest). Only of partitions that it
does not lead any more the cluster tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import in_words as partitions_in_words
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address, counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.clients.going_on import GoingOn
from kafkascope.reports.incidents.incident import EVIDENCE_SHOWN, Effect, Incident, Weighed, every, in_words
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_COLUMNS = ("connection", "number", "requested", "request_packet")
_TOLD_NS = SECOND_NS  # in which somebody asks who leads a partition, and is seen to be told
_LEARNS_NS = 5 * SECOND_NS  # in which producers learn that a leader has moved: they ask as their connection is closed
_ADVICE = (
    "Have the producer ask for acknowledgements (acks=1, or all): then it is told why. What the broker refuses without "
    "them is lost, and nobody hears of it: records that are too large, a topic that is not there, or that it may not "
    "write to, a partition that another broker leads."
)
_ADVICE_MOVED = (
    "Nothing, if some records may be lost whenever leaders move, as with each restart of a broker; else have the "
    "producer ask for acknowledgements (acks=1, or all): then it is told, and writes them to the new leader."
)
_EXPLAINED = ("connection_churn", "api_versions_storm", "metadata_storm", "unanswered")


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """A producer, and its writes behind which a broker closed the connection, by time."""

    place: str  # address:port of the broker
    host: str
    name: str  # client id
    rows: tuple[Row, ...]  # of exchanges
    topics: list[str]
    records: int
    partitions: tuple[frozenset[str], ...]  # of each of the rows: topic-number


def found(signs: Signs) -> list[Unconfirmed]:
    """All of them, by broker and client."""
    last = _last_writes(signs)
    connections = signs.connections_by_number(sorted(last)) if last else {}
    whose = {(row["client"], row["client_id"]) for row in connections.values() if row["client_id"]}
    lives: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in signs.connections_of(whose) if whose else ():
        lives[row["client"], row["client_id"]].append(row)
    going_on = {who: GoingOn(rows) for who, rows in lives.items()}
    of_client: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for number, connection in connections.items():
        row, who = last[number], (connection["client"], connection["client_id"])
        closed = connection["closed"]
        if (
            closed is not None
            and 0 <= closed - row["requested"] <= SECOND_NS
            and connection["closed_by"] == "broker"
            and connection["packets_down"]
            and not connection["lost_bytes"]
            and who in going_on
            and going_on[who].has_another(number, row["requested"], closed + SECOND_NS)
        ):
            of_client[address(connection["broker"], connection["broker_port"]), *who].append(row)
    refused = {
        who: sorted(rows, key=lambda row: (row["requested"], row["connection"]))
        for who, rows in sorted(of_client.items())
        if _in_turn([connections[row["connection"]] for row in rows]) >= threshold("turned_away")
    }
    written = _written(signs, [row for rows in refused.values() for row in rows])
    told = []
    for (place, host, name), rows in refused.items():
        batches = [batch for row in rows for batch in written[row["connection"], row["number"]]]
        topics = sorted({topic for topic, *_ in batches if topic})
        records = sum(count for *_, count in batches)
        partitions = tuple(
            frozenset(f"{topic}-{partition}" for topic, partition, _ in written[row["connection"], row["number"]])
            for row in rows
        )
        told.append(Unconfirmed(place, host, name, tuple(rows), topics, records, partitions))
    return told


def _last_writes(signs: Signs) -> dict[int, Row]:
    """The last write without acknowledgement on each connection; there may be millions, and they come in turn."""
    last: dict[int, Row] = {}
    where = (pc.field("outcome") == "one_way") & (pc.field("api") == "Produce") & pc.field("requested").is_valid()
    for batch in signs.batches("exchanges", _COLUMNS, where):
        latest = batch.group_by("connection").aggregate([(name, "max") for name in _COLUMNS[1:]])
        for row in latest.rename_columns(["connection", *_COLUMNS[1:]]).to_pylist():
            if row["number"] >= last.get(row["connection"], row)["number"]:
                last[row["connection"]] = row
    return last


def _in_turn(connections: Iterable[Row]) -> int:
    """How many of them were opened when those before had ended: many that end at once are of a broker that stops."""
    count, until = 0, 0
    for row in sorted(connections, key=lambda row: (row["closed"], row["connection"])):
        if (row["opened"] or 0) >= until:
            count, until = count + 1, row["closed"]
    return count


def refused(signs: Signs) -> Iterator[Incident]:
    """An incident for each producer and broker."""
    for one in signs.once(found):
        yield _refused(signs, one)


def _moved_away(signs: Signs, one: Unconfirmed) -> tuple[int, list[str]] | None:
    """Since when a broker does not lead what was written to it each time, and what that is; None: it may well do."""
    since, until = one.rows[0]["requested"], one.rows[-1]["requested"]
    node = signs.node(signs.where(one.place), since)
    if node is None:
        return None
    led: dict[str, list[tuple[int, bool]]] = defaultdict(list)  # by partition: from when on the broker led it, or not
    for row in signs.events_of(node, 0, until + _TOLD_NS):
        did, does = (node.id in (row[name] or "").split(",") for name in ("before", "after"))
        if row["event"] == "leader_changed" and did != does:
            for partition in row["partitions"] or ():
                led[partition].append((row["at"], does))
    moved: dict[str, int] = {}
    for row, partitions in zip(one.rows, one.partitions, strict=True):
        known = {each: [turn for turn in led[each] if turn[0] <= row["requested"] + _TOLD_NS] for each in partitions}
        away = {each: turns[-1][0] for each, turns in known.items() if turns and not turns[-1][1]}
        if not away:
            return None
        moved |= away
    return min(moved.values()), sorted(moved)


def _refused(signs: Signs, one: Unconfirmed) -> Incident:
    since, until, count = one.rows[0]["requested"], one.rows[-1]["requested"], len(one.rows)
    topics, records = one.topics, one.records
    broker = signs.broker_words(signs.where(one.place), since)
    lost = (
        f"{counted(records, 'record')} in {counted(count, 'request')} lost" if records else f"{count:,} requests lost"
    )
    effects = (Effect("records", lost, records or count),)
    moved = _moved_away(signs, one)
    why = ", and it does not say why"
    if moved is not None:
        why = f", and it leads {partitions_in_words(moved[1])} no more (told at {clock(moved[0])})"
    passes = moved is not None and until - moved[0] <= _LEARNS_NS
    return Incident(
        kind=IncidentKind.REQUEST_REFUSED,
        severity=Severity.INFO if passes else Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(
            *signs.clients([one.name], signs.asked_from(one.rows)),
            *every(Role.TOPIC, topics[:EVIDENCE_SHOWN]),
            *signs.broker(signs.where(one.place), since),
        ),
        started=since,
        ended=until,
        headline=f"{broker} closes the connection at what {one.name} ({one.host}) writes"
        f"{f' to {listed(topics)}' if topics else ''} without acknowledgement (acks=0), {counted(count, 'time')} from "
        f"{clock(since)} to {clock(until)}: that is how it refuses such writes{why}" + in_words(effects),
        evidence=tuple(
            Weighed(
                "the connection was closed behind a Produce with acks=0, while the client went on with another one",
                row["request_packet"],
                row["requested"],
                0.7,
            )
            for row in one.rows
        ),
        advice=_ADVICE if moved is None else _ADVICE_MOVED,
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=effects,
        findings=signs.explained(_EXPLAINED, since, until, clients=[one.name]),
    )


def _written(signs: Signs, rows: Sequence[Row]) -> dict[tuple[int, int], list[tuple[str | None, int | None, int]]]:
    """Topic, partition and records of the batches of these requests."""
    numbers = {(row["connection"], row["number"]) for row in rows}
    where = pc.field("connection").isin(sorted({connection for connection, _ in numbers}))
    columns = ("connection", "number", "topic", "partition", "records")
    written: dict[tuple[int, int], list[tuple[str | None, int | None, int]]] = defaultdict(list)
    for batch in signs.batches("batches", columns, where) if numbers else ():
        for row in batch.to_pylist():
            if (row["connection"], row["number"]) in numbers:
                written[row["connection"], row["number"]].append((row["topic"], row["partition"], row["records"] or 0))
    return written
