"""Positions that are not in the log any more, of readers that look where it begins first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from tests.reports.incidents.tables_of import (
    CLIENT,
    H1,
    IN_GROUP,
    Row,
    at,
    connection,
    exchange,
    found,
    names,
    only,
    partition,
    row,
)


def told(time: float, offset: int, topic: str = "orders", **given: Any) -> Row:
    """An answer that tells what is committed in partition 0."""
    partitions = [{"partitionIndex": 0, "committedOffset": offset}]
    body = {"topics": [{"name": topic, "partitions": partitions}]}
    return exchange(1, "OffsetFetch", time, time, response=json.dumps(body), response_packet=8, **given)


def reads(time: float, offset: int, begins: int | None, **given: Any) -> Row:
    return partition("Fetch", time, fetch_offset=offset, log_start_offset=begins, **{"error": "NONE"} | given)


def committed(offset: int, group: str = "shop") -> Row:
    known: Row = {"group_id": group, "topic": "orders", "partition": 0, "client_id": "c1", "client": H1}
    return row("lag", at=at(10), width_ms=10_000, committed_offset=offset, **known)


TABLES: dict[str, list[Row]] = {
    "rebalances": [IN_GROUP],
    "connections": [CLIENT],
    "lag": [committed(72)],
    "exchanges": [told(20, 72)],
    "partitions": [reads(21, 129, 129), reads(22, 148, 129)],
}
DELETED = exchange(
    2,
    "DeleteRecords",
    15,
    16,
    connection=2,
    client_id="adm",
    request='{"topics": [{"name": "orders", "partitions": []}]}',
)


def test_a_group_that_begins_where_the_log_does_behind_what_it_had_committed() -> None:
    one = only(**TABLES)
    assert (one.kind, one.severity, one.certainty) == ("offsets_lost", "critical", "certain")
    assert names(one) == ["shop", "orders", "c1", H1]
    assert one.headline == (
        f"c1 of group shop began orders 0 behind what it had committed, at {clock(at(21))}: the log does not have it "
        "any more; 57 records were deleted before they were read"
    )
    assert [seen.packet for seen in one.evidence] == [8]


def test_who_had_them_deleted_is_named() -> None:
    tables = TABLES | {
        "exchanges": [DELETED, told(20, 72)],
        "connections": [CLIENT, connection(2, "10.0.1.9", client_id="adm")],
    }
    (one,) = (one for one in found(**tables) if one.kind == "offsets_lost")
    assert ": adm (10.0.1.9) had records deleted at " in one.headline
    setting = '{"name": "retention.ms", "configOperation": 0, "value": "1000"}'
    body = f'{{"resources": [{{"resourceType": 2, "resourceName": "orders", "configs": [{setting}]}}]}}'
    tables["exchanges"][0] = DELETED | {"api": "IncrementalAlterConfigs", "request": body}
    (one,) = (one for one in found(**tables) if one.kind == "offsets_lost")
    assert "any more, after adm (10.0.1.9) had set retention.ms=1000 of orders at " in one.headline
    assert [seen.packet for seen in one.evidence] == [2, 8]


@pytest.mark.parametrize(
    "given",
    [
        {"partitions": [reads(21, 72, 0)]},
        {"partitions": [reads(21, 72, -1, error="OFFSET_OUT_OF_RANGE"), reads(22, 129, 129)]},  # told as such
        {"partitions": [reads(21, 72, 60), reads(90, 129, 129)]},  # it had read on since
        {"partitions": [reads(19, 129, 129)]},  # before it was told
        {"partitions": [reads(21, 129, 129, connection=2)]},  # another client
        {"partitions": [reads(21, 140, 129)]},  # a place of its own choice
        {"exchanges": [told(20, 130)]},
        {"exchanges": [told(20, -1)]},
        {"exchanges": [told(20, 72, "other")]},
        {"lag": [committed(130)]},
        {"lag": [committed(72, "audit")]},
    ],
)
def test_others_lose_nothing(given: dict[str, list[Row]]) -> None:
    assert found(**TABLES | given) == []
