"""Clients and who they speak with, out of tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyarrow import dataset as ds

from kafkascope.reports.answers.clients import clients
from kafkascope.reports.answers.topology import topology
from kafkascope.reports.measures.error_histogram import WHAT, WHERE
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, ASKED, MEANING
from tests.reports.incidents.tables_of import BEGIN, SECOND, connection

BROKER = "10.0.0.1:9092"


def table(name: str, *rows: dict[str, Any]) -> ds.Dataset:
    return ds.dataset(pa.Table.from_pylist(list(rows), schema=ALL_SCHEMAS[name]))


def exchange(number: int, api: str, second: float, request: str | None = None, **given: Any) -> dict[str, Any]:
    requested = BEGIN + round(second * SECOND)
    known = {"connection": 1, "number": number, "api": api, "requested": requested, "outcome": "answered"}
    return known | {"request": request} | given


def one(tables: dict[str, ds.Dataset]) -> dict[str, Any]:
    [row] = clients(tables).to_pylist()
    return dict(row)


def test_settings_are_those_of_requests_and_several_values_are_told() -> None:
    fetch = '{"maxWaitMs": %d, "minBytes": 1, "maxBytes": 5, "isolationLevel": 1, "topics": [{"partitionMaxBytes": 7}]}'
    produce = '{"transactionalId": "\\"acks\\": 9, ", "acks": -1, "timeoutMs": 30000}'
    rows = [exchange(n, "Fetch", n, fetch % wait) for n, wait in enumerate((500, 500, 100), 1)]
    rows += [exchange(4, "Produce", 4, produce)]
    rows += [exchange(5, "JoinGroup", 5, '{"groupId": "g", "sessionTimeoutMs": 6000, "rebalanceTimeoutMs": 3000}')]
    heartbeat = '{"groupId": "g", "rebalanceTimeoutMs": -1, "subscribedTopicNames": null}'
    rows += [exchange(6, "ConsumerGroupHeartbeat", 6, heartbeat, group_id="g")]
    found = one({"connections": table("connections", connection(1)), "exchanges": table("exchanges", *rows)})
    settings = ["max_wait_ms", "min_bytes", "max_bytes", "partition_max_bytes", "isolation_level", "acks"]
    settings += ["request_timeout_ms", "session_timeout_ms", "rebalance_timeout_ms", "compression", "groups"]
    told = [found[name] for name in settings]
    assert told == [500, 1, 5, 7, "read_committed", -1, 30000, 6000, 3000, None, ["g"]]
    assert found["varied"] == ["max_wait_ms: 500 (2), 100 (1)"]


def test_habits_are_means_and_the_longest_pause() -> None:
    beats = [exchange(n, "Heartbeat", second) for n, second in enumerate((0, 3, 6, 30), 1)]
    found = one({"connections": table("connections", connection(1)), "exchanges": table("exchanges", *beats)})
    assert (found["heartbeat_every_ms"], found["idle_ms"], found["requests"]) == (10_000, 24_000, 4)
    assert found["requests_per_second"] == pytest.approx(4 / 30)
    assert found["commit_every_ms"] is None


def test_health_counts_reconnects_failed_connects_and_errors_that_are_not_ordinary() -> None:
    connections = [
        connection(1, opened=0, closed=5, how_closed="rst", connect="established"),
        connection(2, opened=6, connect="established"),
        connection(3, opened=1, connect="established"),  # beside the first one
        connection(4, opened=5.5, client_id=None, connect="refused", protocol="empty"),
        connection(5, client_id="other", client="10.0.9.9"),
    ]
    error: dict[str, Any] = {"connection": 2, "client_id": "c1", "api": "Heartbeat", "error": "REBALANCE_IN_PROGRESS"}
    error |= {"at": 15 * SECOND, "group_id": "g"}
    trouble = error | {"api": "Fetch", "error": "NOT_LEADER_OR_FOLLOWER", "group_id": None}
    again = error | {"at": 25 * SECOND}  # the same, in a span of which it is not ordinary
    known = [
        {name: row.get(name) for name in (*WHAT, *WHERE)}
        | {"at": row["at"] // (10 * SECOND) * 10 * SECOND, "width_ms": 10_000}
        for row in (error, trouble, again)
    ]
    judged = zip(known, (True, False, False), strict=True)
    histogram = [row | {"ordinary": is_ordinary} for row, is_ordinary in judged]
    rows = clients(
        {
            "connections": table("connections", *connections),
            "exchanges": table("exchanges", exchange(1, "Fetch", 1, outcome="unanswered")),
            "errors": table("errors", error, trouble, trouble, again),
            "error_histogram": table("error_histogram", *histogram),
        }
    ).to_pylist()
    assert [row["client_id"] for row in rows] == ["c1", "other"]
    health = {name: rows[0][name] for name in ("connections", "reconnects", "failed_connects", "resets", "unanswered")}
    assert health == {"connections": 3, "reconnects": 1, "failed_connects": 1, "resets": 1, "unanswered": 1}
    assert rows[0]["error_names"] == ["NOT_LEADER_OR_FOLLOWER 2", "REBALANCE_IN_PROGRESS 1"]
    assert rows[0]["errors"] == 3


def test_topology_has_all_between_two_and_each_topic() -> None:
    batch = {"connection": 1, "topic": "orders", "records": 3, "bytes": 100}
    tables = {
        "connections": table(
            "connections",
            connection(1, bytes_up=500, bytes_down=900, exchanges=4),
            connection(2, bytes_up=5, bytes_down=9, exchanges=1),
            connection(3, client="fd00::7", broker="fd00::1", client_id=None, protocol="tls", bytes_up=1),
            connection(4, connect="refused", protocol="empty"),
            connection(5, protocol="http"),
        ),
        "batches": table(
            "batches",
            batch | {"direction": "produce"},
            batch | {"direction": "fetch", "connection": 2, "bytes": 30},
            batch | {"direction": "fetch", "control": True},
        ),
        "partitions": table("partitions", {"connection": 2, "topic": "empty"}),
    }
    rows = [tuple(row.values())[1:] for row in topology(tables).to_pylist()]
    h = "10.0.1.1"
    assert rows == [
        (h, BROKER, None, 2, 505, 909, None, None, 5),
        (h, BROKER, "orders", 2, 100, 30, 3, 3, None),
        ("fd00::7", "[fd00::1]:9092", None, 1, 1, 0, None, None, 0),
        (h, BROKER, "empty", 1, 0, 0, 0, 0, None),
    ]


def test_without_tables_there_are_no_rows() -> None:
    assert clients({}).num_rows == topology({}).num_rows == 0
    empty = {name: table(name) for name in ALL_SCHEMAS}
    assert clients(empty).schema == ASKED["clients"]
    assert topology(empty).schema == ASKED["topology"]


@pytest.mark.parametrize("name", ASKED)
def test_every_column_says_what_it_means(name: str) -> None:
    assert all(one.metadata[MEANING].strip() for one in (ASKED[name], *ASKED[name]))
