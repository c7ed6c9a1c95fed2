"""Packets to files that other tools read: pcapng with times in nanoseconds, one file after the other if that is wanted.

Blocks are those of https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html: a section, an interface for each
link type, and a packet each, with comments if there are any; names of hosts and secrets of TLS before them.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np

from kafkascope.decoders.kernels import copy_bytes, kernel
from kafkascope.sniffer.columns import I32, I64, NO_TIME, U8, Packets
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.formats import Secret
from kafkascope.sniffer.sources.live_options import Rotation
from kafkascope.sniffer.sources.places import is_uri
from kafkascope.sniffer.units import SECOND_NS

PACKET_OVERHEAD = 32  # bytes of a block of a packet beside the packet
NANOSECONDS = 9  # if_tsresol: powers of ten
TIMES, COMMENT, END = 9, 1, 0  # codes of options
INTERFACE, NAMES, SECRETS = 1, 4, 10  # types of blocks
NAMES_AT_ONCE = 1_000  # in a block
LONGEST_COMMENT = 0xFFFF  # bytes
NO_COMMENTS: Mapping[int, Sequence[str]] = {}

int64: Any = np.int64


class CaptureWriter:
    """Writes packets to a file, or to files NAME_00001_20261231235959.pcapng, as dumpcap calls them.

    Raises OSError, also later when a file cannot be made or written, and SourceError if the path is a URI.
    """

    def __init__(self, path: str, rotation: Rotation) -> None:
        """The first file is made with the first packets; but whether there may be one is found out now."""
        if is_uri(path):
            raise SourceError(path, None, "packets are written to local files only", "Give a path on this machine")
        if path == "-":
            raise SourceError(path, None, "packets are written to files only", "Give a name, which may be a FIFO's")
        self._path = Path(path)
        self._rotation = rotation
        self._file: int | None = None
        self._bytes = 0
        self._begun = 0  # time of the first packet of the file
        self._count = 0
        self._written: deque[Path] = deque()
        self._interfaces: dict[int, int] = {}  # of the file in hand, by link type
        self._head = b""
        if not rotation.is_wanted:
            self._open(self._path)
        elif not self._path.parent.is_dir() or not os.access(self._path.parent, os.W_OK):
            raise OSError(f"{self._path.parent} is no directory that can be written to")

    def begin_with(self, head: bytes) -> None:
        """Put `names_blocks` and `secrets_block` in front of the packets of each file; before any packet is."""
        self._head = head
        if self._file is not None:
            self._append(head)

    def write(self, packets: Packets, comments: Mapping[int, Sequence[str]] = NO_COMMENTS) -> None:
        """Append packets, in files that are no larger than wanted, unless a packet alone is; comments are by number.

        Packets without a time get that of 1970.
        """
        if not len(packets.at):
            return
        packets = replace(packets, at=np.where(packets.at == NO_TIME, 0, packets.at))
        options, option_ends = _options(packets.number, comments)
        sizes = PACKET_OVERHEAD + (packets.captured.astype(np.int64) + 3) // 4 * 4 + np.diff(option_ends)
        ends = np.cumsum(sizes)
        first, count = 0, len(sizes)
        while first < count:
            before = int(ends[first - 1]) if first else 0
            last = count
            at = int(packets.at[first])
            if self._rotation.is_wanted and (self._file is None or self._is_full(int(sizes[first]), at)):
                self._next(at)
            # tcpdump reads no file of several link types: each is told only where it is met.
            self._describe(np.unique(packets.link_type[first:]).tolist())
            if self._rotation.is_wanted:
                last = self._last(packets.at, ends, first, before)
            size = int(ends[last - 1]) - before
            self._append(_blocks(packets, options, option_ends, self._interfaces, slice(first, last), size))
            first = last

    def close(self) -> None:
        """Close the file; again is harmless."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _is_full(self, size: int, at: int) -> bool:
        most_bytes, most_seconds = self._rotation.most_bytes, self._rotation.most_seconds
        return (most_bytes is not None and self._bytes + size > most_bytes) or (
            most_seconds is not None and at - self._begun >= most_seconds * SECOND_NS
        )

    def _last(self, at: I64, ends: I64, first: int, before: int) -> int:
        """Behind the last packet that goes into the file in hand; the first one does."""
        last = len(at)
        if self._rotation.most_bytes is not None:
            room = self._rotation.most_bytes - self._bytes
            last = int(np.searchsorted(ends, before + room, side="right"))
        if self._rotation.most_seconds is not None:
            late = np.flatnonzero(at[first:] - self._begun >= self._rotation.most_seconds * SECOND_NS)
            last = min(last, first + int(late[0]) if len(late) else len(at))
        return max(last, first + 1)

    def _next(self, at: int) -> None:
        self.close()
        self._count += 1
        when = datetime.fromtimestamp(at // SECOND_NS, UTC)
        path = self._path.with_name(f"{self._path.stem}_{self._count:05}_{when:%Y%m%d%H%M%S}{self._path.suffix}")
        self._open(path)
        self._begun = at
        self._written.append(path)
        while self._rotation.files is not None and len(self._written) > self._rotation.files:
            self._written.popleft().unlink(missing_ok=True)

    def _open(self, path: Path) -> None:
        # What was captured is for nobody else to read.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._bytes = 0
        self._interfaces = {}
        self._append(_SECTION + self._head)

    def _describe(self, link_types: list[int]) -> None:
        for link_type in link_types:
            if link_type not in self._interfaces:
                self._interfaces[link_type] = len(self._interfaces)
                options = _option(TIMES, bytes([NANOSECONDS])) + _option(END, b"")
                self._append(_block(INTERFACE, struct.pack("<HHI", link_type, 0, 0) + options))

    def _append(self, content: Any) -> None:
        assert self._file is not None
        left = memoryview(content)
        self._bytes += len(left)
        while left:
            left = left[os.write(self._file, left) :]


def _block(kind: int, body: bytes) -> bytes:
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


_SECTION = _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))


