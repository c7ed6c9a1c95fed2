"""An incident as a value: what broke, who, when, what it cost, how one knows, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from kafkascope.reports.columns.arrow import table_of
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.tables import INCIDENTS
from kafkascope.reports.vocabulary.triggers import Certainty

_GRAVEST_FIRST = list(Severity)
EVIDENCE_SHOWN = 20
"""Observations for its kind that are kept with an incident; behind them is said how many more there were."""
MOST_COUNTED = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """Whom an incident is about."""

    role: Role
    name: str


def every(role: Role, names: Iterable[str]) -> Iterator[Subject]:
    """Subjects with these names, all of one role."""
    return (Subject(role, name) for name in names)


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that came of it."""

    what: str
    text: str
    count: int | None = None
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Weighed:
    """An observation, and how much it speaks for the kind; rejected: for another kind, which was outweighed."""

    text: str
    packet: int | None = None
    at: int | None = None
    weight: float = 0.5
    rejected: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """Of which kind of incident something comes, and the words of its own headline that tell that."""

    kind: IncidentKind
    words: str


@dataclass(frozen=True, slots=True)
class Incident:
    """A row of incidents. Times are nanoseconds; ended is None if it was not over when the capture was."""

    kind: IncidentKind
    severity: Severity
    certainty: Certainty
    subjects: tuple[Subject, ...]
    started: int
    ended: int | None
    headline: str
    evidence: tuple[Weighed, ...]
    advice: str
    cost_ms: float  # that work stood still by it, in all
    effects: tuple[Effect, ...] = ()
    findings: frozenset[str] = field(default=frozenset())  # ids of those that it explains
    rebalances: frozenset[tuple[str, int]] = field(default=frozenset())  # group and generation
    cause: Cause | None = None  # if there is an incident of that, it tells this one as well

    @property
    def what(self) -> str:
        """The headline without what it cost, as far as that is told by its effects, or by the last of them."""
        ends = (in_words(self.effects[first:]) for first in range(len(self.effects)))
        return self.headline.removesuffix(next((end for end in ends if self.headline.endswith(end)), ""))

    @property
    def about(self) -> str:
        """Whom it is about first, in words: ``broker 2 (10.0.0.2)``, ``client c1 (10.0.0.3)``, ``group shop``."""
        first = self.subjects[0] if self.subjects else None
        if first is None:
            return "the capture"
        host = next((one.name for one in self.subjects if one.role == Role.HOST), None)
        beside = f" ({host})" if host and first.role in (Role.BROKER, Role.CLIENT) else ""
        return f"{first.role} {first.name}{beside}"


def in_words(effects: Iterable[Effect]) -> str:
    """What came of an incident, as the end of its headline."""
    return "".join(f"; {effect.text}" for effect in effects)


def told_with_causes(incidents: Iterable[Incident]) -> list[Incident]:
    """The same; what comes of another one, that names all of its clients, is told by that alone, as what it cost."""
    found: list[Incident] = []
    parts: list[tuple[Incident, Cause]] = []
    for one in incidents:
        if one.cause is None:
            found.append(one)
        else:
            parts.append((one, one.cause))
    for part, cause in sorted(parts, key=lambda each: order(each[0])):
        clients = _clients(part)
        of_it = (
            place
            for place, whole in enumerate(found)
            if whole.kind == cause.kind
            and clients <= _clients(whole)
            and whole.started <= (part.started if part.ended is None else part.ended)
        )
        if (place := min(of_it, key=lambda place: abs(found[place].started - part.started), default=None)) is None:
            found.append(part)
        else:
            found[place] = _with_part(found[place], part, cause)
    return found


def _clients(one: Incident) -> set[Subject]:
    return {subject for subject in one.subjects if subject.role == Role.CLIENT}


def _with_part(whole: Incident, part: Incident, cause: Cause) -> Incident:
    effects = Effect("members", part.what.replace(cause.words, "", 1)), *part.effects
    return replace(
        whole,
        severity=min(whole.severity, part.severity, key=_GRAVEST_FIRST.index),
        subjects=tuple(dict.fromkeys((*whole.subjects, *part.subjects))),
        ended=None if whole.ended is None or part.ended is None else max(whole.ended, part.ended),
        headline=whole.headline + in_words(effects),
        evidence=(*part.evidence, *whole.evidence),  # of the latter there may be more than are shown
        cost_ms=whole.cost_ms + part.cost_ms,
        effects=(*whole.effects, *effects),
        findings=whole.findings | part.findings,
        rebalances=whole.rebalances | part.rebalances,
    )


def order(one: Incident) -> tuple[int, float, int, str, tuple[Subject, ...], str]:
    """The order in which incidents are looked at: severity, cost, time."""
    return _GRAVEST_FIRST.index(one.severity), -one.cost_ms, one.started, one.kind, one.subjects, one.headline


def incident_of(row: Mapping[str, Any]) -> Incident:
    """An incident out of a row of the table, with times as numbers."""
    explains = row["explains"] or {}
    return Incident(
        kind=IncidentKind(row["kind"]),
        severity=Severity(row["severity"]),
        certainty=Certainty(row["certainty"]),
        subjects=tuple(Subject(Role(one["role"]), one["name"]) for one in row["subjects"] or ()),
        started=row["started"],
        ended=row["ended"],
        headline=row["headline"],
        evidence=tuple(Weighed(**one) for one in row["evidence"] or ()),
        advice=row["advice"],
        cost_ms=row["cost_ms"],
        effects=tuple(Effect(**one) for one in row["effects"] or ()),
        findings=frozenset(explains.get("findings") or ()),
        rebalances=frozenset((one["group_id"], one["to_generation"]) for one in explains.get("rebalances") or ()),
    )


def incident_table(incidents: Iterable[Incident]) -> pa.Table:
    """Rows of incidents, what to look at first first."""
    rows = sorted(incidents, key=order)
    return table_of(
        rows,
        INCIDENTS,
        rank=range(1, len(rows) + 1),
        evidence=[_shown(one.evidence) for one in rows],
        effects=[[replace(each, count=_bounded(each.count)) for each in one.effects] for one in rows],
        explains=[
            {
                "findings": sorted(one.findings),
                "rebalances": [
                    {"group_id": group, "to_generation": generation} for group, generation in sorted(one.rebalances)
                ],
            }
            for one in rows
        ],
    )


def _bounded(count: int | None) -> int | None:
    """A number that a column can hold: offsets out of messages may add up to anything."""
    return None if count is None else min(count, MOST_COUNTED)


def _shown(evidence: Iterable[Weighed]) -> list[Weighed]:
    spoke = [seen for seen in evidence if not seen.rejected]
    if more := len(spoke[EVIDENCE_SHOWN:]):
        spoke[EVIDENCE_SHOWN:] = [Weighed(f"and {more:,} more like these", weight=0.0)]
    return [*spoke, *(seen for seen in evidence if seen.rejected)]
