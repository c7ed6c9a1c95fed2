"""Bodies of any API and version to columns, a batch of frames at a time, by one compiled interpreter of the programs.

The result is a `Tape`: a row for each value that is on the wire, in order, with its field id, where its bytes are, its
number or length or count, and the row that encloses it. Everything that looks at many bodies selects rows of the tape;
dicts are made only of bodies that somebody asks for, by the plain interpreter.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkascope.decoders import program as layouts
from kafkascope.decoders.characters import HIDDEN
from kafkascope.decoders.kernels import allocating, borrowing, kernel
from kafkascope.decoders.limits import DEFAULT
from kafkascope.decoders.program import Bools, Bytes, Int8s, Int32s, Int64s, Programs, programs

Integer: TypeAlias = Any
"""An int64 inside a kernel, an int outside."""


class Status(enum.IntEnum):
    """What became of a frame. `OK` and `LEFT_OVER` are whole; of the others the tape has what lay before the damage."""

    OK = 0
    UNKNOWN = 1  # no program for the API key and version
    SHORT = 2  # a value reaches behind the end of the frame, or of the tagged field that holds it
    BAD_LENGTH = 3  # a negative length that does not mean null
    NULL = 4  # null where the version does not allow it
    BAD_VARINT = 5  # more than 32 bits
    BAD_COUNT = 6  # negative, or more elements than bytes are left for
    BAD_TAG = 7  # a tagged field that does not end where its size says
    LEFT_OVER = 8  # bytes behind the last field
    TOO_MANY = 9  # more rows, or structs in arrays, than a frame may make; the tape has those before
    AMBIGUOUS = 10  # the version has two layouts, both fit the bytes and they differ in what they read


# Kernels know constants, not members of an enum.
_OK, _UNKNOWN, _SHORT, _BAD_LENGTH, _NULL = 0, 1, 2, 3, 4
_BAD_VARINT, _BAD_COUNT, _BAD_TAG, _LEFT_OVER, _TOO_MANY, _AMBIGUOUS = 5, 6, 7, 8, 9, 10

ROWS_PER_BYTE = 64
ROWS_PER_FRAME = 1024
"""A frame may make ROWS_PER_BYTE for each of its bytes and ROWS_PER_FRAME more. Elements take a byte or more and are a
few rows, so that only a schema with a mistake comes near."""

MOST_ROWS = 5_000_000
"""Rows that any frame may make. The largest that brokers send tell of all partitions of a cluster: 200,000 of them,
each in a topic of its own and with three replicas, are 4.2 million rows of a Metadata answer, and 120 MB of tape."""

ROWS_PER_ELEMENT = 10
"""As many rows as structs in arrays may have: that answer has 400,000 of these, which tables have rows of."""

_TRIED_ELEMENTS = DEFAULT.elements  # of frames that are tried, whatever is kept of those that are read

ROWS_AT_ONCE = 2_000_000
"""Rows of a tape of several frames that `decode_bodies` is to make at once, where the caller asks for a bound."""

_INT8, _INT16, _INT32 = layouts.INT8, layouts.INT16, layouts.INT32
_UINT16, _UINT32, _BOOL, _UUID = layouts.UINT16, layouts.UINT32, layouts.BOOL, layouts.UUID
_STRING, _BYTES = layouts.STRING, layouts.BYTES
_ARRAY, _COMPACT_ARRAY, _END_ARRAY = layouts.ARRAY, layouts.COMPACT_ARRAY, layouts.END_ARRAY
_STRUCT, _END_STRUCT = layouts.STRUCT, layouts.END_STRUCT
_TAGS, _END_TAG = layouts.TAGS, layouts.END_TAG
_NULLABLE, _SCALARS, _LEAST_SHIFT = layouts.ARRAY_NULLABLE, layouts.ARRAY_OF_SCALARS, layouts.ARRAY_LEAST_SHIFT
_ALWAYS, _INT8_PRESENCE = layouts.PRESENCE_ALWAYS, layouts.PRESENCE_INT8
_UNKNOWN_TAG = layouts.UNKNOWN_TAG
_DEPTH = 2 * layouts.MAX_DEPTH


@borrowing
def unsigned_varint(data: Bytes, position: Integer, end: Integer) -> tuple[Integer, Integer]:
    """A varint of at most 32 bits (5 bytes). Returns value and position behind it, or -status and the position."""
    value: Integer = np.int64(0)
    for index in range(5):
        if position + index >= end:
            return np.int64(-_SHORT), np.int64(position)
        byte = np.int64(data[position + index])
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, np.int64(position + index + 1)
    return np.int64(-_BAD_VARINT), np.int64(position)


@borrowing
def big_endian(data: Bytes, position: Integer, width: Integer) -> Integer:
    """A signed integer of 1, 2, 4 or 8 bytes."""
    value: Integer = np.int64(np.int8(data[position]))
    for index in range(1, width):
        value = (value << 8) | np.int64(data[position + index])
    return value


@allocating
def _decode(
    data: Bytes,
    start: Int64s,
    end_of: Int64s,
    end_on_wire: Int64s,
    entry: Int64s,
    rows: Int32s,
    most_rows: Integer,
    most_elements: Integer,
    first: Integer,
    used: Integer,
    field: Int32s,
    at: Int64s,
    value: Int64s,
    parent: Int64s,
    frame_start: Int64s,
    status: Int8s,
    stopped_at: Int64s,
) -> tuple[Integer, Integer]:
    """Execute frames from `first` on. Returns the frame that did not fit (else their number), and rows used.

    end_on_wire: where frames would end if the capture had all of them; so far counts of elements are credible.
    """
    capacity = np.int64(field.shape[0])
    # What is open: an array or struct (program row of its first member, elements left, what encloses it, its row on the
    # tape), or a tag section (its TAGS row, tags left, end of what holds the section).
    resume = np.empty(_DEPTH, np.int64)
    left = np.empty(_DEPTH, np.int64)
    outer = np.empty(_DEPTH, np.int64)
    opened = np.empty(_DEPTH, np.int64)
    used = np.int64(used)
    for frame in range(first, start.shape[0]):
        frame_start[frame] = used
        position: Integer = start[frame]
        end: Integer = end_of[frame]
        beyond: Integer = max(end_on_wire[frame] - end, 0)
        pc: Integer = entry[frame]
        above: Integer = np.int64(-1)
        depth = 0
        elements_left = np.int64(most_elements)
        bad = _OK
        most = used + min(ROWS_PER_BYTE * (end - position) + ROWS_PER_FRAME, np.int64(most_rows))
        room = min(capacity, most) - 2
        if pc < 0:
            bad = _UNKNOWN
        while bad == _OK:
            operation = rows[pc, 0]
            if used > room:
                if used + 2 > most:
                    bad = _TOO_MANY
                    break
                return np.int64(frame), frame_start[frame]
            next_tag = False
            if operation <= _UUID:
                if operation == _INT32:
                    width = 4
                elif operation in (_INT16, _UINT16):
                    width = 2
                elif operation in (_INT8, _BOOL):
                    width = 1
                elif operation == _UINT32:
                    width = 4
                elif operation == _UUID:
                    width = 16
                else:
                    width = 8
                if width > end - position:
                    bad = _SHORT
                    break
                if operation == _INT32:
                    number: Integer = big_endian(data, position, 4)
                elif operation == _INT16:
                    number = big_endian(data, position, 2)
                elif operation == _UUID:
                    number = np.int64(16)
                elif width == 8:
                    number = big_endian(data, position, 8)
                elif operation == _UINT32:
                    number = big_endian(data, position, 4) & 0xFFFFFFFF
                elif operation == _UINT16:
                    number = big_endian(data, position, 2) & 0xFFFF
                elif operation == _BOOL:
                    number = np.int64(data[position] != 0)
                else:
                    number = big_endian(data, position, 1)
                field[used] = rows[pc, 1]
                at[used] = position
                value[used] = number
                parent[used] = above
                used += 1
                position += width
                pc += 1
            elif operation <= _COMPACT_ARRAY:
                if operation == _STRING:
                    if end - position < 2:
                        bad = _SHORT
                        break
                    length = big_endian(data, position, 2)
                    after = position + 2
                elif operation in (_BYTES, _ARRAY):
                    if end - position < 4:
                        bad = _SHORT
                        break
                    length = big_endian(data, position, 4)
                    after = position + 4
                else:
                    length, after = unsigned_varint(data, position, end)
                    if length < 0:
                        bad = -length
                        break
                    length -= 1
                if operation < _ARRAY:
                    if length < 0:
                        if length < -1:
                            bad = _BAD_LENGTH
                            break
                        if rows[pc, 2] == 0:
                            bad = _NULL
                            break
                    elif length > end - after:
                        bad = _SHORT
                        break
                    field[used] = rows[pc, 1]
                    at[used] = after
                    value[used] = length
                    parent[used] = above
                    used += 1
                    position = after + max(length, 0)
                    pc += 1
                else:
                    flags = np.int64(rows[pc, 3])
                    if length < 0:
                        if length < -1:
                            bad = _BAD_COUNT
                            break
                        if flags & _NULLABLE == 0:
                            bad = _NULL
                            break
                    elif length * (flags >> _LEAST_SHIFT) > end - after + (beyond if end == end_of[frame] else 0):
                        bad = _BAD_COUNT
                        break
                    position = after
                    field[used] = rows[pc, 1]
                    at[used] = position
                    value[used] = length
                    parent[used] = above
                    used += 1
                    if length <= 0:
                        pc = np.int64(rows[pc, 2])
                    else:
                        pc += 1
                        resume[depth] = pc
                        left[depth] = length
                        outer[depth] = above
                        opened[depth] = used - 1
                        depth += 1
                        above = used - 1
                        if flags & _SCALARS == 0:
                            if elements_left == 0:
                                bad = _TOO_MANY
                                break
                            elements_left -= 1
                            field[used] = field[used - 1] + 1
                            at[used] = position
                            value[used] = 0
                            parent[used] = above
                            above = used
                            used += 1
            elif operation == _END_ARRAY:
                top = depth - 1
                left[top] -= 1
                if left[top] > 0:
                    pc = resume[top]
                    array = opened[top]
                    if above != array:
                        if elements_left == 0:
                            bad = _TOO_MANY
                            break
                        elements_left -= 1
                        field[used] = field[array] + 1
                        at[used] = position
                        value[used] = value[array] - left[top]
                        parent[used] = array
                        above = used
                        used += 1
                else:
                    above = outer[top]
                    depth = top
                    pc += 1
            elif operation == _STRUCT:
                present: Any = True
                if rows[pc, 3] != _ALWAYS:
                    if rows[pc, 3] == _INT8_PRESENCE:
                        if position >= end:
                            bad = _SHORT
                            break
                        present = data[position] < 128
                        position += 1
                    else:
                        marker, after = unsigned_varint(data, position, end)
                        if marker < 0:
                            bad = -marker
                            break
                        present = marker > 0
                        position = after
                field[used] = rows[pc, 1]
                at[used] = position
                value[used] = 1 if present else -1
                parent[used] = above
                used += 1
                if present:
                    outer[depth] = above
                    depth += 1
                    above = used - 1
                    pc += 1
                else:
                    pc = np.int64(rows[pc, 2])
            elif operation == _END_STRUCT:
                depth -= 1
                above = outer[depth]
                pc += 1
            elif operation == _TAGS:
                count, after = unsigned_varint(data, position, end)
                if count < 0:
                    bad = -count
                    break
                position = after
                if count == 0:
                    pc = np.int64(rows[pc, 3])
                else:
                    resume[depth] = pc
                    left[depth] = count
                    outer[depth] = end
                    depth += 1
                    next_tag = True
            elif operation == _END_TAG:
                if position != end:
                    bad = _BAD_TAG
                    break
                end = outer[depth - 1]
                next_tag = True
            else:
                if position != end:
                    bad = _LEFT_OVER
                break
            while next_tag:
                top = depth - 1
                tags = resume[top]
                if left[top] == 0:
                    depth = top
                    pc = np.int64(rows[tags, 3])
                    break
                if used > room:  # the outer loop looks again, at an operation that it has not executed yet
                    if used + 2 > most:
                        bad = _TOO_MANY
                        break
                    return np.int64(frame), frame_start[frame]
                left[top] -= 1
                tag, after = unsigned_varint(data, position, end)
                if tag < 0:
                    bad = -tag
                    break
                size, after = unsigned_varint(data, after, end)
                if size < 0:
                    bad = -size
                    break
                if size > end - after:
                    bad = _SHORT
                    break
                position = after
                pc = np.int64(-1)
                for place in range(tags + 1, tags + 1 + rows[tags, 2]):
                    if rows[place, 2] == tag:
                        pc = np.int64(rows[place, 3])
                if pc >= 0:
                    end = position + size
                    next_tag = False
                else:
                    field[used] = _UNKNOWN_TAG
                    at[used] = position
                    value[used] = (tag << 32) | size
                    parent[used] = above
                    used += 1
                    position += size
        status[frame] = bad
        stopped_at[frame] = position
    frame_start[start.shape[0]] = used
    return np.int64(start.shape[0]), used


@allocating
def try_layouts(data: Bytes, start: Int64s, end: Int64s, entry: Int64s, rows: Int32s, status: Int8s) -> None:
    """Write the status of each frame data[start:end] if it is read by the program whose first row is its entry.

    What is read is not kept, so that many programs may be tried on one frame.
    """
    count: Integer = start.shape[0]
    capacity: Integer = np.int64(4 * ROWS_PER_FRAME)
    field = np.empty(capacity, np.int32)
    at = np.empty(capacity, np.int64)
    value = np.empty(capacity, np.int64)
    parent = np.empty(capacity, np.int64)
    frame_start = np.empty(count + 1, np.int64)
    stopped_at = np.empty(count, np.int64)
    frame: Integer = np.int64(0)
    while frame < count:
        following, _ = _decode(
            data,
            start,
            end,
            end,
            entry,
            rows,
            MOST_ROWS,
            _TRIED_ELEMENTS,
            frame,
            0,
            field,
            at,
            value,
            parent,
            frame_start,
            status,
            stopped_at,
        )
        if following == frame:
            capacity *= 2
            field = np.empty(capacity, np.int32)
            at = np.empty(capacity, np.int64)
            value = np.empty(capacity, np.int64)
            parent = np.empty(capacity, np.int64)
        frame = following


@borrowing
def text_step(data: Bytes, position: Integer, end: Integer) -> Integer:
    """Length of the UTF-8 character at position; negative for the length of bytes that make none."""
    byte = data[position]
    if byte < 0x80:
        return 1
    low, high = 0x80, 0xBF
    if 0xC2 <= byte <= 0xDF:
        length = 2
    elif 0xE0 <= byte <= 0xEF:
        length = 3
        if byte == 0xE0:
            low = 0xA0
        elif byte == 0xED:
            high = 0x9F
    elif 0xF0 <= byte <= 0xF4:
        length = 4
        if byte == 0xF0:
            low = 0x90
        elif byte == 0xF4:
            high = 0x8F
    else:
        return -1
    for index in range(1, length):
        if position + index >= end or data[position + index] < low or data[position + index] > high:
            return -index
        low, high = 0x80, 0xBF
    return length


HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_HIDDEN = np.array(HIDDEN, np.int64)


@borrowing
def hidden(data: Bytes, position: Integer, length: Integer) -> Integer:
    """The number of a UTF-8 character of several bytes if it is one that hides (see `HIDDEN`), else -1."""
    if length == 2:
        number = (np.int64(data[position] & 0x1F) << 6) | np.int64(data[position + 1] & 0x3F)
    elif length == 3:
        number = (np.int64(data[position] & 0x0F) << 12) | (np.int64(data[position + 1] & 0x3F) << 6)
        number |= np.int64(data[position + 2] & 0x3F)
    else:
        return np.int64(-1)
    for index in range(_HIDDEN.shape[0]):
        if number <= _HIDDEN[index, 1]:
            return number if number >= _HIDDEN[index, 0] else np.int64(-1)
    return np.int64(-1)


@borrowing
def write_escape(number: Integer, text: Bytes, target: Integer) -> Integer:
    """A character in JSON by its number, in six characters; returns the place behind them."""
    text[target] = 0x5C
    text[target + 1] = 0x75
    for digit in range(4):
        text[target + 2 + digit] = HEX_DIGITS[(number >> (12 - 4 * digit)) & 15]
    return target + 6


@borrowing
def integer_bytes(value: Integer) -> Integer:
    """Characters of a whole number in decimal digits, with its sign."""
    rest: Integer = np.uint64(value)
    taken = np.int64(1)
    if value < 0:
        rest = np.uint64(0) - rest
        taken = np.int64(2)
    while rest >= np.uint64(10):
        rest //= np.uint64(10)
        taken += 1
    return taken


@borrowing
def write_integer(value: Integer, text: Bytes, target: Integer) -> Integer:
    """A whole number in decimal digits; returns the place behind them."""
    end = target + integer_bytes(value)
    rest: Integer = np.uint64(value)
    if value < 0:
        text[target] = 0x2D
        target += 1
        rest = np.uint64(0) - rest
    for place in range(end - 1, target - 1, -1):
        shorter = rest // np.uint64(10)
        text[place] = np.uint8(0x30 + (rest - shorter * np.uint64(10)))
        rest = shorter
    return end


@borrowing
def write_invalid_byte(byte: Integer, text: Bytes, target: Integer) -> None:
    r"""A byte that belongs to no character as \xNN, as Python's backslashreplace writes it."""
    text[target] = 0x5C
    text[target + 1] = 0x78
    text[target + 2] = HEX_DIGITS[byte >> 4]
    text[target + 3] = HEX_DIGITS[byte & 15]


