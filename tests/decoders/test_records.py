"""The reference reader of record batches: samples of Kafka's own classes, and what clients really send."""

from __future__ import annotations

import copy
import random
import struct
from typing import Any, cast

import lz4.frame
import pytest

from kafkascope.decoders.interpreter import DecodeError
from kafkascope.decoders.records import control_type, decode_records
from tests.decoders.written_batches import (
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    TRANSACTIONAL,
    ZSTD,
    batch,
    bits_of_every_kind,
    message,
    record,
    samples,
    varint,
    wrapper,
)

KINDS = dict(bits_of_every_kind())


def offsets(batches: list[dict[str, Any]]) -> list[int]:
    return [record["offset"] for batch in batches for record in batch["records"]]


def whole_and_partial(data: bytes, **options: int) -> tuple[list[dict[str, Any]], DecodeError | None]:
    try:
        return decode_records(data, **options), None
    except DecodeError as error:
        return cast(list[dict[str, Any]], error.partial), error


def test_every_sample_of_kafkas_own_classes() -> None:
    assert len(samples()) > 300
    for data, sample in samples():
        got = decode_records(data)
        assert len(data) - sum(batch["size_in_bytes"] for batch in got) == sample["trailing_bytes"]
        assert got == sample["batches"], f"{sample['api']} v{sample['version']} of {sample['kafka']}"


def test_samples_have_every_magic_codec_and_control_type() -> None:
    batches = [batch for _, sample in samples() for batch in sample["batches"]]
    legacy = {(magic, codec) for magic in (0, 1) for codec in ("none", "gzip", "snappy", "lz4")}
    new = {(2, codec) for codec in ("none", "gzip", "snappy", "lz4", "zstd")}
    assert {(batch["magic"], batch["compression"]) for batch in batches} == legacy | new
    kinds = {record.get("control_type") for batch in batches for record in batch["records"]} - {None}
    assert len(kinds) == 7


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_of_magic_2(codec: int) -> None:
    headers = ((b"na\xc3\xafve", b"\x00\xff"), (b"", None), (b"name", b""))
    records = record(0, 0, b"key", b"value", headers) + record(7, -5, None, None)
    (got,) = decode_records(batch(records, 2, codec=codec, attributes=TRANSACTIONAL, last_offset_delta=8))
    assert (got["base_offset"], got["last_offset"], got["is_transactional"]) == (100, 108, True)
    assert (got["producer_id"], got["producer_epoch"], got["base_sequence"]) == (7, 3, 11)
    assert got["compression"] == ("none", "gzip", "snappy", "lz4", "zstd")[codec]
    first, second = got["records"]
    assert first == {
        "offset": 100,
        "timestamp": 1_700_000_000_000,
        "key": b"key",
        "value": b"value",
        "headers": [["naïve", b"\x00\xff"], ["", None], ["name", b""]],
    }
    assert (second["offset"], second["timestamp"], second["key"], second["value"]) == (107, 1699999999995, None, None)


def test_log_append_time_and_delete_horizon() -> None:
    (got,) = decode_records(batch(record(0, 40), 1, attributes=LOG_APPEND_TIME, max_time=77))
    assert (got["timestamp_type"], got["records"][0]["timestamp"]) == ("LOG_APPEND_TIME", 77)
    (got,) = decode_records(batch(record(0, -40), 1, attributes=DELETE_HORIZON, base_time=1000))
    assert (got["delete_horizon_ms"], got["records"][0]["timestamp"]) == (1000, 960)


def test_control_batches_say_what_they_control() -> None:
    kinds = ("ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS")
    for number, kind in enumerate(kinds):
        key = struct.pack(">hh", 0, number)
        (got,) = decode_records(batch(record(0, 0, key, b"\0\0\0\0\0\1"), 1, attributes=CONTROL))
        assert got["is_control"]
        assert got["records"][0]["control_type"] == kind == control_type(key)
    assert control_type(None) == control_type(b"\0\0\0") == control_type(struct.pack(">hh", 0, 7)) == "UNKNOWN"


def test_names_of_headers_that_are_no_text_show_their_bytes() -> None:
    (got,) = decode_records(batch(record(headers=((b"a\xff", b""),)), 1))
    assert got["records"][0]["headers"] == [["a\\xff", b""]]


def test_numbers_wrap_as_in_java() -> None:
    last = (1 << 63) - 1
    (got,) = decode_records(batch(record(1, 1), 1, base_offset=last, base_time=last, last_offset_delta=1))
    assert got["last_offset"] == got["records"][0]["offset"] == got["records"][0]["timestamp"] == -(1 << 63)


