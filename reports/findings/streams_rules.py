"""Findings about Streams applications, out of what their instances and the coordinator, or their leader, tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import client_name
from kafkascope.reports.findings.finding import Finding
from kafkascope.reports.findings.group import MOST_SAID, Group, group_finding, observed
from kafkascope.reports.groups.body import rows
from kafkascope.reports.groups.epochs.heartbeats import (
    INCORRECTLY_PARTITIONED,
    LEAVES,
    MISSING_SOURCE_TOPICS,
    SHUTDOWN_APPLICATION,
)
from kafkascope.reports.groups.messages import Message
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import SECOND_NS

_SHUTDOWN_REQUESTED = 4  # of the classic protocol: AssignorError
_UNFIT: dict[int, tuple[str, str, str]] = {
    MISSING_SOURCE_TOPICS: (
        "source_topics_missing",
        "topics that it reads are not there",
        "Create the topics that the application reads before it starts, or compare their names with its configuration: "
        "brokers create its internal topics alone.",
    ),
    INCORRECTLY_PARTITIONED: (
        "topics_not_alike",
        "topics that it joins have different numbers of partitions",
        "Topics that are joined need one number of partitions: repartition one of them in the application "
        "(repartition()), or make it anew with as many as the other.",
    ),
}


def topics_unfit(group: Group) -> Iterator[Finding]:
    """Members of Streams applications that are told that they cannot work with the topics that there are."""
    told: dict[tuple[int, str | None], list[tuple[Message, str]]] = defaultdict(list)
    last: dict[str | None, Message] = {}
    beats = (message for message in group.log.messages if message.api == "StreamsGroupHeartbeat")
    for message in chain.from_iterable(beat.each() for beat in beats):
        last[message.client_id] = message
        for status in rows(message.response.get("status")):
            if (code := status.get("statusCode")) in _UNFIT:
                told[code, message.client_id].append((message, str(status.get("statusDetail") or "")))
    for (code, client), seen in sorted(told.items(), key=lambda item: (item[1][0][0].at, item[0][0])):
        first, until = seen[0][0], seen[-1][0].over
        gives_up = last[client].request.get("memberEpoch") == LEAVES and last[client].at > until
        if (until - first.at) < threshold("unknown_topic_for") * SECOND_NS and not gives_up:
            continue  # they were just being made
        kind, what, advice = _UNFIT[code]
        said = " ".join(seen[-1][1].split())[:MOST_SAID].rstrip(".")
        yield group_finding(
            group,
            Severity.CRITICAL,
            kind,
            f"{client or '?'} has no work: {said or what}" + ("; it gave up" if gives_up else ""),
            [observed(message, f"told that {what}: {detail}") for message, detail in seen],
            advice,
            0.7,
            (first.at, until),
            clients=[client],
        )


def shut_down(group: Group) -> Iterator[Finding]:
    """An application that an instance has shut down: an exception, for which its handler says SHUTDOWN_APPLICATION."""
    asked: list[Message] = []
    told: list[Message] = []
    for message in group.log.messages:
        if _asks_to_end(message) and message.client_id not in {each.client_id for each in told}:
            asked.append(message)
        if _is_told_to_end(message):
            told.append(message)
    if not asked:
        return
    names = sorted({message.client_id or "?" for message in asked})
    others = sorted({message.client_id or "?" for message in told} - {*names})
    yield group_finding(
        group,
        Severity.CRITICAL,
        "application_shut_down",
        f"{listed(names)} met a fatal error and had the whole application shut down"
        + (f": {listed(others)} {'was' if len(others) == 1 else 'were'} told to end" if others else ""),
        [
            *(observed(message, f"{client_name(message.client_id)} asks that all instances end") for message in asked),
            *(observed(message, f"{client_name(message.client_id)} is told to end") for message in told),
        ],
        "Look at the log of that instance for the exception at this moment. All instances have ended, and must be "
        "started again once its cause is gone. Other answers of the StreamsUncaughtExceptionHandler (REPLACE_THREAD, "
        "SHUTDOWN_CLIENT) leave the others at work; records that cannot be processed can be passed over "
        "(deserialization.exception.handler, processing.exception.handler).",
        0.9,
        clients=[message.client_id for message in (*asked, *told)],
    )


def _asks_to_end(message: Message) -> bool:
    if message.api == "StreamsGroupHeartbeat":
        return message.request.get("shutdownApplication") is True
    if message.api != "JoinGroup":
        return False
    told = [_user_data(protocol.get("metadata")) for protocol in rows(message.request.get("protocols"))]
    return any(each.get("errorCode") == _SHUTDOWN_REQUESTED for each in told)


def _is_told_to_end(message: Message) -> bool:
    if message.api == "StreamsGroupHeartbeat":
        return any(status.get("statusCode") == SHUTDOWN_APPLICATION for status in rows(message.response.get("status")))
    if message.api != "SyncGroup":
        return False
    return _user_data(message.response.get("assignment")).get("errCode") == _SHUTDOWN_REQUESTED


def _user_data(told: Any) -> dict[str, Any]:
    """What Streams adds to a subscription, or to an assignment, of the classic protocol."""
    data = told.get("userData") if isinstance(told, dict) else None
    return data if isinstance(data, dict) else {}
