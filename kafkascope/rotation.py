"""The files of a rotation (`tcpdump -C/-G/-W`, dumpcap, `sniff -w -C`): which are there, and which is to be taken next.

A rotation is one capture in many files, each of which goes on where the one before it ends. Names may come again
(`-W`), so a file is known by its content; the order is that of the first packets, as in any capture of several files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from kafkascope.sniffer.columns import NO_TIME
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.origins import CapturedFile
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.files import FileReader, digest, first_time, is_compressed
from kafkascope.sniffer.sources.places import origin_name

QUIET_S = 5
"""A file is closed for now if it did not change for so long. If it grows later, what is new in it is taken then."""

# Names with a number that grows by one: of dumpcap and `sniff -w`, and of `tcpdump -C`. Other digits may be a time.
_NUMBERED = (
    re.compile(r"(?P<stem>.*)_(?P<number>\d{5,})_\d{14}(?P<form>\D*)"),
    re.compile(r"(?P<stem>.*\.p?cap(?:ng)?)(?P<number>\d*)(?P<form>(?:\.gz|\.zst)?)"),
)
_COMPRESSED = (".gz", ".zst")  # `tcpdump -z gzip` replaces a file that is closed
_CUT = frozenset({"truncated_capture", "damaged_file"})
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was when the directory was listed."""

    path: str
    inode: int
    size: int  # bytes
    modified_ns: int


