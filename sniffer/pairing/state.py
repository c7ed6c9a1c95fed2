"""What the kernel works on: its arrays with their columns, its codes, and the small steps that all parts of it take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kafkascope.decoders.apis import ApiTable
from kafkascope.decoders.kernels import borrowing
from kafkascope.sniffer import frames
from kafkascope.sniffer.columns import I64, NO_TIME, U8, Kind, Outcome

Integer = Any  # int64 inside kernels

# Columns of a connection. A list has four: first and last node (0: none), number of nodes, bytes they hold.
(
    CLIENT,  # direction of the requests; -1: unknown
    REQUESTS,  # list of the requests without a response
    RESPONSES,  # list of the responses without a request
    SASL,  # 1 while raw tokens may follow
    NUMBER,  # exchanges completed
    CLIENT_ID_LENGTH,  # of the first client id that is not empty; -2: no client id was seen
    CLIENT_IDS,  # 1 if there were several
    SEARCHED,  # bytes looked at in vain
    ENDS,  # directions that have ended
    TOLD,  # 1 if the user says that it is Kafka
) = 0, 1, 5, *range(9, 16)
CONNECTION_COLUMNS = 16
HEAD, TAIL, COUNT, HELD_BYTES = range(4)

# Columns of a node: a frame that waits for its other half. All positions but NODE_START itself are relative to it.
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
    NODE_LENGTH,  # -1: the node is free
    NODE_WHOLE,
    NODE_HELD,  # 1: the bytes are in the held buffer, 0: in the arena
    NODE_SKIPPED,  # 1: a later request has been answered
    NODE_END,  # offset in the stream behind the frame
    NODE_ACKED,  # of a response: the next four as in Runs, of the packet with its first byte
    NODE_ACKED_AT,  # of a request: when it had been acknowledged, as far as a later frame told; NO_TIME: none did
    NODE_ROUND_TRIP,
    NODE_LEAST_ROUND_TRIP,
    NODE_COLUMNS,
) = range(23)

# Columns of an exchange: these, then those of the request's node, then those of the response's.
OUT_SLOT, OUT_NUMBER, OUT_PACKET, OUT_OUTCOME, OUT_RESPONSE_VERSION, OUT_REQUEST = range(6)
OUT_RESPONSE = OUT_REQUEST + NODE_COLUMNS
OUT_COLUMNS = OUT_RESPONSE + NODE_COLUMNS

# Columns of an event, which becomes an issue, and its kinds.
EVENT_SLOT, EVENT_DIRECTION, EVENT_KIND, EVENT_OFFSET, EVENT_VALUE, EVENT_NUMBER, EVENT_AT, EVENT_COLUMNS = range(8)
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
    TOO_MANY_BYTES,
) = range(11)
TAKEN = -1  # in place of an event's kind: the frame is a request or response

# Where the kernel is, and what it asks.
(
    AT_CONNECTION,  # entry of the table
    AT_NEXT_ROW,  # for both directions; -1: the connection has not begun
    AT_NEXT_ROW_1,
    AT_DIRECTIONS,  # bit mask: the streams of the connection that may be able to go on
    AT_BREAK,  # 1: AT_ROW is a gap or an end, to be dealt with when the streams cannot go on
    AT_ROW,
    AT_DIRECTION,  # of AT_ROW
    AT_NUMBER,  # highest packet number of the connection in this batch
    AT_FREE,  # first of the free nodes; 0: none
    AT_NODES,  # nodes that were ever used; node 0 is none
    AT_OUT,  # exchanges written
    AT_EVENT,  # events written
    ASK_STREAM,
    ASK_POSITION,
    ASK_SIZE,
    ASK_NODE,
    ANSWER,
    SIZE_LIMIT,  # bytes of the largest frame that is believed
    WAITING_LIMIT,  # bytes of a list of a connection, if it has more than one node
    AT_COLUMNS,
) = range(20)
NO_ANSWER, YES, NO, LOOKED = range(4)  # LOOKED: to ASK_START, the modes say what came of it
DONE, ASK_START, ASK_REQUEST, ASK_RESPONSE, ASK_CHAIN, NEED_ROOM = range(6)
NOT_HERE, MORE_NEEDED = -3, -2  # of a candidate for a frame: it cannot be one; only more bytes can tell

OUTCOME_ANSWERED, OUTCOME_ONE_WAY, OUTCOME_UNANSWERED, OUTCOME_ORPHAN = map(int, Outcome)
KIND_KAFKA, KIND_SASL = map(int, Kind)

MOST_WAITING = 1000
ROOM = 4 * MOST_WAITING + 200  # exchanges that one row can complete at most, so much is free before it is looked at
ROOM_NODES = 8  # the same for nodes
CLIENT_ID_KEPT = 64


class State(NamedTuple):
    """All arrays of the kernel. A node, an exchange and so on is a row; its columns are named above or in frames.py."""

    arena: U8  # bytes of the batch
    held: U8  # bytes of nodes from earlier batches
    rows: I64  # of the batch
    table: I64  # Batch.connections
    streams: I64
    connections: I64
    client_ids: U8  # of each connection the first that is not empty, up to CLIENT_ID_KEPT bytes
    nodes: I64
    out: I64  # exchanges
    events: I64
    at: I64  # AT_, ASK_ and ANSWER
    header: I64  # the latest header that was read, HEADER_ columns
    apis: ApiTable


@borrowing
def write_event(
    state: State, slot: Integer, side: Integer, kind: Integer, offset: Integer, value: Integer, row: Integer
) -> None:
    """Write an event of a stream: its kind, its offset in the stream, and the row that tells its packet and time."""
    event = state.events[state.at[AT_EVENT]]
    state.at[AT_EVENT] += 1
    event[EVENT_SLOT] = slot
    event[EVENT_DIRECTION] = side
    event[EVENT_KIND] = kind
    event[EVENT_OFFSET] = offset
    event[EVENT_VALUE] = value
    event[EVENT_NUMBER] = state.rows[row, frames.ROW_NUMBER]
    event[EVENT_AT] = state.rows[row, frames.ROW_AT] if state.rows[row, frames.ROW_KIND] != frames.END else NO_TIME


@borrowing
def rest(state: State, side: Integer) -> None:
    """Nothing more can be done with a stream before its next row."""
    state.at[AT_DIRECTIONS] &= ~(np.int64(1) << side)


@borrowing
def behind(rows: I64, row: Integer) -> Integer:
    """The arena position behind a row."""
    return rows[row, frames.ROW_START] + rows[row, frames.ROW_BYTES]


@borrowing
def row_of(rows: I64, stream: I64, position: Integer) -> Integer:
    """The row that holds an arena position, which is not before STREAM_ROW; else the last that has arrived."""
    row = stream[frames.STREAM_ROW]
    while row < stream[frames.STREAM_LAST] and position >= behind(rows, row):
        row += 1
    return row


@borrowing
def offset_of(rows: I64, stream: I64, position: Integer) -> Integer:
    """The offset in the stream of an arena position, which is not before STREAM_ROW."""
    row = row_of(rows, stream, position)
    return rows[row, frames.ROW_OFFSET] + position - rows[row, frames.ROW_START]


@borrowing
def new_node(nodes: I64, at: I64) -> Integer:
    """A free node; the caller has seen to it that there is room."""
    node = at[AT_FREE]
    if node:
        at[AT_FREE] = nodes[node, NODE_NEXT]
    else:
        node = at[AT_NODES]
        at[AT_NODES] += 1
    nodes[node, NODE_NEXT] = 0
    nodes[node, NODE_SKIPPED] = 0
    return node


@borrowing
def free_node(nodes: I64, at: I64, node: Integer) -> None:
    """Make a node, which is in no list, free for other frames."""
    nodes[node, NODE_LENGTH] = -1
    nodes[node, NODE_NEXT] = at[AT_FREE]
    at[AT_FREE] = node


@borrowing
def link(connection: I64, which: Integer, nodes: I64, node: Integer) -> None:
    """Put a node at the end of a list, REQUESTS or RESPONSES."""
    nodes[node, NODE_NEXT] = 0
    if connection[which + TAIL]:
        nodes[connection[which + TAIL], NODE_NEXT] = node
    else:
        connection[which + HEAD] = node
    connection[which + TAIL] = node
    connection[which + COUNT] += 1
    connection[which + HELD_BYTES] += nodes[node, NODE_LENGTH]


@borrowing
def unlink(connection: I64, which: Integer, nodes: I64, before: Integer, node: Integer) -> None:
    """Take a node out of a list; before: the node before it there, 0 if it is the first."""
    following = nodes[node, NODE_NEXT]
    if before:
        nodes[before, NODE_NEXT] = following
    else:
        connection[which + HEAD] = following
    if connection[which + TAIL] == node:
        connection[which + TAIL] = before
    connection[which + COUNT] -= 1
    connection[which + HELD_BYTES] -= nodes[node, NODE_LENGTH]


@borrowing
def complete(
    state: State, slot: Integer, outcome: Integer, request: Integer, response: Integer, response_version: Integer
) -> None:
    """Write an exchange and free its nodes, which are out of their lists (0: that side is absent)."""
    out = state.out[state.at[AT_OUT]]
    state.at[AT_OUT] += 1
    state.connections[slot, NUMBER] += 1
    out[OUT_SLOT] = slot
    out[OUT_NUMBER] = state.connections[slot, NUMBER]
    out[OUT_PACKET] = state.at[AT_NUMBER]
    out[OUT_OUTCOME] = outcome
    out[OUT_RESPONSE_VERSION] = response_version
    # Node 0 is never used: its length is -1, which is how an absent side is known.
    for column in range(NODE_COLUMNS):
        out[OUT_REQUEST + column] = state.nodes[request, column]
        out[OUT_RESPONSE + column] = state.nodes[response, column]
    if request:
        free_node(state.nodes, state.at, request)
    if response:
        free_node(state.nodes, state.at, response)


@borrowing
def give_up(state: State, slot: Integer, which: Integer, before: Integer, node: Integer) -> None:
    """Complete a frame of a list without its other half; before: the node before it there, 0 if it is the first."""
    unlink(state.connections[slot], which, state.nodes, before, node)
    if which == REQUESTS:
        complete(state, slot, OUTCOME_UNANSWERED, node, 0, state.nodes[node, NODE_VERSION])
    else:
        complete(state, slot, OUTCOME_ORPHAN, 0, node, -1)


@borrowing
def describe(
    nodes: I64, node: Integer, kind: Integer, correlation: Integer, key: Integer, version: Integer, body: Integer
) -> None:
    """Note what the header of a node's frame says; without a client id, so far."""
    nodes[node, NODE_KIND] = kind
    nodes[node, NODE_CORRELATION] = correlation
    nodes[node, NODE_KEY] = key
    nodes[node, NODE_VERSION] = version
    nodes[node, NODE_BODY] = body
    nodes[node, NODE_CLIENT_ID] = -1
    nodes[node, NODE_CLIENT_ID_LENGTH] = 0
