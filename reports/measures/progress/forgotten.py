"""Commits that are not there: a member asks what its group has committed, and there is nothing.

It was there and is gone, or it never was, though the group had read the partition, and now begins behind that.

Offsets are deleted by somebody (OffsetDelete, DeleteGroups), or expire when a group was without members for
offsets.retention.minutes. No error is told: auto.offset.reset decides where the member goes on, and with `latest` what
was written meanwhile is never read. What was committed and read before the capture is not known, so a group that is new
and one whose offsets were gone by then look the same, and nothing is said of them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import dictionary_codes, equal_columns, integers, numbers
from kafkascope.reports.measures.progress.positions import COMMIT, COMMITTED, NOTHING_COMMITTED, topic_partitions
from kafkascope.reports.measures.progress.timelines import Timeline
from kafkascope.reports.vocabulary.tables import FORGOTTEN_COMMITS, TIME
from kafkascope.sniffer.columns import I64


def forgotten_commits(fetches: pa.Table, commits: pa.Table) -> pa.Table:
    """Rows of FORGOTTEN_COMMITS by joined rows of POSITIONS; group_id of fetches is that of their reader, or null.

    A commit that was sent counts unless it was refused, one in a transaction only if the coordinator told of it.
    """
    asked = commits.filter(pc.equal(commits["kind"], NOTHING_COMMITTED))
    had = pc.and_(pc.is_in(commits["kind"], pa.array([COMMIT, COMMITTED])), pc.is_valid(commits["last_offset"]))
    had = commits.filter(had)
    if not asked.num_rows or not (had.num_rows or fetches.num_rows):
        return FORGOTTEN_COMMITS.empty_table()
    of_asked, of_had, of_fetch = _series(asked, had, fetches)
    at = integers(asked["first_at"])
    last = Timeline(of_had, integers(had["last_at"]), integers(had["last_number"])).last(of_asked, at - 1)
    order = np.lexsort((integers(asked["first_number"]), at))
    gone = order[last[order] >= 0]
    # Members ask in each rebalance until there is a commit again: what was gone is told once.
    gone = np.sort(gone[np.unique(last[gone], return_index=True)[1]])
    never = order[(last[order] < 0) & (of_asked[order] >= 0)]
    reached, read_from, _ = _read(fetches, of_fetch, of_asked[never], at[never])
    passed_over = (reached >= 0) & (read_from > reached)
    never, read_from = never[passed_over], read_from[passed_over]
    never = never[np.unique(np.stack([of_asked[never], read_from]), axis=1, return_index=True)[1]]
    return pa.concat_tables(
        [_rows(asked, had, fetches, found, last[found], of_fetch, of_asked[found]) for found in (gone, np.sort(never))]
    )


def _rows(
    asked: pa.Table, had: pa.Table, fetches: pa.Table, found: I64, last: I64, of_fetch: I64, series: I64
) -> pa.Table:
    """Rows for some who asked, by what their groups had committed last (-1: nothing)."""
    asked, at = asked.take(pa.array(found)), integers(asked["first_at"])[found]
    had_any = last >= 0
    reached, read_from, end = _read(fetches, of_fetch, series, at)
    committed, committed_at = (
        np.where(had_any, np.append(integers(had[name]), -1)[last], np.int64(-1)) for name in ("last_offset", "last_at")
    )
    is_same_log = (read_from < 0) | (end < 0) | (end >= committed)
    passed_over = np.maximum(read_from - np.maximum(committed, reached), 0)
    rows = pa.table(
        {
            "group_id": asked["group_id"],
            "topic": asked["topic"],
            "partition": asked["partition"],
            "at": pc.cast(pa.array(at), TIME),
            "connection": asked["connection"],
            "number": asked["first_number"],
            "client_id": asked["client_id"],
            "client": asked["client"],
            "committed_at": pc.cast(numbers(committed_at, pa.int64(), had_any), TIME),
            "committed_offset": numbers(committed, pa.int64(), had_any),
            "read_from": numbers(read_from, pa.int64(), read_from >= 0),
            "passed_over": numbers(passed_over, pa.int64(), read_from >= 0),
        },
        schema=FORGOTTEN_COMMITS,
    )
    return rows.filter(pa.array(is_same_log))


def _series(*tables: pa.Table) -> list[I64]:
    """A number for the group, topic and partition of each row of some tables; -1 where there is no group."""
    partitions, _ = topic_partitions(*tables)
    groups = pa.chunked_array([chunk for table in tables for chunk in table["group_id"].chunks], pa.string())
    group = dictionary_codes(groups)[0].astype(np.int64)
    series = np.where(group < 0, np.int64(-1), equal_columns(np.stack([group, np.concatenate(partitions)])))
    return np.split(series, np.cumsum([table.num_rows for table in tables])[:-1])


def _read(fetches: pa.Table, of_fetch: I64, series: I64, at: I64) -> tuple[I64, I64, I64]:
    """How far was read before a time, the first offset that was asked for from then on, and the end; -1: not known.

    Of who reads on, as is seen by its rows, it is not known where within a span it was put somewhere else.
    """
    if not fetches.num_rows:
        nothing = np.full(len(at), np.int64(-1))
        return nothing, nothing, nothing
    columns = ("first_at", "last_at", "first_number", "first_offset", "position", "end_offset")
    first_at, last_at, number, asked, position, end = (integers(fetches[name]) for name in columns)
    before = Timeline(of_fetch, first_at, number).last(series, at - 1)
    after = Timeline(of_fetch, -first_at, -number).last(series, -at)
    goes_on = (before >= 0) & (last_at[before] >= at)
    known = (after >= 0) & ~goes_on
    return (
        np.where(before >= 0, position[before], np.int64(-1)),
        np.where(known, asked[after], np.int64(-1)),
        np.where(known, end[after], np.int64(-1)),
    )
