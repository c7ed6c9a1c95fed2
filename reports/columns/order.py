"""The order of a table's rows, whatever way they were made: in files they lie as tasks wrote them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.vocabulary.finding_kinds import Severity

# Rows that are equal in these are of one task, which has put them in order.
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
    "cluster_events": ["at", "cluster_id"],
    "error_histogram": ["api", "error", "topic", "partition", "group_id", "member_id", "broker", "client_id", "at"],
    "latency": ["api", "api_version", "broker", "client_id", "client", "topic", "acks", "from", "part"],
    "throughput": ["topic", "client_id", "client", "direction", "from"],
    "lag": ["group_id", "topic", "partition", "at"],
    "rereads": ["at", "group_id", "topic", "partition"],
    "forgotten_commits": ["at", "group_id", "topic", "partition"],
    "findings": ["severity_rank", "-weight", "kind", "since", "subject"],
}


def ordered(name: str, table: pa.Table) -> pa.Table:
    """The rows of a table in the order in which people read them, exchanges by time of completion.

    Columns that are not among the keys may be missing.
    """
    names = table.column_names
    keys = _ORDER[name]
    if "completed" in keys:
        done = pc.coalesce(table["response_done"], table["request_done"], table["answered"], table["requested"])
        table = table.append_column("completed", done)
    if "severity_rank" in keys:
        table = table.append_column("severity_rank", pc.index_in(table["severity"], pa.array(list(Severity))))
    table = table.append_column("_row", pa.array(np.arange(len(table))))
    by = [(key.removeprefix("-"), "descending" if key.startswith("-") else "ascending") for key in [*keys, "_row"]]
    order = pc.sort_indices(table, by)
    return table.take(order).select(names)
