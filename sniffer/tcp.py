"""TCP connections and their streams: segments in, stream bytes and gaps out.

What counts as one connection, as a gap, as a duplicate, is decided in ``sniffer.reassembly``; its constants say how
long and how much the reassembly waits for. Every decision is a function of the connection's own segments, as long as
no limit of all connections together is reached; then it is one of all segments up to its own, in their order.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv6Address
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.sniffer import health
from kafkascope.sniffer.capture_points import Ranks
from kafkascope.sniffer.columns import I64, NO_TIME, U8, Runs, Segments, plain
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.reassembly.bounds import COMPARED_SEGMENTS, RECENT
from kafkascope.sniffer.reassembly.firsts import keep_firsts, limit_firsts
from kafkascope.sniffer.reassembly.kernel import absorb
from kafkascope.sniffer.reassembly.lifetimes import end_connections, sweep
from kafkascope.sniffer.reassembly.rows import arrange, gather_held, hold_pieces
from kafkascope.sniffer.reassembly.state import (
    AFTER_FIN,
    ALL_FULL,
    BEFORE,
    BY_FIN,
    BY_RST,
    CONFLICTING,
    CONNECTION,
    DONE,
    DUPLICATE,
    ESTABLISHED,
    FIRST,
    GAP,
    KINDS,
    LATE,
    MARK,
    NEEDS_END,
    NEEDS_FEWER,
    NEEDS_SWEEP,
    OPEN,
    PIECE,
    REFUSED,
    ROW,
    SNAPPED,
    STREAM,
    STREAM_FULL,
    TOTALS,
    UNANSWERED,
    WILD,
    State,
)
from kafkascope.sniffer.reassembly.table import rehash
from kafkascope.sniffer.units import MILLISECOND_NS

BEGINNINGS = {
    BEFORE: None,
    ESTABLISHED: "established",
    REFUSED: "refused",
    UNANSWERED: "unanswered",
}
HOW_CLOSED = {OPEN: "open", BY_FIN: "fin", BY_RST: "rst"}

# Kinds of issues; the details tell of the first segment of each, with its number of bytes.
ISSUES = {
    GAP: ("tcp_gap", "{} bytes are not in the capture"),
    LATE: ("tcp_late_data", "{} bytes came after they had been given up, and were left out"),
    DUPLICATE: ("duplicate_packet", "the same packet, with {} bytes of payload, was captured before"),
    SNAPPED: ("snap_length", "{} bytes of the packet were cut off as it was captured"),
    WILD: ("tcp_wild_segment", "sequence number {} bytes from the expected one; the segment was left out"),
    AFTER_FIN: ("tcp_data_after_fin", "{} bytes behind the end of the stream were left out"),
    CONFLICTING: (
        "tcp_conflicting_data",
        "{} bytes differ from those captured first for the same place of the stream; the first ones were taken",
    ),
    STREAM_FULL: (
        "too_many_bytes",
        "so many bytes wait behind lost ones that these are given up (--limit stream_bytes={})",
    ),
    ALL_FULL: (
        "too_many_bytes",
        "with those of other connections so many bytes wait behind lost ones that these are given up "
        "(--limit held_bytes={})",
    ),
}

Element = TypeVar("Element", bound=np.generic)
Spans = NDArray[np.void]

FEWER = 16  # where connections are too many, this part of them ends at once: to look for the silent ones takes a while
LEAST_HELD = 1 << 20  # held bytes that are not worth to be compacted
ENDED_AT_ONCE = 8192  # connections, at the end of the capture


@dataclass(frozen=True, slots=True)
class Fares:
    """How the packets of one side of a connection fared."""

    fast_retransmits: int  # sent again after the other side showed a loss
    timeout_retransmits: int  # ... after a time without an answer
    spurious_retransmits: int  # ... though it had arrived
    duplicate_acks: int
    zero_windows: int  # packets that said that its receive buffer was full
    keep_alives: int
    rtt_samples: int  # round trips from its data to the other side's acknowledgement
    rtt_sum: int  # nanoseconds
    least_rtt: int  # of any worth where there are samples

    @property
    def retransmits(self) -> int:
        """All of them."""
        return self.fast_retransmits + self.timeout_retransmits + self.spurious_retransmits

    @property
    def rtt_min_ms(self) -> float | None:
        """The shortest round trip, in milliseconds."""
        return self.least_rtt / MILLISECOND_NS if self.rtt_samples else None

    @property
    def rtt_mean_ms(self) -> float | None:
        """The mean of the round trips, in milliseconds."""
        return self.rtt_sum / self.rtt_samples / MILLISECOND_NS if self.rtt_samples else None


@dataclass(frozen=True, slots=True)
class TcpConnection:
    """What the packets of a connection said about it, when it has ended or the capture has.

    The source is the side that opened the connection (direction 0); if the capture lacks the opening, the side that
    was seen first. Times are nanoseconds since 1970 UTC.
    """

    connection: int  # id: number of its first packet
    source: str
    source_port: int
    target: str
    target_port: int
    opened: int | None  # time of the SYN (or of its answer, if the capture lacks it); None: open before the capture
    first_seen: int
    closed: int | None  # time of the RST, or of the second FIN (of the only one, if one side alone was captured)
    how_closed: str  # fin, rst, open
    packets: int  # all that were captured, also twice (but not the copies in files of a higher rank)
    source_packets: int
    target_packets: int
    source_bytes: int  # payload that the packets had on the wire, each byte once
    target_bytes: int
    retransmits: int  # segments with bytes that were seen before, or that fill a hole late
    out_of_order: int  # segments that came behind others, but soon
    gap_bytes: int  # that the capture lacks: packets, and what the snap length cut off
    lost_bytes: int  # of these, those in packets
    connect: str | None  # established, refused, unanswered; None: it was open before the capture
    reset_by_source: bool | None  # whose RST ended it; None: none did
    closed_by_source: bool | None  # whose FIN or RST came first; None: it is open
    first_side: int  # which side the source is in rows of ``spans``
    source_base: int  # sequence number of the source's first byte, that at offset 0; known when it has ended
    target_base: int
    source_fares: Fares
    target_fares: Fares


class Connections:
    """All TCP connections of a capture; memory grows with those that are open, not with the capture."""

    def __init__(self, ranks: Ranks | None = None, limits: Limits = DEFAULT) -> None:
        """Ranks are those of packets by number, where files were captured at several points at once."""
        self.issues = IssueLog()
        self._ranks = ranks
        self._limits = limits
        self._ended: list[TcpConnection] = []
        self._told: list[Spans] = [np.empty(0, health.ROW)]
        self._rows_before = 0
        self._held = np.empty(0, np.uint8)
        self._filled = 0
        self._kept = np.empty(0, np.uint8)  # first copies, of which some may be repeated
        self._kept_filled = 0
        secret = np.array([secrets.randbits(64), secrets.randbits(64) | 1], np.uint64)
        self._state = State(
            connections=np.zeros(64, CONNECTION),
            streams=np.zeros(128, STREAM),
            flows=np.zeros(128, health.FLOW),
            spans=np.zeros(128, health.ROW),
            told=np.zeros(256, health.ROW),
            recent=np.zeros((64, RECENT), np.int64),
            firsts=np.zeros((64, COMPARED_SEGMENTS), FIRST),
            marks=np.zeros((64, KINDS), MARK),
            pieces=np.zeros(64, PIECE),
            table=np.full(256, -1, np.int64),
            rows=np.zeros(1024, ROW),
            order=np.zeros(256, np.int64),
            ended=np.zeros(64, CONNECTION),
            ended_marks=np.zeros((64, KINDS), MARK),
            ended_flows=np.zeros(128, health.FLOW),
            totals=np.zeros(1, TOTALS),
            secret=secret,
        )
        totals = self._state.totals
        for name in ("free_slot", "free_piece", "free_ring", "free_marks", "free_firsts"):
            totals[name] = -1
        totals["earliest"] = NO_TIME
        totals["most_live"] = limits.connections
        totals["most_of_stream"] = limits.stream_bytes
        totals["most_in_all"] = limits.held_bytes
        if ranks:
            totals["window"] = ranks.window
            totals["patience"] = ranks.window * (max(ranks.ranks) + 1)

    @property
    def copies(self) -> int:
        """Packets so far that a file of lower rank has too: they count there."""
        return int(self._state.totals["copies"][0])

    def feed(self, segments: Segments) -> Runs:
        """Take the next segments of the capture; return what they added to streams.

        Connections that ended are to be had from ``ended``, their issues from ``issues``.
        """
        count = len(segments.number)
        data = np.ascontiguousarray(segments.data)
        columns = plain(
            segments.number,
            segments.at,
            segments.source_high,
            segments.source_low,
            segments.target_high,
            segments.target_low,
            segments.source_port,
            segments.target_port,
            segments.seq,
            segments.ack,
            segments.flags,
            segments.start,
            segments.captured,
            segments.length,
            segments.window,
            segments.scale,
            segments.sacked,
            segments.dsack,
            segments.ident,
            self._ranks.of(segments.number) if self._ranks else np.zeros(count, np.int8),
        )
        self._begin_batch(len(data), count)
        taken = 0
        while True:
            taken, why = absorb(self._state, _read_only(data), _read_only(self._kept), taken, *columns)
            if why == DONE:
                break
            if why == NEEDS_SWEEP:
                self._sweep()
            elif why == NEEDS_END:
                self._end(self._state.totals["ending"].copy())
            elif why == NEEDS_FEWER:
                self._end_silent(int(segments.at[taken]), int(segments.number[taken]))
            else:
                self._make_room()
        return self._finish_batch(data)

    def finish(self) -> Iterator[Runs]:
        """End the capture: every connection ends as it is. What was still pending comes with the gaps in it.

        The connections end some at a time, those that began first first, so that what is made of them does not take
        memory for all at once.
        """
        connections = self._state.connections
        slots = np.flatnonzero(connections["used"])
        slots = slots[np.argsort(connections["id"][slots])]
        for begin in range(0, len(slots), ENDED_AT_ONCE):
            self._begin_batch(0, 0)
            self._end(slots[begin : begin + ENDED_AT_ONCE])
            yield self._finish_batch(np.empty(0, np.uint8))

    def spans(self) -> Spans:
        """Return the spans that came to their end since the last call, of all connections: rows of ``health.ROW``."""
        told = self._told
        self._told = [np.empty(0, health.ROW)]
        return np.concatenate(told)

    def ended(self) -> list[TcpConnection]:
        """Return the connections that ended since the last call; no later rows, and no later issues, are of them."""
        ended, self._ended = self._ended, []
        return ended

    def still_open(self, connections: Iterable[int]) -> dict[int, TcpConnection]:
        """Return what is known so far of those of these connections that have not ended.

        From a connection's first row on, its sides and whether its opening was seen no longer change.
        """
        state = self._state
        slots = int(state.totals["slots"][0])
        wanted = np.fromiter(connections, np.int64)
        found = state.connections[:slots]
        chosen = np.isin(found["id"], wanted) & (found["used"] == 1)
        found, flows = found[chosen], state.flows[: 2 * slots].reshape(slots, 2)[chosen]
        cut_bytes = np.where(found["marks"] >= 0, state.marks[found["marks"], SNAPPED]["sum"], 0)
        return {one.connection: one for one in _summaries(found, flows, cut_bytes)}

    def _begin_batch(self, size: int, count: int) -> None:
        totals = self._state.totals
        totals["rows"] = totals["ordinals"] = totals["ended"] = totals["told"] = 0
        totals["batch"] += 1
        totals["batch_size"] = size
        wanted = count + count // 4 + 1024
        if not wanted <= len(self._state.rows) <= 8 * wanted:
            self._state = self._state._replace(rows=np.zeros(wanted, ROW))

    def _sweep(self) -> None:
        """End connections that are over: no more than twice as many as came segments, so that they are not too many."""
        totals = self._state.totals
        over = np.empty(min(2 * int(totals["since_sweep"][0]), int(totals["live"][0])), np.int64)
        count = sweep(self._state, over)
        self._end(over[:count])

    def _end(self, slots: I64) -> None:
        self._make_room_to_end(len(slots))
        end_connections(self._state, slots)

    def _end_silent(self, at: int, packet: int) -> None:
        """End a part of the connections, before one more begins: the idlest of those that nobody would miss, or of all.

        These are over, or never had an answer: in a flood of SYNs, those of the flood.
        """
        all_slots = self._state.connections
        slots = np.flatnonzero(all_slots["used"])
        names = ("id", "now", "how_closed", "packets_0", "packets_1", "bytes_0", "bytes_1")
        identity, now, how_closed, packets_0, packets_1, bytes_0, bytes_1 = (all_slots[name][slots] for name in names)
        is_unanswered = (np.minimum(packets_0, packets_1) == 0) & (bytes_0 + bytes_1 == 0)
        is_needed = (how_closed == OPEN) & ~is_unanswered
        ending = slots[np.lexsort((identity, now, is_needed))[: len(slots) // FEWER + 1]]
        self._end(ending)
        detail = (
            f"so many connections at once that those silent longest are ended ({self._limits.option('connections')})"
        )
        self.issues.add(Issue("too_many_connections", detail, None, _time(at), packet, len(ending)))

    def _make_room_to_end(self, count: int) -> None:
        """Enlarge whatever may be too small for so many connections to end."""
        state = self._state
        pieces, rows, ordinals, ended, marks, told = (
            int(state.totals[name][0]) for name in ("pieces", "rows", "ordinals", "ended", "marks", "told")
        )
        self._state = state._replace(
            rows=_grown(state.rows, rows + 3 * pieces + 4 * count),
            order=_grown(state.order, ordinals + count),
            ended=_grown(state.ended, ended + count),
            ended_marks=_grown(state.ended_marks, ended + count),
            ended_flows=_grown(state.ended_flows, 2 * (ended + count)),
            told=_grown(state.told, told + 2 * count),
            marks=_grown(state.marks, marks + 1),  # the issues of one that has ended are free for the next
        )

    def _make_room(self) -> None:
        """Enlarge whatever may be too small for the next segment."""
        state = self._state
        totals = {name: int(state.totals[name][0]) for name in TOTALS.names or ()}
        slots = totals["slots"] + 1
        pieces = totals["pieces"]
        self._state = state._replace(
            connections=_grown(state.connections, slots),
            streams=_grown(state.streams, 2 * slots),
            flows=_grown(state.flows, 2 * slots),
            spans=_grown(state.spans, 2 * slots),
            told=_grown(state.told, totals["told"] + 2),
            recent=_grown(state.recent, totals["rings"] + 1),
            firsts=_grown(state.firsts, totals["firsts"] + 1),
            marks=_grown(state.marks, totals["marks"] + 1),
            pieces=_grown(state.pieces, 2 * pieces + 2),
            rows=_grown(state.rows, totals["rows"] + 6 * pieces + 16),
            order=_grown(state.order, totals["ordinals"] + 2),
            ended=_grown(state.ended, totals["ended"] + 1),
            ended_marks=_grown(state.ended_marks, totals["ended"] + 1),
            ended_flows=_grown(state.ended_flows, 2 * (totals["ended"] + 1)),
        )
        if 2 * (totals["live"] + 1) > len(state.table):
            self._state = self._state._replace(table=np.full(2 * len(state.table), -1, np.int64))
            rehash(self._state)

    def _finish_batch(self, data: U8) -> Runs:
        state = self._state
        totals = state.totals
        count = int(totals["rows"][0])
        ordinals = int(totals["ordinals"][0])
        runs = Runs(
            data=data,
            connection=np.empty(count, np.int64),
            direction=np.empty(count, np.int8),
            offset=np.empty(count, np.int64),
            start=np.empty(count, np.int64),
            length=np.empty(count, np.int64),
            number=np.empty(count, np.int64),
            at=np.empty(count, np.int64),
            acked=np.empty(count, np.int64),
            acked_at=np.empty(count, np.int64),
            round_trip=np.empty(count, np.int64),
            least_round_trip=np.empty(count, np.int64),
            heard=np.empty(count, np.int64),
            heard_at=np.empty(count, np.int64),
            turn=np.empty(count, np.int64),
        )
        by_id = np.argsort(state.order[:ordinals], kind="stable")
        arrange(
            state.rows,
            count,
            self._rows_before,
            state.order,
            by_id,
            runs.connection,
            runs.direction,
            runs.offset,
            runs.start,
            runs.length,
            runs.number,
            runs.at,
            runs.acked,
            runs.acked_at,
            runs.round_trip,
            runs.least_round_trip,
            runs.heard,
            runs.heard_at,
            runs.turn,
        )
        self._rows_before += count
        runs = self._with_held_bytes(runs)
        self._hold(data)
        self._keep_firsts(data)
        self._keep_told()
        self._note_ended()
        return runs

    def _with_held_bytes(self, runs: Runs) -> Runs:
        """Append to the batch's bytes those of earlier batches that rows point to."""
        batch_size = len(runs.data)
        from_held = runs.start >= batch_size
        if not from_held.any():
            return runs
        data = np.empty(batch_size + int(runs.length[from_held].sum()), np.uint8)
        data[:batch_size] = runs.data
        start = runs.start.copy()
        gather_held(self._held, batch_size, start, runs.length, data[batch_size:])
        return replace(runs, data=data, start=start)

    def _hold(self, data: U8) -> None:
        """Copy the bytes of pending pieces out of the batch, which the caller may reuse."""
        pieces = self._state.pieces
        totals = self._state.totals
        slots = int(totals["piece_slots"][0])
        if totals["pieces"][0] == 0:
            self._filled = 0
            totals["freed_bytes"] = totals["piece_slots"] = 0
            totals["free_piece"] = -1
            if len(self._held) > LEAST_HELD:
                self._held = np.empty(0, np.uint8)
            return
        used = pieces[:slots]
        fresh = int(used["captured"][(used["used"] == 1) & (used["held"] == 0)].sum())
        freed = int(totals["freed_bytes"][0])
        if 2 * freed > self._filled + LEAST_HELD:
            live = np.empty(2 * (self._filled - freed) + fresh, np.uint8)
            self._filled = hold_pieces(pieces, slots, False, _read_only(self._held), live, 0)
            self._held = live
            totals["freed_bytes"] = 0
        if fresh:
            self._held = _grown(self._held, self._filled + fresh)
            self._filled = hold_pieces(pieces, slots, True, _read_only(data), self._held, self._filled)

    def _keep_firsts(self, data: U8) -> None:
        """Copy the first copies of bytes that may come again out of the batch."""
        state = self._state
        fresh = int(limit_firsts(state))
        unkept = int(state.totals["unkept_bytes"][0])
        if 2 * unkept > self._kept_filled + LEAST_HELD:
            live = np.empty(2 * (self._kept_filled - unkept) + fresh, np.uint8)
            self._kept_filled = keep_firsts(state, False, _read_only(self._kept), live, 0)
            self._kept = live
            state.totals["unkept_bytes"] = 0
        self._kept = _grown(self._kept, self._kept_filled + fresh)
        self._kept_filled = keep_firsts(state, True, _read_only(data), self._kept, self._kept_filled)

    def _note_ended(self) -> None:
        count = int(self._state.totals["ended"][0])
        ended = self._state.ended[:count]
        marks = self._state.ended_marks[:count]
        snapped = marks[:, SNAPPED]
        cut_bytes = np.where(snapped["count"] > 0, snapped["sum"], 0)
        connections = _summaries(ended, self._state.ended_flows[: 2 * count].reshape(count, 2), cut_bytes)
        self._ended += connections
        for index, kind in np.argwhere(marks["count"] > 0).tolist():
            mark = marks[index, kind]
            name, detail = ISSUES[kind]
            self.issues.add(
                Issue(
                    name,
                    detail.format(int(mark["value"])),
                    connections[index].connection,
                    _time(int(mark["at"])),
                    int(mark["number"]),
                    int(mark["count"]),
                )
            )
        for connection in connections:
            if min(connection.source_packets, connection.target_packets) == 0 and (
                connection.source_bytes + connection.target_bytes > 0
            ):
                silent = connection.target if connection.target_packets == 0 else connection.source
                self.issues.add(
                    Issue(
                        "tcp_one_way",
                        f"no packet sent by {silent} was captured",
                        connection.connection,
                        _time(connection.first_seen),
                        connection.connection,
                    )
                )
        if len(self._state.ended) > 4 * count + 4096:
            self._state = self._state._replace(
                ended=np.zeros(64, CONNECTION),
                ended_marks=np.zeros((64, KINDS), MARK),
                ended_flows=np.zeros(128, health.FLOW),
            )

    def _keep_told(self) -> None:
        count = int(self._state.totals["told"][0])
        if count:
            self._told.append(self._state.told[:count].copy())
        if len(self._state.told) > 4 * count + 4096:
            self._state = self._state._replace(told=np.zeros(256, health.ROW))


