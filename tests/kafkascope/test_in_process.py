"""`analyze --in-process` and `report` of a capture: what they say, and leave. test_parity.py has the tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kafkascope import in_process
from kafkascope.out import output, parts, stored
from kafkascope.out.pipeline import AnalysisError, StoppedError
from kafkascope.reading import Reading
from kafkascope.sniffer.sources import SourceError
from kafkascope.sniffer.sources.places import locate
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS

JOINS = PCAPS / "eager-three-joins" / "capture.pcap"
HINT = "so small a capture is through sooner with --in-process"
WITHOUT_SPARK = "import sys; sys.modules['pyspark'] = None; from kafkascope.cli import main; main()"


def test_it_says_what_spark_says(spark: Any, command: Command, tmp_path: Path) -> None:
    out = str(tmp_path / "out")

    def report() -> str:
        run = json.loads(Path(out, "summary.json").read_text())["run"]
        return command("kafkascope", "report", out, "--format", "json").stdout.replace(run, "")

    here = command("kafkascope", "analyze", str(JOINS), "-o", out, "--in-process")
    report_here = report()
    there = command("kafkascope", "analyze", str(JOINS), "-o", out, "--overwrite")
    assert report() == report_here
    assert (here.returncode, here.stderr) == (0, "")
    assert here.stdout == there.stdout
    assert HINT in there.stderr


@pytest.mark.parametrize("asked", ["analyze --in-process -o", "sniff --tables"])
def test_it_says_where_it_wrote_without_keys(
    command: Command, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a directory in the place of a bucket."""

    def located(place: str) -> tuple[Any, str]:
        return locate(place.replace("s3://KEY:SECRET@bucket", str(tmp_path)))

    for module in (output, parts, stored):
        monkeypatch.setattr(module, "locate", located)
    done = command("kafkascope", *asked.split(), "s3://KEY:SECRET@bucket/out", str(JOINS))
    assert done.returncode == 0
    assert "s3://bucket/out: " in done.stdout
    assert "SECRET" not in done.stdout + done.stderr
    assert (tmp_path / "out" / "summary.json").exists()


def test_it_needs_neither_spark_nor_java(tmp_path: Path) -> None:
    environment = os.environ | {"PATH": "/usr/bin/none", "JAVA_HOME": ""}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT_SPARK, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)

    assert run("analyze", str(JOINS), "-o", "out", "--in-process").returncode == 0
    assert (tmp_path / "out" / "summary.json").exists()
    refused = run("analyze", str(JOINS), "-o", "other")
    assert refused.returncode == 1
    assert "analyze --in-process works without" in refused.stderr
    assert run("report", str(JOINS)).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"out", "capture.pcap.report.html"}


@pytest.mark.parametrize("option", ["--master=local", "--conf=spark.x=1", "--split-bytes=4096", "--partitions=2"])
def test_options_of_spark_do_not_go_with_it(option: str, command: Command, tmp_path: Path) -> None:
    done = command("kafkascope", "analyze", str(JOINS), "-o", str(tmp_path / "out"), "--in-process", option)
    assert done.returncode == 2
    assert "--in-process works without Spark" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


def test_the_report_of_a_capture_is_that_of_its_analysis(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    in_process.analyze([str(JOINS)], "joins")
    for form in ("md", "json"):
        of_tables = command("kafkascope", "report", "joins", "--format", form)
        of_capture = command("kafkascope", "report", str(JOINS), "--format", form)
        assert of_capture.returncode == 0
        run = json.loads(Path("joins/summary.json").read_text())["run"]
        of_tables.stdout = of_tables.stdout.replace(f'"run": "{run}"', '"run": null')
        assert of_capture.stdout.replace("capture.pcap,", "joins,") == of_tables.stdout.replace(
            "capture.pcap,", "joins,"
        )
    assert command("kafkascope", "report", str(JOINS), "-o", "mine.html").stderr == "kafkascope: written to mine.html\n"
    assert Path("mine.html").read_text() == Path("joins/report.html").read_text()


def test_the_report_of_what_is_no_capture_says_so(command: Command, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no capture at all")
    done = command("kafkascope", "report", str(text))
    assert done.returncode == 1
    assert str(text) in done.stderr
    assert command("kafkascope", "report", str(tmp_path / "nothing")).returncode == 1


def test_secrets_that_are_shown_are_for_the_owner_alone(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = command("kafkascope", "analyze", str(JOINS), "-o", str(out), "--in-process", "--show-secrets", "--records")
    assert done.returncode == 0
    modes = {path.parent.name: path.stat().st_mode & 0o777 for path in (out / "tables").glob("*/*.parquet")}
    assert {name for name, mode in modes.items() if mode == 0o600} == {"exchanges", "errors", "records"}


def test_one_that_is_asked_to_stop_leaves_nothing(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(StoppedError):
        in_process.analyze([str(JOINS)], str(tmp_path / "out"), stop=stop)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    with pytest.raises(AnalysisError, match="cannot be written: No space left on device; make room there"):
        in_process.analyze([str(JOINS)], str(tmp_path / "out"))
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_read_is_told_beside_the_others(command: Command, tmp_path: Path) -> None:
    (tmp_path / "empty.pcap").touch()
    out = tmp_path / "out"
    done = command("kafkascope", "analyze", str(JOINS), str(tmp_path / "empty.pcap"), "-o", str(out), "--in-process")
    assert done.returncode == 1
    assert "empty.pcap" in done.stderr
    assert json.loads((out / "summary.json").read_text())["issues"] == {"unreadable_file": 1}
    with pytest.raises(SourceError):
        in_process.analyze([str(tmp_path / "empty.pcap")], str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()


def test_rows_come_to_disk_while_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_ROW_GROUP_BYTES", 1)
    batches = Reading.batches
    sizes: list[int] = []

    def watched(self: Reading) -> object:
        for batch in batches(self):
            yield batch
            sizes.append(sum(path.stat().st_size for path in tmp_path.rglob("*.parquet")))

    monkeypatch.setattr(Reading, "batches", watched)
    in_process.analyze([str(PCAPS / "clients_codecs" / "capture.pcap")], str(tmp_path / "out"), report=False)
    assert sizes[0] < sizes[-1]
