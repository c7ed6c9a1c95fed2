"""Groups whose members were replaced in an orderly way, as deployments do."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

import pyarrow.compute as pc

from kafkascope.decoders import apis
from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import client_name, counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.members.fates import ENDS_SESSION
from kafkascope.reports.incidents.members.members import ROLLOUT_ADVICE
from kafkascope.reports.incidents.members.restarts import loops
from kafkascope.reports.incidents.members.stuck import beginnings
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_LEFT = frozenset({Trigger.MEMBER_LEFT, Trigger.UNSUBSCRIBED})
_CAME = frozenset({Trigger.MEMBER_JOINED, Trigger.STATIC_MEMBER_REPLACED})
_ORDERLY = _LEFT | _CAME | {Trigger.COOPERATIVE_FOLLOWUP, Trigger.LEADER_REJOINED}
_MOST_STEPS = 100  # of a deployment
_BESIDES = 1.5  # members that may be counted too many where others came and went besides: one, and in doubt it is so
_STATIC = "Static membership (group.instance.id) lets each restart within session.timeout.ms pass without a rebalance."
_PLANNED = "Nothing, if this was planned."
_DELAYED = f"{_PLANNED} A worker that is back within scheduled.rebalance.max.delay.ms goes on with what it ran."
_ADVICE = {"classic": _STATIC, "consumer": _STATIC, "connect": _DELAYED}
"""By the group's protocol; others have no static members."""
_ENDED = ("connection", "client_id", "closed", "lost_bytes", "software", "software_version")
_ENDS_SESSIONS = re.compile(r"apache-kafka-java (?:[4-9]|\d\d)\.")
"""Libraries whose consumers are known to end their fetch sessions as they are closed; older ones may, or may not."""
_HAS_SESSION = re.compile(r'"sessionId": [1-9-]')
_FETCHES_WITHIN_NS = 10 * SECOND_NS  # who reads asks again within half a second (fetch.max.wait.ms)
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
            names = sorted(filter(None, times))
            deaths = _deaths(signs, run)
            yield _died(signs, group, run, names, deaths) if deaths else _of_static(signs, group, run, names)


def _deaths(signs: Signs, run: Sequence[Row]) -> list[int]:
    """When the processes that were replaced ended, in order of the run; none unless all of them are seen to be killed.

    A client that is closed ends its fetch sessions (KIP-227), and one that is killed does not. How its connections end
    tells nothing: the kernel closes them alike.
    """
    ended = _ended_before(signs, run)
    if not all(ended):
        return []
    last = _last_fetches(signs, [row for of_one in ended for row in of_one])
    for of_one in ended:
        said = [last[row["connection"]] for row in of_one if row["connection"] in last]
        if any(re.search(ENDS_SESSION, request) for request in said) or not any(map(_HAS_SESSION.search, said)):
            return []
    return [max(row["closed"] for row in of_one) for of_one in ended]


def _ended_before(signs: Signs, run: Sequence[Row]) -> list[list[Row]]:
    """Of each process that was replaced its connections, ended by then; none if it may have closed them unseen."""
    within = int(threshold("one_trouble") * SECOND_NS)
    where = among("client_id", [row["client_id"] for row in run])
    where &= (pc.field("closed") >= moment(run[0]["at"] - within)) & (pc.field("closed") <= moment(run[-1]["at"]))
    of_client: dict[str, list[Row]] = defaultdict(list)
    for row in signs.rows("connections", _ENDED, where):
        of_client[row["client_id"]].append(row)
    found = []
    for replaced in run:
        ended = [one for one in of_client[replaced["client_id"]] if 0 <= replaced["at"] - one["closed"] <= within]
        unsure = (one for one in ended if one["lost_bytes"] or not _ENDS_SESSIONS.match(_library(one)))
        found.append(ended if next(unsure, None) is None else [])
    return found


def _library(connection: Row) -> str:
    return f"{connection['software']} {connection['software_version']}"


