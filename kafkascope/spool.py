"""Tables on disk until they are looked at."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from reports.view_registry import SCHEMAS_WITH_VIEWS


class Spool:
    """Tables and rows of views on their way out of memory: one Arrow file each, until they are looked at."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="kafkascope-")
        self._writers: dict[str, pa.ipc.RecordBatchFileWriter] = {}

    def write(self, tables: Mapping[str, pa.Table]) -> None:
        """Append rows. Raises OSError, as finish does."""
        with self._kept():
            for name, rows in tables.items():
                if name not in self._writers:
                    self._writers[name] = pa.ipc.new_file(self._path(name), SCHEMAS_WITH_VIEWS[name])
                self._writers[name].write_table(rows)

    def finish(self) -> None:
        """No more rows come."""
        with self._kept():
            for writer in self._writers.values():
                writer.close()

    def table(self, name: str) -> pa.Table:
        """All rows of one table, mapped from disk; empty if none were written."""
        if name not in self._writers:
            return SCHEMAS_WITH_VIEWS[name].empty_table()
        return pa.ipc.open_file(pa.memory_map(self._path(name))).read_all()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = self._directory.name
            advice = "set TMPDIR to a directory with more room"
            raise OSError(error.errno, f"tables could not be kept in {place}: {error.strerror}; {advice}") from error

    def _path(self, name: str) -> str:
        return str(Path(self._directory.name) / f"{name}.arrow")
