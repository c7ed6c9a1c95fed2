"""Arrow tables as pandas DataFrames."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

# Numbers that can be absent stay whole numbers (an offset beyond 2**53 is one), text stays in Arrow's memory.
_PANDAS_TYPES: dict[pa.DataType, Any] = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    pa.string(): pd.StringDtype("pyarrow"),
}


def to_frame(table: pa.Table) -> pd.DataFrame:
    """A table as a DataFrame. Lists of structures become lists of dicts with whole numbers and times in them."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=_PANDAS_TYPES.get)
    for column in table.schema:
        if pa.types.is_list(column.type) and pa.types.is_struct(column.type.value_type):
            frame[column.name] = pd.Series(table[column.name].to_pylist(), index=frame.index, dtype=object)
    return frame
