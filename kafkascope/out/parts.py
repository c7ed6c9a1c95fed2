"""Parts: the files that the tasks of an analysis write in its staging directory, and what is made of them there.

Nothing is changed that is there already, for tasks are tried again: what is written anew is another part, and the old
one stays until the commit.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset as ds
from pyarrow import fs

from kafkascope.out import hours
from kafkascope.out.errors import writing
from kafkascope.out.names import part_name, run_of, staging_name, table_directory
from kafkascope.out.parquet import is_private, write_group, writer_of
from kafkascope.reports.columns.topics import ID_PREFIX, TopicNames
from kafkascope.reports.measures.summary import Summary
from kafkascope.reports.views.registry import SCHEMAS_WITH_VIEWS
from kafkascope.sniffer.sources.places import above, locate

_ROW_GROUP_BYTES = 32 << 20
_RENAMES_DIRECTORIES = frozenset({"local", "hdfs"})  # object stores move one file at a time


@dataclass(frozen=True, slots=True)
class Part:
    """One Parquet file of a table, or of the rows of a view."""

    table: str
    file: str  # name in the table's directory
    rows: int
    unresolved: frozenset[str]  # topics in it that are known by id alone
    row_groups: tuple[hours.RowGroup | None, ...] = ()  # as ``hours.by_hour`` has them

    def path(self, staging: str) -> str:
        """Where it is below a staging directory, or OUT."""
        return posixpath.join(table_directory(staging, self.table), self.file)


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
        return posixpath.join(table_directory(self._staging, name), self._file)


def stored(staging: str, part: Part) -> Iterator[pa.Table]:
    """The rows of a part, a row group at a time."""
    system, path = locate(staging)
    with pq.ParquetFile(part.path(path), filesystem=system) as file:
        for group in range(file.num_row_groups):
            schema = SCHEMAS_WITH_VIEWS[part.table]
            yield file.read_row_group(group, columns=schema.names).cast(schema)


def datasets_of(staging: str, parts: Iterable[Part]) -> dict[str, ds.Dataset]:
    """The tables that are made of these parts, by name; other files that lie beside them are left out."""
    system, path = locate(staging)
    files: dict[str, list[str]] = {}
    for part in parts:
        files.setdefault(part.table, []).append(part.path(path))
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
    anew = replace(part, file=f"{part.file.rsplit('-', 1)[0]}-{uuid.uuid4().hex[:16]}.parquet")
    private = is_private(system, part.path(path))
    with writing(above(staging)), writer_of(part.table, anew.path(path), system, private, microseconds) as new:
        for rows in groups:
            write_group(new, rows, run)
    return anew


def write_bin(staging: str, one: hours.Bin, microseconds: bool) -> Iterator[Part]:
    """Write the files of a bin; the parts that it is made of stay until the commit."""
    system, path = locate(staging)
    run, directory = run_of(staging), table_directory(path, one.table)
    private = is_private(system, posixpath.join(directory, one.pieces[0].file))
    for hour, rows in hours.files_of(one, directory, system):
        part = Part(one.table, f"{hours.directory_of(hour)}/{part_name(one.number, run)}", rows.num_rows, frozenset())
        with writing(above(staging)):
            make_directory_of(part.path(path), system)
            with writer_of(one.table, part.path(path), system, private, microseconds) as new:
                for some in hours.row_groups(one.table, rows):
                    write_group(new, some, run)
        yield part


def move_to_null(staging: str, part: Part) -> Part:
    """Put a part where rows without an hour are."""
    system, path = locate(staging)
    moved = replace(part, file=f"{hours.directory_of(None)}/{part.file}")
    with writing(above(staging)):
        make_directory_of(moved.path(path), system)
        system.move(part.path(path), moved.path(path))
    return moved


def staging_of(parent: str, run: str, tables: Iterable[str]) -> str:
    """A local staging directory, made, for parts of a run that are kept from one commit to the next."""
    staging = posixpath.join(parent, staging_name(run))
    for table in tables:
        os.makedirs(table_directory(staging, table))
    return staging


def link_part(part: Part, source: str, target: str) -> None:
    """Let a part of one local staging directory be in another one too."""
    link(*(part.path(staging) for staging in (source, target)))


def link(source: str, target: str) -> None:
    """Let a local file have a second name, in a directory that is made if need be; a copy where that cannot be."""
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def renames_directories(system: fs.FileSystem) -> bool:
    """Whether a file system moves a directory with all that is in it at once."""
    return system.type_name in _RENAMES_DIRECTORIES


def make_directory_of(file: str, system: fs.FileSystem) -> None:
    """Make the directory of a file, where there are directories: in object stores they come with their files."""
    if renames_directories(system):
        system.create_dir(posixpath.dirname(file))
