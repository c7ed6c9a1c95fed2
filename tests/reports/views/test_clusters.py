"""The view of clusters: what of all that is told becomes rows, so that what is told again costs nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafkascope.reports.columns.views import Known
from kafkascope.reports.rows.builder import TableBuilder
from kafkascope.reports.views import clusters
from kafkascope.reports.views.clusters import ClustersView
from kafkascope.reports.vocabulary.tables import CONNECTIONS
from tests.joined import joined
from tests.reports.cluster.written_clusters import BROKERS, coordinator, ends, facts, heartbeat, metadata, partition
from tests.reports.written_exchanges import exchanges

ORDERS = {"orders": [partition(0, 1), partition(1, 2)]}


def split(rows: pa.Table) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Answers, and facts."""
    of = rows.to_pylist()
    return [row for row in of if row["unit"] is None], [row for row in of if row["unit"] is not None]


def test_what_a_connection_tells_again_is_no_row() -> None:
    answers, told = split(facts([metadata(1, ORDERS), metadata(1, ORDERS, controllerId=3), metadata(1, ORDERS)]))
    assert [row["part"] for row in answers] == ["brokers", "topics"]
    assert [row["kind"] for row in told] == ["cluster", *["listed"] * 3, *["leader"] * 2]


def test_what_another_connection_tells_too_is_a_row_without_facts() -> None:
    once, told = split(facts([metadata(1, ORDERS)]))
    answers, all_told = split(facts([metadata(number, ORDERS) for number in range(1, 6)]))
    assert len(answers) == 5 * len(once)
    assert all_told == told


def test_of_an_answer_that_differs_only_the_topics_that_do_are_facts() -> None:
    topics = {f"t{number}": [partition(0, 1), partition(1, 2)] for number in range(9)}
    _, told = split(facts([metadata(1, topics), metadata(1, topics | {"t3": [partition(0, 3, 1), partition(1, 2)]})]))
    assert [row["topic"] for row in told].count("t3") == 4
    assert len(told) == 1 + 3 + 9 * 2 + 2


def test_a_topic_without_partitions_is_neither_a_fact_nor_left_out() -> None:
    rows = facts([metadata(1, {"new": []})])
    answers, told = split(rows)
    assert [len(row["told"]) for row in answers] == [1, 0]
    assert {row["kind"] for row in told} == {"cluster", "listed"}


def test_what_is_read_hangs_not_on_batches_and_ended_connections_are_forgotten() -> None:
    view = ClustersView()
    said = [metadata(1, ORDERS), coordinator(2, "shop", 2), heartbeat()]
    first = facts(said, view=view)
    assert facts(said, view=view).num_rows == 0
    ended = pa.Table.from_pylist([{"connection": 1}], schema=CONNECTIONS)
    assert view.observe({"connections": ended}, ends()) is None
    again, told = split(facts(said, view=view))
    assert [(row["connection"], row["part"]) for row in again] == [(1, "brokers"), (1, "topics")]
    assert not told
    assert first.schema == ClustersView.schema


def test_of_metadata_that_is_cut_the_list_of_brokers_counts_if_it_is_whole() -> None:
    _, told = split(facts([metadata(1, ORDERS)]))
    of_brokers = [row for row in told if row["kind"] != "leader"]
    seen = set()
    for cut in range(1, 130):
        exchange = metadata(1, ORDERS)
        exchange.cut_response = cut
        rows = facts([exchange])
        if rows.num_rows:
            answers, some = split(rows)
            assert [row["part"] for row in answers] == ["brokers"]
            assert [row["host"] for row in some] == [row["host"] for row in of_brokers]
        seen.add(rows.num_rows)
    assert seen == {0, len(of_brokers) + 1}


def test_bodies_that_are_not_whole_say_nothing_else() -> None:
    whole = coordinator(1, "shop", 2)
    whole.cut_response = 1
    assert facts([whole]).num_rows == 0


def test_memory_is_bounded_and_what_is_left_out_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "MOST_FACTS", 4)
    said = [metadata(1), metadata(1, ORDERS), metadata(2, ORDERS), metadata(1, brokers={1: BROKERS[1]})]
    rows = facts(said)
    assert len(split(rows)[1]) == 4
    found = ClustersView().result(rows, Known())["cluster_events"].to_pylist()
    assert [event["event"] for event in found] == ["broker_listed"] * 3 + ["left_out"]
    assert found[-1]["packet"] == 4


def test_what_is_forgotten_to_be_given_is_given_again_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = {f"t{number}": [partition(0, 1)] for number in range(9)}
    said = [metadata(1, topics), metadata(2, topics), metadata(1, topics | {"t3": [partition(0, 3, 1)]})]
    whole = facts(said)
    monkeypatch.setattr(clusters, "_MOST_GIVEN", 2)
    monkeypatch.setattr(clusters, "_MOST_ANSWERS", 1)
    again = facts(said)
    assert again.num_rows > whole.num_rows
    results = [ClustersView().result(rows, Known())["cluster_events"] for rows in (whole, again)]
    assert results[0].equals(results[1])


def test_tasks_that_see_some_of_the_connections_each_tell_the_same_together() -> None:
    moved = {"orders": [partition(0, 3, 1), partition(1, 2)]}
    said = [metadata(1, ORDERS), metadata(2, ORDERS), metadata(1, moved), metadata(2, moved), metadata(3, ORDERS)]
    tables = joined(TableBuilder(ClustersView.needs).observe(exchanges(*said), ends()))
    parts = []
    for connection in (3, 2, 1):
        some = {
            name: table.filter(pa.array([one == connection for one in table["connection"].to_pylist()]))
            for name, table in tables.items()
        }
        rows = ClustersView().observe(some, ends())
        assert rows is not None
        parts.append(rows)
    whole = ClustersView().result(facts(said), Known())["cluster_events"]
    assert ClustersView().result(pa.concat_tables(parts), Known())["cluster_events"].equals(whole)
    assert whole["event"].to_pylist() == ["broker_listed"] * 3 + ["leader_changed"]
