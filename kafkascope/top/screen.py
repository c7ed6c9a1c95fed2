"""The screen of ``sniff --top``: tables of what `counts` has, and one row of them with all that is known of it.

Names come from the network: they are shown as `rich.text.Text`, in which nothing is markup, and by `shown_text`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Thread
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static, Tab, Tabs
from textual.widgets.data_table import RowDoesNotExist

from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted
from kafkascope.reports.incidents.incident import order
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.sniffer.units import SECOND_NS
from kafkascope.top.counts import APIS, BROKERS, CLIENTS, GROUPS, KINDS, TOPICS, WAITING, Counts, Detail, Row

AGAIN_S = 1.0
"""Between looks at the counts."""
LISTED = 50
"""Of each list in the view of one row."""

INCIDENTS_SHOWN = 3

_SEVERITIES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}

Value = float | None


@dataclass(frozen=True, slots=True)
class Column:
    """What a table shows of rows."""

    title: str
    value: Callable[[Row], Value]
    digits: int = 0
    is_trouble: bool = False  # where it is not 0

    def cell(self, row: Row) -> Text:
        """The value as text."""
        return number(self.value(row), self.digits, self.is_trouble)


def number(value: Value, digits: int = 0, is_trouble: bool = False) -> Text:
    """A number as text; - where none is known."""
    if value is None:
        return Text("-", style="dim", justify="right")
    style = "dim" if not value else "bold red" if is_trouble else ""
    return Text(f"{value:,.{digits}f}", style=style, justify="right")


_EXCHANGES = (
    Column("exchanges/s", lambda row: row.per_second(row.window.exchanges), 1),
    Column("request kB/s", lambda row: row.per_second(row.window.request_bytes) / 1e3, 1),
    Column("response kB/s", lambda row: row.per_second(row.window.response_bytes) / 1e3, 1),
    Column("median ms", lambda row: row.median_ms, 2),
    Column("99 % ms", lambda row: row.p99_ms, 2),
)
_ERRORS = (
    Column("errors", lambda row: row.window.errors, is_trouble=True),
    Column("errors in all", lambda row: row.in_all.errors, is_trouble=True),
)
_IN_ALL = Column("exchanges in all", lambda row: row.in_all.exchanges)
_LAG = Column("lag", lambda row: row.lag)

COLUMNS: dict[str, tuple[Column, ...]] = {
    BROKERS: (*_EXCHANGES, *_ERRORS, _IN_ALL),
    CLIENTS: (*_EXCHANGES, *_ERRORS, _IN_ALL),
    TOPICS: (
        Column("produced/s", lambda row: row.per_second(row.window.produced_records), 1),
        Column("produced kB/s", lambda row: row.per_second(row.window.produced_bytes) / 1e3, 1),
        Column("fetched/s", lambda row: row.per_second(row.window.fetched_records), 1),
        Column("fetched kB/s", lambda row: row.per_second(row.window.fetched_bytes) / 1e3, 1),
        _LAG,
        *_ERRORS,
        Column("produced in all", lambda row: row.in_all.produced_records),
        Column("fetched in all", lambda row: row.in_all.fetched_records),
    ),
    GROUPS: (
        Column("exchanges/s", lambda row: row.per_second(row.window.exchanges), 1),
        Column("99 % ms", lambda row: row.p99_ms, 2),
        _LAG,
        Column("rebalances", lambda row: row.window.rebalances, is_trouble=True),
        Column("rebalances in all", lambda row: row.in_all.rebalances),
        *_ERRORS,
        _IN_ALL,
    ),
    APIS: (*_EXCHANGES, *_ERRORS, _IN_ALL),
}
"""What each table has behind the names."""


class Rows(DataTable[Text]):
    """A table, whose key the footer tells."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "Look into")]


_OF_TABLES = frozenset({"turn", "table", "sort", "reverse", "filter", "no_filter"})


