"""One group of a capture, for notebooks: its rebalances, what happened to its members, and why."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import pyarrow as pa

from kafkascope.dataframes import to_frame
from kafkascope.figures import plotly_needed
from kafkascope.reports.answers.groups import events_of, rebalances_of
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.show.explanation import explain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


class Group:
    """A group: ``rebalances``, ``events`` and ``findings`` are its rows of these tables."""

    def __init__(self, group_id: str, rebalances: pa.Table, events: pa.Table, findings: pa.Table) -> None:
        """Tables hold the rows of this group alone, in order."""
        self.group_id = group_id
        self.rebalances = to_frame(rebalances)
        self.events = to_frame(events)
        self.findings = to_frame(findings)
        self._rebalances = rebalances_of(rebalances)
        self._events = events_of(events)

    def explain(self, generation: int | None = None) -> str:
        """Why it rebalanced to a generation (or epoch), in words; the last one if none is given.

        Raises KeyError if the capture has no such generation.
        """
        if not self._rebalances:
            raise KeyError(f"{shown_text(self.group_id)}: the capture has no rebalance of it")
        if generation is None:
            return Explanation(explain(self._rebalances[-1]))
        of: list[Rebalance] = [one for one in self._rebalances if one.to_generation == generation]
        if not of:
            known = ", ".join(str(one.to_generation) for one in self._rebalances)
            raise KeyError(f"{shown_text(self.group_id)}: no generation {generation}; those of the capture are {known}")
        return Explanation("\n\n".join(explain(one) for one in of))

    def timeline(self) -> Figure:
        """The group over time: members as lanes, generations, who owned what, what set each rebalance off.

        Raises ModuleNotFoundError without plotly.
        """
        with plotly_needed():
            from kafkascope.reports.show.figures.group import timeline

        return timeline(self._rebalances, self._events)

    def __repr__(self) -> str:
        return f"<Group {shown_text(self.group_id)}: {len(self.rebalances)} rebalances, {len(self.events)} events>"

    def _repr_html_(self) -> str:
        shown = ["to_generation", "started", "duration_ms", "trigger", "trigger_client_id", "certainty"]
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{self.rebalances[shown].to_html(index=False)}"


class Explanation(str):
    """Text that a notebook shows in lines."""

    def __repr__(self) -> str:
        return str(self)
