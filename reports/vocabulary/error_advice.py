"""What to do about an error: what somebody who runs the client or the brokers would look at first."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_GRANT = (
    "Grant it with kafka-acls.sh, or have the client use another principal. The broker's authorizer log names both."
)
_METADATA = (
    "Nothing, if it stops: the client renews its metadata. If it stays, see whether leaders keep moving (broker "
    "restarts, "
    "lost sessions), and whether the client can reach all brokers under their advertised.listeners."
)
_FENCED = (
    "Look for a second process with the same transactional.id, or for one that was taken for dead and came back. The "
    "older producer cannot go on: it must be closed."
)
_CODEC_OR_SIZE = "Compare max.message.bytes of the topic with max.request.size and batch.size of the producer."
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
_CLIENT_BUG = (
    "Look for a newer version of the client library: it should not ask this way. The request's body shows what."
)
_QUORUM = "Compare controller.quorum.voters, node.id and the directory ids of the controllers."

_ADVICE = {
    "UNKNOWN_SERVER_ERROR": "Look into the broker's log at this time: the exception is there, and only there.",
    "OFFSET_OUT_OF_RANGE": (
        "If the offset lies before the log's start, retention overtook the reader: raise retention or read faster. If "
        "it lies behind the end, the log was cut back or the topic made again. auto.offset.reset decides what follows."
    ),
    "CORRUPT_MESSAGE": (
        "On Produce: a compacted topic takes no records without a key; else suspect the network or the producer's "
        "memory. "
        "On Fetch: suspect the broker's disk."
    ),
    "UNKNOWN_TOPIC_OR_PARTITION": (
        "Check the name, and that the topic is there. Make topics before clients start, or allow auto.create.topics; "
        "if "
        "it was deleted, stop those who still use it."
    ),
    "INVALID_FETCH_SIZE": "Check fetch.max.bytes and max.partition.fetch.bytes of the consumer.",
    "LEADER_NOT_AVAILABLE": (
        "If it lasts, see which replicas are alive (kafka-topics.sh --describe --unavailable-partitions)."
    ),
    "NOT_LEADER_OR_FOLLOWER": _METADATA,
    "REQUEST_TIMED_OUT": (
        "See whether replicas lag (acks=all waits for them) or the broker is overloaded, before raising "
        "request.timeout.ms or delivery.timeout.ms."
    ),
    "BROKER_NOT_AVAILABLE": "Bring the broker back, or check that its listener is registered.",
    "REPLICA_NOT_AVAILABLE": (
        "Nothing, if it stops; else see whether the replica's broker is up and its log directory fine."
    ),
    "MESSAGE_TOO_LARGE": _CODEC_OR_SIZE,
    "STALE_CONTROLLER_EPOCH": "Nothing on the client. If it goes on, two brokers take themselves for the controller.",
    "OFFSET_METADATA_TOO_LARGE": "Commit less metadata, or raise offset.metadata.max.bytes on the brokers.",
    "NETWORK_EXCEPTION": "See where connections end (RST, timeouts) between this client and broker.",
    "COORDINATOR_LOAD_IN_PROGRESS": (
        "Wait. If it takes minutes, __consumer_offsets or __transaction_state is large: see whether the log cleaner "
        "runs."
    ),
    "COORDINATOR_NOT_AVAILABLE": (
        "If it lasts, see whether __consumer_offsets (or __transaction_state) has leaders, and whether as many brokers "
        "run as its replication factor asks for."
    ),
    "NOT_COORDINATOR": (
        "Nothing, if rare. If often, coordinators keep moving: look for broker restarts or leader elections."
    ),
    "INVALID_TOPIC_EXCEPTION": (
        "Use letters, digits, '.', '_' and '-', at most 249; internal topics cannot be written to."
    ),
    "RECORD_LIST_TOO_LARGE": "Make batches smaller than segment.bytes of the topic.",
    "NOT_ENOUGH_REPLICAS": (
        "Bring replicas back into sync: see which brokers are down or slow. Lowering min.insync.replicas trades away "
        "safety."
    ),
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": (
        "As for NOT_ENOUGH_REPLICAS; the records are in the log, so that a retry without idempotence writes them twice."
    ),
    "INVALID_REQUIRED_ACKS": "Set acks to 0, 1 or all.",
    "ILLEGAL_GENERATION": _MEMBER_GONE,
    "INCONSISTENT_GROUP_PROTOCOL": (
        "Give all members a common assignor (partition.assignment.strategy), and do not mix consumers, Connect workers "
        "and others under one group.id. Changing assignors takes two rolling restarts."
    ),
    "INVALID_GROUP_ID": "Set group.id, or do not use what needs a group (subscribe, commits).",
    "UNKNOWN_MEMBER_ID": _MEMBER_GONE,
    "INVALID_SESSION_TIMEOUT": (
        "Keep session.timeout.ms within group.min and group.max.session.timeout.ms of the brokers."
    ),
    "REBALANCE_IN_PROGRESS": (
        "Nothing, if the group comes to rest. If not, see the timeline of the group for who sets it off again and "
        "again."
    ),
    "INVALID_COMMIT_OFFSET_SIZE": "Commit fewer partitions at once, or less metadata.",
    "TOPIC_AUTHORIZATION_FAILED": _GRANT,
    "GROUP_AUTHORIZATION_FAILED": _GRANT,
    "CLUSTER_AUTHORIZATION_FAILED": _GRANT,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _GRANT,
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": _GRANT,
    "INVALID_TIMESTAMP": (
        "Compare the clocks, and message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic."
    ),
    "UNSUPPORTED_SASL_MECHANISM": "Set sasl.mechanism to one that the listener has in sasl.enabled.mechanisms.",
    "ILLEGAL_SASL_STATE": "Compare security.protocol of the client with that of the listener.",
    "UNSUPPORTED_VERSION": (
        "Bring client and broker nearer together in version, or leave out the feature that the broker lacks."
    ),
    "TOPIC_ALREADY_EXISTS": "Nothing, if the application only makes sure that it is there; else choose another name.",
    "INVALID_PARTITIONS": "A topic needs at least one partition, and their number can only grow.",
    "INVALID_REPLICATION_FACTOR": "Ask for at most as many replicas as brokers are up.",
    "INVALID_REPLICA_ASSIGNMENT": "Name each broker once, only existing ones, and equally many for each partition.",
    "INVALID_CONFIG": "The error's message names the configuration and why its value is refused.",
    "NOT_CONTROLLER": "Nothing, if rare: the client looks it up again. If often, the controller keeps moving.",
    "INVALID_REQUEST": "Read the error's message. " + _CLIENT_BUG,
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": (
        "Raise the topic's record format, or leave out headers, timestamps or idempotence."
    ),
    "POLICY_VIOLATION": "The error's message says which rule of create.topic.policy or alter.config.policy it breaks.",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": (
        "Records may be missing: check what was lost. Look for retention shorter than the producer's pauses, for two "
        "producers under one id, or unclean leader elections."
    ),
    "DUPLICATE_SEQUENCE_NUMBER": (
        "Nothing: the batch is there. If often, answers get lost or come late; look at latency."
    ),
    "INVALID_PRODUCER_EPOCH": _FENCED + " It also comes when transaction.timeout.ms ran out and the broker aborted.",
    "INVALID_TXN_STATE": "The application calls in the wrong order, or its transaction was ended by timeout. "
    + _TRANSACTION,
    "INVALID_PRODUCER_ID_MAPPING": (
        "The id was not used for longer than transactional.id.expiration.ms; the producer has to start again."
    ),
    "INVALID_TRANSACTION_TIMEOUT": "Keep transaction.timeout.ms below transaction.max.timeout.ms of the brokers.",
    "CONCURRENT_TRANSACTIONS": (
        "Nothing, if it passes. If it lasts, completing takes long: see the brokers that lead the partitions written "
        "to."
    ),
    "TRANSACTION_COORDINATOR_FENCED": "Nothing on the client; the new coordinator goes on.",
    "SECURITY_DISABLED": "Set authorizer.class.name on the brokers, or do not manage ACLs.",
    "OPERATION_NOT_ATTEMPTED": "Repair the other error of the same request; this part can be sent again.",
    "KAFKA_STORAGE_ERROR": "Look at the broker's disks and its log: a log directory has failed.",
    "LOG_DIR_NOT_FOUND": "Compare the directory with log.dirs of the broker.",
    "SASL_AUTHENTICATION_FAILED": (
        "Check user and password or token, and for Kerberos the clocks. The broker's log says more than the client "
        "is told."
    ),
    "UNKNOWN_PRODUCER_ID": (
        "Raise retention or producer.id.expiration.ms; producers since 2.5 start again by themselves."
    ),
    "REASSIGNMENT_IN_PROGRESS": "Wait for the move, or cancel it with kafka-reassign-partitions.sh.",
    "DELEGATION_TOKEN_AUTH_DISABLED": _TOKENS,
    "DELEGATION_TOKEN_NOT_FOUND": _TOKENS,
    "DELEGATION_TOKEN_OWNER_MISMATCH": _TOKENS,
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "Ask for tokens over a connection that did not authenticate with one.",
    "DELEGATION_TOKEN_EXPIRED": "Renew tokens in time, or make a new one.",
    "NON_EMPTY_GROUP": "Stop all members first; the group is empty when their sessions have ended.",
    "GROUP_ID_NOT_FOUND": "Check the name, and of which kind the group is (classic, consumer, share, streams).",
    "FETCH_SESSION_ID_NOT_FOUND": _NEW_SESSION,
    "INVALID_FETCH_SESSION_EPOCH": _NEW_SESSION,
    "FETCH_SESSION_TOPIC_ID_ERROR": _NEW_SESSION,
    "LISTENER_NOT_FOUND": "Give all brokers the same listener names.",
    "TOPIC_DELETION_DISABLED": "Set delete.topic.enable on the brokers.",
    "FENCED_LEADER_EPOCH": _METADATA,
    "UNKNOWN_LEADER_EPOCH": _METADATA,
    "UNSUPPORTED_COMPRESSION_TYPE": "Update the client: zstd needs Produce 7 and Fetch 10, which came with Kafka 2.1.",
    "STALE_BROKER_EPOCH": "Nothing: the broker registers anew. If it goes on, two brokers share a node.id.",
    "OFFSET_NOT_AVAILABLE": "Nothing, if it stops within seconds of an election.",
    "MEMBER_ID_REQUIRED": (
        "Nothing. If there are very many, members join again and again: see the timeline of the group."
    ),
    "PREFERRED_LEADER_NOT_AVAILABLE": "Bring the preferred replica's broker back first.",
    "GROUP_MAX_SIZE_REACHED": "Start fewer members, or raise group.max.size (consumer: group.consumer.max.size).",
    "FENCED_INSTANCE_ID": (
        "Give each process a group.instance.id of its own. If a new one replaced the old on purpose, stop the old."
    ),
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": "Bring an in-sync replica back; an unclean election loses records.",
    "ELECTION_NOT_NEEDED": "Nothing.",
    "NO_REASSIGNMENT_IN_PROGRESS": "Nothing: there is no move to cancel.",
    "GROUP_SUBSCRIBED_TO_TOPIC": "Have the members drop the topic first, then delete its offsets.",
    "INVALID_RECORD": "The errors by record in the answer say which one, and why.",
    "UNSTABLE_OFFSET_COMMIT": (
        "If it lasts, a transaction that commits offsets hangs: find it with kafka-transactions.sh find-hanging."
    ),
    "THROTTLING_QUOTA_EXCEEDED": "Send less, or raise the quota (controller_mutation_rate) for this user or client.",
    "PRODUCER_FENCED": _FENCED,
    "RESOURCE_NOT_FOUND": "Check the name in the request.",
    "DUPLICATE_RESOURCE": "Name each thing once in a request.",
    "UNACCEPTABLE_CREDENTIAL": "Choose a longer password or more iterations (at least 4096 for SCRAM).",
    "INCONSISTENT_VOTER_SET": _QUORUM,
    "INVALID_UPDATE_VERSION": "See with kafka-features.sh describe which levels all brokers support.",
    "FEATURE_UPDATE_FAILED": "The error's message says which broker is in the way.",
    "SNAPSHOT_NOT_FOUND": "Nothing: the follower asks for the newer one.",
    "UNKNOWN_TOPIC_ID": (
        "Nothing, if it stops: the client renews its metadata. If it stays, the topic was deleted, or brokers lag "
        "behind "
        "the controller."
    ),
    "DUPLICATE_BROKER_REGISTRATION": (
        "Give each broker a node.id of its own; after a crash wait for broker.session.timeout.ms."
    ),
    "BROKER_ID_NOT_REGISTERED": "Check node.id, and that the broker reaches the controllers.",
    "INCONSISTENT_TOPIC_ID": "The topic was made again: restart clients that do not notice by themselves.",
    "INCONSISTENT_CLUSTER_ID": "Check bootstrap.servers: the client talks to another cluster than it did.",
    "TRANSACTIONAL_ID_NOT_FOUND": "Check the name; ids that are not used expire after transactional.id.expiration.ms.",
    "INELIGIBLE_REPLICA": "Nothing: the leader asks again when the replica's broker is back.",
    "NEW_LEADER_ELECTED": "Nothing: the leader learns of it.",
    "OFFSET_MOVED_TO_TIERED_STORAGE": "Nothing: followers go on from where the local log starts.",
    "FENCED_MEMBER_EPOCH": _MEMBER_GONE,
    "UNRELEASED_INSTANCE_ID": (
        "Wait for the old process to leave or for its session to end; if both are meant to run, give each its own "
        "group.instance.id."
    ),
    "UNSUPPORTED_ASSIGNOR": "Use one of group.consumer.assignors of the brokers (uniform, range), or leave it to them.",
    "STALE_MEMBER_EPOCH": "Nothing, if rare. If a commit is refused for it again and again, heartbeats come too late.",
    "MISMATCHED_ENDPOINT_TYPE": "Use --bootstrap-server for brokers, --bootstrap-controller for controllers.",
    "UNSUPPORTED_ENDPOINT_TYPE": "Use the brokers' address instead of the controllers'.",
    "UNKNOWN_SUBSCRIPTION_ID": "Nothing: the client asks for the new subscription.",
    "TELEMETRY_TOO_LARGE": "Subscribe to fewer metrics, or raise telemetry.max.bytes.",
    "INVALID_REGISTRATION": "The controller's log says what of the registration it refuses.",
    "TRANSACTION_ABORTABLE": _TRANSACTION,
    "INVALID_RECORD_STATE": (
        "Acknowledge within group.share.record.lock.duration.ms: later the record has gone to another member."
    ),
    "SHARE_SESSION_NOT_FOUND": "Nothing, if rare: a new session is started.",
    "INVALID_SHARE_SESSION_EPOCH": "Nothing, if rare: a new session is started.",
    "SHARE_SESSION_LIMIT_REACHED": "Have fewer share consumers on a broker, or raise group.share.max.share.sessions.",
    "FENCED_STATE_EPOCH": "Nothing: the partition's new leader goes on.",
    "INVALID_VOTER_KEY": _QUORUM,
    "DUPLICATE_VOTER": _QUORUM,
    "VOTER_NOT_FOUND": _QUORUM,
    "INVALID_REGULAR_EXPRESSION": "Brokers read it as RE2: no look-around and no back references.",
    "REBOOTSTRAP_REQUIRED": "Nothing: the client starts again from bootstrap.servers; keep those up to date.",
    "STREAMS_INVALID_TOPOLOGY": (
        "Check the topics that the topology names, and that sub-topologies agree on partitions."
    ),
    "STREAMS_INVALID_TOPOLOGY_EPOCH": "Update all instances to one version of the application.",
    "STREAMS_TOPOLOGY_FENCED": "Update this instance: others of the application run a newer topology.",
}
ADVICE: Mapping[str, str] = MappingProxyType(_ADVICE)

_RETRIABLE = "Clients try again by themselves; if it lasts, look into the broker's log at this time."
_FINAL = "Trying again does not help; look at the error's message, the request's body, and the broker's log."


def advice_on(error: str, *, retriable: bool) -> str:
    """What to do about an error, by its name; what holds for all of its kind where there is nothing better."""
    return ADVICE.get(error, _RETRIABLE if retriable else _FINAL)
