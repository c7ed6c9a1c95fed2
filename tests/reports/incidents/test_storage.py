"""Brokers that cannot use a disk."""

from __future__ import annotations

import pytest

from kafkascope.reports.incidents.incident import Incident
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    NAMED,
    SEEN,
    Row,
    connection,
    error,
    event,
    found,
    names,
    only,
    seconds,
    silence,
)


def refused(first: float = 5, last: float = 6, api: str = "Produce", count: int = 3, **given: object) -> Row:
    known: Row = {"topic": "orders", "partition": 2, "client_id": "p1"}
    return error("KAFKA_STORAGE_ERROR", api, first, last, count, **known | given)


def kind_of(one: Incident) -> str:
    return str(one.kind)


SHRUNK = event("isr_shrunk", 5.1, before="1,2", after="2", partitions=["orders-2", "orders-4"], node_id=None)
MOVED = event("leader_changed", 5.2, before="1", after="2", partitions=["orders-2"], count=1)


def test_a_broker_says_that_it_cannot_store_records() -> None:
    other = event("isr_shrunk", 5.1, before="1,2", after="1", partitions=["orders-5"])
    one = only(
        error_histogram=[refused(), refused(api="Fetch", client_id="c1")],
        cluster_events=[*BROKERS, SHRUNK, MOVED, other],
    )
    assert (one.kind, one.severity, one.certainty) == ("storage_failed", "critical", "certain")
    assert names(one) == ["1", B1]
    assert (seconds(one.started), one.ended) == (5, None)
    assert one.what.startswith(f"broker 1 ({B1}) cannot use a log directory since ")
    assert one.what.endswith(": its replicas of orders 2,4 are offline")
    assert [effect.text for effect in one.effects] == [
        "6 requests of c1, p1 failed",
        "1 leader moved to other brokers",
    ]


def test_a_broker_tells_the_controller_alone() -> None:
    told = event("log_dirs_offline", 7, node_id=2, host=f"{B2}:9092", detail="dir-1")
    one = only(cluster_events=[*BROKERS, told])
    assert (one.kind, names(one), seconds(one.started)) == ("storage_failed", ["2", B2], 7)
    assert one.evidence[0].text == "it told the controller that it cannot use log directory dir-1"
    assert one.effects == ()
    assert (one.certainty, "Another process" in one.advice) == ("certain", False)


def test_others_tell_that_its_replicas_are_offline() -> None:
    told = event("replica_offline", 7, node_id=2, host=f"{B2}:9092", partitions=["orders-3"], told_by=f"{B1}:9092")
    one = only(cluster_events=[*BROKERS, told])
    assert (one.kind, names(one), seconds(one.started)) == ("storage_failed", ["2", B2], 7)
    assert one.what.endswith(": its replicas of orders 3 are offline")
    assert (one.certainty, "Another process that is started with its node id" in one.advice) == ("likely", True)
    assert one.evidence[0].text == f"{B1}:9092 tells that its replicas are offline, though it is there"


@pytest.mark.parametrize(
    ("at", "announced", "kinds"),
    [
        (21, True, ["broker_restarted"]),
        (19.9, True, ["broker_restarted", "storage_failed"]),
        (50.5, True, ["broker_restarted"]),
        (21, False, ["broker_down", "storage_failed"]),
    ],
)
def test_replicas_of_a_broker_that_is_shut_down_are_offline_while_it_is_still_listed(
    at: float, announced: bool, kinds: list[str]
) -> None:
    """As a controller with ZooKeeper tells it."""
    told = event("replica_offline", at, node_id=2, host=f"{B2}:9092", partitions=["orders-3"], told_by=f"{B1}:9092")
    goes = [event("shutdown_announced", 45, node_id=2, host=f"{B2}:9092")] if announced else []
    away = silence(B2, 50, 60, ended=3, ended_clients=3, refused=4)
    incidents = found(cluster_events=[*BROKERS, told, *goes], silences=[away])
    assert sorted(one.kind for one in incidents) == kinds


def test_what_is_told_of_replicas_of_two_brokers_with_one_id_is_of_no_disk() -> None:
    told = event("replica_offline", 7, node_id=2, host=f"{B2}:9092", partitions=["orders-3"])
    wanted = error("DUPLICATE_BROKER_REGISTRATION", "BrokerRegistration", 6, 9, client_id="2", first_connection=5)
    asks = connection(5, "10.0.0.9", B1, "2")
    incidents = found(cluster_events=[*BROKERS, told], error_histogram=[wanted], connections=[asks])
    assert [one.kind for one in incidents] == ["broker_refused"]


def test_a_disk_may_fail_of_a_broker_that_was_kept_out_for_a_while_behind_a_crash() -> None:
    failed = event("log_dirs_offline", 60, node_id=2, host=f"{B2}:9092", detail="dir-1")
    wanted = error("DUPLICATE_BROKER_REGISTRATION", "BrokerRegistration", 20, 27, client_id="2", first_connection=5)
    back = event("broker_registered", 29, node_id=2, host=f"{B2}:9092")
    asked = connection(5, B2, B1, "2")
    one = only(cluster_events=[*BROKERS, back, failed], error_histogram=[wanted], connections=[asked])
    assert one.kind == "storage_failed"


def test_it_is_over_when_the_broker_goes_away() -> None:
    away = silence(B1, 20, 40, ended=3, ended_clients=3, refused=4)
    down, failed = sorted(found(error_histogram=[refused()], cluster_events=BROKERS, silences=[away]), key=kind_of)
    assert (down.kind, failed.kind) == ("broker_down", "storage_failed")
    assert seconds(failed.ended) == 20
    assert ", and it went away at " in failed.headline


def test_other_errors_are_of_no_disk() -> None:
    rows = [refused() | {"error": "OUT_OF_ORDER_SEQUENCE_NUMBER"}, refused(broker=None)]
    assert found(error_histogram=rows) == []


def test_a_directory_that_fails_again_when_the_broker_was_restarted() -> None:
    gone = silence(B1, 60, 80, refused=3, first_failed=61, failed_packet=7, ended=3, reset=2, ended_clients=2)
    rows = [refused(5, 6), refused(200, 201)]
    of_disk = [
        one
        for one in found(error_histogram=rows, cluster_events=BROKERS, silences=[gone])
        if one.kind == "storage_failed"
    ]
    assert [(seconds(one.started), seconds(one.ended)) for one in of_disk] == [(5, 60), (200, None)]


def test_a_broker_with_a_name_is_one() -> None:
    off = event("replica_offline", 7, node_id=1, host="k1.example:9092", told_by=f"{B2}:9092", partitions=["orders-2"])
    one = only(error_histogram=[refused(5, 6)], cluster_events=[*NAMED, *SEEN, off], connections=[connection(1)])
    assert "its replicas of orders 2 are offline; 3 requests of p1 failed" in one.headline
