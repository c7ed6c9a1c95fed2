import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope import decoders
from kafkascope.decoders.characters import HIDDEN, safe_text
from kafkascope.decoders.interpreter import DecodeError
from kafkascope.decoders.json_text import bodies_as_json
from tests.decoders.batches_of_bodies import (
    EXCHANGES,
    SEED,
    Body,
    body_of,
    changed,
    cuts,
    reference,
    small_bodies,
    tape_of,
    value_of,
)


def sizes_for_records(value: Any) -> Any:
    """The value with records as their size, as Kafka's request log has it."""
    if isinstance(value, dict):
        return {
            f"{name}SizeInBytes" if is_records(name, member) else name: len(member)
            if is_records(name, member)
            else sizes_for_records(member)
            for name, member in value.items()
        }
    return [sizes_for_records(element) for element in value] if isinstance(value, list) else value


def is_records(name: str, member: object) -> bool:
    return name in ("records", "unalignedRecords") and member is not None


def compare_with_reference(bodies: list[Body]) -> list[str | None]:
    texts = bodies_as_json(tape_of(bodies))
    texts.validate(full=True)
    found: list[str | None] = texts.to_pylist()
    for body, text in zip(bodies, found, strict=True):
        expected = reference(body)
        if isinstance(expected, DecodeError):
            assert text is None, body
        else:
            assert text is not None, body
            assert json.loads(text) == json.loads(decoders.to_json(sizes_for_records(expected[0]))), body
    return found


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.deep), 3])
def test_the_text_of_samples_says_what_the_reference_says(every: int) -> None:
    bodies = [body_of(sample) for sample in EXCHANGES[::every]]
    found = compare_with_reference(bodies)
    # Where no tagged field is on the wire the order of members is the reference's too, and so is every character.
    same = [
        text == decoders.to_json(sizes_for_records(value_of(body))) for text, body in zip(found, bodies, strict=True)
    ]
    assert sum(same) > 0.9 * len(same)


def test_text_of_cut_bodies_is_null() -> None:
    compare_with_reference(cuts(small_bodies(80)))


def test_text_of_changed_bodies_is_valid_and_says_what_the_reference_says() -> None:
    compare_with_reference(changed(small_bodies(400), 4000, SEED + 1))


def test_a_text_buffer_that_is_too_small_grows() -> None:
    name = b"\x01" * 32000  # each byte takes six characters
    body = (3, 0, False, struct.pack(">ih", 1, len(name)) + name)
    small = (3, 0, False, struct.pack(">i", 0))
    found = compare_with_reference([small, body, small, body])
    assert found[0] == '{"topics": []}'


def test_frames_with_a_text_that_is_given_have_that() -> None:
    bodies = [body_of(sample) for sample in EXCHANGES[:200]]
    texts = bodies_as_json(tape_of(bodies)).to_pylist()
    long = "x" * 10_000_000  # more than there is room for at first
    wanted = np.arange(len(bodies)) % 3 > 0
    for place, text in enumerate(texts):
        assert text is not None
        texts[place] = {0: "given", 1: None, 2: long if place == 7 else None}.get(
            place % 5, text if wanted[place] else None
        )
    given = {place: None if text is None else text.encode() for place, text in enumerate(texts) if place % 5 < 3}
    assert bodies_as_json(tape_of(bodies), wanted=wanted, given=given).to_pylist() == texts


def test_no_text_of_no_frames() -> None:
    assert bodies_as_json(tape_of([])).to_pylist() == []
    assert bodies_as_json(tape_of([(99, 0, False, b"")])).to_pylist() == [None]


@given(st.lists(st.binary(max_size=20), max_size=4))
def test_any_bytes_of_a_string_give_valid_text(names: list[bytes]) -> None:
    data = struct.pack(">i", len(names)) + b"".join(struct.pack(">h", len(name)) + name for name in names)
    (text,) = bodies_as_json(tape_of([(3, 0, False, data)])).to_pylist()
    expected = {"topics": [{"name": name.decode(errors="backslashreplace")} for name in names]}
    assert text == decoders.to_json(expected)


@given(st.text(st.sampled_from([chr(n) for first, last in HIDDEN for n in (first, last, last + 1)]), max_size=20))
def test_no_text_has_a_character_that_hides(name: str) -> None:
    content = name.encode()
    body = struct.pack(">ih", 1, len(content)) + content
    (text,) = bodies_as_json(tape_of([(3, 0, False, body)])).to_pylist()
    assert text == decoders.to_json({"topics": [{"name": name}]})
    assert json.loads(text) == {"topics": [{"name": name}]}
    assert safe_text(text) == text


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
def test_integers(offset: int, leader: int) -> None:
    # ListOffsets response 4: one topic without a name, one partition.
    data = struct.pack(">iihiihqqi", 0, 1, 0, 1, leader, 0, offset, -offset - 1, leader)
    (text,) = bodies_as_json(tape_of([(2, 4, True, data)])).to_pylist()
    (partition,) = json.loads(text)["topics"][0]["partitions"]
    assert (partition["offset"], partition["timestamp"]) == (-offset - 1, offset)
    assert partition["partitionIndex"] == partition["leaderEpoch"] == leader


@given(st.floats())
def test_floats(number: float) -> None:
    # DescribeClientQuotas response 0: one entry without an entity and with one value.
    data = struct.pack(">ihhiiih", 0, 0, -1, 1, 0, 1, 0) + struct.pack(">d", number)
    (text,) = bodies_as_json(tape_of([(48, 0, True, data)])).to_pylist()
    expected = decoders.to_json(number)
    assert text.endswith(f'"values": [{{"key": "", "value": {expected}}}]}}]}}')


@given(st.binary(max_size=40))
def test_bytes_are_base64(token: bytes) -> None:
    (text,) = bodies_as_json(tape_of([(36, 0, False, struct.pack(">i", len(token)) + token)])).to_pylist()
    assert text == decoders.to_json({"authBytes": token})


def test_records_are_written_as_their_size() -> None:
    # Fetch response 0: one topic "t" with two partitions, the records of the second are null.
    partition = struct.pack(">ihq", 5, 0, 9)
    topic = struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", 2)
    data = topic + partition + struct.pack(">i", 3) + b"abc" + partition + struct.pack(">i", -1)
    (text,) = bodies_as_json(tape_of([(1, 0, True, data)])).to_pylist()
    first, second = json.loads(text)["responses"][0]["partitions"]
    assert first == {"partitionIndex": 5, "errorCode": 0, "highWatermark": 9, "recordsSizeInBytes": 3}
    assert second == {"partitionIndex": 5, "errorCode": 0, "highWatermark": 9, "records": None}


@pytest.mark.parametrize("order", [b"\0\2\2x\2\1\7", b"\2\1\7\0\2\2x"])
def test_tagged_fields_stand_in_the_order_of_their_definition(order: bytes) -> None:
    head = struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, 0) + b"\1\1\1"
    (text,) = bodies_as_json(tape_of([(1, 12, False, head + b"\2" + order)])).to_pylist()
    members = json.loads(text)
    assert list(members)[-2:] == ["clusterId", "_tags"]
    assert members["clusterId"] == "x"
    assert members["_tags"] == {"2": "Bw=="}


def test_the_text_is_arrow_strings() -> None:
    assert bodies_as_json(tape_of([body_of(EXCHANGES[0])])).type == pa.string()
