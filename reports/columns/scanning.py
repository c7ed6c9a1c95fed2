"""Some columns of the rows of a table that are wanted, whether it lies in files or is mapped into memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

_WORD = re.compile(r"\w+")
_AHEAD = {"batch_readahead": 1, "fragment_readahead": 1}
"""Whoever looks through a table is no slower for it, and Arrow's 16 row groups of 4 files took 100 MB more."""


def batches(
    table: ds.Dataset,
    columns: Sequence[str] | Mapping[str, pc.Expression] | None,
    where: pc.Expression | None,
    batch_size: int = 1 << 17,
) -> Iterator[pa.RecordBatch]:
    """Batches of a table, as `Dataset.to_batches` has them, of at most so many rows.

    Of a table in memory Arrow takes the rows of all columns before it leaves out those that nobody asked for: of one
    that is mapped, all of its file is read. So others are left out first, as far as the text of expressions tells.
    """
    if columns is not None and where is not None and isinstance(table, ds.InMemoryDataset):
        asked = [*columns, *map(str, columns.values())] if isinstance(columns, Mapping) else columns
        words = {word for text in (str(where), *asked) for word in _WORD.findall(text)}
        table = ds.dataset(table.to_table(columns=[name for name in table.schema.names if name in words]))
    wanted = dict(columns) if isinstance(columns, Mapping) else None if columns is None else list(columns)
    yield from table.to_batches(columns=wanted, filter=where, batch_size=batch_size, **_AHEAD)
