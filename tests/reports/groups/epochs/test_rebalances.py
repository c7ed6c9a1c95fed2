"""What an epoch cost and who was in it: on either side of each rule, in logs written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.groups.history import Evidence, Member, Rebalance, Unowned
from kafkascope.reports.groups.migration import by_protocol
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.epochs.epoch_logs import Epochs, epochs, join_of, mixed, ms
from tests.reports.groups.group_logs import MS, START, of


def test_a_member_asks_for_a_pattern_from_when_it_is_answered() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0, 1], regex="t.*", took=100)
    talk.beat(1000, "a", 1, regex="u.*", took=100)
    talk.beat(2000, "a", 1, 2, given={"u": [0]})
    found = of(epochs(talk.log()))
    assert [(ms(found[number].started), found[number].members[0].subscription) for number in (1, 2)] == [
        (100, ["t.*"]),
        (1100, ["u.*"]),
    ]


def test_all_that_is_told_of_an_epoch() -> None:
    talk = Epochs()
    talk.two()
    talk.ends(5000, "b", software="java")
    second = of(epochs(talk.log()))[2]
    assert second == Rebalance(
        group_id="g",
        protocol="consumer",
        from_generation=1,
        to_generation=2,
        started=START + 1000 * MS,
        stable=START + 2001 * MS,
        duration_ms=1001.0,
        trigger="member_joined",
        trigger_member="b",
        trigger_client_id="b",
        certainty="certain",
        evidence=[Evidence("b joined: heartbeat with epoch 0", 6, START + 1000 * MS, 1.0, "member_joined")],
        members=[
            Member(
                "a",
                client_id="a",
                host="host-of-a",
                rebalance_timeout_ms=4000,
                subscription=["t"],
                joined=START,
                synced=START + 1101 * MS,
                sync_ms=101.0,
                assignment_before=["t-0", "t-1", "t-2", "t-3"],
                assignment=["t-0", "t-1"],
            ),
            Member(
                "b",
                client_id="b",
                host="host-of-b",
                software="java",
                software_version="1.0",
                rebalance_timeout_ms=4000,
                subscription=["t"],
                joined=START + 1000 * MS,
                synced=START + 2001 * MS,
                join_ms=1.0,
                sync_ms=1001.0,
                assignment_before=[],
                assignment=["t-2", "t-3"],
            ),
        ],
        moved=["t-2", "t-3"],
        unowned=[Unowned("t-2", START + 1100 * MS, 901.0), Unowned("t-3", START + 1100 * MS, 901.0)],
        unowned_ms=901.0,
        recovered=START + 2010 * MS,
        cost_ms=1010.0,
        last_client_id="b",
        last_by_ms=900.0,
    )


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [("uniform", "uniform", "uniform"), ("uniform", "range", None), ("uniform", None, "uniform"), (None, None, None)],
)
def test_the_assignor_is_told_if_members_agree(first: str | None, second: str | None, told: str | None) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0], assignor=first)
    talk.beat(1000, "b", 0, 2, given=[], assignor=second)
    found = of(epochs(talk.log()))[2]
    assert found.assignor == told
    assert [each.assignors for each in found.members] == [[each] if each else [] for each in (first, second)]


def test_an_epoch_is_open_until_the_last_member_has_reached_it_or_the_next_one_is_raised() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "c", 0, 3, given=[])
    talk.beat(3100, "a", 2, 3)  # b does not get to it
    talk.beat(4000, "d", 0, 4, given=[])
    found = of(epochs(talk.log()))
    third = found[3]
    assert (third.stable, third.duration_ms, third.recovered, third.cost_ms) == (None, None, None, None)
    assert (third.last_client_id, third.last_by_ms) == ("a", 100.0)
    assert {each.member_id: each.sync_ms for each in third.members} == {"a": 101.0, "b": None, "c": 1.0}
    assert [(each.trigger, each.client_id, ms(each.at), each.packet) for each in third.contributing] == [
        ("member_joined", "d", 4000, 20)
    ]
    assert [(each.trigger, each.client_id, ms(each.at), each.packet) for each in found[2].contributing] == []


@pytest.mark.parametrize(("joined", "counts"), [(2_001, True), (2_002, False)])
def test_what_happens_until_an_epoch_is_stable_contributes_to_it(joined: int, counts: bool) -> None:
    talk = Epochs()
    talk.two()  # stable at 2,001 ms
    talk.beat(joined, "c", 0, 3, given=[])
    second = of(epochs(talk.log()))[2]
    told = [(each.trigger, each.client_id, ms(each.at), each.packet) for each in second.contributing]
    assert told == [("member_joined", "c", joined, 16)] * counts


@pytest.mark.parametrize(("others", "told"), [(19, 19), (20, 20), (21, 20)])
def test_no_more_than_twenty_epochs_are_told_to_contribute_to_one(others: int, told: int) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    for place in range(others + 1):
        talk.beat(1000 + place, f"m{place:02}", 0, 2 + place, given=[], took=1000)
    assert len(of(epochs(talk.log()))[2].contributing) == told


def test_when_partitions_had_no_owner() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", -1)
    talk.beat(3500, "a", 2, 3, given=[0, 1, 2])
    talk.beat(4000, "c", 0, 4, given=[3])
    talk.beat(9000, "c", -1)
    found = of(epochs(talk.log()))
    unowned = {
        number: [(each.partition, ms(each.since), each.ms) for each in found[number].unowned] for number in (3, 4, 5)
    }
    assert unowned == {3: [("t-2", 3000, 501.0)], 4: [("t-3", 3000, 1001.0)], 5: []}
    assert [found[number].unowned_ms for number in (3, 4, 5)] == [501.0, 1001.0, None]
    assert [found[number].moved for number in (3, 4, 5)] == [["t-2"], [], []]


def test_what_a_member_of_before_the_capture_said_that_it_has_it_owned() -> None:
    talk = Epochs()
    talk.beat(0, "a", 5, owned=[0, 1])
    talk.beat(1000, "b", 0, 6, given=[])
    talk.beat(1100, "a", 5, given=[0])
    talk.beat(2000, "a", 5, 6, owned=[0])
    talk.beat(3000, "b", 6, given=[1])
    sixth = of(epochs(talk.log()))[6]
    assert [(each.partition, ms(each.since), each.ms) for each in sixth.unowned] == [("t-1", 2000, 1001.0)]


def test_a_topic_that_was_made_again_has_owners_from_then_on() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given={"t": [0, 1], "u": [0]}, topics=["t", "u"])
    talk.beat(50, "a", 1)
    talk.beat(1000, "a", 1, 2, given=[0, 1])
    talk.beat(2000, "a", 2, owned=[0, 1])
    talk.beat(9000, "a", 2, 3, given={"t": [0, 1], "u": [0]})
    talk.beat(10_000, "b", 0, 4, given=[], topics=["t", "u"])
    talk.beat(20_000, "a", -1)
    talk.beat(21_000, "b", 4, 5, given={"t": [0, 1], "u": [0]})
    found = of(epochs(talk.log()))
    assert found[3].unowned == []
    assert [(each.partition, ms(each.since), each.ms) for each in found[5].unowned] == [
        (partition, 20_000, 1001.0) for partition in ("t-0", "t-1", "u-0")
    ]


def test_members_of_share_groups_have_partitions_together() -> None:
    talk = Epochs()
    talk.api = "ShareGroupHeartbeat"
    talk.two()
    talk.beat(3000, "b", -1)
    talk.beat(3500, "a", 2, 3, given=[0, 1, 2, 3])
    found = of(epochs(talk.log()))
    assert {(tuple(each.moved), tuple(each.unowned), each.unowned_ms) for each in found.values()} == {((), (), None)}
    assert [(found[number].protocol, found[number].cost_ms) for number in (2, 3)] == [
        ("share", 1010.0),
        ("share", 501.0),
    ]


@pytest.mark.parametrize(
    ("says", "recovered"),
    [(2_010, 2_010), (2_500, 2_500), (None, 2_001)],
)
def test_a_group_works_again_when_the_last_member_says_that_it_has_what_it_was_given(
    says: int | None, recovered: int
) -> None:
    talk = Epochs()
    talk.two()
    talk.messages.pop()
    if says is not None:
        talk.beat(says, "b", 2, owned=[2, 3])
    talk.beat(3000, "b", 2)
    assert ms(of(epochs(talk.log()))[2].recovered) == recovered


def test_what_a_member_says_in_the_next_epoch_tells_nothing_of_when_it_worked_in_this_one() -> None:
    talk = Epochs()
    talk.two()
    talk.messages.pop()
    talk.beat(3000, "c", 0, 3, given=[])
    talk.beat(3100, "b", 2, 3, owned=[2, 3])
    second = of(epochs(talk.log()))[2]
    assert (ms(second.stable), ms(second.recovered), second.cost_ms) == (2001, 2001, 1001.0)


def test_an_epoch_with_nobody_in_it_is_stable_at_once() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beat(1000, "a", -1)
    second = of(epochs(talk.log()))[2]
    assert (ms(second.stable), second.duration_ms, second.cost_ms, second.recovered) == (1000, 0.0, None, None)
    assert (second.last_client_id, second.last_by_ms) == (None, None)


def test_an_epoch_is_never_raised_after_one_that_came_later() -> None:
    talk = Epochs()
    talk.beat(100, "a", 0, 1, given=[0])
    talk.beat(60, "b", 0, 2, given=[], took=100)
    talk.beat(40, "c", 0, 3, given=[], took=200)
    found = of(epochs(talk.log()))
    assert [(number, found[number].from_generation, ms(found[number].started)) for number in sorted(found)] == [
        (1, None, 40),
        (2, 1, 40),
        (3, 2, 40),
    ]


def test_who_keeps_what_it_had_works_on() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "c", 0, 3, given=[4])
    talk.beat(3050, "c", 3, owned=[4])
    talk.beat(3100, "a", 2, 3)
    talk.beat(3200, "b", 2, 3)
    talk.beat(5000, "a", 3, owned=[0, 1])
    third = of(epochs(talk.log()))[3]
    assert (ms(third.stable), ms(third.recovered), third.cost_ms) == (3201, 3201, 201.0)


@pytest.mark.parametrize(
    ("first", "certainty"),
    [(1, Certainty.CERTAIN), (2, Certainty.CERTAIN), (3, Certainty.LIKELY)],
)
def test_a_group_that_is_first_seen_in_a_later_epoch_was_there_before(first: int, certainty: str) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, first, given=[0])
    talk.beat(10_000, "b", 0, first + 1, given=[])
    assert of(epochs(talk.log()))[first + 1].certainty == certainty


def test_a_classic_group_was_there_before_and_its_members_are_known() -> None:
    talk = Epochs()
    talk.formed(0, 5, {"a~1": {"t": [0, 1]}})
    talk.beat(5000, "c", 0, 6, given=[])
    sixth = of(by_protocol(talk.log()))[6]
    assert (sixth.protocol, sixth.trigger_member, sixth.certainty) == ("consumer", "c", Certainty.CERTAIN)
    assert {each.member_id: each.assignment_before for each in sixth.members} == {"a~1": ["t-0", "t-1"], "c": []}


@pytest.mark.parametrize(
    ("given", "later", "certainty"),
    [([1], [], Certainty.CERTAIN), ([], [], Certainty.LIKELY), ([1], [4], Certainty.CERTAIN)],
)
def test_the_answer_that_gives_partitions_in_an_epoch_shows_who_raised_it(
    given: list[int], later: list[int], certainty: str
) -> None:
    talk = Epochs()
    talk.beat(0, "a", 5, owned=[0])
    talk.beat(1000, "b", 0, 6, given=given)
    for epoch in later:
        talk.beat(2000, "a", 5, 6 + epoch)
    assert of(epochs(talk.log()))[6].certainty == certainty


@pytest.mark.parametrize(
    ("then", "triggers", "certainty"),
    [
        ([("a", 1, {"topics": ["t", "u"]})], ["subscription_changed"], Certainty.CERTAIN),
        ([("a", 1, {"given": [0, 1, 2, 3]})], ["topic_partitions_changed"], Certainty.LIKELY),
        ([("a", 1, {"topics": ["t", "u"]}), ("a", 3, {})], ["subscription_changed", "unknown"], Certainty.LIKELY),
    ],
)
def test_who_joined_is_less_sure_if_the_next_epochs_come_soon_and_not_each_is_a_members_word(
    then: list[tuple[str, int, dict[str, Any]]], triggers: list[str], certainty: str
) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0, 1, 2])
    talk.beat(1000, "b", 0, 2, given=[])
    for place, (member, sent, says) in enumerate(then):
        talk.beat(2000 + 1000 * place, member, sent, 3 + place, **says)
    found = of(epochs(talk.log()))
    assert [found[3 + place].trigger for place in range(len(then))] == triggers
    assert (found[2].trigger, found[2].certainty) == ("member_joined", certainty)


def test_a_member_that_begins_again_in_an_epoch_joined_then() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", 2, error="FENCED_MEMBER_EPOCH")
    talk.beat(3100, "a", 0, 2, given=[0, 1])
    talk.beat(9000, "c", 0, 3, given=[])
    found = of(epochs(talk.log()))
    for number in (2, 3):
        assert (ms(found[number].members[0].joined), found[number].members[0].join_ms) == (3100, None)


def test_what_was_answered_before_the_next_epoch_showed_is_of_this_one() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", 2, 3)
    talk.beat(3000, "c", 0, 4, given=[], took=300)  # raised while a was on its way to epoch 3
    talk.beat(3100, "a", 2, 3, given=[0, 1, 4])
    third = of(epochs(talk.log()))[3]
    assert {each.member_id: each.sync_ms for each in third.members} == {"a": 101.0, "b": 1.0}
    assert third.members[0].assignment == ["t-0", "t-1", "t-4"]


def test_of_several_times_without_an_owner_the_longest_is_told() -> None:
    talk = mixed()  # b joins again at 6,110 ms and has partition 2 back at 6,121 ms
    for at, synced in ((6500, 6700), (6800, 6850)):
        answer = {"generationId": 2, "leader": "", "memberId": "b~1"}
        talk.say(at, "JoinGroup", "b", join_of("b~1"), answer)
        talk.sync(synced, "b~1", 2, {"t": [2]})
    second = of(by_protocol(talk.log()))[2]
    assert [(each.partition, ms(each.since), each.ms) for each in second.unowned] == [
        ("t-0", 6010, 11.0),
        ("t-1", 6010, 11.0),
        ("t-2", 6500, 201.0),
        ("t-3", 6110, 891.0),
    ]
    assert second.unowned_ms == 891.0


def test_an_eager_member_that_is_given_again_what_it_gave_up_owns_it_again() -> None:
    talk = mixed()  # a joins again at 6,010 ms, and has at 6,021 ms what it had before
    talk.leave(8000, "a~1")
    talk.beat(9000, "c", 2, 3, given=[0, 1, 3])
    third = of(by_protocol(talk.log()))[3]
    assert [(each.partition, ms(each.since), each.ms) for each in third.unowned] == [
        ("t-0", 8000, 1001.0),
        ("t-1", 8000, 1001.0),
    ]


def test_a_partition_that_two_members_have_is_owned_until_both_have_given_it_up() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beat(50, "a", 1, owned=[0])
    talk.beat(1000, "b", 0, 2, given=[0])
    talk.beat(1100, "b", 2, owned=[0])
    talk.beat(1400, "a", 1, given=[])
    talk.beat(1500, "a", 1, 2, owned=[])
    talk.beat(3000, "b", -1)
    talk.beat(4000, "a", 2, 3, given=[0])
    found = of(epochs(talk.log()))
    assert [(number, ms(each.since), each.ms) for number in (2, 3) for each in found[number].unowned] == [
        (3, 3000, 1001.0)
    ]


@pytest.mark.parametrize(
    ("given", "stable"), [([0, 1], START + 2000 * MS), ([2, 3], None), ({"t": [0, 1], "u": [1]}, None)]
)
def test_who_lacks_numbers_of_a_topic_is_not_alone_in_its_group(
    given: list[int] | dict[str, list[int]], stable: int | None
) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=given)
    talk.beat(1000, "a", 1)
    talk.beat(2000, "a", -1)
    second = of(epochs(talk.log()))[2]
    assert (second.trigger, second.members, second.stable) == ("member_left", [], stable)
    assert second.certainty == ("certain" if stable else "likely")
