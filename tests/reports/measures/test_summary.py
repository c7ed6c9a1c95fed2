from __future__ import annotations

import io
import json

import pyarrow as pa
import pytest
from rich.console import Console

from kafkascope.reports.answers.coverage import facts
from kafkascope.reports.columns.remarks import FILTERED, was_filtered
from kafkascope.reports.measures.summary import Summary, capture_name
from kafkascope.reports.show import summary_terminal as terminal
from kafkascope.reports.vocabulary.tables import BATCHES, CONNECTIONS, ERRORS, EXCHANGES, ISSUES, TCP_HEALTH


def table(schema: pa.Schema, rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist([{f.name: row.get(f.name) for f in schema} for row in rows], schema=schema)


def tables(count: int, first: int) -> dict[str, pa.Table]:
    return {
        "exchanges": table(
            EXCHANGES,
            [
                {
                    "api": "Fetch" if i % 2 else "Produce",
                    "api_version": 12 + i % 2,
                    "client_id": f"c{i % 3}",
                    "requested": (first + i) * 1_000_000_000,
                    "response_done": (first + i) * 1_000_000_000 + 5,
                    "latency_ms": float(i + 1),
                    "request_bytes": 10,
                    "response_bytes": 100,
                    "outcome": "answered",
                    "decoded": "full",
                }
                for i in range(count)
            ],
        ),
        "errors": table(ERRORS, [{"api": "Fetch", "error": "NOT_LEADER_OR_FOLLOWER"}]),
        "connections": table(
            CONNECTIONS,
            [
                {"protocol": "kafka", "broker_port": 9092},
                {"protocol": "http", "broker_port": 9092},
                {
                    "protocol": "tls",
                    "broker_port": 9095,
                    "tls_requests": 40,
                    "tls_first_request": first * 1_000_000_000,
                    "tls_last_answer": (first + 2) * 1_000_000_000,
                    "tls_answer_ms": 3.0,
                },
                {"protocol": "tls", "broker_port": 9095, "tls_requests": 0},
            ],
        ),
        "batches": table(BATCHES, [{"topic": "id:x", "direction": "fetch", "records": 7, "bytes": 70}]),
        "issues": table(ISSUES, [{"kind": "tcp_gap", "count": 3}]),
    }


def test_parts_merged_are_the_whole() -> None:
    whole, left, right = Summary(), Summary(), Summary()
    for part, to in ((tables(5, 0), left), (tables(8, 100), right)):
        whole.observe(part)
        to.observe(part)
    left.merge(right)
    assert left.result() == whole.result()


def test_what_it_says() -> None:
    summary = Summary()
    summary.observe(tables(4, 0))
    summary.rename_topics({"id:x": "orders"})
    result = json.loads(json.dumps(summary.result()))
    assert result["first"] == "1970-01-01T00:00:00.000000000Z"
    assert result["last"] == "1970-01-01T00:00:03.000000005Z"
    assert result["exchanges"] == {"answered": 4}
    assert result["connections"] == {"tls": 2, "http": 1, "kafka": 1}
    assert result["tls_ports"] == {"9095": 2}
    talk = {"connections": 1, "requests": 40, "requests_a_second": 20.0, "answer_ms": 3.0}
    assert result["tls_talks"] == [{"port": 9095, **talk}]
    assert result["not_taken_for_kafka"] == [{"port": 9092, "protocol": "http", "connections": 1}]
    fetch = next(api for api in result["apis"] if api["api"] == "Fetch")
    assert (fetch["exchanges"], fetch["errors"], fetch["versions"], fetch["request_bytes"]) == (2, 1, [13], 20)
    assert result["topics"] == [{"topic": "orders", "direction": "fetch", "records": 7, "bytes": 70, "batches": 1}]
    assert result["errors"] == {"Fetch NOT_LEADER_OR_FOLLOWER": 1}
    assert result["issues"] == {"tcp_gap": 3}


def test_the_terminal_shows_it_and_no_control_characters() -> None:
    summary = Summary()
    summary.observe(
        tables(4, 0) | {"batches": table(BATCHES, [{"topic": "a\x1b[2J", "direction": "fetch", "records": 1}])}
    )
    stream = io.StringIO()
    terminal.summary(summary.result(), Console(file=stream, width=120))
    shown = stream.getvalue()
    assert "2 connections are encrypted with TLS, to port 9095: what is in them cannot be read" in shown
    inferred = "port 9095: 1 connection with TLS, 40 requests, 20 a second on each, answers in 3 ms (inferred from"
    assert inferred in shown
    assert "1 connection to a port of Kafka was not taken for Kafka: 1 to port 9092 (1 of HTTP)" in shown
    assert "Fetch NOT_LEADER_OR_FOLLOWER" in shown
    assert "\x1b" not in shown


def test_a_capture_ends_with_its_last_packet_though_nobody_is_answered_any_more() -> None:
    summary = Summary()
    span: dict[str, object] = {"first": 1_000_000_000, "last": 90_000_000_000}
    summary.observe(tables(4, 3) | {"tcp_health": table(TCP_HEALTH, [span, span | {"last": 60_000_000_000}])})
    summary.observe({"tcp_health": TCP_HEALTH.empty_table()})
    result = summary.result()
    assert (result["first"], result["last"]) == ("1970-01-01T00:00:01.000000000Z", "1970-01-01T00:01:30.000000000Z")


@pytest.mark.parametrize(
    ("acknowledgements", "count", "is_filtered"),
    [([0, 0], 50, True), ([0, 0], 49, False), ([0, 1], 50, False), ([None, 0], 50, True), ([None, None], 50, False)],
)
def test_a_capture_without_acknowledgements_was_filtered(
    acknowledgements: list[int | None], count: int, is_filtered: bool
) -> None:
    summary = Summary()
    summary.observe(tables(count, 0))
    for each in acknowledgements:
        part = Summary()
        part.observe({"tcp_health": table(TCP_HEALTH, [{"first": 1, "last": 2, "acknowledgements": each}])})
        summary.merge(part)
    result = summary.result()
    assert was_filtered(result) is is_filtered
    stream = io.StringIO()
    terminal.summary(result, Console(file=stream, width=1000))
    assert (FILTERED in stream.getvalue()) is is_filtered
    assert (("filtered", FILTERED) in facts(result, {})) is is_filtered


def test_an_empty_capture_has_a_summary() -> None:
    result = Summary().result()
    assert result["first"] is None
    assert result["apis"] == []


def test_a_capture_is_called_with_its_directory() -> None:
    assert capture_name("/data/shop/capture.pcap") == "shop/capture.pcap"
    assert capture_name("s3://bucket/day/capture.pcap") == "day/capture.pcap"
    for keys in ("AKIA:se%2Fcret", "AKIA:se/cret"):  # are told to nobody
        assert capture_name(f"s3://{keys}@bucket/a.pcap?region=x") == "bucket/a.pcap"
    assert capture_name("capture.pcap") == "capture.pcap"
    assert capture_name("/capture.pcap") == "/capture.pcap"
    assert capture_name("-") == "standard input"


def test_the_largest_are_named_however_many_and_whoever_counted_them() -> None:
    counts = {f"c{n}": 1 + n % 7 for n in range(1_600)}
    rows: list[dict[str, object]] = [
        {"client_id": name, "outcome": "answered"} for name, count in counts.items() for _ in range(count)
    ]
    sums: list[dict[str, object]] = [
        {"topic": name, "direction": "produce", "records": n, "bytes": n} for name, n in counts.items()
    ]

    def summed(*parts: slice) -> dict[str, object]:
        whole = Summary()
        for part in parts:
            one = Summary()
            one.observe({"exchanges": table(EXCHANGES, rows[part])})
            one.observe({"batches": table(BATCHES, sums[part])})
            whole.merge(one)
        return whole.result()

    found = summed(slice(None))
    assert found == summed(slice(800, None), slice(0, 800)) == summed(slice(0, None, 2), slice(1, None, 2))
    clients, topics = found["clients"], found["topics"]
    assert isinstance(clients, dict)
    assert isinstance(topics, list)
    assert (len(clients), list(clients)[-1]) == (1_001, "(others)")
    assert sum(clients.values()) == sum(counts.values())
    assert min(count for name, count in clients.items() if name != "(others)") == 3
    assert (len(topics), topics[-1]["topic"], topics[-1]["batches"]) == (1_001, "(others)", 600)
