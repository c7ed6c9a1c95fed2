"""Groups that get epochs, and that lose them again: when, what is told of it, and once."""

from __future__ import annotations

import logging

import pytest

from kafkascope.reports.groups.migration import by_protocol, phases_of
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.epochs.epoch_logs import Epochs, join_of, mixed, ms, rejected, said
from tests.reports.groups.group_logs import Conversation, of, unanswered

SHARES = {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}}
Phases = list[tuple[str, float | None, float | None, int]]


def phases(talk: Conversation) -> Phases:
    """Kind, begin, end and how many messages."""
    return [(each.kind, ms(each.begin), ms(each.end), len(each.messages)) for each in phases_of(talk.log())]


def told(talk: Conversation) -> list[tuple[str, int | None, int, str]]:
    found = by_protocol(talk.log()).rebalances
    return [(each.protocol, each.from_generation, each.to_generation, each.trigger) for each in found]


def test_a_group_of_one_protocol_has_one_phase() -> None:
    classic = Conversation()
    classic.formed(0, 1, SHARES)
    classic.say(5000, "OffsetCommit", "a", {"memberId": "a~1"}, {})
    assert phases(classic) == [("classic", None, None, 7)]
    with_epochs = Epochs()
    with_epochs.two()
    assert phases(with_epochs) == [("epochs", None, None, 7)]
    refused = Epochs()
    refused.beat(0, "a", 0, error="GROUP_AUTHORIZATION_FAILED")
    assert phases(refused) == [("epochs", None, None, 1)]
    assert phases(Conversation()) == [("classic", None, None, 0)]


def test_a_classic_group_gets_epochs_with_the_first_heartbeat_that_is_taken() -> None:
    talk = Epochs()
    talk.formed(0, 1, SHARES)
    talk.messages.append(unanswered(talk.beat(4500, "c", 0, 2)))
    talk.messages.pop(-2)
    talk.beat(4600, "c", 0, error="GROUP_AUTHORIZATION_FAILED")
    talk.beat(5000, "c", 0, 2, took=100)
    talk.heartbeat(5050, "a~1", 1)
    talk.heartbeat(4999, "b~1", 1)
    assert phases(talk) == [("classic", None, 5000, 9), ("epochs", 5000, None, 2)]


@pytest.mark.parametrize(
    ("generation", "leader", "kind"), [(2, "", "epochs"), (2, "a~1", "classic"), (0, "", "classic")]
)
def test_a_join_without_a_leader_is_one_of_a_group_with_epochs(generation: int, leader: str, kind: str) -> None:
    talk = Epochs()
    talk.say(
        0,
        "JoinGroup",
        "a",
        join_of("a~1"),
        {"generationId": generation, "leader": leader, "memberId": "a~1"},
    )
    talk.beat(1000, "c", 0, error="GROUP_AUTHORIZATION_FAILED")
    assert phases(talk) == [(kind, None, None, 2)]


def back(at: float) -> Epochs:
    """A group of a and b in generation 1, c in epoch 2, who leaves again."""
    talk = mixed()
    talk.beat(at, "c", -1)
    return talk


def test_a_group_becomes_a_classic_one_when_its_last_member_with_epochs_has_left() -> None:
    talk = back(8000)
    talk.heartbeat(8500, "a~1", 2)
    talk.again(9000, 3, SHARES)
    assert phases(talk) == [
        ("classic", None, 5000, 7),
        ("epochs", 5000, 8000.000001, 9),
        ("classic", 8000.000001, None, 7),
    ]


def test_a_group_stays_one_with_epochs_as_long_as_a_member_with_epochs_is_there() -> None:
    talk = mixed()
    talk.beat(7500, "d", 0, 3)
    talk.beat(8000, "c", -1)
    talk.again(9000, 5, SHARES)  # that shows when it was none any more: d fell silent
    assert phases(talk)[1:] == [("epochs", 5000, 9000, 12), ("classic", 9000, None, 4)]
    again = back(8000)
    again.beat(8500, "c", 0, 4)
    again.again(9000, 5, SHARES)
    assert phases(again)[1:] == [("epochs", 5000, 9000, 12), ("classic", 9000, None, 4)]


def test_a_leave_without_an_answer_counts() -> None:
    talk = back(8000)
    talk.messages[-1] = unanswered(talk.messages[-1])
    talk.again(9000, 3, SHARES)
    assert phases(talk)[2][:2] == ("classic", 8000.000001)


