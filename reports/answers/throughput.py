"""What was sent and fetched, by topic and client."""

from __future__ import annotations

from dataclasses import dataclass

from pyarrow import dataset as ds


@dataclass(frozen=True, slots=True)
class Flow:
    """One topic in one direction of one client. Bytes are those on the wire."""

    topic: str
    direction: str
    client_id: str | None
    records: int
    bytes: int
    batches: int
    ratio: float | None  # compressed size against uncompressed
    codecs: str


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
    return Throughput([], [], 0)
