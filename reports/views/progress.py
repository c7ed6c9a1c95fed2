"""The view of progress: positions in the partitions of a topic, whoever told them, and what they say of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import dictionary_codes
from kafkascope.reports.columns.clusters import Clusters
from kafkascope.reports.columns.parties import Ends
from kafkascope.reports.columns.series import replaced
from kafkascope.reports.columns.views import Known, keys_together
from kafkascope.reports.findings.finding import finding_table
from kafkascope.reports.findings.lag_rules import lag_findings
from kafkascope.reports.measures.progress.forgotten import forgotten_commits
from kafkascope.reports.measures.progress.lag import lag_table
from kafkascope.reports.measures.progress.positions import (
    END,
    FETCH,
    SPOKEN,
    joined_commits,
    joined_ends,
    joined_fetches,
    positions,
    topic_partitions,
)
from kafkascope.reports.measures.progress.readers import groups_of, groups_of_members
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
            for of_topics, _ in keys_together(_joined(of_cluster), self.key):
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


def _joined(rows: pa.Table) -> pa.Table:
    """The rows, those of a kind joined and together: some partitions at a time, as not to copy and sort all at once."""
    [partition], _ = topic_partitions(rows)
    keyed = rows.append_column("topic_partition", pa.array(partition))
    joined: list[tuple[pa.Table, ...]] = []
    for some, _ in keys_together(keyed, "topic_partition"):
        fetches, ends, commits = _by_kind(some.select(POSITIONS.names))
        joined.append((joined_fetches(fetches), joined_ends(ends), joined_commits(commits)))
    return pa.concat_tables([POSITIONS.empty_table(), *chain.from_iterable(zip(*joined, strict=True))])


def _by_kind(rows: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Fetches, ends, and what groups committed or fetched otherwise."""
    return _of_kinds(rows, [FETCH]), _of_kinds(rows, [END]), _of_kinds(rows, SPOKEN)


def _of_kinds(rows: pa.Table, kinds: Sequence[str]) -> pa.Table:
    places = np.flatnonzero(pc.is_in(rows["kind"], pa.array(kinds)).to_numpy())
    if len(places) and places[-1] - places[0] + 1 == len(places):  # as of one large topic: they need not be copied
        return rows.slice(places[0], len(places))
    return rows.take(pa.array(places))


def _of_topics(rows: pa.Table, members: Mapping[str, str]) -> tuple[pa.Table, pa.Table, pa.Table]:
    fetches, ends, commits = _by_kind(rows)
    code, names = dictionary_codes(commits["group_id"])
    group = groups_of(fetches, commits, code)
    named = names.take(pa.array(group, mask=group < 0)) if len(names) else pa.nulls(len(group), pa.string())
    fetches = replaced(fetches, "group_id", pc.coalesce(named, groups_of_members(fetches, members)))
    lag = lag_table(fetches, commits, ends)
    again = rereads(fetches.filter(pc.is_valid(fetches["group_id"])))
    gone = forgotten_commits(fetches, commits)
    in_time = ("group_id", "partition", "at", "connection", "number")
    orders = (("group_id", "partition", "client_id", "client", "at"), in_time, in_time)
    lag, again, gone = (
        table.sort_by([(name, "ascending") for name in ("topic", *order)])
        for table, order in zip((lag, again, gone), orders, strict=True)
    )
    return lag, again, gone
