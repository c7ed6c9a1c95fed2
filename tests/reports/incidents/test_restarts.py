"""Members that end in an orderly way and are started anew, again and again."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    H1,
    H2,
    Row,
    begun,
    committed,
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

TIMES = int(threshold("crashes"))


def turn(left: float, comes: float, event: str = "member_id_given", client: str = H1, **given: Any) -> list[Row]:
    """A member that leaves and comes again, on a connection that it opens then; packets are numbered by time."""
    known: Row = {"client_id": "c2", "client": client}
    gone = group_event(
        "left", left, packet=int(left * 10), connection=1, **known, detail="the consumer is being closed"
    )
    came: Row = {"packet": int(comes * 10) + 5, "connection": int(comes * 10)} | given
    return [gone, group_event(event, comes, **known, **came)]


def loop(times: int = TIMES, **given: Any) -> list[Row]:
    return [one for place in range(times) for one in turn(20 + 10 * place, 22 + 10 * place, **given)]


OTHER = group_event("joined", 25, client_id="c1", client=H2, packet=250, connection=3)
GROUP = [rebalance("member_left", n, 20 + 10 * n, members=[member("c1", H2)], unowned_ms=500.0) for n in range(3)]


def test_a_process_that_ends_again_and_again_while_others_work() -> None:
    churn = finding("connection_churn", f"client c2 ({H1})", "Connections are opened all the time", 20, 42)
    storm = finding("rebalance_storm", "group shop", "t", 20, 42)
    one = only(group_events=[*loop(), OTHER], rebalances=GROUP, findings=[churn, storm])
    assert (one.kind, one.severity, one.certainty, one.ended is None) == (
        "client_restarting",
        "warning",
        "likely",
        False,
    )
    assert names(one) == ["shop", "c2", H1]
    assert (seconds(one.started), seconds(one.ended)) == (20, 42)
    assert one.headline.startswith(f"c2 ({H1}) of group shop left and came anew 3 times from ")
    assert ", half of the times after 8.0 s: a process that ends and is started again and again; " in one.headline
    assert one.evidence[0].text == (
        'it left with the reason "the consumer is being closed", and came on a new connection 2.0 s later'
    )
    assert one.findings == {churn["id"], storm["id"]}
    assert one.rebalances == {("shop", n) for n in range(3)}


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([*loop(event="joined"), OTHER], True),
        ([*loop(event="epoch_seen"), OTHER], True),
        ([*loop(event="synced"), OTHER], False),
        ([*loop(TIMES - 1), OTHER], False),
        (loop(), False),  # a job that is alone in its group
        ([*loop(), OTHER | {"group_id": "pay"}], False),
        ([*loop(), OTHER | {"at": OTHER["at"] - 10_000_000_000}], False),  # before
        ([*loop(connection=1), OTHER], False),  # the same process, which only unsubscribed
        ([*loop()[:-2], *turn(40, 101), OTHER], False),  # a minute later
        ([*loop()[:-2], *turn(40, 99), OTHER], True),
        ([*loop()[:-2], *turn(40, 42, client=H2), OTHER], False),  # another one of this name
        ([*(one for one in loop() if one["event"] != "left"), OTHER], False),
    ],
)
def test_what_is_a_loop(events: list[Row], told: bool) -> None:
    incidents = found(group_events=events, rebalances=GROUP)
    assert [one.kind for one in incidents] == ["client_restarting"] * told


def test_one_that_ends_at_the_same_record_each_time_is_told_as_stuck() -> None:
    starts = [begun(int((22 + 10 * n) * 10), 23 + 10 * n, client_id="c2") for n in range(TIMES + 1)]
    incidents = found(group_events=[*loop(), OTHER], rebalances=GROUP, rereads=starts, lag=[committed(7)])
    assert [one.kind for one in incidents] == ["consumer_stuck"]


@pytest.mark.parametrize(("members", "incidents"), [(3, 3), (4, 1)])
def test_many_that_are_started_again_and_again_have_one_cause(members: int, incidents: int) -> None:
    events = [
        one | {"client_id": f"c{n}", "group_id": f"g{n % 2}"}
        for n in range(10, 14)
        for one in (loop() if n < 10 + members else turn(20, 22))  # once
    ]
    rows = [rebalance("member_left", n, 20, f"g{n}", unowned_ms=500.0) for n in range(2)]
    told = found(group_events=events, rebalances=rows)
    assert len(told) == incidents
    clients = {subject.name for one in told for subject in one.subjects if subject.role == "client"}
    assert clients == {f"c{n}" for n in range(10, 10 + members)}
    if incidents == 1:
        assert told[0].headline.startswith(
            "4 members alike (c10, c11, c12, c13) of groups g0, g1 left and came anew 12 "
        )
        assert ": processes that end and are started again and again; 2 rebalances" in told[0].headline
        assert told[0].rebalances == {("g0", 0), ("g1", 1)}


def asks(number: int, api: str = "OffsetFetch", offset: int = -1, **given: Any) -> Row:
    topic = f'{{"name": "t", "partitions": [{{"partitionIndex": 0, "committedOffset": {offset}}}]}}'
    body = None if offset is None else f'{{"topics": [{topic}]}}'
    return exchange(number, api, 20 + number, 20.1 + number, connection=number, client_id="c2", response=body, **given)


TO_IT = [connection(n, H1, client_id="c2") for n in range(9)]
IN_VAIN = [asks(n) for n in range(3)]


def test_one_that_has_no_place_to_begin_is_told_though_it_is_alone() -> None:
    one = only(group_events=loop(), exchanges=IN_VAIN, connections=TO_IT)
    assert one.kind == "client_restarting"
    assert one.headline.endswith("it neither reads nor asks where the logs begin or end: auto.offset.reset is none")
    assert one.advice.startswith("Set auto.offset.reset to earliest or latest")


@pytest.mark.parametrize(
    "exchanges",
    [
        IN_VAIN[:2],
        [*IN_VAIN[:2], asks(2, offset=7)],
        [*IN_VAIN, asks(3, "Fetch")],
        [*IN_VAIN, asks(3, "ListOffsets")],
        [row | {"client_id": "c1"} for row in IN_VAIN],
        [row | {"response": None} for row in IN_VAIN],
    ],
)
def test_who_has_a_place_or_looks_for_one_is_an_ordinary_job(exchanges: list[Row]) -> None:
    assert found(group_events=loop(), exchanges=exchanges, connections=TO_IT) == []
    one = only(group_events=[*loop(), OTHER], exchanges=exchanges, connections=TO_IT)
    assert "auto.offset.reset" not in one.headline


def test_where_another_host_has_that_client_id_its_reads_do_not_count() -> None:
    elsewhere = [connection(n, H2 if n == 8 else H1, client_id="c2") for n in range(9)]
    read = asks(8, "Fetch")
    assert (
        "auto.offset.reset is none"
        in only(group_events=loop(), exchanges=[*IN_VAIN, read], connections=elsewhere).headline
    )
