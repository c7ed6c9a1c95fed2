"""Rebalances and group events out of their tables: counted over all groups, and in full for those that matter most."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.reports.columns import scanning
from kafkascope.reports.columns.arrow import among, numbered
from kafkascope.reports.groups.history import Contributing, Event, Evidence, Member, Rebalance, Unowned
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.tables import GROUP_EVENTS, REBALANCES
from kafkascope.reports.vocabulary.triggers import Trigger

_NESTED: dict[str, type[Any]] = {
    "evidence": Evidence,
    "contributing": Contributing,
    "members": Member,
    "unowned": Unowned,
}
_COUNTED = ["group_id", "protocol", "trigger", "certainty", "cost_ms", "duration_ms", "unowned_ms", "started"]
_HEAVY = ("members", "evidence", "contributing", "unowned", "moved")  # grow with members and partitions
_MEMBERS = "member_count"
_ROWS_AT_ONCE = 512
_HELD_BYTES = 100_000_000  # of rows in full; as Python's values they are several times that
# Events that say most of what went wrong are kept first where a group has too many to show.
_LESS_TELLING = frozenset(
    {
        EventKind.SYNCED,
        EventKind.EPOCH_SEEN,
        EventKind.ASSIGNMENT_GIVEN,
        EventKind.ASSIGNMENT_REPORTED,
        EventKind.STATUS_TOLD,
    }
)


@dataclass(slots=True)
class GroupCounts:
    """What all rebalances of one group come to. Milliseconds; worst is the largest of one rebalance."""

    group_id: str
    protocol: str | None = None  # the last one
    protocols: list[str] = field(default_factory=list)  # all that it has had, in order
    rebalances: int = 0
    triggers: dict[str, int] = field(default_factory=dict)
    cost_ms: float = 0.0
    worst_cost_ms: float = 0.0
    worst_unowned_ms: float = 0.0
    first: int | None = None
    last: int | None = None

    @property
    def causes(self) -> list[tuple[str, int]]:
        """Triggers and how often each was, the most frequent first."""
        return sorted(self.triggers.items(), key=lambda item: (-item[1], item[0]))


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """A group with its rebalances in order of time: all of them, or the first so many."""

    counts: GroupCounts
    rebalances: list[Rebalance]
    member_counts: list[int]  # of each rebalance, also where the members themselves were too many to keep
    events: list[Event]
    events_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups, the ones to look at first before others."""

    shown: list[GroupAnswer]
    counted_only: list[GroupCounts]  # too many to show in full
    left_out: int  # too many to be named even
    total: int  # of groups
    rebalances: int  # of all of them
    triggers: Mapping[str, int]  # of all of them


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """How much of the groups is kept in full: a page has to be read, and a browser has to open it."""

    groups: int = 1_000
    rebalances: int = 10_000
    events: int = 20_000
    events_a_group: int = 1_000
    named: int = 5_000


def groups(
    rebalances: ds.Dataset | None, events: ds.Dataset | None, limits: GroupLimits, first: Iterable[str] = ()
) -> Groups | None:
    """Groups in order of weight, those of ``first`` (by group id) before all others; None without the table.

    Memory is bounded by the number of groups (some hundred bytes each) and by the limits, not by the rebalances.
    """
    if rebalances is None:
        return None
    counted = _count(rebalances)
    wanted = {group_id: place for place, group_id in enumerate(first)}
    ranked = heapq.nsmallest(
        limits.named,
        counted.values(),
        key=lambda g: (wanted.get(g.group_id, len(wanted)), -g.cost_ms, -g.rebalances, g.group_id),
    )
    chosen: list[GroupCounts] = []
    room = limits.rebalances
    for one in ranked[: limits.groups]:
        if room <= 0:
            break
        chosen.append(one)
        room -= one.rebalances
    kept = _counted(_rows_of(rebalances, REBALANCES, [g.group_id for g in chosen], "started", limits.rebalances))
    happened = (
        {} if events is None else _events(events, [g.group_id for g in chosen], limits.events, limits.events_a_group)
    )
    by_group: dict[str, tuple[list[Rebalance], list[int]]] = {}
    for row, members in kept:
        mine = by_group.setdefault(row.group_id, ([], []))
        mine[0].append(row)
        mine[1].append(members)
    triggers: dict[str, int] = {}
    for one in counted.values():
        for trigger, count in one.triggers.items():
            triggers[trigger] = triggers.get(trigger, 0) + count
    return Groups(
        shown=[GroupAnswer(g, *by_group.get(g.group_id, ([], [])), *happened.get(g.group_id, ([], 0))) for g in chosen],
        counted_only=ranked[len(chosen) :],
        left_out=len(counted) - len(ranked),
        total=len(counted),
        rebalances=sum(g.rebalances for g in counted.values()),
        triggers=dict(sorted(triggers.items(), key=lambda item: (-item[1], item[0]))),
    )


def rebalances_of(table: pa.Table) -> list[Rebalance]:
    """Rows of the table rebalances as values, in order of time; times are nanoseconds."""
    return [row for row, _ in _counted(table)]


