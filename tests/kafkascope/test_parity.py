"""One capture, one answer: in this process, and on Spark with any size of split and any number of partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import kafkascope
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS
from tests.paths import PCAPS

CAPTURES = sorted(str(p.relative_to(PCAPS)) for p in PCAPS.rglob("*") if ".pcap" in p.name)


def comparable(name: str, table: pa.Table) -> pa.Table:
    """Rows in an order of their own, whatever way they were written."""
    table = table.select(ALL_SCHEMAS[name].names)
    flat = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
    return table.take(pc.sort_indices(table, [(column, "ascending") for column in flat])).combine_chunks()


def split_sizes(file: Path) -> list[int]:
    """64 KiB and the whole file, which is the same for small files and for compressed ones: these are never split."""
    size = max(file.stat().st_size, 4096)
    return [65536, size] if size > 65536 and file.suffix not in (".gz", ".zst") else [size]


def cuts(file: str) -> list[tuple[int, int]]:
    """Each size of splits with each number of partitions."""
    return [(size, into) for size in split_sizes(PCAPS / file) for into in (1, 7)]


@pytest.mark.parametrize("file", CAPTURES)
def test_spark_gives_the_tables_of_one_process(file: str, spark: Any, tmp_path: Path) -> None:
    """Each file with one of its cuts, in turn; the test below takes ten minutes for all."""
    of_file = cuts(file)
    compare(file, [of_file[CAPTURES.index(file) % len(of_file)]], spark, tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("file", CAPTURES)
def test_spark_gives_the_tables_of_one_process_however_cut(file: str, spark: Any, tmp_path: Path) -> None:
    compare(file, cuts(file), spark, tmp_path)


def compare(file: str, how_cut: list[tuple[int, int]], spark: Any, tmp_path: Path) -> None:
    """Analyze with splits of so many bytes and so many partitions, and compare with the tables of this process."""
    from kafkascope.spark import analyze

    path = str(PCAPS / file)
    here = kafkascope.read(path, records=True)
    for split_bytes, partitions in how_cut:
        out = tmp_path / f"{split_bytes}-{partitions}"
        analyze(
            [path], str(out), spark=spark, records=True, report=False, split_bytes=split_bytes, partitions=partitions
        )
        for name in here.tables:
            mine = comparable(name, here.arrow(name))
            theirs = comparable(name, pq.read_table(out / "tables" / name).cast(ALL_SCHEMAS[name]))
            assert mine.num_rows == theirs.num_rows, (name, out.name)
            different = [c for c in mine.column_names if not mine[c].equals(theirs[c])]
            assert not different, (name, out.name, different)
