"""What is said beside packets holds no surprises for whoever looks at it, and has its limits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyarrow import dataset as ds

from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.show import packet_comments as under_test
from kafkascope.reports.show.packet_comments import PacketComments, host_names, packet_comments
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS

HOSTILE = "evil\x1b[31m\u202e\n\0" + "x" * 300


def signs(**tables: list[dict[str, Any]]) -> Signs:
    return Signs({name: ds.dataset(pa.Table.from_pylist(rows, ALL_SCHEMAS[name])) for name, rows in tables.items()})


def error(number: int, **columns: Any) -> dict[str, Any]:
    return {"connection": 1, "number": number, "at": 10, "api": "Fetch", "error": "NOT_LEADER_OR_FOLLOWER", **columns}


def exchange(number: int, packet: int | None) -> dict[str, Any]:
    return {"connection": 1, "number": number, "response_packet": packet, "error": "NOT_LEADER_OR_FOLLOWER"}


def test_errors_of_a_kind_in_one_answer_are_one_comment() -> None:
    rows = [error(1, topic="orders", partition=partition) for partition in (1, 2, 3, 7)]
    rows += [error(1, error="UNKNOWN_TOPIC_ID"), error(2, group_id="shop"), error(3)]
    found = packet_comments(signs(errors=rows, exchanges=[exchange(1, 17), exchange(2, 19), exchange(3, None)]))
    assert found.of_packets == {
        17: ["kafkascope: Fetch: NOT_LEADER_OR_FOLLOWER for orders 1-3,7", "kafkascope: Fetch: UNKNOWN_TOPIC_ID"],
        19: ["kafkascope: Fetch: NOT_LEADER_OR_FOLLOWER for group shop"],
    }
    assert found.left_out == 1


def test_names_out_of_the_network_are_safe_and_short() -> None:
    found = packet_comments(signs(errors=[error(1, group_id=HOSTILE)], exchanges=[exchange(1, 2)]))
    ((text,),) = found.of_packets.values()
    assert text.isprintable()
    assert len(text) < 400
    connection = {
        "connection": 1,
        "client": "10.0.0.9",
        "broker": "10.0.0.1",
        "client_id": HOSTILE,
        "protocol": "kafka",
    }
    name = host_names(signs(connections=[connection]))["10.0.0.9"]
    assert name.startswith("evil-31m-x")
    assert (name.isascii(), name.isprintable(), len(name)) == (True, True, 63)


def test_hosts_are_named_after_all_that_is_on_them() -> None:
    connections = [
        {"connection": 1, "client": client, "broker": broker, "client_id": client_id, "protocol": "kafka"}
        for client, broker, client_id in [
            ("127.0.0.1", "127.0.0.1", "p1"),
            ("10.0.0.2", "10.0.0.1", "broker-2-fetcher-0"),
            ("10.0.0.2", "fd77::3", None),
            ("10.0.0.8", "10.0.0.1", "a"),
            ("10.0.0.8", "10.0.0.1", "b"),
            ("10.0.0.8", "10.0.0.1", "c"),
            ("10.0.0.8", "10.0.0.1", "d"),
        ]
    ]
    told = [
        {"event": "broker_listed", "node_id": node_id, "host": host}
        for node_id, host in [
            (1, "10.0.0.1:9092"),
            (2, "10.0.0.2:9092"),
            (4, "127.0.0.1:9092"),
            (5, "127.0.0.1:9093"),
            (6, "kafka.example:9092"),
        ]
    ]
    assert host_names(signs(connections=connections, cluster_events=told)) == {
        "10.0.0.1": "broker-1",
        "10.0.0.2": "broker-2",
        "10.0.0.8": "a_b_c_and-1-more",
        "127.0.0.1": "broker-4_broker-5_p1",
        "fd77::3": "broker",
    }


def test_what_is_too_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "MOST_COMMENTED", 3)
    monkeypatch.setattr(under_test, "MOST_AT_ONE", 2)
    comments = PacketComments()
    for text in ("a", "a", "b", "c"):
        comments.at_packet(1, text)
    for number in (2, 3, 4, 5):
        comments.at_packet(number, "a")
        comments.at_time(number, "a")
    assert {number: len(texts) for number, texts in comments.of_packets.items()} == {1: 2, 2: 1, 3: 1}
    assert len(comments.of_times) == 3
    assert comments.left_out == 4
