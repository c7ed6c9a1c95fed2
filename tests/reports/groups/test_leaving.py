"""Why members leave, fall silent and are fenced: alike in classic groups, in those with epochs, and in mixed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkascope.reports.groups.history import GroupHistory
from kafkascope.reports.groups.leaving import FENCED, NOT_HERE, by_heartbeats, by_session, refused_as
from kafkascope.reports.groups.messages import ConnectionEnd
from kafkascope.reports.groups.migration import by_protocol
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.classic.test_history import two_static_members
from tests.reports.groups.epochs.epoch_logs import Epochs, join_of, mixed
from tests.reports.groups.group_logs import MS, START, Conversation, hash_of, two_members

ELSEWHERE = {"client": "admin", "host": "elsewhere"}


def in_classic_group(reason: str | None, sender: dict[str, Any]) -> Conversation:
    """b~1 leaves generation 1, and a~1 gets all in the next."""
    talk = two_members()
    talk.leave(12_000, "b~1", reason, **sender)
    talk.again(12_500, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    return talk


def in_group_with_epochs(reason: str | None, sender: dict[str, Any]) -> Conversation:
    """b~1 leaves epoch 2, and c, which sends heartbeats with epochs, gets what it had."""
    talk = mixed()
    talk.leave(8000, "b~1", reason, **sender)
    talk.beat(9000, "c", 2, 3, given=[2, 3])
    return talk


@pytest.mark.parametrize("group", [in_classic_group, in_group_with_epochs])
@pytest.mark.parametrize(
    ("reason", "sender", "trigger", "event", "certainty"),
    [
        ("the consumer is being closed", {}, "member_left", "left", Certainty.CERTAIN),
        ("consumer poll timeout has expired.", {}, "poll_timeout", "left", Certainty.CERTAIN),
        ("Poll Timeout", {}, "poll_timeout", "left", Certainty.CERTAIN),
        ("the consumer unsubscribed from all topics", {}, "unsubscribed", "left", Certainty.CERTAIN),
        (None, {}, "member_left", "left", Certainty.CERTAIN),
        (None, {"client": "b-restore-consumer", "host": "host-of-b"}, "member_left", "left", Certainty.CERTAIN),
        ("consumer poll timeout has expired.", ELSEWHERE, "poll_timeout", "left", Certainty.CERTAIN),
        ("member was removed by an admin", ELSEWHERE, "removed_by_admin", "member_removed", Certainty.CERTAIN),
        (
            "member was removed by an admin: poll timeout",
            ELSEWHERE,
            "removed_by_admin",
            "member_removed",
            Certainty.CERTAIN,
        ),
        ("Removed by an admin", {}, "removed_by_admin", "member_removed", Certainty.CERTAIN),
        (None, {"client": "admin", "host": "host-of-b"}, "removed_by_admin", "member_removed", Certainty.LIKELY),
        (None, {"client": "b", "host": "elsewhere"}, "removed_by_admin", "member_removed", Certainty.LIKELY),
    ],
)
def test_each_reason_is_understood_alike_in_both_protocols(
    group: Callable[[str | None, dict[str, Any]], Conversation],
    reason: str | None,
    sender: dict[str, Any],
    trigger: str,
    event: str,
    certainty: str,
) -> None:
    history = by_protocol(group(reason, sender).log())
    last = history.rebalances[-1]
    assert (last.trigger, last.trigger_member, last.certainty) == (trigger, "b~1", certainty)
    assert [each.member_id for each in history.events if each.event == event] == ["b~1"]


def test_who_names_a_static_member_by_its_instance_id_alone_is_not_the_member() -> None:
    classic = two_static_members()
    classic.leave(6_000, "", instance="two", client="b", broker="10.0.0.2:9092")
    classic.again(7_000, 2, {"a~1": {"t": [0, 1]}})
    epochs = mixed()
    request = join_of("s~1") | {"groupInstanceId": "two"}
    answer = {"generationId": 3, "leader": "", "memberId": "s~1"}
    epochs.say(8_000, "JoinGroup", "s", request | {"memberId": ""}, answer)
    epochs.sync(8_020, "s~1", 3, {})
    epochs.leave(9_000, "", instance="two", client="s", broker="10.0.0.2:9092")
    epochs.beat(10_000, "c", 3, 4, given=[3])
    for talk, member in ((classic, "b~1"), (epochs, "s~1")):
        last = by_protocol(talk.log()).rebalances[-1]
        assert (last.trigger, last.trigger_member) == ("removed_by_admin", member)


# Groups in each protocol, with the member that something happens to, its number, and those of the others.
Group = Callable[[], tuple[Conversation, str, int, dict[str, int]]]


def classic() -> tuple[Conversation, str, int, dict[str, int]]:
    """A classic group."""
    return two_members(), "b~1", 1, {"a~1": 1}


def classic_among_epochs() -> tuple[Conversation, str, int, dict[str, int]]:
    """A member of the classic protocol in a group with epochs, which was a classic one before."""
    return mixed(), "b~1", 2, {"a~1": 2, "c": 2}


def with_epochs() -> tuple[Conversation, str, int, dict[str, int]]:
    """A member that sends its epoch."""
    talk = Epochs()
    talk.two()
    return talk, "b", 2, {"a": 2}


def ends_of(history: GroupHistory, member: str) -> list[tuple[str, int]]:
    kinds = ("left", "silence_begun", "connection_ended")
    return [(each.event, each.at) for each in history.events if each.member_id == member and each.event in kinds]


GROUPS = [classic, classic_among_epochs, with_epochs]


def heartbeat(talk: Conversation, at: float, member: str, number: int, error: str | None = None) -> None:
    if isinstance(talk, Epochs) and "~" not in member:
        talk.beat(at, member, number, error=error)
    else:
        talk.heartbeat(at, member, number, error)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(
    ("error", "event"),
    [*((e, "fenced") for e in sorted(FENCED)), *((e, "coordinator_unavailable") for e in sorted(NOT_HERE))],
)
def test_errors_say_alike_in_all_protocols_that_a_member_has_no_place_or_must_look_elsewhere(
    group: Group, error: str, event: str
) -> None:
    talk, member, number, _ = group()
    heartbeat(talk, 10_000, member, number, error)
    told = [each for each in by_protocol(talk.log()).events if each.at >= START + 10_000 * MS]
    assert [(each.event, each.member_id, each.detail) for each in told] == [(event, member, error)]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("leaves", [False, True])
def test_a_member_of_any_protocol_that_falls_silent_is_lost_unless_it_left(group: Group, leaves: bool) -> None:
    talk, member, _, others = group()
    client = member[0]
    heard = max(each.at for each in talk.messages if each.client_id == client and each.error is None)
    for at in range(10_000, 11_000 if leaves else 29_000, 3_000):
        for other, number in others.items():
            heartbeat(talk, at, other, number)
    if leaves and group is with_epochs:
        heartbeat(talk, 10_500, member, -1)
    elif leaves:
        talk.leave(10_500, member)
    connection = hash_of(f"{client}10.0.0.1:9092")
    closed = START + 10_600 * MS
    talk.ended[connection] = ConnectionEnd(connection, client, 1, "", "", START, closed, "rst", None, None)
    if group is classic:
        talk.again(11_000 if leaves else 29_000, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    else:
        assert isinstance(talk, Epochs)
        talk.beat(11_000 if leaves else 29_000, [*others][-1], 2, 3, given=[0, 1, 2, 3])
    history = by_protocol(talk.log())
    last = history.rebalances[-1]
    assert (last.trigger, last.trigger_member) == ("member_left" if leaves else "session_timeout", member)
    silent = [("silence_begun", heard), ("connection_ended", closed)]
    assert ends_of(history, member) == ([("left", START + 10_500 * MS)] if leaves else silent)


def test_a_member_that_is_not_heard_since_its_group_changed_its_protocol_is_told_of_once() -> None:
    talk = two_members()  # b was heard last at 9 s
    for at in range(12_000, 18_000, 3_000):
        talk.heartbeat(at, "a~1", 1)
    upgraded = Epochs()
    upgraded.messages = talk.messages
    upgraded.beat(17_000, "c", 0, 2, given=[])
    upgraded.beats(18_000, 40_000, "c", 2)
    connection = hash_of("b10.0.0.1:9092")
    upgraded.ended[connection] = ConnectionEnd(connection, "b", 1, "", "", START, START + 9_500 * MS, "rst", None, None)
    told = ends_of(by_protocol(upgraded.log()), "b~1")
    assert told == [("silence_begun", START + 9_000 * MS), ("connection_ended", START + 9_500 * MS)]


def test_other_errors_are_what_they_are_anyway() -> None:
    assert refused_as("INVALID_SESSION_TIMEOUT", EventKind.JOIN_REFUSED) == "join_refused"


@pytest.mark.parametrize("is_over", [True, False])
def test_a_silence_is_told_of_if_it_is_longer_than_is_allowed(is_over: bool) -> None:
    allowed = by_session(12_345)
    end = START + 12_345 * MS
    assert allowed.remark(START, end, is_over=is_over) is None
    told = "12.346 s; its session timeout is 12345 ms"
    assert allowed.remark(START, end + MS, is_over=is_over) == (told if is_over else f"at least {told}")


def test_of_three_heartbeats_one_may_be_late_and_one_lost() -> None:
    allowed = by_heartbeats(3_000, "heartbeats are due")
    assert (allowed.ns, allowed.why) == (7_500 * MS, "heartbeats are due")
