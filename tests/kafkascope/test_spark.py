"""The Spark pipeline: what goes through the shuffle, sessions, and the jobs as a whole.

That the tables are those of one process is held by test_parity.py.
"""

from __future__ import annotations

import gc
import gzip
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import kafkascope
from kafkascope import in_process
from kafkascope.decoders import apis
from kafkascope.engine import EngineOptions
from kafkascope.out.errors import WriteError
from kafkascope.out.parquet import written
from kafkascope.out.pipeline import AnalysisError, StoppedError
from kafkascope.out.stored import stored
from kafkascope.rehearsal import Rehearsal
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, FILE, RUN, SCHEMAS
from kafkascope.sniffer.columns import NO_TIME, Packets, Segments
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.session import SessionOptions
from kafkascope.sniffer.sources import SourceError
from kafkascope.sniffer.spreading import partition_of
from kafkascope.spark import (
    SparkUnavailableError,
    handed_on,
    jobs,
    parcels,
    sessions,
    tasks,
    view_rows,
)
from kafkascope.temporary import TemporaryDirectory
from tests.decoders.written_messages import exchange
from tests.kafkascope.conftest import Command
from tests.kafkascope.out.test_output import files_of_at_most
from tests.kafkascope.test_decode_as import CAPTURES, PORT, plain
from tests.needs import needs_java
from tests.paths import PCAPS, ROOT
from tests.patience import wait_until
from tests.sniffer.sources.written_captures import capture_of
from tests.sniffer.tcp_conversation import SECOND, Conversation

CAPTURE = PCAPS / "eager-three-joins" / "capture.pcap"
NAMES = ("connections", "issues")

# --- parcels ---------------------------------------------------------------------------------------------------------


def random_segments(numbers: Any, times: Any, hosts: int, seed: int) -> Segments:
    """Segments between hosts and a broker, in both directions, payloads of 0 to 40 bytes with rubbish around them."""
    random = np.random.default_rng(seed)
    count = len(numbers)
    captured = random.integers(0, 41, count).astype(np.int32)
    start = np.cumsum(captured + 7) - captured
    host = random.integers(0, hosts, count)
    upward = random.integers(0, 2, count).astype(bool)
    low = np.where(upward, host, 1000).astype(np.uint64)
    back = np.where(upward, 1000, host).astype(np.uint64)
    port = np.where(upward, 40000 + host, 9092).astype(np.uint16)
    back_port = np.where(upward, 9092, 40000 + host).astype(np.uint16)
    return Segments(
        data=random.integers(0, 256, int((captured + 7).sum()) + 7).astype(np.uint8),
        number=np.array(numbers, np.int64),
        at=np.array(times, np.int64),
        source_high=np.full(count, 2**63, np.uint64),
        source_low=low,
        target_high=np.full(count, 2**63, np.uint64),
        target_low=back,
        source_port=port,
        target_port=back_port,
        seq=random.integers(0, 2**32, count, dtype=np.uint32),
        ack=random.integers(0, 2**32, count, dtype=np.uint32),
        flags=random.integers(0, 32, count).astype(np.uint8),
        start=start.astype(np.int64),
        captured=captured,
        length=captured + random.integers(0, 2, count).astype(np.int32),
        window=random.integers(0, 65536, count).astype(np.uint16),
        scale=random.integers(-1, 15, count).astype(np.int8),
        sacked=random.integers(0, 9000, count).astype(np.int32),
        dsack=random.integers(0, 2**32, count, dtype=np.uint32),
        ident=random.integers(0, 2**16, count, dtype=np.uint16),
    )


def values(segments: Segments, rows: Any = slice(None)) -> list[tuple[Any, ...]]:
    """Everything of each segment, the payload itself in place of where it lies."""
    payloads = [
        bytes(segments.data[i : i + n]) for i, n in zip(segments.start[rows], segments.captured[rows], strict=True)
    ]
    names = [f.name for f in fields(Segments) if f.name not in ("data", "start")]
    return list(zip(*(getattr(segments, name)[rows].tolist() for name in names), payloads, strict=True))


