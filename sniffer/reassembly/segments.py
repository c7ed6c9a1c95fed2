"""What a segment does to its connection."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkascope.decoders.kernels import borrowing
from kafkascope.sniffer import health
from kafkascope.sniffer.columns import ACK, FIN, RST, SYN, U8
from kafkascope.sniffer.reassembly.bounds import (
    AGREEING,
    AGREEING_BEHIND,
    FARTHEST,
    SENT_BEFORE,
    SENT_LATER,
    SOON,
    WINDOW,
    elapsed,
    unwrap,
)
from kafkascope.sniffer.reassembly.copies import identity_of, remember, seen_before, was_missed
from kafkascope.sniffer.reassembly.firsts import differing, note_first
from kafkascope.sniffer.reassembly.marks import count_issue
from kafkascope.sniffer.reassembly.state import (
    AFTER_FIN,
    ASSUMED,
    BY_FIN,
    BY_RST,
    CERTAIN,
    CONFLICTING,
    DUPLICATE,
    LATE,
    OPEN,
    UNKNOWN,
    WILD,
    Integer,
    Record,
    State,
)
from kafkascope.sniffer.reassembly.streams import (
    begin_stream,
    deliver,
    demand_proof,
    emit,
    give_up,
    insert,
    note_ack,
    release,
)


@borrowing
def _classify_old(
    state: State,
    slot: Integer,
    side: Integer,
    position: Integer,
    length: Integer,
    number: Integer,
    at: Integer,
    is_copy: bool,
) -> None:
    """Count a segment with bytes that were emitted before, or given up as a gap."""
    stream = state.streams[2 * slot + side]
    end = min(position + length, stream.next)
    if position < stream.base or (position < stream.gap_end and end > stream.gap_start):
        count_issue(state, slot, LATE, at, number, end - position)
    elif not is_copy:
        state.connections[slot].retransmits += 1


@borrowing
def _was_overtaken(state: State, index: Integer, now: Integer, position: Integer, ident: Integer, at: Integer) -> Any:
    """Whether what fills a hole was sent before what shows it, and overtaken; if not, it was lost and is sent again.

    Where its sender counts its packets, their numbers tell: it was sent before all that waits behind it. Else it was
    overtaken if it comes soon behind what showed the hole first, and too early to answer what the other side said of
    the loss.
    """
    stream = state.streams[index]
    shown = state.pieces[stream.last_piece].now
    shown_at = state.pieces[stream.last_piece].at
    is_counted = False
    place = stream.first_piece
    while place >= 0:
        piece = state.pieces[place]
        place = piece.next
        if piece.position <= position:
            continue
        later = (ident - piece.ident + 0x8000 & 0xFFFF) - 0x8000
        if ident and piece.ident and later and -SENT_BEFORE <= later <= SENT_LATER:
            if later > 0:
                return False
            is_counted = True
        if piece.now < shown:
            shown = piece.now
            shown_at = piece.at
    if is_counted:
        return True
    if elapsed(now, shown) > SOON:
        return False
    return not health.may_answer(state.flows[index], state.flows[index ^ 1], position, shown_at, at)


@borrowing
def _take_payload(
    state: State,
    data: U8,
    kept: U8,
    slot: Integer,
    side: Integer,
    position: Integer,
    length: Integer,
    start: Integer,
    captured: Integer,
    identity: Integer,
    ident: Integer,
    number: Integer,
    at: Integer,
    is_copy: bool,
) -> None:
    """Add a segment's payload to its stream: emit it, keep it for later, or see that it is old."""
    connection = state.connections[slot]
    index = 2 * slot + side
    stream = state.streams[index]
    if stream.known == ASSUMED and stream.first_piece < 0 and position == stream.next + 1:
        # What was taken for the beginning was a keep-alive: it repeats the sequence number before the next one.
        stream.base = position
        stream.next = position
    elif stream.known == ASSUMED and stream.next == stream.base and position < stream.next:
        # A pure ACK came first, what was sent before it follows: overtaken by it, or once more.
        stream.base = position
        stream.next = position
    end = position + length
    different = np.int64(0)
    # One byte that was there before is a keep-alive: it may be any.
    if position < stream.highest and (length > 1 or end != stream.next):
        different = differing(state, data, kept, index, position, start, captured, at)
        if different > 0:
            count_issue(state, slot, CONFLICTING, at, number, different)
    if stream.first_piece < 0 and position <= stream.next and end > stream.next:
        skipped = stream.next - position
        if skipped > 0:
            _classify_old(state, slot, side, position, length, number, at, is_copy)
        elif position < stream.highest and stream.fin == 0 and not is_copy and elapsed(at, stream.begun_at) > SOON:
            connection.retransmits += 1  # what was sent for the first time before the capture began
        elif stream.acked > position and not is_copy and stream.rank <= state.streams[index ^ 1].rank:
            connection.out_of_order += 1
        added = length - skipped
        note_first(state, index, stream.next, start + skipped, captured - skipped, at)
        row = state.totals[0].rows
        deliver(state, slot, side, start + skipped, max(captured - skipped, 0), added, number, at)
        if not is_copy:
            note_ack(state.rows[row], stream, state.streams[index ^ 1], state.flows[index ^ 1], state.spans[index ^ 1])
    else:
        added = np.int64(0)
        if end > stream.next:
            fills = stream.first_piece >= 0 and position < stream.highest
            was_overtaken = fills and _was_overtaken(state, index, connection.now, position, ident, at)
            added = insert(state, slot, side, position, length, start, captured, ident, number, at)
            if added > 0 and fills and not is_copy:
                if added == length and was_overtaken:
                    connection.out_of_order += 1
                else:
                    connection.retransmits += 1
            if added == length:
                note_first(state, index, position, start, captured, at)
            release(state, slot, side)
        if added == 0:
            age = seen_before(state, index, identity)
            if different == 0 and age >= 0 and not was_missed(state.flows[index], position, age, at):
                count_issue(state, slot, DUPLICATE, at, number, length)
                return
            # One byte that was there before is a keep-alive; one that was given up is what it is.
            if length > 1 or end != stream.next or position < stream.gap_end:
                _classify_old(state, slot, side, position, length, number, at, is_copy)
    remember(state, index, identity)
    stream.highest = max(stream.highest, end)
    if side:
        connection.bytes_1 += added
    else:
        connection.bytes_0 += added


