"""Files cut by byte range, for many readers at once: pure functions, which Spark runs where it likes.

Each range is indexed on its own: where its first packet begins is found by searching a chain of credible records.
That can be wrong (a packet may carry a capture). ``chain`` proves the indexes one after the other: each must begin
where the one before ended; one that does not is made again from that exact place. A compressed file is one split.

All of them see the file up to the size that it had when it was cut into ranges. What is read of a split must be what
was indexed, so whoever reads all splits has read one state of the file, although others may write to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kafkascope.sniffer.capture_points import CapturePoint, Clock, Content
from kafkascope.sniffer.columns import NO_TIME, Packets
from kafkascope.sniffer.issues import IssueLog
from kafkascope.sniffer.sources.compressed import Stream, decompressed
from kafkascope.sniffer.sources.files import PacketReader, _open, changed, checked_size
from kafkascope.sniffer.sources.pcap import FILE_HEADER, PcapHeader, PcapReader, find_record, is_pcap, parse_header
from kafkascope.sniffer.sources.pcapng import (
    MOST_INTERFACES,
    NO_RAW_TIME,
    Context,
    Interface,
    Note,
    PcapngReader,
    Secret,
    find_block,
    is_pcapng,
    times,
)
from kafkascope.sniffer.sources.window import BATCH_BYTES, Bounded, Window

LAST_BYTES = 1 << 20  # at the end of a file hold its last packets


@dataclass(frozen=True, slots=True)
class SplitIndex:
    """What one byte range of a file holds, as far as it can be told from the range alone."""

    path: str
    format: str  # pcap, pcapng, whole
    start: int  # the range
    end: int
    begin: int  # of the first record in it
    ends: int  # where the record behind the last one begins; the end of the file at the last
    packets: int
    first_time: int | None  # of those whose clock is known here
    last_time: int | None  # the latest
    context: PcapHeader | Context | None  # at begin, as far as it is known
    exact: bool  # whether begin and context are known, not found by searching
    latest_raw: tuple[tuple[int, int], ...]  # pcapng: (interface, latest raw time) of packets before any section header
    described: tuple[Interface, ...]  # pcapng: interfaces added before any section header
    after: Context | None  # pcapng: what holds behind the range, if it has a section header
    notes: tuple[Note, ...]  # packet numbers count from the range's first packet
    secrets: tuple[Secret, ...]
    content: Content  # size of the file; digest of the records


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file that can be read on its own, with what came before it."""

    path: str
    format: str
    begin: int
    end: int  # records that begin here or later belong to the next split
    first_number: int
    packets: int
    running_maximum: int  # latest time of the file's packets before this split; NO_TIME if there are none
    last_time: int  # the same behind it
    context: PcapHeader | Context | None
    content: Content  # size of the file; digest of the records in this part
    clock: Clock | None = None  # has corrected the times above, is to correct those of the packets
    delay: int = 0  # nanoseconds by which its packets are merged later


def ranges(path: str, split_bytes: int) -> list[tuple[int, int, int]]:
    """Byte ranges that cover a file, each with the file's size; one range for a file that is compressed.

    Raises SourceError if it is no capture.
    """
    reader = PacketReader(path)
    reader.close()
    size = reader.size or 0
    if reader.size is None or reader.describe().compression or size <= split_bytes:
        return [(0, max(size, 1), size)]
    return [(start, min(start + split_bytes, size), size) for start in range(0, size, split_bytes)]


def index_split(
    path: str, start: int, end: int, size: int, at: int | None = None, context: PcapHeader | Context | None = None
) -> SplitIndex:
    """Index the records of a file that begin from start up to end, where the file has size bytes.

    With at (and for pcapng context) the first record is known to begin there. Raises SourceError if it is no capture,
    or shorter.
    """
    file = _open(path)
    try:
        checked_size(path, file, size)
        stream = decompressed(path, file)
        head = stream.peek(FILE_HEADER)
        if stream.compression or not (is_pcap(head) or is_pcapng(head)):
            return _index_whole(path, start, end, size)
        if is_pcap(head):
            return _index_pcap(path, file, size, parse_header(path, head), start, end, at)
        return _index_pcapng(path, file, size, start, end, at, context if isinstance(context, Context) else None)
    finally:
        file.close()


def _index_whole(path: str, start: int, end: int, size: int) -> SplitIndex:
    reader = PacketReader(path, expected=Content(size, None))
    if start == 0:
        for _ in reader:
            pass
    reader.close()
    described = reader.describe()
    return SplitIndex(
        *(path, "whole", start, end, start, end, reader.packets, reader.first_time, reader.last_time, None, True),
        *((), (), None, described.notes, described.secrets, reader.content or Content(size, None)),
    )


