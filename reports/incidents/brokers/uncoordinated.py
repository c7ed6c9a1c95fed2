"""When groups and transactions had no coordinator, or one that could write nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.groups.leaving import NOT_HERE
from kafkascope.reports.incidents.brokers.same_address import shared
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Trigger
from kafkascope.sniffer.units import SECOND_NS

_COORDINATED = (
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "OffsetCommit",
    "OffsetFetch",
    "ConsumerGroupHeartbeat",
    "ShareGroupHeartbeat",
    "StreamsGroupHeartbeat",
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "TxnOffsetCommit",
)
"""What only a coordinator answers without an error."""
_ASKED = frozenset({*_COORDINATED, "FindCoordinator", "LeaveGroup"})
_WRITES = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "TxnOffsetCommit"})
"""What a coordinator that is there answers COORDINATOR_NOT_AVAILABLE if it cannot write, now or just before."""


@dataclass(slots=True)
class Uncoordinated:
    """A time in which clients were told that their coordinator is away, and nothing else."""

    since: int
    until: int
    rows: list[Row]  # of error_histogram
    groups: list[str] = field(default_factory=list)  # that these clients are in

    @property
    def lasted(self) -> int:
        """Nanoseconds of it."""
        return self.until - self.since

    @property
    def count(self) -> int:
        """How often it was told."""
        return sum(row["count"] for row in self.rows)

    @property
    def names(self) -> list[str]:
        """Client ids of those who were told."""
        return sorted({row["client_id"] for row in self.rows})

    @property
    def is_there(self) -> bool:
        """Whether the coordinator is there and cannot write: who is none says so, or that another one is."""
        return all(row["error"] == Error.COORDINATOR_NOT_AVAILABLE and row["api"] in _WRITES for row in self.rows)

    def asked_from(self, signs: Signs) -> set[str]:
        """Addresses of these clients: of the members of their groups, if any was heard of."""
        return {host for group in self.groups for host in signs.heard_of(group)} or signs.asked_from(self.rows)

    def denied_at(self, signs: Signs) -> list[str]:
        """Where brokers send these clients for the coordinator, and who is there says again and again that it is none.

        Clients ask where a broker has sent them, also where the capture has its answer in part. Whose list of brokers
        is out of date learns better within some seconds: who answers there is another one.
        """
        denied = [
            row
            for row in self.rows
            if row["error"] == Error.NOT_COORDINATOR
            and row["group_id"] is not None
            and signs.may_coordinate(signs.where(row["broker"]), row["group_id"], row["first"])
        ]
        lasted = max((row["last"] for row in denied), default=0) - min((row["first"] for row in denied), default=0)
        often = sum(row["count"] for row in denied) >= threshold("shared_address")
        if not often or lasted < threshold("coordinator_away") * SECOND_NS:
            return []
        return sorted({row["broker"] for row in denied})

    def is_of(self, signs: Signs, host: str, at: int) -> bool:
        """Whether it is a broker that went away at a time who coordinated these groups: it is part of its outage."""
        return not self.is_there and bool(self.groups) and {*self.groups} <= signs.coordinated_by(host, at)


def uncoordinated(signs: Signs) -> list[Uncoordinated]:
    """Times for longer than it takes a coordinator to move; those that overlap, of one group or to one end, as one."""
    by_client: dict[str, list[Row]] = defaultdict(list)
    sent_to_another = {name for one in signs.once(shared) for name in one.clients}
    for row in signs.errors:
        if row["error"] in NOT_HERE and row["api"] in _ASKED and row["client_id"] not in {None, *sent_to_another}:
            by_client[row["client_id"]].append(row)
    suspects = {name: [row for time in _times(rows, ()) for row in time.rows] for name, rows in by_client.items()}
    served = _served(signs, {name: rows for name, rows in suspects.items() if rows})
    times = [time for name, rows in sorted(suspects.items()) for time in _times(rows, served.get(name, ()))]
    times += _not_stored(signs)
    groups_of = _groups(signs) if times else {}
    together: list[Uncoordinated] = []
    for time in sorted(times, key=lambda one: (one.since, one.until)):
        time.groups = sorted(set[str]().union(*(groups_of.get(name, ()) for name in time.names)))
        for one in together:
            end_together = abs(time.until - one.until) <= threshold("outage_after") * SECOND_NS
            if time.since <= one.until and (end_together or one.groups == time.groups):
                one.until = max(one.until, time.until)
                one.rows += time.rows
                one.groups = sorted({*one.groups, *time.groups})
                break
        else:
            together.append(time)
    return together


def _not_stored(signs: Signs) -> Iterator[Uncoordinated]:
    """Times in which a group was led to rebalances again and again as its assignment could not be written."""
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in signs.rebalances:
        if row["trigger"] == Trigger.ASSIGNMENT_NOT_STORED and row["started"] is not None:
            by_group[row["group_id"]].append(row)
    often = {group: rows for group, rows in by_group.items() if len(rows) >= threshold("coordinator_fails")}
    errors: dict[str, list[Row]] = defaultdict(list)
    for row in signs.errors if often else ():
        if row["group_id"] in often and row["error"] in NOT_HERE and row["api"] in _ASKED and row["client_id"]:
            errors[row["group_id"]].append(row)
    for group, rebalances in sorted(often.items()):
        since, until = rebalances[0]["started"], rebalances[-1]["started"]
        if told := [row for row in errors[group] if row["first"] <= until and row["last"] >= since]:
            since, until = min(since, *(row["first"] for row in told)), max(until, *(row["last"] for row in told))
            yield Uncoordinated(since, until, told)


def _served(signs: Signs, suspects: Mapping[str, Sequence[Row]]) -> dict[str, list[int]]:
    """When clients got what only a coordinator gives, in order, in the time of all their errors."""
    if not suspects:
        return {}
    found: dict[str, list[int]] = defaultdict(list)
    since = min(row["first"] for rows in suspects.values() for row in rows)
    until = max(row["last"] for rows in suspects.values() for row in rows)
    where = (
        among("client_id", suspects)
        & (pc.field("answered") >= moment(since))
        & (pc.field("answered") <= moment(until))
        & pc.field("api").isin(_COORDINATED)
        & (pc.field("error") == Error.NONE)
    )
    for batch in signs.batches("exchanges", ("client_id", "answered"), where):
        for name, at in zip(batch["client_id"].to_pylist(), batch["answered"].to_pylist(), strict=True):
            found[name].append(at)
    return {name: sorted(ats) for name, ats in found.items()}


def _times(rows: Sequence[Row], served: Sequence[int]) -> list[Uncoordinated]:
    """Times of one client in which it asked and was not served, of its errors by time: those that are long enough.

    Where it did not ask for long, it may have been served where the capture does not see it.
    """
    least = int(threshold("coordinator_away") * SECOND_NS)
    found: list[Uncoordinated] = []
    for row in rows:
        place = bisect_right(served, row["last"])
        latest = served[place - 1] if place else -1
        time = found[-1] if found else None
        if time is not None and latest < time.since and row["first"] - time.until <= least:
            time.until = max(time.until, row["last"])
            time.rows.append(row)
        else:
            found.append(Uncoordinated(row["first"] if row["first"] > latest else row["last"], row["last"], [row]))
    return [one for one in found if one.lasted >= least and one.count >= threshold("coordinator_told")]


def _groups(signs: Signs) -> dict[str, set[str]]:
    """Groups whose coordinator each client was told to be away."""
    found: dict[str, set[str]] = defaultdict(set)
    where = pc.field("event") == EventKind.COORDINATOR_UNAVAILABLE
    for batch in signs.batches("group_events", ("group_id", "client_id"), where):
        for row in batch.group_by(["group_id", "client_id"]).aggregate([]).to_pylist():
            found[row["client_id"]].add(row["group_id"])
    return found
