"""Beginnings of real captures as values that tests can damage, and what came of them as values that can be compared."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kafkascope.engine import ALL_TABLES, Engine, EngineOptions, Tables
from kafkascope.reading import Reading
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.columns.views import Known
from kafkascope.reports.views.registry import VIEWS
from kafkascope.sniffer.columns import Segments
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.sources.files import open_capture
from tests.joined import joined
from tests.paths import PCAPS

FILE_HEADER, RECORD_HEADER = 24, 16
OPTIONS = EngineOptions(tables=ALL_TABLES)
FIN, SYN, RST = 1, 2, 4

Row = dict[str, Any]


def beginning(name: str, packets: int) -> bytes:
    """The first packets of a classic little-endian capture as a file."""
    data = (PCAPS / name).read_bytes()
    return data[: record_offsets(data)[:packets][-1]]


def record_offsets(data: bytes) -> list[int]:
    """Where each whole packet of a little-endian capture file ends."""
    ends, at = [], FILE_HEADER
    while at + RECORD_HEADER <= len(data):
        at += RECORD_HEADER + int(struct.unpack_from("<I", data, at + 8)[0])
        if at <= len(data):
            ends.append(at)
    return ends


def read_file(path: Path) -> tuple[Tables, Reading]:
    """All rows of a file."""
    with Reading([str(path)], OPTIONS) as reading:
        rows = joined(batch.tables for batch in reading.batches())
        return concluded(rows, reading.topic_names), reading


def concluded(rows: Tables, names: TopicNames) -> Tables:
    """Tables, with what views make of their rows instead of these rows, which are others with other cuts."""
    tables = {name: table for name, table in rows.items() if name not in VIEWS}
    for name in VIEWS.keys() & rows.keys():
        made = VIEWS[name]().result(names.resolve(rows[name]), Known.of(names.learned()))
        tables |= {result: pa.concat_tables([tables.get(result, table[:0]), table]) for result, table in made.items()}
    return tables


@dataclass(frozen=True)
class Piece:
    """A TCP packet: a row of Segments, and its payload."""

    row: tuple[Any, ...]  # in the order of COLUMNS
    payload: bytes

    def __getitem__(self, column: str) -> Any:
        return self.row[COLUMNS.index(column)]

    def having(self, payload: bytes | None = None, **values: Any) -> Piece:
        """The same with other values."""
        row = tuple(values.get(name, value) for name, value in zip(COLUMNS, self.row, strict=True))
        return Piece(row, self.payload if payload is None else payload)

    @property
    def stream(self) -> tuple[Any, ...]:
        """Sender and receiver."""
        return tuple(self[f"{end}_{part}"] for end in ("source", "target") for part in ("high", "low", "port"))

    @property
    def connection(self) -> tuple[Any, ...]:
        """The same for both directions."""
        return tuple(sorted((self.stream[:3], self.stream[3:])))


COLUMNS = tuple(field.name for field in fields(Segments) if field.name not in ("data", "start", "captured", "length"))


@cache
def pieces_of(name: str, packets: int) -> tuple[Piece, ...]:
    """The TCP packets among the first packets of a capture, all of which it must hold whole."""
    found: list[Piece] = []
    for batch in open_capture(str(PCAPS / name)):
        segments = dissect(batch).segments
        for row in range(len(segments.number)):
            if segments.number[row] > packets:
                return tuple(found)
            begin, size = int(segments.start[row]), int(segments.length[row])
            assert size == segments.captured[row]
            payload = segments.data[begin : begin + size].tobytes()
            found.append(Piece(tuple(int(getattr(segments, column)[row]) for column in COLUMNS), payload))
    return tuple(found)


def segments_of(pieces: Sequence[Piece]) -> Segments:
    """Packets in the order given, numbered from 1; times are sorted, as a capture has them."""
    columns = {column: np.array([piece[column] for piece in pieces], _types[column]) for column in COLUMNS}
    sizes = np.array([len(piece.payload) for piece in pieces], np.int64)
    columns |= {"number": np.arange(1, len(pieces) + 1), "at": np.sort(columns["at"])}
    return Segments(
        data=np.frombuffer(b"".join(piece.payload for piece in pieces), np.uint8),
        start=np.cumsum(sizes) - sizes,
        captured=sizes.astype(np.int32),
        length=sizes.astype(np.int32),
        **columns,
    )


_types = {
    "number": np.int64,
    "at": np.int64,
    "source_high": np.uint64,
    "source_low": np.uint64,
    "target_high": np.uint64,
    "target_low": np.uint64,
    "source_port": np.uint16,
    "target_port": np.uint16,
    "seq": np.uint32,
    "ack": np.uint32,
    "flags": np.uint8,
    "window": np.uint16,
    "scale": np.int8,
    "sacked": np.int32,
    "dsack": np.uint32,
    "ident": np.uint16,
}


def analyze(segments: Segments, sizes: Iterable[int] = ()) -> Tables:
    """All tables of segments, fed in batches of the given sizes, the rest at once."""
    engine = Engine(OPTIONS)

    def steps() -> Iterator[Tables]:
        begin = 0
        for size in sizes:
            yield from engine.feed(segments.rows(slice(begin, begin + size)))
            begin += size
        if begin < len(segments.number):
            yield from engine.feed(segments.rows(slice(begin, None)))
        yield from engine.finish()

    tables = concluded(joined(steps()), engine.topic_names)
    return {name: engine.topic_names.resolve(table) for name, table in tables.items()}


Told = dict[str, list[tuple[Any, ...]]]


def told(tables: Tables, columns: Sequence[str] = ("api", "correlation_id", "request", "response")) -> Told:
    """Of each connection, by its client, the exchanges that are decoded in full, with their records; sorted."""
    clients = {row["connection"]: f"{row['client']}:{row['client_port']}" for row in tables["connections"].to_pylist()}
    records: dict[tuple[int, int], list[tuple[Any, ...]]] = {}
    for row in tables["records"].to_pylist() if "records" in tables else ():
        content = (row["partition"], row["offset"], row["key"], row["value"], str(row["headers"]))
        records.setdefault((row["connection"], row["number"]), []).append(content)
    found: Told = {}
    for row in tables["exchanges"].to_pylist() if "exchanges" in tables else ():
        if row["decoded"] == "full" and row["outcome"] in ("answered", "one_way"):
            about = records.get((row["connection"], row["number"]), [])
            if row["api"] == "SaslAuthenticate":  # without the handshake that came before, a token tells its kind only
                for side in ("request", "response"):
                    row[side] = re.sub(r'"SCRAM-SHA-(256|512)"', '"SCRAM"', row[side] or "")
            values = (*(row[column] for column in columns), tuple(about))
            found.setdefault(clients[row["connection"]], []).append(values)
    return {client: sorted(rows, key=str) for client, rows in found.items()}


def with_issue(tables: Tables) -> set[str]:
    """Clients of connections that have an issue, or an exchange that tells of one."""
    clients = {row["connection"]: f"{row['client']}:{row['client_port']}" for row in tables["connections"].to_pylist()}
    found = {row["connection"] for row in tables["issues"].to_pylist()} if "issues" in tables else set()
    for row in tables["exchanges"].to_pylist() if "exchanges" in tables else ():
        if row["issue"] is not None or row["outcome"] in ("unanswered", "orphan"):
            found.add(row["connection"])
    return {clients[connection] for connection in found if connection is not None}
