"""Records that tasks hand on to others: who reads how many, what is counted, and what is left behind."""

from __future__ import annotations

import gzip
import stat
import statistics
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import kafkascope
from kafkascope.spark import handed_on, tasks
from tests.kafkascope.test_parity import same_tables
from tests.paths import PCAPS

BATCHES = PCAPS / "bench_batches" / "capture.pcap.gz"
PARCEL = 100_000
ENOUGH = 1_500_000


def with_small_parcels(write_tables: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """The work of a task that decodes, on whatever machine, with parcels of `PARCEL` bytes."""

    def run(*arguments: Any) -> Iterator[Any]:
        from unittest import mock

        with mock.patch("kafkascope.spark.handed_on._PARCEL_BYTES", PARCEL):
            yield from write_tables(*arguments)

    return run


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small parcels, few of them for a task; all records are handed on."""
    monkeypatch.setattr(handed_on, "RECORDS_HERE_BYTES", 0)
    monkeypatch.setattr(handed_on, "ENOUGH_BYTES", ENOUGH)
    monkeypatch.setattr(tasks, "write_tables", with_small_parcels(tasks.write_tables))


def watched(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    """Have each task that reads records write down how many bytes of how many files it was given."""
    work = handed_on.write_records
    log.mkdir()

    def run(places: Any, staging: str, options: Any) -> Iterator[Any]:
        from pyspark import TaskContext

        given = list(places)
        modes = {stat.S_IMODE(path.stat().st_mode) for path in Path(staging, "handed-on").iterdir()}
        assert modes == {0o600}
        (log / str(TaskContext.get().partitionId())).write_text(str(sum(place.size for place in given)))
        yield from work(given, staging, options)

    monkeypatch.setattr(handed_on, "write_records", run)


@pytest.mark.usefixtures("small")
def test_records_of_one_task_are_spread_over_many(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All connections in one partition, as if they were one: without this one task would read all records."""
    watched(monkeypatch, tmp_path / "log")
    out = tmp_path / "out"
    kafkascope.spark.analyze([str(BATCHES)], str(out), spark=spark, records=True, partitions=1)
    given = [int(path.read_text()) for path in (tmp_path / "log").iterdir()]
    assert len(given) >= 5
    assert max(given) <= 2 * statistics.median(given)
    assert len(list((out / "tables" / "records").iterdir())) == len(given)
    assert {path.name for path in out.iterdir()} == {"tables", "report.html", "summary.json"}
    same_tables(kafkascope.read(BATCHES, records=True), out)


def test_a_task_reads_the_records_of_its_first_bytes_itself(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched(monkeypatch, tmp_path / "log")
    kafkascope.spark.analyze([str(BATCHES)], str(tmp_path / "out"), spark=spark, records=True, partitions=1)
    assert not list((tmp_path / "log").iterdir())  # there are no more


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("told", ["by a batch", "by a record"])
def test_issues_with_records_count_wherever_issues_do(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str
) -> None:
    """Tables of connections, of issues and of findings, which tasks have written before others read records."""
    path, out = tmp_path / "capture.pcap", tmp_path / "out"
    capture = gzip.decompress(BATCHES.read_bytes())
    batches = kafkascope.read(BATCHES).arrow("batches")
    for time in pc.unique(batches["first_timestamp"].cast("int64")).to_pylist():
        capture = capture.replace(struct.pack(">q", time // 1_000_000), struct.pack(">q", 2**62))
    path.write_bytes(capture)
    if told == "by a record":
        monkeypatch.setattr(tasks, "write_tables", handing_all_on(tasks.write_tables))
    kafkascope.spark.analyze([str(path)], str(out), spark=spark, records=True, partitions=2, split_bytes=1_000_000)
    here = kafkascope.read(path, records=True)
    far = here.arrow("issues").filter(pc.equal(here.arrow("issues")["kind"], "record_time_out_of_range"))
    assert pc.sum(far["count"]).as_py() == 80_000
    same_tables(here, out)


def handing_all_on(write_tables: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """The work of a task that decodes and does not look at what batches tell of times."""

    def run(*arguments: Any) -> Iterator[Any]:
        from unittest import mock

        with mock.patch("kafkascope.reports.rows.partition_tables.are_far", return_value=False):
            yield from write_tables(*arguments)

    return run
