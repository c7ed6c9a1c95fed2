from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.decoders import apis
from kafkascope.decoders.limits import Limits
from kafkascope.decoders.record_columns import read_records
from kafkascope.decoders.records import CONTROL_BIT
from kafkascope.reports.columns.faults import RAISE_FAULTS
from kafkascope.reports.rows.bodies import BodyDecoder
from kafkascope.reports.rows.builder import TableBuilder
from kafkascope.reports.rows.damage import NAMELESS
from kafkascope.reports.rows.record_tables import record_table
from kafkascope.reports.vocabulary.tables import SCHEMAS
from kafkascope.sniffer.columns import ConnectionRow, Exchanges, Kind
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.origins import Origins
from tests.decoders import written_batches as w
from tests.decoders.written_messages import log_record
from tests.joined import joined
from tests.reports.ends import Ends
from tests.reports.written_exchanges import START, Written, batch, exchanges, some

ALL = frozenset(SCHEMAS)
ID = "B" * 21 + "A"
OTHER_ID = "C" * 21 + "A"


ENDS = {connection: Ends() for connection in range(10)}


def observe(builder: TableBuilder, batch_of: Exchanges) -> dict[str, pa.Table]:
    return joined(builder.observe(batch_of, ENDS))


def tables_of(batch_of: Exchanges, wanted: frozenset[str] = ALL, **options: Any) -> dict[str, pa.Table]:
    tables = observe(TableBuilder(wanted, **options), batch_of)
    for name, table in tables.items():
        assert table.schema.equals(SCHEMAS[name]), name
        table.validate(full=True)
    return tables


