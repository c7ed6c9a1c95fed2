"""What members of the classic protocol said and were told: JoinGroup, SyncGroup, LeaveGroup, Heartbeat, commits.

Facts only, in order of time; what they mean for the group is read elsewhere. Times are nanoseconds: `answered` that of
the answer's first byte, `at` that of the request's, or when the broker can have taken it up: it takes no request of a
connection before it has answered the one before (`SocketServer` mutes the channel), and JoinGroup may take long.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kafkascope.decoders.errors import Error, name_of
from kafkascope.reports.groups.assignments import owned_of, topics_of
from kafkascope.reports.groups.body import number, rows, text
from kafkascope.reports.groups.classic.tenures import Tenure, tenures_of
from kafkascope.reports.groups.history import GroupLog
from kafkascope.reports.groups.leaving import FENCED, NOT_HERE, who_leaves
from kafkascope.reports.groups.messages import NO_REPEATS, Message
from kafkascope.sniffer.columns import I64

_IDS_ARE_GIVEN_SINCE = 4
"""The version of JoinGroup in which a new dynamic member first gets an id, and joins with that (KIP-394)."""


@dataclass(slots=True)
class Join:
    """One JoinGroup."""

    message: Message
    at: int
    answered: int | None
    member_id: str  # the one that the member has after it; empty: the capture lacks it
    instance_id: str | None
    asked_id: bool  # it came without a member id
    id_given: bool  # it was told to come again with the id that it got
    error: str | None
    generation: int | None  # that it was answered with
    reason: str
    protocols: list[Any]
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    has_request: bool

    @property
    def packet(self) -> int | None:
        """The packet that shows it."""
        return self.message.packet

    @property
    def assignors(self) -> list[str]:
        """Names of the assignors that the member supports."""
        return [str(each.get("name")) for each in self.protocols if isinstance(each, dict)]

    def metadata(self, assignor: str | None = None) -> Any:
        """What it told the assignor; that of the first one if it does not support this one or none is named."""
        named = {each.get("name"): each.get("metadata") for each in self.protocols if isinstance(each, dict)}
        if assignor in named:
            return named[assignor]
        return next(iter(named.values()), None)

    def topics(self) -> list[str] | None:
        """The topics that it asks for."""
        return topics_of(self.metadata())

    def owned(self, assignor: str | None = None) -> list[str] | None:
        """What it owned as it joined."""
        return owned_of(self.metadata(assignor))


@dataclass(slots=True)
class Sync:
    """One SyncGroup."""

    message: Message
    at: int
    answered: int | None
    member_id: str
    generation: int
    error: str | None


@dataclass(slots=True)
class Leave:
    """One member of a LeaveGroup; by instance id alone if an administrator took out a static member."""

    message: Message
    at: int
    answered: int | None
    member_id: str
    instance_id: str | None
    reason: str
    error: str | None
    has_request: bool = True  # else the capture lacks what it says

    @property
    def packet(self) -> int | None:
        """The packet that shows it."""
        return self.message.packet


@dataclass(slots=True)
class Refusal:
    """A member was told that its group rebalances, or that it has no place in it any more."""

    at: int
    member_id: str
    generation: int
    error: str
    api: str
    message: Message


@dataclass(slots=True)
class Words:
    """What a member said to its group, whatever it was: when, in which packets, and on which connections."""

    times: array[int] = field(default_factory=lambda: array("q"))
    packets: array[int] = field(default_factory=lambda: array("q"))  # 0: the capture lacks it
    heard: array[int] = field(default_factory=lambda: array("q"))  # those that began its session anew, for sure
    connections: dict[int, None] = field(default_factory=dict)

    def last_before(self, at: int) -> tuple[int, int | None] | None:
        """The last word not after a moment, and its packet."""
        place = bisect_right(self.times, at) - 1
        return (self.times[place], self.packets[place] or None) if place >= 0 else None


@dataclass(slots=True)
class Seen:
    """A request that names a generation: the first one, and from whom."""

    at: int
    generation: int
    member_id: str
    message: Message


@dataclass(slots=True)
class GroupFacts:
    """All facts of one group, each list in order of time."""

    joins: list[Join] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    leaves: list[Leave] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    content: dict[int, array[int]] = field(  # by generation: when heartbeats of it were good
        default_factory=lambda: defaultdict(lambda: array("q"))
    )
    words: dict[str, Words] = field(default_factory=lambda: defaultdict(Words))
    named: list[Seen] = field(default_factory=list)  # first request of each member in each generation
    beat: set[str] = field(default_factory=set)  # members that sent heartbeats
    described: list[Message] = field(default_factory=list)
    instances: dict[str, str] = field(default_factory=dict)  # instance id by member id
    spoke: dict[str, Message] = field(default_factory=dict)  # the first message of a member, by its id
    in_vain: dict[str, list[int]] = field(  # when members were told that the coordinator is away, by their ids
        default_factory=lambda: defaultdict(list)
    )
    tenures: list[Tenure] = field(default_factory=list)

    def asked_in_vain(self, member: str, until: int) -> bool:
        """Whether a member, after it was heard last, was told that the coordinator is away: who counts its session?"""
        words = self.words.get(member)
        place = bisect_right(words.heard, until) if words is not None else 0
        last = words.heard[place - 1] if words is not None and place else 0
        told = self.in_vain.get(member, [])
        place = bisect_left(told, last)
        return place < len(told) and told[place] <= until

    def last_content(self, generation: int, low: int, high: int) -> int | None:
        """When a heartbeat of a generation was good for the last time later than one moment and not after another."""
        times = self.content.get(generation, _NO_TIMES)
        place = bisect_right(times, high)
        return times[place - 1] if place and times[place - 1] > low else None

    def leaves_between(self, low: int, high: int) -> list[Leave]:
        """Leaves that succeeded, later than one moment and not after another."""
        places = slice(bisect_right(self.leaves, low, key=_sent), bisect_right(self.leaves, high, key=_sent))
        return [leave for leave in self.leaves[places] if leave.error is None]


_NO_TIMES = array("q")


def _sent(fact: Join | Sync | Leave | Refusal | Seen) -> int:
    return fact.at


def facts_of(log: GroupLog) -> GroupFacts:
    """The facts of the classic protocol among a group's messages."""
    facts = GroupFacts()
    # Where the capture has no answer at all of a connection, that there is none says nothing.
    reader = _FactReader(facts, {message.connection for message in log.messages if message.answered is not None})
    for message in log.messages:
        read = _READERS.get(message.api)
        if read is not None:
            read(reader, message, reader.taken(message))
    facts.joins.sort(key=_sent)
    facts.leaves.sort(key=_sent)
    facts.syncs.sort(key=_sent)
    facts.refusals.sort(key=_sent)
    facts.named.sort(key=_sent)
    facts.tenures = tenures_of(log)
    facts.content = {generation: _numbers(np.sort(times)) for generation, times in facts.content.items()}
    _only_of_members(facts)
    for words in facts.words.values():
        in_turn = np.argsort(words.times, kind="stable")
        words.times, words.packets = (_numbers(np.asarray(each)[in_turn]) for each in (words.times, words.packets))
        words.heard = _numbers(np.sort(words.heard))
    return facts


