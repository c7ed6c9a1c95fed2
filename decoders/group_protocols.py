"""What members of a group tell each other through JoinGroup and SyncGroup: consumers, Connect workers, Streams.

The broker passes these bytes on without a look. Layouts: ConsumerProtocol* definitions of Kafka; StickyAssignor and
CooperativeStickyAssignor (user data); ConnectProtocol and IncrementalCooperativeConnectProtocol (KIP-415, KIP-507);
SubscriptionInfo (a definition) and AssignmentInfo (code) of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafkascope.decoders import schema
from kafkascope.decoders.interpreter import BytesReader, DecodeError, decode, decode_by_bytes
from kafkascope.decoders.payloads import Payload, read
from kafkascope.decoders.schema import NEVER, OPEN_END, Field, Message, Versions

STICKY = "sticky"
COOPERATIVE_STICKY = "cooperative-sticky"
STREAMS = "stream"  # the only protocol name Kafka Streams joins with


def _field(
    name: str, type_: str, *members: Field, first: int = 0, last: int = OPEN_END, nullable: bool = False
) -> Field:
    """A field of a layout that has no definition among Kafka's."""
    versions = Versions(first, last)
    return Field(name, type_, versions, versions if nullable else NEVER, NEVER, None, None, None, None, members)


def _layout(name: str, versions: Versions, *fields: Field) -> Message:
    """A layout that has no definition among Kafka's; none of them has tagged fields."""
    return Message(name, "data", None, versions, NEVER, fields)


_TOPIC_PARTITIONS = (_field("topic", "string"), _field("partitions", "[]int32"))
_CONNECTOR_TASKS = (_field("connector", "string"), _field("tasks", "[]int32"))

# Version 1 (KIP-341) adds the generation; the version is not in the bytes.
STICKY_USER_DATA = _layout(
    "StickyAssignorUserData",
    Versions(0, 1),
    _field("previousAssignment", "[]TopicPartitions", *_TOPIC_PARTITIONS),
    _field("generation", "int32", first=1),
)
COOPERATIVE_STICKY_USER_DATA = _layout(
    "CooperativeStickyAssignorUserData", Versions(0, 0), _field("generation", "int32")
)
# Connect: version 0 is the eager protocol, 1 the incremental cooperative one, 2 the same with session keys. A task -1
# is the connector itself. The allocation of a worker is an assignment, with its own version before it.
CONNECT_METADATA = _layout(
    "ConnectMetadata",
    Versions(0, 2),
    _field("url", "string"),
    _field("configOffset", "int64"),
    _field("allocation", "bytes", first=1, nullable=True),
)
CONNECT_ASSIGNMENT = _layout(
    "ConnectAssignment",
    Versions(0, 2),
    _field("error", "int16"),
    _field("leader", "string"),
    _field("leaderUrl", "string"),
    _field("configOffset", "int64"),
    _field("assignment", "[]ConnectorTasks", *_CONNECTOR_TASKS, nullable=True),
    _field("revoked", "[]ConnectorTasks", *_CONNECTOR_TASKS, first=1, nullable=True),
    _field("scheduledDelay", "int32", first=1),
)


def _read_newest(message: Message, data: bytes) -> Payload:
    """A message behind its int16 version; one that nobody knows is read as the newest, as Kafka's readers do."""
    reader = BytesReader(data, root={})
    version = reader.integer("int16")
    if version < 0:
        raise DecodeError("version", 0, f"a version of {message.name}, not {version}", {})
    known = min(version, message.versions.last)
    fields, end = decode(message, known, data, reader.at)
    return Payload(message.name, version, fields, data[end:])


def decode_subscription(data: bytes, assignor: str | None = None) -> Payload:
    """What a consumer subscribes to. userData is decoded if the assignor (protocol name) is known to use it."""
    payload = _read_newest(schema.data_message("ConsumerProtocolSubscription"), data)
    _decode_user_data(payload.fields, SUBSCRIPTION_USER_DATA.get(assignor, ()))
    return payload


def decode_assignment(data: bytes, assignor: str | None = None) -> Payload:
    """What a consumer is assigned. userData is decoded where Kafka Streams or librdkafka put any.

    Old versions of SyncGroup do not name the assignor: without it, what consumes the bytes exactly is taken.
    """
    payload = _read_newest(schema.data_message("ConsumerProtocolAssignment"), data)
    _decode_user_data(payload.fields, ASSIGNMENT_USER_DATA.get(assignor, ()))
    return payload


