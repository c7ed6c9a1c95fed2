"""Why filters match nothing: the names that there are, those first that are near to what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.filters.expressions import Condition, Expression, Value, conditions, passing
from kafkascope.filters.fields import Kind
from kafkascope.reports.columns.nearest import NEAREST, near_ones
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted

MOST_NAMES = 1_000
"""Of each kind, that are remembered."""

_KINDS = (Kind.TEXT, Kind.NUMBER)
_NO_NAMES: Mapping[str, str] = {}


class PacketAsked(Protocol):
    """A packet whose exchanges are wanted; its text names it."""

    @property
    def exchanges(self) -> Expression:
        """Those that it is part of."""

    @property
    def advice(self) -> str:
        """Where to look instead, if it is in none."""


class NoMatch:
    """Batches that were filtered in; at the end a remark, if filters let nothing through."""

    def __init__(self, expression: Expression, packet: PacketAsked | None = None, most: int = MOST_NAMES) -> None:
        """Names and numbers that are asked for as a whole are looked for; packet: the one that is asked for."""
        wanted = [one for one in conditions(expression) if one.comparison == "==" and one.kind in _KINDS and one.asked]
        self._there: list[tuple[Condition, set[Value]]] = [(one, set()) for one in wanted]
        self._packet = packet
        self._most = most
        self._seen = self._matched = self._of_packet = 0

    def observe(self, exchanges: pa.Table, matched: int) -> None:
        """Take in exchanges with both ends, of which so many passed."""
        self._seen += len(exchanges)
        self._matched += matched
        if self._packet is not None and not self._matched:
            self._of_packet += int(np.count_nonzero(passing(self._packet.exchanges, exchanges)))
        for one, names in self._there if not self._matched else ():
            if len(names) < self._most:
                found = pc.unique(one.field.values(exchanges, one.kind).values).slice(0, self._most)
                names.update(name for name in found.to_pylist() if name is not None)

    def merge(self, other: NoMatch) -> None:
        """Take in what another one of the same expression has seen."""
        self._seen += other._seen
        self._matched += other._matched
        for (_, names), (_, more) in zip(self._there, other._there, strict=True):
            names.update(sorted(more)[: max(0, self._most - len(names))])

    def remark(self, topics: Mapping[str, str] = _NO_NAMES) -> str | None:
        """What to say at the end; None if something matched, or there was nothing to match.

        topics: names of those that were seen by id alone, as written.
        """
        if self._matched or not self._seen:
            return None
        said = [f"0 of {counted(self._seen, 'exchange')} matched"]
        for one, seen in self._there:
            there = {topics.get(value, value) if isinstance(value, str) else value for value in seen}
            for value in one.values:
                fold = str.lower if one.field.is_word else str
                if not any(fold(str(value)) == fold(str(other)) for other in there):
                    said.append(f"{one.asked} {shown_text(str(value))}: {_instead(value, there)}")
        if self._packet is not None:
            said.append(self._what_of(self._packet))
        return "; ".join(said)

    def _what_of(self, packet: PacketAsked) -> str:
        if self._of_packet:
            return f"{packet} is part of {counted(self._of_packet, 'exchange')}, which other filters leave out"
        return f"{packet} brings none of them anything new; {packet.advice}"


def _instead(value: Value, there: set[Value]) -> str:
    if not there:
        return "no exchange names any"
    if isinstance(value, str) and (near := near_ones(value, map(str, there))):
        return f"not there{near}"
    some = sorted(there)[:NEAREST]
    more = f" and {len(there) - len(some)} more" if len(there) > len(some) else ""
    return f"not there; there are {', '.join(shown_text(str(one)) for one in some)}{more}"
