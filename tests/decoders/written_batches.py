"""Record batches and message sets written by hand, and the samples that Kafka's own classes wrote.

tests/data/records.ndjson.gz: 339 ``records`` fields, one a line, with what Kafka's MemoryRecords reads in them (keys
and values in hex). The clients' classes of 3.9.1 and 4.3.1 wrote them (MemoryRecordsBuilder, random content): every
magic, codec, time stamp type and control type, transactions, delete horizons, compacted batches, cut ones; a choice of
small ones out of some four thousand.
"""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import crc32c
import lz4.frame
import snappy
import zstandard

from tests.decoders.written_messages import uvarint
from tests.paths import DATA

SAMPLES = DATA / "records.ndjson.gz"

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40

Header = tuple[bytes, bytes | None]


@lru_cache
def samples() -> tuple[tuple[bytes, dict[str, Any]], ...]:
    """Bytes of each field, and what is in them as decode_records names it, with trailing_bytes."""
    read = []
    with gzip.open(SAMPLES, "rt") as lines:
        for line in lines:
            sample = json.loads(line)
            for record in (record for batch in sample["batches"] for record in batch["records"]):
                for name in ("key", "value"):
                    record[name] = _unhex(record[name])
                record["headers"] = [[key, _unhex(value)] for key, value in record["headers"]]
            read.append((bytes.fromhex(sample.pop("hex")), sample))
    return tuple(read)


def _unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def varint(value: int) -> bytes:
    return uvarint((value << 1 ^ value >> 63) & (1 << 64) - 1)


def sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def record(
    offset: int = 0,
    time: int = 0,
    key: bytes | None = None,
    value: bytes | None = b"",
    headers: tuple[Header, ...] = (),
) -> bytes:
    """A record of magic 2; offset and time are relative."""
    body = b"\0" + varint(time) + varint(offset) + sized(key) + sized(value) + varint(len(headers))
    body += b"".join(sized(name) + sized(content) for name, content in headers)
    return varint(len(body)) + body


def compress(codec: int, clear: bytes) -> bytes:
    if codec == GZIP:
        return gzip.compress(clear, mtime=0)
    if codec == SNAPPY:
        return bytes(snappy.compress(clear))
    if codec == LZ4:
        return bytes(lz4.frame.compress(clear, store_size=False))
    return bytes(zstandard.ZstdCompressor().compress(clear)) if codec == ZSTD else clear


def batch(
    records: bytes,
    count: int,
    *,
    codec: int = NONE,
    attributes: int = 0,
    base_offset: int = 100,
    last_offset_delta: int | None = None,
    base_time: int = 1_700_000_000_000,
    max_time: int = 1_700_000_009_000,
    leader_epoch: int = 5,
    producer: tuple[int, int, int] = (7, 3, 11),
    payload: bytes | None = None,
) -> bytes:
    """A batch of magic 2. producer: id, epoch, first sequence; payload: taken as it is, in place of the records."""
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    rest = struct.pack(">hiqqqhii", attributes | codec, delta, base_time, max_time, *producer, count)
    rest += compress(codec, records) if payload is None else payload
    return struct.pack(">qiibI", base_offset, 9 + len(rest), leader_epoch, 2, crc32c.crc32c(rest)) + rest


def message(
    offset: int,
    value: bytes | None,
    *,
    magic: int = 1,
    key: bytes | None = None,
    attributes: int = 0,
    time: int = 1_600_000_000_000,
) -> bytes:
    """A message of magic 0 or 1."""
    rest = struct.pack(">bb", magic, attributes) + (struct.pack(">q", time) if magic == 1 else b"")
    for part in (key, value):
        rest += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, 4 + len(rest), zlib.crc32(rest)) + rest


def wrapper(offset: int, inner: list[bytes], codec: int = GZIP, *, attributes: int = 0, **others: Any) -> bytes:
    """A message that holds others, compressed."""
    return message(offset, compress(codec, b"".join(inner)), attributes=attributes | codec, **others)


def bits_of_every_kind() -> Iterator[tuple[str, bytes]]:
    """Small fields, one of each kind of batch, for cutting and changing."""
    records = record(0, 0, b"key", b"value", ((b"name", b"content"), (b"", None))) + record(1, 300, None, None)
    for codec in range(5):
        yield f"magic 2, codec {codec}", batch(records, 2, codec=codec)
        yield f"magic 2, codec {codec}, log append time", batch(records, 2, codec=codec, attributes=LOG_APPEND_TIME)
    for magic in (0, 1):
        inner = [message(number, b"value %d" % number, magic=magic, key=b"key") for number in range(3)]
        yield f"magic {magic}", b"".join(inner)
        for codec in range(1, 5):
            yield f"magic {magic}, codec {codec}", wrapper(9, inner, codec, magic=magic)
    yield "two batches", batch(records, 2) + batch(record(5, 1, b"k", b"v"), 1, attributes=CONTROL)
