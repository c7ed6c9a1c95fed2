"""How far long work is: on a terminal, and nowhere else."""

from __future__ import annotations

import os
import sys

import pytest

from kafkascope.progress import ProgressBar
from tests.terminals import on_a_terminal

WORK = """
from kafkascope.progress import ProgressBar
with ProgressBar("begin", shown={shown}) as progress:
    progress.update("read", 0, {total})
    progress.update("decode", 50, {total})
    progress._progress.refresh()
    print("a result")
"""


def working(shown: bool, total: int | None) -> tuple[str, str]:
    """What comes out of stdout, a pipe, and of stderr, a terminal."""
    return on_a_terminal([sys.executable, "-c", WORK.format(shown=shown, total=total)], os.environ)


def test_a_terminal_shows_what_is_done_and_how_much_and_is_left_clean() -> None:
    output, shown = working(True, 200)
    assert output == "a result\n"
    assert "decode" in shown
    assert "25%" in shown
    assert shown.rstrip("\x1b[?25h\r\n").endswith("\x1b[2K")  # the line of the bar is erased


def test_work_of_unknown_length_has_no_percentage() -> None:
    _, shown = working(True, None)
    assert "decode" in shown
    assert "25%" not in shown


def test_nothing_is_shown_where_it_is_not_wanted() -> None:
    assert working(False, 200) == ("a result\n", "")


def test_nothing_is_written_where_stderr_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("begin") as progress:
        progress.update("read", 1, 2)
        progress.update("read", 2, None)
    assert capfd.readouterr() == ("", "")
