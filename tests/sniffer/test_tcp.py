"""One case for each thing that TCP, the network or the capture may do to a connection."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kafkascope.decoders.limits import DEFAULT
from kafkascope.sniffer.columns import NO_TIME, Segments
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.reassembly import bounds, kernel
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.sniffer.tcp import Connections
from tests.paths import PCAPS
from tests.sniffer.tcp_conversation import (
    ACK,
    BROKER,
    CLIENT,
    FIN,
    MILLISECOND,
    PSH,
    RST,
    SECOND,
    START,
    SYN,
    Conversation,
    Packet,
    Piece,
    read_runs,
    run,
    segments,
)


def opened(client_isn: int = 1000, broker_isn: int = 5000) -> Conversation:
    conversation = Conversation(client_isn, broker_isn)
    conversation.open()
    return conversation


def numbered(size: int, first: int = 0) -> bytes:
    return bytes((first + i) % 251 for i in range(size))


def test_whole_connection() -> None:
    conversation = opened()
    conversation.send(0, b"request", PSH | ACK)
    conversation.send(1, b"response", PSH | ACK)
    conversation.close()
    outcome = run(conversation.packets)
    assert outcome.data(1, 0) == b"request"
    assert outcome.data(1, 1) == b"response"
    one = outcome.only()
    assert (one.source, one.source_port, one.target, one.target_port) == (*CLIENT, *BROKER)
    assert (one.opened, one.first_seen) == (START + MILLISECOND, START + MILLISECOND)
    assert (one.how_closed, one.closed) == ("fin", START + 7 * MILLISECOND)
    assert (one.packets, one.source_packets, one.target_packets) == (8, 5, 3)
    assert (one.source_bytes, one.target_bytes) == (7, 8)
    assert (one.retransmits, one.out_of_order, one.gap_bytes) == (0, 0, 0)
    assert outcome.issues == []
    (piece,) = outcome.streams[1, 1]
    assert (piece.number, piece.at) == (5, START + 5 * MILLISECOND)


@pytest.mark.parametrize("isn", [2**32 - 1, 2**32 - 5, 2**32 - 16, 2**31 - 5, 0])
def test_sequence_numbers_wrap(isn: int) -> None:
    conversation = opened(isn, isn)
    for i in range(10):
        conversation.send(0, numbered(10, 10 * i))
        conversation.send(1, numbered(7, 7 * i))
    packets = list(conversation.packets)
    packets[5], packets[7] = packets[7], packets[5]
    outcome = run(packets)
    assert outcome.data(1, 0) == numbered(100)
    assert outcome.data(1, 1) == numbered(70)


def test_offsets_beyond_one_turn_of_the_sequence_numbers() -> None:
    size = 1 << 27
    batch = segments([Packet(CLIENT, BROKER, (i * size) % 2**32, b"x", at=i) for i in range(40)])
    batch = replace(
        batch,
        data=np.zeros(size, np.uint8),
        start=np.zeros(40, np.int64),
        length=np.full(40, size, np.int32),
        captured=np.full(40, size, np.int32),
    )
    # A segment as large as this does not exist; the arithmetic does.
    runs = Connections().feed(batch)
    assert runs.offset.tolist() == [i * size for i in range(40)]


def test_retransmission_comes_once() -> None:
    conversation = opened()
    packet = conversation.send(0, b"first")
    conversation.send(0, b"second")
    conversation.packets.append(replace(packet, at=packet.at + 300 * MILLISECOND))
    outcome = run(conversation.packets)
    assert outcome.data() == b"firstsecond"
    assert outcome.only().retransmits == 1
    assert outcome.issues == []


def test_same_packet_captured_twice() -> None:
    conversation = opened()
    packet = conversation.send(0, b"first")
    conversation.packets.append(replace(packet, at=packet.at + 12_000))
    conversation.send(1, flags=FIN | ACK)
    conversation.packets.append(conversation.packets[-1])
    outcome = run(conversation.packets)
    assert outcome.data() == b"first"
    assert outcome.only().retransmits == 0
    (issue,) = outcome.issues
    assert (issue.kind, issue.count, issue.packet, issue.connection) == ("duplicate_packet", 2, 5, 1)


def test_a_packet_with_a_number_of_its_own_is_no_copy() -> None:
    """A tail loss probe comes some milliseconds later, and nobody has shown a loss (RFC 8985)."""
    conversation = opened()
    packet = replace(conversation.send(0, b"first"), ident=7)
    conversation.packets[-1] = packet
    conversation.packets.append(replace(packet, at=packet.at + 12_000))
    conversation.packets.append(replace(packet, at=packet.at + 2 * MILLISECOND, ident=8))
    outcome = run(conversation.packets)
    assert outcome.counts() == {"duplicate_packet": 1}
    assert outcome.only().retransmits == 1


def test_every_packet_captured_three_times() -> None:
    conversation = opened()
    for i in range(20):
        conversation.send(0, numbered(50, 50 * i))
        conversation.send(1, numbered(3, 3 * i))
    conversation.close()
    single = run(conversation.packets)
    triple = run([replace(packet, at=packet.at + i * 5000) for packet in conversation.packets for i in range(3)])
    assert triple.data(1, 0) == single.data(1, 0) == numbered(1000)
    assert triple.data(1, 1) == single.data(1, 1)
    assert triple.only().retransmits == 0
    assert sum(issue.count for issue in triple.issues) == 2 * (2 + 20 + 20 + 2)


def test_first_copy_of_overlapping_bytes_wins() -> None:
    conversation = opened()
    packets = conversation.packets
    packets += [
        Packet(CLIENT, BROKER, 1001 + 10, b"BBBBB", at=10),
        Packet(CLIENT, BROKER, 1001, b"aaaaaaaaaaaaaaaaaaaa", at=20),
        Packet(CLIENT, BROKER, 1001 + 18, b"cccc", at=30),
    ]
    outcome = run(packets)
    assert outcome.data() == b"aaaaaaaaaaBBBBBaaaaacc"
    assert outcome.only().source_bytes == 22
    assert [piece.number for piece in outcome.streams[1, 0]] == [5, 4, 5, 6]


def test_segments_in_any_order() -> None:
    conversation = opened()
    for i in range(6):
        conversation.send(0, numbered(10, 10 * i), later=100_000)
    order = [3, 1, 5, 2, 4, 0]
    packets = conversation.packets[:3] + [conversation.packets[3 + i] for i in order]
    outcome = run(packets, cuts=range(len(packets)))
    assert outcome.data() == numbered(60)
    assert outcome.only().out_of_order == 4
    assert outcome.only().retransmits == 0


def test_keep_alives_are_no_retransmissions() -> None:
    conversation = opened()
    conversation.send(0, b"request")
    conversation.send(1, b"ok")
    last = conversation.send(0)
    for i in range(1, 4):
        probe = replace(last, seq=last.seq - 1, at=last.at + i * SECOND, payload=b"\0" * (i % 2))
        conversation.packets += [probe, Packet(BROKER, CLIENT, 5003, flags=ACK, ack=last.seq, at=probe.at + 1)]
    conversation.at += 5 * SECOND
    conversation.send(0, b" again")
    outcome = run(conversation.packets)
    assert outcome.data() == b"request again"
    assert outcome.only().retransmits == 0
    assert outcome.issues == []


def test_one_byte_that_comes_too_late_is_no_keep_alive() -> None:
    conversation = opened()
    first, *others = [conversation.send(1, bytes([value])) for value in range(3)]
    acknowledgement = replace(conversation.send(0), ack=first.seq + 1)
    # More than a second behind its acknowledgement it has been given up.
    later = [replace(one, at=conversation.at + 2 * SECOND) for one in others]
    outcome = run([*conversation.packets[:3], acknowledgement, later[1], first, later[0]])
    assert outcome.data(1, 1) == b"?\1\2"
    assert outcome.counts() == {"tcp_gap": 1, "tcp_late_data": 1}


def test_capture_that_begins_with_a_keep_alive() -> None:
    packets = [Packet(CLIENT, BROKER, 99), Packet(CLIENT, BROKER, 100, b"data")]
    outcome = run(packets)
    assert outcome.data() == b"data"
    assert outcome.only().gap_bytes == 0


def test_capture_that_begins_in_the_middle() -> None:
    conversation = Conversation()
    conversation.send(1, b"tail of a response")
    conversation.send(0)
    conversation.send(0, b"request")
    outcome = run(conversation.packets)
    one = outcome.only()
    assert (one.source, one.opened, one.how_closed) == (BROKER[0], None, "open")
    assert outcome.data(1, 0) == b"tail of a response"
    assert outcome.data(1, 1) == b"request"


def test_answer_to_a_syn_shows_who_opened() -> None:
    conversation = opened()
    conversation.send(0, b"request")
    outcome = run(conversation.packets[1:])
    one = outcome.only()
    assert (one.source, one.opened) == (CLIENT[0], START + 2 * MILLISECOND)
    assert outcome.data(1, 0) == b"request"


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0)])
def test_handshake_in_disorder_is_one_connection(order: tuple[int, ...]) -> None:
    conversation = opened()
    conversation.send(0, b"request")
    conversation.send(1, b"response")
    outcome = run([conversation.packets[i] for i in order] + conversation.packets[3:])
    one = outcome.only()
    assert (one.source, one.opened) == (CLIENT[0], START + MILLISECOND)
    assert outcome.data(1, 0) == b"request"
    assert outcome.data(1, 1) == b"response"
    assert one.gap_bytes == 0


def test_simultaneous_open() -> None:
    packets = [
        Packet(CLIENT, BROKER, 10, flags=SYN),
        Packet(BROKER, CLIENT, 90, flags=SYN),
        Packet(CLIENT, BROKER, 10, flags=SYN | ACK, ack=91),
        Packet(BROKER, CLIENT, 90, flags=SYN | ACK, ack=11),
        Packet(CLIENT, BROKER, 11, b"a", ack=91),
        Packet(BROKER, CLIENT, 91, b"b", ack=12),
    ]
    outcome = run(packets)
    assert outcome.only().source == CLIENT[0]
    assert (outcome.data(1, 0), outcome.data(1, 1)) == (b"a", b"b")


def test_data_in_a_syn() -> None:
    packets = [
        Packet(CLIENT, BROKER, 10, b"fast", flags=SYN),
        Packet(BROKER, CLIENT, 90, flags=SYN | ACK, ack=15),
        Packet(CLIENT, BROKER, 15, b" open", ack=91),
    ]
    assert run(packets).data() == b"fast open"


def test_repeated_syn_is_the_same_connection() -> None:
    conversation = Conversation()
    first = conversation.send(0, flags=SYN)
    conversation.packets.append(replace(first, at=first.at + SECOND))
    conversation.at += SECOND
    conversation.send(1, flags=SYN | ACK)
    outcome = run(conversation.packets)
    assert outcome.only().retransmits == 1


def test_all_syns_of_one_attempt_are_of_one_connection() -> None:
    """Linux sends seven, the last one 32 s behind the one before (net.ipv4.tcp_syn_retries)."""
    moments = [0, 1.02, 3.03, 7.1, 15.3, 31.9, 64.9]
    outcome = run([Packet(CLIENT, BROKER, 1000, flags=SYN, at=int(moment * SECOND)) for moment in moments])
    assert outcome.only().packets == 7


@pytest.mark.parametrize("ending", [RST | ACK, FIN | ACK, ACK])
def test_same_ports_again(ending: int) -> None:
    packets = []
    for i in range(3):
        conversation = Conversation(1000 + i * 64, 5000 + i * 64)
        conversation.at = i * SECOND
        conversation.open()
        conversation.send(0, b"request %d" % i)
        conversation.send(1, b"response %d" % i)
        conversation.send(0, flags=ending)
        packets += conversation.packets
    outcome = run(packets)
    assert [one.connection for one in outcome.ended] == [1, 7, 13]
    for i, connection in enumerate((1, 7, 13)):
        assert outcome.data(connection, 0) == b"request %d" % i
        assert outcome.data(connection, 1) == b"response %d" % i


def test_half_close_goes_on_in_the_other_direction() -> None:
    conversation = opened()
    conversation.send(0, b"request", FIN | ACK)
    for i in range(100):
        conversation.send(1, numbered(10, 10 * i), later=100 * MILLISECOND)
        conversation.send(0)
    conversation.send(1, flags=FIN | ACK)
    conversation.send(0)
    outcome = run(conversation.packets)
    assert outcome.data(1, 0) == b"request"
    assert outcome.data(1, 1) == numbered(1000)
    assert outcome.only().how_closed == "fin"
    assert outcome.issues == []


def test_reset_ends() -> None:
    conversation = opened()
    conversation.send(0, b"request")
    conversation.send(1, flags=RST | ACK)
    outcome = run(conversation.packets)
    assert (outcome.only().how_closed, outcome.only().closed) == ("rst", START + 5 * MILLISECOND)


@pytest.mark.parametrize("side", [0, 1])
def test_where_one_side_alone_was_captured_its_fin_ends(side: int) -> None:
    conversation = opened()
    conversation.send(side, b"said")
    conversation.close()
    mine = [packet for packet in conversation.packets if packet.source == conversation.sides[side]]
    fin = next(packet for packet in mine if packet.flags & FIN)
    outcome = run(mine)
    assert (outcome.only().how_closed, outcome.only().closed) == ("fin", START + fin.at)
    conversation = opened()
    conversation.send(0, b"request", FIN | ACK)
    assert run(conversation.packets).only().how_closed == "open"  # the other side may go on


def test_data_behind_the_fin_is_left_out() -> None:
    conversation = opened()
    conversation.send(0, b"request", FIN | ACK)
    conversation.send(0, b"garbage")
    outcome = run(conversation.packets)
    assert outcome.data() == b"request"
    assert outcome.counts() == {"tcp_data_after_fin": 1}


def test_packet_long_after_the_end_begins_another_connection() -> None:
    conversation = opened()
    conversation.close()
    soon = replace(conversation.packets[-1], at=conversation.at + 59 * SECOND)
    late = replace(soon, at=conversation.at + 61 * SECOND)
    assert [one.packets for one in run([*conversation.packets, soon]).ended] == [7]
    assert [one.packets for one in run([*conversation.packets, late]).ended] == [6, 1]


def test_silence_ends() -> None:
    conversation = opened()
    conversation.send(0, b"first")
    conversation.send(0, b"second", later=19 * 60 * SECOND)
    conversation.send(0, b"third", later=21 * 60 * SECOND)
    outcome = run(conversation.packets)
    assert [(one.connection, one.how_closed, one.opened is None) for one in outcome.ended] == [
        (1, "open", False),
        (6, "open", True),
    ]
    assert outcome.data(1) == b"firstsecond"
    assert outcome.data(6) == b"third"


def test_gap_that_acknowledgements_prove() -> None:
    conversation = opened()
    conversation.send(0, b"before")
    lost = conversation.send(0, b"lost one")
    conversation.send(0, b"after")
    proof = conversation.send(1)
    for _ in range(bounds.PROOF_PACKETS + 1):
        conversation.send(1, later=1000)
    conversation.packets.remove(lost)
    outcome = run(conversation.packets, cuts=[7])
    assert outcome.data() == b"before????????after"
    assert outcome.gaps() == [(6, 8)]
    gap = outcome.streams[1, 0][1]
    assert (gap.number, gap.at) == (conversation.packets.index(proof) + 1, START + proof.at)
    assert (outcome.only().gap_bytes, outcome.only().lost_bytes) == (8, 8)
    (issue,) = outcome.issues
    assert (issue.kind, issue.packet, issue.count) == ("tcp_gap", gap.number, 1)
    assert "8 bytes" in issue.detail


def test_gap_is_declared_no_sooner_than_the_proof_is_old() -> None:
    """The file may have acknowledgements before what they acknowledge."""
    conversation = opened()
    lost = conversation.send(0, b"late one")
    conversation.send(0, b"after")
    for _ in range(30):
        conversation.send(1, later=1000)
    conversation.packets.remove(lost)
    conversation.packets.append(lost)
    outcome = run(conversation.packets)
    assert outcome.data() == b"late oneafter"
    assert outcome.issues == []
    conversation.packets.remove(lost)
    conversation.send(1, later=SECOND)
    conversation.packets.append(lost)
    outcome = run(conversation.packets)
    assert outcome.data() == b"????????after"
    assert outcome.counts() == {"tcp_gap": 1, "tcp_late_data": 1}


def test_many_gaps_do_not_pile_up() -> None:
    """With steady loss each gap waits for its own proof, not for the ones before it."""
    conversation = opened()
    for i in range(3000):
        conversation.send(0, numbered(10, 10 * i), later=1000)
        conversation.send(1, later=1000)
    packets = [packet for i, packet in enumerate(conversation.packets) if i % 20 != 3]
    connections = Connections()
    behind = []
    for i in range(0, len(packets), 50):
        runs = connections.feed(segments(packets[i : i + 50], i + 1))
        if len(runs.offset):
            behind.append(i // 2 * 10 - int(runs.offset[-1]))
    assert max(behind) < 2000


def test_gap_at_the_end() -> None:
    conversation = opened()
    conversation.send(0, b"seen")
    lost = conversation.send(0, b"lost")
    conversation.send(1)
    conversation.packets.remove(lost)
    outcome = run(conversation.packets)
    assert outcome.data() == b"seen????"


def test_fin_that_the_capture_lacks_is_no_gap() -> None:
    conversation = opened()
    conversation.send(0, b"seen")
    lost = conversation.send(0, flags=FIN | ACK)
    for _ in range(100):
        conversation.send(1, b"x", later=SECOND // 10)
    conversation.packets.remove(lost)
    outcome = run(conversation.packets)
    assert outcome.data() == b"seen"
    assert outcome.issues == []


@pytest.mark.parametrize("by_time", [False, True])
def test_gap_in_a_one_way_capture(by_time: bool) -> None:
    conversation = Conversation()
    conversation.send(0, b"before")
    lost = conversation.send(0, b"lost")
    conversation.send(0, b"after")
    for i in range(10 if by_time else bounds.ONE_WAY_PIECES + 5):
        conversation.send(0, numbered(3, i), later=SECOND if by_time else 1000)
    conversation.packets.remove(lost)
    connections = Connections()
    runs = connections.feed(segments(conversation.packets))
    assert runs.start.tolist().count(-1) == 1
    assert runs.number.tolist()[:3] == [1, 2, 2]
    assert runs.offset.tolist()[:3] == [0, 6, 10]
    assert not sum(len(runs.number) for runs in connections.finish())
    assert [issue.kind for issue in connections.issues] == ["tcp_gap", "tcp_one_way"]


def test_pending_data_is_bounded() -> None:
    conversation = opened()
    conversation.send(0, b"lost")
    size = 1 << 18
    for _ in range(DEFAULT.stream_bytes // size + 2):
        conversation.send(0, bytes(size), later=1000)
        conversation.packets.append(Packet(BROKER, CLIENT, 5001, ack=1001, at=conversation.at))
    del conversation.packets[3]
    runs = Connections().feed(segments(conversation.packets))
    assert runs.start[0] == -1
    assert runs.length[0] == 4


def test_snap_length_cuts_are_gaps_at_once() -> None:
    conversation = opened()
    conversation.send(0, numbered(100))
    conversation.send(0, numbered(100, 100))
    packets = [replace(packet, captured=30) for packet in conversation.packets]
    outcome = run(packets)
    assert outcome.gaps() == [(30, 70), (130, 70)]
    assert outcome.data()[100:130] == numbered(30, 100)
    assert outcome.counts() == {"snap_length": 2}
    one = outcome.only()
    assert (one.source_bytes, one.gap_bytes, one.lost_bytes) == (200, 140, 0)
    assert run([replace(packet, captured=0) for packet in packets]).gaps() == [(0, 100), (100, 100)]


@pytest.mark.parametrize("distance", [2**26 + 100, 2**30 + 5, 2**31, -(2**27)])
def test_implausible_segment_is_left_out(distance: int) -> None:
    conversation = opened()
    conversation.send(0, b"good")
    conversation.packets.append(Packet(CLIENT, BROKER, conversation.next[0] + distance, b"wild", at=conversation.at))
    conversation.packets.append(Packet(CLIENT, BROKER, conversation.next[0] + distance, flags=RST, at=conversation.at))
    conversation.send(0, b" too")
    outcome = run(conversation.packets)
    assert outcome.data() == b"good too"
    assert outcome.only().how_closed == "open"
    assert outcome.counts() == {"tcp_wild_segment": 2}


def test_implausible_segments_that_agree_are_believed() -> None:
    conversation = opened()
    conversation.send(0, b"good")
    conversation.next[0] += 2**28
    for i in range(4):
        conversation.send(0, b"jump%d" % i)
    outcome = run(conversation.packets)
    assert outcome.gaps() == [(4, 2**28 + 10)]
    assert outcome.streams[1, 0][-1].data == b"jump3"
    assert outcome.counts() == {"tcp_wild_segment": 2, "tcp_gap": 1}


@pytest.mark.parametrize(("missed", "wild"), [(1100 << 20, 2), (2 << 30, 15), (3000 << 20, 15)])
def test_capture_that_misses_gigabytes_goes_on_behind_them(missed: int, wild: int) -> None:
    """Beyond 2 GB the numbers may as well be of long ago, so more segments have to agree."""
    conversation = opened()
    conversation.send(0, b"good")
    conversation.next[0] += missed
    for _ in range(20):
        conversation.send(0, b"more")
    outcome = run(conversation.packets)
    assert outcome.gaps() == [(4, missed + 4 * wild)]
    assert b"".join(piece.data or b"" for piece in outcome.streams[1, 0]) == b"good" + b"more" * (20 - wild)
    assert outcome.counts() == {"tcp_wild_segment": wild, "tcp_gap": 1}


def test_some_segments_of_long_ago_are_left_out() -> None:
    conversation = opened()
    conversation.send(0, b"good")
    old = [
        Packet(CLIENT, BROKER, conversation.next[0] - (1 << 28) + 4 * i, b"past", at=conversation.at) for i in range(15)
    ]
    conversation.packets += old
    conversation.send(0, b" too")
    outcome = run(conversation.packets)
    assert outcome.data() == b"good too"
    assert outcome.counts() == {"tcp_wild_segment": 15}


def test_bytes_of_earlier_batches_come_out_with_a_later_one() -> None:
    conversation = opened()
    for i in range(300):
        conversation.send(0, numbered(10, 10 * i), later=1000)
    packets = conversation.packets[:3] + conversation.packets[4:] + [conversation.packets[3]]
    connections = Connections()
    early = connections.feed(segments(packets[:-1]))
    assert len(early.number) == 0
    late = connections.feed(segments(packets[-1:], len(packets)))
    assert b"".join(
        late.data[start : start + length].tobytes() for start, length in zip(late.start, late.length, strict=True)
    ) == numbered(3000)


def test_ended_connections_come_out_before_the_capture_ends() -> None:
    packets = []
    for i in range(300):
        conversation = Conversation(port=10000 + i)
        conversation.at = i * SECOND
        conversation.open()
        conversation.send(0, b"x")
        conversation.send(1, flags=RST | ACK)
        packets += conversation.packets
    conversation = Conversation(port=9)
    conversation.at = 300 * SECOND
    for _ in range(3000):
        conversation.send(0, b"y", later=SECOND // 10)
    connections = Connections()
    connections.feed(segments(packets + conversation.packets))
    ended = connections.ended()
    assert [one.connection for one in ended] == [5 * i + 1 for i in range(300)]
    assert connections.ended() == []
    list(connections.finish())
    assert [one.connection for one in connections.ended()] == [1501]


def test_many_connections_at_once() -> None:
    count = 20_000
    batch = segments([Packet(CLIENT, BROKER, 7, b"a", at=i) for i in range(count)])
    ports = (np.arange(count) % 50_000 + 1000).astype(np.uint16)
    batch = replace(batch, source_port=ports)
    connections = Connections()
    runs = connections.feed(batch)
    assert np.array_equal(runs.connection, batch.number)
    again = replace(batch, seq=batch.seq + np.uint32(1), number=batch.number + count)
    runs = connections.feed(again)
    assert np.array_equal(runs.connection, batch.number)
    assert runs.offset.tolist() == [1] * count
    list(connections.finish())
    assert len(connections.ended()) == count


def test_ipv6_and_a_connection_to_itself() -> None:
    batch = segments([Packet(CLIENT, CLIENT, 7, b"abc"), Packet(CLIENT, BROKER, 7, b"abc")])
    high = np.array([0x20010DB8_00000000] * 2, np.uint64)
    batch = replace(batch, source_high=high, target_high=high, source_low=batch.source_low & np.uint64(0xFFFF))
    connections = Connections()
    runs = connections.feed(batch)
    assert runs.length.tolist() == [3, 3]
    list(connections.finish())
    assert {one.source for one in connections.ended()} == {"2001:db8::2"}


def test_packets_without_a_time() -> None:
    conversation = opened()
    conversation.send(0, b"request")
    batch = segments(conversation.packets)
    connections = Connections()
    runs = connections.feed(replace(batch, at=np.full(len(batch.at), NO_TIME, np.int64)))
    assert runs.length.tolist() == [7]
    list(connections.finish())
    (one,) = connections.ended()
    assert (one.opened, one.first_seen) == (None, NO_TIME)


def test_lengths_that_lie_are_not_followed() -> None:
    batch = segments([Packet(CLIENT, BROKER, 7, b"abc")])
    big = np.array([1000], np.int32)
    for start in (0, 3, 99, -5):
        runs = Connections().feed(replace(batch, captured=big, length=big, start=np.array([start], np.int64)))
        assert int(runs.length.sum()) == 1000
        held = runs.start >= 0
        assert np.all(runs.start[held] + runs.length[held] <= 3)


def test_connections_that_are_open() -> None:
    conversation = opened()
    conversation.send(0, b"request")
    connections = Connections()
    connections.feed(segments(conversation.packets))
    found = connections.still_open([1, 2])
    assert [(one.connection, one.source, one.source_bytes) for one in found.values()] == [(1, CLIENT[0], 7)]
    assert [(one.gap_bytes, one.lost_bytes) for one in found.values()] == [(0, 0)]
    connections.feed(segments([replace(conversation.send(0, b"another"), captured=3)], 5))
    assert [(one.gap_bytes, one.lost_bytes) for one in connections.still_open([1]).values()] == [(4, 0)]
    list(connections.finish())
    assert connections.still_open([1]) == {}


def test_kernels_are_compiled_once() -> None:
    """Columns that are read-only, or every other element of an array, are taken as well."""
    conversation = opened()
    conversation.send(0, b"request")
    batch = segments(conversation.packets)
    Connections().feed(batch)
    absorb: Any = kernel.absorb
    before = len(absorb.signatures)
    number = np.repeat(batch.number, 2)[::2]
    seq = batch.seq.copy()
    seq.flags.writeable = False
    assert Connections().feed(replace(batch, number=number, seq=seq)).length.tolist() == [7]
    assert len(absorb.signatures) == before


def test_no_segments() -> None:
    connections = Connections()
    assert len(connections.feed(segments([])).number) == 0
    assert not sum(len(runs.number) for runs in connections.finish())
    assert connections.ended() == []


@pytest.mark.parametrize("seed", range(5))
def test_noise_does_no_harm(seed: int) -> None:
    """Segments with random numbers, flags and times: bounds hold, and rows keep their promises."""
    print("seed", seed)
    random = np.random.default_rng(seed)
    packets = [
        Packet(
            *((CLIENT, BROKER) if random.integers(2) else (BROKER, CLIENT)),
            seq=int(random.choice([random.integers(2**32), random.integers(100), 2**32 - random.integers(100)])),
            payload=bytes(int(random.integers(40))),
            flags=int(random.choice([ACK, ACK, ACK, ACK, SYN, RST, FIN | ACK, SYN | ACK, int(random.integers(32))])),
            ack=int(random.choice([random.integers(2**32), random.integers(100)])),
            at=int(random.integers(100 * SECOND)),
            captured=int(random.integers(60)),
        )
        for _ in range(2000)
    ]
    outcome = run(packets, cuts=random.integers(0, 2000, 20).tolist())
    assert sum(one.packets for one in outcome.ended) == 2000
    assert run(packets).ended == outcome.ended


CAPTURES = PCAPS


def read_capture(name: str, batch_bytes: int) -> tuple[list[bytes], Connections]:
    """All streams of a capture, in the order of the connections."""
    connections = Connections()
    streams: dict[tuple[int, int], list[Piece]] = {}
    for packets in open_capture(str(CAPTURES / name), batch_bytes=batch_bytes):
        read_runs(connections.feed(dissect(packets).segments), streams)
    for runs in connections.finish():
        read_runs(runs, streams)
    whole = [
        b"".join(b"?" * piece.length if piece.data is None else piece.data for piece in streams[key])
        for key in sorted(streams)
    ]
    return whole, connections


@pytest.mark.parametrize("batch_bytes", [1 << 24, 5000])
@pytest.mark.parametrize("name", ["seqwrap.pcap", "file-disorder.pcap"])
def test_recorded_oddities_change_nothing(name: str, batch_bytes: int) -> None:
    plain, connections = read_capture("net_odd_tcp/capture.pcap", batch_bytes)
    odd, odd_connections = read_capture(f"net_odd_tcp/{name}", batch_bytes)
    assert odd == plain
    endings = [one.how_closed for one in sorted(connections.ended(), key=lambda one: one.connection)]
    assert endings == [one.how_closed for one in sorted(odd_connections.ended(), key=lambda one: one.connection)]
    assert endings.count("rst") == 6


@pytest.mark.parametrize("batch_bytes", [1 << 24, 5000])
def test_packets_that_the_capture_lost(batch_bytes: int) -> None:
    """33 packets were taken out; the bytes of those whose data did not come again are gaps."""
    streams, connections = read_capture("net_capture_drops/capture.pcap", batch_bytes)
    ended = connections.ended()
    assert len(ended) == 12
    assert sum(one.gap_bytes for one in ended) == 8946
    assert sum(len(stream) for stream in streams) == 515_396
    assert sum(issue.count for issue in connections.issues if issue.kind == "tcp_gap") == 23


def test_a_flood_of_connections_that_never_answer_is_forgotten() -> None:
    """100 a second, of which each is kept for 30 s: what is held does not grow with the flood."""
    syns = [
        Packet((f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", 40_000), BROKER, seq=i, flags=SYN, at=i * 10 * MILLISECOND)
        for i in range(40_000)
    ]
    connections = Connections()
    ended = 0
    for first in range(0, len(syns), 2000):
        connections.feed(segments(syns[first : first + 2000], first + 1))
        ended += len(connections.ended())
        assert first + 2000 - ended < 10_000
    list(connections.finish())
    assert ended + len(connections.ended()) == len(syns)


FIRST_COPY = b"the first copy"


def repeated(*again: tuple[int, bytes, int]) -> list[Packet]:
    """A segment, and then some more: offset in it, bytes, nanoseconds later."""
    of = Conversation()
    of.open()
    first = of.send(0, FIRST_COPY)
    of.send(1)
    for offset, payload, later in again:
        of.send(0, later=later)
        of.packets[-1] = replace(of.packets[-1], seq=first.seq + offset, payload=payload)
    of.close()
    return of.packets


@pytest.mark.parametrize("cuts", [(), range(1, 12)])
@pytest.mark.parametrize(
    ("again", "different"),
    [
        ([(0, b"the FIRST copy", MILLISECOND)], 5),
        ([(4, b"FIRST", 200 * MILLISECOND)], 5),
        ([(10, b"COPY and what follows", MILLISECOND)], 4),
        ([(0, FIRST_COPY, MILLISECOND), (0, b"the first cop!", MILLISECOND)], 1),
        ([(0, FIRST_COPY, 200 * MILLISECOND), (4, b"first", MILLISECOND)], 0),
        ([(13, b"\0", MILLISECOND)], 0),  # a keep-alive
        ([(0, b"the FIRST copy", 2 * SECOND)], 0),  # too late to be compared
    ],
)
def test_bytes_that_come_again_are_compared_with_their_first_copy(
    again: list[tuple[int, bytes, int]], different: int, cuts: Iterable[int]
) -> None:
    outcome = run(repeated(*again), cuts)
    assert outcome.data().startswith(FIRST_COPY)
    found = [issue for issue in outcome.issues if issue.kind == "tcp_conflicting_data"]
    assert [issue.detail.split(" ")[0] for issue in found] == ([str(different)] if different else [])
    assert outcome.counts().get("duplicate_packet", 0) == again.count((0, FIRST_COPY, MILLISECOND))


@pytest.mark.parametrize("cuts", [(), range(1, 40)])
def test_what_waits_for_bytes_before_it_is_compared_too(cuts: Iterable[int]) -> None:
    of = Conversation()
    of.open()
    lost = of.send(0, b"lost")
    of.send(0, b"behind")
    of.packets.append(replace(of.packets[-1], payload=b"BEHIND", at=of.at + MILLISECOND))
    of.packets.append(replace(lost, at=of.at + 2 * MILLISECOND))
    of.packets.remove(lost)
    of.close()
    outcome = run(of.packets, cuts)
    assert outcome.data() == b"lostbehind"
    assert outcome.counts()["tcp_conflicting_data"] == 1


@pytest.mark.parametrize("cuts", [(), range(1, 40)])
def test_only_the_latest_first_copies_are_kept(cuts: Iterable[int]) -> None:
    of = Conversation()
    of.open()
    sent = [of.send(0, bytes([number]) * 10) for number in range(bounds.COMPARED_SEGMENTS + 1)]
    for packet in sent[:2]:
        of.packets.append(replace(packet, payload=b"other text", at=of.at + MILLISECOND))
    outcome = run(of.packets, cuts)
    assert outcome.counts()["tcp_conflicting_data"] == 1


def test_first_copies_of_silent_connections_are_dropped() -> None:
    """Counted in bytes that are kept, for many connections one after the other that stay open."""
    connections = Connections()
    kept = []
    for number in range(40):
        of = [Conversation(port=20000 + 100 * number + port) for port in range(100)]
        packets = []
        for one in of:
            one.at = number * 20 * SECOND
            one.open()
            packets += [*one.packets, one.send(0, bytes(1000))]
        connections.feed(segments(packets, 1 + 400 * number))
        totals = connections._state.totals[0]
        kept.append(connections._kept_filled - int(totals["unkept_bytes"]))
    assert max(kept) < 1_500_000 < 40 * 100 * 1000


def unanswered(count: int, later: int) -> Segments:
    """SYNs of as many connections, so much time between them."""
    sources = [(f"10.1.{i // 50_000}.{i // 200 % 250}", 1000 + i % 50_000) for i in range(count)]
    return segments([Packet(source, BROKER, 7, flags=SYN, at=i * later) for i, source in enumerate(sources)])


def bytes_for(batch: Segments) -> int:
    """What connections take after a batch, without the batch."""
    tracemalloc.start()
    connections = Connections()
    connections.feed(batch)
    connections.ended()
    now, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return now


def test_a_connection_of_one_syn_takes_some_hundred_bytes() -> None:
    few, many = 4_096, 32_768  # as many as there is room for when room is doubled
    assert bytes_for(unanswered(many, 1000)) - bytes_for(unanswered(few, 1000)) < 1700 * (many - few)


def test_connections_end_some_at_a_time() -> None:
    count = 20_000
    flood, later = unanswered(count, 1000), [Packet(CLIENT, BROKER, i, at=60 * SECOND) for i in range(count)]
    connections = Connections()
    connections.feed(flood)
    seen = []
    for begin in range(0, count, 5_000):
        connections.feed(segments(later[begin : begin + 5_000], count + begin + 1))
        seen.append(len(connections.ended()))
    assert sum(seen) == count
    assert max(seen) <= 12_000
    connections = Connections()
    connections.feed(flood)
    parts = [[one.connection for one in connections.ended()] for _ in connections.finish()]
    assert max(map(len, parts)) < count / 2
    assert [one for part in parts for one in part] == list(range(1, count + 1))
