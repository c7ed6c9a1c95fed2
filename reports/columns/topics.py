"""Topics that messages know by id: which name belongs to which id, and the ids of a table replaced by names.

A topic that is known by id alone is written as ``id:`` and the id as Kafka prints it (URL-safe base64, 22 characters;
a colon cannot be in a topic's name), until some message of the capture, earlier or later, told the name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.payloads import CLUSTER_METADATA_ID, CLUSTER_METADATA_TOPIC
from kafkascope.reports.columns.arrow import dictionary_codes

ID_PREFIX = "id:"
NO_ID = "A" * 22
_BY_ID = re.compile(rf"{ID_PREFIX}[\w-]{{22}}", re.ASCII)
# The one id that is the same in every cluster.
RESERVED = {ID_PREFIX + CLUSTER_METADATA_ID: CLUSTER_METADATA_TOPIC}


_CLUSTER_OF = "cluster of "  # a broker's address:port, or a client, as `learned` has it
_CLIENT_OF = "client of "  # ... a broker's address:port, and a client
_NODE_AT = "node at "  # ... what a list has as a broker's address:port
_CLIENT, _AND = "client ", " and "
_SEVERAL = ""  # clusters that an address belonged to: which, hangs on the time


def client_key(host: str, client_id: str | None) -> str:
    """What stands for a client among those of whom clusters are known."""
    return f"{_CLIENT}{host} {client_id or ''}"


class TopicNames:
    """What connections tell that others need: names of topics by id, and the clusters of brokers."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self._names: dict[str, str] = dict(RESERVED)
        self._clusters: dict[str, str] = {}
        self._clients: dict[str, dict[str, None]] = defaultdict(dict)  # of brokers that no list has by their address
        self._nodes: dict[str, str] = {}
        self.merge(names or {})

    def learn(self, topics_by_id: Iterable[tuple[str, str]]) -> None:
        """Take in pairs of a topic written by id, and its name."""
        for by_id, name in topics_by_id:
            known = self._names.get(by_id)
            # An id never gets another name (KIP-516); if bytes say so all the same, the choice must not hang on order.
            if known is None or name < known:
                self._names[by_id] = name

    def learn_clusters(self, told: Iterable[tuple[str, str]]) -> None:
        """Take in pairs of a broker's address:port, or a client (`client_key`), and the id of its cluster."""
        for who, cluster in told:
            known = self._clusters.setdefault(who, cluster)
            if known != cluster:
                self._clusters[who] = _SEVERAL

    def learn_clients(self, speaking: Iterable[tuple[str, str]]) -> None:
        """Take in pairs of a broker's address:port and a client that spoke with it."""
        for broker, client in speaking:
            self._clients[broker][client] = None

    def learn_nodes(self, listed: Iterable[tuple[str, str]]) -> None:
        """Take in pairs of what a list has as a broker's address:port, and the node that it is."""
        for place, node in listed:
            self._nodes[place] = min(node, self._nodes.get(place, node))  # that it is one matters, not which

    @property
    def nodes(self) -> dict[str, str]:
        """Nodes by the address:port, or name:port, that lists have of them."""
        return dict(self._nodes)

    @property
    def clusters(self) -> dict[str, str]:
        """Ids of clusters by a broker's address:port; without those of which several were told.

        A broker of which none was told is of the cluster of its clients, if these know of one alone.
        """
        told = {who: cluster for who, cluster in self._clusters.items() if cluster != _SEVERAL}
        for broker, clients in self._clients.items():
            of_clients = {told[client] for client in clients if client in told}
            if broker not in self._clusters and len(of_clients) == 1:
                told[broker] = of_clients.pop()
        return {who: cluster for who, cluster in told.items() if not who.startswith(_CLIENT)}

    def name(self, identity: str) -> str | None:
        """The name of a topic by its id as Kafka prints it; None if no message told it."""
        return self._names.get(ID_PREFIX + identity)

    def learned(self) -> dict[str, str]:
        """All names by topic as written by id, and clusters: what `merge` and the constructor take."""
        clusters = {_CLUSTER_OF + who: cluster for who, cluster in self._clusters.items()}
        nodes = {_NODE_AT + place: node for place, node in self._nodes.items()}
        unlisted = {broker: clients for broker, clients in self._clients.items() if broker not in self._clusters}
        pairs = ((broker, client) for broker, clients in unlisted.items() for client in clients)
        return self._names | clusters | nodes | {_CLIENT_OF + broker + _AND + client: "" for broker, client in pairs}

    def merge(self, other: TopicNames | Mapping[str, str]) -> None:
        """Take in what another part of the capture knew."""
        names = other.learned() if isinstance(other, TopicNames) else other
        for key, name in names.items():
            if key.startswith(_CLUSTER_OF):
                self.learn_clusters([(key.removeprefix(_CLUSTER_OF), name)])
            elif key.startswith(_NODE_AT):
                self.learn_nodes([(key.removeprefix(_NODE_AT), name)])
            elif key.startswith(_CLIENT_OF):
                broker, _, client = key.removeprefix(_CLIENT_OF).partition(_AND)
                self.learn_clients([(broker, client)])
            else:
                self.learn([(key, name)])

    def in_text(self, text: str) -> str:
        """A text with names for those ids in it that are known by now."""
        return _BY_ID.sub(lambda found: self._names.get(found[0], found[0]), text)

    def resolve(self, table: pa.Table) -> pa.Table:
        """The table with names for those ids in its topic column that are known by now."""
        place = table.schema.get_field_index("topic")
        if place < 0 or not self._names or not table.num_rows:
            return table
        return table.set_column(place, table.schema.field(place), self.resolve_topics(table.column(place)))

    def resolve_topics(self, topics: pa.Array) -> pa.Array:
        """Topics with names for those ids that are known by now."""
        if not pc.any(pc.starts_with(topics, ID_PREFIX)).as_py():
            return topics
        codes, distinct = dictionary_codes(topics)
        written = distinct.to_pylist()
        names = [self._names.get(topic, topic) for topic in written]
        if names == written:
            return topics
        return pa.array(names, pa.string()).take(pa.array(codes, mask=codes < 0))


def written_by_id(ids: pa.Array) -> pa.Array:
    """Topics as written by id; null for the id that is all zero and means none."""
    there = pc.not_equal(ids, NO_ID)
    return pc.if_else(there, pc.binary_join_element_wise(pa.scalar(ID_PREFIX), ids, ""), pa.scalar(None, pa.string()))


def topics(names: pa.Array, by_id: pa.Array) -> pa.Array:
    """Each topic by its name where the message has one that is not empty, else by id, else null."""
    return pc.coalesce(pc.if_else(pc.equal(names, ""), pa.scalar(None, pa.string()), names), by_id)
