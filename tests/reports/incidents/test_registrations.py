"""Brokers that the controller lets not in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    LASTS,
    Row,
    connection,
    error,
    event,
    finding,
    found,
    names,
    only,
    seconds,
)

ELSEWHERE = "10.0.0.9"


def refused(name: str, api: str, first: float = 20, last: float = 40, **given: Any) -> Row:
    known = {"client_id": "2", "broker": f"{B1}:9093", "first_connection": 5} | given
    return error(name, api, first, last, 26, **known)


def duplicate(**given: Any) -> Row:
    return refused("DUPLICATE_BROKER_REGISTRATION", "BrokerRegistration", **given)


FROM_ELSEWHERE = connection(5, ELSEWHERE, B1, "2", broker_port=9093)
FROM_ITSELF = connection(5, B2, B1, "2", broker_port=9093)


def test_a_second_broker_with_a_node_id_that_is_in_use() -> None:
    events = [
        event("leader_changed", 20.5, before="2", after="1", count=3),
        event("isr_shrunk", 20.5, before="1,2", after="1", partitions=["orders-0", "orders-1"]),
    ]
    loop = finding("error_loop", f"client 2 ({ELSEWHERE})", "t", 20, 40)
    one = only(
        error_histogram=[duplicate()],
        connections=[FROM_ELSEWHERE],
        cluster_events=[*BROKERS, *events],
        findings=[loop, finding("error_loop", "client c1 (10.0.1.1)", "t", 20, 40)],
    )
    assert (one.kind, one.severity, one.certainty) == ("broker_refused", "critical", "certain")
    assert names(one) == [ELSEWHERE, "2", "2", B2]
    assert (seconds(one.started), seconds(one.ended)) == (20, 40)
    assert one.headline.startswith(f"broker 2 at {ELSEWHERE} may not join the cluster from ")
    assert one.what.endswith(f": broker 2 ({B2}) has its node id (DUPLICATE_BROKER_REGISTRATION)")
    assert [effect.text for effect in one.effects] == [
        "it asked 26 times",
        "3 leaders moved away from that one",
        "that one fell out of sync of 2 partitions",
    ]
    assert one.findings == {loop["id"]}


@pytest.mark.parametrize(
    ("host", "name", "told"), [(B2, "2", True), (ELSEWHERE, "2", False), (B2, "3", False), (B2, None, False)]
)
def test_who_sends_a_brokers_heartbeats_has_its_node_id(host: str, name: str | None, told: bool) -> None:
    """Where the capture begins later, and nobody is told where brokers are."""
    beats = {"api": "BrokerHeartbeat", "client_id": name, "client": host, "broker": f"{B1}:9093", "part": "total"}
    incidents = found(error_histogram=[duplicate()], connections=[FROM_ELSEWHERE], latency=[beats | {"count": 9}])
    assert [one.what.rpartition(": ")[2] for one in incidents] == [
        f"broker {B2} has its node id (DUPLICATE_BROKER_REGISTRATION)"
    ] * told


@pytest.mark.parametrize(
    ("rows", "events", "told"),
    [
        ([duplicate()], [], False),  # its own session from before a crash may not be over
        ([duplicate(last=45)], [], True),
        ([duplicate(last=44.9)], [], False),
        ([duplicate(last=80)], [event("broker_registered", 90, node_id=2, host=f"{B2}:9092")], False),
        ([duplicate(last=80)], [event("broker_registered", 19, node_id=2, host=f"{B2}:9092")], True),
        ([duplicate(last=80)], [event("broker_unfenced", 90, node_id=1, host=f"{B1}:9092")], True),
        ([refused("NOT_CONTROLLER", "BrokerRegistration", last=80)], [], False),
        ([duplicate(last=80, first_connection=6)], [], False),
    ],
)
def test_a_broker_that_was_killed_waits_for_its_own_session(rows: list[Row], events: list[Row], told: bool) -> None:
    incidents = found(error_histogram=rows, connections=[FROM_ITSELF], cluster_events=[*BROKERS, *events])
    assert [one.kind for one in incidents] == ["broker_refused"] * told
    if told:
        assert "another process with its node id is there" in incidents[0].headline
        assert incidents[0].certainty == "likely"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (refused("INCONSISTENT_CLUSTER_ID", "Fetch", client_id="raft-client-3"), "broker 3 at 10.0.0.9"),
        (refused("INCONSISTENT_CLUSTER_ID", "Vote", client_id="raft-client-3"), "broker 3 at 10.0.0.9"),
        (refused("INCONSISTENT_VOTER_SET", "BeginQuorumEpoch", client_id=None), "a broker at 10.0.0.9"),
        (refused("UNSUPPORTED_VERSION", "BrokerRegistration", client_id="4"), "broker 4 at 10.0.0.9"),
        (refused("UNSUPPORTED_VERSION", "Fetch", client_id="c4"), None),
        (refused("INCONSISTENT_CLUSTER_ID", "Metadata", client_id="c4"), None),
    ],
)
def test_a_broker_of_another_cluster_or_release(row: Row, told: str | None) -> None:
    incidents = found(error_histogram=[row], connections=[FROM_ELSEWHERE], cluster_events=BROKERS)
    assert [(one.kind, one.severity) for one in incidents] == [("broker_refused", "warning")] * (told is not None)
    if told is not None:
        assert incidents[0].headline.startswith(f"{told} may not join the cluster from ")


@pytest.mark.parametrize(("last", "over"), [(LASTS - 0.9, False), (LASTS - 1, True)])
def test_it_goes_on_at_the_end_of_the_capture(last: float, over: bool) -> None:
    one = only(error_histogram=[duplicate(last=last)], connections=[FROM_ELSEWHERE], cluster_events=BROKERS)
    assert (one.ended is not None) == over


NAMED = [event("broker_listed", 0, node_id=n, host=f"k{n}.example:9092", told_by=f"{B1}:9092") for n in (1, 2)]
SEEN = [event("broker_found", 1, node_id=2, host=f"{B2}:9092", told_by=f"{B2}:9092")]
REGISTERED = event("broker_registered", 29, node_id=2, host="k2.example:9092", connection=5)


@pytest.mark.parametrize("events", [NAMED, [*NAMED, *SEEN], [*NAMED, REGISTERED]])
def test_a_broker_with_a_name_is_not_kept_out_by_itself(events: list[Row]) -> None:
    """It crashed, and waits for its own session from before."""
    asked = duplicate(first=20, last=27)
    assert found(error_histogram=[asked], connections=[FROM_ITSELF], cluster_events=events) == []


def test_who_has_a_name_and_is_let_in_late_was_not_kept_out_for_good() -> None:
    late = REGISTERED | {"at": duplicate(last=90)["last"]}
    asked = duplicate(first=20, last=80)
    assert found(error_histogram=[asked], connections=[FROM_ITSELF], cluster_events=[*NAMED, late]) == []
    (one,) = found(error_histogram=[asked], connections=[FROM_ITSELF], cluster_events=NAMED)
    assert one.kind == "broker_refused"


def test_who_came_in_and_is_kept_out_later() -> None:
    later = duplicate(first=100, last=290, broker=f"{B1}:9093")
    came = event("broker_registered", 25, node_id=2, host=f"{ELSEWHERE}:9092", connection=5)
    refused = [duplicate(first=5, last=20), later]
    one = only(error_histogram=refused, connections=[FROM_ELSEWHERE], cluster_events=[*BROKERS, came])
    assert (seconds(one.started), seconds(one.ended)) == (100, 290)
