"""Temporary directories: removed by whoever comes next, if their process was killed."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from kafkascope.temporary import TemporaryDirectory

PROGRAM = """
import os, signal, sys
from kafkascope.temporary import TemporaryDirectory
kept = TemporaryDirectory(sys.argv[1])
(kept.path / "deep").mkdir()
(kept.path / "deep" / "file").write_text("x")
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(parent: Path, end: str) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, str(parent), end], check=end != "killed")


def test_it_goes_with_its_object_or_before() -> None:
    here = TemporaryDirectory()
    path = here.path
    (path / "file").write_text("x")
    assert path.stat().st_mode & 0o777 == 0o700
    del here
    gc.collect()
    assert not path.exists()
    with TemporaryDirectory() as path:
        assert path.is_dir()
    assert not path.exists()


def test_it_goes_with_its_process(tmp_path: Path) -> None:
    run(tmp_path, "ended")
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_goes_when_the_next_is_made(tmp_path: Path) -> None:
    (tmp_path / "kafkascope-run-is-being-made").mkdir()  # not locked yet
    (tmp_path / "kafkascope-run-x.log").write_text("a log that a message names")
    used = TemporaryDirectory(str(tmp_path))
    run(tmp_path, "killed")
    (left,) = {*tmp_path.iterdir()} - {used.path, *tmp_path.glob("*-made"), *tmp_path.glob("*.log")}
    assert (left / "deep" / "file").exists()
    later = TemporaryDirectory(str(tmp_path))
    assert {*tmp_path.iterdir()} == {used.path, later.path, *tmp_path.glob("*-made"), *tmp_path.glob("*.log")}
    later.remove()
    used.remove()


def test_where_there_are_no_locks_nothing_is_taken_for_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, "killed")
    monkeypatch.setattr("kafkascope.temporary._lock", lambda held: False)
    TemporaryDirectory(str(tmp_path)).remove()
    assert len(list(tmp_path.iterdir())) == 1
