"""The directory that an analysis makes: checked, filled beside its place, and put in place as a whole.

What lies there is in `names`. Places may be URIs (``sniffer.sources.places``); without a scheme they are local paths.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset as ds
from pyarrow import fs

from kafkascope.out import hours
from kafkascope.out.errors import FULL, OutputError, write_error, writing
from kafkascope.out.names import (
    LOCK,
    OWN,
    REPORT,
    SUMMARY,
    TABLES,
    WATCHED,
    is_directory,
    is_of_a_run,
    is_part,
    is_staging_name,
    new_run,
    part_name,
    run_of_part,
    staging_name,
    table_directory,
)
from kafkascope.out.ownership import HeldError, lock, this_run, unlock
from kafkascope.out.parquet import writer_of
from kafkascope.out.parts import Part, datasets_of, link, make_directory_of, renames_directories
from kafkascope.reports.vocabulary.tables import SCHEMA_VERSION
from kafkascope.sniffer.origins import CapturedFile
from kafkascope.sniffer.sources.places import below, is_uri, locate, told

_OWNER = "owner"  # in a staging directory
_COUNTED, _REPLACED = "counted", "replaced"  # there too: what is put in place, and what was there


@dataclass(frozen=True, slots=True)
class Layout:
    """How an analysis writes its tables."""

    microseconds: bool = False  # times are cut to that unit at the end; what is told of the rows goes by whole times
    by_hour: bool = False  # the rows of each hour of large tables are brought together at the end, see ``hours``


PLAIN = Layout()


def runs_of(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The summaries of all runs of a directory, given its own."""
    found: list[dict[str, Any]] = summary.get("runs", [summary])
    return found


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
        name = staging_name(self.run)
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
        names = [name for name in found if name not in (LOCK, WATCHED) and not self._is_staging(name)]
        if names and not self._overwrite and not self._append:
            raise OutputError(
                f"{self.place} exists and is not empty; give another directory, or --overwrite, or --append"
            )
        strange = [name for name in names if TABLES not in names or name not in OWN]
        if TABLES in names:
            tables = posixpath.join(self._path, TABLES)
            for entry in self._system.get_file_info(fs.FileSelector(tables, recursive=True)):
                name = entry.path[len(tables) + 1 :]
                if not (is_directory(name) if entry.type == fs.FileType.Directory else is_part(name)):
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
                self._system.create_dir(table_directory(self._staging, name))
        except OSError as error:
            self.abort()
            if error.errno in FULL:
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
                self._lock = lock(posixpath.join(self._path, LOCK), owner)
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
        replaced = [name for name in OWN if self._is_there(posixpath.join(aside, name))]
        if not self._is_there(tables):  # they go first, when all that was there is away: what is there now is new
            for name in OWN:
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
        if not is_staging_name(name):
            return False
        selector = fs.FileSelector(posixpath.join(self._path, name), recursive=True, allow_not_found=True)
        return self._owner(name) is not None or all(
            is_of_a_run(posixpath.basename(entry.path))
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
            elif renames_directories(self._system):
                self._exchange(parts, made)
            else:
                self._replace(parts, made)
            self._end()

    def _empty(self, table: str) -> Part:
        """A part without rows."""
        directory = f"{hours.directory_of(None)}/" if self.layout.by_hour and table in hours.TABLES else ""
        part = Part(table, f"{directory}{part_name(0, self.run)}", 0, frozenset())
        path = part.path(self._staging)
        make_directory_of(path, self._system)
        writer_of(table, path, self._system, microseconds=self.layout.microseconds).close()
        return part

    def _move_parts(self, parts: Iterable[Part], target: str) -> None:
        for part in parts:
            self._system.move(part.path(self._staging), part.path(target))

    def _exchange(self, parts: Iterable[Part], made: Iterable[str]) -> None:
        """Put what was made in the place of what was there; all of it, or nothing."""
        counted, aside = (posixpath.join(self._staging, name) for name in (_COUNTED, _REPLACED))
        parts = list(parts)
        for place in sorted({posixpath.dirname(part.path(counted)) for part in parts}):
            self._system.create_dir(place)
        self._move_parts(parts, counted)
        for file in self._parts_of(self.earlier):
            link(posixpath.join(self._path, TABLES, file), posixpath.join(counted, TABLES, file))
        self._system.create_dir(aside)
        moves = [(posixpath.join(self._path, name), posixpath.join(aside, name)) for name in reversed(OWN)]
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
            make_directory_of(part.path(self._path), self._system)
        self._move_parts(parts, self._path)
        for name in made:
            if name != TABLES:
                if renames_directories(self._system):  # others put a file in the place of one at once
                    self._remove(posixpath.join(self._path, name))
                self._system.move(posixpath.join(self._staging, name), posixpath.join(self._path, name))

    def _replace(self, parts: Iterable[Part], made: Iterable[str]) -> None:
        """The same where directories cannot be moved, and so not all at once."""
        for name in reversed(OWN):
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
                unlock(posixpath.join(self._path, LOCK), self._lock)
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
