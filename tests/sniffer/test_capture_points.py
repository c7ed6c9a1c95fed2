"""One connection captured at two points: what TCP reassembly makes of packets and their copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.sniffer.capture_points import Clock, Ranks
from kafkascope.sniffer.columns import NO_TIME, Segments
from kafkascope.sniffer.tcp import Connections, TcpConnection
from tests.sniffer.tcp_conversation import (
    ACK,
    MILLISECOND,
    RST,
    SYN,
    Conversation,
    Packet,
    Piece,
    read_runs,
    segments,
    talk,
)

DELAY = 300_000
WINDOW = 10 * MILLISECOND


@dataclass(frozen=True)
class Seen:
    streams: dict[tuple[int, int], list[Piece]]
    connections: list[TcpConnection]
    copies: int
    issues: set[str]

    def data(self, direction: int) -> bytes:
        (connection,) = {connection for connection, _ in self.streams}
        return b"".join(piece.data or b"?" * piece.length for piece in self.streams.get((connection, direction), []))

    def only(self) -> TcpConnection:
        (connection,) = self.connections
        return connection


def passing(packets: Sequence[Packet], far: bool) -> list[Packet]:
    """Packets as they pass the client's or the broker's end: what was sent at one is later at the other."""
    client = packets[0].source
    return [replace(p, at=p.at + (DELAY if (p.source == client) == far else 0)) for p in packets]


def captured(*points: Sequence[Packet], batches: int = 1) -> Seen:
    """What comes of files, merged as the sources do it."""
    whole = segments([packet for point in points for packet in point])
    rank = np.repeat(np.arange(len(points)), [len(point) for point in points])
    order = np.lexsort((whole.number, whole.at + rank * WINDOW))
    columns = {field.name: getattr(whole, field.name)[order] for field in fields(Segments) if field.name != "data"}
    merged = Segments(data=whole.data, **columns)
    firsts = np.cumsum([1, *(len(point) for point in points[:-1])]).tolist()
    connections = Connections(Ranks(tuple(firsts), tuple(range(len(points))), WINDOW))
    streams: dict[tuple[int, int], list[Piece]] = {}
    edges = np.linspace(0, len(order), batches + 1).astype(int).tolist()
    for begin, end in pairwise(edges):
        read_runs(connections.feed(merged.rows(slice(begin, end))), streams)
    for runs in connections.finish():
        read_runs(runs, streams)
    ended = connections.ended()
    return Seen(streams, ended, connections.copies, {issue.kind for issue in connections.issues})


def conversation(count: int = 40) -> list[Packet]:
    return talk(*(bytes([i]) * (i + 1) for i in range(count)))


def payload(packets: Sequence[Packet], direction: int) -> bytes:
    client = packets[0].source
    return b"".join(packet.payload for packet in packets if (packet.source != client) == bool(direction))


def test_every_packet_at_two_points_counts_once_by_the_time_of_the_first_file() -> None:
    packets = conversation()
    near, far = passing(packets, False), passing(packets, True)
    for first, second in ((near, far), (far, near)):
        seen, alone = captured(first, second), captured(first)
        assert seen.streams == alone.streams
        assert seen.connections == alone.connections
        assert (seen.copies, alone.copies) == (len(packets), 0)
        assert seen.issues == set()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from("123b"), min_size=60, max_size=60), st.integers(1, 9))
def test_what_one_point_missed_the_other_brings(fates: list[str], batches: int) -> None:
    packets = conversation(60)
    near, far = passing(packets, False), passing(packets, True)
    # The opening is whole; of the others each is lost at one of the points (1, 2) or at none.
    kept = ["b"] * 3 + fates + ["b"] * 3
    first = [packet for packet, fate in zip(near, kept, strict=True) if fate != "1"]
    second = [packet for packet, fate in zip(far, kept, strict=True) if fate != "2"]
    seen = captured(first, second, batches=batches)
    assert (seen.data(0), seen.data(1)) == (payload(packets, 0), payload(packets, 1))
    one = seen.only()
    assert (one.packets, one.gap_bytes, one.retransmits) == (len(packets), 0, 0)
    assert seen.copies == len(first) + len(second) - len(packets)
    assert seen.issues == set()
    assert seen == captured(first, second)


def test_a_retransmission_that_both_points_saw_counts_once() -> None:
    packets = conversation()
    again = replace(packets[10], at=packets[10].at + 200 * MILLISECOND)
    seen = captured(*(passing([*packets, again], far) for far in (False, True)))
    assert (seen.only().retransmits, seen.copies) == (1, len(packets) + 1)


def test_segments_that_a_network_card_joined_are_copies_too() -> None:
    made = Conversation()
    made.open()
    for _ in range(30):
        made.send(0, bytes(range(100)), later=1000)
    packets = made.packets
    joined = [*packets[:3]]
    for i in range(3, len(packets), 10):
        part = packets[i : i + 10]
        joined.append(replace(part[-1], seq=part[0].seq, payload=b"".join(p.payload for p in part)))
    for first, second in ((packets, joined), (joined, packets)):
        seen = captured(passing(first, False), passing(second, True))
        assert seen.data(0) == payload(packets, 0)
        assert (seen.only().packets, seen.only().retransmits) == (len(first), 0)
        assert (seen.copies, seen.issues) == (len(second), set())


def test_a_file_that_ends_leaves_the_connection_to_the_other() -> None:
    packets = conversation(200)
    near, far = passing(packets, False), passing(packets, True)
    seen = captured(near[:100], far)
    assert (seen.data(0), seen.data(1)) == (payload(packets, 0), payload(packets, 1))
    assert (seen.only().packets, seen.only().how_closed, seen.issues) == (len(packets), "fin", set())
    again = replace(far[150], at=far[-1].at + 500 * MILLISECOND)
    assert captured(near[:100], [*far, again]).only().retransmits == 1
    begun = captured(near[100:], far)
    assert (begun.data(0), begun.only().packets) == (payload(packets, 0), len(packets))


def test_a_refused_connection_whose_syn_the_first_file_lacks_is_one() -> None:
    made = Conversation()
    syn = made.send(0, flags=SYN)
    reset = made.send(1, flags=RST | ACK)
    near, far = passing([syn, reset], False), passing([syn, reset], True)
    one, alone = captured(near[1:], far).only(), captured(far).only()
    assert alone.opened is not None
    assert (one.packets, one.how_closed, one.opened) == (2, "rst", alone.opened)
    assert one.source == syn.source[0]


def test_missing_at_both_points_is_a_gap_once() -> None:
    packets = conversation(200)
    lacking = [packet for i, packet in enumerate(packets) if i != 50]
    seen = captured(*(passing(lacking, far) for far in (False, True)))
    assert seen.only().gap_bytes == len(packets[50].payload)
    assert seen.issues == {"tcp_gap"}


def test_connections_on_the_same_ports_are_told_apart() -> None:
    first, second = conversation(), [replace(p, seq=p.seq + 10**9, ack=p.ack + 10**9) for p in conversation()]
    gap = first[-1].at + 2 * MILLISECOND  # copies of the first come when the second has begun
    packets = [*first, *(replace(p, at=p.at + gap) for p in second)]
    alone = captured(passing(packets, False))
    seen = captured(passing(packets, False), passing(packets, True))
    assert len(alone.connections) == 2
    assert (seen.connections, seen.streams) == (alone.connections, alone.streams)


@given(
    st.integers(-(10**18), 10**18),
    st.floats(-1e-3, 1e-3),
    st.lists(st.integers(0, 2 * 10**18), min_size=2),
)
def test_clocks_undo_each_other_and_keep_order(offset: int, drift: float, times: list[int]) -> None:
    clock = Clock(offset, drift, 10**18)
    at = np.array(sorted(times), np.int64)
    right = clock.corrected(at)
    assert (np.diff(right) >= 0).all()
    assert right.tolist() == [clock.at(time) for time in at.tolist()]
    assert np.abs(clock.inverse().corrected(right) - at).max() <= 2000  # of 2e18: what a float can tell
    other = Clock(-offset // 3, drift / 2, 3 * 10**17)
    assert np.abs(other.after(clock).corrected(at) - other.corrected(right)).max() <= 2000
    assert clock.corrected(np.array([NO_TIME])).tolist() == [NO_TIME]


def test_no_round_trip_from_one_point_to_another() -> None:
    """Where each point has what one side sent, nobody can tell how long an answer took at either."""
    packets = conversation()
    client = packets[0].source
    near = [packet for packet in passing(packets, False) if packet.source == client]
    far = [packet for packet in passing(packets, True) if packet.source != client]
    apart, together = captured(near, far).only(), captured(passing(packets, False)).only()
    assert (apart.source_fares.rtt_samples, apart.target_fares.rtt_samples) == (0, 0)
    assert min(together.source_fares.rtt_samples, together.target_fares.rtt_samples) > 0
    assert apart.packets == together.packets
