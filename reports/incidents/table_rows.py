"""Rows of the tables of a capture, as rules of incidents ask for them: few columns, with times as numbers.

A table that is not there has no rows. No more than `MOST_ROWS` of a table are read: what a rule holds is bounded.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.reports.columns import scanning
from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.vocabulary.tables import SILENCES
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

MOST_ROWS = 200_000
SPAN_NS = 10 * SECOND_NS
"""What findings and tcp_health are counted in."""
Row = dict[str, Any]
_Made = TypeVar("_Made")


@dataclass
class TableRows:
    """The tables of one capture. Times are int nanoseconds."""

    tables: Mapping[str, ds.Dataset]
    end: int = 0  # of the capture
    begin: int = 0
    left_out: set[str] = field(default_factory=set)  # tables of which rows were too many
    _made: dict[Callable[[Any], Any], Any] = field(default_factory=dict)
    _asked: dict[str, scanning.Rows | None] = field(default_factory=dict)

    def _table(self, name: str) -> scanning.Rows | None:
        """A table, which most rules ask for again: of one in memory, that it is there is found out once."""
        if name not in self._asked:
            table = self.tables.get(name)
            self._asked[name] = None if table is None else scanning.as_it_lies(table)
        return self._asked[name]

    def once(self, make: Callable[[Self], _Made]) -> _Made:
        """What a function makes of these tables: several rules ask for it, and it is made once."""
        if make not in self._made:
            self._made[make] = make(self)
        made: _Made = self._made[make]
        return made

    def batches(
        self, name: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """A table, some rows at a time, with times as numbers."""
        if (table := self._table(name)) is not None:
            for batch in scanning.batches(table, columns, where):
                yield numbered(pa.Table.from_batches([batch]))

    def rows(self, name: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> list[Row]:
        """Rows of a table, in the order of the table."""
        found: list[Row] = []
        for batch in self.batches(name, columns, where):
            room = MOST_ROWS - len(found)
            if batch.num_rows > room:
                self.left_out.add(name)
            found += batch.slice(0, room).to_pylist()
        return found

    def fits(self, name: str, where: pc.Expression) -> bool:
        """Whether rows of a table are no more than `rows` takes."""
        table = self._table(name)
        found = () if table is None else scanning.batches(table, table.schema.names[:1], where)
        return sum(int(batch.num_rows) for batch in found) <= MOST_ROWS


def between(rows: Sequence[Row], since: int, until: int, name: str = "at") -> Sequence[Row]:
    """Rows, sorted by the time of that name, from since to before until."""
    low = bisect_left(rows, since, key=lambda row: row[name])
    return rows[low : bisect_left(rows, until, low, key=lambda row: row[name])]


def silence_row(host: str, since: int, until: int) -> Row:
    """A row of ``silences``, of one of which nothing else is known: rules find some that the table does not have."""
    unknown = ("overdue_ms", "first_packet", "first_failed", "failed_packet", "back_connection", "back_by")
    return (
        dict.fromkeys(SILENCES.names, 0)
        | dict.fromkeys(unknown)
        | {
            "host": host,
            "since": since,
            "until": until,
            "duration_ms": (until - since) / MILLISECOND_NS,
            "waiting_clients": [],
        }
    )
