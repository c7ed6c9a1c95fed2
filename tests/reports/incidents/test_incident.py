"""Incidents as values, and as rows of their table."""

from __future__ import annotations

import dataclasses

from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.incidents.incident import (
    EVIDENCE_SHOWN,
    Effect,
    Incident,
    Subject,
    Weighed,
    in_words,
    incident_of,
    incident_table,
)
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import INCIDENT_KINDS, IncidentKind, Role
from kafkascope.reports.vocabulary.tables import INCIDENTS
from kafkascope.reports.vocabulary.triggers import Certainty

EFFECTS = (Effect("leaders", "4 leaders moved", 4), Effect("requests", "2 requests waited", 2, 30.5))
DOWN = Incident(
    kind=IncidentKind.BROKER_DOWN,
    severity=Severity.CRITICAL,
    certainty=Certainty.CERTAIN,
    subjects=(Subject(Role.BROKER, "2"), Subject(Role.HOST, "10.0.0.2")),
    started=10,
    ended=None,
    headline="broker 2 went away" + in_words(EFFECTS),
    evidence=(Weighed("refused", 7, 11, 0.9), Weighed("announced", None, None, 0.3, True)),
    advice="look",
    cost_ms=5.0,
    effects=EFFECTS,
    findings=frozenset({"b", "a"}),
    rebalances=frozenset({("shop", 2), ("shop", 1)}),
)


def test_a_row_has_all_of_an_incident() -> None:
    table = incident_table([DOWN])
    assert table.schema == INCIDENTS
    (row,) = numbered(table).to_pylist()
    assert row["rank"] == 1
    assert row["explains"]["findings"] == ["a", "b"]
    assert [one["to_generation"] for one in row["explains"]["rebalances"]] == [1, 2]
    assert incident_of(row) == DOWN


def test_severity_comes_first_then_cost_then_time() -> None:
    ordered = [
        DOWN,
        dataclasses.replace(DOWN, started=11),
        dataclasses.replace(DOWN, cost_ms=4),
        dataclasses.replace(DOWN, severity=Severity.WARNING, cost_ms=900),
        dataclasses.replace(DOWN, severity=Severity.WARNING, cost_ms=900, headline="c"),
        dataclasses.replace(DOWN, severity=Severity.INFO, cost_ms=9000),
    ]
    rows = numbered(incident_table(reversed(ordered))).to_pylist()
    assert [incident_of(row) for row in rows] == ordered
    assert [row["rank"] for row in rows] == list(range(1, 7))


def test_what_is_told_of_it() -> None:
    assert DOWN.what == "broker 2 went away"
    assert dataclasses.replace(DOWN, headline="gone; 2 requests waited").what == "gone"
    assert dataclasses.replace(DOWN, headline="gone; 4 leaders moved").what == "gone; 4 leaders moved"  # there was more
    assert dataclasses.replace(DOWN, effects=()).what == DOWN.headline
    assert DOWN.about == "broker 2 (10.0.0.2)"
    group = dataclasses.replace(DOWN, subjects=(Subject(Role.GROUP, "shop"), Subject(Role.HOST, "10.0.0.2")))
    assert group.about == "group shop"
    assert dataclasses.replace(DOWN, subjects=()).about == "the capture"


def test_of_much_evidence_the_first_is_kept_and_all_that_was_rejected() -> None:
    seen = tuple(Weighed(f"{n}", n) for n in range(EVIDENCE_SHOWN + 3))
    rejected = Weighed("no", None, None, 0.1, True)
    (row,) = incident_table([dataclasses.replace(DOWN, evidence=(rejected, *seen))]).to_pylist()
    texts = [one["text"] for one in row["evidence"]]
    assert texts == [*(str(n) for n in range(EVIDENCE_SHOWN)), "and 3 more like these", "no"]


def test_every_kind_is_explained() -> None:
    assert set(INCIDENT_KINDS) == set(IncidentKind)
    assert all(len(meaning) > 10 for meaning in INCIDENT_KINDS.values())
