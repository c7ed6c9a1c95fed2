"""Arrow columns out of numpy arrays: times, numbers with nulls, names by code, text by position in a buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkascope.decoders.record_columns import binary_array
from kafkascope.reports.vocabulary.tables import TIME
from kafkascope.sniffer.columns import I64, NO_TIME, U8, Bool
from kafkascope.sniffer.units import MILLISECOND_NS

Numbers = NDArray[Any]

_CLOSE = 8  # times as far apart as there are numbers, at most

# Milliseconds since 1970 that fit into int64 nanoseconds (1677 to 2262); what lies beyond has no place in a table.
LAST_MILLISECOND = (2**63 - 1) // MILLISECOND_NS


def numbers(values: Numbers, kind: pa.DataType, there: Bool | None = None) -> pa.Array:
    """A column of numbers; null where there is False."""
    return pa.array(values, kind, mask=None if there is None else ~there)


def times(nanoseconds: Numbers, there: Bool | None = None) -> pa.Array:
    """A column of UTC times; null where the value is ``NO_TIME`` or there is False."""
    known = nanoseconds != NO_TIME
    if there is not None:
        known &= there
    return pa.array(nanoseconds, pa.int64(), mask=~known).cast(TIME)


def moment(nanoseconds: int) -> pa.Scalar:
    """A UTC time, to compare a column with."""
    return pa.scalar(nanoseconds, TIME)


def among(column: str, texts: Iterable[str | None]) -> pc.Expression:
    """Whether a text is one of these; of an empty list Arrow does not know that it is one of texts."""
    return pc.field(column).isin(pa.array([*texts], pa.string()))


def times_of_milliseconds(milliseconds: Numbers) -> pa.Array:
    """A column of UTC times from Kafka's timestamps; null for -1, which means none, and for what no column can hold."""
    there = (milliseconds != -1) & ~times_too_far(milliseconds)
    return times(np.where(there, milliseconds, 0) * np.int64(MILLISECOND_NS), there)


def times_too_far(milliseconds: Numbers) -> Bool:
    """Which timestamps are more than 292 years from 1970, so that int64 nanoseconds do not reach them."""
    return (milliseconds < -LAST_MILLISECOND) | (milliseconds > LAST_MILLISECOND)


def labels(codes: Numbers, names: Sequence[str | None]) -> pa.Array:
    """A column of names, by their place in the list."""
    return pa.array(names, pa.string()).take(pa.array(codes))


def strings(data: U8, start: Numbers, length: Numbers) -> pa.Array:
    r"""A column of text that lies in data as UTF-8; null where length is -1.

    Bytes that are no UTF-8 appear as \xNN: what is on the wire may be anything, a table's text must not.
    """
    raw = binary_array(data, start, length)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(
            [None if text is None else text.decode(errors="backslashreplace") for text in raw.to_pylist()], pa.string()
        )


def one_array(column: Any) -> pa.Array:
    """A column as an array, without a copy if it is one already, or one chunk (of which Arrow itself makes a copy)."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    # Arrow cannot make an empty dictionary of times.
    return column.combine_chunks() if column.num_chunks else pa.nulls(0, column.type)


def dictionary_codes(values: pa.Array | pa.ChunkedArray) -> tuple[Numbers, pa.Array]:
    """Each value's place among the distinct values, and those; null has the place -1."""
    encoded = one_array(values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values))
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary


def first_of_equals(ordered: I64) -> I64:
    """For each of some ascending numbers the place of the first that is the same."""
    is_first = np.ones(len(ordered), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return np.maximum.accumulate(np.where(is_first, np.arange(len(ordered)), 0))


def distinct_numbers(values: I64) -> tuple[I64, I64]:
    """The distinct ones of some numbers, ascending, and the place of each number among them.

    That of numbers which lie close together is found by counting, without sorting them.
    """
    if not len(values):
        return values, np.zeros(0, np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low >= _CLOSE * len(values):
        distinct, place = np.unique(values, return_inverse=True)
        return distinct, place.astype(np.int64)
    there = np.zeros(high - low + 1, np.bool_)
    there[values - low] = True
    place = np.cumsum(there, dtype=np.int64) - 1
    return np.flatnonzero(there) + np.int64(low), place[values - low]


def equal_columns(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """A number for each column of an i64[keys, n]: the same for equal columns, ordered as the columns are."""
    group, groups = np.zeros(keys.shape[1], np.int64), 1
    for row in keys if keys.shape[1] else ():
        low, width = int(row.min()), int(row.max()) - int(row.min()) + 1
        if groups * width >= 2**63:
            (known, group), (distinct, row) = distinct_numbers(group), distinct_numbers(row)
            groups, low, width = len(known), 0, len(distinct)
        group, groups = group * np.int64(width) + (row - np.int64(low)), groups * width
    return distinct_numbers(group)[1]


def table_of(values: Sequence[Any], schema: pa.Schema, **given: Iterable[Any]) -> pa.Table:
    """Values of a dataclass as rows: a column is what is given by its name, else the field of that name.

    Fields may be lists of dataclasses, where columns are lists of structs.
    """
    columns = {f.name: given[f.name] if f.name in given else map(attrgetter(f.name), values) for f in schema}
    return pa.table([_array(columns[f.name], f.type) for f in schema], schema=schema)


def _array(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    if not (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)):
        return pa.array(list(values), kind)
    rows = list(values)
    inner = table_of([one for row in rows for one in row], pa.schema(list(kind.value_type)))
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, inner.to_struct_array().combine_chunks(), type=kind)


def integers(column: pa.ChunkedArray | pa.Array) -> I64:
    """A column of offsets or times as numbers; -1 for null."""
    whole: I64 = pc.fill_null(pc.cast(column, pa.int64()), -1).to_numpy()
    return whole.astype(np.int64)


def distinct_columns(keys: I64) -> tuple[I64, I64]:
    """The distinct columns of an i64[keys, n], ascending, and the place of each of n among them."""
    code = equal_columns(keys)
    return keys[:, one_of_each(code)], code


def one_of_each(group: I64) -> I64:
    """For each of the groups 0, 1, ..., of which every member has the number of its own, the place of a member."""
    one = np.empty(int(group.max(initial=-1)) + 1, np.int64)
    one[group] = np.arange(len(group))
    return one


def ranked(column: pa.ChunkedArray) -> I64:
    """A number for each text of a column, in their order, whatever that of the rows; -1 for null."""
    codes, distinct = dictionary_codes(column)
    rank = np.empty(len(distinct) + 1, np.int64)
    rank[pc.sort_indices(distinct).to_numpy()] = np.arange(len(distinct))
    rank[-1] = -1
    return rank[codes]


def changes(keys: I64) -> Bool:
    """Which columns of i64[keys, n] differ from the one before; the first one does."""
    changed = np.ones(keys.shape[1], np.bool_)
    changed[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    return changed


def numbered(table: pa.Table) -> pa.Table:
    """A table with its times, nested ones too, as int64 nanoseconds."""
    return table.cast(pa.schema([pa.field(f.name, without_times(f.type)) for f in table.schema]))


def without_times(kind: pa.DataType) -> pa.DataType:
    """A type with int64 for the times in it."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(without_times(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, without_times(f.type)) for f in kind])
    return kind
