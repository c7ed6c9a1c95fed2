"""Files cut by byte range, for many readers at once: pure functions, which Spark runs where it likes.

Each range is indexed on its own: where its first packet begins is found by searching a chain of credible records.
That can be wrong (a packet may carry a capture). ``chain`` proves the indexes one after the other: each must begin
where the one before ended; one that does not is made again from that exact place. A compressed file is one split.

All of them see the file up to the size that it had when it was cut into ranges. What is read of a split must be what
was indexed, so whoever reads all splits has read one state of the file, although others may write to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kafkascope.sniffer.capture_points import CapturePoint, Clock, Content
from kafkascope.sniffer.columns import NO_TIME, Packets
from kafkascope.sniffer.issues import IssueLog
from kafkascope.sniffer.packet_window import LAST, Bounds
from kafkascope.sniffer.sources.compressed import Stream, decompressed
from kafkascope.sniffer.sources.files import FileReader, changed, checked_size, first_context, open_file
from kafkascope.sniffer.sources.formats import Context, FormatReader, Secret
from kafkascope.sniffer.sources.order import LINGERING, times_going_back
from kafkascope.sniffer.sources.pcapng import NO_RAW_SPAN, times
from kafkascope.sniffer.sources.window import BATCH_BYTES, Bounded, Window

LAST_BYTES = 1 << 20  # at the end of a file hold its last packets
_RAW_LAG = 10**6  # a second of pcapng's microseconds, less of finer clocks: where in doubt a part of a file is read


@dataclass(frozen=True, slots=True)
class SplitIndex:
    """What one byte range of a file holds, as far as it can be told from the range alone."""

    path: str
    start: int  # the range
    end: int
    begin: int  # of the first record in it
    ends: int  # where the record behind the last one begins; the end of the file at the last
    packets: int
    first_time: int | None  # of those whose clock is known here
    times: tuple[int, int] | None  # the earliest and the latest
    context: Context | None  # at begin, as far as it is known here; None: of a compressed file
    after: Context | None  # behind the range
    raw_times: tuple[tuple[int, int, int], ...]  # (interface, earliest, latest) where its clock is not known
    content: Content  # size of the file; digest of the records
    secrets: tuple[Secret, ...] = ()  # for decryption
    has_issues: bool = False  # whether anything is to be said of the records


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file that can be read on its own, with what came before it."""

    path: str
    begin: int
    end: int  # records that begin here or later belong to the next split
    first_number: int
    packets: int
    running_maximum: int  # latest time of the file's packets before this split; NO_TIME if there are none
    last_time: int  # the same behind it
    earliest: int  # time of its packets; ``LAST`` if none has one
    context: Context | None  # at begin; None: of a compressed file
    content: Content  # size of the file; digest of the records in this part
    clock: Clock | None = None  # has corrected the times above, is to correct those of the packets
    delay: int = 0  # nanoseconds by which its packets are merged later
    secrets: tuple[Secret, ...] = ()  # with numbers of packets in it, from 1
    has_issues: bool = False  # whether anything is to be said of its records

    def is_worth_reading(self, window: Bounds) -> bool:
        """Whether packets of a window may be in it, or something is to be said of it anyway."""
        last = self.first_number + self.packets - 1
        return self.has_issues or window.may_hold(self.first_number, last, self.earliest, self.last_time)

    @property
    def is_compressed(self) -> bool:
        """Whether it is a whole file, which cannot be read from the middle."""
        return self.context is None


def ranges(path: str, split_bytes: int) -> list[tuple[int, int, int]]:
    """Byte ranges that cover a file, each with the file's size; one range for a file that is compressed.

    Raises SourceError if it is no capture.
    """
    reader = FileReader(path)
    reader.close()
    size = reader.size or 0
    if reader.size is None or reader.describe().compression or size <= split_bytes:
        return [(0, max(size, 1), size)]
    return [(start, min(start + split_bytes, size), size) for start in range(0, size, split_bytes)]


