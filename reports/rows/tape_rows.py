"""Which rows of a tape the tables need: one pass over the rows of each frame that matters.

A tape is the columns field (id of each row's field), value and parent (row of the enclosing element, -1 for the
message itself), and frame_start (first row of each frame, and one more); see decoders/tape.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kafkascope.decoders.kernels import allocating
from kafkascope.decoders.tape import Integer
from kafkascope.reports.rows import roles

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

ERRORS = 0
"""Column of `first_rows` that counts a frame's error codes other than 0 (it is no row)."""


@allocating
def first_rows(field: I32, value: I64, frame_start: I64, role: I8) -> I64:
    """The first row of each role in each frame, i64[frames, ROLES]; -1 where there is none.

    Error codes count only if they are not 0. Column ``ERRORS`` is the number of those.
    """
    frames = frame_start.shape[0] - 1
    found = np.full((frames, roles.ROLES), -1, np.int64)
    for frame in range(frames):
        errors = np.int64(0)
        for row in range(frame_start[frame], frame_start[frame + 1]):
            what = role[field[row]]
            if what != 0:
                if what in (roles.ERROR_CODE, roles.TOP_ERROR_CODE):
                    if value[row] == 0:
                        continue
                    errors += 1
                if found[frame, what] < 0:
                    found[frame, what] = row
        found[frame, ERRORS] = errors
    return found


@allocating
def error_rows(field: I32, value: I64, parent: I64, frame_start: I64, role: I8, frames: I64, total: Integer) -> I64:
    """What belongs to each error code other than 0 of the given frames, i64[total, ROLES].

    Column 0 is the row of the code, column ERROR_CODE its frame; those of the other roles are rows of the same
    element or of the nearest enclosing one that has the role (messages: the same only), -1 where there is none.
    """
    found = np.full((total, roles.ROLES), -1, np.int64)
    longest = np.int64(0)
    for frame in frames:
        longest = max(longest, frame_start[frame + 1] - frame_start[frame])
    # Place in the frame of each role's row in the element that begins at a row; the message itself is element 0.
    has = np.empty((longest + 1, roles.ROLES - roles.ERROR_MESSAGE), np.int32)
    n = np.int64(0)
    for frame in frames:
        first = frame_start[frame]
        last = frame_start[frame + 1]
        has[: last - first + 1] = -1
        for row in range(first, last):
            what = role[field[row]]
            if what >= roles.ERROR_MESSAGE:
                element = np.int64(0) if parent[row] < 0 else parent[row] - first + 1
                if has[element, what - roles.ERROR_MESSAGE] < 0:
                    has[element, what - roles.ERROR_MESSAGE] = row - first
        for row in range(first, last):
            what = role[field[row]]
            if what in (roles.ERROR_CODE, roles.TOP_ERROR_CODE) and value[row] != 0 and n < total:
                found[n, 0] = row
                found[n, roles.ERROR_CODE] = frame
                enclosing = np.int64(parent[row])
                own = True
                while True:
                    element = np.int64(0) if enclosing < 0 else enclosing - first + 1
                    for other in range(roles.ERROR_MESSAGE, roles.ROLES):
                        place = has[element, other - roles.ERROR_MESSAGE]
                        if place >= 0 and found[n, other] < 0 and (own or other > roles.ERROR_MESSAGE + 1):
                            found[n, other] = first + place
                    if enclosing < 0:
                        break
                    own = False
                    enclosing = np.int64(parent[enclosing])
                n += 1
    return found[:n]


@allocating
def partition_rows(field: I32, frame_start: I64, slot: I8, frames: I64) -> tuple[I64, I64]:
    """The partitions that the given frames speak of: the frame of each, and the rows of what it says, i64[SLOTS, n].

    A topic's name and id stand before its partitions in every version, and a group's id before its topics (a test holds
    that).
    """
    total = np.int64(0)
    for frame in frames:
        for row in range(frame_start[frame], frame_start[frame + 1]):
            if slot[field[row]] == roles.PARTITION_ELEMENT:
                total += 1
    frame_of = np.empty(total, np.int64)
    found = np.full((roles.SLOTS, total), -1, np.int64)
    n = np.int64(-1)
    for frame in frames:
        group = np.int64(-1)
        topic = np.int64(-1)
        topic_id = np.int64(-1)
        for row in range(frame_start[frame], frame_start[frame + 1]):
            what = slot[field[row]]
            if what < 0:
                continue
            if what == roles.PARTITION_ELEMENT:
                n += 1
                frame_of[n] = frame
                found[roles.SLOT_TOPIC, n] = topic
                found[roles.SLOT_TOPIC_ID, n] = topic_id
                found[roles.SLOT_GROUP, n] = group
            elif what == roles.GROUP_ELEMENT:
                group = np.int64(-1)
            elif what == roles.SLOT_GROUP:
                group = np.int64(row)
            elif what == roles.TOPIC_ELEMENT:
                topic = np.int64(-1)
                topic_id = np.int64(-1)
            elif what == roles.SLOT_TOPIC:
                topic = np.int64(row)
            elif what == roles.SLOT_TOPIC_ID:
                topic_id = np.int64(row)
            else:
                found[what, n] = row
    return frame_of, found


@allocating
def named_ids(field: I32, parent: I64, frame_start: I64, role: I8, frames: I64) -> I64:
    """Rows of topic names and topic ids that stand in one element of the given frames, i64[n, 2]: (name, id)."""
    longest = np.int64(0)
    for frame in frames:
        longest = max(longest, frame_start[frame + 1] - frame_start[frame])
    has = np.empty((longest + 1, 2), np.int64)
    total = np.int64(0)
    for frame in frames:
        for row in range(frame_start[frame], frame_start[frame + 1]):
            if role[field[row]] == roles.TOPIC_ID:
                total += 1
    found = np.empty((total, 2), np.int64)
    n = np.int64(0)
    for frame in frames:
        first = frame_start[frame]
        last = frame_start[frame + 1]
        has[: last - first + 1] = -1
        for row in range(first, last):
            what = role[field[row]]
            if what in (roles.TOPIC, roles.TOPIC_ID):
                element = np.int64(0) if parent[row] < 0 else parent[row] - first + 1
                side = 0 if what == roles.TOPIC else 1
                if has[element, side] < 0:
                    has[element, side] = row
                    if has[element, 1 - side] >= 0:
                        found[n, 0] = has[element, 0]
                        found[n, 1] = has[element, 1]
                        n += 1
    return found[:n]