def _index_pcap(
    path: str, file: Any, size: int, header: PcapHeader, start: int, end: int, at: int | None
) -> SplitIndex:
    if at is None and start <= FILE_HEADER:
        at = FILE_HEADER
    window = _window(file, start if at is None else at, end, BATCH_BYTES, size)
    begin = at if at is not None else window.offset if find_record(header, window) else size
    window.mark()
    packets, first, last, ends = 0, None, None, begin
    if begin < end:
        reader = PcapReader(path, header, window, stop=end)
        for batch in reader:
            first = int(batch.at[0]) if first is None else first
            last = _latest(last, batch)
        packets = reader.number - 1
        ends = window.offset if window.offset >= end else size
    return SplitIndex(
        *(path, "pcap", start, end, begin, ends, packets, first, last, header, at is not None, (), (), None, (), ()),
        Content(size, window.digest()),
    )


def _index_pcapng(
    path: str, file: Any, size: int, start: int, end: int, at: int | None, context: Context | None
) -> SplitIndex:
    if at is None and start == 0:
        at = 0
    window = _window(file, start if at is None else at, end, BATCH_BYTES, size)
    exact = at is not None
    begin = at
    if begin is None:
        big_endian = find_block(window)
        begin = size if big_endian is None else window.offset
        context = Context(bool(big_endian))
    window.mark()
    if begin >= end:
        return SplitIndex(
            *(path, "pcapng", start, end, begin, begin, 0, *(None, None, context, exact), (), (), None, (), ()),
            Content(size, window.digest()),
        )
    reader = PcapngReader(path, window, stop=end, context=context)
    before = reader.context if context is None else context
    first: int | None = None
    last: int | None = None
    latest: dict[int, int] = {}
    for raw in reader.raw():
        if exact or reader.sections:
            batch = reader.interpret(raw)
            timed = batch.at[batch.at != NO_TIME]
            first = int(timed[0]) if first is None and timed.size else first
            last = _latest(last, batch)
        else:
            used, place = np.unique(raw.interface, return_inverse=True)
            newest = np.full(len(used), NO_RAW_TIME, np.int64)
            np.maximum.at(newest, place, raw.raw)
            for interface, time in zip(used.tolist(), newest.tolist(), strict=True):
                latest[interface] = max(latest.get(interface, NO_RAW_TIME), time)
    seen = reader.sections > 0
    return SplitIndex(
        *(path, "pcapng", start, end, begin, window.offset if window.offset >= end else size, reader.number - 1),
        *(first, last, None if at == 0 else before, exact, tuple(latest.items())),
        () if seen else reader.context.interfaces[len(before.interfaces) :],
        reader.context if seen else None,
        *(tuple(reader.notes), tuple(reader.secrets), Content(size, window.digest())),
    )


def chain(
    indexes: Sequence[SplitIndex], reindex: Callable[..., SplitIndex] = index_split, first_number: int = 1
) -> list[Split]:
    """Splits of one file with exact numbers and times out of the indexes of all its ranges; empty ones left out.

    Where an index does not begin where the one before ended, ``reindex(path, start, end, size, at, context)`` makes it
    anew.
    """
    splits: list[Split] = []
    place: int | None = None
    context: Context | None = None
    number, running = first_number, NO_TIME
    for given in sorted(indexes, key=lambda index: index.start):
        index = given
        if place is not None and place >= index.end:
            continue
        if place is not None and not _follows(index, place, context):
            index = reindex(index.path, index.start, index.end, index.content.size, place, context)
        at = index.context
        last = running if index.last_time is None else max(running, index.last_time)
        if index.format == "pcapng":
            if not index.exact and context is not None:
                timed = [pair for pair in index.latest_raw if pair[1] != NO_RAW_TIME]
                if timed:
                    interface, newest = np.array(timed, np.int64).T
                    last = max(last, int(times(newest, interface, context.interfaces).max()))
            at = context
            if index.after is not None:
                context = index.after
            elif context is not None:
                context = replace(context, interfaces=(context.interfaces + index.described)[:MOST_INTERFACES])
        place = index.ends
        known = (index.path, index.format, index.begin, index.end, number, index.packets, running, last, at)
        splits.append(Split(*known, index.content))
        number += index.packets
        running = last
    return splits


