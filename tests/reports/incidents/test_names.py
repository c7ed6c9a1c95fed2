"""Names that clients cannot resolve, and clients that only seem to ask in vain."""

from __future__ import annotations

import pytest

from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    H1,
    H2,
    NAMED,
    SEEN,
    Row,
    connection,
    error,
    event,
    exchange,
    found,
    listed,
    names,
    only,
    seconds,
)


def asked(apis: dict[str, int], client_id: str = "c1", client: str = H1) -> list[Row]:
    return [
        {"api": api, "client_id": client_id, "client": client, "broker": f"{B1}:9092", "part": "total", "count": count}
        for api, count in apis.items()
    ]


VAIN = {"ApiVersions": 1, "Metadata": 9, "FindCoordinator": 4}


def test_a_name_that_does_not_resolve() -> None:
    producer = asked({"Metadata": 60, "InitProducerId": 1}, "p1", H2)
    connections = [connection(1, opened=5, closed=60), connection(2, H2, client_id="p1", opened=7)]
    events = [*NAMED[:1]]
    one = only(latency=[*asked(VAIN), *producer], connections=connections, cluster_events=events)
    assert (one.kind, one.severity, one.certainty, one.ended) == ("unreachable_listener", "critical", "likely", None)
    assert names(one) == ["1", "k1.example:9092", "k1.example", B1, "c1", "p1", H1, H2]
    assert one.headline.startswith(
        f"c1 ({H1}), p1 ({H2}) never connected to k1.example:9092, which brokers advertise, though asking for brokers "
        "73 times from "
    )
    assert one.headline.endswith(": the name does not seem to resolve there")
    assert [effect.text for effect in one.effects] == ["2 clients did no work"]


@pytest.mark.parametrize(
    ("host", "own"),
    [("localhost", True), ("LOCALHOST", True), ("127.0.0.1", True), ("127.1.2.3", True), ("local", False)],
)
def test_an_address_that_is_each_clients_own(host: str, own: bool) -> None:
    listing = event("broker_listed", 0, node_id=1, host=f"{host}:9092", told_by=f"{B1}:9092")
    one = only(latency=asked(VAIN), connections=[connection(1, opened=5, closed=60)], cluster_events=[listing])
    assert (one.kind, one.certainty) == ("unreachable_listener", "certain" if own else "likely")
    assert one.headline.endswith(": to each of them that is its own host" if own else " not seem to resolve there")
    assert ("advertised.listeners of the brokers" in one.advice) == own


REACHED = [event("broker_found", 1, node_id=n, host=f"{host}:9092") for n, host in ((1, B1), (2, B2))]


@pytest.mark.parametrize(
    ("rows", "events", "told"),
    [
        (asked(VAIN), NAMED, True),
        (asked(VAIN), [*NAMED, *REACHED], True),  # others reach the brokers, so they are in sight
        (asked(VAIN), [*NAMED, *SEEN], False),  # it may be with the one that is not in sight
        (asked(VAIN), BROKERS[:1], False),  # by address
        (asked(VAIN), BROKERS, True),  # one that nobody goes to
        (asked(VAIN), [*BROKERS, event("broker_unlisted", 9, node_id=2)], False),  # it is gone
        (asked(VAIN | {"JoinGroup": 1}), NAMED, False),
        (asked({"Metadata": 99, "ApiVersions": 9}), NAMED, False),  # a monitor
        (asked({"Metadata": 5, "FindCoordinator": 4}), NAMED, False),
        (asked({"Metadata": 9, "FindCoordinator": 2}), NAMED, False),
    ],
)
def test_who_asks_in_vain(rows: list[Row], events: list[Row], told: bool) -> None:
    tables = {"latency": rows, "connections": [connection(1, opened=5, closed=60)], "cluster_events": events}
    assert [one.kind for one in found(**tables)] == ["unreachable_listener"] * told


@pytest.mark.parametrize(("closed", "told"), [(83, True), (84, False)])
def test_who_has_nothing_to_do_asks_seldom(closed: int, told: bool) -> None:
    tables = {"latency": asked(VAIN), "cluster_events": NAMED, "connections": [connection(1, opened=5, closed=closed)]}
    assert [one.kind for one in found(**tables)] == ["unreachable_listener"] * told


def test_who_asked_before_the_capture_began_asks_from_its_begin_on() -> None:
    tables = {"latency": asked(VAIN), "cluster_events": NAMED}
    one = only(**tables, connections=[connection(1, closed=60)])
    assert (one.kind, seconds(one.started)) == ("unreachable_listener", 0)
    assert found(**tables, connections=[connection(1, closed=79)]) == []