def rows(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def connection_row(connection: int = 1, protocol: str = "kafka") -> ConnectionRow:
    return ConnectionRow(
        connection,
        "10.0.0.2",
        40000,
        "10.0.0.1",
        9092,
        None,
        START,
        None,
        "open",
        protocol,
        "tester",
        10,
        6,
        4,
        1,
        2,
        0,
        0,
        0,
        0,
        3,
        "established",
        None,
        None,
        2,
        1,
        1,
        1,
        1,
        0,
        0,
        0,
        0,
        0.5,
        0.75,
        None,
        None,
    )


PRODUCE = Written(
    apis.PRODUCE,
    7,
    {"acks": -1, "topicData": [{"name": "t", "partitionData": [{"index": 1, "records": batch(b"a", b"b")}]}]},
    {"responses": [{"name": "t", "partitionResponses": [{"index": 1, "baseOffset": 40, "logAppendTimeMs": -1}]}]},
)
FETCH = Written(
    apis.FETCH,
    11,
    {"topics": [{"topic": "t", "partitions": [{"partition": 1, "fetchOffset": 41}]}]},
    {
        "responses": [
            {
                "topic": "t",
                "partitions": [
                    {
                        "partitionIndex": 1,
                        "highWatermark": 42,
                        "lastStableOffset": 42,
                        "logStartOffset": 3,
                        "records": batch(b"a", b"b", base_offset=40) + batch(b"c", base_offset=42)[:30],
                    }
                ],
            }
        ]
    },
)
METADATA = Written(apis.METADATA, 12, {"topics": []}, {"topics": [{"name": "named", "topicId": ID, "partitions": []}]})


def fetch_by_id(topic_id: str = ID, error: int = 0) -> Written:
    return Written(
        apis.FETCH,
        13,
        {"topics": [{"topicId": topic_id, "partitions": [{"partition": 0, "fetchOffset": 5}]}]},
        {"responses": [{"topicId": topic_id, "partitions": [{"partitionIndex": 0, "errorCode": error}]}]},
    )


def heartbeat(error: int) -> Written:
    return Written(apis.HEARTBEAT, 4, {"groupId": "g", "memberId": "m"}, {"throttleTimeMs": 30, "errorCode": error})


def test_an_exchange_is_a_row() -> None:
    table = tables_of(exchanges(heartbeat(27)), origins=Origins(["a.pcap"]))["exchanges"]
    assert table.drop_columns(["request", "response"]).to_pylist() == [
        {
            "connection": 1,
            "number": 1,
            "correlation_id": 7,
            "api_key": 12,
            "api": "Heartbeat",
            "api_version": 4,
            "client_id": "tester",
            "requested": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
            "request_done": datetime(2023, 11, 14, 22, 13, 20, 1000, tzinfo=UTC),
            "request_acked": None,
            "round_trip_ms": None,
            "least_round_trip_ms": None,
            "answered": datetime(2023, 11, 14, 22, 13, 20, 5000, tzinfo=UTC),
            "response_done": datetime(2023, 11, 14, 22, 13, 20, 6000, tzinfo=UTC),
            "latency_ms": 4.0,
            "request_packet": 1,
            "response_packet": 2,
            "request_bytes": table.column("request_bytes")[0].as_py(),
            "response_bytes": table.column("response_bytes")[0].as_py(),
            "throttle_ms": 30.0,
            "error_code": 27,
            "error": "REBALANCE_IN_PROGRESS",
            "group_id": "g",
            "member_id": "m",
            "outcome": "answered",
            "decoded": "full",
            "issue": None,
            "file": "a.pcap",
        }
    ]
    request = {"groupId": "g", "generationId": 0, "memberId": "m", "groupInstanceId": None}
    assert json.loads(table.column("request")[0].as_py()) == request
    assert json.loads(table.column("response")[0].as_py()) == {"throttleTimeMs": 30, "errorCode": 27}


def test_an_absent_side_is_null() -> None:
    batch_of = exchanges(
        Written(apis.HEARTBEAT, 4, {"groupId": "g"}, client_id=None), Written(-1, -1, None, b"anything")
    )
    columns = (
        "outcome",
        "api",
        "api_key",
        "client_id",
        "decoded",
        "latency_ms",
        "response_bytes",
        "request",
        "error_code",
    )
    unanswered, orphan = rows(tables_of(batch_of)["exchanges"], *columns)
    assert unanswered[:7] == ("unanswered", "Heartbeat", 12, None, "full", None, None)
    assert unanswered[8] is None
    assert orphan[:6] == ("orphan", None, None, None, "none", None)
    assert orphan[6] > 0
    assert orphan[7] is None
    assert tables_of(batch_of)["exchanges"].column("issue").to_pylist() == [None, NAMELESS]


def test_header_columns_take_no_bodies() -> None:
    builder = TableBuilder(frozenset({"exchanges"}), exchange_columns=frozenset({"api", "latency_ms", "client_id"}))
    assert builder._decoder is None
    table = observe(builder, exchanges(heartbeat(27), PRODUCE))["exchanges"]
    assert table.schema.equals(SCHEMAS["exchanges"])
    columns = ("api", "latency_ms", "client_id", "error", "number")
    assert rows(table, *columns) == [
        ("Heartbeat", 4.0, "tester", None, None),
        ("Produce", 4.0, "tester", None, None),
    ]


def test_the_error_of_an_exchange_is_the_top_one_or_the_first_nested() -> None:
    nested = fetch_by_id(error=6)
    table = tables_of(exchanges(nested, heartbeat(0)))["exchanges"]
    assert rows(table, "error_code", "error") == [(6, "NOT_LEADER_OR_FOLLOWER"), (0, "NONE")]


def test_every_error_code_is_a_row_with_what_it_is_about() -> None:
    produce = Written(
        apis.PRODUCE,
        9,
        {"topicData": []},
        {
            "responses": [
                {
                    "name": "a",
                    "partitionResponses": [{"index": 0}, {"index": 5, "errorCode": 10, "errorMessage": "big"}],
                },
                {"name": "b", "partitionResponses": [{"index": 1, "errorCode": -1}, {"index": 2, "errorCode": 3000}]},
            ]
        },
    )
    leave = Written(
        apis.LEAVE_GROUP,
        5,
        {"groupId": "g", "members": [{"memberId": "x"}]},
        {"errorCode": 25, "members": [{"memberId": "one"}, {"memberId": "two", "errorCode": 82}]},
    )
    table = tables_of(exchanges(produce, leave))["errors"]
    columns = ("number", "path", "code", "error", "message", "topic", "partition", "group_id", "member_id")
    big = "responses[0].partitionResponses[1].errorCode"
    unknown = "responses[1].partitionResponses[{}].errorCode"
    assert rows(table, *columns) == [
        (1, big, 10, "MESSAGE_TOO_LARGE", "big", "a", 5, None, None),
        (1, unknown.format(0), -1, "UNKNOWN_SERVER_ERROR", None, "b", 1, None, None),
        (1, unknown.format(1), 3000, "ERROR_3000", None, "b", 2, None, None),
        (2, "errorCode", 25, "UNKNOWN_MEMBER_ID", None, None, None, "g", "x"),
        (2, "members[1].errorCode", 82, "FENCED_INSTANCE_ID", None, None, None, "g", "two"),
    ]
    assert rows(table, "api", "api_version", "broker", "client_id")[0] == ("Produce", 9, "10.0.0.1:9092", "tester")


def test_what_is_acknowledged_has_an_error_and_a_message_of_its_own() -> None:
    partition = {"errorCode": 3, "errorMessage": "e", "acknowledgeErrorCode": 121, "acknowledgeErrorMessage": "a"}
    share = Written(
        apis.SHARE_FETCH,
        1,
        {"groupId": "g", "memberId": "m"},
        {"responses": [{"topicId": ID, "partitions": [partition]}]},
    )
    table = tables_of(exchanges(share))["errors"]
    assert rows(table, "path", "message", "topic", "group_id") == [
        ("responses[0].partitions[0].errorCode", "e", f"id:{ID}", "g"),
        ("responses[0].partitions[0].acknowledgeErrorCode", "a", f"id:{ID}", "g"),
    ]


def test_produced_records_have_the_offsets_of_the_answer() -> None:
    unanswered = Written(apis.PRODUCE, 7, PRODUCE.request)
    refused = Written(
        apis.PRODUCE,
        7,
        PRODUCE.request,
        {"responses": [{"name": "t", "partitionResponses": [{"index": 1, "errorCode": 10, "baseOffset": 0}]}]},
    )
    stamped = Written(
        apis.PRODUCE,
        7,
        PRODUCE.request,
        {"responses": [{"name": "t", "partitionResponses": [{"index": 1, "baseOffset": 9, "logAppendTimeMs": 5000}]}]},
    )
    tables = tables_of(exchanges(PRODUCE, unanswered, refused, stamped))
    columns = ("number", "direction", "topic", "partition", "offset", "key", "value", "timestamp_type")
    first = [
        (1, "produce", "t", 1, 40, b"k0", b"a", "create_time"),
        (1, "produce", "t", 1, 41, b"k1", b"b", "create_time"),
    ]
    assert rows(tables["records"], *columns)[:2] == first
    assert tables["records"].column("offset").to_pylist() == [40, 41, None, None, None, None, 9, 10]
    seconds = [time.timestamp() for time in tables["records"].column("timestamp").to_pylist()]
    assert seconds == [1.0, 1.001] * 3 + [5.0, 5.0]
    assert tables["records"].column("timestamp_type").to_pylist()[-1] == "log_append_time"
    assert rows(tables["batches"], "base_offset", "last_offset", "records", "crc_ok") == [
        (40, 41, 2, True),
        (None, None, 2, True),
        (None, None, 2, True),
        (9, 10, 2, True),
    ]


def test_the_answer_may_list_partitions_in_another_order() -> None:
    request = {
        "topicData": [
            {
                "name": "a",
                "partitionData": [{"index": 0, "records": batch(b"a0")}, {"index": 1, "records": batch(b"a1")}],
            },
            {"name": "b", "partitionData": [{"index": 0, "records": batch(b"b0")}]},
        ]
    }
    response = {
        "responses": [
            {"name": "b", "partitionResponses": [{"index": 0, "baseOffset": 300}]},
            {"name": "a", "partitionResponses": [{"index": 1, "baseOffset": 200}, {"index": 0, "baseOffset": 100}]},
        ]
    }
    table = tables_of(exchanges(Written(apis.PRODUCE, 7, request, response)))["records"]
    assert rows(table, "value", "offset") == [(b"a0", 100), (b"a1", 200), (b"b0", 300)]


def test_offsets_go_on_from_batch_to_batch_of_a_partition() -> None:
    request = {
        "topicData": [{"name": "t", "partitionData": [{"index": 1, "records": batch(b"a", b"b") + batch(b"c")}]}]
    }
    tables = tables_of(exchanges(Written(apis.PRODUCE, 7, request, PRODUCE.response)))
    assert tables["records"].column("offset").to_pylist() == [40, 41, 42]
    assert rows(tables["batches"], "base_offset", "last_offset") == [(40, 41), (42, 42)]


def test_control_records_are_no_data() -> None:
    commit, unknown = w.record(0, 0, b"\0\0\0\1", b"\0" * 6), w.record(0, 0, None, b"")
    data = batch(b"\0\0\0\1")
    written = data + w.batch(commit, 1, attributes=CONTROL_BIT) + w.batch(unknown, 1, attributes=CONTROL_BIT) + data
    request = {"topicData": [{"name": "t", "partitionData": [{"index": 1, "records": written}]}]}
    tables = tables_of(exchanges(Written(apis.PRODUCE, 7, request, PRODUCE.response)))
    assert tables["records"].column("control_type").to_pylist() == [None, "COMMIT", "UNKNOWN", None]


def test_a_produced_batch_that_was_not_read_ends_where_it_says() -> None:
    packed = w.batch(b"".join(w.record(n, n, b"k", b"v" * 1000) for n in range(50)), 50, codec=w.ZSTD)
    request = {"topicData": [{"name": "t", "partitionData": [{"index": 1, "records": packed}]}]}
    written = exchanges(Written(apis.PRODUCE, 7, request, PRODUCE.response))
    for limits, records in ((Limits(), 50), (Limits(decompressed_bytes=10_000), 0)):
        builder = TableBuilder(frozenset({"batches"}), limits=limits)
        tables = joined(builder.observe(written, {}))
        assert rows(tables["batches"], "base_offset", "last_offset", "records") == [(40, 89, records)]


def test_a_fetch_lists_what_is_on_the_wire() -> None:
    tables = tables_of(exchanges(FETCH))
    assert rows(tables["records"], "direction", "offset", "value") == [("fetch", 40, b"a"), ("fetch", 41, b"b")]
    columns = (
        "api",
        "topic",
        "partition",
        "fetch_offset",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "records",
        "error",
    )
    assert rows(tables["partitions"], *columns) == [("Fetch", "t", 1, 41, 42, 42, 3, 2, "NONE")]
    assert tables["partitions"].column("bytes")[0].as_py() == len(batch(b"a", b"b")) + 30
    assert tables["batches"].num_rows == 1


def test_a_produce_answer_counts_what_the_request_brought() -> None:
    columns = ("api", "topic", "partition", "fetch_offset", "high_watermark", "records", "bytes")
    assert rows(tables_of(exchanges(PRODUCE))["partitions"], *columns) == [
        ("Produce", "t", 1, None, None, 2, len(batch(b"a", b"b")))
    ]


def test_an_incremental_fetch_asks_for_what_was_asked_before() -> None:
    response = {"responses": [{"topic": "t", "partitions": [{"partitionIndex": 1}]}]}
    again = Written(apis.FETCH, 11, {"sessionId": 4, "sessionEpoch": 1, "topics": []}, response)
    elsewhere = Written(apis.FETCH, 11, {"topics": []}, response, connection=2)
    builder = TableBuilder(frozenset({"partitions"}))
    asked = [
        offset
        for part in (exchanges(FETCH, again), exchanges(again, elsewhere))
        for offset in observe(builder, part)["partitions"].column("fetch_offset").to_pylist()
    ]
    assert asked == [41, 41, 41, None]


def test_times_that_no_table_can_hold_are_null_and_counted() -> None:
    records = batch(b"a", timestamp=2**62) + batch(b"b", timestamp=-1)
    request = {"topicData": [{"name": "t", "partitionData": [{"index": 1, "records": records}]}]}
    builder = TableBuilder(ALL)
    tables = observe(builder, exchanges(Written(apis.PRODUCE, 7, request)))
    assert tables["records"].column("timestamp").to_pylist() == [None, None]
    assert {issue.kind for issue in builder.issues} == {"batch_time_out_of_range", "record_time_out_of_range"}


def test_a_wrong_checksum_is_shown_and_counted() -> None:
    damaged = bytearray(batch(b"abc"))
    damaged[-2] ^= 1
    request = {"topicData": [{"name": "t", "partitionData": [{"index": 1, "records": bytes(damaged)}]}]}
    builder = TableBuilder(ALL)
    tables = observe(builder, exchanges(Written(apis.PRODUCE, 7, request)))
    assert tables["batches"].column("crc_ok").to_pylist() == [False]
    (issue,) = builder.issues
    assert (issue.kind, issue.connection, issue.packet, issue.count) == ("bad_crc", 1, 1, 1)
    assert issue.detail.startswith("request of Produce v7: t-1: ")


def test_topic_ids_become_names_as_soon_as_they_are_known() -> None:
    builder = TableBuilder(ALL)
    before = observe(builder, exchanges(fetch_by_id(error=3), fetch_by_id(OTHER_ID)))
    assert before["partitions"].column("topic").to_pylist() == [f"id:{ID}", f"id:{OTHER_ID}"]
    after = observe(builder, exchanges(METADATA, fetch_by_id(error=3)))
    assert after["partitions"].column("topic").to_pylist() == ["named"]
    assert after["errors"].column("topic").to_pylist() == ["named"]
    assert builder.topic_names.resolve(before["partitions"]).column("topic").to_pylist() == ["named", f"id:{OTHER_ID}"]


def test_the_metadata_log_tells_the_names_of_topics() -> None:
    snapshot = Written(
        apis.FETCH,
        13,
        {"topics": []},
        {
            "responses": [
                {
                    "topicId": "A" * 21 + "Q",
                    "partitions": [{"partitionIndex": 0, "records": batch(b"\1\2", TOPIC_RECORD, b"\1\3\0")}],
                }
            ]
        },
    )
    table = tables_of(exchanges(snapshot, fetch_by_id()))["partitions"]
    assert table.column("topic").to_pylist() == ["__cluster_metadata", "named"]


@pytest.mark.parametrize(
    ("written", "kind", "text", "decoded"),
    [
        (
            Written(apis.HEARTBEAT, 4, b"\x02g", {}),
            "undecodable_body",
            "request: generationId: expected 4 bytes of int32, 0 are left at offset 2",
            "header",
        ),
        (
            Written(apis.HEARTBEAT, 0, {"groupId": "g"}, b"\0\0??"),
            "bytes_left_over",
            "response: 2 bytes left over behind the last field",
            "full",
        ),
        (Written(99, 0, b"what", b"ever"), "unknown_api", "request: no release knows API key 99", "header"),
        (
            Written(apis.HEARTBEAT, 99, b"what", b"ever"),
            "unknown_version",
            "request: no release knows version 99 of Heartbeat",
            "header",
        ),
    ],
)
def test_damage_is_told_and_counted(written: Written, kind: str, text: str, decoded: str) -> None:
    builder = TableBuilder(ALL)
    table = observe(builder, exchanges(written))["exchanges"]
    assert rows(table, "issue", "decoded") == [(text, decoded)]
    assert {issue.kind for issue in builder.issues} == {kind}
    (issues,) = builder.end_connections([connection_row()])["issues"].column("count").to_pylist()
    assert issues == sum(1 for side in (written.request, written.response) if isinstance(side, bytes))


def test_what_could_be_read_of_a_damaged_body_is_shown() -> None:
    table = tables_of(exchanges(Written(apis.HEARTBEAT, 4, b"\x02g", {})))["exchanges"]
    assert json.loads(table.column("request")[0].as_py()) == {"groupId": "g"}


def test_a_frame_cut_by_a_gap_shows_what_is_there() -> None:
    cut = Written(apis.HEARTBEAT, 4, {"groupId": "group", "memberId": "m"}, heartbeat(27).response, cut_request=4)
    table = tables_of(exchanges(cut))["exchanges"]
    assert rows(table, "decoded", "group_id", "error") == [("header", "group", "REBALANCE_IN_PROGRESS")]
    held, size = table.column("request_bytes")[0].as_py() - 4, table.column("request_bytes")[0].as_py()
    assert table.column("issue")[0].as_py() == f"request: only {held} of its {size} bytes are there"
    assert json.loads(table.column("request")[0].as_py())["groupId"] == "group"


def test_group_protocols_inside_bodies_are_decoded() -> None:
    subscription = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
    request = {
        "groupId": "g",
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": subscription}],
    }
    table = tables_of(exchanges(Written(apis.JOIN_GROUP, 5, request, {})))["exchanges"]
    (protocol,) = json.loads(table.column("request")[0].as_py())["protocols"]
    assert protocol["metadata"]["topics"] == ["t"]


SCRAM = [
    Written(apis.SASL_HANDSHAKE, 0, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]}),
    Written(-1, -1, b"\0alice\0wonderland", b"", kind=Kind.SASL),
    Written(apis.SASL_AUTHENTICATE, 2, {"authBytes": b"\0alice\0wonderland"}, {}),
]


