"""Subscriptions and assignments as lists: partitions as topic-number, Connect's work as connector:x and task:x-0.

Shapes are those of the nested bodies: ConsumerProtocolSubscription and ConsumerProtocolAssignment (Kafka's definition
files of these names), and ConnectMetadata and ConnectAssignment (KIP-415, `IncrementalCooperativeConnectProtocol`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkascope.reports.groups.body import Json, rows, text

_CONNECTOR = -1  # in the tasks of a connector: the connector itself

EAGER = frozenset({"range", "roundrobin", "sticky"})
"""Assignors whose members give up all partitions as they join again."""


def partitions_of(assignment: Any) -> list[str] | None:
    """What an assignment gives, sorted; None if it is not there or of an unknown kind."""
    if assignment == "" or assignment == b"":
        return []
    if not isinstance(assignment, dict):
        return None
    if assignment.get("_definition") == "ConnectAssignment":
        return connect_work(assignment.get("assignment"))
    if "assignedPartitions" in assignment:
        return _named(assignment["assignedPartitions"])
    return None


def owned_of(subscription: Any) -> list[str] | None:
    """What a member says that it owns as it joins; None if it does not say."""
    if not isinstance(subscription, dict):
        return None
    if subscription.get("_definition") == "ConnectMetadata":
        allocation = subscription.get("allocation")
        return connect_work(allocation.get("assignment")) if isinstance(allocation, dict) else None
    owned = subscription.get("ownedPartitions")
    return None if owned is None else _named(owned)


def topics_of(subscription: Any) -> list[str] | None:
    """The topics that a member asks for, sorted; None if it does not say."""
    if not isinstance(subscription, dict) or not isinstance(subscription.get("topics"), list):
        return None
    return sorted({topic for topic in subscription["topics"] if isinstance(topic, str)})


def connect_work(pieces: Any) -> list[str]:
    """Connectors and tasks in words, sorted."""
    work = set()
    for piece in rows(pieces):
        name = text(piece.get("connector"))
        for task in piece.get("tasks") or []:
            work.add(f"connector:{name}" if task == _CONNECTOR else f"task:{name}-{task}")
    return sorted(work)


def connect_result(assignment: Json, held: Iterable[str]) -> list[str]:
    """What a worker has after an assignment: since version 1 that says only what is new and what is taken away."""
    given = set(connect_work(assignment.get("assignment")))
    if not assignment.get("_version"):
        return sorted(given)
    return sorted((set(held) | given) - set(connect_work(assignment.get("revoked"))))


def _named(topics: Any) -> list[str]:
    return sorted(
        f"{topic.get('topic')}-{partition}" for topic in rows(topics) for partition in topic.get("partitions") or []
    )
