"""Answers that are DataFrames as figures: what is drawn is what the frame says, and nothing of it is markup."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pytest

from kafkascope.dataframes import to_frame
from kafkascope.reports.answers.clients import clients as clients_of
from kafkascope.reports.answers.topology import topology as topology_of
from kafkascope.reports.measures.error_histogram import errors_histogram
from kafkascope.reports.measures.latency.counts import latency as latency_of
from kafkascope.reports.measures.throughput import throughput as throughput_of
from kafkascope.reports.show.figures import frames
from kafkascope.reports.show.figures.style import COLOURS, labels
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, CONCLUSIONS, RESULTS
from tests.reports.answers.test_clients import table
from tests.reports.incidents.tables_of import connection
from tests.reports.show.page.made_tables import HOSTILE, everything

MADE = {name: one.to_table() for name, one in everything().items()}


def test_latency_has_a_row_a_group_and_shares_of_its_time() -> None:
    frame = latency_of(MADE["latency"], ["api", "part"]).to_pandas()
    figure = frames.latency(frame)
    whole = frame[frame.part == "total"].set_index("api")
    spans, lows, longest, *shares = figure.data
    assert dict(zip(spans.y, spans.base, strict=True)) == whole.p50.to_dict()
    assert list(spans.base + spans.x) == pytest.approx([whole.p99[api] for api in spans.y])
    assert list(longest.x) == [whole["max"][api] for api in spans.y]
    assert lows.xaxis == "x"
    assert {bar.xaxis for bar in shares} == {"x2"}
    waiting = next(pd.Series(bar.x, bar.y) for bar in shares if bar.name == "waiting")
    part = frame[frame.part == "waiting"].set_index("api").sum_ms
    assert waiting["Fetch"] == pytest.approx(part["Fetch"] / whole.sum_ms["Fetch"])
    assert "broker and network" not in {bar.name for bar in shares}  # its parts are drawn


def test_with_time_there_are_lines() -> None:
    frame = latency_of(MADE["latency"], ["api", "from"]).to_pandas()
    figure = frames.latency(frame)
    lines = {(trace.name, trace.line.dash): trace for trace in figure.data}
    assert {name for name, _ in lines} == set(frame.api)
    fetch = frame[frame.api == "Fetch"].sort_values("from")
    assert list(lines["Fetch", "solid"].y) == list(fetch.p99)
    assert list(lines["Fetch", "dot"].y) == list(fetch.p50)


def test_throughput_is_bytes_or_bytes_a_second() -> None:
    frame = throughput_of(MADE["throughput"], ["topic", "direction"]).to_pandas()
    [bars] = frames.throughput(frame).data
    assert list(bars.x) == list(frame.bytes[: len(bars.x)])
    in_time = throughput_of(MADE["throughput"], ["from"]).to_pandas()
    [line] = frames.throughput(in_time).data
    assert list(line.y) == list(in_time.sort_values("from").bytes_per_second)


def test_errors_tell_trouble_from_what_is_ordinary() -> None:
    frame = errors_histogram(MADE["error_histogram"]).to_pandas()
    trouble, ordinary = frames.errors(frame).data
    assert sum(trouble.x) == frame.trouble.sum() > 0
    assert sum(trouble.x) + sum(ordinary.x) == frame["count"].sum()
    in_time = frames.errors(errors_histogram(MADE["error_histogram"], ["error", "at"]).to_pandas())
    assert sum(sum(trace.y) for trace in in_time.data) == frame["count"].sum()


def test_lag_is_drawn_of_the_partitions_furthest_behind() -> None:
    frame = to_frame(MADE["lag"])
    figure = frames.lag(frame)
    assert 1 < len(figure.data) <= len(COLOURS)
    behind = frame.lag.fillna(frame.fetch_lag)
    assert max(max(trace.y) for trace in figure.data) == behind.max()
    mine = frame[frame.group_id == frame.group_id.dropna().iloc[0]]
    assert frames.lag(mine).layout.title.text.startswith("Lag of ")


def test_topology_is_who_sends_what_to_whom() -> None:
    ends = table("connections", connection(1, bytes_up=500, bytes_down=900, client_id=HOSTILE))
    batches = table("batches", {"connection": 1, "topic": HOSTILE, "records": 3, "bytes": 100, "direction": "produce"})
    topology = to_frame(topology_of({"connections": ends, "batches": batches}))
    flows, legend = frames.topology(topology).data
    assert list(flows.link.value) == [100]
    assert flows.node.label[flows.link.target[0]] == "10.0.0.1:9092"
    all_of_it = frames.topology(topology[topology.topic.isna()]).data[0]
    assert list(all_of_it.link.value) == [500, 900]
    assert "<img" not in json.dumps(frames.topology(topology).to_plotly_json(), default=str)
    assert len(legend.x) == 1


def test_every_answer_has_a_figure() -> None:
    assert {*frames.FIGURES} == {*RESULTS, *CONCLUSIONS, "clients", "topology"}


@pytest.mark.parametrize("name", frames.FIGURES)
def test_no_rows_are_a_figure_that_says_so(name: str) -> None:
    empty = {
        "latency": latency_of(ALL_SCHEMAS["latency"].empty_table()).to_pandas(),
        "throughput": throughput_of(ALL_SCHEMAS["throughput"].empty_table()).to_pandas(),
        "error_histogram": errors_histogram(ALL_SCHEMAS["error_histogram"].empty_table()).to_pandas(),
        "clients": to_frame(clients_of({})),
        "topology": to_frame(topology_of({})),
    }
    frame = empty[name] if name in empty else to_frame(pa.Table.from_pylist([], schema=ALL_SCHEMAS[name]))
    figure = frames.FIGURES[name](frame)
    assert not figure.data
    assert figure.layout.title.text


def spans(*seconds: int) -> list[pd.Timestamp]:
    return [pd.Timestamp(second, unit="s", tz="UTC") for second in seconds]


def test_where_nothing_was_moved_the_line_is_at_zero() -> None:
    frame = pd.DataFrame({"topic": ["a", "a", "b"], "from": spans(0, 40, 10), "requests": 1, "bytes": 70})
    figure = frames.throughput(frame.assign(bytes_per_second=7.0))
    assert [list(line.y) for line in figure.data] == [[7, 0, 0, 0, 7], [0, 7, 0, 0, 0]]


def test_errors_are_drawn_as_wide_as_their_spans_and_none_is_left_out() -> None:
    kinds = len(COLOURS) + 3
    frame = pd.DataFrame(
        {"error": map(str, range(kinds)), "at": spans(*[20, 50] * kinds)[:kinds], "count": 2, "trouble": 1}
    )
    figure = frames.errors(frame)
    assert {(bar.width, bar.offset) for bar in figure.data} == {(30_000, 0)}
    assert [bar.name for bar in figure.data][-2:] == ["4 others", "ordinary"]
    assert sum(sum(bar.y) for bar in figure.data[:-1]) == kinds
    (one, _) = frames.errors(frame.head(1)).data
    assert one.width == 10_000


def test_a_title_tells_how_much_is_not_drawn() -> None:
    frame = pd.DataFrame({"api": [f"a{n}" for n in range(40)], "count": 1, "trouble": 1})
    assert frames.errors(frame).layout.title.text == "Errors (the first 30 of 40)"
    assert frames.errors(frame.head(30)).layout.title.text == "Errors"


def test_names_that_are_long_and_alike_stay_apart() -> None:
    names = [f"{'x' * 80}-{n}-{'y' * 80}" for n in range(2)] + ["z" * 100]
    assert [label[-1] for label in labels(names, 9).values()] == ["y", ")", "z"]
    assert all(len(label) <= 9 + 4 for label in labels(names, 9).values())
    frame = pd.DataFrame({"client_id": names * 2, "part": ["total"] * 3 + ["broker"] * 3, "count": 1})
    for name in ("sum_ms", "p50", "p90", "p99", "p99.9", "max"):
        frame[name] = 1.0
    figure = frames.latency(frame)
    assert len(set(figure.data[0].y)) == 3
    assert [list(bar.x) for bar in figure.data if bar.name == "broker"] == [[1, 1, 1]]
