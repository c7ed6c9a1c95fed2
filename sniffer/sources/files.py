"""Capture files, one or several, as one capture in time order; standard input too.

Files are put in order of their first packet. Packets are numbered through in that order, and come out by the running
maximum of the time within their file (a clock that goes back does not reorder a file), then by number. Files that
were captured at several points at once have clocks set and ranks (``sniffer.capture_points``); a packet of a file with
a rank comes so much later.
"""

from __future__ import annotations

import glob
import hashlib
import os
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kafkascope.sniffer.capture_points import CapturePoint, Content, Joined, Ranks
from kafkascope.sniffer.columns import I64, NO_TIME, Packets
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.origins import CapturedFile, Origins
from kafkascope.sniffer.sources.compressed import Stream, decompressed
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.formats import Context, FormatReader, Interface, Note, Secret
from kafkascope.sniffer.sources.order import running_maximum, times_going_back
from kafkascope.sniffer.sources.pcap import FILE_HEADER, is_pcap, parse_header
from kafkascope.sniffer.sources.pcapng import SECTION_HEADER, is_pcapng, parse_section
from kafkascope.sniffer.sources.places import (
    files_below,
    is_directory,
    is_uri,
    locate,
    matches,
    origin_name,
    split_settings,
)
from kafkascope.sniffer.sources.window import BATCH_BYTES, Bounded, Window

STANDARD_INPUT = "-"
PIPE_BATCH_BYTES = 1 << 20
DIGESTED_BYTES = 1 << 16  # at either end of a file
ADVICE = "Give a pcap or pcapng file (plain, gzip or zstd), as written by tcpdump, dumpcap or Wireshark"


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """What is known of a file of a capture; counts and last time grow while it is read."""

    path: str
    format: str  # pcap, pcapng
    compression: str  # gzip, zstd or empty
    size: int | None  # bytes on disk; None: a pipe
    first_number: int
    packets: int
    first_time: int | None  # nanoseconds since 1970 UTC
    last_time: int | None  # the latest
    link_types: frozenset[int]
    interfaces: tuple[Interface, ...]  # of the last section of a pcapng file
    notes: tuple[Note, ...]  # comments; packet numbers are those of the capture
    secrets: tuple[Secret, ...]  # packet numbers are those of the capture; 0: in front of all packets of the file


