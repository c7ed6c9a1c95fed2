"""Partitions that are added to a topic, and of which a group does not read the beginning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.reports.incidents.tables_of import (
    H1,
    H2,
    Row,
    connection,
    exchange,
    found,
    member,
    names,
    only,
    partition,
    rebalance,
    seconds,
)


def generation(number: int, started: float, partitions: int, **given: Any) -> Row:
    """A rebalance of c1, which has so many partitions of orders."""
    assignment = [f"orders-{one}" for one in range(partitions)]
    return rebalance("member_joined", number, started, members=[member("c1") | {"assignment": assignment}], **given)


def told(time: float, committed: dict[int, int], topic: str = "orders", **given: Any) -> Row:
    """An answer that tells what is committed."""
    partitions = [{"partitionIndex": number, "committedOffset": offset} for number, offset in committed.items()]
    body = {"groups": [{"groupId": "shop", "topics": [{"name": topic, "partitions": partitions}]}]}
    return exchange(int(time), "OffsetFetch", time, time + 0.1, response=json.dumps(body), **given)


def reads(time: float, number: int, offset: int, begins: int | None = 0, **given: Any) -> Row:
    return partition("Fetch", time, partition=number, fetch_offset=offset, log_start_offset=begins, **given)


BEFORE, AFTER = generation(1, 10, 2), generation(2, 50, 4)
TOLD = told(51, {0: 90, 1: 80, 2: -1, 3: -1})
READS = [reads(52, 0, 90), reads(52, 2, 25), reads(53, 2, 30), reads(52.5, 3, 30, 10), reads(55, 3, 30, 10)]
TABLES: dict[str, list[Row]] = {
    "rebalances": [BEFORE, AFTER],
    "exchanges": [TOLD],
    "partitions": READS,
    "connections": [connection(1)],
}


def test_partitions_whose_first_records_were_written_before_the_group_found_them() -> None:
    one = only(**TABLES)
    assert (one.kind, one.severity, one.certainty) == ("offsets_lost", "critical", "likely")
    assert names(one) == ["shop", "orders", "c1", H1]
    assert (seconds(one.started), seconds(one.ended)) == (50, 52)
    assert one.headline.startswith("group shop began orders 2-3, which were new to it, behind their first records at ")
    assert one.headline.endswith("; 45 records that had been written there before are not read")
    assert [seen.text for seen in one.evidence] == [
        "orders-2: the group's first fetch asks for offset 25, and the log begins at 0",
        "orders-3: the group's first fetch asks for offset 30, and the log begins at 10",
    ]
    assert one.rebalances == {("shop", 2)}


@pytest.mark.parametrize(
    "changed",
    [
        {"partitions": [reads(52, 2, 0), reads(60, 2, 25), reads(52, 3, 10, 10)]},  # it begins where they do
        {"partitions": [reads(45, 2, 25)]},  # before that
        {"partitions": [reads(52, 2, 25, connection=2)]},  # somebody else
        {"partitions": [reads(52, 2, 25, topic="other")]},
        {"partitions": [reads(52, 2, 25) | {"api": "Produce"}]},
        {"exchanges": [told(51, {0: 90, 2: 25, 3: 30})]},  # somebody had committed there
        {"exchanges": [told(51, {0: 90, 2: 25, 3: 30}), told(55, {2: -1, 3: -1})]},
        {"exchanges": [told(45, {0: 90, 2: -1})]},  # it was told before
        {"exchanges": [told(51, {0: -1, 2: -1})]},  # it never commits: who knows how far it was
        {"exchanges": [told(51, {0: 90, 2: -1}, topic="other")]},
        {"exchanges": [TOLD | {"response": TOLD["response"][:-9]}]},  # cut
        {"exchanges": [TOLD | {"response": None}]},
        {"exchanges": [TOLD | {"response": '{"groups": [7]}'}]},
        {"rebalances": [AFTER]},  # it may have had them before
        {"rebalances": [generation(1, 10, 4), generation(2, 30, 2), AFTER]},  # it had had them
        {"rebalances": [one | {"protocol": "streams"} for one in (BEFORE, AFTER)]},
        {"rebalances": [BEFORE, AFTER | {"members": [member("c1")]}]},
        {"connections": [connection(1, H2)]},
    ],
)
def test_where_nothing_is_passed_over_or_nobody_knows(changed: dict[str, list[Row]]) -> None:
    assert found(**TABLES | changed) == []


def test_commits_that_come_later_change_nothing() -> None:
    later = told(70, {0: 95, 1: 85, 2: 40, 3: 44})
    assert only(**TABLES | {"exchanges": [later, TOLD]}).kind == "offsets_lost"


def test_answers_of_old_versions_have_no_groups() -> None:
    body = {"topics": json.loads(TOLD["response"])["groups"][0]["topics"]}
    assert only(**TABLES | {"exchanges": [TOLD | {"response": json.dumps(body)}]}).kind == "offsets_lost"


def with_ids(response: str) -> str:
    """The same answer as version 10 has it."""
    body = json.loads(response)
    for topic in body["groups"][0]["topics"]:
        topic["topicId"] = f"id-of-{topic.pop('name')}"
    return json.dumps(body)


def metadata(time: float, *topics: Row, **given: Any) -> Row:
    return exchange(int(time), "Metadata", time, time + 0.1, response=json.dumps({"topics": topics}), **given)


ORDERS, OTHER = ({"name": name, "topicId": f"id-of-{name}"} for name in ("orders", "other"))


def test_answers_with_ids_of_topics_are_read_by_what_metadata_tell_of_them() -> None:
    by_id = TOLD | {"response": with_ids(TOLD["response"])}
    one = only(**TABLES | {"exchanges": [metadata(1, OTHER, ORDERS), metadata(9, OTHER), by_id]})
    assert one.headline.endswith("; 45 records that had been written there before are not read")


@pytest.mark.parametrize(
    ("topic", "metadatas"),
    [
        ("other", [metadata(1, OTHER, ORDERS)]),
        ("orders", []),  # nobody asked in the capture
        ("orders", [metadata(1, OTHER)]),
        ("orders", [metadata(1, ORDERS, connection=2)]),  # of another cluster, it may be
        ("orders", [metadata(1, ORDERS) | {"response": '{"topics": [{"name": "orders", "topicId": "id'}]),
        ("orders", [metadata(1, {"name": "orders"})]),  # before version 10
    ],
)
def test_ids_that_nothing_tells_of_or_of_others(topic: str, metadatas: list[Row]) -> None:
    answer = told(51, {0: 90, 1: 80, 2: -1, 3: -1}, topic=topic)
    by_id = answer | {"response": with_ids(answer["response"])}
    assert found(**TABLES | {"exchanges": [*metadatas, by_id]}) == []
