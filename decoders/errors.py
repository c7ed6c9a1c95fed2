"""Error codes of the protocol: name, whether a client may try again, and what it means.

Codes, names and retriability are those of org.apache.kafka.common.protocol.Errors in Kafka 3.9.1 and 4.3.1, which agree
on all codes they share; 128 and above are new in 4.x. Retriable: its exception is a RetriableException.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """An error code."""

    code: int
    name: str
    retriable: bool
    meaning: str


NONE = 0

_TABLE = (
    (-1, "UNKNOWN_SERVER_ERROR", False, "The broker failed in a way it has no code for; its log has the exception."),
    (0, "NONE", False, "All went well."),
    (
        1,
        "OFFSET_OUT_OF_RANGE",
        False,
        "The offset asked for lies before the start or behind the end of the partition's log.",
    ),
    (
        2,
        "CORRUPT_MESSAGE",
        True,
        "The record batch is damaged or breaks a rule of the topic (CRC, size, missing key where it is compacted).",
    ),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", True, "The broker knows no such topic or partition, or does not have it yet."),
    (4, "INVALID_FETCH_SIZE", False, "A fetch asked for a size that makes no sense."),
    (5, "LEADER_NOT_AVAILABLE", True, "The partition has no leader at the moment; an election is under way."),
    (
        6,
        "NOT_LEADER_OR_FOLLOWER",
        True,
        "The broker asked is not the leader (or no replica) of the partition; the client's metadata is out of date.",
    ),
    (7, "REQUEST_TIMED_OUT", True, "The broker could not finish the request in the time the request allowed."),
    (8, "BROKER_NOT_AVAILABLE", False, "The broker is not reachable."),
    (9, "REPLICA_NOT_AVAILABLE", True, "The replica asked for is not there at the moment."),
    (10, "MESSAGE_TOO_LARGE", False, "A record batch is larger than the broker or topic accepts (max.message.bytes)."),
    (11, "STALE_CONTROLLER_EPOCH", False, "The request came from a controller that has been replaced."),
    (
        12,
        "OFFSET_METADATA_TOO_LARGE",
        False,
        "The metadata string of an offset commit is longer than the broker accepts.",
    ),
    (13, "NETWORK_EXCEPTION", True, "The connection broke before the answer came; clients report this themselves."),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", True, "The coordinator is still reading its state and cannot answer yet."),
    (15, "COORDINATOR_NOT_AVAILABLE", True, "There is no coordinator for the group or transactional id at the moment."),
    (
        16,
        "NOT_COORDINATOR",
        True,
        "The broker asked does not coordinate this group or transactional id; the client has to look it up again.",
    ),
    (
        17,
        "INVALID_TOPIC_EXCEPTION",
        False,
        "The topic's name is not allowed, or the operation is not allowed on this topic.",
    ),
    (18, "RECORD_LIST_TOO_LARGE", False, "A record batch is larger than a log segment of the broker."),
    (
        19,
        "NOT_ENOUGH_REPLICAS",
        True,
        "Too few replicas are in sync for a write that wants all of them (min.insync.replicas); nothing was written.",
    ),
    (
        20,
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        True,
        "The records were written, but then too few replicas were in sync to confirm them.",
    ),
    (21, "INVALID_REQUIRED_ACKS", False, "The number of acknowledgements asked for is none of 0, 1 and -1."),
    (22, "ILLEGAL_GENERATION", False, "The member speaks of a generation of the group that is over."),
    (
        23,
        "INCONSISTENT_GROUP_PROTOCOL",
        False,
        "The member offers no protocol that the rest of the group has, or another protocol type.",
    ),
    (24, "INVALID_GROUP_ID", False, "The group id is empty or otherwise not allowed."),
    (25, "UNKNOWN_MEMBER_ID", False, "The coordinator does not know the member: its session ran out, or it left."),
    (26, "INVALID_SESSION_TIMEOUT", False, "The session timeout lies outside of what the broker allows."),
    (27, "REBALANCE_IN_PROGRESS", False, "The group is rebalancing; the member has to join again."),
    (28, "INVALID_COMMIT_OFFSET_SIZE", False, "The offset commit is too large to be stored."),
    (29, "TOPIC_AUTHORIZATION_FAILED", False, "The user may not do this with the topic."),
    (30, "GROUP_AUTHORIZATION_FAILED", False, "The user may not do this with the group."),
    (31, "CLUSTER_AUTHORIZATION_FAILED", False, "The user may not do this with the cluster."),
    (32, "INVALID_TIMESTAMP", False, "A record's timestamp is too far from the broker's clock."),
    (33, "UNSUPPORTED_SASL_MECHANISM", False, "The broker does not offer the SASL mechanism the client chose."),
    (34, "ILLEGAL_SASL_STATE", False, "The SASL request came at the wrong step of authentication."),
    (35, "UNSUPPORTED_VERSION", False, "The broker does not know this version of the request."),
    (36, "TOPIC_ALREADY_EXISTS", False, "A topic with this name is there already."),
    (37, "INVALID_PARTITIONS", False, "The number of partitions is not possible."),
    (
        38,
        "INVALID_REPLICATION_FACTOR",
        False,
        "The replication factor is below 1 or larger than the number of brokers.",
    ),
    (39, "INVALID_REPLICA_ASSIGNMENT", False, "The list of replicas for the partitions is not possible."),
    (40, "INVALID_CONFIG", False, "A configuration has a value that is not allowed, or is unknown."),
    (41, "NOT_CONTROLLER", True, "The broker asked is not the controller."),
    (
        42,
        "INVALID_REQUEST",
        False,
        "The request contradicts itself or misses something; mostly a mistake of the client library.",
    ),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", False, "The partition's stored record format is too old for the request."),
    (44, "POLICY_VIOLATION", False, "A policy that the operator installed refuses the request."),
    (
        45,
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        False,
        "The producer's sequence number leaves a gap: batches before it were lost or have not arrived.",
    ),
    (46, "DUPLICATE_SEQUENCE_NUMBER", False, "The producer's batch with this sequence number is there already."),
    (47, "INVALID_PRODUCER_EPOCH", False, "The producer has an old epoch: another one took its place."),
    (48, "INVALID_TXN_STATE", False, "The transaction is in a state in which this operation is not possible."),
    (49, "INVALID_PRODUCER_ID_MAPPING", False, "The producer id does not belong to this transactional id any more."),
    (50, "INVALID_TRANSACTION_TIMEOUT", False, "The transaction timeout is larger than the broker allows."),
    (51, "CONCURRENT_TRANSACTIONS", True, "Another operation on the same transaction has not finished yet."),
    (52, "TRANSACTION_COORDINATOR_FENCED", False, "The coordinator that sent a transaction marker has been replaced."),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", False, "The user may not use this transactional id."),
    (54, "SECURITY_DISABLED", False, "The broker has no security features switched on."),
    (
        55,
        "OPERATION_NOT_ATTEMPTED",
        False,
        "The broker left this part of the request undone because another part failed.",
    ),
    (56, "KAFKA_STORAGE_ERROR", True, "The broker could not read or write its disk."),
    (57, "LOG_DIR_NOT_FOUND", False, "The broker has no such log directory."),
    (58, "SASL_AUTHENTICATION_FAILED", False, "The client could not prove who it is."),
    (
        59,
        "UNKNOWN_PRODUCER_ID",
        False,
        "The broker has forgotten the producer, mostly because its records have been deleted.",
    ),
    (60, "REASSIGNMENT_IN_PROGRESS", False, "The partition is being moved already."),
    (61, "DELEGATION_TOKEN_AUTH_DISABLED", False, "The brokers have no delegation tokens switched on."),
    (62, "DELEGATION_TOKEN_NOT_FOUND", False, "The broker does not know the delegation token."),
    (
        63,
        "DELEGATION_TOKEN_OWNER_MISMATCH",
        False,
        "The user is neither the owner nor a renewer of the delegation token.",
    ),
    (
        64,
        "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
        False,
        "Delegation tokens are not given out on this kind of connection.",
    ),
    (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", False, "The user may not do this with the delegation token."),
    (66, "DELEGATION_TOKEN_EXPIRED", False, "The delegation token is too old."),
    (67, "INVALID_PRINCIPAL_TYPE", False, "The type of principal is not supported."),
    (68, "NON_EMPTY_GROUP", False, "The group still has members."),
    (69, "GROUP_ID_NOT_FOUND", False, "There is no group with this id."),
    (
        70,
        "FETCH_SESSION_ID_NOT_FOUND",
        True,
        "The broker does not have the fetch session any more; the client starts a new one.",
    ),
    (
        71,
        "INVALID_FETCH_SESSION_EPOCH",
        True,
        "The fetch session's epoch is not the next one; the client starts a new session.",
    ),
    (72, "LISTENER_NOT_FOUND", True, "The leader has no listener of the name through which the client came."),
    (73, "TOPIC_DELETION_DISABLED", False, "Deleting topics is switched off on the brokers."),
    (
        74,
        "FENCED_LEADER_EPOCH",
        True,
        "The client knows an older leader epoch than the broker: its metadata is out of date.",
    ),
    (
        75,
        "UNKNOWN_LEADER_EPOCH",
        True,
        "The client knows a newer leader epoch than the broker: the broker lags behind.",
    ),
    (
        76,
        "UNSUPPORTED_COMPRESSION_TYPE",
        False,
        "The client's version of the request cannot take the records' compression.",
    ),
    (77, "STALE_BROKER_EPOCH", False, "The broker's registration has been replaced by a newer one."),
    (78, "OFFSET_NOT_AVAILABLE", True, "A new leader does not know yet which offsets are safe to give out."),
    (
        79,
        "MEMBER_ID_REQUIRED",
        False,
        "The coordinator has given out a member id; the member has to join again with it.",
    ),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", True, "The preferred leader is not there, so it cannot be elected."),
    (81, "GROUP_MAX_SIZE_REACHED", False, "The group has as many members as the broker allows."),
    (82, "FENCED_INSTANCE_ID", False, "Another member with the same group instance id took this member's place."),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", True, "None of the replicas that may become leader is there."),
    (84, "ELECTION_NOT_NEEDED", True, "The partition has the right leader already."),
    (85, "NO_REASSIGNMENT_IN_PROGRESS", False, "The partition is not being moved."),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC", False, "The group still reads the topic, so its offsets cannot be deleted."),
    (87, "INVALID_RECORD", False, "The broker refuses a record for what it holds or lacks."),
    (
        88,
        "UNSTABLE_OFFSET_COMMIT",
        True,
        "Offsets of an open transaction are pending, so the committed offset is not certain yet.",
    ),
    (89, "THROTTLING_QUOTA_EXCEEDED", True, "A quota is used up; the client has to wait."),
    (90, "PRODUCER_FENCED", False, "A newer producer with the same transactional id has taken over."),
    (91, "RESOURCE_NOT_FOUND", False, "The request names something that does not exist."),
    (92, "DUPLICATE_RESOURCE", False, "The request names the same thing twice."),
    (93, "UNACCEPTABLE_CREDENTIAL", False, "The credential does not meet what the broker demands of it."),
    (94, "INCONSISTENT_VOTER_SET", False, "Sender and receiver do not agree on who votes in the controller quorum."),
    (95, "INVALID_UPDATE_VERSION", False, "The feature level asked for is not allowed."),
    (96, "FEATURE_UPDATE_FAILED", False, "A feature's level could not be changed for a reason within the cluster."),
    (
        97,
        "PRINCIPAL_DESERIALIZATION_FAILURE",
        False,
        "The controller could not read for whom a broker forwards a request.",
    ),
    (98, "SNAPSHOT_NOT_FOUND", False, "There is no such snapshot."),
    (99, "POSITION_OUT_OF_RANGE", False, "The position lies outside of the snapshot."),
    (100, "UNKNOWN_TOPIC_ID", True, "The broker knows no topic with this id, or not yet."),
    (101, "DUPLICATE_BROKER_REGISTRATION", False, "Another broker is registered with this id and still alive."),
    (102, "BROKER_ID_NOT_REGISTERED", False, "No broker with this id is registered."),
    (
        103,
        "INCONSISTENT_TOPIC_ID",
        True,
        "The topic id of the request is not that of the partition's log: the topic was deleted and made again.",
    ),
    (104, "INCONSISTENT_CLUSTER_ID", False, "The client is meant for another cluster."),
    (105, "TRANSACTIONAL_ID_NOT_FOUND", False, "There is no transaction with this transactional id."),
    (
        106,
        "FETCH_SESSION_TOPIC_ID_ERROR",
        True,
        "The fetch session mixes topic ids and names in a way that does not fit.",
    ),
    (107, "INELIGIBLE_REPLICA", False, "A replica that may not be in sync was put into the in-sync set."),
    (108, "NEW_LEADER_ELECTED", False, "The in-sync set was changed, and by that a new leader was elected."),
    (
        109,
        "OFFSET_MOVED_TO_TIERED_STORAGE",
        False,
        "The offset is no longer on the broker's disks, only in tiered storage.",
    ),
    (
        110,
        "FENCED_MEMBER_EPOCH",
        False,
        "The member's epoch has been replaced; it has to give up its partitions and join again.",
    ),
    (111, "UNRELEASED_INSTANCE_ID", False, "Another member still holds the group instance id and has to leave first."),
    (112, "UNSUPPORTED_ASSIGNOR", False, "The group's members or brokers do not have the server-side assignor."),
    (
        113,
        "STALE_MEMBER_EPOCH",
        False,
        "The member's epoch is behind the coordinator's; the next heartbeat brings the new one.",
    ),
    (
        114,
        "MISMATCHED_ENDPOINT_TYPE",
        False,
        "The request belongs to a controller and came to a broker, or the other way round.",
    ),
    (115, "UNSUPPORTED_ENDPOINT_TYPE", False, "This kind of endpoint does not know the request yet."),
    (116, "UNKNOWN_CONTROLLER_ID", False, "No controller with this id is known."),
    (117, "UNKNOWN_SUBSCRIPTION_ID", False, "The client pushes metrics for a telemetry subscription that is over."),
    (118, "TELEMETRY_TOO_LARGE", False, "The pushed metrics are larger than the broker accepts."),
    (119, "INVALID_REGISTRATION", False, "The controller refuses the broker's registration."),
    (120, "TRANSACTION_ABORTABLE", False, "The transaction failed, but the producer can abort it and go on."),
    (121, "INVALID_RECORD_STATE", False, "The record is not in a state in which it can be acknowledged."),
    (122, "SHARE_SESSION_NOT_FOUND", True, "The broker does not have the share session any more."),
    (123, "INVALID_SHARE_SESSION_EPOCH", True, "The share session's epoch is not the next one."),
    (124, "FENCED_STATE_EPOCH", False, "The share coordinator knows a newer epoch of the share partition's state."),
    (125, "INVALID_VOTER_KEY", False, "The voter's key is not that of the replica that was asked."),
    (126, "DUPLICATE_VOTER", False, "The voter belongs to the quorum already."),
    (127, "VOTER_NOT_FOUND", False, "The voter does not belong to the quorum."),
    (128, "INVALID_REGULAR_EXPRESSION", False, "The subscription's regular expression cannot be understood."),
    (
        129,
        "REBOOTSTRAP_REQUIRED",
        False,
        "The client's metadata is too old to be used; it has to start again from its bootstrap servers.",
    ),
    (130, "STREAMS_INVALID_TOPOLOGY", False, "The Streams application sent a topology that is not possible."),
    (131, "STREAMS_INVALID_TOPOLOGY_EPOCH", False, "The topology epoch of the Streams member is not possible."),
    (132, "STREAMS_TOPOLOGY_FENCED", False, "The Streams member runs an older topology than the group."),
    (133, "SHARE_SESSION_LIMIT_REACHED", True, "The broker holds as many share sessions as it may."),
)
ERRORS: Mapping[int, ErrorCode] = MappingProxyType({row[0]: ErrorCode(*row) for row in _TABLE})


def error_of(code: int) -> ErrorCode:
    """The error of a code; one nobody knows is called ERROR_ and its number, and is not retriable."""
    return ERRORS.get(code) or ErrorCode(code, f"ERROR_{code}", False, "A code that Kafka 4.3.1 does not know.")