class FileReader:
    """One file, opened: a reader of its format with what it has read so far."""

    def __init__(
        self,
        path: str,
        first_number: int = 1,
        batch_bytes: int = BATCH_BYTES,
        point: CapturePoint | None = None,
        expected: Content | None = None,
    ) -> None:
        """Open a file, a URI that pyarrow knows, or ``-``; raises SourceError if it is no capture.

        A file is read up to the size that it has now, or had when it was read before (expected). If its content is not
        what was expected, or is written over while it is read, SourceError is raised, at the end of reading at the
        latest.
        """
        self.path = path
        self.clock = point.clock if point else None
        self.delay = point.delay if point else 0
        self.total = point.packets if point else None  # packets of the whole file, where that is known
        self._expected = expected
        self.finished = False
        self.size: int | None = None
        self._raw: Any = open_file(path)
        self._bytes = 0
        live = False
        try:
            if is_stream(path):
                live, batch_bytes = True, min(batch_bytes, PIPE_BATCH_BYTES)
            else:
                self.size = checked_size(path, self._raw, expected.size if expected else None)
            name = "standard input" if path == STANDARD_INPUT else path
            self._written = _written(self._raw)
            self._stream = decompressed(name, self)
            self._reader = _reader(name, self._stream, first_number, batch_bytes, live)
        except BaseException:
            self.close()
            raise
        self.issues = self._reader.issues
        self.front: tuple[Secret, ...] = ()  # secrets in front of all packets, where they are known before it is read
        self._secrets_taken = 0
        self.first_number = first_number
        self.first_time: int | None = None
        self.last_time: int | None = None

    def expect(self, content: Content) -> None:
        """Let the file have this content, or SourceError be raised: now if all of it is read, else when it is."""
        self._expected = content
        if self.finished and content.digest not in (None, self._reader.window.digest()):
            raise changed(self.path, content.size)

    def readinto(self, buffer: memoryview, /) -> int:
        """Read the file as it is; counts its bytes."""
        if self.size is not None:
            buffer = buffer[: self.size - self._bytes]
        count: int = self._raw.readinto(buffer) or 0
        self._bytes += count
        return count

    @property
    def format(self) -> str:
        """pcap, pcapng."""
        return self._reader.format

    @property
    def bytes_read(self) -> int:
        """Bytes of the file on disk that were read so far."""
        return self._bytes

    @property
    def content(self) -> Content | None:
        """What is read, as far as that is known now; None for a pipe, which cannot be read again."""
        if self.size is not None and self.finished:
            return Content(self.size, self._reader.window.digest())
        return self._expected or (None if self.size is None else Content(self.size, None))

    @property
    def packets(self) -> int:
        """Packets read so far."""
        return self._reader.number - self.first_number

    def renumber(self, first_number: int) -> None:
        """Set the number of the first packet; allowed before reading."""
        self._reader.number += first_number - self.first_number
        self.first_number = first_number

    def __iter__(self) -> Iterator[Packets]:
        for packets in self._reader:
            if self.clock:
                packets = replace(packets, at=self.clock.corrected(packets.at))
            times = packets.at[packets.at != NO_TIME]
            if times.size:
                if self.first_time is None:
                    self.first_time = int(times[0])
                latest = NO_TIME if self.last_time is None else self.last_time
                for issue in times_going_back(packets, latest):
                    self.issues.add(issue)
                self.last_time = max(latest, int(times.max()))
            yield packets
        if self._stream.damage:
            detail = f"{self.path}: {self._stream.damage}; what was before it was read"
            self.issues.add(Issue("damaged_file", detail, packet=self._reader.number))
        self.finished = True
        if self.size is not None:
            now = _size(self._raw)
            if now < self.size:
                raise changed(self.path, self.size)
            for issue in growth(self.path, self.size, now):
                self.issues.add(issue)
            if now == self.size and _written(self._raw) != self._written:
                self._read_again()
        self.close()
        if self._expected:
            self.expect(self._expected)

    def _read_again(self) -> None:
        """Raise SourceError if the file has other bytes by now; a date alone may be set without a change."""
        content = self.content
        if content is None or (self._expected and self._expected.digest is not None):
            return  # nothing to hold it against, or what it is held against anyway
        try:
            for _ in FileReader(self.path, expected=content):
                pass
        except SourceError:  # perhaps no capture any more
            raise changed(self.path, content.size) from None

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Those read so far, with the numbers of the packets from which on they hold."""
        return tuple(
            replace(secret, packet=0) if secret.packet <= max(self.first_number, 1) else secret
            for secret in tuple(self._reader.secrets)
        )

    def take_secrets(self) -> tuple[Secret, ...]:
        """Those of them that became known since this was asked last."""
        known = (*self.front, *self.secrets[len(self.front) :])
        taken, self._secrets_taken = self._secrets_taken, len(known)
        return known[taken:]

    def describe(self) -> CaptureFile:
        """Return what is known now."""
        reader = self._reader
        return CaptureFile(
            path=self.path,
            format=reader.format,
            compression=self._stream.compression,
            size=self.size,
            first_number=self.first_number,
            packets=self.packets,
            first_time=self.first_time,
            last_time=self.last_time,
            link_types=reader.link_types,
            interfaces=reader.context.interfaces,
            notes=tuple(reader.notes),
            secrets=self.secrets,
        )

    def close(self) -> None:
        """Close the file; again is harmless."""
        if self.path != STANDARD_INPUT:
            self._raw.close()


def first_context(name: str, stream: Stream) -> Context | None:
    """What the beginning of a file says of its packets; None if it is no capture."""
    head = stream.peek(FILE_HEADER)
    if is_pcapng(head):
        return parse_section(name, stream.peek(SECTION_HEADER))
    return parse_header(name, head) if is_pcap(head) else None


def _reader(name: str, stream: Stream, first_number: int, batch_bytes: int, live: bool) -> FormatReader:
    context = first_context(name, stream)
    if context:
        stream.read(context.begins)
        window = Window(stream, batch_bytes, offset=context.begins, live=live)
        return context.reader(name, window, first_number)
    head = stream.peek(FILE_HEADER)
    if stream.damage and not head:
        raise SourceError(name, 0, stream.damage, "Check how it was made or copied")
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head):
        shown = head.decode("ascii").split("\n")[0].strip()
        raise SourceError(name, 0, f"this is text, not a capture (it begins with {shown!r})", ADVICE)
    raise SourceError(name, 0, f"this is not a capture (it begins with bytes {head[:8].hex(' ')})", ADVICE)


def open_file(path: str) -> Any:
    """Open a binary file without a buffer in between."""
    if path == STANDARD_INPUT:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    try:
        if is_uri(path):
            file_system, inner = locate(path)
            return file_system.open_input_file(inner)
        return open(path, "rb", buffering=0)
    except IsADirectoryError:
        raise SourceError(path, None, "no captures are in this directory or below", ADVICE) from None
    except FileNotFoundError:
        message, advice = "no such file", "Check the name"
        if glob.has_magic(split_settings(path)[0]):
            message, advice = "no capture matches this pattern", f"Check the pattern. {ADVICE}"
        elif is_uri(path) and is_directory(path):
            message, advice = "no captures are in this directory or below", ADVICE
        raise SourceError(path, None, message, advice) from None
    except PermissionError:
        raise SourceError(path, None, "permission to read it is denied", "Become a user who may read it") from None
    except (OSError, ValueError) as error:
        message = f"it cannot be opened ({getattr(error, 'strerror', None) or error})"
        raise SourceError(path, None, message, "Check the name") from None


def is_stream(path: str) -> bool:
    """Whether a path can be read only once, and may grow while it is read: standard input, a pipe."""
    is_special = not is_uri(path) and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    return path == STANDARD_INPUT or is_special


def _size(file: Any) -> int:
    if hasattr(file, "size"):
        return int(file.size())
    return os.fstat(file.fileno()).st_size


def _written(file: Any) -> int | None:
    """When an open file was written last; None for one of an object store."""
    return None if hasattr(file, "size") else os.fstat(file.fileno()).st_mtime_ns


def checked_size(path: str, file: Any, size: int | None) -> int:
    """Bytes of an open file that are to be read: all, or as many as it had once; SourceError if it has fewer now."""
    now = _size(file)
    if size is not None and now < size:
        raise changed(path, size)
    return now if size is None else size


def changed(path: str, size: int) -> SourceError:
    """The error of a file that is not what it was when it was read first, and had so many bytes."""
    message = "its content is not what it was when it was first read"
    with suppress(SourceError), closing(open_file(path)) as file:
        if (now := _size(file)) < size:
            message = f"it is shorter than when it was first read: it had {size:,} bytes, and has {now:,} now"
    return SourceError(path, None, message, "Copy it to where nothing writes to it, and read the copy")


def captured_file(path: str, first_packet: int, packets: int, size: int | None) -> CapturedFile:
    """What is to be told of a file that was read up to a size (None: a pipe)."""
    return CapturedFile(origin_name(path), first_packet, packets, size, None if size is None else digest(path, size))


def digest(path: str, size: int) -> str | None:
    """Tells apart files of one size by their first and last bytes; None if they cannot be read.

    The times of its first and last packets are among them, and no two captures have all of these bytes alike.
    """
    found = hashlib.sha256()
    with suppress(SourceError, OSError), closing(open_file(path)) as file:
        for at in (0, max(0, size - DIGESTED_BYTES)):
            file.seek(at)
            found.update(Stream(Bounded(file, size)).peek(DIGESTED_BYTES))
        return found.hexdigest()[:32]
    return None


def is_compressed(path: str, size: int, of: str) -> bool:
    """Whether a file is another one, of that size and digest, compressed. All of it is read."""
    with suppress(SourceError, OSError), closing(open_file(path)) as file:
        stream = decompressed(path, file)
        read, begin, end = 0, b"", b""
        while chunk := stream.read():
            read += len(chunk)
            begin += chunk[: DIGESTED_BYTES - len(begin)]
            end = (end + chunk)[-DIGESTED_BYTES:]
        return read == size and hashlib.sha256(begin + end).hexdigest()[:32] == of
    return False


def growth(path: str, size: int, now: int) -> list[Issue]:
    """What is to be said of a file that was read up to a size, and is larger now; nothing if it is not."""
    if now <= size:
        return []
    detail = f"{path}: grew while it was read: its first {size:,} bytes were read, the {now - size:,} behind them not"
    return [Issue("file_grew", detail, file=origin_name(path))]


def find_files(paths: Iterable[str]) -> list[str]:
    """Files that the paths mean, each once, sorted: files, directories (searched through), globs, ``-``.

    Sorted, as nothing may hang on the order in which they were given. Of a directory only captures are taken, by their
    first bytes. A path that means nothing stays as it is: to open it says what is wrong with it.
    """
    found: dict[str, None] = {}
    for path in paths:
        path = os.fspath(path)
        if path == STANDARD_INPUT:
            found[path] = None
        elif is_uri(path):
            with suppress(OSError, ValueError):  # to open it will say the same
                found.update(dict.fromkeys(_captures_at(path)))
                continue
            found[path] = None
        elif os.path.isdir(path):
            found.update(dict.fromkeys(_captures_below(path) or [path]))
        elif not os.path.lexists(path) and glob.has_magic(path):
            matches = sorted(glob.glob(path, recursive=True))
            single = len(matches) == 1
            taken = [m for m in matches if not os.path.isdir(m) and (single or looks_like_capture(m))]
            taken = taken or [file for m in matches if os.path.isdir(m) for file in _captures_below(m)]
            found.update(dict.fromkeys(taken or [path]))
        else:
            found[path] = None
    return sorted(found)


def _captures_at(uri: str) -> list[str]:
    """The same of one place elsewhere; raises as `places.locate`."""
    taken: list[str] = []
    if glob.has_magic(split_settings(uri)[0]):
        found = matches(uri)
        taken = [name for name, is_file in found if is_file and (len(found) == 1 or looks_like_capture(name))]
        directories = [name for name, is_file in found if not is_file]
    else:
        directories = [uri] if is_directory(uri) else []
    return taken or [file for name in directories for file in files_below(name) if looks_like_capture(file)] or [uri]


def _captures_below(directory: str) -> list[str]:
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(directory)
        for name in names
        if looks_like_capture(os.path.join(folder, name))
    )


def looks_like_capture(path: str) -> bool:
    """Whether a regular file can be opened as a capture."""
    if not is_uri(path) and not os.path.isfile(path):
        return False
    try:
        FileReader(path).close()
    except SourceError:
        return False
    return True


class Capture:
    """Packets of one or several files in order; issues and descriptions fill up while they are read."""

    def __init__(
        self, readers: Sequence[FileReader], issues: Iterable[Issue], batch_bytes: int, joined: Joined | None = None
    ) -> None:
        """With joined, the numbers of all files must be known."""
        self._readers = list(readers)
        if len(self._readers) == 1 and not self._readers[0].first_number:  # others could not be opened
            self._readers[0].renumber(1)
        known = [reader.first_number for reader in self._readers if reader.first_number]
        self.origins = Origins([origin_name(reader.path) for reader in self._readers], known)
        self.ranks: Ranks | None = None
        if joined:
            self.ranks = joined.ranks([(reader.path, reader.first_number) for reader in self._readers])
        issues = list(issues)
        self.unreadable = tuple(issue.detail for issue in issues if issue.kind == "unreadable_file")
        self._issues = IssueLog(issues)
        self._batch_bytes = batch_bytes

    @property
    def files(self) -> tuple[CaptureFile, ...]:
        """The files in order, as known now; numbers of files that reading has not come to yet are 0."""
        return tuple(reader.describe() for reader in self._readers)

    def captured(self) -> list[CapturedFile]:
        """The files, with the numbers of their packets, once all is read."""
        return [captured_file(file.path, file.first_number, file.packets, file.size) for file in self.files]

    @property
    def first_time(self) -> int | None:
        """Time of the first packet that has one, as far as that is known now."""
        return next((reader.first_time for reader in self._readers if reader.first_time is not None), None)

    @property
    def issues(self) -> IssueLog:
        """Damage met so far in all files."""
        return IssueLog([*self._issues, *(issue for reader in self._readers for issue in reader.issues)])

    @property
    def has_secrets(self) -> bool:
        """Whether decryption secrets may be among the packets."""
        return any(reader.format == "pcapng" for reader in self._readers)

    def take_secrets(self) -> list[Secret]:
        """Decryption secrets that were read since this was asked last."""
        return [secret for reader in self._readers for secret in reader.take_secrets()]

    @property
    def contents(self) -> dict[str, Content]:
        """What is read, by file, as far as that is known now; without pipes."""
        return {reader.path: content for reader in self._readers if (content := reader.content)}

    def expect(self, contents: Mapping[str, Content]) -> None:
        """Let the files have these contents, as another reading found them; else SourceError is raised."""
        for reader in self._readers:
            reader.expect(contents[reader.path])

    @property
    def size(self) -> int | None:
        """Bytes of all files on disk; None if one is a pipe."""
        sizes = [reader.size for reader in self._readers]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def bytes_read(self) -> int:
        """Bytes of all files on disk that were read so far: how far reading is."""
        return sum(reader.bytes_read for reader in self._readers)

    def locate(self, number: int) -> tuple[str, int]:
        """File of a packet that was read, and its number in that file; raises KeyError for other numbers."""
        firsts = [reader.first_number for reader in self._readers if reader.first_number]
        index = bisect_right(firsts, number) - 1
        if index < 0 or number - firsts[index] >= self._readers[index].packets:
            raise KeyError(number)
        return self._readers[index].path, number - firsts[index] + 1

    def __iter__(self) -> Iterator[Packets]:
        if len(self._readers) == 1:
            yield from self._readers[0]
        else:
            yield from self._merged()

    def _merged(self) -> Iterator[Packets]:
        """Merge by key, opening a file when the time of its first packet has come."""
        active: list[_Head] = []
        opened = 0
        # The earliest that may come of a file and those behind it: with delays, files do not begin in their order.
        earliest = [_first(reader) for reader in self._readers]
        for file in range(len(earliest) - 1, 0, -1):
            earliest[file - 1] = min(earliest[file - 1], earliest[file])
        while active or opened < len(self._readers):
            # All packets up to this key are at hand, but for those of files that are still to be opened.
            limit = min((head.last for head in active), default=None)
            if opened < len(self._readers) and (limit is None or earliest[opened] <= limit):
                reader = self._readers[opened]
                if not reader.first_number:
                    before = self._readers[opened - 1] if opened else None
                    reader.renumber(1 if before is None else before.first_number + _total(before))
                    self.origins.begin(reader.first_number)
                opened += 1
                head = _Head(reader)
                head.advance()
                active = [*active, head] if head.left else active
                continue
            pieces = []
            inclusive = True
            for head in active:
                pieces.append(head.take(limit, inclusive))
                # Equal keys go by number: files behind this one wait until it has given all of its own.
                inclusive = inclusive and head.last != limit
            packets = _join(pieces)
            if packets is not None:
                yield packets
            for head in active:
                if not head.left:
                    head.advance()
            active = [head for head in active if head.left]

    def close(self) -> None:
        """Close all files."""
        for reader in self._readers:
            reader.close()

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(slots=True)
class _Piece:
    packets: Packets
    key: I64


class _Head:
    """The batch of a file that the merge is in."""

    def __init__(self, reader: FileReader) -> None:
        self.last = NO_TIME  # greatest key of what was read
        self._delay = reader.delay
        self._latest = NO_TIME
        self._batches = iter(reader)
        self._packets: Packets | None = None
        self._key = np.empty(0, np.int64)
        self._position = 0

    @property
    def left(self) -> int:
        """Packets of the batch not yet taken."""
        return len(self._key) - self._position

    def advance(self) -> None:
        """Go to the next batch, once this one is used up; nothing is left if there is none."""
        self._packets = next(self._batches, None)
        self._position = 0
        self._key = np.empty(0, np.int64)
        if self._packets is not None:
            latest = running_maximum(self._packets.at, self._latest)
            self._latest = int(latest[-1])
            self._key = latest + self._delay
            self.last = int(self._key[-1])

    def take(self, limit: int | None, inclusive: bool) -> _Piece | None:
        """Packets whose key is below limit, or up to it if inclusive; None if there are none."""
        side: Any = "right" if inclusive else "left"
        end = len(self._key) if limit is None else int(np.searchsorted(self._key, limit, side))
        if self._packets is None or end <= self._position:
            return None
        rows = slice(self._position, end)
        self._position = end
        return _Piece(self._packets.rows(rows), self._key[rows])


def _join(found: list[_Piece | None]) -> Packets | None:
    """Packets of several files in order of key and number."""
    pieces = [piece for piece in found if piece is not None]
    if not pieces:
        return None
    if len(pieces) == 1:
        return pieces[0].packets
    data, moved, size = [], [], 0
    for piece in pieces:
        packets = piece.packets
        begin, end = int(packets.start[0]), int(packets.start[-1]) + int(packets.captured[-1])
        data.append(packets.data[begin:end])
        moved.append(replace(packets, start=packets.start + (size - begin)))
        size += end - begin
    joined = Packets(
        np.concatenate(data),
        np.concatenate([packets.number for packets in moved]),
        np.concatenate([packets.at for packets in moved]),
        np.concatenate([packets.start for packets in moved]),
        np.concatenate([packets.captured for packets in moved]),
        np.concatenate([packets.original for packets in moved]),
        np.concatenate([packets.link_type for packets in moved]),
    )
    # Pieces come by number: a stable sort keeps that among equal keys.
    return joined.rows(np.argsort(np.concatenate([piece.key for piece in pieces]), kind="stable"))


def _first(reader: FileReader) -> int:
    return NO_TIME if reader.first_time is None else reader.first_time + reader.delay


def _total(reader: FileReader) -> int:
    """Packets of a file, counted by another reader if this one is still under way."""
    if reader.finished:
        return reader.packets
    if reader.total is not None:
        return reader.total
    counter = FileReader(reader.path, expected=reader.content)
    for _ in counter:
        pass
    if counter.content:
        reader.expect(counter.content)
    return counter.packets


def first_time(path: str) -> int | None:
    """Time of the first packet that has one, among those of the first batch; None: there is none."""
    return _front(path)[0]


def _front(path: str) -> tuple[int | None, tuple[Secret, ...]]:
    """The same, and the decryption secrets in front of all packets."""
    reader = FileReader(path, batch_bytes=1 << 16)
    next(iter(reader), None)
    reader.close()
    return reader.first_time, tuple(secret for secret in reader.secrets if not secret.packet)


def open_capture(
    paths: str | Iterable[str],
    batch_bytes: int = BATCH_BYTES,
    joined: Joined | None = None,
    expected: Mapping[str, Content] | None = None,
) -> Capture:
    """Open files as one capture: files, directories, globs, URIs, or ``-`` alone for standard input.

    What ``sniffer.comparison.compare_files`` found out about the same paths sets clocks and ranks. Files must have the
    content that was read when they were compared, or that is expected of them by path.
    Raises SourceError if none of them can be read; if only some cannot, each is an issue ``unreadable_file``.
    """
    files = find_files([paths] if isinstance(paths, str) else paths)
    expected = expected or (joined.contents if joined else {})
    if not files:
        raise SourceError("(none)", None, "no file was given", ADVICE)
    if STANDARD_INPUT in files and len(files) > 1:
        message = "standard input cannot be merged with files"
        raise SourceError(STANDARD_INPUT, None, message, "Write it to a file first, or read it alone")
    if len(files) == 1:
        return Capture([FileReader(files[0], 1, batch_bytes, expected=expected.get(files[0]))], (), batch_bytes)
    issues: list[Issue] = []
    errors: list[SourceError] = []
    opened: list[tuple[bool, int, FileReader]] = []
    for file in files:
        try:
            time, front = _front(file)
            point = joined.points.get(file) if joined else None
            reader = FileReader(file, 0, batch_bytes, point, expected.get(file))
            if reader.clock and time is not None:
                time = reader.clock.at(time)
            reader.first_time, reader.front = time, front
            opened.append((time is not None, time or 0, reader))
        except SourceError as error:
            if file in expected:
                raise
            errors.append(error)
            issues.append(Issue("unreadable_file", str(error), file=origin_name(file)))
    if not opened:
        raise errors[0]
    opened.sort(key=lambda entry: entry[:2])
    readers = [reader for _, _, reader in opened]
    if joined:
        number = 1
        for reader in readers:
            reader.renumber(number)
            number += _total(reader)
    return Capture(readers, issues, batch_bytes, joined)
