"""Record batches by the thousand: many ``records`` fields at once into columns, by compiled kernels.

The same readings as decoders/records.py, without a Python object for each record: the analyzers' path. A field is a
range of bytes in a buffer that holds many. The kernels walk headers, records and record headers; only CRCs of large
batches and decompression are library calls, one a batch.

    fields = scan(data, start, end)
    batches = read_batches(fields)                      # everything about batches, no record kept
    for chunk in read_records(fields): ...              # batches and their records, so many bytes at a time

Damage is a status of its batch (STATUSES) and takes nothing from the records before it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from itertools import chain
from typing import Any, TypeAlias

import crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kafkascope.decoders.compression import (
    OUTPUT_LIMIT,
    CompressionError,
    Payloads,
    decompress_all,
    output_limits,
)
from kafkascope.decoders.kernels import allocating, borrowing, copy_bytes, kernel
from kafkascope.decoders.records import (
    BEFORE_LENGTH_BYTES,
    CODEC_BITS,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LEAST_BYTES,
    LOG_APPEND_TIME_BIT,
    MOST_RECORDS,
    TRANSACTIONAL_BIT,
    UP_TO_MAGIC_BYTES,
    most_records,
)

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Integer: TypeAlias = Any  # in kernels: an int64, whose promotions numba and mypy see differently

CHUNK_BYTES = 32 << 20
"""Bytes in the clear whose records read_records gives at a time; a single batch may exceed it, up to the limit."""

RECORDS_AT_ONCE = 1 << 15
"""Records, and headers, that read_records gives at a time: as columns they are many times the bytes of small ones."""

TIMESTAMP_TYPES = ("none", "create_time", "log_append_time")

STATUSES = (
    "ok",
    "unknown_codec",
    "not_decompressed",  # the compressed bytes are damaged or cut
    "too_large",  # in the clear (see output_limit), or by the number of records, of which the first are there
    "damaged_record",  # the records before it are there
    "record_count",  # the header gives another number of records than there are
    "bytes_left_over",  # behind as many records as the header gives
)
OK, UNKNOWN_CODEC, NOT_DECOMPRESSED, TOO_LARGE, DAMAGED_RECORD, RECORD_COUNT, BYTES_LEFT_OVER = range(len(STATUSES))

# Rows of the matrix the kernels write batches into, a column for each batch.
(
    _FIELD,
    _START,
    _END,
    _MAGIC,
    _CODEC,
    _BASE_OFFSET,
    _LAST_OFFSET,
    _RECORDS,
    _HEADERS,
    _BYTES_UNCOMPRESSED,
    _FIRST_TIMESTAMP,
    _MAX_TIMESTAMP,
    _TIMESTAMP_TYPE,
    _PRODUCER_ID,
    _PRODUCER_EPOCH,
    _BASE_SEQUENCE,
    _TRANSACTIONAL,
    _CONTROL,
    _LEADER_EPOCH,
    _DELETE_HORIZON,
    _CRC,
    _CRC_OK,
    _PAYLOAD_START,
    _PAYLOAD_END,
    _CLEAR_START,
    _CLEAR_END,
    _STATUS,
    _OFFSETS_FROM,  # of messages in a wrapper: what is added to their offsets
    _OFFSETS_COUNTED,  # ... 1: which count from 0
) = range(29)
_BATCH_ROWS = 29
_BATCH, _OFFSET, _TIMESTAMP, _KEY_START, _KEY_LENGTH, _VALUE_START, _VALUE_LENGTH, _FIRST_HEADER = range(8)
_RECORD_ROWS = 8
_HEADER_ROWS = 4  # key start, key length, value start, value length

_MAGIC_0_LEAST, _MAGIC_1_LEAST, _MAGIC_2_LEAST = LEAST_BYTES
_CRC_AT = 21  # magic 2: the first byte its CRC covers
_CRC_OF_MESSAGE_AT = 16  # magic 0 and 1

# Below this many bytes the compiled CRC is done before a call into a library has begun.
_LIBRARY_CRC_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Fields:
    """``records`` fields whose batch headers have been read; made by scan."""

    data: Bytes
    trailing_bytes: Integers  # of each field: a last batch that is cut off, no damage
    unread_bytes: Integers  # of each field: from a header on that cannot be one, so that no batch is found behind it
    _batches: Integers

    def __len__(self) -> int:
        return int(self._batches.shape[1])


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """A row for each batch, or message of magic 0 or 1 (a compressed wrapper is one), in the order of the bytes.

    Times are milliseconds since 1970. What a magic does not have is -1. first_timestamp is -1 for magic 0 and 1, and
    the delete horizon where there is one, as on the wire. records counts what was read, which is not what the header
    says if status is record_count. start and end are places in the data that was scanned.
    """

    field: Integers
    start: Integers
    end: Integers
    magic: NDArray[np.int8]
    codec: NDArray[np.int8]  # index of compression.CODECS
    base_offset: Integers
    last_offset: Integers
    records: Integers
    bytes_uncompressed: Integers  # header and records; the bytes as they are where they could not be decompressed
    first_timestamp: Integers
    max_timestamp: Integers
    timestamp_type: NDArray[np.int8]  # index of TIMESTAMP_TYPES
    producer_id: Integers
    producer_epoch: NDArray[np.int16]
    base_sequence: NDArray[np.int32]
    transactional: Flags
    control: Flags
    leader_epoch: NDArray[np.int32]
    delete_horizon: Integers
    crc: NDArray[np.uint32]
    crc_ok: Flags
    status: NDArray[np.int8]  # index of STATUSES

    def __len__(self) -> int:
        return len(self.field)

    @property
    def bytes(self) -> Integers:
        """Size of each batch as it travels, header included."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """A row for each record. Starts are places in data; a length of -1 is null.

    batch is the row of BatchColumns the record came with. The headers of record i are the rows header_offsets[i] up to
    header_offsets[i + 1] of the header columns. Timestamps are milliseconds, log append time applied.
    """

    data: Bytes
    batch: Integers
    offset: Integers
    timestamp: Integers
    key_start: Integers
    key_length: Integers
    value_start: Integers
    value_length: Integers
    control: Flags  # the record is one of a control batch, not an application's
    header_offsets: Integers  # one more than there are records
    header_key_start: Integers
    header_key_length: Integers
    header_value_start: Integers
    header_value_length: Integers

    def __len__(self) -> int:
        return len(self.batch)

    def keys(self) -> pa.Array | pa.ChunkedArray:
        """The keys as an Arrow binary column."""
        return binary_array(self.data, self.key_start, self.key_length)

    def values(self) -> pa.Array | pa.ChunkedArray:
        """The values as an Arrow binary column."""
        return binary_array(self.data, self.value_start, self.value_length)

    def headers(self) -> pa.Array:
        """The headers as an Arrow column, list<struct<key: string, value: binary>>."""
        return headers_array(self)


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Some batches and their records; of very many records, the first."""

    batches: BatchColumns
    records: RecordColumns
    is_continued: bool = False  # the batches are those of the chunk before, the records those behind its own


