"""Packets that vanish between two hosts that live: all of them, those that are large, those of some connections."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.incidents.incident import Incident
from kafkascope.reports.incidents.network.vanished import Scope, vanished
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    H1,
    H2,
    IN_GROUP,
    Row,
    at,
    connection,
    event,
    exchange,
    finding,
    found,
    group_event,
    health,
    member,
    names,
    only,
    rebalance,
    seconds,
    signs,
    silence,
)
from tests.reports.incidents.test_slow_brokers import writes

RETRIES = (10.5, 10.7, 11.1, 11.9, 13.5, 16.7)  # of TCP, each twice as late


def stuck(number: int = 1, times: tuple[float, ...] = RETRIES, sender: str = "client", **given: Any) -> Row:
    """What one side of a connection sent, and sent again, in vain."""
    again = {"unacked_since": times[0], "timeout_retransmits": len(times) - 1} | given
    return health(number, sender, [], times, **again)


def answers(number: int, time: float, client: str = H2, broker: str = B1) -> Row:
    """Data of a broker."""
    return health(number, "broker", [], [time], broker=f"{broker}:9092", client=client)


def asks(number: int, time: float, client: str = H1, broker: str = B1, **given: Any) -> Row:
    """Data of a client that was acknowledged, unless it is given otherwise."""
    return health(number, "client", [], [time], broker=f"{broker}:9092", client=client, **given)


MINE = connection(1, opened=1, connect="established")
SERVES = answers(9, 14)  # the broker, somebody else
HEARS = answers(8, 14, client=H1, broker=B2)  # the client, another broker
HEALTH = [stuck(), SERVES, HEARS]


def of(rows: list[Row], connections: list[Row] | None = None, **tables: Any) -> list[Incident]:
    return found(tcp_health=rows, connections=[MINE] if connections is None else connections, **tables)


# --- between two hosts -----------------------------------------------------------------------------------------------


def test_what_vanishes_between_two_hosts_that_hear_others() -> None:
    one = only(tcp_health=HEALTH, connections=[MINE], cluster_events=BROKERS)
    assert (one.kind, one.severity, one.certainty) == ("path_blocked", "critical", "certain")
    assert names(one) == ["c1", "1", B1, H1]
    assert (seconds(one.started), one.ended) == (10.5, None)
    assert one.headline.startswith(f"packets between c1 ({H1}) and broker 1 ({B1}) vanish from ")
    assert one.headline.endswith(" on, though both hear others: 5 packets sent again in vain")
    assert f"what {H1} sent to {B1} was not acknowledged, and was sent again 5 times in 6.2 s" in one.evidence[0].text
    assert f"broker 1 ({B1}) sent data to others meanwhile" in one.evidence[1].text


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        ([stuck(), HEARS], []),  # nobody shows that the broker lives
        ([stuck(), answers(9, 10.9), HEARS], []),  # or that it did afterwards
        ([stuck(), answers(9, 16.8), HEARS], []),
        ([stuck(), SERVES], ["client_unreachable"]),  # nobody shows that the client hears others
        ([stuck(times=(10.5, 10.7, 11.1, 12.4)), answers(9, 12), HEARS], []),  # too short
        ([stuck(times=(10.5, 10.7, 11.1, 12.5)), answers(9, 12), answers(8, 12, H1, B2)], ["path_blocked"]),
        ([stuck(client=B1), SERVES, HEARS], []),  # nothing vanishes within a host
        ([stuck(unacked_since=None), SERVES, HEARS], []),
        ([stuck(timeout_retransmits=0), SERVES, HEARS], []),
        ([stuck(sender="broker"), asks(8, 14, broker=B2)], ["path_blocked"]),  # the other way
        ([stuck(sender="broker"), asks(8, 14, broker=B2, client=H2)], []),
    ],
)
def test_only_of_hosts_that_live(rows: list[Row], kinds: list[str]) -> None:
    assert [one.kind for one in of(rows)] == kinds


@pytest.mark.parametrize(("protocol", "kinds"), [("tls", ["path_blocked"]), ("https", []), ("unknown", [])])
def test_only_of_what_may_be_a_broker(protocol: str, kinds: list[str]) -> None:
    assert [one.kind for one in of(HEALTH, [connection(1, opened=1, client_id=None, protocol=protocol)])] == kinds


def test_what_vanishes_goes_on_over_spans() -> None:
    later = health(1, "client", [], [23.1], unacked_since=10.5, timeout_retransmits=1)
    one = only(tcp_health=[*HEALTH, later], connections=[MINE])
    assert "6 packets sent again" in one.headline
    assert "6 times in 12.6 s" in one.evidence[0].text


def test_it_ends_when_one_hears_the_other_again() -> None:
    again = [asks(2, 30.5), answers(2, 30.6, client=H1)]
    one = only(tcp_health=[*HEALTH, *again], connections=[MINE])
    assert (one.severity, seconds(one.ended)) == ("warning", 30.5)
    unheard = [asks(2, 30.5, unacked_since=30.5), answers(2, 30.6, client=H1)]  # a broker that goes on to send
    assert only(tcp_health=[*HEALTH, *unheard], connections=[MINE]).ended is None


def test_a_path_that_works_again_was_no_single_connection() -> None:
    """The last try, after the path worked again, is answered: a new connection in between shows nothing else."""
    again = [asks(2, 15.5), answers(2, 15.6, client=H1), health(1, "broker", [17], [])]
    (one,) = of([stuck(), answers(9, 12), answers(8, 12, H1, B2), *again])
    assert (one.kind, seconds(one.ended)) == ("path_blocked", 15.5)


def test_pairs_with_a_host_in_common_are_one() -> None:
    other = stuck(3, broker=f"{B2}:9092")
    rows = [stuck(), other, SERVES, answers(9, 14, broker=B2), answers(8, 14, client=H1, broker="10.0.0.3")]
    one = only(tcp_health=rows, connections=[MINE, connection(3, broker=B2)], cluster_events=BROKERS)
    assert f"between c1 ({H1}) and broker 1 ({B1}), broker 2 ({B2}) vanish" in one.headline


def test_between_brokers() -> None:
    rows = [stuck(1, client=B2), stuck(2, client=B1, broker=f"{B2}:9092"), SERVES, answers(8, 14, broker=B2)]
    between = [connection(1, client=B2, client_id="fetcher"), connection(2, client=B1, broker=B2, client_id="fetcher")]
    still = silence(B2, 12, 20, waiting=1, waiting_clients=["fetcher"], waiting_connections=2, acknowledged=9)
    one = only(tcp_health=rows, connections=between, cluster_events=BROKERS, silences=[still])
    assert one.kind == "path_blocked"
    assert f"packets between broker 1 ({B1}) and broker 2 ({B2}) vanish" in one.headline


def test_what_came_of_brokers_that_did_not_hear_each_other_is_told() -> None:
    rows = [
        stuck(1, client=B2),
        SERVES,
        answers(8, 14, broker=B2),
        asks(2, 30.5, client=B2),
        answers(2, 30.6, client=B2),
    ]
    moved = [
        event("leader_changed", 20, before="2", after="1", count=3),
        event("isr_shrunk", 20, before="1,2", after="1", partitions=["orders-0", "orders-1"]),
        event("leader_changed", 50, before="1", after="2", count=3),
    ]
    held = finding("heartbeat_held_up", "group shop", "t", 12, 14)
    one = only(
        tcp_health=rows,
        connections=[connection(1, client=B2, client_id="fetcher"), connection(2, client=B2, client_id="fetcher")],
        cluster_events=[*BROKERS, *moved],
        latency=writes(10, {900: 12}, acks=-1, client_id="c1"),
        rebalances=[IN_GROUP],
        findings=[held, finding("sent_again", f"client c1 ({H1})", "t", 12, 14)],
    )
    assert (one.kind, seconds(one.ended)) == ("path_blocked", 30.5)
    assert [effect.text for effect in one.effects] == [
        "12 writes that had to wait for replicas, of c1, took up to 900 ms on 1 broker",
        f"3 leaders moved away from broker 2 ({B2})",
        f"broker 2 ({B2}) fell out of sync of 2 partitions",
    ]
    assert len(one.findings) == 2


def test_a_broker_stands_still_if_others_wait_too() -> None:
    still = silence(B1, 11, 20, waiting=2, waiting_clients=["c1"], waiting_connections=2, acknowledged=9)
    for waiting, kinds in ((["c1"], ["path_blocked"]), (["c2"], ["broker_stalled", "path_blocked"])):
        stalls = [still | {"waiting_clients": waiting}]
        assert sorted(one.kind for one in of(HEALTH, silences=stalls, cluster_events=BROKERS)) == kinds


def test_packets_sent_in_vain_are_not_lost_ones() -> None:
    many = stuck(retransmits=20, packets=30, acknowledgements=1)
    assert [one.kind for one in of([many | {"timeout_retransmits": 20}, SERVES, HEARS])] == ["path_blocked"]
    kinds = [one.kind for one in of([many | {"timeout_retransmits": 9}, SERVES, HEARS])]
    assert sorted(kinds) == ["network_loss", "path_blocked"]


# --- connects --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reached", "told"), [([connection(9, client=H2, opened=1, connect="established")], True), ([], False)]
)
def test_connects_that_nobody_answers_though_others_are(reached: list[Row], told: bool) -> None:
    connects = [connection(1, opened=10.5, connect="unanswered", protocol="empty", client_id=None), *reached]
    incidents = of(HEALTH, connects)
    assert [one.kind for one in incidents] == ["path_blocked"] * told
    if told:
        assert "1 connect in vain" in incidents[0].headline
        assert incidents[0].certainty == "likely"
        assert incidents[0].evidence[0].packet == 1


@pytest.mark.parametrize(
    ("count", "by", "served", "told"),
    [(3, H2, 14, True), (2, H2, 14, False), (3, H1, 14, False), (3, H2, 30, False)],
)
def test_connects_that_are_refused_though_others_are_not(count: int, by: str, served: float, told: bool) -> None:
    times = [10 + 4 * n for n in range(count)]
    refused = [connection(time, opened=time, connect="refused", protocol="empty", client_id=None) for time in times]
    other = connection(15, client=by, opened=12, connect="established", client_id="c2")
    incidents = of([answers(9, served), HEARS], [*refused, other], cluster_events=BROKERS)
    assert [one.kind for one in incidents] == ["path_blocked"] * told
    if told:
        assert f"connects of {H1} to broker 1 ({B1}) are refused" in incidents[0].headline
        assert "though others reach it: 3 connects in vain" in incidents[0].headline


# --- connections -----------------------------------------------------------------------------------------------------

NEW = [connection(2, opened=15, connect="established"), asks(2, 15.2), answers(2, 15.3, client=H1)]


def test_connections_that_something_in_between_forgot() -> None:
    before = health(1, "client", [], [2.0])
    one = only(tcp_health=[before, *HEALTH[:2], *NEW[1:]], connections=[MINE, NEW[0]], cluster_events=BROKERS)
    assert (one.kind, one.severity, one.certainty) == ("connection_dropped", "warning", "likely")
    assert (seconds(one.started), seconds(one.ended)) == (10.5, 15)
    assert one.headline.startswith(f"1 connection between c1 ({H1}) and broker 1 ({B1}) went dead without a word at ")
    assert one.headline.endswith(", while others between them work: 5 packets sent again in vain")
    assert "(connection 1, 8.5 s after its last packet)" in one.evidence[0].text


@pytest.mark.parametrize(("idle", "told"), [(30, True), (29, False)])
def test_how_long_they_had_been_idle(idle: int, told: bool) -> None:
    late = tuple(60 + time for time in RETRIES)
    before = health(1, "client", [], [late[0] - idle])
    rows = [before, stuck(times=late), answers(9, 74), asks(2, 75.2), answers(2, 75.3, client=H1)]
    one = only(tcp_health=rows, connections=[MINE, connection(2, opened=75, connect="established")])
    assert ("idle for 30.0 s before" in one.headline) == told


@pytest.mark.parametrize(
    "others",
    [
        [answers(2, 15.3, client=H1)],  # the broker goes on to send, and nobody shows that it hears
        [asks(2, 15.2, unacked_since=15.2), answers(2, 15.3, client=H1)],
        [asks(2, 15.2)],
    ],
)
def test_others_work_only_where_what_is_sent_is_acknowledged(others: list[Row]) -> None:
    (one,) = of([*HEALTH, *others], [MINE, connection(2, opened=2, connect="established")])
    assert one.kind == "path_blocked"


@pytest.mark.parametrize(("later", "kind"), [(15.4, "connection_dropped"), (18.0, "path_blocked")])
def test_what_is_acknowledged_once_a_host_is_back_shows_nothing_of_the_time_before(later: float, kind: str) -> None:
    """Within ten seconds the broker hears all again, and says something then."""
    heard = [asks(2, 15.2), answers(2, later, client=H1)]
    (one,) = of([*HEALTH, *heard], [MINE, connection(2, opened=2, connect="established")])
    assert one.kind == kind


def test_a_new_connection_works_as_soon_as_the_broker_says_something() -> None:
    stuck_again = [asks(2, 15.2, unacked_since=15.2), answers(2, 15.3, client=H1)]
    (one,) = of([*HEALTH, *stuck_again], [MINE, NEW[0]])
    assert one.kind == "connection_dropped"


def test_many_that_go_dead_at_once_are_one() -> None:
    second = [stuck(4, client=H2), asks(5, 15.2, client=H2), answers(5, 15.3)]
    rows = [stuck(), *NEW[1:], *second]
    connections = [MINE, NEW[0], connection(4, client=H2, client_id="c2"), connection(5, client=H2, opened=15)]
    one = only(tcp_health=rows, connections=connections, cluster_events=BROKERS)
    assert one.headline.startswith(f"2 connections between c1 ({H1}), c1, c2 ({H2}) and broker 1 ({B1}) went dead")


# --- sizes -----------------------------------------------------------------------------------------------------------


def sized(number: int, connection: int, time: float, request: int, response: int | None, **given: Any) -> Row:
    """An exchange of so many bytes."""
    answered = None if response is None else time + 0.01
    outcome = "unanswered" if response is None else "answered"
    return exchange(
        number,
        "Produce",
        time,
        answered,
        connection=connection,
        request_done=at(time),
        response_done=None if answered is None else at(answered),
        request_bytes=request,
        response_bytes=response or 0,
        outcome=outcome,
        **given,
    )


TWICE = [stuck(1), stuck(2, (12.5, 12.7, 13.1, 13.9, 15.5, 18.7)), *NEW[1:]]
OTHERS = [asks(3, 14.2), answers(3, 14.3, client=H1), SERVES]
AGAIN = [MINE, connection(2, opened=12, connect="established"), connection(3, opened=14, connect="established")]


@pytest.mark.parametrize(
    ("large", "kind"),
    [((1500, 1301), "path_blocked"), ((1500, 1300), "connection_dropped"), ((1500,), "connection_dropped")],
)
def test_large_packets_vanish_on_each_connection(large: tuple[int, ...], kind: str) -> None:
    stuck_ones = [sized(n, n, time, size, None) for (n, time), size in zip(((1, 10.5), (2, 12.5)), large, strict=False)]
    through = [sized(3, 3, 14.2, 100, 50), sized(4, 2, 12.1, 1300, 50)]
    rows = [row for row in TWICE if row["connection"] != 2 or row["unacked_since"] is not None]
    (one,) = of([*rows, *OTHERS], AGAIN, exchanges=[*stuck_ones, *through])
    assert one.kind == kind
    if kind == "path_blocked":
        assert (one.certainty, one.severity, one.ended) == ("certain", "critical", None)
        assert "large packets between" in one.headline
        assert "requests of 1,301 bytes and more were never acknowledged, those of up to 1,300 bytes got through" in (
            one.headline
        )
        assert one.headline.endswith("; 2 requests were never answered")


@pytest.mark.parametrize(("opened", "kind"), [(10.3, "path_blocked"), (9.9, "connection_dropped")])
def test_what_got_through_at_first_on_a_new_connection_counts(opened: float, kind: str) -> None:
    """Else it may have been before anything was wrong."""
    new = [MINE | {"opened": at(opened), "connect": "established"}, *AGAIN[1:]]
    stuck_ones = [sized(1, 1, 10.5, 1500, None), sized(2, 2, 12.5, 1400, None)]
    through = [sized(3, 1, 10.4, 42, 800), sized(4, 2, 12.4, 42, 800)]
    rows = [row for row in TWICE if row["connection"] != 2 or row["unacked_since"] is not None]
    (one,) = of([*rows, *OTHERS], new, exchanges=[*stuck_ones, *through])
    assert one.kind == kind


def test_large_answers_vanish() -> None:
    rows = [
        row | {"sender": "broker", "host": B1} for row in (stuck(1), stuck(2, (12.5, 12.7, 13.1, 13.9, 15.5, 18.7)))
    ]
    works = [answers(3, 14.2, client=H1), asks(3, 14.3), asks(8, 14, broker=B2)]
    exchanges = [
        sized(1, 1, 10.5, 100, 65_000),
        sized(2, 2, 12.5, 100, 66_000),
        sized(3, 3, 14.2, 100, 300),
        sized(4, 3, 14.4, 100, 200),
    ]
    (one,) = of([*rows, *works], AGAIN, exchanges=exchanges)
    assert "answers of 65,000 bytes and more were never acknowledged, those of up to 300 bytes" in one.headline


# --- members ---------------------------------------------------------------------------------------------------------

COORDINATOR = group_event("coordinator_found", 5, detail=f"{B1}:9092 (node 1)")
SILENT = group_event("silence_begun", 10, member_id="c1-id", client_id="c1", client=H1)
LOST = rebalance("session_timeout", 5, 20, trigger_member="c1-id", trigger_client_id="c1")


@pytest.mark.parametrize(
    ("rows", "coordinator", "kinds"),
    [
        (HEALTH, B1, ["path_blocked"]),
        (HEALTH, B2, ["client_unreachable", "path_blocked"]),  # it has nothing to do with it
        (HEALTH[:2], B1, ["client_unreachable"]),
    ],
)
def test_a_member_whose_coordinator_does_not_hear_it(rows: list[Row], coordinator: str, kinds: list[str]) -> None:
    told = COORDINATOR | {"detail": f"{coordinator}:9092 (node 1)"}
    of_group: dict[str, Any] = {"rebalances": [LOST], "group_events": [told, SILENT], "cluster_events": BROKERS}
    incidents = of(rows, **of_group)
    assert sorted(one.kind for one in incidents) == kinds
    if len(kinds) == 1:
        (one,) = incidents
        assert one.rebalances == {("shop", 5)}
        assert "1 rebalance" in one.headline
    else:
        assert [one.rebalances for one in incidents if one.kind == "path_blocked"] == [frozenset()]
    if kinds == ["client_unreachable"]:
        assert "was cut off from the network" in incidents[0].headline
        assert "was taken out of group shop after 9.5 s of silence" in incidents[0].headline


@pytest.mark.parametrize(
    ("session_ms", "kinds"),
    [(10_000, ["path_blocked"]), (3_000, ["client_died", "path_blocked"]), (None, ["client_died", "path_blocked"])],
)
def test_a_member_that_spoke_in_vain_was_silent_to_its_group_for_its_session(
    session_ms: int | None, kinds: list[str]
) -> None:
    known = [member("c1") | {"session_timeout_ms": session_ms}]
    rows = [rebalance("member_joined", 4, 2, members=known), LOST]
    incidents = of(HEALTH, rebalances=rows, group_events=[COORDINATOR], cluster_events=BROKERS)
    assert sorted(one.kind for one in incidents) == kinds
    (path,) = [one for one in incidents if one.kind == "path_blocked"]
    assert (("shop", 5) in path.rebalances) == (len(kinds) == 1)


def test_a_client_that_nobody_hears() -> None:
    unanswered = finding("unanswered", f"client c1 ({H1})", "Requests never answered", 10, 20)
    (one,) = of([stuck(), SERVES], findings=[unanswered])
    assert (one.kind, one.certainty) == ("client_unreachable", "likely")
    assert f"c1 ({H1}) was cut off from the network from " in one.headline
    assert one.headline.endswith(": nothing that it sent was acknowledged")
    assert one.findings == {unanswered["id"]}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_where_one_broker_alone_was_captured_the_path_to_it_may_be_blocked(elsewhere: bool) -> None:
    others = [connection(7, broker=B2, opened=1, packets_down=int(elsewhere))]
    (one,) = of([stuck(), SERVES], [MINE, *others], cluster_events=BROKERS)
    assert (one.kind, one.certainty) == ("client_unreachable", "likely" if elsewhere else "guessed")
    off = "the network" if elsewhere else f"broker 1 ({B1}), or from the network"
    assert f"c1 ({H1}) was cut off from {off} from " in one.headline
    assert ("whether others heard it is not in the capture" in one.headline) != elsewhere


def test_scopes() -> None:
    made = vanished(signs(tcp_health=HEALTH, connections=[MINE]))
    assert [(one.client, one.broker, one.scope, one.until) for one in made] == [(H1, B1, Scope.PATH, None)]
    assert made[0].overlaps(made[0].last, made[0].last + 1)
    assert not made[0].overlaps(made[0].last + 1, made[0].last + 2)
