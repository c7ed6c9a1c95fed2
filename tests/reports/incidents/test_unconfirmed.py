"""Writes without acknowledgement that a broker refuses by closing the connection."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    B1,
    BROKERS,
    H1,
    H2,
    Row,
    at,
    connection,
    event,
    exchange,
    finding,
    found,
    names,
    only,
    row,
    seconds,
)

TIMES = int(threshold("turned_away"))
GOES_ON = connection(1, opened=1)


def turns(times: int = TIMES, **given: Any) -> tuple[list[Row], list[Row]]:
    """Connections that end behind a write, one after the other; and the exchanges on them."""
    connections, exchanges = [], []
    for n in range(2, 2 + times):
        begun = 10.0 * n
        ends: Row = {"opened": begun, "closed": begun + 2.2, "how_closed": "fin", "closed_by": "broker"} | given
        connections.append(connection(n, **ends))
        exchanges.append(exchange(1, "ApiVersions", begun, begun + 0.1, connection=n, outcome="answered"))
        exchanges.append(exchange(2, "Produce", begun + 1, None, connection=n, outcome="one_way"))
        exchanges.append(exchange(3, "Produce", begun + 2, None, connection=n, outcome="one_way"))
    return connections, exchanges


def test_a_broker_that_closes_the_connection_at_each_write() -> None:
    connections, exchanges = turns()
    written = [
        row("batches", connection=one["connection"], number=one["number"], topic="small", records=4)
        for one in exchanges
        if one["api"] == "Produce"
    ]
    churn = finding("connection_churn", f"client c1 ({H1})", "t", 10, 60, weight=0.9)
    one = only(connections=[GOES_ON, *connections], exchanges=exchanges, batches=written, findings=[churn])
    assert (one.kind, one.severity, one.certainty) == ("request_refused", "warning", "likely")
    assert names(one) == ["c1", H1, "small", B1]
    assert (seconds(one.started), seconds(one.ended)) == (22, 42)
    assert one.headline.startswith(
        f"broker {B1} closes the connection at what c1 ({H1}) writes to small without acknowledgement (acks=0), 3 times"
    )
    assert one.headline.endswith("; 12 records in 3 requests lost")  # of the last one of each connection
    assert [(seen.packet, seen.rejected) for seen in one.evidence] == [(3, False)] * 3
    assert one.findings == {churn["id"]}
    assert only(connections=[GOES_ON, *connections], exchanges=exchanges).headline.endswith("; 3 requests lost")


@pytest.mark.parametrize(
    ("moves", "severity", "why"),
    [
        ([(21, "1", "2", ["small-0"])], "warning", f"it leads small 0 no more (told at {clock(at(21))})"),  # 21 s ago
        ([(37.5, "1", "2", ["small-0"])], "warning", "it does not say why"),  # all but the last write came before
        ([(21, "2", "1", ["small-0"])], "warning", "it does not say why"),
        ([(21, "1", "2", ["small-0"]), (22.5, "2", "1", ["small-0"])], "warning", "it does not say why"),
        ([(21, "1", "2", ["small-1"])], "warning", "it does not say why"),
        ([], "warning", "it does not say why"),
    ],
)
def test_what_the_broker_does_not_lead_any_more_it_refuses_for_that(
    moves: list[tuple[float, str, str, list[str]]], severity: str, why: str
) -> None:
    connections, exchanges = turns()
    tables = moved(connections, exchanges, moves)
    (one,) = [each for each in found(**tables) if each.kind == "request_refused"]
    assert (one.severity, why in one.headline) == (severity, True)
    assert ("if some records may be lost" in one.advice) == ("leads" in why)


@pytest.mark.parametrize(("told_at", "severity"), [(42.5, "warning"), (42.3, "info"), (37, "info"), (36.9, "warning")])
def test_writes_that_are_lost_until_a_producer_learns_that_the_leader_has_moved(told_at: float, severity: str) -> None:
    connections, exchanges = [], []
    for n in range(2, 2 + TIMES):
        begun = 42 - (2 + TIMES - 1 - n) * 0.3
        connections.append(connection(n, opened=begun - 0.1, closed=begun + 0.1, how_closed="fin", closed_by="broker"))
        exchanges.append(exchange(1, "Produce", begun, None, connection=n, outcome="one_way"))
    tables = moved(connections, exchanges, [(told_at, "1", "2,3", ["small-0"])])
    (one,) = [each for each in found(**tables) if each.kind == "request_refused"]
    assert one.severity == severity


def moved(
    connections: list[Row], exchanges: list[Row], moves: list[tuple[float, str, str, list[str]]]
) -> dict[str, list[Row]]:
    """Tables of writes to small-0, and of leaders that moved: when, from whom, to whom, and which."""
    told = [
        event("leader_changed", when, before=before, after=after, partitions=which, count=len(which))
        for when, before, after, which in moves
    ]
    written = [
        row("batches", connection=one["connection"], number=one["number"], topic="small", partition=0, records=4)
        for one in exchanges
        if one["api"] == "Produce"
    ]
    return {
        "connections": [GOES_ON, *connections],
        "exchanges": exchanges,
        "batches": written,
        "cluster_events": [*BROKERS, *told],
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, True),
        ({"how_closed": "rst", "closed_by": "broker"}, True),
        ({"closed_by": "client"}, False),
        ({"lost_bytes": 7}, False),
        ({"closed": 300.0}, False),  # not at the write
        ({"opened": 20.0}, False),  # many at once: a broker that stops
        ({"packets_down": 0}, False),
        ({"client_id": None}, False),
    ],
)
def test_how_connections_end(given: Row, told: bool) -> None:
    connections, exchanges = turns(**given)
    incidents = found(connections=[GOES_ON, *connections], exchanges=exchanges)
    assert [one.kind for one in incidents] == ["request_refused"] * told


@pytest.mark.parametrize(
    ("beside", "told"),
    [
        (GOES_ON, True),
        (connection(1, opened=None), True),  # open before the capture
        (connection(1, opened=1, closed=44), True),
        (connection(1, opened=1, closed=43), False),  # a process that ends closes all of them
        (connection(1, opened=23), False),
        (connection(1, client=H2, opened=1), False),
        (connection(1, client_id="c2", opened=1), False),
    ],
)
def test_the_client_goes_on(beside: Row, told: bool) -> None:
    connections, exchanges = turns()
    assert [one.kind for one in found(connections=[beside, *connections], exchanges=exchanges)] == (
        ["request_refused"] * told
    )


def test_few_of_them_or_with_acknowledgements_are_none() -> None:
    connections, exchanges = turns(TIMES - 1)
    assert not found(connections=[GOES_ON, *connections], exchanges=exchanges)
    connections, exchanges = turns()
    answered = [one | {"outcome": "answered"} for one in exchanges]
    assert not found(connections=[GOES_ON, *connections], exchanges=answered)
