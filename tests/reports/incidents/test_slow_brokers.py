"""Brokers that answer, but take long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from kafkascope.reports.columns.series import OTHERS
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.brokers.slow_brokers import slow_times
from kafkascope.reports.measures.latency.histogram import buckets_of
from kafkascope.sniffer.units import MILLISECOND_NS
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    H1,
    H2,
    LASTS,
    Row,
    at,
    connection,
    error,
    event,
    exchange,
    finding,
    found,
    health,
    listed,
    names,
    only,
    row,
    seconds,
    signs,
    silence,
    tables_read,
)

MS = float
B3 = "10.0.0.3"


def counts(part: str, api: str, span: int, took: Mapping[MS, int], **given: Any) -> Row:
    """A row of ``latency``: how many exchanges took how many milliseconds in ten seconds."""
    buckets = buckets_of(np.array([round(ms * MILLISECOND_NS) for ms in took], np.int64)).tolist()
    known = {"broker": f"{B1}:9092", "client": H1, "client_id": "c1", "topic": None, "acks": None} | given
    measures = {"count": sum(took.values()), "bucket": buckets, "counts": [*took.values()]}
    return row("latency", part=part, api=api, width_ms=10_000, **{"from": at(span)}, **measures, **known)


def answers(api: str, span: int, took: Mapping[MS, int], waited: int = 0, **given: Any) -> list[Row]:
    """What a broker took over requests; some waited as their clients wished."""
    waits = {0.0: waited} if waited else {}
    return [counts(part, api, span, {**waits, **took}, **given) for part in ("slow", "broker")]


def writes(span: int, took: Mapping[MS, int], acks: int = 1, **given: Any) -> list[Row]:
    known: Row = {"acks": acks, "client_id": "p1"}
    return answers("Produce", span, took, **known | given)


def fetches(span: int, apart: Mapping[MS, int], follower: int = 2, client: str = B2, **given: Any) -> Row:
    """How long a broker took from an answer to the next fetch of another one's log."""
    return counts("application", "Fetch", span, apart, client_id=f"broker-{follower}-fetcher-0", client=client, **given)


def test_a_broker_that_takes_long_over_writes_of_two_clients() -> None:
    rows = [
        *writes(0, {2: 20}),
        *writes(10, {2: 5, 300: 15}),
        *writes(20, {5: 2, 900: 4, 2000: 4}, client_id="p2", client=H2),
        *writes(30, {2: 20, 150: 1}),
    ]
    requests = [exchange(1, "Produce", 12.5, 12.8), exchange(2, "Produce", 21, 24.5), exchange(3, "Produce", 5, 5.002)]
    one = only(latency=rows, cluster_events=BROKERS, connections=[connection(1)], exchanges=requests)
    assert (one.kind, one.severity, one.certainty) == ("broker_stalled", "warning", "certain")
    assert names(one) == ["1", B1]
    assert (seconds(one.started), seconds(one.ended)) == (12.5, 24.5)
    assert one.what == (
        f"broker 1 ({B1}) answered late from {clock(one.started)} to {clock(one.ended)}: 23 of 30 writes that "
        "wait for no replica took 100 ms or more, half of these 300 ms or more"
    )
    assert [effect.text for effect in one.effects] == ["23 requests of p1, p2 waited for up to 2.0 s"]
    assert [seen.text for seen in one.evidence][1] == "at other times 1 of 41 did"
    assert one.cost_ms == pytest.approx(15 * 300 + 4 * 900 + 4 * 2000, rel=0.01)