@given(
    files=st.lists(st.lists(st.integers(-3, 20), max_size=40), min_size=1, max_size=4),
    hosts=st.integers(1, 6),
    partitions=st.integers(1, 9),
    batch=st.integers(1, 15),
    batch_bytes=st.integers(1, 4000),
    in_files=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_parcels_bring_every_segment_once_and_in_merge_order(
    files: list[list[int]], hosts: int, partitions: int, batch: int, batch_bytes: int, in_files: bool, seed: int
) -> None:
    with TemporaryDirectory() as directory:
        packed = pack_all(files, hosts, partitions, batch, seed, str(directory) if in_files else None)
        check_merged(*packed, partitions, batch_bytes)


Row = tuple[int, int, int, pa.Buffer]
Expected = list[list[tuple[tuple[int, int], tuple[Any, ...]]]]


def pack_all(
    files: list[list[int]], hosts: int, partitions: int, batch: int, seed: int, directory: str | None
) -> tuple[list[Row], Expected]:
    """Rows with parcels of random segments, each file's by a task of its own, and the segments by partition."""
    rows: list[Row] = []
    expected: Expected = [[] for _ in range(partitions)]
    number = 1
    for times in files:
        file = None if directory is None else parcels.ParcelFile(directory)
        segments = random_segments(np.arange(number, number + len(times)), times, hosts, seed)
        number += len(times)
        merge_at = np.maximum.accumulate(segments.at) if times else segments.at
        of = partition_of(segments, partitions)
        for row, value in enumerate(values(segments)):
            expected[of[row]].append(((int(merge_at[row]), int(segments.number[row])), value))
        for low in range(0, len(times), batch):
            piece = segments.rows(slice(low, low + batch))
            for packed in parcels.pack(piece, merge_at[low : low + batch], partitions):
                laid = packed if file is None else file.take(packed)
                assert laid.schema == parcels.SCHEMA
                assert laid["parcel"].null_count == (0 if file is None else laid.num_rows)
                rows += parcels.opened(laid)
    return rows, expected


def check_merged(rows: list[Row], expected: Expected, partitions: int, batch_bytes: int) -> None:
    for partition in range(partitions):
        mine = sorted((row[1:] for row in rows if row[0] == partition), key=lambda row: row[:2])
        parts = iter(mine)
        got = [value for segments in parcels.merged(parts, batch_bytes) for value in values(segments)]
        assert got == [value for _, value in sorted(expected[partition], key=lambda pair: pair[0])]


@given(hosts=st.integers(1, 50), partitions=st.integers(1, 300), seed=st.integers(0, 2**32 - 1))
def test_both_directions_of_a_connection_go_to_one_partition(hosts: int, partitions: int, seed: int) -> None:
    segments = random_segments(np.arange(1, 201), np.zeros(200), hosts, seed)
    of = partition_of(segments, partitions)
    assert of.min() >= 0
    assert of.max() < partitions
    client = np.minimum(segments.source_low, segments.target_low)
    for host in np.unique(client):
        assert len(np.unique(of[client == host])) == 1


def test_connections_spread_over_partitions() -> None:
    segments = random_segments(np.arange(1, 4001), np.zeros(4000), 2000, 7)
    counts = np.bincount(partition_of(segments, 8), minlength=8)
    assert counts.min() > 300


def test_large_batches_go_to_the_jvm_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "_BATCH_BYTES", 2000)
    segments = random_segments(np.arange(1, 301), np.arange(300), 100, 3)
    batches = list(parcels.pack(segments, segments.at, 50))
    assert len(batches) > 5
    assert all(b.nbytes < 20_000 for b in batches)
    got = {r["partition"] for b in batches for r in b.to_pylist()}
    assert got == set(partition_of(segments, 50).tolist())


def test_remarks_sort_before_all_parcels_and_come_back() -> None:
    issues = [Issue("tcp_gap", "Größe 3", None, 5, 7, 2), Issue("x", "y")]
    row = parcels.remarks(issues, {"udp": 4}, 11).to_pylist()[0]
    assert (row["partition"], row["merge_at"], row["number"]) == (parcels.REMARKS_PARTITION, NO_TIME, 0)
    assert parcels.read_remarks(pa.py_buffer(row["parcel"])) == (issues, {"udp": 4}, 11)


def test_where_there_is_no_room_for_parcels_it_is_said_where_else_they_may_go(tmp_path: Path) -> None:
    segments = random_segments(np.arange(1, 301), np.arange(300), 100, 3)
    packed = next(parcels.pack(segments, segments.at, 2))
    with files_of_at_most(100), pytest.raises(WriteError, match=r"make room there, or --conf spark\.local\.dir=DIR"):
        parcels.ParcelFile(str(tmp_path)).take(packed)


