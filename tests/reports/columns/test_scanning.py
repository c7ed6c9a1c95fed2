"""Some columns of some rows, the same of a table in memory and of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset as ds

from kafkascope.reports.columns import scanning

ROWS = pa.table({"at": [1, 2, 3], "name": ["a", "b", None], "flat": [True, False, None], "more": ["x", "at", "y"]})
AT, NAME, FLAT = (pc.field(name) for name in ("at", "name", "flat"))


@pytest.mark.parametrize("in_files", [False, True])
@pytest.mark.parametrize(
    ("columns", "where", "rows"),
    [
        (["at"], NAME == "b", [{"at": 2}]),
        (["at"], FLAT & NAME.isin(["a", "more"]), [{"at": 1}]),
        (["name", "at"], NAME.is_null(), [{"name": None, "at": 3}]),
        ({"twice": AT + AT, "is": NAME == "a"}, AT < 3, [{"twice": 2, "is": True}, {"twice": 4, "is": False}]),
        (["at"], None, [{"at": 1}, {"at": 2}, {"at": 3}]),
        (None, AT > 2, [{"at": 3, "name": None, "flat": None, "more": "y"}]),
        (None, None, ROWS.to_pylist()),
    ],
)
def test_what_is_asked_for(
    tmp_path: Path,
    in_files: bool,
    columns: Sequence[str] | Mapping[str, pc.Expression] | None,
    where: pc.Expression | None,
    rows: list[dict[str, object]],
) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    table = ds.dataset(tmp_path / "rows.parquet") if in_files else ds.dataset(ROWS)
    found = pa.Table.from_batches(scanning.batches(table, columns, where))
    assert found.to_pylist() == rows


def test_of_a_table_in_memory_no_other_columns_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[str]] = []
    table = ds.dataset(ROWS)

    def noted(rows: pa.Table) -> ds.Dataset:
        read.append(rows.schema.names)
        return ds.InMemoryDataset(rows)

    monkeypatch.setattr("kafkascope.reports.columns.scanning.ds.dataset", noted)
    list(scanning.batches(table, ["at"], (AT > 0) & NAME.is_valid()))
    list(scanning.batches(table, {"twice": FLAT}, AT > 0))
    assert read == [["at", "name"], ["at", "flat"]]