@borrowing
def _take_repeated_flag(
    state: State, slot: Integer, side: Integer, identity: Integer, number: Integer, at: Integer
) -> None:
    """Count a SYN or FIN without payload that was seen before."""
    connection = state.connections[slot]
    index = 2 * slot + side
    if seen_before(state, index, identity) >= 0:
        count_issue(state, slot, DUPLICATE, at, number, np.int64(0))
    else:
        connection.retransmits += 1
        remember(state, index, identity)


@borrowing
def _take_syn(connection: Record, stream: Record, side: Integer, seq: Integer, with_ack: bool, at: Integer) -> bool:
    """Note who opened the connection and where the stream begins; return whether that was known."""
    shown_by = 1 if with_ack else 2
    # Once there are rows, whether the opening was seen stays as it is: what reads the rows relies on it.
    if connection.opened_by < shown_by and (connection.batch < 0 or connection.opened_by > 0):
        connection.opened_by = shown_by
        connection.opened = at
        if connection.batch < 0:
            connection.first_side = side ^ (1 if with_ack else 0)
    if stream.known == CERTAIN:
        return True
    if stream.known == UNKNOWN:
        begin_stream(stream, (seq + 1) & 0xFFFFFFFF, at)
    stream.known = CERTAIN
    return False


@borrowing
def _take_ack(connection: Record, stream: Record, side: Integer, ack: Integer, number: Integer, at: Integer) -> None:
    """Note what the other side of a stream says to have received. ``side`` is the one that sent the bytes."""
    if stream.known == UNKNOWN:
        if connection.opened_by == 0:
            return
        # In a connection whose opening was seen, the first acknowledgement is that of the SYN.
        begin_stream(stream, ack, at)
    position = unwrap(ack, stream.next)
    most = max(stream.highest, stream.acked) + WINDOW
    if position > min(most, stream.next + FARTHEST) or position <= stream.acked or position < stream.next - WINDOW:
        return
    stream.acked = position
    stream.acked_number = number
    stream.acked_at = at
    stream.acked_count = connection.packets
    stream.acked_now = connection.now
    seen = connection.packets_1 if side else connection.packets_0
    if stream.proof == 0 and seen > 0:
        demand_proof(stream)


@borrowing
def _believe(
    state: State, slot: Integer, side: Integer, seq: Integer, length: Integer, number: Integer, at: Integer
) -> bool:
    """Whether a segment's sequence number is plausible; a run of some that continue each other is, however far.

    Then all bytes up to the segment are given up.
    """
    stream = state.streams[2 * slot + side]
    position = unwrap(seq, stream.next)
    most = min(max(stream.highest, stream.acked) + WINDOW, stream.next + FARTHEST)
    if stream.next - WINDOW <= position <= most:
        stream.wild_count = 0
        return True
    if stream.wild_count > 0 and stream.wild_next == seq:
        stream.wild_count += 1
    else:
        stream.wild_count = 1
    stream.wild_next = (seq + length) & 0xFFFFFFFF
    if stream.wild_count >= (AGREEING if position > stream.next else AGREEING_BEHIND):
        if position < stream.next:
            position += 1 << 32
        give_up(state, slot, side, position, number, at)
        stream.highest = max(stream.highest, position)
        stream.wild_count = 0
        return True
    count_issue(state, slot, WILD, at, number, position - stream.next)
    return False


