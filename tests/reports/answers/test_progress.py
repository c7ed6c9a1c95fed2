"""Lag as it is drawn: of the groups furthest behind, with all of their partitions."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.answers import progress
from kafkascope.reports.answers.progress import GroupLag, lag
from tests.reports.incidents.tables_of import dataset

SECOND = 1_000_000_000


def row(group: str | None, partition: int, second: int, behind: int | None, **given: Any) -> dict[str, Any]:
    known = {"group_id": group, "topic": "t", "partition": partition, "at": second * SECOND, "client_id": "c"}
    known |= {"width_ms": 10_000}
    return known | {"lag": behind, "committed_offset": 10, "end_offset": 10 + (behind or 0)} | given


def found(*rows: dict[str, Any], end: int | None = None) -> list[GroupLag]:
    told = lag(dataset("lag", rows), end)
    assert told is not None
    return told.groups


def test_each_partition_keeps_its_lag_until_the_next_is_known() -> None:
    (group,) = found(
        row("g", 1, 30, 7),
        row("g", 0, 10, 5),
        row("g", 0, 20, 2, end_offset=None),
        row("g", 1, 20, 9),
        row("g", 0, 30, 4),
    )
    assert (group.times, group.sums) == ([20 * SECOND, 30 * SECOND, 40 * SECOND], [5, 11, 11])  # ends of spans
    assert [(one.name, one.highest, one.lag) for one in group.partitions] == [("t-1", 9, 7), ("t-0", 5, 4)]
    assert [(one.committed, one.end) for one in group.partitions] == [(10, 17), (10, 14)]
    assert group.partitions[1].times == [20 * SECOND, 30 * SECOND, 40 * SECOND]
    assert group.highest == 9
    (group,) = found(row("g", 0, 10, 5), row("g", 0, 20, 2), end=25 * SECOND)
    assert group.times == [20 * SECOND, 25 * SECOND]


def test_where_nothing_is_committed_it_is_that_of_fetches() -> None:
    (group,) = found(row(None, 0, 10, None, fetch_lag=3, fetch_offset=8, committed_offset=None), row("g", 0, 10, None))
    assert (group.name, group.highest, group.partitions[0].committed) == ("no group known, client c", 3, 8)


def test_however_many_partitions_other_groups_have_none_of_the_furthest_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = [row("a", partition, second, 5) for partition in range(100) for second in range(3)]
    worst = [row("z", partition, 0, 1_000) for partition in range(3)]
    assert [(group.name, len(group.partitions)) for group in found(*many, *worst)] == [("z", 3), ("a", 60)]
    assert found(*many, *worst)[1].partitions_left_out == 40
    monkeypatch.setattr(progress, "_ROWS", 100)
    told = lag(dataset("lag", [*many, *worst]))
    assert told is not None
    assert ([group.name for group in told.groups], told.left_out) == (["z"], 1)


def test_without_lag_there_are_no_groups() -> None:
    assert found() == found(row("g", 0, 10, None, fetch_lag=None)) == []
    assert lag(None) is None