class Top(App[None]):
    """The whole screen, and the thread that counts."""

    TITLE = "sniff --top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: auto; padding: 0 1; }
    #filter { display: none; height: 3; }
    #filter.shown { display: block; }
    Rows { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("tab", "turn(1)", "Next table", priority=True),
        Binding("shift+tab", "turn(-1)", show=False, priority=True),
        *(Binding(str(place + 1), f"table({place})", show=False) for place in range(len(KINDS))),
        Binding("s", "sort", "Sort by next"),
        Binding("r", "reverse", "Reverse"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "no_filter", show=False),
    ]

    def __init__(
        self, counts: Counts, work: Callable[[], None], now: Callable[[], int], title: str, stays: Callable[[], bool]
    ) -> None:
        """work: what counts, in another thread, until it is through. now: see `BatchSource.now`.

        stays: whether it does when that is through, until somebody quits.
        """
        super().__init__()
        self.counts = counts
        self.work: Future[None] = Future()
        self._work, self._now, self._title, self._stays = work, now, title, stays
        self.kind = BROKERS
        self.is_counting = False
        self._sorted = dict.fromkeys(KINDS, (0, True))  # column, and whether what is highest comes first
        self._wanted = ""

    def compose(self) -> ComposeResult:
        """The widgets."""
        yield Static(id="head")
        yield Tabs(*(Tab(f"{place + 1} {kind}", id=kind) for place, kind in enumerate(KINDS)))
        yield Input(placeholder="part of a name; Enter keeps it, Escape takes it away", id="filter")
        yield Rows(cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to count and to show."""
        self.is_counting = True
        Thread(target=self._run_work, name="kafkascope-top", daemon=True).start()
        self.query_one(Rows).focus()
        self.set_interval(AGAIN_S, self.show)
        self.show()

    def _run_work(self) -> None:
        try:
            self.work.set_result(self._work())
        except BaseException as error:
            self.work.set_exception(error)

    def show(self) -> None:
        """What there is now."""
        if self.work.done() and (self.work.exception() is not None or not self._stays()):
            self.exit()
            return
        if not self.screen.query("#head, #one"):  # a screen that is not built yet, or is taken down
            return
        if isinstance(self.screen, OneRow):
            self.screen.show()
            return
        rows = self.counts.rows(self.kind, self._now())
        self._show_head()
        self._show_table(rows)

    def _show_head(self) -> None:
        now = self.counts.now
        when = f"{datetime.fromtimestamp(now // SECOND_NS, UTC):%H:%M:%S} UTC" if now else "nothing yet"
        ended = "  ended, q quits" if self.work.done() else ""
        lost = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.counts.lost.items()))
        first = Text.assemble(
            (shown_text(self._title), "bold"),
            f"  {when}  {counted(self.counts.packets, 'packet')}",
            (ended, "bold"),
            (f"  lost: {lost}" if lost else "", "bold red"),
        )
        wanted = f"  only names with {shown_text(self._wanted)!r}" if self._wanted else ""
        waiting = ", ".join(sorted(WAITING))
        about = "" if self.kind in (TOPICS, APIS) else f"; latency without {waiting}, whose answers wait"
        second = Text.assemble((f"of the latest minute, but for what is in all{about}", "dim"), (wanted, "bold"))
        self.query_one("#head", Static).update(Text("\n").join([first, *self._incidents(), second]))

    def _incidents(self) -> list[Text]:
        """What is broken now, the gravest first, if it is looked for."""
        going_on = self.counts.incidents
        if going_on is None:
            return []
        if not going_on:
            return [Text("no incident is going on", style="dim")]
        shown = sorted(going_on, key=order)[:INCIDENTS_SHOWN]
        found = [Text(f"{one.severity}  {shown_text(one.what)}", style=_SEVERITIES[one.severity]) for one in shown]
        more = len(going_on) - len(shown)
        return [*found, *([Text(f"and {counted(more, 'incident')} more", style="dim")] if more else [])]

    def _show_table(self, rows: list[Row]) -> None:
        columns = COLUMNS[self.kind]
        by, is_highest_first = self._sorted[self.kind]
        wanted = self._wanted.casefold()
        rows = [row for row in rows if wanted in shown_text(row.name).casefold()]
        rows.sort(key=lambda row: row.name)
        if by < len(columns):
            value = columns[by].value
            known = [row for row in rows if value(row) is not None]
            known.sort(key=lambda row: value(row) or 0, reverse=is_highest_first)
            rows = known + [row for row in rows if value(row) is None]
        elif not is_highest_first:
            rows.reverse()
        table = self.query_one(Rows)
        under_cursor = self.under_cursor
        top = table.scroll_offset
        table.clear(columns=True)
        arrow = " ▼" if is_highest_first else " ▲"
        for place, column in enumerate(columns):
            title = Text(column.title + (arrow if place == by else ""), justify="right")
            if place == 0:
                table.add_column(Text(self.kind.removesuffix("s") + (arrow if by == len(columns) else "")), key="name")
            table.add_column(title, key=str(place))
        for row in rows:
            table.add_row(Text(shown_text(row.name)), *(column.cell(row) for column in columns), key=row.name)
        if under_cursor is not None:
            try:
                table.move_cursor(row=table.get_row_index(under_cursor), scroll=False)
            except RowDoesNotExist:
                return
            table.scroll_to(y=top.y, x=top.x, animate=False)

    @property
    def under_cursor(self) -> str | None:
        """The name of the row under the cursor."""
        table = self.query_one(Rows)
        if not table.is_valid_row_index(table.cursor_row):
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def look_at(self, kind: str, name: str) -> Detail | None:
        """All that is known of one row now."""
        return self.counts.detail(kind, name, self._now())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether a key means anything: those of tables do not while one row is looked at."""
        return action not in _OF_TABLES or not isinstance(self.screen, OneRow)

    def action_turn(self, by: int) -> None:
        """To the next table, or the one before."""
        self.action_table((KINDS.index(self.kind) + by) % len(KINDS))

    def action_table(self, place: int) -> None:
        """To one table."""
        self.query_one(Tabs).active = KINDS[place]

    @on(Tabs.TabActivated)
    def _turned(self, event: Tabs.TabActivated) -> None:
        if event.tab.id and event.tab.id != self.kind:
            self.kind = event.tab.id
            table = self.query_one(Rows)
            table.clear()
            table.focus()
            self.show()

    def action_sort(self) -> None:
        """By the next column; the names come last."""
        by, _ = self._sorted[self.kind]
        self._sort((by + 1) % (len(COLUMNS[self.kind]) + 1))

    def _sort(self, by: int) -> None:
        self._sorted[self.kind] = by, True
        self.show()

    @on(DataTable.HeaderSelected)
    def _sorted_by_hand(self, event: DataTable.HeaderSelected) -> None:
        place = len(COLUMNS[self.kind]) if event.column_key.value == "name" else int(event.column_key.value or 0)
        if place == self._sorted[self.kind][0]:
            self.action_reverse()
        else:
            self._sort(place)

    def action_reverse(self) -> None:
        """Lowest first, or highest again."""
        by, is_highest_first = self._sorted[self.kind]
        self._sorted[self.kind] = by, not is_highest_first
        self.show()

    def action_filter(self) -> None:
        """Ask for a part of names."""
        asked = self.query_one(Input)
        asked.add_class("shown")
        asked.focus()

    def action_no_filter(self) -> None:
        """All names again."""
        self.query_one(Input).clear()
        self._filtered()

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        self._wanted = event.value
        self.show()

    @on(Input.Submitted)
    def _filtered(self) -> None:
        self.query_one(Input).remove_class("shown")
        self.query_one(Rows).focus()

    @on(DataTable.RowSelected)
    def _look_into(self, event: DataTable.RowSelected) -> None:
        if event.row_key.value is not None:
            self.push_screen(OneRow(self, self.kind, event.row_key.value))


class OneRow(Screen[None]):
    """All that is known of one row."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,left", "dismiss", "Back", key_display="Esc")]
    CSS = "#one { padding: 1 2; }"

    def __init__(self, top: Top, kind: str, name: str) -> None:
        super().__init__()
        self._top, self._kind, self._name_shown = top, kind, name

    def compose(self) -> ComposeResult:
        """The widgets."""
        with VerticalScroll():
            yield Static(id="one")
        yield Footer()

    def on_mount(self) -> None:
        """Show it at once."""
        self.show()

    def show(self) -> None:
        """What there is now."""
        detail = self._top.look_at(self._kind, self._name_shown)
        name = shown_text(self._name_shown)
        if detail is None:
            found: RenderableType = Text(f"{name} was silent, and counts among others now")
        else:
            found = described(self._kind, detail)
        self.query_one("#one", Static).update(found)


def described(kind: str, detail: Detail) -> RenderableType:
    """One row as several tables, one below the other."""
    row = detail.row
    parts: list[RenderableType] = [Text(f"{kind.removesuffix('s')} {shown_text(row.name)}", style="bold"), Text()]
    values = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for column in COLUMNS[kind]:
        values.add_row(Text(column.title), column.cell(row))
    parts.append(values)
    if detail.apis and kind != APIS:
        table = _listed("in the latest minute", "exchanges/s", "median ms", "99 % ms")
        for of in detail.apis[:LISTED]:
            rate = number(row.per_second(of.exchanges), 1)
            table.add_row(Text(shown_text(of.api)), rate, number(of.median_ms, 2), number(of.p99_ms, 2))
        parts += [Text(), table]
    for title, value, pairs in (
        ("errors in all", "number", detail.errors),
        ("lag of" if kind == TOPICS else "lag in", "records", detail.lags),
    ):
        if pairs:
            table = _listed(title, value)
            for name, count in pairs[:LISTED]:
                table.add_row(Text(shown_text(name)), number(count))
            parts += [Text(), table]
    if detail.rebalances:
        table = _listed("rebalances, latest first", "UTC", "ms")
        for one in detail.rebalances[:LISTED]:
            when = Text(f"{datetime.fromtimestamp(one.at // SECOND_NS, UTC):%H:%M:%S}")
            table.add_row(Text(shown_text(one.trigger)), when, number(one.duration_ms))
        parts += [Text(), table]
    return Group(*parts)


def _listed(first: str, *titles: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(Text(first), no_wrap=True)
    for title in titles:
        table.add_column(Text(title), justify="right")
    return table
