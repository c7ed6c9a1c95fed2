"""Runs of TCP streams in, runs of plain bytes out: what connections with TLS say is put in place of their records.

A connection is TLS if its client, or its server before the client has said anything, begins with a record of TLS (RFC
8446, 5.1); a frame of Kafka that begins like that would be larger than any that is believed. Number and time of plain
bytes are those of the packet that completed their record. Their offsets are such that a record's content ends where the
record ends in the TCP stream, so that they compare with what was acknowledged; they do not join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any

import numpy as np

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.sniffer.columns import U8, Runs
from kafkascope.sniffer.exchanges import RELIEF
from kafkascope.sniffer.frames import copy_runs
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.recognise import begins_like_tls
from kafkascope.sniffer.tls import connection as tls
from kafkascope.sniffer.tls.connection import Bytes, Loss, Plain, TlsConnection
from kafkascope.sniffer.tls.keys import Keys

PART_BYTES = 65_536
"""Bytes that a connection gets at once, or one row: behind lost bytes it copies what is left, record by record."""
TELLING = 3  # bytes by which a stream shows that it is TLS: the type of a record, and its version


@dataclass(slots=True)
class _Undecided:
    """A connection that begins like TLS, but with too few bytes to tell."""

    direction: int
    begin: bytes
    held: list[Runs] = field(default_factory=list)
    held_bytes: int = 0


class TlsStage:
    """All TLS connections of a capture, by their ids; the others pass."""

    def __init__(self, keys: Keys | None, has_begun: Callable[[int], bool], limits: Limits = DEFAULT) -> None:
        """has_begun tells whether bytes of a connection have passed before."""
        self.issues = IssueLog()  # of too much that waits
        self._keys = keys
        self._has_begun = has_begun
        self._limits = limits
        self._connections: dict[int, TlsConnection] = {}
        self._undecided: dict[int, _Undecided] = {}

    def feed(self, runs: Runs, ended: Iterable[int] = ()) -> Runs:
        """What a batch adds to streams, those of TLS opened; the connections that ended add no more."""
        self._recognise(runs)
        if not self._connections and not self._undecided:
            return runs
        ids = np.fromiter((*self._connections, *self._undecided), np.int64)
        mine = np.isin(runs.connection, ids)
        ending = {
            connection for connection in ended if connection in self._connections or connection in self._undecided
        }
        if not mine.any() and not ending:
            return runs
        found = [_rows(runs, ~mine)]
        of_tls = _rows(runs, mine)
        begins = np.flatnonzero(np.diff(of_tls.connection, prepend=-1))
        rest = set(ending)
        borders = [*begins.tolist(), of_tls.connection.shape[0]]
        for low, high in pairwise(borders):
            connection = int(of_tls.connection[low])
            rest.discard(connection)
            found += self._of_one(connection, _rows(of_tls, slice(low, high)), connection in ending)
        for connection in sorted(rest):
            found += self._of_one(connection, _rows(of_tls, slice(0, 0)), True)
        return joined(found)

    def relieve(self) -> Runs | None:
        """Let those who hold most wait no longer, if all together hold too much; returns what comes of it, if any."""
        waiting: dict[int, TlsConnection | _Undecided] = {**self._connections, **self._undecided}
        held = {connection: size for connection, one in waiting.items() if (size := one.held_bytes)}
        most, total = self._limits.held_bytes, sum(held.values())
        if total <= most:
            return None
        found: list[Runs] = []
        option = self._limits.option("held_bytes")
        why = f"too much waits for secrets, of all connections together ({option})"
        detail = f"with those of other connections so many bytes of TLS wait that these are given up ({option})"
        for connection in sorted(held, key=lambda one: (-held[one], one)):
            if total <= most - most // RELIEF:
                break
            total -= held[connection]
            if connection in self._undecided:
                found.append(_in_directions(self._undecided.pop(connection).held))
            else:
                one = self._connections[connection]
                found += _of_both(connection, one.relieve(why))
                total += one.held_bytes
            self.issues.add(Issue("too_many_bytes", detail, connection))
        return joined(found) if found else None

    def of(self, connection: int) -> TlsConnection | None:
        """What is known of a connection that is TLS; None of others."""
        return self._connections.get(connection)

    def forget(self, connection: int) -> None:
        """Free what is kept of an ended connection."""
        self._connections.pop(connection, None)

    def _recognise(self, runs: Runs) -> None:
        for row in begins_like_tls(runs).tolist():
            connection, direction = int(runs.connection[row]), int(runs.direction[row])
            if connection in self._connections or connection in self._undecided:
                continue
            if direction == 1 and self._client_spoke(runs, row):
                continue
            start = int(runs.start[row])
            begin = runs.data[start : start + min(int(runs.length[row]), TELLING)].tobytes()
            if not _may_be_tls(begin):
                continue
            if len(begin) == TELLING:
                self._connections[connection] = TlsConnection(self._keys)
            else:
                self._undecided[connection] = _Undecided(direction, b"")

    def _client_spoke(self, runs: Runs, row: int) -> bool:
        """Whether bytes of the other side came before a row, which is the first of the server's stream."""
        connection = int(runs.connection[row])
        if self._has_begun(connection):
            return True
        other = np.flatnonzero((runs.connection == connection) & (runs.direction == 0))
        return bool(other.shape[0]) and bool(runs.turn[other[0]] < runs.turn[row])

    def _of_one(self, connection: int, runs: Runs, is_ending: bool) -> list[Runs]:
        """Plain bytes of one connection; all it has said, if that turns out to be no TLS."""
        undecided = self._undecided.get(connection)
        if undecided is not None:
            held = _compact(runs)
            undecided.held.append(held)
            undecided.held_bytes += sum(column.nbytes for column in (held.data, *_columns(held).values()))
            chosen = (runs.direction == undecided.direction) & (runs.start >= 0)
            undecided.begin += _bytes(_rows(runs, chosen))[: TELLING - len(undecided.begin)]
            is_gap = bool(((runs.direction == undecided.direction) & (runs.start < 0)).any())
            decided = is_ending or is_gap or len(undecided.begin) == TELLING or not _may_be_tls(undecided.begin)
            if not decided:
                return []
            del self._undecided[connection]
            runs = _in_directions(undecided.held)
            if len(undecided.begin) < TELLING or not _may_be_tls(undecided.begin):
                return [runs]
            self._connections[connection] = TlsConnection(self._keys)
        one = self._connections[connection]
        plain = one.feed([_parts(runs, direction) for direction in (0, 1)])
        if is_ending:
            plain = [[*before, *last] for before, last in zip(plain, one.finish(), strict=True)]
        return _of_both(connection, plain)


