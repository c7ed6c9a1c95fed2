"""Members that do not get past a record: sent again and again, or ended by it."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from tests.reports.incidents.tables_of import (
    CLIENT,
    H1,
    IN_GROUP,
    Row,
    at,
    begun,
    committed,
    finding,
    found,
    group_event,
    names,
    only,
    rebalance,
    row,
    seconds,
)

STUCK = finding(
    "consumer_stuck",
    "group shop",
    "c1 asks for the same offset again and again",
    20,
    290,
    client_ids=["c1"],
    evidence=[{"text": "orders-0: after 60 s fetched up to 9", "packet": None, "at": at(20)}],
)


def again(times: int, partition: int = 0, **given: Any) -> Row:
    known: dict[str, Any] = {"group_id": "shop", "topic": "orders", "client_id": "c1", "client": H1}
    offsets = {"from_offset": 7, "to_offset": 9, "records": 100}
    return row("rereads", at=at(20 + partition), partition=partition, **offsets, **known | given) | {"times": times}


def ends(*offsets: int) -> list[Row]:
    return [
        row("lag", group_id="shop", topic="orders", partition=0, at=at(n * 10), end_offset=offset)
        for n, offset in enumerate(offsets)
    ]


def test_a_member_that_is_sent_the_same_records_again_and_again() -> None:
    tables = {"lag": ends(9, 27, 57), "rebalances": [IN_GROUP], "connections": [CLIENT]}
    one = only(rereads=[again(50), again(10, 1), again(9, 2)], findings=[STUCK], **tables)
    assert (one.kind, one.severity, one.certainty) == ("consumer_stuck", "critical", "certain")
    assert names(one) == ["shop", "orders", "c1", H1]
    assert (seconds(one.started), seconds(one.ended)) == (20, 290)
    assert "c1 of group shop does not get past orders-0 offset 7, orders-1 offset 7: from " in one.headline
    assert "again up to 50 times; 50 records wait behind; 200 records sent again" in one.headline
    assert [seen.at for seen in one.evidence] == [at(20), at(21)]
    assert STUCK["id"] in one.findings
    assert only(rereads=[again(50)], findings=[STUCK | {"until": at(296)}], **tables).ended is None


def test_a_client_that_reads_ahead_between_two_tries_is_stuck_where_it_does_not_commit() -> None:
    stopped = STUCK | {"kind": "commits_stopped", "id": "commits_stopped group shop"}
    one = only(rereads=[again(50)], findings=[stopped], connections=[CLIENT])
    assert one.kind == "consumer_stuck"
    assert one.findings == {stopped["id"]}


def test_what_is_read_again_after_each_rebalance_is_no_record_that_is_in_the_way() -> None:
    storm = [rebalance("member_joined", n, 20 + n) for n in range(6)]
    for times, told in ((11, 0), (12, 1)):
        incidents = found(rereads=[again(times)], findings=[STUCK], rebalances=storm)
        assert sum(one.kind == "consumer_stuck" for one in incidents) == told


@pytest.mark.parametrize(
    ("rereads", "findings"),
    [
        ([again(50)], []),  # it got past it within half a minute
        ([again(9)], [STUCK]),
        ([], [STUCK]),  # it waits for what is not committed
        ([again(50, group_id="other")], [STUCK]),
        ([again(50, topic="others")], [STUCK]),
        ([again(50, client_id="c2")], [STUCK]),
    ],
)
def test_who_reads_again_without_being_stuck_and_the_reverse(rereads: list[Row], findings: list[Row]) -> None:
    assert found(rereads=rereads, findings=findings, connections=[CLIENT]) == []


# --- begins anew at one record -------------------------------------------------------------------------------------


def left(time: float, client_id: str = "c1", detail: str | None = "the consumer is being closed") -> Row:
    return group_event("left", time, client_id=client_id, client=H1, detail=detail)


BEGUN = [begun(n, 20 + 10 * n) for n in range(1, 4)]
HAD = [committed(5), committed(7)]
LEFT = [left(25 + 10 * n) for n in range(3)]


def test_a_member_that_leaves_and_begins_anew_at_the_same_record_each_time() -> None:
    rebalances = [IN_GROUP, *(rebalance("member_left", 2 + n, 25 + 10 * n) for n in range(3))]
    churn = finding("connection_churn", f"client c1 ({H1})", "Connections are opened all the time", 20, 50)
    tables = {"lag": HAD, "rebalances": rebalances, "findings": [churn], "connections": [CLIENT]}
    one = only(rereads=BEGUN, group_events=LEFT, **tables)
    assert "consumer_stuck" not in [
        one.kind for one in found(rereads=BEGUN, group_events=LEFT, **tables | {"lag": HAD[:1]})
    ]
    assert (one.kind, one.severity, one.certainty) == ("consumer_stuck", "critical", "likely")
    assert names(one) == ["shop", "orders", "c1", H1]
    assert (
        f"c1 of group shop ends again and again, 3 times from {clock(at(25))} on, and each time begins anew at "
        "orders-2 offset 7; 3 rebalances" in one.headline
    )
    assert (seconds(one.started), seconds(one.ended)) == (25, 50)
    assert [(seen.text, seen.packet, seen.at) for seen in one.evidence] == [
        ("orders-2: read from offset 7 on again 3 times, each time on a new connection", 1, at(30))
    ]
    assert one.findings == {churn["id"]}
    assert one.rebalances == {("shop", 2), ("shop", 3), ("shop", 4)}


def test_it_goes_on_if_the_capture_ends_within_a_minute() -> None:
    late = {"rereads": [begun(n, 211 + 10 * n) for n in range(1, 4)], "group_events": [left(200 + n) for n in range(3)]}
    assert only(lag=HAD, **late).ended is None


@pytest.mark.parametrize(
    ("rereads", "events"),
    [
        (BEGUN, LEFT[:2]),  # those that are lost are told elsewhere
        (BEGUN, [left(30 + n, detail="consumer poll timeout has expired") for n in range(3)]),
        (BEGUN, [left(30 + n, "c2") for n in range(3)]),
        (BEGUN, [left(51 + n) for n in range(3)]),
        (BEGUN[:2], LEFT),
        ([begun(1, 30 + n) for n in range(3)], LEFT),  # one connection, one process
        ([begun(n, 30 + n, offset=n) for n in range(3)], LEFT),  # it gets on
        ([begun(n, 30 + n, client_id=f"c{n}") for n in range(3)], LEFT),  # a partition that changes hands
    ],
)
def test_who_begins_anew_without_being_ended_by_a_record(rereads: list[Row], events: list[Row]) -> None:
    assert found(rereads=rereads, group_events=events, lag=HAD, connections=[CLIENT]) == []


def test_topics_whose_names_begin_alike_are_not_one() -> None:
    other = [{"text": "orders-dlq-0: after 60 s fetched up to 9", "packet": None, "at": at(20)}]
    tables = {"rereads": [again(50)], "lag": ends(9, 27, 57), "rebalances": [IN_GROUP], "connections": [CLIENT]}
    assert found(**tables, findings=[STUCK | {"evidence": other}]) == []


def test_two_findings_of_one_place_are_one_incident() -> None:
    twice = [STUCK | {"until": at(100)}, STUCK | {"id": "second", "title": "again", "since": at(200), "until": at(290)}]
    tables = {"rereads": [again(50)], "lag": ends(9, 27, 57), "rebalances": [IN_GROUP], "connections": [CLIENT]}
    one = only(**tables, findings=twice)
    assert one.findings == {STUCK["id"], "second"}
