"""What members said and were told, as facts. Times are milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kafkascope.reports.groups.classic.facts import GroupFacts, facts_of, same_protocols
from kafkascope.reports.groups.classic.tenures import TakeOver, taken_over
from tests.reports.groups.group_logs import MS, START, Conversation, changed, unanswered

SHARES = {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}}
OTHER = "10.0.0.2:9092"  # another connection of the same client


def facts(said: Conversation) -> GroupFacts:
    return facts_of(said.log())


def after_start(times: Sequence[int]) -> list[float]:
    return [(at - START) / MS for at in times]


def test_words_of_a_member_are_in_order_of_time() -> None:
    said = Conversation()
    join = said.join(0, "a~1", generation=1, took=3_000)
    beat = said.heartbeat(1_000, "a~1", 1, broker=OTHER)
    lost = said.say(4_000, "Heartbeat", "a", {"memberId": "a~1", "generationId": 1}, None)
    words = facts(said).words["a~1"]
    assert after_start(words.times) == [0, 1_000, 3_000, 4_000]
    assert list(words.packets) == [join.packet, beat.packet, join.response_packet, lost.packet]
    assert after_start(words.heard) == [0, 1_000, 3_000]  # the last one may never have got there
    assert list(words.connections) == [join.connection, beat.connection]
    assert words.last_before(START - 1) is None
    assert words.last_before(START) == (START, join.packet)
    assert words.last_before(START + 2_999 * MS) == (beat.at, beat.packet)


def test_who_joins_a_generation_once_more_does_not_prolong_its_session() -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, took=100)
    said.sync(200, "a~1", 1, error="REBALANCE_IN_PROGRESS")
    said.sync(300, "a~1", 1, {"t": [0]})
    said.join(1_000, "a~1", generation=1)
    said.sync(1_100, "a~1", 1, {"t": [0]})
    said.join(1_500, "b~1", generation=1, took=100)  # each member has a session of its own
    said.join(2_000, "a~1", generation=2, took=100)
    said.sync(2_200, "a~1", 2, {"t": [0]})
    found = facts(said)
    assert after_start(found.words["a~1"].heard) == [0, 100, 200, 300, 301, 2_000, 2_100, 2_200, 2_201]
    assert after_start(found.words["a~1"].times) == [0, 100, 200, 300, 301, 1_000, 1_100, 2_000, 2_100, 2_200, 2_201]
    assert after_start(found.words["b~1"].heard) == [1_500, 1_600]


def test_where_a_connection_has_no_answers_at_all_what_was_said_was_heard() -> None:
    said = Conversation()
    exchanges = said.join(0, "a~1", generation=1), said.sync(1_000, "a~1", 1), said.heartbeat(4_000, "a~1", 1)
    said.messages = [unanswered(one) for one in exchanges]
    assert after_start(facts(said).words["a~1"].heard) == [0, 1_000, 4_000]


def test_a_join_group_is_heard_though_its_answer_is_not_seen() -> None:
    said = Conversation()
    said.join(0, "a~1")
    words = facts(said).words["a~1"]
    assert after_start(words.times) == after_start(words.heard) == [0]


@pytest.mark.parametrize(("error", "heard"), [("MEMBER_ID_REQUIRED", [0]), ("UNKNOWN_MEMBER_ID", [])])
def test_a_refused_join_group_is_a_word_of_whom_it_gave_an_id(error: str, heard: list[float]) -> None:
    said = Conversation()
    said.join(0, "a~1", error=error)
    found = facts(said)
    assert {member: after_start(words.times) for member, words in found.words.items()} == (
        {"a~1": heard} if heard else {}
    )
    assert [(join.member_id, join.error, join.generation) for join in found.joins] == [("a~1", error, None)]


def test_a_join_group_without_an_id_or_answer_is_a_word_of_nobody() -> None:
    said = Conversation()
    said.join(0, "a~1", new=True)
    found = facts(said)
    assert (list(found.words), [join.member_id for join in found.joins]) == ([], [""])


def test_who_does_nothing_but_commit_is_a_member_of_another_protocol() -> None:
    said = Conversation()

    def commit(at: float, member: str, error: str | None = None) -> None:
        request = {"memberId": member, "generationIdOrMemberEpoch": 1}
        said.say(at, "OffsetCommit", member[0], request, {}, error=error)

    commit(0, "commits~1")
    commit(10, "refused commits~1", "ILLEGAL_GENERATION")
    said.heartbeat(20, "beats~1", 1)
    commit(25, "commits and beats~1")
    said.heartbeat(28, "commits and beats~1", 1)
    said.heartbeat(30, "refused beats~1", 1, "REBALANCE_IN_PROGRESS")
    said.heartbeat(40, "dropped~1", 1, "UNKNOWN_MEMBER_ID")
    said.leave(50, "leaves~1")
    commit(60, "leaves~1")
    said.sync(70, "syncs~1", 1)
    said.join(80, "joins~1")
    found = facts(said)
    beat = {"beats~1", "commits and beats~1", "refused beats~1"}
    assert set(found.words) == beat | {"leaves~1", "syncs~1", "joins~1"}
    assert set(found.spoke) == set(found.words)
    named = [(seen.member_id, seen.message.api) for seen in found.named]
    assert named == [
        ("beats~1", "Heartbeat"),
        ("commits and beats~1", "OffsetCommit"),
        ("refused beats~1", "Heartbeat"),
        ("leaves~1", "OffsetCommit"),
        ("syncs~1", "SyncGroup"),
    ]
    assert [each.member_id for each in found.refusals] == ["refused beats~1", "dropped~1"]


def test_a_request_is_taken_up_when_the_one_before_it_on_its_connection_is_answered() -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, took=3_000)
    behind = said.heartbeat(100, "a~1", 1, took=2_901)
    said.heartbeat(200, "b~1", 1)
    at_once = said.heartbeat(4_000, "a~1", 1, took=0)
    found = facts(said)
    assert behind.answered == START + 3_001 * MS
    times = [START + 200 * MS, START + 3_000 * MS + 1, at_once.at]
    assert list(found.content[1]) == times  # in order of when, not of when they were sent
    assert [seen.at for seen in found.named] == times[:2]
    for low, high, last in (
        (0, times[2], times[2]),
        (0, times[2] - 1, times[1]),
        (times[1] - 1, times[1], times[1]),
        (times[1], times[2] - 1, None),
        (0, times[0] - 1, None),
    ):
        assert found.last_content(1, low, high) == last
    assert found.last_content(2, 0, times[2]) is None


@pytest.mark.parametrize(
    ("member", "version", "instance", "answered", "error", "id_given"),
    [
        ("", 4, None, True, "MEMBER_ID_REQUIRED", True),
        ("", 4, None, True, None, False),
        ("", 4, None, False, None, True),  # that is what the answer will have been
        ("", 3, None, False, None, False),
        ("", 4, "one", False, None, False),  # static members are let in at once
        ("a~1", 4, None, False, None, False),
    ],
)
def test_a_new_dynamic_member_is_given_an_id_to_come_again_with(
    member: str, version: int, instance: str | None, answered: bool, error: str | None, id_given: bool
) -> None:
    said = Conversation()
    generation = 1 if answered and not error else None
    said.join(0, "a~1", new=not member, version=version, instance=instance, generation=generation, error=error)
    (join,) = facts(said).joins
    assert (join.id_given, join.asked_id) == (id_given, not member)


@pytest.mark.parametrize(("answered", "generation"), [(-1, None), (0, 0), (1, 1)])
def test_the_generation_that_a_join_group_was_answered_with(answered: int, generation: int | None) -> None:
    said = Conversation()
    said.join(0, "a~1", generation=answered)
    (join,) = facts(said).joins
    assert join.generation == generation


def test_timeouts_of_a_member() -> None:
    said = Conversation()
    said.join(0, "a~1", session=6_000, rebalance=20_000)
    old = {"memberId": "a~1", "sessionTimeoutMs": 7_000, "protocols": []}  # version 0 has one for both
    said.say(10, "JoinGroup", "a", old, None, version=0)
    said.messages.append(changed(said.join(20, "a~1", generation=1), request_text=None, number=99))
    timeouts = [(join.session_timeout_ms, join.rebalance_timeout_ms) for join in facts(said).joins]
    assert timeouts == [(6_000, 20_000), (7_000, 7_000), (10_000, 60_000), (None, None)]


def test_instance_ids_are_known_of_joins_of_what_the_leader_is_told_and_of_heartbeats() -> None:
    said = Conversation()
    listed: dict[str, dict[str, Any]] = {
        "a~1": {"groupInstanceId": "one"},
        "b~1": {"groupInstanceId": "two"},
        "c~1": {},
    }
    said.join(0, "a~1", instance="one", generation=1, members=listed)
    said.join(10, "c~1", generation=1)
    said.join(15, "", instance="nobody")
    request = {"memberId": "d~1", "generationId": 1, "groupInstanceId": "four"}
    said.say(20, "Heartbeat", "d", request, {})
    assert facts(said).instances == {"a~1": "one", "b~1": "two", "d~1": "four"}


@pytest.mark.parametrize(("generation", "is_named"), [(-1, False), (0, True), (1, True)])
@pytest.mark.parametrize("api", ["SyncGroup", "OffsetCommit"])
def test_requests_name_generations_from_zero_on(api: str, generation: int, is_named: bool) -> None:
    said = Conversation()
    said.join(0, "a~1")
    said.say(10, api, "a", {"memberId": "a~1", "generationId": generation}, {}, broker=OTHER)
    found = facts(said)
    assert [(seen.generation, seen.message.api) for seen in found.named] == ([(generation, api)] if is_named else [])
    answered = [11] if api == "SyncGroup" else []  # a session begins anew with that
    assert after_start(found.words["a~1"].times) == ([0, 10, *answered] if is_named else [0])


def test_a_generation_is_named_by_the_first_word_of_each_member_that_is_in_it() -> None:
    said = Conversation()
    said.heartbeat(0, "a~1", 1)
    said.heartbeat(10, "a~1", 1)
    said.heartbeat(20, "a~1", 2, "ILLEGAL_GENERATION")
    said.heartbeat(30, "a~1", 3, "NOT_COORDINATOR")
    said.heartbeat(40, "a~1", 4, "REBALANCE_IN_PROGRESS")
    said.heartbeat(50, "b~1", 1)
    found = facts(said)
    named = [(seen.member_id, seen.generation, *after_start([seen.at])) for seen in found.named]
    assert named == [("a~1", 1, 0), ("a~1", 4, 40), ("b~1", 1, 50)]
    assert [each.error for each in found.refusals] == ["ILLEGAL_GENERATION", "NOT_COORDINATOR", "REBALANCE_IN_PROGRESS"]
    assert after_start(found.words["a~1"].times) == [0, 10, 40]


@pytest.mark.parametrize(
    ("members", "answers", "error", "errors"),
    [
        (1, [], None, [None]),
        (1, [{"errorCode": 25}], "UNKNOWN_MEMBER_ID", ["UNKNOWN_MEMBER_ID"]),
        (2, [{"errorCode": 25}, {"errorCode": 0}], "UNKNOWN_MEMBER_ID", ["UNKNOWN_MEMBER_ID", None]),
        (2, [{"errorCode": 25}], "UNKNOWN_MEMBER_ID", ["UNKNOWN_MEMBER_ID", None]),
        (2, [{}, {"errorCode": 25}], "UNKNOWN_MEMBER_ID", [None, "UNKNOWN_MEMBER_ID"]),
        (2, [], "NOT_COORDINATOR", ["NOT_COORDINATOR", "NOT_COORDINATOR"]),  # refused as a whole
    ],
)
def test_each_member_of_a_leave_group_has_an_answer_of_its_own(
    members: int, answers: list[dict[str, Any]], error: str | None, errors: list[str | None]
) -> None:
    said = Conversation()
    leave = [{"memberId": f"m{each}~1", "groupInstanceId": None, "reason": "why"} for each in range(members)]
    said.say(0, "LeaveGroup", "m", {"members": leave}, {"members": answers}, error=error)
    found = facts(said)
    assert [(each.member_id, each.instance_id, each.reason) for each in found.leaves] == [
        (f"m{each}~1", None, "why") for each in range(members)
    ]
    assert [each.error for each in found.leaves] == errors
    assert len(found.leaves_between(START - 1, START)) == errors.count(None)
    assert found.leaves_between(START, START + 1) == found.leaves_between(START - 2, START - 1) == []


def test_a_commit_while_its_generation_is_being_formed_prolongs_no_session() -> None:
    said = Conversation()
    said.heartbeat(0, "a~1", 1)
    commit = {"memberId": "a~1", "generationIdOrMemberEpoch": 1}
    said.say(10, "OffsetCommit", "a", commit, {}, error="REBALANCE_IN_PROGRESS")
    words = facts(said).words["a~1"]
    assert (after_start(words.times), after_start(words.heard)) == ([0, 10], [0])


@pytest.mark.parametrize(("until", "told"), [(30, False), (31, True), (50, True)])
def test_who_asked_a_broker_that_was_no_coordinator_asked_in_vain(until: float, told: bool) -> None:
    said = Conversation()
    said.heartbeat(0, "a~1", 1, "NOT_COORDINATOR")
    said.heartbeat(10, "a~1", 1)
    said.heartbeat(30, "a~1", 1, "NOT_COORDINATOR")  # answered a millisecond later
    assert facts(said).asked_in_vain("a~1", START + int(until * MS)) is told
    assert facts(said).asked_in_vain("b~1", START + int(until * MS)) is False


HERE, OTHER = "10.0.0.1:9092", "10.0.0.2:9092"


@pytest.mark.parametrize(
    ("error", "broker", "again", "low", "at"),
    [
        ("NOT_COORDINATOR", HERE, OTHER, 1, 11),
        ("NOT_COORDINATOR", OTHER, OTHER, 11, 11),  # it does not know yet that it is chosen
        ("COORDINATOR_LOAD_IN_PROGRESS", OTHER, OTHER, 11, 11),
        ("NOT_COORDINATOR", HERE, HERE, 11, 11),  # and has it again
        ("COORDINATOR_NOT_AVAILABLE", HERE, HERE, 0, None),  # it could not write
        ("COORDINATOR_NOT_AVAILABLE", HERE, OTHER, 1, 1),
    ],
)
def test_a_group_is_taken_over_when_its_coordinator_has_lost_it(
    error: str, broker: str, again: str, low: int, at: int | None
) -> None:
    said = Conversation()
    said.heartbeat(0, "a~1", 1)
    said.heartbeat(10, "a~1", 1, error, broker=broker)
    said.heartbeat(20, "a~1", 1, broker=again)
    found = taken_over(facts(said).tenures, START, START + 30 * MS)
    if at is None:
        assert found is None
    else:
        assert found == TakeOver(HERE, again, START + low * MS, START + at * MS, START + 20 * MS)
        early = taken_over(facts(said).tenures, START, START + 15 * MS)
        assert (early is None) is (error == "COORDINATOR_NOT_AVAILABLE")


def test_a_coordinator_with_two_addresses_is_taken_over_by_nobody() -> None:
    said = Conversation()
    for at in range(0, 100, 20):
        said.heartbeat(at, "a~1", 1)
        if at:
            said.heartbeat(at + 10, "b~1", 1, broker=OTHER)
    assert [(each.broker, each.first, each.last) for each in facts(said).tenures] == [(HERE, START, START + 91 * MS)]


def test_the_one_member_of_an_old_leave_group() -> None:
    said = Conversation()
    said.say(0, "LeaveGroup", "a", {"memberId": "a~1"}, {}, version=2)
    assert [(each.member_id, each.error) for each in facts(said).leaves] == [("a~1", None)]


@pytest.mark.parametrize(
    ("connection", "response", "found"),
    [
        ("a", {"members": [{"memberId": "a~1", "groupInstanceId": "i", "errorCode": 0}]}, [("a~1", "i", False)]),
        ("a", {}, [("a~1", None, False)]),  # who spoke on that connection before
        ("b", {}, []),
    ],
)
def test_of_a_leave_group_that_the_capture_cut_the_answer_tells_who_left(
    connection: str, response: dict[str, Any], found: list[tuple[str, str | None, bool]]
) -> None:
    said = Conversation()
    said.heartbeat(0, "a~1", 1)
    said.say(10, "LeaveGroup", connection, {"groupId": "g"}, response)
    leaves = facts(said).leaves
    assert [(each.member_id, each.instance_id, each.has_request) for each in leaves] == found
    assert [(each.reason, each.error) for each in leaves] == [("", None)] * len(found)


def test_protocols_are_the_same_whatever_the_order_of_their_fields() -> None:
    said = Conversation()
    for at, protocol in enumerate(
        ({"name": "range", "metadata": "x"}, {"metadata": "x", "name": "range"}, {"name": "range", "metadata": "y"})
    ):
        said.say(at, "JoinGroup", "a", {"memberId": "a~1", "protocols": [protocol]}, None)
    one, swapped, other = facts(said).joins
    assert same_protocols(one, swapped)
    assert not same_protocols(one, other)
