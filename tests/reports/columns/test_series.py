from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.reports.columns import series
from kafkascope.reports.columns.series import (
    FINEST,
    MOST_SPANS,
    OTHERS,
    in_groups,
    kept_series,
    shards,
    spans,
    width_of,
)

SECOND = 1_000_000_000
START = 1_700_000_003 * SECOND


@pytest.mark.parametrize(
    ("extent", "width"),
    [(0, 10), (1190, 10), (1210, 30), (3600 * 24, 1800), (86400 * 30, 43200), (86400 * 365, 604800)],
)
def test_spans_are_as_long_as_the_capture_needs(extent: int, width: int) -> None:
    at = spans(START + np.arange(0, extent + 1, 10) * SECOND)
    assert width_of(at) == width * SECOND
    assert len(np.unique(spans(at, width_of(at)))) <= MOST_SPANS + 1


def test_shorter_spans_make_up_longer_ones() -> None:
    at = np.random.default_rng(3).integers(START, START + 10**15, 1000)
    widths = [*series._WIDTHS, series._WEEK]
    assert widths[0] == FINEST
    for shorter, longer in pairwise(widths):
        assert longer % shorter == 0
        assert (spans(spans(at, shorter), longer) == spans(at, longer)).all()


def test_a_client_stays_in_its_shard() -> None:
    found = shards(pa.array(["a", "b", None, "a", "\udcff".encode("utf-8", "replace").decode()])).to_pylist()
    assert found[0] == found[3]
    assert found[2] == 0
    assert all(0 <= shard < 64 for shard in found)
    assert len(set(shards(pa.array([f"client-{i}" for i in range(2000)])).to_pylist())) == 64


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 5)), min_size=1))
def test_the_largest_series_are_kept_in_whatever_order_they_come(rows: list[tuple[str | None, int]]) -> None:
    def kept(rows: list[tuple[str | None, int]]) -> set[str | None]:
        table = pa.table({"name": pa.array([name for name, _ in rows], pa.string())})
        mask = kept_series(table, ["name"], np.array([weight for _, weight in rows]), 2)
        names = {name for (name, _), keep in zip(rows, mask, strict=True) if keep}
        assert not names & {name for (name, _), keep in zip(rows, mask, strict=True) if not keep}
        return names

    sums: dict[str | None, int] = {}
    for name, weight in rows:
        sums[name] = sums.get(name, 0) + weight
    found = kept(rows)
    assert found == kept(rows[::-1])
    assert len(found) == min(2, len(sums))
    assert min(sums[name] for name in found) >= max([sums[name] for name in sums if name not in found], default=0)


def test_what_is_put_together_keeps_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "MOST_SERIES", 1)
    rows = pa.table({"api": ["A", "B", "B"], "topic": pa.array(["t", "u", None]), "client": ["x", "y", "z"]})
    found = series.without_the_smallest(rows, ["api", "topic", "client"], ("topic", "client"), np.array([3, 2, 1]))
    assert found.to_pydict() == {"api": ["A", "B", "B"], "topic": ["t", OTHERS, None], "client": ["x", OTHERS, OTHERS]}


def test_groups_are_in_the_order_of_their_names() -> None:
    rows = pa.table({"a": ["y", None, "x", "y", "x"], "b": [1, 2, 3, 1, 4]})
    groups, group = in_groups(rows, ["a"])
    assert groups["a"].to_pylist() == ["x", "y", None]
    assert group.tolist() == [1, 2, 0, 1, 0]
    assert in_groups(rows, [])[1].tolist() == [0] * 5
    assert in_groups(rows.slice(0, 0), ["a"])[1].tolist() == []
