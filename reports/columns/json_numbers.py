"""Whole numbers out of JSON as text, by a kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kafkascope.decoders.kernels import borrowing, kernel
from kafkascope.reports.columns.arrow import one_array
from kafkascope.sniffer.columns import I64, U8, Bool

_QUOTE, _MINUS, _ZERO, _NINE = 0x22, 0x2D, 0x30, 0x39
_BEHIND = (0x2C, 0x7D)  # , }
_MOST_DIGITS = 18  # which fit into 64 bits


def whole_numbers(texts: pa.ChunkedArray, names: Sequence[str]) -> list[pa.Array]:
    """For each name the first whole number, of 18 digits at most, that a field of this name has in each text.

    A text may end anywhere, and a number counts only if it is seen what stands behind it. Null: there is none. Quotes
    inside of strings are escaped in JSON, so what looks like a field is one.
    """
    values = one_array(texts).cast(pa.large_string())
    offsets = np.frombuffer(values.buffers()[1], np.int64, len(values) + 1, values.offset * 8)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    labels = [f'"{name}": '.encode() for name in names]
    ends = np.cumsum([0, *map(len, labels)])
    found = np.zeros((len(names), len(values)), np.bool_)
    numbers = np.zeros((len(names), len(values)), np.int64)
    begins = np.isin(np.arange(256), [label[1] for label in labels])
    _find(data, offsets, np.frombuffer(b"".join(labels), np.uint8), ends, begins, found, numbers)
    buffers = zip(np.packbits(found, axis=1, bitorder="little"), numbers, strict=True)
    return [pa.Array.from_buffers(pa.int64(), len(values), [*map(pa.py_buffer, pair)]) for pair in buffers]


@kernel
def _find(data: U8, offsets: I64, labels: U8, ends: I64, begins: Bool, found: Bool, numbers: I64) -> None:
    """begins: whether a name begins with this byte; most fields are passed over by that alone."""
    for row in range(offsets.shape[0] - 1):
        end = offsets[row + 1]
        missing = found.shape[0]
        for at in range(offsets[row], end - 1):
            if data[at] != _QUOTE or not begins[data[at + 1]]:
                continue
            for name in range(found.shape[0]):
                size = ends[name + 1] - ends[name]
                if found[name, row] or at + size > end:
                    continue
                same = 1  # the quote
                while same < size and data[at + same] == labels[ends[name] + same]:
                    same += 1
                if same == size:
                    found[name, row], numbers[name, row] = _number(data, at + size, end)
                    missing -= found[name, row]
            if not missing:
                break


@borrowing
def _number(data: U8, at: int, end: int) -> tuple[bool, np.int64]:
    """Whether a whole number stands here, and which."""
    negative = at < end and data[at] == _MINUS
    at += negative
    first = at
    value = np.int64(0)
    while at < end and at - first < _MOST_DIGITS and _ZERO <= data[at] <= _NINE:
        value = value * 10 + data[at] - _ZERO
        at += 1
    if at == first or at >= end or data[at] not in _BEHIND:
        return False, np.int64(0)
    return True, -value if negative else value
