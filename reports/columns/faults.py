"""The last guard: what is raised where a message, a connection, a key of a view or an answer is worked on.

That is a fault of this program. It costs the one thing that it was met in, becomes an issue of the kind
`INTERNAL_ERROR`, and the run goes on. What the machine lacks, or a person asks for (Ctrl-C), is raised as ever.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

RAISE_FAULTS = "KAFKASCOPE_RAISE_FAULTS"
"""Environment variable: if it is set, faults are raised all the same. Tests set it, in whatever process they run."""

MOST_ALONE = 100
"""So many items are found one by one that something is raised on: finding each takes some steps."""

Item = TypeVar("Item")
Made = TypeVar("Made")

_OURS = f"{Path(__file__).parents[2]}/"  # the package: kafkascope/reports/columns/faults.py is in it


def fault(error: Exception) -> str:
    """What to say of an exception: its type and where it was raised; not its text, which may have secrets in it.

    Raises it again if it is none of ours (no memory, a file that cannot be read), or if faults shall be raised.
    """
    if isinstance(error, MemoryError | OSError) or os.environ.get(RAISE_FAULTS):
        raise error
    where = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if file.startswith(_OURS):
            where = f" at kafkascope/{file.removeprefix(_OURS)}:{line}"
    return f"{type(error).__name__}{where}, a fault of kafkascope: please report it"


def isolated(
    items: Sequence[Item],
    work: Callable[[Sequence[Item]], Iterable[Made]],
    without: Callable[[Sequence[Item], str], Iterable[Made]],
) -> Iterator[Made]:
    """What work makes of all items; where it raises, of their halves, and so on, in the order of the items.

    What work gave before it raised is out: one that gives things as it goes has to know them again.

    So no item is lost with another. For one on which work raises alone there is what `without` makes of it, which is
    also given what `fault` says. Of more than `MOST_ALONE` the others are given up in larger parts.
    """
    waiting = [items] if items else []
    alone = 0
    while waiting:
        part = waiting.pop()
        try:
            yield from work(part)
        except Exception as error:
            said = fault(error)
        else:
            continue
        if len(part) == 1 or alone >= MOST_ALONE:
            alone += 1
            yield from without(part, said)
        else:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]


@contextmanager
def all_or_nothing(owner: object) -> Iterator[None]:
    """If something is raised, an object and the objects of this package that it holds get the state back they had.

    An attribute is replaced when it changes, or is a dict whose values are replaced, or are such dicts. All else must
    be such that it makes no difference to take in the same messages twice.
    """
    held = [(one, {name: _copied(value) for name, value in vars(one).items()}) for one in _with_parts([owner])]
    try:
        yield
    except BaseException:
        for one, values in held:
            vars(one).update(values)
        raise


def _with_parts(owners: Iterable[object]) -> Iterator[object]:
    for owner in owners:
        if type(owner).__module__.startswith("kafkascope.reports.") and hasattr(owner, "__dict__"):
            yield owner
            yield from _with_parts(vars(owner).values())


def _copied(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    copied = value.copy()
    if isinstance(next(iter(value.values()), None), dict):
        copied.update({key: member.copy() for key, member in value.items()})
    return copied
