"""Lag: what groups have committed and fetched of each partition against where it ends, in spans of time.

A span tells what was known at its end. A group has rows of a partition from the first that was seen of both on, as long
as anything is seen of the partition: lag grows also when nobody reads any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import (
    changes,
    dictionary_codes,
    distinct_columns,
    integers,
    numbers,
)
from kafkascope.reports.measures.progress.positions import (
    COMMIT,
    SHARE,
    SPAN,
    TXN_COMMIT,
    Part,
    earliest,
    partition_of,
    topic_partitions,
    topic_place,
)
from kafkascope.reports.measures.progress.readers import NOBODY
from kafkascope.reports.measures.progress.timelines import Timeline
from kafkascope.reports.vocabulary.tables import LAG, TIME
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

WIDTHS = tuple(seconds * SECOND_NS for seconds in (5, 10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 86400, 7 * 86400))
"""Nanoseconds of spans to choose from; the first is that of the rows."""

MOST_SPANS = 360  # of a topic: more than a picture can show side by side
MOST_ROWS = 200_000  # of a topic, as long as wider spans help


def lag_table(part: Part, widths: I64) -> pa.Table:
    """Rows of LAG; widths are those of spans for the topics of the part, as `widths_of` tells them."""
    numbered, _ = topic_partitions(*part)
    parts = [LAG.empty_table()]
    for width in np.unique(widths).tolist():
        of_width = (pa.array(widths[topic_place(number)] == width) for number in numbered)
        some = Part(*(table.filter(chosen) for table, chosen in zip(part, of_width, strict=True)))
        if some.fetches.num_rows + some.commits.num_rows:
            parts.append(_lag_in_spans(*some, width))
    return pa.concat_tables(parts)


def widths_of(parts: Iterable[Part]) -> I64:
    """For each topic, in the order of names, the least width of spans that gives no more than the most spans and rows.

    All parts are of the same topics.
    """
    counts = [_counts(part) for part in parts]
    own, pairs, ends = (np.sum([getattr(one, name) for one in counts], axis=0) for name in ("own", "pairs", "ends"))
    readers = np.max([one.readers for one in counts], axis=0)
    topic, span = distinct_columns(np.concatenate([one.spans for one in counts], axis=1))[0]
    begins = np.flatnonzero(np.diff(topic, prepend=-1))
    extent = np.maximum.reduceat(span, begins) - np.minimum.reduceat(span, begins)
    found = np.full(len(begins), WIDTHS[-1])
    for place, width in reversed([*enumerate(WIDTHS)]):  # so that the least one remains
        rows = own + ends[place] * readers
        most = np.bincount(distinct_columns(np.stack([topic, span // width]))[0][0], minlength=len(begins)) * pairs
        found[(extent // width < MOST_SPANS) & ((rows <= MOST_ROWS) | (most <= MOST_ROWS))] = width
    return found


class _Counts(NamedTuple):
    """What decides on the widths of spans, by the place of a topic."""

    own: I64  # rows of what groups and clients did
    pairs: I64  # of reader and partition
    readers: I64  # the most that a partition has
    ends: I64  # [width, topic] partitions and spans in which an end was told
    spans: I64  # [2, n] topic and span in which there is anything, each once


def _counts(part: Part) -> _Counts:
    assert WIDTHS[0] == SPAN
    numbered, names = topic_partitions(*part)
    topics = len(names)
    of_readers = np.concatenate(numbered[:2])
    of_pairs = _series(part.fetches, part.commits, of_readers).topic_partition
    partitions, readers_of = np.unique(of_pairs, return_counts=True)
    readers = np.zeros(topics, np.int64)
    np.maximum.at(readers, topic_place(partitions), readers_of)
    span = np.concatenate([integers(rows["span"]) for rows in part])
    told = integers(part.ends["span"])
    ends = [distinct_columns(np.stack([numbered[2], told // width]))[0][0] for width in WIDTHS]
    return _Counts(
        _by_topic(of_readers, topics),
        _by_topic(of_pairs, topics),
        readers,
        np.stack([_by_topic(number, topics) for number in ends]),
        distinct_columns(np.stack([topic_place(np.concatenate(numbered)), span]))[0],
    )


def _by_topic(number: I64, topics: int) -> I64:
    """How many of some numbers of `topic_partitions` are of each topic."""
    return np.bincount(topic_place(number), minlength=topics)


def _lag_in_spans(fetches: pa.Table, commits: pa.Table, ends: pa.Table, width: int) -> pa.Table:
    numbered, topics = topic_partitions(fetches, commits, ends)
    series = _series(fetches, commits, np.concatenate(numbered[:2]))
    of_ends = numbered[2]
    points = _points(series, fetches, commits, ends, of_ends, width)
    pair, span = points
    fetch = Timeline(series.of_fetch, _spans(fetches, width), _ranks(fetches, "first_at", "connection", "first_number"))
    is_share = pc.equal(commits["kind"], SHARE).to_numpy()
    told = np.flatnonzero(~is_share)
    said = commits.take(pa.array(told))
    commit = Timeline(series.of_commit[told], _spans(said, width), _ranks(said, "last_at", "connection", "last_number"))
    end = Timeline(of_ends, _spans(ends, width), np.zeros(ends.num_rows, np.int64))

    last_end, last_commit, last_fetch = (
        end.last(series.topic_partition[pair], span),
        commit.last(pair, span),
        fetch.last(pair, span),
    )
    end_offset = _taken(ends, "end_offset", last_end)
    committed = _taken(said, "last_offset", last_commit)
    fetched = _taken(fetches, "position", last_fetch)
    behind = (committed >= 0) & (end_offset >= 0)
    fetch_behind = (fetched >= 0) & (end_offset >= 0)
    left = np.maximum(end_offset - committed, 0)
    reader = pa.array(last_fetch, mask=last_fetch < 0)
    spoke = Timeline(series.of_commit, _spans(commits, width), _ranks(commits, "last_at", "connection", "last_number"))
    last_spoke = spoke.last(pair, span)
    speaker = pa.array(last_spoke, mask=last_spoke < 0)
    is_commit = np.flatnonzero(pc.is_in(said["kind"], pa.array([COMMIT, TXN_COMMIT])).to_numpy())
    stuck, refetched = _fetch_stuck(fetch, fetches, last_fetch, span)
    shared = np.flatnonzero(is_share)
    fetches_in = fetch.sums(pair, span, integers(fetches["count"])) + Timeline(
        series.of_commit[shared], _spans(commits, width)[shared], np.zeros(len(shared), np.int64)
    ).sums(pair, span, integers(commits["count"])[shared])
    named = series.groups.take(pa.array(series.group[pair], mask=series.group[pair] < 0))
    number = series.topic_partition[pair]
    return pa.table(
        {
            "group_id": named,
            "topic": topics.take(pa.array(topic_place(number))),
            "partition": numbers(partition_of(number), pa.int32()),
            "at": pc.cast(pa.array(span * np.int64(width)), TIME),
            "width_ms": np.full(len(pair), width // MILLISECOND_NS),
            "committed_offset": numbers(committed, pa.int64(), committed >= 0),
            "end_offset": numbers(end_offset, pa.int64(), end_offset >= 0),
            "fetch_offset": numbers(fetched, pa.int64(), fetched >= 0),
            "lag": numbers(left, pa.int64(), behind),
            "fetch_lag": numbers(np.maximum(end_offset - fetched, 0), pa.int64(), fetch_behind),
            "client_id": pc.coalesce(fetches["client_id"].take(reader), commits["client_id"].take(speaker)),
            "client": pc.coalesce(fetches["client"].take(reader), commits["client"].take(speaker)),
            "commits": commit.chosen(is_commit).sums(pair, span, integers(said["count"])[is_commit]),
            "fetches": fetches_in,
            "commit_stuck_ms": numbers(_stuck(pair, span, committed, behind & (left > 0), width), pa.int64(), behind),
            "fetch_stuck_ms": numbers(stuck, pa.int64(), refetched),
        },
        schema=LAG,
    )


@dataclass(frozen=True, slots=True)
class _Series:
    """Pairs of reader and partition, each a row of the first two; and the pair of each row of what was given."""

    group: I64  # place in groups, or NOBODY
    topic_partition: I64
    of_fetch: I64
    of_commit: I64
    groups: pa.Array


def _series(fetches: pa.Table, commits: pa.Table, topic_partition: I64) -> _Series:
    both = {
        name: pa.chunked_array([*fetches[name].chunks, *commits[name].chunks], pa.string())
        for name in ("group_id", "client_id", "client")
    }
    group, groups = dictionary_codes(both["group_id"])
    # Who reads for no group is told apart by client.
    clients = np.stack([dictionary_codes(both[name])[0] for name in ("client_id", "client")])
    clients = np.where(group == NOBODY, clients, NOBODY)
    pairs, place = distinct_columns(np.stack([group, *clients, topic_partition]))
    return _Series(pairs[0], pairs[3], place[: fetches.num_rows], place[fetches.num_rows :], groups)


def _points(
    series: _Series, fetches: pa.Table, commits: pa.Table, ends: pa.Table, partition_of_end: I64, width: int
) -> I64:
    """Pair and span of each row of lag, ascending: i64[2, n]."""
    own = np.stack(
        [
            np.concatenate([series.of_fetch, series.of_commit]),
            np.concatenate([_spans(fetches, width), _spans(commits, width)]),
        ]
    )
    first = np.full(len(series.topic_partition), np.iinfo(np.int64).max)
    np.minimum.at(first, own[0], own[1])
    of_ends, _ = distinct_columns(np.stack([partition_of_end, _spans(ends, width)]))
    pairs = np.flatnonzero(series.group != NOBODY)
    begin = np.searchsorted(of_ends[0], series.topic_partition[pairs])
    count = np.searchsorted(of_ends[0], series.topic_partition[pairs], side="right") - begin
    pair = np.repeat(pairs, count)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(begin, count)
    span = of_ends[1][place]
    later = span >= first[pair]
    return distinct_columns(np.concatenate([own, np.stack([pair[later], span[later]])], axis=1))[0]


def _stuck(pair: I64, span: I64, committed: I64, behind: Bool, width: int) -> I64:
    """Milliseconds since each pair's committed offset has been what it is, with more behind it."""
    index = np.arange(len(pair))
    runs = changes(np.stack([pair, committed, behind.astype(np.int64)]))
    since = np.maximum.accumulate(np.where(runs, index, 0))
    return np.where(behind, (span - span[since]) * np.int64(width // MILLISECOND_NS), 0)


def _fetch_stuck(timeline: Timeline, fetches: pa.Table, last: I64, span: I64) -> tuple[I64, Bool]:
    """Milliseconds for which one offset was asked for, with more behind it; and in which spans there was a fetch.

    Who reads from the start again on a new connection is not stuck, but has begun anew.
    """
    if not fetches.num_rows:
        return np.zeros(len(last), np.int64), np.zeros(len(last), np.bool_)
    order = np.lexsort((timeline.rank, timeline.key))
    first, final, at = (integers(fetches[name])[order] for name in ("first_offset", "last_offset", "last_at"))
    connection = integers(fetches["connection"])[order]
    runs = changes(np.stack([timeline.key[order], connection, final])) | (first != final)
    since = earliest(integers(fetches["same_since"])[order], np.flatnonzero(runs))[np.cumsum(runs) - 1]
    elapsed = np.empty(len(order), np.int64)
    elapsed[order] = np.where(since >= 0, np.maximum(at - since, 0) // MILLISECOND_NS, 0)
    there = (last >= 0) & (timeline.span[last] == span)
    return np.where(there, elapsed[last], 0), there


def _spans(rows: pa.Table, width: int) -> I64:
    return integers(rows["span"]) // np.int64(width)


def _ranks(rows: pa.Table, *names: str) -> I64:
    """The place of each row in the order of these columns."""
    order = np.lexsort([integers(rows[name]) for name in reversed(names)])
    rank = np.empty(rows.num_rows, np.int64)
    rank[order] = np.arange(rows.num_rows)
    return rank


def _taken(rows: pa.Table, name: str, places: I64) -> I64:
    """The column's values at places; -1 where a place is -1."""
    return np.append(integers(rows[name]), np.int64(-1))[places]
