"""Groups that have an epoch: consumers of KIP-848, share groups (KIP-932), streams groups (KIP-1071), and mixed ones.

One rebalance for each epoch of the group. It begins when the epoch was raised: with the request that did it, or, if no
request did (a session that ran out, partitions that came into being), with the first message that shows it. It is
stable when the last member has reached the epoch and has been given what it shall have.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from heapq import heappop, heappush, heapreplace

from kafkascope.reports.groups.epochs.causes import find_causes
from kafkascope.reports.groups.epochs.heartbeats import Beat, BeatReader
from kafkascope.reports.groups.epochs.rebalances import rebalances_of
from kafkascope.reports.groups.epochs.silence import silences
from kafkascope.reports.groups.epochs.walk import Walk
from kafkascope.reports.groups.history import GroupHistory, GroupLog
from kafkascope.reports.groups.messages import Message

_LOG = logging.getLogger(__name__)

_OF_OTHERS = frozenset(
    {"ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe", "IncrementalAlterConfigs"}
)


def history_of(walks: list[Walk], log: GroupLog) -> GroupHistory:
    """What a group went through, of the walks through its messages."""
    history = GroupHistory()
    for walk in walks:
        find_causes(walk, log.ended)
        if _LOG.isEnabledFor(logging.DEBUG):
            for number, row in sorted(walk.rows.items()):
                seen = "of no answer" if row.found is None else f"of packet {row.found.packet}"
                _LOG.debug("group %s: epoch %d, by the word %s", log.group_id, number, seen)
        history.events += walk.events
        history.events += silences(walk, log)
        history.rebalances += rebalances_of(walk, log.ended)
    history.events.sort(key=lambda event: (event.at, event.packet or 0, event.event, event.member_id or ""))
    return history


def walks_of(log: GroupLog, begin: int | None) -> list[Walk]:
    """Follow a group's messages: one walk, and a new one where a group of the same name began anew."""
    reader = BeatReader(log.topics)
    walk = Walk(log.group_id)
    walks = [walk]
    walk.observing = begin is not None
    for at, step in _steps(log, reader):
        if walk.observing and begin is not None and at >= begin:
            walk.take_over(begin)
        if isinstance(step, Message):
            if step.api == "IncrementalAlterConfigs":
                walk.configure(step)
            for group in step.response.get("groups") or []:
                if group.get("groupId") == log.group_id:
                    walk.describe(step, reader, group)
            continue
        if walk.restarts(step):
            _LOG.debug("group %s: begins anew at packet %s, epoch %s", log.group_id, step.packet, step.epoch)
            walk = Walk(log.group_id)
            walks.append(walk)
        walk.step(step)
    return walks


_Step = tuple[int, int, int, Beat | Message]
"""When it was answered, the place of its message, its place in that, and what it is."""


def _steps(log: GroupLog, reader: BeatReader) -> Iterator[tuple[int, Beat | Message]]:
    """Beats, and what administrators ask, in order of their answers: the coordinator does one after the other.

    What was not answered, as a member closes its connection behind its leave, came behind all that was asked before it
    on its connection.
    """
    waiting: list[_Step] = []
    answered: dict[int, int] = {}  # what came last on each connection (ns)
    for place, message in enumerate(log.messages):
        while waiting and waiting[0][0] < message.at:
            yield _next(waiting)
        if message.api not in _OF_OTHERS:
            over = answered[message.connection] = max(message.over, answered.get(message.connection, 0))
            for order, beat in enumerate(reader.beats(message)):
                if not beat.answered:
                    beat.done = over
                heappush(waiting, (beat.done, place, order, beat))
        elif message.answered is not None:
            heappush(waiting, (message.answered, place, 0, message))
    while waiting:
        yield _next(waiting)


def _next(waiting: list[_Step]) -> tuple[int, Beat | Message]:
    """The step that is answered first; but of two that join at once the one that asked first.

    What they write is confirmed together, and answers come of several threads: so where requests are further apart than
    answers, these tell less.
    """
    done, place, order, step = heappop(waiting)
    other = waiting[0][3] if waiting else None
    if (
        isinstance(step, Beat)
        and isinstance(other, Beat)
        and (step.joins and other.joins and not step.regex and not other.regex)
        and step.message.broker == other.message.broker
        and other.done - step.done < step.at - other.at
    ):
        step.contested = other.contested = True
        later, *_ = heapreplace(waiting, (other.done, place, order, step))
        return later, other
    return done, step
