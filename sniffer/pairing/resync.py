"""Where frames begin: looked for after lost bytes, and in connections of which the start is not known."""

from __future__ import annotations

import numpy as np

from kafkascope.decoders import apis
from kafkascope.decoders.kernels import borrowing
from kafkascope.sniffer import frames, recognise
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.pairing.pairs import is_client_id, outstanding
from kafkascope.sniffer.pairing.state import (
    ASK_CHAIN,
    ASK_NODE,
    ASK_POSITION,
    ASK_REQUEST,
    ASK_RESPONSE,
    ASK_SIZE,
    AT_DIRECTIONS,
    BYTES_SKIPPED,
    CLIENT,
    CLIENT_ID_LENGTH,
    CLIENT_IDS,
    DONE,
    KIND_KAFKA,
    MORE_NEEDED,
    NO,
    NODE_CORRELATION,
    NODE_KIND,
    NOT_HERE,
    REQUESTS,
    SEARCHED,
    TAIL,
    TOLD,
    YES,
    Integer,
    State,
    behind,
    offset_of,
    rest,
    row_of,
    write_event,
)

RESYNC_LIMIT = 16 << 20
SEARCH_LIMIT = 64 << 20
CHAIN = 4  # frames in a row with correlation ids that rise by no more than CHAIN_STEP make a stream of responses
CHAIN_STEP = 64


@borrowing
def search_lost(state: State, slot: Integer, side: Integer, answer: Integer) -> Integer:
    """Look for the next frame of a stream that is LOST; returns DONE, or what it asks of the candidate at STREAM_BEGIN.

    It asks ASK_REQUEST, ASK_RESPONSE or ASK_CHAIN; `answer` is YES or NO to what it asked last, else NO_ANSWER.
    """
    connection, stream = state.connections[slot], state.streams[2 * slot + side]
    if answer == YES:
        found(state, slot, side, stream[frames.STREAM_BEGIN])
        return DONE
    if answer == NO:
        stream[frames.STREAM_REFUTED] += 1
    is_client = side == connection[CLIENT]
    while stream[frames.STREAM_BEGIN] < stream[frames.STREAM_AVAILABLE]:
        if (connection[TOLD] and _is_whole(state, stream, 8 if is_client else 4)) or _is_cut(state, slot, side):
            found(state, slot, side, stream[frames.STREAM_BEGIN])
            return DONE
        code = _lost_request(state, slot, side) if is_client else _lost_response(state, slot, side)
        if code == MORE_NEEDED:
            break
        if code != NOT_HERE:
            return code
        stream[frames.STREAM_REFUTED] = frames.NOT_REFUTED
        stream[frames.STREAM_BEGIN] += 1
        stream[frames.STREAM_SKIPPED] += 1
    rest(state, side)
    return DONE


@borrowing
def _is_cut(state: State, slot: Integer, side: Integer) -> Integer:
    """Whether a packet begins at STREAM_BEGIN with a frame that a gap or the end cuts, so that no body can tell.

    Believed is a request that bears the client id of the connection, and the answer to the newest request. Else, of
    packets that are cut to their first bytes (`-s`), all would be lost behind the first frame that begins within one.
    """
    arena, connection, stream = state.arena, state.connections[slot], state.streams[2 * slot + side]
    begin = stream[frames.STREAM_BEGIN]
    left = stream[frames.STREAM_AVAILABLE] - begin
    if not stream[frames.STREAM_ENDING] or left < 8 or not _is_head(state.rows, stream, begin):
        return False
    size = recognise.int32(arena, begin)
    if size <= left - 4 or size > RESYNC_LIMIT:
        return False
    if side != connection[CLIENT]:
        newest = connection[REQUESTS + TAIL]
        if not newest or state.nodes[newest, NODE_KIND] != KIND_KAFKA:
            return False
        return state.nodes[newest, NODE_CORRELATION] == recognise.int32(arena, begin + 4)
    key, version = recognise.int16(arena, begin + 4), recognise.int16(arena, begin + 6)
    if left < 14 or not recognise.is_valid(key, version, state.apis):
        return False
    length = recognise.int16(arena, begin + 12)
    return 0 < length <= left - 14 and is_client_id(state, slot, begin + 14, length, length)


