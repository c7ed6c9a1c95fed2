"""Which reading explains a rebalance of the classic protocol, how sure that is, and what else happened in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.groups.classic.facts import GroupFacts
from kafkascope.reports.groups.classic.openings import LATE_NS, SAME_MOMENT_NS, TIMER_NS, Index, Opening
from kafkascope.reports.groups.classic.readings import OpeningReader, Reading
from kafkascope.reports.groups.history import Contributing, Evidence
from kafkascope.reports.groups.leaving import NOT_HERE
from kafkascope.reports.groups.members import Profiles
from kafkascope.reports.groups.strengths import Strength
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import SECOND_NS

# What members do together, when they are told the same or have read the same.
_TOGETHER = frozenset(
    {
        Trigger.COOPERATIVE_FOLLOWUP,
        Trigger.STREAMS_FOLLOWUP,
        Trigger.CONNECT_CONFIG_CHANGED,
        Trigger.SCHEDULED_DELAY,
    }
)
_COMES = frozenset({Trigger.MEMBER_JOINED, Trigger.STATIC_MEMBER_REPLACED})
_GOES = frozenset({Trigger.MEMBER_LEFT, Trigger.UNSUBSCRIBED})  # and where one is stopped, others are
_RECKONED = frozenset({Trigger.SESSION_TIMEOUT, Trigger.REBALANCE_TIMEOUT, Trigger.SYNC_TIMEOUT})
_MOST_EVIDENCE = 50


@dataclass(slots=True)
class Verdict:
    """Why there is a generation."""

    trigger: Trigger
    member_id: str | None
    client_id: str | None
    certainty: Certainty
    started: int | None
    evidence: list[Evidence]
    contributing: list[Contributing]


class Judge:
    """Chooses among the readings of openings of one group."""

    def __init__(self, facts: GroupFacts, index: Index, profiles: Profiles, reader: OpeningReader) -> None:
        self._facts = facts
        self._index = index
        self._profiles = profiles
        self._reader = reader

    def verdict(self, gap: Opening) -> Verdict:
        """The reading that explains the rebalance, and what else happened in it."""
        found = self._reader.readings(gap)
        told = gap.told[0] if gap.told else None
        early = gap.content_until
        evidence: list[Evidence] = []
        fit: list[Reading] = []
        rejected: list[Reading] = []
        for each in found:
            if each.at is not None and early is not None and each.at < early - LATE_NS:
                text = f"{each.text}; but a heartbeat was still good {(early - each.at) / SECOND_NS:.1f} s later"
                evidence.append(Evidence(text, each.packet, each.at, each.weight / 4, each.trigger, rejected=True))
                rejected.append(each)
            else:
                fit.append(each)
        chosen = self._choose(gap, fit, told.at if told else None)
        if chosen is None or chosen.trigger == Trigger.UNKNOWN:
            return self._unknown(gap, fit, evidence)
        others = [each for each in fit if each is not chosen]
        certainty = self._certainty(gap, chosen, others, rejected)
        first = Evidence(chosen.text, chosen.packet, chosen.at, chosen.weight, chosen.trigger)
        evidence = [first, *chosen.about, *evidence]
        if told is not None and told.at >= (chosen.at or 0):
            client = self._client(told.member_id) or told.member_id
            text = f"{client} is the first that is told of the rebalance ({told.error})"
            evidence.append(Evidence(text, told.packet, told.at, Strength.WITHOUT_CHANGE, chosen.trigger))
        contributing = []
        for each in others:
            if each.weight > Strength.AFTERWARDS and each.at is not None:
                contributing.append(Contributing(each.trigger, each.client_id, each.at, each.packet))
            later = each.at is not None and chosen.at is not None and each.at >= chosen.at
            text = each.text + ("; but later" if later else "; but there is a better reading")
            evidence.append(Evidence(text, each.packet, each.at, each.weight / 2, each.trigger, rejected=True))
        started = chosen.at
        if started is None:
            started = min([each.at for each in gap.told] + [join.at for join in gap.joins], default=None)
        return Verdict(
            chosen.trigger,
            chosen.member_id,
            chosen.client_id,
            certainty,
            started,
            evidence[:_MOST_EVIDENCE],
            contributing,
        )

    def _choose(self, gap: Opening, fit: list[Reading], told: int | None) -> Reading | None:
        timed = [each for each in fit if each.at is not None and each.weight > Strength.AFTERWARDS]
        first = timed[0] if timed else None
        hidden = [each for each in fit if each.at is None]
        if gap.began_unseen:
            first = None
        if first is not None and first.at is not None and (told is None or first.at <= told + SAME_MOMENT_NS):
            return first
        moved = self._coordinator_moved(gap)
        if moved is not None:
            return moved
        if hidden:
            return max(hidden, key=lambda each: (each.weight, each.member_id or ""))
        return None  # the group was rebalancing before all that is seen, or nothing is

    def _coordinator_moved(self, gap: Opening) -> Reading | None:
        """Members were sent away by their coordinator and had to join anew at another one."""
        if gap.before is None or gap.begin is None:
            return None
        low, high = bisect_right(self._index.refusals, gap.begin), bisect_left(self._index.refusals, gap.end)
        gone = [each for each in self._facts.refusals[low:high] if each.error in NOT_HERE]
        gone = [each for each in gone if each.at > (gap.content_until or 0)]
        brokers = {join.message.broker for join in gap.joins}
        if not gone or not brokers or gone[0].message.broker in brokers:
            return None
        first = gone[0]
        text = (
            f"{first.api} answered {first.error} by {first.message.broker}; the members joined at {min(brokers)} then"
        )
        client = self._client(first.member_id)
        return Reading(
            Trigger.COORDINATOR_MOVED, first.member_id, client, first.at, first.message.packet, text, Strength.LEFT_OVER
        )

    def _certainty(self, gap: Opening, chosen: Reading, others: list[Reading], rejected: list[Reading]) -> Certainty:
        allows = chosen.weight.allows
        if allows is Certainty.GUESSED or chosen.at is None:
            return Certainty.GUESSED
        if self._may_be_anothers(gap, chosen, others):
            return Certainty.GUESSED
        if chosen.trigger in _RECKONED and any(each.at is None for each in (*others, *rejected)):
            return Certainty.GUESSED  # nothing was said when a timer ran out, and somebody did something out of sight
        if allows is Certainty.LIKELY or (gap.after.inferred and not gap.after.emptied_by):
            return Certainty.LIKELY
        if gap.before is None:
            sure = gap.after.number == 1 and gap.after.complete
        else:
            sure = gap.before.complete and gap.after.complete and gap.after.number == gap.before.number + 1
            sure = sure and (gap.before.answered or gap.before.inferred)
        joined = {join.member_id for join in gap.joins if join.has_request}
        sure = sure and joined.issuperset(gap.after.members)  # else one of them may have begun it out of sight
        # What became of a member is open where a guess at it was wrong: who joins without an id may have been it.
        sure = sure and all(each.weight.allows is not Certainty.GUESSED for each in rejected)
        for each in others:
            if each.at is None:
                sure = False  # it may have been before
            elif each.at < chosen.at + (TIMER_NS if each.trigger in _RECKONED else SAME_MOMENT_NS):
                sure = sure and chosen.proved_first and each.trigger not in _RECKONED
        return Certainty.CERTAIN if sure else Certainty.LIKELY

    def _may_be_anothers(self, gap: Opening, chosen: Reading, others: list[Reading]) -> bool:
        """Whether something else may well have begun it, near it or of what the capture does not have."""
        if chosen.answered_later:
            return True
        over = chosen.taken_over
        if over is not None and any(each.taken_over == over and each.at == chosen.at for each in others):
            return True  # all sessions that a coordinator begins as it loads the group end at once
        if gap.before is None and gap.after.number > 1 and chosen.trigger not in _COMES:
            return True  # a rebalance may have been open when the capture began
        if not self._out_of_sight(gap):
            return False
        return chosen.trigger in _TOGETHER or (chosen.trigger in _GOES and gap.after.inferred)

    def _out_of_sight(self, gap: Opening) -> set[str]:
        """Members of either generation of whom the capture has no word."""
        ids: set[str] = set()
        for generation in (gap.before, gap.after):
            if generation is not None:
                ids |= {*generation.members, generation.leader or ""}
        return {member for member in ids - {""} if member not in self._facts.words}

    def _unknown(self, gap: Opening, fit: list[Reading], evidence: list[Evidence]) -> Verdict:
        for each in fit:
            evidence.append(Evidence(each.text, each.packet, each.at, each.weight / 2, each.trigger, rejected=True))
        first = min([each.at for each in gap.told] + [join.at for join in gap.joins], default=None)
        missing = "nothing in the capture says why: what began it was said on connections or at times that it lacks"
        if unseen := self._out_of_sight(gap):
            names = {self._client(member) or member for member in unseen}
            missing = f"somebody whose traffic is not in this capture began it; it has none of {listed(names)}"
        elif gap.before is None:
            missing = "the generation before it is not in the capture, so what it changed is not known"
        evidence = [Evidence(missing, None, first, Strength.NOTHING, Trigger.UNKNOWN), *evidence]
        contributing = [
            Contributing(each.trigger, each.client_id, each.at, each.packet) for each in fit if each.at is not None
        ]
        return Verdict(Trigger.UNKNOWN, None, None, Certainty.GUESSED, first, evidence[:_MOST_EVIDENCE], contributing)

    def _client(self, member: str) -> str | None:
        return self._profiles.of(member, self._facts.instances.get(member)).client_id
