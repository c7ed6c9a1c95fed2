from __future__ import annotations

from kafkascope.reports.columns.remarks import no_kafka, not_taken, not_taken_remark, tls_remark


def test_who_gave_a_key_log_is_not_told_to_give_one() -> None:
    told = tls_remark({"9094": 1}, has_key_log=True)
    assert "cannot be read; the key log that was given does not open it; `kafkascope analyze` tells why" in told
    assert "--tls-keylog" not in told


def test_ports_of_tls_are_told_by_their_connections_and_a_flood_of_them_is_cut() -> None:
    assert tls_remark({"9094": 1}).startswith("1 connection is encrypted with TLS, to port 9094: what is in it cannot")
    assert "9 connections are encrypted with TLS, to ports 443, 9093, 10000:" in tls_remark(
        {"10000": 2, "9093": 2, "443": 5}
    )
    many = tls_remark({str(port): 100 for port in range(9000, 9050)})
    assert "5,000 connections are" in many
    assert "9009 and 40 more: what is in them" in many
    assert "9010" not in many


def test_what_is_not_taken_for_kafka_is_told_of_ports_where_kafka_is_or_is_asked_for() -> None:
    on_9092 = {"kafka": 5, "http": 1, "unknown": 2, "tls": 3, "empty": 4}
    connections = {(9092, protocol): count for protocol, count in on_9092.items()}
    connections |= {(80, "http"): 9, (9093, "redis"): 1}
    rows = not_taken(connections, frozenset())
    told = (
        "connections to a port of Kafka were not taken for Kafka: 3 to port 9092 (2 of an unknown protocol, 1 of HTTP)"
    )
    assert not_taken_remark(rows).startswith(f"3 {told};")
    assert [row["port"] for row in not_taken(connections, {9093})] == [9092, 9092, 9093]
    assert not not_taken({(80, "http"): 9}, frozenset())
    many = not_taken_remark(not_taken({(port, "http"): 1 for port in range(9000, 9050)}, range(65536)))
    assert "9009 (1 of HTTP) and 40 more ports;" in many
    assert "9010" not in many


def test_what_was_seen_instead_of_kafka_is_told_in_one_order() -> None:
    protocols = {"unknown": 4, "http": 4, "empty": 9}
    told = no_kafka(189, protocols, {"icmp": 2, "arp": 2}, ())
    assert told == no_kafka(189, dict(reversed(protocols.items())), {"arp": 2, "icmp": 2}, ())
    assert told.endswith(
        "no data at all, 4 connections of HTTP, 4 connections of an unknown protocol, "
        "2 packets of ARP, 2 packets of ICMP"
    )
