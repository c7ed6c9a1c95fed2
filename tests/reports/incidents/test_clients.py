"""What findings about clients say is an incident by itself."""

from __future__ import annotations

import json

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Incident
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    CLIENT,
    H1,
    H2,
    LASTS,
    Row,
    at,
    connection,
    error,
    exchange,
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
        finding(kind, f"client c1 ({H1})", "It is so", 10, 20, weight=0.9),
        finding(kind, f"client c1 ({H2})", "It is so", 15, 30, weight=0.9),
        finding(kind, "client (odd) name (10.9.9.9)", "It is so", 15, 15, weight=0.9),
    ]
    incidents = found(findings=rows)
    assert {(one.kind, one.severity, one.certainty) for one in incidents} == {(incident, severity, "certain")}
    assert sorted(names(one) for one in incidents) == [["(odd) name", "10.9.9.9"], ["c1", H1, H2]]
    first = incidents[0]
    assert (first.about, seconds(first.started), seconds(first.ended)) == (f"client c1 ({H1})", 10, 30)
    assert first.headline.endswith(": it is so")
    assert f", {clock(at(10))} to {clock(at(30))}: " in first.headline
    assert f", at {clock(at(15))}: " in incidents[1].headline
    assert len(first.findings) == 2


@pytest.mark.parametrize(
    ("others", "incidents"),
    [
        ([], [["c1", H1]]),
        ([connection(3, H1, client_id=None)], [[H1], ["c1", H1]]),  # a client without a client id
        ([connection(3, H2, client_id=None)], [["c1", H1]]),
    ],
)
def test_what_answers_alone_tell_is_told_with_the_client_on_their_host(
    others: list[Row], incidents: list[list[str]]
) -> None:
    """Of the client id requests tell, which the capture may lack."""
    rows = [finding("throttled", f"client {name} ({H1})", f"As {name}", 10, 20, weight=0.9) for name in ("-", "c1")]
    told = found(findings=rows, connections=[CLIENT, *others])
    assert sorted(names(one) for one in told) == incidents


def test_what_answers_alone_tell_is_not_told_with_one_of_several_clients() -> None:
    rows = [
        finding("throttled", f"client {name} ({H1})", "Held back", 10, 20, weight=0.9) for name in ("-", "c1", "c2")
    ]
    told = found(findings=rows, connections=[CLIENT])
    assert sorted(names(one) for one in told) == [[H1], ["c1", H1], ["c2", H1]]


def test_a_quota_that_holds_back_beyond_the_end_of_the_capture_goes_on() -> None:
    held = finding("throttled", f"client c1 ({H1})", "Held back", 10, LASTS + 5, weight=0.9)
    one = only(findings=[held])
    assert (one.ended, one.cost_ms) == (None, (LASTS - 10) * 1000)
    assert one.headline.endswith("held back, the last of it to 5.0 s behind the end of the capture")
    over = only(findings=[finding("throttled", f"client c1 ({H1})", "Held back", 10, LASTS - 5, weight=0.9)])
    assert over.headline.endswith("held back")


def test_what_a_client_that_is_held_back_asks_may_stay_unanswered() -> None:
    rows = [finding(kind, f"client c1 ({H1})", "t", 10, 20, weight=0.9) for kind in ("throttled", "unanswered")]
    assert len(only(findings=rows).findings) == 2
    rows[1] |= {"client_ids": ["c2"]}
    assert len(only(findings=rows).findings) == 1


def test_one_that_tries_again_and_again_as_its_password_is_wrong_is_no_storm_and_brokers_are_none() -> None:
    kinds = ("authentication_failed", "connection_churn")
    rows = [finding(kind, f"client c1 ({H1})", "t", 10, 20, weight=0.9) for kind in kinds]
    one = only(findings=rows)
    assert (one.kind, len(one.findings)) == ("authentication_failed", 2)
    of_broker = finding("connection_churn", f"client raft-client-1 ({B1})", "t", 10, 20, weight=0.9)
    assert found(findings=[of_broker], connections=[CLIENT]) == []
    beside = finding("connection_churn", f"client b ({B1})", "t", 10, 20, weight=0.9)  # on the broker's machine
    assert only(findings=[beside], connections=[CLIENT]).kind == "connection_storm"


@pytest.mark.parametrize(("times", "told"), [(2.9, False), (3, True), (40, True)])
def test_some_connections_too_many_are_no_storm(times: float, told: bool) -> None:
    weight = times / (times + 1)
    churn = finding("connection_churn", f"client c1 ({H1})", "t", 10, 20, weight=weight)
    assert [one.kind for one in found(findings=[churn])] == ["connection_storm"] * told