@kernel
def _look_up(values: Int64s, rows: Int64s, missing: Integer, found: Int64s) -> None:
    """The value of each row; `missing` for a row of -1."""
    for index in range(rows.shape[0]):
        found[index] = values[rows[index]] if rows[index] >= 0 else missing


@kernel
def _gather(data: Bytes, at: Int64s, length: Int64s, offset: Int64s, text: Bytes) -> None:
    """Copy values behind each other."""
    for index in range(at.shape[0]):
        source = at[index]
        target = offset[index]
        for byte in range(max(length[index], 0)):
            text[target + byte] = data[source + byte]


@kernel
def _gather_repaired(data: Bytes, at: Int64s, length: Int64s, offset: Int64s, text: Bytes) -> None:
    """Copy values behind each other, a byte that is no UTF-8 as \\xNN (4 characters for it); fills offset."""
    target: Integer = np.int64(0)
    for index in range(at.shape[0]):
        offset[index] = target
        position = at[index]
        end = position + max(length[index], 0)
        while position < end:
            step = text_step(data, position, end)
            if step < 0:
                for byte in range(-step):
                    write_invalid_byte(data[position + byte], text, target)
                    target += 4
                position -= step
            else:
                for byte in range(step):
                    text[target + byte] = data[position + byte]
                target += step
                position += step
    offset[at.shape[0]] = target


