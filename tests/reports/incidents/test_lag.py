"""Groups that fall behind."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.incidents.incident import Weighed
from tests.reports.incidents.tables_of import (
    CLIENT,
    H1,
    IN_GROUP,
    Row,
    at,
    connection,
    exchange,
    finding,
    found,
    member,
    names,
    only,
    rebalance,
    row,
    seconds,
)


def lags(spans: int = 4, grows: float = 40, writes: float = 100, width: int = 10, **given: Any) -> list[Row]:
    """Two partitions of which so many records are written in a span, and so many of them not read."""
    return [
        row(
            "lag",
            group_id="shop",
            topic="orders",
            partition=number,
            at=at(n * width),
            lag=int(grows * n),
            end_offset=int(writes * n),
            commits=1,
            **given,
        )
        for n in range(spans)
        for number in range(2)
    ]


def test_a_group_that_falls_behind() -> None:
    rows = lags(spans=13)
    one = only(lag=rows, rebalances=[IN_GROUP], connections=[CLIENT])
    assert (one.kind, one.severity, one.certainty) == ("consumer_lagging", "warning", "certain")
    assert names(one) == ["shop", "orders", "c1", H1]
    assert "the lag grew by 960 to 960 records in 120 s; 20 records a second are written, 12 are read" in one.headline
    assert (seconds(one.started), one.ended, one.cost_ms) == (0, None, 48_000)
    assert one.evidence[1] == Weighed("in the span that begins here it was 80 records behind", None, at(10), 0.7)


def test_it_is_told_from_the_begin_of_the_capture_on_if_that_lies_in_the_first_span() -> None:
    rows = [one | {"at": at(n // 2 * 10 - 3)} for n, one in enumerate(lags(spans=13))]
    one = only(lag=rows, rebalances=[IN_GROUP], connections=[CLIENT])
    assert "the lag grew by 960 to 960 records in 117 s;" in one.headline
    assert (seconds(one.started), one.evidence[0].at, one.evidence[1].at) == (0, at(0), at(7))


@pytest.mark.parametrize(("spans", "told"), [(15, 15), (16, 8), (21, 11)])
def test_evidence_is_spread_over_the_time(spans: int, told: int) -> None:
    assert len(only(lag=lags(spans)).evidence) == told


def behind(*of_spans: int, writes: float = 100) -> list[Row]:
    """Spans of ten seconds in which each of two partitions is so far behind; it was written before, and read."""
    rows = lags(len(of_spans), writes=writes)
    return [
        one | {"lag": 7 + of_spans[place // 2], "end_offset": 5_000 + one["end_offset"]}
        for place, one in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (behind(0, 30, 60, 100), True),
        (behind(0, 30, 60, 99), False),  # ten seconds of writing
        (behind(0, 5, 9, 13, writes=5), True),  # a record a second
        (behind(0, 100, 50, 150, 200), True),  # it grows in three steps of four
        (behind(0, 100, 50, 40, 200), False),
        (behind(0, 100, 100, 100, 200), False),
        (behind(0, 100, 50, 40, 140, 200), False),
        (lags(4, 34), True),
        (lags(4, 33), False),  # ten seconds of writing
        (lags(3, 99, width=20), False),
        (lags(4, 99, width=9), False),  # for how long
        (lags(5, 0), False),
        (lags(5, 99, writes=0), False),
    ],
)
def test_lag_that_grows_from_span_to_span_by_ten_seconds_of_writing(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(lag=rows)] == ["consumer_lagging"] * told


def test_a_group_that_was_behind_before_falls_further_behind() -> None:
    headline = only(lag=behind(0, 30, 60, 100)).headline
    assert "the lag grew by 200 to 214 records in 30 s; 20 records a second are written, 13 are read" in headline


@pytest.mark.parametrize(("spans", "told"), [(6, True), (5, False)])
def test_it_commits_in_three_spans_of_four(spans: int, told: bool) -> None:
    """One of the two partitions at least."""
    rows = [
        one | {"commits": int(place < 2 * spans and one["partition"] == 0)} for place, one in enumerate(lags(spans=8))
    ]
    assert len(found(lag=rows)) == told


@pytest.mark.parametrize(
    ("started", "since"), [(10, 0), (10.1, 20), (50, 50), (50.1, None), (80, None), (80.1, 0), (None, 0)]
)
def test_what_was_before_the_latest_rebalance_is_another_matter(started: float | None, since: float | None) -> None:
    """But for one as it began; 30 s have to be left."""
    left = rebalance("member_left", 2, started, members=[member("c1")])
    of_kind = [one for one in found(lag=lags(spans=9), rebalances=[left]) if one.kind == "consumer_lagging"]
    assert [seconds(one.started) for one in of_kind] == ([] if since is None else [since])


@pytest.mark.parametrize(
    ("empty", "later", "told"),
    [
        (60, [], True),
        (49, [], True),  # four spans are left
        (39, [], False),
        (39, [rebalance("member_joined", 3, 39.5, members=[member("c1")])], True),
        (39, [rebalance("unknown", 3, 39.5, stable=None)], True),  # who is in it is not known
    ],
)
def test_what_is_written_when_nobody_is_left_in_the_group_is_nobodys_lag(
    empty: float, later: list[Row], told: bool
) -> None:
    rows = [one | {"width_ms": 10_000} for one in behind(0, 40, 80, 120, 160, 200, 240, 280)]
    left = rebalance("member_left", 2, empty)
    kinds = [one.kind for one in found(lag=rows, rebalances=[IN_GROUP, left, *later])]
    assert ("consumer_lagging" in kinds) == told


@pytest.mark.parametrize(("started", "told"), [(30.1, False), (40, False), (40.1, True)])
def test_what_is_written_when_its_members_have_left_is_not_read_slowly(started: float, told: bool) -> None:
    """Of the span in which a rebalance begins nobody knows for how long anybody read."""
    rows = lags(spans=3, grows=33, width_ms=10_000)
    rows += [one | {"lag": 300} for one in lags(spans=4, width_ms=10_000)[-2:]]
    assert bool(found(lag=rows, rebalances=[rebalance("member_left", 2, started)])) == told


@pytest.mark.parametrize(
    ("host", "reads", "told"),
    [(None, 0, False), (H1, 0, True), (None, 1, True)],
)
def test_what_members_read_that_the_capture_lacks_may_be_read(host: str | None, reads: int, told: bool) -> None:
    members = [
        member("c1") | {"assignment": ["orders-0"]},
        member("c2", host) | {"assignment": ["orders-1", "other-0"]},
    ]
    rows = [
        one | {"lag": 0 if one["partition"] == 0 else 2 * one["lag"], "commits": max(reads, 1 - one["partition"])}
        for one in lags(spans=9)
    ]
    joined = rebalance("member_joined", 1, 1, members=members)
    assert bool(found(lag=rows, rebalances=[joined], connections=[CLIENT])) == told


def test_a_group_that_does_not_commit_is_behind_for_another_reason() -> None:
    rows = lags(spans=9)
    assert len(found(lag=rows)) == 1
    assert found(lag=[one | {"commits": 0} if n >= 12 else one for n, one in enumerate(rows)]) == []
    assert found(lag=rows, rebalances=[rebalance("member_left", 2, 60)]) == []
    assert len(found(lag=rows, rebalances=[rebalance("member_left", 2, 60, "other")])) == 1
    assert found(lag=[one | {"group_id": None} for one in rows]) == []


@pytest.mark.parametrize(
    ("grows", "writes", "reader", "words", "advice"),
    [
        ((40, 40), (100, 100), "c1", None, "Give the group more members"),
        ((32, 8), (100, 100), "c1", "80 % of the lag is in orders-0, which c1 reads", "Look at the member"),
        ((31, 8), (100, 100), "c1", None, "Give the group more members"),
        ((40, 0), (100, 100), None, "100 % of the lag is in orders-0", "Look at the member"),
        ((40, -2), (100, 100), "c1", "100 % of the lag is in orders-0, which c1 reads", "Look at the member"),
        (
            (1, 39),
            (10, 190),
            "c1",
            "98 % of the lag is in orders-1, to which 95 % of the records are written",
            "More members do not help",
        ),
    ],
)
def test_one_partition_may_be_behind_while_the_others_are_not(
    grows: tuple[int, int], writes: tuple[int, int], reader: str | None, words: str | None, advice: str
) -> None:
    rows = [
        one
        | {
            "lag": 100 + grows[one["partition"]] * n,
            "end_offset": 500 + writes[one["partition"]] * n,
            "client_id": reader,
        }
        for n in range(13)
        for one in lags(spans=n + 1)[-2:]
    ]
    one = only(lag=rows, rebalances=[IN_GROUP], connections=[CLIENT])
    assert one.kind == "consumer_lagging"
    assert one.headline.endswith(" are read" if words is None else f" are read; {words}")
    assert one.advice.startswith(advice)


def of_members(grows: list[float], readers: str, writes: float = 20, spans: int = 5) -> list[Row]:
    """A partition for each letter of its reader's name, that grows so much in ten seconds."""
    return [
        row("lag", group_id="shop", topic="orders", partition=number, at=at(10 * n), commits=1)
        | {"lag": 30 + int(grew * n), "end_offset": int(writes * n), "client_id": f"c{readers[number]}"}
        for n in range(spans)
        for number, grew in enumerate(grows)
    ]


