"""Record batches and message sets: the plain reference reader.

The bytes of a ``records`` field are batches one behind the other (KIP-98 for magic 2; KIP-31, KIP-32 and the protocol
guide's "Old Message Format" for magic 0 and 1). A broker cuts the last one off where a fetch had no more room; a
client leaves that part alone. Analyzers read by the compiled kernels of decoders/record_columns.py, which are held
equal to this.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import crc32c

from kafkascope.decoders.compression import CODECS, OUTPUT_LIMIT, CompressionError, decompress, output_limit
from kafkascope.decoders.interpreter import DecodeError

UP_TO_MAGIC_BYTES = 17  # base offset, length, 4 bytes that differ by magic, magic: what it takes to know a batch
BEFORE_LENGTH_BYTES = 12  # base offset and length itself
LEAST_BYTES = (14 + 12, 22 + 12, 61)  # of a batch, by magic

MOST_RECORDS = 4 << 20
"""Records, and headers, that are read from one batch: a hostile one can hold a record in every 7 bytes."""
_FREE_RECORDS = 1 << 16
_RECORDS_PER_BYTE = 16  # compressed; those that brokers let through count their offsets up: zstd gets 2.4 in a byte


def most_records(codec: int, payload_bytes: int) -> int:
    """Records that are read from a batch of magic 2 whose payload is so many bytes on the wire."""
    return min(MOST_RECORDS, _FREE_RECORDS + _RECORDS_PER_BYTE * payload_bytes) if codec else MOST_RECORDS


CODEC_BITS = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
"""By the second int16 of a control record's key (org.apache.kafka.common.record.ControlRecordType)."""

_BATCH = struct.Struct(">qiibIhiqqqhii")  # magic 2, up to the number of records
_MESSAGE = struct.Struct(">qiIbb")  # magic 0 and 1, up to the attributes

Record = dict[str, Any]
Batch = dict[str, Any]


def magic_and_size(data: bytes, at: int) -> tuple[int, int]:
    """Magic of the batch or message at an offset, and how many bytes it claims; `UP_TO_MAGIC_BYTES` are there."""
    length = int.from_bytes(data[at + 8 : at + BEFORE_LENGTH_BYTES], "big", signed=True)
    return int.from_bytes(data[at + 16 : at + UP_TO_MAGIC_BYTES], "big", signed=True), BEFORE_LENGTH_BYTES + length


class _DamageError(Exception):
    """What is wrong with a batch, before it is known which batch of the field it is."""

    def __init__(self, path: str, offset: int, expected: str) -> None:
        super().__init__(path, offset, expected)
        self.path = path
        self.offset = offset
        self.expected = expected


def decode_records(data: bytes, *, limit: int = OUTPUT_LIMIT) -> list[Batch]:
    """Return the batches of a ``records`` field, in order; a message of magic 0 or 1 outside a wrapper is a batch.

    Names of a batch: base_offset, last_offset, magic, compression, first_timestamp, max_timestamp, timestamp_type,
    producer_id, producer_epoch, base_sequence, is_transactional, is_control, partition_leader_epoch, crc,
    delete_horizon_ms, size_in_bytes, records; and crc_ok, False, only where the CRC is wrong. Times are
    milliseconds; what a magic does not have is -1 (first timestamp and delete horizon: None). first_timestamp is
    the field on the wire, which is the delete horizon where there is one. Names of a record: offset, timestamp,
    key, value, headers (a list of [key, value]); of a control record control_type as well. Keys and values are
    bytes or None.

    A batch that is cut off at the end is left out: it is what the ``size_in_bytes`` of all batches leave of the data.
    A wrong CRC is no error. limit: bytes that one batch may hold in the clear.

    Raises DecodeError for the first damage. Its partial is the list of all batches, each with the records before its
    own damage. Offsets count from data's first byte, or, inside a compressed batch, as the message says.
    """
    data = bytes(data)
    batches: list[Batch] = []
    damage: list[DecodeError] = []
    position = 0
    while len(data) - position >= UP_TO_MAGIC_BYTES:
        magic, size = magic_and_size(data, position)
        path = f"batches[{len(batches)}]"
        if not 0 <= magic < len(LEAST_BYTES):
            damage.append(DecodeError(f"{path}.magic", position + 16, f"magic 0, 1 or 2, not {magic}", batches))
            break
        if size < LEAST_BYTES[magic]:
            expected = f"a batch of at least {LEAST_BYTES[magic]} bytes, not {size}"
            damage.append(DecodeError(path, position + 8, expected, batches))
            break
        if size > len(data) - position:
            break
        try:
            (_read_batch if magic == 2 else _read_message)(data, position, position + size, limit, batches)
        except _DamageError as error:
            where = f"{path}.{error.path}" if error.path else path
            damage.append(DecodeError(where, error.offset, error.expected, batches))
        position += size
    if damage:
        raise damage[0]
    return batches


def control_type(key: bytes | None) -> str:
    """The kind of a control record by its key (int16 version, int16 type); UNKNOWN, as in Kafka, if none has it."""
    kind = -1 if key is None or len(key) < 4 else int.from_bytes(key[2:4], "big", signed=True)
    return CONTROL_TYPES[kind] if 0 <= kind < len(CONTROL_TYPES) else "UNKNOWN"


