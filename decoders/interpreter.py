"""The reference decoder: reads one message by walking its definition, field by field.

It is the plain statement of what the bytes mean, and the reader that explains bad bytes; batches of frames are decoded
by a compiled kernel that is held equal to it. Wire formats: KIP-482 (flexible versions) and the types of Kafka's
protocol guide. Values are plain Python: int, float, bool, str, bytes, None, list, dict; a uuid is text as Kafka prints
it.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Iterable

from kafkascope.decoders.schema import Field, Message

UNKNOWN_TAGS = "_tags"  # where a struct keeps {tag: bytes} of the tagged fields no release defines
VARINT_MAX_BYTES = 5
# Array elements and unknown tags of one message. A dict takes a hundred times the memory of the bytes it may come from;
# real messages stay below (metadata of 200,000 partitions have 1.4 million).
MAX_ELEMENTS = 2_000_000

NUMBERS = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "uint16": struct.Struct(">H"),
    "uint32": struct.Struct(">I"),
    "float64": struct.Struct(">d"),
    "bool": struct.Struct(">?"),
}


class DecodeError(ValueError):
    """Bytes that are not what the protocol says they are.

    path: the field, as topics[0].partitions[2].index; empty for the message itself.
    offset: where in the bytes given the trouble is.
    expected: what should have been there, as a phrase.
    partial: what was read before, in the shape of the whole result; lists and dicts end where reading ended.
    """

    def __init__(self, path: str, offset: int, expected: str, partial: object = None) -> None:
        super().__init__(path, offset, expected, partial)
        self.path = path
        self.offset = offset
        self.expected = expected
        self.partial = partial

    def __str__(self) -> str:
        return f"{self.path or 'message'}: expected {self.expected} at offset {self.offset}"


class BytesReader:
    """A position in bytes, with checked reads of the protocol's primitive types.

    Nothing is read or allocated that the bytes left do not cover. Raises DecodeError, which names the path kept here.
    """

    __slots__ = ("at", "data", "end", "path", "root")

    def __init__(self, data: bytes, at: int = 0, root: object = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data)
        self.path: list[str] = []
        self.root = root

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return self.end - self.at

    def error(self, expected: str, at: int | None = None) -> DecodeError:
        """The error to raise at this place."""
        path = "".join(self.path).removeprefix(".")
        return DecodeError(path, self.at if at is None else at, expected, self.root)

    def take(self, size: int, what: str) -> bytes:
        """The next bytes; what says in an error what they should be."""
        if size > self.left:
            raise self.error(f"{size} bytes of {what}, {self.left} are left")
        taken = self.data[self.at : self.at + size]
        self.at += size
        return taken

    def number(self, type_: str) -> int | float | bool:
        """A number of a type in NUMBERS."""
        format_ = NUMBERS[type_]
        value: int | float | bool = format_.unpack(self.take(format_.size, type_))[0]
        return value

    def integer(self, type_: str) -> int:
        """A number that is an int."""
        return int(self.number(type_))

    def uvarint(self, what: str) -> int:
        """An unsigned 32 bit number, seven bits a byte, the lowest first."""
        start = self.at
        value = 0
        for position in range(VARINT_MAX_BYTES):
            if self.at >= self.end:
                raise self.error(f"{what}, which ends beyond the last byte", start)
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:
                if value >> 32:
                    raise self.error(f"{what} below 2^32, not {value}", start)
                return value
        raise self.error(f"{what} of at most {VARINT_MAX_BYTES} bytes", start)

    def length(self, type_: str, *, flexible: bool, nullable: bool, what: str) -> int | None:
        """A length or count that the bytes left can cover, None for null. type_: how it is written if not flexible."""
        start = self.at
        length = self.uvarint(f"the length of {what}") - 1 if flexible else self.integer(type_)
        if length == -1:
            if not nullable:
                raise self.error(f"{what}, which must not be null", start)
            return None
        if length < 0:
            raise self.error(f"the length of {what}, not {length}", start)
        if length > self.left:
            raise self.error(f"{what} of length {length}, {self.left} bytes are left", start)
        return length

    def string(self, *, flexible: bool = False, nullable: bool = False) -> str | None:
        """UTF-8 text; bytes that are none appear as \\xNN."""
        length = self.length("int16", flexible=flexible, nullable=nullable, what="a string")
        return None if length is None else self.take(length, "a string").decode(errors="backslashreplace")

    def sized_bytes(self, *, flexible: bool = False, nullable: bool = False) -> bytes | None:
        """Bytes with their length before them."""
        length = self.length("int32", flexible=flexible, nullable=nullable, what="bytes")
        return None if length is None else self.take(length, "bytes")

    def uuid(self) -> str:
        """A uuid in URL-safe base64 without padding."""
        return urlsafe_b64encode(self.take(16, "uuid")).rstrip(b"=").decode()


class MessageReader(BytesReader):
    """A reader that knows a definition and a version.

    `decoders.parts` extends its steps, to note where each of them begins and ends.
    """

    __slots__ = ("elements_left", "flexible", "most_elements", "version")

    def __init__(self, message: Message, version: int, data: bytes, at: int, root: dict[str, object]) -> None:
        super().__init__(data, at, root)
        self.version = version
        self.flexible = version in message.flexible
        self.most_elements = self.elements_left = MAX_ELEMENTS

    def members(self, fields: tuple[Field, ...], into: dict[str, object]) -> None:
        """The fields of a struct, into its dict."""
        tagged: dict[int, Field] = {}
        for field in fields:
            if self.version not in field.versions:
                continue
            if self.version in field.tagged and field.tag is not None:
                tagged[field.tag] = field
            else:
                self.value(field, into)
        if self.flexible:
            self.tags(tagged, into)

    def tags(self, tagged: dict[int, Field], into: dict[str, object]) -> None:
        """The tagged fields at the end of a struct; those absent get their default."""
        for field in tagged.values():
            into[field.name] = default_value(field, self.version)
        unknown: dict[int, bytes] = {}
        for _ in range(self.tag_count()):
            tag, size = self.tag_head()
            if tag in tagged:
                self.tagged_value(tagged[tag], size, into)
            else:
                unknown[tag] = self.unknown_tag(tag, size)
                into[UNKNOWN_TAGS] = unknown

    def tag_count(self) -> int:
        """How many tagged fields follow."""
        start = self.at
        count = self.uvarint("a count of tagged fields")
        if count > self.left:
            raise self.error(f"{count} tagged fields, {self.left} bytes are left", start)
        self.spend(count, start)
        return count

    def tag_head(self) -> tuple[int, int]:
        """The tag of a tagged field, and how many bytes it has."""
        tag = self.uvarint("a tag")
        start = self.at
        size = self.uvarint("the size of a tagged field")
        if size > self.left:
            raise self.error(f"a tagged field of {size} bytes, {self.left} are left", start)
        return tag, size

    def unknown_tag(self, tag: int, size: int) -> bytes:
        """A tagged field that no release defines."""
        return self.take(size, "a tagged field")

    def tagged_value(self, field: Field, size: int, into: dict[str, object]) -> None:
        """One tagged field, which must fill its size."""
        end, self.end = self.end, self.at + size
        del into[field.name]
        self.value(field, into, in_tag=True)
        if self.left:
            raise self.error(f"the tagged field {field.name} to fill its {size} bytes, {self.left} are left")
        self.end = end

    def value(self, field: Field, into: dict[str, object], *, in_tag: bool = False) -> None:
        """The value of a field, into the dict of its struct."""
        self.path.append("." + field.name)
        nullable = self.version in field.nullable
        if field.is_array:
            count = self.count(flexible=self.is_flexible(field), nullable=nullable)
            if count is None:
                into[field.name] = None
            else:
                elements: list[object] = []
                into[field.name] = elements
                for index in range(count):
                    self.path.append(f"[{index}]")
                    self.element(field, elements)
                    self.path.pop()
        elif field.is_struct:
            if nullable and not self.present(in_tag=in_tag):
                into[field.name] = None
            else:
                members: dict[str, object] = {}
                into[field.name] = members
                self.members(field.fields, members)
        else:
            into[field.name] = self.scalar(field.type, self.is_flexible(field), nullable)
        self.path.pop()

    def is_flexible(self, field: Field) -> bool:
        """Whether the field's lengths are written as in flexible versions."""
        return self.flexible if field.flexible is None else self.version in field.flexible

    def count(self, *, flexible: bool, nullable: bool) -> int | None:
        """How many elements of an array follow, None for null."""
        start = self.at
        count = self.length("int32", flexible=flexible, nullable=nullable, what="an array")
        self.spend(count or 0, start)
        return count

    def spend(self, count: int, at: int) -> None:
        """Take elements from those a message may have."""
        self.elements_left -= count
        if self.elements_left < 0:
            raise self.error(f"at most {self.most_elements} elements in all arrays of a message", at)

    def present(self, *, in_tag: bool) -> bool:
        """Whether a nullable struct follows: an int8 says so, in a tagged field an unsigned varint."""
        return self.uvarint("a mark of presence") > 0 if in_tag else self.integer("int8") >= 0

    def element(self, field: Field, into: list[object]) -> None:
        """One element of an array."""
        if field.is_struct:
            members: dict[str, object] = {}
            into.append(members)
            self.members(field.fields, members)
        else:
            into.append(self.scalar(field.element_type, self.is_flexible(field), nullable=False))

    def scalar(self, type_: str, flexible: bool, nullable: bool) -> object:
        """A value that has no parts."""
        if type_ in NUMBERS:
            return self.number(type_)
        if type_ == "string":
            return self.string(flexible=flexible, nullable=nullable)
        if type_ == "uuid":
            return self.uuid()
        return self.sized_bytes(flexible=flexible, nullable=nullable)


