"""The generations of a group of the classic protocol, as far as requests and answers name them."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafkascope.reports.groups.assignments import connect_result, owned_of, partitions_of
from kafkascope.reports.groups.body import rows, text
from kafkascope.reports.groups.classic.facts import GroupFacts, Join, Leave, Sync
from kafkascope.sniffer.units import SECOND_NS

MOST_INFERRED = 100
"""Generations between two that were seen which are inferred; with more the group was out of sight for long."""

_LIFE_NS = 3 * SECOND_NS
"""An answer with an older generation, so much later than the newer one, is of a group that began anew."""


@dataclass(slots=True)
class Generation:
    """One generation: who was in it and who got what. Times are ns; None: the capture does not have it."""

    number: int
    formed: int  # when it was first seen: JoinGroup answered, or the first request that names it
    answered: bool = False  # whether a JoinGroup answer named it
    only_named: bool = False  # nobody joined it in sight: a heartbeat or a commit alone names it
    inferred: bool = False
    protocol_type: str | None = None
    assignor: str | None = None
    leader: str | None = None
    joins: dict[str, Join] = field(default_factory=dict)  # by member id; those answered when it was formed
    replaced: dict[str, Join] = field(default_factory=dict)  # joins of static members after it was formed, by new id
    aliases: dict[str, str] = field(default_factory=dict)  # new member id by the one that it replaced
    syncs: dict[str, Sync] = field(default_factory=dict)  # the last one of each member
    leader_sync: Sync | None = None
    listed: dict[str, tuple[str | None, Any]] | None = None  # by the leader's answer: instance id and metadata
    named: set[str] = field(default_factory=set)  # member ids that requests in this generation have
    assigned: dict[str, list[str]] = field(default_factory=dict)
    allocations: dict[str, Any] = field(default_factory=dict)  # the assignment as it was sent, by member id
    emptied_by: list[Leave] = field(default_factory=list)

    @property
    def members(self) -> list[str]:
        """Ids of its members when it was formed, sorted; all of them if `complete`."""
        if self.listed is not None:
            return sorted(self.listed)
        given = set(self.allocations) if self.leader_sync is not None else set()
        # Every answer names the leader, of which the capture may have nothing else.
        leader = {self.leader} if self.leader else set()
        return sorted((set(self.joins) | given | self.named | leader) - set(self.replaced))

    @property
    def complete(self) -> bool:
        """Whether all its members are known."""
        if self.inferred:
            return self.listed is not None
        return self.listed is not None or (self.leader_sync is not None and bool(self.allocations))

    def present(self) -> set[str]:
        """Member ids now, after static members came with new ids."""
        return {self.current(member) for member in self.members}

    def current(self, member: str) -> str:
        """The id of a member now."""
        seen = set()
        while member in self.aliases and member not in seen:
            seen.add(member)
            member = self.aliases[member]
        return member

    @property
    def begun(self) -> int:
        """When the first of its members joined, as far as that is seen."""
        return min((join.at for join in self.joins.values()), default=self.formed)

    @property
    def stable(self) -> int | None:
        """When the broker had the leader's assignment, or the first member its own."""
        if self.leader_sync is not None:
            return self.leader_sync.at if not self.leader_sync.error else None
        done = [sync.answered or sync.at for sync in self.syncs.values() if not sync.error and sync.answered]
        return min(done, default=None)


def generations_of(facts: GroupFacts) -> list[list[Generation]]:
    """Generations in order, in a list for each life of the group: a group that was deleted begins anew at 1."""
    lives: list[list[Generation]] = []
    by_number: dict[int, Generation] = {}

    def place(number: int, at: int, join: Join | None) -> Generation | None:
        nonlocal by_number
        newest = lives[-1][-1] if lives else None
        if newest is None or (join is not None and at > newest.formed + _LIFE_NS and _anew(newest, number, join)):
            lives.append([])
            by_number = {}
        elif number in by_number:
            return by_number[number]
        elif join is None and number < newest.number:
            return None  # a late word of a generation that has passed unseen
        generation = Generation(number, formed=at)
        by_number[number] = generation
        insort(lives[-1], generation, key=_number)
        return generation

    for at, kind, fact in _named(facts):
        generation = place(fact.generation, at, fact if kind == "join" else None)
        if generation is not None:
            _ADD[kind](facts, generation, fact)
    for life in lives:
        _settle(life)
    return lives


def _number(generation: Generation) -> int:
    return generation.number


def _anew(newest: Generation, number: int, join: Join) -> bool:
    """Whether an answer with this generation is of a group that began anew: numbers only grow in one life."""
    if number != newest.number:
        return number < newest.number
    known = {*newest.joins, *newest.replaced, *newest.named, *(newest.listed or {})}
    return join.instance_id is None and join.member_id not in known and newest.answered


