"""What views make of their rows, by several processes, each of which takes a share of the keys at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa

from kafkascope.reports.columns.views import Known, partition_of
from kafkascope.reports.views.guarded import results
from kafkascope.reports.views.registry import VIEWS
from kafkascope.side_by_side import Numbers, processes_worth, side_by_side

SHARE_ROWS = 20_000
"""Of a view, that are worth a process of their own."""
_MOST_ROWS = 250_000  # of a share, if keys allow it: they are held at once

Rows = Callable[[str], Iterable[pa.Table]]
"""The rows of a view, some at a time."""


def processes_for(counts: Mapping[str, int], most: int) -> int:
    """How many understand so many rows of views, if at most so many do."""
    return processes_worth(sum(counts.values()) // SHARE_ROWS, most)


def understood(
    rows: Rows,
    counts: Mapping[str, int],
    known: Known,
    most: int,
    check: Callable[[], None] = lambda: None,
) -> dict[str, dict[str, pa.Table]]:
    """What views make of their rows, as `guarded.results`, by the names of the views; with at most so many processes.

    counts: how many rows there are, of each view that is asked. Which process does what is not fixed:
    each takes a share of the keys of a view at a time, as one key can be as much work as all others together.
    """
    works = list(_works(rows, counts, known, most))
    waiting = Numbers(len(works))

    def work(check: Callable[[], None] = lambda: None) -> dict[int, dict[str, pa.Table]]:
        made = {}
        for number in waiting:
            check()
            made[number] = works[number].result()
        return made

    elsewhere = [work] * (processes_for(counts, most) - 1)
    with closing(waiting), side_by_side(elsewhere) as others:
        made = work(check)
        for other in others:
            made |= other.result(check)
    tables: dict[str, dict[str, list[pa.Table]]] = {name: {} for name in counts}
    for number, one in enumerate(works):
        of_share = made[number] if number in made else one.result()  # of a process that was killed
        for name, rows_of_share in of_share.items():
            tables[one.view].setdefault(name, []).append(rows_of_share)
    return {view: {name: pa.concat_tables(parts) for name, parts in of.items()} for view, of in tables.items()}


@dataclass(frozen=True, slots=True)
class _Work:
    """A share of the keys of a view."""

    view: str
    number: int
    of: int
    rows: Rows
    known: Known

    def result(self) -> dict[str, pa.Table]:
        """What the view makes of the rows with these keys."""
        view, rows = VIEWS[self.view](), self.rows(self.view)
        if self.of > 1:
            rows = (self._share(some, view.key) for some in rows)
        return results(view, pa.concat_tables([view.schema.empty_table(), *rows]), self.known)

    def _share(self, rows: pa.Table, key: str) -> pa.Table:
        """Those of the rows that are in it; all of them, as of one large key, stay where they are on disk."""
        mine = partition_of(rows[key], self.of) == self.number
        return rows if mine.all() else rows.filter(pa.array(mine))


def _works(rows: Rows, counts: Mapping[str, int], known: Known, most: int) -> Iterator[_Work]:
    """All that is to be done: in the order of the registry, for rows of groups take longest, and begin first so."""
    for view in VIEWS:
        if view in counts:
            of = max(processes_worth(counts[view] // SHARE_ROWS, most), counts[view] // _MOST_ROWS)
            for number in range(of):
                yield _Work(view, number, of, rows, known)
