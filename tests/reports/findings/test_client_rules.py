"""Rules about clients: where each begins to speak, and that it is silent below."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafkascope.reports.findings.client_rules import client_findings
from kafkascope.reports.measures.client_facts import CAPTURE, Fact
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import THRESHOLDS

SECOND = 1_000_000_000
BROKER = "10.0.0.1:9092"


def fact(kind: str, span: int = 0, **values: Any) -> Fact:
    """A fact in the span that begins at so many seconds."""
    base = Fact("c (10.0.0.9)", kind, None, None, None, BROKER, span * SECOND, 1, None, None, None, 0, 0, 3)
    given: dict[str, Any] = {"first_at": span * SECOND, "last_at": span * SECOND} | values
    return dataclasses.replace(base, **given)


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
        [fact("unanswered", api="Produce", number=7), fact("connection", span=3, what="fin", first_packet=7)],
        [fact("unanswered", api="Produce", number=7), fact("connection", span=0, what="fin", first_packet=7)],
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
    return [asked, fact("connection", last_at=nanoseconds, first_packet=7, what="fin")]


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
    assert found.evidence[1].text == f"{brief} of 20 lie in spans in which none lasted 5 s"


@pytest.mark.parametrize(("again", "severity"), [(10, Severity.WARNING), (9, Severity.INFO)])
def test_one_percent_sent_again_is_a_warning(again: int, severity: str) -> None:
    (found,) = client_findings("c", [sequence(0, total=1_000, least=0, most=999 - again)])
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
    assert "unanswered" not in kinds(
        open_fetch, fact("connection", span=0, last_at=SECOND // 2, first_packet=7, what="fin")
    )
    assert "unanswered" in kinds(open_fetch, fact("connection", span=0, last_at=6 * SECOND, first_packet=7, what="fin"))


def test_damage_is_about_the_capture_and_says_what_it_weakens() -> None:
    (found,) = client_findings(
        CAPTURE, [fact("issue", what="tcp_gap", total=4), fact("issue", what="frame_incomplete", total=9)]
    )
    assert (found.kind, found.subject) == ("capture_damaged", "capture")
    assert (
        found.evidence[0].text
        == "bytes of a stream are not in the capture, 4 times: frames at this place are cut or missing"
    )
    assert len(found.evidence) == 1


def test_every_threshold_is_used_and_has_its_reason() -> None:
    from pathlib import Path

    import kafkascope.reports

    reports = Path(kafkascope.reports.__path__[0])
    places = ("findings/*_rules.py", "incidents/*.py", "measures/silences.py", "answers/*.py")
    rules = "".join(path.read_text() for place in places for path in reports.glob(place))
    unused = [name for name in THRESHOLDS if f'"{name}"' not in rules]
    assert not unused
    assert all(one.reason and one.unit for one in THRESHOLDS.values())
