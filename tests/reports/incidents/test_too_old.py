"""Clients that are too old for their brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    CLIENT,
    H1,
    Row,
    at,
    connection,
    error,
    exchange,
    finding,
    found,
    names,
    only,
    seconds,
)

OTHER = connection(90, "10.0.1.9", client_id="new", opened=1, exchanges=9, security="plaintext")


def closed(count: int = 3, first: int = 10, client: str = H1, client_id: str = "c1", **given: Any) -> list[Row]:
    known: dict[str, Any] = {
        "how_closed": "fin",
        "closed_by": "broker",
        "exchanges": 2,
        "security": "plaintext",
    } | given
    return [
        connection(first + n, client, client_id=client_id, opened=10 + n, closed=10.5 + n, **known)
        for n in range(count)
    ]


def asked(count: int = 3, first: int = 10, key: int = 0, version: int = 2, **given: Any) -> list[Row]:
    """Each connection has one Produce, in the midst of its half second, and nothing else."""
    known: dict[str, Any] = {"outcome": "unanswered", "api_key": key, "api_version": version} | given
    return [exchange(n, "Produce", 10.4 + n, None, connection=first + n, **known) for n in range(count)]


TAKEN = exchange(9, "Produce", 5, 20.1, connection=80, api_key=0, api_version=2, outcome="answered")


def test_a_client_whose_requests_brokers_do_not_know_any_more() -> None:
    churn = finding("connection_churn", f"client c1 ({H1})", "Connections are opened and closed", 10, 13)
    old = finding("old_protocol", f"client c1 ({H1})", "The client speaks a protocol of before 2017", 10, 13)
    one = only(connections=[*closed(), OTHER], exchanges=asked(), cluster_events=BROKERS, findings=[churn, old])
    assert (one.kind, one.severity, one.certainty) == ("client_too_old", "critical", "likely")
    assert names(one) == ["c1", H1, "1", B1]
    assert one.headline == (
        f"c1 ({H1}) is too old for broker 1 ({B1}): the connection is closed at each Produce v2, which Kafka does not "
        f"know any more since 4.0, from {clock(at(10.4))} on; 3 requests refused"
    )
    assert (seconds(one.started), seconds(one.ended)) == (10.4, 12.5)
    assert (one.evidence[0].text, one.evidence[0].at) == (
        f"c1 sent Produce v2 to {B1}:9092, which closed the connection after 100.0 ms without an answer",
        at(10.4),
    )
    assert one.findings == {churn["id"], old["id"]}  # and no storm of connections besides


@pytest.mark.parametrize(
    ("connections", "exchanges"),
    [
        (closed(2), asked(2)),
        (closed(), asked(version=3)),  # that is known
        (closed(), asked(key=99)),
        (closed(lost_bytes=1), asked()),  # or the capture lacks the answer
        (closed(packets_down=0), asked()),
        (closed(closed_by="client"), asked()),
        ([one | {"how_closed": "open", "closed": None} for one in closed()], asked()),
        ([one | {"closed": at(11.5)} for one in closed()], asked()),  # 1.1 s after the first
        (closed(), [*asked(), TAKEN | {"requested": at(20)}]),
    ],
)
def test_whose_connections_end_for_another_reason(connections: list[Row], exchanges: list[Row]) -> None:
    more = [OTHER, connection(80, opened=1)]
    kinds = [one.kind for one in found(connections=[*connections, *more], exchanges=exchanges)]
    assert "client_too_old" not in kinds


def test_a_broker_that_was_upgraded_meanwhile_and_one_that_was_not() -> None:
    elsewhere = TAKEN | {"connection": 81, "requested": at(20)}
    connections = [*closed(), connection(80, opened=1), connection(81, broker=B2, opened=1)]
    one = only(connections=connections, exchanges=[TAKEN, elsewhere, *asked()])
    assert one.kind == "client_too_old"


@pytest.mark.parametrize(("clients", "incidents"), [(3, 3), (4, 1)])
def test_many_clients_are_one_incident(clients: int, incidents: int) -> None:
    rows = [one for n in range(clients) for one in closed(3, 10 * n + 10, f"10.0.1.{n}", f"c{n}")]
    told = found(
        connections=rows, exchanges=[one for n in range(clients) for one in asked(3, 10 * n + 10, client_id=f"c{n}")]
    )
    assert [one.kind for one in told] == ["client_too_old"] * incidents
    if incidents == 1:
        assert told[0].headline.startswith("4 clients (c0, c1, c2, c3) are too old for ")
        assert len(told[0].evidence) == 12


def refused(lasts: float = 5, client_id: str | None = "c1", **given: Any) -> Row:
    return (
        error("UNSUPPORTED_COMPRESSION_TYPE", "Fetch", 20, 20 + lasts, 3, topic="orders", client_id=client_id) | given
    )


def test_a_consumer_that_cannot_be_given_zstd() -> None:
    loop = finding("error_loop", f"client c1 ({H1})", "t", 20, 25)
    one = only(error_histogram=[refused(), refused(4.9, client_id="c2")], findings=[loop], connections=[CLIENT])
    assert (one.kind, one.severity, one.certainty) == ("client_too_old", "critical", "certain")
    assert names(one) == ["c1", H1, "orders"]
    assert (seconds(one.started), seconds(one.ended), one.cost_ms) == (20, 25, 5_000)
    assert one.headline.startswith("c1 is too old to read orders, from ")
    assert one.headline.endswith("(Kafka 2.1) and later alone; 3 answers without records")
    assert one.findings == {loop["id"]}


@pytest.mark.parametrize(
    "row", [refused(4.9), refused(client_id=None), refused(api="Produce"), refused(error="CORRUPT_MESSAGE")]
)
def test_other_errors_have_nothing_to_do_with_codecs_that_a_consumer_lacks(row: Row) -> None:
    assert not [one for one in found(error_histogram=[row]) if one.kind == "client_too_old"]