def names_blocks(names: Mapping[str, str]) -> bytes:
    """Names of hosts by IP address, as blocks; a name is of at most 65,000 bytes, and has no zeros in it."""
    records = []
    for host, name in names.items():
        packed = ip_address(host).packed
        records.append(_option(1 if len(packed) == 4 else 2, packed + name.encode() + b"\0"))
    parts = (records[begin : begin + NAMES_AT_ONCE] for begin in range(0, len(records), NAMES_AT_ONCE))
    return b"".join(_block(NAMES, b"".join(part) + _option(END, b"")) for part in parts)


def secrets_block(secret: Secret) -> bytes:
    """Secrets of TLS as a block."""
    return _block(SECRETS, struct.pack("<II", secret.kind, len(secret.data)) + _padded(secret.data))


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _options(number: I64, comments: Mapping[int, Sequence[str]]) -> tuple[U8, I64]:
    """The options of packets one after the other, and where those of each begin, and the last ones end."""
    sizes = np.zeros(len(number) + 1, np.int64)
    found = []
    if comments:
        for row in np.flatnonzero(np.isin(number, np.fromiter(comments, np.int64))).tolist():
            mine = b"".join(_option(COMMENT, _encoded(text)) for text in comments[int(number[row])])
            found.append(mine + _option(END, b""))
            sizes[row + 1] = len(found[-1])
    return np.frombuffer(b"".join(found), np.uint8).copy(), np.cumsum(sizes)


def _encoded(comment: str) -> bytes:
    return comment.encode("utf-8", "replace")[:LONGEST_COMMENT].decode("utf-8", "ignore").encode()


def _blocks(
    packets: Packets, options: U8, option_ends: I64, interfaces: Mapping[int, int], rows: slice, size: int
) -> U8:
    """Some of the packets, whose blocks are so many bytes together."""
    out = np.zeros(size, np.uint8)
    distinct, places = np.unique(packets.link_type[rows], return_inverse=True)
    _lay_out(
        packets.data,
        np.ascontiguousarray(packets.at[rows]),
        np.ascontiguousarray(packets.start[rows]),
        np.ascontiguousarray(packets.captured[rows]),
        np.ascontiguousarray(packets.original[rows]),
        np.array([interfaces[one] for one in distinct.tolist()], np.int32)[places],
        options,
        option_ends[rows.start : rows.stop + 1],
        out,
    )
    return out


@kernel
def _lay_out(
    data: U8,
    at: I64,
    start: I64,
    captured: I32,
    original: I32,
    interface: I32,
    options: U8,
    option_ends: I64,
    out: U8,
) -> None:
    words = out.view(np.uint32)
    place = 0
    for row in range(at.size):
        size = int64(captured[row])
        padded = (size + 3) // 4 * 4
        more = option_ends[row + 1] - option_ends[row]
        whole = PACKET_OVERHEAD + padded + more
        word = place // 4
        words[word] = 6
        words[word + 1] = whole
        words[word + 2] = interface[row]
        words[word + 3] = at[row] >> 32
        words[word + 4] = at[row] & 0xFFFFFFFF
        words[word + 5] = size
        words[word + 6] = original[row]
        copy_bytes(data, start[row], size, out, place + 28)
        copy_bytes(options, option_ends[row], more, out, place + 28 + padded)
        words[(place + whole) // 4 - 1] = whole
        place += whole


def rehearse() -> None:
    """Have the kernel compiled, or loaded from its cache, before there are packets that wait for it."""
    nothing, none, none_32 = np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int32)
    _lay_out(nothing, none, none, none_32, none_32, none_32, nothing, none, nothing)