HASHED = dict.fromkeys(("salt", "storedKey", "serverKey"), b"secret")
USER = log_record("UserScramCredentialRecord", {"name": "bo", "mechanism": 1} | HASHED)
TOPIC_RECORD = log_record("TopicRecord", {"name": "named", "topicId": ID})
CONFIG = log_record("ConfigRecord", {"resourceType": 4, "resourceName": "1", "name": "my.code", "value": "code"})
METADATA_LOG = {
    "by id": Written(
        apis.FETCH,
        13,
        {"topics": []},
        {
            "responses": [
                {
                    "topicId": "A" * 21 + "Q",
                    "partitions": [{"partitionIndex": 0, "records": batch(USER, TOPIC_RECORD, CONFIG)}],
                }
            ]
        },
    ),
    "by name": Written(
        apis.FETCH,
        12,
        {"topics": []},
        {
            "responses": [
                {
                    "topic": "__cluster_metadata",
                    "partitions": [{"partitionIndex": 0, "records": batch(USER, TOPIC_RECORD, CONFIG)}],
                }
            ]
        },
    ),
    "snapshot": Written(
        apis.FETCH_SNAPSHOT,
        0,
        {"topics": []},
        {
            "topics": [
                {
                    "name": "__cluster_metadata",
                    "partitions": [{"index": 0, "unalignedRecords": batch(USER, TOPIC_RECORD, CONFIG)}],
                }
            ]
        },
    ),
}


