"""The tables: one Arrow schema each. Times are UTC nanoseconds, ``_ms`` columns milliseconds, sizes bytes."""

from __future__ import annotations

import pyarrow as pa

TIME = pa.timestamp("ns", tz="UTC")
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])

CONNECTIONS = pa.schema(
    [
        ("connection", pa.int64()),  # number of its first packet
        ("client", pa.string()),
        ("client_port", pa.int32()),
        ("broker", pa.string()),
        ("broker_port", pa.int32()),
        ("opened", TIME),  # null: it was open before the capture
        ("closed", TIME),
        ("how_closed", pa.string()),  # fin, rst, open
        ("protocol", pa.string()),  # kafka, or what else was recognised on it
        ("client_id", pa.string()),
        ("software", pa.string()),
        ("software_version", pa.string()),
        ("security", pa.string()),  # plaintext, a SASL mechanism, tls
        ("packets", pa.int64()),
        ("bytes_up", pa.int64()),
        ("bytes_down", pa.int64()),
        ("retransmits", pa.int64()),
        ("out_of_order", pa.int64()),
        ("gap_bytes", pa.int64()),
        ("exchanges", pa.int64()),
        ("issues", pa.int64()),
    ]
)

EXCHANGES = pa.schema(
    [
        ("connection", pa.int64()),
        ("number", pa.int64()),  # from 1 in each connection, in order of completion
        ("correlation_id", pa.int32()),
        ("api_key", pa.int16()),
        ("api", pa.string()),
        ("api_version", pa.int16()),
        ("client_id", pa.string()),
        ("requested", TIME),
        ("request_done", TIME),
        ("answered", TIME),
        ("response_done", TIME),
        ("latency_ms", pa.float64()),  # the request's last byte to the response's first, as captured
        ("request_packet", pa.int64()),
        ("response_packet", pa.int64()),
        ("request_bytes", pa.int64()),
        ("response_bytes", pa.int64()),
        ("throttle_ms", pa.float64()),
        ("error_code", pa.int16()),  # top level, else the first one that is not 0
        ("error", pa.string()),
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("outcome", pa.string()),  # answered, one_way, unanswered, orphan
        ("decoded", pa.string()),  # full, header, none
        ("issue", pa.string()),
        ("request", pa.string()),  # JSON
        ("response", pa.string()),  # JSON
    ]
)

