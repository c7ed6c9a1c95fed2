"""The time between two generations of the classic protocol: what was said in it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from kafkascope.decoders.errors import Error
from kafkascope.reports.groups.classic.facts import GroupFacts, Join, Leave, Refusal
from kafkascope.reports.groups.classic.generations import Generation
from kafkascope.reports.groups.leaving import NOT_A_MEMBER
from kafkascope.sniffer.units import MILLISECOND_NS

SAME_MOMENT_NS = 20 * MILLISECOND_NS
"""Events of different connections so near to each other may reach the broker's coordinator in the other order."""

LATE_NS = 50 * MILLISECOND_NS
"""How much later than it was sent the broker may act on something."""

TIMER_NS = 2_000 * MILLISECOND_NS
"""How far a timer of the broker may be off what one reckons: words that the capture lacks reset it, too."""


@dataclass(frozen=True, slots=True)
class Told:
    """A member was told that its group rebalances."""

    at: int  # (ns)
    member_id: str
    packet: int | None
    error: str


@dataclass(slots=True)
class Opening:
    """The time between two generations: from the forming of one to that of the next."""

    before: Generation | None
    after: Generation
    begin: int | None  # None: before the capture
    end: int
    joins: list[Join]  # that led to the generation after, or may have
    leaves: list[tuple[Leave, str]]  # with the id of the member that left
    told: list[Told]  # of a rebalance, in order of time
    content_until: int | None  # last heartbeat of the generation before that was answered without error

    @property
    def began_unseen(self) -> bool:
        """Whether the JoinGroup of who leads a new group is not seen."""
        seen = {join.member_id for join in self.joins}
        return self.before is None and self.after.number == 1 and self.after.leader not in seen


def opening(
    facts: GroupFacts, index: Index, before: Generation | None, after: Generation, begin: int | None
) -> Opening:
    """Gather what happened between two generations."""
    end = after.formed
    low = begin if begin is not None else -(2**62)
    joins = list(after.joins.values())
    for join in facts.joins[bisect_right(index.joins, low) : bisect_right(index.joins, end)]:
        unanswered = join.generation is None and not join.error and not join.id_given and join.member_id
        if not unanswered or join.member_id in after.joins:
            continue
        lost = index.expelled(join.member_id, join.at, end) is not None  # with the coordinator that it had joined at
        if not after.complete or join.member_id in after.members or lost:
            joins.append(join)
    leaves = []
    for leave in facts.leaves[bisect_right(index.leaves, low) : bisect_right(index.leaves, end)]:
        if leave.error is None:
            leaves.append((leave, _who_left(facts, before, leave)))
    told = []
    number = before.number if before is not None else None
    unwritten = before.leader_sync if before is not None and is_not_stored(before) else None
    for refusal in facts.refusals[bisect_right(index.refusals, low) : bisect_right(index.refusals, end)]:
        if number is not None and refusal.generation != number:
            continue
        message = refusal.message  # SyncGroup waits for the leader, and is answered so as the next one begins
        at = message.answered or refusal.at
        if unwritten is not None and refusal.api == "SyncGroup" and refusal.error == unwritten.error:
            at = max(at, unwritten.answered or unwritten.at)  # it may have waited for longer
        elif refusal.error != Error.REBALANCE_IN_PROGRESS or refusal.api == "OffsetCommit":
            continue  # a commit is refused so while its generation is being formed, not as it ends
        told.append(Told(min(at, end), refusal.member_id, message.packet, refusal.error))
    told.sort(key=lambda each: each.at)
    content_until = facts.last_content(before.number, low, end) if before is not None else None
    return Opening(before, after, begin, end, joins, leaves, told, content_until)


@dataclass(frozen=True, slots=True)
class Expelled:
    """A member was told that it is none any more: it had been taken out before."""

    at: int  # (ns) of the answer
    packet: int | None
    error: str


@dataclass(slots=True)
class Index:
    """Times of facts, for searching."""

    joins: list[int]
    leaves: list[int]
    refusals: list[int]
    by_member: dict[str, list[Join]]
    given: set[str]  # ids of members that the broker gave them
    refused: dict[str, list[Expelled]]

    @classmethod
    def of(cls, facts: GroupFacts) -> Index:
        """The index of these facts."""
        by_member: dict[str, list[Join]] = {}
        for join in facts.joins:
            if join.member_id:
                by_member.setdefault(join.member_id, []).append(join)
        refused: dict[str, list[Expelled]] = {}
        said: list[Join | Refusal | Leave] = [*facts.joins, *facts.refusals, *facts.leaves]
        for each in said:
            if each.error in NOT_A_MEMBER and each.error is not None and each.member_id:
                at, packet = each.message.answered or each.at, each.message.response_packet or each.message.packet
                refused.setdefault(each.member_id, []).append(Expelled(at, packet, each.error))
        for found in refused.values():
            found.sort(key=lambda each: each.at)
        return cls(
            [join.at for join in facts.joins],
            [leave.at for leave in facts.leaves],
            [refusal.at for refusal in facts.refusals],
            by_member,
            {join.member_id for join in facts.joins if join.id_given},
            refused,
        )

    def last_join(self, member_id: str, at: int) -> Join | None:
        """A member's last JoinGroup not after a moment, of those whose request is known."""
        joins = self.by_member.get(member_id, [])
        for place in range(bisect_right(joins, at, key=_sent) - 1, -1, -1):
            if joins[place].has_request:
                return joins[place]
        return None

    def expelled(self, member_id: str, low: int, high: int) -> Expelled | None:
        """The first time, later than one moment and not after another, that a member was told that it is none."""
        found = self.refused.get(member_id, [])
        place = bisect_right(found, low, key=lambda each: each.at)
        return found[place] if place < len(found) and found[place].at <= high else None

    def first_join(self, member_id: str, after: int, otherwise: Join) -> Join:
        """A member's first JoinGroup later than a moment."""
        joins = self.by_member.get(member_id, [])
        place = bisect_right(joins, after, key=_sent)
        return joins[place] if place < len(joins) else otherwise


# What coordinators make of a write that failed (GroupMetadataManager, appendGroupMetadataErrorToResponseError).
_NOT_WRITTEN = frozenset({Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR, Error.UNKNOWN_SERVER_ERROR})


def is_not_stored(generation: Generation) -> bool:
    """Whether the leader's assignment was refused though the leader was welcome."""
    return generation.leader_sync is not None and generation.leader_sync.error in _NOT_WRITTEN


def _sent(join: Join) -> int:
    return join.at


def _who_left(facts: GroupFacts, before: Generation | None, leave: Leave) -> str:
    if leave.member_id or not leave.instance_id:
        return leave.member_id
    for member in sorted(before.present()) if before is not None else ():
        if facts.instances.get(member) == leave.instance_id:
            return member
    return ""
