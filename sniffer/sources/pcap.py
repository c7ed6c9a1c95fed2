"""The classic capture file: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-04.html.

A file header, then for each packet seconds, fraction, bytes captured and bytes on the wire, 32 bits each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kafkascope.decoders.kernels import borrowing, kernel
from kafkascope.sniffer.columns import I32, I64, U8, Packets
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.formats import Context, Interface, Note, Secret
from kafkascope.sniffer.sources.places import origin_name
from kafkascope.sniffer.sources.window import Window
from kafkascope.sniffer.units import SECOND_NS

FILE_HEADER = 24
SCAN_LIMIT = 1 << 20  # bytes of the largest packet that is credible while searching
SMALLEST_LIMIT = 1 << 20
LARGEST_LIMIT = 16 << 20
CHAIN = 3  # credible records in a row that prove a place to be the beginning of one
DAY = 86_400

# magic: (nanoseconds of a unit of the fraction, bytes of a record header)
MAGICS = {
    0xA1B2C3D4: (1000, 16),
    0xA1B23C4D: (1, 16),
    0xA1B2CD34: (1000, 24),  # Kuznetzov's patched format: interface, protocol and direction behind the usual fields
}

# Why the walk over records stopped
MORE, STOPPED, DAMAGED = range(3)

int64: Any = np.int64


@dataclass(frozen=True, slots=True)
class PcapHeader:
    """What the file header says."""

    begins: ClassVar[int] = FILE_HEADER
    interfaces: ClassVar[tuple[Interface, ...]] = ()
    big_endian: bool
    unit: int  # nanoseconds
    record_header: int  # bytes
    snap_length: int  # bytes; 0: no limit
    link_type: int

    @property
    def limit(self) -> int:
        """Bytes beyond which a captured length is taken for damage."""
        if not self.snap_length:
            return LARGEST_LIMIT
        return min(max(4 * self.snap_length, SMALLEST_LIMIT), LARGEST_LIMIT)

    def reader(self, file: str, window: Window, first_number: int = 1, stop: int | None = None) -> PcapReader:
        """Read from a record, at which the window stands; those that begin at offset stop or later are left out."""
        return PcapReader(file, self, window, first_number, stop)

    def search(self, window: Window) -> PcapHeader | None:
        """Move a window to the first credible record at or behind it; None if there is none."""
        return self if self.find(window, 1) else None

    def find(self, window: Window, least: int) -> bool:
        """Move a window to the first chain of credible records, as `_scan` has it; False if there is none."""
        while True:
            found, window.begin = _scan(
                *(window.data, window.begin, window.end, window.finished),
                *(self.big_endian, self.unit, self.record_header, least),
            )
            if found or window.finished:
                return bool(found)
            window.fill(window.left + 1)

    def behind(self, before: Context) -> PcapHeader:
        """It holds for the whole file."""
        return self


def is_pcap(head: bytes) -> bool:
    """Whether a file begins with one of the magic numbers, in either byte order."""
    return len(head) >= 4 and any(struct.unpack(order, head[:4])[0] in MAGICS for order in ("<I", ">I"))


def parse_header(file: str, head: bytes) -> PcapHeader:
    """Read the 24 bytes of the file header; raises SourceError where they are no such."""
    for order in "<>":
        if len(head) >= 4 and (magic := struct.unpack(order + "I", head[:4])[0]) in MAGICS:
            break
    else:
        raise SourceError(file, 0, "not a pcap file", "Give a file written by tcpdump or Wireshark")
    if len(head) < FILE_HEADER:
        message = f"the pcap file header is cut: {len(head)} of {FILE_HEADER} bytes"
        raise SourceError(file, len(head), message, "Copy the file again; it holds no packet")
    _, major, _, _, _, snap_length, link_type = struct.unpack(order + "IHHiIII", head[:FILE_HEADER])
    if major != 2:
        message = f"version {major} of the pcap format is not known (2 is)"
        raise SourceError(file, 4, message, "Convert it with `editcap -F pcap`")
    unit, record_header = MAGICS[magic]
    # The upper bits of the link type tell the length of a frame check sequence, which IP's own length leaves out.
    return PcapHeader(order == ">", unit, record_header, snap_length, link_type & 0xFFFF)


class PcapReader:
    """Packets of a file, batch by batch; issues fill up while they are read."""

    format = "pcap"

    def __init__(self, file: str, header: PcapHeader, window: Window, first_number: int, stop: int | None) -> None:
        self.file = file
        self.context = header
        self.window = window
        self.number = first_number  # of the packet that comes next
        self.issues = IssueLog(file=origin_name(file))
        self.notes: list[Note] = []  # the format has none, nor what follows
        self.secrets: list[Secret] = []
        self.raw_spans: dict[int, tuple[int, int]] = {}
        self.raw_lag = 0
        self._stop = stop

    @property
    def link_types(self) -> frozenset[int]:
        """Link types of the packets."""
        return frozenset((self.context.link_type,))

    def __iter__(self) -> Iterator[Packets]:
        header, window = self.context, self.window
        settings = (header.big_endian, header.unit, header.record_header, header.limit)
        need = header.record_header
        while self._stop is None or window.offset < self._stop:
            whole = window.fill(need)
            if not whole and window.left < header.record_header:
                if window.left:
                    self._truncated(header.record_header)
                return
            stop = window.end if self._stop is None else min(window.end, window.position(self._stop))
            rows = (stop - window.begin) // header.record_header + 1
            start, at = np.empty(rows, np.int64), np.empty(rows, np.int64)
            captured, original = np.empty(rows, np.int32), np.empty(rows, np.int32)
            count, window.begin, why, need, long, first_long = _walk(
                *(window.data, window.begin, window.end, stop, *settings, start, at, captured, original)
            )
            if long:
                packet, when = self.number + first_long, int(at[first_long])
                detail = f"{self.file}: a record holds more bytes than its packet had on the wire"
                self.issues.add(Issue("captured_exceeds_original", detail, at=when, packet=packet, count=long))
            if count:
                number = np.arange(self.number, self.number + count, dtype=np.int64)
                self.number += count
                link_type = np.full(count, header.link_type, np.int32)
                yield Packets(
                    window.data, number, at[:count], start[:count], captured[:count], original[:count], link_type
                )
            if why == DAMAGED or (why == MORE and not whole and not count):
                # What runs over the end of the file is either cut there, or lies and has others behind it.
                if not self._find_next(need if why == MORE else 0):
                    return
                need = header.record_header

    def _find_next(self, cut: int) -> bool:
        """Go to the next credible record; cut is the size of a record that the file's end cuts, or 0."""
        window, origin, begin = self.window, self.window.offset, self.window.begin
        window.begin += 1
        found = self.context.find(window, CHAIN if cut else 1)
        if cut and not found:
            window.begin = begin  # still right: the file had ended, so the buffer is the same
            self._truncated(cut)
            return False
        skipped = (window.offset if found else window.offset + window.left) - origin
        outcome = "reading goes on behind them" if found else "no packet was found behind"
        detail = f"{self.file}: no credible packet record at offset {origin}: passed over {skipped} bytes, {outcome}"
        self.issues.add(Issue("damaged_packet_record", detail, packet=self.number))
        return found

    def _truncated(self, need: int) -> None:
        window = self.window
        detail = (
            f"{self.file}: ends at offset {window.offset + window.left} within a packet record that began at offset "
        )
        detail += f"{window.offset}: {need - window.left} bytes are missing"
        self.issues.add(Issue("truncated_capture", detail, packet=self.number))


