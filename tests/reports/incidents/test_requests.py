"""Requests that are refused or held back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkascope.reports.incidents.clients.requests import waiting_for_replicas
from kafkascope.reports.incidents.incident import Incident
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    CLIENT,
    H1,
    H2,
    Row,
    at,
    connection,
    error,
    event,
    exchange,
    finding,
    found,
    health,
    listed,
    names,
    only,
    partition,
    row,
    seconds,
    signs,
    silence,
    tables_read,
)

GONE = silence(B2, 10, 60, refused=2, ended=3)

# --- refused ---------------------------------------------------------------------------------------------------------


def unknown(count: int = 5, lasts: float = 5, **given: Any) -> Row:
    return error("UNKNOWN_TOPIC_OR_PARTITION", "Metadata", 10, 10 + lasts, count, topic="orders", **given)


def test_a_topic_that_stays_unknown() -> None:
    one = only(error_histogram=[unknown(count=6)], connections=[CLIENT])
    assert (one.kind, one.severity, one.certainty) == ("unknown_topic", "warning", "certain")
    assert names(one) == ["orders", "c1", H1]
    assert "c1 asked for a topic that does not exist: orders, from" in one.headline
    assert one.headline.endswith("(Metadata UNKNOWN_TOPIC_OR_PARTITION 6 times)")
    assert (seconds(one.started), seconds(one.ended)) == (10, 15)
    assert [seen.packet for seen in one.evidence] == [6]


def test_of_clients_with_one_name_it_is_that_which_asked() -> None:
    clients = [connection(number, host, client_id="rdkafka") for number, host in ((1, H1), (2, H2))]
    for number, host in ((1, H1), (2, H2)):
        asked = [unknown(client_id="rdkafka", first_connection=number)]
        assert names(only(error_histogram=asked, connections=clients)) == ["orders", "rdkafka", host]
    nobody_knows = [unknown(client_id="rdkafka")]
    assert names(only(error_histogram=nobody_knows, connections=clients)) == ["orders", "rdkafka", H1, H2]


@pytest.mark.parametrize(("used", "near"), [(["order", "bills"], " (near is order)"), (["bills"], ""), ([], "")])
def test_the_name_that_may_have_been_meant_is_told(used: list[str], near: str) -> None:
    written = [row("throughput", topic=topic, records=9) for topic in used]
    one = only(error_histogram=[unknown(count=6)], connections=[CLIENT], throughput=written)
    assert f"does not exist: orders{near}, from" in one.headline


def test_a_topic_that_nobody_could_create() -> None:
    made = [
        error("INVALID_REPLICATION_FACTOR", "CreateTopics", 9, 9, topic="orders", client_id="admin"),
        error("POLICY_VIOLATION", "CreateTopics", 9, 9, topic="orders", client_id="other"),
    ]
    words = row("errors", at=at(9), api="CreateTopics", error="INVALID_REPLICATION_FACTOR", message="only 1 broker")
    one = only(error_histogram=[unknown(), *made], errors=[words])
    assert ", as admin could not create it: INVALID_REPLICATION_FACTOR (Metadata " in one.headline
    assert one.advice == "Ask for at most as many replicas as brokers are up."
    assert [seen.text for seen in one.evidence[1:]] == [
        f"CreateTopics of admin answered INVALID_REPLICATION_FACTOR by {B1}:9092, 1 time",
        "the broker says why: only 1 broker",
    ]


@pytest.mark.parametrize("changed", [{"error": "TOPIC_ALREADY_EXISTS"}, {"error": "error 999"}, {"topic": "pay"}])
def test_what_tells_nothing_of_why_a_topic_is_not_there(changed: Row) -> None:
    made = error("INVALID_PARTITIONS", "CreateTopics", 9, 9, topic="orders", client_id="admin") | changed
    assert "could not create" not in only(error_histogram=[unknown(), made]).headline


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([unknown(5, 5)], True),
        ([unknown(4, 5)], False),
        ([unknown(5, 4.9)], False),
        ([unknown(3, 1), unknown(2, 5, client_id="c2")], True),
        ([unknown(5, 5, client_id=None)], True),
        ([unknown(5, 5) | {"topic": None}], False),
        ([unknown(5, 5) | {"api": "DeleteTopics"}], False),  # who deletes what is gone is no client in trouble
        ([unknown(5, 5) | {"rest": True}], False),
    ],
)
def test_topics_are_unknown_from_some_errors_on(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(error_histogram=rows)] == ["unknown_topic"] * told


@pytest.mark.parametrize(("topic", "records", "told"), [("orders", 1, False), ("orders", 0, True), ("other", 1, True)])
def test_a_topic_that_somebody_uses_is_there(topic: str, records: int, told: bool) -> None:
    used = row("throughput", topic=topic, records=records)
    assert bool(found(error_histogram=[unknown()], throughput=[used])) == told


def test_topics_that_the_same_clients_ask_for_are_one_trouble() -> None:
    others = [unknown() | {"topic": name, "first": at(8)} for name in ("refunds", "a")]
    of_others = [unknown(client_id="c2"), unknown(client_id="c2") | {"topic": "b"}]
    one = only(error_histogram=[unknown(), *others])
    assert "c1 asked for topics that do not exist: a, orders, refunds, from" in one.headline
    assert (names(one), seconds(one.started)) == (["a", "orders", "refunds", "c1"], 8)
    assert "(Metadata UNKNOWN_TOPIC_OR_PARTITION 15 times)" in one.headline
    first, second = found(error_histogram=[*others, *of_others])
    assert (names(first), names(second)) == (["a", "refunds", "c1"], ["b", "orders", "c2"])


def test_a_streams_application_that_is_told_so_gives_up_at_once() -> None:
    told = finding("source_topics_missing", "group app", "", 10, 12, client_ids=["c1"])
    told["title"] = "c1 has no work: Source topics orders, users are missing; it gave up"
    asked = [unknown(2, 1), unknown(2, 1) | {"topic": "users"}, unknown(2, 1) | {"topic": "app-counts-changelog"}]
    one = only(error_histogram=asked, findings=[told])
    assert "c1 asked for topics that do not exist: orders, users, from" in one.headline
    assert one.findings == {told["id"]}
    told["title"] = "c1 has no work: it is said in other words"
    assert not found(error_histogram=asked, findings=[told])


@pytest.mark.parametrize("name", ["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"])
def test_records_that_are_too_large(name: str) -> None:
    one = only(error_histogram=[error(name, "Produce", 10, 20, 1, topic="orders")])
    assert (one.kind, one.severity, names(one)) == ("record_too_large", "warning", ["orders", "c1"])


@pytest.mark.parametrize("name", ["NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"])
def test_too_few_replicas_are_critical_unless_a_brokers_incident_says_why(name: str) -> None:
    refused = error(name, "Produce", 20, 30, 4, topic="orders", client_id=None)
    one = only(error_histogram=[refused])
    assert (one.kind, one.severity) == ("too_few_replicas", "critical")
    assert one.headline.startswith("a client could not write")
    two = found(error_histogram=[refused], silences=[GONE], cluster_events=BROKERS)
    assert [(one.kind, one.severity) for one in two] == [("broker_down", "critical"), ("too_few_replicas", "warning")]
    assert "after broker 2 (10.0.0.2) had gone" in two[1].headline
    late = refused | {"first": at(75.1), "last": at(80)}
    two = found(error_histogram=[late], silences=[GONE], cluster_events=BROKERS)
    assert [one.severity for one in two] == ["critical", "critical"]


def test_its_findings_are_those_of_its_clients() -> None:
    findings = [
        finding("error_loop", f"client c1 ({H1})", "t", 12, 14),
        finding("error_loop", f"client c11 ({H1})", "t", 12, 14),
        finding("error_loop", f"client c1 ({H1})", "t", 60, 70, id="later"),
        finding("leader_changed", f"client c1 ({H1})", "t", 12, 14),
    ]
    assert only(error_histogram=[unknown()], findings=findings).findings == {f"error_loop client c1 ({H1})"}


# --- writes that wait ------------------------------------------------------------------------------------------------


def write(lasts: float | None, requested: float = 20, acks: int = -1, **given: Any) -> Row:
    answered = None if lasts is None else requested + lasts
    return exchange(1, "Produce", requested, answered, request=f'{{"acks": {acks}}}', **given)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([write(12)], True),
        ([write(11.9)], False),
        ([write(None)], True),
        ([write(12, acks=1)], False),
        ([write(12, requested=3.9)], False),
        ([write(12, requested=4)], True),
        ([write(12, requested=60.1)], False),
        ([write(12) | {"connection": 2}], False),  # to the broker that is gone
        ([write(12) | {"connection": 3}], False),  # it is not known to which
        ([write(None) | {"connection": 4}], False),  # the client gave up in time
        ([write(None) | {"connection": 5}], True),
        ([write(None), write(1, requested=21, acks=1) | {"number": 2}], False),  # the capture lacks the answer
        ([write(None), write(1, requested=19, acks=1) | {"number": 2}], True),
        ([write(12), write(None, requested=50) | {"number": 2}, write(1, requested=51, acks=1) | {"number": 3}], True),
        ([write(None) | {"connection": 6}], False),  # nor all else that the broker sent there
    ],
)
def test_writes_that_wait_for_replicas_on_a_broker_that_is_gone(rows: list[Row], told: bool) -> None:
    written = [partition("Produce", 20, connection=number) for number in (1, 5)]
    tables = {"silences": [GONE], "cluster_events": BROKERS, "partitions": written}
    connections = [connection(1), connection(2, broker=B2), connection(4, closed=31), connection(5, closed=32)]
    connections.append(connection(6, packets_down=0))
    incidents = found(exchanges=rows, connections=connections, **tables)
    assert [one.kind for one in incidents] == ["broker_down", *["too_few_replicas"] * told]
    if told:
        assert (incidents[1].severity, names(incidents[1])) == ("warning", ["orders", "c1", H1])
        assert "1 write with acks=all of c1 to orders waited for up to" in incidents[1].headline


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"opened": 31}, False),
        ({"opened": 32}, True),  # it waited for long enough by then
        ({"opened": 19}, True),
        ({"opened": 31, "broker": "10.0.0.3"}, True),
        ({"opened": 31, "client": H2}, True),
        ({"opened": 31, "client_id": "c2"}, True),
    ],
)
def test_who_opened_another_connection_to_that_broker_waits_no_more(given: Row, told: bool) -> None:
    """The capture may lack how the one before ended."""
    tables = {"silences": [GONE], "cluster_events": BROKERS, "exchanges": [write(None)]}
    kinds = [one.kind for one in found(**tables, connections=[connection(1, opened=1), connection(7, **given)])]
    assert ("too_few_replicas" in kinds) == told


@pytest.mark.parametrize(
    ("answered", "closed", "acknowledgements", "told"),
    [(None, None, 1, True), (None, None, 0, False), (None, 32, 0, True), (12, None, 0, True)],
)
def test_where_no_connection_ends_nobody_waits_to_the_end(
    answered: float | None, closed: float | None, acknowledgements: int, told: bool
) -> None:
    """As in captures that were filtered by payload."""
    tables = {"silences": [GONE], "cluster_events": BROKERS, "exchanges": [write(answered)]}
    tables["tcp_health"] = [health(1, "client", [20], [20], acknowledgements=acknowledgements)]
    kinds = [one.kind for one in found(**tables, connections=[connection(1, opened=1, closed=closed)])]
    assert ("too_few_replicas" in kinds) == told


def test_writes_that_wait_for_two_brokers_are_one_incident() -> None:
    third = silence("10.0.0.3", 30, 60, refused=2, ended=3)
    tables = {"silences": [GONE, third], "connections": [CLIENT]}
    tables["cluster_events"] = [*BROKERS, listed(3, "10.0.0.3")]
    rows = [write(13, requested=31), write(14, requested=32) | {"number": 2}, write(12) | {"number": 3}]
    waited = [one for one in found(exchanges=rows, **tables) if one.kind == "too_few_replicas"]
    assert sorted(one.headline.split("but ")[1] for one in waited) == [
        f"replicas on broker 2 ({B2}) were not",
        f"replicas on broker 2 ({B2}), broker 3 (10.0.0.3) were not",
    ]
    assert sorted(one.effects[0].count or 0 for one in waited) == [1, 2]


def test_what_waiting_writes_were_for_is_read_once_for_all_outages(monkeypatch: pytest.MonkeyPatch) -> None:
    read = tables_read(monkeypatch)
    often = []
    for many in (2, 20):
        tables = {
            "silences": [silence(B2, 100 * n, 100 * n + 50, refused=2, ended=3, ended_clients=2) for n in range(many)],
            "exchanges": [write(12, 100 * n + 10) | {"number": n} for n in range(many)],
            "partitions": [partition("Produce", 1, f"topic-{n}", number=n) for n in range(many)],
            "connections": [CLIENT],
            "cluster_events": BROKERS,
        }
        read.clear()
        told = sorted(waiting_for_replicas(signs(**tables)), key=lambda one: one.started)
        assert [names(one)[0] for one in told] == [f"topic-{n}" for n in range(many)]
        often.append(read.count("partitions"))
    assert often == [1, 1]


@pytest.mark.parametrize(("since", "until", "told"), [(20, 30, 1), (32, 40, 1), (32.1, 40, 2), (10, 19.9, 2)])
def test_where_brokers_said_before_that_replicas_are_too_few_that_is_told_instead(
    since: float, until: float, told: int
) -> None:
    refused = error("NOT_ENOUGH_REPLICAS", "Produce", since, until, 4, topic="orders")
    tables = {"silences": [GONE], "cluster_events": BROKERS, "connections": [CLIENT], "error_histogram": [refused]}
    _, *of_replicas = found(exchanges=[write(30)], **tables)
    assert len(of_replicas) == told
    assert any("could not write" in one.headline for one in of_replicas)


# --- for good --------------------------------------------------------------------------------------------------------


def bad(api: str = "Produce", name: str = "INVALID_RECORD", count: int = 3, **given: Any) -> Row:
    return error(name, api, 5, 9, count, **{"topic": "orders", "client_id": "p1"} | given)


def test_a_writer_whose_records_are_never_accepted() -> None:
    reasons = [
        row("errors", at=at(time), api=api, error="INVALID_RECORD", message=message)
        for time, api, message in (
            (6, "Produce", "a later one"),
            (5, "Produce", "Compacted topic cannot accept message without key"),
            (4, "Produce", None),
            (3, "TxnOffsetCommit", "of another API"),
        )
    ]
    one = only(error_histogram=[bad(), bad(client_id="p2", topic="pay")], errors=reasons)
    assert (one.kind, one.severity, one.certainty) == ("request_refused", "warning", "certain")
    assert names(one) == ["p1", "p2", "orders", "pay"]
    assert one.headline.startswith("Produce to orders, pay of p1, p2 is refused as INVALID_RECORD, 6 times from ")
    assert one.headline.endswith(": the broker refuses a record for what it holds or lacks")
    assert one.evidence[-1].text == "the broker says why: Compacted topic cannot accept message without key"


def test_a_producer_that_cannot_begin() -> None:
    one = only(error_histogram=[bad("InitProducerId", "INVALID_TRANSACTION_TIMEOUT", topic=None)])
    assert one.headline.startswith("InitProducerId of p1 is refused as INVALID_TRANSACTION_TIMEOUT, 3 times from ")
    assert "transaction.max.timeout.ms" in one.advice


def test_commits_that_are_never_taken_are_of_a_group() -> None:
    refused = [
        finding("commit_refused", f"group {group}", "t", 5, 9, client_ids=clients, id=" ".join([group, *clients]))
        for group, clients in (("shop", ["p1"]), ("shop", ["p2"]), ("shop", ["p1", "p2"]))
    ]
    rows = [bad("OffsetCommit", "OFFSET_METADATA_TOO_LARGE", group_id="shop")]
    one = only(error_histogram=rows, findings=refused)
    assert names(one) == ["p1", "orders", "shop"]
    assert one.findings == {"shop p1"}


@pytest.mark.parametrize(
    "rows",
    [
        [bad(count=2)],
        [bad(count=2), bad("InitProducerId", count=2)],  # of one API
        [bad("CreateTopics", "INVALID_REQUEST")],  # somebody who tries something
        [bad("Fetch", "UNSUPPORTED_COMPRESSION_TYPE")],
        [bad(name="OUT_OF_ORDER_SEQUENCE_NUMBER")],  # comes of what was lost before
    ],
)
def test_other_refusals_are_none_for_good(rows: list[Row]) -> None:
    assert found(error_histogram=rows) == []


# --- after a setting was changed -------------------------------------------------------------------------------------


def altered(setting: str = "cleanup.policy", value: str | None = "compact", time: float = 4.9, **given: Any) -> Row:
    """A request by which an administrator changes a setting of topic orders."""
    config = {"name": setting, "configOperation": 0 if value else 1, "value": value}
    resource = {"resourceType": 2, "resourceName": "orders", "configs": [config]} | given
    request = json.dumps({"resources": [resource], "validateOnly": False})
    api = "IncrementalAlterConfigs"
    return exchange(1, api, time, time + 0.1, connection=9, client_id="admin", request=request)


def refused_after(change: Row, refused: Row) -> Incident:
    admin = connection(9, H2, client_id="admin")
    incidents = found(exchanges=[change], error_histogram=[refused], connections=[CLIENT, admin])
    (one,) = [one for one in incidents if one.kind != "admin_action"]
    return one


@pytest.mark.parametrize(
    ("error", "setting"),
    [
        ("INVALID_RECORD", "cleanup.policy"),
        ("INVALID_TIMESTAMP", "message.timestamp.before.max.ms"),
        ("MESSAGE_TOO_LARGE", "max.message.bytes"),
        ("NOT_ENOUGH_REPLICAS", "min.insync.replicas"),
    ],
)
def test_records_that_are_refused_after_a_setting_was_changed(error: str, setting: str) -> None:
    one = refused_after(altered(setting, "3"), bad(name=error))
    assert f", after admin ({H2}) had set {setting}=3 of orders at " in one.headline
    assert one.advice.startswith(f"Set {setting} of orders back, if what came of it was not meant. Else: ")
    assert (one.evidence[-1].packet, seconds(one.evidence[-1].at)) == (1, 4.9)


def test_a_setting_that_is_set_to_the_default() -> None:
    assert f"admin ({H2}) had changed cleanup.policy of orders" in refused_after(altered(value=None), bad()).headline


@pytest.mark.parametrize(
    "change",
    [
        altered("max.message.bytes"),  # for which records are refused otherwise
        altered(resourceName="pay"),
        altered(resourceType=4),  # of a broker
        altered(time=5.1),  # later
        altered(time=-60),
    ],
)
def test_changes_of_which_no_refusal_comes(change: Row) -> None:
    one = refused_after(change, bad())
    assert ("admin" in one.headline, "Set" in one.advice) == (False, False)


@pytest.mark.parametrize("port", [9092, 9093])
def test_of_brokers_at_one_address_that_with_another_port_was_asked(port: int) -> None:
    lists = [event("broker_listed", 0, node_id=n, host=f"{B1}:{9091 + n}", told_by=f"{B1}:9092") for n in (1, 2)]
    gone = silence(f"{B1}:9093", 10, 60, refused=3, ended=3, ended_clients=2)
    incidents = found(
        exchanges=[write(None)],
        connections=[connection(1, broker_port=port, closed=60)],
        silences=[gone],
        cluster_events=lists,
        partitions=[partition("Produce", 20)],
    )
    assert [one.kind for one in incidents] == ["broker_down", *["too_few_replicas"] * (port == 9092)]
