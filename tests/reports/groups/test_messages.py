"""What exchanges say of groups, as rows and as values."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from kafkascope.reports.groups.body import body_of
from kafkascope.reports.groups.messages import group_messages, group_rows, in_order, messages_of
from kafkascope.reports.vocabulary.tables import EXCHANGES, GROUP_CONNECTIONS, GROUP_MESSAGES
from tests.reports.ends import Ends
from tests.reports.groups.group_logs import Conversation, changed

ENDS = Ends("10.0.0.1", 40001, "10.0.0.9")


def exchange(api: str, group: str | None = None, **more: Any) -> dict[str, Any]:
    row = {"connection": 1, "number": 1, "api": api, "api_version": 3, "group_id": group, "requested": 10}
    row |= {"answered": 15, "request_packet": 2, "response_packet": 3, "client_id": "c", "outcome": "answered"}
    return row | {"error": "NONE", "request": "{}", "response": "{}"} | more


def rows_of(*exchanges: dict[str, Any]) -> list[dict[str, Any]]:
    found = group_messages(pa.Table.from_pylist(list(exchanges), schema=EXCHANGES), {1: ENDS})
    return [] if found is None else list(found.to_pylist())


def test_an_exchange_has_a_row_for_each_group_it_speaks_of() -> None:
    two = json.dumps({"groups": ["g", "h", "g", 7]})
    rows = rows_of(
        exchange("Heartbeat", "f"),
        exchange("Fetch", "f"),
        exchange("DescribeGroups", None, request=two),
        exchange("DescribeGroups", "e", request=None),
        exchange("Heartbeat", None),
    )
    assert [(row["api"], row["group_id"]) for row in rows] == [
        ("Heartbeat", "f"),
        ("DescribeGroups", "g"),
        ("DescribeGroups", "h"),
        ("DescribeGroups", "e"),
    ]
    assert rows_of(exchange("Fetch", "f")) == []
    assert rows_of(exchange("Heartbeat", None)) == []


def test_a_row_says_who_spoke_when_and_how_it_ended() -> None:
    [whole] = rows_of(exchange("Heartbeat", "g", error="REBALANCE_IN_PROGRESS"))
    assert (whole["client"], whole["client_port"], whole["broker"]) == ("10.0.0.1", 40001, "10.0.0.9:9092")
    assert (whole["at"].value, whole["answered"].value, whole["error"]) == (10, 15, "REBALANCE_IN_PROGRESS")
    [alone] = rows_of(exchange("Heartbeat", "g", requested=None, connection=2))
    assert (alone["at"].value, alone["error"]) == (15, None)
    assert (alone["client"], alone["client_port"], alone["broker"]) == (None, None, None)  # nothing is known of it
    message = messages_of(group_rows("message", group_messages_of(exchange("Heartbeat", "g", connection=2))))[0][0]
    assert (message.client, message.client_port, message.broker) == ("", 0, "")


@pytest.mark.parametrize(
    ("decoded", "read", "kept"),
    [
        ("full", {"leader": "a", "members": [{"memberId": "a"}]}, {"leader", "members"}),
        ("header", {"leader": "a", "members": [{"memberId": "a"}]}, {"leader"}),  # there may be more of them
        ("header", {"memberId": "a", "assignment": {"topicPartitions": []}}, {"memberId"}),
        ("header", {"members": [], "leader": "a"}, {"leader", "members"}),
        ("header", {"memberEpoch": 3, "status": [{"statusCode": 1}]}, {"memberEpoch", "status"}),
        ("header", {}, set()),
    ],
)
def test_of_what_is_cut_the_end_is_not_known(decoded: str, read: dict[str, Any], kept: set[str]) -> None:
    text = json.dumps(read)
    [row] = rows_of(exchange("JoinGroup", "g", decoded=decoded, request=text, response=text))
    assert json.loads(row["request"]).keys() == json.loads(row["response"]).keys() == kept
    [alone] = rows_of(exchange("JoinGroup", "g", decoded=decoded, request=None, response=text))
    assert alone["request"] is None


def group_messages_of(*exchanges: dict[str, Any]) -> pa.Table:
    found = group_messages(pa.Table.from_pylist(list(exchanges), schema=EXCHANGES), {1: ENDS})
    assert found is not None
    assert found.schema == GROUP_MESSAGES
    return found


def test_messages_are_in_order_of_time_then_of_packets() -> None:
    rows = group_messages_of(
        exchange("Heartbeat", "g", requested=20, number=1),
        exchange("SyncGroup", "g", requested=10, request_packet=9, number=2),
        exchange("JoinGroup", "g", requested=10, request_packet=4, number=3),
        exchange("LeaveGroup", "g", requested=10, request_packet=None, response_packet=5, number=4),
        exchange("OffsetCommit", "g", requested=10, request_packet=4, number=2),
    )
    messages, ended = messages_of(group_rows("message", rows))
    assert [message.api for message in messages] == [
        "OffsetCommit",
        "JoinGroup",
        "LeaveGroup",
        "SyncGroup",
        "Heartbeat",
    ]
    assert ended == {}
    first = messages[0]
    assert (first.at, first.answered, first.connection, first.number, first.version) == (10, 15, 1, 2, 3)
    assert (first.request_packet, first.response_packet, first.packet) == (4, 3, 4)
    assert (first.client_id, first.outcome, first.request_text, first.response_text) == ("c", "answered", "{}", "{}")
    assert messages[2].packet == 5


def test_messages_without_packets_have_an_order_too() -> None:
    talk = Conversation()
    whole = talk.heartbeat(0, "a~1", 1)
    without = changed(whole, request_packet=None, response_packet=None)
    assert (without.packet, in_order(without)) == (None, (whole.at, 0, whole.connection, whole.number))


@pytest.mark.parametrize(("first", "second"), [("fin", None), (None, "fin")])
def test_how_a_connection_ended_is_known_from_its_last_row_not_from_that_of_its_first_word(
    first: str | None, second: str | None
) -> None:
    row: dict[str, Any] = {"group_id": "g", "connection": 1, "client": "c", "client_port": 1, "broker": "b"}
    said = {
        how: row | {"closed": 30 if how else None, "how_closed": how, "software": "java" if how else None}
        for how in (first, second)
    }
    table = pa.Table.from_pylist([said[first], said[second]], schema=GROUP_CONNECTIONS)
    _, ended = messages_of(group_rows("connection", table))
    assert (ended[1].how_closed, ended[1].closed, ended[1].software) == ("fin", 30, "java")
    _, begun = messages_of(group_rows("connection", pa.Table.from_pylist([said[None]], schema=GROUP_CONNECTIONS)))
    assert (begun[1].how_closed, begun[1].closed) == ("open", None)


def commit(api: str, text: str) -> str:
    [row] = rows_of(exchange(api, "g", request=text))
    return str(row["request"])


def text_of(length: int, **more: Any) -> str:
    """A commit's body of so many bytes, with two topics."""
    topics = [{"name": "t", "partitions": [{"partitionIndex": 1}], "of": None}, {"name": "u", "partitions": []}]
    request = {"groupId": "", "memberId": "", "topics": topics} | more
    request["groupId"] = "g" * (length - len(json.dumps(request)))
    text = json.dumps(request)
    assert len(text) == length
    return text


