"""Brokers of one cluster that advertise one address."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    H1,
    LASTS,
    Row,
    at,
    connection,
    error,
    event,
    finding,
    found,
    group_event,
    names,
    only,
    seconds,
)

LEAST = int(threshold("shared_address"))


def listed(node_id: int, host: str = B2, **given: Any) -> Row:
    known: Row = {"told_by": f"{B1}:9092", "packet": 9} | given
    return event("broker_listed", 0, node_id=node_id, host=f"{host}:9092", **known)


def sent_away(count: int = LEAST, first: float = 20, last: float = 40, **given: Any) -> Row:
    known: Row = {"broker": f"{B2}:9092"} | given
    return error("NOT_LEADER_OR_FOLLOWER", "Produce", first, last, count, **known)


def off(node_id: int, time: float) -> Row:
    return event("broker_unlisted", time, node_id=node_id, host=f"{B2}:9092")


LISTS = [listed(1, B1), listed(10), listed(2)]


def test_two_brokers_that_advertise_one_address() -> None:
    rows = [sent_away(), sent_away(30, 25, 50, client_id="c2") | {"error": "NOT_COORDINATOR", "api": "JoinGroup"}]
    churn = finding("connection_churn", f"client c1 ({H1})", "t", 20, 40)
    moved = finding("leader_changed", f"client c9 ({H1})", "t", 20, 40)
    one = only(error_histogram=rows, cluster_events=LISTS, connections=[connection(1)], findings=[churn, moved])
    assert (one.kind, one.severity, one.certainty) == ("unreachable_listener", "critical", "certain")
    assert names(one) == ["10", "2", f"{B2}:9092", B2, "c1", "c2"]
    assert (seconds(one.started), seconds(one.ended)) == (20, 50)
    assert one.headline.startswith(f"brokers 10, 2 advertise one address, {B2}:9092: who wants one of them reaches ")
    assert [effect.text for effect in one.effects] == [
        f"{LEAST + 30} requests of c1, c2 answered NOT_COORDINATOR, NOT_LEADER_OR_FOLLOWER"
    ]
    assert [seen.text for seen in one.evidence[:2]] == [
        f"listed as the address of broker {node} by {B1}:9092" for node in (10, 2)
    ]
    assert one.findings == {churn["id"]}


@pytest.mark.parametrize(
    ("events", "rows", "told"),
    [
        (LISTS, [sent_away()], True),
        (LISTS, [sent_away(LEAST - 1)], False),
        (LISTS, [sent_away(LEAST - 1), sent_away(1, client_id=None)], True),
        (LISTS, [sent_away(broker=f"{B1}:9092")], False),  # at the address of one alone
        (LISTS, [sent_away() | {"error": "UNKNOWN_TOPIC_OR_PARTITION"}], False),
        ([listed(10), listed(2, packet=10)], [sent_away()], True),
        ([listed(10), listed(2, packet=10) | {"at": at(35)}], [sent_away()], True),
        ([listed(10), listed(2, packet=10) | {"at": at(41)}], [sent_away()], False),
        ([listed(10), listed(2), off(10, 15)], [sent_away()], False),  # it has its address
        ([listed(10), listed(2), off(10, 25)], [sent_away()], True),
        ([listed(10), listed(2), listed(2, B1, packet=10) | {"at": at(15)}], [sent_away()], False),  # it moved
        ([listed(10), off(10, 0), listed(2)], [sent_away()], False),
        ([listed(10), listed(2, cluster_id="other")], [sent_away()], False),
        ([listed(10), listed(2) | {"event": "broker_found"}], [sent_away()], False),
        ([listed(2), listed(2)], [sent_away()], False),
    ],
)
def test_only_at_once_and_where_clients_are_sent_away(events: list[Row], rows: list[Row], told: bool) -> None:
    incidents = found(error_histogram=rows, cluster_events=events, connections=[connection(1)])
    assert [one.kind for one in incidents] == ["unreachable_listener"] * told


@pytest.mark.parametrize(("last", "over"), [(LASTS - 59, False), (LASTS - 60, True)])
def test_it_goes_on_at_the_end_of_the_capture(last: float, over: bool) -> None:
    one = only(error_histogram=[sent_away(last=last)], cluster_events=LISTS, connections=[connection(1)])
    assert (one.ended is not None) == over


def test_who_asks_the_wrong_one_for_a_coordinator_lacks_none() -> None:
    rows = [sent_away(99, 20, 90) | {"error": "NOT_COORDINATOR", "api": "JoinGroup"}]
    events = [group_event("coordinator_unavailable", 20, client_id="c1")]
    tables = {"cluster_events": LISTS, "connections": [connection(1)], "group_events": events}
    assert only(error_histogram=rows, **tables).kind == "unreachable_listener"
    both = found(error_histogram=[*rows, rows[0] | {"client_id": "c2", "broker": f"{B1}:9092"}], **tables)
    assert sorted(one.kind for one in both) == ["coordinator_missing", "unreachable_listener"]


def test_a_name_that_several_brokers_have_leads_to_an_address_that_nobody_lists() -> None:
    balancer = [listed(n, "kafka-lb.example") for n in (1, 2, 10)]
    sent = sent_away(broker=f"{B2}:9092")
    one = only(cluster_events=balancer, error_histogram=[sent], connections=[connection(1, broker=B2)])
    assert one.kind == "unreachable_listener"
    for other in (sent_away(broker=f"{B2}:9093"), sent_away(LEAST - 1, broker=f"{B2}:9092")):
        assert found(cluster_events=balancer, error_histogram=[other], connections=[connection(1, broker=B2)]) == []
