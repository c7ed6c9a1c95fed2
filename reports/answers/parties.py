"""Who is at the ends of connections: what answers about clients and brokers have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.reports.columns import scanning
from kafkascope.reports.columns.arrow import one_array

_FAILED = pa.array(["refused", "unanswered"])
_SPOKEN = pa.array(["kafka", "tls"])
_ROWS, _BYTES = 100_000, 32 << 20  # that are looked at together


def spoken(table: ds.Dataset, columns: Sequence[str] = ()) -> pa.Table:
    """Connections on which Kafka or TLS was spoken, and connects that failed.

    Columns: connection, client_id, client, broker (address:port), failed, and those that are asked for. A connect that
    failed tells no client id: it has that of its host, if all connections from there have the same.
    """
    wanted = ["connection", "client_id", "client", "broker", "broker_port", "protocol", "connect"]
    rows = table.to_table(columns=list(dict.fromkeys([*wanted, *columns])))
    failed = pc.fill_null(pc.is_in(rows["connect"], _FAILED), False)
    rows = rows.append_column("failed", failed).filter(pc.or_(failed, pc.is_in(rows["protocol"], _SPOKEN)))
    named = rows.filter(pc.is_valid(rows["client_id"])).group_by("client")
    hosts = named.aggregate([("client_id", "min"), ("client_id", "max")])
    hosts = hosts.filter(pc.equal(hosts["client_id_min"], hosts["client_id_max"]))
    only = hosts["client_id_min"].take(pc.index_in(rows["client"], one_array(hosts["client"])))
    name = pc.if_else(rows["failed"], pc.coalesce(rows["client_id"], only), rows["client_id"])
    host = pc.if_else(pc.match_substring(rows["broker"], ":"), _joined("[", rows["broker"], "]"), rows["broker"])
    made = {"client_id": name, "broker": _joined(host, ":", rows["broker_port"].cast(pa.string()))}
    kept = ["connection", "client_id", "client", "broker", "failed", *columns]
    return pa.table({column: made.get(column, rows[column]) for column in kept})


def beside(
    table: ds.Dataset | None,
    columns: Sequence[str] | Mapping[str, pc.Expression],
    ends: pa.Table,
    of_ends: Sequence[str],
    where: pc.Expression | None = None,
) -> Iterator[pa.Table]:
    """Columns of a table, in parts, with columns of the rows' connections beside them; rows of no such are left out.

    Columns are names, or what is made of them by name as they are read: of long texts no more than is needed.
    """
    made = columns if isinstance(columns, Mapping) else {name: pc.field(name) for name in columns}
    wanted = {"connection": pc.field("connection"), **made}
    connections = one_array(ends["connection"])
    for rows in _together(scanning.batches(table, wanted, where)) if table is not None else ():
        place = pc.index_in(rows["connection"], connections)
        if place.null_count:
            rows, place = rows.filter(pc.is_valid(place)), place.drop_null()
        for name in of_ends:
            rows = rows.append_column(name, ends[name].take(place))
        if rows.num_rows:
            yield rows


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Small batches as larger ones: what is done with each costs more than a few thousand rows do."""
    some: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        some.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.Table.from_batches(some)
            some, rows, size = [], 0, 0
    if some:
        yield pa.Table.from_batches(some)


def _joined(*texts: object) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(*texts, "")
