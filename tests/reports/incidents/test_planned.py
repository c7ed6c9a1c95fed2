"""Planned work: told as what it is, and no more than was done."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    H1,
    H2,
    Row,
    connection,
    error,
    exchange,
    finding,
    found,
    member,
    names,
    only,
    rebalance,
    row,
    seconds,
)


def test_what_an_administrator_changed_is_told() -> None:
    rows = [
        exchange(1, "CreateTopics", 10, 10.1, client_id="adm"),
        exchange(2, "CreateTopics", 11, 12, client_id="adm"),
        exchange(3, "AlterConfigs", 11, 11.5, client_id="adm"),
        exchange(4, "Metadata", 20, 20.1, client_id="adm"),
    ]
    one = only(exchanges=rows, connections=[connection(1, client_id="adm")])
    assert (one.kind, one.severity, one.certainty) == ("admin_action", "info", "certain")
    assert (names(one), seconds(one.started), seconds(one.ended)) == (["adm", H1], 10, 12)
    assert one.headline.startswith(f"adm ({H1}) changed something from ")
    assert one.headline.endswith(": CreateTopics 2 times, AlterConfigs 1 time")


@pytest.mark.parametrize(
    ("request_text", "words", "subjects"),
    [
        (
            '{"topics": [{"name": "b", "numPartitions": 6}, {"name": "a", "configs": [{"name": "x"}]}]}',
            " (a, b)",
            ["a", "b"],
        ),
        ('{"topicNames": ["a"]}', " (a)", ["a"]),
        ('{"topicPartitions": [{"topic": "a", "partitions": [0]}]}', " (a)", ["a"]),
        ('{"groupId": "shop", "topics": [{"topicName": "a"}]}', " (a, shop)", ["shop", "a"]),
        ('{"groupsNames": ["shop"]}', " (shop)", ["shop"]),
        (
            '{"resources": [{"resourceType": 2, "resourceName": "a", "configs": [{"name": "x", "value": "y"}]}]}',
            " (a: x)",
            [],
        ),
        (
            '{"entries": [{"entity": [{"entityType": "user", "entityName": null}, {"entityType": "client-id", '
            '"entityName": "c2"}], "ops": [{"key": "rate", "value": 1.5}, {"key": 7}]}, {"ops": [null]}, 7]}',
            " (rate of client-id c2, any user)",
            [],
        ),
        ('{"listeners": [{"name": "CONTROLLER"}]}', "", []),
        ('{"topics": [{"name": 7}, null, "a"]}', " (a)", ["a"]),
        ('{"topics": null}', "", []),
        ("[1]", "", []),
        ('{"topics": [{"na', "", []),
        (None, "", []),
    ],
)
def test_what_was_changed_is_named(request_text: str | None, words: str, subjects: list[str]) -> None:
    changed = exchange(1, "DeleteTopics", 10, 10.1, request=request_text)
    one = only(exchanges=[changed], connections=[connection(1)])
    assert one.headline.endswith(f": DeleteTopics 1 time{words}")
    assert names(one) == ["c1", H1, *subjects]


@pytest.mark.parametrize(
    ("trigger", "started", "topics", "told"),
    [
        ("topic_partitions_changed", 11, ["orders"], True),
        ("topic_partitions_changed", 10, ["orders"], False),  # at the moment at which it was asked for
        ("topic_partitions_changed", None, ["orders"], False),
        ("subscription_changed", 11, ["first", "orders"], True),  # as it matches a pattern
        ("subscription_changed", 10, ["first", "orders"], False),
        ("subscription_changed", 11, ["orders"], False),  # first is left, which no pattern does
        ("subscription_changed", 11, ["first", "orders", "other"], False),
        ("subscription_changed", 11, ["first", "other"], False),
        ("subscription_changed", 11, ["first"], False),  # what is another is not known
        ("subscription_changed", 11, [], False),
        ("member_joined", 11, ["orders"], False),
    ],
)
def test_rebalances_that_come_of_topics_which_are_made(
    trigger: str, started: float | None, topics: list[str], told: bool
) -> None:
    made = [
        exchange(n, api, 10, 10.1, client_id="adm", request=f'{{"topics": [{{"name": "{topic}"}}]}}')
        for n, api, topic in ((1, "CreateTopics", "orders"), (2, "CreatePartitions", "first"))
    ]
    before, after = (
        [member("c1") | {"subscription": ["first"]}, member("c2") | {"subscription": asked}]
        for asked in (["first"], topics)
    )
    rows = [
        rebalance("member_joined", 3, 5, members=before),
        rebalance(trigger, 4, started, members=after, trigger_member=after[1]["member_id"]),
        rebalance(trigger, 1, started, members=after, trigger_member=after[1]["member_id"], group="later"),
    ]
    rows = rows if trigger == "subscription_changed" else rows[:2]  # what was asked for before is not known of another
    (one,) = [
        one
        for one in found(exchanges=made, rebalances=rows, connections=[connection(1, client_id="adm")])
        if one.kind == "admin_action"
    ]
    assert one.rebalances == ({("shop", 4)} if told else set())
    assert ("; 1 rebalance" in one.headline) == told


@pytest.mark.parametrize(("deleted", "asked", "told"), [(10, "orders", False), (13, "orders", True), (10, "b", True)])
def test_records_of_a_topic_that_is_made_anew_are_not_read_again(deleted: float, asked: str, told: bool) -> None:
    made = [
        exchange(n, api, time, time + 0.1, client_id="adm", request=request)
        for n, (api, time, request) in enumerate(
            [
                ("DeleteTopics", deleted, '{"topics": [{"name": "orders"}]}'),
                ("CreateTopics", 11, '{"topics": [{"name": "orders"}, {"name": "b"}]}'),
            ]
        )
    ]
    members = [member("c1") | {"subscription": [asked]}]
    row = rebalance("topic_partitions_changed", 4, 12, members=members, reread_records=14)
    connections = [connection(1, client_id="adm")]
    (one,) = (
        each for each in found(exchanges=made, rebalances=[row], connections=connections) if each.kind == "admin_action"
    )
    assert one.rebalances == {("shop", 4)}
    assert ("14 records were read again" in one.headline) == told


@pytest.mark.parametrize(
    ("api", "time", "host", "told"),
    [
        ("DeleteRecords", 100, H1, False),
        ("DeleteRecords", 100, H2, True),  # nobody of the application is there
        ("CreateTopics", 5.5, H1, False),
        ("CreateTopics", 4.9, H1, True),
        ("CreateTopics", 6.1, H1, True),  # the rebalance is over
        ("DeleteTopics", 5.5, H1, True),  # a tool that resets applications
    ],
)
@pytest.mark.parametrize(
    "of_streams", [{"protocol": "streams"}, {"members": [member("c1") | {"assignors": ["stream"]}]}]
)
def test_what_streams_does_to_its_internal_topics_is_no_administrators_work(
    api: str, time: float, host: str, told: bool, of_streams: Row
) -> None:
    joined = rebalance("member_joined", 1, 5, **{"members": [member("c1")], **of_streams})
    rows = [exchange(1, api, time, time + 0.1, client_id="c1-admin")]
    tables = {"exchanges": rows, "connections": [connection(1, host, client_id="c1-admin")]}
    assert bool(found(rebalances=[joined], **tables)) == told
    assert found(rebalances=[joined | {"protocol": "classic", "members": [member("c1")]}], **tables)


def test_what_was_refused_or_not_answered_changed_nothing_that_is_known() -> None:
    made = exchange(1, "DeleteTopics", 10, 10.1)
    refused = row("errors", connection=1, number=1, api="DeleteTopics", error="TOPIC_AUTHORIZATION_FAILED")
    assert found(exchanges=[made], connections=[connection(1)], errors=[refused]) == []
    assert len(found(exchanges=[made], connections=[connection(1)], errors=[refused | {"number": 2}])) == 1
    for unknown in ({"answered": None}, {"requested": None}):
        assert found(exchanges=[made | unknown], connections=[connection(1)]) == []


def test_what_brokers_hand_on_is_not_told_again() -> None:
    of_broker = [connection(1, B2, B1, "2"), connection(2, H1, B2)]
    assert found(exchanges=[exchange(1, "CreateTopics", 10, 10.1, client_id="2")], connections=of_broker) == []


def test_an_administrator_may_be_on_a_brokers_machine() -> None:
    here = [connection(1, B1, B1, "admin")]
    assert only(exchanges=[exchange(1, "CreateTopics", 10, 10.1, client_id="admin")], connections=here).about == (
        f"client admin ({B1})"
    )


def test_members_that_somebody_else_took_out() -> None:
    rows = [rebalance("removed_by_admin", 4, 20, trigger_client_id="c1"), rebalance("removed_by_admin", 5, 22)]
    one = only(rebalances=rows, connections=[connection(1)])
    assert (one.kind, one.severity, names(one)) == ("admin_action", "info", ["shop", "c1", H1])
    assert "an administrator took c1 out of group shop" in one.headline
    assert one.rebalances == {("shop", 4), ("shop", 5)}
    assert "took members out of" in only(rebalances=rows[1:]).headline


def test_a_group_that_changes_its_protocol() -> None:
    rows = [
        rebalance("member_joined", 4, 10),
        rebalance("protocol_changed", 5, 20, protocol="consumer", members=[member("c1")]),
        rebalance("member_joined", 6, 25, protocol="consumer"),
        rebalance("member_joined", 1, 30, "other"),
    ]
    one = only(rebalances=rows)
    assert (one.kind, one.severity, names(one)) == ("group_migrated", "info", ["shop", "c1"])
    assert one.headline.endswith(": classic → consumer")
    assert one.rebalances == {("shop", 5)}


def gone(client_id: str | None = "c1", first: float = 10.2, **given: Any) -> Row:
    known = {"topic": "orders", "client_id": client_id} | given
    return error("UNKNOWN_TOPIC_OR_PARTITION", "Fetch", first, first + 2, 20, **known)


DELETION = exchange(
    1, "DeleteTopics", 10, 10.1, client_id="admin", request='{"topics": [{"name": "orders", "topicId": null}]}'
)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([gone(), gone("c2", 11)], "40 errors of c1, c2 about orders, which they used, for 2.8 s"),
        ([gone(), gone("c2", 11, topic="pay")], "20 errors of c1 about orders, which they used, for 2.0 s"),
        ([gone(first=9.9)], None),  # before
        ([gone(first=10.1 + threshold("one_trouble"))], "20 errors of c1 about orders, which they used, for 2.0 s"),
        ([gone(first=10.2 + threshold("one_trouble"))], None),
        ([gone() | {"error": "NOT_LEADER_OR_FOLLOWER"}], None),
        ([gone(client_id=None)], None),
        ([gone("broker-2-fetcher-0")], None),
    ],
)
def test_a_topic_that_is_deleted_while_clients_use_it(rows: list[Row], text: str | None) -> None:
    polls = [finding("idle_polling", f"client {name} ({H1})", "t", 10, 80) for name in ("c1", "c9")]
    connections = [connection(1), connection(2, B2, client_id="broker-2-fetcher-0"), connection(3, broker=B2)]
    incidents = found(exchanges=[DELETION], error_histogram=rows, connections=connections, findings=polls)
    (one,) = [each for each in incidents if each.kind == "admin_action"]
    assert one.severity == "info"
    assert [effect.text for effect in one.effects] == [text] * (text is not None)
    assert one.findings == ({polls[0]["id"]} if text else set())
    assert ("whether it was meant" in one.advice) == (text is not None)


@pytest.mark.parametrize(
    ("clients", "also", "told"),
    [
        (["c1"], [], True),
        (["c1", "c9"], [], False),  # c9 was not told that the topic is gone
        (["c1"], [error("ILLEGAL_GENERATION", "OffsetCommit", 11, 11)], False),
        (["c1"], [error("ILLEGAL_GENERATION", "OffsetCommit", 90, 91)], True),
        (["c1"], [error("UNKNOWN_TOPIC_OR_PARTITION", "OffsetCommit", 11, 11, topic="orders")], True),
    ],
)
def test_commits_to_a_topic_that_is_deleted_are_refused(clients: list[str], also: list[Row], told: bool) -> None:
    refused = finding("commit_refused", "group shop", "t", 11, 12, client_ids=clients)
    tables = {"connections": [connection(1), connection(3, broker=B2)], "findings": [refused]}
    incidents = found(exchanges=[DELETION], error_histogram=[gone(), *also], **tables)
    (one,) = [each for each in incidents if each.kind == "admin_action"]
    assert (refused["id"] in one.findings) == told


@pytest.mark.parametrize(
    ("api", "request_", "told"),
    [
        ("CreateTopics", '{"topics": [{"name": "b"}], "validateOnly": true}', False),
        ("CreateTopics", '{"topics": [{"name": "b"}], "validateOnly": false}', True),
        ("IncrementalAlterConfigs", '{"resources": [], "validateOnly": true}', False),
        ("IncrementalAlterConfigs", '{"resources": [], "validateOnly": true, "more": "cu', False),
        ("DeleteRecords", '{"topics": [{"name": "orders"}]}', True),
    ],
)
def test_what_changes_nothing_is_no_change(api: str, request_: str, told: bool) -> None:
    asked = exchange(1, api, 10, 10.1, client_id="app-admin", request=request_)
    assert len(found(exchanges=[asked], connections=[connection(1, client_id="app-admin")])) == told