def _decode_user_data(fields: dict[str, Any], decoders: Iterable[Callable[[bytes], Payload]]) -> None:
    """Put a dict in the place of userData; bytes that no decoder consumes exactly stay as they are."""
    if not fields.get("userData"):
        return
    for decoder in decoders:
        try:
            payload = decoder(fields["userData"])
        except DecodeError:
            continue
        if not payload.rest:
            fields["userData"] = payload.as_dict()
            return


def decode_sticky(data: bytes) -> Payload:
    """User data of the StickyAssignor, of the version that fits the bytes. Raises DecodeError."""
    fields, end = decode_by_bytes([(STICKY_USER_DATA, 1), (STICKY_USER_DATA, 0)], data)
    return Payload(STICKY_USER_DATA.name, 1 if "generation" in fields else 0, fields, data[end:])


def decode_cooperative_sticky(data: bytes) -> Payload:
    """User data of the CooperativeStickyAssignor: the generation. Raises DecodeError."""
    return read(COOPERATIVE_STICKY_USER_DATA, 0, data)


def decode_connect_metadata(data: bytes) -> Payload:
    """What a Connect worker tells the leader; allocation is decoded too. Raises DecodeError."""
    payload = _read_newest(CONNECT_METADATA, data)
    allocation = payload.fields.get("allocation")
    if allocation:
        payload.fields["allocation"] = decode_connect_assignment(allocation).as_dict()
    return payload


def decode_connect_assignment(data: bytes) -> Payload:
    """The connectors and tasks of a Connect worker. Raises DecodeError."""
    return _read_newest(CONNECT_ASSIGNMENT, data)


def decode_streams_subscription(data: bytes) -> Payload:
    """User data of a Kafka Streams subscription: SubscriptionInfo, with its version first. Raises DecodeError."""
    return read(schema.data_message("SubscriptionInfoData"), BytesReader(data, root={}).integer("int32"), data)


def decode_streams_assignment(data: bytes) -> Payload:
    """User data of a Kafka Streams assignment (AssignmentInfo), versions 1 to 11. Raises DecodeError."""
    fields: dict[str, Any] = {}
    reader = _AssignmentInfoReader(data, root=fields)
    reader.assignment_info(fields)
    return Payload("AssignmentInfo", fields["version"], fields, data[reader.at :])


