"""Exchanges as JSON, one object a line, with their records if these were asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import to_json
from kafkascope.reports.columns.parties import ExchangePlaces
from kafkascope.reports.columns.text import iso_times, json_members

_BODIES = ("request", "response")


def json_lines(exchanges: pa.Table, records: pa.Table | None = None, payload: bool = True) -> pa.Array:
    """A JSON object for each exchange: its columns, both bodies as objects, and a list of the records it carried.

    Keys and values of records are text where the bytes are UTF-8 (``"value"``), else hex (``"value_hex"``); without
    payload only their sizes are given.
    """
    parts: list[Any] = []
    lead = "{"
    for field in exchanges.schema:
        parts += [f'{lead}"{field.name}":', _value(exchanges[field.name], field)]
        lead = ","
    if records is not None:
        parts += [',"records":[', joined(records, exchanges, _record_objects(records, payload), ","), "]"]
    return glued(*parts, "}")


def glued(*parts: Any) -> Any:
    """Texts side by side: columns, and constants between them; with 64-bit offsets, for they may exceed 2 GiB."""
    return pc.binary_join_element_wise(*map(_large, parts), pa.scalar("", pa.large_string()))


def joined(records: pa.Table, exchanges: pa.Table, texts: pa.Array, separator: str) -> pa.Array:
    """The texts of each exchange's records, one after the other with the separator between; empty if it has none."""
    row = ExchangePlaces(exchanges).of(records)
    mine = row >= 0
    order = np.argsort(row[mine], kind="stable")
    counts = np.bincount(row[mine], minlength=len(exchanges)) if len(exchanges) else np.zeros(0, np.int64)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    chosen = _large(texts).filter(pa.array(mine)).take(pa.array(order))
    return pc.binary_join(
        pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), chosen), pa.scalar(separator, pa.large_string())
    )


def _record_objects(records: pa.Table, payload: bool) -> pa.Array:
    parts: list[Any] = []
    lead = "{"
    for name in ("direction", "topic", "partition", "offset", "timestamp"):
        parts += [f'{lead}"{name}":', _value(records[name], records.schema.field(name))]
        lead = ","
    for name in ("key", "value"):
        if payload:
            parts += [",", json_members(name, records[name])]
        else:
            sizes = pc.fill_null(pc.binary_length(records[name]).cast(pa.string()), "null")
            parts += [f',"{name}_bytes":', sizes]
    if payload:
        parts += [',"headers":[', _headers(records["headers"]), "]"]
    return glued(*parts, "}")


def _headers(headers: Any) -> pa.Array:
    headers = headers.combine_chunks() if isinstance(headers, pa.ChunkedArray) else headers
    if not len(headers.values):
        return pa.array([""] * len(headers), pa.large_string())
    flat = headers.flatten()
    keys = json_members("key", flat.field("key").cast(pa.binary()))
    objects = glued("{", keys, ",", json_members("value", flat.field("value")), "}")
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int64())
    return pc.binary_join(pa.LargeListArray.from_arrays(offsets, objects), pa.scalar(",", pa.large_string()))


def _value(column: Any, field: pa.Field) -> Any:
    """A column as JSON texts; no nulls."""
    if field.name in _BODIES:
        text = column
    elif pa.types.is_timestamp(field.type):
        text = pc.binary_join_element_wise('"', iso_times(column), '"', "")
    elif pa.types.is_list(field.type):
        text = _quoted_lists(column)
    elif pa.types.is_string(field.type) or pa.types.is_dictionary(field.type):
        text = _quoted(column.cast(pa.string()))
    else:
        text = column.cast(pa.string())
    return pc.fill_null(text, "null")


def _quoted(column: Any) -> pa.Array:
    """Text of few distinct values as JSON strings."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    texts = [to_json(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _quoted_lists(column: Any) -> Any:
    """Lists of text of few distinct values as JSON arrays."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
    listed = pc.binary_join(pa.ListArray.from_arrays(ends, _quoted(column.flatten())), ", ")
    return pc.if_else(column.is_valid(), pc.binary_join_element_wise("[", listed, "]", ""), None)


def _large(texts: Any) -> Any:
    if isinstance(texts, str):
        return pa.scalar(texts, pa.large_string())
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    return texts.cast(pa.large_string())
