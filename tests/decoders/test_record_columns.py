"""The compiled reader of record batches equals the reference: fields whole, cut and changed, in chunks of any size."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kafkascope.decoders.record_columns
from kafkascope.decoders.compression import CODECS
from kafkascope.decoders.interpreter import DecodeError
from kafkascope.decoders.record_columns import (
    STATUSES,
    TIMESTAMP_TYPES,
    BatchColumns,
    Fields,
    RecordChunk,
    binary_array,
    read_batches,
    read_records,
    scan,
)
from kafkascope.decoders.records import MOST_RECORDS, control_type, decode_records, most_records
from tests.decoders.written_batches import (
    CONTROL,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    batch,
    bits_of_every_kind,
    compress,
    message,
    record,
    samples,
    varint,
    wrapper,
)
from tests.paths import ROOT

KINDS = dict(bits_of_every_kind())


def scanned(*parts: bytes, between: int = 0) -> Fields:
    """The fields one behind the other, with some bytes between them that are none of theirs."""
    data = b"".join(bytes([0xEE]) * between + part for part in parts) + bytes([0xEE]) * between
    sizes = np.array([len(part) for part in parts], np.int64)
    start = between * np.arange(1, len(parts) + 1) + np.cumsum(sizes) - sizes
    return scan(np.frombuffer(data, np.uint8), start, start + sizes)


def plain_batch(columns: BatchColumns, row: int) -> dict[str, Any]:
    """A row as decode_records writes it, without records."""
    magic = int(columns.magic[row])
    horizon = int(columns.delete_horizon[row])
    kind = TIMESTAMP_TYPES[columns.timestamp_type[row]]
    batch = {
        "base_offset": int(columns.base_offset[row]),
        "last_offset": int(columns.last_offset[row]),
        "magic": magic,
        "compression": CODECS[columns.codec[row]],
        "first_timestamp": int(columns.first_timestamp[row]) if magic == 2 else None,
        "max_timestamp": int(columns.max_timestamp[row]),
        "timestamp_type": "NO_TIMESTAMP_TYPE" if kind == "none" else kind.upper(),
        "producer_id": int(columns.producer_id[row]),
        "producer_epoch": int(columns.producer_epoch[row]),
        "base_sequence": int(columns.base_sequence[row]),
        "is_transactional": bool(columns.transactional[row]),
        "is_control": bool(columns.control[row]),
        "partition_leader_epoch": int(columns.leader_epoch[row]),
        "crc": int(columns.crc[row]),
        "delete_horizon_ms": None if horizon == -1 else horizon,
        "size_in_bytes": int(columns.bytes[row]),
        "records": [],
    }
    return batch if columns.crc_ok[row] else batch | {"crc_ok": False}


def plain_batches(fields: Fields, count: int, **options: int) -> list[list[dict[str, Any]]]:
    """The batches of each of the fields, with their records, as decode_records writes them."""
    out: list[list[dict[str, Any]]] = [[] for _ in range(count)]
    batches: list[dict[str, Any]] = []
    counts: list[int] = []
    for chunk in read_records(fields, **options):
        if not chunk.is_continued:
            assert [len(written["records"]) for written in batches] == counts
            counts = chunk.batches.records.tolist()
            batches = [plain_batch(chunk.batches, row) for row in range(len(chunk.batches))]
            for field, written in zip(chunk.batches.field.tolist(), batches, strict=True):
                out[field].append(written)
        records = chunk.records
        assert len(records.header_offsets) == len(records) + 1
        columns = (records.batch, records.offset, records.timestamp, records.control)
        for row, offset, timestamp, control, key, value, headers in zip(
            *(column.tolist() for column in columns),
            records.keys().to_pylist(),
            records.values().to_pylist(),
            records.headers().to_pylist(),
            strict=True,
        ):
            pairs = [[header["key"], header["value"]] for header in headers]
            written = {"offset": offset, "timestamp": timestamp, "key": key, "value": value, "headers": pairs}
            if control:
                written["control_type"] = control_type(key)
            batches[row]["records"].append(written)
    assert [len(written["records"]) for written in batches] == counts
    return out


def reference(data: bytes, **options: int) -> tuple[list[dict[str, Any]], DecodeError | None]:
    try:
        return decode_records(data, **options), None
    except DecodeError as error:
        partial = error.partial
        return partial if isinstance(partial, list) else [], error


def assert_equal_to_reference(parts: list[bytes], **options: int) -> Fields:
    fields = scanned(*parts, between=3)
    got = plain_batches(fields, len(parts), **options)
    limits = {"limit": options["limit"]} if "limit" in options else {}
    batches = read_batches(fields, **options)
    bad_status = np.bincount(batches.field, weights=batches.status != 0, minlength=len(parts))
    for number, part in enumerate(parts):
        expected, error = reference(part, **limits)
        for written in expected:  # the columns have no other way to say none
            written["delete_horizon_ms"] = None if written["delete_horizon_ms"] == -1 else written["delete_horizon_ms"]
        assert got[number] == expected, (number, part.hex(), error)
        left = len(part) - sum(batch["size_in_bytes"] for batch in expected)
        assert fields.trailing_bytes[number] + fields.unread_bytes[number] == left
        assert (error is not None) == bool(bad_status[number] or fields.unread_bytes[number]), (part.hex(), error)
    return fields


def test_every_sample_of_kafkas_own_classes() -> None:
    fields = assert_equal_to_reference([data for data, _ in samples()])
    assert fields.trailing_bytes.tolist() == [sample["trailing_bytes"] for _, sample in samples()]
    assert not fields.unread_bytes.any()


@pytest.mark.parametrize("chunk_bytes", [0, 1, 100, 5000, 1 << 20])
def test_how_it_is_cut_into_chunks_changes_nothing(chunk_bytes: int) -> None:
    fields = scanned(*(data for data, _ in samples()), *KINDS.values())
    count = len(samples()) + len(KINDS)
    assert plain_batches(fields, count, chunk_bytes=chunk_bytes) == plain_batches(fields, count)
    whole = read_batches(fields)
    cut = read_batches(fields, chunk_bytes=chunk_bytes)
    for name in BatchColumns.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(whole, name), getattr(cut, name), name)


@pytest.mark.no_cover  # the same ways, many times
@pytest.mark.parametrize("records_at_once", [1, 2, 3, 7, 1 << 20])
def test_how_many_records_come_at_once_changes_nothing(records_at_once: int) -> None:
    fields = scanned(*(data for data, _ in samples()), *KINDS.values())
    count = len(samples()) + len(KINDS)
    assert plain_batches(fields, count, records_at_once=records_at_once) == plain_batches(fields, count)


def test_so_many_records_and_headers_are_held_at_once() -> None:
    with_headers = record(headers=((b"h", b"v"),) * 5)
    fields = scanned(batch(record() * 10, 10), batch(with_headers * 3, 3), batch(b"", 0))
    chunks = list(read_records(fields, records_at_once=4))
    assert [len(chunk.records) for chunk in chunks] == [4, 4, 2, 1, 1, 1]
    assert [len(chunk.records.header_key_start) for chunk in chunks] == [0, 0, 0, 5, 5, 5]
    assert [chunk.is_continued for chunk in chunks] == [False] + [True] * 5
    assert all(chunk.batches is chunks[0].batches for chunk in chunks)


def test_chunks_are_as_small_as_asked_for() -> None:
    packed = batch(record(0, 0, None, bytes(1000)), 1, codec=LZ4)
    stored = batch(record(0, 0, None, bytes(1000)), 1)
    for parts in ([stored] * 50, [packed] * 50, [stored, packed] * 25, [stored] * 25 + [packed] * 25):
        chunks = list(read_records(scanned(*parts), chunk_bytes=5100))
        assert [len(chunk.batches) for chunk in chunks] == [5] * 10


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_cut_at_every_byte(kind: str) -> None:
    assert_equal_to_reference([KINDS[kind][:length] for length in range(len(KINDS[kind]) + 1)])


def test_payloads_cut_at_every_byte() -> None:
    """The batch is whole, what it holds is not."""
    records = record(0, 0, b"key", b"value", ((b"name", b"content"), (b"", None))) + record(1, 300, None, None)
    inner = message(0, b"value", key=b"key") + message(1, None, magic=0)
    parts = [batch(records[:length], 2) for length in range(len(records))]
    for codec in range(1, 5):
        packed = compress(codec, records)
        parts += [batch(b"", 2, codec=codec, payload=packed[:length]) for length in range(len(packed))]
        parts += [batch(records[:length], 2, codec=codec) for length in range(len(records))]
        parts += [wrapper(7, [inner[:length]], codec) for length in range(len(inner))]
    assert_equal_to_reference(parts)


def changed(chance: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(out))
        kind = chance.randrange(6)
        if kind == 0:
            del out[at : at + chance.randrange(4)]
            out += b"\0" * (not out)
        elif kind == 1:
            out[at:at] = chance.randbytes(chance.randrange(4))
        else:
            out[at] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
    return bytes(out)


def test_changed_bytes() -> None:
    seed = 40
    print("seed", seed)
    chance = random.Random(seed)
    kinds = [*KINDS.values(), *(data for data, _ in samples() if 0 < len(data) < 600)]
    assert_equal_to_reference([changed(chance, chance.choice(kinds)) for _ in range(3000)])


def test_changed_records_inside_whole_batches() -> None:
    seed = 41
    print("seed", seed)
    chance = random.Random(seed)
    records = record(0, 0, b"key", b"value", ((b"name", b"content"), (b"", None))) + record(1, 300, None, None) * 3
    inner = b"".join(message(number, b"value", magic=number % 2) for number in range(3))
    parts = []
    for _ in range(2000):
        codec = chance.randrange(5)
        if chance.random() < 0.6:
            parts.append(batch(changed(chance, records), 4, codec=codec))
        else:
            outer = chance.choice((0, 2, 9, -(1 << 63), (1 << 63) - 1))
            parts.append(wrapper(outer, [changed(chance, inner)], max(codec, 1), magic=chance.randrange(2)))
    assert_equal_to_reference(parts)


def test_noise() -> None:
    seed = 42
    print("seed", seed)
    chance = random.Random(seed)
    parts = [chance.randbytes(chance.randrange(200)) for _ in range(300)]
    parts += [batch(chance.randbytes(chance.randrange(60)), 3) for _ in range(300)]
    parts += [bytes(chance.choice((0, 1, 2)) for _ in range(100)) for _ in range(300)]
    assert_equal_to_reference(parts)


def statuses(*parts: bytes, **options: int) -> list[str]:
    return [STATUSES[status] for status in read_batches(scanned(*parts), **options).status]


def test_status_says_what_is_wrong() -> None:
    good = record(0)
    parts = {
        batch(good, 1): "ok",
        batch(b"", 0): "ok",
        batch(good, 1, codec=5): "unknown_codec",
        message(0, b"value", attributes=7): "unknown_codec",
        batch(b"", 1, codec=GZIP, payload=b"no gzip"): "not_decompressed",
        message(0, b"no lz4", attributes=LZ4): "not_decompressed",
        batch(bytes(2000), 1, codec=ZSTD): "too_large",
        batch(good + b"\x20\0", 2): "damaged_record",
        message(0, None, attributes=GZIP): "damaged_record",
        batch(good * 3, 2): "record_count",
        batch(good, -1): "record_count",
        batch(good + b"\0\0\0", 1): "bytes_left_over",
    }
    assert statuses(*parts, limit=1000) == list(parts.values())


def test_records_before_the_damage_are_kept() -> None:
    fields = scanned(batch(record(0, 0, b"a") + b"\x20\0", 2) + batch(record(0, 0, b"b"), 1))
    (chunk,) = read_records(fields)
    assert chunk.records.keys().to_pylist() == [b"a", b"b"]
    assert chunk.batches.records.tolist() == [1, 1]


def test_sizes() -> None:
    clear = record(0, 0, None, b"abc" * 400)
    parts = [batch(clear, 1, codec=codec) for codec in range(5)] + [wrapper(0, [message(0, b"abc" * 400)])]
    batches = read_batches(scanned(*parts))
    assert batches.bytes.tolist() == [len(part) for part in parts]
    assert batches.bytes_uncompressed[:5].tolist() == [61 + len(clear)] * 5
    assert batches.bytes_uncompressed[5] == 34 + len(message(0, b"abc" * 400))
    assert read_batches(scanned(batch(b"", 1, codec=GZIP, payload=b"no"))).bytes_uncompressed.tolist() == [63]


def test_small_and_large_batches_have_their_crc_checked() -> None:
    parts = []
    for size in [*range(40), 962, 963, 964, 965, 1000, 1024, 5000]:
        parts += [
            batch(record(0, 0, None, bytes(size)), 1),
            message(0, b"\xff" * size),
            message(0, b"v" * size, magic=0),
        ]
    wrong = [part[:-1] + bytes([part[-1] ^ 0x40]) for part in parts]
    assert read_batches(scanned(*parts)).crc_ok.all()
    assert not read_batches(scanned(*wrong)).crc_ok.any()


def test_payloads_that_are_not_compressed_are_not_copied() -> None:
    fields = scanned(batch(record(0, 0, b"key", b"value"), 1), message(4, b"value"))
    (chunk,) = read_records(fields)
    assert np.shares_memory(chunk.records.data, fields.data)
    assert chunk.records.offset.tolist() == [100, 4]


def test_fields_need_not_cover_the_data_or_be_in_order() -> None:
    first, second = batch(record(0, 0, b"first"), 1), batch(record(0, 0, b"second"), 1, codec=SNAPPY)
    data = np.frombuffer(b"xx" + first + b"yyy" + second, np.uint8)
    begin = np.array([5 + len(first), 2, 2, 0])
    end = np.array([len(data), 2 + len(first), 2, 2])
    fields = scan(data, begin, end)
    (chunk,) = read_records(fields)
    assert chunk.batches.field.tolist() == [0, 1]
    assert chunk.records.keys().to_pylist() == [b"second", b"first"]
    assert fields.trailing_bytes.tolist() == [0, 0, 0, 2]


@pytest.mark.parametrize(("begin", "end"), [([-1], [5]), ([3], [2]), ([0], [11]), ([0, 1], [1])])
def test_ranges_outside_the_data_are_refused(begin: list[int], end: list[int]) -> None:
    with pytest.raises(ValueError, match="ranges"):
        scan(np.zeros(10, np.uint8), np.array(begin), np.array(end))


def test_nothing_at_all() -> None:
    fields = scan(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert len(fields) == len(read_batches(fields)) == len(list(read_records(fields))) == 0
    fields = scanned(batch(b"", 0))
    (chunk,) = read_records(fields)
    assert (len(chunk.batches), len(chunk.records)) == (1, 0)
    assert chunk.records.headers().to_pylist() == chunk.records.keys().to_pylist() == []


def test_control_records_are_marked() -> None:
    (chunk,) = read_records(scanned(batch(record() * 2, 2), batch(record(), 1, attributes=CONTROL)))
    assert chunk.records.control.tolist() == [False, False, True]


def test_offsets_that_librdkafka_leaves_zero() -> None:
    inner = [message(0, b"v")] * 3
    (chunk,) = read_records(scanned(wrapper(0, inner), wrapper(12, inner), wrapper(12, inner, magic=0)))
    assert chunk.records.offset.tolist() == [0, 1, 2, 10, 11, 12, 10, 11, 12]
    assert chunk.batches.base_offset.tolist() == [0, 10, 10]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_bombs_take_no_memory(codec: int) -> None:
    bomb = batch(bytes(64 << 20), 1, codec=codec)
    inner = wrapper(0, [bytes(64 << 20)], codec)
    fields = scanned(bomb, batch(record(), 1), inner)
    tracemalloc.start()
    chunks: list[RecordChunk] = list(read_records(fields, limit=1 << 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20
    assert [STATUSES[status] for chunk in chunks for status in chunk.batches.status] == ["too_large", "ok", "too_large"]
    assert sum(len(chunk.records) for chunk in chunks) == 1


def test_very_many_records_or_headers_are_cut_short() -> None:
    many = batch(record() * (MOST_RECORDS + 2), MOST_RECORDS + 2)
    batches = read_batches(scanned(many))
    assert [STATUSES[status] for status in batches.status] == ["too_large"]
    assert batches.records.tolist() == [MOST_RECORDS]
    body = b"\0\0\0\1\1" + varint(MOST_RECORDS + 1) + b"\0\1" * (MOST_RECORDS + 1)
    headers = batch(record(0, 0, b"before") + varint(len(body)) + body, 2)
    (chunk,) = read_records(scanned(headers))
    assert [STATUSES[status] for status in chunk.batches.status] == ["too_large"]
    assert chunk.records.keys().to_pylist() == [b"before"]
    with pytest.raises(DecodeError, match=f"at most {MOST_RECORDS} headers"):
        decode_records(headers)


def test_records_that_are_out_of_all_proportion_to_their_bytes_are_cut_short() -> None:
    packed = batch(record() * 200_000, 200_000, codec=ZSTD)
    most = most_records(ZSTD, len(packed) - 61)
    assert 65_536 < most < 70_000
    chunks = list(read_records(scanned(packed)))
    assert [STATUSES[status] for status in chunks[0].batches.status] == ["too_large"]
    assert sum(len(chunk.records) for chunk in chunks) == most
    with pytest.raises(DecodeError, match=f"at most {most} records"):
        decode_records(packed)


@pytest.mark.no_cover  # the same ways, many times
@pytest.mark.parametrize("codec", [pytest.param(GZIP, marks=pytest.mark.deep), ZSTD])
def test_records_as_clients_write_them_are_in_proportion(codec: int) -> None:
    same = b"".join(record(offset=offset) for offset in range(300_000))
    assert statuses(batch(same, 300_000, codec=codec)) == ["ok"]


def test_snappy_that_claims_4_gib() -> None:
    payload = b"\xff\xff\xff\xff\x0f" + b"\xfe\x01\x00" * 1000
    assert statuses(batch(b"", 1, codec=SNAPPY, payload=payload)) == ["too_large"]


def test_binary_array() -> None:
    data = np.frombuffer(b"abcdefgh" * 20, np.uint8)
    start = np.array([0, 3, -5, 100, 160, 2])
    length = np.array([3, 0, -1, 60, 0, 158])
    got = binary_array(data, start, length)
    got.validate(full=True)
    text = data.tobytes()
    assert got.to_pylist() == [b"abc", b"", None, text[100:160], b"", text[2:160]]
    assert binary_array(data, start[:2], length[:2]).null_count == 0
    assert binary_array(data, start[:0], length[:0]).to_pylist() == []


@pytest.mark.parametrize(("start", "length"), [(-1, 2), (9, 2), (11, 1), (0, 11), (1 << 62, 5), (5, 1 << 62)])
def test_binary_array_refuses_ranges_outside_the_data(start: int, length: int) -> None:
    with pytest.raises(ValueError, match=r"range|value"):
        binary_array(np.zeros(10, np.uint8), np.array([0, start]), np.array([1, length]))


def test_binary_array_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafkascope.decoders.record_columns, "_ARROW_BINARY_BYTES", 10)
    data = np.arange(20, dtype=np.uint8)
    start = np.array([0, 5, 2, 7, 0, 10])
    length = np.array([5, 5, 6, -1, 0, 10])
    got = binary_array(data, start, length)
    assert isinstance(got, pa.ChunkedArray)
    got.validate(full=True)
    assert got.num_chunks == 3
    assert got.to_pylist() == [
        None if size < 0 else data[at : at + size].tobytes() for at, size in zip(start, length, strict=True)
    ]
    with pytest.raises(ValueError, match="more than an Arrow column holds"):
        binary_array(data, np.array([0]), np.array([11]))


def test_headers_whose_names_are_no_text() -> None:
    (chunk,) = read_records(scanned(batch(record(headers=((b"\xff\xc3\xaf", None), (b"b", b"\xff"))), 1)))
    headers = chunk.records.headers()
    headers.validate(full=True)
    assert headers.to_pylist() == [[{"key": "\\xffï", "value": None}, {"key": "b", "value": b"\xff"}]]


@pytest.mark.deep
def test_everything_with_bounds_checks_in_the_kernels(tmp_path: Path) -> None:
    if os.environ.get("NUMBA_BOUNDSCHECK") == "1":
        return
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_memory_is_that_of_a_chunk() -> None:
    packed = batch(record(0, 0, None, bytes(1 << 20)), 1, codec=ZSTD)
    fields = scanned(*[packed] * 63)
    tracemalloc.start()
    for chunk in read_records(fields, chunk_bytes=4 << 20):
        assert len(chunk.records) == 3
        del chunk
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 << 20
