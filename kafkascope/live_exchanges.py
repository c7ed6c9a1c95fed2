"""Exchanges of an interface in Python, as they complete: ``for exchange in kafkascope.live("eth0")``."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.decoders.redaction import checked_names
from kafkascope.decoding import Message, message_of
from kafkascope.engine import EngineOptions
from kafkascope.reading import Batch, Listening
from kafkascope.rehearsal import Rehearsal
from kafkascope.reports.rows.frames import FRAMES, REQUEST_FRAME, RESPONSE_FRAME
from kafkascope.reports.rows.topic_mentions import TOPICS
from kafkascope.reports.vocabulary.tables import EXCHANGES
from kafkascope.sniffer.session import SessionOptions
from kafkascope.sniffer.sources.live import LiveSource
from kafkascope.sniffer.sources.live_options import BUFFER_BYTES, LiveOptions

_BESIDE_ROW = frozenset({"request", "response", *(column.name for column in FRAMES)})


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request with its response, either of which may be missing."""

    client: str  # address:port
    broker: str
    api: str | None
    version: int | None
    client_id: str | None
    requested: datetime | None  # the request's first byte, UTC
    latency_ms: float | None
    outcome: str  # answered, one_way, unanswered, orphan
    error: str | None  # name of the error code; NONE if all went well
    topics: tuple[str, ...]  # that it names
    request: Message | None
    response: Message | None
    row: dict[str, Any] = field(repr=False)  # what else the table of exchanges has (`kafkascope.read`)


def live(
    interfaces: str | Iterable[str] = "any",
    *,
    ports: Iterable[int] = (),
    decode_as: Iterable[int] = (),
    duration_s: float | None = None,
    expression: str = "",
    tls_keylog: str | Iterable[str] = (),
    reveal_secrets: bool = False,
    secret_names: Iterable[str] = (),
    anonymize: str | None = None,
    buffer_bytes: int = BUFFER_BYTES,
) -> Generator[Exchange]:
    """The exchanges of network interfaces, each as soon as it is complete; needs the rights of `sniff --iface`.

    Listening begins with the call, and ends with the iteration: after duration_s, by ``break``, by Ctrl-C, or by
    ``close()`` of what is returned. What was still open when the time is over comes at the end. expression is of
    pcap-filter(7), buffer_bytes bounds the packets that wait while the caller works; what the kernel had to drop is a
    RuntimeWarning. All else is as of `kafkascope.read`. Raises ``sniffer.sources.SourceError`` where nothing can be
    captured, ValueError for an expression that makes no sense.

    >>> import kafkascope
    >>> for exchange in kafkascope.live("eth0", ports=[9092]):
    ...     print(exchange.api, exchange.latency_ms, exchange.request and exchange.request.hex())
    """
    names = [interfaces] if isinstance(interfaces, str) else list(interfaces)
    key_logs = (tls_keylog,) if isinstance(tls_keylog, str) else tuple(tls_keylog)
    ports = frozenset(ports)
    options = EngineOptions(
        tables=frozenset({"exchanges"}),
        exchange_columns=frozenset(EXCHANGES.names) | {TOPICS.name} | {column.name for column in FRAMES},
        session=SessionOptions(ports=ports, decode_as=frozenset(decode_as), key_logs=key_logs),
        reveal_secrets=reveal_secrets,
        secret_names=checked_names(secret_names),
        pseudonyms=Pseudonyms(anonymize) if anonymize else None,
        views=frozenset(),
    )
    for _ in _exchanges(Listening(Rehearsal(), replace(options, session=SessionOptions()))):
        pass  # kernels are loaded before there are packets that could be lost meanwhile
    how = LiveOptions(tuple(sorted(ports)), buffer_bytes, duration_s, expression=expression)
    exchanges = _exchanges(Listening(LiveSource(names, how), options))
    next(exchanges)
    return exchanges


def _exchanges(listening: Listening) -> Generator[Any]:
    """None, and then the exchanges. A generator that has begun closes the interface when it is closed itself."""
    with listening:
        yield None
        for batch in listening.batches():
            yield from _of(batch, is_anonymous=listening.options.pseudonyms is not None)
            for loss in listening.losses():
                warnings.warn(loss.text, RuntimeWarning, stacklevel=3)


def _of(batch: Batch, *, is_anonymous: bool) -> Iterator[Exchange]:
    table = batch.tables.get("exchanges")
    if table is None or not len(table):
        return
    for place, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):  # Python's times have no nanoseconds
            microseconds = table.column(place).cast(pa.timestamp("us", tz="UTC"), safe=False)
            table = table.set_column(place, column.name, microseconds)
    for row in batch.with_ends(table).to_pylist():
        if is_anonymous:  # records are in the bytes
            row |= {name.name: None if row[name.name] is None else b"" for name in FRAMES}
        yield Exchange(
            client=row["client"],
            broker=row["broker"],
            api=row["api"],
            version=row["api_version"],
            client_id=row["client_id"],
            requested=row["requested"],
            latency_ms=row["latency_ms"],
            outcome=row["outcome"],
            error=row["error"],
            topics=tuple(row[TOPICS.name]),
            request=message_of(row, "request", row[REQUEST_FRAME.name]),
            response=message_of(row, "response", row[RESPONSE_FRAME.name]),
            row={name: value for name, value in row.items() if name not in _BESIDE_ROW},
        )
