"""Every kind of incident, what it means, and what incidents are about."""

from __future__ import annotations

from enum import StrEnum


class IncidentKind(StrEnum):
    """What broke, or what was done."""

    BROKER_DOWN = "broker_down"
    BROKER_RESTARTED = "broker_restarted"
    BROKER_STALLED = "broker_stalled"
    ADDRESS_TAKEN = "address_taken"
    BROKER_REFUSED = "broker_refused"
    STORAGE_FAILED = "storage_failed"
    COORDINATOR_MISSING = "coordinator_missing"
    CLIENT_DIED = "client_died"
    CLIENT_RESTARTING = "client_restarting"
    APPLICATION_STOPPED = "application_stopped"
    CLIENT_FROZEN = "client_frozen"
    CLIENT_UNREACHABLE = "client_unreachable"
    SLOW_PROCESSING = "slow_processing"
    SLOW_REVOCATION = "slow_revocation"
    JOIN_REFUSED = "join_refused"
    GROUP_SHARED = "group_shared"
    NETWORK_LOSS = "network_loss"
    NETWORK_DELAY = "network_delay"
    PATH_BLOCKED = "path_blocked"
    CONNECTION_DROPPED = "connection_dropped"
    THROTTLED = "throttled"
    UNREACHABLE_LISTENER = "unreachable_listener"
    AUTHENTICATION_FAILED = "authentication_failed"
    AUTHORIZATION_FAILED = "authorization_failed"
    TLS_MISMATCH = "tls_mismatch"
    TLS_FAILED = "tls_failed"
    UNKNOWN_TOPIC = "unknown_topic"
    RECORD_TOO_LARGE = "record_too_large"
    TOO_FEW_REPLICAS = "too_few_replicas"
    REQUEST_REFUSED = "request_refused"
    RECORDS_LOST = "records_lost"
    RECORDS_GIVEN_UP = "records_given_up"
    OFFSETS_LOST = "offsets_lost"
    HUNG_TRANSACTION = "hung_transaction"
    PRODUCER_FENCED = "producer_fenced"
    CONSUMER_STUCK = "consumer_stuck"
    CONSUMER_LAGGING = "consumer_lagging"
    TIMEOUT_TOO_SHORT = "timeout_too_short"
    CONNECTION_STORM = "connection_storm"
    TURNED_AWAY = "turned_away"
    CLIENT_TOO_OLD = "client_too_old"
    CLIENT_DEPLOY = "client_deploy"
    ADMIN_ACTION = "admin_action"
    GROUP_MIGRATED = "group_migrated"


class Role(StrEnum):
    """What a subject of an incident is."""

    BROKER = "broker"  # by node id
    CLIENT = "client"  # by client id
    HOST = "host"  # of a broker or a client, by address
    GROUP = "group"
    TOPIC = "topic"
    CONNECTION = "connection"


