"""What offsets groups commit and have committed, and where partitions end, as requests and their answers tell.

Facts of the protocol: OffsetCommit, TxnOffsetCommit, OffsetFetch and ListOffsets of Kafka's message definitions; an
OffsetFetch answers -1 where nothing is committed; in ListOffsets the timestamp -1 asks for the end (latest).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import apis
from kafkascope.reports.columns.arrow import numbers, times
from kafkascope.reports.rows.bodies import Bodies
from kafkascope.reports.rows.error_table import error_names
from kafkascope.reports.rows.partitions import Partitions, TopicCodes, partners, read_partitions
from kafkascope.reports.rows.roles import (
    GROUP_ID,
    MEMBER_ID,
    SLOT_ERROR_CODE,
    SLOT_GROUP,
    SLOT_PARTITION,
    SLOT_TIMESTAMP,
    SLOT_TOLD_OFFSET,
)
from kafkascope.reports.vocabulary.tables import TOLD_OFFSETS
from kafkascope.sniffer.columns import I64, NO_TIME

_COMMITS = (apis.OFFSET_COMMIT, apis.TXN_OFFSET_COMMIT)
_ALL = (*_COMMITS, apis.OFFSET_FETCH, apis.LIST_OFFSETS)
_LATEST = -1
_NO_CODE = -(2**15)


def told_offsets(bodies: Bodies, api: pa.Array, client_id: pa.Array, codes: TopicCodes) -> pa.Table | None:
    """One row a partition and message; api and client_id are columns of the exchanges. None without any.

    A commit that nothing answers is a row without an error: whether the broker took it is not known.
    """
    api_key = bodies.exchanges.api_key
    frames = np.flatnonzero(np.isin(api_key, _ALL))
    if not len(frames):
        return None
    asked = read_partitions(bodies.requests, frames, bodies.roles.slot, codes)
    told = read_partitions(bodies.responses, frames, bodies.roles.slot, codes)
    # What is committed stands in the request, all else in the answer; the other side has the error, and what was asked.
    commit = np.flatnonzero(np.isin(api_key[asked.exchange], _COMMITS))
    answer_of_commit = partners(asked, told)[commit]
    answer = np.flatnonzero(~np.isin(api_key[told.exchange], _COMMITS))
    question = partners(told, asked)[answer]
    timestamp = np.where(question >= 0, _at(asked.number(SLOT_TIMESTAMP, 0), question), 0)
    is_end = api_key[told.exchange[answer]] == apis.LIST_OFFSETS
    answer = answer[~is_end | (timestamp == _LATEST)]

    error_of_commit = np.where(
        answer_of_commit >= 0, _at(told.number(SLOT_ERROR_CODE, _NO_CODE), answer_of_commit), _NO_CODE
    )
    parts = [
        _rows(bodies, api, client_id, asked, commit, error_of_commit),
        _rows(bodies, api, client_id, told, answer, told.number(SLOT_ERROR_CODE, _NO_CODE)[answer]),
    ]
    table = pa.concat_tables(parts)
    return table if table.num_rows else None


def _at(values: I64, places: I64) -> I64:
    """The values at places; anything where a place is -1."""
    return values[places] if len(values) else np.zeros(len(places), np.int64)


def _rows(bodies: Bodies, api: pa.Array, client_id: pa.Array, side: Partitions, rows: I64, error: I64) -> pa.Table:
    there = (side.rows[SLOT_PARTITION, rows] >= 0) & (side.rows[SLOT_TOLD_OFFSET, rows] >= 0)
    rows, error = rows[there], error[there]
    exchanges, exchange = bodies.exchanges, side.exchange[rows]
    offset = side.number(SLOT_TOLD_OFFSET, -1)[rows]
    listed = side.tape.strings(side.rows[SLOT_GROUP, rows])
    answered = exchanges.answered[exchange]
    place = pa.array(exchange)
    return pa.table(
        {
            "connection": exchanges.connection[exchange],
            "number": exchanges.number[exchange],
            "at": times(np.where(answered == NO_TIME, exchanges.requested[exchange], answered)),
            "api": api.take(place),
            "client_id": client_id.take(place),
            "group_id": pc.coalesce(listed, bodies.requests.strings(bodies.first_in_requests[exchange, GROUP_ID])),
            "member_id": bodies.requests.strings(bodies.first_in_requests[exchange, MEMBER_ID]),
            "topic": side.topic.take(pa.array(rows)),
            "partition": numbers(side.partition[rows], pa.int32()),
            "offset": numbers(offset, pa.int64(), offset >= 0),
            "error": pc.if_else(pa.array(error == _NO_CODE), pa.scalar(None, pa.string()), error_names(error)),
        },
        schema=TOLD_OFFSETS,
    )
