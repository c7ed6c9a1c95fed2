"""Compressed captures, recognised by their first bytes: gzip (RFC 1952) and zstd (RFC 8878), both with many members.

What is read is bounded by what is asked for, however much a few bytes may expand to.
"""

from __future__ import annotations

import zlib

import zstandard

from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.window import ByteSource

CHUNK = 1 << 16
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
SKIPPABLE = 0x184D2A50  # a zstd frame of other data; the low 4 bits are free

# Formats that people have captures in, which are not read: first bytes, name, what to do
FOREIGN = (
    (b"\xfd7zXZ\0", "compressed with xz", "Unpack it with `unxz`"),
    (b"BZh", "compressed with bzip2", "Unpack it with `bunzip2`"),
    (b"\x04\x22\x4d\x18", "compressed with lz4", "Unpack it with `unlz4`"),
    (b"PK\x03\x04", "a zip archive", "Unpack it with `unzip`"),
    (b"snoop\0\0\0", "a snoop capture", "Convert it with `editcap -F pcap`"),
    (b"GMBU", "a Network Monitor capture", "Convert it with `editcap -F pcap`"),
    (b"RTSS", "a Network Monitor capture", "Convert it with `editcap -F pcap`"),
)


class Stream:
    """A file or decompressor of which the next bytes can be looked at; trouble ends it and is noted, not raised."""

    def __init__(self, source: ByteSource, compression: str = "") -> None:
        self.compression = compression
        self._source = source
        self._ahead = b""
        self._error: str | None = None

    @property
    def damage(self) -> str | None:
        """What was wrong with the file so far; None: nothing."""
        return self._error or getattr(self._source, "damage", None)

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer from its beginning with one read; 0 at the end."""
        if self.compression and not self._ahead:
            # Pieces of one size, so that where damage stops the decompressor does not depend on what was asked for.
            data = bytearray(CHUNK)
            self._ahead = bytes(data[: self._source.readinto(memoryview(data)) or 0])
        if self._ahead:
            count = min(len(buffer), len(self._ahead))
            buffer[:count] = self._ahead[:count]
            self._ahead = self._ahead[count:]
            return count
        try:
            return self._source.readinto(buffer) or 0
        except OSError as error:
            self._error = f"reading failed: {error.strerror or error}"
            return 0

    def read(self, size: int = CHUNK) -> bytes:
        """Return what one read gives, up to size bytes; empty at the end."""
        data = bytearray(CHUNK if size < 0 else min(size, CHUNK))
        return bytes(data[: self.readinto(memoryview(data))])

    def put_back(self, data: bytes) -> None:
        """Let data be read (again) next."""
        self._ahead = data + self._ahead

    def peek(self, size: int) -> bytes:
        """Return the next bytes without taking them: fewer than size only at the end."""
        while len(self._ahead) < size:
            ahead, self._ahead = self._ahead, b""
            more = self.read(size - len(ahead))
            self._ahead = ahead + more + self._ahead
            if not more:
                break
        return self._ahead[:size]


class Gzip:
    """The content of all members of a gzip file; what follows them is left alone."""

    def __init__(self, file: Stream) -> None:
        self.damage: str | None = None
        self._file = file
        self._decompressor = zlib.decompressobj(wbits=31)
        self._finished = False

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer from its beginning with what is there; 0 at the end, or where the data is damaged."""
        while not self._finished:
            if self._decompressor.eof:
                self._next_member()
                continue
            data = self._decompressor.unconsumed_tail or self._file.read()
            if not data:
                self.damage = self._file.damage or "the gzip data ends before its end mark"
                break
            try:
                output = self._decompressor.decompress(data, len(buffer))
            except zlib.error as error:
                self.damage = f"damaged gzip data ({error})"
                break
            if output:
                buffer[: len(output)] = output
                return len(output)
        self._finished = True
        return 0

    def _next_member(self) -> None:
        """Go on with what stands behind the end mark; padding, and anything that is not gzip, ends the file."""
        rest = self._decompressor.unused_data
        if len(rest) < len(GZIP):
            rest += self._file.read()
        if not rest.startswith(GZIP):
            self._finished = True
            return
        self._decompressor = zlib.decompressobj(wbits=31)
        self._file.put_back(rest)


class Zstd:
    """The content of all frames of a zstd file."""

    def __init__(self, file: Stream) -> None:
        self.damage: str | None = None
        self._file = file
        self._reader = zstandard.ZstdDecompressor().stream_reader(
            file,  # type: ignore[arg-type]
            read_size=CHUNK,
            read_across_frames=True,
        )

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer with what is there after as few reads as give any; 0 at the end, or where it is damaged."""
        try:
            count = int(self._reader.readinto1(buffer))
        except zstandard.ZstdError as error:
            self.damage = f"damaged zstd data ({error})"
            return 0
        self.damage = self._file.damage
        return count


def decompressed(name: str, file: ByteSource) -> Stream:
    """Return the content of a file, decompressed where it is compressed.

    Raises SourceError for an empty file and for formats that are known but not read.
    """
    stream = Stream(file)
    head = stream.peek(8)
    if not head:
        message = stream.damage or "the file is empty"
        raise SourceError(name, None, message, "Check how it was made or copied; a capture has at least 24 bytes")
    for magic, what, advice in FOREIGN:
        if head.startswith(magic):
            raise SourceError(name, 0, f"this is {what}, which is not read", advice)
    if head.startswith(GZIP):
        stream = Stream(Gzip(stream), "gzip")
    elif head.startswith(ZSTD) or (len(head) >= 4 and int.from_bytes(head[:4], "little") & ~15 == SKIPPABLE):
        stream = Stream(Zstd(stream), "zstd")
    else:
        return stream
    if not stream.peek(1):
        message = stream.damage or "the compressed file is empty"
        raise SourceError(name, 0, message, "Check how it was made or copied")
    return stream
