"""Rules about groups: where each begins to speak, that it is silent below, and what it says.

Times of messages are milliseconds.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.decoders.errors import ADVICE_BY_KIND
from kafkascope.reports.columns.words import in_seconds
from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.findings.group_rules import group_findings
from kafkascope.reports.findings.storm_rules import Disturbance, disturbances
from kafkascope.reports.groups.history import Contributing, Event, Evidence, GroupHistory, Member, Rebalance, Unowned
from kafkascope.reports.vocabulary.finding_kinds import Severity
from tests.reports.groups.group_logs import START, Conversation

SECOND = 1_000_000_000


def at(seconds: float) -> int:
    return START + int(seconds * SECOND)


def rebalances(*times: float, **changes: Any) -> GroupHistory:
    """Generations that began so many seconds after START; the members of each are a and b."""
    of_all: dict[str, Any] = {
        "protocol": "classic",
        "assignor": "range",
        "members": [Member("a~1", "a"), Member("b~1", "b")],
    }
    return GroupHistory(
        rebalances=[
            Rebalance("g", to_generation=number, **{"started": began, "stable": began} | of_all | changes)
            for number, began in enumerate(map(at, times), 1)
        ]
    )


def of_kind(kind: str, history: GroupHistory, said: Conversation | None = None) -> list[Finding]:
    found = group_findings((said or Conversation()).log(), history)
    return [finding for finding in found if finding.kind == kind]


def triggered(history: GroupHistory, *by: tuple[str, str | None]) -> GroupHistory:
    """The history with a trigger and a client for each of its rebalances."""
    for rebalance, (trigger, client) in zip(history.rebalances, by, strict=True):
        rebalance.trigger, rebalance.trigger_client_id = trigger, client
    return history


def whole(
    found: Finding,
    severity: Severity,
    title: str,
    evidence: list[Observation],
    weight: float,
    clients: list[str],
    span: tuple[int, int | None] | None = None,
) -> None:
    """Check all that a finding says but its advice; without a span it lasts as long as its evidence."""
    times = [each.at for each in evidence if each.at is not None]
    assert (found.severity, found.title, found.subject) == (severity, title, "group g")
    assert found.evidence == evidence
    assert (found.weight, found.client_ids) == (weight, clients)
    assert (found.since, found.until) == (span or (min(times), max(times)))


@pytest.mark.parametrize(
    ("times", "is_storm"),
    [((0, 1, 2, 3, 4, 5), True), ((0, 1, 2, 3, 4), False), ((0, 1, 2, 3, 4, 299), True), ((0, 1, 2, 3, 4, 300), False)],
)
def test_six_rebalances_in_five_minutes_are_a_storm(times: tuple[int, ...], is_storm: bool) -> None:
    history = rebalances(*times, trigger="poll_timeout", trigger_client_id="a")
    assert len(of_kind("rebalance_storm", history)) == is_storm


@pytest.mark.parametrize(
    ("names", "times", "leaves", "is_storm"),
    [
        ("abcdef", 1, "member_left", False),  # a deployment
        ("abcdef", 2, "member_left", False),
        ("ab", 3, "member_left", True),  # again and again
        ("aaaaaa", 1, "member_left", False),  # a deployment of processes that share a client id
        ("abcdef", 1, "unsubscribed", False),
        ("abcdef", 1, "session_timeout", True),
    ],
)
def test_who_leaves_and_comes_back_makes_no_storm_unless_again_and_again(
    names: str, times: int, leaves: str, is_storm: bool
) -> None:
    steps = [step for name in names * times for step in ((leaves, name), ("member_joined", name))]
    members = [Member(f"{name}~{number}", name) for number, name in enumerate(names)]
    history = triggered(rebalances(*range(len(steps)), members=members), *steps)
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


@pytest.mark.parametrize(
    ("api", "assignments", "found"),
    [("OffsetCommit", [], 1), ("SyncGroup", [], 0), ("SyncGroup", [{"memberId": "a~1"}], 1), ("JoinGroup", [], 0)],
)
def test_who_waits_for_other_members_waits_for_no_slow_request(
    api: str, assignments: list[dict[str, str]], found: int
) -> None:
    """The leader, which brings the assignment, waits for nobody."""
    said = Conversation()
    said.say(0, api, "a", {"assignments": assignments}, {}, took=6_000)
    said.heartbeat(5, "a~1", 1, took=5_995)
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


def seen(history: GroupHistory) -> list[tuple[str, str | None, int, int]]:
    found = disturbances(history.rebalances)
    return [(each.kind, each.client_id, (each.at - START) // SECOND, each.generation) for each in found]


def test_one_that_was_a_member_before_comes_back_others_are_new() -> None:
    history = triggered(rebalances(0, 1, 2), ("member_joined", "a"), ("member_joined", "a"), ("member_joined", "c"))
    assert seen(history) == [("returned", "a", 1, 2)]


def test_what_else_happened_disturbs_too_unless_it_has_a_rebalance_of_its_own() -> None:
    history = triggered(rebalances(0, 3, 5), ("poll_timeout", "a"), ("session_timeout", "b"), ("member_left", "a"))
    history.rebalances[0].contributing = [
        Contributing("session_timeout", "b", at(3), 30),  # is the trigger of the next
        Contributing("session_timeout", "b", at(4), 40),
        Contributing("session_timeout", "b", at(4.5), 45),  # of one rebalance each is told once
        Contributing("session_timeout", "c", at(2), 20),
        Contributing("poll_timeout", "b", at(1), 10),
        Contributing("member_left", "c", at(1), 11),
    ]
    assert seen(history) == [
        ("poll_timeout", "a", 0, 1),
        ("poll_timeout", "b", 1, 1),
        ("session_timeout", "c", 2, 1),
        ("session_timeout", "b", 3, 2),
        ("session_timeout", "b", 4, 1),
    ]


@pytest.mark.parametrize(
    ("times", "began"),
    [((1, 2, 3), at(1)), ((None, 2, 3), at(2)), ((None, None, 3), at(3)), ((None, None, None), 0)],
)
def test_a_rebalance_begins_with_the_first_that_is_known_of_it(times: tuple[int | None, ...], began: int) -> None:
    started, joined, stable = (None if time is None else at(time) for time in times)
    evidence = [
        Evidence("of another reading", 3, None, 0.4, "session_timeout"),
        Evidence("that was rejected", 4, None, 0.4, "poll_timeout", rejected=True),
        Evidence("in no packet", None, None, 0.4, "poll_timeout"),
        Evidence("the first", 5, None, 0.4, "poll_timeout"),
        Evidence("the second", 6, None, 0.4, "poll_timeout"),
    ]
    history = rebalances(0, started=started, joined=joined, stable=stable, evidence=evidence)
    (found,) = disturbances(triggered(history, ("poll_timeout", "a")).rebalances)
    assert found == Disturbance("poll_timeout", "a", began, 5, 1)


@pytest.mark.parametrize(
    ("trigger", "reading", "packet", "rejected", "kinds"),
    [
        ("member_left", "poll_timeout", None, True, ["leaving_and_returning"]),
        ("member_left", "poll_timeout", 5, True, ["leaving_and_returning"]),
        ("member_left", "poll_timeout", 6, True, []),  # somebody else left so
        ("member_left", "poll_timeout", 5, False, []),
        ("member_left", "session_timeout", 5, True, []),
        ("poll_timeout", "poll_timeout", 5, True, ["poll_timeout"]),
    ],
)
def test_one_leaves_and_returns_where_a_poll_timeout_of_its_own_was_thought_of(
    trigger: str, reading: str, packet: int | None, rejected: bool, kinds: list[str]
) -> None:
    left = Evidence("it left", 5, at(0), 0.9, trigger)
    came_back = Evidence("it came back", packet, None, 0.4, reading, rejected=rejected)
    history = rebalances(0, trigger=trigger, trigger_client_id="a", evidence=[left, came_back])
    assert [each.kind for each in disturbances(history.rebalances)] == kinds


def test_a_storm_as_a_whole() -> None:
    by = [("poll_timeout", "a")] * 2 + [("session_timeout", None)] * 2 + [("sync_timeout", "b")]
    by += [("leader_rejoined", "c")] * 2 + [("member_joined", "d")]
    left = Evidence("it said so", 9, None, 1, "poll_timeout")
    times = (0, 1000, 1001, 1002, 1003, 1004, 1005, 1200)
    history = triggered(rebalances(*times, unowned_ms=1_500, evidence=[left]), *by)
    # What disturbed the first rebalance later does not make it another.
    history.rebalances[0].contributing = [Contributing("rebalance_timeout", "e", at(1010), 77)]
    (storm,) = of_kind("rebalance_storm", history)
    whole(
        storm,
        Severity.CRITICAL,
        "Rebalance storm: 7 rebalances in 1,005 s that nobody asked for; kept going by poll timeout of a (2 times), "
        "session timeout of ? (2 times)",
        [
            Observation("a: its application did not poll in time, before generation 1", 9, at(0)),
            Observation("a: its application did not poll in time, before generation 2", 9, at(1000)),
            Observation("?: the broker did not hear from it, before generation 3", None, at(1001)),
            Observation("?: the broker did not hear from it, before generation 4", None, at(1002)),
        ],
        0.95,
        ["a"],
        (at(0), at(1005)),
    )
    assert storm.advice.startswith("Raise max.poll.interval.ms")
    assert storm.advice.endswith(
        " Partitions had no owner for 10.5 s in all. "
        "Followed by: leader rejoined 2 times, sync timeout 1 time, rebalance timeout 1 time."
    )


def test_a_storm_in_which_nothing_recurs_has_all_for_roots() -> None:
    by = [("sync_timeout", "b"), ("poll_timeout", "a"), ("static_member_replaced", "a"), ("session_timeout", "c")]
    by += [("rebalance_timeout", "d"), ("leader_rejoined", "e")]
    (storm,) = of_kind("rebalance_storm", triggered(rebalances(*range(6)), *by))
    assert storm.title == (
        "Rebalance storm: 6 rebalances in 5 s that nobody asked for; kept going by sync timeout of b (1 time), "
        "poll timeout of a (1 time), static member replaced of a (1 time) and 3 more"
    )
    assert len(storm.evidence) == 6
    assert storm.client_ids == ["a", "b", "c", "d", "e"]
    assert storm.advice == "See the timeline of the group for what each of these members did."


def test_poll_timeouts_as_a_whole() -> None:
    members = [
        Member("a~1", "a", rebalance_timeout_ms=5_000, synced=at(2)),
        Member("b~1", "b", rebalance_timeout_ms=7_000, synced=at(9)),
    ]
    history = triggered(rebalances(0, 10, 20, members=members), ("member_joined", "a"), *[("poll_timeout", "a")] * 2)
    history.rebalances[1].members = [Member("a~2", "a", rebalance_timeout_ms=300_000, synced=at(10.5)), members[1]]
    history.rebalances[2].members = [Member("a~3", "a", rebalance_timeout_ms=9_000, synced=at(20)), members[1]]
    (found,) = of_kind("poll_timeout", history)
    whole(
        found,
        Severity.WARNING,
        "a took longer than max.poll.interval.ms (5,000, 300,000 ms) between polls, 2 times",
        [
            Observation(
                f"a left: its application did not poll in time, {after} s after it had got its assignment", None, when
            )
            for after, when in (("8.0", at(10)), ("9.5", at(20)))
        ],
        0.5,
        ["a"],
    )
    assert found.advice.endswith("done twice.")


def test_one_that_left_and_came_back_as_a_whole() -> None:
    left = Evidence("it left", 5, None, 0.9, "member_left")
    came_back = Evidence("it came back", None, None, 0.4, "poll_timeout", rejected=True)
    history = rebalances(10, 20, trigger="member_left", trigger_client_id="a", evidence=[left, came_back])
    (found,) = of_kind("leaving_and_returning", history)
    whole(
        found,
        Severity.WARNING,
        "a left without a reason and came back, 2 times: as one slower than max.poll.interval.ms",
        [
            Observation("a left, and came back", 5, at(10)),
            # The members of the generation that it disturbed had their assignments by then.
            Observation("a left, and came back, 10.0 s after it had got its assignment", 5, at(20)),
        ],
        0.5,
        ["a"],
    )
    assert found.advice.endswith("it unsubscribes and subscribes anew.")
    often = rebalances(*range(6), trigger="member_left", trigger_client_id="a", evidence=[left, came_back])
    assert of_kind("leaving_and_returning", often)[0].severity == Severity.WARNING


def test_only_what_each_left_in_the_midst_of_is_told_the_first_time() -> None:
    """Two clients, one of which commits in the moment in which it leaves."""
    came_back = Evidence("it came back", None, None, 0.4, "poll_timeout", rejected=True)
    history = triggered(rebalances(10, 20, evidence=[came_back]), ("member_left", "a"), ("member_left", "b"))
    said = Conversation()
    said.say(1_000, "OffsetCommit", "a", {}, {})
    said.say(10_000, "OffsetCommit", "a", {}, {})
    said.say(1_000, "TxnOffsetCommit", "b", {}, {})
    said.say(20_000, "Heartbeat", "b", {}, {})
    (found,) = of_kind("leaving_and_returning", history, said)
    assert found.client_ids == ["b"]


@pytest.mark.parametrize(
    ("limits", "within"),
    [
        ((4_000, 4_000), " in 4.0 s"),
        ((60_000, 4_000), " in 4.0 s or 60.0 s"),
        ((None, 4_000), " in 4.0 s"),
        ((None, None), " in time"),
    ],
)
def test_rebalance_timeouts_as_a_whole(limits: tuple[int | None, int | None], within: str) -> None:
    out = Evidence("it was taken out", 9, None, 1, "rebalance_timeout")
    history = rebalances(0, 10, 20, protocol="connect", evidence=[out])
    triggered(history, ("member_joined", "c"), ("rebalance_timeout", "a"), ("rebalance_timeout", "a"))
    for rebalance, limit in zip(history.rebalances, limits, strict=False):
        rebalance.members = [Member("a~1", "a", rebalance_timeout_ms=limit)]
    (found,) = of_kind("rebalance_timeout", history)
    whole(
        found,
        Severity.WARNING,
        f"a did not join again{within}, 2 times",
        [
            Observation(f"generation {number}: a did not join again in time, and was taken out", 9, at(time))
            for number, time in ((2, 10), (3, 20))
        ],
        0.5,
        ["a"],
    )


@pytest.mark.parametrize("certainty", ["certain", "likely", "guessed"])
@pytest.mark.parametrize(("count", "weight"), [(1, 0.6), (2, 0.7), (4, 0.9), (5, 0.9)])
def test_lost_members_as_a_whole(count: int, weight: float, certainty: str) -> None:
    heard = [
        Evidence("nothing was heard of it", 7, at(0), 0.9, "session_timeout"),
        Evidence("it said nothing", None, at(1), 0.9, "session_timeout", rejected=True),
        Evidence("it left", 8, at(1), 0.9, "member_left"),
    ]
    history = rebalances(*range(count), trigger="session_timeout", evidence=heard, certainty=certainty)
    (found,) = of_kind("member_lost", history)
    was = "may have been" if certainty == "guessed" else "was"
    whole(
        found,
        Severity.WARNING,
        f"a member {was} lost: the broker heard nothing from it for its session timeout"
        + (f", {count} times" if count > 1 else ""),
        [Observation(f"generation {number + 1}: nothing was heard of it", 7, at(0)) for number in range(count)],
        weight,
        [],
        (at(0), at(count - 1)),
    )


@pytest.mark.parametrize(
    ("events", "lost"), [([("left", 0)], 0), ([("left", 0), ("joined", 1)], 1), ([("left", 9)], 1)]
)
def test_a_static_member_that_had_said_that_it_goes_was_not_lost(events: list[tuple[str, int]], lost: int) -> None:
    history = rebalances(5, trigger="session_timeout", trigger_member="a~1")
    history.events.extend(Event("g", at(second), kind, "a~1") for kind, second in events)
    assert len(of_kind("member_lost", history)) == lost


def test_a_tight_session_timeout_as_a_whole() -> None:
    said = Conversation()
    said.join(0, "a~1", generation=1, session=10_000)
    said.join(1, "a~1", error="MEMBER_ID_REQUIRED", session=30_000)
    said.say(2, "JoinGroup", "a", None, {"memberId": "a~1"})  # its request is not in the capture
    for time in (1_000, 6_000, 12_000, 42_000):
        said.heartbeat(time, "a~1", 1)
    said.heartbeat(12_100, "a~1", 1, error="REBALANCE_IN_PROGRESS")
    for time in (60_000, 67_000, 75_000):  # time between connections is no time between heartbeats
        said.heartbeat(time, "a~1", 1, host="another")
    (found,) = of_kind("session_timeout_tight", GroupHistory(), said)
    whole(
        found,
        Severity.WARNING,
        "a: session.timeout.ms 10,000 leaves room for 1.8 heartbeats",
        [Observation("heartbeats every 5,500 ms (a quarter of 5 came faster)", 8, at(1))],
        0.6,
        ["a"],
        (at(1), at(75)),
    )


def test_heartbeats_held_up_as_a_whole() -> None:
    said = Conversation()
    said.say(0, "OffsetCommit", "a", {}, {}, took=3_000)
    said.say(1, "OffsetFetch", "a", {}, {}, took=500)  # was answered before the commit
    said.say(2, "OffsetFetch", "a", {}, None)
    said.heartbeat(1_000, "a~1", 1, took=2_500)
    said.heartbeat(2_999, "a~1", 1, took=1_001)
    said.heartbeat(3_000, "a~1", 1, took=9_000)  # nothing that was asked before is open
    said.say(2_998, "Heartbeat", "a", {}, None)
    said.heartbeat(1_000, "b~1", 1, took=9_000)
    said.say(0, "OffsetCommit", "c", {}, {}, took=2_000)
    said.say(1, "ConsumerGroupHeartbeat", "c", {}, {}, took=1_500)
    (found,) = of_kind("heartbeat_held_up", GroupHistory(), said)
    whole(
        found,
        Severity.WARNING,
        "Heartbeats of a, c waited behind slow requests on the same connection, up to 2.5 s",
        [
            Observation(
                "ConsumerGroupHeartbeat answered after 1.5 s: OffsetCommit (packet 18) before it took 2.0 s",
                20,
                at(0.001),
            ),
            Observation("Heartbeat answered after 2.5 s: OffsetCommit (packet 2) before it took 3.0 s", 8, at(1)),
            Observation("Heartbeat answered after 1.0 s: OffsetCommit (packet 2) before it took 3.0 s", 10, at(2.999)),
        ],
        0.333,
        ["a", "c"],
    )


def test_three_are_named_whose_heartbeats_waited_most_often() -> None:
    said = Conversation()
    for often, client in enumerate("dcba", 1):
        said.say(0, "OffsetCommit", client, {}, {}, took=2_000)
        for _ in range(often):
            said.heartbeat(1, f"{client}~1", 1, took=1_500)
    (found,) = of_kind("heartbeat_held_up", GroupHistory(), said)
    assert found.title.startswith("Heartbeats of a, b, c waited")


def test_an_eager_assignor_as_a_whole() -> None:
    """The first generation, those of another assignor or protocol, and of one member, stop nothing that need not be."""
    joined = Evidence("it joined", 9, None, 1, "member_joined")
    history = rebalances(*range(8), trigger="member_joined", evidence=[joined], unowned_ms=1_500, moved=["t-1"])
    history.rebalances[1].assignor = "cooperative-sticky"
    history.rebalances[2].protocol = "consumer"
    history.rebalances[3].members = history.rebalances[3].members[:1]
    history.rebalances[4].unowned_ms = None
    history.rebalances[5].unowned = [Unowned("t-0", 0, 1_500), Unowned("t-1", 0, 1_500)]
    history.rebalances[7].assignor = "roundrobin"
    (found,) = of_kind("eager_assignor", history)
    whole(
        found,
        Severity.INFO,
        "The eager assignor roundrobin stopped all partitions in 3 rebalances, 4.5 s in all",
        [
            Observation(f"generation {number}: {what} without owner for up to 1,500 ms, 1 moved", 9, at(number - 1))
            for number, what in ((6, "2 partitions"), (7, "0 partitions"), (8, "0 partitions"))
        ],
        0.5,
        [],
    )


def owners(*counts: int | None, topics: tuple[str, ...] = ("t",)) -> list[Member]:
    """Members a, b, ... with so many partitions; None: not known."""
    return [
        Member(
            f"{name}~1",
            name,
            subscription=list(topics),
            assignment=None if count is None else [f"t-{number}" for number in range(count)],
        )
        for name, count in zip("abcdef", counts, strict=False)
    ]


@pytest.mark.parametrize(
    ("counts", "severity", "title"),
    [
        ((6, 3), Severity.WARNING, "a has 6 partitions, b 3"),
        ((2, 0), Severity.WARNING, "a has 2 partitions, b none"),
        ((1, 0), None, ""),  # is how numbers divide
        ((2, 1), None, ""),
        ((2, 0, 0), Severity.INFO, "a has 2 partitions, b none; 2 of 3 members have nothing to do"),
        ((3, 0, 0), Severity.WARNING, "a has 3 partitions, b none; 2 of 3 members have nothing to do"),
        ((6, None), None, ""),
        ((6, None, 3), Severity.WARNING, "a has 6 partitions, c 3"),
    ],
)
def test_what_is_uneven(counts: tuple[int | None, ...], severity: Severity | None, title: str) -> None:
    joined = Evidence("it joined", 9, None, 1, "member_joined")
    history = rebalances(5, members=owners(*counts), trigger="member_joined", evidence=[joined])
    found = of_kind("uneven_assignment", history)
    assert [(each.severity, each.title) for each in found] == ([(severity, title)] if severity else [])
    if counts == (6, 3):
        text = "generation 1, assignor range, topics t: b 3, a 6"
        whole(found[0], Severity.WARNING, title, [Observation(text, 9, at(5))], 0.5, [], (at(5), None))


@pytest.mark.parametrize(
    ("counts", "title", "clients"),
    [
        ((1, 0), "1 of 2 members has nothing to do: there is 1 partition", ["b"]),
        ((1, 1, 0, 0), "2 of 4 members have nothing to do: there are 2 partitions", ["c", "d"]),
        ((1, 1, None, 0), "", []),
        ((1, 1), "", []),
        ((2, 1, 0), "", []),  # who has two may give one up
    ],
)
@pytest.mark.parametrize(("until", "enough"), [(25, True), (24, False)])
def test_members_beyond_the_number_of_partitions(
    counts: tuple[int | None, ...], title: str, clients: list[str], until: int, enough: bool
) -> None:
    said = Conversation()
    said.heartbeat(until * 1000, "a~1", 1, took=0)
    found = of_kind("members_idle", rebalances(5, members=owners(*counts)), said)
    assert [(each.severity, each.title, each.client_ids) for each in found] == (
        [(Severity.INFO, title, clients)] if title and enough else []
    )


def test_who_had_nothing_to_do_for_long_is_told_whatever_the_last_generation_was() -> None:
    said = Conversation()
    said.heartbeat(120_000, "a~1", 1, took=0)
    history = rebalances(5, 65, members=owners(1, 0))
    history.rebalances[1].members = owners(2, 2)
    (found,) = of_kind("members_idle", history, said)
    assert (found.since, found.until) == (at(5), at(65))


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ({}, 1),
        ({"protocol": "consumer"}, 1),
        ({"protocol": "share"}, 0),  # members share partitions
        ({"stable": None}, 0),
        ({"members": owners(6)}, 0),
    ],
)
def test_assignments_are_judged_where_several_members_have_partitions_of_their_own(
    last: dict[str, Any], found: int
) -> None:
    assert len(of_kind("uneven_assignment", rebalances(0, **{"members": owners(6, 3)} | last))) == found


@pytest.mark.parametrize(("before", "found"), [(6, 1), (7, 0)])
def test_while_partitions_wait_to_be_given_out_nothing_is_uneven(before: int, found: int) -> None:
    """One has given up what the other, which had none when the capture ends or it dies, is to have."""
    members = owners(6, 0)
    members[0].assignment_before = [f"t-{number}" for number in range(before)]
    assert len(of_kind("uneven_assignment", rebalances(0, members=members))) == found


def test_what_was_uneven_before_all_but_one_left_is_told() -> None:
    history = rebalances(0, 1, members=owners(6, 3))
    history.rebalances[1].members = owners(9)
    (found,) = of_kind("uneven_assignment", history)
    assert found.title == "a has 6 partitions, b 3"


def test_members_that_read_other_topics_are_not_compared() -> None:
    several, one = owners(6, 3, topics=("t", "u")), owners(1, topics=("t",))
    assert of_kind("uneven_assignment", rebalances(0, members=[several[0], one[0]])) == []
    (found,) = of_kind("uneven_assignment", rebalances(0, members=[*several, *one]))
    assert found.evidence[0].text == "generation 1, assignor range, topics t, u: b 3, a 6"


def test_partitions_without_owner_as_a_whole() -> None:
    left = Evidence("it left", 9, None, 1, "member_left")
    history = rebalances(0, 20, trigger="member_left", evidence=[left])
    history.rebalances[0].unowned = [Unowned("t-0", at(0), 15_000), Unowned("t-1", at(1), 9_999)]
    history.rebalances[1].unowned = [Unowned("t-1", at(21), 30_000.0), Unowned("t-0", at(20), 10_000)]
    (found,) = of_kind("partition_unowned", history)
    whole(
        found,
        Severity.WARNING,
        "2 partitions had no owner for up to 30.0 s: t 0-1",
        [
            Observation("t-1: nobody's for 30.0 s, generation 2 (member_left)", 9, at(21)),
            Observation("t-0: nobody's for 15.0 s, generation 1 (member_left)", 9, at(0)),
            Observation("t-0: nobody's for 10.0 s, generation 2 (member_left)", 9, at(20)),
        ],
        0.5,
        [],
    )
    for rebalance in history.rebalances:  # of a group without members nobody could own them
        rebalance.members = []
    assert of_kind("partition_unowned", history) == []


def test_slow_members_as_a_whole() -> None:
    joined = Evidence("it joined", 9, None, 1, "member_joined")
    history = rebalances(0, 10, 20, 30, trigger="member_joined", evidence=[joined], last_by_ms=5_000.0)
    for rebalance, client in zip(history.rebalances, ("a", "b", None, "a"), strict=True):
        rebalance.last_client_id = client
    history.rebalances[3].last_by_ms = 15_000
    slowest, other = of_kind("slow_to_join", history)
    whole(
        slowest,
        Severity.WARNING,
        "All others waited for a up to 15.0 s in 2 rebalances",
        [
            Observation("generation 1: a came 5.0 s after all others", 9, at(0)),
            Observation("generation 4: a came 15.0 s after all others", 9, at(30)),
        ],
        0.5,
        ["a"],
    )
    assert (other.title, other.weight) == ("All others waited for b up to 5.0 s in 1 rebalance", 0.25)


def test_refused_commits_as_a_whole() -> None:
    said = Conversation()
    errors = ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", None, "ILLEGAL_GENERATION")
    for number, error in enumerate(errors):
        said.say(1_000 * number, "OffsetCommit", "a", {}, {}, error=error)
        said.say(1_000 * number, "Heartbeat", "a", {}, {}, error="ILLEGAL_GENERATION")
    (found,) = of_kind("commit_refused", GroupHistory(), said)
    whole(
        found,
        Severity.WARNING,
        "a: 3 commits refused (ILLEGAL_GENERATION 2 times, UNKNOWN_MEMBER_ID 1 times)",
        [Observation(f"OffsetCommit answered {errors[number]}", 4 * number + 2, at(number)) for number in (0, 1, 3)],
        0.375,
        ["a"],
    )


def test_commits_of_one_that_is_no_member_are_told_as_such() -> None:
    said = Conversation()
    for number in range(3):
        said.say(1_000 * number, "OffsetCommit", "a", {"memberId": ""}, {}, error="UNKNOWN_MEMBER_ID")
        said.say(1_000 * number, "OffsetCommit", "b", {"memberId": "b~1"}, {}, error="UNKNOWN_MEMBER_ID")
    nobody, member = of_kind("commit_refused", GroupHistory(), said)
    assert nobody.title == "a: 3 commits of no member refused (UNKNOWN_MEMBER_ID 3 times)"
    assert "a group.id of its own" in nobody.advice
    assert member.title == "b: 3 commits refused (UNKNOWN_MEMBER_ID 3 times)"
    assert "It must poll()" in member.advice


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("OFFSET_METADATA_TOO_LARGE", "Commit less metadata"),
        ("REBALANCE_IN_PROGRESS", "It commits as a member that it is no longer"),
        ("ILLEGAL_GENERATION", "It commits as a member that it is no longer"),
        ("error 1234", ADVICE_BY_KIND[False]),
    ],
)
def test_what_to_do_about_commits_goes_by_what_most_were_refused_for(error: str, advice: str) -> None:
    said = Conversation()
    for number, each in enumerate([error, error, "STALE_MEMBER_EPOCH"]):
        said.say(1_000 * number, "OffsetCommit", "a", {"memberId": "a~1"}, {}, error=each)
    (found,) = of_kind("commit_refused", GroupHistory(), said)
    assert found.advice.startswith(advice)


@pytest.mark.parametrize(
    ("count", "way"),
    [
        (5, "classic → consumer → classic → consumer → classic"),
        (6, "classic → consumer → classic → consumer → classic and 1 more"),
    ],
)
def test_a_title_has_four_changes_of_a_protocol(count: int, way: str) -> None:
    history = rebalances(*range(count))
    for rebalance in history.rebalances[1::2]:
        rebalance.protocol = "consumer"
    (change,) = of_kind("protocol_changed", history)
    assert (change.title, change.weight) == (f"The group changed its protocol: {way}", 0.3)


@pytest.mark.parametrize(
    ("brokers", "moved", "weight", "seen_at"),
    [
        (["broker 2"], "moved", 0.2, [0]),
        (["broker 2", "broker 2", "broker 1"], "moved 2 times", 0.333, [0, 2]),
        ([None], "moved", 0.2, [0]),
    ],
)
def test_a_coordinator_that_moves_as_a_whole(
    brokers: list[str | None], moved: str, weight: float, seen_at: list[int]
) -> None:
    """What several clients say of one move is one, from the first on."""
    moves = [Event("g", at(time), "coordinator_moved", packet=time + 7, detail=to) for time, to in enumerate(brokers)]
    (found,) = of_kind("coordinator_moved", GroupHistory(events=[Event("g", at(0), "joined"), *moves]))
    whole(
        found,
        Severity.INFO,
        f"The group's coordinator {moved}",
        [Observation(brokers[time] or "another broker is coordinator", time + 7, at(time)) for time in seen_at],
        weight,
        [],
    )


@given(
    synced=st.lists(st.one_of(st.none(), st.integers(0, 40)), min_size=1, max_size=8),
    left=st.lists(st.integers(1, 40), min_size=1, max_size=8, unique=True),
)
def test_a_late_poll_is_told_from_the_last_assignment_before_it(synced: list[int | None], left: list[int]) -> None:
    history = rebalances(*sorted(left), trigger="poll_timeout", trigger_client_id="a", stable=None)
    for number, seconds in enumerate(synced):
        member = Member("a~1", "a", synced=None if seconds is None else at(seconds), rebalance_timeout_ms=number + 1)
        history.rebalances.append(Rebalance("g", "classic", 100 + number, members=[member]))
    expected = []
    limits = set()
    for leaving in sorted(left):
        before = [(number, seconds) for number, seconds in enumerate(synced) if seconds is not None]
        before = [each for each in before if each[1] < leaving]
        expected.append(f", {in_seconds((leaving - before[-1][1]) * 1000)} after" if before else "in time")
        limits |= {f"{number + 1:,}" for number, _ in before[-1:]}
    (finding,) = of_kind("poll_timeout", history)
    assert all(words in each.text for words, each in zip(expected, finding.evidence, strict=True))
    assert f" ({', '.join(sorted(limits))} ms)" in finding.title if limits else " ms)" not in finding.title
