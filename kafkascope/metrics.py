"""``sniff --metrics``: what goes on, as numbers that Prometheus asks for.

Each metric has a bounded number of label sets: names come from whoever is on the network. What would be more counts
under the label `OTHERS`. Counters begin with the program, as Prometheus expects.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from kafkascope import __version__, watching
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.engine import EngineOptions
from kafkascope.lags import Lags
from kafkascope.reading import Batch, BatchSource
from kafkascope.reports.columns.series import OTHERS
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import address
from kafkascope.reports.groups.live import LiveGroups
from kafkascope.reports.incidents.incident import Incident
from kafkascope.reports.views.clusters import ClustersView
from kafkascope.reports.views.groups import GroupsView
from kafkascope.reports.views.progress import ProgressView
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.issues import Issue

BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Upper ends of the buckets of latency: a poll waits half a second, a request 30 s."""

_COLUMNS = frozenset(
    {"connection", "number", "api", "outcome", "latency_ms", "request_bytes", "response_bytes", "group_id"}
)
_TABLES = frozenset({"exchanges", "errors", "partitions", "issues"})
_VIEWS = frozenset({GroupsView.name, ProgressView.name, ClustersView.name})


@dataclass(frozen=True, slots=True)
class Described:
    """A metric, as it is documented."""

    name: str
    labels: tuple[str, ...]
    help: str


EXCHANGES = Described(
    "kafkascope_exchanges", ("api", "broker", "outcome"), "Requests with what became of them: answered, one_way, ..."
)
SECONDS = Described(
    "kafkascope_exchange_seconds", ("api", "broker"), "From a request's last byte to its response's first, in seconds"
)
REQUEST_BYTES = Described("kafkascope_request_bytes", ("api", "broker"), "Bytes of requests")
RESPONSE_BYTES = Described("kafkascope_response_bytes", ("api", "broker"), "Bytes of responses")
ERRORS = Described("kafkascope_errors", ("api", "error"), "Error codes in responses, wherever they stand")
TOPIC_BYTES = Described("kafkascope_topic_bytes", ("topic", "api"), "Bytes of record batches that travelled")
TOPIC_RECORDS = Described("kafkascope_topic_records", ("topic", "api"), "Records that travelled")
LAG = Described(
    "kafkascope_group_lag_records",
    ("group", "topic"),
    "Records that a group has not committed yet, of the partitions whose end and committed offset were heard",
)
REBALANCES = Described("kafkascope_rebalances", ("group", "trigger"), "Rebalances, by what set them off")
REBALANCE_SECONDS = Described(
    "kafkascope_rebalance_seconds", ("group",), "Time from the begin of rebalances to when all members had partitions"
)
INCIDENTS = Described("kafkascope_incidents", ("kind", "severity"), "What broke, one for each cause")
INCIDENTS_NOW = Described(
    "kafkascope_incidents_going_on", ("kind", "severity"), "What broke and was not over when it was last looked at"
)
ISSUES = Described("kafkascope_issues", ("kind",), "Damage and oddities of what was captured")
PACKETS = Described("kafkascope_packets", (), "Packets that were taken in")
LOST = Described("kafkascope_lost", ("kind",), "Packets, bodies or interfaces that are missing")

COUNTERS = (
    EXCHANGES,
    REQUEST_BYTES,
    RESPONSE_BYTES,
    ERRORS,
    TOPIC_BYTES,
    TOPIC_RECORDS,
    REBALANCES,
    REBALANCE_SECONDS,
    INCIDENTS,
    ISSUES,
    PACKETS,
    LOST,
)
ALL = (*COUNTERS, SECONDS, LAG, INCIDENTS_NOW)

_Labels = tuple[str, ...]


def with_needed(options: EngineOptions) -> EngineOptions:
    """The options with what metrics look at, too."""
    return options.with_more(_TABLES, _COLUMNS).with_views_at_once(_VIEWS)


