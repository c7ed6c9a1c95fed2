"""Bodies on a tape as JSON text, a batch of frames at a time, by a compiled writer that walks programs beside rows.

The text of a body is that of `decoders.to_json` of its dict, but for two things: a `records` field is written as its
size (`recordsSizeInBytes`, as in Kafka's own request log), and tagged fields stand in the order of their definition
whatever their order on the wire.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkascope.decoders import program as layouts
from kafkascope.decoders import to_json
from kafkascope.decoders.kernels import allocating, borrowing
from kafkascope.decoders.program import Bools, Bytes, Int8s, Int32s, Int64s, Programs
from kafkascope.decoders.tape import (
    HEX_DIGITS,
    Integer,
    Tape,
    grown,
    hidden,
    string_array,
    text_step,
    write_escape,
    write_integer,
    write_uuid,
)

_LAST_FIXED, _BOOL, _FLOAT64, _UUID = layouts.UUID, layouts.BOOL, layouts.FLOAT64, layouts.UUID
_COMPACT_STRING, _COMPACT_BYTES = layouts.COMPACT_STRING, layouts.COMPACT_BYTES
_COMPACT_ARRAY, _END_ARRAY = layouts.COMPACT_ARRAY, layouts.END_ARRAY
_STRUCT, _END_STRUCT = layouts.STRUCT, layouts.END_STRUCT
_TAGS, _END_TAG = layouts.TAGS, layouts.END_TAG
_SCALARS = layouts.ARRAY_OF_SCALARS
_KIND_RECORDS = layouts.KIND_RECORDS
_UNKNOWN_TAG = layouts.UNKNOWN_TAG
_DEPTH = 2 * layouts.MAX_DEPTH

# Rows of the table of snippets: the name of a field as `"name": `, a null records field, the default of a TAG row.
_NAME, _NULL_RECORDS = 0, 1

# How a byte of a string is written: as it is, in six characters, as part of a character that has several bytes, or (any
# other number) as that letter behind a backslash.
_PLAIN, _CODE, _BEYOND_ASCII = 0, 1, 2
_ESCAPE = np.zeros(256, np.uint8)
_ESCAPE[:0x20] = _ESCAPE[0x7F] = _CODE
_ESCAPE[0x80:] = _BEYOND_ASCII
for _character, _letter in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt', strict=True):
    _ESCAPE[_character] = _letter

_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_NULL_TEXT = np.frombuffer(b"null", np.uint8)
_TRUE_TEXT = np.frombuffer(b"true", np.uint8)
_FALSE_TEXT = np.frombuffer(b"false", np.uint8)
_TAGS_TEXT = np.frombuffer(b'"_tags": {', np.uint8)

_LONGEST_FIXED = 64
"""No number, uuid or word of the kernel with its separators is longer."""


LONGEST_TEXT = 100 << 20
"""Bytes of the text of one body. That of a Metadata answer of 200,000 topics with names of 60 bytes is 68 million."""


@dataclass(frozen=True, slots=True)
class _Snippets:
    """JSON text that is the same in every body."""

    text: Bytes
    of_field: Int64s  # [2, field, 2] begin and end
    of_tag: Int64s  # [row, 2] begin and end of `"name": default` for TAG rows


@borrowing
def _copy(source: Bytes, begin: Integer, end: Integer, text: Bytes, target: Integer) -> Integer:
    for position in range(begin, end):
        text[target] = source[position]
        target += 1
    return target


@borrowing
def _write_string(data: Bytes, position: Integer, end: Integer, text: Bytes, target: Integer) -> Integer:
    """A JSON string from UTF-8; a byte that is none becomes xNN behind a backslash, as in the decoded value.

    Characters that hide are written by their number, as `decoders.characters.safe_json` does.
    """
    text[target] = 0x22
    target += 1
    while position < end:
        byte = data[position]
        escape = _ESCAPE[byte]
        if escape == _PLAIN:
            text[target] = byte
            target += 1
            position += 1
        elif escape == _BEYOND_ASCII:
            step = text_step(data, position, end)
            number = hidden(data, position, step)
            if number >= 0:
                target = write_escape(number, text, target)
                position += step
                continue
            for _ in range(abs(step)):
                if step > 0:
                    text[target] = data[position]
                    target += 1
                else:
                    text[target] = 0x5C
                    text[target + 1] = 0x5C
                    text[target + 2] = 0x78
                    text[target + 3] = HEX_DIGITS[data[position] >> 4]
                    text[target + 4] = HEX_DIGITS[data[position] & 15]
                    target += 5
                position += 1
        else:
            if escape == _CODE:
                target = write_escape(byte, text, target)
            else:
                text[target] = 0x5C
                text[target + 1] = escape
                target += 2
            position += 1
    text[target] = 0x22
    return target + 1


@borrowing
def _write_base64(data: Bytes, position: Integer, end: Integer, text: Bytes, target: Integer) -> Integer:
    """A JSON string of standard base64 with padding."""
    text[target] = 0x22
    target += 1
    while position + 3 <= end:
        bits = (np.int64(data[position]) << 16) | (np.int64(data[position + 1]) << 8) | np.int64(data[position + 2])
        text[target] = _DIGITS[bits >> 18]
        text[target + 1] = _DIGITS[(bits >> 12) & 63]
        text[target + 2] = _DIGITS[(bits >> 6) & 63]
        text[target + 3] = _DIGITS[bits & 63]
        target += 4
        position += 3
    if position < end:
        bits = np.int64(data[position]) << 16
        if position + 1 < end:
            bits |= np.int64(data[position + 1]) << 8
        text[target] = _DIGITS[bits >> 18]
        text[target + 1] = _DIGITS[(bits >> 12) & 63]
        text[target + 2] = _DIGITS[(bits >> 6) & 63] if position + 1 < end else 0x3D
        text[target + 3] = 0x3D
        target += 4
    text[target] = 0x22
    return target + 1


@borrowing
def _separate(text: Bytes, target: Integer) -> Integer:
    """A comma, unless this is the first in its object or array. A value never ends in an opening bracket."""
    if text[target - 1] != 0x7B and text[target - 1] != 0x5B:
        text[target] = 0x2C
        text[target + 1] = 0x20
        target += 2
    return target


@allocating
def _write(
    data: Bytes,
    field: Int32s,
    at: Int64s,
    value: Int64s,
    parent: Int64s,
    frame_start: Int64s,
    wanted: Bools,
    given_of: Int64s,
    given: Bytes,
    given_end: Int64s,
    entry: Int64s,
    rows: Int32s,
    kind: Int8s,
    snippet: Bytes,
    of_field: Int64s,
    of_tag: Int64s,
    float_row: Int64s,
    float_text: Bytes,
    float_end: Int64s,
    longest: Int64s,
    first: Integer,
    offset: Int64s,
    text: Bytes,
) -> Integer:
    """Write frames from `first` on, each from offset[frame]. Returns the first that did not fit, or their number.

    A frame whose text would be longer than its `longest` gets none, and is no longer wanted. If given_of is not -1, the
    text is that of those given.
    """
    capacity = np.int64(text.shape[0]) - _LONGEST_FIXED
    # What is open: an array or struct (program row of its first member, elements left, enclosing row), or a tag section
    # (its TAGS row, tags done, first row of the section, and the row behind it).
    resume = np.empty(_DEPTH, np.int64)
    count = np.empty(_DEPTH, np.int64)
    outer = np.empty(_DEPTH, np.int64)
    behind = np.empty(_DEPTH, np.int64)
    target: Integer = np.int64(offset[first])
    for frame in range(first, frame_start.shape[0] - 1):
        offset[frame + 1] = target
        number = given_of[frame]
        if number >= 0:
            if target + given_end[number + 1] - given_end[number] > capacity:
                return np.int64(frame)
            target = _copy(given, given_end[number], given_end[number + 1], text, target)
            offset[frame + 1] = target
            continue
        if not wanted[frame]:
            continue
        row: Integer = np.int64(frame_start[frame])
        last = np.int64(frame_start[frame + 1])
        pc: Integer = np.int64(entry[frame])
        above: Integer = np.int64(-1)
        depth = 0
        if target > capacity:
            return np.int64(frame)
        text[target] = 0x7B
        target += 1
        while True:
            if target - offset[frame] > longest[frame]:
                break
            operation = rows[pc, 0]
            next_tag = False
            if operation <= _COMPACT_ARRAY or operation == _STRUCT:
                number = field[row]
                amount: Integer = value[row]
                begin = of_field[_NAME, number, 0]
                end = of_field[_NAME, number, 1]
                needed: Integer = end - begin
                if _LAST_FIXED < operation <= _COMPACT_BYTES and kind[number] != _KIND_RECORDS:
                    needed += 6 * max(amount, 0)
                if target + needed > capacity:
                    return np.int64(frame)
                target = _separate(text, target)
                if kind[number] == _KIND_RECORDS and amount < 0:
                    begin = of_field[_NULL_RECORDS, number, 0]
                    end = of_field[_NULL_RECORDS, number, 1]
                target = _copy(snippet, begin, end, text, target)
                if operation > _LAST_FIXED and amount < 0:
                    target = _copy(_NULL_TEXT, 0, 4, text, target)
                    pc = np.int64(rows[pc, 2]) if operation > _COMPACT_BYTES else pc + 1
                elif operation < _BOOL:
                    target = write_integer(amount, text, target)
                    pc += 1
                elif operation <= _COMPACT_BYTES:
                    if operation == _BOOL:
                        if amount != 0:
                            target = _copy(_TRUE_TEXT, 0, 4, text, target)
                        else:
                            target = _copy(_FALSE_TEXT, 0, 5, text, target)
                    elif operation == _FLOAT64:
                        place = np.searchsorted(float_row, row)
                        target = _copy(float_text, float_end[place], float_end[place + 1], text, target)
                    elif operation == _UUID:
                        text[target] = 0x22
                        write_uuid(data, at[row], text, target + 1)
                        text[target + 23] = 0x22
                        target += 24
                    elif operation <= _COMPACT_STRING:
                        target = _write_string(data, at[row], at[row] + amount, text, target)
                    elif kind[number] == _KIND_RECORDS:
                        target = write_integer(amount, text, target)
                    else:
                        target = _write_base64(data, at[row], at[row] + amount, text, target)
                    pc += 1
                elif operation == _STRUCT:
                    text[target] = 0x7B
                    target += 1
                    outer[depth] = above
                    depth += 1
                    above = row
                    pc += 1
                else:
                    text[target] = 0x5B
                    target += 1
                    if amount == 0:
                        text[target] = 0x5D
                        target += 1
                        pc = np.int64(rows[pc, 2])
                    else:
                        resume[depth] = pc + 1
                        count[depth] = amount
                        outer[depth] = above
                        depth += 1
                        if rows[pc, 3] & _SCALARS == 0:
                            row += 1
                            above = row
                            text[target] = 0x7B
                            target += 1
                        pc += 1
                row += 1
            elif operation == _END_ARRAY:
                if target > capacity:
                    return np.int64(frame)
                top = depth - 1
                structs = rows[resume[top] - 1, 3] & _SCALARS == 0
                if structs:
                    text[target] = 0x7D
                    target += 1
                count[top] -= 1
                if count[top] > 0:
                    pc = resume[top]
                    if structs:
                        text[target] = 0x2C
                        text[target + 1] = 0x20
                        text[target + 2] = 0x7B
                        target += 3
                        above = row
                        row += 1
                else:
                    text[target] = 0x5D
                    target += 1
                    above = outer[top]
                    depth = top
                    pc += 1
            elif operation == _END_STRUCT:
                if target > capacity:
                    return np.int64(frame)
                text[target] = 0x7D
                target += 1
                depth -= 1
                above = outer[depth]
                pc += 1
            elif operation == _TAGS:
                resume[depth] = pc
                count[depth] = 0
                outer[depth] = row
                if row < last and parent[row] == above:
                    # Rows within an enclosing one follow it without a break.
                    row += 1
                    while row < last and parent[row] >= above:
                        row += 1
                behind[depth] = row
                depth += 1
                next_tag = True
            elif operation == _END_TAG:
                next_tag = True
            else:
                text[target] = 0x7D
                target += 1
                break
            if next_tag:
                top = depth - 1
                tags = resume[top]
                pc = np.int64(-1)
                while pc < 0 and count[top] < rows[tags, 2]:
                    count[top] += 1
                    place = tags + count[top]
                    for candidate in range(outer[top], behind[top]):
                        if parent[candidate] == above and field[candidate] == rows[place, 1]:
                            row = np.int64(candidate)
                            pc = np.int64(rows[place, 3])
                    if pc < 0:
                        if target + of_tag[place, 1] - of_tag[place, 0] > capacity:
                            return np.int64(frame)
                        target = _separate(text, target)
                        target = _copy(snippet, of_tag[place, 0], of_tag[place, 1], text, target)
                if pc < 0:
                    opened = False
                    for candidate in range(outer[top], behind[top]):
                        if field[candidate] == _UNKNOWN_TAG and parent[candidate] == above:
                            size = value[candidate] & 0xFFFFFFFF
                            if target + 6 * size + 2 * _LONGEST_FIXED > capacity:
                                return np.int64(frame)
                            target = _separate(text, target)
                            if not opened:
                                target = _copy(_TAGS_TEXT, 0, _TAGS_TEXT.shape[0], text, target)
                                opened = True
                            text[target] = 0x22
                            target = write_integer((value[candidate] >> 32) & 0xFFFFFFFF, text, target + 1)
                            text[target] = 0x22
                            text[target + 1] = 0x3A
                            text[target + 2] = 0x20
                            target = _write_base64(data, at[candidate], at[candidate] + size, text, target + 3)
                    if opened:
                        text[target] = 0x7D
                        target += 1
                    row = behind[top]
                    depth = top
                    pc = np.int64(rows[tags, 3])
            if target > capacity:
                return np.int64(frame)
        if target - offset[frame] > longest[frame]:
            wanted[frame] = False
            target = np.int64(offset[frame])
        offset[frame + 1] = target
    return np.int64(frame_start.shape[0] - 1)


@functools.lru_cache(maxsize=2)
def _snippets(using: Programs) -> _Snippets:
    parts: list[bytes] = []
    length = 0

    def add(snippet: str) -> tuple[int, int]:
        nonlocal length
        parts.append(snippet.encode())
        length += len(parts[-1])
        return length - len(parts[-1]), length

    fields = using.fields
    of_field = np.zeros((2, len(fields), 2), np.int64)
    for number, (name, path, kind) in enumerate(zip(fields.name, fields.path, fields.kind.tolist(), strict=True)):
        if path.endswith("[]") or number == layouts.UNKNOWN_TAG:
            continue
        if kind == layouts.KIND_RECORDS:
            of_field[_NAME, number] = add(f'"{name}SizeInBytes": ')
            of_field[_NULL_RECORDS, number] = add(f'"{name}": ')
        else:
            of_field[_NAME, number] = add(f'"{name}": ')
    of_tag = np.zeros((len(using.rows), 2), np.int64)
    for place, (name, default) in using.tag_defaults.items():
        of_tag[place] = add(f'"{name}": {to_json(default)}')
    return _Snippets(np.frombuffer(b"".join(parts), np.uint8), of_field, of_tag)


def _behind_each_other(texts: Sequence[bytes]) -> tuple[Bytes, Int64s]:
    """Texts in one buffer, and where they end; before the first one ends none."""
    end = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=end[1:])
    return np.frombuffer(b"".join(texts), np.uint8), end


def bodies_as_json(
    tape: Tape,
    longest: npt.ArrayLike = LONGEST_TEXT,
    wanted: Bools | None = None,
    given: Mapping[int, bytes | None] | None = None,
) -> pa.Array:
    """The JSON text of every body of the tape, one string for each frame; null for a frame that is not whole.

    A text of more than `longest` bytes (of all frames, or of each) is null too, so that what is held is bounded, and
    so is that of a frame that is not wanted. A frame for which a text is given, in UTF-8, has that, or null.

    Nothing is redacted. Field names are Kafka's, bytes are base64, absent tagged fields have their default, unknown
    tagged fields are under `_tags` by tag (should a frame have one tag twice, so has the text; the last counts). The
    text is valid UTF-8 and valid JSON whatever the bytes are.
    """
    using = tape.programs
    snippets = _snippets(using)
    # No kernel writes the shortest digits of a float64; the few there are (quotas) are written before.
    float_row = np.flatnonzero((using.fields.kind == layouts.KIND_FLOAT)[tape.field])
    floats = [to_json(number).encode() for number in tape.value[float_row].view(np.float64).tolist()]
    float_text, float_end = _behind_each_other(floats)
    wanted = tape.whole if wanted is None else tape.whole & wanted
    wanted[list(given or ())] = False
    there = {frame: text for frame, text in (given or {}).items() if text is not None}
    given_of = np.full(len(tape), -1, np.int64)
    given_of[list(there)] = np.arange(len(there))
    given_text, given_end = _behind_each_other(list(there.values()))
    entry = np.where(wanted, using.entry[tape.program], -1)
    limits = np.full(len(tape), longest, np.int64)
    offset = np.zeros(len(tape) + 1, np.int64)
    expected = 64 * int(np.diff(tape.frame_start)[wanted].sum())
    text = np.empty(expected + 1024 * _LONGEST_FIXED, np.uint8)
    frame = 0
    while True:
        frame = _write(
            tape.data,
            tape.field,
            tape.at,
            tape.value,
            tape.parent,
            tape.frame_start,
            wanted,
            given_of,
            given_text,
            given_end,
            entry,
            using.rows,
            using.fields.kind,
            snippets.text,
            snippets.of_field,
            snippets.of_tag,
            float_row,
            float_text,
            float_end,
            limits,
            frame,
            offset,
            text,
        )
        if frame == len(tape):
            text.resize(int(offset[-1]), refcheck=False)  # what was not needed is given back, without a copy
            return string_array(offset, text, ~wanted & (given_of < 0))
        text = grown(text, int(offset[frame]), 2 * len(text))
