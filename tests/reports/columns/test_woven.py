from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkascope.decoders.characters import safe_text
from kafkascope.reports.columns.text import iso_times
from kafkascope.reports.columns.woven import Numbers, Runs, Strings, Texts, Times, woven
from kafkascope.reports.vocabulary.tables import TIME


def members(name: str, values: pa.Array) -> list[str]:
    return list(woven(Strings(values, name)).to_pylist())


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40), st.text(max_size=20).map(str.encode)), max_size=20))
def test_a_member_is_text_where_the_bytes_are_and_hex_elsewhere(values: list[bytes | None]) -> None:
    for value, member in zip(values, members("key", pa.array(values, pa.binary())), strict=True):
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
    text = members("value", pa.array([every.encode()], pa.binary()))[0]
    assert safe_text(text) == text
    assert json.loads("{" + text + "}") == {"value": every}
    assert "é" in text
    assert "\U00010123" in text


def test_surrogates_and_overlong_sequences_are_no_text() -> None:
    bad = [b"\xed\xa0\x80", b"\xc0\x80", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xc2", b"\x80"]
    for value, member in zip(bad, members("v", pa.array(bad, pa.binary())), strict=True):
        assert member == f'"v_hex":"{value.hex()}"'


def test_a_slice_has_the_members_of_its_own_rows() -> None:
    values = pa.array([b"a", None, b"ccc", b"\xff"], pa.binary())
    assert members("v", values.slice(2)) == ['"v":"ccc"', '"v_hex":"ff"']


@given(st.lists(st.none() | st.text(max_size=20), min_size=1), st.integers(0, 3))
def test_strings_are_those_of_json(values: list[str | None], cut: int) -> None:
    column = pa.chunked_array([pa.array(part, pa.string()) for part in (values[:cut], values[cut:])])
    found = woven(Strings(column)).to_pylist()
    assert [json.loads(text) for text in found] == values
    assert [safe_text(text) for text in found] == found


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1))
@example([-(2**63), 2**63 - 1, -10, -9, -1, 0, 9, 10, 99, 100, None])
def test_numbers_are_decimal_digits(values: list[int | None]) -> None:
    expected = ["null" if value is None else str(value) for value in values]
    assert woven("", Numbers(pa.array(values, pa.int64()))).to_pylist() == expected


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint16(), pa.uint32()])
def test_numbers_may_be_of_fewer_bits(kind: pa.DataType) -> None:
    least = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** (kind.bit_width - 1))
    most = 2 ** (kind.bit_width - (least < 0)) - 1
    assert woven("<", Numbers(pa.array([least, None, most], kind))).to_pylist() == [f"<{least}", "<null", f"<{most}"]


texts = st.lists(st.tuples(st.none() | st.text(max_size=9), st.sampled_from(["", "a", "zwölf"])), min_size=1)


@given(texts, st.sampled_from([pa.string(), pa.large_string()]), st.integers(0, 3))
def test_columns_and_constants_stand_side_by_side(
    rows: list[tuple[str | None, str]], kind: pa.DataType, cut: int
) -> None:
    column = pa.chunked_array([pa.array([text for text, _ in part], kind) for part in (rows[:cut], rows[cut:])])
    distinct = ["", "a", "zwölf"]
    codes = np.array([distinct.index(other) for _, other in rows])
    found = woven("{", column, "é", column, Texts.coded(codes, distinct), "}").to_pylist()
    for (text, other), line in zip(rows, found, strict=True):
        bare = "null" if text is None else text
        assert line == f"{{{bare}é{bare}{other}}}"


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1))
@example([-(2**63), -1, 0, 951_782_399_999_999_999, 951_868_800_000_000_000, 2**63 - 1, None])
def test_times_are_those_that_arrow_writes(nanoseconds: list[int | None]) -> None:
    times = pa.array(nanoseconds, pa.int64()).cast(TIME)
    expected = ["null" if text is None else f'"{text}"' for text in iso_times(times).to_pylist()]
    assert woven("", Times(times)).to_pylist() == expected


def test_what_has_no_place_among_the_distinct_is_null() -> None:
    assert woven(Texts.coded(np.array([1, -1, 0]), ["a", "b"])).to_pylist() == ["b", "null", "a"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_no_rows_are_no_texts(kind: pa.DataType) -> None:
    assert woven("a", pa.array([], kind), "b").to_pylist() == []
    assert woven(Strings(pa.array([], pa.binary()), "key"), Texts.coded(np.zeros(0, np.int64), [])).to_pylist() == []


@given(st.lists(st.lists(st.text(max_size=5), max_size=4), max_size=8), st.sampled_from(["", ",", "; "]))
def test_runs_have_the_separator_between_their_texts(rows: list[list[str]], separator: str) -> None:
    texts = pa.array([text for row in rows for text in row], pa.string())
    counts = np.array([len(row) for row in rows], np.int64)
    if rows:
        whole = woven(
            Texts.coded(np.zeros(len(rows), np.int64), ["é"]), "[", Runs(counts, separator, "<", texts, ">"), "]"
        )
        assert whole.to_pylist() == [f"é[{separator.join(f'<{text}>' for text in row)}]" for row in rows]


def test_runs_may_be_of_runs() -> None:
    inner = Runs(np.array([2, 0, 1]), ",", pa.array(["a", "b", "c"]))
    outer = Runs(np.array([0, 2, 1, 0]), "; ", "(", inner, ")")
    assert woven(outer, ".").to_pylist() == [".", "(a,b); ().", "(c).", "."]
