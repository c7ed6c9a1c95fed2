"""The next generation capture file: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-02.html.

Blocks of type, length, body, and length once more. A section header sets the byte order and forgets the interfaces;
interface descriptions give link type and clock of the packets that follow. A kernel indexes packet blocks and finds
interface descriptions; those and the other blocks that matter, which are few, are read in Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kafkascope.decoders.kernels import borrowing, kernel
from kafkascope.sniffer.columns import I32, I64, NO_TIME, U8, Bool, Packets
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.formats import Context, Interface, Note, Secret
from kafkascope.sniffer.sources.order import running_maximum
from kafkascope.sniffer.sources.pcap import CHAIN, DAMAGED, MORE, STOPPED, truncated, word
from kafkascope.sniffer.sources.places import origin_name
from kafkascope.sniffer.sources.window import Window
from kafkascope.sniffer.units import SECOND_NS

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET, SECRETS = 0x0A0D0D0A, 1, 2, 3, 6, 10
BYTE_ORDER = 0x1A2B3C4D
SECTION_HEADER = 28  # bytes without options
BLOCK_LIMIT = 16 << 20
SCAN_LIMIT = 1 << 20
NOTES = 10_000  # comments kept of a file
SECRET_BYTES = 64 << 20
MOST_INTERFACES = 1 << 18  # of a section, that are kept
COMMENT, INTERFACE_NAME, RESOLUTION, TIME_OFFSET = 1, 2, 9, 14  # options; the last three of an interface
SPECIAL = 3  # beside MORE, STOPPED and DAMAGED: a block that Python reads
NO_RAW_TIME = -1
NO_RAW_SPAN = (1 << 63) - 1, NO_RAW_TIME  # of packets without a time
_COLUMNS = (np.int64, np.int32, np.int32, np.int32, np.int64, np.bool_)  # of packets, as the kernel writes them

int64: Any = np.int64


@dataclass(frozen=True, slots=True)
class Section:
    """What the blocks of a section before a place say about packets behind it."""

    begins: ClassVar[int] = 0
    big_endian: bool
    interfaces: tuple[Interface, ...] = ()
    is_whole: bool = True  # whether it is known from its beginning; else interfaces are those described since a place

    def reader(self, file: str, window: Window, first_number: int = 1, stop: int | None = None) -> PcapngReader:
        """Read from a block, at which the window stands; those that begin at offset stop or later are left out."""
        return PcapngReader(file, self, window, first_number, stop)

    @staticmethod
    def search(window: Window) -> Section | None:
        """Move a window to the first credible block at or behind it; None if there is none."""
        while True:
            found, window.begin, big_endian = _scan(window.data, window.begin, window.end, window.finished)
            if found:
                return Section(bool(big_endian), is_whole=False)
            if window.finished:
                return None
            window.fill(window.left + 1)

    def behind(self, before: Context) -> Section:
        """What holds behind a part of the file at whose end this is known, where before holds at its beginning."""
        if self.is_whole:
            return self
        return Section(self.big_endian, (before.interfaces + self.interfaces)[:MOST_INTERFACES])


@dataclass(frozen=True, slots=True)
class RawPackets:
    """Packets of one section between two descriptions, times not yet interpreted."""

    data: U8
    first_number: int
    start: I64
    captured: I32
    original: I32
    interface: I32
    raw: I64  # time in the interface's units; NO_RAW_TIME: the block has none
    described: Bool  # whether the interface was, before the packet
    at_end: bool  # nothing more is known of what follows in the file


def is_pcapng(head: bytes) -> bool:
    """Whether a file begins with a section header."""
    return head[:4] == b"\n\r\r\n"


def parse_section(file: str, head: bytes) -> Section:
    """Read the first 28 bytes of a file, the least of a section header; raises SourceError where they are no such."""
    order = _byte_order(head)
    if order is None:
        raise SourceError(file, 0, "not a pcapng file", "Give a file written by tcpdump or Wireshark")
    if len(head) < SECTION_HEADER:
        message = f"the section header is cut: {len(head)} of {SECTION_HEADER} bytes"
        raise SourceError(file, len(head), message, "Copy the file again; it holds no packet")
    return Section(order == ">")


class PcapngReader:
    """Packets of a file, batch by batch; issues, notes, secrets and interfaces fill up while they are read.

    Where a section is not known from its beginning, its packets are counted and left out.
    """

    format = "pcapng"

    def __init__(self, file: str, section: Section, window: Window, first_number: int, stop: int | None) -> None:
        self.file = file
        self.window = window
        self.number = first_number  # of the packet that comes next
        self.issues = IssueLog(file=origin_name(file))
        self.notes: list[Note] = []
        self.secrets: list[Secret] = []
        self.raw_spans: dict[int, tuple[int, int]] = {}
        self.raw_lag = 0
        self._latest_raw = NO_RAW_TIME
        self.link_types: frozenset[int] = frozenset()
        self._stop = stop
        self._big_endian = section.big_endian
        self._interfaces = list(section.interfaces)
        self._is_whole = section.is_whole
        self._secret_bytes = 0

    @property
    def context(self) -> Section:
        """What holds for the blocks to come."""
        return Section(self._big_endian, tuple(self._interfaces), self._is_whole)

    def __iter__(self) -> Iterator[Packets]:
        pieces: list[Packets] = []  # of one buffer: sections may be as short as one packet
        for raw in self._raw():
            if not self._is_whole:
                self._leave_out(raw)
                continue
            if not raw.described.all():
                self._undescribed(raw)
            packets = self._interpret(raw)
            self.link_types |= frozenset(np.unique(packets.link_type).tolist())
            if pieces and pieces[0].data is not packets.data:
                yield _joined(pieces)
                pieces = []
            if len(packets.number):
                pieces.append(packets)
            if pieces and raw.at_end:
                yield _joined(pieces)
                pieces = []
        if pieces:
            yield _joined(pieces)

    def _leave_out(self, raw: RawPackets) -> None:
        used, place = np.unique(raw.interface, return_inverse=True)
        oldest, newest = (np.full(len(used), time, np.int64) for time in NO_RAW_SPAN)
        timed = raw.raw != NO_RAW_TIME
        np.minimum.at(oldest, place[timed], raw.raw[timed])
        np.maximum.at(newest, place[timed], raw.raw[timed])
        if timed.any():
            latest = running_maximum(raw.raw[timed], self._latest_raw)
            self.raw_lag = max(self.raw_lag, int((latest - raw.raw[timed]).max()))
            self._latest_raw = int(latest[-1])
        for interface, first, last in zip(used.tolist(), oldest.tolist(), newest.tolist(), strict=True):
            before = self.raw_spans.get(interface, NO_RAW_SPAN)
            self.raw_spans[interface] = (min(before[0], first), max(before[1], last))

    def _interpret(self, raw: RawPackets) -> Packets:
        """Packets that `_raw` gave last, with times and link types; those of interfaces not described are left out."""
        known = raw.described
        at = np.full(len(raw.raw), NO_TIME, np.int64)
        timed = known & (raw.raw != NO_RAW_TIME)
        at[timed] = times(raw.raw[timed], raw.interface[timed], self._interfaces)
        used, place = np.unique(raw.interface[known], return_inverse=True)
        link_type = np.zeros(len(raw.raw), np.int32)
        link_type[known] = np.array([self._interfaces[index].link_type for index in used.tolist()], np.int32)[place]
        number = np.arange(raw.first_number, raw.first_number + len(at), dtype=np.int64)
        packets = Packets(raw.data, number, at, raw.start, raw.captured, raw.original, link_type)
        return packets if known.all() else _map_columns([packets], lambda columns: columns[0][known])

    def _raw(self) -> Iterator[RawPackets]:
        """Walk the blocks; packets come out before a section header that would change their meaning is looked at."""
        window = self.window
        need = 12
        indexed = None
        room: tuple[NDArray[Any], ...] = ()
        used = 0
        while self._stop is None or window.offset < self._stop:
            whole = window.fill(need)
            if not whole and window.left < 12:
                if window.left:
                    self.issues.add(truncated(self.file, window, 12, self.number))
                return
            stop = window.end if self._stop is None else min(window.end, window.position(self._stop))
            if indexed is not window.data:  # a buffer may hold many sections
                indexed, used = window.data, 0
                rows = (stop - window.begin) // 12 + 1
                room = (*(np.empty(rows, kind) for kind in _COLUMNS), np.empty((rows, 3), np.int64))
            *columns, described = (column[used:] for column in room)
            first_wrong = np.zeros(2, np.int64)
            comments = np.empty((NOTES - len(self.notes), 3), np.int64)
            arrays: list[Any] = [*columns, described, comments, first_wrong]
            simple_limit = (self._interfaces[0].snap_length if self._interfaces else 0) or BLOCK_LIMIT
            count, window.begin, why, need, wrong, noted, descriptions = _walk(
                *(window.data, window.begin, window.end, stop, self._big_endian, simple_limit),
                len(self._interfaces),
                *arrays,
            )
            used += count
            told = [(*one, True) for one in described[:descriptions].tolist()]
            told += [(*one, False) for one in comments[:noted].tolist()]
            for place, length, row, is_interface in sorted(told):
                content = window.data[place : place + length].tobytes()
                if is_interface:
                    self._interface(content, window.offset - window.begin + place, self.number + row)
                else:
                    self._note(self.number + row, content)
            if wrong:
                row, place = first_wrong.tolist()
                offset = window.offset - window.begin + place
                detail = f"{self.file}: the packet block at offset {offset} is too short for what it claims to hold"
                self.issues.add(Issue("damaged_packet_record", detail, packet=self.number + row, count=wrong))
            start, captured, original, interface, raw, is_described = (column[:count] for column in columns)
            long = captured > original
            if long.any():
                detail = f"{self.file}: a record holds more bytes than its packet had on the wire"
                packet = self.number + int(long.argmax())
                self.issues.add(Issue("captured_exceeds_original", detail, packet=packet, count=int(long.sum())))
            if count:
                number = self.number
                self.number += count
                at_end = why != SPECIAL
                yield RawPackets(window.data, number, start, captured, original, interface, raw, is_described, at_end)
            if why == SPECIAL:
                cut = self._special(need)
                if cut is None:
                    need = 12
                    continue
                why, need = (MORE if cut else DAMAGED), cut
            if why == DAMAGED or (why == MORE and not whole and not count):
                if not self._find_next(need if why == MORE else 0):
                    return
                need = 12

    def _special(self, length: int) -> int | None:
        """Read a block that is whole; None if it was good, 0 if it is damaged, its length if the file cuts it."""
        window = self.window
        if not length:  # a section header, whose length is in its own byte order
            head = window.peek(SECTION_HEADER)
            order = _byte_order(head)
            if order is None or len(head) < SECTION_HEADER:
                return 0 if order is None else SECTION_HEADER
            length = struct.unpack(order + "I", head[4:8])[0]
            if length < SECTION_HEADER or length % 4 or length > BLOCK_LIMIT:
                return 0
            if not window.fill(length):
                return length
            body = window.peek(length)
            if body[-4:] != body[4:8] or struct.unpack(order + "H", head[12:14])[0] != 1:
                return 0
            self._big_endian, self._interfaces, self._is_whole = order == ">", [], True
            self._options(body[24:-4], 0)
        else:
            body = window.peek(length)
            order = ">" if self._big_endian else "<"
            if len(body) >= 20:
                kind, size = struct.unpack(order + "II", body[8:16])
                self._secret_bytes += len(body)
                if self._secret_bytes <= SECRET_BYTES:
                    self.secrets.append(Secret(kind, body[16:-4][:size], self.number))
                else:
                    detail = (
                        f"{self.file}: more than {SECRET_BYTES} bytes of decryption secrets: the others are left out"
                    )
                    self.issues.add(Issue("secrets_left_out", detail, packet=self.number))
        window.begin += length
        return None

    def _interface(self, block: bytes, at: int, packet: int) -> None:
        body, order = block[8:-4], ">" if self._big_endian else "<"
        if len(body) < 8:
            detail = f"{self.file}: interface description at offset {at} is too short"
            self.issues.add(Issue("damaged_packet_record", detail, packet=packet))
            return
        if len(self._interfaces) >= MOST_INTERFACES:
            detail = f"{self.file}: more than {MOST_INTERFACES} interfaces: the others are left out"
            self.issues.add(Issue("interfaces_left_out", detail, packet=packet))
            return
        link_type, _, snap_length = struct.unpack(order + "HHI", body[:8])
        options = self._options(body[8:], 0)
        resolution = options.get(RESOLUTION, b"")[:1] or b"\x06"
        offset = options.get(TIME_OFFSET, b"")
        seconds = struct.unpack(order + "q", offset)[0] if len(offset) == 8 else 0
        if abs(seconds) > 1 << 33:  # beyond what nanoseconds can hold
            seconds = 0
        name = options.get(INTERFACE_NAME, b"").decode("utf-8", "replace")
        self._interfaces.append(Interface(link_type, snap_length, resolution[0], seconds, name))

    def _options(self, data: bytes, packet: int) -> dict[int, bytes]:
        """Options by code (the last one of each); comments are kept as notes."""
        options: dict[int, bytes] = {}
        order = ">" if self._big_endian else "<"
        position = 0
        while position + 4 <= len(data):
            code, length = struct.unpack(order + "HH", data[position : position + 4])
            value = data[position + 4 : position + 4 + length]
            if code == 0 or len(value) < length:
                break
            options[code] = value
            if code == COMMENT:
                self._note(packet, value)
            position += 4 + (length + 3) // 4 * 4
        return options

    def _note(self, packet: int, text: bytes) -> None:
        if len(self.notes) < NOTES:
            self.notes.append(Note(packet, text.decode("utf-8", "replace").rstrip("\0")))

    def _undescribed(self, raw: RawPackets) -> None:
        row = int((~raw.described).argmax())
        detail = f"{self.file}: packet of interface {int(raw.interface[row])}, which no block describes"
        count = int((~raw.described).sum())
        self.issues.add(Issue("unknown_interface", detail, packet=raw.first_number + row, count=count))

    def _find_next(self, cut: int) -> bool:
        """Go to the next credible block; cut is the size of a block that the file's end cuts, or 0."""
        window, origin, begin = self.window, self.window.offset, self.window.begin
        window.begin += 1
        found = Section.search(window)
        if cut and found is None:
            window.begin = begin  # still right: the file had ended, so the buffer is the same
            self.issues.add(truncated(self.file, window, cut, self.number))
            return False
        skipped = (window.offset if found is not None else window.offset + window.left) - origin
        outcome = "reading goes on behind them" if found is not None else "no block was found behind"
        detail = f"{self.file}: no credible block at offset {origin}: passed over {skipped} bytes, {outcome}"
        self.issues.add(Issue("damaged_packet_record", detail, packet=self.number))
        return found is not None


