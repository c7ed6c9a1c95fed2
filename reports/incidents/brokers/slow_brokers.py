"""Brokers that answer, but take long: by what is left of their answers' times without network, waits and throttling,
and by how late they fetch from other brokers what they replicate.

A write with acks=all is confirmed when the replicas in sync have fetched it. So it tells that somebody was slow, but
not who.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate, chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among, moment, one_array
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.series import OTHERS, replaced
from kafkascope.reports.columns.text import address, address_alone, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.followers import follower, refused
from kafkascope.reports.incidents.holes.unseen import hides
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.measures.latency.histogram import buckets_of, value_of
from kafkascope.reports.measures.latency.parts import APPLICATION, BROKER, SLOW
from kafkascope.reports.vocabulary.broker_client_ids import FOLLOWERS
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_READS = (
    "ApiVersions",
    "DescribeCluster",
    "Fetch",
    "FindCoordinator",
    "ListOffsets",
    "Metadata",
    "OffsetForLeaderEpoch",
)
"""What a broker answers out of its memory and its log. What a coordinator answers may wait for writes of its group."""
_OF_REPLICAS = ("OffsetCommit", "TxnOffsetCommit")  # written with acks=all, whatever the client asks for
_WHERE = (
    pc.field("topic").is_null()
    & pc.field("part").isin([SLOW, BROKER, APPLICATION])
    & pc.field("api").isin([*_READS, *_OF_REPLICAS, "Produce"])
)
_BESIDE_NS = 2 * SECOND_NS  # a broker that is slow is so again and again
# What is sent again holds up what stands behind it on its connection, and each time for twice as long.
_BEHIND_LOSS, _BEFORE_NS = 100, 10 * SECOND_NS
_KEYS = ["part", "api", "acks", "broker", "client", "client_id", "from", "width_ms"]


class Work(StrEnum):
    """What a broker may be slow over."""

    READS = "reads"
    STORES = "stores"  # writes that do not wait for replicas
    FOLLOWS = "follows"  # from the answer to a fetch of another broker's log to the next fetch
    REPLICATED = "replicated"  # writes that do


_WORDS = {
    Work.READS: "answers",
    Work.STORES: "writes that wait for no replica",
    Work.FOLLOWS: "fetches from other brokers",
    Work.REPLICATED: "writes that wait for replicas",
}
_EXPLAINED = ("unanswered", "sent_again", "heartbeat_held_up", "slow_to_join", "commits_stopped")
_ADVICE = (
    "Look at the broker's machine at that time: processor time and its limits (a container that is throttled), garbage "
    "collection (its log), disks (iostat -x: await), RequestHandlerAvgIdlePercent. Until it is mended, move its "
    "leaders to other brokers; writes with acks=all wait for it as long as it is in sync (replica.lag.time.max.ms)."
)
_ITS_OWN = (Work.READS, Work.STORES, Work.FOLLOWS)


@dataclass(slots=True)
class Tally:
    """How often some work was asked for, and how long took what took long."""

    asked: int = 0  # as far as is known what it took; without what only waited as the client wished
    late: Counter[int] = field(default_factory=Counter)  # by bucket of latency
    clients: set[tuple[str, str]] = field(default_factory=set)  # address and client id of those who got a late answer
    hosts: set[str] = field(default_factory=set)  # brokers that were late, as `Signs.where` has them

    @property
    def is_slow(self) -> bool:
        """Whether it took long as a rule."""
        late = self.late.total()
        return late >= threshold("slow_in_span") and 100 * late >= threshold("slow_share") * self.asked

    @property
    def median(self) -> float:
        """Milliseconds that half of what took long took at least."""
        buckets = sorted(self.late)
        up_to = [*accumulate(self.late[bucket] for bucket in buckets)]
        return value_of(buckets[bisect_right(up_to, up_to[-1] // 2)]) if buckets else 0.0

    @property
    def longest(self) -> float:
        """Milliseconds of what took longest."""
        return value_of(max(self.late, default=0))

    @property
    def cost_ms(self) -> float:
        """Milliseconds that what took long took, in all: a sum that does not hang on the order of rows."""
        return sum(value_of(bucket) * count for bucket, count in sorted(self.late.items()))

    @property
    def names(self) -> list[str]:
        """Client ids of those who got a late answer; the address of one that has none."""
        return sorted({client_id or client for client, client_id in self.clients})

    def add(self, other: Tally) -> None:
        """Count what another one counts, too."""
        self.asked += other.asked
        self.late += other.late
        self.clients |= other.clients
        self.hosts |= other.hosts


@dataclass(frozen=True, slots=True)
class SlowTime:
    """A time in which a broker was slow. Times are nanoseconds."""

    host: str | None  # as `Signs.where` has it; None: one of those at which writes waited, or a replica of theirs
    since: int
    until: int
    slow: dict[Work, Tally]  # its work, in the spans in which it was slow over it
    usual: dict[Work, Tally]  # the same work in the other spans of the capture
    held_up: Tally  # writes that waited for replicas meanwhile, on this broker and on others

    @property
    def is_sure(self) -> bool:
        """Whether several tell it, each for itself."""
        return len(self.slow) > 1 or any(len(tally.clients) > 1 for tally in self.slow.values())

    def overlaps(self, since: int, until: int) -> bool:
        """Whether any of it lies within a time."""
        return self.since <= until and since <= self.until


_BySpan = dict[int, Tally]
"""By begin of the span."""
_Run = tuple[str | None, range]
"""A broker, or any, and begins of spans that are one time."""


@dataclass(frozen=True, slots=True)
class _Tallies:
    """All work of brokers."""

    by_span: dict[tuple[Work, str], _BySpan]  # by kind of work and broker
    width: int  # of a span, in nanoseconds

    def runs(self, signs: Signs, works: Collection[Work]) -> Iterator[tuple[str, range]]:
        """Brokers, each with a time, as begins of spans, in which it was late as a rule over some of its work."""
        slow: dict[str, set[int]] = defaultdict(set)
        for (work, host), by_span in self.by_span.items():
            if work not in works or signs.lacking(address_alone(host)) >= threshold("answers_lacking"):
                continue
            for at in (at for at, tally in by_span.items() if tally.is_slow):
                if not hides(signs, at, at + self.width):
                    slow[host].add(at)
        for host, ats in slow.items():
            for run in _runs(sorted(ats), self.width):
                late = (self.within(work, host, run).late.total() for work in works)
                if max(late) >= threshold("slow_answers"):
                    yield host, run

    def within(self, work: Work, host: str, run: range, slow: bool = True) -> Tally:
        """Some work in those spans of a time in which it was slow; or outside of the time."""
        by_span = self.by_span.get((work, host), {})
        if slow:
            return _sum(by_span[at] for at in run if at in by_span and by_span[at].is_slow)
        return _sum(tally for at, tally in by_span.items() if at not in run)

    def held_up(self, run: range, but: str | None = None) -> Tally:
        """Writes in a time that had to wait for replicas, on all brokers but one."""
        replicated = [
            by_span for (work, host), by_span in self.by_span.items() if work == Work.REPLICATED and host != but
        ]
        return _sum(by_span[at] for by_span in replicated for at in run if at in by_span)


def slow_times(signs: Signs) -> list[SlowTime]:
    """Times in which a broker was slow, and those in which nothing tells which of several was, by time."""
    tallies = signs.once(_tallies)
    found = _slow_times(signs, tallies, [*tallies.runs(signs, _ITS_OWN)])
    waits: set[int] = set()
    for _, run in tallies.runs(signs, (Work.REPLICATED,)):
        if not any(one.overlaps(run[0] - tallies.width, run[-1] + 2 * tallies.width) for one in found):
            waits.update(run)
    found += _slow_times(signs, tallies, [(None, run) for run in _runs(sorted(waits), tallies.width)])
    return sorted(found, key=lambda one: (one.since, one.host or ""))


def held_up(signs: Signs, since: int, until: int, but: str | None = None) -> Tally:
    """Writes in a time, and beside it, for they are counted in spans, that had to wait for replicas.

    On all brokers but one, whose host is as `Signs.where` has it.
    """
    tallies = signs.once(_tallies)
    if not tallies.by_span:
        return Tally()
    return tallies.held_up(range(since - since % tallies.width, until + 1, tallies.width), but)


def of_writes(tally: Tally) -> tuple[Effect, ...]:
    """What it cost that writes had to wait for replicas; nothing if none took long."""
    if not tally.late:
        return ()
    count, longest = tally.late.total(), tally.longest
    text = (
        f"{counted(count, 'write')} that had to wait for replicas, of {listed(tally.names)}, took up to "
        f"{duration(longest)} on {counted(len(tally.hosts), 'broker')}"
    )
    return (Effect("writes", text, count, longest),)


def _runs(ats: Sequence[int], width: int) -> Iterator[range]:
    """Spans that are one time: with no more than one span between them."""
    begin = 0
    for place in range(1, len(ats) + 1):
        if place == len(ats) or ats[place] > ats[place - 1] + 2 * width:
            yield range(ats[begin], ats[place - 1] + 1, width)
            begin = place


def _slow_times(signs: Signs, tallies: _Tallies, runs: Sequence[_Run]) -> list[SlowTime]:
    found = []
    for (host, run), (since, until) in zip(runs, _edges(signs, tallies.width, runs), strict=True):
        own = {} if host is None else {work: tallies.within(work, host, run) for work in _ITS_OWN}
        slow = {work: tally for work, tally in own.items() if tally.late}
        usual = {work: tallies.within(work, host or "", run, slow=False) for work in slow}
        found.append(SlowTime(host, since, until, slow, usual, tallies.held_up(run)))
    return found


def _sum(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def _edges(signs: Signs, width: int, runs: Sequence[_Run]) -> list[tuple[int, int]]:
    """When the first request of each run was made that took long, and the last was answered.

    Of those to its broker, or to any; where there is none, when its spans begin and end. What took long just before or
    behind its spans is of it. Tables are read for all runs at once.
    """
    if not runs:
        return []
    since = np.array([run[0] - width for _, run in runs], np.int64)
    until = np.array([min(run[-1] + 2 * width, signs.end) for _, run in runs], np.int64)
    where = (
        pc.field("api").isin([*(api for api in _READS if api != "Fetch"), *_OF_REPLICAS, "Produce"])
        & (pc.field("latency_ms") >= threshold("slow_answer"))
        & (pc.field("requested") >= moment(int(since.min())))
        & (pc.field("requested") < moment(int(until.max())))
    )
    numbers, hosts = _connections_to(signs, {host for host, _ in runs if host is not None})
    times: list[list[I64]] = [[] for _ in runs]
    for batch in signs.batches("exchanges", ("connection", "requested", "answered"), where):
        requested, answered = (batch[name].to_numpy() for name in ("requested", "answered"))
        asked = hosts.take(pc.index_in(batch["connection"], numbers))
        for place in np.flatnonzero((since <= requested.max()) & (requested.min() < until)).tolist():
            inside = (since[place] <= requested) & (requested < until[place])
            if (host := runs[place][0]) is not None:
                inside &= pc.fill_null(pc.equal(asked, host), False).to_numpy(zero_copy_only=False)
            times[place].append(np.stack([requested[inside], answered[inside]]))
    return [
        _edge(np.concatenate([np.empty((2, 0), np.int64), *of_run], axis=1), run[0], min(run[-1] + width, signs.end))
        for (_, run), of_run in zip(runs, times, strict=True)
    ]


def _edge(times: I64, since: int, until: int) -> tuple[int, int]:
    """Where some spans begin and end, by when requests that took long were made and answered in them and beside them.

    Of those beside them, such as are near to the next one.
    """
    requested, answered = times[:, np.argsort(times[0], kind="stable")]
    within = np.flatnonzero((since <= requested) & (requested < until))
    if not len(within):
        within = np.arange(len(requested))
    if not len(within):
        return since, until
    apart = np.append(np.flatnonzero(np.diff(requested) > _BESIDE_NS) + 1, len(requested))
    first = int(np.append(0, apart)[np.searchsorted(apart, within[0], "right")])
    last = int(apart[np.searchsorted(apart, within[-1], "right")])
    return int(requested[first]), int(answered[first:last].max())


def _connections_to(signs: Signs, hosts: Set[str]) -> tuple[pa.Array, pa.Array]:
    """Connections to some brokers, and to which of them."""
    found: dict[int, str] = {}
    where = among("broker", {*map(address_alone, hosts)}) & (pc.field("protocol") == "kafka")
    for batch in signs.batches("connections", ("connection", "broker", "broker_port"), where) if hosts else ():
        for row in batch.to_pylist():
            if (host := signs.where(address(row["broker"], row["broker_port"]))) in hosts:
                found[row["connection"]] = host
    return pa.array(found.keys(), pa.int64()), pa.array(found.values(), pa.string())


def _tallies(signs: Signs) -> _Tallies:
    """All work of brokers; none if nothing took long."""
    asked, late = _counts(signs)
    if not late.num_rows:
        return _Tallies({}, 1)
    width = pc.max(asked["width_ms"]).as_py() * MILLISECOND_NS
    trips, timeouts, waits = _round_trips(signs), _timeouts(signs), refused(signs)
    found: dict[tuple[Work, str], _BySpan] = defaultdict(lambda: defaultdict(Tally))
    for row in [*asked.to_pylist(), *late.to_pylist()]:
        if (whose := _whose(signs, row, trips)) is None:
            continue
        end = row["from"] + row["width_ms"] * MILLISECOND_NS
        if whose[0] == Work.FOLLOWS and any(
            first < end and row["from"] <= last for first, last in waits.get(row["client_id"], ())
        ):
            continue
        at = row["from"] - row["from"] % width
        tally = found[whose][at]
        if "bucket" in row:
            lost = timeouts.get((row["client"], address_alone(row["broker"])), ())
            waited = int(value_of(row["bucket"]) * MILLISECOND_NS)  # what is sent again at last lets the rest through
            until = at + width + (waited if waited >= SECOND_NS else 0)
            if _BEHIND_LOSS * (bisect_left(lost, until) - bisect_left(lost, at - _BEFORE_NS)) >= row["late"]:
                continue
            tally.late[row["bucket"]] += row["late"]
            tally.clients.add((row["client"], row["client_id"] or ""))
            tally.hosts.add(signs.where(row["broker"]))
        else:
            tally.asked += row["asked"]
    return _Tallies(found, width)


def _counts(signs: Signs) -> tuple[pa.Table, pa.Table]:
    """How often each work was asked for in each span; and by whom and by bucket what of it took long.

    What is asked for is counted by client only of those who replicate.
    """
    least = int(buckets_of(np.array([threshold("slow_answer") * MILLISECOND_NS], np.int64))[0])
    asked, late = [], []
    for batch in signs.batches("latency", (*_KEYS, "count", "bucket", "counts"), _WHERE):
        follows = pc.fill_null(pc.match_substring_regex(batch["client_id"], FOLLOWERS), False)
        follows = pc.and_(follows, pc.equal(batch["api"], "Fetch"))
        rows = batch.filter(pc.or_(pc.not_equal(batch["part"], APPLICATION), follows))
        bucket, count, row = _cells(rows)
        waited = np.bincount(row, np.where(bucket == 0, count, 0), rows.num_rows).astype(np.int64)
        of_all = pc.equal(rows["part"], SLOW)  # also of those of which nobody knows what the broker took
        keys = rows.select(_KEYS)
        some = keys.append_column("asked", pc.if_else(of_all, pa.array(-waited), rows["count"]))
        for name in ("client", "client_id"):
            some = replaced(some, name, pc.if_else(pc.equal(rows["part"], APPLICATION), some[name], None))
        asked.append(_summed(some, "asked"))
        long = np.flatnonzero((bucket >= least) & ~of_all.to_numpy()[row])
        some = keys.take(pa.array(row[long])).append_column("bucket", pa.array(bucket[long]))
        late.append(_summed(some.append_column("late", pa.array(count[long])), "late"))
    return _together(asked, "asked"), _together(late, "late")


def _together(tables: Sequence[pa.Table], name: str) -> pa.Table:
    return _summed(pa.concat_tables(tables), name) if tables else pa.table({})


def _cells(rows: pa.Table) -> tuple[I64, I64, I64]:
    """Buckets of rows of ``latency``, with what is counted in each, and the row of each."""
    lists = one_array(rows["bucket"])
    row = np.repeat(np.arange(rows.num_rows), pc.fill_null(pc.list_value_length(lists), 0).to_numpy())
    return lists.flatten().to_numpy(), one_array(rows["counts"]).flatten().to_numpy(), row


def _summed(rows: pa.Table, name: str) -> pa.Table:
    """Rows with the same keys as one, with the sum of a number."""
    keys = [one for one in rows.column_names if one != name]
    summed = rows.group_by(keys, use_threads=False).aggregate([(name, "sum")])
    return summed.rename_columns([one.removesuffix("_sum") for one in summed.column_names])


def _whose(signs: Signs, row: Row, trips: Mapping[tuple[str, str], float]) -> tuple[Work, str] | None:
    """What work of which broker a row is about; None if it tells nothing of a broker.

    trips: milliseconds of round trips between a client's host and a broker's.
    """
    if OTHERS in (row["broker"], row["client"]):
        return None
    host = signs.where(row["broker"])
    if row["part"] != APPLICATION:
        if row["api"] in _READS:
            return Work.READS, host
        return Work.STORES if row["acks"] == 1 or signs.has_one_broker else Work.REPLICATED, host
    if trips.get((row["client"], address_alone(host)), 0.0) >= threshold("slow_answer") / 2:
        return None  # the network takes as long
    return Work.FOLLOWS, follower(signs, row["client"], row["client_id"], host, row["from"])


def _round_trips(signs: Signs) -> dict[tuple[str, str], float]:
    """Milliseconds of the slowest round trips between two hosts, a client and a broker, as means of ten seconds."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for row in _spans_of_health(signs, "rtt_samples"):
        pair = row["client"], row["broker"]
        found[pair] = max(found[pair], row["rtt_us"] / 1000 / row["rtt_samples"])
    return found


