"""``sniff --incidents``: what broke, as soon as that is sure, and again when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kafkascope.capture import SpooledCapture
from kafkascope.engine import EngineOptions, Tables
from kafkascope.program import Remark
from kafkascope.reading import Batch, BatchSource
from kafkascope.reports.answers.incidents import grave, nothing_wrong
from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.incidents.incident import Incident, incident_of, order
from kafkascope.reports.measures.summary import Summary
from kafkascope.reports.show import incident_lines
from kafkascope.reports.views.registry import SCHEMAS_WITH_VIEWS
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.tables import EXCHANGES
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.units import SECOND_NS
from kafkascope.spool import Spool, Spooled

WINDOW_S = 600
"""Live, and of a pipe, what is older than one to two of these is forgotten."""
LOOK_S = 10
"""Live, so long between looks at least ..."""
SHARE = 4
"""... and so many times as long as a look took, so that packets do not wait for it."""
SHARE_BESIDE = 9
"""The same where other things are counted and shown: a look holds these up."""
_COLUMNS = {name: schema.names for name, schema in SCHEMAS_WITH_VIEWS.items() if name != "records"}
"""Of what is looked at; whatever is shown may need more."""
_LATER_NS = 10 * SECOND_NS  # that an incident went on for longer than was told is told from here on
_SAME_NS = 60 * SECOND_NS  # as a window moves on, the begin of what goes on may seem to be a little later


_GRAVITY = list(Severity)


@dataclass(frozen=True, slots=True)
class News:
    """An incident that is told: for the first time, because it is over, or as there is more of it than was told."""

    incident: Incident
    is_over: bool


def looks(
    source: BatchSource,
    options: EngineOptions,
    remark: Remark,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[News]]:
    """What there is to tell, after each batch of rows of an interface or a pipe; at the end what is not sure yet.

    Of files all is told at the end, as `kafkascope.read` has it. Then it remarks that nothing is wrong, if that is so.
    """
    watch = Looks(options, clock, forgets=source.so_far is not None)
    trouble = False
    for batch in source.batches():
        news = watch.observe(batch, source)
        trouble |= bool(alarming(news))
        yield news
    news = watch.finish(source)
    yield news
    trouble |= bool(alarming(news))
    source.note(watch.left_out)
    if not trouble and not watch.left_out and any(watch.summary["exchanges"].values()):
        remark(nothing_wrong(watch.summary, watch.findings))


class Looks:
    """Looks at the rows of a source for incidents now and then, and tells the source of them."""

    def __init__(
        self, options: EngineOptions, clock: Callable[[], float], *, forgets: bool, share: int = SHARE
    ) -> None:
        """options: of the engine whose rows they are; forgets: see `Window`; share: see `SHARE`."""
        self._options = options.alone if forgets else options
        self._window, self._told = Window(clock, forgets=forgets, share=share), Told()
        self.findings: list[str] = []  # titles of those of the latest look that are grave, and part of no incident

    def observe(self, batch: Batch, source: BatchSource) -> list[News]:
        """Take in rows, and look if it is time; what is new."""
        self._window.write(batch)
        if source.so_far is None or not self._window.is_due():
            return []
        news = self._look(source.so_far(), source)
        self._window.looked()
        return news

    def finish(self, source: BatchSource) -> list[News]:
        """What there is to tell when all rows have come."""
        return self._look([], source, is_end=True)

    @property
    def summary(self) -> dict[str, Any]:
        """Of all rows."""
        return self._window.summary.result()

    @property
    def left_out(self) -> list[Issue]:
        """Rows for which there was no room: of what they tell nobody knows."""
        return self._window.left_out

    def _look(self, more: Iterable[Tables], source: BatchSource, *, is_end: bool = False) -> list[News]:
        rows = self._window.so_far(more)
        capture = SpooledCapture(rows, source.topic_names, self._window.summary, self._options, "")
        incidents = numbered(capture.arrow("incidents")).to_pylist()
        found = sorted(map(incident_of, incidents), key=order)
        self.findings = grave(capture.arrow("findings"), incidents)
        news = self._told.news(found, is_end=is_end)
        source.tell([one.incident for one in news if not one.is_over], self._told.going_on)
        return news


def lines(news: Iterable[News], as_json: bool, colour: bool) -> list[bytes]:
    """What there is to tell as lines, each with its end."""
    texts: list[str] = []
    for one in news:
        if as_json:
            texts.append(incident_lines.json_line(one.incident, one.is_over))
        else:
            texts += incident_lines.lines(one.incident, one.is_over, colour)
    return [f"{text}\n".encode(errors="surrogateescape") for text in texts]


def alarming(news: Iterable[News]) -> list[News]:
    """Those that somebody has to do something about."""
    return [one for one in news if one.incident.severity != Severity.INFO]


def with_needed(options: EngineOptions) -> EngineOptions:
    """The options with all that is looked at."""
    whole = EngineOptions()
    return options.with_more(whole.tables, frozenset(EXCHANGES.names), whole.views)


class Window:
    """The rows of the latest time, or of all time, on disk."""

    def __init__(self, clock: Callable[[], float], *, forgets: bool, share: int = SHARE) -> None:
        self.summary = Summary()
        self._share = share
        self._forgets = forgets
        self._clock = clock
        self._spools = [Spool()]
        self._begun = self._next = clock()
        self._next += LOOK_S
        self._look_begun = 0.0

    def write(self, batch: Batch) -> None:
        """Take in rows; forget what is too old."""
        now = self._clock()
        if self._forgets and now - self._begun >= WINDOW_S:
            self._spools = [self._spools[-1], Spool()]
            self._begun = now
        tables = _looked_at(batch.tables)
        self._spools[-1].write(tables)
        self.summary.observe(tables)

    def is_due(self) -> bool:
        """Whether it is time to look."""
        self._look_begun = self._clock()
        return self._look_begun >= self._next

    def looked(self) -> None:
        """Say that a look is over."""
        now = self._clock()
        self._next = now + max(LOOK_S, self._share * (now - self._look_begun))

    @property
    def left_out(self) -> list[Issue]:
        """Rows for which there was no room."""
        return [issue for spool in self._spools for issue in spool.issues()]

    def so_far(self, rows: Iterable[Tables]) -> Spooled:
        """All rows of the window, with some that are not written."""
        return Spooled(self._spools, map(_looked_at, rows))


def _looked_at(tables: Mapping[str, pa.Table]) -> Tables:
    return {name: rows.select(_COLUMNS[name]) for name, rows in tables.items() if name in _COLUMNS}


@dataclass(slots=True)
class _Telling:
    """An incident that was told."""

    told: Incident  # as it was then
    latest: Incident

    def goes_on(self) -> bool:
        """Whether there is more of it than was told: it is over now, or is graver, or went on after all."""
        told, now = self.told, self.latest
        if _GRAVITY.index(now.severity) < _GRAVITY.index(told.severity):
            return True
        return now.ended is not None and (told.ended is None or now.ended > told.ended + _LATER_NS)


class Told:
    """What has been told of incidents."""

    def __init__(self) -> None:
        self._seen: list[Incident] = []  # in the look before
        self._told: list[_Telling] = []

    @property
    def going_on(self) -> list[Incident]:
        """What the last look saw of those that were told, if it is not over."""
        told = [known.latest for known in self._told]
        return [one for one in self._seen if one.ended is None and any(is_same(one, other) for other in told)]

    def news(self, found: Iterable[Incident], *, is_end: bool = False) -> list[News]:
        """What is new: incidents that the look before had too, or that are over; and what there is more of told ones.

        One that was told with its end and goes on, again and again, is told once more when two looks find the same end.
        """
        news = []
        seen = list(found)
        told, before = _known([known.latest for known in self._told], seen), _known(self._seen, seen)
        for number, one in enumerate(seen):
            if (place := told.get(number)) is None:
                if is_end or one.ended is not None or number in before:
                    self._told.append(_Telling(one, one))
                    news.append(News(one, False))
                continue
            known = self._told[place]
            known.latest = one
            is_settled = is_end or known.told.ended is None or self._had(before.get(number), one)
            if is_settled and known.goes_on():
                known.told = one
                news.append(News(one, one.ended is not None))
        self._seen = seen
        return news

    def _had(self, place: int | None, one: Incident) -> bool:
        """Whether the look before found one as it is now."""
        before = None if place is None else self._seen[place]
        return before is not None and (before.ended, before.severity) == (one.ended, one.severity)


def _known(before: Sequence[Incident], seen: Sequence[Incident]) -> dict[int, int]:
    """By the place of each that is seen that of the one before which it is: pairs, those nearest in time first."""
    pairs = sorted(
        (abs(one.started - other.started), place, number)
        for number, one in enumerate(seen)
        for place, other in enumerate(before)
        if is_same(other, one)
    )
    places: dict[int, int] = {}
    taken = set[int]()
    for _, place, number in pairs:
        if number not in places and place not in taken:
            places[number] = place
            taken.add(place)
    return places


def is_same(one: Incident, other: Incident) -> bool:
    """Whether two looks found the same incident: of one kind, about the same, at about the same time."""
    return (
        one.kind == other.kind
        and one.subjects[:1] == other.subjects[:1]
        and (one.ended is None or other.started <= one.ended + _SAME_NS)
        and (other.ended is None or one.started <= other.ended + _SAME_NS)
    )
