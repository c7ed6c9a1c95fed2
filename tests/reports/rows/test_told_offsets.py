"""Offsets that groups commit and brokers tell: against the bodies of real captures, and written by hand."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from kafkascope.decoders import apis
from kafkascope.reports.rows.builder import TableBuilder
from kafkascope.reports.vocabulary.tables import TOLD_OFFSETS
from tests.joined import joined
from tests.reports.captured_tables import captured
from tests.reports.written_exchanges import Written, exchanges

NEEDS = frozenset({"told_offsets", "exchanges"})
LATEST = -1


def said(*written: Written) -> list[dict[str, Any]]:
    made = joined(TableBuilder(frozenset({"told_offsets"})).observe(exchanges(*written), {}))
    table = made.get("told_offsets", TOLD_OFFSETS.empty_table())
    assert table.schema == TOLD_OFFSETS
    return [
        {name: row[name] for name in ("group_id", "topic", "partition", "offset", "error")} for row in table.to_pylist()
    ]


def of_body(row: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What an exchange of the table tells, read from the JSON of its bodies."""
    request = json.loads(row["request"]) if row["request"] else {}
    response = json.loads(row["response"]) if row["response"] else {}
    found = []
    if row["api"] == "OffsetFetch":
        for group in response.get("groups") or [response | {"groupId": request.get("groupId")}]:
            for topic in group.get("topics") or []:
                for one in topic["partitions"]:
                    offset = None if one["committedOffset"] < 0 else one["committedOffset"]
                    found.append((group["groupId"], topic.get("name"), one["partitionIndex"], offset))
    elif row["api"] in ("OffsetCommit", "TxnOffsetCommit"):
        for topic in request.get("topics") or []:
            for one in topic["partitions"]:
                found.append((request["groupId"], topic.get("name"), one["partitionIndex"], one["committedOffset"]))
    return [(row["connection"], row["number"], row["api"], *one) for one in found]


@pytest.mark.parametrize("capture", ["eager-three-joins", "transactions", "mixed-versions", "clients_librdkafka"])
def test_rows_are_what_bodies_say(capture: str) -> None:
    tables, _ = captured(capture, NEEDS)
    expected = Counter(one for row in tables["exchanges"].to_pylist() for one in of_body(row))
    told = [row for row in tables["told_offsets"].to_pylist() if row["api"] != "ListOffsets"]
    columns = ("connection", "number", "api", "group_id", "topic", "partition", "offset")
    assert len(expected) > 20
    assert Counter(tuple(row[name] for name in columns) for row in told) == expected
    assert {row["error"] for row in told} == {"NONE"}


@pytest.mark.parametrize("capture", ["killed-consumer", "rebalance-storm", "streams-classic", "connect"])
def test_what_is_committed_is_what_was_committed_last(capture: str) -> None:
    tables, _ = captured(capture, NEEDS)
    rows = sorted(tables["told_offsets"].to_pylist(), key=lambda row: (row["at"], row["connection"], row["number"]))
    last: dict[tuple[Any, ...], int | None] = {}
    compared = 0
    for row in rows:
        key = row["group_id"], row["topic"], row["partition"]
        if row["api"] in ("OffsetCommit", "TxnOffsetCommit") and row["error"] == "NONE":
            last[key] = row["offset"]
        elif row["api"] == "OffsetFetch" and key in last:
            assert row["offset"] == last[key], row
            compared += 1
    assert compared


def test_each_group_of_one_answer_has_its_offsets_and_none_is_null() -> None:
    def topic(name: str, *offsets: int) -> dict[str, Any]:
        return {
            "name": name,
            "partitions": [{"partitionIndex": i, "committedOffset": o} for i, o in enumerate(offsets)],
        }

    groups = [
        {"groupId": "a", "topics": [topic("x", 5, -1), topic("y", 7)]},
        {"groupId": "b", "topics": [topic("x", 9)]},
    ]
    rows = said(Written(apis.OFFSET_FETCH, 8, {"groups": []}, {"groups": groups}))
    assert [tuple(row.values()) for row in rows] == [
        ("a", "x", 0, 5, "NONE"),
        ("a", "x", 1, None, "NONE"),
        ("a", "y", 0, 7, "NONE"),
        ("b", "x", 0, 9, "NONE"),
    ]


def test_a_commit_has_the_error_of_its_own_partition_and_none_without_an_answer() -> None:
    def commit(response: dict[str, Any] | None) -> Written:
        partitions = [{"partitionIndex": i, "committedOffset": 10 + i} for i in range(3)]
        request = {"groupId": "g", "topics": [{"name": "x", "partitions": partitions}]}
        return Written(apis.OFFSET_COMMIT, 6, request, response)

    answers = [{"partitionIndex": i, "errorCode": code} for i, code in ((2, 25), (0, 0), (1, 27))]
    rows = said(commit({"topics": [{"name": "x", "partitions": answers}]}), commit(None))
    assert [(row["offset"], row["error"]) for row in rows] == [
        (10, "NONE"),
        (11, "REBALANCE_IN_PROGRESS"),
        (12, "UNKNOWN_MEMBER_ID"),
        (10, None),
        (11, None),
        (12, None),
    ]


def test_only_the_end_is_taken_from_what_is_asked_of_offsets() -> None:
    asked = [{"partitionIndex": 0, "timestamp": LATEST}, {"partitionIndex": 1, "timestamp": -2}]
    told = [{"partitionIndex": 0, "offset": 44}, {"partitionIndex": 1, "offset": 3}]
    rows = said(
        Written(
            apis.LIST_OFFSETS,
            5,
            {"topics": [{"name": "x", "partitions": asked}]},
            {"topics": [{"name": "x", "partitions": told}]},
        ),
        Written(apis.LIST_OFFSETS, 5, None, {"topics": [{"name": "x", "partitions": told}]}),
    )
    assert [(row["group_id"], row["partition"], row["offset"]) for row in rows] == [(None, 0, 44)]
