"""Texts side by side: what is put together out of many columns is written by kernels, once and into one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from kafkascope.decoders.kernels import borrowing, copy_bytes, kernel
from kafkascope.decoders.tape import HEX_DIGITS, Integer, hidden, integer_bytes, text_step, write_escape, write_integer
from kafkascope.reports.columns.arrow import one_array
from kafkascope.sniffer.columns import I8, I64, U8, Bool
from kafkascope.sniffer.units import SECOND_NS

_NOTHING, _NULL = (np.frombuffer(text, np.uint8) for text in (b"", b"null"))

_TIME_BYTES = len('"2026-11-21T07:02:00.123456789Z"')
_SECOND_BYTES = len('"2026-11-21T07:02:00.')
_DAY_S = 86_400

# How a string is written: null, digits, text as it is, ASCII with quotes and backslashes to be escaped, or any text.
_ABSENT, _HEX, _PLAIN, _QUOTED, _ESCAPED = 0, 1, 2, 3, 4

_ARROW = pa.Array | pa.ChunkedArray


class Column(Protocol):
    """A text for each row, behind a lead that is the same in all rows."""

    def __len__(self) -> int:
        """Rows."""

    def measure(self, lead: U8, sizes: I64) -> None:
        """Add to sizes the bytes that each row takes."""

    def write(self, lead: U8, places: I64, out: U8) -> None:
        """Write each row at its place, which is behind it then."""


class Texts:
    """Texts that lie in a buffer; ``null`` where there is none."""

    def __init__(self, data: U8, begin: I64, end: I64) -> None:
        """begin: -1 where there is none."""
        self._data = data
        self._begin = begin
        self._end = end

    @classmethod
    def of(cls, column: Any) -> Texts:
        """Those of an Arrow column."""
        offsets, data, there = _places(column, pa.large_string())
        return cls(data, np.where(there, offsets[:-1], np.int64(-1)), offsets[1:].copy())

    @classmethod
    def coded(cls, codes: I64, distinct: Sequence[str]) -> Texts:
        """Some of the distinct texts, by their places; -1: none."""
        offsets, data, _ = _places(pa.array(distinct, pa.large_string()), pa.large_string())
        begin, end = (np.append(edges, np.int64(-1)) for edges in (offsets[:-1], offsets[1:]))
        return cls(data, begin[codes], end[codes])

    def __len__(self) -> int:
        """Rows."""
        return len(self._begin)

    def measure(self, lead: U8, sizes: I64) -> None:
        """See `Column`."""
        _measure_texts(len(lead), self._begin, self._end, sizes)

    def write(self, lead: U8, places: I64, out: U8) -> None:
        """See `Column`."""
        _write_texts(lead, self._data, self._begin, self._end, places, out)


class Times:
    """``"2026-11-21T07:02:00.123456789Z"``, in UTC; ``null`` for null."""

    def __init__(self, column: Any) -> None:
        """column: an Arrow column of times in nanoseconds."""
        self._there, self._at = _whole_numbers(column)

    def __len__(self) -> int:
        """Rows."""
        return len(self._at)

    def measure(self, lead: U8, sizes: I64) -> None:
        """See `Column`."""
        sizes += np.where(self._there, np.int64(_TIME_BYTES), len(_NULL)) + len(lead)

    def write(self, lead: U8, places: I64, out: U8) -> None:
        """See `Column`."""
        _write_times(lead, self._at, self._there, places, out)


class Numbers:
    """Whole numbers in decimal digits; ``null`` for null."""

    def __init__(self, column: Any) -> None:
        """column: an Arrow column of integers."""
        self._there, self._numbers = _whole_numbers(column)

    def __len__(self) -> int:
        """Rows."""
        return len(self._numbers)

    def measure(self, lead: U8, sizes: I64) -> None:
        """See `Column`."""
        _measure_numbers(len(lead), self._numbers, self._there, sizes)

    def write(self, lead: U8, places: I64, out: U8) -> None:
        """See `Column`."""
        _write_numbers(lead, self._numbers, self._there, places, out)


class Strings:
    """``"text"``, as JSON; ``null`` for null.

    Members of an object have a name: ``"name":"text"``, ``"name":null``, and ``"name_hex":"00ff"`` where the bytes are
    no UTF-8. Characters that hide are written by their number, as `decoders.characters.safe_json` does.
    """

    def __init__(self, values: Any, name: str | None = None) -> None:
        """values: an Arrow column of text, or of bytes if they are members of this name."""
        label, in_hex = ("", "") if name is None else (f'"{name}":', f'"{name}_hex":')
        self._begun = [_constant(text) for text in (f"{label}null", f'{label}"', f'{in_hex}"')]
        self._offsets, self._data, there = _places(values, pa.large_binary())
        self._how = np.where(there, np.int8(_PLAIN), np.int8(_ABSENT))

    def __len__(self) -> int:
        """Rows."""
        return len(self._how)

    def measure(self, lead: U8, sizes: I64) -> None:
        """See `Column`."""
        null, text, in_hex = (len(lead) + len(begun) for begun in self._begun)
        _measure_strings(null, text, in_hex, self._data, self._offsets, self._how, sizes)

    def write(self, lead: U8, places: I64, out: U8) -> None:
        """See `Column`."""
        null, text, in_hex = (np.append(lead, begun) for begun in self._begun)
        _write_strings(null, text, in_hex, self._data, self._offsets, self._how, places, out)


class Runs:
    """So many rows of other columns, one after the other, in each row: written at once to where they are in the end."""

    def __init__(self, counts: I64, separator: str, *parts: Part) -> None:
        """counts: how many are in each row. separator: what stands between two of a row. parts: see `woven`."""
        self._edges = np.concatenate(([0], np.cumsum(counts)))
        between = np.ones(int(self._edges[-1]), np.int64)
        between[self._edges[:-1][counts > 0]] = 0
        self._strands = _Strands(Texts.coded(between, ["", separator]), *parts)

    def __len__(self) -> int:
        """Rows."""
        return len(self._edges) - 1

    def measure(self, lead: U8, sizes: I64) -> None:
        """See `Column`."""
        self._offsets = np.concatenate(([0], np.cumsum(self._strands.sizes())))
        sizes += np.diff(self._offsets[self._edges]) + len(lead)

    def write(self, lead: U8, places: I64, out: U8) -> None:
        """See `Column`."""
        nothing = np.zeros(len(places), np.int64)
        _write_texts(lead, _NOTHING, nothing, nothing, places, out)
        begin = self._offsets[self._edges]
        self._strands.write(self._offsets[:-1] + np.repeat(places - begin[:-1], np.diff(self._edges)), out)
        places += np.diff(begin)


Part: TypeAlias = str | pa.Array | pa.ChunkedArray | Column
"""A constant, an Arrow column of texts, or another column."""


class _Strands:
    """Columns that lie side by side, with what is before each of them in all rows."""

    def __init__(self, *parts: Part) -> None:
        self._columns: list[tuple[U8, Column]] = []
        lead = ""
        for part in parts:
            if isinstance(part, str):
                lead += part
                continue
            self._columns.append((_constant(lead), Texts.of(part) if isinstance(part, _ARROW) else part))
            lead = ""
        self.rows = len(self._columns[0][1])
        if lead:
            self._columns.append((_constant(lead), Texts.coded(np.zeros(self.rows, np.int64), [""])))

    def sizes(self) -> I64:
        """Bytes of each row."""
        sizes = np.zeros(self.rows, np.int64)
        for lead, column in self._columns:
            column.measure(lead, sizes)
        return sizes

    def write(self, places: I64, out: U8) -> None:
        """Write each row at its place, which is behind it then; sizes were asked for before."""
        for lead, column in self._columns:
            column.write(lead, places, out)


def woven(*parts: Part) -> pa.LargeStringArray:
    """Columns, of which there is one at least, and constants side by side; an Arrow column is one of texts."""
    strands = _Strands(*parts)
    offsets = np.concatenate(([0], np.cumsum(strands.sizes())))
    out = np.empty(int(offsets[-1]), np.uint8)
    strands.write(offsets[:-1].copy(), out)
    return pa.LargeStringArray.from_buffers(strands.rows, pa.py_buffer(offsets), pa.py_buffer(out))


def _constant(text: str) -> U8:
    return np.frombuffer(text.encode(), np.uint8)


def _places(column: Any, kind: pa.DataType) -> tuple[I64, U8, Bool]:
    """Of a column of this kind, or what can be cast to it: where in the bytes each value lies, these, and which are."""
    column = one_array(column).cast(kind)
    there = _validity(column)
    if not len(column):
        return np.zeros(1, np.int64), _NOTHING, there
    _, offsets, data = column.buffers()
    content = _NOTHING if data is None else np.frombuffer(data, np.uint8)
    content.flags.writeable = False  # so that kernels meet one type alone
    return np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8), content, there


def _whole_numbers(column: Any) -> tuple[Bool, I64]:
    """Of a column of integers or times: which are there, and all of them, 0 for null."""
    column = one_array(column)
    return _validity(column), np.array(column.cast(pa.int64()).fill_null(0))


def _validity(column: pa.Array) -> Bool:
    return np.asarray(column.is_valid()) if column.null_count else np.ones(len(column), np.bool_)


@kernel
def _measure_texts(lead: int, begin: I64, end: I64, sizes: I64) -> None:
    for row in range(sizes.shape[0]):
        sizes[row] += lead + (end[row] - begin[row] if begin[row] >= 0 else _NULL.shape[0])


@borrowing
def _write_whole(text: U8, out: U8, to: Integer) -> Integer:
    """A text; returns the place behind it."""
    copy_bytes(text, 0, text.shape[0], out, to)
    return to + text.shape[0]


@kernel
def _write_texts(lead: U8, data: U8, begin: I64, end: I64, places: I64, out: U8) -> None:
    for row in range(places.shape[0]):
        to = _write_whole(lead, out, places[row])
        if begin[row] < 0:
            places[row] = _write_whole(_NULL, out, to)
            continue
        length = end[row] - begin[row]
        copy_bytes(data, begin[row], length, out, to)
        places[row] = to + length


@kernel
def _write_times(lead: U8, at: I64, there: Bool, places: I64, out: U8) -> None:
    known = np.int64(0)  # a second, and where it is written
    written = np.int64(-1)
    for row in range(places.shape[0]):
        to = _write_whole(lead, out, places[row])
        if not there[row]:
            places[row] = _write_whole(_NULL, out, to)
            continue
        seconds = at[row] // SECOND_NS
        if written < 0 or seconds != known:
            _write_second(seconds, out, to)
            known = seconds
        else:
            copy_bytes(out, written, _SECOND_BYTES, out, to)
        written = to
        _write_digits(at[row] - seconds * SECOND_NS, 9, out, to + _SECOND_BYTES)
        out[to + _TIME_BYTES - 2] = 0x5A
        out[to + _TIME_BYTES - 1] = 0x22
        places[row] = to + _TIME_BYTES


@borrowing
def _write_second(seconds: Integer, out: U8, to: Integer) -> None:
    """All but the fraction."""
    day = seconds // _DAY_S
    second = seconds - day * _DAY_S
    # The civil date by eras of 400 years, which begin in March (Howard Hinnant, "chrono-compatible low-level date
    # algorithms").
    era = (day + 719_468) // 146_097
    of_era = day + 719_468 - era * 146_097
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * of_year + 2) // 153
    date = of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    out[to] = 0x22
    _write_digits(year_of_era + 400 * era + (month <= 2), 4, out, to + 1)
    _write_digits(month, 2, out, to + 6)
    _write_digits(date, 2, out, to + 9)
    _write_digits(second // 3600, 2, out, to + 12)
    _write_digits(second // 60 % 60, 2, out, to + 15)
    _write_digits(second % 60, 2, out, to + 18)
    out[to + 5] = out[to + 8] = 0x2D
    out[to + 11] = 0x54
    out[to + 14] = out[to + 17] = 0x3A
    out[to + 20] = 0x2E


@borrowing
def _write_digits(number: Integer, count: Integer, out: U8, to: Integer) -> None:
    left = np.uint64(number)  # unsigned: dividing takes no branch
    ten = np.uint64(10)
    for place in range(to + count - 1, to - 1, -1):
        tens = left // ten
        out[place] = 0x30 + (left - tens * ten)
        left = tens


@kernel
def _measure_numbers(lead: int, numbers: I64, there: Bool, sizes: I64) -> None:
    for row in range(sizes.shape[0]):
        sizes[row] += lead + (integer_bytes(numbers[row]) if there[row] else _NULL.shape[0])


@kernel
def _write_numbers(lead: U8, numbers: I64, there: Bool, places: I64, out: U8) -> None:
    for row in range(places.shape[0]):
        to = _write_whole(lead, out, places[row])
        places[row] = write_integer(numbers[row], out, to) if there[row] else _write_whole(_NULL, out, to)


@kernel
def _measure_strings(null: int, text: int, in_hex: int, data: U8, offsets: I64, how: I8, sizes: I64) -> None:
    """The bytes that each string takes behind what is begun with, and how it is to be written: see `_ABSENT`."""
    for row in range(sizes.shape[0]):
        if how[row] == _ABSENT:
            sizes[row] += null
            continue
        begin = offsets[row]
        end = offsets[row + 1]
        size = _quoted_size(data, begin, end)
        if size >= 0:
            how[row] = _PLAIN if size == end - begin else _QUOTED
        else:
            size = _escaped_size(data, begin, end)
            how[row] = _ESCAPED if size >= 0 else _HEX
        sizes[row] += 1 + (text + size if size >= 0 else in_hex + 2 * (end - begin))


@borrowing
def _quoted_size(data: U8, begin: Integer, end: Integer) -> Integer:
    """Bytes of ASCII with a backslash before each quote and backslash; -1 if anything else is in it."""
    taken = data[begin:end]
    others = np.int64(0)
    quotes = np.int64(0)
    for i in range(taken.shape[0]):  # without a branch, so that many bytes are looked at at once
        byte = taken[i]
        others += (byte < 0x20) | (byte >= 0x7F)
        quotes += (byte == 0x22) | (byte == 0x5C)
    return end - begin + quotes if others == 0 else np.int64(-1)


@borrowing
def _escaped_size(data: U8, at: Integer, end: Integer) -> Integer:
    """Bytes of the text with its escapes; -1: it is no text."""
    size = np.int64(0)
    while at < end:
        byte = data[at]
        if byte >= 0x80:
            length = text_step(data, at, end)
            if length < 0:
                return np.int64(-1)
            size += 6 if hidden(data, at, length) >= 0 else length
            at += length
            continue
        if byte < 0x20 or byte == 0x7F:
            size += 6
        elif byte == 0x22 or byte == 0x5C:
            size += 2
        else:
            size += 1
        at += 1
    return size


@kernel
def _write_strings(null: U8, text: U8, in_hex: U8, data: U8, offsets: I64, how: I8, places: I64, out: U8) -> None:
    for row in range(places.shape[0]):
        if how[row] == _ABSENT:
            places[row] = _write_whole(null, out, places[row])
            continue
        to = _write_whole(in_hex if how[row] == _HEX else text, out, places[row])
        at = offsets[row]
        end = offsets[row + 1]
        if how[row] == _PLAIN:
            copy_bytes(data, at, end - at, out, to)
            to += end - at
        elif how[row] == _HEX:
            for i in range(at, end):
                out[to] = HEX_DIGITS[data[i] >> 4]
                out[to + 1] = HEX_DIGITS[data[i] & 15]
                to += 2
        elif how[row] == _QUOTED:
            to = _write_quoted(data, at, end, out, to)
        else:
            to = _write_escaped(data, at, end, out, to)
        out[to] = 0x22
        places[row] = to + 1


@borrowing
def _write_quoted(data: U8, begin: Integer, end: Integer, out: U8, place: Integer) -> Integer:
    """ASCII with its escapes; returns the place behind it."""
    taken = data[begin:end]
    to: Integer = np.uint64(place)  # unsigned: of a signed one it is asked at each byte whether it counts from the end
    for i in range(taken.shape[0]):  # a backslash before each byte, which stays where there has to be one
        byte = taken[i]
        out[to] = 0x5C
        to += np.uint64((byte == 0x22) | (byte == 0x5C))
        out[to] = byte
        to += np.uint64(1)
    return np.int64(to)


@borrowing
def _write_escaped(data: U8, at: Integer, end: Integer, out: U8, to: Integer) -> Integer:
    """The text with its escapes; returns the place behind it."""
    while at < end:
        byte = data[at]
        if byte >= 0x80:
            length = text_step(data, at, end)
            number = hidden(data, at, length)
            if number >= 0:
                to = write_escape(number, out, to)
                at += length
            else:
                for _ in range(length):
                    out[to] = data[at]
                    to += 1
                    at += 1
            continue
        if byte < 0x20 or byte == 0x7F:
            to = write_escape(byte, out, to)
        elif byte == 0x22 or byte == 0x5C:
            out[to] = 0x5C
            out[to + 1] = byte
            to += 2
        else:
            out[to] = byte
            to += 1
        at += 1
    return to
