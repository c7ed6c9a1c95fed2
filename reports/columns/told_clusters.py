"""What connections tell of clusters that others need: brokers and clients of which one is known, and nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

_CLUSTER_OF = "cluster of "  # a broker's address:port, or a client, as `ToldClusters.learned` has it
_CLIENT_OF = "client of "  # ... a broker's address:port, and a client
_NODE_AT = "node at "  # ... what a list has as a broker's address:port
_CLIENT, _AND = "client ", " and "
_SEVERAL = ""  # clusters that an address belonged to: which, hangs on the time


def client_key(host: str, client_id: str | None) -> str:
    """What stands for a client among those of whom clusters are known."""
    return f"{_CLIENT}{host} {client_id or ''}"


class ToldClusters:
    """What is told so far; in whatever order it is taken in, it is the same."""

    def __init__(self) -> None:
        self._clusters: dict[str, str] = {}
        self._clients: dict[str, dict[str, None]] = defaultdict(dict)  # of brokers that no list has by their address
        self._nodes: dict[str, str] = {}

    def learn(self, told: Iterable[tuple[str, str]]) -> None:
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
    def of_broker(self) -> dict[str, str]:
        """Ids of clusters by a broker's address:port; without those of which several were told.

        A broker of which none was told is of the cluster of its clients, if these know of one alone.
        """
        told = {who: cluster for who, cluster in self._clusters.items() if cluster != _SEVERAL}
        for broker, clients in self._clients.items():
            of_clients = {told[client] for client in clients if client in told}
            if broker not in self._clusters and len(of_clients) == 1:
                told[broker] = of_clients.pop()
        return {who: cluster for who, cluster in told.items() if not who.startswith(_CLIENT)}

    def learned(self) -> dict[str, str]:
        """All of it as texts, each of which `take` takes in."""
        clusters = {_CLUSTER_OF + who: cluster for who, cluster in self._clusters.items()}
        nodes = {_NODE_AT + place: node for place, node in self._nodes.items()}
        unlisted = {broker: clients for broker, clients in self._clients.items() if broker not in self._clusters}
        pairs = ((broker, client) for broker, clients in unlisted.items() for client in clients)
        return clusters | nodes | {_CLIENT_OF + broker + _AND + client: "" for broker, client in pairs}

    def take(self, key: str, value: str) -> bool:
        """Take in what another part of the capture learned; False if it is not of clusters."""
        if key.startswith(_CLUSTER_OF):
            self.learn([(key.removeprefix(_CLUSTER_OF), value)])
        elif key.startswith(_NODE_AT):
            self.learn_nodes([(key.removeprefix(_NODE_AT), value)])
        elif key.startswith(_CLIENT_OF):
            broker, _, client = key.removeprefix(_CLIENT_OF).partition(_AND)
            self.learn_clients([(broker, client)])
        else:
            return False
        return True
