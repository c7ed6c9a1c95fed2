"""What was seen while an interface was listened to, for whoever ends that: exchanges, errors and groups, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted

if TYPE_CHECKING:
    from kafkascope.reports.incidents.incident import Incident

COLUMNS = frozenset({"api"})
"""Columns of the exchanges table that are looked at, and those that are if they are there anyway."""
_NAMED = 8


class Seen:
    """Counts the exchanges of tables."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self.apis: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.incidents: Counter[str] | None = None  # None: nobody looked for any
        self._going_on = 0
        self._groups: set[str] = set()

    def observe(self, tables: Mapping[str, pa.Table]) -> None:
        """Count what is in the table of exchanges; columns that are not made are null."""
        exchanges = tables.get("exchanges")
        if exchanges is None:
            return
        self.apis.update(_counts(exchanges["api"], "unknown"))
        wrong = exchanges.filter(pc.not_equal(pc.fill_null(exchanges["error_code"], 0), 0))
        if len(wrong):
            self.errors.update(_counts(wrong["error"], "unknown"))
        if len(self._groups) < self._limits.groups:
            self._groups.update(pc.unique(exchanges["group_id"]).drop_null().to_pylist())

    def tell(self, begun: Iterable[Incident], going_on: Sequence[Incident]) -> None:
        """Count incidents that are told for the first time; how many go on."""
        self.incidents = (self.incidents or Counter()) + Counter(one.kind.value for one in begun)
        self._going_on = len(going_on)

    def lines(self) -> Iterator[str]:
        """What there is to say."""
        exchanges = self.apis.total()
        yield f"{counted(exchanges, 'exchange')}{_listed(self.apis)}"
        if self.errors:
            yield f"{counted(self.errors.total(), 'exchange')} with an error{_listed(self.errors)}"
        if self._groups:
            groups = sorted(map(shown_text, self._groups))
            more = f" and {len(groups) - _NAMED:,} more" if len(groups) > _NAMED else ""
            at_least = f" or more ({self._limits.option('groups')})" if len(groups) >= self._limits.groups else ""
            yield f"{counted(len(groups), 'group')}{at_least}: {', '.join(groups[:_NAMED])}{more}"
        if self.incidents is None and exchanges:
            yield "incidents were not looked for: --incidents, --tables, --metrics and --top do"
        if self.incidents is not None:
            goes_on = f"; {self._going_on:,} not over" if self._going_on else ""
            yield f"{counted(self.incidents.total(), 'incident')}{_listed(self.incidents)}{goes_on}"


def _counts(column: pa.ChunkedArray, unknown: str) -> dict[str, int]:
    rows = pc.value_counts(column).to_pylist()
    return {row["values"] or unknown: row["counts"] for row in rows}


def _listed(counts: Counter[str]) -> str:
    if not counts:
        return ""
    named = [f"{name} {count:,}" for name, count in counts.most_common(_NAMED)]
    rest = counts.total() - sum(count for _, count in counts.most_common(_NAMED))
    return f": {', '.join([*named, *([f'others {rest:,}'] if rest else [])])}"
