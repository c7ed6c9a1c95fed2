"""Records that share groups give up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import H1, Row, connection, exchange, found, names, only, seconds
from tests.reports.incidents.tables_of import partition as told_of

LEAST = int(threshold("given_up"))
ACCEPT, RELEASE, REJECT = 1, 2, 3
TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"


def of_topic(said: Row, topic: str, partition: int) -> list[Row]:
    return [{"topicId": topic, "partitions": [{"partitionIndex": partition} | said]}]


def fetch(
    number: int,
    said: tuple[int, int, list[int]] | None = None,
    given: tuple[int, int, int] | None = None,
    topic: str = TOPIC,
    partition: int = 0,
    **more: Any,
) -> Row:
    """A ShareFetch that says something of a range of offsets, and is given one, of so many deliveries."""
    request: Row = {"groupId": "share", "topics": []}
    response: Row = {"responses": []}
    if said is not None:
        first, last, types = said
        batch = {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": types}
        request["topics"] = of_topic({"acknowledgementBatches": [batch]}, topic, partition)
    if given is not None:
        first, last, deliveries = given
        acquired = {"firstOffset": first, "lastOffset": last, "deliveryCount": deliveries}
        response["responses"] = of_topic({"acquiredRecords": [acquired]}, topic, partition)
    known = {"group_id": "share", "request": json.dumps(request), "response": json.dumps(response)} | more
    return exchange(number, "ShareFetch", 10 + number, 10.5 + number, **known)


NAMES = [told_of("ShareFetch", 11, number=1)]


def test_records_that_are_rejected() -> None:
    rows = [fetch(1, given=(0, 29, 1)), fetch(2, (0, 9, [ACCEPT])), fetch(3, (10, 29, [REJECT]))]
    one = only(exchanges=rows, partitions=NAMES, connections=[connection(1)])
    assert (one.kind, one.severity, one.certainty) == ("records_given_up", "warning", "certain")
    assert names(one) == ["share", "orders", "c1", H1]
    assert (seconds(one.started), seconds(one.ended)) == (13, 13.5)
    assert one.headline.startswith("share group share gives records of orders up from ")
    assert one.headline.endswith(": c1 accepted 10 records; 20 records rejected")
    assert [seen.text for seen in one.evidence] == [
        "the first that c1 did not accept",
        "10 records accepted",
        "20 records rejected",
    ]


def test_records_that_are_released_until_none_comes() -> None:
    rows = [fetch(n, (0, 19, [RELEASE])) for n in range(1, 5)]
    assert found(exchanges=[*rows, fetch(6, (10, 19, [RELEASE]), partition=1)]) == []
    halves = [fetch(6, (0, 9, [RELEASE])), fetch(7, (10, 19, [RELEASE] * 9 + [ACCEPT]))]
    one = only(exchanges=[*rows, *halves])
    assert (one.certainty, names(one)) == ("likely", ["share", TOPIC, "c1"])
    assert one.headline.endswith("c1 accepted 1 record; 19 records released 5 times or more, after which none comes")


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([fetch(1, (0, LEAST - 1, [REJECT]))], True),
        ([fetch(1, (0, LEAST - 2, [REJECT]))], False),
        ([fetch(1, (0, LEAST - 1, [REJECT] * LEAST))], True),  # a type for each
        ([fetch(1, (0, LEAST - 1, [REJECT] * (LEAST - 1) + [ACCEPT]))], False),
        ([fetch(1, (0, 9, [REJECT])), fetch(2, (10, 199, [ACCEPT]))], True),
        ([fetch(1, (0, 9, [REJECT])), fetch(2, (10, 200, [ACCEPT]))], False),  # one in twenty
        ([fetch(1, (0, 99, [ACCEPT]))], False),
        ([fetch(1, (0, 99, [RELEASE]))], False),  # to be delivered again
        ([fetch(1, (0, 99, [0]))], False),  # a gap
        ([fetch(1, (0, 99, [REJECT]), request="{cut")], False),
        ([fetch(1, (9, 0, [REJECT]))], False),
        ([fetch(1, (0, 99, [REJECT])) | {"api": "ShareAcknowledge"}], True),
        ([fetch(1, (0, 99, [REJECT])) | {"api": "Fetch"}], False),
        ([fetch(1, (0, 6, [REJECT])), fetch(2, (0, 6, [REJECT]), topic="BBBB")], False),  # of each topic
    ],
)
def test_single_records_are_what_rejecting_is_for(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(exchanges=rows)] == ["records_given_up"] * told
