"""What was produced and fetched, by topic, client and time: bytes, records, batches and how well they are filled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import apis
from kafkascope.reports.columns.arrow import dictionary_codes, distinct_columns, labels, one_array
from kafkascope.reports.columns.parties import Ends, ExchangePlaces, clients_and_brokers, topics_of_exchanges
from kafkascope.reports.columns.series import (
    in_groups,
    names_of,
    replaced,
    shards,
    spans,
    width_of,
    without_the_smallest,
)
from kafkascope.reports.vocabulary.tables import BATCHES, CODEC, PARTITIONS, THROUGHPUT, THROUGHPUT_COUNTS, TIME
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_SERIES = ["topic", "client_id", "client", "direction"]
_COLUMNS = ["connection", "number", "topic", "codec", "records", "bytes", "bytes_uncompressed"]  # used of batches
_OF_BATCHES = ["batches", "single_record_batches", "records", "bytes", "bytes_uncompressed"]
_MEASURES = ["requests", "empty", *_OF_BATCHES]
_SUMS = [(name, "sum") for name in _MEASURES]
_PRODUCE, _FETCH = 0, 1
_DIRECTIONS = ("produce", "fetch")
_DIRECTION = {apis.PRODUCE: _PRODUCE, apis.FETCH: _FETCH, apis.SHARE_FETCH: _FETCH}


def throughput(table: pa.Table, by: str | Sequence[str] = ("topic", "direction")) -> pa.Table:
    """Sums of the table ``throughput``, grouped anew, and what follows from them; the most bytes first.

    by: any of topic, client_id, client, direction, codec and from (time; if spans of different width are in the table,
    the widest). Columns: those of by, then requests, empty, batches, single_record_batches, records, bytes,
    bytes_uncompressed, records_per_batch, bytes_per_batch, compression_ratio (uncompressed to compressed), empty_share
    (of requests), and with from bytes_per_second. With codec there are no requests.
    """
    names = names_of(by, [*_SERIES, "codec", "from"])
    # A row with a topic is one of several views of the same requests.
    table = table.filter(pc.is_valid(table["topic"]) if "topic" in names else pc.is_null(table["topic"]))
    width = 0
    if "from" in names and table.num_rows:
        width = int(pc.max(table["width_ms"]).as_py()) * MILLISECOND_NS
        at = spans(table["from"].cast(pa.int64()).to_numpy(), width)
        table = replaced(table, "from", pa.array(at).cast(TIME))
    measures = _OF_BATCHES if "codec" in names else _MEASURES
    rows = _by_codec(table) if "codec" in names else table
    if names:
        sums = rows.group_by(names, use_threads=False).aggregate([(name, "sum") for name in measures])
    else:
        sums = pa.table({f"{name}_sum": [pc.sum(rows[name]).as_py() or 0] for name in measures})
    sums = sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names]).select([*names, *measures])
    order = [("bytes", "descending"), *((name, "ascending") for name in names)]
    sums = sums.take(pc.sort_indices(sums, order))
    ratios = {
        "records_per_batch": _ratio(sums, "records", "batches"),
        "bytes_per_batch": _ratio(sums, "bytes", "batches"),
        "compression_ratio": _ratio(sums, "bytes_uncompressed", "bytes"),
    }
    if "codec" not in names:
        ratios["empty_share"] = _ratio(sums, "empty", "requests")
    if "from" in names:
        ratios["bytes_per_second"] = pc.multiply(sums["bytes"], SECOND_NS / max(width, 1))
    for name, ratio in ratios.items():
        sums = sums.append_column(name, ratio)
    return sums


class Moved:
    """The requests of a batch that produce or fetch, and what they carried."""

    def __init__(self, exchanges: pa.Table, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> None:
        api_key = pc.fill_null(exchanges["api_key"], -1).to_numpy().astype(np.int64)
        self._moves = np.isin(api_key, list(_DIRECTION))
        self._fetches = api_key != apis.PRODUCE
        at = spans(pc.coalesce(exchanges["requested"], exchanges["answered"]).cast(pa.int64()).to_numpy())
        columns = {
            "client_id": exchanges["client_id"],
            "client": clients_and_brokers(exchanges["connection"].to_numpy(), ends)[0],
            "direction": labels(self._fetches.astype(np.int64), _DIRECTIONS),
            "from": pa.array(at),
        }
        self._senders, self._sender = in_groups(pa.table(columns), list(columns))
        # What a quota emptied, or an error, tells nothing of what was there to fetch.
        self._in_order = (
            pc.and_(
                pc.and_(pc.equal(exchanges["outcome"], "answered"), pc.equal(exchanges["decoded"], "full")),
                pc.and_(
                    pc.equal(pc.fill_null(exchanges["error_code"], 0), 0),
                    pc.equal(pc.fill_null(exchanges["throttle_ms"], 0), 0),
                ),
            )
            .to_numpy()
            .astype(np.bool_)
        )
        self._partitions, batches = tables.get("partitions", PARTITIONS.empty_table()), tables.get("batches")
        batches = BATCHES.empty_table() if batches is None else batches
        self._batches = batches.select(_COLUMNS).filter(pc.invert(pc.fill_null(batches["control"], False)))
        places = ExchangePlaces(exchanges)
        self._of_partitions, self._of_batches = (self._moving(places.of(x)) for x in (self._partitions, self._batches))

    def rows(self) -> Iterator[pa.Table]:
        """Rows of ``THROUGHPUT_COUNTS``, of each key one: with and without topics."""
        brought = np.zeros(len(self._sender), np.int64)
        exchange, size = self._of_partitions, pc.fill_null(self._partitions["bytes"], 0).to_numpy()
        np.add.at(brought, exchange[exchange >= 0], size[exchange >= 0])
        moves = np.flatnonzero(self._moves)
        yield self._requests(moves, pa.nulls(len(moves), pa.string()), brought[moves] == 0)
        yield self._requests_by_topic()
        yield from self._carried()

    def _requests_by_topic(self) -> pa.Table:
        """Each request once for each topic that it carried or was answered of."""
        tables = (self._partitions, self._batches)
        exchange = np.concatenate([self._of_partitions, self._of_batches])
        size = np.concatenate([pc.fill_null(table["bytes"], 0).to_numpy() for table in tables])
        topics = pa.chunked_array([chunk for table in tables for chunk in table["topic"].chunks], pa.string())
        of, topic, place = topics_of_exchanges(exchange, topics)
        brought = np.zeros(len(of), np.int64)
        np.add.at(brought, place[place >= 0], size[place >= 0])
        return self._requests(of, topic, brought == 0)

    def _requests(self, exchange: I64, topic: pa.Array, nothing: Bool) -> pa.Table:
        empty = self._fetches[exchange] & nothing & self._in_order[exchange]
        ones = np.ones(len(exchange), np.int64)
        none = pa.nulls(len(exchange), pa.string())
        return self._summed(exchange, topic, none, {"requests": ones, "empty": empty.astype(np.int64)})

    def _carried(self) -> Iterator[pa.Table]:
        """What batches brought, of all topics and by topic."""
        there = self._of_batches >= 0
        batches, exchange = self._batches.filter(pa.array(there)), self._of_batches[there]
        records = pc.fill_null(batches["records"], 0).to_numpy()
        measures = {
            "batches": np.ones(len(exchange), np.int64),
            "single_record_batches": (records == 1).astype(np.int64),
            "records": records,
            "bytes": pc.fill_null(batches["bytes"], 0).to_numpy(),
            "bytes_uncompressed": pc.coalesce(batches["bytes_uncompressed"], batches["bytes"]).to_numpy(),
        }
        codec = pc.fill_null(batches["codec"], "unknown")
        yield self._summed(exchange, pa.nulls(len(exchange), pa.string()), codec, measures)
        rows = self._summed(exchange, batches["topic"], codec, measures)
        yield rows.filter(pc.is_valid(rows["topic"]))

    def _summed(
        self,
        exchange: I64,
        topic: pa.Array | pa.ChunkedArray,
        codec: pa.Array | pa.ChunkedArray,
        measures: Mapping[str, I64],
    ) -> pa.Table:
        """Measures added up by who sent the exchange each is of, and by topic and codec."""
        (topic, topics), (codec, codecs) = dictionary_codes(topic), dictionary_codes(codec)
        (sender, topic, codec), place = distinct_columns(np.stack([self._sender[exchange], topic, codec]))
        senders = self._senders.take(pa.array(sender))
        columns = {name: senders[name] for name in senders.column_names} | {
            "shard": shards(senders["client_id"]),
            "topic": topics.take(pa.array(topic, mask=topic < 0)),
            "from": senders["from"].cast(TIME),
            "codec": codecs.take(pa.array(codec, mask=codec < 0)),
        }
        for name in _MEASURES:
            sums = np.zeros(len(sender), np.int64)
            if name in measures:
                np.add.at(sums, place, measures[name])
            columns[name] = pa.array(sums)
        return pa.table([columns[name] for name in THROUGHPUT_COUNTS.names], schema=THROUGHPUT_COUNTS)

    def _moving(self, exchange: I64) -> I64:
        """Exchanges that produce or fetch, and -1 for others."""
        return np.where(self._moves[exchange], exchange, np.int64(-1))


def summed(rows: pa.Table) -> pa.Table:
    """Rows of ``THROUGHPUT_COUNTS`` with equal keys added up."""
    names = ["shard", *_SERIES, "from", "codec"]
    sums = rows.group_by(names, use_threads=False).aggregate(_SUMS)
    return sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names]).select(rows.column_names)


def throughput_table(rows: pa.Table) -> pa.Table:
    """The table ``throughput`` of all rows of a shard."""
    weight = pc.add(rows["requests"], rows["batches"]).to_numpy()
    rows = without_the_smallest(rows, _SERIES, ("topic", "client_id", "client"), weight)
    at = rows["from"].cast(pa.int64()).to_numpy()
    width = width_of(at)
    rows = replaced(rows, "from", pa.array(spans(at, width)).cast(TIME))
    names = [*_SERIES, "from"]
    rows = summed(rows).sort_by([(name, "ascending") for name in (*names, "codec")])
    groups, group = in_groups(rows, names)
    count = groups.num_rows
    arrays: dict[str, pa.Array] = {name: groups[name] for name in names}
    for name in _MEASURES:
        sums = np.zeros(count, np.int64)
        np.add.at(sums, group, rows[name].to_numpy())
        arrays[name] = pa.array(sums)
    arrays["width_ms"] = pa.array(np.full(count, width // MILLISECOND_NS, np.int64))
    coded = rows["codec"].is_valid().to_numpy()
    offsets = np.concatenate(([0], np.cumsum(np.bincount(group[coded], minlength=count))))
    codecs = rows.filter(pa.array(coded)).select([field.name for field in CODEC]).to_struct_array()
    values = codecs.combine_chunks() if codecs.num_chunks else pa.array([], CODEC)
    arrays["codecs"] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    return pa.table([arrays[name] for name in THROUGHPUT.names], schema=THROUGHPUT)


def _by_codec(table: pa.Table) -> pa.Table:
    """A row for each codec of each row."""
    lists = one_array(table["codecs"])
    row = np.repeat(np.arange(table.num_rows), pc.fill_null(pc.list_value_length(lists), 0).to_numpy())
    columns = {name: table[name].take(pa.array(row)) for name in (*_SERIES, "from")}
    values = lists.flatten()
    return pa.table(columns | {field.name: values.field(field.name) for field in CODEC})


def _ratio(table: pa.Table, above: str, below: str) -> pa.ChunkedArray:
    """One column by another; null where that is 0."""
    divisor = pc.if_else(pc.greater(table[below], 0), table[below].cast(pa.float64()), None)
    return pc.divide(table[above].cast(pa.float64()), divisor)
