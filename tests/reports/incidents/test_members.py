"""Members that were lost: dead, frozen or cut off."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Incident
from kafkascope.reports.incidents.members import members
from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    H1,
    H2,
    HELD,
    IN_GROUP,
    Row,
    at,
    begun,
    committed,
    connection,
    error,
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
    tables_read,
)

# A member is heard last after 30 s, and taken out after 40 s.
SILENT = group_event("silence_begun", 30, member_id="c1-id", client_id="c1", client=H1)
LOST = rebalance("session_timeout", 5, 40, trigger_member="c1-id", trigger_client_id="c1")
LIVES = connection(1, opened=1)
SENT = health(1, "client", [30], [30])


def lost(*rows: Row, **tables: Any) -> list[Incident]:
    """Incidents of a group that lost members."""
    known: dict[str, Any] = {"group_events": [SILENT], "connections": [LIVES], "tcp_health": [SENT]}
    return found(rebalances=list(rows or [LOST]), **known | tables)


# --- what became of it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("closed", "died"), [(29, True), (28.9, False), (39.9, True), (40, False), (None, False)])
@pytest.mark.parametrize("how", [{"how_closed": "fin"}, {"how_closed": "rst", "reset_by": "client"}])
def test_a_process_that_ends_has_its_connections_closed_by_its_kernel(
    closed: float | None, died: bool, how: dict[str, str]
) -> None:
    (one,) = lost(connections=[connection(1, opened=1, closed=closed, **how)])
    assert (one.kind == "client_died") == died
    if died and closed is not None:
        assert one.certainty == "certain"
        ended = max(closed, 30)  # by its connections, or as it was heard last
        assert f"c1 ({H1}) ended without leaving at {clock(at(ended))}" in one.headline
        assert "taken out of group shop after 10.0 s of silence" in one.headline
        assert names(one) == ["c1", H1, "shop"]
        assert (seconds(one.started), seconds(one.ended)) == (ended, 41)
        assert one.evidence[-1].packet == 1


def refused(first: float, last: float, name: str = "GROUP_AUTHORIZATION_FAILED", client_id: str = "c1") -> Row:
    return error(name, "Heartbeat", first, last, 2, client_id=client_id)


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (refused(20, 29), True),
        (refused(31, 35), True),
        (refused(31.1, 35), False),  # it had ended
        (refused(1, 14), False),  # it went on
        (refused(20, 29, client_id="c2"), False),
        (refused(20, 29, "TOPIC_AUTHORIZATION_FAILED"), False),  # it may leave
    ],
)
def test_one_that_ends_as_its_group_refuses_it_may_not_leave(before: Row, told: bool) -> None:
    gone = connection(1, opened=1, closed=30, how_closed="fin")
    (one,) = lost(connections=[gone], error_histogram=[before])
    words = f" at {clock(at(30))}, after GROUP_AUTHORIZATION_FAILED for Heartbeat, and was taken out of group shop"
    assert (words in one.headline, "Read on the group" in one.advice) == (told, told)


@pytest.mark.parametrize("whose", ["c1", "c2"])
def test_one_that_ends_as_it_is_refused_is_told_with_that(whose: str) -> None:
    gone = connection(1, opened=1, closed=30, how_closed="fin")
    failed = finding("authorization_failed", f"client {whose} ({H1})", "2 errors", 20, 29, client_ids=[whose])
    incidents = lost(connections=[gone], error_histogram=[refused(20, 29)], findings=[failed])
    if whose == "c2":
        assert sorted(one.kind for one in incidents) == ["authorization_failed", "client_died"]
        return
    (one,) = incidents
    assert (one.kind, one.severity, seconds(one.started), seconds(one.ended)) == (
        "authorization_failed",
        "warning",
        20,
        41,
    )
    assert f"; c1 ({H1}) ended without leaving at {clock(at(30))}, and was taken out of group shop" in one.headline
    assert names(one) == ["c1", H1, "shop"]
    assert one.rebalances == {("shop", 5)}
    assert one.advice.startswith("Give the principal of c1 what it needs")
    assert one.evidence[0].text == "its last word to the group"


@pytest.mark.parametrize("protocol", ["consumer", "share", "streams"])
def test_how_long_sessions_are_is_told_by_the_group_where_members_do_not_tell_it(protocol: str) -> None:
    gone = connection(1, opened=1, closed=30, how_closed="fin")
    (one,) = lost(LOST | {"protocol": protocol, "reread_records": 1}, connections=[gone])
    assert "taken out of group shop after up to 10.0 s of silence" in one.headline
    assert one.headline.endswith("; 1 record was read again")
    assert f"A shorter {protocol}.session.timeout.ms of the group (kafka-configs --entity-type groups) f" in one.advice
    (one,) = lost(connections=[gone])
    assert "A shorter session.timeout.ms finds" in one.advice


@pytest.mark.parametrize(("member_id", "closed", "told"), [("c1-id", 30, True), ("c1-id", 40, False), ("x", 30, False)])
def test_a_member_whose_session_the_capture_lacks_died_when_its_connection_ended(
    member_id: str, closed: float, told: bool
) -> None:
    """How long its session is it said before the capture began: so nothing tells since when it was silent."""
    ended = group_event("connection_ended", closed, member_id=member_id, client_id="c1", client=H1)
    taken_out = LOST | {"certainty": "guessed"}
    gone = connection(1, opened=1, closed=closed, how_closed="fin")
    (one,) = lost(taken_out, group_events=[ended], connections=[gone])
    assert (f"ended without leaving at {clock(at(30))}" in one.headline) == told
    assert (one.certainty == "likely") == told
    assert ("the capture leaves it open" in one.headline) != told
    assert "of silence" not in one.headline


def test_what_a_lost_worker_of_connect_ran_is_missed_until_it_is_given_out() -> None:
    work = [{"partition": name, "since": at(30), "ms": 22_000.0} for name in ("connector:src", "task:src-0")]
    given_out = [
        rebalance("scheduled_delay", 6, 52, unowned=work, unowned_ms=22_000.0),
        rebalance("scheduled_delay", 7, 99, unowned=work, unowned_ms=50_000.0),
    ]
    (one,) = lost(LOST, *given_out)
    assert one.headline.endswith("; 2 rebalances; nobody ran connector:src · task:src 0 for up to 22.0 s")
    assert one.rebalances == {("shop", 5), ("shop", 6)}
    (one,) = lost(LOST | {"unowned": [{"partition": "t-0", "since": at(30), "ms": 9.0}], "unowned_ms": 9.0}, *given_out)
    assert "nobody read or ran connector:src · t 0 · task:src 0 for up to 22.0 s" in one.headline


ENDS_SESSION = '{"maxWaitMs": 500, "sessionId": 77, "sessionEpoch": -1, "topics": []}'


def ends_session(connection: int = 1, time: float = 31, request: str = ENDS_SESSION, **given: Any) -> Row:
    """A fetch by which a client that is closed ends its session."""
    return exchange(9, "Fetch", time, time + 0.1, api_key=1, connection=connection, request=request, **given)


@pytest.mark.parametrize(
    ("row", "closed"),
    [
        (ends_session(), True),
        (ends_session(request=ENDS_SESSION.replace("77", "-77")), True),
        (ends_session(request=ENDS_SESSION.replace("77", "0")), False),  # it never had one
        (ends_session(request=ENDS_SESSION.replace("-1", "4")), False),
        (ends_session(connection=2), False),
        (ends_session(time=29.9), False),  # it went on
        (ends_session(client_id="c2"), False),
        (ends_session(request='{"sessionId"'), False),
    ],
)
def test_a_client_that_ends_its_fetch_sessions_was_closed(row: Row, closed: bool) -> None:
    (one,) = lost(connections=[connection(1, opened=1, closed=32, how_closed="fin")], exchanges=[row])
    assert (one.kind, one.severity) == ("client_died", "warning")
    assert ("c1 (10.0.1.1) was closed without leaving" in one.headline) == closed
    assert one.advice.startswith("Nothing, if it was stopped on purpose") == closed
    assert (one.evidence[-1].packet == 9) == closed


def closings(*starts: float, back: bool = True) -> list[Incident]:
    """Members that are closed one after the other, on hosts of their own, and start anew before their sessions end."""
    names = [f"s{number}" for number, _ in enumerate(starts)]
    silent = [
        group_event("silence_begun", start, member_id=f"{name}-id", client_id=name, client=f"10.0.1.{number}")
        for number, (name, start) in enumerate(zip(names, starts, strict=True))
    ]
    ended = [
        connection(number, f"10.0.1.{number}", client_id=name, opened=1, closed=start + 1, how_closed="fin")
        for number, (name, start) in enumerate(zip(names, starts, strict=True))
    ]
    expired = [
        {"trigger": "session_timeout", "client_id": name, "at": at(start + 9), "packet": 3}
        for name, start in zip(names, starts, strict=True)
    ]
    rows = [
        rebalance("member_joined", 5 + number, start + 6, trigger_client_id=name if back else "x", contributing=[also])
        for number, (name, start, also) in enumerate(zip(names, starts, expired, strict=True))
    ]
    fetches = [
        ends_session(number, start, client_id=name)
        for number, (name, start) in enumerate(zip(names, starts, strict=True))
    ]
    return found(rebalances=rows, group_events=silent, connections=ended, exchanges=fetches)


def test_members_that_are_closed_in_turn_and_come_back_are_deployed() -> None:
    (one,) = closings(30, 60, 660)
    assert (one.kind, one.severity) == ("client_deploy", "info")
    assert one.headline.startswith(
        "s0, s1, s2 (10.0.1.0, 10.0.1.1, 10.0.1.2) were closed without leaving one after the"
    )
    assert "and were taken out of group shop, and came back; 3 rebalances" in one.headline


def test_one_that_is_closed_and_comes_back_was_restarted() -> None:
    (one,) = closings(30)
    assert (one.kind, one.severity) == ("client_died", "info")
    assert "it was back at" in one.headline
    assert [(one.kind, one.severity) for one in closings(30, 661)] == [("client_died", "info")] * 2


def test_members_that_are_closed_and_stay_away_may_be_missed() -> None:
    (one,) = closings(30, 60, back=False)
    assert (one.kind, one.severity) == ("client_died", "warning")


@pytest.mark.parametrize(("lost_again", "kind"), [(0, "client_frozen"), (1, "client_unreachable")])
def test_one_that_goes_on_with_its_connections_as_if_nothing_had_been_stood_still(lost_again: int, kind: str) -> None:
    again = health(1, "client", [45], [45], timeout_retransmits=lost_again)
    (one,) = lost(tcp_health=[SENT, again])
    assert (one.kind, one.certainty) == (kind, "guessed")  # a cut between it and the capture would look the same
    lived = kind == "client_frozen"
    dead = "" if lived else "dead, "
    assert f"fell silent ({dead}frozen or cut off: the capture leaves it open)" in one.headline
    assert ("out of memory" in one.advice) != lived
    (one,) = lost(tcp_health=[health(1, "client", [30, 30.4], [30]), again])  # it was answered, and asked for no more
    assert one.kind == kind
    assert ("froze, or was busy, at" in one.headline) == lived  # busy: its library is not known
    (one,) = lost(tcp_health=[SENT, again], connections=[connection(1, opened=41)])  # it is not one that it had
    assert one.kind == "client_unreachable"
    (one,) = lost(tcp_health=[SENT, again], connections=[connection(1, packets_down=0)])  # what brokers sent is missing
    assert one.kind == "client_unreachable"


def test_one_that_polled_last_in_a_rebalance_gives_up_too_slowly() -> None:
    who = member("c1") | {"rebalance_timeout_ms": 10_000}
    row = rebalance("poll_timeout", 4, 32, trigger_client_id="c1", members=[who])
    left = group_event("left", 32, client_id="c1", detail="consumer poll timeout has expired.")
    for told_at, kind in ((22.5, "slow_revocation"), (22.6, "slow_processing")):
        told = group_event("heartbeat_refused", told_at, client_id="c1", detail="REBALANCE_IN_PROGRESS")
        one = only(rebalances=[row], group_events=[told, left])
        assert one.kind == kind
        assert ("take longer to give up their partitions" in one.headline) == (kind == "slow_revocation")


@pytest.mark.parametrize(
    ("assignors", "keeps", "kind"),
    [
        (["range"], ["t-0"], "slow_processing"),  # it gave up all before it joined
        (["cooperative-sticky"], ["t-0"], "slow_revocation"),
        (["cooperative-sticky"], ["t-0", "t-1"], "slow_processing"),
    ],
)
def test_one_that_joins_has_what_it_gives_up_behind_it_or_before_it(
    assignors: list[str], keeps: list[str], kind: str
) -> None:
    before = {"assignors": assignors, "assignment_before": ["t-0", "t-1"], "assignment": keeps}
    who = member("c1") | before | {"rebalance_timeout_ms": 10_000, "joined": at(21.9), "synced": at(22)}
    rows = [
        rebalance("member_joined", 4, 21, trigger_client_id="c2", members=[who]),
        rebalance("poll_timeout", 5, 32, trigger_client_id="c1"),
    ]
    events = [
        group_event("heartbeat_refused", 21.8, client_id="c1", detail="REBALANCE_IN_PROGRESS"),
        group_event("left", 32, client_id="c1", detail="consumer poll timeout has expired."),
    ]
    assert only(rebalances=rows, group_events=events).kind == kind


@pytest.mark.parametrize(
    ("sent", "received", "kind", "befell"),
    [
        (health(1, "client", [30, 32.5], [30, 32.5]), [33, 35], "client_unreachable", 32.5),
        (health(1, "client", [30, 32.5, 33, 39], [30, 32.5]), [33, 35], "client_frozen", 32.5),
        (health(1, "client", [29], [29]), [33, 35], "client_unreachable", 30),  # its last word to the group was later
        (health(1, "client", [30, 39.5], [30, 39.5]), [33], "client_frozen", 30),  # the member alone fell silent
    ],
)
def test_it_befell_a_member_when_it_was_heard_last_on_whatever_connection(
    sent: Row, received: list[float], kind: str, befell: float
) -> None:
    (one,) = lost(tcp_health=[sent, health(1, "broker", received, received)])
    assert (one.kind, seconds(one.started)) == (kind, befell)


@pytest.mark.parametrize(
    ("fins", "closed_by", "data", "died"),
    [
        ((22.5, 22.5), "client", 22, 22.65),
        ((22.6, 22.5), "client", 22, 22.65),
        ((22.5, 22.4), "client", 22, 30),  # it did not close that one then
        ((22.5, None), "client", 22, 30),
        ((22.5, 22.5), "broker", 22, 30),
        ((22.5, 22.5), "client", 22.5, 22.65),
        ((22.5, 22.5), "client", 23, 30),  # it said something since
    ],
)
def test_one_that_dies_as_a_broker_stands_still_died_when_it_closed_all_that_it_had(
    fins: tuple[float, float | None], closed_by: str, data: float, died: float
) -> None:
    """The broker ends its side of that, or is answered with a reset, as it goes on."""
    ended = [
        connection(1, opened=1, closed=22.65, how_closed="fin"),
        connection(2, opened=1, closed=30, how_closed="rst", reset_by="client"),
        connection(3, opened=1, closed=30, how_closed="fin", closed_by=closed_by),
    ]
    sent = [health(n, "client", [20, fin] if fin else [20], []) for n, fin in enumerate(fins, 2)]
    (one,) = lost(connections=ended, tcp_health=[health(1, "client", [data], [data]), *sent])
    assert (one.kind, seconds(one.started)) == ("client_died", died)


def test_what_was_heard_in_a_tenth_of_a_second_was_not_before_its_last_word() -> None:
    silent = group_event("silence_begun", 30.05, member_id="c1-id", client_id="c1", client=H1)
    (one,) = lost(group_events=[silent], tcp_health=[SENT, health(1, "broker", [33, 35], [33, 35])])
    assert (one.kind, seconds(one.started)) == ("client_unreachable", 30.05)


@pytest.mark.parametrize(
    ("others", "died"),
    [
        ((22.5, 22.6), 22.5),
        ((22.5, 24), 24),  # it closed one, as clients do with what is idle, and had another
        ((22.5, 31), 30),
        ((21, 22.6), 22.6),  # it said something since
    ],
)
def test_one_that_dies_as_it_waits_for_a_rebalance_died_when_it_closed_what_else_it_had(
    others: tuple[float, float], died: float
) -> None:
    """It is answered after 30 s: a session begins with that, and its host resets the connection."""
    waits = connection(1, opened=1, closed=30, how_closed="rst", reset_by="client")
    ended = [connection(n, opened=2, closed=time, how_closed="fin") for n, time in enumerate(others, 2)]
    (one,) = lost(connections=[waits, *ended], tcp_health=[health(1, "client", [22], [22])])
    assert (one.kind, seconds(one.started)) == ("client_died", died)
    assert f"after {40 - died:.1f} s of silence" in one.headline


@pytest.mark.parametrize(
    ("reset", "other", "spoke", "died"),
    [
        (30.05, 29.6, None, 29.6),
        (30.2, 29.6, None, 30),  # by what it did after that
        (30.05, 29.6, 29.8, 30),  # it lived on
        (30.05, 29.8, None, 30),  # it closed another one later
    ],
)
def test_one_that_dies_as_it_waits_shortly_died_when_it_closed_what_else_it_had(
    reset: float, other: float, spoke: float | None, died: float
) -> None:
    ended = [
        connection(1, opened=1, closed=reset, how_closed="rst", reset_by="client"),
        *(connection(n, opened=2, closed=time, how_closed="fin") for n, time in enumerate((29.6, other), 2)),
    ]
    data = [29.5, *([spoke] if spoke else [])]
    (one,) = lost(connections=ended, tcp_health=[health(1, "client", data, data)])
    assert (one.kind, seconds(one.started)) == ("client_died", died)


@pytest.mark.parametrize(
    ("besides", "kind"),
    [
        ([], "client_unreachable"),  # nothing was sent to it: nobody can tell
        ([health(1, "client", [45], [45])], "client_frozen"),  # it goes on as if nothing had been
        ([health(2, "client", [33, 39], [])], "client_frozen"),  # its host alone went on, on another connection
    ],
)
def test_so_it_did_where_less_is_known(besides: list[Row], kind: str) -> None:
    (one,) = lost(tcp_health=[health(1, "client", [30, 32.5], [30, 32.5]), *besides])
    assert (one.kind, seconds(one.started)) == (kind, 32.5)


def test_what_brokers_or_others_on_the_host_close_is_no_end_of_it() -> None:
    for row in (
        connection(1, opened=1, closed=35, how_closed="rst", reset_by="broker"),
        connection(1, client_id="c2", opened=1, closed=35, how_closed="fin"),
        connection(1, client_id=None, opened=1, closed=35, how_closed="fin"),
    ):
        (one,) = lost(connections=[row])
        assert one.kind != "client_died"


@pytest.mark.parametrize(("closed", "died"), [((31,), False), ((31, 31), True)])
@pytest.mark.parametrize("goes_on", [None, 40, 39.9])
def test_one_connection_of_several_that_is_closed_is_no_end_of_it(
    closed: tuple[float, ...], died: bool, goes_on: float | None
) -> None:
    ended = [connection(n, opened=1, closed=at, how_closed="fin", exchanges=5) for n, at in enumerate(closed, 1)]
    other = connection(9, opened=2, closed=goes_on, how_closed="open" if goes_on is None else "fin", exchanges=5)
    (one,) = lost(connections=[*ended, other])
    assert (one.kind == "client_died") == (died or goes_on == 39.9)
    unused = other | {"exchanges": 0}
    (one,) = lost(connections=[*ended, unused])
    assert one.kind == "client_died"


def test_what_ends_with_a_broker_is_no_end_of_its_client() -> None:
    gone = silence(B2, 30.5, None, refused=2, ended=3, ended_clients=2)
    ended = connection(2, broker=B2, opened=1, closed=31, how_closed="fin")
    told = lost(connections=[ended], silences=[gone])
    assert {one.kind for one in told} == {"broker_down", "client_unreachable"}
    told = lost(connections=[ended | {"broker": B1}], silences=[gone])
    assert {one.kind for one in told} == {"broker_down", "client_died"}


def test_packets_to_a_host_that_says_nothing_any_more_show_that_it_is_cut_off() -> None:
    asked = health(1, "broker", [32, 34, 39.9], [32])
    (one,) = lost(tcp_health=[SENT, asked])
    assert (one.kind, one.certainty) == ("client_unreachable", "certain")
    assert "was cut off from the network" in one.headline
    assert one.evidence[1].text.startswith("brokers sent it packets in 3 tenths of a second after that")


def test_where_nothing_was_sent_to_it_nobody_can_tell() -> None:
    (one,) = lost()
    assert (one.kind, one.certainty) == ("client_unreachable", "guessed")
    assert one.advice.startswith("See whether its process still runs")
    assert "fell silent (dead, frozen or cut off: the capture leaves it open)" in one.headline
    elsewhere = health(2, "broker", [32], [32])  # a connection of another client
    assert lost(tcp_health=[SENT, elsewhere]) == lost()


def test_a_host_that_acknowledges_and_sends_no_data_is_frozen() -> None:
    (one,) = lost(IN_GROUP, LOST, tcp_health=[SENT, health(1, "client", [32, 39.9], [])])
    assert (one.kind, one.certainty) == ("client_frozen", "likely")
    assert "c1 (10.0.1.1) froze at" in one.headline
    assert "(2 tenths of a second with packets, none with data)" in one.evidence[1].text


def test_one_that_freezes_again_within_a_minute() -> None:
    back = rebalance("member_joined", 6, 45, trigger_member="c1-new", trigger_client_id="c1")
    again = rebalance("session_timeout", 7, 60, trigger_member="c1-new", trigger_client_id="c1")
    silent = group_event("silence_begun", 50, member_id="c1-new", client_id="c1", client=H1)
    alive = [health(1, "client", [second + 2, second + 9.9], []) for second in (30, 50)]
    (one,) = lost(IN_GROUP, LOST, back, again, group_events=[SILENT, silent], tcp_health=[SENT, *alive])
    assert f"c1 (10.0.1.1) froze 2 times, from {clock(at(30))} to {clock(at(50))}, and was taken out" in one.headline
    assert "back" not in one.headline


@pytest.mark.parametrize(
    ("given", "of_leader", "busy"),
    [
        ({}, {}, True),
        ({"stable": 31}, {}, False),  # it had sent it
        ({"leader": "c2-id"}, {}, False),
        ({}, {"join_ms": 2_998.0}, False),  # it went on with heartbeats
        ({}, {"join_ms": None}, False),
        ({}, {"host": H2}, False),
    ],
)
def test_a_leader_that_falls_silent_with_the_list_of_members_may_be_busy_with_the_assignment(
    given: Row, of_leader: Row, busy: bool
) -> None:
    """Java clients send no heartbeats while they assign."""
    leader = member("c1") | {"joined": at(27), "join_ms": 3_000.0} | of_leader
    known: dict[str, Any] = {"leader": "c1-id", "joined": 30, "stable": None} | given
    before = rebalance("member_joined", 4, 27, members=[leader, member("c2", H2)], **known)
    (one,) = lost(IN_GROUP, before, LOST, tcp_health=[SENT, health(1, "client", [32, 39.9], [])])
    assert (one.kind, one.certainty) == ("client_frozen", "guessed" if busy else "likely")
    assert f"c1 (10.0.1.1) froze{', or was busy in its assignor,' * busy} at" in one.headline
    assert ("how long its assignor takes" in one.advice, one.evidence[-1].rejected) == (busy, busy)


@pytest.mark.parametrize(
    "before", [[], [rebalance("member_joined", 4, 5, members=[member("c1") | {"software": None}])]]
)
def test_one_of_an_unknown_library_may_have_been_busy(before: list[Row]) -> None:
    (one,) = lost(*before, LOST, tcp_health=[SENT, health(1, "client", [32, 39.9], [])])
    assert (one.kind, one.certainty) == ("client_frozen", "guessed")
    assert "c1 (10.0.1.1) froze, or was busy, at" in one.headline
    assert one.advice.startswith("See how long the application takes over a record")
    assert [seen.rejected for seen in one.evidence] == [False, False, True]


@pytest.mark.parametrize(("protocol", "certainty"), [("classic", "likely"), ("consumer", "guessed")])
def test_one_of_librdkafka_with_the_consumer_protocol_may_have_been_busy(protocol: str, certainty: str) -> None:
    who = member("c1") | {"software": "confluent-kafka-python", "software_version": "2.16.1-rdkafka-2.16.0"}
    before = rebalance("member_joined", 1, 5, protocol=protocol, members=[who])
    (one,) = lost(before, LOST | {"protocol": protocol}, tcp_health=[SENT, health(1, "client", [32, 39.9], [])])
    assert (one.kind, one.certainty) == ("client_frozen", certainty)
    assert ("max.poll.interval.ms" in one.advice) == (protocol == "consumer")
    assert [seen.rejected for seen in one.evidence][2:] == [True] * (protocol == "consumer")


@pytest.mark.parametrize(("last", "kind"), [(36.9, "client_unreachable"), (37.1, "client_frozen")])
def test_silence_of_a_host_has_to_last_a_part_of_the_session(last: float, kind: str) -> None:
    (one,) = lost(tcp_health=[SENT, health(1, "client", [last], [])])
    assert one.kind == kind


def test_a_member_whose_neighbour_is_well_is_silent_and_no_more_is_known() -> None:
    neighbour = health(2, "client", [39.9], [39.9])
    (one,) = lost(connections=[LIVES, connection(2, client_id="c2", opened=1)], tcp_health=[SENT, neighbour])
    assert (one.kind, one.certainty) == ("client_frozen", "guessed")
    assert "fell silent (dead, frozen or cut off: the capture leaves it open)" in one.headline
    (one,) = lost(tcp_health=[SENT, health(1, "client", [39.9], [39.9])])
    assert (one.kind, one.certainty) == ("client_frozen", "guessed")
    assert "the member alone fell silent" in one.evidence[1].text


@pytest.mark.parametrize(("silent", "told"), [(30.3, 1), (29, 1), (25, 2)])
@pytest.mark.parametrize("back", [True, False])
def test_what_became_of_a_neighbour_at_the_same_moment_became_of_it(silent: float, told: int, back: bool) -> None:
    """A worker and its consumer: one goes on with its connection as if nothing had been, the other has a new one."""
    second = LOST | {"group_id": "sink", "trigger_member": "c2-id", "trigger_client_id": "c2"}
    its = group_event("silence_begun", silent, "sink", member_id="c2-id", client_id="c2", client=H1)
    sent = [health(1, "client", [30], [30]), *[health(1, "client", [45], [45])] * back]
    incidents = lost(
        LOST,
        second,
        group_events=[SILENT, its],
        connections=[LIVES, connection(2, client_id="c2", opened=1, closed=39, how_closed="fin", closed_by="broker")],
        tcp_health=[*sent, health(2, "client", [silent], [silent])],
    )
    frozen = [one for one in incidents if one.kind == "client_frozen"]
    assert len(frozen) == back
    if back:
        assert len(incidents) == told
        assert names(frozen[0])[:2] == (["c1", "c2"] if told == 1 else ["c1", H1])


def test_of_one_direction_nothing_tells_who_ended_its_connections() -> None:
    gone = connection(1, opened=1, closed=30, how_closed="fin", packets_down=0)
    (one,) = lost(connections=[gone])
    assert (one.kind, one.certainty) == ("client_died", "guessed")
    assert "fell silent (dead, frozen or cut off: the capture leaves it open) at " in one.headline
    assert "what brokers sent it is not in the capture" in one.evidence[-1].text


def test_where_it_ran_is_not_known() -> None:
    (one,) = found(rebalances=[LOST])
    assert (one.kind, one.certainty, names(one)) == ("client_died", "guessed", ["c1", "shop"])
    had = f"had fallen silent (dead, frozen or cut off: the capture leaves it open) by {clock(at(40))}, and was taken"
    assert had in one.headline
    assert "of silence" not in one.headline
    (one,) = found(rebalances=[LOST | {"trigger_client_id": None, "trigger_member": None}])
    assert (names(one), one.headline.startswith("a member had fallen silent")) == (["shop"], True)


@pytest.mark.parametrize(
    ("events", "by"),
    [
        ([], 40),
        ([group_event("fenced", 45, member_id="c1-id")], 45),
        ([group_event("fenced", 45, member_id="c2-id")], 40),
        ([group_event("fenced", 45, member_id="c1-id"), group_event("heartbeat_refused", 43, member_id="c2-id")], 43),
        ([group_event("heartbeat_refused", 61, member_id="c2-id")], 40),  # of the next rebalance
        ([SILENT, group_event("fenced", 45, member_id="c1-id")], 30),
    ],
)
def test_who_was_lost_by_a_session_that_nobody_knows_was_so_when_somebody_was_told(
    events: list[Row], by: float
) -> None:
    """And not as soon as it may have been."""
    (one,) = found(rebalances=[LOST | {"stable": at(60)}], connections=[LIVES], group_events=events)
    assert seconds(one.started) == by
    assert by == 30 or f" by {clock(at(by))}, and was taken out" in one.headline


def test_members_are_told_apart_by_their_ids_where_client_ids_are_the_same() -> None:
    same = [
        group_event("silence_begun", 31, member_id="other-id", client_id="c1", client=H2),
        group_event("silence_begun", 30, member_id="c1-id", client_id="c1", client=H1),
    ]
    both = [LIVES, connection(2, H2, opened=1)]
    (one,) = lost(group_events=same, connections=both)
    assert (names(one), seconds(one.started)) == (["c1", H1, "shop"], 30)
    before = rebalance("member_joined", 4, 5, members=[member("c1", H2, "other-id"), member("c1", H1, "c1-id")])
    (one,) = found(rebalances=[before, LOST], connections=both)
    assert names(one) == ["c1", H1, "shop"]
    (one,) = found(rebalances=[LOST], connections=both)  # of two hosts it may be either
    assert names(one) == ["c1", "shop"]
    (one,) = found(rebalances=[LOST | {"trigger_member": None}], connections=[LIVES])
    assert names(one) == ["c1", H1, "shop"]


def test_without_member_ids_it_is_told_by_a_client_id_that_one_host_has() -> None:
    nameless = LOST | {"trigger_member": None}
    events = [SILENT, group_event("silence_begun", 31, member_id="c2-id", client_id="c2", client=H2)]
    (one,) = lost(nameless, group_events=events, connections=[LIVES, connection(2, H2, client_id="c2", opened=1)])
    assert (names(one), seconds(one.started)) == (["c1", H1, "shop"], 30)
    (one,) = lost(nameless, group_events=events, connections=[LIVES, connection(2, H2, opened=1)])
    assert (names(one), seconds(one.started)) == (["c1", "shop"], 40)


# --- while the group rebalances for another reason -------------------------------------------------------------------


def joins(generation: int, time: float, *expelled: float, client_id: str = "c1") -> Row:
    """Somebody joins, and meanwhile sessions of a client end."""
    also = [{"trigger": "session_timeout", "client_id": client_id, "at": at(one), "packet": None} for one in expelled]
    return rebalance("member_joined", generation, time, trigger_client_id="c1-new", contributing=also)


def test_one_that_is_killed_and_replaced_at_once() -> None:
    (one,) = lost(joins(5, 32, 40), connections=[connection(1, opened=1, closed=30, how_closed="fin")])
    assert (one.kind, one.certainty) == ("client_died", "likely")
    assert one.rebalances == {("shop", 5)}
    assert "was taken out of group shop after 10.0 s of silence" in one.headline
    assert len(lost(joins(5, 32, 40, 40))) == 1  # who of several it was is not told
    assert lost(joins(5, 32, 29)) == []  # who was not silent by then
    assert lost(joins(5, 32, 40, client_id="c2")) == []


@pytest.mark.parametrize(("packet", "since"), [(7, 30), (8, 33), (None, 33)])
def test_of_several_members_of_one_client_id_it_is_that_with_the_last_packet_that_is_told(
    packet: int | None, since: float
) -> None:
    later = SILENT | {"at": at(33), "member_id": "c1-new", "packet": 8}
    row = joins(5, 31, 40)
    row["contributing"][0]["packet"] = packet
    (one,) = lost(row, group_events=[SILENT | {"packet": 7}, later])
    assert seconds(one.started) == since


@pytest.mark.parametrize(("packet", "others", "told"), [(7, H2, 1), (None, H2, 0), (None, None, 1)])
def test_one_whose_name_others_have_too_is_found_by_its_last_packet_or_as_they_are_not_in_the_group(
    packet: int | None, others: str | None, told: int
) -> None:
    """others: where another member of that name is."""
    row = joins(5, 32, 40)
    row["contributing"][0]["packet"] = packet
    members = [member("c1", host) for host in (H1, others) if host]
    before = rebalance("member_joined", 4, 20, trigger_client_id="x", members=members)
    connections = [connection(1, opened=1, closed=30, how_closed="fin"), connection(2, H2, opened=1)]
    incidents = lost(before, row, group_events=[SILENT | {"packet": 7}], connections=connections)
    assert [names(one) for one in incidents] == [["c1", H1, "shop"]] * told


@pytest.mark.parametrize(("closed", "client_id", "told"), [(30, "c1", True), (40, "c1", False), (30, "c2", False)])
def test_one_that_is_replaced_where_the_capture_lacks_how_long_its_session_was(
    closed: float, client_id: str, told: bool
) -> None:
    ended = group_event("connection_ended", closed, member_id="c1-id", client_id=client_id, client=H1)
    gone = connection(1, opened=1, closed=closed, how_closed="fin")
    incidents = lost(joins(5, 32, 40), group_events=[ended], connections=[gone])
    assert [one.kind for one in incidents] == ["client_died"] * told
    if told:
        assert f"ended without leaving at {clock(at(30))}, and was taken out of group shop" in incidents[0].headline
        assert "of silence" not in incidents[0].headline


@pytest.mark.parametrize(("apart", "times"), [(8, 3), (3, None)])
def test_a_process_that_dies_again_and_again(apart: float, times: int | None) -> None:
    silences = [
        group_event("silence_begun", 30 + n * apart, member_id=f"c1-{n}", client_id="c1", client=H1) for n in range(3)
    ]
    closed = [connection(n, opened=29 + n * apart, closed=30 + n * apart, how_closed="fin") for n in range(3)]
    rows = [joins(5 + n, 31 + n * apart, 37 + n * apart) for n in range(3)]
    (one,) = lost(*rows, group_events=silences, connections=closed)
    assert one.kind == "client_died"
    assert (
        f"ended without leaving 3 times, from {clock(at(30))} to {clock(at(46))}, each time started anew"
        in one.headline
    ) == (times is not None)


@pytest.mark.parametrize(("lacks", "told"), [(19, 1), (20, 0)])
def test_silence_in_a_capture_with_holes_is_no_death(lacks: int, told: int) -> None:
    holes = LIVES | {"bytes_up": 60, "bytes_down": 40, "lost_bytes": lacks}
    assert len(lost(LOST | {"certainty": "likely"}, connections=[holes])) == told
    assert len(lost(connections=[holes])) == 1  # somebody says for certain that it was taken out
    ended = holes | {"closed": at(35), "how_closed": "fin", "closed_by": "client"}
    assert len(lost(LOST | {"certainty": "likely"}, connections=[ended])) == 1


@pytest.mark.parametrize(("heard", "told"), [(39, 1), (39.1, 0)])
def test_no_session_is_as_short_as_that(heard: float, told: int) -> None:
    heard_last = group_event("silence_begun", heard, member_id="c1-id", client_id="c1", client=H1)
    assert len(lost(group_events=[heard_last])) == told


@pytest.mark.parametrize(("heard", "trigger", "told"), [(30, 1, 1), (32, 1, 1), (32.1, 1, 0), (32.1, 0, 1)])
def test_who_was_heard_within_its_session_is_not_lost_by_its_end(heard: float, trigger: bool, told: int) -> None:
    """What else happened in a rebalance is told for when it was seen."""
    who = member("c1") | {"session_timeout_ms": 10_000}
    before = rebalance("member_joined", 4, 10, members=[who])
    silent = group_event("silence_begun", heard, member_id="c1-id", client_id="c1", client=H1)
    also = {"trigger": "session_timeout", "client_id": "c1", "at": at(40), "packet": 1}
    row = LOST if trigger else rebalance("member_joined", 5, 39, trigger_client_id="c2", contributing=[also])
    assert len(lost(before, row, group_events=[silent])) == told


def test_one_that_dies_again_and_again_at_the_same_record() -> None:
    silences = [group_event("silence_begun", 30 + n * 8, member_id=f"{n}", client_id="c1", client=H1) for n in range(3)]
    closed = [connection(n, opened=29 + n * 8, closed=30 + n * 8, how_closed="fin") for n in range(3)]
    churn = finding("connection_churn", f"client c1 ({H1})", "Connections are opened all the time", 30, 50, weight=0.9)
    tables = {"group_events": silences, "connections": closed, "findings": [churn], "lag": [committed(7)]}
    rows = [joins(5 + n, 31 + n * 8, 37 + n * 8) for n in range(3)]
    storm, one = lost(*rows, **tables)
    assert (storm.kind, one.kind) == ("connection_storm", "client_died")
    assert "each time started anew, and was taken out of group shop" in one.headline
    (one,) = lost(*rows, **tables, rereads=[begun(n, 36 + n * 8) for n in range(3)])
    assert (
        "each time started anew, and began again and again at orders-2 offset 7, and was taken out of group shop"
        in one.headline
    )
    assert one.advice.startswith("Look at what the application says as it ends, and at the records at these offsets")
    assert one.evidence[-1].text == "orders-2: read from offset 7 on again 3 times, each time on a new connection"
    assert one.findings == {churn["id"]}
    for name, host in (("c2", H1), ("c1", H2)):
        rereads = [begun(n, 36 + n * 8, client_id=name, client=host) for n in range(3)]
        one = lost(*rows, **tables | {"findings": []}, rereads=rereads)[0]
        assert "each time started anew, and was taken out" in one.headline


def in_turn(hosts: int, apart: float = 10) -> dict[str, Any]:
    """Processes of as many hosts end, and others take their places."""
    of = range(hosts)
    ends = [30 + n * apart for n in of]
    known = [{"member_id": f"m{n}", "client_id": f"c{n}", "client": f"10.0.2.{n}"} for n in of]
    return {
        "rebalances": [joins(5 + n, ends[n] + 1, ends[n] + 6, client_id=f"c{n}") for n in of],
        "group_events": [group_event("silence_begun", ends[n], **known[n]) for n in of],
        "connections": [
            connection(n, f"10.0.2.{n}", client_id=f"c{n}", opened=20, closed=ends[n], how_closed="fin") for n in of
        ],
    }


def test_processes_of_several_hosts_that_end_one_after_the_other_are_one_incident() -> None:
    one = only(**in_turn(3))
    assert (one.kind, one.certainty) == ("client_died", "likely")
    assert names(one) == ["c0", "c1", "c2", "10.0.2.0", "10.0.2.1", "10.0.2.2", "shop"]
    assert (
        "c0, c1, c2 (10.0.2.0, 10.0.2.1, 10.0.2.2) ended without leaving one after the other, from "
        f"{clock(at(30))} to {clock(at(50))}, and were taken out of group shop; 3 rebalances"
    ) in one.headline
    assert [seconds(seen.at) for seen in one.evidence] == [30, 30, 40, 40, 50, 50]
    assert "terminationGracePeriodSeconds" in one.advice


def test_those_that_end_at_once_do_not_end_in_turn() -> None:
    (one,) = found(**in_turn(3, 1))
    assert f"ended without leaving at {clock(at(30))}, and were taken out" in one.headline
    assert "terminationGracePeriodSeconds" not in one.advice


@pytest.mark.parametrize(("hosts", "apart", "incidents"), [(2, 10, 2), (3, 66, 1), (3, 67, 3)])
def test_two_or_such_as_end_long_after_each_other_are_told_each(hosts: int, apart: float, incidents: int) -> None:
    assert len(found(**in_turn(hosts, apart))) == incidents


@pytest.mark.parametrize(
    ("apart", "when"),
    [(3, f"at {clock(at(30))}"), (4, f"one after the other, from {clock(at(30))} to {clock(at(34))}")],
)
def test_two_of_one_host_that_end_at_different_times(apart: float, when: str) -> None:
    tables = in_turn(2, apart)
    for row in (*tables["group_events"], *tables["connections"]):
        row["client"] = H1
    one = only(**tables)
    assert f"c0, c1 ({H1}) ended without leaving {when}, and were taken out of group shop" in one.headline
    assert (" of silence" in one.headline) == when.startswith("at")


# --- what belongs together -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [threshold("one_trouble"), threshold("one_trouble") + 0.1])
def test_what_befalls_a_host_within_a_minute_is_one_incident(later: float) -> None:
    other = rebalance("session_timeout", 2, 40 + later, "other", trigger_member="c2-id", trigger_client_id="c2")
    events = [SILENT, group_event("silence_begun", 31, "other", member_id="c2-id", client_id="c2", client=H1)]
    there = connection(2, client_id="c2", opened=1)
    incidents = lost(LOST, other, connections=[LIVES, there], tcp_health=[], group_events=events)
    assert len(incidents) == (1 if later <= 60 else 2)
    if later <= 60:
        assert names(incidents[0]) == ["c1", "c2", H1, "other", "shop"]
        assert incidents[0].rebalances == {("shop", 5), ("other", 2)}


def test_what_befalls_a_host_again_and_again_is_one_incident_up_to_the_last_time() -> None:
    again = [
        rebalance("session_timeout", generation, time, trigger_member="c1-id", trigger_client_id="c1")
        for generation, time in ((6, 90), (7, 140))
    ]
    (one,) = lost(LOST, *again, tcp_health=[])
    assert one.rebalances == {("shop", 5), ("shop", 6), ("shop", 7)}
    assert (seconds(one.started), seconds(one.ended)) == (30, 141)


def test_one_that_comes_back_twice_was_back_the_first_time_and_it_is_over_the_last() -> None:
    back = [rebalance("member_rejoined", number, time, trigger_client_id="c1") for number, time in ((6, 50), (7, 55))]
    (one,) = lost(LOST, *back)
    assert f"; it was back at {clock(at(50))}" in one.headline
    assert seconds(one.ended) == 55


def test_of_one_host_a_client_that_ends_and_one_that_freezes_are_two_incidents() -> None:
    other = rebalance("session_timeout", 6, 41, trigger_member="c2-id", trigger_client_id="c2")
    ends = connection(2, client_id="c2", opened=1, closed=35, how_closed="fin")
    froze = health(1, "client", [39.9], [])
    events = [SILENT, group_event("silence_begun", 31, member_id="c2-id", client_id="c2", client=H1)]
    incidents = lost(LOST, other, connections=[LIVES, ends], tcp_health=[SENT, froze], group_events=events)
    assert {(one.kind, names(one)[0]) for one in incidents} == {("client_frozen", "c1"), ("client_died", "c2")}


@pytest.mark.parametrize("later", [threshold("one_trouble"), threshold("one_trouble") + 0.1])
def test_one_that_is_back_within_a_minute_is_told_with_it(later: float) -> None:
    again = rebalance("member_joined", 6, 40 + later, trigger_client_id="c1")
    another = rebalance("member_joined", 7, 41, trigger_client_id="c2")
    (one,) = lost(LOST, again, another)
    assert ("; it was back at " in one.headline) == (later <= 60)
    assert one.rebalances == ({("shop", 5), ("shop", 6)} if later <= 60 else {("shop", 5)})
    assert seconds(one.ended) == (100 if later <= 60 else 41)


def test_a_session_that_ends_as_its_coordinator_is_gone_is_the_brokers_incident() -> None:
    gone = silence(B2, 38, 60, refused=2, ended=3)
    moved = group_event("coordinator_moved", 39, detail=f"from {B2}:9092 (node 2) to {B1}:9092 (node 1)")
    tables = {"silences": [gone], "cluster_events": BROKERS}
    assert {one.kind for one in lost(**tables)} == {"broker_down", "client_unreachable"}
    (one,) = lost(**tables, group_events=[SILENT, moved])
    assert one.kind == "broker_down"
    of_another = lost(**tables, group_events=[SILENT, moved | {"group_id": "other"}])
    assert {one.kind for one in of_another} == {"broker_down", "client_unreachable"}


@pytest.mark.parametrize(("host", "joined", "its_own"), [(H1, 27.1, True), (H1, 26.9, False), (H2, 27.1, False)])
def test_one_that_had_joined_at_the_new_coordinator_is_lost_by_itself(host: str, joined: float, its_own: bool) -> None:
    gone = silence(B2, 10, 26, refused=2, ended=3)
    moved = group_event("coordinator_moved", 27, detail=f"from {B2}:9092 (node 2) to {B1}:9092 (node 1)")
    known = [member("c1", host) | {"joined": at(joined)}, member("c2", H2)]
    rows = [rebalance("member_joined", 4, 27, members=known), LOST]
    incidents = lost(*rows, silences=[gone], cluster_events=BROKERS, group_events=[SILENT, moved])
    assert [one.kind for one in incidents if one.kind != "broker_down"] == ["client_unreachable"] * its_own


@pytest.mark.parametrize(("went", "its_own"), [(28.9, True), (29, False), (35, False), (35.1, True)])
def test_who_spoke_until_its_coordinator_went_is_the_brokers_incident(went: float, its_own: bool) -> None:
    tables = {"silences": [silence(B2, went, None, refused=2, ended=3)], "cluster_events": BROKERS}
    found_it = group_event("coordinator_found", 1, detail=f"{B2}:9092 (node 2)")
    assert len(lost(**tables, group_events=[found_it, SILENT])) == 1 + its_own
    elsewhere = found_it | {"detail": f"{B1}:9092 (node 1)"}
    assert len(lost(**tables, group_events=[elsewhere, SILENT])) == 2


@pytest.mark.parametrize(
    ("ended", "again", "exchanges", "told"),
    [
        (30.2, [], [], True),
        (36, [], [], True),  # after its coordinator had gone: it closed its connection to another broker
        (None, [], [], False),
        (30.2, [38], [], False),  # a client that looks for its coordinator closes connections, and opens others
        (30.2, [38.1], [], True),  # but soon: this is what came in its place
        (30.2, [41], [], True),  # started anew
        (30.2, [], [30.1], False),  # it was closed, and could not leave
    ],
)
@pytest.mark.parametrize("outage", [{"refused": 2, "ended": 3, "until": None}, HELD | {"until": 38}])
def test_who_ended_by_itself_beside_the_outage_of_its_coordinator_is_lost(
    ended: float | None, again: list[float], exchanges: list[float], told: bool, outage: dict[str, Any]
) -> None:
    mine = connection(1, broker=f"{B1}:9092", opened=1, closed=ended, how_closed=ended and "fin")
    later = [connection(n, opened=time, closed=None) for n, time in enumerate(again, 5)]
    incidents = lost(
        silences=[silence(B2, 34, **outage)],
        cluster_events=BROKERS,
        group_events=[SILENT, group_event("coordinator_found", 1, detail=f"{B2}:9092 (node 2)")],
        connections=[mine, *later],
        exchanges=[ends_session(1, time) for time in exchanges],
    )
    of_broker, *died = sorted(incidents, key=lambda one: one.kind)
    assert [one.kind for one in died] == ["client_died"] * told
    assert (("shop", 5) in of_broker.rebalances) != told
    for one in died:
        assert seconds(one.started) == ended


@pytest.mark.parametrize(
    ("of_connection", "spoke", "told"),
    [
        ({}, 30, True),
        ({}, 31.9, True),
        ({}, 32.1, False),
        ({"broker": B2}, 30, False),  # it had none to a broker that was there
        ({"opened": 30.1}, 30, False),
        ({"closed": 39.9, "how_closed": "fin", "closed_by": "broker"}, 30, False),
        ({"exchanges": 0}, 30, False),
    ],
)
@pytest.mark.parametrize("outage", [{"refused": 2, "ended": 3, "until": None}, HELD | {"until": 38}])
def test_who_says_nothing_to_other_brokers_either_beside_the_outage_of_its_coordinator_is_lost(
    of_connection: dict[str, Any], spoke: float, told: bool, outage: dict[str, Any]
) -> None:
    """Who lives asks them where its coordinator is."""
    known: dict[str, Any] = {"opened": 1, "closed": None, "exchanges": 5} | of_connection
    incidents = lost(
        IN_GROUP,
        LOST,
        silences=[silence(B2, 34, **outage)],
        cluster_events=BROKERS,
        group_events=[SILENT, group_event("coordinator_found", 1, detail=f"{B2}:9092 (node 2)")],
        connections=[connection(1, **known)],
        tcp_health=[SENT, health(1, "client", [spoke, 36, 39.8], [spoke])],
    )
    of_broker, *frozen = sorted(incidents, key=lambda one: one.kind)
    assert [one.kind for one in frozen] == ["client_frozen"] * told
    assert (("shop", 5) in of_broker.rebalances) != told


def test_nobody_is_lost_while_its_coordinator_stands_still() -> None:
    found_it = group_event("coordinator_found", 1, detail=f"{B2}:9092 (node 2)")
    tables = {"silences": [silence(B2, 30.5, 55, **HELD)], "cluster_events": BROKERS}
    (one,) = lost(**tables, group_events=[found_it])  # when it was heard last is not known
    assert one.kind == "broker_stalled"
    assert len(lost(**tables, group_events=[found_it | {"detail": f"{B1}:9092 (node 1)"}])) == 2


def test_what_it_cost_is_told() -> None:
    unowned = [{"partition": f"orders-{n}", "since": None, "ms": 2000.0} for n in range(3)]
    cost = {"unowned": unowned, "unowned_ms": 2000.0, "reread_records": 1200, "cost_ms": 1500.0}
    findings = [
        finding("member_lost", "group shop", "t", 40, 40),
        finding("member_lost", "group shop", "t", 52, 60, id="later"),
        finding("member_lost", "group other", "t", 40, 40),
        finding("unanswered", f"client c1 ({H1})", "t", 31, 31),
        finding("unanswered", f"client c10 ({H1})", "t", 31, 31),
    ]
    (one,) = lost(LOST | cost, findings=findings)
    assert one.headline.endswith("; 1 rebalance; nobody read orders 0-2 for up to 2.0 s; 1,200 records were read again")
    assert one.cost_ms == 2000
    assert one.findings == {"member_lost group shop", f"unanswered client c1 ({H1})"}


def cut_off(hosts: int, apart: float = 1, **given: Any) -> dict[str, Any]:
    """As many hosts fall silent, to which brokers go on to send."""
    of = range(hosts)
    known = [{"member_id": f"m{n}", "client_id": f"c{n}", "client": f"10.0.2.{n}"} for n in of]
    last = [30 + n * apart for n in of]
    return {
        "rebalances": [
            rebalance("session_timeout", 5 + n, last[n] + 9, trigger_member=f"m{n}", trigger_client_id=f"c{n}", **given)
            for n in of
        ],
        "group_events": [group_event("silence_begun", last[n], **known[n]) for n in of],
        "connections": [connection(n, f"10.0.2.{n}", client_id=f"c{n}", opened=20) for n in of],
        "tcp_health": [
            health(n, sender, sent, sent, client=f"10.0.2.{n}")
            for n in of
            for sender, sent in (("client", [last[n]]), ("broker", [last[n] + 1, last[n] + 2]))
        ],
    }


def test_who_else_had_connections_on_a_host_that_was_cut_off_is_named() -> None:
    """As a producer, of which no group tells."""
    given = cut_off(1)
    given["connections"] += [
        connection(10, "10.0.2.0", client_id="cash", opened=20),
        connection(11, "10.0.2.0", client_id="tool", opened=20, closed=29, how_closed="fin"),
        connection(12, "10.0.2.0", client_id="later", opened=60),
        connection(13, "10.0.2.9", client_id="other", opened=20),
    ]
    one = only(**given)
    assert names(one) == ["c0", "cash", "10.0.2.0", "shop"]
    assert one.headline.endswith("; cash on the same host was cut off as well")
    assert one.headline.startswith("c0 (10.0.2.0) was cut off")
    given["tcp_health"] = given["tcp_health"][:1]  # whether it was cut off is not known then
    assert "cash" not in only(**given).headline


def two_at_once(second: float = 30.5) -> dict[str, list[Row]]:
    """Processes on two hosts that end at once, or nearly so, and one rebalance that takes both out."""
    ends = {"c1": 30.0, "c2": second}
    return {
        "rebalances": [
            LOST
            | {
                "contributing": [{"trigger": "session_timeout", "at": at(40.5), "client_id": "c2"}],
                "unowned": [{"partition": "t-0", "since": at(30), "ms": 11_000.0}],
                "unowned_ms": 11_000.0,
            }
        ],
        "group_events": [
            SILENT,
            group_event("silence_begun", second, member_id="c2-id", client_id="c2", client=H2),
        ],
        "connections": [
            connection(n, host, client_id=name, opened=1, closed=ends[name], how_closed="fin")
            for n, (name, host) in enumerate((("c1", H1), ("c2", H2)), 1)
        ],
    }


def test_what_one_rebalance_takes_out_is_one_incident_and_told_to_cost_that_once() -> None:
    one = only(**two_at_once())
    assert (one.kind, names(one), one.cost_ms) == ("client_died", ["c1", "c2", H1, H2, "shop"], 11_000)
    assert (
        f"c1, c2 ({H1}, {H2}) ended without leaving at {clock(at(30))}, and were taken out of group shop after 10.0 s "
        "of silence; 1 rebalance; nobody read t 0 for up to 11.0 s"
    ) in one.headline
    assert [(seconds(seen.at), seen.text[:4]) for seen in one.evidence] == [(30, "c1: ")] * 2 + [(30.5, "c2: ")] * 2


def test_two_that_one_rebalance_takes_out_are_no_rollout() -> None:
    one = only(**two_at_once(34))
    assert f"ended without leaving one after the other, from {clock(at(30))} to {clock(at(34))}, and" in one.headline
    assert "terminationGracePeriodSeconds" not in one.advice


def test_what_befalls_two_differently_is_told_of_each() -> None:
    """One process ended, and the other stood still."""
    tables = two_at_once()
    tables["connections"][1] |= {"closed": None, "how_closed": None}
    frozen = health(2, "client", [30.5, 33, 36, 39], [30.5], client=H2)
    assert sorted(one.kind for one in found(**tables, tcp_health=[frozen])) == ["client_died", "client_frozen"]


def test_hosts_that_are_cut_off_at_once_are_one_incident() -> None:
    one = only(**cut_off(3))
    assert (one.kind, one.certainty) == ("client_unreachable", "certain")
    assert names(one) == ["c0", "c1", "c2", "10.0.2.0", "10.0.2.1", "10.0.2.2", "shop"]
    assert (
        f"c0, c1, c2 (10.0.2.0, 10.0.2.1, 10.0.2.2) were cut off from the network at once, at {clock(at(30))}, and "
        "were taken out of group shop; 3 rebalances"
    ) in one.headline
    assert "what these hosts have in common" in one.advice
    assert one.advice.endswith("A longer session.timeout.ms bridges short ones.")  # who is static is taken out as well
    of_group = cut_off(3)
    for row in of_group["rebalances"]:
        row["protocol"] = "share"
    assert "A longer share.session.timeout.ms of the group (kafka-configs" in only(**of_group).advice


@pytest.mark.parametrize(("hosts", "apart", "incidents"), [(2, 1, 2), (3, 3, 1), (3, 3.1, 3)])
def test_two_or_such_as_are_cut_off_apart_are_told_each(hosts: int, apart: float, incidents: int) -> None:
    told = found(**cut_off(hosts, apart))
    assert len(told) == incidents
    assert {one.kind for one in told} == {"client_unreachable"}


@pytest.mark.parametrize(
    ("subject", "client", "since", "told"),
    [("group shop", "c1", 30, 0), ("group shop", "c1", 41, 1), ("group shop", "c2", 30, 1), ("group pay", "c1", 30, 1)],
)
def test_who_only_joins_again_is_not_lost(subject: str, client: str, since: float, told: int) -> None:
    apart = finding("configurations_apart", subject, "it joined again 99 times", since, 50, client_ids=[client])
    also = [{"trigger": "session_timeout", "client_id": "c1", "at": at(40)}]
    for row in (LOST, rebalance("member_joined", 5, 40, contributing=also)):
        assert len([one for one in lost(row, findings=[apart]) if one.kind != "group_shared"]) == told


DELETION = exchange(
    1, "DeleteTopics", 30, 30.1, connection=9, client_id="admin", request='{"topics": [{"name": "orders"}]}'
)


@pytest.mark.parametrize(
    ("asked", "on", "closed", "deleted", "told"),
    [
        (32, 1, None, [DELETION], []),
        (32, 1, None, [], ["client_frozen"]),
        (30, 1, None, [DELETION], ["client_frozen"]),  # its last word to the group comes behind that
        (32, 2, None, [DELETION], ["client_frozen"]),  # another host's
        (32, 1, 35, [DELETION], ["client_died"]),
        (36, 3, 35, [DELETION], []),  # it connects anew each time
    ],
)
@pytest.mark.parametrize("until", [33, 39])
def test_who_asks_on_for_a_topic_that_was_deleted_is_not_lost(
    until: float, asked: float, on: int, closed: float | None, deleted: list[Row], told: list[str]
) -> None:
    """kafkajs sends no heartbeat meanwhile, and is taken out."""
    connections = [
        LIVES | {"closed": closed and at(closed), "how_closed": closed and "fin", "closed_by": closed and "client"},
        connection(2, H2, opened=1),
        connection(3, opened=35.5),
        connection(9, H2, client_id="admin"),
    ]
    error_ = error("UNKNOWN_TOPIC_OR_PARTITION", "Metadata", asked, 39, 9, topic="orders", first_connection=on)
    sent = [health(1, "client", [30, until, 39], [30, until])]
    incidents = lost(connections=connections, exchanges=deleted, error_histogram=[error_], tcp_health=sent)
    assert [one.kind for one in incidents if one.kind.startswith("client_")] == told


@pytest.mark.parametrize(("asked", "told"), [(36, []), (30.5, ["client_died"]), (40, ["client_died"])])
def test_who_authenticates_in_vain_until_it_is_taken_out_has_not_died(asked: float, told: list[str]) -> None:
    ended = LIVES | {"closed": at(31), "how_closed": "fin", "closed_by": "client"}
    refused = {"connection": 3, "error": "SASL_AUTHENTICATION_FAILED"}
    tries = exchange(9, "SaslAuthenticate", asked, asked + 0.1, **refused)
    incidents = lost(connections=[ended, connection(3, opened=30.4)], exchanges=[tries])
    assert [one.kind for one in incidents if one.kind.startswith("client_")] == told


def test_what_a_member_does_when_it_is_back_is_not_of_its_loss() -> None:
    back = [rebalance("member_joined", 6 + n, 45 + 10 * n, trigger_client_id="c1") for n in range(2)]
    (one,) = lost(LOST, *back)
    assert one.rebalances == {("shop", 5), ("shop", 6)}
    assert seconds(one.ended) == 45
    assert f"; it was back at {clock(at(45))}" in one.headline


def test_a_static_member_that_had_said_that_it_goes_was_stopped() -> None:
    left = group_event("left", 30, member_id="c1-id", client_id="c1", client=H1, detail="static")
    assert lost(group_events=[left]) == []
    (one,) = lost(group_events=[left, SILENT | {"at": at(33)}])  # and came back in between
    assert "c1" in one.headline


def test_who_dies_again_and_again_is_back_when_the_last_time_is_over() -> None:
    deaths, times = range(6), 20
    silent = [SILENT | {"at": at(30 + times * n), "member_id": f"c1-{n}"} for n in deaths]
    closed = [connection(n, opened=29 + times * n, closed=30 + times * n, how_closed="fin") for n in deaths]
    rows = []
    for n in deaths:
        who = {"trigger_member": f"c1-{n}", "trigger_client_id": "c1"}
        rows.append(rebalance("session_timeout", 10 + 2 * n, 37 + times * n, **who))
        rows.append(rebalance("member_joined", 11 + 2 * n, 45 + times * n, trigger_client_id="c1"))
    one = only(rebalances=rows, group_events=silent, connections=closed)
    assert seconds(one.ended) == 45 + times * 5
    assert one.rebalances == {("shop", 10 + n) for n in range(12)}


# --- many of them ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["connections", "tcp_health"])
def test_tables_are_not_read_more_often_for_more_losses(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    read = tables_read(monkeypatch)
    often = []
    for many in (2, 60):
        hosts = [f"10.0.1.{n + 1}" for n in range(many)]
        rows = {
            "group_events": [
                group_event("silence_begun", 30, f"shop{n}", member_id=f"c{n}-id", client_id=f"c{n}", client=host)
                for n, host in enumerate(hosts)
            ],
            "rebalances": [
                rebalance("session_timeout", 5, 40, f"shop{n}", trigger_member=f"c{n}-id", trigger_client_id=f"c{n}")
                for n in range(many)
            ],
            "connections": [
                connection(n + 1, opened=1, client=host, client_id=f"c{n}", closed=30, how_closed="fin")
                for n, host in enumerate(hosts)
            ],
            "tcp_health": [health(n + 1, "client", [30], [30], client=host) for n, host in enumerate(hosts)],
        }
        read.clear()
        incidents = list(members.lost(signs(**rows)))
        assert {incident.kind for incident in incidents} == {"client_died"}
        assert sum(len(incident.rebalances) for incident in incidents) == many
        often.append(read.count(table))
    assert often[0] == often[1] > 0


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (True, ["nobody read orders 0 for up to 10.0 s", "nobody read orders 1 for up to 9.5 s"]),
        (False, ["nobody read orders 0-1 for up to 10.0 s"] * 2),  # which of them had what is not known
    ],
)
def test_of_members_that_one_rebalance_takes_out_each_is_told_what_it_had_itself(known: bool, told: list[str]) -> None:
    both = two_at_once()
    had = [
        member(f"c{n}", host) | {"assignment": [f"orders-{n - 1}"] if known else None}
        for n, host in enumerate((H1, H2), 1)
    ]
    before = rebalance("member_joined", 4, 10, members=had)
    (row,) = both["rebalances"]
    row |= {"unowned_ms": 10_000.0}
    row["unowned"] = [{"partition": f"orders-{n}", "since": None, "ms": ms} for n, ms in enumerate([10_000.0, 9_500.0])]
    both["connections"][1] |= {"closed": None, "how_closed": None}  # the other one's process does not end
    both["tcp_health"] = [health(2, "client", [30.5, 33, 36, 39], [30.5], client=H2)]
    incidents = sorted(found(**both | {"rebalances": [before, row]}), key=lambda one: one.kind)
    assert [one.kind for one in incidents] == ["client_died", "client_frozen"]
    assert [next(each.text for each in one.effects if each.what == "partitions") for one in incidents] == told
