"""What groups read again: fetches of a group that begin below what it had been sent already.

After a rebalance or a restart a partition is read from its committed offset on; what had been sent behind that comes
again. What a client was sent it may not have shown to its application: these are records that travelled twice, and the
most that can have been worked on twice.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import changes, dictionary_codes, integers, numbers
from kafkascope.reports.measures.progress.positions import topic_partitions
from kafkascope.reports.vocabulary.tables import REREADS, TIME
from kafkascope.sniffer.columns import I64

_MOST_NEW_LOGS = 16
"""How often a partition may begin anew, by being made again or cut back, until no more is looked for."""


def rereads(fetches: pa.Table) -> pa.Table:
    """Rows of REREADS by joined rows of fetches whose group is known."""
    if not fetches.num_rows:
        return REREADS.empty_table()
    columns = ("first_at", "connection", "first_number", "first_offset", "position", "end_offset")
    at, connection, number, asked, position, end = (integers(fetches[name]) for name in columns)
    (partition,), _ = topic_partitions(fetches)  # of which topic, too
    group = dictionary_codes(fetches["group_id"])[0]
    order = np.lexsort((number, connection, at, partition, group))
    before = _reached_before(np.stack([group, partition])[:, order], position[order], end[order])
    again = np.flatnonzero((asked[order] < before) & (position[order] > asked[order]))
    if not len(again):
        return REREADS.empty_table()
    rows = order[again]
    start, stop = asked[rows], np.minimum(position[rows], before[again])
    begins = changes(np.stack([group[rows], partition[rows], connection[rows]]))
    # Reading on where the row before ended, or the same once more, is part of one and the same.
    begins[1:] |= (start[1:] != stop[:-1]) & (start[1:] != start[:-1])
    first = np.flatnonzero(begins)
    times = np.ones(len(rows), np.int64)
    times[1:] = (start[1:] == start[:-1]) | begins[1:]
    head = pa.array(rows[first])
    return pa.table(
        {
            "group_id": fetches["group_id"].take(head),
            "topic": fetches["topic"].take(head),
            "partition": fetches["partition"].take(head),
            "at": pc.cast(pa.array(at[rows[first]]), TIME),
            "connection": connection[rows[first]],
            "number": number[rows[first]],
            "client_id": fetches["client_id"].take(head),
            "client": fetches["client"].take(head),
            "from_offset": np.minimum.reduceat(start, first),
            "to_offset": np.maximum.reduceat(stop, first),
            "records": np.add.reduceat(stop - start, first),
            "times": np.add.reduceat(times, first),
        },
        schema=REREADS,
    )


def readers_of(lag: pa.Table) -> pa.Array:
    """The groups of the table of lag that were seen to fetch."""
    return pc.unique(lag.filter(pc.is_valid(lag["fetch_offset"]))["group_id"]).drop_null()


def attach_rereads(rebalances: pa.Table, rereads: pa.Table, readers: pa.Array | None = None) -> pa.Table:
    """The rebalances with ``reread_records``: what was read again from the start of each to that of the group's next.

    It is null for groups that are not among the readers (`readers_of`): nothing is known of what they read. Without
    readers it is null for groups that have not read anything again.
    """
    if not rebalances.num_rows:
        return rebalances
    names = pa.chunked_array([*rebalances["group_id"].chunks, *rereads["group_id"].chunks], pa.string())
    codes, distinct = dictionary_codes(names)
    group, of_reread = codes[: rebalances.num_rows], codes[rebalances.num_rows :]
    started, at = integers(rebalances["started"]), integers(rereads["at"])
    # Each reread belongs to the last rebalance that had started; those with the same start share, the first takes it.
    is_reread = np.concatenate([np.zeros(len(group), np.int64), np.ones(len(of_reread), np.int64)])
    order = np.lexsort((is_reread, np.concatenate([started, at]), codes))
    last = np.maximum.accumulate(np.where(is_reread[order] == 0, np.arange(len(order)), -1))
    owner = np.full(len(order), -1, np.int64)
    owner[last >= 0] = order[last[last >= 0]]
    owner[owner >= 0] = np.where(codes[owner] == codes[order], owner, -1)[owner >= 0]
    total = np.zeros(len(group), np.int64)
    found = np.flatnonzero((is_reread[order] == 1) & (owner >= 0))
    np.add.at(total, owner[found], integers(rereads["records"])[order[found] - len(group)])
    seen = pc.unique(rereads["group_id"]) if readers is None else readers
    known = np.isin(group, np.flatnonzero(pc.is_in(distinct, seen).to_numpy(zero_copy_only=False)))
    place = rebalances.schema.get_field_index("reread_records")
    return rebalances.set_column(place, rebalances.schema.field(place), numbers(total, pa.int64(), known))


def _reached_before(series: I64, position: I64, end: I64) -> I64:
    """The furthest position of each series (columns of i64[2, n], sorted by it and by time) before each row; -1: none.

    Where the partition ends before it, its log is a new one, and what was read of the old one does not count.
    """
    log = np.zeros(len(position), np.int64)  # counts the logs of a series
    for _ in range(_MOST_NEW_LOGS):
        before = _furthest_before(np.stack([*series, log]), position)
        new = np.flatnonzero((end >= 0) & (end < before))
        if not len(new):
            break
        begins = changes(np.stack([*series, log]))
        number = np.cumsum(begins)
        first = new[np.unique(number[new], return_index=True)[1]]
        starts = np.flatnonzero(changes(series))
        mark = np.zeros(len(log), np.int64)
        mark[first] = 1
        total = np.cumsum(mark)
        log += total - (total - mark)[starts][np.cumsum(changes(series)) - 1]
    return before


def _furthest_before(series: I64, position: I64) -> I64:
    begins = changes(series)
    number = np.cumsum(begins)
    distinct, rank = np.unique(position, return_inverse=True)
    combined = number * np.int64(len(distinct)) + rank.reshape(-1)
    furthest = distinct[np.maximum.accumulate(combined) % len(distinct)] if len(distinct) else position
    before = np.full(len(position), -1, np.int64)
    before[1:] = furthest[:-1]
    before[begins] = -1
    return before
