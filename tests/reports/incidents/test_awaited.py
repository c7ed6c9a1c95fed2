"""Members that died, or fell silent, so shortly before the capture ended that their group still waits for them."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    B2,
    BROKERS,
    H1,
    H2,
    LASTS,
    Row,
    at,
    connection,
    error,
    exchange,
    finding,
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
    silence,
)

LAST = LASTS - 30  # when c2 is heard last; its process ends a second later
SESSION = {"session_timeout_ms": 45_000, "instance_id": None, "assignors": ["range"]}
C1 = member("c1", H1) | SESSION | {"assignment": ["orders-0"]}
C2 = member("c2", H2) | SESSION | {"assignment": ["orders-1", "orders-2"]}


def heartbeats(client_id: str, until: float, number: int = 1, every: float = 3, **given: Any) -> list[Row]:
    """Every three seconds, up to a moment."""
    times = [until - every * place for place in range(5)]
    known: Row = {"connection": number, "client_id": client_id, "error": "NONE"} | given
    return [exchange(place, "Heartbeat", time, time + 0.01, **known) for place, time in enumerate(times)]


def tables(*members: Row, last: float = LAST, others: float = LASTS, **given: Any) -> dict[str, Any]:
    """A group of c1, which is heard to the end, and c2."""
    closes: Row = {"closed": last + 1, "how_closed": "fin"}
    return {
        "rebalances": [rebalance("member_joined", 3, 10, members=list(members or (C1, C2)))],
        "exchanges": [*heartbeats("c1", others), *heartbeats("c2", last, 2)],
        "connections": [connection(1, H1, opened=1), connection(2, H2, client_id="c2", opened=1, **closes)],
        "tcp_health": [
            health(1, "client", [others - 0.5], [others - 0.5]),
            health(2, "client", [last], [last], client=H2),
        ],
    } | given


def test_a_process_that_ended_and_whose_session_goes_on() -> None:
    stops = finding("commits_stopped", "group shop", "c2 does not commit", LAST, LASTS, client_ids=["c2"])
    one = only(**tables(findings=[stops]))
    assert (one.kind, one.severity, one.certainty, one.ended) == ("client_died", "warning", "likely", None)
    assert names(one) == ["c2", H2, "shop"]
    assert seconds(one.started) == LAST + 1
    assert one.headline == (
        f"c2 ({H2}) ended without leaving at {clock(at(LAST + 1))}, and group shop still waits for it at the end "
        "(session timeout: 45.0 s); nobody read orders 1-2 for 29.0 s"
    )
    assert one.cost_ms == 2 * 29_000
    assert one.findings == {stops["id"]}
    assert one.advice.startswith("Find out why the process ended")


@pytest.mark.parametrize(("later", "told"), [(0, False), (8, False), (9, True)])
def test_who_would_have_spoken_to_a_broker_that_went_away_is_elsewhere(later: float, told: bool) -> None:
    """Heartbeats come every three seconds: the next one may have been for the broker."""
    gone = silence(B2, LAST + later, None, refused=2, ended=3, ended_clients=2)
    kinds = {one.kind for one in found(**tables(silences=[gone]))}
    assert ("client_died" in kinds) == told
    assert "broker_down" in kinds


def test_what_it_had_may_not_be_known() -> None:
    one = only(**tables(C1, C2 | {"assignment": None}))
    assert one.headline.endswith("and group shop still waits for it at the end (session timeout: 45.0 s)")
    assert (one.effects, one.cost_ms) == ((), 0)


@pytest.mark.parametrize(
    ("changed", "advice"),
    [
        ({"instance_id": "i-2"}, "A static member (group.instance.id) does not leave when it is closed"),
        ({"assignors": ["stream"]}, "A Streams application with the classic protocol does not leave when it is closed"),
    ],
)
def test_of_such_as_do_not_leave_when_they_are_closed_it_is_said(changed: Row, advice: str) -> None:
    assert only(**tables(C1, C2 | changed)).advice.startswith(advice)


LEAST = threshold("awaited")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, True),
        ({"last": LASTS - LEAST}, True),
        ({"last": LASTS - LEAST + 0.1}, False),
        ({"exchanges": [*heartbeats("c1", LASTS), *heartbeats("c2", LAST, 2, every=13)]}, False),  # it says little
        ({"exchanges": [*heartbeats("c1", LASTS), *heartbeats("c2", LAST, 2, error="UNKNOWN_MEMBER_ID")]}, False),
        ({"group_events": [group_event("left", LAST, client_id="c2", client=H2)]}, False),
        ({"group_events": [group_event("fenced", LAST + 5, client_id="c2", client=H2)]}, False),
        ({"group_events": [group_event("joined", LAST + 5, client_id="c2", client=H2)]}, False),
        ({"group_events": [group_event("joined", LAST, client_id="c2", client=H2)]}, True),
        ({"group_events": [group_event("left", LAST + 5, client_id="c2", client=H1)]}, True),
        ({"group_events": [group_event("left", LAST + 5, "pay", client_id="c2", client=H2)]}, True),
    ],
)
def test_who_left_came_again_or_is_heard_seldom_is_not_missed(given: dict[str, Any], told: bool) -> None:
    assert bool(found(**tables(**given))) == told


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, False),
        ({"detail": "another-id before"}, True),
        ({"at": LAST - 1}, True),
        ({"group_id": "pay"}, True),
    ],
)
def test_a_static_member_whose_place_a_process_elsewhere_takes_is_not_missed(given: Row, told: bool) -> None:
    static = C2 | {"instance_id": "i-2", "member_id": "c2-id"}
    known: Row = {"at": LAST + 5, "group_id": "shop", "detail": "its instance id was that of c2-id"} | given
    replaced = group_event("replaced", known.pop("at"), known.pop("group_id"), client_id="c2", client=H1, **known)
    assert bool(found(**tables(C1, static, group_events=[replaced]))) == told


@pytest.mark.parametrize(
    ("number", "error_", "told"), [(3, "SASL_AUTHENTICATION_FAILED", 0), (3, "NONE", 1), (1, "", 1)]
)
def test_who_authenticates_in_vain_has_not_ended(number: int, error_: str, told: int) -> None:
    """Its credentials were taken away while it ran: it opens one connection after the other."""
    given = tables()
    given["connections"] += [connection(3, H2, client_id="c2", opened=LAST + 5)]
    tries = exchange(9, "SaslAuthenticate", LAST + 5, LAST + 5.1, connection=number, client_id="c2", error=error_)
    given["exchanges"] += [tries]
    assert len([one for one in found(**given) if one.kind == "client_died"]) == told


@pytest.mark.parametrize("deleted", [True, False])
def test_who_asks_on_for_a_topic_that_was_deleted_is_not_missed(deleted: bool) -> None:
    """kafkajs sends no heartbeat meanwhile."""
    given = tables()
    given["connections"] = [*given["connections"][:1], connection(2, H2, client_id="c2", opened=1)]
    request = '{"topics": [{"name": "orders"}]}'
    deletion = exchange(9, "DeleteTopics", LAST + 1, LAST + 2, connection=1, client_id="admin", request=request)
    given["exchanges"] += [deletion] * deleted
    gone = error(
        "UNKNOWN_TOPIC_OR_PARTITION", "Metadata", LAST + 3, LASTS, client_id="c2", topic="orders", first_connection=2
    )
    kinds = {one.kind for one in found(**given, error_histogram=[gone])}
    assert ("client_unreachable" in kinds) != deleted


@pytest.mark.parametrize(
    "other",
    [
        C2 | {"assignment": []},  # it had nothing to do
        C2 | {"host": None},
        C2 | {"client_id": None},
        C2 | {"session_timeout_ms": 30_000},  # it is over: the group went on without it, and the capture lacks how
    ],
)
def test_members_that_nobody_misses(other: Row) -> None:
    assert found(**tables(C1, other)) == []


def settled_group(**given: Any) -> dict[str, Any]:
    """The same two members in a capture that has no rebalance of their group."""
    says: Row = {"group_id": "shop", "request": '{"groupId": "shop", "groupInstanceId": null}'} | given
    goes_on = heartbeats("c1", LASTS, group_id="shop", request='{"groupInstanceId": "i-1"}')
    return tables(rebalances=[], exchanges=[*goes_on, *heartbeats("c2", LAST, 2, **says)])


def test_a_group_that_does_not_rebalance_in_the_capture_is_known_by_heartbeats() -> None:
    one = only(**settled_group())
    assert (one.kind, one.severity, one.certainty, one.ended) == ("client_died", "warning", "likely", None)
    assert names(one) == ["c2", H2, "shop"]
    assert one.headline == (
        f"c2 ({H2}) ended without leaving at {clock(at(LAST + 1))}, and group shop still waits for it at the end"
    )


@pytest.mark.parametrize(
    "given",
    [
        {"request": '{"groupId": "shop", "groupInstanceId": "i-2"}'},  # another one may have taken its place
        {"request": None},  # nor is it known that it is none of these
        {"group_id": "pay"},  # nobody else is heard of that group
        {"group_id": None},
        {"error": "UNKNOWN_MEMBER_ID"},
    ],
)
def test_of_heartbeats_alone_only_dynamic_members_are_missed_by_those_that_go_on(given: Row) -> None:
    assert found(**settled_group(**given)) == []


def test_only_members_of_the_latest_generation_count() -> None:
    later = rebalance("member_left", 4, 100, members=[C1])
    assert found(**tables(rebalances=[*tables()["rebalances"], later])) == []


def test_where_others_are_silent_as_well_they_may_have_another_coordinator() -> None:
    """But one whose process ended has none."""
    assert [one.kind for one in found(**tables(others=LAST))] == ["client_died"]
    stays = connection(2, H2, client_id="c2", opened=1)
    assert found(**tables(others=LAST, connections=[connection(1, H1, opened=1), stays])) == []
    (one,) = found(**tables(connections=[connection(1, H1, opened=1), stays]))
    assert (one.kind, one.certainty) == ("client_unreachable", "guessed")
    assert "fell silent (dead, frozen or cut off: the capture leaves it open) at " in one.headline
    assert one.advice.startswith("See whether its process still runs")


def test_one_that_was_closed_and_did_not_leave_is_told_so() -> None:
    request = '{"maxWaitMs": 500, "sessionId": 77, "sessionEpoch": -1, "topics": []}'
    given = tables()
    given["exchanges"] += [
        exchange(9, "Fetch", LAST + 0.5, LAST + 0.6, api_key=1, connection=2, client_id="c2", request=request)
    ]
    (one,) = found(**given)
    assert one.headline.startswith(f"c2 ({H2}) was closed without leaving at ")
    assert one.advice.startswith("Nothing, if it was stopped on purpose")
    refused = error("GROUP_AUTHORIZATION_FAILED", "Heartbeat", LAST - 5, LAST, 2, client_id="c2")
    (one,) = found(**given, error_histogram=[refused])
    assert ", after GROUP_AUTHORIZATION_FAILED for Heartbeat, and " in one.headline
    assert one.advice.startswith("Give its principal Read on the group back")
    failed = finding("authorization_failed", f"client c2 ({H2})", "2 errors", LAST - 5, LAST, client_ids=["c2"])
    (one,) = found(**given, error_histogram=[refused], findings=[failed])
    assert (one.kind, one.ended) == ("authorization_failed", None)
    assert f"; c2 ({H2}) was closed without leaving at " in one.headline


@pytest.mark.parametrize(("lost", "closed", "told"), [(0, True, True), (95, True, False), (95, False, True)])
def test_the_capture_may_lack_the_leaving_of_one_that_was_closed(lost: int, closed: bool, told: bool) -> None:
    """Where nobody is heard behind it who would be told of a rebalance."""
    given = tables(alone())
    given["connections"][1] |= {"lost_bytes": lost, "bytes_up": 10_000}
    request = '{"maxWaitMs": 500, "sessionId": 77, "sessionEpoch": -1, "topics": []}'
    end = exchange(9, "Fetch", LAST + 0.5, LAST + 0.6, api_key=1, connection=2, client_id="c2", request=request)
    given["exchanges"] += [end] * closed
    assert bool(found(**given)) == told


def test_what_a_worker_of_connect_has_is_run_and_not_read() -> None:
    (one,) = found(**tables(C1, C2 | {"assignment": ["task:src-0"]}))
    assert one.headline.endswith("; nobody ran task:src 0 for 29.0 s")


def test_who_else_is_on_a_host_that_is_cut_off_is_named() -> None:
    stays = [
        connection(1, H1, opened=1),
        *(connection(n, H2, client_id=name, opened=1) for n, name in ((2, "c2"), (3, "cash"))),
    ]
    given = tables(connections=stays)
    (one,) = found(**given)
    assert "cash" not in one.headline  # nothing was sent to it: nobody can tell
    asked = health(2, "broker", [LAST + 2, LAST + 4], [LAST + 2], client=H2)
    (one,) = found(**given | {"tcp_health": [*given["tcp_health"], asked]})
    assert names(one) == ["c2", "cash", H2, "shop"]
    assert one.headline.endswith("nobody read orders 1-2 for 30.0 s; cash on the same host was cut off as well")
    assert one.cost_ms == 2 * 30_000


def alone(**given: Any) -> Row:
    return C2 | {"session_timeout_ms": 10_000} | given


def test_nobody_is_left_in_a_group_whose_members_all_ended() -> None:
    others = [alone(), C1 | {"session_timeout_ms": 10_000}]
    closes: Row = {"opened": 1, "closed": LAST + 1, "how_closed": "fin"}
    both = [connection(1, H1, **closes), connection(2, H2, client_id="c2", **closes)]
    one = only(**tables(*others, others=LAST, connections=both))
    assert (one.kind, one.severity) == ("client_died", "critical")
    assert names(one) == ["c1", "c2", H1, H2, "shop"]
    assert ", and nobody is left in group shop; nobody read orders 0-2 for " in one.headline


@pytest.mark.parametrize(("last", "ended", "told"), [(200, 201, True), (200, 244, True), (200, 246, False)])
def test_what_its_group_does_behind_its_session_is_not_known_where_others_were_not_captured(
    last: float, ended: float, told: bool
) -> None:
    """As on the host of one member: of the others, which may read on, answers tell that they are there."""
    leader = C1 | {"host": None, "client_id": None}
    alone = tables(leader, C2, last=last)
    alone["exchanges"] = heartbeats("c2", last, 2)
    alone["connections"] = [connection(2, H2, client_id="c2", opened=1, closed=ended, how_closed="fin")]
    alone["tcp_health"] += [health(3, "client", [at], [], client=H2) for at in range(200, 300, 5)]  # another
    incidents = found(**alone)
    assert [(one.kind, one.severity) for one in incidents] == [("client_died", "warning")] * told
    if told:
        assert incidents[0].headline == (
            f"c2 ({H2}) ended without leaving at {clock(at(ended))}, and its session was over before the end; what "
            "group shop did then is not in the capture"
        )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, True),
        ({"instance_id": "i-2"}, False),
        ({"assignors": ["stream"]}, False),
        ({"session_timeout_ms": None}, False),
    ],
)
def test_who_does_not_leave_when_it_is_closed_may_have_been(given: Row, told: bool) -> None:
    assert bool(found(**tables(alone(**given)))) == told


def test_members_of_several_groups_on_one_host_are_one_incident() -> None:
    other = C2 | {"assignment": ["pay-0"], "member_id": "x"}
    stays = [C1 | {"assignment": ["pay-1"]}, other]
    rows = [*tables()["rebalances"], rebalance("member_joined", 1, 10, "pay", members=stays)]
    one = only(**tables(rebalances=rows))
    assert names(one) == ["c2", H2, "pay", "shop"]
    assert ", and groups pay, shop still wait for it at the end (session timeout: 45.0 s); " in one.headline
    told = "nobody read pay 0 for 29.0 s in group pay; nobody read orders 1-2 for 29.0 s in group shop"
    assert one.headline.endswith(told)


def test_one_that_another_group_has_taken_out_is_told_there() -> None:
    row = rebalance("session_timeout", 2, LASTS - 20, "pay", trigger_member="x", trigger_client_id="c2")
    silence = group_event("silence_begun", LAST, "pay", member_id="x", client_id="c2", client=H2)
    incidents = found(**tables(rebalances=[*tables()["rebalances"], row], group_events=[silence]))
    assert [("taken out of group pay" in one.headline, one.kind) for one in incidents] == [(True, "client_died")]


@pytest.mark.parametrize(("since", "kinds"), [(200, ["client_died"]), (150, ["client_died", "consumer_lagging"])])
def test_a_group_that_falls_behind_since_then_is_told_with_it(since: int, kinds: list[str]) -> None:
    """But not one that fell behind before."""
    lags = [
        row(
            "lag",
            group_id="shop",
            topic="orders",
            partition=1,
            at=at(time),
            lag=40 * max(0, time - since),
            end_offset=100 * time,
            commits=1,
        )
        for time in range(150, 300, 10)
    ]
    lives = [health(1, "client", [time], [time]) for time in range(155, 300, 10)]  # else the capture stood still
    silent = health(2, "client", [200], [200], client=H2)
    members = C1, C2 | {"session_timeout_ms": 120_000}
    incidents = found(**tables(*members, last=200, lag=lags, tcp_health=[*lives, silent]))
    assert sorted(one.kind for one in incidents) == kinds


def test_one_that_was_started_again_while_its_group_waits_for_its_old_member() -> None:
    again = group_event("joined", LAST + 4, client_id="c2", client=H2)
    waits = rebalance("member_joined", 4, LAST + 4, stable=None)
    rows = [*tables()["rebalances"], waits]
    one = only(**tables(rebalances=rows, group_events=[again], others=LAST + 3))
    assert (one.kind, one.severity, one.certainty) == ("client_died", "warning", "likely")
    assert one.headline.endswith(
        f" at {clock(at(LAST + 1))}, came anew, and group shop still waits for its old member at the end "
        "(session timeout: 45.0 s); nobody read orders 1-2 for 29.0 s; nobody read orders 0 for 26.0 s, as all wait"
    )
    assert one.advice.startswith("A process that is started again is a new member")
    assert one.rebalances == {("shop", 4)}
    assert one.cost_ms == 2 * 29_000 + 26_000


@pytest.mark.parametrize(
    ("changed", "closes", "told"),
    [
        ({}, True, 2),
        ({"assignors": ["cooperative-sticky"]}, True, 1),  # others go on with what they have
        ({"assignors": None}, True, 1),
        ({}, False, 0),  # it joined on another connection
    ],
)
def test_others_wait_as_well_where_all_give_up_their_partitions(changed: Row, closes: bool, told: int) -> None:
    again = group_event("joined", LAST + 4, client_id="c2", client=H2)
    generations = tables(C1 | changed, C2 | changed)["rebalances"]
    rows = [*generations, rebalance("member_joined", 4, LAST + 4, stable=None)]
    given: dict[str, Any] = {} if closes else {"connections": [connection(1), connection(2, H2, client_id="c2")]}
    incidents = found(**tables(rebalances=rows, group_events=[again], others=LAST + 3, **given))
    assert [len(one.effects) for one in incidents] == ([told] if told else [])


def test_of_very_many_those_with_most_partitions_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    closes: Row = {"opened": 1, "closed": LAST + 1, "how_closed": "fin"}
    both = [connection(1, H1, **closes), connection(2, H2, client_id="c2", **closes)]
    told = tables(others=LAST, connections=both)
    assert {names(one)[0] for one in found(**told)} == {"c1", "c2"}
    monkeypatch.setattr("kafkascope.reports.incidents.members.awaited._MOST", 1)
    assert names(only(**told)) == ["c2", H2, "shop"]


def test_what_befell_a_member_before_it_came_back_hides_nothing() -> None:
    silent = group_event("silence_begun", 60, member_id="c2-id", client_id="c2", client=H2)
    lost = rebalance("session_timeout", 4, 105, trigger_member="c2-id", trigger_client_id="c2", members=[C1])
    anew = rebalance("member_joined", 5, 120, trigger_client_id="c2", members=[C1, C2 | {"member_id": "c2-new"}])
    before = tables()
    both = found(**before | {"rebalances": [*before["rebalances"], lost, anew]}, group_events=[silent])
    assert sorted(seconds(one.started) or 0 for one in both) == [60, 271]


@pytest.mark.parametrize(("since", "told"), [(10, True), (260, False)])
def test_a_broker_that_went_away_long_before(since: float, told: bool) -> None:
    gone = silence("10.0.0.3", since, None, refused=2, ended=3, ended_clients=2)
    kinds = [one.kind for one in found(**tables(), silences=[gone], cluster_events=[*BROKERS, listed(3, "10.0.0.3")])]
    assert ("client_died" in kinds) == told