def scan(data: Bytes, start: Integers, end: Integers) -> Fields:
    """Find the batches of many ``records`` fields, read their headers and check their CRCs.

    Field i is data[start[i]:end[i]]. Raises ValueError if such a range is none of data. Bytes that are damaged raise
    nothing: see Fields and STATUSES.
    """
    data = _as_bytes(data)
    start = np.ascontiguousarray(start, np.int64)
    end = np.ascontiguousarray(end, np.int64)
    if len(start) != len(end) or np.any(start < 0) or np.any(end < start) or np.any(end > len(data)):
        raise ValueError(f"start and end must be ranges of the {len(data)} bytes of data")
    places = np.zeros((2, len(start)), np.int64)
    count = _scan(False, data, start, end, places, np.empty((_BATCH_ROWS, 0), np.int64))
    batches = np.empty((_BATCH_ROWS, count), np.int64)
    _scan(True, data, start, end, places, batches)
    _check_small_crcs(data, batches, _CRC_TABLES)
    view = data.data
    large = np.flatnonzero(batches[_CRC_OK] < 0)
    rows = batches[:, large]
    for row, magic, first, last, crc in zip(
        large.tolist(), *(rows[i].tolist() for i in (_MAGIC, _START, _END, _CRC)), strict=True
    ):
        if magic == 2:
            batches[_CRC_OK, row] = crc32c.crc32c(view[first + _CRC_AT : last]) == crc
        else:
            batches[_CRC_OK, row] = zlib.crc32(view[first + _CRC_OF_MESSAGE_AT : last]) == crc
    return Fields(data, places[0], places[1], batches)


def read_batches(fields: Fields, *, limit: int = OUTPUT_LIMIT, chunk_bytes: int = CHUNK_BYTES) -> BatchColumns:
    """Everything about the batches; their payloads are decompressed and walked, in chunks, but no record is kept."""
    parts = []
    for batches, data in _clear_chunks(fields, limit, chunk_bytes):
        _walk(data, batches)
        parts.append(batches)
    return _batch_columns(np.concatenate(parts, axis=1) if parts else fields._batches)


