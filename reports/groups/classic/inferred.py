"""Generations that nobody on the wire named: of a group without members, passed over, or begun as the capture ended."""

from __future__ import annotations

from bisect import bisect_right

from kafkascope.decoders.errors import Error
from kafkascope.reports.groups.classic.facts import GroupFacts, Leave
from kafkascope.reports.groups.classic.generations import MOST_INFERRED, Generation
from kafkascope.reports.groups.classic.openings import Index
from kafkascope.reports.groups.classic.readings import OpeningReader


def with_inferred(
    life: list[Generation], facts: GroupFacts, index: Index, reader: OpeningReader, last_seen: int
) -> list[Generation]:
    """The generations of one life of a group, which is seen until a moment, and those that must have been besides."""
    result: list[Generation] = []
    for place, generation in enumerate(life):
        result.append(generation)
        following = life[place + 1] if place + 1 < len(life) else None
        if following is not None and following.number == generation.number + 1:
            continue
        emptied = _emptied(generation, following, facts, index, reader, last_seen)
        if emptied is not None:
            result.append(emptied)
        elif following is None and (begun := _begun(generation, facts, index, last_seen)) is not None:
            result.append(begun)
        if following is None or following.number - generation.number - 1 > MOST_INFERRED:
            continue
        for number in range(result[-1].number + 1, following.number):
            result.append(Generation(number, formed=following.begun, inferred=True))
    return result


def _begun(generation: Generation, facts: GroupFacts, index: Index, last_seen: int) -> Generation | None:
    """The generation to come: who will be in it is not known.

    There is one if somebody left or joined after the last one, or if its assignment could not be written.
    """
    present = generation.present()
    instances = {facts.instances.get(member) for member in present} - {None}
    left = any(
        leave.error is None and (leave.member_id in present or leave.instance_id in instances)
        for leave in facts.leaves[bisect_right(index.leaves, generation.formed) : bisect_right(index.leaves, last_seen)]
    )
    joins = facts.joins[bisect_right(index.joins, generation.formed) : bisect_right(index.joins, last_seen)]
    joining = any(
        join.generation is None and join.error is None and join.answered is None and not join.id_given
        for join in joins
        if join.member_id and join.member_id not in present
    )
    refused = generation.leader_sync is not None and generation.leader_sync.error == Error.UNKNOWN_SERVER_ERROR
    if not (left or joining or refused):
        return None
    return Generation(generation.number + 1, formed=last_seen, inferred=True)


def _emptied(
    generation: Generation,
    following: Generation | None,
    facts: GroupFacts,
    index: Index,
    reader: OpeningReader,
    last_seen: int,
) -> Generation | None:
    """The generation that a group enters when its last member is gone."""
    present = generation.present()
    if not present:
        return None
    until = following.begun - 1 if following is not None else last_seen
    gone: dict[str, int] = {}
    leaves: list[Leave] = []
    joined = facts.joins[bisect_right(index.joins, generation.formed) : bisect_right(index.joins, until)]
    joining = {join.member_id for join in joined if not join.error and join.generation is None and join.member_id}
    instances = {facts.instances.get(member): member for member in present if facts.instances.get(member)}
    for leave in facts.leaves[bisect_right(index.leaves, generation.formed) : bisect_right(index.leaves, until)]:
        member = leave.member_id or instances.get(leave.instance_id, "")
        if leave.error is None and (member in present or member in joining):
            gone[member] = leave.at
            leaves.append(leave)
    all_left = set(gone) >= present
    for member in sorted((present | joining) - set(gone)):
        if member not in present:
            return None  # it waits for the others
        ends = reader.session_end(generation, member, until)
        if following is None and (ends is None or ends > until or facts.asked_in_vain(member, until)):
            return None  # it may still be there
        gone[member] = min(ends, until) if ends is not None else until
    if not generation.complete and (not leaves or following is not None):
        return None  # nobody is known to be left, but others may be
    return Generation(
        generation.number + 1,
        formed=max(gone.values()),
        inferred=True,
        listed={},
        emptied_by=leaves if all_left else [],
    )
