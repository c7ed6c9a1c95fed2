"""Members that say nothing, not even heartbeats, because a quota holds them back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.incidents.tables_of import (
    H1,
    H2,
    Row,
    connection,
    exchange,
    finding,
    found,
    group_event,
    health,
    rebalance,
)
from tests.reports.incidents.test_paused import BEAT as WORD
from tests.reports.incidents.test_paused import CONNECTIONS, IN_GROUP, PAUSED, sent

SILENT = group_event("silence_begun", 30, member_id="c1-id", client_id="c1", client=H1)
LOST = rebalance("session_timeout", 5, 40, trigger_member="c1-id", trigger_client_id="c1")
BACK = rebalance("member_joined", 6, 41, trigger_member="c1-new", trigger_client_id="c1")
ALIVE = [health(1, "client", [30], [30]), health(1, "client", [32, 39.9], [])]
QUOTA = finding("throttled", f"client c1 ({H1})", "Held back", 30.2, 40.1, weight=0.9)


def told_at(time: float, ms: float, **given: Any) -> Row:
    """A fetch whose answer tells its client to hold back."""
    return exchange(7, "Fetch", time - 0.1, time, throttle_ms=ms, **given)


@pytest.mark.parametrize(
    ("order", "kinds"),
    [
        (told_at(30.2, 9_900), ["throttled"]),
        (told_at(32.4, 7_600), ["throttled"]),  # a heartbeat was due first
        (told_at(32.6, 7_500), ["client_frozen", "throttled"]),
        (told_at(30.2, 8_500), ["client_frozen", "throttled"]),  # that was over
        (told_at(30.2, 9_900, connection=2, client_id="c2"), ["client_frozen", "throttled"]),
        (told_at(30.2, 0), ["client_frozen", "throttled"]),
    ],
)
def test_who_is_taken_out_as_a_quota_holds_it_back_is_told_with_that(order: Row, kinds: list[str]) -> None:
    lost = finding("member_lost", "group shop", "t", 30, 40, client_ids=["c1"])
    incidents = found(
        rebalances=[LOST, BACK],
        group_events=[SILENT],
        connections=[connection(1, opened=1), connection(2, H2, client_id="c2")],
        tcp_health=ALIVE,
        exchanges=[order],
        findings=[QUOTA, lost],
    )
    assert sorted(one.kind for one in incidents) == kinds
    (one,) = (each for each in incidents if each.kind == "throttled")
    assert ("; taken out of group shop, as no heartbeats were sent meanwhile" in one.headline) == (len(kinds) == 1)
    assert one.rebalances == ({("shop", 5), ("shop", 6)} if len(kinds) == 1 else set())
    assert (lost["id"] in one.findings) == (len(kinds) == 1)


def test_who_ends_while_it_is_held_back_has_died() -> None:
    died = connection(1, opened=1, closed=33, how_closed="fin")
    tables = {"rebalances": [LOST], "group_events": [SILENT], "connections": [died], "findings": [QUOTA]}
    incidents = found(**tables, tcp_health=ALIVE[:1], exchanges=[told_at(30.2, 9_900)])
    assert sorted(one.kind for one in incidents) == ["client_died", "throttled"]
    assert not any("taken out" in one.headline for one in incidents if one.kind == "throttled")


@pytest.mark.parametrize(("ms", "told"), [(5_000, False), (3_500, True)])
def test_who_pauses_as_a_quota_has_it_does_not_stand_still(ms: float, told: bool) -> None:
    order = told_at(22, ms, connection=2)
    incidents = found(
        findings=[PAUSED],
        connections=CONNECTIONS,
        exchanges=[WORD, order],
        rebalances=[IN_GROUP],
        tcp_health=sent((20.5, 21.8)),
    )
    assert [one.kind for one in incidents] == ["client_frozen"] * told