URL_SAFE_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)


@borrowing
def write_uuid(data: Bytes, at: Integer, text: Bytes, target: Integer) -> None:
    """16 bytes as Kafka prints a UUID: 22 digits of URL-safe base64 (org.apache.kafka.common.Uuid)."""
    for group in range(6):
        position = at + 3 * group
        bits = np.int64(data[position]) << 16
        if group < 5:
            bits |= (np.int64(data[position + 1]) << 8) | np.int64(data[position + 2])
        for digit in range(4 if group < 5 else 2):
            text[target + 4 * group + digit] = URL_SAFE_DIGITS[(bits >> (18 - 6 * digit)) & 63]


@kernel
def _gather_uuids(data: Bytes, at: Int64s, offset: Int64s, text: Bytes) -> None:
    for index in range(at.shape[0]):
        if offset[index + 1] > offset[index]:
            write_uuid(data, at[index], text, offset[index])


def string_array(offset: Int64s, text: Bytes, null: Bools | None = None) -> pa.Array:
    """Arrow strings from valid UTF-8: `string`, or `large_string` where 2 GiB do not do."""
    count = len(offset) - 1
    validity = None
    missing = 0
    if null is not None:
        missing = int(np.count_nonzero(null))
        if missing:
            validity = pa.py_buffer(np.packbits(~null, bitorder="little"))
    if offset[-1] <= np.iinfo(np.int32).max:
        return pa.StringArray.from_buffers(
            count, pa.py_buffer(offset.astype(np.int32)), pa.py_buffer(text[: offset[-1]]), validity, missing
        )
    return pa.LargeStringArray.from_buffers(
        count, pa.py_buffer(offset), pa.py_buffer(text[: offset[-1]]), validity, missing
    )


