"""The protocol as data: messages, fields and the versions in which each exists.

Facts come from the JSON definitions in the jars of Apache Kafka (kafka-clients and others), see tools/schemas.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions; empty if last is below first."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


NEVER = Versions(1, 0)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message or struct. Shared structs are written out: fields holds the members of a struct type."""

    name: str  # camelCase, as Kafka's JSON converters print it
    type: str  # int8 .. int64, uint16, uint32, float64, bool, string, uuid, bytes, records, a struct's name, or []T
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    flexible: Versions | None  # where the field overrides the message (RequestHeader.clientId: NEVER)
    default: object  # plain Python value; None for null; for a struct {} or None
    entity_type: str | None  # topicName, groupId, brokerId, ...
    fields: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """A request, response, header or data definition: the union of all releases read."""

    name: str  # FetchRequest
    kind: str  # request, response, header, data, coordinator-key, coordinator-value, metadata
    key: int | None  # api key, or record type
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]
