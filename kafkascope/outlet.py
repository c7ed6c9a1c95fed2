"""Where lines go that nobody may hold up: whoever reads them may pause (``| less``), and packets come all the same."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

MOST_BYTES = 16 << 20
"""So much may wait for whoever reads."""


class Writable(Protocol):
    """What lines are written to."""

    def write(self, text: bytes | memoryview, /) -> object:
        """Take whole lines."""

    def flush(self) -> object:
        """Hand on what was taken."""


class Bulk:
    """JSON lines for Elasticsearch's bulk API, which wants a line before each that says what to do with it."""

    def __init__(self, out: Writable) -> None:
        """Where they go."""
        self._out = out

    def write(self, text: bytes | memoryview) -> None:
        """Take whole lines."""
        self._out.write(with_actions(bytes(text)))

    def flush(self) -> None:
        """Hand on what was taken."""
        self._out.flush()


def with_actions(lines: bytes) -> bytes:
    """JSON lines, each behind one that has it put into the index which the request names."""
    return b"".join(b'{"index":{}}\n' + line for line in lines.splitlines(keepends=True))


class Outlet:
    """A file that is written to by a thread of its own. Lines for which there is no room are left out and counted."""

    def __init__(self, descriptor: int, told: Callable[[int, int], bytes], most_bytes: int = MOST_BYTES) -> None:
        """told: the line that takes the place of lines that were left out, by their number there and so far."""
        self._descriptor = descriptor
        self._told = told
        self._most = most_bytes
        self._lost_here = 0
        self.lost = 0  # lines so far
        self._bytes = 0
        self._texts: deque[bytes] = deque()
        self._error: OSError | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._writer = threading.Thread(target=self._write_all, name="kafkascope-outlet", daemon=True)
        self._writer.start()

    def write(self, text: bytes | memoryview) -> None:
        """Take whole lines, or leave them out; never waits. Raises OSError where an earlier one failed."""
        text = bytes(text)  # it may be a view of memory that is used again
        with self._changed:
            if self._error is not None:
                raise self._error
            if self._texts and self._bytes + len(text) > self._most:
                lines = text.count(b"\n")
                self._lost_here += lines
                self.lost += lines
                return
            self._add_told()
            self._add(text)

    def flush(self) -> None:
        """Raise OSError where a text could not be written."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Wait until all that was taken is written. Raises OSError."""
        with self._changed:
            self._add_told()
            self._closed = True
            self._changed.notify_all()
        while self._writer.is_alive():
            self._writer.join(0.1)  # with pauses, in which signals are heard
        self.flush()

    def _add_told(self) -> None:
        if self._lost_here:
            self._add(self._told(self._lost_here, self.lost))
            self._lost_here = 0

    def _add(self, text: bytes) -> None:
        self._texts.append(text)
        self._bytes += len(text)
        self._changed.notify_all()

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._texts or self._closed)
                if not self._texts:
                    return
                text = self._texts[0]
            left = memoryview(text)
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except OSError as error:
                self._error = error
                return
            with self._changed:
                self._texts.popleft()
                self._bytes -= len(text)