def _named(facts: GroupFacts) -> list[tuple[int, str, Any]]:
    """All that names a generation, in order of when the broker had formed it at the latest."""
    found: list[tuple[int, str, Any]] = []
    for join in facts.joins:
        if join.generation is not None:
            found.append((join.answered or join.at, "join", join))
    found += [(sync.at, "sync", sync) for sync in facts.syncs]
    found += [(seen.at, "seen", seen) for seen in facts.named]
    return sorted(found, key=lambda each: each[0])


def _add_join(facts: GroupFacts, generation: Generation, join: Join) -> None:
    response = join.message.response
    if not generation.answered:
        generation.formed = min(generation.formed, join.answered or join.at)
        generation.answered = True
    generation.protocol_type = text(response.get("protocolType")) or generation.protocol_type
    generation.protocol_type = generation.protocol_type or text(join.message.request.get("protocolType")) or None
    generation.assignor = text(response.get("protocolName")) or generation.assignor
    generation.leader = generation.leader or text(response.get("leader")) or None
    listed = [each for each in rows(response.get("members")) if text(each.get("memberId"))]
    if listed and generation.listed is None:
        generation.listed = {
            each["memberId"]: (text(each.get("groupInstanceId")) or None, each.get("metadata")) for each in listed
        }
    if _took_over(facts, generation, join):
        return
    if join.member_id:
        generation.joins.setdefault(join.member_id, join)  # who asks again is told the same


def _took_over(facts: GroupFacts, generation: Generation, join: Join) -> bool:
    """A static member that came again with a new id, and was let in without a rebalance."""
    if not join.asked_id or not join.instance_id:
        return False
    for member in dict.fromkeys([*generation.joins, *generation.replaced, *(generation.listed or {})]):
        if member != join.member_id and facts.instances.get(member) == join.instance_id:
            if join.member_id in (generation.listed or {}) and member not in generation.joins:
                return False
            if member not in generation.aliases:
                generation.aliases[member] = join.member_id
                generation.replaced[join.member_id] = join
                return True
    return False


def _add_sync(facts: GroupFacts, generation: Generation, sync: Sync) -> None:
    request, response = sync.message.request, sync.message.response
    before = generation.syncs.get(sync.member_id)
    if before is None or before.error or before.answered is None:
        generation.syncs[sync.member_id] = sync
    for body in (request, response):
        generation.protocol_type = generation.protocol_type or text(body.get("protocolType")) or None
        generation.assignor = generation.assignor or text(body.get("protocolName")) or None
    given = [each for each in rows(request.get("assignments")) if text(each.get("memberId"))]
    if given and (generation.leader_sync is None or generation.leader_sync.error):
        generation.leader = generation.leader or sync.member_id
        generation.leader_sync = sync
        generation.allocations.update({each["memberId"]: each.get("assignment") for each in given})
    if not sync.error and response.get("assignment") is not None:
        generation.allocations.setdefault(sync.member_id, response["assignment"])


def _add_seen(facts: GroupFacts, generation: Generation, seen: Any) -> None:
    generation.named.add(seen.member_id)


_ADD: dict[str, Callable[[GroupFacts, Generation, Any], None]] = {
    "join": _add_join,
    "sync": _add_sync,
    "seen": _add_seen,
}


def _settle(life: list[Generation]) -> None:
    """Work out who had what, generation by generation: Connect's assignments build on what was held before."""
    before: Generation | None = None
    for generation in life:
        formed_before = bool(generation.joins) and generation.formed < generation.begun  # a static member came later
        generation.only_named = formed_before or not (generation.answered or generation.syncs)
        given = generation.leader_sync
        if given is not None and not given.error and generation.listed:
            for member in generation.listed:
                generation.allocations.setdefault(member, "")
        for member, allocation in generation.allocations.items():
            own = generation.syncs.get(member)
            if given is not None and given.error and (own is None or own.error):
                continue  # the broker never took what the leader gave
            if (got := _got(generation, member, allocation, before)) is not None:
                generation.assigned[member] = got
        for old, new in generation.aliases.items():
            if new in generation.assigned:
                generation.assigned.setdefault(old, generation.assigned[new])
        before = generation


def _got(generation: Generation, member: str, allocation: Any, before: Generation | None) -> list[str] | None:
    """What an allocation gives to a member; None: nobody can read it."""
    if not isinstance(allocation, dict) or allocation.get("_definition") != "ConnectAssignment":
        return partitions_of(allocation)
    held = owned_of((generation.listed or {}).get(member, (None, None))[1])
    if held is None and member in generation.joins:
        held = generation.joins[member].owned(generation.assignor)
    if held is None and before is not None:
        held = before.assigned.get(member)
    return connect_result(allocation, held or [])
