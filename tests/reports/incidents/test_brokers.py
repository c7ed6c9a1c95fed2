"""Brokers that are gone, were shut down, or stand still."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.incidents.incident import Incident
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
    event,
    finding,
    found,
    group_event,
    health,
    listed,
    member,
    names,
    only,
    rebalance,
    seconds,
    signs,
    silence,
)

GONE = {"ended": 3, "reset": 2, "ended_clients": 2}
HELD = {
    "waiting": 4,
    "waiting_connections": 2,
    "waiting_clients": ["c1", "c2"],
    "asked": 3,
    "acknowledged": 2,
    "kept": 2,
}
SHUTDOWN = threshold("shutdown_takes")


def told(*silences: Row, **tables: Any) -> list[Incident]:
    """Incidents of a cluster of two brokers."""
    return found(silences=list(silences), **{"cluster_events": BROKERS, **tables})


# --- gone ------------------------------------------------------------------------------------------------------------


def test_a_broker_whose_connections_end_and_that_refuses_connects_is_down() -> None:
    (one,) = told(silence(B2, 10, 40, refused=5, first_failed=11, failed_packet=77, **GONE))
    assert (one.kind, one.severity, one.certainty) == ("broker_down", "critical", "certain")
    assert names(one) == ["2", B2]
    assert (seconds(one.started), seconds(one.ended)) == (10, 40)
    assert one.headline.startswith("broker 2 (10.0.0.2) went away without notice at ")
    assert one.headline.endswith("; 5 connects to it failed in 30.0 s")
    assert "was back after 30.0 s" in one.headline
    assert [(seen.packet, seconds(seen.at), seen.rejected) for seen in one.evidence] == [
        (None, 10, False),
        (77, 11, False),
        (None, None, True),
    ]


def test_one_that_does_not_come_back_has_no_end() -> None:
    (one,) = told(silence(B2, 10, None, unanswered=5, **GONE))
    assert (one.kind, one.certainty, one.ended) == ("broker_down", "likely", None)
    assert "has not come back" in one.headline
    assert "its host is off, or cut off" in one.evidence[1].text


def test_refused_connects_alone_show_that_it_is_gone_only_if_it_stays_away() -> None:
    assert [one.kind for one in told(silence(B2, 10, None, refused=1))] == ["broker_down"]
    assert told(silence(B2, 10, 40, refused=1)) == []


def test_connections_that_clients_close_are_no_outage() -> None:
    assert told(silence(B2, 10, None, **GONE)) == []
    assert told(silence(B2, 10, 40, **GONE)) == []
    assert told(silence(B2, 10, None, refused=3, **GONE | {"kept": 1, "ended": 0}, waiting=0)) != []


@pytest.mark.parametrize(
    "word",
    [
        event("broker_unlisted", 15, node_id=2),
        event("broker_fenced", 15, node_id=2),
        event("leader_changed", 15, before="2", after="1"),
        event("leader_lost", 15, before="2"),
        event("isr_shrunk", 15, before="1,2,3", after="1,3"),
    ],
    ids=lambda row: row["event"],
)
def test_a_broker_without_which_the_cluster_goes_on_is_gone(word: Row) -> None:
    gone = silence(B2, 10, 40, **GONE)
    assert [one.kind for one in told(gone, cluster_events=[*BROKERS, word])] == ["broker_down"]
    # One that is never heard again may just not be needed any more, unless the cluster took it off its list.
    for_good = told(silence(B2, 10, None, **GONE), cluster_events=[*BROKERS, word])
    assert [one.kind for one in for_good] == ["broker_down"] * (word["event"] in ("broker_unlisted", "broker_fenced"))
    others = word | {"node_id": 1, "before": "1", "after": "2"}
    assert told(gone, cluster_events=[*BROKERS, others]) == []
    elsewhere = [listed(1, B1, cluster_id="a"), listed(2, B2, cluster_id="a"), word | {"cluster_id": "b"}]
    assert told(gone, cluster_events=elsewhere) == []
    # Where the connections of one client alone have ended, it may be the client that is gone.
    assert told(gone | {"ended_clients": 1}, cluster_events=[*BROKERS, word]) == []


@pytest.mark.parametrize("before", [0.5, SHUTDOWN, SHUTDOWN + 0.1])
def test_one_that_gave_up_its_leaders_before_was_shut_down(before: float) -> None:
    moved = event("leader_changed", 50 - before, before="2", after="1", count=4)
    (one,) = told(silence(B2, 50, 60, refused=2, **GONE), cluster_events=[*BROKERS, moved])
    is_orderly = before <= SHUTDOWN
    assert one.kind == ("broker_restarted" if is_orderly else "broker_down")
    assert one.severity == ("info" if is_orderly else "critical")
    assert ("4 leaders moved to other brokers" in one.headline) == is_orderly


def test_one_that_asked_to_shut_down_is_certain_and_one_that_does_not_come_back_is_a_warning() -> None:
    asked = event("shutdown_announced", 48, node_id=2)
    moved = event("leader_changed", 48, before="2", after="1")
    for word, certainty in ((asked, "certain"), (moved, "likely")):
        (one,) = told(silence(B2, 50, None, refused=2, **GONE), cluster_events=[*BROKERS, word])
        assert (one.kind, one.severity, one.certainty) == ("broker_restarted", "warning", certainty)
    (one,) = told(silence(B2, 50, 60, refused=2, **GONE), cluster_events=[*BROKERS, asked | {"node_id": 1}])
    assert one.kind == "broker_down"


@pytest.mark.parametrize(
    ("name", "last", "orderly"),
    [
        ("NOT_LEADER_OR_FOLLOWER", 50 - SHUTDOWN, True),
        ("NOT_COORDINATOR", 51, True),
        ("NOT_COORDINATOR", 50 - SHUTDOWN - 0.1, False),
        ("NOT_COORDINATOR", 51.1, False),
        ("LEADER_NOT_AVAILABLE", 49, False),  # of a topic that is being made
    ],
)
def test_answers_that_others_lead_now_announce_a_shutdown(name: str, last: float, orderly: bool) -> None:
    gone = silence(B2, 50, 60, refused=2, **GONE)
    (one,) = told(gone, error_histogram=[error(name, "Fetch", 10, last, broker=f"{B2}:9092")])
    assert one.kind == ("broker_restarted" if orderly else "broker_down")
    (one,) = told(gone, error_histogram=[error(name, "Fetch", 10, last, broker=f"{B1}:9092")])
    assert one.kind == "broker_down"


def test_without_the_clusters_words_nobody_could_have_announced_it() -> None:
    one = only(silences=[silence(B2, 10, 40, refused=5, **GONE)])
    assert (one.kind, one.certainty, names(one)) == ("broker_down", "likely", [B2])


# --- standing still --------------------------------------------------------------------------------------------------


def test_a_broker_that_answers_nobody_though_its_host_acknowledges_stands_still() -> None:
    (one,) = told(silence(B1, 10, 15, **HELD))
    assert (one.kind, one.severity, one.certainty) == ("broker_stalled", "warning", "certain")
    assert "though its host acknowledged what it was sent; 4 requests of c1, c2 waited for up to 5.0 s" in one.headline
    assert [(effect.count, effect.duration_ms) for effect in one.effects] == [(4, 5000)]
    assert [seen.rejected for seen in one.evidence] == [False, False, True]


def test_what_was_lost_on_the_way_or_may_have_waited_for_other_brokers_is_no_stall() -> None:
    assert told(silence(B1, 10, 15, **HELD, timeouts=1)) == []
    assert told(silence(B1, 10, 15, **HELD, waiting_replicas=4)) == []
    assert len(told(silence(B1, 10, 15, **HELD, waiting_replicas=3))) == 1
    assert len(told(silence(B1, 10, 15, **HELD, waiting_replicas=4), cluster_events=[listed(1, B1)])) == 1


def test_of_one_connection_it_is_likely_and_without_acknowledgements_guessed() -> None:
    (one,) = told(silence(B1, 10, 15, **HELD | {"waiting_connections": 1}))
    assert one.certainty == "likely"
    (one,) = told(silence(B1, 10, 11.5, **HELD | {"acknowledged": 0}))
    assert (one.kind, one.certainty) == ("broker_stalled", "guessed")
    assert "it stood still with its host, or was cut off" in one.headline
    (one,) = told(silence(B1, 10, 15, **HELD | {"acknowledged": 0, "asked": 0}))
    assert (one.certainty, "acknowledged" in one.headline) == ("likely", False)


@pytest.mark.parametrize(("lasts", "kind"), [(2, "broker_down"), (1.9, "broker_stalled")])
def test_a_host_that_acknowledges_nothing_for_long_cannot_be_reached(lasts: float, kind: str) -> None:
    unheard = HELD | {"acknowledged": 0}
    (one,) = told(silence(B1, 10, 10 + lasts, **unheard))
    assert one.kind == kind
    assert ("could not be reached from" in one.headline) == (kind == "broker_down")
    assert told(silence(B1, 10, 10 + lasts, **unheard | {"waiting_connections": 1})) == []


def heard(*times: float) -> list[Row]:
    """Packets of somebody, in spans of ten seconds."""
    spans = sorted({int(time // 10) * 10 for time in times})
    return [health(9, "client", [one for one in times if int(one // 10) * 10 == span], []) for span in spans]


@pytest.mark.parametrize(("again", "certainty"), [(27.0, "certain"), (27.1, "guessed")])
def test_where_nobody_else_says_anything_either_it_may_have_been_the_machine(again: float, certainty: str) -> None:
    (one,) = told(silence(B1, 15, 30, **HELD), tcp_health=heard(10, 20.0, again, 30))
    assert one.certainty == certainty
    assert any("nobody else sent anything for 7.0 s" in seen.text for seen in one.evidence) == (certainty == "guessed")


@pytest.mark.parametrize(("again", "is_told"), [(21.9, True), (22.0, False)])
def test_what_is_not_acknowledged_is_sent_again(again: float, is_told: bool) -> None:
    unheard = silence(B1, 10, 30, **HELD | {"acknowledged": 0})
    assert bool(told(unheard, tcp_health=heard(9.9, again, 30))) == is_told


def test_nobody_waits_for_one_that_is_silent() -> None:
    assert told(silence(B1, 10, 15, **HELD | {"waiting": 0})) == []


@pytest.mark.parametrize(
    ("lasts", "connections", "is_told"), [(2, 1, True), (1.99, 1, False), (1, 2, True), (0.99, 2, False)]
)
def test_what_fewer_notice_has_to_last_longer(lasts: float, connections: int, is_told: bool) -> None:
    one = silence(B1, 10, 10 + lasts, **HELD | {"waiting_connections": connections})
    assert bool(told(one)) == is_told


@pytest.mark.parametrize(("times", "apart"), [(3, 30), (3, 60.1), (2, 30)])
def test_short_ones_that_come_again_and_again_are_one_trouble(times: int, apart: float) -> None:
    short = [silence(B1, n * apart, n * apart + 0.4, **HELD | {"waiting_connections": 1}) for n in range(1, times + 1)]
    is_told = times >= threshold("stalls") and apart <= threshold("one_trouble")
    incidents = told(*short)
    assert len(incidents) == is_told
    assert not is_told or "3 times, the longest for 400 ms" in incidents[0].headline


@pytest.mark.parametrize("apart", [threshold("one_trouble"), threshold("one_trouble") + 0.1])
def test_stalls_within_a_minute_are_one_incident(apart: float) -> None:
    incidents = told(silence(B1, 10, 12, **HELD), silence(B1, 12 + apart, 15 + apart, **HELD))
    assert len(incidents) == (1 if apart <= 60 else 2)


@pytest.mark.parametrize(
    ("since", "until", "follows"),
    [
        (10, 40, True),
        (21, 40, True),
        (21.1, 40, False),
        (5, 6, True),
        (4.9, 6, False),
        (1, 15, True),
        (1, 14.9, False),
    ],
)
def test_a_broker_that_waits_for_one_that_is_gone_is_not_told_of(since: float, until: float, follows: bool) -> None:
    gone = silence(B2, since, until, refused=1, **GONE)
    incidents = told(gone, silence(B1, 20, 22, **HELD))
    assert [one.kind for one in incidents] == ["broker_down", *["broker_stalled"] * (not follows)]


def test_of_two_that_stand_still_the_one_that_does_for_longer_is_told() -> None:
    incidents = told(silence(B2, 20, 25, **HELD), silence(B1, 20.5, 24, **HELD))
    assert [names(one)[0] for one in incidents] == ["2"]
    assert len(told(silence(B2, 20, 21, **HELD), silence(B1, 20, 21, **HELD))) == 2


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
    assert lost.findings == {f"unanswered client c1 ({H1})", "coordinator_moved group shop"}
    assert lost.rebalances == {("shop", 0), ("shop", 1)}
    assert lost.cost_ms == 30_000


LOST = event("leader_lost", 12, before="2", count=1, partitions=["logs-0"])
ALONE = event("isr_shrunk", 5, before="1,2", after="2", partitions=["logs-0"])
ANNOUNCED = event("shutdown_announced", 8, node_id=2)


@pytest.mark.parametrize(
    ("until", "events", "severity", "advice", "alone"),
    [
        (None, [LOST, ANNOUNCED], "critical", "Bring this broker back", 0),
        (None, [LOST, ANNOUNCED, ALONE], "critical", "Bring this broker back", 1),
        (None, [LOST, ALONE | {"after": "1"}], "critical", "Bring this broker back", 0),
        (None, [ANNOUNCED, ALONE], "warning", "Nothing, if this was planned", 0),
        (40, [LOST, ALONE], "critical", "Look at the broker's log", 0),
        (40, [LOST, ANNOUNCED, ALONE], "info", "Nothing, if this was planned", 0),
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


# --- by name, and several at one address ------------------------------------------------------------------------------

NAMED = [
    *(event("broker_listed", 0, node_id=number, host=f"k{number}.example:9092") for number in (1, 2)),
    *(event("broker_found", 1, node_id=number, host=f"{host}:9092") for number, host in ((1, B1), (2, B2))),
]
OFF = event("broker_unlisted", 20, node_id=2, host=f"{B2}:9092")


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
    assert both.headline.startswith(f"brokers 1, 2 ({B1}) went away without notice at ")


@pytest.mark.parametrize(("lacking", "is_told"), [(19, True), (20, False)])
def test_of_what_the_capture_lacks_much_no_broker_stands_still(lacking: int, is_told: bool) -> None:
    talked = connection(1, broker=B2, bytes_up=60, bytes_down=40, lost_bytes=lacking)
    incidents = told(silence(B2, 10, 14, **HELD), connections=[talked])
    assert [one.kind for one in incidents] == ["broker_stalled"] * is_told


@pytest.mark.parametrize(("stalled_at", "kinds"), [(24, ["broker_down"]), (26, ["broker_down", "broker_stalled"])])
def test_nobody_waits_for_a_broker_that_the_cluster_took_off(stalled_at: float, kinds: list[str]) -> None:
    dead = silence(B2, 10, None, refused=5, **GONE)
    stall = silence(B1, stalled_at, stalled_at + 4, **HELD)
    assert [one.kind for one in told(dead, stall, cluster_events=[*BROKERS, OFF])] == kinds


# --- gone before the capture began ------------------------------------------------------------------------------------

REFUSED = [connection(n, broker=B2, client_id=None, opened=n, connect="refused", protocol=None) for n in (1, 2, 3)]
MOVED = event("leader_changed", 8, node_id=1, before="2", after="1", count=3)


def test_a_broker_that_was_gone_when_the_capture_began() -> None:
    (one,) = found(connections=REFUSED, cluster_events=[*BROKERS, MOVED])
    assert (one.kind, one.severity, one.certainty, names(one)) == ("broker_down", "critical", "certain", ["2", B2])
    assert (seconds(one.started), one.ended) == (1, None)
    assert f"broker 2 ({B2}) was gone when the capture began, and missed at " in one.headline
    assert "and has not come back; 3 leaders moved to other brokers" in one.headline
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
    assert "broker 10.0.0.2 went away without notice at " in one.headline
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


def test_who_coordinated_a_group_later_had_not_given_it_up() -> None:
    """NOT_COORDINATOR comes as well while a coordinator is still loading what it has to know."""
    early = error("NOT_COORDINATOR", "JoinGroup", 2, 2, broker=PLACE, group_id="shop")
    tables: dict[str, Any] = {
        "error_histogram": [early],
        "group_events": [group_event("coordinator_found", 1, detail=f"{PLACE} (node 2)", client_id="c1")],
    }
    dead = silence(B2, 10, 40, refused=5, **GONE)
    assert [one.kind for one in told(dead, **tables)] == ["broker_restarted"]
    (one,) = told(dead, **tables, rebalances=[rebalance("member_joined", 1, 3, members=[member("c1")])])
    assert one.kind == "broker_down"
