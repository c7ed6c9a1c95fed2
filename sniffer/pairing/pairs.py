"""Frames as requests and responses: what their headers say, and which belong together."""

from __future__ import annotations

import numpy as np

from kafkascope.decoders import apis
from kafkascope.decoders.kernels import borrowing
from kafkascope.sniffer import frames, recognise
from kafkascope.sniffer.columns import I64, NO_TIME, U8
from kafkascope.sniffer.health import ACK_HELD
from kafkascope.sniffer.pairing.state import (
    BAD_HEADER,
    CLIENT,
    CLIENT_ID_KEPT,
    CLIENT_ID_LENGTH,
    CLIENT_IDS,
    COUNT,
    HEAD,
    HELD_BYTES,
    KIND_KAFKA,
    KIND_SASL,
    MOST_WAITING,
    NO_HEADER,
    NODE_ACKED,
    NODE_ACKED_AT,
    NODE_BODY,
    NODE_CLIENT_ID,
    NODE_CLIENT_ID_LENGTH,
    NODE_CORRELATION,
    NODE_END,
    NODE_FIRST_AT,
    NODE_HELD,
    NODE_KEY,
    NODE_KIND,
    NODE_LAST_AT,
    NODE_LEAST_ROUND_TRIP,
    NODE_LENGTH,
    NODE_NEXT,
    NODE_PACKET,
    NODE_ROUND_TRIP,
    NODE_SIZE,
    NODE_SKIPPED,
    NODE_START,
    NODE_VERSION,
    NODE_WHOLE,
    OUTCOME_ANSWERED,
    OUTCOME_ONE_WAY,
    REQUESTS,
    RESPONSES,
    SASL,
    TAKEN,
    TOO_MANY,
    TOO_MANY_BYTES,
    WAITING_LIMIT,
    Integer,
    State,
    behind,
    complete,
    describe,
    free_node,
    give_up,
    link,
    new_node,
    offset_of,
    row_of,
    unlink,
    write_event,
)


@borrowing
def take_frame(state: State, slot: Integer, side: Integer, captured: Integer, size: Integer) -> Integer:
    """Take the frame at STREAM_BEGIN, of which `captured` bytes (with the prefix) are there; False if it is none."""
    rows, nodes, connection = state.rows, state.nodes, state.connections[slot]
    stream = state.streams[2 * slot + side]
    begin = stream[frames.STREAM_BEGIN]
    first = row_of(rows, stream, begin)
    stream[frames.STREAM_ROW] = first
    latest = rows[first, frames.ROW_AT]
    row = first
    while row < stream[frames.STREAM_LAST] and behind(rows, row) < begin + captured:
        row += 1
        if rows[row, frames.ROW_KIND] == frames.BYTES and rows[row, frames.ROW_AT] > latest:
            latest = rows[row, frames.ROW_AT]
    whole = captured == 4 + size
    if not whole and stream[frames.STREAM_CUT_AT] > latest:
        latest = stream[frames.STREAM_CUT_AT]
    node = new_node(nodes, state.at)
    nodes[node, NODE_FIRST_AT] = rows[first, frames.ROW_AT]
    nodes[node, NODE_LAST_AT] = latest
    nodes[node, NODE_PACKET] = rows[first, frames.ROW_NUMBER]
    nodes[node, NODE_SIZE] = 4 + size
    nodes[node, NODE_START] = begin + 4
    nodes[node, NODE_LENGTH] = captured - 4
    nodes[node, NODE_WHOLE] = 1 if whole else 0
    nodes[node, NODE_END] = offset_of(rows, stream, begin) + 4 + size
    nodes[node, NODE_ACKED] = rows[first, frames.ROW_ACKED]
    nodes[node, NODE_ACKED_AT] = rows[first, frames.ROW_ACKED_AT]
    nodes[node, NODE_ROUND_TRIP] = rows[first, frames.ROW_ROUND_TRIP]
    nodes[node, NODE_LEAST_ROUND_TRIP] = rows[first, frames.ROW_LEAST_ROUND_TRIP]
    nodes[node, NODE_HELD] = 0
    if side == connection[CLIENT]:
        nodes[node, NODE_ACKED_AT] = NO_TIME
        _note_acknowledged(connection, nodes, rows[first, frames.ROW_HEARD], rows[first, frames.ROW_HEARD_AT])
        refused = _request(state, slot, node)
        _limit(state, slot, side, REQUESTS)
    else:
        refused = _response(state, slot, node)
        _limit(state, slot, side, RESPONSES)
    if refused == TAKEN:
        return True
    free_node(nodes, state.at, node)
    write_event(state, slot, side, refused, offset_of(rows, stream, begin), size, first)
    return refused != BAD_HEADER


