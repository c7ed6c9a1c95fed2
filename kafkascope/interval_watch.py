"""``sniff --stats``: what goes on in spans of time, instead of exchanges: how many, how large, how slow, how wrong."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from textwrap import wrap

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.filters.fields import COLUMNS, Field
from kafkascope.reading import Batch, BatchSource
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.measures.latency.histogram import Histogram
from kafkascope.sniffer.units import SECOND_NS

NEEDED = frozenset(
    {"error", "error_code", "latency_ms", "requested", "request_done", "answered", "response_done"}
    | {"request_bytes", "response_bytes"}
)
"""Columns of the exchanges table that are looked at, beside those of what they are told apart by."""

OTHERS = "(others)"
SETTLED_NS = 2 * SECOND_NS
"""So long after its end a span is told: by then its exchanges have come through."""

MOST_PARTS = 1_000
"""Names that are told apart in a span; the exchanges of more of them are counted together."""

MOST_EMPTY = 60
"""So many spans in which nothing happened are told at once, should somebody set the clock."""

_LEAST_WIDTH = 26
"""Of names: as long as most are, so that spans whose names differ stand alike."""


@dataclass(frozen=True, slots=True)
class By:
    """What exchanges are told apart by."""

    field: Field
    title: str  # of all, in JSON
    nothing: str = "(none)"  # the name of those without one

    def names(self, exchanges: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Each name with the exchanges that have it: one may have several, or none."""
        found = self.field.values(exchanges, *self.field.kinds)
        encoded = pc.fill_null(found.values.cast(pa.string()), self.nothing).dictionary_encode()
        codes = encoded.indices.to_numpy()
        for code, name in enumerate(encoded.dictionary.to_pylist()):
            yield name, exchanges.take(pa.array(found.rows[codes == code]))
        without = np.setdiff1d(np.arange(len(exchanges)), found.rows)
        if len(without):
            yield self.nothing, exchanges.take(pa.array(without))


BY = {
    "api": By(COLUMNS["api"], "apis", "unknown"),
    "client": By(COLUMNS["client_id"], "clients"),
    "topic": By(COLUMNS["topic"], "topics"),
    "group": By(COLUMNS["group"], "groups"),
    "broker": By(COLUMNS["broker"], "brokers"),
    "connection": By(COLUMNS["connection"], "connections"),
}


@dataclass(slots=True)
class Counts:
    """Some exchanges."""

    exchanges: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    latency: Histogram = field(default_factory=Histogram)

    def add(self, exchanges: pa.Table) -> None:
        """Count some more."""
        self.exchanges += len(exchanges)
        self.request_bytes += pc.sum(exchanges["request_bytes"], min_count=0).as_py()
        self.response_bytes += pc.sum(exchanges["response_bytes"], min_count=0).as_py()
        self.latency.add(exchanges["latency_ms"].drop_null().to_numpy())
        wrong = exchanges.filter(pc.not_equal(pc.fill_null(exchanges["error_code"], 0), 0))
        for row in pc.value_counts(wrong["error"]).to_pylist():
            self.errors[row["values"] or "unknown"] += row["counts"]

    def figures(self) -> str:
        """How many, how large and how slow."""
        median, most = (
            "-" if value is None else f"{value:,.2f}" for value in map(self.latency.percentile, (0.5, 0.99))
        )
        megabytes = (self.request_bytes + self.response_bytes) / 1e6
        return f"{self.exchanges:>9,} {megabytes:>12,.3f} MB   median {median:>9} ms   99 % {most:>9} ms"


