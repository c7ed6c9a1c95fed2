"""Record batches without what records hold: all else is as it was, and is read by both readers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.decoders.blanking import blank_records
from kafkascope.decoders.interpreter import DecodeError
from kafkascope.decoders.records import decode_records
from tests.decoders.written_batches import CONTROL, GZIP, batch, message, record, samples, wrapper

CONTENT = b"what nobody is to know"


def read(data: bytes) -> tuple[list[dict[str, Any]], DecodeError | None]:
    try:
        return decode_records(data), None
    except DecodeError as error:
        partial: Any = error.partial
        return partial, error


def shape(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Batches with the lengths of what their records hold."""

    def length(content: bytes | None) -> int | None:
        return None if content is None else len(content)

    return [
        {
            **one,
            "crc": None,
            "records": [
                {
                    **record,
                    "key": length(record["key"]),
                    "value": length(record["value"]),
                    "headers": [(len(name.encode()), length(value)) for name, value in record["headers"]],
                }
                for record in one["records"]
            ],
        }
        for one in found
    ]


def test_what_kafka_wrote_is_as_before_but_for_content() -> None:
    """339 fields: every magic, codec, kind of batch; cut ones."""
    for data, _ in samples():
        made, counts = blank_records(data)
        before, after = decode_records(data), decode_records(made)
        assert len(made) == len(data)
        assert (counts.batches, counts.lost) == (len(before), 0)
        assert shape(after) == shape(before)


@pytest.mark.parametrize("codec", range(5))
def test_no_content_is_left(codec: int) -> None:
    data = batch(record(key=CONTENT, value=CONTENT, headers=((CONTENT, CONTENT),)) * 3, 3, codec=codec)
    made, counts = blank_records(data)
    assert counts.lost == 0
    assert CONTENT in data or codec
    (found,) = decode_records(made)
    assert "crc_ok" not in found
    assert CONTENT.decode() not in str(found)
    assert blank_records(made)[0] == made


def test_values_may_be_others() -> None:
    data = batch(record(value=b"abc") + record(1, value=b"xyz"), 2)
    made, _ = blank_records(data, lambda value: value.upper() if value == b"abc" else None)
    (found,) = decode_records(made)
    assert [one["value"] for one in found["records"]] == [b"ABC", bytes(3)]
    assert "crc_ok" not in found


@pytest.mark.parametrize(
    "data",
    [
        batch(record(value=CONTENT), 1),
        message(5, CONTENT, key=CONTENT),
        wrapper(5, [message(0, CONTENT, key=CONTENT)], GZIP),
    ],
    ids=["batch", "message", "wrapper"],
)
def test_a_wrong_crc_stays_wrong(data: bytes) -> None:
    place = 17 if data[16] == 2 else 12
    damaged = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    for content, is_right in ((data, True), (damaged, False)):
        (found,) = decode_records(blank_records(content)[0])
        assert found.get("crc_ok", True) == is_right
        assert CONTENT.decode() not in str(found)


def test_control_records_keep_their_kind() -> None:
    data = batch(record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\x09"), 1, attributes=CONTROL)
    (found,) = decode_records(blank_records(data)[0])
    assert found["records"][0]["control_type"] == "COMMIT"
    assert found["records"][0]["value"] == bytes(6)


def test_a_batch_that_cannot_be_read_loses_its_records() -> None:
    data = batch(CONTENT, 1, codec=0)
    compressed = data[:22] + b"\x01" + data[23:]  # says gzip
    made, counts = blank_records(compressed)
    assert (counts.batches, counts.lost) == (1, 1)
    assert made[:17] == compressed[:17]
    assert not any(made[61:])


def test_damaged_records_and_cut_batches_leave_nothing() -> None:
    damaged = batch(record(value=CONTENT) + b"\x7f" + CONTENT, 2)
    cut = batch(record(value=CONTENT), 1)[:-5]
    made, _ = blank_records(damaged + cut)
    assert CONTENT[:8] not in made
    assert len(made) == len(damaged + cut)
    found, error = read(made)
    assert error is not None
    assert [len(one["records"]) for one in found] == [len(one["records"]) for one in read(damaged + cut)[0]] == [1]


def test_what_follows_a_damaged_length_is_not_taken_for_a_header() -> None:
    """The second batch begins amid the values of the first one, as its length has it."""
    inner = batch(record(value=CONTENT), 1)
    inner = inner[:17] + bytes(4) + inner[21:]
    whole = batch(record(value=bytes(20) + inner), 1)
    at = whole.index(inner)
    damaged = whole[:8] + (at - 12).to_bytes(4, "big") + whole[12:]
    made, counts = blank_records(damaged)
    assert not any(made[at:])
    assert (counts.batches, counts.lost) == (2, 1)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_nothing_is_raised_on_any_bytes(data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from([one for one, _ in samples()[:60]])))
    for place in data.draw(st.lists(st.integers(0, max(len(content) - 1, 0)), max_size=6)) if content else ():
        content[place] = data.draw(st.integers(0, 255))
    made, _ = blank_records(bytes(content), limit=1 << 20)
    assert len(made) == len(content)