@borrowing
def _limit(state: State, slot: Integer, side: Integer, which: Integer) -> None:
    """Give up the oldest frames of a list with too many of them, or of bytes; one alone waits whatever its size."""
    connection = state.connections[slot]
    while True:
        if connection[which + COUNT] > MOST_WAITING:
            kind, most = TOO_MANY, np.int64(MOST_WAITING)
        elif connection[which + COUNT] > 1 and connection[which + HELD_BYTES] > state.at[WAITING_LIMIT]:
            kind, most = TOO_MANY_BYTES, state.at[WAITING_LIMIT]
        else:
            break
        give_up(state, slot, which, 0, connection[which + HEAD])
        write_event(state, slot, side, kind, 0, most, state.streams[2 * slot + side, frames.STREAM_LAST])


@borrowing
def _answer(state: State, slot: Integer, request: Integer, response: Integer) -> None:
    """Complete an exchange of two nodes that are out of their lists."""
    nodes = state.nodes
    version = nodes[request, NODE_VERSION]
    body = np.int64(0)
    if nodes[request, NODE_KIND] == KIND_KAFKA:
        data = state.held if nodes[response, NODE_HELD] else state.arena
        start = nodes[response, NODE_START]
        end = start + nodes[response, NODE_LENGTH]
        key, flexible = nodes[request, NODE_KEY], state.apis.first_flexible_response
        version, body = recognise.response_layout(data, start, end, key, version, flexible)
        body = body - start if 0 <= body <= end else np.int64(-1)
    nodes[response, NODE_BODY] = body
    complete(state, slot, OUTCOME_ANSWERED, request, response, version)


@borrowing
def _request(state: State, slot: Integer, node: Integer) -> Integer:
    """Take a node's frame as a request, or as a token where one may stand; returns TAKEN, or the event if it is bad."""
    arena, nodes, header, connection = state.arena, state.nodes, state.header, state.connections[slot]
    start = nodes[node, NODE_START]
    end = start + nodes[node, NODE_LENGTH]
    good = recognise.read_request_header(arena, start, end, state.apis.first_flexible_request, header)
    key, version = header[recognise.HEADER_KEY], header[recognise.HEADER_VERSION]
    if connection[SASL]:
        if not (good and _is_no_token(state, slot)):
            describe(nodes, node, KIND_SASL, 0, -1, -1, 0)
            link(connection, REQUESTS, nodes, node)
            return TAKEN
        connection[SASL] = 0
    if end - start < 8 and not nodes[node, NODE_WHOLE]:
        return NO_HEADER
    if not good or key < 0 or version < 0:
        return BAD_HEADER
    if (key > 1023 or version > 255) and not _is_of_client(state, slot):
        return BAD_HEADER
    body = header[recognise.HEADER_BODY]
    if body < 0 and nodes[node, NODE_WHOLE] and not recognise.is_valid(key, version, state.apis):
        # Nobody knows whether tagged fields stand in its header: what does not read as such is body.
        body = _behind_client_id(arena, start, end, header)
    relative = body - start if body >= 0 else np.int64(-1)
    describe(nodes, node, KIND_KAFKA, header[recognise.HEADER_CORRELATION], key, version, relative)
    if header[recognise.HEADER_CLIENT_ID] >= 0:
        nodes[node, NODE_CLIENT_ID] = header[recognise.HEADER_CLIENT_ID] - start
        nodes[node, NODE_CLIENT_ID_LENGTH] = header[recognise.HEADER_CLIENT_ID_LENGTH]
        _remember_client_id(state, slot)
    elif body >= 0 and connection[CLIENT_ID_LENGTH] >= 0:
        connection[CLIENT_IDS] = 1
    if key == apis.SASL_HANDSHAKE and version == 0:
        connection[SASL] = 1
    if key == apis.PRODUCE and body >= 0:
        position = recognise.acks_at(arena, body, end, version)
        if position >= 0 and recognise.int16(arena, position) == 0:
            complete(state, slot, OUTCOME_ONE_WAY, node, 0, version)
            return TAKEN
    response = _early_response(state, slot, node)
    if response:
        _answer(state, slot, node, response)
    else:
        link(connection, REQUESTS, nodes, node)
    return TAKEN


