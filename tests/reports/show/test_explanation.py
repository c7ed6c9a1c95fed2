"""Explanations in words: each case of what can be known of a rebalance."""

from __future__ import annotations

import dataclasses
from typing import Any

from kafkascope.reports.groups.history import Contributing, Evidence, Member, Rebalance, Unowned
from kafkascope.reports.show.explanation import explain, explain_incident
from tests.reports.show.made_incidents import DOWN, other

SECOND = 1_000_000_000
BEGIN = 1_795_241_060 * SECOND  # 2026-11-21 06:04:20


def lines(**changes: Any) -> list[str]:
    whole = Rebalance(
        group_id="orders",
        protocol="classic",
        from_generation=4,
        to_generation=5,
        started=BEGIN,
        joined=BEGIN + SECOND,
        stable=BEGIN + 2 * SECOND,
        recovered=BEGIN + 2 * SECOND + 500_000_000,
        trigger="poll_timeout",
        trigger_client_id="c2",
        certainty="certain",
        assignor="range",
        evidence=[Evidence("LeaveGroup of c2", 835, BEGIN, 1.0, "poll_timeout")],
    )
    return explain(dataclasses.replace(whole, **changes)).split("\n")


def test_it_begins_with_the_generation_the_trigger_and_the_evidence() -> None:
    told = lines()
    assert told[0] == "Group orders, generation 4 → 5 (classic protocol, assignor range)"
    assert told[2].startswith("Trigger: poll_timeout, c2 (certain): a member's application did not poll")
    assert told[3] == "  + 06:04:20.000 packet 835: LeaveGroup of c2 (weight 1.00)"


def test_times_count_from_the_start() -> None:
    told = lines(last_client_id="c1", last_by_ms=651.4)
    assert "Started   2026-11-21 06:04:20.000" in told
    assert "Joined    2026-11-21 06:04:21.000  after 1,000 ms" in told
    assert "Stable    2026-11-21 06:04:22.000  after 2,000 ms" in told
    assert "Recovered 2026-11-21 06:04:22.500  after 2,500 ms" in told
    assert "Last was c1, 651 ms after the one before it." in told


def test_without_a_start_nothing_is_counted_from_it() -> None:
    told = lines(started=None, members=[Member("c1-1", "c1", joined=BEGIN)])
    assert "Started   unknown" in told
    assert "Stable    2026-11-21 06:04:22.000" in told
    assert "  c1" in told


def test_rejected_readings_are_told_after_those_that_hold() -> None:
    told = lines(
        evidence=[
            Evidence("every member had spoken", None, None, 0.2, "session_timeout", rejected=True),
            Evidence("LeaveGroup of c2", 835, BEGIN, 1.0, "poll_timeout"),
        ]
    )
    assert told[3].startswith("  + ")
    assert told[4] == "  - not session_timeout: every member had spoken (weight 0.20)"


def test_what_came_while_it_was_open_is_told_once() -> None:
    told = lines(
        evidence=[
            Evidence("LeaveGroup of c2", 835, BEGIN, 1.0, "poll_timeout"),
            Evidence("JoinGroup of c9; but later", 882, BEGIN + SECOND, 0.5, "member_joined", rejected=True),
            Evidence("it is no session timeout", 882, BEGIN + SECOND, 0.5, "session_timeout", rejected=True),
        ],
        contributing=[
            Contributing("member_joined", "c9", BEGIN + SECOND, 882),
            Contributing("topic_partitions_changed", None, BEGIN + SECOND, None),
        ],
    )
    text = "\n".join(told)
    assert "but later" not in text
    assert "  - not session_timeout: packet 882: it is no session timeout (weight 0.50)" in told
    where = told.index("While it was open:")
    assert told[where + 1] == "    06:04:21.000 packet 882: member_joined, c9: a new member came into the group"
    assert told[where + 2].startswith("    06:04:21.000 topic_partitions_changed: a topic of the group")


