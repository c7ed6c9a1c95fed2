"""Rules about Streams applications. Times of messages are milliseconds."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.findings.finding import Observation
from kafkascope.reports.groups.history import GroupHistory
from kafkascope.reports.vocabulary.finding_kinds import Severity
from tests.reports.findings.test_group_rules import at, of_kind, whole
from tests.reports.groups.group_logs import Conversation


def streams(said: Conversation, at: float, epoch: int, *statuses: tuple[int, str], client: str = "s") -> None:
    """A heartbeat of a member of a Streams application, and what it is told."""
    told = [{"statusCode": code, "statusDetail": detail} for code, detail in statuses]
    said.say(at, "StreamsGroupHeartbeat", client, {"memberEpoch": epoch}, {"status": told})


MISSING = (1, "Source topics lines are missing.")


def test_topics_that_a_streams_application_reads_are_missing() -> None:
    said = Conversation()
    streams(said, 0, 0, MISSING, (5, "Assignment delayed."))
    streams(said, 2_500, 1, (5, "Assignment delayed."), client="other")
    streams(said, 5_000, 1, MISSING)
    (found,) = of_kind("source_topics_missing", GroupHistory(), said)
    told = "told that topics that it reads are not there: Source topics lines are missing."
    whole(
        found,
        Severity.CRITICAL,
        "s has no work: Source topics lines are missing",
        [Observation(told, 2, at(0)), Observation(told, 6, at(5))],
        0.7,
        ["s"],
        (at(0), at(5.001)),
    )


@pytest.mark.parametrize(("lasts", "leaves", "told"), [(4_990, False, False), (4_999, False, True), (100, True, True)])
def test_topics_that_are_just_being_made_are_not_missing(lasts: float, leaves: bool, told: bool) -> None:
    said = Conversation()
    streams(said, 0, 0, MISSING)
    streams(said, lasts, 1, MISSING)
    streams(said, lasts + 500, -1 if leaves else 1)
    found = of_kind("source_topics_missing", GroupHistory(), said)
    assert [one.title.endswith("; it gave up") for one in found] == [leaves] * told


def test_topics_with_different_numbers_of_partitions() -> None:
    said = Conversation()
    streams(said, 0, 0, (2, ""))
    streams(said, 6_000, 1, (2, ""))
    (found,) = of_kind("topics_not_alike", GroupHistory(), said)
    assert found.title == "s has no work: topics that it joins have different numbers of partitions"


END = (4, "Streams group member m encountered a fatal error")


def test_an_instance_that_has_the_whole_application_end() -> None:
    said = Conversation()
    streams(said, 0, 3)
    said.say(1_000, "StreamsGroupHeartbeat", "a", {"memberEpoch": 3, "shutdownApplication": True}, {"status": []})
    streams(said, 2_000, 3, END, client="b")
    streams(said, 3_000, 3, (5, ""), END, client="c")
    said.say(3_500, "StreamsGroupHeartbeat", "c", {"memberEpoch": -1, "shutdownApplication": True}, {})
    (found,) = of_kind("application_shut_down", GroupHistory(), said)
    whole(
        found,
        Severity.CRITICAL,
        "a met a fatal error and had the whole application shut down: b, c were told to end",
        [
            Observation("a asks that all instances end", 4, at(1)),
            Observation("b is told to end", 6, at(2)),
            Observation("c is told to end", 8, at(3)),
        ],
        0.9,
        ["a", "b", "c"],
    )


def joined(error: int | None) -> dict[str, Any]:
    data = "odd" if error is None else {"_definition": "SubscriptionInfoData", "errorCode": error}
    return {"memberId": "x", "protocols": [{"name": "stream", "metadata": {"userData": data}}]}


def synced(error: int | None) -> dict[str, Any]:
    data = None if error is None else {"_definition": "AssignmentInfo", "errCode": error}
    return {"assignment": {"userData": data}}


@pytest.mark.parametrize(
    ("asks", "told", "title"),
    [
        (4, 4, "a met a fatal error and had the whole application shut down: b was told to end"),
        (4, 0, "a met a fatal error and had the whole application shut down"),
        (4, None, "a met a fatal error and had the whole application shut down"),
        (0, 4, None),
        (1, 1, None),
        (None, None, None),
    ],
)
def test_so_with_the_classic_protocol(asks: int | None, told: int | None, title: str | None) -> None:
    said = Conversation()
    said.say(0, "JoinGroup", "a", joined(asks), {})
    said.say(10, "SyncGroup", "b", {"memberId": "b", "generationId": 3}, synced(told))
    if told == 4:
        said.say(20, "JoinGroup", "b", joined(4), None)  # it hands on what it was told
    found = of_kind("application_shut_down", GroupHistory(), said)
    assert [one.title for one in found] == ([title] if title else [])
