"""Findings about members that say nothing for a while, and are not lost: processes that stand still."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import in_seconds
from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.findings.group import Group, group_finding
from kafkascope.reports.groups.messages import NO_REPEATS, Message
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_HEARTBEATS = frozenset({"Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"})
_MEANWHILE = 4  # words in which one that leaves joins again: a commit may stand between them


class _Pause(NamedTuple):
    begin: int  # when the heartbeat before was answered
    ms: float  # until the next one
    packet: int  # which has this
    usual_ms: float  # from one to the next


def members_paused(group: Group) -> Iterator[Finding]:
    """Members that send no heartbeat for twice as long as usual, nor anything else to their coordinator, and go on.

    Who finds its poll interval over as it goes on leaves, and joins again.
    """
    by_connection: dict[int, list[Message]] = defaultdict(list)
    for message in group.log.messages:
        by_connection[message.connection].append(message)
    of_hosts: list[tuple[_Pause, str, str]] = []  # with host and client id
    for connection, messages in sorted(by_connection.items()):
        end = group.log.ended.get(connection)
        if end is None or not end.gap_bytes:  # else it may be the capture that lacks a heartbeat
            of_hosts += [(pause, messages[0].client, messages[0].client_id or "?") for pause in _pauses(messages)]
    found: dict[str, list[_Pause]] = defaultdict(list)
    for at_once in _overlapping(sorted(of_hosts)):
        if len({host for _, host, _ in at_once}) == 1:  # else it may be the capture that stood still, or its clock
            for pause, _, client in at_once:
                found[client].append(pause)
    for client, pauses in sorted(found.items()):
        longest = max(pause.ms for pause in pauses)
        usual = in_seconds(min(pause.usual_ms for pause in pauses))
        often = f" {counted(len(pauses), 'time')}, for up to" if len(pauses) > 1 else " for"
        yield group_finding(
            group,
            Severity.WARNING,
            "member_paused",
            f"{client} said nothing{often} {in_seconds(longest)}, though it sends heartbeats every {usual}",
            [
                Observation(f"no heartbeat, and nothing else, for {in_seconds(pause.ms)}", pause.packet, pause.begin)
                for pause in sorted(pauses)
            ],
            "Look at what stops the process at these moments: garbage collection, a limit of processor time, a host "
            "without memory. A pause beyond session.timeout.ms costs its partitions.",
            0.4 + 0.2 * longest / (longest + 1000 * threshold("member_paused")),
            clients=[client],
        )


def _overlapping(in_time: Iterable[tuple[_Pause, str, str]]) -> Iterator[list[tuple[_Pause, str, str]]]:
    """Pauses, those together that overlap, if only by one between them."""
    together: list[tuple[_Pause, str, str]] = []
    end = 0.0
    for one in in_time:
        if together and one[0].begin >= end:
            yield together
            together, end = [], 0.0
        together.append(one)
        end = max(end, one[0].begin + one[0].ms * MILLISECOND_NS)
    if together:
        yield together


def _pauses(messages: Sequence[Message]) -> Iterator[_Pause]:
    """Pauses of a member on its connection to the coordinator; nearly always none."""
    beats = [message for message in messages if message.api in _HEARTBEATS and message.error is None]
    least = int(threshold("member_paused") * SECOND_NS)
    if not _waits_for(beats, least):
        return
    at = np.sort(np.concatenate([message.times for message in beats]))
    told = max(message.response.get("heartbeatIntervalMs") or 0 for message in beats)
    if not told and len(at) < threshold("heartbeats_seen"):
        return
    usual = told * MILLISECOND_NS or statistics.median(np.diff(at).tolist())
    before: Message | None = None
    done = 0  # when all before was answered
    words = sorted((each for message in messages for each in message.each()), key=lambda each: each.at)
    for place, word in enumerate(words):
        if before is not None and word.at - done >= max(least, 2 * usual) and _is_member(before):
            behind = words[place + 1 : place + 1 + _MEANWHILE]
            if _is_member(word) or (_leaves(word) and any(map(_joins, behind))):
                yield _Pause(done, (word.at - done) / MILLISECOND_NS, word.packet or 0, usual / MILLISECOND_NS)
        before, done = word, max(done, word.answered or word.at)


def _waits_for(beats: Sequence[Message], least: int) -> bool:
    """Whether any of these heartbeats is sent so long after the one before was answered."""
    done: int | None = None
    for message in beats:
        if done is not None and message.at - done >= least:
            return True
        repeats = message.repeats or NO_REPEATS
        answered = np.concatenate([[message.answered or message.at], repeats.answered[:-1]])
        if len(repeats.at) and (repeats.at - answered).max() >= least:
            return True
        done = message.over
    return False


def _is_member(message: Message) -> bool:
    """Whether this is a word of a member, and it is none that ends its being one."""
    if message.error is not None or message.answered is None or message.request_packet is None:
        return False
    return message.api == "OffsetCommit" or (
        message.api in _HEARTBEATS and (message.request.get("memberEpoch") or 0) >= 0
    )


def _leaves(message: Message) -> bool:
    """Whether a member leaves; who is told that it is none was lost before."""
    if message.error is not None:
        return False
    return message.api == "LeaveGroup" or (message.api in _HEARTBEATS and (message.request.get("memberEpoch") or 0) < 0)


def _joins(message: Message) -> bool:
    return message.api == "JoinGroup" or (message.api in _HEARTBEATS and message.request.get("memberEpoch") == 0)
