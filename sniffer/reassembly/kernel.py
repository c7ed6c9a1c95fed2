"""The loop over segments: each finds its connection, moves it on, and is counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkascope.decoders.kernels import borrowing, kernel
from kafkascope.sniffer import health
from kafkascope.sniffer.columns import ACK, I8, I32, I64, NO_TIME, RST, SYN, U8, U16, U32, U64
from kafkascope.sniffer.reassembly.bounds import SOON, SWEEP_SEGMENTS, elapsed, unwrap
from kafkascope.sniffer.reassembly.copies import brings_more, comes_late, is_of_before, may_be_copy
from kafkascope.sniffer.reassembly.lifetimes import begin_connection, enter_span, is_over, opens_anew
from kafkascope.sniffer.reassembly.marks import captured_twice
from kafkascope.sniffer.reassembly.segments import take
from kafkascope.sniffer.reassembly.state import (
    DONE,
    NEEDS_END,
    NEEDS_FEWER,
    NEEDS_ROOM,
    NEEDS_SWEEP,
    Integer,
    Record,
    State,
)
from kafkascope.sniffer.reassembly.streams import judge, waits_longest
from kafkascope.sniffer.reassembly.table import Ends, add, find


@borrowing
def _has_room(state: State) -> Any:
    """Whether one more connection finds room, with all that it may have, and one that ends."""
    totals = state.totals[0]
    return (
        2 * (totals.live + 1) <= state.table.shape[0]
        and totals.slots < state.connections.shape[0]
        and totals.ended < state.ended.shape[0]
        and (totals.free_firsts >= 0 or totals.firsts < state.firsts.shape[0])
        and (totals.free_ring >= 0 or totals.rings < state.recent.shape[0])
        and (totals.free_marks >= 0 or totals.marks < state.marks.shape[0])
    )


@borrowing
def _has_room_for_rows(state: State, slot: Integer) -> Any:
    """Whether all rows find room that a segment can bring about.

    It may fill every hole between pending pieces, release all of them (each has at most two rows and a gap before it),
    and end the connection whose ports it uses anew.
    """
    totals = state.totals[0]
    pending = np.int64(0)
    if slot >= 0:
        pending = state.streams[2 * slot].piece_count + state.streams[2 * slot + 1].piece_count
    return (
        totals.rows + 6 * pending + 16 <= state.rows.shape[0]
        and totals.pieces + pending + 2 <= state.pieces.shape[0]
        and totals.ordinals + 2 <= state.order.shape[0]
        and totals.told + 2 <= state.told.shape[0]
    )


@borrowing
def _goes_by(stream: Record, rank: Integer, at: Integer) -> None:
    """Note that a stream goes by the file of this rank, up to this time."""
    if rank != stream.rank:
        stream.rank = rank
        stream.rank_at = at
    elif at > stream.rank_at:
        stream.rank_at = at


@borrowing
def _is_reversed(
    source_high: Integer,
    target_high: Integer,
    source_low: Integer,
    target_low: Integer,
    source: Integer,
    target: Integer,
) -> Any:
    """Whether the source of a segment is side 1: the smaller of two endpoints is side 0."""
    if source_high != target_high:
        return source_high > target_high
    if source_low != target_low:
        return source_low > target_low
    return source > target


@kernel
def absorb(
    state: State,
    data: U8,
    kept: U8,
    begin: Integer,
    number: I64,
    at: I64,
    source_high: U64,
    source_low: U64,
    target_high: U64,
    target_low: U64,
    source_port: U16,
    target_port: U16,
    seq: U32,
    ack: U32,
    flags: U8,
    start: I64,
    captured: I32,
    length: I32,
    window: U16,
    scale: I8,
    sacked: I32,
    dsack: U32,
    ident: U16,
    rank: I8,
) -> tuple[Integer, Integer]:
    """Take segments from index ``begin`` on; return the index of the first one not taken, and why it was not.

    data: the bytes of the batch; kept: those that first copies of earlier batches point to.
    """
    totals = state.totals[0]
    for i in range(begin, number.shape[0]):
        if totals.since_sweep >= max(SWEEP_SEGMENTS, totals.slots // 4):
            return i, NEEDS_SWEEP
        if not _has_room(state):
            return i, NEEDS_ROOM
        side = np.int64(
            _is_reversed(source_high[i], target_high[i], source_low[i], target_low[i], source_port[i], target_port[i])
        )
        source, target = np.uint64(source_port[i]), np.uint64(target_port[i])
        if side:
            ports = target << np.uint64(16) | source
            ends = Ends(target_high[i], target_low[i], source_high[i], source_low[i], ports)
        else:
            ports = source << np.uint64(16) | target
            ends = Ends(source_high[i], source_low[i], target_high[i], target_low[i], ports)
        slot = find(state, ends)
        if not _has_room_for_rows(state, slot):
            return i, NEEDS_ROOM
        is_copy = bool(totals.window > 0 and slot >= 0 and may_be_copy(state, 2 * slot + side, rank[i], at[i]))
        if slot < 0:
            if totals.live >= totals.most_live:
                return i, NEEDS_FEWER
            slot = add(state, ends)
            begin_connection(state, slot, side, number[i], at[i])
        elif is_over(state.connections[slot], at[i]) or (
            flags[i] & (SYN | RST) == SYN
            and not is_copy
            and not comes_late(state, slot, side, rank[i], at[i])
            and opens_anew(
                state.connections[slot],
                state.streams[2 * slot + side],
                state.streams[2 * slot + 1 - side],
                np.int64(seq[i]),
                np.int64(ack[i]),
                flags[i] & ACK != 0,
            )
        ):
            totals.ending = slot
            return i, NEEDS_END
        totals.since_sweep += 1
        if totals.earliest == NO_TIME or at[i] < totals.earliest:
            totals.earliest = at[i]
        connection = state.connections[slot]
        stream = state.streams[2 * slot + side]
        other = state.streams[2 * slot + 1 - side]
        wire = np.int64(max(length[i], 0))
        if (totals.window > 0 and is_of_before(connection, stream, other, rank[i], at[i])) or (
            is_copy and not brings_more(state, slot, side, np.int64(seq[i]), np.int64(flags[i]), wire, at[i])
        ):
            totals.copies += 1
            continue
        if not is_copy:
            _goes_by(stream, rank[i], at[i])
        connection.packets += 1
        if side:
            connection.packets_1 += 1
        else:
            connection.packets_0 += 1
        connection.now = max(connection.now, at[i])
        span = state.spans[2 * slot].at
        if not is_copy and at[i] != NO_TIME and (span == NO_TIME or at[i] - span >= health.SPAN):
            enter_span(state, slot, at[i])
        highest, fresh = stream.highest, connection.bytes_0 + connection.bytes_1
        retransmits, out_of_order = connection.retransmits, connection.out_of_order
        doubles = captured_twice(state.marks, connection)
        take(
            state,
            data,
            kept,
            slot,
            side,
            np.int64(seq[i]),
            np.int64(ack[i]),
            np.int64(flags[i]),
            start[i],
            max(min(np.int64(captured[i]), wire, totals.batch_size - start[i]), 0),
            wire,
            np.int64(ident[i]),
            number[i],
            at[i],
            is_copy,
        )
        if not is_copy:
            flow = state.flows[2 * slot + side]
            doubled = captured_twice(state.marks, connection)
            health.count_segment(
                connection,
                stream,
                other,
                state.spans[2 * slot + side],
                state.spans[2 * slot + 1 - side],
                flow,
                state.flows[2 * slot + 1 - side],
                unwrap(np.int64(seq[i]), stream.next),
                np.int64(ack[i]),
                np.int64(flags[i]),
                wire,
                np.int64(window[i]),
                np.int64(scale[i]),
                np.int64(sacked[i]),
                np.int64(dsack[i]),
                number[i],
                at[i],
                connection.bytes_0 + connection.bytes_1 - fresh,
                highest,
                connection.retransmits > retransmits,
                connection.out_of_order > out_of_order,
                doubled > doubles,
                doubled > 0 and elapsed(at[i], flow.ack_at) <= SOON,
            )
        if stream.first_piece >= 0 or stream.proof > 0 or other.first_piece >= 0 or other.proof > 0:
            longest = waits_longest(state, slot)
            judge(state, slot, longest)
            judge(state, slot, 1 - longest)
    return number.shape[0], DONE