def times(raw: I64, interface: I32 | I64, interfaces: Sequence[Interface]) -> I64:
    """Nanoseconds of time stamps in the units of their interfaces."""
    used, place = np.unique(interface, return_inverse=True)
    clocks = [(interfaces[index].resolution, interfaces[index].offset) for index in used.tolist()]
    resolution, offset = np.array(clocks, np.int64).reshape(-1, 2)[place].T
    exponent = resolution & 0x7F
    decimal = raw * 10 ** np.maximum(9 - exponent, 0) // 10 ** np.clip(exponent - 9, 0, 18)
    bits = np.minimum(exponent, 62)
    lost = np.maximum(bits - 33, 0)  # the product with 10^9 has 63 bits
    fraction = ((raw & ((1 << bits) - 1)) >> lost) * SECOND_NS >> (bits - lost)
    binary = np.where(exponent > 62, 0, (raw >> bits) * SECOND_NS + fraction)
    at: I64 = np.where(resolution & 0x80, binary, decimal) + offset * SECOND_NS
    return at


def _joined(pieces: list[Packets]) -> Packets:
    """Packets of one buffer, in their order."""
    return pieces[0] if len(pieces) == 1 else _map_columns(pieces, np.concatenate)


def _map_columns(pieces: list[Packets], change: Callable[[list[Any]], Any]) -> Packets:
    columns = [field.name for field in fields(Packets) if field.name != "data"]
    return Packets(pieces[0].data, *(change([getattr(piece, column) for piece in pieces]) for column in columns))


