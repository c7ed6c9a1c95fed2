"""Leaders of groups that take long to say who gets which partitions: all other members wait for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.costs import held_up, members_before, of_rebalances, unread
from kafkascope.reports.incidents.incident import Incident, Subject, Weighed, in_words
from kafkascope.reports.incidents.members.awaited import found
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_SYNC = ("group_id", "member_id", "client_id", "requested", "request_packet", "answered")
_FINDINGS = ("slow_to_join", "partition_unowned", "commits_stopped", "lag_growing")
_ADVICE = (
    "See in its log what the leader did then: its assignor (partition.assignment.strategy), what a Streams application "
    "asks for before it assigns (offsets of changelogs, internal topics), a pause of garbage collection. "
    "group.protocol=consumer (KIP-848) has the broker assign, and the others go on meanwhile."
)


@dataclass(frozen=True, slots=True)
class _Wait:
    """A generation whose members waited for its leader's assignment."""

    rebalance: Row
    client_id: str  # of the leader
    since: int
    until: int  # when the leader sent it, or the wait was over without
    sent: int | None  # the packet; None: it never did
    others: int  # who waited all that time, nearly

    @property
    def ms(self) -> float:
        """For how long."""
        return (self.until - self.since) / MILLISECOND_NS

    @property
    def seen(self) -> str:
        """What shows it."""
        others = counted(self.others, "other member")
        if self.sent is None:
            return f"no SyncGroup of it for {duration(self.ms)}, and those of {others} were not answered"
        return (
            f"its SyncGroup came {duration(self.ms)} after the first answer to a JoinGroup of that generation, and "
            f"those of {others} waited for it"
        )


def waited_for(signs: Signs) -> Iterator[Incident]:
    """One a group. None of groups that a broker's outage held up.

    Of leaders that did not send it at all only those for which the group waits at the end, and that live as far as is
    known: others are told as lost (`members.lost`), or as too slow (`slow.slow`).
    """
    waits: dict[str, list[_Wait]] = defaultdict(list)
    for one in _waits(signs):
        waits[one.rebalance["group_id"]].append(one)
    for group, of_group in sorted(waits.items()):
        yield _incident(signs, group, of_group)


def _waits(signs: Signs) -> Iterator[_Wait]:
    least = int(threshold("waited_for") * SECOND_NS)
    untils = _untils(signs)
    rows = [
        row
        for row in signs.rebalances
        if row["protocol"] == "classic" and row["leader"] and row["joined"] is not None and row["to_generation"]
    ]
    rows = [row for row in rows if untils[_key(row)] - row["joined"] >= least]
    if not rows:
        return
    missing = {(one.loss.rebalance["group_id"], one.loss.client_id) for one in signs.once(found)}
    where = (pc.field("api") == "SyncGroup") & among("group_id", sorted({row["group_id"] for row in rows}))
    where &= pc.field("requested") >= moment(min(row["joined"] for row in rows))
    syncs: dict[str, list[Row]] = defaultdict(list)
    for sync in sorted(signs.rows("exchanges", _SYNC, where), key=lambda sync: (sync["requested"], sync["member_id"])):
        syncs[sync["group_id"]].append(sync)
    for row in rows:
        since, until = row["joined"], untils[_key(row)]
        within = [sync for sync in syncs[row["group_id"]] if since <= sync["requested"] <= until]
        mine = next((sync for sync in within if sync["member_id"] == row["leader"]), None)
        sent = until if mine is None else mine["requested"]
        waiting = {
            sync["member_id"]
            for sync in within
            if sync["member_id"] != row["leader"]
            and sync["requested"] <= sent - least
            and (sync["answered"] is None or sync["answered"] >= sent)
        }
        name = mine["client_id"] if mine else _name(signs, row)
        held = any(one.started <= sent and since <= one.until(signs.end) for one in signs.once(outages))
        is_open = until == signs.end and (row["group_id"], name) not in missing
        if waiting and name and not held and (mine or is_open):
            yield _Wait(row, name, since, sent, mine["request_packet"] if mine else None, len(waiting))


def _key(row: Row) -> tuple[str, int]:
    return row["group_id"], row["to_generation"]


def _untils(signs: Signs) -> dict[tuple[str, int], int]:
    """When each generation had its assignment, or the next one began; else the end of the capture."""
    untils: dict[tuple[str, int], int] = defaultdict(int)
    begins: dict[str, int] = {}
    for row in reversed(signs.rebalances):
        if row["started"] is not None:
            untils[_key(row)] = row["stable"] or begins.get(row["group_id"], signs.end)
            begins[row["group_id"]] = row["started"]
    return untils


def _name(signs: Signs, row: Row) -> str | None:
    """The client id of a leader that was not heard in its generation."""
    members = [*(row["members"] or ()), *members_before(signs, row)]
    return next((one["client_id"] for one in members if one["member_id"] == row["leader"]), None)


def _incident(signs: Signs, group: str, waits: Sequence[_Wait]) -> Incident:
    names = sorted({one.client_id for one in waits})
    longest = max(waits, key=lambda one: (one.ms, -one.since))
    last = waits[-1]
    is_open = last.sent is None
    effects, cost_ms, rebalances = of_rebalances([one.rebalance for one in waits])
    if is_open and (members := held_up(members_before(signs, last.rebalance))):
        effects, cost_ms = (*effects, unread(members, last.ms)), cost_ms + last.ms * len(members)
    times = "" if len(waits) == 1 else f" {counted(len(waits), 'time')}, for up to"
    did = "has not said" if is_open else "said only then"
    since = min(one.since for one in waits)
    headline = (
        f"{listed(names)}, leader of group {group}, kept all others waiting{times or ' for'} {duration(longest.ms)} "
        f"from {clock(since)} on: it was told who is in the group, and {did} who gets which partitions"
    )
    return Incident(
        kind=IncidentKind.SLOW_REVOCATION,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(
            Subject(Role.GROUP, group),
            *signs.clients(names, signs.heard_of(group, {one.rebalance["leader"] for one in waits})),
        ),
        started=since,
        ended=None if is_open else last.until,
        headline=headline + in_words(effects),
        evidence=tuple(Weighed(one.seen, one.sent, one.until if one.sent else one.since, 0.8) for one in waits),
        advice=_ADVICE,
        cost_ms=cost_ms,
        effects=effects,
        findings=signs.explained(_FINDINGS, since, last.until, groups=[group], clients=names),
        rebalances=rebalances,
    )
