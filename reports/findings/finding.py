"""A finding as a value: what is wrong, since when, how one knows, and what to change."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from kafkascope.reports.columns.arrow import table_of
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.tables import FINDINGS

_GRAVEST_FIRST = list(Severity)
OF_CLIENT = "client "
"""Subjects of findings about one client begin so."""

EVIDENCE_SHOWN = 12
"""Observations kept with a finding; how many more there were is said in the last."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Something seen; packet and at are None where it is about no single one."""

    text: str
    packet: int | None = None
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem; a row of findings. Times are nanoseconds."""

    severity: Severity
    kind: str
    title: str
    subject: str
    since: int | None
    until: int | None
    evidence: list[Observation]
    advice: str
    weight: float = field(default=0.5)  # 0 to 1
    subjects: list[str] = field(default_factory=list)  # where it is about several
    client_ids: list[str] = field(default_factory=list)  # of clients that it is about, or that did it in their group

    @property
    def id(self) -> str:
        """Names it, the same in all ways to run."""
        return f"{self.kind}-{zlib.crc32(f'{self.subject} {self.title}'.encode(errors='surrogatepass')):08x}"


def finding_table(findings: Iterable[Finding]) -> pa.Table:
    """Rows of findings, the weightiest first."""
    rows = sorted(findings, key=order)
    return table_of(
        rows,
        FINDINGS,
        subjects=[one.subjects or [one.subject] for one in rows],
        evidence=[shortened(one.evidence) for one in rows],
    )


def order(one: Finding) -> tuple[int, float, str, int, str, str]:
    """The order in which findings are read: severity, weight, kind, time, subject, title."""
    return _GRAVEST_FIRST.index(one.severity), -one.weight, one.kind, one.since or 0, one.subject, one.title


def shortened(evidence: list[Observation]) -> list[Observation]:
    """As much of the evidence as a person reads."""
    if len(evidence) <= EVIDENCE_SHOWN:
        return evidence
    return [*evidence[: EVIDENCE_SHOWN - 1], Observation(f"and {len(evidence) - EVIDENCE_SHOWN + 1} more like these")]
