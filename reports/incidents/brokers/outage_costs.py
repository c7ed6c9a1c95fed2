"""What it cost that a broker went away or stood still: who waited, what moved, which groups lost what."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from kafkascope.reports.columns.name_lists import in_words, listed, named
from kafkascope.reports.columns.text import address_alone, counted
from kafkascope.reports.columns.words import duration
from kafkascope.reports.incidents.brokers import slow_brokers
from kafkascope.reports.incidents.brokers.outage import Outage
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.brokers.replica_waits import FOLLOWS_NS, waited_for_until
from kafkascope.reports.incidents.brokers.shutdowns import moved_otherwise
from kafkascope.reports.incidents.brokers.uncoordinated import Uncoordinated, uncoordinated
from kafkascope.reports.incidents.costs import lost_by, of_rebalances
from kafkascope.reports.incidents.incident import Effect
from kafkascope.reports.incidents.members.members import with_fates
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row, between
from kafkascope.reports.incidents.who_is_who import Node
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

LEADERLESS = "leaderless"
"""What the effect is called of partitions that had no leader."""

_EXPLAINED = frozenset(
    {
        "unanswered",
        "sent_again",
        "leader_changed",
        "coordinator_moved",
        "connection_churn",
        "heartbeat_held_up",
        "metadata_storm",
        "commit_refused",
        "partition_unowned",
        "commits_stopped",
        "consumer_stuck",
        "error_loop",
        "idle_polling",
    }
)
_SOON_NS = 5 * SECOND_NS  # behind a stall: news of it may have been on its way
_BY_COORDINATOR = frozenset({Trigger.COORDINATOR_MOVED, Trigger.SESSION_TIMEOUT, Trigger.MEMBER_REJOINED})


@dataclass(frozen=True, slots=True)
class Cost:
    """What came of an outage."""

    effects: tuple[Effect, ...]
    waited_ms: float  # how long work stood still
    findings: frozenset[str]  # that it explains
    rebalances: frozenset[tuple[str, int]]


def cost_of(signs: Signs, outage: Outage) -> Cost:
    """What came of one outage."""
    silence, host = outage.silence, outage.host
    until = silence["since"] + int(silence["duration_ms"] * MILLISECOND_NS) if outage.ended is None else outage.ended
    waited = (until - outage.started) / MILLISECOND_NS
    begin, end = outage.started - int(threshold("shutdown_takes") * SECOND_NS), outage.until(signs.end)
    from_it = _moved_from(signs, outage, begin, end)
    if outage.stands_still and _goes_later(signs, outage):  # what moves then, moves as it goes
        from_it = [row for row in from_it if row["at"] <= until + _SOON_NS]
    groups = {
        row["group_id"]
        for row in from_it
        if row["event"] == "coordinator_moved" and row["group_id"] and row["detail"] != "of a transactional id"
    }
    coordinated = signs.coordinated_by(host, outage.started) | groups
    of_groups, cost_ms, rebalances = of_rebalances(_rebalanced(signs, outage, coordinated, from_it))
    effects = []
    if silence["waiting"]:
        effects.append(of_requests(silence["waiting"], silence["waiting_clients"], waited))
    effects += [*_of_leaders(signs, outage, from_it), *_of_coordinators(signs, outage, groups)]
    effects += of_groups
    if outage.stands_still:
        effects += _out_of_sync(signs, outage)
    if outage.gone or outage.by_its_own or not effects:
        effects += _held_up(signs, outage, is_all=not effects)
    if effects == [*of_groups] and (failed := silence["refused"] + silence["unanswered"]):  # nobody else took its place
        effects.append(
            Effect("connects", f"{counted(failed, 'connect')} to it failed in {duration(waited)}", failed, waited)
        )
    about = _spoke_with(signs, host) | {f"group {group}" for group in coordinated}
    findings = signs.findings_about(about, _EXPLAINED, begin, end)
    if outage.by_its_own and outage.stands_still:  # nobody asked it, so it is what others did that waited
        names = slow_brokers.held_up(signs, outage.started, end).names
        of_names = sorted({group for name in names for group in signs.groups_of.get(name, ())})
        findings |= signs.explained(_EXPLAINED, outage.started, end, groups=of_names, clients=names)
    return Cost(tuple(effects), max(waited, cost_ms), findings, rebalances)


def of_requests(count: int, names: Collection[str], waited_ms: float) -> Effect:
    """Requests of some clients that waited for a broker."""
    text = f"{counted(count, 'request')} of {listed(names)} waited for up to {duration(waited_ms)}"
    return Effect("requests", text, count, waited_ms)


def _out_of_sync(signs: Signs, stall: Outage) -> Iterator[Effect]:
    """Partitions that went on without a broker as a replica as it stood still."""
    until = (signs.end if stall.ended is None else stall.ended) + _SOON_NS
    _, out_of_sync = lost_by(signs, signs.node(stall.host, stall.started), stall.started, until)
    if out_of_sync:
        text = f"it fell out of sync of {counted(len(out_of_sync), 'partition')}"
        yield Effect("replicas", text, len(out_of_sync))


def _held_up(signs: Signs, outage: Outage, *, is_all: bool) -> tuple[Effect, ...]:
    """Writes at other brokers that waited for one as for a replica, if any of them waited for long.

    Of one that is gone those that waited so long that they are an incident of their own count if they are all it cost.
    """
    until = waited_for_until(signs, outage) or outage.started + FOLLOWS_NS
    writes = slow_brokers.held_up(signs, outage.started, min(until, signs.end), but=outage.host)
    told_apart = outage.gone and not is_all and writes.longest >= threshold("replicas_late") * 1000
    return slow_brokers.of_writes(writes) if writes.longest >= threshold("long_answer") and not told_apart else ()


def _moved_from(signs: Signs, outage: Outage, since: int, until: int) -> list[Row]:
    """Events by which something moved from a broker in a time, as it was gone, or about to go."""
    node = signs.node(outage.host, outage.started)
    otherwise = moved_otherwise(signs, outage.host, outage.started)
    return [
        row
        for row in signs.events_of(node, since, until)
        if node is not None and row["before"] == node.id and (row["at"] >= outage.started or not otherwise(row["at"]))
    ]


def _goes_later(signs: Signs, stall: Outage) -> bool:
    """Whether a broker that stood still went away shortly after."""
    until = stall.until(signs.end) + int(threshold("shutdown_takes") * SECOND_NS)
    return any(
        one.gone and one.host == stall.host and stall.started < one.started <= until for one in signs.once(outages)
    )


def _of_leaders(signs: Signs, outage: Outage, from_it: Sequence[Row]) -> Iterator[Effect]:
    """Leaders that moved from a broker, and partitions that had none."""
    if moved := [row for row in from_it if row["event"] == "leader_changed"]:
        count = sum(row["count"] or 1 for row in moved)
        after = max(0, max(row["at"] for row in moved) - outage.started) / MILLISECOND_NS
        text = f"{counted(count, 'leader')} moved to other brokers"
        if after and not outage.orderly:
            text += f", which clients learned within {duration(after)}"
        yield Effect("leaders", text, count, after)
    if lost := [row for row in from_it if row["event"] in ("leader_lost", "leader_missing")]:
        yield leaderless(signs, signs.node(outage.host, outage.started), lost)


def leaderless(signs: Signs, node: Node | None, lost: Sequence[Row]) -> Effect:
    """Partitions that had no leader: which, and for how long at most."""
    since = {partition: row["at"] for row in reversed(lost) for partition in row["partitions"] or ()}
    found: dict[str, int] = {}
    for row in signs.events_of(node, lost[0]["at"], signs.end + 1):
        if row["event"] == "leader_elected":
            for partition in row["partitions"] or ():
                found.setdefault(partition, row["at"])
    longest = max((found.get(partition, signs.end) - at for partition, at in since.items()), default=0)
    lasted = duration(longest / MILLISECOND_NS)
    still = "" if found.keys() >= since.keys() else ", to the end of the capture"
    count = sum(row["count"] or 1 for row in lost)
    which = in_words(since, 6) or counted(count, "partition")
    text = f"{which} had no leader for up to {lasted}{still}: nobody could write or read there"
    return Effect(LEADERLESS, text, count, longest / MILLISECOND_NS)


def _of_coordinators(signs: Signs, outage: Outage, moved: Collection[str]) -> Iterator[Effect]:
    """Groups whose coordinator moved from a broker, and those that had none."""
    if moved:
        text = f"the coordinator of {named('group', sorted(moved))} moved"
        yield Effect("coordinators", text, len(moved))
    if away := uncoordinated_by(signs, outage):
        longest = max(time.lasted for time in away) / MILLISECOND_NS
        told = sorted({group for time in away for group in time.groups})
        text = f"{named('group', told)} had no coordinator for up to {duration(longest)}"
        yield Effect("coordinators", text, len(told), longest)


def uncoordinated_by(signs: Signs, outage: Outage) -> list[Uncoordinated]:
    """When groups had no coordinator because it is the broker that went away."""
    return [
        time
        for time in (signs.once(uncoordinated) if outage.gone else ())
        if outage.covers(time.since, signs.end) and time.is_of(signs, outage.host, outage.started)
    ]


def _of_lost_members(signs: Signs) -> frozenset[tuple[str, int]]:
    """Group and generation of rebalances that are told of members which their groups lost."""
    lost = (loss.rebalance for loss, _ in signs.once(with_fates))
    return frozenset((row["group_id"], row["to_generation"]) for row in lost)


def _rebalanced(signs: Signs, outage: Outage, groups: Collection[str], from_it: Sequence[Row]) -> list[Row]:
    """Rebalances of groups that a broker coordinated, from its outage until they have settled elsewhere.

    None that is told of a member which its group lost.
    """
    of_members = signs.once(_of_lost_members)
    settled = max([outage.started, *(row["at"] for row in from_it if row["event"] == "coordinator_moved")])
    until = min(outage.until(signs.end), settled + int(threshold("one_trouble") * SECOND_NS))
    return [
        row
        for group in sorted(groups)
        for row in signs.rebalances_of(group, until, outage.started)
        if row["to_generation"] is not None
        and (row["trigger"] in _BY_COORDINATOR or _comes_anew(signs, row, outage.started))
        and (group, row["to_generation"]) not in of_members
    ]


def _comes_anew(signs: Signs, row: Row, since: int) -> bool:
    """Whether a rebalance is that of a member that was in its group before a time, and comes back for the first time.

    It has to by another id, as its session had ended meanwhile, or as it takes it to have. Not of one that had left.
    """
    if row["trigger"] != Trigger.MEMBER_JOINED:
        return False
    group, began = row["group_id"], row["started"]
    came = next((one for one in row["members"] or () if one["member_id"] == row["trigger_member"]), None)
    last = next((one for one in reversed(signs.rebalances_of(group, since)) if one["members"]), None)
    if (
        last is None
        or not _has(last, came)
        or any(_has(one, came) for one in signs.rebalances_of(group, began - 1, since + 1))
    ):
        return False
    events = between(signs.events_of_group(group), last["started"] or 0, began)
    return not any(
        event["event"] == EventKind.LEFT and event["client_id"] == row["trigger_client_id"] for event in events
    )


def _has(row: Row, one: Row | None) -> bool:
    """Whether a client is among the members of a generation, by its name and host."""
    return one is not None and (one["client_id"], one["host"]) in {
        (member["client_id"], member["host"]) for member in row["members"] or ()
    }


def _spoke_with(signs: Signs, host: str) -> set[str]:
    """Clients that spoke with a broker, and their groups, as findings name them."""
    at = address_alone(host)
    clients = {(client_id, client) for client, broker, client_id, _ in signs.parties if broker == at and client_id}
    groups = {group for client_id, _ in clients for group in signs.groups_of.get(client_id, ())}
    return {f"client {client_id} ({client})" for client_id, client in clients} | {f"group {group}" for group in groups}
