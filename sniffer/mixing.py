"""Hashes of 64-bit words, the same in every process: the finalizer of splitmix64 (Steele, Lea, Flood, 2014)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkascope.decoders.kernels import borrowing
from kafkascope.sniffer.columns import U64


def _mixed(value: Any) -> Any:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


mixed_word = borrowing(_mixed)
"""In kernels: the hash of one word."""


def mixed_columns(*columns: U64) -> U64:
    """The hash of each row of some columns."""
    value = np.full(len(columns[0]), 0x9E3779B97F4A7C15, np.uint64)
    for column in columns:
        value = _mixed(value ^ column)
    return value
