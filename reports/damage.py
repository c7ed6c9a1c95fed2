"""What is wrong with bodies: a short text for the exchange, issues to count, and what could be read all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from decoders import DecodeError, apis, decode_request, decode_response, schema
from decoders.tape import Status, Tape
from reports.bodies import Bodies
from sniffer.columns import I64, NO_TIME, Bool, Exchanges, Kind
from sniffer.issues import Issue, IssueLog

EXPLAINED_PER_CONNECTION = 1000
"""So many damaged frames of a connection are read again by the reference decoder, which names the field."""


@dataclass(slots=True)
class Damage:
    """What is wrong with a batch of exchanges."""

    issue: pa.Array  # text of each exchange, null where all is well
    issues: list[Issue]
    # What could be read of damaged frames, by index of the exchange.
    requests: dict[int, Any] = field(default_factory=dict)
    responses: dict[int, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Side:
    name: str
    tape: Tape
    frame_start: I64
    start: I64
    end: I64
    whole: Bool
    version: np.ndarray[Any, np.dtype[np.int16]]
    bytes_on_wire: I64
    at: I64
    packet: I64
    decode: Callable[[int, int, bytes], dict[str, Any]]


def _sides(bodies: Bodies) -> Iterator[_Side]:
    e = bodies.exchanges
    yield _Side(
        "request",
        bodies.requests,
        e.request_start,
        e.request_body,
        e.request_end,
        e.request_whole,
        e.api_version,
        e.request_bytes,
        e.requested,
        e.request_packet,
        decode_request,
    )
    yield _Side(
        "response",
        bodies.responses,
        e.response_start,
        e.response_body,
        e.response_end,
        e.response_whole,
        e.response_version,
        e.response_bytes,
        e.answered,
        e.response_packet,
        decode_response,
    )


class DamageReader:
    """Finds what is wrong with bodies. Counts the frames it explained, connection by connection."""

    def __init__(self) -> None:
        self._explained: dict[int, int] = {}

    def read(self, bodies: Bodies) -> Damage:
        """What is wrong with the bodies."""
        exchanges = bodies.exchanges
        texts: dict[int, str] = {}
        issues: list[Issue] = []
        parts: dict[str, dict[int, Any]] = {"request": {}, "response": {}}
        # In order of exchanges, and requests first: so the frames explained are the same however batches are cut.
        suspects = sorted(
            (index, number) for number, side in enumerate(_sides(bodies)) for index in _suspects(side, exchanges)
        )
        sides = list(_sides(bodies))
        for index, number in suspects:
            side = sides[number]
            kind, detail, partial = self._look(side, exchanges, index)
            texts.setdefault(index, f"{side.name}: {detail}")
            if partial is not None:
                parts[side.name][index] = partial
            if kind is not None:
                issues.append(
                    Issue(
                        kind,
                        f"{side.name} of {apis.name_of(int(exchanges.api_key[index]))}"
                        f" v{int(side.version[index])}: {detail}",
                        int(exchanges.connection[index]),
                        None if side.at[index] == NO_TIME else int(side.at[index]),
                        int(side.packet[index]) or None,
                    )
                )
        issue = np.full(len(exchanges.number), None, object)
        issue[list(texts)] = list(texts.values())
        return Damage(pa.array(issue, pa.string()), issues, parts["request"], parts["response"])

    def forget(self, connections: list[int]) -> None:
        """Drop what is known of connections that have ended."""
        for connection in connections:
            self._explained.pop(connection, None)

    def _look(self, side: _Side, exchanges: Exchanges, index: int) -> tuple[str | None, str, Any]:
        """Kind of the issue (None: it is counted elsewhere), text, and what could be read."""
        key, version = int(exchanges.api_key[index]), int(side.version[index])
        size = int(side.bytes_on_wire[index])
        if not side.whole[index]:
            held = int(side.end[index] - side.frame_start[index]) + 4
            detail = f"the capture holds {held} of its {size} bytes"
            return None, detail, self._partial(side, exchanges, index)[1]
        if side.start[index] < 0:
            return "undecodable_header", f"{size} bytes that end inside the header", None
        status = Status(int(side.tape.status[index]))
        if status == Status.UNKNOWN:
            if key not in schema.apis():
                return "unknown_api", f"no release knows API key {key}", None
            return "unknown_version", f"no release knows version {version} of {apis.name_of(key)}", None
        if status == Status.LEFT_OVER:
            left = int(side.end[index] - side.tape.stopped_at[index])
            return "bytes_left_over", f"{left} bytes left over behind the last field", None
        error, partial = self._partial(side, exchanges, index)
        if error is None:
            offset = int(side.tape.stopped_at[index] - side.start[index])
            return "undecodable_body", f"{status.name.lower()} at offset {offset} of the body", partial
        return "undecodable_body", str(error), partial

    def _partial(self, side: _Side, exchanges: Exchanges, index: int) -> tuple[DecodeError | None, Any]:
        connection = int(exchanges.connection[index])
        explained = self._explained.get(connection, 0)
        if explained >= EXPLAINED_PER_CONNECTION or side.start[index] < 0:
            return None, None
        self._explained[connection] = explained + 1
        body = exchanges.data[side.start[index] : side.end[index]].tobytes()
        try:
            return None, side.decode(int(exchanges.api_key[index]), int(side.version[index]), body)
        except DecodeError as error:
            return error, error.partial


def _suspects(side: _Side, exchanges: Exchanges) -> list[int]:
    """Exchanges whose side is there and was not read to its last byte."""
    there = (side.frame_start >= 0) & (exchanges.kind == Kind.KAFKA) & (exchanges.api_key != -1)
    found: list[int] = np.flatnonzero(
        there & ~(side.whole & (side.start >= 0) & (side.tape.status == Status.OK))
    ).tolist()
    return found


def count_issues(
    issues: IssueLog, exchanges: Exchanges, exchange: I64, in_response: Bool, kind: str, detail: Callable[[int], str]
) -> None:
    """Count an issue for each of the exchanges given, in order; detail describes the one at an index of the arrays."""
    connections, first, count = np.unique(exchanges.connection[exchange], return_index=True, return_counts=True)
    for connection, index, times in zip(connections.tolist(), first.tolist(), count.tolist(), strict=True):
        side = "response" if in_response[index] else "request"
        row = exchange[index]
        at = exchanges.answered[row] if in_response[index] else exchanges.requested[row]
        packet = exchanges.response_packet[row] if in_response[index] else exchanges.request_packet[row]
        api = apis.name_of(int(exchanges.api_key[row]))
        issues.add(Issue(kind, f"{side} of {api}: {detail(index)}", connection, int(at), int(packet), times))
