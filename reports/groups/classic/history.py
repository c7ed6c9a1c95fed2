"""Groups of the classic protocol: plain consumers of any language and version, Connect, and Streams before KIP-1071.

The generations are those that the broker's answers name; what began each is read from what was said between two of
them; members, assignments and delays are those that the leader and each member told. Protocol: JoinGroup, SyncGroup,
Heartbeat and LeaveGroup in all versions, KIP-62, KIP-134, KIP-345, KIP-394, KIP-415, KIP-429, KIP-800.
"""

from __future__ import annotations

import logging

from kafkascope.reports.groups.assignments import owned_of, partitions_of, topics_of
from kafkascope.reports.groups.body import rows, text
from kafkascope.reports.groups.classic.events import events_of
from kafkascope.reports.groups.classic.facts import GroupFacts, facts_of
from kafkascope.reports.groups.classic.generations import Generation, generations_of
from kafkascope.reports.groups.classic.inferred import with_inferred
from kafkascope.reports.groups.classic.openings import Index, opening
from kafkascope.reports.groups.classic.readings import OpeningReader
from kafkascope.reports.groups.classic.verdicts import Judge
from kafkascope.reports.groups.cost import Ownership, last_of, moved_partitions, unowned_spans
from kafkascope.reports.groups.history import GroupHistory, GroupLog, Member, Rebalance
from kafkascope.reports.groups.members import Profiles
from kafkascope.reports.vocabulary.triggers import Trigger
from kafkascope.sniffer.units import MILLISECOND_NS

_LOG = logging.getLogger(__name__)

_CONNECT = "connect"


def classic(log: GroupLog) -> GroupHistory:
    """All events of a group's members in the classic protocol, and one rebalance for each generation."""
    facts = facts_of(log)
    if not (facts.joins or facts.syncs or facts.named or facts.leaves):
        return GroupHistory()
    profiles = _profiles(log, facts)
    index = Index.of(facts)
    reader = OpeningReader(facts, index, profiles)
    judge = Judge(facts, index, profiles, reader)
    last_seen = max(message.over for message in log.messages)
    lives = generations_of(facts)
    begun = [life[0].begun for life in lives]
    history = GroupHistory(events=events_of(log, facts, profiles, begun))
    begin: int | None = None
    for life, end in zip(lives, [*(at - 1 for at in begun[1:]), last_seen], strict=False):
        generations = with_inferred(life, facts, index, reader, end)
        _fill_protocol_types(generations)
        if _LOG.isEnabledFor(logging.DEBUG):
            _log_generations(log.group_id, generations)
        history.rebalances += _rebalances(log, facts, profiles, index, judge, generations, begin)
        begin = end
    return history


def _fill_protocol_types(generations: list[Generation]) -> None:
    """Generations of which nobody said the type have that of the one before, the first ones that of the next."""
    known = next((each.protocol_type for each in generations if each.protocol_type), None)
    for each in generations:
        known = each.protocol_type = each.protocol_type or known


def _log_generations(group_id: str, generations: list[Generation]) -> None:
    """Log how one life of a group was cut into generations, and by what each is known."""
    for each in generations:
        packets = [join.packet for join in each.joins.values() if join.packet]
        by = "inferred from those around it" if each.inferred else "named by heartbeats or commits alone"
        if packets and not each.only_named:
            by = f"formed by joins, packets {min(packets)} to {max(packets)}"
        elif not each.inferred and not each.only_named:
            by = "known by its assignments"
        _LOG.debug("group %s: generation %d, %s; %d members", group_id, each.number, by, len(each.members))


def _profiles(log: GroupLog, facts: GroupFacts) -> Profiles:
    profiles = Profiles(log)
    for member, message in facts.spoke.items():
        profiles.heard(member, message)
    for message in facts.described:
        for described in rows(message.response.get("groups")):
            if described.get("groupId") == log.group_id:
                for each in rows(described.get("members")):
                    client, host = text(each.get("clientId")), text(each.get("clientHost"))
                    profiles.described(text(each.get("memberId")), client, host)
    return profiles


