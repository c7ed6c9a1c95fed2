"""What is wrong with bodies: a short text for the exchange, issues to count, and what could be read all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import DecodeError, apis, decode_request, decode_response, schema
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.decoders.tape import Status, Tape
from kafkascope.reports.columns.faults import fault
from kafkascope.reports.columns.text import counted
from kafkascope.reports.rows.bodies import Bodies
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.sniffer.columns import I64, NO_TIME, Bool, Exchanges, Kind
from kafkascope.sniffer.issues import Issue, IssueLog

EXPLAINED_PER_CONNECTION = 1000
"""So many damaged frames of a connection are read again by the reference decoder, which names the field."""

EXPLAINED_ROWS = 500_000
"""A frame of more values (rows of its tape) is not read again: as Python's objects they take 100 bytes and more."""

NAMELESS = "response: the capture lacks its request, and no single reading fits its bytes"

SKIPPED = "bodies skipped: packets came faster than they could be decoded"


@dataclass(slots=True)
class Damage:
    """What is wrong with a batch of exchanges."""

    issue: pa.Array  # text of each exchange, null where all is well
    issues: list[Issue]
    # What could be read of damaged frames, by index of the exchange.
    requests: dict[int, Any] = field(default_factory=dict)
    responses: dict[int, Any] = field(default_factory=dict)

    def add_faults(self, exchanges: Exchanges, faults: Mapping[tuple[int, bool], str]) -> None:
        """Take in what `faults.fault` says of bodies, by index of the exchange and side (True: the response)."""
        if not faults:
            return
        log = IssueLog(self.issues)
        told = list(faults.values())
        where, responses = (np.array(column) for column in zip(*faults, strict=True))
        count_issues(log, exchanges, where, responses, INTERNAL_ERROR, told.__getitem__)
        self.issues = list(log)
        texts: dict[int, str] = {}
        for (index, response), detail in faults.items():
            texts.setdefault(index, f"{'response' if response else 'request'}: {detail}")
        column = pa.array([texts.get(index) for index in range(len(exchanges.number))], pa.string())
        self.issue = pc.coalesce(self.issue, column)


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
    absent = bodies.skipped  # of these nothing can be said
    yield _Side(
        "request",
        bodies.requests,
        np.where(absent, -1, e.request_start),
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
        np.where(absent, -1, e.response_start),
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

    def __init__(self, limits: Limits = DEFAULT, *, keeps_parts: bool = True) -> None:
        """keeps_parts: whether somebody wants what could be read of frames that are not whole."""
        self._limits = limits
        self._keeps_parts = keeps_parts
        self._explained: dict[int, int] = {}

    def read(self, bodies: Bodies) -> Damage:
        """What is wrong with the bodies."""
        exchanges = bodies.exchanges
        sides = list(_sides(bodies))
        found = _Found(exchanges, np.full(len(exchanges.number), -1, np.int64))
        parts: dict[str, dict[int, Any]] = {"request": {}, "response": {}}
        suspects = [_suspects(side, exchanges) for side in sides]
        # In order of exchanges, and requests first: so the frames explained are the same however batches are cut.
        pairs = sorted((index, number) for number, some in enumerate(suspects) for index in some.tolist())
        by_kind: dict[tuple[str, int], tuple[list[int], list[str]]] = {}
        for index, number in pairs:
            side = sides[number]
            try:
                kind, detail, partial = self._look(side, exchanges, index)
            except Exception as error:
                kind, detail, partial = INTERNAL_ERROR, fault(error), None
            found.tell(index, f"{side.name}: {detail}")
            if partial is not None:
                parts[side.name][index] = partial
            if kind is not None:
                where, details = by_kind.setdefault((kind, number), ([], []))
                where.append(index)
                details.append(detail)
        for (kind, number), (where, details) in by_kind.items():
            found.count(sides[number], np.array(where), kind, details, np.arange(len(where)))
        for side in sides:
            _unknown(side, exchanges, found)
        found.text[bodies.skipped] = len(found.texts)
        found.texts.append(SKIPPED)
        nameless = np.flatnonzero((exchanges.kind == Kind.KAFKA) & (exchanges.api_key == -1) & (found.text < 0))
        if len(nameless):
            found.text[nameless] = len(found.texts)
            found.texts.append(NAMELESS)
        issue = pa.array(found.texts, pa.string()).take(pa.array(found.text, mask=found.text < 0))
        return Damage(issue, list(found.log), parts["request"], parts["response"])

    def forget(self, connections: list[int]) -> None:
        """Drop what is known of connections that have ended."""
        for connection in connections:
            self._explained.pop(connection, None)

    def _look(self, side: _Side, exchanges: Exchanges, index: int) -> tuple[str | None, str, Any]:
        """Kind of the issue (None: it is counted elsewhere), text, and what could be read."""
        size = int(side.bytes_on_wire[index])
        if not side.whole[index]:
            held = int(side.end[index] - side.frame_start[index]) + 4
            detail = f"only {held} of its {size} bytes are there"
            return None, detail, self._partial(side, exchanges, index)[1]
        if side.start[index] < 0:
            return "undecodable_header", f"{size} bytes that end inside the header", None
        status = Status(int(side.tape.status[index]))
        if status == Status.TOO_MANY:
            rows, read = side.tape.rows_in(index), int(side.tape.stopped_at[index] - side.start[index])
            detail = f"too large: its first {rows:,} values are read, which end at {read:,} of {size:,} bytes"
            detail += f" ({self._limits.option('elements')})"
            return "body_too_large", detail, None
        if status == Status.LEFT_OVER:
            left = int(side.end[index] - side.tape.stopped_at[index])
            return "bytes_left_over", f"{counted(left, 'byte')} left over behind the last field", None
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
        if side.tape.rows_in(index) > EXPLAINED_ROWS:
            return None, None
        self._explained[connection] = explained + 1
        if not side.whole[index] and not self._keeps_parts:
            return None, None
        body = exchanges.data[side.start[index] : side.end[index]].tobytes()
        try:
            return None, side.decode(int(exchanges.api_key[index]), int(side.version[index]), body)
        except DecodeError as error:
            return error, error.partial


def _there(side: _Side, exchanges: Exchanges) -> Bool:
    there: Bool = (side.frame_start >= 0) & (exchanges.kind == Kind.KAFKA) & (exchanges.api_key != -1)
    return there


def _is_unknown(side: _Side, exchanges: Exchanges) -> Bool:
    """Frames of APIs and versions that no release knows; their headers may be none that can be read to the end."""
    known = apis.are_known(exchanges.api_key.astype(np.int64), side.version.astype(np.int64))
    unknown: Bool = side.whole & np.where(side.start >= 0, side.tape.status == Status.UNKNOWN, ~known)
    return unknown


def _suspects(side: _Side, exchanges: Exchanges) -> I64:
    """Exchanges whose side is there and was not read to its last byte, though its API and version are known."""
    fine = side.whole & (side.start >= 0) & (side.tape.status == Status.OK)
    return np.flatnonzero(_there(side, exchanges) & ~fine & ~_is_unknown(side, exchanges))


@dataclass(slots=True)
class _Found:
    """Texts and issues as they are found."""

    exchanges: Exchanges
    text: I64  # of each exchange the index of its text, -1: none
    texts: list[str] = field(default_factory=list)
    log: IssueLog = field(default_factory=IssueLog)

    def tell(self, exchange: int, text: str) -> None:
        """The text of an exchange, if it has none yet."""
        if self.text[exchange] < 0:
            self.text[exchange] = len(self.texts)
            self.texts.append(text)

    def count(self, side: _Side, exchange: I64, kind: str, details: list[str], detail_of: I64) -> None:
        """An issue for each exchange, of a detail by its index."""
        in_response = np.full(len(exchange), side.name == "response")
        count_issues(
            self.log, self.exchanges, exchange, in_response, kind, lambda index: details[int(detail_of[index])]
        )


def _unknown(side: _Side, exchanges: Exchanges, found: _Found) -> None:
    """Tell and count frames of APIs and versions that no release knows: mostly there are none, or there are many."""
    where = np.flatnonzero(_there(side, exchanges) & _is_unknown(side, exchanges))
    if not len(where):
        return
    keys, versions = exchanges.api_key[where].astype(np.int64), side.version[where].astype(np.int64)
    _, first, same = np.unique(keys << 16 | versions & 0xFFFF, return_index=True, return_inverse=True)
    same = same.reshape(-1)
    details = [_why_unknown(int(keys[one]), int(versions[one])) for one in first]
    untold = found.text[where] < 0
    found.text[where[untold]] = len(found.texts) + same[untold]
    found.texts.extend(f"{side.name}: {detail}" for detail in details)
    known_api = np.isin(keys, list(schema.apis()))
    for kind, chosen in (("unknown_api", ~known_api), ("unknown_version", known_api)):
        if chosen.any():
            found.count(side, where[chosen], kind, details, same[chosen])


def _why_unknown(key: int, version: int) -> str:
    if key in schema.apis():
        return f"no release knows version {version} of {apis.name_of(key)}"
    return f"no release knows API key {key}"


def count_issues(
    issues: IssueLog, exchanges: Exchanges, exchange: I64, in_response: Bool, kind: str, detail: Callable[[int], str]
) -> None:
    """Count an issue for each of the exchanges given; detail describes the one at an index of the arrays.

    Of several at one connection that with the lowest packet number is described, as `IssueLog` has it.
    """
    packets = np.where(in_response, exchanges.response_packet[exchange], exchanges.request_packet[exchange])
    order = np.lexsort((packets, exchanges.connection[exchange]))
    connections, first, count = np.unique(exchanges.connection[exchange][order], return_index=True, return_counts=True)
    for connection, index, times in zip(connections.tolist(), order[first].tolist(), count.tolist(), strict=True):
        row, response = exchange[index], in_response[index]
        side = "response" if response else "request"
        version = (exchanges.response_version if response else exchanges.api_version)[row]
        at = (exchanges.answered if response else exchanges.requested)[row]
        where = f"{side} of {apis.name_of(int(exchanges.api_key[row]))} v{version}"
        issues.add(
            Issue(
                kind,
                f"{where}: {detail(index)}",
                connection,
                None if at == NO_TIME else int(at),
                int(packets[index]) or None,
                times,
            )
        )
