"""Requests and responses written by hand: bodies from dicts by the schemas, headers, frames."""

from __future__ import annotations

import dataclasses
import struct
from base64 import urlsafe_b64decode
from typing import Any

from kafkascope.decoders import apis, schema
from kafkascope.decoders.schema import Field, Message

HEARTBEAT_0 = b"\0\1g" + bytes(4) + b"\0\1m"
"""The body of a Heartbeat of version 0, by the member m of the group g."""

_FORMATS = {
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "uint32": ">I",
    "bool": ">?",
    "float64": ">d",
}


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def body(message: Message, version: int, values: dict[str, Any]) -> bytes:
    """A message of a version; fields that values lacks are zero, empty or null; no tagged fields."""
    return _members(message.fields, version, version in message.flexible, values)


def _members(fields: tuple[Field, ...], version: int, flexible: bool, values: dict[str, Any]) -> bytes:
    written = [
        _value(field, version, flexible, values.get(field.name))
        for field in fields
        if version in field.versions and version not in field.tagged
    ]
    return b"".join(written) + (b"\0" if flexible else b"")


def _value(field: Field, version: int, flexible: bool, value: Any) -> bytes:
    compact = flexible if field.flexible is None else version in field.flexible
    if field.is_array:
        if value is None:
            value = []
        one = dataclasses.replace(field, type=field.element_type)
        count = uvarint(len(value) + 1) if compact else struct.pack(">i", len(value))
        return count + b"".join(
            _members(field.fields, version, flexible, element)
            if field.is_struct
            else _value(one, version, flexible, element)
            for element in value
        )
    if field.is_struct and version in field.nullable and not value:
        return b"\xff"
    if field.is_struct:
        present = b"\1" if version in field.nullable else b""
        return present + _members(field.fields, version, flexible, value or {})
    if field.type in _FORMATS:
        return struct.pack(_FORMATS[field.type], value or 0)
    if field.type == "uuid":
        return urlsafe_b64decode((value or "A" * 22) + "==")
    content = value.encode() if isinstance(value, str) else value
    if content is None and version not in field.nullable:
        content = b""
    size = -1 if content is None else len(content)
    prefix = uvarint(size + 1) if compact else struct.pack(">h" if field.type == "string" else ">i", size)
    return prefix + (content or b"")


def log_record(name: str, values: dict[str, Any]) -> bytes:
    """The value of a record of the metadata log, in version 0."""
    message = schema.data_message(name)
    assert message.key is not None
    return b"\1" + uvarint(message.key) + b"\0" + body(message, 0, values)


def framed(content: bytes, size: int | None = None) -> bytes:
    """Content behind its size, or behind a size that is not its own."""
    return struct.pack(">i", len(content) if size is None else size) + content


def request_header(correlation: int, key: int, version: int, client_id: bytes | None = b"c") -> bytes:
    """The header of a request, without tags."""
    size = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", key, version, correlation, size) + (client_id or b"")


def response_header(correlation: int) -> bytes:
    """The header of a response, without tags."""
    return struct.pack(">i", correlation)


def header_tags(key: int, version: int, *, response: bool) -> bytes:
    """The tags of a header that has none, in the versions that have room for them."""
    flexible = apis.response_header_version(key, version) if response else apis.request_header_version(key, version) - 1
    return b"\0" * (flexible == 1)


def request(
    correlation: int,
    key: int = apis.HEARTBEAT,
    version: int = 0,
    content: bytes = b"",
    client_id: bytes | None = b"c",
    *,
    tags: bytes = b"",
    size: int | None = None,
) -> bytes:
    """The frame of a request; tags: those of its header."""
    return framed(request_header(correlation, key, version, client_id) + tags + content, size)


def response(correlation: int, content: bytes = b"\0\0", *, tags: bytes = b"", size: int | None = None) -> bytes:
    """The frame of a response; tags: those of its header."""
    return framed(response_header(correlation) + tags + content, size)


def exchange(
    correlation: int, key: int, version: int, asked: dict[str, Any], told: dict[str, Any], client_id: bytes = b"c"
) -> tuple[bytes, bytes]:
    """The frames of a request and of its response, with bodies and headers as the schemas have them."""
    api = schema.apis()[key]
    tags = [header_tags(key, version, response=response) for response in (False, True)]
    return (
        request(correlation, key, version, body(api.request, version, asked), client_id, tags=tags[0]),
        response(correlation, body(api.response, version, told), tags=tags[1]),
    )
