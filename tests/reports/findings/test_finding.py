"""A finding as a value: its name, its row, its place among others, and how much of its evidence is shown."""

from __future__ import annotations

import random

import pytest

from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.findings.finding import Finding, Observation, finding_table, order, shortened
from kafkascope.reports.vocabulary.finding_kinds import Severity


def finding(
    severity: Severity = Severity.WARNING,
    weight: float = 0.5,
    kind: str = "throttled",
    since: int | None = 5,
    subject: str = "client a",
    title: str = "Held back",
) -> Finding:
    return Finding(severity, kind, title, subject, since, 9, [], "do this", weight)


def test_severity_weight_kind_time_subject_and_title_say_what_is_read_first() -> None:
    in_order = [
        finding(Severity.CRITICAL, 0.1),
        finding(weight=0.6, kind="unanswered"),
        finding(kind="old_protocol", since=7),
        finding(since=-1, subject="client z"),
        finding(since=None, subject="client b"),
        finding(since=0, subject="client c"),
        finding(since=1),
        finding(title="A"),
        finding(title="B"),
        finding(subject="client b", title="A"),
        finding(kind="unanswered", since=1),
        finding(weight=0.4),
        finding(Severity.INFO, 0.9),
    ]
    shuffled = random.Random(1).sample(in_order, len(in_order))
    assert sorted(shuffled, key=order) == in_order
    assert finding_table(shuffled)["id"].to_pylist() == [one.id for one in in_order]


def test_an_id_is_of_the_kind_the_subject_and_the_title_alone() -> None:
    assert finding(title="Metadata is asked for: 40").id == "throttled-e3dac1f0"
    assert finding().id == finding(Severity.INFO, 0.1, since=None).id
    assert (
        len({finding().id, finding(subject="client b").id, finding(title="B").id, finding(kind="unanswered").id}) == 4
    )
    assert finding(title="\ud800").id  # of a client id that is no text


def test_a_finding_about_no_others_is_about_its_subject() -> None:
    several = Finding(Severity.INFO, "throttled", "B", "clients a, b", None, None, [], "", subjects=["a", "b"])
    rows = numbered(finding_table([finding(), several])).to_pylist()
    assert [row["subjects"] for row in rows] == [["client a"], ["a", "b"]]
    assert (rows[1]["weight"], rows[1]["client_ids"]) == (0.5, [])


@pytest.mark.parametrize(("count", "kept", "last"), [(12, 12, "11"), (13, 12, "and 2 more like these")])
def test_evidence_is_shown_up_to_twelve_rows(count: int, kept: int, last: str) -> None:
    evidence = [Observation(str(number), number, number) for number in range(count)]
    shown = shortened(evidence)
    assert (len(shown), shown[-1].text) == (kept, last)
    assert shown[:11] == evidence[:11]
