from __future__ import annotations

import ssl
from bisect import bisect_left
from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest

from kafkascope.decoders import apis
from kafkascope.sniffer.columns import NO_TIME, Outcome, Segments
from kafkascope.sniffer.health import ACK_HELD, SPAN
from kafkascope.sniffer.session import Session, SessionOptions
from tests.decoders.written_messages import exchange
from tests.paths import PCAPS
from tests.sniffer.capture_segments import exchanges_of, in_batches, plain, segments_of
from tests.sniffer.tcp_conversation import ACK, FIN, MILLISECOND, RST, SECOND, Conversation, segments

CAPTURES = sorted(str(path.relative_to(PCAPS)) for path in PCAPS.glob("*/*.pcap") if path.stat().st_size < 1 << 20)


# Packets at a time: each time costs a millisecond or two, whatever there is in it.
SMALLER_THAN = [100_000, 400_000]
SIZES = [(1, 7), (7,), (37,)]


def told_spans(session: Session) -> list[tuple[object, ...]]:
    """Spans with who sent, and the ends of the connection."""
    told = session.spans()
    pairs = zip(told.rows.tolist(), told.from_client.tolist(), strict=True)
    return [(row, from_client, told.ends[row[0]]) for row, from_client in pairs]


@pytest.mark.no_cover
@pytest.mark.parametrize("name", CAPTURES)
def test_cuts_do_not_matter(name: str) -> None:
    batches = segments_of(name)
    whole = Session()
    expected = plain(exchanges_of(whole, batches))
    ended, issues, spans = (sorted(map(str, found)) for found in (whole.ended(), whole.issues, told_spans(whole)))
    for size in SIZES[bisect_left(SMALLER_THAN, (PCAPS / name).stat().st_size)]:
        parts = Session()
        assert plain(exchanges_of(parts, in_batches(batches, size))) == expected
        assert sorted(map(str, parts.ended())) == ended
        assert sorted(map(str, parts.issues)) == issues
        assert sorted(map(str, told_spans(parts))) == spans


def test_noise_is_not_kafka() -> None:
    session = Session()
    found = exchanges_of(session, segments_of("net_noise/capture.pcap"))
    assert {int(outcome) for batch in found for outcome in batch.outcome} == {Outcome.ANSWERED}
    protocols = Counter(row.protocol for row in session.ended())
    assert protocols["kafka"] == 5
    assert {"http", "redis", "unknown", "length_prefixed", "empty"} <= set(protocols)


def test_odd_connections() -> None:
    session = Session()
    outcomes = Counter(
        int(outcome)
        for batch in exchanges_of(session, segments_of("net_odd_tcp/capture.pcap"))
        for outcome in batch.outcome
    )
    assert outcomes == {Outcome.ANSWERED: 31, Outcome.UNANSWERED: 2}


def test_only_asked_ports() -> None:
    session = Session(SessionOptions(ports=frozenset({1})))
    assert not plain(exchanges_of(session, segments_of("net_ipv6/capture.pcap")))
    assert not session.ended()


def test_endpoints_until_ended_is_asked() -> None:
    session = Session()
    ids = np.concatenate([batch.connection for batch in exchanges_of(session, segments_of("net_ipv6/capture.pcap"))])
    endpoints = session.endpoints(ids)
    assert set(endpoints) == set(ids.tolist())
    assert {endpoint.broker_port for endpoint in endpoints.values()} == {9092}
    session.ended()
    assert not session.endpoints(ids)


@pytest.mark.parametrize("with_opening", [True, False])
@pytest.mark.parametrize("name", ["clients_admin", "clients_sasl", "removed-and-timeouts"])
def test_answers_alone_are_no_requests(name: str, with_opening: bool) -> None:
    batches = segments_of(f"{name}/capture.pcap")
    whole = Session()
    exchanges_of(whole, batches)
    ports = np.array(sorted({row.broker_port for row in whole.ended() if row.protocol == "kafka"}))
    halves = []
    for batch in batches:
        chosen = np.isin(batch.source_port, ports) & (with_opening | (batch.flags & 2 == 0))
        columns = {field.name: getattr(batch, field.name) for field in fields(Segments)}
        halves.append(Segments(**{key: column if key == "data" else column[chosen] for key, column in columns.items()}))
    found = exchanges_of(Session(), halves)
    assert {int(outcome) for batch in found for outcome in batch.outcome} <= {Outcome.ORPHAN}


CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(506)
SERVER_HELLO = bytes.fromhex("160303007a02000076") + bytes(118)


@pytest.mark.parametrize(
    ("answer", "closed", "expected"),
    [(b"", True, ["tls_unanswered"]), (SERVER_HELLO, True, []), (b"", False, [])],
)
def test_tls_that_nobody_answers_is_told(answer: bytes, closed: bool, expected: list[str]) -> None:
    of = Conversation()
    of.open()
    of.send(0, CLIENT_HELLO)
    of.send(1, answer)
    if closed:
        of.close()
    session = Session()
    session.feed(segments(of.packets))
    list(session.finish())
    assert [issue.kind for issue in session.issues] == expected
    assert [row.protocol for row in session.ended()] == ["tls"]


