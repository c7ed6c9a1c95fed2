"""Several troubles in one capture: none hides another, nor is told as part of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    CLIENT,
    H1,
    H2,
    IN_GROUP,
    Row,
    connection,
    error,
    event,
    exchange,
    finding,
    found,
    group_event,
    health,
    listed,
    member,
    names,
    rebalance,
    seconds,
    silence,
)

B3 = "10.0.0.3"
THREE = [*BROKERS, listed(3, B3)]
TWO_CLUSTERS = [listed(1, B1, cluster_id="a"), listed(2, B2, cluster_id="a"), listed(3, B3, cluster_id="b")]
GONE: Row = {"ended": 3, "reset": 2, "ended_clients": 2, "refused": 5, "failed_packet": 77}
HELD: Row = {"waiting": 4, "waiting_connections": 2, "waiting_clients": ["c1", "c2"], "asked": 3, "acknowledged": 2}
GONE_FOR_GOOD = silence(B3, 10, None, first_failed=11, **GONE)
STALL = silence(B1, 250, 262, kept=2, **HELD)


def told(**tables: Any) -> list[tuple[str, float | None, float | None]]:
    """Kind, begin and end of each incident."""
    return [(one.kind, seconds(one.started), seconds(one.ended)) for one in found(**tables)]


# --- a broker that has gone away for good ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "known",
    [
        THREE,
        [*THREE, event("leader_changed", 15, before="3", after="1", count=2)],
        [*THREE, event("isr_shrunk", 20, before="1,2,3", after="1,2", partitions=["orders-0"])],
        TWO_CLUSTERS,
    ],
)
def test_another_one_stands_still_long_after_one_went_away(known: list[Row]) -> None:
    both = told(silences=[GONE_FOR_GOOD, STALL], cluster_events=known)
    assert both == [("broker_down", 10, None), ("broker_stalled", 250, 262)]


@pytest.mark.parametrize(("known", "kinds"), [(THREE, 1), (TWO_CLUSTERS, 2)])
def test_who_waits_for_replicas_is_of_the_same_cluster(known: list[Row], kinds: int) -> None:
    gone = silence(B3, 240, 255, first_failed=241, **GONE)
    assert len(told(silences=[gone, STALL], cluster_events=known)) == kinds


@pytest.mark.parametrize(
    ("last_word", "later", "kinds"),
    [(17, [], ["broker_down", "client_died"]), (17, [20], ["broker_down"]), (18, [20], ["broker_down", "client_died"])],
)
def test_a_member_that_dies_when_its_coordinator_has_long_moved(
    last_word: float, later: list[float], kinds: list[str]
) -> None:
    """Who spoke soon after that, and tries on, may have died of it."""
    ended = connection(1, opened=1, closed=last_word + 0.5, how_closed="fin", exchanges=9)
    tries = [connection(2, opened=time, closed=time + 1, how_closed="rst") for time in later]
    moved = f"from {B3}:9092 (node 3) to {B1}:9092 (node 1)"
    events = [
        group_event("coordinator_found", 2, detail=f"{B3}:9092 (node 3)", client_id="c1", client=H1),
        group_event("coordinator_moved", 12, detail=moved, client_id="c1", client=H1),
        group_event("silence_begun", last_word, member_id="c1-id", client_id="c1", client=H1),
    ]
    lost = rebalance("session_timeout", 5, 100, trigger_member="c1-id", trigger_client_id="c1")
    all_of = found(
        silences=[GONE_FOR_GOOD],
        cluster_events=THREE,
        group_events=events,
        rebalances=[rebalance("member_joined", 4, 3, members=[member("c1")]), lost],
        connections=[ended, *tries],
        tcp_health=[health(1, "client", [last_word], [last_word])],
    )
    assert [one.kind for one in all_of] == kinds
    assert [one.rebalances for one in all_of][1:] == [frozenset({("shop", 5)})] * (len(kinds) - 1)


@pytest.mark.parametrize(
    ("silences", "known", "words"),
    [
        ([GONE_FOR_GOOD], THREE, "after broker 3 "),
        ([GONE_FOR_GOOD, silence(B2, 198, 230, first_failed=199, **GONE)], THREE, "after broker 2 "),
        ([GONE_FOR_GOOD], TWO_CLUSTERS, None),
    ],
)
def test_too_few_replicas_after_the_broker_that_went_last(
    silences: list[Row], known: list[Row], words: str | None
) -> None:
    refused = error("NOT_ENOUGH_REPLICAS", "Produce", 205, 225, 9, topic="orders", client_id="p1", broker=f"{B1}:9092")
    (one,) = [
        one
        for one in found(error_histogram=[refused], cluster_events=known, silences=silences)
        if one.kind == "too_few_replicas"
    ]
    assert (words or "after broker ") in one.headline or words is None
    assert one.severity == ("critical" if words is None else "warning")
    assert words is not None or "after broker " not in one.headline


def test_too_few_replicas_twice_are_two_troubles() -> None:
    refused = [
        error("NOT_ENOUGH_REPLICAS", "Produce", first, last, 900, topic="orders", client_id="p1")
        for first, last in ((22, 25), (250, 280))
    ]
    gone = silence(B2, 20, 40, first_failed=21, **GONE)
    all_of = found(error_histogram=refused, cluster_events=THREE, silences=[gone])
    assert [(one.kind, one.severity, seconds(one.started)) for one in all_of] == [
        ("too_few_replicas", "critical", 250),
        ("broker_down", "critical", 20),
        ("too_few_replicas", "warning", 22),
    ]


def test_writes_that_wait_for_replicas_though_others_were_refused_before() -> None:
    wrote = exchange(1, "Produce", 205, 225, client_id="p1", request='{"acks": -1}')
    all_of = found(
        exchanges=[wrote],
        connections=[connection(1, client_id="p1")],
        cluster_events=THREE,
        silences=[silence(B2, 200, 230, first_failed=201, **GONE)],
        error_histogram=[error("NOT_ENOUGH_REPLICAS", "Produce", 10, 11, topic="audit", client_id="p9")],
    )
    assert "1 write with acks=all of p1 waited " in all_of[-1].headline
    assert ": its leader was there, but replicas on " in all_of[-1].headline


# --- a broker that goes away again -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "tables"),
    [
        (silence(B2, 100, 110, first_failed=101, **GONE), {}),
        (silence(B2, 100, 112, kept=2, **HELD), {}),
        (
            silence(B2, 100, 110, first_failed=101, **GONE),
            {
                "cluster_events": BROKERS,
                "error_histogram": [
                    error("NOT_LEADER_OR_FOLLOWER", "Produce", 111, 112, broker=f"{B2}:9092", client_id="p1")
                ],
            },
        ),
        (
            None,
            {
                "exchanges": [exchange(1, "ElectLeaders", 103.5, 104.1, client_id="adm", request="{}")],
                "connections": [connection(1, client_id="adm")],
            },
        ),
    ],
)
def test_leaders_that_moved_for_another_reason_do_not_announce_a_shutdown(
    before: Row | None, tables: dict[str, list[Row]]
) -> None:
    moved = [*BROKERS, event("leader_changed", 104, before="2", after="1", count=3)]
    killed = silence(B2, 125, 140, first_failed=126, **GONE)
    all_of = found(**{"cluster_events": moved} | tables, silences=[*([before] if before else []), killed])
    (last,) = [one for one in all_of if seconds(one.started) == 125]
    assert (last.kind, last.severity) == ("broker_down", "critical")
    assert " moved to other brokers" not in last.headline


@pytest.mark.parametrize(("moved", "by_stall"), [(112, True), (117, True), (122, False)])
def test_leaders_that_move_as_a_broker_is_shut_down_did_not_as_it_stood_still_before(
    moved: float, by_stall: bool
) -> None:
    stood, left = silence(B2, 110, 112, **HELD), silence(B2, 125, 140, **GONE)
    moves = [*BROKERS, event("leader_changed", moved, before="2", after="1", count=3)]
    asked = event("shutdown_announced", 121, node_id=2)
    incidents = found(cluster_events=[*moves, asked], silences=[stood, left])
    told = {str(one.kind): " leaders moved to other brokers" in one.headline for one in incidents}
    assert told["broker_stalled"] == by_stall
    assert told["broker_restarted"] or by_stall
    (alone,) = found(cluster_events=moves, silences=[stood])  # whom it did not leave, its leaders left for that
    assert " leaders moved to other brokers" in alone.headline


@pytest.mark.parametrize("again", [36, 80])
def test_a_broker_with_a_name_that_is_killed_at_one_address_and_then_at_another(again: float) -> None:
    b9 = "10.0.0.9"
    named = [event("broker_listed", 0, node_id=n, host=f"k{n}.example:9092", told_by=f"{B1}:9092") for n in (1, 2)]
    seen = [(1, 2, B2), (1, 1, B1), (30, 2, b9)]
    places = [event("broker_found", time, node_id=n, host=f"{host}:9092") for time, n, host in seen]
    silences = [silence(B2, 10, None, first_failed=11, **GONE), silence(b9, again, None, first_failed=81, **GONE)]
    all_of = found(cluster_events=[*named, *places], silences=silences)
    assert {(one.kind, seconds(one.started), seconds(one.ended)) for one in all_of} == {
        ("broker_down", 10, 30),
        ("broker_down", again, None),
    }
    assert any(one.headline.endswith("; 5 connects to it failed in 20.0 s") for one in all_of)


# --- clients ---------------------------------------------------------------------------------------------------------


def test_members_of_one_host_of_which_one_comes_back() -> None:
    silent, lost, closed = [], [], []
    for number, name in enumerate(("c1", "c2"), 1):
        silent.append(group_event("silence_begun", 30, member_id=f"{name}-id", client_id=name, client=H1))
        given: Row = {"trigger_member": f"{name}-id", "trigger_client_id": name}
        lost.append(rebalance("session_timeout", 4 + number, 74 + number, **given))
        closed.append(connection(number, client_id=name, opened=1, closed=30.5, how_closed="fin", exchanges=5))
    back = rebalance("member_joined", 7, 90, trigger_client_id="c2", trigger_member="new")
    all_of = found(
        rebalances=[*lost, back], group_events=silent, connections=closed, tcp_health=[health(1, "client", [30], [30])]
    )
    assert "were taken out of group shop after 45.0 s of silence; c2 was back at " in all_of[0].headline


def test_what_clients_have_alike_they_have_at_one_time() -> None:
    def refused(name: str, host: str, since: float) -> Row:
        subject = f"client {name} ({host})"
        return finding("authentication_failed", subject, "5 authentication failures", since, since + 5)

    broker = refused("broker-3-fetcher-0", B3, 100)
    at_once = [refused(f"x{n}", f"10.0.1.{n}", 20 + n) for n in range(4)]
    apart = [refused(f"x{n}", f"10.0.1.{n}", 20 + 66 * n) for n in range(4)]
    tables: Any = {"connections": [connection(1, B3, B1, "broker-3-fetcher-0")], "cluster_events": THREE}
    assert [len(names(one)) for one in found(findings=[broker, *at_once], **tables)] == [8, 3]
    assert len(found(findings=[broker, *apart], **tables)) == 5


def test_what_an_administrator_does_later_is_told_for_itself() -> None:
    asked = [
        exchange(1, "CreateTopics", 5, 5.1, request='{"topics": [{"name": "payments"}]}', client_id="adm"),
        exchange(2, "DeleteTopics", 280, 280.1, request='{"topicNames": ["payments"]}', client_id="adm"),
    ]
    tables: Any = {"connections": [connection(1, client_id="adm")], "cluster_events": BROKERS}
    assert told(exchanges=asked, **tables) == [("admin_action", 5, 5.1), ("admin_action", 280, 280.1)]
    often = [exchange(n, "CreateTopics", 45.0 * n, 45.0 * n + 0.1, request="{}", client_id="adm") for n in range(7)]
    rare = [one | {"requested": one["requested"] + n * 30_000_000_000} for n, one in enumerate(often)]
    assert len(told(exchanges=often, **tables)) == 1  # within a minute of each other
    assert len(told(exchanges=rare, **tables)) == 1  # so often that it is no person


def test_a_topic_that_clients_ask_for_as_it_is_deleted_is_told_with_that() -> None:
    deleted = exchange(1, "DeleteTopics", 10, 10.1, request='{"topicNames": ["orders"]}', client_id="adm")
    rows = [error("UNKNOWN_TOPIC_OR_PARTITION", "Metadata", 11 + n, 12 + n, 9, topic="orders") for n in range(20)]
    tables: Any = {"error_histogram": rows, "connections": [CLIENT, connection(2, H2, client_id="adm")]}
    assert [one.kind for one in found(**tables, rebalances=[IN_GROUP])] == ["unknown_topic"]
    with_it = found(**tables, rebalances=[IN_GROUP], exchanges=[deleted | {"connection": 2}])
    assert [one.kind for one in with_it] == ["admin_action"]
