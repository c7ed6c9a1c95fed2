"""The kernel's loop: rows of a batch one after the other, and what each lets its stream do, by the stream's mode."""

from __future__ import annotations

import numpy as np

from kafkascope.decoders.kernels import borrowing, kernel
from kafkascope.sniffer import frames, recognise
from kafkascope.sniffer.columns import I64, NO_TIME, U8
from kafkascope.sniffer.pairing.pairs import take_frame
from kafkascope.sniffer.pairing.resync import lose, search_lost, search_unknown
from kafkascope.sniffer.pairing.state import (
    ANSWER,
    ASK_START,
    ASK_STREAM,
    AT_BREAK,
    AT_CONNECTION,
    AT_DIRECTION,
    AT_DIRECTIONS,
    AT_EVENT,
    AT_NEXT_ROW,
    AT_NODES,
    AT_NUMBER,
    AT_OUT,
    AT_ROW,
    CLIENT,
    COUNT,
    DONE,
    ENDS,
    FRAME_CUT,
    HEAD,
    IMPLAUSIBLE_SIZE,
    INCOMPLETE,
    KIND_SASL,
    LOST_SYNC,
    NEED_ROOM,
    NO_ANSWER,
    NODE_KIND,
    NODE_NEXT,
    NODE_SKIPPED,
    NUMBER,
    REQUESTS,
    RESPONSES,
    ROOM,
    ROOM_NODES,
    SASL,
    SEARCHED,
    SIZE_LIMIT,
    SKIPPED_TO_END,
    TLS_ALERT,
    Integer,
    State,
    behind,
    give_up,
    offset_of,
    rest,
    row_of,
    write_event,
)


@kernel
def converse(state: State) -> Integer:
    """Take the rows of a batch from where `at` says; returns DONE, or what it needs before it can go on there.

    That is NEED_ROOM in out, events or nodes, or the answer to what it asks of ASK_STREAM: ASK_START (what does the
    connection begin with?), ASK_REQUEST, ASK_RESPONSE (to ASK_NODE), ASK_CHAIN (are there frames of this kind in the
    ASK_SIZE bytes at ASK_POSITION?).
    """
    at = state.at
    while True:
        if (
            state.out.shape[0] - at[AT_OUT] < ROOM
            or state.events.shape[0] - at[AT_EVENT] < ROOM
            or state.nodes.shape[0] - at[AT_NODES] < ROOM_NODES
        ):
            return NEED_ROOM
        if at[AT_DIRECTIONS]:
            code = _go_on(state)
            if code != DONE:
                return code
        elif at[AT_BREAK]:
            at[AT_BREAK] = 0
            _break(state)
        elif not _next_row(state):
            return DONE


@borrowing
def _next_row(state: State) -> Integer:
    """Take the next row: of both directions of a connection in the order of ROW_TURN. False behind the last one."""
    at, rows = state.at, state.rows
    while at[AT_CONNECTION] < state.table.shape[0]:
        entry = state.table[at[AT_CONNECTION]]
        if at[AT_NEXT_ROW] < 0:
            _enter(state, entry)
        row, other = at[AT_NEXT_ROW], at[AT_NEXT_ROW + 1]
        more = row < entry[frames.TABLE_BEHIND]
        more_of_other = other < entry[frames.TABLE_SIDE + frames.TABLE_BEHIND]
        if more or more_of_other:
            side = np.int64(0)
            if more_of_other and (not more or rows[row, frames.ROW_TURN] > rows[other, frames.ROW_TURN]):
                side, row = np.int64(1), other
            at[AT_NEXT_ROW + side] += 1
            _take_row(state, entry[frames.TABLE_SLOT], side, row)
            return True
        at[AT_CONNECTION] += 1
        at[AT_NEXT_ROW] = -1
    return False


