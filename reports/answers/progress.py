"""Lag of groups over time, the ones furthest behind first."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.reports.columns.arrow import changes, dictionary_codes, integers
from kafkascope.reports.columns.views import by_key
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.units import MILLISECOND_NS

GROUPS = 60  # that are drawn
PARTITIONS = 60  # of a group, that are listed
LINES = 7  # of a picture: more cannot be told apart
_ROWS = 3_000_000  # of the groups that are drawn, if these are more than one


@dataclass(slots=True)
class PartitionLag:
    """Lag of one partition. Times are nanoseconds; the last known values beside the highest lag."""

    name: str  # topic-number
    times: list[int] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)
    committed: int | None = None
    end: int | None = None
    highest: int = 0

    @property
    def lag(self) -> int | None:
        """At the end of the capture."""
        return self.lags[-1] if self.lags else None


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Lag of one group: its partitions, the furthest behind first."""

    name: str  # group id; of a client where no group is known
    highest: int  # of one partition
    partitions: list[PartitionLag]
    partitions_left_out: int
    times: list[int]  # of the sums over all partitions
    sums: list[int]


@dataclass(frozen=True, slots=True)
class Lag:
    """The answer."""

    groups: list[GroupLag]
    left_out: int


_COLUMNS = ["group_id", "client_id", "topic", "partition", "at", "committed_offset", "fetch_offset", "end_offset"]
_COLUMNS += ["width_ms", "lag", "fetch_lag"]


def lag(table: ds.Dataset | None, end: int | None = None) -> Lag | None:
    """The answer out of the table lag; None without it. Of each span it is what was known at its end, or the capture's.

    end: of the capture, nanoseconds.
    """
    if table is None:
        return None
    highest: dict[str, int] = {}
    count: Counter[str] = Counter()
    for rows in _batches(table, None):
        for one in rows.group_by("name").aggregate([("behind", "max"), ("behind", "count")]).to_pylist():
            highest[one["name"]] = max(highest.get(one["name"], 0), one["behind_max"])
            count[one["name"]] += one["behind_count"]
    chosen = heapq.nsmallest(GROUPS, highest, key=lambda name: (-highest[name], name))
    while len(chosen) > 1 and sum(map(count.__getitem__, chosen)) > _ROWS:
        chosen.pop()
    found = {}
    if parts := list(_batches(table, chosen)):
        found = {name: _group(name, rows, end) for name, rows in by_key(pa.concat_tables(parts), "name")}
    return Lag([found[name] for name in chosen], len(highest) - len(chosen))


def _batches(table: ds.Dataset, names: list[str] | None) -> Iterator[pa.Table]:
    """Rows whose lag is known, with the name of who lags and the lag itself."""
    for batch in table.to_batches(columns=_COLUMNS):
        rows = pa.Table.from_batches([batch])
        rows = rows.set_column(rows.schema.get_field_index("at"), "at", rows["at"].cast(pa.int64()))
        rows = rows.append_column("behind", pc.coalesce(rows["lag"], rows["fetch_lag"]))
        reader = pc.binary_join_element_wise("no group known, client ", pc.fill_null(rows["client_id"], "?"), "")
        rows = rows.append_column("name", pc.coalesce(rows["group_id"], reader))
        rows = rows.filter(pc.is_valid(rows["behind"]))
        if names is not None:
            rows = rows.filter(pc.is_in(rows["name"], pa.array(names, pa.string())))
        if len(rows):
            yield rows


def _group(name: str, rows: pa.Table, end: int | None) -> GroupLag:
    topic_partition = pc.binary_join_element_wise(rows["topic"], rows["partition"].cast(pa.string()), "-")
    codes, distinct = dictionary_codes(topic_partition)
    at, behind = integers(rows["at"]) + integers(rows["width_ms"]) * MILLISECOND_NS, integers(rows["behind"])
    at = at if end is None else np.minimum(at, end)
    order = np.lexsort((at, codes))
    codes, at, behind = codes[order], at[order], behind[order]
    begins = np.flatnonzero(changes(codes[None]))
    ends = np.append(begins[1:], len(codes))
    highest = np.maximum.reduceat(behind, begins).tolist()
    names = distinct.to_pylist()
    furthest = sorted(range(len(begins)), key=lambda place: (-highest[place], names[place]))
    committed = pc.coalesce(rows["committed_offset"], rows["fetch_offset"])
    known = {"committed": integers(committed)[order], "end": integers(rows["end_offset"])[order]}
    partitions = []
    for place in furthest[:PARTITIONS]:
        of_it = slice(begins[place], ends[place])
        last = {what: _last(offsets[of_it]) for what, offsets in known.items()}
        one = PartitionLag(names[place], at[of_it].tolist(), behind[of_it].tolist(), highest=highest[place], **last)
        partitions.append(one)
    # All partitions together: each keeps its last lag until the next is known.
    grown = np.diff(behind, prepend=0)
    grown[begins] = behind[begins]
    times, of_time = np.unique(at, return_inverse=True)
    sums = np.zeros(len(times), np.int64)
    np.add.at(sums, of_time, grown)
    left_out = max(0, len(begins) - PARTITIONS)
    return GroupLag(name, partitions[0].highest, partitions, left_out, times.tolist(), np.cumsum(sums).tolist())


def _last(offsets: I64) -> int | None:
    """The last one that is known."""
    known = offsets[offsets >= 0]
    return int(known[-1]) if len(known) else None