def read_records(
    fields: Fields,
    *,
    limit: int = OUTPUT_LIMIT,
    chunk_bytes: int = CHUNK_BYTES,
    records_at_once: int = RECORDS_AT_ONCE,
) -> Iterator[RecordChunk]:
    """Batches with their records, in order, a chunk of at most chunk_bytes in the clear (or a single batch) at a time.

    A chunk has at most records_at_once records, and as many headers (or a single record's); where the batches have
    more, further chunks with the same batches follow. limit: bytes that one batch may hold in the clear; see also
    compression.output_limit. How the batches are cut into chunks changes nothing but the chunks.
    """
    for chunk in _clear_chunks(fields, limit, chunk_bytes):
        yield from _record_chunks(*chunk, records_at_once)
        del chunk  # so that there is never more than one


def binary_array(data: Bytes, start: Integers, length: Integers) -> pa.Array | pa.ChunkedArray:
    """Gather ranges of bytes into an Arrow binary column, null where the length is below 0.

    An Array, or, where all together exceed the 2 GiB that one can hold, a ChunkedArray. Raises ValueError if a range is
    none of data.
    """
    data = _as_bytes(data)
    start = np.ascontiguousarray(start, np.int64)
    length = np.ascontiguousarray(length, np.int64)
    offsets = np.zeros(len(start) + 1, np.int64)
    np.cumsum(np.maximum(length, 0), out=offsets[1:])
    if offsets[-1] <= _ARROW_BINARY_BYTES:
        return _binary_array(data, start, length, offsets)
    chunks = []
    first = 0
    while first < len(start):
        last = int(np.searchsorted(offsets, offsets[first] + _ARROW_BINARY_BYTES, side="right")) - 1
        if last == first:
            raise ValueError(f"one value of {length[first]} bytes is more than an Arrow column holds")
        part = offsets[first : last + 1] - offsets[first]
        chunks.append(_binary_array(data, start[first:last], length[first:last], part))
        first = last
    return pa.chunked_array(chunks, pa.binary())


def headers_array(records: RecordColumns) -> pa.Array:
    r"""The headers of all records as list<struct<key: string, value: binary>>; what is no UTF-8 shows as \xNN."""
    names = binary_array(records.data, records.header_key_start, records.header_key_length)
    try:
        keys = names.cast(pa.string())
    except pa.ArrowInvalid:
        keys = pa.array([name.decode(errors="backslashreplace") for name in names.to_pylist()], pa.string())
    values = binary_array(records.data, records.header_value_start, records.header_value_length)
    pairs = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    return pa.ListArray.from_arrays(pa.array(records.header_offsets.astype(np.int32)), pairs)


_ARROW_BINARY_BYTES = 2**31 - 1


def _binary_array(data: Bytes, start: Integers, length: Integers, offsets: Integers) -> pa.Array:
    buffer = pa.allocate_buffer(int(offsets[-1]))  # Arrow's pool keeps its pages; fresh ones cost more than the copy
    out = np.frombuffer(buffer, np.uint8)
    wrong = _gather(data, start, length, offsets, out)
    if wrong >= 0:
        raise ValueError(f"range {wrong} of {length[wrong]} bytes at {start[wrong]} is none of the {len(data)} of data")
    known = length >= 0
    validity = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), buffer]
    return pa.Array.from_buffers(pa.binary(), len(start), buffers)


def _as_bytes(data: Bytes) -> Bytes:
    """A read-only contiguous view: the kernels are compiled for that type, whatever the caller's array is."""
    view = np.ascontiguousarray(data, np.uint8).view()
    view.flags.writeable = False
    return view


_NARROW = {
    "magic": np.int8,
    "codec": np.int8,
    "timestamp_type": np.int8,
    "producer_epoch": np.int16,
    "base_sequence": np.int32,
    "transactional": np.bool_,
    "control": np.bool_,
    "leader_epoch": np.int32,
    "crc": np.uint32,
    "crc_ok": np.bool_,
    "status": np.int8,
}
_COLUMN_ROWS = {
    field.name: globals()[f"_{field.name.upper()}"]  # _FIELD, _START, ...
    for field in dataclass_fields(BatchColumns)
}


def _batch_columns(batches: Integers) -> BatchColumns:
    columns: dict[str, Any] = {
        name: batches[row].astype(_NARROW[name]) if name in _NARROW else batches[row]
        for name, row in _COLUMN_ROWS.items()
    }
    return BatchColumns(**columns)


