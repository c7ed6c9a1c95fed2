"""What shows that a broker was shut down on request: it said so, or gave up its leaders first."""

from __future__ import annotations

from collections.abc import Callable

from kafkascope.reports.columns.text import client_name
from kafkascope.reports.incidents.incident import Weighed
from kafkascope.reports.incidents.planned.changes import changes_made
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row, between
from kafkascope.reports.incidents.who_is_who import Node
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import SECOND_NS

_BEGINS = ("broker_registered", "broker_unfenced")
ANNOUNCED = 0.9
"""The weight of what says by itself that a broker was shut down on request."""
SOON_NS = 5 * SECOND_NS  # behind the return of a broker, or a choice of leaders: clients have learned what moved
_CHOOSE_LEADERS = ("ElectLeaders", "AlterPartitionReassignments")


def shutdown_signs(signs: Signs, silence: Row) -> list[Weighed]:
    """What shows that a broker prepared to go: it gave up its leaders while it still answered, or said so."""
    node, since = signs.node(silence["host"], silence["since"]), silence["since"]
    takes = int(threshold("shutdown_takes") * SECOND_NS)
    otherwise = moved_otherwise(signs, silence["host"], since)
    seen = []
    events = signs.events_of(node, since - takes, since + SECOND_NS)
    begun = max((row["at"] for row in events if _begins(row, node) and row["at"] < since), default=0)
    for row in events:
        if row["at"] < begun:
            continue  # of the process before
        if row["event"] == "shutdown_announced" and Node(row["cluster_id"], str(row["node_id"])) == node:
            seen.append(Weighed("it asked for an orderly shutdown", row["packet"], row["at"], ANNOUNCED))
        elif row["event"] != "leader_changed" or row["at"] >= since or otherwise(row["at"]):
            continue
        elif node is not None and row["before"] == node.id:
            text = f"leaders moved from it to {row['after']} before it fell silent"
            seen.append(Weighed(text, row["packet"], row["at"], 0.6))
    for row in between(signs.stale_leaders, max(since - takes, begun), since + SECOND_NS + 1, "last"):
        if signs.where(row["broker"]) != silence["host"] or otherwise(row["last"]):
            continue
        if not _coordinated_later(signs, row, since):
            who = client_name(row["client_id"])
            text = f"it answered {who} {row['error']}: it had given up its leaders while it was still there"
            seen.append(Weighed(text, row["first_packet"], row["first"], 0.6))
    return seen


def _begins(event: Row, node: Node | None) -> bool:
    """Whether an event is of a process of a broker that has just begun."""
    return event["event"] in _BEGINS and Node(event["cluster_id"], str(event["node_id"])) == node


def moved_otherwise(signs: Signs, host: str, since: int) -> Callable[[int], bool]:
    """Whether what moved from a broker at a time did so as it was silent before, or as somebody chose its leaders."""
    least = 1000 * threshold("stall_of_one")
    times = [
        (row["since"], row["until"])
        for row in signs.silences_at(host, since - int(threshold("shutdown_takes") * SECOND_NS) - SOON_NS, since)
        if row["until"] is not None
        and row["until"] <= since
        and (row["refused"] or row["unanswered"] or row["duration_ms"] >= least)
    ]
    times += [(row["requested"], row["answered"]) for row in signs.once(changes_made) if row["api"] in _CHOOSE_LEADERS]
    return lambda at: any(begin <= at <= end + SOON_NS for begin, end in times)


def _coordinated_later(signs: Signs, error: Row, until: int) -> bool:
    """Whether a broker that said that it is not the coordinator of a group was it later, and led it to a rebalance."""
    group = error["group_id"]
    if group is None or not signs.coordinates(signs.where(error["broker"]), group, until):
        return False
    return any(error["last"] < (row["stable"] or 0) < until for row in signs.rebalances_of(group, until, error["last"]))
