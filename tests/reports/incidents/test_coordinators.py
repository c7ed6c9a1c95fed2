"""Groups and transactions without a coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    H1,
    LASTS,
    Row,
    connection,
    error,
    exchange,
    finding,
    found,
    group_event,
    names,
    only,
    rebalance,
    seconds,
    silence,
)


def away(first: float, last: float, count: int = 50, client_id: str = "c1", **given: Any) -> Row:
    known = {"client_id": client_id} | given
    return error("COORDINATOR_NOT_AVAILABLE", "FindCoordinator", first, last, count, **known)


def served(at: float, api: str = "Heartbeat", name: str = "NONE", client_id: str = "c1") -> Row:
    return exchange(1, api, at - 0.01, at, client_id=client_id, error=name)


IN_SHOP = [group_event("coordinator_unavailable", 20, client_id=name) for name in ("c1", "c2")]


def test_a_group_whose_coordinator_is_never_there() -> None:
    rows = [away(LASTS - 30, LASTS - 21), away(LASTS - 20, LASTS - 11)]
    rows += [away(LASTS - 28, LASTS - 21, client_id="c2"), away(LASTS - 20, LASTS - 1, client_id="c2")]
    one = only(error_histogram=rows, group_events=IN_SHOP)
    assert (one.kind, one.severity, one.certainty, one.ended) == ("coordinator_missing", "critical", "certain", None)
    assert names(one) == ["shop", "c1", "c2"]
    assert one.headline.startswith("group shop has no coordinator since ")
    assert ": COORDINATOR_NOT_AVAILABLE 200 times to c1, c2" in one.headline
    assert "offsets.topic.replication.factor" in one.advice


@pytest.mark.parametrize(
    ("rows", "good", "times"),
    [
        ([away(20, 29.5), away(30, 30.1)], [], [(20, 30.1)]),
        ([away(20, 29.9)], [], []),  # ten seconds
        ([away(20, 29), away(30, 39)], [served(29.5)], []),
        ([away(20, 29), away(30, 45)], [served(29.5)], [(30, 45)]),
        ([away(20, 29), away(30, 45)], [served(29.5, client_id="c2")], [(20, 45)]),
        ([away(20, 29), away(30, 45)], [served(29.5, name="COORDINATOR_NOT_AVAILABLE")], [(20, 45)]),
        ([away(20, 29), away(30, 45)], [served(29.5, "Metadata")], [(20, 45)]),  # any broker gives it
        ([away(20, 29), away(30, 45)], [served(35)], []),  # in the middle
        ([away(20, 35), away(120, 135)], [served(60)], [(20, 35), (120, 135)]),
        ([away(20, 45) | {"error": "UNKNOWN_MEMBER_ID"}], [], []),
        ([away(20, 45, 5)], [], [(20, 45)]),
        ([away(20, 45, 4)], [], []),  # it may have been served out of sight
        ([away(20, 20.1), away(30.1, 31)], [], [(20, 31)]),
        ([away(20, 20.1), away(30.2, 31)], [], []),
    ],
)
def test_it_lasts_as_long_as_nobody_is_served(
    rows: list[Row], good: list[Row], times: list[tuple[float, float]]
) -> None:
    incidents = found(error_histogram=rows, exchanges=good, group_events=IN_SHOP)
    assert sorted((seconds(one.started), seconds(one.ended)) for one in incidents) == times


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        (['{"transactionalId": null}'], True),
        (['{"transactionalId": null}', '{"transactionalId": "tx"}'], False),
        (['{"transactionalId": "tx"}'], False),
        (['{"transac'], False),
        ([], False),
    ],
)
def test_producers_without_transactions_need_ids_and_no_coordinator(requests: list[str], told: bool) -> None:
    rows = [error("COORDINATOR_LOAD_IN_PROGRESS", "InitProducerId", 20, 45, 50, client_id="p1")]
    asked = [
        served(30, "InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS", "p1") | {"number": number, "request": request}
        for number, request in enumerate(requests)
    ]
    one = only(error_histogram=rows, exchanges=asked)
    words = "p1 was given no producer id from " if told else "p1 found no coordinator from "
    assert (one.headline.startswith(words), "AllocateProducerIds" in one.advice) == (True, told)
    more = only(error_histogram=[*rows, away(21, 44, client_id="p1")], exchanges=asked)
    assert more.headline.startswith("p1 found no coordinator from ")


def test_without_a_group_it_is_about_clients() -> None:
    one = only(error_histogram=[away(20, 45, client_id="t1")])
    assert one.headline.startswith("t1 found no coordinator from ")
    assert names(one) == ["t1"]


def test_behind_the_end_of_a_broker_it_is_no_incident_of_its_own() -> None:
    gone = silence(B2, 18, 250, ended=3, ended_clients=3, refused=4)
    down, missing = found(error_histogram=[away(20, 45)], group_events=IN_SHOP, silences=[gone], cluster_events=BROKERS)
    assert (down.kind, missing.kind, missing.severity) == ("broker_down", "coordinator_missing", "warning")
    assert f", after broker 2 ({B2}) was gone: " in missing.headline
    assert missing.advice.startswith("Another broker takes over if __consumer_offsets ")


@pytest.mark.parametrize(
    ("place", "api", "kinds"),
    [
        (B2, "FindCoordinator", ["broker_down"]),
        (B1, "FindCoordinator", ["broker_down", "coordinator_missing"]),  # another one coordinated it
        (B2, "OffsetCommit", ["broker_down", "coordinator_missing"]),  # there is one, which cannot write
    ],
)
def test_with_its_own_coordinator_gone_it_is_part_of_that(place: str, api: str, kinds: list[str]) -> None:
    gone = silence(B2, 18, 250, ended=3, ended_clients=3, refused=4)
    known = group_event("coordinator_found", 5, client_id="c1", detail=f"{place}:9092 (node 2)")
    incidents = found(
        error_histogram=[away(20, 45) | {"api": api}],
        group_events=[*IN_SHOP, known],
        silences=[gone],
        cluster_events=BROKERS,
    )
    assert [one.kind for one in incidents] == kinds
    told = "; group shop had no coordinator for up to 25.0 s" in incidents[0].headline
    assert told == (len(kinds) == 1)


def test_behind_a_broker_that_stood_still_it_is_not_said_to_be_gone() -> None:
    still = silence(B2, 12, 18, waiting=3, waiting_connections=2, acknowledged=3, waiting_clients=["c1"])
    incidents = found(error_histogram=[away(20, 45)], group_events=IN_SHOP, silences=[still], cluster_events=BROKERS)
    assert f", after broker 2 ({B2}) stood still: " in next(
        one.headline for one in incidents if one.kind.startswith("co")
    )


@pytest.mark.parametrize(
    ("count", "last", "named", "kind"),
    [
        (10, 35, f"{B2}:9092", "unreachable_listener"),
        (9, 35, f"{B2}:9092", "coordinator_missing"),  # 18 times
        (10, 29.9, f"{B2}:9092", "coordinator_missing"),  # less than ten seconds
        (10, 35, None, "unreachable_listener"),  # who named it is not in the capture
        (10, 35, f"{B1}:9092", "coordinator_missing"),  # brokers name another one, which is not asked
    ],
)
def test_who_is_sent_to_another_broker_for_the_coordinator_is_not_without_one(
    count: int, last: float, named: str | None, kind: str
) -> None:
    """As where two brokers advertise one address, and the capture has their lists in part."""
    known = {"group_id": "shop", "broker": f"{B2}:9092"}
    rows = [
        away(20, 20, 1),
        error("NOT_COORDINATOR", "JoinGroup", 21, 29, count, **known),
        error("NOT_COORDINATOR", "JoinGroup", 29, last, count, **known),
        away(35, 35, 1),
    ]
    place = group_event("coordinator_found", 20, client_id="c1", detail=f"{named} (node 3)")
    events = [*IN_SHOP[:1], *([] if named is None else [place])]
    churn = finding("connection_churn", f"client c1 ({H1})", "t", 20, 35, weight=0.9)
    told = found(error_histogram=rows, group_events=events, findings=[churn], connections=[connection(1)])
    storms = [] if kind == "unreachable_listener" else ["connection_storm"]
    assert [one.kind for one in told] == [kind, *storms]
    if not storms:
        assert (told[0].certainty, [*told[0].findings]) == ("likely", [churn["id"]])
        assert f"who is sent to {B2}:9092 for the coordinator of group shop reaches another broker" in told[0].headline
        assert names(told[0]) == ["shop", B2, f"{B2}:9092", "c1", H1]


def test_clients_of_several_groups_at_once_are_one_incident() -> None:
    events = [*IN_SHOP, group_event("coordinator_unavailable", 20, "pay", client_id="c3")]
    one = only(error_histogram=[away(20, 45), away(30, 60, client_id="c3", broker=f"{B1}:9092")], group_events=events)
    assert one.headline.startswith("groups pay, shop had no coordinator from ")
    assert (seconds(one.started), seconds(one.ended)) == (20, 60)
    later = away(30, 61, client_id="c3", broker=f"{B1}:9092")
    both = found(error_histogram=[away(20, 45), later], group_events=events)
    assert [(one.about, seconds(one.ended)) for one in both] == [("group pay", 61), ("group shop", 45)]


def unwritten(api: str, first: float = 20, last: float = 45, **given: Any) -> Row:
    return away(first, last, group_id="shop", **given) | {"api": api}


NOT_STORED = [rebalance("assignment_not_stored", n, 20 + 5 * n) for n in range(3)]


@pytest.mark.parametrize(
    ("apis", "writes"),
    [(["OffsetCommit"], True), (["OffsetCommit", "SyncGroup"], True), (["OffsetCommit", "FindCoordinator"], False)],
)
def test_a_coordinator_that_is_there_and_cannot_write(apis: list[str], writes: bool) -> None:
    one = only(error_histogram=[unwritten(api) for api in apis], group_events=IN_SHOP)
    what = "the coordinator of group shop could write nothing" if writes else "group shop had no coordinator"
    assert one.headline.startswith(f"{what} from ")
    assert ("min.insync.replicas of that topic" in one.advice) == writes


@pytest.mark.parametrize(
    ("rebalances", "told"),
    [(NOT_STORED, True), (NOT_STORED[:2], False), ([one | {"group_id": "pay"} for one in NOT_STORED], False)],
)
def test_assignments_that_are_not_stored_again_and_again(rebalances: list[Row], told: bool) -> None:
    rows = [unwritten("SyncGroup", 20, 30), unwritten("SyncGroup", 30, 31, client_id="c2")]
    joined = [served(at / 10, "JoinGroup", client_id=name) for at in range(200, 320, 5) for name in ("c1", "c2")]
    events = [*IN_SHOP, group_event("coordinator_unavailable", 20, "pay", client_id="c3")]
    incidents = found(error_histogram=rows, group_events=events, rebalances=rebalances, exchanges=joined)
    assert [one.kind for one in incidents] == ["coordinator_missing"] * told
    if told:
        assert names(incidents[0]) == ["shop", "c1", "c2"]
        assert (seconds(incidents[0].started), seconds(incidents[0].ended)) == (20, 31)


def test_where_a_broker_is_refused_by_others_that_is_the_cause() -> None:
    refused = finding("authentication_failed", f"client - ({B2})", "8 authentication failures", 18, 50)
    asks = [connection(1), connection(2, broker=B2), connection(3, B2, B1, client_id=None)]
    tables = {"group_events": IN_SHOP, "findings": [refused], "connections": asks}
    incidents = found(error_histogram=[unwritten("OffsetCommit")], cluster_events=BROKERS, **tables)
    cause, one = incidents
    assert (cause.kind, cause.severity) == ("authentication_failed", "critical")
    assert (one.kind, one.severity) == ("coordinator_missing", "warning")
    assert f", while broker 2 ({B2}) was refused by others: " in one.headline
