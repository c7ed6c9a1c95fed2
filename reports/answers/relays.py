"""Hosts that relay connections, so that a capture taken at them, or on both sides, has each message twice."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.reports.columns import scanning
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.sniffer.units import SECOND_NS

_SAID = ("client_id", "bytes_up", "bytes_down", "exchanges")
_KEYS = (*_SAID, "time")
_COLUMNS = (*_SAID, "client", "broker", "connection", "opened")
_WITHIN_NS = SECOND_NS  # a relay opens its connection when it is asked to
_NAMED, _MOST = 5, 500_000


def relayed(connections: ds.Dataset) -> str | None:
    """What to say of connections that carry on what others brought to a host, to the byte; None without any.

    A relay that reads Kafka, and changes what brokers say of addresses, is not seen. Of very many the first are asked.
    """
    talked = (pc.field("protocol") == "kafka") & pc.field("opened").is_valid() & (pc.field("exchanges") > 0)
    rows = _first(scanning.batches(connections, _COLUMNS, talked))
    if rows is None:
        return None
    rows = rows.set_column(rows.column_names.index("opened"), "opened", pc.cast(rows["opened"], pa.int64()))
    rows = rows.set_column(rows.column_names.index("client_id"), "client_id", pc.fill_null(rows["client_id"], ""))
    rows = rows.append_column("time", pc.divide(rows["opened"], _WITHIN_NS))
    there = rows.rename_columns([name if name in _KEYS else f"{name}_there" for name in rows.column_names])
    there = there.filter(pc.not_equal(there["broker_there"], there["client_there"]))
    there = there.append_column("host", there["client_there"])
    place = there.column_names.index("time")
    moved = (pc.add(there["time"], by) for by in (-1, 0, 1))  # else all that said the same at any time were pairs
    there = pa.concat_tables([there.set_column(place, "time", time) for time in moved])
    pairs = rows.append_column("host", rows["broker"]).join(there, [*_KEYS, "host"], join_type="inner")
    later = pc.subtract(pairs["opened_there"], pairs["opened"])
    pairs = pairs.filter(pc.less_equal(pc.abs(later), _WITHIN_NS))
    if not (count := pc.count_distinct(pairs["connection_there"]).as_py()):
        return None
    hosts = sorted(pairs["host"].unique().to_pylist())
    more = f" and {len(hosts) - _NAMED:,} more" if len(hosts) > _NAMED else ""
    return (
        f"{counted(count, 'connection')} of {listed(hosts[:_NAMED])}{more} {'carries' if count == 1 else 'carry'} on "
        "what others brought there, to the byte: behind a proxy all is counted twice, and clients seem to be "
        "in two places; capture on one side of it alone"
    )


def _first(batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
    kept, count = [], 0
    for batch in batches:
        kept.append(batch)
        count += batch.num_rows
        if count > _MOST:
            break
    return pa.Table.from_batches(kept) if count else None
