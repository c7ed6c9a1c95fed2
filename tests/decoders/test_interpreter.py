import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope import decoders
from kafkascope.decoders import DecodeError, schema
from kafkascope.decoders.interpreter import BytesReader, decode, decode_by_bytes
from kafkascope.decoders.schema import NEVER, Field, Message, Versions
from tests.decoders import oracle
from tests.paths import DATA

SAMPLES = list(oracle.samples(DATA / "oracle.ndjson.gz"))
EXCHANGES = [sample for sample in SAMPLES if sample["dir"] in ("request", "response")]
SEED = 4


def decode_sample(sample: oracle.Sample, body: bytes) -> dict[str, Any]:
    decode_body = decoders.decode_response if sample["dir"] == "response" else decoders.decode_request
    return decode_body(sample["key"], sample["version"], body)


def field(name: str, type_: str, *fields: Field, **facts: Any) -> Field:
    defaults = {"versions": Versions(0, 9), "nullable": NEVER, "tagged": NEVER, "tag": None, "flexible": None}
    return Field(
        **{"name": name, "type": type_, "default": None, "entity_type": None, "fields": fields} | defaults | facts
    )


def message(*fields: Field, flexible: bool = False) -> Message:
    return Message("Sample", "data", None, Versions(0, 9), Versions(0, 9) if flexible else NEVER, fields)


@pytest.mark.parametrize("api", sorted({sample["api"] for sample in SAMPLES}))
def test_samples_of_kafka_mean_what_kafka_says(api: str) -> None:
    wrong = {
        oracle.name_of(sample): found
        for sample in SAMPLES
        if sample["api"] == api and (found := oracle.differences(sample))
    }
    assert not wrong


def test_the_samples_cover_every_version_of_every_api() -> None:
    covered = {(sample["key"], sample["dir"], sample["version"]) for sample in EXCHANGES}
    assert covered == {
        (api.key, direction, version)
        for api in schema.apis().values()
        for direction in ("request", "response")
        for version in range(api.versions.first, api.versions.last + 1)
    }


# Messages without a field that one layout has and another lacks may be whole in one when cut in the other.
TWO_LAYOUTS = {("ReadShareGroupStateSummary", "response", 0)}