def default_value(field: Field, version: int) -> object:
    """The value of a field that is not on the wire, in lists and dicts of its own."""
    if field.default is None:
        return None
    if field.is_array:
        return []
    if field.is_struct:
        return {member.name: default_value(member, version) for member in field.fields if version in member.versions}
    return field.default


def decode(message: Message, version: int, data: bytes, at: int = 0) -> tuple[dict[str, object], int]:
    """One message that begins at an offset of data, read with the newest definition of the version.

    Returns its fields by name and the offset behind its last byte; what follows is the caller's. A field the version
    does not have is absent; a tagged field that is not on the wire has its default; unknown tagged fields are under
    _tags of their struct. Raises DecodeError; its offset counts from the start of data.
    """
    result: dict[str, object] = {}
    if version not in message.versions:
        raise DecodeError("", at, f"a version of {message.name} in {message.versions}, not {version}", result)
    reader = MessageReader(message, version, data, at, result)
    reader.members(message.fields, result)
    return result, reader.at


def decode_by_bytes(readings: Iterable[tuple[Message, int]], data: bytes, at: int = 0) -> tuple[dict[str, object], int]:
    """decode with the one of several (definition, version) that consumes the bytes to the last.

    For versions whose layout differs from release to release. If none does, the first one's result or error stands; if
    several do and differ in what they read, DecodeError says so.
    """
    first: tuple[dict[str, object], int] | DecodeError | None = None
    exact: list[dict[str, object]] = []
    for message, version in readings:
        outcome: tuple[dict[str, object], int] | DecodeError
        try:
            outcome = decode(message, version, data, at)
        except DecodeError as error:
            outcome = error
        else:
            if outcome[1] == len(data) and outcome[0] not in exact:
                exact.append(outcome[0])
        first = outcome if first is None else first
    if len(exact) == 1:
        return exact[0], len(data)
    if exact:
        raise DecodeError(
            "", at, f"bytes that fit one layout only; they fit {len(exact)} of different releases", exact[0]
        )
    if first is None:
        raise DecodeError("", at, "a definition for these bytes", {})
    if isinstance(first, DecodeError):
        raise first
    return first
