"""Groups with epochs against what brokers logged, in part of what was said, and in cases written by hand."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
from functools import cache
from statistics import median
from typing import Any

import pytest

from kafkascope.reports.groups.history import GroupHistory, GroupLog, Rebalance
from kafkascope.reports.groups.migration import by_protocol, phases_of
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.captured_tables import captured
from tests.reports.groups.epochs.epoch_logs import Epochs, Shares, epochs, mixed, streams
from tests.reports.groups.group_logs import (
    MS,
    START,
    Conversation,
    captured_logs,
    changed,
    fit_the_tables,
    of,
    truth_of,
    unanswered,
)

STORIES = (
    "kip848",
    "share-group",
    "streams-kip1071",
    "migration",
    "static-kip848",
    "silent-kip848",
    "troubled-kip848",
    "restless-kip848",
    "join-errors",
)
# What the wire does not tell apart in heartbeats: a member leaves with an epoch and gives no reason.
_SAME = {"poll_timeout": "member_left"}


HERE, ELSEWHERE = "10.0.0.1:9092", "10.0.0.2:9092"


@cache
def topics_of(story: str) -> dict[str, str]:
    """Names of topics by id, of what brokers told of them."""
    tables, _ = captured(story, frozenset({"exchanges"}))
    told = [
        json.loads(response)
        for api, response in zip(*(tables["exchanges"][name].to_pylist() for name in ("api", "response")), strict=True)
        if api == "Metadata" and response
    ]
    return {topic["topicId"]: topic["name"] for each in told for topic in each.get("topics") or []}


def logs_of(story: str) -> dict[str, GroupLog]:
    logs = captured_logs(story)
    return {group: dataclasses.replace(log, topics=topics_of(story)) for group, log in logs.items()}


def logged(story: str) -> dict[tuple[str, int], dict[str, Any]]:
    return {(each["group"], each["generation_or_epoch"]): each for each in truth_of(story)["rebalances"]}


def rebalances(story: str) -> dict[tuple[str, int], Rebalance]:
    found = [each for log in logs_of(story).values() for each in by_protocol(log).rebalances]
    keys = [(each.group_id, each.to_generation) for each in found]
    assert len(keys) == len(set(keys)), "an epoch is told once"
    return dict(zip(keys, found, strict=True))


@pytest.mark.parametrize("story", STORIES)
def test_epochs_are_those_that_the_broker_logged(story: str) -> None:
    truth, found = logged(story), rebalances(story)
    # A member that stepped out and did not come back: when nobody else is there, nothing shows that its session ended.
    unseen = {key for key, each in truth.items() if not each["members"] and each["cause"] == "session_timeout"}
    assert found
    assert found.keys() <= truth.keys()
    assert truth.keys() - found.keys() <= unseen


@pytest.mark.parametrize("story", STORIES)
def test_what_raised_each_epoch(story: str) -> None:
    truth = logged(story)
    for key, rebalance in rebalances(story).items():
        cause = truth[key]["cause"]
        assert rebalance.trigger in (cause, _SAME.get(cause)), key
        if truth[key]["client_id"]:
            assert rebalance.trigger_client_id == truth[key]["client_id"], key
        spoken = [each for each in rebalance.evidence if not each.rejected]
        assert {each.trigger for each in spoken} == {rebalance.trigger}, key


@pytest.mark.parametrize("story", STORIES)
def test_members_and_their_partitions(story: str) -> None:
    truth = logged(story)
    for key, rebalance in rebalances(story).items():
        assert sorted(each.client_id or "" for each in rebalance.members) == sorted(truth[key]["members"]), key
        if truth[key].get("stabilized_ms"):
            given = {each.client_id: each.assignment for each in rebalance.members}
            for client, partitions in truth[key]["assignments"].items():
                assert given[client] == sorted(partitions), (key, client)


@pytest.mark.parametrize("story", STORIES)
def test_times_are_those_of_the_broker(story: str) -> None:
    truth = logged(story)
    starts, ends = [], []
    for key, rebalance in rebalances(story).items():
        assert rebalance.started is not None
        starts.append(abs(rebalance.started / MS - truth[key]["started_ms"]))
        if rebalance.stable is not None and truth[key].get("stabilized_ms"):
            ends.append(abs(rebalance.stable / MS - truth[key]["stabilized_ms"]))
            assert ends[-1] < 1000, key
    assert median(starts) <= 100
    assert max(starts) <= 1000
    assert median(ends) <= 300


@pytest.mark.parametrize("story", STORIES)
def test_events_have_names_that_are_explained(story: str) -> None:
    logs = logs_of(story)
    assert logs
    for log in logs.values():
        fit_the_tables(by_protocol(log))


def cut(log: GroupLog, how: str, dice: random.Random) -> GroupLog:
    messages = log.messages
    if how == "begun in the middle":
        begin = dice.uniform(messages[0].at, messages[-1].at)
        messages = [each for each in messages if each.at >= begin]
    elif how == "one host":
        host = dice.choice(sorted({each.client for each in messages}))
        messages = [each for each in messages if each.client == host]
    elif how == "lost exchanges":
        messages = [each for each in messages if dice.random() > 0.1]
    elif how == "lost answers":
        messages = [unanswered(each) if dice.random() < 0.15 else each for each in messages]
    else:
        lost = {"request_text": None, "request_packet": None, "outcome": "orphan"}
        messages = [changed(each, **lost) if dice.random() < 0.15 and each.answered else each for each in messages]
    return dataclasses.replace(log, messages=messages)


@pytest.mark.parametrize("how", ["begun in the middle", "one host", "lost exchanges", "lost answers", "lost requests"])
@pytest.mark.parametrize("story", STORIES)
def test_what_is_certain_is_right_in_partial_views_too(story: str, how: str) -> None:
    truth = logged(story)
    told = 0
    for seed in range(3):
        print("seed", seed)
        for group, log in logs_of(story).items():
            for rebalance in by_protocol(cut(log, how, random.Random(f"{story} {how} {group} {seed}"))).rebalances:
                told += 1
                known = truth.get((group, rebalance.to_generation))
                if known is not None and rebalance.certainty == Certainty.CERTAIN:
                    assert rebalance.trigger in (known["cause"], _SAME.get(known["cause"])), rebalance
    assert told


def test_phases_of_a_group_that_migrates_and_returns() -> None:
    log = logs_of("migration")["moving"]
    phases = phases_of(log)
    assert [each.kind for each in phases] == ["classic", "epochs", "classic"]
    assert sum(len(each.messages) for each in phases) == len(log.messages)
    found = of(by_protocol(log))
    assert [found[number].protocol for number in sorted(found)] == ["classic"] * 2 + ["consumer"] * 7 + ["classic"] * 4
    downgrade = found[10]
    assert (downgrade.trigger, downgrade.certainty) == ("member_left", Certainty.CERTAIN)
    assert downgrade.members[0].assignment_before == ["orders-3", "orders-4", "orders-5"]
    assert downgrade.duration_ms == pytest.approx(833, abs=1)
    assert downgrade.cost_ms == pytest.approx(835, abs=1)
    first = found[3]
    before = {member.client_id: member.assignment_before for member in first.members}
    assert before == {"c1": [], "c2": [f"orders-{number}" for number in range(6)]}
    assert first.moved == ["orders-3", "orders-4", "orders-5"]


def test_a_cut_link_costs_what_nobody_owned() -> None:
    found = rebalances("silent-kip848")["quiet", 5]
    assert [each.partition for each in found.unowned] == ["orders-4", "orders-5"]
    assert found.unowned_ms == pytest.approx(7000, abs=1000)
    assert found.moved == ["orders-4", "orders-5"]
    assert (found.recovered or 0) >= (found.stable or 0) > 0
    texts = " ".join(each.text for each in found.evidence)
    assert all(words in texts for words in ("said nothing", "no member any more", "others were given"))


def test_a_member_that_left_and_came_back_may_have_been_too_slow() -> None:
    found = rebalances("silent-kip848")
    assert [each.trigger for each in found["quiet", 7].evidence if each.rejected] == ["poll_timeout"]
    assert not [each for each in found["quiet", 9].evidence if each.rejected]


def test_a_member_that_joins_takes_over() -> None:
    talk = Epochs()
    talk.two()
    found = of(epochs(talk.log()))
    assert sorted(found) == [1, 2]
    second = found[2]
    assert (second.trigger, second.trigger_client_id, second.certainty) == ("member_joined", "b", Certainty.CERTAIN)
    assert second.started == START + 1000 * MS
    assert second.stable == START + 2001 * MS
    assert second.moved == ["t-2", "t-3"]
    # Nobody had them from the request that no longer lists them to the answer that gives them.
    assert [(each.partition, each.ms) for each in second.unowned] == [("t-2", 901.0), ("t-3", 901.0)]
    assert second.last_client_id == "b"
    assert second.recovered == START + 2010 * MS
    assert second.cost_ms == 1010


@pytest.mark.parametrize(
    ("asks", "a_is_told", "b_is_told", "broker", "first"),
    [
        (17, 106, 103, HERE, "a"),
        (17, 100, 99, HERE, "a"),
        (1, 90, 87, HERE, "b"),  # answers are further apart than requests
        (17, 100, 67, HERE, "b"),
        (17, 106, 103, ELSEWHERE, "b"),  # requests to two do not wait for each other
    ],
)
def test_of_two_that_join_at_once_who_asked_first_was_first(
    asks: float, a_is_told: float, b_is_told: float, broker: str, first: str
) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 2, given=[], took=a_is_told)
    talk.beat(asks, "b", 0, 2, given=[], took=b_is_told - asks, broker=broker)
    found = of(epochs(talk.log()))
    assert [found[number].trigger_client_id for number in (2, 3)] == [first, "ab".replace(first, "")]
    assert first == "b" or found[3].certainty == "likely"  # answers say otherwise


def test_who_asks_for_no_pattern_may_say_so() -> None:
    """librdkafka sends an empty one."""
    talk = Epochs()
    talk.beat(0, "a", 0, 2, given=[], took=100, topics=["t"], regex="")
    talk.beat(17, "b", 0, 2, given=[], took=82, topics=["t"], regex="")
    found = of(epochs(talk.log()))
    assert [found[number].trigger_client_id for number in (2, 3)] == ["a", "b"]


def test_what_the_first_of_two_is_given_is_of_its_epoch_though_the_other_is_answered_sooner() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 2, given=[0, 1], took=106)
    talk.beat(17, "b", 0, 2, given=[], took=86)
    talk.beat(1000, "a", 2, given=[0])
    talk.beat(1100, "a", 2, 3, owned=[0])
    talk.beat(1200, "b", 2, 3, given=[1])
    found = of(epochs(talk.log()))
    had = {
        number: {member.member_id: (member.assignment_before, member.assignment) for member in found[number].members}
        for number in (2, 3)
    }
    assert had == {2: {"a": ([], ["t-0", "t-1"])}, 3: {"a": (["t-0", "t-1"], ["t-0"]), "b": ([], ["t-1"])}}
    assert found[2].stable == START + 106 * MS
    assert found[3].moved == ["t-1"]


def test_the_last_member_that_leaves_raises_an_epoch_that_nobody_names() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beat(1000, "a", -1)
    last = of(epochs(talk.log()))[2]
    assert (last.inferred, last.members, last.trigger, last.certainty) == (True, [], "member_left", Certainty.CERTAIN)
    assert last.stable == last.started == START + 1000 * MS


def test_a_member_that_does_not_give_up_partitions_in_time() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "c", 0, 3, given=[])
    talk.beat(3100, "a", 2, given=[0])  # asked to give up 1, and heard of each second, but it does not
    talk.beat(3200, "b", 2, 3, owned=[2, 3])
    talk.beats(4100, 7100, "a", 2)
    talk.beats(4200, 7200, "b", 3)
    talk.beat(7400, "b", 3, 4, given=[0, 2, 3])
    talk.beat(8100, "a", 2, error="UNKNOWN_MEMBER_ID")
    fourth = of(epochs(talk.log()))[4]
    assert (fourth.trigger, fourth.trigger_client_id) == ("rebalance_timeout", "a")
    assert fourth.certainty != Certainty.CERTAIN
    assert sorted(member.member_id for member in fourth.members) == ["b", "c"]


def test_a_member_that_leaves_when_it_is_none_any_more() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "c", 0, 3, given=[])
    talk.beat(3100, "a", 2, given=[0])
    talk.beats(4100, 6200, "a", 2)
    talk.beat(7200, "a", -1, error="UNKNOWN_MEMBER_ID")  # it had 4 s
    talk.beat(7300, "b", 2, 4, given=[0, 1, 2, 3])
    fourth = of(epochs(talk.log()))[4]
    assert (fourth.trigger, fourth.trigger_client_id) == ("rebalance_timeout", "a")
    assert fourth.started == START + 7101 * MS


def test_a_member_that_falls_silent_is_found_by_what_others_are_given() -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, 12_000, "a", 2)
    talk.beat(12_000, "a", 2, 3, given=[0, 1, 2, 3])
    talk.ends(3000, "b", "rst")
    history = epochs(talk.log())
    third = of(history)[3]
    assert (third.trigger, third.trigger_client_id, third.certainty) == ("session_timeout", "b", "likely")
    assert any("RST" in each.text for each in third.evidence)
    assert {each.event for each in history.events if each.client_id == "b"} >= {"silence_begun", "connection_ended"}


def test_what_a_member_says_has_the_packet_of_its_request_and_what_it_is_told_that_of_the_answer() -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, 12_000, "a", 2)
    events = epochs(talk.log()).events
    said = {each.packet for each in events if each.event in ("joined", "assignment_reported")}
    told = {each.packet for each in events if each.event in ("assignment_given", "epoch_seen")}
    assert said
    assert said <= {message.request_packet for message in talk.messages}
    assert told
    assert told <= {message.response_packet for message in talk.messages}


def test_a_member_that_comes_anew_on_its_connection_was_silent_until_then() -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, 12_000, "a", 2)
    talk.beat(12_000, "a", 2, 3, given=[0, 1, 2, 3])
    talk.beats(13_000, 22_000, "a", 3)
    talk.beat(20_000, "b", 0, 4, given=[])
    talk.beat(21_000, "b", -1)
    talk.ends(22_000, "b", "fin")
    history = epochs(talk.log())
    told = [(each.event, each.detail) for each in history.events if each.event in ("silence_begun", "connection_ended")]
    assert told == [("silence_begun", "17.990 s; it should be heard every 1000 ms")]


def test_somebody_alone_that_comes_back_after_its_session() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beat(50, "a", 1, owned=[0])
    talk.beat(60_000, "a", 1, error="UNKNOWN_MEMBER_ID")
    talk.beat(60_100, "a", 0, 3, given=[0])
    found = of(epochs(talk.log()))
    assert (found[2].trigger, found[2].inferred, found[2].members) == ("session_timeout", True, [])
    assert (found[3].trigger, found[3].inferred) == ("member_joined", False)


def test_a_member_that_was_fenced_begins_again_in_the_same_epoch() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2, error="FENCED_MEMBER_EPOCH")
    talk.beat(3100, "a", 0, 2, given=[0, 1])
    history = epochs(talk.log())
    assert sorted(of(history)) == [1, 2]
    assert [each.event for each in history.events if each.at >= START + 3000 * MS][:2] == ["fenced", "rejoined"]


def test_new_partitions_raise_the_epoch() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2, 3, given=[0, 1, 4])
    talk.beat(3100, "b", 2, 3, given=[2, 3, 5])
    third = of(epochs(talk.log()))[3]
    assert (third.trigger, third.certainty) == ("topic_partitions_changed", "likely")
    assert third.trigger_client_id is None
    assert any(each.rejected and each.trigger == "session_timeout" for each in third.evidence)


def test_partitions_of_members_that_the_capture_lacks_are_no_new_ones() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 7, given=[])
    talk.beat(1000, "a", 7, given=[4, 5])
    talk.beat(1050, "a", 7, owned=[4, 5])
    talk.beat(2000, "a", 7, 8, given=[2, 4, 5])
    assert of(epochs(talk.log()))[8].trigger == "unknown"


def test_epochs_that_were_passed_over_are_inferred() -> None:
    talk = Epochs()
    talk.beat(0, "a", 5, owned=[0])
    talk.beat(5000, "a", 5, 8)
    found = of(epochs(talk.log()))
    assert {number: found[number].inferred for number in found} == {6: True, 7: True, 8: False}
    assert {each.trigger for each in found.values()} == {"unknown"}


@pytest.mark.parametrize(
    ("before", "answered", "certainty"),
    [(None, 1, Certainty.CERTAIN), (None, 2, "likely"), (1, 2, Certainty.CERTAIN), (1, 3, "guessed")],
)
def test_who_joined_is_certain_where_nobody_else_may_have(before: int | None, answered: int, certainty: str) -> None:
    talk = Epochs()
    if before is not None:
        talk.beat(0, "a", 0, before, given=[0])
    talk.beat(1000, "b", 0, answered, given=[])
    talk.beat(10_000, "b", answered)
    joined = of(epochs(talk.log()))[answered]
    assert (joined.trigger, joined.trigger_client_id, joined.certainty) == ("member_joined", "b", certainty)


def test_a_group_that_was_there_before_the_capture_has_no_rebalance_then() -> None:
    talk = Epochs()
    talk.beat(0, "a", 5)
    talk.beat(100, "b", 5)
    talk.beats(1000, 5000, "a", 5)
    assert epochs(talk.log()).rebalances == []


def test_a_revocation_shows_the_next_epoch_before_any_answer_names_it() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2, given=[0])
    talk.beat(4000, "a", 2, 3, owned=[0])
    talk.beat(4100, "b", 2, 3, given=[1, 2, 3])
    third = of(epochs(talk.log()))[3]
    assert third.started == START + 3000 * MS
    assert third.stable == START + 4101 * MS


def test_other_topics() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2, given=[], topics=["u"])
    talk.beat(3100, "a", 2, 3, owned=[], given={"u": [0]})
    third = of(epochs(talk.log()))[3]
    assert (third.trigger, third.trigger_client_id, third.certainty) == ("subscription_changed", "a", Certainty.CERTAIN)
    member = next(each for each in third.members if each.member_id == "a")
    assert (member.subscription, member.assignment) == (["u"], ["u-0"])


@pytest.mark.parametrize(("asked_before", "certainty"), [(5, Certainty.CERTAIN), (-5, "likely")])
def test_what_another_member_was_told_before_the_answer_came_is_the_same_epoch(
    asked_before: float, certainty: str
) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000 - asked_before, "a", 2, given=[], topics=["u"], took=20)
    talk.beat(3000, "b", 2, given=[2], took=10)
    talk.beat(3100, "b", 2, 3, owned=[2], given=[1, 2])
    talk.beat(3200, "a", 2, 3, owned=[], given={"u": [0]})
    found = of(epochs(talk.log()))
    assert sorted(found) == [1, 2, 3]
    assert (found[3].trigger, found[3].trigger_client_id, found[3].certainty) == (
        "subscription_changed",
        "a",
        certainty,
    )
    assert {each.member_id: each.assignment for each in found[2].members} == {"a": ["t-0", "t-1"], "b": ["t-2", "t-3"]}


def test_a_static_member_comes_back_without_an_epoch_and_with_one() -> None:
    talk = Epochs()
    talk.beat(0, "a~1", 0, 1, given=[0, 1], instance="i")
    talk.beat(50, "a~1", 1, owned=[0, 1], instance="i")
    talk.beat(1000, "a~1", -2, instance="i")
    talk.beat(2000, "a~2", 0, 1, given=[0, 1], instance="i")
    talk.beat(3000, "a~2", -2, instance="i")
    talk.beat(4000, "a~3", 0, 2, given={"u": [0]}, topics=["u"], instance="i")
    history = epochs(talk.log())
    found = of(history)
    assert sorted(found) == [1, 2]
    assert (found[2].trigger, found[2].trigger_member) == ("static_member_replaced", "a~3")
    assert [each.member_id for each in found[2].members] == ["a~3"]
    assert sum(each.event == "replaced" for each in history.events) == 2


def test_a_static_member_that_comes_too_late_joins() -> None:
    talk = Epochs()
    talk.beat(0, "a~1", 0, 1, given=[0, 1], instance="i")
    talk.beat(1000, "a~1", -2, instance="i")
    talk.beat(90_000, "a~2", 0, 3, given=[0, 1], instance="i")
    found = of(epochs(talk.log()))
    assert (found[2].trigger, found[2].trigger_member) == ("session_timeout", "a~1")
    assert (found[3].trigger, found[3].trigger_member) == ("member_joined", "a~2")


def test_new_partitions_of_an_epoch_that_the_next_one_overtakes() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2, 3, given=[0, 1, 5])
    talk.beat(3100, "c", 0, 4, given=[])  # joins before b had epoch 3, which gives it 4
    talk.beat(3200, "b", 2, 4, given=[2, 3])
    talk.beat(3300, "a", 3, 4, given=[0, 1])
    talk.beat(4000, "c", 4, given=[4, 5])
    third = of(epochs(talk.log()))[3]
    assert (third.trigger, third.certainty, third.stable) == ("topic_partitions_changed", Certainty.LIKELY, None)
    assert "t 5; the others, t 4, with the next epoch" in third.evidence[0].text


def test_a_topic_that_is_deleted_and_made_again() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given={"t": [0, 1], "u": [0]}, topics=["t", "u"])
    talk.beat(50, "a", 1)
    talk.beat(1000, "a", 1, 2, given=[0, 1])
    talk.beat(2000, "a", 2, owned=[0, 1])
    talk.beat(9000, "a", 2, 3, given={"t": [0, 1], "u": [0]})
    found = of(epochs(talk.log()))
    assert [found[number].trigger for number in (2, 3)] == ["topic_partitions_changed"] * 2
    assert "u 0" in found[3].evidence[0].text
    assert found[3].unowned == [], "it was no more"


def test_of_two_that_fell_silent_the_first_is_taken_out_first() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(2500, "c", 0, 3, given=[])
    talk.beat(2600, "a", 2, 3)
    talk.beat(2700, "c", 3)  # then it is silent, and had nothing
    talk.beat(2800, "b", 2, 3)  # so is b, whose partitions go to a
    talk.beats(3600, 14_600, "a", 3)
    talk.beat(14_600, "a", 3, 5, given=[0, 1, 2, 3])
    found = of(epochs(talk.log()))
    assert [(found[number].trigger, found[number].trigger_client_id) for number in (4, 5)] == [
        ("session_timeout", "c"),
        ("session_timeout", "b"),
    ]
    assert [[each.client_id for each in found[number].members] for number in (4, 5)] == [["a", "b"], ["a"]]


def test_new_partitions_of_which_one_never_shows_are_no_reason() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2, 3, given=[0, 1, 6])
    talk.beat(3100, "c", 0, 4, given=[])
    talk.beat(3200, "b", 2, 4, given=[2, 3])
    talk.beat(4000, "c", 4, given=[5])
    assert of(epochs(talk.log()))[3].trigger == "unknown"


@pytest.mark.parametrize(("given", "certainty"), [([2], Certainty.CERTAIN), ([], Certainty.LIKELY)])
def test_an_answer_that_gives_nothing_may_name_the_epoch_before(given: list[int], certainty: str) -> None:
    talk = Epochs()
    talk.beat(0, "a", 5, owned=[0, 1])  # who else is in the group, the capture does not have
    talk.beat(1000, "c", 0, 6, given=given)
    sixth = of(epochs(talk.log()))[6]
    assert (sixth.trigger, sixth.trigger_client_id, sixth.certainty) == ("member_joined", "c", certainty)


@pytest.mark.parametrize(("later", "certainty"), [(5_000, Certainty.LIKELY), (60_000, Certainty.CERTAIN)])
def test_an_epoch_without_a_cause_makes_those_right_before_it_doubtful(later: int, certainty: str) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "c", 0, 3, given=[])
    talk.beats(3100, later, "a", 3)
    talk.beats(3200, later, "b", 3)
    talk.beats(3300, later, "c", 3)
    talk.beat(later, "a", 3, 4)
    found = of(epochs(talk.log()))
    assert found[4].trigger == "unknown"
    assert (found[3].trigger, found[3].certainty) == ("member_joined", certainty)


@pytest.mark.parametrize(("begun_by", "certainty"), [(0, Certainty.CERTAIN), (1, Certainty.LIKELY)])
def test_who_joined_is_not_certain_where_the_group_may_have_had_members_before(begun_by: int, certainty: str) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 2 + begun_by, given=[0, 1])
    talk.beat(1000, "b", 0, 3 + begun_by, given=[])
    joined = of(epochs(talk.log()))[3 + begun_by]
    assert (joined.trigger, joined.trigger_client_id, joined.certainty) == ("member_joined", "b", certainty)


@pytest.mark.parametrize(("others", "certainty"), [(2, Certainty.LIKELY), (3, Certainty.GUESSED)])
def test_who_raised_an_epoch_is_a_guess_where_others_raised_half_of_them_unseen(others: int, certainty: str) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "c", 0, 3, given=[])
    for epoch in range(4, 4 + others):
        for later, member in enumerate(("a", "b", "c")):
            talk.beat(1000 * epoch + later, member, epoch - 1, epoch)
    talk.beat(20_000, "a", 3 + others)
    found = of(epochs(talk.log()))
    assert {found[epoch].trigger for epoch in range(4, 4 + others)} == {"unknown"}
    assert "somebody did whose traffic is not in this capture" in found[4].evidence[0].text
    assert (found[3].trigger, found[3].trigger_client_id, found[3].certainty) == ("member_joined", "c", certainty)
    assert found[1].certainty == Certainty.CERTAIN  # the answer to its joining named the epoch, and gave partitions


@pytest.mark.parametrize(("since", "certainty"), [(4_999, Certainty.LIKELY), (5_000, Certainty.GUESSED)])
def test_an_epoch_has_no_cause_when_none_came_in_five_seconds(since: int, certainty: str) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 2, given=[0])
    talk.beat(1000, "b", 0, 4, given=[])
    talk.beat(1000 + since, "b", 4, took=1)
    assert of(epochs(talk.log()))[4].certainty == certainty


@pytest.mark.parametrize(("unseen", "certainty"), [(False, Certainty.LIKELY), (True, Certainty.GUESSED)])
def test_a_member_that_is_alone_in_the_capture_may_not_have_been_alone(unseen: bool, certainty: str) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0, 1])
    if unseen:
        talk.beat(1000, "a", 1, 2)
    talk.beats(2000, 6000, "a", 2 if unseen else 1)
    talk.beat(60_000, "b", 0, 4 if unseen else 3, given=[0, 1])
    gone = of(epochs(talk.log()))[3 if unseen else 2]
    assert (gone.trigger, gone.trigger_client_id, gone.certainty) == ("session_timeout", "a", certainty)


@pytest.mark.parametrize(("later", "certainty"), [(4_999, Certainty.GUESSED), (5_000, Certainty.CERTAIN)])
def test_the_first_epoch_is_doubtful_too_if_the_next_comes_soon_without_a_cause(later: int, certainty: str) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[])
    talk.beats(1000, later, "a", 1)
    talk.beat(later, "a", 1, 2)
    talk.beat(later + 10_000, "a", 2)
    found = of(epochs(talk.log()))
    assert [found[epoch].trigger for epoch in (1, 2)] == ["member_joined", "unknown"]
    assert found[1].certainty == certainty


def test_what_a_member_had_is_nobodys_from_when_it_left_or_from_its_last_word() -> None:
    for left, since in ((3_500, 3_500), (None, 3_000)):
        talk = Epochs()
        talk.two()
        talk.beats(2_100, 4_000, "a", 2)
        talk.beat(3_000, "b", 2)
        if left is not None:
            talk.beat(left, "b", -1)
        talk.beats(4_000, 20_000, "a", 2)
        talk.beat(20_000, "a", 2, 3, given=[0, 1, 2, 3])
        lost = of(epochs(talk.log()))[3]
        assert lost.trigger == ("session_timeout" if left is None else "member_left")
        assert {each.partition: each.since - START for each in lost.unowned} == dict.fromkeys(
            ("t-2", "t-3"), since * MS
        )


def test_what_a_member_asks_for_later_is_of_the_next_epoch() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2, 3, topics=["t", "u"])
    talk.beat(4000, "b", 0, 3, given=[2, 3])
    found = of(epochs(talk.log()))
    assert (found[3].trigger, found[3].trigger_client_id) == ("subscription_changed", "a")
    assert [each.subscription for each in found[2].members] == [["t"], ["t"]]
    assert [each.subscription for each in found[3].members] == [["t", "u"], ["t"]]
    assert [[(each.joined or 0) - START for each in found[number].members] for number in (2, 3)] == [
        [0, 1000 * MS],
        [0, 4000 * MS],
    ]


def test_an_instance_id_that_is_in_use_is_refused() -> None:
    talk = Epochs()
    talk.beat(0, "a~1", 0, 1, given=[0], instance="i")
    talk.beat(1000, "b~1", 0, error="UNRELEASED_INSTANCE_ID", instance="i")
    history = epochs(talk.log())
    assert sorted(of(history)) == [1]
    assert [each.detail for each in history.events if each.event == "join_refused"] == ["UNRELEASED_INSTANCE_ID"]


def test_share_partitions_become_ready() -> None:
    talk = Shares()
    talk.beat(0, "a", 0, 1, given=[])
    talk.beat(1000, "a", 1, 2, given=[0, 1])
    talk.beat(2000, "a", 2, 3)
    talk.beat(3000, "a", 3, 4, given=[0, 1, 2])
    found = of(epochs(talk.log()))
    assert [found[number].trigger for number in (1, 2, 4)] == ["member_joined"] + ["share_partitions_initialized"] * 2
    assert (found[3].trigger, found[3].certainty) == ("topic_partitions_changed", "guessed")


@pytest.mark.parametrize(("api", "told"), [("ShareGroupHeartbeat", [7]), ("ConsumerGroupHeartbeat", [6, 7])])
def test_share_groups_may_raise_two_epochs_for_one_member_that_the_capture_lacks(api: str, told: list[int]) -> None:
    talk = Epochs()
    talk.api = api
    talk.beat(0, "a", 5, owned=[0])
    talk.beat(5000, "a", 5, 7)
    found = of(epochs(talk.log()))
    assert list(found) == told
    assert found[7].from_generation == (5 if told == [7] else 6)


@pytest.mark.parametrize(("early", "trigger"), [(False, "topic_partitions_changed"), (True, "unknown")])
def test_an_epoch_of_before_the_capture_was_not_raised_by_partitions_that_became_ready_later(
    early: bool, trigger: str
) -> None:
    talk = Epochs()
    talk.api = "ShareGroupHeartbeat"
    talk.beat(0, "b", 5 if early else 4, owned=[])
    talk.beat(500, "a", 4, 5, owned=[])
    talk.beat(1000, "a", 5, 6, given=[0, 1])
    found = of(epochs(talk.log()))
    assert (found[5].trigger, found[6].trigger) == (trigger, "share_partitions_initialized")


def test_a_share_member_with_topics_of_its_own_raises_two_epochs_at_once() -> None:
    talk = Shares()
    talk.beat(0, "a", 0, 1, given=[0], topics=["t", "u"])
    talk.beat(1000, "b", 0, 2, given=[0])
    talk.beat(1100, "a", 1, 2)
    talk.beat(2000, "a", -1, topics=[])
    talk.beat(3000, "b", 2, 4, given=[0])
    found = of(epochs(talk.log()))
    assert sorted(found) == [1, 2, 4]
    assert (found[4].trigger, found[4].trigger_client_id, found[4].from_generation) == ("member_left", "a", 2)


@pytest.mark.parametrize("delayed", [False, True])
def test_internal_topics_that_streams_waited_for(delayed: bool) -> None:
    talk = Conversation()
    missing, waits = 3, (5,) if delayed else ()
    # Since Kafka 4.3 the status says that the group is ahead of the member's epoch.
    streams(talk, 0, 0, 1, [], missing)
    streams(talk, 1000, 1, 1 if delayed else 2, None, *waits)
    streams(talk, 2000, 1, 2, [0, 1])
    found = of(epochs(talk.log()))
    assert sorted(found) == [1, 2]
    assert (found[2].trigger, found[2].started) == ("internal_topics_created", START + 1000 * MS)
    assert found[2].members[0].assignment == ["0_0", "0_1"]
    assert found[2].members[0].subscription == ["lines"]


def test_members_that_only_a_description_tells_of() -> None:
    talk = Epochs()
    talk.beat(0, "a", 3, owned=[0])
    member = {"memberId": "b", "memberEpoch": 4, "clientId": "client-b", "clientHost": "/10.0.0.9"}
    member["assignment"] = {"topicPartitions": [{"topicId": "t-id", "topicName": "t", "partitions": [1]}]}
    described = {"groupId": "g", "groupEpoch": 4, "groupState": "STABLE", "members": [member, {"memberId": "a"}]}
    talk.say(1000, "ConsumerGroupDescribe", "admin", {"groupIds": ["g"]}, {"groups": [described]})
    talk.beat(2000, "a", 3, 4)
    fourth = of(epochs(talk.log()))[4]
    assert not fourth.inferred
    assert {each.client_id: (each.host, each.assignment) for each in fourth.members} == {
        "a": ("host-of-a", ["t-0"]),
        "client-b": ("10.0.0.9", ["t-1"]),
    }
    assert fourth.certainty != Certainty.CERTAIN
    assert fourth.stable == START + 2001 * MS


def test_a_group_of_the_same_name_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", -1)
    talk.beat(3100, "b", -1)
    talk.beat(9000, "c", 0, 1, given=[0, 1, 2, 3])
    with caplog.at_level(logging.DEBUG, "kafkascope"):
        found = epochs(talk.log()).rebalances
    assert "begins anew at packet " in caplog.text
    assert [each.to_generation for each in found] == [1, 2, 3, 4, 1]
    assert [each.client_id for each in found[-1].members] == ["c"]


def test_classic_members_in_a_group_with_epochs() -> None:
    talk = mixed()
    found = of(by_protocol(talk.log()))
    assert [found[number].protocol for number in (1, 2)] == ["classic", "consumer"]
    second = found[2]
    assert {each.client_id: (each.assignment_before, each.assignment) for each in second.members} == {
        "a": (["t-0", "t-1"], ["t-0", "t-1"]),
        "b": (["t-2", "t-3"], ["t-2"]),
        "c": ([], ["t-3"]),
    }
    assert second.stable == START + 7001 * MS


def test_an_administrator_takes_a_classic_member_out_of_a_group_with_epochs() -> None:
    talk = mixed()
    talk.leave(8000, "b~1", "maintenance", client="admin")
    talk.beat(9000, "c", 2, 3, given=[2, 3])
    third = of(by_protocol(talk.log()))[3]
    assert (third.trigger, third.trigger_client_id, third.protocol) == ("removed_by_admin", "b", "consumer")


def test_the_last_member_with_epochs_falls_silent() -> None:
    talk = mixed()
    for at in range(8000, 20_000, 1000):
        talk.heartbeat(at, "a~1", 2)
        talk.heartbeat(at + 1, "b~1", 2)
    talk.again(20_000, 3, {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}})
    third = of(by_protocol(talk.log()))[3]
    assert (third.protocol, third.trigger, third.trigger_client_id) == ("classic", "session_timeout", "c")
    assert third.certainty == "likely"


def test_an_empty_classic_group_makes_way_for_a_new_one() -> None:
    talk = Epochs()
    talk.formed(0, 1, {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}})
    talk.leave(5000, "b~1")
    talk.again(6000, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    talk.leave(7000, "a~1")
    talk.beat(9000, "c", 0, 2, given=[0, 1, 2, 3])
    found = [(each.protocol, each.to_generation) for each in by_protocol(talk.log()).rebalances]
    assert found == [("classic", 1), ("classic", 2), ("classic", 3), ("consumer", 2)]


def test_a_group_with_epochs_that_is_empty_makes_way_for_a_classic_one() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", -1)
    talk.beat(3100, "b", -1)
    talk.formed(9000, 1, {"c~1": {"t": [0, 1, 2, 3]}})
    found = by_protocol(talk.log()).rebalances
    assert [(each.protocol, each.to_generation) for each in found] == [
        *(("consumer", number) for number in (1, 2, 3, 4)),
        ("classic", 1),
    ]
    assert found[-1].trigger == "member_joined"


def test_the_usual_session_tells_when_a_member_was_taken_out() -> None:
    talk = Epochs()
    talk.two()
    for at in range(5000, 47_000, 5000):
        talk.beat(at, "a", 2)
    talk.beat(50_000, "a", 2, 3, given=[0, 1, 2, 3])
    third = of(epochs(talk.log()))[3]
    assert (third.trigger, third.started) == ("session_timeout", START + (2010 + 45_000) * MS)


def test_heartbeats_that_repeat_the_one_before_are_not_read_again() -> None:
    talk = Epochs()
    talk.two()
    talk.beats(3000, 200_000, "a", 2)
    talk.beats(3500, 200_000, "b", 2)
    log = talk.log()
    assert len(epochs(log).rebalances) == 2
    read = [each for each in log.messages if "request" in each.__dict__]
    assert len(read) < 12 < len(log.messages)


def test_an_epoch_beyond_reason_costs_nothing() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beat(1000, "a", 1, 2**31 - 1)
    assert len(epochs(talk.log()).rebalances) < 1000


def test_nothing_at_all() -> None:
    assert epochs(GroupLog("g", [], {}, {})) == GroupHistory()
    assert by_protocol(GroupLog("g", [], {}, {})) == GroupHistory()


def test_each_epoch_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", -1)
    for level, lines in (
        (logging.INFO, []),
        (
            logging.DEBUG,
            [
                "group g: epoch 1, by the word of packet 2",
                "group g: epoch 2, by the word of packet 6",
                "group g: epoch 3, by the word of no answer",
            ],
        ),
    ):
        caplog.clear()
        with caplog.at_level(level, "kafkascope.reports.groups.epochs.history"):
            epochs(talk.log())
        assert [record.getMessage() for record in caplog.records] == lines
