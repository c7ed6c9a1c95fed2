"""What may happen to groups and to the cluster: the names in the columns ``event``, and their meanings."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class _Event(StrEnum):
    """One kind of event: its name in tables, and its meaning."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> Self:
        """A kind of this name."""
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.meaning = meaning
        return kind


class EventKind(_Event):
    """What may happen to a group or its members: the column ``event`` of group_events."""

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
    CONFIGURED = "configured", "somebody changed settings of the group; which, in detail"
    DELETED = "deleted", "somebody deleted the group"
    MEMBER_REMOVED = "member_removed", "somebody other than the member took it out of the group"
    OFFSETS_ALTERED = "offsets_altered", "somebody who is no member committed offsets for the group"
    OFFSETS_DELETED = "offsets_deleted", "somebody deleted committed offsets of the group"


class ClusterEventKind(_Event):
    """What may happen to a cluster: the column ``event`` of cluster_events."""

    # brokers
    BROKER_LISTED = "broker_listed", "a broker is told of for the first time, at this address: no change, but the map"
    BROKER_UNLISTED = "broker_unlisted", "a list of all brokers is without one that was in it"
    BROKER_BACK = "broker_back", "a broker is listed again, or has its address again"
    BROKER_MISSING = "broker_missing", "partitions have replicas on a broker that no list has had: it was gone before"
    BROKER_MOVED = "broker_moved", "a broker is listed at another address"
    BROKER_FOUND = "broker_found", "a broker answers at an address that nobody lists: by what it does, in detail"
    ADDRESS_TAKEN = "address_taken", "another broker answers at the address of a broker of this cluster"
    BROKER_REGISTERED = "broker_registered", "a broker process has started and told the controller (KRaft)"
    BROKER_FENCED = "broker_fenced", "the controller has taken a broker out of service (KRaft)"
    BROKER_UNFENCED = "broker_unfenced", "the controller has put a broker into service (KRaft)"
    SHUTDOWN_ANNOUNCED = "shutdown_announced", "a broker has asked to shut down: what comes is orderly"
    LOG_DIRS_OFFLINE = (
        "log_dirs_offline",
        "a broker has told the controller that log directories failed; their ids, in detail",
    )
    # partitions
    LEADER_CHANGED = "leader_changed", "partitions are led by another broker"
    LEADER_LOST = "leader_lost", "partitions that were led have no leader"
    LEADER_MISSING = (
        "leader_missing",
        "partitions that are new to the capture have no leader: replicas are offline",
    )
    LEADER_ELECTED = "leader_elected", "partitions that had lost their leader have one"
    REPLICA_OFFLINE = (
        "replica_offline",
        "a broker's replicas of partitions are offline, though it is listed: their log directory failed",
    )
    ISR_SHRUNK = "isr_shrunk", "a broker is no in-sync replica of partitions any more"
    ISR_GROWN = "isr_grown", "a broker is an in-sync replica of partitions again"
    TOPIC_DELETED = "topic_deleted", "a topic is gone: it was deleted, or has another id and so was made anew"
    # who is in charge
    CONTROLLER_CHANGED = "controller_changed", "another node is the active controller"
    COORDINATOR_MOVED = "coordinator_moved", "a group or a transactional id has another coordinator; which, in detail"
    # the capture
    LEFT_OUT = "left_out", "answers after this say more of clusters than is kept: changes may be missing"
