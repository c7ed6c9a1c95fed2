"""Rebalances of a group with epochs, from the walk through its messages: members, assignments, and what they cost."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafkascope.reports.groups.cost import Ownership, last_of, moved_partitions
from kafkascope.reports.groups.epochs.causes import number_of, topic_of
from kafkascope.reports.groups.epochs.heartbeats import CLASSIC, CONSUMER, SHARE
from kafkascope.reports.groups.epochs.lives import Life, Roster
from kafkascope.reports.groups.epochs.rows import Cause, Row
from kafkascope.reports.groups.epochs.walk import A_NEW_GROUP_BEGINS_UP_TO, Walk
from kafkascope.reports.groups.history import Contributing, Evidence, Member, Rebalance, Unowned
from kafkascope.reports.groups.messages import ConnectionEnd
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_SOON_NS = 5 * SECOND_NS
"""An assignment comes a second or two after its epoch."""
_LATER_ROWS = 20
"""Epochs after one that are looked at for what else happened while it was open."""

Gaps = dict[str, list[tuple[int, int]]]
Partitions = frozenset[str]


@dataclass(frozen=True, slots=True)
class _Window:
    """One epoch: from when it was raised to when the next one was (ns), its members, and what they had at both ends."""

    row: Row
    started: int
    since: int  # until then members have what they had before
    until: int
    asked_until: int  # what was asked for later is of the next one
    lives: list[Life]
    previous: list[Life]  # members of the epoch before
    before: dict[str, Partitions | None]
    after: dict[str, Partitions | None]
    settled: dict[str, int | None]  # when each member that spoke came nearest to it


def rebalances_of(walk: Walk, ended: Mapping[int, ConnectionEnd]) -> list[Rebalance]:
    """One for each epoch, in order."""
    rows = [walk.rows[number] for number in sorted(walk.rows) if not walk.rows[number].tentative]
    started = _starts(rows)
    gaps = _gaps(walk)
    members_known = all(life.begin is not None and life.spoke for life in walk.lives if life.end != 0)
    if rows and rows[0].number > A_NEW_GROUP_BEGINS_UP_TO and not walk.since:
        members_known = False  # the group was there before
    alone = _have_all(walk)
    members_known = members_known and alone
    sound = _sound(rows, started)
    software = {
        life.member_id: next((ended[each] for each in life.connections if each in ended), None) for life in walk.lives
    }
    roster = Roster(walk.lives)
    found = []
    for place, row in enumerate(rows):
        # What was answered before the next one showed, is of this one, though its request came later.
        ends = max(started[place + 1], rows[place + 1].shown - 1) if place + 1 < len(rows) else walk.last
        until = max(ends, started[place], _named_until(row))
        since = max(started[place] - 1, _named_until(rows[place - 1]) if place else 0)
        asked_until = max(started[place], started[place + 1] - 1) if place + 1 < len(rows) else until
        previous = roster.members(row.number - 1)
        members = roster.members(row.number)
        window = _window(row, started[place], since, until, asked_until, members, previous)
        rebalance = _rebalance(walk, window, alone=alone)
        rebalance.members = [_member(life, window, software[life.member_id]) for life in window.lives]
        _cost(rebalance, walk, window, gaps)
        end = rebalance.stable if rebalance.stable is not None else until
        later = [other.cause for other in rows[place + 1 : place + 1 + _LATER_ROWS] if other.cause]
        besides = [cause for cause in [*row.others, *later] if cause.at <= end]
        rebalance.contributing = [_contributing(cause) for cause in besides if not _is_same(cause, row.cause)]
        whole = members_known and sound[place]
        if not whole and rebalance.certainty == Certainty.CERTAIN and not _named_at_once(row):
            rebalance.certainty = Certainty.LIKELY  # members that the capture lacks may have raised the epoch besides
        if rebalance.certainty == Certainty.LIKELY and _may_be_off_by_one(walk, row, len(rows)):
            rebalance.certainty = Certainty.GUESSED
        found.append(rebalance)
    return found


def _sound(rows: list[Row], started: list[int]) -> list[bool]:
    """Whether all epochs have a cause up to each of them, and those that came soon after: causes may be off by one.

    Of those that came soon after, what a member said is a cause: another may have been made up for what was not seen.
    """
    found = [bool(row.cause) for row in rows]
    for place in range(len(rows) - 2, -1, -1):
        soon = started[place + 1] - started[place] < _SOON_NS
        following = rows[place + 1].cause
        said = found[place + 1] and following is not None and following.life is not None
        found[place] = found[place] and (said or not soon)
    unexplained = next((place for place, row in enumerate(rows) if not row.cause), len(rows))
    return [each and place < unexplained for place, each in enumerate(found)]


def _named_at_once(row: Row) -> bool:
    """Whether the answer to what raised it named the epoch, and gave partitions in it.

    One that gives none may name the epoch before: an assignment can come a second after its epoch (Kafka 4.3).
    """
    seen = row.seen
    return row.cause is not None and seen is not None and seen.packet == row.cause.packet and bool(seen.given)


def _named_until(row: Row) -> int:
    """When who raised an epoch was answered with it: of two that join at once, it may be after the next one was."""
    return row.seen.done if row.seen is not None and _named_at_once(row) else 0


def _may_be_off_by_one(walk: Walk, row: Row, epochs: int) -> bool:
    """Whether members that the capture lacks may well have raised this epoch, as they did others.

    Where they raised as many as those that it has, any; else one that nobody was told of, or that something else was
    near.
    """
    if not walk.unseen or row.cause is None or _named_at_once(row):
        return False
    return 2 * walk.unseen >= epochs or row.seen is None or row.cause.doubted


def _starts(rows: list[Row]) -> list[int]:
    """When each epoch was raised: never after one that came later."""
    starts = [row.started for row in rows]
    for place in range(len(starts) - 2, -1, -1):
        starts[place] = min(starts[place], starts[place + 1])
    return starts


def _is_same(one: Cause, other: Cause | None) -> bool:
    """Whether a request is the cause of both: of an epoch, and of the one in which its pattern was looked up."""
    return other is not None and one.packet is not None and (one.packet, one.trigger) == (other.packet, other.trigger)


def _contributing(cause: Cause) -> Contributing:
    return Contributing(cause.trigger, cause.life.client_id if cause.life else None, cause.at, cause.packet)


def _window(
    row: Row, started: int, since: int, until: int, asked_until: int, members: list[Life], previous: list[Life]
) -> _Window:
    shown = row.found.done if row.found is not None else row.started
    lives = [life for life in members if life.first <= max(until, shown)]
    lives.sort(key=lambda life: (life.client_id or "", life.member_id))
    before: dict[str, Partitions | None] = {}
    for life in lives:
        new = life.begin is not None and life.begin >= row.number and not life.inherits
        before[life.member_id] = frozenset() if new else life.had(since)
    after = {life.member_id: life.had(until) for life in lives}
    settled = {life.member_id: life.settled(row.number, until) for life in lives if life.spoke}
    return _Window(row, started, since, until, asked_until, lives, previous, before, after, settled)


def _have_all(walk: Walk) -> bool:
    """Whether these members may be all: of topics that they share with others they lack numbers."""
    numbers: dict[str, set[int]] = {}
    for life in walk.lives:
        for partitions in (*(given for _, _, given in life.given), *(owned for _, owned in life.owned)):
            for partition in partitions:
                numbers.setdefault(topic_of(partition), set()).add(number_of(partition))
    return all(of_topic == set(range(len(of_topic))) for of_topic in numbers.values())


def _rebalance(walk: Walk, window: _Window, *, alone: bool) -> Rebalance:
    row, cause = window.row, window.row.cause
    rebalance = Rebalance(
        group_id=walk.group_id,
        protocol=walk.protocol or CONSUMER,
        from_generation=row.number - 1 - row.passed if row.number > 1 else None,
        to_generation=row.number,
        started=window.started,
        certainty=cause.certainty if cause is not None else Certainty.GUESSED,
        inferred=row.seen is None,
    )
    if cause is not None:
        rebalance.trigger = cause.trigger
        if cause.life is not None:
            rebalance.trigger_member, rebalance.trigger_client_id = cause.life.member_id, cause.life.client_id
        rebalance.evidence.append(Evidence(cause.text, cause.packet, cause.at, cause.weight, cause.trigger))
    rebalance.evidence += row.evidence
    times = [at for at in window.settled.values() if at is not None]
    if not window.lives:
        rebalance.stable = window.started if alone else None
    elif times and len(times) == len(window.settled):
        rebalance.stable = max(window.started, *times)
    if rebalance.stable is not None:
        rebalance.duration_ms = (rebalance.stable - window.started) / MILLISECOND_NS
    assignors = {name for life in window.lives if life.protocol == CONSUMER for name in life.assignors}
    rebalance.assignor = assignors.pop() if len(assignors) == 1 else None
    return rebalance


def _member(life: Life, window: _Window, end: ConnectionEnd | None) -> Member:
    before, after = window.before[life.member_id], window.after[life.member_id]
    settled = window.settled.get(life.member_id)
    joined = life.joined(window.asked_until)
    return Member(
        member_id=life.member_id,
        client_id=life.client_id,
        host=life.host,
        instance_id=life.instance_id,
        software=end.software if end else None,
        software_version=end.software_version if end else None,
        session_timeout_ms=life.session_timeout_ms,
        rebalance_timeout_ms=life.rebalance_timeout_ms,
        assignors=life.assignors,
        subscription=life.asked_for(window.asked_until),
        joined=joined[0] if joined else None,
        synced=settled,
        join_ms=(joined[1] - joined[0]) / MILLISECOND_NS if joined and life.begin == window.row.number else None,
        sync_ms=max(0, settled - window.started) / MILLISECOND_NS if settled is not None else None,
        assignment_before=None if before is None else sorted(before),
        assignment=None if after is None else sorted(after),
    )


def _cost(rebalance: Rebalance, walk: Walk, window: _Window, gaps: Gaps) -> None:
    """What it cost: partitions that moved or had no owner, and when the last member worked again."""
    if walk.protocol != SHARE:  # there a partition has as many owners as are given it
        before = {
            life.key: window.before.get(life.member_id) or life.had(window.since) or () for life in window.previous
        }
        after = {life.key: window.after[life.member_id] or () for life in window.lives}
        rebalance.moved = moved_partitions(before, after)
        rebalance.unowned = _unowned(gaps, window, rebalance.stable)
        rebalance.unowned_ms = max((each.ms for each in rebalance.unowned), default=None)
    times = {member: at for member, at in window.settled.items() if at is not None}
    last = last_of(times)
    if last is not None:
        member, rebalance.last_by_ms = last
        rebalance.last_client_id = next(life.client_id for life in window.lives if life.member_id == member)
    if rebalance.stable is None or not window.lives:
        return
    recovered = rebalance.stable
    for life in window.lives:
        at = times.get(life.member_id)
        changed = window.before[life.member_id] != window.after[life.member_id]
        if at is not None and changed and life.protocol != CLASSIC:
            working = life.working(at)
            if working is not None and working <= window.until:
                recovered = max(recovered, working)
    rebalance.recovered = recovered
    rebalance.cost_ms = (recovered - window.started) / MILLISECOND_NS


def _unowned(gaps: Gaps, window: _Window, stable: int | None) -> list[Unowned]:
    """The longest time without an owner that ended within an epoch, and began before it was stable, by partition."""
    found = []
    for partition, spans in gaps.items():
        longest: tuple[int, int] | None = None
        for since, to in spans[bisect_left(spans, window.started, key=lambda span: span[1]) :]:
            if to > window.until or (stable is not None and since > stable):
                break
            if longest is None or to - since > longest[1] - longest[0]:
                longest = since, to
        if longest is not None:
            found.append(Unowned(partition, longest[0], (longest[1] - longest[0]) / MILLISECOND_NS))
    return found


def _gaps(walk: Walk) -> Gaps:
    """When a partition had no owner, between two that it had: (since, until) in order, by partition."""
    held: dict[str, list[Ownership]] = {}
    for life in walk.lives:
        for ownership in _ownerships(life):
            held.setdefault(ownership.partition, []).append(ownership)
    gaps: Gaps = {}
    for partition, owners in sorted(held.items()):
        owners.sort(key=lambda each: (each.since, each.owner))
        lost = walk.lost.get(topic_of(partition), ())
        covered: int | None = owners[0].since
        for each in owners:
            if covered is None:
                break
            # A topic that was no more did not lack an owner.
            if covered < each.since and not any(covered <= until and each.since >= at for at, until in lost):
                gaps.setdefault(partition, []).append((covered, each.since))
            covered = None if each.until is None else max(covered, each.until)
    return gaps


def _ownerships(life: Life) -> Iterator[Ownership]:
    """From when to when a member had each partition: from the answer that gives it to the request that lacks it."""
    given, told, gave_up = 0, 1, 2
    changes: list[tuple[int, int, Partitions]] = [(at, given, partitions) for at, _, partitions in life.given]
    changes += [(at, told, partitions) for at, partitions in life.owned]
    changes += [(at, gave_up, frozenset()) for at in life.dropped]
    changes.sort(key=lambda change: change[:2])
    since: dict[str, int] = {}
    just_given: Partitions = frozenset()
    for at, kind, partitions in changes:
        if kind == given or life.begin is None:
            for partition in partitions:
                since.setdefault(partition, at)
        if kind == given:
            just_given = partitions
            continue
        for partition in [each for each in since if each not in partitions]:
            # It gives up what it no longer lists; what it was given just now, it does not list yet.
            if kind == gave_up or partition not in just_given:
                yield Ownership(partition, life.member_id, since.pop(partition), at)
    gone = life.left
    if gone is None and life.end is not None:
        gone = life.silent_since()
    for partition, begun in sorted(since.items()):
        yield Ownership(partition, life.member_id, begun, None if gone is None else max(gone, begun))
