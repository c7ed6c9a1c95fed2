"""The classic protocol against what brokers logged, in part of what was said, and in cases written by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkascope.reports.groups.classic.history import classic
from kafkascope.reports.groups.history import (
    GroupHistory,
    GroupLog,
    Member,
    Rebalance,
    event_table,
    rebalance_table,
)
from kafkascope.reports.groups.messages import ConnectionEnd
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.group_logs import (
    MS,
    START,
    Conversation,
    Members,
    captured_logs,
    changed,
    fit_the_tables,
    of,
    subscription,
    truth_of,
    two_members,
    unanswered,
)

STORIES = (
    "connect",
    "cooperative-sticky",
    "eager-three-joins",
    "join-errors",
    "killed-consumer",
    "killed-silent",
    "max-poll-exceeded",
    "missed-rejoin",
    "mixed-versions",
    "rebalance-storm",
    "removed-and-timeouts",
    "static-members",
    "streams-classic",
    "subscription-change",
    "transactions",
    "zk-2.8.2",
)
# What the broker's log calls leader_rejoined or member_metadata_changed may have a better name on the wire.
_BETTER_NAMES = {"leader_rejoined", "member_metadata_changed"}


def logged(capture: str) -> list[dict[str, Any]]:
    """What the broker logged of groups of the classic protocol."""
    return [each for each in truth_of(capture)["rebalances"] if each.get("protocol", "classic").split()[0] == "classic"]


@pytest.mark.parametrize("story", STORIES)
def test_generations_are_those_that_the_broker_logged(story: str) -> None:
    logs = captured_logs(story)
    found = {group: of(classic(log)) for group, log in logs.items()}
    wanted: dict[str, set[int]] = {}
    for truth in logged(story):
        number = truth["generation_or_epoch"]
        rebalance = found[truth["group"]].get(number)
        if rebalance is None:
            # the last members' sessions ran out after all that was captured of the group
            assert (truth["cause"], truth["members"]) == ("session_timeout", [])
            continue
        wanted.setdefault(truth["group"], set()).add(number)
        where = f"{truth['group']} {number}"
        if truth["cause"] not in _BETTER_NAMES:
            assert rebalance.trigger == truth["cause"], where
            assert rebalance.trigger_client_id == truth["client_id"], where
        assert sorted(str(member.client_id) for member in rebalance.members) == sorted(truth["members"]), where
        assert rebalance.started is not None
        assert abs(rebalance.started / MS - truth["started_ms"]) < 100, where
        if rebalance.inferred and rebalance.stable is None:
            continue  # it was open as the last message was captured
        if truth["stabilized_ms"] is None:
            assert rebalance.stable is None, where
            continue
        assert rebalance.stable is not None
        assert abs(rebalance.stable / MS - truth["stabilized_ms"]) < 300, where
        got = {member.client_id: sorted(member.assignment or []) for member in rebalance.members}
        for client, partitions in truth["assignments"].items():
            assert got[client] == sorted(partitions), where
    assert wanted
    for group, numbers in wanted.items():
        assert set(found[group]) == numbers


@pytest.mark.parametrize("story", STORIES)
def test_events_have_names_that_are_explained_and_rows_fit_the_tables(story: str) -> None:
    logs = captured_logs(story)
    assert logs
    for log in logs.values():
        history = classic(log)
        fit_the_tables(history)
        assert [event.at for event in history.events] == sorted(event.at for event in history.events)


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.parametrize(
    "view", ["without one client", "only one client", "from the middle", "lost messages", "requests"]
)
def test_part_of_what_was_said_is_never_wrong_with_certainty(story: str, view: str) -> None:
    truths = {(each["group"], each["generation_or_epoch"]): each for each in logged(story)}
    found = [(group, part) for group, log in captured_logs(story).items() for part in parts(log, view)]
    told = [(group, rebalance) for group, part in found for rebalance in classic(part).rebalances]
    assert told or not any(part.messages for _, part in found)  # without the only client of each group
    for group, rebalance in told:
        truth = truths.get((group, rebalance.to_generation))
        assert truth is not None, f"{group} {rebalance.to_generation} was made up"
        if rebalance.certainty == Certainty.CERTAIN and truth["cause"] not in _BETTER_NAMES:
            assert rebalance.trigger == truth["cause"]
            assert rebalance.trigger_client_id == truth["client_id"]


def parts(log: GroupLog, view: str) -> list[GroupLog]:
    def having(messages: list[Any]) -> GroupLog:
        return GroupLog(log.group_id, messages, log.ended, log.topics)

    clients = sorted({message.client for message in log.messages})
    first, last = log.messages[0].at, log.messages[-1].at
    if view == "without one client":
        return [having([each for each in log.messages if each.client != client]) for client in clients]
    if view == "only one client":
        return [having([each for each in log.messages if each.client == client]) for client in clients]
    if view == "from the middle":
        times = [first + (last - first) * part // 5 for part in (1, 2, 3, 4)]
        return [having([each for each in log.messages if each.at >= at]) for at in times]
    if view == "lost messages":
        seeds = [random.Random(seed) for seed in (1, 2, 3)]
        return [having([each for each in log.messages if seed.random() > 0.1]) for seed in seeds]
    return [having([unanswered(each) for each in log.messages])]


def test_bodies_with_parts_missing_raise_nothing() -> None:
    seed = 20261121
    print("seed", seed)
    chance = random.Random(seed)
    for story in ("connect", "static-members", "streams-classic", "mixed-versions"):
        for log in captured_logs(story).values():
            messages = []
            for message in log.messages:
                broken = changed(message)
                broken.__dict__["request"] = thinned(message.request, chance)
                broken.__dict__["response"] = thinned(message.response, chance)
                messages.append(broken)
            history = classic(GroupLog(log.group_id, messages, log.ended, log.topics))
            rebalance_table(history.rebalances)
            event_table(history.events)


def thinned(body: Any, chance: random.Random) -> Any:
    """A body without some of its fields, and with some that are null."""
    if isinstance(body, dict):
        kept = {name: thinned(value, chance) for name, value in body.items() if chance.random() > 0.05}
        return {name: None if chance.random() < 0.03 else value for name, value in kept.items()}
    if isinstance(body, list):
        return [thinned(each, chance) for each in body]
    return body


# ---- cases by hand


def history_of(conversation: Conversation) -> tuple[GroupHistory, dict[int, Rebalance]]:
    history = classic(conversation.log())
    return history, of(history)


def two_static_members() -> Conversation:
    """Generation 1: a and b, instances one and two, have a partition each."""
    said = Conversation()
    listed = {"a~1": {"groupInstanceId": "one"}, "b~1": {"groupInstanceId": "two"}}
    said.join(0, "a~1", new=True, instance="one", generation=1, members=listed, took=3000)
    said.join(20, "b~1", new=True, instance="two", generation=1, leader="a~1", took=2980)
    said.synced(3_010, 1, {"a~1": {"t": [0]}, "b~1": {"t": [1]}})
    return said


def test_a_member_has_its_assignment_when_it_is_answered() -> None:
    said = two_members()
    said.again(13_000, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    said.sync(20_000, "a~1", 2, {"t": [0, 1, 2, 3]}, took=300)
    said.sync(21_000, "a~1", 2, error="REBALANCE_IN_PROGRESS", took=40)
    history, _ = history_of(said)
    told = [(each.event, each.at) for each in history.events if each.at > START + 19_000 * MS]
    assert told == [("synced", START + 20_300 * MS), ("sync_refused", START + 21_040 * MS)]


def test_first_generation_is_set_off_by_its_first_member() -> None:
    _, found = history_of(two_members())
    first = found[1]
    assert (first.trigger, first.trigger_client_id, first.certainty) == ("member_joined", "a", Certainty.CERTAIN)
    assert first.started == START + 5 * MS
    assert first.leader == "a~1"
    assert [member.assignment for member in first.members] == [["t-0", "t-1"], ["t-2", "t-3"]]
    assert first.last_client_id == "b"
    assert first.last_by_ms == 10
    assert [each.trigger for each in first.contributing] == ["member_joined"]


@pytest.mark.parametrize(
    ("reason", "trigger", "certainty"),
    [
        ("the consumer is being closed", "member_left", Certainty.CERTAIN),
        (None, "member_left", Certainty.CERTAIN),
        ("consumer poll timeout has expired.", "poll_timeout", Certainty.CERTAIN),
        ("the consumer unsubscribed from all topics", "unsubscribed", Certainty.CERTAIN),
        ("client leaving group per normal operation", "member_left", Certainty.CERTAIN),
    ],
)
def test_leaves_are_told_apart_by_reason(reason: str | None, trigger: str, certainty: str) -> None:
    said = two_members()
    said.leave(12_000, "b~1", reason)
    said.again(12_500, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    history, found = history_of(said)
    assert (found[2].trigger, found[2].trigger_client_id, found[2].certainty) == (trigger, "b", certainty)
    assert found[2].started == START + 12_000 * MS
    assert found[2].moved == ["t-2", "t-3"]
    assert {each.partition: round(each.ms) for each in found[2].unowned} == {
        "t-0": 21,
        "t-1": 21,
        "t-2": 521,
        "t-3": 521,
    }
    assert "left" in {event.event for event in history.events}


def test_administrator_takes_out_a_member() -> None:
    for member, instance, reason in (
        ("b~1", None, "member was removed by an admin: too slow"),
        ("b~1", None, None),
    ):
        said = two_members()
        said.leave(12_000, member, reason, instance=instance, client="admin", host="elsewhere")
        said.again(12_500, 2, {"a~1": {"t": [0, 1, 2, 3]}})
        history, found = history_of(said)
        assert found[2].trigger == "removed_by_admin"
        assert found[2].trigger_client_id == "b"
        assert found[2].certainty in (Certainty.CERTAIN, Certainty.LIKELY)
        assert "member_removed" in {event.event for event in history.events}


def test_administrator_takes_out_a_static_member_by_its_instance_id() -> None:
    said = Conversation()
    listed = {"a~1": {}, "i~1": {"groupInstanceId": "inst"}}
    said.join(0, "a~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(5, "a~1", generation=1, leader="a~1", members=listed, took=3000)
    said.join(50, "i~1", new=True, instance="inst", generation=1, leader="a~1", took=2950)
    shares = {"a~1": {"t": [0]}, "i~1": {"t": [1]}}
    said.synced(3010, 1, shares)
    said.leave(6000, "", "member was removed by an admin", instance="inst", client="admin", host="elsewhere")
    said.again(7000, 2, {"a~1": {"t": [0, 1]}})
    _, found = history_of(said)
    assert (found[2].trigger, found[2].trigger_member, found[2].trigger_client_id) == ("removed_by_admin", "i~1", "i")
    assert found[2].certainty == Certainty.CERTAIN


def test_a_static_member_that_is_taken_out_twice_had_another_id_each_time() -> None:
    said = Conversation()
    said.join(
        0, "i~1", new=True, instance="inst", generation=1, members={"i~1": {"groupInstanceId": "inst"}}, took=3000
    )
    said.synced(3010, 1, {"i~1": {"t": [0]}})
    said.leave(6000, "", instance="inst", client="admin", host="elsewhere")
    again = {"i~2": {"groupInstanceId": "inst"}}
    said.join(7000, "i~2", new=True, instance="inst", generation=3, members=again, took=10)
    said.leave(9000, "", instance="inst", client="admin", host="elsewhere")
    history, _ = history_of(said)
    assert [each.member_id for each in history.events if each.event == "member_removed"] == ["i~1", "i~2"]


def test_a_static_member_is_silent_until_another_process_comes_in_its_place() -> None:
    said = two_static_members()
    for at in range(6_000, 18_000, 3_000):
        said.heartbeat(at, "a~1", 1)
    said.join(18_020, "b~2", new=True, instance="two", generation=3, leader="a~1", took=500)
    history, _ = history_of(said)
    silence = [(each.member_id, each.detail) for each in history.events if each.event == "silence_begun"]
    assert silence == [("b~1", "15.009 s; its session timeout is 10000 ms")]


def test_silent_member_is_dropped_when_its_session_ends() -> None:
    said = two_members()  # b was last heard at 9 s, and its session lasts 10 s
    for at in (12_000, 15_000, 18_000):
        said.heartbeat(at, "a~1", 1)
    said.heartbeat(21_000, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.again(21_010, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    history, found = history_of(said)
    assert (found[2].trigger, found[2].trigger_client_id, found[2].certainty) == (
        "session_timeout",
        "b",
        Certainty.LIKELY,
    )
    assert found[2].started == START + 19_000 * MS
    silence = [event for event in history.events if event.event == "silence_begun"]
    assert [(event.client_id, event.at, event.connection) for event in silence] == [("b", START + 9_000 * MS, None)]


@pytest.mark.parametrize(("speaks", "length"), [(None, "at least 24.000 s"), (25_000, "16.000 s"), (18_000, None)])
def test_a_silence_lasts_until_the_member_speaks_though_it_is_none_any_more(
    speaks: int | None, length: str | None
) -> None:
    said = two_members()  # b was last heard at 9 s, and its session lasts 10 s
    for at in range(12_000, 33_000, 3_000):
        said.heartbeat(at, "a~1", 1)
    said.heartbeat(32_999, "a~1", 1)
    if speaks is not None:
        said.leave(speaks, "b~1", error="UNKNOWN_MEMBER_ID")
    history, _ = history_of(said)
    details = [event.detail or "" for event in history.events if event.event == "silence_begun"]
    assert [detail.partition(";")[0] for detail in details] == ([] if length is None else [length])


def test_member_that_is_still_heard_did_not_time_out() -> None:
    said = two_members()
    for at in range(12_000, 30_000, 3000):
        said.heartbeat(at, "a~1", 1)
        said.heartbeat(at, "b~1", 1)
    said.again(30_000, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    _, found = history_of(said)
    assert found[2].trigger != "session_timeout"
    assert found[2].certainty == Certainty.GUESSED


def test_member_that_does_not_join_again_is_a_rebalance_timeout_within_another_rebalance() -> None:
    said = Conversation()
    said.formed(0, 1, {"a~1": {"t": [0]}, "b~1": {"t": [1]}})
    said.join(6_000, "c~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(6_005, "c~1", generation=2, leader="a~1", took=60_005)
    said.heartbeat(6_500, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(6_510, "a~1", generation=2, leader="a~1", members={"a~1": {}, "c~1": {}}, took=59_500)
    for at in range(7_000, 66_000, 3_000):
        said.heartbeat(at, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.synced(66_050, 2, {"a~1": {"t": [0]}, "c~1": {"t": [1]}})
    _, found = history_of(said)
    assert (found[2].trigger, found[2].trigger_client_id) == ("member_joined", "c")
    assert ("rebalance_timeout", "b") in [(each.trigger, each.client_id) for each in found[2].contributing]
    assert (found[2].duration_ms or 0) > 60_000
    assert (found[2].last_client_id, found[2].last_by_ms) == ("b", 59_500)


def test_member_that_never_asks_for_its_assignment() -> None:
    said = Conversation()
    members: Members = {"a~1": {}, "b~1": {}}
    for place, member in enumerate(members):
        said.join(place, member, new=True, error="MEMBER_ID_REQUIRED", rebalance=20_000)
        said.join(
            5 + place,
            member,
            generation=1,
            leader="a~1",
            members=members if not place else None,
            took=3000,
            rebalance=20_000,
        )
    said.sync(3100, "a~1", 1, {"t": [0]}, {"a~1": {"t": [0]}, "b~1": {"t": [1]}})
    for at in range(4_000, 23_000, 3_000):
        said.heartbeat(at, "a~1", 1)
        said.heartbeat(at, "b~1", 1)
    said.again(25_000, 2, {"a~1": {"t": [0, 1]}})
    _, found = history_of(said)
    assert (found[2].trigger, found[2].trigger_client_id, found[2].certainty) == ("sync_timeout", "b", Certainty.LIKELY)
    assert found[2].started == START + 23_005 * MS


def test_subscription_that_changes_without_a_reason() -> None:
    said = two_members()
    said.join(12_000, "b~1", generation=2, leader="a~1", topics=("t", "u"), took=500)
    said.again(12_480, 2, {"a~1": {"t": [0, 1]}})
    said.sync(12_520, "b~1", 2, {"u": [0]})
    _, found = history_of(said)
    assert (found[2].trigger, found[2].trigger_client_id) == ("subscription_changed", "b")
    assert found[2].certainty in (Certainty.CERTAIN, Certainty.LIKELY)


def test_leader_that_gives_out_other_partitions_saw_the_topics_change() -> None:
    said = two_members()
    said.join(12_000, "a~1", generation=2, leader="a~1", members={"a~1": {}, "b~1": {}}, took=500)
    said.heartbeat(12_400, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_410, "b~1", generation=2, leader="a~1", took=90)
    said.synced(12_520, 2, {"a~1": {"t": [0, 1, 4]}, "b~1": {"t": [2, 3]}})
    _, found = history_of(said)
    assert (found[2].trigger, found[2].trigger_client_id, found[2].certainty) == (
        "topic_partitions_changed",
        "a",
        Certainty.LIKELY,
    )
    assert found[2].evidence[0].text.endswith("other partitions: t 4")


def test_cooperative_member_that_joins_again_to_hand_over() -> None:
    said = Conversation()
    said.formed(0, 1, {"a~1": {"t": [0, 1]}})
    said.join(6_000, "b~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(6_005, "b~1", generation=2, leader="a~1", took=1_000)
    said.heartbeat(6_990, "a~1", 1, "REBALANCE_IN_PROGRESS")
    both: Members = {"a~1": {}, "b~1": {}}
    said.join(6_995, "a~1", generation=2, leader="a~1", members=both, owned={"t": [0, 1]}, took=10)
    said.synced(7_020, 2, {"a~1": {"t": [0]}, "b~1": {}})
    said.join(7_030, "a~1", generation=3, leader="a~1", members=both, owned={"t": [0]}, took=1_000)
    said.heartbeat(8_000, "b~1", 2, "REBALANCE_IN_PROGRESS")
    said.join(8_010, "b~1", generation=3, leader="a~1", took=20)
    said.synced(8_040, 3, {"a~1": {"t": [0]}, "b~1": {"t": [1]}})
    _, found = history_of(said)
    assert (found[3].trigger, found[3].trigger_client_id, found[3].certainty) == (
        "cooperative_followup",
        "a",
        Certainty.LIKELY,
    )
    assert found[3].moved == []  # it was nobody's in between
    assert [each.partition for each in found[3].unowned] == ["t-1"]
    assert 1_000 < (found[3].unowned_ms or 0) < 1_100


@pytest.mark.parametrize(
    ("reason", "trigger", "certainty"),
    [
        ("need to revoke partitions and re-join", "cooperative_followup", Certainty.CERTAIN),
        ("cached metadata has changed", "topic_partitions_changed", Certainty.CERTAIN),
        ("rebalance enforced by user", "rebalance_enforced", Certainty.CERTAIN),
        ("disk is full", "rebalance_enforced", Certainty.LIKELY),
        ("Active tasks corrupted", "streams_tasks_corrupted", Certainty.CERTAIN),
        ("triggered followup rebalance scheduled for 0", "streams_followup", Certainty.CERTAIN),
        ("Scheduled probing rebalance", "streams_followup", Certainty.CERTAIN),
    ],
)
def test_reasons_of_members_that_join_again(reason: str, trigger: str, certainty: str) -> None:
    said = two_members()
    said.join(12_000, "b~1", generation=2, leader="a~1", reason=reason, took=500, user_data="x")
    said.heartbeat(12_450, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(
        12_480,
        "a~1",
        generation=2,
        leader="a~1",
        members={"a~1": {}, "b~1": {}},
        took=20,
        reason="group is already rebalancing",
    )
    said.synced(12_510, 2, {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}})
    _, found = history_of(said)
    assert (found[2].trigger, found[2].trigger_client_id, found[2].certainty) == (trigger, "b", certainty)


def test_other_metadata_without_a_reason() -> None:
    said = two_members()
    said.join(12_000, "b~1", generation=2, leader="a~1", took=500, user_data="other")
    said.again(12_480, 2, {"a~1": {"t": [0, 1]}})
    said.sync(12_520, "b~1", 2, {"t": [2, 3]})
    _, found = history_of(said)
    assert (found[2].trigger, found[2].trigger_client_id) == ("member_metadata_changed", "b")


def test_static_member_that_comes_again_makes_no_generation() -> None:
    said = two_static_members()
    said.join(6_000, "b~2", new=True, instance="two", generation=1, leader="a~1")
    said.sync(6_010, "b~2", 1, {"t": [1]})
    for at in range(6_500, 30_000, 3_000):
        said.heartbeat(at, "a~1", 1)
        said.heartbeat(at, "b~2", 1)
    said.heartbeat(7_000, "b~1", 1, "FENCED_INSTANCE_ID")
    history, found = history_of(said)
    assert set(found) == {1}
    assert [member.member_id for member in found[1].members] == ["a~1", "b~1"]
    names = [event.event for event in history.events]
    assert names.count("replaced") == 1
    assert names.count("fenced") == 1
    assert "silence_begun" not in names


def test_a_static_member_has_what_it_took_over_until_it_joins_once_more() -> None:
    said = two_static_members()
    said.join(6_000, "b~2", new=True, instance="two", generation=1, leader="a~1")
    said.sync(6_010, "b~2", 1, {"t": [1]})
    for at in range(6_500, 20_000, 3_000):
        said.heartbeat(at, "b~2", 1)
    said.heartbeat(21_000, "b~2", 1, "REBALANCE_IN_PROGRESS")
    after = {"b~2": {"groupInstanceId": "two"}}
    said.join(21_010, "b~2", instance="two", generation=2, leader="b~2", members=after, took=20)
    said.synced(21_040, 2, {"b~2": {"t": [0, 1]}})
    _, found = history_of(said)
    assert found[2].trigger == "session_timeout"
    assert {each.partition: round(each.ms) < 100 for each in found[2].unowned} == {"t-0": False, "t-1": True}


def test_static_member_that_comes_again_and_asks_for_something_else() -> None:
    said = two_static_members()
    said.join(6_000, "b~2", new=True, instance="two", generation=2, leader="a~1", topics=("u",), took=500)
    said.heartbeat(6_400, "a~1", 1, "REBALANCE_IN_PROGRESS")
    after = {"a~1": {"groupInstanceId": "one"}, "b~2": {"groupInstanceId": "two"}}
    said.join(6_480, "a~1", instance="one", generation=2, leader="a~1", members=after, took=20)
    said.synced(6_510, 2, {"a~1": {"t": [0, 1]}, "b~2": {"u": [0]}})
    _, found = history_of(said)
    assert (found[2].trigger, found[2].trigger_member) == ("static_member_replaced", "b~2")


def test_group_without_members_is_inferred() -> None:
    said = two_members()
    said.leave(12_000, "a~1", "the consumer is being closed")
    said.leave(12_400, "b~1", "the consumer is being closed")
    _, found = history_of(said)
    empty = found[2]
    assert empty.inferred
    assert empty.members == []
    assert (empty.trigger, empty.trigger_client_id, empty.certainty) == ("member_left", "a", Certainty.CERTAIN)
    assert (empty.started, empty.stable) == (START + 12_000 * MS, START + 12_400 * MS)


@pytest.mark.parametrize(("told_at", "is_empty"), [(None, True), (15_000, False), (8_000, True)])
def test_a_group_is_not_empty_because_its_coordinator_is_away(told_at: float | None, is_empty: bool) -> None:
    said = two_members()
    for member in ("a~1", "b~1"):
        if told_at:
            said.heartbeat(told_at, member, 1, "COORDINATOR_NOT_AVAILABLE")
        said.say(20_000, "Heartbeat", member[0], {"memberId": member, "generationId": 1}, None)
    said.say(60_000, "FindCoordinator", "x", {"key": "g"}, {})
    _, found = history_of(said)
    assert (2 in found and found[2].trigger == "session_timeout") == is_empty


def test_one_that_left_before_a_generation_that_nobody_named_was_not_lost() -> None:
    said = Conversation()
    said.join(0, "b~1", new=True, generation=1, leader="a~1", took=3000)
    said.sync(3_010, "b~1", 1, {"t": [1]})
    said.heartbeat(9_000, "b~1", 1)
    said.leave(10_000, "b~1")
    said.join(19_900, "b~2", new=True, generation=3, leader="a~1", took=300)  # when its session would have ended
    said.sync(20_210, "b~2", 3, {"t": [1]})
    _, found = history_of(said)
    assert (found[3].trigger, found[3].trigger_client_id) == ("member_joined", "b")


def test_rebalance_that_is_open_as_the_capture_ends() -> None:
    for after in ("leave", "join"):
        said = two_members()
        if after == "leave":
            said.leave(12_000, "a~1")
        else:
            said.join(11_990, "c~1", new=True, error="MEMBER_ID_REQUIRED")
            said.join(12_000, "c~1")
        said.heartbeat(12_100, "b~1", 1, "REBALANCE_IN_PROGRESS")
        _, found = history_of(said)
        begun = found[2]
        assert begun.inferred
        assert begun.trigger == ("member_left" if after == "leave" else "member_joined")
        assert begun.certainty == Certainty.LIKELY
        assert begun.started == START + 12_000 * MS
        assert (begun.joined, begun.stable, begun.members) == (None, None, [])


def test_members_whose_sessions_ran_out_before_the_next_generation() -> None:
    said = two_members()
    said.join(60_000, "c~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(60_005, "c~1", generation=3, leader="c~1", members={"c~1": {}}, took=3000)
    said.synced(63_100, 3, {"c~1": {"t": [0, 1, 2, 3]}})
    _, found = history_of(said)
    assert found[2].inferred
    assert (found[2].trigger, found[2].members) == ("session_timeout", [])
    assert found[2].certainty != Certainty.CERTAIN
    assert (found[3].trigger, found[3].trigger_client_id) == ("member_joined", "c")


def test_group_that_was_deleted_begins_anew() -> None:
    said = two_members()
    said.leave(12_000, "a~1")
    said.leave(12_400, "b~1")
    said.formed(60_000, 1, {"c~1": {"t": [0, 1, 2, 3]}})
    said.join(70_000, "d~1", new=True, generation=2, leader="c~1", took=500)
    said.again(70_400, 2, {"c~1": {"t": [0, 1, 2, 3]}})
    history = classic(said.log())
    assert [(each.to_generation, each.inferred) for each in history.rebalances] == [
        (1, False),
        (2, True),
        (1, False),
        (2, False),
    ]
    anew = history.rebalances[2]
    assert [member.client_id for member in anew.members] == ["c"]
    assert (anew.trigger, anew.trigger_client_id, anew.certainty) == ("member_joined", "c", Certainty.CERTAIN)
    assert (anew.started, anew.contributing) == (START + 60_005 * MS, [])
    formed = [(each.generation, each.at) for each in history.events if each.event == "generation_formed"]
    assert formed == [(1, START + 3_005 * MS), (1, START + 63_005 * MS), (2, START + 70_500 * MS)]


def test_who_asks_a_group_that_began_anew_had_nothing_to_do_with_the_one_that_was_deleted() -> None:
    said = two_members()
    said.formed(15_000, 1, {"c~1": {"t": [0, 1, 2, 3]}})
    said.join(20_000, "d~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(20_005, "d~1")
    history = classic(said.log())
    told = [(each.to_generation, each.trigger_client_id, each.inferred) for each in history.rebalances]
    assert told == [(1, "a", False), (1, "c", False), (2, "d", True)]


def test_heartbeats_before_the_capture_make_no_generation_of_their_own() -> None:
    said = Conversation()
    for at in (0, 3_000, 6_000):
        said.heartbeat(at, "a~1", 7)
        said.heartbeat(at, "b~1", 7)
    said.leave(7_000, "b~1", "the consumer is being closed")
    said.again(7_500, 8, {"a~1": {"t": [0, 1]}})
    _, found = history_of(said)
    assert set(found) == {8}
    assert (found[8].trigger, found[8].trigger_client_id, found[8].certainty) == ("member_left", "b", Certainty.LIKELY)


def test_coordinator_that_moves_changes_nothing_by_itself() -> None:
    said = two_members()
    said.heartbeat(12_000, "a~1", 1, "NOT_COORDINATOR")
    said.heartbeat(12_100, "a~1", 1, broker="10.0.0.2:9092")
    said.heartbeat(12_200, "b~1", 1, broker="10.0.0.2:9092")
    said.leave(13_000, "b~1", broker="10.0.0.2:9092")
    said.heartbeat(13_400, "a~1", 1, "REBALANCE_IN_PROGRESS", broker="10.0.0.2:9092")
    said.join(13_500, "a~1", generation=2, members={"a~1": {}}, broker="10.0.0.2:9092")
    said.sync(13_510, "a~1", 2, {"t": [0]}, {"a~1": {"t": [0]}}, broker="10.0.0.2:9092")
    history, found = history_of(said)
    assert (found[2].trigger, found[2].trigger_client_id) == ("member_left", "b")
    assert "coordinator_unavailable" in {event.event for event in history.events}


def test_members_that_must_join_anew_where_their_group_is_now() -> None:
    said = two_members()
    here = "10.0.0.2:9092"
    said.heartbeat(12_000, "a~1", 1, "NOT_COORDINATOR")
    said.heartbeat(12_050, "b~1", 1, "NOT_COORDINATOR")
    said.heartbeat(12_500, "a~1", 1, "REBALANCE_IN_PROGRESS", broker=here)
    said.join(12_510, "a~1", generation=2, members={"a~1": {}, "b~1": {}}, broker=here, took=500)
    said.heartbeat(12_900, "b~1", 1, "REBALANCE_IN_PROGRESS", broker=here)
    said.join(12_910, "b~1", generation=2, leader="a~1", broker=here, took=100)
    _, found = history_of(said)
    assert found[2].trigger == "coordinator_moved"
    assert found[2].certainty == Certainty.LIKELY


@pytest.mark.parametrize(("refused", "trigger"), [(True, "member_joined"), (False, "unknown")])
def test_who_joined_as_the_coordinator_went_away_began_the_rebalance(refused: bool, trigger: str) -> None:
    """c joins and waits for its answer; the next coordinator does not know the id that c was given."""
    said = two_members()
    here = "10.0.0.2:9092"
    said.join(12_000, "c~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(12_001, "c~1")
    said.heartbeat(12_500, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_501, "a~1")
    said.heartbeat(12_600, "b~1", 1, "REBALANCE_IN_PROGRESS")
    if refused:
        said.join(20_000, "c~1", error="UNKNOWN_MEMBER_ID", broker=here)
    said.join(20_100, "c~2", new=True, error="MEMBER_ID_REQUIRED", broker=here)
    all_three: Members = {"a~1": {}, "b~1": {}, "c~2": {}}
    said.join(20_101, "c~2", generation=2, leader="a~1", broker=here, took=500)
    said.join(20_150, "b~1", generation=2, leader="a~1", broker=here, took=451)
    said.join(20_050, "a~1", generation=2, members=all_three, broker=here, took=551)
    _, found = history_of(said)
    assert found[2].trigger == trigger
    if refused:
        assert (found[2].trigger_member, found[2].certainty) == ("c~1", Certainty.CERTAIN)
        assert found[2].started is not None
        assert (found[2].started - START) // MS == 12_001


def test_a_change_that_nobody_in_sight_made_is_unknown() -> None:
    said = two_members()
    said.heartbeat(12_000, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.heartbeat(12_001, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_010, "a~1", generation=2, members={"a~1": {}, "b~1": {}}, took=20)
    said.join(12_012, "b~1", generation=2, leader="a~1", took=18)
    _, found = history_of(said)
    assert (found[2].trigger, found[2].certainty) == ("unknown", Certainty.GUESSED)
    assert found[2].evidence


def test_request_behind_a_slow_one_on_its_connection_is_taken_up_after_it() -> None:
    said = two_members()
    said.leave(12_000, "a~1", "the consumer is being closed")
    said.heartbeat(12_100, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_110, "b~1", generation=2, members={"b~1": {}}, took=990)
    said.leave(12_600, "b~1", "the consumer is being closed", took=501)
    _, found = history_of(said)
    assert [member.client_id for member in found[2].members] == ["b"]
    assert found[2].contributing == []
    assert found[3].inferred
    assert found[3].started is not None
    assert found[3].started > START + 13_100 * MS


def test_leave_without_a_reason_that_is_taken_back_might_be_a_poll_timeout() -> None:
    said = two_members()
    said.leave(12_000, "b~1")
    said.again(12_500, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    said.join(15_000, "b~2", new=True, error="MEMBER_ID_REQUIRED")
    said.join(15_005, "b~2", generation=3, leader="a~1", took=500)
    said.again(15_490, 3, {"a~1": {"t": [0, 1]}})
    _, found = history_of(said)
    assert found[2].trigger == "member_left"
    doubts = [each for each in found[2].evidence if each.trigger == "poll_timeout"]
    assert [each.rejected for each in doubts] == [True]


def test_leader_whose_assignment_the_broker_never_took() -> None:
    said = two_members()
    said.join(12_000, "c~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(12_005, "c~1", generation=2, leader="a~1", took=500)
    said.heartbeat(12_300, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.heartbeat(12_310, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_350, "b~1", generation=2, leader="a~1", took=150)
    three: Members = {"a~1": {}, "b~1": {}, "c~1": {}}
    said.join(12_400, "a~1", generation=2, leader="a~1", members=three, took=100)
    said.leave(12_505, "c~1", "the consumer is being closed")
    said.sync(12_510, "a~1", 2, gives={each: {"t": [0]} for each in three}, error="REBALANCE_IN_PROGRESS")
    said.sync(12_511, "b~1", 2, error="REBALANCE_IN_PROGRESS")
    two: Members = {"a~1": {}, "b~1": {}}
    said.join(12_600, "a~1", generation=3, leader="a~1", members=two, took=50)
    said.join(12_610, "b~1", generation=3, leader="a~1", took=40)
    said.synced(12_700, 3, {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}})
    _, found = history_of(said)
    assert found[2].stable is None
    assert len(found[2].members) == 3
    assert (found[3].trigger, found[3].trigger_client_id, found[3].certainty) == ("member_left", "c", Certainty.CERTAIN)


def test_what_is_told_of_each_member() -> None:
    said = Conversation()
    told_by_b = subscription(("u",), {"u": [0]}, None)
    listed: Members = {"a~1": {}, "b~1": {"groupInstanceId": "two", "metadata": told_by_b}, "c~1": {}}
    listed["d~1"] = {"metadata": None}
    said.join(5, "a~1", generation=1, members=listed, took=3000)
    said.join(6, "c~1", generation=1, leader="a~1", took=2999, session=6_000, rebalance=20_000)
    said.join(7, "d~1", session=7_000, topics=("v",))  # the capture lacks the answer
    shares = {"a~1": {"t": [0]}, "b~1": {"u": [0]}, "c~1": {"t": [1]}}
    said.sync(3_100, "a~1", 1, {"t": [0]}, shares)
    said.sync(3_110, "c~1", 1, error="REBALANCE_IN_PROGRESS")
    wrong = {"memberId": "b~1", "clientId": "wrong", "clientHost": "/wrong"}
    right = {"memberId": "b~1", "clientId": "b", "clientHost": "/10.0.0.9"}
    described = [{"groupId": "other", "members": [wrong]}, {"groupId": "g", "members": [right]}]
    said.say(3_200, "DescribeGroups", "admin", {"groups": ["g"]}, {"groups": described})
    _, found = history_of(said)
    assert found[1].members == [
        Member(
            "a~1",
            "a",
            "host-of-a",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            assignors=["range"],
            subscription=["t"],
            joined=START + 5 * MS,
            synced=START + 3_101 * MS,
            join_ms=3_000,
            sync_ms=1,
            assignment=["t-0"],
        ),
        Member(
            "b~1",
            "b",
            "10.0.0.9",
            "two",
            assignors=["range"],
            subscription=["u"],
            assignment_before=["u-0"],
            assignment=["u-0"],
        ),
        Member(
            "c~1",
            "c",
            "host-of-c",
            session_timeout_ms=6_000,
            rebalance_timeout_ms=20_000,
            assignors=["range"],
            subscription=["t"],
            joined=START + 6 * MS,
            join_ms=2_999,
            assignment=["t-1"],
        ),
        Member(
            "d~1",
            "d",
            "host-of-d",
            session_timeout_ms=7_000,
            rebalance_timeout_ms=60_000,
            assignors=["range"],
            subscription=["v"],
            assignment=[],
        ),
    ]
    assert (found[1].joined, found[1].stable, found[1].recovered) == tuple(
        START + at * MS for at in (3_005, 3_100, 3_101)
    )
    assert (found[1].duration_ms, found[1].cost_ms) == (3_095, 3_096)
    assert (found[1].last_client_id, found[1].last_by_ms) == ("c", 1)


@pytest.mark.parametrize(
    ("instance", "others", "before"),
    [
        ("two", "a~1", ["t-1"]),  # of the process in whose place it came
        (None, "a~1", []),  # it was not in the group
        (None, None, None),  # whether it was is not known
    ],
)
def test_what_a_member_had_before(instance: str | None, others: str | None, before: list[str] | None) -> None:
    said = Conversation()
    listed: Members = {"a~1": {}, "b~1": {"groupInstanceId": "two"}}
    said.join(0, "a~1", generation=1, members=listed if others else None, took=3_000)
    said.sync(3_010, "a~1", 1, {"t": [0]}, {"a~1": {"t": [0]}, "b~1": {"t": [1]}} if others else None)
    said.join(9_000, "b~2", new=True, instance=instance, generation=2, leader="a~1", took=500)
    said.heartbeat(9_300, "a~1", 1, "REBALANCE_IN_PROGRESS")
    after: Members = {"a~1": {}, "b~2": {"groupInstanceId": instance}}
    said.join(9_400, "a~1", generation=2, members=after, took=100)
    _, found = history_of(said)
    assert {each.member_id: each.assignment_before for each in found[2].members} == {"a~1": ["t-0"], "b~2": before}


def unowned(rebalance: Rebalance) -> dict[str, tuple[float, float]]:
    """Since when and for how many milliseconds nobody owned each partition."""
    return {each.partition: ((each.since - START) / MS, each.ms) for each in rebalance.unowned}


@pytest.mark.parametrize(
    ("is_in_sight", "since"),
    [
        (True, 9_000),  # its last word
        (False, 21_006),  # as the rebalance began
    ],
)
def test_what_a_member_had_that_is_gone_nobody_owns(is_in_sight: bool, since: float) -> None:
    said = two_members()
    said.heartbeat(18_000, "a~1", 1)
    said.again(21_010, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    if not is_in_sight:
        said.messages = [message for message in said.messages if message.client_id != "b"]
    _, found = history_of(said)
    of_a, of_b = (21_010, 21), (since, 21_031 - since)
    assert unowned(found[2]) == {"t-0": of_a, "t-1": of_a, "t-2": of_b, "t-3": of_b}
    assert (found[2].moved, found[2].unowned_ms) == (["t-2", "t-3"], of_b[1])


@pytest.mark.parametrize(
    ("left", "since"),
    [
        ({}, {"t-0": 9_000, "t-1": 9_000, "t-2": 9_000, "t-3": 9_000}),
        ({"a~1": 12_000}, {"t-0": 12_000, "t-1": 12_000, "t-2": 9_000, "t-3": 9_000}),  # b was to go on
        ({"a~1": 12_000, "b~1": 12_400}, {}),  # on purpose: nobody wanted it to be read
    ],
)
def test_what_all_members_had_that_were_lost_nobody_owns(left: dict[str, float], since: dict[str, float]) -> None:
    said = two_members()
    for member, at in left.items():
        said.leave(at, member)
    said.join(60_000, "a~2", new=True, error="MEMBER_ID_REQUIRED")
    said.join(60_005, "a~2", generation=3, leader="a~2", members={"a~2": {}}, took=3000)
    said.synced(63_099, 3, {"a~2": {"t": [0, 1, 2, 3]}})
    _, found = history_of(said)
    assert found[2].members == []
    assert unowned(found[3]) == {partition: (at, 63_100 - at) for partition, at in since.items()}


def test_an_eager_member_gives_up_its_partitions_as_it_first_joins_again() -> None:
    said = two_members()
    said.leave(12_000, "b~1")
    said.join(12_500, "a~1")
    said.again(12_900, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    _, found = history_of(said)
    of_a, of_b = (12_500, 421), (12_000, 921)
    assert unowned(found[2]) == {"t-0": of_a, "t-1": of_a, "t-2": of_b, "t-3": of_b}


def test_what_the_assignment_before_took_from_a_cooperative_member_it_had_until_it_was_told() -> None:
    said = Conversation()
    both: Members = {"a~1": {}, "b~1": {}}
    said.join(0, "a~1", generation=1, members=both, owned={"t": [0, 1]}, took=1_000)
    said.join(10, "b~1", generation=1, leader="a~1", took=990)
    said.sync(1_010, "b~1", 1, {})
    said.sync(1_020, "a~1", 1, {"t": [0]}, {"a~1": {"t": [0]}, "b~1": {}}, took=80)
    said.join(1_200, "a~1", generation=2, members=both, owned={"t": [0]}, took=1_000)
    said.heartbeat(2_000, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(2_100, "b~1", generation=2, leader="a~1", took=100)
    said.synced(2_210, 2, {"a~1": {"t": [0]}, "b~1": {"t": [1]}})
    _, found = history_of(said)
    assert unowned(found[2]) == {"t-1": (1_100, 1_111)}


def test_a_generation_whose_assignment_nobody_got_changed_no_owner() -> None:
    said = two_members()
    both: Members = {"a~1": {}, "b~1": {}}
    for number, at in ((2, 12_000), (3, 14_000)):
        said.heartbeat(at - 10, "b~1", number - 1, "REBALANCE_IN_PROGRESS")
        said.join(at, "a~1", generation=number, members=both, took=100)
        said.join(at, "b~1", generation=number, leader="a~1", took=100)
    said.synced(14_200, 3, {"a~1": {"t": [0]}, "b~1": {"t": [1, 2, 3]}})
    _, found = history_of(said)
    had = {"a~1": ["t-0", "t-1"], "b~1": ["t-2", "t-3"]}
    assert {each.member_id: each.assignment_before for each in found[3].members} == had
    assert found[3].moved == ["t-1"]


@pytest.mark.parametrize(("protocol", "since"), [("connect", 5_000), ("consumer", None)])
def test_what_connect_gives_out_after_a_delay_nobody_owned_meanwhile(protocol: str, since: float | None) -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, members={"a~1": {}, "b~1": {}}, took=1_000)
    said.join(10, "b~1", generation=1, leader="a~1", took=990)
    said.synced(1_010, 1, {"a~1": {"t": [0]}, "b~1": {"t": [1]}})
    said.leave(5_000, "b~1")
    for at, number, share in ((6_000, 2, [0]), (9_000, 3, [0, 1]), (12_000, 4, [0, 1])):
        said.join(at, "a~1", generation=number, members={"a~1": {}}, owned={"t": [0]})
        said.sync(at + 10, "a~1", number, {"t": share}, {"a~1": {"t": share}})
    for message in said.messages:
        if message.api == "JoinGroup":
            message.response["protocolType"] = protocol
    _, found = history_of(said)
    of_b = [unowned(found[number]).get("t-1") for number in (2, 3, 4)]
    assert of_b[:2] == [None, since and (since, 4_011)]
    assert of_b[2] is None or of_b[2][0] == 12_000


@pytest.mark.parametrize("protocol", ["connect", "classic"])
def test_a_generation_that_is_inferred_is_of_the_protocol_of_the_one_before(protocol: str) -> None:
    said = Conversation()
    answer = {"generationId": 1, "memberId": "a~1", "leader": "a~1", "members": [{"memberId": "a~1"}]}
    answer["protocolType"] = "consumer" if protocol == "classic" else protocol
    said.say(0, "JoinGroup", "a", {"memberId": "a~1"}, answer)
    said.leave(5_000, "a~1")
    _, found = history_of(said)
    assert {number: each.protocol for number, each in found.items()} == {1: protocol, 2: protocol}


def test_generations_before_the_first_join_are_of_the_protocol_that_it_tells() -> None:
    """The members of 4 and 5 joined before the capture, and the end of 6 was not seen."""
    said = Conversation()
    said.heartbeat(0, "a~1", 4)
    said.heartbeat(1_000, "a~1", 4, "REBALANCE_IN_PROGRESS")
    said.heartbeat(3_000, "a~1", 5)
    answer = {"generationId": 7, "memberId": "b~1", "leader": "b~1", "members": [{"memberId": "b~1"}]}
    said.say(9_000, "JoinGroup", "b", {"memberId": "b~1", "protocolType": "connect"}, answer)
    _, found = history_of(said)
    assert {number: each.protocol for number, each in found.items()} == {5: "connect", 6: "connect", 7: "connect"}
    assert [found[5].inferred, found[6].inferred] == [False, True]


def test_one_that_joins_alone_was_not_the_last_to_join() -> None:
    said = Conversation()
    said.formed(0, 1, {"a~1": {"t": [0]}})
    _, found = history_of(said)
    assert (found[1].last_client_id, found[1].last_by_ms) == (None, None)


def test_a_group_of_which_little_was_said_has_events() -> None:
    said = Conversation()
    said.heartbeat(0, "a~1", 4)
    connection = said.messages[0].connection
    closed = START + 100 * MS
    said.ended[connection] = ConnectionEnd(connection, "host-of-a", 1, "", "a", None, closed, "rst", None, None)
    history, found = history_of(said)
    assert ([each.event for each in history.events], found) == (["connection_ended"], {})
    said = Conversation()
    said.leave(0, "a~1")
    assert [each.event for each in history_of(said)[0].events] == ["left"]
    said = Conversation()
    said.sync(0, "a~1", 4, {"t": [0]}, broker="10.0.0.2:9092")
    assert [(each.event, each.detail) for each in history_of(said)[0].events] == [("synced", "t 0")]


def test_what_a_member_keeps_somebody_owned_though_another_had_it_before() -> None:
    said = Conversation()
    both: Members = {"a~1": {}, "b~1": {}}
    said.join(0, "a~1", generation=1, members=both, took=1_000)
    said.join(10, "b~1", generation=1, leader="a~1", owned={"t": [1]}, took=990)
    said.synced(1_010, 1, {"a~1": {"t": [0, 1]}, "b~1": {}})
    said.join(5_000, "a~1", generation=2, members=both, owned={"t": [0, 1]}, took=1_000)
    said.heartbeat(5_100, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(5_200, "b~1", generation=2, leader="a~1", took=800)
    said.synced(6_010, 2, {"a~1": {"t": [0, 1]}, "b~1": {}})
    _, found = history_of(said)
    assert (found[2].unowned, found[2].moved) == ([], [])


def test_the_instance_id_of_a_member_is_known_without_the_leaders_list() -> None:
    said = Conversation()
    said.join(0, "b~1", new=True, instance="two", generation=1, leader="a~1")
    _, found = history_of(said)
    assert [(each.member_id, each.instance_id) for each in found[1].members] == [("a~1", None), ("b~1", "two")]
