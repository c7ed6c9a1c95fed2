"""The compiled half of TCP reassembly: one pass over segments, in the order of the capture.

``absorb`` looks up the connection of each segment, moves that connection's state on by it, and writes rows: bytes of
streams and gaps in them. All that a connection's rows, statistics and issues depend on are its own segments in their
order, so that it does not matter how a capture is cut into batches, or which other connections it holds: unless there
are so many, or hold so much together, that limits are reached.

Where files were captured at several points at once, a stream goes by the file with the lowest rank that has its
packets, for differences of times mean something at one point only. What other files have is a copy, which is left out
(and counted as such, not as a packet or a retransmission), unless it brings something that has not been seen. Copies
come one window for each rank later than they were captured: when one is looked at, what it may be a copy of is known.

Sequence numbers (RFC 9293) are unwrapped to positions: int64 numbers whose low 32 bits are the sequence number, and
that never wrap. 0 is no position. A stream's offset is a position less that of its first byte.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kafkascope.decoders.kernels import allocating, borrowing, copy_bytes, kernel
from kafkascope.sniffer import health
from kafkascope.sniffer.columns import ACK, FIN, I8, I32, I64, NO_TIME, RST, SYN, U8, U16, U32, U64
from kafkascope.sniffer.units import SECOND_NS

Records = Any  # a structured array
Record = Any  # one element of it, as numba sees it: named fields that can be set
Integer = Any  # int64 inside kernels


# Bounds of plausibility and patience. Times are nanoseconds of the connection's own clock: the latest of its packets.
WINDOW = 64 << 20  # a segment farther than this from all that was seen or acknowledged is not believed
FARTHEST = 1 << 30  # the largest gap that a single segment makes believe
SENT_LATER, SENT_BEFORE = 8192, 1024  # packets by which identifications of two may be apart that a host counts up
AGREEING = 3  # implausible segments that continue each other are believed from this one on,
AGREEING_BEHIND = 16  # ... and from this one on, if they may as well be old: sequence numbers begin anew behind 4 GB
SOON = 3_000_000  # the same packet once more so soon was captured twice, unless its loss was shown meanwhile
PROOF_PACKETS = 64  # an acknowledged byte that is still missing so many packets of the connection later is a gap ...
PROOF_TIME = 1 * SECOND_NS  # ... or so much later: files may be out of order, with acknowledgements ahead of the data
ONE_WAY_PIECES = 256  # where the other side was not captured, a hole with so many segments behind it is a gap,
ONE_WAY_BYTES = 1 << 20  # or so many bytes,
ONE_WAY_TIME = 3 * SECOND_NS  # or one so old
MOST_PIECES = 4096  # ... and in any case one with so many segments behind it
REUSE_TIME = 60 * SECOND_NS  # a packet so long after the end begins another connection on the same ports
IDLE_TIME = 20 * 60 * SECOND_NS  # ... and so does one after such a silence, or after a shorter one
UNANSWERED_TIME = 35 * SECOND_NS  # where one side alone was seen, and no payload: Linux repeats a SYN after up to 32 s
SWEEP_SEGMENTS = 1024  # connections that have ended are looked for after so many segments (more with many connections)
COMPARED_SEGMENTS = 16  # first copies of bytes of a stream that are kept, to compare what comes again: the latest,
COMPARED_BYTES = 16 << 10  # ... no more than so many bytes,
COMPARED_TIME = 1 * SECOND_NS  # ... and for so long: most retransmissions come sooner
FORGOTTEN_TIME = 10 * SECOND_NS  # silence after which they may be dropped, whatever disorder there is in times
RECENT = 64  # segments of a stream that are remembered, to know them again; two interfaces may take turns by dozens

NO_RANK = 127  # behind all that there are

OPEN, BY_FIN, BY_RST = 0, 1, 2  # how a connection ended
UNKNOWN, ASSUMED, CERTAIN = 0, 1, 2  # what is known of where a stream begins
BEFORE, ESTABLISHED, REFUSED, UNANSWERED = range(4)  # how a connection began: before the capture, or what the SYN met

# Kinds of issues, counted by connection.
GAP, LATE, DUPLICATE, SNAPPED, WILD, AFTER_FIN, CONFLICTING, STREAM_FULL, ALL_FULL = range(9)
KINDS = 9

# Why absorb stopped.
DONE, NEEDS_ROOM, NEEDS_SWEEP, NEEDS_END, NEEDS_FEWER = range(5)

# The fields that nearly every segment touches come first, so that they share cache lines; small ones fill up a word.
CONNECTION = np.dtype(
    [
        # The two endpoints, the smaller one is side 0.
        ("hash", "u8"),
        ("high_0", "u8"),
        ("low_0", "u8"),
        ("high_1", "u8"),
        ("low_1", "u8"),
        ("ports", "u4"),  # of side 0, and of side 1 in the low 16 bits
        ("used", "i1"),
        ("how_closed", "i1"),
        ("first_side", "i1"),  # the side whose stream is direction 0
        ("opened_by", "i1"),  # 0: unknown, 1: shown by a SYN and ACK, 2: by the SYN
        ("now", "i8"),  # latest time of its packets
        ("packets", "i8"),
        ("packets_0", "i8"),
        ("packets_1", "i8"),
        ("bytes_0", "i8"),
        ("bytes_1", "i8"),
        ("batch", "i8"),  # the latest one that it has rows in
        ("ordinal", "i4"),  # its number among the connections with rows in that batch
        ("marks", "i4"),  # where its issues are counted; -1: it has none
        ("id", "i8"),
        ("opened", "i8"),
        ("first_seen", "i8"),
        ("closed", "i8"),
        ("next_free", "i4"),  # slot
        ("retransmits", "i4"),
        ("out_of_order", "i4"),
        ("gap_bytes", "i8"),
        ("reset_side", "i1"),  # whose RST ended it; -1: none did
        ("closing_side", "i1"),  # whose FIN or RST came first; -1: none did
        ("is_refused", "i1"),
        ("beginning", "i1"),  # how it began; known when it has ended
        ("base_0", "i8"),  # sequence numbers at offset 0 of the streams; known when it has ended
        ("base_1", "i8"),
    ]
)
STREAM = np.dtype(
    [
        ("base", "i8"),  # position of offset 0
        ("next", "i8"),  # position of the first byte that was not emitted yet
        ("highest", "i8"),  # position behind the last byte seen
        ("fin", "i8"),  # position of the FIN
        ("known", "i1"),
        ("rank", "i1"),  # of the file that the stream goes by
        ("recent_next", "i2"),
        ("wild_count", "i4"),
        ("first_piece", "i4"),  # pending pieces, a list by position; -1: none
        ("last_piece", "i4"),
        ("piece_count", "i4"),
        ("ring", "i4"),  # of its latest segments; -1: it has had one at most, which is
        ("firsts", "i4"),  # row of its first copies; -1: none
        ("firsts_next", "i2"),
        ("firsts_fresh", "i2"),  # 1: some of them lie in the batch
        ("identity", "i8"),
        ("proof", "i8"),  # an earlier value of acked that showed bytes to be missing; waits for them to come late
        ("acked", "i8"),  # position up to which the other side acknowledged, by this packet:
        ("acked_number", "i8"),
        ("acked_at", "i8"),
        ("acked_count", "i8"),
        ("acked_now", "i8"),
        ("piece_bytes", "i8"),
        ("fin_number", "i8"),
        ("fin_at", "i8"),
        ("proof_number", "i8"),
        ("proof_at", "i8"),
        ("proof_count", "i8"),
        ("proof_now", "i8"),
        ("gap_start", "i8"),  # positions of the latest gap
        ("gap_end", "i8"),
        ("wild_next", "i8"),  # sequence number that would continue the latest implausible segment
        ("rank_at", "i8"),  # latest time in the file of that rank
    ]
)
FIRST = np.dtype(
    [
        ("position", "i8"),
        ("length", "i8"),  # 0: nothing is here
        ("start", "i8"),
        ("kept", "i8"),  # 1: start points into the kept bytes, 0: into the batch
        ("at", "i8"),
    ]
)
PIECE = np.dtype(
    [
        ("next", "i8"),  # in the stream's list, or in the list of free ones
        ("used", "i8"),
        ("held", "i8"),  # 1: start points into the held bytes, 0: into the batch
        ("position", "i8"),
        ("length", "i8"),
        ("captured", "i8"),
        ("start", "i8"),
        ("number", "i8"),
        ("ident", "i8"),
        ("at", "i8"),
        ("now", "i8"),  # the connection's clock at its arrival
    ]
)
PIECE_BYTES = PIECE.itemsize
ROW = np.dtype(
    [
        ("stream", "i8"),  # ordinal of the connection, twice, plus direction
        ("offset", "i8"),
        ("start", "i8"),  # -1: a gap; from the batch's size on: in the held bytes
        ("length", "i8"),
        ("number", "i8"),
        ("at", "i8"),
        ("acked", "i8"),  # offset up to which the sender had acknowledged the other stream by then; -1: not known
        ("acked_at", "i8"),  # time of the first packet that said so
        ("round_trip", "i8"),  # from data of the other side to the sender's acknowledgement, the least of late
        ("least_round_trip", "i8"),  # ... and of all so far
        ("heard", "i8"),  # offset up to which the other side had acknowledged this stream by then; -1: not known
        ("heard_at", "i8"),
    ]
)
MARK = np.dtype([("count", "i8"), ("at", "i8"), ("number", "i8"), ("value", "i8"), ("sum", "i8")])  # sum: of all values
TOTALS = np.dtype(
    [
        ("rows", "i8"),
        ("ordinals", "i8"),
        ("ended", "i8"),
        ("live", "i8"),
        ("slots", "i8"),  # ever used
        ("free_slot", "i8"),
        ("pieces", "i8"),  # in use
        ("piece_slots", "i8"),  # ever used
        ("free_piece", "i8"),
        ("freed_bytes", "i8"),  # of the held ones, no longer needed
        ("rings", "i8"),  # ever used
        ("free_ring", "i8"),
        ("marks", "i8"),  # ever used
        ("free_marks", "i8"),
        ("sweep_from", "i8"),  # slot at which the next sweep begins
        ("ending", "i8"),  # slot of the connection to be ended, for the next segment uses its ports anew
        ("since_sweep", "i8"),
        ("earliest", "i8"),  # time of the segments since the latest sweep
        ("batch", "i8"),
        ("batch_size", "i8"),
        ("window", "i8"),  # no copy is farther from its packet; 0: there are no ranks
        ("patience", "i8"),  # after so long all copies of a packet have come
        ("copies", "i8"),
        ("firsts", "i8"),  # rows of first copies ever used
        ("free_firsts", "i8"),
        ("unkept_bytes", "i8"),  # of the kept ones, no longer needed
        ("told", "i8"),  # rows of spans that are over
        ("piece_bytes", "i8"),  # of all pieces, with themselves
        ("most_live", "i8"),  # these three are Limits: connections, stream_bytes, held_bytes
        ("most_of_stream", "i8"),
        ("most_in_all", "i8"),
    ]
)


class State(NamedTuple):
    """Connections and their streams by slot, what is pending, and the rows of the batch in hand."""

    connections: Records
    streams: Records  # two for each connection
    recent: I64  # rings: fingerprints and times of a stream's latest segments; of a free one the next free one
    firsts: Records  # by row and place: the first copies of the latest bytes of a stream
    flows: Records  # what health keeps of each side, as streams
    spans: Records  # the span in hand of each side
    told: Records  # spans that are over
    marks: Records  # issues by kind, of connections that have some; of free ones the first value is the next free one
    pieces: Records  # segments, or parts of them, that wait for what comes before
    table: I64  # open addressing: slot of a connection, -1 empty
    rows: Records
    order: I64  # connection id by ordinal
    ended: Records  # connections that ended, as they were, and their marks
    ended_marks: Records
    ended_flows: Records  # two for each
    totals: Records
    secret: U64  # two numbers that make the hash unpredictable to whoever sends the packets


@borrowing
def elapsed(at: Integer, since: Integer) -> Integer:
    """Nanoseconds from one time to another; none if either is not known."""
    if at == NO_TIME or since == NO_TIME:
        return 0
    return at - since


@borrowing
def _unwrap(seq: Integer, near: Integer) -> Integer:
    """Position of a sequence number: the nearest one to the position ``near``."""
    distance = (seq - near) & 0xFFFFFFFF
    if distance >= 0x80000000:
        distance -= 0x100000000
    return near + distance


@borrowing
def _hash(secret: U64, high_0: Integer, low_0: Integer, high_1: Integer, low_1: Integer, ports: Integer) -> Integer:
    mixed = secret[0]
    for word in (high_0, low_0, high_1, low_1, ports):
        mixed = (mixed ^ word) * secret[1]
        mixed ^= mixed >> np.uint64(29)
    mixed = mixed * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(32))


@borrowing
def _bucket(table: I64, hashed: Integer) -> Integer:
    return np.int64(hashed & np.uint64(table.shape[0] - 1))


@borrowing
def _enter(state: State, slot: Integer) -> None:
    mask = state.table.shape[0] - 1
    place = _bucket(state.table, state.connections[slot].hash)
    while state.table[place] >= 0:
        place = (place + 1) & mask
    state.table[place] = slot


@borrowing
def _leave(state: State, slot: Integer) -> None:
    """Take a connection out of the table, and move up those that it had pushed away from their bucket."""
    mask = state.table.shape[0] - 1
    hole = _bucket(state.table, state.connections[slot].hash)
    while state.table[hole] != slot:
        hole = (hole + 1) & mask
    place = hole
    while True:
        place = (place + 1) & mask
        other = state.table[place]
        if other < 0:
            break
        home = _bucket(state.table, state.connections[other].hash)
        if ((place - home) & mask) >= ((place - hole) & mask):
            state.table[hole] = other
            hole = place
    state.table[hole] = -1


@kernel
def rehash(state: State) -> None:
    """Enter all connections into a table that is still empty."""
    for slot in range(state.totals[0].slots):
        if state.connections[slot].used:
            _enter(state, slot)


@borrowing
def _mark(state: State, slot: Integer, kind: Integer, at: Integer, number: Integer, value: Integer) -> None:
    """Count an issue of a connection; the one with the lowest packet number is told in full."""
    connection = state.connections[slot]
    if connection.marks < 0:
        totals = state.totals[0]
        place = totals.free_marks
        if place >= 0:
            totals.free_marks = state.marks[place, 0].value
        else:
            place = totals.marks
            totals.marks += 1
        for index in range(KINDS):
            state.marks[place, index].count = 0
            state.marks[place, index].sum = 0
        connection.marks = place
    mark = state.marks[connection.marks, kind]
    mark.count += 1
    mark.sum += value
    if mark.count == 1 or number < mark.number:
        mark.at = at
        mark.number = number
        mark.value = value


@borrowing
def _doubles(marks: Records, connection: Record) -> Integer:
    """How many segments of a connection were captured twice."""
    return np.int64(0) if connection.marks < 0 else marks[connection.marks, DUPLICATE].count


@borrowing
def _note_first(
    state: State, index: Integer, position: Integer, start: Integer, captured: Integer, at: Integer
) -> None:
    """Note where in the batch bytes of a stream are that have not been seen before."""
    if captured <= 0 or start < 0:
        return
    totals, stream = state.totals[0], state.streams[index]
    if stream.firsts < 0:
        if totals.free_firsts >= 0:
            stream.firsts = totals.free_firsts
            totals.free_firsts = state.firsts[stream.firsts, 0].start
        else:
            stream.firsts = totals.firsts
            totals.firsts += 1
        stream.firsts_next = 0
        for place in range(COMPARED_SEGMENTS):
            state.firsts[stream.firsts, place].length = 0
            state.firsts[stream.firsts, place].kept = 0
    first = state.firsts[stream.firsts, stream.firsts_next]
    if first.kept:
        totals.unkept_bytes += first.length
    skipped = max(captured - COMPARED_BYTES, 0)
    first.position = position + skipped
    first.length = captured - skipped
    first.start = start + skipped
    first.kept = 0
    first.at = at
    stream.firsts_next = (stream.firsts_next + 1) % COMPARED_SEGMENTS
    stream.firsts_fresh = 1


@borrowing
def _forget_firsts(state: State, index: Integer) -> None:
    totals, stream = state.totals[0], state.streams[index]
    if stream.firsts < 0:
        return
    for place in range(COMPARED_SEGMENTS):
        first = state.firsts[stream.firsts, place]
        if first.kept:
            totals.unkept_bytes += first.length
    state.firsts[stream.firsts, 0].start = totals.free_firsts
    totals.free_firsts = stream.firsts
    stream.firsts = -1
    stream.firsts_fresh = 0


@borrowing
def _differing(
    state: State,
    data: U8,
    kept: U8,
    index: Integer,
    position: Integer,
    start: Integer,
    captured: Integer,
    at: Integer,
) -> Integer:
    """How many bytes of a segment differ from their first copies, as far as those are still there."""
    stream = state.streams[index]
    different = np.int64(0)
    if stream.firsts < 0 or start < 0:
        return different
    total = np.int64(0)
    for back in range(1, COMPARED_SEGMENTS + 1):
        first = state.firsts[stream.firsts, (stream.firsts_next - back) % COMPARED_SEGMENTS]
        total += first.length
        if first.length == 0 or total > COMPARED_BYTES:
            break
        if abs(elapsed(at, first.at)) > COMPARED_TIME:
            continue
        source = kept if first.kept else data
        low = max(position, first.position)
        for here in range(low, min(position + captured, first.position + first.length)):
            different += data[start + here - position] != source[first.start + here - first.position]
    return different


@kernel
def limit_firsts(state: State) -> Integer:
    """Drop first copies beyond COMPARED_BYTES of a stream; return how many bytes of the others lie in the batch."""
    totals = state.totals[0]
    fresh = np.int64(0)
    for index in range(2 * totals.slots):
        stream = state.streams[index]
        if not stream.firsts_fresh:
            continue
        total = np.int64(0)
        for back in range(1, COMPARED_SEGMENTS + 1):
            first = state.firsts[stream.firsts, (stream.firsts_next - back) % COMPARED_SEGMENTS]
            total += first.length
            if total <= COMPARED_BYTES:
                fresh += 0 if first.kept else first.length
                continue
            if first.kept:
                totals.unkept_bytes += first.length
            first.length = 0
            first.kept = 0
    return fresh


@kernel
def keep_firsts(state: State, from_batch: bool, data: U8, into: U8, filled: Integer) -> Integer:
    """Copy first copies, those in the batch or those kept already; return the end of what is filled."""
    for index in range(2 * state.totals[0].slots):
        stream = state.streams[index]
        if stream.firsts < 0 or (from_batch and not stream.firsts_fresh):
            continue
        for place in range(COMPARED_SEGMENTS):
            first = state.firsts[stream.firsts, place]
            if first.length > 0 and (first.kept == 0) == from_batch:
                copy_bytes(data, first.start, first.length, into, filled)
                first.start = filled
                first.kept = 1
                filled += first.length
        if from_batch:
            stream.firsts_fresh = 0
    return filled


@borrowing
def _emit(
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
def _note_ack(row: Record, stream: Record, other: Record, peer: Record, span: Record) -> None:
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
    _mark(state, slot, GAP, at, number, length)
    totals, connection = state.totals[0], state.connections[slot]
    _emit(state.rows, state.order, totals, connection, stream, side, np.int64(-1), length, number, at)


@borrowing
def _deliver(
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
        _emit(state.rows, state.order, totals, connection, stream, side, start, captured, number, at)
    if captured < length:
        lacking = length - captured
        connection.gap_bytes += lacking
        _mark(state, slot, SNAPPED, at, number, lacking)
        _emit(state.rows, state.order, totals, connection, stream, side, np.int64(-1), lacking, number, at)


@borrowing
def _insert(
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
def _release(state: State, slot: Integer, side: Integer) -> None:
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
        _deliver(state, slot, side, start, piece.captured, piece.length, piece.number, piece.at)
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
def _skip(state: State, slot: Integer, side: Integer, proof: Integer, number: Integer, at: Integer) -> None:
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
        _release(state, slot, side)


@borrowing
def _demand_proof(stream: Record) -> None:
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
def _waits_longest(state: State, slot: Integer) -> Integer:
    """Of which side the first packet is that waits behind missing bytes; 0 if none does."""
    first, other = state.streams[2 * slot].first_piece, state.streams[2 * slot + 1].first_piece
    return np.int64(other >= 0 and (first < 0 or state.pieces[other].number < state.pieces[first].number))


@borrowing
def _judge(state: State, slot: Integer, side: Integer) -> None:
    """Decide which missing bytes of a stream will not come any more."""
    connection = state.connections[slot]
    stream = state.streams[2 * slot + side]
    totals = state.totals[0]
    patience = totals.patience
    if stream.proof > 0:
        proof = _acknowledged(stream, stream.proof)
        if stream.next >= proof:
            _demand_proof(stream)
        elif (
            connection.packets - stream.proof_count >= PROOF_PACKETS
            and elapsed(connection.now, stream.proof_now) >= patience
        ) or elapsed(connection.now, stream.proof_now) >= PROOF_TIME + patience:
            _skip(state, slot, side, proof, stream.proof_number, stream.proof_at)
            _demand_proof(stream)
    while stream.first_piece >= 0:
        most_pieces, most_bytes = MOST_PIECES, totals.most_of_stream
        waited = np.int64(0)
        if stream.acked == 0:
            waited = elapsed(connection.now, state.pieces[stream.first_piece].now) - patience
            if waited >= 0:
                most_pieces, most_bytes = ONE_WAY_PIECES, min(ONE_WAY_BYTES, totals.most_of_stream)
        first = state.pieces[stream.first_piece]
        if stream.piece_bytes > totals.most_of_stream:
            _mark(state, slot, STREAM_FULL, first.at, first.number, totals.most_of_stream)
        elif totals.piece_bytes > totals.most_in_all:
            _mark(state, slot, ALL_FULL, first.at, first.number, totals.most_in_all)
        elif stream.piece_count <= most_pieces and stream.piece_bytes <= most_bytes and waited < ONE_WAY_TIME:
            break
        _skip(state, slot, side, first.position, first.number, first.at)


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
        health.end_span(row, flow, last, packets > 0 or payload == 0)
        row.connection = connection.id
        row.side = side
        state.told[totals.told] = row
        totals.told += 1


@borrowing
def _enter_span(state: State, slot: Integer, at: Integer) -> None:
    """Begin the span that a time lies in; the one in hand is over, unless it had no time yet."""
    row, other = state.spans[2 * slot], state.spans[2 * slot + 1]
    if row.at == NO_TIME:
        row.at = other.at = at - at % health.SPAN
    else:
        _tell(state, slot)
        health.begin_span(row, at)
        health.begin_span(other, at)


@borrowing
def _end_connection(state: State, slot: Integer) -> None:
    """Emit what is pending of a connection, with the gaps in it, and move it to those that ended."""
    totals = state.totals[0]
    connection = state.connections[slot]
    left = 3  # a bit for each side that may have more
    while left > 0:
        side: Integer = _waits_longest(state, slot) if left == 3 else np.int64(left >> 1)
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
            _skip(state, slot, side, proof, number, at)
        if stream.next == before:
            left -= 1 << side
    _forget_firsts(state, 2 * slot)
    _forget_firsts(state, 2 * slot + 1)
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
    _leave(state, slot)
    connection.used = 0
    connection.next_free = totals.free_slot
    totals.free_slot = slot
    totals.live -= 1


@kernel
def end(state: State, slots: I64) -> None:
    """End the connections in these slots."""
    for index in range(slots.shape[0]):
        _end_connection(state, slots[index])


@kernel
def sweep(state: State, most: Integer) -> None:
    """End connections to which no packet can belong any more, at most so many; the next sweep goes on behind them.

    The clock is the earliest time among the segments since the latest sweep: one packet with a wrong time stamp does
    not end the others' connections.
    """
    totals = state.totals[0]
    ended = 0
    for _ in range(totals.slots):
        slot = totals.sweep_from
        totals.sweep_from = (slot + 1) % totals.slots
        connection = state.connections[slot]
        if not connection.used:
            continue
        if _is_over(connection, totals.earliest):
            _end_connection(state, slot)
            ended += 1
            if ended == most:
                break
        elif elapsed(totals.earliest, connection.now) > FORGOTTEN_TIME:
            _forget_firsts(state, 2 * slot)
            _forget_firsts(state, 2 * slot + 1)
    totals.since_sweep = 0
    totals.earliest = NO_TIME


@borrowing
def _is_over(connection: Record, at: Integer) -> Any:
    """Whether a packet at this time would begin another connection on the same ports."""
    if connection.how_closed != OPEN and elapsed(at, connection.closed) >= REUSE_TIME:
        return True
    silence = elapsed(at, connection.now)
    if silence >= IDLE_TIME:
        return True
    one_sided = connection.packets_0 == 0 or connection.packets_1 == 0
    return one_sided and connection.bytes_0 + connection.bytes_1 == 0 and silence >= UNANSWERED_TIME


@borrowing
def _opens_anew(connection: Record, stream: Record, other: Record, seq: Integer, ack: Integer, with_ack: bool) -> Any:
    """Whether a SYN begins another connection, rather than being one more copy of this connection's."""
    if stream.known != UNKNOWN:
        return (stream.base & 0xFFFFFFFF) != ((seq + 1) & 0xFFFFFFFF)
    if with_ack and other.known != UNKNOWN:
        acked = _unwrap(ack, other.next)
        return acked < other.base or acked > other.highest
    return connection.how_closed != OPEN or connection.bytes_0 + connection.bytes_1 > 0


