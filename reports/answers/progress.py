"""Lag of groups over time, the ones furthest behind first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

GROUPS = 60  # that are drawn
PARTITIONS = 60  # of a group, that are listed
LINES = 7  # of a picture: more cannot be told apart
_ROWS = 300_000  # of the groups that are drawn


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
_COLUMNS += ["lag", "fetch_lag"]


def lag(table: ds.Dataset | None) -> Lag | None:
    """The answer out of the table lag; None without it."""
    if table is None:
        return None
    highest: dict[str, int] = {}
    for rows in _batches(table, None):
        for one in rows.group_by("name").aggregate([("behind", "max")]).to_pylist():
            highest[one["name"]] = max(highest.get(one["name"], 0), one["behind_max"] or 0)
    chosen = heapq.nsmallest(GROUPS, highest, key=lambda name: (-highest[name], name))
    by_group: dict[str, dict[str, list[dict[str, Any]]]] = {name: {} for name in chosen}
    taken = 0
    for rows in _batches(table, chosen):
        for row in rows.to_pylist():
            if taken < _ROWS:
                by_group[row["name"]].setdefault(f"{row['topic']}-{row['partition']}", []).append(row)
                taken += 1
    return Lag([_group(name, by_group[name]) for name in chosen], len(highest) - len(chosen))


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


def _group(name: str, rows: dict[str, list[dict[str, Any]]]) -> GroupLag:
    partitions = []
    changes: list[tuple[int, str, int]] = []
    for partition, of_it in rows.items():
        one = PartitionLag(partition)
        for row in sorted(of_it, key=lambda row: row["at"]):
            one.times.append(row["at"])
            one.lags.append(row["behind"])
            one.highest = max(one.highest, row["behind"])
            committed = row["committed_offset"] if row["committed_offset"] is not None else row["fetch_offset"]
            one.committed = committed if committed is not None else one.committed
            one.end = row["end_offset"] if row["end_offset"] is not None else one.end
            changes.append((row["at"], partition, row["behind"]))
        partitions.append(one)
    partitions.sort(key=lambda one: (-one.highest, one.name))
    times, sums = _summed(changes)
    return GroupLag(
        name,
        partitions[0].highest if partitions else 0,
        partitions[:PARTITIONS],
        max(0, len(partitions) - PARTITIONS),
        times,
        sums,
    )


def _summed(changes: list[tuple[int, str, int]]) -> tuple[list[int], list[int]]:
    """Lag of all partitions together: each keeps its last one until the next is known."""
    now: dict[str, int] = {}
    total = 0
    times: list[int] = []
    sums: list[int] = []
    for at, partition, behind in sorted(changes):
        total += behind - now.get(partition, 0)
        now[partition] = behind
        if times and times[-1] == at:
            sums[-1] = total
        else:
            times.append(at)
            sums.append(total)
    return times, sums
