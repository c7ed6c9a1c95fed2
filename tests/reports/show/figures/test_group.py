from __future__ import annotations

from kafkascope.reports.answers.groups import events_of, rebalances_of
from kafkascope.reports.show.figures.group import timeline
from tests.reports.show.page.made_tables import group_tables


def test_the_figure_has_a_lane_a_member_and_a_mark_a_rebalance() -> None:
    rebalances, events = group_tables(1, 9, 4)
    figure = timeline(rebalances_of(rebalances), events_of(events))
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert [bar.y[0] for bar in bars] == ["orders-0", "orders-1", "orders-2", "orders-3", "nobody owns"]
    assert all(len(bar.base) == 9 for bar in bars[:4])
    triggers = figure.data[-1]
    assert len(triggers.x) == 9
    assert "packet 11" in triggers.hovertext[0]
    assert len(figure.layout.shapes) == 9


def test_text_of_the_capture_is_no_markup() -> None:
    rebalances, events = group_tables(2, 3, 2)
    mine = [row for row in rebalances_of(rebalances) if row.group_id == "group-1"]
    text = timeline(mine, events_of(events)).to_json()
    assert "<img" not in text.replace("\\u003c", "<")


def test_nothing_seen_is_a_figure_too() -> None:
    assert timeline([], []).layout.title.text == "no rebalance was seen"
