"""What happened to clusters, out of all facts that were told: changes, each once, by whoever told it first.

Which of two facts is newer: that of the higher leader epoch, where both have one; else `Words` decides. What is known
when a thing is heard of first is no change. When a topic is deleted, what was known of its partitions goes with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from kafkascope.reports.cluster.facts import COORDINATORS, Fact, FactKind
from kafkascope.reports.cluster.found import Found, found_brokers
from kafkascope.reports.cluster.places import Listener, Places, brokers_listed
from kafkascope.reports.cluster.told import Answer, answers_of, units_of
from kafkascope.reports.cluster.words import CACHE_LAG_NS, Words
from kafkascope.reports.columns.clusters import Clusters
from kafkascope.reports.vocabulary.events import ClusterEventKind

MOST_NAMED = 1_000
"""Partitions that one event names."""

_NO_LEADER = "-1"
_LISTED, _UNLISTED = "listed", "unlisted"
_ORDER = {kind: place for place, kind in enumerate(ClusterEventKind)}
_COORDINATOR_OF = dict(zip(COORDINATORS, ("of a group", "of a transactional id", "of a share group"), strict=True))


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A row of the table ``cluster_events``; at is nanoseconds."""

    cluster_id: str | None
    at: int
    event: ClusterEventKind
    told_by: str
    client_id: str | None
    connection: int
    number: int
    packet: int | None
    node_id: int | None = None
    host: str | None = None
    topic: str | None = None
    partition: int | None = None
    partitions: tuple[str, ...] | None = None
    count: int | None = None
    group_id: str | None = None
    before: str | None = None
    after: str | None = None
    leader_epoch: int | None = None
    detail: str | None = None


def cluster_events(rows: pa.Table, topics: Mapping[str, str], known: Clusters) -> list[ClusterEvent]:
    """The events that rows of ``CLUSTER_FACTS`` tell of, in order of time; topics are names by id."""
    units, answers = units_of(rows, topics), list(answers_of(rows))
    places = Places(answers, units, known.of_broker)
    brokers = found_brokers(answers, units, places)
    about = {unit: {fact.topic for fact in facts} for unit, facts in units.items()}
    clusters: dict[str, _Cluster] = {}
    heard: dict[tuple[str, str], dict[str | None, int]] = defaultdict(dict)  # the units that each told last, by topic
    events: list[ClusterEvent] = []
    left_out = False
    for answer in answers:
        name = places.cluster(answer)
        cluster = clusters.setdefault(name, _Cluster(name, places, known))
        last = heard[name, answer.told_by]
        found: list[ClusterEvent] = []
        if (before := places.cluster_before(answer)) is not None:
            there = (fact.node_id for unit in answer.told for fact in units.get(unit, ()) if fact.host == answer.broker)
            found.append(clusters[before].left(answer, next(there, None), f"of cluster {name}"))
        if answer in brokers:
            found.append(cluster.found(answer, brokers[answer]))
        for unit in answer.told:
            if unit not in units:
                if not left_out:
                    found.append(cluster.event(answer, ClusterEventKind.LEFT_OUT))
                left_out = True
            elif news := [topic for topic in about[unit] if last.get(topic) != unit]:
                last.update(dict.fromkeys(news, unit))
                found += cluster.take(answer, units[unit])
        events += _together(found)
    return events


def _together(events: Iterable[ClusterEvent]) -> Iterator[ClusterEvent]:
    """The events of one answer; those of partitions that went the same way become one."""
    moves: dict[tuple[Any, ...], list[ClusterEvent]] = defaultdict(list)
    for event in events:
        if event.partition is None:
            yield event
        else:
            moves[event.event, event.node_id, event.before, event.after].append(event)
    for move in sorted(moves.values(), key=lambda move: _ORDER[move[0].event]):
        one = len(move) == 1
        yield replace(
            move[0],
            topic=move[0].topic if len({event.topic for event in move}) == 1 else None,
            partition=move[0].partition if one else None,
            partitions=tuple(f"{event.topic}-{event.partition}" for event in move[:MOST_NAMED]),
            count=len(move),
            leader_epoch=move[0].leader_epoch if len({event.leader_epoch for event in move}) == 1 else None,
        )


