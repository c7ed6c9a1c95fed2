"""What is seen on stderr while kernels are compiled, for nothing else is seen of the program for that long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


declared = 0
"""Kernels that there are in the modules that were imported."""


class _Shown:
    """A bar on a terminal, or else a line once.

    The bar is of all kernels that are declared. No command needs every one, so it is gone before it is full.
    """

    def __init__(self) -> None:
        self.done = 0
        self._depth = 0
        self._bar: Progress | None = None
        self._said = False
        self.first: Callable[[], None] | None = None

    def enter(self, what: str) -> None:
        """Something begins, perhaps as part of something else, that whoever waits is to know of."""
        self._depth += 1
        if not sys.stderr.isatty():
            if not self._said:
                say("compiling kernels; the first run after installation takes up to half a minute longer")
            self._said = True
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.add_task(what)
        if self._depth == 1:
            self._bar.start()
        self.show(what)

    def leave(self) -> None:
        """It is over."""
        self._depth -= 1
        self.show()
        if self._bar and not self._depth:
            self._bar.stop()

    def show(self, what: str | None = None) -> None:
        """Say on the bar, if there is one, what is done now and how far it is."""
        if self._bar:
            task = self._bar.task_ids[0]
            self._bar.update(task, description=what, completed=self.done, total=declared)


_shown = _Shown()


@contextmanager
def compiling() -> Iterator[None]:
    """While a kernel, of which there is no machine code, is compiled."""
    _shown.enter("compile kernels")
    first, _shown.first = _shown.first, None
    try:
        if first:
            first()
        yield
    finally:
        _shown.leave()


@contextmanager
def waiting() -> Iterator[None]:
    """While somebody else compiles it."""
    _shown.enter("wait for kernels that are being compiled")
    try:
        yield
    finally:
        _shown.leave()


def one_more() -> None:
    """A kernel is compiled, be it as part of another one."""
    _shown.done += 1
    _shown.show()


def when_compiling(first: Callable[[], None]) -> None:
    """Call this once, as soon as a kernel turns out not to be compiled."""
    _shown.first = first


def say(text: str) -> None:
    """A line on stderr."""
    print(f"kafkascope: {text}", file=sys.stderr, flush=True)


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
