"""Several clusters in one capture: which broker is of which, and what their groups are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from kafkascope.reports.columns.text import address, is_name, without_port


@dataclass(frozen=True)
class Clusters:
    """Clusters by a broker's address:port, as far as they were told.

    Two clusters may have a group of one name. Groups of the cluster with most brokers (of several the first by its id)
    have their name, those of the others are called NAME@CLUSTER: so it does not hang on which groups there are.
    """

    of_broker: Mapping[str, str] = field(default_factory=dict)
    home: str | None = None  # whose groups have their names; None: there are not several clusters
    nodes: Mapping[str, str] = field(default_factory=dict)  # by the address:port, or name:port, that lists have of them

    @classmethod
    def of(
        cls,
        of_broker: Mapping[str, str],
        before: Clusters | None = None,
        nodes: Mapping[str, str] = MappingProxyType({}),
    ) -> Clusters:
        """Those of these brokers; which one is at home stays as it was before, so that no group gets another name."""
        brokers = Counter(of_broker.values())
        home = before.home if before is not None else None
        if home is None and len(brokers) > 1:
            home = min(brokers, key=lambda cluster: (-brokers[cluster], cluster))
        return cls(of_broker, home, nodes)

    def node_at(self, host: str, port: int) -> str | None:
        """The node at an address: as lists have it, or as the one that they have at that port of a name."""
        if (node := self.nodes.get(address(host, port))) is not None:
            return node
        named = {node for place, node in self._named if place.endswith(f":{port}")}
        return named.pop() if len(named) == 1 else None

    def nodes_at(self, host: str) -> set[str]:
        """All nodes that lists have at an address."""
        return {node for place, node in self.nodes.items() if without_port(place) == host}

    @cached_property
    def _named(self) -> list[tuple[str, str]]:
        return [(place, node) for place, node in self.nodes.items() if is_name(without_port(place))]

    def cluster_of(self, broker: str | None) -> str | None:
        """The cluster of a broker: if nobody told it, the one at home; None where there are not several."""
        return None if self.home is None else self.of_broker.get(broker or "", self.home)

    def group(self, name: str, cluster: str | None) -> str:
        """What a group of a cluster is called."""
        return name if self.home is None or cluster in (None, self.home) else f"{name}@{cluster}"


ONE_CLUSTER = Clusters()