def test_who_is_answered_with_errors_or_fails_to_connect_has_another_trouble() -> None:
    tables = {"latency": asked(VAIN), "cluster_events": NAMED, "connections": [connection(1, opened=5, closed=60)]}
    errors = [error("COORDINATOR_NOT_AVAILABLE", "FindCoordinator", 6, 9, count=2)]
    assert found(**tables, error_histogram=errors) == []
    failing = [connection(8, opened=8, broker="10.0.0.9", connect="refused", protocol=None, client_id=None)]
    assert found(**tables | {"connections": [connection(1, opened=5), *failing]}) == []


def test_errors_of_another_host_with_that_client_id_do_not_matter() -> None:
    busy = asked({"Produce": 50, "Metadata": 2}, "c1", H2)
    refused = error("NOT_LEADER_OR_FOLLOWER", "Produce", 10, 11)
    connections = [connection(1, opened=5, closed=60), connection(2, H2, opened=5)]
    tables = {"latency": [*asked(VAIN), *busy], "cluster_events": NAMED, "connections": connections}
    assert only(**tables, error_histogram=[refused]).headline.startswith(f"c1 ({H1}) never connected to ")


def test_an_address_that_nobody_goes_to_is_guessed_unless_others_are_there() -> None:
    mine = [connection(1, opened=5, closed=60)]
    one = only(latency=asked(VAIN), connections=mine, cluster_events=BROKERS)
    assert (one.kind, one.certainty, names(one)[0]) == ("unreachable_listener", "guessed", "2")
    assert f"c1 ({H1}) is not seen to connect to {B2}:9092, which brokers advertise, though" in one.headline
    assert "advertised.listeners" in one.advice
    others = connection(2, H2, broker=B2, client_id="c2", opened=5)
    assert found(latency=asked(VAIN), connections=[*mine, others], cluster_events=BROKERS) == []


EXT = f"{B1}:9095"  # a second listener of the same broker
AWAY = event("broker_listed", 3, node_id=1, host="10.0.0.99:9095", told_by=EXT)


@pytest.mark.parametrize(
    ("events", "place", "other", "told"),
    [
        ([*BROKERS[:1], AWAY], EXT, B2, True),
        ([*BROKERS[:1], AWAY], EXT, "10.0.0.99", False),  # somebody goes there
        ([*BROKERS[:1], AWAY], f"{B1}:9092", B2, False),  # asked at the listener that tells of itself
        ([*BROKERS[:1], AWAY, listed(2, B2) | {"told_by": EXT}], EXT, B2, False),  # it tells of one in sight as well
        ([*BROKERS[:1], AWAY | {"host": EXT}], EXT, B2, False),  # it tells of itself
        ([BROKERS[0] | {"told_by": None}, AWAY], EXT, B2, True),
    ],
)
def test_a_listener_that_tells_addresses_to_which_nobody_goes(
    events: list[Row], place: str, other: str, told: bool
) -> None:
    rows = [one | {"broker": place} for one in asked(VAIN)]
    connections = [connection(1, opened=5, closed=60), connection(2, H2, broker=other, client_id="c2", opened=5)]
    incidents = found(latency=rows, connections=connections, cluster_events=events)
    assert [(one.kind, one.certainty) for one in incidents] == [("unreachable_listener", "guessed")] * told
    assert all(f"c1 ({H1}) is not seen to connect to 10.0.0.99:9095" in one.headline for one in incidents)


@pytest.mark.parametrize(
    ("topics", "count", "told"),
    [('[{"name": "orders"}]', 10, True), ('["orders"]', 10, True), ('["orders"]', 9, False), ("[]", 10, False)],
)
def test_who_asks_for_certain_topics_wants_to_read_or_write_them(topics: str, count: int, told: bool) -> None:
    """As kafkajs, and producers that are not idempotent, which ask for nothing else before they know the leader."""
    request = f'{{"topics": {topics}, "allowAutoTopicCreation": true}}'
    exchanges = [exchange(n, "Metadata", 5 + n, 5.1 + n, request=request) for n in range(count)]
    exchanges.append(exchange(99, "Metadata", 50, 50.1, request='{"topics": null}'))
    tables = {"latency": asked({"ApiVersions": 1, "Metadata": 12}), "exchanges": exchanges}
    incidents = found(**tables, connections=[connection(1, opened=5, closed=60)], cluster_events=NAMED)
    assert [one.kind for one in incidents] == ["unreachable_listener"] * told
