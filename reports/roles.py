"""What the fields of messages mean to the tables: the role of each field id, whatever its API."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from decoders import apis
from decoders.program import KIND_STRING, KIND_UUID, FieldTable, Programs

# Roles that a field has in any message.
(
    NO_ROLE,
    ERROR_CODE,
    TOP_ERROR_CODE,
    THROTTLE_TIME,
    ERROR_MESSAGE,
    ACKNOWLEDGE_ERROR_MESSAGE,
    TOPIC,
    TOPIC_ID,
    PARTITION,
    GROUP_ID,
    MEMBER_ID,
) = range(11)
ROLES = 11

# What a partition of Produce, Fetch, ShareFetch and FetchSnapshot says: the columns of `tape_rows.partition_rows`.
(
    SLOT_PARTITION,
    SLOT_TOPIC,
    SLOT_TOPIC_ID,
    SLOT_RECORDS,
    SLOT_ERROR_CODE,
    SLOT_FETCH_OFFSET,
    SLOT_BASE_OFFSET,
    SLOT_LOG_APPEND_TIME,
    SLOT_HIGH_WATERMARK,
    SLOT_LAST_STABLE_OFFSET,
    SLOT_LOG_START_OFFSET,
) = range(11)
SLOTS = 11
# Marks of the elements that hold those fields, beside the slots.
NO_SLOT, TOPIC_ELEMENT, PARTITION_ELEMENT = -1, 100, 101

# The elements that stand for topics and for partitions, by (API, response).
_PARTITION_ELEMENTS = {
    (apis.PRODUCE, False): ("topicData[]", "topicData[].partitionData[]"),
    (apis.PRODUCE, True): ("responses[]", "responses[].partitionResponses[]"),
    (apis.FETCH, False): ("topics[]", "topics[].partitions[]"),
    (apis.FETCH, True): ("responses[]", "responses[].partitions[]"),
    (apis.SHARE_FETCH, True): ("responses[]", "responses[].partitions[]"),
    (apis.FETCH_SNAPSHOT, True): ("topics[]", "topics[].partitions[]"),
}
_TOPIC_SLOTS = {"name": SLOT_TOPIC, "topic": SLOT_TOPIC, "topicId": SLOT_TOPIC_ID}
_PARTITION_SLOTS = {
    "index": SLOT_PARTITION,
    "partition": SLOT_PARTITION,
    "partitionIndex": SLOT_PARTITION,
    "records": SLOT_RECORDS,
    "unalignedRecords": SLOT_RECORDS,
    "errorCode": SLOT_ERROR_CODE,
    "fetchOffset": SLOT_FETCH_OFFSET,
    "baseOffset": SLOT_BASE_OFFSET,
    "logAppendTimeMs": SLOT_LOG_APPEND_TIME,
    "highWatermark": SLOT_HIGH_WATERMARK,
    "lastStableOffset": SLOT_LAST_STABLE_OFFSET,
    "logStartOffset": SLOT_LOG_START_OFFSET,
}
# No two APIs agree on what a partition's number is called, and no entity type tells it.
_PARTITION_NAMES = frozenset({"partition", "partitionIndex", "partitionId", "index"})
_MESSAGES = {"errorMessage": ERROR_MESSAGE, "acknowledgeErrorMessage": ACKNOWLEDGE_ERROR_MESSAGE}
MESSAGE_OF_CODE = {"errorCode": ERROR_MESSAGE, "acknowledgeErrorCode": ACKNOWLEDGE_ERROR_MESSAGE}


@dataclass(frozen=True, slots=True)
class Roles:
    """Tables by field id."""

    role: NDArray[np.int8]
    slot: NDArray[np.int8]


def roles(programs: Programs) -> Roles:
    """The role and the slot of each field id of the programs."""
    fields = programs.fields
    slot = np.full(len(fields), NO_SLOT, np.int8)
    for (api_key, response), (topic, partition) in _PARTITION_ELEMENTS.items():
        slot[programs.field_id(api_key, response, topic)] = TOPIC_ELEMENT
        slot[programs.field_id(api_key, response, partition)] = PARTITION_ELEMENT
        for names, prefix in ((_TOPIC_SLOTS, topic), (_PARTITION_SLOTS, partition)):
            for name, number in names.items():
                field = programs.field_id(api_key, response, f"{prefix}.{name}")
                if field >= 0:
                    slot[field] = number
    return Roles(np.array([_role(fields, field) for field in range(len(fields))], np.int8), slot)


def _role(fields: FieldTable, field: int) -> int:
    name, path, kind = fields.name[field], fields.path[field], fields.kind[field]
    if fields.api_key[field] < 0:
        return NO_ROLE
    if fields.is_error_code[field] and fields.is_response[field]:
        return ERROR_CODE if "." in path else TOP_ERROR_CODE
    if path == "throttleTimeMs":
        return THROTTLE_TIME
    if kind == KIND_STRING:
        if fields.entity_type[field] == "groupId" or path.endswith("groupId"):
            return GROUP_ID
        if path.endswith("[]"):
            return NO_ROLE
        if name == "memberId":
            return MEMBER_ID
        if fields.entity_type[field] == "topicName":
            return TOPIC
        return _MESSAGES.get(name, NO_ROLE)
    if kind == KIND_UUID and name == "topicId":
        return TOPIC_ID
    if fields.type[field] == "int32" and name in _PARTITION_NAMES:
        return PARTITION
    return NO_ROLE
