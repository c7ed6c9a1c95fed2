"""Requests that are larger than a broker reads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.incidents.tables_of import B1, BROKERS, H1, Row, connection, exchange, found, names, only, seconds

SIZE = 50_000


def closed(number: int, time: float, **given: Any) -> Row:
    """A connection that the broker ended."""
    return connection(
        number, client_id="p1", opened=time - 1, closed=time, **{"how_closed": "fin", "closed_by": "broker"} | given
    )


def asked(number: int, time: float, size: int = SIZE, **given: Any) -> Row:
    """A request on it that was never answered."""
    known = {"connection": number, "client_id": "p1", "request_bytes": size, "outcome": "unanswered"}
    return exchange(number, "Produce", time, None, **known | given)


def answered(size: int) -> Row:
    return exchange(9, "Produce", 1, 1.1, connection=9, request_bytes=size, outcome="answered")


CLOSED = [*(closed(n, 10 * n) for n in (1, 2, 3)), connection(9)]
ASKED = [asked(n, 10 * n - 0.5, SIZE + n) for n in (1, 2, 3)]


def test_a_broker_that_closes_the_connection_at_what_is_too_large() -> None:
    one = only(exchanges=[*ASKED, answered(4_000)], connections=CLOSED, cluster_events=BROKERS)
    assert (one.kind, one.severity, one.certainty) == ("record_too_large", "warning", "likely")
    assert names(one) == ["p1", H1, "1", B1]
    assert (seconds(one.started), seconds(one.ended)) == (9.5, 29.5)
    assert f"closes the connection at each Produce of p1 ({H1}) of 50,001 bytes and more, 3 times from " in one.headline
    assert one.evidence[-1].text == "the largest request that it answered had 4,000 bytes"


@pytest.mark.parametrize(
    ("exchanges", "connections"),
    [
        ([*ASKED, answered(SIZE + 1)], CLOSED),  # one as large was answered
        (ASKED[:2], CLOSED),  # three connections
        ([*ASKED[:2], asked(2, 19.6)], CLOSED),
        ([asked(n, 10 * n - 0.5, 9_999) for n in (1, 2, 3)], CLOSED),
        ([asked(n, 10 * n - 1.1) for n in (1, 2, 3)], CLOSED),  # a second
        (ASKED, [closed(n, 10 * n, closed_by="client") for n in (1, 2, 3)]),
        (ASKED, [closed(n, 10 * n, lost_bytes=5) for n in (1, 2, 3)]),
        (ASKED, [connection(n, client_id="p1", opened=1) for n in (1, 2, 3)]),
    ],
)
def test_other_ends_of_connections_are_not(exchanges: list[Row], connections: list[Row]) -> None:
    kinds = [one.kind for one in found(exchanges=exchanges, connections=connections, cluster_events=BROKERS)]
    assert "record_too_large" not in kinds


def test_a_smaller_request_that_was_open_as_the_broker_closed_is_another_matter() -> None:
    more = [asked(7, 99.5, 20_000), answered(30_000)]
    one = only(exchanges=[*ASKED, *more], connections=[*CLOSED, closed(7, 100)], cluster_events=BROKERS)
    assert " 3 times from " in one.headline
