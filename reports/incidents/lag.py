"""Groups that fall behind although they work."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pyarrow.compute as pc

from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.halted import halts
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import SECOND_NS

_EVIDENCE = 8  # spans that are told, evenly over the time
_LEAST_SPANS = 4  # fewer make no trend
_RISING = 0.75  # of the steps from span to span, and of the spans with commits: one may come late


@dataclass(slots=True)
class Span:
    """All partitions of a topic that a group reads, in one span of time."""

    at: int
    partitions: int
    lag: int
    end: int
    commits: int


def lagging(signs: Signs) -> Iterator[Incident]:
    """Groups that read and commit, and fall behind all the same, in all partitions of a topic together."""
    for (group, topic), spans in sorted(_lag_by_span(signs).items()):
        most = max(span.partitions for span in spans)
        whole = sorted((span for span in spans if span.partitions == most), key=lambda span: span.at)
        first, last = whole[0], whole[-1]
        seconds = (last.at - first.at) / SECOND_NS
        if len(whole) < _LEAST_SPANS or seconds < threshold("falling_behind_for"):
            continue
        written = (last.end - first.end) / seconds
        rising = sum(later.lag > earlier.lag for earlier, later in pairwise(whole))
        if (
            written <= 0
            or rising < _RISING * (len(whole) - 1)
            or last.lag - first.lag < threshold("behind") * written
            or sum(span.commits > 0 for span in whole) < _RISING * len(whole)
            or any(halt.group == group and halt.until >= first.at for halt in signs.once(halts))
            or any(
                row["group_id"] == group
                and first.at < (row["started"] or 0) - 10 * SECOND_NS
                and row["started"] <= last.at
                for row in signs.rebalances
            )
        ):
            continue
        names = sorted(name for name, groups in signs.groups_of.items() if group in groups)
        grown = last.lag - first.lag
        text = f"the lag grew by {grown:,} to {last.lag:,} records in {seconds:,.0f} s"
        yield Incident(
            kind=IncidentKind.CONSUMER_LAGGING,
            severity=Severity.WARNING,
            certainty=Certainty.CERTAIN,
            subjects=(Subject(Role.GROUP, group), Subject(Role.TOPIC, topic), *signs.clients(names)),
            started=first.at,
            ended=None,
            headline=f"group {group} reads {topic} more slowly than is written from {clock(first.at)} on: {text}; "
            f"{written:,.0f} records a second are written, {written - grown / seconds:,.0f} are read",
            evidence=tuple(
                Weighed(f"in the span that begins here it was {span.lag:,} records behind", None, span.at, 0.7)
                for span in whole[:: max(1, len(whole) // _EVIDENCE)]
            ),
            advice="Give the group more members (up to the number of partitions) or make processing faster; see "
            "latency for whether its fetches are slow, and for the application's time between an answer and the "
            "next request.",
            cost_ms=1000 * last.lag / written,
            effects=(Effect("records", text, last.lag),),
            findings=signs.explained(("lag_growing", "commits_stopped"), first.at, last.at, groups=[group]),
        )


def _lag_by_span(signs: Signs) -> dict[tuple[str, str], list[Span]]:
    found: dict[tuple[str, str], dict[int, Span]] = defaultdict(dict)
    where = pc.field("group_id").is_valid() & pc.field("lag").is_valid()
    for batch in signs.batches("lag", ("group_id", "topic", "at", "lag", "end_offset", "commits"), where):
        sums = batch.group_by(["group_id", "topic", "at"]).aggregate(
            [("lag", "count"), ("lag", "sum"), ("end_offset", "sum"), ("commits", "sum")]
        )
        for row in sums.to_pylist():
            span = found[row["group_id"], row["topic"]].setdefault(row["at"], Span(row["at"], 0, 0, 0, 0))
            span.partitions += row["lag_count"]
            span.lag += row["lag_sum"]
            span.end += row["end_offset_sum"] or 0
            span.commits += row["commits_sum"] or 0
    return {key: list(spans.values()) for key, spans in found.items()}
