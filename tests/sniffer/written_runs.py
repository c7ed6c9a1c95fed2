"""Runs written by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kafkascope.sniffer.columns import NO_TIME, Runs


class Run(NamedTuple):
    """Bytes of a stream that one packet brought, or the length of a gap."""

    connection: int
    direction: int
    offset: int
    part: bytes | int
    number: int


def runs(written: Iterable[Run]) -> Runs:
    """A batch of them, in the order in which streams are read; each packet came a microsecond after the one before."""
    rows = sorted(written, key=lambda run: run[:3])
    data = [run.part if isinstance(run.part, bytes) else b"" for run in rows]
    sizes = np.array([len(part) for part in data], np.int64)
    numbers = np.array([run.number for run in rows], np.int64)
    none, never = np.full(len(rows), -1), np.full(len(rows), NO_TIME)
    return Runs(
        np.frombuffer(b"".join(data), np.uint8),
        np.array([run.connection for run in rows], np.int64),
        np.array([run.direction for run in rows], np.int8),
        np.array([run.offset for run in rows], np.int64),
        np.where([isinstance(run.part, bytes) for run in rows], np.cumsum(sizes) - sizes, -1),
        np.array([run.part if isinstance(run.part, int) else len(run.part) for run in rows], np.int64),
        numbers,
        numbers * 1000,
        numbers,
        none,
        never,
        never,
        never,
        none,
        never,
    )
