"""The view of groups: which rows it makes of tables."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kafkascope.reports.columns.views import Known
from kafkascope.reports.groups.messages import messages_of
from kafkascope.reports.views import groups as view
from kafkascope.reports.views.groups import GroupsView
from kafkascope.reports.vocabulary.tables import CONNECTIONS, EXCHANGES, GROUP_ROWS
from tests.reports.ends import Ends

SECOND = 1_000_000_000


ENDS = Ends("10.0.0.1", 40001, "10.0.0.9")


def exchange(connection: int, number: int, api: str, group: str | None, **more: Any) -> dict[str, Any]:
    at = number * SECOND
    known = {"connection": connection, "number": number, "api": api, "group_id": group, "api_version": 3}
    times = {"requested": at, "answered": at + 5, "request_packet": number * 2, "response_packet": number * 2 + 1}
    return known | times | {"error": "NONE", "outcome": "answered", "request": "{}", "response": "{}"} | more


def connection(number: int, **more: Any) -> dict[str, Any]:
    ends = {"client": "10.0.0.1", "client_port": 40001, "broker": "10.0.0.9", "broker_port": 9092}
    known = {"connection": number, "client_id": "c1", "software": "apache-kafka-java", "software_version": "4.3.1"}
    known["gap_bytes"] = 7
    return known | ends | {"opened": SECOND, "closed": 9 * SECOND, "how_closed": "fin"} | more


def tables(exchanges: list[dict[str, Any]] | None = None, ended: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    made = {}
    if exchanges is not None:
        made["exchanges"] = pa.Table.from_pylist(exchanges, schema=EXCHANGES)
    if ended is not None:
        made["connections"] = pa.Table.from_pylist(ended, schema=CONNECTIONS)
    return made


def observed(groups: GroupsView, *args: Any) -> list[dict[str, Any]]:
    rows = groups.observe(tables(*args), dict.fromkeys(range(100), ENDS))
    if rows is None:
        return []
    assert rows.schema == GROUP_ROWS
    return list(rows.to_pylist())


def test_exchanges_of_groups_and_the_ends_of_their_members_connections_are_rows() -> None:
    groups = GroupsView()
    exchanges = [
        exchange(1, 1, "JoinGroup", "orders"),
        exchange(1, 2, "Fetch", None),
        exchange(2, 1, "OffsetFetch", "orders"),
        exchange(1, 3, "Heartbeat", "orders", error="REBALANCE_IN_PROGRESS"),
    ]
    rows = observed(groups, exchanges)
    assert {(row["group_id"], row["connection"]) for row in rows} == {("orders", None)}
    messages = [row["message"] for row in rows]
    assert [(message["api"], message["connection"]) for message in messages] == [
        ("JoinGroup", 1),
        ("OffsetFetch", 2),
        ("Heartbeat", 1),
    ]
    assert messages[0]["broker"] == "10.0.0.9:9092"
    assert [message["error"] for message in messages] == [None, None, "REBALANCE_IN_PROGRESS"]
    (row,) = observed(groups, None, [connection(1), connection(2), connection(3)])
    assert (row["group_id"], row["message"]) == ("orders", None)
    end = row["connection"]
    assert end | {"opened": end["opened"].value, "closed": end["closed"].value} == {
        "connection": 1,
        "client": "10.0.0.1",
        "client_port": 40001,
        "broker": "10.0.0.9:9092",
        "client_id": "c1",
        "opened": SECOND,
        "closed": 9 * SECOND,
        "how_closed": "fin",
        "software": "apache-kafka-java",
        "software_version": "4.3.1",
        "gap_bytes": 7,
    }
    assert observed(groups, None, [connection(1)]) == []


def test_how_a_connection_ended_comes_back_as_a_value() -> None:
    groups = GroupsView()
    rows = groups.observe(tables([exchange(1, 1, "ConsumerGroupHeartbeat", "g")], [connection(1)]), {1: ENDS})
    messages, ended = messages_of(rows)
    assert [message.api for message in messages] == ["ConsumerGroupHeartbeat"]
    assert (ended[1].closed, ended[1].how_closed, ended[1].software) == (9 * SECOND, "fin", "apache-kafka-java")


def test_a_connection_that_spoke_of_several_groups_ended_for_each() -> None:
    groups = GroupsView()
    observed(groups, [exchange(1, 1, "Heartbeat", "a"), exchange(1, 2, "Heartbeat", "b")])
    assert [row["group_id"] for row in observed(groups, None, [connection(1)])] == ["a", "b"]


def test_groups_of_a_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_MOST_GROUPS", 3)
    groups = GroupsView()
    for number in range(1, 10):
        observed(groups, [exchange(1, number, "Heartbeat", f"g{number}")])
    assert len(observed(groups, None, [connection(1)])) == 3
    assert groups._groups == {}


def test_nothing_of_groups_gives_no_rows() -> None:
    groups = GroupsView()
    assert observed(groups, [exchange(1, 1, "Fetch", None)], [connection(1)]) == []
    assert observed(groups) == []


def test_what_rows_tell_does_not_depend_on_other_groups() -> None:
    groups = GroupsView()
    request = json.dumps({"groupId": "g", "memberId": "m", "members": [{"memberId": "m", "reason": "bye"}]})
    exchanges = [exchange(1, n, "LeaveGroup", f"g{n % 3}", request=request) for n in range(1, 9)]
    rows = groups.observe(tables(exchanges), {1: ENDS})
    assert rows is not None
    together = groups.result(rows, Known())
    events = together["group_events"].to_pylist()
    assert [row["group_id"] for row in events] == sorted(row["group_id"] for row in events)
    for name in ("g0", "g1", "g2"):
        alone = groups.result(rows.filter(pa.array([g == name for g in rows["group_id"].to_pylist()])), Known())
        assert alone["group_events"].to_pylist() == [row for row in events if row["group_id"] == name]


def test_of_large_commits_the_first_topics_are_kept_and_the_others_counted() -> None:
    topics = [
        {"name": f't{number} "{{name"', "partitions": [{"partitionIndex": 1, "committedMetadata": '{"name": '}]}
        for number in range(3000)
    ]
    request = {"groupId": '], "topics": [{"name": ', "memberId": "", "topics": topics}
    sides = {"request": json.dumps(request), "response": '{"throttleTimeMs": 0, "topics": []}'}
    small = {"request": json.dumps(request | {"topics": topics[:10]})}
    exchanges = [
        exchange(3, 1, "OffsetCommit", "g", **small),
        exchange(3, 2, "OffsetCommit", "g", **sides),
        exchange(3, 3, "SyncGroup", "g", **sides),
    ]
    whole, row, other = (row["message"] for row in observed(GroupsView(), exchanges))
    assert (whole["request"], other["request"]) == (small["request"], sides["request"])
    expected = [{"name": topic["name"], "partitions": []} for topic in topics[:1000]]
    assert json.loads(row["request"]) == request | {"topics": expected, "topicsLeftOut": 2000}
    assert row["response"] == sides["response"]
