"""`kafkascope diff` and `kafkascope.compare`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import kafkascope
from kafkascope import comparing, in_process
from kafkascope.cli import app
from kafkascope.reports.vocabulary.tables import CHANGES
from tests.paths import PCAPS
from tests.sniffer.sources.written_captures import capture_of
from tests.sniffer.tcp_conversation import talk

runner = CliRunner()
CALM, STORM = (str(PCAPS / name / "capture.pcap") for name in ("eager-three-joins", "rebalance-storm"))


def test_a_capture_and_an_analysis_are_compared(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    in_process.analyze([STORM], out, report=False)
    done = runner.invoke(app, ["diff", CALM, out])
    assert done.exit_code == 0
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert any(line.startswith(f"before {CALM} · 2026-11-21 05:55:") for line in lines)
    assert "client c2 seen only after" in lines
    assert "group storm all 0 30 (18 a minute) only after" in lines
    found = kafkascope.compare(kafkascope.read(CALM), out)
    assert str(found) == done.stdout
    assert list(found.changes.columns) == CHANGES.names
    same = kafkascope.compare(out, out).changes
    assert set(same.verdict) <= {"same", "few"}


def test_it_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def widest(form: str = "text") -> int:
        assert comparing.run(CALM, STORM, form, None, print) == 0
        return max(map(len, capsys.readouterr().out.splitlines()))

    monkeypatch.setenv("COLUMNS", "80")
    assert 100 < widest() <= 120  # what goes into a file or a pipe is read elsewhere
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert 70 < widest() <= 80
    assert widest("md") > 80


def test_every_format_goes_where_it_is_told(tmp_path: Path) -> None:
    for form, begin in (("json", '{"before":'), ("md", "# What changed"), ("html", "<!doctype html>")):
        file = tmp_path / f"changes.{form}"
        assert runner.invoke(app, ["diff", CALM, STORM, "--format", form, "-o", str(file)]).exit_code == 0
        assert file.read_text().startswith(begin)
    made = json.loads((tmp_path / "changes.json").read_text())
    assert {row["section"] for row in made["changes"]} >= {"incidents", "latency", "rebalances", "settings", "seen"}
    assert made["before"]["seconds"] > 0


def test_names_are_hidden_if_asked() -> None:
    hidden = runner.invoke(app, ["diff", CALM, STORM, "--anonymize", "k", "--format", "json"])
    assert hidden.exit_code == 0
    assert "10.77." not in hidden.stdout
    assert "storm" not in hidden.stdout.replace(STORM, "").replace("rebalance-storm/capture.pcap", "")


def test_what_cannot_be_read_or_written_is_told(tmp_path: Path) -> None:
    done = runner.invoke(app, ["diff", str(tmp_path / "missing.pcap"), STORM])
    assert done.exit_code == 1
    assert "missing.pcap" in done.stderr
    assert runner.invoke(app, ["diff", CALM, STORM, "--format", "pdf"]).exit_code == 2


def test_without_kafka_it_says_that_there_is_nothing_to_compare(tmp_path: Path) -> None:
    file = tmp_path / "web.pcap"
    file.write_bytes(capture_of(talk(b"GET / HTTP/1.1\r\n\r\n", port=80)))
    both = kafkascope.compare(file, file)
    assert "before and after: no Kafka was seen, so nothing can be compared." in str(both)
    assert "after: no Kafka was seen" in kafkascope.compare(CALM, file).written("html")
    assert "no Kafka was seen" not in kafkascope.compare(CALM, STORM).written("md")
