"""Names for numbers in messages: error codes, APIs, and the enumerations of the protocol.

Enumerations are those of Kafka's classes (ConfigResource.Type, AclOperation, ElectionType, ...), and of the comments in
its message definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kafkascope.decoders import apis, errors
from kafkascope.decoders.compression import CODECS
from kafkascope.decoders.records import (
    CODEC_BITS,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
)

_CONFIG_APIS = (32, 33, 44, 74)
_ACL_APIS = (29, 30, 31)
_ACL_RESOURCES = dict(
    enumerate(("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"))
)
_CONFIG_RESOURCES = {0: "UNKNOWN", 2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
_PATTERNS = dict(enumerate(("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")))
_OPERATIONS = dict(
    enumerate(
        (
            "UNKNOWN",
            "ANY",
            "ALL",
            "READ",
            "WRITE",
            "CREATE",
            "DELETE",
            "ALTER",
            "DESCRIBE",
            "CLUSTER_ACTION",
            "DESCRIBE_CONFIGS",
            "ALTER_CONFIGS",
            "IDEMPOTENT_WRITE",
            "CREATE_TOKENS",
            "DESCRIBE_TOKENS",
            "TWO_PHASE_COMMIT",
        )
    )
)
_CONFIG_SOURCES = dict(
    enumerate(
        (
            "UNKNOWN",
            "TOPIC_CONFIG",
            "DYNAMIC_BROKER_CONFIG",
            "DYNAMIC_DEFAULT_BROKER_CONFIG",
            "STATIC_BROKER_CONFIG",
            "DEFAULT_CONFIG",
            "DYNAMIC_BROKER_LOGGER_CONFIG",
            "CLIENT_METRICS_CONFIG",
            "GROUP_CONFIG",
        )
    )
)
_TOPOLOGY_NODES = {1: "SOURCE", 2: "PROCESSOR", 3: "SINK"}
_STREAMS_STATUSES = dict(
    enumerate(
        (
            "STALE_TOPOLOGY",
            "MISSING_SOURCE_TOPICS",
            "INCORRECTLY_PARTITIONED_TOPICS",
            "MISSING_INTERNAL_TOPICS",
            "SHUTDOWN_APPLICATION",
            "ASSIGNMENT_DELAYED",
            "MISSING_CLIENT_TAGS",
        )
    )
)
_CONFIG_TYPES = dict(
    enumerate(("UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"))
)

_FIELDS: Mapping[tuple[int, str], Mapping[int, str]] = MappingProxyType(
    {
        (0, "acks"): {-1: "all in-sync replicas", 0: "no answer", 1: "leader alone"},
        (1, "isolationLevel"): {0: "READ_UNCOMMITTED", 1: "READ_COMMITTED"},
        (2, "isolationLevel"): {0: "READ_UNCOMMITTED", 1: "READ_COMMITTED"},
        (2, "timestamp"): {
            -1: "LATEST",
            -2: "EARLIEST",
            -3: "MAX_TIMESTAMP",
            -4: "EARLIEST_LOCAL",
            -5: "LATEST_TIERED",
            -6: "EARLIEST_PENDING_UPLOAD",
        },
        (10, "keyType"): {0: "GROUP", 1: "TRANSACTION", 2: "SHARE"},
        (32, "configSource"): _CONFIG_SOURCES,
        (32, "source"): _CONFIG_SOURCES,
        (32, "configType"): _CONFIG_TYPES,
        (43, "electionType"): {0: "PREFERRED", 1: "UNCLEAN"},
        (44, "configOperation"): {0: "SET", 1: "DELETE", 2: "APPEND", 3: "SUBTRACT"},
        (50, "mechanism"): {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"},
        (51, "mechanism"): {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"},
        (57, "upgradeType"): {1: "UPGRADE", 2: "SAFE_DOWNGRADE", 3: "UNSAFE_DOWNGRADE"},
        (60, "endpointType"): {1: "BROKERS", 2: "CONTROLLERS"},
        (71, "acceptedCompressionTypes"): dict(enumerate(CODECS)),
        (72, "compressionType"): dict(enumerate(CODECS)),
        (88, "statusCode"): _STREAMS_STATUSES,
        (89, "nodeType"): _TOPOLOGY_NODES,
        (89, "topologyDescriptionStatus"): dict(enumerate(("NOT_REQUESTED", "NOT_STORED", "ERROR", "AVAILABLE"))),
        (93, "nodeType"): _TOPOLOGY_NODES,
        **{(api, "resourceType"): _CONFIG_RESOURCES for api in _CONFIG_APIS},
        (74, "resourceTypes"): _CONFIG_RESOURCES,
        **{(api, name): _ACL_RESOURCES for api in _ACL_APIS for name in ("resourceType", "resourceTypeFilter")},
        **{
            (api, name): _PATTERNS
            for api in _ACL_APIS
            for name in ("patternType", "patternTypeFilter", "resourcePatternType")
        },
        **{(api, "operation"): _OPERATIONS for api in _ACL_APIS},
        **{(api, "permissionType"): {0: "UNKNOWN", 1: "ANY", 2: "DENY", 3: "ALLOW"} for api in _ACL_APIS},
    }
)


def name_of_value(api_key: int, field: str, value: int) -> str | None:
    """What a number in a message of an API stands for; None where numbers of the field have no names."""
    if field.lower().endswith("errorcode"):
        return errors.name_of(value)
    if field in ("apiKey", "requestApiKey"):
        return apis.name_of(value)
    return _FIELDS.get((api_key, field), {}).get(value)


def attributes_of_batch(attributes: int) -> str:
    """What the attributes of a record batch of magic 2 say: ``gzip, transactional``."""
    bits = (
        (LOG_APPEND_TIME_BIT, "log append time"),
        (TRANSACTIONAL_BIT, "transactional"),
        (CONTROL_BIT, "control"),
        (DELETE_HORIZON_BIT, "delete horizon"),
    )
    return ", ".join([CODECS[attributes & CODEC_BITS], *(word for bit, word in bits if attributes & bit)])