@borrowing
def _is_no_token(state: State, slot: Integer) -> Integer:
    """Whether the header that was read is surely one of a request: of a known version, with a credible client id."""
    header = state.header
    key, version = header[recognise.HEADER_KEY], header[recognise.HEADER_VERSION]
    if header[recognise.HEADER_BODY] < 0 or not recognise.is_valid(key, version, state.apis):
        return False
    start = header[recognise.HEADER_CLIENT_ID]
    end = start + header[recognise.HEADER_CLIENT_ID_LENGTH]
    return _is_of_client(state, slot) or recognise.is_text(state.arena, start, end)


@borrowing
def _is_of_client(state: State, slot: Integer) -> Integer:
    """Whether the header that was read has the client id, not an empty one, that all of its connection had so far."""
    length = state.header[recognise.HEADER_CLIENT_ID_LENGTH]
    if length <= 0 or state.connections[slot, CLIENT_IDS]:
        return False
    return is_client_id(state, slot, state.header[recognise.HEADER_CLIENT_ID], length, length)


@borrowing
def is_client_id(state: State, slot: Integer, position: Integer, length: Integer, there: Integer) -> Integer:
    """Whether a client id, of which so many bytes are there, can be the one that is kept of its connection."""
    if length != state.connections[slot, CLIENT_ID_LENGTH]:
        return False
    for index in range(min(there, CLIENT_ID_KEPT)):
        if state.arena[position + index] != state.client_ids[slot, index]:
            return False
    return True


@borrowing
def _remember_client_id(state: State, slot: Integer) -> None:
    """Keep the client id of the header that was read, unless one is kept; then note if it is another one."""
    connection = state.connections[slot]
    start, length = state.header[recognise.HEADER_CLIENT_ID], state.header[recognise.HEADER_CLIENT_ID_LENGTH]
    if connection[CLIENT_ID_LENGTH] >= 0 and not is_client_id(state, slot, start, length, length):
        connection[CLIENT_IDS] = 1
    if connection[CLIENT_ID_LENGTH] <= 0:
        connection[CLIENT_ID_LENGTH] = length
        for index in range(min(length, CLIENT_ID_KEPT)):
            state.client_ids[slot, index] = state.arena[start + index]


@borrowing
def _behind_client_id(arena: U8, start: Integer, end: Integer, header: I64) -> Integer:
    """Position behind the client id of a request whose header was read; -1 if its end is not there."""
    if header[recognise.HEADER_CLIENT_ID] >= 0:
        return header[recognise.HEADER_CLIENT_ID] + header[recognise.HEADER_CLIENT_ID_LENGTH]
    if end - start >= 10 and recognise.int16(arena, start + 8) == -1:
        return start + 10
    return np.int64(-1)


@borrowing
def _early_response(state: State, slot: Integer, request: Integer) -> Integer:
    """Take out of its list the response that came before its request in the file; 0 if there is none.

    That happens where packets of both directions were swapped. Responses that are older by their times are given up.
    """
    nodes = state.nodes
    before = np.int64(0)
    node = state.connections[slot, RESPONSES + HEAD]
    while node:
        following = nodes[node, NODE_NEXT]
        if nodes[node, NODE_FIRST_AT] < nodes[request, NODE_FIRST_AT]:
            give_up(state, slot, RESPONSES, before, node)
        elif nodes[node, NODE_CORRELATION] == nodes[request, NODE_CORRELATION]:
            unlink(state.connections[slot], RESPONSES, nodes, before, node)
            return node
        else:
            before = node
        node = following
    return np.int64(0)


