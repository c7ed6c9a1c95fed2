"""`kafkascope report`: from tables alone, to all formats and places."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import dataset as ds
from typer.testing import CliRunner

from kafkascope.cli import app
from kafkascope.out import pipeline
from kafkascope.out.output import Output
from kafkascope.out.stored import stored
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS
from tests.reports.show.page.made_tables import SUMMARY, everything

runner = CliRunner()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    place = tmp_path / "out"
    for name, table in everything().items():
        (place / "tables" / name).mkdir(parents=True)
        rows = table.to_table()
        half = len(rows) // 2
        pq.write_table(rows.slice(0, half), place / "tables" / name / "part-00000-a.parquet")
        pq.write_table(rows.slice(half), place / "tables" / name / "part-00001-b.parquet")
    (place / "summary.json").write_text(json.dumps(SUMMARY))
    return place


def test_html_goes_beside_the_tables(out: Path) -> None:
    done = runner.invoke(app, ["report", str(out)])
    assert done.exit_code == 0
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    assert f"written to {out}/report.html" in done.stderr
    assert done.stdout == ""


def test_json_and_markdown_go_to_standard_output(out: Path) -> None:
    as_json = runner.invoke(app, ["report", str(out), "--format", "json"])
    found = json.loads(as_json.stdout)
    assert len(found["rebalances"]) == 36
    assert found["summary"]["packets"] == 123_456
    text = runner.invoke(app, ["report", str(out), "--format", "md"]).stdout
    assert text.startswith("# shop/capture.pcap, 2026-11-21 07:02:00 to 07:12:00 UTC\n")
    assert "## Findings" in text
    assert not (out / "report.html").exists()


@pytest.mark.parametrize("form", ["html", "json", "md"])
def test_a_full_disk_is_told(out: Path, form: str) -> None:
    done = runner.invoke(app, ["report", str(out), "--format", form, "-o", "/dev/full"])
    assert done.exit_code == 1
    assert done.stderr == "kafkascope: /dev/full is not whole: No space left on device\n"


def test_any_format_goes_to_a_file_that_is_named(out: Path, tmp_path: Path) -> None:
    for form in ("html", "json", "md"):
        file = tmp_path / f"report.{form}"
        assert runner.invoke(app, ["report", str(out), "--format", form, "-o", str(file)]).exit_code == 0
        assert file.stat().st_size > 1000
    assert "<!doctype" in runner.invoke(app, ["report", str(out), "-o", "-"]).stdout


def test_what_is_no_analysis_is_told(tmp_path: Path) -> None:
    for place, why in ((tmp_path / "nowhere", "is not there"), (tmp_path, "has no tables")):
        done = runner.invoke(app, ["report", str(place)])
        assert done.exit_code == 1
        assert why in done.stderr
    assert runner.invoke(app, ["report", str(tmp_path), "--format", "pdf"]).exit_code == 2


def test_damaged_tables_are_told(out: Path) -> None:
    (out / "tables" / "lag" / "part-00000-a.parquet").write_bytes(b"PAR1 no more")
    done = runner.invoke(app, ["report", str(out)])
    assert done.exit_code == 1
    assert "kafkascope: " in done.stderr


def test_tables_of_an_earlier_version_lack_columns_not_answers(out: Path) -> None:
    part = next((out / "tables" / "throughput").iterdir())
    pq.write_table(pq.read_table(part).drop_columns(["empty"]), part)
    assert stored(str(out)).tables["throughput"].to_table()["empty"].null_count > 0
    assert runner.invoke(app, ["report", str(out)]).exit_code == 0


def test_without_a_summary_the_tables_are_enough(out: Path) -> None:
    (out / "summary.json").unlink()
    done = runner.invoke(app, ["report", str(out), "--format", "md"])
    assert done.exit_code == 0
    assert done.stdout.startswith("# out\n")
    assert runner.invoke(app, ["report", str(out)]).exit_code == 0
    assert "<title>out – kafkascope</title>" in (out / "report.html").read_text(encoding="utf-8")


def test_the_report_is_made_of_tables_in_place_and_comes_before_the_summary(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def report(tables: Mapping[str, ds.Dataset]) -> str:
        assert [*tables] == ["issues"]
        assert again or not (out / "summary.json").exists()
        return "what the tables say"

    for again in (False, True):
        output = Output(str(out), overwrite=again)
        output.begin(["issues"])
        output.commit([], ["issues"], {"packets": 1}, report)
        assert sorted(path.name for path in out.iterdir()) == ["report.html", "summary.json", "tables"]
        assert (out / "report.html").read_text() == "what the tables say"


def test_a_report_that_cannot_be_made_is_no_reason_to_lose_the_tables(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reporting = pipeline.Reporting(SUMMARY, threading.Event(), wanted=True)
    tables = stored(str(out)).tables
    assert (reporting.page(tables) or "").startswith("<!doctype html>")
    assert reporting.answers is not None

    def fail(*_: object, **__: object) -> str:
        raise ValueError("a row like no other")

    monkeypatch.setattr(pipeline, "page", fail)
    assert reporting.page(tables) is None
    assert reporting.failure == "ValueError: a row like no other"


def test_a_capture_with_tls_and_with_pseudonyms(command: Command) -> None:
    story = PCAPS / "clients_tls"
    capture, key_log = str(story / "capture.pcap"), str(story / "tls.keylog")
    opened = json.loads(command("kafkascope", "report", capture, "--format", "json", "--tls-keylog", key_log).stdout)
    assert opened["rebalances"]
    shown = command("kafkascope", "report", capture, "--format", "json", "--tls-keylog", key_log, "--anonymize", "k")
    hidden = json.loads(shown.stdout)
    assert len(hidden["rebalances"]) == len(opened["rebalances"])
    assert not {row["group_id"] for row in hidden["rebalances"]} & {row["group_id"] for row in opened["rebalances"]}


def test_what_is_decoded_already_is_not_decoded_otherwise(command: Command, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert (
        command(
            "kafkascope", "analyze", str(PCAPS / "all-well" / "capture.pcap.gz"), "--in-process", "-o", out
        ).returncode
        == 0
    )
    refused = command("kafkascope", "report", out, "--anonymize", "k")
    assert refused.returncode == 2
    assert "is decoded already" in refused.stderr
