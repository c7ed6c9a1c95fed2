"""Coordinators, commits and administration, of real clients and by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.groups.group_wide import group_wide
from kafkascope.reports.groups.messages import LEFT_OUT
from kafkascope.reports.vocabulary.events import EventKind
from tests.reports.groups.group_logs import MS, START, Conversation, captured_logs


def names(capture: str, group: str) -> list[str]:
    events = group_wide(captured_logs(capture)[group]).events
    assert {event.event for event in events} <= set(EventKind)
    return [event.event for event in events]


def test_administration_of_a_classic_group() -> None:
    found = names("clients_admin", "adm-classic")
    assert found.count("described") == 3
    assert found.count("deleted") == 2
    assert "offsets_altered" in found
    assert "offsets_deleted" in found
    details = {event.detail for event in group_wide(captured_logs("clients_admin")["adm-classic"]).events}
    assert "refused: NON_EMPTY_GROUP" in details
    assert "Stable, 1 members" in details


def test_coordinator_that_moves() -> None:
    events = group_wide(captured_logs("rolling-restart")["beta"]).events
    moves = [event for event in events if event.event == "coordinator_moved"]
    assert len(moves) == 2
    assert all(event.packet for event in moves)


def test_each_client_is_told_of_a_coordinator_once() -> None:
    said = Conversation()
    for at in range(5):
        answer = {"coordinators": [{"key": "g", "nodeId": 1, "host": "k1", "port": 9092, "errorCode": 0}]}
        said.say(at, "FindCoordinator", "a", {"coordinatorKeys": ["g"]}, answer)
    assert [event.event for event in group_wide(said.log()).events] == ["coordinator_found"]


def test_refused_commits() -> None:
    said = Conversation()
    request = {"memberId": "a~1", "generationIdOrMemberEpoch": 3}
    said.say(0, "OffsetCommit", "a", request, {}, error="ILLEGAL_GENERATION")
    said.say(1, "OffsetCommit", "a", request, {})
    said.say(2, "OffsetCommit", "a", request, {}, error="NOT_COORDINATOR")
    found = group_wide(said.log()).events
    assert [(event.event, event.detail) for event in found] == [
        ("commit_refused", "ILLEGAL_GENERATION"),
        ("coordinator_unavailable", "NOT_COORDINATOR"),
    ]
    assert found[0].generation == 3


def told(said: Conversation) -> list[tuple[float, str, str | None, str | None]]:
    """Events: at which millisecond, what, by which client, and details."""
    events = group_wide(said.log()).events
    return [((each.at - START) / MS, each.event, each.client_id, each.detail) for each in events]


def coordinator(node: int, key: str = "g", **more: Any) -> dict[str, Any]:
    return {"key": key, "nodeId": node, "host": f"k{node}", "port": 9092, "errorCode": 0} | more


def test_a_coordinator_is_told_to_each_client_and_anew_when_it_has_moved() -> None:
    said = Conversation()
    for at, client, answer in (
        (0, "a", {"coordinators": [coordinator(3, "other"), coordinator(1)]}),
        (10, "b", {"nodeId": 1, "host": "k1", "port": 9092, "errorCode": 0}),  # up to version 3
        (20, "a", {"coordinators": [coordinator(1)]}),
        (30, "a", {"coordinators": [coordinator(2)]}),
        (40, "b", {"coordinators": [coordinator(2)]}),
        (50, "b", {"throttleTimeMs": 0}),
    ):
        said.say(at, "FindCoordinator", client, {"coordinatorKeys": ["g"]}, answer)
    assert told(said) == [
        (1, "coordinator_found", "a", "k1:9092 (node 1)"),
        (11, "coordinator_found", "b", "k1:9092 (node 1)"),
        (31, "coordinator_moved", "a", "from k1:9092 (node 1) to k2:9092 (node 2)"),
        (31, "coordinator_found", "a", "k2:9092 (node 2)"),
        (41, "coordinator_found", "b", "k2:9092 (node 2)"),
    ]


def test_a_broker_with_two_listeners_is_one_coordinator() -> None:
    said = Conversation()
    for at, host in ((0, "inside"), (10, "outside"), (20, "inside")):
        answer = {"coordinators": [coordinator(1, host=host)]}
        said.say(at, "FindCoordinator", host, {"coordinatorKeys": ["g"]}, answer)
    assert [kind for _, kind, *_ in told(said)] == ["coordinator_found"] * 2


@pytest.mark.parametrize(
    ("api", "answer", "detail"),
    [
        ("DeleteGroups", {"results": [{"groupId": "h", "errorCode": 68}, {"groupId": "g", "errorCode": 69}]}, "GROUP"),
        (
            "ConsumerGroupDescribe",
            {"groups": [{"groupId": "h", "errorCode": 69}, {"groupId": "g", "errorCode": 30}]},
            "GROUP_AUTHORIZATION_FAILED, 0 members",
        ),
        (
            "IncrementalAlterConfigs",
            {
                "responses": [
                    {"errorCode": 29, "resourceType": 2, "resourceName": "g"},
                    {"errorCode": 0, "resourceType": 32, "resourceName": "g"},
                ]
            },
            "x=1",
        ),
    ],
)
def test_of_an_answer_about_several_each_has_its_own_error(api: str, answer: dict[str, Any], detail: str) -> None:
    said = Conversation()
    named = [{"name": "x", "value": "1"}]
    request = {"resources": [{"resourceType": 32, "resourceName": "g", "configs": named}]}
    said.say(0, api, "x", request, answer, error="NON_EMPTY_GROUP")
    ((*_, found),) = told(said)
    assert found == ("refused: GROUP_ID_NOT_FOUND" if detail == "GROUP" else detail)


def test_a_coordinator_that_is_not_available() -> None:
    said = Conversation()
    request = {"coordinatorKeys": ["g"]}
    refused = coordinator(-1, errorCode=15, errorMessage="not yet")
    said.say(0, "FindCoordinator", "a", request, {"coordinators": [refused]}, error="COORDINATOR_NOT_AVAILABLE")
    refused = coordinator(-1, errorCode=15, errorMessage=None)
    said.say(10, "FindCoordinator", "a", request, {"coordinators": [refused]}, error="COORDINATOR_NOT_AVAILABLE")
    said.say(20, "FindCoordinator", "a", request, {"nodeId": -1}, error="COORDINATOR_NOT_AVAILABLE")
    assert told(said) == [
        (1, "coordinator_unavailable", "a", "not yet"),
        (11, "coordinator_unavailable", "a", "COORDINATOR_NOT_AVAILABLE"),
        (21, "coordinator_unavailable", "a", "COORDINATOR_NOT_AVAILABLE"),
    ]


def test_events_are_in_order_of_their_answers_with_all_that_is_known_of_them() -> None:
    said = Conversation()
    request = {"memberId": "a~1", "groupInstanceId": "i", "generationId": 0}
    late = said.say(0, "OffsetCommit", "a", request, {}, took=100, error="ILLEGAL_GENERATION")
    soon = said.say(10, "TxnOffsetCommit", "b", {"generationIdOrMemberEpoch": -1}, {}, error="ILLEGAL_GENERATION")
    alone = said.say(20, "OffsetCommit", "c", {}, None, error="NOT_COORDINATOR")
    first, second, last = group_wide(said.log()).events
    assert [first.number, second.number, last.number] == [soon.number, alone.number, late.number]
    assert (first.member_id, first.instance_id, first.generation) == (None, None, None)
    assert (second.at, second.packet) == (alone.at, alone.request_packet)
    assert (last.at, last.packet, last.connection) == (late.answered, late.response_packet, late.connection)
    assert (last.member_id, last.instance_id, last.generation) == ("a~1", "i", 0)
    assert (last.client_id, last.client, last.group_id) == ("a", "host-of-a", "g")


def test_of_two_answers_at_once_the_one_in_the_earlier_packet_is_first() -> None:
    said = Conversation()
    for client in ("a", "b"):
        said.say(0, "DeleteGroups", client, {}, {"results": [{"groupId": "g", "errorCode": 0}]})
    said.messages.reverse()
    assert [each[2] for each in told(said)] == ["a", "b"]


@pytest.mark.parametrize(("refused", "events"), [(999, 999), (1_000, 1_000), (1_001, 1_000)])
def test_commits_that_are_refused_again_and_again_are_told_up_to_a_number(refused: int, events: int) -> None:
    said = Conversation()
    for at in range(refused):
        said.say(at, "OffsetCommit", "a", {"memberId": "a~1"}, {}, error="ILLEGAL_GENERATION")
    said.say(refused, "OffsetCommit", "a", {"memberId": "a~1"}, {}, error="REBALANCE_IN_PROGRESS")
    said.say(refused, "OffsetCommit", "b", {"memberId": "a~1"}, {}, error="ILLEGAL_GENERATION")
    assert len(told(said)) == events + 2


@pytest.mark.parametrize(
    ("member", "api", "request_", "altered"),
    [
        (True, "OffsetCommit", {"memberId": "", "topics": [{"name": "u"}, {"topicId": "x"}, {"name": "t"}]}, True),
        (True, "OffsetCommit", {"memberId": "b~1", "topics": [{"name": "t"}]}, False),  # a member's own
        (True, "TxnOffsetCommit", {"memberId": "", "topics": [{"name": "t"}]}, False),  # of a producer
        (True, "OffsetCommit", None, False),  # the capture lacks what it asks
        (True, "OffsetCommit", {"groupId": "g"}, False),  # or has no more of it than that
        (False, "OffsetCommit", {"memberId": "", "topics": [{"name": "t"}]}, False),  # a group of nobody: its only way
    ],
)
def test_who_commits_without_being_a_member_alters_the_offsets_of_a_group_with_members(
    member: bool, api: str, request_: dict[str, Any] | None, altered: bool
) -> None:
    said = Conversation()
    if member:
        said.heartbeat(0, "a~1", 1)
    said.say(10, api, "admin", request_, {})
    assert told(said) == [(11, "offsets_altered", "admin", "t, u, x")] * altered


def test_administration_says_what_it_was_about_and_whether_it_was_refused() -> None:
    said = Conversation()
    topics = {"topics": [{"topicName": "t"}], f"topics{LEFT_OUT}": 3}
    said.say(0, "AlterShareGroupOffsets", "x", topics, {})
    said.say(10, "AlterShareGroupOffsets", "x", topics, {}, error="NON_EMPTY_GROUP")
    said.say(20, "OffsetDelete", "x", {"topics": [{"name": "t"}]}, {})
    said.say(30, "DeleteShareGroupOffsets", "x", {}, {}, error="NON_EMPTY_GROUP")
    said.say(40, "DeleteGroups", "x", {}, {"results": [{"groupId": group, "errorCode": 0} for group in ("h", "g")]})
    said.say(50, "DeleteGroups", "x", {}, {"results": [{"groupId": "g", "errorCode": 68}]}, error="NON_EMPTY_GROUP")
    said.say(60, "DeleteGroups", "x", {}, {"results": [{"groupId": "g", "errorCode": 68}]})
    failed = {"groupId": "g", "errorCode": 134, "errorMessage": "the plugin is away"}
    said.say(65, "DeleteGroups", "x", {}, {"results": [failed]}, error="GROUP_DELETION_FAILED")
    settings = [
        {"name": "streams.num.standby.replicas", "value": "1"},
        {"name": "share.auto.offset.reset", "value": None},
    ]
    resources = {"resources": [{"resourceType": 32, "resourceName": "g", "configs": settings}]}
    said.say(70, "IncrementalAlterConfigs", "x", resources, {})
    said.say(80, "IncrementalAlterConfigs", "x", resources, {}, error="INVALID_CONFIG")
    assert told(said) == [
        (1, "offsets_altered", "x", "t and 3 more"),
        (11, "offsets_altered", "x", "t and 3 more refused: NON_EMPTY_GROUP"),
        (21, "offsets_deleted", "x", "t"),
        (31, "offsets_deleted", "x", "nothing refused: NON_EMPTY_GROUP"),
        (41, "deleted", "x", None),
        (51, "deleted", "x", "refused: NON_EMPTY_GROUP"),
        (61, "deleted", "x", "refused: NON_EMPTY_GROUP"),
        (66, "deleted", "x", "refused: the plugin is away"),
        (71, "configured", "x", "streams.num.standby.replicas=1, share.auto.offset.reset by default"),
        (
            81,
            "configured",
            "x",
            "streams.num.standby.replicas=1, share.auto.offset.reset by default refused: INVALID_CONFIG",
        ),
    ]


def test_a_long_list_of_topics_is_cut() -> None:
    said = Conversation()
    said.say(0, "OffsetDelete", "x", {"topics": [{"name": f"t{number:02}"} for number in range(21)]}, {})
    [(_, _, _, detail)] = told(said)
    assert detail is not None
    assert detail.endswith("t18, t19 and 1 more")


@pytest.mark.parametrize(
    "api", ["DescribeGroups", "ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe"]
)
def test_descriptions(api: str) -> None:
    said = Conversation()
    group = {"groupId": "g", "groupState": "Stable", "errorCode": 0, "members": [{}, {}]}
    said.say(0, api, "x", {}, {"groups": [{"groupId": "h"}, group]})
    said.say(10, api, "x", {}, {"groups": [{"groupId": "g", "errorCode": 69}]}, error="GROUP_ID_NOT_FOUND")
    assert told(said) == [
        (1, "described", "x", "Stable, 2 members"),
        (11, "described", "x", "GROUP_ID_NOT_FOUND, 0 members"),
    ]
