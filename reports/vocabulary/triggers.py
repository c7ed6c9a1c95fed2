"""What each trigger of a rebalance is called, and what it means to a person who asks why; how sure one may be of it."""

from __future__ import annotations

from enum import StrEnum


class Trigger(StrEnum):
    """One reading of why a group rebalanced: its name in tables, its mark in a picture, its words, and its meaning."""

    mark: str  # one character that every font has
    words: str
    meaning: str

    def __new__(cls, name: str, mark: str, words: str, meaning: str) -> Trigger:
        """A trigger of this name."""
        trigger = str.__new__(cls, name)
        trigger._value_ = name
        trigger.mark, trigger.words, trigger.meaning = mark, words, meaning
        return trigger

    MEMBER_JOINED = ("member_joined", "+", "member joined", "a new member came into the group")
    MEMBER_LEFT = ("member_left", "−", "member left", "a member went, and said so")
    UNSUBSCRIBED = ("unsubscribed", "−", "unsubscribed", "a member dropped its subscription")
    POLL_TIMEOUT = (
        "poll_timeout",
        "P",
        "poll timeout",
        "a member's application did not poll within max.poll.interval.ms, so its client left",
    )
    SESSION_TIMEOUT = (
        "session_timeout",
        "†",
        "session timeout",
        "the broker heard nothing of a member for its session timeout: dead, cut off, or frozen",
    )
    REBALANCE_TIMEOUT = (
        "rebalance_timeout",
        "R",
        "rebalance timeout",
        "a member did not join again in time while a rebalance was open",
    )
    SYNC_TIMEOUT = (
        "sync_timeout",
        "S",
        "sync timeout",
        "a member joined and did not ask for its assignment, or send it as leader, in time",
    )
    SUBSCRIPTION_CHANGED = (
        "subscription_changed",
        "≠",
        "subscription changed",
        "a member asks for other topics than before",
    )
    TOPIC_PARTITIONS_CHANGED = (
        "topic_partitions_changed",
        "#",
        "partitions changed",
        "a topic of the group was made or deleted, or got more partitions",
    )
    COOPERATIVE_FOLLOWUP = (
        "cooperative_followup",
        "2",
        "second phase",
        "partitions that their owners gave up in the rebalance before are given out",
    )
    LEADER_REJOINED = ("leader_rejoined", "L", "leader rejoined", "the leader joined again without a change of its own")
    MEMBER_REJOINED = ("member_rejoined", "M", "member rejoined", "a member joined again without a change of its own")
    MEMBER_METADATA_CHANGED = (
        "member_metadata_changed",
        "≈",
        "metadata changed",
        "a member's user data or list of assignors is not what it was",
    )
    REBALANCE_ENFORCED = ("rebalance_enforced", "!", "enforced", "an application called for a rebalance")
    STATIC_MEMBER_REPLACED = (
        "static_member_replaced",
        "=",
        "static member replaced",
        "another process came with the instance id of a static member",
    )
    REMOVED_BY_ADMIN = ("removed_by_admin", "×", "removed by admin", "an administrator took a member out of the group")
    COORDINATOR_MOVED = (
        "coordinator_moved",
        "→",
        "coordinator moved",
        "the group's coordinator went to another broker",
    )
    ASSIGNMENT_NOT_STORED = (
        "assignment_not_stored",
        "W",
        "assignment not stored",
        "the coordinator could not write down what the leader gave out, and had all members join again",
    )
    SCHEDULED_DELAY = (
        "scheduled_delay",
        "D",
        "scheduled delay over",
        "Connect waited for lost workers, and now gives out what they had",
    )
    CONNECT_CONFIG_CHANGED = (
        "connect_config_changed",
        "C",
        "configuration changed",
        "connectors or tasks were added or changed",
    )
    INTERNAL_TOPICS_CREATED = (
        "internal_topics_created",
        "#",
        "internal topics made",
        "Streams made the topics that its state needs",
    )
    GROUP_CONFIG_CHANGED = (
        "group_config_changed",
        "C",
        "group's settings changed",
        "an administrator changed a setting of the group that its assignment hangs on",
    )
    STREAMS_FOLLOWUP = (
        "streams_followup",
        "2",
        "Streams follow-up",
        "tasks whose state caught up are given to their new owners",
    )
    STREAMS_TASKS_CORRUPTED = (
        "streams_tasks_corrupted",
        "†",
        "tasks corrupted",
        "Streams found the state of tasks damaged",
    )
    SHARE_PARTITIONS_INITIALIZED = (
        "share_partitions_initialized",
        "#",
        "share partitions ready",
        "partitions of a share group were initialized and can be given out",
    )
    UNKNOWN = ("unknown", "?", "unknown", "the capture does not show what set it off")


class Certainty(StrEnum):
    """How sure it is that a trigger is the right one, the surest first."""

    CERTAIN = "certain"  # the capture proves it
    LIKELY = "likely"  # it fits, and nothing that was seen fits better
    GUESSED = "guessed"  # the best reading that is left; what would prove it is not in the capture


TRIGGERS: dict[str, Trigger] = {trigger.value: trigger for trigger in Trigger}


def words(trigger: str | None) -> str:
    """A trigger as people call it; names that are not known stay readable."""
    known = TRIGGERS.get(trigger or Trigger.UNKNOWN)
    return known.words if known else str(trigger).replace("_", " ")
