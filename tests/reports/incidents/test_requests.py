"""Requests that are refused, held back or lost, and clients that cannot connect."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    H1,
    H2,
    Row,
    at,
    connection,
    error,
    exchange,
    finding,
    found,
    listed,
    member,
    names,
    only,
    partition,
    rebalance,
    row,
    seconds,
    silence,
)

CLIENT = connection(1)
GONE = silence(B2, 10, 60, refused=2, ended=3)

# --- refused ---------------------------------------------------------------------------------------------------------


def unknown(count: int = 5, lasts: float = 5, **given: Any) -> Row:
    return error("UNKNOWN_TOPIC_OR_PARTITION", "Metadata", 10, 10 + lasts, count, topic="orders", **given)


def test_a_topic_that_stays_unknown() -> None:
    one = only(error_histogram=[unknown(count=6)], connections=[CLIENT])
    assert (one.kind, one.severity, one.certainty) == ("unknown_topic", "warning", "certain")
    assert names(one) == ["orders", "c1", H1]
    assert "c1 asked for a topic that does not exist: orders, from" in one.headline
    assert one.headline.endswith("(Metadata UNKNOWN_TOPIC_OR_PARTITION 6 times)")
    assert (seconds(one.started), seconds(one.ended)) == (10, 15)
    assert [seen.packet for seen in one.evidence] == [6]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([unknown(5, 5)], True),
        ([unknown(4, 5)], False),
        ([unknown(5, 4.9)], False),
        ([unknown(3, 1), unknown(2, 5, client_id="c2")], True),
        ([unknown(5, 5, client_id=None)], True),
        ([unknown(5, 5) | {"topic": None}], False),
        ([unknown(5, 5) | {"api": "DeleteTopics"}], False),  # who deletes what is gone is no client in trouble
        ([unknown(5, 5) | {"rest": True}], False),
    ],
)
def test_topics_are_unknown_from_some_errors_on(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(error_histogram=rows)] == ["unknown_topic"] * told


@pytest.mark.parametrize(("topic", "records", "told"), [("orders", 1, False), ("orders", 0, True), ("other", 1, True)])
def test_a_topic_that_somebody_uses_is_there(topic: str, records: int, told: bool) -> None:
    used = row("throughput", topic=topic, records=records)
    assert bool(found(error_histogram=[unknown()], throughput=[used])) == told


@pytest.mark.parametrize("name", ["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"])
def test_records_that_are_too_large(name: str) -> None:
    one = only(error_histogram=[error(name, "Produce", 10, 20, 1, topic="orders")])
    assert (one.kind, one.severity, names(one)) == ("record_too_large", "warning", ["orders", "c1"])


@pytest.mark.parametrize("name", ["NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"])
def test_too_few_replicas_are_critical_unless_a_brokers_incident_says_why(name: str) -> None:
    refused = error(name, "Produce", 20, 30, 4, topic="orders", client_id=None)
    one = only(error_histogram=[refused])
    assert (one.kind, one.severity) == ("too_few_replicas", "critical")
    assert one.headline.startswith("a client could not write")
    two = found(error_histogram=[refused], silences=[GONE], cluster_events=BROKERS)
    assert [(one.kind, one.severity) for one in two] == [("broker_down", "critical"), ("too_few_replicas", "warning")]
    assert "after broker 2 (10.0.0.2) had gone" in two[1].headline
    late = refused | {"first": at(75.1), "last": at(80)}
    two = found(error_histogram=[late], silences=[GONE], cluster_events=BROKERS)
    assert [one.severity for one in two] == ["critical", "critical"]


def test_its_findings_are_those_of_its_clients() -> None:
    findings = [
        finding("error_loop", f"client c1 ({H1})", "t", 12, 14),
        finding("error_loop", f"client c11 ({H1})", "t", 12, 14),
        finding("error_loop", f"client c1 ({H1})", "t", 60, 70, id="later"),
        finding("leader_changed", f"client c1 ({H1})", "t", 12, 14),
    ]
    assert only(error_histogram=[unknown()], findings=findings).findings == {f"error_loop client c1 ({H1})"}


# --- writes that wait ------------------------------------------------------------------------------------------------


def write(lasts: float | None, requested: float = 20, acks: int = -1, **given: Any) -> Row:
    answered = None if lasts is None else requested + lasts
    return exchange(1, "Produce", requested, answered, request=f'{{"acks": {acks}}}', **given)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([write(12)], True),
        ([write(11.9)], False),
        ([write(None)], True),
        ([write(12, acks=1)], False),
        ([write(12, requested=8.9)], False),
        ([write(12, requested=9)], True),
        ([write(12, requested=60.1)], False),
        ([write(12) | {"connection": 2}], False),  # to the broker that is gone
        ([write(12) | {"connection": 3}], False),  # it is not known to which
    ],
)
def test_writes_that_wait_for_replicas_on_a_broker_that_is_gone(rows: list[Row], told: bool) -> None:
    tables = {"silences": [GONE], "cluster_events": BROKERS, "partitions": [partition("Produce", 20)]}
    connections = [connection(1), connection(2, broker=B2)]
    incidents = found(exchanges=rows, connections=connections, **tables)
    assert [one.kind for one in incidents] == ["broker_down", *["too_few_replicas"] * told]
    if told:
        assert (incidents[1].severity, names(incidents[1])) == ("warning", ["orders", "c1", H1])
        assert "1 write with acks=all of c1 to orders waited for up to" in incidents[1].headline


def test_where_brokers_say_that_replicas_are_too_few_that_is_told_instead() -> None:
    refused = error("NOT_ENOUGH_REPLICAS", "Produce", 20, 30, 4, topic="orders")
    tables = {"silences": [GONE], "cluster_events": BROKERS, "connections": [CLIENT], "error_histogram": [refused]}
    (_, one) = found(exchanges=[write(12)], **tables)
    assert "could not write" in one.headline


# --- positions -------------------------------------------------------------------------------------------------------

OUT_OF_RANGE = error("OFFSET_OUT_OF_RANGE", "Fetch", 20, 21, 2, topic="orders", partition=0, first_connection=1)
IN_GROUP = rebalance("member_joined", 1, 5, members=[member("c1")])


def test_a_group_whose_position_is_gone() -> None:
    rows = [
        partition("Fetch", 20, error="OFFSET_OUT_OF_RANGE", fetch_offset=100, log_start_offset=-1),
        partition("Fetch", 22, fetch_offset=400, log_start_offset=400),
    ]
    finds = [finding("consumer_stuck", "group shop", "t", 20, 21), finding("consumer_stuck", "group b", "t", 20, 21)]
    one = only(
        error_histogram=[OUT_OF_RANGE], rebalances=[IN_GROUP], partitions=rows, connections=[CLIENT], findings=finds
    )
    assert (one.kind, one.severity, one.certainty) == ("offsets_lost", "critical", "certain")
    assert names(one) == ["shop", "orders", "c1", H1]
    assert one.headline.endswith("300 records were deleted before they were read")
    assert "c1 of group shop lost its position in orders 0 at " in one.headline
    assert one.findings == {"consumer_stuck group shop"}
    assert one.cost_ms == 1000


@pytest.mark.parametrize(("read_at", "told"), [(19.9, True), (20, False), (None, False)])
def test_a_reader_without_a_group_lost_it_only_if_it_had_read(read_at: float | None, told: bool) -> None:
    rows = [] if read_at is None else [partition("Fetch", read_at, records=7)]
    assert len(found(error_histogram=[OUT_OF_RANGE], partitions=rows)) == told


def test_followers_find_their_place_by_themselves() -> None:
    of_broker = [connection(1, B2, B1, "broker-2-fetcher"), connection(2, H1, B2)]
    out = OUT_OF_RANGE | {"client_id": "broker-2-fetcher"}
    fetched = [partition("Fetch", 10, records=7)]
    assert found(error_histogram=[out], connections=of_broker, partitions=fetched) == []


# --- findings that are incidents -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "incident", "severity"),
    [
        ("authentication_failed", "authentication_failed", "critical"),
        ("authorization_failed", "authorization_failed", "warning"),
        ("throttled", "throttled", "warning"),
        ("connection_churn", "connection_storm", "warning"),
    ],
)
def test_findings_of_one_client_id_are_one_incident(kind: str, incident: str, severity: str) -> None:
    rows = [
        finding(kind, f"client c1 ({H1})", "It is so", 10, 20),
        finding(kind, f"client c1 ({H2})", "It is so", 15, 30),
        finding(kind, "client (odd) name (10.9.9.9)", "It is so", 15, 15),
    ]
    incidents = found(findings=rows)
    assert {(one.kind, one.severity, one.certainty) for one in incidents} == {(incident, severity, "certain")}
    assert sorted(names(one) for one in incidents) == [["(odd) name", "10.9.9.9"], ["c1", H1, H2]]
    first = incidents[0]
    assert (first.about, seconds(first.started), seconds(first.ended)) == (f"client c1 ({H1})", 10, 30)
    assert first.headline.endswith(": it is so")
    assert len(first.findings) == 2


def test_one_that_tries_again_and_again_as_its_password_is_wrong_is_no_storm_and_brokers_are_none() -> None:
    rows = [finding(kind, f"client c1 ({H1})", "t", 10, 20) for kind in ("authentication_failed", "connection_churn")]
    one = only(findings=rows)
    assert (one.kind, len(one.findings)) == ("authentication_failed", 2)
    of_broker = finding("connection_churn", f"client b ({B1})", "t", 10, 20)
    assert found(findings=[of_broker], connections=[CLIENT]) == []


# --- lag -------------------------------------------------------------------------------------------------------------


def lags(spans: int = 4, grows: float = 40, writes: float = 100, width: int = 10, **given: Any) -> list[Row]:
    """Two partitions of which so many records are written in a span, and so many of them not read."""
    return [
        row(
            "lag",
            group_id="shop",
            topic="orders",
            partition=number,
            at=at(n * width),
            lag=int(grows * n),
            end_offset=int(writes * n),
            commits=1,
            **given,
        )
        for n in range(spans)
        for number in range(2)
    ]


def test_a_group_that_falls_behind() -> None:
    rows = lags(spans=13)
    one = only(lag=rows, rebalances=[IN_GROUP], connections=[CLIENT])
    assert (one.kind, one.severity, one.certainty) == ("consumer_lagging", "warning", "certain")
    assert names(one) == ["shop", "orders", "c1", H1]
    assert "the lag grew by 960 to 960 records in 120 s; 20 records a second are written, 12 are read" in one.headline
    assert (seconds(one.started), one.ended) == (0, None)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (lags(4, 34), True),
        (lags(4, 33), False),  # ten seconds of writing
        (lags(3, 99, width=20), False),
        (lags(4, 99, width=9), False),  # for how long
        (lags(5, 0), False),
        (lags(5, 99, writes=0), False),
    ],
)
def test_lag_begins_exactly_at_its_thresholds(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(lag=rows)] == ["consumer_lagging"] * told


def test_a_group_that_does_not_commit_or_rebalances_is_behind_for_another_reason() -> None:
    rows = lags(spans=9)
    assert len(found(lag=rows)) == 1
    assert found(lag=[one | {"commits": 0} if n >= 12 else one for n, one in enumerate(rows)]) == []
    assert found(lag=rows, rebalances=[rebalance("member_left", 2, 50)]) == []
    assert len(found(lag=rows, rebalances=[rebalance("member_left", 2, 50, "other")])) == 1
    assert found(lag=[one | {"group_id": None} for one in rows]) == []


# --- transactions ----------------------------------------------------------------------------------------------------

OPEN = threshold("open_transaction")


def held(*times: float, **given: Any) -> list[Row]:
    """Answers to fetches by which records behind an open transaction wait."""
    return [partition("Fetch", time, last_stable_offset=50, high_watermark=60, **given) for time in times]


def written(**given: Any) -> Row:
    known = {"connection": 4, "topic": "orders", "partition": 0, "base_offset": 48, "last_offset": 52}
    return row("batches", **{"direction": "produce", "transactional": True, **known, **given})


def test_a_transaction_that_holds_readers_back() -> None:
    producer = connection(4, H2, client_id="p1")
    one = only(partitions=held(10, 20, 40), batches=[written()], connections=[producer])
    assert (one.kind, one.severity, one.certainty) == ("hung_transaction", "critical", "certain")
    assert (names(one), seconds(one.started), seconds(one.ended)) == (["p1", H2, "orders"], 10, 40)
    assert "a transaction of p1 stayed open" in one.headline
    for other in ({"base_offset": 51}, {"last_offset": 49}, {"transactional": False}, {"direction": "fetch"}):
        one = only(partitions=held(10, 40), batches=[written(**other)], connections=[producer])
        assert (one.certainty, names(one)) == ("likely", ["orders"])
        assert "(its producer is not in the capture)" in one.headline


@pytest.mark.parametrize(("lasts", "told"), [(OPEN, True), (OPEN - 0.1, False)])
def test_transactions_may_be_open_for_a_while(lasts: float, told: bool) -> None:
    assert [one.kind for one in found(partitions=held(10, 10 + lasts))] == ["hung_transaction"] * told
    assert found(partitions=held(10, 10 + lasts, topic="__cluster_metadata")) == []
    done = [partition("Fetch", time, last_stable_offset=60, high_watermark=60) for time in (10, 10 + lasts)]
    assert found(partitions=done) == []


def transaction(ends: float, error: str | None = "INVALID_TXN_STATE", timeout_ms: int = 30_000) -> list[Row]:
    name = '"transactionalId": "tx"'
    return [
        exchange(1, "InitProducerId", 5, 5.1, request=f'{{{name}, "transactionTimeoutMs": {timeout_ms}}}'),
        exchange(2, "Produce", 10, 10.1, request=f"{{{name}}}"),
        exchange(3, "Produce", 12, 12.1, request=f"{{{name}}}"),
        exchange(4, "EndTxn", ends, ends + 0.1, request=f"{{{name}}}", error=error),
    ]


REFUSED = error("INVALID_TXN_STATE", "EndTxn", 40, 41)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (transaction(40), True),
        (transaction(39.9), False),
        (transaction(40, None), False),
        (transaction(40)[1:], False),  # its timeout is not known
        ([one | {"request": '{"transactionalId": null}'} for one in transaction(40)], False),
        ([one | {"request": "cut off {"} for one in transaction(40)], False),
        ([one | {"request": None} for one in transaction(40)], False),
    ],
)
def test_a_commit_that_comes_when_the_coordinator_had_aborted(rows: list[Row], told: bool) -> None:
    incidents = found(exchanges=rows, error_histogram=[REFUSED])
    assert [one.kind for one in incidents] == ["hung_transaction"] * told
    if told:
        assert "c1 left transaction tx open for 30.1 s" in incidents[0].headline
        assert [seen.packet for seen in incidents[0].evidence] == [2, 4]


# --- connects --------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (refused(2), False),
        (refused(3, broker="10.0.0.9"), False),  # nobody advertises it
        ([*refused(), connection(90, broker=B2, opened=60, connect="established")], False),
        ([*refused(), connection(90, broker=B2)], False),  # it was open before
        ([*refused(), connection(90, broker=B2, broker_port=9093)], True),
    ],
)
def test_an_address_that_was_reached_or_that_nobody_advertises_is_none(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(connections=rows, cluster_events=BROKERS)] == ["unreachable_listener"] * told


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


@pytest.mark.parametrize(("clients", "incidents"), [(3, 3), (4, 1)])
def test_many_clients_with_one_trouble_are_one_incident(clients: int, incidents: int) -> None:
    rows = [
        finding("throttled", f"client c{n} (10.0.1.{n})", f"Held back for {n} s", 10, 20, weight=n / 10)
        for n in range(clients)
    ]
    told = found(findings=rows)
    assert len(told) == incidents
    clients_told = {subject.name for one in told for subject in one.subjects if subject.role == "client"}
    assert clients_told == {f"c{n}" for n in range(clients)}
    assert sum(len(one.findings) for one in told) == clients
    if incidents == 1:
        assert told[0].headline.startswith("4 clients alike (c0, c1, c2, c3), ")
        assert told[0].headline.endswith("the worst: held back for 3 s")
