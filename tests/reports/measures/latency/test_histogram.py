from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.reports.measures.latency.histogram import ERROR, Histogram, buckets_of, percentiles

FRACTIONS = (0.01, 0.5, 0.9, 0.99, 0.999, 1.0)


def at_rank(values: np.ndarray, fraction: float) -> float:
    return float(np.sort(values)[max(int(np.ceil(fraction * len(values))) - 1, 0)])


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_percentiles_are_right_within_the_error_that_is_stated(fraction: float) -> None:
    values = np.random.default_rng(1).lognormal(2, 2, 10_001)
    histogram = Histogram()
    histogram.add(values[:5000])
    other = Histogram()
    other.add(values[5000:])
    histogram.merge(other)
    assert histogram.percentile(fraction) == pytest.approx(at_rank(values, fraction), rel=ERROR * 1.01)
    highest = histogram.percentile(1.0)
    assert highest is not None
    assert highest <= histogram.highest_ms == values.max()


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=50), st.sampled_from(FRACTIONS))
def test_any_duration_keeps_the_bound(nanoseconds: list[int], fraction: float) -> None:
    values = np.array(nanoseconds, np.int64)
    bucket = buckets_of(values)
    distinct, count = np.unique(bucket, return_counts=True)
    found = percentiles(np.zeros(len(distinct), np.int64), distinct, count, np.array([values.max() / 1e6]), [fraction])
    # A microsecond is the finest that is told.
    assert found[0, 0] == pytest.approx(at_rank(values / 1e6, fraction), rel=ERROR * 1.0001, abs=0.001)


def test_many_histograms_at_once_are_as_each_alone() -> None:
    random = np.random.default_rng(2)
    values = [random.lognormal(mean, 1, 1 + 100 * mean) for mean in range(5)]
    rows = [np.unique(buckets_of(np.rint(part * 1e6).astype(np.int64)), return_counts=True) for part in values]
    group = np.repeat(np.arange(5), [len(bucket) for bucket, _ in rows])
    bucket, count = (np.concatenate([row[i] for row in rows]) for i in (0, 1))
    highest = np.array([part.max() for part in values])
    together = percentiles(group, bucket, count, highest, FRACTIONS)
    for i, part in enumerate(values):
        alone = Histogram()
        alone.add(part)
        assert [round(value, 4) for value in together[:, i]] == [alone.percentile(f) for f in FRACTIONS]


def test_nothing_counted_has_no_percentile() -> None:
    assert Histogram().percentile(0.5) is None
    none = np.zeros(0, np.int64)
    assert percentiles(none, none.astype(np.int32), none, np.zeros(0), [0.5]).shape == (1, 0)


def test_durations_below_a_microsecond_are_none() -> None:
    histogram = Histogram()
    histogram.add(np.array([0.0, 0.0005, 0.001, 5.0]))
    assert histogram.percentile(0.5) == 0.0
    assert histogram.percentile(1.0) == pytest.approx(5.0, rel=ERROR)