@borrowing
def _lost_request(state: State, slot: Integer, side: Integer) -> Integer:
    """Whether a request may be at STREAM_BEGIN: NOT_HERE, MORE_NEEDED, or ASK_REQUEST if its body must tell."""
    stream = state.streams[2 * slot + side]
    if stream[frames.STREAM_REFUTED] != frames.NOT_REFUTED:
        return NOT_HERE
    size = _request_at(state, slot, side, stream[frames.STREAM_BEGIN])
    return _ask(state, ASK_REQUEST, stream[frames.STREAM_BEGIN], size) if size > 0 else size


@borrowing
def _lost_response(state: State, slot: Integer, side: Integer) -> Integer:
    """Whether a response may be at STREAM_BEGIN: NOT_HERE, MORE_NEEDED, or what to ask (ASK_RESPONSE, ASK_CHAIN)."""
    nodes, stream = state.nodes, state.streams[2 * slot + side]
    begin = stream[frames.STREAM_BEGIN]
    left = stream[frames.STREAM_AVAILABLE] - begin
    if left < 8:
        return NOT_HERE if stream[frames.STREAM_ENDING] else MORE_NEEDED
    size = recognise.int32(state.arena, begin)
    if size < 4 or size > RESYNC_LIMIT:
        return NOT_HERE
    if stream[frames.STREAM_REFUTED] == frames.NOT_REFUTED:
        node = outstanding(state.connections[slot], nodes, recognise.int32(state.arena, begin + 4))
        if node and left >= 4 + size:
            state.at[ASK_NODE] = node
            return _ask(state, ASK_RESPONSE, begin, size)
        if node and not stream[frames.STREAM_ENDING]:
            stream[frames.STREAM_NEED] = 4 + size
            return MORE_NEEDED
    if stream[frames.STREAM_REFUTED] == frames.CHAIN_REFUTED or not _is_head(state.rows, stream, begin):
        return NOT_HERE
    chain = _chain_at(state, slot, side)
    if chain != NOT_HERE:
        stream[frames.STREAM_REFUTED] = frames.FRAME_REFUTED  # the test above must not see requests that come later
    return chain


@borrowing
def search_unknown(state: State, slot: Integer, side: Integer, answer: Integer) -> Integer:
    """Look for requests, or a chain of responses, in a stream that is SEARCHING; returns DONE, or what it asks.

    It asks ASK_REQUEST of a request at STREAM_SCAN, ASK_CHAIN of a chain at STREAM_BEGIN; `answer` is YES or NO to what
    it asked last, else NO_ANSWER. Whatever is found first tells which side is the client.
    """
    stream = state.streams[2 * slot + side]
    available = stream[frames.STREAM_AVAILABLE]
    position = max(stream[frames.STREAM_SCAN], stream[frames.STREAM_BEGIN])
    if stream[frames.STREAM_REFUTED] == frames.CHAIN_ASKED:
        stream[frames.STREAM_REFUTED] = frames.CHAIN_REFUTED if answer == NO else frames.NOT_REFUTED
        if answer == YES:
            return _recognised(state, slot, side, 1 - side, stream[frames.STREAM_BEGIN])
    elif answer == YES:
        return _recognised(state, slot, side, side, position)
    elif answer == NO:
        position += 1
    while position < available:
        size = _request_at(state, slot, side, position)
        if size == MORE_NEEDED:
            break
        if size > 0:
            stream[frames.STREAM_SCAN] = position
            return _ask(state, ASK_REQUEST, position, size)
        position += 1
    stream[frames.STREAM_SCAN] = position
    # No request: a chain of responses from the start of a packet on?
    while stream[frames.STREAM_BEGIN] < available:
        begin = stream[frames.STREAM_BEGIN]
        if stream[frames.STREAM_REFUTED] == frames.NOT_REFUTED and _is_head(state.rows, stream, begin):
            chain = _chain_at(state, slot, side)
            if chain == MORE_NEEDED:
                break
            if chain == ASK_CHAIN:
                stream[frames.STREAM_REFUTED] = frames.CHAIN_ASKED
                return chain
        stream[frames.STREAM_REFUTED] = frames.CHAIN_REFUTED
        following = behind(state.rows, row_of(state.rows, stream, begin))
        if following > position:
            break
        stream[frames.STREAM_SKIPPED] += following - begin
        stream[frames.STREAM_BEGIN] = following
        stream[frames.STREAM_REFUTED] = frames.NOT_REFUTED
    if state.connections[slot, SEARCHED] > SEARCH_LIMIT:
        for dropped in state.streams[2 * slot : 2 * slot + 2]:
            dropped[frames.STREAM_MODE] = frames.DROPPED
            dropped[frames.STREAM_BEGIN] = dropped[frames.STREAM_AVAILABLE]
    rest(state, side)
    return DONE


