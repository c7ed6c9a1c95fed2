"""A message as Kafka's protocol guide shows it: every field with its offset, length, name, value and type.

Values are those of the one text of a body that is made for everybody (`BodyTexts`, `decode_nested`), where secrets are
hidden: where the bytes say otherwise than it, or it says nothing, the bytes are not shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from kafkascope.decoders import DecodeError, plain
from kafkascope.decoders.characters import safe_text
from kafkascope.decoders.interpreter import UNKNOWN_TAGS
from kafkascope.decoders.parts import Dissection, Kind, Part
from kafkascope.decoders.payload_parts import add_payload
from kafkascope.decoders.record_parts import RECORDS, add_batches
from kafkascope.decoders.value_names import attributes_of_batch, name_of_value

BYTES_A_LINE = 8
MOST_BYTES = 4096
"""Bytes of one field that are shown in hex."""
_SHORT = 32
"""Bytes that are shown as a value; of more only their number is."""


class _Trust(Enum):
    """What may be shown of parts that the text says nothing of."""

    ALL = "all"
    NUMBERS = "numbers"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class MessageStyle:
    """How messages are shown."""

    as_hex: bool = False  # with their bytes
    reveal: bool = False  # with what no text of a body has: keys and values of records, bytes that were not understood
    left_over: bool = False  # with bytes behind a message that is whole
    topic_name: Callable[[str], str | None] = lambda _: None  # by a topic's id
    dim: Callable[[str], str] = str  # makes a text less conspicuous


def frame_lines(found: Dissection, frame: bytes, body: Any, style: MessageStyle) -> Iterator[str]:
    """Lines on a whole frame. body: what its text says, as a value of JSON; None if there is no text."""
    writer = _Writer(found.api_key, frame, style)
    yield from writer.lines(found.size, _Trust.ALL, 0)
    yield from writer.lines(found.header, _Trust.ALL, 0)
    if found.body is None:
        yield from writer.behind(found.end, found.error)
    else:
        yield from body_lines(found.api_key, found.body, found.error, frame, body, style)


def body_lines(
    api_key: int, part: Part, error: DecodeError | None, data: bytes, body: Any, style: MessageStyle
) -> Iterator[str]:
    """Lines on a body and what lies behind it. data: what the offsets count in; body: as of `frame_lines`."""
    writer = _Writer(api_key, data, style)
    if body is None:
        yield from writer.alone(part, "[not shown]")
    else:
        add_batches(part, data)
        yield from writer.lines(part, body, 0)
    yield from writer.behind(part.end, error)


def value_lines(value: Any, margin: str = "", depth: int = 0) -> Iterator[str]:
    """A value of JSON that is no part of a message, a line for each thing in it."""
    items = value.items() if isinstance(value, dict) else ((f"[{place}]", item) for place, item in enumerate(value))
    for name, item in items:
        lead = margin + "  " * depth + safe_text(str(name))
        if isinstance(item, dict | list) and item:
            yield lead
            yield from value_lines(item, margin, depth + 1)
        else:
            yield f"{lead}: {_text(item)}"


class _Writer:
    """Writes the parts of one message."""

    def __init__(self, api_key: int, data: bytes, style: MessageStyle) -> None:
        self._api_key = api_key
        self._data = data
        self._style = style

    def lines(self, part: Part, shown: Any, depth: int) -> Iterator[str]:
        """A part and all in it. shown: what the text says of it, or a _Trust."""
        if part.kind is Kind.STRUCT:
            yield from self._part(part, "", depth)
        elif part.kind is not Kind.VALUE:
            yield from self._part(part, str(part.value), depth)
            if part.type == RECORDS and not self._style.as_hex:
                return  # there may be thousands
        elif isinstance(part.value, bytes) and isinstance(shown, dict):
            yield from self._payload(part, part.value, shown, depth)
        elif isinstance(part.value, bytes) and part.parts:  # the batches of a records field
            yield from self._part(part, _size(part.value), depth)
            shown = _Trust.ALL if self._style.reveal else _Trust.NUMBERS
        else:
            yield from self._value(part, shown, depth)
        last = {inner.name: inner for inner in part.parts} if part.kind is Kind.TAGS else {}
        for inner in part.parts:
            if last.get(inner.name, inner) is inner:
                yield from self.lines(inner, _said_of(inner, part, shown), depth + 1)
            else:
                yield from self._outdone(inner, depth + 1)

    def alone(self, part: Part, said: str) -> Iterator[str]:
        """A part without those in it."""
        yield from self._part(part, said, 0)

    def behind(self, end: int, error: DecodeError | None) -> Iterator[str]:
        """What is to be said of the bytes that no part has."""
        left = len(self._data) - end
        if error is not None:
            words = f"not read from here on: {error}"
        elif left:
            words = "left over: no field has these bytes"
        else:
            return
        part = Part("", Kind.VALUE, "", end, head=left)
        is_seen = self._style.reveal or (self._style.left_over and error is None)
        yield from self._rows(part, safe_text(words), is_seen=is_seen)

    def _outdone(self, part: Part, depth: int) -> Iterator[str]:
        """A tagged field that comes again in its struct: Kafka takes the last, and so has the text only that."""
        whole = replace(part, head=part.end - part.offset, parts=[])
        yield from self._part(whole, "comes again below, which counts", depth, is_seen=self._style.reveal)

    def _payload(self, part: Part, value: bytes, shown: dict[str, Any], depth: int) -> Iterator[str]:
        """Bytes that are a message of their own; with parts, if its layout is one of fields, else as the text says."""
        if "_definition" in shown and add_payload(part, shown["_definition"], shown["_version"], self._data):
            yield from self._part(part, f"{shown['_definition']} v{shown['_version']}", depth)
        else:
            yield from self._part(part, _size(value), depth, is_seen=self._style.reveal)
            yield from value_lines(shown, " " * len(self._columns("", "", "")), depth + 1)

    def _value(self, part: Part, shown: Any, depth: int) -> Iterator[str]:
        value = part.value
        if isinstance(shown, _Trust):
            is_seen = shown is _Trust.ALL or (shown is _Trust.NUMBERS and not isinstance(value, bytes))
            hidden = _size(value) if isinstance(value, bytes) else "[not shown]"
        else:
            is_seen = plain(value) == shown
            hidden = _text(shown)
        said = self._named(part) if is_seen else hidden
        yield from self._part(part, said if part.sent else f"{said} (absent: the default)", depth, is_seen=is_seen)

    def _named(self, part: Part) -> str:
        value, definition = part.value, part.definition
        said = _size(value) if isinstance(value, bytes) and len(value) > _SHORT else _text(value)
        name: str | None = None
        if isinstance(value, int) and definition is not None:
            name = name_of_value(self._api_key, definition.name, value)
        elif isinstance(value, int) and (part.name, part.type) == ("attributes", "INT16"):
            name = attributes_of_batch(value)
        elif isinstance(value, str) and definition is not None and definition.element_type == "uuid":
            name = self._style.topic_name(value)
        return said if name is None else f"{said} ({safe_text(name)})"

    def _part(self, part: Part, said: str, depth: int, *, is_seen: bool = True) -> Iterator[str]:
        words = f"{'  ' * depth}{safe_text(part.name)}{': ' if said else ''}{said}  {self._style.dim(part.type)}"
        yield from self._rows(part, words, is_seen=is_seen)

    def _rows(self, part: Part, words: str, *, is_seen: bool) -> Iterator[str]:
        """A line, and what is left of its bytes in more lines."""
        of_part = self._data[part.offset : part.offset + min(part.head, MOST_BYTES)] if self._style.as_hex else b""
        first, *more = [of_part[at : at + BYTES_A_LINE].hex(" ") for at in range(0, len(of_part), BYTES_A_LINE)] or [""]
        if not is_seen:
            first, more = "not shown" if of_part else "", []
        elif part.head > MOST_BYTES and of_part:
            more.append(f"and {part.head - MOST_BYTES:,} more")
        offset, length = (str(part.offset), str(part.end - part.offset)) if part.sent else ("-", "-")
        yield self._columns(offset, length, first) + words
        for row, bytes_ in enumerate(more, 1):
            yield self._columns(str(part.offset + row * BYTES_A_LINE), "", bytes_).rstrip()

    def _columns(self, offset: str, length: str, bytes_: str) -> str:
        beside = f"{bytes_:<{3 * BYTES_A_LINE + 1}}" if self._style.as_hex else ""
        return f"{offset:>7} {length:>7}  {beside}"


def _said_of(inner: Part, part: Part, shown: Any) -> Any:
    """What the text says of a part of a part; the members of a struct and its tagged fields are side by side in it."""
    if isinstance(shown, _Trust) or inner.kind is Kind.TAGS:
        return shown
    if isinstance(shown, list) and part.kind is Kind.ARRAY:
        place = int(inner.name[1:-1])
        return shown[place] if place < len(shown) else _Trust.NOTHING
    if not isinstance(shown, dict):
        return _Trust.NOTHING
    if inner.definition is not None:
        if inner.definition.type == "records" and not inner.value:
            return _Trust.ALL
        return shown.get(inner.name, _Trust.NOTHING)
    if inner.name.startswith("tag "):
        return shown.get(UNKNOWN_TAGS, {}).get(inner.name.removeprefix("tag "), _Trust.NOTHING)
    return shown.get(inner.name, _Trust.NUMBERS)


def _size(value: bytes) -> str:
    return f"{len(value):,} bytes" if len(value) != 1 else "1 byte"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return f"0x{value.hex()}" if value else "no bytes"
    return safe_text(f'"{value}"' if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False))
