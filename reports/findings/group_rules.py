"""Findings about one group, from its messages and from what became of it."""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kafkascope.decoders.errors import ADVICE_BY_KIND, Error
from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import in_milliseconds, in_seconds
from kafkascope.reports.findings import join_rules, pause_rules, streams_rules
from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.findings.group import Group, group_finding, observed
from kafkascope.reports.groups.assignments import EAGER
from kafkascope.reports.groups.history import Event, GroupHistory, GroupLog, Member, Rebalance
from kafkascope.reports.groups.leaving import FENCED
from kafkascope.reports.groups.messages import Message
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_LEAVES = frozenset({Trigger.MEMBER_LEFT, Trigger.UNSUBSCRIBED})
_RESTARTED = "restarted"
# What disturbs a group that nobody starts or stops.
_DISTURBANCES: dict[str, str] = {
    Trigger.POLL_TIMEOUT: "its application did not poll in time",
    "leaving_and_returning": "it left without a reason, and came back: its application may not have polled in time",
    Trigger.SESSION_TIMEOUT: "the broker did not hear from it",
    Trigger.REBALANCE_TIMEOUT: "it did not join again in time",
    Trigger.SYNC_TIMEOUT: "it did not ask for its assignment, or send it as leader, in time",
    Trigger.STATIC_MEMBER_REPLACED: "two processes use its instance id",
    Trigger.STREAMS_TASKS_CORRUPTED: "its tasks were corrupted",
    Trigger.MEMBER_METADATA_CHANGED: "it changed its metadata",
    Trigger.LEADER_REJOINED: "the leader joined again",
    Trigger.MEMBER_REJOINED: "it joined again without a change",
    "returned": "it came back after it had gone",
    _RESTARTED: "it came back after it had left",
}
# What comes of the disturbances of others, or of an earlier one of the same member.
_CONSEQUENCES = frozenset(
    {Trigger.MEMBER_METADATA_CHANGED, Trigger.LEADER_REJOINED, Trigger.MEMBER_REJOINED, "returned", _RESTARTED}
)
_GENERATIONS = frozenset({"classic", "connect"})  # protocols in which all members join again
_COMMITS = frozenset({"OffsetCommit", "TxnOffsetCommit"})
_HEARTBEATS = frozenset({"Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"})


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What disturbed a group once, and who."""

    kind: str
    client_id: str | None
    at: int
    packet: int | None
    generation: int


def group_findings(log: GroupLog, history: GroupHistory) -> list[Finding]:
    """All findings about a group."""
    group = Group(log, history)
    return [finding for rule in _RULES for finding in rule(group)]


def disturbances(rebalances: Sequence[Rebalance]) -> list[Disturbance]:
    """What disturbed the group, in order of time; somebody new, or gone for good, is no disturbance.

    Nor is who leaves in an orderly way and comes back, unless that is again and again: so are deployments.
    """
    found: list[Disturbance] = []
    known: set[str] = set()
    left: set[str] = set()  # in an orderly way
    restarts: Counter[str | None] = Counter()
    at_once: Counter[str | None] = Counter()  # most members that have this client id
    triggers = {(rebalance.trigger, rebalance.trigger_client_id, _began(rebalance)) for rebalance in rebalances}
    for rebalance in rebalances:
        began = _began(rebalance)
        trigger = "leaving_and_returning" if _came_back(rebalance) else rebalance.trigger
        causes = [(trigger, rebalance.trigger_client_id, began, _first_packet(rebalance))]
        causes += [
            (c.trigger, c.client_id, c.at, c.packet)
            for c in rebalance.contributing
            if (c.trigger, c.client_id, c.at) not in triggers  # which have a rebalance of their own
        ]
        told = set()
        for trigger, client_id, at, packet in causes:
            kind = "returned" if trigger == Trigger.MEMBER_JOINED and client_id in known else trigger
            if kind == "returned" and client_id in left:
                kind = _RESTARTED
                restarts[client_id] += 1
            if client_id:
                (left.add if kind in _LEAVES else left.discard)(client_id)
            if kind in _DISTURBANCES and (kind, client_id) not in told:
                told.add((kind, client_id))
                found.append(Disturbance(kind, client_id, at, packet, rebalance.to_generation))
        known |= {member.client_id for member in rebalance.members if member.client_id}
        at_once |= Counter(member.client_id for member in rebalance.members)
    again = threshold("crashes")
    found = [d for d in found if d.kind != _RESTARTED or restarts[d.client_id] >= again * at_once[d.client_id]]
    return sorted(found, key=lambda d: d.at)


def _came_back(rebalance: Rebalance) -> bool:
    """Whether a member left as one does whose application does not poll in time, though nothing says so."""
    if rebalance.trigger != Trigger.MEMBER_LEFT:
        return False
    its_own = (None, _first_packet(rebalance))  # others may have left then for that reason
    return any(e.trigger == Trigger.POLL_TIMEOUT and e.rejected and e.packet in its_own for e in rebalance.evidence)


def _began(rebalance: Rebalance) -> int:
    return rebalance.started or rebalance.joined or rebalance.stable or 0


def _first_packet(rebalance: Rebalance) -> int | None:
    packets = (e.packet for e in rebalance.evidence if e.trigger == rebalance.trigger and not e.rejected)
    return next((packet for packet in packets if packet), None)


def _storm(group: Group) -> Iterator[Finding]:
    disturbed = disturbances(group.rebalances)
    window = int(threshold("storm_window")) * SECOND_NS
    generations_of: dict[int, int] = {}
    for d in disturbed:
        generations_of.setdefault(d.generation, d.at)
    times = sorted(generations_of.values())
    most = max((bisect_left(times, t + window) - bisect_left(times, t) for t in times), default=0)
    if most < (enough := threshold("storm_rebalances")):
        return
    first, last = times[0], times[-1]
    concerned = [r for r in group.rebalances if r.to_generation in generations_of]
    counts = Counter(d.kind for d in disturbed)
    recurring = [d for d in disturbed if d.kind not in _CONSEQUENCES and counts[d.kind] > 1]
    began = Counter((d.kind, d.client_id or "?") for d in recurring or disturbed)
    root = began.most_common(1)[0][0][0]
    more = f" and {len(began) - _MOST_ROOTS} more" if len(began) > _MOST_ROOTS else ""
    unowned = sum(r.unowned_ms or 0 for r in concerned)
    lasted = in_seconds((last - first) / MILLISECOND_NS, 0)
    evidence = [
        Observation(f"{d.client_id or '?'}: {_DISTURBANCES[d.kind]}, before generation {d.generation}", d.packet, d.at)
        for d in disturbed
        if (d.kind, d.client_id or "?") in began
    ]
    roots = {kind for kind, _ in began}
    others = [f"{kind.replace('_', ' ')} {counted(n, 'time')}" for kind, n in counts.most_common() if kind not in roots]
    followed = f" Followed by: {', '.join(others)}." if others else ""
    yield group_finding(
        group,
        Severity.CRITICAL,
        "rebalance_storm",
        f"Rebalance storm: {counted(len(concerned), 'rebalance')} in {lasted} that nobody asked for; "
        f"kept going by {_in_order(began)}{more}",
        evidence,
        _STORM_ADVICE.get(root, "See the timeline of the group for what each of these members did.")
        + (f" Partitions had no owner for {in_seconds(unowned)} in all." if unowned else "")
        + followed,
        0.9 + 0.1 * most / (most + enough),
        (first, last),
        clients=[d.client_id for d in recurring or disturbed],
    )


_MOST_CHANGES = 4  # of a group's protocol, in a title
_MOST_ROOTS = 3  # of a storm, in its title


def _in_order(roots: Counter[tuple[str, str]]) -> str:
    """Roots of a storm, of which and of whom, the most frequent first; a kind is named once in a row."""
    told: list[str] = []
    before = ""
    for (kind, client), times in roots.most_common(_MOST_ROOTS):
        who = f"{client} ({counted(times, 'time')})"
        told.append(who if kind == before else f"{kind.replace('_', ' ')} of {who}")
        before = kind
    return ", ".join(told)


_STORM_ADVICE: dict[str, str] = {
    Trigger.POLL_TIMEOUT: "Raise max.poll.interval.ms above the longest time that a batch takes, or lower "
    "max.poll.records: a member that is late leaves and joins again, which disturbs the others twice.",
    "leaving_and_returning": "See how long these applications take between polls: clients that give no reason leave "
    "when that is longer than max.poll.interval.ms, and join again at the next poll. Raise it, or lower "
    "max.poll.records.",
    Trigger.SESSION_TIMEOUT: "Look at pauses (garbage collection, CPU limits) and the network of these members; a "
    "longer session.timeout.ms, or static membership, bridges short ones.",
    Trigger.REBALANCE_TIMEOUT: "These members take longer to come back than max.poll.interval.ms allows.",
    Trigger.STATIC_MEMBER_REPLACED: "Give each process a group.instance.id of its own.",
    **dict.fromkeys(
        ("returned", _RESTARTED),
        "Processes restart: find out why they end; static membership (group.instance.id) lets a restart pass "
        "without a rebalance.",
    ),
}


def _poll_timeouts(group: Group) -> Iterator[Finding]:
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
    times = (m.times for m in group.log.messages if m.api in _COMMITS and m.client_id == leave.client_id)
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


def _rebalance_timeouts(group: Group) -> Iterator[Finding]:
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


def _members_lost(group: Group) -> Iterator[Finding]:
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
            evidence or [Observation("", _first_packet(r), r.started) for r in rebalances],
            "If its process was killed or crashed, let it close its consumer (shutdown hooks, SIGTERM first); if it "
            "runs, look at pauses of the process and at the network. Its partitions stood still for that long.",
            0.5 + min(0.4, 0.1 * len(rebalances)),
            (_began(rebalances[0]), _began(rebalances[-1])),
            clients=[r.trigger_client_id for r in rebalances],
        )


def _had_left(of_member: Sequence[Event], at: int) -> bool:
    """Whether a static member had said that it goes (KIP-848): it was stopped, and did not come back in time."""
    before = [event for event in of_member if event.at <= at]
    return bool(before) and max(before, key=lambda event: event.at).event == EventKind.LEFT


def _session_timeouts(group: Group) -> Iterator[Finding]:
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


def _heartbeats_held_up(group: Group) -> Iterator[Finding]:
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


def _eager(group: Group) -> Iterator[Finding]:
    eager = [r for r in group.rebalances if r.protocol == "classic" and r.assignor in EAGER]
    stopped = [r for r in eager[1:] if (r.unowned_ms or 0) >= threshold("eager_unowned") and len(r.members) > 1]
    if len(stopped) < threshold("eager_rebalances"):
        return
    total = sum(r.unowned_ms or 0 for r in stopped)
    yield group_finding(
        group,
        Severity.INFO,
        "eager_assignor",
        f"The eager assignor {stopped[-1].assignor} stopped all partitions in {len(stopped)} rebalances, "
        f"{in_seconds(total)} in all",
        [
            Observation(
                f"generation {r.to_generation}: {counted(len(r.unowned), 'partition')} without owner for up to "
                f"{in_milliseconds(r.unowned_ms or 0)}, {len(r.moved)} moved",
                _first_packet(r),
                r.started,
            )
            for r in stopped
        ],
        "Use CooperativeStickyAssignor (Java 2.4+, librdkafka 1.6+; roll twice), or group.protocol=consumer with "
        "brokers of 4.0: only partitions that move stop.",
        0.5,
    )


def _idle(group: Group) -> Iterator[Finding]:
    """Members for which no partition was left, in the generation that lasted longest."""
    settled = [r for r in group.rebalances if r.stable and r.protocol in ("classic", "consumer") and r.members]
    if not settled:
        return
    ended = max((message.over for message in group.log.messages), default=settled[-1].stable or 0)
    ends = [*(later.started or later.stable or 0 for later in settled[1:]), ended]
    lasted = [end - (r.stable or 0) for r, end in zip(settled, ends, strict=True)]
    longest = max(lasted)
    if longest < threshold("idle_members") * SECOND_NS:
        return
    rebalance = settled[lasted.index(longest)]
    by_topics: dict[tuple[str, ...], list[Member]] = defaultdict(list)
    for member in rebalance.members:
        by_topics[tuple(sorted(member.subscription))].append(member)
    for topics, members in sorted(by_topics.items()):
        counts = [None if member.assignment is None else len(member.assignment) for member in members]
        idle = sorted(m.client_id or m.member_id for m, count in zip(members, counts, strict=True) if count == 0)
        if {*counts} != {0, 1}:
            continue
        partitions = counts.count(1)
        yield group_finding(
            group,
            Severity.INFO,
            "members_idle",
            f"{len(idle)} of {len(members)} members {'has' if len(idle) == 1 else 'have'} nothing to do: there "
            f"{'is' if partitions == 1 else 'are'} {counted(partitions, 'partition')}",
            [
                Observation(
                    f"generation {rebalance.to_generation}, topics {listed(topics, 20)}: none for {listed(idle, 20)}",
                    _first_packet(rebalance),
                    rebalance.stable,
                )
            ],
            "Nothing, if they are a reserve. For more throughput give the topic more partitions (records of a key go "
            "to another one then), or have each member process records in parallel.",
            0.3,
            (rebalance.stable, (rebalance.stable or 0) + longest),
            clients=idle,
        )


def _uneven(group: Group) -> Iterator[Finding]:
    settled = [r for r in group.rebalances if r.stable and r.protocol in ("classic", "consumer") and len(r.members) > 1]
    if not settled or not _all_given_out(settled[-1]):
        return
    last = settled[-1]
    alike: dict[tuple[str, ...], list[Member]] = defaultdict(list)
    for member in last.members:
        if member.assignment is not None:
            alike[tuple(sorted(member.subscription))].append(member)
    for subscription, members in sorted(alike.items()):
        owned = sorted((len(m.assignment or []), m.client_id or m.member_id) for m in members)
        (fewest, poor), (most, rich) = owned[0], owned[-1]
        total = sum(n for n, _ in owned)
        if most - fewest < 2 or most < threshold("uneven_factor") * fewest:
            continue
        idle = [name for n, name in owned if n == 0]
        yield group_finding(
            group,
            Severity.WARNING if total >= len(members) else Severity.INFO,
            "uneven_assignment",
            f"{rich} has {most} partitions, {poor} {fewest if fewest else 'none'}"
            + (f"; {len(idle)} of {len(members)} members have nothing to do" if len(idle) > 1 else ""),
            [
                Observation(
                    f"generation {last.to_generation}, assignor {last.assignor}, topics {listed(subscription, 20)}: "
                    + ", ".join(f"{name} {n}" for n, name in owned),
                    _first_packet(last),
                    last.stable,
                )
            ],
            "The range assignor gives each topic's first partitions to the first members: with several topics of few "
            "partitions use a sticky or uniform assignor. Members beyond the number of partitions stay idle.",
            0.5,
            (last.stable, None),
        )


def _all_given_out(rebalance: Rebalance) -> bool:
    """Whether what members gave up is with others, and not still to be given out, as it is in a second phase."""
    before = {partition for member in rebalance.members for partition in member.assignment_before or ()}
    return before <= {partition for member in rebalance.members for partition in member.assignment or ()}


def _partitions_unowned(group: Group) -> Iterator[Finding]:
    long = [
        (r, u)
        for r in group.rebalances
        for u in r.unowned
        if u.ms >= threshold("unowned_partition") * 1000 and r.members
    ]
    if not long:
        return
    worst = max(u.ms for _, u in long)
    partitions = sorted({u.partition for _, u in long})
    yield group_finding(
        group,
        Severity.WARNING,
        "partition_unowned",
        f"{counted(len(partitions), 'partition')} had no owner for up to {in_seconds(worst)}: {in_words(partitions)}",
        [
            Observation(
                f"{u.partition}: nobody's for {in_seconds(u.ms)}, generation {r.to_generation} ({r.trigger})",
                _first_packet(r),
                u.since,
            )
            for r, u in sorted(long, key=lambda item: -item[1].ms)
        ],
        "See the rebalance's trigger and whom the others waited for; nothing is read from a partition meanwhile.",
        worst / (worst + 3000 * threshold("unowned_partition")),
    )


def _slow_rebalances(group: Group) -> Iterator[Finding]:
    slow = [r for r in group.rebalances if (r.last_by_ms or 0) >= 1000 * threshold("slow_member") and r.last_client_id]
    by_client: dict[str, list[Rebalance]] = defaultdict(list)
    for rebalance in slow:
        by_client[rebalance.last_client_id or "?"].append(rebalance)
    for client, rebalances in sorted(by_client.items()):
        longest = max(r.last_by_ms or 0 for r in rebalances)
        yield group_finding(
            group,
            Severity.WARNING,
            "slow_to_join",
            f"All others waited for {client} up to {in_seconds(longest)} in {counted(len(rebalances), 'rebalance')}",
            [
                Observation(
                    f"generation {r.to_generation}: {client} came {in_seconds(r.last_by_ms or 0)} after all others",
                    _first_packet(r),
                    _began(r),
                )
                for r in rebalances
            ],
            "A member joins again when its application polls next: shorten what it does between polls.",
            longest / (longest + 3000 * threshold("slow_member")),
            clients=[r.last_client_id for r in rebalances],
        )


def _commits_refused(group: Group) -> Iterator[Finding]:
    refused: dict[str, list[Message]] = defaultdict(list)
    for message in group.log.messages:
        if message.api in _COMMITS and message.error is not None:
            refused[message.client_id or "?"].append(message)
    for client, messages in sorted(refused.items()):
        if len(messages) < threshold("commits_refused"):
            continue
        errors = Counter(m.error or "" for m in messages)
        listed = ", ".join(f"{error} {n} times" for error, n in errors.most_common())
        stranger = all(m.api == "OffsetCommit" and m.request.get("memberId") == "" for m in messages)
        yield group_finding(
            group,
            Severity.WARNING,
            "commit_refused",
            f"{client}: {len(messages)} commits{' of no member' if stranger else ''} refused ({listed})",
            [observed(m, f"{m.api} answered {m.error}") for m in messages],
            _advice_on_commits(errors.most_common(1)[0][0], stranger=stranger),
            len(messages) / (len(messages) + 5),
            clients=[m.client_id for m in messages],
        )


def _advice_on_commits(error: str, *, stranger: bool) -> str:
    """What to do about commits that are refused; stranger: nobody commits them as a member."""
    if error not in FENCED | {Error.REBALANCE_IN_PROGRESS}:
        known = Error.__members__.get(error)
        return known.advice if known is not None else ADVICE_BY_KIND[False]
    if stranger:
        return (
            "It commits for the group without being a member, as one does that assigns partitions to itself, and while "
            "others are members that is refused: give it a group.id of its own."
        )
    return (
        "It commits as a member that it is no longer: what it works on has been given to somebody else and will be "
        "done twice. It must poll() to join again; commit in the rebalance listener before partitions are taken."
    )


def _protocols(group: Group) -> Iterator[Finding]:
    changes = [(old, new) for old, new in itertools.pairwise(group.rebalances) if old.protocol != new.protocol]
    if not changes:
        return
    way = " → ".join([changes[0][0].protocol, *(new.protocol for _, new in changes[:_MOST_CHANGES])])
    way += f" and {len(changes) - _MOST_CHANGES} more" if len(changes) > _MOST_CHANGES else ""
    yield group_finding(
        group,
        Severity.INFO,
        "protocol_changed",
        f"The group changed its protocol: {way}",
        [
            Observation(
                f"{old.protocol} up to {old.to_generation}, {new.protocol} from {new.to_generation} on",
                _first_packet(new),
                new.started,
            )
            for old, new in changes
        ],
        "Ordinary while members are restarted one by one with another group.protocol (KIP-848): with the first of the "
        "new protocol the group changes, with the last of it that goes it changes back. When all are restarted, look "
        "that none is left with the old setting.",
        0.3,
    )


def _coordinator(group: Group) -> Iterator[Finding]:
    moves = [e for e in group.history.events if e.event == "coordinator_moved"]
    distinct = {e.detail: e for e in reversed(moves)}
    if not distinct:
        return
    times = sorted(distinct.values(), key=lambda e: e.at)
    yield group_finding(
        group,
        Severity.WARNING if len(times) >= threshold("coordinator_moves") else Severity.INFO,
        "coordinator_moved",
        f"The group's coordinator moved{'' if len(times) == 1 else f' {len(times)} times'}",
        [Observation(e.detail or "another broker is coordinator", e.packet, e.at) for e in times],
        "Ordinary when brokers are restarted one by one; if none was, look at the leader of the group's partition of "
        "__consumer_offsets.",
        len(times) / (len(times) + 4),
    )


_RULES: tuple[Callable[[Group], Iterator[Finding]], ...] = (
    _storm,
    _poll_timeouts,
    _rebalance_timeouts,
    _members_lost,
    _session_timeouts,
    _heartbeats_held_up,
    pause_rules.members_paused,
    join_rules.instance_ids,
    join_rules.joins_refused,
    streams_rules.topics_unfit,
    streams_rules.shut_down,
    join_rules.configurations_apart,
    _eager,
    _idle,
    _uneven,
    _partitions_unowned,
    _slow_rebalances,
    _commits_refused,
    _protocols,
    _coordinator,
)
