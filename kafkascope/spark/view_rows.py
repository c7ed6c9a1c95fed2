"""Rows of views through Spark's shuffle: what runs in the tasks of the job that understands them.

The tasks that decode leave the rows beside the tables (`parts.PartWriter`). Here they are read again, with the names
of topics that the whole capture knows, and travel in parcels: the rows of one view and one partition out of a row
group, as an Arrow stream. All rows of a key meet in one partition, where the view makes tables of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from kafkascope.out.parts import Part, PartWriter, stored
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.columns.views import Known, partition_of
from kafkascope.reports.measures.summary import Summary
from kafkascope.reports.views.groups import GroupsView
from kafkascope.reports.views.guarded import results
from kafkascope.reports.views.registry import VIEWS

SCHEMA = pa.schema([("partition", pa.int32()), ("view", pa.string()), ("parcel", pa.binary())])
SPARK_SCHEMA = "partition int, view string, parcel binary"

_ROWS_A_PARTITION = 50_000  # a task holds them all; it takes some seconds for them
_FEWEST_ROWS = 2_000  # with less, starting a task costs more than it does
_OF_GROUPS = GroupsView.name
_WEIGHT_OF_GROUPS = 5  # other rows take as long as one of a group


def places_for(rows: Mapping[str, int], cores: int, partitions: int | None = None) -> dict[str, range]:
    """The partitions that the rows of each view go to, of which there are so many; in all as many as these are worth.

    partitions: how many, if that is said. One group may be as much work as all else, and tasks begin in the order of
    their partitions: so groups have the first ones, and those to themselves.
    """
    of_groups = rows.get(_OF_GROUPS, 0)
    others = sum(rows.values()) - of_groups
    weight = others + _WEIGHT_OF_GROUPS * of_groups
    many = partitions or max(min(cores, (others + of_groups) // _FEWEST_ROWS), -(-weight // _ROWS_A_PARTITION), 1)
    if many == 1 or not (of_groups and others):
        return dict.fromkeys(rows, range(many))
    first = min(max(round(many * _WEIGHT_OF_GROUPS * of_groups / weight), 1), many - 1)
    return {view: range(first) if view == _OF_GROUPS else range(first, many) for view in rows}


def read_rows(
    parts: Iterable[Part], staging: str, names: Mapping[str, str], places: Mapping[str, range]
) -> Iterator[pa.RecordBatch]:
    """Parcels of the rows in parts, as batches of ``SCHEMA``; places: see `places_for`."""
    known = TopicNames(names)
    for part in parts:
        key, of_view = VIEWS[part.table]().key, places[part.table]
        for group in stored(staging, part):
            rows = known.resolve(group)
            partition = of_view.start + partition_of(rows[key], len(of_view))
            order = np.argsort(partition, kind="stable")
            rows = rows.take(pa.array(order)).combine_chunks()
            taken, begins = np.unique(partition[order], return_index=True)
            parcels = [pack(rows.slice(begin, end - begin)) for begin, end in pairwise([*begins.tolist(), len(order)])]
            columns = [pa.array(taken, pa.int32()), pa.repeat(part.table, len(taken)), pa.array(parcels, pa.binary())]
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def write_results(
    batches: Iterable[pa.RecordBatch], staging: str, names: Mapping[str, str], wanted: frozenset[str]
) -> Iterator[tuple[list[Part], Summary]]:
    """The tables that views make of one partition's parcels, which come sorted by view, written under staging.

    Of them the wanted ones, and what the summary has to say of them.
    """
    known = Known.of(TopicNames(names).learned())
    parcels = (parcel for batch in batches for parcel in _parcels(batch))
    context = TaskContext.get()
    with PartWriter(staging, context.partitionId() if context else 0) as writer:
        for name, of_view in groupby(parcels, itemgetter(0)):
            rows = pa.concat_tables(unpack(parcel) for _, parcel in of_view)
            made = results(VIEWS[name](), rows, known)
            writer.write({table: rows for table, rows in made.items() if table in wanted})
        parts = writer.finish()
    yield parts, writer.summary


def pack(rows: pa.Table) -> bytes:
    """Rows as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(sink.getvalue())


def unpack(parcel: pa.Buffer) -> pa.Table:
    """The rows that `pack` made bytes of."""
    with pa.ipc.open_stream(parcel) as stream:
        return stream.read_all()


def _parcels(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Buffer]]:
    _, views, parcels = batch.columns
    for view, parcel in zip(views, parcels, strict=True):
        yield view.as_py(), parcel.as_buffer()
