"""Rows of the view of progress: what a batch of tables tells of positions in partitions, by span of time.

A reader's fetches of a partition within a span are one row for as long as it reads on. A fetch of what had come before
begins a new row, so that nothing that is read again is lost by summing. Cut into batches anywhere, rows join to the
same (`joined_fetches`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import (
    changes,
    dictionary_codes,
    equal_columns,
    integers,
    numbers,
    one_of_each,
    ranked,
)
from kafkascope.reports.columns.parties import Ends, ExchangePlaces, clients_and_brokers
from kafkascope.reports.vocabulary.broker_client_ids import FOLLOWERS
from kafkascope.reports.vocabulary.tables import POSITIONS
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.units import SECOND_NS

SPAN = 5 * SECOND_NS
"""Nanoseconds of a span."""

END, FETCH, SHARE = "end", "fetch", "share"
COMMIT, TXN_COMMIT = "commit", "txn_commit"  # what members sent; the latter counts if its transaction is committed
COMMITTED, NOTHING_COMMITTED = "committed", "nothing_committed"  # what the coordinator told them
SPOKEN = (COMMIT, TXN_COMMIT, COMMITTED, NOTHING_COMMITTED, SHARE)
"""What groups commit, are told, and fetch otherwise."""
_ABSENT = np.int64(-1)  # of offsets, none of which is negative

_QUORUM_TOPIC = "__cluster_metadata"  # replicas read it as clients do, under names of another kind

_OF_BATCHES = ["connection", "number", "topic", "partition", "at", "last_offset"]
_OF_PARTITIONS = ["connection", "number", "api", "topic", "partition", "at", "fetch_offset", "high_watermark"]


class Part(NamedTuple):
    """Joined rows of some partitions: of several topics, or of a part of the partitions of one."""

    fetches: pa.Table  # group_id is that of the reader, or null
    commits: pa.Table  # of all kinds by which groups speak (`SPOKEN`)
    ends: pa.Table


def positions(tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> Iterator[pa.Table]:
    """Rows of POSITIONS that the tables partitions, batches, told_offsets and exchanges of a batch give."""
    clients = _Clients(tables.get("exchanges"), ends)
    partitions, batches, told = (tables.get(name) for name in ("partitions", "batches", "told_offsets"))
    if partitions is not None and partitions.num_rows:
        yield from _of_partitions(partitions, batches, clients)
    if batches is not None and batches.num_rows:
        produced = _with_offsets(batches, "produce")
        yield _ends(produced, integers(pc.add(produced["last_offset"], 1)), clients)
    if told is not None and told.num_rows:
        yield from _of_told_offsets(told, clients)


def joined_fetches(rows: pa.Table) -> pa.Table:
    """Rows of fetches, those of a reader, a partition and a span put together for as long as it read on."""
    if not rows.num_rows:
        return rows
    connection, partition, span = (integers(rows[name]) for name in ("connection", "partition", "span"))
    key = np.stack([connection, ranked(rows["client_id"]), ranked(rows["topic"]), partition, span])
    order = np.lexsort((integers(rows["first_number"]), *key[::-1]))
    rows, key = rows.take(pa.array(order)), key[:, order]
    first, last, position = (integers(rows[name]) for name in ("first_offset", "last_offset", "position"))
    begins = changes(key)
    begins[1:] |= first[1:] < position[:-1]
    start = np.flatnonzero(begins)
    end = np.append(start[1:], len(begins)) - 1
    run = begins.copy()
    run[1:] |= last[1:] != last[:-1]
    runs = np.flatnonzero(run)
    since = earliest(integers(rows["same_since"]), runs)[np.searchsorted(runs, end, side="right") - 1]
    return _replaced(
        rows.take(pa.array(start)),
        last_at=integers(rows["last_at"])[end],
        last_number=integers(rows["last_number"])[end],
        count=np.add.reduceat(integers(rows["count"]), start),
        last_offset=last[end],
        same_since=since,
        position=position[end],
        end_offset=np.maximum.reduceat(integers(rows["end_offset"]), start),
    )


def joined_ends(rows: pa.Table) -> pa.Table:
    """Rows of ends, one for each partition and span: the highest that anybody was told in it."""
    if not rows.num_rows:
        return rows
    partition, span = integers(rows["partition"]), integers(rows["span"])
    topic = ranked(rows["topic"])
    order = np.lexsort((span, partition, topic))
    rows = rows.take(pa.array(order))
    start = np.flatnonzero(changes(np.stack([topic, partition, span])[:, order]))
    return _replaced(
        rows.take(pa.array(start)),
        first_at=np.minimum.reduceat(integers(rows["first_at"]), start),
        last_at=np.maximum.reduceat(integers(rows["last_at"]), start),
        count=np.add.reduceat(integers(rows["count"]), start),
        end_offset=np.maximum.reduceat(integers(rows["end_offset"]), start),
    )


def joined_commits(rows: pa.Table) -> pa.Table:
    """Rows of what groups committed and fetched otherwise: the last of each connection, partition and span."""
    if not rows.num_rows:
        return rows
    kind, topic, group, client_id = (ranked(rows[name]) for name in ("kind", "topic", "group_id", "client_id"))
    connection, partition, span = (integers(rows[name]) for name in ("connection", "partition", "span"))
    keys = np.stack([kind, topic, group, client_id, connection, partition, span])
    order = np.lexsort((integers(rows["last_number"]), integers(rows["last_at"]), *keys))
    rows = rows.take(pa.array(order))
    start = np.flatnonzero(changes(keys[:, order]))
    end = np.append(start[1:], len(order)) - 1
    return _replaced(
        rows.take(pa.array(end)),
        first_at=np.minimum.reduceat(integers(rows["first_at"]), start),
        first_number=np.minimum.reduceat(integers(rows["first_number"]), start),
        count=np.add.reduceat(integers(rows["count"]), start),
        position=np.maximum.reduceat(integers(rows["position"]), start),
    )


def topic_partitions(*tables: pa.Table) -> tuple[list[I64], pa.Array]:
    """A number for the topic and partition of each row of the tables, and the topics by place.

    The numbers are ordered as topics and partitions are; `topic_place` and `partition_of` take them apart.
    """
    topics = pa.chunked_array([chunk for table in tables for chunk in table["topic"].chunks], pa.string())
    codes, distinct = dictionary_codes(topics)
    ascending = pc.sort_indices(distinct)
    rank = np.empty(len(distinct), np.int64)
    rank[ascending.to_numpy()] = np.arange(len(distinct))
    partition = np.concatenate([integers(table["partition"]) for table in tables])
    number = (rank[codes] << 32) + partition + (1 << 31)
    return np.split(number, np.cumsum([table.num_rows for table in tables])[:-1]), distinct.take(ascending)


def topic_place(number: I64) -> I64:
    """The place of the topic of numbers that `topic_partitions` made."""
    return number >> np.int64(32)


def partition_of(number: I64) -> I64:
    """The partition of numbers that `topic_partitions` made."""
    return (number & np.int64(0xFFFFFFFF)) - np.int64(1 << 31)


class _Clients:
    """Who sent the exchanges of a batch, and from where."""

    def __init__(self, exchanges: pa.Table | None, ends: Mapping[int, Ends]) -> None:
        self._exchanges = exchanges
        self._places = None if exchanges is None else ExchangePlaces(exchanges)
        self._ends = ends

    def of(self, rows: pa.Table) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
        """Client id, client and broker, and the group that each row's exchange names."""
        if self._exchanges is None or self._places is None:
            nothing = pa.nulls(rows.num_rows, pa.string())
            return (nothing, *self.addresses(rows), nothing)
        place = self._places.of(rows)
        found = pa.array(place, mask=place < 0)
        return (
            self._exchanges["client_id"].take(found),
            *self.addresses(rows),
            self._exchanges["group_id"].take(found),
        )

    def addresses(self, rows: pa.Table) -> tuple[pa.Array, pa.Array]:
        """The address of the client of each row's connection, and that of the broker with its port."""
        return clients_and_brokers(integers(rows["connection"]), self._ends)


