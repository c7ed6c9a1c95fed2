"""What needs a wider view than one connection: rows that are gathered by a key of their own, and then understood.

Groups, topics and clients speak on many connections. A view makes rows from the tables of a batch (`observe`), keyed by
what belongs together; when all rows of a key are at hand it makes tables of them (`result`). In one process the rows
wait in a spool; on Spark they are shuffled once more by key. Rows of different keys never depend on each other, and
`result` sorts what it is given: so it does not matter who observed what, in which order, or where.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import Numbers, dictionary_codes
from kafkascope.reports.columns.clusters import ONE_CLUSTER, Clusters
from kafkascope.reports.columns.parties import Ends
from kafkascope.reports.columns.told_clusters import ToldClusters
from kafkascope.reports.columns.told_members import ToldMembers
from kafkascope.reports.columns.topics import ID_PREFIX, TopicNames
from kafkascope.sniffer.columns import I64

ROWS_AT_ONCE = 65_536
"""Of a view, that are copied or looked at together, if no key has more."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the whole capture when results are made."""

    topics: Mapping[str, str] = field(default_factory=dict)  # names by id, as bodies write ids (without ``id:``)
    clusters: Clusters = ONE_CLUSTER
    members: Mapping[str, str] = field(default_factory=dict)  # the group of a client, by `told_clusters.client_key`

    @classmethod
    def of(cls, learned: Mapping[str, str]) -> Known:
        """What `TopicNames.learned` has."""
        names = TopicNames(learned)
        by_id = names.learned().items()
        topics = {one.removeprefix(ID_PREFIX): name for one, name in by_id if one.startswith(ID_PREFIX)}
        clusters = Clusters.of(names.of_clusters.of_broker, nodes=names.of_clusters.nodes)
        return cls(topics, clusters, names.of_members.groups)


class View(Protocol):
    """One such view; made anew for each engine, for it may hold what connections said.

    Views are listed in `reports.views.registry`, and the tables that they make in `reports.vocabulary.tables.RESULTS`.
    A column ``topic`` of the rows has names instead of ids, where they are known, by the time of `result`.
    """

    name: str  # of its rows
    schema: pa.Schema  # of its rows
    key: str  # column by which rows belong together
    needs: frozenset[str]  # tables that observe looks at
    results: tuple[str, ...]  # tables that it makes

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """The rows that a batch of tables gives; ends are those of the connections in it."""

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """The tables of all rows of some keys; tables without rows are absent."""


@runtime_checkable
class TellsClusters(Protocol):
    """A view that learns which brokers belong to which cluster, for `Known`."""

    def tell_clusters(self, told: ToldClusters) -> None:
        """Hand on what was learned of brokers and clusters since this was asked last."""


@runtime_checkable
class TellsMembers(Protocol):
    """A view that learns which clients are members of which group, for `Known`."""

    def tell_members(self, told: ToldMembers) -> None:
        """Hand on what was learned since this was asked last."""


def by_key(rows: pa.Table, key: str, at_once: int = ROWS_AT_ONCE) -> Iterator[tuple[Any, pa.Table]]:
    """Each key with its rows, keys in ascending order (null last); rows of a key stay in their order.

    Copies rows of many small keys, or of one large one, at a time: rows may be mapped from disk.
    """
    for together, keys in keys_together(rows, key, at_once):
        for name, begin, end in keys:
            yield name, together.slice(begin, end - begin)


def partition_of(keys: pa.ChunkedArray, partitions: int) -> Numbers:
    """Partition of each key: the same in every process."""
    codes, distinct = dictionary_codes(keys)
    hashed = [zlib.crc32(str(key).encode(errors="surrogateescape")) % partitions for key in distinct.to_pylist()]
    return np.array([*hashed, 0], np.int64)[codes]  # code -1: null


def keys_together(
    rows: pa.Table, key: str, at_once: int = ROWS_AT_ONCE
) -> Iterator[tuple[pa.Table, list[tuple[Any, int, int]]]]:
    """Rows of many small keys, or of one large one, at a time, with each of the keys and where its rows begin and end.

    At once are as many rows as that, if no key has more. Keys come in ascending order (null last); rows of a key stay
    in their order.
    """
    order, begins, names = _grouped(rows[key])
    ends = np.append(begins[1:], len(order))
    first = 0
    while first < len(begins):
        last = max(first + 1, int(np.searchsorted(ends, begins[first] + at_once, side="right")))
        places = ((begins[first:last] - begins[first]).tolist(), (ends[first:last] - begins[first]).tolist())
        keys = list(zip(names[first:last], *places, strict=True))
        yield _taken(rows, order[begins[first] : ends[last - 1]]), keys  # and not held here
        first = last


def _grouped(keys: pa.ChunkedArray) -> tuple[I64, I64, list[Any]]:
    """An order in which equal keys stand together, ascending, null last; where each begins in it; the keys."""
    codes, distinct = dictionary_codes(keys)
    ascending = pc.sort_indices(distinct).to_numpy()
    rank = np.empty(len(distinct) + 1, np.int64)
    rank[ascending], rank[-1] = np.arange(len(distinct)), len(distinct)  # code -1: null
    ranks = rank[codes]
    order = np.argsort(ranks, kind="stable")
    begins = np.flatnonzero(np.diff(ranks[order], prepend=-1))
    found = codes[order[begins]]
    return order, begins, distinct.take(pa.array(found, mask=found < 0)).to_pylist()


def _taken(rows: pa.Table, places: I64) -> pa.Table:
    """The rows at some places, in that order; only these are copied, as Arrow would first put all chunks together."""
    if np.array_equal(places, np.arange(rows.num_rows)):  # all of one large key
        return rows
    order = np.argsort(places)
    ascending, parts, begin = places[order], [rows.schema.empty_table()], 0
    for batch in rows.to_batches():
        low, high = np.searchsorted(ascending, [begin, begin + batch.num_rows])
        if low < high:
            whole = high - low == batch.num_rows
            some = batch if whole else batch.take(pa.array(ascending[low:high] - begin))
            parts.append(pa.Table.from_batches([some]))
        begin += batch.num_rows
    together = pa.concat_tables(parts).combine_chunks()
    return together if np.array_equal(places, ascending) else together.take(pa.array(np.argsort(order)))
