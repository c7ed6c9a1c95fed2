"""Findings of many clients with one habit."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.findings.alike import Together, together
from kafkascope.reports.findings.finding import Finding, Observation, finding_table
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import threshold

MANY = int(threshold("alike"))


def of(name: str, kind: str = "metadata_storm", **given: Any) -> Finding:
    known: dict[str, Any] = {
        "severity": Severity.WARNING,
        "title": "Metadata is asked for again and again",
        "since": 10,
        "until": 20,
        "evidence": [Observation("seen", 7, 11)],
        "advice": "do this",
    }
    return Finding(kind=kind, **{"subject": f"client {name} (10.0.0.1)", "client_ids": [name], **known, **given})


def clients(count: int, **given: Any) -> list[Finding]:
    return [of(f"c{number:03}", **given) for number in range(count)]


def rows(found: Together) -> list[dict[str, Any]]:
    return list(numbered(found.findings).to_pylist())


@pytest.mark.parametrize(("count", "left"), [(MANY - 1, MANY - 1), (MANY, 1), (40, 1)])
def test_as_many_clients_alike_as_the_threshold_says_are_one_finding(count: int, left: int) -> None:
    findings = finding_table(clients(count))
    found = together(findings)
    assert found.findings.num_rows == left
    if left > 1:
        assert found == Together(findings, {})
        return
    (one,) = rows(found)
    assert one["title"] == f"{count} clients alike: Metadata is asked for again and again"
    assert one["subject"].startswith("clients c000 (10.0.0.1), c001 (10.0.0.1)")
    assert one["subjects"] == [f"client c{number:03} (10.0.0.1)" for number in range(count)]
    assert one["client_ids"] == [f"c{number:03}" for number in range(count)]
    assert found.parts == {one["id"]: frozenset(findings["id"].to_pylist())}
    assert (one["severity"], one["kind"], one["advice"]) == ("warning", "metadata_storm", "do this")


@pytest.mark.parametrize(("issues", "left"), [([], 2), (["tcp_gap"], 2), (["time_goes_back"], 1)])
def test_what_hangs_on_what_came_first_is_left_out_where_times_go_back(issues: list[str], left: int) -> None:
    findings = finding_table([*clients(1), of("", "commits_forgotten", subject="group shop")])
    assert together(findings, issues).findings.num_rows == left


def test_the_worst_speaks_for_all_and_each_is_evidence() -> None:
    worst = of("x", title="Worse: 9", weight=0.9, since=5, until=12, advice="at once", evidence=[])
    found = together(finding_table([*clients(MANY), worst]))
    (one,) = rows(found)
    assert one["title"] == f"{MANY + 1} clients alike, the worst: Worse: 9"
    assert (one["since"], one["until"], one["weight"], one["advice"]) == (5, 20, 0.9, "at once")
    first, second = one["evidence"][:2]
    assert first == {"text": "x (10.0.0.1): Worse: 9", "packet": None, "at": 5}
    assert second == {"text": "c000 (10.0.0.1): Metadata is asked for again and again", "packet": 7, "at": 11}


def test_other_kinds_severities_subjects_and_second_findings_of_a_client_are_apart() -> None:
    others = [
        of("c000", "connection_churn"),
        of("c001", severity=Severity.INFO, title="another"),
        *(of("", subject=f"group g{number}") for number in range(MANY)),
        *(of("one", "clock_difference", title=f"clock {number}") for number in range(MANY)),
    ]
    found = together(finding_table([*clients(MANY - 1), *others]))
    assert (found.findings.num_rows, found.parts) == (MANY - 1 + len(others), {})
    merged = together(finding_table([*clients(MANY), *others]))
    assert merged.findings.num_rows == 1 + len(others)
    assert {one["subjects"][0] for one in rows(merged) if one["kind"] != "metadata_storm"} == {
        one.subject for one in others if one.kind != "metadata_storm"
    }


def test_the_order_of_rows_makes_no_difference() -> None:
    findings = finding_table([*clients(9), *clients(5, kind="connection_churn"), of("z", weight=0.5)])
    shuffled = findings.take(pa.array(random.Random(1).sample(range(findings.num_rows), findings.num_rows)))
    key = [("id", "ascending")]
    assert together(shuffled).findings.sort_by(key).equals(together(findings).findings.sort_by(key))
    assert together(shuffled).parts == together(findings).parts


def test_nothing_is_nothing() -> None:
    assert together(finding_table([])) == Together(finding_table([]), {})
