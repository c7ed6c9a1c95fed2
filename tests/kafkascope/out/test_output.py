"""The output directory: what may be replaced, what a run leaves, and parts of tables."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset as ds

import kafkascope
from kafkascope.out.errors import OutputError, WriteError
from kafkascope.out.output import Output
from kafkascope.out.parquet import WITH_SECRETS, written
from kafkascope.out.parts import Part, PartWriter, datasets_of, resolve_part
from kafkascope.out.pipeline import AnalysisError
from kafkascope.reports.vocabulary.tables import INCIDENTS, SCHEMAS
from tests.paths import PCAPS

CAPTURE = PCAPS / "eager-three-joins" / "capture.pcap"
NAMES = ("connections", "issues")


def issues_table(count: int, first: int = 0) -> pa.Table:
    rows = [
        {"connection": i, "at": None, "packet": i, "kind": "k", "detail": "d", "count": 1, "file": "a.pcap"}
        for i in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMAS["issues"])


def fill(output: Output, count: int) -> list[Part]:
    staging = output.begin(NAMES)
    writer = PartWriter(staging, 3)
    writer.write({"issues": issues_table(count)})
    return writer.finish()


def test_tables_are_in_place_as_a_whole_at_commit(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    output = Output(str(out), overwrite=False)
    parts = fill(output, 5)
    staging = str(next(out.glob(".staging-*")))

    def another_attempt() -> None:
        """Whose answer did not come, or too late."""
        lost = PartWriter(staging, 3)
        lost.write({"issues": issues_table(9)})
        lost.finish()

    def page(tables: Mapping[str, ds.Dataset]) -> None:
        another_attempt()
        assert {name: table.count_rows() for name, table in tables.items()} == {"connections": 0, "issues": 5}

    another_attempt()
    assert not (out / "tables").exists()
    output.commit(parts, NAMES, None, page)
    assert [p.name for p in out.iterdir()] == ["tables"]
    assert pq.read_table(out / "tables" / "issues").num_rows == 5
    empty = pq.read_table(out / "tables" / "connections")
    assert empty.num_rows == 0
    assert empty.schema.equals(written("connections"))


def test_each_row_says_which_run_wrote_it(tmp_path: Path) -> None:
    """So that rows of several directories can lie together; names of runs differ, also of those that begin at once."""
    runs = set()
    for name in ("a", "b"):
        output = Output(str(tmp_path / name), overwrite=False)
        output.commit(fill(output, 3), NAMES)
        runs.add(output.run)
    together = pq.read_table([str(path) for path in tmp_path.glob("*/tables/issues/*.parquet")])
    assert Counter(together["run"].to_pylist()) == dict.fromkeys(runs, 3)
    assert len(runs) == 2
    assert pa.types.is_string(together.schema.field("file").type)  # as other readers have it, too


def a_row(name: str, topic: str) -> pa.Table:
    nulls = {field.name: pa.nulls(1, field.type) for field in SCHEMAS[name]}
    return pa.table({**nulls, "topic": pa.array([topic])}, schema=SCHEMAS[name])


@pytest.mark.parametrize("revealed", [False, True])
def test_files_with_contents_of_records_are_their_owners_alone(tmp_path: Path, revealed: bool) -> None:
    """From the moment on that they are there, also when they are written anew, or have no rows."""
    names = ("batches", "records", "errors")
    modes = {"batches": 0o644, "records": 0o600, "errors": 0o600 if revealed else 0o644}

    def found(place: Path) -> set[tuple[str, int]]:
        return {(file.parent.name, stat.S_IMODE(file.stat().st_mode)) for file in place.rglob("*.parquet")}

    before = os.umask(0o022)
    try:
        output = Output(str(tmp_path / "out"), overwrite=False)
        staging = output.begin(names)
        writer = PartWriter(staging, 0, WITH_SECRETS if revealed else frozenset())
        writer.write({name: a_row(name, "id:a") for name in names})
        parts = writer.finish()
        assert found(Path(staging)) == set(modes.items())
        anew = [resolve_part(staging, part, {"id:a": "orders"}) for part in parts]
        assert found(Path(staging)) == set(modes.items())
        output.commit(anew, names)
        assert found(tmp_path / "out") == set(modes.items())
        empty = Output(str(tmp_path / "empty"), overwrite=False)
        empty.begin(names)
        empty.commit([], names)
        assert ("records", 0o600) in found(tmp_path / "empty")
    finally:
        os.umask(before)


def test_abort_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    output = Output(str(out), overwrite=False)
    fill(output, 1)
    output.abort()
    assert not out.exists()
    output = Output(str(out), overwrite=False)
    output.commit(fill(output, 2), NAMES)
    before = sorted(out.rglob("*"))
    output = Output(str(out), overwrite=True)
    fill(output, 3)
    output.abort()
    assert sorted(out.rglob("*")) == before


def test_an_existing_output_is_refused_unless_it_may_be_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    output = Output(str(out), overwrite=False)
    output.commit(fill(output, 2), NAMES)
    with pytest.raises(OutputError, match="--overwrite"):
        Output(str(out), overwrite=False)
    (out / "summary.json").write_text("{}")
    output = Output(str(out), overwrite=True)
    output.commit(fill(output, 7), NAMES, {"packets": 7})
    assert pq.read_table(out / "tables" / "issues").num_rows == 7
    assert json.loads((out / "summary.json").read_text()) == {"packets": 7}


def test_what_an_earlier_release_wrote_may_be_replaced(tmp_path: Path) -> None:
    """Up to schema version 4 the names of parts had no run."""
    output = Output(str(tmp_path), overwrite=False)
    (part,) = fill(output, 2)
    output.commit([part], NAMES)
    issues = tmp_path / "tables" / "issues"
    (issues / part.file).rename(issues / f"part-00003-{'0a' * 16}.parquet")
    output = Output(str(tmp_path), overwrite=True)
    output.commit(fill(output, 7), NAMES)
    assert pq.read_table(issues).num_rows == 7


FOREIGN = [
    "photo.jpg",
    "tables/letters/a.txt",
    "tables/issues/notes.txt",
    "tables/issues/part-00003.parquet",
    "tables/issues/deep/part-00003-20261123T101500Z-01234567-0123456789abcdef.parquet",
    "tables/notes.txt",
    ".staging-mine/a.txt",
    ".staging-20261123T101500Z-01234567/a.txt",
]


@pytest.mark.parametrize("strange", FOREIGN)
def test_what_is_not_ours_is_never_replaced(tmp_path: Path, strange: str) -> None:
    output = Output(str(tmp_path), overwrite=False)
    (written,) = fill(output, 2)
    output.commit([written], NAMES, {"packets": 2})
    late = Output(str(tmp_path), overwrite=True)
    parts = fill(late, 3)
    path = tmp_path / strange
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("dear")
    with pytest.raises(OutputError, match="not overwritten"):
        late.commit(parts, NAMES, {"packets": 3})
    late.abort()
    with pytest.raises(OutputError, match="not overwritten"):
        Output(str(tmp_path), overwrite=True)
    assert path.read_text() == "dear"
    assert pq.read_table(tmp_path / "tables" / "issues" / written.file).num_rows == 2
    assert json.loads((tmp_path / "summary.json").read_text()) == {"packets": 2}


@pytest.mark.parametrize("lone", ["report.html", "summary.json"])
def test_a_page_without_tables_is_of_no_analysis(tmp_path: Path, lone: str) -> None:
    (tmp_path / lone).write_text("dear")
    with pytest.raises(OutputError, match=f"has {lone}, which no analysis made"):
        Output(str(tmp_path), overwrite=True)


def test_two_runs_do_not_meet_in_one_directory(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, second = Output(str(out), overwrite=True), Output(str(out), overwrite=True)
    parts = fill(first, 2)
    with pytest.raises(OutputError, match=rf"another analysis \(process {os.getpid()} on .*, since .*\)"):
        second.begin(NAMES)
    third = Output(str(out), overwrite=False)  # what a run makes there does not make it another's
    with pytest.raises(OutputError, match="another analysis"):
        third.begin(NAMES)
    first.commit(parts, NAMES)
    assert [p.name for p in out.iterdir()] == ["tables"]
    with pytest.raises(OutputError, match="exists and is not empty"):
        third.begin(NAMES)
    second.commit(fill(second, 5), NAMES)
    assert [p.name for p in out.iterdir()] == ["tables"]
    assert pq.read_table(out / "tables" / "issues").num_rows == 5


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    program = """
import os, sys
from kafkascope.out.output import Output
Output(sys.argv[1], overwrite=False).begin(["issues"])
os.kill(os.getpid(), 9)
"""
    out = tmp_path / "out"
    subprocess.run([sys.executable, "-c", program, str(out)], check=False)
    assert {p.name.partition("-")[0] for p in out.iterdir()} == {".kafkascope.lock", ".staging"}
    output = Output(str(out), overwrite=False)
    output.commit(fill(output, 2), NAMES)
    assert [p.name for p in out.iterdir()] == ["tables"]


@pytest.mark.parametrize("locks", [True, False])
def test_what_tasks_write_that_outlive_their_run_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: bool
) -> None:
    """Object stores and HDFS make the directories of a file with it."""
    if not locks:
        monkeypatch.setattr("kafkascope.out.output.lock", lambda path, owner: None)
    out = tmp_path / "out"
    output = Output(str(out), overwrite=False)
    staging = Path(output.begin(NAMES))
    output.abort()
    (staging / "tables" / "issues").mkdir(parents=True)
    writer = PartWriter(str(staging), 0)
    writer.write({"issues": issues_table(3)})
    writer.finish()
    output = Output(str(out), overwrite=False)
    output.commit(fill(output, 2), NAMES)
    assert [p.name for p in out.iterdir()] == ["tables"]
    assert pq.read_table(out / "tables" / "issues").num_rows == 2


def test_where_there_are_no_locks_a_run_that_was_killed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkascope.out.output.lock", lambda path, owner: None)
    out = tmp_path / "out"
    first, second = Output(str(out), overwrite=False), Output(str(out), overwrite=False)
    first.begin(NAMES)  # as if it were killed now
    (staging,) = out.iterdir()
    with pytest.raises(OutputError, match=rf"process {os.getpid()} on .*if it has ended, remove {staging}") as caught:
        second.begin(NAMES)
    assert "\n" not in str(caught.value)
    assert list(out.iterdir()) == [staging]
    shutil.rmtree(staging)
    second.commit(fill(second, 1), NAMES)
    assert [p.name for p in out.iterdir()] == ["tables"]


def test_what_was_there_stays_if_the_new_cannot_be_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    output = Output(str(out), overwrite=False)
    output.commit(fill(output, 2), NAMES, {"packets": 2}, lambda tables: "page")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    class Failing:
        """A file system on which the report's move fails."""

        type_name = "local"

        def __init__(self, system: Any) -> None:
            self._system = system

        def __getattr__(self, name: str) -> Any:
            return getattr(self._system, name)

        def move(self, source: str, target: str) -> None:
            if target == str(out / "report.html") and ".staging" in source and "replaced" not in source:
                raise OSError(errno.EIO, "Input/output error")
            self._system.move(source, target)

    output = Output(str(out), overwrite=True)
    parts = fill(output, 7)

    def page(tables: Any) -> str:
        monkeypatch.setattr(output, "_system", Failing(output._system))
        return "new page"

    with pytest.raises(WriteError, match=f"{out} cannot be written: Input/output error"):
        output.commit(parts, NAMES, {"packets": 7}, page)
    monkeypatch.undo()
    output.abort()
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_disk_that_is_full_from_the_first_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, owner: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("kafkascope.out.output.lock", full)
    with pytest.raises(AnalysisError, match="out cannot be written: No space left on device; make room there"):
        kafkascope.spark.analyze([str(CAPTURE)], str(tmp_path / "out"), spark=object())
    assert not list(tmp_path.iterdir())


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """What a full disk is like, for files of this process that want to be larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_part_that_the_disk_has_no_room_for_is_one_line_and_is_removed(tmp_path: Path) -> None:
    output = Output(str(tmp_path / "out"), overwrite=False)
    writer = PartWriter(output.begin(NAMES), 0)
    writer.write({"issues": issues_table(5000)})
    with files_of_at_most(100), pytest.raises(WriteError) as caught:
        writer.finish()
    with files_of_at_most(100):
        writer.discard()
    expected = f"{tmp_path}/out cannot be written: File too large; make room there, or give another directory"
    assert str(caught.value) == expected
    assert not list(tmp_path.rglob("*.parquet"))
    output.abort()
    assert not list(tmp_path.iterdir())


def test_a_file_is_no_output_directory_and_an_empty_directory_is_one(tmp_path: Path) -> None:
    Output(str(tmp_path), overwrite=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is a file"):
        Output(str(tmp_path / "file"), overwrite=True)
    with pytest.raises(OutputError, match="nowhere"):
        Output("nowhere://host/out", overwrite=False)


def test_objects_move_one_by_one_where_directories_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkascope.out.parts._RENAMES_DIRECTORIES", frozenset())
    output = Output(f"file://{tmp_path}/out", overwrite=True)
    for name in NAMES:  # an object store has no directories to make
        (tmp_path / "out" / "tables" / name).mkdir(parents=True)
    monkeypatch.setattr(Output, "_remove", lambda self, path: None)
    output.commit(fill(output, 4), NAMES)
    assert pq.read_table(tmp_path / "out" / "tables" / "issues").num_rows == 4


def test_row_groups_are_flushed_as_they_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkascope.out.parts._ROW_GROUP_BYTES", 1000)
    output = Output(str(tmp_path / "out"), overwrite=False)
    writer = PartWriter(output.begin(NAMES), 0)
    for first in range(0, 200, 10):
        writer.write({"issues": issues_table(10, first)})
    parts = writer.finish()
    output.commit(parts, NAMES)
    file = pq.ParquetFile(tmp_path / "out" / "tables" / "issues" / parts[0].file)
    assert parts[0].rows == 200
    assert file.num_row_groups > 5
    assert file.read()["connection"].to_pylist() == list(range(200))


def test_a_failed_task_removes_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkascope.out.parts._ROW_GROUP_BYTES", 1)
    output = Output(str(tmp_path / "out"), overwrite=False)
    writer = PartWriter(output.begin(NAMES), 0)
    writer.write({"issues": issues_table(10)})
    assert list(tmp_path.rglob("*.parquet"))
    writer.discard()
    assert not list(tmp_path.rglob("*.parquet"))


def test_parts_with_topics_by_id_are_written_anew_with_their_names(tmp_path: Path) -> None:
    names = ["id:a", "plain", None, "id:b"]
    nulls = {f.name: pa.nulls(len(names), f.type) for f in SCHEMAS["partitions"]}
    table = pa.table({**nulls, "topic": pa.array(names)}, schema=SCHEMAS["partitions"])
    output = Output(str(tmp_path / "out"), overwrite=False)
    staging = output.begin(["partitions"])
    writer = PartWriter(staging, 0)
    writer.write({"partitions": table})
    (part,) = writer.finish()
    assert part.unresolved == {"id:a", "id:b"}
    new = resolve_part(staging, part, {"id:a": "orders"})
    assert (new.unresolved, new.rows) == (frozenset({"id:b"}), 4)
    output.commit([new], ["partitions"])
    assert pq.read_table(tmp_path / "out" / "tables" / "partitions")["topic"].to_pylist() == [
        "orders",
        "plain",
        None,
        "id:b",
    ]


def test_tables_of_a_run_are_those_that_its_parts_make(tmp_path: Path) -> None:
    staging = Output(str(tmp_path), overwrite=False).begin(["incidents"])
    parts: list[Part] = []
    for rank in (1, 2):
        writer = PartWriter(staging, rank)
        writer.write({"incidents": pa.Table.from_pylist([{"rank": rank}], schema=INCIDENTS)})
        parts += writer.finish()
    for some in (parts, parts[:1]):  # a file that lies there of a task that was tried again is none of them
        found = datasets_of(staging, some)
        assert found.keys() == {"incidents"}
        assert found["incidents"].schema == INCIDENTS
        assert sorted(found["incidents"].to_table()["rank"].to_pylist()) == [1, 2][: len(some)]
    assert datasets_of(staging, []) == {}
