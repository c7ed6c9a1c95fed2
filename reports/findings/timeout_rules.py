"""Findings about members of a group that were late: to poll, to join again, to be heard of."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import in_milliseconds, in_seconds
from kafkascope.reports.findings import join_rules
from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.findings.group import COMMITS, Group, began_at, first_packet, group_finding, observed
from kafkascope.reports.findings.storm_rules import Disturbance, disturbances
from kafkascope.reports.groups.history import Event, Member, Rebalance
from kafkascope.reports.groups.messages import Message
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_GENERATIONS = frozenset({"classic", "connect"})  # protocols in which all members join again
_HEARTBEATS = frozenset({"Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"})


def poll_timeouts(group: Group) -> Iterator[Finding]:
    """Applications that did not poll in time, or look as if."""
    assigned = _Assigned(group.rebalances)
    by_client: dict[tuple[str, str], list[Disturbance]] = defaultdict(list)
    for d in disturbances(group.rebalances):
        if d.kind in (Trigger.POLL_TIMEOUT, "leaving_and_returning"):
            by_client[d.kind, d.client_id or "?"].append(d)
    for (kind, client), leaves in sorted(by_client.items()):
        sure = kind == Trigger.POLL_TIMEOUT
        seldom = len(leaves) < threshold("leaving_and_returning")
        if not sure and seldom and not all(_left_in_the_midst(group, leave) for leave in leaves):
            continue
        evidence = []
        limits = set()
        for d in leaves:
            text = f"{client} left: its application did not poll in time" if sure else f"{client} left, and came back"
            if (before := assigned.before(client, d.at)) is not None:
                member, synced = before
                text += f", {in_seconds((d.at - synced) / MILLISECOND_NS)} after it had got its assignment"
                if member.rebalance_timeout_ms:
                    limits.add(member.rebalance_timeout_ms)
            evidence.append(Observation(text, d.packet, d.at))
        limit = f" ({', '.join(f'{ms:,}' for ms in sorted(limits))} ms)" if limits else ""
        often = counted(len(leaves), "time")
        if sure:
            title = f"{client} took longer than max.poll.interval.ms{limit} between polls, {often}"
        else:
            title = (
                f"{client} left without a reason and came back, {often}: as one slower than max.poll.interval.ms{limit}"
            )
        yield group_finding(
            group,
            Severity.CRITICAL if sure and len(leaves) >= threshold("storm_rebalances") else Severity.WARNING,
            kind,
            title,
            evidence,
            "Raise max.poll.interval.ms above the longest processing time, lower max.poll.records, or hand work to "
            "other threads and pause() meanwhile. Records that it was working on are given to others and done twice."
            + ("" if sure else " If its log has no poll timeout, it unsubscribes and subscribes anew."),
            len(leaves) / (len(leaves) + 2),
            clients=[d.client_id for d in leaves],
        )


def _left_in_the_midst(group: Group, leave: Disturbance) -> bool:
    """Whether a client that commits left without a last commit: when it is closed or unsubscribes it makes one."""
    times = (m.times for m in group.log.messages if m.api in COMMITS and m.client_id == leave.client_id)
    last = max((int(at) for each in times for at in each[each <= leave.at][-1:]), default=None)
    return last is not None and leave.at - last > threshold("last_commit") * SECOND_NS


class _Assigned:
    """The members of each client, and when they had their assignments."""

    def __init__(self, rebalances: Sequence[Rebalance]) -> None:
        # Of each client in order of generations and of times: without members who have a later one that got its own
        # assignment no later, because that is always the last before whatever comes.
        self._by_client: dict[str | None, list[tuple[int, Member]]] = defaultdict(list)
        for rebalance in rebalances:
            for member in rebalance.members:
                synced = member.synced or rebalance.stable
                if synced is None:
                    continue
                assigned = self._by_client[member.client_id]
                while assigned and assigned[-1][0] >= synced:
                    assigned.pop()
                assigned.append((synced, member))

    def before(self, client: str, at: int) -> tuple[Member, int] | None:
        """The member of that client in the last generation before a time, and when it had its assignment."""
        assigned = self._by_client.get(client, [])
        place = bisect_left(assigned, at, key=lambda each: each[0])
        return (assigned[place - 1][1], assigned[place - 1][0]) if place else None


def rebalance_timeouts(group: Group) -> Iterator[Finding]:
    """Members that did not join again, or give up their partitions, in time."""
    by_client: dict[tuple[str, bool], list[tuple[Disturbance, int | None]]] = defaultdict(list)
    protocols = {r.to_generation: r.protocol for r in group.rebalances}
    assigned = _Assigned(group.rebalances)
    for d in disturbances(group.rebalances):
        if d.kind == Trigger.REBALANCE_TIMEOUT:
            before = assigned.before(d.client_id or "?", d.at)
            timeout = before[0].rebalance_timeout_ms if before is not None else None
            by_client[d.client_id or "?", protocols[d.generation] in _GENERATIONS].append((d, timeout))
    for (client, joins), timeouts in sorted(by_client.items()):
        limits = sorted({timeout for _, timeout in timeouts if timeout})
        within = f" in {' or '.join(in_seconds(ms) for ms in limits)}" if limits else " in time"
        what = "join again" if joins else "give up its partitions"
        yield group_finding(
            group,
            Severity.CRITICAL if len(timeouts) >= threshold("storm_rebalances") else Severity.WARNING,
            "rebalance_timeout",
            f"{client} did not {what}{within}" + (f", {len(timeouts)} times" if len(timeouts) > 1 else ""),
            [
                Observation(
                    f"generation {d.generation}: {client} did not {what} in time, and was taken out", d.packet, d.at
                )
                for d, _ in timeouts
            ],
            "Look at what its onPartitionsRevoked does (commits, closing of files, waiting for other threads), and at "
            "how long it works between polls: both must be over within max.poll.interval.ms, which is the rebalance "
            "timeout. Shorten them, or raise it.",
            len(timeouts) / (len(timeouts) + 2),
            clients=[d.client_id for d, _ in timeouts],
        )


def members_lost(group: Group) -> Iterator[Finding]:
    """Members that the broker heard nothing of for their session."""
    expired = [r for r in group.rebalances if r.trigger == Trigger.SESSION_TIMEOUT]
    told: dict[str | None, list[Event]] = {r.trigger_member: [] for r in expired}
    for event in group.history.events if expired else ():
        if event.member_id in told:
            told[event.member_id].append(event)
    lost = [r for r in expired if r.started is None or not _had_left(told[r.trigger_member], r.started)]
    joins_on = {name for found in join_rules.configurations_apart(group) for name in found.client_ids} if lost else ()
    by_client: dict[str, list[Rebalance]] = defaultdict(list)
    for rebalance in (r for r in lost if r.trigger_client_id not in joins_on):  # which is heard, but without heartbeats
        by_client[rebalance.trigger_client_id or "a member"].append(rebalance)
    for client, rebalances in sorted(by_client.items()):
        evidence = [
            Observation(f"generation {r.to_generation}: {e.text}", e.packet, e.at)
            for r in rebalances
            for e in r.evidence
            if e.trigger == Trigger.SESSION_TIMEOUT and not e.rejected
        ]
        guessed = all(r.certainty == Certainty.GUESSED for r in rebalances)
        yield group_finding(
            group,
            Severity.WARNING,
            "member_lost",
            f"{client} {'may have been' if guessed else 'was'} lost: the broker heard nothing from it for its session "
            "timeout" + (f", {counted(len(rebalances), 'time')}" if len(rebalances) > 1 else ""),
            evidence or [Observation("", first_packet(r), r.started) for r in rebalances],
            "If its process was killed or crashed, let it close its consumer (shutdown hooks, SIGTERM first); if it "
            "runs, look at pauses of the process and at the network. Its partitions stood still for that long.",
            0.5 + min(0.4, 0.1 * len(rebalances)),
            (began_at(rebalances[0]), began_at(rebalances[-1])),
            clients=[r.trigger_client_id for r in rebalances],
        )


def _had_left(of_member: Sequence[Event], at: int) -> bool:
    """Whether a static member had said that it goes (KIP-848): it was stopped, and did not come back in time."""
    before = [event for event in of_member if event.at <= at]
    return bool(before) and max(before, key=lambda event: event.at).event == EventKind.LEFT


def session_timeouts(group: Group) -> Iterator[Finding]:
    """Members whose heartbeats come so late that little of their session is left."""
    lost = Counter(r.trigger_client_id for r in group.rebalances if r.trigger == Trigger.SESSION_TIMEOUT)
    for (timeout, client), lives in sorted(_heartbeats(group).items()):
        times = [np.sort(np.concatenate([message.times for message in messages])) for messages in lives]
        gaps = (np.concatenate([np.diff(each) for each in times]) / MILLISECOND_NS).tolist()
        if len(gaps) < threshold("heartbeats_seen_of_lost" if lost[client] else "heartbeats_seen") - 1:
            continue
        interval = statistics.quantiles(gaps, n=4)[0]  # rebalances make some longer
        if interval * threshold("heartbeats_in_session") <= timeout:
            continue
        every = in_milliseconds(interval)
        first = min((messages[0] for messages in lives), key=lambda message: message.at)
        was_lost = f", and it was lost {counted(lost[client], 'time')}" if lost[client] else ""
        yield group_finding(
            group,
            Severity.WARNING,
            "session_timeout_tight",
            f"{client}: session.timeout.ms {timeout:,} leaves room for {timeout / interval:.1f} heartbeats{was_lost}",
            [observed(first, f"heartbeats every {every} (a quarter of {len(gaps)} came faster)")],
            "Set heartbeat.interval.ms to a third of session.timeout.ms or less: one lost or late heartbeat ends a "
            "member now.",
            0.6,
            (first.at, max(int(each[-1]) for each in times)),
            clients=[first.client_id],
        )


def _heartbeats(group: Group) -> dict[tuple[int, str], list[list[Message]]]:
    """Heartbeats by session timeout and client, of each member on each connection by themselves."""
    asked: dict[str, tuple[int, str | None]] = {}
    beats: dict[tuple[str, int], list[Message]] = defaultdict(list)
    whose: dict[str | None, str] = {}  # requests; a member says the same again and again
    for message in group.log.messages:
        if message.error is not None:
            continue
        if message.api == "JoinGroup":
            member = message.response.get("memberId")
            if member and message.request.get("sessionTimeoutMs"):
                asked[member] = message.request["sessionTimeoutMs"], message.client_id
        elif message.api == "Heartbeat":
            said = message.request_text
            if said not in whose:
                whose[said] = message.request.get("memberId") or ""
            beats[whose[said], message.connection].append(message)
    by_client: dict[tuple[int, str], list[list[Message]]] = defaultdict(list)
    for (member, _), messages in sorted(beats.items()):
        if member in asked:
            timeout, client = asked[member]
            by_client[timeout, client or "?"].append(messages)
    return by_client


def _waits_for_others(message: Message) -> bool:
    """Whether it is answered when other members have spoken, however fast the broker is.

    The leader's SyncGroup is answered when what it brings is stored.
    """
    return message.api == "JoinGroup" or (message.api == "SyncGroup" and not message.request.get("assignments"))


def heartbeats_held_up(group: Group) -> Iterator[Finding]:
    """Heartbeats that waited behind other requests on their connection."""
    by_connection: dict[int, list[Message]] = defaultdict(list)
    for message in group.log.messages:
        by_connection[message.connection].append(message)
    evidence: list[Observation] = []
    clients: Counter[str | None] = Counter()
    longest = 0.0
    for _, messages in sorted(by_connection.items()):
        slow: Message | None = None  # the request before that was answered last
        for message in messages:
            waited = (message.answered - message.at) / MILLISECOND_NS if message.answered else 0.0
            held = slow is not None and slow.answered is not None and slow.answered > message.at
            if message.api in _HEARTBEATS:
                if waited >= threshold("heartbeat_held_up") and held and slow is not None:
                    longest = max(longest, waited)
                    clients[message.client_id] += 1
                    took = in_seconds(((slow.answered or slow.at) - slow.at) / MILLISECOND_NS)
                    text = f"{message.api} answered after {in_seconds(waited)}"
                    evidence.append(
                        observed(message, f"{text}: {slow.api} (packet {slow.packet}) before it took {took}")
                    )
            elif _waits_for_others(message):
                continue
            elif slow is None or (message.last.answered or 0) > (slow.answered or 0):
                slow = message.last
    if not evidence:
        return
    whose = ", ".join(client or "?" for client, _ in clients.most_common(3))
    yield group_finding(
        group,
        Severity.WARNING,
        "heartbeat_held_up",
        f"Heartbeats of {whose} waited behind slow requests on the same connection, up to {in_seconds(longest)}",
        evidence,
        "The broker answers the requests of a connection in turn. Find out why the request before it is slow (commits: "
        "replication of __consumer_offsets, disks); keep session.timeout.ms well above it.",
        longest / (longest + 5 * threshold("heartbeat_held_up")),
        clients=clients,
    )
