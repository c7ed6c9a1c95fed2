"""What happened to the members of a group of the classic protocol, one thing after the other."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import in_words
from kafkascope.reports.groups.assignments import partitions_of
from kafkascope.reports.groups.body import text
from kafkascope.reports.groups.classic.facts import GroupFacts, Join, Leave, Refusal, Sync, Words
from kafkascope.reports.groups.classic.readings import by_itself
from kafkascope.reports.groups.history import Event, GroupLog
from kafkascope.reports.groups.leaving import NOT_A_MEMBER, AllowedSilence, by_session, heard_later, refused_as
from kafkascope.reports.groups.members import Profiles
from kafkascope.reports.groups.messages import Message
from kafkascope.reports.vocabulary.events import EventKind

_OUT = NOT_A_MEMBER | {Error.FENCED_INSTANCE_ID}  # with others a member stays one, whatever it has missed


def events_of(log: GroupLog, facts: GroupFacts, profiles: Profiles, lives: list[int]) -> list[Event]:
    """The events of members, in order of time; lives are when the group began, and began anew."""
    writer = _Writer(log, facts, profiles, lives)
    found = [
        *writer.joins(),
        *writer.syncs(),
        *writer.refused_heartbeats(),
        *writer.leaves(),
        *writer.silences(),
    ]
    found.sort(key=lambda event: (event.at, event.packet or 0, event.event))
    return found


class _Writer:
    def __init__(self, log: GroupLog, facts: GroupFacts, profiles: Profiles, lives: list[int]) -> None:
        self._log = log
        self._facts = facts
        self._profiles = profiles
        self._lives = lives
        # Members by instance id, by their first word; 0: others spoke of it.
        self._held: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for member, instance in facts.instances.items():
            words = facts.words.get(member)
            self._held[instance].append((words.times[0] if words is not None else 0, member))
        for held in self._held.values():
            held.sort()

    def _event(
        self,
        kind: EventKind,
        at: int,
        message: Message,
        member: str = "",
        detail: str | None = None,
        generation: int | None = None,
        answer: bool = False,
    ) -> Event:
        instance = self._facts.instances.get(member)
        profile = self._profiles.of(member, instance) if member else None
        return Event(
            group_id=self._log.group_id,
            at=at,
            event=kind,
            member_id=member or None,
            client_id=message.client_id or (profile.client_id if profile is not None else None),
            client=message.client or None,
            instance_id=instance or text(message.request.get("groupInstanceId")) or None,
            generation=generation,
            connection=message.connection,
            number=message.number,
            packet=(message.response_packet if answer else None) or message.packet,
            detail=detail,
        )

    def joins(self) -> Iterator[Event]:
        seen: set[tuple[int, int]] = set()
        for join in self._facts.joins:
            if join.has_request and not (join.asked_id and join.id_given):
                yield self._event(
                    EventKind.JOINED, join.at, join.message, join.member_id, join.reason or None, join.generation
                )
            at = join.answered or join.at
            if join.error == Error.MEMBER_ID_REQUIRED:
                yield self._event(EventKind.MEMBER_ID_GIVEN, at, join.message, join.member_id, answer=True)
            elif join.error:
                kind = refused_as(join.error, EventKind.JOIN_REFUSED)
                yield self._event(kind, at, join.message, join.member_id, join.error, answer=True)
            elif join.generation is not None:
                formed = bisect_right(self._lives, join.at), join.generation
                if formed not in seen:
                    seen.add(formed)
                    yield self._event(
                        EventKind.GENERATION_FORMED, at, join.message, "", _formed(join), join.generation, True
                    )
                replaced = self._replaced(join)
                if replaced is not None:
                    detail = f"its instance id was that of {replaced}"
                    yield self._event(
                        EventKind.REPLACED, at, join.message, join.member_id, detail, join.generation, True
                    )

    def _replaced(self, join: Join) -> str | None:
        """The member whose instance id a new process brings, of those that spoke before."""
        if not join.asked_id or not join.instance_id:
            return None
        member = self._of_instance(join.instance_id, join.at - 1)
        return member if member in self._facts.words else None

    def _of_instance(self, instance: str | None, until: int) -> str:
        """The member that had an instance id: of those that spoke until then, the one that began last."""
        held = self._held.get(instance or "", [])
        place = bisect_right(held, until, key=lambda each: each[0])
        return held[place - 1][1] if place else ""

    def syncs(self) -> Iterator[Event]:
        for sync in self._facts.syncs:
            at = sync.answered or sync.at
            if sync.error:
                kind = refused_as(sync.error, EventKind.SYNC_REFUSED)
                yield self._event(kind, at, sync.message, sync.member_id, sync.error, sync.generation, True)
            elif sync.answered is not None:
                yield self._event(
                    EventKind.SYNCED, at, sync.message, sync.member_id, _assigned(sync), sync.generation, answer=True
                )

    def refused_heartbeats(self) -> Iterator[Event]:
        """The first of each member, generation and error: members repeat themselves until they have joined again."""
        seen: set[tuple[str, int, str]] = set()
        for refusal in self._facts.refusals:
            if refusal.api != "Heartbeat" or (refusal.member_id, refusal.generation, refusal.error) in seen:
                continue
            seen.add((refusal.member_id, refusal.generation, refusal.error))
            yield self._event(
                refused_as(refusal.error, EventKind.HEARTBEAT_REFUSED),
                refusal.message.answered or refusal.at,
                refusal.message,
                refusal.member_id,
                refusal.error,
                refusal.generation,
                answer=True,
            )

    def leaves(self) -> Iterator[Event]:
        for leave in self._facts.leaves:
            member = leave.member_id or self._of_instance(leave.instance_id, leave.at)
            if leave.error:
                detail = f"{leave.error}: {leave.reason}" if leave.reason else leave.error
                yield self._event(EventKind.LEAVE_REFUSED, leave.at, leave.message, member, detail)
            else:
                own = by_itself(self._facts, self._profiles, leave, member)
                kind = EventKind.LEFT if own else EventKind.MEMBER_REMOVED
                yield self._event(kind, leave.at, leave.message, member, leave.reason or None)

    def silences(self) -> Iterator[Event]:
        """Members that said nothing for longer than their session lasts, and how connections of others ended."""
        last_seen = max(message.over for message in [*self._log.messages, *self._log.later])
        goes_on = heard_later(self._log)
        left = {
            leave.member_id or self._of_instance(leave.instance_id, leave.at)
            for leave in self._facts.leaves
            if leave.error is None
        }
        refused = self._refused()
        joins = _OfJoins(self._facts.joins)
        for member, words in sorted(self._facts.words.items()):
            if member not in self._facts.spoke:
                continue
            last_word = words.times[-1]
            gone = member in left or member in goes_on or any(at < last_word for at in refused[member])
            replaced = joins.replaced(member, self._facts.instances.get(member, ""), last_word)
            out = min([*replaced, *(at for at in refused[member] if at >= last_word)], default=None)
            if member in joins.session_ms:
                is_heard = gone or joins.waits.get(member, -1) >= last_word
                until = [] if is_heard else [last_seen if out is None else out]
                yield from self._silent(member, words, until, by_session(joins.session_ms[member]), out is not None)
            if not gone:
                yield from self._closed(member, words, out)

    def _refused(self) -> dict[str, list[int]]:
        """When members spoke that had no place in the group any more."""
        refused: dict[str, list[int]] = defaultdict(list)
        said: list[Refusal | Leave] = [*self._facts.refusals, *self._facts.leaves]
        for each in said:
            if each.error in _OUT:
                refused[each.member_id].append(each.at)
        return refused

    def _silent(
        self, member: str, words: Words, until: list[int], allowed: AllowedSilence, is_out: bool
    ) -> Iterator[Event]:
        """Pauses between words, and the one from the last word until a moment, that were too long."""
        ends = words.times[1:] + array("q", until)
        pauses = np.subtract(ends, words.times[: len(ends)])
        for place in np.flatnonzero(pauses > allowed.ns).tolist():
            begun, is_over = words.times[place], is_out or place < len(words.times) - 1
            silence = allowed.remark(begun, ends[place], is_over=is_over)
            event = self._event(EventKind.SILENCE_BEGUN, begun, self._facts.spoke[member], member, silence)
            event.packet, event.number, event.connection = words.packets[place] or None, None, None
            yield event

    def _closed(self, member: str, words: Words, out: int | None) -> Iterator[Event]:
        """How a member's last connection ended, while it had a place in the group."""
        connection = next(reversed(words.connections))
        for end in self._profiles.connection_ends([connection]):
            if end.closed is not None and (out is None or end.closed < out):
                message = self._facts.spoke[member]
                event = self._event(EventKind.CONNECTION_ENDED, end.closed, message, member, end.how_closed)
                event.connection, event.packet, event.number = connection, None, None
                yield event