@borrowing
def _begin(state: State, slot: Integer, side: Integer, number: Integer, at: Integer) -> None:
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
        health.begin(state.flows[index])
        health.begin_span(state.spans[index], at)


@borrowing
def _place(stream: Record, seq: Integer) -> None:
    """Begin a stream at a sequence number."""
    stream.known = ASSUMED
    stream.base = seq + 0x100000000
    stream.next = stream.base
    stream.highest = stream.base


@borrowing
def _identity(seq: Integer, ack: Integer, flags: Integer, length: Integer, ident: Integer, at: Integer) -> Integer:
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
def _seen_before(state: State, index: Integer, identity: Integer) -> Any:
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
def _was_missed(flow: Record, position: Integer, age: Integer, at: Integer) -> Any:
    """Whether the other side has shown a loss of bytes from a position on, so many microseconds ago or less."""
    if at == NO_TIME or flow.missing_at == NO_TIME or position >= flow.recovery:
        return False
    return at - flow.missing_at >= 0 and (at - flow.missing_at) // 1000 <= age


@borrowing
def _remember(state: State, index: Integer, identity: Integer) -> None:
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
        _mark(state, slot, LATE, at, number, end - position)
    elif not is_copy:
        state.connections[slot].retransmits += 1


@borrowing
def _was_overtaken(state: State, index: Integer, now: Integer, position: Integer, ident: Integer, at: Integer) -> Any:
    """Whether what fills a hole was sent before what shows it, and overtaken; if not, it was lost and is sent again.

    Where its sender counts its packets, their numbers tell. Else it was overtaken if it comes soon, and too early to
    answer what the other side said of the loss.
    """
    shown = state.pieces[state.streams[index].first_piece]
    later = (ident - shown.ident + 0x8000 & 0xFFFF) - 0x8000
    if ident and shown.ident and later and -SENT_BEFORE <= later <= SENT_LATER:
        return later < 0
    if elapsed(now, shown.now) > SOON:
        return False
    return not health.may_answer(state.flows[index], state.flows[index ^ 1], position, shown.at, at)


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
        # A pure ACK came first, what was sent before it follows: the file is out of order.
        stream.base = position
        stream.next = position
    end = position + length
    different = np.int64(0)
    # One byte that was there before is a keep-alive: it may be any.
    if position < stream.highest and (length > 1 or end != stream.next):
        different = _differing(state, data, kept, index, position, start, captured, at)
        if different > 0:
            _mark(state, slot, CONFLICTING, at, number, different)
    if stream.first_piece < 0 and position <= stream.next and end > stream.next:
        skipped = stream.next - position
        if skipped > 0:
            _classify_old(state, slot, side, position, length, number, at, is_copy)
        elif stream.acked > position and not is_copy and stream.rank <= state.streams[index ^ 1].rank:
            connection.out_of_order += 1
        added = length - skipped
        _note_first(state, index, stream.next, start + skipped, captured - skipped, at)
        row = state.totals[0].rows
        _deliver(state, slot, side, start + skipped, max(captured - skipped, 0), added, number, at)
        if not is_copy:
            _note_ack(state.rows[row], stream, state.streams[index ^ 1], state.flows[index ^ 1], state.spans[index ^ 1])
    else:
        added = np.int64(0)
        if end > stream.next:
            fills = stream.first_piece >= 0 and position < stream.highest
            was_overtaken = fills and _was_overtaken(state, index, connection.now, position, ident, at)
            added = _insert(state, slot, side, position, length, start, captured, ident, number, at)
            if added > 0 and fills and not is_copy:
                if added == length and was_overtaken:
                    connection.out_of_order += 1
                else:
                    connection.retransmits += 1
            if added == length:
                _note_first(state, index, position, start, captured, at)
            _release(state, slot, side)
        if added == 0:
            age = _seen_before(state, index, identity)
            if different == 0 and age >= 0 and not _was_missed(state.flows[index], position, age, at):
                _mark(state, slot, DUPLICATE, at, number, length)
                return
            # One byte that was there before is a keep-alive; one that was given up is what it is.
            if length > 1 or end != stream.next or position < stream.gap_end:
                _classify_old(state, slot, side, position, length, number, at, is_copy)
    _remember(state, index, identity)
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
    if _seen_before(state, index, identity) >= 0:
        _mark(state, slot, DUPLICATE, at, number, np.int64(0))
    else:
        connection.retransmits += 1
        _remember(state, index, identity)


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
        _place(stream, (seq + 1) & 0xFFFFFFFF)
    stream.known = CERTAIN
    return False


