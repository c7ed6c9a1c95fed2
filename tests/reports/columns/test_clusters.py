"""Which broker is of which cluster, and what groups of several are called."""

from __future__ import annotations

from kafkascope.reports.columns.clusters import ONE_CLUSTER, Clusters
from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.columns.views import Known

A, B, C = "10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.3:9092"


def test_groups_of_the_largest_cluster_have_their_names() -> None:
    clusters = Clusters.of({A: "y", B: "x", C: "y"})
    assert (clusters.home, clusters.group("shop", "y"), clusters.group("shop", "x")) == ("y", "shop", "shop@x")
    assert Clusters.of({A: "y", B: "x"}).home == "x"


def test_who_is_at_home_stays_as_more_is_heard_of() -> None:
    before = Clusters.of({A: "y", B: "x"}, ONE_CLUSTER)
    assert (before.home, Clusters.of({A: "y", B: "x", C: "y"}, before).home) == ("x", "x")


def test_of_one_cluster_or_none_nothing_is_told_apart() -> None:
    for clusters in (ONE_CLUSTER, Clusters.of({}), Clusters.of({A: "x", B: "x"})):
        assert clusters.home is None
        assert clusters.group("shop", None) == "shop"


def test_what_connections_told_of_clusters_is_handed_on_with_names() -> None:
    names = TopicNames({"id:abc": "orders"})
    names.of_clusters.learn([(A, "x"), (B, "y")])
    other = TopicNames()
    other.of_clusters.learn([(B, "z"), (C, "z")])
    other.merge(names)
    other.of_clusters.learn([(B, "y")])
    assert other.of_clusters.of_broker == {A: "x", C: "z"}  # an address that belonged to two says nothing
    again = TopicNames(other.learned())
    assert (again.of_clusters.of_broker, again.name("abc")) == (other.of_clusters.of_broker, "orders")
    known = Known.of(other.learned())
    assert (known.clusters.of_broker, known.clusters.home, known.topics["abc"]) == (
        other.of_clusters.of_broker,
        "x",
        "orders",
    )
    assert all(not name.startswith("cluster") for name in known.topics)


def test_merging_does_not_hang_on_the_order() -> None:
    told = [[(A, "x")], [(A, "y")], [(A, "x"), (B, "z")]]
    found = []
    for order in (told, told[::-1]):
        names = TopicNames()
        for one in order:
            part = TopicNames()
            part.of_clusters.learn(one)
            names.merge(part)
        found.append(names.learned())
    assert found[0] == found[1]


def test_a_node_is_known_by_its_address_or_by_its_port_at_a_name() -> None:
    nodes = {"10.0.0.1:9092": "1", "10.0.0.1:9192": "2", "[fd77::1]:9092": "3", "k4.example:9292": "4"}
    known = Clusters(nodes=nodes | {"k5.example:9392": "5", "k6.example:9392": "6"})
    assert [known.node_at("10.0.0.1", port) for port in (9092, 9192, 9292, 9392, 9492)] == ["1", "2", "4", None, None]
    assert known.node_at("fd77::1", 9092) == "3"
    assert (known.nodes_at("10.0.0.1"), known.nodes_at("10.0.0.9")) == ({"1", "2"}, set())


def test_where_there_is_one_cluster_groups_have_their_names() -> None:
    assert Clusters({"10.0.0.1:9092": "one"}).group("shop", "one") == "shop"