def _last_fetches(signs: Signs, ended: Sequence[Row]) -> dict[int, str]:
    """The last fetch request on each of these connections, in the seconds before the first of them ended and later."""
    since = min(row["closed"] for row in ended) - _FETCHES_WITHIN_NS
    where = (pc.field("api_key") == apis.FETCH) & (pc.field("requested") >= moment(since))
    where &= pc.field("connection").isin([row["connection"] for row in ended])
    found: dict[int, tuple[int, str]] = {}
    for batch in signs.batches("exchanges", ("connection", "requested", "request"), where):
        latest = batch.sort_by("requested").group_by("connection", use_threads=False)
        for row in latest.aggregate([("requested", "last"), ("request", "last")]).to_pylist():
            said = row["requested_last"], row["request_last"] or ""
            found[row["connection"]] = max(found.get(row["connection"], (0, "")), said)
    return {connection: request for connection, (_, request) in found.items()}


def _died(signs: Signs, group: str, run: Sequence[Row], names: Sequence[str], deaths: Sequence[int]) -> Incident:
    """Static members whose processes were killed one after the other, and that came back in time."""
    since, until = min(deaths), run[-1]["at"]
    return Incident(
        kind=IncidentKind.CLIENT_DIED,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(*signs.clients(names, signs.heard_of(group)), Subject(Role.GROUP, group)),
        started=since,
        ended=until,
        headline=f"{listed(names)} ended without being closed one after the other, from {clock(since)} to "
        f"{clock(max(deaths))}, and came back to group {group} with their instance ids, without a rebalance",
        evidence=tuple(
            Weighed(
                f"the process of {client_name(row['client_id'])} ended without ending its fetch sessions, as a client "
                f"does that is closed; the next one joined at {clock(row['at'])}: {row['detail']}",
                row["packet"],
                at,
                0.8,
            )
            for row, at in zip(run, deaths, strict=True)
        ),
        advice=ROLLOUT_ADVICE,
        cost_ms=float(sum((row["at"] - at) / MILLISECOND_NS for row, at in zip(run, deaths, strict=True))),
    )


def _rebalances(signs: Signs, group: str, at: int) -> bool:
    """Whether a group rebalanced at a time."""
    before = signs.rebalances_of(group, at)
    return bool(before) and (before[-1]["stable"] is None or at < before[-1]["stable"])


def _of_static(signs: Signs, group: str, run: Sequence[Row], names: Sequence[str]) -> Incident:
    """Static members whose processes were not seen to be killed: of most libraries that would look the same."""
    since, until = run[0]["at"], run[-1]["at"]
    tells = all(_ended_before(signs, run))  # a process that was killed would show
    how = "replaced" if tells else "restarted"
    return Incident(
        kind=IncidentKind.CLIENT_DEPLOY,
        severity=Severity.INFO,
        certainty=Certainty.LIKELY if tells else Certainty.GUESSED,
        subjects=(Subject(Role.GROUP, group), *signs.clients(names, signs.heard_of(group))),
        started=since,
        ended=until,
        headline=f"static members of group {group} were {how} in turn from {clock(since)} to {clock(until)}: "
        f"{listed(names)} took over from processes with the same instance ids, without a rebalance",
        evidence=tuple(
            Weighed(f"{client_name(row['client_id'])} joined: {row['detail']}", row["packet"], row["at"], 0.7)
            for row in run
        ),
        advice="Nothing, if this was planned; else see why these processes started anew"
        + ("." if tells else ": whether they were closed, or died, the capture does not show."),
        cost_ms=0,
    )


