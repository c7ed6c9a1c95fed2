"""Groups that have an epoch: consumers of KIP-848, share groups (KIP-932), streams groups (KIP-1071), and mixed ones.

One rebalance for each epoch of the group. It begins when the epoch was raised: with the request that did it, or, if no
request did (a session that ran out, partitions that came into being), with the first message that shows it. It is
stable when the last member has reached the epoch and has been given what it shall have.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from reports.groups.cost import Ownership, last_of, moved_partitions
from reports.groups.epoch_causes import find_causes
from reports.groups.epoch_rows import Cause, Row
from reports.groups.epoch_walk import Walk
from reports.groups.heartbeats import CONSUMER, SHARE, Beat, Reader
from reports.groups.history import (
    GUESSED,
    Contributing,
    Evidence,
    GroupHistory,
    GroupLog,
    Member,
    Rebalance,
    Unowned,
)
from reports.groups.lives import Life
from reports.groups.messages import Message
from reports.groups.silence import silences

_MS = 1_000_000
_DESCRIPTIONS = {
    "ConsumerGroupDescribe": CONSUMER,
    "ShareGroupDescribe": SHARE,
    "StreamsGroupDescribe": "streams",
}


def epochs(log: GroupLog, begin: int | None = None) -> GroupHistory:
    """Events of members and rebalances of a group with epochs.

    Messages before begin (ns) are of a classic group that became this one: its members are taken over from them.
    """
    history = GroupHistory()
    for walk in _walks(log, begin):
        find_causes(walk, log.ended)
        history.events += walk.events
        history.events += silences(walk, log.ended)
        history.rebalances += _rebalances(walk, log)
    history.events.sort(key=lambda event: (event.at, event.packet or 0, event.event, event.member_id or ""))
    return history


def _walks(log: GroupLog, begin: int | None) -> list[Walk]:
    reader = Reader(log.topics)
    steps: list[tuple[int, int, int, Beat | Message]] = []
    for place, message in enumerate(log.messages):
        if message.api in _DESCRIPTIONS:
            if message.answered is not None:
                steps.append((message.answered, place, 0, message))
            continue
        for order, beat in enumerate(reader.beats(message)):
            steps.append((beat.done, place, order, beat))
    # The coordinator takes one request after the other, and answers at once: answers come in the order of its doing.
    steps.sort(key=lambda step: step[:3])
    walk = Walk(log.group_id)
    walks = [walk]
    walk.observing = begin is not None
    for at, _, _, step in steps:
        if walk.observing and begin is not None and at >= begin:
            walk.observing = False
            walk.take_over()
        if isinstance(step, Message):
            for group in step.response.get("groups") or []:
                if group.get("groupId") == log.group_id:
                    walk.describe(step, reader, group)
            continue
        if walk.restarts(step):
            walk = Walk(log.group_id)
            walks.append(walk)
        walk.step(step)
    return walks


def _rebalances(walk: Walk, log: GroupLog) -> list[Rebalance]:
    rows = [walk.rows[number] for number in sorted(walk.rows) if not walk.rows[number].tentative]
    started = _starts(rows)
    gaps = _gaps(walk)
    found = []
    for place, row in enumerate(rows):
        until = started[place + 1] if place + 1 < len(rows) else max(walk.last + 1, started[place])
        found.append(_rebalance(walk, row, started[place], until, gaps, log))
    for place, row in enumerate(rows):
        end = found[place].stable
        end = end if end is not None else started[place + 1] if place + 1 < len(rows) else walk.last
        later = [other.cause for other in rows[place + 1 : place + 20] if other.cause and other.started <= end]
        found[place].contributing = [_contributing(cause) for cause in [*row.others, *later] if cause.at <= end]
    return found


def _starts(rows: list[Row]) -> list[int]:
    """When each epoch was raised: never after one that came later."""
    starts = [row.started for row in rows]
    for place in range(len(starts) - 2, -1, -1):
        starts[place] = min(starts[place], starts[place + 1])
    return starts


def _contributing(cause: Cause) -> Contributing:
    return Contributing(cause.trigger, cause.life.client_id if cause.life else None, cause.at, cause.packet)


def _rebalance(
    walk: Walk, row: Row, started: int, until: int, gaps: dict[str, list[tuple[int, int]]], log: GroupLog
) -> Rebalance:
    lives = sorted(
        (life for life in walk.lives if life.in_epoch(row.number) and life.first <= max(until, _shown(row))),
        key=lambda life: (life.client_id or "", life.member_id),
    )
    cause = row.cause
    rebalance = Rebalance(
        group_id=walk.group_id,
        protocol=walk.protocol or CONSUMER,
        from_generation=row.number - 1 if row.number > 1 else None,
        to_generation=row.number,
        started=started,
        inferred=row.seen is None,
    )
    if cause is not None:
        rebalance.trigger, rebalance.certainty = cause.trigger, cause.certainty
        if cause.life is not None:
            rebalance.trigger_member, rebalance.trigger_client_id = cause.life.member_id, cause.life.client_id
        rebalance.evidence = [Evidence(cause.text, cause.packet, cause.at, cause.weight, cause.trigger)]
    else:
        rebalance.certainty = GUESSED
    rebalance.evidence += row.evidence
    settled = {life.member_id: life.settled(row.number, until) for life in lives if life.spoke}
    times = {member: at for member, at in settled.items() if at is not None}
    if not lives:
        rebalance.stable = started
    elif len(times) == len(settled) and times:
        rebalance.stable = max(started, *times.values())
    rebalance.members = [_member(life, row, started, until, settled.get(life.member_id), log) for life in lives]
    _cost(rebalance, walk, lives, times, started, until, gaps)
    named = {name for life in lives for name in life.assignors if life.protocol == CONSUMER}
    rebalance.assignor = named.pop() if len(named) == 1 else None
    if rebalance.stable is not None:
        rebalance.duration_ms = (rebalance.stable - started) / _MS
    return rebalance


def _shown(row: Row) -> int:
    return row.found.done if row.found is not None else row.started


def _member(life: Life, row: Row, started: int, until: int, settled: int | None, log: GroupLog) -> Member:
    before, after = life.had(started - 1), life.had(until)
    if life.begin is not None and life.begin >= row.number and not life.inherits:
        before = frozenset()
    software = next((log.ended[each] for each in life.connections if each in log.ended), None)
    joins = life.begin == row.number and life.joined is not None
    subscription = list(life.topics or ()) + ([life.regex] if life.regex else [])
    return Member(
        member_id=life.member_id,
        client_id=life.client_id,
        host=life.host,
        instance_id=life.instance_id,
        software=software.software if software else None,
        software_version=software.software_version if software else None,
        session_timeout_ms=life.session_timeout_ms,
        rebalance_timeout_ms=life.rebalance_timeout_ms,
        assignors=life.assignors,
        subscription=subscription,
        joined=life.joined,
        synced=settled,
        join_ms=(life.join_answered - life.joined) / _MS if joins and life.joined and life.join_answered else None,
        sync_ms=max(0, settled - started) / _MS if settled is not None else None,
        assignment_before=None if before is None else sorted(before),
        assignment=None if after is None else sorted(after),
    )


def _cost(
    rebalance: Rebalance,
    walk: Walk,
    lives: list[Life],
    times: Mapping[str, int],
    started: int,
    until: int,
    gaps: dict[str, list[tuple[int, int]]],
) -> None:
    """What it cost: partitions that moved or had no owner, and when the last member worked again."""
    if walk.protocol != SHARE:  # there a partition has as many owners as are given it
        before = {
            life.key: life.had(started - 1) or () for life in walk.lives if life.in_epoch(rebalance.to_generation - 1)
        }
        after = {life.key: life.had(until) or () for life in lives}
        rebalance.moved = moved_partitions(before, after)
        rebalance.unowned = _unowned(gaps, started, until, rebalance.stable)
        if rebalance.unowned:
            rebalance.unowned_ms = max(each.ms for each in rebalance.unowned)
    last = last_of(times)
    if last is not None:
        member, rebalance.last_by_ms = last
        rebalance.last_client_id = next(life.client_id for life in lives if life.member_id == member)
    if rebalance.stable is None or not lives:
        return
    recovered = rebalance.stable
    for life in lives:
        at = times.get(life.member_id)
        if at is not None and life.had(started - 1) != life.had(until):
            working = life.working(at)
            if working is not None and working <= until:
                recovered = max(recovered, working)
    rebalance.recovered = recovered
    rebalance.cost_ms = (recovered - started) / _MS


def _unowned(gaps: dict[str, list[tuple[int, int]]], started: int, until: int, stable: int | None) -> list[Unowned]:
    """The longest time without an owner that ended within an epoch, and began before it was stable, by partition."""
    found = []
    for partition, spans in gaps.items():
        first = bisect_left(spans, started, key=lambda span: span[1])
        longest: tuple[int, int] | None = None
        for since, to in spans[first:]:
            if to > until:
                break
            if stable is not None and since > stable:
                break
            if longest is None or to - since > longest[1] - longest[0]:
                longest = since, to
        if longest is not None:
            found.append(Unowned(partition, longest[0], (longest[1] - longest[0]) / _MS))
    return found


def _gaps(walk: Walk) -> dict[str, list[tuple[int, int]]]:
    """When a partition had no owner, between two that it had: (since, until) in order, by partition, sorted."""
    held: dict[str, list[Ownership]] = {}
    for life in walk.lives:
        for ownership in _ownerships(life):
            held.setdefault(ownership.partition, []).append(ownership)
    gaps: dict[str, list[tuple[int, int]]] = {}
    for partition, owners in sorted(held.items()):
        owners.sort(key=lambda each: (each.since, each.owner))
        covered: int | None = owners[0].since
        for each in owners:
            if covered is None:
                break
            if covered < each.since:
                gaps.setdefault(partition, []).append((covered, each.since))
            covered = None if each.until is None else max(covered, each.until)
    return gaps


def _ownerships(life: Life) -> Iterable[Ownership]:
    """From when to when a member had each partition: from the answer that gives it to the request that lacks it."""
    changes: list[tuple[int, int, frozenset[str] | None]] = [(at, 0, given) for at, _, given in life.given]
    changes += [(at, 1, owned) for at, owned in life.owned]
    changes += [(at, 2, frozenset()) for at in life.dropped]
    changes.sort(key=lambda change: change[:2])
    since: dict[str, int] = {}
    for at, kind, partitions in changes:
        assert partitions is not None
        if kind == 0 or life.begin is None:
            for partition in partitions:
                since.setdefault(partition, at)
        if kind:
            for partition in [each for each in since if each not in partitions]:
                # It gives up what it no longer lists; what it was given just now, it does not list yet.
                if kind == 2 or (since[partition] < at and not _just_given(life, partition, at)):
                    yield Ownership(partition, life.member_id, since.pop(partition), at)
    gone = life.left if life.left is not None else life.silent_since() if life.end is not None else None
    if life.away is not None and gone is None:
        gone = life.away
    for partition, begun in sorted(since.items()):
        yield Ownership(partition, life.member_id, begun, None if gone is None else max(gone, begun))


def _just_given(life: Life, partition: str, at: int) -> bool:
    place = bisect_left(life.given, at, key=lambda each: each[0])
    return place > 0 and partition in life.given[place - 1][2]
