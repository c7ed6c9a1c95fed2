"""Exchanges written by a process beside, while this one reads on: their text is up to two fifths of all work.

It is one process, which is handed the exchanges in their order through a pipe, so lines are in order as well.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter

import pyarrow as pa

from kafkascope.ahead import ahead
from kafkascope.exchange_output import TextWriter
from kafkascope.outlet import Writable
from kafkascope.side_by_side import Other, side_by_side
from kafkascope.sniff_options import Display
from kafkascope.sniffer.issues import Issue

_WAITING = 2  # parts that wait for the one that is written, so that neither process waits for the other for long
_PIPE_BYTES = 1 << 20  # what anyone may have (pipe(7)): with 64 kB both processes wake up thousands of times a second


class WriterBeside:
    """See `exchange_output.Writer`. What goes wrong in the other process is raised here, by the next call."""

    def __init__(self, other: Other[list[Issue]], pipe: BufferedWriter) -> None:
        """pipe: to the other process."""
        self._other = other
        self._pipe = pipe

    def write(self, exchanges: pa.Table, records: pa.Table | None) -> list[Issue]:
        """See `Writer`."""
        try:
            for table in (exchanges,) if records is None else (exchanges, records):
                with pa.ipc.new_stream(self._pipe, table.schema) as stream:
                    stream.write_table(table)
            self._pipe.flush()
        except BrokenPipeError:
            self._other.answer()  # tells why nobody reads
            raise
        return []

    def finish(self) -> list[Issue]:
        """See `Writer`."""
        with suppress(BrokenPipeError):
            self._pipe.close()
        return self._other.answer()


@contextmanager
def writer_beside(display: Display, out: Writable) -> Iterator[WriterBeside]:
    """Who hands exchanges to another process, which ends with the context at the latest.

    If that ends with an error, what was handed over is written all the same.
    """
    theirs, ours = os.pipe()
    with suppress(OSError):  # the kernel bounds what the pipes of one user take: then it stays as it is
        fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    with open(theirs, "rb") as taken, open(ours, "wb") as given:

        def work() -> list[Issue]:
            given.close()  # or it would wait for itself
            return _write_all(taken, display, out)

        with side_by_side([work]) as (other,):
            taken.close()
            writer = WriterBeside(other, given)
            try:
                yield writer
            except Exception:
                with suppress(Exception):
                    writer.finish()
                raise
            finally:
                with suppress(BrokenPipeError):
                    given.close()


def _write_all(taken: BufferedReader, display: Display, out: Writable) -> list[Issue]:
    writer = TextWriter(display, out)
    faults = []
    for exchanges, records in ahead(_received(taken, display.records), depth=_WAITING):
        faults += writer.write(exchanges, records)
        out.flush()
    return faults + writer.finish()


def _received(taken: BufferedReader, has_records: bool) -> Iterator[tuple[pa.Table, pa.Table | None]]:
    while taken.peek(1):
        exchanges = pa.ipc.open_stream(taken).read_all()
        yield exchanges, pa.ipc.open_stream(taken).read_all() if has_records else None
