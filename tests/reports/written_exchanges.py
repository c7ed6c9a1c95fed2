"""Exchanges written by hand, as the columns that the sniffer would make."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from kafkascope.decoders import schema
from kafkascope.sniffer.columns import NO_TIME, Exchanges, Kind, Outcome
from tests.decoders import written_batches
from tests.decoders.written_messages import body, header_tags, request_header, response_header

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def batch(*values: bytes, base_offset: int = 0, timestamp: int = 1000, first_delta: int = 0) -> bytes:
    """A record batch of magic 2, not compressed; record i has the key ``k<i>`` and the time timestamp + i."""
    records = b"".join(written_batches.record(first_delta + i, i, b"k%d" % i, value) for i, value in enumerate(values))
    last = len(values) - 1
    return written_batches.batch(
        records,
        len(values),
        base_offset=base_offset,
        base_time=timestamp,
        max_time=timestamp + last,
        leader_epoch=-1,
        producer=(-1, -1, -1),
    )


@dataclass
class Written:
    """An exchange to be; either body may be None (the side is absent), a dict, or the bytes of a body."""

    api_key: int
    version: int
    request: dict[str, Any] | bytes | None = None
    response: dict[str, Any] | bytes | None = None
    connection: int = 1
    client_id: str | None = "tester"
    correlation_id: int = 7
    response_version: int | None = None
    kind: Kind = Kind.KAFKA
    cut_request: int = 0  # bytes at the end that a gap has swallowed
    cut_response: int = 0


def exchanges(*written: Written) -> Exchanges:
    """The exchanges in the order given, each a second after the one before and answered within 5 ms."""
    data = bytearray()
    rows = []
    numbers: dict[int, int] = {}
    for place, one in enumerate(written):
        numbers[one.connection] = number = numbers.get(one.connection, 0) + 1
        version = one.version if one.response_version is None else one.response_version
        row: dict[str, Any] = {
            "connection": one.connection,
            "number": number,
            "kind": one.kind,
            "correlation_id": one.correlation_id,
            "api_key": one.api_key,
            "api_version": one.version,
            "response_version": version,
            "client_id_start": -1,
            "client_id_length": -1,
            **dict.fromkeys(("request_acked", "round_trip", "least_round_trip"), NO_TIME),
        }
        begin = START + place * SECOND
        sides = (
            ("request", one.request, one.version, one.cut_request, ("requested", "request_done"), begin),
            ("response", one.response, version, one.cut_response, ("answered", "response_done"), begin + 5_000_000),
        )
        for name, content, layout, cut, times, at in sides:
            header = b""
            if one.kind == Kind.KAFKA:
                known = schema.apis().get(one.api_key)
                tags = header_tags(
                    one.api_key, one.version if name == "request" else version, response=name != "request"
                )
                if name == "request":
                    client_id = None if one.client_id is None else one.client_id.encode()
                    header = request_header(one.correlation_id, one.api_key, one.version, client_id) + tags
                    if isinstance(content, dict) and known:
                        content = body(known.request, layout, content)
                    if content is not None and client_id is not None:
                        row |= {"client_id_start": len(data) + 10, "client_id_length": len(client_id)}
                else:
                    header = response_header(one.correlation_id) + tags
                    if isinstance(content, dict) and known:
                        content = body(known.response, layout, content)
            if content is None:
                row |= {f"{name}_{part}": -1 for part in ("start", "body", "end", "offset")}
                row |= {f"{name}_bytes": 0, f"{name}_packet": 0, f"{name}_whole": False}
                row |= dict.fromkeys(times, NO_TIME)
                continue
            assert isinstance(content, bytes)
            frame = header + content
            row |= {
                f"{name}_start": len(data),
                f"{name}_body": len(data) + len(header),
                f"{name}_end": len(data) + len(frame) - cut,
                f"{name}_bytes": len(frame) + 4,
                f"{name}_offset": len(data),
                f"{name}_packet": 2 * place + (1 if name == "request" else 2),
                f"{name}_whole": not cut,
                times[0]: at,
                times[1]: at + 1_000_000,
            }
            data += frame[: len(frame) - cut]
        absent = (one.request is None, one.response is None)
        row["outcome"] = {
            (False, False): Outcome.ANSWERED,
            (False, True): Outcome.UNANSWERED,
            (True, False): Outcome.ORPHAN,
        }[absent]
        rows.append(row)
    return Exchanges(
        data=np.frombuffer(bytes(data), np.uint8),
        **{name: np.array([row[name] for row in rows], kind) for name, kind in _column_types().items()},
    )


def _column_types() -> dict[str, Any]:
    narrow = {
        "kind": np.int8,
        "outcome": np.int8,
        "correlation_id": np.int32,
        "api_key": np.int16,
        "api_version": np.int16,
        "response_version": np.int16,
        "client_id_length": np.int32,
        "request_whole": np.bool_,
        "response_whole": np.bool_,
    }
    names = [field.name for field in dataclasses.fields(Exchanges) if field.name != "data"]
    return {name: narrow.get(name, np.int64) for name in names}


def some(whole: Exchanges, first: int, last: int) -> Exchanges:
    """The exchanges from first up to last, as a batch of its own."""
    return dataclasses.replace(whole, **{name: getattr(whole, name)[first:last] for name in _column_types()})
