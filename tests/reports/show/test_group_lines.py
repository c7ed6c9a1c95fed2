"""Events and rebalances as lines."""

from __future__ import annotations

import json

from kafkascope.reports.groups.history import Contributing, Event, Evidence, GroupHistory, Member, Rebalance
from kafkascope.reports.show.group_lines import json_lines, lines

SECOND = 1_000_000_000
AT = 1_795_240_884 * SECOND + 151_000_001  # 2026-11-21T06:01:24Z


def history() -> GroupHistory:
    return GroupHistory(
        events=[
            Event("orders", AT + 2 * SECOND, "left", client_id="c\x1b2", generation=3, packet=7, detail="closed"),
            Event("orders", AT, "coordinator_moved"),
        ],
        rebalances=[
            Rebalance(
                "orders",
                "classic",
                4,
                from_generation=3,
                started=AT + 2 * SECOND,
                stable=AT + 3 * SECOND,
                duration_ms=1000.0,
                trigger="member_left",
                trigger_client_id="c2",
                certainty="certain",
                evidence=[Evidence("it said so", 7, AT, 1.0, "member_left")],
                contributing=[
                    Contributing("member_joined", "c9", AT, None),
                    Contributing("member_joined", "c8", AT, 1),
                ],
                members=[Member(f"m-{i}", client_id=f"c{i}" if i else None, joined=AT) for i in range(11)],
                unowned_ms=1500.0,
                inferred=True,
            ),
            Rebalance("orders", "consumer", 5, started=AT + 4 * SECOND, trigger_member="m-x"),
        ],
    )


def test_a_line_says_the_whole_at_a_glance() -> None:
    assert [" ".join(line.split()) for line in lines(history())] == [
        "06:01:24.151000 orders coordinator_moved -",
        "06:01:26.151000 orders left c\ufffd2 generation 3 closed (packet 7)",
        "06:01:26.151000 orders REBALANCE 3→4 member_left of c2 (certain); took 1.000 s; 11 members: m-0, c1, c2, c3, "
        "c4, c5, c6, c7 and 3 more; partitions without owner for up to 1.500 s; also member_joined; inferred",
        "06:01:28.151000 orders REBALANCE ?→5 unknown of m-x (guessed); never stable; members not known",
    ]


def test_colour_is_around_whole_lines() -> None:
    plain, coloured = lines(history()), lines(history(), colour=True)
    for one, other in zip(plain, coloured, strict=True):
        assert one in other
        assert other.startswith("\x1b[")
        assert other.endswith("\x1b[0m")


def test_long_details_are_cut() -> None:
    event = Event("g", AT, "assignment_given", detail=", ".join(f"topic-{i}" for i in range(500)))
    (line,) = lines(GroupHistory([event]))
    assert len(line) < 300
    assert line.endswith("…")


def test_json_has_all_columns_and_times_to_the_nanosecond() -> None:
    rows = [json.loads(line) for line in json_lines(history())]
    assert [row["table"] for row in rows] == ["group_events", "group_events", "rebalances", "rebalances"]
    assert rows[0]["at"] == "2026-11-21T06:01:24.151000001Z"
    assert rows[1]["client_id"] == "c\x1b2"
    rebalance = rows[2]
    assert rebalance["evidence"] == [
        {
            "text": "it said so",
            "packet": 7,
            "at": "2026-11-21T06:01:24.151000001Z",
            "weight": 1.0,
            "trigger": "member_left",
            "rejected": False,
        }
    ]
    assert [member["joined"] for member in rebalance["members"]] == ["2026-11-21T06:01:24.151000001Z"] * 11
    assert rebalance["members"][3]["assignment"] is None
    assert rebalance["members"][3]["subscription"] == []
    assert rows[3]["stable"] is None


def test_nothing_gives_no_lines() -> None:
    assert lines(GroupHistory()) == json_lines(GroupHistory()) == []
