"""What each client did, counted in spans of ten seconds: the ground of findings about clients.

Rows are sums over (client, kind, ...), so merging is adding. All measures are whole numbers: sums must not depend on
the order in which rows came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.answered import Answered
from kafkascope.reports.columns.arrow import dictionary_codes, equal_columns, integers, one_array, one_of_each
from kafkascope.reports.columns.parties import Ends, ExchangePlaces, clients_and_brokers
from kafkascope.reports.columns.series import in_groups
from kafkascope.reports.columns.text import address
from kafkascope.reports.columns.topics import ID_PREFIX
from kafkascope.reports.columns.views import Known
from kafkascope.reports.measures.throttling import held_back
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

CAPTURE = "capture"
"""Stands for the client where a fact is about the capture itself."""


NO_NAME = "-"
"""Stands for a client id that is null or not known."""


@dataclass(slots=True)
class Fact:
    """One row of `facts.FACTS`."""

    client: str
    kind: str
    api: str | None
    what: str | None
    number: int | None
    broker: str | None
    span: int
    count: int
    total: int | None
    least: int | None
    most: int | None
    first_at: int
    last_at: int
    first_packet: int | None


SPAN = 10 * SECOND_NS
"""Nanoseconds of a span."""


_KEYS = ("client", "kind", "api", "what", "number", "broker", "span")


_MEASURES = {"count": "sum", "total": "sum", "least": "min", "most": "max", "first_at": "min", "last_at": "max"}


FACTS = pa.schema(
    [
        ("client", pa.string()),  # client id and address
        ("kind", pa.string()),  # what was counted, by the functions below: request, error, batch ...
        ("api", pa.string()),  # of batches: produce, fetch; of sequences: producer id and epoch
        ("what", pa.string()),
        ("number", pa.int64()),
        ("broker", pa.string()),
        ("span", pa.int64()),  # begin of the span, nanoseconds
        ("count", pa.int64()),
        ("total", pa.int64()),
        ("least", pa.int64()),
        ("most", pa.int64()),
        ("first_at", pa.int64()),
        ("last_at", pa.int64()),
        ("first_packet", pa.int64()),
    ]
)


_OF_BATCHES = ["connection", "number", "direction", "topic", "partition", "at", "codec", "magic", "records"]
_OF_BATCHES += ["timestamp_type", "max_timestamp", "producer_id", "producer_epoch", "base_sequence"]
_OF_PARTITIONS = ["connection", "number", "api", "topic", "partition", "at", "last_stable_offset", "high_watermark"]


def with_names(rows: pa.Table, known: Known) -> pa.Table:
    """Rows whose partitions have the names of their topics: some batches knew a name that others did not."""
    what = one_array(rows["what"]).dictionary_encode()
    names = []
    for name in what.dictionary.to_pylist():
        if name.startswith(ID_PREFIX):
            topic, _, partition = name.removeprefix(ID_PREFIX).rpartition("-")
            name = f"{known.topics.get(topic, ID_PREFIX + topic)}-{partition}"
        names.append(name)
    named = pa.array(names, pa.string()).take(what.indices)
    return rows.set_column(rows.schema.get_field_index("what"), "what", named)


def facts_of(tables: Mapping[str, pa.Table], ends: Mapping[int, Ends], answered: Answered) -> Iterator[pa.Table]:
    """Facts of a batch of tables, in parts."""
    if (exchanges := tables.get("exchanges")) is not None and exchanges.num_rows:
        of_exchange = _Exchanges(exchanges, ends)
        yield from _of_exchanges(exchanges, of_exchange, answered)
        if (errors := tables.get("errors")) is not None and errors.num_rows:
            yield _of_errors(errors, of_exchange, ends)
        if (batches := tables.get("batches")) is not None and batches.num_rows:
            yield from _of_batches(batches.select(_OF_BATCHES), of_exchange)
        if (partitions := tables.get("partitions")) is not None and partitions.num_rows:
            yield _of_partitions(partitions.select(_OF_PARTITIONS), of_exchange)
    if (connections := tables.get("connections")) is not None and connections.num_rows:
        yield from _of_connections(connections)
    if (issues := tables.get("issues")) is not None and issues.num_rows:
        yield _of_issues(issues)


class _Exchanges:
    """What rows of other tables need to know of their exchanges."""

    def __init__(self, exchanges: pa.Table, ends: Mapping[int, Ends]) -> None:
        self._ends = ends
        self._places = ExchangePlaces(exchanges)
        self._packet = pc.coalesce(exchanges["response_packet"], exchanges["request_packet"])
        self.client = _clients(exchanges, ends)
        self.broker = _brokers(exchanges["connection"], ends)

    def packet(self, rows: pa.Table) -> pa.ChunkedArray:
        """First packet of the exchange that each row belongs to."""
        return self._packet.take(self._place(rows))

    def of(self, rows: pa.Table) -> dict[str, pa.ChunkedArray]:
        """First packet, client and broker of the exchange that each row belongs to."""
        place = self._place(rows)
        client, broker = self.client.take(place), self.broker.take(place)
        if place.null_count:
            unknown = rows.append_column("client_id", pa.nulls(rows.num_rows, pa.string()))
            client = pc.coalesce(client, _clients(unknown, self._ends))
            broker = pc.coalesce(broker, _brokers(rows["connection"], self._ends))
        return {"packet": self._packet.take(place), "client": client, "broker": broker}

    def _place(self, rows: pa.Table) -> pa.Array:
        place = self._places.of(rows)
        return pa.array(place, mask=place < 0)


def _of_exchanges(exchanges: pa.Table, of_exchange: _Exchanges, answered: Answered) -> Iterator[pa.Table]:
    at = _nanoseconds(pc.coalesce(exchanges["requested"], exchanges["answered"]))
    packet = pc.coalesce(exchanges["request_packet"], exchanges["response_packet"])
    base = {
        "client": of_exchange.client,
        "api": exchanges["api"],
        "number": exchanges["api_version"],
        "broker": of_exchange.broker,
        "at": at,
        "packet": packet,
    }
    asked, over = (_nanoseconds(exchanges[name]) for name in ("request_done", "answered"))
    latency = pc.subtract(over, asked)
    yield _rows("request", base, latency)
    cut = pc.and_(pc.equal(exchanges["api"], "Fetch"), pc.not_equal(exchanges["decoded"], "full"))
    yield _rows("cut", base, None, pc.fill_null(cut, False))  # what these brought is not known
    waiting = pc.and_(pc.equal(exchanges["outcome"], "unanswered"), pa.array(~answered.passed_over(exchanges)))
    yield _rows("unanswered", base | {"number": exchanges["connection"]}, None, waiting)
    throttled = pc.fill_null(pc.greater(exchanges["throttle_ms"], 0), False)
    behind, _ = held_back(exchanges, integers(over) - integers(asked))
    base["until"] = pc.coalesce(pc.add(over, pa.array(behind)), at)
    yield _rows("throttled", base, pc.cast(exchanges["throttle_ms"], pa.int64(), safe=False), throttled)


def _of_errors(errors: pa.Table, exchanges: _Exchanges, ends: Mapping[int, Ends]) -> pa.Table:
    """An error of each answer that has it, for however many partitions."""
    codes = [dictionary_codes(errors["error"])[0], *(integers(errors[name]) for name in ("connection", "number"))]
    errors = errors.take(pa.array(one_of_each(equal_columns(np.stack(codes)))))
    base = {
        "client": _clients(errors, ends),
        "api": errors["api"],
        "what": errors["error"],
        "number": errors["api_version"],
        "broker": errors["broker"],
        "at": _nanoseconds(errors["at"]),
        "packet": exchanges.packet(errors),
    }
    return _rows("error", base, None)


def _of_batches(batches: pa.Table, exchanges: _Exchanges) -> Iterator[pa.Table]:
    of_exchange = exchanges.of(batches)
    at = _nanoseconds(batches["at"])
    base = of_exchange | {"api": batches["direction"], "what": batches["codec"], "number": batches["magic"], "at": at}
    yield _rows("batch", base, batches["records"])
    produced = pc.equal(batches["direction"], "produce")
    ahead = pc.divide(pc.subtract(_nanoseconds(batches["max_timestamp"]), at), MILLISECOND_NS)
    told = pc.and_(pc.equal(batches["timestamp_type"], "create_time"), pc.is_valid(ahead))
    yield _rows("clock", base, ahead, pc.and_(produced, told))
    # A number without a producer id means nothing: some clients write zero.
    sequenced = pc.and_(produced, pc.greater_equal(batches["producer_id"], 0))
    told = pc.and_(pc.greater_equal(batches["base_sequence"], 0), pc.greater(batches["records"], 0))
    some = pc.indices_nonzero(pc.fill_null(pc.and_(sequenced, told), False))
    yield _of_sequences(batches.take(some), {name: column.take(some) for name, column in base.items()})


def _of_sequences(batches: pa.Table, base: Mapping[str, Any]) -> pa.Table:
    # Sums tell how often numbers were used: as many records as numbers, or more where some were sent again.
    first = pc.cast(batches["base_sequence"], pa.int64())
    sequence = {
        "client": base["client"],
        "api": _joined(batches, "producer_id", "producer_epoch", "/"),
        "what": _joined(batches, "topic", "partition", "-"),
        "at": base["at"],
        "packet": base["packet"],
        "total": batches["records"],
        "least": first,
        "most": pc.add(first, pc.subtract(batches["records"], 1)),
    }
    return _rows("sequence", sequence, None)


def _of_partitions(partitions: pa.Table, exchanges: _Exchanges) -> pa.Table:
    stable, high = partitions["last_stable_offset"], partitions["high_watermark"]
    held = pc.and_(pc.greater_equal(stable, 0), pc.less(stable, high))
    partitions = partitions.filter(pc.and_(pc.equal(partitions["api"], "Fetch"), held))
    base = exchanges.of(partitions) | {
        "api": partitions["api"],
        "what": _joined(partitions, "topic", "partition", "-"),
        "at": _nanoseconds(partitions["at"]),
    }
    return _rows("held_back", base, partitions["last_stable_offset"])


def _of_connections(connections: pa.Table) -> Iterator[pa.Table]:
    kafka = connections.filter(pc.equal(connections["protocol"], "kafka"))
    if not kafka.num_rows:
        return
    opened, closed = _nanoseconds(kafka["opened"]), _nanoseconds(kafka["closed"])
    base = {
        "client": _client_names(kafka["client_id"], kafka["client"]),
        "what": kafka["how_closed"],
        "number": kafka["connection"],  # what waits on one is judged by its end
        "broker": _broker_names(kafka["broker"], kafka["broker_port"]),
        "at": opened,
        "packet": kafka["connection"],
    }
    lived = pc.divide(pc.subtract(pc.coalesce(closed, opened), opened), MILLISECOND_NS)
    yield _rows("connection", base | {"last_at": pc.coalesce(closed, opened)}, lived, pc.is_valid(opened))


def _of_issues(issues: pa.Table) -> pa.Table:
    issues = issues.filter(pc.is_valid(issues["connection"]))
    base = {
        "client": pa.repeat(pa.scalar(CAPTURE), issues.num_rows),
        "what": issues["kind"],
        "at": _nanoseconds(issues["at"]),
        "packet": pc.coalesce(issues["packet"], issues["connection"]),
    }
    return _rows("issue", base, issues["count"])


def _rows(kind: str, base: Mapping[str, Any], measure: Any, chosen: Any = None) -> pa.Table:
    """Rows of FACTS, one for each of those that are chosen; measure is what count, total, least and most are of.

    base has the columns, at, packet, and until if what began then lasted.
    """
    if chosen is not None:
        some = pc.indices_nonzero(chosen)
        base = {name: column.take(some) for name, column in base.items()}
        measure = None if measure is None else measure.take(some)
    at = base["at"]
    count = len(at)
    measure = pa.nulls(count, pa.int64()) if measure is None else pc.cast(measure, pa.int64())
    columns = {
        "kind": pa.repeat(pa.scalar(kind), count),
        "span": pc.multiply(pc.divide(at, SPAN), SPAN),
        "count": pa.repeat(pa.scalar(1, pa.int64()), count),
        "total": measure,
        "least": measure,
        "most": measure,
        "first_at": at,
        "last_at": base.get("until", at),
        "first_packet": base["packet"],
        **{key: value for key, value in base.items() if key not in ("at", "until", "packet")},
    }
    arrays = [
        pc.cast(columns[field.name], field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in FACTS
    ]
    table = pa.table(arrays, schema=FACTS)
    return table.filter(pc.is_valid(table["span"])) if table["span"].null_count else table


def summed(table: pa.Table) -> pa.Table:
    """Facts of equal keys added up."""
    measures = _MEASURES | {"first_packet": "min"}
    summed = table.group_by(list(_KEYS), use_threads=False).aggregate(list(measures.items()))
    return (
        summed.rename_columns(
            [*_KEYS, *measures] if summed.column_names[: len(_KEYS)] == list(_KEYS) else [*measures, *_KEYS]
        )
        .select(FACTS.names)
        .cast(FACTS)
    )


def _joined(rows: pa.Table, one: str, other: str, between: str) -> Any:
    """Two columns as one text."""
    some, row = in_groups(rows, [one, other])
    texts = (some[name].cast(pa.string()) for name in (one, other))
    return pc.binary_join_element_wise(*texts, between).take(pa.array(row))


def _clients(rows: pa.Table, ends: Mapping[int, Ends]) -> pa.Array:
    some, row = in_groups(rows, ["client_id", "connection"])
    address, _ = clients_and_brokers(integers(some["connection"]), ends)
    return _client_names(some["client_id"], address.cast(pa.string())).take(pa.array(row))


def _client_names(client_id: Any, address: Any) -> Any:
    """Clients as a person tells them apart: client id and address."""
    return pc.binary_join_element_wise(pc.fill_null(client_id, NO_NAME), " (", pc.fill_null(address, "?"), ")", "")


def _brokers(connections: pa.ChunkedArray, ends: Mapping[int, Ends]) -> pa.Array:
    return clients_and_brokers(integers(connections), ends)[1].cast(pa.string())


def _broker_names(host: pa.ChunkedArray, port: pa.ChunkedArray) -> pa.Array:
    pairs = zip(host.to_pylist(), port.to_pylist(), strict=True)
    return pa.array([address(*pair) for pair in pairs], pa.string())


def _nanoseconds(times: Any) -> Any:
    return pc.cast(times, pa.int64())
