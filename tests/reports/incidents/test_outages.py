"""Which brokers are gone, were shut down, or stand still, and why."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    GONE,
    H1,
    H2,
    HELD,
    LASTS,
    Row,
    at,
    connection,
    error,
    event,
    exchange,
    found,
    group_event,
    health,
    listed,
    member,
    names,
    only,
    rebalance,
    row,
    seconds,
    signs,
    silence,
    tables_read,
    told,
)

SHUTDOWN = threshold("shutdown_takes")


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


@pytest.mark.parametrize(
    ("tried", "back"),
    [
        (LASTS - threshold("awaited"), "has not come back"),
        (LASTS - threshold("awaited") - 0.1, f"nobody tried it after {clock(at(LASTS - 10.1))}"),
    ],
)
def test_whether_a_broker_is_back_is_known_by_who_tries_to_reach_it(tried: float, back: str) -> None:
    failed = [
        connection(90 + n, broker=B2, client_id=None, opened=opened, connect="refused", protocol=None)
        for n, opened in enumerate((tried - 50, tried))
    ]
    (one,) = told(silence(B2, 10, None, refused=5, **GONE), connections=failed)
    assert (one.kind, one.ended) == ("broker_down", None)
    assert f" and {back};" in one.headline


def test_one_that_does_not_come_back_has_no_end() -> None:
    (one,) = told(silence(B2, 10, None, unanswered=5, **GONE))
    assert (one.kind, one.certainty, one.ended) == ("broker_down", "likely", None)
    assert f"and nobody tried it after {clock(at(10))}" in one.headline
    assert "its host is off, or cut off" in one.evidence[1].text


@pytest.mark.parametrize(
    ("client", "closed", "waiting", "went"),
    [(H2, 20.05, 1, 20), (H2, 20.2, 1, 10), (H1, 20.05, 1, 10), (H2, 20.05, 2, 10)],
)
def test_who_closes_what_several_clients_had_at_once_ended_then_though_one_request_was_not_answered(
    client: str, closed: float, waiting: int, went: float
) -> None:
    """Of that one the capture may lack the answer."""
    known: Row = {"opened": 1, "how_closed": "fin", "closed_by": "broker"}
    both = [connection(1, H1, B2, closed=20, **known), connection(2, client, B2, closed=closed, **known)]
    silent = silence(B2, 10, 40, **GONE | {"refused": 5, "first_failed": 30, "waiting": waiting, "asked": 1})
    (one,) = told(silent, connections=both)
    assert seconds(one.started) == went


def test_refused_connects_alone_show_that_it_is_gone_only_if_it_stays_away() -> None:
    assert [one.kind for one in told(silence(B2, 10, None, refused=1))] == ["broker_down"]
    assert told(silence(B2, 10, 40, refused=1)) == []


@pytest.mark.parametrize(
    ("given", "closed", "when"),
    [
        ({}, {}, f"at {clock(at(20))}"),
        ({}, {"closed": 10.9}, f"at {clock(at(10))}"),
        ({}, {"closed": 40.1}, f"between {clock(at(10))} and {clock(at(30))}"),
        ({}, {"closed_by": "client"}, f"between {clock(at(10))} and {clock(at(30))}"),
        ({"first_failed": 11}, {}, f"at {clock(at(10))}"),
        ({"waiting": 1}, {}, f"at {clock(at(10))}"),
        ({"asked": 1}, {}, f"at {clock(at(10))}"),
    ],
)
def test_the_last_data_of_who_was_not_asked_for_anything_is_not_when_it_went(
    given: Row, closed: Row, when: str
) -> None:
    """As on the host of a client that had little to do with it, or of a broker that was away itself."""
    known: Row = {"broker": B2, "opened": 1, "closed": 20, "how_closed": "fin", "closed_by": "broker"} | closed
    silent = silence(B2, 10, 40, **GONE | {"refused": 5, "first_failed": 30} | given)
    (one,) = told(silent, connections=[connection(1, **known)])
    assert f"broker 2 ({B2}) went away without notice {when} and was back" in one.headline
    assert ("the first of its connections that it closed, 10.0 s after" in one.evidence[0].text) == when.endswith(
        clock(at(20))
    )


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        ({}, ["broker_down"]),
        ({"kept": 1}, ["broker_stalled"]),
        ({"refused": 0, "back_by": "kept"}, ["broker_stalled"]),
        ({"refused": 0}, []),  # all are anew on it, and nothing tells why
    ],
)
def test_who_refuses_connects_is_gone_also_where_the_capture_lacks_how_its_connections_ended(
    given: Row, kinds: list[str]
) -> None:
    """As with a hole in the capture at that moment: what stands still refuses nobody, and answers in the end."""
    held = HELD | {"refused": 3, "first_failed": 10.5, "kept": 0, "ended": 0, "opened": 2, "back_by": "opened"}
    incidents = told(silence(B2, 10, 26, **held | given))
    assert [one.kind for one in incidents] == kinds
    if kinds == ["broker_down"]:
        assert (seconds(incidents[0].started), seconds(incidents[0].ended)) == (10, 26)
        assert "how its connections ended is not in the capture" in incidents[0].evidence[0].text
    if not kinds:
        off = event("broker_fenced", 15, node_id=2)
        (one,) = told(silence(B2, 10, 26, **held | given), cluster_events=[*BROKERS, off])
        assert (one.kind, one.certainty) == ("broker_down", "likely")


@pytest.mark.parametrize(
    ("closed", "told_gone"),
    [
        ([("c1", 50, "client")], False),
        ([("c1", 50, "broker")], True),  # its client may just have been late to close
        ([("c1", 50, "broker"), ("c2", 50.05, "broker")], False),
        ([("c1", 50, "broker"), ("c2", 50.2, "broker")], True),
        ([("c1", 50, "broker"), ("c1", 50.05, "broker")], True),
        ([("c1", 25, "client")], True),
    ],
)
def test_what_closes_connections_of_before_behind_its_silence_was_not_away(
    closed: list[tuple[str, float, str]], told_gone: bool
) -> None:
    """Whoever answered nothing then: the capture may lack it."""
    anew = {"kept": 0, "ended": 0, "opened": 2, "back_by": "opened", "first_packet": 20}
    hosts = {"c1": H1, "c2": H2}
    connections = [
        connection(n, hosts[name], B2, name, closed=time, how_closed="fin", closed_by=by)
        for n, (name, time, by) in enumerate(closed)
    ]
    off = event("broker_fenced", 15, node_id=2)
    incidents = told(silence(B2, 10, 26, **HELD | anew), cluster_events=[*BROKERS, off], connections=connections)
    assert [one.kind for one in incidents] == ["broker_down"] * told_gone


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
    assert f"broker {B2} went away at {clock(at(10))} and was back" in one.headline


@pytest.mark.parametrize(("again", "notice"), [(12.4, " without notice"), (14.5, "")])
def test_where_nothing_was_captured_as_it_went_it_may_have_told_so(again: float, notice: str) -> None:
    rows = [health(1, "client", [11.0, again, 16.0], [])]
    gap = row("issues", kind="tcp_gap", connection=1, at=at(again), packet=9, detail="d", count=1)
    tables: dict[str, list[Row]] = {"tcp_health": rows, "issues": [gap], "connections": [connection(1, opened=1)]}
    (one,) = told(silence(B2, 14, 40, refused=5, **GONE), **tables)
    assert f"went away{notice} at {clock(at(14))}" in one.headline


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


@pytest.mark.parametrize(("others", "together"), [((9.9, 12.6, 30), True), ((9.9, 11, 12, 30), False)])
def test_several_that_stand_still_at_once_while_nobody_speaks_are_one_incident(
    others: tuple[float, ...], together: bool
) -> None:
    stalls = [
        silence(B1, 10, 12.6, **HELD | {"waiting": 2, "waiting_clients": ["c1", "p1"]}),
        silence(B2, 10.1, 12.7, **HELD | {"waiting": 3, "waiting_clients": ["c1"]}),
    ]
    incidents = told(*stalls, tcp_health=heard(*others), cluster_events=[listed(1, B1), listed(2, B2)])
    assert [one.certainty for one in incidents] == (["guessed"] if together else ["certain"] * 2)
    if together:
        (one,) = incidents
        assert (names(one), seconds(one.ended or 0)) == (["1", "2", B1, B2], 12.7)
        assert one.headline.startswith(
            f"broker 1 ({B1}), broker 2 ({B2}) answered nobody for 2.6 s from {clock(at(10))} on, all at once, and for "
            "2.6 s of it nobody else sent anything; 5 requests of c1, p1 waited for up to 2.6 s"
        )
        assert one.evidence[0].text.startswith(f"broker 1 ({B1}): nothing from it on any connection")
        assert one.evidence[-2].text.endswith("all may be on one machine, which stood still")


@pytest.mark.parametrize(
    ("since", "until", "again", "certainty"),
    [
        (10.2, 12.9, 11.3, "guessed"),
        (10.2, 12.9, 11.4, "certain"),  # others said something in half of that time
        (10.3, 12.9, 11.3, "certain"),
        (10, 12.6, 11.3, "certain"),
    ],
)
def test_where_several_stand_still_at_once_and_all_are_silent_it_may_have_been_the_machine(
    since: float, until: float, again: float, certainty: str
) -> None:
    stalls = [silence(B1, 10, 12.9, **HELD), silence(B2, since, until, **HELD)]
    incidents = told(*stalls, tcp_health=heard(9.9, again, 30))
    (one,) = (one for one in incidents if B1 in names(one))
    assert one.certainty == certainty
    assert any("nobody else sent anything" in seen.text for seen in one.evidence) == (certainty == "guessed")


@pytest.mark.parametrize(("again", "is_told"), [(21.9, True), (22.0, False)])
def test_what_is_not_acknowledged_is_sent_again(again: float, is_told: bool) -> None:
    unheard = silence(B1, 10, 30, **HELD | {"acknowledged": 0})
    assert bool(told(unheard, tcp_health=heard(9.9, again, 30))) == is_told


@pytest.mark.parametrize(("overdue", "times", "severity"), [(999, 1, None), (1000, 1, "warning"), (300, 3, "info")])
def test_one_of_which_nothing_is_due_yet_may_be_silent(overdue: float, times: int, severity: str | None) -> None:
    """A broker that is asked for nothing but data that may come waits for that, and on a busy machine a bit longer."""
    late = [silence(B1, 10 * n, 10 * n + 2.2, **HELD | {"overdue_ms": overdue}) for n in range(1, times + 1)]
    incidents = told(*late)
    assert [one.severity for one in incidents] == ([] if severity is None else [severity])
    for one in incidents:
        assert seconds(one.started) == pytest.approx(12.2 - overdue / 1000)
        assert one.effects[0].duration_ms == pytest.approx(overdue)


@pytest.mark.parametrize(
    ("count", "before", "is_told"),
    [
        (3, {}, True),
        (2, {}, False),
        (3, {"closed_by": "client"}, False),  # its client went, and it may just not like the next one
        (3, {"exchanges": 2}, False),  # nor may it have liked that one
        (3, {"closed": None, "closed_by": None}, False),
    ],
)
def test_where_a_proxy_takes_connections_and_closes_them_its_broker_is_gone(
    count: int, before: Row, is_told: bool
) -> None:
    closed: Row = {"how_closed": "fin", "closed_by": "broker", "broker": B1}
    spoke = connection(1, **closed | {"opened": 1, "closed": 10, "exchanges": 9} | before)
    taken = [connection(n, **closed, opened=10 + n, closed=10.1 + n, exchanges=0) for n in range(2, 2 + count)]
    gone = silence(B1, 10, None, ended=1, ended_clients=1, turned_away=count)
    incidents = told(gone, connections=[spoke, *taken], cluster_events=BROKERS)
    assert [one.kind for one in incidents] == ["broker_down"] * is_told
    for one in incidents:
        assert "3 connections to it taken, and closed at once without a word" in one.evidence[1].text
        assert one.advice.startswith("Something takes connections in its place")


@pytest.mark.parametrize(
    ("given", "opened", "is_one"),
    [
        ({}, 11.2, True),
        ({}, 10.9, False),  # by its kernel, as its process ended
        ({"refused": 5, "first_failed": 11, "failed_packet": 77}, 11.2, False),
    ],
)
def test_what_a_process_takes_as_it_ends_is_taken_by_no_proxy(given: Row, opened: float, is_one: bool) -> None:
    closed: Row = {"closed_by": "broker", "broker": B1, "exchanges": 0}
    spoke = connection(1, **closed | {"opened": 1, "closed": 10, "how_closed": "fin", "exchanges": 9})
    taken = [connection(n, **closed, how_closed="rst", opened=opened, closed=opened + 0.1) for n in range(2, 5)]
    refused = [connection(n, **closed, how_closed="refused", opened=n, closed=n) for n in range(12, 17)]
    gone = silence(B1, 10, None, ended=2, ended_clients=2, turned_away=3, **given)
    (one,) = told(gone, connections=[spoke, *taken, *refused], cluster_events=BROKERS)
    assert one.kind == "broker_down"
    assert any("3 connections to it taken, and closed at once" in seen.text for seen in one.evidence) == is_one
    assert ("Something takes connections in its place" in one.advice) == is_one


PROXY = [event("broker_listed", 0, node_id=n, host=f"{B1}:1909{n}", told_by=f"{B1}:19091") for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("since", "until", "given", "is_one"),
    [
        (10.1, 15.2, {}, True),
        (10.1, 15.2, {"waiting_replicas": 4}, True),  # who waits there may wait for replicas
        (10.1, 15.2, {"waiting": 0}, False),
        (10.4, 15.2, {}, False),
        (10.1, 15.4, {}, False),
    ],
)
def test_brokers_at_one_address_that_stand_still_at_once_are_behind_one_thing(
    since: float, until: float, given: Row, is_one: bool
) -> None:
    other = silence(f"{B1}:19092", since, until, **HELD | given)
    (one,) = found(silences=[silence(f"{B1}:19091", 10, 15, **HELD), other], cluster_events=PROXY)
    assert one.kind == "broker_stalled"
    assert (f"all at once, and all are at {B1}" in one.headline) == is_one
    assert len([subject for subject in one.subjects if subject.role == "broker"]) == 1 + is_one
    assert one.effects[0].count == (8 if is_one else 4)
    assert one.advice.startswith(f"Look at what {B1} is") == is_one


def test_of_whom_all_may_wait_for_others_nobody_waits() -> None:
    """It may stand still as it waits for the very broker of which something else is due."""
    waits = silence(B2, 10, 16, **HELD | {"waiting_replicas": 4})
    (one,) = told(silence(B1, 10.1, 15.9, **HELD), waits)
    assert (one.kind, one.subjects[0].name) == ("broker_stalled", "1")


def test_nobody_waits_for_one_that_is_silent() -> None:
    assert told(silence(B1, 10, 15, **HELD | {"waiting": 0})) == []


@pytest.mark.parametrize(
    ("lasts", "connections", "is_told"), [(2, 1, True), (1.99, 1, False), (1, 2, True), (0.99, 2, False)]
)
def test_what_fewer_notice_has_to_last_longer(lasts: float, connections: int, is_told: bool) -> None:
    one = silence(B1, 10, 10 + lasts, **HELD | {"waiting_connections": connections})
    assert bool(told(one)) == is_told


@pytest.mark.parametrize(
    ("asked", "client_id", "host", "connections", "is_told"),
    [
        ((10.5, 11.4, 12.3), "raft-client-1", B1, 1, False),
        ((10.5, 11.4, 12.3), "raft-client-1", B1, 2, True),  # two connections miss it: what it answers stood still
        ((10.5, 12.3), "raft-client-1", B1, 1, True),
        ((10.5, 11.4, 12.1), "raft-client-1", B1, 1, True),
        ((10.5, 11.4, 12.3), "raft-client-2", B2, 1, True),
        ((10.5, 11.4, 12.3), "c1", B1, 1, True),  # a client on its host
        ((), None, B1, 1, True),
    ],
)
def test_one_that_keeps_a_request_waiting_and_asks_others_meanwhile_does_not_stand_still(
    asked: tuple[float, ...], client_id: str | None, host: str, connections: int, is_told: bool
) -> None:
    one = silence(B1, 10, 13.2, **HELD | {"waiting_connections": connections})
    its_own = connection(7, host, "10.0.0.9", client_id, opened=1, broker_port=9093)
    rows = [health(7, "client", asked, asked, client=host, broker="10.0.0.9:9093")] if asked else []
    assert bool(told(one, connections=[its_own], tcp_health=rows)) == is_told


@pytest.mark.parametrize(
    ("replicas", "lasts", "asks", "is_told"),
    [
        (3, 3, True, False),
        (2, 3, True, True),  # two requests that wait for nobody else
        (3, 3, False, True),
        (3, 1.9, False, False),  # as of one request
        (3, 0.9, True, False),  # nor do such as come again and again
        (3, 0.9, False, True),
    ],
)
def test_so_it_is_with_one_request_beside_such_as_wait_for_replicas(
    replicas: int, lasts: float, asks: bool, is_told: bool
) -> None:
    """Of that one the capture may lack the answer."""
    again = range(10, 40, 10) if lasts < 1 else [10]
    held = HELD | {"waiting": 4, "waiting_replicas": replicas, "waiting_connections": 3}
    its_own = connection(7, B1, "10.0.0.9", "raft-client-1", opened=1, broker_port=9093)
    given = {"client": B1, "broker": "10.0.0.9:9093"}
    rows = [
        health(7, "client", [begin + 0.3, begin + 1.2, begin + 2.1], [begin + 0.3, begin + 1.2, begin + 2.1], **given)
        for begin in again
    ]
    stalls = [silence(B1, begin, begin + lasts, **held) for begin in again]
    incidents = found(silences=stalls, cluster_events=BROKERS, connections=[its_own], tcp_health=rows if asks else [])
    assert bool(incidents) == is_told


@pytest.mark.parametrize(("times", "apart"), [(3, 30), (3, 60.1), (2, 30)])
def test_short_ones_that_come_again_and_again_are_one_trouble(times: int, apart: float) -> None:
    short = [silence(B1, n * apart, n * apart + 0.4, **HELD | {"waiting_connections": 1}) for n in range(1, times + 1)]
    is_told = times >= threshold("stalls") and apart <= threshold("one_trouble")
    incidents = told(*short)
    assert len(incidents) == is_told
    assert not is_told or "3 times, the longest for 400 ms" in incidents[0].headline


@pytest.mark.parametrize(
    ("times", "apart", "lasts", "severity"),
    [
        (10, 1, 600, "warning"),
        (3, 1, 400, "warning"),
        (3, 0.6, 300, "info"),  # less than a second in all
        (10, 1.4, 600, "info"),
        (2, 1, 600, None),
    ],
)
def test_a_broker_that_stands_still_for_most_of_a_time_is_trouble(
    times: int, apart: float, lasts: int, severity: str | None
) -> None:
    short = [silence(B1, 10 + n * apart, 10 + n * apart + lasts / 1000, **HELD) for n in range(times)]
    incidents = told(*short)
    assert [one.severity for one in incidents] == ([] if severity is None else [severity])
    in_all = f"answered nobody {times} times, {duration(lasts * times)} in all, the longest for {lasts} ms"
    assert all((in_all in one.headline) == (severity == "warning") for one in incidents)


def test_one_short_stall_beside_waits_for_a_broker_that_is_gone_does_not_come_again() -> None:
    gone = silence(B2, 10, 12, refused=1, **GONE)
    waits = [silence(B1, at, at + 0.4, **HELD) for at in (10.5, 11, 11.5)]
    assert [one.kind for one in told(gone, *waits, silence(B1, 30, 30.8, **HELD))] == ["broker_down"]


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


def test_who_coordinated_a_group_later_had_not_given_it_up() -> None:
    """NOT_COORDINATOR comes as well while a coordinator is still loading what it has to know."""
    early = error("NOT_COORDINATOR", "JoinGroup", 2, 2, broker=f"{B2}:9092", group_id="shop")
    tables: dict[str, Any] = {
        "error_histogram": [early],
        "group_events": [group_event("coordinator_found", 1, detail=f"{B2}:9092 (node 2)", client_id="c1")],
    }
    dead = silence(B2, 10, 40, refused=5, **GONE)
    assert [one.kind for one in told(dead, **tables)] == ["broker_restarted"]
    (one,) = told(dead, **tables, rebalances=[rebalance("member_joined", 1, 3, members=[member("c1")])])
    assert one.kind == "broker_down"


@pytest.mark.parametrize("event_of_back", ["broker_registered", "broker_unfenced"])
@pytest.mark.parametrize(
    ("node", "back", "kind"),
    [(2, 30, "broker_down"), (2, 19, "broker_restarted"), (2, 41, "broker_restarted"), (1, 30, "broker_restarted")],
)
def test_what_the_process_before_said_is_not_of_the_next_one(
    event_of_back: str, node: int, back: float, kind: str
) -> None:
    """A broker is restarted, and killed soon after."""
    events = [event("shutdown_announced", 20, node_id=2), event(event_of_back, back, node_id=node)]
    refused = error("NOT_LEADER_OR_FOLLOWER", "Produce", 20, 21, broker=f"{B2}:9092", client_id="p1")
    gone = silence(B2, 40, 60, refused=5, **GONE)
    (one,) = told(gone, cluster_events=[*BROKERS, *events], error_histogram=[refused])
    assert one.kind == kind


# --- what a broker replicates ----------------------------------------------------------------------------------------

# Broker 1 fetches from broker 2 on connection 7, and broker 2 from broker 1 on connection 8.
FOLLOWER = "broker-1-fetcher-0"
FOLLOWERS = [
    connection(7, B1, B2, FOLLOWER, opened=0),
    connection(8, B2, B1, "broker-2-fetcher-0", opened=0),
]
REPLICAS = HELD | {"waiting_replicas": 4, "waiting_connections": 1}
LED = silence(B1, 10, 12, **REPLICAS)


def fetch(number: int, requested: float, answered: float | None, connection: int = 7) -> Row:
    known: Row = {"connection": connection, "client_id": FOLLOWER, "correlation_id": number}
    return exchange(number, "Fetch", requested, answered, **known)


PAUSED = [fetch(1, 9.5, 10.1), fetch(2, 12.05, 12.1)]
WAITED = [fetch(1, 9.5, 11.95), fetch(2, 12.05, 12.1)]


def test_a_broker_that_fetches_nothing_though_it_was_answered_waits_for_nobody() -> None:
    one = only(silences=[LED], cluster_events=BROKERS, connections=FOLLOWERS, exchanges=PAUSED)
    assert (one.kind, names(one), one.certainty) == ("broker_stalled", ["1", B1], "likely")
    text = "other brokers had answered its fetches, and it made no other for 1.9 s: it waited for none of them"
    assert text in [seen.text for seen in one.evidence]


@pytest.mark.parametrize(
    ("exchanges", "tables"),
    [
        (WAITED, {}),
        ([fetch(1, 9.5, 11.1), fetch(2, 12.05, 12.1)], {}),  # a second is what somebody notices
        ([fetch(1, 9.5, 10.1)], {}),  # it may have nothing to fetch any more
        ([fetch(1, 9.5, 10.1), fetch(2, 13.1, 13.2)], {}),
        ([fetch(1, 9.5, 10.1), fetch(2, 11, 11.02), fetch(3, 12.05, 12.1)], {}),
        ([one | {"connection": 8} for one in PAUSED], {}),  # of the other broker
        ([fetch(1, 9.5, 10.1), fetch(3, 12.05, 12.1)], {}),  # the capture lacks one between them
        (PAUSED, {"silences": [LED | {"acknowledged": 0}]}),
        (PAUSED, {"silences": [LED | {"timeouts": 1}]}),
        (PAUSED, {"tcp_health": [health(7, "client", [12], [12], client=B1, timeout_retransmits=1)]}),
        (PAUSED, {"error_histogram": [error("NOT_LEADER_OR_FOLLOWER", "Fetch", 10, 10.1, client_id=FOLLOWER)]}),
    ],
)
def test_who_may_wait_for_others_does_not_stand_still(exchanges: list[Row], tables: dict[str, list[Row]]) -> None:
    known: dict[str, list[Row]] = {"silences": [LED], "connections": FOLLOWERS, "exchanges": exchanges}
    assert [one.kind for one in found(**known | {"cluster_events": BROKERS} | tables)] == []


def test_of_two_whose_writes_wait_it_is_the_one_that_does_not_fetch() -> None:
    """Also where the other one, which waits for it, says nothing for longer."""
    other = silence(B2, 9.8, 12.1, **REPLICAS)
    waits = [one | {"connection": 8} for one in WAITED]
    one = only(silences=[LED, other], cluster_events=BROKERS, connections=FOLLOWERS, exchanges=[*PAUSED, *waits])
    assert names(one) == ["1", B1]


@pytest.mark.parametrize(("lasts", "is_told"), [(1.1, True), (0.9, False)])
def test_a_fetch_that_does_not_come_is_a_second_sign(lasts: float, is_told: bool) -> None:
    shorter = [fetch(1, 9.5, 10), fetch(2, 10 + lasts, 12.1)]
    known = {"cluster_events": BROKERS, "connections": FOLLOWERS, "exchanges": shorter}
    assert bool(found(silences=[silence(B1, 10, 10 + lasts, **REPLICAS)], **known)) == is_told


def test_brokers_at_one_address_are_followers_by_their_ids() -> None:
    place = f"{B1}:9192"
    events = [listed(1, B1), event("broker_listed", 0, node_id=3, host=place), listed(2, B2)]
    known = {"cluster_events": events, "exchanges": PAUSED}
    third = [FOLLOWERS[0] | {"client_id": "broker-3-fetcher-0"}]
    (one,) = found(silences=[LED | {"host": place}], connections=third, **known)
    assert names(one)[0] == "3"
    assert found(silences=[LED | {"host": place}], connections=FOLLOWERS, **known) == []


@pytest.mark.parametrize(
    ("back", "ended"),
    [
        ({}, 40),
        ({"client_id": "2"}, 40),
        ({"client_id": "raft-client-2"}, 40),
        ({"client_id": "broker-1-fetcher-0"}, None),  # another one at its address
        ({"client_id": "broker-21-fetcher-0"}, None),
        ({"client": B2}, None),
        ({"opened": 10.5}, None),  # as it went
        ({"exchanges": 0}, None),
        ({"broker": "10.0.0.9"}, None),  # of which cluster that is nobody tells
    ],
)
def test_of_several_brokers_at_one_address_one_is_back_when_it_asks_others(back: Row, ended: float | None) -> None:
    place = f"{B1}:9192"
    events = [listed(1, B1), event("broker_listed", 0, node_id=2, host=place), listed(3, B2)]
    known: Row = {"client": B1, "broker": B2, "client_id": "broker-2-fetcher-0", "opened": 40, "exchanges": 5} | back
    (one,) = told(
        silence(place, 10, None, refused=5, **GONE), cluster_events=events, connections=[connection(7, **known)]
    )
    assert seconds(one.ended) == ended
    assert ("it asks other brokers (told by " in str(one.evidence)) == (ended is not None)


# Broker 3 leads nothing: it fetches from the others, on connections 1 and 2, and is asked nothing.
_THIRD = "10.0.0.3"
_IDLE = "broker-3-fetcher-0"


def stands_still(until: float = 18, since: float = 12, **of_health: Any) -> dict[str, list[Row]]:
    """It was answered last at a time, acknowledged it, and fetches again later."""

    def on(number: int, leader: str) -> list[Row]:
        given: Row = {"client": _THIRD, "broker": f"{leader}:9092"}
        begin, end = since // 10 * 10, until // 10 * 10
        asked = [since - 1, until] if begin == end else [since - 1]
        later = [] if begin == end else [health(number, "client", [until], [until], **given)]
        return [
            health(number, "client", [since + 0.3], asked, **given | of_health),
            health(number, "broker", [], [since + number / 10 - 0.1], **given),
            *later,
        ]

    return {
        "connections": [connection(n, _THIRD, host, _IDLE, opened=0) for n, host in ((1, B1), (2, B2))],
        "tcp_health": [*on(1, B1), *on(2, B2)],
        "exchanges": [
            exchange(10 * n + k, "Fetch", *times, connection=n, client_id=_IDLE, correlation_id=k)
            for n in (1, 2)
            for k, times in enumerate([(since - 1, since + n / 10 - 0.1), (until, until + 0.1)])
        ],
        "cluster_events": [*BROKERS, listed(3, _THIRD), shrinks(20)],
    }


def shrinks(time: float, before: str = "1,2,3", after: str = "1,2") -> Row:
    return event("isr_shrunk", time, before=before, after=after, partitions=["t-0", "t-1"], count=2)


@pytest.mark.parametrize("until", [18, 21])
def test_a_broker_that_leads_nothing_and_stands_still_shows_by_what_it_does_not_fetch(until: float) -> None:
    tables = stands_still(until)
    tables["tcp_health"].append(health(9, "client", [13, 14, 15, 16, 17, 18, 19], [13]))  # others go on
    one = only(**tables)
    assert (one.kind, one.severity, one.certainty) == ("broker_stalled", "warning", "likely")
    assert names(one) == ["3", _THIRD]
    assert (seconds(one.started), seconds(one.ended)) == (12.1, until)
    assert (
        f"asked no other broker for what it replicates for {until - 12.1:.1f} s from {clock(at(12.1))} on, though its "
        "host acknowledged what it was sent; it fell out of sync of 2 partitions"
    ) in one.headline
    assert one.evidence[0].text == f"no data from it on any connection to another broker for {until - 12.1:.1f} s"
    assert "made no other for" in one.evidence[1].text


@pytest.mark.parametrize(
    "tables",
    [
        {"cluster_events": [*BROKERS, listed(3, _THIRD)]},  # nobody missed it
        {"cluster_events": [*BROKERS, listed(3, _THIRD), shrinks(20, "1,2,3", "1,3")]},
        {"cluster_events": [*BROKERS, listed(3, _THIRD), shrinks(40)]},
        {"connections": stands_still()["connections"][:1]},  # the other one may have nothing to fetch any more
        {"exchanges": []},
        {"tcp_health": stands_still(since=16.5)["tcp_health"]},  # for less than two seconds
        {"tcp_health": stands_still(timeout_retransmits=1)["tcp_health"]},
        {"silences": [silence(_THIRD, 11, None, refused=5, **GONE)]},  # it was gone
    ],
)
def test_it_does_not_show_otherwise(tables: dict[str, list[Row]]) -> None:
    assert "broker_stalled" not in [one.kind for one in found(**stands_still() | tables)]


def test_it_says_something_if_it_tells_the_controller_that_it_lives() -> None:
    known = stands_still()
    alive = connection(3, _THIRD, B1, "3", opened=0, broker_port=9093)
    said = health(3, "client", [], [13, 14.5, 16, 17.5], client=_THIRD)
    assert (
        found(**known | {"connections": [*known["connections"], alive], "tcp_health": [*known["tcp_health"], said]})
        == []
    )


@pytest.mark.parametrize("table", ["connections", "tcp_health", "exchanges"])
def test_tables_are_not_read_more_often_for_more_brokers(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    read = tables_read(monkeypatch)
    often = []
    for many in (2, 30):
        hosts = [f"10.1.0.{n + 1}" for n in range(many)]
        rows = {
            "cluster_events": [listed(n, host) for n, host in enumerate(hosts)],
            "silences": [LED | {"host": host} for host in hosts],
            "connections": [connection(n, host, B2, f"broker-{n}-fetcher-0", opened=0) for n, host in enumerate(hosts)],
            "exchanges": [one | {"connection": n} for n in range(many) for one in PAUSED],
        }
        read.clear()
        assert [one.unfetched for one in outages(signs(**rows))] == [1_900_000_000] * many
        often.append(read.count(table))
    assert often[0] == often[1] > 0


# --- what the capture lacks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lacking", "is_told"), [(19, True), (20, False)])
def test_of_what_the_capture_lacks_much_no_broker_stands_still(lacking: int, is_told: bool) -> None:
    talked = connection(1, broker=B2, bytes_up=60, bytes_down=40, lost_bytes=lacking)
    incidents = told(silence(B2, 10, 14, **HELD), connections=[talked])
    assert [one.kind for one in incidents] == ["broker_stalled"] * is_told


@pytest.mark.parametrize(("stalled_at", "kinds"), [(24, ["broker_down"]), (26, ["broker_down", "broker_stalled"])])
def test_nobody_waits_for_a_broker_that_the_cluster_took_off(stalled_at: float, kinds: list[str]) -> None:
    dead = silence(B2, 10, None, refused=5, **GONE)
    off = event("broker_unlisted", 20, node_id=2, host=f"{B2}:9092")
    stall = silence(B1, stalled_at, stalled_at + 4, **HELD)
    assert [one.kind for one in told(dead, stall, cluster_events=[*BROKERS, off])] == kinds
