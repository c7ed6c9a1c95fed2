"""What differs between two captures, of before and after a change: what is new, what is gone, what is more and less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.reports.answers.clients import SETTINGS, clients
from kafkascope.reports.answers.incidents import incidents
from kafkascope.reports.answers.latency import PART_NAMES
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address
from kafkascope.reports.columns.words import duration, nanoseconds
from kafkascope.reports.measures.chance import Verdict, of_percentiles, of_rates
from kafkascope.reports.measures.latency.histogram import Histogram
from kafkascope.reports.measures.latency.parts import APPLICATION, PARTS, SLOW, TOTAL
from kafkascope.reports.vocabulary.triggers import words
from kafkascope.sniffer.units import SECOND_NS

_FRACTIONS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_SPENT = tuple(part for part in PARTS if part not in (TOTAL, SLOW, APPLICATION))  # which add up to the total
_PART = 0.1  # share of a difference from which on a part of it is told
_NAMES = 5  # values of a setting that are named

NEEDED = (
    *("connections", "exchanges", "errors", "error_histogram", "batches", "partitions"),
    *("incidents", "latency", "rebalances"),
)
"""Tables that are compared."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something before and after, as it is shown, and as a number (None: it is none, or was not there)."""

    section: str  # incidents, latency, errors, rebalances, settings, seen, load
    subject: str  # whom or what it is about
    what: str  # what of it
    before: str
    after: str
    verdict: Verdict
    before_value: float | None = None
    after_value: float | None = None
    before_samples: int | None = None  # of which the value is made
    after_samples: int | None = None
    spent: str = ""  # of latency: by what parts its mean differs

    @property
    def ratio(self) -> float | None:
        """After by before."""
        return self.after_value / self.before_value if self.before_value and self.after_value is not None else None


@dataclass(slots=True)
class Side:
    """One of two captures."""

    name: str
    tables: Mapping[str, ds.Dataset]
    summary: Mapping[str, Any]
    clients: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.clients = clients(self.tables).to_pylist()

    @property
    def seconds(self) -> float:
        """How long it is."""
        first, last = (nanoseconds(self.summary.get(name)) for name in ("first", "last"))
        return 0.0 if first is None or last is None else (last - first) / SECOND_NS

    def rows(self, table: str, columns: Iterable[str]) -> Iterator[pa.Table]:
        """The rows of a table, in parts."""
        if table in self.tables:
            for batch in self.tables[table].to_batches(columns=list(columns)):
                yield pa.Table.from_batches([batch])


def changes(before: Side, after: Side) -> list[Change]:
    """All that was compared, what differs and what does not, section by section, what differs most first in each.

    A section whose tables one side lacks is left out.
    """
    found = []
    for needs, section in _SECTIONS:
        if all(name in side.tables for name in needs for side in (before, after)):
            found += sorted(section(before, after), key=_order)
    return found


def _order(one: Change) -> tuple[int, float, str, str]:
    ratio = one.ratio or 1.0
    return list(Verdict).index(one.verdict), -max(ratio, 1 / ratio), one.subject, one.what


def _incidents(before: Side, after: Side) -> Iterator[Change]:
    """By kind and whom they are about."""
    sides = []
    for side in (before, after):
        found = incidents(side.tables["incidents"])
        sides.append({(one.kind.replace("_", " "), one.about): one.what for one in (found.shown if found else ())})
    for key in sorted(sides[0].keys() | sides[1].keys()):
        was, is_now = (side.get(key, "") for side in sides)
        yield Change("incidents", f"{key[1]}: {key[0]}", "", was, is_now, _presence(was, is_now))


def _presence(was: object, is_now: object) -> Verdict:
    return Verdict.SAME if was and is_now else Verdict.GONE if was else Verdict.NEW


def _latency(before: Side, after: Side) -> Iterator[Change]:
    """By API, with what the mean time was spent on: the parts add up to the whole."""
    a, b = _histograms(before), _histograms(after)
    means = _means(before), _means(after)
    for api in sorted(a.keys() & b.keys()):
        samples = int(a[api].counts.sum()), int(b[api].counts.sum())
        more = {part: means[1].get((api, part), 0.0) - means[0].get((api, part), 0.0) for part in (TOTAL, *_SPENT)}
        parts = sorted(
            (part for part in _SPENT if abs(more[part]) >= _PART * abs(more[TOTAL]) > 0), key=lambda p: -abs(more[p])
        )
        told = [f"{PART_NAMES[part][0]} {_signed(more[part])}" for part in parts]
        spent = f"mean {_signed(more[TOTAL])}{': ' if told else ''}{', '.join(told)}"
        for name, fraction in _FRACTIONS.items():
            was, is_now = a[api].percentile(fraction), b[api].percentile(fraction)
            verdict = of_percentiles(a[api], b[api], fraction)
            yield Change("latency", api, name, duration(was), duration(is_now), verdict, was, is_now, *samples, spent)


def _signed(milliseconds: float) -> str:
    return f"{'-' if milliseconds < 0 else '+'}{duration(abs(milliseconds))}"


def _histograms(side: Side) -> dict[str, Histogram]:
    """Durations by API; without those by topic, in which exchanges are once more."""
    found: dict[str, Histogram] = {}
    for rows in side.rows("latency", ["api", "part", "topic", "bucket", "counts", "max"]):
        rows = rows.filter(pc.and_(pc.is_null(rows["topic"]), pc.equal(rows["part"], TOTAL)))
        for row in rows.drop(["topic", "part"]).drop_null().to_pylist():
            one = found.setdefault(row["api"], Histogram())
            np.add.at(one.counts, row["bucket"], row["counts"])
            one.highest_ms = max(one.highest_ms, row["max"])
    return found


