"""Groups as they are watched: events and rebalances once they are settled, in bounded memory.

What is heard of a group is analyzed again and again, and what is told of a time long enough ago not to change any more
is handed out, once. Of what was handed out, only that is kept which later answers need: who joined with what, not each
heartbeat. Where memory asks for it, the rest goes too; what the analysis then makes of the time before is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from reports.groups.analysis import analyze_group
from reports.groups.history import Event, GroupHistory, GroupLog, Rebalance
from reports.groups.messages import ConnectionEnd, Message, in_order, messages_of
from reports.views import by_key

_SECOND = 1_000_000_000
AGAIN_AFTER = _SECOND
"""How long to wait until a group with news is analyzed again: each time costs as much as it has messages."""
EVENT_SETTLES = 2 * _SECOND
"""How old an event must be: answers, and the second view of it that another connection gives, have come by then."""
REBALANCE_SETTLES = 5 * _SECOND
"""How long a rebalance must be over: its members have had time to work again, which says what it cost."""
THINNED_AFTER = 120 * _SECOND
"""Repeated messages older than this are dropped where there are too many: no rebalance looks back so far for them."""
MOST_MESSAGES = 10_000
"""Of a group, some kilobytes each."""
MOST_GROUPS = 10_000
"""At once; those that were silent longest are forgotten first."""

_Key = tuple[object, ...]
Topics = Callable[[], Mapping[str, str]]


@dataclass(slots=True)
class _Group:
    """What is remembered of one group."""

    messages: list[Message] = field(default_factory=list)
    ended: dict[int, ConnectionEnd] = field(default_factory=dict)
    due: int | None = None  # when to analyze it; None: when there is news
    thinned: int = -(2**63)  # not all messages before this time are there
    events: dict[_Key, int] = field(default_factory=dict)  # time of those that were told
    generations: dict[_Key, int] = field(default_factory=dict)  # time of the rebalances that were told


class LiveGroups:
    """Rows of group_messages in, events and rebalances out. Times are those of the capture, in nanoseconds."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._now = 0

    def feed(self, rows: pa.Table | None, topics: Topics, now: int = 0) -> GroupHistory:
        """What became settled with these rows. now: the time, where more is known of it than the rows say."""
        self._now = max(self._now, now)
        for name, of_group in by_key(rows, "group_id") if rows is not None else ():
            group = self._groups.pop(name, None) or _Group()
            self._groups[name] = group  # behind all others: it was heard of last
            messages, ended = messages_of(of_group)
            group.messages = sorted([*group.messages, *messages], key=in_order)
            group.ended |= ended
            self._now = max(self._now, *(message.answered or message.at for message in messages), 0)
            if group.due is None:
                group.due = self._now + EVENT_SETTLES
        told = GroupHistory()
        due = [name for name, group in self._groups.items() if group.due is not None and group.due <= self._now]
        for name in due:
            self._tell(name, topics(), told, self._now)
            _thin(self._groups[name], self._now - THINNED_AFTER)
        for name in list(self._groups)[: max(0, len(self._groups) - MOST_GROUPS)]:
            self._tell(name, topics(), told, None)
            del self._groups[name]
        return told

    def finish(self, topics: Topics) -> GroupHistory:
        """All that was not told yet."""
        told = GroupHistory()
        for name in sorted(self._groups):
            self._tell(name, topics(), told, None)
        self._groups.clear()
        return told

    def _tell(self, name: str, topics: Mapping[str, str], told: GroupHistory, now: int | None) -> None:
        """Add what is settled now (None: everything) and was not told before."""
        group = self._groups[name]
        history = analyze_group(GroupLog(name, group.messages, group.ended, topics))
        waiting = False
        for event in history.events:
            if group.thinned <= event.at and (key := _key(event)) not in group.events:
                if now is None or event.at + EVENT_SETTLES <= now:
                    group.events[key] = event.at
                    told.events.append(event)
                else:
                    waiting = True
        for place, rebalance in enumerate(history.rebalances):
            at = _over(rebalance)
            generation = (rebalance.protocol, rebalance.to_generation)
            known = group.generations.get(generation)
            if at < group.thinned or (known is not None and _begun(rebalance) <= known):
                continue
            if now is None or _settled(rebalance, history.rebalances[place + 1 :], now):
                group.generations[generation] = at
                told.rebalances.append(rebalance)
            else:
                waiting = True
        group.due = None if now is None or not waiting else now + AGAIN_AFTER


def _thin(group: _Group, before: int) -> None:
    """Drop messages before a time of which there are many, if there are too many in all."""
    if len(group.messages) <= MOST_MESSAGES:
        return
    kept: list[Message] = []
    said: dict[tuple[int, str], tuple[str | None, str | None]] = {}
    for message in group.messages:
        place = (message.connection, message.api)
        bodies = (message.request_text, message.response_text)
        if message.at >= before or message.error or said.get(place) != bodies:
            kept.append(message)
        said[place] = bodies
    group.messages = kept if len(kept) <= MOST_MESSAGES else kept[-MOST_MESSAGES // 2 :]
    group.thinned = max(group.thinned, before, group.messages[0].at if len(kept) > MOST_MESSAGES else before)
    there = {message.connection for message in group.messages}
    group.ended = {connection: end for connection, end in group.ended.items() if connection in there}
    group.events = {key: at for key, at in group.events.items() if at >= group.thinned}
    group.generations = {number: at for number, at in group.generations.items() if at >= group.thinned}


def _settled(rebalance: Rebalance, later: list[Rebalance], now: int) -> bool:
    if any(other.stable is not None or other.joined is not None for other in later):
        return True
    return rebalance.stable is not None and _over(rebalance) + REBALANCE_SETTLES <= now


def _over(rebalance: Rebalance) -> int:
    return max(rebalance.recovered or 0, rebalance.stable or 0, rebalance.joined or 0, rebalance.started or 0)


def _begun(rebalance: Rebalance) -> int:
    return rebalance.started or rebalance.joined or rebalance.stable or 0


def _key(event: Event) -> _Key:
    return (event.at, event.event, event.member_id, event.client_id, event.generation, event.connection, event.number)
