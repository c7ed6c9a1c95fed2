"""What is said beside packets holds no surprises for whoever looks at it, and has its limits."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.show import packet_comments as under_test
from kafkascope.reports.show.packet_comments import PacketComments, packet_comments
from tests.reports.incidents.tables_of import signs

HOSTILE = "evil\x1b[31m\u202e\n\0" + "x" * 300


def error(number: int, **columns: Any) -> dict[str, Any]:
    return {"connection": 1, "number": number, "at": 10, "api": "Fetch", "error": "NOT_LEADER_OR_FOLLOWER", **columns}


def exchange(number: int, packet: int | None) -> dict[str, Any]:
    return {"connection": 1, "number": number, "response_packet": packet, "error": "NOT_LEADER_OR_FOLLOWER"}


def test_errors_of_a_kind_in_one_answer_are_one_comment() -> None:
    rows = [error(1, topic="orders", partition=partition) for partition in (1, 2, 3, 7)]
    rows += [error(1, error="UNKNOWN_TOPIC_ID"), error(2, group_id="shop"), error(3)]
    found = packet_comments(signs(errors=rows, exchanges=[exchange(1, 17), exchange(2, 19), exchange(3, None)]))
    assert found.of_packets == {
        17: ["kafkascope: Fetch: NOT_LEADER_OR_FOLLOWER for orders 1-3,7", "kafkascope: Fetch: UNKNOWN_TOPIC_ID"],
        19: ["kafkascope: Fetch: NOT_LEADER_OR_FOLLOWER for group shop"],
    }
    assert found.left_out == 1


def test_comments_are_safe_and_short() -> None:
    found = packet_comments(signs(errors=[error(1, group_id=HOSTILE)], exchanges=[exchange(1, 2)]))
    ((text,),) = found.of_packets.values()
    assert text.isprintable()
    assert len(text) < 400


def test_what_is_too_much_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "MOST_COMMENTED", 3)
    monkeypatch.setattr(under_test, "MOST_AT_ONE", 2)
    comments = PacketComments()
    for text in ("a", "a", "b", "c"):
        comments.at_packet(1, text)
    for number in (2, 3, 4, 5):
        comments.at_packet(number, "a")
        comments.at_time(number, "a")
    assert {number: len(texts) for number, texts in comments.of_packets.items()} == {1: 2, 2: 1, 3: 1}
    assert len(comments.of_times) == 3
    assert comments.left_out == 4
