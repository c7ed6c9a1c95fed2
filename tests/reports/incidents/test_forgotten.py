"""Groups that are told nothing is committed, where something had been."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kafkascope.reports.incidents.positions.forgotten import offsets_forgotten
from kafkascope.reports.incidents.signs import Signs
from tests.reports.incidents.tables_of import (
    B1,
    CLIENT,
    H1,
    H2,
    Row,
    at,
    connection,
    exchange,
    finding,
    found,
    names,
    only,
    row,
    seconds,
    signs,
)

ADMIN = connection(9, H2, client_id="adm")
DELETED = '{"groupId": "shop", "topics": [{"name": "orders"}]}'
ASKED = exchange(50, "OffsetFetch", 59.9, 60, response_packet=51)


def gone(partition: int = 0, read_from: int | None = 90, passed_over: int | None = 70, group: str = "shop") -> Row:
    """A row of ``forgotten_commits``: 20 was committed at 10 s, and nothing is there at 60 s."""
    return row("forgotten_commits", at=at(60), committed_at=at(10), connection=1, number=50, client_id="c1") | {
        "group_id": group,
        "client": H1,
        "topic": "orders",
        "partition": partition,
        "committed_offset": 20,
        "read_from": read_from,
        "passed_over": passed_over,
    }


def deleted(time: float, request: str, api: str = "OffsetDelete") -> Row:
    return exchange(7, api, time, time + 0.1, connection=9, client_id="adm", request=request)


def test_records_that_are_passed_over() -> None:
    rows = [gone(0), gone(1, 30, 10)]
    one = only(forgotten_commits=rows, exchanges=[ASKED], connections=[CLIENT])
    assert (one.kind, one.severity, one.certainty) == ("offsets_lost", "critical", "certain")
    assert (names(one), seconds(one.started), seconds(one.ended)) == (["shop", "orders", "c1", H1], 60, 60)
    assert one.headline.startswith("what group shop had committed of orders 0-1 was gone when c1 asked at ")
    assert one.headline.endswith(
        "deleted, or expired, where this capture does not show it; 80 records written meanwhile were passed over"
    )
    assert [(effect.what, effect.count) for effect in one.effects] == [("partitions", 2), ("records", 80)]
    assert [seen.packet for seen in one.evidence] == [51, 51]
    assert one.evidence[0].text.endswith(" and read from 90 on")


@pytest.mark.parametrize(
    ("api", "request_text"),
    [
        ("OffsetDelete", DELETED),
        ("DeleteGroups", '{"groupsNames": ["other", "shop"]}'),
    ],
)
def test_who_deleted_them_is_named(api: str, request_text: str) -> None:
    made = deleted(30, request_text, api)
    tables = {"forgotten_commits": [gone()], "connections": [CLIENT, ADMIN]}
    lost, changed = found(**tables, exchanges=[made])
    assert (lost.kind, changed.kind) == ("offsets_lost", "admin_action")
    assert seconds(lost.started) == 30
    assert f": adm ({H2}) deleted them at " in lost.headline
    assert f" ({api}); 70 records" in lost.headline
    assert lost.evidence[0].packet == 7
    for other in (deleted(5, request_text, api), deleted(61, request_text, api), deleted(30, '{"groupId": "x"}', api)):
        lost, _ = found(**tables, exchanges=[other])
        assert "where this capture does not show it" in lost.headline


@pytest.mark.parametrize(
    ("api", "request_text", "rows", "told", "text"),
    [
        ("OffsetDelete", DELETED, [gone(0, 0, 0), gone(1, 5, 0)], [], "35 records that group shop had committed are"),
        ("DeleteGroups", '{"groupsNames": ["shop"]}', [gone(0, 0, 0)], [], "20 records that group shop had committed"),
        ("OffsetDelete", DELETED, [gone(0, None, None)], [], "what group shop had committed of orders 0 is gone"),
        ("OffsetDelete", DELETED, [gone(0, 0, 0), gone(1, 0, 0) | {"topic": "pay"}], ["offsets_lost"], None),
        ("OffsetDelete", DELETED, [gone(0, 0, 0), gone(1, 90, 70)], ["offsets_lost"], None),
    ],
)
def test_what_somebody_deleted_to_have_it_read_again_was_meant(
    api: str, request_text: str, rows: list[Row], told: list[str], text: str | None
) -> None:
    again = finding("read_again", "group shop", "t", 60, 70)
    made, connections = [deleted(30, request_text, api)], [CLIENT, ADMIN]
    *lost, changed = found(forgotten_commits=rows, exchanges=made, connections=connections, findings=[again])
    assert ([one.kind for one in lost], changed.kind, changed.severity) == (told, "admin_action", "info")
    assert changed.findings == ({again["id"]} if text else set())
    assert [effect.text.startswith(text) for effect in changed.effects if text] == [True] * (text is not None)
    assert text is None or f"; {text}" in changed.headline


@pytest.mark.parametrize(("time", "told"), [(9, True), (10, False), (60, False), (61, True)])
def test_what_was_committed_of_a_topic_that_was_deleted_since_is_of_another_log(time: float, told: bool) -> None:
    made = deleted(time, '{"topicNames": ["orders"]}', "DeleteTopics")
    both = found(forgotten_commits=[gone()], connections=[CLIENT, ADMIN], exchanges=[made])
    assert [one.kind for one in both] == ["offsets_lost"] * told + ["admin_action"]


def test_who_reads_again_and_where_nothing_was_seen() -> None:
    back = only(forgotten_commits=[gone(0, 0, 0)], connections=[CLIENT])
    assert back.severity == "warning"
    assert back.headline.endswith("; it reads again from offset 0 of orders-0 on")
    unknown = only(forgotten_commits=[gone(0, None, None)], connections=[CLIENT])
    assert unknown.severity == "warning"
    assert unknown.headline.endswith("does not show it")
    assert "an offset that was not seen" in unknown.evidence[0].text


def test_who_goes_on_where_it_would_have_lost_nothing() -> None:
    assert found(forgotten_commits=[gone(0, 20, 0)], connections=[CLIENT]) == []


def test_each_group_is_told_for_itself() -> None:
    both = found(forgotten_commits=[gone(), gone(group="other")], connections=[CLIENT, connection(2, B1)])
    assert [names(one)[0] for one in both] == ["other", "shop"]


def test_exchanges_are_read_once_for_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def batches(self: Signs, name: str, *more: Any) -> Iterator[Any]:
        read.append(name)
        yield from whole(self, name, *more)

    whole = Signs.batches
    monkeypatch.setattr(Signs, "batches", batches)
    rows = [gone(group=f"g{n}") for n in range(5)]
    made = [*offsets_forgotten(signs(forgotten_commits=rows, exchanges=[ASKED], connections=[CLIENT]))]
    assert [one.evidence[0].packet for one in made] == [51] * 5
    assert sum(name == "exchanges" for name in read) == 2  # what administrators changed, and packets


def test_of_a_name_that_very_many_hosts_have_some_are_subjects() -> None:
    connections = [connection(n, f"10.1.{n // 250}.{n % 250}") for n in range(300)]
    subjects = [*signs(connections=connections).clients(["c1"])]
    assert len(subjects) == 101


def never(time: float, partition: int, passed_over: int) -> Row:
    """A row of a group that has committed nothing."""
    more: Row = {"at": at(time), "committed_at": None, "committed_offset": None}
    return gone(partition, 90, passed_over) | more


def listed(time: float, *partitions: int, offset: int = 90, topic: str = "orders", connection: int = 1) -> Row:
    """A request for the offset at which some partitions end, or begin, and its answer."""
    told = [{"partitionIndex": partition, "offset": offset} for partition in partitions]
    answer = json.dumps({"topics": [{"name": topic, "partitions": told}]})
    return exchange(60, "ListOffsets", time, time + 0.01, connection=connection, client_id="c1", response=answer)


def test_a_group_that_never_commits_and_begins_at_the_end() -> None:
    rows = [never(60, 0, 40), never(60, 1, 30), never(90, 0, 7)]
    asked = [listed(60.1, 0, 1), listed(90.1, 0)]
    one = only(forgotten_commits=rows, connections=[CLIENT], exchanges=asked)
    assert (one.kind, one.severity, one.certainty) == ("offsets_lost", "critical", "certain")
    assert (names(one), seconds(one.started), seconds(one.ended)) == (["shop", "orders", "c1", H1], 60, 90)
    assert one.headline.startswith(
        "group shop had committed nothing of orders 0-1, and c1 went on behind where it had been, 2 times from "
    )
    assert one.headline.endswith("; 77 records written since it had read there last were passed over")
    assert one.evidence[1].text == (
        "orders-1: c1 was told that nothing is committed, and read from 90 on, 30 records behind what it had read"
    )
    once = only(forgotten_commits=rows[:2], connections=[CLIENT], exchanges=asked)
    assert " went on behind where it had been, at " in once.headline


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([listed(60.1, 0)], 1),
        ([listed(60.1, 0, offset=20), listed(60.2, 0)], 1),  # where the log begins, and where it ends
        (
            [
                exchange(
                    60,
                    "ListOffsets",
                    60.1,
                    60.2,
                    response='{"topics": [{"name": "orders", "partitions": [{"partitionIn',
                )
            ],
            0,
        ),
        ([listed(60.1, 0, offset=20)], 0),
        ([listed(60.1, 0, offset=20), listed(70, 0)], 0),  # another time; the fetches in between are not there
        ([listed(59.9, 0)], 0),
        ([listed(60.1, 1)], 0),
        ([listed(60.1, 0, topic="other")], 0),
        ([listed(60.1, 0, connection=2)], 0),  # somebody else
        ([], 0),
    ],
)
def test_who_never_committed_was_sent_to_where_it_reads_from(asked: list[Row], told: int) -> None:
    other = connection(2, H2, client_id="c1")
    assert len(found(forgotten_commits=[never(60, 0, 40)], connections=[CLIENT, other], exchanges=asked)) == told


def test_the_first_version_tells_several_offsets() -> None:
    told = '{"topics": [{"name": "orders", "partitions": [{"partitionIndex": 0, "oldStyleOffsets": [90, 20]}]}]}'
    asked = exchange(60, "ListOffsets", 60.1, 60.2, client_id="c1", response=told)
    assert only(forgotten_commits=[never(60, 0, 40)], connections=[CLIENT], exchanges=[asked]).kind == "offsets_lost"


def test_where_times_go_back_who_asked_before_the_first_commit_may_seem_to_ask_behind_it() -> None:
    back = row("issues", kind="time_goes_back", at=at(55), packet=500)
    assert found(forgotten_commits=[gone()], exchanges=[ASKED], connections=[CLIENT], issues=[back]) == []


def test_what_is_gone_and_what_never_was_are_told_each() -> None:
    exchanges = [ASKED, listed(60.1, 1)]
    told = found(forgotten_commits=[gone(), never(60, 1, 30)], exchanges=exchanges, connections=[CLIENT])
    assert [one.kind for one in told] == ["offsets_lost", "offsets_lost"]


@pytest.mark.parametrize(
    ("api", "request_text"),
    [
        ("OffsetDelete", '{"groupId": "shop", "topics": [{"name": "other"}]}'),
        ("DeleteTopics", '{"topicNames": ["shop"]}'),  # of a topic that is called like the group
        ("DeleteGroups", '{"groupsNames": ["orders"]}'),
    ],
)
def test_who_deleted_something_else_is_not_named(api: str, request_text: str) -> None:
    made = deleted(30, request_text, api)
    lost, _ = found(forgotten_commits=[gone()], connections=[CLIENT, ADMIN], exchanges=[made])
    assert "deleted them" not in lost.headline
