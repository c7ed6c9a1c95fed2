"""How far long work is, on stderr, if that is a terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn


class ProgressBar:
    """A bar that comes while it is entered and leaves nothing behind."""

    def __init__(self, what: str, shown: bool = True) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,  # results stay on stdout, which may be a pipe
            disable=not (shown and sys.stderr.isatty()),
        )
        self._task = self._progress.add_task(what, total=None)

    def update(self, what: str, done: int, total: int | None) -> None:
        """Say what is being done, and how much of how much is through (None: nobody knows)."""
        self._progress.update(self._task, description=what, completed=done, total=total)

    def __enter__(self) -> ProgressBar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
