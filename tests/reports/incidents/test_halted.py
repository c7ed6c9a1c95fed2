"""Members that live and ask for no records any more."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    CLIENT,
    H1,
    H2,
    Row,
    at,
    connection,
    exchange,
    found,
    group_event,
    listed,
    member,
    names,
    only,
    rebalance,
    row,
    seconds,
    silence,
)


def left(time: float, client_id: str = "c1", detail: str | None = "the consumer is being closed") -> Row:
    return group_event("left", time, client_id=client_id, client=H1, detail=detail)


def lags(*of_spans: tuple[int, int | None, int], partition: int = 0, **given: Any) -> list[Row]:
    """Of each span of five seconds from the tenth on: fetches, for how long (ms) no commit moved, records left."""
    known: dict[str, Any] = {"group_id": "shop", "topic": "orders", "client_id": "c1", "client": H1} | given
    return [
        row(
            "lag",
            partition=partition,
            at=at(10 + 5 * n),
            width_ms=5000,
            fetches=fetches,
            commit_stuck_ms=stuck,
            fetch_lag=more,
            committed_offset=None if stuck is None else 9,
            fetch_offset=20,
            end_offset=20 + more,
            **known,
        )
        for n, (fetches, stuck, more) in enumerate(of_spans)
    ]


BY_ID = "id:El7grv0hR8mXguYtQD_BQA"


def said(*beats: float, asked: float = 14, answered: float | None = 14.5, **given: Any) -> list[Row]:
    """A last fetch, and heartbeats on another connection."""
    last = {"error": "NONE", "response_packet": 99} | given
    return [
        exchange(1, "Fetch", asked, answered, api_key=1, **last),
        *(exchange(n, "Heartbeat", at, at, api_key=12, connection=2, group_id="shop") for n, at in enumerate(beats)),
    ]


READS = [
    *lags((4, 0, 0), *((0, 6000 * n, 10 * n) for n in range(8))),
    *lags(*[(1, 0, 0)] * 9, client_id="c2", partition=1),
]
HALTED: dict[str, list[Row]] = {
    "lag": READS,
    "exchanges": said(20, 30, 44.5),
    "connections": [CLIENT, connection(2, broker=B2)],
    "rebalances": [rebalance("member_joined", 1, 5, members=[member("c1") | {"rebalance_timeout_ms": 300_000}])],
}


def test_a_member_that_lives_and_asks_for_nothing_any_more() -> None:
    one = only(**HALTED)
    assert (one.kind, one.severity, one.certainty) == ("consumer_stuck", "warning", "likely")
    assert names(one) == ["shop", "orders", "c1", H1]
    assert one.headline == (
        f"c1 of group shop asks for no more records of orders 0, from {clock(at(14.5))} on for 30.0 s, though it is "
        "alive; 50 records wait"
    )
    assert (seconds(one.started), seconds(one.ended), one.cost_ms) == (14.5, 44.5, 30_000)
    assert [(seen.text, seen.packet) for seen in one.evidence] == [
        ("the last answer to a fetch of it", 99),
        ("its last heartbeat: the process lives", 2),
        ("orders-0: committed 9, asked for from 20 on, ends at 70", None),
    ]
    assert "(with Java and librdkafka for max.poll.interval.ms, 5 min 0 s, at most)" in one.advice


def test_after_the_poll_interval_its_application_is_known_to_poll() -> None:
    rows = [rebalance("member_joined", 1, 5, members=[member("c1") | {"rebalance_timeout_ms": 29_999}])]
    one = only(**HALTED | {"rebalances": rows})
    assert one.severity == "critical"
    assert "its application calls poll()" in one.evidence[2].text
    assert only(**HALTED | {"exchanges": said(20, 297)}).ended is None


def test_the_capture_may_lack_the_last_answer_or_a_part_of_it() -> None:
    assert only(**HALTED | {"exchanges": said(20, 30, 44.5, error=None)}).kind == "consumer_stuck"
    later = exchange(9, "Metadata", 20, 20.1, api_key=3)  # answers come in order
    one = only(**HALTED | {"exchanges": [*said(20, 30, 44.5, answered=None, response_packet=None), later]})
    assert (one.kind, seconds(one.started)) == ("consumer_stuck", 14)
    assert one.evidence[0].text.startswith("its last fetch before: the capture lacks the answer")


def test_who_lags_behind_for_a_halted_member_is_told_with_it() -> None:
    spans = [one | {"lag": one["fetch_lag"], "commits": 1} for one in READS]
    assert [one.kind for one in found(**HALTED | {"lag": spans})] == ["consumer_stuck"]


@pytest.mark.parametrize(
    "given",
    [
        {"exchanges": said(20, 30, 44.4)},  # for less than half a minute
        {"exchanges": said(20, 30, 44.5, answered=None)},
        {"exchanges": said(20, 30, 44.5, error="NOT_LEADER_OR_FOLLOWER")},
        {"exchanges": said(20, 30, 44.5, throttle_ms=30_000.0)},
        {"exchanges": said()},  # it left, or died
        {"exchanges": [one | {"group_id": "other"} for one in said(20, 30, 44.5)]},
        {"lag": lags((4, 0, 0), *((0, 0, 0) for _ in range(8)))},  # there is nothing to ask for
        {"lag": lags((4, 0, 0), *((0, 5000, 60) for _ in range(8)))},  # it works, and commits
        {"lag": lags((4, 0, 0), *((0, 0, 60) for _ in range(8)))},  # ... in each span
        {"lag": lags((4, 0, 0), (0, 0, 1), (0, 0, 1), (4, 0, 0), *((0, 30_000, 9) for n in range(8)))},  # as before
        {"lag": [one | {"group_id": None} for one in READS]},
        {"rebalances": [rebalance("member_joined", 2, 30)]},
        {"rebalances": [rebalance("member_joined", 1, 5, members=[member("c1") | {"assignment": ["orders-1"]}])]},
        {"group_events": [left(46, detail="consumer poll timeout has expired")]},
        {"group_events": [group_event("heartbeat_refused", 43, client_id="c1", detail="REBALANCE_IN_PROGRESS")]},
        {"connections": [*HALTED["connections"], connection(3, opened=20, connect="refused", protocol=None)]},
        {"silences": [silence(B2, 20, 40)]},
    ],
)
def test_who_asks_for_nothing_for_another_reason(given: dict[str, list[Row]]) -> None:
    kinds = [one.kind for one in found(**HALTED | given)]
    assert "consumer_stuck" not in kinds


def test_two_clients_of_one_name_are_told_apart_by_their_hosts() -> None:
    other = [one | {"client": H2} for one in lags(*[(1, 0, 0)] * 9, partition=2)]
    more = {
        "lag": READS + other,
        "connections": [*HALTED["connections"], connection(4, H2)],
        "exchanges": [*HALTED["exchanges"], *(one | {"connection": 4} for one in said(asked=53, answered=54))],
    }
    assert names(only(**HALTED | more))[-1] == H1


@pytest.mark.parametrize(("step", "told"), [(10, False), (0, True)])
def test_what_it_commits_of_a_topic_that_is_read_by_its_id_has_the_name(step: int, told: bool) -> None:
    """So it may be the same topic, which it works on."""
    read = lags((4, None, 0), *((0, None, 60) for _ in range(8)), topic=BY_ID)
    commits = [
        row | {"topic": "orders", "fetch_lag": None, "fetches": 0, "committed_offset": 5 + step * n}
        for n, row in enumerate(read)
    ]
    kinds = [one.kind for one in found(**HALTED | {"lag": [*read, *commits]})]
    assert ("consumer_stuck" in kinds) is told


def test_a_broker_that_it_never_asked_does_not_keep_it() -> None:
    gone = {"refused": 5, "ended": 3, "ended_clients": 2, "waiting": 0}
    other = listed(3, "10.0.0.3", cluster_id="other")
    kinds = [
        [
            one.kind
            for one in found(**HALTED | {"silences": [silence(host, 1, None, **gone)], "cluster_events": [other]})
        ]
        for host in ("10.0.0.3", B1)
    ]
    assert ["consumer_stuck" in of_host for of_host in kinds] == [True, False]
