"""Groups as they are watched: events and rebalances once they are settled, in bounded memory.

What is heard of a group is analyzed again and again, and what is told of a time long enough ago not to change any more
is handed out, once. Of what was handed out, only that is kept which later answers need: who joined with what, not each
heartbeat. Where memory asks for it, the rest goes too; what the analysis then makes of the time before is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic

import pyarrow as pa

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.reports.columns import circles
from kafkascope.reports.columns.clusters import ONE_CLUSTER, Clusters
from kafkascope.reports.columns.faults import fault
from kafkascope.reports.columns.views import by_key
from kafkascope.reports.groups.by_cluster import analyze_groups
from kafkascope.reports.groups.history import Event, GroupHistory, GroupLog, Rebalance
from kafkascope.reports.groups.messages import ConnectionEnd, Message, in_order, messages_of
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.units import SECOND_NS

AGAIN_AFTER = SECOND_NS
"""How long to wait until a group with news is analyzed again: each time costs as much as it has messages."""
EVENT_SETTLES = 2 * SECOND_NS
"""How old an event must be: answers, and the second view of it that another connection gives, have come by then."""
REBALANCE_SETTLES = 5 * SECOND_NS
"""How long a rebalance must be over: its members have had time to work again, which says what it cost."""
THINNED_AFTER = 120 * SECOND_NS
"""Repeated messages older than this are dropped where there are too many: no rebalance looks back so far for them."""
MOST_MESSAGES = 10_000
"""Of a group: about a second of analysis."""
MOST_IN_ALL = 200_000
"""Messages of all groups, some kilobytes each; groups that were silent longest are forgotten first."""
AT_ONCE_S = 0.5
"""How long, in seconds, groups are analyzed until more is read; then for as long as that they are not."""

_COMMITS = frozenset({"OffsetCommit", "TxnOffsetCommit"})

_Key = tuple[object, ...]


@dataclass(slots=True)
class _Group:
    """What is remembered of one group."""

    messages: list[Message] = field(default_factory=list)
    ended: dict[int, ConnectionEnd] = field(default_factory=dict)
    said: dict[_Key, _Key] = field(default_factory=dict)  # what each connection said last, by API
    due: int | None = None  # when to analyze it; None: when there is news
    grown: int = 0  # how many messages it must have for that, if there is no hurry
    told: int = 2**63 - 1  # everything before this time
    thinned: int = -(2**63)  # not all messages before this time are there
    events: dict[_Key, int] = field(default_factory=dict)  # time of those that were told
    generations: dict[_Key, int] = field(default_factory=dict)  # time of the rebalances that were told
    failed: bool = False  # a fault of ours was met in it, and told

    def take(self, messages: list[Message], ended: Mapping[int, ConnectionEnd]) -> bool:
        """Take in messages and ends of connections; whether they may have changed the group."""
        late = bool(messages and self.messages) and in_order(messages[0]) < in_order(self.messages[-1])
        self.messages += messages
        if late:
            self.messages.sort(key=in_order)
        self.ended |= ended
        news = any(end.closed is not None for end in ended.values())
        for message in messages:
            place, said = _said(message)
            news |= bool(message.error) or self.said.get(place) != said
            self.said[place] = said
        return news

    def thin(self, before: int) -> None:
        """Drop repeated messages before a time of which all is told; if there are still too many, the older half."""
        before = min(before, self.told)
        kept: list[Message] = []
        self.said.clear()
        for message in self.messages:
            place, said = _said(message)
            if message.at >= before or message.error or self.said.get(place) != said:
                kept.append(message)
            self.said[place] = said
        self.messages = kept if len(kept) <= MOST_MESSAGES else kept[-MOST_MESSAGES // 2 :]
        self.thinned = max(self.thinned, before, self.messages[0].at if len(kept) > MOST_MESSAGES else before)
        there = {message.connection for message in self.messages}
        self.ended = {connection: end for connection, end in self.ended.items() if connection in there}
        self.events = {key: at for key, at in self.events.items() if at >= self.thinned}
        self.generations = {number: at for number, at in self.generations.items() if at >= self.thinned}


class LiveGroups:
    """Rows of group_rows in, events and rebalances out. Times are those of the capture, in nanoseconds.

    A file is read so fast that there is no hurry: a group is analyzed again when it has grown by a quarter, so that all
    analyses together cost a few times as much as one at the end. In a hurry at most half of the clock's seconds go into
    analyses: the slower the machine, the later a group is told.
    """

    def __init__(self, hurry: bool = True, clock: Callable[[], float] = monotonic, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._groups: dict[str, _Group] = {}
        self._now = 0
        self._hurry = hurry
        self._clock = clock
        self._rest = 0.0  # until when, by the clock in seconds, no group is analyzed
        self._issues = IssueLog()
        self.clusters = ONE_CLUSTER  # as they were told last

    def feed(
        self, rows: pa.Table | None, topics: Mapping[str, str], now: int = 0, brokers: Mapping[str, str] | None = None
    ) -> GroupHistory:
        """What became settled with these rows.

        now: the time, where more is known of it than the rows say; brokers: clusters by broker, as far as is known.
        """
        self._now = max(self._now, now)
        if brokers is not None:
            self.clusters = Clusters.of(brokers, self.clusters)
        for name, of_group in by_key(rows, "group_id") if rows is not None else ():
            try:
                messages, ended = messages_of(of_group)
            except Exception as error:
                self._issues.add(Issue(INTERNAL_ERROR, f"group {name}: {fault(error)}"))
                continue
            group = self._groups.pop(name, None) or _Group()
            if not (messages or group.messages):
                continue  # the end of a connection, of a group that was forgotten
            self._groups[name] = group  # behind all others: it was heard of last
            news = group.take(messages, ended)
            self._now = max(self._now, *(message.answered or message.at for message in messages), 0)
            if news and group.due is None:
                group.due = self._now + EVENT_SETTLES
        told = GroupHistory()
        if self._clock() >= self._rest:
            self._tell_due(topics, told)
        self._forget(topics, told)
        return told

    def _tell_due(self, topics: Mapping[str, str], told: GroupHistory) -> None:
        """Analyze the groups whose time has come, those first that wait longest."""
        due = [
            (group.due, name)
            for name, group in self._groups.items()
            if group.due is not None and group.due <= self._now and (self._hurry or len(group.messages) >= group.grown)
        ]
        begun = self._clock()
        for _, name in sorted(due):
            self._tell(name, topics, told, self._now)
            group = self._groups[name]
            if len(group.messages) > MOST_MESSAGES:
                group.thin(self._now - THINNED_AFTER)
            group.grown = len(group.messages) * 5 // 4
            took = self._clock() - begun
            if self._hurry:
                self._rest = begun + 2 * took
                if took > AT_ONCE_S:
                    break

    def _forget(self, topics: Mapping[str, str], told: GroupHistory) -> None:
        """Where there is too much to remember: first what is repeated, then the groups that were silent longest."""
        count = sum(len(group.messages) for group in self._groups.values())
        most, groups = MOST_IN_ALL, self._limits.groups
        if count > MOST_IN_ALL:
            most = MOST_IN_ALL * 3 // 4
            for name, group in self._groups.items():
                if group.due is not None:
                    self._tell(name, topics, told, self._now)
                group.thin(self._now - THINNED_AFTER)
            count = sum(len(group.messages) for group in self._groups.values())
        if len(self._groups) > groups:
            groups -= groups // 16
            detail = f"so many groups that those silent longest are forgotten ({self._limits.option('groups')})"
            self._issues.add(Issue("too_many_groups", detail, count=len(self._groups) - groups))
        for name in list(self._groups):
            if count <= most and len(self._groups) <= groups:
                break
            self._tell(name, topics, told, None)
            count -= len(self._groups.pop(name).messages)

    def finish(self, topics: Mapping[str, str]) -> GroupHistory:
        """All that was not told yet."""
        told = GroupHistory()
        for name in sorted(self._groups):
            self._tell(name, topics, told, None)
        self._groups.clear()
        return told

    def take_issues(self) -> list[Issue]:
        """Groups that could not be understood, for a fault of ours, each once; and how many were too many."""
        issues, self._issues = list(self._issues), IssueLog()
        return issues

    def _tell(self, name: str, topics: Mapping[str, str], told: GroupHistory, now: int | None) -> None:
        """Add what is settled now (None: everything) and was not told before."""
        group = self._groups[name]
        try:
            with circles.none_made():
                history = GroupHistory()
                for _, found in analyze_groups(GroupLog(name, group.messages, group.ended, topics), self.clusters):
                    history.events += found.events
                    history.rebalances += found.rebalances
        except Exception as error:
            said = fault(error)
            if not group.failed:
                first = group.messages[0]
                detail = f"group {name}: {said}"
                self._issues.add(Issue(INTERNAL_ERROR, detail, first.connection, first.at, first.packet))
            group.failed, group.due = True, None
            return
        waiting = []
        for event in history.events:
            if group.thinned <= event.at and (key := _key(event)) not in group.events:
                if now is None or event.at + EVENT_SETTLES <= now:
                    group.events[key] = event.at
                    told.events.append(event)
                else:
                    waiting.append(event.at)
        for place, rebalance in enumerate(history.rebalances):
            at = _over(rebalance)
            generation = (rebalance.group_id, rebalance.protocol, rebalance.to_generation)
            known = group.generations.get(generation)
            if at < group.thinned or (known is not None and _begun(rebalance) <= known):
                continue
            if now is None or _settled(rebalance, history.rebalances[place + 1 :], now):
                group.generations[generation] = at
                told.rebalances.append(rebalance)
            else:
                waiting.append(_begun(rebalance))
        group.due = None if now is None or not waiting else now + AGAIN_AFTER
        group.told = min(waiting, default=2**63 - 1)


def _said(message: Message) -> tuple[_Key, _Key]:
    """Who said something, and what; that is repeated, if it is the same as before."""
    # Offsets go on, and tell nothing of the group.
    bodies = () if message.api in _COMMITS else (message.request_text, message.response_text)
    return (message.connection, message.api), bodies


def _settled(rebalance: Rebalance, later: list[Rebalance], now: int) -> bool:
    of_group = [other for other in later if other.group_id == rebalance.group_id]
    if any(other.stable is not None or other.joined is not None for other in of_group):
        return True
    return rebalance.stable is not None and _over(rebalance) + REBALANCE_SETTLES <= now


def _over(rebalance: Rebalance) -> int:
    return max(rebalance.recovered or 0, rebalance.stable or 0, rebalance.joined or 0, rebalance.started or 0)


def _begun(rebalance: Rebalance) -> int:
    return rebalance.started or rebalance.joined or rebalance.stable or 0


def _key(event: Event) -> _Key:
    return (
        event.group_id,
        event.at,
        event.event,
        event.member_id,
        event.client_id,
        event.generation,
        event.connection,
        event.number,
    )
