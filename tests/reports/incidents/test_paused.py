"""Members that stand still for a while."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.incidents.tables_of import (
    H1,
    H2,
    Row,
    at,
    connection,
    exchange,
    finding,
    found,
    health,
    member,
    names,
    only,
    rebalance,
    seconds,
)

MEMBER = member("c1") | {"assignment": ["orders-1", "orders-0"]}
IN_GROUP = rebalance("member_joined", 3, 5, members=[MEMBER, member("c2", H2) | {"assignment": ["orders-2"]}])
CONNECTIONS = [connection(1), connection(2)]
BEAT = exchange(9, "Heartbeat", 27, 27.1, connection=1)
PAUSED = finding(
    "member_paused",
    "group shop",
    "c1 said nothing for 6.0 s, though it sends heartbeats every 2.0 s",
    21,
    21,
    client_ids=["c1"],
    evidence=[{"text": "no heartbeat", "packet": 9, "at": at(21)}],
)


def sent(data: tuple[float, ...], acknowledged: tuple[float, ...] = (23.5,), **given: Any) -> list[Row]:
    """What the host of c1 sent on its second connection from second 20 to 30."""
    number = given.pop("connection", 2)
    return [health(number, "client", (*data, *acknowledged), data, **given)]


def told(tcp_health: list[Row], **changed: Any) -> list[str]:
    tables = {"findings": [PAUSED], "connections": CONNECTIONS, "exchanges": [BEAT], "rebalances": [IN_GROUP]}
    return [one.kind for one in found(tcp_health=tcp_health, **tables | changed)]


def test_a_member_that_stands_still_and_goes_on() -> None:
    one = only(
        findings=[PAUSED],
        connections=CONNECTIONS,
        exchanges=[BEAT],
        rebalances=[IN_GROUP],
        tcp_health=sent((20.5, 21.8)),
    )
    assert (one.kind, one.severity, one.certainty) == ("client_frozen", "warning", "likely")
    assert names(one) == ["c1", H1, "shop"]
    assert (seconds(one.started), seconds(one.ended), one.cost_ms) == (21.9, 27, 5100)
    assert one.headline.startswith(f"c1 ({H1}) of group shop stood still for 5.1 s from ")
    assert one.headline.endswith("; nobody read orders 0-1 meanwhile")
    assert [(seen.packet, seen.at) for seen in one.evidence] == [(9, at(21.9))]
    assert "acknowledged packets in 1 tenth of a second; then it went on" in one.evidence[0].text
    assert one.findings == {PAUSED["id"]}


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        (sent((20.5,)), True),
        (sent((20.5, 22.3)), True),  # three quarters of the time are left
        (sent((20.5, 22.5)), False),
        (sent((20.5, 24.1)), False),  # it was well, and only its coordinator heard nothing
        (sent((20.5,), ()), False),  # its host may have been cut off
        (sent((20.5, 24.1), (), connection=3) + sent((20.5,)), True),  # another process at its host
        ([], False),
    ],
)
def test_what_shows_that_it_stood_still(rows: list[Row], shown: bool) -> None:
    assert told(rows) == ["client_frozen"] * shown


def test_two_pauses_are_one_incident_and_what_is_not_known_is_none() -> None:
    later = exchange(12, "Heartbeat", 37, 37.1, connection=1)
    seen = [*PAUSED["evidence"], {"text": "no heartbeat", "packet": 12, "at": at(31)}]
    twice = PAUSED | {"evidence": seen}
    rows = [*sent((20.5,)), health(2, "client", (30.5, 33.5), (30.5,))]
    one = only(findings=[twice], connections=CONNECTIONS, exchanges=[BEAT, later], tcp_health=rows)
    assert "stood still, or was busy, 2 times from " in one.headline
    assert (one.certainty, [seen.rejected for seen in one.evidence]) == ("guessed", [False, False, True])
    assert (seconds(one.started), seconds(one.ended)) == (21, 37)
    assert told(sent((20.5,)), exchanges=[]) == []
    assert told(sent((20.5,)), connections=[]) == []


def test_who_stood_still_until_its_poll_interval_was_over_is_not_slow() -> None:
    seen = [{"text": "it left", "packet": 9, "at": at(27), "weight": 0.9, "rejected": False}]
    left = rebalance("poll_timeout", 4, 27, trigger_client_id="c1", evidence=seen)
    came = rebalance("member_joined", 5, 27.5, trigger_client_id="c1")
    slow = finding("poll_timeout", "group shop", "c1 took longer", 27, 27, client_ids=["c1"], evidence=seen)
    tables = {"findings": [PAUSED, slow], "connections": CONNECTIONS, "exchanges": [BEAT]}
    one = only(**tables, rebalances=[IN_GROUP, left, came], tcp_health=sent((20.5, 21.8)))
    assert one.kind == "client_frozen"
    assert "; then it left, as its poll interval was over, and joined again; " in one.headline
    assert one.rebalances == {("shop", 4), ("shop", 5)}
    assert one.findings == {PAUSED["id"], slow["id"]}
    kinds = [one.kind for one in found(**tables, rebalances=[IN_GROUP, left, came])]  # its host is not heard of
    assert kinds == ["slow_processing"]