INCIDENT_KINDS: dict[IncidentKind, str] = {
    IncidentKind.BROKER_DOWN: "a broker went away without notice: its process was killed or crashed, or its "
    "host is off",
    IncidentKind.BROKER_RESTARTED: "a broker was shut down in an orderly way, after its leaders had moved",
    IncidentKind.BROKER_STALLED: "a broker answered nobody for a while, or took long over its answers or over what it "
    "replicates, though its host acknowledged what it was sent",
    IncidentKind.ADDRESS_TAKEN: "another broker, of another cluster as far as is known, answers at a broker's address",
    IncidentKind.BROKER_REFUSED: "a broker may not join its cluster: another one has its node id, or it is of another "
    "cluster",
    IncidentKind.STORAGE_FAILED: "a broker cannot use a log directory: its disk is full or broken",
    IncidentKind.COORDINATOR_MISSING: "groups, or producers with transactions, have no coordinator, or producers are "
    "given no ids: nobody can join, commit or begin",
    IncidentKind.CLIENT_DIED: "a member's process ended without leaving its group",
    IncidentKind.CLIENT_RESTARTING: "a member ends in an orderly way and is started anew, again and again",
    IncidentKind.APPLICATION_STOPPED: "a Streams application ended altogether, as one of its instances had it end",
    IncidentKind.CLIENT_FROZEN: "a member fell silent while its host went on to acknowledge what it was sent",
    IncidentKind.CLIENT_UNREACHABLE: "a client's host was cut off: nothing came of it, not even acknowledgements",
    IncidentKind.SLOW_PROCESSING: "an application takes longer over its records than its settings allow",
    IncidentKind.SLOW_REVOCATION: "a member does not give up its partitions in time for the rebalance, or its "
    "leader takes long to assign them",
    IncidentKind.JOIN_REFUSED: "clients cannot join their group, and trying again does not mend it",
    IncidentKind.GROUP_SHARED: "applications that read different topics use one group id: what one does has "
    "the members of the others rebalance",
    IncidentKind.NETWORK_LOSS: "packets are lost on the way to or from a host",
    IncidentKind.NETWORK_DELAY: "packets take much longer to a host than at other times",
    IncidentKind.PATH_BLOCKED: "all packets between two hosts vanish, or all that are large, though both hosts live",
    IncidentKind.CONNECTION_DROPPED: "connections went dead without a word, while others between the same hosts work: "
    "something in between forgot them",
    IncidentKind.THROTTLED: "a quota holds a client back",
    IncidentKind.UNREACHABLE_LISTENER: "brokers advertise an address at which clients cannot reach them, or a "
    "client looks for them where none is",
    IncidentKind.AUTHENTICATION_FAILED: "a client's credentials are refused",
    IncidentKind.AUTHORIZATION_FAILED: "a client lacks a permission that it needs",
    IncidentKind.TLS_MISMATCH: "a client without TLS on a port with TLS, or the reverse",
    IncidentKind.TLS_FAILED: "TLS handshakes that one side ends: a certificate that is not trusted, has expired or is "
    "for another name, or no version in common",
    IncidentKind.UNKNOWN_TOPIC: "clients ask for a topic that does not exist",
    IncidentKind.RECORD_TOO_LARGE: "records are refused because they are larger than the topic or the broker allows",
    IncidentKind.TOO_FEW_REPLICAS: "records are refused because fewer replicas are in sync than the topic demands",
    IncidentKind.REQUEST_REFUSED: "a client's writes, commits or transactions are refused, and trying again does not "
    "mend it",
    IncidentKind.RECORDS_LOST: "records that had been confirmed are gone: a broker gives their offsets to others",
    IncidentKind.RECORDS_GIVEN_UP: "a share group rejects records, or releases them until none of them is delivered "
    "again",
    IncidentKind.OFFSETS_LOST: "a consumer does not read records: its position is gone, as they were deleted or what "
    "its group had committed is not there any more, or it begins behind them",
    IncidentKind.HUNG_TRANSACTION: "a transaction stays open, and holds back who reads committed records",
    IncidentKind.PRODUCER_FENCED: "processes use one transactional id, and one fences the other",
    IncidentKind.CONSUMER_STUCK: "a consumer does not get past a record: it is sent the same ones again and again, or "
    "lives and asks for no more",
    IncidentKind.CONSUMER_LAGGING: "a group reads more slowly than is written, and falls behind",
    IncidentKind.TIMEOUT_TOO_SHORT: "a client gives up on requests before they can be answered, and connects anew",
    IncidentKind.CONNECTION_STORM: "a client opens a connection for each request or so",
    IncidentKind.TURNED_AWAY: "a broker closes a client's connections before it answers anything, while others are "
    "served",
    IncidentKind.CLIENT_TOO_OLD: "a client is too old: brokers close the connection at versions of requests that they "
    "do not know any more, or may not give it records in zstd",
    IncidentKind.CLIENT_DEPLOY: "members of a group were replaced one after the other, each leaving in an orderly way",
    IncidentKind.ADMIN_ACTION: "an administrator changed something",
    IncidentKind.GROUP_MIGRATED: "a group changed its protocol",
}

PLANNED = frozenset({IncidentKind.CLIENT_DEPLOY, IncidentKind.ADMIN_ACTION, IncidentKind.GROUP_MIGRATED})
"""Work that somebody means to do: no trouble by itself."""
