"""Groups whose members all leave as soon as they are sent records."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.incidents.incident import Incident
from tests.reports.incidents.tables_of import (
    H1,
    H2,
    Row,
    at,
    connection,
    exchange,
    found,
    group_event,
    member,
    names,
    rebalance,
    row,
    seconds,
)

END = 100.0
CONNECTIONS = [connection(1, opened=1), connection(2, H2, client_id="c2", opened=1)]


def got(client_id: str, host: str, synced: float, turn: int, partitions: tuple[str, ...] = ("orders-0",)) -> Row:
    known = member(client_id, host, f"{client_id}-{turn}")
    return known | {"synced": at(synced), "assignment": [*partitions]}


def left(client_id: str, host: str, time: float, turn: int, **given: Any) -> Row:
    return group_event("left", time, member_id=f"{client_id}-{turn}", client_id=client_id, client=host, **given)


def sent(number: int, time: float, codec: str = "snappy") -> Row:
    return row("batches", connection=number, at=at(time), direction="fetch", records=7, codec=codec)


FIRST = rebalance("member_joined", 1, 10, members=[got("c1", H1, 11, 1), got("c2", H2, 11, 1, ("orders-1",))])
AGAIN = rebalance("member_joined", 3, 30, members=[got("c1", H1, 31, 2, ("orders-0", "orders-1"))])
LEFT = [left("c1", H1, 12, 1), left("c2", H2, 12.1, 1), left("c1", H1, 33, 2)]
SENT = [sent(1, 11.9, "none"), sent(2, 12), sent(1, 32)]


def of(*rows: Row, **tables: Any) -> list[Incident]:
    known: dict[str, Any] = {"group_events": LEFT, "batches": SENT, "connections": CONNECTIONS}
    incidents = found(rebalances=list(rows or [FIRST, AGAIN]), **known | tables)
    return [one for one in incidents if one.kind == "consumer_stuck"]


def test_all_members_leave_when_they_are_sent_records() -> None:
    (one,) = of()
    assert (one.severity, one.certainty, names(one)) == ("warning", "likely", ["shop", "orders", "c1", "c2", H1, H2])
    assert (seconds(one.started), one.ended) == (12, None)
    assert one.headline.startswith(
        "all members of group shop leave as soon as they are sent records (snappy), and commit nothing: c1, c2, 3 times"
    )
    assert "half of the times after 1.1 s; nobody read orders 0-1 for " in one.headline
    assert [seen.packet for seen in one.evidence] == [8] * 3
    assert one.rebalances == {("shop", 1), ("shop", 3)}


@pytest.mark.parametrize(("nameless", "who"), [(("c2",), "c1"), (("c1", "c2"), "members without a name")])
def test_a_client_may_have_no_name(nameless: tuple[str, ...], who: str) -> None:
    tables = {
        name: [one | {"client_id": None} if one["client_id"] in nameless else one for one in rows]
        for name, rows in (("group_events", LEFT), ("connections", CONNECTIONS))
    }
    (one,) = of(**tables)
    assert f"commit nothing: {who}, 3 times" in one.headline
    assert "None" not in one.headline + str([seen.text for seen in one.evidence])


def test_until_somebody_stays() -> None:
    stays = rebalance("member_joined", 5, 50, members=[got("c1", H1, 51, 3)])
    (one,) = of(FIRST, AGAIN, stays)
    assert seconds(one.ended) == 50
    assert "; nobody read orders 0-1 for 38.0 s" in one.headline


@pytest.mark.parametrize(("begun", "told"), [(21.9, 0), (22, 1)])
def test_what_is_over_soon_is_none(begun: float, told: int) -> None:
    both = [got("c1", H1, 11, 1), got("c2", H2, 11, 1), got("c2", H2, 11, 2)]
    events = [*LEFT[:2], left("c2", H2, 12.2, 2)]
    stays = rebalance("member_joined", 3, begun, members=[got("c1", H1, begun + 1, 3)])
    assert len(of(FIRST | {"members": both}, stays, group_events=events)) == told


def test_who_had_read_before_does_not_leave_for_what_it_reads() -> None:
    before = rebalance("member_joined", 0, 2, members=[got("c1", H1, 3, 1)])
    assert not of(before, FIRST, AGAIN)


COMMIT = exchange(9, "OffsetCommit", 32.5, 32.6, group_id="shop", connection=1)


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"exchanges": [COMMIT]}, False),  # a job that is done
        ({"exchanges": [COMMIT | {"group_id": "other"}]}, True),
        ({"exchanges": [COMMIT | {"requested": at(10)}]}, True),
        ({"batches": SENT[:2]}, False),  # the last one was sent nothing
        ({"batches": [*SENT[:2], sent(1, 33.5)]}, False),
        ({"group_events": LEFT[:2]}, False),  # few
        ({"group_events": [*LEFT[:2], left("c1", H1, 36, 2)]}, True),
        ({"group_events": [*LEFT[:2], left("c1", H1, 36.1, 2)]}, False),  # not at once
        ({"group_events": [*LEFT[:2], left("c1", H1, 33, 2, detail="consumer poll timeout has expired.")]}, False),
        ({"group_events": [*LEFT[1:], left("c3", H1, 33, 1)]}, False),  # c1 stays
    ],
)
def test_when_it_is_not_so(tables: dict[str, list[Row]], told: bool) -> None:
    assert len(of(**tables)) == told


def test_one_that_is_alone_in_its_group_may_end_soon() -> None:
    rows = [rebalance("member_joined", n, 10.0 * n, members=[got("c1", H1, 10 * n + 1, n)]) for n in (1, 3, 5)]
    events = [left("c1", H1, 10 * n + 3, n) for n in (1, 3, 5)]
    assert not of(*rows, group_events=events, batches=[sent(1, 10 * n + 2) for n in (1, 3, 5)])