@pytest.mark.no_cover  # the same ways, thousands of times
@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.deep), 3])
def test_a_body_cut_anywhere_is_a_decode_error(every: int) -> None:
    for sample in EXCHANGES[::every]:
        body = bytes.fromhex(sample["hex"])
        if (sample["api"], sample["dir"], sample["version"]) in TWO_LAYOUTS:
            continue
        step = max(1, len(body) // 12)
        for length in {*range(0, len(body), step), *range(max(0, len(body) - 8), len(body))}:
            with pytest.raises(DecodeError) as caught:
                decode_sample(sample, body[:length])
            assert 0 <= caught.value.offset <= length, oracle.name_of(sample)
            assert isinstance(caught.value.partial, dict)
            assert caught.value.expected


@pytest.mark.no_cover  # the same ways, thousands of times
def test_changed_bytes_give_a_value_or_a_decode_error() -> None:
    print(f"seed {SEED}")
    source = random.Random(SEED)
    outcomes = {True: 0, False: 0}
    for sample in EXCHANGES:
        body = bytearray.fromhex(sample["hex"])
        for _ in range(8):
            changed = bytearray(body)
            for _ in range(source.randint(1, 3)):
                place = source.randrange(len(changed) + 1)
                match source.randrange(3):
                    case 0:
                        changed[place : place + 1] = source.choice((b"\xff", b"\x7f", b"\x80", b"\x00", b"\x01"))
                    case 1:
                        changed[place:place] = source.randbytes(source.randint(1, 4))
                    case 2:
                        del changed[place : place + source.randint(1, 4)]
            try:
                decoded = decode_sample(sample, bytes(changed))
            except DecodeError:
                outcomes[False] += 1
            else:
                assert isinstance(decoded, dict)
                outcomes[True] += 1
    assert all(outcomes.values())


@given(st.integers(-1, 95), st.integers(-1, 20), st.booleans(), st.binary(max_size=300))
def test_any_bytes_give_a_value_or_a_decode_error(api_key: int, version: int, response: bool, body: bytes) -> None:
    try:
        (decoders.decode_response if response else decoders.decode_request)(api_key, version, body)
    except DecodeError:
        return


def test_an_error_says_where_and_what_and_keeps_what_was_read() -> None:
    body = struct.pack(">ii", 7, 1) + b"abc"  # of a Metadata response: throttleTimeMs, one broker, half its id
    with pytest.raises(DecodeError) as caught:
        decoders.decode_response(3, 3, body)
    error = caught.value
    assert (error.path, error.offset) == ("brokers[0].nodeId", 8)
    assert error.expected == "4 bytes of int32, 3 are left"
    assert error.partial == {"throttleTimeMs": 7, "brokers": [{}]}
    assert str(error) == "brokers[0].nodeId: expected 4 bytes of int32, 3 are left at offset 8"


@pytest.mark.parametrize("count", [2**31 - 1, 5, -2])
def test_a_count_beyond_the_bytes_is_refused_before_anything_is_made(count: int) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(message(field("numbers", "[]int8")), 0, struct.pack(">i", count) + b"1234")
    assert (caught.value.path, caught.value.offset, caught.value.partial) == ("numbers", 0, {})


def test_a_message_of_more_elements_than_memory_is_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkascope.decoders.interpreter.MAX_ELEMENTS", 5)
    rows = message(field("rows", "[]Row", field("numbers", "[]int8")))
    assert decode(rows, 0, struct.pack(">iii", 1, 4, 0))[0] == {"rows": [{"numbers": [0, 0, 0, 0]}]}
    with pytest.raises(DecodeError, match="at most 5 elements") as caught:
        decode(rows, 0, struct.pack(">ii3bi", 2, 3, 0, 0, 0, 1) + b"\0")
    assert caught.value.path == "rows[1].numbers"


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("type_", ["string", "bytes", "[]int32"])
def test_null_is_refused_where_the_definition_has_none(type_: str, flexible: bool) -> None:
    null = b"\0" if flexible else b"\xff" * (2 if type_ == "string" else 4)
    body = null + b"\0" * flexible
    allowed = message(field("it", type_, nullable=Versions(3, 9)), flexible=flexible)
    assert decode(allowed, 3, body) == ({"it": None}, len(body))
    with pytest.raises(DecodeError, match="must not be null"):
        decode(allowed, 2, body)


def test_numbers() -> None:
    types = ("int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "bool")
    layout = message(*(field(type_, type_) for type_ in types))
    decoded, end = decode(layout, 0, struct.pack(">bhiqHId?", -1, -2, -3, -4, 65535, 2**32 - 1, -0.0, True))
    assert decoded == dict(zip(types, (-1, -2, -3, -4, 65535, 2**32 - 1, 0.0, True), strict=True))
    assert str(decoded["float64"]) == "-0.0"
    assert decoded["bool"] is True
    assert end == 30


def test_text_that_is_not_utf_8_shows_its_bytes() -> None:
    assert decode(message(field("it", "string")), 0, b"\0\3a\xffb") == ({"it": "a\\xffb"}, 5)


def test_varints() -> None:
    assert BytesReader(b"\xff\xff\xff\xff\x0f").uvarint("it") == 2**32 - 1
    for bad in (b"\xff\xff\xff\xff\x10", b"\x80" * 6, b"\x80", b""):
        with pytest.raises(DecodeError):
            BytesReader(bad).uvarint("it")


def test_tagged_fields() -> None:
    layout = message(
        field("plain", "int8"),
        field("known", "int16", tagged=Versions(0, 9), tag=1, default=5),
        field("list", "[]int8", tagged=Versions(0, 9), tag=2, default=()),
        field("inner", "Inner", field("x", "int8", default=3), tagged=Versions(0, 9), tag=3, default={}),
        flexible=True,
    )
    absent = {"plain": 1, "known": 5, "list": [], "inner": {"x": 3}}
    assert decode(layout, 0, b"\1\0") == (absent, 2)
    assert decode(layout, 0, b"\1\2\1\2\0\7\x63\2hi") == (absent | {"known": 7, "_tags": {99: b"hi"}}, 10)
    first, second = decode(layout, 0, b"\1\0")[0], decode(layout, 0, b"\1\0")[0]
    assert first["list"] is not second["list"]
    with pytest.raises(DecodeError, match="fill its 3 bytes"):
        decode(layout, 0, b"\1\1\1\3\0\7\0")
    with pytest.raises(DecodeError, match="2 bytes of int16, 1 are left"):
        decode(layout, 0, b"\1\1\1\1\0\7\0")


def test_a_nullable_struct_says_whether_it_is_there() -> None:
    inner = field("inner", "Inner", field("x", "int8"), nullable=Versions(0, 9))
    assert decode(message(inner), 0, b"\xff") == ({"inner": None}, 1)
    assert decode(message(inner), 0, b"\1\7") == ({"inner": {"x": 7}}, 2)
    tagged = field("inner", "Inner", field("x", "int8"), nullable=Versions(0, 9), tagged=Versions(0, 9), tag=0)
    assert decode(message(tagged, flexible=True), 0, b"\1\0\1\0") == ({"inner": None}, 4)
    assert decode(message(tagged, flexible=True), 0, b"\1\0\3\1\7\0") == ({"inner": {"x": 7}}, 6)


def test_bytes_behind_the_message_are_left() -> None:
    assert decode(message(field("it", "int8")), 0, b"\0\1rest", 1) == ({"it": 1}, 2)
    assert decoders.decode_request(12, 0, bytes.fromhex("00016700000001000161") + b"rest")["memberId"] == "a"


def test_a_version_the_definition_lacks_is_a_decode_error() -> None:
    with pytest.raises(DecodeError, match="a version of Sample in 0-9, not 10"):
        decode(message(), 10, b"")


def test_the_bytes_choose_the_layout_or_it_is_said_that_they_do_not() -> None:
    short = message(field("a", "int8"))
    long = message(field("a", "int8"), field("b", "int8"))
    swapped = message(field("b", "int8"), field("a", "int8"))
    assert decode_by_bytes([(long, 0), (short, 0)], b"\1") == ({"a": 1}, 1)
    assert decode_by_bytes([(long, 0), (short, 0)], b"\1\2") == ({"a": 1, "b": 2}, 2)
    assert decode_by_bytes([(long, 0), (swapped, 0)], b"\1\1") == ({"a": 1, "b": 1}, 2)
    with pytest.raises(DecodeError, match="they fit 2"):
        decode_by_bytes([(long, 0), (swapped, 0)], b"\1\2")
    assert decode_by_bytes([(long, 0), (short, 0)], b"\1\2\3") == ({"a": 1, "b": 2}, 2)
    with pytest.raises(DecodeError) as caught:
        decode_by_bytes([(long, 0), (short, 0)], b"")
    assert caught.value.path == "a"


def test_share_group_state_summaries_of_both_releases_are_read() -> None:
    head = bytes.fromhex("02" + "11" * 16 + "02" + "00000003" + "0000" + "00" + "00000009")
    old = decoders.decode_response(87, 0, head + struct.pack(">q", 77) + b"\0\0\0")
    new = decoders.decode_response(87, 0, head + struct.pack(">iq", 4, 77) + b"\0\0\0")
    partition = {"partition": 3, "errorCode": 0, "errorMessage": None, "stateEpoch": 9, "startOffset": 77}
    assert old["results"][0]["partitions"] == [partition]
    assert new["results"][0]["partitions"] == [partition | {"leaderEpoch": 4}]
