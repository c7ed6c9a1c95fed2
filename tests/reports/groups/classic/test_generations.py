"""Generations, as requests and answers name them. Times are milliseconds."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.groups.classic.facts import facts_of
from kafkascope.reports.groups.classic.generations import Generation, generations_of
from kafkascope.reports.groups.classic.history import classic
from tests.reports.groups.group_logs import MS, START, Conversation, changed, subscription

SHARES = {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}}


def lives_of(said: Conversation) -> list[list[Generation]]:
    return generations_of(facts_of(said.log()))


def numbers_of(said: Conversation) -> list[list[int]]:
    return [[generation.number for generation in life] for life in lives_of(said)]


def only_one(said: Conversation) -> Generation:
    ((generation,),) = lives_of(said)
    return generation


def test_members_are_those_that_joined_that_were_given_something_and_that_spoke() -> None:
    said = Conversation()
    said.join(0, "joins~1", generation=1, leader="leads~1", took=10)
    said.sync(20, "leads~1", 1, {"t": [0]}, {"leads~1": {"t": [0]}, "is given~1": {"t": [1]}})
    said.heartbeat(30, "speaks~1", 1)
    found = only_one(said)
    assert found.members == ["is given~1", "joins~1", "leads~1", "speaks~1"]
    assert found.complete
    assert not found.only_named
    assert (found.leader, found.formed) == ("leads~1", START + 10 * MS)
    assert found.assigned == {"leads~1": ["t-0"], "is given~1": ["t-1"]}


def test_a_generation_is_not_known_whole_without_the_leader() -> None:
    said = Conversation()
    said.join(0, "b~1", generation=1, leader="a~1", took=10)
    said.join(1, "c~1", generation=1, leader="a~1", took=9)
    said.sync(20, "b~1", 1, {"t": [0]})
    found = only_one(said)
    assert (found.members, found.complete, found.leader) == (["a~1", "b~1", "c~1"], False, "a~1")
    assert (found.assigned, found.leader_sync) == ({"b~1": ["t-0"]}, None)


def test_who_gives_out_the_assignment_leads() -> None:
    said = Conversation()
    said.sync(0, "a~1", 1, gives=SHARES)
    found = only_one(said)
    assert (found.leader, found.members, found.complete) == ("a~1", ["a~1", "b~1"], True)


def test_what_heartbeats_alone_name_nobody_joined() -> None:
    said = Conversation()
    said.heartbeat(0, "a~1", 4)
    found = only_one(said)
    assert (found.only_named, found.members, found.formed, found.begun) == (True, ["a~1"], START, START)


@pytest.mark.parametrize(
    ("syncs", "stable"),
    [
        ([("b~1", 20, None, True), ("c~1", 22, None, True)], 21),
        ([("b~1", 20, None, False), ("c~1", 22, None, True)], 23),
        ([("b~1", 20, "REBALANCE_IN_PROGRESS", True), ("c~1", 22, None, True)], 23),
        ([("b~1", 20, "REBALANCE_IN_PROGRESS", True)], None),
        ([("b~1", 20, "REBALANCE_IN_PROGRESS", True), ("b~1", 22, None, True)], 23),
        ([("b~1", 20, None, True), ("b~1", 22, "REBALANCE_IN_PROGRESS", True)], 21),
        ([("b~1", 20, None, True), ("b~1", 22, None, True)], 21),
        ([("b~1", 20, None, False), ("b~1", 22, None, True)], 23),
    ],
)
def test_without_the_leader_a_generation_is_stable_when_the_first_member_has_its_assignment(
    syncs: list[tuple[str, int, str | None, bool]], stable: int | None
) -> None:
    said = Conversation()
    for member in ("b~1", "c~1"):
        said.join(0, member, generation=1, leader="a~1", took=10)
    for member, at, error, is_answered in syncs:
        message = said.sync(at, member, 1, {"t": [0]}, error=error)
        if not is_answered:
            said.messages[-1] = changed(message, answered=None, outcome="unanswered", response_text=None)
    assert only_one(said).stable == (None if stable is None else START + stable * MS)


@pytest.mark.parametrize(("error", "stable"), [(None, 20), ("REBALANCE_IN_PROGRESS", None)])
def test_a_generation_is_stable_when_the_broker_has_the_leaders_assignment(
    error: str | None, stable: int | None
) -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, members={"a~1": {}, "b~1": {}}, took=10)
    said.sync(20, "a~1", 1, gives={"a~1": {"t": [0]}}, error=error)
    found = only_one(said)
    assert found.stable == (None if stable is None else START + stable * MS)
    # who is in the group and not in the assignment gets nothing; what the broker did not take nobody has
    assert found.assigned == ({} if error else {"a~1": ["t-0"], "b~1": []})


@pytest.mark.parametrize(("later_ms", "lives"), [(3_000, [[1, 2, 3]]), (3_000.5, [[2, 3], [1]])])
def test_a_group_began_anew_if_a_lower_generation_is_answered_well_after_a_higher_one(
    later_ms: float, lives: list[list[int]]
) -> None:
    said = Conversation()
    said.join(0, "a~1", generation=2, took=1)
    said.join(10, "a~1", generation=3, took=1)
    said.join(11, "c~1", generation=1, took=later_ms)
    assert numbers_of(said) == lives


def test_generations_of_a_life_are_told_from_those_of_the_one_before() -> None:
    said = Conversation()
    for at, number in ((0, 2), (10_000, 3), (20_000, 4), (60_000, 2), (70_000, 3)):
        said.join(at, "a~1", generation=number)
    said.heartbeat(80_000, "a~1", 3)
    said.heartbeat(90_000, "a~1", 2)
    assert numbers_of(said) == [[2, 3, 4], [2, 3]]


@pytest.mark.parametrize(
    ("member", "is_new"),
    [
        ("a~1", False),  # it joined: the same answer again
        ("b~1", False),  # it is in the leader's list
        ("c~1", False),  # it was heard
        ("d~1", True),
    ],
)
def test_a_group_began_anew_if_a_stranger_joins_the_same_generation_long_after(member: str, is_new: bool) -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, members={"a~1": {}, "b~1": {}})
    said.heartbeat(10, "c~1", 1)
    said.join(60_000, member, generation=1, broker="10.0.0.2:9092")
    assert numbers_of(said) == ([[1], [1]] if is_new else [[1]])


@pytest.mark.parametrize(("number", "numbers"), [(4, [[5]]), (5, [[5]]), (6, [[5, 6]])])
def test_a_late_word_of_a_generation_that_has_passed_unseen_makes_none(number: int, numbers: list[list[int]]) -> None:
    said = Conversation()
    said.join(0, "a~1", generation=5)
    said.heartbeat(10, "b~1", number)
    assert numbers_of(said) == numbers


@pytest.mark.parametrize(
    ("of_request", "of_answer", "protocol_type", "assignor"),
    [
        ({}, {"protocolType": "consumer", "protocolName": "range"}, "consumer", "range"),
        ({"protocolType": "consumer"}, {"protocolName": "range"}, "consumer", "range"),  # before version 7
        ({"protocolType": "connect"}, {"protocolType": "consumer", "protocolName": None}, "consumer", None),
    ],
)
def test_protocol_and_assignor_of_a_join_group(
    of_request: dict[str, Any], of_answer: dict[str, Any], protocol_type: str, assignor: str | None
) -> None:
    said = Conversation()
    joined = {"generationId": 1, "memberId": "a~1", "leader": "a~1", "members": []}
    said.say(0, "JoinGroup", "a", {"memberId": "a~1"} | of_request, joined | of_answer)
    said.say(10, "JoinGroup", "b", {"memberId": "b~1"}, joined | {"memberId": "b~1"})  # which says nothing of it
    found = only_one(said)
    assert (found.protocol_type, found.assignor) == (protocol_type, assignor)


@pytest.mark.parametrize("side", ["request", "answer"])
def test_protocol_and_assignor_of_a_sync_group(side: str) -> None:
    said = Conversation()
    names = {"protocolType": "connect", "protocolName": "sessioned"}
    syncs = {"memberId": "a~1", "generationId": 1}
    said.say(0, "SyncGroup", "a", syncs | (names if side == "request" else {}), names if side == "answer" else {})
    said.say(10, "SyncGroup", "b", syncs | {"memberId": "b~1"}, {"protocolType": "other", "protocolName": "other"})
    found = only_one(said)
    assert (found.protocol_type, found.assignor) == ("connect", "sessioned")


def test_the_leaders_list() -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, members={"a~1": {"groupInstanceId": "one"}, "b~1": {}})
    told = subscription(("t",), None, None)
    assert only_one(said).listed == {"a~1": ("one", told), "b~1": (None, told)}


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_static_member_that_comes_again_takes_the_place_of_the_one_before(is_seen: bool) -> None:
    said = Conversation()
    listed: dict[str, dict[str, Any]] = {"a~1": {"groupInstanceId": "one"}, "b~1": {"groupInstanceId": "two"}}
    said.join(0, "a~1", new=True, instance="one", generation=1, members=listed, took=10)
    if is_seen:
        said.join(5, "b~1", new=True, instance="two", generation=1, leader="a~1", took=5)
    said.synced(20, 1, {"a~1": {"t": [0]}})
    said.join(6_000, "b~2", new=True, instance="two", generation=1, leader="a~1")
    said.sync(6_010, "b~2", 1, {"t": [1]})
    said.join(7_000, "b~3", new=True, instance="two", generation=1, leader="a~1")
    found = only_one(said)
    assert found.aliases == {"b~1": "b~2", "b~2": "b~3"}
    assert list(found.replaced) == ["b~2", "b~3"]
    assert set(found.joins) == ({"a~1", "b~1"} if is_seen else {"a~1"})
    assert (found.members, found.present()) == (["a~1", "b~1"], {"a~1", "b~3"})


def test_a_static_member_that_comes_again_gets_what_the_one_before_it_had() -> None:
    said = Conversation()
    said.join(0, "b~1", new=True, instance="two", generation=1, leader="a~1", took=10)
    said.join(6_000, "b~2", new=True, instance="two", generation=1, leader="a~1")
    said.sync(6_010, "b~2", 1, {"t": [1]})
    assert only_one(said).assigned == {"b~1": ["t-1"], "b~2": ["t-1"]}


def work(*tasks: int) -> dict[str, Any]:
    return {"_definition": "ConnectAssignment", "_version": 2, "assignment": [{"connector": "c", "tasks": list(tasks)}]}


@pytest.mark.parametrize(
    ("listed", "joined", "before", "has"),
    [
        ([1], [2], [3], [1, 9]),  # as the leader heard it
        (None, [2], [3], [2, 9]),  # as the worker said
        (None, None, [3], [3, 9]),  # as it was
        (None, None, None, [9]),
    ],
)
def test_what_a_worker_has_builds_on_what_it_held(
    listed: list[int] | None, joined: list[int] | None, before: list[int] | None, has: list[int]
) -> None:
    def metadata(tasks: list[int] | None) -> dict[str, Any]:
        allocation = work(*tasks) if tasks is not None else None
        return {"_definition": "ConnectMetadata", "configOffset": 1, "allocation": allocation}

    def generation(at: float, number: int, got: list[int]) -> None:
        tells = {"memberId": "b~1", "protocols": [{"name": "sessioned", "metadata": metadata(joined)}]}
        answer = {"generationId": number, "protocolName": "sessioned", "leader": "a~1"}
        lists = [{"memberId": "b~1", "metadata": metadata(listed)}]
        said.say(at, "JoinGroup", "b", tells, answer | {"memberId": "b~1", "members": []})
        said.say(at, "JoinGroup", "a", {"memberId": "a~1"}, answer | {"memberId": "a~1", "members": lists})
        request = {"memberId": "b~1", "generationId": number, "assignments": []}
        said.say(at + 10, "SyncGroup", "b", request, {"assignment": work(*got)})

    said = Conversation()
    if before is not None:
        request = {"memberId": "b~1", "generationId": 1}
        said.say(0, "SyncGroup", "b", request, {"assignment": work(*before) | {"_version": 0}})
    generation(1_000, 2, [9])
    found = lives_of(said)[-1][-1]
    assert found.assigned["b~1"] == [f"task:c-{task}" for task in has]


@pytest.mark.parametrize("before", [True, False])
def test_who_joins_a_generation_that_was_there_did_not_form_it(before: bool) -> None:
    """A static member that takes its place again is answered at once, with the generation that there is."""
    said = Conversation()
    said.heartbeat(0 if before else 2_000, "b~1", 4)
    said.join(1_000, "a~2", new=True, instance="i", generation=4, leader="b~1", took=2)
    found = only_one(said)
    assert (found.only_named, found.formed) == (before, START + (0 if before else 1_002) * MS)
    assert found.members == ["a~2", "b~1"]
    assert [each.to_generation for each in classic(said.log()).rebalances] == ([] if before else [4])
