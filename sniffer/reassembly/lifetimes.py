"""Where connections begin and end, and the spans of time between."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkascope.decoders.kernels import borrowing, kernel
from kafkascope.sniffer import health
from kafkascope.sniffer.columns import I64, NO_TIME
from kafkascope.sniffer.reassembly.bounds import FORGOTTEN_TIME, IDLE_TIME, REUSE_TIME, UNANSWERED_TIME, elapsed, unwrap
from kafkascope.sniffer.reassembly.firsts import forget_firsts
from kafkascope.sniffer.reassembly.state import (
    BEFORE,
    BY_FIN,
    ESTABLISHED,
    KINDS,
    NO_RANK,
    OPEN,
    REFUSED,
    UNANSWERED,
    UNKNOWN,
    Integer,
    Record,
    State,
)
from kafkascope.sniffer.reassembly.streams import give_up, waits_longest
from kafkascope.sniffer.reassembly.table import leave


@borrowing
def _beginning(connection: Record, target: Record) -> Integer:
    """How a connection began; target is the stream of the side that the SYN was sent to."""
    if connection.opened_by == 0:
        return BEFORE
    if connection.is_refused:
        return REFUSED
    return UNANSWERED if target.known == UNKNOWN else ESTABLISHED


@borrowing
def _tell(state: State, slot: Integer) -> None:
    """Write what was counted in the span in hand, a row for each side."""
    totals, connection = state.totals[0], state.connections[slot]
    last = max(state.spans[2 * slot].last, state.spans[2 * slot + 1].last)
    for side in range(2):
        row, flow = state.spans[2 * slot + side], state.flows[2 * slot + side]
        packets = connection.packets_0 if side else connection.packets_1
        payload = connection.bytes_1 if side else connection.bytes_0
        is_told = packets > 0 and health.shows_acknowledgements(flow, state.flows[2 * slot + 1 - side])
        health.end_span(row, flow, last, is_told or payload == 0)
        row.connection = connection.id
        row.side = side
        state.told[totals.told] = row
        totals.told += 1


@borrowing
def enter_span(state: State, slot: Integer, at: Integer) -> None:
    """Begin the span that a time lies in; the one in hand is over, unless it had no time yet."""
    row, other = state.spans[2 * slot], state.spans[2 * slot + 1]
    if row.at == NO_TIME:
        row.at = other.at = at - at % health.SPAN
    else:
        _tell(state, slot)
        health.begin_span(row, at)
        health.begin_span(other, at)


@borrowing
def _end(state: State, slot: Integer) -> None:
    """Emit what is pending of a connection, with the gaps in it, and move it to those that ended."""
    totals = state.totals[0]
    connection = state.connections[slot]
    left = 3  # a bit for each side that may have more
    while left > 0:
        side: Integer = waits_longest(state, slot) if left == 3 else np.int64(left >> 1)
        stream = state.streams[2 * slot + side]
        if stream.first_piece >= 0:
            first = state.pieces[stream.first_piece]
            proof, number, at = first.position, first.number, first.at
            if stream.proof >= proof:
                number, at = stream.proof_number, stream.proof_at
        elif stream.fin > 0:
            proof, number, at = stream.fin, stream.fin_number, stream.fin_at
        else:
            proof, number, at = stream.acked, stream.acked_number, stream.acked_at
        before = stream.next
        if (connection.packets_1 if side else connection.packets_0) > 0:
            give_up(state, slot, side, proof, number, at)
        if stream.next == before:
            left -= 1 << side
    forget_firsts(state, 2 * slot)
    forget_firsts(state, 2 * slot + 1)
    _tell(state, slot)
    connection.beginning = _beginning(connection, state.streams[2 * slot + 1 - connection.first_side])
    connection.base_0 = state.streams[2 * slot].base & 0xFFFFFFFF
    connection.base_1 = state.streams[2 * slot + 1].base & 0xFFFFFFFF
    if connection.how_closed == OPEN and (connection.packets_0 == 0 or connection.packets_1 == 0):
        stream = state.streams[2 * slot + (connection.packets_0 == 0)]
        if stream.fin > 0:  # the other side's may be there as well: it is not in the capture
            connection.how_closed = BY_FIN
            connection.closed = stream.fin_at
    state.ended[totals.ended] = connection
    for side in range(2):
        state.ended_flows[2 * totals.ended + side] = state.flows[2 * slot + side]
    for kind in range(KINDS):
        if connection.marks < 0:
            state.ended_marks[totals.ended, kind].count = 0
        else:
            state.ended_marks[totals.ended, kind] = state.marks[connection.marks, kind]
    totals.ended += 1
    if connection.marks >= 0:
        state.marks[connection.marks, 0].value = totals.free_marks
        totals.free_marks = connection.marks
    for index in range(2 * slot, 2 * slot + 2):
        ring = state.streams[index].ring
        if ring >= 0:
            state.recent[ring, 0] = totals.free_ring
            totals.free_ring = ring
    leave(state, slot)
    connection.used = 0
    connection.next_free = totals.free_slot
    totals.free_slot = slot
    totals.live -= 1


@kernel
def end_connections(state: State, slots: I64) -> None:
    """End the connections in these slots."""
    for index in range(slots.shape[0]):
        _end(state, slots[index])


@kernel
def sweep(state: State, over: I64) -> Integer:
    """Fill an array with slots of connections to which no packet can belong any more; return how many there are in it.

    The next sweep goes on behind them. The clock is the earliest time among the segments since the latest sweep: one
    packet with a wrong time stamp does not end the others' connections.
    """
    totals = state.totals[0]
    count = 0
    for _ in range(totals.slots):
        slot = totals.sweep_from
        totals.sweep_from = (slot + 1) % totals.slots
        connection = state.connections[slot]
        if not connection.used:
            continue
        if is_over(connection, totals.earliest):
            over[count] = slot
            count += 1
            if count == over.shape[0]:
                break
        elif elapsed(totals.earliest, connection.now) > FORGOTTEN_TIME:
            forget_firsts(state, 2 * slot)
            forget_firsts(state, 2 * slot + 1)
    totals.since_sweep = 0
    totals.earliest = NO_TIME
    return count


@borrowing
def is_over(connection: Record, at: Integer) -> Any:
    """Whether a packet at this time would begin another connection on the same ports."""
    if connection.how_closed != OPEN and elapsed(at, connection.closed) >= REUSE_TIME:
        return True
    silence = elapsed(at, connection.now)
    if silence >= IDLE_TIME:
        return True
    one_sided = connection.packets_0 == 0 or connection.packets_1 == 0
    return one_sided and connection.bytes_0 + connection.bytes_1 == 0 and silence >= UNANSWERED_TIME


@borrowing
def opens_anew(connection: Record, stream: Record, other: Record, seq: Integer, ack: Integer, with_ack: bool) -> Any:
    """Whether a SYN begins another connection, rather than being one more copy of this connection's."""
    if stream.known != UNKNOWN:
        return (stream.base & 0xFFFFFFFF) != ((seq + 1) & 0xFFFFFFFF)
    if with_ack and other.known != UNKNOWN:
        acked = unwrap(ack, other.next)
        return acked < other.base or acked > other.highest
    return connection.how_closed != OPEN or connection.bytes_0 + connection.bytes_1 > 0