@borrowing
def _enter(state: State, entry: I64) -> None:
    """Begin with a connection: point both of its streams to where the batch has their bytes."""
    state.at[AT_NUMBER] = 0
    for side in range(2):
        columns = entry[frames.TABLE_SIDE * side :]
        first, new = columns[frames.TABLE_FIRST], columns[frames.TABLE_NEW]
        stream = state.streams[2 * entry[frames.TABLE_SLOT] + side]
        state.at[AT_NEXT_ROW + side] = new
        if columns[frames.TABLE_BEHIND] == first:
            # Nothing of it is laid out: what it holds, if anything, is not touched.
            stream[frames.STREAM_BEGIN] = 0
            stream[frames.STREAM_AVAILABLE] = 0
            continue
        begin = state.rows[first, frames.ROW_START]
        stream[frames.STREAM_BEGIN] = begin
        stream[frames.STREAM_SCAN] += begin
        stream[frames.STREAM_AVAILABLE] = behind(state.rows, new - 1) if new > first else begin
        stream[frames.STREAM_ROW] = first
        stream[frames.STREAM_LAST] = max(first, new - 1)


@borrowing
def _take_row(state: State, slot: Integer, side: Integer, row: Integer) -> None:
    """Let a stream have a row: bytes become available, a gap or an end comes after all that can be made of them."""
    at, rows, stream = state.at, state.rows, state.streams[2 * slot + side]
    at[AT_ROW] = row
    at[AT_DIRECTION] = side
    at[AT_NUMBER] = max(at[AT_NUMBER], rows[row, frames.ROW_NUMBER])
    at[AT_DIRECTIONS] = 1 << side
    stream[frames.STREAM_LAST] = row
    stream[frames.STREAM_NEED] = 0
    if rows[row, frames.ROW_KIND] != frames.BYTES:
        stream[frames.STREAM_ENDING] = 1
        at[AT_BREAK] = 1
    elif stream[frames.STREAM_MODE] == frames.SYNCED and stream[frames.STREAM_CUT] > 0:
        _pass_cut(state, slot, side, row)
    else:
        stream[frames.STREAM_AVAILABLE] = behind(rows, row)
        if stream[frames.STREAM_MODE] == frames.SEARCHING:
            state.connections[slot, SEARCHED] += rows[row, frames.ROW_BYTES]


@borrowing
def _pass_cut(state: State, slot: Integer, side: Integer, row: Integer) -> None:
    """Pass over bytes of the frame that a gap has cut; behind the last of them the frame is taken as it is."""
    rows, stream = state.rows, state.streams[2 * slot + side]
    taken = min(stream[frames.STREAM_LEFT], rows[row, frames.ROW_BYTES])
    stream[frames.STREAM_LEFT] -= taken
    stream[frames.STREAM_CUT_AT] = max(stream[frames.STREAM_CUT_AT], rows[row, frames.ROW_AT])
    if stream[frames.STREAM_LEFT] > 0:
        rest(state, side)
        return
    # The cut frame's bytes are before the gap: STREAM_ROW must not go past them yet.
    size = recognise.int32(state.arena, stream[frames.STREAM_BEGIN])
    is_frame = take_frame(state, slot, side, stream[frames.STREAM_CUT], size)
    stream[frames.STREAM_CUT] = 0
    stream[frames.STREAM_BEGIN] = rows[row, frames.ROW_START] + taken
    stream[frames.STREAM_AVAILABLE] = behind(rows, row)
    stream[frames.STREAM_ROW] = row
    if not is_frame:
        lose(stream, stream[frames.STREAM_BEGIN])


@borrowing
def _go_on(state: State) -> Integer:
    """Let a stream of AT_DIRECTIONS do the next thing that its mode allows; returns DONE, or what it asks."""
    at = state.at
    slot = state.table[at[AT_CONNECTION], frames.TABLE_SLOT]
    side = np.int64(0)
    if at[AT_DIRECTIONS] == 2 or (at[AT_DIRECTIONS] == 3 and state.connections[slot, CLIENT] == 1):
        side = np.int64(1)
    stream = state.streams[2 * slot + side]
    at[ASK_STREAM] = 2 * slot + side
    answer = at[ANSWER]
    at[ANSWER] = NO_ANSWER
    mode = stream[frames.STREAM_MODE]
    if mode == frames.SYNCED:
        _go_on_synced(state, slot, side)
        return DONE
    if mode == frames.LOST:
        return search_lost(state, slot, side, answer)
    if mode == frames.SEARCHING:
        return search_unknown(state, slot, side, answer)
    if mode == frames.UNDECIDED and answer == NO_ANSWER:
        return ASK_START
    if mode == frames.DROPPED:
        stream[frames.STREAM_BEGIN] = stream[frames.STREAM_AVAILABLE]
    rest(state, side)
    return DONE


