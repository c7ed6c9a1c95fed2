"""The summary of a capture: what was in it, how long it took, what went wrong. An analyzer: observe, merge, result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import dictionary_codes
from kafkascope.reports.columns.remarks import TlsTalk, not_taken, tls_talks
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import iso_time
from kafkascope.reports.measures.latency.histogram import Histogram
from kafkascope.reports.vocabulary.tables import SCHEMA_VERSION, of_whole
from kafkascope.sniffer.origins import CapturedFile
from kafkascope.sniffer.sources.places import split_settings, told

_KEPT = 1000  # keys of one kind that are told by name, the largest; what exceeds them is told as one
_HELD = 100_000  # that are counted by name until then; the first ones that come, so beyond it the rest hangs on order
_OTHERS = "(others)"


@dataclass(slots=True)
class ApiSummary:
    """Exchanges of one API."""

    exchanges: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    errors: int = 0
    versions: set[int] = field(default_factory=set)
    latency: Histogram = field(default_factory=Histogram)

    def merge(self, other: ApiSummary) -> None:
        """Add the other's exchanges."""
        self.exchanges += other.exchanges
        self.request_bytes += other.request_bytes
        self.response_bytes += other.response_bytes
        self.errors += other.errors
        self.versions |= other.versions
        self.latency.merge(other.latency)


