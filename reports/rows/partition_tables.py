"""The tables of what travels in partitions: partitions, batches and records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kafkascope.decoders import apis
from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.decoders.record_columns import BatchColumns, read_batches, read_records
from kafkascope.reports.columns.arrow import numbers, times
from kafkascope.reports.columns.files import files_of
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.rows.bodies import Bodies
from kafkascope.reports.rows.error_table import error_names
from kafkascope.reports.rows.fetch_positions import UNKNOWN, FetchPositions
from kafkascope.reports.rows.metadata_log import topics_told
from kafkascope.reports.rows.partitions import Partitions, TopicCodes, partners, read_partitions
from kafkascope.reports.rows.ready import ReadyData
from kafkascope.reports.rows.record_fields import RecordFields, record_fields, scan_fields
from kafkascope.reports.rows.record_tables import are_far, batch_issues, batch_table, record_table
from kafkascope.reports.rows.records_apart import FIELDS_WITH_RECORDS, field_rows
from kafkascope.reports.rows.roles import (
    SLOT_ERROR_CODE,
    SLOT_FETCH_OFFSET,
    SLOT_HIGH_WATERMARK,
    SLOT_LAST_STABLE_OFFSET,
    SLOT_LOG_START_OFFSET,
    SLOT_PARTITION,
    SLOT_RECORDS,
)
from kafkascope.reports.vocabulary.tables import PARTITIONS
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.issues import IssueLog
from kafkascope.sniffer.origins import Origins

if TYPE_CHECKING:
    from kafkascope.decoders.pseudonyms import Pseudonyms

# FetchSnapshot moves a snapshot of the metadata log, in pieces: it has records, but tells nothing of a partition.
_LISTED = (apis.PRODUCE, apis.FETCH, apis.SHARE_FETCH)
_WITH_RECORDS = (*_LISTED, apis.FETCH_SNAPSHOT)


class PartitionTables:
    """Makes those of its tables that are wanted. Keeps what fetch sessions asked for, and what was told them."""

    def __init__(
        self,
        wanted: frozenset[str],
        origins: Origins,
        *,
        reveal_secrets: bool = False,
        secret_names: tuple[str, ...] = (),
        records_here: int | None = None,
        pseudonyms: Pseudonyms | None = None,
        limits: Limits = DEFAULT,
    ) -> None:
        """records_here: of so many bytes the records are read, of others the fields are given; None: of all."""
        self.hands_on = False  # fields where records alone are wanted: who reads them counts what is wrong with batches
        self._pseudonyms = pseudonyms
        self._limits = limits
        self._wanted = wanted
        self._origins = origins
        self._records_left = records_here
        self._secret_names = None if reveal_secrets else secret_names
        self._positions = FetchPositions()
        self._ready = ReadyData()
        self._codes = TopicCodes()

    def forget(self, connections: Iterable[int]) -> None:
        """Drop what is known of connections that have ended."""
        ended = list(connections)
        self._positions.forget(ended)
        self._ready.forget(ended)

    def observe(
        self, bodies: Bodies, api: pa.Array, client_id: pa.Array, topic_names: TopicNames, issues: IssueLog
    ) -> Iterator[dict[str, pa.Table | None]]:
        """The rows of these exchanges, by table: records (or fields) in parts, so that few are held, then all others.

        Damaged batches are counted as issues, names of topics are learned.
        """
        frames = np.flatnonzero(np.isin(bodies.exchanges.api_key, _WITH_RECORDS))
        if not self._wanted or not len(frames):
            return
        asked = read_partitions(bodies.requests, frames, bodies.roles.slot, self._codes)
        told = read_partitions(bodies.responses, frames, bodies.roles.slot, self._codes)
        partner = partners(asked, told)
        fields = record_fields(asked, told, partner)
        limit = self._limits.decompressed_bytes
        told_names = topics_told(bodies.exchanges.data, fields, limit)
        if self._pseudonyms is not None:
            told_names = ((of_id, self._pseudonyms.name(name)) for of_id, name in told_names)
        topic_names.learn(told_names)
        if self.hands_on and self._wanted == {"records"}:  # nobody needs what else is in batches
            yield {FIELDS_WITH_RECORDS: field_rows(bodies.exchanges, fields, client_id)}
            return
        scanned = scan_fields(bodies.exchanges, fields)
        batches: list[BatchColumns] = []
        if self._records_left == 0 or "records" not in self._wanted:
            batches.append(read_batches(scanned, limit=limit))
        if "records" in self._wanted and batches and not are_far(batches[0]):
            yield {FIELDS_WITH_RECORDS: field_rows(bodies.exchanges, fields, client_id)}
        elif "records" in self._wanted:
            batches.clear()
            if self._records_left is not None:
                self._records_left = max(0, self._records_left - int((fields.end - fields.start).sum()))
            before = np.zeros(len(fields), np.int64)
            for chunk in read_records(scanned, limit=limit):  # what is in the clear lasts as long as its chunk
                if not chunk.is_continued:
                    batches.append(chunk.batches)
                rows = record_table(
                    bodies.exchanges, fields, chunk, before, client_id, issues, self._origins, self._secret_names
                )
                if self._pseudonyms is not None and rows is not None:
                    from kafkascope.reports.rows.anonymous import anonymous_records

                    rows = anonymous_records(rows, self._pseudonyms)
                yield {"records": rows}
                del chunk
        tables: dict[str, pa.Table | None] = {}
        if "batches" in self._wanted:
            before = np.zeros(len(fields), np.int64)
            tables["batches"] = _joined(
                [batch_table(bodies.exchanges, fields, part, before, issues, self._origins) for part in batches]
            )
        batch_issues(bodies.exchanges, fields, scanned, batches, issues, self._limits)
        if self._wanted & {"partitions", "ready"}:
            fetch_offset = self._fetch_offsets(bodies, asked, told)
            if "partitions" in self._wanted:
                tables["partitions"] = _partition_table(
                    bodies, api, asked, told, partner, fields, batches, fetch_offset, self._origins
                )
            if "ready" in self._wanted:
                tables["ready"] = self._ready.observe(bodies, told, fetch_offset, fields, batches)
        yield tables

    def _fetch_offsets(self, bodies: Bodies, asked: Partitions, told: Partitions) -> I64:
        """The offset that was asked for, for each partition of a fetch response; `UNKNOWN` for others."""
        exchanges = bodies.exchanges
        has_offset = np.flatnonzero(asked.rows[SLOT_FETCH_OFFSET] >= 0)
        is_fetch = np.flatnonzero(exchanges.api_key[told.exchange] == apis.FETCH)
        result = np.full(len(told), UNKNOWN)
        unread = np.flatnonzero((exchanges.api_key == apis.FETCH) & ~bodies.request_decoded)
        result[is_fetch] = self._positions.observe(
            np.stack([*_keys(bodies, asked, has_offset), asked.number(SLOT_FETCH_OFFSET, 0)[has_offset]]),
            np.stack(_keys(bodies, told, is_fetch)),
            np.stack([exchanges.connection[unread], unread]),
        )
        return result


def _partition_table(
    bodies: Bodies,
    api: pa.Array,
    asked: Partitions,
    told: Partitions,
    partner: I64,
    fields: RecordFields,
    batches: list[BatchColumns],
    fetch_offset: I64,
    origins: Origins,
) -> pa.Table | None:
    exchanges = bodies.exchanges
    held, size = _carried(fields, batches, asked, told, partner, exchanges.api_key[told.exchange] == apis.PRODUCE)
    rows = np.flatnonzero(np.isin(exchanges.api_key[told.exchange], _LISTED) & (told.rows[SLOT_PARTITION] >= 0))
    if not len(rows):
        return None
    exchange = told.exchange[rows]
    error = told.number(SLOT_ERROR_CODE, 0)[rows]

    def told_number(slot: int) -> pa.Array:
        return numbers(told.number(slot, -1)[rows], pa.int64(), told.rows[slot, rows] >= 0)

    return pa.table(
        {
            "connection": exchanges.connection[exchange],
            "number": exchanges.number[exchange],
            "at": times(exchanges.answered[exchange]),
            "api": api.take(pa.array(exchange)),
            "topic": told.topic.take(pa.array(rows)),
            "partition": numbers(told.partition[rows], pa.int32()),
            "fetch_offset": numbers(fetch_offset[rows], pa.int64(), fetch_offset[rows] != UNKNOWN),
            "high_watermark": told_number(SLOT_HIGH_WATERMARK),
            "last_stable_offset": told_number(SLOT_LAST_STABLE_OFFSET),
            "log_start_offset": told_number(SLOT_LOG_START_OFFSET),
            "records": numbers(held[rows], pa.int64(), held[rows] >= 0),
            "bytes": numbers(size[rows], pa.int64(), size[rows] >= 0),
            "error": error_names(error),
            "file": files_of(exchanges.response_packet[exchange], origins),
        },
        schema=PARTITIONS,
    )


def _keys(bodies: Bodies, side: Partitions, rows: I64) -> list[I64]:
    exchange = side.exchange[rows]
    return [bodies.exchanges.connection[exchange], side.topic_code[rows], side.partition[rows], exchange]


def _carried(
    fields: RecordFields,
    batches: list[BatchColumns],
    asked: Partitions,
    told: Partitions,
    partner: I64,
    produced: Bool,
) -> tuple[I64, I64]:
    """Records and bytes that each partition of told brought, or where produced the request for it; -1: unknown."""
    in_field = np.zeros(len(fields), np.int64)
    for part in batches:
        np.add.at(in_field, part.field, part.records)
    known = ~produced & (told.rows[SLOT_RECORDS] >= 0)
    known[partner[(partner >= 0) & (asked.rows[SLOT_RECORDS] >= 0)]] = True
    held = np.where(known, 0, np.int64(-1))
    size = held.copy()
    row = fields.row.copy()
    row[fields.produced] = partner[fields.row[fields.produced]]
    there = row >= 0
    held[row[there]] = in_field[there]
    size[row[there]] = (fields.end - fields.start)[there]
    return held, size


def _joined(parts: list[pa.Table | None]) -> pa.Table | None:
    there = [part for part in parts if part is not None and part.num_rows]
    return pa.concat_tables(there) if there else None