def _may_be_tls(begin: bytes) -> bool:
    """Whether a stream with these first bytes, up to TELLING, is TLS, as far as they tell."""
    kind, major, minor = (*begin, *b"\x16\x03\x00"[len(begin) :])
    return tls.CHANGE_CIPHER_SPEC <= kind <= tls.APPLICATION_DATA and major == 3 and minor <= 4


def _bytes(runs: Runs) -> bytes:
    """What rows without gaps have, one behind the other."""
    lengths = np.ascontiguousarray(runs.length)
    places = np.cumsum(lengths) - lengths
    target = np.empty(int(lengths.sum()), np.uint8)
    copy_runs(np.ascontiguousarray(runs.data), np.ascontiguousarray(runs.start), lengths, target, places)
    return target.tobytes()


def _writable(data: bytes) -> U8:
    """Bytes as kernels have them from packets: those that are read-only are of another type, and compiled for again."""
    return np.frombuffer(bytearray(data), np.uint8)


def _compact(runs: Runs) -> Runs:
    """The same rows with a copy of their bytes alone."""
    is_gap = runs.start < 0
    lengths = np.where(is_gap, 0, runs.length)
    data = _writable(_bytes(_rows(runs, ~is_gap)))
    start = np.where(is_gap, -1, np.cumsum(lengths) - lengths)
    return Runs(data, **{**_columns(runs), "start": start})


