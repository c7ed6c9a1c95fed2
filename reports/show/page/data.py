"""All that the page draws, as one object ready for JSON: `report.js` says how each part is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkascope.reports.answers import coverage
from kafkascope.reports.answers.answers import Answers, group_of
from kafkascope.reports.answers.errors import ErrorAnswer
from kafkascope.reports.answers.incident_timelines import IncidentTimeline
from kafkascope.reports.answers.latency import (
    PART_NAMES,
    Latency,
    Ranked,
    Spread,
    of_broker,
    shares_of,
    spent_on,
    telling,
    tone,
)
from kafkascope.reports.answers.progress import LINES, GroupLag
from kafkascope.reports.answers.throughput import Flow
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import duration
from kafkascope.reports.show.page.group_data import Clock, GroupData, Texts, milliseconds
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.issue_kinds import NOTHING
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import words

Json = dict[str, Any]

REBALANCES = 100  # that an incident names; a page is read by people
OFTEN = 20  # answers that an API needs for its p99 to be a headline: with fewer it is just the slowest one


def page_data(answers: Answers) -> Json:
    """The data of the page. Times are microseconds since its ``zero_ms``, durations milliseconds."""
    clock, texts = Clock(answers.begin), Texts()
    groups = GroupData(texts, clock).result(answers.groups) if answers.groups is not None else None
    sections = {
        "head": coverage.headline(answers.summary),
        "incidents": _incidents(answers, clock),
        "tiles": _tiles(answers),
        "findings": _findings(answers, clock),
        "latency": _latency(answers.latency, clock),
        "errors": _errors(answers, clock),
        "lag": _lag(answers, clock),
        "throughput": _throughput(answers, clock),
        "coverage": _coverage(answers),
    }
    return {
        "zero_ms": answers.begin // 1000 / 1000,
        "end": clock.since(answers.end),
        **{name: _shown(section) for name, section in sections.items()},
        "groups": groups,
        "texts": texts.all(),
    }


def _shown(value: Any) -> Any:
    """A value with all texts in it as they are shown to people."""
    if isinstance(value, str):
        return shown_text(value)
    if isinstance(value, dict):
        return {name: _shown(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(element) for element in value]
    return value


def _tiles(answers: Answers) -> list[Json]:
    """What a person in a hurry wants to know of each section."""
    sections = (_of_findings, _of_groups, _of_latency, _of_errors, _of_lag, _of_coverage)
    return [tile for tiles in sections for tile in tiles(answers)]


def _of_findings(answers: Answers) -> Iterator[Json]:
    if (found := answers.findings) is None:
        return
    severities = [one.severity for one in found.shown]
    grave, warnings = severities.count(Severity.CRITICAL), severities.count(Severity.WARNING)
    tone = "bad" if grave else "warn" if warnings else "" if answers.no_kafka else "good"
    count = len(found.shown) + found.left_out
    label = "finding" if count == 1 else "findings"
    yield _tile("findings", f"{count:,}", label, f"{grave} critical, {counted(warnings, 'warning')}", tone)


def _of_groups(answers: Answers) -> Iterator[Json]:
    if (groups := answers.groups) is None:
        return
    cause = next(iter(groups.triggers.items()), None)
    note = f"of {counted(groups.total, 'group')}" + (f", most by {words(cause[0])}" if cause else "")
    label = "rebalance" if groups.rebalances == 1 else "rebalances"
    yield _tile("groups", f"{groups.rebalances:,}", label, note, "")
    worst = max((g.counts for g in groups.shown), key=lambda g: g.worst_unowned_ms, default=None)
    if worst is not None and worst.worst_unowned_ms:
        tone = "bad" if worst.worst_unowned_ms >= 10_000 else "warn" if worst.worst_unowned_ms >= 1_000 else ""
        yield _tile("groups", duration(worst.worst_unowned_ms), "longest without an owner", worst.group_id, tone)


def _of_latency(answers: Answers) -> Iterator[Json]:
    if answers.latency is not None and answers.latency.apis:
        common = [one for one in answers.latency.apis if one.total.count >= OFTEN] or answers.latency.apis
        value, api = max(((of_broker(one)[0] or one.total).at[2], one.api) for one in common)
        yield _tile("latency", duration(value), "slowest API, p99", f"{api}, waiting left out", "")


def _of_errors(answers: Answers) -> Iterator[Json]:
    if (errors := answers.errors) is None:
        return
    count = sum(one.count for one in errors.trouble)
    note = errors.trouble[0].error if errors.trouble else f"{sum(o.count for o in errors.ordinary):,} ordinary ones"
    yield _tile("errors", f"{count:,}", "errors that mean trouble", note, "warn" if count else "good")


def _of_lag(answers: Answers) -> Iterator[Json]:
    if answers.lag is not None and answers.lag.groups:
        behind = answers.lag.groups[0]
        yield _tile("lag", f"{behind.highest:,}", "highest lag of a partition, records", behind.name, "")


def _of_coverage(answers: Answers) -> Iterator[Json]:
    if answers.issues is None:
        return
    holes = [one for one in answers.issues if one.weakens != NOTHING]
    count = sum(one.count for one in holes)
    note = holes[0].kind.replace("_", " ") if holes else "nothing lost or undecoded"
    yield _tile("coverage", f"{count:,}", "holes in the capture", note, "warn" if count else "good")


def _tile(section: str, value: str, name: str, note: str, tone: str) -> Json:
    return {"section": section, "value": value, "name": name, "note": note, "tone": tone}


def _incidents(answers: Answers, clock: Clock) -> Json | None:
    if (found := answers.incidents) is None:
        return None
    titles = {} if answers.findings is None else {one.id: one.title for one in answers.findings.shown}
    drawn: list[Json | None] = [_timeline(one, clock) for one in answers.timelines]
    drawn += [None] * (len(found.shown) - len(drawn))
    return {
        "left_out": found.left_out,
        "nothing_wrong": None if found.trouble else answers.nothing_wrong,
        "no_kafka": answers.no_kafka,
        "rows": [
            {
                "severity": one.severity,
                "kind": one.kind,
                "certainty": one.certainty,
                "what": one.what,
                "cost": [effect.text for effect in one.effects],
                "advice": one.advice,
                "started": clock.since(one.started),
                "ended": clock.since(one.ended),
                "evidence": [
                    [seen.text, seen.packet, clock.since(seen.at), round(seen.weight, 2), int(seen.rejected)]
                    for seen in one.evidence
                ],
                "findings": [[name, titles[name]] for name in sorted(one.findings) if name in titles],
                "rebalances": sorted(one.rebalances)[:REBALANCES],
                "rebalance_count": len(one.rebalances),
                "timeline": timeline,
            }
            for one, timeline in zip(found.shown, drawn, strict=True)
        ],
    }


def _timeline(one: IncidentTimeline, clock: Clock) -> Json:
    return {
        "begin": clock.since(one.begin),
        "end": clock.since(one.end),
        "lanes": [
            {
                "kind": lane.kind,
                "name": lane.name,
                "left_out": lane.left_out,
                "items": [
                    [
                        item.kind,
                        clock.since(item.since),
                        clock.since(item.until),
                        item.text,
                        item.packet,
                        item.generation,
                    ]
                    for item in lane.items
                ],
            }
            for lane in one.lanes
        ],
        "curves": [
            {
                "kind": curve.kind,
                "name": curve.name,
                "at": [clock.since(at) for at in curve.times],
                "values": curve.values,
            }
            for curve in one.curves
        ],
        "lanes_left_out": one.lanes_left_out,
    }


def _findings(answers: Answers, clock: Clock) -> Json | None:
    if answers.findings is None:
        return None
    explained = answers.incidents.explained if answers.incidents else frozenset()
    places = {}
    if (groups := answers.groups) is not None:  # in the order in which GroupData takes them
        counts = [*(group.counts for group in groups.shown), *groups.counted_only]
        places = {one.group_id: place for place, one in enumerate(counts)}
    return {
        "left_out": answers.findings.left_out,
        "no_kafka": answers.no_kafka,
        "rows": [
            {
                "id": one.id,
                "severity": one.severity,
                "kind": one.kind,
                "title": one.title,
                "subject": one.subject,
                "subjects": one.subjects if len(one.subjects) > 1 else None,
                "group": places.get(group_of(one) or ""),
                "since": clock.since(one.since),
                "until": clock.since(one.until),
                "advice": one.advice,
                "evidence": [[seen.text, seen.packet, clock.since(seen.at)] for seen in one.evidence],
            }
            for one in sorted(answers.findings.shown, key=lambda one: one.id in explained)
        ],
    }


def _latency(latency: Latency | None, clock: Clock) -> Json | None:
    if latency is None:
        return None
    rows = max((int(heat.cells[:, 1].max()) for heat in latency.heats), default=0)
    return {
        "slow_ms": threshold("slow_answer"),
        "long_ms": threshold("long_answer"),
        "part_names": {name: words for name, (_, words) in PART_NAMES.items()},
        "rows": [
            {
                "api": one.api,
                "count": one.total.count,
                "percentiles": _percentiles(one.total),
                "parts": [
                    {
                        "part": name,
                        # Time between exchanges is no share of the time of exchanges.
                        "share": round(shown[name], 4) if name in shown else None,
                        "percentiles": _percentiles(part),
                        "tone": tone(name, part),
                    }
                    for name, part in one.parts.items()
                    if name in spent_on(one) or name == "application"
                ]
                if telling(one)
                else [],
            }
            for one in latency.apis
            for shown in (shares_of(one),)
        ],
        "heats": [
            {"api": heat.api, "part": heat.part, "cells": heat.cells.reshape(-1).tolist()} for heat in latency.heats
        ],
        "begin": clock.since(latency.begin),
        "width": latency.width // 1000,
        "bins": latency.spans,
        "edges": [milliseconds(latency.row_ms(row)) for row in range(rows + 2)],
        "slowest": [_ranked(one) for one in latency.slowest],
        "applications": [_ranked(one) for one in latency.applications],
    }


def _percentiles(spread: Spread) -> list[float | None]:
    return [*map(milliseconds, spread.at), milliseconds(spread.highest)]


def _ranked(one: Ranked) -> list[Any]:
    p50, _, p99, _, highest = _percentiles(one.spread)
    return [one.api, one.kind, one.name, one.spread.count, p50, p99, highest]


def _errors(answers: Answers, clock: Clock) -> Json | None:
    if (errors := answers.errors) is None:
        return None
    return {
        "trouble": [_error(one, clock) for one in errors.trouble],
        "ordinary": [_error(one, clock) for one in errors.ordinary],
        "begin": clock.since(errors.begin),
        "width": errors.width // 1000,
        "bins": errors.spans,
        "left_out": errors.left_out,
    }


def _error(one: ErrorAnswer, clock: Clock) -> Json:
    return {
        "api": one.api,
        "error": one.error,
        "code": one.code,
        "count": one.count,
        "retriable": one.retriable,
        "meaning": one.meaning,
        "advice": one.reason if one.ordinary else one.advice,
        "packet": one.packet,
        "first": clock.since(one.first),
        "times": sorted(one.spans.items()),
        "where": one.where(),
    }


def _lag(answers: Answers, clock: Clock) -> Json | None:
    if answers.lag is None:
        return None
    return {"left_out": answers.lag.left_out, "groups": [_group_lag(group, clock) for group in answers.lag.groups]}


def _group_lag(group: GroupLag, clock: Clock) -> Json:
    lines = [_line("all partitions", group.times, group.sums, clock)] if len(group.partitions) > 1 else []
    lines += [_line(one.name, one.times, one.lags, clock) for one in group.partitions[: LINES - 1]]
    return {
        "name": group.name,
        "lines": lines,
        "rows": [[one.name, one.committed, one.end, one.lag, one.highest] for one in group.partitions],
        "left_out": group.partitions_left_out,
    }


def _line(name: str, times: list[int], values: list[Any], clock: Clock) -> Json:
    return {"name": name, "at": [clock.since(at) for at in times], "values": values}


def _throughput(answers: Answers, clock: Clock) -> Json | None:
    if (flow := answers.throughput) is None:
        return None
    return {
        "rows": [_flow(one) for one in flow.flows],
        "lines": [_line(one.name, one.times, [round(rate) for rate in one.rates], clock) for one in flow.rates],
        "left_out": flow.left_out,
    }


def _flow(one: Flow) -> list[Any]:
    codecs = ", ".join(name for name, _ in one.codecs.most_common())
    ratio = None if one.ratio is None else round(one.ratio, 3)
    counts = [one.records, one.bytes, one.batches, one.single_record_batches, one.requests, one.empty]
    return [one.topic, one.direction, one.client_id, *counts, ratio, codecs]


def _coverage(answers: Answers) -> Json:
    found = answers.issues
    return {
        "facts": coverage.facts(answers.summary, answers.remarks),
        "issues": None
        if found is None
        else [
            {
                "kind": one.kind,
                "count": one.count,
                "meaning": one.meaning,
                "weakens": one.weakens,
                "detail": one.detail[:300],
                "packet": one.packet,
            }
            for one in found
        ],
    }
