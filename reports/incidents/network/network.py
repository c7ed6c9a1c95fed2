"""Packets that are lost, and packets that take long: from what TCP itself had to do about it."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import moment
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address_alone, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.brokers.replication import HeldUp, held_up_between
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, every
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.network.cut_off import CutOff, cut_off
from kafkascope.reports.incidents.network.vanished import Unheard, Vanished, heard_at_last, sent_again, vanished
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import SPAN_NS, Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_PAIR = ["client", "broker"]
_Hosts = tuple[str, str]
_Seen = TypeVar("_Seen")
_RTO_MS = 200.0  # the least that Linux waits for an acknowledgement before it sends again (RFC 6298 says a second)


@dataclass
class Path:
    """What two hosts sent each other in ten seconds, both directions."""

    at: int = 0  # begin of the ten seconds
    packets: int = 0
    retransmits: int = 0
    repaired: int = 0  # signs that the receiver missed something: duplicate acks, SACK'd gaps, fast retransmits
    timeouts: int = 0
    trips: dict[str, tuple[int, int, float]] = field(default_factory=dict)  # by sender: number, sum (µs), longest (ms)
    first: int = sys.maxsize
    last: int = 0


def _paths(spans: pa.Table, chosen: pa.Table) -> dict[tuple[str, str], dict[int, Path]]:
    """By client's and broker's address, and span: of the pairs of them that are chosen."""
    found: dict[tuple[str, str], dict[int, Path]] = defaultdict(lambda: defaultdict(Path))
    for row in spans.join(chosen.select(_PAIR), _PAIR, join_type="left semi").to_pylist():
        path = found[row["client"], row["broker"]][row["at"]]
        path.at = row["at"]
        path.packets += row["packets"]
        path.retransmits += row["retransmits"] - row["spurious_retransmits"] - row["retransmits_to_closed"]
        path.timeouts += row["timeout_retransmits"]
        path.repaired += row["duplicate_acks"] + row["sacked_gaps"] + row["fast_retransmits"]
        if row["rtt_samples"]:
            path.trips[row["sender"]] = row["rtt_samples"], row["rtt_us"], row["rtt_max_ms"]
        if row["first"] is not None:
            path.first, path.last = min(path.first, row["first"]), max(path.last, row["last"])
    return found


def lossy(signs: Signs) -> dict[tuple[str, str], list[Path]]:
    """Pairs of hosts between which a share of packets has to be sent again, and receivers say that they missed some.

    Where the capture has one direction alone, what is sent again may be so because nobody is there; and without what
    does nothing but acknowledge, nobody can say that it was sent again for nothing. But not if its receiver missed
    something.
    """
    if (counted_spans := signs.health_spans) is None:
        return {}
    again = counted_spans.group_by(_PAIR).aggregate([("retransmits", "sum")])
    chosen = again.filter(pc.greater_equal(again["retransmits_sum"], threshold("lost_packets")))
    found: dict[tuple[str, str], list[Path]] = {}
    gone: dict[_Hosts, list[Unheard]] = defaultdict(list)
    for one in _told_otherwise(signs) if chosen.num_rows else ():
        gone[one.client, address_alone(one.broker)].append(one)
    for pair, spans in _paths(counted_spans, chosen).items():
        if pair[0] == pair[1]:
            continue
        bad = [spans[at] for at in sorted(spans) if _loses(spans[at]) and not _in_vain(spans[at], gone.get(pair, ()))]
        if sum(path.retransmits for path in bad) >= threshold("lost_packets"):
            found[pair] = bad
    between_them = signs.connections_between(found.keys()) if found else ()
    heard = {(row["client"], row["broker"]) for row in between_them if row["packets_up"] and row["packets_down"]}
    may_tell = set() if signs.was_filtered else heard
    return {pair: bad for pair, bad in found.items() if pair in may_tell or _were_missed(bad)}


def _told_otherwise(signs: Signs) -> Iterator[Unheard]:
    """What was sent in vain, and is told: paths that are blocked, hosts that are cut off, brokers that are gone."""
    of_paths: list[Vanished | CutOff] = [*signs.once(vanished), *signs.once(cut_off)]
    yield from chain.from_iterable(each.unheard for each in of_paths)
    away = [one for one in signs.once(outages) if not one.stands_still]
    for unheard in (*signs.once(sent_again), *heard_at_last(signs)) if away else ():
        hosts = unheard.client, address_alone(unheard.broker)
        if any(
            one.address in hosts and one.started <= unheard.last and unheard.since <= (one.ended or signs.end)
            for one in away
        ):
            yield unheard


def losses(signs: Signs) -> Iterator[Incident]:
    """An incident for each host to or from which packets are lost, but for those that queues had no room for."""
    late = signs.once(delayed)
    found = {
        pair: [path for path in of_pair if path.at not in _ats(late, pair)]
        for pair, of_pair in signs.once(lossy).items()
    }
    for host, together in _at_one_time(found, lambda path: (path.first, path.last)):
        pairs, paths = {pair for pair, _ in together}, [path for _, path in together]
        sent, again = sum(path.packets for path in paths), sum(path.retransmits for path in paths)
        since, until = min(path.first for path in paths), max(path.last for path in paths)
        others = sorted({one for pair in pairs for one in pair if one != host})
        share = 100 * again / sent
        timeouts = sum(path.timeouts for path in paths)
        repaired = sum(path.repaired for path in paths)
        names = signs.names_at({host, *others} - signs.brokers)
        held = _held_up(signs, {host, *others}, since, until)
        yield Incident(
            kind=IncidentKind.NETWORK_LOSS,
            severity=Severity.WARNING,
            certainty=Certainty.CERTAIN if _were_missed(paths) else Certainty.LIKELY,
            subjects=(
                Subject(Role.HOST, host),
                *every(Role.HOST, others),
                *every(Role.CLIENT, names),
            ),
            started=since,
            ended=until,
            headline=f"packets are lost between {signs.who(host)} and {listed([signs.who(one) for one in others])}: "
            f"{counted(again, 'packet')} sent again ({share:.1f} %), {timeouts:,} of them only after a timeout, from "
            f"{clock(since)} to {clock(until)}" + outcome(held.effects),
            evidence=(
                Weighed(
                    f"{counted(again, 'packet')} of {sent:,} sent again with bytes that had been sent before",
                    None,
                    since,
                    0.6,
                ),
                Weighed(
                    f"receivers said {counted(repaired, 'time')} that something before was missing", None, since, 0.8
                ),
            ),
            advice="Look at errors and drops of the links and network cards in between (ip -s link, ethtool -S), "
            "at queues that overflow, at a duplex or MTU that differs; capture at both ends to see on which side "
            "packets vanish.",
            cost_ms=timeouts * _RTO_MS + held.cost_ms,
            effects=(
                Effect("packets", f"{counted(again, 'packet')} sent again", again),
                Effect(
                    "requests",
                    f"{counted(timeouts, 'timeout')} of TCP, each of some {duration(_RTO_MS)} or more",
                    timeouts,
                    timeouts * _RTO_MS,
                ),
                *held.effects,
            ),
            findings=held.findings,
            rebalances=held.rebalances,
        )


def _ats(late: Mapping[_Hosts, Sequence[Late]], pair: _Hosts) -> set[int]:
    """Spans in which packets between two hosts, whoever asks, took long: a queue that grows is full at last."""
    return {one.at for way in (pair, pair[::-1]) for one in late.get(way, ())}


def _held_up(signs: Signs, hosts: Collection[str], since: int, until: int) -> HeldUp:
    """What waited for replicas meanwhile, where it is brokers that have trouble with each other."""
    among = signs.brokers.intersection(hosts)
    return held_up_between(signs, among, since, until) if len(among) > 1 else HeldUp()


def _were_missed(paths: Sequence[Path]) -> bool:
    """Whether receivers said so of most of what was sent again."""
    return 2 * sum(path.repaired for path in paths) >= sum(path.retransmits for path in paths)


def _loses(path: Path) -> bool:
    """Whether so much is sent again that it is no accident."""
    return (
        path.retransmits >= threshold("lost_in_span")
        and path.retransmits >= path.packets * threshold("loss_share") / 100
    )


def _in_vain(path: Path, gone: Iterable[Unheard]) -> bool:
    """Whether most of what was sent again was sent in vain: that is told by itself."""
    again = sum(one.again for one in gone if one.since <= path.last and path.first <= one.last)
    return 2 * again >= path.retransmits


@dataclass(frozen=True, slots=True)
class Late:
    """Ten seconds in which round trips between two hosts took longer than at best."""

    at: int
    path: Path
    longest: float  # ms
    best: float  # ms, on average in the best ten seconds
    enough: float  # ms: what is late


def delayed(signs: Signs) -> dict[tuple[str, str], list[Late]]:
    """Pairs of hosts whose acknowledgements come much later in some spans than at best."""
    if (counted_spans := signs.health_spans) is None:
        return {}
    timed = counted_spans.filter(pc.greater_equal(counted_spans["rtt_samples"], threshold("delay_samples")))
    times = timed.group_by(_PAIR).aggregate([("at", "count_distinct")])
    chosen = times.filter(pc.greater_equal(times["at_count_distinct"], 2))
    found: dict[tuple[str, str], list[Late]] = defaultdict(list)
    for pair, spans in _paths(counted_spans, chosen).items():
        if pair[0] == pair[1] or signs.lacking(*pair) >= threshold("round_trips_lacking"):
            continue
        for sender in ("client", "broker"):
            known = {
                at: path.trips[sender]
                for at, path in spans.items()
                if sender in path.trips and path.trips[sender][0] >= threshold("delay_samples")
            }
            if len(known) < 2:
                continue
            best = min(total / samples / 1000 for samples, total, _ in known.values())
            enough = max(best * threshold("delay_factor"), best + threshold("delay_ms"))
            found[pair] += [
                Late(at, spans[at], trips[2], best, max(enough, threshold("delay_longest")))
                for at, trips in sorted(known.items())
                if _usual(*trips) >= enough and trips[2] >= threshold("delay_longest")
            ]
    return {pair: late for pair, late in found.items() if late}


def delays(signs: Signs) -> Iterator[Incident]:
    """An incident for each host to or from which packets take long, while others are as fast as ever."""
    found = signs.once(delayed)
    for host, together in _at_one_time(found, lambda one: (one.path.first, one.path.last)):
        pairs = {pair for pair, _ in together}
        late = sorted((one for _, one in together), key=lambda one: (one.at, one.longest))
        first, last = (_acknowledged_late(signs, pairs, one) for one in (late[0], late[-1]))
        since = first[0]["requested"] if first else late[0].path.first
        until = max(row["request_acked"] for row in last) if last else max(one.path.last for one in late)
        worst, best = max(one.longest for one in late), min(one.best for one in late)
        others = sorted({one for pair in pairs for one in pair if one != host})
        held = _held_up(signs, {host, *others}, since, until)
        ats = {(frozenset(pair), one.at) for pair, one in together}
        lost = [
            path for pair, of_pair in signs.once(lossy).items() for path in of_pair if (frozenset(pair), path.at) in ats
        ]
        effects = (
            Effect("time", f"each round trip up to {duration(worst - best)} longer", None, worst - best),
            *_lost_beside(lost),
            *held.effects,
        )
        yield Incident(
            kind=IncidentKind.NETWORK_DELAY,
            severity=Severity.WARNING,
            certainty=Certainty.LIKELY,
            subjects=(*signs.broker(host), *every(Role.HOST, others)),
            started=since,
            ended=until,
            headline=f"packets between {signs.who(host)} and {listed([signs.who(one) for one in others])} take up to "
            f"{duration(worst)} there and back instead of {duration(best)}, from {clock(since)} to {clock(until)}"
            + outcome(effects),
            evidence=(
                *(
                    Weighed(
                        f"this {row['api']} was acknowledged after "
                        f"{duration((row['request_acked'] - row['request_done']) / MILLISECOND_NS)}",
                        row["request_packet"],
                        row["requested"],
                        0.8,
                    )
                    for row in first[:1]
                ),
                *(
                    Weighed(
                        f"acknowledgements took up to {duration(one.longest)} in the ten seconds that begin here; in "
                        f"the best ones {duration(one.best)} on average",
                        None,
                        one.at,
                        0.8,
                    )
                    for one in late[:8]
                ),
            ),
            advice="Look at the network in between for that time: a longer route, a full link (queues), traffic "
            "shaping; brokers acknowledge in the kernel, so it is not Kafka that is slow.",
            cost_ms=worst * len(late) + sum(path.timeouts for path in lost) * _RTO_MS + held.cost_ms,
            effects=effects,
            findings=held.findings,
            rebalances=held.rebalances,
        )


def _acknowledged_late(signs: Signs, pairs: Collection[_Hosts], late: Late) -> list[Row]:
    """Requests of ten seconds whose acknowledgement took long, in order: of all else no more is known than the span."""
    numbers = [row["connection"] for row in signs.connections_between(pairs)]
    where = pc.field("connection").isin(numbers) & pc.field("request_acked").is_valid()
    where &= (pc.field("requested") >= moment(late.at)) & (pc.field("requested") < moment(late.at + SPAN_NS))
    columns = ("requested", "request_done", "request_acked", "request_packet", "api")
    found: list[Row] = []
    for batch in signs.batches("exchanges", columns, where):
        after = pc.subtract(batch["request_acked"], batch["request_done"])
        found += batch.filter(pc.greater_equal(after, int(late.enough * MILLISECOND_NS))).to_pylist()
    return sorted(found, key=lambda row: (row["requested"], row["request_packet"]))


def _lost_beside(paths: Sequence[Path]) -> Iterator[Effect]:
    """Packets that were lost while others took long."""
    if again := sum(path.retransmits for path in paths):
        yield Effect("packets", f"{counted(again, 'packet')} lost and sent again, as it seems for want of room", again)


def _usual(samples: int, total_us: int, longest_ms: float) -> float:
    """Milliseconds that round trips take on average at least, without some of the slowest.

    Where the capture lacks an acknowledgement, the next one seems to be it, and may come much later: two, and one in
    twenty, may be such.
    """
    left_out = 2 + samples // 20
    return max(total_us / 1000 - left_out * longest_ms, 0.0) / (samples - left_out)


def _at_one_time(
    found: Mapping[_Hosts, Sequence[_Seen]], time_of: Callable[[_Seen], tuple[int, int]]
) -> Iterator[tuple[str, list[tuple[_Hosts, _Seen]]]]:
    """What is wrong between pairs of hosts, by the host that they have in common, and by time: one trouble each."""
    apart = threshold("one_trouble") * SECOND_NS
    for host, pairs in by_common_host(found):
        in_order = sorted(((pair, one) for pair in pairs for one in found[pair]), key=lambda one: time_of(one[1]))
        for run in in_runs(in_order, lambda run, one: time_of(one[1])[0] - time_of(run[-1][1])[1] <= apart):
            yield host, run


def by_common_host(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Sequence[tuple[str, str]]]]:
    """Pairs of hosts that have trouble, by the host that most of them have in common."""
    left = sorted(pairs)
    while left:
        count: dict[str, int] = defaultdict(int)
        for pair in left:
            for host in pair:
                count[host] += 1
        host = min(count, key=lambda one: (-count[one], one))
        yield host, [pair for pair in left if host in pair]
        left = [pair for pair in left if host not in pair]
