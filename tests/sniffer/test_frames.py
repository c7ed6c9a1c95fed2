"""What streams hold from batch to batch, with a reader in the kernel's place that takes as many bytes as it likes."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.sniffer import frames
from kafkascope.sniffer.columns import Runs
from kafkascope.sniffer.frames import Batch, Streams
from tests.sniffer.written_runs import Run, runs

Piece = tuple[int, int, bytes | int, int]  # slot, direction, bytes or length of a gap, packet


def batch_of(pieces: list[Piece], offsets: dict[int, int]) -> tuple[Runs, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """A batch, and the slot of each row; offsets go on from call to call."""
    written = []
    for slot, direction, part, number in pieces:
        stream = 2 * slot + direction
        written.append(Run(slot, direction, offsets.get(stream, 0), part, number))
        offsets[stream] = offsets.get(stream, 0) + (part if isinstance(part, int) else len(part))
    batch = runs(written)
    return batch, batch.connection


def spans(batch: Batch) -> dict[int, tuple[int, int, int]]:
    """Of each stream of a batch the first row, the first new one, and the row behind the last."""
    return {
        2 * slot + side: (row[3 * side], row[3 * side + 1], row[3 * side + 2])
        for slot, *row in batch.connections.tolist()
        for side in (0, 1)
    }


def place(streams: Streams, batch: Batch) -> None:
    """Point the streams of a batch at their bytes, as the kernel does before it looks at them."""
    for stream, (first, _, behind) in spans(batch).items():
        begin = int(batch.rows[first, frames.ROW_START]) if behind > first else 0
        size = int(batch.rows[first:behind, frames.ROW_BYTES].sum())
        streams.state[stream, frames.STREAM_MODE] = frames.SYNCED
        streams.state[stream, [frames.STREAM_BEGIN, frames.STREAM_AVAILABLE]] = (begin, begin + size)


def take(streams: Streams, batch: Batch, stream: int, count: int) -> list[tuple[int, int, int]]:
    """Use bytes of a stream; returns byte, place in the stream and packet of each."""
    first, _, behind = spans(batch)[stream]
    begin = int(streams.state[stream, frames.STREAM_BEGIN])
    found = []
    for row in batch.rows[first:behind].tolist():
        low, size = row[frames.ROW_START], row[frames.ROW_BYTES]
        for position in range(max(low, begin), min(low + size, begin + count)):
            offset = row[frames.ROW_OFFSET] + position - low
            found.append((int(batch.arena[position]), offset, row[frames.ROW_NUMBER]))
    streams.state[stream, frames.STREAM_BEGIN] = begin + count
    return found


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_bytes_wait_in_order_with_the_packets_that_brought_them(seed: int, slots: int) -> None:
    chance = random.Random(seed)
    streams = Streams()
    for slot in range(slots):
        streams.reset(slot)
    expected: dict[int, list[tuple[int, int, int]]] = {stream: [] for stream in range(2 * slots)}
    found: dict[int, list[tuple[int, int, int]]] = {stream: [] for stream in range(2 * slots)}
    needed = dict.fromkeys(range(2 * slots), 0)
    offsets: dict[int, int] = {}
    number = 0
    for _ in range(chance.randint(1, 12)):
        pieces: list[Piece] = []
        for _ in range(chance.randint(1, 8)):
            number += 1
            slot, direction = chance.randrange(slots), chance.randrange(2)
            data = chance.randbytes(chance.choice((1, 3, 30)))
            pieces.append((slot, direction, data, number))
            of_stream = expected[2 * slot + direction]
            of_stream += [(byte, len(of_stream) + index, number) for index, byte in enumerate(data)]
        room = chance.choice((0, 10))
        batch = streams.gather(*batch_of(pieces, offsets), room)
        assert len(batch.arena) == batch.used + room
        place(streams, batch)
        for stream, (first, new, behind) in spans(batch).items():
            assert first <= new <= behind
            left = len(expected[stream]) - len(found[stream])
            if behind == first:  # it waits for more, or nothing of it is there
                assert left < max(needed[stream], 1) or not any(2 * s + d == stream for s, d, _, _ in pieces)
                continue
            assert batch.rows[first:behind, frames.ROW_BYTES].sum() == left
            assert (np.diff(batch.rows[first:behind, frames.ROW_TURN]) >= 0).all()
            found[stream] += take(streams, batch, stream, chance.choice((0, left, chance.randint(0, left))))
            needed[stream] = chance.choice((0, 0, 50))
            streams.state[stream, frames.STREAM_NEED] = needed[stream]
        streams.keep(batch)
        for stream, held in streams.held.items():
            assert held.size == len(expected[stream]) - len(found[stream])
    last = streams.ends(list(range(slots)), 0)
    place(streams, last)
    for stream, (first, _, behind) in spans(last).items():
        assert last.rows[behind - 1, frames.ROW_KIND] == frames.END
        found[stream] += take(streams, last, stream, int(last.rows[first:behind, frames.ROW_BYTES].sum()))
    streams.keep(last)
    assert found == expected
    assert not streams.held


def waiting_stream(need: int) -> tuple[Streams, dict[int, int]]:
    """A stream that holds four bytes of packet 1 and needs more."""
    streams, offsets = Streams(), dict[int, int]()
    streams.reset(0)
    batch = streams.gather(*batch_of([(0, 0, b"abcd", 1)], offsets), 0)
    place(streams, batch)
    streams.state[0, frames.STREAM_NEED] = need
    streams.keep(batch)
    assert streams.held[0].need == need
    return streams, offsets


def test_a_stream_sleeps_until_there_is_what_it_needs() -> None:
    streams, offsets = waiting_stream(10)
    assert spans(streams.gather(*batch_of([(0, 0, b"ef", 2), (0, 1, b"x", 3)], offsets), 0))[0] == (0, 0, 0)
    batch = streams.gather(*batch_of([(0, 0, b"ghij", 4)], offsets), 0)
    assert spans(batch)[0] == (0, 2, 3)
    assert batch.arena.tobytes() == b"abcdefghij"
    assert batch.rows[:, frames.ROW_NUMBER].tolist() == [1, 2, 4]
    assert batch.rows[:, frames.ROW_AT].tolist() == [1000, 2000, 4000]


def test_a_gap_wakes_a_stream_and_holds_no_bytes() -> None:
    streams, offsets = waiting_stream(1000)
    batch = streams.gather(*batch_of([(0, 0, 500, 2), (0, 0, b"xy", 3)], offsets), 0)
    assert batch.rows[:, frames.ROW_KIND].tolist() == [frames.BYTES, frames.GAP, frames.BYTES]
    assert batch.rows[:, frames.ROW_WIRE].tolist() == [4, 500, 2]
    assert batch.rows[:, frames.ROW_BYTES].tolist() == [4, 0, 2]
    assert batch.rows[:, frames.ROW_OFFSET].tolist() == [0, 4, 504]
    assert batch.arena.tobytes() == b"abcdxy"


def test_the_end_wakes_a_stream() -> None:
    streams, _ = waiting_stream(1000)
    batch = streams.ends([0], 0)
    assert batch.rows[:, frames.ROW_KIND].tolist() == [frames.BYTES, frames.END, frames.END]
    assert batch.rows[:, frames.ROW_NUMBER].tolist() == [1, 1, 1]
    assert batch.arena.tobytes() == b"abcd"


def test_a_stream_ends_at_its_highest_packet() -> None:
    streams, offsets = Streams(), dict[int, int]()
    streams.reset(0)
    batch = streams.gather(*batch_of([(0, 0, b"a", 7), (0, 0, b"b", 9), (0, 0, b"c", 5)], offsets), 0)
    assert batch.rows[:, frames.ROW_NUMBER].tolist() == [7, 9, 5]
    streams.gather(*batch_of([(0, 0, b"d", 6), (0, 1, b"e", 8)], offsets), 0)
    assert streams.ends([0], 0).rows[:, frames.ROW_NUMBER].tolist() == [9, 9]


def test_a_slot_that_is_used_again_begins_with_nothing() -> None:
    streams, _ = waiting_stream(1000)
    streams.reset(0)
    assert not streams.held
    assert not streams.state[:2].any()
    streams.reset(1000)
    assert len(streams.state) >= 2002
