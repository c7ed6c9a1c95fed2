"""Rows as columns, and the bytes that outlast their batch."""

from __future__ import annotations

import numpy as np

from kafkascope.decoders.kernels import allocating, copy_bytes, kernel
from kafkascope.sniffer.columns import I8, I64, U8
from kafkascope.sniffer.reassembly.state import Integer, Records


@allocating
def arrange(
    rows: Records,
    count: Integer,
    before: Integer,
    order: I64,
    by_id: I64,
    connection: I64,
    direction: I8,
    offset: I64,
    start: I64,
    length: I64,
    number: I64,
    at: I64,
    acked: I64,
    acked_at: I64,
    round_trip: I64,
    least_round_trip: I64,
    heard: I64,
    heard_at: I64,
    turn: I64,
) -> None:
    """Write rows as columns, by connection and direction, each stream's in the order in which they were made.

    ``by_id`` has the ordinals of the batch's connections in the order of their ids; ``before`` is how many rows there
    were in batches before.
    """
    streams = 2 * by_id.shape[0]
    heads = np.zeros(streams + 1, np.int64)
    for i in range(count):
        heads[rows[i].stream] += 1
    place = np.int64(0)
    for k in range(by_id.shape[0]):
        for stream in (2 * by_id[k], 2 * by_id[k] + 1):
            held = heads[stream]
            heads[stream] = place
            place += held
    for i in range(count):
        row = rows[i]
        place = heads[row.stream]
        heads[row.stream] += 1
        connection[place] = order[row.stream >> 1]
        direction[place] = row.stream & 1
        offset[place] = row.offset
        start[place] = row.start
        length[place] = row.length
        number[place] = row.number
        at[place] = row.at
        acked[place] = row.acked
        acked_at[place] = row.acked_at
        round_trip[place] = row.round_trip
        least_round_trip[place] = row.least_round_trip
        heard[place] = row.heard
        heard_at[place] = row.heard_at
        turn[place] = before + i


@kernel
def gather_held(held: U8, batch_size: Integer, start: I64, length: I64, into: U8) -> None:
    """Copy the held bytes that rows point to, and point the rows at the copy, which follows the batch."""
    filled = np.int64(0)
    for i in range(start.shape[0]):
        if start[i] >= batch_size:
            copy_bytes(held, start[i] - batch_size, length[i], into, filled)
            start[i] = batch_size + filled
            filled += length[i]


@kernel
def hold_pieces(
    pieces: Records, piece_slots: Integer, from_batch: bool, data: U8, into: U8, filled: Integer
) -> Integer:
    """Copy the bytes of pending pieces, those in the batch or those held already; return the end of what is filled."""
    for i in range(piece_slots):
        piece = pieces[i]
        if piece.used and (piece.held == 0) == from_batch:
            copy_bytes(data, piece.start, piece.captured, into, filled)
            piece.start = filled
            piece.held = 1
            filled += piece.captured
    return filled
