"""What was read again, told one fetch at a time; and what of it a rebalance has to answer for."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from kafkascope.reports.columns.views import Known
from kafkascope.reports.measures.progress.rereads import attach_rereads, readers_of
from kafkascope.reports.views.progress import ProgressView
from kafkascope.reports.vocabulary.tables import LAG, REBALANCES, REREADS
from tests.reports.captured_tables import captured, observed
from tests.reports.measures.progress.test_lag import SECOND, commit, fetch, nanoseconds, rows


def rereads(*given: dict[str, Any]) -> list[dict[str, Any]]:
    table = ProgressView().result(rows(*given), Known()).get("rereads", REREADS.empty_table())
    assert table.schema == REREADS
    return nanoseconds(table)


def ranges(*given: dict[str, Any]) -> list[tuple[int, int, int, int]]:
    return [(row["from_offset"], row["to_offset"], row["records"], row["times"]) for row in rereads(*given)]


@pytest.mark.parametrize("capture", ["killed-consumer", "max-poll-exceeded", "kip848", "rebalance-storm"])
def test_as_many_records_come_again_as_counted_one_by_one(capture: str) -> None:
    tables, _ = captured(capture, ProgressView.needs)
    found: dict[Any, int] = defaultdict(int)
    for row in ProgressView().result(observed(ProgressView(), capture), Known())["rereads"].to_pylist():
        found[row["group_id"], row["topic"], row["partition"]] += row["records"]

    brought: dict[Any, int] = defaultdict(int)
    for row in tables["batches"].to_pylist():
        if row["direction"] == "fetch":
            key = row["connection"], row["number"], row["topic"], row["partition"]
            brought[key] = max(brought[key], row["last_offset"] + 1)
    of_client = {row["client_id"]: row["group_id"] for row in tables["told_offsets"].to_pylist()}
    client_of = {(row["connection"], row["number"]): row["client_id"] for row in tables["exchanges"].to_pylist()}
    reached: dict[Any, int] = {}
    expected: dict[Any, int] = defaultdict(int)
    fetched = [row for row in nanoseconds(tables["partitions"]) if row["api"] == "Fetch" and row["error"] == "NONE"]
    for row in sorted(fetched, key=lambda row: (row["at"], row["connection"], row["number"])):
        group = of_client.get(client_of[row["connection"], row["number"]])
        if group is None or row["fetch_offset"] is None:
            continue
        to = group, row["topic"], row["partition"]
        position = brought.get((row["connection"], row["number"], row["topic"], row["partition"]), row["fetch_offset"])
        if (again := min(position, reached.get(to, 0)) - row["fetch_offset"]) > 0:
            expected[to] += again
        reached[to] = max(reached.get(to, 0), position)
    assert dict(found) == dict(expected)
    assert sum(found.values()) > 50


def test_reading_on_below_what_was_reached_is_one_reread() -> None:
    again = [fetch(12, 4, 6, 10, connection=2), fetch(17, 6, 8, 10, connection=2), fetch(18, 8, 12, 12, connection=2)]
    assert ranges(commit(1, 0), fetch(2, 0, 10, 10), *again) == [(4, 10, 6, 1)]


def test_the_same_again_and_again_is_one_row_with_its_times() -> None:
    loop = [fetch(at, 3, 9, 9) for at in (2, 3, 7, 12)]
    assert ranges(commit(1, 0), *loop) == [(3, 9, 18, 3)]


def test_a_partition_that_was_made_again_is_not_read_again() -> None:
    old = [commit(1, 0), fetch(2, 0, 50, 50)]
    new = [fetch(12, 0, 5, 5, connection=2), fetch(13, 5, 20, 20, connection=2), fetch(17, 8, 12, 20, connection=2)]
    assert ranges(*old, *new) == [(8, 12, 4, 1)]
    third = [fetch(22, 0, 3, 3, connection=3), fetch(27, 2, 4, 4, connection=3)]
    assert ranges(*old, *new, *third) == [(8, 12, 4, 1), (2, 3, 1, 1)]


def test_groups_do_not_read_again_what_another_has_read() -> None:
    other = {"client_id": "d", "connection": 2}
    assert ranges(commit(1, 0), fetch(2, 0, 9, 9), commit(3, 0, "h", **other), fetch(4, 0, 9, 9, **other)) == []
    assert ranges(fetch(2, 0, 9, 9), fetch(12, 0, 9, 9)) == []  # no group, nothing that it has read


def rebalances(*started: tuple[str, float]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"group_id": group, "started": int(at * SECOND)} for group, at in started], schema=REBALANCES
    )


def reread_rows(*given: tuple[str, float, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"group_id": group, "at": int(at * SECOND), "records": records} for group, at, records in given],
        schema=REREADS,
    )


def test_each_rebalance_answers_for_what_follows_until_the_next_of_its_group() -> None:
    attached = attach_rereads(
        rebalances(("a", 20), ("a", 10), ("b", 15), ("c", 5)),
        reread_rows(("a", 21, 4), ("a", 9, 100), ("a", 10, 1), ("a", 19, 2), ("b", 40, 7), ("b", 15, 8), ("x", 1, 9)),
    )
    assert attached.schema == REBALANCES
    assert attached["reread_records"].to_pylist() == [4, 3, 15, None]


def test_a_group_that_was_seen_to_read_has_read_nothing_again() -> None:
    lag = pa.Table.from_pylist([{"group_id": "a", "fetch_offset": 3}, {"group_id": "b"}], schema=LAG)
    attached = attach_rereads(rebalances(("a", 1), ("b", 1)), REREADS.empty_table(), readers_of(lag))
    assert attached["reread_records"].to_pylist() == [0, None]
    assert attach_rereads(REBALANCES.empty_table(), reread_rows(("a", 1, 1))).num_rows == 0
