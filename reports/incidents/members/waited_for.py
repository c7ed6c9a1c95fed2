"""Members that keep a rebalance of their group waiting, though they live: their application does not poll."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import client_name, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.costs import held_up, members_before, of_rebalances, unread
from kafkascope.reports.incidents.incident import Incident, Subject, Weighed, in_words
from kafkascope.reports.incidents.members.slow import LATE
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row, between
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_TOLD = frozenset({*LATE, Trigger.POLL_TIMEOUT})
"""Triggers by which such a member is told as too slow anyway."""
_OF_EPOCHS = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
_EVENT = ("group_id", "event", "at", "member_id", "client_id", "detail")
_FINDINGS = ("slow_to_join", "partition_unowned", "commits_stopped", "lag_growing")
_ADVICE = (
    "A member joins again when its application polls next: shorten what it does between polls (max.poll.records, "
    "processing in another thread). max.poll.interval.ms bounds for how long the others wait. A cooperative assignor, "
    "or group.protocol=consumer (KIP-848), lets them go on meanwhile."
)

_ADVICE_COMMIT = (
    "A synchronous commit that is refused so is tried again for default.api.timeout.ms (1 min by default), and the "
    "application does nothing else meanwhile: see why it is refused, as for a topic that was deleted."
)


@dataclass(frozen=True, slots=True)
class Late:
    """A member for which all others of its group waited in a rebalance."""

    begun: int
    client_id: str
    ms: float
    came: bool = False  # else they wait for it as the capture ends
    rebalance: Row | None = None  # None: it never got to a generation
    is_seen: bool = True  # that rebalance's begin
    was_told: bool = False  # that long before it came

    @property
    def seen(self) -> str:
        """What shows it."""
        who = client_name(self.client_id)
        if self.came and self.was_told:
            return f"{who} was told of the rebalance by a heartbeat {duration(self.ms)} before it joined"
        if self.came:
            return f"{who} came {duration(self.ms)} after all others"
        return f"{who} is told of the rebalance at each heartbeat, and does not join for {duration(self.ms)}"


def waited_for(signs: Signs) -> Iterator[Incident]:
    """Members that take long to come back, but not too long for the rebalance timeout; one a group."""
    too_slow = {
        (row["group_id"], name)
        for row in signs.rebalances
        for trigger, name in (
            (row["trigger"], row["trigger_client_id"]),
            *((one["trigger"], one["client_id"]) for one in row["contributing"] or ()),
        )
        if trigger in _TOLD
    }
    least = 1000 * threshold("waited_for")
    late: dict[str, list[Late]] = defaultdict(list)
    for group, one in chain(_came_last(signs, least), _told_long_before(signs, least)):
        late[group].append(one)
    for row in signs.latest_rebalances:
        ms = (signs.end - (row["started"] or signs.end)) / MILLISECOND_NS
        if row["stable"] is None and not row["members"] and ms >= least:
            away = _still_away(signs, row["group_id"], row["started"], members_before(signs, row))
            late[row["group_id"]] += [Late(row["started"], name, ms, rebalance=row) for name in away]
    for group, one in _never_back(signs):
        late[group].append(one)
    for group, of_group in sorted(late.items()):
        if found := [one for one in of_group if (group, one.client_id) not in too_slow]:
            yield _waited_for(signs, group, found)


def _came_last(signs: Signs, least: float) -> Iterator[tuple[str, Late]]:
    """Groups with members that came so many milliseconds after all others."""
    rows = [
        row
        for row in signs.rebalances
        if row["last_client_id"]
        and (row["last_by_ms"] or 0) >= least
        and row["stable"] is not None
        and row["trigger"] not in _TOLD
        # Of epochs that nobody explains there may have been several: who has the newest one is not known either.
        and (row["trigger"] != Trigger.UNKNOWN or row["protocol"] == "classic")
    ]
    answered = _answered(signs, [row for row in rows if row["protocol"] != "classic"])
    for row in rows:
        group, name, ms, stable = row["group_id"], row["last_client_id"], row["last_by_ms"], row["stable"]
        half = stable - ms * MILLISECOND_NS / 2
        if row["protocol"] == "classic" or any(half <= at < stable for at in answered[group, name]):
            yield group, Late(row["started"], name, ms, came=True, rebalance=row)


def _answered(signs: Signs, rows: Sequence[Row]) -> dict[tuple[str, str], list[int]]:
    """When heartbeats with epochs were answered, by group and client; it is by them that a member knows what to do.

    So if its coordinator says nothing meanwhile, it is not for the member that others wait.
    """
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    if rows:
        where = among("group_id", sorted({row["group_id"] for row in rows}))
        where &= pc.field("api").isin(_OF_EPOCHS) & (pc.field("error") == Error.NONE)
        where &= pc.field("answered") >= moment(min(row["started"] for row in rows))
        for row in signs.rows("exchanges", ["group_id", "client_id", "answered"], where):
            found[row["group_id"], row["client_id"] or ""].append(row["answered"])
    return found


def _told_long_before(signs: Signs, least: float) -> Iterator[tuple[str, Late]]:
    """Groups with members that joined so many milliseconds after a heartbeat told them to, and lived meanwhile.

    Of rebalances of which it is not known that one came so much later: the others are not in the capture, or several
    were as late.
    """
    late = [(group, row["stable"], one) for group, row, one in _late_joins(signs, least)]
    if not late:
        return
    since, until = min(one.begun for *_, one in late), max(stable for _, stable, _ in late)
    refused = _refused(signs, sorted({group for group, *_ in late}), since, until)
    for group, stable, one in late:
        half = one.begun + one.ms * MILLISECOND_NS / 2
        if any(half <= at <= stable for at in refused.get((group, one.client_id), ())):
            yield group, one


def _late_joins(signs: Signs, least: float) -> Iterator[tuple[str, Row, Late]]:
    """The same with their rebalances, whether they lived or not."""
    long = [
        row
        for row in signs.rebalances
        if row["trigger"] not in _TOLD
        and (row["last_by_ms"] or 0) < least
        and None not in (row["started"], row["stable"])
        and row["stable"] - row["started"] >= least * MILLISECOND_NS
    ]
    if not long:
        return
    where = pc.field("event").isin([EventKind.HEARTBEAT_REFUSED, EventKind.JOINED])
    where &= among("group_id", sorted({row["group_id"] for row in long}))
    events: dict[str, list[Row]] = defaultdict(list)
    rows = signs.rows("group_events", _EVENT, where)
    for event in sorted(rows, key=lambda event: (event["at"], event["member_id"] or "")):
        events[event["group_id"]].append(event)
    for row in long:
        group = row["group_id"]
        told: dict[str, Row] = {}
        for event in between(events[group], row["started"], row["stable"]):
            if event["event"] == EventKind.JOINED:
                first = told.pop(event["member_id"], event)
                ms = (event["at"] - first["at"]) / MILLISECOND_NS
                if ms >= least and first["client_id"]:
                    yield group, row, Late(first["at"], first["client_id"], ms, came=True, rebalance=row, was_told=True)
            elif event["detail"] == Error.REBALANCE_IN_PROGRESS:
                told.setdefault(event["member_id"], event)


def _refused(signs: Signs, groups: Sequence[str], since: int, until: int) -> dict[tuple[str, str], list[int]]:
    """When heartbeats were answered that the group rebalances, by group and client: who live, and have not come."""
    where = (
        among("group_id", groups)
        & (pc.field("api") == "Heartbeat")
        & (pc.field("error") == Error.REBALANCE_IN_PROGRESS)
        & (pc.field("requested") >= moment(since))
        & (pc.field("requested") <= moment(until))
    )
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in signs.rows("exchanges", ["group_id", "client_id", "requested"], where):
        found[row["group_id"], row["client_id"] or ""].append(row["requested"])
    return found


def _still_away(signs: Signs, group: str, begun: int, members: Iterable[Row]) -> list[str]:
    """Which members have not joined again since then, and live: their heartbeats are refused up to the end."""
    moved = (
        (pc.field("group_id") == group)
        & pc.field("event").isin([EventKind.JOINED, EventKind.LEFT])
        & (pc.field("at") >= moment(begun))
    )
    gone = {event["member_id"] for event in signs.rows("group_events", ["member_id"], moved)}
    refused = _refused(signs, [group], int(signs.end - threshold("waited_for") * SECOND_NS), signs.end)
    alive = {client_id for _, client_id in refused}
    return sorted({one["client_id"] for one in members if one["client_id"] in alive and one["member_id"] not in gone})


def _never_back(signs: Signs) -> Iterator[tuple[str, Late]]:
    """Groups that wait for such members, in a rebalance that nobody is seen to begin: their heartbeats are refused."""
    known = {row["group_id"]: row["stable"] or signs.end for row in signs.latest_rebalances}
    refused: dict[str, list[Row]] = defaultdict(list)
    for event in signs.group_events:
        is_refused = event["event"] == EventKind.HEARTBEAT_REFUSED and event["detail"] == Error.REBALANCE_IN_PROGRESS
        if is_refused and event["at"] > known.get(event["group_id"], 0):
            refused[event["group_id"]].append(event)
    for group, events in refused.items():
        since = min(event["at"] for event in events)
        ms = (signs.end - since) / MILLISECOND_NS
        if ms >= 1000 * threshold("waited_for"):
            first = _first_join(signs, group, known.get(group, 0), since)
            for name in _still_away(signs, group, since, events):
                yield group, Late(since if first is None else first, name, ms, is_seen=first is not None)


def _first_join(signs: Signs, group: str, after: int, until: int) -> int | None:
    """When somebody first joined in a time, to whom no generation was told; None if nobody did."""
    where = pc.field("event") == EventKind.JOINED
    where &= (pc.field("group_id") == group) & pc.field("generation").is_null()
    where &= (pc.field("at") > moment(after)) & (pc.field("at") <= moment(until))
    return min((row["at"] for row in signs.rows("group_events", ("at",), where)), default=None)


def _waited_for(signs: Signs, group: str, found: Sequence[Late]) -> Incident:
    names = sorted({one.client_id for one in found})
    since, longest = min(one.begun for one in found), max(one.ms for one in found)
    waiting = [one for one in found if not one.came]
    effects, cost_ms, rebalances = of_rebalances([one.rebalance for one in found if one.rebalance])
    if waiting and waiting[0].rebalance and (held := held_up(members_before(signs, waiting[0].rebalance))):
        effects, cost_ms = (*effects, unread(held, waiting[0].ms)), cost_ms + waiting[0].ms * len(held)
    timeouts = signs.rebalance_timeouts(group)
    most = max((timeouts[name] for name in names if name in timeouts), default=0)
    times = f"{counted(len(found), 'rebalance')}, for up to" if len(found) > 1 else "a rebalance for"
    did = f"kept all others waiting in {times} {duration(longest)} from {clock(since)} on"
    if waiting:
        seen = waiting[0].rebalance or waiting[0].is_seen
        begun = f"the rebalance of {clock(waiting[0].begun)}" if seen else "a rebalance whose begin is not seen"
        bound = f" (for the rebalance timeout, {duration(most)}, at most)" if most else ""
        verb = "has" if len(names) == 1 else "have"
        did = f"{verb} not come back to {begun}, and all others wait at the end{bound}"
    meanwhile, advice = _meanwhile(signs, group, names, since)
    until = None if waiting else max(one.rebalance["stable"] for one in found if one.rebalance)
    return Incident(
        kind=IncidentKind.SLOW_REVOCATION,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(Subject(Role.GROUP, group), *signs.clients(names, signs.heard_of(group))),
        started=since,
        ended=until,
        headline=f"{listed(names)} of group {group} {did}: {meanwhile}{in_words(effects)}",
        evidence=tuple(Weighed(one.seen, None, one.begun, 0.8) for one in found),
        advice=advice,
        cost_ms=cost_ms,
        effects=effects,
        findings=signs.explained(_FINDINGS, since, until or signs.end, groups=[group], clients=names),
        rebalances=rebalances,
    )


def _meanwhile(signs: Signs, group: str, names: Sequence[str], since: int) -> tuple[str, str]:
    """What these members do instead of coming, in words, and what to do about that."""
    where = (pc.field("event") == EventKind.COMMIT_REFUSED) & (pc.field("group_id") == group)
    where &= among("client_id", names) & (pc.field("at") >= moment(since))
    refused = signs.rows("group_events", ("client_id", "detail"), where)
    its, are, app = ("its", "is", "application does") if len(names) == 1 else ("their", "are", "applications do")
    if len(refused) < threshold("commits_refused") or {row["client_id"] for row in refused} != {*names}:
        return f"{its} heartbeats go on, but {its} {app} not poll", _ADVICE
    errors = listed(sorted({row["detail"] or "?" for row in refused}))
    return (
        f"{its} heartbeats go on, but {its} {app.partition(' ')[0]} {are} busy with a commit that is refused again and "
        f"again ({errors}, {counted(len(refused), 'time')})"
    ), _ADVICE_COMMIT
