"""Parts of messages: that they are all of the bytes, each once, and mean what the decoder says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from kafkascope import decoders
from kafkascope.decoders.interpreter import DecodeError
from kafkascope.decoders.parts import Dissection, Kind, Part, dissect_frame
from kafkascope.decoders.record_parts import add_batches
from tests.decoders import oracle
from tests.decoders.test_interpreter import EXCHANGES, SEED
from tests.decoders.written_messages import framed


def asked(sample: oracle.Sample) -> tuple[int, int] | None:
    """Of a response what it answers."""
    version: int = sample["requested_version"] if "requested_version" in sample else sample["version"]
    return None if sample["dir"] == "request" else (sample["key"], version)


def dissected(sample: oracle.Sample, frame: bytes) -> Dissection:
    return dissect_frame(frame, response_to=asked(sample))


def end_of_heads(parts: Iterable[Part], at: int) -> int:
    """Where the heads of the parts end; each must begin where the one before ended."""
    for whole in parts:
        for part in whole.walk():
            assert part.offset == at, part
            assert part.sent or not part.head
            at += part.head
        assert whole.end == at
    return at


def meant(part: Part) -> Any:
    """The value that the reference decoder gives for a part."""
    if part.kind is Kind.ARRAY:
        assert part.value == len(part.parts)
        return list(map(meant, part.parts))
    if part.kind is Kind.VALUE:
        return part.value
    members: dict[str, Any] = {}
    for member in part.parts:
        if member.kind is not Kind.TAGS:
            members[member.name] = meant(member)
            continue
        assert member.value == sum(tagged.sent for tagged in member.parts)
        for tagged in member.parts:
            if tagged.definition is None:
                members.setdefault("_tags", {})[int(tagged.name.removeprefix("tag "))] = tagged.value
            else:
                members[tagged.name] = meant(tagged)
    return members


def test_the_parts_of_every_version_are_all_bytes_and_mean_what_the_decoder_says() -> None:
    for sample in EXCHANGES:
        frame = bytes.fromhex(sample["frame_hex"])
        found = dissected(sample, frame)
        assert found.body is not None
        assert found.error is None, oracle.name_of(sample)
        assert end_of_heads([found.size, found.header, found.body], 0) == len(frame), oracle.name_of(sample)
        decoded = decoders.decode_frame(frame, response_to=asked(sample))
        assert repr(meant(found.header)) == repr(decoded.header)
        assert sorted(meant(found.body)) == sorted(decoded.body or {})
        assert decoders.to_json(_sorted(meant(found.body))) == decoders.to_json(_sorted(decoded.body))


def _sorted(value: Any) -> Any:
    """With the members of structs in order of names: where a tag lies is not where its field is declared."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value, key=str)}
    return [_sorted(element) for element in value] if isinstance(value, list) else value


@pytest.mark.no_cover  # the same ways, thousands of times
def test_the_parts_of_a_frame_cut_anywhere_end_where_the_trouble_is() -> None:
    for sample in EXCHANGES[::7]:
        frame = bytes.fromhex(sample["frame_hex"])
        for length in {*range(8, len(frame), max(1, len(frame) // 30)), len(frame) - 1}:
            found = dissected(sample, frame[:length])
            assert found.error is not None, oracle.name_of(sample)
            parts = [found.size, found.header, *([found.body] if found.body else [])]
            assert end_of_heads(parts, 0) == found.end <= length


FETCH_12 = bytes.fromhex("0001 000c 00000007 0001 63 00" + "ffffffff" + "00" * 21 + "01 01 01")  # without its tags


@pytest.mark.parametrize(("tags", "sent", "cluster"), [("00", False, None), ("01 00 02 02 63", True, "c")])
def test_absent_tagged_fields_are_told_from_those_that_were_sent(tags: str, sent: bool, cluster: str | None) -> None:
    found = dissect_frame(framed(FETCH_12 + bytes.fromhex(tags)))
    assert found.body is not None
    assert found.error is None
    tagged = found.body.parts[-1]
    assert (tagged.type, tagged.value) == ("TAGGED_FIELDS", int(sent))
    (field,) = tagged.parts
    assert (field.name, field.type, field.value, field.sent) == ("clusterId", "COMPACT_NULLABLE_STRING", cluster, sent)
    assert field.head == (4 if sent else 0)


def test_too_little_for_a_header_is_a_decode_error() -> None:
    with pytest.raises(DecodeError, match="8 bytes at least, 7 are there"):
        dissect_frame(bytes(7))


def test_batches_and_records_are_parts_too() -> None:
    kinds: Counter[str] = Counter()
    for sample in EXCHANGES:
        if "records" not in sample:
            continue
        frame = bytes.fromhex(sample["frame_hex"])
        found = dissected(sample, frame)
        assert found.body is not None
        add_batches(found.body, frame)
        assert end_of_heads([found.size, found.header, found.body], 0) == len(frame), oracle.name_of(sample)
        for field in found.body.walk():
            if field.definition is None or field.definition.type != "records" or not field.parts:
                continue
            held = frame[field.offset + field.head : field.end]
            read = decoders.decode_records(held)
            told = [part for part in field.parts if part.type != "incomplete batch"]
            assert len(told) == len(read)
            for part, batch in zip(told, read, strict=True):
                values = {one.name: one.value for one in part.parts}
                assert (values["crc"], values["magic"]) == (batch["crc"], batch["magic"])
                last = part.parts[-1]
                kinds[last.type] += 1
                if last.kind is Kind.ARRAY:
                    keys = [[one.value for one in record.parts if one.name == "key"] for record in last.parts]
                    assert keys == [[record["key"]] for record in batch["records"]]
    assert kinds["Records"] > 10
    assert kinds["compressed records"] > 10
    assert kinds["BYTES"] > 10


@pytest.mark.no_cover  # the same ways, thousands of times
def test_records_of_any_bytes_are_parts_to_the_last_byte() -> None:
    print(f"seed {SEED}")
    source = random.Random(SEED)
    fields = [(f, s) for s in EXCHANGES if "records" in s for f in [bytes.fromhex(s["frame_hex"])]]
    for frame, sample in fields * 10:
        found = dissected(sample, frame)
        assert found.body is not None
        places = [part for part in found.body.walk() if part.type.endswith("RECORDS") and part.value]
        changed = bytearray(frame)
        for part in places:
            changed[source.randrange(part.end - len(part.value), part.end)] = source.choice((0, 1, 127, 128, 255))  # type: ignore[arg-type]
        add_batches(found.body, bytes(changed))
        assert end_of_heads([found.size, found.header, found.body], 0) == len(frame)