def index_split(
    path: str, start: int, end: int, size: int, at: int | None = None, context: Context | None = None
) -> SplitIndex:
    """Index the records of a file that begin from start up to end, where the file has size bytes.

    With at the first record is known to begin there, and context to hold there. Raises SourceError if it is no capture,
    or shorter.
    """
    with closing(open_file(path)) as file:
        checked_size(path, file, size)
        stream = decompressed(path, file)
        first = None if stream.compression else first_context(path, stream)
        if first is None:
            return _index_whole(path, start, end, size)
        context = context or first
        if at is None and start <= first.begins:
            at = first.begins
        window = _window(file, start if at is None else at, end, BATCH_BYTES, size)
        if at is None:
            found = first.search(window)
            at, context = (window.offset, found) if found else (size, first)
        window.mark()
        reader = context.reader(path, window, stop=end)
        first_time, times, goes_back = _span(reader)
        raw_times = tuple((interface, *span) for interface, span in reader.raw_spans.items())
        return SplitIndex(
            *(path, start, end, at, window.offset if window.offset >= end else size, reader.number - 1),
            *(first_time, times, context, reader.context, raw_times),
            Content(size, window.digest()),
            tuple(reader.secrets),
            len(reader.issues) > 0 or goes_back or reader.raw_lag > _RAW_LAG,
        )


def _index_whole(path: str, start: int, end: int, size: int) -> SplitIndex:
    reader = FileReader(path, expected=Content(size, None))
    first_time, times, _ = _span(reader) if start == 0 else (None, None, False)
    reader.close()
    return SplitIndex(
        *(path, start, end, start, end, reader.packets, first_time, times, None, None, ()),
        reader.content or Content(size, None),
        reader.secrets,
        len(reader.issues) > 0,
    )


def _span(reader: Iterable[Packets]) -> tuple[int | None, tuple[int, int] | None, bool]:
    """Read all packets: the time of the first that has one; the earliest and the latest; whether they go far back."""
    first: int | None = None
    earliest, latest = LAST, NO_TIME
    goes_back = False
    for packets in reader:
        timed = packets.at[packets.at != NO_TIME]
        if timed.size:
            first = int(timed[0]) if first is None else first
            goes_back = goes_back or any(times_going_back(packets, latest))
            earliest, latest = min(earliest, int(timed.min())), max(latest, int(timed.max()))
    return first, None if first is None else (earliest, latest), goes_back


def chain(indexes: Sequence[SplitIndex]) -> list[Split]:
    """Splits of one file with exact numbers and times out of the indexes of all its ranges; empty ones left out.

    Where an index does not begin where the one before ended it is made anew.
    """
    splits: list[Split] = []
    place: int | None = None
    context: Context | None = None
    number, running = 1, NO_TIME
    for given in sorted(indexes, key=lambda index: index.start):
        index = given
        if place is None:
            context = index.context
        elif place >= index.end:
            continue
        elif not _follows(index, place, context):
            index = index_split(index.path, index.start, index.end, index.content.size, place, context)
        earliest, latest = index.times or (LAST, NO_TIME)
        timed = [raw for raw in index.raw_times if raw[1:] != NO_RAW_SPAN]
        if timed and context:
            interface, oldest, newest = np.array(timed, np.int64).T
            earliest = min(earliest, int(times(oldest, interface, context.interfaces).min()))
            latest = max(latest, int(times(newest, interface, context.interfaces).max()))
        last = max(running, latest)
        place = index.ends
        known = (index.path, index.begin, index.end, number, index.packets, running, last, earliest, context)
        has_issues = index.has_issues or running - earliest > LINGERING
        splits.append(Split(*known, index.content, secrets=index.secrets, has_issues=has_issues))
        if index.after and context:
            context = index.after.behind(context)
        number += index.packets
        running = last
    return splits


def chain_files(
    indexes: Sequence[Sequence[SplitIndex]], points: Mapping[str, CapturePoint] | None = None
) -> list[Split]:
    """Splits of several files, numbered through in the order of their first packets as ``open_capture`` does it.

    The inner sequences are the ranges of a file each, in the order of `find_files`. Points set clocks.
    """
    chained = []
    for file in indexes:
        of_file = chain(file)
        point = points.get(file[0].path) if points and file else None
        if point:
            of_file = [_at_point(split, point) for split in of_file]
        chained.append((_first_time(file, point), of_file))
    chained.sort(key=lambda entry: (entry[0] is not None, entry[0] or 0))
    number = 1
    splits: list[Split] = []
    for _, of_file in chained:
        splits += [replace(split, first_number=split.first_number + number - 1) for split in of_file]
        number += sum(split.packets for split in of_file)
    return splits


