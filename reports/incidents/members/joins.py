"""Clients that may not join their group, or get no assignment in it, and cannot mend that by trying again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.clients.requests import answers
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.signs import Signs, group_of, packet_of
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS

_STORES = frozenset(
    {"JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"}
)
"""What a coordinator answers when it has written to its log what the group's members tell and own."""
_ADVICE_STORED = (
    "See the coordinator's log. If it says RecordTooLargeException: raise max.message.bytes of __consumer_offsets (the "
    "default is message.max.bytes of the brokers), or have the group store less: fewer members or partitions in one "
    "group, shorter names, an assignor without user data, the consumer protocol (KIP-848), which stores each member "
    "by itself."
)


def refused(signs: Signs) -> Iterator[Incident]:
    """Clients that may not join, and cannot mend that by trying again; one a group."""
    kinds = ("join_refused", "no_common_assignor", "instance_id_shared", "topics_not_alike")
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in signs.findings:
        if row["kind"] in kinds:
            by_group[group_of(row)].append(row)
    for group, found in sorted(by_group.items()):
        names = sorted({name for row in found for name in row["client_ids"]})
        since, until = min(row["since"] for row in found), max(row["until"] or row["since"] for row in found)
        yield Incident(
            kind=IncidentKind.JOIN_REFUSED,
            severity=min((Severity(row["severity"]) for row in found), key=list(Severity).index),
            certainty=Certainty.CERTAIN,
            subjects=(*signs.clients(names, signs.heard_of(group)), Subject(Role.GROUP, group)),
            started=since,
            ended=until,
            headline=f"group {group} refuses {listed(names or ['clients'])} from {clock(since)} on: "
            + "; ".join(row["title"] for row in found),
            evidence=tuple(Weighed(row["title"], packet_of(row), row["since"], 0.95) for row in found),
            advice=" ".join(dict.fromkeys(row["advice"] for row in found)),
            cost_ms=(until - since) / MILLISECOND_NS,
            effects=(Effect("members", f"{counted(len(names), 'client')} cannot work", len(names)),) if names else (),
            findings=frozenset(row["id"] for row in found) | _commits(signs, group, names, since, until),
        )


def _commits(signs: Signs, group: str, names: list[str], since: int, until: int) -> frozenset[str]:
    """Findings about commits of these clients, which are refused for the same reason."""
    found = signs.findings_in(("commit_refused",), since, until)
    return frozenset(row["id"] for row in found if group_of(row) == group and {*row["client_ids"]} <= {*names})


def not_stored(signs: Signs) -> Iterator[Incident]:
    """Groups of which the coordinator cannot write down what they agreed on, as it is too large; one a group.

    Coordinators hide a record that is too large behind UNKNOWN_SERVER_ERROR (GroupMetadataManager,
    GroupCoordinatorService.handleOperationException), as they do with faults of their own.
    """
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in signs.errors:
        if row["error"] == Error.UNKNOWN_SERVER_ERROR and row["api"] in _STORES and row["group_id"]:
            by_group[row["group_id"]].append(row)
    for group, rows in sorted(by_group.items()):
        if sum(row["count"] for row in rows) >= threshold("coordinator_fails"):
            yield _not_stored(signs, group, rows)


def _not_stored(signs: Signs, group: str, rows: Sequence[Row]) -> Incident:
    since, until = min(row["first"] for row in rows), max(row["last"] for row in rows)
    names = sorted({row["client_id"] for row in rows if row["client_id"]})
    count = sum(row["count"] for row in rows)
    begun = [
        row
        for row in signs.rebalances_of(group, until, since)
        if row["trigger"] == Trigger.ASSIGNMENT_NOT_STORED and row["started"] is not None
    ]
    effects, cost_ms, rebalances = of_rebalances(begun)
    lasted = (until - since) / MILLISECOND_NS
    asked = listed(sorted({row["api"] for row in rows}))
    return Incident(
        kind=IncidentKind.JOIN_REFUSED,
        severity=Severity.CRITICAL,
        certainty=Certainty.LIKELY,
        subjects=(Subject(Role.GROUP, group), *signs.clients(names, signs.asked_from(rows))),
        started=since,
        ended=until,
        headline=f"the coordinator cannot store group {group}, from {clock(since)} to {clock(until)}: {asked} of "
        f"{listed(names or ['its members'])} answered UNKNOWN_SERVER_ERROR {counted(count, 'time')}, as is what is "
        "larger than __consumer_offsets takes",
        evidence=tuple(answers(rows)),
        advice=_ADVICE_STORED,
        cost_ms=max(lasted * len(names), cost_ms),
        effects=(Effect("time", "no assignment in all that time", len(names), lasted), *effects),
        findings=signs.explained(("error_loop", "rebalance_storm"), since, until, groups=(group,), clients=names),
        rebalances=rebalances,
    )