def _numbers(values: I64) -> array[int]:
    return array("q", values.tobytes())


def _only_of_members(facts: GroupFacts) -> None:
    """Forget who did nothing but commit: members of other protocols commit in the same words."""
    members = {join.member_id for join in facts.joins} | {sync.member_id for sync in facts.syncs}
    members |= facts.beat
    members |= {leave.member_id for leave in facts.leaves}
    for member in [each for each in facts.words if each not in members]:
        del facts.words[member]
        facts.spoke.pop(member, None)
    facts.named = [seen for seen in facts.named if seen.member_id in members]
    facts.refusals = [refusal for refusal in facts.refusals if refusal.member_id in members]


class _FactReader:
    def __init__(self, facts: GroupFacts, answered: Set[int]) -> None:
        self.facts = facts
        self._answered = answered  # connections
        self._named: set[tuple[str, int]] = set()
        self._joined: dict[str, int] = {}  # the generation that each member is in
        self._synced: dict[str, int] = {}  # the latest one of which each member has its assignment
        self._busy: dict[int, int] = {}  # until when, by connection
        self._on: dict[int, str] = {}  # the member that spoke last, by connection
        self._bodies: dict[str | None, tuple[str, int, str]] = {}

    def taken(self, message: Message) -> int:
        """When the broker can have taken a request up; one with repeats, and all of these, as they were sent."""
        if message.repeats is not None:
            self._busy[message.connection] = max(message.over, self._busy.get(message.connection, 0))
            return message.at
        at = max(message.at, self._busy.get(message.connection, 0) + 1)
        if message.answered is not None:
            at = min(at, message.answered)
            self._busy[message.connection] = max(message.answered, self._busy.get(message.connection, 0))
        return at

    def join(self, message: Message, at: int) -> None:
        request, response = message.request, message.response
        asked = text(request.get("memberId"))
        error = message.error
        generation = number(response.get("generationId")) if not error else -1
        member = text(response.get("memberId")) or asked
        join = Join(
            message=message,
            at=at,
            answered=message.answered,
            member_id=member,
            instance_id=text(request.get("groupInstanceId")) or None,
            asked_id=request.get("memberId") == "",
            id_given=error == Error.MEMBER_ID_REQUIRED
            or (
                request.get("memberId") == ""
                and not response
                and message.version >= _IDS_ARE_GIVEN_SINCE
                and not _static(request)
            ),
            error=error,
            generation=generation if generation >= 0 else None,
            reason=text(request.get("reason")),
            protocols=rows(request.get("protocols")),
            session_timeout_ms=number(request.get("sessionTimeoutMs"), 0) or None,
            rebalance_timeout_ms=number(request.get("rebalanceTimeoutMs", request.get("sessionTimeoutMs")), 0) or None,
            has_request=bool(request),
        )
        self.facts.joins.append(join)
        if join.instance_id and member:
            self.facts.instances[member] = join.instance_id
        for each in rows(response.get("members")):
            if text(each.get("groupInstanceId")):
                self.facts.instances[text(each.get("memberId"))] = each["groupInstanceId"]
        if member and (not error or error == Error.MEMBER_ID_REQUIRED):
            # Who joins a generation once more that it is in is answered at once, and its session goes on as it was
            # (GroupMetadataManager, classicGroupJoinExistingMember: followers with no actual change).
            again = generation >= 0 and self._joined.get(member) == generation
            self._joined[member] = generation
            self._said(member, message, at, may_wait=True, prolongs=not again)
            if not error and not again:
                self._answered_at_last(member, message)

    def sync(self, message: Message, at: int) -> None:
        request = message.request
        if number(request.get("generationId")) < 0:
            return
        sync = Sync(
            message=message,
            at=at,
            answered=message.answered,
            member_id=text(request.get("memberId")),
            generation=number(request.get("generationId")),
            error=message.error,
        )
        self.facts.syncs.append(sync)
        again = self._synced.get(sync.member_id) == sync.generation
        if not sync.error and sync.answered is not None:
            self._synced[sync.member_id] = sync.generation
        instance = text(request.get("groupInstanceId"))
        self._spoke(message, at, sync.member_id, sync.generation, instance, prolongs=not again)
        if sync.member_id and not sync.error and not again:
            self._answered_at_last(sync.member_id, message)

    def heartbeat(self, message: Message, at: int) -> None:
        if not message.request_text:
            return
        member, generation, instance = self._who(message)
        self.facts.beat.add(member)
        self._spoke(message, at, member, generation, instance)
        if message.outcome == "answered" and not message.error:
            self.facts.content[generation].append(at)
            self.facts.content[generation].frombytes((message.repeats or NO_REPEATS).at.tobytes())

    def commit(self, message: Message, at: int) -> None:
        member, generation, instance = self._who(message)
        if member and generation >= 0:
            # Refused so it names the generation that is just being formed, and no session begins anew by it.
            forming = message.error == Error.REBALANCE_IN_PROGRESS
            self._spoke(message, at, member, generation, instance, prolongs=not forming)

    def _who(self, message: Message) -> tuple[str, int, str]:
        """Member, generation and instance id that a heartbeat or commit names."""
        known = self._bodies.get(message.request_text)  # a member says the same again and again
        if known is None:
            request = message.request
            generation = number(request.get("generationIdOrMemberEpoch", request.get("generationId")))
            known = text(request.get("memberId")), generation, text(request.get("groupInstanceId"))
            self._bodies[message.request_text] = known
        return known

    def leave(self, message: Message, at: int) -> None:
        request, response = message.request, message.response
        members = who_leaves(request, response)
        has_request = bool(request.get("members") or "memberId" in request)
        if not members and message.connection in self._on:  # it is cut before it names anybody
            members = [{"memberId": self._on[message.connection]}]
        answers = rows(response.get("members"))
        for place, member in enumerate(members):
            code = number(answers[place].get("errorCode"), 0) if place < len(answers) else 0
            whole = len(members) == 1 or not answers  # refused as a whole it has no answers of members
            error = message.error if whole else name_of(code) if code else None
            self.facts.leaves.append(
                Leave(
                    message=message,
                    at=at,
                    answered=message.answered,
                    member_id=text(member.get("memberId")),
                    instance_id=text(member.get("groupInstanceId")) or None,
                    reason=text(member.get("reason")),
                    error=error,
                    has_request=has_request,
                )
            )

    def describe(self, message: Message, at: int) -> None:
        self.facts.described.append(message)

    def _spoke(
        self, message: Message, at: int, member: str, generation: int, instance: str, *, prolongs: bool = True
    ) -> None:
        if not member:
            return
        if instance:
            self.facts.instances.setdefault(member, instance)
        if not message.error or message.error == Error.REBALANCE_IN_PROGRESS:
            self._said(member, message, at, may_wait=message.api == "SyncGroup", prolongs=prolongs)
        if message.error:
            self.facts.refusals.append(Refusal(at, member, generation, message.error, message.api, message))
        if message.error in NOT_HERE:
            insort(self.facts.in_vain[member], message.answered or at)
        if generation >= 0 and (member, generation) not in self._named and message.error not in FENCED | NOT_HERE:
            self._named.add((member, generation))
            self.facts.named.append(Seen(at, generation, member, message))

    def _answered_at_last(self, member: str, message: Message) -> None:
        """Brokers wait for who waits for them, and its session begins anew as they answer (propagateAssignment)."""
        if message.answered is not None:
            words = self.facts.words[member]
            words.times.append(message.answered)
            words.packets.append(message.response_packet or 0)
            words.heard.append(message.answered)

    def _said(self, member: str, message: Message, at: int, *, may_wait: bool, prolongs: bool) -> None:
        """A word of a member.

        may_wait: the broker takes its time to answer that, and knows the member is there; prolongs: its session
        begins anew by it.
        """
        self.facts.spoke.setdefault(member, message)
        words = self.facts.words[member]
        words.times.append(at)
        words.packets.append(message.packet or 0)
        if prolongs and (may_wait or message.answered is not None or message.connection not in self._answered):
            words.heard.append(at)
        repeats = message.repeats or NO_REPEATS
        times = repeats.at.tobytes()
        words.times.frombytes(times)
        words.heard.frombytes(times)
        words.packets.frombytes(repeats.request_packet.tobytes())
        words.connections[message.connection] = None
        self._on[message.connection] = member


_READERS = {
    "JoinGroup": _FactReader.join,
    "SyncGroup": _FactReader.sync,
    "Heartbeat": _FactReader.heartbeat,
    "OffsetCommit": _FactReader.commit,
    "LeaveGroup": _FactReader.leave,
    "DescribeGroups": _FactReader.describe,
}


def _static(request: dict[str, Any]) -> bool:
    return bool(request.get("groupInstanceId"))


def same_protocols(one: Join, other: Join) -> bool:
    """Whether two joins told the broker the same: else the group rebalances for it."""
    return _canonical(one.protocols) == _canonical(other.protocols)


def _canonical(protocols: list[Any]) -> str:
    return json.dumps(protocols, sort_keys=True)
