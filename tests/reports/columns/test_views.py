"""Rows by key, and the registry of views."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.reports.columns.views import Known, by_key
from kafkascope.reports.views.registry import SCHEMAS_WITH_VIEWS, VIEWS, results_of
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, RESULTS, SCHEMAS


@given(
    keys=st.lists(st.one_of(st.none(), st.sampled_from("abcdef")), max_size=60),
    at_once=st.integers(1, 70),
    chunk=st.integers(1, 70),
)
def test_every_key_comes_once_with_all_its_rows_in_order(keys: list[str | None], at_once: int, chunk: int) -> None:
    rows = pa.table({"key": pa.array(keys, pa.string()), "row": pa.array(range(len(keys)), pa.int64())})
    rows = pa.concat_tables([rows.slice(0, 0), *(rows.slice(i, chunk) for i in range(0, len(keys), chunk))])
    got = [(key, part.to_pylist()) for key, part in by_key(rows, "key", at_once)]
    distinct = [*sorted({key for key in keys if key is not None}), *[None] * (None in keys)]
    assert got == [(key, [{"key": k, "row": i} for i, k in enumerate(keys) if k == key]) for key in distinct]


def test_names_are_known_as_bodies_write_ids() -> None:
    assert Known.of({"id:abc": "orders"}).topics["abc"] == "orders"


def test_views_have_names_of_their_own_and_make_tables_with_a_schema() -> None:
    assert not VIEWS.keys() & ALL_SCHEMAS.keys()
    assert not SCHEMAS.keys() & RESULTS.keys()
    assert set(results_of(VIEWS)) == RESULTS.keys()
    for name, make in VIEWS.items():
        view = make()
        assert view.name == name
        assert view.needs <= {*SCHEMAS, "terms", "ready", "told_offsets"}
        assert view.schema.get_field_index(view.key) >= 0
        assert SCHEMAS_WITH_VIEWS[name] == view.schema
        empty = view.result(view.schema.empty_table(), Known())
        assert all(table.num_rows == 0 for table in empty.values())