def _counted(table: pa.Table) -> list[tuple[Rebalance, int]]:
    """Rows as values, in order of time, with how many members each has."""
    rows = []
    for row in numbered(table).to_pylist():
        for name, make in _NESTED.items():
            row[name] = [make(**one) for one in row[name] or ()]
        for member in row["members"]:
            member.assignors, member.subscription = member.assignors or [], member.subscription or []
        row["moved"] = row["moved"] or []
        count = row.pop(_MEMBERS, len(row["members"]))
        rows.append((Rebalance(**row), count))
    return sorted(rows, key=lambda one: (_begin(one[0]), _generation(one[0])))


def _generation(row: Rebalance) -> int:
    return row.to_generation if row.to_generation is not None else -1


def events_of(table: pa.Table) -> list[Event]:
    """Rows of the table group_events as values, in order of time; times are nanoseconds."""
    return sorted((Event(**row) for row in numbered(table).to_pylist()), key=lambda e: (e.at or 0, e.packet or 0))


def weight_ms(row: Rebalance) -> float:
    """How bad a rebalance was: how long until all worked again, or the longest that nobody owned a partition."""
    cost = row.cost_ms if row.cost_ms is not None else row.duration_ms
    return max(cost or 0.0, row.unowned_ms or 0.0)


def _begin(row: Rebalance) -> int:
    known = (row.started, row.joined, row.stable)
    return next((at for at in known if at is not None), 0)


def _count(rebalances: ds.Dataset) -> dict[str, GroupCounts]:
    counted: dict[str, GroupCounts] = {}
    for batch in rebalances.to_batches(columns=_COUNTED):
        for row in numbered(pa.Table.from_batches([batch])).to_pylist():
            one = counted.setdefault(row["group_id"], GroupCounts(row["group_id"]))
            one.protocol = row["protocol"] or one.protocol
            if one.protocol is not None and one.protocol not in one.protocols:
                one.protocols.append(one.protocol)
            one.rebalances += 1
            trigger = row["trigger"] or Trigger.UNKNOWN
            one.triggers[trigger] = one.triggers.get(trigger, 0) + 1
            cost = row["cost_ms"] if row["cost_ms"] is not None else row["duration_ms"] or 0.0
            one.cost_ms += cost
            one.worst_cost_ms = max(one.worst_cost_ms, cost)
            one.worst_unowned_ms = max(one.worst_unowned_ms, row["unowned_ms"] or 0.0)
            if (at := row["started"]) is not None:
                one.first = at if one.first is None else min(one.first, at)
                one.last = at if one.last is None else max(one.last, at)
    return counted


def _rows_of(table: ds.Dataset, schema: pa.Schema, group_ids: Sequence[str], time: str, limit: int) -> pa.Table:
    """Rows of some groups, the first ones in time if there are more than the limit; with the number of members.

    Rows are cut to the limit as they come, and what is nested is left out once it is too much, so memory stays bounded
    whatever the size of the table and of the groups.
    """
    heavy = [name for name in _HEAVY if name in schema.names]
    if heavy:
        schema = schema.append(pa.field(_MEMBERS, pa.int32()))
    kept = schema.empty_table()
    if not group_ids:
        return kept
    mine = among("group_id", group_ids)
    columns = [name for name in schema.names if name != _MEMBERS]
    held = 0
    for batch in scanning.batches(table, columns, mine, batch_size=_ROWS_AT_ONCE):
        rows = pa.Table.from_batches([batch])
        if heavy:
            members = pc.fill_null(pc.list_value_length(rows["members"]), 0)
            rows = rows.append_column(_MEMBERS, members)
            if held + rows.nbytes > _HELD_BYTES:
                for name in heavy:
                    at = rows.schema.get_field_index(name)
                    rows = rows.set_column(at, name, pa.nulls(len(rows), schema.field(name).type))
            held += rows.nbytes
        kept = pa.concat_tables([kept, rows.cast(schema)])
        if len(kept) > 2 * limit:
            kept = _first(kept, time, limit)
    return _first(kept, time, limit)


def _first(rows: pa.Table, time: str, limit: int) -> pa.Table:
    if len(rows) <= limit:
        return rows
    order = pc.sort_indices(rows, [(time, "ascending")])
    return rows.take(order[:limit])


def _events(
    events: ds.Dataset, group_ids: Sequence[str], limit: int, limit_a_group: int
) -> dict[str, tuple[list[Event], int]]:
    by_group: dict[str, list[Event]] = {}
    for event in events_of(_rows_of(events, GROUP_EVENTS, group_ids, "at", 4 * limit)):
        by_group.setdefault(event.group_id, []).append(event)
    kept = {}
    share = max(20, min(limit_a_group, limit // max(1, len(by_group))))
    for group_id, all_of_it in by_group.items():
        telling = sorted(all_of_it, key=lambda e: e.event in _LESS_TELLING)[:share]  # stable: in order of time
        kept[group_id] = (sorted(telling, key=lambda e: (e.at or 0, e.packet or 0)), len(all_of_it) - len(telling))
    return kept


def shortened(row: Rebalance, members: int) -> Rebalance:
    """A rebalance with no more than so many members: those that had most to do with it first."""
    if len(row.members) <= members:
        return row
    told = sorted(
        row.members, key=lambda m: (m.member_id != row.trigger_member, m.member_id != row.leader, -(m.join_ms or 0.0))
    )
    return replace(row, members=told[:members])
