"""Answers that happened at some time: lanes, bars and marks are the rows that there are; nothing of it is markup."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pytest

from kafkascope.dataframes import to_frame
from kafkascope.reports.answers.clients import clients as clients_of
from kafkascope.reports.show.figures import in_time
from kafkascope.reports.show.figures.frames import FIGURES
from kafkascope.reports.show.figures.style import MOST_ROWS
from tests.reports.answers.test_clients import table
from tests.reports.incidents.tables_of import connection
from tests.reports.show.page.made_tables import BEGIN, HOSTILE, with_incidents

FRAMES = {name: to_frame(one.to_table()) for name, one in with_incidents().items()}
ENDS = table("connections", connection(1, bytes_up=500, bytes_down=900, client_id=HOSTILE))
ASKED = table("exchanges", {"connection": 1, "number": 1, "api": "Fetch", "requested": 5})
FRAMES["clients"] = to_frame(clients_of({"connections": ENDS, "exchanges": ASKED}))
AGAIN = {"topic": "orders", "partition": 1, "at": BEGIN, "client_id": HOSTILE, "from_offset": 5, "to_offset": 9}
FRAMES["rereads"] = to_frame(table("rereads", AGAIN | {"group_id": HOSTILE, "records": 4, "times": 1}).to_table())
GONE = {"topic": "orders", "partition": 1, "at": BEGIN, "client_id": HOSTILE, "committed_offset": 5, "read_from": 9}
FRAMES["forgotten_commits"] = to_frame(table("forgotten_commits", GONE | {"group_id": HOSTILE}).to_table())
IN_TIME = [name for name, figure in FIGURES.items() if figure.__module__ == in_time.__name__]


def without(name: str, *columns: str) -> pd.DataFrame:
    """The first row of a table, of which less is known."""
    row = with_incidents()[name].to_table().slice(0, 1)
    return to_frame(pa.Table.from_pylist([row.to_pylist()[0] | dict.fromkeys(columns)], schema=row.schema))


@pytest.mark.parametrize("name", IN_TIME)
def test_what_was_on_the_network_is_no_markup(name: str) -> None:
    frame = FRAMES[name].copy()
    for column in frame.select_dtypes(["string", "object"]):
        frame[column] = frame[column].map(lambda one: HOSTILE if isinstance(one, str) else one)
    for figure in (FIGURES[name](FRAMES[name]), FIGURES[name](frame)):
        assert "<img" not in json.dumps(figure.to_plotly_json(), default=str)


def test_incidents_are_bars_in_time_by_severity() -> None:
    down, restart = in_time.incidents(FRAMES["incidents"]).data
    assert (down.name, restart.name) == ("critical", "info")
    assert list(down.x) == [40_000]
    assert list(restart.x) == [0]  # it is not known when it was over


def test_rebalances_are_bars_as_long_as_they_took() -> None:
    rows = FRAMES["rebalances"]
    figure = in_time.rebalances(rows)
    assert list(figure.layout.yaxis.categoryarray) == sorted(rows.group_id.unique(), reverse=True)
    drawn = {
        (lane, pd.Timestamp(base, tz="UTC"), length)
        for bars in figure.data
        for lane, base, length in zip(bars.y, bars.base, bars.x, strict=True)
    }
    assert len(drawn) == len(rows)
    known = rows[rows.recovered.notna()]
    cost = (known.recovered - known.started).dt.total_seconds() * 1000
    assert {*zip(known.group_id, known.started, cost, strict=True)} <= drawn
    told = [text for bars in figure.data for text in bars.hovertext]
    assert any("all working again after" in text and "(certain)" in text for text in told)


def test_one_rebalance_of_which_little_is_known_is_a_bar_without_length() -> None:
    row = without("rebalances", "started", "joined", "recovered", "duration_ms", "cost_ms")
    [bar] = in_time.rebalances(row).data
    assert [pd.Timestamp(at, tz="UTC") for at in bar.base] == list(row.stable)
    assert list(bar.x) == [0]
    assert "never stable" in bar.hovertext[0]
    assert not in_time.rebalances(row.assign(stable=row.started)).data  # and none of which there is no time


def test_silences_last_to_the_last_packet_if_they_do_not_end() -> None:
    row = FRAMES["silences"].assign(refused=0)
    both = pd.concat([row, without("silences", "until").assign(duration_ms=1500.0), row.assign(waiting=0)])
    bars = {one.name: one for one in in_time.silences(both.reset_index(drop=True)).data}
    assert {name: list(one.x) for name, one in bars.items()} == {
        "connects failed, or to the end": [1_500],
        "requests waited": [40_000],
        "nobody waited": [40_000],
    }
    assert "3 requests waiting" in bars["requests waited"].hovertext[0]


def test_events_are_marks_of_their_kind() -> None:
    for name in ("cluster_events", "group_events"):
        rows = FRAMES[name]
        marks = FIGURES[name](rows).data
        assert {one.name.replace(" ", "_"): len(one.x) for one in marks} == rows.event.value_counts().to_dict()
        assert len({(one.marker.color, one.marker.symbol) for one in marks}) == len(marks)
    lanes = in_time.cluster_events(FRAMES["cluster_events"]).layout.yaxis.categoryarray
    assert all(lane.split()[0] in ("broker", "group", "topic", "cluster") for lane in lanes)


def test_more_than_a_figure_has_room_for_is_told() -> None:
    one = FRAMES["rebalances"].head(1)
    many = pd.concat([one.assign(group_id=f"g{n:03}") for n in range(100)]).reset_index(drop=True)
    figure = in_time.rebalances(many)
    assert figure.layout.title.text == f"Rebalances: {MOST_ROWS} of 100"
    assert sum(len(bars.x) for bars in figure.data) == MOST_ROWS