class Metrics(Collector):
    """Rows of batches in, metrics out, whenever they are asked for; from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, limits: Limits = DEFAULT) -> None:
        """clock: seconds, of which no more than half go into the analysis of groups."""
        self._lock = threading.Lock()
        self._sums: dict[str, dict[_Labels, float]] = {metric.name: {} for metric in COUNTERS}
        self._seconds: dict[_Labels, tuple[I64, float]] = {}  # counts of buckets, the last without an end; and the sum
        self._lags = Lags()
        self._groups = LiveGroups(clock=clock, limits=limits)
        self._limits = limits
        self._others = 0  # times that something counted under `OTHERS`, and was not told yet
        self._incidents: Counter[_Labels] = Counter()  # that go on

    def observe(self, batch: Batch, source: BatchSource) -> None:
        """Count what a batch has."""
        tables = {name: source.topic_names.resolve(table) for name, table in batch.tables.items()}
        history = watching.feed(self._groups, tables.get(GroupsView.name), source)
        with self._lock:
            self._sums[PACKETS.name][()] = source.packets
            self._sums[LOST.name] = {(kind,): count for kind, count in source.lost.items()}
            if (exchanges := tables.get("exchanges")) is not None and len(exchanges):
                self._observe_exchanges(exchanges, batch)
            if (errors := tables.get("errors")) is not None:
                self._count(ERRORS, errors, ["api", "error"])
            if (partitions := tables.get("partitions")) is not None:
                self._sum(TOPIC_BYTES, partitions, ["topic", "api"], "bytes")
                self._sum(TOPIC_RECORDS, partitions, ["topic", "api"], "records")
            if (issues := tables.get("issues")) is not None:
                self._sum(ISSUES, issues, ["kind"], "count")
            self._lags.rename(source.topic_names)
            if (positions := tables.get(ProgressView.name)) is not None:
                self._lags.observe(positions, self._groups.clusters)
            for rebalance in history.rebalances:
                group = shown_text(rebalance.group_id)
                self._add(REBALANCES, (group, rebalance.trigger), 1)
                self._add(REBALANCE_SECONDS, (group,), (rebalance.duration_ms or 0) / 1000)
            others, self._others = self._others, 0
        if others:
            detail = (
                f"so many label sets of a metric that others count as {OTHERS} ({self._limits.option('label_sets')})"
            )
            source.note([Issue("too_many_names", detail, count=others)])

    def tell(self, begun: Sequence[Incident], going_on: Sequence[Incident]) -> None:
        """Count what broke; what is not over."""
        with self._lock:
            for one in begun:
                self._add(INCIDENTS, (one.kind, one.severity), 1)
            self._incidents = Counter(dict.fromkeys(self._incidents, 0))  # of what is over, Prometheus is to hear a 0
            self._incidents.update((one.kind.value, one.severity.value) for one in going_on)

    def collect(self) -> Iterator[Metric]:
        """All metrics as they are now."""
        with self._lock:
            for metric in COUNTERS:
                counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
                for labels, value in self._sums[metric.name].items():
                    counter.add_metric(labels, value)
                yield counter
            histogram = HistogramMetricFamily(SECONDS.name, SECONDS.help, labels=SECONDS.labels)
            for labels, (counts, total) in self._seconds.items():
                ends = [*map(str, BUCKETS_S), "+Inf"]
                histogram.add_metric(labels, list(zip(ends, np.cumsum(counts).tolist(), strict=True)), total)
            yield histogram
            gauge = GaugeMetricFamily(LAG.name, LAG.help, labels=LAG.labels)
            lags: Counter[_Labels] = Counter()
            for (group, topic), records in self._lags.by_group_and_topic().items():
                lags[self._bounded(lags, (shown_text(group), shown_text(topic)))] += records
            for labels, value in lags.items():
                gauge.add_metric(labels, value)
            yield gauge
            gauge = GaugeMetricFamily(INCIDENTS_NOW.name, INCIDENTS_NOW.help, labels=INCIDENTS_NOW.labels)
            for labels, count in self._incidents.items():
                gauge.add_metric(labels, count)
            yield gauge
        about = GaugeMetricFamily("kafkascope", "The program", labels=["version"])
        about.add_metric([__version__], 1)
        yield about

    def _observe_exchanges(self, exchanges: pa.Table, batch: Batch) -> None:
        exchanges = batch.with_ends(exchanges)
        self._count(EXCHANGES, exchanges, ["api", "broker", "outcome"])
        self._sum(REQUEST_BYTES, exchanges, ["api", "broker"], "request_bytes")
        self._sum(RESPONSE_BYTES, exchanges, ["api", "broker"], "response_bytes")
        timed = exchanges.filter(pc.is_valid(exchanges["latency_ms"]))
        seconds = np.maximum(timed["latency_ms"].to_numpy() / 1000, 0)
        timed = timed.select(["api", "broker"])
        timed = timed.append_column("bucket", pa.array(np.searchsorted(BUCKETS_S, seconds)))
        timed = timed.append_column("seconds", pa.array(seconds))
        grouped = timed.group_by(["api", "broker", "bucket"], use_threads=False)
        for row in grouped.aggregate([("seconds", "count"), ("seconds", "sum")]).to_pylist():
            labels = self._bounded(self._seconds, _labels(row, ["api", "broker"]))
            counts, total = self._seconds.get(labels) or (np.zeros(len(BUCKETS_S) + 1, np.int64), 0.0)
            counts[row["bucket"]] += row["seconds_count"]
            self._seconds[labels] = counts, total + row["seconds_sum"]

    def _count(self, metric: Described, rows: pa.Table, names: Sequence[str]) -> None:
        ones = rows.select(names).append_column("_one", pa.array(np.ones(len(rows), np.int64)))
        self._sum(metric, ones, names, "_one")

    def _sum(self, metric: Described, rows: pa.Table, names: Sequence[str], value: str) -> None:
        grouped = rows.select([*names, value]).group_by(names, use_threads=False).aggregate([(value, "sum")])
        for row in grouped.to_pylist():
            self._add(metric, _labels(row, names), row[f"{value}_sum"] or 0)

    def _add(self, metric: Described, labels: _Labels, value: float) -> None:
        sums = self._sums[metric.name]
        labels = self._bounded(sums, labels)
        sums[labels] = sums.get(labels, 0) + value

    def _bounded(self, known: Mapping[_Labels, Any], labels: _Labels) -> _Labels:
        """The label set that this counts under."""
        if labels in known or len(known) < self._limits.label_sets:
            return labels
        self._others += 1
        return (OTHERS,) * len(labels)


@dataclass(frozen=True, slots=True)
class Place:
    """Where Prometheus asks: HOST:PORT; without a host on all addresses."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Place:
        """Raises ValueError if it is none."""
        host, _, port = text.rpartition(":")
        if not port.isdecimal() or int(port) > 0xFFFF:
            raise ValueError(f"{text} is no place such as :9464 or 127.0.0.1:9464")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return address(self.host, self.port)


@contextmanager
def served(metrics: Metrics, place: Place) -> Iterator[str]:
    """Answer Prometheus as long as this lasts; the URL. Raises OSError where nobody can listen there."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    server, thread = start_http_server(place.port, place.host or "0.0.0.0", registry)
    try:
        yield f"http://{address(place.host or 'localhost', server.server_port)}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _labels(row: Mapping[str, Any], names: Sequence[str]) -> _Labels:
    return tuple("" if row[name] is None else shown_text(row[name]) for name in names)
