"""The tables: one Arrow schema each. Times are UTC nanoseconds, ``_ms`` columns milliseconds, sizes bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import pyarrow as pa

SCHEMA_VERSION = 13
"""Of the tables that users see, and of summary.json: one more with each change of a column (docs: Stability)."""

TIME = pa.timestamp("ns", tz="UTC")
FILE = pa.dictionary(pa.int32(), pa.string())
"""Names of files: there are few, and each row has one. In Parquet files they are strings."""
MEANING = b"meaning"
"""Key of what a table or a column means, in the metadata of its schema; Parquet files carry it."""

RUN = pa.field(
    "run", pa.string(), metadata={MEANING: "the analysis that wrote the row: when it began, and a random number"}
)
"""Last column of all tables in the directory of an analysis; tables in memory are of one run."""


def fields(columns: list[tuple[str, pa.DataType, str]]) -> list[pa.Field]:
    """Columns with what they mean."""
    return [pa.field(name, kind, metadata={MEANING: meaning}) for name, kind, meaning in columns]


def described(meaning: str, columns: list[tuple[str, pa.DataType, str]]) -> pa.Schema:
    """The schema of a table that users see, with what it and its columns mean."""
    return pa.schema(fields(columns), metadata={MEANING: meaning})


_HEADER = pa.struct(
    fields([("key", pa.string(), "name of the header"), ("value", pa.binary(), "its bytes; null: it has none")])
)

CONNECTIONS = described(
    "TCP connections, a row each, when they have ended",
    [
        ("connection", pa.int64(), "number of its first packet, over the whole capture"),
        ("client", pa.string(), "address of the client"),
        ("client_port", pa.int32(), "TCP port of the client"),
        ("broker", pa.string(), "address of the broker"),
        ("broker_port", pa.int32(), "TCP port of the broker"),
        ("opened", TIME, "time of the client's SYN; null: it was open before the capture"),
        (
            "closed",
            TIME,
            "time of the RST, or of the second FIN (of the only one, where one side alone was captured); null: it was "
            "open when the capture ended, or fell silent",
        ),
        ("how_closed", pa.string(), "fin, rst, open"),
        (
            "connect",
            pa.string(),
            "what the client's SYN met: established, refused, unanswered; null: it was open before the capture",
        ),
        ("reset_by", pa.string(), "whose RST ended it: client, broker; null: none did"),
        ("closed_by", pa.string(), "whose FIN or RST came first: client, broker; null: it is open"),
        ("protocol", pa.string(), "kafka, or what else was recognised on it"),
        ("client_id", pa.string(), "the client's name for itself, of the first request that has one"),
        ("software", pa.string(), "name of the client library (ApiVersions, KIP-511)"),
        ("software_version", pa.string(), "version of the client library (KIP-511)"),
        ("security", pa.string(), "plaintext, a SASL mechanism, tls (without SASL, or not read)"),
        ("tls_version", pa.string(), "what client and broker agreed on; null: no TLS, as in all of these columns"),
        ("tls_cipher", pa.string(), "the cipher suite, without the key exchange"),
        ("tls_server_name", pa.string(), "host that the client asked for (SNI)"),
        ("tls_alpn", pa.string(), "protocol that was agreed on (ALPN)"),
        (
            "tls_certificate_names",
            pa.list_(pa.string()),
            "whom the broker's certificate names; of TLS 1.3 only where it was opened",
        ),
        ("tls_certificate_from", TIME, "when it begins to hold"),
        ("tls_certificate_until", TIME, "when it ends to hold"),
        (
            "tls_alert",
            pa.string(),
            "the first alert (RFC 8446, 6); encrypted: its reason was not opened; in TLS 1.3 that is inferred from its "
            "size, where it ends the handshake",
        ),
        ("tls_alert_by", pa.string(), "who sent it: client, broker"),
        ("tls_opened", pa.bool_(), "whether it was read with secrets that somebody logged"),
        (
            "tls_requests",
            pa.int64(),
            "inferred, where it was not opened: times that the client sent something and the broker then answered; "
            "requests are as many or more",
        ),
        ("tls_first_request", TIME, "inferred: when it began with them"),
        ("tls_last_answer", TIME, "inferred: when the last answer began"),
        (
            "tls_answer_ms",
            pa.float64(),
            "inferred: median of the milliseconds from such a request's end to the answer's begin",
        ),
        ("packets", pa.int64(), "packets, both directions"),
        ("packets_up", pa.int64(), "packets from client to broker; 0: the capture has the broker's side alone"),
        ("packets_down", pa.int64(), "packets from broker to client, likewise"),
        ("bytes_up", pa.int64(), "payload from client to broker on the wire, each byte once"),
        ("bytes_down", pa.int64(), "payload from broker to client on the wire, each byte once"),
        (
            "retransmits",
            pa.int64(),
            "packets sent again: their bytes had been seen before, or lost before they came here",
        ),
        ("retransmits_up", pa.int64(), "retransmits sent by the client"),
        ("retransmits_down", pa.int64(), "retransmits sent by the broker"),
        ("fast_retransmits", pa.int64(), "retransmits after the other side had shown a loss"),
        ("timeout_retransmits", pa.int64(), "retransmits without such a sign: a timer ran out"),
        ("spurious_retransmits", pa.int64(), "retransmits of what had arrived, as the other side told"),
        ("duplicate_acks", pa.int64(), "acknowledgements said once more while data was on its way (RFC 5681)"),
        ("zero_windows_up", pa.int64(), "packets by which the client said that its receive buffer was full"),
        ("zero_windows_down", pa.int64(), "packets by which the broker said that its receive buffer was full"),
        ("keep_alives", pa.int64(), "packets that asked whether the other side is there"),
        ("out_of_order", pa.int64(), "packets that came behind others that were sent after them"),
        ("gap_bytes", pa.int64(), "bytes that the capture lacks"),
        ("lost_bytes", pa.int64(), "... as it lacks packets; the others were cut off packets by the snap length"),
        (
            "rtt_client_min_ms",
            pa.float64(),
            "shortest round trip between capture point and client, in milliseconds: from the broker's data to the "
            "client's acknowledgement; null: none could be measured",
        ),
        (
            "rtt_client_mean_ms",
            pa.float64(),
            "mean of the same, in milliseconds; acknowledgements may be delayed, by 40 ms and more",
        ),
        (
            "rtt_broker_min_ms",
            pa.float64(),
            "shortest round trip between capture point and broker, in milliseconds: from the client's data to the "
            "broker's acknowledgement",
        ),
        ("rtt_broker_mean_ms", pa.float64(), "mean of the same, in milliseconds"),
        ("exchanges", pa.int64(), "requests with their answers, and those without"),
        ("issues", pa.int64(), "damage and oddities met on it, each time counted"),
        ("file", FILE, "file of its first packet"),
    ],
)

TCP_HEALTH = described(
    "How the packets of connections fared, a row for each sender and span of ten seconds in which either side sent any",
    [
        ("connection", pa.int64(), "the connection, by the number of its first packet"),
        ("at", TIME, "begin of the span, a multiple of ten seconds; null: its packets have no time"),
        ("sender", pa.string(), "client, broker: whose packets are counted"),
        ("host", pa.string(), "address of the sender"),
        ("client", pa.string(), "address of the client"),
        ("broker", pa.string(), "address:port of the broker"),
        ("packets", pa.int64(), "packets that it sent, as captured"),
        ("bytes", pa.int64(), "payload in them, each byte once"),
        (
            "retransmits",
            pa.int64(),
            "packets sent again: their bytes had been seen before, or lost before they came here; the sum of the next "
            "three",
        ),
        ("fast_retransmits", pa.int64(), "... after the other side had shown a loss"),
        ("timeout_retransmits", pa.int64(), "... without such a sign: a timer ran out"),
        (
            "spurious_retransmits",
            pa.int64(),
            "... of what had arrived: it was acknowledged before, or came twice, as the other side told in the span",
        ),
        (
            "retransmits_to_closed",
            pa.int64(),
            "... of the fast ones and those by timers: after the other side had closed; a host drops what then comes",
        ),
        ("acknowledgements", pa.int64(), "packets that do nothing but acknowledge"),
        ("duplicate_acks", pa.int64(), "acknowledgements said once more while the other side's data was on its way"),
        ("sacked_gaps", pa.int64(), "acknowledgements that told of bytes behind missing ones (SACK, RFC 2018)"),
        ("out_of_order", pa.int64(), "packets that came behind others that were sent after them"),
        ("zero_windows", pa.int64(), "packets that said that the sender's receive buffer was full"),
        (
            "window_full",
            pa.int64(),
            "packets that filled the other side's receive window; counted where the opening was captured",
        ),
        ("keep_alives", pa.int64(), "packets that asked whether the other side is there"),
        ("resets", pa.int64(), "packets with RST"),
        ("syns", pa.int64(), "packets with SYN"),
        ("refused", pa.int64(), "packets with RST that answered the SYN"),
        ("first", TIME, "time of its first packet"),
        ("last", TIME, "time of its last packet"),
        ("last_payload", TIME, "time of its last packet with payload"),
        (
            "rtt_samples",
            pa.int64(),
            "round trips that were measured, one a flight: from its own data (or SYN, FIN) to the other side's "
            "acknowledgement, so between the capture point and the other side",
        ),
        ("rtt_min_ms", pa.float64(), "the shortest of them, in milliseconds"),
        ("rtt_mean_ms", pa.float64(), "their mean, in milliseconds; acknowledgements may be delayed"),
        ("rtt_max_ms", pa.float64(), "the longest of them, in milliseconds"),
        (
            "unacked_since",
            TIME,
            "time since which data (or SYN, FIN) of its waited for an acknowledgement at the end of the span, or "
            "earlier by no more than it took to send a flight; null: all was acknowledged, or nothing of the other "
            "side was captured",
        ),
        (
            "unacked_max_ms",
            pa.float64(),
            "milliseconds that its data waited at the longest, until it was acknowledged in the span, or else until "
            "the connection's last packet in it",
        ),
        ("sent_in", pa.binary(13), "tenths of a second in which it sent: bit n % 8 of byte n // 8 is the n-th"),
        ("payload_in", pa.binary(13), "tenths of a second in which it sent payload"),
        ("file", FILE, "file of its first packet; null: it sent none"),
    ],
)

EXCHANGES = described(
    "Requests with their responses, a row each, in order of completion",
    [
        ("connection", pa.int64(), "the connection, by the number of its first packet"),
        ("number", pa.int64(), "from 1 in each connection, in order of completion"),
        ("correlation_id", pa.int32(), "the number by which the client pairs request and response"),
        ("api_key", pa.int16(), "key of the API"),
        ("api", pa.string(), "name of the API"),
        ("api_version", pa.int16(), "version of the API"),
        ("client_id", pa.string(), "client id of the request"),
        ("requested", TIME, "the request's first byte, as captured"),
        ("request_done", TIME, "the request's last byte"),
        (
            "request_acked",
            TIME,
            "when the broker's host had acknowledged the request, at the latest; null: the capture does not tell",
        ),
        (
            "round_trip_ms",
            pa.float64(),
            "milliseconds from data of the client to its acknowledgement, the least of late",
        ),
        ("least_round_trip_ms", pa.float64(), "... and of all so far on the connection"),
        ("answered", TIME, "the response's first byte"),
        ("response_done", TIME, "the response's last byte"),
        ("latency_ms", pa.float64(), "milliseconds from the request's last byte to the response's first, as captured"),
        ("request_packet", pa.int64(), "packet with the request's first byte"),
        ("response_packet", pa.int64(), "packet with the response's first byte"),
        ("request_bytes", pa.int64(), "size of the request on the wire, with its length prefix; 0: none was seen"),
        ("response_bytes", pa.int64(), "size of the response on the wire, with its length prefix; 0: none was seen"),
        ("throttle_ms", pa.float64(), "milliseconds for which a quota holds the client back (throttleTimeMs)"),
        ("error_code", pa.int16(), "error code at the top level, else the first one that is not 0"),
        ("error", pa.string(), "name of error_code"),
        ("group_id", pa.string(), "the group that the exchange names"),
        ("member_id", pa.string(), "the member that it names"),
        ("outcome", pa.string(), "answered, one_way (acks=0), unanswered, orphan (a response without its request)"),
        ("decoded", pa.string(), "full, header, none"),
        ("issue", pa.string(), "what was wrong with its bytes; null: nothing"),
        ("request", pa.string(), "body of the request as JSON"),
        ("response", pa.string(), "body of the response as JSON"),
        ("file", FILE, "file of its first packet: the request's, if that was captured"),
    ],
)

ERRORS = described(
    "Error codes in responses that are not 0, a row each, wherever they stand",
    [
        ("connection", pa.int64(), "connection of the exchange"),
        ("number", pa.int64(), "number of the exchange in its connection"),
        ("at", TIME, "when it was answered"),
        ("api", pa.string(), "name of the API"),
        ("api_version", pa.int16(), "version of the API"),
        ("broker", pa.string(), "address:port of the broker"),
        ("client_id", pa.string(), "client id of the request"),
        ("path", pa.string(), "where in the response the code stands"),
        ("code", pa.int16(), "the error code"),
        ("error", pa.string(), "its name"),
        ("message", pa.string(), "the broker's words, if it sent any"),
        ("topic", pa.string(), "topic that it is about"),
        ("partition", pa.int32(), "partition that it is about"),
        ("group_id", pa.string(), "group that it is about"),
        ("member_id", pa.string(), "member that it is about"),
        ("file", FILE, "file of the packet with the response's first byte"),
    ],
)

PARTITIONS = described(
    "What fetch and produce said of a partition, a row each time",
    [
        ("connection", pa.int64(), "connection of the exchange"),
        ("number", pa.int64(), "number of the exchange in its connection"),
        ("at", TIME, "when it was answered"),
        ("api", pa.string(), "Fetch, Produce, ShareFetch"),
        ("topic", pa.string(), "topic; id:... as long as only its id is known"),
        ("partition", pa.int32(), "number of the partition"),
        ("fetch_offset", pa.int64(), "offset that the fetch asked for; null: not a fetch, or not known"),
        ("high_watermark", pa.int64(), "offset behind the last record that all replicas have"),
        ("last_stable_offset", pa.int64(), "offset before which no transaction is open"),
        ("log_start_offset", pa.int64(), "offset of the oldest record"),
        ("records", pa.int64(), "records that travelled"),
        ("bytes", pa.int64(), "bytes of record batches that travelled"),
        ("error", pa.string(), "name of the partition's error code"),
        ("file", FILE, "file of the packet with the response's first byte"),
    ],
)

BATCHES = described(
    "Record batches, produced and fetched; messages of the old formats as batches of one",
    [
        ("connection", pa.int64(), "connection of the exchange"),
        ("number", pa.int64(), "number of the exchange in its connection"),
        ("at", TIME, "when the batch was sent"),
        ("direction", pa.string(), "produce, fetch"),
        ("topic", pa.string(), "topic; id:... as long as only its id is known"),
        ("partition", pa.int32(), "number of the partition"),
        ("base_offset", pa.int64(), "offset of the first record; produced: the broker's, if it was answered"),
        ("last_offset", pa.int64(), "offset of the last record"),
        ("magic", pa.int8(), "version of the format: 0, 1, 2"),
        ("codec", pa.string(), "none, gzip, snappy, lz4, zstd"),
        ("records", pa.int64(), "number of records"),
        ("bytes", pa.int64(), "size as it travels"),
        ("bytes_uncompressed", pa.int64(), "size of the records without compression; null: could not be read"),
        ("first_timestamp", TIME, "time of the first record"),
        ("max_timestamp", TIME, "time of the latest record"),
        ("timestamp_type", pa.string(), "create_time, log_append_time, none"),
        ("producer_id", pa.int64(), "id of an idempotent or transactional producer; null: none"),
        ("producer_epoch", pa.int16(), "its epoch"),
        ("base_sequence", pa.int32(), "sequence number of the first record"),
        ("transactional", pa.bool_(), "part of a transaction"),
        ("control", pa.bool_(), "a marker of a transaction, not data"),
        ("leader_epoch", pa.int32(), "epoch of the partition's leader"),
        ("crc_ok", pa.bool_(), "whether the checksum is right; null: not whole"),
        ("file", FILE, "file of the packet with the first byte of the message that carried it"),
    ],
)

RECORDS = described(
    "Records, produced and fetched; only if asked for",
    [
        ("connection", pa.int64(), "connection of the exchange"),
        ("number", pa.int64(), "number of the exchange in its connection"),
        ("at", TIME, "when the batch was sent"),
        ("direction", pa.string(), "produce, fetch"),
        ("client_id", pa.string(), "client id of the request"),
        ("topic", pa.string(), "topic; id:... as long as only its id is known"),
        ("partition", pa.int32(), "number of the partition"),
        ("offset", pa.int64(), "the broker's; null: it was never told"),
        ("timestamp", TIME, "the record's time"),
        ("timestamp_type", pa.string(), "create_time, log_append_time, none"),
        ("key", pa.binary(), "key; null: none"),
        ("value", pa.binary(), "value; null: none (a tombstone)"),
        ("headers", pa.list_(_HEADER), "headers in their order"),
        ("control_type", pa.string(), "COMMIT, ABORT and the like: a marker, not data of an application; null: data"),
        ("file", FILE, "file of the packet with the first byte of the message that carried it"),
    ],
)

ISSUES = described(
    "Damage and oddities, by connection and kind; what each kind weakens is in the documentation",
    [
        ("connection", pa.int64(), "null: of the file as a whole"),
        ("at", TIME, "when it was met first"),
        ("packet", pa.int64(), "packet at which it was met first"),
        ("kind", pa.string(), "which kind"),
        ("detail", pa.string(), "what was expected and what was found, of the first"),
        ("count", pa.int64(), "how often it was met"),
        ("file", FILE, "file of that packet; null: it was met at no single packet"),
    ],
)

GROUP_EVENTS = described(
    "What happened to groups and their members",
    [
        ("group_id", pa.string(), "the group"),
        ("at", TIME, "when it happened"),
        ("event", pa.string(), "what happened"),
        ("member_id", pa.string(), "member that it happened to"),
        ("client_id", pa.string(), "its client id"),
        ("client", pa.string(), "its address"),
        ("instance_id", pa.string(), "its group.instance.id, if it is static"),
        ("generation", pa.int32(), "generation or epoch"),
        ("connection", pa.int64(), "connection of the exchange"),
        ("number", pa.int64(), "number of the exchange in its connection"),
        ("packet", pa.int64(), "packet in which it is said; null: it is the absence of something"),
        ("detail", pa.string(), "what else there is to say"),
    ],
)

EVIDENCE = pa.struct(
    fields(
        [
            ("text", pa.string(), "what was seen"),
            ("packet", pa.int64(), "null: it is the absence of something"),
            ("at", TIME, "when"),
            ("weight", pa.float64(), "how much it speaks for its reading, 0 to 1"),
            ("trigger", pa.string(), "the reading that it speaks for"),
            ("rejected", pa.bool_(), "whether that reading was rejected"),
        ]
    )
)
CONTRIBUTING = pa.struct(
    fields(
        [
            ("trigger", pa.string(), "what happened, by the names of triggers"),
            ("client_id", pa.string(), "client id of the member it happened to"),
            ("at", TIME, "when"),
            ("packet", pa.int64(), "the packet that shows it; null: it is the absence of something"),
        ]
    )
)
MEMBER = pa.struct(
    fields(
        [
            ("member_id", pa.string(), "id that the broker or the member chose"),
            ("client_id", pa.string(), "its client id"),
            ("host", pa.string(), "its address"),
            ("instance_id", pa.string(), "its group.instance.id, if it is static"),
            ("software", pa.string(), "name of its library"),
            ("software_version", pa.string(), "version of its library"),
            ("session_timeout_ms", pa.int32(), "milliseconds of silence after which it is out"),
            ("rebalance_timeout_ms", pa.int32(), "milliseconds that it may take to join again"),
            ("assignors", pa.list_(pa.string()), "assignors that it knows"),
            ("subscription", pa.list_(pa.string()), "topics that it asks for"),
            ("joined", TIME, "its (last) JoinGroup request, or first heartbeat of epoch 0"),
            ("synced", TIME, "when it had its assignment"),
            ("join_ms", pa.float64(), "milliseconds from its JoinGroup to the answer"),
            ("sync_ms", pa.float64(), "milliseconds from its SyncGroup to the answer"),
            ("assignment_before", pa.list_(pa.string()), "topic-number; null: unknown"),
            ("assignment", pa.list_(pa.string()), "topic-number; null: unknown"),
        ]
    )
)
UNOWNED = pa.struct(
    fields(
        [
            ("partition", pa.string(), "topic-number"),
            ("since", TIME, "when its last owner gave it up, or was gone"),
            ("ms", pa.float64(), "milliseconds until the next owner had it"),
        ]
    )
)

REBALANCES = described(
    "Generations and epochs of groups: what set each off, who was in it, what it cost",
    [
        ("group_id", pa.string(), "the group"),
        ("protocol", pa.string(), "classic, consumer, streams, share, connect"),
        ("from_generation", pa.int32(), "generation or epoch before; null: not known"),
        ("to_generation", pa.int32(), "generation or epoch that came of it"),
        ("started", TIME, "when it was set off"),
        ("joined", TIME, "classic: first JoinGroup answered; epochs: null"),
        ("stable", TIME, "when all members had their assignment; null: they never had"),
        ("duration_ms", pa.float64(), "milliseconds from started to stable"),
        ("trigger", pa.string(), "what set it off"),
        ("trigger_member", pa.string(), "member that did"),
        ("trigger_client_id", pa.string(), "its client id"),
        ("certainty", pa.string(), "certain, likely, guessed"),
        ("evidence", pa.list_(EVIDENCE), "observations, what speaks for the trigger and for rejected ones"),
        ("contributing", pa.list_(CONTRIBUTING), "what else happened while it was open"),
        ("leader", pa.string(), "member id of the leader"),
        ("assignor", pa.string(), "assignor that the group chose"),
        ("members", pa.list_(MEMBER), "members of the new generation"),
        ("moved", pa.list_(pa.string()), "partitions whose owner changed"),
        ("unowned", pa.list_(UNOWNED), "how long nobody owned a partition"),
        ("unowned_ms", pa.float64(), "milliseconds, the longest of these"),
        ("recovered", TIME, "when the last member was working again"),
        ("cost_ms", pa.float64(), "milliseconds from started to recovered"),
        ("last_client_id", pa.string(), "whom the others waited for"),
        ("last_by_ms", pa.float64(), "... and how long, behind the last but one"),
        ("reread_records", pa.int64(), "records that were read again after it; null: unknown"),
        ("inferred", pa.bool_(), "nobody on the wire named this generation"),
    ],
)

OBSERVATION = pa.struct(
    fields(
        [
            ("text", pa.string(), "what was seen"),
            ("packet", pa.int64(), "the packet that shows it; null: it is about no single one"),
            ("at", TIME, "when; null: it is about no single moment"),
        ]
    )
)

FINDINGS = described(
    "Problems with their evidence and what to do, the weightiest first",
    [
        ("id", pa.string(), "names it, the same in all ways to run: kind and a checksum of subject and title"),
        ("severity", pa.string(), "critical, warning, info"),
        ("kind", pa.string(), "which kind"),
        ("title", pa.string(), "what is wrong"),
        (
            "subject",
            pa.string(),
            "group NAME, client ID (ADDRESS), partition TOPIC-NUMBER, capture; clients ID (ADDRESS), ... of many alike",
        ),
        ("subjects", pa.list_(pa.string()), "the same as a list, whole"),
        (
            "client_ids",
            pa.list_(pa.string()),
            "clients that it is about; of a group: those that did it, if it names any",
        ),
        ("since", TIME, "when it was seen first"),
        ("until", TIME, "when it was seen last"),
        ("weight", pa.float64(), "0 to 1, the order within a severity"),
        ("evidence", pa.list_(OBSERVATION), "observations with their packets"),
        ("advice", pa.string(), "what to do"),
    ],
)

SUBJECT = pa.struct(
    fields(
        [
            ("role", pa.string(), "broker (by node id), client (by client id), host (by address), group, topic"),
            ("name", pa.string(), "its name"),
        ]
    )
)
EFFECT = pa.struct(
    fields(
        [
            ("what", pa.string(), "rebalances, requests, partitions, records, members, errors, time"),
            ("count", pa.int64(), "how many; null: not counted"),
            ("duration_ms", pa.float64(), "milliseconds for which it lasted; null: no time"),
            ("text", pa.string(), "the same in words"),
        ]
    )
)
WEIGHED = pa.struct(
    fields(
        [
            ("text", pa.string(), "what was seen"),
            ("packet", pa.int64(), "null: it is the absence of something, or about no single packet"),
            ("at", TIME, "when"),
            ("weight", pa.float64(), "how much it speaks for the kind, or for the alternative that it names, 0 to 1"),
            ("rejected", pa.bool_(), "whether it speaks for another kind, and was outweighed"),
        ]
    )
)
EXPLAINS = pa.struct(
    fields(
        [
            ("findings", pa.list_(pa.string()), "ids of findings"),
            (
                "rebalances",
                pa.list_(
                    pa.struct(
                        fields(
                            [
                                ("group_id", pa.string(), "the group"),
                                ("to_generation", pa.int32(), "generation or epoch that came of it"),
                            ]
                        )
                    )
                ),
                "rebalances",
            ),
        ]
    )
)

INCIDENTS = described(
    "What broke, one row for each cause with all that came of it; what to look at first is first",
    [
        ("rank", pa.int32(), "1: what to look at first"),
        ("kind", pa.string(), "which kind"),
        ("severity", pa.string(), "critical, warning, info (planned work, and what mended itself at no cost)"),
        ("certainty", pa.string(), "certain, likely, guessed"),
        ("subjects", pa.list_(SUBJECT), "who, the one that it is about first"),
        ("started", TIME, "when it began"),
        ("ended", TIME, "when it was over; null: it was not, as far as the capture goes"),
        ("headline", pa.string(), "who, what, when, and what it cost"),
        ("effects", pa.list_(EFFECT), "what came of it"),
        ("evidence", pa.list_(WEIGHED), "observations, those for rejected alternatives last"),
        ("advice", pa.string(), "what to do now, what to change"),
        ("explains", EXPLAINS, "findings and rebalances that it accounts for"),
        ("cost_ms", pa.float64(), "milliseconds that work stood still by it, in all; the order within a severity"),
    ],
)

SILENCES = described(
    "When a broker said nothing on any connection though answers were due, or could not be connected to",
    [
        ("host", pa.string(), "address of the broker; with its port where several brokers are at one"),
        ("since", TIME, "end of the last tenth of a second in which it sent data"),
        ("until", TIME, "begin of the first tenth of a second in which it sent data again; null: it never did"),
        ("duration_ms", pa.float64(), "milliseconds from since to until, or to the last packet of its connections"),
        ("waiting", pa.int64(), "requests that waited in it longer than they allowed"),
        (
            "waiting_replicas",
            pa.int64(),
            "... that are writes with acks=all or of groups, and may have waited for other brokers",
        ),
        ("waiting_connections", pa.int64(), "connections of these requests"),
        ("waiting_clients", pa.list_(pa.string()), "client ids of these requests"),
        (
            "overdue_ms",
            pa.float64(),
            "milliseconds from when the first of these requests was due to its end: what may wait for data is due "
            "when that time is over; null: none waited",
        ),
        (
            "asked",
            pa.int64(),
            "tenths of a second in which data was sent to it, but for the first one, if it sent packets in it",
        ),
        (
            "acknowledged",
            pa.int64(),
            "tenths of a second in which it sent packets, to clients or to brokers that it asked, but no data; null: "
            "the capture has no such packets of it at any time",
        ),
        ("ended", pa.int64(), "connections with it that ended in it"),
        ("ended_clients", pa.int64(), "addresses of the clients of these connections"),
        ("reset", pa.int64(), "... by RST"),
        ("refused", pa.int64(), "connects that it refused"),
        ("unanswered", pa.int64(), "connects that nobody answered"),
        (
            "turned_away",
            pa.int64(),
            "connections that were opened with it in it, and that its side closed without a word",
        ),
        ("opened", pa.int64(), "connections that were opened with it in it or in the second after"),
        ("kept", pa.int64(), "connections on which it sent data before it and after it"),
        ("timeouts", pa.int64(), "packets that it had to send again after a timeout, in the ten seconds around it"),
        ("first_packet", pa.int64(), "packet of the first request that waited, or of the first connect that failed"),
        ("first_failed", TIME, "time of the first connect that failed; null: none did"),
        ("failed_packet", pa.int64(), "its first packet"),
        (
            "back_connection",
            pa.int64(),
            "on which it sent data again first: of several in one tenth of a second the first; null: it never did",
        ),
        ("back_by", pa.string(), "kept (from before the silence), opened (a new one), as_client (to another broker)"),
    ],
)

# What exchanges say of groups, a row for each exchange and group: input of the analysis of groups, not for users.
GROUP_MESSAGES = pa.schema(
    [
        ("group_id", pa.string()),
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

# Connections on which members of a group spoke: a row when a member is first heard, and one when the connection ends.
GROUP_CONNECTIONS = pa.schema(
    [
        ("group_id", pa.string()),
        ("connection", pa.int64()),
        ("client", pa.string()),
        ("client_port", pa.int32()),
        ("broker", pa.string()),  # address:port
        ("client_id", pa.string()),
        ("opened", TIME),
        ("closed", TIME),
        ("how_closed", pa.string()),  # null: it goes on
        ("software", pa.string()),
        ("software_version", pa.string()),
        ("gap_bytes", pa.int64()),  # null: it goes on
    ]
)


def _by_group(table: pa.Schema) -> pa.StructType:
    return pa.struct([field for field in table if field.name != "group_id"])


# Rows of the view of groups: each is a row of one of these two tables, the other is null.
GROUP_ROWS = pa.schema(
    [
        ("group_id", pa.string()),
        ("message", _by_group(GROUP_MESSAGES)),
        ("connection", _by_group(GROUP_CONNECTIONS)),
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

# Durations counted in buckets: rows of the view of latency, of which the table ``latency`` is made. A row has a cell
# for each part and bucket, so that there are few names, which take far more than counts do.
LATENCY_CELL = pa.struct(
    [
        ("part", pa.int32()),  # its place among the sorted names of parts
        ("bucket", pa.int32()),
        ("count", pa.int64()),
        ("sum_ns", pa.int64()),
        ("max_ns", pa.int64()),
    ]
)
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
        ("cells", pa.list_(LATENCY_CELL)),
    ]
)

LATENCY = described(
    "Durations of exchanges and of their parts, by who, what and when; percentiles within 1 %",
    [
        ("api", pa.string(), "name of the API"),
        ("api_version", pa.int16(), "version of the API"),
        ("broker", pa.string(), "address:port"),
        ("client_id", pa.string(), "client id of the request"),
        ("client", pa.string(), "address of the client"),
        ("topic", pa.string(), "null: each exchange once; else each once for every topic that it brought or took"),
        ("acks", pa.int16(), "of Produce"),
        ("from", TIME, "start of the span"),
        ("width_ms", pa.int64(), "milliseconds of the span that begins at from"),
        (
            "part",
            pa.string(),
            "total, or one of its parts (reports.measures.latency.parts), or application: the time between exchanges",
        ),
        ("count", pa.int64(), "exchanges"),
        ("sum_ms", pa.float64(), "milliseconds, all together"),
        ("p50", pa.float64(), "milliseconds, within 1 %"),
        ("p90", pa.float64(), "milliseconds, within 1 %"),
        ("p99", pa.float64(), "milliseconds, within 1 %"),
        ("p999", pa.float64(), "milliseconds, within 1 %"),
        ("max", pa.float64(), "milliseconds"),
        ("bucket", pa.list_(pa.int32()), "buckets of the histogram (DDSketch)"),
        ("counts", pa.list_(pa.int64()), "exchanges in each bucket"),
    ],
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
        ("kind", pa.string()),  # of those of reports.measures.progress.positions
        ("partition", pa.int32()),
        ("broker", pa.string()),  # address:port
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

LAG = described(
    "What groups had committed and fetched against where partitions ended, by span of time",
    [
        ("group_id", pa.string(), "null: no group is known to read as this client"),
        ("topic", pa.string(), "topic"),
        ("partition", pa.int32(), "number of the partition"),
        ("at", TIME, "start of the span; offsets are those at its end"),
        ("width_ms", pa.int64(), "milliseconds of the span"),
        ("committed_offset", pa.int64(), "null: none, or not known"),
        ("end_offset", pa.int64(), "high watermark, or behind what was produced last"),
        ("fetch_offset", pa.int64(), "behind what the group's member was sent last"),
        ("lag", pa.int64(), "end_offset - committed_offset"),
        ("fetch_lag", pa.int64(), "end_offset - fetch_offset"),
        ("client_id", pa.string(), "who reads it; if nobody was seen to, who committed"),
        ("client", pa.string(), "address of the client"),
        ("commits", pa.int64(), "commits in the span"),
        ("fetches", pa.int64(), "answered fetches in the span"),
        ("commit_stuck_ms", pa.int64(), "milliseconds for which nothing was committed while there was more"),
        (
            "fetch_stuck_ms",
            pa.int64(),
            "milliseconds for which one offset was asked for again and again; null: no fetch in the span",
        ),
    ],
)

REREADS = described(
    "Records that travelled to a group more than once",
    [
        ("group_id", pa.string(), "the group"),
        ("topic", pa.string(), "topic"),
        ("partition", pa.int32(), "number of the partition"),
        ("at", TIME, "time of the first answer that brought them again"),
        ("connection", pa.int64(), "connection of that answer"),
        ("number", pa.int64(), "number of its exchange"),
        ("client_id", pa.string(), "who read them again"),
        ("client", pa.string(), "address of the client"),
        ("from_offset", pa.int64(), "first offset"),
        ("to_offset", pa.int64(), "behind the last one"),
        ("records", pa.int64(), "offsets between them, times over"),
        ("times", pa.int64(), "how often in a row it began there"),
    ],
)

FORGOTTEN_COMMITS = described(
    "Offsets that a coordinator did not have when a member asked for them, though the group had committed them, or had "
    "read on without and now passes records over",
    [
        ("group_id", pa.string(), "the group"),
        ("topic", pa.string(), "topic"),
        ("partition", pa.int32(), "number of the partition"),
        ("at", TIME, "time of the OffsetFetch answer that had none"),
        ("connection", pa.int64(), "connection of that answer"),
        ("number", pa.int64(), "number of its exchange"),
        ("client_id", pa.string(), "who asked"),
        ("client", pa.string(), "address of the client"),
        ("committed_at", TIME, "time of the last commit, or answer that told of one, before; null: there was none"),
        ("committed_offset", pa.int64(), "the offset in it"),
        ("read_from", pa.int64(), "offset of the first fetch of the group's after; null: none was seen"),
        ("passed_over", pa.int64(), "records between, that the group was not sent before either; null: not known"),
    ],
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

ERROR_HISTOGRAM = described(
    "Errors by name, place and client, counted in spans of time, with what they mean",
    [
        ("api", pa.string(), "name of the API"),
        ("error", pa.string(), "name of the error"),
        ("code", pa.int16(), "its code"),
        ("topic", pa.string(), "topic that it is about"),
        ("partition", pa.int32(), "partition that it is about"),
        ("group_id", pa.string(), "group that it is about"),
        ("member_id", pa.string(), "member that it is about"),
        ("broker", pa.string(), "address:port of the broker"),
        ("client_id", pa.string(), "client id of the request"),
        ("at", TIME, "start of the span"),
        ("width_ms", pa.int64(), "milliseconds of the span"),
        ("count", pa.int64(), "how many"),
        ("first", TIME, "time of the first"),
        ("last", TIME, "time of the last"),
        ("first_packet", pa.int64(), "packet of the first"),
        ("first_connection", pa.int64(), "connection of the first"),
        ("first_number", pa.int64(), "number of its exchange"),
        ("ordinary", pa.bool_(), "part of how the protocol works, no trouble"),
        ("reason", pa.string(), "... why"),
        ("retriable", pa.bool_(), "whether a client may try again"),
        ("meaning", pa.string(), "what the error says"),
        ("advice", pa.string(), "what to do about it"),
        ("rest", pa.bool_(), "what was too much to be listed: who and where are not told"),
    ],
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
    fields(
        [
            ("codec", pa.string(), "name of the codec"),
            ("batches", pa.int64(), "batches of data"),
            ("single_record_batches", pa.int64(), "batches of one record"),
            ("records", pa.int64(), "records"),
            ("bytes", pa.int64(), "bytes of batches as they travel"),
            ("bytes_uncompressed", pa.int64(), "bytes of records without compression"),
        ]
    )
)

THROUGHPUT = described(
    "What was produced and fetched, by topic, client and span of time",
    [
        ("topic", pa.string(), "null: each request once; else once for every topic that it carried or was answered of"),
        ("client_id", pa.string(), "client id of the request"),
        ("client", pa.string(), "address of the client"),
        ("direction", pa.string(), "produce, fetch"),
        ("from", TIME, "start of the span"),
        ("width_ms", pa.int64(), "milliseconds of the span that begins at from"),
        ("requests", pa.int64(), "requests"),
        ("empty", pa.int64(), "fetches that were answered without fault or throttling, and brought nothing"),
        ("batches", pa.int64(), "batches of data: markers of transactions are not counted"),
        ("single_record_batches", pa.int64(), "batches of one record"),
        ("records", pa.int64(), "records"),
        ("bytes", pa.int64(), "bytes of batches as they travel"),
        ("bytes_uncompressed", pa.int64(), "bytes of records without compression"),
        ("codecs", pa.list_(CODEC), "the same by codec"),
    ],
)

# What brokers sent, were asked and had to wait for: rows of the view of hosts, of which ``silences`` is made.
ACTIVITY = pa.schema(
    [
        ("host", pa.string()),  # of the broker
        ("port", pa.int32()),  # ... on the connection; null: what the host sent as a client
        (
            "kind",
            pa.string(),
        ),  # sent, received, sent_as_client: ten seconds of a connection; asked, throttled: a request; answered: a port
        # at which anything was; connection
        ("at", pa.int64()),  # nanoseconds: begin of the span; from when on an answer was due; opened
        ("until", pa.int64()),  # answered; closed
        ("connection", pa.int64()),
        ("packet", pa.int64()),
        ("client", pa.string()),  # connection: address
        ("client_id", pa.string()),
        ("how", pa.string()),  # connection: how it ended, or what became of the connect; asked: replicas, broker
        ("timeouts", pa.int64()),  # sent, received: packets that were sent again after a timeout
        ("acknowledgements", pa.int64()),  # sent, sent_as_client: packets that do nothing else
        ("kafka", pa.bool_()),  # connection: whether Kafka was spoken
        ("closed_by", pa.string()),  # connection: client, broker
        ("packets_in", pa.binary()),  # tenths of a second of the span, as in tcp_health
        ("payload_in", pa.binary()),
    ]
)

# What exchanges say of clusters: rows of the view of clusters. A row is an answer with the numbers of what it tells, or
# (without a connection) one fact of what has a number: what is told again and again is here once.
CLUSTER_FACTS = pa.schema(
    [
        ("shard", pa.int32()),  # 0: what belongs together is known when all are there
        ("at", TIME),
        ("connection", pa.int64()),
        ("number", pa.int64()),
        ("packet", pa.int64()),
        ("part", pa.string()),  # what of the exchange it is: each has rows of its own
        ("broker", pa.string()),  # address:port of the connection's broker
        ("told_by", pa.string()),  # the same, or the address of the client if the request says it
        ("client_id", pa.string()),
        ("told", pa.list_(pa.int64())),
        ("unit", pa.int64()),  # the number of which this is a fact
        ("place", pa.int32()),  # among the facts of the unit
        ("kind", pa.string()),
        ("node_id", pa.int32()),
        ("host", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("name", pa.string()),
        ("epoch", pa.int64()),
        ("nodes", pa.list_(pa.int32())),
        ("offline", pa.list_(pa.int32())),
    ]
)

CLUSTER_EVENTS = described(
    "What happened to clusters, as brokers tell it: brokers, leaders, in-sync replicas, controllers, coordinators",
    [
        ("cluster_id", pa.string(), "the cluster's id; null: nobody told it"),
        ("at", TIME, "when it was told first"),
        ("event", pa.string(), "what happened"),
        (
            "node_id",
            pa.int32(),
            "broker that it is about; of what moved, the new one; of a lost leader, the old",
        ),
        ("host", pa.string(), "its address:port; null: not told"),
        ("topic", pa.string(), "topic, if it is about one"),
        ("partition", pa.int32(), "partition, if it is about one"),
        ("partitions", pa.list_(pa.string()), "topic-number of those that it is about, 1,000 at most"),
        ("count", pa.int64(), "how many partitions these are"),
        ("group_id", pa.string(), "group or transactional id whose coordinator it is"),
        ("before", pa.string(), "node id, node ids (1,2,3) or address before; null: none, or not known"),
        ("after", pa.string(), "the same after; null: none"),
        ("leader_epoch", pa.int32(), "epoch of the leader or controller; null: not told, or not the same for all"),
        ("told_by", pa.string(), "address:port of who said it; without a port: a broker or controller that asked"),
        ("client_id", pa.string(), "client id of the request"),
        ("connection", pa.int64(), "connection of the exchange"),
        ("number", pa.int64(), "number of the exchange in its connection"),
        ("packet", pa.int64(), "packet in which it is said"),
        ("detail", pa.string(), "what else there is to say"),
    ],
)

SCHEMAS: dict[str, pa.Schema] = {
    "connections": CONNECTIONS,
    "tcp_health": TCP_HEALTH,
    "exchanges": EXCHANGES,
    "errors": ERRORS,
    "partitions": PARTITIONS,
    "batches": BATCHES,
    "records": RECORDS,
    "issues": ISSUES,
}

# What views (reports.columns.views) make of the whole capture.
RESULTS: dict[str, pa.Schema] = {
    "group_events": GROUP_EVENTS,
    "rebalances": REBALANCES,
    "cluster_events": CLUSTER_EVENTS,
    "error_histogram": ERROR_HISTOGRAM,
    "latency": LATENCY,
    "throughput": THROUGHPUT,
    "lag": LAG,
    "rereads": REREADS,
    "forgotten_commits": FORGOTTEN_COMMITS,
    "findings": FINDINGS,
    "silences": SILENCES,
}

# What is made of other tables, when all of them are there.
CONCLUSIONS: dict[str, pa.Schema] = {"incidents": INCIDENTS}
ALL_SCHEMAS = SCHEMAS | RESULTS | CONCLUSIONS

OF_EXCHANGES = ("exchanges", "errors", "partitions", "batches", "records")
"""Tables whose rows are each of one exchange: with a filter they have those of exchanges that pass."""

WHOLE = {name: f"all_{name}" for name in OF_EXCHANGES if name != "records"}
"""With a filter, what answers that are made of these tables look at instead, by the table's name: rows of all
exchanges, with the requests that answers read, and without responses. It is there as long as answers are made."""

_Table = TypeVar("_Table")


def of_whole(tables: Mapping[str, _Table]) -> dict[str, _Table]:
    """Tables for who asks of the whole capture: those of `WHOLE` in the place of what a filter left."""
    return {**tables, **{name: tables[of] for name, of in WHOLE.items() if of in tables}}


UNDECIDED = "undecided"
"""The name of exchanges of which nobody knows yet whether they pass, as they name topics by ids alone."""

BESIDE: dict[str, pa.Schema] = {
    **{of: SCHEMAS[name] for name, of in WHOLE.items()},
    UNDECIDED: pa.schema(
        [*EXCHANGES, ("client", pa.string()), ("broker", pa.string()), ("topics", pa.list_(pa.string()))]
    ),
}
"""With a filter, what is kept beside the tables while they are made."""

_OBSERVED = "; null: the capture does not show it"
CLIENTS = described(
    "Clients, a row for each client id and address: what they are, how they are set, what they do and how they fare",
    [
        ("client_id", pa.string(), "its name for itself; null: not told, or not read (TLS)"),
        ("client", pa.string(), "address of the client"),
        ("software", pa.string(), "name of the client library (KIP-511)" + _OBSERVED),
        ("software_version", pa.string(), "version of the client library (KIP-511)"),
        ("security", pa.string(), "plaintext, a SASL mechanism, tls (without SASL, or not read)"),
        ("groups", pa.list_(pa.string()), "groups that its requests name"),
        ("topics", pa.list_(pa.string()), "topics that it produced to or fetched"),
        ("apis", pa.list_(pa.string()), "APIs that it used, the most frequent first"),
        ("first", TIME, "its first request, or answer, in the capture"),
        ("last", TIME, "the last one"),
        ("max_wait_ms", pa.int64(), "Fetch, ShareFetch: milliseconds that the broker may wait (fetch.max.wait.ms)"),
        ("min_bytes", pa.int64(), "... until it has so many bytes (fetch.min.bytes)"),
        ("max_bytes", pa.int64(), "... and at most so many bytes (fetch.max.bytes)"),
        ("partition_max_bytes", pa.int64(), "... of one partition (max.partition.fetch.bytes)"),
        ("isolation_level", pa.string(), "Fetch: read_uncommitted, read_committed"),
        ("acks", pa.int64(), "Produce: replicas that must have the records; -1: all in sync"),
        ("request_timeout_ms", pa.int64(), "Produce: milliseconds that the broker may take (request.timeout.ms)"),
        ("compression", pa.string(), "codec of batches that it produced"),
        ("idempotent", pa.bool_(), "whether its batches have a producer id" + _OBSERVED),
        ("largest_batch_bytes", pa.int64(), "size of the largest batch that it produced: batch.size is hardly less"),
        ("records_per_batch", pa.float64(), "mean of the batches that it produced"),
        ("session_timeout_ms", pa.int64(), "JoinGroup: milliseconds of silence after which it is out"),
        (
            "rebalance_timeout_ms",
            pa.int64(),
            "JoinGroup, heartbeats: milliseconds (max.poll.interval.ms)",
        ),
        ("varied", pa.list_(pa.string()), "of which of these it showed several values: each with its number of times"),
        ("requests", pa.int64(), "exchanges, whatever became of them"),
        ("requests_per_second", pa.float64(), "... by the seconds from the first to the last; null: only one"),
        ("heartbeat_every_ms", pa.float64(), "mean milliseconds from one heartbeat to the next, of all of its members"),
        ("commit_every_ms", pa.float64(), "mean milliseconds from one commit of offsets to the next"),
        ("idle_ms", pa.int64(), "longest time without a new request, in milliseconds, to the second"),
        ("errors", pa.int64(), "error codes in its answers, without what is ordinary in the protocol"),
        ("error_names", pa.list_(pa.string()), "their names with their numbers, the most frequent first"),
        ("unanswered", pa.int64(), "requests without an answer (timeouts, lost connections, the end of the capture)"),
        ("throttled_ms", pa.float64(), "milliseconds for which quotas held it back, as brokers told it"),
        ("connections", pa.int64(), "connections that were established, or were open before the capture"),
        ("reconnects", pa.int64(), "... beyond the one at a time that each broker takes: opened after one was closed"),
        ("failed_connects", pa.int64(), "connects that were refused or that nobody answered"),
        ("resets", pa.int64(), "connections that ended by RST"),
        ("retransmits", pa.int64(), "packets that it or its brokers sent again"),
    ],
)

TOPOLOGY = described(
    "Who speaks with whom: a row for each client, broker and topic, and one without topic for all between both",
    [
        ("client_id", pa.string(), "the client's name for itself; null: not told, or not read (TLS)"),
        ("client", pa.string(), "address of the client"),
        ("broker", pa.string(), "address:port of the broker"),
        ("topic", pa.string(), "null: everything between the two, other requests and what could not be read included"),
        ("connections", pa.int64(), "connections on which it was; failed connects do not count"),
        ("bytes_up", pa.int64(), "bytes from client to broker: batches of the topic; topic null: payload of TCP"),
        ("bytes_down", pa.int64(), "bytes from broker to client, likewise"),
        ("records_up", pa.int64(), "records that were produced"),
        ("records_down", pa.int64(), "records that were fetched"),
        ("exchanges", pa.int64(), "topic null: exchanges; null for a topic, as one exchange has several"),
    ],
)

CHANGES = described(
    "What was compared of two captures, of before and after a change: what differs, and what does not",
    [
        ("section", pa.string(), "incidents, latency, errors, rebalances, settings, seen, load"),
        ("subject", pa.string(), "whom or what it is about: an API, a group, a client"),
        ("what", pa.string(), "what of it: a percentile, an error, a trigger, a setting"),
        ("before", pa.string(), "what it was, as text"),
        ("after", pa.string(), "what it is, as text"),
        (
            "verdict",
            pa.string(),
            "new, gone, up, down (by a tenth at least, and more than chance makes likely: three standard deviations), "
            "changed; same (or within chance), few (too few samples to tell)",
        ),
        ("ratio", pa.float64(), "after by before; null: not both are numbers"),
        ("before_value", pa.float64(), "latency: milliseconds; errors, rebalances, load: a minute; null: no number"),
        ("after_value", pa.float64(), "the same after"),
        ("before_samples", pa.int64(), "exchanges or events of which the value is made"),
        ("after_samples", pa.int64(), "the same after"),
        ("spent", pa.string(), "of latency: by how much the mean differs, and what that time was spent on"),
    ],
)

# What is worked out of tables when it is asked for.
ASKED: dict[str, pa.Schema] = {"clients": CLIENTS, "topology": TOPOLOGY, "changes": CHANGES}
