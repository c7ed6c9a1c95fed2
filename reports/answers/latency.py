"""Latency as people ask for it: by API, by what the time was spent on, over time, and who waits longest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import dataset as ds

from kafkascope.reports.columns.arrow import dictionary_codes, one_array
from kafkascope.reports.measures.latency.histogram import ERROR, percentiles
from kafkascope.reports.measures.latency.parts import (
    APPLICATION,
    BROKER,
    NETWORK,
    OF_SLOW,
    PARTS,
    QUEUED,
    REPLICAS,
    SLOW,
    THROTTLED,
    TOTAL,
    TRANSFER,
    UNCLEAR,
    UNSPLIT,
    WAITING,
)
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.units import MILLISECOND_NS

FRACTIONS = (0.5, 0.9, 0.99, 0.999)
BINS = 80  # spans of time that a picture has side by side
RANKED = 60  # entries of a list of the slowest
_KEYS_COUNTED = 100_000  # brokers, clients and topics that are weighed for the list of the slowest
_ROW_BUCKETS = 18  # buckets of a histogram in one row of a picture: durations grow by 1.43 from row to row
_POLLING = frozenset(
    {"Produce", "Fetch", "ShareFetch"}
)  # what an application does all the time, if nothing holds it up
_EVERYWHERE = frozenset({TOTAL, SLOW, *OF_SLOW, TRANSFER, APPLICATION})  # parts that say little by themselves
_MUCH = 0.1  # share of the time from which on the network is worth a word
_LITTLE = 0.1  # share of what was slow up to which it need not be told apart for the broker's percentiles to be all
_MICROSECOND_MS = 1e-3
_GROWTH = (1 + ERROR) / (1 - ERROR)


@dataclass(frozen=True, slots=True)
class Spread:
    """How one set of durations is spread. Milliseconds."""

    count: int
    sum_ms: float
    at: tuple[float, ...]  # of FRACTIONS
    highest: float


@dataclass(frozen=True, slots=True)
class ApiLatency:
    """One API: all of it, and its parts where they tell something."""

    api: str
    total: Spread
    parts: Mapping[str, Spread]


@dataclass(frozen=True, slots=True)
class Heat:
    """Answers of one API by time and duration: u[cells, 3] of span, row, count."""

    api: str
    part: str
    cells: I64


@dataclass(frozen=True, slots=True)
class Ranked:
    """One broker, client or topic among the slowest of an API."""

    api: str
    kind: str
    name: str
    spread: Spread


@dataclass(frozen=True, slots=True)
class Latency:
    """The answer. Times are nanoseconds."""

    apis: list[ApiLatency]  # the most time first
    heats: list[Heat]
    begin: int
    width: int
    spans: int
    slowest: list[Ranked]  # by what was slow: waiting and throttling are left out
    applications: list[Ranked]  # by the time from an answer to the client's next request

    @staticmethod
    def row_ms(row: int) -> float:
        """Milliseconds at which a row of a heat map begins."""
        return 0.0 if row == 0 else float(_MICROSECOND_MS * _GROWTH ** (row * _ROW_BUCKETS))


PART_NAMES: dict[str, tuple[str, str]] = {
    TOTAL: ("all", "all of it"),
    WAITING: ("waiting", "waiting, as the client asked"),
    THROTTLED: ("throttled", "throttled by quota"),
    TRANSFER: ("transfer", "transfer, first to last byte"),
    QUEUED: ("queued", "queued behind an earlier request on the connection"),
    REPLICAS: ("replicas", "replicas did not follow in time"),
    UNSPLIT: ("unsplit", "waiting, or the broker: the capture does not tell"),
    SLOW: ("broker and network", "broker and network"),
    NETWORK: ("network", "network, there and back"),
    BROKER: ("broker", "broker and disk"),
    UNCLEAR: ("unclear", "broker or network: the capture does not tell"),
    APPLICATION: ("application", "application: answer to next request"),
}
"""What each part is called: in a word, and in words."""
_UNASKED = frozenset({SLOW, *OF_SLOW, QUEUED, REPLICAS, UNSPLIT, THROTTLED})  # what nobody asked for

_Key = tuple[str, ...]


def latency(table: ds.Dataset | None) -> Latency | None:
    """The answer out of the table latency; None without it. Memory is bounded by APIs and clients, not by rows."""
    if table is None:
        return None
    begin, end, widest = _extent(table)
    width = max(widest, -(-(end - begin) // BINS), 1)
    spans = max(1, -(-(end - begin) // width))
    slow, waiting = _weights(table)
    whole = _Histograms()
    heat: dict[_Key, NDArray[np.int64]] = {}
    ranked = _Histograms()
    for rows in _batches(table):
        once = rows.filter(pc.is_null(rows["topic"]))
        whole.add(once, [once["api"], once["part"]])
        _heat(heat, once, begin, width, spans)
        for part, chosen in ((SLOW, slow), (APPLICATION, waiting)):
            for kind, of_kind, names in _dimensions(_of_part(rows, part)):
                constant = [pa.array([text] * len(of_kind), pa.string()) for text in (part, kind)]
                ranked.add(of_kind, [of_kind["api"], *constant, names], chosen)
    apis = _apis(whole)
    of_rank = ranked.spreads()
    return Latency(
        apis,
        _heats(apis, heat),
        begin,
        width,
        spans,
        _ranked(of_rank, SLOW),
        _ranked(of_rank, APPLICATION),
    )


_COLUMNS = ["api", "broker", "client_id", "topic", "from", "part", "count", "sum_ms", "max", "bucket", "counts"]


def _batches(table: ds.Dataset) -> Iterator[pa.Table]:
    for batch in table.to_batches(columns=_COLUMNS):
        if batch.num_rows:
            rows = pa.Table.from_batches([batch])
            yield rows.set_column(4, "from", rows["from"].cast(pa.int64()))


def _extent(table: ds.Dataset) -> tuple[int, int, int]:
    begins, ends, widest = [], [], 1
    for batch in table.to_batches(columns=["from", "width_ms"]):
        if not batch.num_rows:
            continue
        since, width = batch["from"].cast(pa.int64()), pc.multiply(batch["width_ms"], MILLISECOND_NS)
        begins.append(pc.min(since).as_py())
        ends.append(pc.max(pc.add(since, width)).as_py())
        widest = max(widest, pc.max(width).as_py())
    return (min(begins), max(ends), widest) if begins else (0, 1, 1)


def _weights(table: ds.Dataset) -> tuple[set[_Key], set[_Key]]:
    """Keys (api, part, kind, name) of the brokers, clients and topics with most of their time lost."""
    sums: dict[_Key, float] = {}
    for rows in _batches(table):
        for part in (SLOW, APPLICATION):
            for kind, of_kind, names in _dimensions(_of_part(rows, part)):
                keyed = pa.table({"api": of_kind["api"], "name": names, "highest": of_kind["max"]})
                for row in keyed.group_by(["api", "name"]).aggregate([("highest", "max")]).to_pylist():
                    key = (row["api"], part, kind, row["name"])
                    if key in sums or len(sums) < _KEYS_COUNTED:
                        sums[key] = max(sums.get(key, 0.0), row["highest_max"])
    kept = []
    for part in (SLOW, APPLICATION):
        mine = sorted((key for key in sums if key[1] == part), key=lambda key: (-sums[key], key))
        kept.append(set(mine[: 3 * RANKED]))
    return kept[0], kept[1]


def _of_part(rows: pa.Table, part: str) -> pa.Table:
    mine = pc.equal(rows["part"], part)
    if part == APPLICATION:
        mine = pc.and_(mine, pc.is_in(rows["api"], pa.array(sorted(_POLLING))))
    return rows.filter(pc.fill_null(mine, False))


def _dimensions(rows: pa.Table) -> Iterator[tuple[str, pa.Table, pa.ChunkedArray]]:
    """Kind of dimension, the rows that have it, and their names in it."""
    of_topic = pc.is_valid(rows["topic"])
    by_topic, once = rows.filter(of_topic), rows.filter(pc.invert(of_topic))
    for kind, mine, column in (
        ("broker", once, "broker"),
        ("client", once, "client_id"),
        ("topic", by_topic, "topic"),
    ):
        named = mine.filter(pc.and_(pc.is_valid(mine[column]), pc.is_valid(mine["api"])))
        if len(named):
            yield kind, named, named[column]


class _Histograms:
    """Histograms that are added up by key."""

    def __init__(self) -> None:
        self._counts: dict[_Key, NDArray[np.int64]] = {}
        self._sums: dict[_Key, list[float]] = {}  # sum and highest

    def add(self, rows: pa.Table, columns: list[pa.ChunkedArray | pa.Array], chosen: set[_Key] | None = None) -> None:
        """Add the histograms of rows to those of the keys that the columns make (of the chosen keys, if any)."""
        if not len(rows):
            return
        keys = pa.table({str(i): column for i, column in enumerate(columns)})
        codes, distinct = dictionary_codes(pc.binary_join_element_wise(*keys.columns, "\x00", null_handling="replace"))
        order = np.argsort(codes, kind="stable")
        rows = rows.select(["bucket", "counts", "sum_ms", "max"]).take(pa.array(order))
        bucket, count, owner = _flat(rows)
        sums, highest = (rows[name].to_numpy() for name in ("sum_ms", "max"))
        edges = np.searchsorted(codes[order], np.arange(len(distinct) + 1))
        entries = np.searchsorted(owner, edges).tolist()
        for code, (name, (first, last)) in enumerate(zip(distinct.to_pylist(), pairwise(edges.tolist()), strict=True)):
            key = tuple(name.split("\x00", len(columns) - 1))  # names, which a capture made, come last
            if chosen is not None and key not in chosen:
                continue
            mine = slice(entries[code], entries[code + 1])
            values = np.bincount(bucket[mine], count[mine]).astype(np.int64)
            before = self._counts.get(key)
            if before is not None and len(before) > len(values):
                before[: len(values)] += values
                values = before
            elif before is not None:
                values[: len(before)] += before
            self._counts[key] = values
            kept = self._sums.setdefault(key, [0.0, 0.0])
            kept[0] += float(sums[first:last].sum())
            kept[1] = max(kept[1], float(highest[first:last].max()))

    def spreads(self) -> dict[_Key, Spread]:
        """What was added, by key."""
        used = {key: np.flatnonzero(counts) for key, counts in self._counts.items()}
        keys = [key for key, buckets in used.items() if len(buckets)]
        if not keys:
            return {}
        group = np.repeat(np.arange(len(keys)), [len(used[key]) for key in keys])
        counts = np.concatenate([self._counts[key][used[key]] for key in keys])
        highest = np.array([self._sums[key][1] for key in keys])
        at = percentiles(group, np.concatenate([used[key] for key in keys]), counts, highest, FRACTIONS)
        return {
            key: Spread(int(self._counts[key].sum()), self._sums[key][0], tuple(values), self._sums[key][1])
            for key, values in zip(keys, at.T.tolist(), strict=True)
        }


def _flat(rows: pa.Table) -> tuple[I64, I64, I64]:
    """Bucket and count of all entries of the rows' histograms, and the row of each."""
    bucket = one_array(rows["bucket"])
    owner = pc.list_parent_indices(bucket)
    flat, counts = (pc.list_flatten(one_array(rows[name])) for name in ("bucket", "counts"))
    wide = [column.to_numpy().astype(np.int64) for column in (flat, counts, owner)]
    return wide[0], wide[1], wide[2]