@pytest.mark.parametrize(
    ("name", "clients", "told"),
    [
        ("GROUP_AUTHORIZATION_FAILED", ["c1"], True),
        ("ILLEGAL_GENERATION", ["c1"], False),
        ("GROUP_AUTHORIZATION_FAILED", ["c1", "c2"], False),  # of another client, too
    ],
)
def test_commits_that_are_refused_for_lack_of_permission(name: str, clients: list[str], told: bool) -> None:
    failed = finding("authorization_failed", f"client c1 ({H1})", "9 errors", 30, 40)
    refused = finding("commit_refused", "group shop", "t", 31, 39, client_ids=clients)
    errors = [error(name, "OffsetCommit", 31, 39, 3, group_id="shop", client_id="c1")]
    one = only(findings=[failed, refused], error_histogram=errors, connections=[CLIENT])
    assert one.findings == {failed["id"]} | ({refused["id"]} if told else set())


def test_the_permission_that_is_lacking_and_who_took_it_away() -> None:
    failed = finding("authorization_failed", f"client c1 ({H1})", "9 errors: Fetch", 30, 40)
    stops = finding("commits_stopped", "group shop", "c1 does not commit", 50, 90, client_ids=["c1"])
    errors = [
        error("TOPIC_AUTHORIZATION_FAILED", "Fetch", 30, 30, topic="orders", client_id="c1"),
        error("TOPIC_AUTHORIZATION_FAILED", "Metadata", 31, 31, topic="orders", client_id="c1"),
        error("GROUP_AUTHORIZATION_FAILED", "JoinGroup", 32, 32, group_id="shop", client_id="c1"),
        error("CLUSTER_AUTHORIZATION_FAILED", "InitProducerId", 33, 33, client_id="c1"),
        error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "EndTxn", 33, 33, client_id="c1"),
        error("TOPIC_AUTHORIZATION_FAILED", "Fetch", 30, 30, topic="other", client_id="c2"),
        error("TOPIC_AUTHORIZATION_FAILED", "Fetch", 90, 90, topic="later", client_id="c1"),
        error("UNKNOWN_TOPIC_OR_PARTITION", "Metadata", 30, 30, topic="gone", client_id="c1"),
    ]
    asked = [
        exchange(n, api, 27 + n, 27.5 + n, client_id="adm", connection=3)
        for n, api in enumerate(["DeleteAcls", "CreateAcls", "DescribeAcls", "DeleteAcls"])
    ]
    to_brokers = [connection(1), connection(3, H2, client_id="adm")]
    incidents = found(findings=[failed, stops], error_histogram=errors, exchanges=asked, connections=to_brokers)
    one, done = incidents
    assert (one.kind, done.kind) == ("authorization_failed", "admin_action")
    assert one.headline.endswith(": 9 errors: Fetch (group shop, its transactional id, the cluster and 1 more)")
    assert one.advice.startswith(
        "Give the principal of c1 what it needs (kafka-acls --add --allow-principal): Describe on topic orders, "
        "IdempotentWrite on the cluster, Read on group shop, Read on topic orders, Write on its transactional id; "
    )
    assert names(one) == ["c1", H1, "shop", "orders"]
    assert [seen.text for seen in one.evidence if seen.weight == 0.6] == [
        f"adm ({H2}) had taken permissions away 2.5 s before"
    ]
    assert one.findings == {failed["id"], stops["id"]}


@pytest.mark.parametrize(
    ("since", "error_name", "where", "told"),
    [
        (35, "GROUP_AUTHORIZATION_FAILED", "shop", 1),
        (99, "GROUP_AUTHORIZATION_FAILED", "shop", 1),  # within a minute of the other's end
        (101, "GROUP_AUTHORIZATION_FAILED", "shop", 2),
        (35, "GROUP_AUTHORIZATION_FAILED", "other", 2),
        (35, "GROUP_AUTHORIZATION_FAILED", None, 2),  # of which group is not known
        (35, "TOPIC_AUTHORIZATION_FAILED", "shop", 2),
    ],
)
def test_clients_that_are_refused_the_same_at_once_are_one_incident(
    since: float, error_name: str, where: str | None, told: int
) -> None:
    """Of two or three, too."""
    failed = [
        finding("authorization_failed", f"client c1 ({H1})", "9 errors", 30, 40),
        finding("authorization_failed", f"client c2 ({H2})", "5 errors", since, since + 5),
    ]
    on: Row = {"topic" if error_name.startswith("TOPIC") else "group_id": where}
    errors = [
        error("GROUP_AUTHORIZATION_FAILED", "Heartbeat", 30, 40, group_id="shop", client_id="c1"),
        error(error_name, "Heartbeat", since, since + 5, client_id="c2", **on),
    ]
    incidents = found(findings=failed, error_histogram=errors, connections=[CLIENT, connection(2, H2, client_id="c2")])
    assert len(incidents) == told
    if told == 1:
        (one,) = incidents
        assert names(one) == ["c1", "c2", H1, H2, "shop"]
        assert one.headline.startswith("2 clients alike (c1, c2), ")
        assert one.headline.endswith(" (group shop)")
        assert one.findings == {row["id"] for row in failed}
        assert one.advice.startswith("Give the principal of c1, c2 what it needs")


