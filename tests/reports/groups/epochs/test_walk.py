"""Which epochs there were and what raised each, by what members say: on either side of each rule, written by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.groups.migration import by_protocol
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.epochs.epoch_logs import Epochs, epochs, join_of, mixed, ms, said, streams, told
from tests.reports.groups.group_logs import Conversation, changed, of


def causes(found: dict[int, Rebalance]) -> dict[int, tuple[str, str | None, str]]:
    """What raised each epoch: trigger, member, and how sure that is."""
    return {number: (each.trigger, each.trigger_member, each.certainty) for number, each in found.items()}


# Events


def test_what_members_say_and_are_told() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(2500, "b", 2, topics=["t", "u"], took=20)
    talk.beat(3000, "a", 2, 3)
    talk.beat(3100, "b", 3, given={"t": [2, 3], "u": [0]})
    talk.beat(4000, "b", -1)
    talk.beat(5000, "a", 3, error="FENCED_MEMBER_EPOCH")
    talk.beat(5100, "a", 0, 4, given=[0, 1])
    talk.beat(5200, "a", 4, error="UNKNOWN_MEMBER_ID")
    talk.beat(6000, "a", 0, 6, given=[0, 1, 2, 3])
    history = epochs(talk.log())
    assert told(history) == [
        (0, "joined", "a", 1, 2, None),
        (1, "assignment_given", "a", 1, 3, "t 0-3"),
        (1, "epoch_seen", "a", 1, 3, None),
        (50, "assignment_reported", "a", 1, 4, "t 0-3"),
        (1000, "joined", "b", 2, 6, None),
        (1001, "assignment_given", "b", 2, 7, ""),
        (1001, "epoch_seen", "b", 2, 7, None),
        (1051, "assignment_given", "a", 1, 9, "t 0-1"),
        (1100, "assignment_reported", "a", 2, 10, "t 0-1"),
        (1101, "epoch_seen", "a", 2, 11, None),
        (2001, "assignment_given", "b", 2, 13, "t 2-3"),
        (2010, "assignment_reported", "b", 2, 14, "t 2-3"),
        (2500, "subscription_changed", "b", 2, 16, "t, u"),
        (3001, "epoch_seen", "a", 3, 19, None),
        (3101, "assignment_given", "b", 3, 21, "t 2-3 · u 0"),
        (3101, "epoch_seen", "b", 3, 21, None),
        (4000, "left", "b", None, 22, None),
        (5001, "fenced", "a", 3, 25, "FENCED_MEMBER_EPOCH"),
        (5101, "epoch_seen", "a", 4, 27, None),
        (5101, "rejoined", "a", 4, 27, None),
        (5201, "fenced", "a", 4, 29, "UNKNOWN_MEMBER_ID"),
        (6000, "joined", "a", 6, 30, None),
        (6001, "assignment_given", "a", 6, 31, "t 0-3"),
        (6001, "epoch_seen", "a", 6, 31, None),
    ]
    first = history.events[0]
    message = talk.messages[0]
    assert (first.client_id, first.client, first.instance_id) == ("a", "host-of-a", None)
    assert (first.connection, first.number) == (message.connection, message.number)


def test_what_static_members_say_and_are_told() -> None:
    talk = Epochs()
    talk.beat(0, "a~1", 0, 1, given=[0, 1], instance="i")
    talk.beat(500, "a~1", 1, owned=[0, 1])  # its instance id is known
    talk.beat(1000, "a~1", -2, instance="i")
    talk.beat(2000, "a~2", 0, 1, given=[0, 1], instance="i")
    history = epochs(talk.log())
    assert told(history) == [
        (0, "joined", "a~1", 1, 2, None),
        (1, "assignment_given", "a~1", 1, 3, "t 0-1"),
        (1, "epoch_seen", "a~1", 1, 3, None),
        (500, "assignment_reported", "a~1", 1, 4, "t 0-1"),
        (1000, "left", "a~1", None, 6, "static: it may come back within its session"),
        (2001, "assignment_given", "a~2", 1, 9, "t 0-1"),
        (2001, "replaced", "a~2", 1, 9, "a~1 before"),
    ]
    assert {each.instance_id for each in history.events} == {"i"}


@pytest.mark.parametrize(
    ("error", "event"),
    [
        ("FENCED_MEMBER_EPOCH", "fenced"),
        ("UNKNOWN_MEMBER_ID", "fenced"),
        ("GROUP_ID_NOT_FOUND", "fenced"),
        ("NOT_COORDINATOR", "coordinator_unavailable"),
        ("GROUP_AUTHORIZATION_FAILED", "heartbeat_failed"),
    ],
)
def test_a_heartbeat_that_is_refused_again_and_again_is_told_once(error: str, event: str) -> None:
    talk = Epochs()
    talk.two()
    for at in (3000, 3100, 3200):
        talk.beat(at, "a", 2, error=error)
    found = [each for each in told(epochs(talk.log())) if each[0] is not None and each[0] >= 3000]
    assert [each for each in found if each[1] not in ("silence_begun",)] == [(3001, event, "a", 2, 17, error)]


def test_refusals_of_members_that_only_they_show() -> None:
    talk = Epochs()
    talk.beat(0, "a", 5, owned=[0])
    talk.beat(100, "b", 5, error="UNKNOWN_MEMBER_ID")  # it was taken out before
    talk.beat(200, "c", 5, error="GROUP_AUTHORIZATION_FAILED")
    talk.beat(20_000, "a", 5, 6)
    history = epochs(talk.log())
    refused = [each for each in told(history) if each[1] in ("fenced", "heartbeat_failed")]
    assert refused == [
        (101, "fenced", "b", 5, 5, "UNKNOWN_MEMBER_ID"),
        (201, "heartbeat_failed", "c", 5, 7, "GROUP_AUTHORIZATION_FAILED"),
    ]
    assert "b" not in [each.member_id for each in of(history)[6].members]
    assert not [each for each in history.events if each.event == "silence_begun" and each.member_id == "b"]


def test_a_join_that_is_refused() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "c", 0, error="GROUP_MAX_SIZE_REACHED")
    talk.beat(3100, "c", 0, error="GROUP_MAX_SIZE_REACHED")
    history = epochs(talk.log())
    assert told(history)[-2:] == [
        (3001, "join_refused", "c", None, 17, "GROUP_MAX_SIZE_REACHED"),
        (3101, "join_refused", "c", None, 19, "GROUP_MAX_SIZE_REACHED"),
    ]
    assert list(of(history)) == [1, 2]


# Members that join


@pytest.mark.parametrize(("answered", "certainty"), [(1, Certainty.CERTAIN), (2, Certainty.LIKELY)])
def test_the_first_that_joins_is_sure_to_be_alone_in_epoch_one(answered: int, certainty: str) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, answered)
    found = of(epochs(talk.log()))
    assert causes(found) == {answered: ("member_joined", "a", certainty)}
    assert said(found[answered])[0][3] == "a joined: heartbeat with epoch 0"


@pytest.mark.parametrize(("regex", "started"), [(None, 1000), ("t.*", 1100)])
def test_who_joins_with_a_pattern_raises_the_epoch_when_it_is_answered(regex: str | None, started: int) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beat(1000, "b", 0, 2, given=[1], regex=regex, took=100)
    second = of(epochs(talk.log()))[2]
    assert (second.trigger_member, ms(second.started), second.certainty) == ("b", started, Certainty.CERTAIN)


@pytest.mark.parametrize(
    ("then", "found"),
    [
        ({}, {}),  # nothing shows that the pattern raised the epoch
        ({"a": (1, 2)}, {2: ("member_joined", "b", Certainty.LIKELY)}),
        ({"c": (0, 2)}, {2: ("member_joined", "c", Certainty.CERTAIN)}),
        (
            {"c": (0, 3)},
            {2: ("member_joined", "b", Certainty.CERTAIN), 3: ("member_joined", "c", Certainty.CERTAIN)},
        ),
        (
            {"c": (0, 4)},
            {
                2: ("member_joined", "b", Certainty.GUESSED),
                3: ("unknown", None, Certainty.GUESSED),
                4: ("member_joined", "c", Certainty.LIKELY),
            },
        ),
    ],
)
def test_who_joins_with_a_pattern_and_is_answered_with_the_epoch_before_may_have_raised_none(
    then: dict[str, tuple[int, int]], found: dict[int, tuple[str, str | None, str]]
) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beat(1000, "b", 0, 1, given=[], regex="t.*")
    for member, (sent, epoch) in then.items():
        talk.beat(2000, member, sent, epoch, given=[0])
    talk.beat(20_000, "b", max(found, default=1))
    rest = of(epochs(talk.log()))
    assert causes(rest).pop(1)[:2] == ("member_joined", "a")
    assert {number: cause for number, cause in causes(rest).items() if number > 1} == found
    assert {number: each.inferred for number, each in rest.items()} == {
        number: number not in (1, *(epoch for _, epoch in then.values())) for number in rest
    }
    if then.get("c") == (0, 2):
        text = "c joined: heartbeat with epoch 0 (b joined: heartbeat with epoch 0 before)"
        assert said(rest[2])[0][3] == text


def test_a_member_that_begins_again_with_other_topics() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", 2, error="FENCED_MEMBER_EPOCH")
    talk.beat(3100, "b", 0, 3, given={"u": [0]}, topics=["u"])
    found = of(epochs(talk.log()))
    assert causes(found)[3] == ("subscription_changed", "b", Certainty.CERTAIN)
    assert said(found[3]) == [("subscription_changed", 1.0, 3100, "b asks for other topics: u")]


@pytest.mark.parametrize(("regex", "topics"), [("u.*", None), (None, [])])
def test_who_asks_for_what_may_have_no_partitions_and_is_answered_with_the_epoch_before_may_have_raised_none(
    regex: str | None, topics: list[str] | None
) -> None:
    joins = Epochs()
    joins.beat(0, "a", 0, 1, given=[0])
    joins.beat(1000, "b", 0, 1, given=[], regex=regex, topics=topics)
    assert sorted(of(epochs(joins.log()))) == [1]
    if regex:
        begins_again = Epochs()
        begins_again.two()
        begins_again.beat(3000, "b", 0, 2, given=[2, 3], regex=regex)
        assert sorted(of(epochs(begins_again.log()))) == [1, 2]


def test_a_member_that_begins_again_and_is_refused_is_a_join_that_is_refused() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", 0, error="GROUP_MAX_SIZE_REACHED")
    assert told(epochs(talk.log()))[-1] == (3001, "join_refused", "b", None, 17, "GROUP_MAX_SIZE_REACHED")


def test_one_epoch_without_a_cause_accounts_for_one_of_two_silent_members() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(2500, "c", 0, 3, given=[])
    talk.beat(2600, "a", 2, 3)
    talk.beat(2700, "b", 2, 3)
    talk.beat(2800, "c", 3, given=[4])
    talk.beats(3600, 14_600, "a", 3)
    talk.beat(14_600, "a", 3, 4)
    talk.beat(15_000, "b", 0, 4, given=[2])  # it was taken out, and joined with an epoch that no answer has named yet
    talk.beat(15_100, "c", 0, 4, given=[3])  # nothing shows that it was
    history = epochs(talk.log())
    came = [
        (each[1], each[2]) for each in told(history) if each[0] and each[0] >= 15_000 and each[1].endswith("joined")
    ]
    assert came == [("joined", "b"), ("rejoined", "c")]


@pytest.mark.parametrize(
    ("back", "epoch", "given", "taken_out"),
    [
        (4_510, 4, [0, 1], False),  # b was heard 2.5 s before
        (4_511, 4, [0, 1], True),
        (60_000, 3, [2, 3], False),
    ],
)
def test_a_silent_member_that_begins_again_two_epochs_later_was_taken_out(
    back: int, epoch: int, given: list[int], taken_out: bool
) -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, back, "a", 2)
    talk.beat(back, "b", 0, epoch, given=given)
    found = of(epochs(talk.log()))
    last = causes(found)[epoch]
    assert (last[:2] == ("member_joined", "b")) is taken_out
    if taken_out:
        assert causes(found)[3][:2] == ("session_timeout", "b")


@pytest.mark.parametrize(("given", "trigger"), [([2, 3], "unknown"), ([0, 1], "session_timeout")])
def test_a_silent_member_that_gets_other_partitions_than_it_had_was_taken_out_in_an_epoch_without_a_cause(
    given: list[int], trigger: str
) -> None:
    talk = Epochs()
    talk.two()
    talk.beats(2100, 12_000, "a", 2)
    talk.beat(12_000, "a", 2, 3, given=[0, 1])
    talk.beat(13_000, "b", 0, 3, given=given)
    found = of(epochs(talk.log()))
    assert found[3].trigger == trigger


# Static members


@pytest.mark.parametrize(
    ("epoch", "topics", "expected", "text"),
    [
        (1, ["t"], None, ""),
        (2, ["t"], ("static_member_replaced", "a~2", Certainty.GUESSED), ""),
        (2, ["u"], ("static_member_replaced", "a~2", Certainty.CERTAIN), " and asks for other topics"),
        (1, ["u"], ("static_member_replaced", "a~2", Certainty.CERTAIN), " and asks for other topics"),
    ],
)
def test_a_static_member_that_is_replaced_raises_the_epoch_if_it_asks_for_other_topics(
    epoch: int, topics: list[str], expected: tuple[str, str, str] | None, text: str
) -> None:
    talk = Epochs()
    talk.beat(0, "a~1", 0, 1, given=[0, 1], instance="i")
    talk.beat(1000, "a~1", -2, instance="i")
    talk.beat(2000, "a~2", 0, epoch, given=[0, 1], topics=topics, instance="i")
    talk.beat(3000, "b", 0, epoch + 1 + (expected is not None and epoch == 1), given=[])
    found = of(epochs(talk.log()))
    assert causes(found).get(2 if expected else 0) == expected
    if expected is not None:
        weight = 0.4 if expected[2] == Certainty.GUESSED else 1.0
        text = "a came with the instance id of a~1" + text
        assert said(found[2]) == [("static_member_replaced", weight, 2000, text)]
        assert [each.member_id for each in found[2].members] == ["a~2"]
    else:
        assert [each.member_id for each in found[1].members] == ["a~1"]
        assert [each.member_id for each in found[2].members] == ["a~2", "b"]
        assert [(each.trigger, ms(each.at)) for each in found[1].contributing] == []


@pytest.mark.parametrize(("regex", "epochs_told"), [("t.*", [1]), ("u.*", [1, 2])])
def test_a_static_member_that_is_replaced_may_ask_for_another_pattern(regex: str, epochs_told: list[int]) -> None:
    talk = Epochs()
    talk.beat(0, "a~1", 0, 1, given=[0, 1], instance="i", topics=[], regex="t.*")
    talk.beat(1000, "a~1", -2, instance="i")
    talk.beat(2000, "a~2", 0, 1, given=[0, 1], instance="i", topics=[], regex=regex)
    assert sorted(of(epochs(talk.log()))) == epochs_told


def test_a_static_member_that_is_replaced_while_an_epoch_is_open_is_told_with_it() -> None:
    talk = Epochs()
    talk.beat(0, "a~1", 0, 1, given=[0, 1], instance="i")
    talk.beat(1000, "b", 0, 2, given=[])
    talk.beat(1100, "a~1", 1, given=[0])
    talk.beat(2000, "a~1", -2, instance="i")
    talk.beat(3000, "a~2", 0, 1, given=[0], instance="i")
    talk.beat(4000, "a~2", 1, 2, owned=[0], instance="i")
    talk.beat(5000, "b", 2, given=[1])
    second = of(epochs(talk.log()))[2]
    assert [(each.trigger, each.client_id, ms(each.at), each.packet) for each in second.contributing] == [
        ("static_member_replaced", "a", 3000, 10)
    ]


@pytest.mark.parametrize(
    ("group", "epoch", "given", "event"),
    [
        (None, 3, [0, 1], "replaced"),
        (None, 2, [0, 1], "joined"),  # so does a group begin
        (None, 3, None, "joined"),
        (2, 3, [0, 1], "joined"),
        (3, 3, [0, 1], "replaced"),
        (4, 3, [0, 1], "replaced"),
    ],
)
def test_a_static_member_that_is_given_partitions_at_once_in_an_epoch_that_was_there_has_taken_a_place(
    group: int | None, epoch: int, given: list[int] | None, event: str
) -> None:
    talk = Epochs()
    if group is not None:
        talk.beat(0, "b", group, owned=[2])
    talk.beat(1000, "a~1", 0, epoch, given=given, instance="i")
    history = epochs(talk.log())
    assert [each.event for each in history.events if each.member_id == "a~1"][0 if event == "joined" else -1] == event
    assert (of(history) == {}) is (event == "replaced")
    if event == "joined":
        text = "a joined: heartbeat with epoch 0 (static, no instance of that id was known)"
        assert said(of(history)[epoch])[0][3] == text


def test_a_static_member_that_is_replaced_in_a_classic_group_raises_no_epoch() -> None:
    talk = Epochs()
    talk.join(0, "a~1", generation=1, new=True, instance="i", members={"a~1": {}}, took=3000)
    talk.sync(3100, "a~1", 1, {"t": [0, 1]}, {"a~1": {"t": [0, 1]}})
    talk.join(5000, "a~2", generation=2, new=True, instance="i", members={"a~2": {}}, topics=("t", "u"), took=10)
    talk.sync(5100, "a~2", 2, {"t": [0, 1]}, {"a~2": {"t": [0, 1]}})
    talk.beat(7000, "c", 0, 3, given=[])
    history = by_protocol(talk.log())
    assert [(each.protocol, each.to_generation, each.trigger) for each in history.rebalances] == [
        ("classic", 1, "member_joined"),
        ("classic", 2, "static_member_replaced"),
        ("consumer", 3, "member_joined"),
    ]
    third = of(history)[3]
    assert [(each.member_id, each.assignment_before) for each in third.members] == [
        ("a~2", ["t-0", "t-1"]),
        ("c", []),
    ]


def test_a_static_member_that_was_replaced_within_a_generation_is_no_member_of_the_first_epoch() -> None:
    talk = Epochs()
    talk.join(0, "a~1", generation=1, new=True, instance="i", members={"a~1": {}}, took=3000)
    talk.sync(3100, "a~1", 1, {"t": [0, 1]}, {"a~1": {"t": [0, 1]}})
    talk.join(5000, "a~2", generation=1, new=True, instance="i", members={"a~2": {}}, took=10)
    talk.sync(5100, "a~2", 1, {"t": [0, 1]})
    talk.beat(7000, "c", 0, 2, given=[])
    assert [each.member_id for each in of(by_protocol(talk.log()))[2].members] == ["a~2", "c"]


# Members that go


def test_a_member_that_leaves() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", -1)
    third = of(epochs(talk.log()))[3]
    assert causes({3: third}) == {3: ("member_left", "b", Certainty.CERTAIN)}
    assert said(third) == [("member_left", 1.0, 3000, "b left: heartbeat with epoch -1")]
    assert [each.member_id for each in third.members] == ["a"]


def test_whether_a_coordinator_took_a_leave_that_has_no_answer_is_not_known() -> None:
    talk = Epochs()
    talk.two()
    talk.say(3000, talk.api, "b", {"memberId": "b", "memberEpoch": -1}, None)
    talk.beats(3100, 6000, "a", 2)
    assert causes(of(epochs(talk.log())))[3] == ("member_left", "b", Certainty.LIKELY)


def test_a_leave_that_has_no_answer_came_behind_what_was_asked_before_it() -> None:
    """It is sent while a heartbeat is still to be answered, and the connection is closed then."""
    talk = Epochs()
    talk.two()
    heartbeat = {"memberId": "b", "memberEpoch": 2}
    talk.say(3000, talk.api, "b", heartbeat, heartbeat | {"memberEpoch": 3}, took=15)
    talk.say(3003, talk.api, "b", {"memberId": "b", "memberEpoch": -1}, None)
    talk.beats(3100, 6000, "a", 4)
    found = of(epochs(talk.log()))
    assert [each.member_id for each in found[4].members] == ["a"]
    assert causes(found)[4] == ("member_left", "b", Certainty.LIKELY)
    assert causes(found)[3][0] == "unknown"


def test_a_member_of_which_the_capture_has_only_its_leaving() -> None:
    talk = Epochs()
    talk.beat(0, "a", 5, owned=[0])
    talk.beat(1000, "b", -1)
    talk.beat(2000, "b", -1)  # once more: it is gone
    talk.beat(3000, "a", 5, 6)
    history = epochs(talk.log())
    assert [each[:3] for each in told(history) if each[1] == "left"] == [(1000, "left", "b")]
    assert causes(of(history)) == {6: ("member_left", "b", Certainty.LIKELY)}


def test_a_leave_that_is_refused() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", -1, error="NOT_COORDINATOR")
    talk.beat(3100, "b", 2)
    history = epochs(talk.log())
    assert [each for each in told(history) if each[1] == "leave_refused"] == [
        (3001, "leave_refused", "b", None, 17, "NOT_COORDINATOR")
    ]
    assert list(of(history)) == [1, 2]


def test_a_leave_of_a_member_of_which_nothing_is_known_and_that_is_none() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "c", -1, error="UNKNOWN_MEMBER_ID")
    history = epochs(talk.log())
    assert told(history)[-1] == (3001, "leave_refused", "c", None, 17, "UNKNOWN_MEMBER_ID")
    assert list(of(history)) == [1, 2]


@pytest.mark.parametrize(
    ("error", "raised"), [("UNKNOWN_MEMBER_ID", True), ("GROUP_ID_NOT_FOUND", False), ("FENCED_MEMBER_EPOCH", False)]
)
def test_a_member_that_is_unknown_all_at_once_was_taken_out_in_an_epoch_that_nobody_has_shown(
    error: str, raised: bool
) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", 2, error=error)
    assert sorted(of(epochs(talk.log()))) == [1, 2, 3][: 2 + raised]


def test_an_epoch_without_a_cause_is_that_of_one_member_that_was_taken_out() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(2500, "c", 0, 3, given=[])
    talk.beat(2600, "a", 2, 3)
    talk.beat(2700, "b", 2, 3)
    talk.beats(3600, 14_600, "a", 3)
    talk.beat(14_600, "a", 3, 4)
    talk.beat(15_000, "b", 3, error="UNKNOWN_MEMBER_ID")
    talk.beat(15_100, "c", 3, error="UNKNOWN_MEMBER_ID")
    found = of(epochs(talk.log()))
    assert [(number, each.trigger, each.trigger_member) for number, each in found.items() if number > 3] == [
        (4, "session_timeout", "c"),
        (5, "session_timeout", "b"),
    ]


def test_a_static_member_that_speaks_again_after_it_stepped_out_is_back() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(2500, "b", 2)
    talk.beat(3000, "b", -2, instance="i")
    talk.beats(3500, 12_000, "b", 2)
    talk.beat(12_000, "a", 2, 3, given=[0, 1, 4])
    assert of(epochs(talk.log()))[3].trigger == "topic_partitions_changed"


@pytest.mark.parametrize(
    ("client", "reason", "expected", "text"),
    [
        (None, None, ("member_left", "b~1", Certainty.CERTAIN), "b left: LeaveGroup"),
        (
            None,
            "consumer poll timeout has expired.",
            ("poll_timeout", "b~1", Certainty.CERTAIN),
            "b left: LeaveGroup, for the reason “consumer poll timeout has expired.”",
        ),
        (
            "admin",
            "maintenance",
            ("removed_by_admin", "b~1", Certainty.LIKELY),
            "b was taken out by another client: LeaveGroup, for the reason “maintenance”",
        ),
        (
            "admin",
            "member was removed by an admin: update",
            ("removed_by_admin", "b~1", Certainty.CERTAIN),
            "b was taken out by another client: LeaveGroup, for the reason “member was removed by an admin: update”",
        ),
    ],
)
def test_a_classic_member_says_why_it_leaves_a_group_with_epochs(
    client: str | None, reason: str | None, expected: tuple[str, str, str], text: str
) -> None:
    talk = mixed()
    talk.leave(8000, "b~1", reason, client=client)
    talk.beat(9000, "c", 2, 3, given=[2, 3])
    history = by_protocol(talk.log())
    third = of(history)[3]
    assert causes({3: third}) == {3: expected}
    assert said(third) == [(expected[0], 1.0, 8000, text)]
    event = "member_removed" if client else "left"
    assert told(history)[-3] == (8000, event, "b~1", None, 32, reason)
    assert (history.events[-3].client_id, history.events[-3].client) == ("b", "host-of-b")  # whoever said it


def test_what_classic_members_say_and_are_told_in_a_group_with_epochs() -> None:
    talk = mixed()
    talk.heartbeat(8000, "b~1", 2)
    talk.heartbeat(9000, "b~1", 2, "REBALANCE_IN_PROGRESS", took=2)
    history = by_protocol(talk.log())
    assert [each for each in told(history) if each[2] == "b~1" and each[0] is not None and each[0] > 6000] == [
        (6101, "heartbeat_refused", "b~1", 1, 25, "REBALANCE_IN_PROGRESS"),
        (6110, "joined", "b~1", 2, 26, None),
        (6111, "epoch_seen", "b~1", 2, 27, None),
        (6121, "synced", "b~1", 2, 29, "t 2"),
    ]
    second = of(history)[2]
    # An eager member gives up all that it has as it joins again.
    assert [(each.partition, ms(each.since), each.ms) for each in second.unowned] == [
        ("t-0", 6010, 11.0),
        ("t-1", 6010, 11.0),
        ("t-2", 6110, 11.0),
        ("t-3", 6110, 891.0),
    ]


def test_a_classic_member_that_joins_a_group_with_epochs() -> None:
    talk = mixed()
    talk.join(8000, "d~1", new=True, error="MEMBER_ID_REQUIRED")
    request = join_of("") | {"memberId": ""}
    talk.say(8100, "JoinGroup", "d", request, {"generationId": 3, "leader": "", "memberId": "d~1"})
    talk.beat(9000, "c", 2, 3)
    history = by_protocol(talk.log())
    third = of(history)[3]
    assert causes({3: third}) == {3: ("member_joined", "d~1", Certainty.CERTAIN)}
    assert said(third)[0][3] == "d joined: JoinGroup without a member id"
    assert [each for each in told(history) if each[2] == "d~1"][:2] == [
        (8001, "member_id_given", "d~1", None, 33, None),
        (8100, "joined", "d~1", 3, 34, None),
    ]


@pytest.mark.parametrize("topics", [("t",), ("t", "u")])
def test_a_classic_member_that_joins_again_asks_for_other_topics_or_not(topics: tuple[str, ...]) -> None:
    talk = mixed()
    talk.say(8000, "JoinGroup", "b", join_of("b~1", topics), {"generationId": 3, "leader": "", "memberId": "b~1"})
    talk.beat(9000, "c", 2, 3)
    third = of(by_protocol(talk.log()))[3]
    changed_them = len(topics) > 1
    assert third.trigger == ("subscription_changed" if changed_them else "unknown")


def test_a_classic_member_that_was_taken_out_before_the_group_got_epochs_is_no_member_of_them() -> None:
    talk = Epochs()
    talk.formed(0, 1, {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}})
    talk.again(15_000, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    talk.beat(20_000, "c", 0, 3, given=[])
    third = of(by_protocol(talk.log()))[3]
    assert [(each.member_id, each.assignment_before) for each in third.members] == [
        ("a~1", ["t-0", "t-1", "t-2", "t-3"]),
        ("c", []),
    ]


# Epochs that are seen


@pytest.mark.parametrize(("at", "certainty"), [(12_500, Certainty.LIKELY), (12_501, Certainty.CERTAIN)])
def test_who_is_first_heard_of_long_after_the_capture_began_joined_within_it(at: int, certainty: str) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beats(1000, at, "a", 1)
    talk.beat(at, "b", 1, owned=[1])  # else it would have been there before, as others may have been
    talk.beat(20_000, "c", 0, 2, given=[])
    talk.beat(30_000, "c", 2)
    assert causes(of(epochs(talk.log())))[2] == ("member_joined", "c", certainty)


def test_the_first_word_of_a_member_may_be_answered_with_an_epoch_that_is_new_to_it() -> None:
    talk = Epochs()
    talk.beat(0, "a", 5, 6)
    found = of(epochs(talk.log()))
    assert causes(found) == {6: ("unknown", None, Certainty.GUESSED)}
    assert said(found[6])[0][3].startswith("no member joined, left, fell silent or asked for other topics")


@pytest.mark.parametrize(("member", "members"), [("a", ["a", "b"]), (None, ["b"])])
def test_an_answer_without_its_request_tells_of_a_member_if_it_names_one(
    member: str | None, members: list[str]
) -> None:
    talk = Epochs()
    talk.say(0, talk.api, "a", None, {"memberId": member, "memberEpoch": 5})
    talk.messages[0] = changed(talk.messages[0], outcome="orphan", request_packet=None)
    talk.beat(1000, "b", 0, 6, given=[1])
    history = epochs(talk.log())
    assert [each.member_id for each in of(history)[6].members] == members
    assert [each[2] for each in told(history) if each[3] == 5] == ([member] if member else [])


def test_a_member_that_goes_on_after_its_leaving_is_there() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(2500, "b", 2)
    talk.beat(3000, "b", -1)
    talk.beats(3500, 6000, "b", 2)
    third = of(epochs(talk.log()))[3]
    assert (third.trigger, [each.member_id for each in third.members]) == ("member_left", ["a", "b"])


@pytest.mark.parametrize(
    ("answered", "epochs_told"), [(1, [1, 2, 3, 4, 1]), (2, [1, 2, 3, 4, 2]), (3, [1, 2, 3, 4, 5])]
)
def test_an_empty_group_begins_anew_with_its_first_epochs(answered: int, epochs_told: list[int]) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "a", -1)
    talk.beat(3100, "b", -1)
    talk.beat(9000, "c", 0, answered)
    assert [each.to_generation for each in epochs(talk.log()).rebalances] == epochs_told


@pytest.mark.parametrize(("comes", "epochs_told"), [(7000, [1, 2, 3, 4]), (7001, [1, 2, 3, 2])])
def test_a_group_that_was_at_its_third_epoch_begins_anew_with_the_second_after_a_while(
    comes: float, epochs_told: list[int]
) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1)
    talk.beat(1000, "a", 1, 2, topics=["t", "u"])
    talk.beat(2000, "a", -1)
    talk.beat(comes, "b", 0, 2)  # until then it may be that of the assignment before
    assert [each.to_generation for each in epochs(talk.log()).rebalances] == epochs_told


@pytest.mark.parametrize(("jump", "rows"), [(100, 100), (101, 101), (102, 1)])
def test_a_jump_over_more_than_a_hundred_epochs_is_damage(jump: int, rows: int) -> None:
    talk = Epochs()
    talk.beat(0, "a", 5)
    talk.beat(1000, "a", 5, 5 + jump)
    found = of(epochs(talk.log()))
    assert len(found) == rows
    assert max(found) == 5 + jump


@pytest.mark.parametrize(
    ("told_before", "in_request", "given", "shows"),
    [
        ([0, 1], None, [0], True),
        ([0, 1], [0, 1], [0], True),
        ([0, 1], [0], [0], False),  # it gave that up already
        ([0], None, [0], False),  # it never had 1
        ([0, 1], None, [0, 1, 2], False),
    ],
)
def test_an_answer_that_takes_partitions_away_shows_the_next_epoch(
    told_before: list[int], in_request: list[int] | None, given: list[int], shows: bool
) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0, 1])
    talk.beat(50, "a", 1, owned=told_before)
    talk.beat(1000, "a", 1, owned=in_request, given=given)
    found = of(epochs(talk.log()))
    assert sorted(found) == [1, 2][: 1 + shows]
    if shows:
        assert (found[2].inferred, ms(found[2].started), found[2].stable) == (True, 1000, None)


@pytest.mark.parametrize(("named", "epochs_told"), [(2, [1, 2, 3, 4]), (3, [1, 2, 3])])
def test_what_a_member_was_given_out_of_sight_it_may_have_given_up_then(named: int, epochs_told: list[int]) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(9000, "a", named)  # the capture lacks that 1 was taken from it in epoch 3
    talk.beat(9500, "a", named, 3, given=[0, 3])
    assert sorted(of(epochs(talk.log()))) == epochs_told


def test_members_of_share_groups_need_not_give_up_partitions_before_they_reach_an_epoch() -> None:
    talk = Epochs()
    talk.api = "ShareGroupHeartbeat"
    talk.beat(0, "a", 0, 1, given=[0, 1])
    talk.beat(50, "a", 1, owned=[0, 1])
    talk.beat(1000, "a", 1, given=[0])
    assert sorted(of(epochs(talk.log()))) == [1]


@pytest.mark.parametrize(("sent", "told_of"), [(1, [2]), (2, [])])
def test_an_epoch_that_was_raised_before_the_capture_and_is_reached_within_it(sent: int, told_of: list[int]) -> None:
    talk = Epochs()
    talk.beat(0, "a", 2, owned=[0])
    talk.beat(1000, "b", sent, 2, owned=[1])
    found = of(epochs(talk.log()))
    assert sorted(found) == told_of
    if told_of:
        assert causes(found) == {2: ("unknown", None, Certainty.GUESSED)}
        assert said(found[2]) == [("unknown", 1.0, None, "it was raised before the capture began")]
        assert not found[2].inferred


def test_who_joined_with_a_pattern_is_shown_by_the_one_that_was_taken_out_after_it() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beat(1000, "b", 0, 1, given=[], regex="t.*")
    talk.beat(5000, "a", 1, error="UNKNOWN_MEMBER_ID")
    found = of(epochs(talk.log()))
    assert causes(found) == {
        1: ("member_joined", "a", Certainty.CERTAIN),
        2: ("member_joined", "b", Certainty.CERTAIN),
        3: ("session_timeout", "a", Certainty.LIKELY),
    }
    assert ms(found[3].started) == 5000


def test_an_epoch_that_was_shown_while_a_request_was_on_its_way_is_named_by_its_answer() -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", 2, given=[2], took=10)  # it is asked to give up 3: the group is at epoch 3
    talk.beat(2995, "a", 2, 3, topics=["u"], took=20)
    talk.beat(3100, "b", 2)
    found = of(epochs(talk.log()))
    assert causes(found)[3] == ("subscription_changed", "a", Certainty.CERTAIN)
    assert sorted(found) == [1, 2, 3]
    assert not found[3].inferred


@pytest.mark.parametrize(
    ("began", "took", "same"), [(3010, 20, True), (3011, 20, False), (2990, 20, True), (2990, 19, False)]
)
def test_an_epoch_that_was_shown_before_a_request_or_after_its_answer_was_not_raised_by_it(
    began: int, took: int, same: bool
) -> None:
    talk = Epochs()
    talk.two()
    talk.beat(3000, "b", 2, 3, took=10)
    talk.beat(began, "a", 2, topics=["u"], took=took)
    talk.beat(3100, "a", 2, 3 if same else 4)
    found = of(epochs(talk.log()))
    assert causes(found)[3 if same or began < 3000 else 4][:2] == ("subscription_changed", "a")
    assert sorted(found)[-1] == (3 if same else 4)


# What members ask for


@pytest.mark.parametrize(
    ("before", "now", "trigger", "certainty"),
    [
        ({}, {"topics": ["u"]}, "subscription_changed", Certainty.CERTAIN),
        ({}, {"topics": ["t"]}, "unknown", Certainty.GUESSED),
        ({}, {"regex": "u.*"}, "subscription_changed", Certainty.CERTAIN),
        ({}, {"regex": ""}, "unknown", Certainty.GUESSED),
        ({"regex": "t.*"}, {"regex": "u.*"}, "subscription_changed", Certainty.CERTAIN),
        ({"regex": "t.*"}, {"regex": "t.*"}, "unknown", Certainty.GUESSED),
        ({"regex": "t.*"}, {"regex": ""}, "subscription_changed", Certainty.CERTAIN),
    ],
)
def test_a_member_that_asks_for_other_topics_than_before(
    before: dict[str, Any], now: dict[str, Any], trigger: str, certainty: str
) -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0], **before)
    talk.beat(1000, "a", 1, 2, **now)
    assert causes(of(epochs(talk.log())))[2][::2] == (trigger, certainty)


@pytest.mark.parametrize(
    ("now", "trigger", "certainty"),
    [
        ({"topics": ["u"]}, "subscription_changed", Certainty.LIKELY),
        ({"regex": "u.*"}, "subscription_changed", Certainty.LIKELY),
        ({"topics": []}, "unknown", Certainty.GUESSED),
    ],
)
def test_a_member_of_before_the_capture_tells_its_topics_when_they_change(
    now: dict[str, Any], trigger: str, certainty: str
) -> None:
    talk = Epochs()
    talk.beat(0, "a", 1, owned=[0])
    talk.beat(1000, "a", 1, 2, **now)
    second = of(epochs(talk.log()))[2]
    assert causes({2: second})[2][::2] == (trigger, certainty)
    if trigger == "subscription_changed":
        asked = now.get("regex") or ", ".join(now["topics"])
        assert said(second)[0][3] == f"a asks for other topics: {asked}"


def test_a_member_that_tells_all_else_with_its_topics_had_an_error_before() -> None:
    talk = Epochs()
    talk.beat(0, "a", 1, owned=[0])
    request = {"memberId": "a", "memberEpoch": 1, "subscribedTopicNames": ["t"], "rebalanceTimeoutMs": 4000}
    talk.say(1000, talk.api, "a", request, {"memberEpoch": 2})
    assert of(epochs(talk.log()))[2].trigger == "unknown"


# Streams groups


def topology(talk: Conversation, at: float, epoch: int, answered: int) -> None:
    request = {"memberId": "s", "memberEpoch": 1, "topology": {"epoch": epoch, "subtopologies": []}}
    talk.say(at, "StreamsGroupHeartbeat", "s", request, {"memberEpoch": answered, "status": []}, version=0)


@pytest.mark.parametrize(("epoch", "trigger"), [(0, "unknown"), (1, "subscription_changed")])
def test_another_topology_raises_the_epoch(epoch: int, trigger: str) -> None:
    talk = Conversation()
    streams(talk, 0, 0, 1, [0, 1])
    topology(talk, 1000, epoch, 2)
    assert of(epochs(talk.log()))[2].trigger == trigger


@pytest.mark.parametrize(
    ("codes", "then", "trigger", "text"),
    [
        ([3], [], "internal_topics_created", "s was told that internal topics are missing, and is not any more"),
        ([3, 1], [1], "internal_topics_created", "s was told that internal topics are missing, and is not any more"),
        (
            [1],
            [],
            "topic_partitions_changed",
            "s was told that source topics are missing or badly partitioned, and is not any more",
        ),
        (
            [2],
            [],
            "topic_partitions_changed",
            "s was told that source topics are missing or badly partitioned, and is not any more",
        ),
        ([3], [3], "unknown", None),
        ([4], [], "unknown", None),
    ],
)
def test_topics_that_a_streams_group_waited_for(
    codes: list[int], then: list[int], trigger: str, text: str | None
) -> None:
    talk = Conversation()
    streams(talk, 0, 0, 1, [0], *codes)
    streams(talk, 1000, 1, 2, [0], *then)
    history = epochs(talk.log())
    second = of(history)[2]
    assert second.trigger == trigger
    if text is not None:
        assert said(second) == [(trigger, 0.9, 1000, text)]
        assert second.certainty == Certainty.LIKELY
    statuses = [each for each in told(history) if each[1] == "status_told"]
    assert statuses[0] == (1, "status_told", "s", 1, 3, "; ".join("…" for _ in codes))
    assert len(statuses) == 1 + bool(then)


@pytest.mark.parametrize("sent", [0, 1])
def test_an_answer_whose_assignment_is_delayed_shows_the_next_epoch_without_naming_it(sent: int) -> None:
    talk = Conversation()
    streams(talk, 0, 0, 1, [0])
    request: dict[str, Any] = {"memberId": "r" if sent == 0 else "s", "memberEpoch": sent, "activeTasks": None}
    request["topology"] = {"epoch": 0, "subtopologies": [{"subtopologyId": "0", "sourceTopics": ["lines"]}]}
    status = [{"statusCode": 5, "statusDetail": "…"}]
    talk.say(1000, "StreamsGroupHeartbeat", "r", request, {"memberEpoch": 1, "status": status}, version=0)
    second = of(epochs(talk.log()))[2]
    assert (second.trigger, second.inferred) == ("member_joined" if sent == 0 else "unknown", True)


@pytest.mark.parametrize(("told", "numbers"), [(1, [2, 3, 4, 5]), (2, [2, 3, 3, 4])])
def test_a_group_that_was_never_assigned_anything_goes_on_where_it_was(told: int, numbers: list[int]) -> None:
    """Its members leave before their first assignment: who comes later hears of the epoch from before all of them."""
    talk = Conversation()
    for began in (0, 8_000):
        streams(talk, began, 0, 1 if not began else told, None, 2, 5)
        streams(talk, began + 100, -1, -1, None)
    assert [each.to_generation for each in epochs(talk.log()).rebalances] == numbers


def test_internal_topics_may_be_there_while_the_assignment_is_still_delayed() -> None:
    """As Kafka 4.4 answers: the epoch raised for them is named by the heartbeat after the next."""
    talk = Conversation()
    streams(talk, 0, 0, 1, None, 3, 5)
    streams(talk, 400, 1, 1, None, 5)
    streams(talk, 1000, 1, 3, [0])
    history = of(epochs(talk.log()))
    assert (history[2].trigger, history[3].trigger) == ("member_joined", "internal_topics_created")
    assert said(history[3])[0][2:] == (400, "s was told that internal topics are missing, and is not any more")
    assert history[3].certainty == Certainty.LIKELY


def configured(
    talk: Conversation, at: float, name: str, value: str | None, group: str = "g", error: str | None = None
) -> None:
    resource = {"resourceType": 32, "resourceName": group, "configs": [{"name": name, "value": value}]}
    other = {"resourceType": 2, "resourceName": "g", "configs": [{"name": "retention.ms", "value": "1"}]}
    talk.say(at, "IncrementalAlterConfigs", "admin", {"resources": [other, resource]}, {"responses": []}, error=error)


STANDBY = "streams.num.standby.replicas"


@pytest.mark.parametrize(
    ("at", "settings", "trigger"),
    [
        (500, {"name": STANDBY, "value": "1"}, "group_config_changed"),
        (500, {"name": "streams.rack.aware.assignment.tags", "value": None}, "group_config_changed"),
        (500, {"name": "streams.session.timeout.ms", "value": "9000"}, "unknown"),
        (500, {"name": STANDBY, "value": "1", "group": "other"}, "unknown"),
        (500, {"name": STANDBY, "value": "1", "error": "INVALID_CONFIG"}, "unknown"),
        (1500, {"name": STANDBY, "value": "1"}, "unknown"),
        (-10_500, {"name": STANDBY, "value": "1"}, "unknown"),
    ],
)
def test_settings_of_a_group_may_raise_its_epoch(at: float, settings: dict[str, Any], trigger: str) -> None:
    talk = Conversation()
    configured(talk, at, **settings)
    streams(talk, 0, 0, 1, [0])
    streams(talk, 1000, 1, 2, [0])
    streams(talk, 2000, 2, 3, [0])
    history = of(epochs(talk.log()))
    assert (history[2].trigger, history[3].trigger) == (trigger, "group_config_changed" if at == 1500 else "unknown")
    if trigger == "group_config_changed":
        assert re.fullmatch(rf"admin \(.*\) changed {settings['name']}", said(history[2])[0][3])
        assert history[2].certainty == Certainty.LIKELY


def test_internal_topics_that_two_members_waited_for_raise_the_epoch_once() -> None:
    talk = Conversation()
    streams(talk, 0, 0, 1, None, 3, 5)
    request = {"memberId": "r", "memberEpoch": 0, "rebalanceTimeoutMs": 4000}
    waits = [{"statusCode": code, "statusDetail": "…"} for code in (3, 5)]
    talk.say(100, "StreamsGroupHeartbeat", "r", request, {"memberEpoch": 1, "status": waits}, version=0)
    streams(talk, 400, 1, 1, None, 5)
    request["memberEpoch"] = 1
    talk.say(500, "StreamsGroupHeartbeat", "r", request, {"memberEpoch": 1, "status": waits[1:]}, version=0)
    streams(talk, 1000, 1, 4, [0])
    triggers = {number: each.trigger for number, each in of(epochs(talk.log())).items()}
    assert triggers == {2: "member_joined", 3: "member_joined", 4: "internal_topics_created"}


def test_a_member_that_joins_again_waited_for_nothing_in_its_life_before() -> None:
    talk = Conversation()
    streams(talk, 0, 0, 1, [0], 3)
    streams(talk, 1000, 0, 2, [0], 4)
    assert of(epochs(talk.log()))[2].trigger == "unknown"


def test_of_many_topics_that_a_member_asks_for_twenty_are_told() -> None:
    talk = Epochs()
    talk.beat(0, "a", 0, 1, given=[0])
    talk.beat(1000, "a", 1, 2, topics=[f"t{number:02}" for number in range(21)])
    assert said(of(epochs(talk.log()))[2])[0][3].endswith("t18, t19 and 1 more")


def test_a_cooperative_member_keeps_what_it_has_as_it_joins_again() -> None:
    talk = mixed()
    request = join_of("b~1")
    request["protocols"][0]["metadata"]["ownedPartitions"] = [{"topic": "t", "partitions": [2]}]
    talk.beat(8000, "d", 0, 3, given=[])
    talk.say(9000, "JoinGroup", "b", request, {"generationId": 3, "leader": "", "memberId": "b~1"})
    talk.sync(9100, "b~1", 3, {"t": [2]})
    talk.beat(9200, "c", 2, 3)
    assert of(by_protocol(talk.log()))[3].unowned == []


# Descriptions


def described(talk: Epochs, at: float, epoch: int, *members: dict[str, Any]) -> None:
    group = {"groupId": "g", "groupEpoch": epoch, "groupState": "STABLE", "members": list(members)}
    answer = {"groups": [{"groupId": "other", "groupEpoch": 99, "members": []}, group]}
    talk.say(at, "ConsumerGroupDescribe", "admin", {"groupIds": ["g"]}, answer)


def test_members_of_whom_only_descriptions_tell_are_there_until_they_are_not_listed_any_more() -> None:
    talk = Epochs()
    talk.beat(0, "a", 3, owned=[0])
    given = {"topicPartitions": [{"topicId": "t-id", "topicName": "t", "partitions": [1]}]}
    about = {"memberEpoch": 4, "clientId": "client-b", "clientHost": "/10.0.0.9", "instanceId": "i"}
    described(
        talk,
        1000,
        4,
        {"memberId": "b", "subscribedTopicNames": ["u", "t"], "assignment": given} | about,
        {"memberId": "a"},
    )
    talk.beat(2000, "a", 3, 4)
    described(talk, 3000, 5, {"memberId": "a"})
    talk.beat(4000, "a", 4, 5)
    found = of(epochs(talk.log()))
    assert sorted(found) == [4, 5]
    b = found[4].members[1]
    assert (b.member_id, b.client_id, b.host, b.instance_id) == ("b", "client-b", "10.0.0.9", "i")
    assert (b.subscription, b.assignment_before, b.assignment) == (["t", "u"], [], ["t-1"])
    assert (ms(found[4].started), found[4].inferred) == (1000, False)
    assert [each.member_id for each in found[5].members] == ["a"]


def test_a_member_that_speaks_is_there_though_a_description_does_not_list_it() -> None:
    talk = Epochs()
    talk.beat(0, "a", 3, owned=[0])
    described(talk, 1000, 3, {"memberId": "b"})
    talk.beat(2000, "a", 3, 4)
    assert {each.member_id for each in of(epochs(talk.log()))[4].members} == {"a", "b"}


@pytest.mark.parametrize(("epoch", "answered"), [(0, True), (4, False)])
def test_a_description_without_an_answer_or_an_epoch_tells_nothing(epoch: int, answered: bool) -> None:
    talk = Epochs()
    talk.beat(0, "a", 3, owned=[0])
    described(talk, 1000, epoch, {"memberId": "b"})
    if not answered:
        talk.messages[-1] = changed(talk.messages[-1], answered=None)
    talk.beat(2000, "a", 3)
    assert of(epochs(talk.log())) == {}