@borrowing
def _take_ack(connection: Record, stream: Record, side: Integer, ack: Integer, number: Integer, at: Integer) -> None:
    """Note what the other side of a stream says to have received. ``side`` is the one that sent the bytes."""
    if stream.known == UNKNOWN:
        if connection.opened_by == 0:
            return
        # In a connection whose opening was seen, the first acknowledgement is that of the SYN.
        _place(stream, ack)
    position = _unwrap(ack, stream.next)
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
        _demand_proof(stream)


@borrowing
def _believe(
    state: State, slot: Integer, side: Integer, seq: Integer, length: Integer, number: Integer, at: Integer
) -> bool:
    """Whether a segment's sequence number is plausible; a run of some that continue each other is, however far.

    Then all bytes up to the segment are given up.
    """
    stream = state.streams[2 * slot + side]
    position = _unwrap(seq, stream.next)
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
        _skip(state, slot, side, position, number, at)
        stream.highest = max(stream.highest, position)
        stream.wild_count = 0
        return True
    _mark(state, slot, WILD, at, number, position - stream.next)
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
        distance = _unwrap(seq, stream.next) - stream.next
    elif flags & ACK and other.known != UNKNOWN:
        distance = _unwrap(ack, other.next) - other.next
    if not -WINDOW <= distance <= WINDOW:
        _mark(state, slot, WILD, at, number, distance)
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
        _mark(state, slot, WILD, at, number, position - stream.next)
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
def _take(
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
    if flags & RST:
        _take_reset(state, slot, side, seq, ack, flags, number, at)
        return
    identity = _identity(seq, ack, flags, length, ident, at)
    if flags & SYN:
        known = _take_syn(connection, stream, side, seq, flags & ACK != 0, at)
        if length == 0:
            if known and is_copy:
                pass
            elif known:
                _take_repeated_flag(state, slot, side, identity, number, at)
            else:
                _remember(state, index, identity)
        seq = (seq + 1) & 0xFFFFFFFF
    elif stream.known == UNKNOWN:
        _place(stream, seq)
    if not _believe(state, slot, side, seq, length, number, at):
        return
    if flags & ACK:
        _take_ack(connection, state.streams[index ^ 1], 1 - side, ack, number, at)
    position = _unwrap(seq, stream.next)
    end = position + length
    if stream.fin > 0 and length > 0 and end > stream.fin:
        _mark(state, slot, AFTER_FIN, at, number, end - max(position, stream.fin))
        length = max(stream.fin - position, 0)
        captured = min(captured, length)
    if length > 0:
        _take_payload(
            state, data, kept, slot, side, position, length, start, captured, identity, ident, number, at, is_copy
        )
    if flags & FIN:
        if stream.fin == 0:
            if length == 0:
                _remember(state, index, identity)
            _take_fin(state, slot, side, end, number, at)
        elif length == 0 and end == stream.fin and not is_copy:
            _take_repeated_flag(state, slot, side, identity, number, at)


@borrowing
def _may_be_copy(state: State, index: Integer, rank: Integer, at: Integer) -> Any:
    """Whether a stream goes by a file of lower rank than a segment's, and that one was not silent when it was sent."""
    stream = state.streams[index]
    return rank > stream.rank and elapsed(at, stream.rank_at) <= state.totals[0].window


@borrowing
def _comes_late(state: State, slot: Integer, side: Integer, rank: Integer, at: Integer) -> Any:
    """Whether a segment, the first of its stream, goes before the answer, which a file of lower rank has alone."""
    if state.streams[2 * slot + side].rank != NO_RANK or rank <= state.streams[2 * slot + 1 - side].rank:
        return False
    connection = state.connections[slot]
    return connection.first_seen - state.totals[0].window <= at <= connection.now


@borrowing
def _is_of_before(connection: Record, stream: Record, other: Record, rank: Integer, at: Integer) -> Any:
    """Whether a copy comes so late that another connection has begun on its ports: sent before that was asked for."""
    return stream.rank == NO_RANK and rank > other.rank and connection.opened_by == 2 and at < connection.first_seen


@borrowing
def _brings_more(
    state: State, slot: Integer, side: Integer, seq: Integer, flags: Integer, length: Integer, at: Integer
) -> Any:
    """Whether what may be a copy has anything that the file that the stream goes by lacks."""
    connection = state.connections[slot]
    stream = state.streams[2 * slot + side]
    if flags & RST:
        # An older one is of the connection before this one.
        return connection.how_closed == OPEN and at >= connection.first_seen
    if flags & SYN:
        if _opens_anew(connection, stream, state.streams[2 * slot + 1 - side], seq, np.int64(0), False):
            return False  # of the connection before this one
        return connection.batch < 0 and connection.opened_by < 2 and flags & ACK == 0
    if stream.known == UNKNOWN:
        return length > 0
    position = _unwrap(seq, stream.next)
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
    mask = state.table.shape[0] - 1
    for i in range(begin, number.shape[0]):
        if totals.since_sweep >= max(SWEEP_SEGMENTS, totals.slots // 4):
            return i, NEEDS_SWEEP
        if (
            2 * (totals.live + 1) > state.table.shape[0]
            or totals.slots >= state.connections.shape[0]
            or totals.ended >= state.ended.shape[0]
            or (totals.free_firsts < 0 and totals.firsts >= state.firsts.shape[0])
            or (totals.free_ring < 0 and totals.rings >= state.recent.shape[0])
            or (totals.free_marks < 0 and totals.marks >= state.marks.shape[0])
        ):
            return i, NEEDS_ROOM
        # The smaller endpoint is side 0.
        side = np.int64(0)
        if source_high[i] != target_high[i]:
            side = np.int64(source_high[i] > target_high[i])
        elif source_low[i] != target_low[i]:
            side = np.int64(source_low[i] > target_low[i])
        else:
            side = np.int64(source_port[i] > target_port[i])
        if side:
            high_0, low_0, high_1, low_1 = target_high[i], target_low[i], source_high[i], source_low[i]
            ports = np.uint64(target_port[i]) << np.uint64(16) | np.uint64(source_port[i])
        else:
            high_0, low_0, high_1, low_1 = source_high[i], source_low[i], target_high[i], target_low[i]
            ports = np.uint64(source_port[i]) << np.uint64(16) | np.uint64(target_port[i])
        hashed = _hash(state.secret, high_0, low_0, high_1, low_1, ports)
        place = _bucket(state.table, hashed)
        slot = state.table[place]
        while slot >= 0:
            known = state.connections[slot]
            if (
                known.hash == hashed
                and known.ports == ports
                and known.low_0 == low_0
                and known.low_1 == low_1
                and known.high_0 == high_0
                and known.high_1 == high_1
            ):
                break
            place = (place + 1) & mask
            slot = state.table[place]
        pending = np.int64(0)
        if slot >= 0:
            pending = state.streams[2 * slot].piece_count + state.streams[2 * slot + 1].piece_count
        # A segment may fill every hole between pending pieces, release all of them (each has at most two rows and a
        # gap before it), and end the connection whose ports it uses anew.
        if (
            totals.rows + 6 * pending + 16 > state.rows.shape[0]
            or totals.pieces + pending + 2 > state.pieces.shape[0]
            or totals.ordinals + 2 > state.order.shape[0]
            or totals.told + 2 > state.told.shape[0]
        ):
            return i, NEEDS_ROOM
        wire = np.int64(max(length[i], 0))
        present = max(min(np.int64(captured[i]), wire, totals.batch_size - start[i]), 0)
        is_copy = bool(totals.window > 0 and slot >= 0 and _may_be_copy(state, 2 * slot + side, rank[i], at[i]))
        if slot < 0:
            if totals.live >= totals.most_live:
                return i, NEEDS_FEWER
            if totals.free_slot >= 0:
                slot = totals.free_slot
                totals.free_slot = state.connections[slot].next_free
            else:
                slot = totals.slots
                totals.slots += 1
            totals.live += 1
            new = state.connections[slot]
            new.high_0 = high_0
            new.low_0 = low_0
            new.high_1 = high_1
            new.low_1 = low_1
            new.ports = ports
            new.hash = hashed
            _enter(state, slot)
            _begin(state, slot, side, number[i], at[i])
        elif _is_over(state.connections[slot], at[i]) or (
            flags[i] & (SYN | RST) == SYN
            and not is_copy
            and not _comes_late(state, slot, side, rank[i], at[i])
            and _opens_anew(
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
        if totals.window > 0 and _is_of_before(connection, stream, other, rank[i], at[i]):
            totals.copies += 1
            continue
        if is_copy:
            if not _brings_more(state, slot, side, np.int64(seq[i]), np.int64(flags[i]), wire, at[i]):
                totals.copies += 1
                continue
        elif rank[i] != stream.rank:
            stream.rank = rank[i]
            stream.rank_at = at[i]
        elif at[i] > stream.rank_at:
            stream.rank_at = at[i]
        connection.packets += 1
        if side:
            connection.packets_1 += 1
        else:
            connection.packets_0 += 1
        connection.now = max(connection.now, at[i])
        span = state.spans[2 * slot].at
        if not is_copy and at[i] != NO_TIME and (span == NO_TIME or at[i] - span >= health.SPAN):
            _enter_span(state, slot, at[i])
        highest, fresh = stream.highest, connection.bytes_0 + connection.bytes_1
        retransmits, out_of_order, doubles = (
            connection.retransmits,
            connection.out_of_order,
            _doubles(state.marks, connection),
        )
        if (
            flags[i] & (SYN | FIN | RST) == 0
            and np.int64(seq[i]) == stream.next & 0xFFFFFFFF
            and stream.known == CERTAIN
            and stream.first_piece < 0
            and stream.wild_count == 0
            and stream.fin == 0
            and stream.acked <= stream.next
        ):
            # What nearly all segments are, in short: the next in turn. _take would do the same.
            if flags[i] & ACK:
                _take_ack(connection, other, 1 - side, np.int64(ack[i]), number[i], at[i])
            if wire > 0:
                identity = _identity(
                    np.int64(seq[i]), np.int64(ack[i]), np.int64(flags[i]), wire, np.int64(ident[i]), at[i]
                )
                _remember(state, 2 * slot + side, identity)
                _note_first(state, 2 * slot + side, stream.next, start[i], present, at[i])
                row = totals.rows
                if present == wire:
                    _emit(state.rows, state.order, totals, connection, stream, side, start[i], wire, number[i], at[i])
                else:
                    _deliver(state, slot, side, start[i], present, wire, number[i], at[i])
                peer = 2 * slot + 1 - side
                _note_ack(state.rows[row], stream, other, state.flows[peer], state.spans[peer])
                if stream.highest < stream.next:
                    stream.highest = stream.next
                if side:
                    connection.bytes_1 += wire
                else:
                    connection.bytes_0 += wire
        else:
            _take(
                state,
                data,
                kept,
                slot,
                side,
                np.int64(seq[i]),
                np.int64(ack[i]),
                np.int64(flags[i]),
                start[i],
                present,
                wire,
                np.int64(ident[i]),
                number[i],
                at[i],
                is_copy,
            )
        if not is_copy:
            flow = state.flows[2 * slot + side]
            doubled = _doubles(state.marks, connection)
            health.count_segment(
                connection,
                stream,
                other,
                state.spans[2 * slot + side],
                state.spans[2 * slot + 1 - side],
                flow,
                state.flows[2 * slot + 1 - side],
                _unwrap(np.int64(seq[i]), stream.next),
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
            longest = _waits_longest(state, slot)
            _judge(state, slot, longest)
            _judge(state, slot, 1 - longest)
    return number.shape[0], DONE


@allocating
def arrange(
    rows: Records,
    count: Integer,
    before: Integer,
    order: I64,
    by_id: I64,
    connection: I64,
    direction: I8,
    offset: I64,
    start: I64,
    length: I64,
    number: I64,
    at: I64,
    acked: I64,
    acked_at: I64,
    round_trip: I64,
    least_round_trip: I64,
    heard: I64,
    heard_at: I64,
    turn: I64,
) -> None:
    """Write rows as columns, by connection and direction, each stream's in the order in which they were made.

    ``by_id`` has the ordinals of the batch's connections in the order of their ids; ``before`` is how many rows there
    were in batches before.
    """
    streams = 2 * by_id.shape[0]
    heads = np.zeros(streams + 1, np.int64)
    for i in range(count):
        heads[rows[i].stream] += 1
    place = np.int64(0)
    for k in range(by_id.shape[0]):
        for stream in (2 * by_id[k], 2 * by_id[k] + 1):
            held = heads[stream]
            heads[stream] = place
            place += held
    for i in range(count):
        row = rows[i]
        place = heads[row.stream]
        heads[row.stream] += 1
        connection[place] = order[row.stream >> 1]
        direction[place] = row.stream & 1
        offset[place] = row.offset
        start[place] = row.start
        length[place] = row.length
        number[place] = row.number
        at[place] = row.at
        acked[place] = row.acked
        acked_at[place] = row.acked_at
        round_trip[place] = row.round_trip
        least_round_trip[place] = row.least_round_trip
        heard[place] = row.heard
        heard_at[place] = row.heard_at
        turn[place] = before + i


@kernel
def gather(held: U8, batch_size: Integer, start: I64, length: I64, into: U8) -> None:
    """Copy the held bytes that rows point to, and point the rows at the copy, which follows the batch."""
    filled = np.int64(0)
    for i in range(start.shape[0]):
        if start[i] >= batch_size:
            copy_bytes(held, start[i] - batch_size, length[i], into, filled)
            start[i] = batch_size + filled
            filled += length[i]


@kernel
def hold(pieces: Records, piece_slots: Integer, from_batch: bool, data: U8, into: U8, filled: Integer) -> Integer:
    """Copy the bytes of pending pieces, those in the batch or those held already; return the end of what is filled."""
    for i in range(piece_slots):
        piece = pieces[i]
        if piece.used and (piece.held == 0) == from_batch:
            copy_bytes(data, piece.start, piece.captured, into, filled)
            piece.start = filled
            piece.held = 1
            filled += piece.captured
    return filled
