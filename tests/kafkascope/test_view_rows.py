"""Rows of views on their way through Spark's shuffle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.out.output import Output
from kafkascope.out.parts import PartWriter
from kafkascope.reports.columns.views import partition_of
from kafkascope.reports.vocabulary.tables import GROUP_ROWS
from kafkascope.spark import view_rows

NAME = "group_rows"


def messages(groups: list[str]) -> pa.Table:
    rows: list[dict[str, Any]] = [
        {"group_id": group, "message": {"at": i, "connection": i}} for i, group in enumerate(groups)
    ]
    return pa.Table.from_pylist(rows, schema=GROUP_ROWS)


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), max_size=50), st.integers(1, 20))
def test_equal_keys_have_one_partition(keys: list[str | None], partitions: int) -> None:
    of = partition_of(pa.chunked_array([pa.array(keys, pa.string())]), partitions)
    assert len(of) == len(keys)
    assert len({*zip(keys, of.tolist(), strict=True)}) == len({*keys})
    assert all(0 <= one < partitions for one in of)


def test_many_keys_spread() -> None:
    of = partition_of(pa.chunked_array([pa.array([f"group-{i}" for i in range(4000)])]), 8)
    assert min(of.tolist().count(i) for i in range(8)) > 300


def test_parcels_bring_every_row_to_the_partition_of_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkascope.out.parts._ROW_GROUP_BYTES", 1)
    staging = Output(str(tmp_path / "out"), overwrite=False).begin([NAME])
    writer = PartWriter(staging, 0)
    written = [messages([f"g{i}", "all"]) for i in range(20)]
    for rows in written:
        writer.write({NAME: rows})
    parts = writer.finish()
    assert [(part.table, part.rows) for part in parts] == [(NAME, 40)]
    got: dict[int, list[pa.Table]] = {}
    for batch in view_rows.read_rows(parts, staging, {}, {NAME: range(5)}):
        assert batch.schema == view_rows.SCHEMA
        for row in batch.to_pylist():
            assert row["view"] == NAME
            got.setdefault(row["partition"], []).append(view_rows.unpack(pa.py_buffer(row["parcel"])))
    tables = {place: pa.concat_tables(parcels) for place, parcels in got.items()}
    assert len(tables) > 2
    assert sum("all" in table["group_id"].to_pylist() for table in tables.values()) == 1
    everything = pa.concat_tables(tables.values())
    assert sorted(map(str, everything.to_pylist())) == sorted(map(str, pa.concat_tables(written).to_pylist()))


@pytest.mark.parametrize(("rows", "tasks"), [(1, 1), (10_000, 5), (100_000, 8), (10_000_000, 200)])
def test_there_are_as_many_tasks_as_the_rows_are_worth(rows: int, tasks: int) -> None:
    assert view_rows.places_for({"positions": rows}, 8) == {"positions": range(tasks)}


@given(st.integers(0, 10**7), st.integers(1, 10**7), st.integers(1, 64), st.none() | st.integers(1, 100))
def test_groups_have_the_first_partitions_to_themselves(
    of_groups: int, others: int, cores: int, partitions: int | None
) -> None:
    counts = {"activity": others, NAME: of_groups, "positions": others}
    places = view_rows.places_for(counts, cores, partitions)
    assert places["activity"] == places["positions"]
    many = max(place.stop for place in places.values())
    assert partitions is None or many == partitions
    if many > 1 and of_groups:
        assert [*places[NAME], *places["activity"]] == [*range(many)]
        assert len(places[NAME]) >= 1
        assert len(places["activity"]) >= 1
    else:
        assert places == dict.fromkeys(counts, range(many))