class _OfJoins:
    """What joins tell of members: their sessions, who waits for an answer, and who came in the place of whom."""

    def __init__(self, joins: Sequence[Join]) -> None:
        self.session_ms: dict[str, int] = {}
        self.waits: dict[str, int] = {}  # since when
        self._static: dict[str, list[Join]] = defaultdict(list)
        for join in joins:
            if join.member_id and join.session_timeout_ms:
                self.session_ms[join.member_id] = join.session_timeout_ms
            if join.member_id and not join.error and join.answered is None:
                self.waits[join.member_id] = join.at
            if join.instance_id and join.generation is not None:
                self._static[join.instance_id].append(join)

    def replaced(self, member: str, instance: str, since: int) -> list[int]:
        """When another member first had its instance id; empty: none had."""
        joins = self._static[instance]
        later = range(bisect_left(joins, since, key=lambda join: join.at), len(joins))
        return next(([joins[place].at] for place in later if joins[place].member_id != member), [])


def _formed(join: Join) -> str:
    response = join.message.response
    leader = response.get("leader") or "?"
    return f"led by {leader}, assignor {response.get('protocolName')}"


def _assigned(sync: Sync) -> str | None:
    given = partitions_of(sync.message.response.get("assignment"))
    return None if given is None else in_words(given)
