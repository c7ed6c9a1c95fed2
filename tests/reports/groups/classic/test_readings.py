"""Each limit of a reading, on either side. Times are milliseconds."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.groups.classic.history import classic
from kafkascope.reports.groups.history import Contributing, Evidence, Rebalance
from kafkascope.reports.groups.messages import ConnectionEnd
from kafkascope.reports.groups.strengths import Strength
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.groups.group_logs import (
    LAST_WORD,
    MS,
    SESSION_ENDS,
    SHARES,
    START,
    Conversation,
    Members,
    changed,
    hash_of,
    subscription,
    two_members,
    without,
)

HERE, THERE = "10.0.0.1:9092", "10.0.0.2:9092"


def second_generation(said: Conversation) -> Rebalance:
    (found,) = [each for each in classic(said.log()).rebalances if each.to_generation == 2]
    return found


def test_a_commit_that_is_refused_as_its_generation_is_formed_is_no_word_of_the_next() -> None:
    said = Conversation()
    said.formed(0, 1, SHARES)
    early = {"memberId": "a~1", "generationIdOrMemberEpoch": 1}
    said.say(3_050, "OffsetCommit", "a", early, {}, error="REBALANCE_IN_PROGRESS")
    for at in range(6_000, 60_000, 3_000):
        said.heartbeat(at, "a~1", 1)
        said.heartbeat(at, "b~1", 1)
    said.leave(60_000, "b~1", "the consumer is being closed")
    said.again(60_500, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert (found.trigger, found.certainty) == ("member_left", Certainty.CERTAIN)
    assert found.started == START + 60_000 * MS


@pytest.mark.parametrize(("later", "trigger"), [(50, "member_left"), (50.5, "unknown")])
def test_what_is_said_too_long_before_a_heartbeat_that_is_still_good_began_nothing(later: float, trigger: str) -> None:
    said = two_members()
    said.leave(12_000, "b~1", "the consumer is being closed")
    said.heartbeat(12_000 + later, "a~1", 1)
    said.again(12_480, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert found.trigger == trigger
    assert any("a heartbeat was still good" in each.text for each in found.evidence) == (trigger == "unknown")


@pytest.mark.parametrize(("early", "trigger"), [(2_000, "session_timeout"), (2_000.5, "unknown")])
def test_a_session_that_ends_too_long_after_others_were_told_of_a_rebalance_began_nothing(
    early: float, trigger: str
) -> None:
    said = two_members()
    told = SESSION_ENDS - early
    said.heartbeat(told - 3_000, "a~1", 1)
    said.heartbeat(told - 1, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(told + 10, "a~1", generation=2, leader="a~1", members={"a~1": {}}, took=early)
    said.synced(SESSION_ENDS + 20, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert found.trigger == trigger
    assert found.certainty == (Certainty.GUESSED if trigger == "unknown" else Certainty.LIKELY)
    assert any("b said nothing more" in each.text for each in found.evidence)


def test_who_does_nothing_but_join_its_generation_again_is_lost_when_its_session_ends() -> None:
    said = two_members()
    for at in range(12_000, int(SESSION_ENDS), 500):
        said.join(at, "b~1", generation=1, leader="a~1")
        said.sync(at + 2, "b~1", 1, {"t": [2, 3]})
    said.heartbeat(SESSION_ENDS + 1, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.sync(SESSION_ENDS + 2, "b~1", 1, error="UNKNOWN_MEMBER_ID")
    said.again(SESSION_ENDS + 10, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("session_timeout", "b", Certainty.LIKELY)


@pytest.mark.parametrize(("late", "certainty"), [(2_000, Certainty.LIKELY), (2_000.5, Certainty.GUESSED)])
def test_a_session_that_ended_too_long_before_a_heartbeat_that_is_still_good_is_a_guess(
    late: float, certainty: str
) -> None:
    said = two_members()
    said.heartbeat(SESSION_ENDS + late, "a~1", 1)
    said.again(SESSION_ENDS + late + 1_000, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("session_timeout", "b", certainty)
    assert found.started is not None
    assert found.started == START + int((SESSION_ENDS + late) * MS)


@pytest.mark.parametrize(("took", "trigger"), [(54_000, "rebalance_timeout"), (53_999, "member_left")])
def test_a_member_is_given_up_when_a_rebalance_timeout_is_nearly_over(took: int, trigger: str) -> None:
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


@pytest.mark.parametrize(
    ("error", "answered_by", "begun"),
    [
        ("NOT_COORDINATOR", HERE, 22_001),
        ("COORDINATOR_LOAD_IN_PROGRESS", THERE, 22_001),
        (None, HERE, 21_000),  # no coordinator went away: the session ended before a heartbeat that was still good
    ],
)
def test_a_coordinator_that_takes_a_group_over_begins_all_sessions_anew(
    error: str | None, answered_by: str, begun: int
) -> None:
    said = two_members()
    said.heartbeat(12_000, "a~1", 1, error, broker=answered_by)
    here = THERE if error else HERE
    for at in (13_000, 15_000, 18_000, 21_000):
        said.heartbeat(at, "a~1", 1, broker=here)
    said.heartbeat(22_500, "a~1", 1, "REBALANCE_IN_PROGRESS", broker=here)
    said.join(22_510, "a~1", generation=2, leader="a~1", members={"a~1": {}}, took=10, broker=here)
    said.sync(22_530, "a~1", 2, {"t": [0]}, {"a~1": {"t": [0]}}, broker=here)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.started) == ("session_timeout", "b", START + begun * MS)
    assert any("began all sessions anew" in each.text for each in found.evidence) is bool(error)


def test_a_join_before_the_new_coordinator_can_have_ended_a_session_began_it() -> None:
    said = two_members()
    for at in (11_000, 12_000):
        said.heartbeat(at, "a~1", 1, "NOT_COORDINATOR", broker=THERE)
    for at in (13_000, 15_000, 18_000, 21_000):
        said.heartbeat(at, "a~1", 1, broker=THERE)
    said.join(21_900, "c~1", new=True, error="MEMBER_ID_REQUIRED", broker=THERE)
    both: Members = {"a~1": {}, "c~1": {}}
    said.join(21_910, "c~1", generation=2, leader="a~1", took=1_000, broker=THERE)
    said.heartbeat(22_500, "a~1", 1, "REBALANCE_IN_PROGRESS", broker=THERE)
    said.join(22_510, "a~1", generation=2, leader="a~1", members=both, took=400, broker=THERE)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.started) == ("member_joined", "c", START + 21_910 * MS)
    assert [each.trigger for each in found.contributing] == ["session_timeout"]


def test_a_session_begins_as_a_member_gets_its_assignment() -> None:
    said = Conversation()
    for member in SHARES:
        members: Members | None = {each: {} for each in SHARES} if member == "a~1" else None
        said.join(0, member, generation=1, leader="a~1", members=members, took=10)
    said.sync(20, "b~1", 1, SHARES["b~1"], took=8_000)  # what the leader takes; then nothing more comes of it
    said.sync(8_019, "a~1", 1, SHARES["a~1"], SHARES)
    said.heartbeat(17_990, "a~1", 1)
    said.heartbeat(18_025, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(18_030, "a~1", generation=2, leader="a~1", members={"a~1": {}}, took=10)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("session_timeout", "b", Certainty.LIKELY)
    assert found.started == START + 18_020 * MS


# The new coordinator has the group after the last answer of the old one, a millisecond after the last word.
@pytest.mark.parametrize(("early", "trigger"), [(1_999, "session_timeout"), (1_999.5, "member_joined")])
def test_a_member_that_was_expelled_before_its_session_ended_was_taken_out_by_somebody(
    early: float, trigger: str
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
    closed = about(found, "its connection ended (RST)")
    assert (closed.at, closed.trigger, closed.weight) == (START + 20_500 * MS, "session_timeout", Strength.UNCHANGED)


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
    gone = "b~1 is not in the new generation, and its traffic is not in this capture: it may have left, or have been"
    assert found.evidence[1].text == f"{gone} taken out"


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
        (0.1, "b", "b", Certainty.LIKELY),  # at once: as they were answered
        (0.105, "b", "a", Certainty.GUESSED),
        (0.105, "a", "a", Certainty.LIKELY),
        (2.0, "b", "a", Certainty.GUESSED),
        (2.05, "b", "a", Certainty.LIKELY),  # the broker was there in between
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


@pytest.mark.parametrize(
    ("heard_before", "trigger"),
    [
        ("as a member", "member_rejoined"),
        ("as it was given its id", "member_joined"),
        ("as it asked in vain", "member_rejoined"),
        ("as it asked in vain, and says that its id is new", "member_joined"),
        (None, "member_joined"),
    ],
)
def test_who_was_heard_before_a_generation_that_is_not_known_whole_was_a_member_already(
    heard_before: str | None, trigger: str
) -> None:
    said = Conversation()
    if heard_before == "as a member":
        said.heartbeat(0, "b~1", 4)
    elif heard_before == "as it was given its id":
        said.join(0, "b~1", new=True, error="MEMBER_ID_REQUIRED")
    elif heard_before is not None:
        said.join(0, "b~1")
    said.heartbeat(100, "a~1", 4)
    said.join(1_000, "a~1", generation=5, leader="c~1", took=10)
    reason = "rebalance failed: re-join with the given member-id" if heard_before and "says" in heard_before else None
    said.join(9_000, "b~1", generation=6, leader="c~1", reason=reason, took=100)
    said.heartbeat(9_050, "a~1", 5, "REBALANCE_IN_PROGRESS")
    said.join(9_060, "a~1", generation=6, leader="c~1", took=40)
    found = {each.to_generation: each for each in classic(said.log()).rebalances}
    assert (found[6].trigger, found[6].trigger_client_id) == (trigger, "b")


def test_who_joins_with_an_id_that_it_had_before_is_not_for_certain_a_new_member() -> None:
    """A coordinator refuses ids of those that it took out: the capture lacks something, whatever it seems to show."""
    said = Conversation()
    said.formed(0, 1, SHARES)
    said.join(20_000, "a~1", generation=2, leader="a~1", members={"a~1": {}}, took=10)
    said.synced(20_015, 2, {"a~1": {"t": [0, 1]}})
    said.join(30_000, "b~1", generation=3, leader="a~1", took=100)
    said.heartbeat(30_050, "a~1", 2, "REBALANCE_IN_PROGRESS")
    said.join(30_060, "a~1", generation=3, leader="a~1", members={"a~1": {}, "b~1": {}}, took=40)
    said.synced(30_105, 3, SHARES)
    found = {each.to_generation: each for each in classic(said.log()).rebalances}
    assert (found[3].trigger, found[3].trigger_client_id) == ("member_joined", "b")
    assert found[3].certainty != Certainty.CERTAIN


def both_joined() -> Conversation:
    """Two that had their ids before the capture began."""
    said = Conversation()
    said.join(0, "a~1", generation=1, members={"a~1": {}, "b~1": {}})
    said.join(0, "b~1", generation=1, leader="a~1")
    said.synced(10, 1, SHARES)
    return said


def test_who_comes_again_after_a_generation_without_it_that_is_known_whole_is_new() -> None:
    said = both_joined()
    said.leave(12_000, "b~1")
    said.again(12_480, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    said.join(20_000, "b~1", generation=3, leader="a~1", took=500)
    found = {each.to_generation: each for each in classic(said.log()).rebalances}
    assert (found[3].trigger, found[3].trigger_client_id) == ("member_joined", "b")


def test_a_session_timeout_is_that_of_the_last_join_group_whose_request_is_known() -> None:
    said = both_joined()
    said.again(12_000, 2, SHARES)
    said.messages = [
        changed(message, request_text=None, request_packet=None)
        if (message.client_id, message.api) == ("b", "JoinGroup") and message.at > START + 10_000 * MS
        else message
        for message in said.messages
    ]
    said.again(30_000, 3, {"a~1": {"t": [0, 1, 2, 3]}})
    found = {each.to_generation: each for each in classic(said.log()).rebalances}
    text = "b said nothing more: the broker drops it 10,000 ms (session timeout) after its last word"
    assert (found[3].trigger, about(found[3], "b said").text) == ("session_timeout", text)


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


THREE = {"a~1": {"t": [0]}, "b~1": {"t": [1]}, "c~1": {"t": [2]}}


def three_members() -> Conversation:
    said = Conversation()
    said.formed(0, 1, THREE)
    for at in (6_000, LAST_WORD):
        for member in THREE:
            said.heartbeat(at, member, 1)
    return said


def about(found: Rebalance, text: str) -> Evidence:
    """The one piece of evidence that has these words in it."""
    (evidence,) = [each for each in found.evidence if text in each.text]
    return evidence


def test_evidence_says_what_was_chosen_and_why_nothing_else_was() -> None:
    said = three_members()
    early = said.leave(10_000, "b~1")
    said.heartbeat(12_000, "a~1", 1)
    said.join(12_500, "d~1", new=True, error="MEMBER_ID_REQUIRED")
    chosen = said.join(12_505, "d~1", generation=2, leader="a~1", took=495)
    nobody = said.leave(12_550, "e~1")
    told = said.heartbeat(12_600, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.heartbeat(12_650, "c~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_700, "f~1", new=True, error="MEMBER_ID_REQUIRED")
    later = said.join(12_705, "f~1", generation=2, leader="a~1", took=295)
    said.join(12_710, "c~1", generation=2, leader="a~1", took=290)
    four: Members = {"a~1": {}, "c~1": {}, "d~1": {}, "f~1": {}}
    said.join(12_720, "a~1", generation=2, leader="a~1", members=four, took=280)
    found = second_generation(said)
    assert found.evidence == [
        Evidence("JoinGroup of d, a member that was not in the group", chosen.packet, chosen.at, 1, "member_joined"),
        Evidence(
            "LeaveGroup of b, without a reason; but a heartbeat was still good 2.0 s later",
            early.packet,
            early.at,
            0.97 / 4,
            "member_left",
            rejected=True,
        ),
        Evidence(
            "a is the first that is told of the rebalance (REBALANCE_IN_PROGRESS)",
            told.packet,
            told.answered,
            0.5,
            "member_joined",
        ),
        Evidence(
            "LeaveGroup of e~1, without a reason; but later",
            nobody.packet,
            nobody.at,
            0.2 / 2,
            "member_left",
            rejected=True,
        ),
        Evidence(
            "JoinGroup of f, a member that was not in the group; but later",
            later.packet,
            later.at,
            1 / 2,
            "member_joined",
            rejected=True,
        ),
    ]
    assert found.contributing == [
        Contributing("member_joined", "f", later.at, later.packet)
    ]  # e was not there to leave
    assert found.certainty == Certainty.CERTAIN


def test_the_first_that_is_told_of_a_rebalance_is_the_first_that_is_answered() -> None:
    said = three_members()
    said.leave(12_000, "c~1")
    said.heartbeat(12_590, "a~1", 1, "REBALANCE_IN_PROGRESS", took=110)
    told = said.heartbeat(12_600, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_720, "a~1", generation=2, leader="a~1", members={"a~1": {}, "b~1": {}}, took=280)
    said.join(12_721, "b~1", generation=2, leader="a~1", took=279)
    first = about(second_generation(said), "is the first that is told")
    assert (first.text.partition(" ")[0], first.packet, first.at) == ("b", told.packet, told.answered)


@pytest.mark.parametrize("comes", ["with an id", "without an id", "with the id that it was given"])
@pytest.mark.parametrize("generation", [1, 2, 5])
def test_who_joins_the_first_generation_of_a_capture_was_a_member_before_for_all_one_knows(
    comes: str, generation: int
) -> None:
    said = Conversation()
    if comes == "with the id that it was given":
        said.join(0, "b~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(5, "b~1", new=comes == "without an id", generation=generation, members={"b~1": {}})
    (found,) = classic(said.log()).rebalances
    expected: tuple[str, float, str]
    if generation == 1:
        expected = ("member_joined", Strength.SAID, Certainty.CERTAIN)
    elif comes == "with an id":
        expected = ("member_rejoined", Strength.UNCHANGED, Certainty.GUESSED)
        assert "whether it was a member before, the capture does not show" in found.evidence[0].text
    else:
        expected = ("member_joined", Strength.SAID, Certainty.LIKELY)
    assert (found.trigger, found.evidence[0].weight, found.certainty) == expected
    assert found.trigger_client_id == "b"


@pytest.mark.parametrize(
    ("comes", "weight"),
    [
        ("with an id", Strength.LEFT_OVER),
        ("without an id", Strength.SAID),
        ("with the id that it was given", Strength.SAID),
    ],
)
def test_who_joins_after_a_generation_that_is_not_known_whole_is_new_for_sure_if_it_asked_for_an_id(
    comes: str, weight: float
) -> None:
    said = Conversation()
    said.heartbeat(0, "a~1", 4)
    if comes == "with the id that it was given":
        said.join(1_000, "b~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(1_005, "b~1", new=comes == "without an id", generation=5, leader="a~1", took=500)
    said.join(1_405, "a~1", generation=5, leader="a~1", took=100)
    (found,) = classic(said.log()).rebalances
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("member_joined", "b", Certainty.LIKELY)
    assert found.evidence[0].weight == weight


@pytest.mark.parametrize(
    ("instance", "reason", "text"),
    [
        (None, None, "JoinGroup of c, a member that was not in the group"),
        ("i", None, "JoinGroup of c, a member with an instance id that nobody had"),
        (None, "disk is full", 'JoinGroup of c, a member that was not in the group; its reason: "disk is full"'),
        (
            None,
            "need to re-join with the given member-id: c~1",
            "JoinGroup of c, a member that was not in the group",
        ),
    ],
)
def test_what_is_said_of_a_new_member(instance: str | None, reason: str | None, text: str) -> None:
    said = two_members()
    said.join(12_000, "c~1", generation=2, leader="a~1", took=500, instance=instance, reason=reason)
    assert second_generation(said).evidence[0].text == text


@pytest.mark.parametrize(("member", "trigger"), [("a~1", "leader_rejoined"), ("b~1", "member_rejoined")])
def test_who_says_that_it_follows_others_began_nothing(member: str, trigger: str) -> None:
    said = two_members()
    leads: Members = {"a~1": {}, "b~1": {}}
    why = "group is already rebalancing"
    said.join(12_000, member, generation=2, leader="a~1", members=leads, reason=why, took=500)
    found = second_generation(said)
    assert (found.trigger, found.certainty) == ("unknown", Certainty.GUESSED)
    rejected = about(found, "already rebalancing")
    assert (rejected.trigger, rejected.weight) == (trigger, Strength.FOLLOWS / 2)


def test_at_another_coordinator_nobody_knows_of_the_rebalance_that_it_follows() -> None:
    said = two_members()
    leads: Members = {"a~1": {}, "b~1": {}}
    why, elsewhere = "rebalance failed due to DisconnectException", "10.0.0.2:9092"
    said.join(12_000, "a~1", generation=2, leader="a~1", members=leads, reason=why, took=500, broker=elsewhere)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("leader_rejoined", "a", Certainty.LIKELY)
    assert found.evidence[0].text.startswith(
        f'JoinGroup of a, a member already, with the reason "{why}": the leader came'
    )


def test_what_a_leader_wants_that_comes_again_is_not_known_where_its_request_is_cut() -> None:
    said = two_members()
    leads: Members = {"a~1": {}, "b~1": {}}
    cut = said.join(12_000, "a~1", generation=2, leader="a~1", members=leads, took=500)
    said.messages[-1] = changed(cut, request_text='{"groupId": "g", "memberId": "a~1"}')
    found = second_generation(said)
    assert (found.trigger, found.certainty) == ("unknown", Certainty.GUESSED)
    assert any("what it told then is missing" in each.text for each in found.evidence)


def given(said: Conversation, of: str, instead: str) -> Conversation:
    """The same, with something else in the assignments that the members were sent."""
    said.messages = [
        changed(
            message,
            request_text=(message.request_text or "").replace(of, instead),
            response_text=(message.response_text or "").replace(of, instead),
        )
        if message.api == "SyncGroup"
        else message
        for message in said.messages
    ]
    return said


@pytest.mark.parametrize(("late_ms", "trigger"), [(2_000, "streams_followup"), (2_001, "leader_rejoined")])
def test_streams_comes_again_when_its_assignment_told_it_to(late_ms: int, trigger: str) -> None:
    due = START // MS + 12_000 + late_ms
    said = given(two_members(), '"userData": null', f'"userData": {{"nextRebalanceMs": {due}}}')
    said.join(12_000, "a~1", generation=2, members={"a~1": {}, "b~1": {}}, took=500)
    said.join(12_400, "b~1", generation=2, leader="a~1", took=100)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id) == (trigger, "a")


@pytest.mark.parametrize(
    ("had", "reason", "trigger"),
    [
        ([2, 3], None, "member_rejoined"),
        ([2], None, "member_rejoined"),
        ([2, 3, 4], None, "cooperative_followup"),
        ([2, 3, 4], "disk is full", "cooperative_followup"),  # what fits is not doubted for words
        ([2, 3], "disk is full", "rebalance_enforced"),
    ],
)
def test_a_cooperative_member_comes_again_if_its_assignment_took_something_away(
    had: list[int], reason: str | None, trigger: str
) -> None:
    said = Conversation()
    said.join(0, "a~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(5, "a~1", generation=1, members={"a~1": {}, "b~1": {}}, took=3000)
    said.join(10, "b~1", generation=1, leader="a~1", owned={"t": had}, took=2990)
    said.synced(3_100, 1, SHARES)
    said.join(12_000, "b~1", generation=2, leader="a~1", owned={"t": had}, reason=reason, took=500)
    said.again(12_480, 2, {"a~1": {"t": [0, 1]}})
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id) == (trigger, "b")
    if trigger == "cooperative_followup":
        text = "JoinGroup of b: its last assignment took t 4 away, which others may have now"
        assert (found.evidence[0].text, found.evidence[0].weight) == (text, Strength.FITS)


@pytest.mark.parametrize(
    ("gives", "trigger"),
    [
        ({"a~1": {"t": [0, 1, 4]}, "b~1": {"t": [2, 3]}}, "topic_partitions_changed"),
        ({"a~1": {"t": [2, 3]}, "b~1": {"t": [0, 1]}}, "leader_rejoined"),  # the same ones
        (None, "leader_rejoined"),  # not in the capture
    ],
)
def test_a_leader_that_comes_again_saw_topics_change_if_it_gives_out_other_partitions(
    gives: dict[str, dict[str, list[int]]] | None, trigger: str
) -> None:
    said = two_members()
    said.join(12_000, "a~1", generation=2, members={"a~1": {}, "b~1": {}}, took=500)
    said.heartbeat(12_400, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_410, "b~1", generation=2, leader="a~1", took=90)
    if gives is not None:
        said.synced(12_520, 2, gives)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == (trigger, "a", Certainty.LIKELY)


def workers(said: Conversation, assignments: dict[str, dict[str, Any]], told: dict[str, Any], at: int) -> Rebalance:
    """Connect's workers a, which leads, and b get these assignments at 3 s; then one joins, and tells of itself."""
    both = {each: {"metadata": worker_metadata()} for each in ("a~1", "b~1")}
    answer = {"generationId": 1, "protocolName": "sessioned", "leader": "a~1", "protocolType": "connect"}
    for member in both:
        joins = {"memberId": member, "sessionTimeoutMs": 10_000, "protocols": [worker_metadata()]}
        listed = [{"memberId": each} | what for each, what in both.items()] if member == "a~1" else []
        said.say(0, "JoinGroup", member[0], joins, answer | {"memberId": member, "members": listed}, took=3_000)
    for member, assignment in assignments.items():
        syncs = {"memberId": member, "generationId": 1, "assignments": []}
        said.say(3_010, "SyncGroup", member[0], syncs, {"assignment": assignment})
    for beat in range(6_000, at, 3_000):
        said.heartbeat(beat, "a~1", 1)
        said.heartbeat(beat, "b~1", 1)
    member = told.pop("member")
    protocol = {"name": "sessioned", "metadata": worker_metadata(**told)}
    again = {"memberId": member, "sessionTimeoutMs": 10_000, "protocols": [protocol]}
    said.say(
        at, "JoinGroup", member[0], again, answer | {"generationId": 2, "memberId": member, "members": []}, took=500
    )
    return second_generation(said)


