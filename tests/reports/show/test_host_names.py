"""Hosts are named after the brokers and clients on them, in letters that any tool can show."""

from __future__ import annotations

from kafkascope.reports.show.host_names import host_names
from tests.reports.incidents.tables_of import connection, event, signs


def test_hosts_are_named_after_all_that_is_on_them() -> None:
    connections = [
        connection(1, client, broker, client_id)
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
        event("broker_listed", 0, node_id=node_id, host=host)
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


def test_names_out_of_the_network_are_safe_and_short() -> None:
    connections = [connection(1, "10.0.0.9", "10.0.0.1", "evil\x1b[31m\u202e\n\0" + "x" * 300)]
    name = host_names(signs(connections=connections))["10.0.0.9"]
    assert name.startswith("evil-31m-x")
    assert (name.isascii(), name.isprintable(), len(name)) == (True, True, 63)
