"""The protocol as data: messages, fields and the versions in which each exists.

Facts come from the JSON definitions in the jars of Apache Kafka (kafka-clients and others): tools/schemas.py reads them
there and writes the tables in schemas/, from which this module makes its values on first use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

OPEN_END = 32767  # the last version of a range that has no end: versions are int16 on the wire


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions; empty if last is below first."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __bool__(self) -> bool:
        return self.first <= self.last

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.last == OPEN_END:
            return f"{self.first}+"
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


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
    default: (
        object  # plain Python value; None for null; for an array () ; for a struct {} (its members' defaults) or None
    )
    entity_type: str | None  # topicName, groupId, brokerId, ...
    fields: tuple[Field, ...] = ()

    @property
    def is_array(self) -> bool:
        """Whether the type is []T."""
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        """The type of an array's elements; of anything else its own type."""
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        """Whether the field is a struct or an array of structs."""
        return self.element_type[0].isupper()


@dataclass(frozen=True, slots=True)
class Release:
    """What one release of Apache Kafka says of a message."""

    name: str  # 3.9.1
    versions: Versions
    unstable: Versions  # those of them that the release offers only when unstable versions are enabled


@dataclass(frozen=True, slots=True)
class Message:
    """A request, response, header or data definition: the union of all releases read."""

    name: str  # FetchRequest
    kind: str  # request, response, header, data, coordinator-key, coordinator-value, metadata
    key: int | None  # api key, or record type
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]
    releases: tuple[Release, ...] = ()  # those that know the message, oldest first
    # Other readings of some versions, as older releases wrote them: each holds the versions it is for. Only the bytes
    # tell which reading is meant (it consumes them exactly).
    alternatives: tuple[Message, ...] = ()

    def readings(self, version: int) -> tuple[Message, ...]:
        """The definitions that the version can be read with, the newest first; empty for an unknown version."""
        if version not in self.versions:
            return ()
        return (self, *(other for other in self.alternatives if version in other.versions))


@dataclass(frozen=True, slots=True)
class Api:
    """A request with its response."""

    key: int
    name: str  # Fetch
    request: Message
    response: Message

    @property
    def versions(self) -> Versions:
        """The versions of the request; those of the response are the same."""
        return self.request.versions

    def unstable(self, version: int) -> bool:
        """Whether every release that knows the version calls it unstable."""
        knowing = [release for release in self.request.releases if version in release.versions]
        return bool(knowing) and all(version in release.unstable for release in knowing)


# The value a field has that no definition gives a default.
ZERO: Mapping[str, object] = MappingProxyType(
    {
        "bool": False,
        "float64": 0.0,
        "string": "",
        "bytes": b"",
        "records": None,
        "uuid": "AAAAAAAAAAAAAAAAAAAAAA",
    }
    | dict.fromkeys(("int8", "int16", "int32", "int64", "uint16", "uint32"), 0)
)


@dataclass(frozen=True, slots=True)
class _Tables:
    apis: Mapping[int, Api]
    families: Mapping[str, Mapping[str, Message]]
    data: Mapping[str, Message]


@cache
def _versions(text: str) -> Versions:
    if text == "none":
        return NEVER
    if text.endswith("+"):
        return Versions(int(text[:-1]), OPEN_END)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def _field(facts: dict[str, Any]) -> Field:
    type_: str = facts["type"]
    if "default" in facts:
        default = facts["default"]
    elif type_.startswith("[]"):
        default = ()
    else:
        default = ZERO.get(type_, {})
    return Field(
        name=facts["name"],
        type=type_,
        versions=_versions(facts["versions"]),
        nullable=_versions(facts.get("nullable", "none")),
        tagged=_versions(facts.get("tagged", "none")),
        tag=facts.get("tag"),
        flexible=_versions(facts["flexible"]) if "flexible" in facts else None,
        default=default,
        entity_type=facts.get("entity"),
        fields=tuple(map(_field, facts["fields"])) if "fields" in facts else (),
    )


def _message(facts: dict[str, Any]) -> Message:
    unstable = facts.get("unstable", {})
    return Message(
        name=facts["name"],
        kind=facts["kind"],
        key=facts.get("key"),
        versions=_versions(facts["versions"]),
        flexible=_versions(facts["flexible"]),
        fields=tuple(map(_field, facts["fields"])),
        releases=tuple(
            Release(name, _versions(versions), _versions(unstable.get(name, "none")))
            for name, versions in facts["releases"].items()
        ),
        alternatives=tuple(map(_message, facts.get("alternatives", ()))),
    )


@cache
def _tables() -> _Tables:
    found: dict[int, Api] = {}
    families: dict[str, Mapping[str, Message]] = {}
    for file in (resources.files("kafkascope.decoders") / "schemas").iterdir():
        if not file.name.endswith(".json"):
            continue
        table = json.loads(file.read_text())
        if "request" in table:
            key = table["key"]
            found[key] = Api(key, table["name"], _message(table["request"]), _message(table["response"]))
        else:
            messages = map(_message, table["messages"])
            families[table["family"]] = MappingProxyType({message.name: message for message in messages})
    data = {name: message for family in families.values() for name, message in family.items()}
    return _Tables(
        MappingProxyType(dict(sorted(found.items()))),
        MappingProxyType(dict(sorted(families.items()))),
        MappingProxyType(data),
    )


def apis() -> Mapping[int, Api]:
    """Every API by key, in the order of keys."""
    return _tables().apis


def request_header() -> Message:
    """The header of requests: versions 0 (no client id), 1, and 2 (with tags)."""
    return _tables().data["RequestHeader"]


def response_header() -> Message:
    """The header of responses: versions 0 and 1 (with tags)."""
    return _tables().data["ResponseHeader"]


def data_message(name: str) -> Message:
    """A data definition by name (ConsumerProtocolSubscription, PartitionRecord, ...); KeyError if there is none."""
    return _tables().data[name]


def data_messages(family: str) -> Mapping[str, Message]:
    """The data definitions of a family by name. Raises KeyError for an unknown family.

    Families: clients, group_coordinator, transaction_coordinator, share_coordinator, metadata, remote_log_metadata,
    streams, headers.
    """
    return _tables().families[family]
