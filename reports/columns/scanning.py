"""Some columns of the rows of a table that are wanted, whether it lies in files or is mapped into memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero
from pyarrow import dataset as ds

_WORD = re.compile(r"\w+")
_AHEAD = {"batch_readahead": 1, "fragment_readahead": 1}
"""Whoever looks through a table is no slower for it, and Arrow's 16 row groups of 4 files took 100 MB more."""

Rows: TypeAlias = ds.Dataset | pa.Table
Columns: TypeAlias = Sequence[str] | Mapping[str, pc.Expression] | None
"""Names of columns, or what is made of them by name; None: all of them."""


def as_it_lies(table: Rows) -> Rows:
    """The same table: one in memory, which takes half a millisecond to ask for, as such."""
    return table.to_table() if isinstance(table, ds.InMemoryDataset) else table


def batches(
    table: Rows, columns: Columns, where: pc.Expression | None, batch_size: int = 1 << 17
) -> Iterator[pa.RecordBatch]:
    """Batches of a table that have rows, in its order, of at most so many.

    A table in memory is not scanned as a dataset is: that takes the rows of all columns before it leaves out those that
    nobody asked for (of one that is mapped, all of its file is read), and a millisecond if there are no rows at all.
    """
    table = as_it_lies(table)
    if isinstance(table, pa.Table):
        found = _of_memory(table, columns, where)
    else:
        wanted = dict(columns) if isinstance(columns, Mapping) else None if columns is None else list(columns)
        found = table.to_batches(columns=wanted, filter=where, batch_size=batch_size, **_AHEAD)
    for batch in found:
        for begin in range(0, batch.num_rows, batch_size):
            yield batch.slice(begin, batch_size)


def _of_memory(table: pa.Table, columns: Columns, where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
    """32,768 rows at a time, if they are filtered, in the thread that asks for them."""
    made = dict(columns) if isinstance(columns, Mapping) else {name: pc.field(name) for name in columns or ()}
    if columns is not None:
        texts = (str(one) for one in (*made.values(), where) if one is not None)
        words = {word for text in texts for word in _WORD.findall(text)}
        table = table.select([name for name in table.schema.names if name in words])
    steps = [acero.Declaration("table_source", acero.TableSourceNodeOptions(table))]
    if where is not None:
        steps.append(acero.Declaration("filter", acero.FilterNodeOptions(where)))
    if columns is not None:
        steps.append(acero.Declaration("project", acero.ProjectNodeOptions([*made.values()], [*made])))
    if len(table):
        yield from acero.Declaration.from_sequence(steps).to_reader(use_threads=False)
