"""The bytes of exchanges, for who shows them: two columns behind those of the table of exchanges."""

from __future__ import annotations

import pyarrow as pa

from kafkascope.sniffer.columns import I64, Exchanges

REQUEST_FRAME = pa.field("request_frame", pa.large_binary())
RESPONSE_FRAME = pa.field("response_frame", pa.large_binary())
FRAMES = (REQUEST_FRAME, RESPONSE_FRAME)


def with_frames(table: pa.Table, exchanges: Exchanges) -> pa.Table:
    """The table with the frame of each side, size prefix first, as far as it was captured; null: there is none."""
    sides = (
        (REQUEST_FRAME, exchanges.request_bytes, exchanges.request_start, exchanges.request_end),
        (RESPONSE_FRAME, exchanges.response_bytes, exchanges.response_start, exchanges.response_end),
    )
    for field, size, start, end in sides:
        table = table.append_column(field, _frames(exchanges, size, start, end))
    return table


def _frames(exchanges: Exchanges, size: I64, start: I64, end: I64) -> pa.Array:
    frames = [
        None if first < 0 else (on_wire - 4).to_bytes(4, "big", signed=True) + exchanges.data[first:last].tobytes()
        for on_wire, first, last in zip(size.tolist(), start.tolist(), end.tolist(), strict=True)
    ]
    return pa.array(frames, pa.large_binary())
