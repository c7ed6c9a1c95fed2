"""Members that died or fell silent so shortly before the capture ended that their group still waits for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.name_lists import listed, named
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.costs import assigned, held_up, unread
from kafkascope.reports.incidents.holes.unseen import lacking, since_when
from kafkascope.reports.incidents.incident import Incident, every, in_words
from kafkascope.reports.incidents.members.fates import (
    ADVICE_REFUSED,
    Fate,
    Loss,
    cut_off_beside,
    evidence_of,
    fate_advice,
    fate_words,
    fates,
    is_of_streams,
    left_open,
    refused_before,
)
from kafkascope.reports.incidents.members.losses import losses
from kafkascope.reports.incidents.members.members import may_have_spoken, tries_on
from kafkascope.reports.incidents.network.vanished import vanished
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_SAYS = (
    "Heartbeat",
    "JoinGroup",
    "SyncGroup",
    "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat",
    "StreamsGroupHeartbeat",
)
_HEARTBEATS = tuple(api for api in _SAYS if api.endswith("Heartbeat"))
_IS_STATIC = '"groupInstanceId": "'
_OF_MEMBER = dict.fromkeys(("member_id", "assignment", "session_timeout_ms", "instance_id", "assignors", "software"))
"""What heartbeats alone do not tell of a member."""
_GOES = frozenset({EventKind.LEFT, EventKind.MEMBER_REMOVED, EventKind.FENCED})
_COMES = frozenset({EventKind.JOINED, EventKind.MEMBER_ID_GIVEN, EventKind.EPOCH_SEEN})
_EVENT = ("group_id", "client", "client_id", "event", "at", "detail")
_FINDINGS = ("commits_stopped", "lag_growing", "partition_unowned")

_MOST = 200  # members that are looked at, those with most partitions; that others do not commit is a finding
_MISSED = 2.5  # heartbeats: one may be late, and a second one lost

_Who = tuple[str, str]
"""Address and client id."""
_Member = tuple[str, str | None, str | None]
"""Group, address and client id."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """A member that its group counts on, and that is not there."""

    loss: Loss  # by the latest rebalance
    fate: Fate
    members: list[Row]  # of that client, as the latest rebalance has them
    was_last: bool = False  # its session is over as well, and nobody else is in the group
    open: Row | None = None  # the rebalance that goes on as the capture ends, for which it would have to join
    came_anew: bool = False  # its process was started again, and comes as another member
    unseen: bool = False  # there are others in its group, and the capture does not show where they run

    @property
    def since(self) -> int:
        """When it ended, or was heard last."""
        return self.fate.at(self.loss)


def awaited(signs: Signs) -> Iterator[Incident]:
    """One for each host and what became of it, or for each group of which nobody is left."""
    alike: dict[tuple[str, IncidentKind], list[Awaited]] = defaultdict(list)
    for one in signs.once(found):
        whose = f"group {one.loss.rebalance['group_id']}" if one.was_last else one.loss.host or ""
        alike[whose, one.fate.kind].append(one)
    for (_, kind), together in sorted(alike.items()):
        yield _awaited(signs, kind, together)


def found(signs: Signs) -> list[Awaited]:
    """Members of the latest generations that were not heard to the end, and did not leave."""
    opened = _opened(signs)
    present = _present(signs, opened)
    if not present:
        return []
    told = _taken_out(signs)
    of_brokers = [one for one in signs.once(outages) if one.gone]
    members = (member for rows in present.values() for row in rows.values() for member in row["members"])
    heard = _last_heard(signs, {(one["host"], one["client_id"]) for one in members if one["host"] and one["client_id"]})
    silent = [
        Loss(row, name, host, last, signs.end, Certainty.LIKELY)
        for (host, name), (last, usual) in sorted(heard.items())
        if signs.end - last - lacking(signs, last, signs.end) >= max(threshold("awaited") * SECOND_NS, _MISSED * usual)
        and told.get((host, name), 0) < last - threshold("one_trouble") * SECOND_NS
        and not any(one.client == host and one.overlaps(last, signs.end) for one in signs.once(vanished))
        and not any(one.troubles(last, int(last + _MISSED * usual)) for one in of_brokers)
        for row in present[host, name].values()
    ]
    silent = sorted(silent, key=lambda loss: (-_partitions(loss), loss.host, loss.client_id))[:_MOST]
    went, came = _later(signs, silent)
    missed = [
        loss
        for loss in silent
        if (who := _member(loss)) not in went
        and (who not in came or who[0] in opened)
        and not may_have_spoken(signs, loss)
    ]
    missing = [
        _missing(loss, fate, opened.get(loss.rebalance["group_id"]), came_anew=_member(loss) in came)
        for loss, fate in zip(missed, fates(signs, missed, of_brokers), strict=True)
        if not tries_on(signs, loss, fate)
    ]
    return [one for one in missing if _is_sure(signs, one, heard)]


def _opened(signs: Signs) -> dict[str, Row]:
    """The latest rebalances that go on, by group."""
    return {row["group_id"]: row for row in signs.latest_rebalances if row["stable"] is None and not row["members"]}


def _present(signs: Signs, opened: Mapping[str, Row]) -> dict[_Who, dict[str, Row]]:
    """By client, then by group: the latest rebalance of which it is a member with something to do."""
    present: dict[_Who, dict[str, Row]] = defaultdict(dict)
    for latest in signs.latest_rebalances:
        group, row = latest["group_id"], latest
        if group in opened:  # who is to be in it shows the one before
            row = next(reversed(signs.rebalances_of(group, (latest["started"] or 0) - 1)), latest)
        for member in row["members"] or ():
            if member["host"] and member["client_id"] and member["assignment"] != []:  # None: not known
                present[member["host"], member["client_id"]][group] = row
    for client, groups in _heard_alone(signs).items():
        present[client].update(groups)
    return present


def _taken_out(signs: Signs) -> dict[_Who, int]:
    """When clients were taken out of a group last."""
    told: dict[_Who, int] = {}
    for loss in signs.once(losses):
        if loss.host and loss.client_id:
            told[loss.host, loss.client_id] = max(told.get((loss.host, loss.client_id), 0), loss.expelled)
    return told


def _member(loss: Loss) -> _Member:
    return loss.rebalance["group_id"], loss.host, loss.client_id


def _partitions(loss: Loss) -> int:
    """How many partitions nobody may read."""
    return len(assigned(_members(loss)))


def _members(loss: Loss) -> list[Row]:
    """Those of the client, as the latest rebalance has them."""
    who = loss.host, loss.client_id
    return [one for one in loss.rebalance["members"] if (one["host"], one["client_id"]) == who]


def _missing(loss: Loss, fate: Fate, opened: Row | None, *, came_anew: bool) -> Awaited:
    members = _members(loss)
    sessions = [one["session_timeout_ms"] for one in members]
    is_over = all(sessions) and loss.expelled - loss.since >= max(sessions) * MILLISECOND_NS
    unseen = any(not one["host"] for one in loss.rebalance["members"])
    return Awaited(loss, fate, members, is_over and opened is None, opened, came_anew, unseen)


def _is_sure(signs: Signs, one: Awaited, heard: Mapping[_Who, tuple[int, float]]) -> bool:
    """Whether a silent client's group counts on it, or it was the last one, for all that the capture may lack."""
    has_died = one.fate.settled and one.fate.kind == IncidentKind.CLIENT_DIED
    if one.came_anew:
        return has_died
    later = one.loss.since + threshold("awaited") * SECOND_NS
    others = {(other["host"], other["client_id"]) for other in one.loss.rebalance["members"]}
    if any(heard.get(who, (0, 0.0))[0] >= later for who in others):
        return not one.was_last  # else the group has gone on without it, and the capture lacks how
    # Its coordinator may be another one now, unless its process ended.
    known = all(member["session_timeout_ms"] for member in one.members)
    if one.was_last and one.unseen and known:  # it may have been taken out before its process ended
        known = (
            one.since - one.loss.since < max(member["session_timeout_ms"] for member in one.members) * MILLISECOND_NS
        )
    stays = _may_just_be_closed(signs, one.loss, one.members)
    may_have_left = one.fate.closed and not stays and (one.loss.host, one.loss.client_id) in signs.once(_lacking_bytes)
    return has_died and known and not (one.was_last and stays) and not may_have_left


