"""Whole numbers out of JSON: what a parser finds, of texts that are cut anywhere too."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.reports.columns.json_numbers import whole_numbers

NAMES = ["maxBytes", "acks", "max"]
VALUES = st.one_of(st.integers(-(10**18) + 1, 10**18 - 1), st.none(), st.booleans(), st.text(), st.just('"acks": 7,'))
BODIES = st.dictionaries(st.sampled_from([*NAMES, "axBytes", 'a"cks']), VALUES)


def found(*texts: str | None) -> list[list[int | None]]:
    return [column.to_pylist() for column in whole_numbers(pa.chunked_array([texts], pa.string()), NAMES)]


@given(st.lists(BODIES, max_size=5))
def test_numbers_are_those_that_were_written(bodies: list[dict[str, object]]) -> None:
    expected = [[body.get(name) if type(body.get(name)) is int else None for body in bodies] for name in NAMES]
    assert found(*map(json.dumps, bodies)) == expected


@given(st.lists(BODIES, min_size=1, max_size=4), st.integers(0, 80))
def test_of_a_text_that_is_cut_nothing_is_guessed(bodies: list[dict[str, object]], end: int) -> None:
    texts = [json.dumps(body)[:end] for body in bodies]
    expected = [[re.search(rf'"{name}": (-?[0-9]{{1,18}})[,}}]', text) for text in texts] for name in NAMES]
    assert found(*texts) == [[one and int(one[1]) for one in column] for column in expected]


@pytest.mark.parametrize("value", [str(10**18), "-", "1.5", "1e3", '"1"', "[1]", ""])
def test_what_is_no_whole_number_is_looked_for_further(value: str) -> None:
    assert found(f'{{"acks": {value}, "topics": [{{"acks": -1}}]}}')[1] == [-1]


def test_the_first_is_taken_of_parts_of_a_column() -> None:
    texts = pa.chunked_array([[None, '{"acks": 1, "acks": 2}'], [], ['{"max": 3}', ""]], pa.string())
    rows = [one.to_pylist() for one in whole_numbers(texts.slice(1), NAMES)]
    assert rows == [[None] * 3, [1, None, None], [None, 3, None]]
    assert [len(one) for one in whole_numbers(texts.slice(4), NAMES)] == [0, 0, 0]
