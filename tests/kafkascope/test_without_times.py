"""Packets without a time (simple packet blocks of pcapng): what they say is shown, and nothing is concluded of it."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

import kafkascope
from tests.paths import PCAPS


def block(kind: int, body: bytes) -> bytes:
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


def without_times(capture: bytes, which: slice) -> bytes:
    """A pcap of nanoseconds or microseconds as pcapng, some of its packets without a time."""
    (link,) = struct.unpack_from("<I", capture, 20)
    parts = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)), block(1, struct.pack("<HHI", link, 0, 0))]
    packets = []
    place = 24
    while place < len(capture):
        seconds, fraction, size = struct.unpack_from("<III", capture, place)
        packets.append((seconds * 1_000_000 + fraction, capture[place + 16 : place + 16 + size]))
        place += 16 + size
    untimed = set(range(len(packets))[which])
    for number, (at, data) in enumerate(packets):
        padded = data + bytes(-len(data) % 4)
        if number in untimed:
            parts.append(block(3, struct.pack("<I", len(data)) + padded))
        else:
            head = struct.pack("<IIIII", 0, at >> 32, at & 0xFFFFFFFF, len(data), len(data))
            parts.append(block(6, head + padded))
    return b"".join(parts)


@pytest.mark.parametrize("which", [slice(None), slice(None, None, 7), slice(0, 400)])
@pytest.mark.parametrize("story", ["wrong-listener", "bootstrap-only-dead", "all-well"])
def test_nothing_faults(story: str, which: slice, tmp_path: Path) -> None:
    plain = PCAPS / story / "capture.pcap.gz"
    path = tmp_path / "c.pcapng"
    path.write_bytes(without_times(gzip.decompress(plain.read_bytes()), which))
    read, whole = kafkascope.read(path), kafkascope.read(plain)
    assert read.summary["packets"] == whole.summary["packets"]
    assert len(read.exchanges) > 0
    for table in ("incidents", "rebalances", "findings", "latency", "throughput"):
        read.arrow(table)  # suite-wide, a fault is raised
    assert "internal_error" not in set(read.issues.kind)
