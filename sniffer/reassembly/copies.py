"""Packets that were captured before, at the same point or at another one."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkascope.decoders.kernels import borrowing
from kafkascope.sniffer.columns import ACK, FIN, NO_TIME, RST, SYN
from kafkascope.sniffer.reassembly.bounds import RECENT, SOON, WINDOW, elapsed, unwrap
from kafkascope.sniffer.reassembly.lifetimes import opens_anew
from kafkascope.sniffer.reassembly.state import ASSUMED, NO_RANK, OPEN, UNKNOWN, Integer, Record, State


@borrowing
def identity_of(seq: Integer, ack: Integer, flags: Integer, length: Integer, ident: Integer, at: Integer) -> Integer:
    """What tells a packet from others of its stream in 32 bits, and its time in microseconds in the 32 below."""
    # Unsigned: the products overflow, which is not defined for signed numbers.
    mixed = (np.uint64(seq) << np.uint64(32) | np.uint64(ack)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed = (
        mixed + (np.uint64(ident) << np.uint64(40) | np.uint64(length) << np.uint64(8) | np.uint64(flags))
    ) * np.uint64(0x165667B19E3779F9)
    mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed << np.uint64(32)) | ((at // 1000) & 0xFFFFFFFF)


@borrowing
def _age(other: Integer, identity: Integer) -> Any:
    """Microseconds from one segment of a stream to another that looks alike, if these are few; else -1."""
    if (other ^ identity) >> 32 != 0:
        return -1
    distance = (identity - other) & 0xFFFFFFFF
    if distance <= SOON // 1000:
        return distance
    return 0 if distance >= 0x100000000 - SOON // 1000 else -1  # the other one is the later


@borrowing
def seen_before(state: State, index: Integer, identity: Integer) -> Any:
    """Microseconds since one of the stream's latest segments looked just like this one; -1: none did shortly before."""
    stream = state.streams[index]
    if stream.ring < 0:
        return _age(stream.identity, identity)
    least = np.int64(-1)
    for place in range(RECENT):
        age = _age(state.recent[stream.ring, place], identity)
        if age >= 0 and (least < 0 or age < least):
            least = age
    return least


@borrowing
def was_missed(flow: Record, position: Integer, age: Integer, at: Integer) -> Any:
    """Whether the other side has shown a loss of bytes from a position on, so many microseconds ago or less."""
    if at == NO_TIME or flow.missing_at == NO_TIME or position >= flow.recovery:
        return False
    return at - flow.missing_at >= 0 and (at - flow.missing_at) // 1000 <= age


@borrowing
def remember(state: State, index: Integer, identity: Integer) -> None:
    """Keep what tells a segment from others. A ring is for the second one on: many streams never have two."""
    stream = state.streams[index]
    if stream.ring < 0:
        if stream.recent_next == 0:
            stream.identity = identity
            stream.recent_next = 1
            return
        totals = state.totals[0]
        ring = totals.free_ring
        if ring >= 0:
            totals.free_ring = state.recent[ring, 0]
        else:
            ring = totals.rings
            totals.rings += 1
        stream.ring = ring
        state.recent[ring, 0] = stream.identity
        for place in range(1, RECENT):
            state.recent[ring, place] = 0
    state.recent[stream.ring, stream.recent_next] = identity
    stream.recent_next = (stream.recent_next + 1) % RECENT


@borrowing
def may_be_copy(state: State, index: Integer, rank: Integer, at: Integer) -> Any:
    """Whether a stream goes by a file of lower rank than a segment's, and that one was not silent when it was sent."""
    stream = state.streams[index]
    return rank > stream.rank and elapsed(at, stream.rank_at) <= state.totals[0].window


@borrowing
def comes_late(state: State, slot: Integer, side: Integer, rank: Integer, at: Integer) -> Any:
    """Whether a segment, the first of its stream, goes before the answer, which a file of lower rank has alone."""
    if state.streams[2 * slot + side].rank != NO_RANK or rank <= state.streams[2 * slot + 1 - side].rank:
        return False
    connection = state.connections[slot]
    return connection.first_seen - state.totals[0].window <= at <= connection.now


@borrowing
def is_of_before(connection: Record, stream: Record, other: Record, rank: Integer, at: Integer) -> Any:
    """Whether a copy comes so late that another connection has begun on its ports: sent before that was asked for."""
    return stream.rank == NO_RANK and rank > other.rank and connection.opened_by == 2 and at < connection.first_seen


@borrowing
def brings_more(
    state: State, slot: Integer, side: Integer, seq: Integer, flags: Integer, length: Integer, at: Integer
) -> Any:
    """Whether what may be a copy has anything that the file that the stream goes by lacks."""
    connection = state.connections[slot]
    stream = state.streams[2 * slot + side]
    if flags & RST:
        # An older one is of the connection before this one.
        return connection.how_closed == OPEN and at >= connection.first_seen
    if flags & SYN:
        if opens_anew(connection, stream, state.streams[2 * slot + 1 - side], seq, np.int64(0), False):
            return False  # of the connection before this one
        return connection.batch < 0 and connection.opened_by < 2 and flags & ACK == 0
    if stream.known == UNKNOWN:
        return length > 0
    position = unwrap(seq, stream.next)
    end = position + length
    if not -WINDOW <= position - stream.next <= WINDOW:
        return False
    if flags & FIN and stream.fin == 0:
        return end >= stream.next
    if stream.fin > 0:
        end = min(end, stream.fin)
    if length <= 0:
        return False
    if position < stream.gap_end and end > stream.gap_start:
        return True  # too late, which is counted
    if stream.known == ASSUMED and stream.next == stream.base and position < stream.base:
        return True  # the stream begins earlier than it seemed
    cursor = max(position, stream.next)
    place = stream.first_piece
    if place >= 0:
        last = state.pieces[stream.last_piece]
        if cursor >= last.position + last.length:
            place = np.int64(-1)
    while place >= 0 and cursor < end:
        piece = state.pieces[place]
        if piece.position > cursor:
            return True
        cursor = max(cursor, piece.position + piece.length)
        place = piece.next
    return cursor < end
