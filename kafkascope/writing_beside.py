"""Exchanges written by a process beside, while this one reads on: records and text are up to two thirds of all work.

It is one process, which is handed the exchanges in their order through a pipe, so lines are in order as well. Records
are handed to it as they travelled (`records_apart.field_rows`), which are fewer bytes than their columns.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter

import pyarrow as pa

from kafkascope.ahead import ahead
from kafkascope.exchange_output import TextWriter, with_records
from kafkascope.outlet import Writable
from kafkascope.program import Remark
from kafkascope.reading import Batch, Reading
from kafkascope.reports.columns.parties import ExchangePlaces
from kafkascope.reports.rows.records_apart import FIELDS_WITH_RECORDS, record_tables
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR, LIMITED
from kafkascope.side_by_side import Other, side_by_side
from kafkascope.sniff_options import SniffOptions
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.origins import NO_ORIGINS

_WAITING = 4  # parts that wait for the one that is written, so that neither process waits for the other for long
_ENOUGH = 3  # tables that it has not come to: with fewer it may soon have nothing to do
_PIPE_BYTES = 1 << 20  # what anyone may have (pipe(7)): with 64 kB both processes wake up thousands of times a second
_KINDS = ("exchanges", "records", FIELDS_WITH_RECORDS)  # of tables in the pipe: a byte with the place before each


class _Count:
    """A number that processes which are forked share."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)

    @property
    def count(self) -> int:
        """So far."""
        return int.from_bytes(self._shared[:], sys.byteorder)

    def add_one(self) -> None:
        """Of one process alone."""
        self._shared[:] = (self.count + 1).to_bytes(8, sys.byteorder)


@dataclass(frozen=True, slots=True)
class _Said:
    """What the other process has to say in the end."""

    issues: list[Issue]
    remarks: list[str]


class WriterBeside:
    """See `exchange_output.Writer`; records may come behind their exchanges, or fields with them in their place.

    What goes wrong in the other process is raised here, by the next call.
    """

    def __init__(self, other: Other[_Said], pipe: BufferedWriter, taken: _Count, remark: Remark) -> None:
        """pipe: to the other process. taken: tables that it took out. remark: is told at the end what it has to say."""
        self._other = other
        self._pipe = pipe
        self._given = 0
        self._taken = taken
        self._remark = remark
        self._latest: ExchangePlaces | None = None  # of exchanges that were chosen last, whose records may come
        self._all_chosen = True

    def write(self, exchanges: pa.Table | None, rows: Mapping[str, pa.Table]) -> list[Issue]:
        """See `Writer`."""
        if (of_batch := rows.get("exchanges")) is not None:
            self._latest = None if exchanges is None else ExchangePlaces(exchanges)
            self._all_chosen = exchanges is not None and len(exchanges) == len(of_batch)
        if exchanges is not None:
            self._send("exchanges", exchanges)
        for name in _KINDS[1:]:
            if self._latest is None or (some := rows.get(name)) is None:
                continue
            if not self._all_chosen:
                some = some.filter(pa.array(self._latest.of(some) >= 0))
            if len(some):
                self._send(name, some)
        return []

    def waits(self) -> bool:
        """Whether the other process has next to nothing left to do: then it had better be given more of the work."""
        return self._given - self._taken.count < _ENOUGH

    def _send(self, name: str, table: pa.Table) -> None:
        try:
            self._pipe.write(bytes([_KINDS.index(name)]))
            with pa.ipc.new_stream(self._pipe, table.schema) as stream:
                stream.write_table(table)
            self._pipe.flush()
            self._given += 1
        except BrokenPipeError:
            self._other.answer()  # tells why nobody reads
            raise

    def finish(self) -> list[Issue]:
        """See `Writer`."""
        with suppress(BrokenPipeError):
            self._pipe.close()
        said = self._other.answer()
        for text in said.remarks:
            self._remark(text)
        return said.issues


@contextmanager
def writer_beside(reading: Reading, options: SniffOptions, out: Writable, remark: Remark) -> Iterator[WriterBeside]:
    """Who hands the exchanges of a reading to another process, which ends with the context at the latest.

    While that process waits for more, the reading hands on records as they travelled; else it makes columns of them. If
    the reading ends with an error, what was handed over is written all the same.
    """
    theirs, ours = os.pipe()
    with suppress(OSError):  # the kernel bounds what the pipes of one user take: then it stays as it is
        fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    count = _Count()
    with open(theirs, "rb") as taken, open(ours, "wb") as given:

        def work() -> _Said:
            given.close()  # or it would wait for itself
            return _write_all(taken, options, out, count)

        with side_by_side([work]) as (other,):
            taken.close()
            writer = WriterBeside(other, given, count, remark)
            if options.pseudonyms is None:  # which are put in where exchanges are
                reading.hand_on_records(writer.waits)
            try:
                yield writer
            except Exception:
                with suppress(Exception):
                    writer.finish()
                raise
            finally:
                with suppress(BrokenPipeError):
                    given.close()


def _write_all(taken: BufferedReader, options: SniffOptions, out: Writable, count: _Count) -> _Said:
    writer = TextWriter(options.display, out)
    faults, of_records = IssueLog(), IssueLog()  # which threads fill
    remarks: list[str] = []
    batches = _counted(ahead(_received(taken, options, of_records), depth=_WAITING), count)
    for batch in with_records(batches, remarks.append) if options.display.records else batches:
        for issue in writer.write(batch.tables["exchanges"], batch.tables):
            faults.add(issue)
        out.flush()
    for issue in [*writer.finish(), *of_records]:
        if issue.kind in LIMITED or issue.kind == INTERNAL_ERROR:
            faults.add(issue)
    return _Said(list(faults), remarks)


def _counted(batches: Iterable[Batch | None], count: _Count) -> Iterator[Batch]:
    for batch in batches:
        if batch is None:
            count.add_one()
        else:
            yield batch


def _received(taken: BufferedReader, options: SniffOptions, issues: IssueLog) -> Iterator[Batch | None]:
    """What each table gives, and None behind that."""
    secret_names = None if options.show_secrets else options.secret_names
    while kind := taken.read(1):
        name, rows = _KINDS[kind[0]], pa.ipc.open_stream(taken).read_all()
        if name == FIELDS_WITH_RECORDS:
            for records in record_tables(rows, secret_names, issues, NO_ORIGINS, options.limits, of_batches=True):
                yield Batch({"records": records}, {})
        else:
            yield Batch({name: rows}, {})
        yield None
