from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sniffer.columns import Outcome
from sniffer.session import Session, SessionOptions
from tests.sniffer.capture_segments import PCAPS, cut, exchanges_of, plain, segments_of

CAPTURES = sorted(str(path.relative_to(PCAPS)) for path in PCAPS.glob("*/*.pcap") if path.stat().st_size < 1 << 20)


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize("size", [1, 7])
def test_cuts_do_not_matter(name: str, size: int) -> None:
    batches = segments_of(name)
    whole, parts = Session(), Session()
    expected = plain(exchanges_of(whole, batches))
    assert plain(exchanges_of(parts, cut(batches, size))) == expected
    assert sorted(map(str, parts.ended())) == sorted(map(str, whole.ended()))
    assert sorted(map(str, parts.issues)) == sorted(map(str, whole.issues))


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