def _record_chunks(batches: Integers, data: Bytes, at_once: int) -> Iterator[RecordChunk]:
    """Complete batches in the clear by what their payloads say, and give their records."""
    left, headers_left = map(int, _walk(data, batches))
    columns = _batch_columns(batches)
    place = np.zeros(3, np.int64)
    is_continued, header_room = False, at_once
    while left or not is_continued:
        records = np.empty((_RECORD_ROWS, min(left, at_once)), np.int64)
        headers = np.empty((_HEADER_ROWS, min(headers_left, header_room)), np.int64)
        taken, headers_taken = map(int, _take(data, batches, place, records, headers))
        if left and not taken:  # a record with very many headers
            header_room *= 2
            continue
        left, headers_left = left - taken, headers_left - headers_taken
        records, headers = records[:, :taken], headers[:, :headers_taken]
        yield RecordChunk(
            columns,
            RecordColumns(
                data,
                batch=records[_BATCH],
                offset=records[_OFFSET],
                timestamp=records[_TIMESTAMP],
                key_start=records[_KEY_START],
                key_length=records[_KEY_LENGTH],
                value_start=records[_VALUE_START],
                value_length=records[_VALUE_LENGTH],
                control=columns.control[records[_BATCH]],
                header_offsets=np.append(records[_FIRST_HEADER], headers_taken),
                header_key_start=headers[0],
                header_key_length=headers[1],
                header_value_start=headers[2],
                header_value_length=headers[3],
            ),
            is_continued,
        )
        is_continued, header_room = True, at_once


def _clear_chunks(fields: Fields, limit: int, chunk_bytes: int) -> Iterator[tuple[Integers, Bytes]]:
    """Cut the batches into chunks, and put the payloads of each in the clear.

    Payloads of a chunk without compression stay where they are, else all of them go into one new buffer.
    """
    all_batches = fields._batches
    count = all_batches.shape[1]
    sizes = all_batches[_PAYLOAD_END] - all_batches[_PAYLOAD_START]
    is_packed = (all_batches[_CODEC] != 0) & (sizes > 0) & (all_batches[_STATUS] == OK)
    packed = np.flatnonzero(is_packed)
    stored_before = np.append(0, np.cumsum(np.where(is_packed, 0, sizes)))
    statuses = all_batches[_STATUS].copy()
    # Of the chunk in the making: its first batch, bytes that are stored before that, what was packed and how long it
    # is in the clear, and the batch behind that.
    first, stored_first, clear_bytes, behind = 0, 0, 0, 0
    pieces: list[bytes] = []

    def chunk(last: int) -> tuple[Integers, Bytes]:
        batches = all_batches[:, first:last].copy()
        batches[_STATUS] = statuses[first:last]
        return batches, _laid_out(fields.data, batches, np.flatnonzero(is_packed[first:last]), pieces)

    ends = np.append(packed, count)
    in_the_clear = chain(_pieces(fields, packed, limit, statuses), [b""])
    for row, stored, piece in zip(ends.tolist(), stored_before[ends].tolist(), in_the_clear, strict=True):
        size = len(piece)
        while clear_bytes + stored - stored_first + size > chunk_bytes and first < row:
            room = stored_first + max(chunk_bytes - clear_bytes, 0)
            fitting = int(np.searchsorted(stored_before, room, side="right")) - 1
            last = min(max(fitting, behind, first + 1), row)
            yield chunk(last)
            first, stored_first, clear_bytes, pieces = last, int(stored_before[last]), 0, []
        if row < count:
            pieces.append(piece)
            clear_bytes += size
            behind = row + 1
    if first < count:
        yield chunk(count)


def _pieces(fields: Fields, packed: Integers, limit: int, statuses: Integers) -> Iterator[bytes]:
    """The payloads of compressed batches in the clear; nothing of those that cannot be, whose status is set."""
    rows = np.ascontiguousarray(fields._batches[[_PAYLOAD_START, _PAYLOAD_END, _CODEC, _MAGIC]][:, packed])
    start, end, codec, magic = rows
    payloads = Payloads(start, end, codec, magic, output_limits(end - start, limit))
    for row, piece in enumerate(decompress_all(fields.data, payloads)):
        if isinstance(piece, CompressionError):
            statuses[packed[row]] = TOO_LARGE if piece.too_large else NOT_DECOMPRESSED
            yield b""
        else:
            yield piece


