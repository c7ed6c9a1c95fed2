"""Records that were confirmed and are gone, by offsets that were given twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.brokers import lost_records
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    H1,
    H2,
    Row,
    at,
    connection,
    event,
    exchange,
    found,
    names,
    only,
    row,
    seconds,
)

B3 = "10.0.0.3"
P1, P2 = connection(1, client_id="p1"), connection(2, broker=B2, client_id="p1")
KNOWN: dict[str, Any] = {"producer_id": None, "producer_epoch": None, "base_sequence": None}


def given(time: float, base: int, last: int, connection: int = 1, **more: Any) -> Row:
    """A batch that was confirmed with these offsets."""
    known = {"direction": "produce", "topic": "orders", "partition": 0, "number": int(10 * time)} | KNOWN
    offsets = {"base_offset": base, "last_offset": last}
    return row("batches", connection=connection, at=at(time), **known | offsets | more)


BEFORE = [given(n, 10 * n, 10 * n + 9) for n in range(12)]  # up to 119, in 11 s
AFTER = [given(20 + n, 75 + 10 * n, 84 + 10 * n, 2) for n in range(12)]
TABLES: dict[str, list[Row]] = {"connections": [P1, P2], "cluster_events": BROKERS}


def test_offsets_that_are_given_to_others() -> None:
    one = only(batches=BEFORE + AFTER, **TABLES)
    assert (one.kind, one.severity, one.certainty) == ("records_lost", "critical", "certain")
    assert names(one) == ["orders", "2", B2, "p1"]
    assert one.headline == (
        f"broker 2 ({B2}) lacks records of orders 0 that broker 1 ({B1}) had confirmed: from {clock(at(20))} on it "
        "gives their offsets to others; at least 45 confirmed records lost"
    )
    assert (seconds(one.started), seconds(one.ended), one.cost_ms) == (20, 20, 13_000)
    assert [(seen.text, seen.at) for seen in one.evidence] == [
        (
            "orders-0: offset 75 was given to a batch of p1, though 70 to 79 had been confirmed to p1 at "
            f"{clock(at(7))}, and all up to 119 since",
            at(20),
        )
    ]
    assert one.advice.startswith("Have only replicas in sync elected")


@pytest.mark.parametrize(("acks", "advice"), [("1", "Set acks=all"), ("-1", "Have only"), ("0, 1", "Have only")])
def test_what_was_confirmed_by_the_leader_alone(acks: str, advice: str) -> None:
    wrote = exchange(70, "Produce", 7, 7.1, connection=1, request=f'{{"transactionalId": null, "acks": {acks}}}')
    assert only(batches=BEFORE + AFTER, exchanges=[wrote], **TABLES).advice.startswith(advice)


def test_all_partitions_that_a_broker_lacks_records_of_are_one_incident() -> None:
    rows = [one | {"partition": n, "topic": topic} for n in (0, 1) for topic in ("a", "b") for one in BEFORE + AFTER]
    late = [given(190 + n, 80 + 10 * n, 89 + 10 * n, 2, topic="a") for n in range(9)]
    second, first = found(batches=rows + late, **TABLES)
    assert "lacks records of a 0-1 · b 0-1 that" in first.headline
    assert "at least 180 confirmed records lost" in first.headline
    assert f"lacks records of a 0 that it had confirmed: from {clock(at(190))} on" in second.headline


def test_what_one_broker_had_confirmed_is_one_incident_whoever_lacks_it() -> None:
    third = connection(4, H1, B3, client_id="p1")
    of_b3 = event("broker_listed", 0, node_id=3, host=f"{B3}:9092")
    moved = [one | {"partition": 1, "connection": 4 if one["connection"] == 2 else one["connection"]} for one in AFTER]
    rows = [*BEFORE, *AFTER, *(one | {"partition": 1} for one in BEFORE), *moved]
    one = only(batches=rows, connections=[P1, P2, third], cluster_events=[*BROKERS, of_b3])
    assert names(one) == ["orders", "2", B2, "3", B3, "p1"]
    assert one.headline == (
        f"broker 2 ({B2}), broker 3 ({B3}) lack records of orders 0-1 that broker 1 ({B1}) had confirmed: from "
        f"{clock(at(20))} on they give their offsets to others; at least 90 confirmed records lost"
    )


@pytest.mark.parametrize(
    "later",
    [
        AFTER[4:5],  # half of it is new, and half of it is not: 115 to 124
        [given(20, 119, 119, 2)],
        [given(20, 3, 3, 2)],
    ],
)
def test_one_offset_in_common_is_enough(later: list[Row]) -> None:
    assert only(batches=BEFORE + later, **TABLES).kind == "records_lost"


FROM_0 = [given(20 + n, 10 * n, 10 * n + 9) for n in range(12)]


def names_it(time: float, topic_id: str | None = "ALWH3WLqQVKDTm4Sh2vvIQ") -> Row:
    """A client is told of the topic, with its id."""
    topic = {"errorCode": 0, "name": "orders", "partitions": []} | ({"topicId": topic_id} if topic_id else {})
    return exchange(int(time), "Metadata", time, time + 0.1, response=json.dumps({"topics": [topic]}))


@pytest.mark.parametrize(
    ("exchanges", "told"),
    [
        ([names_it(1), names_it(15)], True),
        ([names_it(1)], False),  # it may have been made anew since
        ([names_it(15)], False),
        ([names_it(1), names_it(15, "another")], False),
        ([names_it(1), names_it(12, lost_records._NO_ID), names_it(15)], False),  # it was not there
        ([names_it(1), names_it(15, None)], False),  # who tells it knows no ids
        (
            [names_it(1), names_it(15), exchange(9, "DeleteTopics", 14, 14.1, request='{"topicNames": ["orders"]}')],
            False,
        ),
        ([], False),
    ],
)
def test_a_log_that_begins_at_0_again_is_of_the_same_topic_if_that_has_one_id(exchanges: list[Row], told: bool) -> None:
    incidents = found(batches=BEFORE + FROM_0, exchanges=exchanges, **TABLES)
    of_records = [one for one in incidents if one.kind == "records_lost"]
    assert bool(of_records) == told
    if told:
        (one,) = of_records
        assert one.headline.startswith(f"broker 1 ({B1}) lacks records of orders 0 that it had confirmed: from ")
        assert one.headline.endswith("; at least 120 confirmed records lost")
        assert seconds(one.started) == 20


DELETED = exchange(9, "DeleteTopics", 15, 15.1, request='{"topicNames": ["orders"]}')
NUMBERED = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 70}


@pytest.mark.parametrize(
    ("batches", "more"),
    [
        ([*BEFORE, given(20, 120, 129, 2)], {}),
        ([*BEFORE, given(20, 70, 79, 2, direction="fetch")], {}),
        ([*BEFORE, given(20, 70, 79, 2, partition=1)], {}),
        ([*BEFORE, given(20, 70, 79, 2, topic="other")], {}),
        # A hole: of another producer, whose batches come out of order
        ([*BEFORE[:7], *BEFORE[8:], given(20, 70, 79, 2)], {}),
        # It was sent again, and got the answer of the first time.
        ([*BEFORE[:7], BEFORE[7] | NUMBERED, *BEFORE[8:], given(20, 70, 79, 2, **NUMBERED)], {}),
        # A topic that was made anew
        ([*BEFORE, given(20, 0, 9, 2), *AFTER], {}),
        (
            [*BEFORE, *AFTER],
            {"exchanges": [DELETED]},
        ),
        # The same, of a cluster beside: what another producer is given there
        (
            [*BEFORE, given(20, 30, 39, 3), given(22, 0, 5, 3), given(24, 25, 35, 3)],
            {"cluster_events": [], "connections": [P1, connection(3, H2, client_id="p3")]},
        ),
        # Another cluster has a topic of that name.
        (
            [*BEFORE, *AFTER],
            {
                "cluster_events": [
                    event(
                        "broker_listed", 0, node_id=n, host=f"{host}:9092", told_by=f"{host}:9092", cluster_id=f"c{n}"
                    )
                    for n, host in ((1, B1), (2, B2))
                ]
            },
        ),
        # Nobody tells of clusters, and it is another client
        ([*BEFORE, *AFTER], {"cluster_events": [], "connections": [P1, P2 | {"client": H2}]}),
        ([*BEFORE, *AFTER], {"connections": [P1, P2 | {"client": H2}]}),  # who tells of brokers names no cluster
        ([*BEFORE, *AFTER], {"connections": [P1]}),
    ],
)
def test_where_nothing_is_lost(batches: list[Row], more: dict[str, list[Row]]) -> None:
    assert "records_lost" not in [one.kind for one in found(batches=batches, **TABLES | more)]


def test_without_clusters_a_producer_tells_what_belongs_together() -> None:
    one = only(batches=BEFORE + AFTER, connections=[P1, P2])
    assert one.headline.startswith(f"broker {B2} lacks records of orders 0 that broker {B1} had confirmed")
    assert H1 not in names(one)


def test_offsets_that_no_broker_gives() -> None:
    most = 2**63 - 1
    rows = [given(1, 5, most), given(9, 7, 8, 2), given(20, most, most), given(30, most, most, 2)]
    one = only(batches=[row | {"partition": n} for n in (0, 1) for row in rows], **TABLES)
    assert one.effects[0].count == most


def test_spans_become_wider_where_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_records, "_MOST_SPANS", 8)
    assert only(batches=BEFORE + AFTER, **TABLES).kind == "records_lost"
