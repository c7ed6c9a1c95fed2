"""Bytes of streams as rows: what arrives is laid out in one arena, and what no frame could use yet is kept for later.

A Kafka frame is an int32 size and as many bytes. The kernel in pairing/ finds the frames; here is what it works on:
the state of a stream, the rows of a batch, and the bytes that wait for the rest of their frame. Those stay in chunks as
they came until the frame can be whole: a frame of many batches is copied once more, not once for each batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kafkascope.decoders.kernels import copy_bytes, kernel
from kafkascope.sniffer.columns import I64, NO_TIME, U8, Runs

# Columns of a row of a batch: bytes that one packet brought, a gap, or the end of the stream.
(
    ROW_START,  # place in the arena
    ROW_BYTES,  # length in the arena; 0 for a gap
    ROW_WIRE,  # length in the stream
    ROW_KIND,
    ROW_NUMBER,  # packet
    ROW_AT,
    ROW_OFFSET,  # place in the stream
    ROW_TURN,  # as in Runs
    ROW_HEAD,  # 1: the first byte is the packet's first
    ROW_ACKED,  # the next six as in Runs
    ROW_ACKED_AT,
    ROW_ROUND_TRIP,
    ROW_LEAST_ROUND_TRIP,
    ROW_HEARD,
    ROW_HEARD_AT,
    ROW_COLUMNS,
) = range(16)
ROW_SIZE = 8 * ROW_COLUMNS  # bytes in memory
BYTES, GAP, END = range(3)

# Columns of an entry of Batch.connections: the slot, then for each direction three columns. Those of direction 1 are
# TABLE_SIDE farther.
TABLE_SLOT, TABLE_FIRST, TABLE_NEW, TABLE_BEHIND = range(4)  # first row, first new row, row behind the last
TABLE_SIDE = 3
TABLE_COLUMNS = 1 + 2 * TABLE_SIDE

# Columns of a stream's state.
(
    STREAM_MODE,
    STREAM_BEGIN,  # arena position of the frame, or of the candidate, that is being looked at
    STREAM_AVAILABLE,  # arena position behind the last byte that has arrived
    STREAM_ROW,  # a row at or before the one that holds STREAM_BEGIN
    STREAM_LAST,  # the last row that has arrived
    STREAM_NUMBER,  # highest packet number so far
    STREAM_CUT,  # bytes of the current frame before the gap in it; 0: no gap
    STREAM_LEFT,  # bytes of the frame behind a gap that are still to pass
    STREAM_CUT_AT,  # latest time of those that passed
    STREAM_SCAN,  # arena position from which requests are looked for (mode SEARCHING)
    STREAM_REFUTED,  # what the candidate at STREAM_BEGIN is known not to be
    STREAM_NEED,  # bytes from STREAM_BEGIN that must be there before anything can happen; 0: none known
    STREAM_SKIPPED,  # captured bytes passed over since synchronisation was lost
    STREAM_ENDING,  # 1: no contiguous bytes can follow
    STREAM_COLUMNS,
) = range(15)

# Modes of a stream.
(
    UNDECIDED,  # not yet recognised, from the start of the connection on
    SEARCHING,  # not yet recognised, and the start is not there or does not tell
    SYNCED,  # a frame begins at STREAM_BEGIN
    LOST,  # Kafka, but where the next frame begins is unknown
    DROPPED,  # not Kafka
) = range(5)

# STREAM_REFUTED. CHAIN_ASKED: of a stream that is SEARCHING, while the question for a chain of responses is out.
NOT_REFUTED, FRAME_REFUTED, CHAIN_REFUTED, CHAIN_ASKED = range(4)


@dataclass(slots=True)
class Held:
    """What a stream keeps from batch to batch: bytes in chunks, and the rows that brought them (ROW_START from 0)."""

    chunks: list[U8] = field(default_factory=list)
    rows: list[I64] = field(default_factory=list)
    size: int = 0
    need: int = 0

    def append(self, chunk: U8, rows: I64) -> None:
        """Add rows whose bytes, one after the other, are the chunk."""
        rows = rows.copy()
        if rows.shape[0]:
            rows[:, ROW_START] = self.size + np.cumsum(rows[:, ROW_BYTES]) - rows[:, ROW_BYTES]
        self.chunks.append(chunk)
        self.rows.append(rows)
        self.size += chunk.shape[0]

    @property
    def memory(self) -> int:
        """How many bytes it takes; of a message in tiny packets, rows take more than what they brought."""
        return self.size + ROW_SIZE * sum(map(len, self.rows))

    def first(self, size: int) -> Held:
        """The first bytes of it, copied, with the rows that brought them."""
        rows = np.concatenate(self.rows)
        rows = rows[rows[:, ROW_START] < size]
        rows[:, ROW_BYTES] = np.minimum(rows[:, ROW_BYTES], size - rows[:, ROW_START])
        rows[:, ROW_WIRE] = rows[:, ROW_BYTES]
        found = Held()
        found.append(np.concatenate(self.chunks)[:size].copy(), rows)
        return found


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of the streams that can go on, in order of the streams; of each first the held ones, then the new."""

    arena: U8  # held and new bytes; room for more behind `used`
    used: int
    rows: I64  # [n, ROW_COLUMNS]
    connections: I64  # [c, TABLE_COLUMNS]