def _timeouts(signs: Signs) -> dict[tuple[str, str], list[int]]:
    """When packets between two hosts were sent again after a timeout: begins of spans of ten seconds, in order."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in _spans_of_health(signs, "timeout_retransmits"):
        found[row["client"], row["broker"]] += [row["at"]] * row["timeout_retransmits"]
    return {hosts: sorted(times) for hosts, times in found.items()}


def _spans_of_health(signs: Signs, name: str) -> list[Row]:
    """Those in which a number is not 0."""
    spans_of_hosts = signs.health_spans
    return [] if spans_of_hosts is None else spans_of_hosts.filter(pc.greater(spans_of_hosts[name], 0)).to_pylist()


def incident(signs: Signs, time: SlowTime, stalls: Sequence[Row] = ()) -> Incident:
    """A time in which a broker was slow, and its silences within it (rows of ``silences``)."""
    own = _sum(tally for work, tally in time.slow.items() if work != Work.FOLLOWS)
    effects = []
    if own.late:
        count, longest = own.late.total(), own.longest
        text = f"{counted(count, 'request')} of {listed(own.names)} waited for up to {duration(longest)}"
        effects.append(Effect("requests", text, count, longest))
    effects += of_writes(time.held_up)
    times = f"from {clock(time.since)} to {clock(time.until)}"
    if time.host is None:
        places = sorted(time.held_up.hosts)
        who = listed([signs.broker_words(host, time.since) for host in places])
        disks = "its disk" if len(places) == 1 else "their disks"
        what = f"{who} confirmed writes late {times}: a replica was slow, or {disks}"
        subjects = tuple(chain.from_iterable(signs.broker(host, time.since) for host in places))
        certainty = Certainty.GUESSED
    else:
        worst = max(time.slow, key=lambda work: (work != Work.FOLLOWS, time.slow[work].longest))
        how = "answered late" if own.late else "replicated late"
        what = f"{signs.broker_words(time.host, time.since)} {how} {times}: {_told(worst, time.slow[worst])}"
        subjects = signs.broker(time.host, time.since)
        certainty = Certainty.CERTAIN if time.is_sure else Certainty.LIKELY
    return Incident(
        kind=IncidentKind.BROKER_STALLED,
        severity=Severity.WARNING,
        certainty=certainty,
        subjects=subjects,
        started=time.since,
        ended=time.until,
        headline=what + outcome(effects),
        evidence=tuple(_evidence(time, stalls, own)),
        advice=_ADVICE,
        cost_ms=own.cost_ms + time.held_up.cost_ms,
        effects=tuple(effects),
        findings=signs.explained(_EXPLAINED, time.since, time.until, clients=[*own.names, *time.held_up.names]),
    )


def _evidence(time: SlowTime, stalls: Sequence[Row], own: Tally) -> Iterator[Weighed]:
    for work, tally in time.slow.items():
        yield Weighed(_told(work, tally), None, time.since, 0.8)
        if (usual := time.usual[work]).asked:
            yield Weighed(f"at other times {usual.late.total():,} of {usual.asked:,} did", None, None, 0.6)
    if stalls:
        longest = max(row["duration_ms"] for row in stalls)
        text = f"nothing from it on any connection {counted(len(stalls), 'time')}, the longest for {duration(longest)}"
        yield Weighed(text, stalls[0]["first_packet"], stalls[0]["since"], 0.7)
    if own.late:
        text = "its host acknowledged these requests at once: the network and the kernel were well"
        yield Weighed(text, None, time.since, 0.9)
        yield Weighed("the network: requests would have been acknowledged late", None, None, 0.1, True)
    if time.held_up.late:
        yield Weighed(_told(Work.REPLICATED, time.held_up), None, time.since, 0.5 if time.slow else 0.8)
    if time.host is None:
        text = "a certain broker: the capture lacks what they fetch from each other, and writes that do not wait for it"
        yield Weighed(text, None, None, 0.0, True)


def _told(work: Work, tally: Tally) -> str:
    """``24 of 30 answers took 100 ms or more, half of these 1.9 s or more``."""
    how, behind = ("came", " after the answer before") if work == Work.FOLLOWS else ("took", "")
    return (
        f"{tally.late.total():,} of {tally.asked:,} {_WORDS[work]} {how} {duration(threshold('slow_answer'))} or more"
        f"{behind}, half of these {duration(tally.median)} or more"
    )
