"""How far long work is: on stderr, if that is a terminal, and in notebooks."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

_SHOWN_AFTER_S = 1.0  # in notebooks


class ProgressBar:
    """A bar that comes while it is entered and leaves nothing behind."""

    def __init__(self, what: str, shown: bool = True) -> None:
        self._what, self._shown = what, shown
        self._bar: _TerminalBar | _NotebookBar | None = None

    def update(self, what: str, done: int, total: int | None) -> None:
        """Say what is being done, and how much of how much is through (None: nobody knows)."""
        if self._bar is not None:
            self._bar.update(what, done, total)

    def __enter__(self) -> ProgressBar:
        if self._shown and sys.stderr.isatty():
            self._bar = _TerminalBar(self._what)
        elif self._shown and _in_notebook():
            self._bar = _NotebookBar()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.clear()


class _TerminalBar:
    """A line that comes at once."""

    def __init__(self, what: str) -> None:
        # Most processes show none, and to import it takes a twentieth of the time to their first line.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,  # results stay on stdout, which may be a pipe
        )
        self._task = self._progress.add_task(what, total=None)
        self._progress.start()

    def update(self, what: str, done: int, total: int | None) -> None:
        """As `ProgressBar.update`."""
        self._progress.update(self._task, description=what, completed=done, total=total)

    def clear(self) -> None:
        """Leave nothing."""
        self._progress.stop()


class _NotebookBar:
    """A bar in the output of a cell whose work takes long."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._handle: Any = None  # of what is displayed

    def update(self, what: str, done: int, total: int | None) -> None:
        """As `ProgressBar.update`."""
        if time.monotonic() - self._begun < _SHOWN_AFTER_S:
            return
        share = f"value='{done}' max='{total}'" if total else ""
        self._show(f"{html.escape(what)} <progress {share}></progress>")

    def clear(self) -> None:
        """Leave nothing."""
        if self._handle is not None:
            self._show("")

    def _show(self, markup: str) -> None:
        from IPython import display

        shown = display.HTML(markup)  # type: ignore[no-untyped-call]
        if self._handle is None:
            self._handle = display.display(shown, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown)


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return "ipykernel" in sys.modules and hasattr(sys.modules["IPython"].get_ipython(), "kernel")