class Summary:
    """Counts over the tables of a capture. Size is bounded by the number of APIs, and by a cap on all other keys."""

    def __init__(self) -> None:
        self._apis: dict[str, ApiSummary] = {}
        self._counts: dict[str, Counter[str]] = {
            name: Counter() for name in ("outcome", "decoded", "protocol", "client_id", "error", "issue")
        }
        self._connections: Counter[tuple[int, str]] = Counter()  # by the broker's port and protocol
        self._talks: dict[int, TlsTalk] = {}  # of connections with TLS that were not opened, by the broker's port
        self._topics: dict[tuple[str, str], list[int]] = {}
        self._first: int | None = None
        self._last: int | None = None
        self._acknowledgements: int | None = None  # packets that do nothing else; None: nothing of packets was seen
        self.packets = 0  # each once, also if several files have it
        self.copies = 0  # packets that another file has too, and that are counted there
        self.window: str | None = None  # of packets that was asked for, in words; None: all
        self.left_out = 0  # packets that are not in it
        self.passed: int | None = None  # exchanges that are in the tables, if a filter chose them
        self.filter: str | None = None  # as it was asked for; None: it is not told
        self.ports: frozenset[int] = frozenset()  # that the user asked for; none: all
        self.captures: list[str] = []  # files, as ``capture_name`` has them
        self.files: list[CapturedFile] = []  # the same, in the order of their packets
        self.clocks: list[dict[str, Any]] = []  # ``capture_points.clock_row`` of files that have packets in common

    def observe(self, tables: Mapping[str, pa.Table]) -> None:
        """Add a batch of tables (any of them may be absent); of `WHOLE` those are counted, not what passed."""
        tables = of_whole(tables)
        if "exchanges" in tables:
            self._observe_exchanges(tables["exchanges"])
        if "errors" in tables and len(errors := tables["errors"]):
            names = pc.binary_join_element_wise(errors["api"], errors["error"], " ")
            self._count("error", names)
            for row in pc.value_counts(errors["api"]).to_pylist():
                self._api(row["values"]).errors += row["counts"]
        if "tcp_health" in tables and len(health := tables["tcp_health"]):
            self._span(pc.min(health["first"]).value, pc.max(health["last"]).value)
            self._acknowledge(pc.sum(health["acknowledgements"]).as_py())
        if "connections" in tables:
            connections = tables["connections"]
            self._count("protocol", connections["protocol"])
            for row in connections.group_by(["broker_port", "protocol"]).aggregate([([], "count_all")]).to_pylist():
                self._connections[row["broker_port"], row["protocol"]] += row["count_all"]
            self._observe_talks(connections)
        if "issues" in tables:
            for kind, count in zip(*(tables["issues"][c].to_pylist() for c in ("kind", "count")), strict=True):
                self._counts["issue"][kind] += count
        if "batches" in tables and len(tables["batches"]):
            groups = tables["batches"].group_by(["topic", "direction"])
            for row in groups.aggregate([("records", "sum"), ("bytes", "sum"), ("records", "count")]).to_pylist():
                self._topic(row["topic"], row["direction"], row["records_sum"], row["bytes_sum"], row["records_count"])

    def merge(self, other: Summary) -> None:
        """Add what the other has seen."""
        for name, api in other._apis.items():
            self._api(name).merge(api)
        for name, counter in other._counts.items():
            self._counts[name].update(counter)
        for (topic, direction), (records, size, batches) in other._topics.items():
            self._topic(topic, direction, records, size, batches)
        self._span(other._first, other._last)
        self._acknowledge(other._acknowledgements)
        self.packets += other.packets
        self.copies += other.copies
        self.window = self.window or other.window
        self.left_out += other.left_out
        self.ports |= other.ports
        self._connections.update(other._connections)
        for port, talk in other._talks.items():
            self._talks.setdefault(port, TlsTalk()).merge(talk)
        self.captures += other.captures
        self.files += other.files
        self.clocks += other.clocks

    def rename_topics(self, names: Mapping[str, str]) -> None:
        """Give topics that were known by id (``id:...``) the names that were learned."""
        for key in [key for key in self._topics if key[0] in names]:
            records, size, batches = self._topics.pop(key)
            self._topic(names[key[0]], key[1], records, size, batches)

    def result(self) -> dict[str, Any]:
        """Everything as plain values, largest first, ready for JSON.

        Of a window or a filter only where one was asked for, of talks within TLS where any were inferred.
        """
        of = sum(self._counts["outcome"].values())
        chosen = {"filter": {"expression": self.filter, "passed": self.passed, "of": of}}
        window = {"window": {"asked_for": self.window, "left_out": self.left_out}} if self.window else {}
        talks = {"tls_talks": tls_talks(self._talks)} if self._talks else {}
        return {
            **window,
            **(chosen if self.passed is not None else {}),
            **talks,
            "schema_version": SCHEMA_VERSION,
            "run": None,  # in the directory of an analysis it has a name
            "captures": self.captures[:_KEPT],
            "files": [asdict(file) for file in self.files],
            "first": iso_time(self._first),
            "last": iso_time(self._last),
            "packets": self.packets,
            "copies": self.copies,
            "clocks": self.clocks,
            "connections": _most_first(self._counts["protocol"]),
            "acknowledgements": self._acknowledgements,
            "tls_ports": _most_first({str(port): n for (port, name), n in self._connections.items() if name == "tls"}),
            "not_taken_for_kafka": not_taken(self._connections, self.ports),
            "exchanges": _most_first(self._counts["outcome"]),
            "decoded": _most_first(self._counts["decoded"]),
            "apis": [
                {
                    "api": name,
                    "exchanges": api.exchanges,
                    "versions": sorted(api.versions),
                    "request_bytes": api.request_bytes,
                    "response_bytes": api.response_bytes,
                    "errors": api.errors,
                    "latency_ms": {
                        "p50": api.latency.percentile(0.5),
                        "p90": api.latency.percentile(0.9),
                        "p99": api.latency.percentile(0.99),
                        "max": round(api.latency.highest_ms, 4) if api.latency.counts.any() else None,
                    },
                }
                for name, api in sorted(self._apis.items(), key=lambda item: (-item[1].exchanges, item[0]))
            ],
            "errors": _most_first(self._counts["error"]),
            "clients": _most_first(self._counts["client_id"]),
            "topics": [
                {"topic": topic, "direction": direction, "records": records, "bytes": size, "batches": batches}
                for (topic, direction), (records, size, batches) in self._largest_topics()
            ],
            "issues": _most_first(self._counts["issue"]),
        }

    def _acknowledge(self, count: int | None) -> None:
        if count is not None:
            self._acknowledgements = (self._acknowledgements or 0) + count

    def _largest_topics(self) -> list[tuple[tuple[str, str], list[int]]]:
        """Topics and directions with their sums, most bytes first; the smallest as one."""
        largest = sorted(self._topics.items(), key=lambda item: (item[0][0] == _OTHERS, -item[1][1], item[0]))
        others: dict[tuple[str, str], list[int]] = {}
        for (_, direction), sums in largest[_KEPT:]:
            held = others.setdefault((_OTHERS, direction), [0, 0, 0])
            held[:] = map(sum, zip(held, sums, strict=True))
        return [*largest[:_KEPT], *sorted(others.items())]

    def _observe_exchanges(self, exchanges: pa.Table) -> None:
        if not len(exchanges):
            return
        for column in ("outcome", "decoded", "client_id"):
            self._count(column, exchanges[column])
        times = [exchanges[c].cast(pa.int64()) for c in ("requested", "response_done", "answered", "request_done")]
        known = [x for column in times for x in pc.min_max(column).as_py().values() if x is not None]
        if known:
            self._span(min(known), max(known))
        index, names = dictionary_codes(pc.fill_null(exchanges["api"], "(unknown)"))
        versions = pc.fill_null(exchanges["api_version"], -1).to_numpy()
        sizes = [pc.fill_null(exchanges[c], 0).to_numpy() for c in ("request_bytes", "response_bytes")]
        latency = exchanges["latency_ms"].to_numpy()
        for i, name in enumerate(names.to_pylist()):
            mine = index == i
            api = self._api(name)
            api.exchanges += int(mine.sum())
            api.versions |= {int(v) for v in np.unique(versions[mine]) if v >= 0}
            api.request_bytes += int(sizes[0][mine].sum())
            api.response_bytes += int(sizes[1][mine].sum())
            api.latency.add(latency[mine & (latency >= 0)])

    def _observe_talks(self, connections: pa.Table) -> None:
        rows = connections.filter(pc.greater(connections["tls_requests"], 0))
        times = [rows[column].cast(pa.int64()) for column in ("tls_first_request", "tls_last_answer")]
        columns = [rows["broker_port"], rows["tls_requests"], *times, rows["tls_answer_ms"]]
        for port, *talk in zip(*(column.to_pylist() for column in columns), strict=True):
            self._talks.setdefault(port, TlsTalk()).add(*talk)

    def _api(self, name: str | None) -> ApiSummary:
        return self._apis.setdefault(name or "(unknown)", ApiSummary())

    def _count(self, name: str, values: Any) -> None:
        counter = self._counts[name]
        for row in pc.value_counts(values).to_pylist():
            key = "(none)" if row["values"] is None else row["values"]
            counter[key if key in counter or len(counter) < _HELD else _OTHERS] += row["counts"]

    def _topic(self, topic: str | None, direction: str, records: int | None, size: int | None, batches: int) -> None:
        key = (topic or "(unknown)", direction)
        if key not in self._topics and len(self._topics) >= _HELD:
            key = (_OTHERS, direction)
        sums = self._topics.setdefault(key, [0, 0, 0])
        for i, value in enumerate((records, size, batches)):
            sums[i] += value or 0

    def _span(self, first: int | None, last: int | None) -> None:
        if first is not None:
            self._first = first if self._first is None else min(self._first, first)
        if last is not None:
            self._last = last if self._last is None else max(self._last, last)


def capture_name(path: str) -> str:
    """A file with the directory that it is in, which tells apart what is called ``capture.pcap`` everywhere."""
    if path == "-":
        return "standard input"
    return "/".join(PurePath(told(split_settings(path)[0])).parts[-2:]).replace("//", "/")


def not_taken_note(result: Mapping[str, Any]) -> str:
    """A few words more on a capture, if connections on ports of Kafka were not taken for Kafka."""
    count = sum(row["connections"] for row in result.get("not_taken_for_kafka", ()))
    return f", {counted(count, 'connection')} on ports of Kafka not taken for Kafka" if count else ""


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts by name, those that are equal in order of their names: however they were put together.

    Those of the least are told as one, at the end.
    """
    ordered = sorted(counts.items(), key=lambda one: (one[0] == _OTHERS, -one[1], one[0]))
    rest = sum(count for _, count in ordered[_KEPT:])
    return dict(ordered[:_KEPT]) | ({_OTHERS: rest} if rest else {})
