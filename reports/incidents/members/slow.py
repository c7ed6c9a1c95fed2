"""Members whose application is too slow: for the poll interval, for a lock, for a rebalance."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter

import pyarrow.compute as pc

from kafkascope.decoders import apis
from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.costs import assigned, is_eager, leader_before, members_before, of_rebalances
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, every
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.members.paused import pauses
from kafkascope.reports.incidents.signs import Signs, group_of, packet_of
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_TOLD, _OVER, _TIMED_OUT = "told", "over", "timed out"  # to give partitions up; that; by the poll interval
_ADVICE_REVOCATION = (
    "Look at onPartitionsRevoked, and at what is committed there: it must end well within max.poll.interval.ms, "
    "which is the rebalance timeout too."
)
_ADVICE_PROCESSING = (
    "Process records faster or outside the poll loop, lower max.poll.records, or raise max.poll.interval.ms above the "
    "longest batch."
)
_LEADS = "leads"  # SYNC_TIMEOUT of who makes the assignment, and so does not ask for it
LATE: Mapping[str, tuple[str, str]] = {
    Trigger.REBALANCE_TIMEOUT: ("come back to the rebalance", _ADVICE_REVOCATION),
    Trigger.SYNC_TIMEOUT: (
        "ask for its assignment",
        "A client asks for it at once when it has joined: see what holds it up, or whether its process had ended.",
    ),
    _LEADS: (
        "send the assignment that all members wait for",
        "See what held up the leader then: its assignor (partition.assignment.strategy), what a Streams application "
        "asks for before it assigns (offsets of changelogs, internal topics), or whether its process had ended. It "
        "has to be done within max.poll.interval.ms, which is the rebalance timeout too.",
    ),
}
"""What members did not do in time, and what to look at."""
_SLOW_FINDINGS = frozenset(
    {
        "poll_timeout",
        "leaving_and_returning",
        "rebalance_storm",
        "rebalance_timeout",
        "commits_stopped",
        "read_again",
        "session_timeout_tight",
        "partition_unowned",
        "commit_refused",
    }
)


def slow(signs: Signs) -> Iterator[Incident]:
    """Members that their own client took out because the application did not poll in time; one a group and cause.

    Not those whose process as a whole stood still until they left.
    """
    paused = {pause.packet for _, _, of_host in signs.once(pauses) for pause in of_host}
    found: dict[str, list[Row]] = defaultdict(list)
    for row in signs.findings:
        if row["kind"] in ("poll_timeout", "leaving_and_returning") and (_packets(row) - paused or not row["evidence"]):
            found[group_of(row)].append(row)
    timed_out: dict[str, list[Row]] = defaultdict(list)
    for row in signs.rebalances:
        contributing = [one["client_id"] for one in row["contributing"] or () if one["trigger"] == Trigger.POLL_TIMEOUT]
        is_its_own = row["trigger"] == Trigger.POLL_TIMEOUT and paused.isdisjoint(_packets(row))
        if row["started"] is not None and (is_its_own or contributing):
            timed_out[row["group_id"]].append(row)
    for group in sorted(found.keys() | timed_out.keys()):
        yield _slow(signs, group, found[group], timed_out[group])


def _packets(row: Row) -> set[int | None]:
    """The packets of what a finding or a rebalance is told by."""
    return {seen["packet"] for seen in row["evidence"] or ()}


def _polled_last_in_rebalance(signs: Signs, group: str, intervals: Mapping[str, int]) -> tuple[int, int]:
    """How many polled last when a rebalance had begun, and how many not, of those that left by poll timeout.

    Who polls, is told of the rebalance, and then does not poll any more sits in the callback that gives partitions up.
    """
    told: dict[str, int] = {}
    inside = outside = 0
    for at, name, what in sorted((*_turns(signs, group), *_refused_or_gone(signs, group)), key=itemgetter(0)):
        if name not in intervals:
            continue
        if what == _TOLD:
            told.setdefault(name, at)
            continue
        if what == _TIMED_OUT:
            last_poll = at - intervals[name] * MILLISECOND_NS
            is_inside = name in told and last_poll >= told[name] - SECOND_NS // 2
            inside, outside = inside + is_inside, outside + (not is_inside)
        told.pop(name, None)
    return inside, outside


def _turns(signs: Signs, group: str) -> Iterator[tuple[int, str, str]]:
    """When members had joined, and so given up what they give up before, or were to give up what they had kept."""
    for row in signs.rebalances_of(group, signs.end):
        for member in row["members"] or ():
            if member["joined"] is not None:
                yield member["joined"], member["client_id"], _OVER
            taken = {*(member["assignment_before"] or ())} - {*(member["assignment"] or ())}
            if taken and member["synced"] is not None and not is_eager(member):
                yield member["synced"], member["client_id"], _TOLD


def _refused_or_gone(signs: Signs, group: str) -> Iterator[tuple[int, str, str]]:
    """When members were told of a rebalance, or left."""
    for event in signs.events_of_group(group):
        if event["event"] == "heartbeat_refused" and event["detail"] == Error.REBALANCE_IN_PROGRESS:
            yield event["at"], event["client_id"], _TOLD
        elif event["event"] == "left":
            yield event["at"], event["client_id"], _TIMED_OUT if "poll timeout" in (event["detail"] or "") else _OVER


def _slow(signs: Signs, group: str, found: Sequence[Row], timed_out: Sequence[Row]) -> Incident:
    times = _times(found, timed_out)
    names = sorted(times, key=lambda name: (-times[name], name))
    since, until = _span(found, timed_out)
    storm = any(row["kind"] == "rebalance_storm" and group_of(row) == group for row in signs.findings)
    in_time = [
        row
        for row in signs.rebalances_of(group, until + SECOND_NS, since)
        if storm
        or row["trigger_client_id"] in times
        or any(one["client_id"] in times for one in row["contributing"] or ())
    ]
    effects, cost_ms, rebalances = of_rebalances(in_time)
    intervals = signs.poll_intervals(group)
    inside, outside = _polled_last_in_rebalance(signs, group, intervals)
    in_callback = inside > outside
    certain = any(row["trigger"] == Trigger.POLL_TIMEOUT and row["certainty"] == Certainty.CERTAIN for row in timed_out)
    limits = sorted({intervals[name] for name in names if name in intervals})
    allowed = (
        f"max.poll.interval.ms ({' or '.join(map(duration, limits[:2]))}) allows"
        if limits
        else "its poll interval allows"
    )
    how_often = ", ".join(f"{name} {counted(times[name], 'time')}" if times[name] else name for name in names[:5])
    return Incident(
        kind=IncidentKind.SLOW_REVOCATION if in_callback else IncidentKind.SLOW_PROCESSING,
        severity=Severity.CRITICAL if storm else Severity.WARNING,
        certainty=Certainty.CERTAIN if certain and not in_callback else Certainty.LIKELY,
        subjects=(
            Subject(Role.GROUP, group),
            *signs.clients(names, signs.heard_of(group, _members(timed_out, {Trigger.POLL_TIMEOUT}))),
        ),
        started=since,
        ended=until,
        headline=(
            f"members of group {group} take longer to give up their partitions than {allowed} "
            if in_callback
            else f"the application of group {group} takes longer over its records than {allowed} "
        )
        + f"({how_often}, {f'from {clock(since)} to {clock(until)}' if until > since else f'at {clock(since)}'})"
        + outcome(effects),
        evidence=tuple(_evidence(found, timed_out, since if in_callback else None)),
        advice=_ADVICE_REVOCATION if in_callback else _ADVICE_PROCESSING,
        cost_ms=cost_ms,
        effects=effects,
        findings=signs.explained(_SLOW_FINDINGS, since, until, groups=[group]),
        rebalances=rebalances,
    )


def _members(rows: Sequence[Row], triggers: Collection[str]) -> set[str]:
    """Members that set these rebalances off by such triggers."""
    return {row["trigger_member"] for row in rows if row["trigger"] in triggers and row["trigger_member"]}


def _times(found: Sequence[Row], timed_out: Sequence[Row]) -> dict[str, int]:
    """How often each client's poll timeout was a rebalance's trigger; 0 of whom only findings tell."""
    times: dict[str, int] = defaultdict(int)
    for row in timed_out:
        if row["trigger"] == Trigger.POLL_TIMEOUT and row["trigger_client_id"]:
            times[row["trigger_client_id"]] += 1
        for one in row["contributing"] or ():
            if one["trigger"] == Trigger.POLL_TIMEOUT and one["client_id"]:
                times[one["client_id"]] += 1
    for row in found:
        for name in row["client_ids"]:
            times.setdefault(name, 0)
    return times


def _span(found: Sequence[Row], timed_out: Sequence[Row]) -> tuple[int, int]:
    """From the first of these findings and rebalances to the end of the last."""
    dated = [row for row in found if row["since"]]
    return (
        min([row["since"] for row in dated] + [row["started"] for row in timed_out]),
        max(
            [row["until"] or row["since"] for row in dated]
            + [row["recovered"] or row["stable"] or row["started"] for row in timed_out]
        ),
    )


def _evidence(found: Sequence[Row], timed_out: Sequence[Row], in_callback: int | None) -> Iterator[Weighed]:
    """in_callback: since when members sat in the callback that gives partitions up; None: they did not."""
    for row in {row["title"]: row for row in found}.values():
        yield Weighed(row["title"], packet_of(row), row["since"], 0.9)
    if not found:
        for row in timed_out:
            text = f"{row['trigger_client_id']} left: its poll timeout had expired"
            yield Weighed(text, None, row["started"], 0.9)
    if in_callback is not None:
        text = "each polled last when a rebalance had begun: it was giving up its partitions when its time ran out"
        yield Weighed(text, None, in_callback, 0.7)


def locks(signs: Signs) -> Iterator[Incident]:
    """Consumers of share groups that acknowledged records when their lock was over: others had got them meanwhile."""
    by_client: dict[str, list[Row]] = defaultdict(list)
    for row in signs.errors:
        if (
            row["error"] == Error.INVALID_RECORD_STATE
            and row["client_id"]
            and row["api"] in ("ShareFetch", "ShareAcknowledge")
        ):
            by_client[row["client_id"]].append(row)
    for name, rows in sorted(by_client.items()):
        groups = sorted({row["group_id"] for row in rows if row["group_id"]} or signs.groups_of.get(name, []))
        since, until = rows[0]["first"], max(row["last"] for row in rows)
        count = sum(row["count"] for row in rows)
        yield Incident(
            kind=IncidentKind.SLOW_PROCESSING,
            severity=Severity.WARNING,
            certainty=Certainty.LIKELY,
            subjects=(*signs.clients([name], signs.asked_from(rows)), *every(Role.GROUP, groups)),
            started=since,
            ended=until,
            headline=f"{name}{f' of share group {listed(groups)}' if groups else ''} keeps records longer than their "
            f"lock: {counted(count, 'acknowledgement')} refused from {clock(since)} on, as the records had gone to "
            "others",
            evidence=tuple(
                Weighed(
                    f"{row['api']} answered INVALID_RECORD_STATE for {row['topic']}-{row['partition']}",
                    row["first_packet"],
                    row["first"],
                    0.8,
                )
                for row in rows[:8]
            ),
            advice="Process records faster, take fewer at once (max.poll.records), or raise "
            "group.share.record.lock.duration.ms; what is refused is delivered again to somebody.",
            cost_ms=(until - since) / MILLISECOND_NS,
            effects=(
                Effect(
                    "records", f"{counted(count, 'acknowledgement')} refused: their records were delivered again", count
                ),
            ),
        )


def revoking(signs: Signs) -> Iterator[Incident]:
    """Members that do not come back, or do not give up their partitions, within the rebalance timeout; one a group."""
    late: dict[str, list[tuple[Row, str | None, str]]] = defaultdict(list)
    for row in signs.rebalances:
        if row["started"] is None:
            continue
        if row["trigger"] in LATE:
            name, member = row["trigger_client_id"], row["trigger_member"]
            late[row["group_id"]].append((row, name, _how_late(signs, row, row["trigger"], name, member)))
        for one in row["contributing"] or ():
            if one["trigger"] in LATE:
                name = one["client_id"]
                late[row["group_id"]].append((row, name, _how_late(signs, row, one["trigger"], name)))
    slow_too = {
        (row["group_id"], row["trigger_client_id"])
        for row in signs.rebalances
        if row["trigger"] == Trigger.POLL_TIMEOUT
    }
    for group, of_group in sorted(late.items()):
        # A member whose application works too slowly comes late to rebalances as well: that is told with the cause.
        told = [(row, name, how) for row, name, how in of_group if (group, name) not in slow_too]
        rows = [(row, name) for row, name, _ in told]
        if not rows:
            continue
        names = sorted({name for _, name in rows if name})
        effects, cost_ms, rebalances = of_rebalances(_as_read(signs, rows))
        since = min(row["started"] for row, _ in rows)
        until = max(row["recovered"] or row["stable"] or row["started"] for row, _ in rows)
        hows = [LATE[how] for how in sorted({how for _, _, how in told})]
        what = " or ".join(what for what, _ in hows)
        yield Incident(
            kind=IncidentKind.SLOW_REVOCATION,
            severity=Severity.WARNING,
            certainty=Certainty.LIKELY,
            subjects=(
                Subject(Role.GROUP, group),
                *signs.clients(names, signs.heard_of(group, _members([row for row, _ in rows], LATE))),
            ),
            started=since,
            ended=until,
            headline=f"{listed(names or ['a member'])} of group {group} did not {what} in time, "
            f"{counted(len(rows), 'time')} from {clock(since)} to {clock(until)}" + outcome(effects),
            evidence=tuple(
                Weighed(
                    f"{name or 'a member'} did not {LATE[how][0]} within its rebalance timeout",
                    None,
                    row["started"],
                    0.8,
                )
                for row, name, how in told
            ),
            advice=" ".join(advice for _, advice in hows),
            cost_ms=cost_ms,
            effects=effects,
            findings=signs.explained(
                {"slow_to_join", "partition_unowned", "rebalance_timeout", "rebalance_storm"},
                since,
                until,
                groups=[group],
            ),
            rebalances=rebalances,
        )


def _how_late(signs: Signs, row: Row, trigger: str, name: str | None, member: str | None = None) -> str:
    """What a member did not do in time: the leader of a generation does not ask for its assignment, but sends it."""
    leader = leader_before(signs, row) if trigger == Trigger.SYNC_TIMEOUT else None
    is_leader = leader is not None and leader["client_id"] == name and member in (None, leader["member_id"])
    return _LEADS if is_leader else trigger


def _as_read(signs: Signs, late: Sequence[tuple[Row, str | None]]) -> list[Row]:
    """The rebalances, in which a member that did not come back had its partitions no longer than it asked for records.

    Of the classic protocol: there it is taken to have them up to its last heartbeat, and a member that sits in its
    callback goes on with these.
    """
    names = {name for _, name in late if name and len(signs.hosts_of.get(name, ())) == 1}
    fetches = _fetches(signs, [row for row, _ in late], names)
    return [
        _read_up_to(row, assigned(one for one in members_before(signs, row) if one["client_id"] == name), at)
        if row["protocol"] == "classic" and name and (at := fetches.get(name))
        else row
        for row, name in late
    ]


def _fetches(signs: Signs, rows: Sequence[Row], names: Collection[str]) -> dict[str, list[int]]:
    """When fetches of some clients were answered around these rebalances, by client id, in order of time."""
    if not names:
        return {}
    around = int(threshold("one_trouble") * SECOND_NS)
    where = (
        among("client_id", names)
        & (pc.field("api_key") == apis.FETCH)
        & (pc.field("answered") >= moment(min(row["started"] for row in rows) - around))
        & (pc.field("answered") <= moment(max(row["stable"] or row["started"] for row in rows)))
    )
    found: dict[str, list[int]] = defaultdict(list)
    for row in sorted(signs.rows("exchanges", ("client_id", "answered"), where), key=itemgetter("answered")):
        found[row["client_id"]].append(row["answered"])
    return found


def _read_up_to(row: Row, partitions: Collection[str], fetches: Sequence[int]) -> Row:
    """A rebalance in which nobody had these partitions from the last fetch on, at the earliest from its begin on."""
    place = bisect_right(fetches, row["stable"] or row["started"])
    if not place:
        return row
    since = max(row["started"], fetches[place - 1])
    unowned = []
    for one in row["unowned"] or ():
        over = one["since"] + int(one["ms"] * MILLISECOND_NS)
        is_its_own = one["partition"] in partitions and since < over
        unowned.append(one | {"since": since, "ms": (over - since) / MILLISECOND_NS} if is_its_own else one)
    return row | {"unowned": unowned, "unowned_ms": max((one["ms"] for one in unowned), default=row["unowned_ms"])}
