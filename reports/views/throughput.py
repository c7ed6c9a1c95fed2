"""The view of throughput: what was produced and fetched, by topic, client and time."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from kafkascope.reports.columns.parties import Ends
from kafkascope.reports.columns.views import Known, by_key
from kafkascope.reports.measures.throughput import Moved, throughput_table
from kafkascope.reports.vocabulary.tables import THROUGHPUT_COUNTS


class ThroughputView:
    """Rows of ``THROUGHPUT_COUNTS``, of which `result` makes the table ``throughput``."""

    name = "throughput_counts"
    schema = THROUGHPUT_COUNTS
    key = "shard"
    needs = frozenset({"exchanges", "partitions", "batches"})
    results: tuple[str, ...] = ("throughput",)

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """What a batch moved; None where it moved nothing."""
        if (exchanges := tables.get("exchanges")) is None or not exchanges.num_rows:
            return None
        rows = pa.concat_tables(Moved(exchanges, tables, ends).rows())
        return rows if rows.num_rows else None

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """The table ``throughput``."""
        found = [throughput_table(of_shard) for _, of_shard in by_key(rows, self.key)]
        return {"throughput": pa.concat_tables(found)} if found else {}
