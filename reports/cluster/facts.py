"""What one message says of a cluster, as facts: who is a broker, who leads, who coordinates, who is about to stop.

Facts of the protocol: Kafka's message definitions; KIP-951 (leaders in answers to Fetch and Produce), KIP-631
(heartbeats of brokers), KIP-595 (the quorum of controllers), KIP-1242 (clients say whom they ask). With KRaft the
controller that Metadata names is any broker, chosen at random (KafkaApis): it is not believed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import chain, pairwise
from typing import Any

from kafkascope.decoders.errors import Error
from kafkascope.decoders.payloads import CLUSTER_METADATA_ID, CLUSTER_METADATA_TOPIC
from kafkascope.reports.columns.text import address
from kafkascope.reports.columns.topics import ID_PREFIX, NO_ID

Json = dict[str, Any]

_LEADER_NOT_AVAILABLE = 5
_LEADER_DURING_DELETE = -2  # LeaderAndIsr.LEADER_DURING_DELETE: the controller deletes the topic
_CONTROLLERS = 2  # endpoint type of DescribeCluster (KIP-919)
ASKS_BY_NAME = 5
"""The version of ApiVersions from which on a client may say which broker it wants."""


class FactKind(StrEnum):
    """What a fact says; which of its members it has."""

    CLUSTER = "cluster"  # name: the cluster's id
    LISTED = "listed"  # node_id, host: one of all brokers that there are
    ADDRESS = "address"  # node_id, host: of one broker
    ITSELF = "itself"  # node_id: of the broker that says it
    ANOTHER = "another"  # name, node_id: the cluster and the broker that the one who says it is not
    # topic, partition, node_id (-1: none), epoch (None: not told), nodes: in-sync replicas, and offline, if told
    LEADER = "leader"
    LEADS = "leads"  # topic, partition: of the broker that answers, it has done what only the leader does
    COORDINATES = "coordinates"  # name: of the group for which it has done what only the coordinator does
    TOPIC_DELETED = "topic_deleted"  # topic: it is being deleted
    GROUP_COORDINATOR = "group_coordinator"  # name: the group; node_id, host
    TRANSACTION_COORDINATOR = "transaction_coordinator"  # name: the transactional id; node_id, host
    SHARE_COORDINATOR = "share_coordinator"  # name: group:topic id:partition; node_id, host
    CONTROLLER = "controller"  # node_id, epoch
    RUNNING = "running"  # node_id, epoch of the broker: it does not want to shut down
    SHUTTING_DOWN = "shutting_down"  # node_id, epoch of the broker (None: not told): it asks to shut down
    FENCED = "fenced"  # node_id, epoch of the broker
    UNFENCED = "unfenced"  # node_id, epoch of the broker
    REGISTERED = "registered"  # node_id, epoch of the broker, host
    DIRS_OFFLINE = "dirs_offline"  # node_id, epoch of the broker; name: ids of its log directories that failed


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact; which members it has hangs on its kind."""

    kind: FactKind
    node_id: int | None = None
    host: str | None = None  # address:port
    topic: str | None = None  # written by id where the message has no name
    topic_id: str | None = None
    partition: int | None = None
    name: str | None = None
    epoch: int | None = None
    nodes: tuple[int, ...] | None = None
    offline: tuple[int, ...] | None = None  # replicas whose broker, or its log directory, is not there


FACT_COLUMNS = tuple(field.name for field in fields(Fact))


@dataclass(frozen=True, slots=True)
class Said:
    """Facts that one side of an exchange says together: in the request its client, in the response the broker."""

    in_request: bool
    facts: tuple[Fact, ...]


COORDINATORS = (FactKind.GROUP_COORDINATOR, FactKind.TRANSACTION_COORDINATOR, FactKind.SHARE_COORDINATOR)
"""By the key type of FindCoordinator."""


_TOPICS = b', "topics": ['
_VOLATILE = re.compile(rb'"throttleTimeMs": -?\d+, |, "controllerId": -?\d+')
_TOPIC_NAME = re.compile(rb', "name": ')  # only topics have one; a quote in a string is escaped, so it is in none
_DECODER = json.JSONDecoder()


def metadata_parts(response: bytes) -> tuple[bytes, bytes]:
    """The body of a Metadata answer as JSON, in parts: brokers, without what is different each time; and topics."""
    head, _, tail = response.partition(_TOPICS)
    return _VOLATILE.sub(b"", head), tail


def metadata_brokers(head: bytes) -> tuple[Fact, ...]:
    """What the first part says."""
    return tuple(_cluster(_object(head + b"}")))


def metadata_topics(tail: bytes) -> list[bytes]:
    """The second part by topics."""
    begins = [tail.rfind(b"{", 0, name.start()) for name in _TOPIC_NAME.finditer(tail)]
    return [tail[begin:end] for begin, end in pairwise([*begins, len(tail)])]


def metadata_topic(text: bytes) -> tuple[Fact, ...]:
    """What is said of one topic; the text may have more behind it."""
    topic, _ = _DECODER.raw_decode(text.decode())
    return tuple(_topic(topic))