def _of_partitions(partitions: pa.Table, batches: pa.Table | None, clients: _Clients) -> Iterator[pa.Table]:
    fine = pc.and_(pc.equal(partitions["error"], Error.NONE), pc.is_valid(partitions["at"]))
    partitions = partitions.select(_OF_PARTITIONS).filter(fine)
    if not partitions.num_rows:
        return
    brought = _brought(partitions, batches)
    high = integers(partitions["high_watermark"])
    yield _ends(partitions.filter(pa.array(high >= 0)), high[high >= 0], clients)
    client_id, client, broker, group = clients.of(partitions)
    named = partitions
    for name, column in (("client_id", client_id), ("client", client), ("broker", broker), ("group_id", group)):
        named = named.append_column(name, column)
    asked = integers(partitions["fetch_offset"])
    code, names = dictionary_codes(client_id)
    replica = np.append(pc.match_substring_regex(names, FOLLOWERS).to_numpy(zero_copy_only=False), False)
    reader = pa.array(~replica.astype(np.bool_)[code] & (asked >= 0))
    reader = pc.and_(reader, pc.not_equal(pc.fill_null(partitions["topic"], _QUORUM_TOPIC), _QUORUM_TOPIC))
    some = _places(pc.and_(reader, pc.equal(partitions["api"], "Fetch")))
    fetches, offset = named.take(pa.array(some)), asked[some]
    yield joined_fetches(
        _fetched(
            FETCH,
            fetches,
            first_offset=offset,
            last_offset=offset,
            same_since=np.where(high[some] > offset, integers(fetches["at"]), _ABSENT),
            position=np.maximum(offset, brought[some]),
            end_offset=high[some],
        )
    )
    some = _places(pc.and_(pc.equal(partitions["api"], "ShareFetch"), pc.is_valid(group)))
    if len(some):
        shared = named.take(pa.array(some))
        yield joined_commits(_fetched(SHARE, shared, group_id=shared["group_id"], position=brought[some]))