ERRORS = pa.schema(
    [
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("at", TIME),
        ("api", pa.string()),
        ("api_version", pa.int16()),
        ("broker", pa.string()),
        ("client_id", pa.string()),
        ("path", pa.string()),
        ("code", pa.int16()),
        ("error", pa.string()),
        ("message", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("group_id", pa.string()),
        ("member_id", pa.string()),
    ]
)

PARTITIONS = pa.schema(
    [
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("at", TIME),
        ("api", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("fetch_offset", pa.int64()),
        ("high_watermark", pa.int64()),
        ("last_stable_offset", pa.int64()),
        ("log_start_offset", pa.int64()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("error", pa.string()),
    ]
)

BATCHES = pa.schema(
    [
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("at", TIME),
        ("direction", pa.string()),  # produce, fetch
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("base_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("magic", pa.int8()),
        ("codec", pa.string()),  # none, gzip, snappy, lz4, zstd
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("bytes_uncompressed", pa.int64()),
        ("first_timestamp", TIME),
        ("max_timestamp", TIME),
        ("timestamp_type", pa.string()),  # create_time, log_append_time, none
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("base_sequence", pa.int32()),
        ("transactional", pa.bool_()),
        ("control", pa.bool_()),
        ("leader_epoch", pa.int32()),
        ("crc_ok", pa.bool_()),
    ]
)

RECORDS = pa.schema(
    [
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("at", TIME),
        ("direction", pa.string()),
        ("client_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),  # the broker's; null if it was never told
        ("timestamp", TIME),
        ("timestamp_type", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(_HEADER)),
    ]
)

ISSUES = pa.schema(
    [
        ("connection", pa.int64()),  # null: of the file as a whole
        ("at", TIME),
        ("packet", pa.int64()),
        ("kind", pa.string()),
        ("detail", pa.string()),
        ("count", pa.int64()),
    ]
)

GROUP_EVENTS = pa.schema(
    [
        ("group_id", pa.string()),
        ("at", TIME),
        ("event", pa.string()),
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("client", pa.string()),
        ("instance_id", pa.string()),
        ("generation", pa.int32()),  # or epoch
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("packet", pa.int64()),
        ("detail", pa.string()),
    ]
)

EVIDENCE = pa.struct(
    [
        ("text", pa.string()),
        ("packet", pa.int64()),  # null: it is the absence of something
        ("at", TIME),
        ("weight", pa.float64()),  # how much it speaks for its reading, 0 to 1
        ("trigger", pa.string()),  # the reading that it speaks for
        ("rejected", pa.bool_()),  # whether that reading was rejected
    ]
)
CONTRIBUTING = pa.struct([("trigger", pa.string()), ("client_id", pa.string()), ("at", TIME), ("packet", pa.int64())])
MEMBER = pa.struct(
    [
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("host", pa.string()),
        ("instance_id", pa.string()),
        ("software", pa.string()),
        ("software_version", pa.string()),
        ("session_timeout_ms", pa.int32()),
        ("rebalance_timeout_ms", pa.int32()),
        ("assignors", pa.list_(pa.string())),
        ("subscription", pa.list_(pa.string())),
        ("joined", TIME),  # its (last) JoinGroup request, or first heartbeat of epoch 0
        ("synced", TIME),  # when it had its assignment
        ("join_ms", pa.float64()),
        ("sync_ms", pa.float64()),
        ("assignment_before", pa.list_(pa.string())),  # topic-number; null: unknown
        ("assignment", pa.list_(pa.string())),
    ]
)
UNOWNED = pa.struct([("partition", pa.string()), ("since", TIME), ("ms", pa.float64())])

REBALANCES = pa.schema(
    [
        ("group_id", pa.string()),
        ("protocol", pa.string()),  # classic, consumer, streams, share, connect
        ("from_generation", pa.int32()),
        ("to_generation", pa.int32()),
        ("started", TIME),
        ("joined", TIME),  # classic: first JoinGroup answered; epochs: null
        ("stable", TIME),  # null: it never was
        ("duration_ms", pa.float64()),  # started to stable
        ("trigger", pa.string()),
        ("trigger_member", pa.string()),
        ("trigger_client_id", pa.string()),
        ("certainty", pa.string()),  # certain, likely, guessed
        ("evidence", pa.list_(EVIDENCE)),
        ("contributing", pa.list_(CONTRIBUTING)),
        ("leader", pa.string()),
        ("assignor", pa.string()),
        ("members", pa.list_(MEMBER)),
        ("moved", pa.list_(pa.string())),  # partitions whose owner changed
        ("unowned", pa.list_(UNOWNED)),  # how long nobody owned a partition
        ("unowned_ms", pa.float64()),  # the longest of these
        ("recovered", TIME),  # when the last member was working again
        ("cost_ms", pa.float64()),  # started to recovered
        ("last_client_id", pa.string()),  # whom the others waited for
        ("last_by_ms", pa.float64()),  # ... and how long, behind the last but one
        ("reread_records", pa.int64()),  # records that were read again after it; null: unknown
        ("inferred", pa.bool_()),  # nobody on the wire named this generation
    ]
)

OBSERVATION = pa.struct([("text", pa.string()), ("packet", pa.int64()), ("at", TIME)])

FINDINGS = pa.schema(
    [
        ("severity", pa.string()),  # critical, warning, info
        ("kind", pa.string()),
        ("title", pa.string()),
        ("subject", pa.string()),  # group NAME, client ID (ADDRESS), partition TOPIC-NUMBER, capture
        ("since", TIME),
        ("until", TIME),
        ("weight", pa.float64()),  # 0 to 1, the order within a severity
        ("evidence", pa.list_(OBSERVATION)),
        ("advice", pa.string()),
    ]
)

# What is known of a group by one connection: input of the analysis of groups, not a table for users.
GROUP_MESSAGES = pa.schema(
    [
        ("group_id", pa.string()),
        ("kind", pa.string()),  # exchange; connection: how it ended (request: JSON of opened, closed, how_closed, ...)
        ("at", TIME),  # the request's first byte; the answer's if the capture lacks the request
        ("answered", TIME),
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("request_packet", pa.int64()),
        ("response_packet", pa.int64()),
        ("api", pa.string()),
        ("api_version", pa.int16()),
        ("client_id", pa.string()),
        ("client", pa.string()),
        ("client_port", pa.int32()),
        ("broker", pa.string()),  # address:port
        ("error", pa.string()),  # null: none, or no answer
        ("outcome", pa.string()),
        ("request", pa.string()),  # JSON
        ("response", pa.string()),  # JSON
    ]
)

# What requests allow the broker to wait for: input of the views of latency, not a table for users.
TERMS = pa.schema(
    [
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("max_wait_ms", pa.int32()),  # of a fetch; for a produce how long replicas may take
        ("min_bytes", pa.int32()),  # never more than the most that may be sent
        ("acks", pa.int16()),
        ("assignments", pa.int32()),  # that a SyncGroup brings: the leader's has some
    ]
)

# What lay ready for a fetch when it was made, as far as its connection told: input of the views of latency.
READY = pa.schema(
    [
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("records", pa.int64()),  # at and behind the offsets asked for, by what the broker had said before
        ("more", pa.bool_()),  # nothing was said before, and the answer left records behind
    ]
)

# Durations counted in buckets: rows of the view of latency, of which the table ``latency`` is made.
LATENCY_COUNTS = pa.schema(
    [
        ("shard", pa.int32()),
        ("api", pa.string()),
        ("api_version", pa.int16()),
        ("broker", pa.string()),
        ("client_id", pa.string()),
        ("client", pa.string()),
        ("topic", pa.string()),
        ("acks", pa.int16()),
        ("from", TIME),
        ("part", pa.string()),
        ("bucket", pa.int32()),
        ("count", pa.int64()),
        ("sum_ns", pa.int64()),
        ("max_ns", pa.int64()),
    ]
)

LATENCY = pa.schema(
    [
        ("api", pa.string()),
        ("api_version", pa.int16()),
        ("broker", pa.string()),  # address:port
        ("client_id", pa.string()),
        ("client", pa.string()),
        ("topic", pa.string()),  # null: each exchange once; else each once for every topic that it brought or took
        ("acks", pa.int16()),  # of Produce
        ("from", TIME),
        ("width_ms", pa.int64()),  # of the span that begins at from
        ("part", pa.string()),  # total, and what it was spent on: see reports.measures.latency.parts
        ("count", pa.int64()),
        ("sum_ms", pa.float64()),
        ("p50", pa.float64()),  # milliseconds, within 1 %
        ("p90", pa.float64()),
        ("p99", pa.float64()),
        ("p999", pa.float64()),
        ("max", pa.float64()),
        ("bucket", pa.list_(pa.int32())),  # of reports.measures.latency.histogram
        ("counts", pa.list_(pa.int64())),
    ]
)

# Offsets that groups and brokers told: input of the view of progress, not a table for users.
TOLD_OFFSETS = pa.schema(
    [
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("at", TIME),  # of the answer, else of the request
        ("api", pa.string()),  # OffsetCommit, TxnOffsetCommit, OffsetFetch: committed; ListOffsets: the end
        ("client_id", pa.string()),
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),  # null: nothing is committed
        ("error", pa.string()),  # null: no answer was seen
    ]
)

# Rows of the view of progress: offsets by span of time, of which lag and re-reads are made.
POSITIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("kind", pa.string()),  # end, commit (sent), committed (told), fetch, share
        ("partition", pa.int32()),
        ("connection", pa.int64()),  # null for ends, which are those of all connections
        ("span", pa.int64()),  # nanoseconds, begin
        ("client", pa.string()),
        ("client_id", pa.string()),
        ("group_id", pa.string()),
        ("first_at", pa.int64()),
        ("last_at", pa.int64()),
        ("first_number", pa.int64()),
        ("last_number", pa.int64()),
        ("count", pa.int64()),
        ("first_offset", pa.int64()),  # fetch: asked for first
        ("last_offset", pa.int64()),  # fetch: asked for last; commit, committed: the last one
        ("same_since", pa.int64()),  # fetch: since when the last one was asked for while there was more
        ("position", pa.int64()),  # fetch: behind what came last
        ("end_offset", pa.int64()),
    ]
)

LAG = pa.schema(
    [
        ("group_id", pa.string()),  # null: no group is known to read as this client
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("at", TIME),  # begin of the span; offsets are those at its end
        ("width_ms", pa.int64()),  # of the span
        ("committed_offset", pa.int64()),  # null: none, or not known
        ("end_offset", pa.int64()),  # high watermark, or behind what was produced last
        ("fetch_offset", pa.int64()),  # behind what the group's member was sent last
        ("lag", pa.int64()),  # end_offset - committed_offset
        ("fetch_lag", pa.int64()),  # end_offset - fetch_offset
        ("client_id", pa.string()),  # who reads it; if nobody was seen to, who committed
        ("client", pa.string()),
        ("commits", pa.int64()),  # in the span
        ("fetches", pa.int64()),  # ... answered
        ("commit_stuck_ms", pa.int64()),  # for how long nothing was committed while there was more
        ("fetch_stuck_ms", pa.int64()),  # ... one offset was asked for again and again; null: no fetch in the span
    ]
)

REREADS = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("at", TIME),  # of the first answer that brought them again
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("client_id", pa.string()),
        ("client", pa.string()),
        ("from_offset", pa.int64()),
        ("to_offset", pa.int64()),  # behind the last one
        ("records", pa.int64()),  # offsets between them, times over
        ("times", pa.int64()),  # how often in a row it began there
    ]
)

