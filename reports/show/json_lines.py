"""Exchanges as JSON, one object a line, with their records if these were asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import one_array
from kafkascope.reports.columns.parties import ExchangePlaces
from kafkascope.reports.columns.woven import Column, Numbers, Part, Runs, Strings, Texts, Times, woven

_BODIES = ("request", "response")


def json_lines(exchanges: pa.Table, records: pa.Table | None = None, payload: bool = True) -> pa.LargeStringArray:
    """A line for each exchange with a JSON object: its columns, both bodies as objects, the records that it carried.

    Keys and values of records are text where the bytes are UTF-8 (``"value"``), else hex (``"value_hex"``); without
    payload only their sizes are given. Control records alone have a ``"control_type"``.
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
            parts += [",", Strings(records[name], name)]
        else:
            parts += [f',"{name}_bytes":', Numbers(pc.binary_length(records[name]))]
    if payload:
        parts += [',"headers":[', *_headers(records["headers"]), "]"]
    return [*parts, *control_types(records, ',"control_type":"', '"'), "}"]


def control_types(records: pa.Table, lead: str, end: str = "") -> list[Part]:
    """What is written of control records alone: their type, between lead and end."""
    types = records["control_type"]
    if types.null_count == len(types):
        return []
    return [pc.fill_null(pc.binary_join_element_wise(lead, types, end, ""), "")]


def _headers(headers: Any) -> list[Runs]:
    headers = one_array(headers)
    flat = headers.flatten()
    if not len(flat):
        return []
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    key, value = (Strings(flat.field(name), name) for name in ("key", "value"))
    return [Runs(counts, ",", "{", key, ",", value, "}")]


def _value(column: Any, field: pa.Field) -> Column:
    """A column as JSON texts."""
    if field.name in _BODIES:
        return Texts.of(column)
    if pa.types.is_timestamp(field.type):
        return Times(column)
    if pa.types.is_integer(field.type):
        return Numbers(column)
    if pa.types.is_list(field.type):
        return Texts.of(_lists(column))
    if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type):
        return Strings(column.cast(pa.string()))
    return Texts.of(column.cast(pa.string()))


def _lists(column: Any) -> Any:
    """Lists of text as JSON arrays."""
    column = one_array(column)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return pc.if_else(column.is_valid(), woven("[", Runs(lengths, ", ", Strings(column.flatten())), "]"), None)
