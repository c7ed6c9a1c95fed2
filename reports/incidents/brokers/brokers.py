"""Brokers that went away, were shut down, or lost their address: what of it is told; with those that stood still."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from kafkascope.reports.columns.name_lists import in_words
from kafkascope.reports.columns.text import address, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers import addresses, quorums, slow_brokers
from kafkascope.reports.incidents.brokers.apart import apart
from kafkascope.reports.incidents.brokers.away import is_off
from kafkascope.reports.incidents.brokers.outage import Outage
from kafkascope.reports.incidents.brokers.outage_costs import LEADERLESS, cost_of
from kafkascope.reports.incidents.brokers.outages import outages, taken_by_proxy, turned_away
from kafkascope.reports.incidents.brokers.replica_waits import FOLLOWS_NS, waited_for_until
from kafkascope.reports.incidents.brokers.returns import BACK
from kafkascope.reports.incidents.brokers.shutdowns import ANNOUNCED
from kafkascope.reports.incidents.brokers.slow_brokers import SlowTime
from kafkascope.reports.incidents.brokers.stalls import (
    at_once,
    at_one_address,
    came_back,
    stalled_there,
    stalled_together,
    stalls_of,
)
from kafkascope.reports.incidents.holes.blackouts import blackouts
from kafkascope.reports.incidents.holes.unseen import touches
from kafkascope.reports.incidents.incident import Incident, Weighed
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import REPLICA_ERRORS, Signs
from kafkascope.reports.incidents.table_rows import Row, between
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS


def incidents(signs: Signs) -> Iterator[Incident]:
    """An incident for each outage; those of one broker that stands still again and again are one."""
    found = signs.once(outages)
    taken = {outage.taken for outage in found}
    for takeover in chain.from_iterable(signs.takeovers.values()):
        if takeover.is_foreign and takeover not in taken:
            yield addresses.taken(signs, takeover)
    by_host: dict[str, list[Outage]] = defaultdict(list)
    for outage in found:
        by_host[outage.host].append(outage)
    without_quorum: set[int] = set()
    for span in quorums.leaderless(signs, found):
        yield quorums.lost(signs, span, [_gone(signs, one) for one in span.outages])
        without_quorum.update(map(id, span.outages))
    for of_host in by_host.values():
        yield from _away(signs, [one for one in of_host if not one.stands_still and id(one) not in without_quorum])
    slow: dict[str, list[SlowTime]] = defaultdict(list)
    for time in slow_brokers.slow_times(signs):
        if time.host is not None and not _is_of_outages(signs, time, by_host.get(time.host, ())):
            slow[time.host].append(time)
        elif time.host is None and not _is_of_replicas(signs, time, found):
            yield slow_brokers.incident(signs, time)
    told: set[int] = set()
    for run in at_once(signs, [one for one in found if one.stands_still], slow):
        yield stalled_together(signs, run)
        told.update(map(id, run))
    for run, beside in at_one_address(signs, [one for one in found if one.stands_still and id(one) not in told]):
        yield stalled_there(signs, run, beside)
        told.update(map(id, run))
    for host in sorted(by_host.keys() | slow.keys()):
        stalls = [one for one in by_host.get(host, ()) if one.stands_still and id(one) not in told]
        yield from stalls_of(signs, stalls, slow.get(host, ()))


def _away(signs: Signs, of_host: Sequence[Outage]) -> Iterator[Incident]:
    """Incidents of one broker that went away: those in which it did again and again, without notice, are one."""
    within = threshold("one_trouble") * SECOND_NS
    crashed = [one for one in of_host if one.gone and one.kind == IncidentKind.BROKER_DOWN and not one.before]
    yield from (_gone(signs, one) for one in of_host if one not in crashed)
    for run in in_runs(crashed, lambda run, one: one.started - (run[-1].ended or one.started) <= within):
        told = [_gone(signs, one) for one in run]
        if len(run) >= threshold("crashes"):
            yield _again_and_again(signs, run, told)
        else:
            yield from told


def _again_and_again(signs: Signs, run: Sequence[Outage], told: Sequence[Incident]) -> Incident:
    """One incident for those of one broker, one soon after the other; what the worst of them cost is told."""
    worst = max(told, key=lambda one: (len(one.effects), one.cost_ms))
    lasted = max(((one.ended or signs.end) - one.started) / MILLISECOND_NS for one in run)
    back = (
        "has not come back since" if run[-1].ended is None else f"was back each time, after {duration(lasted)} at most"
    )
    return replace(
        worst,
        certainty=max((one.certainty for one in told), key=list(Certainty).index),
        started=run[0].started,
        ended=run[-1].ended,
        headline=f"{signs.broker_words(run[0].host, run[0].started)} went away without notice {len(run)} times, from "
        f"{clock(run[0].started)} to {clock(run[-1].started)}, and {back}{outcome(worst.effects)}",
        evidence=tuple(chain.from_iterable(one.evidence for one in told)),
        advice="Its process is started again, and ends again: see in the broker's log, and the host's (out of memory, "
        "kill, disk), what ends it, before it is started once more.",
        cost_ms=sum(one.cost_ms for one in told),
        findings=frozenset().union(*(one.findings for one in told)),
        rebalances=frozenset().union(*(one.rebalances for one in told)),
    )


def _is_of_replicas(signs: Signs, time: SlowTime, found: Sequence[Outage]) -> bool:
    """Whether it is known what writes waited for: brokers that were away, or had trouble with each other."""
    if any(
        row["error"] in REPLICA_ERRORS for row in between(signs.errors, time.since - FOLLOWS_NS, time.until, "first")
    ):
        return True
    if any(time.overlaps(*one) for one in signs.once(apart)):
        return True
    for one in found:
        if one.started <= time.until:
            end = signs.end if one.ended is None else one.ended
            left_out = None if one.ended is not None else waited_for_until(signs, one)
            if time.since <= (end + FOLLOWS_NS if left_out is None else left_out):
                return True
    return False


def _is_of_outages(signs: Signs, time: SlowTime, of_host: Sequence[Outage]) -> bool:
    """Whether a broker was slow as it was about to go, or had just begun, or as it stood still for half of the time."""
    still = 0
    for one in of_host:
        end = signs.end if one.ended is None else one.ended
        if one.gone and one.started <= time.until and time.since <= one.until(signs.end):
            return True
        if one.stands_still:
            still += max(min(end, time.until) - max(one.started, time.since), 0)
    return 2 * still >= time.until - time.since


def _gone(signs: Signs, outage: Outage) -> Incident:
    silence, host = outage.silence, outage.host
    planned, still = bool(outage.orderly), outage.ended is None
    cost, evidence = cost_of(signs, outage), [*_seen_to_go(signs, outage)]
    effects = cost.effects
    if outage.taken is not None:
        evidence += addresses.evidence(outage.taken)
        effects += addresses.met(signs, outage.taken, silence["until"])
    out_of_reach = still and any(effect.what == LEADERLESS for effect in effects)
    if out_of_reach:
        evidence += _alone(signs, outage)
    of_plan = Severity.CRITICAL if out_of_reach else Severity.WARNING if still else Severity.INFO
    told = signs.node(host, outage.started) is not None and not planned  # else nobody would have said that it prepared
    announced = any(seen.weight == ANNOUNCED for seen in outage.orderly)
    return Incident(
        kind=outage.kind,
        severity=of_plan if planned and outage.kind != IncidentKind.ADDRESS_TAKEN else Severity.CRITICAL,
        certainty=Certainty.CERTAIN if announced or (silence["refused"] and told) else Certainty.LIKELY,
        subjects=signs.broker(host, outage.started),
        started=outage.started,
        ended=outage.ended,
        headline=f"{signs.broker_words(host, outage.started)} {_course(signs, outage)}{outcome(effects)}",
        evidence=tuple(evidence),
        advice=_advice(signs, outage, [effect.what for effect in effects]),
        cost_ms=cost.waited_ms,
        effects=effects,
        findings=cost.findings,
        rebalances=cost.rebalances,
    )


def _course(signs: Signs, outage: Outage) -> str:
    """How a broker went, and whether it is back."""
    at = clock(outage.started)
    when = f"at {at}" if outage.missed is None else f"between {at} and {clock(outage.missed)}"
    went = "went away without notice" if _would_have_told(signs, outage) else "went away"
    what = f"was shut down in an orderly way at {at}" if outage.orderly else f"{went} {when}"
    if outage.before:
        what = f"was gone when the capture began, and missed at {at},"
    elif outage.is_cut_off:
        what = f"could not be reached from {at} on"
    asked = signs.once(_asked_last).get(outage.host, outage.started)
    asked = max([asked, *(row["closed"] for row in turned_away(signs, outage.silence))])
    back = "has not come back"
    if signs.end - asked > threshold("awaited") * SECOND_NS and outage.taken is None and not outage.by_its_own:
        tried = "is seen to have tried" if touches(signs, asked, signs.end) else "tried"
        back = f"nobody {tried} it after {clock(asked)}"
    if outage.ended is not None:
        after = duration((outage.ended - outage.started) / MILLISECOND_NS)
        other = signs.told_behind(outage.host, outage.ended) if outage.taken is None else None
        back = f"was back after {after}"
        if other is not None and other != signs.node(outage.host, outage.started):
            back = f"its address answered after {after}, as broker {other.id}"
        elif (since := _done_without(signs, outage)) is not None:
            back = f"its address answered after {after}, though its cluster does without it (told at {clock(since)})"
    if outage.back is not None and (moved := signs.moved_to(outage.host, outage.started)) is not None:
        back += f" at another address ({moved})"
    return f"{what} and {back}" + ("" if outage.taken is None else f": {addresses.words(outage.taken)}")


def _done_without(signs: Signs, outage: Outage) -> int | None:
    """When a cluster took a broker off its list whose address had answered again, and told no more of it; else None.

    Whoever answered, it was not seen to ask others, as a broker does that is back.
    """
    node = signs.node(outage.host, outage.started)
    if node is None or outage.ended is None or outage.taken is not None or outage.silence["back_by"] != "opened":
        return None
    events = [row for row in signs.events_of(node, outage.ended, signs.end + 1) if str(row["node_id"]) == node.id]
    last = next((row for row in reversed(events) if row["event"] in BACK or is_off(row, node)), None)
    is_left = last is not None and is_off(last, node) and last["at"] <= outage.ended + FOLLOWS_NS
    return last["at"] if last is not None and is_left else None


def _would_have_told(signs: Signs, outage: Outage) -> bool:
    """Whether the capture would have that a broker said that it goes: what clusters tell, and that time."""
    soon = int(threshold("blackout") * SECOND_NS)
    hidden = any(
        one.since <= outage.started + soon and outage.started - soon <= one.until for one in signs.once(blackouts)
    )
    return signs.node(outage.host, outage.started) is not None and not hidden


def _asked_last(signs: Signs) -> dict[str, int]:
    """When somebody tried to connect to brokers last, in vain: what became of them later is not known."""
    found: dict[str, int] = {}
    for row in signs.failed_connects:
        where = signs.where(address(row["broker"], row["broker_port"]))
        found[where] = max(found.get(where, 0), row["closed"] or row["opened"] or 0)
    return found


def _seen_to_go(signs: Signs, outage: Outage) -> Iterator[Weighed]:
    """What shows that a broker went away, why, and that it is back."""
    silence = outage.silence
    if outage.before:
        text = "the first connect to it that failed; the capture has no data of it from before"
        yield Weighed(text, silence["failed_packet"], outage.started, 0.6)
    else:
        by_reset = f", {silence['reset']} of them by RST" if silence["reset"] else ""
        last = "the last data of it"
        if (idle := outage.started - silence["since"]) > 0:
            last = f"the first of its connections that it closed, {duration(idle / MILLISECOND_NS)} after its last data"
        text = f"{last}; {counted(silence['ended'], 'connection')} with it ended{by_reset}"
        if not silence["ended"]:
            text = "the last data of it; how its connections ended is not in the capture, and none of them went on"
        if outage.by_its_own:
            many = counted(silence["ended"], "connection")
            text = f"its host closed all its connections to other brokers at once ({many}{by_reset}): its process ended"
            if not silence["ended"]:
                text = "the cluster took it out of service"
        yield Weighed(text, None, outage.started, 0.6)
    if silence["refused"]:
        text = f"{counted(silence['refused'], 'connect')} to it refused: its host is there, and nobody listens"
        yield Weighed(text, silence["failed_packet"], silence["first_failed"], 0.9)
    if outage.gone and (taken := taken_by_proxy(signs, silence)):
        text = f"{counted(len(taken), 'connection')} to it taken, and closed at once without a word: a proxy, it seems"
        yield Weighed(text, taken[0]["connection"], taken[0]["opened"], 0.8)
    if outage.is_cut_off:
        text = (
            f"what it was sent in {counted(silence['asked'], 'tenth')} of a second was not acknowledged: its host "
            "was off, or cut off"
        )
        yield Weighed(text, silence["first_packet"], outage.started, 0.8)
    if silence["unanswered"]:
        text = f"{counted(silence['unanswered'], 'connect')} to it without an answer: its host is off, or cut off"
        yield Weighed(text, silence["failed_packet"], silence["first_failed"], 0.9)
    yield from outage.orderly
    yield from came_back(outage)
    if not outage.orderly and not outage.before:
        text = "a shutdown on request: nothing in the capture announced it, nor moved its leaders before"
        yield Weighed(text, None, None, 0.3, True)


def _advice(signs: Signs, outage: Outage, effects: Sequence[str]) -> str:
    if outage.kind == IncidentKind.ADDRESS_TAKEN:
        return addresses.ADVICE
    still, leaderless = outage.ended is None, LEADERLESS in effects
    if still and leaderless:
        return (
            "Bring this broker back: what has a replica on it alone, or no other one in sync, is out of reach until "
            "then. An election of a replica that is not in sync (kafka-leader-election.sh, unclean) loses what was "
            "confirmed. For the next time: replication.factor 3 with min.insync.replicas 2."
        )
    if outage.orderly and still:
        return (
            "If it was to come back, see in its log why it does not; a setting that is wrong ends it as it starts. "
            "Until it is there, leave the other brokers running: its replicas are missing."
        )
    if outage.orderly and leaderless:
        return (
            "Give what has a replica on this broker alone, or no other one in sync, more of them before it is stopped "
            "once more (kafka-reassign-partitions.sh), and wait until they are in sync: it is out of reach each time."
        )
    if outage.orderly:
        return "Nothing, if this was planned: give each broker time to be in sync again before the next one is stopped."
    if signs.is_controller(outage.host, outage.started):
        return (
            "Look at the controller's log and the host's (out of memory, kill, disk) for that moment. Of three "
            "controllers one may be away, of five two: without a majority no leader moves, no topic changes and no "
            "broker starts."
        )
    taken = "Something takes connections in its place, as a proxy or a load balancer does: see what is behind it. "
    return (
        f"{taken if taken_by_proxy(signs, outage.silence) else ''}"
        "Look at the broker's log and the host's (out of memory, kill, disk) for that moment. To ride it out: "
        "replication.factor 3 with min.insync.replicas 2, and clients that have all brokers in bootstrap.servers."
    )


def _alone(signs: Signs, outage: Outage) -> Iterator[Weighed]:
    """What shows that nobody else may lead a broker's partitions: it was the last of their replicas in sync."""
    node = signs.node(outage.host, outage.started)
    since: dict[str, Row] = {}
    for row in signs.events_of(node, 0, outage.started + 1):
        for partition in row["partitions"] or () if row["event"] in ("isr_shrunk", "isr_grown") else ():
            since.pop(partition, None)
            if node is not None and row["after"] == node.id:
                since[partition] = row
    if since:
        first = min(since.values(), key=lambda row: row["at"])
        text = f"it alone was in sync of {in_words(since, 6)} before: replicas on others may not lead"
        yield Weighed(text, first["packet"], first["at"], 0.5)
