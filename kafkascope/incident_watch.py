"""``sniff --incidents``: what broke, as soon as that is sure, and again when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from kafkascope.capture import Rows, SpooledCapture
from kafkascope.engine import EngineOptions, Tables
from kafkascope.reading import Batch, BatchSource
from kafkascope.reports.answers.incidents import nothing_wrong
from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.incidents.incident import Incident, incident_of, order
from kafkascope.reports.measures.summary import Summary
from kafkascope.reports.show import incident_lines
from kafkascope.reports.views.registry import SCHEMAS_WITH_VIEWS
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.units import SECOND_NS
from kafkascope.spool import Spool

WINDOW_S = 600
"""Live, and of a pipe, what is older than one to two of these is forgotten."""
LOOK_S = 10
"""Live, so long between looks at least ..."""
SHARE = 4
"""... and so many times as long as a look took, so that packets do not wait for it."""
_SAME_NS = 60 * SECOND_NS  # as a window moves on, the begin of what goes on may seem to be a little later


@dataclass(frozen=True, slots=True)
class News:
    """An incident that is told: for the first time, or because it is over."""

    incident: Incident
    is_over: bool


def looks(
    source: BatchSource,
    options: EngineOptions,
    remark: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[list[News]]:
    """What there is to tell, after each batch of rows of an interface or a pipe; at the end what is not sure yet.

    Of files all is told at the end, as `kafkascope.read` has it. Then it remarks that nothing is wrong, if that is so.
    """
    window, told = Window(clock, forgets=source.so_far is not None), Told()
    trouble = False
    for batch in source.batches():
        window.write(batch)
        news: list[News] = []
        if source.so_far is not None and window.is_due():
            with_open = window.so_far(source.so_far())
            news = told.news(_incidents(with_open, source.topic_names, window.summary, options))
            window.looked()
        trouble |= any(one.incident.severity != Severity.INFO for one in news)
        yield news
    found = _incidents(window.so_far([]), source.topic_names, window.summary, options)
    news = told.news(found, is_end=True)
    yield news
    trouble |= any(one.incident.severity != Severity.INFO for one in news)
    summary = window.summary.result()
    if not trouble and any(summary["exchanges"].values()):
        remark(nothing_wrong(summary))


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


def _incidents(rows_of: Rows, names: TopicNames, summary: Summary, options: EngineOptions) -> list[Incident]:
    capture = SpooledCapture(rows_of, names, summary, options, "")
    rows = numbered(capture.arrow("incidents")).to_pylist()
    return sorted(map(incident_of, rows), key=order)


class Window:
    """The rows of the latest time, or of all time, on disk."""

    def __init__(self, clock: Callable[[], float], *, forgets: bool) -> None:
        self.summary = Summary()
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
        self._spools[-1].write(batch.tables)
        self.summary.observe(batch.tables)

    def is_due(self) -> bool:
        """Whether it is time to look."""
        self._look_begun = self._clock()
        return self._look_begun >= self._next

    def looked(self) -> None:
        """Say that a look is over."""
        now = self._clock()
        self._next = now + max(LOOK_S, SHARE * (now - self._look_begun))

    def so_far(self, rows: Iterable[Tables]) -> SoFar:
        """All rows of the window, with some that are not written."""
        return SoFar(self._spools, list(rows))


class SoFar:
    """Rows of several spools, and others, as one; what `Capture` asks of a spool."""

    def __init__(self, spools: Iterable[Spool], more: Iterable[Mapping[str, pa.Table]]) -> None:
        self._spools = list(spools)
        self._more = list(more)

    def table(self, name: str) -> pa.Table:
        """The rows of one table."""
        parts = [spool.table(name) for spool in self._spools]
        parts += [tables[name] for tables in self._more if name in tables]
        return pa.concat_tables(parts) if parts else SCHEMAS_WITH_VIEWS[name].empty_table()

    def issues(self) -> Iterator[Issue]:
        """What found no room on disk."""
        for spool in self._spools:
            yield from spool.issues()


class Told:
    """What has been told of incidents."""

    def __init__(self) -> None:
        self._seen: list[Incident] = []  # in the look before
        self._told: list[tuple[Incident, bool]] = []  # and whether it was told to be over

    def news(self, found: Iterable[Incident], *, is_end: bool = False) -> list[News]:
        """What is new: incidents that the look before had too, or that are over; and told ones that are over now."""
        news = []
        seen = list(found)
        for one in seen:
            known = next((place for place, (told, _) in enumerate(self._told) if is_same(told, one)), None)
            if known is None:
                if is_end or one.ended is not None or any(is_same(before, one) for before in self._seen):
                    self._told.append((one, one.ended is not None))
                    news.append(News(one, False))
            else:
                was_over = self._told[known][1]
                self._told[known] = one, was_over or one.ended is not None
                if one.ended is not None and not was_over:
                    news.append(News(one, True))
        self._seen = seen
        return news


def is_same(one: Incident, other: Incident) -> bool:
    """Whether two looks found the same incident: of one kind, about the same, at about the same time."""
    return (
        one.kind == other.kind
        and one.subjects[:1] == other.subjects[:1]
        and (one.ended is None or other.started <= one.ended + _SAME_NS)
        and (other.ended is None or one.started <= other.ended + _SAME_NS)
    )