def worker_metadata(offset: int = 5, allocation: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"_definition": "ConnectMetadata", "_version": 2, "configOffset": offset, "allocation": allocation}


def worker_assignment(**more: Any) -> dict[str, Any]:
    assignment = {"_definition": "ConnectAssignment", "_version": 2, "configOffset": 5, "assignment": [], "revoked": []}
    return assignment | {"scheduledDelay": 0} | more


SINK = [{"connector": "sink", "tasks": [0]}]


@pytest.mark.parametrize(
    ("of_a", "of_b", "told", "at", "trigger", "weight", "text"),
    [
        (
            {},
            {"revoked": SINK},
            {"member": "b~1"},
            12_000,
            "cooperative_followup",
            Strength.CHANGED,
            "work that the last assignment took away is to be given out",
        ),
        (
            {"revoked": SINK},
            {},
            {"member": "b~1"},
            12_000,
            "cooperative_followup",
            Strength.CHANGED,
            "work that the last assignment took away is to be given out",
        ),
        (
            None,
            None,
            {"member": "b~1", "allocation": worker_assignment(revoked=SINK)},
            12_000,
            "cooperative_followup",
            Strength.CHANGED,
            "work that the last assignment took away is to be given out",
        ),
        (
            None,
            None,
            {"member": "b~1", "allocation": worker_assignment()},
            12_000,
            "member_rejoined",
            Strength.VAGUE,
            "the worker came again, with nothing changed that the wire shows",
        ),
        (
            None,
            None,
            {"member": "b~1", "allocation": worker_assignment(configOffset=4)},
            12_000,
            "connect_config_changed",
            Strength.CHANGED,
            "it has read the configuration up to offset 5, the last assignment was made at 4",
        ),
        (
            {"scheduledDelay": 10_000},
            {},
            {"member": "b~1"},
            12_000,
            "scheduled_delay",
            Strength.CHANGED,
            "9000 ms after an assignment that put things off for 10000 ms",
        ),
        (
            {"scheduledDelay": 10_001},
            {},
            {"member": "b~1"},
            12_000,
            "member_rejoined",
            Strength.VAGUE,
            "the worker came again, with nothing changed that the wire shows",
        ),
        (
            {},
            None,
            {"member": "b~1", "offset": 6},
            12_000,
            "member_rejoined",
            Strength.NOTHING,
            "what the worker was given last is not in the capture",
        ),
        (
            {},
            {},
            {"member": "b~1", "offset": 6},
            12_000,
            "connect_config_changed",
            Strength.CHANGED,
            "it has read the configuration up to offset 6, the last assignment was made at 5",
        ),
        (
            {},
            {},
            {"member": "b~1", "offset": -1},
            12_000,
            "member_metadata_changed",
            Strength.CHANGED,
            "it has read the configuration up to offset -1 alone, the last assignment was made at 5",
        ),
        (
            {},
            {},
            {"member": "a~1", "offset": 5},
            12_000,
            "leader_rejoined",
            Strength.WITHOUT_CHANGE,
            "the leading worker came again, with nothing changed that the wire shows",
        ),
    ],
)
def test_why_a_worker_of_connect_came_again(
    of_a: dict[str, Any] | None,
    of_b: dict[str, Any] | None,
    told: dict[str, Any],
    at: int,
    trigger: str,
    weight: float,
    text: str,
) -> None:
    of_each = {"a~1": of_a, "b~1": of_b}
    assignments = {each: worker_assignment(**more) for each, more in of_each.items() if more is not None}
    found = workers(Conversation(), assignments, dict(told), at)
    reading = about(found, text)
    assert (reading.trigger, reading.weight) == (trigger, weight if found.trigger == trigger else weight / 2)
    assert found.protocol == "connect"