@dataclass(slots=True)
class _Partition:
    leader: Words = field(default_factory=Words)
    replicas: Words = field(default_factory=Words)  # in sync
    offline: Words = field(default_factory=Words)  # replicas
    epoch: int | None = None
    lost_by: str | None = None  # the last leader ("": not known), while an event says that there is none


@dataclass(slots=True)
class _Topic:
    topic_id: str | None = None
    former_ids: set[str] = field(default_factory=set)
    deleted: int | None = None  # when
    partitions: dict[int, _Partition] = field(default_factory=lambda: defaultdict(_Partition))

    def forget(self, at: int) -> None:
        """The topic was deleted: what comes is another one."""
        if self.topic_id is not None:
            self.former_ids.add(self.topic_id)
        self.topic_id, self.deleted = None, at
        self.partitions.clear()


@dataclass(slots=True)
class _Broker:
    """What a node told of itself, and the controller of it."""

    epoch: int | None = None  # each process of a broker gets one when it registers
    fenced: bool | None = None
    stopping: bool = False
    dirs_offline: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Listener:
    """What one listener of a cluster lists, by node id."""

    hosts: dict[int, str] = field(default_factory=dict)
    listed: dict[int, Words] = field(default_factory=lambda: defaultdict(Words))


class _Cluster:
    def __init__(self, name: str, places: Places, known: Clusters) -> None:
        self._name, self._places, self._known = name, places, known
        self._listeners: dict[Listener, _Listener] = defaultdict(_Listener)
        self._lists: dict[str, Set[int]] = {}  # the nodes that each teller listed last
        self._hosts: dict[int, str] = {}  # the first address that was told of each node
        self._mapped: set[tuple[int, str]] = set()  # nodes and addresses of which there is an event
        self._refused: set[tuple[int, str]] = set()  # nodes that were asked for, and addresses that are not theirs
        self._brokers: dict[int, _Broker] = defaultdict(_Broker)
        self._topics: dict[str, _Topic] = defaultdict(_Topic)
        self._coordinators: dict[tuple[FactKind, str], Words] = defaultdict(Words)
        self._controller: tuple[int, int] | None = None  # epoch and node id

    def event(self, answer: Answer, kind: ClusterEventKind, **members: Any) -> ClusterEvent:
        """An event that an answer tells."""
        node_id = members.get("node_id")
        members.setdefault("host", None if node_id is None else self._hosts.get(node_id))
        return ClusterEvent(
            cluster_id=self._places.cluster_id(self._name),
            at=answer.at,
            event=kind,
            told_by=answer.told_by,
            client_id=answer.client_id,
            connection=answer.connection,
            number=answer.number,
            packet=answer.packet,
            **members,
        )

    def found(self, answer: Answer, broker: Found) -> ClusterEvent:
        """The event that a broker answers where nobody lists it."""
        return self.event(
            answer, ClusterEventKind.BROKER_FOUND, node_id=broker.node_id, host=answer.broker, detail=broker.does
        )

    def left(self, answer: Answer, node_id: int | None, detail: str) -> ClusterEvent:
        """The event that the broker who answers is of another cluster, and was of this one."""
        before = next((known for known, host in self._hosts.items() if host == answer.broker), None)
        return self._taken(answer, answer.broker, before, node_id, detail)

    def _taken(
        self, answer: Answer, host: str, before: int | None, after: int | None, detail: str | None = None
    ) -> ClusterEvent:
        return self.event(
            answer,
            ClusterEventKind.ADDRESS_TAKEN,
            node_id=after,
            host=host,
            before=None if before is None else str(before),
            after=None if after is None else str(after),
            detail=detail,
        )

    def take(self, answer: Answer, facts: list[Fact]) -> Iterator[ClusterEvent]:
        """The changes that facts of an answer tell."""
        if listed := brokers_listed(facts):
            yield from self._list(answer, listed)
        for fact in facts:
            if (changes := _BY_KIND.get(fact.kind)) is not None:
                yield from changes(self, answer, fact)
            if fact.kind in _OF_PROCESSES:
                yield from self._process(answer, fact)

    def _itself(self, answer: Answer, fact: Fact) -> Iterator[ClusterEvent]:
        """A broker was asked for by its number, and answered."""
        if (node_id := fact.node_id) is None:
            return
        if (node_id, answer.broker) in self._refused:
            self._refused.remove((node_id, answer.broker))
            yield self.event(answer, ClusterEventKind.BROKER_BACK, node_id=node_id, host=answer.broker)
        yield from self._map(answer, node_id, answer.broker)

    def _another(self, answer: Answer, fact: Fact) -> Iterator[ClusterEvent]:
        """A broker was asked for by its number, and somebody else was there."""
        if fact.node_id is not None and (fact.node_id, answer.broker) not in self._refused:
            self._refused.add((fact.node_id, answer.broker))
            yield self._taken(answer, answer.broker, fact.node_id, None, "it is not the broker that was asked for")

    def _list(self, answer: Answer, brokers: list[Fact]) -> Iterator[ClusterEvent]:
        hosts = {fact.node_id: fact.host for fact in brokers if fact.node_id is not None and fact.host is not None}
        self._lists[answer.told_by] = hosts.keys()
        listener = self._listeners[self._places.listener((self._name, *next(iter(hosts.items()))))]
        for node_id, host in hosts.items():
            before = listener.hosts.get(node_id)
            if before is not None and (node_id, host) not in self._mapped:
                self._mapped.add((node_id, host))
                self._hosts[node_id] = host
                yield self.event(answer, ClusterEventKind.BROKER_MOVED, node_id=node_id, before=before, after=host)
            else:
                gone = (known for known, place in self._hosts.items() if place == host and hosts.get(known) != host)
                if (node_id, host) not in self._mapped and (was := next(gone, None)) is not None and was != node_id:
                    yield self._taken(answer, host, was, node_id)
                yield from self._map(answer, node_id, host)
            listener.hosts[node_id] = host
            if listener.listed[node_id].tell(answer.told_by, _LISTED, answer.at):
                self._brokers[node_id].stopping = False
                yield self.event(answer, ClusterEventKind.BROKER_BACK, node_id=node_id, host=host)
        for node_id in sorted(listener.hosts.keys() - hosts.keys()):
            if listener.listed[node_id].tell(answer.told_by, _UNLISTED, answer.at):
                host = listener.hosts[node_id]
                yield self.event(answer, ClusterEventKind.BROKER_UNLISTED, node_id=node_id, host=host)

    def _map(self, answer: Answer, node_id: int, host: str) -> Iterator[ClusterEvent]:
        self._hosts.setdefault(node_id, host)
        if (node_id, host) not in self._mapped:
            self._mapped.add((node_id, host))
            yield self.event(answer, ClusterEventKind.BROKER_LISTED, node_id=node_id, host=host)

    def _process(self, answer: Answer, fact: Fact) -> Iterator[ClusterEvent]:
        """What a broker's process and the controller tell each other."""
        if fact.node_id is None:
            return
        broker = self._brokers[fact.node_id]
        if fact.epoch is not None and broker.epoch is not None and fact.epoch < broker.epoch:
            return  # of the process before
        if fact.epoch != broker.epoch:
            broker.fenced, broker.stopping, broker.dirs_offline = None, False, frozenset()
        broker.epoch = fact.epoch
        if fact.kind is FactKind.REGISTERED:
            broker.fenced = True  # until it has caught up
            yield self.event(answer, ClusterEventKind.BROKER_REGISTERED, node_id=fact.node_id)
        elif fact.kind is FactKind.SHUTTING_DOWN:
            if not broker.stopping:
                yield self.event(answer, ClusterEventKind.SHUTDOWN_ANNOUNCED, node_id=fact.node_id)
            broker.stopping = True
        elif fact.kind is FactKind.DIRS_OFFLINE:
            failed = frozenset((fact.name or "").split())
            if failed - broker.dirs_offline:
                yield self.event(answer, ClusterEventKind.LOG_DIRS_OFFLINE, node_id=fact.node_id, detail=fact.name)
            broker.dirs_offline |= failed
        elif fact.kind in _FENCED:
            fenced, event = _FENCED[fact.kind]
            if broker.fenced not in (None, fenced):
                yield self.event(answer, event, node_id=fact.node_id)
            broker.fenced = fenced

    def _controlled(self, answer: Answer, fact: Fact) -> Iterator[ClusterEvent]:
        if fact.epoch is None or fact.node_id is None:
            return
        before, self._controller = self._controller, max(self._controller or (-1, -1), (fact.epoch, fact.node_id))
        if before is not None and before[1] != self._controller[1]:
            yield self.event(
                answer,
                ClusterEventKind.CONTROLLER_CHANGED,
                node_id=fact.node_id,
                before=str(before[1]),
                after=str(fact.node_id),
                leader_epoch=fact.epoch,
            )

    def _coordinator(self, answer: Answer, fact: Fact) -> Iterator[ClusterEvent]:
        if fact.name is None or fact.node_id is None:
            return
        yield from self._address(answer, fact)
        words = self._coordinators[fact.kind, fact.name]
        before, after = words.last, str(fact.node_id)
        if words.tell(answer.told_by, after, answer.at):
            yield self.event(
                answer,
                ClusterEventKind.COORDINATOR_MOVED,
                node_id=fact.node_id,
                host=fact.host,
                group_id=self._known.group(fact.name, self._places.cluster_id(self._name))
                if fact.kind is FactKind.GROUP_COORDINATOR
                else fact.name,
                before=before,
                after=after,
                detail=_COORDINATOR_OF[fact.kind],
            )

    def _address(self, answer: Answer, fact: Fact) -> Iterator[ClusterEvent]:
        if fact.node_id is not None and fact.host is not None:
            yield from self._map(answer, fact.node_id, fact.host)

    def _deleted(self, answer: Answer, fact: Fact) -> Iterator[ClusterEvent]:
        """A deletion is told by who asked for it, and by the controller to each broker."""
        topic = self._topics[fact.topic or ""]
        if topic.deleted is None or answer.at - topic.deleted > CACHE_LAG_NS:
            topic.forget(answer.at)
            yield self.event(answer, ClusterEventKind.TOPIC_DELETED, topic=fact.topic)

    def _leader(self, answer: Answer, fact: Fact) -> Iterator[ClusterEvent]:
        topic = self._topics[fact.topic or ""]
        if fact.topic_id is not None and fact.topic_id in topic.former_ids:
            return
        if fact.topic_id is not None and fact.topic_id != topic.topic_id:
            if topic.topic_id is not None:
                topic.forget(answer.at)
                detail = "another topic of this name is there"
                yield self.event(answer, ClusterEventKind.TOPIC_DELETED, topic=fact.topic, detail=detail)
            topic.topic_id = fact.topic_id
        partition = topic.partitions[fact.partition or 0]
        if fact.epoch is not None and partition.epoch is not None and fact.epoch < partition.epoch:
            return
        is_first = partition.leader.last is None
        newer = fact.epoch is not None and (partition.epoch is None or fact.epoch > partition.epoch)
        certain = newer and partition.epoch is not None
        partition.epoch = fact.epoch if newer else partition.epoch
        # Within an epoch no leader follows another; but a broker tells of none as long as it knows that one to be gone.
        if newer or fact.epoch is None or _NO_LEADER in (partition.leader.last, str(fact.node_id)):
            yield from self._led(answer, fact, partition, certain)
        yield from self._offline(answer, fact, partition)
        if is_first and fact.offline and partition.leader.last == _NO_LEADER:
            # Who was the last in sync led, and stays in the set (without KIP-966, by which it is empty).
            partition.lost_by = str(fact.nodes[0]) if fact.nodes is not None and len(fact.nodes) == 1 else ""
            before = partition.lost_by or None
            yield self._of_partition(answer, fact, ClusterEventKind.LEADER_MISSING, before, None, node_id=before)
        before = partition.replicas.last
        if fact.nodes or (fact.nodes is not None and before is not None):  # a partition that is being made has none
            after = ",".join(map(str, fact.nodes))
            if _said(partition.replicas, answer, after, certain):
                gone = set((before or "").split(",")) - {"", *after.split(",")}
                kind = ClusterEventKind.ISR_SHRUNK if gone else ClusterEventKind.ISR_GROWN
                yield self._of_partition(answer, fact, kind, before or None, after or None)

    def _led(self, answer: Answer, fact: Fact, partition: _Partition, certain: bool) -> Iterator[ClusterEvent]:
        before, after = partition.leader.last, str(fact.node_id)
        if not _said(partition.leader, answer, after, certain):
            return
        if after == _NO_LEADER:
            partition.lost_by = before
            yield self._of_partition(answer, fact, ClusterEventKind.LEADER_LOST, before, None, node_id=before)
        elif before != _NO_LEADER:
            yield self._of_partition(answer, fact, ClusterEventKind.LEADER_CHANGED, before, after, node_id=after)
        elif partition.lost_by is not None:
            lost_by, partition.lost_by = partition.lost_by, None
            yield self._of_partition(answer, fact, ClusterEventKind.LEADER_ELECTED, lost_by or None, after, after)

    def _offline(self, answer: Answer, fact: Fact, partition: _Partition) -> Iterator[ClusterEvent]:
        """Replicas that are found to be offline: on brokers that were never listed, or that are listed now.

        Of brokers that were listed before, `broker_unlisted` tells.
        """
        before, after = partition.offline.last, ",".join(map(str, fact.offline or ()))
        if not partition.offline.tell(answer.told_by, after, answer.at) and before is not None:
            return
        listed = self._lists.get(answer.told_by)
        for node_id in fact.offline or ():
            if listed is None or str(node_id) in (before or "").split(","):
                continue
            if node_id in listed:
                yield self._of_partition(answer, fact, ClusterEventKind.REPLICA_OFFLINE, None, None, str(node_id))
            elif node_id not in self._hosts:
                yield self._of_partition(answer, fact, ClusterEventKind.BROKER_MISSING, None, None, str(node_id))

    def _of_partition(
        self,
        answer: Answer,
        fact: Fact,
        kind: ClusterEventKind,
        before: str | None,
        after: str | None,
        node_id: str | None = None,
    ) -> ClusterEvent:
        return self.event(
            answer,
            kind,
            node_id=None if node_id is None else int(node_id),
            topic=fact.topic,
            partition=fact.partition,
            before=before,
            after=after,
            leader_epoch=fact.epoch,
        )


