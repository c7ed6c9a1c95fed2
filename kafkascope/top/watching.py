"""``sniff --top``: a screen beside what counts, until somebody quits or there is nothing more to come."""

from __future__ import annotations

from collections.abc import Callable

from textual.pilot import Pilot

from kafkascope.decoders.limits import Limits
from kafkascope.reading import BatchSource
from kafkascope.top.counts import Counts, follow
from kafkascope.top.screen import Top

_KEYS = ("enter", "escape", "slash", "a", "escape", "q")
_BETWEEN_LOOKS_S = 0.01


def watch(source: BatchSource, title: str, stop: Callable[[], None], stays: Callable[[], bool], limits: Limits) -> bool:
    """Show what comes of a source; whether the screen went well. Raises what the source raises, when it has gone.

    stop ends the source's batches. stays: whether the screen does when these have ended.
    """
    counts = Counts(limits)
    screen = Top(counts, lambda: follow(source, counts), source.now, title, stays)
    screen.run()
    stop()
    if screen.is_counting:
        screen.work.result()
    return not screen.return_code


def rehearse(source: BatchSource) -> None:
    """Show what comes of a source on no terminal, and one row of it: textual imports much when it is first needed."""
    counts = Counts()
    screen = Top(counts, lambda: follow(source, counts), source.now, "", lambda: True)

    async def press(pilot: Pilot[object]) -> None:
        while not screen.work.done():
            await pilot.pause(_BETWEEN_LOOKS_S)
        screen.show()
        await pilot.press(*_KEYS)

    screen.run(headless=True, auto_pilot=press)
    screen.work.result()
