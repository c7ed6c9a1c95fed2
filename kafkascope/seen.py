"""What was seen while an interface was listened to, for whoever ends that: exchanges, errors and groups, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted

COLUMNS = frozenset({"api"})
"""Columns of the exchanges table that are looked at, and those that are if they are there anyway."""
_NAMED = 8


class Seen:
    """Counts the exchanges of tables."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self.apis: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._groups: set[str] = set()

    def observe(self, tables: Mapping[str, pa.Table]) -> None:
        """Count what is in the table of exchanges; columns that are not made are null."""
        exchanges = tables.get("exchanges")
        if exchanges is None:
            return
        self.apis.update(_counts(exchanges["api"], "unknown"))
        wrong = exchanges.filter(pc.not_equal(pc.fill_null(exchanges["error_code"], 0), 0))
        self.errors.update(_counts(wrong["error"], "unknown"))
        if len(self._groups) < self._limits.groups:
            self._groups.update(pc.unique(exchanges["group_id"]).drop_null().to_pylist())

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


def _counts(column: pa.ChunkedArray, unknown: str) -> dict[str, int]:
    rows = pc.value_counts(column).to_pylist()
    return {row["values"] or unknown: row["counts"] for row in rows}


def _listed(counts: Counter[str]) -> str:
    if not counts:
        return ""
    named = [f"{name} {count:,}" for name, count in counts.most_common(_NAMED)]
    rest = counts.total() - sum(count for _, count in counts.most_common(_NAMED))
    return f": {', '.join([*named, *([f'others {rest:,}'] if rest else [])])}"
