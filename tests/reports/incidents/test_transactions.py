"""Transactions that stay open, and that are committed too late."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import duration
from kafkascope.reports.vocabulary.thresholds import threshold
from tests.reports.incidents.tables_of import (
    B2,
    H1,
    H2,
    SECOND,
    Row,
    at,
    connection,
    error,
    exchange,
    finding,
    found,
    group_event,
    health,
    names,
    only,
    partition,
    rebalance,
    row,
    seconds,
)

OPEN = threshold("open_transaction")


def held(*times: float, **given: Any) -> list[Row]:
    """Answers to fetches by which records behind an open transaction wait."""
    return [partition("Fetch", time, last_stable_offset=50, high_watermark=60, **given) for time in times]


def written(**given: Any) -> Row:
    known = {"connection": 4, "topic": "orders", "partition": 0, "base_offset": 48, "last_offset": 52}
    return row("batches", **{"direction": "produce", "transactional": True, **known, **given})


def test_a_transaction_that_holds_readers_back() -> None:
    producer = connection(4, H2, client_id="p1")
    one = only(partitions=held(10, 20, 40), batches=[written()], connections=[producer])
    assert (one.kind, one.severity, one.certainty) == ("hung_transaction", "critical", "certain")
    assert (names(one), seconds(one.started), seconds(one.ended)) == (["p1", H2, "orders"], 10, 40)
    assert "a transaction of p1 stayed open" in one.headline
    for other in ({"base_offset": 51}, {"last_offset": 49}, {"transactional": False}, {"direction": "fetch"}):
        one = only(partitions=held(10, 40), batches=[written(**other)], connections=[producer])
        assert (one.certainty, names(one)) == ("likely", ["orders"])
        assert "(its producer is not in the capture)" in one.headline


@pytest.mark.parametrize(("other", "incidents"), [({}, 1), ({"producer_id": 8}, 2), ({"connection": 6}, 2)])
def test_one_transaction_writes_to_several_brokers(other: Row, incidents: int) -> None:
    rows = [*held(10, 40), *held(10.5, 40, partition=1)]
    second = written(partition=1, **{"connection": 5, "producer_id": 7} | other)
    producers = [
        connection(4, H2, client_id="p1"),
        connection(5, H2, B2, client_id="p1"),
        connection(6, H1, B2, client_id="p1"),  # another process
    ]
    told = found(partitions=rows, batches=[written(producer_id=7), second], connections=producers)
    assert [one.kind for one in told] == ["hung_transaction"] * incidents
    if incidents == 1:
        assert "a transaction of p1 stayed open: readers of committed records of orders 0-1 saw" in told[0].headline
        assert [(seen.packet, seconds(seen.at)) for seen in told[0].evidence] == [(4, 10), (5, 10.5)]


@pytest.mark.parametrize(("lasts", "told"), [(OPEN, True), (OPEN - 0.1, False)])
def test_transactions_may_be_open_for_a_while(lasts: float, told: bool) -> None:
    assert [one.kind for one in found(partitions=held(10, 10 + lasts))] == ["hung_transaction"] * told
    assert found(partitions=held(10, 10 + lasts, topic="__cluster_metadata")) == []
    done = [partition("Fetch", time, last_stable_offset=60, high_watermark=60) for time in (10, 10 + lasts)]
    assert found(partitions=done) == []


def transaction(ends: float, error: str | None = "INVALID_TXN_STATE", timeout_ms: int = 30_000) -> list[Row]:
    name = '"transactionalId": "tx"'
    return [
        exchange(1, "InitProducerId", 5, 5.1, request=f'{{{name}, "transactionTimeoutMs": {timeout_ms}}}'),
        exchange(2, "Produce", 10, 10.1, request=f"{{{name}}}"),
        exchange(3, "Produce", 12, 12.1, request=f"{{{name}}}"),
        exchange(4, "EndTxn", ends, ends + 0.1, request=f"{{{name}}}", error=error),
    ]


REFUSED = error("INVALID_TXN_STATE", "EndTxn", 40, 41)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (transaction(40), True),
        (transaction(39.9), False),
        (transaction(40, None), False),
        (transaction(40)[1:], False),  # its timeout is not known
        ([one | {"request": '{"transactionalId": null}'} for one in transaction(40)], False),
        ([one | {"request": "cut off {"} for one in transaction(40)], False),
        ([one | {"request": None} for one in transaction(40)], False),
    ],
)
def test_a_commit_that_comes_when_the_coordinator_had_aborted(rows: list[Row], told: bool) -> None:
    incidents = found(exchanges=rows, error_histogram=[REFUSED])
    assert [one.kind for one in incidents] == ["hung_transaction"] * told
    if told:
        assert "c1 did not end transaction tx for 30.1 s" in incidents[0].headline
        assert [seen.packet for seen in incidents[0].evidence] == [2, 4]


def next_write(api: str = "Produce", name: str = "INVALID_PRODUCER_EPOCH", time: float = 40) -> list[Row]:
    """What a producer sends whose transaction the coordinator has aborted, with a newer epoch."""
    return [*transaction(0)[:3], exchange(4, api, time, time + 0.1, request='{"transactionalId": "tx"}', error=name)]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (next_write(), True),
        (next_write(name="PRODUCER_FENCED"), True),
        (next_write("AddPartitionsToTxn"), True),
        (next_write("TxnOffsetCommit"), True),
        (next_write("EndTxn"), True),
        (next_write(name="CONCURRENT_TRANSACTIONS"), False),
        (next_write(time=39.9), False),
        ([*next_write(), exchange(9, "EndTxn", 30, 30.1, request='{"transactionalId": "tx"}', error="NONE")], False),
    ],
)
def test_what_comes_when_the_coordinator_had_aborted_is_refused_as_of_an_older_epoch(
    rows: list[Row], told: bool
) -> None:
    last = next(one for one in rows if one["number"] == 4)
    incidents = found(exchanges=rows, error_histogram=[error(last["error"], last["api"], 40, 41)])
    assert [(one.kind, one.certainty) for one in incidents] == [("hung_transaction", "likely")] * told
    if told:
        what = "the commit" if last["api"] == "EndTxn" else "what it sent next"
        assert incidents[0].headline.endswith(f"so the coordinator aborted it, and {what} was refused")
        assert incidents[0].evidence[2].rejected


@pytest.mark.parametrize(("later", "incidents"), [(90, 1), (110, 2)])
def test_one_that_is_overdue_again_within_a_minute_is_one_incident(later: float, incidents: int) -> None:
    rows = transaction(40)
    again = [one | {"number": one["number"] + 4, "requested": one["requested"] + later * SECOND} for one in rows]
    again = [one | {"answered": one["answered"] + later * SECOND} for one in again]
    told = found(exchanges=[*rows, *again], error_histogram=[REFUSED])
    assert len(told) == incidents
    if incidents == 1:
        assert "c1 did not end transaction tx in time, 2 times from " in told[0].headline
        assert "the longest for 30.1 s; its timeout is 30.0 s, so the coordinator aborted it each" in told[0].headline
        assert (seconds(told[0].started), seconds(told[0].ended), told[0].cost_ms) == (10, 130.1, 60_000)
        assert len(told[0].evidence) == 4


@pytest.mark.parametrize(("time", "told"), [(3, True), (20, False)])
def test_who_is_fenced_by_another_process_was_not_overdue(time: float, told: bool) -> None:
    request = '{"transactionalId": "tx", "transactionTimeoutMs": 30000}'
    other = exchange(7, "InitProducerId", time, time + 0.1, request=request, client_id="c2", connection=2)
    tables = {"exchanges": [*next_write(), other], "connections": [connection(1), connection(2, H2, client_id="c2")]}
    incidents = found(error_histogram=[error("INVALID_PRODUCER_EPOCH", "Produce", 40, 41)], **tables)
    assert [one.kind for one in incidents] == ["hung_transaction"] * told


def test_brokers_that_tell_no_stable_offset_hold_nobody_back() -> None:
    """Before 2.0 they tell -1 to who reads uncommitted records."""
    rows = [partition("Fetch", at, last_stable_offset=-1, high_watermark=60 + at) for at in range(10, 60, 5)]
    assert found(partitions=rows) == []


def test_transactions_one_after_the_other_are_no_long_one() -> None:
    """As of a job that commits at each checkpoint."""
    rows, batches = [], []
    for number in range(4):
        begin = 10 + 40 * number
        rows += [row | {"last_stable_offset": 100 * number, "high_watermark": 999} for row in held(begin, begin + 30)]
        batches.append(written(base_offset=100 * number, last_offset=100 * number + 99))
    one = only(partitions=rows, batches=batches, connections=[connection(4, H2, client_id="job")])
    assert (one.severity, one.cost_ms, one.effects[0].duration_ms) == ("warning", 120_000, 30_000)
    assert one.headline.startswith("4 transactions of job, one after the other, stayed open from ")
    assert one.headline.endswith(" saw nothing new for up to 30.0 s each time")
    unseen = [one.effects[0].duration_ms for one in found(partitions=rows)]
    assert unseen == [30_000] * 4  # nobody knows whether they are of one producer


def test_one_transaction_is_one_incident() -> None:
    held_back = finding("hanging_transaction", "client c9 (10.0.1.9)", "orders-0: readers are held", 12, 39)
    both = {"connections": [connection(1), connection(4, H2, client_id="c1")], "batches": [written(at=at(11))]}
    one = only(
        **both, partitions=held(12, 20, 39), exchanges=transaction(40), error_histogram=[REFUSED], findings=[held_back]
    )
    assert seconds(one.started) == 10
    assert one.findings == {held_back["id"]}


@pytest.mark.parametrize(
    ("seen", "batch", "ms"),
    [
        ((12, 45), {}, 33_000),
        ((12, 13), {}, 28_000),  # its timeout is over at 40; answers do not tell again what has not changed
        ((39.5, 39.9), {}, 500),
        ((12, 39), {"at": at(9)}, None),  # of the transaction before
        ((12, 39), {"base_offset": 51}, None),
        ((12, 39), {"connection": 5}, None),  # of another producer
        ((12, 39), {"partition": 1}, None),
        ((), {}, None),
    ],
)
def test_a_transaction_holds_back_what_lies_behind_its_records_until_its_coordinator_aborts_it(
    seen: tuple[float, ...], batch: Row, ms: float | None
) -> None:
    incidents = found(
        connections=[connection(1), connection(4, H2, client_id="c1"), connection(5, H2, client_id="c5")],
        batches=[written(**{"at": at(11)} | batch)],
        partitions=held(*seen),
        exchanges=transaction(50),
        error_histogram=[error("INVALID_TXN_STATE", "EndTxn", 50, 51)],
    )
    (one,) = (each for each in incidents if "did not end transaction tx for 40.1 s" in each.headline)
    assert [(each.text, each.duration_ms) for each in one.effects] == (
        [] if ms is None else [(f"orders 0 held back for at least {duration(ms)}", ms)]
    )
    assert one.cost_ms == (ms or 30_000)  # its timeout


def test_readers_of_another_topic_stop_for_another_reason() -> None:
    seen = [{"text": f"{topic}-0: after 30 s", "packet": None, "at": at(10)} for topic in ("orders", "payments")]
    stops = [finding("commits_stopped", f"group {n}", "x", 10, 40, evidence=[one]) for n, one in enumerate(seen)]
    one = only(
        partitions=held(10, 20, 40),
        batches=[written()],
        connections=[connection(4, H2, client_id="p1")],
        findings=stops,
    )
    assert one.findings == {stops[0]["id"]}


def lost_member(**given: Any) -> dict[str, list[Row]]:
    """A member of c1 that falls silent at 30, and is taken out of its group at 40."""
    known = {"member_id": "c1-id", "client_id": "c1", "client": H1}
    return {
        "rebalances": [rebalance("session_timeout", 5, 40, trigger_member="c1-id", trigger_client_id="c1")],
        "group_events": [group_event("silence_begun", 30, **known)],
        "connections": [connection(1, opened=1), connection(4, H1, client_id="p1"), connection(5, H2, client_id="p2")],
        "tcp_health": [health(1, "client", [30], [30])],
        **given,
    }


@pytest.mark.parametrize(
    ("given", "timeout_ms", "alone"),
    [
        ({}, 25_000, True),
        ({}, 19_000, False),  # that was over before it fell silent
        ({"number": 3, "requested": at(33), "answered": at(33.1)}, 25_000, False),  # it goes on to speak
        ({"connection": 5}, 25_000, False),  # of another host
    ],
)
def test_what_a_lost_member_leaves_open_is_told_with_that(given: Row, timeout_ms: int, alone: bool) -> None:
    rows = transaction(50, timeout_ms=timeout_ms)
    rows = [one | ({} if given.get("number", one["number"]) != one["number"] else given) for one in rows]
    refused = error("INVALID_TXN_STATE", "EndTxn", 50, 51)
    incidents = found(**lost_member(exchanges=rows, error_histogram=[refused]))
    assert [one.kind for one in incidents if one.kind == "hung_transaction"] == ["hung_transaction"] * (not alone)
    (one,) = (each for each in incidents if each.kind != "hung_transaction")
    assert one.headline.endswith("; transaction tx was left open, and aborted") == alone
    assert one.effects[-1].count == 1


@pytest.mark.parametrize(
    ("began", "connection_of", "asks", "alone"),
    [(30.9, 4, None, True), (31.1, 4, None, False), (29, 5, None, False), (29, 4, 35, False), (29, 4, 45, True)],
)
def test_so_is_what_readers_of_committed_records_wait_for(
    began: float, connection_of: int, asks: float | None, alone: bool
) -> None:
    rows = [] if asks is None else [exchange(9, "Produce", asks, asks + 0.1, connection=4, client_id="p1")]
    told = lost_member(partitions=held(began, 56), batches=[written(connection=connection_of)], exchanges=rows)
    incidents = found(**told)
    assert [one.kind for one in incidents if one.kind == "hung_transaction"] == ["hung_transaction"] * (not alone)
    (one,) = (each for each in incidents if each.kind != "hung_transaction")
    waited = duration((56 - began) * 1000)
    assert one.headline.endswith(f"; orders 0 held back for {waited}, as a transaction was left open") == alone
