"""Records that a task hands on to others, of one connection that has most of a capture's bytes, say.

What makes a connection one is done in one task: its segments in order, its frames, its exchanges, and all that hangs on
exchanges before. Records hang on nothing, and are most of the work where they are wanted. So a task reads those of its
first bytes itself, and puts the fields with the others beside the tables that it writes; a job of its own reads these,
evenly spread.

    OUT/.staging-RUN/handed-on/part-00003-RUN-<random>.parcels       Arrow streams of some fields, one behind the other
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyspark import TaskContext

from kafkascope.engine import EngineOptions
from kafkascope.out.errors import writing
from kafkascope.out.names import HANDED_ON, part_name, run_of
from kafkascope.out.parts import PartWriter
from kafkascope.out.pipeline import Written
from kafkascope.reports.rows.records_apart import record_tables
from kafkascope.sniffer.sources.places import above, locate

RECORDS_HERE_BYTES = 16 << 20
"""Bytes of fields whose records a task reads itself: half of what each gets of a capture that is evenly spread."""

ENOUGH_BYTES = 32 << 20
"""Bytes of fields for a task that reads what others handed on."""

_PARCEL_BYTES = 4 << 20  # of fields, unless one alone has more


@dataclass(frozen=True, slots=True)
class Place:
    """Where a parcel lies."""

    file: str
    begin: int
    end: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.begin


class HandedOn:
    """What one task hands on: a file, of its owner alone, made when there is something for it."""

    def __init__(self, staging: str, partition: int) -> None:
        self._system, path = locate(staging)
        self._staging = above(staging)
        self._file = part_name(partition, run_of(staging), "parcels")
        self._path = posixpath.join(path, HANDED_ON, self._file)
        self._stream: pa.NativeFile | None = None
        self.places: list[Place] = []

    def take(self, rows: pa.Table) -> None:
        """Take in rows of `records_apart.field_rows`. Raises `out.output.WriteError`."""
        ends = np.cumsum(pc.binary_length(rows["content"]).to_numpy())
        cuts = (np.flatnonzero(np.diff(ends // _PARCEL_BYTES)) + 1).tolist()
        with writing(self._staging):
            for first, last in zip([0, *cuts], [*cuts, len(ends)], strict=True) if len(ends) else ():
                self._write(rows.slice(first, last - first))

    def _write(self, rows: pa.Table) -> None:
        if self._stream is None:
            self._stream = _opened(self._system, self._path)
        begin = self._stream.tell()
        with pa.ipc.new_stream(self._stream, rows.schema) as parcel:
            parcel.write_table(rows)
        self.places.append(Place(self._file, begin, self._stream.tell()))

    def close(self) -> None:
        """Write the rest. Raises `out.output.WriteError`."""
        if self._stream is not None:
            with writing(self._staging):
                self._stream.close()


def _opened(system: fs.FileSystem, path: str) -> pa.NativeFile:
    system.create_dir(posixpath.dirname(path))
    if isinstance(system, fs.LocalFileSystem):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return system.open_output_stream(path, compression=None)


def write_records(places: Iterable[Place], staging: str, options: EngineOptions) -> Iterator[Written]:
    """The records of some parcels, written under staging; of issues with them that there are some."""
    system, path = locate(staging)
    secret_names = None if options.reveal_secrets else options.secret_names
    context = TaskContext.get()
    with PartWriter(staging, context.partitionId() if context else 0) as writer:
        written = Written(summary=writer.summary)
        for place in places:
            with system.open_input_file(posixpath.join(path, HANDED_ON, place.file)) as file:
                file.seek(place.begin)
                content = file.read_buffer(place.size)
            with pa.ipc.open_stream(content) as parcel:
                fields = parcel.read_all()
            for rows in record_tables(fields, secret_names, written.issues, options.origins, options.session.limits):
                writer.write({"records": rows})
        written.parts = writer.finish()
    yield written
