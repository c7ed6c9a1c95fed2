"""Times of which the capture has nothing, and whose silences say nothing."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.incidents.holes.blackouts import Blackout, blackouts, told
from kafkascope.reports.incidents.holes.unseen import hides, lacks_packets
from tests.reports.incidents.tables_of import (
    B1,
    BROKERS,
    H1,
    H2,
    Row,
    at,
    connection,
    found,
    group_event,
    health,
    member,
    rebalance,
    row,
    seconds,
    signs,
    silence,
)

OLD = connection(1, opened=1)


def sent(number: int, *times: float, sender: str = "client", **given: Any) -> list[Row]:
    """Packets of one side of a connection, in spans of ten seconds."""
    spans = sorted({int(time // 10) * 10 for time in times})
    return [
        health(number, sender, [one for one in times if int(one // 10) * 10 == span], [], **given) for span in spans
    ]


def gap(number: int, time: float) -> Row:
    """The first bytes that a connection lacks are those before a packet at a time."""
    return row("issues", kind="tcp_gap", connection=number, at=at(time), packet=9, detail="d", count=1)


def times(rows: list[Row], **tables: list[Row]) -> list[tuple[float | None, float | None]]:
    return [(seconds(one.since), seconds(one.until)) for one in blackouts(signs(tcp_health=rows, **tables))]


@pytest.mark.parametrize(
    ("again", "gaps", "told"),
    [
        (14.4, [gap(1, 14.4)], True),  # from behind the tenth of 13.3
        (14.3, [gap(1, 14.3)], False),  # too short
        (14.5, [], False),  # all may have waited for one
        (14.5, [gap(2, 14.5)], False),  # of another connection
        (14.5, [gap(1, 14.4)], False),  # it lacked something before
        (14.5, [gap(1, 15.4)], True),
        (14.5, [gap(1, 15.5)], False),  # it lacks something later
    ],
)
def test_behind_it_connections_lack_bytes(again: float, gaps: list[Row], told: bool) -> None:
    rows = sent(1, 13.3, again, 15.6)
    assert times(rows, issues=gaps) == [(13.4, again)] * told


def test_who_is_heard_later_alone_can_tell_nothing() -> None:
    """Also where that is in the ten seconds in which the time began."""
    rows = [each for number in (1, 2, 3) for each in sent(number, 11.0, 15.0 if number == 1 else 16.0)]
    assert times(rows, issues=[gap(1, 15.0)]) == [(11.1, 15.0)]


def test_who_lacked_bytes_before_can_tell_nothing_of_a_later_time() -> None:
    """Of each connection the first ones alone are told."""
    rows = [each for number in (1, 2, 3, 4) for each in sent(number, 10.0, 20.0)]
    gaps = [gap(1, 20.0), gap(2, 5.0), gap(3, 5.0)]
    assert times(rows, issues=gaps[:1]) == []
    assert times(rows, issues=gaps) == [(10.1, 20.0)]


@pytest.mark.parametrize(("whole", "told"), [(1, True), (2, False)])
def test_half_of_those_that_go_on_lack_something(whole: int, told: bool) -> None:
    others = [each for number in range(2, 2 + whole) for each in sent(number, 10.0, 20.0)]
    later = sent(9, 10.0, 22.0)  # nobody heard it soon
    later += sent(8, 10.0, 21.0)
    rows = [*sent(1, 10.0, 20.0), *others, *later]
    assert times(rows, issues=[gap(1, 20.0)]) == ([(10.1, 20.0)] if told else [])


@pytest.mark.parametrize(("before", "told"), [((), True), ((9.0,), False)])
def test_of_who_is_heard_for_the_first_time_it_is_not_known_how_long_it_was_there(
    before: tuple[float, ...], told: bool
) -> None:
    quiet = [each for number in (2, 3) for each in sent(number, *before, 20.0)]
    assert bool(times([*sent(1, 10.0, 20.0), *quiet], issues=[gap(1, 20.0)])) == told
    assert times([*sent(1, 10.0), *quiet]) == []


@pytest.mark.parametrize(
    ("opened", "heard", "count", "told"),
    [
        (None, (20.0,), 2, True),
        (20.0, (20.0,), 2, False),
        (None, (), 2, False),  # keep-alives of connections that are idle
        (None, (20.0,), 1, False),  # of one alone that may be missing for itself
    ],
)
def test_or_all_that_goes_on_was_opened_out_of_sight(
    opened: float | None, heard: tuple[float, ...], count: int, told: bool
) -> None:
    others = [health(number, "client", [20.0], heard) for number in range(2, 2 + count)]
    connections = [OLD, *(connection(number, opened=opened) for number in range(2, 2 + count))]
    assert bool(times([*sent(1, 10.0), *others], connections=connections)) == told
    assert times([*sent(1, 10.0, 20.0), *others], connections=connections) == []  # one that lacks nothing


@pytest.mark.parametrize(("again", "told"), [(75.1, True), (75.0, False)])
def test_nobody_waits_so_long(again: float, told: bool) -> None:
    assert bool(times(sent(1, 10.0, again))) == told


def test_where_nobody_said_anything_there_is_none() -> None:
    assert times([]) == []
    assert not hides(signs(), 1, 2)


@pytest.mark.parametrize(("until", "hidden"), [(20.0, True), (30.0, True), (30.1, False)])
def test_it_hides_what_it_is_half_of(until: float, hidden: bool) -> None:
    tables = signs(tcp_health=sent(1, 9.9, 20.0), issues=[gap(1, 20.0)])
    assert hides(tables, at(10), at(until)) == hidden


DARK = {"tcp_health": [*sent(1, 10.0, 25.0), *sent(1, 10.0, 25.0, sender="broker")], "issues": [gap(1, 25.0)]}


@pytest.mark.parametrize("dark", [True, False])
def test_a_broker_that_is_not_heard_in_it_may_be_well(dark: bool) -> None:
    still = silence(
        B1, 10, 25, waiting=3, waiting_connections=2, waiting_clients=["c1"], acknowledged=1, asked=1, kept=2
    )
    gone = silence(B1, 10, 25, refused=5, first_failed=11, failed_packet=7, ended=3, reset=2, ended_clients=2)
    for one in (still, gone):
        tables = {"silences": [one], "connections": [OLD], "cluster_events": BROKERS}
        kinds = [each.kind for each in found(**tables | (DARK if dark else {}))]
        assert kinds == ([] if dark else ["broker_stalled" if one is still else "broker_down"])


@pytest.mark.parametrize("dark", [True, False])
def test_a_member_that_is_not_heard_in_it_may_be_well(dark: bool) -> None:
    lost = rebalance("session_timeout", 2, 22, trigger_client_id="c1", certainty="guessed", members=[])
    tables = {
        "rebalances": [rebalance("member_joined", 1, 5, members=[member("c1")]), lost],
        "group_events": [group_event("silence_begun", 11, client_id="c1", client=H1)],
        "connections": [OLD],
    }
    assert bool(found(**tables | (DARK if dark else {}))) != dark


@pytest.mark.parametrize(("gaps", "lacks"), [([gap(2, 27.9)], False), ([gap(2, 28.0)], True), ([gap(2, 24.9)], True)])
def test_bytes_that_are_lacking_first_behind_it_were_said_in_it(gaps: list[Row], lacks: bool) -> None:
    rows = [connection(2, opened=1, bytes_up=100, bytes_down=0, lost_bytes=20), connection(3, client=H2, bytes_up=9)]
    tables = DARK | {"issues": [*DARK["issues"], *gaps], "connections": rows}
    assert lacks_packets(signs(**tables), H1) == lacks
    assert not lacks_packets(signs(**tables), H2)
    rows[0]["lost_bytes"] = 19
    assert not lacks_packets(signs(**tables), H1)


def test_the_longest_is_told() -> None:
    second = 10**9
    two = [Blackout(0, 3 * second), Blackout(10 * second, 22 * second)]
    assert told(two[:1]).startswith("nothing was captured from 00:00:00.000 to 00:00:03.000 (3.0 s): who said nothing")
    assert "from 00:00:10.000 to 00:00:22.000 (12.0 s), and 1 time more for shorter: " in told(two)
