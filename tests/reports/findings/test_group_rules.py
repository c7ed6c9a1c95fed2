"""Rules about groups: where each begins to speak, and that it is silent below. Times of messages are milliseconds."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.findings.finding import Finding
from kafkascope.reports.findings.group_rules import group_findings
from kafkascope.reports.groups.history import Event, Evidence, GroupHistory, Member, Rebalance, Unowned
from kafkascope.reports.vocabulary.finding_kinds import Severity
from tests.reports.groups.group_logs import START, Conversation

SECOND = 1_000_000_000


def rebalances(*times: float, **changes: Any) -> GroupHistory:
    """Generations that began so many seconds after START; the members of each are a and b."""
    of_all: dict[str, Any] = {
        "protocol": "classic",
        "assignor": "range",
        "members": [Member("a~1", "a"), Member("b~1", "b")],
    }
    return GroupHistory(
        rebalances=[
            Rebalance("g", to_generation=number, started=at, stable=at, **of_all | changes)
            for number, at in enumerate((START + int(time * SECOND) for time in times), 1)
        ]
    )


def of_kind(kind: str, history: GroupHistory, said: Conversation | None = None) -> list[Finding]:
    found = group_findings((said or Conversation()).log(), history)
    return [finding for finding in found if finding.kind == kind]


@pytest.mark.parametrize(
    ("times", "is_storm"),
    [((0, 1, 2, 3, 4, 5), True), ((0, 1, 2, 3, 4), False), ((0, 1, 2, 3, 4, 299), True), ((0, 1, 2, 3, 4, 300), False)],
)
def test_six_rebalances_in_five_minutes_are_a_storm(times: tuple[int, ...], is_storm: bool) -> None:
    history = rebalances(*times, trigger="poll_timeout", trigger_client_id="a")
    assert len(of_kind("rebalance_storm", history)) == is_storm


@pytest.mark.parametrize(("count", "severity"), [(6, Severity.CRITICAL), (5, Severity.WARNING)])
def test_poll_timeouts_as_many_as_make_a_storm_are_critical(count: int, severity: str) -> None:
    history = rebalances(*range(count), trigger="poll_timeout", trigger_client_id="a")
    assert [finding.severity for finding in of_kind("poll_timeout", history)] == [severity]


@pytest.mark.parametrize(("count", "found"), [(2, 1), (1, 0)])
def test_leaving_and_coming_back_is_told_the_second_time(count: int, found: int) -> None:
    came_back = Evidence("it came back", None, None, 0.4, "poll_timeout", rejected=True)
    history = rebalances(*range(count), trigger="member_left", trigger_client_id="a", evidence=[came_back])
    assert len(of_kind("leaving_and_returning", history)) == found


@pytest.mark.parametrize(
    ("committed", "client", "found"),
    [(None, "a", 0), (8_999, "a", 1), (9_000, "a", 0), (8_000, "b", 0), (10_001, "a", 0)],
)
def test_one_that_leaves_without_a_last_commit_is_told_the_first_time(
    committed: float | None, client: str, found: int
) -> None:
    came_back = Evidence("it came back", None, None, 0.4, "poll_timeout", rejected=True)
    history = rebalances(10, trigger="member_left", trigger_client_id="a", evidence=[came_back])
    said = Conversation()
    if committed is not None:
        said.say(committed, "OffsetCommit", client, {}, {})
    assert len(of_kind("leaving_and_returning", history, said)) == found


@pytest.mark.parametrize(("interval_ms", "found"), [(4_001, 1), (4_000, 0)])
def test_two_and_a_half_heartbeats_fit_into_a_session(interval_ms: int, found: int) -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, session=10_000)
    for number in range(1, 8):
        said.heartbeat(number * interval_ms, "a~1", 1)
    assert len(of_kind("session_timeout_tight", GroupHistory(), said)) == found


@pytest.mark.parametrize(("beats", "lost", "found"), [(5, False, 1), (4, False, 0), (3, True, 1), (2, True, 0)])
def test_fewer_heartbeats_are_enough_of_a_member_that_was_lost(beats: int, lost: bool, found: int) -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, session=10_000)
    for number in range(1, beats + 1):
        said.heartbeat(number * 6_000, "a~1", 1)
    history = rebalances(60, trigger="session_timeout", trigger_client_id="a" if lost else "b")
    tight = of_kind("session_timeout_tight", history, said)
    assert len(tight) == found
    assert [each.title.endswith("and it was lost 1 time") for each in tight] == [lost] * found


def test_heartbeats_of_all_lives_of_a_client_count_together() -> None:
    said = Conversation()
    for life in range(4):
        said.join(life * 60_000, f"a~{life}", generation=1, session=10_000)
        for number in (1, 2):
            said.heartbeat(life * 60_000 + number * 6_000, f"a~{life}", 1)
    (tight,) = of_kind("session_timeout_tight", GroupHistory(), said)
    assert tight.title == "a: session.timeout.ms 10,000 leaves room for 1.7 heartbeats"


@pytest.mark.parametrize(("count", "severity"), [(6, Severity.CRITICAL), (5, Severity.WARNING)])
def test_members_that_do_not_give_up_their_partitions_are_told_one_by_one(count: int, severity: str) -> None:
    members = [Member("a~1", "a", rebalance_timeout_ms=4_000), Member("b~1", "b", rebalance_timeout_ms=4_000)]
    history = rebalances(0, *range(1, count + 2), members=members, protocol="consumer")
    for place, rebalance in enumerate(history.rebalances[1:]):
        rebalance.trigger, rebalance.trigger_client_id = "rebalance_timeout", "a" if place < count else "b"
    found = of_kind("rebalance_timeout", history)
    assert [(each.title, each.severity) for each in found] == [
        (f"a did not give up its partitions in 4.0 s, {count} times", severity),
        ("b did not give up its partitions in 4.0 s", Severity.WARNING),
    ]
    assert "onPartitionsRevoked" in found[0].advice
    assert len(found[0].evidence) == count


def test_members_of_the_classic_protocol_do_not_join_again() -> None:
    history = rebalances(0, 1, trigger="rebalance_timeout", trigger_client_id="a")
    assert of_kind("rebalance_timeout", history)[0].title == "a did not join again in time, 2 times"


def test_the_roots_of_a_storm_come_in_order_of_how_often_each_began_it() -> None:
    begun = [("poll_timeout", "a")] * 2 + [("session_timeout", "b")] * 4 + [("member_rejoined", "c")] * 5
    begun += [("sync_timeout", "d"), ("poll_timeout", "b")]
    history = rebalances(*range(len(begun)))
    for rebalance, (trigger, client) in zip(history.rebalances, begun, strict=True):
        rebalance.trigger, rebalance.trigger_client_id = trigger, client
    (storm,) = of_kind("rebalance_storm", history)
    roots = "kept going by session timeout of b (4 times), poll timeout of a (2 times), b (1 time)"
    assert storm.title.endswith(roots)
    assert storm.advice.startswith("Look at pauses")
    assert "Followed by: member rejoined 5 times, sync timeout 1 time." in storm.advice


def test_a_group_that_changes_its_protocol_is_told_with_all_changes() -> None:
    history = rebalances(0, 1, 2, 3)
    assert of_kind("protocol_changed", history) == []
    for rebalance, protocol in zip(history.rebalances, ("classic", "consumer", "consumer", "classic"), strict=True):
        rebalance.protocol = protocol
    (change,) = of_kind("protocol_changed", history)
    assert (change.severity, change.title) == (
        Severity.INFO,
        "The group changed its protocol: classic → consumer → classic",
    )
    assert [each.text for each in change.evidence] == [
        "classic up to 1, consumer from 2 on",
        "consumer up to 3, classic from 4 on",
    ]


@pytest.mark.parametrize(("took", "found"), [(1_000, 1), (999, 0)])
def test_a_heartbeat_that_waits_a_second_behind_another_request_is_held_up(took: float, found: int) -> None:
    said = Conversation()
    said.say(0, "OffsetCommit", "a", {}, {}, took=took + 10)
    said.heartbeat(5, "a~1", 1, took=took)
    assert len(of_kind("heartbeat_held_up", GroupHistory(), said)) == found


@pytest.mark.parametrize(("count", "found"), [(3, 1), (2, 0)])
def test_three_commits_that_are_refused_are_told(count: int, found: int) -> None:
    said = Conversation()
    for number in range(count):
        said.say(number, "OffsetCommit", "a", {}, {}, error="UNKNOWN_MEMBER_ID")
    assert len(of_kind("commit_refused", GroupHistory(), said)) == found


@pytest.mark.parametrize(("count", "unowned_ms", "found"), [(4, 1_000, 1), (4, 999, 0), (3, 1_000, 0)])
def test_an_eager_assignor_is_told_when_it_stops_all_three_times_after_the_first(
    count: int, unowned_ms: float, found: int
) -> None:
    assert len(of_kind("eager_assignor", rebalances(*range(count), unowned_ms=unowned_ms))) == found


@pytest.mark.parametrize(("most", "fewest", "found"), [(6, 3, 1), (5, 3, 0)])
def test_twice_as_many_partitions_are_uneven(most: int, fewest: int, found: int) -> None:
    members = [
        Member(name, name, assignment=[f"t-{number}" for number in range(count)])
        for name, count in (("a", most), ("b", fewest))
    ]
    assert len(of_kind("uneven_assignment", rebalances(0, members=members))) == found


@pytest.mark.parametrize(("unowned_ms", "found"), [(10_000, 1), (9_999, 0)])
def test_a_partition_that_nobody_owns_for_ten_seconds_is_told(unowned_ms: float, found: int) -> None:
    assert len(of_kind("partition_unowned", rebalances(0, unowned=[Unowned("t-0", 0, unowned_ms)]))) == found


@pytest.mark.parametrize(("last_by_ms", "found"), [(5_000, 1), (4_999, 0)])
def test_a_member_that_comes_five_seconds_after_the_others_is_slow(last_by_ms: float, found: int) -> None:
    assert len(of_kind("slow_to_join", rebalances(0, last_client_id="a", last_by_ms=last_by_ms))) == found


@pytest.mark.parametrize(("count", "severity"), [(4, Severity.WARNING), (3, Severity.INFO)])
def test_a_coordinator_that_moves_four_times_is_a_warning(count: int, severity: str) -> None:
    moves = [Event("g", number * SECOND, "coordinator_moved", detail=f"to {number}") for number in range(count)]
    assert [each.severity for each in of_kind("coordinator_moved", GroupHistory(events=moves))] == [severity]


@pytest.mark.parametrize(
    ("clients", "words"),
    [
        ("aaabbc", "of a (3 times), b (2 times), c (1 time)"),
        ("aaabbcd", "of a (3 times), b (2 times), c (1 time) and 1 more"),
    ],
)
def test_a_storm_names_the_three_whose_fault_it_was_most(clients: str, words: str) -> None:
    history = rebalances(*range(len(clients)), trigger="poll_timeout")
    for rebalance, client in zip(history.rebalances, clients, strict=True):
        rebalance.trigger_client_id = client
    (storm,) = of_kind("rebalance_storm", history)
    assert storm.title.endswith(words)


@pytest.mark.parametrize("trigger", ["poll_timeout", "session_timeout"])
def test_what_came_again_lasted_from_the_first_to_the_last(trigger: str) -> None:
    history = rebalances(1, 50, 400, trigger=trigger, trigger_client_id="a")
    (finding,) = of_kind("poll_timeout" if trigger == "poll_timeout" else "member_lost", history)
    assert (finding.since, finding.until) == (START + SECOND, START + 400 * SECOND)
    assert "3 times" in finding.title


def test_the_worst_storm_weighs_most() -> None:
    def weight(count: int) -> float:
        (storm,) = of_kind("rebalance_storm", rebalances(*range(count), trigger="poll_timeout", trigger_client_id="a"))
        return storm.weight

    assert 0.9 < weight(6) < weight(12) < 1


@pytest.mark.parametrize("uneven_last", [True, False])
def test_an_assignment_is_judged_as_it_was_in_the_end(uneven_last: bool) -> None:
    def members(most: int) -> list[Member]:
        counts = (("a", most), ("b", 3))
        return [Member(name, name, assignment=[f"t-{number}" for number in range(count)]) for name, count in counts]

    history = rebalances(0, 1)
    for rebalance, most in zip(history.rebalances, (3, 6) if uneven_last else (6, 3), strict=True):
        rebalance.members = members(most)
    assert len(of_kind("uneven_assignment", history)) == uneven_last
