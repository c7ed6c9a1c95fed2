"""Whether two captures differ by more than chance makes them differ, as far as their numbers of samples tell.

Samples are taken for independent of each other. Exchanges of one moment are not, so what differs is told to differ,
never why; and it takes three standard deviations and a tenth of the value.
"""

from __future__ import annotations

from enum import StrEnum
from math import comb, sqrt
from statistics import NormalDist

import numpy as np

from kafkascope.reports.measures.latency.histogram import Histogram

_SIGMAS = 3.0
"""Tens of numbers are compared at once: at three standard deviations one in 370 that do not differ seems to."""
_LEAST = 1.1
"""A difference of less than a tenth is no effect, however sure it is."""
_FEW = 9
"""With fewer events in all nothing but a great difference would be seen."""
_EXACT = 500  # events up to which probabilities are added up


class Verdict(StrEnum):
    """What can be said of something before and after."""

    NEW = "new"
    GONE = "gone"
    UP = "up"
    DOWN = "down"
    CHANGED = "changed"  # of what is no number
    SAME = "same"  # or by so little that it may be chance
    FEW = "few"  # samples, too few to tell


def of_percentiles(before: Histogram, after: Histogram, fraction: float) -> Verdict:
    """Whether a percentile differs: how the values above that of both together fall on the two."""
    both = np.cumsum(before.counts + after.counts)
    at = int(np.searchsorted(both, fraction * both[-1]))
    above = [int(one.counts[at + 1 :].sum()) for one in (before, after)]
    verdict = of_rates(above[0], before.counts.sum(), above[1], after.counts.sum())
    was, is_now = before.percentile(fraction), after.percentile(fraction)
    if verdict in (Verdict.SAME, Verdict.FEW) or was is None or is_now is None:
        return Verdict.FEW if sum(above) < _FEW else verdict
    if verdict in (Verdict.NEW, Verdict.UP):
        return Verdict.UP if is_now > was * _LEAST else Verdict.SAME
    return Verdict.DOWN if was > is_now * _LEAST else Verdict.SAME


def of_rates(before: int, span_before: float, after: int, span_after: float) -> Verdict:
    """Whether events came more often: how they fall on two spans (of time, of samples) that both have some length."""
    events, spans = before + after, span_before + span_after
    if not events or not span_before or not span_after:
        return Verdict.FEW if events else Verdict.SAME
    if _tail(events, span_after / spans, after) > NormalDist().cdf(-_SIGMAS):
        return Verdict.FEW if events < _FEW else Verdict.SAME
    if not before or not after:
        return Verdict.GONE if before else Verdict.NEW
    ratio = (after / span_after) / (before / span_before)
    return Verdict.UP if ratio > _LEAST else Verdict.DOWN if ratio < 1 / _LEAST else Verdict.SAME


def _tail(events: int, share: float, found: int) -> float:
    """How likely a share of the spans has so many events, or a number still further from what it should have."""
    expected = events * share
    if events > _EXACT:
        return NormalDist().cdf((0.5 - abs(found - expected)) / sqrt(expected * (1 - share)))
    side = range(found, events + 1) if found > expected else range(found + 1)
    return sum(comb(events, n) * share**n * (1 - share) ** (events - n) for n in side)
