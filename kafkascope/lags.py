"""Live: how far groups are behind the ends of partitions, by what was heard last of both."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from kafkascope.reports.columns.clusters import ONE_CLUSTER, Clusters
from kafkascope.reports.columns.topics import ID_PREFIX, TopicNames
from kafkascope.reports.measures.progress.positions import COMMIT, COMMITTED, END

MOST_POSITIONS = 100_000
"""Partitions whose ends are remembered, and as many that groups have positions in."""


class Lags:
    """Rows of the view of progress in, records that groups have not committed yet out."""

    def __init__(self) -> None:
        # By cluster; when it was told, and the offset.
        self._ends: dict[tuple[str | None, str, int], tuple[int, int]] = {}
        self._committed: dict[tuple[str | None, str, str, int], tuple[int, int]] = {}
        self._by_id: set[str] = set()  # topics whose names are not known
        self._clusters = ONE_CLUSTER

    def observe(self, positions: pa.Table, clusters: Clusters = ONE_CLUSTER) -> None:
        """Take in positions, with names of topics in the place of ids."""
        if clusters.home != self._clusters.home:  # until now they were taken for one
            self._ends.clear()
            self._committed.clear()
        self._clusters = clusters
        names = ["kind", "topic", "partition", "broker", "group_id", "last_at", "last_offset", "end_offset"]
        for row in positions.select(names).to_pylist():
            topic, partition, kind = row["topic"], row["partition"], row["kind"]
            if topic is None or partition is None:
                continue
            if topic.startswith(ID_PREFIX):
                self._by_id.add(topic)
            cluster = clusters.cluster_of(row["broker"])
            if kind == END and row["end_offset"] is not None:
                _remember(self._ends, (cluster, topic, partition), row["last_at"], row["end_offset"])
            elif kind in (COMMIT, COMMITTED) and row["group_id"] is not None and row["last_offset"] is not None:
                key = (cluster, row["group_id"], topic, partition)
                _remember(self._committed, key, row["last_at"], row["last_offset"])

    def rename(self, names: TopicNames) -> None:
        """Put names that were told since in the place of ids: a position by id would stay as it was for good."""
        renamed = names.names_of(self._by_id)
        self._by_id -= renamed.keys()
        of_both: tuple[dict[Any, tuple[int, int]], ...] = (self._ends, self._committed)
        for known in of_both if renamed else ():
            for key in [key for key in known if key[-2] in renamed]:
                *before, topic, partition = key
                _remember(known, (*before, renamed[topic], partition), *known.pop(key))

    def by_group_and_topic(self) -> Counter[tuple[str, str]]:
        """Records, of the partitions whose end and committed offset were heard; groups as their clusters call them."""
        lags: Counter[tuple[str, str]] = Counter()
        for (cluster, group, topic, partition), (_, offset) in self._committed.items():
            if (end := self._ends.get((cluster, topic, partition))) is not None:
                lags[self._clusters.group(group, cluster), topic] += max(0, end[1] - offset)
        return lags


def _remember(known: dict[Any, tuple[int, int]], key: Any, at: int, offset: int) -> None:
    """The offset that was told last; of no more than so many."""
    before = known.get(key)
    if before is None and len(known) >= MOST_POSITIONS:
        return
    if before is None or before[0] <= at:
        known[key] = at, offset
