"""Frames of streams into payloads of packets: whatever comes again, or out of order, says the same."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kafkascope.sniffer.columns import ConnectionRow
from kafkascope.sniffer.stream_content import Frames, StreamContent
from tests.sniffer.tcp_conversation import ACK, BROKER, CLIENT, SYN, Packet, segments

ROW = ConnectionRow(
    **dict.fromkeys((field.name for field in fields(ConnectionRow)), None)  # type: ignore[arg-type]
    | {"client": CLIENT[0], "client_port": CLIENT[1], "broker": BROKER[0], "broker_port": BROKER[1], "exchanges": 1}
)
SAID = bytes(range(1, 101))  # at offsets 10 to 109 of the client's stream, in three frames
CUTS = (0, 40, 41, 100)


def content(directory: Path, connections: dict[int, int], said: bytes = SAID) -> StreamContent:
    """Of connections, by the sequence numbers at which the client begins."""
    made = StreamContent(directory)
    for number, (connection, base) in enumerate(connections.items()):
        places = pairwise(CUTS)
        parts = [(low, bytes(byte | number << 7 for byte in said[low:high])) for low, high in places]
        random.Random(number).shuffle(parts)
        made.add(
            Frames(
                data=np.frombuffer(b"".join(part for _, part in parts), np.uint8),
                connection=np.full(len(parts), connection, np.int64),
                is_response=np.zeros(len(parts), np.bool_),
                offset=np.array([10 + low for low, _ in parts], np.int64),
                length=np.array([len(part) for _, part in parts], np.int64),
            )
        )
        made.end([replace(ROW, connection=connection, client_base=base, broker_base=5)])
    made.finish()
    return made


def written(of: StreamContent, packets: list[Packet], first: int = 1) -> list[bytes]:
    batch = segments(packets, first)
    data = np.zeros(len(batch.data), np.uint8)
    counts = of.write(batch, data)
    found = [data[start : start + len(one.payload)].tobytes() for start, one in zip(batch.start, packets, strict=True)]
    assert counts.tolist() == [len(one) - one.count(0) for one in found]
    return found


def sent(base: int, offset: int, size: int, flags: int = ACK) -> Packet:
    return Packet(CLIENT, BROKER, base + offset, bytes(size), flags)


@pytest.mark.parametrize("base", [0, 1000, 2**32 - 50])
def test_every_packet_has_its_part(base: int, tmp_path: Path) -> None:
    """In whatever order they come; what is in no frame stays as it is."""
    of = content(tmp_path, {1: base})
    pieces = [(0, 30), (90, 40), (30, 60), (30, 60), (49, 2), (105, 10), (200, 7)]
    whole = bytes(10) + SAID + bytes(200)
    expected = [whole[offset : offset + size] for offset, size in pieces]
    assert written(of, [sent(base, offset, size) for offset, size in pieces]) == expected
    other = Packet(BROKER, CLIENT, base + 10, bytes(20))
    assert written(of, [other]) == [bytes(20)]


def test_a_connection_begins_with_its_packet(tmp_path: Path) -> None:
    """On the same ports, also amid a batch, and with sequence numbers that the one before had too."""
    of = content(tmp_path, {1: 1000, 4: 1000})
    opening = sent(999, 0, 0, SYN)
    first = [opening, sent(1000, 10, 5), sent(1000, 15, 5), opening, sent(1000, 10, 5)]
    one, other = SAID[:10], bytes(byte | 0x80 for byte in SAID[:10])
    assert written(of, first) == [b"", one[:5], one[5:], b"", other[:5]]
    assert written(of, [sent(1000, 15, 5)], first=6) == [other[5:]]


def test_payload_of_a_syn_is_behind_it(tmp_path: Path) -> None:
    of = content(tmp_path, {1: 1000})
    assert written(of, [sent(999, 10, 5, SYN)]) == [SAID[:5]]


def test_streams_may_be_longer_than_sequence_numbers(tmp_path: Path) -> None:
    made = StreamContent(tmp_path)
    offsets = np.arange(0, 9 << 30, 1 << 30)
    made.add(
        Frames(
            data=np.arange(1, len(offsets) + 1).astype(np.uint8),
            connection=np.ones(len(offsets), np.int64),
            is_response=np.zeros(len(offsets), np.bool_),
            offset=offsets,
            length=np.ones(len(offsets), np.int64),
        )
    )
    made.end([replace(ROW, connection=1, client_base=7, broker_base=0)])
    made.finish()
    packets = [sent(7, offset & 0xFFFFFFFF, 1) for offset in offsets.tolist()]
    assert written(made, packets) == [bytes([number]) for number in range(1, len(offsets) + 1)]


def test_without_frames_nothing_is_written(tmp_path: Path) -> None:
    made = StreamContent(tmp_path)
    made.finish()
    assert written(made, [sent(0, 0, 9)]) == [bytes(9)]
    assert len(made.write(segments([]), np.zeros(0, np.uint8))) == 0