@pytest.mark.parametrize("way", METADATA_LOG)
def test_records_of_the_metadata_log_show_no_secrets(way: str) -> None:
    def values(**options: Any) -> list[bytes]:
        found = tables_of(exchanges(METADATA_LOG[way]), frozenset({"records"}), **options)["records"]
        return list(found.column("value").to_pylist())

    assert values() == [b"[redacted]", TOPIC_RECORD, CONFIG]
    assert values(secret_names=("^my.code$",)) == [b"[redacted]", TOPIC_RECORD, b"[redacted]"]
    assert values(reveal_secrets=True, secret_names=("^my.code$",)) == [USER, TOPIC_RECORD, CONFIG]


@pytest.mark.parametrize("reveal", [False, True])
def test_texts_of_errors_that_may_quote_a_client_are_shown_only_on_demand(reveal: bool) -> None:
    said = ("bad password: hunter2", "Authentication failed: Invalid username or password", "")
    refused = [Written(apis.SASL_AUTHENTICATE, 1, {}, {"errorCode": 58, "errorMessage": text}) for text in said]
    other = Written(38, 0, {}, {"errorCode": 61})
    tables = tables_of(exchanges(*refused, other), reveal_secrets=reveal)
    shown = [said[0] if reveal else "[redacted]", *said[1:]]
    assert tables["errors"].column("message").to_pylist() == [*shown, None]
    bodies = [json.loads(text) for text in tables["exchanges"].column("response").to_pylist()[:3]]
    assert [body["errorMessage"] for body in bodies] == shown


