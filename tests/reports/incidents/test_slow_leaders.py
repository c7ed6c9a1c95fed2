"""Leaders that take long to assign partitions."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Incident
from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    B1,
    BROKERS,
    H1,
    H2,
    HELD,
    LASTS,
    Row,
    at,
    connection,
    exchange,
    found,
    group_event,
    member,
    names,
    only,
    rebalance,
    seconds,
    silence,
)

LEAST = threshold("waited_for")
EAGER = {"assignors": ["range"]}
C1, C2 = (member(f"c{n}", host) | EAGER | {"assignment": [f"t-{n}"]} for n, host in ((1, H1), (2, H2)))
BEFORE = rebalance("member_joined", 3, 10, members=[C1, C2])
HOSTS = [connection(1, H1, opened=1), connection(2, H2, client_id="c2", opened=1)]


def sync(number: int, requested: float, answered: float | None, who: str = "c1", **given: Any) -> Row:
    known = {"group_id": "shop", "client_id": who, "member_id": f"{who}-id", "connection": number} | given
    return exchange(number, "SyncGroup", requested, answered, **known)


def waits(sent: float | None = 65, **tables: Any) -> list[Incident]:
    """Generation 4 of two members is there after 50 s; the leader sends the assignment later."""
    row = rebalance("member_joined", 4, 48, joined=50, stable=sent, leader="c1-id", members=[C1, C2] if sent else [])
    mine = [] if sent is None else [sync(1, sent, sent + 0.1)]
    other = sync(2, 50.1, sent and sent + 0.1, "c2")
    known: dict[str, Any] = {"rebalances": [BEFORE, row], "exchanges": [*mine, other], "connections": HOSTS}
    return found(**known | tables)


def test_all_others_wait_for_the_leader() -> None:
    (one,) = waits()
    assert (one.kind, one.severity, one.certainty) == ("slow_revocation", "warning", "likely")
    assert names(one) == ["shop", "c1", H1]
    assert (seconds(one.started), seconds(one.ended)) == (50, 65)
    assert one.headline.startswith(
        f"c1, leader of group shop, kept all others waiting for 15.0 s from {clock(at(50))} on: it was told who is in "
        "the group, and said only then who gets which partitions; 1 rebalance"
    )
    (seen,) = one.evidence
    assert "its SyncGroup came 15.0 s after" in seen.text
    assert "those of 1 other member waited" in seen.text
    assert one.rebalances == {("shop", 4)}


def test_several_times_are_one_incident() -> None:
    rows = [
        rebalance("member_joined", n, time - 1, joined=time, stable=time + 11 + n, leader="c1-id", members=[C1, C2])
        for n, time in ((4, 50), (5, 80))
    ]
    mine = [sync(1, 65, 65.1), sync(3, 96, 96.1, connection=1)]
    others = [sync(2, 50.1, 65.1, "c2"), sync(4, 80.1, 96.1, "c2", connection=2)]
    one = only(rebalances=[BEFORE, *rows], exchanges=[*mine, *others], connections=HOSTS)
    assert f"kept all others waiting 2 times, for up to 16.0 s from {clock(at(50))} on" in one.headline


@pytest.mark.parametrize(
    "tables",
    [
        {"exchanges": [sync(1, 65, 65.1)]},  # nobody else is seen to wait
        {"exchanges": [sync(1, 65, 65.1), sync(2, 60, 65.1, "c2")]},
        {"exchanges": [sync(1, 65, 65.1), sync(2, 50.1, 50.2, "c2")]},  # refused, as it is
        {"exchanges": [sync(1, 51, 65.1), sync(2, 50.1, 65.1, "c2")]},  # it is the broker that takes long
        {"silences": [silence(B1, 52, 60, **HELD)], "cluster_events": BROKERS},
    ],
)
def test_otherwise_it_is_not_the_leader(tables: dict[str, Any]) -> None:
    assert [one for one in waits(**tables) if one.kind == "slow_revocation"] == []


@pytest.mark.parametrize(("sent", "told"), [(50 + LEAST, True), (49.9 + LEAST, False)])
def test_some_seconds_are_noticed_by_nobody(sent: float, told: bool) -> None:
    waiting = [sync(1, sent, sent + 0.1), sync(2, 50, sent + 0.1, "c2")]
    assert bool(waits(sent, exchanges=waiting)) == told


def test_they_may_wait_as_the_capture_ends() -> None:
    (one,) = waits(None)
    assert one.ended is None
    assert "and has not said who gets which partitions" in one.headline
    assert "nobody read t 1-2 for" in one.headline
    assert "no SyncGroup of it for" in one.evidence[0].text


def test_a_leader_that_died_is_told_so() -> None:
    """Another one took its place, or it is missed at the end."""
    gone = [connection(1, H1, opened=1, closed=50.2, how_closed="fin"), HOSTS[1]]
    beats = [
        exchange(10 + n, "Heartbeat", time, time + 0.1, group_id="shop", client_id=f"c{n}", connection=n, error="NONE")
        for n, time in ((1, 49.5), (2, 49.5), (2, LASTS - 1))
    ]
    assert [one.kind for one in waits(None, connections=gone, exchanges=[sync(2, 50.1, None, "c2"), *beats])] == [
        "client_died"
    ]


def test_one_whose_generation_was_over_before_is_told_by_what_ended_it() -> None:
    silent = group_event("silence_begun", 50, member_id="c1-id", client_id="c1", client=H1)
    row = rebalance("member_joined", 4, 48, joined=50, stable=None, leader="c1-id")
    later = rebalance("session_timeout", 5, 62, trigger_member="c1-id", trigger_client_id="c1", members=[C2])
    told = waits(rebalances=[BEFORE, row, later], group_events=[silent], exchanges=[sync(2, 50.1, 62, "c2")])
    assert "slow_revocation" not in [one.kind for one in told]
