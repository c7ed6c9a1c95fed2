"""The fields of a batch of exchanges that hold record batches, with what their exchanges say of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafkascope.decoders.record_columns import Fields, scan
from kafkascope.reports.rows.partitions import Partitions
from kafkascope.reports.rows.roles import SLOT_BASE_OFFSET, SLOT_ERROR_CODE, SLOT_LOG_APPEND_TIME, SLOT_RECORDS
from kafkascope.sniffer.columns import I64, Bool, Exchanges


@dataclass(frozen=True, slots=True)
class RecordFields:
    """One row a field that is not null, in order of exchanges."""

    exchange: I64
    start: I64
    end: I64
    produced: Bool  # of a request; else of a response
    row: I64  # of the partition among those of requests if produced, else of responses
    topic: pa.Array
    partition: I64
    base_offset: I64  # what the broker made the first produced record's offset; -1: it did not say
    log_append_time: I64  # milliseconds; what the broker made the produced records' time; -1: it left theirs

    def __len__(self) -> int:
        return len(self.exchange)


def record_fields(asked: Partitions, told: Partitions, partner: I64) -> RecordFields:
    """The fields of requests and responses; partner is that of each partition asked, see `partners`."""
    accepted = told.number(SLOT_ERROR_CODE, 0) == 0
    base_offset = np.where(accepted, told.number(SLOT_BASE_OFFSET, -1), -1)
    log_append_time = np.where(accepted, told.number(SLOT_LOG_APPEND_TIME, -1), -1)
    asked_length, told_length = asked.number(SLOT_RECORDS, -1), told.number(SLOT_RECORDS, -1)
    produced, fetched = np.flatnonzero(asked_length >= 0), np.flatnonzero(told_length >= 0)
    answer = partner[produced]
    none = np.full(len(fetched), -1, np.int64)

    def of_answer(values: I64) -> I64:
        if not len(values):
            return np.full(len(answer), -1, np.int64)
        return np.where(answer >= 0, values[np.maximum(answer, 0)], np.int64(-1))

    exchange = np.concatenate([asked.exchange[produced], told.exchange[fetched]])
    order = np.argsort(exchange, kind="stable")
    start = np.concatenate([asked.place(SLOT_RECORDS)[produced], told.place(SLOT_RECORDS)[fetched]])
    length = np.concatenate([asked_length[produced], told_length[fetched]])
    topic = pa.concat_arrays([asked.topic.take(pa.array(produced)), told.topic.take(pa.array(fetched))])
    return RecordFields(
        exchange[order],
        start[order],
        (start + length)[order],
        (np.arange(len(exchange)) < len(produced))[order],
        np.concatenate([produced, fetched])[order],
        topic.take(pa.array(order)),
        np.concatenate([asked.partition[produced], told.partition[fetched]])[order],
        np.concatenate([of_answer(base_offset), none])[order],
        np.concatenate([of_answer(log_append_time), none])[order],
    )


def scan_fields(exchanges: Exchanges, fields: RecordFields) -> Fields:
    """The batches in the fields."""
    return scan(exchanges.data, fields.start, fields.end)
