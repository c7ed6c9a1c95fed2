"""Which of the files of a capture a packet came from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kafkascope.sniffer.columns import I64


class Origins:
    """The files of a capture in their order, or what it is captured from live, which is one origin.

    Packets are numbered through: those of each file follow those of the file before it, in whatever order they are
    merged. So a number tells the file, as soon as it is known how many packets the files before it have; that is so
    before a packet of it is handed out.
    """

    def __init__(self, names: Iterable[str], first_numbers: Iterable[int] = (1,)) -> None:
        """Names as ``sources.places.origin_name`` has them, and numbers of first packets, as far as they are known."""
        self.names = tuple(names)
        self._first_numbers = list(first_numbers)

    def begin(self, first_number: int, name: str | None = None) -> None:
        """The next file begins with this number; its name, if it was not known before."""
        if name is not None:
            self.names = (*self.names, name)
        self._first_numbers.append(first_number)

    def of(self, number: I64) -> I64:
        """The place among names of the file of each packet; -1 for 0, which is no packet."""
        return np.searchsorted(np.array(self._first_numbers, np.int64), number, side="right") - 1


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """A file of a capture, and which numbers its packets have."""

    file: str  # as ``sources.places.origin_name`` has it
    first_packet: int
    packets: int
    bytes: int | None  # on disk, of what was read; None: a pipe
    digest: str | None  # ``sources.files.digest`` of these bytes; None: they cannot be read again


NO_ORIGINS = Origins((), ())
"""Of packets that are of no file."""
