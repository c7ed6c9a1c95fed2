"""Errors as people ask for them: which, how often, when, where, trouble apart from what is ordinary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.sniffer.units import MILLISECOND_NS

BINS = 60  # spans of time that a picture has side by side
KINDS = 200  # kinds of error that are told apart
PLACES = 8  # topics, groups, clients and brokers that are named with an error
_PLACES_COUNTED = 2_000  # of one kind of error
_DIMENSIONS = {"group": "group_id", "topic": "topic", "client": "client_id", "broker": "broker"}


@dataclass(slots=True)
class ErrorAnswer:
    """One error code in answers of one API. Times are nanoseconds."""

    api: str
    error: str
    code: int
    ordinary: bool
    retriable: bool
    meaning: str
    advice: str
    reason: str  # why it is ordinary
    count: int = 0
    first: int | None = None
    last: int | None = None
    packet: int | None = None  # of the first
    spans: Counter[int] = field(default_factory=Counter)
    places: Counter[tuple[str, str]] = field(default_factory=Counter)

    def where(self) -> list[tuple[str, str, int]]:
        """Kind, name and count of the places where it happened most, each kind in turn."""
        shown = []
        for kind in _DIMENSIONS:
            mine = sorted(((-n, name) for (of, name), n in self.places.items() if of == kind))
            shown += [(kind, name, -n) for n, name in mine[:3]]
        return shown[:PLACES]


@dataclass(frozen=True, slots=True)
class Errors:
    """The answer, the most frequent first. Times are nanoseconds."""

    trouble: list[ErrorAnswer]
    ordinary: list[ErrorAnswer]
    begin: int
    width: int
    spans: int
    left_out: int


_KINDS = ["api", "error", "code", "ordinary"]
_TEXTS = ["retriable", "meaning", "advice", "reason"]
_COLUMNS = [*_KINDS, *_TEXTS, "at", "count", "first", "last", "first_packet", *_DIMENSIONS.values()]
_Key = tuple[str, str, bool]


def errors(table: ds.Dataset | None) -> Errors | None:
    """The answer out of the table error_histogram; None without it."""
    if table is None:
        return None
    begin, end, widest = _extent(table)
    width = max(widest, -(-(end - begin) // BINS), 1)
    spans = max(1, -(-(end - begin) // width))
    found: dict[_Key, ErrorAnswer] = {}
    refused: set[_Key] = set()
    for batch in table.to_batches(columns=_COLUMNS):
        rows = pa.Table.from_batches([batch])
        for name in ("at", "first", "last"):
            rows = rows.set_column(rows.schema.get_field_index(name), name, rows[name].cast(pa.int64()))
        sums = [("count", "sum"), ("first", "min"), ("last", "max"), ("first_packet", "min")]
        for row in rows.group_by([*_KINDS, *_TEXTS]).aggregate(sums).to_pylist():
            if (key := _key(row)) not in found and len(found) >= KINDS:
                refused.add(key)
                continue
            _add(found.setdefault(key, _new(key, row)), row)
        for one, at, count in _counts(rows, "at", found):
            one.spans[min(max((at - begin) // width, 0), spans - 1)] += count
        for kind, column in _DIMENSIONS.items():
            for one, name, count in _counts(rows, column, found):
                if (kind, name) in one.places or len(one.places) < _PLACES_COUNTED:
                    one.places[kind, name] += count
    ranked = sorted(found.values(), key=lambda one: (-one.count, one.api, one.error))
    return Errors(
        [one for one in ranked if not one.ordinary],
        [one for one in ranked if one.ordinary],
        begin,
        width,
        spans,
        len(refused),
    )


def _counts(rows: pa.Table, column: str, found: Mapping[_Key, ErrorAnswer]) -> Iterator[tuple[ErrorAnswer, Any, int]]:
    """How often each of the errors was told with each value of a column."""
    for row in rows.group_by([*_KINDS, column]).aggregate([("count", "sum")]).to_pylist():
        if (one := found.get(_key(row))) is not None and row[column] not in (None, ""):
            yield one, row[column], row["count_sum"]


def _extent(table: ds.Dataset) -> tuple[int, int, int]:
    begins, ends, widest = [], [], 1
    for batch in table.to_batches(columns=["at", "width_ms"]):
        if batch.num_rows:
            at, width = batch["at"].cast(pa.int64()), pc.multiply(batch["width_ms"], MILLISECOND_NS)
            begins.append(pc.min(at).as_py() or 0)
            ends.append(pc.max(pc.add(at, width)).as_py() or 1)
            widest = max(widest, pc.max(width).as_py() or 1)
    return (min(begins), max(ends), widest) if begins else (0, 1, 1)


def _new(key: _Key, row: Mapping[str, Any]) -> ErrorAnswer:
    meaning, advice, reason = (str(row[name] or "") for name in ("meaning", "advice", "reason"))
    return ErrorAnswer(
        api=key[0],
        error=key[1],
        code=row["code"] or 0,
        ordinary=key[2],
        retriable=bool(row["retriable"]),
        meaning=meaning,
        advice=advice,
        reason=reason,
    )


def _key(row: Mapping[str, Any]) -> _Key:
    return row["api"] or "(unknown)", row["error"] or str(row["code"]), bool(row["ordinary"])


def _add(one: ErrorAnswer, row: Mapping[str, Any]) -> None:
    one.count += row["count_sum"] or 0
    first, last = row["first_min"], row["last_max"]
    if first is not None and (one.first is None or first < one.first):
        one.first, one.packet = first, row["first_packet_min"]
    if last is not None:
        one.last = last if one.last is None else max(one.last, last)