def first_time(indexes: Iterable[Sequence[SplitIndex]], points: Mapping[str, CapturePoint] | None = None) -> int | None:
    """Time of the first packet of several files that has one, as `files.Capture` tells it."""
    firsts = [_first_time(file, points.get(file[0].path) if points else None) for file in indexes if file]
    return min((first for first in firsts if first is not None), default=None)


def secrets(splits: Iterable[Split]) -> Iterator[Secret]:
    """Decryption secrets of all splits, with the packets from which on they hold, as `files.Capture` tells them."""
    files: set[str] = set()
    for split in splits:
        is_first = split.path not in files
        files.add(split.path)
        for secret in split.secrets:
            in_front = is_first and secret.packet <= 1
            yield replace(secret, packet=0 if in_front else split.first_number + max(secret.packet, 1) - 1)


def _at_point(split: Split, point: CapturePoint) -> Split:
    if not point.clock:
        return replace(split, delay=point.delay)
    return replace(
        split,
        clock=point.clock,
        delay=point.delay,
        running_maximum=point.clock.at(split.running_maximum),
        last_time=point.clock.at(split.last_time),
        earliest=point.clock.at(split.earliest),
    )


def time_span(file: Sequence[SplitIndex]) -> tuple[int, int] | None:
    """Time of the first packet of a file, and the latest, out of the indexes of its ranges; None: not known."""
    first, splits = _first_time(file), chain(file)
    if first is None or splits[-1].last_time == NO_TIME:
        return None
    return first, splits[-1].last_time


def last_time(path: str) -> int | None:
    """Latest time of the packets at the end of a file; of all its packets where the end cannot be read alone."""
    reader = FileReader(path)
    described = reader.describe()
    if reader.size is not None and described.format == "pcap" and not described.compression:
        reader.close()
        found = index_split(path, max(reader.size - LAST_BYTES, 0), reader.size, reader.size).times
        if found is not None:
            return found[1]
        reader = FileReader(path)
    for _ in reader:
        pass
    return reader.last_time


class SplitReader:
    """Packets of a split, batch by batch, numbered as in the whole capture; issues fill up while they are read.

    Raises SourceError, at the end at the latest, if they are not those that were indexed.
    """

    def __init__(self, split: Split, batch_bytes: int = BATCH_BYTES) -> None:
        self._split = split
        self._packets: FileReader | FormatReader
        self._file: Any = None
        if split.context is None:
            self._packets = FileReader(split.path, split.first_number, batch_bytes, expected=split.content)
        else:
            self._file = open_file(split.path)
            checked_size(split.path, self._file, split.content.size)
            self._window = _window(self._file, split.begin, split.end, batch_bytes, split.content.size)
            self._packets = split.context.reader(split.path, self._window, split.first_number, split.end)
        self.issues: IssueLog = self._packets.issues

    def __iter__(self) -> Iterator[Packets]:
        clock, latest = self._split.clock, self._split.running_maximum
        for given in self._packets:
            packets = replace(given, at=clock.corrected(given.at)) if clock else given
            if self._split.context is not None and len(packets.at):  # of a whole file `FileReader` tells it
                for issue in times_going_back(packets, latest):
                    self.issues.add(issue)
                latest = max(latest, int(packets.at.max()))
            yield packets
        if self._file is not None:
            self._file.close()
            if self._window.digest() != self._split.content.digest:
                raise changed(self._split.path, self._split.content.size)


def _window(file: Any, begin: int, end: int, batch_bytes: int, size: int) -> Window:
    """Window of a file of size bytes from begin on, which does not read much beyond end."""
    file.seek(begin)
    return Window(Stream(Bounded(file, size)), min(batch_bytes, max(end - begin, 0) + 65_536), offset=begin)


def _first_time(indexes: Sequence[SplitIndex], point: CapturePoint | None = None) -> int | None:
    ordered = sorted(indexes, key=lambda index: index.start)
    first = next((index.first_time for index in ordered if index.first_time is not None), None)
    return point.clock.at(first) if point and point.clock and first is not None else first


def _follows(index: SplitIndex, place: int, context: Context | None) -> bool:
    """Whether an index begins at a place, and nothing before that place makes it wrong."""
    if index.begin != place or not (index.context and context):
        return index.begin == place
    return index.context.big_endian == context.big_endian and all(
        interface < len(context.interfaces) for interface, _, _ in index.raw_times
    )
