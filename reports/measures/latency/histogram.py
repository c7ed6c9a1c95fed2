"""Durations in buckets that grow by a constant ratio, so that histograms add up and percentiles keep their precision.

The buckets are those of DDSketch's logarithmic mapping (Masson, Rim, Lee: DDSketch, VLDB 2019): a percentile read from
them is within `ERROR` of the value at that rank. Durations of up to a microsecond share bucket 0, which stands for 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafkascope.decoders.kernels import kernel
from kafkascope.sniffer.columns import I32, I64
from kafkascope.sniffer.units import MILLISECOND_NS

ERROR = 0.01
"""Largest relative error of a percentile; the highest value is kept as it was."""

_FINEST = 1_000  # nanoseconds: what a capture's clock tells at best
_GROWTH = (1 + ERROR) / (1 - ERROR)
_BUCKETS_PER_LOG = 1 / math.log(_GROWTH)
BUCKETS = 1 + math.ceil(math.log((2**63 - 1) / _FINEST, _GROWTH))
# Highest duration of each bucket. Looked up rather than computed: every machine then puts a duration into the same one.
_HIGHEST: I64 = np.array(
    [_FINEST, *(int(min(_GROWTH**bucket * _FINEST, 2**63 - 1)) for bucket in range(1, BUCKETS))], np.int64
)
_VALUE_MS: NDArray[np.float64] = np.array(
    [0.0, *(2 * _GROWTH**bucket / (1 + _GROWTH) * _FINEST / MILLISECOND_NS for bucket in range(1, BUCKETS))]
)


def buckets_of(nanoseconds: I64) -> I32:
    """The bucket of each duration; that of a negative one is 0."""
    buckets = np.zeros(len(nanoseconds), np.int32)
    _look_up(nanoseconds, _HIGHEST, buckets)
    return buckets


def value_of(bucket: int) -> float:
    """Milliseconds that a bucket stands for, within `ERROR`."""
    return float(_VALUE_MS[bucket])


@kernel
def _look_up(nanoseconds: I64, highest: I64, buckets: I32) -> None:
    for row in range(nanoseconds.shape[0]):
        length = nanoseconds[row]
        if length <= highest[0]:
            continue
        bucket = int(math.log(length / _FINEST) * _BUCKETS_PER_LOG)  # what a logarithm may have wrong, the table mends
        while highest[bucket] < length:
            bucket += 1
        while highest[bucket - 1] >= length:
            bucket -= 1
        buckets[row] = bucket


def percentiles(
    group: I64, bucket: I32 | I64, count: I64, highest_ms: NDArray[np.float64], fractions: Sequence[float]
) -> NDArray[np.float64]:
    """Milliseconds at some fractions of several histograms at once, f64[fractions, groups].

    group, bucket and count are rows of the histograms, sorted by group (0, 1, ... without a gap) and bucket;
    highest_ms is the highest value of each group. A percentile is the value at rank ceil(fraction * values).
    """
    groups = len(highest_ms)
    result = np.zeros((len(fractions), groups))
    if not groups:
        return result
    total = np.bincount(group, count, groups).astype(np.int64)
    up_to = np.cumsum(count)
    before = np.concatenate(([0], np.cumsum(total)[:-1]))
    for row, fraction in enumerate(fractions):
        rank = np.clip(np.ceil(fraction * total).astype(np.int64), 1, total)
        at = np.searchsorted(up_to, before + rank, side="left")
        result[row] = np.minimum(_VALUE_MS[bucket[at]], highest_ms)
    return result


@dataclass(slots=True)
class Histogram:
    """One histogram of durations, all of its buckets at hand."""

    counts: I64 = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))
    highest_ms: float = 0.0

    def add(self, milliseconds: NDArray[np.float64]) -> None:
        """Count durations."""
        if len(milliseconds):
            nanoseconds = np.rint(milliseconds * MILLISECOND_NS).astype(np.int64)
            self.counts += np.bincount(buckets_of(nanoseconds), minlength=BUCKETS)
            self.highest_ms = max(self.highest_ms, float(milliseconds.max()))

    def merge(self, other: Histogram) -> None:
        """Add the other's durations."""
        self.counts += other.counts
        self.highest_ms = max(self.highest_ms, other.highest_ms)

    def percentile(self, fraction: float) -> float | None:
        """Milliseconds at a fraction of all durations, within `ERROR`; None without durations."""
        used = np.flatnonzero(self.counts)
        if not len(used):
            return None
        group = np.zeros(len(used), np.int64)
        highest = np.array([self.highest_ms])
        found = percentiles(group, used.astype(np.int32), self.counts[used], highest, [fraction])
        return round(float(found[0, 0]), 4)
