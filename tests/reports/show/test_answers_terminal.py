from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from pyarrow import dataset as ds
from rich.console import Console

from kafkascope.reports.answers.answers import answers
from kafkascope.reports.show.answers_terminal import show
from tests.reports.show.page.made_tables import SUMMARY, everything, finding_table, group_tables, tables_of


def shown(tables: Mapping[str, ds.Dataset], summary: Mapping[str, Any] = SUMMARY) -> str:
    stream = io.StringIO()
    show(answers(tables, summary), Console(file=stream, width=120, highlight=False))
    return stream.getvalue()


def test_findings_come_first_and_all_fits_in_two_screens() -> None:
    text = shown(everything())
    order = [
        "5 findings",
        "orders-app  classic",
        "JoinGroup",
        "NOT_LEADER_OR_FOLLOWER",
        "ordinary in a handshake",
        "lag ",
    ]
    order += ["not seen or not understood"]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert len(text.splitlines()) <= 80


def test_a_thousand_groups_and_findings_are_cut_and_counted() -> None:
    rebalances, events = group_tables(1_000, 1, 1)
    tables = everything() | tables_of(rebalances=rebalances, group_events=events, findings=finding_table(1_000))
    text = shown(tables)
    assert len(text.splitlines()) <= 120
    assert "and 992 more, in the report" in text
    assert "and 990 more" in text


def test_text_of_the_capture_cannot_steer_the_terminal() -> None:
    text = shown(everything())
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]" not in text


def test_a_capture_without_anything_has_a_summary_too() -> None:
    assert "no problem was found" not in shown({}, {})
    nothing = tables_of(findings=everything()["findings"].schema.empty_table())
    assert "no problem was found" in shown(nothing)
    assert "no problem was found" not in shown(nothing, SUMMARY | {"exchanges": {}})
    assert "123,456 packets" in shown({})