def _heat(heat: dict[_Key, NDArray[np.int64]], rows: pa.Table, begin: int, width: int, spans: int) -> None:
    wanted = rows.filter(pc.is_in(rows["part"], pa.array([TOTAL, SLOW])))
    if not len(wanted):
        return
    bucket, count, owner = _flat(wanted)
    span = np.clip((wanted["from"].to_numpy() - begin) // width, 0, spans - 1)[owner]
    row = bucket // _ROW_BUCKETS
    codes, distinct = dictionary_codes(
        pc.binary_join_element_wise(wanted["api"], wanted["part"], "\x00", null_handling="replace")
    )
    for code, name in enumerate(distinct.to_pylist()):
        mine = (codes == code)[owner]
        cells = heat.setdefault(tuple(name.split("\x00")), np.zeros((spans, 128), np.int64))
        np.add.at(cells, (span[mine], np.minimum(row[mine], 127)), count[mine])


def _apis(whole: _Histograms) -> list[ApiLatency]:
    by_api: dict[str, dict[str, Spread]] = {}
    for (api, part), spread in whole.spreads().items():
        by_api.setdefault(api, {})[part] = spread
    apis = [
        ApiLatency(api, parts[TOTAL], {name: parts[name] for name in _parts_of(api) if name in parts})
        for api, parts in by_api.items()
        if TOTAL in parts
    ]
    return sorted(apis, key=lambda one: (-one.total.sum_ms, one.api))


def _parts_of(api: str) -> list[str]:
    return [part for part in PARTS if part != TOTAL and (part != APPLICATION or api in _POLLING)]


def telling(one: ApiLatency) -> bool:
    """Whether the parts of an API's latency say more than the whole of it."""
    network = one.parts[NETWORK].sum_ms if NETWORK in one.parts else 0.0
    return one.api in _POLLING or not one.parts.keys() <= _EVERYWHERE or network >= _MUCH * one.total.sum_ms > 0


def of_broker(one: ApiLatency) -> tuple[Spread | None, bool]:
    """What brokers and their disks took of an API's time, and whether it is told; else it is the most it can be."""
    slow, broker, unclear = (one.parts.get(part) for part in (SLOW, BROKER, UNCLEAR))
    if slow is not None and broker is not None and (unclear is None or unclear.sum_ms <= _LITTLE * slow.sum_ms):
        return broker, True
    return slow, False


def spent_on(one: ApiLatency) -> dict[str, Spread]:
    """The parts that make up an API's time: each moment is in one of them alone."""
    left_out = {APPLICATION, SLOW} if any(part in one.parts for part in OF_SLOW) else {APPLICATION}
    return {name: part for name, part in one.parts.items() if name not in left_out}


def shares_of(one: ApiLatency) -> dict[str, float]:
    """What share of an API's time each of these parts took; nothing if it took none.

    How long a quota holds clients back behind answers (KIP-219) is no time of exchanges: it is part of the whole here.
    """
    parts = {name: part.sum_ms for name, part in spent_on(one).items()}
    whole = max(one.total.sum_ms, sum(parts.values()))
    return {name: spent / whole for name, spent in parts.items()} if one.total.sum_ms else {}


def tone(part: str, spread: Spread) -> str:
    """How bad a part is, by its time and not by its share: ``bad``, ``warn``, or nothing for what is ordinary."""
    if part not in _UNASKED:
        return ""
    p99 = spread.at[2]
    return "bad" if p99 >= threshold("long_answer") else "warn" if p99 >= threshold("slow_answer") else ""


def _heats(apis: list[ApiLatency], heat: Mapping[_Key, NDArray[np.int64]]) -> list[Heat]:
    found = []
    for one in apis:
        for part in (TOTAL, SLOW) if not one.parts.keys() <= _EVERYWHERE else (TOTAL,):
            cells = heat.get((one.api, part))
            if cells is not None and cells.any():
                span, row = np.nonzero(cells)
                found.append(Heat(one.api, part, np.stack([span, row, cells[span, row]], axis=1)))
    return found


def _ranked(spreads: Mapping[_Key, Spread], part: str) -> list[Ranked]:
    mine = [Ranked(key[0], key[2], key[3], spread) for key, spread in spreads.items() if key[1] == part]
    return sorted(mine, key=lambda one: (-one.spread.at[2], one.api, one.kind, one.name))[:RANKED]
