"""Large tables by hour: the same rows, of which a query of a minute or of a group reads few row groups."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset as ds

from kafkascope import in_process
from kafkascope.out import hours
from kafkascope.out.output import Layout, Output
from kafkascope.out.parts import PartWriter
from kafkascope.out.pipeline import Analysis, sort_by_hour
from kafkascope.out.stored import stored
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, BATCHES, TIME
from kafkascope.sniffer.units import SECOND_NS
from tests.kafkascope.test_parity import comparable
from tests.paths import PCAPS

CAPTURES = [str(PCAPS / name / "capture.pcap") for name in ("killed-silent", "rebalance-storm")]  # at 5:57, at 6:04
BEGIN = datetime(2026, 11, 21, 5, tzinfo=UTC)
BEGIN_NS = int(BEGIN.timestamp()) * SECOND_NS
TOPICS = 20


def batches(count: int, hours_of_rows: int) -> pa.Table:
    """Batches of some topics in turns, evenly over hours."""
    at = BEGIN_NS + np.arange(count) * (hours_of_rows * hours.HOUR // count)
    columns = {field.name: pa.nulls(count, field.type) for field in BATCHES} | {
        "connection": pa.array(np.arange(count) % 7),
        "number": pa.array(np.arange(count)),
        "at": pa.array(at).cast(TIME),
        "topic": pa.array([f"topic-{place % TOPICS:02}" for place in range(count)]),
    }
    return pa.table(columns, schema=BATCHES)


def written(place: Path, rows: pa.Table, parts: int) -> ds.Dataset:
    """A table by hour, out of as many parts as tasks would write, each with rows of all hours."""
    output = Output(str(place), layout=Layout(by_hour=True))
    staging = output.begin(["batches"])
    found = []
    for number in range(parts):
        with PartWriter(staging, number) as writer:
            mine = rows.filter(pc.equal(pc.bit_wise_and(rows["connection"], parts - 1), number))
            writer.write({"batches": mine})
            found += writer.finish()
    bins = hours.bins("batches", [(part.file, part.row_groups) for part in found], 0)
    assert bins is not None
    output.commit(sort_by_hour(bins, staging, microseconds=False), ["batches"])
    return ds.dataset(place / "tables" / "batches", format="parquet", partitioning="hive")


def row_groups_read(table: ds.Dataset, where: pc.Expression | None = None) -> int:
    """How many row groups a reader opens that goes by directories and statistics."""
    return sum(len(fragment.split_by_row_group(where)) for fragment in table.get_fragments(where))


def test_a_query_of_a_minute_or_a_topic_reads_few_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hours, "_ROW_GROUP_BYTES", 6_000)
    rows = batches(40_000, 4)
    table = written(tmp_path / "out", rows, 4)
    everything = row_groups_read(table)
    begin = pa.scalar(BEGIN_NS + 90 * 60 * SECOND_NS).cast(TIME)
    end = pa.scalar(BEGIN_NS + 91 * 60 * SECOND_NS).cast(TIME)
    minute = (pc.field("at") >= begin) & (pc.field("at") < end)
    topic = pc.field("topic") == "topic-07"
    of_minute, of_topic, of_both = (row_groups_read(table, where) for where in (minute, topic, minute & topic))
    print(f"of {everything} row groups a minute takes {of_minute}, a topic {of_topic}, both {of_both}")
    assert of_minute * 4 * 12 == everything  # five minutes of one of four hours
    assert of_topic * 8 <= everything
    assert of_both * 4 * 12 * 8 <= everything
    assert table.to_table(filter=minute).num_rows == rows.filter(minute).num_rows == 40_000 // (4 * 60) + 1
    assert table.to_table(filter=minute & topic).num_rows == rows.filter(minute & topic).num_rows > 0
    of_hour = (pc.field("date") == "2026-11-21") & (pc.field("hour") == 6)
    assert len(list(table.get_fragments(of_hour))) == 1
    assert table.count_rows(filter=of_hour) == 10_000


def test_files_of_an_hour_have_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a task holds few rows, however many an hour has; each file has all of its hour's spans."""
    rows = batches(40_000, 1)
    monkeypatch.setattr(hours, "_FILE_BYTES", rows.nbytes // 3)
    table = written(tmp_path / "out", rows, 8)
    assert len(table.files) == 4
    assert comparable("batches", table.to_table()).equals(comparable("batches", rows))


def test_rows_without_a_time_are_where_hive_has_null(tmp_path: Path) -> None:
    rows = batches(10, 1)
    place = rows.schema.get_field_index("at")
    table = written(tmp_path / "out", pa.concat_tables([rows, rows.set_column(place, "at", pa.nulls(10, TIME))]), 1)
    assert table.count_rows() == 20
    assert table.count_rows(filter=pc.field("hour").is_null()) == 10
    assert table.count_rows(filter=pc.field("at").is_null()) == 10


def test_times_in_no_order_make_no_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hours, "MOST_HOURS", 1)
    analysis = in_process.analyze(CAPTURES, str(tmp_path / "out"), by_hour=True, report=False)
    remarks = "\n".join(analysis.remarks())
    assert "exchanges, partitions, tcp_health: all rows are in date=__HIVE_DEFAULT_PARTITION__" in remarks
    (directory,) = (tmp_path / "out" / "tables" / "exchanges").iterdir()
    assert directory.name == "date=__HIVE_DEFAULT_PARTITION__"
    flat = batches(1000, 2)
    ((row_group, rows),) = hours.by_hour("batches", flat)
    assert row_group is None
    assert rows.equals(flat)
    assert hours.bins("batches", [("a", [hours.RowGroup((1,), 1), None])], 0) is None


