"""What may happen to a group or its members: the names in the column ``event`` of group_events, and their meanings."""

from __future__ import annotations

from enum import StrEnum


class EventKind(StrEnum):
    """One kind of event: its name in tables, and its meaning."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> EventKind:
        """A kind of this name."""
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.meaning = meaning
        return kind

    # members of the classic protocol
    JOINED = "joined", "JoinGroup of a member; its reason (KIP-800) in detail"
    MEMBER_ID_GIVEN = "member_id_given", "the broker gave a new member its id and asked it to join with that (KIP-394)"
    JOIN_REFUSED = "join_refused", "JoinGroup was answered with an error"
    GENERATION_FORMED = "generation_formed", "the first JoinGroup answer that names a generation"
    SYNCED = "synced", "a member has its assignment of a generation"
    SYNC_REFUSED = "sync_refused", "SyncGroup was answered with an error"
    HEARTBEAT_REFUSED = (
        "heartbeat_refused",
        "the first heartbeat of a member in a generation that was answered with an error",
    )
    # members of the epoch protocols (KIP-848, KIP-932, KIP-1071)
    EPOCH_SEEN = "epoch_seen", "the first heartbeat answer that gives a member this epoch"
    ASSIGNMENT_GIVEN = "assignment_given", "a heartbeat answer gave a member an assignment"
    ASSIGNMENT_REPORTED = "assignment_reported", "a member's heartbeat told which partitions it owns now"
    SUBSCRIPTION_CHANGED = "subscription_changed", "a member asks for other topics than before"
    REJOINED = "rejoined", "a known member started over at epoch 0"
    STATUS_TOLD = "status_told", "a heartbeat answer told the state of the group's topics or tasks"
    HEARTBEAT_FAILED = "heartbeat_failed", "a heartbeat was answered with an error"
    # all members
    LEFT = "left", "a member left, or was taken out; its reason (KIP-800) in detail"
    LEAVE_REFUSED = "leave_refused", "a request to leave was answered with an error"
    SILENCE_BEGUN = (
        "silence_begun",
        "the last word of a member that then said nothing for longer than it may; its length in detail",
    )
    CONNECTION_ENDED = "connection_ended", "the connection of a member ended (FIN or RST) though it had not left"
    FENCED = "fenced", "a member was told that another took its place, or that the group does not know it"
    REPLACED = "replaced", "another process came with a member's instance id"
    COMMIT_REFUSED = "commit_refused", "OffsetCommit or TxnOffsetCommit was answered with an error"
    # the coordinator
    COORDINATOR_FOUND = "coordinator_found", "FindCoordinator told who the coordinator is"
    COORDINATOR_MOVED = "coordinator_moved", "the coordinator is another broker than before"
    COORDINATOR_UNAVAILABLE = "coordinator_unavailable", "no broker was coordinator, or the one asked was not"
    # administration
    DESCRIBED = "described", "somebody asked for a description of the group; the state it was in, in detail"
    DELETED = "deleted", "somebody deleted the group"
    MEMBER_REMOVED = "member_removed", "somebody other than the member took it out of the group"
    OFFSETS_ALTERED = "offsets_altered", "somebody who is no member committed offsets for the group"
    OFFSETS_DELETED = "offsets_deleted", "somebody deleted committed offsets of the group"
