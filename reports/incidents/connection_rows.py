"""Who had connections with whom, and what became of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.text import address, without_port
from kafkascope.reports.incidents.table_rows import Row, TableRows

_CONNECTION = (
    "connection",
    "client",
    "client_port",
    "broker",
    "broker_port",
    "opened",
    "closed",
    "how_closed",
    "protocol",
    "client_id",
    "connect",
    "closed_by",
    "security",
    "lost_bytes",
    "exchanges",
    "packets_up",
    "packets_down",
)


class ConnectionRows(TableRows):
    """Connections of one capture."""

    @cached_property
    def parties(self) -> list[tuple[str, str, str | None, bool]]:
        """Who spoke with whom: client's and broker's address, client id, whether it was Kafka; by first connection."""
        found: dict[tuple[str, str, str | None, bool], int] = {}
        for batch in self.batches("connections", ("connection", "client", "broker", "client_id", "protocol")):
            firsts = batch.group_by(["client", "broker", "client_id", "protocol"]).aggregate([("connection", "min")])
            for row in firsts.to_pylist():
                key = row["client"], row["broker"], row["client_id"], row["protocol"] == "kafka"
                found[key] = min(found.get(key, row["connection_min"]), row["connection_min"])
        return sorted(found, key=lambda key: found[key])

    @cached_property
    def failed_connects(self) -> list[Row]:
        """Connections that were refused or never answered, by number."""
        return self.connections(pc.field("connect").isin(["refused", "unanswered"]))

    def connections(self, where: pc.Expression) -> list[Row]:
        """Those that a condition holds for, by number."""
        return sorted(self.rows("connections", _CONNECTION, where), key=lambda row: int(row["connection"]))

    def connections_to(self, places: Collection[str]) -> dict[str, list[Row]]:
        """Connections of Kafka to each of some address:ports, by number."""
        return self._to(places, pc.field("protocol") == "kafka")

    def _to(self, places: Collection[str], which: pc.Expression) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {place: [] for place in sorted(places)}
        hosts, ports = {without_port(place) for place in found}, {int(place.rpartition(":")[2]) for place in found}
        where = which & among("broker", hosts) & pc.field("broker_port").isin(sorted(ports))
        if len(found) > 1 and not self.fits("connections", where):
            half = len(found) // 2
            return self._to([*found][:half], which) | self._to([*found][half:], which)
        for row in self.connections(where) if found else ():
            if (place := address(row["broker"], row["broker_port"])) in found:
                found[place].append(row)
        return found

    def served(self, places: Collection[str]) -> dict[str, list[Row]]:
        """Connections to each of some address:ports on which something was asked for and done, by number."""
        return self._to(places, pc.field("exchanges") > 2)

    def connections_named(self, client_ids: Collection[str]) -> list[Row]:
        """Connections of clients with these ids, by number."""
        return self.connections(among("client_id", client_ids))

    def connections_of(self, clients: Collection[tuple[str, str | None]]) -> list[Row]:
        """Connections of some clients, each a host and a client id, which may have none, by number."""
        hosts, names = {host for host, _ in clients}, {name for _, name in clients}
        where = among("client", hosts) & among("client_id", names)
        return [row for row in self.connections(where) if (row["client"], row["client_id"]) in clients]

    def connections_between(self, pairs: Collection[tuple[str, str]]) -> list[Row]:
        """Connections between some clients' and brokers' addresses, by number."""
        clients, brokers = sorted({client for client, _ in pairs}), sorted({broker for _, broker in pairs})
        where = among("client", clients) & among("broker", brokers)
        return [row for row in self.connections(where) if (row["client"], row["broker"]) in pairs]

    def connections_by_number(self, numbers: Sequence[int]) -> dict[int, Row]:
        """Some connections, by number."""
        return {row["connection"]: row for row in self.connections(pc.field("connection").isin(list(numbers)))}

    def asked_from(self, rows: Iterable[Row]) -> set[str]:
        """Addresses of those who asked for some exchanges, or for the first of each that are counted together."""
        numbers = {row["connection"] if "connection" in row else row["first_connection"] for row in rows} - {None}
        return {row["client"] for row in self.connections_by_number(sorted(numbers)).values()}

    def last_answered(self, numbers: Collection[int]) -> dict[int, int]:
        """When the latest request of connections was sent that was answered; what was sent before it was answered, too.

        As `columns.answered` has it: where an answer before that is not there, the capture lacks it.
        """
        found: dict[int, int] = {}
        where = pc.field("connection").isin(list(numbers)) & pc.field("answered").is_valid()
        for batch in self.batches("exchanges", ("connection", "requested"), where) if numbers else ():
            for row in batch.group_by("connection").aggregate([("requested", "max")]).to_pylist():
                latest = row["requested_max"] or 0
                found[row["connection"]] = max(found.get(row["connection"], 0), latest)
        return found

    def reached(self, place: str) -> bool:
        """Whether any connect to an address:port succeeded, or a connection to it was there before."""
        return place in self._reached

    @cached_property
    def _reached(self) -> set[str]:
        # Of a refused connect whose SYN the capture lacks there is an RST alone; who sends FIN had a connection.
        said = (pc.field("protocol") != "empty") | (pc.field("how_closed") != "rst")
        was_open = pc.field("connect").is_null() & said
        where = (pc.field("connect") == "established") | was_open
        return {
            address(row["broker"], row["broker_port"])
            for batch in self.batches("connections", ("broker", "broker_port"), where)
            for row in batch.group_by(["broker", "broker_port"]).aggregate([]).to_pylist()
        }

    @cached_property
    def _bytes(self) -> dict[frozenset[str], tuple[int, int]]:
        """Bytes that a host said and heard, and those between two: how many, and how many of them in lost packets."""
        found: dict[frozenset[str], tuple[int, int]] = {}
        columns = ("client", "broker", "bytes_up", "bytes_down", "lost_bytes")
        for batch in self.batches("connections", columns):
            sums = batch.group_by(["client", "broker"]).aggregate([(name, "sum") for name in columns[2:]])
            for client, broker, up, down, lost in zip(*(column.to_pylist() for column in sums.columns), strict=True):
                for hosts in {frozenset((client, broker)), frozenset((client,)), frozenset((broker,))}:
                    size, lacking = found.get(hosts, (0, 0))
                    found[hosts] = size + (up or 0) + (down or 0), lacking + (lost or 0)
        return found

    def lacking(self, *hosts: str, but: int = 0) -> float:
        """The percentage of the bytes that the capture lacks, of what two hosts said to each other, or one to all.

        Those that the snap length cut off do not count: who said something, and when, is known. Nor do so many others.
        """
        size, lacking = self._bytes.get(frozenset(hosts), (0, 0))
        return 100 * (lacking - but) / max(size, 1)

    @cached_property
    def hosts_of(self) -> dict[str, list[str]]:
        """Addresses of each client id, in the order in which it was first heard from them."""
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for client, _, client_id, _ in self.parties:
            if client_id:
                found[client_id][client] = None
        return {name: list(hosts) for name, hosts in found.items()}

    def names_at(self, hosts: Collection[str], broker: str | None = None) -> list[str]:
        """Client ids that were heard from some addresses, in order; or that spoke from there with one broker's."""
        return sorted(
            {
                client_id
                for client, spoken_with, client_id, _ in self.parties
                if client_id and client in hosts and broker in (None, spoken_with)
            }
        )

    @cached_property
    def used_topics(self) -> set[str]:
        """Topics that somebody read or wrote records of."""
        found = self.batches("throughput", ["topic"], pc.field("records") > 0)
        return {topic for batch in found for topic in batch["topic"].unique().to_pylist() if topic is not None}