def _laid_out(data: Bytes, batches: Integers, packed: Integers, pieces: list[bytes]) -> Bytes:
    """The buffer with all payloads of a chunk in the clear; tells the batches where in it theirs are.

    The pieces, taken out of the list, are what the packed ones are in the clear.
    """
    batches[_CLEAR_START] = batches[_PAYLOAD_START]
    batches[_CLEAR_END] = batches[_PAYLOAD_END]
    if not len(packed):
        return data
    sizes = batches[_PAYLOAD_END] - batches[_PAYLOAD_START]
    clear_sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
    read = batches[_STATUS, packed] == OK
    batches[_BYTES_UNCOMPRESSED, packed[read]] += (clear_sizes - sizes[packed])[read]
    if len(sizes) == 1:
        batches[_CLEAR_START] = 0
        batches[_CLEAR_END] = clear_sizes
        return _as_bytes(np.frombuffer(pieces.pop(), np.uint8))
    stored = sizes.copy()
    stored[packed] = 0
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(stored, out=offsets[1:])
    behind = np.empty(int(offsets[-1]), np.uint8)
    _gather(data, batches[_PAYLOAD_START].copy(), stored, offsets, behind)
    clear = b"".join((*pieces, behind.data))
    pieces.clear()  # nothing that the chunk does not need is kept while the caller works on it
    batches[_CLEAR_START] = offsets[:-1] + (len(clear) - len(behind))
    batches[_CLEAR_START, packed] = np.cumsum(clear_sizes) - clear_sizes
    sizes[packed] = clear_sizes
    batches[_CLEAR_END] = batches[_CLEAR_START] + sizes
    return _as_bytes(np.frombuffer(clear, np.uint8))


_most_records = borrowing(most_records)


# ---- kernels; all of them check a length against what is left before they read


@borrowing
def _int16(data: Bytes, at: Integer) -> Integer:
    return np.int64(np.int16((np.uint16(data[at]) << np.uint16(8)) | np.uint16(data[at + 1])))


@borrowing
def _int32(data: Bytes, at: Integer) -> Integer:
    value = np.uint32(0)
    for i in range(4):
        value = np.uint32(value << np.uint32(8)) | np.uint32(data[at + i])
    return np.int64(np.int32(value))


@borrowing
def _int64(data: Bytes, at: Integer) -> Integer:
    value = np.uint64(0)
    for i in range(8):
        value = (value << np.uint64(8)) | np.uint64(data[at + i])
    return np.int64(value)


@borrowing
def _varint(data: Bytes, at: Integer, end: Integer, bits: Integer) -> tuple[Integer, Integer]:
    """A zigzag varint and the place behind it, which is -1 if it is too long or ends beyond the end."""
    if at < end and data[at] < 128:
        short = np.int64(data[at])
        return (short >> 1) ^ -(short & 1), at + 1
    value = np.uint64(0)
    for shift in range(0, bits, 7):
        if at >= end:
            return np.int64(0), np.int64(-1)
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & np.uint64(127)) << np.uint64(shift)
        if byte < np.uint64(128):
            if bits == 32:
                value &= np.uint64(0xFFFFFFFF)
            half = np.int64(value >> np.uint64(1))
            return half ^ -np.int64(value & np.uint64(1)), at
    return np.int64(0), np.int64(-1)


@borrowing
def _message(data: Bytes, at: Integer, stop: Integer, parts: Integers) -> Integer:
    """Read a message of magic 0 or 1 into parts; the place behind it, or -1.

    parts: offset, attributes, timestamp, key start, key length, value start, value length.
    """
    if stop - at < UP_TO_MAGIC_BYTES + 1:
        return np.int64(-1)
    size = BEFORE_LENGTH_BYTES + _int32(data, at + 8)
    magic = data[at + 16]
    if magic > 1 or size > stop - at or size < (_MAGIC_1_LEAST if magic == 1 else _MAGIC_0_LEAST):
        return np.int64(-1)
    end = at + size
    parts[0] = _int64(data, at)
    parts[1] = np.int64(data[at + 17])
    parts[2] = np.int64(-1)
    at += UP_TO_MAGIC_BYTES + 1
    if magic == 1:
        parts[2] = _int64(data, at)
        at += 8
    for part in range(3, 7, 2):
        if end - at < 4:
            return np.int64(-1)
        length = _int32(data, at)
        at += 4
        if length > end - at:
            return np.int64(-1)
        parts[part] = at
        parts[part + 1] = max(length, np.int64(-1))
        at += max(length, np.int64(0))
    return end if at == end else np.int64(-1)


