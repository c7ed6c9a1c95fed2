"""Records that share groups give up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import H1, Row, connection, exchange, found, names, only, partition, seconds

LEAST = int(threshold("given_up"))
ACCEPT, RELEASE, REJECT = 1, 2, 3
TOPIC = "AAAAAAAAAAAAAAAAAAAAAQ"


def of_topic(partition: Row, topic: str) -> list[Row]:
    return [{"topicId": topic, "partitions": [{"partitionIndex": 0} | partition]}]


def fetch(
    number: int,
    said: tuple[int, int, list[int]] | None = None,
    given: tuple[int, int, int] | None = None,
    topic: str = TOPIC,
    **more: Any,
) -> Row:
    """A ShareFetch that says something of a range of offsets, and is given one, of so many deliveries."""
    request: Row = {"groupId": "share", "topics": []}
    response: Row = {"responses": []}
    if said is not None:
        first, last, types = said
        batch = {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": types}
        request["topics"] = [
            {"topicId": topic, "partitions": [{"partitionIndex": 0, "acknowledgementBatches": [batch]}]}
        ]
    if given is not None:
        first, last, deliveries = given
        acquired = {"firstOffset": first, "lastOffset": last, "deliveryCount": deliveries}
        response["responses"] = [
            {"topicId": topic, "partitions": [{"partitionIndex": 0, "acquiredRecords": [acquired]}]}
        ]
    known = {"group_id": "share", "request": json.dumps(request), "response": json.dumps(response)} | more
    return exchange(number, "ShareFetch", 10 + number, 10.5 + number, **known)


NAMES = [partition("ShareFetch", 11, number=1)]


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
    rows = [row for n in range(1, 6) for row in (fetch(2 * n, given=(0, 19, n)), fetch(2 * n + 1, (0, 19, [RELEASE])))]
    one = only(exchanges=rows)
    assert (one.certainty, names(one)) == ("likely", ["share", TOPIC, "c1"])
    assert one.headline.endswith("; 20 records released at the 5th delivery, after which none comes")
    assert found(exchanges=rows[:-1]) == []  # it may come once more


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
