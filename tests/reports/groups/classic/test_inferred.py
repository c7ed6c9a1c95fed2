"""Generations that nobody names: when there must have been one, when it was, and when none is made up.

Times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkascope.reports.groups.classic.history import classic
from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.group_logs import (
    LAST_WORD,
    MS,
    SESSION_ENDS,
    SHARES,
    START,
    Conversation,
    Members,
    two_members,
    without,
)


def until(said: Conversation, at: float) -> Conversation:
    """The same capture, which goes on until then."""
    said.say(at - 1, "FindCoordinator", "x", {"key": "g"}, {})
    return said


def inferred(said: Conversation) -> list[Rebalance]:
    return [each for each in classic(said.log()).rebalances if each.inferred]


@pytest.mark.parametrize(("number", "missing"), [(2, 0), (3, 1), (102, 100), (103, 0)])
def test_generations_between_two_are_inferred_unless_the_group_was_out_of_sight_for_long(
    number: int, missing: int
) -> None:
    said = Conversation()
    said.join(0, "b~1", generation=1, leader="a~1")
    said.join(9_000, "b~1", generation=number, leader="a~1")
    assert [each.to_generation for each in inferred(said)] == list(range(2, 2 + missing))


def test_nothing_is_inferred_between_generations_that_follow_each_other() -> None:
    said = two_members()
    said.again(12_000, 2, SHARES)
    assert inferred(said) == []


Says = Callable[[Conversation], object]
begins: list[tuple[Says, str | None]] = [
    (lambda said: said.leave(12_000, "b~1"), "member_left"),
    (lambda said: said.leave(12_000, "b~1", error="UNKNOWN_MEMBER_ID"), None),
    (lambda said: said.leave(12_000, "c~1"), None),  # it is not in the group
    (lambda said: said.leave(3_000, "b~1"), None),  # before this generation was formed
    (lambda said: said.join(12_000, "c~1"), "member_joined"),
    (lambda said: said.join(12_000, "c~1", new=True), None),  # it will be told its id first
    (lambda said: said.join(12_000, "c~1", error="GROUP_MAX_SIZE_REACHED"), None),
    (lambda said: said.join(12_000, "c~1", generation=-1), None),  # it was answered
    (lambda said: said.join(12_000, "b~1"), None),  # static or not, it may be let in as it is
    (lambda said: said.join(3_000, "c~1"), None),
    (lambda said: said.heartbeat(12_000, "a~1", 1), None),
]


@pytest.mark.parametrize(("says", "trigger"), begins)
def test_a_rebalance_is_open_as_the_capture_ends_if_a_member_left_or_another_one_joins(
    says: Says, trigger: str | None
) -> None:
    said = two_members()
    says(said)
    found = inferred(until(said, 13_000))
    assert [(each.to_generation, each.trigger) for each in found] == ([] if trigger is None else [(2, trigger)])
    assert [each.stable for each in found] == [None] * len(found)


@pytest.mark.parametrize(("error", "is_open"), [("UNKNOWN_SERVER_ERROR", True), ("COORDINATOR_NOT_AVAILABLE", False)])
def test_a_rebalance_is_open_as_the_capture_ends_if_the_assignment_is_too_large(error: str, is_open: bool) -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, members={"a~1": {}})
    said.sync(10, "a~1", 1, gives={"a~1": {"t": [0]}}, error=error)
    found = inferred(until(said, 1_000))
    assert [(each.to_generation, each.trigger) for each in found] == [(2, "assignment_not_stored")] * is_open


def test_a_rebalance_is_open_as_the_capture_ends_if_a_static_member_was_taken_out() -> None:
    said = Conversation()
    listed: Members = {"a~1": {}, "b~1": {"groupInstanceId": "two"}}
    said.join(0, "a~1", generation=1, members=listed, took=3_000)
    said.join(20, "b~1", new=True, instance="two", generation=1, leader="a~1", took=2_980)
    said.leave(6_000, "", instance="nobody's", client="admin", host="elsewhere")
    assert inferred(until(said, 7_000)) == []
    said.leave(6_500, "", instance="two", client="admin", host="elsewhere")
    (found,) = inferred(said)
    assert (found.to_generation, found.trigger, found.trigger_member) == (2, "removed_by_admin", "b~1")


def test_a_group_is_empty_when_its_last_member_has_left() -> None:
    said = two_members()
    said.leave(12_000, "a~1", "the consumer is being closed")
    said.leave(12_400, "b~1", "the consumer is being closed")
    said.join(12_500, "c~1", error="GROUP_MAX_SIZE_REACHED")
    said.leave(12_600, "d~1")  # it was no member
    (found,) = inferred(until(said, 60_000))
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("member_left", "a", Certainty.CERTAIN)
    assert (found.started, found.stable, found.members) == (START + 12_000 * MS, START + 12_400 * MS, [])
    assert [(each.trigger, each.client_id) for each in found.contributing] == [("member_left", "b")]


@pytest.mark.parametrize(("ends", "is_empty"), [(SESSION_ENDS, True), (SESSION_ENDS - 0.5, False)])
def test_a_group_is_empty_when_the_session_of_its_last_member_has_ended(ends: float, is_empty: bool) -> None:
    said = two_members()
    said.leave(11_000, "a~1", error="UNKNOWN_MEMBER_ID")
    said.leave(12_000, "b~1", "the consumer is being closed")
    (found,) = inferred(until(said, ends))
    assert (found.trigger, found.trigger_client_id) == ("member_left", "b")
    assert found.stable == (START + SESSION_ENDS * MS if is_empty else None)  # else a may still be there
    assert found.certainty == Certainty.LIKELY


def test_a_group_is_not_empty_while_somebody_asks_to_join() -> None:
    said = two_members()
    said.leave(12_000, "a~1")
    said.join(12_100, "c~1")
    said.leave(12_200, "b~1")
    (found,) = inferred(until(said, 60_000))
    assert (found.stable, found.trigger_client_id) == (None, "a")


def test_a_group_is_empty_when_who_asked_to_join_has_left_as_well() -> None:
    said = two_members()
    said.leave(12_000, "a~1")
    said.join(12_100, "c~1")
    said.leave(12_200, "b~1")
    said.leave(12_300, "c~1", broker="10.0.0.2:9092")
    (found,) = inferred(until(said, 60_000))
    assert (found.stable, found.members) == (START + 12_300 * MS, [])
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("member_left", "a", Certainty.CERTAIN)


@pytest.mark.parametrize(("leaves", "stable"), [(True, [START + 12_000 * MS]), (False, [])])
def test_a_group_of_which_not_all_members_are_known_is_empty_only_if_the_last_one_said_so(
    leaves: bool, stable: list[int]
) -> None:
    said = Conversation()
    said.heartbeat(1_000, "b~1", 4)
    if leaves:
        said.leave(12_000, "b~1")
    assert [each.stable for each in inferred(until(said, 60_000))] == stable


def test_a_leader_of_which_others_were_told_is_still_there_when_they_have_left() -> None:
    said = without(two_members(), "a")
    said.leave(12_000, "b~1")
    (found,) = inferred(until(said, 60_000))
    assert (found.trigger_client_id, found.stable, found.members) == ("b", None, [])


@pytest.mark.parametrize(
    ("again_at", "stable", "trigger"),
    [
        (SESSION_ENDS + 5_000, SESSION_ENDS, "session_timeout"),
        (SESSION_ENDS - 5_000, SESSION_ENDS - 5_000, "member_left"),  # it cannot have been for their sessions
    ],
)
def test_a_group_was_empty_before_others_began_it_anew(again_at: int, stable: int, trigger: str) -> None:
    said = two_members()
    said.join(again_at, "c~1", generation=3, members={"c~1": {}}, took=3_000)
    (found,) = inferred(said)
    assert (found.to_generation, found.trigger, found.members) == (2, trigger, [])
    assert found.stable == START + stable * MS - (stable == again_at)


def test_who_of_those_that_a_new_coordinator_never_heard_is_taken_out_first_is_not_known() -> None:
    said = two_members()
    good = said.heartbeat(LAST_WORD + 500, "a~1", 1).answered or 0
    said.say(LAST_WORD + 600, "OffsetCommit", "b", {"memberId": "b~1", "generationIdOrMemberEpoch": 1}, None)
    said.join(60_000, "c~1", generation=3, members={"c~1": {}}, took=3_000, broker="10.0.0.2:9092")
    (found,) = inferred(said)
    assert (found.to_generation, found.trigger, found.certainty) == (2, "session_timeout", Certainty.GUESSED)
    assert found.started == found.stable == good + 10_000 * MS
    assert [each.trigger for each in found.contributing] == ["session_timeout"]


def test_a_group_whose_members_are_not_known_whole_was_not_empty_for_all_one_knows() -> None:
    said = without(two_members(), "a")
    said.join(60_000, "b~2", generation=3, leader="a~1", took=100)
    (found,) = inferred(said)
    assert (found.to_generation, found.stable) == (2, None)


@pytest.mark.parametrize(
    ("told_at", "heard_at", "is_empty"),
    [
        (None, None, True),
        (LAST_WORD, None, False),
        (LAST_WORD - 0.5, None, True),
        (30_000, None, False),
        (15_000, 15_500, True),  # it was there again
    ],
)
def test_sessions_of_members_that_seek_their_coordinator_are_not_counted(
    told_at: float | None, heard_at: int | None, is_empty: bool
) -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, members={"a~1": {}}, took=3_000)
    said.heartbeat(LAST_WORD, "a~1", 1)
    said.heartbeat(20_000, "b~1", 1, "NOT_COORDINATOR")  # another one
    if told_at is not None:
        said.heartbeat(told_at - 1, "a~1", 1, "NOT_COORDINATOR", broker="10.0.0.2:9092")
    if heard_at is not None:
        said.heartbeat(heard_at, "a~1", 1)
    assert [each.trigger for each in inferred(until(said, 30_000))] == (["session_timeout"] if is_empty else [])
