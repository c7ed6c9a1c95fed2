from __future__ import annotations

import datetime
import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.decoders.characters import safe_text
from kafkascope.reports.columns.text import clock_times, epoch_times, iso_times, json_members

TIME = pa.timestamp("ns", tz="UTC")


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40), st.text(max_size=20).map(str.encode)), max_size=20))
def test_a_member_is_text_where_the_bytes_are_and_hex_elsewhere(values: list[bytes | None]) -> None:
    for value, member in zip(values, json_members("key", pa.array(values, pa.binary())).to_pylist(), strict=True):
        parsed = json.loads("{" + member + "}")
        assert len(parsed) == 1
        if value is None:
            assert parsed == {"key": None}
            continue
        try:
            assert parsed == {"key": value.decode()}
        except UnicodeDecodeError:
            assert parsed == {"key_hex": value.hex()}


def test_no_member_holds_a_character_that_hides() -> None:
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x10400)]))
    text = json_members("value", pa.array([every.encode()], pa.binary()))[0].as_py()
    assert safe_text(text) == text
    assert json.loads("{" + text + "}") == {"value": every}
    assert "é" in text
    assert "\U00010123" in text


def test_surrogates_and_overlong_sequences_are_no_text() -> None:
    bad = [b"\xed\xa0\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xc2", b"\x80"]
    for value, member in zip(bad, json_members("v", pa.array(bad, pa.binary())).to_pylist(), strict=True):
        assert member == f'"v_hex":"{value.hex()}"'


def test_a_slice_has_the_members_of_its_own_rows() -> None:
    values = pa.array([b"a", None, b"ccc", b"\xff"], pa.binary())
    assert json_members("v", values.slice(2)).to_pylist() == ['"v":"ccc"', '"v_hex":"ff"']


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**63 - 1)), max_size=20))
def test_times_are_those_of_the_calendar(nanoseconds: list[int | None]) -> None:
    times = pa.array(nanoseconds, pa.int64()).cast(TIME)
    written = (write(times).to_pylist() for write in (iso_times, epoch_times, clock_times))
    for value, iso, epoch, clock in zip(nanoseconds, *written, strict=True):
        if value is None:
            assert (iso, epoch, clock) == (None, None, None)
            continue
        seconds, rest = divmod(value, 1_000_000_000)
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
        assert iso == f"{moment.isoformat()}.{rest:09d}Z"
        assert epoch == f"{seconds}.{rest:09d}"
        assert clock == iso[11:26]