def test_compacted_batch_has_no_records() -> None:
    (got,) = decode_records(batch(b"", 0, last_offset_delta=49))
    assert (got["records"], got["last_offset"], got["size_in_bytes"]) == ([], 149, 61)
    (got,) = decode_records(batch(b"", 0, codec=ZSTD, payload=b""))
    assert got["records"] == []


def test_empty_field() -> None:
    assert decode_records(b"") == []


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize(
    ("magic", "outer", "inner", "expected"),
    [
        (0, 12, (10, 11, 12), [10, 11, 12]),  # a broker's: absolute
        (0, 2, (0, 1, 2), [0, 1, 2]),  # a producer's
        (0, 0, (0, 0, 0), [0, 1, 2]),  # librdkafka's
        (0, 12, (0, 0, 0), [10, 11, 12]),
        (1, 12, (0, 1, 2), [10, 11, 12]),  # relative (KIP-31)
        (1, 15, (0, 2, 5), [10, 12, 15]),  # with gaps, after compaction
        (1, 12, (10, 11, 12), [10, 11, 12]),  # absolute all the same
        (1, 0, (0, 1, 2), [0, 1, 2]),  # librdkafka leaves the wrapper's 0
        (1, 0, (0, 0, 0), [0, 1, 2]),
        (1, 12, (0, 0, 0), [10, 11, 12]),
        (1, 12, (0,), [12]),
        (1, 3, (7, 8, 9), [7, 8, 9]),  # nonsense: taken as it is
    ],
)
def test_offsets_inside_a_wrapper(
    codec: int, magic: int, outer: int, inner: tuple[int, ...], expected: list[int]
) -> None:
    messages = [message(offset, b"v", magic=magic) for offset in inner]
    got = decode_records(wrapper(outer, messages, codec, magic=magic))
    assert offsets(got) == expected
    assert (got[0]["base_offset"], got[0]["last_offset"]) == (expected[0], outer)


def test_times_inside_a_wrapper() -> None:
    inner = [message(0, b"a", time=5), message(1, b"b", time=9)]
    (created,) = decode_records(wrapper(1, inner, time=9))
    assert [record["timestamp"] for record in created["records"]] == [5, 9]
    (appended,) = decode_records(wrapper(1, inner, time=42, attributes=LOG_APPEND_TIME))
    assert [record["timestamp"] for record in appended["records"]] == [42, 42]
    (old,) = decode_records(wrapper(1, [message(1, b"a", magic=0)], magic=0, attributes=LOG_APPEND_TIME))
    assert (old["timestamp_type"], old["records"][0]["timestamp"]) == ("NO_TIMESTAMP_TYPE", -1)


def test_magic_0_has_the_wrong_header_checksum_in_lz4() -> None:
    frame = bytearray(lz4.frame.compress(message(3, b"value", magic=0), store_size=False))
    frame[6] ^= 0x33
    (got,) = decode_records(message(3, bytes(frame), magic=0, attributes=LZ4))
    assert got["records"][0]["value"] == b"value"
    with pytest.raises(DecodeError, match="lz4"):
        decode_records(message(3, bytes(frame), magic=1, attributes=LZ4))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_wrong_crc_is_told_and_read(kind: str) -> None:
    data = bytearray(KINDS[kind])
    data[17 if data[16] == 2 else 12] ^= 1
    good = decode_records(KINDS[kind])
    got = decode_records(bytes(data))
    assert [batch.get("crc_ok", True) for batch in got] == [False] + [True] * (len(good) - 1)
    assert [batch["records"] for batch in got] == [batch["records"] for batch in good]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_cut_at_every_byte_is_a_partial_last_batch(kind: str) -> None:
    good = decode_records(KINDS[kind])
    sizes = [batch["size_in_bytes"] for batch in good]
    for length in range(len(KINDS[kind])):
        got = decode_records(KINDS[kind][:length])
        whole = sum(sum(sizes[: number + 1]) <= length for number in range(len(sizes)))
        assert got == good[:whole]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_changed_bytes_raise_nothing_but_decode_errors(kind: str) -> None:
    seed = 30
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(300):
        data = bytearray(KINDS[kind])
        for _ in range(chance.choice((1, 1, 3))):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        batches, error = whole_and_partial(bytes(data))
        assert all(len(batch["records"]) * 7 <= 1 << 20 for batch in batches)
        if error is not None:
            assert str(error)
            assert error.path.startswith("batches[")
            assert error.offset >= 0


