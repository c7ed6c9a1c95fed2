"""The screen, by the keys that people press."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.top.counts import APIS, BROKERS, CLIENTS, GROUPS, TOPICS, Counts, Detail, OfApi, Row, Sums
from kafkascope.top.screen import COLUMNS, OneRow, Top, described
from tests.kafkascope.test_incident_watch import DOWN
from tests.kafkascope.top.test_counts import LAGGING, STORM, counted


@cache
def at_end(capture: Path) -> Counts:
    """What is counted by the end of a capture."""
    return counted(capture)


Script = Callable[[Top, Pilot[None]], Awaitable[None]]


def played(script: Script, counts: Counts | None = None, *, stays: bool = True) -> Top:
    app = Top(at_end(STORM) if counts is None else counts, lambda: None, lambda: 0, "eth0", lambda: stays)

    async def play() -> None:
        async with app.run_test(size=(160, 40)) as pilot:
            await pilot.pause()
            await script(app, pilot)

    asyncio.run(play())
    return app


def names(app: Top) -> list[str]:
    table = app.query_one(DataTable)
    return [table.get_row_at(place)[0].plain for place in range(table.row_count)]


def column(app: Top, title: str) -> list[str]:
    place = [one.title for one in COLUMNS[app.kind]].index(title)
    table = app.query_one(DataTable)
    return [table.get_row_at(row)[place + 1].plain for row in range(table.row_count)]


def text_of(found: object) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(found)
    return capture.get()


def test_all_tables_have_their_rows() -> None:
    async def script(app: Top, pilot: Pilot[None]) -> None:
        for key, kind in zip("12345", (BROKERS, CLIENTS, TOPICS, GROUPS, APIS), strict=True):
            await pilot.press(key)
            await pilot.pause()
            assert app.kind == kind
            assert sorted(names(app)) == sorted(row.name for row in at_end(STORM).rows(kind))
        await pilot.press("tab")
        await pilot.pause()
        assert app.kind == BROKERS
        await pilot.press("shift+tab")
        await pilot.pause()
        assert app.kind == APIS

    played(script)


def test_sorting_by_key_and_by_header() -> None:
    async def script(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await pilot.pause()
        by_rate = sorted(at_end(STORM).rows(APIS), key=lambda row: -row.window.exchanges)
        assert names(app)[0] == by_rate[0].name
        await pilot.press("r")
        assert names(app)[0] == by_rate[-1].name or not by_rate[-1].window.exchanges
        await pilot.press("s", "s", "s", "s")
        slowest = [float(value.replace(",", "")) for value in column(app, "99 % ms") if value != "-"]
        assert slowest == sorted(slowest, reverse=True)
        assert len(slowest) > 2
        assert set(column(app, "99 % ms")[len(slowest) :]) <= {"-"}  # what is not known comes last
        await pilot.click(DataTable, offset=(3, 0))  # the names
        await pilot.pause()
        assert names(app) == sorted(names(app))
        await pilot.click(DataTable, offset=(3, 0))
        await pilot.pause()
        assert names(app) == sorted(names(app), reverse=True)

    played(script)


def test_a_screen_that_is_taken_down_is_shown_nothing() -> None:
    async def script(app: Top, pilot: Pilot[None]) -> None:
        await app.query_one("#head").remove()
        app.show()

    played(script)


def test_filter_and_back() -> None:
    async def script(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await pilot.pause()
        whole = names(app)
        await pilot.press("slash", *"GROUP", "enter")
        await pilot.pause()
        assert names(app) == [name for name in whole if "group" in name.lower()] != whole
        await pilot.press("2", "5")  # keys are keys again
        await pilot.pause()
        assert app.kind == APIS
        await pilot.press("slash", *"q")  # and a letter while it is asked for
        assert app.query_one(Input).value == "q"
        assert names(app) == []
        await pilot.press("escape")
        await pilot.pause()
        assert names(app) == whole

    played(script)


def test_the_cursor_stays_on_its_row() -> None:
    async def script(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await pilot.pause()
        await pilot.press("down", "down")
        chosen = app.under_cursor
        assert chosen == names(app)[2]
        await pilot.press("r")
        assert app.under_cursor == chosen
        assert names(app).index(chosen) != 2

    played(script)


def test_looking_into_a_row() -> None:
    async def script(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, OneRow)
        detail = at_end(STORM).detail(GROUPS, "storm")
        assert detail is not None
        assert app.screen.query_one("#one", Static).visual
        text = text_of(described(GROUPS, detail))
        for word in ("group storm", "JoinGroup", "rebalances, latest first", detail.rebalances[0].trigger):
            assert word in text
        for error, count in detail.errors:
            assert error in text
            assert f"{count:,}" in text
        await pilot.press("2", "tab", "s", "r", "slash")  # not while one row is looked at
        assert app.kind == GROUPS
        app.show()  # as time does
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, OneRow)

    played(script)


def test_lag_is_shown() -> None:
    async def script(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await pilot.pause()
        assert column(app, "lag")[names(app).index("orders")] != "-"

    played(script, at_end(LAGGING))
    detail = at_end(LAGGING).detail(TOPICS, "orders")
    assert detail is not None
    assert "lag of" in text_of(described(TOPICS, detail))
    assert "shop" in text_of(described(TOPICS, detail))


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_quitting(key: str) -> None:
    async def script(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("4", "enter")
        assert app.is_running
        await pilot.press(key)
        assert app._exit

    played(script)


def test_the_screen_ends_with_the_listening_unless_it_stays() -> None:
    async def gone(app: Top, pilot: Pilot[None]) -> None:
        app.show()
        assert app._exit

    async def there(app: Top, pilot: Pilot[None]) -> None:
        app.show()
        assert not app._exit

    played(gone, stays=False)
    played(there)


def test_a_fault_ends_the_screen_and_is_kept() -> None:
    def fail() -> None:
        raise SourceError("eth0", 0, "it has gone", "")

    app = Top(Counts(), fail, lambda: 0, "eth0", lambda: True)

    async def play() -> None:
        async with app.run_test():
            app.show()

    asyncio.run(play())
    with pytest.raises(SourceError, match="it has gone"):
        app.work.result()


def test_names_are_neither_markup_nor_controls() -> None:
    name = "[red]x[/red] [@click=app.quit]\x1b[2J\u202ey"
    row = Row(name, Sums(exchanges=1), Sums(exchanges=1), 1.0, None, None, None)

    class Hostile(Counts):
        def rows(self, kind: str, now: int = 0) -> list[Row]:
            return [row]

        def detail(self, kind: str, name: str, now: int = 0) -> Detail:
            return Detail(row, (OfApi(name, 1, None, None),), ((name, 1),), ((name, 1),), ())

    async def script(app: Top, pilot: Pilot[None]) -> None:
        (shown,) = names(app)
        assert shown.startswith("[red]x[/red] [@click=app.quit]")
        assert not {"\x1b", "\u202e"} & set(shown)
        await pilot.press("enter")
        await pilot.pause()
        picture = app.export_screenshot()
        assert "[red]x[/red]" in picture.replace("&#160;", " ")

    played(script, Hostile())
    text = text_of(described(CLIENTS, Hostile().detail(CLIENTS, name)))
    assert text.count("[red]x[/red] [@click=app.quit]") == 4
    assert not {"\x1b", "\u202e"} & set(text)


def test_nothing_yet() -> None:
    async def script(app: Top, pilot: Pilot[None]) -> None:
        assert names(app) == []
        await pilot.press("enter", "s", "r")
        assert not isinstance(app.screen, OneRow)

    assert isinstance(COLUMNS[GROUPS][2].cell(Row("a", Sums(), Sums(), 1.0, None, None, None)), Text)
    played(script, Counts())


def test_what_is_broken_is_above_the_tables_the_gravest_first() -> None:
    slow = replace(DOWN, severity=Severity.WARNING, headline="a\x1b[2J is slow")
    counts = Counts()

    async def script(app: Top, pilot: Pilot[None]) -> None:
        def head() -> str:
            app.show()
            return str(app.query_one("#head", Static).render())

        assert "incident" not in head()  # nobody looks for any
        counts.incidents = []
        assert "no incident is going on" in head()
        counts.incidents = [slow, DOWN, slow, slow]
        told = head().splitlines()[1:5]
        assert told[0].startswith("critical  broker 2 (10.0.0.2) went away")
        assert told[1].startswith("warning  a\N{REPLACEMENT CHARACTER}[2J is slow")
        assert told[3].startswith("and 1 incident more")

    played(script, counts)