@borrowing
def _recognised(state: State, slot: Integer, side: Integer, client: Integer, position: Integer) -> Integer:
    """The connection is Kafka, by a frame of one side at this position: the other side's frames are to be found."""
    state.connections[slot, CLIENT] = client
    found(state, slot, side, position)
    other = state.streams[2 * slot + 1 - side]
    lose(other, other[frames.STREAM_BEGIN])
    state.at[AT_DIRECTIONS] = 3
    return DONE


@borrowing
def found(state: State, slot: Integer, side: Integer, position: Integer) -> None:
    """A frame begins at this position: the stream is SYNCED."""
    stream = state.streams[2 * slot + side]
    skipped = stream[frames.STREAM_SKIPPED] + position - stream[frames.STREAM_BEGIN]
    row = row_of(state.rows, stream, position)
    if skipped > 0:
        write_event(state, slot, side, BYTES_SKIPPED, offset_of(state.rows, stream, position), skipped, row)
    stream[frames.STREAM_MODE] = frames.SYNCED
    stream[frames.STREAM_BEGIN] = position
    stream[frames.STREAM_ROW] = row
    stream[frames.STREAM_SKIPPED] = 0
    stream[frames.STREAM_REFUTED] = frames.NOT_REFUTED


@borrowing
def lose(stream: I64, position: Integer) -> None:
    """Nothing that begins before this position is a frame: the stream is LOST."""
    stream[frames.STREAM_SKIPPED] += position - stream[frames.STREAM_BEGIN]
    stream[frames.STREAM_MODE] = frames.LOST
    stream[frames.STREAM_BEGIN] = position
    stream[frames.STREAM_REFUTED] = frames.NOT_REFUTED
    stream[frames.STREAM_NEED] = 0


@borrowing
def _ask(state: State, code: Integer, position: Integer, size: Integer) -> Integer:
    """Ask about so many bytes at a position; returns the code."""
    state.at[ASK_POSITION] = position
    state.at[ASK_SIZE] = size
    return code


