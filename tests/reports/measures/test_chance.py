"""What may be chance is not told to differ."""

from __future__ import annotations

import numpy as np
import pytest

from kafkascope.reports.measures.chance import Verdict, of_percentiles, of_rates
from kafkascope.reports.measures.latency.histogram import Histogram


def durations(*milliseconds: float) -> Histogram:
    made = Histogram()
    made.add(np.array(milliseconds))
    return made


def drawn(count: int, scale: float, seed: int) -> Histogram:
    return durations(*np.random.default_rng(seed).exponential(scale, count))


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((100, 60), (100, 60), Verdict.SAME),
        ((100, 60), (120, 60), Verdict.SAME),  # as often as one in five times
        ((100, 60), (200, 60), Verdict.UP),
        ((100, 60), (200, 120), Verdict.SAME),  # twice as long
        ((100_000, 60), (105_000, 60), Verdict.SAME),  # sure, but less than a tenth
        ((100_000, 60), (80_000, 60), Verdict.DOWN),
        ((0, 60), (3, 60), Verdict.FEW),
        ((0, 60), (12, 60), Verdict.NEW),
        ((2000, 60), (0, 60), Verdict.GONE),
        ((0, 60), (0, 60), Verdict.SAME),
        ((5, 0), (5, 60), Verdict.FEW),
    ],
)
def test_rates(before: tuple[int, float], after: tuple[int, float], verdict: Verdict) -> None:
    assert of_rates(*before, *after) == verdict


def test_percentiles_differ_if_values_above_do() -> None:
    assert of_percentiles(drawn(500, 10, 1), drawn(500, 30, 2), 0.5) == Verdict.UP
    assert of_percentiles(drawn(500, 30, 1), drawn(500, 10, 2), 0.9) == Verdict.DOWN
    assert of_percentiles(durations(*[1] * 500), durations(*[1] * 400, *[90] * 100), 0.9) == Verdict.UP
    assert of_percentiles(durations(*[100] * 500), durations(*[105] * 500), 0.5) == Verdict.SAME


def test_few_samples_tell_nothing() -> None:
    assert of_percentiles(durations(1, 2, 3), durations(50, 60, 70), 0.99) == Verdict.FEW
    assert of_percentiles(durations(1, 2, 3), durations(50, 60, 70), 0.5) == Verdict.FEW


def test_of_what_does_not_differ_next_to_nothing_is_told_to() -> None:
    told = [of_percentiles(drawn(300, 10, n), drawn(300, 10, 1000 + n), f) for n in range(100) for f in (0.5, 0.9)]
    assert sum(one in (Verdict.UP, Verdict.DOWN) for one in told) <= 2
