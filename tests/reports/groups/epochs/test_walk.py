"""Which epochs there were and what raised each, by what members say: on either side of each rule, written by hand."""

from __future__ import annotations

from kafkascope.reports.groups.migration import by_protocol
from tests.reports.groups.epochs.epoch_logs import Epochs, epochs, told
from tests.reports.groups.group_logs import of


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
