"""Groups whose members speak the classic protocol, one with epochs, or first the one and then the other (KIP-848).

A classic group becomes one with epochs when the first member joins with a heartbeat, and its generation goes on as the
epoch; classic members then rejoin one by one, and JoinGroup tells them no leader. It becomes a classic group again when
the last member that sends such heartbeats is gone and classic ones are left; the epoch goes on as the generation.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass, field
from itertools import zip_longest

from kafkascope.reports.groups.classic.history import classic
from kafkascope.reports.groups.epochs.heartbeats import CLASSIC, CLASSIC_APIS, EPOCH_APIS, JOINS
from kafkascope.reports.groups.epochs.history import history_of, walks_of
from kafkascope.reports.groups.epochs.lives import Life
from kafkascope.reports.groups.epochs.walk import Walk
from kafkascope.reports.groups.history import Evidence, GroupHistory, GroupLog, Rebalance
from kafkascope.reports.groups.messages import Message
from kafkascope.reports.groups.strengths import Strength
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS

_LOG = logging.getLogger(__name__)

_CLASSIC, _EPOCHS = "classic", "epochs"


@dataclass(slots=True)
class Phase:
    """A time in which a group was of one kind. Times are ns; the end is where the next one begins."""

    kind: str
    begin: int | None = None
    end: int | None = None
    messages: list[Message] = field(default_factory=list)


def by_protocol(log: GroupLog) -> GroupHistory:
    """Events of members and rebalances of a group of any protocol."""
    phases = phases_of(log)
    history = GroupHistory()
    before: Phase | None = None
    walk: Walk | None = None  # through the phase before, if that had epochs
    for phase, following in zip_longest(phases, phases[1:]):
        later = following.messages if following is not None else ()
        if _LOG.isEnabledFor(logging.DEBUG):
            ends = (each.packet for message in phase.messages for each in (message, message.last))
            packets = sorted(packet for packet in ends if packet)
            place = f"packets {packets[0]} to {packets[-1]}" if packets else "no packets"
            _LOG.debug("group %s: a phase of kind %s, %s", log.group_id, phase.kind, place)
        if phase.kind == _CLASSIC:
            found = classic(dataclasses.replace(log, messages=phase.messages, later=later))
            if before is not None and walk is not None:
                _downgraded(history.rebalances, found.rebalances, walk, before)
            walk = None
        else:
            # Who was a member, and had what, is known from the classic group before.
            messages = phase.messages if before is None else before.messages + phase.messages
            of_phase = dataclasses.replace(log, messages=messages, later=later)
            walks = walks_of(of_phase, None if before is None else phase.begin)
            found, walk = history_of(walks, of_phase), walks[-1]
            _upgraded(history.rebalances, found.rebalances)
        history.events += found.events
        history.rebalances += found.rebalances
        before = phase
    return history


def phases_of(log: GroupLog) -> list[Phase]:
    """The group's times as a classic one and as one with epochs, in order, each with its messages."""
    used = {message.api for message in log.messages}
    if not used & EPOCH_APIS.keys():
        return [Phase(_CLASSIC, messages=log.messages)]
    if not used & CLASSIC_APIS:
        return [Phase(_EPOCHS, messages=log.messages)]
    phases = _borders(log.messages)
    place = 0
    for message in log.messages:
        while place + 1 < len(phases) and message.at >= (phases[place + 1].begin or 0):
            place += 1
        phases[place].messages.append(message)
    return phases


