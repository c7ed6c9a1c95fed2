"""Findings about groups that rebalance again and again, and what disturbs a group."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import in_seconds
from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.findings.group import Group, began_at, first_packet, group_finding
from kafkascope.reports.groups.history import Rebalance
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Trigger
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


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What disturbed a group once, and who."""

    kind: str
    client_id: str | None
    at: int
    packet: int | None
    generation: int


def disturbances(rebalances: Sequence[Rebalance]) -> list[Disturbance]:
    """What disturbed the group, in order of time; somebody new, or gone for good, is no disturbance.

    Nor is who leaves in an orderly way and comes back, unless that is again and again: so are deployments.
    """
    found: list[Disturbance] = []
    known: set[str] = set()
    left: set[str] = set()  # in an orderly way
    restarts: Counter[str | None] = Counter()
    at_once: Counter[str | None] = Counter()  # most members that have this client id
    triggers = {(rebalance.trigger, rebalance.trigger_client_id, began_at(rebalance)) for rebalance in rebalances}
    for rebalance in rebalances:
        began = began_at(rebalance)
        trigger = "leaving_and_returning" if _came_back(rebalance) else rebalance.trigger
        causes = [(trigger, rebalance.trigger_client_id, began, first_packet(rebalance))]
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
    its_own = (None, first_packet(rebalance))  # others may have left then for that reason
    return any(e.trigger == Trigger.POLL_TIMEOUT and e.rejected and e.packet in its_own for e in rebalance.evidence)


def storm(group: Group) -> Iterator[Finding]:
    """Groups that rebalance again and again, for whom, and why."""
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
    "longer session.timeout.ms bridges short ones.",
    Trigger.REBALANCE_TIMEOUT: "These members take longer to come back than max.poll.interval.ms allows.",
    Trigger.STATIC_MEMBER_REPLACED: "Give each process a group.instance.id of its own.",
    **dict.fromkeys(
        ("returned", _RESTARTED),
        "Processes restart: find out why they end; static membership (group.instance.id) lets a restart pass "
        "without a rebalance.",
    ),
}