def _read_only(data: U8) -> U8:
    """The same bytes; to the kernels an array that may be written to is of another type, and compiled for again."""
    data = data.view()
    data.flags.writeable = False
    return data


def _grown(array: NDArray[Element], size: int) -> NDArray[Element]:
    """Return the array with room for a number of elements: itself, or a copy of at least twice the size."""
    if size <= len(array):
        return array
    larger = np.zeros((max(size, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def _time(at: int) -> int | None:
    return None if at == NO_TIME else at


@lru_cache(maxsize=4096)
def host_of(high: int, low: int) -> str:
    """An address as `Segments` have it, as people write it."""
    if not high and low >> 32 == 0xFFFF:  # an IPv4 address (::ffff:0:0/96), as most are
        return f"{low >> 24 & 255}.{low >> 16 & 255}.{low >> 8 & 255}.{low & 255}"
    address = IPv6Address(high << 64 | low)
    return str(address.ipv4_mapped or address)


def _summaries(connections: NDArray[np.void], flows: NDArray[np.void], cut_bytes: I64) -> list[TcpConnection]:
    """connections: rows of ``CONNECTION``; flows: the two sides of each; cut_bytes: by the snap length."""
    names = connections.dtype.names or ()
    columns = [connections[name].tolist() for name in names]
    rows = zip(zip(*columns, strict=True), cut_bytes.tolist(), _fares(flows[:, 0]), _fares(flows[:, 1]), strict=True)
    return [_summary(dict(zip(names, row, strict=True)), cut, fares) for row, cut, *fares in rows]


def _fares(flows: NDArray[np.void]) -> list[Fares]:
    columns = [flows[name].tolist() for name in Fares.__slots__]
    return [Fares(*row) for row in zip(*columns, strict=True)]


def _summary(row: dict[str, int], cut_bytes: int, fares: Sequence[Fares]) -> TcpConnection:
    first = row["first_side"]
    addresses = [host_of(row["high_0"], row["low_0"]), host_of(row["high_1"], row["low_1"])]
    ports = [row["ports"] >> 16, row["ports"] & 0xFFFF]
    packets = [row["packets_0"], row["packets_1"]]
    payload = [row["bytes_0"], row["bytes_1"]]
    bases = [row["base_0"], row["base_1"]]
    return TcpConnection(
        connection=row["id"],
        source=addresses[first],
        source_port=ports[first],
        target=addresses[1 - first],
        target_port=ports[1 - first],
        opened=_time(row["opened"]),
        first_seen=row["first_seen"],
        closed=_time(row["closed"]),
        how_closed=HOW_CLOSED[row["how_closed"]],
        packets=row["packets"],
        source_packets=packets[first],
        target_packets=packets[1 - first],
        source_bytes=payload[first],
        target_bytes=payload[1 - first],
        retransmits=row["retransmits"],
        out_of_order=row["out_of_order"],
        gap_bytes=row["gap_bytes"],
        lost_bytes=row["gap_bytes"] - cut_bytes,
        connect=BEGINNINGS[row["beginning"]],
        reset_by_source=None if row["reset_side"] < 0 else row["reset_side"] == first,
        closed_by_source=None if row["how_closed"] == OPEN else row["closing_side"] == first,
        first_side=first,
        source_base=bases[first],
        target_base=bases[1 - first],
        source_fares=fares[first],
        target_fares=fares[1 - first],
    )