@pytest.mark.parametrize(
    ("name", "time", "told"), [("orders", 27, True), ("other", 27, False), (None, 27, False), ("orders", 31, False)]
)
def test_who_took_permissions_away_on_what_is_refused_is_named(name: str | None, time: float, told: bool) -> None:
    failed = finding("authorization_failed", f"client c1 ({H1})", "9 errors", 30, 40)
    errors = [error("TOPIC_AUTHORIZATION_FAILED", "Fetch", 30, 30, topic="orders", client_id="c1")]
    body = json.dumps({"filters": [{"resourceTypeFilter": 2, "resourceNameFilter": name}]})
    taken = exchange(1, "DeleteAcls", time, time + 0.5, client_id="adm", connection=3, request=body)
    hosts = [connection(1), connection(3, H2, client_id="adm")]
    one, _ = found(findings=[failed], error_histogram=errors, exchanges=[taken], connections=hosts)
    after = f"; adm ({H2}) had taken permissions on orders away at {clock(at(27))}" if told else ""
    assert one.headline.endswith(f": 9 errors (topic orders{after})")


@pytest.mark.parametrize(
    ("kind", "request_text", "told"),
    [
        ("GROUP", '{"key": "shop", "keyType": 0}', "group shop"),
        ("GROUP", '{"coordinatorKeys": ["shop"]}', "group shop"),
        ("GROUP", '{"coordinatorKeys": ["shop", "other"]}', "its group"),  # one of them may be refused alone
        ("GROUP", '{"key"', "its group"),
        ("TRANSACTIONAL_ID", '{"key": "pay", "keyType": 1}', "transactional id pay"),
    ],
)
def test_who_may_not_look_for_a_coordinator_is_told_of_what(kind: str, request_text: str, told: str) -> None:
    refused = f"{kind}_AUTHORIZATION_FAILED"
    one = only(
        findings=[finding("authorization_failed", f"client c1 ({H1})", "1 error", 30, 40)],
        error_histogram=[error(refused, "FindCoordinator", 30, 30, client_id="c1")],
        exchanges=[exchange(1, "FindCoordinator", 30, 30, client_id="c1", error=refused, request=request_text)],
    )
    assert one.headline.endswith(f"({told})")
    whose = "a member needs Read" if kind == "GROUP" else "a producer needs Write"
    assert f"Describe on {told} ({whose}, which implies it);" in one.advice
    assert (names(one)[2:] == ["shop"]) == (told == "group shop")


def test_errors_that_tell_no_permission() -> None:
    failed = finding("authorization_failed", f"client c1 ({H1})", "t", 30, 40)
    odd = [error("TOPIC_AUTHORIZATION_FAILED", "BrokerHeartbeat", 30, 30, topic="orders", client_id="c1")]
    for errors in (odd, []):
        one = only(findings=[failed], error_histogram=errors)
        assert one.headline.endswith(": t (topic orders)" if errors else ": t")
        assert one.advice == failed["advice"]


