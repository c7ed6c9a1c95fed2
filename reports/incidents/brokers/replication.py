"""What comes of it where brokers do not hear each other, or refuse each other: all waits that is to be replicated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkascope.reports.columns.text import address_alone, counted
from kafkascope.reports.incidents.brokers.slow_brokers import held_up, of_writes
from kafkascope.reports.incidents.costs import lost_by, of_rebalances
from kafkascope.reports.incidents.incident import Effect
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Trigger
from kafkascope.sniffer.units import SECOND_NS

_EXPLAINED = (
    "commit_refused",
    "commits_stopped",
    "error_loop",
    "heartbeat_held_up",
    "leader_changed",
    "rebalance_storm",
    "sent_again",
    "unanswered",
)


@dataclass(frozen=True, slots=True)
class HeldUp:
    """What waited for replicas: writes, and coordinators with their groups."""

    effects: tuple[Effect, ...] = ()
    cost_ms: float = 0.0
    findings: frozenset[str] = frozenset()
    rebalances: frozenset[tuple[str, int]] = frozenset()


def held_up_between(signs: Signs, hosts: Iterable[str], since: int, until: int) -> HeldUp:
    """What waited in a time in which brokers at some addresses had trouble with each other; nothing if one is none."""
    places = sorted(set(hosts))
    if not signs.brokers.issuperset(map(address_alone, places)):
        return HeldUp()
    waited = held_up(signs, since, until)
    began = [
        row
        for row in signs.rebalances
        if row["trigger"] == Trigger.ASSIGNMENT_NOT_STORED and since <= (row["started"] or 0) <= until
    ]
    of_groups, _, rebalances = of_rebalances(began)
    groups = {row["group_id"] for row in began}
    groups.update(group for name in waited.names for group in signs.groups_of.get(name, ()))
    names = {name for name, of_name in signs.groups_of.items() if groups.intersection(of_name)}.union(waited.names)
    left: list[Effect] = []
    for place in places:
        node = signs.node(place, since)
        moved, out_of_sync = lost_by(signs, node, since, until + int(threshold("outage_after") * SECOND_NS))
        if moved:
            text = f"{counted(moved, 'leader')} moved away from {signs.broker_words(place, since)}"
            left.append(Effect("leaders", text, moved))
        if out_of_sync:
            text = f"{signs.broker_words(place, since)} fell out of sync of {counted(len(out_of_sync), 'partition')}"
            left.append(Effect("replicas", text, len(out_of_sync)))
    return HeldUp(
        (*of_writes(waited), *of_groups, *left),
        waited.cost_ms,
        signs.explained(_EXPLAINED, since, until, groups=sorted(groups), clients=sorted(names)),
        rebalances,
    )