@allocating
def _scan(fill: bool, data: Bytes, start: Integers, end: Integers, places: Integers, batches: Integers) -> Integer:
    """Count the batches; with fill write their headers into batches, and into places what each field has left over."""
    row = np.int64(0)
    parts = np.zeros(7, np.int64)
    for field in range(len(start)):
        at = start[field]
        stop = end[field]
        unread = False
        while stop - at >= UP_TO_MAGIC_BYTES:
            size = BEFORE_LENGTH_BYTES + _int32(data, at + 8)
            magic = np.int64(data[at + 16])
            least = _MAGIC_2_LEAST if magic == 2 else _MAGIC_1_LEAST if magic == 1 else _MAGIC_0_LEAST
            if magic > 2 or size < least:
                unread = True
                break
            if size > stop - at:
                break
            if fill:
                batches[_FIELD, row] = field
                batches[_START, row] = at
                batches[_END, row] = at + size
                batches[_MAGIC, row] = magic
                batches[_BASE_OFFSET, row] = _int64(data, at)
                batches[_BYTES_UNCOMPRESSED, row] = size
                batches[_CRC_OK, row] = -1
                batches[_HEADERS, row] = 0
                batches[_PAYLOAD_END, row] = at + size
                status = np.int64(OK)
                if magic == 2:
                    attributes = _int16(data, at + 21)
                    codec = attributes & CODEC_BITS
                    first_timestamp = _int64(data, at + 27)
                    batches[_LAST_OFFSET, row] = batches[_BASE_OFFSET, row] + _int32(data, at + 23)
                    batches[_FIRST_TIMESTAMP, row] = first_timestamp
                    batches[_MAX_TIMESTAMP, row] = _int64(data, at + 35)
                    batches[_TIMESTAMP_TYPE, row] = 2 if attributes & LOG_APPEND_TIME_BIT else 1
                    batches[_PRODUCER_ID, row] = _int64(data, at + 43)
                    batches[_PRODUCER_EPOCH, row] = _int16(data, at + 51)
                    batches[_BASE_SEQUENCE, row] = _int32(data, at + 53)
                    batches[_TRANSACTIONAL, row] = 1 if attributes & TRANSACTIONAL_BIT else 0
                    batches[_CONTROL, row] = 1 if attributes & CONTROL_BIT else 0
                    batches[_LEADER_EPOCH, row] = _int32(data, at + 12)
                    batches[_DELETE_HORIZON, row] = first_timestamp if attributes & DELETE_HORIZON_BIT else -1
                    batches[_CRC, row] = _int32(data, at + 17) & 0xFFFFFFFF
                    batches[_RECORDS, row] = _int32(data, at + 57)
                    batches[_PAYLOAD_START, row] = at + _MAGIC_2_LEAST
                else:
                    attributes = np.int64(data[at + 17])
                    codec = attributes & CODEC_BITS
                    batches[_LAST_OFFSET, row] = batches[_BASE_OFFSET, row]
                    batches[_FIRST_TIMESTAMP, row] = -1
                    batches[_MAX_TIMESTAMP, row] = _int64(data, at + 18) if magic == 1 else -1
                    batches[_TIMESTAMP_TYPE, row] = 0 if magic == 0 else 2 if attributes & LOG_APPEND_TIME_BIT else 1
                    batches[_PRODUCER_ID, row] = -1
                    batches[_PRODUCER_EPOCH, row] = -1
                    batches[_BASE_SEQUENCE, row] = -1
                    batches[_TRANSACTIONAL, row] = 0
                    batches[_CONTROL, row] = 0
                    batches[_LEADER_EPOCH, row] = -1
                    batches[_DELETE_HORIZON, row] = -1
                    batches[_CRC, row] = _int32(data, at + 12) & 0xFFFFFFFF
                    batches[_RECORDS, row] = 1
                    batches[_PAYLOAD_START, row] = at
                    if codec != 0:
                        if _message(data, at, at + size, parts) >= 0 and parts[6] > 0:
                            batches[_PAYLOAD_START, row] = parts[5]
                        else:  # there is nothing that could be decompressed
                            batches[_PAYLOAD_START, row] = at + size
                            status = np.int64(DAMAGED_RECORD)
                batches[_CODEC, row] = codec
                if codec > 4 and status == OK and batches[_PAYLOAD_START, row] < at + size:
                    status = np.int64(UNKNOWN_CODEC)
                batches[_STATUS, row] = status
            row += 1
            at += size
        places[0, field] = 0 if unread else stop - at
        places[1, field] = stop - at if unread else 0
    return row


