"""Rules about clients: where each begins to speak, that it is silent below, and what it says."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafkascope.reports.findings.client_rules import busiest, client_findings
from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.measures.client_facts import CAPTURE, Fact
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.issue_kinds import ISSUE_KINDS
from kafkascope.reports.vocabulary.thresholds import THRESHOLDS

SECOND = 1_000_000_000
BROKER = "10.0.0.1:9092"
OTHER_BROKER = "10.0.0.2:9092"


def fact(kind: str, span: float = 0, **values: Any) -> Fact:
    """A fact in the span that begins at so many seconds."""
    base = Fact("c (10.0.0.9)", kind, None, None, None, BROKER, int(span * SECOND), 1, None, None, None, 0, 0, 3)
    given: dict[str, Any] = {"first_at": base.span, "last_at": base.span} | values
    return dataclasses.replace(base, **given)


ENDED = fact("connection", span=3, what="fin", number=7)


def sequence(span: int, producer: str = "1000/0", what: str = "t-0", **values: Any) -> Fact:
    """Sequence numbers that a producer sent in a span."""
    return fact("sequence", span, api=producer, what=what, **values)


def kinds(*facts: Fact) -> list[str]:
    return [finding.kind for finding in client_findings("c (10.0.0.9)", facts)]


# Facts that are just enough for a finding, and the same just not enough.
CASES: dict[str, tuple[list[Fact], list[Fact]]] = {
    "metadata_storm": (
        [fact("request", api="Metadata", count=40)],
        [fact("request", api="Metadata", count=39)],
    ),
    "commit_storm": (
        [fact("request", api="OffsetCommit", count=500)],
        [fact("request", api="OffsetCommit", count=499), fact("request", 10, api="OffsetCommit", count=499)],
    ),
    "connection_churn": (
        [fact("connection", what="fin", most=10, span=s, count=4) for s in (0, 10, 20, 30, 50)],
        [fact("connection", what="fin", most=10, span=s, count=4) for s in (0, 20, 40, 60, 80)],
    ),
    "api_versions_storm": (
        [fact("request", api="ApiVersions", count=30)],
        [fact("request", api="ApiVersions", count=29)],
    ),
    "authentication_failed": (
        [fact("error", api="SaslAuthenticate", what="SASL_AUTHENTICATION_FAILED")],
        [fact("error", api="SaslAuthenticate", what="NETWORK_EXCEPTION")],
    ),
    "authorization_failed": (
        [fact("error", api="Produce", what="TOPIC_AUTHORIZATION_FAILED")],
        [fact("error", api="Produce", what="REQUEST_TIMED_OUT")],
    ),
    "unanswered": (
        [fact("unanswered", api="Produce", number=7), ENDED],
        [fact("unanswered", api="Produce", number=7), fact("connection", span=0, what="fin", number=7)],
    ),
    "sent_again": (
        [sequence(0, total=10, least=0, most=9), sequence(20, total=10, least=9, most=18)],
        [sequence(0, total=10, least=0, most=9), sequence(20, total=10, least=10, most=19)],
    ),
    "error_loop": (
        [fact("error", api="Fetch", what="CORRUPT_MESSAGE", span=s, count=10) for s in (0, 50)],
        [fact("error", api="Fetch", what="CORRUPT_MESSAGE", span=s, count=10) for s in (0, 60)],
    ),
    "leader_changed": (
        [fact("error", api="Produce", what="NOT_LEADER_OR_FOLLOWER")],
        [fact("error", api="Produce", what="INVALID_RECORD")],
    ),
    "old_protocol": (
        [fact("request", api="Fetch", number=3)],
        [fact("request", api="Fetch", number=4)],
    ),
    "throttled": (
        [fact("throttled", api="Produce", total=60, most=60), fact("throttled", api="Fetch", total=40, most=40)],
        [
            fact("throttled", api="Produce", total=60, most=60),
            fact("throttled", api="Fetch", total=40, most=40, span=10),
        ],
    ),
    "tiny_batches": (
        [fact("batch", api="produce", number=2, count=300, total=400)],
        [fact("batch", api="produce", number=2, count=300, total=700)],
    ),
    "clock_difference": (
        [fact("clock", count=5, total=5 * 3_000, least=2_900, most=3_100)],
        [fact("clock", count=5, total=5 * 3_000, least=-9_000, most=9_000)],
    ),
    "hanging_transaction": (
        [fact("held_back", what="t-0", span=s, least=4, most=4) for s in (0, 30, 60)],
        [fact("held_back", what="t-0", span=s, least=s, most=s) for s in (0, 30, 60)],
    ),
    "idle_polling": (
        [fact("request", api="Fetch", count=60), fact("batch", api="fetch", count=10)],
        [fact("request", api="Fetch", count=60), fact("batch", api="fetch", count=11)],
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_finding_begins_at_its_threshold(kind: str) -> None:
    enough, not_enough = CASES[kind]
    assert kind in kinds(*enough)
    assert kind not in kinds(*not_enough)


def unanswered_for(api: str, nanoseconds: int) -> list[Fact]:
    asked = fact("unanswered", api=api, number=7)
    return [asked, fact("connection", last_at=nanoseconds, number=7, what="fin")]


def clock(count: int, least: int, most: int) -> list[Fact]:
    return [fact("clock", count=count, total=count * (least + most) // 2, least=least, most=most)]


@pytest.mark.parametrize(
    ("kind", "enough", "not_enough"),
    [
        ("unanswered", unanswered_for("Produce", SECOND), unanswered_for("Produce", SECOND - 1)),
        ("unanswered", unanswered_for("Fetch", 5 * SECOND), unanswered_for("Fetch", 5 * SECOND - 1)),
        (
            "tiny_batches",
            [fact("batch", api="produce", number=2, count=300, total=400)],
            [fact("batch", api="produce", number=2, count=299, total=400)],
        ),
        (
            "tiny_batches",
            [fact("batch", api="produce", number=2, count=300, total=599)],
            [fact("batch", api="produce", number=2, count=300, total=600)],
        ),
        (
            "old_protocol",
            [fact("request", api="Produce", number=2)],
            [fact("request", api="Produce", number=3)],
        ),
        ("clock_difference", clock(5, 2_000, 2_000), clock(5, 1_999, 1_999)),
        ("clock_difference", clock(5, -2_000, -2_000), clock(5, -1_999, -1_999)),
        ("clock_difference", clock(5, 2_500, 3_500), clock(5, 2_500, 3_501)),
        ("clock_difference", clock(5, 3_000, 3_000), clock(4, 3_000, 3_000)),
        (
            "hanging_transaction",
            [fact("held_back", what="t-0", span=s, least=4, most=4) for s in (0, 60)],
            [fact("held_back", what="t-0", span=s, least=4, most=4) for s in (0, 59)],
        ),
    ],
)
def test_a_finding_begins_exactly_at_its_threshold(kind: str, enough: list[Fact], not_enough: list[Fact]) -> None:
    assert kind in kinds(*enough)
    assert kind not in kinds(*not_enough)


@pytest.mark.parametrize(("longest_ms", "brief"), [(4_999, 20), (5_000, 0)])
def test_connections_that_lasted_so_long_were_worth_their_handshake(longest_ms: int, brief: int) -> None:
    (found,) = client_findings("c", [fact("connection", what="fin", most=longest_ms, count=20)])
    assert found.evidence[1].text == f"{brief} of 20 lasted less than 5 s"


@pytest.mark.parametrize(("again", "severity"), [(200, Severity.WARNING), (199, Severity.INFO)])
def test_one_percent_sent_again_is_a_warning(again: int, severity: str) -> None:
    (found,) = client_findings("c", [sequence(0, total=20_000, least=0, most=19_999 - again)])
    assert (found.kind, found.severity) == ("sent_again", severity)


@pytest.mark.parametrize("kind", CASES)
def test_a_finding_names_its_packets_and_its_time(kind: str) -> None:
    (found,) = [one for one in client_findings("c (10.0.0.9)", CASES[kind][0]) if one.kind == kind]
    assert found.subject == "client c (10.0.0.9)"
    assert any(observation.packet in (3, 7) for observation in found.evidence)
    assert found.since is not None
    assert found.until is not None
    assert found.since <= found.until
    assert found.advice
    assert 0 < found.weight < 1


@pytest.mark.parametrize(
    ("facts", "again"),
    [
        ([sequence(0, total=15, least=0, most=9)], 5),
        ([sequence(0, total=10, least=0, most=9), sequence(10, total=4, least=2, most=5)], 4),
        ([sequence(0, total=10, least=0, most=9), sequence(10, total=14, least=8, most=19)], 4),
        # Ten that the capture lacks cannot be told from ten that were not sent again.
        ([sequence(0, total=20, least=0, most=29)], 0),
        # Another epoch of the producer, and another partition, count from zero.
        ([sequence(0, total=9, least=0, most=8), sequence(10, "1000/1", total=9, least=0, most=8)], 0),
        ([sequence(0, total=9, least=0, most=8), sequence(0, what="t-1", total=9, least=0, most=8)], 0),
        ([sequence(0, total=15, least=100, most=109)], 5),  # the capture begins late
        ([sequence(0, total=20, least=0, most=29), sequence(0, what="t-1", total=15, least=0, most=9)], 5),
        # The number after the largest is zero.
        ([sequence(0, total=9, least=0, most=2**31 - 1)], 0),
    ],
)
def test_records_sent_again_are_counted_by_their_sequence_numbers(facts: list[Fact], again: int) -> None:
    found = [one for one in client_findings("c (10.0.0.9)", facts) if one.kind == "sent_again"]
    sent = sum(one.total or 0 for one in facts)
    assert [one.title for one in found] == (
        [f"The producer sent {again} of {sent} records more than once"] if again else []
    )


def test_a_long_poll_that_the_end_of_the_client_left_open_is_no_finding() -> None:
    open_fetch = fact("unanswered", api="Fetch", number=7)
    assert "unanswered" not in kinds(open_fetch, fact("connection", span=0, last_at=SECOND // 2, number=7, what="fin"))
    assert "unanswered" in kinds(open_fetch, fact("connection", span=0, last_at=6 * SECOND, number=7, what="fin"))


def test_one_other_kind_of_damage_is_told_as_one() -> None:
    (found,) = client_findings(CAPTURE, [fact("issue", what=kind, total=1) for kind in ("tcp_gap", "frame_cut")])
    assert found.title.endswith(", and 1 other kind of damage")


def test_damage_is_about_the_capture_and_says_what_it_weakens() -> None:
    (found,) = client_findings(
        CAPTURE, [fact("issue", what="tcp_gap", total=4), fact("issue", what="frame_incomplete", total=9)]
    )
    assert (found.kind, found.subject, found.client_ids) == ("capture_damaged", "capture", [])
    assert found.title.endswith("could be read: bytes of a stream are not in the capture")
    assert (
        found.evidence[0].text
        == "bytes of a stream are not in the capture, 4 times: frames at this place are cut or missing"
    )
    assert len(found.evidence) == 1


@pytest.mark.parametrize(
    ("counts", "spans", "best", "chosen"),
    [
        ({}, 6, 0, []),
        ({0: 4, 50: 4, 60: 1}, 6, 8, [0, 50]),
        ({0: 4, 50: 4, 60: 9}, 6, 13, [50, 60]),
        ({0: 4, 20: 4, 60: 8}, 6, 12, [20, 60]),
        ({0: 4, 10: 4, 90: 8}, 6, 8, [0, 10]),  # the first of several
        ({0: 4, 10: 5, 20: 5}, 1, 5, [10]),
    ],
)
def test_the_busiest_minute(counts: dict[int, int], spans: int, best: int, chosen: list[int]) -> None:
    most, window = busiest([fact("request", span, count=count) for span, count in counts.items()], spans)
    assert (most, [each.span // SECOND for each in window]) == (best, chosen)


def seen(text: str, second: float = 0, packet: int = 3) -> Observation:
    return Observation(text, packet, int(second * SECOND))


# Facts, and all of what is said of them but the advice: severity, title, evidence, weight, seconds from and until.
SAID: dict[str, tuple[list[Fact], Severity, str, list[Observation], float, tuple[float, float]]] = {
    "metadata_storm": (
        [
            fact("request", 0, api="Metadata", count=9),
            fact("request", 10, api="Metadata", count=59),
            fact("request", 10, api="Metadata", count=1, broker=OTHER_BROKER, first_packet=4),
            fact("request", 20, api="Metadata", count=9),
            fact("request", 30, api="Fetch", count=40),
        ],
        Severity.WARNING,
        "Metadata is asked for again and again: 60 requests in 10 s",
        [
            seen("59 Metadata requests to 10.0.0.1:9092 in the 10 s that begin here", 10),
            seen("1 Metadata request to 10.0.0.2:9092 in the 10 s that begin here", 10, 4),
        ],
        0.6,
        (0, 20),
    ),
    "commit_storm": (
        [
            fact("request", 0, api="OffsetCommit", count=20),
            fact("request", 10, api="OffsetCommit", count=999),
            fact("request", 10, api="OffsetCommit", count=1, broker=OTHER_BROKER, first_packet=4),
            fact("request", 20, api="Fetch", count=40),
        ],
        Severity.WARNING,
        "Offsets are committed all the time: 100 times a second",
        [
            seen("999 OffsetCommits to 10.0.0.1:9092 in the 10 s that begin here", 10),
            seen("1 OffsetCommit to 10.0.0.2:9092 in the 10 s that begin here", 10, 4),
        ],
        0.667,
        (0, 10),
    ),
    "connection_churn": (
        [
            *(fact("connection", 0, what="open", first_packet=4 + n) for n in range(3)),
            *(fact("connection", 0, what="open", broker=OTHER_BROKER, first_packet=4 + n) for n in range(4)),
            fact("connection", 100, what="fin", most=4_999, count=10, first_packet=8),
            fact("connection", 150, what="rst", most=5_000, count=20),
        ],
        Severity.WARNING,
        "Connections are opened and closed all the time: 30 in a minute",
        [
            seen("the first of 30 connections opened in this minute", 100, 8),
            Observation("10 of 31 lasted less than 5 s"),
        ],
        0.6,
        (0, 150),
    ),
    "api_versions_storm": (
        [
            fact("request", 0, api="ApiVersions"),
            fact("request", 60, api="ApiVersions", count=20, first_packet=8),
            fact("request", 110, api="ApiVersions", count=40),
        ],
        Severity.WARNING,
        "ApiVersions is asked for 60 times in a minute",
        [seen("the first of 60 ApiVersions requests", 60, 8)],
        0.533,
        (0, 110),
    ),
    "authentication_failed": (
        [
            fact("error", 0, api="SaslHandshake", what="UNSUPPORTED_SASL_MECHANISM"),
            fact("error", 20, api="SaslAuthenticate", what="SASL_AUTHENTICATION_FAILED", count=2, first_packet=5),
        ],
        Severity.CRITICAL,
        "3 authentication failures",
        [
            seen("SaslHandshake answered UNSUPPORTED_SASL_MECHANISM by 10.0.0.1:9092, 1 time in 10 s"),
            seen("SaslAuthenticate answered SASL_AUTHENTICATION_FAILED by 10.0.0.1:9092, 2 times in 10 s", 20, 5),
        ],
        0.6,
        (0, 20),
    ),
    "authorization_failed": (
        [
            fact("error", 10, api="Produce", what="TOPIC_AUTHORIZATION_FAILED", count=4),
            fact("error", 20, api="Fetch", what="TOPIC_AUTHORIZATION_FAILED"),
            fact("error", 30, api="Produce", what="TOPIC_AUTHORIZATION_FAILED"),
        ],
        Severity.WARNING,
        "6 errors for lack of permission: Fetch TOPIC_AUTHORIZATION_FAILED, Produce TOPIC_AUTHORIZATION_FAILED",
        [
            seen("Produce answered TOPIC_AUTHORIZATION_FAILED by 10.0.0.1:9092, 4 times in 10 s", 10),
            seen("Fetch answered TOPIC_AUTHORIZATION_FAILED by 10.0.0.1:9092, 1 time in 10 s", 20),
            seen("Produce answered TOPIC_AUTHORIZATION_FAILED by 10.0.0.1:9092, 1 time in 10 s", 30),
        ],
        0.545,
        (10, 30),
    ),
    "unanswered": (
        [
            fact("connection", what="fin", number=7, last_at=4 * SECOND),
            fact("connection", what="open", number=8, last_at=6 * SECOND),
            fact("request", api="Produce", last_at=10 * SECOND, most=5),
            fact("error", 90, api="Produce", what="INVALID_RECORD"),
            fact("unanswered", 1, api="Produce", number=7),
            fact("unanswered", 3.5, api="Metadata", number=7),
            fact("unanswered", 2, api="Fetch", number=8),
            fact("unanswered", 2, api="Metadata", number=8, count=2),
        ],
        Severity.WARNING,
        "4 requests never answered: 2 Metadata, 1 Fetch, 1 Produce",
        [
            seen("Produce to 10.0.0.1:9092: no answer, 3.0 s until the end", 1),
            seen("Fetch to 10.0.0.1:9092: no answer, 8.0 s until the end", 2),
            seen("Metadata to 10.0.0.1:9092: no answer, 8.0 s until the end", 2),
        ],
        0.4,
        (1, 2),
    ),
    "sent_again": (
        [
            sequence(0, total=10, least=0, most=9),
            sequence(10, total=10, least=0, most=9),
            sequence(20, total=2, least=9, most=10),
            sequence(30, total=5, least=11, most=15),
            sequence(0, "1000/1", total=2, least=0, most=0),
            fact("error", 40, api="Produce", what="REQUEST_TIMED_OUT", count=2),
            fact("error", 40, api="Fetch", what="CORRUPT_MESSAGE"),
        ],
        Severity.WARNING,
        "The producer sent 12 of 29 records more than once",
        [
            seen("t-0: 10 of 10 records in the 10 s that begin here had been sent before", 10),
            seen("t-0: 1 of 2 records in the 10 s that begin here had been sent before", 20),
            seen("t-0: 1 of 2 records in the 10 s that begin here had been sent before"),
            seen("Produce answered REQUEST_TIMED_OUT by 10.0.0.1:9092, 2 times in 10 s", 40),
        ],
        0.273,
        (0, 20),
    ),
    "error_loop": (
        [
            fact("error", 0, api="Fetch", what="CORRUPT_MESSAGE"),
            fact("error", 60, api="Fetch", what="CORRUPT_MESSAGE", count=29),
            fact("error", 110, api="Fetch", what="CORRUPT_MESSAGE", broker=OTHER_BROKER),
            fact("error", 60, api="Produce", what="CORRUPT_MESSAGE", count=19),
            fact("error", 60, api="Fetch", count=40),
            fact("error", 60, api="Heartbeat", what="REBALANCE_IN_PROGRESS", count=40),
        ],
        Severity.WARNING,
        "Fetch is answered CORRUPT_MESSAGE over and over: 30 times in a minute",
        [seen("29 times in 10 s by 10.0.0.1:9092", 60), seen("1 time in 10 s by 10.0.0.2:9092", 110)],
        0.6,
        (0, 110),
    ),
    "leader_changed": (
        [
            fact("error", 10, api="Produce", what="NOT_LEADER_OR_FOLLOWER", count=18),
            fact("error", 20, api="Fetch", what="FENCED_LEADER_EPOCH", broker=OTHER_BROKER),
        ],
        Severity.INFO,
        "Leaders changed: 19 answers of brokers that were no longer the leader",
        [
            seen("Produce answered NOT_LEADER_OR_FOLLOWER by 10.0.0.1:9092, 18 times in 10 s", 10),
            seen("Fetch answered FENCED_LEADER_EPOCH by 10.0.0.2:9092, 1 time in 10 s", 20),
        ],
        0.487,
        (10, 20),
    ),
    "old_protocol": (
        [
            fact("request", 0, api="ListOffsets", number=0),
            fact("request", 10, api="Produce", number=2),
            fact("request", 10, api="Fetch"),
            fact("request", 20, api="Fetch", number=3, first_packet=5),
            fact("request", 30, api="Fetch", number=3),
            fact("request", 40, api="Fetch", number=4),
            fact("batch", 0, api="produce", number=1),
            fact("batch", 10, api="fetch", number=2),
            fact("batch", 20, api="fetch"),
            fact("batch", 30, api="fetch", number=1, count=2, first_packet=6),
            fact("batch", 40, api="fetch", number=0, count=3),
        ],
        Severity.WARNING,
        "The client speaks a protocol of before 2017: Fetch v3, Produce v2",
        [
            seen("requests of Fetch v3", 20, 5),
            seen("requests of Produce v2", 10),
            seen("5 messages of the old formats in answers to it", 30, 6),
        ],
        0.6,
        (10, 30),
    ),
    "throttled": (
        [
            fact("throttled", 0, api="Produce", total=300, most=100),
            fact("throttled", 10, api="Produce", total=800, most=700),
            fact("throttled", 20, api="Fetch", total=900, most=1_700, count=2, broker=OTHER_BROKER),
        ],
        Severity.WARNING,
        "Told by a quota to hold back 4 times, for up to 1.7 s; the delays of 2 brokers add up to 2.0 s",
        [
            seen("2 Fetch answers of 10.0.0.2:9092 with throttle_time_ms up to 1700", 20),
            seen("1 Produce answer of 10.0.0.1:9092 with throttle_time_ms up to 700", 10),
            seen("1 Produce answer of 10.0.0.1:9092 with throttle_time_ms up to 100"),
        ],
        0.667,
        (0, 20),
    ),
    "tiny_batches": (
        [
            fact("batch", 0, api="produce", number=2, count=10, total=500),
            fact("batch", 10, api="produce", number=2, count=599, total=839),
            fact("batch", 10, api="produce", number=2, count=1, total=1, broker=OTHER_BROKER),
            fact("batch", 10, api="produce", number=1, count=700, total=700),
            fact("batch", 20, api="fetch", number=2, count=700, total=700),
        ],
        Severity.INFO,
        "Batches of 1.4 records: 60 batches a second",
        [seen("599 batches with 839 records in 10 s", 10), seen("1 batches with 1 record in 10 s", 10)],
        0.4,
        (0, 10),
    ),
    "clock_difference": (
        [
            fact("clock", 0, count=2, total=6_000, least=2_500, most=3_100),
            fact("clock", 10, count=3, total=9_000, least=2_700, most=3_400),
        ],
        Severity.WARNING,
        "Its records are 3.0 s ahead of the capture's clock",
        [seen("newest time stamp of the batch against its arrival: 2500 to 3400 ms in all batches")],
        0.6,
        (0, 10),
    ),
    "hanging_transaction": (
        [
            fact("held_back", 0, what="t-0", least=1, most=3),
            fact("held_back", 10, what="t-0", least=2, most=4),
            fact("held_back", 50, what="t-0", least=4, most=4),
            fact("held_back", 90, what="t-0", least=4, most=4, last_at=100 * SECOND),
            fact("held_back", 0, what="t-1", least=4, most=4),
        ],
        Severity.CRITICAL,
        "t-0: readers of committed records are held at offset 4 for 90 s",
        [seen("last stable offset 4 below the high watermark", second) for second in (10, 50, 90)],
        0.6,
        (10, 100),
    ),
    "idle_polling": (
        [
            fact("request", 0, api="Fetch", count=49),
            fact("request", 10, api="Fetch", count=80),
            fact("request", 10, api="Fetch", count=60, broker=OTHER_BROKER),
            fact("batch", 10, api="fetch", count=7, broker=OTHER_BROKER),
            fact("batch", 0, api="fetch", count=40),
            fact("batch", 10, api="fetch", count=5),
            fact("batch", 10, api="produce", count=40),
        ],
        Severity.INFO,
        "Fetches that bring nothing: 75 in 10 s",
        [seen("80 Fetch requests to 10.0.0.1:9092, 5 batches in their answers", 10)],
        0.3,
        (10, 10),
    ),
    "capture_damaged": (
        [
            fact("issue", 0, what="snap_length", total=2),
            fact("issue", 10, what="tcp_gap", total=5, first_packet=5),
            fact("issue", 20, what="tcp_gap", total=1),
            fact("issue", 30, what="frame_cut", total=2),
        ],
        Severity.WARNING,
        "Not all that was on the wire is in the capture, or could be read: bytes of a stream are not in the capture, "
        "and 2 other kinds of damage",
        [
            seen(f"{ISSUE_KINDS[kind].meaning}, {count} times: {ISSUE_KINDS[kind].weakens}", second, packet)
            for kind, count, second, packet in (
                ("tcp_gap", 6, 10, 5),
                ("frame_cut", 2, 30, 3),
                ("snap_length", 2, 0, 3),
            )
        ],
        0.5,
        (0, 30),
    ),
}


@pytest.mark.parametrize("kind", SAID)
def test_a_finding_as_a_whole(kind: str) -> None:
    facts, severity, title, evidence, weight, (since, until) = SAID[kind]
    (found,) = [one for one in client_findings("c (10.0.0.9)", facts) if one.kind == kind]
    times = int(since * SECOND), int(until * SECOND)
    assert dataclasses.replace(found, advice="") == Finding(
        severity, kind, title, "client c (10.0.0.9)", *times, evidence, "", weight, client_ids=["c"]
    )


@pytest.mark.parametrize(
    ("errors", "title", "advice"),
    [
        ({"ILLEGAL_SASL_STATE"}, ": it uses SASL at a listener that does not", "PLAINTEXT"),
        ({"UNSUPPORTED_SASL_MECHANISM"}, ": the listener does not offer the SASL mechanism", "sasl.enabled.mechanisms"),
        ({"ILLEGAL_SASL_STATE", "UNSUPPORTED_SASL_MECHANISM"}, "2 authentication failures", "password"),
    ],
)
def test_what_is_wrong_with_sasl_itself(errors: set[str], title: str, advice: str) -> None:
    (found,) = client_findings("c", [fact("error", api="SaslHandshake", what=error) for error in sorted(errors)])
    assert title in found.title
    assert advice in found.advice


@pytest.mark.parametrize(
    ("count", "title"),
    [
        (1, "Told by a quota to hold back 1 time, for up to 900 ms"),
        (42, "Told by a quota to hold back 42 times, for up to 900 ms; the delays add up to 21.0 s"),
    ],
)
def test_delays_of_connections_side_by_side_are_no_time_that_passed(count: int, title: str) -> None:
    total = 900 if count == 1 else 21_000
    (found,) = client_findings("client c1", [fact("throttled", api="Fetch", count=count, total=total, most=900)])
    assert found.title == title


@pytest.mark.parametrize(("count", "severity"), [(19, Severity.INFO), (20, Severity.WARNING)])
def test_leaders_that_change_as_often_as_a_loop_are_a_warning(count: int, severity: Severity) -> None:
    (found,) = client_findings("c", [fact("error", api="Fetch", what="UNKNOWN_LEADER_EPOCH", count=count, broker=None)])
    assert (found.kind, found.severity) == ("leader_changed", severity)
    assert "partitions are moved (?)" in found.advice


@pytest.mark.parametrize(
    ("error", "found"),
    [
        ("SASL_AUTHENTICATION_FAILED", ["authentication_failed"]),
        ("GROUP_AUTHORIZATION_FAILED", ["authorization_failed"]),
        ("LEADER_NOT_AVAILABLE", ["error_loop"]),  # by any broker, of a topic that is new, or whose brokers are gone
        ("ILLEGAL_GENERATION", []),  # groups tell it
        ("INVALID_RECORD", ["error_loop"]),
    ],
)
def test_a_loop_of_errors_is_told_once(error: str, found: list[str]) -> None:
    assert kinds(fact("error", api="Fetch", what=error, count=30)) == found


@pytest.mark.parametrize(
    ("error", "asked", "told"),
    [
        ("CONCURRENT_TRANSACTIONS", 60, []),
        ("CONCURRENT_TRANSACTIONS", 59, ["error_loop"]),  # as of a transaction that does not end
        ("CONCURRENT_TRANSACTIONS", None, ["error_loop"]),
        ("INVALID_RECORD", 60, ["error_loop"]),
    ],
)
def test_who_begins_one_transaction_after_the_other_waits_for_each(
    error: str, asked: int | None, told: list[str]
) -> None:
    requests = [] if asked is None else [fact("request", api="AddPartitionsToTxn", count=asked)]
    assert kinds(*requests, fact("error", api="AddPartitionsToTxn", what=error, count=30)) == told


def test_connections_that_stay_open_are_many_where_they_go_to_one_broker() -> None:
    spread = [fact("connection", what="open", broker=f"10.0.0.{n}:9092") for n in range(40)]
    assert kinds(*spread) == []
    (found,) = client_findings("c", [fact("connection", what="open", first_packet=n) for n in range(30)])
    assert found.title == "Connections are opened all the time: 27 in a minute"


def test_who_asks_each_broker_for_its_versions_asks_once_a_connection() -> None:
    asked = [fact("request", api="ApiVersions", broker=f"10.0.0.{n}:9092", count=2) for n in range(20)]
    assert kinds(*asked) == []


@pytest.mark.parametrize(
    ("cut", "told"), [((10, "Fetch"), True), ((11, "Fetch"), False), ((11, "Produce"), True), ((0, "Fetch"), True)]
)
def test_what_is_cut_in_the_capture_may_have_brought_something(cut: tuple[int, str], told: bool) -> None:
    facts = [fact("request", api="Fetch", count=60), fact("cut", api=cut[1], count=cut[0])]
    assert ("idle_polling" in kinds(*facts)) == told


def test_each_of_many_brokers_lets_an_idle_consumer_wait() -> None:
    assert kinds(*(fact("request", api="Fetch", count=20, broker=f"10.0.0.{n}:9092") for n in range(9))) == []


@pytest.mark.parametrize(
    ("api", "seconds", "told"), [("ShareFetch", 4, False), ("ShareFetch", 5, True), ("JoinGroup", 90, False)]
)
def test_what_a_broker_may_hold_is_unanswered_later_than_other_requests(api: str, seconds: int, told: bool) -> None:
    assert ("unanswered" in kinds(*unanswered_for(api, seconds * 1_000_000_000))) == told


def test_sequence_numbers_begin_anew_behind_the_last() -> None:
    last = 2**31 - 1
    spans = [sequence(0, total=10, least=last - 9, most=last)]
    spans += [sequence(10 * n, total=10, least=10 * n - 10, most=10 * n - 1) for n in range(1, 4)]
    assert "sent_again" not in kinds(*spans)


def test_a_transaction_may_hang_at_the_first_offset() -> None:
    (found,) = client_findings("c", [fact("held_back", span, what="t-0", least=0, most=0) for span in (0, 60)])
    assert found.title == "t-0: readers of committed records are held at offset 0 for 60 s"


def test_an_old_client_that_reads_nothing_costs_no_conversion() -> None:
    (found,) = client_findings("c", [fact("request", api="Fetch", number=0)])
    assert (found.weight, len(found.evidence)) == (0.5, 1)


def test_a_clock_may_be_behind() -> None:
    (found,) = client_findings("c", clock(5, -3_100, -2_900))
    assert found.title == "Its records are 3.0 s behind the capture's clock"


def test_every_threshold_is_used_and_has_its_reason() -> None:
    from pathlib import Path

    import kafkascope.reports

    reports = Path(kafkascope.reports.__path__[0])
    places = ("findings/*_rules.py", "incidents/**/*.py", "measures/silences.py", "answers/*.py")
    rules = "".join(path.read_text() for place in places for path in reports.glob(place))
    unused = [name for name in THRESHOLDS if f'"{name}"' not in rules]
    assert not unused
    assert all(one.reason and one.unit for one in THRESHOLDS.values())


def test_where_nothing_was_answered_it_may_be_the_capture() -> None:
    facts = [fact("request", api="Metadata"), fact("unanswered", api="Metadata", number=7, count=2), ENDED]
    (one,) = client_findings("c (10.0.0.9)", facts)
    assert one.title == (
        "No answer to any of 2 requests: the broker's side is not in the capture, or it says nothing: 2 Metadata"
    )


def test_connections_whose_clients_say_nothing_in_the_capture_are_not_one_client() -> None:
    churn = [fact("connection", count=20)]
    assert client_findings("- (10.0.0.9)", churn) == []
    assert [one.kind for one in client_findings("c (10.0.0.9)", churn)] == ["connection_churn"]
    answered = fact("request", api="Metadata", most=5)
    assert [one.kind for one in client_findings("- (10.0.0.9)", [*churn, answered])] == ["connection_churn"]
