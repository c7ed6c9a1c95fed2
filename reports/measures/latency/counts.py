"""Durations counted in buckets by who, what and when; counts of many batches as the table ``latency``; percentiles of
any grouping of it. Counts are whole numbers, so merging is adding, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.kernels import kernel
from kafkascope.reports.columns.arrow import Numbers, changes, distinct_numbers, one_array
from kafkascope.reports.columns.hashing import empty_slots, slot_behind, slot_of
from kafkascope.reports.columns.series import (
    in_groups,
    names_of,
    replaced,
    shards,
    spans,
    width_of,
    without_the_smallest,
)
from kafkascope.reports.measures.latency.histogram import BUCKETS, buckets_of, percentiles
from kafkascope.reports.measures.latency.parts import PARTS, TOTAL
from kafkascope.reports.vocabulary.tables import LATENCY, LATENCY_CELL, LATENCY_COUNTS, TIME
from kafkascope.sniffer.columns import I32, I64
from kafkascope.sniffer.units import MILLISECOND_NS

WHO = ("api", "api_version", "broker", "client_id", "client", "acks")
_SERIES = ["api", "api_version", "broker", "client_id", "client", "topic", "acks"]
_FRACTIONS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
_PARTS = sorted(PARTS)
_ROWS_AT_ONCE = 16_384
_PLACES = {part: place for place, part in enumerate(_PARTS)}
# Part and bucket as the lower bits of a number, which are taken apart sooner than remainders are computed.
_BUCKET_BITS = BUCKETS.bit_length()
_CELL_BITS = len(PARTS).bit_length() + _BUCKET_BITS


@dataclass(frozen=True, slots=True)
class Spent:
    """Durations of one part: whose each is (a row), when it began and how long it took, in nanoseconds."""

    part: str
    row: I64
    at: I64
    length: I64
    of_topics: bool  # whether it counts for each topic of its row, too


@dataclass(frozen=True, slots=True)
class Cells:
    """Counts of durations by row (of whatever table), part and bucket, in ascending order, each once."""

    row: I64
    part: I64
    bucket: I64
    count: I64
    sum_ns: I64
    max_ns: I64


def counts(series: pa.Table, begins: I64, of_rows: I64, spent: Sequence[Spent], span: int) -> pa.Table:
    """Rows of ``LATENCY_COUNTS`` in spans of that many nanoseconds.

    series has the columns `WHO` and topic. Those of a row have the places of_rows[begins[row] : begins[row + 1]]; the
    first is that without a topic.
    """
    row, at, length = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(one, name) for one in spent)])
        for name in ("row", "at", "length")
    )
    many = [len(one.row) for one in spent]
    part = np.repeat(np.array([_PLACES[one.part] for one in spent], np.int64), many)
    first = begins[row]
    behind = np.where(np.repeat([one.of_topics for one in spent], many), begins[row + 1], first + 1)
    numbers, of_span = distinct_numbers(at // np.int64(span))
    most = int((behind - first).sum())
    key, sums = np.empty(most, np.int64), np.empty((3, most), np.int64)
    cell = of_span << _CELL_BITS | part << _BUCKET_BITS | buckets_of(length)
    found = _count(first, behind, of_rows, cell, len(numbers) << _CELL_BITS, length, empty_slots(most), key, sums)
    order = np.argsort(key[:found])
    cell = key[order]
    is_first = changes(cell[np.newaxis] >> _CELL_BITS)
    part, bucket = cell >> _BUCKET_BITS & (1 << _CELL_BITS - _BUCKET_BITS) - 1, cell & (1 << _BUCKET_BITS) - 1
    cells = Cells(np.cumsum(is_first) - 1, part, bucket, *(column[order] for column in sums))
    place, of_span = np.divmod(cell[is_first] >> _CELL_BITS, max(len(numbers), 1))
    named = series.take(pa.array(place))
    arrays: dict[str, pa.Array] = {name: named[name] for name in _SERIES}
    arrays |= {
        "shard": shards(named["client_id"]),
        "from": pa.array(numbers[of_span] * np.int64(span)).cast(TIME),
        "cells": _lists(cells, len(place)),
    }
    return pa.table([arrays[name] for name in LATENCY_COUNTS.names], schema=LATENCY_COUNTS)


@kernel
def _count(
    first: I64, behind: I64, of_rows: I64, cell: I64, cells: int, length: I64, slots: I32, key: I64, sums: I64
) -> int:
    """Count durations by series and cell; gives how many keys (series * cells + cell) there are.

    They come in the order in which they were met, with their number, sum and maximum in sums.
    """
    found = 0
    for i in range(cell.shape[0]):
        for place in range(first[i], behind[i]):
            wanted = of_rows[place] * cells + cell[i]
            slot = slot_of(wanted, slots)
            while slots[slot] >= 0 and key[slots[slot]] != wanted:
                slot = slot_behind(slot, slots)
            if slots[slot] < 0:
                slots[slot], key[found] = found, wanted
                sums[0, found] = sums[1, found] = sums[2, found] = 0
                found += 1
            one = slots[slot]
            sums[0, one] += 1
            sums[1, one] += length[i]
            sums[2, one] = max(sums[2, one], length[i])
    return found


def latency_table(rows: pa.Table) -> pa.Table:
    """The table ``latency`` of all counts of a shard."""
    rows = without_the_smallest(rows, _SERIES, ("broker", "client_id", "client", "topic"), _exchanges(rows))
    at = rows["from"].cast(pa.int64()).to_numpy()
    width = width_of(at)
    series, of_row = in_groups(replaced(rows, "from", pa.array(spans(at, width)).cast(TIME)), [*_SERIES, "from"])
    order = np.argsort(of_row, kind="stable")
    tables, cells = [], one_array(rows["cells"])  # to take some of several chunks would put these together each time
    # Cells are several times as large as the rest of their rows, so they are taken apart some rows at a time.
    begins = np.flatnonzero(np.diff(of_row[order], prepend=-1))
    cuts = begins[np.flatnonzero(np.diff(begins // _ROWS_AT_ONCE, prepend=-1))]
    for some in np.split(order, cuts[1:]):
        lists = cells.take(pa.array(some))
        row = np.repeat(of_row[some], pc.list_value_length(lists).to_numpy())
        part, *columns = (column.to_numpy() for column in lists.flatten().flatten())
        tables.append(_of_cells(series, _added(row, part, *columns), width))
    return pa.concat_tables(tables)


def _exchanges(rows: pa.Table) -> I64:
    """How many exchanges each row counts."""
    totals = [np.zeros(0, np.int64)]
    for lists in rows["cells"].chunks:
        row = np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy())
        cells = lists.flatten()
        part, count = (cells.field(name).to_numpy() for name in ("part", "count"))
        total = np.zeros(len(lists), np.int64)
        np.add.at(total, row, np.where(part == _PLACES[TOTAL], count, 0))
        totals.append(total)
    return np.concatenate(totals)


def _of_cells(series: pa.Table, cells: Cells, width: int) -> pa.Table:
    """The rows of some of the series in spans of that width, by their cells."""
    begins = changes(np.stack([cells.row, cells.part]))
    first, group = np.flatnonzero(begins), np.cumsum(begins) - 1
    names = series.take(pa.array(cells.row[first]))
    offsets = pa.array(np.append(first, len(group)), pa.int32())
    arrays: dict[str, pa.Array] = {name: names[name] for name in names.column_names}
    arrays |= _measures(cells, group)
    arrays |= {
        "part": pa.array(_PARTS).take(pa.array(cells.part[first])),
        "width_ms": pa.array(np.full(len(first), width // MILLISECOND_NS, np.int64)),
        "p999": arrays["p99.9"],
        "bucket": pa.ListArray.from_arrays(offsets, pa.array(cells.bucket, pa.int32())),
        "counts": pa.ListArray.from_arrays(offsets, pa.array(cells.count)),
    }
    return pa.table([arrays[name] for name in LATENCY.names], schema=LATENCY)


def latency(table: pa.Table, by: str | Sequence[str] = ("api", "part"), part: str | None = None) -> pa.Table:
    """Percentiles of the table ``latency`` in milliseconds, grouped anew: exact, but for the width of the buckets.

    by: any of api, api_version, broker, client_id, client, topic, acks, part and from (time; if spans of different
    width are in the table, the widest). Without part in by, one part is looked at: the one given, else the total.
    Columns: those of by, then count, sum_ms, p50, p90, p99, p99.9 and max. Groups are in ascending order.
    """
    names = names_of(by, [*_SERIES, "part", "from"])
    if part is not None and part not in PARTS:
        raise ValueError(f"part: {part}: not among {', '.join(PARTS)}")
    if part is not None or "part" not in names:
        table = table.filter(pc.equal(table["part"], part or TOTAL))
    # A row with a topic is one of several views of the same exchanges.
    table = table.filter(pc.is_valid(table["topic"]) if "topic" in names else pc.is_null(table["topic"]))
    if "from" in names and table.num_rows:
        width = int(pc.max(table["width_ms"]).as_py()) * MILLISECOND_NS
        table = replaced(table, "from", pa.array(spans(table["from"].cast(pa.int64()).to_numpy(), width)).cast(TIME))
    groups, of_row = in_groups(table, names)
    cells = _cells(table, of_row)
    measures = _measures(cells, cells.row)
    order = ["count", "sum_ms", *_FRACTIONS, "max"]
    columns = [*(groups[name] for name in names), *(measures[name] for name in order)]
    return pa.table(columns, names=[*names, *order])


def _cells(table: pa.Table, of_row: I64) -> Cells:
    """Those of rows of the table ``latency``, put together whatever their parts; of_row says which rows together."""
    lists = one_array(table["bucket"])
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    row = np.repeat(np.arange(table.num_rows), sizes)
    first = np.zeros(len(row), np.bool_)  # sum and maximum belong to the row: they stand at its first bucket
    first[(np.cumsum(sizes) - sizes)[sizes > 0]] = True
    sum_ns = np.rint(table["sum_ms"].to_numpy() * MILLISECOND_NS).astype(np.int64)
    max_ns = np.rint(table["max"].to_numpy() * MILLISECOND_NS).astype(np.int64)
    return _added(
        of_row[row],
        np.zeros_like(row),
        lists.flatten().to_numpy(),
        one_array(table["counts"]).flatten().to_numpy(),
        np.where(first, sum_ns[row], 0),
        np.where(first, max_ns[row], 0),
    )


def _added(row: I64, part: Numbers, bucket: Numbers, count: I64, sum_ns: I64, max_ns: I64) -> Cells:
    """Counts with those of the same row, part and bucket added up."""
    key = (row * len(PARTS) + part) * BUCKETS + bucket
    order = np.argsort(key)  # sums and maxima are the same in any order, which need not be stable
    begins = np.flatnonzero(np.diff(key[order], prepend=-1))
    one = order[begins]
    return Cells(
        row[one],
        part[one],
        bucket[one],
        np.add.reduceat(count[order], begins),
        np.add.reduceat(sum_ns[order], begins),
        np.maximum.reduceat(max_ns[order], begins),
    )


def _lists(cells: Cells, rows: int) -> pa.Array:
    """The cells of each of so many rows."""
    columns = [pa.array(getattr(cells, field.name), field.type) for field in LATENCY_CELL]
    offsets = pa.array(np.searchsorted(cells.row, np.arange(rows + 1)), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, fields=list(LATENCY_CELL)))


def _measures(cells: Cells, group: I64) -> dict[str, pa.Array]:
    """Of each group of cells, of which each has its number, ascending."""
    counted, spent, highest = (np.zeros(int(group.max(initial=-1)) + 1, np.int64) for _ in range(3))
    np.add.at(counted, group, cells.count)
    np.add.at(spent, group, cells.sum_ns)
    np.maximum.at(highest, group, cells.max_ns)
    highest_ms = highest / MILLISECOND_NS
    found = percentiles(group, cells.bucket, cells.count, highest_ms, list(_FRACTIONS.values()))
    measures = {"count": counted, "sum_ms": spent / MILLISECOND_NS, "max": highest_ms}
    measures |= dict(zip(_FRACTIONS, found, strict=True))
    return {name: pa.array(column) for name, column in measures.items()}
