"""Groups that fall behind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.incidents.tables_of import (
    CLIENT,
    H1,
    IN_GROUP,
    Row,
    at,
    found,
    names,
    only,
    rebalance,
    row,
    seconds,
)


def lags(spans: int = 4, grows: float = 40, writes: float = 100, width: int = 10, **given: Any) -> list[Row]:
    """Two partitions of which so many records are written in a span, and so many of them not read."""
    return [
        row(
            "lag",
            group_id="shop",
            topic="orders",
            partition=number,
            at=at(n * width),
            lag=int(grows * n),
            end_offset=int(writes * n),
            commits=1,
            **given,
        )
        for n in range(spans)
        for number in range(2)
    ]


def test_a_group_that_falls_behind() -> None:
    rows = lags(spans=13)
    one = only(lag=rows, rebalances=[IN_GROUP], connections=[CLIENT])
    assert (one.kind, one.severity, one.certainty) == ("consumer_lagging", "warning", "certain")
    assert names(one) == ["shop", "orders", "c1", H1]
    assert "the lag grew by 960 to 960 records in 120 s; 20 records a second are written, 12 are read" in one.headline
    assert (seconds(one.started), one.ended) == (0, None)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (lags(4, 34), True),
        (lags(4, 33), False),  # ten seconds of writing
        (lags(3, 99, width=20), False),
        (lags(4, 99, width=9), False),  # for how long
        (lags(5, 0), False),
        (lags(5, 99, writes=0), False),
    ],
)
def test_lag_begins_exactly_at_its_thresholds(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(lag=rows)] == ["consumer_lagging"] * told


def test_a_group_that_does_not_commit_or_rebalances_is_behind_for_another_reason() -> None:
    rows = lags(spans=9)
    assert len(found(lag=rows)) == 1
    assert found(lag=[one | {"commits": 0} if n >= 12 else one for n, one in enumerate(rows)]) == []
    assert found(lag=rows, rebalances=[rebalance("member_left", 2, 50)]) == []
    assert len(found(lag=rows, rebalances=[rebalance("member_left", 2, 50, "other")])) == 1
    assert found(lag=[one | {"group_id": None} for one in rows]) == []
