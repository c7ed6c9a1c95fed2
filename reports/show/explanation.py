"""One rebalance in words: what set it off, how one knows, who took part, what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kafkascope.reports.columns.name_lists import in_words
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, day_and_clock, duration, in_milliseconds
from kafkascope.reports.groups.history import Evidence, Member, Rebalance
from kafkascope.reports.incidents.incident import Incident
from kafkascope.reports.vocabulary.incident_kinds import INCIDENT_KINDS
from kafkascope.reports.vocabulary.triggers import TRIGGERS, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS


def explain(rebalance: Rebalance) -> str:
    """A rebalance in words, as they are shown to people."""
    return "\n".join(map(shown_text, _lines(rebalance)))


def explain_incident(incident: Incident) -> str:
    """An incident in words, as they are shown to people: what broke, what it cost, how one knows, what to do."""
    return "\n".join(map(shown_text, _lines_of_incident(incident)))


def _lines_of_incident(one: Incident) -> Iterator[str]:
    yield f"{one.severity}: {one.what} ({one.certainty})"
    until = "not over when the capture ended" if one.ended is None else f"until {day_and_clock(one.ended)}"
    yield f"From {day_and_clock(one.started)}, {until}: {INCIDENT_KINDS[one.kind]}."
    if one.effects:
        yield ""
        yield "What came of it:"
        for effect in one.effects:
            yield f"    {effect.text}"
    yield ""
    yield "How one knows:"
    for seen in sorted((one for one in one.evidence if not one.rejected), key=lambda seen: seen.at or 0):
        yield f"  + {_clock(seen.at)} {_packet(seen.packet)}{seen.text} (weight {seen.weight:.2f})"
    for seen in one.evidence:
        if seen.rejected:
            yield f"  - {_clock(seen.at)} {_packet(seen.packet)}rejected: {seen.text} (weight {seen.weight:.2f})"
    if one.findings or one.rebalances:
        told = [f"{group} → {generation}" for group, generation in sorted(one.rebalances)]
        yield ""
        yield f"It explains {counted(len(one.findings), 'finding')}" + (
            f" and rebalances {', '.join(told)}" if told else ""
        )
    yield ""
    yield f"What to do: {one.advice}"


def _lines(rebalance: Rebalance) -> Iterator[str]:
    before = rebalance.from_generation
    word = "generation" if rebalance.protocol in ("classic", "connect") else "epoch"
    path = f"{before} → {rebalance.to_generation}" if before is not None else f"{rebalance.to_generation}"
    kind = f"{rebalance.protocol} protocol" + (f", assignor {rebalance.assignor}" if rebalance.assignor else "")
    yield f"Group {rebalance.group_id}, {word} {path} ({kind})"
    if rebalance.inferred:
        yield f"No message in the capture names this {word}: it is inferred from what happened."
    yield ""
    who = f", {rebalance.trigger_client_id}" if rebalance.trigger_client_id else ""
    yield f"Trigger: {rebalance.trigger}{who} ({rebalance.certainty}): {_meaning(rebalance.trigger)}"
    later = {(other.trigger, other.packet) for other in rebalance.contributing or []}
    # What came while the rebalance was open is told below, not as a reading that was turned down.
    yield from _evidence(
        [
            one
            for one in rebalance.evidence or []
            if not one.rejected or one.packet is None or (one.trigger, one.packet) not in later
        ],
        rebalance.trigger,
    )
    if rebalance.contributing:
        yield "While it was open:"
        for other in rebalance.contributing:
            whose = f", {other.client_id}" if other.client_id else ""
            yield f"    {_clock(other.at)} {_packet(other.packet)}{other.trigger}{whose}: {_meaning(other.trigger)}"
    yield ""
    yield from _course(rebalance)
    yield ""
    if rebalance.members:
        yield from _members(rebalance.members, rebalance.leader, rebalance.started)
    else:
        yield "Its members are not known." if rebalance.stable is None else "No members."
    yield from _cost(rebalance)


def _evidence(evidence: Sequence[Evidence], trigger: str) -> Iterator[str]:
    for one in evidence:
        if not one.rejected:
            yield f"  + {_clock(one.at)} {_packet(one.packet)}{one.text} (weight {one.weight:.2f})"
    for one in evidence:
        if one.rejected:
            yield f"  - not {one.trigger}: {_packet(one.packet)}{one.text} (weight {one.weight:.2f})"
    if not any(not one.rejected for one in evidence) and trigger == Trigger.UNKNOWN:
        yield "  nothing in the capture tells"


def _course(rebalance: Rebalance) -> Iterator[str]:
    started = rebalance.started
    yield f"Started   {day_and_clock(started) or 'unknown'}"
    for name, title in (("joined", "Joined"), ("stable", "Stable"), ("recovered", "Recovered")):
        if (at := getattr(rebalance, name)) is not None:
            after = f"  after {in_milliseconds((at - started) / MILLISECOND_NS)}" if started is not None else ""
            yield f"{title:<9} {day_and_clock(at)}{after}"
    if rebalance.stable is None:
        yield "It never became stable, as far as the capture shows."
    if rebalance.last_client_id and rebalance.last_by_ms:
        yield f"Last was {rebalance.last_client_id}, {in_milliseconds(rebalance.last_by_ms)} after the one before it."


def _members(members: Sequence[Member], leader: str | None, started: int | None) -> Iterator[str]:
    yield f"{counted(len(members), 'member')}:"
    for member in members:
        who = member.client_id or member.member_id or "?"
        software = " ".join(filter(None, (member.software, member.software_version)))
        facts = [member.host, software, f"instance {member.instance_id}" if member.instance_id else None]
        if member.member_id == leader:
            facts.append("leader")
        if started is not None and member.joined is not None:
            since = (member.joined - started) / MILLISECOND_NS
            facts.append(f"joined {since:+,.0f} ms" if since >= 0 else f"a member for {duration(-since)}")
        if member.sync_ms is not None:
            facts.append(f"assignment after {in_milliseconds(member.sync_ms)}")
        known = ", ".join(str(fact) for fact in facts if fact)
        yield f"  {who}: {known}" if known else f"  {who}"
        now, before = member.assignment, member.assignment_before
        yield f"      has {_partitions(now)}" + (
            "" if before is None or before == now else f", had {_partitions(before)}"
        )


def _cost(rebalance: Rebalance) -> Iterator[str]:
    if rebalance.moved:
        yield f"Moved: {_partitions(rebalance.moved)}"
    if rebalance.unowned:
        longest = in_milliseconds(max(one.ms for one in rebalance.unowned))
        yield f"Without owner: {counted(len(rebalance.unowned), 'partition')}, the longest for {longest}"
    if rebalance.reread_records:
        yield f"Read a second time: {counted(rebalance.reread_records, 'record')}"


def _clock(at: int | None) -> str:
    return clock(at) or " " * len("00:00:00.000")


def _packet(packet: int | None) -> str:
    return f"packet {packet}: " if packet else ""


def _partitions(names: Iterable[str] | None) -> str:
    return "unknown" if names is None else in_words(names) or "nothing"


def _meaning(trigger: str) -> str:
    return TRIGGERS[trigger].meaning if trigger in TRIGGERS else "no meaning is known"