@pytest.mark.parametrize(
    ("grows", "told"),
    [
        ([0, 0, 0, 0, 13, 13], "orders 4-5"),  # of 20 that are written in 10 s; of all a group may leave 33
        ([0, 0, 0, 0, 12, 12], None),  # less than a hundred records in all
        ([-3, 0, 0, 0, 16, 16], "orders 4-5"),
        ([0, 0, 0, 0, 2, 26], None),  # ten seconds of writing are 20 records, and 8 less: its reader keeps up elsewhere
        ([0, 0, 0, 0, 0, 24], None),
        ([20, 20, 20, 20, 20, 20], "orders"),
    ],
)
def test_one_member_may_be_slow_while_its_group_keeps_up(grows: list[float], told: str | None) -> None:
    rows = of_members(grows, "112233")
    members = [connection(number, client_id=f"c{number}") for number in (1, 2, 3)]
    headlines = [one.headline for one in found(lag=rows, rebalances=[IN_GROUP], connections=members)]
    assert [one.partition("reads ")[2].partition(" more slowly")[0] for one in headlines] == ([told] if told else [])


def test_who_reads_the_partitions_that_are_behind() -> None:
    one = only(lag=of_members([0, 0, 0, 0, 13, 13], "112233"), connections=[connection(3, client_id="c3")])
    words = (
        "the lag grew by 104 to 164 records in 40 s; 4 records a second are written, 1 are read; 100 % of the lag is in"
    )
    assert one.headline.endswith(f"{words} orders 4-5, which c3 reads")
    assert names(one) == ["shop", "orders", "c3", H1]
    assert one.advice.startswith("Look at who reads these partitions")
    rows = of_members([20, 20, 20, 0, 0, 0], "123123", spans=6)
    assert only(lag=rows).headline.endswith("100 % of the lag is in orders 0-2, which c1, c2, c3 read")


