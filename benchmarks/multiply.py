"""Makes a large capture from a small one: copies of it, each with other hosts and a later time.

    python benchmarks/multiply.py pcaps/mixed-versions/capture.pcap 400 bench-data/mixed-400.pcap

Reads a little-endian pcap, gzipped or not, of Ethernet and IPv4; the second and third byte of each address become
those of the copy, so every copy has connections of its own. Checksums are not mended: neither tshark nor
kafkascope look at them.
"""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

import numpy as np


def multiply(source: Path, size: int, target: Path) -> int:
    """Write at least that many bytes; returns the number of copies."""
    stored = source.read_bytes()
    raw = np.frombuffer(gzip.decompress(stored) if source.suffix == ".gz" else stored, np.uint8)
    header, body = raw[:24].tobytes(), raw[24:]
    if struct.unpack_from("<I", header)[0] != 0xA1B2C3D4 or struct.unpack_from("<I", header, 20)[0] != 1:
        raise SystemExit(f"{source}: not a little-endian pcap of Ethernet")
    starts = []
    at = 0
    data = body.tobytes()
    while at + 16 <= len(data):
        starts.append(at)
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    record = np.array(starts, np.int64)
    seconds = body[record[:, None] + np.arange(4)].copy().view("<u4").ravel().astype(np.int64)
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


if __name__ == "__main__":
    print(multiply(Path(sys.argv[1]), int(sys.argv[2]) * 1_000_000, Path(sys.argv[3])), "copies")
