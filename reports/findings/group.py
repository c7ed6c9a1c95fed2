"""A group as rules look at it, and what all findings about it have alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.groups.history import GroupHistory, GroupLog, Rebalance
from kafkascope.reports.groups.messages import Message
from kafkascope.reports.vocabulary.finding_kinds import Severity

COMMITS = frozenset({"OffsetCommit", "TxnOffsetCommit"})
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


def began_at(rebalance: Rebalance) -> int:
    """When a rebalance began, or else the next that is known of it."""
    return rebalance.started or rebalance.joined or rebalance.stable or 0


def first_packet(rebalance: Rebalance) -> int | None:
    """The first packet that speaks for what set off a rebalance."""
    packets = (e.packet for e in rebalance.evidence if e.trigger == rebalance.trigger and not e.rejected)
    return next((packet for packet in packets if packet), None)
