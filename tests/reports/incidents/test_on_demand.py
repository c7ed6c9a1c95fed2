"""Topics that brokers make because a client asks for them."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from tests.reports.incidents.tables_of import (
    H1,
    H2,
    Row,
    at,
    connection,
    exchange,
    found,
    names,
    only,
    partition,
    row,
    seconds,
)

ASKS = '{"topics": [{"name": "ordres"}], "allowAutoTopicCreation": true}'
NOT_THERE = row("errors", connection=1, number=5, at=at(10), api="Metadata", client_id="c1", topic="ordres") | {
    "error": "UNKNOWN_TOPIC_OR_PARTITION"
}
ASKED = exchange(7, "Metadata", 9.9, 10, request=ASKS) | {"number": 5}
WRITTEN: Row = row("throughput", topic="orders", records=9)


def tables(**changed: Any) -> dict[str, Any]:
    known = {"errors": [NOT_THERE], "exchanges": [ASKED], "partitions": [partition("Produce", 10.4, "ordres")]}
    return known | {"connections": [connection(1), connection(2, H2, client_id="adm")]} | changed


def test_a_topic_that_is_made_because_a_client_asked() -> None:
    one = only(**tables(throughput=[WRITTEN]))
    assert (one.kind, one.severity, one.certainty) == ("admin_action", "info", "likely")
    assert names(one) == ["ordres", "c1", H1]
    assert (seconds(one.started), seconds(one.ended)) == (10, 10.4)
    assert one.headline == (
        f"brokers made topic ordres at {clock(at(10))} because c1 asked for it: nobody in this capture created it; "
        "near is orders; nothing is written to it"
    )
    assert [seen.packet for seen in one.evidence] == [7, None]
    (written,) = found(**tables(throughput=[WRITTEN | {"topic": "ordres"}]))
    assert written.headline.endswith(" created it")


def test_what_is_made_on_demand_as_well_is_not_what_was_meant() -> None:
    second = NOT_THERE | {"topic": "orders", "number": NOT_THERE["number"] + 1}
    (one,) = found(**tables(throughput=[WRITTEN], errors=[NOT_THERE, second]))
    assert "created it; nothing is written to it" in one.headline


CREATED = exchange(
    9, "CreateTopics", 10.1, 10.2, connection=2, client_id="adm", request='{"topics": [{"name": "ordres"}]}'
)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"errors": [NOT_THERE | {"error": "LEADER_NOT_AVAILABLE"}]}, True),
        ({"errors": [NOT_THERE | {"error": "TOPIC_AUTHORIZATION_FAILED"}]}, False),
        ({"errors": [NOT_THERE | {"topic": "__consumer_offsets"}]}, False),
        ({"errors": [NOT_THERE | {"client_id": "broker-2-fetcher-0"}]}, False),
        ({"exchanges": [ASKED | {"request": ASKS.replace("true", "false")}]}, False),
        ({"exchanges": [ASKED | {"number": 6}]}, False),
        ({"exchanges": [ASKED, CREATED]}, False),
        ({"partitions": []}, False),
        ({"partitions": [partition("Fetch", 20, "ordres")]}, True),
        ({"partitions": [partition("Fetch", 20.1, "ordres")]}, False),  # somebody made it
        ({"partitions": [partition("Fetch", 9, "ordres")]}, False),  # it was there before
        ({"partitions": [partition("Fetch", 11, "orders")]}, False),
    ],
)
def test_what_shows_it(changed: dict[str, Any], told: bool) -> None:
    headlines = [one.headline for one in found(**tables(**changed))]
    assert any(one.startswith("brokers made topic") for one in headlines) == told