@kernel
def _check_small_crcs(data: Bytes, batches: Integers, tables: NDArray[np.uint32]) -> None:
    """Set whether the CRC is right, of batches that are small; eight bytes a step ("slicing by 8")."""
    mask = np.uint32(255)
    for row in range(batches.shape[1]):
        at = batches[_START, row]
        end = batches[_END, row]
        if batches[_MAGIC, row] == 2:
            at += _CRC_AT
            table = tables[0]
        else:
            at += _CRC_OF_MESSAGE_AT
            table = tables[1]
        if end - at > _LIBRARY_CRC_BYTES:
            continue
        crc = np.uint32(0xFFFFFFFF)
        while end - at >= 8:
            crc ^= (
                np.uint32(data[at])
                | (np.uint32(data[at + 1]) << np.uint32(8))
                | (np.uint32(data[at + 2]) << np.uint32(16))
                | (np.uint32(data[at + 3]) << np.uint32(24))
            )
            crc = (
                table[7, crc & mask]
                ^ table[6, (crc >> np.uint32(8)) & mask]
                ^ table[5, (crc >> np.uint32(16)) & mask]
                ^ table[4, crc >> np.uint32(24)]
                ^ table[3, data[at + 4]]
                ^ table[2, data[at + 5]]
                ^ table[1, data[at + 6]]
                ^ table[0, data[at + 7]]
            )
            at += 8
        while at < end:
            crc = table[0, (crc ^ np.uint32(data[at])) & mask] ^ (crc >> np.uint32(8))
            at += 1
        batches[_CRC_OK, row] = 1 if np.int64(crc ^ np.uint32(0xFFFFFFFF)) == batches[_CRC, row] else 0


@allocating
def _walk(data: Bytes, batches: Integers) -> tuple[Integer, Integer]:
    """Count the records and headers of batches in the clear.

    Completes the batches: number of records that are whole, status, base offset of a wrapper, offsets in it.
    """
    total = np.int64(0)
    header_total = np.int64(0)
    parts = np.zeros(7, np.int64)
    for row in range(batches.shape[1]):
        status = batches[_STATUS, row]
        if status != OK:
            batches[_RECORDS, row] = 0
            continue
        said = batches[_RECORDS, row]
        at = batches[_CLEAR_START, row]
        end = batches[_CLEAR_END, row]
        count = np.int64(0)
        damaged = False
        if batches[_MAGIC, row] == 2:
            most = _most_records(batches[_CODEC, row], batches[_PAYLOAD_END, row] - batches[_PAYLOAD_START, row])
            headers_left = np.int64(MOST_RECORDS)
            too_many = False
            while at < end:
                if count == most:
                    too_many = True
                    break
                damaged = True  # until the record is read to its end
                length, at = _varint(data, at, end, 32)
                if at < 0 or length <= 0 or length > end - at:
                    break
                stop = at + length
                _, at = _varint(data, at + 1, stop, 64)
                if at < 0:
                    break
                _, at = _varint(data, at, stop, 32)
                if at < 0:
                    break
                key_length, at = _varint(data, at, stop, 32)
                if at < 0 or key_length > stop - at:
                    break
                at += max(key_length, np.int64(0))
                value_length, at = _varint(data, at, stop, 32)
                if at < 0 or value_length > stop - at:
                    break
                at += max(value_length, np.int64(0))
                header_count, at = _varint(data, at, stop, 32)
                if at < 0 or header_count < 0 or header_count > (stop - at) >> 1:
                    break
                headers_left -= header_count
                if headers_left < 0:
                    too_many = True
                    break
                for _ in range(header_count):
                    name_length, at = _varint(data, at, stop, 32)
                    if at < 0 or name_length < 0 or name_length > stop - at:
                        at = np.int64(-1)
                        break
                    at += name_length
                    content_length, at = _varint(data, at, stop, 32)
                    if at < 0 or content_length > stop - at:
                        at = np.int64(-1)
                        break
                    at += max(content_length, np.int64(0))
                if at != stop:
                    break
                damaged = False
                header_total += header_count
                count += 1
            if too_many:
                status = np.int64(TOO_LARGE)
            elif damaged:
                status = np.int64(BYTES_LEFT_OVER) if count >= said and said >= 0 else np.int64(DAMAGED_RECORD)
            elif count != said:
                status = np.int64(RECORD_COUNT)
        else:
            packed = batches[_CODEC, row] != 0
            outer = batches[_LAST_OFFSET, row]
            first_offset = np.int64(0)
            last_offset = np.int64(0)
            all_zero = True
            while at < end:
                at = _message(data, at, end, parts)
                if at < 0 or (packed and parts[1] & CODEC_BITS != 0):
                    damaged = True
                    break
                if count == 0:
                    first_offset = parts[0]
                last_offset = parts[0]
                all_zero = all_zero and parts[0] == 0
                count += 1
            counted = packed and all_zero and count > 1
            base = np.int64(0)
            if counted:
                base = max(outer - (count - 1), np.int64(0))
            elif packed and batches[_MAGIC, row] == 1 and outer != 0:
                base = max(outer - last_offset, np.int64(0))
            if packed and count > 0:
                batches[_BASE_OFFSET, row] = base + first_offset
            batches[_OFFSETS_FROM, row] = base
            batches[_OFFSETS_COUNTED, row] = 1 if counted else 0
            if damaged:
                status = np.int64(DAMAGED_RECORD)
        total += count
        batches[_RECORDS, row] = count
        batches[_STATUS, row] = status
    return total, header_total


