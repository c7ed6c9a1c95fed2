"""Where in a message each field lies: the tree of its parts, with offsets, lengths and types.

The reference decoder reads, and this module notes where each step began and ended. Types are called as Kafka's protocol
guide calls them (COMPACT_NULLABLE_STRING).

Each part has bytes of its own, its head (all of a string or number; the count of an array; tag, size and head of a
tagged field), and behind them its parts. So the heads, in order, are the bytes of the message, each byte once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kafkascope.decoders import apis, schema
from kafkascope.decoders.interpreter import DecodeError, MessageReader, decode_by_bytes, default_value
from kafkascope.decoders.schema import Field, Message

MOST_ELEMENTS = 200_000
"""Elements of arrays, and tagged fields, of a message of which a tree is made: a part takes some 300 bytes."""

TAGS = "_tagged_fields"


class Kind(Enum):
    """What a part is."""

    VALUE = "value"  # has no parts; null as well, of whatever type
    ARRAY = "array"
    STRUCT = "struct"
    TAGS = "tags"


@dataclass(slots=True)
class Part:
    """A run of bytes of a message, and what they mean."""

    name: str  # of the field; [0] of an element; "tag 7" of a tagged field that no release defines
    kind: Kind
    type: str
    offset: int
    definition: Field | None = None  # that of the array, of an element
    head: int = 0  # how many bytes are its own; those of its parts follow
    value: object = None  # of a VALUE; the number of elements of an ARRAY, of fields of TAGS
    parts: list[Part] = field(default_factory=list)
    sent: bool = True  # False: a tagged field that is absent, so its value is the default

    @property
    def end(self) -> int:
        """The offset behind its last byte."""
        return next((part.end for part in reversed(self.parts) if part.sent), self.offset + self.head)

    def walk(self) -> Iterator[Part]:
        """The part and all parts in it, each before its own parts."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True, slots=True)
class Dissection:
    """A frame by its parts; body is None if nobody knows its API or version, or the header is cut."""

    api_key: int
    api_version: int
    size: Part
    header: Part
    body: Part | None
    error: DecodeError | None  # what was wrong with the bytes; the parts are those before

    @property
    def end(self) -> int:
        """The offset behind the last byte that has a meaning."""
        return self.header.end if self.body is None else self.body.end


def dissect_frame(frame: bytes, *, response_to: tuple[int, int] | None = None) -> Dissection:
    """The parts of a frame: four bytes of size, header, body; as far as they are there.

    response_to: (api key, api version) of the request if the frame is a response. Raises DecodeError only if there is
    too little to know what it is.
    """
    least = 4 if response_to else 8
    if len(frame) < least:
        raise DecodeError("", 0, f"{least} bytes at least, {len(frame)} are there", {})
    size = Part("size", Kind.VALUE, "INT32", 0, head=4, value=int.from_bytes(frame[:4], "big", signed=True))
    if response_to is not None:
        api_key, api_version = response_to
        header = (schema.response_header(), apis.response_header_version(api_key, api_version))
    else:
        api_key = int.from_bytes(frame[4:6], "big", signed=True)
        api_version = int.from_bytes(frame[6:8], "big", signed=True)
        header = (schema.request_header(), apis.request_header_version(api_key, api_version))
    part, error = _read("header", *header, frame, 4, len(frame))
    if error is not None:
        return Dissection(api_key, api_version, size, part, None, error)
    body, error = dissect_body(api_key, api_version, frame, part.end, response=response_to is not None)
    return Dissection(api_key, api_version, size, part, body, error)


def dissect_body(
    api_key: int, api_version: int, data: bytes, at: int = 0, *, response: bool
) -> tuple[Part | None, DecodeError | None]:
    """The parts of the body at an offset, and what was wrong with its bytes. None, None if nobody knows the API."""
    readings = apis.readings(api_key, api_version, data, at, response=response)
    if not readings:
        return None, None
    return dissect("body", readings, data, at)


def dissect(
    name: str, readings: Sequence[tuple[Message, int]], data: bytes, at: int, end: int | None = None
) -> tuple[Part, DecodeError | None]:
    """The parts of the message at an offset, by the reading that ends where the data do, else by the first one.

    What is wrong with the bytes is said; then the parts are those before it.
    """
    end = len(data) if end is None else end
    read = [_read(name, message, version, data, at, end) for message, version in readings]
    part, error = next((one for one in read if one[1] is None and one[0].end == end), read[0])
    if len(read) > 1 and error is None:
        try:
            decode_by_bytes(readings, data[:end], at)
        except DecodeError as ambiguous:
            error = ambiguous
    return part, error


