"""Bytes of Kafka messages to values: every API and version of Kafka from 3.9 to 4.4, record batches, nested payloads.

    decode_request(api_key, api_version, body)     -> dict, field names as Kafka prints them
    decode_response(api_key, api_version, body)    -> dict
    decode_frame(frame)                            -> Frame(header, body, ...)
    decode_body(api_key, api_version, body, ...)   -> dict, and the bytes behind the body
    decode_records(data)                           -> list of record batches
    decode_nested(api_key, body, response=...)     -> the body with the bytes inside it decoded, secrets redacted
    decode_nested_record(topic, key, value)        -> a record of an internal topic
    to_json(value)                                 -> text, bytes as base64
    plain(value)                                   -> what to_json makes text of

Wrong bytes raise DecodeError and nothing else. Bytes behind a message are left alone: decode_body and decode_frame
return them.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

from kafkascope.decoders import apis, schema
from kafkascope.decoders.characters import safe_json
from kafkascope.decoders.interpreter import DecodeError, decode, decode_by_bytes
from kafkascope.decoders.nested import Knowledge, decode_nested, decode_nested_record

__all__ = [
    "DecodeError",
    "Frame",
    "Knowledge",
    "decode_body",
    "decode_frame",
    "decode_nested",
    "decode_nested_record",
    "decode_records",
    "decode_request",
    "decode_response",
    "plain",
    "to_json",
]

Memory = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Frame:
    """A decoded frame. body is None if no release knows the API or version; then rest holds the body's bytes."""

    size: int  # as the frame's first four bytes say; counts the bytes behind them
    api_key: int
    api_version: int
    header_version: int
    header: dict[str, Any]
    body: dict[str, Any] | None
    rest: bytes  # bytes of the frame behind the body; empty if all is well


def decode_body(api_key: int, api_version: int, body: Memory, *, response: bool) -> tuple[dict[str, Any], bytes]:
    """A body by field name, and the bytes behind it (none if all is well). Raises DecodeError."""
    body = bytes(body)
    decoded, end = _decode_body(apis.readings(api_key, api_version, body, 0, response=response), body, 0)
    return decoded, body[end:]


def decode_request(api_key: int, api_version: int, body: Memory) -> dict[str, Any]:
    """The body of a request (what follows its header) by field name. Raises DecodeError."""
    return decode_body(api_key, api_version, body, response=False)[0]


def decode_response(api_key: int, api_version: int, body: Memory) -> dict[str, Any]:
    """The body of a response (what follows its header) by field name; api_version is the request's. Raises DecodeError.

    A broker that does not know the version of an ApiVersions request answers in version 0, which the error code tells.
    """
    return decode_body(api_key, api_version, body, response=True)[0]


def decode_frame(frame: Memory, *, response_to: tuple[int, int] | None = None) -> Frame:
    """A whole frame: four bytes of size, header, body.

    response_to: (api key, api version) of the request if the frame is a response; the frame itself does not say.
    Offsets of a DecodeError count from the frame's first byte; its partial is {"header": ..., "body": ...}.
    """
    frame = bytes(frame)
    if len(frame) < 4:
        raise DecodeError("size", 0, f"4 bytes of size, {len(frame)} are there", {})
    size = int.from_bytes(frame[:4], "big", signed=True)
    if size < 0 or size > len(frame) - 4:
        raise DecodeError("size", 0, f"a frame of {size} bytes, {len(frame) - 4} are there", {})
    frame, behind = frame[: 4 + size], frame[4 + size :]
    response = response_to is not None
    if response_to is not None:
        api_key, api_version = response_to
        definition = schema.response_header()
        header_version = apis.response_header_version(api_key, api_version)
    else:
        if size < 4:
            raise DecodeError("header", 4, f"4 bytes of API key and version, {size} are there", {})
        api_key = int.from_bytes(frame[4:6], "big", signed=True)
        api_version = int.from_bytes(frame[6:8], "big", signed=True)
        definition = schema.request_header()
        header_version = apis.request_header_version(api_key, api_version)
    try:
        header, at = decode(definition, header_version, frame, 4)
    except DecodeError as error:
        raise _inside("header", error, {"header": error.partial}) from None
    readings = apis.readings(api_key, api_version, frame, at, response=response)
    if not readings:
        return Frame(size, api_key, api_version, header_version, header, None, frame[at:] + behind)
    try:
        body, at = _decode_body(readings, frame, at)
    except DecodeError as error:
        raise _inside("body", error, {"header": header, "body": error.partial}) from None
    return Frame(size, api_key, api_version, header_version, header, body, frame[at:] + behind)


def decode_records(data: bytes) -> list[dict[str, Any]]:
    """The record batches of a records field, with their records; see decoders.records. Raises DecodeError."""
    from kafkascope.decoders.records import (
        decode_records as decode,  # its codecs are not for everybody who decodes a header
    )

    return decode(data)


def _inside(part: str, error: DecodeError, partial: dict[str, object]) -> DecodeError:
    """The error of a part as one of the whole."""
    return DecodeError(f"{part}.{error.path}" if error.path else part, error.offset, error.expected, partial)


def _decode_body(readings: list[tuple[schema.Message, int]], data: bytes, at: int) -> tuple[dict[str, Any], int]:
    """The body at an offset, and the offset behind it."""
    if not readings:
        raise DecodeError("", at, "an API and version that the schemas know", {})
    if len(readings) == 1:
        return decode(*readings[0], data, at)
    return decode_by_bytes(readings, data, at)


def plain(value: object) -> object:
    """A decoded value in types that JSON has: bytes in base64, a number that JSON lacks as text."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def to_json(value: object, *, indent: int | None = None) -> str:
    """A decoded value as JSON text: bytes in base64, a number that JSON lacks as text (NaN, Infinity, -Infinity).

    Characters that hide are written by their number, see `decoders.characters`.
    """
    return safe_json(json.dumps(plain(value), indent=indent, ensure_ascii=False, allow_nan=False))
