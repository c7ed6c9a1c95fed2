"""Things in order, those that belong together as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def in_runs(items: Iterable[Item], belongs: Callable[[list[Item], Item], bool]) -> Iterator[list[Item]]:
    """The items in their order, as runs: each belongs to the run in hand (of one at least), or begins the next."""
    run: list[Item] = []
    for item in items:
        if run and not belongs(run, item):
            yield run
            run = []
        run.append(item)
    if run:
        yield run
