"""Which connections go where, when several tasks or processes share a capture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kafkascope.sniffer.columns import I64, U64, Segments


def partition_of(segments: Segments, partitions: int) -> I64:
    """Partition of each segment: the same for both directions of a connection, and in every process.

    It hangs on the side with the higher port alone, mostly the client: what it says to two addresses, of which one is
    the other's translation, is in one partition (`sniffer.translation`).
    """
    with np.errstate(over="ignore"):
        source = _mix(segments.source_high, segments.source_low, segments.source_port.astype(np.uint64))
        target = _mix(segments.target_high, segments.target_low, segments.target_port.astype(np.uint64))
        of = np.where(segments.source_port > segments.target_port, source, target)
        of = np.where(segments.source_port == segments.target_port, source + target, of)
        of ^= of >> np.uint64(29)
    return (of % np.uint64(partitions)).astype(np.int64)


def _mix(high: U64, low: U64, port: U64) -> U64:
    """A hash of an endpoint: three rounds of the finalizer of splitmix64 (Steele, Lea, Flood, 2014)."""
    value = np.full(len(high), 0x9E3779B97F4A7C15, np.uint64)
    for part in (high, low, port):
        value = value ^ part
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        value = value ^ (value >> np.uint64(31))
    return value


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
