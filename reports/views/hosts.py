"""The view of hosts: what brokers sent and what was due, and when they said nothing to anybody."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from kafkascope.reports.columns.parties import Ends
from kafkascope.reports.columns.views import Known, by_key
from kafkascope.reports.measures.silences import of_connections, of_exchanges, of_health, silence_table, silences
from kafkascope.reports.vocabulary.tables import ACTIVITY


class HostsView:
    """Rows of ``ACTIVITY`` by the broker's address; its result is the table ``silences``."""

    name = "activity"
    schema = ACTIVITY
    key = "host"
    needs = frozenset({"tcp_health", "connections", "exchanges", "terms"})
    results: tuple[str, ...] = ("silences",)

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """The rows of a batch; None without any."""
        parts = []
        if (health := tables.get("tcp_health")) is not None:
            parts.append(of_health(health))
        if (connections := tables.get("connections")) is not None:
            parts.append(of_connections(connections))
        if (exchanges := tables.get("exchanges")) is not None and exchanges.num_rows:
            parts.append(of_exchanges(exchanges, tables.get("terms"), ends))
        rows = [part for part in parts if part.num_rows]
        return pa.concat_tables(rows) if rows else None

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """The table ``silences``."""
        found = [silence for _, of_host in by_key(rows, self.key) for silence in silences(of_host)]
        return {"silences": silence_table(found)} if found else {}
