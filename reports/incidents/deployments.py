"""Groups whose members were replaced in an orderly way, as deployments do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.signs import Row, Signs
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import SECOND_NS

_LEFT = frozenset({Trigger.MEMBER_LEFT, Trigger.UNSUBSCRIBED})
_CAME = frozenset({Trigger.MEMBER_JOINED, Trigger.STATIC_MEMBER_REPLACED})
_ORDERLY = _LEFT | _CAME | {Trigger.COOPERATIVE_FOLLOWUP, Trigger.LEADER_REJOINED}
_MOST_STEPS = 100  # of a deployment


@dataclass(frozen=True, slots=True)
class _Deployment:
    """Members that were replaced, and the rebalances of it, by time."""

    sure: Certainty
    words: str  # who, and by whom
    clients: list[str]
    rows: list[Row]
    evidence: tuple[Weighed, ...]


def deployments(signs: Signs) -> Iterator[Incident]:
    """Groups whose members were replaced in an orderly way: by themselves started anew, or by as many others."""
    by_group: dict[str, list[Row]] = defaultdict(list)
    workers = set[str]()  # hosts of Kafka Connect, between which tasks move
    for row in signs.rebalances:
        by_group[row["group_id"]].append(row)
        if row["protocol"] == "connect":
            workers |= {member["host"] for member in row["members"] or ()}
    for group, rows in sorted(by_group.items()):
        if (found := _in_turn(rows) or _by_others(rows, workers)) is None:
            continue
        since, until = found.rows[0]["started"], max(row["stable"] or row["started"] for row in found.rows)
        made = frozenset((group, row["to_generation"]) for row in found.rows)
        yield Incident(
            kind=IncidentKind.CLIENT_DEPLOY,
            severity=Severity.INFO,
            certainty=found.sure,
            subjects=(Subject(Role.GROUP, group), *signs.clients(found.clients)),
            started=since,
            ended=until,
            headline=f"members of group {group} were replaced in turn from {clock(since)} to {clock(until)}: "
            f"{found.words}; {counted(len(made), 'rebalance')}",
            evidence=found.evidence,
            advice="Static membership (group.instance.id) lets each restart within session.timeout.ms pass without "
            "a rebalance.",
            cost_ms=float(sum(row["unowned_ms"] or 0 for row in found.rows)),
            effects=(Effect("rebalances", counted(len(made), "rebalance"), len(made)),),
            rebalances=made,
        )


def _in_turn(rows: Sequence[Row]) -> _Deployment | None:
    """Members that left and came back soon, under their names."""
    turns = _turns(rows)
    names = sorted({name for _, _, name in turns})
    if len(names) < threshold("deployed_members"):
        return None
    evidence = tuple(
        Weighed(
            f"{name} left at {clock(left['started'])} and was back at {clock(came['started'])}",
            None,
            left["started"],
            0.7,
        )
        for left, came, name in turns
    )
    of_turns = {row["to_generation"]: row for left, came, _ in turns for row in (left, came)}
    in_time = sorted(of_turns.values(), key=lambda row: row["started"])
    return _Deployment(
        Certainty.LIKELY, f"{listed(names)} left in an orderly way and came back", names, in_time, evidence
    )


def _by_others(rows: Sequence[Row], workers: Set[str]) -> _Deployment | None:
    """Members that left, and in whose place as many others came, before or behind: of other names, or hosts."""
    within = threshold("one_trouble") * SECOND_NS
    present = [_who(row, workers) for row in rows]
    for first, (before, old) in enumerate(zip(rows, present, strict=True)):
        if len(old) < threshold("deployed_members") or before["started"] is None:
            continue
        last = before["started"]
        for place in range(first + 1, min(first + 1 + _MOST_STEPS, len(rows))):
            row, now = rows[place], present[place]
            triggers = {row["trigger"], *(also["trigger"] for also in row["contributing"] or ())}
            if not triggers <= _ORDERLY or row["started"] is None or row["started"] - last > within:
                break
            last, gone, come = row["started"], old - now, now - old
            if len(gone) == len(come) >= threshold("deployed_members"):
                taken = rows[first + 1 : place + 1]
                names = [sorted({name for name, _ in group}) for group in (gone, come)]
                hosts = [f" ({listed({host for _, host in group}, 3)})" for group in (gone, come)]
                words = f"{listed(names[0])}{hosts[0]} left, and {listed(names[1])}{hosts[1]} came instead"
                evidence = (
                    Weighed(f"in the group were {_listed(old)}", None, before["started"], 0.6),
                    Weighed(f"in the group are {_listed(now)}", None, row["started"], 0.6),
                )
                return _Deployment(Certainty.GUESSED, words, sorted({*names[0], *names[1]}), list(taken), evidence)
    return None


def _who(row: Row, workers: Set[str]) -> set[tuple[str, str]]:
    """Client id and host of each member, but for those at some hosts."""
    return {
        (member["client_id"] or "?", member["host"] or "?")
        for member in row["members"] or ()
        if member["host"] not in workers
    }


def _listed(who: set[tuple[str, str]]) -> str:
    return listed({f"{name} ({host})" for name, host in who})


def _turns(rows: Sequence[Row]) -> list[tuple[Row, Row, str]]:
    """Each member's leaving with its coming back within a while, in order of time."""
    turns = []
    within = threshold("one_trouble") * SECOND_NS
    for index, left in enumerate(rows):
        name = left["trigger_client_id"]
        if left["trigger"] not in _LEFT or name is None or left["started"] is None:
            continue
        came = next(
            (
                row
                for row in rows[index:]
                if row["started"] is not None
                and left["started"] <= row["started"] <= left["started"] + within
                and (
                    (row["trigger"] in _CAME and row["trigger_client_id"] == name)
                    or any(one["client_id"] == name and one["trigger"] in _CAME for one in row["contributing"] or ())
                )
            ),
            None,
        )
        if came is not None:
            turns.append((left, came, name))
    return turns
