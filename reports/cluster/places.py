"""Which cluster, and which of its listeners, an answer is about.

A cluster may have several listeners, each with addresses of its own for the same brokers: which one a client asked
shows only in the addresses that it was told. Old versions do not tell the cluster's id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kafkascope.reports.cluster.facts import Fact, FactKind
from kafkascope.reports.cluster.told import Answer, Units

_TELLING = (FactKind.CLUSTER, FactKind.LISTED)

Listener = tuple[str, int, str]
"""One of the brokers that a listener lists stands for it: cluster, node id, address:port."""


class Places:
    """What all answers together tell of clusters and listeners."""

    def __init__(self, answers: Iterable[Answer], units: Units) -> None:
        self._ids: set[str] = set()
        self._of_connection: dict[int, str] = {}
        self._of_broker: dict[str, set[str]] = defaultdict(set)
        self._above: dict[Listener, Listener] = {}
        telling = {unit: facts for unit, facts in units.items() if any(fact.kind in _TELLING for fact in facts)}
        lists = []
        for answer in answers:
            for facts in (telling[unit] for unit in answer.told if unit in telling):
                self._learn(answer, facts)
                lists.append((answer, brokers_listed(facts)))
        for answer, brokers in lists:
            if brokers:
                self._join(self.cluster(answer), brokers)

    def cluster(self, answer: Answer) -> str:
        """The cluster: its id if that is told; empty if nobody tells any; else the broker's address stands for it."""
        if answer.connection in self._of_connection:
            return self._of_connection[answer.connection]
        for ids in (self._of_broker.get(answer.broker, set()), self._ids):
            if len(ids) == 1:
                return next(iter(ids))
        return answer.broker if self._ids else ""

    def cluster_id(self, cluster: str) -> str | None:
        """The id that was told of it."""
        return cluster if cluster in self._ids else None

    def listener(self, broker: Listener) -> Listener:
        """The listener that lists this broker; lists that have a broker at one address in common are of one."""
        while (above := self._above.get(broker, broker)) != broker:
            self._above[broker] = self._above.get(above, above)
            broker = above
        return broker

    def _learn(self, answer: Answer, facts: list[Fact]) -> None:
        ids = {fact.name for fact in facts if fact.kind is FactKind.CLUSTER and fact.name is not None}
        self._ids |= ids
        for cluster_id in sorted(ids):
            self._of_connection.setdefault(answer.connection, cluster_id)
            for host in [answer.broker, *(fact.host for fact in brokers_listed(facts))]:
                if host is not None:
                    self._of_broker[host].add(cluster_id)

    def _join(self, cluster: str, brokers: list[Fact]) -> None:
        tokens = [(cluster, fact.node_id or 0, fact.host or "") for fact in brokers]
        for token in tokens[1:]:
            low, high = sorted((self.listener(tokens[0]), self.listener(token)))
            if low != high:
                self._above[high] = low


def brokers_listed(facts: Iterable[Fact]) -> list[Fact]:
    """Those of the facts that list a broker."""
    return [fact for fact in facts if fact.kind is FactKind.LISTED]