@allocating
def _take(
    data: Bytes, batches: Integers, place: Integers, records: Integers, headers: Integers
) -> tuple[Integer, Integer]:
    """Read records that `_walk` has counted, and so found whole: as many as there is room for, with their headers.

    place: the batch, the record's number in it, and where it begins; it is moved behind what was read. Returns how many
    records and headers these are.
    """
    total = np.int64(0)
    header_total = np.int64(0)
    parts = np.zeros(7, np.int64)
    row, number, at = place[0], place[1], place[2]
    while row < batches.shape[1]:
        count = batches[_RECORDS, row]
        if number == 0:
            at = batches[_CLEAR_START, row]
        end = batches[_CLEAR_END, row]
        magic = batches[_MAGIC, row]
        packed = batches[_CODEC, row] != 0
        log_append_time = batches[_TIMESTAMP_TYPE, row] == 2
        max_timestamp = batches[_MAX_TIMESTAMP, row]
        base_timestamp = batches[_FIRST_TIMESTAMP, row]
        base_offset = batches[_BASE_OFFSET, row]
        while number < count and total < records.shape[1]:
            if magic == 2:
                length, behind = _varint(data, at, end, 32)
                stop = behind + length
                timestamp, behind = _varint(data, behind + 1, stop, 64)
                offset, behind = _varint(data, behind, stop, 32)
                key_length, behind = _varint(data, behind, stop, 32)
                key_start = behind
                value_length, behind = _varint(data, behind + max(key_length, np.int64(0)), stop, 32)
                value_start = behind
                header_count, behind = _varint(data, behind + max(value_length, np.int64(0)), stop, 32)
                if header_count > headers.shape[1] - header_total:
                    break
                records[_OFFSET, total] = base_offset + offset
                records[_TIMESTAMP, total] = max_timestamp if log_append_time else base_timestamp + timestamp
                records[_KEY_START, total] = key_start
                records[_KEY_LENGTH, total] = max(key_length, np.int64(-1))
                records[_VALUE_START, total] = value_start
                records[_VALUE_LENGTH, total] = max(value_length, np.int64(-1))
                records[_FIRST_HEADER, total] = header_total
                for _ in range(header_count):
                    name_length, behind = _varint(data, behind, stop, 32)
                    headers[0, header_total] = behind
                    headers[1, header_total] = name_length
                    content_length, behind = _varint(data, behind + name_length, stop, 32)
                    headers[2, header_total] = behind
                    headers[3, header_total] = max(content_length, np.int64(-1))
                    behind += max(content_length, np.int64(0))
                    header_total += 1
                at = stop
            else:
                at = _message(data, at, end, parts)
                counted = batches[_OFFSETS_COUNTED, row] != 0
                records[_OFFSET, total] = batches[_OFFSETS_FROM, row] + (number if counted else parts[0])
                records[_TIMESTAMP, total] = max_timestamp if packed and log_append_time else parts[2]
                records[_KEY_START, total] = parts[3]
                records[_KEY_LENGTH, total] = parts[4]
                records[_VALUE_START, total] = parts[5]
                records[_VALUE_LENGTH, total] = parts[6]
                records[_FIRST_HEADER, total] = header_total
            records[_BATCH, total] = row
            total += 1
            number += 1
        if number < count:
            break
        row += 1
        number = np.int64(0)
    place[0], place[1], place[2] = row, number, at
    return total, header_total


@kernel
def _gather(data: Bytes, start: Integers, length: Integers, offsets: Integers, out: Bytes) -> Integer:
    """Copy range i of data to out[offsets[i]]; the number of a range that is none of data, else -1."""
    for i in range(len(start)):
        size = length[i]
        if size <= 0:
            continue
        at = start[i]
        if at < 0 or size > len(data) - at:
            return np.int64(i)
        copy_bytes(data, at, size, out, offsets[i])
    return np.int64(-1)


def _crc_tables() -> NDArray[np.uint32]:
    """Tables by polynomial (CRC-32C, CRC-32; reflected), distance and byte."""
    tables = np.empty((2, 8, 256), np.uint32)
    for table, polynomial in zip(tables, (0x82F63B78, 0xEDB88320), strict=True):
        value = np.arange(256, dtype=np.uint32)
        for _ in range(8):
            value = np.where(value & 1, value >> 1 ^ np.uint32(polynomial), value >> 1).astype(np.uint32)
        table[0] = value
        for distance in range(1, 8):
            table[distance] = table[0][table[distance - 1] & 255] ^ table[distance - 1] >> 8
    return tables


_CRC_TABLES = _crc_tables()
