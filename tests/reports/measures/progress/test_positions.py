"""Rows of positions: the same whatever batches they came in."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.reports.measures.progress.positions import SPAN, joined_commits, joined_ends, joined_fetches
from kafkascope.reports.vocabulary.tables import POSITIONS

fetch = st.builds(
    lambda connection, partition, step, asked, brought, behind: {
        "topic": "t",
        "kind": "fetch",
        "partition": partition,
        "connection": connection,
        "step": step,
        "first_offset": asked,
        "position": asked + brought,
        "end_offset": asked + brought + behind,
    },
    *(st.integers(1, 2), st.integers(0, 1), st.integers(0, SPAN // 2), st.integers(0, 6), st.integers(0, 3)),
    st.integers(0, 2),
)


def fetches(drawn: list[dict[str, Any]]) -> pa.Table:
    rows, at = [], 0
    for number, row in enumerate(drawn, 1):
        at += row.pop("step")
        behind = row["end_offset"] > row["first_offset"]
        rows.append(
            row
            | {"span": at - at % SPAN, "first_at": at, "last_at": at, "first_number": number, "last_number": number}
            | {"count": 1, "last_offset": row["first_offset"], "same_since": at if behind else None}
        )
    return pa.Table.from_pylist(rows, schema=POSITIONS)


def in_parts(rows: pa.Table, cuts: list[int], join: Callable[[pa.Table], pa.Table], order: int) -> pa.Table:
    places = sorted({0, rows.num_rows, *(place % (rows.num_rows + 1) for place in cuts)})
    parts = [join(rows.slice(a, b - a)) for a, b in itertools.pairwise(places)]
    return join(pa.concat_tables(parts[::order])) if parts else rows


@given(st.lists(fetch, max_size=30), st.lists(st.integers(0, 30), max_size=4), st.sampled_from([1, -1]))
def test_fetches_join_to_the_same_however_they_are_cut(
    drawn: list[dict[str, Any]], cuts: list[int], order: int
) -> None:
    rows = fetches(drawn)
    whole = joined_fetches(rows)
    assert in_parts(rows, cuts, joined_fetches, order).equals(whole)
    assert sum(whole["count"].to_pylist()) == rows.num_rows


def test_reading_on_is_one_row_and_reading_again_another() -> None:
    drawn = [(0, 10), (10, 5), (15, 0), (15, 0), (12, 3), (15, 1)]
    rows = joined_fetches(
        fetches(
            [
                {"topic": "t", "kind": "fetch", "partition": 0, "connection": 1, "step": 1, "first_offset": asked}
                | {"position": asked + brought, "end_offset": 16}
                for asked, brought in drawn
            ]
        )
    ).to_pylist()
    told = ("first_offset", "last_offset", "position", "count", "same_since", "last_at")
    assert [tuple(row[name] for name in told) for row in rows] == [(0, 15, 15, 4, 3, 4), (12, 15, 16, 2, 6, 6)]


@pytest.mark.parametrize("join", [joined_fetches, joined_ends, joined_commits])
def test_nothing_joins_to_nothing(join: Callable[[pa.Table], pa.Table]) -> None:
    assert join(POSITIONS.empty_table()).equals(POSITIONS.empty_table())
