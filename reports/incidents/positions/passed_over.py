"""Positions that are not in the log any more, of readers that look where it begins first (sarama): no fetch of theirs
is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import moment
from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.columns.text import client_name
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.planned.alterations import retention_before
from kafkascope.reports.incidents.positions.lost_positions import ADVICE_DELETED, altered, deletion_before, why
from kafkascope.reports.incidents.positions.told_commits import ToldCommit, told_commits
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import SECOND_NS


class _Skip(NamedTuple):
    """A partition that a member began behind what its group had committed, as the log does not have that any more."""

    partition: int
    at: int  # of the first fetch
    client_id: str
    committed: int
    log_start: int
    packet: int | None  # in which the group was told what it had committed


def passed_over(signs: Signs) -> Iterator[Incident]:
    """Groups that begin where the log does now, behind what they are told that they have committed; one a topic.

    Who finds that out by a fetch is refused, which is told as such.
    """
    for (group, topic), partitions in sorted(_candidates(signs).items()):
        names = [name for name, groups in signs.groups_of.items() if groups == [group]]
        connections = {row["connection"]: row["client_id"] for row in signs.connections_named(names)} if names else {}
        if connections and (skips := _skips(signs, connections, topic, partitions)):
            yield _incident(signs, group, topic, skips)


def _candidates(signs: Signs) -> dict[tuple[str, str], set[int]]:
    """Partitions whose log begins behind what some group had committed at some time, by group and topic."""
    begins: dict[tuple[str, int], int] = {}
    where = (pc.field("api") == "Fetch") & (pc.field("log_start_offset") > 0)
    for batch in signs.batches("partitions", ("topic", "partition", "log_start_offset"), where):
        for row in batch.group_by(["topic", "partition"]).aggregate([("log_start_offset", "max")]).to_pylist():
            place = row["topic"], row["partition"]
            begins[place] = max(begins.get(place, 0), row["log_start_offset_max"])
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    keys = ["group_id", "topic", "partition"]
    for batch in signs.batches("lag", (*keys, "committed_offset"), pc.field("committed_offset") >= 0) if begins else ():
        for row in batch.group_by(keys).aggregate([("committed_offset", "min")]).to_pylist():
            if row["committed_offset_min"] < begins.get((row["topic"], row["partition"]), 0):
                found[row["group_id"], row["topic"]].add(row["partition"])
    return found


def _skips(signs: Signs, connections: Mapping[int, str], topic: str, partitions: set[int]) -> list[_Skip]:
    """What members began behind what is committed; connections with the client id of each."""
    told = [
        one
        for one in told_commits(signs, connections, topic)
        if one.answered is not None and one.offset >= 0 and one.partition in partitions
    ]
    if not told:
        return []
    answered = [one.answered for one in told if one.answered is not None]
    where = (
        (pc.field("api") == "Fetch")
        & (pc.field("topic") == topic)
        & pc.field("partition").isin(sorted(partitions))
        & pc.field("connection").isin(sorted(connections))
        & (pc.field("at") >= moment(min(answered)))
        & (pc.field("at") <= moment(max(answered) + int(threshold("one_trouble") * SECOND_NS)))
    )
    columns = ("at", "connection", "partition", "fetch_offset", "log_start_offset", "error")
    fetches = (row for row in signs.rows("partitions", columns, where) if row["fetch_offset"] is not None)
    events: list[tuple[int, ToldCommit | Row]] = [
        *zip(answered, told, strict=True),
        *((row["at"], row) for row in fetches),
    ]
    waiting: dict[tuple[str, int], ToldCommit] = {}  # what a client is told, until its next fetch
    found: dict[int, _Skip] = {}
    for at, event in sorted(events, key=itemgetter(0)):
        if isinstance(event, ToldCommit):
            waiting[connections[event.connection], event.partition] = event
            continue
        name, partition = connections[event["connection"]], event["partition"]
        if (before := waiting.pop((name, partition), None)) is not None and event["error"] == Error.NONE:
            begin = event["log_start_offset"] or 0
            if before.offset < begin == event["fetch_offset"]:  # who begins elsewhere may have chosen its own place
                found[partition] = _Skip(partition, at, name, before.offset, begin, before.packet)
    return [skip for _, skip in sorted(found.items())]


def _incident(signs: Signs, group: str, topic: str, skips: Sequence[_Skip]) -> Incident:
    since, until = min(skip.at for skip in skips), max(skip.at for skip in skips)
    names = sorted({skip.client_id for skip in skips})
    deletion = deletion_before(signs, topic, since)
    retention = None if deletion else retention_before(signs, topic, since)
    lost = sum(skip.log_start - skip.committed for skip in skips)
    partitions = in_words(f"{topic}-{skip.partition}" for skip in skips)
    deleted = (
        () if deletion is None else (Weighed("DeleteRecords", deletion["request_packet"], deletion["requested"], 0.9),)
    )
    return Incident(
        kind=IncidentKind.OFFSETS_LOST,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=(Subject(Role.GROUP, group), Subject(Role.TOPIC, topic), *signs.clients(names, signs.heard_of(group))),
        started=since,
        ended=until,
        headline=f"{listed(names)} of group {group} began {partitions} behind what it had committed, at "
        f"{clock(since)}: {why(deletion, retention)}; {lost:,} records were deleted before they were read",
        evidence=(
            *deleted,
            *altered(retention),
            *(
                Weighed(
                    f"{topic}-{skip.partition}: {skip.committed:,} was committed, and {client_name(skip.client_id)} "
                    f"began where the log does, at {skip.log_start:,}",
                    skip.packet,
                    skip.at,
                    0.9,
                )
                for skip in skips
            ),
        ),
        advice=ADVICE_DELETED,
        cost_ms=0,
        effects=(Effect("records", f"{lost:,} records deleted before they were read", lost),),
    )
