"""Which group each client is a member of, whoever told it and in whatever order."""

from __future__ import annotations

import pytest

from kafkascope.reports.columns import told_members
from kafkascope.reports.columns.told_members import ToldMembers
from kafkascope.reports.columns.topics import TopicNames

TOLD = [("client h1 c1", "shop"), ("client h2 c1", "shop"), ("client h3 c9", "a"), ("client h3 c9", "b")]


def test_a_client_of_several_groups_is_of_none() -> None:
    for pairs in (TOLD, TOLD[::-1]):
        told = ToldMembers()
        told.learn(pairs)
        assert told.groups == {"client h1 c1": "shop", "client h2 c1": "shop"}


def test_parts_are_put_together() -> None:
    parts = [TopicNames(), TopicNames()]
    for number, part in enumerate(parts):
        part.of_members.learn(TOLD[number::2])
    parts[0].learn([("id:x", "orders")])
    merged = TopicNames()
    for part in parts:
        merged.merge(part)
    assert merged.of_members.groups == {"client h1 c1": "shop", "client h2 c1": "shop"}
    assert merged.name("x") == "orders"
    assert not any(name.startswith("member") for name in merged.in_text("id:x").split())


def test_of_very_many_nobody_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_members, "MOST_MEMBERS", 2)
    one, other = ToldMembers(), ToldMembers()
    one.learn(TOLD[:3])
    for key, value in one.learned().items():
        other.take(key, value)
    other.learn(TOLD[:1])
    assert one.groups == other.groups == {}
