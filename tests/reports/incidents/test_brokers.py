"""What is told of brokers that are gone, or stand still, and what came of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.brokers import brokers
from kafkascope.reports.incidents.network import connects
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    GONE,
    H1,
    H2,
    Row,
    at,
    connection,
    error,
    event,
    finding,
    found,
    group_event,
    health,
    listed,
    member,
    names,
    rebalance,
    seconds,
    signs,
    silence,
    tables_read,
    told,
)

# --- what came of it -------------------------------------------------------------------------------------------------


def test_what_came_of_it_is_told_and_explained() -> None:
    moves = [
        event("leader_changed", 16, before="2", after="1", count=4),
        event("leader_changed", 16, before="1", after="2", count=9),
        event("leader_lost", 16, before="2", count=2, partitions=["logs-0", "logs-1"]),
        event("leader_elected", 19, after="1", count=1, partitions=["logs-0"]),
        event("leader_elected", 21, after="1", count=1, partitions=["logs-1"]),
        event("coordinator_moved", 17, before="2", after="1", group_id="shop", detail="of a group"),
        event("coordinator_moved", 17, before="1", after="2", group_id="other", detail="of a group"),
        event("coordinator_moved", 17, before="2", after="1", group_id="tx", detail="of a transactional id"),
    ]
    triggers = ("coordinator_moved", "session_timeout", "member_joined")
    rebalances = [rebalance(trigger, n, 18, trigger_client_id="c1") for n, trigger in enumerate(triggers)]
    rebalances.append(rebalance("coordinator_moved", 9, 9.9))
    rebalances.append(rebalance("coordinator_moved", 9, 18, "other"))
    findings = [
        finding("unanswered", f"client c1 ({H1})", "t", 12, 12),
        finding("unanswered", f"client c2 ({H2})", "t", 12, 12),
        finding("coordinator_moved", "group shop", "t", 17, 17),
        finding("coordinator_moved", "group other", "t", 17, 17),
        finding("idle_polling", f"client c1 ({H1})", "t", 12, 12),
        finding("tiny_batches", f"client c1 ({H1})", "t", 12, 12),
        finding("error_loop", f"client c1 ({H1})", "t", 100, 110),
    ]
    lost, *_ = told(
        silence(B2, 10, 40, refused=5, waiting=2, waiting_clients=["c1"], **GONE),
        cluster_events=[*BROKERS, *moves],
        rebalances=rebalances,
        findings=findings,
        connections=[connection(1, H1, B2, "c1"), connection(2, H2, B1, "c2")],
        group_events=[group_event("coordinator_moved", 17, detail=f"from {B2}:9092 (node 2) to {B1}:9092 (node 1)")],
    )
    assert [(effect.what, effect.count) for effect in lost.effects] == [
        ("requests", 2),
        ("leaders", 4),
        ("leaderless", 2),
        ("coordinators", 1),
        ("rebalances", 2),
    ]
    assert lost.headline.endswith(
        "; 2 requests of c1 waited for up to 30.0 s; 4 leaders moved to other brokers, which clients learned within "
        "6.0 s; logs 0-1 had no leader for up to 5.0 s: nobody could write or read there; the coordinator of group "
        "shop moved; 2 rebalances"
    )
    assert lost.what + "".join(f"; {effect.text}" for effect in lost.effects) == lost.headline
    of_c1 = {f"{kind} client c1 ({H1})" for kind in ("unanswered", "idle_polling")}
    assert lost.findings == of_c1 | {"coordinator_moved group shop"}
    assert lost.rebalances == {("shop", 0), ("shop", 1)}
    assert lost.cost_ms == 30_000


def test_connects_that_fail_are_told_if_nobody_took_its_place_also_beside_a_rebalance() -> None:
    tables = {
        "rebalances": [rebalance("coordinator_moved", 5, 12, members=[member("c1")])],
        "group_events": [group_event("coordinator_found", 5, detail=f"{B2}:9092 (node 2)", client_id="c1")],
    }
    (one,) = told(silence(B2, 10, 40, refused=5, **GONE), **tables)
    assert [(effect.what, effect.count) for effect in one.effects] == [("rebalances", 1), ("connects", 5)]


LOST = event("leader_lost", 12, before="2", count=1, partitions=["logs-0"])
ALONE = event("isr_shrunk", 5, before="1,2", after="2", partitions=["logs-0"])
ANNOUNCED = event("shutdown_announced", 8, node_id=2)


@pytest.mark.parametrize(
    ("until", "events", "severity", "advice", "alone"),
    [
        (None, [LOST, ANNOUNCED], "critical", "Bring this broker back", 0),
        (None, [LOST, ANNOUNCED, ALONE], "critical", "Bring this broker back", 1),
        (None, [LOST, ALONE | {"after": "1"}], "critical", "Bring this broker back", 0),
        (None, [ANNOUNCED, ALONE], "warning", "If it was to come back, see in its log why", 0),
        (40, [LOST, ALONE], "critical", "Look at the broker's log", 0),
        (40, [LOST, ANNOUNCED, ALONE], "info", "Give what has a replica on this broker alone", 0),
        (40, [ANNOUNCED, ALONE], "info", "Nothing, if this was planned", 0),
    ],
)
def test_a_broker_that_alone_has_partitions_is_to_come_back(
    until: float | None, events: list[Row], severity: str, advice: str, alone: int
) -> None:
    gone = silence(B2, 10, until, refused=5, **GONE)
    (one,) = told(gone, cluster_events=[*BROKERS, *events])
    assert (one.severity, one.advice.startswith(advice)) == (severity, True)
    seen = [each.text for each in one.evidence if "alone was in sync" in each.text]
    assert seen == ["it alone was in sync of logs 0 before: replicas on others may not lead"] * alone
    if LOST in events:
        assert "logs 0 had no leader for up to 4 min 48 s, to the end of the capture" in one.headline


def test_partitions_without_a_name_are_counted() -> None:
    (one,) = told(
        silence(B2, 10, 40, refused=5, **GONE), cluster_events=[*BROKERS, LOST | {"partitions": [], "count": 3}]
    )
    assert "; 3 partitions had no leader for up to 0 ms" in one.headline


@pytest.mark.parametrize(("words", "is_of_it"), [((f"{B2}:9092", 5), True), ((f"{B2}0:9092", 5), False)])
def test_groups_are_a_brokers_by_the_last_word_before(words: tuple[str, float], is_of_it: bool) -> None:
    place, time = words
    events = [group_event("coordinator_found", time, detail=f"{place} (node 2)", client_id="c1")]
    tables = {
        "rebalances": [rebalance("coordinator_moved", 5, 12, members=[member("c1")])],
        "group_events": events,
    }
    (one,) = told(silence(B2, 10, 40, refused=5, **GONE), **tables)
    assert one.rebalances == ({("shop", 5)} if is_of_it else set())
    moved = group_event("coordinator_moved", 6, detail=f"from {place} (node 2) to {B1}:9092 (node 1)")
    (one,) = told(silence(B2, 10, 40, refused=5, **GONE), **tables | {"group_events": [*events, moved]})
    assert one.rebalances == set()


@pytest.mark.parametrize(
    ("before", "between", "left", "is_of_it"),
    [
        ([member("c1")], [], None, True),
        ([member("c1", H2)], [], None, False),  # another one of that name
        ([member("c2")], [], None, False),  # it was not in the group
        ([member("c1")], [rebalance("member_joined", 4, 11, members=[member("c1")])], None, False),  # it was back
        ([member("c1")], [rebalance("session_timeout", 4, 11)], None, True),  # all of them were out
        ([member("c1")], [], 13, False),
        ([member("c1")], [], 3, False),  # long before: it was started again
    ],
)
def test_who_comes_back_to_its_group_by_another_id_does_so_for_the_coordinator(
    before: list[Row], between: list[Row], left: float | None, is_of_it: bool
) -> None:
    unowned: dict[str, Any] = {
        "unowned_ms": 4_000.0,
        "unowned": [{"partition": "orders-0", "since": at(10), "ms": 4_000.0}],
    }
    anew = member("c1", member_id="c1-anew")
    back = rebalance(
        "member_joined", 5, 14, trigger_member="c1-anew", trigger_client_id="c1", members=[anew], **unowned
    )
    events = [group_event("coordinator_found", 5, detail=f"{B2}:9092 (node 2)", client_id="c1")]
    events += [group_event("left", left, client_id="c1", detail="closed")] if left else []
    rows = [rebalance("member_joined", 3, 1, members=before), *between, back]
    (one,) = told(silence(B2, 10, 40, refused=5, **GONE), rebalances=rows, group_events=events)
    assert (("shop", 5) in one.rebalances) == is_of_it
    assert ("nobody read orders 0 for up to 4.0 s" in one.headline) == is_of_it


# --- by name, and several at one address ------------------------------------------------------------------------------

NAMED = [
    *(event("broker_listed", 0, node_id=number, host=f"k{number}.example:9092") for number in (1, 2)),
    *(event("broker_found", 1, node_id=number, host=f"{host}:9092") for number, host in ((1, B1), (2, B2))),
]


def test_a_broker_that_is_listed_by_name_is_known_by_where_it_was_found() -> None:
    moved = event("leader_changed", 12, node_id=1, before="2", after="1", count=3)
    coordinator = group_event("coordinator_found", 2, detail="k2.example:9092 (node 2)")
    rebalanced = rebalance("member_rejoined", 2, 15)
    dead = silence(B2, 10, None, refused=5, **GONE)
    (one,) = told(dead, cluster_events=[*NAMED, moved], group_events=[coordinator], rebalances=[rebalanced])
    assert (one.kind, one.certainty, names(one)) == ("broker_down", "certain", ["2", B2])
    assert one.headline.startswith(f"broker 2 (k2.example, {B2}) went away without notice at ")
    assert [effect.what for effect in one.effects] == ["leaders", "rebalances"]


@pytest.mark.parametrize(
    ("back", "text"),
    [
        (event("broker_back", 30, node_id=2, host="k2.example:9092", told_by="b"), "it is listed again (told by b)"),
        (event("broker_registered", 30, node_id=2, told_by="b"), "a process of it has told the controller"),
        (event("broker_found", 30, node_id=2, host="10.0.0.9:9092", told_by="b"), "it answers at another address"),
    ],
)
def test_a_broker_with_a_name_may_come_back_at_another_address(back: Row, text: str) -> None:
    dead = silence(B2, 10, None, refused=5, **GONE)
    (one,) = told(dead, cluster_events=[*NAMED, back])
    assert (seconds(one.ended), one.severity) == (30, "critical")
    assert "and was back after 20.0 s" in one.headline
    assert ("at another address (10.0.0.9)" in one.headline) == (back["host"] == "10.0.0.9:9092")
    assert any(seen.text.startswith(text) for seen in one.evidence)
    other = back | {"node_id": 1}
    (one,) = told(dead, cluster_events=[*NAMED, other])
    assert one.ended is None


@pytest.mark.parametrize(
    ("at_", "who", "returns"),
    [
        (32, "broker 2", "its address answered after 20.0 s, as broker 7"),
        (20, "broker 2", "was back after 20.0 s"),  # then it was not its start that told it
        (5, "broker 7", "was back after 20.0 s"),
    ],
)
def test_a_broker_is_named_by_the_time_where_another_one_is_told_at_its_address_later(
    at_: float, who: str, returns: str
) -> None:
    """Where packets are cut, of which cluster they are is not known."""
    other = event("broker_listed", at_, node_id=7, host=f"{B2}:9092", told_by=f"{B2}:9092")
    (one,) = told(silence(B2, 10, 30, refused=5, **GONE), cluster_events=[*BROKERS, other])
    assert f"{who} ({B2}) went away without notice at {clock(at(10))} and {returns}" in one.headline


def test_a_broker_with_several_addresses_goes_away_once() -> None:
    second = event("broker_found", 1, node_id=2, host="10.8.0.2:9092")
    inside, outside = silence(B2, 10, None, refused=5, **GONE), silence("10.8.0.2", 11, None, refused=2, **GONE)
    (one,) = told(inside, outside | {"ended": 9}, cluster_events=[*NAMED, second])
    assert one.headline.startswith("broker 2 (k2.example, 10.8.0.2) went away without notice at ")
    assert len(told(inside, outside)) == 2  # nobody says that it is the same


def test_brokers_at_one_address_are_told_apart_by_their_ports() -> None:
    events = [listed(1, B1), event("broker_listed", 0, node_id=2, host=f"{B1}:9192"), listed(3, B2)]
    (one,) = told(silence(f"{B1}:9192", 10, 40, refused=5, **GONE), cluster_events=events)
    assert names(one) == ["2", f"{B1}:9192", B1]
    assert one.headline.startswith(f"broker 2 ({B1}:9192) went away without notice at ")
    (both,) = told(silence(B1, 10, 40, refused=5, **GONE), cluster_events=events)
    assert names(both) == ["1", "2", B1]
    assert both.headline.startswith(f"brokers 1, 2 ({B1}) went away at ")


# --- gone before the capture began ------------------------------------------------------------------------------------

REFUSED = [connection(n, broker=B2, client_id=None, opened=n, connect="refused", protocol=None) for n in (1, 2, 3)]
MOVED = event("leader_changed", 8, node_id=1, before="2", after="1", count=3)


def test_a_broker_that_was_gone_when_the_capture_began() -> None:
    (one,) = found(connections=REFUSED, cluster_events=[*BROKERS, MOVED])
    assert (one.kind, one.severity, one.certainty, names(one)) == ("broker_down", "critical", "certain", ["2", B2])
    assert (seconds(one.started), one.ended) == (1, None)
    assert f"broker 2 ({B2}) was gone when the capture began, and missed at " in one.headline
    assert f"and nobody tried it after {clock(at(3))}; 3 leaders moved to other brokers" in one.headline
    assert [(seen.packet, seen.rejected) for seen in one.evidence] == [(1, False), (1, False)]


def test_a_broker_with_a_name_that_was_gone_is_the_one_that_is_left_over() -> None:
    speaks = connection(9, opened=0, connect="established")
    (one,) = found(connections=[speaks, *REFUSED], cluster_events=[*NAMED[:3], MOVED])
    assert f"broker 2 (k2.example, {B2}) was gone when the capture began" in one.headline


def test_it_is_back_when_data_come_of_it_or_its_cluster_says_so() -> None:
    talk = health(9, "broker", [20.5], [20.5], broker=f"{B2}:9092")
    (one,) = found(connections=REFUSED, tcp_health=[talk], cluster_events=[*BROKERS, MOVED])
    assert seconds(one.ended) == 20.5
    later = connection(40, broker=B2, client_id=None, opened=40, connect="refused", protocol=None)
    (one,) = found(connections=[*REFUSED, later], tcp_health=[talk], cluster_events=[*BROKERS, MOVED])
    assert one.evidence[1].text.startswith("3 connects to it refused")
    back = event("broker_back", 30, node_id=2, host=f"{B2}:9092")
    (one,) = found(connections=REFUSED, cluster_events=[*BROKERS, MOVED, back])
    assert seconds(one.ended) == 30


def test_who_other_brokers_cannot_connect_to_either_is_gone_and_not_listed_at_a_wrong_address() -> None:
    of_broker = connection(4, B1, B2, None, opened=4, connect="refused", protocol=None)
    follower = connection(5, B1, "10.0.0.3", "broker-1-fetcher-0", opened=0)
    served = connection(6, H1, B1, opened=0)
    known = {"connections": [*REFUSED, of_broker, follower, served], "cluster_events": BROKERS}
    (one,) = found(**known)
    assert (one.kind, names(one), one.ended) == ("broker_down", ["2", B2], None)
    asks = connection(7, B2, B1, "2", opened=20)
    beats = health(7, "client", [20.5], [20.5], client=B2)
    (one,) = found(**known | {"connections": [*known["connections"], asks], "tcp_health": [beats]})
    assert seconds(one.ended) == 20.5
    runs_there = connection(7, B2, B1, "billing", opened=20)  # on its machine
    (one,) = found(**known | {"connections": [*known["connections"], runs_there], "tcp_health": [beats]})
    assert one.ended is None


@pytest.mark.parametrize(
    ("tables", "kinds"),
    [
        ({"cluster_events": BROKERS}, ["unreachable_listener"]),  # nobody missed it
        ({"cluster_events": [MOVED]}, []),  # nobody lists it
        ({"connections": REFUSED[:2]}, []),
        ({"tcp_health": [health(9, "broker", [2.5], [2.5], broker=f"{B2}:9092")]}, []),
        ({"tcp_health": [health(9, "broker", [2.5], [], broker=f"{B2}:9092")]}, ["broker_down"]),  # no data
    ],
)
def test_connects_that_fail_alone_do_not_tell(tables: dict[str, list[Row]], kinds: list[str]) -> None:
    known = {"connections": REFUSED, "cluster_events": [*BROKERS, MOVED]} | tables
    assert [one.kind for one in found(**known)] == kinds


# --- an address that another broker has -------------------------------------------------------------------------------

PLACE = f"{B2}:9092"
REFUSES = "it is not the broker that was asked for"


def taken(time: float, after: str | None = None, detail: str | None = "of cluster other", **given: Any) -> Row:
    known = {"before": "2", "after": after, "detail": detail, "host": PLACE, "client_id": "c1"} | given
    return event("address_taken", time, **known)


def at_the_place(number: int, opened: float, client_id: str = "c1", **given: Any) -> Row:
    return connection(number, broker=B2, client_id=client_id, opened=opened, **given)


def test_a_broker_of_another_cluster_answers_where_one_died() -> None:
    connections = [
        at_the_place(1, 5),
        at_the_place(2, 40),
        at_the_place(3, 41, "c2"),
        at_the_place(4, 42, broker_port=1),
    ]
    dead = silence(B2, 10, 40, refused=5, **GONE)
    later = silence(B2, 60, 90, refused=5, **GONE)
    events = [*BROKERS, taken(41, "7"), listed(7, B2, cluster_id="other") | {"at": at(41)}]
    one, next_one = sorted(
        told(dead, later, cluster_events=events, connections=connections), key=lambda each: each.started
    )
    assert (one.kind, one.severity, one.certainty, one.ended) == ("address_taken", "critical", "certain", None)
    assert names(one) == ["2", B2]
    assert "broker 2 (10.0.0.2) went away without notice at " in one.headline
    assert ": broker 7 of another cluster answers at 10.0.0.2:9092 from " in one.headline
    assert one.headline.endswith(" on; 5 connects to it failed in 30.0 s; c1, c2 connected to the other one 2 times")
    assert f"{PLACE} told c1: it is broker 7 of cluster other" in [seen.text for seen in one.evidence]
    assert "DNS" in one.advice
    assert (next_one.kind, names(next_one)) == ("broker_down", ["7", B2])


def test_clients_that_are_sent_back_know_only_that_another_broker_is_there() -> None:
    refused = [error("REBOOTSTRAP_REQUIRED", "ApiVersions", 41, 50, 3, broker=PLACE, client_id="c1")]
    elsewhere = error("REBOOTSTRAP_REQUIRED", "Metadata", 41, 50, 9, broker=PLACE)
    dead, later = silence(B2, 10, 40, refused=5, **GONE), silence(B2, 60, 90, refused=5, **GONE)
    events = [*BROKERS, taken(41, detail=REFUSES), taken(45, "7", packet=10)]
    tables = {"connections": [at_the_place(2, 41)], "error_histogram": [*refused, elsewhere]}
    one, next_one = sorted(
        told(dead, later, cluster_events=[*BROKERS, taken(41, detail=REFUSES)], **tables), key=lambda each: each.started
    )
    assert (next_one.kind, names(next_one)) == ("broker_down", [B2])
    assert (one.kind, one.ended) == ("address_taken", None)
    assert one.headline.endswith(
        "; c1 connected to the other one 1 time; c1 was sent back to bootstrap.servers 3 times"
    )
    assert ": another broker answers at " in one.headline
    (one,) = told(dead, cluster_events=events, **tables)
    assert ": broker 7 of another cluster answers at " in one.headline
    assert [seen.packet for seen in one.evidence if seen.text.startswith(PLACE)] == [9, 10]


def test_the_broker_from_before_may_have_its_address_again() -> None:
    back = event("broker_back", 50, node_id=2, host=PLACE)
    dead, later = silence(B2, 10, 40, refused=5, **GONE), silence(B2, 60, 90, refused=5, **GONE)
    events = [*BROKERS, taken(41, detail=REFUSES), back]
    one, next_one = sorted(told(dead, later, cluster_events=events), key=lambda each: each.started)
    assert (one.kind, seconds(one.ended), next_one.kind, names(next_one)) == (
        "address_taken",
        50,
        "broker_down",
        ["2", B2],
    )
    assert "was back after 40.0 s: another broker answers at 10.0.0.2:9092 from " in one.headline


def test_a_broker_of_the_same_cluster_in_the_place_of_another_is_no_wrong_address() -> None:
    events = [*BROKERS, taken(41, "3", None), listed(3, B2) | {"at": at(41)}]
    (one,) = told(silence(B2, 10, 40, refused=5, **GONE), cluster_events=events)
    assert (one.kind, one.ended, names(one)) == ("broker_down", None, ["2", B2])
    assert "has not come back: broker 3 answers at 10.0.0.2:9092 from " in one.headline
    assert told(cluster_events=events) == []


def test_an_address_is_taken_though_nobody_saw_its_broker_go() -> None:
    (one,) = told(cluster_events=[*BROKERS, taken(41, detail=REFUSES)], connections=[at_the_place(1, 41)])
    assert (one.kind, one.certainty, seconds(one.started), names(one)) == ("address_taken", "certain", 41, ["2", B2])
    assert one.headline.startswith(
        "broker 2 (10.0.0.2) is not whom clients find at its address: another broker answers at 10.0.0.2:9092 from "
    )
    long_before = silence(B2, 10, 40, refused=5, **GONE)
    kinds = [each.kind for each in told(long_before, cluster_events=[*BROKERS, taken(141, detail=REFUSES)])]
    assert sorted(kinds) == ["address_taken", "broker_down"]


def test_brokers_that_are_listed_by_name_are_known_by_address_alone() -> None:
    """Clusters tell names, packets have addresses; a client that asks by number tells which it was."""
    by_name = listed(2, "kafka-2")
    events = [by_name, taken(41, before=None), taken(42, detail=REFUSES)]
    (one,) = told(silence(B2, 10, 40, refused=5, **GONE), cluster_events=[by_name, taken(41, before=None)])
    assert (one.kind, names(one)) == ("address_taken", [B2])
    assert "broker 10.0.0.2 went away at " in one.headline
    (one,) = told(silence(B2, 10, 40, refused=5, **GONE), cluster_events=events)
    assert (one.kind, names(one)) == ("address_taken", ["2", B2])


def test_an_address_may_change_hands_again() -> None:
    events = [*BROKERS, taken(41, "7"), taken(90, "8", cluster_id="other", before="7", detail="of cluster third")]
    first, second = sorted(told(cluster_events=events), key=lambda each: each.started)
    assert [(names(each), seconds(each.started)) for each in (first, second)] == [(["2", B2], 41), (["7", B2], 90)]


def test_between_two_who_take_an_address_its_own_broker_is_there_only_while_it_is_back() -> None:
    back = event("broker_back", 20, host=f"{B2}:9092", node_id=2)
    known = signs(cluster_events=[*BROKERS, taken(10, None), back, taken(100, None)])
    there = {time: known.node(B2, at(time)) for time in (5, 15, 50, 150)}
    assert [node is not None and node.id for node in there.values()] == ["2", False, "2", False]


# --- many of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["connections", "tcp_health"])
def test_tables_are_not_read_more_often_for_more_outages(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """Of brokers that were gone before, that others have replaced, and that nobody can connect to."""
    read = tables_read(monkeypatch)
    often = []
    for many in (2, 30):
        before, other, nowhere = ([f"10.{kind}.0.{n + 1}" for n in range(many)] for kind in range(3))
        refused = [
            connection(3 * n + k, broker=host, client_id=None, opened=k + 1, connect="refused", protocol=None)
            for n, host in enumerate([*before, *nowhere])
            for k in range(3)
        ]
        events = [
            *(listed(n, host) for n, host in enumerate([*before, *other, *nowhere])),
            *(event("leader_changed", 8, before=str(n), after="x") for n in range(many)),
            *(taken(41, host=f"{host}:9092", before=None) for host in other),
        ]
        gone = [silence(host, 10, 40, refused=5, **GONE) for host in other]
        known = signs(cluster_events=events, silences=gone, connections=refused)
        read.clear()
        kinds = Counter(one.kind for one in (*brokers.incidents(known), *connects.listeners(known)))
        assert kinds == {"broker_down": many, "address_taken": many, "unreachable_listener": many}
        often.append(read.count(table))
    assert often[0] == often[1] > 0