def _incident(signs: Signs, group: str, found: _Deployment) -> Incident:
    since, until = found.rows[0]["started"], max(row["stable"] or row["started"] for row in found.rows)
    made = frozenset((group, row["to_generation"]) for row in found.rows)
    return Incident(
        kind=IncidentKind.CLIENT_DEPLOY,
        severity=Severity.INFO,
        certainty=found.sure,
        subjects=(Subject(Role.GROUP, group), *signs.clients(found.clients, signs.heard_of(group))),
        started=since,
        ended=until,
        headline=f"members of group {group} were replaced in turn from {clock(since)} to {clock(until)}: "
        f"{found.words}; {counted(len(made), 'rebalance')}",
        evidence=found.evidence,
        advice=_ADVICE.get(found.rows[0]["protocol"], _PLANNED),
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
    for run in in_runs(range(len(rows)), lambda run, place: _follows(rows[place - 1], rows[place])):
        for first, last in _replacements(rows, present, run[0], run[-1]):
            found = _of_others(rows[first : last + 1], present[first], present[last])
            since, until = found.rows[0]["started"], found.rows[-1]["started"]
            if not any(begin <= until and since <= end for begin, end in told):
                yield found


def _follows(before: Row, row: Row) -> bool:
    """Whether a rebalance may be of the same deployment as the one before."""
    if before["started"] is None or row["started"] is None:
        return False
    triggers = {row["trigger"], *(also["trigger"] for also in row["contributing"] or ())}
    return triggers <= _ORDERLY and row["started"] - before["started"] <= threshold("one_trouble") * SECOND_NS


def _replacements(
    rows: Sequence[Row], present: Sequence[set[tuple[str, str]]], first: int, last: int
) -> list[tuple[int, int]]:
    """Between which generations members were replaced by as many others: most of them, in the fewest steps.

    Either new ones come first, or old ones go first: where the group is now larger and now smaller, somebody else may
    have come and gone besides, as it grows or ends.
    """
    found: list[tuple[float, int, int]] = []
    sizes = {place: len(present[place]) for place in range(first, last + 1)}
    for begin in range(first, last):
        least = most = size = sizes[begin]
        for end in range(begin + 1, min(begin + _MOST_STEPS, last) + 1):
            least, most = min(least, sizes[end]), max(most, sizes[end])
            if sizes[end] != size:
                continue
            count = len(present[begin] - present[end])
            if count >= threshold("deployed_members") and not _goes_on_leaving(rows, present, begin, end):
                found.append((count - (_BESIDES if least < size < most else 0), begin, end))
    chosen: list[tuple[int, int]] = []
    for _, begin, end in sorted(found, key=lambda one: (-one[0], one[2] - one[1], one[1])):
        place = bisect_right(chosen, (begin, end))
        before, behind = chosen[place - 1] if place else (0, 0), chosen[place] if place < len(chosen) else (end, end)
        if before[1] <= begin and end <= behind[0]:
            chosen.insert(place, (begin, end))
    return chosen


def _goes_on_leaving(rows: Sequence[Row], present: Sequence[set[tuple[str, str]]], begin: int, end: int) -> bool:
    """Whether the next one leaves sooner than any step took, behind one that had left: then the group ends."""
    if end + 1 == len(rows) or rows[end + 1]["started"] is None:
        return False
    if not present[end + 1] < present[end] < present[end - 1]:
        return False
    steps = (after["started"] - row["started"] for row, after in pairwise(rows[begin + 1 : end + 1]))
    return bool(rows[end + 1]["started"] - rows[end]["started"] < max(steps, default=0))


def _of_others(rows: Sequence[Row], old: set[tuple[str, str]], now: set[tuple[str, str]]) -> _Deployment:
    """Members of the first of these generations that others had replaced in the last one."""
    gone, come = old - now, now - old
    names = [sorted({name for name, _ in group}) for group in (gone, come)]
    hosts = [f" ({listed({host for _, host in group}, 3)})" for group in (gone, come)]
    words = f"{listed(names[0])}{hosts[0]} left, and {listed(names[1])}{hosts[1]} came instead"
    evidence = (
        Weighed(f"in the group were {_listed(old)}", None, rows[0]["started"], 0.6),
        Weighed(f"in the group are {_listed(now)}", None, rows[-1]["started"], 0.6),
    )
    return _Deployment(Certainty.GUESSED, words, sorted({*names[0], *names[1]}), list(rows[1:]), evidence)


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
