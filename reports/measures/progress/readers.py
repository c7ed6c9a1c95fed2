"""Which group a client reads a topic for.

A fetch names no group. Clients of a group commit, and ask what is committed, from the same address and with the same
client id as they fetch, though on another connection. Where a topic is known by its id alone, commits, which have its
name, tell nothing; then it is the group of which the client is a member, if that is one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import dictionary_codes, distinct_columns, equal_columns, integers
from kafkascope.reports.columns.series import in_groups
from kafkascope.reports.columns.told_clusters import client_key
from kafkascope.reports.columns.topics import ID_PREFIX
from kafkascope.reports.measures.progress.positions import topic_partitions, topic_place
from kafkascope.sniffer.columns import I64

NOBODY = np.int64(-1)


def groups_of(fetches: pa.Table, commits: pa.Table, group: I64) -> I64:
    """The group (a number as in group, which are those of the rows of commits) of each row of fetches.

    Where a client commits for several groups of a topic, that one counts which it spoke for at the time, about the
    partition; -1 where there is none, or more than one.
    """
    if not commits.num_rows or not fetches.num_rows:
        return np.full(fetches.num_rows, NOBODY)
    (read, spoken_of), _ = topic_partitions(fetches, commits)
    who = _clients(fetches, commits, topic_place(np.concatenate([read, spoken_of])))
    reads, speaks = who[: fetches.num_rows], who[fetches.num_rows :]
    pairs, _ = distinct_columns(np.stack([speaks, group]))
    count = np.bincount(pairs[0], minlength=int(who.max()) + 1)
    only = np.full(len(count), NOBODY)
    only[pairs[0]] = pairs[1]
    found = np.where(count[reads] == 1, only[reads], NOBODY)
    several = np.flatnonzero(count[reads] > 1)
    if len(several):
        said = np.flatnonzero(count[speaks] > 1)
        found[several] = _at_the_time(
            np.stack([reads, read, integers(fetches["first_at"])])[:, several],
            np.stack([speaks, spoken_of, group])[:, said],
            integers(commits["first_at"])[said],
            integers(commits["last_at"])[said],
        )
    return found


def groups_of_members(fetches: pa.Table, members: Mapping[str, str]) -> pa.Array:
    """The group of which each fetch of a topic that is known by id alone is by membership; null for others."""
    if not members or not pc.any(pc.starts_with(fetches["topic"], ID_PREFIX)).as_py():
        return pa.nulls(fetches.num_rows, pa.string())
    readers, reader = in_groups(fetches, ["topic", "client", "client_id"])
    told = [
        members.get(client_key(row["client"], row["client_id"])) if row["topic"].startswith(ID_PREFIX) else None
        for row in readers.to_pylist()
    ]
    return pa.array(told, pa.string()).take(pa.array(reader))


def _at_the_time(reads: I64, speaks: I64, first_at: I64, last_at: I64) -> I64:
    """The group for each of reads (client, partition, time), by the spans in which clients spoke for each group."""
    keys, place = distinct_columns(speaks)
    begins = np.full(keys.shape[1], np.iinfo(np.int64).max)
    ends = np.full(keys.shape[1], np.iinfo(np.int64).min)
    np.minimum.at(begins, place, first_at)
    np.maximum.at(ends, place, last_at)
    order = np.lexsort((reads[2], reads[1], reads[0]))
    client, partition, at = reads[:, order]
    within = np.zeros(len(order), np.int64)
    group = np.full(len(order), NOBODY)
    latest = np.full(len(order), np.iinfo(np.int64).min)  # end of the span of the group that spoke last before
    before = np.full(len(order), NOBODY)
    code = equal_columns(np.concatenate([np.stack([client, partition]), keys[:2]], axis=1))
    for key in range(keys.shape[1]):  # as many as groups share a client, for each partition
        rows = slice(*np.searchsorted(code[: len(order)], [code[len(order) + key], code[len(order) + key] + 1]))
        inside = (at[rows] >= begins[key]) & (at[rows] <= ends[key])
        within[rows] += inside
        group[rows] = np.where(inside, keys[2, key], group[rows])
        later = (at[rows] > ends[key]) & (ends[key] > latest[rows])
        before[rows] = np.where(later, keys[2, key], before[rows])
        latest[rows] = np.where(later, ends[key], latest[rows])
    result = np.empty(len(order), np.int64)
    result[order] = np.where(within == 1, group, np.where(within == 0, before, NOBODY))
    return result


def _clients(fetches: pa.Table, commits: pa.Table, topic: I64) -> I64:
    """A number for each client of a topic, by client id and address, for the rows of fetches and then of commits."""
    codes = [topic]
    for name in ("client_id", "client"):
        both = pa.chunked_array([*fetches[name].chunks, *commits[name].chunks], pa.string())
        codes.append(dictionary_codes(both)[0])
    return equal_columns(np.stack(codes))
