"""Groups of one name in several clusters."""

from __future__ import annotations

from kafkascope.reports.columns.clusters import ONE_CLUSTER, Clusters
from kafkascope.reports.groups.by_cluster import analyze_groups
from tests.reports.groups.group_logs import Conversation

ONE, OTHER, UNTOLD = "10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.3:9092"


def told(*brokers: str, clusters: Clusters) -> list[tuple[str, list[str], int]]:
    """Of a client that asks for the group at each of the brokers: groups, whose answers they have, and their events."""
    talk = Conversation()
    for at, broker in enumerate(brokers):
        described = {"groups": [{"groupId": "g", "groupState": "Empty", "members": []}]}
        talk.say(10 * at, "DescribeGroups", f"c{at}", {"groups": ["g"]}, described, broker=broker)
    found = []
    for log, history in analyze_groups(talk.log(), clusters):
        assert {event.group_id for event in history.events} == {log.group_id}
        found.append((log.group_id, [message.broker for message in log.messages], len(history.events)))
    return found


def test_each_cluster_has_a_group_of_its_own() -> None:
    clusters = Clusters.of({ONE: "x", OTHER: "y", "10.0.0.9:9092": "x"})
    assert told(OTHER, ONE, OTHER, clusters=clusters) == [("g@y", [OTHER, OTHER], 2), ("g", [ONE], 1)]
    assert told(OTHER, clusters=clusters) == [("g@y", [OTHER], 1)]


def test_brokers_of_whom_nobody_told_the_cluster_are_of_the_first() -> None:
    clusters = Clusters.of({ONE: "x", OTHER: "y"})
    assert told(UNTOLD, OTHER, ONE, clusters=clusters) == [("g@y", [UNTOLD, OTHER], 2), ("g", [ONE], 1)]
    assert told(UNTOLD, clusters=clusters) == [("g", [UNTOLD], 1)]


def test_in_one_cluster_all_is_one_group() -> None:
    assert told(ONE, OTHER, clusters=ONE_CLUSTER) == [("g", [ONE, OTHER], 2)]
