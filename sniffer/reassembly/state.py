"""What the reassembly keeps of connections, streams and pending segments; the rows that it writes; its codes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kafkascope.sniffer.columns import I64, U64

Records = Any  # a structured array
Record = Any  # one element of it, as numba sees it: named fields that can be set
Integer = Any  # int64 inside kernels

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
        ("begun_at", "i8"),  # time of the packet by which it was found to begin somewhere
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