@borrowing
def _response(state: State, slot: Integer, node: Integer) -> Integer:
    """Take a node's frame as a response; returns TAKEN, or the event if it is bad."""
    nodes, connection = state.nodes, state.connections[slot]
    has_header = nodes[node, NODE_LENGTH] >= 4
    correlation = recognise.int32(state.arena, nodes[node, NODE_START]) if has_header else np.int64(0)
    describe(nodes, node, KIND_KAFKA, correlation, -1, -1, 4 if has_header else -1)
    _note_acknowledged(connection, nodes, nodes[node, NODE_ACKED], nodes[node, NODE_ACKED_AT])
    found = outstanding(connection, nodes, correlation) if has_header else np.int64(0)
    if not found or nodes[found, NODE_SKIPPED]:
        # An answer to a token has no correlation id: it is what answers no request.
        token = _outstanding_token(connection, nodes)
        if token:
            found = token
            nodes[node, NODE_KIND] = KIND_SASL
    if found:
        _pass_over(state, slot, found)
        _answer(state, slot, found, node)
    elif has_header:
        link(connection, RESPONSES, nodes, node)
    else:
        return NO_HEADER
    return TAKEN


@borrowing
def _note_acknowledged(connection: I64, nodes: I64, acked: Integer, at: Integer) -> None:
    """Note which of the requests that wait had been acknowledged when a frame was sent, of either side.

    Of requests that are sent one behind the other, before any is answered, their own answers do not tell: by then
    later ones have been acknowledged, too.
    """
    node = connection[REQUESTS + HEAD] if at != NO_TIME else np.int64(0)
    while node and nodes[node, NODE_END] <= acked:
        done = nodes[node, NODE_LAST_AT]
        is_soon = done != NO_TIME and done <= at <= done + ACK_HELD
        if nodes[node, NODE_ACKED_AT] == NO_TIME and (is_soon or (nodes[node, NODE_END] == acked and done <= at)):
            nodes[node, NODE_ACKED_AT] = at
        node = nodes[node, NODE_NEXT]


@borrowing
def outstanding(connection: I64, nodes: I64, correlation: Integer) -> Integer:
    """The oldest request with a correlation id, and rather one that no other has overtaken; 0 if there is none."""
    found = np.int64(0)
    request = connection[REQUESTS + HEAD]
    while request:
        if nodes[request, NODE_KIND] == KIND_KAFKA and nodes[request, NODE_CORRELATION] == correlation:
            if not nodes[request, NODE_SKIPPED]:
                return request
            if not found:
                found = request
        request = nodes[request, NODE_NEXT]
    return found


@borrowing
def _outstanding_token(connection: I64, nodes: I64) -> Integer:
    """The oldest token that no request has overtaken; 0 if there is none."""
    node = connection[REQUESTS + HEAD]
    while node and (nodes[node, NODE_KIND] != KIND_SASL or nodes[node, NODE_SKIPPED]):
        node = nodes[node, NODE_NEXT]
    return node


@borrowing
def _pass_over(state: State, slot: Integer, found: Integer) -> None:
    """Take a request that is answered out of its list; those before it have been overtaken."""
    nodes, connection = state.nodes, state.connections[slot]
    before = np.int64(0)
    node = connection[REQUESTS + HEAD]
    while node != found:
        following = nodes[node, NODE_NEXT]
        if nodes[node, NODE_KIND] == KIND_SASL and nodes[found, NODE_KIND] != KIND_SASL:
            # The last token of GSSAPI has no answer; a client sends requests only when it is through with tokens.
            unlink(connection, REQUESTS, nodes, before, node)
            complete(state, slot, OUTCOME_ONE_WAY, node, 0, -1)
        else:
            nodes[node, NODE_SKIPPED] = 1
            before = node
        node = following
    unlink(connection, REQUESTS, nodes, before, found)
