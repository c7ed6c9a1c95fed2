"""One capture, one answer: in this process, and on Spark with any size of split and any number of partitions.

`analyze --in-process` makes the same directory as on Spark: the tables, the summary, and the report to the letter.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import kafkascope
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, FILE
from kafkascope.spark import handed_on
from tests.paths import PCAPS

CAPTURES = sorted(str(p.relative_to(PCAPS)) for p in PCAPS.rglob("*") if ".pcap" in p.name)
GROUPS = 6


def comparable(name: str, table: pa.Table) -> pa.Table:
    """Rows in an order of their own, whatever way they were written, and by whichever run."""
    strings = [field.with_type(pa.string()) if field.type == FILE else field for field in ALL_SCHEMAS[name]]
    table = table.select(ALL_SCHEMAS[name].names).cast(pa.schema(strings))
    flat = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
    return table.take(pc.sort_indices(table, [(column, "ascending") for column in flat])).combine_chunks()


def size_of(file: str) -> int:
    return max((PCAPS / file).stat().st_size, 4096)


def cuts(file: str) -> list[tuple[int, int]]:
    """Each size of splits with each number of partitions: 64 KiB, and the whole file, as compressed ones always are."""
    size = size_of(file)
    sizes = [65536, size] if size > 65536 and not file.endswith((".gz", ".zst")) else [size]
    return [(size, into) for size in sizes for into in (1, 7)]


@pytest.mark.parametrize(
    "number", [0, 1, 2, 3, *(pytest.param(one, marks=pytest.mark.deep) for one in range(4, GROUPS))]
)
def test_spark_gives_the_tables_of_one_process(
    number: int, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files, some at a time, which saves the start of many jobs; the cuts take turns. Below, each file has all."""
    hand_on(number % 3, monkeypatch)
    files = CAPTURES[number::GROUPS]
    of_large = [(size, into) for size in (65536, max(map(size_of, files))) for into in (1, 7)]
    compare(files, [of_large[number % len(of_large)]], spark, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("file", CAPTURES)
def test_spark_gives_the_tables_of_one_process_however_cut(
    file: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_on(CAPTURES.index(file) % 3, monkeypatch)
    compare([file], cuts(file), spark, tmp_path)


def hand_on(how: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are read where their exchanges are, or all by tasks of their own, or those behind a task's first."""
    if how:
        monkeypatch.setattr(handed_on, "RECORDS_HERE_BYTES", (how - 1) * 20_000)
        monkeypatch.setattr(handed_on, "ENOUGH_BYTES", 50_000)


def compare(files: list[str], how_cut: list[tuple[int, int]], spark: Any, tmp_path: Path) -> None:
    """Analyze with splits of so many bytes and so many partitions, and compare with the tables of this process."""
    from kafkascope import in_process
    from kafkascope.spark import analyze

    paths = [str(PCAPS / file) for file in files]
    here = kafkascope.read(paths, records=True)
    whole = tmp_path / "in-process"
    in_process.analyze(paths, str(whole), records=True)
    same_tables(here, whole)
    for split_bytes, partitions in how_cut:
        out = tmp_path / f"{split_bytes}-{partitions}"
        analyze(paths, str(out), spark=spark, records=True, split_bytes=split_bytes, partitions=partitions)
        same_tables(here, out)
        assert (out / "report.html").read_text() == (whole / "report.html").read_text(), out.name
        assert summary_of(out) == summary_of(whole), out.name


def summary_of(out: Path) -> dict[str, Any]:
    """The summary of an analysis, but for its name."""
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    assert summary.pop("run")
    return summary


def same_tables(here: kafkascope.Capture, out: Path) -> None:
    """Check that a directory has the tables of a capture."""
    for name in here.tables:
        mine = comparable(name, here.arrow(name))
        theirs = comparable(name, pq.read_table(out / "tables" / name))
        assert mine.num_rows == theirs.num_rows, (name, out.name)
        different = [c for c in mine.column_names if not mine[c].equals(theirs[c])]
        assert not different, (name, out.name, different)