def test_damaged_record_keeps_those_before_it_and_the_batches_behind() -> None:
    broken = b"\x20\x00\x00"
    data = batch(record(0, 0, b"a") + broken, 2) + batch(record(0, 0, b"b"), 1)
    batches, error = whole_and_partial(data)
    assert error is not None
    assert error.path == "batches[0].records[1].length"
    assert data[error.offset :].startswith(broken)
    assert [[record["key"] for record in batch["records"]] for batch in batches] == [[b"a"], [b"b"]]


@pytest.mark.parametrize(
    ("records", "count", "read", "expected"),
    [
        (record(0) + record(1), 3, 2, "3 records"),
        (record(0) + record(1), 1, 2, "1 records"),
        (record(0) + record(1), -1, 2, "-1 records"),
        (record(0) + record(1), 2**31 - 1, 2, "2147483647 records"),
        (record(0) + b"\0\0\0", 1, 1, "no bytes behind the last record"),
        (record(0) + b"\0\0\0", 2, 1, "a record that is not empty"),
        (varint(-5), 1, 0, "a record of 0 to"),
        (varint(8) + b"\0\0\0\x80\x80\x80\x80\x80", 1, 0, "a varint of at most 32 bits"),
        (varint(12) + b"\0" + b"\xff" * 11, 1, 0, "a varint of at most 64 bits"),
        (varint(6) + b"\0\0\0" + varint(50) + b"\0\0", 1, 0, "a length of at most"),
        (varint(6) + b"\0\0\0\1\1" + varint(60), 1, 0, "the number of headers"),
        (varint(6) + b"\0\0\0\1\1" + varint(-1), 1, 0, "the number of headers"),
        (varint(8) + b"\0\0\0\1\1\2" + varint(-1) + b"\1", 1, 0, "a key, not null"),
        (varint(7) + b"\0\0\0\1\1\0\0", 1, 0, "the end of the record"),
    ],
)
def test_what_is_wrong_with_a_batch_is_said(records: bytes, count: int, read: int, expected: str) -> None:
    batches, error = whole_and_partial(batch(records, count))
    assert len(batches[0]["records"]) == read
    assert error is not None
    assert expected in str(error)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (message(0, None, attributes=GZIP), "not an empty or null value"),
        (message(0, b"no gzip", attributes=GZIP), "gzip"),
        (wrapper(0, [wrapper(0, [message(0, b"v")])]), "not compressed once more"),
        (wrapper(0, [message(0, b"v"), message(1, b"w")[:-1]]), "a message of at least 34"),
        (wrapper(0, [b"\0" * 30]), "a message of at least 26"),
        (wrapper(0, [message(0, b"v")[:16] + b"\x02" + message(0, b"v")[17:]]), "magic 0 or 1"),
        (message(0, b"value", attributes=5), "codec 5"),
        (batch(record(0), 1, codec=6), "codec 6"),
        (batch(b"", 1, codec=ZSTD, payload=b"\x28\xb5\x2f\xfd"), "zstd"),
        (b"\0" * 11 + b"\x20" + b"\0" * 4 + b"\x03" + b"\0" * 60, "magic 0, 1 or 2, not 3"),
        (b"\0" * 11 + b"\x20" + b"\0" * 4 + b"\x02" + b"\0" * 60, "a batch of at least 61 bytes, not 44"),
        (b"\0" * 8 + b"\xff" * 4 + b"\0" * 5 + b"\0" * 60, "a batch of at least 26 bytes, not 11"),
    ],
)
def test_what_is_wrong_with_a_message_set_is_said(data: bytes, expected: str) -> None:
    good = batch(record(0, 0, b"before"), 1)
    batches, error = whole_and_partial(good + data)
    assert batches[0]["records"][0]["key"] == b"before"
    assert error is not None
    assert expected in str(error)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_bombs_are_refused(codec: int) -> None:
    data = batch(bytes(4 << 20), 1, codec=codec)
    with pytest.raises(DecodeError, match="more than 1000000 bytes"):
        decode_records(data, limit=1_000_000)


def test_the_result_is_the_callers_own() -> None:
    data = KINDS["magic 2, codec 0"]
    first = decode_records(data)
    kept = copy.deepcopy(first)
    first[0]["records"].clear()
    assert decode_records(data) == kept
