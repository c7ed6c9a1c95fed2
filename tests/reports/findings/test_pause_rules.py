"""Members that say nothing for a while, and go on. Times of messages are milliseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.groups.history import GroupHistory
from kafkascope.reports.groups.messages import ConnectionEnd, Repeats
from kafkascope.reports.vocabulary.finding_kinds import Severity
from tests.reports.findings.test_group_rules import at, of_kind, whole
from tests.reports.groups.group_logs import START, Conversation, changed

MS = 1_000_000


def beats(said: Conversation, *times: float, client: str = "a", **given: Any) -> Conversation:
    """Heartbeats of a member, each answered after a millisecond."""
    for time in times:
        said.heartbeat(time, f"{client}~1", 1, **given)
    return said


def paused(said: Conversation) -> list[Finding]:
    return of_kind("member_paused", GroupHistory(), said)


def test_a_member_that_pauses_twice_as_a_whole() -> None:
    said = beats(Conversation(), 0, 2_000, 4_000, 6_000, 8_000, 14_000, 16_000, 24_001)
    beats(said, *range(0, 26_000, 2_000), client="b")
    (found,) = paused(said)
    whole(
        found,
        Severity.WARNING,
        "a said nothing 2 times, for up to 8.0 s, though it sends heartbeats every 2.0 s",
        [
            Observation("no heartbeat, and nothing else, for 6.0 s", 12, at(8) + MS),
            Observation("no heartbeat, and nothing else, for 8.0 s", 16, at(16) + MS),
        ],
        0.523,
        ["a"],
    )


USUAL = (0, 2_000, 4_000, 6_000)


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ((*USUAL, 11_001), True),
        ((*USUAL, 11_000), False),
        ((0, 3_000, 6_000, 9_000, 15_001), True),  # twice as long as usual
        ((0, 3_000, 6_000, 9_000, 14_900), False),
        ((2_000, 4_000, 6_000, 20_000), False),  # of four nobody knows how often they come
    ],
)
def test_how_long_a_pause_is(times: tuple[float, ...], told: bool) -> None:
    assert bool(paused(beats(Conversation(), *times))) == told


def test_the_broker_may_say_how_often_heartbeats_come() -> None:
    """As those protocols do whose groups have epochs."""
    for told, found in ((3_000, True), (3_500, False)):
        said = Conversation()
        for time in (0, 6_600):
            answer = {"heartbeatIntervalMs": told, "memberEpoch": 1}
            said.say(time, "ConsumerGroupHeartbeat", "a", {"memberEpoch": 1}, answer)
        assert bool(paused(said)) == found


@pytest.mark.parametrize("api", ["OffsetCommit", "FindCoordinator", "JoinGroup"])
def test_who_says_something_else_meanwhile_does_not_pause(api: str) -> None:
    said = beats(Conversation(), *USUAL)
    said.say(9_000, api, "a", {}, {})
    assert paused(beats(said, 13_000)) == []


@pytest.mark.parametrize("how", ["leaves", "refused before", "refused after", "unanswered"])
def test_who_was_no_member_did_not_pause(how: str) -> None:
    said = beats(Conversation(), *USUAL)
    if how == "leaves":
        said.say(6_100, "LeaveGroup", "a", {}, {})
    if how == "refused before":
        beats(said, 6_100, error="UNKNOWN_MEMBER_ID")
    if how == "unanswered":
        said.messages[-1] = changed(said.messages[-1], answered=None)
    assert paused(beats(said, 20_000, error="UNKNOWN_MEMBER_ID" if how == "refused after" else None)) == []


def test_what_waits_for_its_answer_is_no_pause() -> None:
    """A broker that stands still: the next heartbeat comes when the last one was answered."""
    said = beats(Conversation(), *USUAL)
    beats(said, 8_000, took=9_000)
    assert paused(beats(said, 18_000)) == []


def test_pauses_are_found_among_heartbeats_that_were_folded() -> None:
    said = beats(Conversation(), 0)
    times = np.array([2_000, 4_000, 6_000, 12_000, 14_000]) * MS + START
    repeats = Repeats(times, times + MS, np.arange(5), np.arange(5) + 70, np.arange(5) + 80)
    said.messages[0] = changed(said.messages[0], repeats=repeats)
    (found,) = paused(said)
    assert found.evidence == [Observation("no heartbeat, and nothing else, for 6.0 s", 73, at(6) + MS)]


@pytest.mark.parametrize(("gap_bytes", "told"), [(None, True), (0, True), (1, False)])
def test_where_the_capture_lacks_bytes_it_may_lack_a_heartbeat(gap_bytes: int | None, told: bool) -> None:
    said = beats(Conversation(), *USUAL, 13_000)
    number = said.messages[0].connection
    end = ConnectionEnd(number, "host-of-a", 1, "", "a", START, None, "open", None, None, gap_bytes)
    said.ended[number] = end
    assert bool(paused(said)) == told


@pytest.mark.parametrize(("begins", "told"), [(6_000, []), (12_000, ["a", "b"])])
def test_where_members_of_two_hosts_pause_at_once_it_may_be_the_capture(begins: float, told: list[str]) -> None:
    said = beats(Conversation(), *USUAL, 12_001)
    beats(said, *range(0, int(begins) + 1, 2_000), begins + 6_002, client="b")
    assert [one.client_ids[0] for one in paused(said)] == told


@pytest.mark.parametrize(("between", "told"), [([], True), (["OffsetCommit"], True), (["OffsetCommit"] * 4, False)])
def test_who_leaves_when_it_goes_on_and_joins_again_did_pause(between: list[str], told: bool) -> None:
    said = beats(Conversation(), *USUAL)
    said.say(20_000, "LeaveGroup", "a", {}, {})
    for place, api in enumerate(between):
        said.say(20_001 + place, api, "a", {}, {})
    assert paused(said) == []
    said.say(20_010, "JoinGroup", "a", {}, {})
    assert bool(paused(beats(said, 22_000))) == told


def test_who_leaves_in_vain_was_lost() -> None:
    said = beats(Conversation(), *USUAL)
    said.say(20_000, "LeaveGroup", "a", {}, {}, error="UNKNOWN_MEMBER_ID")
    said.say(20_010, "JoinGroup", "a", {}, {})
    assert paused(beats(said, 22_000)) == []
