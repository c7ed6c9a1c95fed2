"""``sniff --stats``: what goes on in spans of time, instead of exchanges: how many, how large, how slow, how wrong."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reading import Batch, BatchSource
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.measures.latency.histogram import Histogram
from kafkascope.sniffer.units import SECOND_NS

COLUMNS = frozenset(
    {"api", "error", "error_code", "latency_ms", "requested", "request_done", "answered", "response_done"}
    | {"request_bytes", "response_bytes"}
)
"""Columns of the exchanges table that are looked at."""
SETTLED_NS = 2 * SECOND_NS
"""So long after its end a span is told: by then its exchanges have come through."""

MOST_EMPTY = 60
"""So many spans in which nothing happened are told at once, should somebody set the clock."""


@dataclass(slots=True)
class OfApi:
    """Exchanges of one API."""

    exchanges: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    latency: Histogram = field(default_factory=Histogram)


@dataclass(slots=True)
class Interval:
    """What was completed in a span of time."""

    begin: int  # nanoseconds since 1970 UTC
    end: int
    apis: defaultdict[str, OfApi] = field(default_factory=lambda: defaultdict(OfApi))

    @property
    def seconds(self) -> float:
        """How long it was; less than was asked for where listening began or ended in it."""
        return (self.end - self.begin) / SECOND_NS

    def lines(self, as_json: bool) -> bytes:
        """A line with its end, or one for all and one for each API."""
        order = sorted(self.apis.items(), key=lambda one: (-one[1].exchanges, one[0]))
        text = self._as_json(order) if as_json else "\n".join(self._as_text(order))
        return f"{text}\n".encode(errors="surrogateescape")

    def _as_json(self, order: list[tuple[str, OfApi]]) -> str:
        apis = {}
        for name, of in order:
            apis[name] = {
                "exchanges": of.exchanges,
                "request_bytes": of.request_bytes,
                "response_bytes": of.response_bytes,
                "latency_ms_median": of.latency.percentile(0.5),
                "latency_ms_p99": of.latency.percentile(0.99),
                "errors": dict(of.errors.most_common()),
            }
        when = datetime.fromtimestamp(self.begin / SECOND_NS, UTC)
        found = {"begin": f"{when:%Y-%m-%dT%H:%M:%S.%fZ}", "seconds": round(self.seconds, 3), "apis": apis}
        return json.dumps(found)

    def _as_text(self, order: list[tuple[str, OfApi]]) -> Iterator[str]:
        exchanges, size, errors = (
            sum(of.exchanges for _, of in order),
            sum(of.request_bytes + of.response_bytes for _, of in order),
            sum(of.errors.total() for _, of in order),
        )
        when = datetime.fromtimestamp(self.begin / SECOND_NS, UTC)
        seconds = max(self.seconds, 1e-3)
        rates = f"{exchanges / seconds:,.1f} exchanges/s, {size / seconds / 1e6:,.3f} MB/s"
        yield f"{when:%H:%M:%S} {self.seconds:.3g} s: {rates}, {errors:,} with an error"
        for name, of in order:
            median, most = (
                "-" if value is None else f"{value:,.2f}" for value in map(of.latency.percentile, (0.5, 0.99))
            )
            wrong = ", ".join(f"{shown_text(error)} {count:,}" for error, count in of.errors.most_common())
            megabytes = (of.request_bytes + of.response_bytes) / 1e6
            yield (
                f"         {shown_text(name):26} {of.exchanges:>9,} {megabytes:>12,.3f} MB"
                f"   median {median:>9} ms   99 % {most:>9} ms   {wrong}"
            ).rstrip()


def intervals(
    source: BatchSource, seconds: float, chosen: Callable[[Batch], pa.Table | None]
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
        return spans.setdefault(place, Interval(max(place * length, begun), (place + 1) * length))

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
                _count(of(place), exchanges.filter(pa.array(places == place)))
        now = source.now()
        if now:  # also what nothing happens in is told
            for place in range(max(told + 1, now // length - MOST_EMPTY), now // length + 1):
                of(place)
        yield over((now or latest) - SETTLED_NS)
    if (now := source.now()) and spans:
        last = spans[max(spans)]
        last.end = max(min(last.end, now), last.begin)
    yield over(math.inf)


def _count(interval: Interval, exchanges: pa.Table) -> None:
    names = pc.fill_null(exchanges["api"], "unknown")
    for name in pc.unique(names).to_pylist():
        rows = exchanges.filter(pc.equal(names, name))
        of = interval.apis[name]
        of.exchanges += len(rows)
        of.request_bytes += pc.sum(rows["request_bytes"], min_count=0).as_py()
        of.response_bytes += pc.sum(rows["response_bytes"], min_count=0).as_py()
        of.latency.add(rows["latency_ms"].drop_null().to_numpy())
        wrong = rows.filter(pc.not_equal(pc.fill_null(rows["error_code"], 0), 0))
        for row in pc.value_counts(wrong["error"]).to_pylist():
            of.errors[row["values"] or "unknown"] += row["counts"]
