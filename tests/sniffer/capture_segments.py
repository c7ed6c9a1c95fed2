"""Segments of the captures in pcaps/, and exchanges as plain values that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from kafkascope.sniffer.columns import Exchanges, Segments
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.session import Session
from kafkascope.sniffer.sources.files import open_capture
from tests.paths import PCAPS


def segments_of(name: str) -> list[Segments]:
    return [dissect(packets).segments for packets in open_capture(str(PCAPS / name))]


def in_batches(batches: Iterable[Segments], size: int) -> Iterator[Segments]:
    """The segments in batches of a size."""
    for batch in batches:
        for low in range(0, len(batch.number), size):
            yield batch.rows(slice(low, low + size))


def exchanges_of(session: Session, batches: Iterable[Segments]) -> list[Exchanges]:
    return [*(session.feed(batch) for batch in batches), *session.finish()]


def plain(batches: Iterable[Exchanges]) -> list[tuple[object, ...]]:
    """One tuple an exchange, with the bytes themselves in place of positions; sorted by connection and number."""
    rows = []
    for batch in batches:
        data = batch.data.tobytes()
        for row in range(len(batch.number)):
            parts: list[object] = []
            for side in ("request", "response"):
                start, end = int(getattr(batch, side + "_start")[row]), int(getattr(batch, side + "_end")[row])
                body = int(getattr(batch, side + "_body")[row])
                parts += [data[start:end] if start >= 0 else None, body - start if body >= 0 else None]
            positions = ("data", "client_id_start", "request_", "response_start", "response_body", "response_end")
            named = [field.name for field in fields(Exchanges) if not field.name.startswith(positions)]
            named += ["request_packet", "request_bytes", "request_done", "request_acked", "request_whole"]
            rows.append((*(int(getattr(batch, name)[row]) for name in ("connection", "number", *named)), *parts))
    return sorted(rows, key=lambda row: (row[0], row[1]))