def chain_files(
    indexes: Sequence[Sequence[SplitIndex]], points: Mapping[str, CapturePoint] | None = None
) -> list[Split]:
    """Splits of several files, numbered through in the order of their first packets as ``open_capture`` does it.

    The inner sequences are the ranges of a file each, in the order in which the files were given. Points set clocks.
    """
    chained = []
    for file in indexes:
        first, of_file = _first_time(file), chain(file)
        point = points.get(file[0].path) if points and file else None
        if point:
            of_file = [_at_point(split, point) for split in of_file]
            first = point.clock.at(first) if point.clock and first is not None else first
        chained.append((first, of_file))
    chained.sort(key=lambda entry: (entry[0] is not None, entry[0] or 0))
    number = 1
    splits: list[Split] = []
    for _, of_file in chained:
        splits += [replace(split, first_number=split.first_number + number - 1) for split in of_file]
        number += sum(split.packets for split in of_file)
    return splits


def _at_point(split: Split, point: CapturePoint) -> Split:
    if not point.clock:
        return replace(split, delay=point.delay)
    return replace(
        split,
        clock=point.clock,
        delay=point.delay,
        running_maximum=point.clock.at(split.running_maximum),
        last_time=point.clock.at(split.last_time),
    )


def time_span(file: Sequence[SplitIndex]) -> tuple[int, int] | None:
    """Time of the first packet of a file, and the latest, out of the indexes of its ranges; None: not known."""
    first, splits = _first_time(file), chain(file)
    if first is None or splits[-1].last_time == NO_TIME:
        return None
    return first, splits[-1].last_time


def last_time(path: str) -> int | None:
    """Latest time of the packets at the end of a file; of all its packets where the end cannot be read alone."""
    reader = PacketReader(path)
    described = reader.describe()
    if reader.size is not None and described.format == "pcap" and not described.compression:
        reader.close()
        last = index_split(path, max(reader.size - LAST_BYTES, 0), reader.size, reader.size).last_time
        if last is not None:
            return last
        reader = PacketReader(path)
    for _ in reader:
        pass
    return reader.last_time


class SplitReader:
    """Packets of a split, batch by batch, numbered as in the whole capture; issues fill up while they are read.

    Raises SourceError, at the end at the latest, if they are not those that were indexed.
    """

    def __init__(self, split: Split, batch_bytes: int = BATCH_BYTES) -> None:
        self._split = split
        self._reader: PcapReader | PcapngReader | PacketReader
        self._file: Any = None
        if split.format == "whole":
            self._reader = PacketReader(split.path, split.first_number, batch_bytes, expected=split.content)
        else:
            self._file = _open(split.path)
            checked_size(split.path, self._file, split.content.size)
            window = _window(self._file, split.begin, split.end, batch_bytes, split.content.size)
            if isinstance(split.context, PcapHeader):
                self._reader = PcapReader(split.path, split.context, window, split.first_number, split.end)
            else:
                self._reader = PcapngReader(split.path, window, split.first_number, split.end, split.context)
        self._clock = split.clock
        self.issues: IssueLog = self._reader.issues

    def __iter__(self) -> Iterator[Packets]:
        for packets in self._reader:
            yield replace(packets, at=self._clock.corrected(packets.at)) if self._clock else packets
        if self._file is not None:
            assert not isinstance(self._reader, PacketReader)
            self._file.close()
            if self._reader.window.digest() != self._split.content.digest:
                raise changed(self._split.path, self._split.content.size)


def read_split(split: Split, batch_bytes: int = BATCH_BYTES) -> SplitReader:
    """Open a split for reading."""
    return SplitReader(split, batch_bytes)


def _window(file: Any, begin: int, end: int, batch_bytes: int, size: int) -> Window:
    """Window of a file of size bytes from begin on, which does not read much beyond end."""
    file.seek(begin)
    return Window(Stream(Bounded(file, size)), min(batch_bytes, max(end - begin, 0) + 65_536), offset=begin)


def _latest(last: int | None, batch: Packets) -> int | None:
    newest = int(batch.at.max()) if len(batch.at) else NO_TIME
    if newest == NO_TIME:
        return last
    return newest if last is None else max(last, newest)


def _first_time(indexes: Sequence[SplitIndex]) -> int | None:
    ordered = sorted(indexes, key=lambda index: index.start)
    return next((index.first_time for index in ordered if index.first_time is not None), None)


def _follows(index: SplitIndex, place: int, context: Context | None) -> bool:
    """Whether an index begins at a place, and nothing before that place makes it wrong."""
    if index.begin != place:
        return False
    if index.exact or index.format != "pcapng":
        return True
    guessed = index.context
    return (
        isinstance(guessed, Context)
        and context is not None
        and guessed.big_endian == context.big_endian
        and all(interface < len(context.interfaces) for interface, _ in index.latest_raw)
    )
