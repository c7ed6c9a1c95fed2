"""All answers as one JSON object: the summary, and the rows of every table that answers something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TextIO

import pyarrow as pa
from pyarrow import dataset as ds

from kafkascope.decoders import to_json
from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.columns.order import ordered
from kafkascope.reports.columns.words import iso_time
from kafkascope.reports.vocabulary.tables import RESULTS

TABLES = ("incidents", "findings", *(name for name in RESULTS if name != "findings"), "issues", "connections")
"""In the order in which they are written."""
_ROWS_AT_ONCE = 10_000
_LEFT_OUT = frozenset({"bucket", "counts"})  # histograms: their percentiles are told


def write(tables: Mapping[str, ds.Dataset], summary: Mapping[str, Any], stream: TextIO) -> None:
    """Write the object, a row a line; tables that are not there are null. Times are ISO 8601, UTC."""
    stream.write('{"summary":' + to_json(summary))
    for name in TABLES:
        stream.write(f",\n{to_json(name)}:")
        if name not in tables:
            stream.write("null")
            continue
        stream.write("[")
        comma = "\n"
        table = tables[name]
        columns = [column for column in table.schema.names if column not in _LEFT_OUT]
        for batch in ordered(name, table.to_table(columns=columns)).to_batches(_ROWS_AT_ONCE):
            for row in with_times(pa.Table.from_batches([batch])):
                stream.write(comma + to_json(row))
                comma = ",\n"
        stream.write("]")
    stream.write("}\n")


def with_times(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of a table, with times as ISO 8601, UTC."""
    kinds = {field.name: field.type for field in table.schema if _has_times(field.type)}
    for row in numbered(table).to_pylist():
        for column, kind in kinds.items():
            row[column] = _with_times(row[column], kind)
        yield row


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _has_times(kind.value_type)
    if pa.types.is_struct(kind):
        return any(_has_times(field.type) for field in kind)
    return bool(pa.types.is_timestamp(kind))


def _with_times(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return iso_time(value)
    if pa.types.is_list(kind):
        return [_with_times(one, kind.value_type) for one in value]
    if pa.types.is_struct(kind):
        return {field.name: _with_times(value[field.name], field.type) for field in kind}
    return value
