"""Streams: rows of their bytes in turn, pieces that wait for what lacks before them, and when it is given up."""

from __future__ import annotations

import numpy as np

from kafkascope.decoders.kernels import borrowing
from kafkascope.sniffer.columns import I64, NO_TIME
from kafkascope.sniffer.reassembly.bounds import (
    MOST_PIECES,
    ONE_WAY_BYTES,
    ONE_WAY_PIECES,
    ONE_WAY_TIME,
    PROOF_PACKETS,
    PROOF_TIME,
    elapsed,
)
from kafkascope.sniffer.reassembly.marks import count_issue
from kafkascope.sniffer.reassembly.state import (
    ALL_FULL,
    ASSUMED,
    CERTAIN,
    GAP,
    PIECE_BYTES,
    SNAPPED,
    STREAM_FULL,
    Integer,
    Record,
    Records,
    State,
)


@borrowing
def emit(
    rows: Records,
    order: I64,
    totals: Record,
    connection: Record,
    stream: Record,
    side: Integer,
    start: Integer,
    length: Integer,
    number: Integer,
    at: Integer,
) -> None:
    """Write the next row of a stream."""
    if connection.batch != totals.batch:
        connection.batch = totals.batch
        connection.ordinal = totals.ordinals
        order[totals.ordinals] = connection.id
        totals.ordinals += 1
    row = rows[totals.rows]
    row.stream = 2 * connection.ordinal + (side ^ connection.first_side)
    row.offset = stream.next - stream.base
    row.start = start
    row.length = length
    row.number = number
    row.at = at
    row.acked = -1
    row.acked_at = NO_TIME
    row.round_trip = NO_TIME
    row.least_round_trip = NO_TIME
    row.heard = -1
    row.heard_at = NO_TIME
    totals.rows += 1
    stream.known = CERTAIN
    stream.next += length


@borrowing
def note_ack(row: Record, stream: Record, other: Record, peer: Record, span: Record) -> None:
    """Note what both sides had acknowledged by then; peer and span: what health has of who did not send the row."""
    if other.acked > 0 and stream.rank == other.rank:
        row.acked = other.acked - other.base
        row.acked_at = other.acked_at
        row.round_trip = span.rtt_min if span.rtt_samples > 0 else peer.recent_rtt
        row.least_round_trip = peer.least_rtt
    if stream.acked > 0:
        row.heard = stream.acked - stream.base
        row.heard_at = stream.acked_at


@borrowing
def _gap(state: State, slot: Integer, side: Integer, end: Integer, number: Integer, at: Integer) -> None:
    """Give up the bytes of a stream before the position ``end``."""
    stream = state.streams[2 * slot + side]
    length = end - stream.next
    if length <= 0:
        return
    stream.gap_start = stream.next
    stream.gap_end = end
    state.connections[slot].gap_bytes += length
    count_issue(state, slot, GAP, at, number, length)
    totals, connection = state.totals[0], state.connections[slot]
    emit(state.rows, state.order, totals, connection, stream, side, np.int64(-1), length, number, at)


@borrowing
def deliver(
    state: State,
    slot: Integer,
    side: Integer,
    start: Integer,
    captured: Integer,
    length: Integer,
    number: Integer,
    at: Integer,
) -> None:
    """Emit payload that continues a stream, and as a gap what the snap length cut off it."""
    totals, connection, stream = state.totals[0], state.connections[slot], state.streams[2 * slot + side]
    if captured > 0:
        emit(state.rows, state.order, totals, connection, stream, side, start, captured, number, at)
    if captured < length:
        lacking = length - captured
        connection.gap_bytes += lacking
        count_issue(state, slot, SNAPPED, at, number, lacking)
        emit(state.rows, state.order, totals, connection, stream, side, np.int64(-1), lacking, number, at)


@borrowing
def insert(
    state: State,
    slot: Integer,
    side: Integer,
    position: Integer,
    length: Integer,
    start: Integer,
    captured: Integer,
    ident: Integer,
    number: Integer,
    at: Integer,
) -> Integer:
    """Keep what is new of a segment in pieces that fill the holes between the pending ones; return its bytes."""
    totals = state.totals[0]
    stream = state.streams[2 * slot + side]
    end = position + length
    cursor = max(position, stream.next)
    before = np.int64(-1)
    after = stream.first_piece
    last = stream.last_piece
    if last >= 0 and cursor >= state.pieces[last].position + state.pieces[last].length:
        before = last
        after = np.int64(-1)
    added = np.int64(0)
    while cursor < end:
        while after >= 0 and state.pieces[after].position + state.pieces[after].length <= cursor:
            before = after
            after = state.pieces[after].next
        stop = end
        if after >= 0:
            stop = min(end, state.pieces[after].position)
        if cursor < stop:
            if totals.free_piece >= 0:
                place = totals.free_piece
                totals.free_piece = state.pieces[place].next
            else:
                place = totals.piece_slots
                totals.piece_slots += 1
            totals.pieces += 1
            piece = state.pieces[place]
            skipped = cursor - position
            piece.used = 1
            piece.held = 0
            piece.position = cursor
            piece.length = stop - cursor
            piece.captured = max(min(captured - skipped, stop - cursor), 0)
            piece.start = start + skipped
            piece.number = number
            piece.ident = ident
            piece.at = at
            piece.now = state.connections[slot].now
            piece.next = after
            if before >= 0:
                state.pieces[before].next = place
            else:
                stream.first_piece = place
            if after < 0:
                stream.last_piece = place
            stream.piece_count += 1
            stream.piece_bytes += stop - cursor
            totals.piece_bytes += PIECE_BYTES + piece.captured
            added += stop - cursor
            before = place
        if after < 0:
            break
        cursor = max(stop, state.pieces[after].position + state.pieces[after].length)
    return added


