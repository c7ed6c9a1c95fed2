"""What was sent and fetched, by topic and client, and how well it was batched and compressed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.reports.columns.arrow import one_array
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

FLOWS = 200  # that are listed
RATES = 6  # that are drawn: more cannot be told apart
BINS = 80  # spans of time that a picture has side by side
_COUNTED = 100_000  # topics by client that are told apart
_KEYS = ["topic", "direction", "client_id"]
_COLUMNS = ["topic", "direction", "client_id", "from", "width_ms", "requests", "empty", "batches", "records", "bytes"]
_SUMS = ("requests", "empty", "batches", "single_record_batches", "records", "bytes", "bytes_uncompressed")


@dataclass(slots=True)
class Flow:
    """One topic in one direction of one client. Bytes are those on the wire."""

    topic: str
    direction: str
    client_id: str | None
    requests: int = 0
    empty: int = 0  # fetches that brought nothing
    batches: int = 0
    single_record_batches: int = 0
    records: int = 0
    bytes: int = 0
    bytes_uncompressed: int = 0
    codecs: Counter[str] = field(default_factory=Counter)  # batches by codec

    @property
    def ratio(self) -> float | None:
        """Size on the wire against the size of what was compressed."""
        return self.bytes / self.bytes_uncompressed if self.bytes_uncompressed else None


@dataclass(frozen=True, slots=True)
class Rate:
    """Bytes a second of one topic and direction over time. Times are nanoseconds."""

    name: str
    times: list[int]
    rates: list[float]


@dataclass(frozen=True, slots=True)
class Throughput:
    """The answer, the most bytes first."""

    flows: list[Flow]
    rates: list[Rate]
    left_out: int


def throughput(table: ds.Dataset | None) -> Throughput | None:
    """The answer out of the table throughput; None without it."""
    if table is None:
        return None
    flows: dict[tuple[str, str, str | None], Flow] = {}
    spans: Counter[tuple[str, str, int]] = Counter()
    left_out = 0
    begins: list[int] = []
    ends: list[int] = []
    widest = 1
    for rows in _batches(table):
        for row in _summed(rows):
            key = (row["topic"], row["direction"], row["client_id"])
            if key not in flows and len(flows) >= _COUNTED:
                left_out += 1
                continue
            _add(flows.setdefault(key, Flow(*key)), row)
        if len(rows):
            begins.append(pc.min(rows["from"]).as_py())
            ends.append(pc.max(pc.add(rows["from"], rows["width"])).as_py())
            widest = max(widest, pc.max(rows["width"]).as_py())
    ranked = sorted(flows.values(), key=lambda f: (-f.bytes, -f.requests, f.topic, f.direction, f.client_id or ""))
    drawn = list(dict.fromkeys((f.topic, f.direction) for f in ranked if f.bytes))[:RATES]
    for rows in _batches(table):
        sums = rows.group_by(["topic", "direction", "from"]).aggregate([("bytes", "sum")])
        for row in sums.to_pylist():
            if (row["topic"], row["direction"]) in drawn:
                spans[row["topic"], row["direction"], row["from"]] += row["bytes_sum"] or 0
    rates = _rates(drawn, spans, min(begins), max(ends), widest) if begins else []
    return Throughput(ranked[:FLOWS], rates, left_out + max(0, len(ranked) - FLOWS))


def _batches(table: ds.Dataset) -> Iterator[pa.Table]:
    """Rows that are of a topic, with times as numbers."""
    for batch in table.to_batches(columns=[*dict.fromkeys([*_COLUMNS, *_SUMS]), "codecs"]):
        rows = pa.Table.from_batches([batch]).filter(pc.is_valid(batch["topic"]))
        rows = rows.set_column(rows.schema.get_field_index("from"), "from", rows["from"].cast(pa.int64()))
        yield rows.append_column("width", pc.multiply(rows["width_ms"], MILLISECOND_NS))


def _summed(rows: pa.Table) -> Iterator[Mapping[str, Any]]:
    """Sums over time, and besides them the batches of each codec."""
    yield from rows.group_by(_KEYS).aggregate([(name, "sum") for name in _SUMS]).to_pylist()
    lists = one_array(rows["codecs"])
    codecs = pc.list_flatten(lists)
    owners = rows.select(_KEYS).take(pc.list_parent_indices(lists))
    for name in ("codec", "batches"):
        owners = owners.append_column(name, pc.struct_field(codecs, name))
    yield from owners.group_by([*_KEYS, "codec"]).aggregate([("batches", "sum")]).to_pylist()


def _add(flow: Flow, row: Mapping[str, Any]) -> None:
    if "codec" in row:
        flow.codecs[row["codec"] or "none"] += row["batches_sum"] or 0
        return
    for name in _SUMS:
        setattr(flow, name, getattr(flow, name) + (row[f"{name}_sum"] or 0))


def _rates(
    drawn: list[tuple[str, str]], spans: Counter[tuple[str, str, int]], begin: int, end: int, widest: int
) -> list[Rate]:
    width = max(widest, -(-(end - begin) // BINS))
    count = max(1, -(-(end - begin) // width))
    rates = []
    for topic, direction in drawn:
        sums = np.zeros(count)
        for (of, way, at), size in spans.items():
            if (of, way) == (topic, direction):
                sums[min((at - begin) // width, count - 1)] += size
        times = [begin + i * width + width // 2 for i in range(count)]
        rates.append(Rate(f"{topic} {direction}", times, [float(rate) for rate in sums / (width / SECOND_NS)]))
    return rates