def test_a_mechanism_that_is_not_offered_is_named_beside_those_that_are() -> None:
    """Of that client: another one with its name is elsewhere, and c2 wants something else."""
    failed = finding("authentication_failed", f"client c1 ({H1})", "3 failures: not the one it wants", 10, 20)
    tried = [("c1", H2, "GSSAPI"), ("c2", H1, "OAUTHBEARER"), ("c1", H1, "SCRAM-SHA-256")]
    handshakes = [
        exchange(
            number,
            "SaslHandshake",
            10 + number,
            11 + number,
            connection=number,
            client_id=name,
            error="UNSUPPORTED_SASL_MECHANISM",
            request=f'{{"mechanism": "{wanted}"}}',
            response='{"errorCode": 33, "mechanisms": ["PLAIN", "OAUTHBEARER"]}',
        )
        for number, (name, _, wanted) in enumerate(tried)
    ]
    to_it = [connection(number, client=host, client_id=name) for number, (name, host, _) in enumerate(tried)]
    one = only(findings=[failed], exchanges=handshakes, connections=to_it)
    assert one.headline.endswith(": 3 failures: not the one it wants (SCRAM-SHA-256; it has PLAIN, OAUTHBEARER)")
    for changed in ({"error": "ILLEGAL_SASL_STATE"}, {"response": None}, {"request": '{"mechanism": "a\\n"}'}):
        odd = [row | changed for row in handshakes]
        assert only(findings=[failed], exchanges=odd, connections=to_it).headline.endswith("not the one it wants")


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
    both = [connection(1, B1, B1), connection(2, B1, B1, None)]
    first, second = found(findings=rows, connections=both, cluster_events=BROKERS)
    assert {tuple(names(one)) for one in (first, second)} == {("c1", B1), (B1,)}
    assert {one.advice for one in (first, second)} == {"do this"}


def test_a_broker_that_may_not_read_is_told_what_brokers_need() -> None:
    rows = [finding("authorization_failed", f"client broker-2-fetcher-0 ({B2})", "refused", 10, 40)]
    connections = [connection(1, B2, B1, "broker-2-fetcher-0"), connection(2, broker=B2)]
    one = only(findings=rows, connections=connections, cluster_events=BROKERS)
    assert names(one) == ["broker-2-fetcher-0", "2", B2]
    assert one.advice.startswith("A broker needs ClusterAction")


# --- who set the quota -----------------------------------------------------------------------------------------------


def set_quota(*entity: tuple[str, str | None], time: float = 9, remove: bool = False) -> Row:
    entry = {
        "entity": [{"entityType": kind, "entityName": name} for kind, name in entity],
        "ops": [{"key": "producer_byte_rate", "value": 2000.0, "remove": remove}],
    }
    request = json.dumps({"entries": [entry], "validateOnly": False})
    return exchange(1, "AlterClientQuotas", time, time + 0.1, connection=9, client_id="admin", request=request)


def held_back_after(*changes: Row, **given: list[Row]) -> Incident:
    rows = [finding("throttled", f"client c1 ({H1})", "Held back", 10, 20, weight=0.9)]
    admin = connection(9, H2, client_id="admin")
    incidents = found(findings=rows, exchanges=[*changes], connections=[CLIENT, admin], **given)
    (one,) = [one for one in incidents if one.kind == "throttled"]
    return one


@pytest.mark.parametrize(
    ("entity", "whose"),
    [
        (("client-id", "c1"), "client c1"),
        (("client-id", None), "all clients"),
        (("client-id", "c2"), None),
        (("user", "c1"), None),  # who that is, is not asked
    ],
)
def test_who_set_the_quota(entity: tuple[str, str | None], whose: str | None) -> None:
    one = held_back_after(set_quota(entity))
    told = f"(after admin ({H2}) had set producer_byte_rate=2000 of {whose} at {clock(at(9))})"
    assert (told in one.headline, "admin" in one.headline) == (whose is not None, whose is not None)
    assert [seen.packet for seen in one.evidence[1:]] == [1] * (whose is not None)


@pytest.mark.parametrize(
    "change",
    [
        set_quota(("client-id", "c1"), ("user", "u")),
        set_quota(("client-id", "c1"), remove=True),
        set_quota(("client-id", "c1"), time=11),
        set_quota(("client-id", "c1"), time=-60),
    ],
)
def test_quotas_by_which_nobody_is_held_back(change: Row) -> None:
    assert "admin" not in held_back_after(change).headline


def test_what_a_quota_refuses() -> None:
    refused = [
        error("THROTTLING_QUOTA_EXCEEDED", "CreateTopics", 12, 14, 2),
        error("THROTTLING_QUOTA_EXCEEDED", "DeleteTopics", 21, 22, 2),  # later
        error("THROTTLING_QUOTA_EXCEEDED", "CreateTopics", 12, 14, 2, client_id="c2"),
        error("POLICY_VIOLATION", "CreateTopics", 12, 14, 2),
    ]
    one = held_back_after(error_histogram=refused)
    assert [effect.text for effect in one.effects] == ["for 10.0 s", "refused: CreateTopics 2 times"]
