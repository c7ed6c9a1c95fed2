"""What each trigger of a rebalance is called, and what it means to a person who asks why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trigger:
    """One reading of why a group rebalanced."""

    mark: str  # one character that every font has, for a picture
    words: str
    meaning: str


TRIGGERS: dict[str, Trigger] = {
    "member_joined": Trigger("+", "member joined", "a new member came into the group"),
    "member_left": Trigger("−", "member left", "a member went, and said so"),
    "unsubscribed": Trigger("−", "unsubscribed", "a member dropped its subscription"),
    "poll_timeout": Trigger(
        "P", "poll timeout", "a member's application did not poll within max.poll.interval.ms, so its client left"
    ),
    "session_timeout": Trigger(
        "†", "session timeout", "the broker heard nothing of a member for its session timeout: dead, cut off, or frozen"
    ),
    "rebalance_timeout": Trigger(
        "R", "rebalance timeout", "a member did not join again in time while a rebalance was open"
    ),
    "sync_timeout": Trigger("S", "sync timeout", "a member joined and did not ask for its assignment in time"),
    "subscription_changed": Trigger("≠", "subscription changed", "a member asks for other topics than before"),
    "topic_partitions_changed": Trigger(
        "#", "partitions changed", "a topic of the group was made or deleted, or got more partitions"
    ),
    "cooperative_followup": Trigger(
        "2", "second phase", "partitions that their owners gave up in the rebalance before are given out"
    ),
    "leader_rejoined": Trigger("L", "leader rejoined", "the leader joined again without a change of its own"),
    "member_rejoined": Trigger("M", "member rejoined", "a member joined again without a change of its own"),
    "member_metadata_changed": Trigger(
        "≈", "metadata changed", "a member's user data or list of assignors is not what it was"
    ),
    "rebalance_enforced": Trigger("!", "enforced", "an application called for a rebalance"),
    "static_member_replaced": Trigger(
        "=", "static member replaced", "another process came with the instance id of a static member"
    ),
    "removed_by_admin": Trigger("×", "removed by admin", "an administrator took a member out of the group"),
    "coordinator_moved": Trigger("→", "coordinator moved", "the group's coordinator went to another broker"),
    "scheduled_delay": Trigger(
        "D", "scheduled delay over", "Connect waited for lost workers, and now gives out what they had"
    ),
    "connect_config_changed": Trigger("C", "configuration changed", "connectors or tasks were added or changed"),
    "internal_topics_created": Trigger("#", "internal topics made", "Streams made the topics that its state needs"),
    "streams_followup": Trigger("2", "Streams follow-up", "tasks whose state caught up are given to their new owners"),
    "streams_tasks_corrupted": Trigger("†", "tasks corrupted", "Streams found the state of tasks damaged"),
    "share_partitions_initialized": Trigger(
        "#", "share partitions ready", "partitions of a share group were initialized and can be given out"
    ),
    "unknown": Trigger("?", "unknown", "the capture does not show what set it off"),
}


def words(trigger: str | None) -> str:
    """A trigger as people call it; names that are not known stay readable."""
    known = TRIGGERS.get(trigger or "unknown")
    return known.words if known else str(trigger).replace("_", " ")
