"""All that is told of a group, in order."""

from __future__ import annotations

import logging

import pytest

from kafkascope.reports.groups import one_group
from kafkascope.reports.groups.history import Event, Evidence, GroupHistory, GroupLog, Rebalance
from kafkascope.reports.groups.one_group import analyze_group


def test_what_each_protocol_tells_is_put_in_order_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_group(log: GroupLog) -> GroupHistory:
        return GroupHistory([Event(log.group_id, 20, "described", packet=9), Event(log.group_id, 10, "deleted")])

    def of_members(log: GroupLog) -> GroupHistory:
        events = [Event(log.group_id, 10, "joined", packet=3), Event(log.group_id, 20, "left", packet=8)]
        return GroupHistory(
            events,
            [
                Rebalance("g", "classic", 4, stable=30),
                Rebalance("g", "classic", 3, started=20, stable=25),
                Rebalance("g", "classic", 2, started=20, stable=90),
                Rebalance("g", "classic", 1),
            ],
        )

    monkeypatch.setattr(one_group, "_PROTOCOLS", (of_group, of_members))
    history = analyze_group(GroupLog("g", [], {}, {}))
    assert [(each.at, each.event) for each in history.events] == [
        (10, "deleted"),
        (10, "joined"),
        (20, "left"),
        (20, "described"),
    ]
    assert [each.to_generation for each in history.rebalances] == [1, 2, 3, 4]


def test_readings_are_logged_for_who_wants_to_know(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    evidence = [
        Evidence("it left", 7, 10, 0.95, "member_left"),
        Evidence("it was silent", None, 10, 0.3, "session_timeout", rejected=True),
    ]
    first = Rebalance("g", "classic", 1, started=1, trigger="member_joined", certainty="likely")
    second = Rebalance("g", "classic", 2, 1, started=2, trigger="member_left", certainty="certain", evidence=evidence)
    monkeypatch.setattr(one_group, "_PROTOCOLS", (lambda log: GroupHistory([], [first, second]),))
    for level, lines in (
        (logging.INFO, []),
        (
            logging.DEBUG,
            [
                "group g: understood from 0 messages",
                "group g, ? to 1: member_joined, likely",
                "group g, 1 to 2: member_left, certain",
                "group g, 1 to 2: chosen, member_left, weight 0.95, packet 7: it left",
                "group g, 1 to 2: rejected, session_timeout, weight 0.30, no packet: it was silent",
            ],
        ),
    ):
        caplog.clear()
        with caplog.at_level(level, "kafkascope"):
            analyze_group(GroupLog("g", [], {}, {}))
        assert [record.getMessage() for record in caplog.records] == lines
