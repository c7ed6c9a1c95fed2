"""Why filters match nothing: the names that there are, those first that are near to what was asked for."""

from __future__ import annotations

import pyarrow.compute as pc

from kafkascope.filters.expressions import Condition, Expression, Value, conditions
from kafkascope.filters.fields import Kind
from kafkascope.packets import OnePacket
from kafkascope.reading import Batch
from kafkascope.reports.columns.nearest import NEAREST, near_ones
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted

MOST_NAMES = 1_000
"""Of each kind, that are remembered."""

_KINDS = (Kind.TEXT, Kind.NUMBER)


class NoMatch:
    """Batches that were filtered in; at the end a remark, if filters let nothing through."""

    def __init__(self, expression: Expression, packet: OnePacket | None = None) -> None:
        """Names and numbers that are asked for as a whole are looked for; packet: one whose exchanges are asked for."""
        wanted = [one for one in conditions(expression) if one.comparison == "==" and one.kind in _KINDS and one.asked]
        self._there: list[tuple[Condition, set[Value]]] = [(one, set()) for one in wanted]
        self._packet = packet
        self._seen = self._matched = 0

    def observe(self, batch: Batch, matched: int) -> None:
        """Take in a batch, of which so many exchanges passed."""
        exchanges = batch.tables.get("exchanges")
        if exchanges is None or not len(exchanges):
            return
        self._seen += len(exchanges)
        self._matched += matched
        if self._matched or not self._there:
            return
        exchanges = batch.with_ends(exchanges)
        for one, names in self._there:
            if len(names) < MOST_NAMES:
                found = pc.unique(one.field.values(exchanges, one.kind).values).slice(0, MOST_NAMES)
                names.update(name for name in found.to_pylist() if name is not None)

    def remark(self) -> str | None:
        """What to say at the end; None if something matched, or there was nothing to match."""
        if self._matched or not self._seen:
            return None
        said = [f"0 of {counted(self._seen, 'exchange')} matched"]
        for one, there in self._there:
            for value in one.values:
                if not any(str(value).lower() == str(other).lower() for other in there):
                    said.append(f"{one.asked} {shown_text(str(value))}: {_instead(value, there)}")
        if self._packet is not None:
            said.append(f"{self._packet} brings none of them anything new; {self._packet.advice}")
        return "; ".join(said)


def _instead(value: Value, there: set[Value]) -> str:
    if not there:
        return "no exchange names any"
    if isinstance(value, str) and (near := near_ones(value, map(str, there))):
        return f"not there{near}"
    some = sorted(there)[:NEAREST]
    more = f" and {len(there) - len(some)} more" if len(there) > len(some) else ""
    return f"not there; there are {', '.join(shown_text(str(one)) for one in some)}{more}"