_BY_KIND: Mapping[FactKind, Callable[[_Cluster, Answer, Fact], Iterator[ClusterEvent]]] = {
    FactKind.LEADER: _Cluster._leader,
    FactKind.TOPIC_DELETED: _Cluster._deleted,
    **dict.fromkeys(COORDINATORS, _Cluster._coordinator),
    FactKind.CONTROLLER: _Cluster._controlled,
    FactKind.ADDRESS: _Cluster._address,
    FactKind.REGISTERED: _Cluster._address,
    FactKind.ITSELF: _Cluster._itself,
    FactKind.ANOTHER: _Cluster._another,
}
_OF_PROCESSES = (
    FactKind.RUNNING,
    FactKind.SHUTTING_DOWN,
    FactKind.FENCED,
    FactKind.UNFENCED,
    FactKind.REGISTERED,
    FactKind.DIRS_OFFLINE,
)
_FENCED = {
    FactKind.FENCED: (True, ClusterEventKind.BROKER_FENCED),
    FactKind.UNFENCED: (False, ClusterEventKind.BROKER_UNFENCED),
}


def _said(words: Words, answer: Answer, value: str, certain: bool) -> bool:
    """Take in a value; whether it is a change. It is certain if it comes with a higher epoch than any before."""
    take = words.put if certain else words.tell
    return take(answer.told_by, value, answer.at)