def truncated(file: str, window: Window, need: int, number: int) -> Issue:
    """Issue of a file that ends within a record of need bytes, at which the window stands."""
    ends = window.offset + window.left
    detail = f"{file}: the record at offset {window.offset} lacks its last {need - window.left} bytes, the file ends at"
    return Issue("truncated_capture", f"{detail} {ends}; packets before it were read", packet=number)


@borrowing
def word(data: U8, at: int, big_endian: bool) -> Any:
    """The unsigned 32-bit number at a place, for kernels."""
    if big_endian:
        return int64(data[at]) << 24 | int64(data[at + 1]) << 16 | int64(data[at + 2]) << 8 | int64(data[at + 3])
    return int64(data[at + 3]) << 24 | int64(data[at + 2]) << 16 | int64(data[at + 1]) << 8 | int64(data[at])


@kernel
def _walk(
    data: U8,
    position: int,
    end: int,
    stop: int,
    big_endian: bool,
    unit: int,
    record_header: int,
    limit: int,
    start: I64,
    at: I64,
    captured: I32,
    original: I32,
) -> tuple[int, int, int, int, int, int]:
    """Index records from position on.

    Returns rows, where it stopped and why, bytes needed there, rows longer than their packet and the first of them.
    """
    count = 0
    long = 0
    first_long = -1
    while True:
        if position >= stop and stop < end:
            return count, position, STOPPED, 0, long, first_long
        if position + record_header > end:
            return count, position, MORE, record_header, long, first_long
        fraction = word(data, position + 4, big_endian)
        size = word(data, position + 8, big_endian)
        wire = word(data, position + 12, big_endian)
        if size > limit or wire > 0x7FFFFFFF or fraction >= SECOND_NS:
            return count, position, DAMAGED, 0, long, first_long
        if position + record_header + size > end:
            return count, position, MORE, record_header + size, long, first_long
        if size > wire:
            if long == 0:
                first_long = count
            long += 1
        at[count] = word(data, position, big_endian) * SECOND_NS + fraction * unit
        start[count] = position + record_header
        captured[count] = size
        original[count] = wire
        count += 1
        position += record_header + size


@kernel
def _scan(
    data: U8, position: int, end: int, finished: bool, big_endian: bool, unit: int, record_header: int, least: int
) -> tuple[bool, int]:
    """Search the first place from which a chain of credible records leads on.

    At the end of the file least records are enough, if they end exactly there.
    Returns (True, place), or (False, place from which to search again when more of the file is there).
    """
    units = SECOND_NS // unit
    while position + record_header <= end:
        place = position
        links = 0
        before = int64(-1)
        credible = True
        while links < CHAIN:
            if place + record_header > end:
                if not finished:
                    return False, position
                credible = links >= least and place == end
                break
            seconds = word(data, place, big_endian)
            size = word(data, place + 8, big_endian)
            wire = word(data, place + 12, big_endian)
            if (
                size == 0
                or size > wire
                or size > SCAN_LIMIT
                or wire > SCAN_LIMIT
                or word(data, place + 4, big_endian) >= units
                or (before >= 0 and abs(seconds - before) > 7 * DAY)
            ):
                credible = False
                break
            before = seconds
            links += 1
            place += record_header + size
        if credible:
            return True, position
        position += 1
    return False, position
