"""What the fields of messages mean to the tables: the role of each field id, whatever its API."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkascope.decoders import apis
from kafkascope.decoders.program import KIND_STRING, KIND_UUID, FieldTable, Programs

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

# What messages say of a partition (those listed in _PARTITION_ELEMENTS): the rows of `tape_rows.partition_rows`.
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
    SLOT_GROUP,
    SLOT_TOLD_OFFSET,
    SLOT_TIMESTAMP,
) = range(14)
SLOTS = 14
# Marks of the elements that hold those fields, beside the slots.
NO_SLOT, TOPIC_ELEMENT, PARTITION_ELEMENT, GROUP_ELEMENT = -1, 100, 101, 102

_IN_TOPICS = ("topics[]", "topics[].partitions[]")
# The elements that stand for topics and for partitions: API, response, topic, partition.
_PARTITION_ELEMENTS = (
    (apis.PRODUCE, False, "topicData[]", "topicData[].partitionData[]"),
    (apis.PRODUCE, True, "responses[]", "responses[].partitionResponses[]"),
    (apis.FETCH, False, *_IN_TOPICS),
    (apis.FETCH, True, "responses[]", "responses[].partitions[]"),
    (apis.SHARE_FETCH, True, "responses[]", "responses[].partitions[]"),
    (apis.FETCH_SNAPSHOT, True, *_IN_TOPICS),
    (apis.LIST_OFFSETS, False, *_IN_TOPICS),
    (apis.LIST_OFFSETS, True, *_IN_TOPICS),
    (apis.OFFSET_COMMIT, False, *_IN_TOPICS),
    (apis.OFFSET_COMMIT, True, *_IN_TOPICS),
    (apis.TXN_OFFSET_COMMIT, False, *_IN_TOPICS),
    (apis.TXN_OFFSET_COMMIT, True, *_IN_TOPICS),
    (apis.OFFSET_FETCH, True, *_IN_TOPICS),  # up to version 7; then of several groups:
    (apis.OFFSET_FETCH, True, "groups[].topics[]", "groups[].topics[].partitions[]"),
)
# Where topics stand in elements of groups: API, response, group, the field that names it.
_GROUP_ELEMENTS = ((apis.OFFSET_FETCH, True, "groups[]", "groups[].groupId"),)
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
    "committedOffset": SLOT_TOLD_OFFSET,
    "offset": SLOT_TOLD_OFFSET,
    "timestamp": SLOT_TIMESTAMP,
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
    for api_key, response, group, group_id in _GROUP_ELEMENTS:
        slot[programs.field_id(api_key, response, group)] = GROUP_ELEMENT
        slot[programs.field_id(api_key, response, group_id)] = SLOT_GROUP
    for api_key, response, topic, partition in _PARTITION_ELEMENTS:
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
