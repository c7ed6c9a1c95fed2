"""``analyze --by-hour``: the large tables in directories by hour, so that a query of few minutes reads little.

    OUT/tables/exchanges/date=2026-11-21/hour=06/part-00003-RUN-<random>.parquet

Hive's way to write partitions, which Spark, pyarrow, DuckDB and Hive read as columns ``date`` and ``hour`` (UTC). Rows
without a time are in Hive's directory for null.

The tasks that decode write row groups of one hour each (`by_hour`). When all is decoded, those of an hour are brought
together, some `_FILE_BYTES` to a file, and sorted: by spans of `SPAN`, then by group or topic, then by time. Row groups
are of one span each, and small. So by the statistics of row groups alone a reader leaves out all but a twelfth of an
hour for a minute, and what is of other groups or topics.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from kafkascope.reports.vocabulary.tables import SCHEMAS
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.units import SECOND_NS

HOUR = 3600 * SECOND_NS
SPAN = 300 * SECOND_NS
MOST_HOURS = 10_000
"""More than a year: clocks that are wrong could make a directory of each packet."""

_FILE_BYTES = 128 << 20  # of rows in memory, which a task holds twice while it sorts them
_ROW_GROUP_BYTES = 4 << 20
_MOST_CUTS = 64  # of rows that are written at once: those of more hours stay one row group, which is cut at the end
_NULL = "__HIVE_DEFAULT_PARTITION__"
_DIRECTORY = re.compile(rf"date=(\d{{4}}-\d\d-\d\d|{_NULL})(/hour=(\d\d|{_NULL}))?")
_NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class _Sorted:
    """How rows of a table are sorted."""

    times: tuple[str, ...]  # the first one that a row has
    subject: str


TABLES = {
    "exchanges": _Sorted(("requested", "answered"), "group_id"),
    "errors": _Sorted(("at",), "group_id"),
    "partitions": _Sorted(("at",), "topic"),
    "batches": _Sorted(("at",), "topic"),
    "records": _Sorted(("at",), "topic"),
    "tcp_health": _Sorted(("at",), "host"),
}
"""Those with a row for each packet, message or record, or each span of a connection; all others stay small."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One of a part: its rows are of one hour, or of so many that they are few of each."""

    hours: tuple[int | None, ...]  # since 1970; None: rows without a time
    bytes: int  # of its rows in memory


@dataclass(frozen=True, slots=True)
class Piece:
    """A row group of a part."""

    file: str  # of the part, in the directory of its table
    row_group: int


@dataclass(frozen=True, slots=True)
class Bin:
    """What one file of one hour is made of, or a file for each of several hours."""

    table: str
    hours: tuple[int | None, ...]
    number: int  # among all bins
    pieces: tuple[Piece, ...]


def directory_of(hour: int | None) -> str:
    """Where the rows of an hour lie in the directory of their table."""
    if hour is None:
        return f"date={_NULL}/hour={_NULL}"
    at = datetime.fromtimestamp(hour * 3600, UTC)
    return f"date={at:%Y-%m-%d}/hour={at:%H}"


def is_directory(name: str) -> bool:
    """Whether `directory_of` gives such names, or this is the first part of one."""
    return _DIRECTORY.fullmatch(name) is not None


def by_hour(table: str, rows: pa.Table) -> Iterator[tuple[RowGroup | None, pa.Table]]:
    """Rows of a table as row groups: by hour, each in their order.

    What is of no such table, or of more than `MOST_HOURS`, is in one piece, of which no hours are told.
    """
    if table not in TABLES or not rows.num_rows:
        yield None, rows
        return
    of_rows = _hours(table, rows)
    distinct = np.unique(of_rows)
    if len(distinct) > MOST_HOURS:
        yield None, rows
    elif len(distinct) > _MOST_CUTS or len(distinct) == 1:
        yield RowGroup(tuple(map(_told, distinct.tolist())), rows.nbytes), rows
    else:
        for hour in distinct.tolist():
            some = rows.filter(pa.array(of_rows == hour))
            yield RowGroup((_told(hour),), some.nbytes), some


def bins(table: str, parts: Iterable[tuple[str, Sequence[RowGroup | None]]], first: int) -> list[Bin] | None:
    """What the files of a table are made of, given its parts; None if their hours are too many, or not told.

    first: number of the first of the bins.
    """
    of_hours: dict[tuple[int | None, ...], list[tuple[Piece, int]]] = {}
    for file, row_groups in parts:
        for place, row_group in enumerate(row_groups):
            if row_group is None:
                return None
            of_hours.setdefault(row_group.hours, []).append((Piece(file, place), row_group.bytes))
    if len({hour for hours in of_hours for hour in hours}) > MOST_HOURS:
        return None
    found: list[Bin] = []
    for hours, listed in of_hours.items():
        pieces: list[Piece] = []
        held = 0
        for piece, size in listed:
            if pieces and held + size > _FILE_BYTES:
                found.append(Bin(table, hours, first + len(found), tuple(pieces)))
                pieces, held = [], 0
            pieces.append(piece)
            held += size
        found.append(Bin(table, hours, first + len(found), tuple(pieces)))
    return found


def files_of(one: Bin, directory: str, system: fs.FileSystem) -> Iterator[tuple[int | None, pa.Table]]:
    """The rows of a bin, by hour, each as one file has them; directory: that of the table."""
    rows = _rows_of(one, directory, system)
    of_rows = _hours(one.table, rows)
    for hour in one.hours:
        yield hour, rows.filter(pa.array(of_rows == (_NO_TIME if hour is None else hour)))


def _told(hour: int) -> int | None:
    return None if hour == _NO_TIME else hour


def _rows_of(one: Bin, directory: str, system: fs.FileSystem) -> pa.Table:
    schema = SCHEMAS[one.table]
    found = []
    for piece in one.pieces:
        with pq.ParquetFile(posixpath.join(directory, piece.file), filesystem=system) as file:
            found.append(file.read_row_group(piece.row_group, columns=schema.names).cast(schema))
    return pa.concat_tables(found)


def row_groups(table: str, rows: pa.Table) -> Iterator[pa.Table]:
    """Rows of one hour as they are written: sorted, a row group at a time."""
    times, place = _times(table, rows), np.arange(len(rows))
    spans = np.where(times == _NO_TIME, _NO_TIME, times // SPAN)
    keys = pa.table(
        {
            "span": spans,
            "subject": rows[TABLES[table].subject],
            "time": times,
            "connection": rows["connection"],
            "number": rows["number"] if "number" in rows.schema.names else place,
            "place": place,
        }
    )
    order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
    step = max(1, _ROW_GROUP_BYTES * len(rows) // max(1, rows.nbytes))
    rows, spans = rows.take(order), spans[order.to_numpy()]
    edges = [0, *(np.flatnonzero(np.diff(spans)) + 1).tolist(), len(rows)]
    for begin, end in pairwise(edges):
        for first in range(begin, end, step):
            yield rows.slice(first, min(step, end - first))


def _hours(table: str, rows: pa.Table) -> I64:
    times = _times(table, rows)
    hours: I64 = np.where(times == _NO_TIME, _NO_TIME, times // HOUR)
    return hours


def _times(table: str, rows: pa.Table) -> I64:
    columns = [rows[name].cast(pa.int64()) for name in TABLES[table].times]
    times: I64 = pc.fill_null(pc.coalesce(*columns), _NO_TIME).to_numpy()
    return times
