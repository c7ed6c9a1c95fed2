"""All at once are silent who ask at intervals and wait for nothing: their machine, or the clock, and no broker."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.incidents.holes.blackouts import blackouts
from tests.reports.incidents.tables_of import H1, H2, Row, connection, exchange, found, health, seconds, signs, silence

BEATS = (10, 13, 16, 19)  # at 19.0 s the last word, at 29 s the first one again
BEHIND = (29, 32)


def beats(number: int, times: tuple[float, ...] = (*BEATS, *BEHIND), took: float = 0.01) -> list[Row]:
    """Heartbeats on a connection, each answered at once."""
    return [exchange(place, "Heartbeat", time, time + took, connection=number) for place, time in enumerate(times)]


def times(exchanges: list[Row], hosts: tuple[str, ...] = (H1, H2)) -> list[tuple[float | None, float | None]]:
    """Times of which the capture has nothing, of connections 1 and 2 of these hosts."""
    tables: dict[str, Any] = {
        "tcp_health": [health(number, "client", [*at], [*at]) for number in (1, 2) for at in ((*BEATS,), (29,), (32,))],
        "connections": [connection(number + 1, host) for number, host in enumerate(hosts)],
        "exchanges": exchanges,
    }
    return [(seconds(one.since), seconds(one.until)) for one in blackouts(signs(**tables))]


TOLD = [(19.1, 29.0)]


def test_all_who_ask_at_intervals_were_silent_and_went_on() -> None:
    assert times([*beats(1), *beats(2)]) == TOLD


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (beats(2, (13, 16, 19, 29)), TOLD),
        (beats(2, (16, 19, 29)), []),  # three times make an interval
        (beats(2, (9.2, 14.1, 19, 29)), TOLD),
        (beats(2, (9.0, 14.0, 19, 29)), []),  # it would have waited for half of the time
        (beats(2, (*BEATS, 32)), TOLD),
        (beats(2, (*BEATS, 32.2)), []),  # it was no interval that it waited
        (beats(2, BEATS), []),  # it never went on
        (beats(2, took=10), []),  # it waited for an answer
        ([*beats(2), exchange(9, "Fetch", 18.5, None, connection=2)], []),
        ([*beats(2), exchange(9, "Fetch", 18.5, 19.0, connection=2)], TOLD),
    ],
)
def test_who_waits_or_asks_seldom_tells_nothing(second: list[Row], told: list[tuple[float, float]]) -> None:
    assert times([*beats(1), *second]) == told


def test_of_one_host_it_may_be_a_pause_of_its_own() -> None:
    assert times([*beats(1), *beats(2)], (H1, H1)) == []


def test_no_broker_stands_still_then() -> None:
    assert (
        found(
            tcp_health=[
                health(number, "client", [*at], [*at]) for number in (1, 2) for at in ((*BEATS,), (29,), (32,))
            ],
            connections=[connection(1), connection(2, H2)],
            exchanges=[*beats(1), *beats(2)],
            silences=[silence("10.0.0.1", 19.1, 29, waiting=2, waiting_clients=["c1"], waiting_connections=2)],
        )
        == []
    )
