"""A file seen through a moving buffer: what the kernels index, with an incomplete record carried over."""

from __future__ import annotations

from typing import Any, Protocol

import crc32c
import numpy as np

from kafkascope.sniffer.columns import U8

BATCH_BYTES = 7_000_000  # all that is made of them at once is 30 to 40 times as much


class ByteSource(Protocol):
    """A binary file, pipe or decompressor."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill the buffer from its beginning; 0 at the end of the file."""


class Bounded:
    """A file up to the size that it had once: what was appended since is not read."""

    def __init__(self, file: Any, size: int) -> None:
        """The file stands where reading is to begin."""
        self._file = file
        self._left = size - int(file.tell())

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer from its beginning with one read; 0 at the end."""
        if self._left <= 0:
            return 0
        count = int(self._file.readinto(buffer[: self._left]) or 0)
        self._left -= count
        return count


class Window:
    """``data[begin:end]`` is what was read and not yet used; each filling takes a new buffer.

    Old buffers stay as they are: packets handed out point into them.
    """

    def __init__(self, source: ByteSource, batch_bytes: int = BATCH_BYTES, *, offset: int = 0, live: bool = False):
        """With live a filling is what a pipe holds now, else batch_bytes; the file stands at offset."""
        self._source = source
        self._batch_bytes = batch_bytes
        self._live = live
        self.data: U8 = np.empty(0, np.uint8)
        self.begin = 0
        self.end = 0
        self.finished = False
        self._base = offset  # place in the file of data[0]
        self._digest = 0
        self._digested = 0  # index in data up to which the digest is made

    @property
    def offset(self) -> int:
        """Place in the file of data[begin]."""
        return self._base + self.begin

    @property
    def left(self) -> int:
        """Bytes that were read and not yet used."""
        return self.end - self.begin

    def digest(self) -> int:
        """CRC-32C of the bytes that were used since the beginning, or the mark: the same if they are read again."""
        self._digest = crc32c.crc32c(self.data[self._digested : self.begin], self._digest)
        self._digested = self.begin
        return self._digest

    def mark(self) -> None:
        """Let the digest begin at the next byte."""
        self._digest, self._digested = 0, self.begin

    def position(self, offset: int) -> int:
        """Index in data (perhaps beyond it) of a place in the file."""
        return offset - self._base

    def fill(self, need: int) -> bool:
        """Have at least need bytes; False if the file ends before."""
        if self.left >= need:
            return True
        if self.finished:
            return False
        left = self.left
        self.digest()  # what was used goes now
        data = np.empty(max(need, left + self._batch_bytes), np.uint8)
        data[:left] = self.data[self.begin : self.end]
        self._base += self.begin
        self.data, self.begin, self.end, self._digested = data, 0, left, 0
        view = memoryview(data)  # type: ignore[arg-type]
        while self.end < len(data) and not (self._live and self.end >= need):
            count = self._source.readinto(view[self.end :])
            if not count:
                self.finished = True
                break
            self.end += count
        return self.left >= need

    def peek(self, need: int) -> bytes:
        """Return the next bytes, up to need, without using them."""
        self.fill(need)
        return self.data[self.begin : min(self.begin + need, self.end)].tobytes()