@pytest.mark.parametrize("reveal", [False, True])
def test_secrets_are_shown_only_on_demand(reveal: bool) -> None:
    table = tables_of(exchanges(*SCRAM), reveal_secrets=reveal)["exchanges"]
    requests = table.column("request").to_pylist()
    assert [("wonderland" in request, "alice" in request) for request in requests] == [
        (False, False),
        (reveal, True),
        (reveal, True),
    ]
    assert rows(table, "api", "api_key", "correlation_id", "decoded")[1] == ("SaslToken", None, None, "full")


@pytest.mark.parametrize("wanted", [ALL, frozenset({"connections"})])
def test_a_connection_tells_its_software_and_security(wanted: frozenset[str]) -> None:
    introduced = Written(
        apis.API_VERSIONS, 3, {"clientSoftwareName": "apache-kafka-java", "clientSoftwareVersion": "4.3.1"}, {}
    )
    builder = TableBuilder(wanted)
    observe(builder, exchanges(introduced, *SCRAM, Written(apis.HEARTBEAT, 4, {}, {}, connection=2)))
    issue = Issue("tcp_gap", "3 bytes", 1, count=2)
    rows_of = [connection_row(1), connection_row(2), connection_row(3, "tls"), connection_row(4, "http")]
    table = builder.end_connections(rows_of, [issue])["connections"]
    assert table.schema.equals(SCHEMAS["connections"])
    assert rows(table, "connection", "software", "software_version", "security", "issues") == [
        (1, "apache-kafka-java", "4.3.1", "PLAIN", 2),
        (2, None, None, "plaintext", 0),
        (3, None, None, "tls", 0),
        (4, None, None, None, 0),
    ]


