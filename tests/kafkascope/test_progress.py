"""How far long work is: on a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading

import pytest

from kafkascope.progress import ProgressBar

WORK = """
from kafkascope.progress import ProgressBar
with ProgressBar("begin", shown={shown}) as progress:
    progress.update("read", 0, {total})
    progress.update("decode", 50, {total})
    progress._progress.refresh()
    print("a result")
"""


def on_a_terminal(shown: bool, total: int | None) -> tuple[str, str]:
    """What comes out of stdout, a pipe, and of stderr, a terminal."""
    terminal, end = pty.openpty()
    seen = bytearray()

    def watch() -> None:
        while True:
            try:
                more = os.read(terminal, 4096)
            except OSError:  # the last process with the terminal has gone
                return
            if not more:
                return
            seen.extend(more)

    watcher = threading.Thread(target=watch)
    watcher.start()
    command = [sys.executable, "-c", WORK.format(shown=shown, total=total)]
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=end, check=True, text=True, env=environment)
    os.close(end)
    watcher.join()
    os.close(terminal)
    return done.stdout, seen.decode()


def test_a_terminal_shows_what_is_done_and_how_much_and_is_left_clean() -> None:
    output, shown = on_a_terminal(True, 200)
    assert output == "a result\n"
    assert "decode" in shown
    assert "25%" in shown
    assert shown.rstrip("\x1b[?25h\r\n").endswith("\x1b[2K")  # the line of the bar is erased


def test_work_of_unknown_length_has_no_percentage() -> None:
    _, shown = on_a_terminal(True, None)
    assert "decode" in shown
    assert "25%" not in shown


def test_nothing_is_shown_where_it_is_not_wanted() -> None:
    assert on_a_terminal(False, 200) == ("a result\n", "")


def test_nothing_is_written_where_stderr_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("begin") as progress:
        progress.update("read", 1, 2)
        progress.update("read", 2, None)
    assert capfd.readouterr() == ("", "")
