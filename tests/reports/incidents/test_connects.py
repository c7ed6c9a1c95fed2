"""Addresses at which nobody listens, and TLS on one side alone."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    H1,
    H2,
    NAMED,
    SEEN,
    Row,
    at,
    connection,
    event,
    finding,
    found,
    listed,
    names,
    only,
    row,
    seconds,
)


def refused(count: int = 3, how: str = "refused", broker: str = B2) -> list[Row]:
    times = range(20, 20 + count)
    return [connection(time, broker=broker, client_id=None, opened=time, connect=how, protocol=None) for time in times]


def test_an_advertised_address_at_which_nobody_listens() -> None:
    one = only(connections=refused(), cluster_events=[listed(1, B1), listed(2, B2)])
    assert (one.kind, one.severity, one.ended) == ("unreachable_listener", "critical", None)
    assert names(one) == ["2", B2, f"{B2}:9092", H1]
    assert f"broker 2 ({B2}) advertises {B2}:9092, at which no connect succeeded: 3 connects of {H1} refused" in (
        one.headline
    )
    unanswered = only(connections=[*refused(2), *refused(3, "unanswered")[2:]], cluster_events=BROKERS)
    assert "refused or not answered" in unanswered.headline


def test_who_tries_it_again_and_again_is_no_storm_of_its_own() -> None:
    churn = finding("connection_churn", f"client c1 ({H1})", "t", 20, 22, weight=0.9)
    tables = {"connections": [connection(1, client_id="c1", opened=1), *refused()], "findings": [churn]}
    assert [one.kind for one in found(**tables)] == ["connection_storm"]
    one = only(**tables, cluster_events=BROKERS)
    assert one.kind == "unreachable_listener"
    assert one.findings == {churn["id"]}


@pytest.mark.parametrize(
    ("count", "serves", "certainty"),
    [(20, [], "guessed"), (21, [], "likely"), (3, [connection(1, broker=B2, broker_port=9093)], "certain")],
)
def test_it_may_be_gone_as_long_as_its_cluster_had_no_time_to_notice(
    count: int, serves: list[Row], certainty: str
) -> None:
    one = only(connections=[*serves, *refused(count)], cluster_events=BROKERS)
    assert (one.kind, one.certainty) == ("unreachable_listener", certainty)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (refused(2), False),
        (refused(3, broker="10.0.0.9"), False),  # nobody advertises it
        ([*refused(), connection(90, broker=B2, opened=60, connect="established")], False),
        ([*refused(), connection(90, broker=B2)], False),  # it was open before
        ([*refused(), connection(90, broker=B2, broker_port=9093)], True),
        ([*refused(), connection(90, broker=B2, protocol="empty", how_closed="rst")], True),  # one whose SYN is lacking
        ([*refused(), connection(9, broker=B2, protocol="empty", how_closed="fin")], False),  # of its end alone
        ([*refused(), connection(9, broker=B2, protocol="empty")], False),  # of its acknowledgements alone
    ],
)
def test_an_address_that_was_reached_or_that_nobody_advertises_is_none(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(connections=rows, cluster_events=BROKERS)] == ["unreachable_listener"] * told


OTHERS = connection(1, H2, opened=1, connect="established")


def in_vain(count: int = 11, **given: Any) -> list[Row]:
    """Connects of a host, a second apart, to where no broker is."""
    known: Row = {"client_id": None, "connect": "refused", "protocol": None, "broker": "10.0.0.9"} | given
    return [connection(time, opened=time, **known) for time in range(20, 20 + count)]


def test_a_client_that_finds_no_broker() -> None:
    one = only(connections=[OTHERS, *in_vain()], cluster_events=BROKERS)
    assert (one.kind, one.severity, one.certainty) == ("unreachable_listener", "warning", "likely")
    assert names(one) == [H1, "10.0.0.9:9092"]
    assert (seconds(one.started), seconds(one.ended)) == (20, 30)
    assert f"{H1} finds no broker: 11 connects to 10.0.0.9:9092 refused from " in one.headline
    late = [one | {"opened": one["opened"] + at(240) - at(0)} for one in in_vain()]
    assert only(connections=[OTHERS, *late]).ended is None


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (in_vain(connect="unanswered"), True),
        (in_vain(10), False),  # it starts with its brokers
        (in_vain(broker_port=80), False),  # nobody speaks Kafka there
        (in_vain(broker=B1), False),  # who is well
        ([*in_vain(), connection(7, opened=5)], False),  # it works with others
        (in_vain()[::10], False),
    ],
)
def test_who_finds_a_broker_and_who_does_not(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(connections=[OTHERS, *rows])] == ["unreachable_listener"] * told


SPEAKS = connection(1, opened=1, connect="established")


def test_a_name_that_leads_to_where_nobody_listens() -> None:
    one = only(connections=[SPEAKS, *refused(21)], cluster_events=[*NAMED, *SEEN])
    assert (one.kind, one.certainty) == ("unreachable_listener", "likely")
    assert names(one) == ["2", B2, "k2.example:9092", f"{B2}:9092", "c1", H1]
    assert one.headline.startswith(
        f"broker 2 (k2.example, {B2}) advertises k2.example:9092, at which no connect succeeded ({B2}:9092): 21 "
    )


@pytest.mark.parametrize(
    ("rows", "events"),
    [
        ([SPEAKS, *refused()], NAMED),  # which of the two, nobody knows
        (refused(), [*NAMED, *SEEN]),  # who connects was told nothing
        ([SPEAKS, *refused()], [*NAMED, *SEEN, event("broker_found", 1, node_id=2, host="10.0.0.3:9092")]),
        ([SPEAKS, *refused()], [*SEEN, event("broker_listed", 0, node_id=2, host="k2.example:9192")]),
        ([SPEAKS, *refused(), *refused(broker="10.0.0.9")], [*NAMED, *SEEN]),  # or is it at the other one
    ],
)
def test_a_connect_that_fails_may_have_nothing_to_do_with_names(rows: list[Row], events: list[Row]) -> None:
    assert found(connections=rows, cluster_events=events) == []


@pytest.mark.parametrize(
    ("kind", "certainty", "words"),
    [
        ("plaintext_to_tls", "certain", f"{H1} speaks plaintext to {B1}:9092, which expects TLS: 2 connections"),
        ("tls_unanswered", "likely", f"{H1} speaks TLS to {B1}:9092, which expects plaintext: 2 connections"),
    ],
)
def test_tls_on_one_side_alone(kind: str, certainty: str, words: str) -> None:
    issues = [row("issues", kind=kind, connection=1, at=at(time), packet=5, detail="d") for time in (10, 12)]
    one = only(issues=issues, connections=[connection(1, protocol="tls")])
    assert (one.kind, one.severity, one.certainty) == ("tls_mismatch", "critical", certainty)
    assert words in one.headline
    assert names(one) == [H1, B1]
    assert found(issues=issues) == []
    elsewhere = connection(1, broker=B2, broker_port=443, protocol="tls")
    assert found(issues=issues, connections=[elsewhere, connection(2)]) == []  # a web server, most likely


@pytest.mark.parametrize(
    ("port", "version", "requests", "told"),
    [
        (9092, "TLS 1.3", None, False),
        (9093, "TLS 1.3", None, True),
        (9092, None, None, True),
        (9092, None, 1, False),  # from before the capture
        (9092, None, 0, True),
    ],
)
def test_a_port_that_does_tls_expects_no_plaintext(
    port: int, version: str | None, requests: int | None, told: bool
) -> None:
    """Who is not answered there met a broker that ended as it came."""
    issues = [row("issues", kind="tls_unanswered", connection=1, at=at(10), packet=5, detail="d")]
    other = connection(2, protocol="tls", broker_port=port, tls_version=version, tls_requests=requests)
    assert bool(found(issues=issues, connections=[connection(1, protocol="tls"), other])) == told


def silent(number: int, opened: float | None = 10, closed: float | None = 40, **given: Any) -> Row:
    """A connection that was taken, on which the client asked, and nothing came."""
    known: dict[str, Any] = {
        "client": H1,
        "connect": "established",
        "protocol": "kafka",
        "bytes_up": 42,
        "bytes_down": 0,
        "lost_bytes": 0,
    }
    return connection(number, broker="10.0.0.9", opened=opened, closed=closed, broker_port=2181, **known | given)


def test_an_address_that_takes_connections_and_says_nothing() -> None:
    one = only(connections=[silent(7), silent(8, 45, None, client_id="c2", client=H2)])
    assert (one.kind, one.severity, one.certainty) == ("unreachable_listener", "warning", "likely")
    assert names(one) == ["c1", H1, "c2", H2, "10.0.0.9:2181"]
    assert one.headline == (
        f"10.0.0.9:2181 says nothing to c1, c2 from {clock(at(10))} on, though it takes connections: what listens "
        "there is no broker, or one that stands still; requests waited for up to 4 min 15 s"
    )
    assert [(seen.packet, seen.at) for seen in one.evidence] == [(7, at(10)), (8, at(45))]


def in_other_words(
    number: int, detail: str = "a frame at offset 0 claims 1008813135 bytes (bytes from the broker)"
) -> Row:
    return row("issues", kind="implausible_size", connection=number, at=at(12), packet=5, detail=detail)


def test_an_address_that_is_advertised_and_answers_in_words_that_are_no_kafka() -> None:
    """As a web server does, once the client has gone."""
    rows = [silent(7, bytes_down=400), silent(8, 45, None, client_id="c2", client=H2)]
    one = only(connections=rows, issues=[in_other_words(7)])
    words = (
        f"answers c1, c2 from {clock(at(10))} on in words that are no Kafka: what listens there is no broker; requests"
    )
    assert (one.severity, one.certainty, f"10.0.0.9:2181 {words}" in one.headline) == ("warning", "certain", True)
    advertised = [event("broker_listed", 0, node_id=1, host="10.0.0.9:2181", told_by=f"{B1}:9092")]
    one = only(connections=rows, issues=[in_other_words(7)], cluster_events=advertised)
    assert f"10.0.0.9:2181, which broker 1 (10.0.0.9) advertises, {words}" in one.headline
    assert (one.severity, names(one)[:2]) == ("critical", ["1", "10.0.0.9"])
    assert "set advertised.listeners" in one.advice
    assert found(connections=rows, issues=[in_other_words(8)]) == []  # what it said there may be an answer
    later = in_other_words(7, "a frame at offset 9 claims 1008813135 bytes (bytes from the broker)")
    assert found(connections=rows, issues=[later]) == []


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([silent(1, 10, 20)], True),
        ([silent(1, 10, 19.9)], False),
        ([silent(1), silent(2, bytes_down=1)], False),
        ([silent(1, bytes_up=0)], False),
        ([silent(1, lost_bytes=1)], False),
        ([silent(1, None)], False),
        ([silent(1, connect="unanswered")], False),  # of the capture's other direction nothing is there
        ([silent(1, packets_down=0)], False),  # nor here, where the client acknowledged what took its connect
        ([silent(1), silent(2, packets_down=0)], False),
        ([silent(1, protocol="unknown")], False),
    ],
)
def test_where_it_is_known_that_nothing_came(rows: list[Row], told: bool) -> None:
    assert ("says nothing to" in "".join(one.headline for one in found(connections=rows))) == told
