"""Which group a client reads a topic for.

A fetch names no group. Clients of a group commit, and ask what is committed, from the same address and with the same
client id as they fetch, though on another connection. Where a topic is known by its id alone, commits, which have its
name, tell nothing; then it is the group of which the client is a member, if that is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import dictionary_codes, distinct_columns, equal_columns, integers
from kafkascope.reports.columns.series import in_groups
from kafkascope.reports.columns.told_clusters import client_key
from kafkascope.reports.columns.topics import ID_PREFIX
from kafkascope.reports.measures.progress.positions import topic_partitions
from kafkascope.sniffer.columns import I64

NOBODY = np.int64(-1)
_CLIENT = ("topic", "client_id", "client")
SPEAKER = (*_CLIENT, "group_id")


@dataclass(frozen=True, slots=True)
class Speakers:
    """For which groups the clients of topics speak: what these commit, ask about, and fetch as share groups."""

    told: pa.Table  # the columns `SPEAKER`, each row once

    @classmethod
    def of(cls, spoken: pa.Table) -> Speakers:
        """By all rows of their topics of the kinds `SPOKEN`, which have at least the columns `SPEAKER`."""
        return cls(spoken.group_by(SPEAKER, use_threads=False).aggregate([]))

    def groups_of(self, fetches: pa.Table, commits: pa.Table) -> pa.Array:
        """The group that each row of fetches is for; null where there is none, or more than one.

        Where a client speaks for several groups of a topic, that one counts which it spoke for at the time, about the
        partition: commits has what was said of the partitions of fetches.
        """
        if not self.told.num_rows or not fetches.num_rows:
            return pa.nulls(fetches.num_rows, pa.string())
        reads, speaks, client = _places(_CLIENT, fetches, commits, self.told)
        groups = pa.chunked_array([*self.told["group_id"].chunks, *commits["group_id"].chunks], pa.string())
        codes, names = dictionary_codes(groups)
        of_client, group = np.split(codes, [self.told.num_rows])
        count = np.bincount(client, minlength=int(reads.max()) + 1)
        only = np.full(len(count), NOBODY)
        only[client] = of_client
        found = np.where(count[reads] == 1, only[reads], NOBODY)
        several = np.flatnonzero(count[reads] > 1)
        if len(several):
            (read, spoken_of), _ = topic_partitions(fetches, commits)
            said = np.flatnonzero(count[speaks] > 1)
            found[several] = _at_the_time(
                np.stack([reads, read, integers(fetches["first_at"])])[:, several],
                np.stack([speaks, spoken_of, group])[:, said],
                integers(commits["first_at"])[said],
                integers(commits["last_at"])[said],
            )
        return names.take(pa.array(found, mask=found < 0))


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


def _places(names: Sequence[str], *tables: pa.Table) -> list[I64]:
    """A number for what each row of the tables has in these columns of text: the same for the same."""
    codes = []
    for name in names:
        whole = pa.chunked_array([chunk for table in tables for chunk in table[name].chunks], pa.string())
        codes.append(dictionary_codes(whole)[0])
    return np.split(equal_columns(np.stack(codes)), np.cumsum([table.num_rows for table in tables])[:-1])
