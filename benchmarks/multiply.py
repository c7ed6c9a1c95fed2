"""Makes a large capture from a small one: copies of it, each with other hosts and a later time.

    python benchmarks/multiply.py pcaps/mixed-versions/capture.pcap 400 bench-data/mixed-400.pcap
    python benchmarks/multiply.py pcaps/bench_batches/capture.pcap.gz 300 bench-data/heavy-300.pcap 38318

With the port of a client, of that connection alone, and all copies are one connection: what it carries comes again and
again, and it stays open.

Reads a little-endian pcap, gzipped or not, of Ethernet and IPv4; the second and third byte of each address become
those of the copy, so every copy has connections of its own. Checksums are not mended: neither tshark nor
kafkascope look at them.
"""

from __future__ import annotations

import gzip
import shutil
import struct
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def multiply(source: Path, size: int, target: Path) -> int:
    """Write at least that many bytes; returns the number of copies."""
    header, packets = packets_of(source)
    body, record, seconds = laid_out(packets)
    ipv4 = (body[record + 16 + 12] == 8) & (body[record + 16 + 13] == 0)
    address = (record[ipv4, None] + 16 + 14 + np.array([13, 14, 17, 18])).reshape(-1)
    span = int(seconds.max() - seconds.min()) + 2
    copies = -(-size // len(body))
    with target.open("wb") as file:
        file.write(header)
        for copy in range(copies):
            out = body.copy()
            later = (seconds + copy * span).astype("<u4").view(np.uint8).reshape(-1, 4)
            out[record[:, None] + np.arange(4)] = later
            out[address] = np.tile(np.array([copy >> 8 & 255, copy & 255] * 2, np.uint8), int(ipv4.sum()))
            file.write(out.tobytes())
    return copies


def lengthen(source: Path, port: int, size: int, target: Path) -> int:
    """Write at least that many bytes of the connection of one client's port; returns how often it says the same."""
    header, packets = packets_of(source)
    mine = [p for p in packets if p[28:30] == b"\x08\x00" and p[39] == TCP and port in struct.unpack_from(">HH", p, 50)]
    opening = [p for p in mine if p[63] & SYN]
    packets = [p for p in mine if not p[63] & (SYN | FIN | RST)]
    body, record, seconds = laid_out(packets)
    is_client = np.array([struct.unpack_from(">H", p, 50)[0] == port for p in packets])
    numbers = np.array([struct.unpack_from(">II", p, 54) for p in packets], np.int64)  # seq and ack
    length = np.array([struct.unpack_from(">H", p, 32)[0] - 20 - (p[62] >> 4) * 4 for p in packets])
    said = {side: stream_bytes(numbers[is_client == side, 0], length[is_client == side]) for side in (True, False)}
    per_copy = np.where(is_client[:, None], [said[True], said[False]], [said[False], said[True]])
    span = int(seconds.max() - seconds.min()) + 1
    copies = -(-size // len(body))
    with target.open("wb") as file:
        file.write(header + b"".join(opening))
        for copy in range(copies):
            out = body.copy()
            out[record[:, None] + np.arange(4)] = (seconds + copy * span).astype("<u4").view(np.uint8).reshape(-1, 4)
            later = ((numbers + copy * per_copy) % 2**32).astype(">u4").view(np.uint8).reshape(-1, 8)
            out[record[:, None] + np.arange(54, 62)] = later
            file.write(out.tobytes())
    return copies


TCP, FIN, SYN, RST = 6, 1, 2, 4


def stream_bytes(seq: NDArray[np.int64], length: NDArray[np.int64]) -> int:
    """How far the segments of one direction reach."""
    after = (seq - seq[0] + 2**31) % 2**32 - 2**31  # what came again may begin before the first
    return int((after + length).max())


def packets_of(source: Path) -> tuple[bytes, list[bytes]]:
    """The header of a capture, and its packets with the headers of their records."""
    stored = source.read_bytes()
    data = gzip.decompress(stored) if source.suffix == ".gz" else stored
    if struct.unpack_from("<I", data)[0] != 0xA1B2C3D4 or struct.unpack_from("<I", data, 20)[0] != 1:
        raise SystemExit(f"{source}: not a little-endian pcap of Ethernet")
    packets = []
    at = 24
    while at + 16 <= len(data):
        size = 16 + struct.unpack_from("<I", data, at + 8)[0]
        packets.append(data[at : at + size])
        at += size
    return data[:24], packets


def laid_out(packets: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The packets one after the other, where each begins, and the seconds of its time."""
    body = np.frombuffer(b"".join(packets), np.uint8)
    record = np.cumsum([0, *map(len, packets)])[:-1]
    seconds = body[record[:, None] + np.arange(4)].copy().view("<u4").ravel().astype(np.int64)
    return body, record, seconds


if __name__ == "__main__":
    source, size, target = Path(sys.argv[1]), int(sys.argv[2]) * 1_000_000, Path(sys.argv[3])
    if size > shutil.disk_usage(target.parent).free:
        raise SystemExit(f"{target}: there is no room for {size:,} bytes; the size is given in megabytes")
    made = multiply(source, size, target) if len(sys.argv) == 4 else lengthen(source, int(sys.argv[4]), size, target)
    print(made, "copies")