@pytest.mark.parametrize(
    ("beside", "begins", "ends"),
    [
        ([], 12.5, 18),
        ([9], 12.5, 18),  # of another time
        ([9, 11], 9, 18),
        ([8.5, 10.5], 8.5, 18),
        ([20], 12.5, 18),
        ([18.5, 20.1, 25], 12.5, 20.3),
    ],
)
def test_what_took_long_just_before_or_behind_is_of_the_time(beside: list[float], begins: float, ends: float) -> None:
    requests = [exchange(n, "Produce", time, time + 0.2) for n, time in enumerate(beside)]
    requests += [exchange(8, "Produce", 12.5, 12.8), exchange(9, "Produce", 17.8, 18)]
    one = only(latency=writes(10, {300: 15}), connections=[connection(1)], exchanges=requests)
    assert (seconds(one.started), seconds(one.ended)) == (begins, ends)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (writes(0, {2: 10, 150: 10}), True),
        (writes(0, {2: 11, 150: 10}), False),  # half of them
        (writes(0, {2: 9, 150: 9}), False),  # ten
        (writes(0, {98: 20}), False),  # 100 ms
        ([*writes(0, {150: 5}), *writes(10, {150: 5})], True),
        ([one for span in range(0, 50, 10) for one in writes(span, {150: 2})], False),  # three in a span
        (answers("Fetch", 0, {150: 10}, waited=1000), True),
        (answers("Fetch", 0, {150: 10, 2: 11}, waited=1000), False),
        (answers("Heartbeat", 0, {150: 20}), False),  # may wait for writes of others in its group
        (answers("JoinGroup", 0, {150: 20}), False),
        (writes(0, {150: 20}, broker=OTHERS), False),
        (writes(0, {150: 20}, client=OTHERS), False),
        (writes(0, {150: 20}, topic="orders"), False),  # the same once more
    ],
)
def test_a_broker_is_slow_exactly_from_its_thresholds_on(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(latency=rows)] == ["broker_stalled"] * told


def test_what_nobody_knows_the_broker_took_is_neither_late_nor_in_time() -> None:
    rows = [counts("slow", "Produce", 0, {150: 30}, acks=1), counts("broker", "Produce", 0, {150: 12}, acks=1)]
    assert "12 of 12 writes" in only(latency=rows).headline


def test_times_with_a_span_between_them_are_one() -> None:
    first, second = writes(0, {150: 10}), writes(20, {150: 10})
    one = only(latency=[*first, *second])
    assert (seconds(one.started), seconds(one.ended)) == (0, 30)
    assert len(found(latency=[*first, *writes(30, {150: 10})])) == 2


def test_one_client_alone_makes_it_likely() -> None:
    one = only(latency=writes(0, {150: 10}))
    assert one.certainty == "likely"
    also = answers("Metadata", 0, {150: 10})
    assert only(latency=[*writes(0, {150: 10}), *also]).certainty == "certain"


def test_a_broker_that_follows_others_late_holds_up_writes_to_them() -> None:
    rows = [
        fetches(0, {800: 6, 2: 2}),
        fetches(0, {800: 6, 2: 2}, broker=f"{B3}:9092"),
        fetches(0, {2: 20}, follower=3, client=B3),
        *writes(0, {900: 12}, acks=-1),
        *writes(0, {700: 12}, acks=-1, broker=f"{B3}:9092"),
        *writes(0, {2: 20}),
    ]
    one = only(latency=rows, cluster_events=BROKERS)
    assert names(one) == ["2", B2]
    assert f"broker 2 ({B2}) replicated late from " in one.headline
    assert "12 of 16 fetches from other brokers came 100 ms or more after the answer before" in one.headline
    assert [effect.text for effect in one.effects] == [
        "24 writes that had to wait for replicas, of p1, took up to 900 ms on 2 brokers"
    ]


@pytest.mark.parametrize(("trip", "told"), [(49, True), (50, False)])
def test_a_network_that_takes_as_long_may_be_what_makes_a_follower_late(trip: int, told: bool) -> None:
    trips = health(1, "broker", [1], [1], client=B2, rtt_samples=5, rtt_mean_ms=trip, rtt_max_ms=trip)
    rows = [fetches(0, {800: 12})]
    tables = {
        "latency": rows,
        "tcp_health": [trips],
        "connections": [connection(1, B2, client_id="broker-2-fetcher-0")],
    }
    assert len(found(**tables)) == told


def test_of_several_brokers_at_one_address_the_follower_is_known_by_its_number() -> None:
    events = [
        row("cluster_events", event="broker_listed", at=at(0), node_id=n, host=f"{B1}:{9090 + n}", partitions=[])
        for n in (1, 2)
    ]
    one = only(latency=[fetches(0, {800: 12}, client=B1, broker=f"{B1}:9091")], cluster_events=events)
    assert names(one) == ["2", f"{B1}:9092", B1]