def _byte_order(head: bytes) -> str | None:
    for order in "<>":
        if is_pcapng(head) and len(head) >= 12 and struct.unpack(order + "I", head[8:12])[0] == BYTE_ORDER:
            return order
    return None


@borrowing
def _half(data: U8, at: int, big_endian: bool) -> Any:
    if big_endian:
        return int64(data[at]) << 8 | int64(data[at + 1])
    return int64(data[at + 1]) << 8 | int64(data[at])


@kernel
def _walk(
    data: U8,
    position: int,
    end: int,
    stop: int,
    big_endian: bool,
    simple_limit: int,
    interfaces: int,
    start: I64,
    captured: I32,
    original: I32,
    interface: I32,
    raw: I64,
    is_described: Bool,
    described: I64,
    comments: I64,
    first_wrong: I64,
) -> tuple[int, int, int, int, int, int, int]:
    """Index packet blocks; there were so many interfaces before.

    Returns rows, where it stopped, why, bytes needed there, wrong blocks, comments, and interface descriptions.
    """
    count = 0
    wrong = 0
    noted = 0
    descriptions = 0
    while True:
        if position >= stop and stop < end:
            return count, position, STOPPED, 0, wrong, noted, descriptions
        if position + 12 > end:
            return count, position, MORE, 12, wrong, noted, descriptions
        kind = word(data, position, big_endian)
        if kind == SECTION:
            return count, position, SPECIAL, 0, wrong, noted, descriptions
        length = word(data, position + 4, big_endian)
        if length < 12 or length % 4 or length > BLOCK_LIMIT:
            return count, position, DAMAGED, 0, wrong, noted, descriptions
        if position + length > end:
            return count, position, MORE, length, wrong, noted, descriptions
        last = position + length - 4
        if word(data, last, big_endian) != length:
            return count, position, DAMAGED, 0, wrong, noted, descriptions
        if kind == INTERFACE:
            described[descriptions, 0] = position
            described[descriptions, 1] = length
            described[descriptions, 2] = count
            descriptions += 1
            if length >= 20 and interfaces < MOST_INTERFACES:
                if interfaces == 0:
                    simple_limit = word(data, position + 12, big_endian) or BLOCK_LIMIT
                interfaces += 1
        elif kind == SECRETS:
            return count, position, SPECIAL, length, wrong, noted, descriptions
        elif kind == SIMPLE_PACKET:
            if length < 16:
                if wrong == 0:
                    first_wrong[0], first_wrong[1] = count, position
                wrong += 1
            else:
                wire = word(data, position + 8, big_endian)
                start[count] = position + 12
                captured[count] = min(min(wire, simple_limit), last - position - 12)
                original[count] = min(wire, 0x7FFFFFFF)
                interface[count] = 0
                raw[count] = NO_RAW_TIME
                is_described[count] = interfaces > 0
                count += 1
        elif kind in (PACKET, OLD_PACKET):
            size = int64(-1)
            if length >= 32:
                size = word(data, position + 20, big_endian)
            if size < 0 or size > last - position - 28:
                if wrong == 0:
                    first_wrong[0], first_wrong[1] = count, position
                wrong += 1
            else:
                start[count] = position + 28
                captured[count] = size
                original[count] = min(word(data, position + 24, big_endian), 0x7FFFFFFF)
                # The top bit of a time has no use before the year 294247, and would make it negative.
                raw[count] = (word(data, position + 12, big_endian) & 0x7FFFFFFF) << 32 | word(
                    data, position + 16, big_endian
                )
                if kind == PACKET:
                    interface[count] = min(word(data, position + 8, big_endian), 0x7FFFFFFF)
                else:
                    interface[count] = _half(data, position + 8, big_endian)
                is_described[count] = interface[count] < interfaces
                option = position + 28 + (size + 3) // 4 * 4
                while option + 4 <= last:
                    code = _half(data, option, big_endian)
                    size = _half(data, option + 2, big_endian)
                    if code == 0 or option + 4 + size > last:
                        break
                    if code == COMMENT and noted < comments.shape[0]:
                        comments[noted, 0] = option + 4
                        comments[noted, 1] = size
                        comments[noted, 2] = count
                        noted += 1
                    option += 4 + (size + 3) // 4 * 4
                count += 1
        position += length