_LAYOUT_BYTES = 1 << 20


@dataclass(frozen=True)
class Tape:
    """Values of a batch of bodies; every column but those by frame has an entry for each row.

    Frame f has the rows frame_start[f] to frame_start[f + 1], each enclosing row before those that it encloses. What
    value means depends on the field's type: the number of an integer (a bool is 0 or 1, a float64 its bits), the length
    of a string, bytes or records (-1: null), the count of an array (-1: null), the index of an array's struct, 1 for a
    struct and -1 for one that is null, 16 for a uuid. Tagged fields that are not on the wire have no row.
    """

    data: Bytes
    programs: Programs
    field: Int32s
    at: Int64s  # where the bytes of the value begin in data (behind a length)
    value: Int64s
    parent: Int64s  # row of the enclosing element, struct, or (for elements) array; -1 at the top
    frame_start: Int64s  # [n + 1]
    status: Int8s  # [n] see Status
    stopped_at: Int64s  # [n] in data: the end of a whole frame, else where the damage was met
    program: Int32s  # [n] as executed: where a version has two layouts, the one that fits

    def __len__(self) -> int:
        return len(self.status)

    @property
    def whole(self) -> Bools:
        """Frames of which every field was read, bool[n]."""
        return cast(Bools, (self.status == _OK) | (self.status == _LEFT_OVER))

    def rows_in(self, frame: int) -> int:
        """How many rows a frame has."""
        return int(self.frame_start[frame + 1] - self.frame_start[frame])

    def frame_of(self, rows: Int64s) -> Int64s:
        """Frame of each row, i64[len(rows)]."""
        return np.searchsorted(self.frame_start, rows, side="right") - 1

    def top(self, frames: Int64s, field_ids: int | npt.ArrayLike) -> Int64s:
        """Of each frame the row of its top level field that is one of the fields; -1 if it has none."""
        rows = self._top_rows[np.isin(self.field[self._top_rows], field_ids)]
        last = np.full(len(self), -1, np.int64)
        last[self.frame_of(rows)] = rows
        return last[frames]

    @functools.cached_property
    def _top_rows(self) -> Int64s:
        return np.flatnonzero(self.parent < 0)

    def numbers(self, rows: Int64s, missing: int) -> Int64s:
        """Value of each row, i64; `missing` for a row of -1."""
        found = np.empty(len(rows), np.int64)
        _look_up(self.value, np.ascontiguousarray(rows), missing, found)
        return found

    def strings(self, rows: Int64s) -> pa.Array:
        r"""Values of string fields; null for a null string or a row of -1. A byte that is no UTF-8 becomes \xNN."""
        length = self.numbers(rows, -1)
        at = self.places(rows)
        offset = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.maximum(length, 0), out=offset[1:])
        text = np.empty(offset[-1], np.uint8)
        _gather(self.data, at, length, offset, text)
        found = string_array(offset, text, length < 0)
        try:
            found.validate(full=True)
        except pa.ArrowInvalid:
            text = np.empty(4 * len(text), np.uint8)
            _gather_repaired(self.data, at, length, offset, text)
            found = string_array(offset, text, length < 0)
        return found

    def uuids(self, rows: Int64s) -> pa.Array:
        """Values of uuid fields as Kafka prints them; null for a row of -1."""
        null = rows < 0
        offset = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.where(null, 0, 22), out=offset[1:])
        text = np.empty(offset[-1], np.uint8)
        _gather_uuids(self.data, self.places(rows), offset, text)
        return string_array(offset, text, null)

    def first(self, frames: int) -> Tape:
        """The tape of so many of its frames, from the first on; itself if it has no more."""
        if frames == len(self):
            return self
        rows = int(self.frame_start[frames])
        by_row = {name: getattr(self, name)[:rows] for name in ("field", "at", "value", "parent")}
        by_frame = {name: getattr(self, name)[:frames] for name in ("status", "stopped_at", "program")}
        return replace(self, frame_start=self.frame_start[: frames + 1], **by_row, **by_frame)

    def places(self, rows: Int64s) -> Int64s:
        """Where the bytes of each row begin in data, i64; -1 for a row of -1."""
        found = np.empty(len(rows), np.int64)
        _look_up(self.at, np.ascontiguousarray(rows), -1, found)
        return found