def said(api: str, request: Json, response: Json) -> Iterator[Said]:
    """What an exchange of one of `FACT_APIS` says; bodies are empty where the capture lacks them."""
    for in_request, read in _SAYS[api]:
        if facts := tuple(read(request, response)):
            yield Said(in_request, facts)


def answer_to_a_name(request: Json, error: int | None) -> tuple[Fact, ...]:
    """What an answer of ApiVersions to a client that said which broker it wants says of that broker."""
    cluster, node_id = request.get("clusterId"), request.get("nodeId", -1)
    if not cluster or node_id < 0:
        return ()
    if error == Error.NONE.code:
        return Fact(FactKind.CLUSTER, name=cluster), Fact(FactKind.ITSELF, node_id)
    return (Fact(FactKind.ANOTHER, node_id, name=cluster),) if error == Error.REBOOTSTRAP_REQUIRED.code else ()


def _object(text: bytes) -> Json:
    read = json.loads(text)
    return read if isinstance(read, dict) else {}


def _cluster(body: Json) -> Iterator[Fact]:
    if body.get("clusterId"):
        yield Fact(FactKind.CLUSTER, name=body["clusterId"])
    for broker in body.get("brokers") or []:
        if not broker.get("isFenced"):
            node_id = broker["nodeId"] if "nodeId" in broker else broker["brokerId"]
            yield Fact(FactKind.LISTED, node_id, address(broker["host"], broker["port"]))


def _named(topic: Json) -> tuple[str | None, str | None]:
    """Name and id of a topic: by id where there is no name."""
    name = topic.get("name") or topic.get("topicName") or topic.get("topic") or None
    topic_id = topic.get("topicId")
    topic_id = None if topic_id == NO_ID else topic_id
    return name or (topic_id and ID_PREFIX + topic_id), topic_id


def _topic(topic: Json) -> Iterator[Fact]:
    """Of Metadata and DescribeTopicPartitions."""
    name, topic_id = _named(topic)
    for one in topic.get("partitions") or []:
        # An answer without a leader has this error; without it, the leader has no address that this client may use.
        if one["leaderId"] >= 0 or one["errorCode"] == _LEADER_NOT_AVAILABLE:
            yield _leader(name, topic_id, one, one["leaderId"], one["isrNodes"])


def _leader(name: str | None, topic_id: str | None, one: Json, leader: int, isr: list[int] | None) -> Fact:
    epoch = one.get("leaderEpoch", -1)
    return Fact(
        FactKind.LEADER,
        max(leader, -1),
        topic=name,
        topic_id=topic_id,
        partition=one["partitionIndex"] if "partitionIndex" in one else one["index"],
        epoch=epoch if epoch >= 0 else None,
        nodes=None if isr is None else tuple(sorted(isr)),
        offline=tuple(sorted(one.get("offlineReplicas") or ())) or None,
    )


def _described(request: Json, response: Json) -> Iterator[Fact]:
    if response.get("errorCode") == 0 and response.get("endpointType") != _CONTROLLERS:
        yield from _cluster(response)


def _described_topics(request: Json, response: Json) -> Iterator[Fact]:
    return chain.from_iterable(map(_topic, response.get("topics") or []))


def _deleted(request: Json, response: Json) -> Iterator[Fact]:
    for topic in response.get("responses") or []:
        name, topic_id = _named(topic)
        if topic["errorCode"] == 0 and name:
            yield Fact(FactKind.TOPIC_DELETED, topic=name, topic_id=topic_id)


def _coordinators(request: Json, response: Json) -> Iterator[Fact]:
    key_type = request.get("keyType", 0)
    if not request or not 0 <= key_type < len(COORDINATORS):
        return
    for one in response.get("coordinators") or [response | {"key": request.get("key")}]:
        if one.get("errorCode") == 0 and one.get("key"):
            host = address(one["host"], one["port"])
            yield Fact(COORDINATORS[key_type], one["nodeId"], host, name=one["key"])


def _moved(request: Json, response: Json) -> Iterator[Fact]:
    """Of Fetch and Produce: where the leader of a partition is whom the broker does not lead (any more)."""
    for topic in response.get("responses") or []:
        name, topic_id = _named(topic)
        for one in topic.get("partitions") or topic.get("partitionResponses") or []:
            leader = one.get("currentLeader") or {}
            if leader.get("leaderId", -1) < 0:
                continue
            if CLUSTER_METADATA_TOPIC in (name, topic.get("topic")) or topic_id == CLUSTER_METADATA_ID:
                yield Fact(FactKind.CONTROLLER, leader["leaderId"], epoch=leader["leaderEpoch"])
            elif name:
                yield _leader(name, topic_id, one | leader, leader["leaderId"], None)
    if not any(topic.get("topicId") == CLUSTER_METADATA_ID for topic in response.get("responses") or []):
        for one in response.get("nodeEndpoints") or []:
            yield Fact(FactKind.ADDRESS, one["nodeId"], address(one["host"], one["port"]))


