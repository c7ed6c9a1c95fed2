"""The view of latency: durations of exchanges and of their parts, counted by who, what and when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.payloads import CLUSTER_METADATA_TOPIC
from kafkascope.reports.columns.arrow import dictionary_codes, distinct_numbers, one_array
from kafkascope.reports.columns.parties import Ends, ExchangePlaces, clients_and_brokers, topics_of_exchanges
from kafkascope.reports.columns.series import FINEST, in_groups
from kafkascope.reports.columns.views import Known, by_key
from kafkascope.reports.measures.latency import parts
from kafkascope.reports.measures.latency.counts import WHO, Spent, counts, latency_table
from kafkascope.reports.measures.latency.neighbours import NEEDED, Gap, Neighbourhood, Neighbours
from kafkascope.reports.measures.latency.parts import ABSENT
from kafkascope.reports.measures.throttling import held_back
from kafkascope.reports.vocabulary.tables import LATENCY_COUNTS
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.units import MILLISECOND_NS

_TIMES = ("requested", "request_done", "request_acked", "answered", "response_done")
_NO_ACKS = -(2**15)  # ABSENT is a value of acks: all


class LatencyView:
    """Rows of ``LATENCY_COUNTS``, of which `result` makes the table ``latency``."""

    name = "latency_counts"
    schema = LATENCY_COUNTS
    key = "shard"
    needs = frozenset({"exchanges", "connections", "partitions", "terms", "ready"})
    results: tuple[str, ...] = ("latency",)

    def __init__(self, span: int = FINEST) -> None:
        """Counted in spans of that many nanoseconds; `result` makes none shorter than `FINEST` of them."""
        self._span = span
        self._neighbours = Neighbours()

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """The durations of a batch; None without any."""
        rows = None
        if (exchanges := tables.get("exchanges")) is not None and exchanges.num_rows:
            rows = self._observe(exchanges, tables, ends)
        if (ended := tables.get("connections")) is not None:
            self._neighbours.forget(one_array(ended["connection"]))
        return rows

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """The table ``latency``."""
        found = [latency_table(of_shard) for _, of_shard in by_key(rows, self.key)]
        return {"latency": pa.concat_tables(found)} if found else {}

    def _observe(
        self, exchanges: pa.Table, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]
    ) -> pa.Table | None:
        of = _columns(exchanges)
        places = ExchangePlaces(exchanges)
        beside = _beside(len(of["number"]), places, tables)
        near = self._neighbours.observe(_exchange_rows(exchanges, of, beside["acks"], ends))
        there = (of["request_done"] >= 0) & (of["answered"] >= of["request_done"])
        spent = _of_exchanges(of, beside, near, there)
        gaps = [_of_gap(parts.THROTTLED, near.throttled), _of_gap(parts.APPLICATION, near.application)]
        who, series = in_groups(near.rows, WHO)
        named = who.append_column("topic", pa.nulls(who.num_rows, pa.string()))
        begins = np.arange(len(series) + 1)
        if (partitions := tables.get("partitions")) is not None:
            exchange, topic, _ = topics_of_exchanges(places.of(partitions), partitions["topic"])
            code, topics = dictionary_codes(topic)
            row = exchange + near.new
            pairs, of_topic = distinct_numbers(series[row] * np.int64(len(topics) + 1) + code)
            with_topic, code = who.take(pa.array(pairs // (len(topics) + 1))), pairs % (len(topics) + 1)
            named = pa.concat_tables([named, with_topic.append_column("topic", topics.take(pa.array(code)))])
            begins[1:] += np.cumsum(np.bincount(row, minlength=len(series)))
            series = np.insert(series, row + 1, of_topic + who.num_rows)  # rows are in ascending order
        rows = counts(named, begins, series, [*spent, *gaps], self._span)
        return rows if rows.num_rows else None


def _columns(exchanges: pa.Table) -> dict[str, I64]:
    """Times and numbers of exchanges as arrays, `ABSENT` for null."""

    def numbers(column: pa.ChunkedArray) -> I64:
        return pc.fill_null(column.cast(pa.int64()), ABSENT).to_numpy()  # type: ignore[no-any-return]

    of = {name: numbers(exchanges[name]) for name in ("connection", "number", "api_key", "api_version", *_TIMES)}
    of["requested"] = np.where(of["requested"] >= 0, of["requested"], of["request_done"])
    of["response_done"] = np.where(of["response_done"] >= 0, of["response_done"], of["answered"])
    of["error"] = np.maximum(numbers(exchanges["error_code"]), 0)
    for name in ("round_trip", "least_round_trip"):
        took = pc.fill_null(exchanges[f"{name}_ms"], ABSENT).to_numpy()
        of[name] = np.where(took < 0, ABSENT, np.rint(took * MILLISECOND_NS)).astype(np.int64)
    of["throttle"], of["late"] = held_back(exchanges, of["answered"] - of["request_done"])
    return of


def _exchange_rows(exchanges: pa.Table, of: dict[str, I64], acks: I64, ends: Mapping[int, Ends]) -> pa.Table:
    client, broker = clients_and_brokers(of["connection"], ends)
    columns: dict[str, pa.Array] = {name: pa.array(of[name]) for name in NEEDED}
    columns |= {name: exchanges[name] for name in ("api", "api_version", "client_id")}
    columns |= {"client": client, "broker": broker, "acks": pa.array(acks, mask=acks == _NO_ACKS).cast(pa.int16())}
    return pa.table({name: columns[name] for name in (*NEEDED, *WHO)})


def _beside(count: int, places: ExchangePlaces, tables: Mapping[str, pa.Table]) -> dict[str, I64]:
    """What other tables say of each exchange."""
    of = {name: np.zeros(count, np.int64) for name in ("known", "bytes", "records", "partitions", "ready", "more")}
    of |= {name: np.full(count, ABSENT, np.int64) for name in ("max_wait_ms", "min_bytes", "assignments")}
    of["acks"] = np.full(count, _NO_ACKS, np.int64)
    if (terms := tables.get("terms")) is not None:
        row = places.of(terms)
        of["known"][row[row >= 0]] = 1
        for name in ("max_wait_ms", "min_bytes", "acks", "assignments"):
            there = terms[name].is_valid().to_numpy() & (row >= 0)
            of[name][row[there]] = pc.fill_null(terms[name], 0).to_numpy()[there]
    if (partitions := tables.get("partitions")) is not None:
        row = places.of(partitions)
        for name in ("bytes", "records"):
            np.add.at(of[name], row[row >= 0], pc.fill_null(partitions[name], 0).to_numpy()[row >= 0])
        np.add.at(of["partitions"], row[row >= 0], 1)
        # The quorum's leader holds a fetch until its log grows, whatever min bytes says (KafkaRaftClient).
        is_quorum = pc.fill_null(pc.equal(partitions["topic"], CLUSTER_METADATA_TOPIC), False).to_numpy()
        of_quorum = row[(row >= 0) & is_quorum]
        of["min_bytes"][of_quorum] = np.maximum(of["min_bytes"][of_quorum], 1)
    if (ready := tables.get("ready")) is not None:
        row = places.of(ready)
        of["ready"][row[row >= 0]] = ready["records"].to_numpy()[row >= 0]
        of["more"][row[row >= 0]] = ready["more"].to_numpy()[row >= 0]
    return of


def _of_exchanges(of: dict[str, I64], beside: dict[str, I64], near: Neighbourhood, there: Bool) -> Iterator[Spent]:
    rows = np.flatnonzero(there)
    of = {name: column[rows] for name, column in of.items()}
    beside = {name: column[rows] for name, column in beside.items()}
    timed = parts.Timed(
        api_key=of["api_key"],
        requested=of["requested"],
        request_done=of["request_done"],
        answered=of["answered"],
        response_done=of["response_done"],
        acked=of["request_acked"],
        round_trip=of["round_trip"],
        least_round_trip=of["least_round_trip"],
        error=of["error"],
        top_error=(of["error"] > 0) & (beside["partitions"] == 0),
        late=of["late"],
        busy_until=near.busy_until[rows],
        muted_until=near.muted_until[rows],
        known=beside["known"] > 0,
        max_wait=beside["max_wait_ms"] * MILLISECOND_NS,
        min_bytes=beside["min_bytes"],
        acks=beside["acks"],
        assignments=beside["assignments"],
        brought_bytes=beside["bytes"],
        brought_records=beside["records"],
        ready_records=beside["ready"],
        more_ready=beside["more"] > 0,
    )
    for part, length in parts.split(timed).items():
        least = 0 if part in (*parts.ALWAYS, parts.NETWORK, parts.BROKER) else 1
        some = np.flatnonzero(length >= least)
        yield Spent(part, rows[some] + near.new, of["requested"][some], length[some], of_topics=True)


def _of_gap(part: str, gap: Gap) -> Spent:
    return Spent(part, gap.row, gap.begin, gap.length, of_topics=False)
