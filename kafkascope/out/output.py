"""The directory that an analysis makes: checked, filled beside its place, and put in place as a whole.

    OUT/.kafkascope.lock, OUT/.staging-RUN/owner                     while it runs: who it is
    OUT/.kafkascope.watch                                            while it is renewed again and again: who does it
    OUT/.staging-RUN/tables/NAME/part-00003-RUN-<random>.parquet
    OUT/.staging-RUN/views/NAME/part-00003-RUN-<random>.parquet      rows of views, which are input of a later job
    OUT/.staging-RUN/handed-on/part-00003-RUN-<random>.parcels       records, likewise
    OUT/tables/NAME/part-00003-RUN-<random>.parquet                  when it is done
    OUT/report.html, OUT/summary.json                                after that, in this order

RUN names the analysis (`new_run`); each row of the tables says it too, so that rows of several can lie together.

Places may be URIs (``sniffer.sources.places``); without a scheme they are local paths.
"""

from __future__ import annotations

import errno
import json
import os
import posixpath
import re
import shutil
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset as ds
from pyarrow import fs

from kafkascope.out import hours
from kafkascope.out.ownership import HeldError, lock, this_run, unlock
from kafkascope.reports.columns.topics import ID_PREFIX, TopicNames
from kafkascope.reports.measures.summary import Summary
from kafkascope.reports.views.registry import SCHEMAS_WITH_VIEWS
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, FILE, RUN, SCHEMA_VERSION, UNDECIDED, WHOLE
from kafkascope.sniffer.origins import CapturedFile
from kafkascope.sniffer.sources.places import above, below, is_uri, locate, name_of, told

TABLES = "tables"
_VIEWS = "views"
HANDED_ON = "handed-on"
SUMMARY = "summary.json"
REPORT = "report.html"
_STAGING = ".staging-"
_RUN = r"\d{8}T\d{6}Z-[0-9a-f]{8}"
_OLD = r"[0-9a-f]{32}"  # versions before schema 5 had random names alone
_STAGING_NAME = re.compile(rf"\.staging-(?:(?P<run>{_RUN})|{_OLD})")
_OWNER = "owner"  # in a staging directory
_COUNTED, _REPLACED = "counted", "replaced"  # there too: what is put in place, and what was there
_LOCK = ".kafkascope.lock"
WATCHED = ".kafkascope.watch"  # the lock of who watches a rotation, from one commit to the next
# What a run leaves, in the order in which it comes; a directory that has anything else is not ours to replace.
_OWN = (TABLES, REPORT, SUMMARY)
_PART = re.compile(rf"part-\d{{5,}}-(?:(?P<run>{_RUN})-[0-9a-f]{{16}}|{_OLD})\.parquet")
_PARCELS = re.compile(rf"part-\d{{5,}}-{_RUN}-[0-9a-f]{{16}}\.parcels")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_RENAMES_DIRECTORIES = frozenset({"local", "hdfs"})  # object stores move one file at a time

# Of these a dictionary saves nothing, and nobody skips rows by the least and the greatest of them; both take time.
_BODIES = frozenset({"request", "response", "key", "value", "headers"})
_ROW_GROUP_BYTES = 32 << 20
COMPRESSION = "snappy"
# Contents of records are nobody's but their owner's. With secrets shown, messages are as well.
PRIVATE = frozenset({"records"})
WITH_SECRETS = frozenset({"exchanges", "errors", WHOLE["exchanges"], WHOLE["errors"], UNDECIDED})
_OWNER_ALONE = 0o600


class OutputError(Exception):
    """The output directory cannot be used; the message says why and what to do."""


class WriteError(Exception):
    """The output directory could not be written to the end; the message says why and what to do."""


ANOTHER_PLACE = "give another directory"


