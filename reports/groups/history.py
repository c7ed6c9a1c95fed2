"""What became of a group: its events and rebalances as values, with the columns of the tables as fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from kafkascope.reports.columns.arrow import table_of
from kafkascope.reports.groups.messages import ConnectionEnd, Message
from kafkascope.reports.vocabulary.tables import GROUP_EVENTS, REBALANCES
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger

_LARGEST = 2**31 - 1


@dataclass(slots=True)
class GroupLog:
    """All that the capture has of one group."""

    group_id: str
    messages: list[Message]  # in order of time
    ended: dict[int, ConnectionEnd]  # of connections on which members spoke, by connection
    topics: Mapping[str, str]  # names by topic id as bodies write it
    later: Sequence[Message] = ()  # from when the group had changed its protocol until it changed again


@dataclass(slots=True)
class Event:
    """Something that happened to a member or to the group; a row of group_events."""

    group_id: str
    at: int
    event: str
    member_id: str | None = None
    client_id: str | None = None
    client: str | None = None
    instance_id: str | None = None
    generation: int | None = None
    connection: int | None = None
    number: int | None = None
    packet: int | None = None
    detail: str | None = None


@dataclass(slots=True)
class Evidence:
    """One observation, and the reading of a rebalance that it speaks for."""

    text: str
    packet: int | None
    at: int | None
    weight: float
    trigger: str
    rejected: bool = False


@dataclass(slots=True)
class Contributing:
    """Something else that happened while a rebalance was open."""

    trigger: str
    client_id: str | None
    at: int
    packet: int | None


@dataclass(slots=True)
class Member:
    """A member in one generation. Partitions are written topic-number; None: not known."""

    member_id: str
    client_id: str | None = None
    host: str | None = None
    instance_id: str | None = None
    software: str | None = None
    software_version: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    assignors: list[str] = field(default_factory=list)
    subscription: list[str] = field(default_factory=list)
    joined: int | None = None
    synced: int | None = None
    join_ms: float | None = None
    sync_ms: float | None = None
    assignment_before: list[str] | None = None
    assignment: list[str] | None = None


@dataclass(slots=True)
class Unowned:
    """How long nobody owned a partition."""

    partition: str
    since: int
    ms: float


@dataclass(slots=True)
class Rebalance:
    """One generation or epoch, and how it came about; a row of rebalances."""

    group_id: str
    protocol: str
    to_generation: int
    from_generation: int | None = None
    started: int | None = None
    joined: int | None = None
    stable: int | None = None
    duration_ms: float | None = None
    trigger: str = Trigger.UNKNOWN
    trigger_member: str | None = None
    trigger_client_id: str | None = None
    certainty: str = Certainty.GUESSED
    evidence: list[Evidence] = field(default_factory=list)
    contributing: list[Contributing] = field(default_factory=list)
    leader: str | None = None
    assignor: str | None = None
    members: list[Member] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    unowned: list[Unowned] = field(default_factory=list)
    unowned_ms: float | None = None
    recovered: int | None = None
    cost_ms: float | None = None
    last_client_id: str | None = None
    last_by_ms: float | None = None
    reread_records: int | None = None
    inferred: bool = False


@dataclass(slots=True)
class GroupHistory:
    """The answer for one group."""

    events: list[Event] = field(default_factory=list)
    rebalances: list[Rebalance] = field(default_factory=list)


def event_table(events: Sequence[Event]) -> pa.Table:
    """Rows of group_events."""
    return table_of(events, GROUP_EVENTS, generation=[_in_range(event.generation) for event in events])


def rebalance_table(rebalances: Sequence[Rebalance]) -> pa.Table:
    """Rows of rebalances."""
    return table_of(
        rebalances,
        REBALANCES,
        from_generation=[_in_range(rebalance.from_generation) for rebalance in rebalances],
        to_generation=[_in_range(rebalance.to_generation) for rebalance in rebalances],
    )


def _in_range(generation: int | None) -> int | None:
    """The number after the largest one that a message can name is no generation of a real group: it must do no harm."""
    return None if generation is None else min(generation, _LARGEST)