# --- sessions --------------------------------------------------------------------------------------------------------


def fake_java(home: Path, says: str, status: int = 0) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
    java.chmod(java.stat().st_mode | stat.S_IEXEC)


@pytest.mark.parametrize(
    ("says", "status", "message"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 0, None),
        ('openjdk version "21" 2023-09-19', 0, None),
        ('openjdk version "22-ea" 2024-03-19', 0, None),
        ('java version "1.8.0_402"', 0, "is Java 8"),
        ('openjdk version "11.0.2"', 0, "is Java 11"),
        ("no version at all", 0, "failed"),
        ("Error: could not find libjava.so", 1, "failed"),
    ],
)
def test_java_is_checked_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, status: int, message: str | None
) -> None:
    fake_java(tmp_path, says, status)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if message is None:
        assert sessions.find_java().path == str(tmp_path / "bin" / "java")
        assert sessions.unavailable() is None
    else:
        with pytest.raises(SparkUnavailableError, match=message) as caught:
            sessions.find_java()
        assert "17 or newer" in str(caught.value)


def test_a_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"JAVA_HOME is {tmp_path}" in (sessions.unavailable() or "")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no java on the PATH" in (sessions.unavailable() or "")


# --- the jobs --------------------------------------------------------------------------------------------------------


def test_neighbours_are_grouped_up_to_a_size() -> None:
    groups = jobs.grouped([3, 3, 5, 9, 1, 1], lambda size: size, 6)
    assert groups == [[3, 3], [5], [9], [1, 1]]
    assert jobs.grouped([], lambda size: size, 6) == []


def rows_of(out: Path, name: str) -> list[dict[str, Any]]:
    table = pq.read_table(out / "tables" / name, columns=ALL_SCHEMAS[name].names)
    flat = [f.name for f in table.schema if not pa.types.is_nested(f.type)]
    return list(table.sort_by([(column, "ascending") for column in flat]).to_pylist())


@pytest.mark.parametrize(
    ("master", "attempts", "expected"),
    [
        ("local", None, "local[1,4]"),
        ("local[2]", None, "local[2,4]"),
        ("local[*]", "7", "local[*,7]"),
        ("local[2,1]", None, "local[2,1]"),
        ("local-cluster[2,1,1024]", None, "local-cluster[2,1,1024]"),
        ("spark://host:7077", "7", "spark://host:7077"),
    ],
)
def test_a_local_master_tries_a_task_as_often_as_a_cluster(master: str, attempts: str | None, expected: str) -> None:
    assert sessions._with_attempts(master, attempts) == expected


def test_what_the_jvm_tells_as_it_starts_lies_where_the_next_run_removes_it(tmp_path: Path) -> None:
    from pyspark import java_gateway

    with sessions._told_below(tmp_path):
        assert Path(java_gateway.tempfile.mkdtemp()).parent == tmp_path
        assert tempfile.gettempdir() != str(tmp_path)
    assert java_gateway.tempfile is tempfile


