"""Groups as columns of numbers, with every text and every list of partitions written once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from kafkascope.reports.answers.groups import GroupAnswer, GroupCounts, Groups, shortened
from kafkascope.reports.answers.lanes import Bar, lanes
from kafkascope.reports.columns.name_lists import by_topic
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.groups.history import Event, Member, Rebalance, Unowned
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.triggers import TRIGGERS

MEMBERS = 200  # of one rebalance; a page is read by people
EVIDENCE = 20  # of one rebalance
LIST_BYTES = 6_000_000  # of lists of partitions; behind it they are only counted
DETAIL_BYTES = 9_000_000  # of members and evidence; behind it rebalances have neither, and the page says so

Columns = dict[str, list[Any]]


class Texts:
    """Texts written once, and referred to by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str | None) -> int | None:
        """Where a text is; None stays None."""
        return None if text is None else self._numbers.setdefault(text, len(self._numbers))

    def all(self) -> list[str]:
        """The texts in order of their numbers, as they are shown to people."""
        return [shown_text(text) for text in self._numbers]


class Clock:
    """Times as whole microseconds since the capture began: small numbers that JavaScript holds exactly."""

    def __init__(self, zero: int) -> None:
        self.zero = zero

    def since(self, at: int | None) -> int | None:
        """Microseconds of a time in nanoseconds."""
        return None if at is None else (at - self.zero) // 1000


def milliseconds(value: float | None) -> float | None:
    """Milliseconds with the digits that anybody reads; None for what is no number."""
    return None if value is None or not math.isfinite(value) else round(value, 3 if abs(value) < 1 else 1)


