"""Why members of the classic protocol left, alike in a classic group and in one with epochs (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkascope.reports.groups.leaving import FENCED, NOT_HERE, refused_as
from kafkascope.reports.groups.migration import by_protocol
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.classic.test_history import two_members, two_static_members
from tests.reports.groups.epochs.test_history import join_of, mixed
from tests.reports.groups.group_logs import Conversation

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


@pytest.mark.parametrize("error", sorted(FENCED))
def test_errors_that_fence(error: str) -> None:
    assert refused_as(error, EventKind.JOIN_REFUSED) == "fenced"


@pytest.mark.parametrize("error", sorted(NOT_HERE))
def test_errors_that_send_to_another_coordinator(error: str) -> None:
    assert refused_as(error, EventKind.JOIN_REFUSED) == "coordinator_unavailable"
    assert refused_as("INVALID_SESSION_TIMEOUT", EventKind.JOIN_REFUSED) == "join_refused"
