"""Brokers that are not there from the beginning of a capture on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.incidents.tables_of import (
    B1,
    BROKERS,
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

B9 = "10.0.0.9"
MISSING = event("broker_missing", 2, node_id=9, partitions=["orders-0", "orders-1"], count=2, told_by=f"{B1}:9092")
LEADERLESS = event("leader_missing", 2, node_id=9, before="9", partitions=["orders-0"], count=1)
TOLD = error("LEADER_NOT_AVAILABLE", "Metadata", 2, 60, 30, topic="orders", client_id="p1")
SOUGHT = [connection(n, broker=B9, client_id=None, opened=n, connect="refused", protocol=None) for n in (3, 4, 5)]


def absent(*events: Row, **tables: Any) -> Any:
    """The incident of a broker that is not there."""
    return only(cluster_events=[*BROKERS, *events], **tables)


def test_what_a_broker_led_alone_has_no_leader() -> None:
    one = absent(MISSING, LEADERLESS, error_histogram=[TOLD])
    assert (one.kind, one.severity, one.certainty) == ("broker_down", "critical", "likely")
    assert (names(one), seconds(one.started), one.ended) == (["9", "p1"], 2, None)
    assert one.headline.startswith("broker 9 was gone when the capture began, as is told at ")
    assert [effect.text for effect in one.effects] == [
        "orders 0 had no leader for up to 4 min 58 s, to the end of the capture: nobody could write or read there",
        "p1 was told so 30 times",
    ]


def test_others_lead_what_it_has_replicas_of() -> None:
    one = absent(MISSING)
    assert (one.kind, one.severity, one.cost_ms) == ("broker_down", "warning", 0)
    assert one.headline.endswith(", and has not come back; orders 0-1 have a replica there")


@pytest.mark.parametrize(
    ("opened", "client_id", "told"),
    [
        (None, "broker-9-fetcher-0", 0),  # from before the capture
        (1, "broker-9-fetcher-0", 0),
        (30, "broker-9-fetcher-0", 1),  # it is back
        (None, "broker-8-fetcher-0", 1),
        (None, "9", 1),  # a client may be called so
    ],
)
def test_who_replicates_from_others_before_it_is_missed_was_left_out_meanwhile(
    opened: float | None, client_id: str, told: int
) -> None:
    follows = connection(1, B9, B1, client_id, opened=opened)
    incidents = found(cluster_events=[*BROKERS, MISSING], connections=[follows])
    assert len([one for one in incidents if "gone when the capture began" in one.headline]) == told


@pytest.mark.parametrize("how", ["broker_listed", "broker_unfenced"])
def test_it_is_over_when_it_is_listed(how: str) -> None:
    elected = event("leader_elected", 21, node_id=9, after="9", partitions=["orders-0"], count=1)
    back = event(how, 20, node_id=9, host=f"{B9}:9092", told_by=f"{B1}:9092")
    one = absent(MISSING, back)
    assert (one.severity, seconds(one.ended)) == ("info", 20)
    assert "and was back after 18.0 s; " in one.headline
    one = absent(MISSING, LEADERLESS, back, elected)
    assert (one.severity, one.effects[0].duration_ms) == ("critical", 19_000)


def test_the_one_place_where_connects_fail_of_which_nobody_tells_may_be_it() -> None:
    one = absent(MISSING, connections=SOUGHT)
    assert names(one) == ["9", B9, f"{B9}:9092"]
    assert one.effects[-1].text == f"3 connects of 10.0.1.1 to {B9}:9092, which may be it, failed"
    elsewhere = [row | {"broker": "10.0.0.8"} for row in SOUGHT]
    for connections in (SOUGHT[:2], [*SOUGHT, *elsewhere], [row | {"broker_port": 80} for row in SOUGHT]):
        assert names(absent(MISSING, connections=connections)) == ["9"]


def test_two_that_are_missing_are_two_incidents_and_no_place_is_known() -> None:
    other = MISSING | {"node_id": 8}
    found_ = found(cluster_events=[*BROKERS, MISSING, other], connections=SOUGHT)
    assert sorted(names(one)[0] for one in found_ if one.kind == "broker_down") == ["8", "9"]
    assert all(B9 not in names(one) for one in found_ if one.kind == "broker_down")


def test_who_is_told_as_an_outage_is_told_once() -> None:
    back = event("broker_listed", 30, node_id=9, host=f"{B9}:9092")
    one = absent(MISSING, LEADERLESS, back, connections=SOUGHT)
    assert names(one) == ["9", B9]
    assert one.headline.startswith(f"broker 9 ({B9}) was gone when the capture began, and missed at ")
    assert one.effects[0].text.startswith("orders 0 had no leader for up to ")


def test_what_has_no_leader_is_of_the_broker_that_has_a_replica_there() -> None:
    """Who led is not told, where none or several of its replicas are in sync."""
    unknown = LEADERLESS | {"node_id": None, "before": None}
    other = event("broker_missing", 2, node_id=8, partitions=["logs-3"], count=1, told_by=f"{B1}:9092")
    incidents = found(cluster_events=[*BROKERS, MISSING, other, unknown])
    assert {names(one)[0]: one.severity for one in incidents} == {"9": "critical", "8": "warning"}


def test_topics_that_are_just_being_made_are_not_held_against_it() -> None:
    new = TOLD | {"topic": "made-on-demand", "client_id": "other"}
    one = absent(MISSING, LEADERLESS, error_histogram=[TOLD, new])
    assert names(one) == ["9", "p1"]
    assert one.effects[1].text == "p1 was told so 30 times"


def test_one_that_comes_and_goes_away_later() -> None:
    back = event("broker_listed", 60, node_id=9, host=f"{B9}:9092", told_by=f"{B1}:9092")
    later = silence(B9, 200, 230, refused=3, first_failed=201, failed_packet=7, ended=3, reset=2, ended_clients=2)
    both = found(cluster_events=[*BROKERS, MISSING, LEADERLESS, back], error_histogram=[TOLD], silences=[later])
    assert [(one.kind, seconds(one.started), seconds(one.ended)) for one in both] == [
        ("broker_down", 2, 60),
        ("broker_down", 200, 230),
    ]
