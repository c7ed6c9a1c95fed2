from __future__ import annotations

import numpy as np

from kafkascope.decoders.program import programs
from kafkascope.reports.rows.roles import (
    ERROR_CODE,
    PARTITION_ELEMENT,
    SLOT_GROUP,
    SLOT_PARTITION,
    SLOT_RECORDS,
    SLOT_TOPIC,
    SLOT_TOPIC_ID,
    TOP_ERROR_CODE,
    TOPIC_ELEMENT,
    roles,
)

PROGRAMS = programs()
FIELDS = PROGRAMS.fields
ROLES = roles(PROGRAMS)


def test_every_error_code_of_a_response_has_its_role() -> None:
    has = np.isin(ROLES.role, (ERROR_CODE, TOP_ERROR_CODE))
    named = [
        field
        for field in range(len(FIELDS))
        if FIELDS.is_response[field]
        and FIELDS.type[field] == "int16"
        and FIELDS.name[field].lower().endswith("errorcode")
    ]
    assert np.flatnonzero(has).tolist() == named
    assert {FIELDS.path[field] for field in np.flatnonzero(ROLES.role == TOP_ERROR_CODE)} == {"errorCode"}


def test_every_field_of_record_batches_has_its_slot() -> None:
    batches = {
        (FIELDS.api_key[field], FIELDS.path[field]) for field in range(len(FIELDS)) if FIELDS.type[field] == "records"
    }
    assert {
        (FIELDS.api_key[field], FIELDS.path[field]) for field in np.flatnonzero(ROLES.slot == SLOT_RECORDS)
    } == batches


def test_a_topic_is_told_before_its_partitions_in_every_version() -> None:
    looked_at = 0
    for entry, name in zip(PROGRAMS.entry.tolist(), PROGRAMS.message, strict=True):
        partitions_begun = False
        row = entry
        following = PROGRAMS.entry[PROGRAMS.entry > entry]
        last = int(following.min()) if len(following) else len(PROGRAMS.rows)
        for field in PROGRAMS.rows[row:last, 1].tolist():
            slot = ROLES.slot[field]
            element = ROLES.slot[field + 1] if field + 1 < len(FIELDS) else -1
            if element == TOPIC_ELEMENT:
                partitions_begun = False
            elif element == PARTITION_ELEMENT:
                partitions_begun = True
            elif slot in (SLOT_TOPIC, SLOT_TOPIC_ID):
                looked_at += 1
                assert not partitions_begun, name
    assert looked_at > 50


def test_a_group_is_told_before_its_topics_in_every_version() -> None:
    looked_at = 0
    for entry in PROGRAMS.entry.tolist():
        following = PROGRAMS.entry[PROGRAMS.entry > entry]
        last = int(following.min()) if len(following) else len(PROGRAMS.rows)
        slots = [ROLES.slot[field] for field in PROGRAMS.rows[entry:last, 1].tolist()]
        if SLOT_GROUP in slots:
            looked_at += 1
            assert slots.index(SLOT_GROUP) < slots.index(SLOT_PARTITION)
    assert looked_at >= 2
