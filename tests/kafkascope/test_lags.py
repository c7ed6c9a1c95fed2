"""How far groups are behind, by what was heard last."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafkascope import lags
from kafkascope.lags import Lags
from kafkascope.reports.columns.clusters import Clusters
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.vocabulary.tables import POSITIONS

ONE, OTHER = "10.0.0.1:9092", "10.0.0.2:9092"
TWO_CLUSTERS = Clusters.of({ONE: "x", OTHER: "y"})


def told(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=POSITIONS)


def end(offset: int, at: int = 1, broker: str = ONE, partition: int = 0) -> dict[str, Any]:
    known = {"kind": "end", "topic": "orders", "partition": partition}
    return known | {"broker": broker, "last_at": at, "end_offset": offset}


def commit(offset: int, at: int = 1, broker: str = ONE, kind: str = "commit") -> dict[str, Any]:
    known = {"kind": kind, "topic": "orders", "partition": 0, "group_id": "shop"}
    return known | {"broker": broker, "last_at": at, "last_offset": offset}


def test_the_last_word_counts_and_lag_is_never_less_than_nothing() -> None:
    found = Lags()
    found.observe(told(end(100), commit(40), end(90, at=0), commit(70, at=2, kind="committed"), end(7, partition=1)))
    assert found.by_group_and_topic() == {("shop", "orders"): 30}
    found.observe(told(commit(120, at=3)))
    assert found.by_group_and_topic() == {("shop", "orders"): 0}


def test_clusters_do_not_mix() -> None:
    found = Lags()
    rows = told(end(100), commit(40), end(1000, broker=OTHER), commit(995, broker=OTHER, at=2))
    found.observe(rows)  # nobody told yet that there are two
    assert found.by_group_and_topic() == {("shop", "orders"): 5}
    found.observe(rows, TWO_CLUSTERS)
    assert found.by_group_and_topic() == {("shop", "orders"): 60, ("shop@y", "orders"): 5}


def test_what_was_told_by_id_goes_by_its_name_once_that_is_told() -> None:
    found, by_id = Lags(), f"id:{'x' * 22}"
    found.observe(told(end(100) | {"topic": by_id}, commit(40) | {"topic": by_id}, commit(30, at=0)))
    assert found.by_group_and_topic() == {("shop", by_id): 60}
    found.rename(TopicNames())
    assert found.by_group_and_topic() == {("shop", by_id): 60}
    found.rename(TopicNames({by_id: "orders"}))
    assert found.by_group_and_topic() == {("shop", "orders"): 60}
    found.observe(told(commit(90, at=2)))
    assert found.by_group_and_topic() == {("shop", "orders"): 10}


def test_of_no_more_partitions_than_that_something_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lags, "MOST_POSITIONS", 1)
    found = Lags()
    found.observe(told(end(9, partition=5), end(100), commit(40), end(10, at=2, partition=5)))
    assert found.by_group_and_topic() == {}
