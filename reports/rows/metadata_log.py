"""Names of topic ids out of the cluster's metadata log, where a capture holds fetches of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import DecodeError
from kafkascope.decoders.payloads import CLUSTER_METADATA_TOPIC, decode_typed_value
from kafkascope.decoders.record_columns import read_records, scan
from kafkascope.reports.columns.topics import ID_PREFIX, RESERVED
from kafkascope.reports.rows.record_fields import RecordFields
from kafkascope.sniffer.columns import U8

# A TopicRecord begins with the version of the frame, its record type, and its own version.
TOPIC_RECORD = b"\x01\x02"
_NAMES = pa.array(
    [CLUSTER_METADATA_TOPIC, *(by_id for by_id, name in RESERVED.items() if name == CLUSTER_METADATA_TOPIC)]
)


def topics_told(data: U8, fields: RecordFields, limit: int) -> Iterator[tuple[str, str]]:
    """Pairs of a topic written by id, and its name, by the log's TopicRecords; limit: as of `read_records`."""
    chosen = np.flatnonzero(pc.is_in(fields.topic, _NAMES).to_numpy(zero_copy_only=False))
    if not len(chosen):
        return
    for chunk in read_records(scan(data, fields.start[chosen], fields.end[chosen]), limit=limit):
        values = chunk.records.values()
        for value in values.filter(pc.starts_with(values, TOPIC_RECORD)).to_pylist():
            try:
                told = decode_typed_value(CLUSTER_METADATA_TOPIC, value).fields
            except DecodeError:  # a record like any other, of a format to come
                continue
            if told.get("topicId") and told.get("name"):
                yield ID_PREFIX + told["topicId"], told["name"]