def type_name(type_: str, *, flexible: bool, nullable: bool) -> str:
    """A type as the protocol guide calls it; that of a struct as its definition does."""
    if type_[0].isupper():
        return type_
    if type_ == "bool":
        return "BOOLEAN"
    if type_ not in ("string", "bytes", "records") and not type_.startswith("[]"):
        return type_.upper()
    name = "ARRAY" if type_.startswith("[]") else type_.upper()
    nullable = nullable and type_ in ("string", "bytes")  # the guide has one name for both of the others
    return ("COMPACT_" if flexible else "") + ("NULLABLE_" if nullable else "") + name


def _read(name: str, message: Message, version: int, data: bytes, at: int, end: int) -> tuple[Part, DecodeError | None]:
    whole = Part(name, Kind.STRUCT, f"{message.name} v{version}", at)
    reader = _PartReader(message, version, data, at, whole)
    reader.end = end
    fields: dict[str, object] = {}
    try:
        reader.members(message.fields, fields)
    except DecodeError as error:
        reader.drop_unread()
        return whole, error
    return whole, None


class _PartReader(MessageReader):
    """Reads a message, and notes the parts of it."""

    __slots__ = ("open",)

    def __init__(self, message: Message, version: int, data: bytes, at: int, whole: Part) -> None:
        super().__init__(message, version, data, at, {})
        self.most_elements = self.elements_left = MOST_ELEMENTS
        self.open = [whole]  # each inside the one before

    def begin(self, part: Part) -> None:
        """Open a part, in the one that is open."""
        self.open[-1].parts.append(part)
        self.open.append(part)

    def end_head(self, value: object = None) -> None:
        """The own bytes of the open part end here."""
        part = self.open[-1]
        part.head = self.at - part.offset
        part.value = value

    def drop_unread(self) -> None:
        """Take away the open parts of which nothing could be read."""
        while len(self.open) > 1:
            part = self.open.pop()
            if not part.head and not part.parts:
                self.open[-1].parts.remove(part)

    def tags(self, tagged: dict[int, Field], into: dict[str, object]) -> None:
        self.begin(Part(TAGS, Kind.TAGS, "TAGGED_FIELDS", self.at))
        super().tags(tagged, into)
        part = self.open.pop()
        there = {one.name for one in part.parts}
        for absent in tagged.values():
            if absent.name not in there:
                type_ = self.type_of(absent)
                value = default_value(absent, self.version)
                part.parts.append(Part(absent.name, Kind.VALUE, type_, self.at, absent, value=value, sent=False))

    def tag_count(self) -> int:
        count = super().tag_count()
        self.end_head(count)
        return count

    def tag_head(self) -> tuple[int, int]:
        self.begin(Part("tag", Kind.VALUE, "TAG", self.at))
        tag, size = super().tag_head()
        self.open[-1].name = f"tag {tag}"
        return tag, size

    def unknown_tag(self, tag: int, size: int) -> bytes:
        data = super().unknown_tag(tag, size)
        self.end_head(data)
        self.open.pop()
        return data

    def value(self, field: Field, into: dict[str, object], *, in_tag: bool = False) -> None:
        kind = Kind.ARRAY if field.is_array else Kind.STRUCT if field.is_struct else Kind.VALUE
        if not in_tag:
            self.begin(Part(field.name, kind, self.type_of(field), self.at, field))
        else:
            part = self.open[-1]
            part.name, part.kind, part.type, part.definition = field.name, kind, self.type_of(field), field
            part.head = self.at - part.offset
        super().value(field, into, in_tag=in_tag)
        if kind is Kind.VALUE:
            self.end_head(into[field.name])
        elif into[field.name] is None:
            self.open[-1].kind = Kind.VALUE
        self.open.pop()

    def type_of(self, field: Field) -> str:
        """The type of a field in this version."""
        return type_name(field.type, flexible=self.is_flexible(field), nullable=self.version in field.nullable)

    def count(self, *, flexible: bool, nullable: bool) -> int | None:
        count = super().count(flexible=flexible, nullable=nullable)
        self.end_head(count)
        return count

    def present(self, *, in_tag: bool) -> bool:
        present = super().present(in_tag=in_tag)
        self.end_head()
        return present

    def element(self, field: Field, into: list[object]) -> None:
        kind = Kind.STRUCT if field.is_struct else Kind.VALUE
        type_ = type_name(field.element_type, flexible=self.is_flexible(field), nullable=False)
        self.begin(Part(self.path[-1], kind, type_, self.at, field))
        super().element(field, into)
        if kind is Kind.VALUE:
            self.end_head(into[-1])
        self.open.pop()
