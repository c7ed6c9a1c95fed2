"""Members that work too slowly, or give their partitions up too slowly."""

from __future__ import annotations

import pytest

from tests.reports.incidents.tables_of import (
    B1,
    B2,
    CLIENT,
    H1,
    H2,
    at,
    connection,
    error,
    exchange,
    finding,
    found,
    member,
    names,
    only,
    rebalance,
    seconds,
)


def test_members_that_poll_too_late_are_one_incident_of_the_group() -> None:
    rows = [
        rebalance("poll_timeout", 4, 20, trigger_client_id="c1"),
        rebalance("poll_timeout", 5, 30, trigger_client_id="c1", certainty="likely"),
        rebalance("member_joined", 6, 31, contributing=[{"trigger": "poll_timeout", "client_id": "c2"}]),
    ]
    told = finding("poll_timeout", "group shop", "c1 left 2 times", 20, 31, client_ids=["c3"])
    one = only(rebalances=rows, findings=[told], connections=[CLIENT])
    assert (one.kind, one.severity, one.certainty) == ("slow_processing", "warning", "certain")
    assert names(one) == ["shop", "c1", H1, "c2", "c3"]
    assert "(c1 2 times, c2 1 time, c3, from" in one.headline
    assert (seconds(one.started), seconds(one.ended)) == (20, 32)
    assert [seen.text for seen in one.evidence] == ["c1 left 2 times"]
    assert one.rebalances == {("shop", 4), ("shop", 5), ("shop", 6)}
    assert one.findings == {"poll_timeout group shop"}


def test_of_members_with_one_name_it_is_that_which_polls_too_late() -> None:
    clients = [connection(number, host, client_id="rdkafka") for number, host in ((1, H1), (2, H2), (3, B2))]
    members = [member("rdkafka", H1, "one"), member("rdkafka", H2, "two")]
    row = rebalance("poll_timeout", 4, 20, trigger_client_id="rdkafka", trigger_member="two", members=members)
    assert names(only(rebalances=[row], connections=clients)) == ["shop", "rdkafka", H2]
    unknown = row | {"trigger_member": None}
    assert names(only(rebalances=[unknown], connections=clients)) == ["shop", "rdkafka", H1, H2]


def test_a_storm_of_poll_timeouts_is_critical_and_one_that_was_read_from_little_likely() -> None:
    row = rebalance("poll_timeout", 4, 20, trigger_client_id="c1", certainty="likely")
    assert only(rebalances=[row]).certainty == "likely"
    storm = finding("rebalance_storm", "group shop", "t", 10, 90)
    one = only(rebalances=[row], findings=[storm])
    assert (one.severity, [*one.findings]) == ("critical", ["rebalance_storm group shop"])
    assert only(rebalances=[row], findings=[storm | {"subject": "group other"}]).severity == "warning"


@pytest.mark.parametrize(
    ("software", "session_timeout_ms", "allowed"),
    [
        ("apache-kafka-java", 8_000, "max.poll.interval.ms (8.0 s) allows"),
        (None, 6_000, "max.poll.interval.ms (8.0 s) allows"),  # a capture that began later
        (None, 8_000, "its poll interval allows"),  # aiokafka tells its session timeout
        ("sarama", 6_000, "its poll interval allows"),
    ],
)
def test_a_rebalance_timeout_may_be_no_poll_interval(
    software: str | None, session_timeout_ms: int, allowed: str
) -> None:
    timeouts = {"session_timeout_ms": session_timeout_ms, "rebalance_timeout_ms": 8_000}
    row = rebalance(
        "poll_timeout", 4, 20, trigger_client_id="c1", members=[member("c1") | {"software": software} | timeouts]
    )
    assert f" longer over its records than {allowed} (c1 " in only(rebalances=[row]).headline


def test_acknowledgements_behind_the_lock_are_slow_processing() -> None:
    late = error("INVALID_RECORD_STATE", "ShareAcknowledge", 20, 25, 7, topic="orders", partition=1, group_id="sharers")
    one = only(error_histogram=[late, late | {"api": "ShareFetch", "count": 2}])
    assert (one.kind, names(one)) == ("slow_processing", ["c1", "sharers"])
    assert "9 acknowledgements refused" in one.headline
    for other in ({"error": "NOT_COORDINATOR"}, {"api": "Produce"}, {"client_id": None}):
        assert not any(one.kind == "slow_processing" for one in found(error_histogram=[late | other]))