class GroupData:
    """Collects groups; every column of one kind has the same length."""

    def __init__(self, texts: Texts, clock: Clock) -> None:
        self._text = texts.number
        self._time = clock.since
        self._lists: dict[tuple[tuple[str, str], ...], int] = {}
        self._list_sizes: list[int] = []
        self._seen: dict[tuple[str, ...], int] = {}
        self._list_bytes = 0
        self._detail_bytes = 0
        self._people: dict[tuple[Any, ...], int] = {}
        self._rebalances: list[list[Any]] = []
        self._events: list[list[Any]] = []
        self._groups: list[list[Any]] = []

    def result(self, found: Groups) -> dict[str, Any]:
        """All of it, ready for JSON."""
        for group in found.shown:
            self._group(group.counts, group)
        for counts in found.counted_only:
            self._group(counts, None)
        text = self._text
        return {
            "total": found.total,
            "left_out": found.left_out,
            "rebalance_count": found.rebalances,
            "cause_counts": list(found.triggers.items()),
            "triggers": {name: [t.mark, t.words, t.meaning] for name, t in TRIGGERS.items()},
            "event_meanings": {kind.value: kind.meaning for kind in EventKind},
            "lists": [[[text(topic), numbers] for topic, numbers in one] for one in self._lists],
            "list_sizes": self._list_sizes,
            "people": [list(person) for person in self._people],
            "groups": columns(_GROUP, self._groups),
            "rebalances": columns(_REBALANCE, self._rebalances),
            "events": columns(_EVENT, self._events),
        }

    def _group(self, counts: GroupCounts, shown: GroupAnswer | None) -> None:
        first, first_event = len(self._rebalances), len(self._events)
        names: list[str] = []
        if shown is not None:
            drawn = lanes(shown.rebalances)
            names = drawn.names
            bars: dict[tuple[int, int], Bar] = {(bar.rebalance, bar.member): bar for bar in drawn.bars}
            for i, row in enumerate(shown.rebalances):
                self._rebalance(row, [bars[i, k] for k in range(len(row.members))], shown.member_counts[i])
            lane_of = {
                row.members[bar.member].member_id: bar.lane
                for bar in drawn.bars
                for row in [shown.rebalances[bar.rebalance]]
            }
            for event in shown.events:
                self._event(event, lane_of.get(event.member_id or ""))
        self._groups.append(
            [
                shown_text(counts.group_id),
                counts.protocol,
                " → ".join(counts.protocols),
                counts.rebalances,
                counts.causes[:6],
                milliseconds(counts.cost_ms),
                milliseconds(counts.worst_cost_ms),
                milliseconds(counts.worst_unowned_ms),
                first,
                len(self._rebalances) - first,
                first_event,
                len(self._events) - first_event,
                shown.events_left_out if shown else 0,
                [self._text(name) for name in names],
            ]
        )

    def _rebalance(self, row: Rebalance, bars: Sequence[Bar], member_count: int) -> None:
        kept = shortened(row, MEMBERS)
        # By identity: a member has lists, and damage may give two of them the same id.
        places = {id(member): bar for member, bar in zip(row.members, bars, strict=True)}
        members: list[Any] | None = [self._member(member, places[id(member)]) for member in kept.members]
        evidence: list[Any] = [
            [
                self._text(e.text),
                e.packet,
                self._time(e.at),
                round(e.weight or 0.0, 2),
                e.trigger,
                int(bool(e.rejected)),
            ]
            for e in sorted(row.evidence, key=lambda e: (bool(e.rejected), -(e.weight or 0.0)))[:EVIDENCE]
        ]
        self._detail_bytes += 40 * len(kept.members) + 50 * len(evidence)
        if self._detail_bytes > DETAIL_BYTES:
            members, evidence = None, []
        self._rebalances.append(
            [
                row.from_generation,
                row.to_generation,
                *map(self._time, (row.started, row.joined, row.stable, row.recovered)),
                milliseconds(row.duration_ms),
                milliseconds(row.cost_ms),
                milliseconds(row.unowned_ms),
                row.trigger,
                self._text(row.trigger_member),
                self._text(row.trigger_client_id),
                row.certainty,
                evidence,
                [[c.trigger, self._text(c.client_id), self._time(c.at), c.packet] for c in row.contributing[:EVIDENCE]],
                self._text(row.leader),
                self._text(row.assignor),
                member_count,
                members if members or not member_count else None,
                self._list(row.moved),
                self._unowned(row.unowned),
                self._text(row.last_client_id),
                milliseconds(row.last_by_ms),
                row.reread_records,
                int(bool(row.inferred)),
            ]
        )

    def _member(self, member: Member, bar: Bar) -> list[Any]:
        text = self._text
        person = (
            text(member.member_id),
            text(member.client_id),
            text(member.host),
            text(member.instance_id),
            text(" ".join(filter(None, (member.software, member.software_version))) or None),
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            text(", ".join(member.assignors) or None),
            text(", ".join(member.subscription) or None),
        )
        return [
            self._people.setdefault(person, len(self._people)),
            bar.lane,
            self._time(member.joined),
            self._time(member.synced),
            milliseconds(member.join_ms),
            milliseconds(member.sync_ms),
            self._list(member.assignment_before),
            self._list(member.assignment),
            self._time(bar.begin),
            self._time(bar.end),
        ]

    def _event(self, event: Event, lane: int | None) -> None:
        self._events.append(
            [
                self._time(event.at),
                event.event,
                lane,
                self._text(event.member_id),
                self._text(event.client_id),
                event.generation,
                event.packet,
                self._text(event.detail),
            ]
        )

    def _unowned(self, rows: Sequence[Unowned]) -> list[Any]:
        """Partitions that nobody owned, those with the same gap together: [list, since, ms], the longest first."""
        together: dict[tuple[int, int], list[Unowned]] = {}
        for row in rows:
            together.setdefault((row.since // 5_000_000, round(row.ms / 5)), []).append(row)  # within 5 ms
        longest = sorted(together.values(), key=lambda gaps: -max(gap.ms for gap in gaps))[:50]
        return [
            [
                self._list([gap.partition for gap in gaps]),
                self._time(min(gap.since for gap in gaps)),
                milliseconds(max(gap.ms for gap in gaps)),
            ]
            for gaps in longest
        ]

    def _list(self, partitions: Iterable[str] | None) -> int | None:
        """Number of a list of partitions; None: not known. Past the limit a negative number: only the count."""
        if partitions is None:
            return None
        partitions = tuple(partitions)
        if partitions in self._seen:
            return self._seen[partitions]
        return self._seen.setdefault(partitions, self._new_list(partitions))

    def _new_list(self, partitions: tuple[str, ...]) -> int:
        key = tuple(by_topic(partitions))
        if key in self._lists:
            return self._lists[key]
        size = sum(8 + len(numbers) for _, numbers in key) + 4
        if self._list_bytes + size > LIST_BYTES:
            return -1 - len(partitions)
        self._list_bytes += size
        self._list_sizes.append(len(partitions))
        return self._lists.setdefault(key, len(self._lists))


def columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Columns:
    """Rows as columns by name."""
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


_GROUP = (
    "name",
    "protocol",
    "protocols",
    "rebalances",
    "causes",
    "cost",
    "worst_cost",
    "worst_unowned",
    "first",
    "shown",
    "first_event",
    "events",
    "events_left_out",
    "lanes",
)
_REBALANCE = (
    "from",
    "to",
    "started",
    "joined",
    "stable",
    "recovered",
    "duration",
    "cost",
    "unowned_ms",
    "trigger",
    "member",
    "client",
    "certainty",
    "evidence",
    "contributing",
    "leader",
    "assignor",
    "member_count",
    "members",
    "moved",
    "unowned",
    "last_client",
    "last_by",
    "reread",
    "inferred",
)
_EVENT = ("at", "event", "lane", "member", "client", "generation", "packet", "detail")
