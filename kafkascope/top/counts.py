"""What is counted for the screen: rows by broker, client, topic, group and API, over the latest minute and in all.

Names come from whoever is on the network, so rows are bounded: what would be more counts under `OTHERS`. Where there is
no room, rows that were silent for a minute make some, and count there too from then on; so all rows of a kind always
add up to all that was counted. Time is that of the machine where one listens, else that of the packets.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope import watching
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.engine import EngineOptions
from kafkascope.lags import Lags
from kafkascope.reading import Batch, BatchSource
from kafkascope.reports.columns.arrow import one_array
from kafkascope.reports.columns.series import OTHERS
from kafkascope.reports.columns.text import address
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.groups.live import LiveGroups
from kafkascope.reports.incidents.incident import Incident
from kafkascope.reports.measures.latency.histogram import buckets_of, percentiles
from kafkascope.reports.views.clusters import ClustersView
from kafkascope.reports.views.groups import GroupsView
from kafkascope.reports.views.progress import ProgressView
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

ERRORS_PER_ROW = 20
"""Rows of a kind with the names of errors; of more only the number is known."""
MOST_CELLS = 200_000
"""Row, API and bucket of latency, in one slot of a kind: from then on APIs are not told apart."""
SLOT_NS = 5 * SECOND_NS
SLOTS = 12
"""The window: a minute, the last of its slots not over yet."""
REBALANCES_KEPT = 500

WAITING = frozenset({"Fetch", "ShareFetch", "JoinGroup", "SyncGroup"})
"""Their answers wait for data or for other members: how long that takes says nothing of how fast a broker is."""

BROKERS, CLIENTS, TOPICS, GROUPS, APIS = KINDS = ("brokers", "clients", "topics", "groups", "APIs")

_TIMES = ("response_done", "answered", "request_done", "requested")
_TABLES = frozenset({"exchanges", "errors", "partitions"})
_VIEWS = frozenset({GroupsView.name, ProgressView.name, ClustersView.name})
_COLUMNS = frozenset(
    {
        "connection",
        "number",
        "api",
        "error",
        "error_code",
        "client_id",
        "group_id",
        "latency_ms",
        "request_bytes",
        "response_bytes",
        *_TIMES,
    }
)


@dataclass(frozen=True, slots=True)
class Sums:
    """What of a row is added up."""

    exchanges: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    errors: int = 0  # error codes, wherever in responses they stand
    produced_records: int = 0
    produced_bytes: int = 0  # of record batches, as these two
    fetched_records: int = 0
    fetched_bytes: int = 0
    rebalances: int = 0


_PLACES = {name: place for place, name in enumerate(Sums.__dataclass_fields__)}
_UNTIMED = 4095  # in the place of a bucket: no latency is known
_OTHER_ROWS = 0
_OTHER_APIS = 0
_MOST_APIS = 1 << 10


@dataclass(frozen=True, slots=True)
class Row:
    """A broker, client, topic, group or API."""

    name: str
    window: Sums
    in_all: Sums
    seconds: float  # that the window has
    median_ms: float | None  # without `WAITING`, except where the row is one of them
    p99_ms: float | None
    lag: int | None  # records, of groups and topics of which it is known

    def per_second(self, value: float) -> float:
        """Of a sum of the window."""
        return value / self.seconds


@dataclass(frozen=True, slots=True)
class OfApi:
    """Exchanges of one API in the window of a row."""

    api: str
    exchanges: int
    median_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """A rebalance of a group."""

    group: str
    at: int
    trigger: str
    duration_ms: float | None


@dataclass(frozen=True, slots=True)
class Detail:
    """All that is known of one row."""

    row: Row
    apis: tuple[OfApi, ...]  # most exchanges first
    errors: tuple[tuple[str, int], ...]  # in all, most first
    lags: tuple[tuple[str, int], ...]  # by topic of a group, by group of a topic; most first
    rebalances: tuple[Rebalanced, ...]  # of a group, latest first


class _Slot:
    """Some seconds of one kind."""

    def __init__(self, rows: int) -> None:
        self.sums: I64 = np.zeros((rows, len(_PLACES)), np.int64)
        self.cells: I64 = np.empty(0, np.int64)  # row, API and bucket in one number, ascending
        self.counts: I64 = np.empty(0, np.int64)

    def count(self, row: I64, api: I64, bucket: I64) -> None:
        if len(self.cells) > MOST_CELLS:
            api = np.full_like(api, _OTHER_APIS)
        cells = (row * _MOST_APIS + api) * (_UNTIMED + 1) + bucket
        self.cells, self.counts = _added(np.concatenate([self.cells, cells]), [self.counts, np.ones(len(row))])


class _Kind:
    """All rows of one kind."""

    def __init__(self, rows: int) -> None:
        """Of so many rows, besides `OTHERS`."""
        size = rows + 1
        self.others = 0  # names that found no row, and were not told yet
        self._places: dict[str, int] = {}
        self._free = list(range(size - 1, _OTHER_ROWS, -1))
        self._in_all: I64 = np.zeros((size, len(_PLACES)), np.int64)
        self._errors: Counter[tuple[int, str]] = Counter()
        self._slots: dict[int, _Slot] = {}  # by number since 1970

    def advance(self, latest: int) -> None:
        """The window ends with this slot."""
        self._slots = {number: slot for number, slot in self._slots.items() if number > latest - SLOTS}
        if self._free:
            return
        busy = np.zeros(len(self._in_all), np.bool_)
        for slot in self._slots.values():
            busy |= slot.sums.any(axis=1)
        for name, place in list(self._places.items()):
            if not busy[place]:
                self._in_all[_OTHER_ROWS] += self._in_all[place]
                self._in_all[place] = 0
                self._free.append(self._places.pop(name))
        gone = set(self._free)
        self._errors = _counter(
            ((_OTHER_ROWS if place in gone else place, error), count) for (place, error), count in self._errors.items()
        )

    def places(self, names: pa.Array | pa.ChunkedArray) -> I64:
        """The row of each name."""
        encoded = pc.dictionary_encode(names)
        encoded = one_array(encoded)
        places = np.array([self._place(name) for name in encoded.dictionary.to_pylist()] or [0], np.int64)
        found: I64 = places[encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)]
        return found

    def _place(self, name: str) -> int:
        if name not in self._places:
            if not self._free or name == OTHERS:
                self.others += name != OTHERS
                return _OTHER_ROWS
            self._places[name] = self._free.pop()
        return self._places[name]

    def names(self) -> list[str]:
        """Of all rows."""
        return list(self._places)

    def rename(self, name: str, new: str) -> None:
        """Count what has a name under another one; sums and errors, and no exchanges by API."""
        place = self._places.pop(name)
        into = self._places.setdefault(new, place)
        if into == place:
            return
        for sums in (self._in_all, *(slot.sums for slot in self._slots.values())):
            sums[into] += sums[place]
            sums[place] = 0
        self._errors = _counter(((into if of == place else of, error), n) for (of, error), n in self._errors.items())
        self._free.append(place)

    def add(self, row: I64, slot: I64, latest: int, values: Mapping[str, I64]) -> list[tuple[_Slot, Bool]]:
        """Add to sums, in all and of slots; slots of the window that there is something for, and what."""
        for name, value in values.items():
            np.add.at(self._in_all[:, _PLACES[name]], row, value)
        found = []
        for number in np.unique(slot[slot > latest - SLOTS]).tolist():
            here = slot == number
            of_slot = self._slots.setdefault(number, _Slot(len(self._in_all)))
            for name, value in values.items():
                np.add.at(of_slot.sums[:, _PLACES[name]], row[here], value[here])
            found.append((of_slot, here))
        return found

    def add_errors(self, row: I64, errors: pa.ChunkedArray) -> None:
        for place, error in zip(row.tolist(), pc.fill_null(errors, "unknown").to_pylist(), strict=True):
            key = place, error
            is_kept = key in self._errors or len(self._errors) < ERRORS_PER_ROW * len(self._in_all)
            self._errors[key if is_kept else (place, OTHERS)] += 1

    def rows(self, seconds: float, waiting: list[int], lags: Mapping[str, int]) -> list[Row]:
        """All rows; of `OTHERS` only if it has anything. waiting: APIs whose latency does not count."""
        window = np.sum([slot.sums for slot in self._slots.values()] or [np.zeros_like(self._in_all)], axis=0)
        of_row, api, bucket, count = self._cells()
        timed = (bucket != _UNTIMED) & ~np.isin(api, waiting)
        median, p99 = _percentiles(of_row[timed], bucket[timed], count[timed], len(window))
        found = []
        for name, place in [(OTHERS, _OTHER_ROWS), *self._places.items()]:
            if place == _OTHER_ROWS and not self._in_all[_OTHER_ROWS].any():
                continue
            sums = Sums(*window[place].tolist()), Sums(*self._in_all[place].tolist())
            found.append(Row(name, *sums, seconds, median[place], p99[place], lags.get(name)))
        return found

    def apis(self, name: str, names: list[str]) -> list[OfApi]:
        """Exchanges of a row by API; names: of APIs, by number."""
        of_row, api, bucket, count = self._cells()
        mine = of_row == self._places.get(name, _OTHER_ROWS)
        in_all = np.bincount(api[mine], count[mine], len(names)).astype(np.int64)
        timed = mine & (bucket != _UNTIMED)
        median, p99 = _percentiles(api[timed], bucket[timed], count[timed], len(names))
        found = [OfApi(names[one], int(in_all[one]), median[one], p99[one]) for one in np.flatnonzero(in_all).tolist()]
        return sorted(found, key=lambda one: (-one.exchanges, one.api))

    def errors(self, name: str) -> list[tuple[str, int]]:
        """Errors of a row with how many there were in all."""
        place = self._places.get(name, _OTHER_ROWS)
        found = [(error, count) for (of, error), count in self._errors.items() if of == place]
        return sorted(found, key=lambda one: (-one[1], one[0]))

    def _cells(self) -> tuple[I64, I64, I64, I64]:
        """Row, API, bucket and count of the whole window, ascending."""
        slots = self._slots.values()
        none = np.empty(0, np.int64)
        cells, count = _added(
            np.concatenate([none, *(slot.cells for slot in slots)]), [none, *(slot.counts for slot in slots)]
        )
        rest, bucket = np.divmod(cells, _UNTIMED + 1)
        row, api = np.divmod(rest, _MOST_APIS)
        return row, api, bucket, count


class Counts:
    """Rows of batches in, rows of the screen out, whenever they are asked for; from any thread."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._kinds = {kind: _Kind(limits.rows) for kind in KINDS}
        self._apis = [OTHERS]
        self._lags = Lags()
        self._groups = LiveGroups(limits=limits)
        self._rebalances: deque[Rebalanced] = deque(maxlen=REBALANCES_KEPT)
        self._begun: int | None = None
        self._now = 0  # nanoseconds since 1970
        self._latest = 0  # slot
        self.packets = 0
        self.lost: Mapping[str, int] = {}
        self.incidents: Sequence[Incident] | None = None  # that go on; None: nobody looks for them

    def observe(self, batch: Batch, source: BatchSource) -> None:
        """Count what a batch has."""
        tables = {name: source.topic_names.resolve(table) for name, table in batch.tables.items()}
        history = watching.feed(self._groups, tables.get(GroupsView.name), source)
        with self._lock:
            self.packets, self.incidents, self.lost = source.packets, source.incidents, source.lost
            self._pass(source.now(), [])
            self._rename(source.topic_names)
            if (exchanges := tables.get("exchanges")) is not None and len(exchanges):
                self._exchanges(exchanges, batch, source.now())
            if (errors := tables.get("errors")) is not None and len(errors):
                self._errors(errors, batch, source.now())
            if (partitions := tables.get("partitions")) is not None and len(partitions):
                self._partitions(partitions, source.now())
            if (positions := tables.get(ProgressView.name)) is not None:
                self._lags.observe(positions, self._groups.clusters)
            for rebalance in history.rebalances:
                self._rebalance(rebalance)
            others = sum(kind.others for kind in self._kinds.values())
            for kind in self._kinds.values():
                kind.others = 0
        if others:
            detail = f"so many names of a kind that others count as {OTHERS} ({self._limits.option('rows')})"
            source.note([Issue("too_many_names", detail, count=others)])

    def _rename(self, names: TopicNames) -> None:
        """Topics that were counted by id go by their names, once these are told."""
        topics = self._kinds[TOPICS]
        for by_id, name in names.names_of(topics.names()).items():
            topics.rename(by_id, name)
        self._lags.rename(names)

    def finish(self, source: BatchSource) -> None:
        """Count what only the end makes sure."""
        history = watching.finish(self._groups, source)
        with self._lock:
            self.lost = source.lost
            for rebalance in history.rebalances:
                self._rebalance(rebalance)

    @property
    def now(self) -> int:
        """Time up to which there is something, in nanoseconds since 1970; 0: nothing yet."""
        with self._lock:
            return self._now

    def rows(self, kind: str, now: int = 0) -> list[Row]:
        """Rows of one of `KINDS`, in no order. now: the time of the machine, where that is the time that counts."""
        with self._lock:
            return self._rows(kind, now)

    def detail(self, kind: str, name: str, now: int = 0) -> Detail | None:
        """One row and all that is known of it; None if there is none of this name any more."""
        with self._lock:
            row = next((row for row in self._rows(kind, now) if row.name == name), None)
            if row is None:
                return None
            rows = self._kinds[kind]
            lags = self._lags.by_group_and_topic().items()
            of = {GROUPS: 0, TOPICS: 1}.get(kind)
            mine = [] if of is None else [(key[1 - of], lag) for key, lag in lags if key[of] == name]
            return Detail(
                row,
                tuple(rows.apis(name, self._apis)),
                tuple(rows.errors(name)),
                tuple(sorted(mine, key=lambda one: (-one[1], one[0]))),
                tuple(one for one in reversed(self._rebalances) if kind == GROUPS and one.group == name),
            )

    def _rows(self, kind: str, now: int) -> list[Row]:
        self._pass(now, [])
        lags: Counter[str] = Counter()
        of = {GROUPS: 0, TOPICS: 1}.get(kind)
        for key, lag in self._lags.by_group_and_topic().items() if of is not None else ():
            lags[key[of or 0]] += lag
        waiting = [] if kind == APIS else [place for place, api in enumerate(self._apis) if api in WAITING]
        begin = max((self._latest - SLOTS + 1) * SLOT_NS, self._begun or 0)
        return self._kinds[kind].rows(max((self._now - begin) / SECOND_NS, 1.0), waiting, lags)

    def _pass(self, now: int, at: I64 | list[int]) -> None:
        """Time passes, to what is known of it."""
        known = [*([now] if now else []), *([int(np.max(at))] if len(at) else [])]
        if not known:
            return
        if self._begun is None:
            self._begun = now or int(np.min(at))
        self._now = max(self._now, *known)
        if self._now // SLOT_NS > self._latest:
            self._latest = self._now // SLOT_NS
            for kind in self._kinds.values():
                kind.advance(self._latest)

    def _slots(self, times: Any, now: int) -> I64:
        """The slot of each time; of none the latest. A clock that goes before that of the machine is not believed."""
        at: I64 = pc.fill_null(times.cast(pa.int64()), self._now).to_numpy()
        at = np.minimum(at, now) if now else at
        self._pass(now, at)
        return at // SLOT_NS

    def _exchanges(self, exchanges: pa.Table, batch: Batch, now: int) -> None:
        slot = self._slots(pc.coalesce(*(exchanges[name] for name in _TIMES)), now)
        apis = pc.fill_null(exchanges["api"], "unknown")
        api = self._api_numbers(apis)
        bucket = np.full(len(exchanges), _UNTIMED, np.int64)
        timed = pc.is_valid(exchanges["latency_ms"]).to_numpy()
        latency_ms = np.maximum(exchanges["latency_ms"].drop_null().to_numpy(), 0)
        bucket[timed] = buckets_of(np.rint(latency_ms * MILLISECOND_NS).astype(np.int64))
        sums = {name: _whole(exchanges[name]) for name in ("request_bytes", "response_bytes")}
        sums["exchanges"] = np.ones(len(exchanges), np.int64)
        names = {**_ends(exchanges, batch), GROUPS: exchanges["group_id"], APIS: apis}
        for kind, named in names.items():
            has = pc.is_valid(named).to_numpy(zero_copy_only=False)
            rows = self._kinds[kind]
            place = rows.places(named.drop_null())
            mine, of_api, of_bucket = slot[has], api[has], bucket[has]
            values = {name: value[has] for name, value in sums.items()}
            for of_slot, here in rows.add(place, mine, self._latest, values):
                of_slot.count(place[here], of_api[here], of_bucket[here])

    def _errors(self, errors: pa.Table, batch: Batch, now: int) -> None:
        slot = self._slots(errors["at"], now)
        names = {**_ends(errors, batch), GROUPS: errors["group_id"], TOPICS: errors["topic"], APIS: errors["api"]}
        for kind, named in names.items():
            has = pc.is_valid(named)
            rows = self._kinds[kind]
            place = rows.places(named.drop_null())
            rows.add_errors(place, errors["error"].filter(has))
            mine = slot[has.to_numpy(zero_copy_only=False)]
            rows.add(place, mine, self._latest, {"errors": np.ones(len(place), np.int64)})

    def _partitions(self, partitions: pa.Table, now: int) -> None:
        partitions = partitions.filter(pc.is_valid(partitions["topic"]))
        slot = self._slots(partitions["at"], now)
        is_produced = pc.equal(partitions["api"], "Produce").to_numpy(zero_copy_only=False)
        rows = self._kinds[TOPICS]
        place = rows.places(partitions["topic"])
        sums: dict[str, I64] = {}
        for way, mine in (("produced", is_produced), ("fetched", ~is_produced)):
            sums |= {f"{way}_{what}": _whole(partitions[what]) * mine for what in ("records", "bytes")}
        rows.add(place, slot, self._latest, sums)

    def _rebalance(self, rebalance: Rebalance) -> None:
        at = rebalance.stable or rebalance.joined or rebalance.started or self._now
        self._rebalances.append(Rebalanced(rebalance.group_id, at, rebalance.trigger, rebalance.duration_ms))
        rows = self._kinds[GROUPS]
        place, slot = rows.places(pa.array([rebalance.group_id])), np.array([at // SLOT_NS])
        rows.add(place, slot, self._latest, {"rebalances": np.ones(1, np.int64)})

    def _api_numbers(self, apis: pa.ChunkedArray) -> I64:
        encoded = one_array(apis).dictionary_encode()
        numbers = []
        for api in encoded.dictionary.to_pylist():
            if api not in self._apis and len(self._apis) < _MOST_APIS:
                self._apis.append(api)
            numbers.append(self._apis.index(api) if api in self._apis else _OTHER_APIS)
        found: I64 = np.array(numbers, np.int64)[encoded.indices.to_numpy()]
        return found


def with_needed(options: EngineOptions) -> EngineOptions:
    """The options with what is looked at here, too."""
    return options.with_more(_TABLES, _COLUMNS).with_views_at_once(_VIEWS)


def follow(source: BatchSource, counts: Counts) -> None:
    """Count all that comes of a source, until it ends."""
    for batch in source.batches():
        counts.observe(batch, source)
    counts.finish(source)


def _ends(rows: pa.Table, batch: Batch) -> dict[str, pa.Array]:
    """Broker and client of each row: address and port; client id and address."""
    encoded = one_array(rows["connection"]).dictionary_encode()
    ends = [batch.endpoints.get(connection) for connection in encoded.dictionary.to_pylist()]
    broker = pa.array([end and address(end.broker, end.broker_port) for end in ends], pa.string())
    host = pa.array([end and end.client for end in ends], pa.string())
    ids = one_array(pc.fill_null(rows["client_id"], "(no client id)"))
    return {
        BROKERS: broker.take(encoded.indices),
        CLIENTS: pc.binary_join_element_wise(ids, host.take(encoded.indices), " "),
    }


def _whole(column: pa.ChunkedArray) -> I64:
    values: I64 = pc.fill_null(column, 0).to_numpy()
    return values


def _added(keys: I64, counts: list[Any]) -> tuple[I64, I64]:
    """Keys in ascending order, each once, with the sum of its counts."""
    distinct, place = np.unique(keys, return_inverse=True)
    total = np.bincount(place.reshape(-1), np.concatenate(counts), len(distinct))
    return distinct, total.astype(np.int64)


def _percentiles(of: I64, bucket: I64, count: I64, size: int) -> tuple[list[float | None], list[float | None]]:
    """Median and 99th percentile in milliseconds of each of size histograms, None where one is empty."""
    cells, count = _added(of * (_UNTIMED + 1) + bucket, [count])
    of, bucket = np.divmod(cells, _UNTIMED + 1)
    filled, group = np.unique(of, return_inverse=True)
    # The highest value itself is not kept: a percentile may be above it by what a bucket is wide.
    no_limit = np.full(len(filled), np.inf)
    found = percentiles(group.reshape(-1), bucket.astype(np.int32), count, no_limit, [0.5, 0.99])
    results: list[list[float | None]] = [[None] * size, [None] * size]
    for result, values in zip(results, found.tolist(), strict=True):
        for place, value in zip(filled.tolist(), values, strict=True):
            result[place] = value
    return results[0], results[1]


def _counter(items: Iterable[tuple[Any, int]]) -> Counter[Any]:
    total: Counter[Any] = Counter()
    for key, count in items:
        total[key] += count
    return total
