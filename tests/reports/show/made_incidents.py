"""Incidents that never were."""

from __future__ import annotations

import pyarrow as pa

from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, in_words, incident_table
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.triggers import Certainty
from tests.reports.show.page.made_tables import BEGIN, HOSTILE, SECOND

EFFECTS = (Effect("leaders", "4 leaders moved", 4),)
DOWN = Incident(
    kind=IncidentKind.BROKER_DOWN,
    severity=Severity.CRITICAL,
    certainty=Certainty.CERTAIN,
    subjects=(Subject(Role.BROKER, "2"), Subject(Role.HOST, "10.0.0.2")),
    started=BEGIN + 9 * SECOND,
    ended=None,
    headline="broker 2 (10.0.0.2) went away" + in_words(EFFECTS),
    evidence=(Weighed("connects refused", 77, BEGIN + 10 * SECOND, 0.9), Weighed("announced", None, None, 0.3, True)),
    advice="Look at the log.",
    cost_ms=1000.0,
    effects=EFFECTS,
    findings=frozenset({"lost"}),
    rebalances=frozenset({("shop", 4)}),
)


def other(number: int) -> Incident:
    """One of many that are no trouble, of a client with an odd name."""
    return Incident(
        kind=IncidentKind.ADMIN_ACTION,
        severity=Severity.INFO,
        certainty=Certainty.CERTAIN,
        subjects=(Subject(Role.CLIENT, HOSTILE),),
        started=BEGIN + number * SECOND,
        ended=BEGIN + number * SECOND,
        headline=f"{HOSTILE} changed something, {number}",
        evidence=(Weighed(HOSTILE, number, BEGIN),),
        advice="Nothing.",
        cost_ms=0,
    )


def incidents_table(count: int = 1) -> pa.Table:
    """So many incidents, the first of which is trouble."""
    return incident_table([DOWN, *map(other, range(count))][:count])
