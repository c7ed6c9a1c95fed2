"""What may have set a rebalance of the classic protocol off: every reading that the wire allows, weighed.

The broker begins a rebalance at the first event that calls for one while the group is complete. So the candidates are
all such events between the forming of one generation and of the next, in order of time; the first is the trigger unless
something on the wire says that it came too early (the broker was still content with heartbeats of the old generation)
or too late (members had been told of a rebalance before). A member that fell silent says nothing: its session ends at
its last word plus its session timeout.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.columns.text import client_name
from kafkascope.reports.groups.assignments import connect_work, owned_of
from kafkascope.reports.groups.classic.facts import GroupFacts, Join, Leave, same_protocols
from kafkascope.reports.groups.classic.generations import Generation
from kafkascope.reports.groups.classic.openings import (
    LATE_NS,
    SAME_MOMENT_NS,
    TIMER_NS,
    Expelled,
    Index,
    Opening,
    is_not_stored,
)
from kafkascope.reports.groups.classic.tenures import TakeOver, taken_over
from kafkascope.reports.groups.history import Evidence
from kafkascope.reports.groups.leaving import left_by_itself, trigger_by_reason
from kafkascope.reports.groups.members import Profiles
from kafkascope.reports.groups.strengths import Strength
from kafkascope.reports.vocabulary.triggers import Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_WITH_GIVEN_ID = "re-join with the given member-id"  # the reason of a new member's second JoinGroup (KIP-394)

# How the reasons of KIP-800 are understood, first match first. Java: AbstractCoordinator and ConsumerCoordinator;
# Streams: StreamThread and StreamsRebalanceListener; franz-go: consumer_group.go. None: it follows another's rebalance.
_JOIN_REASONS: tuple[tuple[re.Pattern[str], Trigger | None], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), trigger)
    for pattern, trigger in (
        (r"need to revoke|after revoking", Trigger.COOPERATIVE_FOLLOWUP),
        (r"tasks? corrupted", Trigger.STREAMS_TASKS_CORRUPTED),
        (r"followup rebalance|probing rebalance", Trigger.STREAMS_FOLLOWUP),
        (r"metadata has changed|topics? (metadata|partitions?) .*chang", Trigger.TOPIC_PARTITIONS_CHANGED),
        (r"subscription .*chang|interests? .*chang", Trigger.SUBSCRIPTION_CHANGED),
        (r"enforced by user", Trigger.REBALANCE_ENFORCED),
        (r"already rebalancing|rejoining from normal rebalance", None),
        (f"{_WITH_GIVEN_ID}|rebalance failed|encountered .* response", None),
    )
)

_AT_ONCE_NS = MILLISECOND_NS // 10
"""Requests so near to each other are taken up by the broker at once, in any order."""

_NEAR_NS = 2 * MILLISECOND_NS
"""Requests so near to each other the broker mostly takes up in the order sent, unless its answers say otherwise."""

_WAITED = 0.9
"""Part of a rebalance timeout after which it is what ended the wait, if a member is missing."""

_EVERY_NEW_MEMBERS_REASON = "need to re-join with the given member-id"
"""What every Java client says when it joins with the id that it was given: no reason of its own."""


@dataclass(slots=True)
class Reading:
    """One event that may have set a rebalance off."""

    trigger: Trigger
    member_id: str | None
    client_id: str | None
    at: int | None  # None: some time before the others heard of it
    packet: int | None
    text: str
    weight: Strength
    about: list[Evidence] = field(default_factory=list)  # more that speaks for it, or what speaks for another one
    proved_first: bool = False  # the broker's answers show that it was the first of several at the same moment
    answered_later: bool = False  # than another that was sent right after it
    taken_over: TakeOver | None = None  # by whom its session was begun anew, as those of others were


@dataclass(frozen=True, slots=True)
class _End:
    """When a session ends: not before, likely, and at the latest."""

    first: int
    at: int
    last: int
    taken_over: TakeOver | None = None


class OpeningReader:
    """Reads openings of one group."""

    def __init__(self, facts: GroupFacts, index: Index, profiles: Profiles) -> None:
        self._facts = facts
        self._index = index
        self._profiles = profiles

    # ---- readings, one kind after the other

    def readings(self, gap: Opening) -> list[Reading]:
        """All events that may have set it off or that happened while it was open, in order of time."""
        found = [*self._joins(gap), *self._leaves(gap), *self._gone(gap), *self._unseen_members(gap)]
        found += [*self._first_generation(gap), *self._taken_away(gap), *self._not_stored(gap)]
        found = [each for each in found if each.at is None or gap.begin is None or each.at > gap.begin]
        found.sort(key=lambda each: (gap.end if each.at is None else each.at, each.packet or 0))
        _as_the_broker_saw(gap, found)
        return found

    def _joins(self, gap: Opening) -> list[Reading]:
        found = []
        known = self._known(gap)
        told_at: dict[str, int] = {}
        for each in gap.told:
            told_at.setdefault(each.member_id, each.at)
        for join in gap.joins:
            if join.member_id in known:
                if join.member_id in told_at and told_at[join.member_id] <= join.at:
                    continue
                reading = self._rejoined(gap, join)
            else:
                reading = self._new_member(gap, join)
            if reading is not None:
                found.append(reading)
        return found

    def _known(self, gap: Opening) -> set[str]:
        """Members already: those of the generation before, and where not all of them are known those heard before."""
        if gap.before is None:
            return set()
        known = gap.before.present()
        if not gap.before.complete:
            for join in gap.joins:
                new = join.asked_id or join.member_id in self._index.given or _WITH_GIVEN_ID in join.reason
                if self._was_heard_before(gap, join) and not new:
                    known.add(join.member_id)
        return known

    def _new_member(self, gap: Opening, join: Join) -> Reading | None:
        client = self._client(join.member_id, join.instance_id)
        replaced = self._replaced(gap, join)
        if replaced is not None:
            text = (
                f"JoinGroup of {client} with instance id {join.instance_id}, which {replaced} had: "
                "a new process came in place of the old one, and asks for something else"
            )
            return Reading(
                Trigger.STATIC_MEMBER_REPLACED, join.member_id, client, join.at, join.packet, text, Strength.CHANGED
            )
        if (
            gap.before is None
            and gap.after.number > 1
            and not join.asked_id
            and join.member_id not in self._index.given
        ):
            text = f"JoinGroup of {client}; whether it was a member before, the capture does not show"
            return Reading(
                Trigger.MEMBER_REJOINED, join.member_id, client, join.at, join.packet, text, Strength.UNCHANGED
            )
        how = "with an instance id that nobody had" if join.instance_id else "that was not in the group"
        sure = Strength.SAID
        old = self._was_heard_before(gap, join)
        new = not old and (join.asked_id or join.member_id in self._index.given)
        if gap.before is not None and not new and (old or not gap.before.complete):
            sure = Strength.LEFT_OVER
        text = f"JoinGroup of {client}, a member {how}"
        if join.reason and not join.reason.startswith(_EVERY_NEW_MEMBERS_REASON):
            text += f'; its reason: "{join.reason}"'
        return Reading(Trigger.MEMBER_JOINED, join.member_id, client, join.at, join.packet, text, sure)

    def _was_heard_before(self, gap: Opening, join: Join) -> bool:
        """Whether one of this member id was there when the gap began."""
        words = self._facts.words.get(join.member_id)
        return words is not None and gap.begin is not None and words.times[0] < gap.begin

    def _replaced(self, gap: Opening, join: Join) -> str | None:
        if gap.before is None or not join.instance_id or not join.asked_id:
            return None
        for member in sorted(gap.before.present()):
            if member != join.member_id and self._facts.instances.get(member) == join.instance_id:
                deadline = self._session_ends(gap.before, member, join.at)
                return None if deadline is not None and deadline.at < join.at else member
        return None

    def _rejoined(self, gap: Opening, join: Join) -> Reading | None:
        before = gap.before
        assert before is not None
        client = self._client(join.member_id, join.instance_id)
        said = f'JoinGroup of {client}, a member already, with the reason "{join.reason}"'
        enforced = bool(join.reason)
        for pattern, trigger in _JOIN_REASONS:
            if pattern.search(join.reason):
                if trigger is not None:
                    return Reading(trigger, join.member_id, client, join.at, join.packet, said, Strength.SAID)
                enforced = False
        follows = bool(join.reason) and not enforced
        trigger, text, weight = self._why_again(gap, before, join)
        if enforced and weight < Strength.FITS:
            said += ", which is none that a client gives by itself: its application called for it"
            return Reading(
                Trigger.REBALANCE_ENFORCED, join.member_id, client, join.at, join.packet, said, Strength.FITS
            )
        if follows and _is_at_another(before, join):  # where nobody knows of a rebalance that was under way
            return Reading(trigger, join.member_id, client, join.at, join.packet, f"{said}: {text}", weight)
        if follows:  # it says that others began; believed as long as there is anything else
            trigger = Trigger.LEADER_REJOINED if join.member_id == before.leader else Trigger.MEMBER_REJOINED
            return Reading(trigger, join.member_id, client, join.at, join.packet, said, Strength.FOLLOWS)
        return Reading(trigger, join.member_id, client, join.at, join.packet, f"JoinGroup of {client}: {text}", weight)

    def _why_again(self, gap: Opening, before: Generation, join: Join) -> tuple[Trigger, str, Strength]:
        """Why a member that was not told of a rebalance joined again, of what it and its last assignment say."""
        member, earlier = join.member_id, self._index.last_join(join.member_id, join.at - 1)
        metadata = join.metadata(gap.after.assignor)
        if isinstance(metadata, dict) and metadata.get("_definition") == "ConnectMetadata":
            return self._why_worker(before, join, metadata)
        topics, earlier_topics = join.topics(), earlier.topics() if earlier else None
        if topics is not None and earlier_topics is not None and topics != earlier_topics:
            text = f"it now asks for {listed(topics)} instead of {listed(earlier_topics)}"
            return Trigger.SUBSCRIPTION_CHANGED, text, Strength.CHANGED
        had = earlier.owned(before.assignor) if earlier else None
        got = before.assigned.get(member)
        if had and got is not None and not set(had) <= set(got):
            gave = in_words(set(had) - set(got))
            text = f"its last assignment took {gave} away, which others may have now"
            return Trigger.COOPERATIVE_FOLLOWUP, text, Strength.FITS
        due = _next_streams_rebalance(before.allocations.get(member))
        if due is not None and due <= join.at + TIMER_NS:
            return Trigger.STREAMS_FOLLOWUP, "its last assignment scheduled another rebalance for then", Strength.DUE
        if member == before.leader:
            old, new = _all(before), _all(gap.after)
            if old and new and old != new and before.complete:
                changed = in_words(old ^ new)
                text = f"the leader came again, and gave out other partitions: {changed}"
                return Trigger.TOPIC_PARTITIONS_CHANGED, text, Strength.DIFFERS
            if not join.protocols:
                return Trigger.UNKNOWN, "the leader came again; what it told then is missing", Strength.UNCHANGED
            text = "the leader came again, with nothing changed that the wire shows"
            return Trigger.LEADER_REJOINED, text, Strength.LEFT_OVER
        if earlier is not None and not same_protocols(earlier, join):
            text = "what it tells the assignor is not what it told before"
            return Trigger.MEMBER_METADATA_CHANGED, text, Strength.LEFT_OVER
        return Trigger.MEMBER_REJOINED, "it came again, with nothing changed that the wire shows", Strength.UNCHANGED

    def _why_worker(self, before: Generation, join: Join, metadata: dict[str, Any]) -> tuple[Trigger, str, Strength]:
        last = before.allocations.get(join.member_id)
        if not isinstance(last, dict):  # it also tells what it was given last
            allocation = metadata.get("allocation")
            last = allocation if isinstance(allocation, dict) else {}
        offset, known = metadata.get("configOffset"), last.get("configOffset")
        others = [each for each in before.allocations.values() if isinstance(each, dict)]
        delays = [each.get("scheduledDelay") or 0 for each in others]
        delay = max(delays, default=0)
        since = (join.at - before.formed) / MILLISECOND_NS
        if connect_work(last.get("revoked")) or any(connect_work(each.get("revoked")) for each in others):
            text = "work that the last assignment took away is to be given out"
            return Trigger.COOPERATIVE_FOLLOWUP, text, Strength.CHANGED
        if delay and since >= delay * _WAITED:
            text = f"{since:.0f} ms after an assignment that put things off for {delay} ms"
            return Trigger.SCHEDULED_DELAY, text, Strength.CHANGED
        if not last:
            return Trigger.MEMBER_REJOINED, "what the worker was given last is not in the capture", Strength.NOTHING
        if isinstance(offset, int) and isinstance(known, int) and offset > known:
            text = f"it has read the configuration up to offset {offset}, the last assignment was made at {known}"
            return Trigger.CONNECT_CONFIG_CHANGED, text, Strength.CHANGED
        if isinstance(offset, int) and isinstance(known, int) and offset < known:
            text = f"it has read the configuration up to offset {offset} alone, the last assignment was made at {known}"
            return Trigger.MEMBER_METADATA_CHANGED, text, Strength.CHANGED
        if join.member_id == before.leader:
            text = "the leading worker came again, with nothing changed that the wire shows"
            return Trigger.LEADER_REJOINED, text, Strength.WITHOUT_CHANGE
        text = "the worker came again, with nothing changed that the wire shows"
        return Trigger.MEMBER_REJOINED, text, Strength.VAGUE

    def _leaves(self, gap: Opening) -> list[Reading]:
        found = []
        members = gap.before.present() if gap.before is not None else set()
        begin = self._came_to_be(gap)
        for leave, member in gap.leaves:
            if begin is not None and leave.at < begin:
                continue
            client = self._client(member, leave.instance_id or self._facts.instances.get(member))
            trigger, text, weight, about = self._how_left(leave, member, client)
            if gap.before is not None and gap.before.complete and member not in members:
                weight = min(weight, Strength.AFTERWARDS)  # it had only just come: the group was rebalancing already
            found.append(Reading(trigger, member or None, client, leave.at, leave.packet, text, weight, about))
        return found

    @staticmethod
    def _came_to_be(gap: Opening) -> int | None:
        """Of a generation that comes after some that nobody named: when its members began to join.

        Who left before made one of those.
        """
        if gap.before is None or gap.after.inferred or gap.after.number <= gap.before.number + 1:
            return None
        return min((join.at for join in gap.after.joins.values()), default=None)

    def _how_left(self, leave: Leave, member: str, client: str | None) -> tuple[Trigger, str, Strength, list[Evidence]]:
        said = f'LeaveGroup of {client or member} with the reason "{leave.reason}"'
        trigger = trigger_by_reason(leave.reason)
        if trigger is not None:
            return trigger, said, Strength.SAID, []
        if not by_itself(self._facts, self._profiles, leave, member):
            sender, host = client_name(leave.message.client_id), leave.message.client
            said = f"LeaveGroup for {client or member} came from {sender} at {host}, not from the member"
            said += f', with the reason "{leave.reason}"' if leave.reason else ""
            sure = self._profiles.of(member).host not in (None, host) and sender != client
            return Trigger.REMOVED_BY_ADMIN, said, Strength.DONE if sure else Strength.FITS, []
        if leave.reason:
            return Trigger.MEMBER_LEFT, said, Strength.SAID, []
        if not leave.has_request:
            said = f"LeaveGroup of {client or member}, of which the capture lacks the reason"
            return Trigger.MEMBER_LEFT, said, Strength.UNSEEN_REQUEST, []
        about = []
        if self._came_again(leave, member, client):
            text = (
                "it left without a reason, kept its connection, and came back later with the same subscription: clients"
                " that do not give reasons do so when their application does not poll in time"
            )
            about.append(Evidence(text, leave.packet, leave.at, Strength.VAGUE, Trigger.POLL_TIMEOUT, rejected=True))
        return Trigger.MEMBER_LEFT, f"LeaveGroup of {client or member}, without a reason", Strength.DONE, about

    def _came_again(self, leave: Leave, member: str, client: str | None) -> bool:
        before = self._index.last_join(member, leave.at)
        place = bisect_right(self._index.joins, leave.at)
        for join in self._facts.joins[place : place + 200]:
            if join.message.connection == leave.message.connection and join.message.client_id == client:
                return before is None or join.topics() == before.topics()
        return False

    def _gone(self, gap: Opening) -> list[Reading]:
        """Members of the generation before that are not in the next and did not leave."""
        before, after = gap.before, gap.after
        if before is None:
            return []
        if not after.complete:
            return self._silent(gap, before)
        stays = set(after.members)
        instances = {self._facts.instances.get(member) for member in stays} - {None}
        left = {member for _, member in gap.leaves} | self._left_since(before, gap.end)
        found = []
        for member in sorted(before.present()):
            if member in stays or member in left or self._facts.instances.get(member) in instances:
                continue
            found.append(self._fell_out(gap, before, member))
        return found

    def _left_since(self, before: Generation, until: int) -> set[str]:
        """Members that left after a generation, maybe one before the gap in hand: of one that nobody named."""
        places = slice(bisect_right(self._index.leaves, before.formed), bisect_right(self._index.leaves, until))
        return {leave.member_id for leave in self._facts.leaves[places] if leave.error is None}

    def _silent(self, gap: Opening, before: Generation) -> list[Reading]:
        """Members whose session ended just before the rebalance, or in it, where not all members of the next are known.

        A rebalance waits for who does not join until its session is over: as with a process that is killed and replaced
        at once.
        """
        upper = min([each.at for each in gap.told] + [join.at for join in gap.joins], default=gap.end)
        lower = max(gap.content_until or before.formed, before.formed)
        heard_later = set(gap.after.joins) | gap.after.named | {member for _, member in gap.leaves}
        found = []
        for member in sorted(before.present() - heard_later - self._left_since(before, gap.end)):
            if self._facts.asked_in_vain(member, gap.end):
                continue
            ends = self._session_ends(before, member, gap.end)
            if ends is None or ends.last < lower - LATE_NS:
                continue
            if ends.first > max(upper + TIMER_NS, gap.end + LATE_NS):
                continue
            client = self._client(member, self._facts.instances.get(member))
            text = f"{client} said nothing more, and its session of {self._session_ms(member, gap.end)} ms ran out"
            text += _begun_anew(ends.taken_over)
            begun = ends.first <= upper + TIMER_NS
            at = min(max(ends.at, lower), upper) if begun else ends.at
            weight = Strength.LEFT_OVER if begun else Strength.VAGUE
            over = ends.taken_over
            found.append(Reading(Trigger.SESSION_TIMEOUT, member, client, at, None, text, weight, taken_over=over))
        return found

    def _first_generation(self, gap: Opening) -> list[Reading]:
        """A group begins with a member that joins, seen or not; the first one leads it."""
        if not gap.began_unseen:
            return []
        leader = gap.after.leader
        client = self._client(leader, self._facts.instances.get(leader)) if leader else None
        text = f"a group begins with a member that joins; {client or 'its leader'} was the first, for it leads"
        return [Reading(Trigger.MEMBER_JOINED, leader, client, None, None, text, Strength.LEADS)]

    def _taken_away(self, gap: Opening) -> list[Reading]:
        """Members that had to give something up in the generation before, and whose next JoinGroup is not seen."""
        before = gap.before
        if before is None or before.listed is None:
            return []
        joined = {join.member_id for join in gap.joins}
        found = []
        for member, (instance, metadata) in sorted(before.listed.items()):
            had, got = owned_of(metadata), before.assigned.get(member)
            if member in joined or not had or got is None or set(had) <= set(got):
                continue
            client = self._client(member, instance)
            gave = in_words(set(had) - set(got))
            text = f"the last assignment took {gave} away from {client or member}, which joins again when it has let go"
            found.append(
                Reading(Trigger.COOPERATIVE_FOLLOWUP, member, client, None, None, text, Strength.UNSEEN_REJOIN)
            )
        return found

    @staticmethod
    def _not_stored(gap: Opening) -> list[Reading]:
        """The leader's assignment, if the coordinator could not write it down (GroupMetadataManager).

        Who has lost the group to another coordinator answers the same, and nothing comes of it there; but for
        UNKNOWN_SERVER_ERROR, which stands for what is too large.
        """
        before = gap.before
        if before is None or before.leader_sync is None or not is_not_stored(before):
            return []
        sync = before.leader_sync
        here = sync.error == Error.UNKNOWN_SERVER_ERROR or any(
            join.message.broker == sync.message.broker for join in gap.joins
        )
        if not here:
            return []
        at = sync.answered or sync.at
        text = (
            f"the coordinator answered {sync.error} to the assignment that the group's leader brought, after "
            f"{_seconds(at - sync.at)}: it could not write it to its log, and has all members join again"
        )
        packet = sync.message.response_packet or sync.message.packet
        return [Reading(Trigger.ASSIGNMENT_NOT_STORED, None, None, at, packet, text, Strength.DONE)]

    def _fell_out(self, gap: Opening, before: Generation, member: str) -> Reading:
        instance = self._facts.instances.get(member)
        client = self._client(member, instance)
        told = gap.told[0].at if gap.told else None
        last = self._facts.words[member].last_before(gap.end) if member in self._facts.words else None
        if last is None:
            text = f"{client or member} is not in the new generation, and its traffic is not in this capture: it may "
            text += "have left, or have been taken out"
            return Reading(Trigger.UNKNOWN, member, client, None, None, text, Strength.UNCHANGED)
        at, packet = last
        upper = min([told or gap.end, *(join.at for join in gap.joins if join.member_id in before.present())])
        lower = max(gap.content_until or before.formed, before.formed)
        unsynced = (
            before.complete
            and (member not in before.syncs or before.syncs[member].at > gap.end)
            and any(join.generation == before.number for join in self._index.by_member.get(member, ()))
        )
        timeout = self._rebalance_timeout(before)
        if unsynced and timeout is not None:
            ends = before.formed + timeout * MILLISECOND_NS
            if lower - TIMER_NS <= ends <= upper + TIMER_NS and at > ends - self._session_ns(member, at, ends):
                what = (
                    "sent the assignment, as the leader has to,"
                    if member == before.leader
                    else "asked for its assignment"
                )
                text = f"{client} never {what} within {timeout} ms, the group's rebalance timeout"
                begin = min(max(ends, lower), upper)
                return Reading(Trigger.SYNC_TIMEOUT, member, client, begin, packet, text, Strength.DUE)
        deadline = self._session_ends(before, member, gap.end)
        session = self._session_ms(member, gap.end)
        expelled = self._index.expelled(member, at, gap.end)
        if expelled is not None:
            first = deadline.first if deadline is not None else None
            return self._had_been_taken_out(gap, member, expelled, first, (lower, upper))
        if deadline is None:
            text = (
                f"{client} is silent since {_seconds(gap.end - at)} before; its session timeout is not in the capture"
            )
            return Reading(Trigger.SESSION_TIMEOUT, member, client, upper, packet, text, Strength.VAGUE)
        closed = self._closed(member, before.formed, gap.end)
        if deadline.first <= gap.end + LATE_NS:
            text = (
                f"{client} said nothing more: the broker drops it {session:,} ms (session timeout) after its last word"
            )
            text += _begun_anew(deadline.taken_over)
            fits = lower - TIMER_NS <= deadline.last and deadline.first <= upper + TIMER_NS
            weight = Strength.FITS if fits else Strength.VAGUE
            about = []
            if closed is not None:
                about.append(
                    Evidence(
                        f"its connection ended ({closed[1]})",
                        None,
                        closed[0],
                        Strength.UNCHANGED,
                        Trigger.SESSION_TIMEOUT,
                    )
                )
            at = deadline.at
            if deadline.first <= upper + TIMER_NS:
                at = min(max(deadline.at, lower), upper)
            over = deadline.taken_over
            return Reading(Trigger.SESSION_TIMEOUT, member, client, at, packet, text, weight, about, taken_over=over)
        waited = self._waited(gap, before)
        if waited is not None:
            text = f"{client} did not join again within {waited} ms, the group's rebalance timeout"
            return Reading(Trigger.REBALANCE_TIMEOUT, member, client, gap.end, packet, text, Strength.LEFT_OVER)
        if closed is not None:
            text = (
                f"{client} is not in the new generation, and its connection ended ({closed[1]}) before its session did"
            )
            return Reading(
                Trigger.MEMBER_LEFT, member, client, min(closed[0], upper), packet, text, Strength.UNSEEN_REQUEST
            )
        text = f"{client} is not in the new generation; a LeaveGroup of it is not in the capture"
        return Reading(Trigger.MEMBER_LEFT, member, client, None, packet, text, Strength.UNSEEN_LEAVE)

    def _had_been_taken_out(
        self, gap: Opening, member: str, expelled: Expelled, deadline: int | None, between: tuple[int, int]
    ) -> Reading:
        """A member that did not leave was told that it is none, before the next generation was formed."""
        client = self._client(member, self._facts.instances.get(member))
        text = f"{client}, which had not left, was told that it is no member ({expelled.error})"
        if deadline is not None and deadline > expelled.at + TIMER_NS:
            text += " before its session ended: somebody took it out whose traffic is not in this capture"
            return Reading(Trigger.UNKNOWN, member, client, None, expelled.packet, text, Strength.UNCHANGED)
        lower, upper = between
        weight = Strength.VAGUE
        if deadline is not None:
            text += f": its session of {self._session_ms(member, gap.end):,} ms had run out"
            weight = Strength.FITS
        begin = lower if deadline is None else max(deadline, lower)
        if begin <= upper + TIMER_NS:
            begin = min(begin, upper)
        return Reading(Trigger.SESSION_TIMEOUT, member, client, min(begin, expelled.at), expelled.packet, text, weight)

    def _unseen_members(self, gap: Opening) -> list[Reading]:
        """New members whose JoinGroup the capture lacks."""
        if not gap.after.complete or gap.before is None or not gap.before.complete:
            return []
        joined = {join.member_id for join in gap.joins}
        before = gap.before.present() | set(gap.before.members)
        found = []
        for member in gap.after.members:
            if member not in joined and member not in before:
                client = self._client(member, self._facts.instances.get(member))
                text = f"{client or member} is new in the generation; its JoinGroup is not in the capture"
                found.append(Reading(Trigger.MEMBER_JOINED, member, client, None, None, text, Strength.UNSEEN_REQUEST))
        return found

    # ---- timers

    def session_end(self, generation: Generation, member: str, until: int) -> int | None:
        """When the broker would drop a member that says nothing after its last word before a moment."""
        ends = self._session_ends(generation, member, until)
        return ends.at if ends is not None else None

    def _session_ms(self, member: str, at: int) -> int | None:
        join = self._index.last_join(member, at)
        return join.session_timeout_ms if join is not None else None

    def _session_ns(self, member: str, at: int, otherwise: int) -> int:
        session = self._session_ms(member, at)
        return session * MILLISECOND_NS if session is not None else otherwise

    def _session_ends(self, generation: Generation, member: str, until: int) -> _End | None:
        session = self._session_ms(member, until)
        words = self._facts.words.get(member)
        last = words.last_before(until) if words is not None else None
        if session is None or last is None or words is None:
            return None
        ends = last[0] + session * MILLISECOND_NS
        heard = bisect_right(words.heard, until)
        if not heard:
            return _End(ends, ends, ends)
        # What was not answered before it fell silent may never have got to the broker: a link was down. Then the
        # session ended sooner, unless the group went on undisturbed.
        sooner = words.heard[heard - 1] + session * MILLISECOND_NS
        went_on = self._facts.last_content(generation.number, sooner + LATE_NS, until) is not None
        ends = ends if went_on else sooner
        # Who loads a group begins all its sessions anew (GroupCoordinator, onGroupLoaded).
        over = taken_over(self._facts.tenures, words.heard[heard - 1], ends)
        if over is None:
            return _End(ends, ends, ends)
        first, at, latest = (each + session * MILLISECOND_NS for each in (over.low, over.at, over.high))
        return _End(first, at, latest, over)

    def _rebalance_timeout(self, generation: Generation) -> int | None:
        known = [join.rebalance_timeout_ms for join in generation.joins.values() if join.rebalance_timeout_ms]
        return max(known, default=None)

    def _waited(self, gap: Opening, before: Generation) -> int | None:
        timeout = self._rebalance_timeout(before)
        first = min([join.at for join in gap.joins] + [each.at for each in gap.told], default=None)
        if timeout is None or first is None:
            return None
        return timeout if gap.end - first >= timeout * MILLISECOND_NS * _WAITED else None

    def _closed(self, member: str, low: int, high: int) -> tuple[int, str] | None:
        words = self._facts.words.get(member)
        for end in self._profiles.connection_ends(list(words.connections) if words else []):
            if end.closed is not None and low < end.closed <= high:
                return end.closed, end.how_closed.upper()
        return None

    def _client(self, member: str, instance: str | None) -> str | None:
        return self._profiles.of(member, instance).client_id


def _begun_anew(over: TakeOver | None) -> str:
    if over is None:
        return ""
    after = f"{_seconds(over.high - over.low)} after the last good answer before"
    return f"; {over.new}, which had the group at the latest {after}, began all sessions anew as it loaded it"


def _is_at_another(before: Generation, join: Join) -> bool:
    """Whether a member joins at another coordinator than where the generation before was formed."""
    brokers = {each.message.broker for each in before.joins.values() if each.answered is not None}
    return bool(brokers) and join.message.broker not in brokers


def by_itself(facts: GroupFacts, profiles: Profiles, leave: Leave, member: str) -> bool:
    """Whether a LeaveGroup came from the member that it takes out."""
    words = facts.words.get(member)
    profile = profiles.of(member, facts.instances.get(member))
    return left_by_itself(
        leave.message,
        leave.reason,
        names_id=bool(leave.member_id) or not leave.instance_id,
        connections=words.connections if words is not None else (),
        client_id=profile.client_id,
        host=profile.host,
    )


def _as_the_broker_saw(gap: Opening, found: list[Reading]) -> None:
    """Put events that were sent at the same moment in the order in which the broker took them, where that shows.

    The first to join a group without members leads it. Of those that leave at once the first is likely answered first.
    """
    near = [each for each in found if each.at is not None and each.at <= (found[0].at or 0) + SAME_MOMENT_NS]
    if len(near) < 2:
        return
    first: Reading | None = None
    if all(each.trigger == Trigger.MEMBER_JOINED for each in near) and (gap.before is None or not gap.before.present()):
        first = next((each for each in near if each.member_id == gap.after.leader), None)
        if first is not None:
            first.proved_first = True
    else:
        answers = {leave.packet: leave.message.response_packet for leave, _ in gap.leaves}
        left = [each for each in near if (each.at or 0) <= (near[0].at or 0) + _NEAR_NS]
        if len(left) > 1 and all(answers.get(each.packet) is not None for each in left):
            answered = min(left, key=lambda each: answers[each.packet] or 0)
            if (answered.at or 0) <= (near[0].at or 0) + _AT_ONCE_NS:
                first = answered
            else:
                near[0].answered_later = True
    if first is not None:
        found.remove(first)
        found.insert(0, first)


def _next_streams_rebalance(allocation: Any) -> int | None:
    """When Streams' assignment (AssignmentInfo, since version 7) asks for the next rebalance.

    It writes the greatest long where none is to come.
    """
    info = allocation.get("userData") if isinstance(allocation, dict) else None
    due = info.get("nextRebalanceMs") if isinstance(info, dict) else None
    return due * MILLISECOND_NS if isinstance(due, int) else None


def _all(generation: Generation) -> set[str]:
    return {partition for partitions in generation.assigned.values() for partition in partitions}


def _seconds(duration: int) -> str:
    return f"{duration / SECOND_NS:.1f} s"
