"""What the stages of the sniffer hand to each other: named columns, one numpy array each, one element a row.

Times are int64 nanoseconds since 1970 UTC; ``NO_TIME`` stands for none. Packet numbers count from 1 over all files
of a capture (a file's packets follow those of the files before it), 0 stands for none. A stage never changes the
arrays that it was given.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
I8 = NDArray[np.int8]
U16 = NDArray[np.uint16]
I16 = NDArray[np.int16]
U32 = NDArray[np.uint32]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

NO_TIME = np.iinfo(np.int64).min

FIN, SYN, RST, ACK = 1, 2, 4, 16  # flags of a segment


def plain(*columns: Any) -> list[Any]:
    """Columns as kernels take them: read-only ones, or with gaps, would be another type, and compiled for again."""
    return [np.require(column, requirements=("C", "W")) for column in columns]


@dataclass(frozen=True, slots=True)
class Packets:
    """Captured frames of a link, in the order of the file (or files: merged by time)."""

    data: U8  # the bytes that start points into
    number: I64
    at: I64
    start: I64  # of the link layer header in data
    captured: I32  # bytes of the packet in data
    original: I32  # bytes of the packet on the wire
    link_type: I32  # LINKTYPE_ value of its interface

    def rows(self, rows: Any) -> Packets:
        """Some of them: a slice, a mask or places."""
        return Packets(
            self.data,
            self.number[rows],
            self.at[rows],
            self.start[rows],
            self.captured[rows],
            self.original[rows],
            self.link_type[rows],
        )


@dataclass(frozen=True, slots=True)
class Segments:
    """TCP segments, also those without payload: what the packets of a batch carried.

    An address is 16 bytes as two big-endian halves; IPv4 is mapped (::ffff:a.b.c.d).
    """

    data: U8
    number: I64
    at: I64
    source_high: U64
    source_low: U64
    target_high: U64
    target_low: U64
    source_port: U16
    target_port: U16
    seq: U32
    ack: U32
    flags: U8  # FIN, SYN, RST, ACK; PSH is 8
    start: I64  # of the payload in data
    captured: I32  # payload bytes in data
    length: I32  # payload bytes on the wire
    window: U16  # as the header has it, not scaled
    scale: I8  # how far the sender's later windows are shifted, told with its SYN (RFC 7323); -1: not told
    sacked: I32  # bytes above ack that the sender has all the same (SACK, RFC 2018); 0: none are told
    dsack: U32  # sequence number of bytes of which the sender tells that they came twice (D-SACK, RFC 2883); 0: none
    ident: U16  # identification in the IPv4 header, which many hosts count up (RFC 6864 asks no such thing); IPv6: 0

    def rows(self, rows: Any) -> Segments:
        """Some of them: a slice, a mask or places."""
        columns = {one.name: getattr(self, one.name) for one in fields(Segments)}
        return Segments(**{name: column if name == "data" else column[rows] for name, column in columns.items()})


@dataclass(frozen=True, slots=True)
class Runs:
    """What a batch of segments added to streams: bytes in stream order, and the gaps between them.

    Rows are sorted by stream (connection, direction), then by offset; inside a stream each row begins where the one
    before ended, in this batch or in an earlier one. A row with start -1 is a gap: length bytes that the capture
    lacks (number and at are those of the packet that proved it).
    """

    data: U8
    connection: I64  # id: number of the connection's first packet
    direction: I8  # 0: from the side that opened the connection (or was seen first), 1: the other
    offset: I64  # in the stream; 0 is the first byte after SYN, or the first byte seen if there was none
    start: I64
    length: I64
    number: I64  # packet that brought the bytes
    at: I64
    turn: I64  # orders the rows of both directions: what waited behind lost bytes has its turn when it waits no more
    acked: I64  # offset in the other stream (a FIN counts one) that the sender had acknowledged by then; -1: not known
    acked_at: I64  # when it first said so; ``NO_TIME``: not known
    round_trip: I64  # from data of the other side to the sender's acknowledgement, the least in `health.SPAN`
    least_round_trip: I64  # ... of all so far; both ``NO_TIME``: not known
    heard: I64  # offset in this stream that the other side had acknowledged by then; -1: not known
    heard_at: I64  # when it first said so; ``NO_TIME``: not known


class Outcome(IntEnum):
    """What became of an exchange."""

    ANSWERED = 0
    ONE_WAY = 1  # Produce with acks=0
    UNANSWERED = 2
    ORPHAN = 3  # a response whose request the capture lacks


class Kind(IntEnum):
    """What the frames of an exchange are."""

    KAFKA = 0
    SASL = 1  # raw SASL tokens: no header, no correlation id


@dataclass(frozen=True, slots=True)
class Exchanges:
    """Requests with their responses, in order of completion.

    Frames lie in data without their size prefix. A side that is absent has start, end and body -1, times ``NO_TIME``
    and packet 0. Where a gap cut a frame, end stops before the first missing byte and whole is False; the size on the
    wire is in bytes all the same.
    """

    data: U8
    connection: I64
    number: I64  # from 1 in each connection, in order of completion
    kind: I8
    outcome: I8
    correlation_id: I32
    api_key: I16  # -1: unknown (an orphan that no single reading fits, a raw SASL token)
    api_version: I16
    response_version: I16  # the version of the response's layout: api_version but for ApiVersions' fallback to 0
    client_id_start: I64  # in data; -1: null or absent
    client_id_length: I32
    requested: I64  # time of the request's first byte
    request_done: I64  # ... of its last byte
    request_acked: I64  # when the broker's host had acknowledged all of it, at the latest; ``NO_TIME``: not known
    round_trip: I64  # nanoseconds from the client's data to its acknowledgement, the least in `health.SPAN`
    least_round_trip: I64  # ... of all so far on the connection; both ``NO_TIME``: not known
    answered: I64  # ... of the response's first byte
    response_done: I64
    request_packet: I64  # packet of the first byte
    response_packet: I64
    request_bytes: I64  # size on the wire, prefix included; 0: none
    response_bytes: I64
    request_offset: I64  # in the client's stream, of the size prefix; -1: none
    response_offset: I64
    request_start: I64
    request_body: I64  # where the body begins, behind the header; -1: the header is not whole
    request_end: I64
    request_whole: Bool
    response_start: I64
    response_body: I64
    response_end: I64
    response_whole: Bool


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """One TCP connection as its packets show it; made when it ends, or at the end of the capture."""

    connection: int
    client: str
    client_port: int
    broker: str
    broker_port: int
    opened: int | None  # time of the SYN; None: it was open before the capture
    first_seen: int
    closed: int | None
    how_closed: str  # fin, rst, open
    protocol: str  # kafka, or what else was recognised: http, tls, redis, zookeeper, ..., empty, unknown
    client_id: str | None
    packets: int
    packets_up: int  # from the client
    packets_down: int
    bytes_up: int  # payload from the client on the wire, each byte once
    bytes_down: int
    retransmits: int
    out_of_order: int
    gap_bytes: int
    lost_bytes: int
    exchanges: int
    connect: str | None  # established, refused, unanswered; None: it was open before the capture
    reset_by: str | None  # client, broker: whose RST ended it
    closed_by: str | None  # ... whose FIN or RST came first
    retransmits_up: int  # sent by the client
    retransmits_down: int
    fast_retransmits: int  # of both sides, as the next ones
    timeout_retransmits: int
    spurious_retransmits: int
    duplicate_acks: int
    zero_windows_up: int
    zero_windows_down: int
    keep_alives: int
    rtt_client_min_ms: float | None  # from data of the broker to the client's acknowledgement
    rtt_client_mean_ms: float | None
    rtt_broker_min_ms: float | None
    rtt_broker_mean_ms: float | None
    client_base: int = 0  # sequence number of the client's first byte, that at offset 0
    broker_base: int = 0
    tls_version: str | None = None  # all of these are None of connections without TLS
    tls_cipher: str | None = None
    tls_server_name: str | None = None  # that the client asked for
    tls_alpn: str | None = None
    tls_certificate_names: tuple[str, ...] | None = None  # of the broker
    tls_certificate_from: int | None = None
    tls_certificate_until: int | None = None
    tls_alert: str | None = None  # the first
    tls_alert_by: str | None = None  # client, broker
    tls_opened: bool | None = None
    tls_requests: int | None = None  # inferred, of what was not opened
    tls_first_request: int | None = None
    tls_last_answer: int | None = None
    tls_answer_ms: float | None = None
