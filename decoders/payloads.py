"""Data that is not a request or response of its own: records of the internal topics, principals.

Each has a definition among Kafka's, and a framing that says which one and in which version. The framings are those of
MessageUtil (toVersionPrefixedBytes, toCoordinatorTypePrefixedBytes) and of MetadataRecordSerde and its like for remote
log metadata. What group members tell each other is in group_protocols.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kafkascope.decoders import schema
from kafkascope.decoders.interpreter import BytesReader, DecodeError, decode, decode_by_bytes
from kafkascope.decoders.schema import Message


@dataclass(frozen=True, slots=True)
class Payload:
    """Decoded data with the definition it was decoded by."""

    name: str  # of the definition: ConsumerProtocolSubscription
    version: int
    fields: dict[str, Any]
    rest: bytes = b""  # what follows the last field; empty if all is well

    def as_dict(self) -> dict[str, Any]:
        """The fields, after _definition and _version; then _rest if there is one."""
        named = {"_definition": self.name, "_version": self.version, **self.fields}
        return named | {"_rest": self.rest} if self.rest else named


CLUSTER_METADATA_TOPIC = "__cluster_metadata"
CLUSTER_METADATA_ID = "A" * 21 + "Q"  # in every cluster (KIP-631; org.apache.kafka.common.Uuid)
REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"
# Topics whose records have a key with the record type, by the family that defines them.
COORDINATOR_TOPICS: Mapping[str, str] = {
    "__consumer_offsets": "group_coordinator",
    "__transaction_state": "transaction_coordinator",
    "__share_group_state": "share_coordinator",
}
# Topics whose record values carry their type themselves.
TYPED_VALUE_TOPICS: Mapping[str, str] = {
    CLUSTER_METADATA_TOPIC: "metadata",
    REMOTE_LOG_METADATA_TOPIC: "remote_log_metadata",
}
FRAME_VERSION = 1  # of TYPED_VALUE_TOPICS

OLD_OFFSET_COMMIT = 0  # record type of offset commits before KAFKA-1012; the same layout as the type that followed it


def read(message: Message, version: int, data: bytes, at: int = 0) -> Payload:
    """The message at an offset of data to its end, by the reading of its version that fits. Raises DecodeError."""
    readings = [(reading, version) for reading in message.readings(version)]
    fields, end = decode_by_bytes(readings, data, at) if len(readings) > 1 else decode(message, version, data, at)
    return Payload(message.name, version, fields, data[end:])


def read_version_first(message: Message, data: bytes) -> Payload:
    """A message with an int16 of its version before it. Raises DecodeError."""
    reader = BytesReader(data, root={})
    return read(message, reader.integer("int16"), data, reader.at)


def decode_principal(data: bytes) -> Payload:
    """The principal as DefaultKafkaPrincipalBuilder writes it, in requestPrincipal of Envelope. Raises DecodeError."""
    return read_version_first(schema.data_message("DefaultPrincipalData"), data)


@cache
def _record_types(family: str, kind: str) -> Mapping[int, Message]:
    """The definitions of a family by record type."""
    return {
        message.key: message
        for message in schema.data_messages(family).values()
        if message.kind == kind and message.key is not None
    }


def decode_coordinator_key(topic: str, key: bytes) -> Payload:
    """The key of a record of a topic of COORDINATOR_TOPICS, by the record type before it. Raises DecodeError."""
    reader = BytesReader(key, root={})
    record_type = reader.integer("int16")
    known = _record_types(COORDINATOR_TOPICS[topic], "coordinator-key")
    if record_type not in known:
        raise DecodeError("", 0, f"a record type of {topic}, not {record_type}", {})
    return read(known[record_type], 0, key, reader.at)


def decode_coordinator_value(topic: str, record_type: int, value: bytes) -> Payload:
    """The value of a record of a topic in COORDINATOR_TOPICS, whose key has the record type. Raises DecodeError."""
    if topic == "__consumer_offsets" and record_type == OLD_OFFSET_COMMIT:
        return read_version_first(schema.data_message("OffsetCommitValue"), value)
    known = _record_types(COORDINATOR_TOPICS[topic], "coordinator-value")
    if record_type not in known:
        raise DecodeError("", 0, f"a record type of {topic}, not {record_type}", {})
    return read_version_first(known[record_type], value)


def decode_typed_value(topic: str, value: bytes) -> Payload:
    """The value of a record of a topic in TYPED_VALUE_TOPICS. Raises DecodeError."""
    reader = BytesReader(value, root={})
    frame_version = reader.uvarint("a frame version")
    if frame_version != FRAME_VERSION:
        raise DecodeError("", 0, f"frame version {FRAME_VERSION}, not {frame_version}", {})
    record_type = reader.uvarint("a record type")
    known = _record_types(TYPED_VALUE_TOPICS[topic], "metadata")
    if record_type not in known:
        raise DecodeError("", reader.at, f"a record type of {topic}, not {record_type}", {})
    return read(known[record_type], reader.uvarint("a version"), value, reader.at)


def decode_stored_record(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """Key and value of a record of an internal topic as dicts (see Payload.as_dict); None for any other topic.

    A null value (a tombstone) stays None. Raises DecodeError.
    """
    if topic in TYPED_VALUE_TOPICS:
        return {"key": key, "value": None if value is None else decode_typed_value(topic, value).as_dict()}
    if topic not in COORDINATOR_TOPICS:
        return None
    if key is None:
        raise DecodeError("key", 0, f"a key, which every record of {topic} has", {})
    record_type = BytesReader(key, root={}).integer("int16")
    decoded = {"key": decode_coordinator_key(topic, key).as_dict(), "value": None}
    if value is not None:
        decoded["value"] = decode_coordinator_value(topic, record_type, value).as_dict()
    return decoded