def test_a_task_that_is_tried_again_counts_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its answer is lost, or its worker is killed."""
    how: dict[str, Any] = {"spark": spark, "partitions": 3, "records": True}
    once = kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "once"), **how)
    marks = tmp_path / "marks"
    marks.mkdir()

    def flaky(work: Callable[..., Iterator[Any]], name: str) -> Callable[..., Iterator[Any]]:
        """The first attempt at each task fails when all is written, its answer is lost."""

        def run(*arguments: Any) -> Iterator[Any]:
            from pyspark import TaskContext

            written = list(work(*arguments))
            partition = TaskContext.get().partitionId()
            mark = marks / f"{name}-{partition}"
            if not mark.exists():
                mark.touch()
                if partition == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("lost")
            yield from written

        return run

    monkeypatch.setattr(tasks, "write_tables", flaky(tasks.write_tables, "decode"))
    monkeypatch.setattr(view_rows, "write_results", flaky(view_rows.write_results, "understand"))
    monkeypatch.setattr(handed_on, "RECORDS_HERE_BYTES", 0)
    monkeypatch.setattr(handed_on, "ENOUGH_BYTES", 1)
    monkeypatch.setattr(handed_on, "write_records", flaky(handed_on.write_records, "records"))
    again = kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "again"), **how)
    assert len(list(marks.glob("decode-*"))) == len(list(marks.glob("understand-*"))) == 3
    assert len(list(marks.glob("records-*"))) > 1
    assert again.rows == once.rows
    assert again.summary.result() == once.summary.result()
    assert again.other == once.other
    for name in ("exchanges", "issues", "connections", "group_events", "rebalances", "records"):
        assert rows_of(tmp_path / "again", name) == rows_of(tmp_path / "once", name)


def test_a_failed_run_leaves_nothing(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(batches: Any, staging: str, options: Any) -> Iterator[Any]:
        raise RuntimeError("the disk is on fire")
        yield

    monkeypatch.setattr(tasks, "write_tables", broken)
    with pytest.raises(AnalysisError, match="the disk is on fire"):
        kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "out"), spark=spark)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("which", ["read_all", "write_tables"])
def test_a_full_disk_is_one_line(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    work = getattr(tasks, which)

    def full(*arguments: Any) -> Iterator[Any]:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        try:
            yield from work(*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)  # the worker goes on

    monkeypatch.setattr(tasks, which, full)
    with pytest.raises(AnalysisError) as caught:
        kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "out"), spark=spark)
    place = f"{tmp_path}/out" if which == "write_tables" else spark.sparkContext.getConf().get("spark.local.dir")
    assert str(caught.value).startswith(place)
    assert " cannot be written: File too large" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_changes_between_jobs_is_named_or_read_as_it_was_indexed(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    data = CAPTURE.read_bytes()
    whole = gzip.compress(data) if packed else data
    path = tmp_path / "capture.pcap"
    index = jobs._Run._index

    def grow() -> None:
        with path.open("ab") as file:
            file.write(whole)

    def changing(change: Callable[[], object]) -> Callable[..., Any]:
        def run(self: Any, *arguments: Any) -> Any:
            done = index(self, *arguments)
            change()
            return done

        return run

    path.write_bytes(whole)
    once = kafkascope.spark.analyze([str(path)], str(tmp_path / "once"), spark=spark, split_bytes=200_000)
    monkeypatch.setattr(jobs._Run, "_index", changing(grow))
    again = kafkascope.spark.analyze([str(path)], str(tmp_path / "again"), spark=spark, split_bytes=200_000)
    assert rows_of(tmp_path / "again", "exchanges") == rows_of(tmp_path / "once", "exchanges")
    (issue,) = [row for row in rows_of(tmp_path / "again", "issues") if row["kind"] == "file_grew"]
    assert f"{path}: grew" in issue["detail"]
    assert issue["count"] == 1
    assert once.rows["issues"] == again.rows["issues"] - 1
    path.write_bytes(whole)
    monkeypatch.setattr(jobs._Run, "_index", changing(lambda: os.truncate(path, len(whole) // 2)))
    with pytest.raises(AnalysisError) as caught:
        kafkascope.spark.analyze([str(path)], str(tmp_path / "cut"), spark=spark, split_bytes=200_000)
    assert str(caught.value).startswith(f"{path}: it is shorter than when it was first read")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "cut").exists()
    # Replaced by one of the same size: the last record has another payload.
    path.write_bytes(whole)
    other = data[:-1] + bytes([data[-1] ^ 1])
    monkeypatch.setattr(
        jobs._Run, "_index", changing(lambda: path.write_bytes(gzip.compress(other) if packed else other))
    )
    with pytest.raises(AnalysisError) as caught:
        kafkascope.spark.analyze([str(path)], str(tmp_path / "replaced"), spark=spark, split_bytes=200_000)
    assert str(caught.value).startswith(f"{path}: its content is not what it was when it was first read")
    assert not (tmp_path / "replaced").exists()


def test_a_run_that_is_asked_to_stop_leaves_nothing(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, stop = tmp_path / "began", threading.Event()

    def endless(batches: Any, staging: str, options: Any) -> Iterator[Any]:
        began.touch()
        while True:
            Path(staging).stat()  # until it is gone, if the task is not ended before
        yield

    def wait_for_the_task() -> None:
        wait_until(began.exists, "the task begins")
        stop.set()

    monkeypatch.setattr(tasks, "write_tables", endless)
    waiting = threading.Thread(target=wait_for_the_task)
    waiting.start()
    with pytest.raises(StoppedError):
        kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "out"), spark=spark, stop=stop)
    waiting.join()
    assert not (tmp_path / "out").exists()
    assert spark.range(3).count() == 3


def test_parcels_are_in_files_for_as_long_as_tasks_of_this_machine_need_them(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_all, seen = tasks.read_all, tmp_path / "seen"

    def watched(splits: Any, issues: Any, partitions: int, directory: str, window: Any) -> Iterator[Any]:
        yield from read_all(splits, issues, partitions, directory, window)
        seen.write_text(directory)
        assert sum(file.stat().st_size for file in Path(directory).iterdir()) > os.path.getsize(CAPTURE) / 2

    monkeypatch.setattr(tasks, "read_all", watched)
    kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "out"), spark=spark, partitions=3)
    directory = Path(seen.read_text())
    assert directory.parent == Path(spark.sparkContext.getConf().get("spark.local.dir"))
    assert not directory.exists()


def test_parcels_go_through_spark_where_tasks_may_be_on_other_machines(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "is_local", lambda session: False)
    kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "out"), spark=spark, split_bytes=50_000, partitions=3)
    here = kafkascope.read(CAPTURE)
    for name in ("exchanges", "connections", "issues"):
        order = [(f.name, "ascending") for f in ALL_SCHEMAS[name] if f.type != FILE and not pa.types.is_nested(f.type)]
        got = pq.read_table(tmp_path / "out" / "tables" / name, columns=ALL_SCHEMAS[name].names)
        got = got.cast(ALL_SCHEMAS[name])
        assert got.sort_by(order).equals(here.arrow(name).sort_by(order))


def test_several_files_are_one_capture(spark: Any, tmp_path: Path) -> None:
    captures = sorted(str(p) for p in PCAPS.rglob("capture.pcap"))
    captures = [p for p in captures if os.path.getsize(p) < 1_000_000][:3]
    here = kafkascope.read(captures)
    done = kafkascope.spark.analyze(captures, str(tmp_path / "out"), spark=spark, split_bytes=50_000, partitions=3)
    assert done.summary.result() == here.summary
    expected = here.arrow("exchanges").sort_by([("connection", "ascending"), ("number", "ascending")])
    got = pq.read_table(tmp_path / "out" / "tables" / "exchanges", columns=expected.schema.names)
    assert got.sort_by([("connection", "ascending"), ("number", "ascending")]).equals(expected.cast(got.schema))


def test_a_port_is_taken_for_kafkas_because_the_user_says_so(spark: Any, tmp_path: Path) -> None:
    packets, expected = CAPTURES["a request that nobody knows, and its answer"]
    path, out = tmp_path / "capture.pcap", tmp_path / "out"
    path.write_bytes(capture_of(packets))
    options = EngineOptions(session=SessionOptions(decode_as=frozenset({PORT})))
    kafkascope.spark.analyze([str(path)], str(out), spark=spark, options=options)
    assert plain(pq.read_table(out / "tables" / "exchanges").to_pylist()) == expected


def test_limits_hold_in_tasks_as_in_this_process(spark: Any) -> None:
    codecs = str(PCAPS / "clients_codecs" / "capture.pcap")
    limits = {"elements": 5, "decompressed_bytes": 100, "frame_bytes": 3000}

    def told(cap: Any) -> set[str]:
        return {row["detail"] for row in cap.arrow("issues").to_pylist() if "--limit" in row["detail"]}

    here = told(kafkascope.read(codecs, limits=limits, answers=False))
    assert {name for name in limits for detail in here if f"(--limit {name}={limits[name]})" in detail} == {*limits}
    assert told(kafkascope.read(codecs, limits=limits, answers=False, spark=spark)) == here


def test_progress_counts_tasks(spark: Any, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    kafkascope.spark.analyze(
        [str(CAPTURE)],
        str(tmp_path / "out"),
        spark=spark,
        split_bytes=20_000,
        progress=lambda *step: seen.append(step),
    )
    assert {what for what, _, _ in seen} <= {"find packets", "decode", "name topics", "understand", "count rereads"}
    assert all(0 <= done <= total for _, done, total in seen)
    for before, after in pairwise(seen):
        assert before[0] != after[0] or before[1] <= after[1]


def test_from_some_size_on_tasks_are_larger_and_not_more(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "_PARTITION_BYTES", 4096)
    monkeypatch.setattr(jobs, "_MOST_TASKS", 3)
    found, grouped = list[int](), jobs.grouped

    def group(*of: Any) -> list[list[Any]]:
        groups = grouped(*of)
        found.append(len(groups))
        return groups

    monkeypatch.setattr(jobs, "grouped", group)
    analysis = kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "out"), spark=spark, split_bytes=4096)
    assert max(found) <= 4
    parts = {path.name.split("-")[1] for path in (tmp_path / "out" / "tables" / "exchanges").iterdir()}
    assert parts == {"00000", "00001", "00002"}
    assert analysis.rows == in_process.analyze([str(CAPTURE)], str(tmp_path / "other")).rows


def test_workers_begin_with_what_tasks_need(spark: Any) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded = "kafkascope.spark.tasks" in sys.modules and gc.get_freeze_count() > 0
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"loaded": [loaded] * batch.num_rows})

    assert [row.loaded for row in spark.range(2).mapInArrow(look, "loaded boolean").collect()] == [True, True]


def test_kernels_are_compiled_before_workers_need_them(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    def packets(_: Rehearsal) -> Iterator[Packets]:
        happened.append("rehearsal")
        return iter(())

    monkeypatch.setattr(Rehearsal, "__iter__", packets)
    monkeypatch.setattr(tasks, "rehearse", tasks.rehearse.__wrapped__)  # this process has done it before
    collect = jobs._Run._collect

    def collecting(run: jobs._Run, what: str, frame: Any) -> Iterator[Any]:
        happened.append(what)
        return collect(run, what, frame)

    monkeypatch.setattr(jobs._Run, "_collect", collecting)
    kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "out"), spark=spark)
    assert happened[:1] == ["rehearsal"]
    assert "decode" in happened


def test_nothing_that_can_be_read_is_said_so(spark: Any, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a capture at all\n" * 10)
    for paths in ([str(text)], [str(tmp_path / "missing.pcap")]):
        with pytest.raises(SourceError):
            kafkascope.spark.analyze(paths, str(tmp_path / "out"), spark=spark)
        assert not (tmp_path / "out").exists()


def test_the_session_of_the_user_keeps_its_settings(spark: Any, tmp_path: Path) -> None:
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "out"), spark=spark)
    assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == before
    assert spark.range(3).count() == 3


def test_read_gives_spark_dataframes(spark: Any) -> None:
    here = kafkascope.read(CAPTURE, records=True)
    there = kafkascope.read(CAPTURE, records=True, spark=spark)
    assert {name: there.table(name).count() for name in here.tables} == {
        name: here.arrow(name).num_rows for name in here.tables
    }
    assert there.exchanges.columns == SCHEMAS["exchanges"].names
    assert dict(there.exchanges.dtypes)["requested"] == "timestamp"
    first = here.arrow("exchanges")["requested"].to_pandas().min()
    got = there.exchanges.selectExpr("unix_micros(min(requested))").first()[0]
    assert got == first.value // 1000
    assert there.summary == here.summary
    assert "exchanges" in repr(there)
    assert "<table>" in there._repr_html_()
    (group_id,) = {*here.rebalances.group_id}
    assert f"rebalances of groups: {group_id} (" in there._repr_html_()
    assert_frame_equal(there.group(group_id).rebalances, here.group(group_id).rebalances)
    assert str(there.group(group_id).explain()) == str(here.group(group_id).explain())
    assert_frame_equal(there.latency(), here.latency())
    assert_frame_equal(there.throughput(), here.throughput())
    assert_frame_equal(there.errors_histogram(), here.errors_histogram())
    assert_frame_equal(there.clients, here.clients)
    assert_frame_equal(there.topology(), here.topology())
    order = ["topic", "partition", "at"]
    assert_frame_equal(
        there.lag(group_id).sort_values(order, ignore_index=True),
        here.lag(group_id).sort_values(order, ignore_index=True),
    )
    number = int(here.exchanges.response_packet.iloc[7])
    assert [str(one) for one in there.packet(number)] == [str(one) for one in here.packet(number)]
    assert there.packet(number)[0].messages() == here.exchange(7).messages()
    with pytest.raises(KeyError, match=group_id):
        there.group("nobody's")
    without = kafkascope.read(CAPTURE, spark=spark)
    with pytest.raises(KeyError, match="records=True"):
        _ = without.records
    assert not hasattr(without, "records")
    with pytest.raises(AttributeError, match="tables are"):
        _ = there.letters


@pytest.mark.parametrize("on_spark", [True, False])
def test_spark_reads_times_that_are_microseconds_as_they_are(spark: Any, tmp_path: Path, on_spark: bool) -> None:
    out = str(tmp_path / "out")
    if on_spark:
        kafkascope.spark.analyze([str(CAPTURE)], out, spark=spark, partitions=2, microseconds=True)
    else:
        in_process.analyze([str(CAPTURE)], out, microseconds=True)
    here = kafkascope.read(CAPTURE)
    run = stored(out).summary["run"]
    for name, table in stored(out).tables.items():
        files = pq.read_table(tmp_path / "out" / "tables" / name)
        whole = here.arrow(name).append_column(RUN, pa.repeat(pa.scalar(run), here.arrow(name).num_rows))
        cut = whole.cast(written(name, microseconds=True), safe=False)
        order = [(f.name, "ascending") for f in cut.schema if not pa.types.is_nested(f.type)]
        assert files.sort_by(order).equals(cut.sort_by(order)), name
        assert files.schema.metadata == ALL_SCHEMAS[name].metadata
        assert table.schema == ALL_SCHEMAS[name]  # so that all else goes on with nanoseconds
        there = spark.read.parquet(f"file://{out}/tables/{name}")
        assert there.count() == cut.num_rows
        for field in cut.schema:
            if pa.types.is_timestamp(field.type):
                assert dict(there.dtypes)[field.name] == "timestamp", (name, field.name)
    first = spark.read.parquet(f"file://{out}/tables/exchanges").selectExpr("unix_micros(min(requested))").first()[0]
    assert first == here.arrow("exchanges")["requested"].to_pandas().min().value // 1000


def busy_minute(count: int) -> bytes:
    """A capture of a minute in which each of six clients asks for so many heartbeats' answers on its connection."""
    asked = {"groupId": "g", "generationId": 3, "memberId": "m"}
    lines = [Conversation(port=40_000 + client) for client in range(6)]
    for line in lines:
        line.open()
        for number in range(count):
            line.at = SECOND + number * 60 * SECOND // count
            for side, frame in enumerate(exchange(number, apis.HEARTBEAT, 3, asked, {})):
                line.write(side, frame)
    return capture_of(sorted((packet for line in lines for packet in line.packets), key=lambda packet: packet.at))


