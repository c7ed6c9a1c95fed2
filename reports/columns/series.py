"""Counts by client, topic and span of time, kept bounded however long a capture is and however many clients it has.

Rows are observed in spans of `FINEST`. When all are at hand, longer spans are chosen if there are too many, and series
beyond a number (the smallest) are put together under the name `OTHERS`. Both are decided shard by shard: a shard is a
fixed part of all clients, so that what one worker holds is bounded too, and no worker needs to know of the others.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import Numbers, dictionary_codes, equal_columns, one_of_each, ranked
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.units import DAY_NS, SECOND_NS

OTHERS = "(others)"

FINEST = 10 * SECOND_NS
# Each is a multiple of those before it, so that spans of one width add up to spans of a wider one.
_WIDTHS = tuple(seconds * SECOND_NS for seconds in (10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400))
_WEEK = 7 * DAY_NS
MOST_SPANS = 120  # what a picture of a capture can show side by side
MOST_SERIES = 1_000  # of a shard
_SHARDS = 64


def shards(client_ids: pa.Array) -> pa.Array:
    """The shard of each client id."""
    codes, distinct = dictionary_codes(client_ids)
    numbers = [zlib.crc32(text.encode(errors="surrogatepass")) % _SHARDS for text in distinct.to_pylist()]
    return pa.array(np.array([*numbers, 0], np.int32)[codes])


def spans(at: I64, width: int = FINEST) -> I64:
    """Beginning of the span of that width that each time lies in."""
    return at - at % np.int64(width)


def width_of(at: I64) -> int:
    """The least width at which these spans of `FINEST` are at most `MOST_SPANS`; none is wider than a week."""
    extent = int(at.max()) - int(at.min()) if len(at) else 0
    return next((width for width in _WIDTHS if extent // width < MOST_SPANS), _WEEK)


def kept_series(rows: pa.Table, names: list[str], weight: Numbers, most: int) -> Bool:
    """Which rows belong to one of the series of greatest weight; a series is what has the same values of those names.

    Equal weights are told apart by the names' values, so that the choice does not hang on the order of rows.
    """
    weighed = rows.select(names).append_column("_weight", pa.array(weight, pa.int64()))
    series = weighed.group_by(names, use_threads=False).aggregate([("_weight", "sum")])
    if series.num_rows <= most:
        return np.ones(rows.num_rows, np.bool_)
    order = pc.sort_indices(series, [("_weight_sum", "descending"), *((name, "ascending") for name in names)])
    rank = np.empty(series.num_rows, np.int64)
    rank[order.to_numpy()] = np.arange(series.num_rows)
    kept: Bool = rank[_places(rows, names, series)] < most
    return kept


def names_of(by: str | Sequence[str], allowed: Sequence[str]) -> list[str]:
    """The columns by which somebody wants groups; raises ValueError for others than those allowed."""
    names = [by] if isinstance(by, str) else [*dict.fromkeys(by)]
    if unknown := [name for name in names if name not in allowed]:
        raise ValueError(f"by: {', '.join(unknown)}: not among {', '.join(allowed)}")
    return names


def in_groups(rows: pa.Table, names: Sequence[str]) -> tuple[pa.Table, I64]:
    """Groups of rows by those names, in ascending order (null last), and the group of each row; one without names."""
    group = equal_columns(np.stack([np.zeros(rows.num_rows, np.int64), *(_null_last(rows[name]) for name in names)]))
    return rows.select(names).take(pa.array(one_of_each(group))), group


def replaced(rows: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows with another column of that name."""
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)


def without_the_smallest(rows: pa.Table, series: list[str], anonymous: Sequence[str], weight: Numbers) -> pa.Table:
    """The rows with series beyond `MOST_SERIES` put together: their names in the anonymous columns become `OTHERS`.

    A null stays one: it says of what kind a series is.
    """
    kept = kept_series(rows, series, weight, MOST_SERIES)
    if kept.all():
        return rows
    for name in anonymous:
        gathered = pc.if_else(pc.is_null(rows[name]), rows[name], pa.scalar(OTHERS))
        rows = replaced(rows, name, pc.if_else(pa.array(kept), rows[name], gathered))
    return rows


def _null_last(column: pa.ChunkedArray) -> I64:
    rank = ranked(column)
    return np.where(rank < 0, rank.max(initial=-1) + 1, rank)


def _places(rows: pa.Table, names: list[str], groups: pa.Table) -> I64:
    """For each row its place among the groups, which are all that the rows have."""
    code = np.zeros(rows.num_rows + groups.num_rows, np.int64)
    for name in names:
        both = pa.chunked_array([*rows[name].chunks, *groups[name].chunks], rows[name].type)
        values, distinct = dictionary_codes(both)
        code = np.unique(code * (len(distinct) + 1) + values + 1, return_inverse=True)[1].reshape(-1)
    place = np.empty(int(code.max(initial=-1)) + 1, np.int64)
    place[code[rows.num_rows :]] = np.arange(groups.num_rows)
    return place[code[: rows.num_rows]]