@borrowing
def _go_on_synced(state: State, slot: Integer, side: Integer) -> None:
    """Take the frame at STREAM_BEGIN, if it is there; where none can be, the stream is LOST."""
    stream = state.streams[2 * slot + side]
    begin = stream[frames.STREAM_BEGIN]
    left = stream[frames.STREAM_AVAILABLE] - begin
    if stream[frames.STREAM_CUT] > 0:
        rest(state, side)
        return
    if left < 4:
        stream[frames.STREAM_NEED] = 4
        rest(state, side)
        return
    size = recognise.int32(state.arena, begin)
    if size < _least_size(state, slot, side) or size > state.at[SIZE_LIMIT]:
        _refuse_size(state, slot, side, size)
    elif left < 4 + size:
        stream[frames.STREAM_NEED] = 4 + size if size >= 8 else 0  # what is below may yet prove implausible
        rest(state, side)
    else:
        stream[frames.STREAM_CUT_AT] = NO_TIME
        if take_frame(state, slot, side, 4 + size, size):
            stream[frames.STREAM_BEGIN] = begin + 4 + size
            stream[frames.STREAM_ROW] = row_of(state.rows, stream, begin + 4 + size)
        else:
            lose(stream, begin + 1)


@borrowing
def _least_size(state: State, slot: Integer, side: Integer) -> Integer:
    """The smallest size of the next frame: that of a header, or 0 where it may be a token or the answer to one."""
    connection, nodes = state.connections[slot], state.nodes
    if side == connection[CLIENT]:
        return 0 if connection[SASL] else 8
    request = connection[REQUESTS + HEAD]
    while request:
        if nodes[request, NODE_KIND] == KIND_SASL:
            return 0
        if not nodes[request, NODE_SKIPPED]:
            break
        request = nodes[request, NODE_NEXT]
    return 4


@borrowing
def _refuse_size(state: State, slot: Integer, side: Integer, size: Integer) -> None:
    """No frame has the size at STREAM_BEGIN: the stream is LOST, or it is TLS that answers requests without TLS."""
    connection, stream = state.connections[slot], state.streams[2 * slot + side]
    begin = stream[frames.STREAM_BEGIN]
    row = row_of(state.rows, stream, begin)
    offset = offset_of(state.rows, stream, begin)
    has_requests = side != connection[CLIENT] and connection[REQUESTS + COUNT] + connection[NUMBER] > 0
    if has_requests and offset == 0 and _is_tls_alert(state.arena, begin):
        write_event(state, slot, side, TLS_ALERT, 0, 0, row)
        stream[frames.STREAM_MODE] = frames.DROPPED
    else:
        write_event(state, slot, side, IMPLAUSIBLE_SIZE, offset, size, row)
        lose(stream, begin + 1)


@borrowing
def _is_tls_alert(arena: U8, position: Integer) -> Integer:
    """Whether the head of a TLS record with an alert is here (RFC 8446, 5.1): type 21, version 3.x, a short length."""
    return arena[position] == 21 and arena[position + 1] == 3 and arena[position + 2] <= 4 and arena[position + 3] == 0


