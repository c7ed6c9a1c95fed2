"""Exchanges as JSON, one object a line, with their records if these were asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import to_json
from kafkascope.reports.columns.arrow import dictionary_codes
from kafkascope.reports.columns.parties import ExchangePlaces
from kafkascope.reports.columns.woven import Members, Part, Runs, Texts, Times, woven

_BODIES = ("request", "response")


def json_lines(exchanges: pa.Table, records: pa.Table | None = None, payload: bool = True) -> pa.LargeStringArray:
    """A line for each exchange with a JSON object: its columns, both bodies as objects, the records that it carried.

    Keys and values of records are text where the bytes are UTF-8 (``"value"``), else hex (``"value_hex"``); without
    payload only their sizes are given.
    """
    parts: list[Part] = []
    lead = "{"
    for field in exchanges.schema:
        parts += [f'{lead}"{field.name}":', _value(exchanges[field.name], field)]
        lead = ","
    if records is not None:
        objects = partial(_record_objects, payload=payload)
        parts += [',"records":[', records_of_each(exchanges, records, objects, ","), "]"]
    return woven(*parts, "}\n")


def records_of_each(
    exchanges: pa.Table, records: pa.Table, parts: Callable[[pa.Table], list[Part]], separator: str = ""
) -> Runs:
    """What is written of the records that each exchange carried, one after the other; empty if it has none.

    parts: what is written of each record, as `woven` has it.
    """
    row = ExchangePlaces(exchanges).of(records)
    if (row < 0).any() or (np.diff(row) < 0).any():
        order = np.flatnonzero(row >= 0)[np.argsort(row[row >= 0], kind="stable")]
        row, records = row[order], records.take(pa.array(order))
    return Runs(np.bincount(row, minlength=len(exchanges)), separator, *parts(records))


def _record_objects(records: pa.Table, payload: bool) -> list[Part]:
    parts: list[Part] = []
    lead = "{"
    for name in ("direction", "topic", "partition", "offset", "timestamp"):
        parts += [f'{lead}"{name}":', _value(records[name], records.schema.field(name))]
        lead = ","
    for name in ("key", "value"):
        if payload:
            parts += [",", Members(name, records[name])]
        else:
            parts += [f',"{name}_bytes":', pc.binary_length(records[name]).cast(pa.string())]
    if payload:
        parts += [',"headers":[', *_headers(records["headers"]), "]"]
    return [*parts, "}"]


def _headers(headers: Any) -> list[Runs]:
    headers = headers.combine_chunks() if isinstance(headers, pa.ChunkedArray) else headers
    flat = headers.flatten()
    if not len(flat):
        return []
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    key, value = Members("key", flat.field("key").cast(pa.binary())), Members("value", flat.field("value"))
    return [Runs(counts, ",", "{", key, ",", value, "}")]


def _value(column: Any, field: pa.Field) -> Texts | Times:
    """A column as JSON texts."""
    if field.name in _BODIES:
        return Texts.of(column)
    if pa.types.is_timestamp(field.type):
        return Times(column)
    if pa.types.is_list(field.type):
        return Texts.of(_quoted_lists(column))
    if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type):
        return _quoted(column)
    return Texts.of(column.cast(pa.string()))


def _quoted(column: Any) -> Texts:
    """Text of few distinct values as JSON strings."""
    codes, distinct = dictionary_codes(column)
    return Texts.coded(codes, [to_json(value) for value in distinct.to_pylist()])


def _quoted_lists(column: Any) -> Any:
    """Lists of text of few distinct values as JSON arrays."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    listed = Runs(lengths, ", ", _quoted(column.flatten()))
    return pc.if_else(column.is_valid(), woven("[", listed, "]"), None)