def test_text_that_is_no_utf8_stays_readable() -> None:
    odd = Written(apis.HEARTBEAT, 0, b"\0\2\xffg\0\0\0\0\0\1m", {}, client_id="café")
    tables = tables_of(exchanges(odd, heartbeat(27)))
    assert rows(tables["exchanges"], "group_id", "client_id")[0] == ("\\xffg", "café")
    assert json.loads(tables["exchanges"].column("request")[0].as_py())["groupId"] == "\\xffg"


CONVERSATION = [
    METADATA,
    PRODUCE,
    FETCH,
    fetch_by_id(error=6),
    *SCRAM,
    heartbeat(27),
    Written(apis.FETCH, 11, {"topics": []}, {"responses": [{"topic": "t", "partitions": [{"partitionIndex": 1}]}]}),
    Written(apis.HEARTBEAT, 4, b"\x02g", {}),
    Written(99, 0, b"what", b"ever"),
    Written(apis.JOIN_GROUP, 5, {"groupId": "g", "protocolType": "consumer"}, {"protocolName": "range"}),
    Written(apis.SYNC_GROUP, 3, {"groupId": "g"}, {"assignment": b"\0\0\0\0\0\0\xff\xff\xff\xff"}),
    Written(apis.FETCH, 13, fetch_by_id(OTHER_ID).request, fetch_by_id(OTHER_ID).response, connection=2),
]


def observed(builder: TableBuilder, *parts: Exchanges) -> dict[str, pa.Table]:
    batches = [observe(builder, part) for part in parts]
    batches.append(builder.end_connections([connection_row(1), connection_row(2)]))
    return {
        name: builder.topic_names.resolve(
            pa.concat_tables([one[name] for one in batches if name in one])
        ).combine_chunks()
        for name in SCHEMAS
        if any(name in one for one in batches)
    }


@settings(deadline=None, max_examples=25)
@given(st.sets(st.integers(0, len(CONVERSATION))))
def test_tables_do_not_depend_on_how_exchanges_are_cut_into_batches(cuts: set[int]) -> None:
    whole = exchanges(*CONVERSATION)
    borders = sorted({0, len(CONVERSATION), *cuts})
    parts = [some(whole, first, last) for first, last in pairwise(borders)]
    assert observed(TableBuilder(ALL), *parts) == observed(TableBuilder(ALL), whole)


