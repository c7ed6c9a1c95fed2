"""Which cluster, and which of its listeners, an answer is about.

A cluster may have several listeners, each with addresses of its own for the same brokers: which one a client asked
shows only in the addresses that it was told. Old versions do not tell the cluster's id.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, pairwise

from kafkascope.reports.cluster.facts import Fact, FactKind
from kafkascope.reports.cluster.told import Answer, Units

_TELLING = (FactKind.CLUSTER, FactKind.LISTED, FactKind.ANOTHER)

Listener = tuple[str, int, str]
"""One of the brokers that a listener lists stands for it: cluster, node id, address:port."""


@dataclass(slots=True)
class _Span:
    """From when to when a broker's address said that it belongs to a cluster."""

    cluster_id: str
    first: Answer
    last: int = field(init=False)  # nanoseconds


class Places:
    """What all answers together tell of clusters and listeners."""

    def __init__(self, answers: Iterable[Answer], units: Units, of_broker: Mapping[str, str]) -> None:
        """of_broker: clusters by a broker's address, as far as they are known otherwise."""
        self._known = of_broker
        self._ids: set[str] = set()
        self._of_connection: dict[int, str] = {}
        self._of_broker: dict[str, set[str]] = defaultdict(set)
        self._above: dict[Listener, Listener] = {}
        self._spans: dict[str, dict[str, _Span]] = defaultdict(dict)  # by the broker's address, and cluster
        telling = {unit: facts for unit, facts in units.items() if any(fact.kind in _TELLING for fact in facts)}
        lists = []
        for answer in answers:
            for facts in (telling[unit] for unit in answer.told if unit in telling):
                self._learn(answer, facts)
                lists.append((answer, brokers_listed(facts)))
        self._turns = {host: turns for host, spans in self._spans.items() if (turns := _in_turn(spans))}
        pairs = chain.from_iterable(map(pairwise, self._turns.values()))
        self._before = {after.first: before.cluster_id for before, after in pairs}
        for answer, brokers in lists:
            if brokers:
                self._join(self.cluster(answer), brokers)

    def cluster(self, answer: Answer) -> str:
        """The cluster: its id if that is told; empty if nobody tells any; else the broker's address stands for it."""
        if answer.connection in self._of_connection:
            return self._of_connection[answer.connection]
        if (turns := self._turns.get(answer.broker)) is not None:
            return turns[max(0, bisect_right(turns, answer.at, key=lambda turn: turn.first.at) - 1)].cluster_id
        for ids in (self._of_broker.get(answer.broker, set()), self._ids):
            if len(ids) == 1:
                return next(iter(ids))
        return self._known.get(answer.broker, answer.broker) if self._ids else ""

    def cluster_id(self, cluster: str) -> str | None:
        """The id that was told of it."""
        return cluster if cluster in self._ids else None

    def cluster_before(self, answer: Answer) -> str | None:
        """The cluster that the broker's address belonged to until this answer; None if it goes on as it was."""
        return self._before.get(answer)

    def listener(self, broker: Listener) -> Listener:
        """The listener that lists this broker; lists that have a broker at one address in common are of one."""
        while (above := self._above.get(broker, broker)) != broker:
            self._above[broker] = self._above.get(above, above)
            broker = above
        return broker

    def _learn(self, answer: Answer, facts: list[Fact]) -> None:
        ids = {fact.name for fact in facts if fact.kind is FactKind.CLUSTER and fact.name is not None}
        asked = next((fact.name for fact in facts if fact.kind is FactKind.ANOTHER), None)
        if asked is not None:  # of that cluster the client spoke, though the broker is not of it
            self._ids.add(asked)
            self._of_connection.setdefault(answer.connection, asked)
        self._ids |= ids
        for cluster_id in sorted(ids):
            self._of_connection.setdefault(answer.connection, cluster_id)
            if answer.told_by == answer.broker:
                self._spans[answer.broker].setdefault(cluster_id, _Span(cluster_id, answer)).last = answer.at
            for host in [answer.broker, *(fact.host for fact in brokers_listed(facts))]:
                if host is not None:
                    self._of_broker[host].add(cluster_id)

    def _join(self, cluster: str, brokers: list[Fact]) -> None:
        tokens = [(cluster, fact.node_id or 0, fact.host or "") for fact in brokers]
        for token in tokens[1:]:
            low, high = sorted((self.listener(tokens[0]), self.listener(token)))
            if low != high:
                self._above[high] = low


def _in_turn(spans: Mapping[str, _Span]) -> list[_Span]:
    """The clusters that one address belonged to, if it was one after the other; none if at once, as behind a proxy."""
    turns = sorted(spans.values(), key=lambda span: span.first.at)
    at_once = any(before.last >= after.first.at for before, after in pairwise(turns))
    return [] if len(turns) < 2 or at_once else turns


def brokers_listed(facts: Iterable[Fact]) -> list[Fact]:
    """Those of the facts that list a broker."""
    return [fact for fact in facts if fact.kind is FactKind.LISTED]