def test_inferred_ones_say_so() -> None:
    sentence = "No message in the capture names this {}: it is inferred from what happened."
    assert sentence.format("generation") in lines(inferred=True)
    assert sentence.format("epoch") in lines(inferred=True, protocol="consumer")
    assert "inferred" not in "\n".join(lines())


def test_epochs_are_called_epochs_and_the_first_has_none_before_it() -> None:
    assert lines(protocol="consumer", assignor=None)[0] == "Group orders, epoch 4 → 5 (consumer protocol)"
    assert lines(from_generation=None)[0] == "Group orders, generation 5 (classic protocol, assignor range)"
    assert lines(protocol="connect")[0].startswith("Group orders, generation 4 → 5 (connect protocol")


def test_one_that_never_became_stable_says_so() -> None:
    told = lines(joined=None, stable=None, recovered=None)
    assert "It never became stable, as far as the capture shows." in told
    assert not [line for line in told if line.startswith(("Joined", "Stable", "Recovered"))]


def test_unknown_says_that_nothing_tells() -> None:
    told = lines(trigger="unknown", trigger_client_id=None, certainty="guessed", evidence=[])
    assert told[2] == "Trigger: unknown (guessed): the capture does not show what set it off"
    assert told[3] == "  nothing in the capture tells"
    assert "no meaning is known" in lines(trigger="made_up")[2]


def test_members_with_all_that_is_known() -> None:
    full = Member(
        "c1-1",
        "c1",
        "10.0.0.1",
        "inst-1",
        "apache-kafka-java",
        "4.3.1",
        joined=BEGIN + 250_000_000,
        sync_ms=12.4,
        assignment_before=["orders-0"],
        assignment=["orders-0", "orders-1", "orders-3"],
    )
    old = Member("c2-1", joined=BEGIN - 5 * SECOND, assignment_before=[], assignment=[])
    told = lines(members=[full, old], leader="c1-1", moved=["orders-1"])
    assert "2 members:" in told
    assert (
        "  c1: 10.0.0.1, apache-kafka-java 4.3.1, instance inst-1, leader, joined +250 ms, assignment after 12 ms"
        in told
    )
    assert "      has orders 0-1,3, had orders 0" in told
    assert "  c2-1: a member for 5.0 s" in told
    assert "      has nothing" in told
    assert "Moved: orders 1" in told
    assert "      has unknown" in lines(members=[Member("c1-1")])
    assert "No members." in lines(members=[], stable=BEGIN)
    assert "Its members are not known." in lines(members=[], stable=None)


def test_what_it_cost() -> None:
    gaps = [Unowned("orders-0", BEGIN, 10.0), Unowned("orders-1", BEGIN, 1721.4)]
    told = lines(unowned=gaps, reread_records=1363)
    assert "Without owner: 2 partitions, the longest for 1,721 ms" in told
    assert "Read a second time: 1,363 records" in told
    assert not [line for line in lines(reread_records=0) if line.startswith(("Without", "Read"))]


def test_an_incident_in_words() -> None:
    assert explain_incident(DOWN).splitlines() == [
        "critical: broker 2 (10.0.0.2) went away (certain)",
        "From 2026-11-21 07:02:09.000, not over when the capture ended: a broker went away without notice: its process "
        "was killed or crashed, or its host is off.",
        "",
        "What came of it:",
        "    4 leaders moved",
        "",
        "How one knows:",
        "  + 07:02:10.000 packet 77: connects refused (weight 0.90)",
        "  -              rejected: announced (weight 0.30)",
        "",
        "It explains 1 finding and rebalances shop → 4",
        "",
        "What to do: Look at the log.",
    ]


def test_an_incident_that_is_over_and_explains_nothing() -> None:
    text = explain_incident(other(1))
    assert "until 2026-11-21 07:02:01.000: an administrator changed something." in text
    assert "It explains" not in text
    assert "What came of it" not in text
    assert "\u202e" not in text
