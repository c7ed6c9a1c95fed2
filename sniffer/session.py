"""Segments to exchanges: the stages of the sniffer behind the link layer as one object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.sniffer import health, tcp
from kafkascope.sniffer.capture_points import Ranks
from kafkascope.sniffer.columns import Bool, ConnectionRow, Exchanges, Runs, Segments
from kafkascope.sniffer.exchanges import Conversations, Start
from kafkascope.sniffer.frames import ROW_SIZE
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.recognise import begins_like_tls
from kafkascope.sniffer.translation import Translations

if TYPE_CHECKING:
    from kafkascope.sniffer.tls.connection import TlsConnection
    from kafkascope.sniffer.tls.keys import Keys
    from kafkascope.sniffer.tls.stage import TlsStage

_TLS_UNANSWERED = (
    "the client begins TLS, and the connection is closed without a byte of an answer, as ports without TLS do it; if "
    "this is one, set the client's security.protocol to PLAINTEXT or SASL_PLAINTEXT, or give it the port of a listener "
    "with TLS"
)
LOOKS = 16  # at what waits, while as many bytes of packets come as may wait
MOST_SPANS = 4096
"""Spans of a connection, of both sides, that wait until its bytes tell who is the client: five hours and more. Then it
is the side that opened the connection, or has the higher port."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What those may say who know better than the bytes."""

    ports: frozenset[int] = frozenset()  # only connections with one of these ports; empty: all
    decode_as: frozenset[int] = frozenset()  # brokers' ports on which everything is Kafka
    limits: Limits = DEFAULT
    ranks: Ranks | None = None  # of packets, where files were captured at several points at once
    key_logs: tuple[str, ...] = ()  # files with secrets of TLS sessions
    keys: Keys | None = None  # ... which are read: whoever reads packets does that; None: there are none


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The two ends of a connection by their parts in it."""

    client: str
    client_port: int
    broker: str
    broker_port: int


@dataclass(frozen=True, slots=True)
class SideSpans:
    """What sides of connections did in spans of ten seconds."""

    rows: tcp.Spans  # of ``health.ROW``, those of a connection one after the other
    from_client: Bool  # whether the side is the client
    ends: Mapping[int, Endpoint]  # of each connection


class Session:
    """Connections, frames and exchanges of one capture, or of one bucket of its connections.

    Results do not depend on how segments are cut into batches, nor on what other connections there are, as long as
    these are not too many or too large for the limits.
    """

    def __init__(self, options: SessionOptions | None = None) -> None:
        self.options = options or SessionOptions()
        self._translations = Translations(self.options.limits.connections)
        self._tcp = tcp.Connections(self.options.ranks, self.options.limits)
        self._conversations = Conversations(self._starts, self.options.limits)
        self._tls_stage: TlsStage | None = None  # made, and imported, with the first connection that begins like TLS
        self._captured = 0  # bytes of segments so far, as they take memory
        self.issues = IssueLog()
        self._ended_now: dict[int, tcp.TcpConnection] = {}
        self._rows: dict[int, ConnectionRow] = {}
        self._waiting: dict[int, list[tcp.Spans]] = {}
        self._parties: dict[int, tuple[Endpoint, int]] = {}  # of settled connections; and which side is the client
        self._spans: list[tuple[tcp.Spans, Bool]] = []
        self._ends: dict[int, Endpoint] = {}
        self._known: dict[int, Endpoint] = {}  # of open connections whose bytes have told who is the client

    @property
    def copies(self) -> int:
        """Packets so far that count in another file, which has them too."""
        return self._tcp.copies

    def feed(self, segments: Segments) -> Exchanges:
        """Take the next segments of the capture; return the exchanges that they completed, in order of completion."""
        if self.options.ports:
            segments = _with_ports(segments, self.options.ports)
        segments = self._translations.feed(segments)
        for issue in self._translations.take_issues():
            self.issues.add(issue)
        exchanges = []
        for part, is_looked_at in self._parts(segments):
            exchanges.append(self._take(self._tcp.feed(part)))
            if is_looked_at:
                if self._tls_stage is not None and (runs := self._tls_stage.relieve()) is not None:
                    exchanges.append(self._conversations.feed(runs))
                self._conversations.relieve()
        return reduce(_joined, exchanges)

    def finish(self) -> Iterator[Exchanges]:
        """End the capture: whatever is open is completed as it is, the exchanges of some connections at a time."""
        return map(self._take, self._tcp.finish())

    def ended(self) -> list[ConnectionRow]:
        """Return the connections that ended since the last call; no later exchanges or issues are of them."""
        rows, self._rows = list(self._rows.values()), {}
        return rows

    def spans(self) -> SideSpans:
        """Return the spans that are over since the last call, of connections of which it is clear who is the client."""
        rows = np.concatenate([np.empty(0, health.ROW), *(rows for rows, _ in self._spans)])
        from_client = np.concatenate([np.empty(0, np.bool_), *(of for _, of in self._spans)])
        told = SideSpans(rows, from_client, self._ends)
        self._spans, self._ends = [], {}
        return told

    def endpoints(self, connections: Iterable[int]) -> Mapping[int, Endpoint]:
        """Who is who in connections that are open, or that `ended` has not returned yet; others are left out."""
        found: dict[int, Endpoint] = {}
        open_now: list[int] = []
        for connection in np.unique(np.fromiter(connections, np.int64)).tolist():
            row = self._rows.get(connection)
            if row is not None:
                found[connection] = Endpoint(row.client, row.client_port, row.broker, row.broker_port)
            elif connection in self._known:
                found[connection] = self._known[connection]
            else:
                open_now.append(connection)
        for connection, summary in self._look_up(open_now).items():
            found[connection] = self._endpoint(summary)
            if self._conversations.client_direction(connection) is not None:
                self._known[connection] = found[connection]
        return found

    def _parts(self, segments: Segments) -> Iterator[tuple[Segments, bool]]:
        """Segments up to the places where it is looked how much waits, wherever a batch ends; and whether that is here.

        These are behind so many packets, as they take memory, that not much more than the limit can come together.
        """
        step = max(self.options.limits.held_bytes // LOOKS, 1)
        behind = self._captured + np.cumsum(segments.captured + ROW_SIZE, dtype=np.int64)
        looks = np.flatnonzero(np.diff(behind // step, prepend=self._captured // step)) + 1
        if len(behind):
            self._captured = int(behind[-1])
        begin = 0
        for end in looks.tolist():
            yield segments.rows(slice(begin, end)), True
            begin = end
        if begin < len(behind) or not len(looks):
            yield segments.rows(slice(begin, None)), False

    def _take(self, runs: Runs) -> Exchanges:
        ended = self._tcp.ended()
        self._ended_now = {connection.connection: connection for connection in ended}
        exchanges = self._conversations.feed(self._opened(runs))
        if ended:
            exchanges = _joined(exchanges, self._conversations.end(self._ended_now))
        self._take_spans(self._tcp.spans())
        if ended:
            for summary in ended:
                self._rows[summary.connection] = self._connection_row(summary)
                self._conversations.forget(summary.connection)
                if self._tls_stage is not None:
                    self._tls_stage.forget(summary.connection)
                self._known.pop(summary.connection, None)
            self._ended_now = {}
        for stage in (self._tcp, self._tls_stage, self._conversations):
            if stage is not None:
                for issue in stage.issues:
                    self.issues.add(issue)
                stage.issues = IssueLog()
        return exchanges

    def _opened(self, runs: Runs) -> Runs:
        """What is said in streams: bytes of TLS are opened, where that can be."""
        if self._tls_stage is None:
            if not begins_like_tls(runs).size:
                return runs
            from kafkascope.sniffer.tls.stage import TlsStage

            self._tls_stage = TlsStage(self.options.keys, self._conversations.has_begun, self.options.limits)
        return self._tls_stage.feed(runs, self._ended_now)

    def _tls(self, connection: int) -> TlsConnection | None:
        return None if self._tls_stage is None else self._tls_stage.of(connection)

    def _take_spans(self, new: tcp.Spans) -> None:
        """Hand out spans of connections that are settled or have ended; the others wait."""
        if not len(new):
            return
        new = new[np.argsort(new["connection"], kind="stable")]
        connections, first, count = np.unique(new["connection"], return_index=True, return_counts=True)
        ids = connections.tolist()
        ready = np.array(
            [self._is_clear(connection, more) for connection, more in zip(ids, count.tolist(), strict=True)]
        )
        unknown = [connection for connection in connections[ready].tolist() if connection not in self._parties]
        for connection, summary in self._look_up(unknown).items():
            source = summary.first_side
            side = source if self._client_is_source(summary) else 1 - source
            self._parties[connection] = self._endpoint(summary), side
        for place in np.flatnonzero(~ready).tolist():
            self._waiting.setdefault(ids[place], []).append(new[first[place] : first[place] + count[place]])
        clients = np.full(len(ids), -1, np.int8)
        for place in np.flatnonzero(ready).tolist():
            connection = ids[place]
            self._ends[connection], clients[place] = self._parties[connection]
            for rows in self._waiting.pop(connection, ()):
                self._spans.append((rows, rows["side"] == clients[place]))
            if connection in self._ended_now:
                del self._parties[connection]
        told = np.repeat(ready, count)
        self._spans.append((new[told], new["side"][told] == np.repeat(clients, count)[told]))

    def _is_clear(self, connection: int, more: int) -> bool:
        """Whether it is clear who is the client, or will not become so before more spans are too many to keep."""
        return (
            connection in self._parties
            or connection in self._ended_now
            or self._is_settled(connection)
            or sum(map(len, self._waiting.get(connection, ()))) + more > MOST_SPANS
        )

    def _is_settled(self, connection: int) -> bool:
        tls = self._tls(connection)
        return self._conversations.is_settled(connection) or (tls is not None and not tls.may_open)

    def _look_up(self, connections: list[int]) -> dict[int, tcp.TcpConnection]:
        found = {c: self._ended_now[c] for c in connections if c in self._ended_now}
        missing = [connection for connection in connections if connection not in found]
        if missing:
            found |= self._tcp.still_open(missing)
        return found

    def _starts(self, connections: list[int]) -> dict[int, Start]:
        starts = {}
        for connection, summary in self._look_up(connections).items():
            client = None
            if summary.target_port in self.options.decode_as:
                client = 0
            elif summary.source_port in self.options.decode_as:
                client = 1
            starts[connection] = Start(summary.opened is not None or self._has_hello(connection), client)
        return starts

    def _has_hello(self, connection: int) -> bool:
        """Whether the side that was seen first begins TLS: what it says then is had from the beginning."""
        tls = self._tls(connection)
        return tls is not None and tls.hello is not None and tls.client == 0

    def _client_is_source(self, summary: tcp.TcpConnection) -> bool:
        """By the bytes; else the side that opened the connection; else the one with the higher port."""
        client = self._conversations.client_direction(summary.connection)
        if client is not None:
            return client == 0
        return summary.opened is not None or summary.source_port >= summary.target_port

    def _endpoint(self, summary: tcp.TcpConnection) -> Endpoint:
        source, target = (summary.source, summary.source_port), (summary.target, summary.target_port)
        if self._client_is_source(summary):
            return Endpoint(*source, *target)
        return Endpoint(*target, *source)

    def _add_issue(self, kind: str, detail: str, summary: tcp.TcpConnection) -> None:
        """An issue of a connection as a whole, at its first packet."""
        self.issues.add(Issue(kind, detail, summary.connection, summary.first_seen, summary.connection))

    def _connection_row(self, summary: tcp.TcpConnection) -> ConnectionRow:
        connection = summary.connection
        endpoint = self._endpoint(summary)
        up, down = summary.source_bytes, summary.target_bytes
        packets_up, packets_down = summary.source_packets, summary.target_packets
        of_client, of_broker = summary.source_fares, summary.target_fares
        client_base, broker_base = summary.source_base, summary.target_base
        client = 0
        if not self._client_is_source(summary):
            up, down = down, up
            packets_up, packets_down = packets_down, packets_up
            client_base, broker_base = broker_base, client_base
            of_client, of_broker = of_broker, of_client
            client = 1
        sides = {True: "client", False: "broker"} if client == 0 else {True: "broker", False: "client"}
        reset_by = None if summary.reset_by_source is None else sides[summary.reset_by_source]
        closed_by = None if summary.closed_by_source is None else sides[summary.closed_by_source]
        protocol = self._conversations.protocol(connection)
        tls = self._tls(connection)
        if tls is not None:
            if protocol == "empty":
                protocol = "https" if tls.offers_http else "tls"
            for issue in tls.issues(connection, summary.first_seen):
                self.issues.add(issue)
        exchanges = self._conversations.count(connection)
        if protocol == "kafka" and exchanges:
            for packets, name in ((packets_up, "requests"), (packets_down, "responses")):
                if not packets:
                    self._add_issue("one_way_capture", f"the capture has no {name} of this connection at all", summary)
        if protocol == "tls" and _is_unanswered(summary):
            self._add_issue("tls_unanswered", _TLS_UNANSWERED, summary)
        return ConnectionRow(
            connection=connection,
            client=endpoint.client,
            client_port=endpoint.client_port,
            broker=endpoint.broker,
            broker_port=endpoint.broker_port,
            opened=summary.opened,
            first_seen=summary.first_seen,
            closed=summary.closed,
            how_closed=summary.how_closed,
            protocol=protocol,
            client_id=self._conversations.client_id(connection),
            packets=summary.packets,
            packets_up=packets_up,
            packets_down=packets_down,
            bytes_up=up,
            bytes_down=down,
            retransmits=summary.retransmits,
            out_of_order=summary.out_of_order,
            gap_bytes=summary.gap_bytes,
            lost_bytes=summary.lost_bytes,
            exchanges=exchanges,
            connect=summary.connect,
            reset_by=reset_by,
            closed_by=closed_by,
            retransmits_up=of_client.retransmits,
            retransmits_down=of_broker.retransmits,
            fast_retransmits=of_client.fast_retransmits + of_broker.fast_retransmits,
            timeout_retransmits=of_client.timeout_retransmits + of_broker.timeout_retransmits,
            spurious_retransmits=of_client.spurious_retransmits + of_broker.spurious_retransmits,
            duplicate_acks=of_client.duplicate_acks + of_broker.duplicate_acks,
            zero_windows_up=of_client.zero_windows,
            zero_windows_down=of_broker.zero_windows,
            keep_alives=of_client.keep_alives + of_broker.keep_alives,
            rtt_client_min_ms=of_broker.rtt_min_ms,
            rtt_client_mean_ms=of_broker.rtt_mean_ms,
            rtt_broker_min_ms=of_client.rtt_min_ms,
            rtt_broker_mean_ms=of_client.rtt_mean_ms,
            client_base=client_base,
            broker_base=broker_base,
            **({} if tls is None else tls.facts()),
        )


def _is_unanswered(summary: tcp.TcpConnection) -> bool:
    """Whether a connection, which the capture has from its opening to its end, brought payload of the opener alone."""
    return (
        summary.opened is not None
        and summary.how_closed != "open"
        and summary.target_packets > 0
        and summary.target_bytes == 0
        and summary.gap_bytes == 0
    )


def _with_ports(segments: Segments, ports: frozenset[int]) -> Segments:
    wanted_ports = np.array(sorted(ports), np.int64)
    return segments.rows(np.isin(segments.source_port, wanted_ports) | np.isin(segments.target_port, wanted_ports))


POSITIONS = frozenset(
    {
        "client_id_start",
        "request_start",
        "request_body",
        "request_end",
        "response_start",
        "response_body",
        "response_end",
    }
)


def _joined(first: Exchanges, second: Exchanges) -> Exchanges:
    """Two batches as one."""
    if not second.number.shape[0]:
        return first
    if not first.number.shape[0]:
        return second
    shift = first.data.shape[0]
    columns = {}
    for column in (field.name for field in fields(Exchanges)):
        one, other = getattr(first, column), getattr(second, column)
        if column in POSITIONS:
            other = np.where(other >= 0, other + shift, -1)
        columns[column] = np.concatenate([one, other])
    return Exchanges(**columns)