@dataclass(slots=True)
class Interval:
    """What was completed in a span of time."""

    begin: int  # nanoseconds since 1970 UTC
    end: int
    by: By = BY["api"]
    all: Counts = field(default_factory=Counts)
    parts: dict[str, Counts] = field(default_factory=dict)  # by name

    def add(self, exchanges: pa.Table) -> None:
        """Count what was completed."""
        self.all.add(exchanges)
        for name, of_name in self.by.names(exchanges):
            known = name if name in self.parts or len(self.parts) < MOST_PARTS else OTHERS
            self.parts.setdefault(known, Counts()).add(of_name)

    @property
    def seconds(self) -> float:
        """How long it was; less than was asked for where listening began or ended in it."""
        return (self.end - self.begin) / SECOND_NS

    def lines(self, as_json: bool, width: int | None = None) -> bytes:
        """A line with its end, or one for all and one for each API; of those, more where width has no room for one."""
        order = sorted(self.parts.items(), key=lambda one: (-one[1].exchanges, one[0]))
        text = self._as_json(order) if as_json else "\n".join(self._as_text(order, width))
        return f"{text}\n".encode(errors="surrogateescape")

    def _as_json(self, order: list[tuple[str, Counts]]) -> str:
        parts = {}
        for name, of in order:
            parts[name] = {
                "exchanges": of.exchanges,
                "request_bytes": of.request_bytes,
                "response_bytes": of.response_bytes,
                "latency_ms_median": of.latency.percentile(0.5),
                "latency_ms_p99": of.latency.percentile(0.99),
                "errors": dict(of.errors.most_common()),
            }
        when = datetime.fromtimestamp(self.begin / SECOND_NS, UTC)
        found = {"begin": f"{when:%Y-%m-%dT%H:%M:%S.%fZ}", "seconds": round(self.seconds, 3), self.by.title: parts}
        return json.dumps(found)

    def _as_text(self, order: list[tuple[str, Counts]], width: int | None) -> Iterator[str]:
        size = self.all.request_bytes + self.all.response_bytes
        when = datetime.fromtimestamp(self.begin / SECOND_NS, UTC)
        seconds = max(self.seconds, 1e-3)
        rates = f"{self.all.exchanges / seconds:,.1f} exchanges/s, {size / seconds / 1e6:,.3f} MB/s"
        yield f"{when:%H:%M:%S} {round(self.seconds, 3):,.10g} s: {rates}, {self.all.errors.total():,} with an error"
        names = [shown_text(name) or '""' for name, _ in order]
        widest = max(map(len, names), default=0)
        for name, (_, of) in zip(names, order, strict=True):
            wrong = ", ".join(f"{shown_text(error)} {count:,}" for error, count in of.errors.most_common())
            yield from _fitted(f"{name:{max(widest, _LEAST_WIDTH)}}", of.figures(), wrong, width)


def _fitted(name: str, figures: str, wrong: str, width: int | None) -> Iterator[str]:
    """A line; where a terminal has no room for it, what is wrong stands below, and figures stand below the name."""
    line = f"         {name} {figures}"
    whole = f"{line}   {wrong}".rstrip()
    if width is None or len(whole) <= width:
        yield whole
        return
    yield from (line,) if len(line) <= width else (f"  {name.rstrip()}", f"         {figures}")
    indent = " " * 11
    yield from wrap(wrong, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False)


def intervals(
    source: BatchSource, seconds: float, chosen: Callable[[Batch], pa.Table | None], by: By = BY["api"]
) -> Iterator[list[Interval]]:
    """Spans of time that are over, after each batch; of an interface also those in which nothing was.

    chosen: the exchanges of a batch that are to be counted. An exchange belongs to the span of its last byte; one that
    is known later than that span was told (one that nobody answered) to the next that is told.
    """
    spans: dict[int, Interval] = {}
    latest = 0
    length = int(seconds * SECOND_NS)
    begun = source.now()  # 0: packets tell the time
    told = begun // length - 1  # the last span that was told

    def of(place: int) -> Interval:
        if place not in spans:
            first = begun if (known := source.span) is None else known[0]
            spans[place] = Interval(max(place * length, first), (place + 1) * length, by)
        return spans[place]

    def over(until: float) -> list[Interval]:
        nonlocal told
        found = [spans.pop(place) for place in sorted(spans) if (place + 1) * length <= until]
        if found:
            told = max(told, found[-1].begin // length)
        return found

    for batch in source.batches():
        exchanges = chosen(batch)
        if exchanges is not None and len(exchanges):
            when = pc.coalesce(
                *(exchanges[name] for name in ("response_done", "answered", "request_done", "requested"))
            )
            at = pc.fill_null(when.cast(pa.int64()), latest).to_numpy()
            latest = max(latest, int(at.max()))
            places = np.maximum(at // length, told + 1)
            for place in np.unique(places).tolist():
                of(place).add(exchanges.filter(pa.array(places == place)))
        now = source.now()
        if now:  # also what nothing happens in is told
            for place in range(max(told + 1, now // length - MOST_EMPTY), now // length + 1):
                of(place)
        yield over((now or latest) - SETTLED_NS)
    end = source.now() if (known := source.span) is None else known[1]
    if end and spans:
        last = spans[max(spans)]
        last.end = max(min(last.end, end), last.begin)
    yield over(math.inf)
