"""Connections that a broker closes before it has done anything for the client."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkascope.reports.incidents.clients.turned_away import turned_away
from tests.reports.incidents.tables_of import (
    B1,
    BROKERS,
    H1,
    H2,
    Row,
    connection,
    exchange,
    finding,
    found,
    names,
    only,
    seconds,
    signs,
    tables_read,
)

OTHER = connection(90, H2, client_id="c2", opened=1, exchanges=9, security="plaintext")
WITH_SASL = OTHER | {"security": "PLAIN"}


def closed(count: int = 3, how: str = "fin", lasts: float = 0.1, **given: Any) -> list[Row]:
    known: dict[str, Any] = {"how_closed": how, "closed_by": "broker", "exchanges": 1, "security": "plaintext"} | given
    return [connection(10 + n, opened=10 + n, closed=10 + n + lasts, **known) for n in range(count)]


def asked(count: int = 3, *answered: str, last: str = "Metadata") -> list[Row]:
    """What was asked on each of them: some that was answered, and one that was not."""
    rows = []
    for n in range(count):
        for api in answered:
            rows.append(exchange(1, api, 10 + n, 10 + n + 0.01, connection=10 + n, outcome="answered"))
        rows.append(exchange(2, last, 10 + n + 0.02, None, connection=10 + n, outcome="unanswered"))
    return rows


def test_a_client_without_sasl_where_it_is_wanted() -> None:
    churn = finding("connection_churn", f"client c1 ({H1})", "Connections are opened and closed", 10, 13)
    one = only(
        connections=[*closed(), WITH_SASL], exchanges=asked(3, "ApiVersions"), cluster_events=BROKERS, findings=[churn]
    )
    assert (one.kind, one.severity, one.certainty) == ("authentication_failed", "critical", "certain")
    assert names(one) == ["c1", H1, "1", B1]
    assert (seconds(one.started), seconds(one.ended)) == (10, 12.1)
    assert one.headline.startswith(
        f"c1 ({H1}) does not authenticate at {B1}:9092, which wants SASL (PLAIN): 3 connections closed by broker 1 "
    )
    assert one.findings == {churn["id"]}  # and no storm of connections besides
    assert "others authenticate there by SASL (PLAIN)" in one.evidence[0].text


@pytest.mark.parametrize(
    ("connections", "exchanges", "told"),
    [
        (closed(), asked(3, "ApiVersions"), "likely"),  # nobody else shows what the listener wants
        ([*closed(), OTHER], asked(3, "ApiVersions"), None),  # others are served without SASL
        (
            [*closed(), OTHER | {"opened": None}],
            asked(3, "ApiVersions"),
            "likely",
        ),  # or said by SASL before the capture
        ([*closed(2), WITH_SASL], asked(2, "ApiVersions"), None),
        ([*closed(lasts=6), WITH_SASL], asked(3, "ApiVersions"), None),
        ([*closed(closed_by="client"), WITH_SASL], asked(3, "ApiVersions"), None),
        ([*closed(how="rst"), WITH_SASL], asked(3, "ApiVersions"), "certain"),
        ([*closed(lost_bytes=1), WITH_SASL], asked(3, "ApiVersions"), None),  # or the capture lacks the answer
        ([*closed(packets_down=0), WITH_SASL], asked(3, "ApiVersions"), None),  # it does lack the broker's side
        ([*closed(client=B1), WITH_SASL], asked(3, "ApiVersions"), None),
        ([*closed(), WITH_SASL], asked(3, "ApiVersions", "Metadata", last="Fetch"), None),  # something was done
    ],
)
def test_only_where_nothing_else_was_answered(connections: list[Row], exchanges: list[Row], told: str | None) -> None:
    incidents = found(connections=connections, exchanges=exchanges)
    assert [(one.kind, one.certainty) for one in incidents] == ([("authentication_failed", told)] if told else [])


MORE = connection(80, opened=5, exchanges=20, security="plaintext")  # of the same client


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([MORE], "while 1 other of it goes on"),
        ([MORE, MORE | {"connection": 81}], "while 2 others of it go on"),
        ([OTHER, OTHER | {"connection": 91, "client": "10.0.1.3"}], "while others are served"),
        ([OTHER], None),
        ([], None),
        ([MORE | {"broker_port": 9093}], None),
    ],
)
def test_a_client_that_has_too_many(others: list[Row], words: str | None) -> None:
    incidents = found(connections=[*closed(), *others], exchanges=asked(last="ApiVersions"), cluster_events=BROKERS)
    assert [one.kind for one in incidents] == ["turned_away"] * bool(words)
    if words:
        (one,) = incidents
        assert one.headline.startswith(f"broker 1 ({B1}) closed 3 connections of c1 ({H1}) unanswered, from ")
        assert words in one.headline
        assert (one.severity, one.certainty) == ("critical", "likely")


RATE = {"ops": [{"key": "connection_creation_rate", "value": 1.0}]}


def of_ip(name: str | None, kind: str = "ip") -> Row:
    """A quota for an address, or for all."""
    return {"entries": [RATE | {"entity": [{"entityType": kind, "entityName": name}]}]}


def of_brokers(setting: str) -> Row:
    configs = [{"name": setting, "configOperation": 0, "value": "3"}]
    return {"resources": [{"resourceType": 4, "resourceName": "1", "configs": configs}]}


@pytest.mark.parametrize(
    ("request_", "time", "told"),
    [
        (of_ip(H1), 9, f"connection_creation_rate=1 of ip {H1}"),
        (of_ip(None), 9, "connection_creation_rate=1 of all addresses"),
        (of_ip(H2), 9, None),
        (of_ip(H1, "client-id"), 9, None),
        (of_ip(H1), 12, None),
        (of_brokers("max.connections.per.ip"), 9, "max.connections.per.ip=3 of brokers"),
        (of_brokers("listener.name.x.max.connections"), 9, "listener.name.x.max.connections=3 of brokers"),
        (of_brokers("num.io.threads"), 9, None),
    ],
)
def test_who_changed_the_limit_is_named(request_: Row, time: float, told: str | None) -> None:
    api = "AlterClientQuotas" if "entries" in request_ else "IncrementalAlterConfigs"
    body = json.dumps(request_)
    change = exchange(1, api, time, time + 0.1, connection=80, client_id="adm", request=body)
    others = [connection(1, opened=1, exchanges=9, security="plaintext"), connection(80, H2, client_id="adm")]
    incidents = found(connections=[*closed(), *others], exchanges=[*asked(), change], cluster_events=BROKERS)
    (one,) = [one for one in incidents if one.kind == "turned_away"]
    assert ("adm" in one.headline, f", after adm ({H2}) had set {told} at " in one.headline) == (bool(told), bool(told))
    assert (one.evidence[-1].packet == 1) == bool(told)


def test_tables_are_not_read_more_often_for_more_places(monkeypatch: pytest.MonkeyPatch) -> None:
    read = tables_read(monkeypatch)
    often = []
    for many in (2, 30):
        connections, exchanges = [], []
        for n in range(many):
            mine = {row["connection"]: row["connection"] + 100 * n for row in [*closed(), MORE]}
            ports = {"broker_port": 9092 + n}
            connections += [row | ports | {"connection": mine[row["connection"]]} for row in [*closed(), MORE]]
            exchanges += [row | {"connection": mine[row["connection"]]} for row in asked(last="ApiVersions")]
        read.clear()
        told = [*turned_away(signs(connections=connections, exchanges=exchanges))]
        assert len(told) == many
        assert all("while 1 other of it goes on" in one.headline for one in told)
        often.append(read.count("connections"))
    assert often[0] == often[1] > 0


def test_what_had_ended_before_does_not_go_on() -> None:
    ended = OTHER | {"client": H1, "client_id": "c1"}
    served = {"exchanges": asked(last="ApiVersions"), "cluster_events": BROKERS}
    goes_on = only(connections=[*closed(), ended], **served)
    assert goes_on.kind == "turned_away"
    over = connection(90, H1, client_id="c1", opened=1, closed=5, exchanges=9, security="plaintext")
    assert found(connections=[*closed(), over], **served) == []