def _rebalances(
    log: GroupLog,
    facts: GroupFacts,
    profiles: Profiles,
    index: Index,
    judge: Judge,
    generations: list[Generation],
    begin: int | None,
) -> list[Rebalance]:
    """The rebalances of one life of a group, which began after a moment, where one was before it."""
    found: list[Rebalance] = []
    before: Generation | None = None
    held: Generation | None = None  # the last one whose assignment members got
    given_up: list[Ownership] = []  # what had no owner since: Connect gives it out later
    for generation in generations:
        if generation.only_named and before is None:
            before, begin = generation, generation.formed - 1  # it was formed before the capture
            held = before
            continue
        gap = opening(facts, index, before, generation, begin)
        verdict = judge.verdict(gap)
        rebalance = Rebalance(
            group_id=log.group_id,
            protocol=_CONNECT if generation.protocol_type == _CONNECT else "classic",
            to_generation=generation.number,
            from_generation=before.number if before is not None else None,
            started=verdict.started,
            joined=generation.formed if generation.answered else None,
            stable=generation.stable,
            trigger=verdict.trigger,
            trigger_member=verdict.member_id,
            trigger_client_id=verdict.client_id,
            certainty=verdict.certainty,
            evidence=verdict.evidence,
            contributing=verdict.contributing,
            leader=generation.leader,
            assignor=generation.assignor,
            members=_members(facts, profiles, index, generation, held),
            inferred=generation.inferred,
        )
        if generation.inferred:
            rebalance.stable = generation.formed if generation.listed is not None else None
        joined_last = max([each.joined for each in rebalance.members if each.joined is not None], default=None)
        given_up = _add_cost(facts, index, rebalance, generation, held, given_up)
        for missing in verdict.contributing:
            if missing.trigger == Trigger.REBALANCE_TIMEOUT and joined_last is not None:  # the others waited in vain
                rebalance.last_client_id = missing.client_id
                rebalance.last_by_ms = (generation.formed - joined_last) / MILLISECOND_NS
        found.append(rebalance)
        known = generation.listed is not None or not generation.inferred
        if known:
            before, begin = generation, generation.formed
            triggers = {verdict.trigger, *(each.trigger for each in verdict.contributing)}
            emptied = not generation.members and Trigger.SESSION_TIMEOUT not in triggers  # else it was to be read on
            if generation.assigned or emptied:
                held = generation
        else:
            begin = max(begin or 0, rebalance.started or 0)
    return found


def _members(
    facts: GroupFacts, profiles: Profiles, index: Index, generation: Generation, before: Generation | None
) -> list[Member]:
    members = []
    for member_id in generation.members:
        instance, metadata = (generation.listed or {}).get(member_id, (None, None))
        instance = instance or facts.instances.get(member_id)
        join = generation.joins.get(member_id)
        earlier = join or index.last_join(member_id, generation.formed)
        sync = generation.syncs.get(member_id)
        synced = sync.answered if sync is not None and not sync.error else None
        profile = profiles.of(member_id, instance)
        if metadata is None and earlier is not None:
            metadata = earlier.metadata(generation.assignor)
        assignors = earlier.assignors if earlier is not None else []
        members.append(
            Member(
                member_id=member_id,
                client_id=profile.client_id,
                host=profile.host,
                instance_id=instance,
                software=profile.software,
                software_version=profile.software_version,
                session_timeout_ms=earlier.session_timeout_ms if earlier is not None else None,
                rebalance_timeout_ms=earlier.rebalance_timeout_ms if earlier is not None else None,
                assignors=assignors or ([generation.assignor] if generation.assignor else []),
                subscription=topics_of(metadata) or [],
                joined=join.at if join is not None and join.has_request else None,
                synced=synced,
                join_ms=_lasted(join.at, join.answered) if join is not None and join.has_request else None,
                sync_ms=_lasted(sync.at, sync.answered) if sync is not None and not sync.error else None,
                assignment_before=_had(facts, generation, before, member_id, instance),
                assignment=generation.assigned.get(member_id),
            )
        )
    return members