def test_large_batches_are_worked_off_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = exchanges(*CONVERSATION)
    at_once = observed(TableBuilder(ALL), whole)
    monkeypatch.setattr("kafkascope.reports.rows.builder.BYTES_AT_ONCE", 100)
    assert observed(TableBuilder(ALL), whole) == at_once


def test_records_come_the_same_in_chunks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    records = batch(b"a", b"b") + batch(b"c") + batch(b"d", b"e")
    request = {"topicData": [{"name": "t", "partitionData": [{"index": 1, "records": records}]}]}
    whole = exchanges(Written(apis.PRODUCE, 7, request, PRODUCE.response), FETCH)
    at_once = observed(TableBuilder(ALL), whole)
    monkeypatch.setattr("kafkascope.reports.rows.partition_tables.read_records", partial(read_records, chunk_bytes=1))
    assert observed(TableBuilder(ALL), whole) == at_once
    assert at_once["records"].column("offset").to_pylist() == [40, 41, 42, 43, 44, 40, 41]


def test_texts_that_are_too_long_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = exchanges(heartbeat(0), METADATA)
    requests, responses = (tables_of(whole)["exchanges"].column(side).to_pylist() for side in ("request", "response"))
    assert len(requests[1]) < len(responses[1])
    monkeypatch.setattr("kafkascope.reports.rows.bodies_as_text.LONGEST_TEXT", len(requests[1]))
    builder = TableBuilder(ALL)
    table = observe(builder, whole)["exchanges"]
    assert table.column("request").to_pylist() == requests
    assert table.column("response").to_pylist() == [responses[0], None]
    assert table.column("issue").to_pylist() == [None, "response: too large to be shown as text"]
    assert table.column("decoded").to_pylist() == ["full"] * 2
    (issue,) = builder.issues
    assert (issue.kind, issue.count) == ("body_too_large", 1)
    assert issue.detail.startswith("response of Metadata v")


@pytest.mark.parametrize(("limit", "value"), [("ROWS_ONE_BY_ONE", 3), ("BYTES_NESTED", 10), ("LONGEST_OF_GROUPS", 10)])
def test_messages_for_python_that_are_too_large_have_no_text(
    limit: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = Written(apis.JOIN_GROUP, 0, {"groupId": "g", "protocolType": "consumer"}, {"errorCode": 25})
    monkeypatch.setattr(f"kafkascope.reports.rows.bodies_as_text.{limit}", value)
    builder = TableBuilder(ALL)
    table = observe(builder, exchanges(join))["exchanges"]
    assert table.column("request").to_pylist() == table.column("response").to_pylist() == [None]
    assert [(issue.kind, issue.count) for issue in builder.issues] == [("body_too_large", 2)]


def commit_of(topics: int) -> Written:
    return Written(apis.OFFSET_COMMIT, 2, {"groupId": "g", "topics": [{"name": "t", "partitions": [{}]}] * topics})


def test_of_a_body_with_more_values_than_are_kept_the_first_are_read() -> None:
    builder = TableBuilder(ALL | {"told_offsets"}, limits=Limits(elements=30))
    tables = observe(builder, exchanges(commit_of(2), commit_of(1000), commit_of(3)))
    assert tables["exchanges"].column("decoded").to_pylist() == ["full", "header", "full"]
    assert [text is None for text in tables["exchanges"].column("request").to_pylist()] == [False, True, False]
    of_large = tables["told_offsets"].column("number").to_pylist().count(2)
    assert of_large == 15
    (issue,) = builder.issues
    assert (issue.kind, issue.count, issue.packet) == ("body_too_large", 1, 3)
    assert "its first " in tables["exchanges"].column("issue").to_pylist()[1]
    assert "(--limit elements=30)" in issue.detail


def test_damaged_bodies_with_very_many_values_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = exchanges(replace(commit_of(1000), cut_request=1))
    assert tables_of(cut)["exchanges"].column("request").to_pylist()[0].startswith('{"groupId": "g"')
    monkeypatch.setattr("kafkascope.reports.rows.damage.EXPLAINED_ROWS", 100)
    monkeypatch.setattr("kafkascope.reports.rows.damage.decode_request", None)
    row = tables_of(cut)["exchanges"].to_pylist()[0]
    assert (row["request"], row["decoded"], row["issue"][-15:]) == (None, "header", "bytes are there")


@pytest.mark.parametrize("rows_at_once", [1, 30, 100])
def test_what_is_held_at_once_is_bounded_by_values(rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = exchanges(*CONVERSATION)
    at_once = observed(TableBuilder(ALL), whole)
    monkeypatch.setattr("kafkascope.reports.rows.bodies.ROWS_AT_ONCE", rows_at_once)
    for bodies in BodyDecoder().decode(whole):
        assert len(bodies.requests) == 1 or max(len(bodies.requests.field), len(bodies.responses.field)) <= rows_at_once
    assert observed(TableBuilder(ALL), whole) == at_once


def test_records_are_given_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    request = {"topicData": [{"name": "t", "partitionData": [{"index": 1, "records": batch(*[b"v"] * 10)}]}]}
    whole = exchanges(Written(apis.PRODUCE, 7, request, PRODUCE.response), FETCH)
    at_once = observed(TableBuilder(ALL), whole)
    monkeypatch.setattr(
        "kafkascope.reports.rows.partition_tables.read_records", partial(read_records, records_at_once=4)
    )
    assert observed(TableBuilder(ALL), whole) == at_once
    pieces = list(TableBuilder(ALL).observe(whole, ENDS))
    assert [len(tables["records"]) for tables in pieces if "records" in tables] == [4, 4, 4]
    assert [sorted(tables) for tables in pieces][:3] == [["records"]] * 3
    for_sniff = list(TableBuilder(frozenset({"exchanges", "records"})).observe(whole, ENDS))
    assert [sorted(tables) for tables in for_sniff] == [["exchanges"], *[["records"]] * 3]


def test_no_exchanges_no_tables() -> None:
    assert observe(TableBuilder(ALL), some(exchanges(PRODUCE), 0, 0)) == {}


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=40), st.integers(0, len(CONVERSATION)))
def test_whatever_the_bytes_are_there_are_tables(changes: list[tuple[int, int]], cut: int) -> None:
    whole = exchanges(*CONVERSATION)
    data = whole.data.copy()
    for place, byte in changes:
        data[place % len(data)] = byte
    whole = replace(whole, data=data)
    tables = observed(TableBuilder(ALL), whole)
    for name, table in tables.items():
        assert table.schema.equals(SCHEMAS[name])
        table.validate(full=True)
    assert tables["exchanges"].num_rows == len(CONVERSATION)
    assert observed(TableBuilder(ALL), some(whole, 0, cut), some(whole, cut, len(CONVERSATION))) == tables