def test_a_capture_of_days_with_little_in_it_is_by_hour_too(tmp_path: Path) -> None:
    """Its row groups are of many hours, and are cut at the end: nobody wants a row group for a few rows."""
    rows = batches(960, 240)
    table = written(tmp_path / "out", rows, 2)
    assert len(table.files) == 240
    assert comparable("batches", table.to_table()).equals(comparable("batches", rows))
    assert table.count_rows(filter=(pc.field("date") == "2026-11-30") & (pc.field("hour") == 3)) == 4


@pytest.mark.parametrize(("on_spark", "microseconds"), [(False, True), (True, False)])
def test_the_rows_and_answers_are_the_same(
    on_spark: bool, microseconds: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    analyses: list[Analysis] = []
    for by_hour in (False, True):
        out = str(tmp_path / str(by_hour))
        how: dict[str, Any] = {"records": True, "microseconds": microseconds, "by_hour": by_hour}
        if on_spark:
            from kafkascope.spark import analyze

            analyses.append(analyze(CAPTURES, out, spark=request.getfixturevalue("spark"), partitions=3, **how))
        else:
            analyses.append(in_process.analyze(CAPTURES, out, **how))
    assert analyses[0].rows == analyses[1].rows
    one, other = (stored(analysis.out) for analysis in analyses)
    for name in ALL_SCHEMAS:
        assert comparable(name, other.tables[name].to_table()).equals(comparable(name, one.tables[name].to_table())), (
            name
        )
    reports = [(tmp_path / name / "report.html").read_text() for name in ("False", "True")]
    assert reports[0] == reports[1]
    for name in hours.TABLES:
        found = {path.parent.relative_to(tmp_path / "True" / "tables" / name) for path in _files(tmp_path, name)}
        assert found == {Path("date=2026-11-21/hour=05"), Path("date=2026-11-21/hour=06")}, name
        for path in _files(tmp_path, name):
            assert (path.stat().st_mode & 0o777 == 0o600) == (name == "records")


def _files(tmp_path: Path, name: str) -> list[Path]:
    return list((tmp_path / "True" / "tables" / name).rglob("*.parquet"))


def test_spark_reads_date_and_hour_as_columns(spark: Any, tmp_path: Path) -> None:
    in_process.analyze(CAPTURES, str(tmp_path / "out"), by_hour=True, microseconds=True, report=False)
    exchanges = spark.read.parquet(f"file://{tmp_path}/out/tables/exchanges")
    assert dict(exchanges.dtypes)["date"] == "date"
    assert dict(exchanges.dtypes)["hour"] == "int"
    of_hour = exchanges.where("date = '2026-11-21' and hour = 6")
    assert of_hour.selectExpr("input_file_name()").distinct().count() == 1
    found = pq.read_table(tmp_path / "out" / "tables" / "exchanges")
    expected = pc.sum(pc.greater_equal(found["requested"], pa.scalar(BEGIN + timedelta(hours=1)))).as_py()
    assert of_hour.count() == expected > 0


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("date=2026-11-21", True),
        ("date=2026-11-21/hour=06", True),
        (hours.directory_of(None), True),
        ("hour=06", False),
        ("date=2026-11-21/hour=06/deep", False),
        ("date=yesterday", False),
    ],
)
def test_directories_of_hours_are_known_again(name: str, ours: bool) -> None:
    assert hours.is_directory(name) == ours
