"""What findings about clients say is an incident by itself."""

from __future__ import annotations

import pytest

from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    CLIENT,
    H1,
    H2,
    connection,
    finding,
    found,
    member,
    names,
    only,
    rebalance,
    seconds,
)
from tests.reports.incidents.test_slow_brokers import counts


@pytest.mark.parametrize(
    ("kind", "incident", "severity"),
    [
        ("authentication_failed", "authentication_failed", "critical"),
        ("authorization_failed", "authorization_failed", "warning"),
        ("throttled", "throttled", "warning"),
        ("connection_churn", "connection_storm", "warning"),
    ],
)
def test_findings_of_one_client_id_are_one_incident(kind: str, incident: str, severity: str) -> None:
    rows = [
        finding(kind, f"client c1 ({H1})", "It is so", 10, 20),
        finding(kind, f"client c1 ({H2})", "It is so", 15, 30),
        finding(kind, "client (odd) name (10.9.9.9)", "It is so", 15, 15),
    ]
    incidents = found(findings=rows)
    assert {(one.kind, one.severity, one.certainty) for one in incidents} == {(incident, severity, "certain")}
    assert sorted(names(one) for one in incidents) == [["(odd) name", "10.9.9.9"], ["c1", H1, H2]]
    first = incidents[0]
    assert (first.about, seconds(first.started), seconds(first.ended)) == (f"client c1 ({H1})", 10, 30)
    assert first.headline.endswith(": it is so")
    assert len(first.findings) == 2


def test_one_that_tries_again_and_again_as_its_password_is_wrong_is_no_storm_and_brokers_are_none() -> None:
    rows = [finding(kind, f"client c1 ({H1})", "t", 10, 20) for kind in ("authentication_failed", "connection_churn")]
    one = only(findings=rows)
    assert (one.kind, len(one.findings)) == ("authentication_failed", 2)
    of_broker = finding("connection_churn", f"client raft-client-1 ({B1})", "t", 10, 20)
    assert found(findings=[of_broker], connections=[CLIENT]) == []
    beside = finding("connection_churn", f"client b ({B1})", "t", 10, 20)  # on the broker's machine
    assert only(findings=[beside], connections=[CLIENT]).kind == "connection_storm"


@pytest.mark.parametrize(("clients", "incidents"), [(3, 3), (4, 1)])
def test_many_clients_with_one_trouble_are_one_incident(clients: int, incidents: int) -> None:
    rows = [
        finding("throttled", f"client c{n} (10.0.1.{n})", f"Held back for {n} s", 10, 20, weight=n / 10)
        for n in range(clients)
    ]
    told = found(findings=rows)
    assert len(told) == incidents
    clients_told = {subject.name for one in told for subject in one.subjects if subject.role == "client"}
    assert clients_told == {f"c{n}" for n in range(clients)}
    assert sum(len(one.findings) for one in told) == incidents  # of many alike there is one, too
    if incidents == 1:
        assert told[0].headline.startswith("4 clients alike (c0, c1, c2, c3), ")
        assert told[0].headline.endswith("the worst: held back for 3 s")


def test_a_broker_that_others_refuse_is_told_as_a_broker_with_what_came_of_it() -> None:
    rows = [finding("authentication_failed", f"client - ({B2})", "8 authentication failures", 10, 40)]
    rows += [
        finding("heartbeat_held_up", "group shop", "t", 12, 14),
        finding("unanswered", f"client c1 ({H1})", "t", 12, 14),
    ]
    rebalances = [rebalance("assignment_not_stored", n, 15 * n, members=[member("c1")]) for n in range(1, 4)]
    late = counts("broker", "Produce", 20, {900: 5}, acks=-1, client_id="p1")
    incidents = found(
        findings=rows,
        rebalances=rebalances,
        cluster_events=BROKERS,
        latency=[late],
        connections=[connection(2, broker=B2), connection(3, B2, B1, client_id=None)],
    )
    (one,) = [each for each in incidents if each.kind == "authentication_failed"]
    assert names(one) == ["2", B2]
    assert one.headline.startswith(f"broker 2 ({B2}), ")
    assert [effect.text for effect in one.effects][1:] == [
        "5 writes that had to wait for replicas, of p1, took up to 900 ms on 1 broker",
        "2 rebalances",
    ]
    assert one.what.endswith(": 8 authentication failures")
    assert one.rebalances == {("shop", 1), ("shop", 2)}
    assert len(one.findings) == 3


def test_clients_without_a_name_are_called_by_their_address() -> None:
    one = only(findings=[finding("authentication_failed", f"client - ({H1})", "8 authentication failures", 10, 40)])
    assert names(one) == [H1]
    assert one.headline.startswith(f"{H1}, ")


def test_a_client_on_a_brokers_machine_is_no_broker() -> None:
    rows = [finding("authorization_failed", f"client {name} ({B1})", "refused", 10, 40) for name in ("c1", "-")]
    first, second = found(findings=rows, connections=[connection(1, B1, B1)], cluster_events=BROKERS)
    assert {tuple(names(one)) for one in (first, second)} == {("c1", B1), (B1,)}
    assert {one.advice for one in (first, second)} == {"do this"}


def test_a_broker_that_may_not_read_is_told_what_brokers_need() -> None:
    rows = [finding("authorization_failed", f"client broker-2-fetcher-0 ({B2})", "refused", 10, 40)]
    connections = [connection(1, B2, B1, "broker-2-fetcher-0"), connection(2, broker=B2)]
    one = only(findings=rows, connections=connections, cluster_events=BROKERS)
    assert names(one) == ["broker-2-fetcher-0", "2", B2]
    assert one.advice.startswith("A broker needs ClusterAction")
