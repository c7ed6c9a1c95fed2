"""The tables of record batches and of records, produced and fetched: what is on the wire, as it is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.compression import CODECS
from kafkascope.decoders.limits import Limits
from kafkascope.decoders.record_columns import (
    OK,
    STATUSES,
    TIMESTAMP_TYPES,
    TOO_LARGE,
    BatchColumns,
    Fields,
    RecordChunk,
)
from kafkascope.decoders.records import control_type
from kafkascope.decoders.stored_secrets import redact_stored
from kafkascope.reports.columns.arrow import first_of_equals, numbers, times, times_of_milliseconds, times_too_far
from kafkascope.reports.columns.files import files_of
from kafkascope.reports.columns.topics import RESERVED
from kafkascope.reports.rows.damage import count_issues
from kafkascope.reports.rows.record_fields import RecordFields
from kafkascope.reports.vocabulary.tables import BATCHES, RECORDS
from kafkascope.sniffer.columns import I64, Bool, Exchanges
from kafkascope.sniffer.issues import IssueLog
from kafkascope.sniffer.origins import Origins

DIRECTIONS = ("fetch", "produce")
# By name or by id: at this point names are not known yet.
_METADATA_LOG = pa.array([*RESERVED, *RESERVED.values()], pa.string())
_LOG_APPEND_TIME = TIMESTAMP_TYPES.index("log_append_time")


def _labels(codes: I64, names: tuple[str, ...]) -> pa.Array:
    return pa.array(names, pa.string()).take(pa.array(codes))


def _told_at(exchanges: Exchanges, fields: RecordFields, field: I64) -> pa.Array:
    """When the side that held the field was sent."""
    exchange = fields.exchange[field]
    return times(np.where(fields.produced[field], exchanges.requested[exchange], exchanges.answered[exchange]))


def _files(exchanges: Exchanges, fields: RecordFields, field: I64, origins: Origins) -> pa.DictionaryArray:
    """The file in which the message that held the field begins."""
    exchange = fields.exchange[field]
    packets = np.where(fields.produced[field], exchanges.request_packet[exchange], exchanges.response_packet[exchange])
    return files_of(packets, origins)


def _running(group: I64, counts: I64, before: I64) -> I64:
    """For each element (sorted by group) the sum of counts of the elements before it in its group, and before[group].

    before is carried on: afterwards it includes these elements.
    """
    if not len(group):
        return np.zeros(0, np.int64)
    total = np.cumsum(counts) - counts
    running = total - total[first_of_equals(group)] + before[group]
    np.add.at(before, group, counts)
    return running


def batch_table(
    exchanges: Exchanges, fields: RecordFields, batches: BatchColumns, before: I64, issues: IssueLog, origins: Origins
) -> pa.Table | None:
    """One row a batch. before: records of each field in earlier parts; these batches are added to it.

    A produced batch has the broker's offsets, or none if the broker did not tell them.
    """
    if not len(batches):
        return None
    field = batches.field
    exchange = fields.exchange[field]
    running = _running(field, batches.records, before)
    produced, told = fields.produced[field], fields.base_offset[field]
    first = np.where(produced, told + running, batches.base_offset)
    # A batch that lost records to compaction has offsets that no record of it has: the header tells the last one.
    # What a producer sends has none but those of its records; where these could not be read, it tells them as well.
    there = ~produced | (told >= 0)
    is_two = batches.magic == 2
    span = np.where(is_two, batches.last_offset - batches.base_offset, batches.records - 1)
    last = np.where(produced, first + np.maximum(span, -1), batches.last_offset)
    first_timestamp = _first_timestamp(batches)
    far = _far(batches)
    _count(issues, exchanges, fields, field[far], "batch_time_out_of_range", "times that no table can hold")
    return pa.table(
        {
            "connection": exchanges.connection[exchange],
            "number": exchanges.number[exchange],
            "at": _told_at(exchanges, fields, field),
            "direction": _labels(produced.astype(np.int64), DIRECTIONS),
            "topic": fields.topic.take(pa.array(field)),
            "partition": numbers(fields.partition[field], pa.int32()),
            "base_offset": numbers(first, pa.int64(), there),
            "last_offset": numbers(last, pa.int64(), there),
            "magic": numbers(batches.magic, pa.int8()),
            "codec": _labels(batches.codec.astype(np.int64), CODECS),
            "records": batches.records,
            "bytes": batches.bytes,
            "bytes_uncompressed": batches.bytes_uncompressed,
            "first_timestamp": times_of_milliseconds(first_timestamp),
            "max_timestamp": times_of_milliseconds(batches.max_timestamp),
            "timestamp_type": _labels(batches.timestamp_type.astype(np.int64), TIMESTAMP_TYPES),
            "producer_id": numbers(batches.producer_id, pa.int64(), is_two & (batches.producer_id >= 0)),
            "producer_epoch": numbers(batches.producer_epoch, pa.int16(), is_two & (batches.producer_id >= 0)),
            "base_sequence": numbers(batches.base_sequence, pa.int32(), is_two & (batches.base_sequence >= 0)),
            "transactional": batches.transactional,
            "control": batches.control,
            "leader_epoch": numbers(batches.leader_epoch, pa.int32(), is_two & (batches.leader_epoch >= 0)),
            "crc_ok": batches.crc_ok,
            "file": _files(exchanges, fields, field, origins),
        },
        schema=BATCHES,
    )


def are_far(batches: BatchColumns) -> bool:
    """Whether a batch says that it has records of times that no table can hold."""
    return bool(_far(batches).any())


def _far(batches: BatchColumns) -> Bool:
    far: Bool = times_too_far(_first_timestamp(batches)) | times_too_far(batches.max_timestamp)
    return far


def _first_timestamp(batches: BatchColumns) -> I64:
    """Where there is a delete horizon, it stands in the place of the first timestamp."""
    return np.where(batches.delete_horizon == -1, batches.first_timestamp, np.int64(-1))


def record_table(
    exchanges: Exchanges,
    fields: RecordFields,
    chunk: RecordChunk,
    before: I64,
    client_id: pa.Array,
    issues: IssueLog,
    origins: Origins,
    secret_names: tuple[str, ...] | None = (),
) -> pa.Table | None:
    """One row a record, those of control batches too. before: as in `batch_table`.

    secret_names: see `stored_secrets.redact_stored`; None: secrets are shown.
    """
    records, batches = chunk.records, chunk.batches
    if not len(records):
        return None
    field = batches.field[records.batch]
    exchange = fields.exchange[field]
    running = np.arange(len(records)) - first_of_equals(field) + before[field]
    np.add.at(before, field, 1)
    produced, told = fields.produced[field], fields.base_offset[field]
    appended = fields.log_append_time[field]
    timestamp = np.where(appended >= 0, appended, records.timestamp)
    kind = np.where(appended >= 0, _LOG_APPEND_TIME, batches.timestamp_type[records.batch].astype(np.int64))
    far = times_too_far(timestamp)
    _count(issues, exchanges, fields, field[far], "record_time_out_of_range", "a time that no table can hold")
    keys, values = records.keys(), records.values()
    if secret_names is not None:
        of_metadata = pc.is_in(fields.topic, _METADATA_LOG).to_numpy(zero_copy_only=False)
        values = redact_stored(keys, values, of_metadata[field] & ~records.control, more=secret_names)
    return pa.table(
        {
            "connection": exchanges.connection[exchange],
            "number": exchanges.number[exchange],
            "at": _told_at(exchanges, fields, field),
            "direction": _labels(produced.astype(np.int64), DIRECTIONS),
            "client_id": client_id.take(pa.array(exchange)),
            "topic": fields.topic.take(pa.array(field)),
            "partition": numbers(fields.partition[field], pa.int32()),
            "offset": numbers(np.where(produced, told + running, records.offset), pa.int64(), ~produced | (told >= 0)),
            "timestamp": times_of_milliseconds(timestamp),
            "timestamp_type": _labels(kind, TIMESTAMP_TYPES),
            "key": keys,
            "value": values,
            "headers": records.headers(),
            "control_type": _control_types(keys, records.control),
            "file": _files(exchanges, fields, field, origins),
        },
        schema=RECORDS,
    )


def _control_types(keys: pa.Array, control: Bool) -> pa.Array:
    """Names of `decoders.records.CONTROL_TYPES`, by the keys of control records; null for all others."""
    none = pa.nulls(len(keys), pa.string())
    if not control.any():
        return none
    types = pc.binary_slice(keys.filter(pa.array(control)), 0, 4).dictionary_encode("encode")
    names = pa.array(map(control_type, types.dictionary.to_pylist()), pa.string())
    return pc.replace_with_mask(none, pa.array(control), names.take(types.indices))


def batch_issues(
    exchanges: Exchanges,
    fields: RecordFields,
    scanned: Fields,
    batches: list[BatchColumns],
    issues: IssueLog,
    limits: Limits,
) -> None:
    """Count what is wrong with batches. One that is cut off at the end is normal in a fetch, but not when produced."""
    for part in batches:
        _count(issues, exchanges, fields, part.field[~part.crc_ok], "bad_crc", "a batch whose checksum is wrong")
        for status in np.unique(part.status[part.status != OK]):
            kind, detail = "bad_batch", STATUSES[status].replace("_", " ")
            if status == TOO_LARGE:
                kind = "compression_bomb"
                detail += f" ({limits.option('decompressed_bytes')}), or out of all proportion"
            _count(issues, exchanges, fields, part.field[part.status == status], kind, detail)
    unread = np.flatnonzero(scanned.unread_bytes > 0)
    _count(issues, exchanges, fields, unread, "bad_batch", "bytes that are no batch")
    cut = np.flatnonzero((scanned.trailing_bytes > 0) & fields.produced)
    _count(issues, exchanges, fields, cut, "bad_batch", "a produced batch that is cut off")


def _count(issues: IssueLog, exchanges: Exchanges, fields: RecordFields, field: I64, kind: str, detail: str) -> None:
    """Count an issue for each of the fields given."""
    if not len(field):
        return
    fetched = ~fields.produced[field]

    def describe(index: int) -> str:
        return f"{fields.topic[field[index]].as_py()}-{fields.partition[field[index]]}: {detail}"

    count_issues(issues, exchanges, fields.exchange[field], fetched, kind, describe)