def _had(
    facts: GroupFacts, generation: Generation, before: Generation | None, member_id: str, instance: str | None
) -> list[str] | None:
    if before is None:
        metadata = (generation.listed or {}).get(member_id, (None, None))[1]
        return owned_of(metadata) or None
    same = [each for each in before.members if facts.instances.get(each) == instance] if instance else []
    for earlier in (member_id, *same):
        if earlier in before.assigned:
            return before.assigned[earlier]
        if earlier in before.allocations:
            return partitions_of(before.allocations[earlier])
    return [] if before.complete else None


def _lasted(begin: int, end: int | None) -> float | None:
    return None if end is None else (end - begin) / MILLISECOND_NS


def _add_cost(
    facts: GroupFacts,
    index: Index,
    rebalance: Rebalance,
    generation: Generation,
    before: Generation | None,
    given_up: list[Ownership],
) -> list[Ownership]:
    """What it cost. Returns what has no owner now, as given_up had none before: Connect gives it out after a delay."""
    if rebalance.started is not None and rebalance.stable is not None:
        rebalance.duration_ms = max(0, rebalance.stable - rebalance.started) / MILLISECOND_NS
    synced = [member.synced for member in rebalance.members if member.synced is not None]
    if synced:
        rebalance.recovered = max(synced)
        if rebalance.started is not None:
            rebalance.cost_ms = max(0, rebalance.recovered - rebalance.started) / MILLISECOND_NS
    joined = {member.member_id: member.joined for member in rebalance.members if member.joined is not None}
    last = last_of(joined) if len(joined) > 1 else None
    if last is not None:
        member, rebalance.last_by_ms = last
        rebalance.last_client_id = next(m.client_id for m in rebalance.members if m.member_id == member)
    if before is None or generation.inferred:
        return given_up
    owner = {member: facts.instances.get(member) or member for member in (*before.members, *generation.members)}
    rebalance.moved = moved_partitions(
        {owner[member]: before.assigned.get(member, []) for member in before.members},
        {owner[member]: generation.assigned.get(member, []) for member in generation.members},
    )
    ownerships = [*given_up, *_ownerships(facts, index, rebalance, generation, before)]
    spans = unowned_spans(ownerships, before.formed, 2**62)
    rebalance.unowned = spans
    rebalance.unowned_ms = max((span.ms for span in spans), default=None)
    if rebalance.protocol != _CONNECT:
        return []
    taken = {each.partition for each in ownerships if each.until is None}
    return [each for each in ownerships if each.partition not in taken]


def _ownerships(
    facts: GroupFacts, index: Index, rebalance: Rebalance, generation: Generation, before: Generation
) -> list[Ownership]:
    """Who had what around one rebalance.

    An eager member gives up everything as it joins again, a cooperative one tells in its JoinGroup what it keeps; one
    that is gone had its partitions until it left, or until its last word. What the assignment before took from a
    cooperative member it had until it got that assignment.
    """
    found = []
    joins = {generation.current(member): join for member, join in generation.joins.items()}
    left = {leave.member_id: leave.at for leave in facts.leaves_between(before.formed, generation.formed)}
    for member in before.members:
        now = before.current(member)
        synced = before.syncs.get(member)
        since = before.formed if synced is None or synced.answered is None else synced.answered
        join = joins.get(now)
        keeps: set[str] = set()
        until: int | None
        if join is not None:
            keeps = set(join.owned(generation.assignor) or ()) & set(generation.assigned.get(now, ()))
            replaces = before.replaced.get(now)  # the join by which it took over, which gave up nothing
            until = index.first_join(now, before.formed if replaces is None else replaces.at, join).at
        elif now in left:
            until = left[now]
        else:
            words = facts.words.get(now)
            last = words.last_before(generation.formed) if words is not None else None
            until = last[0] if last is not None else rebalance.started
        earlier = before.joins.get(member)
        had = set(before.assigned.get(member, ()))
        if until is None:
            continue
        for partition in had - keeps:
            found.append(Ownership(partition, member, min(since, until), until))
        for partition in had & keeps:
            found.append(Ownership(partition, member, min(since, until), None))
        for partition in set((earlier.owned(before.assignor) if earlier else None) or ()) - had:
            found.append(Ownership(partition, member, before.formed, max(since, before.formed)))
    for each in rebalance.members:
        if each.synced is None:
            continue
        for partition in each.assignment or ():
            found.append(Ownership(partition, each.member_id, each.synced, None))
    return found
