"""All answers of an analysis, out of its tables alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import dataset as ds

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.reports.answers.coverage import IssueAnswer, issues
from kafkascope.reports.answers.errors import Errors, errors
from kafkascope.reports.answers.groups import GroupLimits, Groups, groups
from kafkascope.reports.answers.incident_timelines import IncidentTimeline, timelines
from kafkascope.reports.answers.incidents import Incidents, incidents, nothing_wrong
from kafkascope.reports.answers.latency import Latency, latency
from kafkascope.reports.answers.progress import Lag, lag
from kafkascope.reports.answers.relays import relayed
from kafkascope.reports.answers.throughput import Throughput, throughput
from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.columns.faults import fault
from kafkascope.reports.columns.words import nanoseconds
from kafkascope.reports.findings.finding import Finding, Observation, order
from kafkascope.reports.incidents.holes.blackouts import blackouts, told
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.tables import FINDINGS

Section = TypeVar("Section")
FINDINGS_SHOWN = 500
_GROUP = "group "


@dataclass(frozen=True, slots=True)
class Findings:
    """The weightiest first."""

    shown: list[Finding]
    left_out: int


@dataclass(frozen=True, slots=True)
class Answers:
    """What a capture answers; None where its table is not there."""

    summary: Mapping[str, Any]  # reports.measures.summary.Summary.result(); empty if it is not there
    incidents: Incidents | None
    findings: Findings | None
    groups: Groups | None
    latency: Latency | None
    errors: Errors | None
    lag: Lag | None
    throughput: Throughput | None
    issues: list[IssueAnswer] | None
    timelines: Sequence[IncidentTimeline] = ()  # of the first incidents, in their order
    begin: int = field(default=0)  # nanoseconds, of the first thing that is told
    end: int = field(default=0)
    remarks: Mapping[str, str] = field(default_factory=dict)  # on what the capture lacks or has twice, by a word

    @property
    def no_kafka(self) -> bool:
        """Whether there was nothing in which a problem could show."""
        return bool(self.summary) and not any(self.summary["exchanges"].values())

    @property
    def grave(self) -> list[str]:
        """Titles of findings above "info" that no incident explains, the gravest first."""
        shown = self.findings.shown if self.findings is not None else ()
        explained = self.incidents.explained if self.incidents is not None else ()
        return [one.title for one in shown if one.severity != Severity.INFO and one.id not in explained]

    @property
    def nothing_wrong(self) -> str:
        """What to say of a capture without an incident."""
        return nothing_wrong(self.summary, self.grave)


def answers(tables: Mapping[str, ds.Dataset], summary: Mapping[str, Any], limits: Limits = DEFAULT) -> Answers:
    """The answers of tables (any of them may be absent), bounded whatever their size."""
    faults: list[str] = []

    def section(name: str, make: Callable[[], Section | None]) -> Section | None:
        """An answer; None where its table is not there, or a fault of ours was met."""
        try:
            return make()
        except pa.ArrowException:  # of a file that is not whole
            raise
        except Exception as error:
            faults.append(f"answer {name}: {fault(error)}")
            return None

    found = section("findings", lambda: _findings(tables.get("findings")))
    blamed = [one.subject.removeprefix(_GROUP) for one in found.shown if _is_group(one)] if found else []
    of_page = GroupLimits(rebalances=limits.page_rows, events=2 * limits.page_rows)
    of_groups = section(
        "groups",
        lambda: groups(tables.get("rebalances"), tables.get("group_events"), of_page, dict.fromkeys(blamed)),
    )
    of_latency = section("latency", lambda: latency(tables.get("latency")))
    of_errors = section("errors", lambda: errors(tables.get("error_histogram")))
    of_lag = section("lag", lambda: lag(tables.get("lag"), nanoseconds(summary.get("last"))))
    of_throughput = section("throughput", lambda: throughput(tables.get("throughput")))
    times = [at for text in (summary.get("first"), summary.get("last")) if (at := nanoseconds(text)) is not None]
    if of_groups:
        for group in of_groups.shown:
            for row in group.rebalances:
                times += [at for at in (row.started, row.joined, row.stable, row.recovered) if at is not None]
    if not times and of_latency and of_latency.apis:
        times = [of_latency.begin, of_latency.begin + of_latency.spans * of_latency.width]
    begin, end = min(times, default=0), max(times, default=0)
    of_incidents = section("incidents", lambda: incidents(tables.get("incidents")))
    shown = of_incidents.shown if of_incidents else []
    of_timelines = section("timelines", lambda: timelines(shown, tables, of_groups, of_lag, begin, end))
    remarks = {
        "pause": section("pause", lambda: told(dark) if (dark := blackouts(Signs(tables, end))) else None),
        "relayed": section("relayed", lambda: relayed(tables["connections"]) if "connections" in tables else None),
    }
    return Answers(
        summary=summary,
        incidents=of_incidents,
        findings=found,
        groups=of_groups,
        latency=of_latency,
        errors=of_errors,
        lag=of_lag,
        throughput=of_throughput,
        issues=issues(tables.get("issues"), faults),
        timelines=of_timelines or (),
        begin=begin,
        end=end,
        remarks={name: text for name, text in remarks.items() if text},
    )


def group_of(finding: Finding) -> str | None:
    """The group that a finding is about."""
    return finding.subject.removeprefix(_GROUP) if _is_group(finding) else None


def _is_group(finding: Finding) -> bool:
    return finding.subject.startswith(_GROUP)


def _findings(table: ds.Dataset | None) -> Findings | None:
    if table is None:
        return None
    kept: list[Finding] = []
    count = 0
    for batch in table.to_batches(columns=[name for name in FINDINGS.names if name != "id"]):
        count += batch.num_rows
        for row in numbered(pa.Table.from_batches([batch])).to_pylist():
            row["evidence"] = [Observation(**one) for one in row["evidence"] or ()]
            row["weight"] = row["weight"] or 0.0
            row["subjects"] = row["subjects"] or []  # none in tables that an older version wrote
            row["client_ids"] = row["client_ids"] or []
            kept.append(Finding(**row))
        if len(kept) > 4 * FINDINGS_SHOWN:
            kept = sorted(kept, key=order)[:FINDINGS_SHOWN]
    shown = sorted(kept, key=order)[:FINDINGS_SHOWN]
    return Findings(shown, count - len(shown))
