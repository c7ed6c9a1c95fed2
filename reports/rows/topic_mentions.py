"""The topics that an exchange names, anywhere in its request or response."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.tape import Tape
from kafkascope.reports.columns.arrow import Numbers, dictionary_codes, one_array
from kafkascope.reports.columns.topics import ID_PREFIX, NO_ID, TopicNames
from kafkascope.reports.rows.bodies import Bodies
from kafkascope.reports.rows.roles import TOPIC, TOPIC_ID

TOPICS = pa.field("topics", pa.list_(pa.string()))


def topic_mentions(bodies: Bodies, names: TopicNames) -> pa.Array:
    """For each exchange its distinct topics in the order in which they are named, list of string."""
    found = [_named(tape, bodies) for tape in (bodies.requests, bodies.responses)]
    frames = np.concatenate([frame for frame, _ in found])
    texts = names.resolve_topics(pa.concat_arrays([text for _, text in found]))
    codes, distinct = dictionary_codes(texts)
    there = codes >= 0
    frames, codes = frames[there], codes[there]
    _, first = np.unique(frames * (len(distinct) + 1) + codes, return_index=True)
    first = first[np.lexsort((first, frames[first]))]
    counts = np.bincount(frames[first], minlength=len(bodies.exchanges.number))
    offsets = np.concatenate(([0], np.cumsum(counts)))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), distinct.take(pa.array(codes[first])))


def resolve_mentions(table: pa.Table, names: TopicNames) -> pa.Table:
    """The table with names for those ids in its column of topics that are known by now."""
    place = table.schema.get_field_index(TOPICS.name)
    if place < 0:
        return table
    lists = one_array(table.column(place))
    offsets = np.concatenate(([0], np.cumsum(pc.list_value_length(lists).to_numpy())))
    resolved = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), names.resolve_topics(lists.flatten()))
    return table.set_column(place, TOPICS, resolved)


def _named(tape: Tape, bodies: Bodies) -> tuple[Numbers, pa.Array]:
    """Frame and text of each topic on the tape, the ids among them as topics are written by id."""
    what = bodies.roles.role[tape.field]
    parts = []
    for role in (TOPIC, TOPIC_ID):
        rows = np.flatnonzero(what == role)
        if not len(rows):
            continue
        if role == TOPIC:
            texts = tape.strings(rows)
        else:
            ids = tape.uuids(rows)
            texts = pc.binary_join_element_wise(ID_PREFIX, ids, "")
            texts = pc.if_else(pc.equal(ids, NO_ID), None, texts)
        parts.append((rows, texts))
    if not parts:
        return np.empty(0, np.int64), pa.array([], pa.string())
    rows = np.concatenate([rows for rows, _ in parts])
    order = np.argsort(rows, kind="stable")
    frames = np.searchsorted(tape.frame_start, rows, side="right") - 1
    return frames[order], pa.concat_arrays([texts for _, texts in parts]).take(pa.array(order))