def test_each_phase_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    talk = back(8000)
    talk.again(9000, 3, SHARES)
    with caplog.at_level(logging.DEBUG, "kafkascope.reports.groups.migration"):
        by_protocol(talk.log())
    assert [record.getMessage() for record in caplog.records if "phase" in record.getMessage()] == [
        "group g: a phase of kind classic, packets 2 to 14",
        "group g: a phase of kind epochs, packets 16 to 32",
        "group g: a phase of kind classic, packets 34 to 44",
    ]


def test_a_classic_generation_that_nobody_got_to_is_the_first_epoch() -> None:
    talk = Epochs()
    talk.formed(0, 1, {"a~1": {"t": [0]}})
    talk.leave(5000, "a~1")
    talk.beat(9000, "c", 0, 2, given=[0])
    assert told(talk) == [("classic", None, 1, "member_joined"), ("consumer", 1, 2, "member_joined")]


def test_what_the_last_member_with_epochs_did_raised_the_first_generation() -> None:
    talk = back(8000)
    talk.again(9000, 3, SHARES)
    talk.heartbeat(9500, "b~1", 3)
    assert told(talk) == [
        ("classic", None, 1, "member_joined"),
        ("consumer", 1, 2, "member_joined"),
        ("classic", 2, 3, "member_left"),
    ]
    third = of(by_protocol(talk.log()))[3]
    assert (third.trigger_member, third.trigger_client_id, third.certainty) == ("c", "c", Certainty.CERTAIN)
    assert said(third) == [
        ("member_left", 1.0, 8000, "c left: heartbeat with epoch -1"),
        ("member_left", 0.9, 8000.000001, "no member with epochs was left: the group became a classic one"),
    ]
    assert {each.member_id: each.assignment_before for each in third.members} == {
        "a~1": ["t-0", "t-1"],
        "b~1": ["t-2"],
    }
    assert [ms(each) for each in (third.started, third.stable, third.recovered)] == [8000, 9020, 9021]
    assert (third.duration_ms, third.cost_ms) == (1020.0, 1021.0)


def fallen_silent(last_word: float, until: float, others: tuple[str, ...] = ()) -> Epochs:
    """c, with a heartbeat interval of a second, is heard last at one time, and the group is classic at another."""
    talk = mixed()
    for place, member in enumerate(others):
        talk.beat(7200 + place, member, 0, 3 + place)
    talk.beat(last_word, "c", 2)
    for at in range(8000, int(until), 1000):
        talk.heartbeat(at, "a~1", 2)
        talk.heartbeat(at + 1, "b~1", 2)
    talk.again(until, 3 + len(others), SHARES)
    return talk


@pytest.mark.parametrize(
    ("until", "trigger"), [(17_000, "session_timeout"), (12_500, "session_timeout"), (12_499, None)]
)
def test_the_last_member_with_epochs_was_taken_out_if_it_had_said_nothing(until: float, trigger: str | None) -> None:
    talk = fallen_silent(9_999, until)
    third = of(by_protocol(talk.log()))[3]
    if trigger is None:
        assert third.trigger != "session_timeout"
        return
    assert (third.trigger, third.trigger_member, third.trigger_client_id) == (trigger, "c", "c")
    assert (third.certainty, third.from_generation) == (Certainty.LIKELY, 2)
    assert said(third) == [
        ("session_timeout", 0.8, 9_999, "c, the last member with epochs, had said nothing more"),
        ("session_timeout", 0.9, until, "no member with epochs was left: the group became a classic one"),
    ]
    assert {each[0] for each in rejected(third)} == {"member_rejoined"}
    assert (third.duration_ms, third.cost_ms) == (20.0, 21.0)


def test_of_two_members_with_epochs_none_is_the_last() -> None:
    talk = fallen_silent(9_999, 20_000, others=("d",))
    assert of(by_protocol(talk.log()))[4].trigger != "session_timeout"


def test_a_generation_that_is_not_the_next_one_says_nothing_of_the_last_member_with_epochs() -> None:
    talk = mixed()
    for at in range(8000, 20_000, 1000):
        talk.heartbeat(at, "a~1", 2)
        talk.heartbeat(at + 1, "b~1", 2)
    talk.again(20_000, 5, SHARES)
    fifth = of(by_protocol(talk.log()))[5]
    assert fifth.trigger != "session_timeout"
    assert "no member with epochs" not in " ".join(each.text for each in fifth.evidence)
