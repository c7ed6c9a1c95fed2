"""Tenths of a second in which something was sent, as `tcp_health` has them: one bit each, of a span of ten seconds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import one_array
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.units import SECOND_NS

TENTH_NS = SECOND_NS // 10


def tenths(at: pa.ChunkedArray, bits: pa.ChunkedArray) -> tuple[I64, I64]:
    """Rows, and the tenths since 1970 that are set in each: of when spans begin (ns), and their bits."""
    column = one_array(bits)
    if not len(column):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    packed = np.frombuffer(b"".join(column.to_pylist()), np.uint8).reshape(len(column), -1)
    row, tenth = np.nonzero(np.unpackbits(packed, axis=1, bitorder="little"))
    begin = pc.cast(one_array(at), pa.int64()).to_numpy()
    return row, begin[row] // TENTH_NS + tenth
