"""The cluster's history in recordings, against what brokers logged and what was done to them (truth.json)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from kafkascope.reports.columns.topics import TopicNames
from kafkascope.reports.columns.views import Known
from kafkascope.reports.views.clusters import ClustersView
from tests.paths import PCAPS
from tests.reports.captured_tables import captured, observed

MILLISECOND = 1_000_000
NODES = {"k1": 1, "k2": 2, "k3": 3}


@cache
def history(capture: str) -> list[dict[str, Any]]:
    """The events of a recording; at is milliseconds."""
    view = ClustersView()
    rows = observed(view, capture)
    tables, _ = captured(capture, ClustersView().needs)
    names = dict(zip(tables["partitions"]["topic"].to_pylist(), tables["partitions"]["topic"].to_pylist(), strict=True))
    known = TopicNames(names)
    view.tell_clusters(known.of_clusters)
    found = ClustersView().result(known.resolve(rows), Known.of(known.learned()))["cluster_events"]
    place = found.schema.get_field_index("at")
    events: list[dict[str, Any]] = found.set_column(place, "at", found["at"].cast(pa.int64())).to_pylist()
    return [event | {"at": event["at"] / MILLISECOND} for event in events]


def of_kind(capture: str, *kinds: str) -> list[dict[str, Any]]:
    return [event for event in history(capture) if event["event"] in kinds]


def done(capture: str, what: str) -> list[tuple[int, int]]:
    """Which node, and when in milliseconds, for each time that a thing was done to a broker."""
    events = json.loads((PCAPS / capture / "truth.json").read_text())["events"]
    words = [(event["what"].split(), event["t"]) for event in events]
    return [(NODES[word[1]], t) for word, t in words if " ".join([word[0], *word[2:]]) == what]


def test_brokers_that_restart_in_turn_announce_it_go_and_come_back() -> None:
    stopped, started = (done("rolling-restart", what) for what in ("stop (SIGTERM)", "start again"))
    assert [node for node, _ in stopped] == [2, 3, 1]
    # k1 is the controller too: what it tells itself is on no wire.
    announced = of_kind("rolling-restart", "shutdown_announced")
    assert [event["node_id"] for event in announced] == [2, 3]
    gone, back = (of_kind("rolling-restart", kind) for kind in ("broker_unlisted", "broker_back"))
    assert [event["node_id"] for event in gone] == [event["node_id"] for event in back] == [2, 3, 1]
    for (_, stop), event in zip(stopped, announced, strict=False):
        assert stop < event["at"] < stop + 100
    for (_, stop), (_, start), event, returned in zip(stopped, started, gone, back, strict=True):
        assert stop < event["at"] < start < returned["at"]
    processes = of_kind("rolling-restart", "broker_registered", "broker_fenced", "broker_unfenced")
    assert [(event["event"], event["node_id"]) for event in processes] == [
        (f"broker_{what}", node) for node in (2, 3) for what in ("fenced", "registered", "unfenced")
    ]


def test_leaders_move_before_a_broker_goes_that_stops_in_order() -> None:
    moved = of_kind("rolling-restart", "leader_changed")
    assert not of_kind("rolling-restart", "leader_lost", "leader_elected")
    for before, (node, stop) in zip(("2", "3", "1"), done("rolling-restart", "stop (SIGTERM)"), strict=True):
        (gone,) = [event["at"] for event in of_kind("rolling-restart", "broker_unlisted") if event["node_id"] == node]
        at = [event["at"] for event in moved if event["before"] == before]
        assert at
        assert all(stop < one < gone for one in at)
    assert {event["before"] for event in moved} == {"1", "2", "3"}
    assert all(event["leader_epoch"] >= 1 for event in moved)


def test_coordinators_move_as_brokers_logged_it() -> None:
    truth = json.loads((PCAPS / "rolling-restart" / "truth.json").read_text())
    logged = {
        (group, str(NODES[move["from"]]), str(NODES[move["to"]])): move["t"]
        for move in truth["coordinator_moves"]
        for group in move["groups"]
    }
    moved = {
        (event["group_id"], event["before"], event["after"]): event["at"]
        for event in of_kind("rolling-restart", "coordinator_moved")
    }
    assert moved.keys() == logged.keys()
    for move, at in moved.items():
        assert 0 < at - logged[move] < 1_000  # clients ask when they are refused


def test_in_zookeeper_mode_the_controller_tells_it() -> None:
    ((_, stop),) = done("zk-2.8.2", "stop (SIGTERM)")
    ((_, start),) = done("zk-2.8.2", "start again")
    (announced,) = of_kind("zk-2.8.2", "shutdown_announced")
    assert announced["node_id"] == 2
    assert stop < announced["at"] < stop + 100
    moved = of_kind("zk-2.8.2", "leader_changed", "coordinator_moved")
    assert {(event["before"], event["after"]) for event in moved} == {("2", "1")}
    assert all(announced["at"] < event["at"] < announced["at"] + 200 for event in moved)
    partitions = [name for event in moved for name in event["partitions"] or []]
    assert sorted(partitions) == ["__consumer_offsets-0", "__consumer_offsets-2", "m09-1", "m10-1", "m11-0"]
    grown = of_kind("zk-2.8.2", "isr_grown")
    assert sum(event["count"] for event in grown) == 10  # all partitions have two replicas
    assert all(event["at"] > start for event in grown)
    assert [event["topic"] for event in of_kind("zk-2.8.2", "topic_deleted")] == ["m11"]


@pytest.mark.parametrize("capture", ["eager-three-joins", "mixed-versions", "transactions", "kip848", "connect"])
def test_where_nothing_happened_to_brokers_there_is_only_the_map(capture: str) -> None:
    assert {event["event"] for event in history(capture)} == {"broker_listed"}
    assert all(event["cluster_id"] for event in history(capture))


@pytest.mark.parametrize("capture", ["named-brokers", "two-named"])
def test_brokers_that_are_listed_by_name_are_found_at_their_addresses(capture: str) -> None:
    brokers = json.loads((PCAPS / capture / "truth.json").read_text())["brokers"]
    found = {event["node_id"]: event["host"] for event in of_kind(capture, "broker_found")}
    assert found == {broker["node_id"]: f"{broker['ip']}:9092" for broker in brokers}
    listed = {event["node_id"]: event["host"] for event in of_kind(capture, "broker_listed")}
    assert listed == {broker["node_id"]: f"{broker['name']}.kafka.test:9092" for broker in brokers}