@pytest.mark.parametrize(("others", "certainty"), [([], "likely"), ([connection(2, broker=B2)], "guessed")])
def test_where_there_is_one_broker_nothing_waits_for_replicas(others: list[Row], certainty: str) -> None:
    tables = {"cluster_events": BROKERS[:1], "connections": [connection(1), *others]}
    assert only(latency=writes(0, {900: 12}, acks=-1), **tables).certainty == certainty


def test_writes_with_acks_all_alone_do_not_tell_who_was_slow() -> None:
    rows = [*writes(0, {900: 12}, acks=-1), *answers("OffsetCommit", 0, {400: 3}, broker=f"{B2}:9092")]
    one = only(latency=rows, cluster_events=BROKERS)
    assert (one.certainty, names(one)) == ("guessed", ["1", B1, "2", B2])
    assert one.what.startswith(f"broker 1 ({B1}), broker 2 ({B2}) confirmed writes late from ")
    assert one.what.endswith(": a replica was slow, or their disks")


@pytest.mark.parametrize(
    ("tables", "kinds"),
    [
        ({"silences": [silence(B2, 5, 250, ended=3, ended_clients=3, refused=4)]}, ["broker_down"]),
        ({"error_histogram": [error("NOT_ENOUGH_REPLICAS", "Produce", 3, 4, topic="orders")]}, ["too_few_replicas"]),
        ({"findings": [finding("authentication_failed", f"client - ({B2})", "t", 9, 21)]}, ["authentication_failed"]),
        (
            {"findings": [finding("authorization_failed", f"client c1 ({H1})", "t", 9, 21)]},
            ["authorization_failed", "broker_stalled"],  # no broker
        ),
        (
            {"findings": [finding("authentication_failed", f"client - ({B2})", "t", 40, 50)]},
            ["authentication_failed", "broker_stalled"],
        ),
    ],
)
def test_writes_that_wait_for_a_broker_that_is_away_are_told_with_it(
    tables: dict[str, list[Row]], kinds: list[str]
) -> None:
    asks = connection(3, B2, B1, client_id=None)
    incidents = found(latency=writes(10, {900: 12}, acks=-1), cluster_events=BROKERS, connections=[asks], **tables)
    assert sorted(one.kind for one in incidents) == sorted(kinds)


def timeout(span: int, sender: str = "broker", **given: Any) -> Row:
    return health(1, sender, [span], [span], timeout_retransmits=1, **given)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([timeout(10)], False),
        ([timeout(0, "client")], False),
        ([timeout(20)], True),
        ([timeout(10, client=H2)], True),
        ([], True),
    ],
)
def test_answers_behind_what_was_lost_do_not_tell_of_the_broker(rows: list[Row], told: bool) -> None:
    tables = {"tcp_health": rows, "connections": [connection(1), connection(2, H2)]}
    assert len(found(latency=writes(10, {900: 12}), **tables)) == told


@pytest.mark.parametrize(("took", "span", "told"), [(1024, 20, False), (900, 20, True), (1024, 30, True)])
def test_what_is_sent_again_at_last_lets_answers_through_that_waited_for_long(took: MS, span: int, told: bool) -> None:
    """Of a time that a capture which begins late has the end of alone."""
    tables = {"tcp_health": [timeout(span)], "connections": [connection(1)]}
    assert len(found(latency=writes(10, {took: 12}), **tables)) == told


def stall(since: float, until: float) -> Row:
    return silence(B1, since, until, waiting=3, waiting_connections=2, acknowledged=3, waiting_clients=["p1"])


def test_times_in_which_it_says_nothing_at_all_are_part_of_it() -> None:
    one = only(latency=writes(10, {900: 12}), silences=[stall(11, 12.5), stall(15, 17)])
    assert "answered late" in one.headline
    assert "nothing from it on any connection 2 times, the longest for 2.0 s" in [seen.text for seen in one.evidence]


def test_a_broker_that_stood_still_for_most_of_it_was_not_slow_otherwise() -> None:
    one = only(latency=writes(10, {900: 12}), silences=[stall(11, 17)])
    assert "answered nobody for 6.0 s" in one.headline


