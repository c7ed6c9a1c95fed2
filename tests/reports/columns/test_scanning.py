"""Some columns of some rows, the same of a table in memory and of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import acero
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


@pytest.mark.parametrize("in_files", [False, True])
def test_batches_have_rows_and_no_more_than_wanted(tmp_path: Path, in_files: bool) -> None:
    rows = pa.table({"at": range(100_000)})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=1000)
    table = ds.dataset(tmp_path / "rows.parquet") if in_files else rows
    assert not list(scanning.batches(table, ["at"], AT < 0))
    assert not list(scanning.batches(rows.slice(0, 0), ["at"], None))
    for where in (None, AT > 70_000):
        found = list(scanning.batches(table, ["at"], where, batch_size=700))
        assert {0 < batch.num_rows <= 700 for batch in found} == {True}
        assert pa.Table.from_batches(found).equals(rows if where is None else rows.filter(where))


def test_of_a_table_in_memory_no_other_columns_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[str]] = []
    options = acero.TableSourceNodeOptions

    def noted(rows: pa.Table) -> acero.TableSourceNodeOptions:
        read.append(rows.schema.names)
        return options(rows)

    monkeypatch.setattr("kafkascope.reports.columns.scanning.acero.TableSourceNodeOptions", noted)
    list(scanning.batches(ROWS, ["at"], (AT > 0) & NAME.is_valid()))
    list(scanning.batches(ds.dataset(ROWS), {"twice": FLAT}, AT > 0))
    assert read == [["at", "name"], ["at", "flat"]]