def listing(directory: str) -> list[Seen]:
    """The regular files of a directory, those below it left out. Raises OSError."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                if entry.is_file():
                    status = entry.stat()
                    found.append(Seen(entry.path, status.st_ino, status.st_size, status.st_mtime_ns))
            except FileNotFoundError:  # it has just been removed
                continue
    return found


@dataclass(frozen=True, slots=True)
class Next:
    """The file that is to be taken next."""

    seen: Seen
    first_time: int  # nanoseconds since 1970 UTC
    goes_on: bool  # it is the one that was taken last, and has more packets now


@dataclass(slots=True)
class _Taken:
    """A file that was taken, or that is in a run which stays."""

    file: CapturedFile
    is_last: bool  # of those taken: what it has more than it had is taken when it comes


@dataclass(slots=True)
class Rotation:
    """What was taken of a directory, and what is there."""

    since: int = NO_TIME  # files that begin before that are not taken, for runs with such are not kept
    _taken: list[_Taken] = field(default_factory=list)
    _first_times: dict[Seen, int | None] = field(default_factory=dict)
    _unchanged: dict[str, tuple[Seen, float]] = field(default_factory=dict)  # since when, by the caller's clock
    _whole: dict[Seen, bool] = field(default_factory=dict)
    _unreadable: dict[Seen, str] = field(default_factory=dict)  # and why
    late: list[Issue] = field(default_factory=list)  # of files that came late, or grew late, since this was emptied
    said: list[str] = field(default_factory=list)  # of files that are not taken as they are, in the latest look
    last_name: str | None = None  # of the file before the next one
    _last_first_time: int | None = None
    _done: set[Seen] = field(default_factory=set)  # taken, or passed over, as they are

    def know(self, file: CapturedFile) -> None:
        """Take nothing of a file that is in a run which stays."""
        self._taken.append(_Taken(file, is_last=False))
        self.last_name = _name(file.file)

    def pass_over(self, seen: Seen) -> None:
        """Take nothing of a file as it is now."""
        self._done.add(seen)

    def take(self, file: Next, captured: CapturedFile) -> None:
        """Keep in mind that this one is taken, and what of it."""
        if file.goes_on:
            self._taken.pop()
        for taken in self._taken[-1:]:
            taken.is_last = False
        # What was read may be more than what was seen before; another look at it tells whether it is all.
        self._taken.append(_Taken(captured, is_last=True))
        self.last_name = os.path.basename(file.seen.path)
        self._last_first_time = file.first_time

    def next(self, entries: Sequence[Seen], now_s: float, *, at_end: bool = False) -> Next | None:
        """The file that is to be taken next; None: none is closed.

        A file is closed if one behind it is there, or if it ends with a whole packet and did not change for `QUIET_S`,
        for which at_end does not wait.
        """
        self._forget(entries)
        self.said.clear()
        paths = {entry.path for entry in entries}
        waiting = []
        for entry in entries:
            is_being_made = _uncompressed(entry.path) in paths and not at_end and self._quiet_s(entry, now_s) < QUIET_S
            if not is_being_made and (one := self._untaken(entry)) is not None:
                waiting.append(one)
        waiting.sort(key=lambda one: (one.first_time, one.seen.path))
        if old := [one.seen for one in waiting if one.first_time < self.since]:
            del waiting[: len(old)]
            self._done.update(old)
            names = named([seen.path for seen in old])
            self.said.append(f"from before the runs that are kept (--limit out_runs), so not taken: {names}")
        # What somebody still writes may become a capture; an empty file is no news.
        quiet = [one for one in self._unreadable if one.size and (at_end or self._quiet_s(one, now_s) >= QUIET_S)]
        self.said += [f"not taken: {self._unreadable[one]}" for one in quiet]
        for one in waiting:
            if not one.goes_on and self._last_first_time is not None and one.first_time < self._last_first_time:
                self._leave_out(
                    one.seen, Issue("file_late", f"{one.seen.path}: came when files behind it had been taken")
                )
            elif one is not waiting[-1] or self._is_closed(one.seen, now_s, at_end):
                return one
        return None

    def missing(self, path: str) -> str | None:
        """What is to be said of files that should lie between the last one and this, by their numbers."""
        if self.last_name is None:
            return None
        here, last = os.path.basename(path), self.last_name
        for numbered in _NUMBERED:
            one, other = numbered.fullmatch(last), numbered.fullmatch(here)
            if one and other and (one["stem"], one["form"]) == (other["stem"], other["form"]):
                first, end = int(one["number"] or 0) + 1, int(other["number"] or 0)
                if first >= end:  # it begins anew, as -W has it
                    return None
                count = end - first
                lacking = f"number {first} is" if count == 1 else f"numbers {first} to {end - 1} are"
                return f"{path}: {lacking} missing between {last} and it"
        return None

    def _untaken(self, seen: Seen) -> Next | None:
        if seen in self._done:
            return None
        name = _name(origin_name(seen.path))
        for taken in reversed(self._taken):
            if _name(taken.file.file) == name and is_prefix(taken.file, seen):
                if seen.size == taken.file.bytes:
                    self._done.add(seen)
                    return None
                time = self._first_time(seen)
                if taken.is_last and time is not None:
                    return Next(seen, time, goes_on=True)
                detail = f"{seen.path}: grew behind the {taken.file.bytes:,} bytes that were taken of it"
                self._leave_out(seen, Issue("file_grew", detail))
                return None
            if taken.file.bytes == seen.size and is_prefix(taken.file, seen):
                self._done.add(seen)  # under another name
                return None
            if _has_become(taken.file, seen):
                self._done.add(seen)
                return None
        time = self._first_time(seen)
        return None if time is None else Next(seen, time, goes_on=False)

    def _leave_out(self, seen: Seen, issue: Issue) -> None:
        self.pass_over(seen)
        self.late.append(replace(issue, file=origin_name(seen.path)))

    def _first_time(self, seen: Seen) -> int | None:
        """None: it is no capture, or has no packet yet."""
        if seen not in self._first_times:
            try:
                self._first_times[seen] = first_time(seen.path)
            except SourceError as error:
                self._first_times[seen] = None
                self._unreadable[seen] = str(error)
        return self._first_times[seen]

    def _is_closed(self, seen: Seen, now_s: float, at_end: bool) -> bool:
        """Whether the newest file is closed."""
        return (at_end or self._quiet_s(seen, now_s) >= QUIET_S) and self._ends_whole(seen)

    def _quiet_s(self, seen: Seen, now_s: float) -> float:
        known, since = self._unchanged.get(seen.path, (None, now_s))
        if known != seen:
            since = now_s
            self._unchanged[seen.path] = seen, since
        return now_s - since

    def _ends_whole(self, seen: Seen) -> bool:
        if seen not in self._whole:
            try:
                reader = FileReader(seen.path)
                for _ in reader:
                    pass
            except SourceError:  # it has just been removed, or is being written anew
                return False
            self._whole[seen] = not any(issue.kind in _CUT for issue in reader.issues)
        if not self._whole[seen]:
            self.said.append(
                f"{seen.path}: ends within a packet; it is taken when the rest, or a file behind it, is there"
            )
        return self._whole[seen]

    def _forget(self, entries: Iterable[Seen]) -> None:
        """Keep nothing of files that are not there any more, or not as they were."""
        there = {*entries}
        for cache in (self._first_times, self._whole, self._unreadable):
            for seen in [seen for seen in cache if seen not in there]:
                del cache[seen]
        self._done &= there
        paths = {seen.path for seen in there}
        self._unchanged = {path: known for path, known in self._unchanged.items() if path in paths}


def is_prefix(file: CapturedFile, seen: Seen) -> bool:
    """Whether a file begins with all that was once taken of it, or of another one."""
    if file.bytes is None or file.digest is None or seen.size < file.bytes:
        return False
    return digest(seen.path, file.bytes) == file.digest


def _uncompressed(path: str) -> str | None:
    """The name of the file that a compressed one is made of."""
    return next((path.removesuffix(suffix) for suffix in _COMPRESSED if path.endswith(suffix)), None)


def _has_become(file: CapturedFile, seen: Seen) -> bool:
    """Whether this is a file that was taken, compressed (`tcpdump -z gzip`). Of one with its name all is read."""
    if file.bytes is None or file.digest is None or _uncompressed(_name(origin_name(seen.path))) != _name(file.file):
        return False
    return is_compressed(seen.path, file.bytes, file.digest)


def gone(files: Iterable[CapturedFile], entries: Sequence[Seen]) -> list[CapturedFile]:
    """Those of some files that are not among these, compressed or not."""
    return [file for file in files if not any(_is_now(file, seen) for seen in entries)]


def begins(files: Iterable[CapturedFile], entries: Sequence[Seen]) -> int | None:
    """When the first of some files begins that are among these, compressed or not; None: none is, or has a time."""
    there = (seen.path for file in files for seen in entries if _is_now(file, seen))
    with suppress(SourceError):  # it has just been removed
        return next(map(first_time, there), None)
    return None


def _is_now(file: CapturedFile, seen: Seen) -> bool:
    """Whether a file is one that was taken, or has become what this is."""
    return (_may_be(file, seen) and is_prefix(file, seen)) or _has_become(file, seen)


def lack_names(files: Iterable[CapturedFile], entries: Iterable[Seen]) -> bool:
    """Whether one of some files is not there under its name: at once, where `gone` reads of each."""
    names = [_name(origin_name(seen.path)) for seen in entries]
    return not {_name(file.file) for file in files} <= {*names, *map(_uncompressed, names)}


def _may_be(file: CapturedFile, seen: Seen) -> bool:
    return seen.size == file.bytes or _name(origin_name(seen.path)) == _name(file.file)


def _name(origin: str) -> str:
    """The name of a file alone, as its directory may be called otherwise the next time."""
    return os.path.basename(origin)


def named(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
