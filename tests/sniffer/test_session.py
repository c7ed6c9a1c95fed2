from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import fields

import numpy as np
import pytest

from kafkascope.sniffer.columns import Outcome, Segments
from kafkascope.sniffer.session import Session, SessionOptions
from tests.paths import PCAPS
from tests.sniffer.capture_segments import exchanges_of, in_batches, plain, segments_of
from tests.sniffer.tcp_conversation import Conversation, segments

CAPTURES = sorted(str(path.relative_to(PCAPS)) for path in PCAPS.glob("*/*.pcap") if path.stat().st_size < 1 << 20)


# Packets at a time: each time costs a millisecond or two, whatever there is in it.
SMALLER_THAN = [100_000, 400_000]
SIZES = [(1, 7), (7,), (37,)]


@pytest.mark.no_cover
@pytest.mark.parametrize("name", CAPTURES)
def test_cuts_do_not_matter(name: str) -> None:
    batches = segments_of(name)
    whole = Session()
    expected = plain(exchanges_of(whole, batches))
    ended, issues = (sorted(map(str, found)) for found in (whole.ended(), whole.issues))
    for size in SIZES[bisect_left(SMALLER_THAN, (PCAPS / name).stat().st_size)]:
        parts = Session()
        assert plain(exchanges_of(parts, in_batches(batches, size))) == expected
        assert sorted(map(str, parts.ended())) == ended
        assert sorted(map(str, parts.issues)) == issues


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