@pytest.mark.parametrize("trigger", ["rebalance_timeout", "sync_timeout"])
def test_members_that_do_not_come_back_in_time_give_up_too_slowly(trigger: str) -> None:
    late = rebalance(trigger, 4, 20, trigger_client_id="c1")
    (one,) = found(rebalances=[late])
    assert (one.kind, names(one)) == ("slow_revocation", ["shop", "c1"])
    what = "come back to the rebalance" if trigger == "rebalance_timeout" else "ask for its assignment"
    assert f"c1 of group shop did not {what} in time, 1 time" in one.headline
    beside = rebalance("member_joined", 5, 40, contributing=[{"trigger": trigger, "client_id": None}])
    (one,) = found(rebalances=[beside])
    assert one.headline.startswith("a member of group shop did not")


@pytest.mark.parametrize(
    ("leader", "member_id", "leads"),
    [("c1-id", "c1-id", True), ("c2-id", "c1-id", False), ("c1-id", "c1-other", False), ("gone-id", "c1-id", False)],
)
def test_a_leader_does_not_ask_for_its_assignment_but_sends_it(leader: str, member_id: str, leads: bool) -> None:
    before = rebalance("member_joined", 3, 8, members=[member("c1"), member("c2")], leader=leader)
    late = rebalance("sync_timeout", 4, 20, trigger_client_id="c1", trigger_member=member_id)
    one = only(rebalances=[before, late])
    what, other = "send the assignment that all members wait for", "ask for its assignment"
    assert f"c1 of group shop did not {what if leads else other} in time, 1 time" in one.headline
    assert (other in one.evidence[0].text, "what held up the leader" in one.advice) == (not leads, leads)


def test_of_members_that_were_late_in_several_ways_each_is_told() -> None:
    before = rebalance("member_joined", 3, 8, members=[member("c1"), member("c2")], leader="c1-id")
    beside = [{"trigger": "sync_timeout", "client_id": "c1"}]
    late = rebalance("sync_timeout", 4, 20, trigger_client_id="c2", trigger_member="c2-id", contributing=beside)
    one = only(rebalances=[before, late])
    assert "c1, c2 of group shop did not send the assignment that all members wait for or ask for" in one.headline
    assert [seen.text.partition(" within")[0] for seen in one.evidence] == [
        "c2 did not ask for its assignment",
        "c1 did not send the assignment that all members wait for",
    ]


@pytest.mark.parametrize(
    ("answered", "protocol", "client_id", "ms"),
    [
        ([2, 21], "classic", "c1", 7_000),  # its heartbeats went on for longer
        ([2, 27.5], "classic", "c1", 500),
        ([2], "classic", "c1", 8_000),  # it had stopped before: that is not of the rebalance
        ([21, 29], "classic", "c1", 7_000),  # when it was back
        ([], "classic", "c1", 1_000),
        ([21], "classic", "c2", 1_000),
        ([21], "consumer", "c1", 1_000),
    ],
)
def test_nobody_reads_what_one_has_that_asks_for_no_records_though_its_heartbeats_go_on(
    answered: list[float], protocol: str, client_id: str, ms: float
) -> None:
    members = [member(f"c{n}") | {"assignment": [f"orders-{n - 1}"]} for n in (1, 2)]
    rows = [
        rebalance("member_joined", 3, 1, members=members, protocol=protocol),
        rebalance(
            "member_joined",
            4,
            20,
            stable=28,
            protocol=protocol,
            contributing=[{"trigger": "rebalance_timeout", "client_id": "c1"}],
            unowned=[{"partition": f"orders-{n}", "since": at(27), "ms": ms} for n, ms in ((0, 1_000.0), (1, 300.0))],
            unowned_ms=1_000.0,
        ),
    ]
    fetches = [exchange(n, "Fetch", time, time, client_id=client_id, api_key=1) for n, time in enumerate(answered)]
    one = only(rebalances=rows, exchanges=fetches, connections=[connection(1, H1, B1, "c1")])
    assert one.kind == "slow_revocation"
    assert (one.effects[1].count, one.effects[1].duration_ms) == (2, ms)


def test_one_that_polls_too_late_is_not_told_of_twice() -> None:
    rows = [
        rebalance("rebalance_timeout", 4, 20, trigger_client_id="c1"),
        rebalance("poll_timeout", 5, 30, trigger_client_id="c1"),
    ]
    assert [one.kind for one in found(rebalances=rows)] == ["slow_processing"]
    rows[1]["trigger_client_id"] = "c2"
    assert {one.kind for one in found(rebalances=rows)} == {"slow_processing", "slow_revocation"}