def test_a_row_says_which_file_its_first_packet_came_from() -> None:
    """Requests are in packets 1, 3 and 5, the answers behind each; the second file begins with an answer."""
    made = exchanges(PRODUCE, FETCH, heartbeat(27))
    builder = TableBuilder(ALL, origins=Origins(["a.pcap", "b.pcap"], [1, 4]))
    tables = observe(builder, made)
    assert tables["exchanges"]["file"].to_pylist() == ["a.pcap", "a.pcap", "b.pcap"]
    found = {name: sorted(set(rows(tables[name], "number", "file"))) for name in ("batches", "records", "partitions")}
    assert found["batches"] == found["records"] == [(1, "a.pcap"), (2, "b.pcap")]  # the answer to the fetch has them
    assert found["partitions"] == [(1, "a.pcap"), (2, "b.pcap")]
    assert tables["errors"]["file"].to_pylist() == ["b.pcap"]
    ended = builder.end_connections([connection_row(4)], [Issue("tcp_gap", "d", 4, packet=3), Issue("spool_full", "d")])
    assert ended["connections"]["file"].to_pylist() == ["b.pcap"]
    assert dict(rows(ended["issues"], "kind", "file")) == {"tcp_gap": "a.pcap", "spool_full": None}


def test_a_fault_amid_records_costs_those_of_its_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was given before it was met is not given again, though the exchanges are worked on again in parts."""
    monkeypatch.delenv(RAISE_FAULTS)
    monkeypatch.setattr("kafkascope.reports.rows.partition_tables.read_records", partial(read_records, chunk_bytes=1))
    values = [b"a", b"b", b"bad", b"c", b"d"]
    data = [
        {"topicData": [{"name": "t", "partitionData": [{"index": 1, "records": batch(value)}]}]} for value in values
    ]
    whole = exchanges(*(Written(apis.PRODUCE, 7, request, PRODUCE.response) for request in data))

    def failing(*columns: Any, **options: Any) -> pa.Table | None:
        table = record_table(*columns, **options)
        if table is not None and b"bad" in table["value"].to_pylist():
            raise ZeroDivisionError
        return table

    monkeypatch.setattr("kafkascope.reports.rows.partition_tables.record_table", failing)
    builder = TableBuilder(ALL)
    found = observe(builder, whole)
    assert found["records"]["value"].to_pylist() == [b"a", b"b", b"c", b"d"]
    assert len(found["exchanges"]) == len(values)
    assert [text is None for text in found["exchanges"]["issue"].to_pylist()] == [value != b"bad" for value in values]
    assert [(issue.kind, issue.count) for issue in builder.issues] == [("internal_error", 1)]
