"""Groups that fall behind although they work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among, integers, moment
from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.costs import assigned
from kafkascope.reports.incidents.holes.unseen import lacking
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.members import awaited
from kafkascope.reports.incidents.members.halted import halts
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.tables import TIME
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_KNOWN = pc.field("group_id").is_valid() & pc.field("lag").is_valid()
_FETCHES = ("Fetch", "ShareFetch")
_MOSTLY = 0.75  # of what a group falls behind
_EVIDENCE = 8  # spans that are told, evenly over the time
_LEAST_SPANS = 4  # fewer make no trend
_RISING = 0.75  # of the steps from span to span, and of the spans with commits: one may come late


@dataclass(slots=True)
class Span:
    """All partitions of a topic that a group reads, in one span of time."""

    at: int
    until: int
    partitions: int
    lag: int
    end: int
    commits: int


_ADVICE = (
    "Give the group more members (up to the number of partitions) or make processing faster; see latency for whether "
    "its fetches are slow, and for the application's time between an answer and the next request."
)


@dataclass(slots=True)
class _Grown:
    """By how much a partition fell behind in a time, how much was written to it, and who reads it."""

    lag: int = 0
    written: int = 0
    readers: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Hot:
    """Some partitions that are behind, while the others of their topic are not."""

    topic: str
    partitions: list[int]
    of_lag: float  # per cent of what the lag grew by
    of_written: float  # per cent of what was written
    readers: list[str]

    @property
    def is_written_to(self) -> bool:
        """Whether they are behind because most records are written to them."""
        return self.of_written >= threshold("hot_partition")

    @property
    def words(self) -> str:
        """What is told of them."""
        is_one = len(self.partitions) == 1
        place = f"{self.topic}-{self.partitions[0]}" if is_one else places(self.topic, self.partitions)
        told = f"{self.of_lag:.0f} % of the lag is in {place}"
        if self.is_written_to:
            return f"{told}, to which {self.of_written:.0f} % of the records are written"
        reads = "reads" if len(self.readers) == 1 else "read"
        return f"{told}, which {listed(self.readers)} {reads}" if self.readers else told

    @property
    def advice(self) -> str:
        """What to do about it: more members do not help, for a partition has one reader."""
        if self.is_written_to:
            return (
                "More members do not help, for one reads a partition: look at the keys of these records (one key, or "
                "one customer, that most of them have; a partitioner of the application's own), spread them, or make "
                "processing faster."
            )
        if len(self.partitions) > 1:
            return (
                "Look at who reads these partitions: the host, and what takes long in the records; the other members "
                "keep up."
            )
        return (
            "Look at the member that reads this partition: its host, and what takes long in its records; more members "
            "do not help, for one reads a partition."
        )


def places(topic: str, partitions: Iterable[int]) -> str:
    """Partitions of a topic as people read them: ``orders 0-3,7``."""
    return in_words(f"{topic}-{partition}" for partition in partitions)


@dataclass(frozen=True, slots=True)
class Trend:
    """A group that reads and commits, and falls behind all the same, in all partitions of a topic together, or some."""

    group: str
    topic: str
    spans: list[Span]  # those in which all of these partitions were heard of
    members: list[str]  # client ids: all of the group, or who reads these partitions
    begin: int  # of the capture, which may lie in the first span
    partitions: tuple[int, ...] = ()  # if it falls behind in some alone, and keeps up in the topic as a whole

    @property
    def where(self) -> str:
        """What it reads too slowly, in words."""
        return places(self.topic, self.partitions) if self.partitions else self.topic

    @property
    def since(self) -> int:
        """From when on it is seen to fall behind."""
        return max(self.spans[0].at, self.begin)

    @property
    def lasts(self) -> bool:
        """Whether it is seen for long enough to tell a burst from what goes on."""
        return len(self.spans) >= _LEAST_SPANS and self.seconds >= threshold("falling_behind_for")

    @property
    def seconds(self) -> float:
        """How long it is seen to go on."""
        return (self.spans[-1].at - self.spans[0].at) / SECOND_NS

    @property
    def written(self) -> float:
        """Records a second."""
        return (self.spans[-1].end - self.spans[0].end) / self.seconds

    @property
    def grown(self) -> int:
        """By how many records it fell behind."""
        return self.spans[-1].lag - self.spans[0].lag

    def grown_since(self, at: int) -> int:
        """By how many of them from a time on."""
        before = [span.lag for span in self.spans if span.at <= at]
        return self.spans[-1].lag - (before[-1] if before else self.spans[0].lag)

    @property
    def words(self) -> str:
        """What became of its lag."""
        seconds = (self.spans[-1].at - self.since) / SECOND_NS
        return f"the lag grew by {self.grown:,} to {self.spans[-1].lag:,} records in {seconds:,.0f} s"


def trends(signs: Signs) -> list[Trend]:
    """All of them, by group and topic."""
    found = []
    for (group, topic), spans in sorted(_lag_by_span(signs, _KNOWN).items()):
        names = sorted(name for name, groups in signs.groups_of.items() if group in groups)
        trend = Trend(group, topic, _settled(signs, group, spans), names, signs.begin)
        if _falls_behind(signs, trend):
            # The capture may lack how its members joined.
            one = trend if names else replace(trend, members=_readers(_grown(signs, trend).values()))
        elif (part := _in_part(signs, trend)) is not None:
            one = part
        else:
            continue
        if _is_of_heard(signs, one):
            found.append(one)
    return found


def _is_of_heard(signs: Signs, trend: Trend) -> bool:
    """Whether it is behind in what members read that the capture has: the others may have read all the rest."""
    last = signs.rebalances_of(trend.group, trend.spans[-1].at)[-1:]
    unheard = assigned(member for row in last for member in row["members"] or () if member["host"] is None)
    prefix = f"{trend.topic}-"
    numbers = [int(name.removeprefix(prefix)) for name in unheard if name.rpartition("-")[0] == trend.topic]
    if not numbers:
        return True
    where = (pc.field("group_id") == trend.group) & (pc.field("topic") == trend.topic)
    where &= pc.field("partition").isin(numbers) & ((pc.field("fetches") > 0) | (pc.field("commits") > 0))
    where &= pc.field("at") > moment(last[0]["stable"] or trend.spans[0].at)
    where &= pc.field("at") <= moment(trend.spans[-1].at)
    numbers = [*{*numbers}.difference(row["partition"] for row in signs.rows("lag", ("partition",), where))]
    rest = [of for number, of in _grown(signs, trend).items() if number not in numbers]
    written = sum(of.written for of in rest)
    return sum(of.lag for of in rest) * trend.seconds >= threshold("behind") * written > 0


def _settled(signs: Signs, group: str, spans: Sequence[Span]) -> list[Span]:
    """Spans in which all partitions were heard of, from the latest rebalance on: what was before is another matter.

    So is what was written since nobody is left in the group, and the last span if a rebalance begins in it, as when
    members leave: nobody may read for the rest of it.
    """
    most = max(span.partitions for span in spans)
    whole = sorted((span for span in spans if span.partitions == most), key=lambda span: span.at)
    latest = next(reversed(signs.rebalances_of(group, signs.end)), None)
    if latest is not None and latest["stable"] is not None and not latest["members"]:
        whole = [span for span in whole if span.until <= (latest["started"] or 0)] or whole[:1]
    if len(whole) > 1 and signs.rebalances_of(group, whole[-1].until, whole[-1].at + 1):
        whole = whole[:-1]
    settled = max((row["started"] or 0 for row in signs.rebalances_of(group, whole[-1].at)), default=0)
    if settled > whole[0].at + 10 * SECOND_NS:
        return [span for span in whole if span.at >= settled] or whole[-1:]
    return whole


def _falls_behind(signs: Signs, trend: Trend) -> bool:
    """Whether it does from span to span, by ten seconds of writing, although it commits and was not halted."""
    spans = trend.spans
    if not trend.lasts or trend.written <= 0 or trend.grown < threshold("behind") * trend.written:
        return False
    rising = sum(later.lag > earlier.lag for earlier, later in pairwise(spans))
    return (
        rising >= _RISING * (len(spans) - 1)
        and sum(span.commits > 0 for span in spans) >= _RISING * len(spans)
        and not any(halt.group == trend.group and halt.until >= spans[0].at for halt in signs.once(halts))
    )


def _in_part(signs: Signs, trend: Trend) -> Trend | None:
    """The partitions in which a group falls behind, though it keeps up in the topic as a whole: a member is slow.

    It is in all that it reads; where it keeps up in others, something is wrong with a partition, or its broker.
    """
    least = threshold("behind_in_part")
    if not trend.lasts or trend.grown < least:
        return None
    grown = _grown(signs, trend)
    late = [number for number, of in grown.items() if of.lag * trend.seconds >= threshold("behind") * of.written > 0]
    where = _KNOWN & (pc.field("group_id") == trend.group) & (pc.field("topic") == trend.topic)
    readers = {name for number in late for name in grown[number].readers}
    others = {name for number in grown if number not in late for name in grown[number].readers}
    if not readers or readers & others:
        return None
    spans = _lag_by_span(signs, where & pc.field("partition").isin(late)).get((trend.group, trend.topic), [])
    part = replace(
        trend,
        spans=[span for span in _settled(signs, trend.group, spans) if span.at >= trend.spans[0].at],
        members=sorted(readers),
        partitions=tuple(sorted(late)),
    )
    return part if part.spans and part.grown >= least and _falls_behind(signs, part) else None


def by_quota(signs: Signs) -> dict[str, list[Trend]]:
    """Groups that fall behind because a quota holds their members back, by client id of these."""
    of_member: dict[str, list[Trend]] = defaultdict(list)
    for trend in signs.once(trends):
        for name in trend.members:
            of_member[name].append(trend)
    # Of what answers tell: parts of latency are not known of all of them, where the capture lacks packets.
    where = (pc.field("throttle_ms") > 0) & pc.field("api").isin(_FETCHES) & pc.field("answered").is_valid()
    where &= among("client_id", of_member)
    held: dict[tuple[str, int], float] = defaultdict(float)  # by client and place of the trend: milliseconds
    for batch in signs.batches("exchanges", ("client_id", "answered", "throttle_ms"), where) if of_member else ():
        for name in batch["client_id"].unique().to_pylist():
            mine = batch.filter(pc.equal(batch["client_id"], name))
            answered, told = integers(mine["answered"]), mine["throttle_ms"].to_numpy()
            for place, trend in enumerate(of_member[name]):
                within = (trend.spans[0].at <= answered) & (answered <= trend.spans[-1].at)
                held[name, place] += float(told[within].sum())
    found: dict[str, list[Trend]] = defaultdict(list)
    for (name, place), ms in sorted(held.items()):
        trend = of_member[name][place]
        seen = trend.seconds - lacking(signs, trend.spans[0].at, trend.spans[-1].at) / SECOND_NS
        if ms / 1000 >= threshold("held_back") / 100 * seen:
            found[name].append(trend)
    return found


def lagging(signs: Signs) -> Iterator[Incident]:
    """Groups that fall behind, but for those that quotas hold back: these are told with the quota.

    Nor such as fall behind since one of their members is not there, which is told with that.
    """
    told = {(trend.group, trend.topic) for found in signs.once(by_quota).values() for trend in found}
    missing = {one.loss.rebalance["group_id"]: one.loss.since for one in signs.once(awaited.found)}
    for trend in signs.once(trends):
        group, topic, last = trend.group, trend.topic, trend.spans[-1]
        if (group, topic) in told or trend.grown_since(missing.get(group, signs.end)) >= _MOSTLY * trend.grown:
            continue
        hot = _hot(signs, trend)
        yield Incident(
            kind=IncidentKind.CONSUMER_LAGGING,
            severity=Severity.WARNING,
            certainty=Certainty.CERTAIN,
            subjects=(
                Subject(Role.GROUP, group),
                Subject(Role.TOPIC, topic),
                *signs.clients(trend.members, signs.heard_of(group)),
            ),
            started=trend.since,
            ended=None,
            headline=f"group {group} reads {trend.where} more slowly than is written from {clock(trend.since)} on: "
            f"{trend.words}; {trend.written:,.0f} records a second are written, "
            f"{trend.written - trend.grown / trend.seconds:,.0f} are read" + ("" if hot is None else f"; {hot.words}"),
            evidence=tuple(
                Weighed(
                    f"in the span that begins here it was {span.lag:,} records behind",
                    None,
                    max(span.at, trend.begin),
                    0.7,
                )
                for span in trend.spans[:: max(1, len(trend.spans) // _EVIDENCE)]
            ),
            advice=_ADVICE if hot is None else hot.advice,
            cost_ms=1000 * last.lag / trend.written,
            effects=(Effect("records", trend.words, last.lag),),
            findings=explained(signs, trend),
        )


def explained(signs: Signs, trend: Trend) -> frozenset[str]:
    """Findings about the group that say the same."""
    since, until = trend.spans[0].at, trend.spans[-1].at
    return signs.explained(("lag_growing", "commits_stopped"), since, until, groups=[trend.group])


def _hot(signs: Signs, trend: Trend) -> _Hot | None:
    """The fewest partitions of a topic that most of the lag is in; None if it is spread over more than half of them."""
    grown = _grown(signs, trend)
    total = max(sum(of.lag for of in grown.values()), 1)
    written = max(sum(of.written for of in grown.values()), 1)
    in_order = sorted(grown, key=lambda number: (-grown[number].lag, number))
    shares = [*accumulate(100 * grown[number].lag / total for number in in_order)]
    few = 1 + next((place for place, share in enumerate(shares) if share >= threshold("hot_partition")), len(shares))
    if 2 * few > len(grown):
        return None
    chosen = sorted(in_order[:few])
    of_written = 100 * sum(grown[number].written for number in chosen) / written
    readers = _readers(grown[number] for number in chosen)
    return _Hot(trend.topic, chosen, min(shares[few - 1], 100), of_written, readers)


def _readers(grown: Iterable[_Grown]) -> list[str]:
    """Client ids of who reads some partitions."""
    return sorted({name for of in grown for name in of.readers})


def _grown(signs: Signs, trend: Trend) -> dict[int, _Grown]:
    """What became of each partition of its topic from its first span to its last."""
    first, last = trend.spans[0], trend.spans[-1]
    where = (
        (pc.field("group_id") == trend.group)
        & (pc.field("topic") == trend.topic)
        & pc.field("at").isin(pa.array([first.at, last.at], TIME))
    )
    columns = ("partition", "at", "lag", "end_offset", "client_id")
    found: dict[int, _Grown] = defaultdict(_Grown)
    for row in signs.rows("lag", columns, where & pc.field("lag").is_valid()):
        sign = 1 if row["at"] == last.at else -1
        of = found[row["partition"]]
        of.lag += sign * row["lag"]
        of.written += sign * (row["end_offset"] or 0)
        of.readers |= {row["client_id"]} - {None}
    return found


def _lag_by_span(signs: Signs, where: pc.Expression) -> dict[tuple[str, str], list[Span]]:
    found: dict[tuple[str, str], dict[int, Span]] = defaultdict(dict)
    columns = ("group_id", "topic", "at", "width_ms", "lag", "end_offset", "commits")
    for batch in signs.batches("lag", columns, where):
        sums = batch.group_by(["group_id", "topic", "at", "width_ms"]).aggregate(
            [("lag", "count"), ("lag", "sum"), ("end_offset", "sum"), ("commits", "sum")]
        )
        for row in sums.to_pylist():
            at, until = row["at"], row["at"] + int((row["width_ms"] or 0) * MILLISECOND_NS)
            span = found[row["group_id"], row["topic"]].setdefault(at, Span(at, until, 0, 0, 0, 0))
            span.partitions += row["lag_count"]
            span.lag += row["lag_sum"]
            span.end += row["end_offset_sum"] or 0
            span.commits += row["commits_sum"] or 0
    return {key: list(spans.values()) for key, spans in found.items()}
