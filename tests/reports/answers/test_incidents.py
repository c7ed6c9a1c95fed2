"""Incidents out of their table."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import dataset as ds

from kafkascope.reports.answers import incidents as answering
from kafkascope.reports.answers.incidents import NOTHING_KNOWN, grave, incidents, nothing_wrong
from kafkascope.reports.incidents.rules import RULES
from kafkascope.reports.vocabulary.incident_kinds import PLANNED
from kafkascope.reports.vocabulary.tables import FINDINGS
from tests.reports.show.made_incidents import DOWN, incidents_table


def test_they_come_by_rank_whatever_the_order_of_rows() -> None:
    table = incidents_table(9)
    parts = pa.concat_tables([table.slice(6), table.slice(2, 4), table.slice(0, 2)])
    found = incidents(ds.dataset(parts))
    assert found is not None
    assert found.shown == incidents(ds.dataset(table)).shown  # type: ignore[union-attr]
    assert (found.shown[0], found.left_out) == (DOWN, 0)
    assert found.trouble == [DOWN]
    assert found.explained == {"lost"}


def test_the_first_are_kept_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "INCIDENTS_SHOWN", 3)
    found = incidents(ds.dataset(incidents_table(8)))
    assert found is not None
    assert (len(found.shown), found.left_out) == (3, 5)
    assert found.shown[0] == DOWN


def test_without_a_table_there_is_no_answer_and_without_rows_an_empty_one() -> None:
    assert incidents(None) is None
    found = incidents(ds.dataset(incidents_table(0)))
    assert found is not None
    assert (found.shown, found.trouble, found.explained) == ([], [], frozenset())


def test_what_was_looked_at_is_what_rules_tell() -> None:
    kinds = {kind for rule in RULES for kind in rule.kinds} - PLANNED
    text = nothing_wrong({"connections": {"kafka": 1}, "exchanges": {"answered": 2}})
    assert text == (
        f"nothing is wrong in this capture: 2 exchanges on 1 connection show none of the {len(kinds)} kinds of trouble "
        "that are looked for; it cannot show what happened before, after and elsewhere"
    )
    some = {"connections": {"kafka": 4, "tls": 2}, "exchanges": {"unanswered": 1}}
    assert "it cannot show what 2 connections with TLS say nor what happened before" in nothing_wrong(some)
    some = {"connections": {"kafka": 4}, "exchanges": {"answered": 1}, "issues": {"one_way_capture": 2}}
    assert nothing_wrong(some).startswith("nothing is wrong in this capture: ")
    assert "what 2 connections said in the direction that was not captured nor what happened" in nothing_wrong(some)
    some |= {"connections": {"kafka": 3}}
    assert nothing_wrong(some).startswith("nothing that is wrong is seen in this capture: ")
    filtered = {"acknowledgements": 0, "connections": {"kafka": 4}, "exchanges": {"answered": 50}}
    assert nothing_wrong(filtered).startswith("nothing that is wrong is seen in this capture: ")
    assert "it cannot show what it was filtered of (no packet only acknowledges) nor" in nothing_wrong(filtered)
    assert nothing_wrong({}) == nothing_wrong({"connections": {"kafka": 1}}) == NOTHING_KNOWN


@pytest.mark.parametrize(
    ("titles", "told"),
    [(["a"], "looked for, but: a; it cannot"), (["a", "b", "c"], "looked for, but: a, and 2 findings more; it cannot")],
)
def test_where_there_are_findings_it_is_not_said_that_nothing_is_wrong(titles: list[str], told: str) -> None:
    text = nothing_wrong({"connections": {"kafka": 1}, "exchanges": {"answered": 2}}, titles)
    assert text.startswith("no trouble is seen in this capture: 2 exchanges ")
    assert told in text


def test_findings_are_grave_above_info() -> None:
    rows = [
        {"severity": severity, "weight": weight, "id": f"{weight}", "title": f"{severity} {weight}"}
        for severity, weight in (("info", 0.9), ("warning", 0.2), ("warning", 0.5), ("critical", 0.1))
    ]
    table = pa.Table.from_pylist(rows, FINDINGS)
    assert grave(table, []) == ["critical 0.1", "warning 0.5", "warning 0.2"]
    assert grave(table, [{"explains": {"findings": ["0.5"]}}, {"explains": None}]) == ["critical 0.1", "warning 0.2"]
