"""Brokers that answer at addresses which nobody lists, known by what they do there."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafkascope.reports.columns.views import Known
from kafkascope.reports.views.clusters import ClustersView
from tests.reports.cluster.written_clusters import (
    CLUSTER,
    KEYS,
    coordinator,
    ends,
    events,
    facts,
    heard,
    metadata,
    partition,
    told,
)
from tests.reports.written_exchanges import Written

NAMES = {1: "k1.example", 2: "k2.example", 3: "k3.example"}
LED = {"orders": [partition(0, 1), partition(1, 2), partition(2, 3)]}
BY_NAME = metadata(1, LED, NAMES)


def produced(connection: int, number: int, error: int = 0) -> Written:
    """A batch written to a partition of orders, and the answer."""
    asked = {"acks": 1, "timeoutMs": 1000, "topicData": [{"name": "orders", "partitionData": [{"index": number}]}]}
    answer = {"responses": [{"name": "orders", "partitionResponses": [{"index": number, "errorCode": error}]}]}
    return Written(KEYS["Produce"], 9, asked, answer, connection=connection)


def fetched(connection: int, number: int, rack: str = "") -> Written:
    """A fetch of a partition of orders, and the answer."""
    asked = {"rackId": rack, "topics": [{"topic": "orders", "partitions": [{"partition": number}]}]}
    answer = {"responses": [{"topic": "orders", "partitions": [{"partitionIndex": number, "records": None}]}]}
    return Written(KEYS["Fetch"], 12, asked, answer, connection=connection)


def found(*written: Written, **more: Any) -> list[tuple[Any, ...]]:
    """Node id, address and reason of each broker that was found."""
    rows = [row for row in events(*written, **more) if row["event"] == "broker_found"]
    return told(rows, "node_id", "host", "detail")


def test_who_leads_a_partition_is_the_broker_that_was_told_to() -> None:
    assert found(BY_NAME, produced(2, 1), produced(2, 1), fetched(3, 2)) == [
        (2, "10.0.0.2:9092", "leads orders-1"),
        (3, "10.0.0.3:9092", "leads orders-2"),
    ]
    (row,) = (row for row in events(BY_NAME, produced(2, 1)) if row["event"] == "broker_found")
    assert (row["cluster_id"], row["told_by"], row["connection"], row["packet"]) == (CLUSTER, "10.0.0.2:9092", 2, 4)


def test_who_coordinates_a_group_is_the_broker_that_was_told_to() -> None:
    assert found(BY_NAME, coordinator(1, "shop", 3, brokers=NAMES), heard(3, "shop")) == [
        (3, "10.0.0.3:9092", "coordinates group shop")
    ]
    assert found(BY_NAME, coordinator(1, "shop", 3, version=4, brokers=NAMES), heard(2, "other")) == []


def test_what_was_refused_tells_nothing() -> None:
    not_leader, not_coordinator = 6, 16
    refused = [produced(2, 1, not_leader), heard(3, "shop", not_coordinator)]
    assert found(BY_NAME, coordinator(1, "shop", 3, brokers=NAMES), *refused) == []


def test_a_client_that_says_where_it_is_may_read_from_a_follower() -> None:
    assert found(BY_NAME, fetched(2, 2, "rack-a")) == []
    assert found(BY_NAME, fetched(2, 2, "rack-a"), produced(2, 1)) == [(2, "10.0.0.2:9092", "leads orders-1")]


def test_the_cluster_may_be_told_of_later() -> None:
    assert found(produced(2, 1), BY_NAME) == [(2, "10.0.0.2:9092", "leads orders-1")]


def test_what_is_told_later_counts_as_long_as_a_partition_stays_where_it_is() -> None:
    """Who leads it in the end may not have done so at first: of that a capture of one broker may tell nothing."""
    assert found(produced(2, 2), produced(3, 2), BY_NAME) == []
    listing = metadata(1, {"orders": [partition(2, 3), partition(3, 3)]}, NAMES)
    moved = [produced(2, 2), produced(3, 2), listing, produced(3, 3)]
    assert found(*moved) == [(3, "10.0.0.3:9092", "leads orders-3")]


def test_a_leader_that_has_moved_is_told_by_the_rest() -> None:
    listing = metadata(1, {"orders": [*(partition(number, 2) for number in range(4)), partition(4, 3)]}, NAMES)
    rest = [produced(2, number) for number in range(4)]
    assert found(listing, produced(2, 4), *rest[:3]) == [(2, "10.0.0.2:9092", "leads orders-0")]
    assert found(listing, produced(2, 4), *rest[:2]) == []


def test_of_a_connection_only_the_first_things_count() -> None:
    rows = facts([BY_NAME, *(produced(2, number) for number in range(9))]).to_pylist()
    assert [row["partition"] for row in rows if row["kind"] == "leads"] == [0, 1, 2, 3]


def test_brokers_at_addresses_that_a_list_has_are_known() -> None:
    assert found(metadata(1, LED), produced(2, 1), produced(3, 1)) == []
    view = ClustersView()
    facts([metadata(1, LED)], view=view)
    rows = facts([produced(2, 1), produced(8, 1)], view=view).to_pylist()
    assert {row["broker"] for row in rows if row["connection"]} == {"10.0.0.8:9092"}


def test_what_a_listed_broker_did_makes_no_difference() -> None:
    """As behind another listener of it: a task that has seen the list does not ask, one that has not tells it."""
    tasks = [facts([produced(8, 1)]), facts([produced(1, 0), metadata(1, LED)])]
    for rows in (tasks, [*tasks, facts([produced(2, 1)])]):
        made = ClustersView().result(pa.concat_tables(rows), Known({}))["cluster_events"].to_pylist()
        shown = [(row["node_id"], row["host"], row["detail"]) for row in made if row["event"] == "broker_found"]
        assert shown == [(2, "10.0.0.8:9092", "leads orders-1")]


def test_of_what_one_answer_shows_the_first_is_told() -> None:
    answer = {
        "responses": [
            {
                "topic": "orders",
                "partitions": [{"partitionIndex": number, "records": None} for number in range(9, 3, -1)],
            }
        ]
    }
    asked = {"topics": [{"topic": "orders", "partitions": [{"partition": number} for number in range(9, 3, -1)]}]}
    rows = facts([BY_NAME, Written(KEYS["Fetch"], 12, asked, answer, connection=2)]).to_pylist()
    assert [row["partition"] for row in rows if row["kind"] == "leads"] == [9, 8, 7, 6]


def test_addresses_that_are_translated_on_the_way_are_no_obstacle() -> None:
    of = ends("10.0.0.1", "172.18.0.3:31002")
    assert found(metadata(1, LED), produced(2, 1), of=of) == [(2, "172.18.0.3:31002", "leads orders-1")]
