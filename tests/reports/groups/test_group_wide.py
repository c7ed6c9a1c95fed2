"""Coordinators, commits and administration, of real clients and by hand."""

from __future__ import annotations

from kafkascope.reports.groups.group_wide import group_wide
from kafkascope.reports.vocabulary.events import EventKind
from tests.reports.groups.group_logs import Conversation, captured_logs


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
