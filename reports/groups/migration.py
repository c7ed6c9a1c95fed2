"""Groups whose members speak the classic protocol, one with epochs, or first the one and then the other (KIP-848).

A classic group becomes one with epochs when the first member joins with a heartbeat, and its generation goes on as the
epoch; classic members then rejoin one by one, and JoinGroup tells them no leader. It becomes a classic group again when
the last member that sends such heartbeats is gone and classic ones are left; the epoch goes on as the generation.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from reports.groups.classic import classic
from reports.groups.epochs import epochs
from reports.groups.heartbeats import CLASSIC_APIS, EPOCH_APIS, JOINS
from reports.groups.history import Evidence, GroupHistory, GroupLog, Rebalance
from reports.groups.messages import Message

_CLASSIC, _EPOCHS = "classic", "epochs"
_MS = 1_000_000


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
    for phase in phases:
        found = _history(log, phase, before)
        if before is not None:
            _join(history.rebalances, found.rebalances, phase)
        history.events += found.events
        history.rebalances += found.rebalances
        before = phase
    return history


def _history(log: GroupLog, phase: Phase, before: Phase | None) -> GroupHistory:
    if phase.kind == _CLASSIC:
        return classic(dataclasses.replace(log, messages=phase.messages))
    if before is None:
        return epochs(dataclasses.replace(log, messages=phase.messages))
    # Who was a member, and had what, is known from the classic group before.
    return epochs(dataclasses.replace(log, messages=before.messages + phase.messages), phase.begin)


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
    if message.api == "JoinGroup" and (message.response.get("generationId") or -1) > 0:
        return _CLASSIC if message.response.get("leader") else _EPOCHS
    return None


def _join(earlier: list[Rebalance], later: list[Rebalance], phase: Phase) -> None:
    """Where the group changed its kind, both sides may tell of the same rebalance: keep what each knows of it."""
    if not earlier or not later:
        return
    known, first = earlier[-1], later[0]
    if known.to_generation != first.to_generation or not known.inferred:
        return
    earlier.pop()
    if phase.kind == _EPOCHS or known.trigger == "unknown":
        return
    first.from_generation = known.from_generation
    first.started, first.trigger, first.certainty = known.started, known.trigger, known.certainty
    first.trigger_member, first.trigger_client_id = known.trigger_member, known.trigger_client_id
    text = "the last member with epochs went: the group became a classic one"
    first.evidence = [*known.evidence, Evidence(text, None, phase.begin, 0.9, known.trigger)]
    before = {member.member_id: member.assignment_before for member in known.members}
    for member in first.members:
        if member.assignment_before is None:
            member.assignment_before = before.get(member.member_id)
    if first.started is not None and first.stable is not None:
        first.duration_ms = (first.stable - first.started) / _MS
    if first.started is not None and first.recovered is not None:
        first.cost_ms = (first.recovered - first.started) / _MS
