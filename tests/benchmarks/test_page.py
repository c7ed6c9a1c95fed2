"""Each benchmark writes its parts of BENCHMARKS.md and leaves the others as they are."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from tests.paths import ROOT


def test_a_part_takes_the_place_of_its_own_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In whatever order they are written, and however often."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    page, live = (importlib.import_module(name) for name in ("page", "live"))
    monkeypatch.setattr(page, "HERE", tmp_path)
    monkeypatch.setattr(page, "machine", lambda: {"machine": "2 cores", "commit": "abc"})
    monkeypatch.setattr("sys.argv", ["/somewhere/bench.py", "--write"])
    (tmp_path / "benchmarks").mkdir()
    written = tmp_path / "BENCHMARKS.md"
    written.write_text("# Benchmarks\n\nWhat this is.\n")

    heard = live.Heard(19.99, 7.2, 287.1, 5, 0)
    page.keep("Speed", "Of files.", [{"task": "a", "MB/s": 1}])
    page.keep("Live", live.SAID, [live.cells(20.0, "sniff", heard), live.cells(0.0, "none", heard)])
    page.keep("Speed", "Of files.", [{"task": "a", "MB/s": 2}])

    head, speed, heard_live = written.read_text().split("\n\n## ")
    assert head == "# Benchmarks\n\nWhat this is."
    title, said, by, rows = speed.split("\n\n")
    assert (title, said, rows) == ("Speed", "Of files.", "| task | MB/s |\n|--|--:|\n| a | 2 |")
    assert by.startswith("Written by `python benchmarks/bench.py --write` on ")
    assert by.endswith(": machine 2 cores; commit abc.")
    assert heard_live.startswith("Live\n\nListening ")
    assert heard_live.endswith(
        "| 20 | `sniff` | 7 | 287 | 5 | 0 | 20.0 |\n| most | `none` | 7 | 287 | 5 | 0 | 20.0 |\n"
    )
    history = [json.loads(line) for line in (tmp_path / "benchmarks" / "history.jsonl").read_text().splitlines()]
    assert [line["tables"] for line in history][::2] == [{"Speed": [{"task": "a", "MB/s": speed}]} for speed in (1, 2)]
