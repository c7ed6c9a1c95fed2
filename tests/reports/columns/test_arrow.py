"""Numbers that stand for what is equal, and values as rows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from kafkascope.reports.columns.arrow import (
    among,
    distinct_columns,
    distinct_numbers,
    equal_columns,
    first_of_equals,
    one_array,
    table_of,
)
from kafkascope.sniffer.columns import I64

near = st.integers(-3, 3)
anywhere = st.integers(-(2**63), 2**63 - 1)
numbers = st.one_of(near, anywhere, st.sampled_from([-(2**63), 2**63 - 1, 0, 1]))


@given(st.one_of(st.lists(near), st.lists(anywhere), st.lists(numbers)))
def test_distinct_numbers_are_those_of_numpy(listed: list[int]) -> None:
    values = np.array(listed, np.int64)
    distinct, place = distinct_numbers(values)
    expected, expected_place = np.unique(values, return_inverse=True)
    assert distinct.tolist() == expected.tolist()
    assert place.tolist() == expected_place.tolist()


@given(arrays(np.int64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=numbers))
def test_equal_columns_have_one_number_in_the_order_of_the_columns(
    keys: I64,
) -> None:
    columns = [tuple(column) for column in keys.T.tolist()]
    distinct = sorted(set(columns))
    assert equal_columns(keys).tolist() == [distinct.index(column) for column in columns]
    found, place = distinct_columns(keys)
    assert [tuple(column) for column in found.T.tolist()] == distinct
    assert place.tolist() == equal_columns(keys).tolist()


@given(st.lists(st.integers(0, 5)).map(sorted))
def test_first_of_equals_is_the_place_where_each_would_be_found(listed: list[int]) -> None:
    assert first_of_equals(np.array(listed, np.int64)).tolist() == [listed.index(number) for number in listed]


def test_no_columns_have_no_numbers() -> None:
    assert equal_columns(np.zeros((3, 0), np.int64)).tolist() == []
    assert equal_columns(np.zeros((0, 4), np.int64)).tolist() == [0, 0, 0, 0]


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    sizes: list[int]


@dataclass(frozen=True, slots=True)
class Whole:
    at: int | None
    parts: tuple[Part, ...] = ()
    names: list[str] | None = field(default=None)
    hidden: int = 0


SCHEMA = pa.schema(
    [
        ("rank", pa.int8()),
        ("at", pa.timestamp("ns", "UTC")),
        ("parts", pa.list_(pa.struct([("name", pa.string()), ("sizes", pa.list_(pa.int32()))]))),
        ("names", pa.list_(pa.string())),
    ]
)


def test_values_are_rows_with_the_columns_of_the_schema() -> None:
    values = [Whole(1, (Part("a", [1, 2]), Part("b", []))), Whole(None, (), ["x"]), Whole(2, (Part("c", [3]),), [])]
    table = table_of(values, SCHEMA, rank=range(3))
    rows = [{"rank": rank, **dataclasses.asdict(value)} for rank, value in enumerate(values)]
    assert table.equals(pa.Table.from_pylist(rows, schema=SCHEMA))


def test_no_values_are_no_rows() -> None:
    assert table_of([], SCHEMA, rank=[]).equals(SCHEMA.empty_table())


def test_a_column_of_one_chunk_is_not_copied() -> None:
    values = pa.array(["a", None, "ccc"], pa.string())
    for column in (values, pa.chunked_array([values]), pa.chunked_array([values]).slice(1)):
        array = one_array(column)
        assert array.to_pylist() == column.to_pylist()
        assert array.buffers()[2].address == values.buffers()[2].address
    parts = pa.chunked_array([values, values])
    assert one_array(parts).to_pylist() == parts.to_pylist()


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.dictionary(pa.int32(), pa.timestamp("ns", "UTC"))])
def test_a_column_without_any_part_is_an_empty_array(kind: pa.DataType) -> None:
    empty = one_array(pa.chunked_array([], kind))
    assert (empty.to_pylist(), empty.type) == ([], kind)


def test_a_text_is_among_some_or_none() -> None:
    rows = pa.table({"name": pa.array(["a", None, "b"])})
    assert rows.filter(among("name", ["a", "c"])).num_rows == 1
    assert rows.filter(among("name", ["a", None])).num_rows == 2
    assert rows.filter(among("name", [])).num_rows == 0
