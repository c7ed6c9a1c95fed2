"""Subscriptions and assignments as lists."""

from __future__ import annotations

from kafkascope.reports.groups.assignments import connect_result, connect_work, owned_of, partitions_of, topics_of


def test_partitions_of_a_consumer() -> None:
    topics = [{"topic": "b", "partitions": [1, 0]}, {"topic": "a", "partitions": [10]}]
    assert partitions_of({"assignedPartitions": topics}) == ["a-10", "b-0", "b-1"]
    assert partitions_of("") == []  # a member that gets nothing is sent nothing
    assert partitions_of(None) is None
    assert partitions_of("bytes that nobody understands") is None


def test_subscription() -> None:
    subscription = {"topics": ["b", "a", "b"], "ownedPartitions": [{"topic": "a", "partitions": [0]}]}
    assert topics_of(subscription) == ["a", "b"]
    assert owned_of(subscription) == ["a-0"]
    assert owned_of({"topics": ["a"]}) is None  # before version 1 nobody says
    assert topics_of(None) is None


def test_work_of_connect() -> None:
    pieces = [{"connector": "sink", "tasks": [-1, 0]}, {"connector": "src", "tasks": [1]}]
    assert connect_work(pieces) == ["connector:sink", "task:sink-0", "task:src-1"]


def test_work_of_connect_builds_on_what_was_held() -> None:
    given = [{"connector": "new", "tasks": [0]}]
    taken = [{"connector": "old", "tasks": [-1]}]
    held = ["connector:old", "task:old-0"]
    assert connect_result({"_version": 2, "assignment": given, "revoked": taken}, held) == ["task:new-0", "task:old-0"]
    assert connect_result({"_version": 0, "assignment": given}, held) == ["task:new-0"]