@borrowing
def release(state: State, slot: Integer, side: Integer) -> None:
    """Emit the pending pieces that now continue the stream."""
    totals = state.totals[0]
    stream = state.streams[2 * slot + side]
    while stream.first_piece >= 0 and state.pieces[stream.first_piece].position == stream.next:
        place = stream.first_piece
        piece = state.pieces[place]
        start = piece.start
        if piece.held:
            start += totals.batch_size
            totals.freed_bytes += piece.captured
        stream.first_piece = piece.next
        if piece.next < 0:
            stream.last_piece = -1
        stream.piece_count -= 1
        stream.piece_bytes -= piece.length
        totals.piece_bytes -= PIECE_BYTES + piece.captured
        deliver(state, slot, side, start, piece.captured, piece.length, piece.number, piece.at)
        piece.used = 0
        piece.next = totals.free_piece
        totals.free_piece = place
        totals.pieces -= 1


@borrowing
def _acknowledged(stream: Record, position: Integer) -> Integer:
    """Where payload ends that an acknowledgement covers: a FIN has a sequence number, but is no byte."""
    if stream.fin > 0 and position > stream.fin:
        return stream.fin
    return position


@borrowing
def give_up(state: State, slot: Integer, side: Integer, proof: Integer, number: Integer, at: Integer) -> None:
    """Give up the missing bytes before a position, and emit what is pending among and behind them.

    The last of them may be a FIN that the capture lacks: a single byte with nothing behind it is left.
    """
    stream = state.streams[2 * slot + side]
    while stream.next < proof:
        if stream.first_piece >= 0:
            end = min(proof, state.pieces[stream.first_piece].position)
        elif stream.fin == 0 and proof == stream.next + 1:
            return
        else:
            end = proof
        _gap(state, slot, side, end, number, at)
        release(state, slot, side)


@borrowing
def demand_proof(stream: Record) -> None:
    """If bytes lack that were acknowledged, wait for them from the packet on that acknowledged them."""
    if _acknowledged(stream, stream.acked) <= stream.next:
        stream.proof = 0
    elif stream.proof != stream.acked:
        stream.proof = stream.acked
        stream.proof_number = stream.acked_number
        stream.proof_at = stream.acked_at
        stream.proof_count = stream.acked_count
        stream.proof_now = stream.acked_now


@borrowing
def waits_longest(state: State, slot: Integer) -> Integer:
    """Of which side the first packet is that waits behind missing bytes; 0 if none does."""
    first, other = state.streams[2 * slot].first_piece, state.streams[2 * slot + 1].first_piece
    return np.int64(other >= 0 and (first < 0 or state.pieces[other].number < state.pieces[first].number))


@borrowing
def judge(state: State, slot: Integer, side: Integer) -> None:
    """Decide which missing bytes of a stream will not come any more."""
    connection = state.connections[slot]
    stream = state.streams[2 * slot + side]
    totals = state.totals[0]
    patience = totals.patience
    if stream.proof > 0:
        proof = _acknowledged(stream, stream.proof)
        if stream.next >= proof:
            demand_proof(stream)
        elif (
            connection.packets - stream.proof_count >= PROOF_PACKETS
            and elapsed(connection.now, stream.proof_now) >= patience
        ) or elapsed(connection.now, stream.proof_now) >= PROOF_TIME + patience:
            give_up(state, slot, side, proof, stream.proof_number, stream.proof_at)
            demand_proof(stream)
    while stream.first_piece >= 0:
        most_pieces, most_bytes = MOST_PIECES, totals.most_of_stream
        waited = np.int64(0)
        if stream.acked == 0:
            waited = elapsed(connection.now, state.pieces[stream.first_piece].now) - patience
            if waited >= 0:
                most_pieces, most_bytes = ONE_WAY_PIECES, min(ONE_WAY_BYTES, totals.most_of_stream)
        first = state.pieces[stream.first_piece]
        if stream.piece_bytes > totals.most_of_stream:
            count_issue(state, slot, STREAM_FULL, first.at, first.number, totals.most_of_stream)
        elif totals.piece_bytes > totals.most_in_all:
            count_issue(state, slot, ALL_FULL, first.at, first.number, totals.most_in_all)
        elif stream.piece_count <= most_pieces and stream.piece_bytes <= most_bytes and waited < ONE_WAY_TIME:
            break
        give_up(state, slot, side, first.position, first.number, first.at)


@borrowing
def begin_stream(stream: Record, seq: Integer, at: Integer) -> None:
    """Begin a stream at a sequence number, by a packet of that time."""
    stream.known = ASSUMED
    stream.base = seq + 0x100000000
    stream.next = stream.base
    stream.highest = stream.base
    stream.begun_at = at