class _AssignmentInfoReader(BytesReader):
    """AssignmentInfo as java.io.DataOutputStream writes it."""

    __slots__ = ()
    VERSIONS = Versions(1, 11)

    def assignment_info(self, into: dict[str, Any]) -> None:
        """All of it. Fields appear with the version that brought them: 2 hosts, 3 the commonly supported version, 4 an
        error, 5 topics as a dictionary, 6 hosts of standby tasks, 7 the next rebalance, 10 named topologies.
        """
        version = self.integer("int32")
        if version not in self.VERSIONS:
            raise DecodeError("version", 0, f"a version of AssignmentInfo in {self.VERSIONS}, not {version}", into)
        into["version"] = version
        if version >= 3:
            into["commonlySupportedVersion"] = self.integer("int32")
        into["activeTasks"] = [self.task(version) for _ in self.counted("tasks", 8)]
        into["standbyTasks"] = [
            {"task": self.task(version), "partitions": self.partitions(None)} for _ in self.counted("tasks", 12)
        ]
        topics = dict(self.topics()) if version >= 5 else None
        if version >= 2:
            into["partitionsByHost"] = self.hosts(topics)
        if version >= 6:
            into["standbyPartitionsByHost"] = self.hosts(topics)
        if version >= 4:
            into["errCode"] = self.integer("int32")
        if version >= 7:
            into["nextRebalanceMs"] = self.integer("int64")

    def counted(self, what: str, least_bytes: int) -> range:
        """A range as long as the count that comes next, if the bytes left can hold so many."""
        start = self.at
        count = self.integer("int32")
        if count < 0 or count * least_bytes > self.left:
            raise self.error(f"a count of {what} that {self.left} bytes can hold, not {count}", start)
        return range(count)

    def text(self) -> str:
        """Java's modified UTF-8: NUL as two bytes, surrogates each for itself."""
        encoded = self.take(self.integer("uint16"), "text").replace(b"\xc0\x80", b"\0")
        try:
            return encoded.decode("utf-8", "surrogatepass").encode("utf-16-be", "surrogatepass").decode("utf-16-be")
        except UnicodeDecodeError:
            return encoded.decode(errors="backslashreplace")

    def task(self, version: int) -> dict[str, Any]:
        """A task id; its topology's name is UTF-16 after a count of characters, 0 for none."""
        task: dict[str, Any] = {"topicGroupId": self.integer("int32"), "partition": self.integer("int32")}
        if version >= 10:
            length = len(self.counted("characters", 2))
            name = self.take(2 * length, "a topology's name").decode("utf-16-be", "backslashreplace")
            task["namedTopology"] = name or None
        return task

    def topics(self) -> list[tuple[int, str]]:
        """The dictionary of topics: index and name."""
        return [(self.integer("int32"), self.text()) for _ in self.counted("topics", 6)]

    def partitions(self, topics: dict[int, str] | None) -> list[dict[str, Any]]:
        """Partitions with the topic's name, or with its index in the dictionary."""
        if topics is None:
            return [{"topic": self.text(), "partition": self.integer("int32")} for _ in self.counted("partitions", 6)]
        partitions = []
        for _ in self.counted("partitions", 8):
            start = self.at
            index = self.integer("int32")
            if index not in topics:
                raise self.error(f"an index of the dictionary of topics, not {index}", start)
            partitions.append({"topic": topics[index], "partition": self.integer("int32")})
        return partitions

    def hosts(self, topics: dict[int, str] | None) -> list[dict[str, Any]]:
        """Hosts with the partitions they have."""
        return [
            {"host": self.text(), "port": self.integer("int32"), "partitions": self.partitions(topics)}
            for _ in self.counted("hosts", 10)
        ]


# By protocol name. Java's CooperativeStickyAssignor sends only the generation; franz-go and librdkafka send with the
# cooperative-sticky protocol what belongs to the sticky one, librdkafka in assignments as well.
SUBSCRIPTION_USER_DATA: Mapping[str | None, tuple[Callable[[bytes], Payload], ...]] = {
    STICKY: (decode_sticky,),
    COOPERATIVE_STICKY: (decode_cooperative_sticky, decode_sticky),
    STREAMS: (decode_streams_subscription,),
}
ASSIGNMENT_USER_DATA: Mapping[str | None, tuple[Callable[[bytes], Payload], ...]] = {
    STICKY: (decode_sticky,),
    COOPERATIVE_STICKY: (decode_sticky,),
    STREAMS: (decode_streams_assignment,),
    None: (decode_streams_assignment, decode_sticky),
}

Decoder = Callable[[bytes, str | None], Payload]  # (bytes, protocol name)

METADATA_DECODERS: Mapping[str, Decoder] = {
    "consumer": decode_subscription,
    "connect": lambda data, _: decode_connect_metadata(data),
}
ASSIGNMENT_DECODERS: Mapping[str, Decoder] = {
    "consumer": decode_assignment,
    "connect": lambda data, _: decode_connect_assignment(data),
}


def decode_member_metadata(data: bytes, protocol_type: str | None, protocol_name: str | None) -> Payload | None:
    """What a member sends in JoinGroup. Raises DecodeError.

    Without a protocol type (old versions of responses lack it) the one that consumes the bytes exactly is taken; None
    if there is none, or if the type is not known here.
    """
    return _decode_part(METADATA_DECODERS, data, protocol_type, protocol_name)


def decode_member_assignment(data: bytes, protocol_type: str | None, protocol_name: str | None) -> Payload | None:
    """What a member gets by SyncGroup; as decode_member_metadata."""
    return _decode_part(ASSIGNMENT_DECODERS, data, protocol_type, protocol_name)


def _decode_part(
    decoders: Mapping[str, Decoder], data: bytes, protocol_type: str | None, protocol_name: str | None
) -> Payload | None:
    if protocol_type is not None:
        return decoders[protocol_type](data, protocol_name) if protocol_type in decoders else None
    for decoder in decoders.values():
        try:
            payload = decoder(data, protocol_name)
        except DecodeError:
            continue
        if not payload.rest:
            return payload
    return None
