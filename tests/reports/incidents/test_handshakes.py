"""TLS handshakes that one side ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.incidents.tables_of import B1, B2, BROKERS, H1, H2, Row, at, connection, found, names, only, seconds
from tests.reports.incidents.test_slow_brokers import writes


def handshakes(alert: str | None, by: str | None = "client", count: int = 2, **given: Any) -> list[Row]:
    """Connections whose handshakes end with an alert; days are those of the certificate, from the capture's on."""
    days = {
        name: at(given.pop(name) * 86_400)
        for name in ("tls_certificate_from", "tls_certificate_until")
        if given.get(name) is not None
    }
    known: dict[str, Any] = {"protocol": "tls", "client_id": None, "tls_version": "TLS 1.2", "tls_requests": 0}
    known |= {"tls_alert": alert, "tls_alert_by": by} | days | given
    times = range(10, 10 + count)
    return [connection(time, broker_port=9095, opened=time, closed=time + 0.1, **known) for time in times]


def test_handshakes_that_a_client_ends() -> None:
    one = only(connections=handshakes("certificate_unknown"), cluster_events=BROKERS)
    assert (one.kind, one.severity, one.certainty) == ("tls_failed", "critical", "certain")
    assert names(one) == [H1, "1", B1]
    assert (seconds(one.started), seconds(one.ended)) == (10, 11)
    assert one.headline.startswith(f"2 TLS handshakes of {H1} with broker 1 ({B1}) at port 9095 failed from ")
    assert one.headline.endswith(
        ", each ended by the client: it does not accept the broker's certificate (certificate_unknown)"
    )
    assert [seen.packet for seen in one.evidence] == [10, 11]
    assert "truststore" in one.advice


@pytest.mark.parametrize(
    ("given", "why", "advice"),
    [
        (
            {"alert": "certificate_expired", "tls_certificate_until": -1},
            "the broker's certificate has expired on ",
            "Renew",
        ),
        (
            {"alert": "certificate_unknown", "tls_certificate_until": -1},
            "the broker's certificate has expired on ",
            "Renew",
        ),
        ({"alert": "bad_certificate", "tls_certificate_from": 1}, "the broker's certificate holds from ", "Renew"),
        ({"alert": "certificate_expired"}, "the broker's certificate has expired", "Renew"),
        ({"alert": "certificate_expired", "by": "broker"}, "the client's certificate has expired", "Renew"),
        (
            {"alert": "protocol_version", "by": "broker"},
            "they agree on no version or cipher (protocol_version)",
            "Compare ssl",
        ),
        ({"alert": "certificate_required", "by": "broker"}, "the client has no certificate", "keystore"),
        ({"alert": "bad_certificate", "by": "broker"}, "it refuses the client's certificate, or", "keystore"),
        (
            {"alert": "encrypted", "by": "broker", "tls_version": "TLS 1.3"},
            "it refused what the client sent",
            "keystore",
        ),
        (
            {"alert": "encrypted", "tls_version": "TLS 1.3"},
            "it refused what the broker sent, most likely",
            "truststore",
        ),
        ({"alert": "internal_error"}, ": internal_error", "logs"),
    ],
)
def test_why(given: dict[str, Any], why: str, advice: str) -> None:
    one = only(connections=handshakes(**given))
    assert why in one.headline
    assert advice in one.advice
    assert one.certainty == ("likely" if given["alert"] == "encrypted" else "certain")


@pytest.mark.parametrize(
    ("certificate", "wanted", "told"),
    [
        (["k1.example"], None, f", which names k1.example and not {B1}"),
        (["K1.example", B1], None, None),
        (["k1.example"], "K1.EXAMPLE", None),
        (["*.example"], "k1.example", None),
        (["*.example"], "a.k1.example", ", which names *.example and not a.k1.example"),
        ([], "k1.example", None),
    ],
)
def test_whom_the_certificate_names(certificate: list[str], wanted: str | None, told: str | None) -> None:
    rows = handshakes("certificate_unknown", tls_certificate_names=certificate, tls_server_name=wanted)
    assert only(connections=rows).headline.endswith(told or "(certificate_unknown)")


