"""Each limit of a reading, on either side. Times are milliseconds."""

from __future__ import annotations

import pytest

from kafkascope.reports.groups.classic.history import classic
from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.group_logs import MS, START, Conversation

SHARES = {"a~1": {"t": [0, 1]}, "b~1": {"t": [2, 3]}}
LAST_WORD = 9_000
SESSION_ENDS = LAST_WORD + 10_000


def second_generation(said: Conversation) -> Rebalance:
    (found,) = [each for each in classic(said.log()).rebalances if each.to_generation == 2]
    return found


def two_members() -> Conversation:
    said = Conversation()
    said.formed(0, 1, SHARES)
    for at in (6_000, LAST_WORD):
        said.heartbeat(at, "a~1", 1)
        said.heartbeat(at, "b~1", 1)
    return said


@pytest.mark.parametrize(("later", "trigger"), [(49, "member_left"), (51, "unknown")])
def test_what_is_said_too_long_before_a_heartbeat_that_is_still_good_began_nothing(later: int, trigger: str) -> None:
    said = two_members()
    said.leave(12_000, "b~1", "the consumer is being closed")
    said.heartbeat(12_000 + later, "a~1", 1)
    said.again(12_480, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert found.trigger == trigger
    assert any("a heartbeat was still good" in each.text for each in found.evidence) == (trigger == "unknown")


@pytest.mark.parametrize(("early", "certainty"), [(1_900, Certainty.LIKELY), (2_100, Certainty.GUESSED)])
def test_a_session_that_ends_too_long_after_others_were_told_of_a_rebalance_is_a_guess(
    early: int, certainty: str
) -> None:
    said = two_members()
    told = SESSION_ENDS - early
    said.heartbeat(told - 3_000, "a~1", 1)
    said.heartbeat(told, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(told + 10, "a~1", generation=2, leader="a~1", members={"a~1": {}}, took=early)
    said.synced(SESSION_ENDS + 20, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("session_timeout", "b", certainty)


@pytest.mark.parametrize(("late", "certainty"), [(1_900, Certainty.LIKELY), (2_100, Certainty.GUESSED)])
def test_a_session_that_ended_too_long_before_a_heartbeat_that_is_still_good_is_a_guess(
    late: int, certainty: str
) -> None:
    said = two_members()
    said.heartbeat(SESSION_ENDS + late, "a~1", 1)
    said.again(SESSION_ENDS + late + 1_000, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("session_timeout", "b", certainty)
    assert found.started is not None
    assert found.started >= START + (SESSION_ENDS + late) * MS


@pytest.mark.parametrize(("part", "trigger"), [(0.91, "rebalance_timeout"), (0.89, "member_left")])
def test_a_member_is_given_up_when_a_rebalance_timeout_is_nearly_over(part: float, trigger: str) -> None:
    took = int(60_000 * part)
    said = Conversation()
    said.formed(0, 1, SHARES)
    said.join(6_000, "c~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(6_005, "c~1", generation=2, leader="a~1", took=took)
    said.heartbeat(6_500, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(6_510, "a~1", generation=2, leader="a~1", members={"a~1": {}, "c~1": {}}, took=took - 505)
    for at in range(7_000, 6_000 + took, 3_000):
        said.heartbeat(at, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.synced(6_055 + took, 2, {"a~1": {"t": [0]}, "c~1": {"t": [1]}})
    found = second_generation(said)
    assert trigger in {
        each.trigger for each in found.evidence if "b is not in" in each.text or "b did not" in each.text
    }