@pytest.mark.parametrize(
    ("api", "length", "short"),
    [
        ("OffsetCommit", 100_000, False),
        ("OffsetCommit", 100_001, True),
        ("TxnOffsetCommit", 100_001, True),
        ("SyncGroup", 100_001, False),
    ],
)
def test_of_commits_that_are_too_large_the_lists_within_topics_are_left_out(api: str, length: int, short: bool) -> None:
    text = text_of(length, last=1)
    kept = commit(api, text)
    if not short:
        assert kept == text
        return
    left = json.loads(kept)
    group = left.pop("groupId")
    assert len(group) > 90_000
    topics = [{"name": "t", "partitions": [], "of": None}, {"name": "u", "partitions": []}]
    assert left == {"memberId": "", "topics": topics, "topicsLeftOut": 0}  # what is behind the list is not read


@pytest.mark.parametrize(("topics", "kept"), [(999, 999), (1_000, 1_000), (1_001, 1_000)])
def test_of_commits_that_are_too_large_the_first_thousand_topics_are_kept(topics: int, kept: int) -> None:
    request = {"groupId": "g" * 100_000, "topics": [{"name": f"t{number}"} for number in range(topics)]}
    left = json.loads(commit("OffsetCommit", json.dumps(request)))
    assert (len(left["topics"]), left["topicsLeftOut"]) == (kept, topics - kept)
    assert left["topics"][-1] == {"name": f"t{kept - 1}"}


def test_a_large_commit_without_topics_stays_as_it_is() -> None:
    text = json.dumps({"groupId": "g" * 100_001, "topics": []})
    assert commit("OffsetCommit", text) == text


@pytest.mark.parametrize("api", ["OffsetCommit", "TxnOffsetCommit"])
def test_of_commits_by_members_there_is_only_who_commits(api: str) -> None:
    who = {"groupId": 'g", "topics": [', "generationId": 3, "memberId": "m"}
    [row] = rows_of(exchange(api, "g", request=json.dumps(who | {"topics": [{"name": "t"}]}), response="{}"))
    assert (json.loads(row["request"]), row["response"]) == (who, None)


@pytest.mark.parametrize(
    ("api", "request_text"),
    [
        ("OffsetCommit", '{"groupId": "g", "memberId": "", "topics": [{"name": "t"}]}'),
        ("OffsetCommit", '{"groupId": "g", "topics": [{"name": "t"}]}'),
        ("OffsetCommit", '{"groupId": "g", "memberId": "m"}'),
        ("OffsetDelete", '{"groupId": "g", "memberId": "m", "topics": [{"name": "t"}]}'),
    ],
)
def test_of_what_else_is_said_of_offsets_all_is_kept(api: str, request_text: str) -> None:
    assert commit(api, request_text) == request_text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (None, {}),
        ("", {}),
        ("null", {}),
        ("[1]", {}),
        ('{"memberId": "a', {}),
        ('{"memberId": "a"}', {"memberId": "a"}),
    ],
)
def test_a_body_is_an_object_or_nothing(text: str | None, read: dict[str, Any]) -> None:
    assert body_of(text) == read
