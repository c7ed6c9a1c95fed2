"""Clients as people ask for them: what each is, how it is set as far as requests tell, what it does, how it fares."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.reports.answers.parties import beside, spoken
from kafkascope.reports.columns.arrow import integers, numbered
from kafkascope.reports.columns.json_numbers import whole_numbers
from kafkascope.reports.columns.series import FINEST, spans
from kafkascope.reports.measures.error_histogram import WHAT, WHERE
from kafkascope.reports.vocabulary.tables import CLIENTS
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

HEAD = 1_000  # characters of a request in which settings are looked for: they stand before what may be long
_VALUES = 1_000  # of one setting of one client that are told apart
_TOLD = 5  # values of a setting, names of errors

_FETCHES = ("Fetch", "ShareFetch")
_JOINS = ("JoinGroup", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat")
_HEARTBEATS = ("Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
_COMMITS = ("OffsetCommit", "TxnOffsetCommit")
_ISOLATION: dict[Any, str] = {0: "read_uncommitted", 1: "read_committed"}

# Columns by the APIs whose requests say them, and the fields there (Kafka's message definitions).
_SETTINGS: dict[tuple[str, ...], dict[str, str]] = {
    _FETCHES: {
        "max_wait_ms": "maxWaitMs",
        "min_bytes": "minBytes",
        "max_bytes": "maxBytes",
        "partition_max_bytes": "partitionMaxBytes",
        "isolation_level": "isolationLevel",
    },
    ("Produce",): {"acks": "acks", "request_timeout_ms": "timeoutMs"},
    ("JoinGroup",): {"session_timeout_ms": "sessionTimeoutMs"},
    _JOINS: {"rebalance_timeout_ms": "rebalanceTimeoutMs"},  # -1 in heartbeats: as before
}
ASKING = tuple(sorted({api for apis in _SETTINGS for api in apis}))
"""APIs in the heads of whose requests settings are looked for."""

SETTINGS = (
    *("software", "software_version", "security", "max_wait_ms", "min_bytes", "max_bytes", "partition_max_bytes"),
    *("isolation_level", "acks", "request_timeout_ms", "compression", "session_timeout_ms", "rebalance_timeout_ms"),
)
"""Columns of ``CLIENTS`` of which a client may show several values: the most frequent one is told."""


@dataclass(slots=True)
class _Client:
    """What was seen of one client. Times are nanoseconds."""

    values: defaultdict[str, Counter[Any]] = field(default_factory=lambda: defaultdict(Counter))  # of settings
    apis: Counter[str] = field(default_factory=Counter)
    begins: dict[str, int] = field(default_factory=dict)  # of the first request, by API
    ends: dict[str, int] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    errors: Counter[str] = field(default_factory=Counter)
    sums: Counter[str] = field(default_factory=Counter)
    largest_batch_bytes: int | None = None
    idle_ms: int | None = None

    def count(self, setting: str, value: Any, times: int) -> None:
        """Take in how often it showed a value of a setting; None: it showed none."""
        if value is not None and (value in (known := self.values[setting]) or len(known) < _VALUES):
            known[value] += times

    def every(self, apis: Iterable[str]) -> float | None:
        """Mean milliseconds from one request to the next, of that of some APIs which it used most."""
        api = max(apis, key=lambda api: self.apis[api])
        count = self.apis[api]
        return (self.ends[api] - self.begins[api]) / MILLISECOND_NS / (count - 1) if count > 1 else None

    def row(self) -> dict[str, Any]:
        """Its columns of ``CLIENTS``."""
        first, last = min(self.begins.values(), default=None), max(self.ends.values(), default=None)
        lasted = 0 if first is None or last is None else last - first
        requests, batches = self.apis.total(), self.sums["batches"]
        varied = [name for name in SETTINGS if name in self.values and len(self.values[name]) > 1]
        return {
            **{name: _ranked(of)[0][0] for name, of in self.values.items()},
            "varied": [f"{name}: {_numbered(self.values[name])}" for name in varied],
            "groups": sorted(self.groups),
            "topics": sorted(self.topics),
            "apis": [api for api, _ in _ranked(self.apis)],
            "first": first,
            "last": last,
            "idempotent": self.sums["with_producer_id"] > 0 if batches else None,
            "largest_batch_bytes": self.largest_batch_bytes,
            "records_per_batch": self.sums["records"] / batches if batches else None,
            "requests": requests,
            "requests_per_second": requests * SECOND_NS / lasted if lasted else None,
            "heartbeat_every_ms": self.every(_HEARTBEATS),
            "commit_every_ms": self.every(_COMMITS),
            "idle_ms": self.idle_ms,
            "errors": self.errors.total(),
            "error_names": [f"{name} {count}" for name, count in _ranked(self.errors)[:_TOLD]],
            **{name: self.sums[name] for name in _SUMS},
        }


_SUMS = ("unanswered", "throttled_ms", "connections", "reconnects", "failed_connects", "resets", "retransmits")


def clients(tables: Mapping[str, ds.Dataset]) -> pa.Table:
    """Rows of ``CLIENTS`` out of the tables connections, exchanges, errors, error_histogram, batches, partitions.

    What is not there leaves its columns empty. Memory is bounded by connections, and by clients and the seconds in
    which each asked for something, not by exchanges.
    """
    if "connections" not in tables:
        return CLIENTS.empty_table()
    ends = numbered(spoken(tables["connections"], _OF_CONNECTION))
    keys = ends.group_by(["client_id", "client"], use_threads=False).aggregate([]).select(["client_id", "client"])
    places = {tuple(key.values()): place for place, key in enumerate(keys.to_pylist())}
    who = [places[key] for key in zip(ends["client_id"].to_pylist(), ends["client"].to_pylist(), strict=True)]
    ends = ends.append_column("who", pa.array(who, pa.int64()))
    found = [_Client() for _ in places]
    _connections(found, ends)
    _exchanges(found, tables, ends)
    _settings(found, tables, ends)
    _batches(found, tables, ends)
    _errors(found, tables, ends)
    rows = [dict(zip(("client_id", "client"), key, strict=True)) | found[place].row() for key, place in places.items()]
    rows.sort(key=lambda row: (row["client_id"] is None, row["client_id"] or "", row["client"]))
    return pa.Table.from_pylist(rows, schema=CLIENTS)


_OF_CONNECTION = ("opened", "closed", "how_closed", "retransmits", "software", "software_version", "security")


def _connections(found: list[_Client], ends: pa.Table) -> None:
    closed: dict[tuple[int, str], int] = {}  # when the first one to a broker was
    rows = ends.to_pylist()
    for row in rows:
        if row["closed"] is not None and not row["failed"]:
            key = (row["who"], row["broker"])
            closed[key] = min(row["closed"], closed.get(key, row["closed"]))
    for row in rows:
        one = found[row["who"]]
        one.sums["retransmits"] += row["retransmits"] or 0
        if row["failed"]:
            one.sums["failed_connects"] += 1
            continue
        one.sums["connections"] += 1
        one.sums["resets"] += row["how_closed"] == "rst"
        before = closed.get((row["who"], row["broker"]))
        one.sums["reconnects"] += before is not None and row["opened"] is not None and row["opened"] > before
        for name in ("software", "software_version", "security"):
            one.count(name, row[name], 1)


def _exchanges(found: list[_Client], tables: Mapping[str, ds.Dataset], ends: pa.Table) -> None:
    columns = ["api", "requested", "answered", "group_id", "outcome", "throttle_ms"]
    seconds = []
    for rows in beside(tables.get("exchanges"), columns, ends, ["who"]):
        rows = rows.append_column("at", pc.coalesce(rows["requested"], rows["answered"]).cast(pa.int64()))
        rows = rows.append_column("unanswered", pc.equal(rows["outcome"], "unanswered").cast(pa.int64()))
        measures = [("at", "min"), ("at", "max"), ("who", "count"), ("unanswered", "sum"), ("throttle_ms", "sum")]
        for row in rows.group_by(["who", "api"]).aggregate(measures).to_pylist():
            one, api = found[row["who"]], row["api"] or "(unknown)"
            one.apis[api] += row["who_count"]
            one.sums["unanswered"] += row["unanswered_sum"] or 0
            one.sums["throttled_ms"] += row["throttle_ms_sum"] or 0
            if row["at_min"] is not None:
                one.begins[api] = min(row["at_min"], one.begins.get(api, row["at_min"]))
                one.ends[api] = max(row["at_max"], one.ends.get(api, row["at_max"]))
        for row in _distinct(rows, "group_id"):
            found[row["who"]].groups.add(row["group_id"])
        rows = rows.append_column("second", pc.floor(pc.divide(rows["at"], SECOND_NS)))
        seconds.append(rows.select(["who", "second"]).group_by(["who", "second"]).aggregate([]))
    if not seconds:
        return
    active = pa.concat_tables(seconds).drop_null().sort_by([("who", "ascending"), ("second", "ascending")])
    who, at = (active[name].to_numpy().astype(np.int64) for name in ("who", "second"))
    same = np.diff(who) == 0
    longest = np.zeros(len(found), np.int64)
    np.maximum.at(longest, who[1:][same], np.diff(at)[same])
    for i in np.flatnonzero(longest).tolist():
        found[i].idle_ms = int(longest[i]) * 1000


def _settings(found: list[_Client], tables: Mapping[str, ds.Dataset], ends: pa.Table) -> None:
    asked = pc.field("api").isin(ASKING) & pc.field("request").is_valid()
    columns = {"api": pc.field("api"), "head": pc.utf8_slice_codeunits(pc.field("request"), 0, HEAD)}
    for rows in beside(tables.get("exchanges"), columns, ends, ["who"], asked):
        for apis, settings in _SETTINGS.items():
            of_apis = rows.filter(pc.is_in(rows["api"], pa.array(apis)))
            said = dict(zip(settings, whole_numbers(of_apis["head"], [*settings.values()]), strict=True))
            together = pa.table({"who": of_apis["who"], **said}).group_by(["who", *settings])
            for row in together.aggregate([([], "count_all")]).to_pylist():
                for setting in settings:
                    found[row["who"]].count(setting, _meant(setting, row[setting]), row["count_all"])


def _meant(setting: str, value: int | None) -> int | str | None:
    if value == -1 and setting != "acks":
        return None
    return _ISOLATION.get(value) if setting == "isolation_level" else value


def _batches(found: list[_Client], tables: Mapping[str, ds.Dataset], ends: pa.Table) -> None:
    for rows in beside(tables.get("partitions"), ["topic"], ends, ["who"]):
        for row in _distinct(rows, "topic"):
            found[row["who"]].topics.add(row["topic"])
    columns = ["topic", "codec", "records", "bytes", "producer_id"]
    produced = (pc.field("direction") == "produce") & ~pc.coalesce(pc.field("control"), pc.scalar(False))
    for rows in beside(tables.get("batches"), columns, ends, ["who"], produced):
        rows = rows.append_column("with_producer_id", pc.fill_null(pc.greater_equal(rows["producer_id"], 0), False))
        measures = [("who", "count"), ("records", "sum"), ("bytes", "max"), ("with_producer_id", "sum")]
        for row in rows.group_by(["who", "codec"]).aggregate(measures).to_pylist():
            one = found[row["who"]]
            one.count("compression", row["codec"], row["who_count"])
            one.sums["batches"] += row["who_count"]
            one.sums["records"] += row["records_sum"] or 0
            one.sums["with_producer_id"] += row["with_producer_id_sum"]
            if row["bytes_max"] is not None:
                one.largest_batch_bytes = max(one.largest_batch_bytes or 0, row["bytes_max"])
        for row in _distinct(rows, "topic"):
            found[row["who"]].topics.add(row["topic"])


def _errors(found: list[_Client], tables: Mapping[str, ds.Dataset], ends: pa.Table) -> None:
    ordinary: dict[tuple[Any, ...], bool] = {}  # by what, where, and the begin of the span
    widths: dict[str | None, int] = {}  # of spans, by error
    histogram = tables.get("error_histogram")
    columns = [*WHAT, *WHERE, "at", "width_ms", "ordinary"]
    for batch in histogram.to_batches(columns=columns) if histogram is not None else ():
        for row in numbered(pa.Table.from_batches([batch])).to_pylist():
            widths[row["error"]] = row["width_ms"] * MILLISECOND_NS
            key = _error_key(row, row["at"])
            ordinary[key] = ordinary.get(key, True) and bool(row["ordinary"])
    for rows in beside(tables.get("errors"), [*WHAT, *WHERE, "at"], ends, ["who"]):
        rows = rows.append_column("span", pa.array(spans(integers(rows["at"]))))
        for row in rows.group_by(["who", *WHAT, *WHERE, "span"]).aggregate([([], "count_all")]).to_pylist():
            at = row["span"] - row["span"] % widths.get(row["error"], FINEST)
            others = row | dict.fromkeys(WHERE)  # of which there are too many to tell them apart
            if not ordinary.get(_error_key(row, at), ordinary.get(_error_key(others, at), False)):
                found[row["who"]].errors[row["error"] or "(unknown)"] += row["count_all"]


def _error_key(row: Mapping[str, Any], at: int) -> tuple[Any, ...]:
    return *(row[name] for name in (*WHAT, *WHERE)), at


def _distinct(rows: pa.Table, name: str) -> list[dict[str, Any]]:
    """Whose each name is, each once."""
    pairs = rows.select(["who", name]).drop_null().group_by(["who", name]).aggregate([])
    return list(pairs.to_pylist())


def _ranked(counts: Counter[Any]) -> list[tuple[Any, int]]:
    """The most frequent first, whatever the order in which they came."""
    return sorted(counts.items(), key=lambda one: (-one[1], str(one[0])))


def _numbered(counts: Counter[Any]) -> str:
    told = [f"{value} ({count})" for value, count in _ranked(counts)[:_TOLD]]
    return ", ".join(told) + (f" and {len(counts) - _TOLD} more" if len(counts) > _TOLD else "")
