"""The kernel between rows of streams and exchanges: finds frames, pairs them, finds them again after gaps.

It takes the rows of each connection in the order in which their bytes became usable, both directions as one sequence,
so that
what it does is the same however the capture was cut into batches. Where a decision needs more than it can see (is this
the
start of Kafka? is this body a Fetch response?) it stops, says what it asks, and goes on at that place when it is
called again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkascope.decoders.kernels import njit
from kafkascope.sniffer.columns import I64, NO_TIME, U8
from kafkascope.sniffer.frames import (
    BYTES,
    DROPPED,
    END,
    GAP,
    LOST,
    ROW_AT,
    ROW_BYTES,
    ROW_HEAD,
    ROW_KEY,
    ROW_KIND,
    ROW_NUMBER,
    ROW_OFFSET,
    ROW_START,
    ROW_WIRE,
    SEARCHING,
    STREAM_AVAILABLE,
    STREAM_BEGIN,
    STREAM_CUT,
    STREAM_CUT_AT,
    STREAM_ENDING,
    STREAM_LAST,
    STREAM_LEFT,
    STREAM_MODE,
    STREAM_NEED,
    STREAM_REFUTED,
    STREAM_ROW,
    STREAM_SCAN,
    STREAM_SEEN,
    STREAM_SKIPPED,
    SYNCED,
    UNDECIDED,
)
from kafkascope.sniffer.recognise import (
    HEADER_BODY,
    HEADER_CLIENT_ID,
    HEADER_CLIENT_ID_LENGTH,
    HEADER_CORRELATION,
    HEADER_KEY,
    HEADER_VERSION,
    LARGEST_DOUBTFUL,
    LONGEST_CLIENT_ID,
    acks_at,
    behind_tags,
    int16,
    int32,
    is_text,
    read_request_header,
    response_layout_version,
)

# Columns of a connection. A list has four: first and last node (0: none), number of nodes, bytes they hold.
CLIENT, REQUESTS, RESPONSES, SASL, NUMBER, CLIENT_ID_LENGTH, CLIENT_IDS, SEARCHED, ENDS, TOLD = 0, 1, 5, *range(9, 16)
CONNECTION_COLUMNS = 16
# CLIENT: direction of requests, -1 if unknown. SASL: 1 while raw tokens may follow. CLIENT_ID_LENGTH: -2 if none was
# seen.
# CLIENT_IDS: 1 if there were several. SEARCHED: bytes looked at in vain. ENDS: directions that have ended. TOLD: 1 if
# the user says that it is Kafka.
HEAD, TAIL, COUNT, HELD_BYTES = range(4)

# Columns of a node: a frame that waits for its other half. Positions are relative to NODE_START but for NODE_START
# itself.
(
    NODE_NEXT,
    NODE_KIND,
    NODE_CORRELATION,
    NODE_KEY,
    NODE_VERSION,
    NODE_CLIENT_ID,
    NODE_CLIENT_ID_LENGTH,
    NODE_FIRST_AT,
    NODE_LAST_AT,
    NODE_PACKET,
    NODE_SIZE,
    NODE_START,
    NODE_BODY,
    NODE_LENGTH,
    NODE_WHOLE,
    NODE_HELD,
    NODE_SKIPPED,
    NODE_COLUMNS,
) = range(18)
# NODE_HELD: 1 if the bytes are in the held buffer, 0 if in the arena. NODE_SKIPPED: 1 if a later request has been
# answered.

# Columns of an exchange: these, then those of the request's node, then those of the response's.
OUT_SLOT, OUT_NUMBER, OUT_KEY, OUT_OUTCOME, OUT_RESPONSE_VERSION, OUT_REQUEST = range(6)
OUT_RESPONSE = OUT_REQUEST + NODE_COLUMNS
OUT_COLUMNS = OUT_RESPONSE + NODE_COLUMNS

# Columns of an event, which becomes an issue.
EVENT_SLOT, EVENT_DIRECTION, EVENT_KIND, EVENT_OFFSET, EVENT_VALUE, EVENT_NUMBER, EVENT_AT = range(7)
EVENT_COLUMNS = 7
(
    IMPLAUSIBLE_SIZE,
    LOST_SYNC,
    BYTES_SKIPPED,
    FRAME_CUT,
    NO_HEADER,
    TOO_MANY,
    INCOMPLETE,
    BAD_HEADER,
    SKIPPED_TO_END,
    TLS_ALERT,
) = range(10)

# Where the kernel is, and what it asks.
(
    AT_CONNECTION,
    AT_ROW_0,
    AT_ROW_1,
    AT_PHASE,
    AT_DIRECTIONS,  # bit mask: the streams of the connection that may be able to go on
    AT_ROW,
    AT_DIRECTION,
    AT_FREE,
    AT_NODES,
    AT_OUT,
    AT_EVENT,
    ASK_SLOT,
    ASK_STREAM,
    ASK_POSITION,
    ASK_SIZE,
    ASK_NODE,
    ANSWER,
    AT_KEY,
    SIZE_LIMIT,
    AT_COLUMNS,
) = range(20)
NEXT_ROW, ADVANCE, BEFORE_BREAK = range(3)
NO_ANSWER, YES, NO, LOOKED = range(4)  # LOOKED: to ASK_START, the modes say what came of it
DONE, ASK_START, ASK_REQUEST, ASK_RESPONSE, ASK_CHAIN, NEED_ROOM = range(6)

OUTCOME_ANSWERED, OUTCOME_ONE_WAY, OUTCOME_UNANSWERED, OUTCOME_ORPHAN = range(4)
KIND_KAFKA, KIND_SASL = range(2)

MOST_WAITING = 1000
MOST_WAITING_BYTES = 64 << 20
ROOM = 4 * MOST_WAITING + 200  # exchanges that one row can complete at most, so much is free before it is looked at
RESYNC_LIMIT = 16 << 20
SEARCH_LIMIT = 64 << 20
CHAIN = 4  # frames in a row with correlation ids that rise by no more than CHAIN_STEP make a stream of responses
CHAIN_STEP = 64
CHAIN_ASKED = 3  # in STREAM_REFUTED, while the answer is out
CLIENT_ID_KEPT = 64


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _event(events: I64, at: I64, slot: int, direction: int, kind: int, offset: int, value: int, row: I64) -> None:
    place = at[AT_EVENT]
    events[place, EVENT_SLOT] = slot
    events[place, EVENT_DIRECTION] = direction
    events[place, EVENT_KIND] = kind
    events[place, EVENT_OFFSET] = offset
    events[place, EVENT_VALUE] = value
    events[place, EVENT_NUMBER] = row[ROW_NUMBER]
    events[place, EVENT_AT] = row[ROW_AT] if row[ROW_KIND] != END else NO_TIME
    at[AT_EVENT] = place + 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _row_of(rows: I64, row: Any, last: Any, position: Any) -> Any:
    while row < last and position >= rows[row, ROW_START] + rows[row, ROW_BYTES]:
        row += 1
    return np.int64(row)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _offset(rows: I64, stream: I64, position: int) -> Any:
    row = _row_of(rows, stream[STREAM_ROW], stream[STREAM_LAST], position)
    return rows[row, ROW_OFFSET] + position - rows[row, ROW_START]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _is_tls_alert(arena: U8, position: int) -> Any:
    """Whether the head of a TLS record with an alert is here (RFC 8446, 5.1): type 21, version 3.x, a short length."""
    return arena[position] == 21 and arena[position + 1] == 3 and arena[position + 2] <= 4 and arena[position + 3] == 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _append(connection: I64, which: int, nodes: I64, node: int) -> None:
    nodes[node, NODE_NEXT] = 0
    if connection[which + TAIL]:
        nodes[connection[which + TAIL], NODE_NEXT] = node
    else:
        connection[which + HEAD] = node
    connection[which + TAIL] = node
    connection[which + COUNT] += 1
    connection[which + HELD_BYTES] += nodes[node, NODE_LENGTH]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _unlink(connection: I64, which: int, nodes: I64, before: int, node: int) -> None:
    following = nodes[node, NODE_NEXT]
    if before:
        nodes[before, NODE_NEXT] = following
    else:
        connection[which + HEAD] = following
    if connection[which + TAIL] == node:
        connection[which + TAIL] = before
    connection[which + COUNT] -= 1
    connection[which + HELD_BYTES] -= nodes[node, NODE_LENGTH]


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _new_node(nodes: I64, at: I64) -> Any:
    node = at[AT_FREE]
    if node:
        at[AT_FREE] = nodes[node, NODE_NEXT]
    else:
        node = at[AT_NODES]
        at[AT_NODES] += 1
    nodes[node, NODE_NEXT] = 0
    nodes[node, NODE_SKIPPED] = 0
    return node


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _free(nodes: I64, at: I64, node: int) -> None:
    nodes[node, NODE_LENGTH] = -1
    nodes[node, NODE_NEXT] = at[AT_FREE]
    at[AT_FREE] = node


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _complete(
    connection: I64, nodes: I64, out: I64, at: I64, slot: int, outcome: int, request: int, response: int, version: int
) -> None:
    """Write an exchange and free its nodes (0: that side is absent)."""
    place = at[AT_OUT]
    at[AT_OUT] = place + 1
    connection[NUMBER] += 1
    row = out[place]
    row[OUT_SLOT] = slot
    row[OUT_NUMBER] = connection[NUMBER]
    row[OUT_KEY] = at[AT_KEY]
    row[OUT_OUTCOME] = outcome
    row[OUT_RESPONSE_VERSION] = version
    # Node 0 is never used: its length is -1, which is how an absent side is known.
    for column in range(NODE_COLUMNS):
        row[OUT_REQUEST + column] = nodes[request, column]
        row[OUT_RESPONSE + column] = nodes[response, column]
    if request:
        _free(nodes, at, request)
    if response:
        _free(nodes, at, response)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _answer(
    arena: U8,
    held: U8,
    connection: I64,
    nodes: I64,
    out: I64,
    at: I64,
    slot: int,
    request: int,
    response: int,
    flexible: I64,
) -> None:
    """Complete an exchange: both nodes are out of their lists."""
    key = nodes[request, NODE_KEY]
    version = nodes[request, NODE_VERSION]
    if nodes[request, NODE_KIND] == KIND_SASL:
        nodes[response, NODE_BODY] = 0
    else:
        data = held if nodes[response, NODE_HELD] else arena
        start = nodes[response, NODE_START]
        end = start + nodes[response, NODE_LENGTH]
        body = start + 4
        first = np.int64(0)
        if 0 <= key < flexible.shape[0]:
            first = flexible[key]
        if end - body >= 2:
            version = response_layout_version(key, version, int16(data, body))
        if version >= first:
            body = behind_tags(data, body, end)
        nodes[response, NODE_BODY] = body - start if body >= 0 and body <= end else -1
    _complete(connection, nodes, out, at, slot, OUTCOME_ANSWERED, request, response, version)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _acks(data: U8, body: int, end: int, version: int) -> Any:
    """Produce's acks, or 1 if they are not there."""
    position = acks_at(data, body, end, version)
    return int16(data, position) if position >= 0 else np.int64(1)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _is_of_client(arena: U8, connection: I64, client_id: U8, header: I64) -> Any:
    """Whether a request bears the client id, not an empty one, that all requests of its connection had so far."""
    length = header[HEADER_CLIENT_ID_LENGTH]
    if length <= 0 or length != connection[CLIENT_ID_LENGTH] or connection[CLIENT_IDS]:
        return False
    for index in range(min(length, CLIENT_ID_KEPT)):
        if client_id[index] != arena[header[HEADER_CLIENT_ID] + index]:
            return False
    return True


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _behind_client_id(arena: U8, start: int, end: int, header: I64) -> Any:
    """Position behind the client id of a request whose header was read; -1 if its end is not there."""
    if header[HEADER_CLIENT_ID] >= 0:
        return header[HEADER_CLIENT_ID] + header[HEADER_CLIENT_ID_LENGTH]
    if end - start >= 10 and int16(arena, start + 8) == -1:
        return np.int64(start + 10)
    return np.int64(-1)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _request(
    arena: U8,
    held: U8,
    connection: I64,
    client_id: U8,
    nodes: I64,
    out: I64,
    at: I64,
    slot: int,
    node: int,
    header: I64,
    known: I64,
    flexible: I64,
    flexible_response: I64,
) -> Any:
    """Take a request. Known: first and last version of each API. Returns NO_ANSWER, or the kind of event if it is
    bad."""
    start = nodes[node, NODE_START]
    end = start + nodes[node, NODE_LENGTH]
    good = read_request_header(arena, start, end, flexible, header)
    key = header[HEADER_KEY]
    if connection[SASL]:
        is_request = good and header[HEADER_BODY] >= 0 and key >= 0 and key < known.shape[0]
        if is_request:
            is_request = known[key, 0] <= header[HEADER_VERSION] <= known[key, 1] and (
                _is_of_client(arena, connection, client_id, header)
                or is_text(arena, header[HEADER_CLIENT_ID], header[HEADER_CLIENT_ID] + header[HEADER_CLIENT_ID_LENGTH])
            )
        if not is_request:
            nodes[node, NODE_KIND] = KIND_SASL
            nodes[node, NODE_CORRELATION] = 0
            nodes[node, NODE_KEY] = -1
            nodes[node, NODE_VERSION] = -1
            nodes[node, NODE_CLIENT_ID] = -1
            nodes[node, NODE_CLIENT_ID_LENGTH] = 0
            nodes[node, NODE_BODY] = 0
            _append(connection, REQUESTS, nodes, node)
            return np.int64(-1)
        connection[SASL] = 0
    if end - start < 8 and not nodes[node, NODE_WHOLE]:
        return np.int64(NO_HEADER)
    if not good or key < 0 or header[HEADER_VERSION] < 0:
        return np.int64(BAD_HEADER)
    if (key > 1023 or header[HEADER_VERSION] > 255) and not _is_of_client(arena, connection, client_id, header):
        return np.int64(BAD_HEADER)
    if header[HEADER_BODY] < 0 and nodes[node, NODE_WHOLE]:
        is_known = key < known.shape[0] and known[key, 0] <= header[HEADER_VERSION] <= known[key, 1]
        if not is_known:  # nobody knows whether tagged fields stand in its header: what does not read as such is body
            header[HEADER_BODY] = _behind_client_id(arena, start, end, header)
    nodes[node, NODE_KIND] = KIND_KAFKA
    nodes[node, NODE_CORRELATION] = header[HEADER_CORRELATION]
    nodes[node, NODE_KEY] = key
    nodes[node, NODE_VERSION] = header[HEADER_VERSION]
    nodes[node, NODE_CLIENT_ID] = -1
    length = header[HEADER_CLIENT_ID_LENGTH]
    nodes[node, NODE_CLIENT_ID_LENGTH] = length
    nodes[node, NODE_BODY] = header[HEADER_BODY] - start if header[HEADER_BODY] >= 0 else -1
    if header[HEADER_CLIENT_ID] >= 0:
        place = header[HEADER_CLIENT_ID]
        nodes[node, NODE_CLIENT_ID] = place - start
        shown = min(length, CLIENT_ID_KEPT)
        if connection[CLIENT_ID_LENGTH] >= 0 and not connection[CLIENT_IDS]:
            same = connection[CLIENT_ID_LENGTH] == length
            for index in range(shown):
                if not same or client_id[index] != arena[place + index]:
                    same = False
                    break
            if not same:
                connection[CLIENT_IDS] = 1
        if connection[CLIENT_ID_LENGTH] <= 0:
            connection[CLIENT_ID_LENGTH] = length
            for index in range(shown):
                client_id[index] = arena[place + index]
    elif nodes[node, NODE_BODY] >= 0 and connection[CLIENT_ID_LENGTH] >= 0:
        connection[CLIENT_IDS] = 1
    if key == 17 and header[HEADER_VERSION] == 0:
        connection[SASL] = 1
    if key == 0 and header[HEADER_BODY] >= 0 and _acks(arena, header[HEADER_BODY], end, header[HEADER_VERSION]) == 0:
        _complete(connection, nodes, out, at, slot, OUTCOME_ONE_WAY, node, 0, header[HEADER_VERSION])
        return np.int64(-1)
    # Responses that came before their request in the file, which happens where packets of both directions were swapped.
    waiting = connection[RESPONSES + HEAD]
    before = np.int64(0)
    while waiting:
        following = nodes[waiting, NODE_NEXT]
        if nodes[waiting, NODE_FIRST_AT] < nodes[node, NODE_FIRST_AT]:
            _unlink(connection, RESPONSES, nodes, before, waiting)
            _complete(connection, nodes, out, at, slot, OUTCOME_ORPHAN, 0, waiting, -1)
        elif nodes[waiting, NODE_CORRELATION] == header[HEADER_CORRELATION]:
            _unlink(connection, RESPONSES, nodes, before, waiting)
            _answer(arena, held, connection, nodes, out, at, slot, node, waiting, flexible_response)
            return np.int64(-1)
        else:
            before = waiting
        waiting = following
    _append(connection, REQUESTS, nodes, node)
    return np.int64(-1)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _response(
    arena: U8,
    held: U8,
    connection: I64,
    nodes: I64,
    out: I64,
    at: I64,
    slot: int,
    node: int,
    flexible_response: I64,
) -> Any:
    """Take a response: of those with its correlation id the oldest request, and rather one that none has overtaken."""
    start = nodes[node, NODE_START]
    length = nodes[node, NODE_LENGTH]
    nodes[node, NODE_KIND] = KIND_KAFKA
    nodes[node, NODE_CORRELATION] = int32(arena, start) if length >= 4 else 0
    nodes[node, NODE_KEY] = -1
    nodes[node, NODE_VERSION] = -1
    nodes[node, NODE_CLIENT_ID] = -1
    nodes[node, NODE_CLIENT_ID_LENGTH] = 0
    nodes[node, NODE_BODY] = 4 if length >= 4 else -1
    found = np.int64(0)
    token = np.int64(0)
    request = connection[REQUESTS + HEAD]
    while request:
        skipped = nodes[request, NODE_SKIPPED]
        if nodes[request, NODE_KIND] == KIND_SASL:
            if not skipped and not token:
                token = request
        elif length >= 4 and nodes[request, NODE_CORRELATION] == nodes[node, NODE_CORRELATION]:
            if not skipped or not found:
                found = request
            if not skipped:
                break
        request = nodes[request, NODE_NEXT]
    # An answer to a token has no correlation id: it is what answers no request.
    if token and (not found or nodes[found, NODE_SKIPPED]):
        found = token
    if found:
        if found == token:
            nodes[node, NODE_KIND] = KIND_SASL
        passed = connection[REQUESTS + HEAD]
        before = np.int64(0)
        while passed != found:
            following = nodes[passed, NODE_NEXT]
            if nodes[passed, NODE_KIND] == KIND_SASL and found != token:
                # The last token of GSSAPI has no answer; a client sends requests only when it is through with tokens.
                _unlink(connection, REQUESTS, nodes, before, passed)
                _complete(connection, nodes, out, at, slot, OUTCOME_ONE_WAY, passed, 0, -1)
            else:
                nodes[passed, NODE_SKIPPED] = 1
                before = passed
            passed = following
        _unlink(connection, REQUESTS, nodes, before, found)
        _answer(arena, held, connection, nodes, out, at, slot, found, node, flexible_response)
        return np.int64(-1)
    if length < 4:
        return np.int64(NO_HEADER)
    _append(connection, RESPONSES, nodes, node)
    return np.int64(-1)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _limit(
    connection: I64, which: int, nodes: I64, out: I64, events: I64, at: I64, slot: int, direction: int, row: I64
) -> None:
    while connection[which + COUNT] > MOST_WAITING or connection[which + HELD_BYTES] > MOST_WAITING_BYTES:
        node = connection[which + HEAD]
        _unlink(connection, which, nodes, 0, node)
        if which == REQUESTS:
            _complete(connection, nodes, out, at, slot, OUTCOME_UNANSWERED, node, 0, nodes[node, NODE_VERSION])
        else:
            _complete(connection, nodes, out, at, slot, OUTCOME_ORPHAN, 0, node, -1)
        _event(events, at, slot, direction, TOO_MANY, 0, connection[which + COUNT], row)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _frame(
    arena: U8,
    held: U8,
    rows: I64,
    stream: I64,
    connection: I64,
    client_id: U8,
    nodes: I64,
    out: I64,
    events: I64,
    at: I64,
    slot: int,
    direction: int,
    captured: int,
    size: int,
    header: I64,
    known: I64,
    flexible: I64,
    flexible_response: I64,
) -> Any:
    """Take the frame at STREAM_BEGIN, of which `captured` bytes (prefix included) are there. False if it is no
    frame."""
    begin = stream[STREAM_BEGIN]
    first = _row_of(rows, stream[STREAM_ROW], stream[STREAM_LAST], begin)
    stream[STREAM_ROW] = first
    node = _new_node(nodes, at)
    nodes[node, NODE_FIRST_AT] = rows[first, ROW_AT]
    nodes[node, NODE_PACKET] = rows[first, ROW_NUMBER]
    latest = rows[first, ROW_AT]
    row = first
    end = begin + captured
    while row < stream[STREAM_LAST] and rows[row, ROW_START] + rows[row, ROW_BYTES] < end:
        row += 1
        if rows[row, ROW_KIND] == BYTES and rows[row, ROW_AT] > latest:
            latest = rows[row, ROW_AT]
    whole = captured == 4 + size
    if not whole and stream[STREAM_CUT_AT] > latest:
        latest = stream[STREAM_CUT_AT]
    nodes[node, NODE_LAST_AT] = latest
    nodes[node, NODE_SIZE] = 4 + size
    nodes[node, NODE_START] = begin + 4
    nodes[node, NODE_LENGTH] = captured - 4
    nodes[node, NODE_WHOLE] = 1 if whole else 0
    nodes[node, NODE_HELD] = 0
    if direction == connection[CLIENT]:
        bad = _request(
            arena,
            held,
            connection,
            client_id,
            nodes,
            out,
            at,
            slot,
            node,
            header,
            known,
            flexible,
            flexible_response,
        )
        _limit(connection, REQUESTS, nodes, out, events, at, slot, direction, rows[stream[STREAM_LAST]])
    else:
        bad = _response(arena, held, connection, nodes, out, at, slot, node, flexible_response)
        _limit(connection, RESPONSES, nodes, out, events, at, slot, direction, rows[stream[STREAM_LAST]])
    if bad < 0:
        return True
    _free(nodes, at, node)
    _event(events, at, slot, direction, bad, _offset(rows, stream, begin), size, rows[first])
    return bad != BAD_HEADER


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _begins_packet(rows: I64, stream: I64, position: int) -> Any:
    """Whether the first byte of a packet is at a position, which may be far behind STREAM_BEGIN."""
    low = stream[STREAM_ROW]
    high = stream[STREAM_LAST]
    while low < high:
        middle = (low + high + 1) >> 1
        if rows[middle, ROW_START] <= position:
            low = middle
        else:
            high = middle - 1
    return rows[low, ROW_START] == position and rows[low, ROW_HEAD] == 1


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _request_at(
    arena: U8,
    rows: I64,
    stream: I64,
    position: int,
    available: int,
    ending: bool,
    connection: I64,
    client_id: U8,
    header: I64,
    known: I64,
    flexible: I64,
) -> Any:
    """Whether a request may begin here: -1 if it cannot, 0 if more bytes must tell, else its size.

    A client id that is doubtful (no text, or very long) and not the connection's is believed where a packet begins.
    """
    pending = np.int64(-1) if ending else np.int64(0)
    left = available - position
    if left < 4:
        return pending
    size = int32(arena, position)
    if size < 8 or size > RESYNC_LIMIT:
        return np.int64(-1)
    if left < 8:
        return pending
    key = int16(arena, position + 4)
    if key < 0 or key >= known.shape[0]:
        return np.int64(-1)
    version = int16(arena, position + 6)
    if version < known[key, 0] or version > known[key, 1]:
        return np.int64(-1)
    if left < 14 and left < 4 + size:
        return pending
    if left >= 14 and size >= 10 and not (key == 7 and version == 0):
        length = int16(arena, position + 12)
        if length < -1 or length > size - 10:
            return np.int64(-1)
        there = min(left - 14, max(length, 0))
        if connection[CLIENT_ID_LENGTH] >= 0 and not connection[CLIENT_IDS]:
            if length != connection[CLIENT_ID_LENGTH]:
                return np.int64(-1)
            for index in range(min(there, CLIENT_ID_KEPT)):
                if arena[position + 14 + index] != client_id[index]:
                    return np.int64(-1)
        elif (
            length > LONGEST_CLIENT_ID
            or (there == length and not is_text(arena, position + 14, position + 14 + length))
        ) and (size > LARGEST_DOUBTFUL or not _begins_packet(rows, stream, position)):
            return np.int64(-1)
    if left < 4 + size:
        return pending
    read_request_header(arena, position + 4, position + 4 + size, flexible, header)
    return size if header[HEADER_BODY] >= 0 else np.int64(-1)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _outstanding(connection: I64, nodes: I64, correlation: Any) -> Any:
    request = connection[REQUESTS + HEAD]
    found = np.int64(0)
    while request:
        if nodes[request, NODE_KIND] == KIND_KAFKA and nodes[request, NODE_CORRELATION] == correlation:
            if not nodes[request, NODE_SKIPPED]:
                return request
            if not found:
                found = request
        request = nodes[request, NODE_NEXT]
    return found


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _chain_at(arena: U8, position: int, available: int, ending: bool, connection: I64, nodes: I64) -> Any:
    """Whether a chain of responses begins here: 1 if so, -1 if not, 0 if more bytes must tell."""
    pending = np.int64(-1) if ending else np.int64(0)
    before = np.int64(0)
    place = np.int64(position)
    for count in range(CHAIN):
        if ending and count >= 2 and place == available:
            return np.int64(1)
        if available - place < 4:
            return pending
        size = int32(arena, place)
        if size < 4 or size > RESYNC_LIMIT:
            return np.int64(-1)
        if available - place < 8:
            return pending
        correlation = int32(arena, place + 4)
        if count:
            if correlation <= before or correlation > before + CHAIN_STEP:
                return np.int64(-1)
            if _outstanding(connection, nodes, correlation):
                return np.int64(1)
        before = correlation
        place += 4 + size
        if place > available and count < CHAIN - 1:
            return pending
    return np.int64(1)


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _found(rows: I64, stream: I64, events: I64, at: I64, slot: int, direction: int, position: int) -> None:
    """A frame begins at this position: the stream is synchronised."""
    skipped = stream[STREAM_SKIPPED] + position - stream[STREAM_BEGIN]
    row = _row_of(rows, stream[STREAM_ROW], stream[STREAM_LAST], position)
    if skipped > 0:
        _event(events, at, slot, direction, BYTES_SKIPPED, _offset(rows, stream, position), skipped, rows[row])
    stream[STREAM_MODE] = SYNCED
    stream[STREAM_BEGIN] = position
    stream[STREAM_ROW] = row
    stream[STREAM_SKIPPED] = 0
    stream[STREAM_REFUTED] = 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _lose(stream: I64, position: int) -> None:
    """Nothing that begins before this position is a frame."""
    stream[STREAM_SKIPPED] += position - stream[STREAM_BEGIN]
    stream[STREAM_MODE] = LOST
    stream[STREAM_BEGIN] = position
    stream[STREAM_REFUTED] = 0
    stream[STREAM_NEED] = 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _is_head(rows: I64, stream: I64, position: int) -> Any:
    row = _row_of(rows, stream[STREAM_ROW], stream[STREAM_LAST], position)
    stream[STREAM_ROW] = row
    return rows[row, ROW_START] == position and rows[row, ROW_HEAD] == 1 and rows[row, ROW_BYTES] > 0


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _is_whole(arena: U8, rows: I64, stream: I64, position: int, least: int) -> Any:
    """Whether a packet begins here and its bytes are frames by their sizes, to the last byte."""
    if not _is_head(rows, stream, position):
        return False
    row = stream[STREAM_ROW]
    place = np.int64(position)
    behind = position + rows[row, ROW_BYTES]
    while behind - place >= 4:
        size = int32(arena, place)
        if size < least or size > behind - place - 4:
            return False
        place += 4 + size
    return place == behind


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def converse(
    arena: U8,
    held: U8,
    rows: I64,
    table: I64,
    streams: I64,
    connections: I64,
    client_ids: U8,
    nodes: I64,
    out: I64,
    events: I64,
    at: I64,
    known: I64,
    flexible: I64,
    flexible_response: I64,
) -> Any:
    """Take the rows of a batch from where `at` says; returns DONE, or what it needs before it can go on there.

    table: Batch.connections. streams, connections, nodes: the state that stays. out, events: what comes of it. known:
    first and
    last version of each API; flexible, flexible_response: first version with tagged fields in the header.
    """
    header = np.zeros(6, np.int64)
    while at[AT_CONNECTION] < table.shape[0]:
        index = at[AT_CONNECTION]
        slot = table[index, 0]
        connection = connections[slot]
        client_id = client_ids[slot]
        if at[AT_ROW_0] < 0:
            at[AT_ROW_0] = table[index, 2]
            at[AT_ROW_1] = table[index, 5]
            for side in range(2):
                first = table[index, 1 + 3 * side]
                new = table[index, 2 + 3 * side]
                behind = table[index, 3 + 3 * side]
                stream = streams[2 * slot + side]
                if behind == first:
                    # Nothing of it is laid out: what it holds, if anything, is not touched.
                    stream[STREAM_BEGIN] = 0
                    stream[STREAM_AVAILABLE] = 0
                    continue
                stream[STREAM_BEGIN] = rows[first, ROW_START]
                stream[STREAM_SCAN] += rows[first, ROW_START]
                stream[STREAM_AVAILABLE] = stream[STREAM_BEGIN]
                if new > first:
                    stream[STREAM_AVAILABLE] = rows[new - 1, ROW_START] + rows[new - 1, ROW_BYTES]
                stream[STREAM_ROW] = first
                stream[STREAM_LAST] = max(first, new - 1)
            at[AT_PHASE] = NEXT_ROW
        while True:
            if (
                out.shape[0] - at[AT_OUT] < ROOM
                or events.shape[0] - at[AT_EVENT] < ROOM
                or nodes.shape[0] - at[AT_NODES] < 8
            ):
                return np.int64(NEED_ROOM)
            if at[AT_PHASE] == NEXT_ROW:
                more_0 = at[AT_ROW_0] < table[index, 3]
                more_1 = at[AT_ROW_1] < table[index, 6]
                if not more_0 and not more_1:
                    break
                if more_0 and (not more_1 or rows[at[AT_ROW_0], ROW_KEY] <= rows[at[AT_ROW_1], ROW_KEY]):
                    row = at[AT_ROW_0]
                    at[AT_ROW_0] += 1
                    direction = np.int64(0)
                else:
                    row = at[AT_ROW_1]
                    at[AT_ROW_1] += 1
                    direction = np.int64(1)
                at[AT_ROW] = row
                at[AT_DIRECTION] = direction
                at[AT_KEY] = rows[row, ROW_KEY]
                stream = streams[2 * slot + direction]
                stream[STREAM_LAST] = row
                stream[STREAM_NEED] = 0
                at[AT_DIRECTIONS] = 1 << direction
                kind = rows[row, ROW_KIND]
                if kind == BYTES:
                    stream[STREAM_SEEN] = 1
                    at[AT_PHASE] = ADVANCE
                    behind = rows[row, ROW_START] + rows[row, ROW_BYTES]
                    if stream[STREAM_MODE] == SYNCED and stream[STREAM_CUT] > 0:
                        taken = min(stream[STREAM_LEFT], rows[row, ROW_BYTES])
                        stream[STREAM_LEFT] -= taken
                        stream[STREAM_CUT_AT] = max(stream[STREAM_CUT_AT], rows[row, ROW_AT])
                        if stream[STREAM_LEFT] > 0:
                            at[AT_DIRECTIONS] = 0
                        else:
                            # The cut frame's bytes are before the gap: the row pointer must not go past them yet.
                            captured = stream[STREAM_CUT]
                            good = _frame(
                                arena,
                                held,
                                rows,
                                stream,
                                connection,
                                client_id,
                                nodes,
                                out,
                                events,
                                at,
                                slot,
                                direction,
                                captured,
                                int32(arena, stream[STREAM_BEGIN]),
                                header,
                                known,
                                flexible,
                                flexible_response,
                            )
                            stream[STREAM_CUT] = 0
                            stream[STREAM_BEGIN] = rows[row, ROW_START] + taken
                            stream[STREAM_AVAILABLE] = behind
                            stream[STREAM_ROW] = row
                            if not good:
                                _lose(stream, stream[STREAM_BEGIN])
                    else:
                        stream[STREAM_AVAILABLE] = behind
                        if stream[STREAM_MODE] == SEARCHING:
                            connection[SEARCHED] += rows[row, ROW_BYTES]
                else:
                    if kind == GAP:
                        stream[STREAM_SEEN] = 1
                    stream[STREAM_ENDING] = 1
                    at[AT_PHASE] = BEFORE_BREAK
            while at[AT_DIRECTIONS]:
                if (
                    out.shape[0] - at[AT_OUT] < ROOM
                    or events.shape[0] - at[AT_EVENT] < ROOM
                    or nodes.shape[0] - at[AT_NODES] < 8
                ):
                    return np.int64(NEED_ROOM)
                direction = np.int64(0)
                if at[AT_DIRECTIONS] == 2 or (at[AT_DIRECTIONS] == 3 and connection[CLIENT] == 1):
                    direction = np.int64(1)
                stream = streams[2 * slot + direction]
                other = streams[2 * slot + 1 - direction]
                ending = stream[STREAM_ENDING] == 1
                mode = stream[STREAM_MODE]
                begin = stream[STREAM_BEGIN]
                available = stream[STREAM_AVAILABLE]
                at[ASK_SLOT] = slot
                at[ASK_STREAM] = 2 * slot + direction
                answer = at[ANSWER]
                at[ANSWER] = NO_ANSWER
                if mode == UNDECIDED:
                    if answer == NO_ANSWER:
                        return np.int64(ASK_START)
                    if stream[STREAM_MODE] == UNDECIDED:
                        at[AT_DIRECTIONS] &= ~(np.int64(1) << direction)
                elif mode == DROPPED:
                    stream[STREAM_BEGIN] = available
                    at[AT_DIRECTIONS] &= ~(np.int64(1) << direction)
                elif mode == SYNCED:
                    if stream[STREAM_CUT] > 0:
                        at[AT_DIRECTIONS] &= ~(np.int64(1) << direction)
                        continue
                    if available - begin < 4:
                        stream[STREAM_NEED] = 4
                        at[AT_DIRECTIONS] &= ~(np.int64(1) << direction)
                        continue
                    size = int32(arena, begin)
                    if direction == connection[CLIENT]:
                        least = 0 if connection[SASL] else 8
                    else:
                        least = 4
                        request = connection[REQUESTS + HEAD]
                        while request:
                            if nodes[request, NODE_KIND] == KIND_SASL:
                                least = 0
                                break
                            if not nodes[request, NODE_SKIPPED]:
                                break
                            request = nodes[request, NODE_NEXT]
                    if size < least or size > at[SIZE_LIMIT]:
                        row = _row_of(rows, stream[STREAM_ROW], stream[STREAM_LAST], begin)
                        if (
                            direction != connection[CLIENT]
                            and connection[REQUESTS + COUNT] + connection[NUMBER] > 0
                            and _offset(rows, stream, begin) == 0
                            and _is_tls_alert(arena, begin)
                        ):
                            _event(events, at, slot, direction, TLS_ALERT, 0, 0, rows[row])
                            stream[STREAM_MODE] = DROPPED
                            continue
                        _event(
                            events,
                            at,
                            slot,
                            direction,
                            IMPLAUSIBLE_SIZE,
                            _offset(rows, stream, begin),
                            size,
                            rows[row],
                        )
                        _lose(stream, begin + 1)
                        continue
                    if available - begin < 4 + size:
                        stream[STREAM_NEED] = 4 + size if size >= 8 else 0  # what is below may yet prove implausible
                        at[AT_DIRECTIONS] &= ~(np.int64(1) << direction)
                        continue
                    stream[STREAM_CUT_AT] = NO_TIME
                    good = _frame(
                        arena,
                        held,
                        rows,
                        stream,
                        connection,
                        client_id,
                        nodes,
                        out,
                        events,
                        at,
                        slot,
                        direction,
                        4 + size,
                        size,
                        header,
                        known,
                        flexible,
                        flexible_response,
                    )
                    if good:
                        stream[STREAM_BEGIN] = begin + 4 + size
                        stream[STREAM_ROW] = _row_of(rows, stream[STREAM_ROW], stream[STREAM_LAST], begin + 4 + size)
                    else:
                        _lose(stream, begin + 1)
                elif mode == LOST:
                    if answer == YES:
                        _found(rows, stream, events, at, slot, direction, begin)
                        continue
                    if answer == NO:
                        stream[STREAM_REFUTED] += 1
                    code = np.int64(DONE)
                    waiting = False
                    while begin < available:
                        if connection[TOLD] and _is_whole(
                            arena, rows, stream, begin, 8 if direction == connection[CLIENT] else 4
                        ):
                            _found(rows, stream, events, at, slot, direction, begin)
                            break
                        if direction == connection[CLIENT]:
                            size = np.int64(-1)
                            if not stream[STREAM_REFUTED]:
                                size = _request_at(
                                    arena,
                                    rows,
                                    stream,
                                    begin,
                                    available,
                                    ending,
                                    connection,
                                    client_id,
                                    header,
                                    known,
                                    flexible,
                                )
                            if size == 0:
                                waiting = True
                                break
                            if size > 0:
                                at[ASK_POSITION] = begin
                                at[ASK_SIZE] = size
                                code = np.int64(ASK_REQUEST)
                                break
                        else:
                            left = available - begin
                            if left < 8 and not ending:
                                waiting = True
                                break
                            if left >= 8:
                                size = int32(arena, begin)
                                if size >= 4 and size <= RESYNC_LIMIT:
                                    if not stream[STREAM_REFUTED]:
                                        node = _outstanding(connection, nodes, int32(arena, begin + 4))
                                        if node:
                                            if left >= 4 + size:
                                                at[ASK_POSITION] = begin
                                                at[ASK_SIZE] = size
                                                at[ASK_NODE] = node
                                                code = np.int64(ASK_RESPONSE)
                                                break
                                            if not ending:
                                                waiting = True
                                                break
                                    if stream[STREAM_REFUTED] < 2 and _is_head(rows, stream, begin):
                                        chain = _chain_at(arena, begin, available, ending, connection, nodes)
                                        if chain == 0:
                                            # The first half of the test above must not see other requests later.
                                            stream[STREAM_REFUTED] = 1
                                            waiting = True
                                            break
                                        if chain > 0:
                                            stream[STREAM_REFUTED] = 1
                                            at[ASK_POSITION] = begin
                                            at[ASK_SIZE] = available - begin
                                            code = np.int64(ASK_CHAIN)
                                            break
                        stream[STREAM_REFUTED] = 0
                        begin += 1
                        stream[STREAM_SKIPPED] += 1
                        stream[STREAM_BEGIN] = begin
                    if code != DONE:
                        return code
                    if waiting or stream[STREAM_MODE] == LOST:
                        at[AT_DIRECTIONS] &= ~(np.int64(1) << direction)
                else:  # SEARCHING
                    position = max(stream[STREAM_SCAN], begin)
                    of_chain = at[ASK_POSITION] == begin and stream[STREAM_REFUTED] == CHAIN_ASKED
                    if of_chain:
                        stream[STREAM_REFUTED] = 1 if answer == NO else 0
                    found = answer == YES and not of_chain
                    if answer == NO and not of_chain:
                        position += 1
                    while not found and position < available:
                        size = _request_at(
                            arena,
                            rows,
                            stream,
                            position,
                            available,
                            ending,
                            connection,
                            client_id,
                            header,
                            known,
                            flexible,
                        )
                        if size == 0:
                            break
                        if size > 0:
                            stream[STREAM_SCAN] = position
                            at[ASK_POSITION] = position
                            at[ASK_SIZE] = size
                            return np.int64(ASK_REQUEST)
                        position += 1
                    stream[STREAM_SCAN] = position
                    if found:
                        connection[CLIENT] = direction
                        _found(rows, stream, events, at, slot, direction, position)
                        _lose(other, other[STREAM_BEGIN])
                        at[AT_DIRECTIONS] = 3
                        continue
                    # No request: a chain of responses from the start of a packet on?
                    chained = answer == YES and of_chain
                    while not chained and begin < available:
                        if not stream[STREAM_REFUTED] and _is_head(rows, stream, begin):
                            chain = _chain_at(arena, begin, available, ending, connection, nodes)
                            if chain == 0:
                                break
                            if chain > 0:
                                stream[STREAM_REFUTED] = CHAIN_ASKED
                                at[ASK_POSITION] = begin
                                at[ASK_SIZE] = available - begin
                                return np.int64(ASK_CHAIN)
                        stream[STREAM_REFUTED] = 1
                        row = _row_of(rows, stream[STREAM_ROW], stream[STREAM_LAST], begin)
                        following = rows[row, ROW_START] + rows[row, ROW_BYTES]
                        if following > position:
                            break
                        stream[STREAM_SKIPPED] += following - begin
                        begin = following
                        stream[STREAM_BEGIN] = begin
                        stream[STREAM_REFUTED] = 0
                    if chained:
                        connection[CLIENT] = 1 - direction
                        _found(rows, stream, events, at, slot, direction, begin)
                        _lose(other, other[STREAM_BEGIN])
                        at[AT_DIRECTIONS] = 3
                        continue
                    if connection[SEARCHED] > SEARCH_LIMIT:
                        stream[STREAM_MODE] = DROPPED
                        other[STREAM_MODE] = DROPPED
                        stream[STREAM_BEGIN] = available
                        other[STREAM_BEGIN] = other[STREAM_AVAILABLE]
                    at[AT_DIRECTIONS] &= ~(np.int64(1) << direction)
            if at[AT_PHASE] == ADVANCE:
                at[AT_PHASE] = NEXT_ROW
                continue
            # A gap or an end, behind all that the bytes before it had to say.
            row = at[AT_ROW]
            direction = at[AT_DIRECTION]
            stream = streams[2 * slot + direction]
            other = streams[2 * slot + 1 - direction]
            mode = stream[STREAM_MODE]
            begin = stream[STREAM_BEGIN]
            available = stream[STREAM_AVAILABLE]
            is_end = rows[row, ROW_KIND] == END
            wire = rows[row, ROW_WIRE]
            at[AT_PHASE] = NEXT_ROW
            stream[STREAM_ENDING] = 0
            stream[STREAM_NEED] = 0
            if mode == SYNCED:
                captured = stream[STREAM_CUT] if stream[STREAM_CUT] > 0 else available - begin
                left = np.int64(-1)
                if captured >= 4:
                    size = int32(arena, begin)
                    if stream[STREAM_CUT] > 0:
                        left = stream[STREAM_LEFT] - wire
                    else:
                        stream[STREAM_CUT_AT] = NO_TIME
                        left = 4 + size - captured - wire
                        _event(
                            events,
                            at,
                            slot,
                            direction,
                            INCOMPLETE if is_end else FRAME_CUT,
                            _offset(rows, stream, begin),
                            4 + size - captured if is_end else min(wire, 4 + size - captured),
                            rows[row],
                        )
                    if is_end or left <= 0:
                        _frame(
                            arena,
                            held,
                            rows,
                            stream,
                            connection,
                            client_id,
                            nodes,
                            out,
                            events,
                            at,
                            slot,
                            direction,
                            captured,
                            size,
                            header,
                            known,
                            flexible,
                            flexible_response,
                        )
                        stream[STREAM_CUT] = 0
                        stream[STREAM_BEGIN] = rows[row, ROW_START]
                        stream[STREAM_AVAILABLE] = rows[row, ROW_START]
                        stream[STREAM_ROW] = row
                    else:
                        stream[STREAM_CUT] = captured
                        stream[STREAM_LEFT] = left
                elif is_end and captured > 0:  # too few bytes to say how long their frame would be
                    _event(events, at, slot, direction, SKIPPED_TO_END, 0, captured, rows[row])
                if left < 0 and not is_end:
                    _event(events, at, slot, direction, LOST_SYNC, rows[row, ROW_OFFSET], wire, rows[row])
                    _lose(stream, stream[STREAM_AVAILABLE])
                    stream[STREAM_ROW] = row
            elif mode in (LOST, SEARCHING):
                stream[STREAM_SKIPPED] += available - begin
                stream[STREAM_BEGIN] = available
                stream[STREAM_SCAN] = available
                stream[STREAM_REFUTED] = 0
                stream[STREAM_ROW] = row
            elif mode == UNDECIDED and not is_end:
                # The start is not in the capture.
                stream[STREAM_MODE] = SEARCHING
                stream[STREAM_BEGIN] = available
                stream[STREAM_SCAN] = available
                stream[STREAM_ROW] = row
                other[STREAM_MODE] = SEARCHING
                other[STREAM_SCAN] = other[STREAM_BEGIN]
                at[AT_DIRECTIONS] = 1 << (1 - direction)
                at[AT_PHASE] = ADVANCE
            else:
                stream[STREAM_BEGIN] = available
            if is_end:
                connection[ENDS] += 1
                if connection[ENDS] == 2:
                    # Not sooner: that it is Kafka may have shown at the end of the other stream.
                    for side in range(2 if connection[CLIENT] >= 0 else 0):
                        skipped = streams[2 * slot + side, STREAM_SKIPPED]
                        if skipped > 0 and streams[2 * slot + side, STREAM_MODE] == LOST:
                            _event(events, at, slot, side, SKIPPED_TO_END, 0, skipped, rows[row])
                    while connection[REQUESTS + HEAD]:
                        node = connection[REQUESTS + HEAD]
                        _unlink(connection, REQUESTS, nodes, 0, node)
                        _complete(
                            connection, nodes, out, at, slot, OUTCOME_UNANSWERED, node, 0, nodes[node, NODE_VERSION]
                        )
                    while connection[RESPONSES + HEAD]:
                        node = connection[RESPONSES + HEAD]
                        _unlink(connection, RESPONSES, nodes, 0, node)
                        _complete(connection, nodes, out, at, slot, OUTCOME_ORPHAN, 0, node, -1)
        at[AT_CONNECTION] += 1
        at[AT_ROW_0] = -1
    return np.int64(DONE)