def test_of_leaves_between_two_generations_those_before_anybody_joined_made_the_one_that_nobody_named() -> None:
    said = three_members()
    said.leave(12_000, "b~1", "the consumer is being closed")
    said.leave(12_300, "c~1", "the consumer is being closed")
    said.join(16_000, "b~2", new=True, error="MEMBER_ID_REQUIRED")
    joined = said.join(16_005, "b~2", generation=3, leader="a~1", took=900)
    left = said.leave(16_100, "d~1")
    found = {each.to_generation: each for each in classic(without(said, "a").log()).rebalances}
    assert [(each.trigger, each.client_id) for each in found[2].contributing] == [("member_left", "c")]
    assert (found[2].trigger, found[2].trigger_client_id) == ("member_left", "b")
    assert (found[3].trigger, found[3].trigger_client_id) == ("member_joined", "b")
    assert [each.packet for each in found[3].evidence] == [joined.packet, left.packet]


@pytest.mark.parametrize(
    ("sender", "host", "certainty"),
    [
        ("admin", "elsewhere", Certainty.CERTAIN),
        ("b", "elsewhere", Certainty.LIKELY),  # it may have moved
        ("admin", "host-of-b", Certainty.LIKELY),
        (None, "elsewhere", Certainty.CERTAIN),
    ],
)
@pytest.mark.parametrize("reason", [None, "too slow"])
def test_who_takes_out_a_member_is_another_client_elsewhere(
    sender: str | None, host: str, certainty: str, reason: str | None
) -> None:
    said = two_members()
    said.leave(12_000, "b~1", reason, client="admin", host=host, broker="10.0.0.2:9092").client_id = sender
    said.again(12_480, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("removed_by_admin", "b", certainty)
    text = f"LeaveGroup for b came from {sender or 'a client without a name'} at {host}, not from the member"
    assert found.evidence[0].text == text + (', with the reason "too slow"' if reason else "")


def nameless(said: Conversation, client: str) -> Conversation:
    """The same, with a client that does not say its name."""
    for message in said.messages:
        if message.client_id == client:
            message.client_id = None
    return said


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (None, "LeaveGroup of b~1, without a reason"),
        ("the consumer is being closed", 'LeaveGroup of b~1 with the reason "the consumer is being closed"'),
    ],
)
def test_a_member_without_a_client_id_is_called_by_its_member_id(reason: str | None, text: str) -> None:
    said = three_members()
    said.leave(12_000, "b~1", reason)
    said.heartbeat(12_300, "c~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_400, "a~1", generation=2, leader="a~1", members={"a~1": {}, "c~1": {}}, took=100)
    said.join(12_410, "c~1", generation=2, leader="a~1", took=90)
    found = second_generation(nameless(nameless(said, "b"), "c"))
    assert (found.evidence[0].text, found.trigger_client_id) == (text, None)
    assert found.evidence[1].text == "c~1 is the first that is told of the rebalance (REBALANCE_IN_PROGRESS)"


def test_of_a_leave_group_that_the_capture_cut_the_reason_is_not_known() -> None:
    said = two_members()
    said.leave(12_000, "b~1", "consumer poll timeout has expired.")
    left = next(message for message in said.messages if message.api == "LeaveGroup")
    left.request_text = "{}"
    said.again(12_480, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("member_left", "b", Certainty.GUESSED)
    assert found.evidence[0].text == "LeaveGroup of b, of which the capture lacks the reason"


def test_a_static_member_is_not_called_by_its_instance_id() -> None:
    said = Conversation()
    leaves, told = (f"{each}-11111111-2222-3333-4444-555555555555" for each in ("one", "two"))
    listed: Members = {"a~1": {}, leaves: {"groupInstanceId": "one"}, told: {"groupInstanceId": "two"}}
    said.join(0, "a~1", new=True, generation=1, members=listed, took=3_000)
    said.leave(6_000, leaves, client="x").client_id = None
    said.heartbeat(6_100, told, 1, "REBALANCE_IN_PROGRESS", client="y").client_id = None
    said.again(6_500, 2, {"a~1": {"t": [0]}})
    found = second_generation(said)
    assert found.evidence[0].text == f"LeaveGroup of {leaves}, without a reason"
    assert about(found, "is the first").text.startswith(f"{told} is the first that is told")


@pytest.mark.parametrize(
    ("topics", "broker", "is_doubted"),
    [
        (("t",), "10.0.0.1:9092", True),
        (("u",), "10.0.0.1:9092", False),
        (("t",), "10.0.0.2:9092", False),  # on another connection
        (None, "10.0.0.1:9092", False),  # never
    ],
)
def test_who_left_without_a_reason_may_not_have_polled_in_time_if_it_comes_back_as_it_was(
    topics: tuple[str, ...] | None, broker: str, is_doubted: bool
) -> None:
    said = two_members()
    left = said.leave(12_000, "b~1")
    said.again(12_480, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    if topics is not None:
        said.join(15_000, "b~2", new=True, error="MEMBER_ID_REQUIRED", topics=topics, broker=broker)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("member_left", "b", Certainty.CERTAIN)
    doubts = [each for each in found.evidence if each.trigger == "poll_timeout"]
    told = [(each.packet, each.at, each.weight, each.rejected) for each in doubts]
    assert told == ([(left.packet, left.at, Strength.VAGUE, True)] if is_doubted else [])
    assert found.evidence[1 : 1 + len(doubts)] == doubts  # right behind what it doubts


@pytest.mark.parametrize(
    ("good", "told", "started"),
    [
        (SESSION_ENDS + 50, SESSION_ENDS + 500, SESSION_ENDS + 50),
        (SESSION_ENDS + 50.5, SESSION_ENDS + 500, None),
        (SESSION_ENDS - 3_000, SESSION_ENDS + 500, SESSION_ENDS),
        (SESSION_ENDS - 3_000, SESSION_ENDS - 2_000, SESSION_ENDS - 2_000),
        (SESSION_ENDS - 3_000, SESSION_ENDS - 2_000.5, None),
    ],
)
def test_whose_session_ended_is_told_where_not_all_members_are_known(
    good: float, told: float, started: float | None
) -> None:
    said = three_members()
    said.heartbeat(good, "b~1", 1)
    said.heartbeat(told - 1, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(told + 10, "b~1", generation=2, leader="a~1", took=500)
    found = second_generation(without(said, "a"))
    if started is None:
        assert (found.trigger, found.evidence[0].trigger) == ("unknown", "unknown")
        return
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("session_timeout", "c", Certainty.LIKELY)
    assert found.started == START + int(started * MS)
    assert found.evidence[0].text == "c said nothing more, and its session of 10000 ms ran out"


@pytest.mark.parametrize(("formed", "lost"), [(SESSION_ENDS + 4, True), (SESSION_ENDS - 2_000, False)])
def test_a_session_that_ends_in_a_rebalance_is_told_where_not_all_members_are_known(formed: float, lost: bool) -> None:
    said = three_members()
    begun = SESSION_ENDS - 3_000
    said.join(begun, "d~1", generation=2, leader="a~1", took=formed - begun)
    said.heartbeat(begun + 500, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(begun + 510, "b~1", generation=2, leader="a~1", took=formed - begun - 510)
    found = second_generation(without(said, "a"))
    assert (found.trigger, found.trigger_client_id, found.started) == ("member_joined", "d", START + int(begun * MS))
    told = [(one.trigger, one.client_id, one.at) for one in found.contributing]
    assert told == [("session_timeout", "c", START + int(SESSION_ENDS * MS))] * lost


def test_the_session_of_who_seeks_its_coordinator_does_not_end_by_its_silence() -> None:
    said = three_members()
    said.heartbeat(SESSION_ENDS - 1_000, "c~1", 1, "COORDINATOR_NOT_AVAILABLE")
    said.heartbeat(SESSION_ENDS + 50, "b~1", 1)
    said.heartbeat(SESSION_ENDS + 499, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(SESSION_ENDS + 510, "b~1", generation=2, leader="a~1", took=500)
    assert second_generation(without(said, "a")).trigger == "unknown"


def test_who_is_heard_in_the_next_generation_did_not_lose_its_session() -> None:
    said = three_members()
    told = SESSION_ENDS + 500
    said.heartbeat(told - 1, "b~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(told + 10, "b~1", generation=2, leader="a~1", took=500)
    said.heartbeat(told + 2_000, "c~1", 2)
    assert second_generation(without(said, "a")).trigger == "unknown"


@pytest.mark.parametrize(("leader", "name"), [("a~1", "its leader"), ("a-11111111-2222-3333-4444-555555555555", "a")])
def test_who_leads_a_new_group_began_it_whoever_it_is(leader: str, name: str) -> None:
    said = Conversation()
    said.join(10, "b~1", generation=1, leader=leader, took=2990)
    (found,) = classic(said.log()).rebalances
    assert (found.trigger, found.trigger_member, found.certainty) == ("member_joined", leader, Certainty.GUESSED)
    assert found.evidence[0].text == f"a group begins with a member that joins; {name} was the first, for it leads"
    assert found.started == START + 10 * MS


@pytest.mark.parametrize(
    ("had", "took"), [([2, 3], None), ([2], None), ([2, 3, 4], "t 4"), ([4, 5], "t 4-5"), ([], None)]
)
def test_who_had_to_give_something_up_and_is_out_of_sight_may_have_joined_again(
    had: list[int], took: str | None
) -> None:
    said = Conversation()
    owned: Members = {"a~1": {}, "b~1": {"metadata": subscription(("t",), {"t": had}, None)}}
    said.join(5, "a~1", generation=1, members=owned, took=3000)
    said.synced(3_100, 1, SHARES)
    said.heartbeat(12_000, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_010, "a~1", generation=2, members={"a~1": {}, "b~1": {}}, took=500)
    found = second_generation(without(said, "b"))
    assert found.certainty == Certainty.GUESSED
    if took is None:
        assert (found.trigger, len(found.evidence)) == ("unknown", 1)
        return
    assert (found.trigger, found.trigger_member) == ("cooperative_followup", "b~1")
    text = f"the last assignment took {took} away from b~1, which joins again when it has let go"
    assert (found.evidence[0].text, found.evidence[0].weight) == (text, Strength.UNSEEN_REJOIN)


def without_requests(said: Conversation, client: str, api: str) -> Conversation:
    """The same, of which the capture lacks some requests."""
    said.messages = [
        changed(message, request_text=None, request_packet=None)
        if (message.client_id, message.api) == (client, api)
        else message
        for message in said.messages
    ]
    return said


@pytest.mark.parametrize(
    ("last_word", "is_known", "trigger"),
    [
        (13_005, True, "session_timeout"),  # both end at once
        (13_005.5, True, "sync_timeout"),
        (4_000, False, "sync_timeout"),  # whose session timeout is not in the capture
    ],
)
def test_who_does_not_ask_for_its_assignment_is_dropped_for_that_unless_its_session_ends_before(
    last_word: float, is_known: bool, trigger: str
) -> None:
    said = Conversation()
    said.join(5, "a~1", generation=1, members={"a~1": {}, "b~1": {}}, took=3000, rebalance=20_000)
    said.join(6, "b~1", generation=1, leader="a~1", took=2999, rebalance=20_000)
    said.sync(3_100, "a~1", 1, {"t": [0]}, {"a~1": {"t": [0]}, "b~1": {"t": [1]}})
    for at in range(4_000, 23_000, 3_000):
        said.heartbeat(at, "a~1", 1)
    said.heartbeat(last_word, "b~1", 1)
    said.again(25_000, 2, {"a~1": {"t": [0, 1]}})
    found = second_generation(said if is_known else without_requests(said, "b", "JoinGroup"))
    assert (found.trigger, found.trigger_client_id, found.certainty) == (trigger, "b", Certainty.LIKELY)
    assert found.started == START + 23_005 * MS


def test_a_leader_is_dropped_that_does_not_send_the_assignment() -> None:
    said = Conversation()
    said.join(5, "b~1", generation=1, members={"a~1": {}, "b~1": {}}, took=3000, rebalance=20_000, session=45_000)
    said.join(6, "a~1", generation=1, leader="b~1", took=2999, rebalance=20_000)
    for at in range(4_000, 23_000, 3_000):
        said.heartbeat(at, "a~1", 1)
    said.again(25_000, 2, {"a~1": {"t": [0, 1]}})
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id) == ("sync_timeout", "b")
    assert any("never sent the assignment, as the leader has to, within 20000 ms" in e.text for e in found.evidence)


@pytest.mark.parametrize(
    ("good", "told", "trigger"),
    [
        (20_000, 21_005, "sync_timeout"),
        (20_000, 21_004.5, "member_left"),
        (25_005, 25_500, "sync_timeout"),
        (25_005.5, 25_500, "member_left"),
    ],
)
def test_the_time_to_ask_for_an_assignment_ends_near_when_others_hear_of_the_rebalance(
    good: float, told: float, trigger: str
) -> None:
    said = Conversation()
    said.join(5, "a~1", generation=1, members={"a~1": {}, "b~1": {}}, took=3000, rebalance=20_000)
    said.join(6, "b~1", generation=1, leader="a~1", took=2999, rebalance=20_000)
    said.sync(3_100, "a~1", 1, {"t": [0]}, {"a~1": {"t": [0]}, "b~1": {"t": [1]}})
    said.heartbeat(16_000, "b~1", 1)
    said.heartbeat(good, "a~1", 1)
    said.heartbeat(told - 1, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(told + 10, "a~1", generation=2, members={"a~1": {}}, took=100)
    assert second_generation(said).trigger == trigger


@pytest.mark.parametrize(("other", "certainty"), [("a~1", "likely"), ("c~1", "guessed")])
def test_a_session_that_may_have_run_out_is_a_guess_where_somebody_joined_out_of_sight(
    other: str, certainty: str
) -> None:
    said = two_members()
    members: Members = {"a~1": {}, other: {}}
    said.heartbeat(SESSION_ENDS - 1, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(SESSION_ENDS + 10, "a~1", generation=2, leader="a~1", members=members, took=100)
    said.synced(SESSION_ENDS + 200, 2, {member: {"t": [0, 1]} for member in members})
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("session_timeout", "b", certainty)


@pytest.mark.parametrize(("early", "trigger"), [(50, "session_timeout"), (50.5, "member_left")])
def test_a_member_whose_session_ends_well_after_the_next_generation_was_formed_left(early: float, trigger: str) -> None:
    said = two_members()
    formed = SESSION_ENDS - early
    said.heartbeat(formed - 501, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(formed - 400, "a~1", generation=2, members={"a~1": {}}, took=400)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id) == (trigger, "b")
    assert found.certainty == (Certainty.LIKELY if trigger == "session_timeout" else Certainty.GUESSED)


def test_how_long_a_member_is_silent_is_told_where_its_session_timeout_is_not_known() -> None:
    said = two_members()
    said.again(20_000, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(without_requests(said, "b", "JoinGroup"))
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("session_timeout", "b", Certainty.GUESSED)
    text = "b is silent since 11.0 s before; its session timeout is not in the capture"
    assert found.evidence[0].text == text


FORMED, TOLD, ENDS = 3_005, 12_100, 12_500


@pytest.mark.parametrize(
    ("closed", "started"),
    [(FORMED, None), (12_000, 12_000), (12_400, TOLD), (ENDS, TOLD), (ENDS + 0.5, None)],
)
def test_who_is_gone_before_its_session_ended_left_as_its_connection_ended(
    closed: float, started: float | None
) -> None:
    said = two_members()
    number = hash_of("b10.0.0.1:9092")
    end = START + int(closed * MS)
    said.ended[number] = ConnectionEnd(number, "host-of-b", 40_000, "10.0.0.1:9092", "b", None, end, "fin", None, None)
    said.heartbeat(TOLD - 1, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(TOLD + 10, "a~1", generation=2, members={"a~1": {}}, took=ENDS - TOLD - 10)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("member_left", "b", Certainty.GUESSED)
    if started is None:
        assert found.evidence[0].text == "b is not in the new generation; a LeaveGroup of it is not in the capture"
    else:
        text = "b is not in the new generation, and its connection ended (FIN) before its session did"
        assert (found.evidence[0].text, found.evidence[0].at) == (text, START + int(started * MS))


@pytest.mark.parametrize(
    ("told", "is_known", "begun"),
    [
        (SESSION_ENDS - 1_000, True, SESSION_ENDS - 1_000),
        (SESSION_ENDS - 2_000, True, SESSION_ENDS - 2_000),
        (SESSION_ENDS - 2_000.5, True, SESSION_ENDS - 500),  # so the rebalance that others were told of is another
        (SESSION_ENDS - 1_000, False, 15_000),
    ],
)
def test_a_member_that_is_none_any_more_had_been_dropped_before_it_was_told(
    told: float, is_known: bool, begun: float
) -> None:
    said = two_members()
    said.heartbeat(15_000, "a~1", 1)
    said.heartbeat(told - 1, "a~1", 1, "REBALANCE_IN_PROGRESS")
    refused = said.heartbeat(SESSION_ENDS - 501, "b~1", 1, "UNKNOWN_MEMBER_ID")
    said.join(SESSION_ENDS - 490, "b~1", error="UNKNOWN_MEMBER_ID")
    said.join(SESSION_ENDS - 400, "a~1", generation=2, members={"a~1": {}}, took=900)
    found = second_generation(said if is_known else without_requests(said, "b", "JoinGroup"))
    text = "b, which had not left, was told that it is no member (UNKNOWN_MEMBER_ID)"
    reading = about(found, text + (": its session of 10,000 ms had run out" if is_known else ""))
    assert (reading.trigger, reading.at) == ("session_timeout", START + int(begun * MS))
    assert reading.packet == refused.response_packet
    assert reading.rejected == (found.trigger == "unknown") == (begun > told)
    assert found.certainty == (Certainty.LIKELY if is_known and not reading.rejected else Certainty.GUESSED)


@pytest.mark.parametrize(
    ("before", "after", "are_told"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_new_members_whose_join_group_is_not_seen_show_between_generations_that_are_known_whole(
    before: bool, after: bool, are_told: bool
) -> None:
    said = Conversation()
    shares = SHARES if before else None
    said.join(5, "a~1", generation=1, members={"a~1": {}, "b~1": {}} if before else None, took=3000)
    said.join(10, "b~1", generation=1, leader="a~1", took=2995)
    for member, share in (shares or {}).items():
        said.sync(3_100, member, 1, share)
    four: Members = {"a~1": {}, "b~1": {}, "c~1": {}, "d~1": {}}
    for at, member in ((12_000, "a~1"), (12_010, "b~1")):
        said.heartbeat(at, member, 1, "REBALANCE_IN_PROGRESS")
        lists = four if member == "a~1" and after else None
        said.join(at + 100, member, generation=2, leader="a~1", members=lists, took=500)
    found = second_generation(said)
    new = [each.text for each in found.evidence if "is new in the generation" in each.text]
    assert len(new) == (2 if are_told else 0)
    assert found.certainty == Certainty.GUESSED
    if are_told:  # of those that are as likely always the same one
        assert (found.trigger, found.trigger_member, found.started) == ("member_joined", "d~1", START + 12_001 * MS)
        assert new[0] == "d~1 is new in the generation; its JoinGroup is not in the capture"
    else:
        assert found.trigger == "unknown"


def test_a_process_that_came_in_place_of_a_static_member_is_not_new_in_the_next_generation() -> None:
    said = Conversation()
    listed: Members = {"a~1": {"groupInstanceId": "one"}, "b~1": {"groupInstanceId": "two"}}
    said.join(0, "a~1", new=True, instance="one", generation=1, members=listed, took=3000)
    said.join(20, "b~1", new=True, instance="two", generation=1, leader="a~1", took=2980)
    said.synced(3_010, 1, SHARES)
    said.join(6_000, "b~2", new=True, instance="two", generation=1, leader="a~1")
    said.heartbeat(9_000, "a~1", 1, "REBALANCE_IN_PROGRESS")
    after = {"a~1": {"groupInstanceId": "one"}, "b~2": {"groupInstanceId": "two"}}
    said.join(9_100, "a~1", instance="one", generation=2, members=after, took=100)
    found = second_generation(said)
    assert (found.trigger, len(found.evidence)) == ("unknown", 1)


@pytest.mark.parametrize(("after_ms", "trigger"), [(20, "member_left"), (20.5, "unknown")])
def test_what_was_said_after_others_were_told_of_a_rebalance_began_none_unless_at_the_same_moment(
    after_ms: float, trigger: str
) -> None:
    said = two_members()
    said.heartbeat(11_999, "a~1", 1, "REBALANCE_IN_PROGRESS")
    left = said.leave(12_000 + after_ms, "b~1")
    said.join(12_100, "a~1", generation=2, members={"a~1": {}}, took=400)
    found = second_generation(said)
    assert found.trigger == trigger
    if trigger == "unknown":
        missing = "nothing in the capture says why: what began it was said on connections or at times that it lacks"
        assert found.evidence == [
            Evidence(missing, None, START + 12_000 * MS, 0, "unknown"),
            Evidence("LeaveGroup of b, without a reason", left.packet, left.at, 0.97 / 2, "member_left", rejected=True),
        ]
        assert found.contributing == [Contributing("member_left", "b", left.at, left.packet)]


def test_without_the_generation_before_what_changed_is_not_known() -> None:
    said = Conversation()
    said.sync(0, "a~1", 5, {"t": [0]}, {"a~1": {"t": [0]}})
    (found,) = classic(said.log()).rebalances
    missing = "the generation before it is not in the capture, so what it changed is not known"
    assert found.evidence == [Evidence(missing, None, None, 0, "unknown")]


def test_who_was_no_member_did_not_begin_a_rebalance_by_leaving() -> None:
    said = two_members()
    said.leave(12_000, "c~1")
    said.again(12_480, 2, SHARES)
    found = second_generation(said)
    assert (found.trigger, found.certainty) == ("unknown", Certainty.GUESSED)


@pytest.mark.parametrize(
    ("good_again", "joins_at", "trigger"),
    [
        (None, THERE, "coordinator_moved"),
        (None, HERE, "unknown"),
        (12_100, THERE, "unknown"),  # the coordinator was back before
        (None, None, "unknown"),
    ],
)
def test_members_that_join_where_their_group_is_now_do_so_because_it_moved(
    good_again: int | None, joins_at: str | None, trigger: str
) -> None:
    said = two_members()
    gone = said.heartbeat(12_000, "a~1", 1, "NOT_COORDINATOR")
    said.heartbeat(12_050, "b~1", 1, "COORDINATOR_NOT_AVAILABLE", broker="10.0.0.3:9092")
    if good_again:
        said.heartbeat(good_again, "a~1", 1)
    if joins_at:
        said.join(12_510, "a~1", generation=2, members={"a~1": {}, "b~1": {}}, broker=joins_at, took=500)
        said.heartbeat(12_400, "a~1", 1, "REBALANCE_IN_PROGRESS", broker=joins_at)
        said.heartbeat(12_900, "b~1", 1, "REBALANCE_IN_PROGRESS", broker=joins_at)
        said.join(12_910, "b~1", generation=2, leader="a~1", broker=joins_at, took=100)
    else:
        said.synced(12_900, 2, SHARES)
    found = second_generation(said)
    assert found.trigger == trigger
    if trigger == "coordinator_moved":
        assert (found.trigger_client_id, found.certainty) == ("a", Certainty.LIKELY)
        text = f"Heartbeat answered NOT_COORDINATOR by {HERE}; the members joined at {THERE} then"
        assert (found.evidence[0].text, found.evidence[0].packet) == (text, gone.packet)


@pytest.mark.parametrize(("apart_ms", "certainty"), [(19.5, Certainty.LIKELY), (20, Certainty.CERTAIN)])
def test_of_events_at_the_same_moment_none_is_the_first_for_certain(apart_ms: float, certainty: str) -> None:
    said = two_members()
    said.join(11_900, "c~1", new=True, error="MEMBER_ID_REQUIRED")
    said.join(12_000, "c~1", generation=2, leader="a~1", took=500)
    said.leave(12_000 + apart_ms, "b~1")
    said.heartbeat(12_300, "a~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_310, "a~1", generation=2, members={"a~1": {}, "c~1": {}}, took=190)
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("member_joined", "c", certainty)


@pytest.mark.parametrize(
    ("apart_ms", "first", "certainty"), [(20, "c", Certainty.CERTAIN), (20.5, "a", Certainty.LIKELY)]
)
def test_of_those_that_join_a_new_group_at_the_same_moment_the_leader_was_the_first(
    apart_ms: float, first: str, certainty: str
) -> None:
    said = Conversation()
    three: Members = {"a~1": {}, "b~1": {}, "c~1": {}}
    for after, member in ((0, "a~1"), (10, "b~1"), (apart_ms, "c~1")):
        lists = three if member == "c~1" else None
        said.join(1_000 + after, member, new=True, generation=1, leader="c~1", members=lists, took=3_000 - after)
    (found,) = classic(said.log()).rebalances
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("member_joined", first, certainty)


def test_the_leader_was_not_the_first_to_join_where_there_were_members_before() -> None:
    said = two_members()
    for at, member in ((12_000, "c~1"), (12_010, "d~1")):
        lists: Members | None = {"c~1": {}, "d~1": {}} if member == "d~1" else None
        said.join(at, member, new=True, generation=2, leader="d~1", members=lists, took=12_500 - at)
    said.leave(12_200, "a~1")
    said.leave(12_300, "b~1")
    found = second_generation(said)
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("member_joined", "c", Certainty.LIKELY)


@pytest.mark.parametrize("generation", [2, 5])
def test_a_rebalance_may_have_been_open_when_the_capture_began(generation: int) -> None:
    said = Conversation()
    said.leave(0, "b~1")
    said.join(5, "a~1", generation=generation, members={"a~1": {}}, took=10)
    (found,) = classic(said.log()).rebalances
    assert (found.trigger, found.trigger_member, found.certainty) == ("member_left", "b~1", Certainty.GUESSED)


def test_who_leaves_began_it_though_others_are_out_of_sight() -> None:
    said = three_members()
    said.leave(12_000, "b~1")
    said.heartbeat(12_300, "c~1", 1, "REBALANCE_IN_PROGRESS")
    said.join(12_400, "c~1", generation=2, leader="a~1", took=100)
    found = second_generation(without(said, "a"))
    assert (found.trigger, found.trigger_client_id, found.certainty) == ("member_left", "b", Certainty.LIKELY)


@pytest.mark.parametrize(("member", "trigger"), [("b~1", "member_left"), ("", "removed_by_admin")])
def test_a_static_member_leaves_by_its_member_id_and_is_taken_out_by_its_instance_id(member: str, trigger: str) -> None:
    said = Conversation()
    listed: Members = {"a~1": {}, "b~1": {"groupInstanceId": "two"}}
    said.join(0, "a~1", new=True, generation=1, members=listed, took=3000)
    said.join(20, "b~1", new=True, instance="two", generation=1, leader="a~1", took=2980)
    said.synced(3_010, 1, SHARES)
    said.leave(6_000, member, instance="two", client="b", broker="10.0.0.2:9092")
    said.again(6_500, 2, {"a~1": {"t": [0, 1, 2, 3]}})
    found = second_generation(said)
    assert (found.trigger, found.trigger_member, found.trigger_client_id) == (trigger, "b~1", "b")


def test_of_very_much_evidence_the_first_is_kept() -> None:
    said = two_members()
    for place in range(60):
        said.join(12_000 + place, f"m{place}~1", new=True, generation=2, leader="a~1", took=500 - place)
    found = second_generation(said)
    assert (len(found.evidence), len(found.contributing)) == (50, 59)


NOT_STORED = "COORDINATOR_NOT_AVAILABLE"


def not_stored(error: str = NOT_STORED, took: float = 5_000, later: float = 0, **join: Any) -> Conversation:
    """Generation 2, whose assignment the coordinator cannot write; all join again, and generation 3 is well."""
    said = two_members()
    for member in SHARES:
        said.heartbeat(11_995, member, 1, "REBALANCE_IN_PROGRESS")
        members: Members | None = {each: {} for each in SHARES} if member == "a~1" else None
        said.join(12_000, member, generation=2, leader="a~1", members=members, took=10, reason="enforced by user")
    said.sync(12_020, "a~1", 2, gives=SHARES, took=took, error=error)
    said.sync(12_030, "b~1", 2, took=took - 40 + later, error=error)
    again = 12_020 + took + 100
    for member in SHARES:
        members = {each: {} for each in SHARES} if member == "a~1" else None
        said.join(again, member, generation=3, leader="a~1", members=members, took=10, **join)
    said.synced(again + 20, 3, SHARES)
    return said


def third_generation(said: Conversation) -> Rebalance:
    (found,) = [each for each in classic(said.log()).rebalances if each.to_generation == 3]
    return found


@pytest.mark.parametrize(
    ("said", "trigger"),
    [
        (not_stored(), "assignment_not_stored"),
        (not_stored(took=2), "assignment_not_stored"),
        (not_stored("UNKNOWN_SERVER_ERROR"), "assignment_not_stored"),
        (not_stored("NOT_COORDINATOR"), "assignment_not_stored"),
        (not_stored("REBALANCE_IN_PROGRESS"), "unknown"),
        (not_stored(broker="10.0.0.2:9092"), "coordinator_moved"),
        (not_stored("NOT_COORDINATOR", broker="10.0.0.2:9092"), "coordinator_moved"),
    ],
)
def test_an_assignment_that_is_not_stored_begins_a_rebalance_at_the_same_coordinator(
    said: Conversation, trigger: str
) -> None:
    assert third_generation(said).trigger == trigger


def test_all_who_waited_are_told_of_it_at_once() -> None:
    found = third_generation(not_stored())
    assert (found.started, found.certainty) == (START + 17_020 * MS, Certainty.CERTAIN)
    assert (found.trigger_member, found.trigger_client_id, found.contributing) == (None, None, [])
    first, second = found.evidence[:2]
    assert first.text.startswith(f"the coordinator answered {NOT_STORED} to the assignment that the group's leader")
    assert "after 5.0 s" in first.text
    assert second.text.endswith(f" is the first that is told of the rebalance ({NOT_STORED})")


def test_who_leaves_before_that_began_it() -> None:
    said = not_stored()
    said.leave(16_000, "b~1", "the consumer is being closed")
    assert third_generation(said).trigger == "member_left"
