"""Why an epoch was raised that no message of a member explains: who was gone, or which partitions were new."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.groups.epochs.heartbeats import CLASSIC, SHARE, STREAMS
from kafkascope.reports.groups.epochs.lives import Life, Roster
from kafkascope.reports.groups.epochs.rows import Cause, Row
from kafkascope.reports.groups.epochs.walk import Walk
from kafkascope.reports.groups.history import Evidence
from kafkascope.reports.groups.messages import ConnectionEnd
from kafkascope.reports.groups.strengths import Strength
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_NUMBERED = re.compile(r"[-_](\d+)\Z")
_MEMBER_GONE = frozenset({Trigger.MEMBER_LEFT, Trigger.SESSION_TIMEOUT})
# What speaks for it that a member was taken out, added up: it was silent or told so; its work went to others, or nobody
# else was there; it was told so; it had no work that others could have been given.
_GONE, _MISSED, _TOLD, _NOTHING_TO_MISS = 0.4, 0.3, 0.4, 0.2
_CAUSE_COMES_NS = 5 * SECOND_NS
"""What raised an epoch may be answered after others were told of it: until then it is not without a cause."""
_AFTER_LEAVING_NS = 2 * SECOND_NS  # brokers raise the epoch within a second of a member's leaving
_LOOKS_UP_NS = 2 * SECOND_NS  # brokers look for topics of a new pattern at once, and raise the epoch when they are done
_SETTINGS_TAKE_NS = 10 * SECOND_NS  # they reach the coordinator through the metadata log, and count from a heartbeat on
_USUAL_SESSION_MS = 45_000
"""Of consumers, share and streams groups with epochs, if nobody configured the broker; members do not tell theirs."""


@dataclass(slots=True)
class _Verdict:
    """What raised an epoch, and what speaks for and against it. Without a cause: nothing that the capture has."""

    number: int
    cause: Cause | None = None
    evidence: list[Evidence] = field(default_factory=list)
    taken_out: Life | None = None  # since this epoch it is no member any more
    lost: dict[str, tuple[int, int]] = field(default_factory=dict)  # topics that ceased to be: between which moments


def find_causes(walk: Walk, ended: Mapping[int, ConnectionEnd]) -> None:
    """Give each row without a cause one, if anything speaks for one, and evidence for and against."""
    rows = [walk.rows[number] for number in sorted(walk.rows)]
    verdicts = _search(walk, rows, ended)
    settled = [row for row in rows if row.started + _CAUSE_COMES_NS < walk.last and not row.early]
    walk.unseen = sum(verdicts[row.number].cause is None for row in settled)
    if walk.unseen:
        verdicts = _search(walk, rows, ended)  # in the light of that
    _first_silent_first(verdicts)
    if walk.protocol == SHARE:
        _share_groups_do_it_in_two(rows, verdicts)
    for row in rows:
        if row.number in verdicts:
            _apply(verdicts[row.number], row, walk)
        else:
            del walk.rows[row.number]


def _search(walk: Walk, rows: list[Row], ended: Mapping[int, ConnectionEnd]) -> dict[int, _Verdict]:
    """A verdict on each epoch, in the light of those before it."""
    roster, known, joins = Roster(walk.lives), _Known(walk.lives), _joins(walk.lives)
    verdicts: dict[int, _Verdict] = {}
    for place, row in enumerate(rows):
        if row.cause is not None:
            verdict = _Verdict(row.number, row.cause, _came_back(row.cause, joins))
        else:
            until = rows[place + 1].started if place + 1 < len(rows) else walk.last
            members = roster.members(row.number)
            verdict = _Search(walk, row, max(until, row.started), ended, members, known).run()
            if verdict.taken_out is not None:
                roster.take_out(verdict.taken_out)
            if verdict.cause is None and place:
                _looked_up_again(verdict, verdicts[rows[place - 1].number], row, members)
            if verdict.lost:
                known.forget(verdict.lost.keys())
        verdicts[row.number] = verdict
    return verdicts


def _looked_up_again(verdict: _Verdict, before: _Verdict, row: Row, members: list[Life]) -> None:
    """An epoch that follows the one in which a topic was gone, and changes nothing, where a member has a pattern.

    The coordinator looks at the topics that there are and at what a pattern names one after the other, and raises an
    epoch for each.
    """
    gave_out = any(epoch == row.number for life in members for _, epoch, _ in life.given)
    if before.lost and not gave_out and any(life.regex for life in members):
        text = f"the pattern was looked up again, as {listed(before.lost)} had gone in the epoch before"
        at, packet = row.started, _packet(row)
        verdict.cause = Cause.weighed(Trigger.TOPIC_PARTITIONS_CHANGED, at, packet, text, Strength.VAGUE)
        verdict.evidence = [each for each in verdict.evidence if each.rejected]


def _apply(verdict: _Verdict, row: Row, walk: Walk) -> None:
    row.cause, row.evidence, row.passed = verdict.cause, verdict.evidence, row.number - verdict.number
    life = verdict.taken_out
    if life is not None:
        life.end = verdict.number
        if walk.alive.get(life.member_id) is life:
            del walk.alive[life.member_id]
    for topic, between in verdict.lost.items():
        walk.lost.setdefault(topic, []).append(between)


def _first_silent_first(verdicts: dict[int, _Verdict]) -> None:
    """Sessions that ran out one after the other did so in the order in which the members fell silent."""
    expired = [each for each in verdicts.values() if each.cause and each.cause.trigger == Trigger.SESSION_TIMEOUT]
    for _, run in groupby(enumerate(expired), key=lambda each: each[1].number - each[0]):
        found = [verdict for _, verdict in run]
        for verdict, first in zip(found, sorted(found, key=_expiry), strict=True):
            verdicts[verdict.number] = replace(first, number=verdict.number)


def _expiry(verdict: _Verdict) -> int:
    life = verdict.taken_out
    assert life is not None
    return life.silent_since() + _session_ms(life) * MILLISECOND_NS


def _session_ms(life: Life) -> int:
    return life.session_timeout_ms or _USUAL_SESSION_MS


def _joins(lives: list[Life]) -> dict[str, list[int]]:
    """When members joined, by the id that a client with epochs chooses once."""
    joins: dict[str, list[int]] = defaultdict(list)
    for life in lives:
        if life.protocol != CLASSIC:
            joins[life.member_id] += [at for at, _ in life.joins]
    return joins


def _came_back(cause: Cause, joins: Mapping[str, list[int]]) -> list[Evidence]:
    """Of a member that left and joined again with its id: it was not closed."""
    if cause.trigger != Trigger.MEMBER_LEFT or cause.life is None:
        return []
    again = next((at for at in joins.get(cause.life.member_id, ()) if at > cause.at), None)
    if again is None:
        return []
    text = f"it joined again after {(again - cause.at) / SECOND_NS:.1f} s with the same member id: its "
    text += "application may have been too slow to poll, or have unsubscribed; heartbeats do not tell"
    return [Evidence(text, None, again, Strength.WITHOUT_CHANGE, Trigger.POLL_TIMEOUT, rejected=True)]


def _share_groups_do_it_in_two(rows: list[Row], verdicts: dict[int, _Verdict]) -> None:
    """Some epochs of share groups come in pairs of which only one has a reason of its own."""
    for row, following in pairwise(rows):
        cause, next_cause = verdicts[row.number].cause, verdicts[following.number].cause
        if cause is None and next_cause is None and row.seen is None:
            # It may be the first of two that were raised for a member that the capture lacks.
            verdicts[following.number].number = verdicts.pop(row.number).number
        elif cause is not None:
            if cause.trigger in _MEMBER_GONE and row.seen is None and next_cause is None:
                # Up to Kafka 4.2 the epoch is raised when a member is gone, and again with the next heartbeat, when
                # what the group asks for is looked at anew. Nobody ever has the first of them.
                text = f"{cause.text}; the epoch was raised twice, and nothing else speaks for a second reason"
                verdicts[following.number] = replace(verdicts.pop(row.number), cause=replace(cause, text=text))
        elif not row.early and next_cause and next_cause.trigger == Trigger.SHARE_PARTITIONS_INITIALIZED:
            # A share group learns of new partitions first, and gives them out when their state is ready.
            text = "partitions were made ready in the epoch after this one: they came into being before"
            cause = Cause.weighed(Trigger.TOPIC_PARTITIONS_CHANGED, row.started, _packet(row), text, Strength.VAGUE)
            against = [each for each in verdicts[row.number].evidence if each.rejected]
            verdicts[row.number] = replace(verdicts[row.number], cause=cause, evidence=against)


class _Known:
    """Partitions that members had; asked for moments in rising order."""

    def __init__(self, lives: list[Life]) -> None:
        of_all = [(at, given) for life in lives for at, _, given in life.given]
        # What a member said first, it had before the capture, if its joining is not in it.
        of_all += [(at if life.begin is not None else 0, owned) for life in lives for at, owned in life.owned]
        self._coming = sorted(of_all, key=lambda each: each[0], reverse=True)
        self._known: set[str] = set()
        self._given: dict[int, set[str]] = defaultdict(set)
        for life in lives:
            for _, epoch, given in life.given:
                self._given[epoch] |= given

    def before(self, at: int) -> set[str]:
        while self._coming and self._coming[-1][0] < at:
            self._known |= self._coming.pop()[1]
        return self._known

    def given_in(self, number: int) -> frozenset[str]:
        """What members were given in an epoch."""
        return frozenset(self._given.get(number, ()))

    def forget(self, topics: Set[str]) -> None:
        """Those topics are no more; others that come to be called so have new partitions."""
        self._known = {each for each in self._known if topic_of(each) not in topics}


class _Search:
    """Looks for what raised one epoch, and changes nothing."""

    def __init__(
        self,
        walk: Walk,
        row: Row,
        until: int,
        ended: Mapping[int, ConnectionEnd],
        members: list[Life],
        known: _Known,
    ) -> None:
        assert row.found is not None
        self.walk, self.row, self.ended, self._all_known = walk, row, ended, known
        self.at = row.found.done
        self.members = [
            life
            for life in members
            if life.first <= self.at and (life.begin is None or life.begin < row.number or life.inherits)
        ]
        self.gains = self._gains(max(until, self.at))
        self.known = frozenset(known.before(self.at))
        self.verdict = _Verdict(row.number)

    def run(self) -> _Verdict:
        """The verdict."""
        if self.row.early:
            self._say(Trigger.UNKNOWN, "it was raised before the capture began", Strength.SAID)
            return self.verdict
        found = self._taken_out(certain=True) or self._configured() or self._made_anew() or self._looked_up()
        found = found or self._new_partitions() or self._taken_out(certain=False)
        if not found and not self._pattern():
            self._nothing()
        return self.verdict

    # Somebody was taken out

    def _taken_out(self, *, certain: bool) -> bool:
        """Whether a member fell silent, or was told later that it is none, and what it had went to others."""
        weighed = [(weight, life) for life in self.members if (weight := self._weight(life)) is not None]
        found = [each for each in weighed if not certain or each[0] >= Strength.LEFT_OVER]
        if not found:
            return False
        weight, life = max(found, key=lambda each: (each[0], -each[1].silent_since()))  # the first one to fall silent
        cause = self._removal(life, weight)
        self.verdict.cause, self.verdict.taken_out = cause, life
        self._connection(life, cause.trigger)
        if life.refused is not None:
            text = f"{life.name} was told later that it is no member any more"
            self._say(cause.trigger, text, Strength.SAID, life.refused_packet, life.refused)
        if self.gains.get(life.member_id):
            self._say(
                cause.trigger, f"others were given what it had: {in_words(self.gains[life.member_id])}", Strength.DUE
            )
        return True

    def _weight(self, life: Life) -> float | None:
        """How much speaks for it that this member was taken out; None: it was not."""
        refused = life.refused is not None
        since = life.silent_since()
        if since >= self.at or life.end is not None or not life.spoke:
            return None
        silent = self.at - since > (0 if life.away is not None else life.silent_after())
        # Brokers may allow less silence than is usual: a connection that ended says it, if others got its partitions.
        silent = silent or (bool(self.gains.get(life.member_id)) and self._has_hung_up(life))
        if not silent and not refused:
            return None
        had = life.had(self.at)
        alone = self.members == [life] and not self.walk.unseen  # nobody else was there to raise it
        weight = _GONE + _MISSED * (alone or bool(self.gains.get(life.member_id))) + _TOLD * refused
        return weight + (_NOTHING_TO_MISS if silent and had is not None and not had else 0.0)

    def _has_hung_up(self, life: Life) -> bool:
        """Whether its connection ended after its last word, longer ago than an epoch comes after a member's leaving."""
        end = self.ended.get(next(reversed(life.connections), -1))
        return end is not None and end.closed is not None and life.heard <= end.closed < self.at - _AFTER_LEAVING_NS

    def _removal(self, life: Life, weight: float) -> Cause:
        since = life.silent_since()
        silence = (self.at - since) / SECOND_NS
        packet = life.left_packet if life.away is not None else life.heard_packet
        certainty = Certainty.LIKELY if weight >= Strength.LEFT_OVER else Certainty.GUESSED
        if self._owes(life):
            expired = self._expired(life.given[-1][0], life.rebalance_timeout_ms)
            if expired is not None or self.at - since <= life.silent_after():
                text = f"{life.name} was asked to give up partitions, and had not when it was taken out"
                at = self.row.started if expired is None else expired
                return Cause(
                    Trigger.REBALANCE_TIMEOUT,
                    at,
                    packet,
                    text,
                    life,
                    certainty=certainty,
                    weight=min(weight, Strength.SAID),
                )
        if life.away is not None:
            text = f"{life.name} (static) had left {silence:.1f} s before, and had not come back"
        else:
            text = f"{life.name} had said nothing for {silence:.1f} s"
        expired = self._expired(since, _session_ms(life))
        at = self.row.started if expired is None else expired
        return Cause(
            Trigger.SESSION_TIMEOUT, at, packet, text, life, certainty=certainty, weight=min(weight, Strength.SAID)
        )

    def _expired(self, since: int, timeout_ms: int | None) -> int | None:
        """When a time ran out, if it is known and that was just before it was seen."""
        if timeout_ms is None:
            return None
        expired = since + timeout_ms * MILLISECOND_NS
        assert self.row.found is not None
        return expired if min(self.row.before, self.row.started) - SECOND_NS <= expired <= self.row.found.done else None

    @staticmethod
    def _owes(life: Life) -> bool:
        """Whether it was given less than it said it has."""
        if life.protocol == CLASSIC or not life.given or not life.owned:
            return False
        at, _, given = life.given[-1]
        said, owned = life.owned[-1]
        before = life.given[-2][2] if len(life.given) > 1 else owned
        return bool(before - given) and (said < at or bool(owned - given))

    def _connection(self, life: Life, trigger: Trigger) -> None:
        for connection in life.connections:
            end = self.ended.get(connection)
            if end is not None and end.closed is not None and life.heard <= end.closed <= self.at + SECOND_NS:
                text = f"its connection had ended ({end.how_closed.upper()})"
                self._say(trigger, text, Strength.WITHOUT_CHANGE, None, end.closed)

    # Somebody else wanted it

    def _configured(self) -> bool:
        """Whether the group's settings were changed shortly before: the next heartbeat raises the epoch."""
        earlier = self.walk.rows.get(self.row.number - 1)
        since = self.row.before - _SETTINGS_TAKE_NS
        if earlier is not None and earlier.found is not None:
            since = max(since, earlier.found.at)
        self.verdict.cause = next((each for each in self.walk.configured if since <= each.at <= self.at), None)
        return self.verdict.cause is not None

    # Partitions are new, or gone

    def _made_anew(self) -> bool:
        """A topic has another id than before: it was deleted, and one of its name made."""
        anew = sorted({topic for at, topic in self.walk.made_anew if self.row.started <= at <= self.until})
        if not anew:
            return False
        text = f"{listed(anew)} {'has' if len(anew) == 1 else 'have'} another id than before: deleted and made anew"
        return self._by_lost_topics(anew, text, Strength.DIFFERS)

    def _by_lost_topics(self, lost: Iterable[str], text: str, strength: Strength) -> bool:
        self.verdict.lost = dict.fromkeys(lost, (self.row.started, self.until))
        at, packet = self.row.started, _packet(self.row)
        self.verdict.cause = Cause.weighed(Trigger.TOPIC_PARTITIONS_CHANGED, at, packet, text, strength)
        return True

    def _looked_up(self) -> bool:
        """Topics of the pattern of who joined in the epoch before: brokers look for them then, and raise another."""
        before = self.walk.rows.get(self.row.number - 1)
        joined = before.cause if before is not None else None
        if joined is None or joined.trigger != Trigger.MEMBER_JOINED or joined.life is None or not joined.life.regex:
            return False
        topics = {topic_of(each) for given in self.gains.values() for each in given}
        known = {topic_of(each) for each in self.known}
        soon = self.row.started - joined.at <= _LOOKS_UP_NS
        if not topics or not topics.isdisjoint(known) or joined.life.had(self.at - 1) or not soon:
            return False
        text = f"{joined.life.name} had joined with the pattern {joined.life.regex}, and {listed(topics)} "
        text += f"{'was' if len(topics) == 1 else 'were'} found for it"
        self.verdict.cause = replace(joined, text=text, weight=Strength.DIFFERS, certainty=Strength.DIFFERS.allows)
        text = "topics of that pattern that came into being then would look the same"
        self._say(Trigger.TOPIC_PARTITIONS_CHANGED, text, Strength.UNCHANGED, rejected=True)
        return True

    def _new_partitions(self) -> bool:
        gained = frozenset().union(*self.gains.values()) if self.gains else frozenset()
        fresh = gained - self.known
        if not fresh and self._gone_topics():
            return True
        new = self._new(fresh)
        if new is None or not self._all_held():
            return False
        text, strength = new
        trigger = (
            Trigger.SHARE_PARTITIONS_INITIALIZED if self.walk.protocol == SHARE else Trigger.TOPIC_PARTITIONS_CHANGED
        )
        at = self.row.started
        topics = {topic_of(each) for each in fresh}
        new_topics = bool(topics) and topics.isdisjoint(topic_of(each) for each in self.known)
        if new_topics and self.row.before and any(life.regex for life in self.members):
            at = min(at, self.row.before)  # topics of a pattern are looked up after a heartbeat, and count from then
        self.verdict.cause = Cause.weighed(trigger, at, _packet(self.row), text, strength)
        self._reject_members(trigger)
        return True

    def _new(self, fresh: frozenset[str]) -> tuple[str, Strength] | None:
        """What says that partitions were new, how strongly; None: nothing does.

        What came to members from one that the capture lacks is new to it as well: then numbers are missing, or nobody
        in the capture has partitions that were known.
        """
        text = f"partitions that no member had before were given out: {in_words(fresh)}"
        if fresh and _continue(fresh, self.known):
            return text, Strength.FITS if self._complete() else Strength.LEFT_OVER
        if not self._complete():
            return None
        # The next epoch may have come before all members had this one.
        overtaken = self._all_known.given_in(self.row.number + 1) - self.known - fresh
        if not overtaken or not _continue(fresh | overtaken, self.known):
            return None
        if fresh:
            return f"{text}; the others, {in_words(overtaken)}, with the next epoch", Strength.LEFT_OVER
        following = self.walk.rows.get(self.row.number + 1)
        if following is None or following.cause is None or self.walk.protocol in (SHARE, STREAMS):
            return None
        text = f"partitions that no member had before were given out with the next epoch: {in_words(overtaken)}"
        return text, Strength.VAGUE

    def _gone_topics(self) -> bool:
        """A topic that members had, and nobody has after it, though nobody asks for another."""
        before, after = self._had(self.at - 1), self._had(self.until)
        lost = {topic_of(each) for each in before} - {topic_of(each) for each in after}
        if not lost or not self._complete() or self.walk.protocol == STREAMS:
            return False
        return self._by_lost_topics(lost, f"nobody has partitions of {listed(lost)} any more", Strength.LEFT_OVER)

    def _pattern(self) -> bool:
        """A member with a pattern gets partitions of a topic of which it had none: the pattern was looked up again."""
        for life in self.members:
            if not life.regex:
                continue
            place = bisect_left(life.given, self.at, key=lambda each: each[0])
            had = {topic_of(each) for _, _, given in life.given[:place] for each in given}
            new = {topic_of(each) for at, _, given in life.given[place:] if at <= self.until for each in given} - had
            if new:
                text = f"{life.name}, with the pattern {life.regex}, was given {listed(new)} for the first time"
                self.verdict.cause = Cause.weighed(
                    Trigger.TOPIC_PARTITIONS_CHANGED, self.row.started, _packet(self.row), text, Strength.VAGUE
                )
                return True
        return False

    def _nothing(self) -> None:
        missing = "no member joined, left, fell silent or asked for other topics within the capture"
        if not self._complete():
            missing += ": somebody did whose traffic is not in this capture"
        self._say(Trigger.UNKNOWN, missing, Strength.WITHOUT_CHANGE)
        lost = {
            partition
            for life in self.members
            for partition in (life.had(self.at - 1) or frozenset()) - (life.had(self.until) or frozenset())
        } - self._had(self.until)
        if lost:
            text = f"nobody in the capture has {in_words(lost)} any more: a member that it lacks may have joined"
            self._say(Trigger.MEMBER_JOINED, text, Strength.UNCHANGED, rejected=True)

    def _reject_members(self, trigger: Trigger) -> None:
        for life in self.members:
            silence = self.at - life.silent_since()
            if silence > life.silent_after():
                text = f"{life.name} had said nothing for {silence / SECOND_NS:.1f} s, but nobody got what it had"
                self._say(
                    Trigger.SESSION_TIMEOUT, text, Strength.UNCHANGED, life.heard_packet, life.heard, rejected=True
                )
        if trigger == Trigger.TOPIC_PARTITIONS_CHANGED and all(
            self.at - each.silent_since() <= each.silent_after() for each in self.members
        ):
            self._say(
                Trigger.SESSION_TIMEOUT, "every member had spoken shortly before", Strength.AFTERWARDS, rejected=True
            )

    # What is known

    def _gains(self, until: int) -> dict[str, frozenset[str]]:
        """What members were given in this epoch that they had not before, by the member that had it; "" nobody."""
        self.until = until
        owners: dict[str, str] = {}
        for life in self.members:
            for partition in life.had(self.row.started - 1) or ():
                owners[partition] = life.member_id
        gains: dict[str, set[str]] = defaultdict(set)
        for life in self.members:
            previous: frozenset[str] | None = life.had(self.at - 1)
            for at, epoch, given in life.given[bisect_left(life.given, self.at, key=lambda each: each[0]) :]:
                if at > until and epoch > self.row.number:
                    break
                if at <= until or epoch == self.row.number:
                    for partition in given - (previous or frozenset()):
                        if owners.get(partition) != life.member_id:
                            gains[owners.get(partition, "")].add(partition)
                    previous = given
        return {owner: frozenset(partitions) for owner, partitions in gains.items()}

    def _had(self, at: int) -> frozenset[str]:
        return frozenset().union(*(life.had(at) or frozenset() for life in self.members))

    def _all_held(self) -> bool:
        """Whether members in the capture had all partitions that were known, before or after."""
        return self.known <= self._had(self.row.started - 1) or self.known <= self._had(self.until)

    def _complete(self) -> bool:
        """Whether the capture has every member, as far as one can tell: nothing came of others, nor began before it."""
        if self.walk.unseen or not self.members:
            return False
        return all(life.begin is not None and life.spoke for life in self.members)

    def _say(
        self,
        trigger: Trigger,
        text: str,
        weight: float,
        packet: int | None = None,
        at: int | None = None,
        rejected: bool = False,
    ) -> None:
        self.verdict.evidence.append(Evidence(text, packet, at, weight, trigger, rejected))


def _continue(fresh: Iterable[str], known: frozenset[str]) -> bool:
    """Whether partitions follow in number those that were known of the same topic, with none missing."""
    before: dict[str, set[int]] = defaultdict(set)
    after: dict[str, set[int]] = defaultdict(set)
    for each in known:
        before[topic_of(each)].add(number_of(each))
    for each in fresh:
        after[topic_of(each)].add(number_of(each))
    return all(
        before[topic] == set(range(len(before[topic])))
        and before[topic] | numbers == set(range(len(before[topic]) + len(numbers)))
        for topic, numbers in after.items()
    )


def topic_of(partition: str) -> str:
    """Of topic-number its topic, of subtopology_partition its subtopology."""
    return _NUMBERED.sub("", partition)


def number_of(partition: str) -> int:
    """Of either its number."""
    found = _NUMBERED.search(partition)
    return int(found[1]) if found else -1


def _packet(row: Row) -> int | None:
    return row.found.message.response_packet if row.found is not None else None
