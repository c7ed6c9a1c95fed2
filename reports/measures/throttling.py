"""When a client is held back by the delay that an answer tells: before the answer comes, or behind it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import dictionary_codes, integers
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.units import MILLISECOND_NS

# The version from which on a client is told to hold back by itself (KIP-219; AbstractResponse.shouldClientThrottle of
# each API; others do so in all versions). Brokers before 2.0 know only lower versions, and delay the answer instead.
_HELD_BACK_SINCE = {
    "Produce": 6,
    "Fetch": 8,
    "ListOffsets": 3,
    "Metadata": 6,
    "OffsetCommit": 4,
    "OffsetFetch": 4,
    "FindCoordinator": 2,
    "JoinGroup": 3,
    "Heartbeat": 2,
    "LeaveGroup": 2,
    "SyncGroup": 2,
    "DescribeGroups": 2,
    "ListGroups": 2,
    "ApiVersions": 2,
    "CreateTopics": 3,
    "DeleteTopics": 2,
    "DeleteRecords": 1,
    "DescribeConfigs": 2,
    "InitProducerId": 1,
    "AddPartitionsToTxn": 1,
    "AddOffsetsToTxn": 1,
    "EndTxn": 1,
    "TxnOffsetCommit": 1,
}


def held_back(exchanges: pa.Table, took: I64) -> tuple[I64, I64]:
    """Nanoseconds for which each exchange holds its client back behind its answer, and those that delayed the answer.

    took are the nanoseconds from the end of each request to its answer.
    """
    told = pc.fill_null(exchanges["throttle_ms"], 0).to_numpy()
    # An int32 of milliseconds; what is negative means nothing.
    told = np.maximum(told, 0).astype(np.int64) * MILLISECOND_NS
    codes, names = dictionary_codes(exchanges["api"])
    since = np.array([*(_HELD_BACK_SINCE.get(name, 0) for name in names.to_pylist()), 0], np.int64)[codes]
    # An answer that came sooner than the delay it tells cannot have been delayed: a newer broker, and an older client.
    behind = (integers(exchanges["api_version"]) >= since) | (told > took)
    return np.where(behind, told, 0), np.where(behind, 0, told)
