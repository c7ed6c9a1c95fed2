"""Groups and transactions without a coordinator: nobody can join, commit, or begin."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import moment
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.groups.leaving import NOT_HERE
from kafkascope.reports.incidents.brokers import out_at, outages
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.same_address import shared
from kafkascope.reports.incidents.signs import Row, Signs, host_of
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

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
_EXPLAINED = (
    "error_loop",
    "metadata_storm",
    "commit_refused",
    "commits_stopped",
    "heartbeat_held_up",
    "unanswered",
)
_WRITES = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit", "TxnOffsetCommit"})
"""What a coordinator that is there answers COORDINATOR_NOT_AVAILABLE if it cannot write, now or just before."""
_ADVICE = (
    "See whether __consumer_offsets (for transactions: __transaction_state) is there and has leaders: kafka-topics.sh "
    "--describe --topic __consumer_offsets. It is made at first need, with three replicas unless "
    "offsets.topic.replication.factor (transaction.state.log.replication.factor) says otherwise: a cluster with fewer "
    "brokers never makes it. The log of the broker that is asked says why."
)
_ADVICE_WRITES = (
    "The coordinator is there, but what it writes to __consumer_offsets is not confirmed: fewer replicas are in sync "
    "than min.insync.replicas of that topic demands, or one that is in sync does not follow (kafka-topics.sh "
    "--describe --topic __consumer_offsets). Bring the brokers back that are missing, and a majority of controllers."
)


@dataclass(slots=True)
class _Time:
    """A time in which clients were told that their coordinator is away, and nothing else."""

    since: int
    until: int
    rows: list[Row]  # of error_histogram

    @property
    def lasted(self) -> int:
        """Nanoseconds of it."""
        return self.until - self.since

    @property
    def count(self) -> int:
        """How often it was told."""
        return sum(row["count"] for row in self.rows)


def missing(signs: Signs) -> Iterator[Incident]:
    """Times in which groups or transactions had no coordinator for longer than it takes one to move."""
    by_client: dict[str, list[Row]] = defaultdict(list)
    sent_to_another = {name for one in signs.once(shared) for name in one.clients}
    for row in signs.errors:
        if row["error"] in NOT_HERE and row["api"] in _ASKED and row["client_id"] not in {None, *sent_to_another}:
            by_client[row["client_id"]].append(row)
    suspects = {name: [row for time in _times(rows, ()) for row in time.rows] for name, rows in by_client.items()}
    served = _served(signs, {name: rows for name, rows in suspects.items() if rows})
    times = [time for name, rows in sorted(suspects.items()) for time in _times(rows, served.get(name, ()))]
    times += _not_stored(signs)
    together: list[_Time] = []
    for time in sorted(times, key=lambda one: (one.since, one.until)):
        if together and time.since <= together[-1].until:
            together[-1].until = max(together[-1].until, time.until)
            together[-1].rows += time.rows
        else:
            together.append(time)
    groups = _groups(signs) if together else {}
    for time in together:
        yield _missing(signs, time, groups)


def _not_stored(signs: Signs) -> Iterator[_Time]:
    """Times in which a group was led to rebalances again and again as its assignment could not be written."""
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in signs.rebalances:
        if row["trigger"] == Trigger.ASSIGNMENT_NOT_STORED and row["started"] is not None:
            by_group[row["group_id"]].append(row)
    for group, rebalances in sorted(by_group.items()):
        since, until = rebalances[0]["started"], rebalances[-1]["started"]
        told = [
            row
            for row in signs.errors
            if row["group_id"] == group
            and row["error"] in NOT_HERE
            and row["api"] in _ASKED
            and row["client_id"]
            and row["first"] <= until
            and row["last"] >= since
        ]
        if told and len(rebalances) >= threshold("coordinator_fails"):
            yield _Time(min(since, *(row["first"] for row in told)), max(until, *(row["last"] for row in told)), told)


def _served(signs: Signs, suspects: Mapping[str, Sequence[Row]]) -> dict[str, list[int]]:
    """When clients got what only a coordinator gives, in order, in the time of all their errors."""
    if not suspects:
        return {}
    found: dict[str, list[int]] = defaultdict(list)
    since = min(row["first"] for rows in suspects.values() for row in rows)
    until = max(row["last"] for rows in suspects.values() for row in rows)
    where = (
        pc.field("client_id").isin(sorted(suspects))
        & (pc.field("answered") >= moment(since))
        & (pc.field("answered") <= moment(until))
        & pc.field("api").isin(_COORDINATED)
        & (pc.field("error") == Error.NONE)
    )
    for batch in signs.batches("exchanges", ("client_id", "answered"), where):
        for name, at in zip(batch["client_id"].to_pylist(), batch["answered"].to_pylist(), strict=True):
            found[name].append(at)
    return {name: sorted(ats) for name, ats in found.items()}


def _times(rows: Sequence[Row], served: Sequence[int]) -> list[_Time]:
    """Times of one client in which it asked and was not served, of its errors by time: those that are long enough.

    Where it did not ask for long, it may have been served where the capture does not see it.
    """
    least = int(threshold("coordinator_away") * SECOND_NS)
    found: list[_Time] = []
    for row in rows:
        place = bisect_right(served, row["last"])
        latest = served[place - 1] if place else -1
        time = found[-1] if found else None
        if time is not None and latest < time.since and row["first"] - time.until <= least:
            time.until = max(time.until, row["last"])
            time.rows.append(row)
        else:
            found.append(_Time(row["first"] if row["first"] > latest else row["last"], row["last"], [row]))
    return [one for one in found if one.lasted >= least and one.count >= threshold("coordinator_told")]


def _groups(signs: Signs) -> dict[str, set[str]]:
    """Groups whose coordinator each client was told to be away."""
    found: dict[str, set[str]] = defaultdict(set)
    where = pc.field("event") == EventKind.COORDINATOR_UNAVAILABLE
    for batch in signs.batches("group_events", ("group_id", "client_id"), where):
        for row in batch.group_by(["group_id", "client_id"]).aggregate([]).to_pylist():
            found[row["client_id"]].add(row["group_id"])
    return found


def _missing(signs: Signs, time: _Time, groups_of: Mapping[str, set[str]]) -> Incident:
    since, until, rows = time.since, time.until, time.rows
    names = sorted({row["client_id"] for row in rows})
    groups = sorted(set[str]().union(*(groups_of.get(name, ()) for name in names)))
    told = listed(sorted({row["error"] for row in rows}))
    outage = out_at(signs.once(outages), since, signs.end)
    still = until >= signs.end - SECOND_NS * threshold("coordinator_away")
    times = f"since {clock(since)}" if still else f"from {clock(since)} to {clock(until)}"
    what = f"{listed(names)} found no coordinator {times}"
    whose = f"group {groups[0]}" if len(groups) == 1 else f"groups {listed(groups)}"
    if groups:
        had = "had" if not still else "has" if len(groups) == 1 else "have"
        what = f"{whose} {had} no coordinator {times}"
    writes = all(row["error"] == Error.COORDINATOR_NOT_AVAILABLE and row["api"] in _WRITES for row in rows)
    if writes and groups:  # who is no coordinator says so, or that another one is
        what = f"the coordinator of {whose} could write nothing {times}"
    after = ""
    if outage is not None:
        after = (
            f", after {signs.broker_words(outage.host, outage.started)} {'was gone' if outage.gone else 'stood still'}"
        )
    refused = signs.findings_in(("authentication_failed", "authorization_failed"), since, until)
    hosts = sorted({host_of(row) for row in refused if signs.is_broker(host_of(row), row["client_ids"][0])})
    if outage is None and hosts:
        verb = "was" if len(hosts) == 1 else "were"
        after = f", while {listed([signs.broker_words(host) for host in hosts])} {verb} refused by others"
    by_name: dict[str, Row] = {}
    for row in rows:
        by_name.setdefault(row["client_id"], row)
    lasted = (until - since) / MILLISECOND_NS
    return Incident(
        kind=IncidentKind.COORDINATOR_MISSING,
        severity=Severity.WARNING if after else Severity.CRITICAL,  # the broker's incident stands before it
        certainty=Certainty.CERTAIN,
        subjects=(*(Subject(Role.GROUP, group) for group in groups), *signs.clients(names)),
        started=since,
        ended=None if still else until,
        headline=f"{what}{after}: {told} {counted(time.count, 'time')} to {listed(names)}",
        evidence=tuple(
            Weighed(
                f"{row['api']} of {name} answered {row['error']} by {row['broker']}",
                row["first_packet"],
                row["first"],
                0.9,
            )
            for name, row in sorted(by_name.items())
        ),
        advice=_ADVICE_WRITES if writes else _ADVICE,
        cost_ms=lasted * len(names),
        effects=(Effect("clients", f"{counted(len(names), 'client')} did no work in it", len(names), lasted),),
        findings=signs.explained(_EXPLAINED, since, until, groups=groups, clients=names),
    )
