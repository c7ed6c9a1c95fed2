"""What may happen to a group or its members: the names in the column ``event`` of group_events, and their meanings."""

from __future__ import annotations

EVENTS: dict[str, str] = {
    # members of the classic protocol
    "joined": "JoinGroup of a member; its reason (KIP-800) in detail",
    "member_id_given": "the broker gave a new member its id and asked it to join with that (KIP-394)",
    "join_refused": "JoinGroup was answered with an error",
    "generation_formed": "the first JoinGroup answer that names a generation",
    "synced": "a member has its assignment of a generation",
    "sync_refused": "SyncGroup was answered with an error",
    "heartbeat_refused": "the first heartbeat of a member in a generation that was answered with an error",
    # members of the epoch protocols (KIP-848, KIP-932, KIP-1071)
    "epoch_seen": "the first heartbeat answer that gives a member this epoch",
    "assignment_given": "a heartbeat answer gave a member an assignment",
    "assignment_reported": "a member's heartbeat told which partitions it owns now",
    "subscription_changed": "a member asks for other topics than before",
    "rejoined": "a known member started over at epoch 0",
    "status_told": "a heartbeat answer told the state of the group's topics or tasks",
    "heartbeat_failed": "a heartbeat was answered with an error",
    # all members
    "left": "a member left, or was taken out; its reason (KIP-800) in detail",
    "leave_refused": "a request to leave was answered with an error",
    "silence_begun": "the last word of a member that then said nothing for longer than it may; its length in detail",
    "connection_ended": "the connection of a member ended (FIN or RST) though it had not left",
    "fenced": "a member was told that another took its place, or that the group does not know it",
    "replaced": "another process came with a member's instance id",
    "commit_refused": "OffsetCommit or TxnOffsetCommit was answered with an error",
    # the coordinator
    "coordinator_found": "FindCoordinator told who the coordinator is",
    "coordinator_moved": "the coordinator is another broker than before",
    "coordinator_unavailable": "no broker was coordinator, or the one asked was not",
    # administration
    "described": "somebody asked for a description of the group; the state it was in, in detail",
    "deleted": "somebody deleted the group",
    "member_removed": "somebody other than the member took it out of the group",
    "offsets_altered": "somebody who is no member committed offsets for the group",
    "offsets_deleted": "somebody deleted committed offsets of the group",
}
