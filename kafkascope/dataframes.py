"""Arrow tables as pandas DataFrames, in the order in which people read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS

# Numbers that can be absent stay whole numbers (an offset beyond 2**53 is one), text stays in Arrow's memory.
_PANDAS_TYPES: dict[pa.DataType, Any] = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    pa.string(): pd.StringDtype("pyarrow"),
}

# The order of a table's rows, whatever way they were made.
_ORDER: dict[str, list[str]] = {
    "connections": ["connection"],
    "tcp_health": ["at", "connection", "sender"],
    "exchanges": ["completed", "connection", "number"],
    "errors": ["at", "connection", "number"],
    "partitions": ["at", "connection", "number"],
    "batches": ["at", "connection", "number"],
    "records": ["at", "connection", "number"],
    "issues": ["connection", "packet", "kind"],
    "group_events": ["at", "group_id"],
    "rebalances": ["started", "stable", "group_id", "to_generation"],
    "incidents": ["rank"],
    "silences": ["since", "host"],
    "findings": ["severity_rank", "-weight", "kind", "since", "subject"],
}


def ordered(name: str, table: pa.Table) -> pa.Table:
    """The rows of a table in the order in which people read them: by time of completion."""
    keys = _ORDER.get(name, [])  # without: the order that its view gives it
    if "completed" in keys:
        done = pc.coalesce(table["response_done"], table["request_done"], table["answered"], table["requested"])
        table = table.append_column("completed", done)
    if "severity_rank" in keys:
        table = table.append_column("severity_rank", pc.index_in(table["severity"], pa.array(list(Severity))))
    table = table.append_column("_row", pa.array(np.arange(len(table))))
    by = [(key.removeprefix("-"), "descending" if key.startswith("-") else "ascending") for key in [*keys, "_row"]]
    order = pc.sort_indices(table, by)
    return table.take(order).select(ALL_SCHEMAS[name].names)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """A table as a DataFrame. Lists of structures become lists of dicts with whole numbers and times in them."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=_PANDAS_TYPES.get)
    for column in table.schema:
        if pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type):
            frame[column.name] = pd.Series(table[column.name].to_pylist(), index=frame.index, dtype=object)
    return frame
