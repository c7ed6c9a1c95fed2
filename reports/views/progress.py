"""The view of progress: positions in the partitions of a topic, whoever told them, and what they say of groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import dictionary_codes
from kafkascope.reports.columns.clusters import Clusters
from kafkascope.reports.columns.parties import Ends
from kafkascope.reports.columns.series import replaced
from kafkascope.reports.columns.views import ROWS_AT_ONCE, Known, keys_together
from kafkascope.reports.findings.finding import finding_table
from kafkascope.reports.findings.lag_rules import lag_findings
from kafkascope.reports.measures.progress.forgotten import forgotten_commits
from kafkascope.reports.measures.progress.lag import lag_table, widths_of
from kafkascope.reports.measures.progress.positions import (
    END,
    FETCH,
    SPOKEN,
    Part,
    joined_commits,
    joined_ends,
    joined_fetches,
    positions,
    topic_partitions,
)
from kafkascope.reports.measures.progress.readers import SPEAKER, Speakers, groups_of_members
from kafkascope.reports.measures.progress.rereads import rereads
from kafkascope.reports.vocabulary.tables import POSITIONS


class ProgressView:
    """Positions by topic; of them lag, what was read again, commits that are gone, and findings."""

    name = "positions"
    schema = POSITIONS
    key = "topic"
    needs = frozenset({"partitions", "batches", "told_offsets", "exchanges"})
    results: tuple[str, ...] = ("lag", "rereads", "forgotten_commits", "findings")

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """Rows of POSITIONS that a batch gives; None without any."""
        parts = [part for part in positions(tables, ends) if part.num_rows]
        return pa.concat_tables(parts) if parts else None

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """Rows of all results, topics in order of their names; of one cluster after the other."""
        lags, again, gone, findings = [], [], [], []
        for cluster, of_cluster in _by_cluster(rows, known.clusters):
            for of_topics, _ in keys_together(of_cluster, self.key):
                made = _of_topics(of_topics, known.members)
                lag, reread, forgotten = (_called(table, known.clusters, cluster) for table in made)
                lags.append(lag)
                again.append(reread)
                gone.append(forgotten)
                findings += lag_findings(lag, reread, forgotten)
        tables = {"lag": lags, "rereads": again, "forgotten_commits": gone, "findings": [finding_table(findings)]}
        return {name: whole for name, parts in tables.items() if parts and (whole := pa.concat_tables(parts)).num_rows}


def _by_cluster(rows: pa.Table, clusters: Clusters) -> Iterator[tuple[str | None, pa.Table]]:
    """Rows of each cluster: of a broker whose cluster nobody told it is taken to be the one at home."""
    if clusters.home is None:
        yield None, rows
        return
    codes, brokers = dictionary_codes(rows["broker"])
    of_row = np.array([clusters.cluster_of(broker) for broker in [*brokers.to_pylist(), None]])[codes]  # code -1: null
    for cluster in sorted(set(of_row.tolist())):
        yield cluster, rows.filter(pa.array(of_row == cluster))


def _called(table: pa.Table, clusters: Clusters, cluster: str | None) -> pa.Table:
    """A table with its groups as those of a cluster are called."""
    if cluster in (None, clusters.home):
        return table
    codes, names = dictionary_codes(table["group_id"])
    called = pa.array([clusters.group(name, cluster) for name in names.to_pylist()], pa.string())
    place = table.schema.get_field_index("group_id")
    return table.set_column(place, table.schema.field(place), called.take(pa.array(codes, mask=codes < 0)))


@dataclass(frozen=True, slots=True)
class _Parts:
    """The rows of some topics, joined: some partitions at a time, each time anew, as those of one topic may be many."""

    rows: pa.Table
    speakers: Speakers
    members: Mapping[str, str]

    def __iter__(self) -> Iterator[Part]:
        [partition], _ = topic_partitions(self.rows)
        keyed = self.rows.append_column("topic_partition", pa.array(partition))
        for some, _ in keys_together(keyed, "topic_partition"):
            rows = some.select(POSITIONS.names)
            fetches = joined_fetches(_of_kinds(rows, [FETCH]))
            commits = joined_commits(_of_kinds(rows, SPOKEN))
            readers = self.speakers.groups_of(fetches, commits)
            fetches = replaced(fetches, "group_id", pc.coalesce(readers, groups_of_members(fetches, self.members)))
            yield Part(fetches, commits, joined_ends(_of_kinds(rows, [END])))


def _of_kinds(rows: pa.Table, kinds: Sequence[str]) -> pa.Table:
    return rows.filter(pc.is_in(rows["kind"], pa.array(kinds)))


def _of_topics(rows: pa.Table, members: Mapping[str, str]) -> list[pa.Table]:
    """Lag, rereads and forgotten commits, each in order."""
    speakers = Speakers.of(_of_kinds(rows.select(["kind", *SPEAKER]), SPOKEN))
    parts: Iterable[Part] = _Parts(rows, speakers, members)
    if rows.num_rows <= ROWS_AT_ONCE:
        parts = [*parts]
    widths = widths_of(parts)
    made = [
        (
            lag_table(part, widths),
            rereads(part.fetches.filter(pc.is_valid(part.fetches["group_id"]))),
            forgotten_commits(part.fetches, part.commits),
        )
        for part in parts
    ]
    in_time = ("group_id", "partition", "at", "connection", "number")
    orders = (("group_id", "partition", "client_id", "client", "at"), in_time, in_time)
    return [
        pa.concat_tables(tables).sort_by([(name, "ascending") for name in ("topic", *order)])
        for tables, order in zip(zip(*made, strict=True), orders, strict=True)
    ]
