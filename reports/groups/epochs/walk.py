"""Follows the epoch of a group through what its members say: which epochs there were, and what raised each.

The coordinator raises the epoch by one for a member that joins, leaves, asks for other topics or is taken out, and when
the topics' partitions change (KIP-848, KIP-932, KIP-1071; `GroupMetadataManager`). A member's own epoch follows when it
has given up what it must; since Kafka 4.3 the answer to a join may still name the epoch before. So some epochs are
known from what must have raised them, and some from answers alone: for those, `causes` looks for a reason.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice, takewhile

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.groups.body import Json
from kafkascope.reports.groups.epochs.heartbeats import (
    ASSIGNMENT_DELAYED,
    CLASSIC,
    CONSUMER,
    INCORRECTLY_PARTITIONED,
    MISSING_INTERNAL_TOPICS,
    MISSING_SOURCE_TOPICS,
    SHARE,
    STEPS_OUT,
    STREAMS,
    Beat,
    BeatReader,
    again,
)
from kafkascope.reports.groups.epochs.lives import Life
from kafkascope.reports.groups.epochs.rows import Cause, Row
from kafkascope.reports.groups.history import Event
from kafkascope.reports.groups.leaving import (
    NOT_A_MEMBER,
    NOT_HERE,
    left_by_itself,
    refused_as,
    trigger_by_reason,
)
from kafkascope.reports.groups.messages import Message, settings_refused
from kafkascope.reports.groups.strengths import Strength
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.group_apis import settings_given
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import SECOND_NS

# Settings of a group that its epoch is raised for (GroupMetadataManager.streamsGroupAssignmentConfigs of Kafka 4.4).
_FOR_ASSIGNMENTS = frozenset({"streams.num.standby.replicas", "streams.rack.aware.assignment.tags"})
A_NEW_GROUP_BEGINS_UP_TO = 2
"""Its first member's epoch: 1, and 2 since Kafka 4.3."""
_ASSIGNED_WITHIN = 5 * SECOND_NS  # until then an answer may have the epoch of the assignment from before
_MOST_INFERRED = 100
"""Epochs that are taken to have been where nobody named them; a jump of more is damage, or a gap in the capture."""


