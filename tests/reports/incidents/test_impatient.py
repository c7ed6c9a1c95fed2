"""Clients that give up on requests before brokers can answer them."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    H1,
    H2,
    Row,
    at,
    connection,
    error,
    exchange,
    finding,
    found,
    group_event,
    names,
    only,
    rebalance,
    row,
    seconds,
    silence,
)

TIMES = int(threshold("gives_up"))
STAYS = connection(1, opened=1)  # to its coordinator


def given_up(times: int = TIMES, waits: float = 0.8, took: float = 3, **given: Any) -> tuple[list[Row], list[Row]]:
    """Connections on which a fetch is given up, each with that fetch; each is followed by the next one."""
    connections, exchanges = [], []
    for n in range(times + 1):
        opened = 10 + n * waits
        known: Row = {"how_closed": "rst", "reset_by": "client", "closed": opened + took + 0.001} | given
        last = {} if n == times else known  # the last one is not given up
        connections.append(connection(10 + n, opened=opened, **last))
        request = '{"maxWaitMs": 3000, "minBytes": 1}'
        exchanges += [
            exchange(1, "ApiVersions", opened, opened, connection=10 + n),
            exchange(2, "Fetch", opened, opened + took, connection=10 + n, request=request),
        ]
    return connections, exchanges


def test_a_consumer_that_does_not_wait_for_its_fetches() -> None:
    connections, exchanges = given_up()
    churn = finding("connection_churn", f"client c1 ({H1})", "Connections are opened all the time", 10, 20)
    joined = [rebalance("topic_partitions_changed", n, 11 + n, trigger_client_id="c1") for n in range(2)]
    members = [{"member_id": "c1~1", "client_id": "c1", "host": H1}]
    joined = [one | {"members": members} for one in joined]
    one = only(connections=[STAYS, *connections], exchanges=exchanges, findings=[churn], rebalances=joined)
    assert (one.kind, one.severity, one.certainty) == ("timeout_too_short", "warning", "certain")
    assert names(one) == ["c1", H1, "shop"]
    assert (seconds(one.started), seconds(one.ended)) == (10, 12.4)
    assert one.headline.startswith(
        f"c1 ({H1}) gives up on its Fetch requests to {B1}:9092 after 800 ms, before they are answered, 3 times from "
    )
    assert ", though it lets brokers hold them for 3.0 s (fetch.max.wait.ms); " in one.headline
    assert [effect.text for effect in one.effects] == ["3 connections closed for it", "2 rebalances"]
    assert one.findings == {churn["id"]}
    assert "was answered after 3.0 s, to a socket that was closed; after 800 ms it had another" in one.evidence[0].text


def test_a_broker_that_answers_nobody_is_the_trouble_itself() -> None:
    connections, exchanges = given_up(waits=2, took=6)
    stood_still = silence(B1, 9, 40, asked=20, acknowledged=20, waiting_clients=["c1"], waiting=3)
    told = found(connections=[STAYS, *connections], exchanges=exchanges, silences=[stood_still])
    assert "timeout_too_short" not in {one.kind for one in told}


def test_brokers_do_not_wait_long_for_each_other() -> None:
    connections, exchanges = given_up()
    connections = [one | {"client": B2, "client_id": "2"} for one in (STAYS, *connections)]
    assert len(found(connections=connections, exchanges=exchanges)) == 1
    served = connection(2, H1, broker=B2, opened=1)  # so it is a broker
    assert found(connections=[served, *connections], exchanges=exchanges) == []


@pytest.mark.parametrize(
    ("made", "beside", "told"),
    [
        (given_up(), [STAYS], True),
        (given_up(), [STAYS | {"opened": None}], True),  # from before the capture
        (given_up(TIMES - 1), [STAYS], False),
        (given_up(), [], False),  # it may be processes that end
        (given_up(), [STAYS | {"client": H2}], False),
        (given_up(), [connection(1, opened=1, closed=12)], False),
        (given_up(), [connection(1, opened=10.5)], False),
        (given_up(reset_by="broker"), [STAYS], False),
        (given_up(closed=99), [STAYS], False),  # long after the answer
        (given_up(waits=4), [STAYS], False),  # it waited for the answer
        (given_up(waits=5, took=30), [STAYS], True),
        (given_up(waits=5.1, took=30), [STAYS], False),  # any client gives up some time
        (given_up(waits=0.05), [STAYS], True),
        (given_up(waits=0.049), [STAYS], False),  # that is no timeout
        (given_up(client_id=None), [STAYS], False),
    ],
)
def test_who_gives_up(made: tuple[list[Row], list[Row]], beside: list[Row], told: bool) -> None:
    connections, exchanges = made
    incidents = found(connections=[*beside, *connections], exchanges=exchanges)
    assert [one.kind for one in incidents] == ["timeout_too_short"] * told


@pytest.mark.parametrize(
    ("event", "given", "told"),
    [
        ("synced", {}, 0),
        ("heartbeat_refused", {}, 0),
        ("left", {}, 1),
        ("synced", {"client": H2}, 1),
        ("synced", {"client_id": "c2"}, 1),
    ],
)
def test_what_is_dropped_as_its_partitions_change_hands_was_not_too_slow(event: str, given: Row, told: int) -> None:
    """franz-go closes the connection of a fetch when its partitions are taken away."""
    connections, exchanges = given_up()
    who = {"client": H1, "client_id": "c1"} | given
    events = [group_event(event, 10.05 + 0.8 * n, **who) for n in range(TIMES)]
    incidents = found(connections=[STAYS, *connections], exchanges=exchanges, group_events=events)
    assert sum(one.kind == "timeout_too_short" for one in incidents) == told


@pytest.mark.parametrize(
    ("code", "connection_number", "told"),
    [
        ("FENCED_LEADER_EPOCH", 1, 0),
        ("NOT_LEADER_OR_FOLLOWER", 1, 0),
        ("OFFSET_OUT_OF_RANGE", 1, 1),
        ("FENCED_LEADER_EPOCH", 2, 1),  # of another client
    ],
)
def test_what_is_dropped_as_leaders_move_was_not_too_slow(code: str, connection_number: int, told: int) -> None:
    """franz-go closes the connections of all fetches whose partitions are led by another broker than before."""
    connections, exchanges = given_up()
    other = connection(2, H2, opened=1, client_id="c1")
    known: Row = {"error": code, "connection": connection_number, "client_id": "c1"}
    errors = [row("errors", at=at(10.05 + 0.8 * n), **known) for n in range(TIMES)]
    incidents = found(connections=[STAYS, other, *connections], exchanges=exchanges, errors=errors)
    assert sum(one.kind == "timeout_too_short" for one in incidents) == told


def test_connections_to_other_brokers_are_no_second_try() -> None:
    connections, exchanges = given_up()
    elsewhere = [one | {"broker": f"10.0.0.{20 + one['connection']}"} for one in connections]
    assert found(connections=[STAYS, *elsewhere], exchanges=exchanges) == []


def test_what_else_takes_long_is_likely_to_be_too_short() -> None:
    connections, exchanges = given_up()
    writes = [one | {"api": "Produce", "request": None} for one in exchanges]
    one = only(connections=[STAYS, *connections], exchanges=writes)
    assert (one.certainty, "though it lets" in one.headline) == ("likely", False)


def test_how_long_writes_may_wait_is_another_setting() -> None:
    connections, exchanges = given_up()
    writes = [one | {"api": "Produce", "request": '{"acks": -1, "timeoutMs": 30000}'} for one in exchanges]
    one = only(connections=[STAYS, *connections], exchanges=writes)
    assert ", though it lets brokers hold them for 30.0 s (request.timeout.ms of its topics); " in one.headline


def write(number: int, timeout_ms: int = 20, **given: Any) -> Row:
    request = f'{{"acks": -1, "timeoutMs": {timeout_ms}}}'
    known = {"error": "REQUEST_TIMED_OUT", "request": request} | given
    return exchange(number, "Produce", 10 + number, 10.02 + number, **known)


REFUSED = error("REQUEST_TIMED_OUT", "Produce", 10, 20, 9)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([write(n) for n in range(TIMES)], True),
        ([write(n) for n in range(TIMES - 1)], False),
        ([write(n, 5000) for n in range(TIMES)], True),
        ([write(n, 5001) for n in range(TIMES)], False),
        ([*(write(n) for n in range(TIMES)), write(9, 30_000)], False),
        ([write(n, error="NONE") for n in range(TIMES)], False),
        ([write(n, request="cut") for n in range(TIMES)], False),
        ([write(n, connection=2) for n in range(TIMES)], False),
    ],
)
def test_a_producer_that_lets_replicas_no_time(rows: list[Row], told: bool) -> None:
    incidents = found(exchanges=rows, error_histogram=[REFUSED], connections=[connection(1), connection(8, broker=B2)])
    assert [(one.kind, one.certainty) for one in incidents] == [("timeout_too_short", "certain")] * told
    if told:
        longest = "20.0 ms" if "20}" in rows[0]["request"] else "5.0 s"
        assert incidents[0].headline.startswith(f"c1 ({H1}) lets replicas {longest} to confirm its writes ")
        assert names(incidents[0]) == ["c1", H1]


def test_of_a_producer_that_does_both_its_setting_is_told() -> None:
    connections, exchanges = given_up()
    refused = [write(20 + n, connection=1) for n in range(TIMES)]
    one = only(connections=[STAYS, *connections], exchanges=[*exchanges, *refused], error_histogram=[REFUSED])
    assert "lets replicas 20.0 ms" in one.headline


def test_processes_of_one_name_that_are_started_again_and_again_are_told_as_that() -> None:
    connections, exchanges = given_up()
    known: Row = {"client_id": "c1", "client": H1}
    events = [group_event("joined", 13, client_id="c2", client=H2, packet=900, connection=3)]
    for n in range(3):
        events.append(group_event("left", 10 + n, packet=20 * n + 1, connection=1, **known))
        events.append(group_event("joined", 10.5 + n, packet=20 * n + 9, connection=20 * n + 8, **known))
    tables = {"group_events": events, "rebalances": [rebalance("member_left", 1, 10)]}
    one = only(connections=[STAYS, *connections], exchanges=exchanges, **tables)
    assert one.kind == "client_restarting"
