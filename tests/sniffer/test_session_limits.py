"""Limits of all connections together: less is held, what is lost is told, and batches do not matter."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest

from kafkascope.decoders.limits import Limits
from kafkascope.sniffer.columns import Outcome, Segments
from kafkascope.sniffer.exchanges import KEPT_BYTES, RELIEF
from kafkascope.sniffer.frames import ROW_SIZE
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.pairing import state as pairing
from kafkascope.sniffer.session import LOOKS, Session, SessionOptions
from kafkascope.sniffer.tls.keys import Keys
from tests.decoders.written_messages import request, response
from tests.sniffer.capture_segments import exchanges_of, in_batches, plain, segments_of
from tests.sniffer.tcp_conversation import BROKER, CLIENT, MILLISECOND, SYN, Conversation, Packet, segments

LEAST = 1 << 16  # held_bytes
OUTCOME, WHOLE = 5, -5  # places in rows of `plain`; behind WHOLE are the request's bytes


def session_with(**limits: int) -> Session:
    return Session(SessionOptions(limits=Limits(**limits)))


def of_kind(session: Session, kind: str) -> list[Issue]:
    return [issue for issue in session.issues if issue.kind == kind]


def merged(*conversations: list[Packet]) -> list[Packet]:
    return sorted((packet for packets in conversations for packet in packets), key=lambda packet: packet.at)


def held(session: Session) -> tuple[int, int]:
    """Bytes behind lost ones, and those of messages that wait."""
    conversations = session._conversations
    nodes = conversations._nodes[: int(conversations._at[pairing.AT_NODES])]
    lengths = nodes[:, pairing.NODE_LENGTH]
    waiting = sum(one.size for one in conversations._streams.held.values())
    return int(session._tcp._state.totals["piece_bytes"][0]), waiting + int(lengths[lengths > 0].sum())


def flood(count: int, first: int, at: int) -> Segments:
    """A SYN of each of so many hosts, the first with this number."""
    one = segments([Packet(CLIENT, BROKER, 7, b"", SYN, at=at)])
    more = np.arange(count)
    columns = {column.name: np.repeat(getattr(one, column.name), count) for column in fields(one)}
    columns["number"] = first + more
    columns["at"] += 1000 * more
    columns["source_low"] += columns["number"].astype(np.uint64)
    return Segments(**columns)


def test_a_flood_of_syns_takes_bounded_memory_and_ends_no_conversation() -> None:
    count, rounds, most = 2_500, 20, 1000
    real = Conversation()
    real.open()
    batches = [segments(real.packets)]
    for correlation_id in range(rounds):
        batches.append(flood(count, 1 + sum(len(batch.number) for batch in batches), real.at))
        real.at += count * 1000
        packets = [real.send(0, request(correlation_id)), real.send(1, response(correlation_id))]
        batches.append(segments(packets, 1 + sum(len(batch.number) for batch in batches)))
    session = session_with(connections=most)
    found = []
    for batch in batches:
        found.append(session.feed(batch))
        assert session._tcp._state.totals["live"][0] <= most
        assert len(session._tcp._state.connections) <= 2 * most
    found += session.finish()
    assert [row[OUTCOME] for row in plain(found)] == rounds * [Outcome.ANSWERED]
    (issue,) = of_kind(session, "too_many_connections")
    assert "(--limit connections=1000)" in issue.detail
    assert count * rounds - most <= issue.count <= count * rounds
    assert Counter(row.protocol for row in session.ended()) == {"empty": count * rounds, "kafka": 1}


def test_connections_that_are_over_go_before_those_that_are_silent() -> None:
    idle = Conversation(port=30_000)
    idle.open()
    idle.send(0, request(1))
    short = []
    for number in range(100):
        one = Conversation(port=31_000 + number)
        one.at = idle.at + 10 * number * MILLISECOND
        one.open()
        one.close()
        short.append(one.packets)
    idle.at += 3000 * MILLISECOND
    idle.send(1, response(1))
    session = session_with(connections=20)
    (row,) = plain(exchanges_of(session, [segments(merged(idle.packets, *short))]))
    assert row[OUTCOME] == Outcome.ANSWERED
    assert of_kind(session, "too_many_connections")


def behind_losses(connections: int) -> list[Packet]:
    """Connections that all lose the packet before 5,000 bytes; it comes at the end."""
    packets = []
    for number in range(connections):
        one = Conversation(port=30_000 + number)
        one.at = number * 1000
        one.open()
        lost = one.send(0, bytes(10))
        for _ in range(5):
            one.send(0, bytes(1000))
        packets.append([*(each for each in one.packets if each is not lost), replace(lost, at=one.at + MILLISECOND)])
    return merged(*packets)


@pytest.mark.parametrize(("connections", "limit"), [(40, {"held_bytes": LEAST}), (1, {"stream_bytes": 3000})])
def test_bytes_behind_losses_are_bounded(connections: int, limit: dict[str, int]) -> None:
    packets = behind_losses(connections)
    roomy = Session()
    exchanges_of(roomy, [segments(packets)])
    assert {row.gap_bytes for row in roomy.ended()} == {0}
    session = session_with(**limit)
    for batch in in_batches([segments(packets)], 1):
        session.feed(batch)
        assert held(session)[0] <= LEAST
    exchanges_of(session, [])
    told = {issue.connection: issue.detail for issue in of_kind(session, "too_many_bytes")}
    assert {row.connection: row.gap_bytes for row in session.ended() if row.gap_bytes} == dict.fromkeys(told, 10)
    assert connections // 4 < len(told) <= max(connections - 1, 1)
    (name,) = limit
    assert all(detail.endswith(f"(--limit {name}={limit[name]})") for detail in told.values())


def large_requests(connections: int, size: int, parts: int) -> list[Packet]:
    """Connections that all send a large request, in so many parts, in turn; then all are answered."""
    packets = []
    for number in range(connections):
        one = Conversation(port=30_000 + number)
        one.at = number * 1000
        one.open()
        asked = request(1, content=bytes(size))
        step = len(asked) // parts + 1
        for begin in range(0, len(asked), step):
            one.send(0, asked[begin : begin + step])
        one.send(1, response(1))
        one.send(0, request(2))
        one.send(1, response(2))
        packets.append(one.packets)
    return merged(*packets)


@pytest.mark.parametrize("parts", [1, 10])
def test_messages_that_wait_are_cut_where_all_together_are_too_large(parts: int) -> None:
    connections, size = 30, 10_000
    packets = large_requests(connections, size, parts)
    expected = plain(exchanges_of(Session(), [segments(packets)]))
    session = session_with(held_bytes=LEAST)
    found = []
    for batch in in_batches([segments(packets)], 1):
        found.append(session.feed(batch))
        assert held(session)[1] <= LEAST + LEAST // RELIEF + size
    found += session.finish()
    cut = [(here, there) for here, there in zip(plain(found), expected, strict=True) if here != there]
    told = of_kind(session, "too_many_bytes")
    assert connections // 2 < len(cut) == sum(issue.count for issue in told) <= connections
    assert all(issue.detail.endswith("are kept (--limit held_bytes=65536)") for issue in told)
    for here, there in cut:  # all else is as it was
        assert here[:WHOLE] == there[:WHOLE]
        assert here[WHOLE + 2 :] == there[WHOLE + 2 :]
        assert (here[WHOLE], there[WHOLE]) == (0, 1)
        kept, whole = here[WHOLE + 1], there[WHOLE + 1]
        assert isinstance(kept, bytes)
        assert isinstance(whole, bytes)
        assert whole.startswith(kept)
        assert KEPT_BYTES - 4 <= len(kept) <= KEPT_BYTES


def test_a_message_in_tiny_packets_takes_the_memory_of_what_is_known_of_each() -> None:
    most, tiny = 1 << 20, 12_000
    session = session_with(held_bytes=most)
    of = Conversation()
    of.open()
    of.send(0, request(1, content=bytes(30_000))[:100])
    for _ in range(tiny):
        of.send(0, b"\0")
    for batch in in_batches([segments(of.packets)], 100):
        session.feed(batch)
        waiting = session._conversations._streams.held.values()
        assert sum(one.memory for one in waiting) <= most + most // LOOKS + 100 * (1 + ROW_SIZE)
    assert [issue.kind for issue in session.issues] == ["too_many_bytes"]


RECORD = b"\x17\x03\x03" + (10_000).to_bytes(2, "big") + bytes(10_000)  # of TLS, protected
SAID_IN_TLS = {
    "for the server's hello": [(0, RECORD[begin : begin + 1000]) for begin in range(0, len(RECORD), 1000)],
    "for the rest of a record": [(0, RECORD[:5]), *[(0, bytes(1000))] * 9],
    "for two bytes more": [(0, RECORD[:1]), *[(1, bytes(1000))] * 9],
}


@pytest.mark.parametrize("what", SAID_IN_TLS)
def test_what_waits_in_tls_is_bounded(what: str) -> None:
    connections = 30
    packets = []
    for number in range(connections):
        one = Conversation(port=30_000 + number)
        one.at = number * 1000
        one.open()
        for side, part in SAID_IN_TLS[what]:
            one.send(side, part)
        packets.append(one.packets)
    told = []
    for size in (1, 10_000):
        session = Session(SessionOptions(limits=Limits(held_bytes=LEAST), keys=Keys(may_grow=True)))
        for batch in in_batches([segments(merged(*packets))], size):
            session.feed(batch)
            if (stage := session._tls_stage) is not None:
                waits = sum(one.held_bytes for one in stage._connections.values())
                waits += sum(one.held_bytes for one in stage._undecided.values())
                assert waits <= LEAST + LEAST // LOOKS + size * 1200
        exchanges_of(session, [])
        relieved = of_kind(session, "too_many_bytes")
        assert connections // 3 < len({issue.connection for issue in relieved}) <= connections
        assert all(issue.detail.endswith("(--limit held_bytes=65536)") for issue in relieved)
        told.append((sorted(map(str, session.ended())), sorted(map(str, session.issues))))
    assert told[0] == told[1]


LOW = {"connections": 4, "stream_bytes": 1500, "held_bytes": LEAST, "frame_bytes": 20_000, "waiting_bytes": 1000}


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["net_odd_tcp", "net_capture_drops", "clients_codecs"])
def test_cuts_do_not_matter_where_limits_are_reached(name: str) -> None:
    batches = segments_of(f"{name}/capture.pcap")[:1]
    told = []
    for size in (len(batches[0].number), 37, 1000):
        session = session_with(**LOW)
        rows = plain(exchanges_of(session, in_batches(batches, size)))
        told.append((rows, sorted(map(str, session.ended())), sorted(map(str, session.issues))))
    assert told[0] == told[1] == told[2]
    assert any("--limit" in issue for issue in told[0][2])