def _fetched(kind: str, rows: pa.Table, **columns: I64 | pa.Array | pa.ChunkedArray) -> pa.Table:
    """Rows of a fetch each, by who asked."""
    number = rows["number"]
    who = {name: rows[name] for name in ("connection", "client_id", "client", "broker")}
    return _rows(kind, rows, first_number=number, last_number=number, **who, **columns)


def _places(there: pa.ChunkedArray) -> I64:
    return np.flatnonzero(there.to_numpy())


def _brought(partitions: pa.Table, batches: pa.Table | None) -> I64:
    """The offset behind the last batch that each row of partitions brought, -1 where none came."""
    result = np.full(partitions.num_rows, _ABSENT)
    if batches is None:
        return result
    batches = _with_offsets(batches, "fetch")
    if not batches.num_rows:
        return result
    topics = pa.chunked_array([*partitions["topic"].chunks, *batches["topic"].chunks], pa.string())
    both = [
        np.concatenate([integers(partitions[name]), integers(batches[name])])
        for name in ("connection", "number", "partition")
    ]
    code = equal_columns(np.stack([*both, dictionary_codes(topics)[0]]))
    furthest = np.full(int(code.max()) + 1, _ABSENT)
    last = integers(batches["last_offset"])
    np.maximum.at(furthest, code[len(result) :], np.where(last < np.iinfo(np.int64).max, last + 1, last))
    return furthest[code[: len(result)]]


def _ends(source: pa.Table, end_offset: I64, clients: _Clients) -> pa.Table:
    """What each row of source says of the end of its partition, by broker; else as `joined_ends` has it."""
    named = pc.and_(pc.is_valid(source["topic"]), pc.is_valid(source["partition"]))
    source = source.select(["connection", "topic", "partition", "at"]).filter(named)
    end_offset = end_offset[named.to_numpy()]
    broker = pa.chunked_array([clients.addresses(source)[1]])
    at = integers(source["at"])
    codes = [dictionary_codes(column)[0] for column in (broker, source["topic"])]
    keys = np.stack([*codes, integers(source["partition"]), at - at % np.int64(SPAN)])
    group = equal_columns(keys)
    one = one_of_each(group)
    first, last, count, highest = at[one], at[one], np.bincount(group, minlength=len(one)), end_offset[one]
    np.minimum.at(first, group, at)
    np.maximum.at(last, group, at)
    np.maximum.at(highest, group, end_offset)
    which = pa.array(one)
    of_broker = {"broker": broker.take(which)}
    return _rows(END, source.take(which), first_at=first, last_at=last, count=count, end_offset=highest, **of_broker)


