"""Answers that draw themselves."""

from __future__ import annotations

import pandas as pd
import pytest
from plotly.graph_objects import Figure

import kafkascope
from kafkascope.capture import Capture
from tests.paths import PCAPS


@pytest.fixture(scope="module")
def storm() -> Capture:
    capture = kafkascope.read(PCAPS / "rebalance-storm" / "capture.pcap")
    assert isinstance(capture, Capture)
    return capture


def test_every_answer_has_a_figure(storm: Capture) -> None:
    answers = [storm.latency(), storm.throughput(), storm.errors_histogram(), storm.lag("storm")]
    answers += [storm.incidents, storm.findings, storm.clients, storm.topology(), storm.rebalances]
    for answer in (*answers, storm.group_events, storm.silences, storm.cluster_events, storm.frame("rereads")):
        figure = answer.plot()
        assert isinstance(figure, Figure)
        assert figure.data
    around = storm.incident(1).timeline()
    assert "storm" in around.layout.yaxis.categoryarray


def test_a_part_of_an_answer_is_drawn_as_such(storm: Capture) -> None:
    latency = storm.latency("api")
    assert list(latency[latency.api == "Fetch"].plot().data[0].y) == ["Fetch"]
    with pytest.raises(ValueError, match="needs all columns of the answer; this part of it lacks 'count'"):
        latency[["api", "p50"]].plot()


def test_pandas_draws_what_it_is_asked_for(storm: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(pd.plotting.PlotAccessor, "__call__", lambda self, *args, **kind: asked.append(kind))
    storm.latency("api").plot(kind="bar")
    storm.latency("api").plot.bar(x="api", y="p50")
    storm.exchanges.plot()  # which has no figure of its own
    assert [kind.get("kind") for kind in asked] == ["bar", "bar", None]
