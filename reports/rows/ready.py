"""What lay ready for a fetch when it was made, so that time spent waiting for data can be told from a slow answer.

A broker says in each answer how far a partition can be read (high watermark; last stable offset, for those who ask for
committed records alone). What a later fetch on the connection asks for below that was there already: it had nothing to
wait for.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from kafkascope.decoders import apis
from kafkascope.decoders.record_columns import BatchColumns
from kafkascope.reports.rows.bodies import Bodies
from kafkascope.reports.rows.fetch_positions import UNKNOWN, FetchPositions
from kafkascope.reports.rows.partitions import Partitions
from kafkascope.reports.rows.record_fields import RecordFields
from kafkascope.reports.rows.roles import SLOT_HIGH_WATERMARK, SLOT_LAST_STABLE_OFFSET
from kafkascope.reports.vocabulary.tables import READY
from kafkascope.sniffer.columns import I64


class ReadyData:
    """How far each partition could be read, by connection, as fetch responses told it."""

    def __init__(self) -> None:
        self._readable = FetchPositions()

    def forget(self, connections: Iterable[int]) -> None:
        """Drop what is known of connections that have ended."""
        self._readable.forget(connections)

    def observe(
        self, bodies: Bodies, told: Partitions, fetch_offset: I64, fields: RecordFields, batches: list[BatchColumns]
    ) -> pa.Table | None:
        """A row for each fetch that found data, of which it can be said; None without any.

        fetch_offset is that of each partition of the responses told, `UNKNOWN` for others.
        """
        connection = bodies.exchanges.connection
        high, stable = told.number(SLOT_HIGH_WATERMARK, -1), told.number(SLOT_LAST_STABLE_OFFSET, -1)
        frames = np.arange(len(connection))
        level = bodies.requests.top(frames, bodies.programs.field_id(apis.FETCH, False, "isolationLevel"))
        waits_for_transactions = bodies.requests.numbers(level, 1)[told.exchange] != 0
        readable = np.where((stable >= 0) & waits_for_transactions, np.minimum(high, stable), high)
        told_rows = np.flatnonzero((bodies.exchanges.api_key[told.exchange] == apis.FETCH) & (readable >= 0))
        if not len(told_rows):
            return None
        keys = np.stack([connection[told.exchange], told.topic_code, told.partition])
        time = told.exchange
        next_offset = _next_offsets(len(told), fields, batches)
        found = (fetch_offset != UNKNOWN) & (next_offset >= 0)
        rows = told_rows[found[told_rows]]
        before = self._readable.observe(
            np.stack([*keys[:, told_rows], time[told_rows], readable[told_rows]]),
            np.stack([*keys[:, rows], time[rows] - 1]),  # what was told before its own answer
        )
        known = before != UNKNOWN
        there = np.where(known, np.maximum(before, fetch_offset[rows]) - fetch_offset[rows], 0)
        more = ~known & (next_offset[rows] < readable[rows])
        exchange, place = np.unique(told.exchange[rows], return_inverse=True)
        if not len(exchange):
            return None
        records = np.zeros(len(exchange), np.int64)
        np.add.at(records, place.reshape(-1), there)
        left = np.zeros(len(exchange), np.bool_)
        left[place.reshape(-1)[more]] = True
        columns = [connection[exchange], bodies.exchanges.number[exchange], records, left]
        return pa.table([pa.array(column) for column in columns], schema=READY)


def _next_offsets(partitions: int, fields: RecordFields, batches: list[BatchColumns]) -> I64:
    """The offset behind the last batch that each partition of a response brought; -1 where it brought none."""
    result = np.full(partitions, -1, np.int64)
    for part in batches:
        rows = np.flatnonzero(~fields.produced[part.field])
        np.maximum.at(result, fields.row[part.field[rows]], part.last_offset[rows] + 1)
    return result