def _lacking_bytes(signs: Signs) -> set[tuple[str, str | None]]:
    """Clients, by host and client id, of whose connections the capture lacks something: a LeaveGroup, it may be."""
    return {(row["client"], row["client_id"]) for row in signs.connections(pc.field("lost_bytes") > 0)}


def _may_just_be_closed(signs: Signs, loss: Loss, members: Sequence[Row]) -> bool:
    """Whether these do not leave when they are closed: static members, and Streams with the classic protocol."""
    return all(one["instance_id"] for one in members) or is_of_streams(signs, loss.rebalance["group_id"])


def _heard_alone(signs: Signs) -> dict[_Who, dict[str, Row]]:
    """Members of groups that do not rebalance in the capture, as rebalances have them: heartbeats alone tell of them.

    Static ones are left out: another process may take their place without a rebalance.
    """
    known = pa.array([row["group_id"] for row in signs.latest_rebalances], pa.string())
    beats = pc.field("api").isin(_HEARTBEATS) & (pc.field("error") == Error.NONE)
    where = beats & pc.field("group_id").is_valid() & ~among("group_id", known)
    said, static = set[tuple[int, str]](), set[tuple[int, str]]()
    for batch in signs.batches("exchanges", ("connection", "group_id", "request"), where):
        of_static = pc.fill_null(pc.match_substring(batch["request"], _IS_STATIC), True)
        for members, rows in ((said, batch), (static, batch.filter(of_static))):
            distinct = rows.group_by(["connection", "group_id"]).aggregate([])
            members.update(zip(*(column.to_pylist() for column in distinct.columns), strict=True))
    clients = signs.connections_by_number(sorted({number for number, _ in said}))
    members_of: dict[str, dict[_Who, Row]] = defaultdict(dict)
    present: dict[_Who, dict[str, Row]] = defaultdict(dict)
    for number, group in sorted(said):
        if (row := clients.get(number)) is not None and row["client_id"]:
            who = row["client"], row["client_id"]
            members_of[group][who] = {**_OF_MEMBER, "host": row["client"], "client_id": row["client_id"]}
            if (number, group) not in static:
                present[who][group] = {"group_id": group}
    for groups in present.values():
        for group, row in groups.items():
            row["members"] = [*members_of[group].values()]
    return present


