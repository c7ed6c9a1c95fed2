"""Groups that fall behind: though they work, or for one record that a member does not get past."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, in_words
from kafkascope.reports.incidents.signs import Row, Signs, group_of
from kafkascope.reports.measures.progress.positions import SPAN
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

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


def stuck(signs: Signs) -> Iterator[Incident]:
    """Members that are sent the same records again and again: one cannot be processed, and is tried without end.

    Who waits at the end of what is committed, as for a transaction, is sent nothing; and after each rebalance members
    read again from what is committed.
    """
    times = int(threshold("same_again"))
    again: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in signs.rows("rereads", where=pc.field("times") >= times):
        again[row["group_id"], row["topic"], row["client_id"] or "?"].append(row)
    for finding in signs.findings:
        if finding["kind"] != "consumer_stuck":
            continue
        for (group, topic, name), rows in sorted(again.items()):
            if group != group_of(finding) or name not in (finding["client_ids"] or ["?"]):
                continue
            rebalances = signs.rebalances_of(group, finding["until"], min(row["at"] for row in rows))
            if _is_about(finding, topic) and 2 * len(rebalances) <= max(row["times"] for row in rows):
                yield _stuck(signs, finding, topic, name, sorted(rows, key=lambda row: (row["at"], row["partition"])))


def _is_about(finding: Row, topic: str) -> bool:
    return any(seen["text"].startswith(f"{topic}-") for seen in finding["evidence"])


def _stuck(signs: Signs, finding: Row, topic: str, name: str, rows: Sequence[Row]) -> Incident:
    group, since, until = rows[0]["group_id"], rows[0]["at"], finding["until"]
    ended = until if until < signs.end - SPAN else None
    times, records = max(row["times"] for row in rows), sum(row["records"] for row in rows)
    offsets = [f"{topic}-{row['partition']} offset {row['from_offset']}" for row in rows]
    ends = signs.rows(
        "lag",
        ("partition", "at", "end_offset"),
        (pc.field("group_id") == group) & (pc.field("topic") == topic) & pc.field("end_offset").is_valid(),
    )
    last = {
        row["partition"]: row["end_offset"] for row in sorted(ends, key=lambda row: row["at"]) if row["at"] <= until
    }
    waiting = sum(max(last.get(row["partition"], 0) - row["from_offset"], 0) for row in rows)
    effects = (
        Effect("records", f"{counted(waiting, 'record')} wait behind", waiting),
        Effect("records", f"{counted(records, 'record')} sent again", records),
    )
    hosts = sorted({row["client"] for row in rows if row["client"]})
    return Incident(
        kind=IncidentKind.CONSUMER_STUCK,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=(
            Subject(Role.GROUP, group),
            Subject(Role.TOPIC, topic),
            Subject(Role.CLIENT, name),
            *(Subject(Role.HOST, host) for host in hosts),
        ),
        started=since,
        ended=ended,
        headline=f"{name} of group {group} does not get past {listed(offsets)}: from {clock(since)} on it asked for "
        f"the same records again up to {counted(times, 'time')}" + in_words(effects),
        evidence=tuple(
            Weighed(
                f"{topic}-{row['partition']}: sent the records from offset {row['from_offset']} on again, "
                f"{counted(row['times'], 'time')} in a row",
                None,
                row["at"],
                0.9,
            )
            for row in rows
        ),
        advice="Look at the record at this offset (kcat -C -o OFFSET -c 1), and at what the application says of it; of "
        "several partitions one holds it, and the others are read again with it. Have it put aside after some tries "
        "(a dead letter topic), or set the group's offset behind it.",
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=effects,
        findings=signs.explained(
            ("consumer_stuck", "commits_stopped", "read_again", "lag_growing"), since, until, groups=[group]
        ),
    )


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
