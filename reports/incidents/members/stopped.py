"""Streams applications that end altogether, as one of their instances asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, in_words
from kafkascope.reports.incidents.signs import Signs, group_of
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_ENDS_NS = 5 * SECOND_NS  # in which instances that are told to end leave: they ask the coordinator every few seconds


def stopped(signs: Signs) -> Iterator[Incident]:
    """One for each that was shut down, until somebody starts it again."""
    for row in signs.findings:
        if row["kind"] == "application_shut_down":
            yield _stopped(signs, row)


def _stopped(signs: Signs, finding: Row) -> Incident:
    group, since, until = group_of(finding), finding["since"], finding["until"] + _ENDS_NS
    rows = signs.rebalances_of(group, signs.end, since)
    back = next((row for row in rows if row["trigger"] == Trigger.MEMBER_JOINED and row["started"] > until), None)
    ended = None if back is None else back["started"]
    lasted = ((ended or signs.end) - since) / MILLISECOND_NS
    effects, cost_ms, rebalances = of_rebalances([row for row in rows if row["started"] <= until])
    idle = Effect("time", f"nobody did its work for {duration(lasted)}", None, lasted)
    again = f"; it was started again at {clock(ended)}" if ended is not None else ""
    return Incident(
        kind=IncidentKind.APPLICATION_STOPPED,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=(Subject(Role.GROUP, group), *signs.clients(finding["client_ids"], signs.heard_of(group))),
        started=since,
        ended=ended,
        headline=f"Streams application {group} ended at {clock(since)}: {finding['title']}{again}"
        + in_words((idle, *effects)),
        evidence=tuple(Weighed(seen["text"], seen["packet"], seen["at"], 0.95) for seen in finding["evidence"] or ()),
        advice=finding["advice"],
        cost_ms=max(lasted, cost_ms),
        effects=(idle, *effects),
        findings=frozenset({finding["id"]}) | signs.explained(("rebalance_storm",), since, until, groups=[group]),
        rebalances=rebalances,
    )