@pytest.mark.parametrize(
    ("offered", "protocol"),
    [
        (["h2", "http/1.1"], "https"),
        (["http/1.1"], "https"),
        ([], "tls"),
        (["kafka"], "tls"),
        (["istio-peer-exchange", "istio"], "tls"),  # of a sidecar, for whatever it carries
    ],
)
def test_what_a_client_offers_above_tls_tells_http(offered: list[str], protocol: str) -> None:
    context, said = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.MemoryBIO()
    if offered:
        context.set_alpn_protocols(offered)
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname="a.example").do_handshake()
    of = Conversation()
    of.open()
    of.write(0, said.read())
    of.write(1, SERVER_HELLO)
    session = Session()
    session.feed(segments(of.packets))
    list(session.finish())
    assert [(row.protocol, row.tls_requests is None) for row in session.ended()] == [(protocol, protocol == "https")]


ASKED, TOLD = exchange(7, apis.METADATA, 4, {"topics": [{"name": "t"}]}, {"brokers": [], "topics": []})


def slow_talk(count: int, payload: bytes = b"") -> Conversation:
    """A connection of a client with the lower port, captured from the middle, that speaks every ten seconds."""
    of = Conversation(port=9000)
    for number in range(count):
        of.send(number % 2, payload, later=10 * SECOND)
    return of


def test_spans_wait_until_it_is_known_who_is_the_client() -> None:
    of = slow_talk(6)
    of.send(0, ASKED, later=10 * SECOND)
    of.send(1, later=10 * SECOND)
    session = Session()
    batch = segments(of.packets)
    session.feed(batch.rows(slice(0, 6)))
    assert not len(session.spans().rows)
    session.feed(batch.rows(slice(6, 8)))
    told = session.spans()
    assert len(told.rows) == 2 * 7
    assert told.ends[1].client_port == 9000
    sent = [int(told.rows["packets"][told.from_client == side].sum()) for side in (True, False)]
    assert sent == [4, 3]
    list(session.finish())
    assert len(session.spans().rows) == 2


