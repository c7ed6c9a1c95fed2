"""Makes segments for tests, as packets would bring them, and puts together what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kafkascope.sniffer.columns import Runs, Segments
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.tcp import Connections, TcpConnection

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
MAPPED = 0xFFFF_0000_0000
CLIENT = ("10.0.0.2", 40000)
BROKER = ("10.0.0.1", 9092)
_LARGEST = 60_000  # bytes of payload; an IP packet has at most 65,535


@dataclass(frozen=True)
class Packet:
    """One TCP packet; ``captured`` None means all of its payload. Times are nanoseconds since START."""

    source: tuple[str, int]
    target: tuple[str, int]
    seq: int
    payload: bytes = b""
    flags: int = ACK
    ack: int = 0
    at: int = 0
    captured: int | None = None
    window: int = 65535
    scale: int = -1
    sacked: int = 0
    dsack: int = 0
    ident: int = 0


def _low(address: str) -> int:
    parts = [int(part) for part in address.split(".")]
    return MAPPED | parts[0] << 24 | parts[1] << 16 | parts[2] << 8 | parts[3]


def segments(packets: Sequence[Packet], first: int = 1) -> Segments:
    """Segments of packets numbered from ``first`` on."""
    present = [packet.payload[: packet.captured] for packet in packets]
    sizes = np.array([len(payload) for payload in present], np.int64)
    return Segments(
        data=np.frombuffer(b"".join(present), np.uint8),
        number=np.arange(first, first + len(packets), dtype=np.int64),
        at=np.array([START + packet.at for packet in packets], np.int64),
        source_high=np.zeros(len(packets), np.uint64),
        source_low=np.array([_low(packet.source[0]) for packet in packets], np.uint64),
        target_high=np.zeros(len(packets), np.uint64),
        target_low=np.array([_low(packet.target[0]) for packet in packets], np.uint64),
        source_port=np.array([packet.source[1] for packet in packets], np.uint16),
        target_port=np.array([packet.target[1] for packet in packets], np.uint16),
        seq=np.array([packet.seq & 0xFFFFFFFF for packet in packets], np.uint32),
        ack=np.array([packet.ack & 0xFFFFFFFF for packet in packets], np.uint32),
        flags=np.array([packet.flags for packet in packets], np.uint8),
        start=np.cumsum(sizes) - sizes,
        captured=sizes.astype(np.int32),
        length=np.array([len(packet.payload) for packet in packets], np.int32),
        window=np.array([packet.window for packet in packets], np.uint16),
        scale=np.array([packet.scale for packet in packets], np.int8),
        sacked=np.array([packet.sacked for packet in packets], np.int32),
        dsack=np.array([packet.dsack & 0xFFFFFFFF for packet in packets], np.uint32),
        ident=np.array([packet.ident & 0xFFFF for packet in packets], np.uint16),
    )


@dataclass(frozen=True)
class Piece:
    """A row of runs: the bytes, or None with the length of a gap."""

    offset: int
    length: int
    data: bytes | None
    number: int
    at: int


@dataclass(frozen=True)
class Outcome:
    """All that came out of a capture."""

    streams: dict[tuple[int, int], list[Piece]]  # by connection and direction
    ended: list[TcpConnection]
    issues: list[Issue]
    spans: list[str]

    def data(self, connection: int = 1, direction: int = 0) -> bytes:
        """Bytes of a stream, a question mark for each missing one."""
        pieces = self.streams.get((connection, direction), [])
        return b"".join(b"?" * piece.length if piece.data is None else piece.data for piece in pieces)

    def gaps(self, connection: int = 1, direction: int = 0) -> list[tuple[int, int]]:
        pieces = self.streams.get((connection, direction), [])
        return [(piece.offset, piece.length) for piece in pieces if piece.data is None]

    def counts(self) -> dict[str, int]:
        counted: dict[str, int] = {}
        for issue in self.issues:
            counted[issue.kind] = counted.get(issue.kind, 0) + issue.count
        return counted

    def only(self) -> TcpConnection:
        (connection,) = self.ended
        return connection


def read_runs(runs: Runs, streams: dict[tuple[int, int], list[Piece]]) -> None:
    """Add rows to streams; check what Runs promises of their order."""
    before: tuple[int, int] | None = None
    for row in range(len(runs.number)):
        key = (int(runs.connection[row]), int(runs.direction[row]))
        assert before is None or before <= key
        before = key
        pieces = streams.setdefault(key, [])
        offset, start, length = int(runs.offset[row]), int(runs.start[row]), int(runs.length[row])
        assert length > 0
        assert offset == (pieces[-1].offset + pieces[-1].length if pieces else 0)
        assert start == -1 or 0 <= start <= len(runs.data) - length
        data = None if start == -1 else runs.data[start : start + length].tobytes()
        pieces.append(Piece(offset, length, data, int(runs.number[row]), int(runs.at[row])))


def run(packets: Sequence[Packet], cuts: Iterable[int] = ()) -> Outcome:
    """Feed packets in batches that end at the given indexes."""
    connections = Connections()
    streams: dict[tuple[int, int], list[Piece]] = {}
    ended: list[TcpConnection] = []
    begin = 0
    for end in [*sorted(cuts), len(packets)]:
        batch = segments(packets[begin:end], begin + 1)
        data = batch.data.copy()
        runs = connections.feed(replace(batch, data=data))
        read_runs(runs, streams)
        ended += connections.ended()
        data[:] = 0xEE  # a batch's bytes may be overwritten by the next
        begin = end
    for runs in connections.finish():
        read_runs(runs, streams)
    ended += connections.ended()
    issues = sorted(connections.issues, key=lambda issue: (issue.connection or 0, issue.kind))
    return Outcome(streams, ended, issues, sorted(map(str, connections.spans().tolist())))


class Conversation:
    """Writes down what two sides send each other, 1 ms apart."""

    def __init__(self, client_isn: int = 1000, broker_isn: int = 5000, port: int = CLIENT[1]) -> None:
        self.sides = ((CLIENT[0], port), BROKER)
        self.next = [client_isn, broker_isn]
        self.at = 0
        self.packets: list[Packet] = []

    def send(self, side: int, payload: bytes = b"", flags: int = ACK, later: int = MILLISECOND) -> Packet:
        """Add a packet of side 0 (client) or 1 (broker)."""
        self.at += later
        packet = Packet(
            self.sides[side],
            self.sides[1 - side],
            self.next[side],
            payload,
            flags,
            self.next[1 - side] if flags & ACK else 0,
            self.at,
        )
        self.next[side] += len(payload) + (1 if flags & (SYN | FIN) else 0)
        self.packets.append(packet)
        return packet

    def write(self, side: int, data: bytes) -> None:
        """Add data in as many packets as it takes."""
        for begin in range(0, max(len(data), 1), _LARGEST):
            self.send(side, data[begin : begin + _LARGEST])

    def open(self) -> None:
        self.send(0, flags=SYN)
        self.send(1, flags=SYN | ACK)
        self.send(0)

    def close(self) -> None:
        self.send(0, flags=FIN | ACK)
        self.send(1, flags=FIN | ACK)
        self.send(0)


def talk(*parts: bytes, port: int = CLIENT[1]) -> list[Packet]:
    """The packets of a connection whose sides, the client first, send the parts in turn."""
    conversation = Conversation(port=port)
    conversation.open()
    for number, part in enumerate(parts):
        conversation.write(number % 2, part)
    conversation.close()
    return conversation.packets