# Rows of the view of errors, summed by span of time.
ERROR_COUNTS = pa.schema(
    [
        ("error", pa.string()),
        ("code", pa.int16()),
        ("api", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("broker", pa.string()),
        ("client_id", pa.string()),
        ("span", pa.int64()),  # nanoseconds, begin
        ("count", pa.int64()),
        ("first_at", pa.int64()),
        ("last_at", pa.int64()),
        ("first_packet", pa.int64()),
        ("first_connection", pa.int64()),
        ("first_number", pa.int64()),
    ]
)

ERROR_HISTOGRAM = pa.schema(
    [
        ("api", pa.string()),
        ("error", pa.string()),
        ("code", pa.int16()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("broker", pa.string()),
        ("client_id", pa.string()),
        ("at", TIME),  # begin of the span
        ("width_ms", pa.int64()),  # of the span
        ("count", pa.int64()),
        ("first", TIME),
        ("last", TIME),
        ("first_packet", pa.int64()),  # of the first of them; its exchange is the next two
        ("first_connection", pa.int64()),
        ("first_number", pa.int64()),
        ("ordinary", pa.bool_()),  # part of how the protocol works, no trouble
        ("reason", pa.string()),  # ... why
        ("retriable", pa.bool_()),
        ("meaning", pa.string()),
        ("advice", pa.string()),
        ("rest", pa.bool_()),  # what was too much to be listed: who and where are not told
    ]
)

# What was produced and fetched: rows of the view of throughput, of which the table ``throughput`` is made.
THROUGHPUT_COUNTS = pa.schema(
    [
        ("shard", pa.int32()),
        ("topic", pa.string()),
        ("client_id", pa.string()),
        ("client", pa.string()),
        ("direction", pa.string()),
        ("from", TIME),
        ("codec", pa.string()),  # null: requests are counted
        ("requests", pa.int64()),
        ("empty", pa.int64()),
        ("batches", pa.int64()),
        ("single_record_batches", pa.int64()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("bytes_uncompressed", pa.int64()),
    ]
)
CODEC = pa.struct(
    [
        ("codec", pa.string()),
        ("batches", pa.int64()),
        ("single_record_batches", pa.int64()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
        ("bytes_uncompressed", pa.int64()),
    ]
)

THROUGHPUT = pa.schema(
    [
        ("topic", pa.string()),  # null: each request once; else once for every topic that it carried or was answered of
        ("client_id", pa.string()),
        ("client", pa.string()),
        ("direction", pa.string()),  # produce, fetch
        ("from", TIME),
        ("width_ms", pa.int64()),  # of the span that begins at from
        ("requests", pa.int64()),
        ("empty", pa.int64()),  # fetches that were answered without fault or throttling, and brought nothing
        ("batches", pa.int64()),  # of data: markers of transactions are not counted
        ("single_record_batches", pa.int64()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),  # of batches as they travel
        ("bytes_uncompressed", pa.int64()),
        ("codecs", pa.list_(CODEC)),  # the same by codec
    ]
)

SCHEMAS: dict[str, pa.Schema] = {
    "connections": CONNECTIONS,
    "exchanges": EXCHANGES,
    "errors": ERRORS,
    "partitions": PARTITIONS,
    "batches": BATCHES,
    "records": RECORDS,
    "issues": ISSUES,
}

# What views need of a batch besides: made where one asks for it, and not written.
FOR_VIEWS: dict[str, pa.Schema] = {"terms": TERMS, "ready": READY, "told_offsets": TOLD_OFFSETS}

# What views (reports.columns.views) make of the whole capture.
RESULTS: dict[str, pa.Schema] = {
    "group_events": GROUP_EVENTS,
    "rebalances": REBALANCES,
    "error_histogram": ERROR_HISTOGRAM,
    "latency": LATENCY,
    "throughput": THROUGHPUT,
    "lag": LAG,
    "rereads": REREADS,
    "findings": FINDINGS,
}
ALL_SCHEMAS = SCHEMAS | RESULTS