def _with_offsets(batches: pa.Table, direction: str) -> pa.Table:
    """Batches that went one way, of which it is known where they end."""
    there = pc.and_(pc.equal(batches["direction"], direction), pc.is_valid(batches["last_offset"]))
    return batches.select(_OF_BATCHES).filter(there)


def _of_told_offsets(told: pa.Table, clients: _Clients) -> Iterator[pa.Table]:
    fine = pc.and_(pc.fill_null(pc.equal(told["error"], Error.NONE), True), pc.is_valid(told["at"]))
    told = told.filter(fine)
    is_end = pc.equal(told["api"], "ListOffsets")
    ends = told.filter(pc.and_(is_end, pc.is_valid(told["offset"])))
    yield _ends(ends, integers(ends["offset"]), clients)
    of_group = told.filter(pc.and_(pc.invert(is_end), pc.is_valid(told["group_id"])))
    asked = pc.equal(of_group["api"], "OffsetFetch")
    of_group = of_group.filter(pc.invert(pc.and_(asked, pc.is_null(of_group["error"]))))
    asked = pc.equal(of_group["api"], "OffsetFetch")
    client, broker = clients.addresses(of_group)
    told = pc.if_else(pc.is_valid(of_group["offset"]), COMMITTED, NOTHING_COMMITTED)
    sent = pc.if_else(pc.equal(of_group["api"], "TxnOffsetCommit"), TXN_COMMIT, COMMIT)
    rows = _rows(
        pc.if_else(asked, told, sent),
        of_group,
        connection=of_group["connection"],
        client=client,
        broker=broker,
        client_id=of_group["client_id"],
        group_id=of_group["group_id"],
        first_number=of_group["number"],
        last_number=of_group["number"],
        last_offset=of_group["offset"],
    )
    yield joined_commits(rows)


def _rows(kind: str | pa.Array, source: pa.Table, **given: I64 | pa.Array | pa.ChunkedArray) -> pa.Table:
    """Rows of POSITIONS, one for each of source, of which topic, partition and at are taken; -1 is null."""
    at = integers(source["at"])
    count = source.num_rows
    columns: dict[str, I64 | pa.Array | pa.ChunkedArray] = {
        "topic": source["topic"],
        "kind": pa.repeat(pa.scalar(kind), count) if isinstance(kind, str) else kind,
        "partition": source["partition"],
        "span": at - at % np.int64(SPAN),
        "first_at": at,
        "last_at": at,
        "count": np.ones(count, np.int64),
        **given,
    }
    table = pa.table([_column(columns.get(field.name), field, count) for field in POSITIONS], schema=POSITIONS)
    named = pc.and_(pc.is_valid(table["topic"]), pc.is_valid(table["partition"]))
    return table.filter(named) if table["topic"].null_count + table["partition"].null_count else table


def _column(values: I64 | pa.Array | pa.ChunkedArray | None, field: pa.Field, count: int) -> pa.Array | pa.ChunkedArray:
    if values is None:
        return pa.nulls(count, field.type)
    if isinstance(values, np.ndarray):
        return numbers(values, field.type, values >= 0)
    return pc.cast(values, field.type)


def _replaced(rows: pa.Table, **columns: I64) -> pa.Table:
    arrays = [_column(columns[f.name], f, rows.num_rows) if f.name in columns else rows[f.name] for f in POSITIONS]
    return pa.table(arrays, schema=POSITIONS)


def earliest(times: I64, starts: I64) -> I64:
    """The earliest time of each run of rows, of which the starts are given; -1: none, in what is given too."""
    never = np.iinfo(np.int64).max
    least = np.minimum.reduceat(np.where(times < 0, never, times), starts)
    return np.where(least == never, _ABSENT, least)
