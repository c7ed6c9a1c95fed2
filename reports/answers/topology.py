"""Who speaks with whom, and how much of which topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.reports.answers.parties import beside, spoken
from kafkascope.reports.vocabulary.tables import TOPOLOGY

_KEYS = ["client_id", "client", "broker", "topic"]
_MOVED = ["bytes_up", "bytes_down", "records_up", "records_down"]


def topology(tables: Mapping[str, ds.Dataset]) -> pa.Table:
    """Rows of ``TOPOLOGY`` out of connections, batches and partitions, what moved most bytes first."""
    if "connections" not in tables:
        return TOPOLOGY.empty_table()
    ends = spoken(tables["connections"], ["bytes_up", "bytes_down", "exchanges"])
    ends = ends.filter(pc.invert(ends["failed"]))
    parts = [_rows(ends)]
    if of_topics := list(_topics(tables, ends)):
        by_connection = _summed(pa.concat_tables(of_topics), ["connection", "topic"], _MOVED)
        parts += [_rows(part) for part in beside(ds.dataset(by_connection), ["topic", *_MOVED], ends, _KEYS[:-1])]
    made = _summed(pa.concat_tables(parts), _KEYS, [name for name in TOPOLOGY.names if name not in _KEYS])
    made = made.append_column("most", pc.add(made["bytes_up"], made["bytes_down"]))
    order = [("most", "descending"), *((name, "ascending") for name in _KEYS)]
    return made.sort_by(order).select(TOPOLOGY.names).cast(TOPOLOGY)


def _topics(tables: Mapping[str, ds.Dataset], ends: pa.Table) -> Iterator[pa.Table]:
    """What moved of topics by connection, in parts; topics of which nothing did, but was asked for, are there too."""
    for rows in beside(tables.get("partitions"), ["topic"], ends, []):
        yield _moved(rows, {})
    data = ~pc.coalesce(pc.field("control"), pc.scalar(False))  # markers of transactions are none
    for direction, way in (("produce", "up"), ("fetch", "down")):
        where = data & (pc.field("direction") == direction)
        for rows in beside(tables.get("batches"), ["topic", "records", "bytes"], ends, [], where):
            yield _moved(rows, {f"bytes_{way}": rows["bytes"], f"records_{way}": rows["records"]})


def _moved(rows: pa.Table, moved: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    nothing = pa.repeat(pa.scalar(0, pa.int64()), len(rows))
    columns = {"connection": rows["connection"], "topic": rows["topic"]}
    table = pa.table(columns | {name: moved.get(name, nothing) for name in _MOVED})
    return _summed(table.filter(pc.is_valid(table["topic"])), ["connection", "topic"], _MOVED)


def _rows(connections: pa.Table) -> pa.Table:
    """Rows of ``TOPOLOGY``, each of one connection."""
    columns = {name: connections[name] for name in connections.column_names}
    columns["connections"] = pa.repeat(pa.scalar(1, pa.int64()), len(connections))
    nulls = {field.name: pa.nulls(len(connections), field.type) for field in TOPOLOGY}
    return pa.table({name: columns.get(name, nulls[name]) for name in TOPOLOGY.names}, schema=TOPOLOGY)


def _summed(rows: pa.Table, keys: list[str], sums: list[str]) -> pa.Table:
    table = rows.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in sums])
    return table.rename_columns([name.removesuffix("_sum") for name in table.column_names])
