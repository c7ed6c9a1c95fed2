"""Errors of the protocol, one table: whether a client may try again, what each means, what to do, when it is ordinary.

Codes, names and retriability are those of org.apache.kafka.common.protocol.Errors in Kafka 3.9.1 and 4.4.0, which agree
on all codes they share; 128 and above are new in 4.x. Retriable: its exception is a RetriableException. Advice is
what somebody who runs the client or the brokers would look at first. What is ordinary follows from what brokers of
Apache Kafka 4.3 do (GroupCoordinator, ReplicaManager, FetchManager).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

RETRIABLE, FINAL = True, False


@dataclass(frozen=True, slots=True)
class Ordinary:
    """Up to `most` of an error within `seconds` are part of how the protocol works.

    They are counted for each combination of what `by` names, as columns of tables are called.
    """

    most: int
    seconds: int
    by: tuple[str, ...]
    apis: tuple[str, ...]  # none: any
    reason: str


# Advice on several errors

ADVICE_BY_KIND = {
    RETRIABLE: "Clients try again by themselves; if it lasts, look into the broker's log at this time.",
    FINAL: "Trying again does not help; look at the error's message, the request's body, and the broker's log.",
}
"""Where there is nothing better."""
_GRANT = (
    "Grant it with kafka-acls.sh, or have the client use another principal. The broker's authorizer log names both."
)
_METADATA = (
    "Nothing, if it stops: the client renews its metadata. If it stays, see whether leaders keep moving (broker "
    "restarts, lost sessions), and whether the client can reach all brokers under their advertised.listeners."
)
_FENCED = (
    "Look for a second process with the same transactional.id, or for one that was taken for dead and came back. The "
    "older producer cannot go on: it must be closed."
)
_MEMBER_GONE = (
    "See what held the member up before: too long between polls (max.poll.interval.ms, max.poll.records) or no "
    "heartbeat in time (session.timeout.ms, pauses of the process, the network). The timeline of its group tells."
)
_NEW_SESSION = (
    "Nothing, if rare. If often, brokers have too few fetch sessions for their readers: raise "
    "max.incremental.fetch.session.cache.slots, or have fewer consumers."
)
_TRANSACTION = "Abort the transaction. If that is refused, close the producer and begin with a new one."
_TOKENS = "Check delegation.token.secret.key on all brokers, who owns the token, and how long it lives."
_QUORUM = "Compare controller.quorum.voters, node.id and the directory ids of the controllers."

# Where several errors are ordinary

_BY_PARTITION = ("client_id", "topic", "partition")
_NEW_TOPIC = Ordinary(
    3,
    60,
    ("client_id", "topic"),
    ("Metadata", "DescribeTopicPartitions"),
    "A topic that is being made is not known to all brokers, or has no leader, for a moment.",
)
_NEW_PARTITION = Ordinary(
    3,
    60,
    _BY_PARTITION,
    (),
    "A partition that was just made or moved is not known to its broker for a moment.",
)
_NEW_LEADER = Ordinary(
    3,
    60,
    _BY_PARTITION,
    (),
    "The leader changed; the client learns of it by this, and renews its metadata.",
)
_FETCH_SESSION = Ordinary(
    2,
    300,
    ("client_id", "broker"),
    ("Fetch",),
    "The broker dropped the fetch session (restart, cache full); the client starts a new one at once.",
)
_SHARE_SESSION = Ordinary(
    2,
    300,
    ("client_id", "broker"),
    ("ShareFetch", "ShareAcknowledge"),
    "The broker dropped the share session; the client starts a new one at once.",
)


class Error(StrEnum):
    """An error of the protocol, by the name that Kafka gives it."""

    code: int
    retriable: bool
    meaning: str
    advice: str
    ordinary: tuple[Ordinary, ...]  # the first that fits holds; none: it is always trouble

    def __new__(
        cls, name: str, code: int, retriable: bool, meaning: str, advice: str = "", *ordinary: Ordinary
    ) -> Error:
        """An error of this name and code; without advice of its own, it has that of its kind."""
        error = str.__new__(cls, name)
        error._value_ = name
        error.code, error.retriable, error.meaning, error.ordinary = code, retriable, meaning, ordinary
        error.advice = advice or ADVICE_BY_KIND[retriable]
        return error

    # fmt: off
    UNKNOWN_SERVER_ERROR = ("UNKNOWN_SERVER_ERROR", -1, FINAL,
        "The broker failed in a way it has no code for; its log has the exception.",
        "Look into the broker's log at this time: the exception is there, and only there.")
    NONE = ("NONE", 0, FINAL,
        "All went well.")
    OFFSET_OUT_OF_RANGE = ("OFFSET_OUT_OF_RANGE", 1, FINAL,
        "The offset asked for lies before the start or behind the end of the partition's log.",
        "If the offset lies before the log's start, retention overtook the reader: raise retention or read "
        "faster. If it lies behind the end, the log was cut back or the topic made again. "
        "auto.offset.reset decides what follows.",
        Ordinary(1, 600, _BY_PARTITION, ("Fetch",),
            "A reader whose offset is gone begins anew where auto.offset.reset says; once, "
            "this is how it finds its start."))
    CORRUPT_MESSAGE = ("CORRUPT_MESSAGE", 2, RETRIABLE,
        "The record batch is damaged or breaks a rule of the topic (CRC, size, missing key where it is compacted).",
        "On Produce: a compacted topic takes no records without a key; else suspect the network or the producer's "
        "memory. On Fetch: suspect the broker's disk.")
    UNKNOWN_TOPIC_OR_PARTITION = ("UNKNOWN_TOPIC_OR_PARTITION", 3, RETRIABLE,
        "The broker knows no such topic or partition, or does not have it yet.",
        "Check the name, and that the topic is there. Make topics before clients start, or allow auto.create.topics; "
        "if it was deleted, stop those who still use it.",
        _NEW_TOPIC,
        _NEW_PARTITION)
    INVALID_FETCH_SIZE = ("INVALID_FETCH_SIZE", 4, FINAL,
        "A fetch asked for a size that makes no sense.",
        "Check fetch.max.bytes and max.partition.fetch.bytes of the consumer.")
    LEADER_NOT_AVAILABLE = ("LEADER_NOT_AVAILABLE", 5, RETRIABLE,
        "The partition has no leader at the moment; an election is under way.",
        "If it lasts, see which replicas are alive (kafka-topics.sh --describe --unavailable-partitions).",
        _NEW_TOPIC,
        _NEW_PARTITION)
    NOT_LEADER_OR_FOLLOWER = ("NOT_LEADER_OR_FOLLOWER", 6, RETRIABLE,
        "The broker asked is not the leader (or no replica) of the partition; the client's metadata is out of date.",
        _METADATA,
        _NEW_LEADER)
    REQUEST_TIMED_OUT = ("REQUEST_TIMED_OUT", 7, RETRIABLE,
        "The broker could not finish the request in the time the request allowed.",
        "See whether replicas lag (acks=all waits for them) or the broker is overloaded, before raising "
        "request.timeout.ms or delivery.timeout.ms.")
    BROKER_NOT_AVAILABLE = ("BROKER_NOT_AVAILABLE", 8, FINAL,
        "The broker is not reachable.",
        "Bring the broker back, or check that its listener is registered.")
    REPLICA_NOT_AVAILABLE = ("REPLICA_NOT_AVAILABLE", 9, RETRIABLE,
        "The replica asked for is not there at the moment.",
        "Nothing, if it stops; else see whether the replica's broker is up and its log directory fine.")
    MESSAGE_TOO_LARGE = ("MESSAGE_TOO_LARGE", 10, FINAL,
        "A record batch is larger than the broker or topic accepts (max.message.bytes).",
        "Compare max.message.bytes of the topic with max.request.size and batch.size of the producer.")
    STALE_CONTROLLER_EPOCH = ("STALE_CONTROLLER_EPOCH", 11, FINAL,
        "The request came from a controller that has been replaced.",
        "Nothing on the client. If it goes on, two brokers take themselves for the controller.")
    OFFSET_METADATA_TOO_LARGE = ("OFFSET_METADATA_TOO_LARGE", 12, FINAL,
        "The metadata string of an offset commit is longer than the broker accepts.",
        "Commit less metadata, or raise offset.metadata.max.bytes on the brokers.")
    NETWORK_EXCEPTION = ("NETWORK_EXCEPTION", 13, RETRIABLE,
        "The connection broke before the answer came; clients report this themselves.",
        "See where connections end (RST, timeouts) between this client and broker.")
    COORDINATOR_LOAD_IN_PROGRESS = ("COORDINATOR_LOAD_IN_PROGRESS", 14, RETRIABLE,
        "The coordinator is still reading its state and cannot answer yet.",
        "Wait. If it takes minutes, __consumer_offsets or __transaction_state is large: "
        "see whether the log cleaner runs.",
        Ordinary(5, 60, ("client_id", "group_id"), (),
            "A coordinator that has just got its partition reads its state first."))
    COORDINATOR_NOT_AVAILABLE = ("COORDINATOR_NOT_AVAILABLE", 15, RETRIABLE,
        "There is no coordinator for the group or transactional id at the moment.",
        "If it lasts, see whether __consumer_offsets (or __transaction_state) has leaders, and whether as many "
        "brokers run as its replication factor asks for.",
        Ordinary(5, 60, ("client_id", "group_id"),  # seconds that making a topic of 50 partitions may take
            ("FindCoordinator",),
            "The topic in which coordinators keep their state is being made, or has no leader for a moment."))
    NOT_COORDINATOR = ("NOT_COORDINATOR", 16, RETRIABLE,
        "The broker asked does not coordinate this group or transactional id; the client has to look it up again.",
        "Nothing, if rare. If often, coordinators keep moving: look for broker restarts or leader elections.",
        Ordinary(5, 60, ("client_id", "group_id", "member_id"), (),
            "The coordinator moved; the client looks it up again."))
    INVALID_TOPIC_EXCEPTION = ("INVALID_TOPIC_EXCEPTION", 17, FINAL,
        "The topic's name is not allowed, or the operation is not allowed on this topic.",
        "Use letters, digits, '.', '_' and '-', at most 249; internal topics cannot be written to.")
    RECORD_LIST_TOO_LARGE = ("RECORD_LIST_TOO_LARGE", 18, FINAL,
        "A record batch is larger than a log segment of the broker.",
        "Make batches smaller than segment.bytes of the topic.")
    NOT_ENOUGH_REPLICAS = ("NOT_ENOUGH_REPLICAS", 19, RETRIABLE,
        "Too few replicas are in sync for a write that wants all of them (min.insync.replicas); nothing was written.",
        "Bring replicas back into sync: see which brokers are down or slow. Lowering "
        "min.insync.replicas trades away safety.")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", 20, RETRIABLE,
        "The records were written, but then too few replicas were in sync to confirm them.",
        "As for NOT_ENOUGH_REPLICAS; the records are in the log, so that a retry without "
        "idempotence writes them twice.")
    INVALID_REQUIRED_ACKS = ("INVALID_REQUIRED_ACKS", 21, FINAL,
        "The number of acknowledgements asked for is none of 0, 1 and -1.",
        "Set acks to 0, 1 or all.")
    ILLEGAL_GENERATION = ("ILLEGAL_GENERATION", 22, FINAL,
        "The member speaks of a generation of the group that is over.",
        _MEMBER_GONE)
    INCONSISTENT_GROUP_PROTOCOL = ("INCONSISTENT_GROUP_PROTOCOL", 23, FINAL,
        "The member offers no protocol that the rest of the group has, or another protocol type.",
        "Give all members a common assignor (partition.assignment.strategy), and do not mix consumers, Connect "
        "workers and others under one group.id. Changing assignors takes two rolling restarts.")
    INVALID_GROUP_ID = ("INVALID_GROUP_ID", 24, FINAL,
        "The group id is empty or otherwise not allowed.",
        "Set group.id, or do not use what needs a group (subscribe, commits).")
    UNKNOWN_MEMBER_ID = ("UNKNOWN_MEMBER_ID", 25, FINAL,
        "The coordinator does not know the member: its session ran out, or it left.",
        _MEMBER_GONE)
    INVALID_SESSION_TIMEOUT = ("INVALID_SESSION_TIMEOUT", 26, FINAL,
        "The session timeout lies outside of what the broker allows.",
        "Keep session.timeout.ms within group.min and group.max.session.timeout.ms of the brokers.")
    REBALANCE_IN_PROGRESS = ("REBALANCE_IN_PROGRESS", 27, FINAL,
        "The group is rebalancing; the member has to join again.",
        "Nothing, if the group comes to rest. If not, see the timeline of the group for "
        "who sets it off again and again.",
        # a rebalance costs one or two; more within a minute is a group that does not come to rest
        Ordinary(6, 60, ("group_id", "member_id"),
            ("Heartbeat", "SyncGroup", "JoinGroup", "OffsetCommit", "TxnOffsetCommit"),
            "This is how members are told to join again when their group rebalances."))
    INVALID_COMMIT_OFFSET_SIZE = ("INVALID_COMMIT_OFFSET_SIZE", 28, FINAL,
        "The offset commit is too large to be stored.",
        "Commit fewer partitions at once, or less metadata.")
    TOPIC_AUTHORIZATION_FAILED = ("TOPIC_AUTHORIZATION_FAILED", 29, FINAL,
        "The user may not do this with the topic.",
        _GRANT)
    GROUP_AUTHORIZATION_FAILED = ("GROUP_AUTHORIZATION_FAILED", 30, FINAL,
        "The user may not do this with the group.",
        _GRANT)
    CLUSTER_AUTHORIZATION_FAILED = ("CLUSTER_AUTHORIZATION_FAILED", 31, FINAL,
        "The user may not do this with the cluster.",
        _GRANT)
    INVALID_TIMESTAMP = ("INVALID_TIMESTAMP", 32, FINAL,
        "A record's timestamp is too far from the broker's clock.",
        "Compare the clocks, and message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic.")
    UNSUPPORTED_SASL_MECHANISM = ("UNSUPPORTED_SASL_MECHANISM", 33, FINAL,
        "The broker does not offer the SASL mechanism the client chose.",
        "Set sasl.mechanism to one that the listener has in sasl.enabled.mechanisms.")
    ILLEGAL_SASL_STATE = ("ILLEGAL_SASL_STATE", 34, FINAL,
        "The SASL request came at the wrong step of authentication.",
        "Compare security.protocol of the client with that of the listener.")
    UNSUPPORTED_VERSION = ("UNSUPPORTED_VERSION", 35, FINAL,
        "The broker does not know this version of the request.",
        "Bring client and broker nearer together in version, or leave out the feature that the broker lacks.",
        Ordinary(20, 60, ("client_id", "broker"), ("ApiVersions",),  # one for each connection
            "A client newer than the broker asks again in a version that the broker names (KIP-511)."))
    TOPIC_ALREADY_EXISTS = ("TOPIC_ALREADY_EXISTS", 36, FINAL,
        "A topic with this name is there already.",
        "Nothing, if the application only makes sure that it is there; else choose another name.",
        Ordinary(3, 600, ("client_id", "topic"), ("CreateTopics",),
            "Applications make sure that a topic is there by making it."))
    INVALID_PARTITIONS = ("INVALID_PARTITIONS", 37, FINAL,
        "The number of partitions is not possible.",
        "A topic needs at least one partition, and their number can only grow.")
    INVALID_REPLICATION_FACTOR = ("INVALID_REPLICATION_FACTOR", 38, FINAL,
        "The replication factor is below 1 or larger than the number of brokers.",
        "Ask for at most as many replicas as brokers are up.")
    INVALID_REPLICA_ASSIGNMENT = ("INVALID_REPLICA_ASSIGNMENT", 39, FINAL,
        "The list of replicas for the partitions is not possible.",
        "Name each broker once, only existing ones, and equally many for each partition.")
    INVALID_CONFIG = ("INVALID_CONFIG", 40, FINAL,
        "A configuration has a value that is not allowed, or is unknown.",
        "The error's message names the configuration and why its value is refused.")
    NOT_CONTROLLER = ("NOT_CONTROLLER", 41, RETRIABLE,
        "The broker asked is not the controller.",
        "Nothing, if rare: the client looks it up again. If often, the controller keeps moving.",
        Ordinary(3, 60, ("client_id",), (),
            "The controller changed; the client looks it up again."))
    INVALID_REQUEST = ("INVALID_REQUEST", 42, FINAL,
        "The request contradicts itself or misses something; mostly a mistake of the client library.",
        "Read the error's message. Look for a newer version of the client library: it should not ask this way. "
        "The request's body shows what.")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = ("UNSUPPORTED_FOR_MESSAGE_FORMAT", 43, FINAL,
        "The partition's stored record format is too old for the request.",
        "Raise the topic's record format, or leave out headers, timestamps or idempotence.")
    POLICY_VIOLATION = ("POLICY_VIOLATION", 44, FINAL,
        "A policy that the operator installed refuses the request.",
        "The error's message says which rule of create.topic.policy or alter.config.policy it breaks.")
    OUT_OF_ORDER_SEQUENCE_NUMBER = ("OUT_OF_ORDER_SEQUENCE_NUMBER", 45, FINAL,
        "The producer's sequence number leaves a gap: batches before it were lost or have not arrived.",
        "Records may be missing: check what was lost. Look for retention shorter than the producer's pauses, for two "
        "producers under one id, or unclean leader elections.")
    DUPLICATE_SEQUENCE_NUMBER = ("DUPLICATE_SEQUENCE_NUMBER", 46, FINAL,
        "The producer's batch with this sequence number is there already.",
        "Nothing: the batch is there. If often, answers get lost or come late; look at latency.",
        Ordinary(3, 60, _BY_PARTITION, ("Produce",),
            "A batch that was sent again had arrived the first time; the producer takes this for success."))
    INVALID_PRODUCER_EPOCH = ("INVALID_PRODUCER_EPOCH", 47, FINAL,
        "The producer has an old epoch: another one took its place.",
        _FENCED + " It also comes when transaction.timeout.ms ran out and the broker aborted.")
    INVALID_TXN_STATE = ("INVALID_TXN_STATE", 48, FINAL,
        "The transaction is in a state in which this operation is not possible.",
        "The application calls in the wrong order, or its transaction was ended by timeout. " + _TRANSACTION)
    INVALID_PRODUCER_ID_MAPPING = ("INVALID_PRODUCER_ID_MAPPING", 49, FINAL,
        "The producer id does not belong to this transactional id any more.",
        "The id was not used for longer than transactional.id.expiration.ms; the producer has to start again.")
    INVALID_TRANSACTION_TIMEOUT = ("INVALID_TRANSACTION_TIMEOUT", 50, FINAL,
        "The transaction timeout is larger than the broker allows.",
        "Keep transaction.timeout.ms below transaction.max.timeout.ms of the brokers.")
    CONCURRENT_TRANSACTIONS = ("CONCURRENT_TRANSACTIONS", 51, RETRIABLE,
        "Another operation on the same transaction has not finished yet.",
        "Nothing, if it passes. If it lasts, completing takes long: see the brokers that "
        "lead the partitions written to.",
        Ordinary(5, 60, ("client_id",), (),
            "The transaction before this one is still being completed; the producer tries again soon."))
    TRANSACTION_COORDINATOR_FENCED = ("TRANSACTION_COORDINATOR_FENCED", 52, FINAL,
        "The coordinator that sent a transaction marker has been replaced.",
        "Nothing on the client; the new coordinator goes on.")
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", 53, FINAL,
        "The user may not use this transactional id.",
        _GRANT)
    SECURITY_DISABLED = ("SECURITY_DISABLED", 54, FINAL,
        "The broker has no security features switched on.",
        "Set authorizer.class.name on the brokers, or do not manage ACLs.")
    OPERATION_NOT_ATTEMPTED = ("OPERATION_NOT_ATTEMPTED", 55, FINAL,
        "The broker left this part of the request undone because another part failed.",
        "Repair the other error of the same request; this part can be sent again.")
    KAFKA_STORAGE_ERROR = ("KAFKA_STORAGE_ERROR", 56, RETRIABLE,
        "The broker could not read or write its disk.",
        "Look at the broker's disks and its log: a log directory has failed.")
    LOG_DIR_NOT_FOUND = ("LOG_DIR_NOT_FOUND", 57, FINAL,
        "The broker has no such log directory.",
        "Compare the directory with log.dirs of the broker.")
    SASL_AUTHENTICATION_FAILED = ("SASL_AUTHENTICATION_FAILED", 58, FINAL,
        "The client could not prove who it is.",
        "Check user and password or token, and for Kerberos the clocks. The broker's log "
        "says more than the client is told.")
    UNKNOWN_PRODUCER_ID = ("UNKNOWN_PRODUCER_ID", 59, FINAL,
        "The broker has forgotten the producer, mostly because its records have been deleted.",
        "Raise retention or producer.id.expiration.ms; producers since 2.5 start again by themselves.")
    REASSIGNMENT_IN_PROGRESS = ("REASSIGNMENT_IN_PROGRESS", 60, FINAL,
        "The partition is being moved already.",
        "Wait for the move, or cancel it with kafka-reassign-partitions.sh.")
    DELEGATION_TOKEN_AUTH_DISABLED = ("DELEGATION_TOKEN_AUTH_DISABLED", 61, FINAL,
        "The brokers have no delegation tokens switched on.",
        _TOKENS)
    DELEGATION_TOKEN_NOT_FOUND = ("DELEGATION_TOKEN_NOT_FOUND", 62, FINAL,
        "The broker does not know the delegation token.",
        _TOKENS)
    DELEGATION_TOKEN_OWNER_MISMATCH = ("DELEGATION_TOKEN_OWNER_MISMATCH", 63, FINAL,
        "The user is neither the owner nor a renewer of the delegation token.",
        _TOKENS)
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = ("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", 64, FINAL,
        "Delegation tokens are not given out on this kind of connection.",
        "Ask for tokens over a connection that did not authenticate with one.")
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = ("DELEGATION_TOKEN_AUTHORIZATION_FAILED", 65, FINAL,
        "The user may not do this with the delegation token.",
        _GRANT)
    DELEGATION_TOKEN_EXPIRED = ("DELEGATION_TOKEN_EXPIRED", 66, FINAL,
        "The delegation token is too old.",
        "Renew tokens in time, or make a new one.")
    INVALID_PRINCIPAL_TYPE = ("INVALID_PRINCIPAL_TYPE", 67, FINAL,
        "The type of principal is not supported.")
    NON_EMPTY_GROUP = ("NON_EMPTY_GROUP", 68, FINAL,
        "The group still has members.",
        "Stop all members first; the group is empty when their sessions have ended.")
    GROUP_ID_NOT_FOUND = ("GROUP_ID_NOT_FOUND", 69, FINAL,
        "There is no group with this id.",
        "Check the name, and of which kind the group is (classic, consumer, share, streams).",
        Ordinary(5, 60, ("client_id", "group_id"),
            ("DescribeGroups", "ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe"),
            "Tools ask for a group as one of the newer kinds first, and then as a classic one."))
    FETCH_SESSION_ID_NOT_FOUND = ("FETCH_SESSION_ID_NOT_FOUND", 70, RETRIABLE,
        "The broker does not have the fetch session any more; the client starts a new one.",
        _NEW_SESSION,
        _FETCH_SESSION)
    INVALID_FETCH_SESSION_EPOCH = ("INVALID_FETCH_SESSION_EPOCH", 71, RETRIABLE,
        "The fetch session's epoch is not the next one; the client starts a new session.",
        _NEW_SESSION,
        _FETCH_SESSION)
    LISTENER_NOT_FOUND = ("LISTENER_NOT_FOUND", 72, RETRIABLE,
        "The leader has no listener of the name through which the client came.",
        "Give all brokers the same listener names.")
    TOPIC_DELETION_DISABLED = ("TOPIC_DELETION_DISABLED", 73, FINAL,
        "Deleting topics is switched off on the brokers.",
        "Set delete.topic.enable on the brokers.")
    FENCED_LEADER_EPOCH = ("FENCED_LEADER_EPOCH", 74, RETRIABLE,
        "The client knows an older leader epoch than the broker: its metadata is out of date.",
        _METADATA,
        _NEW_LEADER)
    UNKNOWN_LEADER_EPOCH = ("UNKNOWN_LEADER_EPOCH", 75, RETRIABLE,
        "The client knows a newer leader epoch than the broker: the broker lags behind.",
        _METADATA,
        _NEW_LEADER)
    UNSUPPORTED_COMPRESSION_TYPE = ("UNSUPPORTED_COMPRESSION_TYPE", 76, FINAL,
        "The client's version of the request cannot take the records' compression.",
        "Update the client: zstd needs Produce 7 and Fetch 10, which came with Kafka 2.1.")
    STALE_BROKER_EPOCH = ("STALE_BROKER_EPOCH", 77, FINAL,
        "The broker's registration has been replaced by a newer one.",
        "Nothing: the broker registers anew. If it goes on, two brokers share a node.id.")
    OFFSET_NOT_AVAILABLE = ("OFFSET_NOT_AVAILABLE", 78, RETRIABLE,
        "A new leader does not know yet which offsets are safe to give out.",
        "Nothing, if it stops within seconds of an election.",
        _NEW_LEADER)
    MEMBER_ID_REQUIRED = ("MEMBER_ID_REQUIRED", 79, FINAL,
        "The coordinator has given out a member id; the member has to join again with it.",
        "Nothing. If there are very many, members join again and again: see the timeline of the group.",
        Ordinary(30, 300, ("group_id", "client_id"),  # members of one client id; storms show in the rebalances
            ("JoinGroup",),
            "A new member is given its id this way, and joins again with it (KIP-394)."))
    PREFERRED_LEADER_NOT_AVAILABLE = ("PREFERRED_LEADER_NOT_AVAILABLE", 80, RETRIABLE,
        "The preferred leader is not there, so it cannot be elected.",
        "Bring the preferred replica's broker back first.")
    GROUP_MAX_SIZE_REACHED = ("GROUP_MAX_SIZE_REACHED", 81, FINAL,
        "The group has as many members as the broker allows.",
        "Start fewer members, or raise group.max.size (consumer: group.consumer.max.size).")
    FENCED_INSTANCE_ID = ("FENCED_INSTANCE_ID", 82, FINAL,
        "Another member with the same group instance id took this member's place.",
        "Give each process a group.instance.id of its own. If a new one replaced the old on purpose, stop the old.")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = ("ELIGIBLE_LEADERS_NOT_AVAILABLE", 83, RETRIABLE,
        "None of the replicas that may become leader is there.",
        "Bring an in-sync replica back; an unclean election loses records.")
    ELECTION_NOT_NEEDED = ("ELECTION_NOT_NEEDED", 84, RETRIABLE,
        "The partition has the right leader already.",
        "Nothing.",
        Ordinary(1000, 60, ("client_id",), ("ElectLeaders",),  # one for each partition
            "The partition has the leader that was asked for."))
    NO_REASSIGNMENT_IN_PROGRESS = ("NO_REASSIGNMENT_IN_PROGRESS", 85, FINAL,
        "The partition is not being moved.",
        "Nothing: there is no move to cancel.")
    GROUP_SUBSCRIBED_TO_TOPIC = ("GROUP_SUBSCRIBED_TO_TOPIC", 86, FINAL,
        "The group still reads the topic, so its offsets cannot be deleted.",
        "Have the members drop the topic first, then delete its offsets.")
    INVALID_RECORD = ("INVALID_RECORD", 87, FINAL,
        "The broker refuses a record for what it holds or lacks.",
        "The errors by record in the answer say which one, and why: often one without a key for a topic that "
        "is compacted (cleanup.policy).")
    UNSTABLE_OFFSET_COMMIT = ("UNSTABLE_OFFSET_COMMIT", 88, RETRIABLE,
        "Offsets of an open transaction are pending, so the committed offset is not certain yet.",
        "If it lasts, a transaction that commits offsets hangs: find it with kafka-transactions.sh find-hanging.",
        Ordinary(5, 60, ("client_id", "group_id"), ("OffsetFetch",),
            "Offsets that belong to a transaction are told when it has ended (KIP-447)."))
    THROTTLING_QUOTA_EXCEEDED = ("THROTTLING_QUOTA_EXCEEDED", 89, RETRIABLE,
        "A quota is used up; the client has to wait.",
        "Send less, or raise the quota (controller_mutation_rate) for this user or client.")
    PRODUCER_FENCED = ("PRODUCER_FENCED", 90, FINAL,
        "A newer producer with the same transactional id has taken over.",
        _FENCED)
    RESOURCE_NOT_FOUND = ("RESOURCE_NOT_FOUND", 91, FINAL,
        "The request names something that does not exist.",
        "Check the name in the request.")
    DUPLICATE_RESOURCE = ("DUPLICATE_RESOURCE", 92, FINAL,
        "The request names the same thing twice.",
        "Name each thing once in a request.")
    UNACCEPTABLE_CREDENTIAL = ("UNACCEPTABLE_CREDENTIAL", 93, FINAL,
        "The credential does not meet what the broker demands of it.",
        "Choose a longer password or more iterations (at least 4096 for SCRAM).")
    INCONSISTENT_VOTER_SET = ("INCONSISTENT_VOTER_SET", 94, FINAL,
        "Sender and receiver do not agree on who votes in the controller quorum.",
        _QUORUM)
    INVALID_UPDATE_VERSION = ("INVALID_UPDATE_VERSION", 95, FINAL,
        "The feature level asked for is not allowed.",
        "See with kafka-features.sh describe which levels all brokers support.")
    FEATURE_UPDATE_FAILED = ("FEATURE_UPDATE_FAILED", 96, FINAL,
        "A feature's level could not be changed for a reason within the cluster.",
        "The error's message says which broker is in the way.")
    PRINCIPAL_DESERIALIZATION_FAILURE = ("PRINCIPAL_DESERIALIZATION_FAILURE", 97, FINAL,
        "The controller could not read for whom a broker forwards a request.")
    SNAPSHOT_NOT_FOUND = ("SNAPSHOT_NOT_FOUND", 98, FINAL,
        "There is no such snapshot.",
        "Nothing: the follower asks for the newer one.")
    POSITION_OUT_OF_RANGE = ("POSITION_OUT_OF_RANGE", 99, FINAL,
        "The position lies outside of the snapshot.")
    UNKNOWN_TOPIC_ID = ("UNKNOWN_TOPIC_ID", 100, RETRIABLE,
        "The broker knows no topic with this id, or not yet.",
        "Nothing, if it stops: the client renews its metadata. If it stays, the topic was deleted, or "
        "brokers lag behind the controller.",
        _NEW_PARTITION)
    DUPLICATE_BROKER_REGISTRATION = ("DUPLICATE_BROKER_REGISTRATION", 101, FINAL,
        "Another broker is registered with this id and still alive.",
        "Give each broker a node.id of its own; after a crash wait for broker.session.timeout.ms.")
    BROKER_ID_NOT_REGISTERED = ("BROKER_ID_NOT_REGISTERED", 102, FINAL,
        "No broker with this id is registered.",
        "Check node.id, and that the broker reaches the controllers.")
    INCONSISTENT_TOPIC_ID = ("INCONSISTENT_TOPIC_ID", 103, RETRIABLE,
        "The topic id of the request is not that of the partition's log: the topic was deleted and made again.",
        "The topic was made again: restart clients that do not notice by themselves.",
        _NEW_PARTITION)
    INCONSISTENT_CLUSTER_ID = ("INCONSISTENT_CLUSTER_ID", 104, FINAL,
        "The client is meant for another cluster.",
        "Check bootstrap.servers: the client talks to another cluster than it did.")
    TRANSACTIONAL_ID_NOT_FOUND = ("TRANSACTIONAL_ID_NOT_FOUND", 105, FINAL,
        "There is no transaction with this transactional id.",
        "Check the name; ids that are not used expire after transactional.id.expiration.ms.")
    FETCH_SESSION_TOPIC_ID_ERROR = ("FETCH_SESSION_TOPIC_ID_ERROR", 106, RETRIABLE,
        "The fetch session mixes topic ids and names in a way that does not fit.",
        _NEW_SESSION,
        _FETCH_SESSION)
    INELIGIBLE_REPLICA = ("INELIGIBLE_REPLICA", 107, FINAL,
        "A replica that may not be in sync was put into the in-sync set.",
        "Nothing: the leader asks again when the replica's broker is back.")
    NEW_LEADER_ELECTED = ("NEW_LEADER_ELECTED", 108, FINAL,
        "The in-sync set was changed, and by that a new leader was elected.",
        "Nothing: the leader learns of it.")
    OFFSET_MOVED_TO_TIERED_STORAGE = ("OFFSET_MOVED_TO_TIERED_STORAGE", 109, FINAL,
        "The offset is no longer on the broker's disks, only in tiered storage.",
        "Nothing: followers go on from where the local log starts.",
        Ordinary(3, 60, _BY_PARTITION, ("Fetch",),
            "A follower learns by this from where on it has to copy."))
    FENCED_MEMBER_EPOCH = ("FENCED_MEMBER_EPOCH", 110, FINAL,
        "The member's epoch has been replaced; it has to give up its partitions and join again.",
        _MEMBER_GONE)
    UNRELEASED_INSTANCE_ID = ("UNRELEASED_INSTANCE_ID", 111, FINAL,
        "Another member still holds the group instance id and has to leave first.",
        "Wait for the old process to leave or for its session to end; if both are meant to run, give "
        "each its own group.instance.id.")
    UNSUPPORTED_ASSIGNOR = ("UNSUPPORTED_ASSIGNOR", 112, FINAL,
        "The group's members or brokers do not have the server-side assignor.",
        "Use one of group.consumer.assignors of the brokers (uniform, range), or leave it to them.")
    STALE_MEMBER_EPOCH = ("STALE_MEMBER_EPOCH", 113, FINAL,
        "The member's epoch is behind the coordinator's; the next heartbeat brings the new one.",
        "Nothing, if rare. If a commit is refused for it again and again, heartbeats come too late.",
        Ordinary(3, 60, ("group_id", "member_id"), ("OffsetCommit", "OffsetFetch", "TxnOffsetCommit"),
            "The epoch moved on while the request was under way; the member tries again with the new one."))
    MISMATCHED_ENDPOINT_TYPE = ("MISMATCHED_ENDPOINT_TYPE", 114, FINAL,
        "The request belongs to a controller and came to a broker, or the other way round.",
        "Use --bootstrap-server for brokers, --bootstrap-controller for controllers.")
    UNSUPPORTED_ENDPOINT_TYPE = ("UNSUPPORTED_ENDPOINT_TYPE", 115, FINAL,
        "This kind of endpoint does not know the request yet.",
        "Use the brokers' address instead of the controllers'.")
    UNKNOWN_CONTROLLER_ID = ("UNKNOWN_CONTROLLER_ID", 116, FINAL,
        "No controller with this id is known.")
    UNKNOWN_SUBSCRIPTION_ID = ("UNKNOWN_SUBSCRIPTION_ID", 117, FINAL,
        "The client pushes metrics for a telemetry subscription that is over.",
        "Nothing: the client asks for the new subscription.",
        Ordinary(2, 300, ("client_id",), ("PushTelemetry",),
            "The subscription to metrics changed; the client asks for the new one."))
    TELEMETRY_TOO_LARGE = ("TELEMETRY_TOO_LARGE", 118, FINAL,
        "The pushed metrics are larger than the broker accepts.",
        "Subscribe to fewer metrics, or raise telemetry.max.bytes.")
    INVALID_REGISTRATION = ("INVALID_REGISTRATION", 119, FINAL,
        "The controller refuses the broker's registration.",
        "The controller's log says what of the registration it refuses.")
    TRANSACTION_ABORTABLE = ("TRANSACTION_ABORTABLE", 120, FINAL,
        "The transaction failed, but the producer can abort it and go on.",
        _TRANSACTION)
    INVALID_RECORD_STATE = ("INVALID_RECORD_STATE", 121, FINAL,
        "The record is not in a state in which it can be acknowledged.",
        "Acknowledge within group.share.record.lock.duration.ms: later the record has gone to another member.")
    SHARE_SESSION_NOT_FOUND = ("SHARE_SESSION_NOT_FOUND", 122, RETRIABLE,
        "The broker does not have the share session any more.",
        "Nothing, if rare: a new session is started.",
        _SHARE_SESSION)
    INVALID_SHARE_SESSION_EPOCH = ("INVALID_SHARE_SESSION_EPOCH", 123, RETRIABLE,
        "The share session's epoch is not the next one.",
        "Nothing, if rare: a new session is started.",
        _SHARE_SESSION)
    FENCED_STATE_EPOCH = ("FENCED_STATE_EPOCH", 124, FINAL,
        "The share coordinator knows a newer epoch of the share partition's state.",
        "Nothing: the partition's new leader goes on.")
    INVALID_VOTER_KEY = ("INVALID_VOTER_KEY", 125, FINAL,
        "The voter's key is not that of the replica that was asked.",
        _QUORUM)
    DUPLICATE_VOTER = ("DUPLICATE_VOTER", 126, FINAL,
        "The voter belongs to the quorum already.",
        _QUORUM)
    VOTER_NOT_FOUND = ("VOTER_NOT_FOUND", 127, FINAL,
        "The voter does not belong to the quorum.",
        _QUORUM)
    INVALID_REGULAR_EXPRESSION = ("INVALID_REGULAR_EXPRESSION", 128, FINAL,
        "The subscription's regular expression cannot be understood.",
        "Brokers read it as RE2: no look-around and no back references.")
    REBOOTSTRAP_REQUIRED = ("REBOOTSTRAP_REQUIRED", 129, FINAL,
        "The client has to start again from its bootstrap servers: its metadata is too old, or the broker that it "
        "reached is another one than it asked for, or of another cluster (from ApiVersions 5 on).",
        "Nothing, if rare: the client starts again from bootstrap.servers; keep those up to date. If it lasts, look "
        "where addresses lead to: DNS, proxies and advertised.listeners.")
    STREAMS_INVALID_TOPOLOGY = ("STREAMS_INVALID_TOPOLOGY", 130, FINAL,
        "The Streams application sent a topology that is not possible.",
        "Check the topics that the topology names, and that sub-topologies agree on partitions.")
    STREAMS_INVALID_TOPOLOGY_EPOCH = ("STREAMS_INVALID_TOPOLOGY_EPOCH", 131, FINAL,
        "The topology epoch of the Streams member is not possible.",
        "Update all instances to one version of the application.")
    STREAMS_TOPOLOGY_FENCED = ("STREAMS_TOPOLOGY_FENCED", 132, FINAL,
        "The Streams member runs an older topology than the group.",
        "Update this instance: others of the application run a newer topology.")
    SHARE_SESSION_LIMIT_REACHED = ("SHARE_SESSION_LIMIT_REACHED", 133, RETRIABLE,
        "The broker holds as many share sessions as it may.",
        "Have fewer share consumers on a broker, or raise group.share.max.share.sessions.")
    GROUP_DELETION_FAILED = ("GROUP_DELETION_FAILED", 134, FINAL,
        "The group was not deleted, for a reason that the answer's error message tells.",
        "Read the error message of the group; of a Streams group it is often the broker's plugin for topology "
        "descriptions: mend that, and delete the group again.")
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = ("STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", 135, FINAL,
        "The broker could not keep the description of its topology that a Streams application sent.",
        "The application goes on without; the error message and the log of the broker's plugin for topology "
        "descriptions say why.")
    CONTROLLER_ID_NOT_REGISTERED = ("CONTROLLER_ID_NOT_REGISTERED", 136, FINAL,
        "No controller with this id is registered.",
        "Look at the ids that kafka-metadata-quorum.sh describe shows.")
    # fmt: on


ERRORS: Mapping[int, Error] = MappingProxyType({error.code: error for error in Error})


def name_of(code: int) -> str:
    """The name of an error; one that Kafka 4.4.0 does not know is called ERROR_ and its number."""
    return ERRORS[code].value if code in ERRORS else f"ERROR_{code}"


def explained(code: int) -> tuple[bool, str, str]:
    """Whether a client may try again after an error, what it means, and what to do about it."""
    error = ERRORS.get(code)
    if error is None:
        return FINAL, "A code that Kafka 4.4.0 does not know.", ADVICE_BY_KIND[FINAL]
    return error.retriable, error.meaning, error.advice
