"""Tables on disk until they are looked at."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from kafkascope.reports.columns.text import counted
from kafkascope.reports.views.registry import SCHEMAS_WITH_VIEWS
from kafkascope.sniffer.issues import Issue
from kafkascope.temporary import TemporaryDirectory

SHARE_OF_FREE_SPACE = 2
"""Without a quota a spool may take one in so many of the bytes that are free when it is made."""

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_WRITTEN_BYTES = 1 << 20
"""Rows of a table are written when they are so many, as who looks at it takes as long for a few as for many."""

_PARTS_OF_QUOTA = 64
"""Rows are written when they are such a part of the quota at the latest, so that what fits into it is kept."""


@dataclass(slots=True)
class _Kept:
    """What is kept of one table."""

    held: list[pa.Table] = field(default_factory=list)  # rows that are not written yet
    held_bytes: int = 0
    bytes: int = 0  # on disk, as the rows below
    rows: int = 0
    rows_left_out: int = 0
    is_full: bool = False


class Spool:
    """Tables and rows of views on their way out of memory: one Arrow file each, until they are looked at.

    A table takes no more rows once some did not fit in the quota or on the disk: what is kept are its first ones.
    One that is finished, in a directory of somebody else, can be handed to another process.
    """

    def __init__(self, quota_bytes: int | None = None, directory: Path | None = None, share_of: int = 1) -> None:
        """quota_bytes: what all tables together may take on disk; None: half of what is free there.

        directory: where to keep them; None: one of its own, which goes with it. share_of: spools that share the quota.
        """
        if directory is None:
            self._own = TemporaryDirectory()
            directory = self._own.path
        self._directory = directory
        free = shutil.disk_usage(self._directory).free
        self._quota = (free // SHARE_OF_FREE_SPACE if quota_bytes is None else quota_bytes) // share_of
        self._at_once = min(_WRITTEN_BYTES, self._quota // _PARTS_OF_QUOTA)
        self._tables: dict[str, _Kept] = {}
        # Arrow streams of those on their way, which can be read behind each of their batches.
        self._open: dict[str, tuple[pa.NativeFile, pa.ipc.RecordBatchStreamWriter]] = {}

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        """Append rows. Raises OSError, as finish does, unless it is that there is no more room."""
        for name, rows in tables.items():
            table = self._tables.setdefault(name, _Kept())
            table.held.append(rows)
            table.held_bytes += rows.nbytes
            if table.held_bytes > self._at_once:
                self._write_held(name)

    def finish(self) -> None:
        """No more rows come."""
        for name in self._tables:
            self._write_held(name)
        with self._room_told():
            for name, (file, stream) in self._open.items():
                if not self._tables[name].is_full:
                    stream.close()
                file.close()
            self._open.clear()

    def issues(self) -> Iterator[Issue]:
        """An issue for each table that lacks rows."""
        for name, table in self._tables.items():
            if table.rows_left_out:
                yield Issue(
                    "spool_full",
                    f"{name}: the first {counted(table.rows, 'row')} were kept, {table.rows_left_out:,} were not, as "
                    f"the {self._quota:,} bytes that tables may take in {tempfile.gettempdir()}, or the disk, are used "
                    "up; set TMPDIR to a disk with more room (in Python also spool_bytes)",
                )

    def table(self, name: str) -> pa.Table:
        """The rows of one table, mapped from disk; empty if none were written. Raises OSError, as write does."""
        if name in self._tables:
            self._write_held(name)
        if name not in self._tables or not self._tables[name].rows:
            return SCHEMAS_WITH_VIEWS[name].empty_table()
        return pa.ipc.open_stream(pa.memory_map(self._path(name))).read_all()

    def _write_held(self, name: str) -> None:
        table = self._tables[name]
        if not table.held:
            return
        rows = table.held[0] if len(table.held) == 1 else pa.concat_tables(table.held).combine_chunks()
        table.held, table.held_bytes = [], 0
        with self._room_told():
            if name not in self._open:
                file = pa.OSFile(self._path(name), "wb")
                self._open[name] = file, pa.ipc.new_stream(file, SCHEMAS_WITH_VIEWS[name])
            if not table.is_full and self._append(name, table, rows):
                table.rows += len(rows)
            else:
                table.is_full = True
                table.rows_left_out += len(rows)

    def _append(self, name: str, table: _Kept, rows: pa.Table) -> bool:
        """Write rows, or nothing of them."""
        if sum(one.bytes for one in self._tables.values()) + rows.nbytes > self._quota:
            return False
        file, stream = self._open[name]
        try:
            stream.write_table(rows)
        except OSError as error:
            if error.errno not in _NO_SPACE:
                raise
            os.truncate(self._path(name), table.bytes)
            return False
        table.bytes = file.tell()
        return True

    @contextmanager
    def _room_told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = self._directory
            advice = "set TMPDIR to a directory with more room"
            raise OSError(error.errno, f"tables could not be kept in {place}: {error.strerror}; {advice}") from error

    def _path(self, name: str) -> str:
        return str(self._directory / f"{name}.arrow")


class Spooled:
    """Rows of several spools, and others, as one; what `Capture` asks of a spool."""

    def __init__(
        self,
        spools: Iterable[Spool],
        more: Iterable[Mapping[str, pa.Table]] = (),
        directory: TemporaryDirectory | None = None,
    ) -> None:
        """directory: where they are, if it is to go with this."""
        self._directory = directory
        self._spools = list(spools)
        self._more = list(more)

    def table(self, name: str) -> pa.Table:
        """The rows of one table."""
        parts = [spool.table(name) for spool in self._spools]
        parts += [tables[name] for tables in self._more if name in tables]
        return pa.concat_tables(parts) if parts else SCHEMAS_WITH_VIEWS[name].empty_table()

    def issues(self) -> Iterator[Issue]:
        """What found no room on disk."""
        for spool in self._spools:
            yield from spool.issues()