@pytest.mark.deep
def test_the_driver_holds_no_more_for_more_exchanges(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What tasks tell it depends on how many they are, what it makes of tables on what happened."""
    monkeypatch.setattr(jobs, "_INDEXED_HERE_BYTES", 0)
    answered: list[int] = []
    answer_of = tasks.answer_of

    def counted(row: bytes) -> Any:
        answered.append(len(row))
        return answer_of(row)

    monkeypatch.setattr(tasks, "answer_of", counted)
    found = {}
    for count in (200, 200, 6000):  # the first one loads what all need
        capture = tmp_path / f"{count}.pcap"
        capture.write_bytes(busy_minute(count))
        answered.clear()
        tracemalloc.start()
        analysis = kafkascope.spark.analyze(
            [str(capture)], str(tmp_path / "out"), spark=spark, partitions=3, split_bytes=1 << 28, overwrite=True
        )
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert analysis.rows["exchanges"] == 6 * count
        found[count] = sum(answered), peak
    print("bytes that tasks answered, and peak of the driver, by exchanges of a client:", found)
    for few, many in zip(found[200], found[6000], strict=True):
        assert many < 1.5 * few


@pytest.mark.deep
def test_spark_submit_runs_it(tmp_path: Path) -> None:
    needs_java()
    root = ROOT
    scripts = Path(sys.executable).parent
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "SPARK_LOCAL_HOSTNAME": "localhost"}
    capture = str(root / "pcaps" / "net_vlan" / "capture.pcap")
    command = ["spark-submit", "--master", "local[2]", "--conf", "spark.app.name=submitted"]
    command += ["--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    command += [str(root / "kafkascope" / "__main__.py"), "analyze", capture, "-o", str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "140 exchanges" in done.stdout
    assert (tmp_path / "out" / "report.html").exists()
    assert pq.read_table(tmp_path / "out" / "tables" / "exchanges").num_rows == 140


def test_a_missing_file_among_good_ones_is_told_and_is_an_error(spark: Any, command: Command, tmp_path: Path) -> None:
    good, missing = PCAPS / "net_noise" / "capture.pcap", tmp_path / "gone.pcap"
    done = command("kafkascope", "analyze", str(good), str(missing), "-o", str(tmp_path / "out"))
    assert done.returncode == 1
    assert f"{missing}: no such file" in done.stderr
    assert "not taken for Kafka: 14 to port 9092" in done.stderr
    assert (tmp_path / "out" / "report.html").exists()
