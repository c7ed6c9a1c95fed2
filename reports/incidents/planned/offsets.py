"""Committed offsets that somebody sets who is no member of the group: planned, and what it skips or reads again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.words import clock
from kafkascope.reports.groups.body import body_of, rows
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, in_words
from kafkascope.reports.incidents.planned.changes import changes_made
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS

_Who: TypeAlias = tuple[str, str, str]
"""Client id, address, and the group whose offsets it set."""
_OF_LAG = ("group_id", "topic", "partition", "at", "width_ms", "committed_offset")


def offsets_set(signs: Signs) -> Iterator[Incident]:
    """Offsets that somebody who is no member committed for a group: where it goes on was moved."""
    made = {(row["connection"], row["number"]) for row in signs.once(changes_made)}
    share = pc.field("api") == "AlterShareGroupOffsets"
    made |= {(row["connection"], row["number"]) for row in signs.rows("errors", ("connection", "number"), share)}
    by_client: dict[_Who, list[Row]] = defaultdict(list)
    for row in signs.rows("group_events", where=pc.field("event") == EventKind.OFFSETS_ALTERED):
        if (row["connection"], row["number"]) not in made and row["at"] is not None:
            by_client[row["client_id"] or "?", row["client"] or "?", row["group_id"]].append(row)
    moved = _moved(signs, by_client)
    for (client_id, host, group), unordered in sorted(by_client.items()):
        rows = sorted(unordered, key=lambda row: (row["at"], row["packet"]))
        since, until = rows[0]["at"], rows[-1]["at"]
        topics = sorted({row["detail"] for row in rows if row["detail"]})
        effects = tuple(_skipped_and_read_again(moved.get((client_id, host, group), ())))
        yield Incident(
            kind=IncidentKind.ADMIN_ACTION,
            severity=Severity.INFO,
            certainty=Certainty.CERTAIN,
            subjects=(Subject(Role.GROUP, group), Subject(Role.CLIENT, client_id), Subject(Role.HOST, host)),
            started=since,
            ended=until,
            headline=f"{client_id} ({host}), which is no member, set committed offsets of group {group} from "
            f"{clock(since)} on{f': {listed(topics)}' if topics else ''}" + in_words(effects),
            evidence=tuple(
                Weighed(
                    "an OffsetCommit that names no member, answered without an error", row["packet"], row["at"], 0.9
                )
                for row in rows
            ),
            advice="Nothing, if this was planned (kafka-consumer-groups --reset-offsets, a mirror that carries offsets "
            "over); between committed_offset before and after (table lag) it skips records, or reads them again.",
            cost_ms=0,
            effects=effects,
        )


def _moved(signs: Signs, by_client: Mapping[_Who, Sequence[Row]]) -> dict[_Who, list[int]]:
    """By how many records partitions of groups were moved, where the capture shows what had been committed before."""
    first: dict[str, int] = {}  # when each group's were
    whose: dict[tuple[int, int], _Who] = {}  # by exchange
    for who, commits in by_client.items():
        at = min(row["at"] for row in commits)
        first[who[2]] = min(first.get(who[2], at), at)
        whose |= {(row["connection"], row["number"]): who for row in commits}
    before = _committed_before(signs, first) if first else {}
    moved: dict[_Who, list[int]] = defaultdict(list)
    for (who, topic, partition), offset in (_committed_by(signs, whose) if before else {}).items():
        if (known := before.get((who[2], topic, partition))) is not None:
            moved[who].append(offset - known)
    return moved


def _committed_before(signs: Signs, first: Mapping[str, int]) -> dict[tuple[str, str, int], int]:
    """What groups had committed before a time, by group and partition."""
    latest: dict[tuple[str, str, int], tuple[int, int]] = {}  # when, and what
    where = among("group_id", first) & pc.field("committed_offset").is_valid()
    for batch in signs.batches("lag", _OF_LAG, where):
        for row in batch.to_pylist():
            if row["at"] + row["width_ms"] * MILLISECOND_NS <= first[row["group_id"]]:
                place = row["group_id"], row["topic"], row["partition"]
                known = row["at"], row["committed_offset"]
                latest[place] = max(latest.get(place, known), known)
    return {place: offset for place, (_, offset) in latest.items()}


def _committed_by(signs: Signs, whose: Mapping[tuple[int, int], _Who]) -> dict[tuple[_Who, str, int], int]:
    """What the last of these exchanges committed, by who asked for it and partition."""
    latest: dict[tuple[_Who, str, int], tuple[tuple[int, int, int], int]] = {}
    where = (pc.field("api") == "OffsetCommit") & pc.field("connection").isin(sorted({one for one, _ in whose}))
    for batch in signs.batches("exchanges", ("connection", "number", "requested", "request"), where):
        for row in batch.to_pylist():
            if (who := whose.get((row["connection"], row["number"]))) is not None:
                order = row["requested"] or 0, row["connection"], row["number"]
                for topic, partition, offset in committed_in(row["request"]):
                    place, told = (who, topic, partition), (order, offset)
                    latest[place] = max(latest.get(place, told), told)
    return {place: offset for place, (_, offset) in latest.items()}


def _skipped_and_read_again(moved: Sequence[int]) -> Iterator[Effect]:
    skipped, again = sum(n for n in moved if n > 0), -sum(n for n in moved if n < 0)
    if skipped:
        yield Effect("records", f"{skipped:,} records that it had not committed are skipped", skipped)
    if again:
        yield Effect("records", f"{again:,} records that it had committed are read again", again)


def committed_in(request: str | None) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset of what an OffsetCommit commits."""
    for topic in rows(body_of(request).get("topics")):
        for one in rows(topic.get("partitions")) if "name" in topic else ():  # else it has an id in its place
            if one.get("committedOffset", -1) >= 0:
                yield topic["name"], one["partitionIndex"], one["committedOffset"]
