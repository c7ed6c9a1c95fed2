"""Clients that may not join their group, and cannot mend that by trying again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.signs import Row, Signs, group_of, packet_of
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS


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
            severity=Severity.CRITICAL,
            certainty=Certainty.CERTAIN,
            subjects=(*signs.clients(names), Subject(Role.GROUP, group)),
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
