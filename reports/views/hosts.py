"""The view of hosts: what brokers sent and what was due, and when they said nothing to anybody."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.answered import Answered, Begun
from kafkascope.reports.columns.clusters import Clusters
from kafkascope.reports.columns.parties import Ends
from kafkascope.reports.columns.text import address
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

    def __init__(self) -> None:
        self._answered, self._begun = Answered(), Begun()

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """The rows of a batch; None without any."""
        parts = []
        if (health := tables.get("tcp_health")) is not None:
            parts.append(of_health(health))
        if (connections := tables.get("connections")) is not None:
            parts.append(of_connections(connections))
        if (exchanges := tables.get("exchanges")) is not None and exchanges.num_rows:
            parts.append(of_exchanges(exchanges, tables.get("terms"), ends, self._answered, self._begun))
        if connections is not None:
            for state in (self._answered, self._begun):
                state.forget(connections["connection"].to_pylist())
        rows = [part for part in parts if part.num_rows]
        return pa.concat_tables(rows) if rows else None

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """The table ``silences``."""
        found = [
            silence
            for host, of_host in by_key(rows, self.key)
            for of_broker in _brokers(host, of_host, known.clusters)
            for silence in silences(of_broker)
        ]
        return {"silences": silence_table(found)} if found else {}


def _brokers(host: str, rows: pa.Table, clusters: Clusters) -> Iterator[pa.Table]:
    """The rows of each broker of a host: of one alone all that the host has, of several those of their ports.

    What the host sends as a client may be of any of these, and so may ports that nobody lists.
    """
    at = {port: clusters.node_at(host, port) for port in rows["port"].unique().drop_null().to_pylist()}
    ports: dict[str, list[int]] = defaultdict(list)
    for port, node in sorted(at.items()):
        if node is not None:
            ports[node].append(port)
    if len(ports.keys() | clusters.nodes_at(host)) < 2:
        yield rows
        return
    place = rows.schema.get_field_index("host")
    for mine in ports.values():
        of_broker = rows.filter(pc.is_in(rows["port"], pa.array(mine, pa.int32())))
        named = pa.array([address(host, mine[0])] * of_broker.num_rows, pa.string())
        yield of_broker.set_column(place, "host", named)
