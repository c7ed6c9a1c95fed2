"""Which broker is at which address, at a time, and who its clients are."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import listed, named
from kafkascope.reports.columns.text import address, address_alone, is_name, without_port
from kafkascope.reports.incidents.connection_rows import ConnectionRows
from kafkascope.reports.incidents.incident import Subject, every
from kafkascope.reports.incidents.table_rows import Row, between
from kafkascope.reports.measures.client_facts import NO_NAME
from kafkascope.reports.vocabulary.broker_client_ids import is_of_broker, is_of_quorum, quorum_node
from kafkascope.reports.vocabulary.incident_kinds import Role

_PLACING = ("broker_listed", "broker_moved", "broker_found")  # events of clusters that say where a broker is
_MOST_HOSTS = 100  # of one client id, as subjects of one incident


@dataclass(frozen=True, slots=True)
class Node:
    """A broker of a cluster: several clusters may be in one capture, and number their brokers alike."""

    cluster_id: str | None
    id: str


@dataclass(slots=True, eq=False)
class Takeover:
    """Another broker answers at an address than before."""

    place: str  # address:port
    at: int  # when that was first seen
    cluster_id: str | None  # of the broker from before
    before: Node | None = None  # that broker; None: nobody told which it was
    rows: list[Row] = field(default_factory=list)  # the events that tell it
    until: int | None = None  # when the broker from before was seen there again

    @property
    def host(self) -> str:
        """The address."""
        return without_port(self.place)

    @property
    def after(self) -> str | None:
        """The node id of the one that is there now; None if nobody told it."""
        return next((row["after"] for row in self.rows if row["after"] is not None), None)

    @property
    def is_foreign(self) -> bool:
        """Whether that is none of the same cluster, as far as is known."""
        return any(row["detail"] is not None for row in self.rows)


class WhoIsWho(ConnectionRows):
    """Brokers and clients of one capture."""

    @cached_property
    def events(self) -> list[Row]:
        """Of the cluster, by time."""
        return sorted(
            self.rows("cluster_events"), key=lambda row: (row["at"], row["packet"] or 0, *map(str, row.values()))
        )

    def events_of(self, node: Node | None, since: int, until: int) -> Sequence[Row]:
        """Events of a broker's cluster in a time; none of a broker that no cluster told of."""
        if node is None:
            return []
        return [row for row in between(self.events, since, until) if row["cluster_id"] == node.cluster_id]

    @cached_property
    def placing(self) -> list[Row]:
        """Events that say where brokers are, by time."""
        return [row for row in self.events if row["event"] in _PLACING and row["host"] and row["node_id"] is not None]

    @cached_property
    def _places(self) -> dict[str, Node]:
        """The broker at each address:port, or name:port, in the end."""
        told = {row["host"]: _node_of(row) for row in self.placing}
        return told | self._left_over(told)

    def _left_over(self, told: Mapping[str, Node]) -> dict[str, Node]:
        """Where connects fail of clients that were told names: the broker whose name has that port.

        If one is left over, which was seen at no address; and if no connect to the place succeeded.
        """
        seen = {node for place, node in told.items() if not is_name(without_port(place))}
        unseen: dict[str, set[Node]] = defaultdict(set)  # by port
        for place, node in told.items():
            if node not in seen:
                unseen[place.rpartition(":")[2]].add(node)
        if not unseen:
            return {}
        speaking = {client for client, _, _, is_kafka in self.parties if is_kafka}
        found: dict[Node, set[str]] = defaultdict(set)
        for row in self.failed_connects:
            left = unseen.get(str(row["broker_port"]), set())
            place = address(row["broker"], row["broker_port"])
            if len(left) == 1 and place not in told and row["client"] in speaking:
                found[next(iter(left))].add(place)
        alone = {next(iter(places)): node for node, places in found.items() if len(places) == 1}
        return {place: node for place, node in alone.items() if not self.reached(place)}

    @cached_property
    def takeovers(self) -> dict[str, list[Takeover]]:
        """Addresses at which another broker answers than before, by time; what clients met there is one with it."""
        found: dict[str, list[Takeover]] = defaultdict(list)
        for row in self.events:
            if row["event"] not in ("address_taken", "broker_back") or row["host"] is None:
                continue
            of_host = found[self.where(row["host"])]
            last = of_host[-1] if of_host and of_host[-1].until is None else None
            if row["event"] == "broker_back":
                if last is not None and last.before == Node(row["cluster_id"], str(row["node_id"])):
                    last.until = row["at"]
                continue
            before = None if row["before"] is None else Node(row["cluster_id"], row["before"])
            if last is None or last.cluster_id != row["cluster_id"] or (before and last.before not in (None, before)):
                last = Takeover(row["host"], row["at"], row["cluster_id"])
                of_host.append(last)
            last.before = last.before or before
            last.rows.append(row)
        return found

    def node(self, host: str, at: int) -> Node | None:
        """The broker at an address, at a time; None if no cluster told."""
        takeovers = self.takeovers.get(host)
        now = self.nodes.get(host)
        if not takeovers:
            turns = self._in_turn.get(host) if now is not None else None
            return now if turns is None else turns[max(bisect_right(turns, at, key=_told_at) - 1, 0)][1]
        last = next((one for one in reversed(takeovers) if one.at <= at), None)
        if last is None:
            return takeovers[0].before
        if last.until is not None and last.until <= at:
            return last.before
        coming = next((one for one in takeovers if at < one.at), None)
        if coming is not None and coming.before not in (None, last.before):
            return coming.before
        return None if coming is not None or now == last.before else now

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """The broker at each host that a cluster told, in the end; by address:port at hosts that have several."""
        return {where: next(iter(nodes)) for where, nodes in self._at.items() if len(nodes) == 1}

    @cached_property
    def _at(self) -> dict[str, set[Node]]:
        """All brokers at each host, in the end; and where it has several, also the one at each address:port."""
        found: dict[str, set[Node]] = defaultdict(set)
        for place, node in self._places.items():
            found[without_port(place)].add(node)
        several = {host for host, nodes in found.items() if len(nodes) > 1}
        return found | {place: {node} for place, node in self._places.items() if without_port(place) in several}

    @cached_property
    def _in_turn(self) -> dict[str, list[tuple[int, Node]]]:
        """Of hosts at whose one place several brokers were told, one after the other: each, and when; by time."""
        found: dict[str, dict[Node, tuple[int, str]]] = defaultdict(dict)
        for row in self.placing:
            found[self.where(row["host"])].setdefault(_node_of(row), (row["at"], row["host"]))
        return {
            host: [(at, node) for node, (at, _) in told.items()]
            for host, told in found.items()
            if len(told) > 1 and len({place for _, place in told.values()}) == 1
        }

    def told_behind(self, host: str, at: int) -> Node | None:
        """The broker that was told first at a host after a time, where several were told there in turn."""
        turns = self._in_turn.get(host, [])
        return next((node for told, node in turns if told >= at), None)

    def where(self, place: str) -> str:
        """What a broker at an address:port goes by: the address, unless other brokers are there as well."""
        return place if place in self._at else without_port(place)

    def _nodes_at(self, host: str, at: int | None) -> list[Node]:
        node = self.nodes.get(host) if at is None else self.node(host, at)
        several = self._at.get(host, set()) if host not in self.nodes and host not in self.takeovers else set()
        return [node] if node is not None else sorted(several, key=lambda one: (one.cluster_id or "", one.id))

    def listing(self, place: str) -> Row | None:
        """The event that lists the broker at an address:port, maybe by its name; None if none does."""
        node = self._places.get(place)
        by_address = (row for row in self.placing if row["host"] == place)
        return next(chain(by_address, (row for row in self.placing if _node_of(row) == node)), None)

    def listed_as(self, node: Node | None) -> list[str]:
        """What address:port, or name:port, a broker has on lists."""
        return [] if node is None else self._listed.get(node, [])

    @cached_property
    def _listed(self) -> dict[Node, list[str]]:
        found: dict[Node, list[str]] = defaultdict(list)
        for place, node in self._places.items():
            found[node].append(place)
        return found

    def moved_to(self, host: str, at: int) -> str | None:
        """At which other address the broker of a host was first found after a time; None if nothing tells."""
        node = self.node(host, at)
        later = (row for row in self.events_of(node, at, self.end + 1) if row["event"] == "broker_found")
        found = (without_port(row["host"]) for row in later if node is not None and str(row["node_id"]) == node.id)
        return next((other for other in found if other != host), None)

    @cached_property
    def brokers(self) -> set[str]:
        """Addresses of brokers."""
        return {*map(without_port, self._places)} | {broker for _, broker, _, is_kafka in self.parties if is_kafka}

    def is_broker(self, host: str, client_id: str | None) -> bool:
        """Whether who asks brokers from an address is one: by its client id, or where it has none, by whom it asks.

        Clients may be on a broker's machine, or all be on one.
        """
        if client_id and client_id != NO_NAME:
            return host in self.brokers and is_of_broker(client_id)
        return host in self._asking

    @cached_property
    def _asking(self) -> set[str]:
        """Addresses of brokers from which brokers at other addresses are asked."""
        return {client for client, broker, *_ in self.parties if client != broker} & self.brokers

    @cached_property
    def has_one_broker(self) -> bool:
        """Whether the capture has one broker, as far as it tells: then nothing waits for replicas."""
        return len({*self.nodes.values()}) == 1 and len(self.brokers) == 1

    @cached_property
    def servers(self) -> set[str]:
        """Addresses of brokers, and of what may be one: who serves TLS that shows no other protocol.

        Where some Kafka can be read, only at ports at which brokers serve: else any web server may be one.
        """
        places: dict[str, set[tuple[str, int]]] = {"kafka": set(), "tls": set()}
        where = pc.field("protocol").isin([*places])
        for batch in self.batches("connections", ("protocol", "broker", "broker_port"), where):
            for row in batch.group_by(["protocol", "broker", "broker_port"]).aggregate([]).to_pylist():
                places[row["protocol"]].add((row["broker"], row["broker_port"]))
        if not self.brokers:
            return {host for host, _ in places["tls"]}
        of_brokers = places["kafka"] | {place for place in places["tls"] if place[0] in self.brokers}
        ports = {port for _, port in of_brokers}
        return self.brokers | {host for host, port in places["tls"] if port in ports}

    def broker(self, host: str, at: int | None = None) -> tuple[Subject, ...]:
        """A broker as a subject: the one at this address at a time, or in the end; if there are several, all."""
        nodes = (Subject(Role.BROKER, node.id) for node in self._nodes_at(host, at))
        return (*nodes, *every(Role.HOST, dict.fromkeys([host, address_alone(host)])))

    def broker_words(self, host: str, at: int | None = None) -> str:
        """``broker 2 (10.0.0.2)``: the one at this address at a time, or in the end; with its name if it has one.

        Or ``controller 100 (10.0.0.9)``: of whose number the client id tells with which it asks other controllers.
        """
        nodes = self._nodes_at(host, at)
        if not nodes and self.is_controller(host, at):
            ids = {quorum_node(name) for client, _, name, _ in self.parties if client == host} - {None}
            return f"controller {ids.pop()} ({host})" if len(ids) == 1 else f"controller {host}"
        if not nodes:
            return f"broker {host}"
        names = map(without_port, self.listed_as(nodes[0])) if len(nodes) == 1 else ()
        known = ", ".join(dict.fromkeys([*filter(is_name, names), host]))
        return f"{named('broker', [node.id for node in nodes])} ({known})"

    def is_controller(self, host: str, at: int | None = None) -> bool:
        """Whether who is at an address is a controller, and no broker as far as clusters tell."""
        return self.is_of_quorum(host) and not self._nodes_at(host, at)

    def is_of_quorum(self, host: str) -> bool:
        """Whether who is at an address is a controller, be it a broker as well or not."""
        return host in self._controllers

    @cached_property
    def _controllers(self) -> set[str]:
        """Addresses at which others fetch the log of the cluster, or vote."""
        return {broker for _, broker, name, is_kafka in self.parties if is_kafka and is_of_quorum(name)}

    def subjects_at(self, host: str) -> tuple[Subject, ...]:
        """Who is at an address, as subjects: brokers, or a host."""
        return self.broker(host) if address_alone(host) in self.brokers else (Subject(Role.HOST, host),)

    def who(self, host: str) -> str:
        """``broker 2 (10.0.0.2)``; ``c1 (10.0.1.1)`` of a client; the address alone if it is not known."""
        if address_alone(host) in self.brokers:
            return self.broker_words(host)
        names = self.names_at([host])
        return f"{listed(names)} ({host})" if names else host

    def clients(self, client_ids: Sequence[str], heard_from: Collection[str] = ()) -> Iterator[Subject]:
        """Clients as subjects, with their hosts; of a name that very many have with some of them.

        Most libraries give all clients one name, if nobody chooses another: of those at several addresses it is those
        that this was heard from, as far as that is known.
        """
        for name in client_ids:
            yield Subject(Role.CLIENT, name)
            hosts = self.hosts_of.get(name, [])
            for host in ([host for host in hosts if host in heard_from] or hosts)[:_MOST_HOSTS]:
                yield Subject(Role.HOST, host)


def _node_of(event: Row) -> Node:
    return Node(event["cluster_id"], str(event["node_id"]))


def _told_at(turn: tuple[int, Node]) -> int:
    return turn[0]
