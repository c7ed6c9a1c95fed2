"""Each limit of a reading, on either side. Times are milliseconds."""

from __future__ import annotations

import pytest

from kafkascope.reports.groups.classic.history import classic
from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.groups.messages import ConnectionEnd
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.group_logs import MS, START, Conversation, Members, hash_of

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


@pytest.mark.parametrize(("early", "trigger"), [(1_900, "session_timeout"), (2_100, "unknown")])
def test_a_session_that_ends_too_long_after_others_were_told_of_a_rebalance_began_nothing(
    early: int, trigger: str
) -> None:
    said = two_members()
    told = SESSION_ENDS - early
    said.heartbeat(told - 3_000, "a~1", 1)
    said.heartbeat(told, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(told + 10, "a~1", generation=2, leader="a~1", members={"a~1": {}}, took=early)
    said.synced(SESSION_ENDS + 20, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert found.trigger == trigger
    assert found.certainty == (Certainty.GUESSED if trigger == "unknown" else Certainty.LIKELY)
    assert any("b said nothing more" in each.text for each in found.evidence)


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


def expelled(said: Conversation, refused: float) -> Rebalance:
    """The coordinator moves; b does not find it until it is no member any more, and joins anew."""
    at = int(refused)
    for good in range(12_000, at, 3_000):
        said.heartbeat(good, "a~1", 1, broker="10.0.0.2:9092")
    said.heartbeat(refused - 1, "b~1", 1, "UNKNOWN_MEMBER_ID", broker="10.0.0.2:9092")
    said.join(at + 20, "b~2", new=True, error="MEMBER_ID_REQUIRED", broker="10.0.0.2:9092")
    said.join(at + 28, "b~2", generation=2, leader="a~1", took=900, broker="10.0.0.2:9092")
    said.heartbeat(at + 700, "a~1", 1, "REBALANCE_IN_PROGRESS", broker="10.0.0.2:9092")
    both: Members = {"a~1": {}, "b~2": {}}
    said.join(at + 710, "a~1", generation=2, leader="a~1", members=both, took=218, broker="10.0.0.2:9092")
    return second_generation(said)


def test_a_member_that_was_expelled_and_joins_anew_had_lost_its_session() -> None:
    found = expelled(two_members(), 26_000)  # the new coordinator began its session anew, at 16 s
    assert (found.trigger, found.trigger_member, found.certainty) == ("session_timeout", "b~1", Certainty.LIKELY)
    assert found.started is not None
    assert START + 24_000 * MS <= found.started <= START + 26_000 * MS
    assert [each.trigger for each in found.contributing] == ["member_joined"]


@pytest.mark.parametrize(("early", "trigger"), [(1_900, "session_timeout"), (2_100, "member_joined")])
def test_a_member_that_was_expelled_before_its_session_ended_was_taken_out_by_somebody(
    early: int, trigger: str
) -> None:
    found = expelled(two_members(), SESSION_ENDS - early)
    assert found.trigger == trigger
    assert found.certainty == Certainty.LIKELY  # what became of the old one is open
    assert any("somebody took it out" in each.text for each in found.evidence) == (trigger == "member_joined")


@pytest.mark.parametrize(("answered", "ends"), [(True, 21_000), (False, 19_000)])
def test_a_session_ends_by_the_last_word_that_the_broker_heard(answered: bool, ends: int) -> None:
    said = two_members()
    said.say(11_000, "Heartbeat", "b", {"memberId": "b~1", "generationId": 1}, {} if answered else None)
    said.heartbeat(18_500, "a~1", 1)
    cut_off = hash_of("b10.0.0.1:9092")
    said.ended[cut_off] = ConnectionEnd(
        cut_off, "host-of-b", 40_000, "10.0.0.1:9092", "b", None, START + 20_500 * MS, "rst", None, None
    )
    said.heartbeat(21_400, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(21_410, "a~1", generation=2, leader="a~1", members={"a~1": {}}, took=10)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("session_timeout", "b", Certainty.LIKELY)
    assert found.started == START + ends * MS


@pytest.mark.parametrize(("still_good", "ends"), [(19_040, 19_000), (19_060, 21_000)])
def test_a_word_that_was_not_answered_was_heard_if_the_group_goes_on_without_it(still_good: int, ends: int) -> None:
    said = two_members()
    said.say(11_000, "Heartbeat", "b", {"memberId": "b~1", "generationId": 1}, None)
    said.heartbeat(still_good, "a~1", 1)
    said.heartbeat(22_000, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(22_010, "a~1", generation=2, leader="a~1", members={"a~1": {}}, took=10)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id) == ("session_timeout", "b")
    assert found.started == START + max(ends, still_good) * MS


def without(said: Conversation, client: str) -> Conversation:
    said.messages = [message for message in said.messages if message.client_id != client]
    return said


def test_a_new_group_was_begun_by_who_leads_it_though_its_traffic_is_not_in_the_capture() -> None:
    said = Conversation()
    said.formed(0, 1, SHARES)
    (found,) = classic(without(said, "a").log()).rebalances
    assert (found.trigger, found.trigger_member, found.certainty) == ("member_joined", "a~1", Certainty.GUESSED)


def test_of_a_member_that_is_gone_without_a_word_nothing_is_guessed() -> None:
    said = two_members()
    said.leave(12_000, "b~1", "consumer poll timeout has expired.")
    said.again(12_480, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(without(said, "b"))
    assert (found.trigger, found.trigger_client_id) == ("unknown", None)
    assert found.evidence[0].text.startswith("somebody whose traffic is not in this capture began it")


@pytest.mark.parametrize(("in_sight", "certainty"), [(True, Certainty.CERTAIN), (False, Certainty.GUESSED)])
def test_what_members_do_together_another_one_may_have_done_first(in_sight: bool, certainty: str) -> None:
    said = two_members()
    why = "need to revoke partitions and re-join"
    both: Members = {"a~1": {}, "b~1": {}}
    said.join(12_000, "a~1", generation=2, leader="a~1", members=both, reason=why, took=500)
    said.heartbeat(12_300, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_310, "b~1", generation=2, leader="a~1", took=190)
    found = second_generation(said if in_sight else without(said, "b"))
    assert (found.trigger, found.trigger_client_id) == ("cooperative_followup", "a")
    assert found.certainty == certainty


def test_what_happened_before_others_formed_generations_unseen_began_none_of_a_later_one() -> None:
    said = two_members()
    said.leave(12_000, "b~1", "consumer poll timeout has expired.")
    said.join(16_000, "b~2", new=True, error="MEMBER_ID_REQUIRED")
    said.join(16_005, "b~2", generation=4, leader="a~1", took=900)
    found = {each.to_generation: each for each in classic(without(said, "a").log()).rebalances}
    assert (found[2].trigger, found[2].trigger_client_id) == ("poll_timeout", "b")
    assert found[3].trigger == "unknown"
    assert (found[4].trigger, found[4].trigger_member, found[4].certainty) == ("member_joined", "b~2", Certainty.LIKELY)


@pytest.mark.parametrize(
    ("apart_ms", "answered_first", "who", "certainty"),
    [
        (0.05, "b", "b", Certainty.LIKELY),  # at once: as they were answered
        (0.2, "b", "a", Certainty.GUESSED),
        (0.2, "a", "a", Certainty.LIKELY),
        (1.9, "b", "a", Certainty.GUESSED),
        (2.1, "b", "a", Certainty.LIKELY),  # the broker was there in between
    ],
)
def test_of_two_that_leave_within_two_milliseconds_answers_tell_who_was_first(
    apart_ms: float, answered_first: str, who: str, certainty: str
) -> None:
    said = two_members()
    answers = [said.leave(12_000, "a~1", took=5), said.leave(12_000 + apart_ms, "b~1", took=5)]
    if answered_first == "b":
        first, second = (message.response_packet for message in answers)
        answers[0].response_packet, answers[1].response_packet = second, first
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("member_left", who, certainty)


@pytest.mark.parametrize(("heard_before", "trigger"), [(True, "member_rejoined"), (False, "member_joined")])
def test_who_was_heard_before_a_generation_that_is_not_known_whole_was_a_member_already(
    heard_before: bool, trigger: str
) -> None:
    said = Conversation()
    if heard_before:
        said.heartbeat(0, "b~1", 4)
    said.heartbeat(100, "a~1", 4)
    said.join(1_000, "a~1", generation=5, leader="c~1", took=10)
    said.join(9_000, "b~1", generation=6, leader="c~1", took=100)
    said.heartbeat(9_050, "a~1", 5, "REBALANCE_IN_PROGRESS")
    said.join(9_060, "a~1", generation=6, leader="c~1", took=40)
    found = {each.to_generation: each for each in classic(said.log()).rebalances}
    assert (found[6].trigger, found[6].trigger_client_id) == (trigger, "b")


def test_a_session_ended_before_the_first_that_was_told_of_the_rebalance() -> None:
    shares = {"a~1": {"t": [0]}, "b~1": {"t": [1]}, "c~1": {"t": [2]}}
    said = Conversation()
    said.formed(0, 1, shares)
    for member in shares:
        said.heartbeat(LAST_WORD, member, 1)
    told = SESSION_ENDS - 500  # as far as one reckons: the broker's timer is a little ahead
    said.heartbeat(told, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.heartbeat(told + 900, "c~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(told + 950, "a~1", generation=2, leader="a~1", members={"a~1": {}, "c~1": {}}, took=50)
    said.join(told + 960, "c~1", generation=2, leader="a~1", took=40)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id) == ("session_timeout", "b")
    assert found.started == START + (told + 1) * MS
