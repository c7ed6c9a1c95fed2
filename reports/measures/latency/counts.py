"""Durations counted in buckets by who, what and when; counts of many batches as the table ``latency``; percentiles of
any grouping of it. Counts are whole numbers, so merging is adding, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import dictionary_codes, equal_columns
from kafkascope.reports.columns.series import (
    in_groups,
    replaced,
    shards,
    sorted_by,
    spans,
    width_of,
    without_the_smallest,
)
from kafkascope.reports.measures.latency.histogram import buckets_of, percentiles
from kafkascope.reports.measures.latency.parts import PARTS, TOTAL
from kafkascope.reports.vocabulary.tables import LATENCY, LATENCY_COUNTS, TIME
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.units import MILLISECOND_NS

WHO = ("api", "api_version", "broker", "client_id", "client", "acks")
_SERIES = ["api", "api_version", "broker", "client_id", "client", "topic", "acks"]
_FRACTIONS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
_SUMS = [("count", "sum"), ("sum_ns", "sum"), ("max_ns", "max")]


@dataclass(frozen=True, slots=True)
class Spent:
    """Durations of one part: whose each is (a row), when it began and how long it took, in nanoseconds."""

    part: str
    row: I64
    at: I64
    length: I64


def counts(who: pa.Table, spent: Sequence[Spent], span: int) -> pa.Table:
    """Rows of ``LATENCY_COUNTS`` in spans of that many nanoseconds.

    who has the columns `WHO` and topic, a row for each that spent speaks of.
    """
    codes = np.stack([dictionary_codes(who[name])[0] for name in _SERIES])
    series = equal_columns(codes)
    first = np.empty(int(series.max(initial=-1)) + 1, np.int64)
    first[series] = np.arange(len(series))  # any of a series stands for it
    row, at, length = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(one, name) for one in spent)])
        for name in ("row", "at", "length")
    )
    part = np.repeat(np.array([PARTS.index(one.part) for one in spent], np.int64), [len(one.row) for one in spent])
    columns = {
        "series": series[row],
        "from": spans(at, span),
        "part": part,
        "bucket": buckets_of(length),
        "length": length,
    }
    groups = pa.table({name: pa.array(column) for name, column in columns.items()}).group_by(
        ["series", "from", "part", "bucket"], use_threads=False
    )
    counted = groups.aggregate([("length", "count"), ("length", "sum"), ("length", "max")])
    named = who.take(pa.array(first)).append_column("shard", shards(who["client_id"].take(pa.array(first))))
    named = named.take(counted["series"])
    arrays: dict[str, pa.ChunkedArray] = {name: named[name] for name in ("shard", *_SERIES)}
    arrays |= {
        "from": counted["from"].cast(TIME),
        "part": pa.array(PARTS).take(counted["part"]),
        "bucket": counted["bucket"],
        "count": counted["length_count"],
        "sum_ns": counted["length_sum"],
        "max_ns": counted["length_max"],
    }
    return pa.table([arrays[name] for name in LATENCY_COUNTS.names], schema=LATENCY_COUNTS)


def latency_table(rows: pa.Table) -> pa.Table:
    """The table ``latency`` of all counts of a shard."""
    total = pc.if_else(pc.equal(rows["part"], TOTAL), rows["count"], 0).to_numpy()
    rows = without_the_smallest(rows, _SERIES, ("broker", "client_id", "client", "topic"), total)
    at = rows["from"].cast(pa.int64()).to_numpy()
    width = width_of(at)
    rows = replaced(rows, "from", pa.array(spans(at, width)).cast(TIME))
    names = [*_SERIES, "from", "part"]
    rows = rows.group_by([*names, "bucket"], use_threads=False).aggregate(_SUMS)
    rows = sorted_by(rows, [*names, "bucket"])
    groups, group = in_groups(rows, names)
    sizes = np.bincount(group, minlength=groups.num_rows)
    offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
    arrays: dict[str, pa.Array] = {name: groups[name] for name in names}
    arrays |= _measures(rows, group, int(group.max(initial=-1)) + 1)
    arrays |= {
        "width_ms": pa.array(np.full(groups.num_rows, width // MILLISECOND_NS, np.int64)),
        "p999": arrays["p99.9"],
        "bucket": pa.ListArray.from_arrays(offsets, rows["bucket"].combine_chunks()),
        "counts": pa.ListArray.from_arrays(offsets, rows["count_sum"].combine_chunks()),
    }
    return pa.table([arrays[name] for name in LATENCY.names], schema=LATENCY)


def latency(table: pa.Table, by: str | Sequence[str] = ("api", "part"), part: str | None = None) -> pd.DataFrame:
    """Percentiles of the table ``latency`` in milliseconds, grouped anew: exact, but for the width of the buckets.

    by: any of api, api_version, broker, client_id, client, topic, acks, part and from (time; if spans of different
    width are in the table, the widest). Without part in by, one part is looked at: the one given, else the total.
    Columns: those of by, then count, sum_ms, p50, p90, p99, p99.9 and max. Groups are in ascending order.
    """
    names = [by] if isinstance(by, str) else list(by)
    allowed = [*_SERIES, "part", "from"]
    if unknown := [name for name in names if name not in allowed]:
        raise ValueError(f"by: {', '.join(unknown)}: not among {', '.join(allowed)}")
    if part is not None and part not in PARTS:
        raise ValueError(f"part: {part}: not among {', '.join(PARTS)}")
    if part is not None or "part" not in names:
        table = table.filter(pc.equal(table["part"], part or TOTAL))
    # A row with a topic is one of several views of the same exchanges.
    table = table.filter(pc.is_valid(table["topic"]) if "topic" in names else pc.is_null(table["topic"]))
    if "from" in names and table.num_rows:
        width = int(pc.max(table["width_ms"]).as_py()) * MILLISECOND_NS
        table = replaced(table, "from", pa.array(spans(table["from"].cast(pa.int64()).to_numpy(), width)).cast(TIME))
    rows = _flat(table, names)
    rows = rows.group_by([*names, "bucket"], use_threads=False).aggregate(_SUMS)
    rows = sorted_by(rows, [*names, "bucket"])
    groups, group = in_groups(rows, names)
    measures = _measures(rows, group, int(group.max(initial=-1)) + 1)
    order = ["count", "sum_ms", *_FRACTIONS, "max"]
    columns = [*(groups[name] for name in names), *(measures[name] for name in order)]
    frame: pd.DataFrame = pa.table(columns, names=[*names, *order]).to_pandas()
    return frame


def _flat(table: pa.Table, names: list[str]) -> pa.Table:
    """A row for each bucket of each row; sum and maximum, which belong to the row, stand at its first bucket."""
    lists = table["bucket"].combine_chunks()
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    row = np.repeat(np.arange(table.num_rows), sizes)
    first = np.zeros(len(row), np.bool_)
    first[(np.cumsum(sizes) - sizes)[sizes > 0]] = True
    sum_ns = np.rint(table["sum_ms"].to_numpy() * MILLISECOND_NS).astype(np.int64)
    max_ns = np.rint(table["max"].to_numpy() * MILLISECOND_NS).astype(np.int64)
    columns = {name: table[name].take(pa.array(row)) for name in names}
    columns |= {
        "bucket": lists.flatten(),
        "count": table["counts"].combine_chunks().flatten(),
        "sum_ns": pa.array(np.where(first, sum_ns[row], 0)),
        "max_ns": pa.array(np.where(first, max_ns[row], 0)),
    }
    return pa.table(columns)


def _measures(rows: pa.Table, group: I64, groups: int) -> dict[str, pa.Array]:
    count, total, most = (rows[f"{name}_{how}"].to_numpy() for name, how in _SUMS)
    counted, spent, highest = (np.zeros(groups, np.int64) for _ in range(3))
    np.add.at(counted, group, count)
    np.add.at(spent, group, total)
    np.maximum.at(highest, group, most)
    highest_ms = highest / MILLISECOND_NS
    found = percentiles(group, rows["bucket"].to_numpy(), count, highest_ms, list(_FRACTIONS.values()))
    measures = {"count": counted, "sum_ms": spent / MILLISECOND_NS, "max": highest_ms}
    measures |= dict(zip(_FRACTIONS, found, strict=True))
    return {name: pa.array(column) for name, column in measures.items()}
