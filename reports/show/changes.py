"""What differs between two captures, as text, Markdown, HTML and JSON."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafkascope.decoders import to_json
from kafkascope.reports.answers import coverage
from kafkascope.reports.answers.changes import Change, Side
from kafkascope.reports.columns.arrow import table_of
from kafkascope.reports.columns.remarks import filter_text
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted
from kafkascope.reports.measures.chance import Verdict
from kafkascope.reports.show.markdown import escaped
from kafkascope.reports.show.page.page import rendered
from kafkascope.reports.vocabulary.tables import CHANGES

_ROWS = 30  # of a section
WIDTH = 120  # columns of a text that goes to no terminal
_HEADS = ("", "before", "after", "", "")
_TITLES = {
    "incidents": "Incidents",
    "latency": "Latency",
    "errors": "Errors that mean trouble",
    "rebalances": "Rebalances",
    "settings": "Settings of clients, as far as their requests show them",
    "seen": "Clients, groups, topics, brokers",
    "load": "Load: exchanges by API",
}
_NAMES = ("incidents", "settings", "seen")  # that are there or not, whatever chance does
_TOLD = {Verdict.NEW: "only after", Verdict.GONE: "only before", Verdict.CHANGED: "changed"}
_RULES = (
    "More and less are told if they are so by a tenth, and by more than chance makes likely: three standard deviations "
    "of that many samples. That something differs does not say why. What only one capture shows may have been there, "
    "unseen, in the other one."
)


@dataclass(frozen=True, slots=True)
class Section:
    """What differs of one kind, and what is to be said of the rest."""

    title: str
    rows: list[tuple[str, ...]]
    rest: str


def table(found: Sequence[Change]) -> pa.Table:
    """Rows of ``CHANGES``."""
    return table_of(found, CHANGES)


def text(before: Side, after: Side, found: Sequence[Change], width: int = WIDTH) -> str:
    """For a terminal of so many columns."""
    to = io.StringIO()
    console = Console(file=to, width=width, highlight=False, emoji=False, markup=False)
    for side, told in _sides(before, after):
        console.print(Text(f"{side:<7} {told}"))
    for section in _sections(found):
        console.print(Text(f"\n{section.title}"))
        grid = Table.grid(padding=(0, 2, 0, 0))
        for row in [_HEADS, *section.rows] if section.rows else ():
            grid.add_row(*(Text(cell) for cell in ("", *row)))
        if section.rows:
            console.print(grid)
        if section.rest:
            console.print(Text(f"  {section.rest}"))
    console.print(Text(f"\n{_foot(before, after)}"))
    return "\n".join(line.rstrip() for line in to.getvalue().split("\n"))


def markdown(before: Side, after: Side, found: Sequence[Change]) -> str:
    """For a ticket. Text of the captures in it is escaped."""
    lines = ["# What changed", "", *(f"- {side}: {escaped(told)}" for side, told in _sides(before, after))]
    for section in _sections(found):
        lines += ["", f"## {section.title}", ""]
        if section.rows:
            lines += [f"| {' | '.join(_HEADS)} |", "|--" * len(_HEADS) + "|"]
            lines += [f"| {' | '.join(map(escaped, row))} |" for row in section.rows] + [""]
        lines.append(section.rest)
    return "\n".join([*lines, "", _foot(before, after), ""])


def html(before: Side, after: Side, found: Sequence[Change]) -> str:
    """One document that needs nothing else. Text of the captures in it is escaped."""
    return rendered(
        "changes.html.j2",
        title="What changed – kafkascope",
        sides=_sides(before, after),
        sections=list(_sections(found)),
        heads=_HEADS,
        footer=_foot(before, after),
    )


def json(before: Side, after: Side, found: Sequence[Change]) -> str:
    """One object: what is told of both captures, and the rows of ``CHANGES``, one a line."""
    sides = ",\n".join(
        f"{to_json(name)}:{to_json(_facts(side))}" for name, side in (("before", before), ("after", after))
    )
    rows = ",\n".join(to_json(row) for row in table(found).to_pylist())
    return f'{{{sides},\n"changes":[\n{rows}]}}\n'


def _foot(before: Side, after: Side) -> str:
    """What the comparison stands on."""
    sides = (("before", before), ("after", after))
    empty = [name for name, side in sides if not any(side.summary["exchanges"].values())]
    if empty:
        return f"{' and '.join(empty)}: no Kafka was seen, so nothing can be compared."
    partial = [name for name, side in sides if "filter" in side.summary and "exchanges" not in side.tables]
    unknown = (
        f"{' and '.join(partial)}: exchanges that did not pass the filter are not in the tables, so settings, who "
    )
    return f"{unknown}is there and load are not compared. {_RULES}" if partial else _RULES


def _facts(side: Side) -> dict[str, Any]:
    told = ("captures", "first", "last", "packets", "connections", "exchanges")
    chosen = {"filter": side.summary["filter"]} if "filter" in side.summary else {}
    return {"name": side.name, "seconds": side.seconds} | {name: side.summary.get(name) for name in told} | chosen


def _sides(before: Side, after: Side) -> list[tuple[str, str]]:
    return [(name, shown_text(" · ".join(_headline(side)))) for name, side in (("before", before), ("after", after))]


def _headline(side: Side) -> list[str]:
    chosen = [filter_text(**side.summary["filter"])] if "filter" in side.summary else []
    return [side.name, *coverage.headline(side.summary), f"{side.seconds:,.0f} s", *chosen]


def _sections(found: Sequence[Change]) -> Iterator[Section]:
    for name, of_it in groupby(found, key=lambda one: one.section):
        changes = list(of_it)
        told = [one for one in changes if one.verdict not in (Verdict.SAME, Verdict.FEW)]
        yield Section(_TITLES[name], [_row(one) for one in told[:_ROWS]], _rest(changes, len(told)))


def _row(one: Change) -> tuple[str, ...]:
    """Its cells, by ``_HEADS``."""
    ratio = "" if one.ratio is None else f"{one.ratio:,.{2 if one.ratio < 10 else 0}f} ×"
    samples = ""
    if one.section == "latency":
        samples = f"{one.before_samples:,} and {counted(one.after_samples or 0, 'exchange')}; {one.spent}"
    cells = (f"{one.subject} {one.what}".strip(), one.before, one.after, _TOLD.get(one.verdict, ratio), samples)
    return tuple(shown_text(cell) for cell in cells)


def _rest(changes: Sequence[Change], told: int) -> str:
    few = sum(one.verdict == Verdict.FEW for one in changes)
    same = len(changes) - told - few
    same_words = "the same" if changes[0].section in _NAMES else "no difference, or none beyond chance"
    counts = (("more that differ", told - _ROWS), (same_words, same), ("too few samples to tell", few))
    return "; ".join(f"{words}: {count:,}" for words, count in counts if count > 0)