@pytest.mark.parametrize(
    "rows",
    [
        handshakes("certificate_unknown", count=1),
        handshakes(None, None),
        handshakes("close_notify"),
        handshakes("encrypted"),  # in TLS 1.2 it comes behind the handshake
        handshakes("certificate_unknown", tls_requests=1),
        handshakes("certificate_unknown", exchanges=1),
        [row | {"opened": None, "closed": None} for row in handshakes("certificate_unknown")],
        handshakes("certificate_unknown", protocol="https"),
        handshakes("certificate_unknown", packets_up=0),
        handshakes("certificate_unknown", packets_down=0),
    ],
)
def test_connections_that_end_as_they_should(rows: list[Row]) -> None:
    assert found(connections=rows) == []


@pytest.mark.parametrize(("port", "told"), [(9095, True), (443, False)])
def test_beside_kafka_that_can_be_read_only_ports_of_brokers_count(port: int, told: bool) -> None:
    rows = [row | {"broker": B2, "broker_port": port} for row in handshakes("certificate_unknown")]
    served = connection(30, protocol="tls", broker_port=9095)
    incidents = found(connections=[*rows, served, connection(31)])
    assert [one.kind for one in incidents] == ["tls_failed"] * told


def test_connections_whose_begin_is_not_in_the_capture() -> None:
    rows = handshakes("certificate_unknown")
    one = only(connections=[row | {"opened": None} for row in rows])
    assert (seconds(one.started), seconds(one.ended)) == (10.1, 11.1)


@pytest.mark.parametrize(
    ("ends", "port", "by", "kinds"),
    [
        (-1, 9095, "client", 1),
        (-1, 9096, "client", 2),  # another listener may have another certificate
        (-1, 9095, "broker", 2),
        (1, 9095, "client", 2),  # it has not expired
        (15 / 86_400, 9095, "client", 2),  # not when they refused it
    ],
)
def test_what_cannot_be_read_is_with_those_who_see_that_the_certificate_has_expired(
    ends: float, port: int, by: str, kinds: int
) -> None:
    seen = [
        row | {"connection": 40 + n, "opened": at(40 + n)}
        for n, row in enumerate(handshakes("certificate_unknown", tls_certificate_until=ends))
    ]
    hidden = [row | {"broker_port": port} for row in handshakes("encrypted", by, 3, tls_version="TLS 1.3")]
    incidents = found(connections=[*seen, *hidden, connection(90, H2, broker_port=port)])
    assert len(incidents) == kinds
    if kinds == 1:
        (one,) = incidents
        assert (one.certainty, seconds(one.started), seconds(one.ended)) == ("certain", 10, 41)
        assert one.headline.startswith("5 TLS handshakes")
        assert one.headline.endswith("(3 of them are TLS 1.3, where neither certificate nor alert can be read)")
        assert "has expired on" in one.headline
        assert [seen.text.partition(" alert")[0] for seen in one.evidence].count("an encrypted") == 3


def test_hosts_that_fail_alike_are_one_incident() -> None:
    rows = [*handshakes("unknown_ca", count=1), connection(20, H2, broker_port=9095, opened=20, closed=21)]
    other = rows[0] | {"connection": 20, "client": H2, "tls_requests": None}  # opened with secrets
    one = only(connections=[rows[0], other])
    assert f"of {H1}, {H2} with" in one.headline
    assert "each ended by the clients" in one.headline


@pytest.mark.parametrize(("client", "told"), [(B2, True), (H1, False)])
def test_brokers_that_refuse_each_other_hold_up_writes(client: str, told: bool) -> None:
    late = [] if not told else writes(10, {900: 12}, acks=-1)
    serves = connection(2, broker=B2)
    connections = [*handshakes("bad_certificate", client=client), serves]
    one = only(connections=connections, cluster_events=BROKERS, latency=late)
    who = f"broker 2 ({B2})" if told else H1
    assert one.headline.startswith(f"2 TLS handshakes of {who} with broker 1 ({B1}) at port 9095 failed from ")
    text = "12 writes that had to wait for replicas, of p1, took up to 900 ms on 1 broker"
    assert [effect.text for effect in one.effects] == [text] * told
    assert one.headline.endswith(f"; {text}") == told