@borrowing
def _take_reset(
    state: State,
    slot: Integer,
    side: Integer,
    seq: Integer,
    ack: Integer,
    flags: Integer,
    number: Integer,
    at: Integer,
) -> None:
    """End a connection, if the RST can be one of its own."""
    connection = state.connections[slot]
    stream = state.streams[2 * slot + side]
    other = state.streams[2 * slot + 1 - side]
    distance = np.int64(0)
    if stream.known != UNKNOWN:
        distance = unwrap(seq, stream.next) - stream.next
    elif flags & ACK and other.known != UNKNOWN:
        distance = unwrap(ack, other.next) - other.next
    if not -WINDOW <= distance <= WINDOW:
        count_issue(state, slot, WILD, at, number, distance)
    elif connection.how_closed == OPEN:
        connection.how_closed = BY_RST
        connection.reset_side = side
        if connection.closing_side < 0:
            connection.closing_side = side
        connection.closed = at


@borrowing
def _take_fin(state: State, slot: Integer, side: Integer, position: Integer, number: Integer, at: Integer) -> None:
    """Note where a stream ends; the second of the two FINs closes the connection."""
    connection = state.connections[slot]
    stream = state.streams[2 * slot + side]
    if position < stream.next:
        count_issue(state, slot, WILD, at, number, position - stream.next)
        return
    stream.fin = position
    stream.fin_number = number
    stream.fin_at = at
    if connection.closing_side < 0:
        connection.closing_side = side
    stream.highest = max(stream.highest, position)
    if state.streams[2 * slot + 1 - side].fin > 0 and connection.how_closed == OPEN:
        connection.how_closed = BY_FIN
        connection.closed = at


@borrowing
def _is_in_turn(stream: Record, seq: Integer, flags: Integer) -> Any:
    """Whether a segment is what nearly all are: the next one of a stream in which nothing is open."""
    return (
        flags & (SYN | FIN | RST) == 0
        and seq == stream.next & 0xFFFFFFFF
        and stream.known == CERTAIN
        and stream.first_piece < 0
        and stream.wild_count == 0
        and stream.fin == 0
        and stream.highest <= stream.next
        and stream.acked <= stream.next
    )


@borrowing
def _take_in_turn(
    state: State,
    slot: Integer,
    side: Integer,
    seq: Integer,
    ack: Integer,
    flags: Integer,
    start: Integer,
    captured: Integer,
    length: Integer,
    ident: Integer,
    number: Integer,
    at: Integer,
) -> None:
    """Do in short what the rest of `take` would do with a segment that is in turn."""
    index, totals = 2 * slot + side, state.totals[0]
    connection, stream, other = state.connections[slot], state.streams[index], state.streams[index ^ 1]
    if flags & ACK:
        _take_ack(connection, other, 1 - side, ack, number, at)
    if length <= 0:
        return
    remember(state, index, identity_of(seq, ack, flags, length, ident, at))
    note_first(state, index, stream.next, start, captured, at)
    row = totals.rows
    if captured == length:
        emit(state.rows, state.order, totals, connection, stream, side, start, length, number, at)
    else:
        deliver(state, slot, side, start, captured, length, number, at)
    note_ack(state.rows[row], stream, other, state.flows[index ^ 1], state.spans[index ^ 1])
    stream.highest = max(stream.highest, stream.next)
    if side:
        connection.bytes_1 += length
    else:
        connection.bytes_0 += length


@borrowing
def take(
    state: State,
    data: U8,
    kept: U8,
    slot: Integer,
    side: Integer,
    seq: Integer,
    ack: Integer,
    flags: Integer,
    start: Integer,
    captured: Integer,
    length: Integer,
    ident: Integer,
    number: Integer,
    at: Integer,
    is_copy: bool,
) -> None:
    """Move a connection on by one segment."""
    connection = state.connections[slot]
    index = 2 * slot + side
    stream = state.streams[index]
    if _is_in_turn(stream, seq, flags):
        _take_in_turn(state, slot, side, seq, ack, flags, start, captured, length, ident, number, at)
        return
    if flags & RST:
        _take_reset(state, slot, side, seq, ack, flags, number, at)
        return
    identity = identity_of(seq, ack, flags, length, ident, at)
    if flags & SYN:
        known = _take_syn(connection, stream, side, seq, flags & ACK != 0, at)
        if length == 0:
            if known and is_copy:
                pass
            elif known:
                _take_repeated_flag(state, slot, side, identity, number, at)
            else:
                remember(state, index, identity)
        seq = (seq + 1) & 0xFFFFFFFF
    elif stream.known == UNKNOWN:
        begin_stream(stream, seq, at)
    if not _believe(state, slot, side, seq, length, number, at):
        return
    if flags & ACK:
        _take_ack(connection, state.streams[index ^ 1], 1 - side, ack, number, at)
    position = unwrap(seq, stream.next)
    end = position + length
    if stream.fin > 0 and length > 0 and end > stream.fin:
        count_issue(state, slot, AFTER_FIN, at, number, end - max(position, stream.fin))
        length = max(stream.fin - position, 0)
        captured = min(captured, length)
    if length > 0:
        _take_payload(
            state, data, kept, slot, side, position, length, start, captured, identity, ident, number, at, is_copy
        )
    if flags & FIN:
        if stream.fin == 0:
            if length == 0:
                remember(state, index, identity)
            _take_fin(state, slot, side, end, number, at)
        elif length == 0 and end == stream.fin and not is_copy:
            _take_repeated_flag(state, slot, side, identity, number, at)