def decode_bodies(
    data: npt.NDArray[np.uint8] | bytes | memoryview,
    start: npt.ArrayLike,
    end: npt.ArrayLike,
    program: npt.ArrayLike,
    using: Programs | None = None,
    *,
    most_rows: int = MOST_ROWS,
    most_elements: int = DEFAULT.elements,
    rows_at_once: int | None = None,
    end_on_wire: npt.ArrayLike | None = None,
) -> Tape:
    """Decode the bodies data[start:end], each by its program (see `Programs.program_of`; -1: status UNKNOWN).

    Of bodies that are cut, end_on_wire is where they would end: by that the number of elements in an array is judged,
    and those that are there are read.
    A frame makes at most most_rows rows, most_elements of them structs in arrays (else status TOO_MANY). With
    rows_at_once the tape has as many frames, from the first on, as make so many rows together, but at least one; the
    caller goes on behind them.

    Raises ValueError if a frame does not lie within data. Anything wrong with the bytes is a status.
    """
    using = programs() if using is None else using
    buffer = np.frombuffer(data, np.uint8) if not isinstance(data, np.ndarray) else np.ascontiguousarray(data)
    starts = np.ascontiguousarray(start, np.int64)
    ends = np.ascontiguousarray(end, np.int64)
    chosen = np.array(program, np.int32)
    if not len(starts) == len(ends) == len(chosen):
        raise ValueError(f"{len(starts)} starts, {len(ends)} ends and {len(chosen)} programs")
    if np.any(starts < 0) or np.any(ends < starts) or np.any(ends > len(buffer)):
        raise ValueError(f"a frame does not lie within the {len(buffer)} bytes of data")
    if np.any(chosen >= len(using.entry)):
        raise ValueError(f"a program is not one of {len(using.entry)}")
    chosen, ambiguous = _choose_layouts(buffer, starts, ends, chosen, using, most_rows, most_elements)
    on_wire = ends if end_on_wire is None else np.ascontiguousarray(end_on_wire, np.int64)
    tape = _execute(buffer, starts, ends, on_wire, chosen, using, most_rows, most_elements, rows_at_once)
    tape.status[ambiguous[ambiguous < len(tape)]] = _AMBIGUOUS
    return tape