def _last_heard(signs: Signs, whose: Collection[_Who]) -> dict[_Who, tuple[int, float]]:
    """When clients spoke to a coordinator last, as members that it takes for such, and from one word to the next."""
    if not whose:
        return {}
    said: dict[int, tuple[int, int, int]] = {}  # by connection: first, last, how often
    where = pc.field("api").isin(_SAYS) & (pc.field("error") == Error.NONE) & pc.field("requested").is_valid()
    for batch in signs.batches("exchanges", ("connection", "requested"), where):
        sums = batch.group_by("connection").aggregate([("requested", each) for each in ("min", "max", "count")])
        for row in sums.to_pylist():
            first, last, count = said.get(row["connection"], (row["requested_min"], 0, 0))
            said[row["connection"]] = (
                min(first, row["requested_min"]),
                max(last, row["requested_max"]),
                count + row["requested_count"],
            )
    found: dict[_Who, tuple[int, float]] = {}
    for row in signs.connections_of(whose):
        if row["connection"] in said:
            first, last, count = said[row["connection"]]
            who = row["client"], row["client_id"]
            found[who] = max(found.get(who, (0, 0.0)), (last, (last - first) / max(count - 1, 1)))
    return found


def _later(signs: Signs, silent: Sequence[Loss]) -> tuple[set[_Member], set[_Member]]:
    """Those that left, were taken out or replaced since they were heard last, and those that came anew."""
    since: dict[_Member, int] = {_member(loss): loss.since for loss in silent}
    groups = sorted({group for group, *_ in since})
    where = among("group_id", groups) & pc.field("event").isin(sorted(_GOES | _COMES | {EventKind.REPLACED}))
    went, came = set[_Member](), set[_Member]()
    for row in signs.rows("group_events", _EVENT, where) if since else ():
        who = row["group_id"], row["client"], row["client_id"]
        if row["event"] == EventKind.REPLACED:  # by another process, which may run elsewhere
            went |= {_member(loss) for loss in silent if _is_replaced(loss, row)}
        if who in since and row["event"] in _GOES and row["at"] >= since[who]:
            went.add(who)
        elif who in since and row["event"] in _COMES and row["at"] > since[who]:
            came.add(who)
    return went, came


def _is_replaced(loss: Loss, event: Row) -> bool:
    """Whether all members of a client are those whose place another process took; the event tells whose."""
    ids = [member["member_id"] for member in _members(loss)]
    mine = event["group_id"] == loss.rebalance["group_id"] and event["at"] >= loss.since
    return mine and all(one and one in (event["detail"] or "") for one in ids)


