"""Captures for tests of joining: those of the three brokers in pcaps/rolling-restart, with clocks and times changed."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from pathlib import Path

from tests.paths import PCAPS

ROLLING = PCAPS / "rolling-restart"
SWITCH = "capture.pcap.gz"
BROKERS = ("capture-k1.pcap.gz", "capture-k2.pcap.gz", "capture-k3.pcap.gz")
SECOND = 1_000_000_000
Record = tuple[int, int, bytes]  # time in nanoseconds, bytes on the wire, bytes captured


def records(name: str) -> tuple[bytes, list[Record]]:
    """Header and records of a file in the folder of the story."""
    return records_of(ROLLING / name)


def records_of(path: Path) -> tuple[bytes, list[Record]]:
    """Header and records of a little-endian pcap file with microseconds."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return data[:24], list(_records(data))


def _records(data: bytes) -> Iterator[Record]:
    place = 24
    while place < len(data):
        seconds, micros, captured, original = struct.unpack_from("<IIII", data, place)
        yield seconds * SECOND + micros * 1000, original, data[place + 16 : place + 16 + captured]
        place += 16 + captured


def write(path: Path, header: bytes, found: list[Record], ahead: int = 0, drift: float = 0.0) -> str:
    """Write a pcap file with nanoseconds, as a clock would have had it that is so much ahead, and drifts."""
    first = found[0][0]
    out = [struct.pack("<I", 0xA1B23C4D), header[4:]]
    for at, original, data in found:
        shown = at + ahead + round((at - first) * drift)
        out.append(struct.pack("<IIII", shown // SECOND, shown % SECOND, len(data), original) + data)
    path.write_bytes(b"".join(out))
    return str(path)
