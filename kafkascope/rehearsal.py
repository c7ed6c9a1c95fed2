"""A few packets that need every kernel there is behind an interface.

They go the way that an interface's packets will go, before it is opened: kernels are compiled or loaded from their
cache, which takes a minute or a second, while nothing comes that could be lost. The test of this module holds that
nothing is left to compile.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import crc32c
import numpy as np

from kafkascope.decoders import apis
from kafkascope.decoders.payloads import CLUSTER_METADATA_TOPIC
from kafkascope.sniffer import recognise
from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.issues import IssueLog
from kafkascope.sniffer.link import RAW_IP
from kafkascope.sniffer.origins import Origins
from kafkascope.sniffer.reassembly.bounds import SWEEP_SEGMENTS
from kafkascope.sniffer.sources import live
from kafkascope.sniffer.units import MILLISECOND_NS

CLIENT, BROKER = 0, 1
SYN, ACK = 2, 16
ADDRESSES = (b"\x7f\x00\x00\x01", b"\x7f\x00\x00\x02")
MANY = 150  # connections at once, so that the table of connections has to grow
AT = 1_700_000_000_000_000_000  # nanoseconds since 1970


class Rehearsal:
    """What ``LiveSource`` is, without an interface. Most packets come by themselves, so that much waits for more."""

    is_partial = False
    origins = Origins(["rehearsal"])
    is_behind = False
    cut = 0

    def __init__(self) -> None:
        self.issues = IssueLog()

    def __iter__(self) -> Iterator[Packets]:
        live.rehearse()
        flexible = apis.api_table().first_flexible_response
        recognise.response_layout(np.zeros(5, np.uint8), 0, 5, 0, 0, flexible)  # for answers behind lost bytes
        number = 1
        for contents in _batches():
            yield _packets(contents, number)
            number += len(contents)

    def statistics(self) -> tuple[int, int]:
        """No packets, none dropped."""
        return 0, 0

    def stop(self) -> None:
        """It ends by itself."""

    def close(self) -> None:
        """Nothing is open."""


def _batches() -> Iterator[list[bytes]]:
    # A connection from its beginning; of the request the second half comes first.
    opened = _Connection(20_000)
    yield [opened.packet(CLIENT, flags=SYN)]
    yield [opened.packet(BROKER, flags=SYN | ACK)]
    request, response = _produce("\udcff")
    halves = [opened.packet(CLIENT, half) for half in (request[:40], request[40:])]
    yield from ([half] for half in reversed(halves))
    yield [opened.packet(BROKER, response)]
    yield from ([opened.packet(side, message)] for side, message in enumerate(_heartbeat()))  # of a group
    # One from the middle, where bodies tell what a message is, and one of which the answers alone are seen.
    for connection, sides in ((_Connection(20_001), (CLIENT, BROKER)), (_Connection(20_002), (BROKER,))):
        for correlation_id in range(4):
            exchange = _metadata(correlation_id) if correlation_id % 2 else _api_versions(correlation_id)
            yield from ([connection.packet(side, exchange[side])] for side in sides)
    # One that is known for Kafka by a Produce alone; of this topic records are read even if none are shown.
    producing = _Connection(20_003)
    yield from ([producing.packet(side, message)] for side, message in enumerate(_produce(CLUSTER_METADATA_TOPIC)))
    yield [_Connection(30_000 + more).packet(CLIENT, flags=SYN) for more in range(MANY)]
    # So many packets that connections are looked through for those that are over.
    yield [opened.packet(CLIENT) for _ in range(SWEEP_SEGMENTS + 1)]


class _Connection:
    """Writes the packets of a connection: IPv4 and TCP, without checksums."""

    def __init__(self, port: int) -> None:
        self._ports = (port, 9092)
        self._seq = [1000, 1000]

    def packet(self, side: int, payload: bytes = b"", flags: int = ACK) -> bytes:
        """The next packet of a side."""
        other = 1 - side
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0) + ADDRESSES[side] + ADDRESSES[other]
        numbers = (self._ports[side], self._ports[other], self._seq[side], self._seq[other])
        self._seq[side] += len(payload) + (1 if flags & SYN else 0)
        return ip + struct.pack(">HHIIBBHHH", *numbers, 0x50, flags, 65535, 0, 0) + payload


def _packets(contents: Sequence[bytes], first: int) -> Packets:
    sizes = np.array([len(content) for content in contents], np.int32)
    number = np.arange(first, first + len(contents), dtype=np.int64)
    return Packets(
        data=np.frombuffer(b"".join(contents), np.uint8),
        number=number,
        at=AT + number * MILLISECOND_NS,
        start=np.cumsum(sizes, dtype=np.int64) - sizes,
        captured=sizes,
        original=sizes,
        link_type=np.full(len(contents), RAW_IP, np.int32),
    )


def _produce(name: str) -> tuple[bytes, bytes]:
    """Produce v3 with a batch of one record, to partition 0 of a topic whose name may be no UTF-8; and its answer."""
    record = b"\x00\x00\x00\x02k\x02v\x00"  # attributes, deltas of time and offset, key, value, headers
    records = bytes([2 * len(record)]) + record
    checked = struct.pack(">hiqqqhii", 0, 0, AT // MILLISECOND_NS, AT // MILLISECOND_NS, -1, -1, -1, 1) + records
    covered = struct.pack(">ibI", 0, 2, crc32c.crc32c(checked)) + checked
    batch = struct.pack(">qi", 0, len(covered)) + covered
    topic = struct.pack(">ih", 1, len(name)) + name.encode(errors="surrogateescape") + struct.pack(">ii", 1, 0)
    request = struct.pack(">hhi", -1, 1, 1000) + topic + struct.pack(">i", len(batch)) + batch
    response = topic + struct.pack(">hqqi", 0, 0, -1, 0)
    return _request(apis.PRODUCE, 3, 1, request), _frame(struct.pack(">i", 1) + response)


def _api_versions(correlation_id: int) -> tuple[bytes, bytes]:
    """ApiVersions v3, whose fields may be tagged, by a client called a 1; and an answer that knows Metadata alone."""
    response = struct.pack(">ihBhhhBiB", correlation_id, 0, 2, apis.METADATA, 0, 12, 0, 0, 0)
    return _request(apis.API_VERSIONS, 3, correlation_id, b"\x00\x02a\x021\x00"), _frame(response)


def _metadata(correlation_id: int) -> tuple[bytes, bytes]:
    """Metadata v12, which has ids of topics: nothing is asked for; and an answer with a topic in error."""
    topic = struct.pack(">hB1s16sBBiB", 3, 2, b"t", bytes(range(16)), 0, 1, 0, 0)
    response = struct.pack(">iBiBBiB", correlation_id, 0, 0, 1, 0, 1, 2) + topic + b"\x00"
    return _request(apis.METADATA, 12, correlation_id, b"\x00\x01\x00\x00\x00"), _frame(response)


def _heartbeat() -> tuple[bytes, bytes]:
    """Heartbeat v0 of member m in generation 1 of group g."""
    request = struct.pack(">h1sih1s", 1, b"g", 1, 1, b"m")
    return _request(apis.HEARTBEAT, 0, 2, request), _frame(struct.pack(">ih", 2, 0))


def _request(key: int, version: int, correlation_id: int, rest: bytes) -> bytes:
    return _frame(struct.pack(">hhih9s", key, version, correlation_id, 9, b"rehearsal") + rest)


def _frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content
