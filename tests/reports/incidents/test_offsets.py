"""Committed offsets that somebody sets who is no member of the group."""

from __future__ import annotations

import json

import pytest

from tests.reports.incidents.tables_of import (
    H1,
    Row,
    at,
    committed,
    connection,
    exchange,
    found,
    names,
    only,
    row,
    seconds,
)


def test_offsets_that_somebody_set_who_is_no_member() -> None:
    known: Row = {"client_id": "adm", "client": H1, "group_id": "shop", "connection": 1, "detail": "orders"}
    rows = [row("group_events", event="offsets_altered", at=at(10 + n), number=n, packet=n, **known) for n in (3, 1)]
    other = row("group_events", event="offsets_deleted", at=at(20), number=8, packet=8, **known)
    one = only(group_events=[*rows, other], connections=[connection(1, client_id="adm")])
    assert (one.kind, one.severity, one.certainty) == ("admin_action", "info", "certain")
    assert (names(one), seconds(one.started), seconds(one.ended)) == (["shop", "adm", H1], 11, 13)
    assert f"adm ({H1}), which is no member, set committed offsets of group shop from " in one.headline
    assert one.headline.endswith(" on: orders")
    assert [seen.packet for seen in one.evidence] == [1, 3]
    # What is told as a request of an administrator is not told twice.
    asked = [exchange(n, "AlterShareGroupOffsets", 10 + n, 10 + n, client_id="adm") for n in (1, 3)]
    one = only(group_events=rows, exchanges=asked, connections=[connection(1, client_id="adm")])
    assert "AlterShareGroupOffsets 2 times" in one.headline


def _commit(offsets: dict[int, int]) -> str:
    partitions = [{"partitionIndex": partition, "committedOffset": offset} for partition, offset in offsets.items()]
    return json.dumps({"groupId": "shop", "topics": [{"name": "orders", "partitions": partitions}]})


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        # Of what it had committed at second 10 and later: 100 of partition 2, 50 of partition 3; 4 and 5 are not known.
        (
            [_commit({2: 130, 3: 20, 4: 9, 5: 1})],
            ["30 records that it had not committed are skipped", "30 records that it had committed are read again"],
        ),
        ([_commit({2: 0}), _commit({2: 107})], ["7 records that it had not committed are skipped"]),  # the last one
        ([_commit({2: 100, 3: -1})], []),
        ([_commit({2: 130})[:-5]], []),
        (["7"], []),
        ([None], []),
    ],
)
def test_what_offsets_that_somebody_set_cost(requests: list[str | None], told: list[str]) -> None:
    known: Row = {"client_id": "adm", "client": H1, "group_id": "shop", "connection": 1, "detail": "orders"}
    events = [
        row("group_events", event="offsets_altered", at=at(20 + n), number=n, packet=n, **known)
        for n in range(len(requests))
    ]
    commits = [exchange(n, "OffsetCommit", 20 + n, 21 + n, request=text) for n, text in enumerate(requests)]
    of_another = exchange(9, "OffsetCommit", 30, 31, request=_commit({2: 900}))
    before = [committed(90), committed(100) | {"at": at(11)}, committed(50, 3), committed(7, 4, "pay")]
    behind = committed(120) | {"at": at(19), "width_ms": 1001}
    connections = [connection(1, client_id="adm")]
    one = only(group_events=events, exchanges=[*commits, of_another], lag=[*before, behind], connections=connections)
    assert [effect.text for effect in one.effects] == told
    assert one.headline.endswith("".join(f"; {text}" for text in told))


def test_of_many_groups_each_has_its_own() -> None:
    """As a mirror sets them: of each group, again and again."""
    known: Row = {"client_id": "mm2", "client": H1, "connection": 1, "detail": "orders"}
    groups = ["pay", "shop"]
    events = [
        row("group_events", event="offsets_altered", at=at(20 + n), number=n, packet=n, group_id=groups[n % 2], **known)
        for n in range(4)
    ]
    commits = [exchange(n, "OffsetCommit", 20 + n, 21 + n, request=_commit({2: 110 + 10 * n})) for n in range(4)]
    before = [committed(100), committed(50, group="pay")]
    told = found(group_events=events, exchanges=commits, lag=before, connections=[connection(1, client_id="mm2")])
    assert [(names(one)[0], [effect.count for effect in one.effects]) for one in told] == [
        ("pay", [80]),
        ("shop", [40]),
    ]


def test_offsets_that_a_share_group_refused_were_not_set() -> None:
    known = {"number": 3, "client_id": "adm", "connection": 1}
    event = row("group_events", event="offsets_altered", at=at(13), client=H1, group_id="shop", packet=3, **known)
    asked = exchange(3, "AlterShareGroupOffsets", 13, 13.1, client_id="adm", error="NON_EMPTY_GROUP")
    refused = row("errors", api="AlterShareGroupOffsets", error="NON_EMPTY_GROUP", at=at(13.1), **known)
    tables = {"group_events": [event], "exchanges": [asked], "connections": [connection(1, client_id="adm")]}
    assert found(**tables, errors=[refused]) == []
    assert len(found(**tables)) == 1