def _means(side: Side) -> dict[tuple[str, str], float]:
    """Milliseconds of an exchange by API and part, those without a part counted as 0."""
    sums: Counter[tuple[str, str]] = Counter()
    exchanges: Counter[str] = Counter()
    for rows in side.rows("latency", ["api", "part", "topic", "count", "sum_ms"]):
        rows = rows.filter(pc.is_null(rows["topic"]))
        for row in rows.group_by(["api", "part"]).aggregate([("count", "sum"), ("sum_ms", "sum")]).to_pylist():
            sums[row["api"], row["part"]] += row["sum_ms_sum"]
            exchanges[row["api"]] += row["count_sum"] if row["part"] == TOTAL else 0
    return {(api, part): total / exchanges[api] for (api, part), total in sums.items() if exchanges[api]}


def _errors(before: Side, after: Side) -> Iterator[Change]:
    """Those that are no ordinary part of the protocol."""
    yield from _counted("errors", before, after, _error_counts)


def _error_counts(side: Side) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for rows in side.rows("error_histogram", ["api", "error", "ordinary", "count"]):
        rows = rows.filter(pc.invert(pc.fill_null(rows["ordinary"], False)))
        for row in rows.group_by(["api", "error"]).aggregate([("count", "sum")]).to_pylist():
            counts[row["api"] or "(unknown)", row["error"] or "(unknown)"] += row["count_sum"]
    return counts


def _rebalances(before: Side, after: Side) -> Iterator[Change]:
    """Of groups, all together and by what set them off."""
    yield from _counted("rebalances", before, after, _rebalance_counts)


def _rebalance_counts(side: Side) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for rows in side.rows("rebalances", ["group_id", "trigger"]):
        for row in rows.to_pylist():
            group = f"group {row['group_id']}"
            counts[group, "all"] += 1
            counts[group, words(row["trigger"])] += 1
    return counts


def _load(before: Side, after: Side) -> Iterator[Change]:
    """Exchanges by API."""
    yield from _counted("load", before, after, _load_counts)


def _load_counts(side: Side) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for rows in side.rows("exchanges", ["api"]):
        for row in rows["api"].value_counts().to_pylist():
            counts[row["values"] or "(unknown)", ""] += row["counts"]
    return counts


def _counted(
    section: str, before: Side, after: Side, count: Callable[[Side], Counter[tuple[str, str]]]
) -> Iterator[Change]:
    """Events by subject and what, a minute."""
    a, b = count(before), count(after)
    for subject, what in sorted(a.keys() | b.keys()):
        key = (subject, what)
        rates = [of[key] * 60 / side.seconds if side.seconds else None for of, side in ((a, before), (b, after))]
        verdict = of_rates(a[key], before.seconds, b[key], after.seconds)
        was, is_now = (_per_minute(of[key], rate) for of, rate in zip((a, b), rates, strict=True))
        yield Change(section, subject, what, was, is_now, verdict, rates[0], rates[1], a[key], b[key])


def _per_minute(count: int, rate: float | None) -> str:
    return f"{count:,}" if not count or rate is None else f"{count:,} ({rate:,.{1 if rate < 10 else 0}f} a minute)"


def _settings(before: Side, after: Side) -> Iterator[Change]:
    """Of clients that are in both, by client id; what only one side shows is no change."""
    a, b = _settings_of(before), _settings_of(after)
    for client, name in sorted(a.keys() & b.keys()):
        was, is_now = a[client, name], b[client, name]
        verdict = Verdict.SAME if was == is_now else Verdict.CHANGED
        yield Change("settings", f"client {client}", name, listed(was, _NAMES), listed(is_now, _NAMES), verdict)


def _settings_of(side: Side) -> dict[tuple[str, str], set[str]]:
    """The values of each setting that a client id showed most often, on each of its hosts."""
    found: dict[tuple[str, str], set[str]] = {}
    for row in side.clients:
        for name in (*SETTINGS, "idempotent"):
            if row["client_id"] is not None and row[name] is not None:
                found.setdefault((row["client_id"], name), set()).add(str(row[name]))
    return found


def _names(before: Side, after: Side) -> Iterator[Change]:
    """Clients, groups, topics, brokers that only one side has."""
    a, b = _names_of(before), _names_of(after)
    for kind, name in sorted(a | b):
        was, is_now = ("seen" if (kind, name) in of else "" for of in (a, b))
        yield Change("seen", f"{kind} {name}", "", was, is_now, _presence(was, is_now))


def _names_of(side: Side) -> set[tuple[str, str]]:
    found = {("client", row["client_id"]) for row in side.clients if row["client_id"] is not None}
    for row in side.clients:
        found |= {("group", name) for name in row["groups"]} | {("topic", name) for name in row["topics"]}
    for rows in side.rows("connections", ["broker", "broker_port", "protocol"]):
        spoken = rows.filter(pc.is_in(rows["protocol"], pa.array(["kafka", "tls"])))
        for row in spoken.group_by(["broker", "broker_port"]).aggregate([]).to_pylist():
            found.add(("broker", address(row["broker"], row["broker_port"])))
    return found


_OF_CLIENTS = ("connections", "exchanges")
_SECTIONS: tuple[tuple[tuple[str, ...], Callable[[Side, Side], Iterator[Change]]], ...] = (
    (("incidents",), _incidents),
    (("latency",), _latency),
    (("error_histogram",), _errors),
    (("rebalances",), _rebalances),
    (_OF_CLIENTS, _settings),
    (_OF_CLIENTS, _names),
    (("exchanges",), _load),
)
"""The tables that each needs."""
