"""Files that were captured at several points at once: their clocks, and which of them is believed where.

``sniffer.comparison`` finds out what is said here, from the packets that several files have. Each file has a rank; of
a packet that several files have, the copy of the file with the lowest rank counts. So that it comes first, the packets
of rank N are merged N windows late, a window being longer than any copy takes from one point to the other. What TCP
reassembly then meets anew is a copy, or fills a hole (``sniffer.reassembly``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from kafkascope.sniffer.columns import I8, I64

PLAUSIBLE = 1 << 62  # times beyond are of damaged files; nothing is added to them


@dataclass(frozen=True, slots=True)
class Clock:
    """What sets a file's clock right: a difference, and one that grows. Never turns the order of two times round."""

    offset: int  # nanoseconds, at the time since
    drift: float  # nanoseconds a nanosecond
    since: int

    def corrected(self, at: I64) -> I64:
        """Times (NO_TIME among them) by the right clock."""
        added = self.offset + np.rint((at.astype(np.float64) - self.since) * self.drift).astype(np.int64)
        result: I64 = np.where((at > -PLAUSIBLE) & (at < PLAUSIBLE), at + added, at)
        return result

    def at(self, at: int) -> int:
        """One time by the right clock."""
        return int(self.corrected(np.array([at], np.int64))[0])

    def after(self, before: Clock) -> Clock:
        """The clock that corrects by another one first, then by this one."""
        middle = before.since + before.offset
        offset = before.offset + self.offset + round(self.drift * (middle - self.since))
        return Clock(offset, before.drift + self.drift + before.drift * self.drift, before.since)

    def inverse(self) -> Clock:
        """The clock that undoes this one."""
        return Clock(-self.offset, -self.drift / (1 + self.drift), self.since + self.offset)


RIGHT = Clock(0, 0.0, 0)


@dataclass(frozen=True, slots=True)
class Content:
    """What was read of a file; who reads it again must find the same."""

    size: int  # bytes on disk
    digest: int | None  # ``sniffer.sources.window.Window.digest`` of all of it; None: nobody has read it yet


@dataclass(frozen=True, slots=True)
class CapturePoint:
    """How the packets of one file take part in the merge."""

    packets: int
    rank: int = 0
    delay: int = 0  # nanoseconds: rank times the window
    clock: Clock | None = None


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of each packet of a capture, by its number."""

    first_numbers: tuple[int, ...]  # of the files, ascending
    ranks: tuple[int, ...]  # of the same files
    window: int  # nanoseconds

    def of(self, number: I64) -> I8:
        """Ranks of packets."""
        file = np.searchsorted(np.array(self.first_numbers, np.int64), number, side="right") - 1
        return np.array(self.ranks, np.int8)[file]


@dataclass(frozen=True, slots=True)
class FileClock:
    """What was found out about the clock of one file, for people."""

    path: str
    reference: str  # the file whose clock it is compared with
    ahead_at_first: int  # nanoseconds that the clock is ahead, at the file's first packet; below 0: behind
    ahead_at_last: int
    drift: float  # nanoseconds a nanosecond; 0 if none could be seen
    uncertainty: int  # nanoseconds, either way: the delay of the network could hide so much
    common: int  # packets on which this rests
    corrected: bool  # no: the difference is within the uncertainty, or less than is worth it


@dataclass(frozen=True, slots=True)
class Joined:
    """Files that were captured at once, and have packets in common."""

    points: Mapping[str, CapturePoint]  # of every file, by path
    window: int
    clocks: tuple[FileClock, ...]  # of those with packets in common, but for the references
    contents: Mapping[str, Content] = field(default_factory=dict)  # of the files that were read to compare them

    def ranks(self, files: Iterable[tuple[str, int]]) -> Ranks:
        """Ranks by number; given are paths and first numbers of the files in order. New ones may be among them."""
        listed = [(first, self.points[path].rank if path in self.points else 0) for path, first in files]
        return Ranks(tuple(first for first, _ in listed), tuple(rank for _, rank in listed), self.window)
