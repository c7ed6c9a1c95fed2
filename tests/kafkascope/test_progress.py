"""How far long work is: on a terminal, in a notebook, and nowhere else."""

from __future__ import annotations

import os
import sys

import pytest
from IPython import display

from kafkascope import progress
from kafkascope.progress import ProgressBar
from tests.terminals import on_a_terminal

WORK = """
from kafkascope.progress import ProgressBar
with ProgressBar("begin", shown={shown}) as progress:
    progress.update("read", 0, {total})
    progress.update("decode", 50, {total})
    progress._bar and progress._bar._progress.refresh()
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


def test_a_notebook_shows_it_if_it_takes_long_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, what: display.HTML) -> None:
            shown.append(str(what.data))

    def show(what: display.HTML, display_id: bool) -> Handle:
        shown.append(str(what.data))
        return Handle()

    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.setattr(display, "display", show)
    for patience in (1e9, 0.0):
        monkeypatch.setattr(progress, "_SHOWN_AFTER_S", patience)
        with ProgressBar("begin") as bar:
            bar.update("read", 1, 4)
            bar.update("<decode>", 2, None)
    assert shown == ["read <progress value='1' max='4'></progress>", "&lt;decode&gt; <progress ></progress>", ""]
