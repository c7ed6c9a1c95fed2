"""What the formats of capture files have in common: what a file says of its packets, and how these are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.issues import IssueLog
from kafkascope.sniffer.sources.window import Window


@dataclass(frozen=True, slots=True)
class Note:
    """A comment in a capture; packet 0: of the file or of an interface."""

    packet: int
    text: str


@dataclass(frozen=True, slots=True)
class Secret:
    """Content of a decryption secrets block; kind as in the format, 0x544c534b being a TLS key log."""

    kind: int
    data: bytes = field(repr=False)
    packet: int = 1  # number, in what is read, of the packet that comes next


@dataclass(frozen=True, slots=True)
class Interface:
    """What an interface description says that matters for its packets."""

    link_type: int
    snap_length: int  # bytes; 0: no limit
    resolution: int  # if_tsresol as it stands: 10 to the minus n, or with the top bit 2 to the minus n
    offset: int  # seconds to add
    name: str


class Context(Protocol):
    """What a file says before a place about the packets behind it."""

    @property
    def begins(self) -> int:
        """Offset of the first record of a file that begins with this."""

    @property
    def big_endian(self) -> bool:
        """Byte order of the records."""

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """Interfaces that were described, by their numbers in records."""

    def reader(self, file: str, window: Window, first_number: int = 1, stop: int | None = None) -> FormatReader:
        """Read from a record, at which the window stands; those that begin at offset stop or later are left out."""

    def search(self, window: Window) -> Context | None:
        """Move a window to the first credible record at or behind it; returns what is known there, None if none is."""

    def behind(self, before: Context) -> Context:
        """What holds behind a part of the file at whose end this is known, where before holds at its beginning."""


class FormatReader(Protocol):
    """Packets of a file in one format, batch by batch; the rest fills up while they are read."""

    window: Window
    number: int  # of the packet that comes next
    issues: IssueLog
    notes: list[Note]
    secrets: list[Secret]
    raw_spans: dict[int, tuple[int, int]]  # by interface, the earliest and the latest time of packets that are left
    # out, as its clock is not known
    raw_lag: int  # of these: the most by which the number of a time is below one before it

    @property
    def format(self) -> str:
        """Name of the format."""

    @property
    def link_types(self) -> frozenset[int]:
        """Link types of the packets."""

    @property
    def context(self) -> Context:
        """What holds for the records to come."""

    def __iter__(self) -> Iterator[Packets]: ...