@borrowing
def _break(state: State) -> None:
    """Let a stream have the gap or the end at AT_ROW, behind all that the bytes before it had to say."""
    at, row, side = state.at, state.at[AT_ROW], state.at[AT_DIRECTION]
    slot = state.table[at[AT_CONNECTION], frames.TABLE_SLOT]
    stream = state.streams[2 * slot + side]
    other = state.streams[2 * slot + 1 - side]
    available = stream[frames.STREAM_AVAILABLE]
    is_end = state.rows[row, frames.ROW_KIND] == frames.END
    mode = stream[frames.STREAM_MODE]
    stream[frames.STREAM_ENDING] = 0
    stream[frames.STREAM_NEED] = 0
    if mode == frames.SYNCED:
        _break_synced(state, slot, side, row)
    elif mode in (frames.LOST, frames.SEARCHING):
        stream[frames.STREAM_SKIPPED] += available - stream[frames.STREAM_BEGIN]
        stream[frames.STREAM_BEGIN] = available
        stream[frames.STREAM_SCAN] = available
        stream[frames.STREAM_REFUTED] = frames.NOT_REFUTED
        stream[frames.STREAM_ROW] = row
    elif mode == frames.UNDECIDED and not is_end:
        # The start is not in the capture.
        stream[frames.STREAM_MODE] = frames.SEARCHING
        stream[frames.STREAM_BEGIN] = available
        stream[frames.STREAM_SCAN] = available
        stream[frames.STREAM_ROW] = row
        other[frames.STREAM_MODE] = frames.SEARCHING
        other[frames.STREAM_SCAN] = other[frames.STREAM_BEGIN]
        at[AT_DIRECTIONS] = 1 << (1 - side)
    else:
        stream[frames.STREAM_BEGIN] = available
    if is_end:
        _end(state, slot, row)


@borrowing
def _break_synced(state: State, slot: Integer, side: Integer, row: Integer) -> None:
    """Let a stream that is SYNCED have a gap or an end.

    A frame that ends inside the gap, or where the stream ends, is taken as far as it is there; one that goes on behind
    the gap is cut (STREAM_CUT); if the gap hides where the next frame begins, the stream is LOST.
    """
    rows, stream = state.rows, state.streams[2 * slot + side]
    begin, wire = stream[frames.STREAM_BEGIN], rows[row, frames.ROW_WIRE]
    is_end = rows[row, frames.ROW_KIND] == frames.END
    is_cut = stream[frames.STREAM_CUT] > 0
    captured = stream[frames.STREAM_CUT] if is_cut else stream[frames.STREAM_AVAILABLE] - begin
    left = np.int64(-1)  # bytes of the frame behind the gap
    if captured >= 4:
        size = recognise.int32(state.arena, begin)
        if is_cut:
            left = stream[frames.STREAM_LEFT] - wire
        else:
            stream[frames.STREAM_CUT_AT] = NO_TIME
            lacking = 4 + size - captured
            left = lacking - wire
            offset = offset_of(rows, stream, begin)
            if is_end:
                write_event(state, slot, side, INCOMPLETE, offset, lacking, row)
            else:
                write_event(state, slot, side, FRAME_CUT, offset, min(wire, lacking), row)
        if is_end or left <= 0:
            take_frame(state, slot, side, captured, size)
            stream[frames.STREAM_CUT] = 0
            stream[frames.STREAM_BEGIN] = rows[row, frames.ROW_START]
            stream[frames.STREAM_AVAILABLE] = rows[row, frames.ROW_START]
            stream[frames.STREAM_ROW] = row
        else:
            stream[frames.STREAM_CUT] = captured
            stream[frames.STREAM_LEFT] = left
    elif is_end and captured > 0:  # too few bytes to say how long their frame would be
        write_event(state, slot, side, SKIPPED_TO_END, 0, captured, row)
    if left < 0 and not is_end:
        write_event(state, slot, side, LOST_SYNC, rows[row, frames.ROW_OFFSET], wire, row)
        lose(stream, stream[frames.STREAM_AVAILABLE])
        stream[frames.STREAM_ROW] = row


@borrowing
def _end(state: State, slot: Integer, row: Integer) -> None:
    """One stream of a connection has ended; when both have, what waits is given up."""
    connection = state.connections[slot]
    connection[ENDS] += 1
    if connection[ENDS] < 2:
        return
    # Not sooner: that it is Kafka may have shown at the end of the other stream.
    for side in range(2 if connection[CLIENT] >= 0 else 0):
        stream = state.streams[2 * slot + side]
        if stream[frames.STREAM_SKIPPED] > 0 and stream[frames.STREAM_MODE] == frames.LOST:
            write_event(state, slot, side, SKIPPED_TO_END, 0, stream[frames.STREAM_SKIPPED], row)
    for which in (REQUESTS, RESPONSES):
        while connection[which + HEAD]:
            give_up(state, slot, which, 0, connection[which + HEAD])