def _read_batch(data: bytes, start: int, end: int, limit: int, batches: list[Batch]) -> None:
    """Append a batch of magic 2; raise _DamageError after that if something is wrong with it."""
    (
        base_offset,
        _,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = _BATCH.unpack_from(data, start)
    records: list[Record] = []
    log_append_time = bool(attributes & LOG_APPEND_TIME_BIT)
    control = bool(attributes & CONTROL_BIT)
    codec = attributes & CODEC_BITS
    batches.append(
        {
            "base_offset": base_offset,
            "last_offset": _int64(base_offset + last_offset_delta),
            "magic": magic,
            "compression": CODECS[codec],
            "first_timestamp": base_timestamp,
            "max_timestamp": max_timestamp,
            "timestamp_type": "LOG_APPEND_TIME" if log_append_time else "CREATE_TIME",
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "base_sequence": base_sequence,
            "is_transactional": bool(attributes & TRANSACTIONAL_BIT),
            "is_control": control,
            "partition_leader_epoch": leader_epoch,
            "crc": crc,
            "delete_horizon_ms": base_timestamp if attributes & DELETE_HORIZON_BIT else None,
            "size_in_bytes": end - start,
            "records": records,
        }
    )
    if crc32c.crc32c(memoryview(data)[start + 21 : end]) != crc:
        batches[-1]["crc_ok"] = False
    payload, origin, place = data[start + LEAST_BYTES[2] : end], start + LEAST_BYTES[2], ""
    most = most_records(codec, len(payload))
    if codec and payload:
        payload, origin, place = _clear(codec, payload, limit, magic, origin), 0, " of the uncompressed records"
    reader = _Varints(payload)
    while reader.position < len(payload):
        first = reader.position
        if len(records) == most:
            raise _DamageError("records", origin + first, f"at most {most} records{place}")
        try:
            record = reader.record(base_offset, base_timestamp)
        except _DamageError as error:
            if len(records) >= count >= 0 and reader.headers_left >= 0:
                raise _DamageError("", origin + first, f"no bytes{place} behind the last record") from None
            raise _DamageError(
                f"records[{len(records)}].{error.path}".rstrip("."), origin + error.offset, error.expected + place
            ) from None
        if log_append_time:
            record["timestamp"] = max_timestamp
        if control:
            record["control_type"] = control_type(record["key"])
        records.append(record)
    if len(records) != count:
        raise _DamageError("records", start + 57, f"{count} records as the header says, not {len(records)}")


def _read_message(data: bytes, start: int, end: int, limit: int, batches: list[Batch]) -> None:
    """Append a message of magic 0 or 1, or a wrapper with what is in it; raise _DamageError after that if need be."""
    offset, _, crc, magic, attributes = _MESSAGE.unpack_from(data, start)
    log_append_time = magic == 1 and bool(attributes & LOG_APPEND_TIME_BIT)
    timestamp = int.from_bytes(data[start + 18 : start + 26], "big", signed=True) if magic == 1 else -1
    codec = attributes & CODEC_BITS
    records: list[Record] = []
    kind = "NO_TIMESTAMP_TYPE" if magic == 0 else "LOG_APPEND_TIME" if log_append_time else "CREATE_TIME"
    batch = {
        "base_offset": offset,
        "last_offset": offset,
        "magic": magic,
        "compression": CODECS[codec],
        "first_timestamp": None,
        "max_timestamp": timestamp,
        "timestamp_type": kind,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "is_transactional": False,
        "is_control": False,
        "partition_leader_epoch": -1,
        "crc": crc,
        "delete_horizon_ms": None,
        "size_in_bytes": end - start,
        "records": records,
    }
    if zlib.crc32(memoryview(data)[start + 16 : end]) != crc:
        batch["crc_ok"] = False
    batches.append(batch)
    outer, _ = _message(data, start)
    if not codec:
        records.append(outer)
        return
    if not outer["value"]:
        raise _DamageError("value", start, "a compressed message set, not an empty or null value")
    inner = _clear(codec, outer["value"], limit, magic, end - len(outer["value"]))
    position = 0
    damage = None
    while position < len(inner) and damage is None:
        try:
            record, position = _message(inner, position, nested=True)
        except _DamageError as error:
            path = f"records[{len(records)}].{error.path}".rstrip(".")
            damage = _DamageError(path, error.offset, f"{error.expected} of the uncompressed messages")
        else:
            if log_append_time:
                record["timestamp"] = timestamp
            records.append(record)
    if records:
        _make_offsets_absolute(records, offset, magic)
        batch["base_offset"] = records[0]["offset"]
    if damage is not None:
        raise damage


def _make_offsets_absolute(records: list[Record], outer: int, magic: int) -> None:
    """Turn the offsets inside a wrapper into those of the partition.

    Magic 0 has them as they are, magic 1 relative to the first one, and the wrapper's is that of the last one
    (KIP-31). librdkafka leaves the wrapper's 0 in magic 1 (then they are taken as they are), or all of the inner ones
    0 (then they are counted).
    """
    if len(records) > 1 and not any(record["offset"] for record in records):
        for number, record in enumerate(records):
            record["offset"] = number
        base = max(_int64(outer - records[-1]["offset"]), 0)
    elif magic == 1 and outer != 0:
        base = max(_int64(outer - records[-1]["offset"]), 0)
    else:
        base = 0
    for record in records:
        record["offset"] = _int64(base + record["offset"])


def _message(data: bytes, start: int, *, nested: bool = False) -> tuple[Record, int]:
    """One message of magic 0 or 1 and the position behind it."""
    left = len(data) - start
    if left < UP_TO_MAGIC_BYTES + 1:
        raise _DamageError("", start, f"a message, {left} bytes are left")
    offset, size, _, magic, attributes = _MESSAGE.unpack_from(data, start)
    if magic not in (0, 1):
        raise _DamageError("magic", start + 16, f"magic 0 or 1, not {magic}")
    end = start + BEFORE_LENGTH_BYTES + size
    if not LEAST_BYTES[magic] <= end - start <= left:
        raise _DamageError("", start + 8, f"a message of at least {LEAST_BYTES[magic]} and at most {left} bytes")
    if nested and attributes & CODEC_BITS:
        raise _DamageError("attributes", start + 17, "a message that is not compressed once more")
    position = start + UP_TO_MAGIC_BYTES + 1
    timestamp = -1
    if magic == 1:
        timestamp = int.from_bytes(data[position : position + 8], "big", signed=True)
        position += 8
    parts: list[bytes | None] = []
    for name in ("key", "value"):
        if end - position < 4:
            raise _DamageError(name, position, f"4 bytes of length, {end - position} are left")
        length = int.from_bytes(data[position : position + 4], "big", signed=True)
        position += 4
        if length > end - position:
            raise _DamageError(name, position - 4, f"a length of at most {end - position}, not {length}")
        parts.append(None if length < 0 else data[position : position + length])
        position += max(length, 0)
    if position != end:
        raise _DamageError("", position, f"no bytes behind the value, there are {end - position}")
    return {"offset": offset, "timestamp": timestamp, "key": parts[0], "value": parts[1], "headers": []}, end


def _clear(codec: int, payload: bytes, limit: int, magic: int, offset: int) -> bytes:
    try:
        return decompress(codec, payload, output_limit(len(payload), limit), magic=magic)
    except CompressionError as error:
        raise _DamageError("", offset, f"records compressed with {CODECS[codec]} ({error})") from None


def _int64(value: int) -> int:
    """The value as Java's long holds it."""
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)