@borrowing
def _request_at(state: State, slot: Integer, side: Integer, position: Integer) -> Integer:
    """Whether a request may begin here: NOT_HERE, MORE_NEEDED, or its size.

    A client id that is doubtful (no text, or very long) and not the connection's is believed where a packet begins.
    """
    arena, connection, stream = state.arena, state.connections[slot], state.streams[2 * slot + side]
    pending = NOT_HERE if stream[frames.STREAM_ENDING] else MORE_NEEDED
    left = stream[frames.STREAM_AVAILABLE] - position
    if left < 4:
        return pending
    size = recognise.int32(arena, position)
    if size < 8 or size > RESYNC_LIMIT:
        return NOT_HERE
    if left < 8:
        return pending
    key, version = recognise.int16(arena, position + 4), recognise.int16(arena, position + 6)
    if not recognise.is_valid(key, version, state.apis):
        return NOT_HERE
    if left < 14 and left < 4 + size:
        return pending
    if left >= 14 and size >= 10 and not (key == apis.CONTROLLED_SHUTDOWN and version == 0):
        length = recognise.int16(arena, position + 12)
        if length < -1 or length > size - 10:
            return NOT_HERE
        there = min(left - 14, max(length, 0))
        if connection[CLIENT_ID_LENGTH] >= 0 and not connection[CLIENT_IDS]:
            if not is_client_id(state, slot, position + 14, length, there):
                return NOT_HERE
        elif (
            length > recognise.LONGEST_CLIENT_ID
            or (there == length and not recognise.is_text(arena, position + 14, position + 14 + length))
        ) and (size > recognise.LARGEST_DOUBTFUL or not _begins_packet(state.rows, stream, position)):
            return NOT_HERE
    if left < 4 + size:
        return pending
    flexible = state.apis.first_flexible_request
    recognise.read_request_header(arena, position + 4, position + 4 + size, flexible, state.header)
    return size if state.header[recognise.HEADER_BODY] >= 0 else NOT_HERE


@borrowing
def _chain_at(state: State, slot: Integer, side: Integer) -> Integer:
    """Whether a chain of responses may be at STREAM_BEGIN: NOT_HERE, MORE_NEEDED, or ASK_CHAIN if bodies must tell."""
    stream = state.streams[2 * slot + side]
    begin, available = stream[frames.STREAM_BEGIN], stream[frames.STREAM_AVAILABLE]
    ending = stream[frames.STREAM_ENDING]
    pending = NOT_HERE if ending else MORE_NEEDED
    before = np.int64(0)
    place = begin
    for count in range(CHAIN):
        if ending and count >= 2 and place == available:
            break
        if available - place < 4:
            return pending
        size = recognise.int32(state.arena, place)
        if size < 4 or size > RESYNC_LIMIT:
            return NOT_HERE
        if available - place < 8:
            return pending
        correlation = recognise.int32(state.arena, place + 4)
        if count:
            if correlation <= before or correlation > before + CHAIN_STEP:
                return NOT_HERE
            if outstanding(state.connections[slot], state.nodes, correlation):
                break
        before = correlation
        place += 4 + size
        if place > available and count < CHAIN - 1:
            return pending
    return _ask(state, ASK_CHAIN, begin, available - begin)


@borrowing
def _begins_packet(rows: I64, stream: I64, position: Integer) -> Integer:
    """Whether the first byte of a packet is at a position, which may be far behind STREAM_BEGIN."""
    low = stream[frames.STREAM_ROW]
    high = stream[frames.STREAM_LAST]
    while low < high:
        middle = (low + high + 1) >> 1
        if rows[middle, frames.ROW_START] <= position:
            low = middle
        else:
            high = middle - 1
    return rows[low, frames.ROW_START] == position and rows[low, frames.ROW_HEAD] == 1


@borrowing
def _is_head(rows: I64, stream: I64, position: Integer) -> Integer:
    """Whether the first byte of a packet is at a position, to which STREAM_ROW moves."""
    stream[frames.STREAM_ROW] = row_of(rows, stream, position)
    row = rows[stream[frames.STREAM_ROW]]
    return row[frames.ROW_START] == position and row[frames.ROW_HEAD] == 1 and row[frames.ROW_BYTES] > 0


@borrowing
def _is_whole(state: State, stream: I64, least: Integer) -> Integer:
    """Whether a packet begins at STREAM_BEGIN and its bytes are frames by their sizes, to the last byte."""
    place = stream[frames.STREAM_BEGIN]
    if not _is_head(state.rows, stream, place):
        return False
    end = behind(state.rows, stream[frames.STREAM_ROW])
    while end - place >= 4:
        size = recognise.int32(state.arena, place)
        if size < least or size > end - place - 4:
            return False
        place += 4 + size
    return place == end