def _quorum(body: Json) -> Iterator[Fact]:
    """Of any message of the quorum of controllers: who leads it."""
    if body.get("clusterId"):
        yield Fact(FactKind.CLUSTER, name=body["clusterId"])
    for topic in body.get("topics") or []:
        for one in topic.get("partitions") or []:
            if topic.get("topicName") == CLUSTER_METADATA_TOPIC and one.get("leaderId", -1) >= 0:
                yield Fact(FactKind.CONTROLLER, one["leaderId"], epoch=one["leaderEpoch"])


def _quorum_asked(request: Json, response: Json) -> Iterator[Fact]:
    return _quorum(request)


def _quorum_told(request: Json, response: Json) -> Iterator[Fact]:
    return _quorum(response)


def _partition_states(request: Json, response: Json) -> Iterator[Fact]:
    """Of LeaderAndIsr and UpdateMetadata, which the controller sends to brokers (ZooKeeper mode)."""
    yield from _zookeeper_controller(request, response)
    for topic in [*(request.get("topicStates") or []), *(request.get("ungroupedPartitionStates") or [])]:
        name, topic_id = _named(topic)
        for one in topic.get("partitionStates") or [topic]:
            if one["leader"] == _LEADER_DURING_DELETE:
                yield Fact(FactKind.TOPIC_DELETED, topic=name, topic_id=topic_id)
                break
            yield _leader(name, topic_id, one, one["leader"], one["isr"])


def _zookeeper_controller(request: Json, response: Json) -> Iterator[Fact]:
    if request and not request.get("isKRaftController"):
        yield Fact(FactKind.CONTROLLER, request["controllerId"], epoch=request["controllerEpoch"])


def _altered(request: Json, response: Json) -> Iterator[Fact]:
    for topic in response.get("topics") or []:
        name, topic_id = _named(topic)
        for one in topic.get("partitions") or []:
            if one["errorCode"] == 0 and name:
                yield _leader(name, topic_id, one, one["leaderId"], one["isr"])


def _shutting_down(request: Json, response: Json) -> Iterator[Fact]:
    """Of ControlledShutdown (ZooKeeper mode)."""
    if request:
        epoch = request.get("brokerEpoch", -1)
        yield Fact(FactKind.SHUTTING_DOWN, request["brokerId"], epoch=epoch if epoch >= 0 else None)


def _wanted(request: Json, response: Json) -> Iterator[Fact]:
    """Of a broker's heartbeat."""
    if request:
        kind = FactKind.SHUTTING_DOWN if request["wantShutDown"] else FactKind.RUNNING
        yield Fact(kind, request["brokerId"], epoch=request["brokerEpoch"])
        if failed := request.get("offlineLogDirs"):
            name = " ".join(sorted(failed))
            yield Fact(FactKind.DIRS_OFFLINE, request["brokerId"], name=name, epoch=request["brokerEpoch"])


def _granted(request: Json, response: Json) -> Iterator[Fact]:
    """Of the controller's answer to it."""
    if request and response.get("errorCode") == 0:
        kind = FactKind.FENCED if response["isFenced"] else FactKind.UNFENCED
        yield Fact(kind, request["brokerId"], epoch=request["brokerEpoch"])


def _registered(request: Json, response: Json) -> Iterator[Fact]:
    if request and response.get("errorCode") == 0:
        yield Fact(FactKind.CLUSTER, name=request["clusterId"])
        hosts = [address(one["host"], one["port"]) for one in request["listeners"] or []]
        host = hosts[0] if hosts else None
        yield Fact(FactKind.REGISTERED, request["brokerId"], host, epoch=response["brokerEpoch"])


_QUORUM = ((True, _quorum_asked), (False, _quorum_told))
# What reads the facts of each API, and whether they stand in the request.
_SAYS: dict[str, tuple[tuple[bool, Callable[[Json, Json], Iterator[Fact]]], ...]] = {
    "DescribeCluster": ((False, _described),),
    "DescribeTopicPartitions": ((False, _described_topics),),
    "DeleteTopics": ((False, _deleted),),
    "FindCoordinator": ((False, _coordinators),),
    "Fetch": ((False, _moved),),
    "Produce": ((False, _moved),),
    "Vote": ((False, _quorum_told),),
    "BeginQuorumEpoch": _QUORUM,
    "EndQuorumEpoch": _QUORUM,
    "DescribeQuorum": ((False, _quorum_told),),
    "LeaderAndIsr": ((True, _partition_states),),
    "UpdateMetadata": ((True, _partition_states),),
    "StopReplica": ((True, _zookeeper_controller),),
    "AlterPartition": ((False, _altered),),
    "ControlledShutdown": ((True, _shutting_down),),
    "BrokerHeartbeat": ((True, _wanted), (False, _granted)),
    "BrokerRegistration": ((False, _registered),),
}
FACT_APIS = frozenset(_SAYS)
"""APIs that `said` reads; of Fetch and Produce only those answers are worth it in which a leader is told."""