class _Varints:
    """Reads the records of a batch of magic 2: nearly all their numbers are zigzag varints."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.headers_left = MOST_RECORDS

    def record(self, base_offset: int, base_timestamp: int) -> Record:
        """The next record. Raises _DamageError."""
        start = self.position
        length = self.varint("length", len(self.data))
        end = self.position + length
        if length < 0 or end > len(self.data):
            left = len(self.data) - self.position
            raise _DamageError("length", start, f"a record of 0 to {left} bytes, not {length}")
        if length == 0:
            raise _DamageError("", self.position, "a record that is not empty")
        self.position += 1  # attributes, of which none has a meaning yet
        timestamp = _int64(base_timestamp + self.varint("timestamp", end, bits=64))
        offset = _int64(base_offset + self.varint("offset", end))
        key = self.sized("key", end)
        value = self.sized("value", end)
        start = self.position
        count = self.varint("headers", end)
        if not 0 <= count <= (end - self.position) // 2:
            raise _DamageError("headers", start, f"the number of headers in {end - start} bytes, not {count}")
        self.headers_left -= count
        if self.headers_left < 0:
            raise _DamageError("headers", start, f"at most {MOST_RECORDS} headers in a batch")
        headers: list[list[str | bytes | None]] = []
        for number in range(count):
            start = self.position
            name = self.sized(f"headers[{number}].key", end)
            if name is None:
                raise _DamageError(f"headers[{number}].key", start, "a key, not null")
            headers.append([name.decode(errors="backslashreplace"), self.sized(f"headers[{number}].value", end)])
        if self.position != end:
            raise _DamageError("", self.position, f"the end of the record, {end - self.position} bytes are left")
        return {"offset": offset, "timestamp": timestamp, "key": key, "value": value, "headers": headers}

    def sized(self, path: str, end: int) -> bytes | None:
        start = self.position
        length = self.varint(path, end)
        if length < 0:
            return None
        if length > end - self.position:
            raise _DamageError(path, start, f"a length of at most {end - self.position}, not {length}")
        self.position += length
        return self.data[self.position - length : self.position]

    def varint(self, path: str, end: int, bits: int = 32) -> int:
        start = self.position
        value = 0
        for shift in range(0, bits, 7):
            if self.position >= end:
                raise _DamageError(path, start, "a varint, which ends beyond its record")
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= (1 << bits) - 1
                return value >> 1 ^ -(value & 1)
        raise _DamageError(path, start, f"a varint of at most {bits} bits")