def _choose_layouts(
    data: Bytes,
    start: Int64s,
    end: Int64s,
    program: Int32s,
    using: Programs,
    most_rows: int,
    most_elements: int,
) -> tuple[Int32s, Int64s]:
    """For frames of a version with several layouts, the program of the one that takes the bytes to the last.

    Returns the programs (where none fits, those given), and the frames where layouts fit that read different things.
    There are few such frames, so that they are decoded apart and the tape need not be changed afterwards.
    """
    chosen = program.copy()
    with_several = np.flatnonzero((program >= 0) & (using.alternative[program] >= 0))
    ambiguous: set[int] = set()
    # Tapes of all layouts are held side by side, so few frames are looked at together.
    size = np.cumsum(end[with_several] - start[with_several])
    for frames in np.split(with_several, np.flatnonzero(np.diff(size // _LAYOUT_BYTES)) + 1):
        fitting: dict[int, Tape] = {}
        fitting_at: dict[int, int] = {}
        candidate = program[frames]
        while len(frames):
            ends = end[frames]
            tape = _execute(data, start[frames], ends, ends, candidate, using, most_rows, most_elements)
            for index in np.flatnonzero(tape.status == _OK).tolist():
                frame = int(frames[index])
                if frame not in fitting:
                    fitting[frame], fitting_at[frame] = tape, index
                    chosen[frame] = candidate[index]
                elif not _same_rows(fitting[frame], fitting_at[frame], tape, index):
                    ambiguous.add(frame)
            candidate = using.alternative[candidate]
            frames, candidate = frames[candidate >= 0], candidate[candidate >= 0]
    return chosen, np.array(sorted(ambiguous), np.int64)


def _same_rows(one: Tape, frame: int, other: Tape, other_frame: int) -> bool:
    rows = slice(one.frame_start[frame], one.frame_start[frame + 1])
    other_rows = slice(other.frame_start[other_frame], other.frame_start[other_frame + 1])
    return all(
        np.array_equal(column[rows], other_column[other_rows])
        for column, other_column in ((one.field, other.field), (one.at, other.at), (one.value, other.value))
    )


def _execute(
    data: Bytes,
    start: Int64s,
    end: Int64s,
    end_on_wire: Int64s,
    program: Int32s,
    using: Programs,
    most_rows: int,
    most_elements: int,
    rows_at_once: int | None = None,
) -> Tape:
    entry = np.where(program >= 0, using.entry[program], -1)
    # Too low a guess costs a copy; too high a one costs fresh memory from the system for each batch, which is dearer.
    capacity = int((end - start).sum()) // 32 + 24 * len(start) + 4 * ROWS_PER_FRAME
    if rows_at_once is not None:
        capacity = min(capacity, rows_at_once)
    field = np.empty(capacity, np.int32)
    at, value, parent = (np.empty(capacity, np.int64) for _ in range(3))
    frame_start = np.zeros(len(start) + 1, np.int64)
    status = np.zeros(len(start), np.int8)
    stopped_at = np.zeros(len(start), np.int64)
    frame, used = 0, 0
    while True:
        frame, used = _decode(
            data,
            start,
            end,
            end_on_wire,
            entry,
            using.rows,
            most_rows,
            most_elements,
            frame,
            used,
            field,
            at,
            value,
            parent,
            frame_start,
            status,
            stopped_at,
        )
        if frame == len(start) or (frame and rows_at_once is not None and capacity >= rows_at_once):
            break
        capacity *= 2
        if rows_at_once is not None:
            capacity = min(capacity, rows_at_once if frame else most_rows)
        field = grown(field, used, capacity)
        at, value, parent = (grown(column, used, capacity) for column in (at, value, parent))
    by_row = (field[:used], at[:used], value[:used], parent[:used])
    tape = Tape(data, using, *by_row, frame_start[: frame + 1], status[:frame], stopped_at[:frame], program[:frame])
    if rows_at_once is None or used <= rows_at_once:
        return tape
    return tape.first(max(1, int(np.searchsorted(tape.frame_start, rows_at_once, side="right")) - 1))


Column = TypeVar("Column", Bytes, Int32s, Int64s)


def grown(column: Column, used: int, capacity: int) -> Column:
    """A column of another capacity with the same first `used` entries."""
    larger = np.empty(capacity, column.dtype)
    larger[:used] = column[:used]
    return cast(Column, larger)