@kernel
def copy_runs(source: U8, starts: I64, lengths: I64, target: U8, places: I64) -> None:
    """Copy the bytes of runs to places of their own; gaps, and what does not fit, are passed over."""
    for row in range(starts.shape[0]):
        start = starts[row]
        place = places[row]
        length = lengths[row]
        if start < 0 or length <= 0 or start + length > source.shape[0] or place + length > target.shape[0]:
            continue
        copy_bytes(source, start, length, target, place)


class Streams:
    """State of all streams, two for each connection slot (2 * slot + direction), and the bytes that they hold."""

    def __init__(self) -> None:
        self.state: I64 = np.zeros((64, STREAM_COLUMNS), np.int64)
        self.held: dict[int, Held] = {}

    def held_bytes(self, slot: int) -> int:
        """How many bytes of memory the streams of a slot hold."""
        return sum(self.held[stream].memory for stream in (2 * slot, 2 * slot + 1) if stream in self.held)

    def cut(self, slot: int, kept: int) -> list[int]:
        """Hold no more than so many bytes of each stream of a slot; return the packets that brought what is cut.

        A frame whose end is known is taken with its first bytes, as if a gap had cut it. Of what is looked through for
        the next frame nothing is held.
        """
        packets = []
        for stream in (2 * slot, 2 * slot + 1):
            waiting, state = self.held.get(stream), self.state[stream]
            if waiting is None or waiting.size <= kept:
                continue
            rows = np.concatenate(waiting.rows)
            packets.append(int(rows[0, ROW_NUMBER]))
            if state[STREAM_MODE] == SYNCED:
                shorter = waiting.first(kept)
                if not state[STREAM_CUT]:
                    size = int.from_bytes(shorter.chunks[0][:4].tobytes(), "big")
                    state[STREAM_LEFT] = 4 + size - waiting.size
                    state[STREAM_CUT_AT] = NO_TIME
                state[STREAM_CUT] = kept
                state[STREAM_CUT_AT] = max(int(state[STREAM_CUT_AT]), int(rows[:, ROW_AT].max()))
                self.held[stream] = shorter
            else:
                del self.held[stream]
                state[STREAM_SKIPPED] += waiting.size
                state[[STREAM_SCAN, STREAM_REFUTED]] = 0
                if state[STREAM_MODE] == UNDECIDED:
                    self.state[2 * slot : 2 * slot + 2, STREAM_MODE] = SEARCHING
            state[STREAM_NEED] = 0
        return packets

    def reset(self, slot: int) -> None:
        """Make both streams of a slot new; there is room for the slot afterwards."""
        while self.state.shape[0] < 2 * slot + 2:
            self.state = np.concatenate([self.state, np.zeros_like(self.state)])
        self.state[2 * slot : 2 * slot + 2] = 0
        self.forget(slot)

    def forget(self, slot: int) -> None:
        """Drop what the streams of a slot hold."""
        self.held.pop(2 * slot, None)
        self.held.pop(2 * slot + 1, None)

    def gather(self, runs: Runs, slots: I64, room: int) -> Batch:
        """Lay out a batch of runs, whose connections have the slots given (one for each row), behind what is held.

        A stream that waits for more bytes than there are now only keeps its new ones and is not in the batch. Room is
        how many bytes the arena has behind those laid out.
        """
        streams = 2 * slots + runs.direction.astype(np.int64)
        is_gap = runs.start < 0
        rows = np.empty((streams.shape[0], ROW_COLUMNS), np.int64)
        rows[:, ROW_BYTES] = np.where(is_gap, 0, runs.length)
        rows[:, ROW_WIRE] = runs.length
        rows[:, ROW_KIND] = is_gap
        rows[:, ROW_NUMBER] = runs.number
        rows[:, ROW_AT] = runs.at
        rows[:, ROW_OFFSET] = runs.offset
        rows[:, ROW_HEAD] = 1
        rows[:, ROW_ACKED] = runs.acked
        rows[:, ROW_ACKED_AT] = runs.acked_at
        rows[:, ROW_ROUND_TRIP] = runs.round_trip
        rows[:, ROW_LEAST_ROUND_TRIP] = runs.least_round_trip
        rows[:, ROW_HEARD] = runs.heard
        rows[:, ROW_HEARD_AT] = runs.heard_at
        rows[:, ROW_TURN] = runs.turn
        np.maximum.at(self.state[:, STREAM_NUMBER], streams, runs.number)
        starts = np.ascontiguousarray(runs.start)
        if np.any(streams[1:] < streams[:-1]):
            order = np.argsort(streams, kind="stable")
            rows, starts, streams = rows[order], starts[order], streams[order]
        return self._lay_out(np.ascontiguousarray(runs.data), starts, rows, streams, room)

    def ends(self, slots: list[int], room: int) -> Batch:
        """A batch in which both streams of the slots end."""
        streams = np.array([2 * slot + direction for slot in slots for direction in (0, 1)], np.int64)
        rows = np.zeros((streams.shape[0], ROW_COLUMNS), np.int64)
        rows[:, ROW_KIND] = END
        rows[:, ROW_NUMBER] = np.repeat(self.state[streams, STREAM_NUMBER].reshape(-1, 2).max(axis=1), 2)
        nothing = np.full(streams.shape[0], -1, np.int64)
        return self._lay_out(np.empty(0, np.uint8), nothing, rows, streams, room)

    def _lay_out(self, data: U8, starts: I64, rows: I64, streams: I64, room: int) -> Batch:
        held: list[tuple[int, Held]] = []
        if self.held and streams.shape[0]:
            asleep = np.zeros(streams.shape[0], np.bool_)
            for slot in np.unique(streams >> 1).tolist():
                for stream in (2 * slot, 2 * slot + 1):
                    waiting = self.held.get(stream)
                    if waiting is None:
                        continue
                    low, high = np.searchsorted(streams, [stream, stream + 1]).tolist()
                    if low == high and self.state[stream, STREAM_MODE] not in (UNDECIDED, SEARCHING):
                        continue
                    more = rows[low:high]
                    size = int(more[:, ROW_BYTES].sum())
                    if waiting.size + size < waiting.need and not more[:, ROW_KIND].any():
                        chunk = np.empty(size, np.uint8)
                        lengths = more[:, ROW_BYTES].copy()
                        copy_runs(data, starts[low:high].copy(), lengths, chunk, np.cumsum(lengths) - lengths)
                        waiting.append(chunk, more)
                        asleep[low:high] = True
                    else:
                        held.append((stream, waiting))
                        del self.held[stream]
            if asleep.any():
                rows, starts, streams = rows[~asleep], starts[~asleep], streams[~asleep]
        new = np.ones(rows.shape[0], np.bool_)
        sources = starts
        if held:
            old = [np.concatenate(waiting.rows) for _, waiting in held]
            rows = np.concatenate([*old, rows])
            owner = [np.full(part.shape[0], stream, np.int64) for (stream, _), part in zip(held, old, strict=True)]
            streams = np.concatenate([*owner, streams])
            old_count = rows.shape[0] - new.shape[0]
            new = np.concatenate([np.zeros(old_count, np.bool_), new])
            sources = np.concatenate([np.full(old_count, -1, np.int64), starts])
            order = np.lexsort((new, streams))
            rows, streams, new, sources = rows[order], streams[order], new[order], sources[order]
        ends = np.cumsum(rows[:, ROW_BYTES])
        rows[:, ROW_START] = ends - rows[:, ROW_BYTES]
        used = int(ends[-1]) if ends.shape[0] else 0
        arena = np.empty(used + room, np.uint8)
        copy_runs(data, sources, rows[:, ROW_BYTES].copy(), arena, rows[:, ROW_START].copy())
        for stream, waiting in held:
            place = int(rows[np.searchsorted(streams, stream), ROW_START])
            for chunk in waiting.chunks:
                arena[place : place + chunk.shape[0]] = chunk
                place += chunk.shape[0]
        return Batch(arena, used, np.ascontiguousarray(rows), _connections(streams, new))

    def keep(self, batch: Batch) -> None:
        """Hold what the kernel left of a batch's streams."""
        table = batch.connections
        if not table.shape[0]:
            return
        streams = np.concatenate([2 * table[:, TABLE_SLOT], 2 * table[:, TABLE_SLOT] + 1])
        first_rows, last_rows = (
            np.concatenate([table[:, column], table[:, TABLE_SIDE + column]]) for column in (TABLE_FIRST, TABLE_BEHIND)
        )
        state = self.state[streams]
        size = np.where(
            state[:, STREAM_CUT] > 0, state[:, STREAM_CUT], state[:, STREAM_AVAILABLE] - state[:, STREAM_BEGIN]
        )
        laid_out = last_rows > first_rows
        left = (size > 0) & laid_out
        for index in np.flatnonzero(left).tolist():
            stream = int(streams[index])
            begin = int(state[index, STREAM_BEGIN])
            end = begin + int(size[index])
            rows = batch.rows[int(first_rows[index]) : int(last_rows[index])]
            inside = (rows[:, ROW_START] + rows[:, ROW_BYTES] > begin) & (rows[:, ROW_START] < end)
            rows = rows[inside & (rows[:, ROW_BYTES] > 0)].copy()
            trimmed = np.maximum(begin - rows[:, ROW_START], 0)
            rows[:, ROW_BYTES] = np.minimum(rows[:, ROW_START] + rows[:, ROW_BYTES], end) - rows[:, ROW_START] - trimmed
            rows[:, ROW_WIRE] = rows[:, ROW_BYTES]
            rows[:, ROW_OFFSET] += trimmed
            rows[trimmed > 0, ROW_HEAD] = 0
            waiting = Held(need=int(state[index, STREAM_NEED]))
            waiting.append(batch.arena[begin:end].copy(), rows)
            self.held[stream] = waiting
            # Arena positions are made anew with each batch; the scan position is kept as a distance.
            self.state[stream, STREAM_SCAN] = max(int(state[index, STREAM_SCAN]) - begin, 0)
        self.state[streams[laid_out & ~left], STREAM_SCAN] = 0


def _connections(streams: I64, new: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> I64:
    """The table of Batch.connections, from the streams of sorted rows and which of the rows are new."""
    if not streams.shape[0]:
        return np.zeros((0, TABLE_COLUMNS), np.int64)
    slots = streams >> 1
    first = np.flatnonzero(np.concatenate([[True], slots[1:] != slots[:-1]]))
    unique = slots[first]
    table = np.empty((unique.shape[0], TABLE_COLUMNS), np.int64)
    table[:, TABLE_SLOT] = unique
    old_before = np.concatenate([[0], np.cumsum(~new)])
    for direction in (0, 1):
        low = np.searchsorted(streams, 2 * unique + direction, side="left")
        high = np.searchsorted(streams, 2 * unique + direction, side="right")
        columns = table[:, TABLE_SIDE * direction :]
        columns[:, TABLE_FIRST] = low
        columns[:, TABLE_NEW] = low + old_before[high] - old_before[low]
        columns[:, TABLE_BEHIND] = high
    return table