def _parts(runs: Runs, direction: int) -> Sequence[Bytes | Loss]:
    """What came of a direction of one connection."""
    runs = _rows(runs, runs.direction == direction)
    count = runs.offset.shape[0]
    if not count:
        return ()
    rows = np.empty((count, tls.COLUMNS), np.int64)
    rows[:, tls.END] = runs.offset + runs.length
    rows[:, tls.NUMBER] = runs.number
    rows[:, tls.AT] = runs.at
    rows[:, tls.ACKED] = runs.acked
    rows[:, tls.ACKED_AT] = runs.acked_at
    rows[:, tls.ROUND_TRIP] = runs.round_trip
    rows[:, tls.LEAST_ROUND_TRIP] = runs.least_round_trip
    rows[:, tls.HEARD] = runs.heard
    rows[:, tls.HEARD_AT] = runs.heard_at
    parts: list[Bytes | Loss] = []
    gaps = np.flatnonzero(runs.start < 0).tolist()
    begin = 0
    for gap in [*gaps, count]:
        if gap > begin:
            cuts = begin + 1 + np.flatnonzero(np.diff(rows[begin:gap, tls.END] // PART_BYTES))
            for low, high in pairwise([begin, *cuts.tolist(), gap]):
                parts.append(Bytes(_bytes(_rows(runs, slice(low, high))), rows[low:high]))
        if gap < count:
            parts.append(Loss(int(runs.length[gap]), int(runs.number[gap]), int(runs.at[gap])))
        begin = gap + 1
    return parts


def _in_directions(held: Sequence[Runs]) -> Runs:
    """Rows of one connection, those of a direction one behind the other."""
    runs = joined(held)
    return _rows(runs, np.argsort(runs.direction, kind="stable"))


def _of_both(connection: int, plain: Sequence[Sequence[Plain]]) -> list[Runs]:
    return [_plain_runs(connection, direction, rows) for direction, rows in enumerate(plain) if rows]


def _plain_runs(connection: int, direction: int, plain: Sequence[Plain]) -> Runs:
    count = len(plain)
    sizes = np.array([len(one.content) for one in plain], np.int64)
    lengths = np.array([one.lost or len(one.content) for one in plain], np.int64)
    rows = np.stack([one.row for one in plain])
    return Runs(
        data=_writable(b"".join(one.content for one in plain)),
        connection=np.full(count, connection, np.int64),
        direction=np.full(count, direction, np.int8),
        offset=np.array([one.end for one in plain], np.int64) - lengths,
        start=np.where(sizes > 0, np.cumsum(sizes) - sizes, -1),
        length=lengths,
        number=rows[:, tls.NUMBER].copy(),
        at=rows[:, tls.AT].copy(),
        acked=rows[:, tls.ACKED].copy(),
        acked_at=rows[:, tls.ACKED_AT].copy(),
        round_trip=rows[:, tls.ROUND_TRIP].copy(),
        least_round_trip=rows[:, tls.LEAST_ROUND_TRIP].copy(),
        heard=rows[:, tls.HEARD].copy(),
        heard_at=rows[:, tls.HEARD_AT].copy(),
        turn=np.maximum.accumulate(rows[:, tls.NUMBER]),
    )


def _columns(runs: Runs) -> dict[str, Any]:
    return {one.name: getattr(runs, one.name) for one in fields(Runs) if one.name != "data"}


def _rows(runs: Runs, rows: Any) -> Runs:
    return Runs(runs.data, **{name: column[rows] for name, column in _columns(runs).items()})


def joined(parts: Sequence[Runs]) -> Runs:
    """Rows of several batches, which have no stream in common or follow each other in it."""
    parts = [part for part in parts if part.connection.shape[0]] or list(parts[:1])
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, list[Any]] = {name: [] for name in _columns(parts[0])}
    size = 0
    for part in parts:
        for name, column in _columns(part).items():
            columns[name].append(np.where(column < 0, column, column + size) if name == "start" else column)
        size += part.data.shape[0]
    data = np.concatenate([part.data for part in parts])
    return Runs(data, **{name: np.concatenate(column) for name, column in columns.items()})