@kernel
def _scan(data: U8, position: int, end: int, finished: bool) -> tuple[bool, int, bool]:
    """Search the first place from which a chain of credible blocks leads on, in either byte order.

    Returns (True, place, big endian), or (False, place from which to search again when more of the file is there, _).
    """
    while position + 12 <= end:
        for order in range(2):
            big_endian = order == 1
            place = position
            links = 0
            credible = True
            while links < CHAIN:
                if place + 12 > end:
                    if not finished:
                        return False, position, False
                    credible = links > 0 and place == end
                    break
                kind = word(data, place, big_endian)
                if kind == SECTION and place + 12 <= end:
                    magic = word(data, place + 8, False)
                    if magic == 0x4D3C2B1A:
                        big_endian = True
                    elif magic == BYTE_ORDER:
                        big_endian = False
                    else:
                        credible = False
                        break
                elif kind > 13 and kind != 0xBAD and kind != 0x40000BAD:
                    credible = False
                    break
                length = word(data, place + 4, big_endian)
                if kind == 0 or length < 12 or length % 4 or length > SCAN_LIMIT:
                    credible = False
                    break
                if place + length > end:
                    if not finished:
                        return False, position, False
                    credible = False
                    break
                if word(data, place + length - 4, big_endian) != length:
                    credible = False
                    break
                links += 1
                place += length
            if credible:
                return True, position, order == 1
        position += 1
    return False, position, False