@borrowing
def begin_connection(state: State, slot: Integer, side: Integer, number: Integer, at: Integer) -> None:
    """Make a slot, which has two endpoints, a connection of which nothing was seen before this packet."""
    connection = state.connections[slot]
    connection.used = 1
    connection.id = number
    connection.first_side = side
    connection.opened = NO_TIME
    connection.opened_by = 0
    connection.first_seen = at
    connection.now = at
    connection.closed = NO_TIME
    connection.how_closed = OPEN
    connection.packets = 0
    connection.packets_0 = 0
    connection.packets_1 = 0
    connection.bytes_0 = 0
    connection.bytes_1 = 0
    connection.retransmits = 0
    connection.out_of_order = 0
    connection.gap_bytes = 0
    connection.reset_side = -1
    connection.closing_side = -1
    connection.is_refused = 0
    connection.beginning = BEFORE
    connection.batch = -1
    connection.ordinal = -1
    connection.marks = -1
    for index in range(2 * slot, 2 * slot + 2):
        stream = state.streams[index]
        stream.known = UNKNOWN
        stream.base = 0
        stream.next = 0
        stream.highest = 0
        stream.fin = 0
        stream.acked = 0
        stream.proof = 0
        stream.first_piece = -1
        stream.last_piece = -1
        stream.piece_count = 0
        stream.piece_bytes = 0
        stream.gap_start = 0
        stream.gap_end = 0
        stream.wild_count = 0
        stream.recent_next = 0
        stream.firsts = -1
        stream.firsts_fresh = 0
        stream.ring = -1
        stream.identity = 0
        stream.rank = NO_RANK
        stream.rank_at = NO_TIME
        stream.begun_at = NO_TIME
        health.begin(state.flows[index])
        health.begin_span(state.spans[index], at)
