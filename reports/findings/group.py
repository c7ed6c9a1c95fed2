"""A group as rules look at it, and what all findings about it have alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.groups.history import GroupHistory, GroupLog, Rebalance
from kafkascope.reports.groups.messages import Message
from kafkascope.reports.vocabulary.finding_kinds import Severity

MOST_SAID = 200
"""Characters of what a broker says that are shown."""


@dataclass(frozen=True, slots=True)
class Group:
    """All that rules look at."""

    log: GroupLog
    history: GroupHistory

    @property
    def subject(self) -> str:
        """Whom findings are about."""
        return f"group {self.log.group_id}"

    @property
    def rebalances(self) -> list[Rebalance]:
        """In order."""
        return self.history.rebalances


def group_finding(
    group: Group,
    severity: Severity,
    kind: str,
    title: str,
    evidence: Sequence[Observation],
    advice: str,
    weight: float,
    span: tuple[int | None, int | None] | None = None,
    clients: Iterable[str | None] = (),
) -> Finding:
    """A finding about a group; over the time of its evidence, unless another is given."""
    times = [observation.at for observation in evidence if observation.at is not None]
    since, until = span or (min(times, default=None), max(times, default=None))
    return Finding(
        severity,
        kind,
        title,
        group.subject,
        since,
        until,
        list(evidence),
        advice,
        round(weight, 3),
        client_ids=sorted({client for client in clients if client}),
    )


def observed(message: Message, text: str) -> Observation:
    """A message as evidence."""
    return Observation(text, message.packet, message.at)
