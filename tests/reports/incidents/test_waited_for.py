"""Members that keep a rebalance of their group waiting, though they live."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    H1,
    H2,
    LASTS,
    Row,
    at,
    connection,
    exchange,
    finding,
    found,
    group_event,
    member,
    names,
    only,
    rebalance,
    seconds,
)

LEAST = threshold("waited_for")
EAGER = {"assignors": ["range"], "rebalance_timeout_ms": 300_000}
C1 = member("c1", H1) | EAGER | {"assignment": ["orders-0"]}
C2 = member("c2", H2) | EAGER | {"assignment": ["orders-1", "orders-2"]}
BEFORE = rebalance("member_joined", 3, 10, members=[C1, C2])
HOSTS = [connection(1, H1), connection(2, H2, client_id="c2")]


def late(
    ms: float | None = 22_000, number: int = 4, started: float = 50, trigger: str = "member_joined", **given: Any
) -> Row:
    known: Row = {"last_client_id": "c2", "last_by_ms": ms, "stable": started + 25}
    return rebalance(trigger, number, started, **known | given)


def test_all_others_waited_for_one() -> None:
    slow = finding("slow_to_join", "group shop", "t", 50, 75, client_ids=["c2"])
    one = only(rebalances=[BEFORE, late()], findings=[slow], connections=HOSTS)
    assert (one.kind, one.severity, one.certainty) == ("slow_revocation", "warning", "likely")
    assert names(one) == ["shop", "c2", H2]
    assert (seconds(one.started), seconds(one.ended)) == (50, 75)
    assert one.headline.startswith(
        f"c2 of group shop kept all others waiting in a rebalance for 22.0 s from {clock(at(50))} on: its "
        "heartbeats go on, but its application does not poll; 1 rebalance"
    )
    assert [seen.text for seen in one.evidence] == ["c2 came 22.0 s after all others"]
    assert one.findings == {slow["id"]}
    assert one.rebalances == {("shop", 4)}


def test_several_times_are_one_incident() -> None:
    one = only(rebalances=[BEFORE, late(), late(30_000, 5, 90, last_client_id="c1")], connections=HOSTS)
    assert " c1, c2 of group shop kept all others waiting in 2 rebalances, for up to 30.0 s from " in f" {one.headline}"


@pytest.mark.parametrize(
    "rows",
    [
        [late(1000 * LEAST - 1)],
        [late(last_client_id=None)],
        [late(trigger="rebalance_timeout")],
        [late(trigger="poll_timeout")],
        [late(), rebalance("poll_timeout", 5, 90, trigger_client_id="c2")],  # told with that
        [late(contributing=[{"trigger": "rebalance_timeout", "client_id": "c2"}])],  # it was taken out
        [late(stable=None)],
        [late(trigger="unknown", protocol="streams")],  # it may be several, of which the capture lacks what tells
    ],
)
def test_who_comes_soon_or_is_told_as_too_slow_is_not(rows: list[Row]) -> None:
    assert not [one for one in found(rebalances=[BEFORE, *rows]) if " others wait" in one.headline]


@pytest.mark.parametrize(
    ("answered", "given", "told"),
    [
        (64, {}, True),
        (63.9, {}, False),  # 22 s until 75
        (75, {}, False),  # that by which it is given its partitions
        (64, {"error": "NOT_COORDINATOR"}, False),
        (64, {"client_id": "c1"}, False),
        (64, {"group_id": "other"}, False),
        (64, {"api": "OffsetCommit"}, False),
    ],
)
def test_members_with_epochs_are_waited_for_if_they_are_heard_meanwhile(
    answered: float, given: dict[str, Any], told: bool
) -> None:
    known: Row = {"client_id": "c2", "connection": 2, "group_id": "shop", "error": "NONE"}
    beat = exchange(1, "ConsumerGroupHeartbeat", answered - 1, answered, **known) | given
    told_of = found(rebalances=[BEFORE, late(protocol="consumer")], exchanges=[beat], connections=HOSTS)
    assert bool([one for one in told_of if " others wait" in one.headline]) == told


def test_of_a_rebalance_whose_begin_nobody_explains_it_is_told_who_came_last() -> None:
    assert " others wait" in only(rebalances=[BEFORE, late(trigger="unknown")], connections=HOSTS).headline


def told_and_joins(told: float = 51, joined: float = 73, refused: float = 70, **given: Any) -> dict[str, Any]:
    """A rebalance of 25 s, as the host of c2 has it: who came last is not known, but when c2 was told, and joined."""
    known: Row = {"client_id": "c2", "connection": 2, "group_id": "shop", "error": "REBALANCE_IN_PROGRESS"}
    return {
        "rebalances": [BEFORE, late(None, last_client_id=None)],
        "group_events": [
            group_event("heartbeat_refused", told, member_id="c2-id", client_id="c2", detail="REBALANCE_IN_PROGRESS"),
            group_event("joined", joined, member_id="c2-id", client_id="c2"),
        ],
        "exchanges": [exchange(1, "Heartbeat", refused, refused + 0.1, **known)],
        "connections": HOSTS,
    } | given


def test_on_its_own_host_it_shows_by_what_it_was_told() -> None:
    one = only(**told_and_joins())
    assert one.headline.startswith(
        f"c2 of group shop kept all others waiting in a rebalance for 22.0 s from {clock(at(51))}"
    )
    assert [seen.text for seen in one.evidence] == [
        "c2 was told of the rebalance by a heartbeat 22.0 s before it joined"
    ]
    assert one.rebalances == {("shop", 4)}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"joined": 51 + LEAST}, True),
        ({"joined": 51 + LEAST - 0.1}, False),
        ({"refused": 61.9}, False),  # it may not have lived
        ({"refused": 62}, True),
        ({"told": 49}, False),  # of the rebalance before
        ({"joined": 75.1}, False),
        ({"rebalances": [BEFORE, late(None, last_client_id=None, trigger="poll_timeout")]}, False),
        ({"rebalances": [BEFORE, late(None, last_client_id=None, stable=None)]}, False),
        ({"exchanges": []}, False),
    ],
)
def test_who_was_told_and_is_not_late(given: dict[str, Any], told: bool) -> None:
    assert bool([one for one in found(**told_and_joins(**given)) if " others wait" in one.headline]) == told


def test_who_came_last_is_told_once() -> None:
    tables = told_and_joins() | {"rebalances": [BEFORE, late()]}
    assert [seen.text for seen in only(**tables).evidence] == ["c2 came 22.0 s after all others"]


def open_at_end(began: float = LASTS - 28, refused: float = LASTS - 2, **given: Any) -> dict[str, Any]:
    """A rebalance that c3 began, for which c1 has come, and c2 has not."""
    known: Row = {"client_id": "c2", "connection": 2, "group_id": "shop", "error": "REBALANCE_IN_PROGRESS"}
    return {
        "rebalances": [BEFORE, rebalance("member_joined", 4, began, stable=None)],
        "group_events": [group_event("joined", began + 1, member_id="c1-id", client_id="c1", client=H1)],
        "exchanges": [
            exchange(1, "Heartbeat", refused, refused + 0.1, **known),
            exchange(2, "Heartbeat", refused, refused + 0.1, **known | {"client_id": "c1", "connection": 1}),
        ],
        "connections": HOSTS,
    } | given


def test_all_others_wait_as_the_capture_ends() -> None:
    tables = open_at_end()
    one = only(**tables)
    assert (one.kind, one.severity, one.certainty, one.ended) == ("slow_revocation", "warning", "likely", None)
    assert names(one) == ["shop", "c2", H2]
    begun = clock(at(LASTS - 28))
    assert one.headline == (
        f"c2 of group shop has not come back to the rebalance of {begun}, and all others wait at the end (for "
        "the rebalance timeout, 5 min 0 s, at most): its heartbeats go on, but its application does not poll; 1 "
        "rebalance; nobody read orders 0-2 for 28.0 s"
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"began": LASTS - LEAST}, True),
        ({"began": LASTS - LEAST + 1}, False),
        ({"refused": LASTS - LEAST - 1}, False),  # it may not live
        ({"exchanges": []}, False),
        ({"rebalances": [rebalance("member_joined", 4, LASTS - 28, stable=None)]}, False),  # who was there before?
        ({"rebalances": [BEFORE, rebalance("member_joined", 4, LASTS - 28)]}, False),
        ({"group_events": [group_event("joined", LASTS - 27, member_id=f"c{n}-id") for n in (1, 2)]}, False),
        (
            {
                "group_events": [
                    group_event("joined", LASTS - 27, member_id="c1-id"),
                    group_event("left", LASTS - 27, member_id="c2-id"),
                ]
            },
            False,
        ),
    ],
)
def test_whom_nobody_waits_for_at_the_end(given: dict[str, Any], told: bool) -> None:
    assert bool([one for one in found(**open_at_end(**given)) if " all others wait " in one.headline]) == told


def heartbeat_refused(name: str, time: float, detail: str = "REBALANCE_IN_PROGRESS") -> Row:
    return group_event("heartbeat_refused", time, member_id=f"{name}-id", client_id=name, detail=detail)


def test_all_others_wait_from_before_the_capture_on() -> None:
    told = heartbeat_refused("c2", 1)
    tables = open_at_end() | {"rebalances": [], "group_events": [told]}
    one = only(**tables)
    assert (one.kind, one.certainty, seconds(one.started), one.ended) == ("slow_revocation", "likely", 1, None)
    assert names(one) == ["shop", "c2", H2]
    assert one.headline == (
        "c2 of group shop has not come back to a rebalance whose begin is not seen, and all others wait at "
        "the end: its heartbeats go on, but its application does not poll"
    )


def joins(time: float, generation: int | None = None) -> Row:
    return group_event("joined", time, member_id="c1-id", client_id="c1", client=H1, generation=generation)


@pytest.mark.parametrize(
    ("others", "seen"),
    [([joins(19)], True), ([joins(19, 4)], False), ([joins(21)], False), ([joins(10)], False), ([], False)],
)
def test_a_rebalance_that_never_got_to_a_generation_began_when_somebody_joined(others: list[Row], seen: bool) -> None:
    tables = open_at_end() | {"rebalances": [BEFORE], "group_events": [heartbeat_refused("c2", 20), *others]}
    (one,) = (each for each in found(**tables) if " all others wait " in each.headline)
    assert seconds(one.started) == (19 if seen else 20)
    assert ("a rebalance whose begin is not seen" in one.headline) != seen


@pytest.mark.parametrize(("times", "client", "told"), [(3, "c2", True), (2, "c2", False), (3, "c1", False)])
def test_who_tries_a_commit_again_and_again_does_not_poll_for_that(times: int, client: str, told: bool) -> None:
    refused = {"client_id": client, "detail": "UNKNOWN_TOPIC_OR_PARTITION"}
    commits = [group_event("commit_refused", LASTS - 20 + n, member_id=f"{client}-id", **refused) for n in range(times)]
    tables = open_at_end()
    tables["group_events"] += commits
    (one,) = (each for each in found(**tables) if " all others wait " in each.headline)
    text = "but its application is busy with a commit that is refused again and again (UNKNOWN_TOPIC_OR_PARTITION, 3 "
    assert (text in one.headline) == told
    assert one.advice.startswith("A synchronous commit") == told


@pytest.mark.parametrize(
    ("events", "rebalances", "told"),
    [
        ([heartbeat_refused("c2", LASTS - LEAST)], [], True),
        ([heartbeat_refused("c2", LASTS - LEAST + 1)], [], False),
        ([heartbeat_refused("c2", 1, "UNKNOWN_MEMBER_ID")], [], False),
        ([heartbeat_refused("c2", 1)], [BEFORE], False),  # which was over later
        ([heartbeat_refused("c2", LASTS - LEAST)], [BEFORE], True),
        ([heartbeat_refused("c2", 1), group_event("joined", 2, member_id="c2-id")], [], False),
        ([heartbeat_refused("c2", 1), group_event("left", 2, member_id="c2-id")], [], False),
        ([heartbeat_refused("c3", 1)], [], False),  # it does not live
    ],
)
def test_whom_nobody_waits_for_from_the_beginning(events: list[Row], rebalances: list[Row], told: bool) -> None:
    tables = open_at_end() | {"rebalances": rebalances, "group_events": events}
    assert bool([one for one in found(**tables) if " all others wait " in one.headline]) == told