def test_a_broker_that_has_just_begun_may_take_long() -> None:
    away = silence(B1, 1, 9, ended=3, ended_clients=3, refused=4)
    incidents = found(latency=writes(10, {900: 12}), silences=[away])
    assert [one.kind for one in incidents] == ["broker_down"]


def test_what_it_cost_does_not_hang_on_the_order_of_rows() -> None:
    """`found` has the rows in several orders; sums of such numbers differ in the last digit by theirs."""
    rows = [row for ms in range(150, 3_000, 97) for row in writes(0, {ms: 1}, client_id=f"p{ms}")]
    assert only(latency=rows).cost_ms > 0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, False),
        ({"client_id": "broker-1-fetcher-0"}, True),
        ({"client_id": None}, True),
        ({"api": "OffsetForLeaderEpoch"}, True),
        ({"first": at(10), "last": at(11)}, True),
        ({"first": at(-5), "last": at(0)}, False),
    ],
)
def test_a_broker_whose_fetches_are_refused_waits_before_the_next(given: Row, told: bool) -> None:
    refused = error("TOPIC_AUTHORIZATION_FAILED", "Fetch", 1, 9, 8, client_id="broker-2-fetcher-0") | given
    incidents = found(latency=[fetches(0, {800: 12})], cluster_events=BROKERS, error_histogram=[refused])
    assert [one.kind for one in incidents] == ["broker_stalled"] * told


@pytest.mark.parametrize(("left_out", "told"), [(20, True), (194.9, True), (195.1, False), (None, False)])
def test_writes_are_late_when_nobody_waits_any_more_for_the_one_that_is_gone(
    left_out: float | None, told: bool
) -> None:
    known = [*BROKERS, listed(3, "10.0.0.3")]
    known += [] if left_out is None else [event("broker_fenced", left_out, node_id=3)]
    gone = silence("10.0.0.3", 10, None, refused=5, first_failed=11, failed_packet=7, ended=3, ended_clients=2)
    slow = writes(200, {2: 5, 300: 15}, acks=-1)
    all_of = found(latency=slow, cluster_events=known, connections=[connection(1)], silences=[gone])
    assert ("broker_stalled" in [one.kind for one in all_of]) == told


@pytest.mark.parametrize("table", ["connections", "exchanges"])
def test_tables_are_not_read_more_often_for_more_slow_brokers(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    read = tables_read(monkeypatch)
    often = []
    for many in (2, 30):
        hosts = [f"10.1.0.{n + 1}" for n in range(many)]
        rows = {
            "latency": [one for host in hosts for one in writes(10, {300: 20}, broker=f"{host}:9092")],
            "connections": [connection(n, broker=host) for n, host in enumerate(hosts)],
            "exchanges": [exchange(1, "Produce", 11 + n / 100, 15, connection=n) for n in range(many)],
        }
        known = signs(**rows)
        known.end = at(LASTS)
        read.clear()
        begun = {time.host: seconds(time.since) for time in slow_times(known)}
        assert begun == {host: 11 + n / 100 for n, host in enumerate(hosts)}
        often.append(read.count(table))
    assert often[0] == often[1] > 0


@pytest.mark.parametrize("moved", [[], [event("leader_changed", 16, before="2", after="1", count=4)]])
@pytest.mark.parametrize(("took", "told", "alone"), [(900, 0, 0), (5_000, 12, 12), (14_000, 0, 12)])
def test_what_it_cost_that_a_broker_went_away_are_writes_at_others_too(
    moved: list[Row], took: int, told: int, alone: int
) -> None:
    """Those that waited for very long are an incident of their own, if it cost something else too."""
    rows = [*writes(10, {2: 8, took: 12}, acks=-1), *writes(10, {took: 5}, acks=-1, broker=f"{B2}:9092")]
    gone = silence(B2, 10, 250, ended=3, ended_clients=3, refused=4)
    (one,) = [
        one
        for one in found(latency=rows, cluster_events=[*BROKERS, *moved], silences=[gone])
        if one.kind == "broker_down"
    ]
    assert sum(effect.count or 0 for effect in one.effects if effect.what == "writes") == (told if moved else alone)