def test_a_topic_of_one_partition_has_no_other() -> None:
    rows = [one for one in lags(spans=13) if one["partition"] == 0]
    assert only(lag=rows, rebalances=[IN_GROUP], connections=[CLIENT]).headline.endswith(" are read")


def waits(seconds: float, api: str = "Fetch", client_id: str = "c1", begins: float = 0) -> Row:
    """An exchange whose answer tells a client for how long a quota has it wait."""
    return exchange(int(begins), api, begins - 0.1, begins, client_id=client_id, throttle_ms=seconds * 1000)


QUOTA = finding("throttled", f"client c1 ({H1})", "Held back by a quota", 5, 30)


def test_a_group_that_a_quota_holds_back_is_told_with_the_quota() -> None:
    growing = finding("lag_growing", "group shop", "t", 0, 30)
    one = only(
        lag=lags(),
        exchanges=[waits(10), waits(5, begins=30)],
        rebalances=[IN_GROUP],
        connections=[CLIENT],
        findings=[QUOTA, growing],
    )
    assert one.kind == "throttled"
    assert one.headline.endswith("; group shop fell behind in orders: the lag grew by 240 to 240 records in 30 s")
    assert names(one) == ["c1", H1, "shop"]
    assert one.findings == {QUOTA["id"], growing["id"]}


@pytest.mark.parametrize(
    "exchanges",
    [
        [waits(14.9)],  # half of the time
        [waits(30, begins=31)],
        [waits(30, "Produce")],
        [waits(30, client_id="c2")],
        [waits(0)],
    ],
)
def test_a_quota_that_has_little_to_do_with_it_is_told_for_itself(exchanges: list[Row]) -> None:
    told = found(lag=lags(), exchanges=exchanges, rebalances=[IN_GROUP], connections=[CLIENT], findings=[QUOTA])
    assert sorted(one.kind for one in told) == ["consumer_lagging", "throttled"]