def _awaited(signs: Signs, kind: IncidentKind, together: Sequence[Awaited]) -> Incident:
    hosts = sorted({one.loss.host or "" for one in together})
    names = sorted({one.loss.client_id or "" for one in together})
    groups = sorted({one.loss.rebalance["group_id"] for one in together})
    since = min(one.since for one in together)
    lasted = (signs.end - since) / MILLISECOND_NS
    members = [member for one in together for member in one.members]
    missed = _missed(together)
    unseen = any(one.was_last and one.unseen for one in together)  # others may have taken over
    effects = [
        unread(partitions, lasted, f" in group {group}" if len(groups) > 1 else "")
        for group, partitions in missed.items()
        if partitions and not unseen
    ]
    opened = {one.open["group_id"]: (one.open, one) for one in together if one.open is not None}
    for row, one in opened.values():
        mine = missed[row["group_id"]]
        if others := [name for name in held_up(one.loss.rebalance["members"]) if name not in mine]:
            effects.append(unread(others, (signs.end - row["started"]) / MILLISECOND_NS, ", as all wait"))
    sessions = sorted({member["session_timeout_ms"] for member in members if member["session_timeout_ms"]})
    session = f" (session timeout: {listed([duration(ms) for ms in sessions])})" if sessions else ""
    whose = named("group", groups)
    came_anew = all(one.came_anew for one in together)
    whom = "it" if len(names) == 1 else "them"
    if came_anew:
        whom = "its old member" if len(names) == 1 else "their old members"
    waits = f"{whose} still {'waits' if len(groups) == 1 else 'wait'} for {whom} at the end{session}"
    after = f"came anew, and {waits}" if came_anew else f"and {waits}"
    is_empty = all(one.was_last for one in together) and not unseen
    if is_empty:
        after = f"and nobody is left in {whose}"
    elif unseen:
        after = f"and its session was over before the end; what {whose} did then is not in the capture"
    settled = all(one.fate.settled for one in together)
    closed = all(one.fate.closed for one in together)
    what, advice = left_open(one.fate for one in together)
    if settled:
        what, advice = fate_words(kind, names, closed=closed), fate_advice(signs, kind, groups, closed=closed)
    has_ended = settled and kind == IncidentKind.CLIENT_DIED  # that is seen
    when = f"at {clock(since)}" if has_ended else since_when(signs, since)
    refused = refused_before(signs, names, since) if has_ended else None
    after_what = refused.words if refused else ""
    is_cut_off = settled and kind == IncidentKind.CLIENT_UNREACHABLE
    beside = cut_off_beside(signs, hosts if is_cut_off else [], names, since)
    cost_ms = sum((effect.count or 0) * (effect.duration_ms or 0) for effect in effects)
    effects += beside.effects
    static = all(member["instance_id"] for member in members) and kind == IncidentKind.CLIENT_DIED and not closed
    before = _ADVICE_STATIC if static else _ADVICE_ANEW if came_anew else ""
    return Incident(
        kind=kind,
        severity=Severity.CRITICAL if is_empty else Severity.WARNING,
        certainty=Certainty.LIKELY if settled else Certainty.GUESSED,
        subjects=(
            *every(Role.CLIENT, [*names, *beside.names]),
            *every(Role.HOST, hosts),
            *every(Role.GROUP, groups),
        ),
        started=since,
        ended=None,
        headline=f"{listed(names)} ({listed(hosts)}) {what} {when}{after_what}, {after}" + in_words(effects),
        evidence=evidence_of((one.loss, one.fate) for one in together),
        advice=ADVICE_REFUSED if refused else f"{before} {advice}".lstrip(),
        cost_ms=cost_ms,
        effects=tuple(effects),
        findings=signs.explained(_FINDINGS, since, signs.end, groups=groups, clients=[*names, *beside.names]),
        rebalances=frozenset((group, row["to_generation"]) for group, (row, _) in opened.items()),
        cause=refused,
    )


def _missed(together: Sequence[Awaited]) -> dict[str, list[str]]:
    """Partitions that nobody reads in each of their groups, by its name."""
    members: dict[str, list[Row]] = defaultdict(list)
    for one in together:
        members[one.loss.rebalance["group_id"]] += one.members
    return {group: assigned(of_group) for group, of_group in sorted(members.items())}


_ADVICE_ANEW = (
    "A process that is started again is a new member: the group waits for the old one until its session or the "
    "rebalance timeout ends. Static membership (group.instance.id) lets it take its own place at once."
)
_ADVICE_STATIC = (
    "A static member (group.instance.id) does not leave when it is closed: start it again before its session ends, or "
    "take it out (removeMembersFromConsumerGroup of the admin client)."
)
