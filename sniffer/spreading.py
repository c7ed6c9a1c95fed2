"""Which connections go where, when several tasks or processes share a capture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafkascope.sniffer.columns import I64, Segments
from kafkascope.sniffer.mixing import mixed_columns


def partition_of(segments: Segments, partitions: int) -> I64:
    """Partition of each segment: the same for both directions of a connection, and in every process.

    It hangs on the side with the higher port alone, mostly the client: what it says to two addresses, of which one is
    the other's translation, is in one partition (`sniffer.translation`).
    """
    with np.errstate(over="ignore"):
        source = mixed_columns(segments.source_high, segments.source_low, segments.source_port.astype(np.uint64))
        target = mixed_columns(segments.target_high, segments.target_low, segments.target_port.astype(np.uint64))
        of = np.where(segments.source_port > segments.target_port, source, target)
        of = np.where(segments.source_port == segments.target_port, source + target, of)
        of ^= of >> np.uint64(29)
    return (of % np.uint64(partitions)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Share:
    """Some of the connections of a capture: those of one partition."""

    number: int = 0
    of: int = 1

    def cut(self, segments: Segments) -> Segments:
        """The segments of these connections."""
        if self.of == 1:
            return segments
        return segments.rows(np.flatnonzero(partition_of(segments, self.of) == self.number))


EVERY_CONNECTION = Share()
