"""Which epochs there were and what raised each, by what members say: on either side of each rule, written by hand."""

from __future__ import annotations

import pytest

from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.groups.migration import by_protocol
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.epochs.epoch_logs import Epochs, epochs, ms, said, told
from tests.reports.groups.group_logs import of


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
    talk.beat(1000, "a~1", -2, instance="i")
    talk.beat(2000, "a~2", 0, 1, given=[0, 1], instance="i")
    history = epochs(talk.log())
    assert told(history) == [
        (0, "joined", "a~1", 1, 2, None),
        (1, "assignment_given", "a~1", 1, 3, "t 0-1"),
        (1, "epoch_seen", "a~1", 1, 3, None),
        (1000, "left", "a~1", None, 4, "static: it may come back within its session"),
        (2001, "assignment_given", "a~2", 1, 7, "t 0-1"),
        (2001, "replaced", "a~2", 1, 7, "a~1 before"),
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
