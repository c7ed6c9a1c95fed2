"""Each event, out of exchanges that tell it, and what is no event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkascope.reports.cluster import history
from kafkascope.reports.columns.clusters import Clusters
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.columns.views import Known
from kafkascope.reports.views.clusters import ClustersView
from tests.reports.cluster.written_clusters import (
    BROKERS,
    CLUSTER,
    KEYS,
    asked_by_name,
    coordinator,
    ends,
    events,
    facts,
    heard,
    heartbeat,
    metadata,
    partition,
    quiet,
    told,
)
from tests.reports.written_exchanges import Written

ALL_LED = [partition(0, 1), partition(1, 2), partition(2, 2)]


def test_what_is_known_at_first_is_the_map_alone() -> None:
    found = events(metadata(1, {"orders": ALL_LED}), metadata(2, {"orders": ALL_LED}), mapped=True)
    assert told(found, "event", "node_id", "host", "told_by", "second") == [
        ("broker_listed", node_id, f"{host}:9092", "10.0.0.1:9092", 0) for node_id, host in BROKERS.items()
    ]
    assert {row["cluster_id"] for row in found} == {CLUSTER}
    assert {row["packet"] for row in found} == {2}


def test_brokers_go_and_come_back_though_a_cache_lags() -> None:
    two = {1: "10.0.0.1", 3: "10.0.0.3"}
    found = events(
        metadata(1),
        metadata(3),
        metadata(1, brokers=two),
        metadata(2),  # k2 itself has not heard that it is out
        metadata(3, brokers=two),
        *quiet(2),
        metadata(3),
        metadata(1),
    )
    assert told(found, "event", "node_id", "host", "told_by", "second") == [
        ("broker_unlisted", 2, "10.0.0.2:9092", "10.0.0.1:9092", 2),
        ("broker_back", 2, "10.0.0.2:9092", "10.0.0.3:9092", 7),
    ]


def test_a_broker_moves_to_another_address() -> None:
    (found,) = events(metadata(1), metadata(1, brokers=BROKERS | {2: "10.0.0.22"}), metadata(3))
    assert (found["event"], found["node_id"], found["before"], found["after"], found["host"]) == (
        "broker_moved",
        2,
        "10.0.0.2:9092",
        "10.0.0.22:9092",
        "10.0.0.22:9092",
    )


def test_listeners_have_addresses_of_their_own() -> None:
    inside = {node_id: f"{host}:9094" for node_id, host in BROKERS.items()}
    of = ends("10.0.0.1", "10.0.0.1:9094", "10.0.0.2", "10.0.0.2:9094")
    said = [metadata(1), metadata(2, brokers=inside), metadata(3), metadata(4, brokers=inside)]
    found = events(*said, of=of, mapped=True)
    assert [row["event"] for row in found] == ["broker_listed"] * 6
    found = events(*said, metadata(2, brokers={1: "10.0.0.1:9094", 3: "10.0.0.3:9094"}), of=of)
    assert told(found, "event", "host") == [("broker_unlisted", "10.0.0.2:9094")]


def test_two_clusters_do_not_mix() -> None:
    other = {1: "10.9.0.1", 2: "10.9.0.2"}
    of = ends("10.0.0.1", "10.9.0.1")
    first, second = {"orders": [partition(0, 1, 3)]}, {"orders": [partition(0, 2, 7, [2])]}
    said = [metadata(1, first), metadata(2, second, other, clusterId="other"), metadata(1, first)]
    assert events(*said, of=of) == []
    moved = metadata(2, {"orders": [partition(0, 1, 8, [2])]}, other, clusterId="other")
    found = events(*said, moved, of=of)
    assert told(found, "event", "cluster_id", "before", "after") == [("leader_changed", "other", "2", "1")]


def test_a_broker_of_another_cluster_has_the_address_of_one_that_is_gone() -> None:
    """Answers that do not tell their cluster are of the one that had the address then."""
    of = ends("10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2")
    other = metadata(2, brokers={7: "10.0.0.1"}, clusterId="other")
    said = [coordinator(3, "shop", 1), metadata(1), other, coordinator(3, "shop", 7), coordinator(4, "shop", 2)]
    found = events(*said, of=of)
    columns = ("event", "cluster_id", "node_id", "host", "before", "after", "detail", "second")
    assert told(found, *columns) == [
        ("address_taken", CLUSTER, 7, "10.0.0.1:9092", "1", "7", "of cluster other", 2),
        ("coordinator_moved", CLUSTER, 2, "10.0.0.2:9092", "1", "2", "of a group", 4),
    ]


def test_who_is_behind_one_address_at_once_took_it_from_nobody() -> None:
    """As behind a proxy that tells clusters apart by the name that a client asks for."""
    of = ends("10.0.0.1", "10.0.0.1", "10.0.0.1")
    said = [metadata(1), metadata(2, brokers={7: "10.0.0.1"}, clusterId="other"), metadata(3)]
    assert events(*said, of=of) == []


def test_a_broker_has_the_address_of_another_one_of_its_cluster() -> None:
    (found,) = events(metadata(1), metadata(1, brokers={1: "10.0.0.1", 4: "10.0.0.2", 3: "10.0.0.3"}))[:1]
    assert told([found], "event", "node_id", "host", "before", "after", "detail") == [
        ("address_taken", 4, "10.0.0.2:9092", "2", "4", None)
    ]
    at_one_place = dict.fromkeys((1, 2), "10.0.0.1")
    assert events(metadata(1, brokers={1: "10.0.0.1"}), metadata(1, brokers=at_one_place)) == []


def test_clients_that_ask_by_name_learn_who_answers() -> None:
    """KIP-1242: the map; who is not the one that was asked for, once; and that it is again."""
    said = [asked_by_name(1), asked_by_name(2, 2, 129), asked_by_name(2, 2, 129), asked_by_name(2, 2)]
    found = events(*said, asked_by_name(2, 2, 129), mapped=True)
    columns = ("event", "cluster_id", "node_id", "host", "before", "after", "second")
    assert told(found, *columns) == [
        ("broker_listed", CLUSTER, 1, "10.0.0.1:9092", None, None, 0),
        ("address_taken", CLUSTER, None, "10.0.0.2:9092", "2", None, 1),
        ("broker_back", CLUSTER, 2, "10.0.0.2:9092", None, None, 3),
        ("broker_listed", CLUSTER, 2, "10.0.0.2:9092", None, None, 3),
        ("address_taken", CLUSTER, None, "10.0.0.2:9092", "2", None, 4),
    ]


@pytest.mark.parametrize(
    "said", [asked_by_name(1, cluster=None), asked_by_name(1, -1), asked_by_name(1, error=35), asked_by_name(1, 1, 29)]
)
def test_who_does_not_ask_by_name_or_is_not_answered_learns_nothing(said: Written) -> None:
    assert events(said, mapped=True) == []


def test_the_view_learns_which_broker_is_of_which_cluster() -> None:
    view, names = ClustersView(), TopicNames()
    of = ends("10.0.0.1", "10.0.0.2:19092", "10.9.0.1", "10.0.0.5", "10.0.0.6")
    other = metadata(3, brokers={1: "10.9.0.1", 2: "10.9.0.2"}, clusterId="other")
    facts([metadata(1), metadata(2), other, asked_by_name(4, 5), asked_by_name(5, 6, 129)], of, view)
    view.tell_clusters(names.of_clusters)
    assert names.of_clusters.of_broker == {
        **dict.fromkeys([f"10.0.0.{number}:9092" for number in (1, 2, 3, 5)], CLUSTER),
        "10.0.0.2:19092": CLUSTER,  # by another address than it is listed at
        "10.9.0.1:9092": "other",
        "10.9.0.2:9092": "other",
    }
    taken = metadata(2, brokers={7: "10.0.0.1"}, clusterId="other")
    facts([metadata(1, brokers={1: "10.0.0.1"}), taken], ends("10.0.0.1", "10.0.0.1"), view)
    view.tell_clusters(names.of_clusters)
    assert "10.0.0.1:9092" not in names.of_clusters.of_broker


def test_groups_of_another_cluster_are_called_as_elsewhere() -> None:
    of = ends("10.0.0.1", "10.9.0.1")
    other = {7: "10.9.0.1", 8: "10.9.0.2"}
    said = [
        metadata(1),
        metadata(2, brokers=other, clusterId="other"),
        *(coordinator(connection, "shop", node) for connection, node in ((1, 1), (2, 7))),
        *quiet(11),
        *(coordinator(connection, "shop", node) for connection, node in ((1, 2), (2, 8))),
    ]
    known = Clusters.of({"10.0.0.1:9092": CLUSTER, "10.0.0.2:9092": CLUSTER, "10.9.0.1:9092": "other"})
    found = ClustersView().result(facts(said, of), Known(clusters=known))["cluster_events"].to_pylist()
    moved = [row["group_id"] for row in found if row["event"] == "coordinator_moved"]
    assert moved == ["shop", "shop@other"]


def test_brokers_that_are_listed_by_name_are_of_the_cluster_that_their_clients_know() -> None:
    view, names = ClustersView(), TopicNames()
    told = [
        metadata(1, brokers={1: "k1.example"}),
        metadata(2, brokers={1: "k1.other"}, clusterId="other"),
        heard(3, "shop"),
        heard(4, "shop"),
        heard(5, "shop"),
    ]
    clients = ("10.0.1.1", "10.0.1.2", "10.0.1.1", "10.0.1.2", "10.0.1.3")
    of = {place: replace(end, client=clients[place - 1]) for place, end in list(ends().items())[:5]}
    facts(told, of, view)
    view.tell_clusters(names.of_clusters)
    assert {broker: cluster for broker, cluster in names.of_clusters.of_broker.items() if broker.startswith("10.")} == {
        "10.0.0.1:9092": CLUSTER,
        "10.0.0.2:9092": "other",
        "10.0.0.3:9092": CLUSTER,
        "10.0.0.4:9092": "other",
    }
    assert TopicNames(names.learned()).of_clusters.of_broker == names.of_clusters.of_broker
    facts([heard(6, "shop")], {6: replace(ends()[4], client="10.0.1.1")}, view)  # of both clusters one after the other
    view.tell_clusters(names.of_clusters)
    assert "10.0.0.4:9092" not in names.of_clusters.of_broker


def test_partitions_that_move_together_are_one_event() -> None:
    moved = {"orders": [partition(0, 1), partition(1, 3, 1), partition(2, 3, 1)], "pay": [partition(0, 1, 4)]}
    found = events(metadata(1, {"orders": ALL_LED, "pay": [partition(0, 2, 3)]}), metadata(3, moved))
    columns = ("event", "node_id", "host", "topic", "partition", "partitions", "count", "before", "after")
    assert told(found, *columns, "leader_epoch") == [
        (
            "leader_changed",
            3,
            "10.0.0.3:9092",
            "orders",
            None,
            ["orders-1", "orders-2"],
            2,
            "2",
            "3",
            1,
        ),
        ("leader_changed", 1, "10.0.0.1:9092", "pay", 0, ["pay-0"], 1, "2", "1", 4),
    ]


def test_of_very_many_partitions_some_are_named_and_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_NAMED", 3)
    before = {f"t{topic}": [partition(number, 1) for number in range(4)] for topic in range(2)}
    after = {f"t{topic}": [partition(number, 2, 1 + topic) for number in range(4)] for topic in range(2)}
    (found,) = events(metadata(1, before), metadata(1, after))
    assert (found["count"], found["partitions"]) == (8, ["t0-0", "t0-1", "t0-2"])
    assert (found["topic"], found["leader_epoch"]) == (None, None)


def test_an_older_leader_epoch_is_no_news_however_late_it_is_told() -> None:
    old, new = {"orders": [partition(0, 2, 4)]}, {"orders": [partition(0, 3, 5)]}
    found = events(metadata(1, old), metadata(1, new), *quiet(30), metadata(2, old), metadata(1, new), metadata(2, new))
    assert told(found, "event", "before", "after", "second") == [("leader_changed", "2", "3", 1)]


def test_without_epochs_a_change_is_claimed_once() -> None:
    old, new = {"orders": [partition(0, 2)]}, {"orders": [partition(0, 3)]}
    said = [metadata(1, old, version=4), metadata(2, old, version=4), metadata(1, new, version=4)]
    found = events(*said, metadata(2, old, version=4), metadata(3, old, version=4), metadata(2, new, version=4))
    assert told(found, "event", "before", "after", "second", "leader_epoch") == [("leader_changed", "2", "3", 2, None)]


@pytest.mark.parametrize("epoch", [4, 5])  # a broker tells of no leader before one is elected, and afterwards
def test_a_leader_is_lost_and_another_elected(epoch: int) -> None:
    none = {"orders": [partition(0, -1, epoch, [2], error=5)]}
    elected = {"orders": [partition(0, 2, 6, [2])]}
    found = events(metadata(1, {"orders": [partition(0, 2, 4, [2])]}), metadata(1, none), metadata(1, elected))
    assert told(found, "event", "node_id", "before", "after") == [
        ("leader_lost", 2, "2", None),
        ("leader_elected", 2, "2", "2"),
    ]


def test_a_partition_that_nobody_led_before_has_lost_no_leader() -> None:
    none = {"orders": [partition(0, -1, -1, [], error=5)]}
    assert events(metadata(1, none), metadata(1, {"orders": [partition(0, 2, 0)]})) == []


@pytest.mark.parametrize(("isr", "led"), [([2], "2"), ([], None)])  # none with KIP-966
def test_a_broker_that_was_gone_before_is_missed_with_what_it_led(isr: list[int], led: str | None) -> None:
    two = {1: "10.0.0.1", 3: "10.0.0.3"}
    states = {"orders": [partition(0, -1, 4, isr, 5, [2]), partition(1, 1, 4, [1, 3], 0, [2])]}
    back = {"orders": [partition(0, 2, 5, [2]), partition(1, 1, 4, [1, 3])]}
    found = events(metadata(1, states, two), metadata(3, states, two), metadata(1, back))
    assert told(found, "event", "node_id", "partitions", "before", "second") == [
        ("broker_missing", 2, ["orders-0", "orders-1"], None, 0),
        ("leader_missing", None if led is None else 2, ["orders-0"], led, 0),
        ("leader_elected", 2, ["orders-0"], led, 2),
    ]


def test_who_was_listed_before_is_not_missed_but_taken_off_the_list() -> None:
    two = {1: "10.0.0.1", 3: "10.0.0.3"}
    states = {"orders": [partition(0, 1, 4, [1, 3], 0, [2])]}
    found = events(metadata(1, {"orders": [partition(0, 1, 4, [1, 3])]}), metadata(1, states, two))
    assert [row["event"] for row in found] == ["broker_unlisted"]


def test_replicas_of_a_broker_that_is_there_are_offline_with_its_log_directory() -> None:
    failed = {"orders": [partition(0, 1, 4, offline=[2]), partition(1, 1, 4, offline=[2])]}
    well = {"orders": [partition(0, 1, 4), partition(1, 1, 4)]}
    found = events(metadata(1, well), metadata(1, failed), metadata(3, well), metadata(3, failed), metadata(1, failed))
    assert told(found, "event", "node_id", "host", "partitions", "second") == [
        ("replica_offline", 2, "10.0.0.2:9092", ["orders-0", "orders-1"], 1)
    ]


def test_a_leader_without_an_address_for_this_client_is_not_lost() -> None:
    no_listener = {"orders": [partition(0, -1, 4, error=72)]}
    assert events(metadata(1, {"orders": [partition(0, 2, 4)]}), metadata(1, no_listener)) == []


def test_in_sync_replicas_shrink_and_grow_and_their_order_means_nothing() -> None:
    states = [[1, 2, 3], [3, 2, 1], [1, 3], [1, 2, 3]]
    found = events(*(metadata(1, {"orders": [partition(0, 1, 0, isr)]}) for isr in states))
    assert told(found, "event", "before", "after", "second") == [
        ("isr_shrunk", "1,2,3", "1,3", 2),
        ("isr_grown", "1,3", "1,2,3", 3),
    ]


def test_the_controller_says_which_replicas_are_in_sync_as_well() -> None:
    of_topic = "22W70tp4RECy6WZSnHtH1Q"
    changed = {"partitionIndex": 0, "leaderId": 1, "leaderEpoch": 0, "isr": [1, 2]}
    altered = {"topics": [{"topicId": of_topic, "partitions": [changed]}]}
    found = events(
        metadata(1, {"orders": [partition(0, 1)]}, version=12, ids={"orders": of_topic}),
        Written(KEYS["AlterPartition"], 2, {}, altered, connection=9),
        metadata(1, {"orders": [partition(0, 1, 0, [1, 2])]}, version=12, ids={"orders": of_topic}),
        names={of_topic: "orders"},
    )
    assert [row["event"] for row in found] == ["isr_shrunk"]
    assert found[0]["told_by"] == "10.0.0.9:9092"


def test_a_topic_made_anew_has_epochs_of_its_own() -> None:
    old, new = "22W70tp4RECy6WZSnHtH1Q", "BX71zevPTOGqC2ZTARwrsA"
    found = events(
        metadata(1, {"orders": [partition(0, 1, 7)]}, version=12, ids={"orders": old}),
        metadata(1, {"orders": [partition(0, 2, 0)]}, version=12, ids={"orders": new}),
        metadata(2, {"orders": [partition(0, 1, 7)]}, version=12, ids={"orders": old}),
        metadata(1, {"orders": [partition(0, 3, 1)]}, version=12, ids={"orders": new}),
    )
    assert told(found, "event", "topic", "second") == [("topic_deleted", "orders", 1), ("leader_changed", "orders", 3)]


def test_a_deletion_is_told_once() -> None:
    state = {"topicName": "orders", "partitionStates": [{"partitionIndex": 0, "leader": -2, "isr": []}]}
    update = {"controllerId": 1, "controllerEpoch": 1, "topicStates": [state]}
    found = events(
        Written(KEYS["DeleteTopics"], 4, {}, {"responses": [{"name": "orders"}, {"name": "no", "errorCode": 3}]}),
        Written(KEYS["UpdateMetadata"], 6, update, {}),
    )
    assert told(found, "event", "topic") == [("topic_deleted", "orders")]


def test_an_orderly_restart_of_a_broker() -> None:
    registration = {"brokerId": 2, "clusterId": CLUSTER, "listeners": [{"host": "10.0.0.2", "port": 9092}]}
    found = events(
        heartbeat(),
        heartbeat(stop=True),
        heartbeat(stop=True),
        heartbeat(stop=True, fenced=True),
        Written(KEYS["BrokerRegistration"], 0, registration, {"errorCode": 101, "brokerEpoch": -1}, connection=9),
        Written(KEYS["BrokerRegistration"], 0, registration, {"brokerEpoch": 9}, connection=9),
        heartbeat(5),  # of the process before, if it comes late
        heartbeat(9, fenced=True),
        heartbeat(9),
    )
    assert told(found, "event", "node_id", "told_by", "second") == [
        ("shutdown_announced", 2, "10.0.1.9", 1),
        ("broker_fenced", 2, "10.0.0.9:9092", 3),
        ("broker_registered", 2, "10.0.0.9:9092", 5),
        ("broker_unfenced", 2, "10.0.0.9:9092", 8),
    ]


def test_log_directories_that_fail_are_told_once_by_each_process() -> None:
    first, second = "B2nxwBeaxdW4anRC1s_9wA", "qAHA7pTm5A29vRQTA2z4Eg"
    found = events(
        heartbeat(),
        heartbeat(failed=[second]),
        heartbeat(failed=[second]),
        heartbeat(failed=[second, first]),
        heartbeat(9, failed=[first]),
    )
    assert told(found, "event", "node_id", "detail", "second") == [
        ("log_dirs_offline", 2, second, 1),
        ("log_dirs_offline", 2, f"{first} {second}", 3),
        ("log_dirs_offline", 2, first, 4),
    ]


def test_a_shutdown_that_is_asked_for_again_is_announced_once() -> None:
    asked = Written(KEYS["ControlledShutdown"], 3, {"brokerId": 2, "brokerEpoch": 46}, {}, client_id="2")
    later = Written(KEYS["ControlledShutdown"], 3, {"brokerId": 2, "brokerEpoch": 99}, {}, client_id="2")
    old = [Written(KEYS["ControlledShutdown"], 1, {"brokerId": 3}, {}, client_id="3")] * 2
    found = events(asked, asked, later, *old)
    assert told(found, "event", "node_id", "second") == [
        ("shutdown_announced", 2, 0),
        ("shutdown_announced", 2, 2),
        ("shutdown_announced", 3, 3),
    ]


def test_coordinators_move() -> None:
    found = events(
        coordinator(1, "shop", 2),
        coordinator(3, "shop", 2, version=4),
        coordinator(1, "shop", 3, version=4),
        coordinator(3, "shop", 2, version=4),
        coordinator(3, "shop", 3, version=4),
        coordinator(1, "shop", 1, key_type=1),
        coordinator(1, "shop", 3, key_type=1),
    )
    assert told(found, "event", "group_id", "node_id", "before", "after", "detail", "second") == [
        ("coordinator_moved", "shop", 3, "2", "3", "of a group", 2),
        ("coordinator_moved", "shop", 3, "1", "3", "of a transactional id", 6),
    ]


def test_who_coordinates_is_on_the_map() -> None:
    found = events(coordinator(1, "shop", 2), coordinator(1, "shop", 2), mapped=True)
    assert told(found, "event", "node_id", "host") == [("broker_listed", 2, "10.0.0.2:9092")]


def test_the_controller_changes_with_a_higher_epoch_and_not_by_what_metadata_says() -> None:
    def began(leader: int, epoch: int) -> Written:
        one = {"leaderId": leader, "leaderEpoch": epoch}
        asked = {"clusterId": CLUSTER, "topics": [{"topicName": "__cluster_metadata", "partitions": [one]}]}
        return Written(KEYS["BeginQuorumEpoch"], 0, asked, {"topics": []}, client_id="raft")

    said = [metadata(1), metadata(1, controllerId=2), metadata(1, controllerId=3)]
    found = events(began(1, 4), *said, began(3, 5), began(1, 4), began(3, 6))
    assert told(found, "event", "before", "after", "leader_epoch", "second") == [("controller_changed", "1", "3", 5, 4)]


def test_the_controller_of_zookeeper_mode_tells_leaders() -> None:
    def sent(controller: int, epoch: int, leader: int, leader_epoch: int, version: int) -> Written:
        one = {"topicName": "orders", "partitionIndex": 0, "leader": leader, "leaderEpoch": leader_epoch, "isr": [1, 2]}
        states = {"topicStates": [{"topicName": "orders", "partitionStates": [one]}], "ungroupedPartitionStates": [one]}
        asked = {"controllerId": controller, "controllerEpoch": epoch}
        return Written(KEYS["LeaderAndIsr"], version, asked | states, {}, connection=3)

    found = events(sent(1, 1, 1, 0, 1), sent(2, 2, 2, 1, 5))
    assert told(found, "event", "before", "after", "leader_epoch", "told_by") == [
        ("controller_changed", "1", "2", 2, "10.0.1.3"),
        ("leader_changed", "1", "2", 1, "10.0.1.3"),
    ]


def test_describing_tells_as_much_as_metadata() -> None:
    def described(*node_ids: int) -> Written:
        brokers = [{"brokerId": node_id, "host": BROKERS[node_id], "port": 9092} for node_id in node_ids]
        fenced = [{"brokerId": 7, "host": "10.0.0.7", "port": 9092, "isFenced": True}]
        answer = {"clusterId": CLUSTER, "brokers": brokers + fenced, "endpointType": 1}
        return Written(KEYS["DescribeCluster"], 2, {}, answer)

    def topic(leader: int, epoch: int) -> Written:
        answer = {"topics": [{"name": "orders", "partitions": [partition(0, leader, epoch)]}]}
        return Written(KEYS["DescribeTopicPartitions"], 0, {}, answer)

    found = events(described(1, 2, 3), topic(2, 0), described(1, 3), topic(3, 1))
    assert told(found, "event", "node_id", "second") == [("broker_unlisted", 2, 2), ("leader_changed", 3, 3)]