class Walk:
    """What became of a group, beat by beat, in order of their answers."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch: int | None = None  # of the group, as far as it is known
        self.rows: dict[int, Row] = {}
        self.lives: list[Life] = []
        self.alive: dict[str, Life] = {}
        self.removed: list[Life] = []  # were taken out; which epoch that raised, is found out later
        self.unexplained: list[Row] = []  # found without a cause, in order
        self.events: list[Event] = []
        self.protocol: str | None = None
        self.observing = False  # a classic group still: members are noted, epochs are not its
        self.since = 0  # (ns) when it became a group with epochs, if it was a classic one
        self.began = 0  # the first word of anybody (ns)
        self.last = 0  # the last answer of any member (ns)
        self.unseen = 0  # epochs that were raised by members whose traffic the capture lacks
        self.configured: list[Cause] = []  # settings of the group that were changed, and may raise its epoch
        self.lost: dict[str, list[tuple[int, int]]] = {}  # topics that ceased to be: between which moments (ns)
        self.made_anew: list[tuple[int, str]] = []  # when a topic was first given out that has another id than before
        self._ids: dict[str, set[str]] = defaultdict(set)  # of topics, by name
        self._members: dict[str, Life] = {}  # by id, those too that are gone

    # What a beat means

    def step(self, beat: Beat) -> None:
        """One beat, and those that say the same after it before anything else happens."""
        self._step(beat)
        repeats = beat.message.repeats
        if repeats is None or not len(repeats.at):
            return
        life = self.alive.get(beat.member_id)
        if life is not None and life.away is None:
            life.heard, life.heard_packet = int(repeats.at[-1]), int(repeats.request_packet[-1])
            self.last = max(self.last, beat.message.over)
            return
        for message in islice(beat.message.each(), 1, None):  # of nobody who is known to be in the group
            self._step(again(beat, message))

    def _step(self, beat: Beat) -> None:
        self.began = self.began or beat.at
        if beat.quiet and beat.error is None:
            life = self.alive.get(beat.member_id)
            if life is not None and life.away is None:
                if beat.answered:
                    life.heard, life.heard_packet = beat.at, beat.packet
                    life.connections[beat.message.connection] = None
                    self.last = max(self.last, beat.done)  # what says the same may have been folded meanwhile
                return
        if beat.protocol != CLASSIC:
            self.protocol = beat.protocol
        for topic, identity in beat.topic_ids.items():
            if self._ids[topic] and identity not in self._ids[topic]:
                self.made_anew.append((beat.done, topic))
            self._ids[topic].add(identity)
        if beat.leaves:
            self._leave(beat)
        elif beat.error is not None:
            self._refused(beat)
        elif not beat.answered:
            return  # whether the coordinator heard it, is not known
        elif beat.joins:
            self._join(beat)
        elif beat.member_id and beat.epoch is not None:
            self._beat(beat)
        self.last = max(self.last, beat.done)

    def take_over(self, at: int) -> None:
        """The classic group becomes one with epochs: those of its members stay that have its last generation."""
        self.observing, self.since = False, at
        for life in list(self.alive.values()):
            if life.epoch is not None and self.epoch is not None and life.epoch < self.epoch:
                self._end(life)
        if not self.alive:
            self.epoch = None  # an empty classic group is no more: a new one takes its name
        for life in self.lives:
            if self.alive.get(life.member_id) is not life:
                life.end = 0
            elif life.joins:
                life.begin = 0

    def restarts(self, beat: Beat) -> bool:
        """Whether this beat is of another group with the same name: its epochs begin anew."""
        return (
            beat.joins
            and beat.protocol != CLASSIC
            and beat.epoch is not None
            and self.epoch is not None
            and beat.epoch <= A_NEW_GROUP_BEGINS_UP_TO
            and beat.epoch < self.epoch - (beat.at - self.last < _ASSIGNED_WITHIN)
            and not self.alive
            and not self._has_assignment_from_before(beat)
        )

    def _has_assignment_from_before(self, beat: Beat) -> bool:
        """Whether an answer has the epoch of the last assignment, as the next one is delayed: the group's is ahead."""
        reached = max((number for life in self.lives for number in life.reached), default=0)
        return ASSIGNMENT_DELAYED in (beat.statuses or {}) and beat.epoch == reached

    def _beat(self, beat: Beat) -> None:
        life = self.alive.get(beat.member_id)
        if life is None:
            life = self._first_seen(beat)
        before = life.topics, life.regex, life.topology
        waited = life.missing_internal_topics, life.missing_source_topics
        life.learn(beat)
        changed = self._subscription(beat, life, before)
        if changed is not None and not self.observing:
            self._bump(changed, beat, sure=not beat.regex)
        self._answer(beat, life)
        self._statuses(beat, life, waited)

    def _first_seen(self, beat: Beat) -> Life:
        """A member of which the capture has no joining."""
        sent = beat.sent if beat.sent is not None else beat.epoch
        life = self._new_life(beat)
        late = beat.at - self.began > life.silent_after()
        life.begin = sent if late and not self.observing else None
        if self.epoch is None:
            self.epoch = sent
        return life

    def _join(self, beat: Beat) -> None:
        life = self.alive.get(beat.member_id)
        other = self._of_instance(beat.instance_id) if life is None else None
        if beat.protocol == CLASSIC and life is not None:
            self._rejoin_classic(beat, life)
        elif life is not None:
            self._begin_again(beat, life)
        elif other is not None:
            self._replace(beat, other)
        elif beat.instance_id and beat.given and beat.epoch is not None and self._long_known(beat.epoch):
            self._take_unseen_place(beat)
        else:
            self._new_member(beat)
        if beat.statuses and beat.member_id in self.alive:
            self._statuses(beat, self.alive[beat.member_id], (False, False))

    def _rejoin_classic(self, beat: Beat, life: Life) -> None:
        before = life.topics, life.regex, life.topology
        life.learn(beat)
        life.joins.append((beat.at, beat.done))
        if not beat.owned and life.given:
            life.dropped.append(beat.at)  # an eager member gives up everything as it joins again
        self._event(beat, EventKind.JOINED, life, beat.reason)
        changed = self._subscription(beat, life, before)
        if changed is not None and not self.observing:
            self._bump(changed, beat)
        self._answer(beat, life)

    def _begin_again(self, beat: Beat, life: Life) -> None:
        """A member with an id that the coordinator still knew: it was fenced, or did not get its answer."""
        if self._was_removed_between(beat, life):
            self._new_member(beat)
            return
        before = life.topics, life.regex, life.topology
        life.learn(beat)
        life.joins.append((beat.at, beat.done))
        self._event(beat, EventKind.REJOINED, life)
        changed = self._subscription(beat, life, before)
        if changed is not None:
            self._bump(changed, beat, sure=not beat.regex)
        self._answer(beat, life)

    def _replace(self, beat: Beat, other: Life) -> None:
        """A process with the instance id of a member: it takes that one's place, if its session has not run out."""
        if self._was_removed_between(beat, other):
            self._new_member(beat)
            return
        life = self._new_life(beat)
        life.learn(beat)
        life.joins.append((beat.at, beat.done))
        life.inherits = True
        if other.epoch is not None:
            life.reached[other.epoch] = beat.done
        # The request of a member that joins is whole; of the other one, the capture may lack what it asked for.
        same = (
            other.topics is None
            or beat.topics is None
            or (beat.topics, beat.regex or None) == (other.topics, other.regex or None)
        )
        raised = beat.epoch is not None and self.epoch is not None and beat.epoch > self.epoch
        text = f"{life.name} came with the instance id of {other.member_id}"
        cause = Cause(Trigger.STATIC_MEMBER_REPLACED, beat.at, beat.packet, text, life)
        if not same:
            cause.text += " and asks for other topics"
        elif raised:
            cause.certainty, cause.weight = Certainty.GUESSED, Strength.VAGUE
        number: int | None
        if self.observing:
            number = None  # the classic group's history tells of it
        elif not same or raised:
            number = self._bump(cause, beat)
        else:
            number = (self.epoch or 0) + 1
            self._besides(cause)
        life.begin = other.end = number
        self._end(other)
        self._event(beat, EventKind.REPLACED, life, f"{other.member_id} before")
        self._answer(beat, life)

    def _long_known(self, number: int) -> bool:
        """Whether the group was at this epoch before, or may have been: then nobody joined with it."""
        if self.epoch is None:
            return number > A_NEW_GROUP_BEGINS_UP_TO
        return number <= self.epoch

    def _take_unseen_place(self, beat: Beat) -> None:
        """A static member was given partitions at once, in an epoch that was there: it resumes a session."""
        life = self._new_life(beat)
        life.learn(beat)
        life.joins.append((beat.at, beat.done))
        text = f"{life.name} took the place of a static member that the capture does not have"
        self._besides(Cause.weighed(Trigger.STATIC_MEMBER_REPLACED, beat.at, beat.packet, text, Strength.DIFFERS, life))
        self._event(beat, EventKind.REPLACED, life)
        self._answer(beat, life)

    def _new_member(self, beat: Beat) -> None:
        life = self._new_life(beat)
        life.learn(beat)
        life.joins.append((beat.at, beat.done))
        self._event(beat, EventKind.JOINED, life, beat.reason)
        if self.observing:
            life.begin = None
        else:
            how = " (static, no instance of that id was known)" if beat.instance_id else ""
            what = "JoinGroup without a member id" if beat.protocol == CLASSIC else "heartbeat with epoch 0"
            cause = Cause(Trigger.MEMBER_JOINED, beat.asked_at, beat.packet, f"{life.name} joined: {what}{how}", life)
            if self.epoch is None and (beat.epoch or 0) > 1:  # others may have been there, whom the capture lacks
                cause.doubt()
            life.begin = self._bump(cause, beat, sure=bool(beat.topics) and not beat.regex)
        self._answer(beat, life)

    def _was_removed_between(self, beat: Beat, life: Life) -> bool:
        """Whether a member was taken out before it came again, though nothing says so but two epochs at once."""
        if self.observing or beat.epoch is None or self.epoch is None:
            return False
        since = life.silent_since()
        silent = beat.at - since > life.silent_after()
        had = life.had(beat.at)
        resumes = bool(had) and beat.given == had  # it was given at once what it had before
        gone = silent and (beat.epoch >= self.epoch + 2 or (not resumes and self._free_rows(life) > 0))
        if gone:
            self._remove(life, beat.at)
            self._end(life)
        return gone

    def _free_rows(self, life: Life) -> int:
        """Epochs without a cause, since a member fell silent, for which no other removed member accounts."""
        return self._rows_since(life.silent_since() + life.silent_after()) - self._removed_since(life.silent_since())

    def _rows_since(self, at: int) -> int:
        count = 0
        for row in reversed(self.unexplained):
            if row.found is None or row.found.done <= at:
                break
            count += row.cause is None
        return count

    def _removed_since(self, at: int) -> int:
        return sum(1 for _ in takewhile(lambda each: (each.missed or 0) > at, reversed(self.removed)))

    def _leave(self, beat: Beat) -> None:
        member = beat.member_id or getattr(self._of_instance(beat.instance_id), "member_id", "")
        life = self.alive.get(member)
        if beat.error is not None:
            self._event(beat, EventKind.LEAVE_REFUSED, life or self._members.get(member), beat.error)
            if life is not None and beat.error in NOT_A_MEMBER:
                self._was_removed(beat, life)
            return
        if life is None:
            if not member or member in self._members:
                return
            life = self._new_life(beat)
            life.learn(beat)
        if beat.sent == STEPS_OUT:
            life.away = beat.at
            life.left_packet = beat.packet
            self._event(beat, EventKind.LEFT, life, "static: it may come back within its session")
            return
        own = beat.protocol != CLASSIC or self._is_own(beat, life)
        life.left, life.left_packet = beat.at, beat.packet
        self._event(beat, EventKind.LEFT if own else EventKind.MEMBER_REMOVED, life, beat.reason)
        self._end(life)
        if self.observing:
            return
        if beat.protocol == CLASSIC:
            reason = f", for the reason “{beat.reason}”" if beat.reason else ""
            said = trigger_by_reason(beat.reason or "")
            trigger = said or (Trigger.MEMBER_LEFT if own else Trigger.REMOVED_BY_ADMIN)
            text = f"{life.name} {'left' if own else 'was taken out by another client'}: LeaveGroup{reason}"
            certainty = Certainty.CERTAIN if own or said else Certainty.LIKELY
            cause = Cause(trigger, beat.at, beat.packet, text, life, certainty)
        else:
            text = f"{life.name} left: heartbeat with epoch {beat.sent}"
            cause = Cause(Trigger.MEMBER_LEFT, beat.at, beat.packet, text, life)
        if not beat.answered:
            cause.doubt()
        if self.epoch is not None:
            life.end = self._bump(cause, beat)

    def _refused(self, beat: Beat) -> None:
        life = self.alive.get(beat.member_id)
        error = beat.error or ""
        if beat.sent == 0 and not (beat.protocol == CLASSIC and life is not None):
            event = EventKind.MEMBER_ID_GIVEN if error == Error.MEMBER_ID_REQUIRED else EventKind.JOIN_REFUSED
            self._event(beat, event, None, None if event == EventKind.MEMBER_ID_GIVEN else error)
            return
        if error == Error.REBALANCE_IN_PROGRESS:
            if life is not None:
                life.heard, life.heard_packet = beat.at, beat.packet
                if not beat.quiet:
                    self._event(beat, EventKind.HEARTBEAT_REFUSED, life, error)
            return
        if error in NOT_HERE:
            if not beat.quiet:
                self._event(beat, EventKind.COORDINATOR_UNAVAILABLE, life, error)
            return
        if life is None:
            if not beat.member_id or beat.member_id in self._members:
                return
            life = self._first_seen(beat)
            if error in NOT_A_MEMBER:  # that was before the capture
                self._event(beat, EventKind.FENCED, life, error)
                self._end(life)
                life.spoke, life.end = False, life.begin or 0
                return
        if error in NOT_A_MEMBER:
            self._event(beat, EventKind.FENCED, life, error)
            self._was_removed(beat, life)
        elif not beat.quiet:
            self._event(beat, refused_as(error, EventKind.HEARTBEAT_FAILED), life, error)

    def _was_removed(self, beat: Beat, life: Life) -> None:
        """A member is told that it is none any more: it had been taken out since its last word."""
        life.refused, life.refused_packet = beat.at, beat.packet
        self._end(life)
        shown = self._rows_since(life.heard) > self._removed_since(life.heard)
        self._remove(life, beat.at)
        if beat.error == Error.UNKNOWN_MEMBER_ID and not shown and self.epoch is not None and not self.observing:
            # Nobody has shown the epoch yet that its removal raised.
            self._raise_unseen(beat)

    def _raise_unseen(self, beat: Beat) -> None:
        number = (self.epoch or 0) + 1
        earlier = self.rows.get(number)
        if earlier is not None:  # a tentative one: it came first
            earlier.tentative, earlier.found = False, earlier.found or beat
            number += 1
        self.rows[number] = Row(number, found=beat, before=self.last)
        self.unexplained.append(self.rows[number])
        self.epoch = number

    # What that does to the epoch

    def _answer(self, beat: Beat, life: Life) -> None:
        """The epoch that an answer names, and what it gives."""
        new = beat.epoch is not None and beat.epoch > 0 and beat.epoch not in life.reached
        given = len(life.given)
        behind = life.epoch if life.epoch is not None else beat.sent
        revoked = self._revokes(beat, life)
        life.take(beat)
        if beat.epoch is not None and not self.observing:
            delayed = bool(beat.statuses) and ASSIGNMENT_DELAYED in (beat.statuses or {})
            self._see(beat.epoch, beat)
            if revoked and beat.epoch == self.epoch:
                # A member stays in its epoch until it has given up what the next one takes from it.
                self._see(beat.epoch + 1, beat, named=False)
            if delayed:
                self._see(beat.epoch + 1, beat, named=False)
            if new:
                self._event(beat, EventKind.EPOCH_SEEN, life)
                if beat.epoch not in self.rows and beat.epoch == self.epoch and 0 < (behind or 0) < beat.epoch:
                    # It was raised before the capture began; this member gets to it within the capture.
                    self.rows[beat.epoch] = Row(beat.epoch, seen=beat, found=beat, before=self.last, early=True)
        elif beat.epoch is not None:
            self.epoch = max(self.epoch or 0, beat.epoch)
        if len(life.given) > given:
            waiting = "".join(f"; {kind}: {in_words(found)}" for kind, found in beat.waiting.items() if found)
            event = EventKind.SYNCED if beat.protocol == CLASSIC else EventKind.ASSIGNMENT_GIVEN
            self._event(beat, event, life, in_words(life.given[-1][2]) + waiting)
        if life.owned and life.owned[-1][0] == beat.at and beat.sent:
            self._event(beat, EventKind.ASSIGNMENT_REPORTED, life, in_words(life.owned[-1][1]))

    @staticmethod
    def _revokes(beat: Beat, life: Life) -> bool:
        """Whether an answer takes away what the member has, as far as it told: the group is ahead of its epoch then."""
        if beat.given is None or beat.joins or beat.protocol == SHARE or not life.given or not life.owned:
            return False
        if life.given[-1][0] < life.untold:
            return False
        return bool((life.given[-1][2] - beat.given) & life.owned[-1][1])

    def _see(self, number: int, beat: Beat, named: bool = True) -> None:
        """The group is at least at this epoch."""
        if self.epoch is None:
            self.epoch = number
        passed_over = number - self.epoch - 1
        for each in range(number if passed_over > _MOST_INFERRED else self.epoch + 1, number + 1):
            row = self.rows.get(each)
            if row is None or row.cause is None:
                row = self.rows[each] = Row(each, before=self.last)
                self.unexplained.append(row)
            row.found = row.found or beat
            self._confirm(row)
            self.epoch = each
        if named and number in self.rows and self.rows[number].seen is None:
            row = self.rows[number]
            row.seen, row.found = beat, row.found or beat
            self._confirm(row)

    @staticmethod
    def _confirm(row: Row) -> None:
        if row.tentative and row.cause is not None:
            row.cause.doubt()
        row.tentative = False

    def _bump(self, cause: Cause, beat: Beat, sure: bool = True) -> int:
        """Something raised the epoch; its number. The answer may name it, or an epoch before it."""
        cause.done = beat.done
        if beat.contested:
            cause.doubt()
        answered = beat.epoch or 0
        if beat.statuses and ASSIGNMENT_DELAYED in beat.statuses:
            answered += 1
        shown = self._shown_meanwhile(beat, answered)
        if shown is not None:
            assert shown.found is not None
            if shown.found.at < beat.at:  # that request may have been there first
                cause.doubt()
            shown.cause = cause
            return shown.number
        if self.epoch is None:
            number = max(answered, 1)
        else:
            number = self.epoch + 1
            earlier = self.rows.get(number)
            if earlier is not None and earlier.tentative:
                if answered == number:  # it was this one that raised it
                    self.rows.pop(number)
                    if earlier.cause is not None:
                        cause.text += f" ({earlier.cause.text} before)"
                else:
                    earlier.tentative = False
                    earlier.found = earlier.found or beat
                    self.epoch = number
                    number += 1
            if answered > number:
                self._see(answered - 1, beat, named=False)
                number = answered
                cause.doubt()  # others raised epochs unseen: this may be theirs too
        self.rows[number] = Row(number, cause, before=self.last, tentative=not sure and answered < number)
        if not self.rows[number].tentative:
            self.epoch = number
        return number

    def _shown_meanwhile(self, beat: Beat, answered: int) -> Row | None:
        """The epoch that another answer showed, for no reason then, between this request and its answer.

        Not one to what was asked on its connection: that was answered before this request was looked at.
        """
        row = self.rows.get(self.epoch or 0)
        if row is None or row.cause is not None or row.early or row.found is None or row.found is beat:
            return None
        if row.found.message.connection == beat.message.connection and row.found.at <= beat.at:
            return None
        return row if beat.at <= row.found.done <= beat.done and answered <= row.number else None

    def _besides(self, cause: Cause) -> None:
        row = self.rows.get(self.epoch or 0)
        if row is not None:
            row.others.append(cause)

    def _subscription(self, beat: Beat, life: Life, before: tuple[object, object, object]) -> Cause | None:
        topics, regex, topology = before
        if life.protocol == STREAMS:
            changed = topology is not None and beat.topology is not None and topology != beat.topology
        else:
            changed = (topics is not None and beat.topics is not None and topics != beat.topics) or (
                (regex is not None or topics is not None) and beat.regex is not None and (regex or "") != beat.regex
            )
        # A member tells its topics as it joins, after an error with all else, and when they change.
        alone = topics is None and regex is None and beat.rebalance_timeout_ms is None and (beat.sent or 0) > 0
        told = life.protocol in (CONSUMER, SHARE) and alone and bool(beat.topics or beat.regex)
        if not changed and not told:
            return None
        asked = beat.regex or listed(beat.topics or (), 20)
        self._event(beat, EventKind.SUBSCRIPTION_CHANGED, life, asked)
        text = f"{life.name} asks for other topics: {asked}"
        strength = Strength.SAID if changed else Strength.DIFFERS
        return Cause.weighed(Trigger.SUBSCRIPTION_CHANGED, beat.asked_at, beat.packet, text, strength, life)

    def _statuses(self, beat: Beat, life: Life, waited: tuple[bool, bool]) -> None:
        """Streams: what a status said of the topics, and does so no more."""
        if beat.statuses is None:
            return
        codes = set(beat.statuses)
        life.missing_internal_topics = MISSING_INTERNAL_TOPICS in codes
        life.missing_source_topics = bool(codes & {MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED})
        if codes and not beat.quiet:
            told = "; ".join(text or str(code) for code, text in sorted(beat.statuses.items()))
            self._event(beat, EventKind.STATUS_TOLD, life, told)
        if waited[0] and not life.missing_internal_topics:
            trigger, missed = Trigger.INTERNAL_TOPICS_CREATED, "internal topics are missing"
        elif waited[1] and not life.missing_source_topics:
            trigger, missed = Trigger.TOPIC_PARTITIONS_CHANGED, "source topics are missing or badly partitioned"
        else:
            return
        for each in self.alive.values():  # others may be told later; the epoch was raised once
            each.missing_internal_topics &= trigger != Trigger.INTERNAL_TOPICS_CREATED
            each.missing_source_topics &= trigger != Trigger.TOPIC_PARTITIONS_CHANGED
        text = f"{life.name} was told that {missed}, and is not any more"
        cause = Cause.weighed(trigger, beat.at, beat.packet, text, Strength.FITS)
        row = self.rows.get(self.epoch or 0)
        if row is not None and row.cause is None and row.found is beat:
            row.cause = cause
        elif ASSIGNMENT_DELAYED in codes and not self.observing:  # such an answer names an earlier epoch
            self._bump(cause, beat, sure=False)

    # Members

    def configure(self, message: Message) -> None:
        """An administrator changed settings of the group."""
        given = settings_given(message.request, self.group_id).keys() & _FOR_ASSIGNMENTS
        taken = settings_refused(message, self.group_id) is None
        if message.answered is not None and taken and given and not self.observing:
            text = f"{message.client_id or 'somebody'} ({message.client}) changed {', '.join(sorted(given))}"
            cause = Cause.weighed(Trigger.GROUP_CONFIG_CHANGED, message.answered, message.packet, text, Strength.FITS)
            self.configured.append(cause)

    def describe(self, message: Message, reader: BeatReader, described: Json) -> None:
        """A description of the group by its coordinator: its epoch, and members that the capture may not have."""
        number = described.get("groupEpoch")
        if message.answered is None or not isinstance(number, int) or number <= 0 or self.observing:
            return
        beat = Beat(message.at, message.answered, message, self.protocol or "", "", None, number, None, True)
        members = described.get("members") or []
        self._see(number, beat)
        listed = {member.get("memberId") for member in members}
        for life in [each for each in self.alive.values() if not each.spoke and each.member_id not in listed]:
            life.end = number
            self._end(life)
        for member in members:
            if member.get("memberId") in self.alive:
                continue
            beat.member_id = str(member.get("memberId"))
            life = self._new_life(beat)
            life.spoke, life.begin = False, number
            life.client_id, life.host = member.get("clientId"), str(member.get("clientHost") or "").lstrip("/")
            life.instance_id = member.get("instanceId")
            life.topics = tuple(sorted(member.get("subscribedTopicNames") or ()))
            life.epoch = member.get("memberEpoch")
            given = reader.described(member.get("assignment"))
            if given is not None:
                life.given.append((beat.done, life.epoch or 0, given))

    def _new_life(self, beat: Beat) -> Life:
        life = Life(beat.member_id, beat.protocol, beat.at, client_id=beat.message.client_id, host=beat.message.client)
        life.heard, life.heard_packet = beat.at, beat.packet
        self.lives.append(life)
        self.alive[beat.member_id] = self._members[beat.member_id] = life
        return life

    def _remove(self, life: Life, at: int) -> None:
        life.missed = at
        self.removed.append(life)

    def _end(self, life: Life) -> None:
        if self.alive.get(life.member_id) is life:
            del self.alive[life.member_id]

    def _of_instance(self, instance_id: str | None) -> Life | None:
        if not instance_id:
            return None
        return next((life for life in self.alive.values() if life.instance_id == instance_id), None)

    @staticmethod
    def _is_own(beat: Beat, life: Life) -> bool:
        return left_by_itself(
            beat.message,
            beat.reason or "",
            names_id=bool(beat.member_id) or not beat.instance_id,
            connections=life.connections,
            client_id=life.client_id,
            host=life.host,
        )

    def _event(self, beat: Beat, event: EventKind, life: Life | None, detail: str | None = None) -> None:
        if self.observing:
            return
        message = beat.message
        answers = event not in (
            EventKind.JOINED,
            EventKind.LEFT,
            EventKind.MEMBER_REMOVED,
            EventKind.SUBSCRIPTION_CHANGED,
            EventKind.ASSIGNMENT_REPORTED,
        )
        epoch = next((each for each in (beat.epoch, beat.sent) if each is not None and each > 0), None)
        self.events.append(
            Event(
                group_id=self.group_id,
                at=beat.done if answers else beat.at,
                event=event,
                member_id=beat.member_id or (life.member_id if life else None),
                client_id=(life.client_id if life else None) or message.client_id,
                client=(life.host if life else None) or message.client,
                instance_id=beat.instance_id or (life.instance_id if life else None),
                generation=epoch,
                connection=message.connection,
                number=message.number,
                packet=(message.response_packet or beat.packet) if answers else beat.packet,
                detail=detail,
            )
        )
