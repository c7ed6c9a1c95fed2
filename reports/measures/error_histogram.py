"""Errors counted: how often each came, to whom and about what, in spans of time, and what to make of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import errors
from kafkascope.reports.columns.arrow import changes, dictionary_codes, integers
from kafkascope.reports.columns.series import kept_series, names_of, spans, width_of
from kafkascope.reports.measures.ordinary_errors import ordinary
from kafkascope.reports.vocabulary.tables import ERROR_COUNTS, ERROR_HISTOGRAM, TIME
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.units import MILLISECOND_NS

MOST_SERIES = 1_000
"""Of an error: so many combinations of API, place and client are listed, those with the most; the others are a rest."""

WHAT = ("error", "code", "api")
WHERE = ("topic", "partition", "group_id", "member_id", "broker", "client_id")


def errors_histogram(table: pa.Table, by: str | Sequence[str] = ("api", "error")) -> pa.Table:
    """The histogram (of the table of that name) summed by some of its columns, trouble first, then by number.

    by: any of api, error, code, topic, partition, group_id, member_id, broker, client_id and at; ValueError for others.
    Columns besides: count, trouble (those not ordinary), first, last, and with ``error`` among by also its meaning and
    the advice on it. With ``at`` among by it is a row a span; all are as wide as the widest.
    """
    names = names_of(by, [*WHAT, *WHERE, "at"])
    told = ["retriable", "meaning", "advice"] if "error" in names else []
    if "at" in names and table.num_rows:  # of errors that lasted longer spans are wider
        widest = int(pc.max(table["width_ms"]).as_py()) * MILLISECOND_NS
        at = pa.array(spans(integers(table["at"]), widest)).cast(TIME)
        table = table.set_column(table.column_names.index("at"), "at", at)
    table = table.append_column("trouble", pc.if_else(table["ordinary"], 0, table["count"]))
    made = {"count": "sum", "trouble": "sum", "first": "min", "last": "max"} | dict.fromkeys(told, "first")
    sums = table.group_by(names, use_threads=False).aggregate([*made.items()])
    sums = sums.select([*names, *(f"{name}_{of}" for name, of in made.items())]).rename_columns([*names, *made])
    for name in ("count", "trouble"):  # where there is none, and nothing to tell them apart by
        sums = sums.set_column(sums.column_names.index(name), name, pc.fill_null(sums[name], 0))
    order = [(name, "descending") for name in ("trouble", "count")] + [(name, "ascending") for name in names]
    return sums.take(pc.sort_indices(sums, order))


def error_histogram(rows: pa.Table) -> pa.Table:
    """The histogram of all rows of one error."""
    rows = summed(rows)
    is_ordinary, reason = ordinary(rows)
    width = width_of(integers(rows["span"]))
    kept = kept_series(rows, [*WHAT, *WHERE], integers(rows["count"]), MOST_SERIES)
    place = {name: _only(rows[name], kept) for name in WHERE}
    judged = pa.table(
        {
            **{name: place.get(name, rows[name]) for name in ERROR_COUNTS.names},
            "span": spans(integers(rows["span"]), width),
            "ordinary": is_ordinary,
            "reason": reason,
            "rest": ~kept,
        }
    )
    return _histogram(summed(judged, ("ordinary", "reason", "rest")), width)


def _histogram(summed: pa.Table, width: int) -> pa.Table:
    codes, distinct = dictionary_codes(summed["code"])
    told = [errors.explained(code) for code in distinct.to_pylist()]
    of_code = pa.array(codes)
    count = summed.num_rows
    columns = {
        **{name: summed[name] for name in ERROR_HISTOGRAM.names if name in summed.column_names},
        "at": pc.cast(summed["span"], TIME),
        "width_ms": np.full(count, width // MILLISECOND_NS),
        "first": pc.cast(summed["first_at"], TIME),
        "last": pc.cast(summed["last_at"], TIME),
        "retriable": pa.array([retriable for retriable, _, _ in told], pa.bool_()).take(of_code),
        "meaning": pa.array([meaning for _, meaning, _ in told], pa.string()).take(of_code),
        "advice": pa.array([advice for _, _, advice in told], pa.string()).take(of_code),
    }
    table = pa.table([columns[name] for name in ERROR_HISTOGRAM.names], schema=ERROR_HISTOGRAM)
    order = ("error", "api", "at", "rest", *WHERE, "ordinary")
    return table.sort_by([(name, "ascending") for name in order])


def _only(column: pa.ChunkedArray, kept: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.ChunkedArray:
    return pc.if_else(pa.array(kept), column, pa.scalar(None, column.type))


def summed(rows: pa.Table, more: tuple[str, ...] = ()) -> pa.Table:
    """The rows with equal keys as one each: counts added, and what belongs to the first of them."""
    keys = np.stack([_codes(rows[name]) for name in (*WHAT, *WHERE, "span", *more)])
    at, connection, number = (integers(rows[n]) for n in ("first_at", "first_connection", "first_number"))
    order = np.lexsort((number, connection, at, *keys))
    start = np.flatnonzero(changes(keys[:, order]))
    firsts = rows.take(pa.array(order[start]))
    columns = {
        "count": np.add.reduceat(integers(rows["count"])[order], start),
        "last_at": np.maximum.reduceat(integers(rows["last_at"])[order], start),
    }
    arrays = [columns.get(name, firsts[name]) for name in firsts.column_names]
    return pa.table(arrays, schema=rows.schema)


def _codes(column: pa.ChunkedArray) -> I64:
    codes: I64 = dictionary_codes(column)[0]
    return codes