def _borders(messages: list[Message]) -> list[Phase]:
    phases: list[Phase] = []
    consumers: set[str] = set()  # members that send heartbeats with epochs
    emptied: int | None = None  # when the last of them left
    for message in sorted(messages, key=lambda each: (each.answered or each.at, each.packet or 0)):
        kind = _kind(message)
        if kind is None:
            continue
        begin = message.at
        if message.api in EPOCH_APIS:
            member = message.request.get("memberId") or message.response.get("memberId") or ""
            if (message.request.get("memberEpoch") or 0) < JOINS:
                consumers.discard(member)
                # From here on it is a classic group, if classic members are left; at the end of this request.
                emptied = None if consumers else message.at + 1
            else:
                consumers.add(member)
                emptied = None
        elif kind == _CLASSIC and emptied is not None:
            begin = emptied
        if not phases or phases[-1].kind != kind:
            if phases:
                begin = max(begin, (phases[-1].begin or 0) + 1)
                phases[-1].end = begin
            phases.append(Phase(kind, begin if phases else None))
    return phases or [Phase(_CLASSIC)]


def _kind(message: Message) -> str | None:
    """What a message says of the kind of the group; None if nothing."""
    if message.error is not None:
        return None
    if message.api in EPOCH_APIS:
        return _EPOCHS if message.answered is not None or (message.request.get("memberEpoch") or 0) < JOINS else None
    if message.api == "JoinGroup" and (message.response.get("generationId") or 0) > 0:
        return _CLASSIC if message.response.get("leader") else _EPOCHS
    return None


def _upgraded(earlier: list[Rebalance], later: list[Rebalance]) -> None:
    """A generation of the classic group that nobody got to is the first epoch: the broker began it anew."""
    if earlier and later and earlier[-1].inferred and earlier[-1].to_generation == later[0].to_generation:
        earlier.pop()


def _downgraded(earlier: list[Rebalance], later: list[Rebalance], walk: Walk, phase: Phase) -> None:
    """The first generation of the classic group comes of the last member with epochs, that went."""
    if not later:
        return
    first = later[0]
    known = (
        earlier[-1] if earlier and earlier[-1].to_generation == first.to_generation and earlier[-1].inferred else None
    )
    if known is not None:
        earlier.pop()
        if known.trigger != Trigger.UNKNOWN:
            first.started, first.trigger, first.certainty = known.started, known.trigger, known.certainty
            first.trigger_member, first.trigger_client_id = known.trigger_member, known.trigger_client_id
            first.evidence = known.evidence
    elif (
        first.to_generation == (walk.epoch or 0) + 1
        and first.certainty != Certainty.CERTAIN
        and (gone := _silent(walk, phase)) is not None
    ):
        first.trigger, first.certainty = Trigger.SESSION_TIMEOUT, Certainty.LIKELY
        first.trigger_member, first.trigger_client_id = gone.member_id, gone.client_id
        text = f"{gone.name}, the last member with epochs, had said nothing more"
        first.evidence = [
            Evidence(text, gone.heard_packet, gone.silent_since(), Strength.DUE, Trigger.SESSION_TIMEOUT),
            *(dataclasses.replace(each, rejected=True) for each in first.evidence),
        ]
    else:
        return
    text = "no member with epochs was left: the group became a classic one"
    first.evidence.append(Evidence(text, None, phase.end, Strength.FITS, first.trigger))
    first.from_generation = first.to_generation - 1
    before = {life.member_id: life.had((phase.end or walk.last) - 1) for life in walk.lives}
    for member in first.members:
        had = before.get(member.member_id)
        if member.assignment_before is None and had is not None:
            member.assignment_before = sorted(had)
    if first.started is not None and first.stable is not None:
        first.duration_ms = (first.stable - first.started) / MILLISECOND_NS
    if first.started is not None and first.recovered is not None:
        first.cost_ms = (first.recovered - first.started) / MILLISECOND_NS


def _silent(walk: Walk, phase: Phase) -> Life | None:
    """The member with epochs that was heard last, if only one was left and was silent when the group became classic."""
    left = [life for life in walk.alive.values() if life.protocol != CLASSIC and life.spoke]
    until = phase.end or walk.last
    if len(left) != 1 or until - left[0].silent_since() <= left[0].silent_after():
        return None
    return left[0]