@pytest.mark.parametrize(("most", "waits"), [(12, True), (11, False)])
def test_spans_wait_no_longer_than_some_number_of_them(most: int, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkascope.sniffer.session.MOST_SPANS", most)
    session = Session()
    session.feed(segments(slow_talk(7).packets))
    assert len(session.spans().rows) == (0 if waits else 12)
    list(session.finish())
    told = session.spans()
    assert len(told.rows) == (14 if waits else 2)
    assert told.ends[1].client_port == 9092  # the higher port


def test_spans_of_what_is_not_kafka_do_not_wait() -> None:
    of = Conversation()
    of.open()
    of.send(0, b"GET / HTTP/1.1\r\n\r\n")
    of.send(1, later=10 * SECOND)
    session = Session()
    session.feed(segments(of.packets))
    told = session.spans()
    assert told.rows["packets"][told.from_client].tolist() == [3]
    assert told.rows["packets"][~told.from_client].tolist() == [1]


@pytest.mark.parametrize("side", [0, 1])
def test_columns_of_connections_are_by_client_and_broker(side: int) -> None:
    """Whoever was seen first: the request tells."""
    of = slow_talk(side)
    sent = of.send(0, ASKED)
    of.packets.append(replace(sent, at=of.at + 300 * MILLISECOND))
    of.at += 300 * MILLISECOND
    of.send(1, later=2 * MILLISECOND)
    of.packets[-1] = replace(of.packets[-1], window=0)
    of.send(1, TOLD, later=MILLISECOND)
    of.send(0, later=4 * MILLISECOND)
    of.send(1, flags=RST | ACK)
    session = Session()
    session.feed(segments(of.packets))
    list(session.finish())
    (row,) = session.ended()
    assert (row.client_port, row.protocol, row.connect, row.reset_by) == (9000, "kafka", None, "broker")
    assert (row.retransmits_up, row.retransmits_down, row.timeout_retransmits) == (1, 0, 1)
    assert (row.zero_windows_up, row.zero_windows_down) == (0, 1)
    assert (row.rtt_client_min_ms, row.rtt_client_mean_ms, row.rtt_broker_min_ms) == (4, 4, None)


# --- when requests were acknowledged ---------------------------------------------------------------------------------


def told_of(of: Conversation) -> list[tuple[float | None, float | None, float | None]]:
    """Milliseconds of each exchange to the acknowledgement, and round trips, of late and of all; None: not known."""
    session, batch = Session(), segments(of.packets)
    found = exchanges_of(session, [batch])
    one_by_one = exchanges_of(Session(), in_batches([batch], 1))
    assert plain(found) == plain(one_by_one)
    rows = []
    for part in found:
        for row in np.flatnonzero(part.outcome == Outcome.ANSWERED).tolist():
            done, acked = int(part.request_done[row]), int(part.request_acked[row])
            trips = [int(part.round_trip[row]), int(part.least_round_trip[row])]
            of_late, least = (None if trip == NO_TIME else trip / MILLISECOND for trip in trips)
            rows.append((None if acked == NO_TIME else (acked - done) / MILLISECOND, of_late, least))
    return rows


def asked(after: int = MILLISECOND) -> Conversation:
    """A connection whose round trip is 1 ms, on which a request was sent."""
    of = Conversation()
    of.open()
    of.send(0, ASKED, later=after)
    return of


def test_the_acknowledgement_of_a_request_comes_by_itself_or_with_the_answer() -> None:
    alone = asked()
    alone.send(1, later=3 * MILLISECOND)
    alone.send(1, TOLD, later=90 * MILLISECOND)
    assert told_of(alone) == [(3, 1, 1)]
    together = asked()
    together.send(1, TOLD, later=90 * MILLISECOND)
    assert told_of(together) == [(90, 1, 1)]


def test_a_request_is_acknowledged_when_all_of_it_is() -> None:
    of = Conversation()
    of.open()
    of.send(0, ASKED[:20])
    of.send(0, ASKED[20:])
    of.send(1, later=2 * MILLISECOND)
    of.packets[-1] = replace(of.packets[-1], ack=of.packets[-1].ack - 1)
    of.send(1, later=5 * MILLISECOND)
    of.send(1, TOLD)
    assert [acked for acked, *_ in told_of(of)] == [7]


@pytest.mark.parametrize(("later", "acked"), [(ACK_HELD, [200, 0]), (ACK_HELD + 1, [None, 0])])
def test_what_was_sent_behind_it_tells_only_that_it_was_soon(later: int, acked: list[float | None]) -> None:
    of = asked()
    of.send(0, ASKED, later=later)
    of.send(1, TOLD, later=0)  # acknowledges both
    of.send(1, TOLD)
    assert [one for one, *_ in told_of(of)] == acked


def test_the_next_request_tells_what_the_answer_does_not() -> None:
    of = asked()
    of.send(1, later=3 * MILLISECOND)  # acknowledges the first
    of.send(0, ASKED, later=2 * ACK_HELD)
    of.send(1, later=5 * MILLISECOND)
    of.send(1, TOLD, later=ACK_HELD)
    of.send(1, TOLD)
    assert [acked for acked, *_ in told_of(of)] == [3, 5]


def test_an_answer_tells_of_those_that_are_not_answered_yet() -> None:
    of = asked()
    of.send(0, ASKED, later=MILLISECOND)
    of.send(0, ASKED, later=MILLISECOND)
    of.send(1, TOLD, later=4 * MILLISECOND)  # acknowledges all three, with the answer to the first
    of.send(0, ASKED, later=2 * ACK_HELD)
    of.send(1, later=MILLISECOND)
    for _ in range(3):
        of.send(1, TOLD)
    assert [acked for acked, *_ in told_of(of)] == [6, 5, 4, 1]


def test_a_fin_behind_it_is_no_part_of_it() -> None:
    of = asked()
    of.send(0, flags=FIN | ACK, later=ACK_HELD)
    of.send(1, later=MILLISECOND)
    of.send(1, TOLD)
    assert [acked for acked, *_ in told_of(of)] == [None]


def test_round_trips_of_late_are_those_of_the_span_or_the_one_before() -> None:
    of = Conversation()
    of.open()
    for took in (4, 9, 7):
        of.send(0, ASKED, later=SPAN)
        of.send(1, later=took * MILLISECOND)
        of.send(1, TOLD)
    assert [trips for _, *trips in told_of(of)] == [[4, 1], [9, 1], [7, 1]]
    of.send(0, ASKED, later=SPAN)
    of.send(1, TOLD, later=5 * MILLISECOND)  # its own round trip is not counted yet
    assert told_of(of)[-1] == (5, 7, 1)


def test_where_the_capture_begins_with_the_request_there_is_no_round_trip_yet() -> None:
    of = Conversation()
    of.send(0, ASKED)
    of.send(1, TOLD, later=6 * MILLISECOND)
    assert told_of(of) == [(6, None, None)]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("flags", [(FIN | ACK, FIN | ACK), (FIN | ACK, RST | ACK), (RST | ACK, RST | ACK)])
@pytest.mark.parametrize("batch", [1, 100])
def test_who_closed_a_connection_first(first: int, flags: tuple[int, int], batch: int) -> None:
    of = slow_talk(0)
    of.send(0, ASKED)
    of.send(1, TOLD, later=MILLISECOND)
    of.send(first, flags=flags[0])
    of.send(1 - first, flags=flags[1], later=MILLISECOND)
    of.send(first, later=MILLISECOND)
    session = Session()
    for at in range(0, len(of.packets), batch):
        session.feed(segments(of.packets[at : at + batch]))
    list(session.finish())
    (row,) = session.ended()
    assert row.closed_by == ("client", "broker")[first]
    assert row.how_closed == ("rst" if RST & flags[1] else "fin")


def test_nobody_closed_what_one_side_alone_has_ended() -> None:
    of = slow_talk(0)
    of.send(0, ASKED)
    of.send(1, TOLD, later=MILLISECOND)
    of.send(0, flags=FIN | ACK)
    session = Session()
    session.feed(segments(of.packets))
    list(session.finish())
    (row,) = session.ended()
    assert (row.how_closed, row.closed_by) == ("open", None)
