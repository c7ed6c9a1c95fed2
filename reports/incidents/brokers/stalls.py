"""Brokers that stood still: what of it is told, of one or of several at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address_alone, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers import slow_brokers
from kafkascope.reports.incidents.brokers.outage import Outage
from kafkascope.reports.incidents.brokers.outage_costs import cost_of, of_requests
from kafkascope.reports.incidents.brokers.returns import BACK
from kafkascope.reports.incidents.brokers.slow_brokers import SlowTime
from kafkascope.reports.incidents.holes.blackouts import hush
from kafkascope.reports.incidents.incident import Incident, Weighed
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_ADVICE_BROKER = "If it lasts longer than broker.session.timeout.ms, the broker loses its leaders."
_ADVICE_CONTROLLER = (
    "Meanwhile no leader moves, no topic changes and no producer gets an id that brokers do not have in stock; another "
    "controller takes over, if there are three, after controller.quorum.fetch.timeout.ms."
)
_AT_ONCE_NS = SECOND_NS // 4  # stalls are known by tenths of a second
_BACK_WORDS = {
    "kept": "data on a connection from before",
    "opened": "data on a connection that was opened meanwhile",
    "as_client": "data that it sent to another broker, as a client of it",
}


def stalls_of(signs: Signs, stalls: Sequence[Outage], slow: Sequence[SlowTime]) -> Iterator[Incident]:
    """Incidents of one broker that stood still, and was slow."""
    alone = [one for one in stalls if not any(_is_part(one, time) for time in slow)]
    within = threshold("one_trouble") * SECOND_NS
    for run in in_runs(alone, lambda run, one: one.started - (run[-1].ended or 0) <= within):
        yield _stalled(signs, run)
    for time in slow:
        yield slow_brokers.incident(signs, time, [one.silence for one in stalls if _is_part(one, time)])


def at_once(
    signs: Signs, stalls: Sequence[Outage], slow: Mapping[str, Sequence[SlowTime]]
) -> Iterator[Sequence[Outage]]:
    """Stalls of several brokers from one moment to another in which nobody else spoke either: one befell all."""
    quiet = [
        one
        for one in stalls
        if not one.by_its_own
        and not any(_is_part(one, time) for time in slow.get(one.host, ()))
        and _all_quiet(signs, one)
    ]

    def is_one(run: Sequence[Outage], one: Outage) -> bool:
        ends = [each.ended or signs.end for each in (run[0], one)]
        return one.silence["since"] - run[0].silence["since"] <= _AT_ONCE_NS and abs(ends[1] - ends[0]) <= _AT_ONCE_NS

    for run in in_runs(sorted(quiet, key=lambda one: (one.silence["since"], one.host)), is_one):
        if len({one.address for one in run}) > 1:
            yield run


def at_one_address(signs: Signs, stalls: Sequence[Outage]) -> Iterator[tuple[Sequence[Outage], list[Row]]]:
    """Stalls at one address from one moment to another, and silences of others there in which somebody waited as well.

    One befell all: what is there is a proxy, or forwards ports, or is the machine of all of them.
    """
    by_address: dict[str, list[Outage]] = defaultdict(list)
    for one in stalls:
        if one.address != one.host and not one.by_its_own:
            by_address[one.address].append(one)
    for of_address in by_address.values():
        for run in in_runs(of_address, lambda run, one: _is_as_long(signs, run[0], one.silence)):
            hosts = {one.host for one in run}
            beside = [
                row
                for row in signs.silences
                if row["waiting"]
                and row["host"] not in hosts
                and address_alone(row["host"]) == run[0].address
                and _is_as_long(signs, run[0], row)
            ]
            if len(hosts) > 1 or beside:
                yield run, beside


def _is_as_long(signs: Signs, stall: Outage, silence: Row) -> bool:
    """Whether somebody was silent from the same moment to the same."""
    ends = [row["until"] or signs.end for row in (stall.silence, silence)]
    begins = [row["since"] for row in (stall.silence, silence)]
    return bool(max(abs(begins[1] - begins[0]), abs(ends[1] - ends[0])) <= _AT_ONCE_NS)


def _is_part(stall: Outage, time: SlowTime) -> bool:
    """Whether a broker stood still while it was slow anyway."""
    return time.since <= stall.started <= time.until or (
        stall.ended is not None and time.since <= stall.ended <= time.until
    )


def _stalled(signs: Signs, run: Sequence[Outage]) -> Incident:
    """Stalls of one broker, one soon after the other."""
    worst = max(run, key=lambda one: (one.lasted_ms, -one.started))
    lasted = worst.lasted_ms
    acknowledged = any(one.silence["acknowledged"] for one in run)
    unheard = any(one.silence["asked"] for one in run) and all(one.silence["acknowledged"] == 0 for one in run)
    quiet = _all_quiet(signs, worst)
    sure = acknowledged and not quiet and worst.silence["waiting_connections"] > 1
    again = _again_and_again(signs, run)
    times = "" if len(run) == 1 else f" {len(run)} times,{f' {duration(again)} in all,' if again else ''} the longest"
    host_was = ", though its host acknowledged what it was sent" if acknowledged else ""
    if unheard:
        host_was = ", nor acknowledged what it was sent: it stood still with its host, or was cut off"
    did = "asked no other broker for what it replicates" if worst.by_its_own else "answered nobody"
    costs = [cost_of(signs, one) for one in run]
    effects = costs[run.index(worst)].effects
    return Incident(
        kind=IncidentKind.BROKER_STALLED,
        severity=Severity.WARNING if again or lasted >= threshold("stall") * 1000 else Severity.INFO,
        certainty=Certainty.CERTAIN if sure else Certainty.GUESSED if unheard or quiet else Certainty.LIKELY,
        subjects=signs.broker(worst.host),
        started=run[0].started,
        ended=run[-1].ended,
        headline=f"{signs.broker_words(worst.host)} {did}{times} for {duration(lasted)} from "
        f"{clock(worst.started)} on{host_was}" + outcome(effects),
        evidence=(
            *chain.from_iterable(map(_waited, run)),
            *_seen_to_stall(worst, acknowledged, unheard, quiet),
        ),
        advice="Look at that moment on its host: a pause of garbage collection, a disk that stalled (iostat, "
        "dmesg), a virtual machine that was stopped or moved. "
        + (_ADVICE_CONTROLLER if signs.is_controller(worst.host, worst.started) else _ADVICE_BROKER),
        cost_ms=sum(cost.waited_ms for cost in costs),
        effects=effects,
        findings=frozenset().union(*(cost.findings for cost in costs)),
        rebalances=frozenset().union(*(cost.rebalances for cost in costs)),
    )


def _again_and_again(signs: Signs, run: Sequence[Outage]) -> float:
    """For how many milliseconds a broker stood still in all, if it did for most of a time; else 0."""
    in_all = sum(one.lasted_ms for one in run)
    lasted = ((run[-1].ended or signs.end) - run[0].started) / MILLISECOND_NS
    mostly = 100 * in_all >= threshold("slow_share") * lasted and in_all >= 1000 * threshold("stall")
    return in_all if mostly and len(run) >= threshold("stalls") else 0


def stalled_together(signs: Signs, run: Sequence[Outage]) -> Incident:
    """One incident for several brokers: of what they run on, or of where the capture was made."""
    told = [_stalled(signs, [one]) for one in run]
    lasted = max(one.lasted_ms for one in run)
    waiting = sum(one.silence["waiting"] for one in run)
    clients = {name for one in run for name in one.silence["waiting_clients"] or ()}
    others = [effect for one in told for effect in one.effects if effect.what != "requests"]
    effects = (of_requests(waiting, clients, lasted), *dict.fromkeys(others)) if waiting else (*others,)
    quiet = duration(max(_all_quiet(signs, one) for one in run) / MILLISECOND_NS)
    text = f"nobody else sent anything for {quiet} of it either: all may be on one machine, which stood still"
    subjects = sorted((subject for one in told for subject in one.subjects), key=lambda one: one.role != Role.BROKER)
    names = [signs.broker_words(one.host) for one in run]
    seen = [
        replace(each, text=f"{name}: {each.text}")
        for name, one in zip(names, told, strict=True)
        for each in one.evidence
        if not each.rejected
    ]
    return replace(
        told[0],
        severity=Severity.WARNING if Severity.WARNING in {one.severity for one in told} else Severity.INFO,
        certainty=Certainty.GUESSED,
        subjects=tuple(subjects),
        ended=None if any(one.ended is None for one in run) else max(one.ended or 0 for one in run),
        headline=f"{listed(names)} answered nobody for {duration(lasted)} from "
        f"{clock(run[0].started)} on, all at once, and for {quiet} of it nobody else sent anything" + outcome(effects),
        evidence=(
            *seen,
            Weighed(text, None, run[0].started, 0.5),
            Weighed("the clock of the capture was set, or its host stood still", None, None, 0.3, True),
        ),
        advice="Look at what these brokers run on, at that moment: one machine or hypervisor that was stopped or "
        "moved, that had no CPU or memory left, or whose disk stalled. If each is on a machine of its own, see whether "
        "the host of the capture stood still, or its clock was set: then nothing was wrong with them.",
        cost_ms=max(one.cost_ms for one in told),
        effects=effects,
        findings=frozenset().union(*(one.findings for one in told)),
        rebalances=frozenset().union(*(one.rebalances for one in told)),
    )


def stalled_there(signs: Signs, run: Sequence[Outage], beside: Sequence[Row]) -> Incident:
    """One incident for all at an address that stood still at once."""
    worst = max(run, key=lambda one: one.lasted_ms)
    told = _stalled(signs, [worst])
    hosts = sorted({one.host for one in run} | {row["host"] for row in beside})
    rows = [*(one.silence for one in run), *beside]
    names = {name for row in rows for name in row["waiting_clients"] or ()}
    subjects = dict.fromkeys(subject for host in hosts for subject in signs.broker(host, worst.started))
    effects = (
        of_requests(sum(row["waiting"] for row in rows), names, worst.lasted_ms),
        *(effect for effect in told.effects if effect.what != "requests"),
    )
    return replace(
        told,
        subjects=tuple(sorted(subjects, key=lambda one: one.role != Role.BROKER)),
        headline=f"{listed([signs.broker_words(host, worst.started) for host in hosts])} answered nobody for "
        f"{duration(worst.lasted_ms)} from {clock(worst.started)} on, all at once, and all are at {worst.address}"
        + outcome(effects),
        evidence=(
            *told.evidence[:1],
            *(
                Weighed(
                    f"{signs.broker_words(row['host'], row['since'])} said nothing in that time either, though "
                    f"{counted(row['waiting'], 'request')} waited",
                    row["first_packet"],
                    row["since"],
                    0.8,
                )
                for row in rows
                if row is not worst.silence
            ),
            *told.evidence[1:],
        ),
        advice=f"Look at what {worst.address} is, at that moment: a proxy or load balancer, a host that forwards "
        "ports, or the machine that these brokers run on. If they run elsewhere, nothing was wrong with them.",
        effects=effects,
    )


def _all_quiet(signs: Signs, stall: Outage) -> int:
    """For how long (ns) nobody else spoke in a stall either, if it may be no broker's therefore; 0: it is one's."""
    quiet = hush(signs, stall.started, stall.ended or signs.end)
    half = stall.silence["duration_ms"] * MILLISECOND_NS / 2
    return quiet if quiet >= (half if _stall_beside(signs, stall) else threshold("all_quiet") * SECOND_NS) else 0


def _stall_beside(signs: Signs, stall: Outage) -> bool:
    """Whether another broker kept somebody waiting from the same moment to the same: it may be what all run on."""
    ended = stall.ended or signs.end
    return any(
        row["waiting"]
        and address_alone(row["host"]) != stall.address
        and abs(row["since"] - stall.silence["since"]) <= _AT_ONCE_NS
        and abs((row["until"] or signs.end) - ended) <= _AT_ONCE_NS
        for row in signs.silences
    )


def _waited(stall: Outage) -> Iterator[Weighed]:
    silence = stall.silence
    lasted = duration(silence["duration_ms"])
    text = (
        f"nothing from it on any connection of the capture for {lasted}, while "
        f"{counted(silence['waiting'], 'request')} of {listed(silence['waiting_clients'])} waited on "
        f"{counted(silence['waiting_connections'], 'connection')}"
    )
    if stall.by_its_own:
        text = f"no data from it on any connection to another broker for {lasted}"
    yield Weighed(text, silence["first_packet"], stall.started, 0.7)
    if stall.unfetched:
        lasted = duration(stall.unfetched / MILLISECOND_NS)
        text = f"other brokers had answered its fetches, and it made no other for {lasted}: it waited for none of them"
        yield Weighed(text, None, stall.started, 0.8)


def _seen_to_stall(worst: Outage, acknowledged: bool, unheard: bool, quiet: int) -> Iterator[Weighed]:
    """What shows that it was the broker, and not the network, nor the capture: quiet is how long (ns) nobody spoke."""
    yield from came_back(worst)
    if acknowledged:
        text = "its host acknowledged what it was sent meanwhile: the network and the kernel were well"
        yield Weighed(text, None, worst.started, 0.9)
        yield Weighed("the network: nothing would have been acknowledged", None, None, 0.1, True)
    elif unheard:
        yield Weighed("the network: what was sent to it was not acknowledged either", None, None, 0.5, True)
    if quiet:
        text = (
            f"nobody else sent anything for {duration(quiet / MILLISECOND_NS)} of it either: all may be on one "
            "machine, which slept, or the clock of the capture was set"
        )
        yield Weighed(text, None, None, 0.5, True)


def came_back(outage: Outage) -> list[Weighed]:
    """What came of a broker first when its silence was over."""
    by, connection = outage.silence["back_by"], outage.silence["back_connection"]
    if (row := outage.back) is not None:
        return [Weighed(f"{BACK[row['event']]} (told by {row['told_by']})", row["packet"], row["at"], 0.6)]
    if by is None or outage.ended is None:
        return []
    text = f"what came of it first again: {_BACK_WORDS[by]} (connection {connection})"
    return [Weighed(text, None, outage.ended, 0.3)]