def write_error(place: str, error: OSError, instead: str = ANOTHER_PLACE) -> WriteError:
    """The same in one line; instead: what to do where there is no room to make."""
    reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
    advice = f"; make room there, or {instead}" if error.errno in _FULL else ""
    return WriteError(f"{told(place)} cannot be written: {reason}{advice}")


def new_run() -> str:
    """A name for a run, which nothing else has: when it began, UTC, and a random number."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


def runs_of(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The summaries of all runs of a directory, given its own."""
    found: list[dict[str, Any]] = summary.get("runs", [summary])
    return found


def run_of_part(file: str) -> str | None:
    """The run that wrote a part; None if its name tells none, as in directories of older versions."""
    found = _PART.fullmatch(posixpath.basename(file))
    return found["run"] if found else None


def link(source: str, target: str) -> None:
    """Let a local file have a second name, in a directory that is made if need be; a copy where that cannot be."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def staging_of(parent: str, run: str, tables: Iterable[str]) -> str:
    """A local staging directory, made, for parts of a run that are kept from one commit to the next."""
    staging = posixpath.join(parent, f"{_STAGING}{run}")
    for table in tables:
        os.makedirs(_directory(staging, table))
    return staging


def link_part(part: Part, source: str, target: str) -> None:
    """Let a part of one local staging directory be in another one too."""
    link(*(posixpath.join(_directory(staging, part.table), part.file) for staging in (source, target)))


def run_of(staging: str) -> str:
    """The run that a staging directory is of, and called after."""
    found = _STAGING_NAME.fullmatch(name_of(staging))
    if found is None or found["run"] is None:
        raise ValueError(f"{staging} is no staging directory")
    return found["run"]


def part_name(partition: int, run: str, form: str = "parquet") -> str:
    """A name for a file of a task, which no other attempt at it has."""
    return f"part-{partition:05}-{run}-{uuid.uuid4().hex[:16]}.{form}"


@contextmanager
def writing(place: str, instead: str = ANOTHER_PLACE) -> Iterator[None]:
    """Makes errors of the file system a WriteError."""
    try:
        yield
    except OSError as error:
        raise write_error(place, error, instead) from error


@dataclass(frozen=True, slots=True)
class Part:
    """One Parquet file of a table, or of the rows of a view."""

    table: str
    file: str  # name in the table's directory
    rows: int
    unresolved: frozenset[str]  # topics in it that are known by id alone
    row_groups: tuple[hours.RowGroup | None, ...] = ()  # as ``hours.by_hour`` has them


@dataclass(frozen=True, slots=True)
class Layout:
    """How an analysis writes its tables."""

    microseconds: bool = False  # times are cut to that unit at the end; what is told of the rows goes by whole times
    by_hour: bool = False  # the rows of each hour of large tables are brought together at the end, see ``hours``


PLAIN = Layout()


class Output:
    """One output directory during one run."""

    def __init__(
        self,
        place: str,
        *,
        overwrite: bool = False,
        append: bool = False,
        layout: Layout = PLAIN,
        run: str | None = None,
        instead_of: Collection[str] = (),
        most_runs: int | None = None,
    ) -> None:
        """Check a place; raises OutputError if something is there that may not be replaced. Changes nothing.

        With append, what an analysis left there stays, and this run comes beside it, but for the runs that it is
        instead of, and those that are too old where there are to be no more runs than most_runs; its layout becomes
        that of what is there. run: its name, if it has one already.
        """
        self.place = told(place)  # in messages
        self.run = run or new_run()
        self._instead_of = frozenset(instead_of)
        self._most_runs = most_runs
        self.layout = layout
        self.earlier: list[dict[str, Any]] = []  # summaries of the runs that stay
        self._overwrite = overwrite
        self._append = append
        self._lock: int | None = None
        try:
            self._system, self._path = locate(place)
            self._is_local = self._system.type_name == "local"  # elsewhere directories come with their files
            self._existed = self._check()
        except (OSError, pa.ArrowException) as error:
            raise OutputError(f"{self.place}: {error}") from error
        name = f"{_STAGING}{self.run}"
        self._staging = posixpath.join(self._path, name)
        self._staging_place = below(place, name) if is_uri(place) else self._staging

    def _check(self) -> bool:
        """Whether the directory is there; raises OutputError if it has what is not to be replaced."""
        info = self._system.get_file_info(self._path)
        if info.type == fs.FileType.NotFound:
            return False
        if info.type != fs.FileType.Directory:
            raise OutputError(f"{self.place} is a file; give a directory that can be made")
        found = [posixpath.basename(entry.path) for entry in self._system.get_file_info(fs.FileSelector(self._path))]
        if any(self._is_there(posixpath.join(self._path, name, _REPLACED)) for name in found if self._is_staging(name)):
            return True  # one was killed in the midst of its commit, or is there now: to begin tells
        names = [name for name in found if name not in (_LOCK, WATCHED) and not self._is_staging(name)]
        if names and not self._overwrite and not self._append:
            raise OutputError(
                f"{self.place} exists and is not empty; give another directory, or --overwrite, or --append"
            )
        strange = [name for name in names if TABLES not in names or name not in _OWN]
        if TABLES in names:
            tables = posixpath.join(self._path, TABLES)
            for entry in self._system.get_file_info(fs.FileSelector(tables, recursive=True)):
                name = entry.path[len(tables) + 1 :]
                if not (_is_directory(name) if entry.type == fs.FileType.Directory else _is_part(name)):
                    strange.append(f"{TABLES}/{name}")
        if strange:
            raise OutputError(
                f"{self.place} has {min(strange)}, which no analysis made, and is not overwritten; move that away, or "
                "give another directory"
            )
        if self._append:
            stay = [run for run in self._runs() if run["run"] not in self._instead_of] if names else []
            self.earlier = stay if self._most_runs is None else stay[max(0, len(stay) + 1 - self._most_runs) :]
        return True

    def _runs(self) -> list[dict[str, Any]]:
        """Summaries of the runs that are there; raises OutputError if this one cannot come beside them."""
        replaced = "--overwrite replaces it"
        try:
            with self._system.open_input_stream(posixpath.join(self._path, SUMMARY)) as stream:
                summary = json.loads(stream.read())
        except FileNotFoundError:
            raise OutputError(f"{self.place} has no {SUMMARY}: no analysis ended there; {replaced}") from None
        except ValueError as error:
            raise OutputError(f"{below(self.place, SUMMARY)}: {error}; {replaced}") from None
        if not isinstance(summary, dict) or summary.get("schema_version") != SCHEMA_VERSION:
            raise OutputError(f"{self.place} was made by another version of kafkascope, with other columns; {replaced}")
        runs = runs_of(summary)
        connections = [file for file in self._parts_of(runs) if file.startswith("connections/")]
        exchanges = [file for file in self._parts_of(runs) if file.startswith("exchanges/")]
        if not connections or not exchanges:
            raise OutputError(f"{self.place} lacks tables that {SUMMARY} tells of; {replaced}")
        schema = pq.read_schema(posixpath.join(self._path, TABLES, connections[0]), filesystem=self._system)
        there = Layout(microseconds=schema.field("opened").type.unit == "us", by_hour="=" in exchanges[0])
        for option, asked, has in (
            ("--microseconds", self.layout.microseconds, there.microseconds),
            ("--by-hour", self.layout.by_hour, there.by_hour),
        ):
            if asked and not has:
                raise OutputError(f"{self.place} was made without {option}, and what is appended has to be alike")
        self.layout = there
        return runs

    def _parts_of(self, runs: Iterable[Mapping[str, Any]]) -> list[str]:
        """The parts of some runs, below the directory of tables."""
        tables = posixpath.join(self._path, TABLES)
        named = {run["run"] for run in runs}
        files = (
            entry.path[len(tables) + 1 :]
            for entry in self._system.get_file_info(fs.FileSelector(tables, recursive=True, allow_not_found=True))
            if entry.type == fs.FileType.File
        )
        return sorted(file for file in files if run_of_part(file) in named)

    def refuse_again(self, files: Iterable[CapturedFile]) -> None:
        """Raise OutputError if one of these files is in a run that stays, by its content."""
        known = {
            (file["bytes"], file["digest"]): (file["file"], run["run"])
            for run in self.earlier
            for file in run["files"]
            if file["digest"] is not None
        }
        again = [(file.file, *known[file.bytes, file.digest]) for file in files if (file.bytes, file.digest) in known]
        if again:
            file, name, run = again[0]
            more = f", and so are {len(again) - 1} more" if len(again) > 1 else ""
            raise OutputError(
                f"{file} is in {self.place} already, as {name} of run {run}{more}; give captures that "
                "are not (`analyze --append --force` takes them all the same)"
            )

    def begin(self, tables: Iterable[str]) -> str:
        """Make the staging directories of tables and views; returns the place that parts are written under.

        From now on until commit or abort no other run may begin here, and what others left that broke off is removed.
        Raises OutputError if another one is at work here.
        """
        try:
            self._claim()
            for name in tables if self._is_local else ():
                self._system.create_dir(_directory(self._staging, name))
        except OSError as error:
            self.abort()
            if error.errno in _FULL:
                raise write_error(self.place, error) from error
            raise OutputError(f"{self.place} cannot be written: {error}") from error
        except BaseException:
            self.abort()
            raise
        return self._staging_place

    def _claim(self) -> None:
        owner = this_run()
        if self._is_local:
            try:
                self._lock = lock(posixpath.join(self._path, _LOCK), owner)
            except HeldError as error:
                raise OutputError(
                    f"{self.place} is being written by another analysis ({error}); wait for it, "
                    "or give another directory"
                ) from None
            self._system.create_dir(self._staging)
        self._write(posixpath.join(self._staging, _OWNER), owner)
        # All write first and look then: without locks two that begin at once may both give up, never both go on.
        for entry in self._system.get_file_info(fs.FileSelector(self._path)):
            name = posixpath.basename(entry.path)
            if not self._is_staging(name) or entry.path == self._staging:
                continue
            if self._lock is None and (other := self._owner(name)) is not None:
                raise OutputError(
                    f"{self.place} is being written by another analysis ({other}); wait for it, or, if it has ended, "
                    f"remove {below(self.place, name)}"
                )
            self._restore(entry.path)
            self._remove(entry.path)
        self._check()

    def _restore(self, staging: str) -> None:
        """Put back what a run had taken away that was killed in the midst of its commit, or remove what it put there.

        One that had put all in place stays as it is.
        """
        aside, tables = posixpath.join(staging, _REPLACED), posixpath.join(staging, _COUNTED, TABLES)
        left = [tables, *(posixpath.join(staging, name) for name in (REPORT, SUMMARY))]
        if not self._is_there(aside) or not any(map(self._is_there, left)):
            return
        replaced = [name for name in _OWN if self._is_there(posixpath.join(aside, name))]
        if not self._is_there(tables):  # they go first, when all that was there is away: what is there now is new
            for name in _OWN:
                self._remove(posixpath.join(self._path, name))
        for name in replaced:
            self._system.move(posixpath.join(aside, name), posixpath.join(self._path, name))

    def _is_there(self, path: str) -> bool:
        return bool(self._system.get_file_info(path).type != fs.FileType.NotFound)

    def _owner(self, name: str) -> str | None:
        """Who made a staging directory; None if its mark is gone, because that run has ended."""
        mark = posixpath.join(self._path, name, _OWNER)
        if self._system.get_file_info(mark).type != fs.FileType.File:
            return None
        with self._system.open_input_stream(mark) as stream:
            return str(stream.read().decode(errors="replace"))

    def _is_staging(self, name: str) -> bool:
        """Whether an analysis made a directory for its staging. Of one that has ended there may be files of ours."""
        if not _STAGING_NAME.fullmatch(name):
            return False
        selector = fs.FileSelector(posixpath.join(self._path, name), recursive=True, allow_not_found=True)
        return self._owner(name) is not None or all(
            _PART.fullmatch(file := posixpath.basename(entry.path)) or _PARCELS.fullmatch(file) or file in _OWN
            for entry in self._system.get_file_info(selector)
            if entry.type == fs.FileType.File
        )

    def commit(
        self,
        parts: Iterable[Part],
        tables: Iterable[str],
        summary: Mapping[str, Any] | None = None,
        report: Callable[[Mapping[str, ds.Dataset]], str | None] = lambda tables: None,
    ) -> None:
        """Put the parts in place, instead of what was there; files of attempts that did not count are left behind.

        Such a file may still be written: of a task that Spark took for lost, or that another attempt overtook.

        report is called with the tables, and gives the report's text, or None for none. The summary comes last: where
        it is, all is whole. Raises WriteError, and OutputError if meanwhile something came to the directory that is
        not to be replaced.
        """
        parts = [*parts]
        with writing(self.place):
            # A table without rows has its columns all the same.
            parts += map(self._empty, sorted({*tables} - {part.table for part in parts}))
            made = [TABLES]
            if (text := report(datasets_of(self._staging_place, parts))) is not None:
                self._write(posixpath.join(self._staging, REPORT), text)
                made.append(REPORT)
            if summary is not None:
                runs = [*self.earlier, summary]
                of_all = {"schema_version": SCHEMA_VERSION, "runs": runs} if self.earlier else summary
                self._write(posixpath.join(self._staging, SUMMARY), json.dumps(of_all, indent=2))
                made.append(SUMMARY)
            self._check()
            if self.earlier and not self._is_local:
                self._add(parts, made)
            elif self._system.type_name in _RENAMES_DIRECTORIES:
                self._exchange(parts, made)
            else:
                self._replace(parts, made)
            self._end()

    def _empty(self, table: str) -> Part:
        """A part without rows."""
        file = part_name(0, self.run)
        if self.layout.by_hour and table in hours.TABLES:
            file = f"{hours.directory_of(None)}/{file}"
        path = posixpath.join(_directory(self._staging, table), file)
        _make_directory_of(path, self._system)
        writer_of(table, path, self._system, microseconds=self.layout.microseconds).close()
        return Part(table, file, 0, frozenset())

    def _move_parts(self, parts: Iterable[Part], target: str) -> None:
        for part in parts:
            source = posixpath.join(_directory(self._staging, part.table), part.file)
            self._system.move(source, posixpath.join(_directory(target, part.table), part.file))

    def _exchange(self, parts: Iterable[Part], made: Iterable[str]) -> None:
        """Put what was made in the place of what was there; all of it, or nothing."""
        counted, aside = (posixpath.join(self._staging, name) for name in (_COUNTED, _REPLACED))
        parts = list(parts)
        for place in sorted({posixpath.dirname(posixpath.join(_directory(counted, p.table), p.file)) for p in parts}):
            self._system.create_dir(place)
        self._move_parts(parts, counted)
        for file in self._parts_of(self.earlier):
            link(posixpath.join(self._path, TABLES, file), posixpath.join(counted, TABLES, file))
        self._system.create_dir(aside)
        moves = [(posixpath.join(self._path, name), posixpath.join(aside, name)) for name in reversed(_OWN)]
        moves = [move for move in moves if self._system.get_file_info(move[0]).type != fs.FileType.NotFound]
        for name in made:
            source = posixpath.join(counted if name == TABLES else self._staging, name)
            moves.append((source, posixpath.join(self._path, name)))
        done: list[tuple[str, str]] = []
        try:
            for source, target in moves:
                self._system.move(source, target)
                done.append((source, target))
        except BaseException:
            for source, target in reversed(done):
                self._system.move(target, source)
            raise

    def _add(self, parts: Iterable[Part], made: Iterable[str]) -> None:
        """Put parts beside earlier ones where files cannot be linked. The summary tells which runs are whole."""
        known = {*self._parts_of(self.earlier)}
        tables = posixpath.join(self._path, TABLES)
        for entry in self._system.get_file_info(fs.FileSelector(tables, recursive=True)):
            if entry.type == fs.FileType.File and entry.path[len(tables) + 1 :] not in known:
                self._remove(entry.path)  # of a run that was killed here
        parts = list(parts)
        for part in parts:
            _make_directory_of(posixpath.join(tables, part.table, part.file), self._system)
        self._move_parts(parts, self._path)
        for name in made:
            if name != TABLES:
                if self._system.type_name in _RENAMES_DIRECTORIES:  # others put a file in the place of one at once
                    self._remove(posixpath.join(self._path, name))
                self._system.move(posixpath.join(self._staging, name), posixpath.join(self._path, name))

    def _replace(self, parts: Iterable[Part], made: Iterable[str]) -> None:
        """The same where directories cannot be moved, and so not all at once."""
        for name in reversed(_OWN):
            self._remove(posixpath.join(self._path, name))
        self._move_parts(parts, self._path)
        for name in made:
            if name != TABLES:
                self._system.move(posixpath.join(self._staging, name), posixpath.join(self._path, name))

    def abort(self) -> None:
        """Remove what this run made."""
        self._end()
        if not self._existed and self._system.get_file_info(self._path).type == fs.FileType.Directory:
            selector = fs.FileSelector(self._path, allow_not_found=True)
            if not self._system.get_file_info(selector):
                self._system.delete_dir(self._path)

    def _end(self) -> None:
        try:
            with suppress(OSError):  # a task that is being ended may have begun another file meanwhile
                self._remove(self._staging)
            self._remove(self._staging)
        finally:
            if self._lock is not None:
                unlock(posixpath.join(self._path, _LOCK), self._lock)
                self._lock = None

    def _write(self, path: str, text: str) -> None:
        with self._system.open_output_stream(path) as stream:
            stream.write(text.encode())

    def _remove(self, path: str) -> None:
        kind = self._system.get_file_info(path).type
        if kind == fs.FileType.Directory:
            self._system.delete_dir(path)
        elif kind == fs.FileType.File:
            self._system.delete_file(path)


def _is_directory(name: str) -> bool:
    """Whether a directory below the tables has a name that those of tables and hours get."""
    table, *partitions = name.split("/")
    return table in ALL_SCHEMAS and (not partitions or hours.is_directory("/".join(partitions)))


def _is_part(name: str) -> bool:
    """Whether a file below the tables has a name that parts get."""
    directory, _, file = name.rpartition("/")
    return _is_directory(directory) and _PART.fullmatch(file) is not None


class PartWriter:
    """Writes the tables and rows of views of one task, a row group at a time, and keeps a summary of them.

    Names of files are random, so that several attempts at one task do not meet. Left with an exception, it removes
    what it wrote.
    """

    def __init__(self, staging: str, partition: int, private: frozenset[str] = frozenset()) -> None:
        """private: tables that only the owner may read, besides `PRIVATE`."""
        self._system, self._staging = locate(staging)
        self._place = above(staging)
        self._private = private
        self._run = run_of(staging)
        self._file = part_name(partition, self._run)
        self._waiting: dict[str, list[pa.Table]] = {}
        self._waiting_bytes: dict[str, int] = {}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._rows: dict[str, int] = {}
        self._row_groups: dict[str, list[hours.RowGroup | None]] = {}
        self._unresolved: dict[str, set[str]] = {}
        self.summary = Summary()

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        """Take in rows."""
        self.summary.observe(tables)
        for name, rows in tables.items():
            if not rows.num_rows:
                continue
            if "topic" in rows.schema.names:
                topics = rows.column("topic").unique().to_pylist()
                self._unresolved.setdefault(name, set()).update(t for t in topics if t and t.startswith(ID_PREFIX))
            self._waiting.setdefault(name, []).append(rows)
            self._waiting_bytes[name] = self._waiting_bytes.get(name, 0) + rows.nbytes
            if self._waiting_bytes[name] >= _ROW_GROUP_BYTES:
                self._flush(name)

    def finish(self) -> list[Part]:
        """Write the rest and close; returns what was written."""
        for name in list(self._waiting):
            self._flush(name)
        with writing(self._place):
            for writer in self._writers.values():
                writer.close()
        return [
            Part(name, self._file, rows, frozenset(self._unresolved.get(name, ())), tuple(self._row_groups[name]))
            for name, rows in self._rows.items()
        ]

    def discard(self) -> None:
        """Remove what was written: the task failed."""
        for name, writer in self._writers.items():
            with suppress(OSError):  # on a full disk the end cannot be written either
                writer.close()
            self._system.delete_file(self._path(name))

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.discard()

    def _flush(self, name: str) -> None:
        waiting = self._waiting.pop(name)
        self._waiting_bytes.pop(name)
        rows = pa.concat_tables(waiting)
        with writing(self._place):
            if name not in self._writers:
                self._writers[name] = writer_of(name, self._path(name), self._system, name in self._private)
            for row_group, some in hours.by_hour(name, rows):
                write_group(self._writers[name], some, self._run)
                self._row_groups.setdefault(name, []).append(row_group)
        self._rows[name] = self._rows.get(name, 0) + rows.num_rows

    def _path(self, name: str) -> str:
        return posixpath.join(_directory(self._staging, name), self._file)


def _directory(staging: str, name: str) -> str:
    return posixpath.join(staging, TABLES if name in ALL_SCHEMAS else _VIEWS, name)


def writer_of(
    table: str, path: str, system: fs.FileSystem, private: bool = False, microseconds: bool = False
) -> pq.ParquetWriter:
    """A Parquet writer with the settings of a table. The file is made by it.

    Only the owner may read it, from its first byte on, if private or the table is in ``PRIVATE``. That goes for local
    files; elsewhere the rules of that file system hold.
    """
    if (private or table in PRIVATE) and isinstance(system, fs.LocalFileSystem):
        Path(path).touch(mode=_OWNER_ALONE, exist_ok=False)
    schema = written(table, microseconds)
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    others = [name for name in schema.names if name not in _BODIES]
    return pq.ParquetWriter(
        path,
        schema,
        filesystem=system,
        compression=COMPRESSION,
        use_dictionary=[name for name in others if name not in times],
        column_encoding=dict.fromkeys(times, "DELTA_BINARY_PACKED"),
        write_statistics=others,
    )


def write_group(writer: pq.ParquetWriter, rows: pa.Table, run: str) -> None:
    """Write rows of a run, which are in the schema of their table, as one row group. What is smaller than the unit of
    times in the file is cut off."""
    if RUN.name in writer.schema.names:
        rows = rows.append_column(RUN, pa.repeat(pa.scalar(run), rows.num_rows))
    writer.write_table(rows.cast(writer.schema, safe=False), row_group_size=max(1, rows.num_rows))


def written(table: str, microseconds: bool = False) -> pa.Schema:
    """The schema of a table in its files: names as strings, which they are for all readers, and the run."""
    schema = SCHEMAS_WITH_VIEWS[table]
    if microseconds:
        schema = pa.schema([field.with_type(_in_microseconds(field.type)) for field in schema], schema.metadata)
    plain = [field.with_type(field.type.value_type) if field.type == FILE else field for field in schema]
    return pa.schema([*plain, RUN] if table in ALL_SCHEMAS else plain, schema.metadata)


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_microseconds(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_microseconds(field.type)) for field in kind])
    return kind


def stored(staging: str, part: Part) -> Iterator[pa.Table]:
    """The rows of a part, a row group at a time."""
    system, path = locate(staging)
    with pq.ParquetFile(posixpath.join(_directory(path, part.table), part.file), filesystem=system) as file:
        for group in range(file.num_row_groups):
            schema = SCHEMAS_WITH_VIEWS[part.table]
            yield file.read_row_group(group, columns=schema.names).cast(schema)


def datasets_of(staging: str, parts: Iterable[Part]) -> dict[str, ds.Dataset]:
    """The tables that are made of these parts, by name; other files that lie beside them are left out."""
    system, path = locate(staging)
    files: dict[str, list[str]] = {}
    for part in parts:
        files.setdefault(part.table, []).append(posixpath.join(_directory(path, part.table), part.file))
    return {
        name: ds.dataset(sorted(found), schema=SCHEMAS_WITH_VIEWS[name], format="parquet", filesystem=system)
        for name, found in files.items()
    }


def resolve_part(staging: str, part: Part, names: Mapping[str, str]) -> Part:
    """Write a part anew with the names that are known for topics in it; the old file stays until the commit."""
    written = rewrite_part(staging, part, map(TopicNames(names).resolve, stored(staging, part)))
    return replace(written, unresolved=part.unresolved - names.keys())


def rewrite_part(staging: str, part: Part, groups: Iterable[pa.Table], microseconds: bool = False) -> Part:
    """Write a part anew with other row groups of as many rows; the old file stays until the commit.

    With microseconds, what is smaller is cut off from times.
    """
    system, path = locate(staging)
    run = run_of(staging)
    file = f"{part.file.rsplit('-', 1)[0]}-{uuid.uuid4().hex[:16]}.parquet"
    directory = _directory(path, part.table)
    private = _is_private(system, posixpath.join(directory, part.file))
    target = posixpath.join(directory, file)
    with writing(above(staging)), writer_of(part.table, target, system, private, microseconds) as new:
        for rows in groups:
            write_group(new, rows, run)
    return replace(part, file=file)


def write_bin(staging: str, one: hours.Bin, microseconds: bool) -> Iterator[Part]:
    """Write the files of a bin; the parts that it is made of stay until the commit."""
    system, path = locate(staging)
    run, directory = run_of(staging), _directory(path, one.table)
    private = _is_private(system, posixpath.join(directory, one.pieces[0].file))
    for hour, rows in hours.files_of(one, directory, system):
        file = f"{hours.directory_of(hour)}/{part_name(one.number, run)}"
        target = posixpath.join(directory, file)
        with writing(above(staging)):
            _make_directory_of(target, system)
            with writer_of(one.table, target, system, private, microseconds) as new:
                for some in hours.row_groups(one.table, rows):
                    write_group(new, some, run)
        yield Part(one.table, file, rows.num_rows, frozenset())


def move_to_null(staging: str, part: Part) -> Part:
    """Put a part where rows without an hour are."""
    system, path = locate(staging)
    directory = _directory(path, part.table)
    moved = replace(part, file=f"{hours.directory_of(None)}/{part.file}")
    with writing(above(staging)):
        _make_directory_of(posixpath.join(directory, moved.file), system)
        system.move(posixpath.join(directory, part.file), posixpath.join(directory, moved.file))
    return moved


def _make_directory_of(file: str, system: fs.FileSystem) -> None:
    """Make the directory of a file, where there are directories: in object stores they come with their files."""
    if system.type_name in _RENAMES_DIRECTORIES:
        system.create_dir(posixpath.dirname(file))


def _is_private(system: fs.FileSystem, path: str) -> bool:
    return isinstance(system, fs.LocalFileSystem) and Path(path).stat().st_mode & 0o777 == _OWNER_ALONE
