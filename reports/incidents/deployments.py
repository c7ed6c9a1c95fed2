"""Groups whose members were replaced in an orderly way, as deployments do."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.restarts import loops
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Row, Signs
from kafkascope.reports.incidents.stuck import beginnings
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import SECOND_NS

_LEFT = frozenset({Trigger.MEMBER_LEFT, Trigger.UNSUBSCRIBED})
_CAME = frozenset({Trigger.MEMBER_JOINED, Trigger.STATIC_MEMBER_REPLACED})
_ORDERLY = _LEFT | _CAME | {Trigger.COOPERATIVE_FOLLOWUP, Trigger.LEADER_REJOINED}
_MOST_STEPS = 100  # of a deployment
_EVENT = ("group_id", "event", "at", "client_id", "detail", "packet")


@dataclass(frozen=True, slots=True)
class _Deployment:
    """Members that were replaced, and the rebalances of it, by time."""

    sure: Certainty
    words: str  # who, and by whom
    clients: list[str]
    rows: list[Row]
    evidence: tuple[Weighed, ...]


def deployments(signs: Signs) -> Iterator[Incident]:
    """Groups whose members were replaced in an orderly way: by themselves started anew, or by as many others.

    Not members that are started again and again: nobody does that on purpose.
    """
    looping = {(loop.group, loop.client_id) for loop in signs.once(loops)}
    for group, places in signs.once(beginnings).items():
        looping |= {(group, row["client_id"]) for place in places for row in place.rows}
    by_group: dict[str, list[Row]] = defaultdict(list)
    workers = set[str]()  # hosts of Kafka Connect, between which tasks move
    for row in signs.rebalances:
        by_group[row["group_id"]].append(row)
        if row["protocol"] == "connect":
            workers |= {member["host"] for member in row["members"] or ()}
    for group, rows in sorted(by_group.items()):
        in_turn = _in_turn(rows, {name for of_group, name in looping if of_group == group})
        times = [(one.rows[0]["started"], one.rows[-1]["started"]) for one in in_turn]
        others = _by_others(rows, workers, times)
        for found in [*in_turn, *others]:
            yield _incident(signs, group, found)


def took_over(signs: Signs) -> Iterator[Incident]:
    """Static members whose processes were replaced in turn, each within its session: no rebalance tells it.

    Not where two processes have one instance id, and fence each other, nor who comes again and again.
    """
    events = signs.rows("group_events", _EVENT, pc.field("event").isin([EventKind.REPLACED, EventKind.FENCED]))
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(events, key=lambda row: (row["at"], row["client_id"] or "")):
        by_group[row["group_id"]].append(row)
    after = threshold("deployed_after") * SECOND_NS
    for group, rows in sorted(by_group.items()):
        fenced = [row["at"] for row in rows if row["event"] == EventKind.FENCED]
        quiet = [row for row in rows if row["event"] == EventKind.REPLACED and not _rebalances(signs, group, row["at"])]
        for run in in_runs(quiet, lambda run, row: bool(row["at"] <= run[-1]["at"] + after)):
            times = Counter(row["client_id"] for row in run)
            since, until = run[0]["at"], run[-1]["at"]
            again = max(times.values()) >= threshold("crashes")
            if (
                len(times) < threshold("deployed_members")
                or again
                or any(since <= at <= until + after for at in fenced)
            ):
                continue
            yield _of_static(signs, group, run, sorted(filter(None, times)))


def _rebalances(signs: Signs, group: str, at: int) -> bool:
    """Whether a group rebalanced at a time."""
    before = signs.rebalances_of(group, at)
    return bool(before) and (before[-1]["stable"] is None or at < before[-1]["stable"])


def _of_static(signs: Signs, group: str, run: Sequence[Row], names: Sequence[str]) -> Incident:
    since, until = run[0]["at"], run[-1]["at"]
    return Incident(
        kind=IncidentKind.CLIENT_DEPLOY,
        severity=Severity.INFO,
        certainty=Certainty.LIKELY,
        subjects=(Subject(Role.GROUP, group), *signs.clients(names)),
        started=since,
        ended=until,
        headline=f"static members of group {group} were replaced in turn from {clock(since)} to {clock(until)}: "
        f"{listed(names)} took over from processes with the same instance ids, without a rebalance",
        evidence=tuple(
            Weighed(f"{row['client_id']} joined: {row['detail']}", row["packet"], row["at"], 0.7) for row in run
        ),
        advice="Nothing, if this was planned; else see why these processes started anew.",
        cost_ms=0,
    )


def _incident(signs: Signs, group: str, found: _Deployment) -> Incident:
    since, until = found.rows[0]["started"], max(row["stable"] or row["started"] for row in found.rows)
    made = frozenset((group, row["to_generation"]) for row in found.rows)
    return Incident(
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


def _in_turn(rows: Sequence[Row], others: Set[str]) -> list[_Deployment]:
    """Members that left and came back soon, under their names, one soon after the other; without some others."""
    after = threshold("deployed_after") * SECOND_NS
    turns = [turn for turn in _turns(rows) if turn[-1] not in others]
    runs = in_runs(turns, lambda run, turn: bool(turn[0]["started"] <= run[-1][1]["started"] + after))
    return [_of_turns(run) for run in runs if len({name for *_, name in run}) >= threshold("deployed_members")]


def _of_turns(turns: Sequence[tuple[Row, Row, str]]) -> _Deployment:
    names = sorted({name for _, _, name in turns})
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


def _by_others(rows: Sequence[Row], workers: Set[str], told: Sequence[tuple[int, int]]) -> Iterator[_Deployment]:
    """Members that left, and in whose place as many others came, before or behind: of other names, or hosts.

    Not in times that are told already.
    """
    present = [_who(row, workers) for row in rows]
    first = 0
    while first < len(rows):
        last, found = _replaced_behind(rows, present, first)
        if found is not None and not any(
            since <= found.rows[-1]["started"] and found.rows[0]["started"] <= until for since, until in told
        ):
            yield found
        first = last if found is not None else first + 1


def _replaced_behind(
    rows: Sequence[Row], present: Sequence[set[tuple[str, str]]], first: int
) -> tuple[int, _Deployment | None]:
    """By whom members of a generation were replaced in those behind it, and the place of the last one of these."""
    before, old = rows[first], present[first]
    if len(old) < threshold("deployed_members") or before["started"] is None:
        return first, None
    last, best = before["started"], 0
    found: tuple[int, _Deployment | None] = first, None
    for place in range(first + 1, min(first + 1 + _MOST_STEPS, len(rows))):
        row, now = rows[place], present[place]
        triggers = {row["trigger"], *(also["trigger"] for also in row["contributing"] or ())}
        late = row["started"] is None or row["started"] - last > threshold("one_trouble") * SECOND_NS
        if late or not triggers <= _ORDERLY:
            break
        last, gone, come = row["started"], old - now, now - old
        if len(gone) == len(come) >= threshold("deployed_members") and len(gone) > best:
            best = len(gone)  # the others follow, if it goes on
            taken = rows[first + 1 : place + 1]
            names = [sorted({name for name, _ in group}) for group in (gone, come)]
            hosts = [f" ({listed({host for _, host in group}, 3)})" for group in (gone, come)]
            words = f"{listed(names[0])}{hosts[0]} left, and {listed(names[1])}{hosts[1]} came instead"
            evidence = (
                Weighed(f"in the group were {_listed(old)}", None, before["started"], 0.6),
                Weighed(f"in the group are {_listed(now)}", None, row["started"], 0.6),
            )
            clients = sorted({*names[0], *names[1]})
            found = place, _Deployment(Certainty.GUESSED, words, clients, list(taken), evidence)
    return found


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
    started = [row["started"] or 0 for row in rows]
    for index, left in enumerate(rows):
        name = left["trigger_client_id"]
        if left["trigger"] not in _LEFT or name is None or left["started"] is None:
            continue
        came = next(
            (
                row
                for row in rows[index : bisect_right(started, left["started"] + within)]
                if row["started"] is not None
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
