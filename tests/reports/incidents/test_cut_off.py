"""Hosts of clients of which nothing comes while brokers send to them again."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Incident
from kafkascope.reports.incidents.network import cut_off
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    GONE,
    H1,
    H2,
    Row,
    at,
    connection,
    found,
    group_event,
    health,
    member,
    names,
    only,
    rebalance,
    seconds,
    silence,
)

RETRIES = (20.5, 20.7, 21.1, 21.9, 23.5, 26.7)  # of TCP, each twice as late


def unheard(times: tuple[float, ...] = RETRIES, number: int = 1, **given: Any) -> Row:
    """What a broker sent to a client, and sent again, in vain."""
    known = {"unacked_since": times[0], "timeout_retransmits": len(times) - 1} | given
    return health(number, "broker", [], times, **known)


def sends(*times: float, number: int = 1, client: str = H1, **given: Any) -> Row:
    return health(number, "client", list(times), [], client=client, **given)


MINE = connection(1, opened=1, connect="established")
THEIRS = connection(2, H2, client_id="c2", opened=1)
OTHER = sends(24, number=2, client=H2)
THEN = sends(22, number=2, client=H2)


def of(*rows: Row, **tables: Any) -> list[Incident]:
    return found(tcp_health=list(rows), **{"connections": [MINE, THEIRS], "cluster_events": BROKERS} | tables)


def test_a_host_that_brokers_send_to_in_vain_and_that_is_heard_again() -> None:
    rows = [unheard(), sends(18), sends(20.3), OTHER, sends(35)]
    one = only(tcp_health=rows, connections=[MINE, THEIRS], cluster_events=BROKERS)
    assert (one.kind, one.severity, one.certainty) == ("client_unreachable", "warning", "likely")
    assert names(one) == ["c1", H1]
    assert (seconds(one.started), seconds(one.ended)) == (20.3, 35)
    assert one.headline == (
        f"nothing comes of c1 ({H1}) from {clock(at(20.3))} to {clock(at(35))}, not even acknowledgements: it was cut "
        f"off, or its host stood still or went down; 5 packets of broker 1 ({B1}) sent again in vain"
    )
    assert one.evidence[1].text == (
        f"what {B1} sent it was not acknowledged, and was sent again 5 times in 6.2 s (connection 1)"
    )
    assert one.cost_ms == pytest.approx(14_700)


@pytest.mark.parametrize(
    ("joined", "leader", "stable", "waited"),
    [
        ((21, 20.6), "c1-id", 35, "12.0 s for it to say who gets which partitions"),
        ((21, 20.6), "c1-id", 36.5, None),  # it was back before
        ((21, 20.6), "c2-id", 35, None),
        ((35, 21), "c2-id", 36.5, "15.0 s for it to join"),
        ((21, 35), "c2-id", 36.5, None),
    ],
)
def test_a_group_that_waits_for_who_is_on_that_host(
    joined: tuple[float, float], leader: str, stable: float, waited: str | None
) -> None:
    known = [member("c1") | {"joined": at(joined[0])}, member("c2", H2) | {"joined": at(joined[1])}]
    given: dict[str, Any] = {"joined": max(23, *joined), "stable": stable, "recovered": stable, "unowned_ms": 9_000.0}
    given |= {"members": known, "leader": leader, "unowned": [{"partition": "orders-0", "since": at(21), "ms": 9e3}]}
    rows = [unheard(), sends(20.3), OTHER, sends(35)]
    (one,) = of(*rows, rebalances=[rebalance("member_joined", 3, 20, **given)])
    held_up = waited is not None
    assert ("; group shop waited for it meanwhile; " in one.headline) == held_up
    assert ("nobody read orders 0 for up to 9.0 s" in one.headline) == held_up
    assert names(one) == ["c1", H1, *(["shop"] if held_up else [])]
    assert one.rebalances == ({("shop", 3)} if held_up else set())
    told = f"group shop waited {waited}, until it was back"
    assert (one.evidence[-1].text == told) == held_up


@pytest.mark.parametrize(
    ("ms", "back", "given", "began"),
    [
        (3_500, 24, {}, 20.3),
        (1_900, 24, {}, None),
        (3_500, 24, {"timeout_retransmits": 0}, None),
        (3_500, 24, {"retransmits_to_closed": 5}, None),
        (5_500, 24, {}, None),  # it acknowledged something else meanwhile
        (3_500, 29, {}, None),  # nothing was sent when that would have begun
    ],
)
@pytest.mark.parametrize("to", [B1, "10.9.9.9"])
def test_what_is_acknowledged_within_the_span_was_sent_in_vain_before(
    ms: float, back: float, given: Row, began: float | None, to: str
) -> None:
    """The row does not say since when: the client's silence does."""
    known: Row = {"unacked_since": None, "unacked_max_ms": ms, "broker": f"{to}:9092"} | given
    rows = [unheard((20.5, 20.7, 21.1, 21.9, 23.5), **known), sends(18), sends(20.3, back), OTHER, THEN, sends(35)]
    incidents = of(*rows)
    told = began is not None and to == B1
    assert [one.kind for one in incidents if one.kind == "client_unreachable"] == ["client_unreachable"] * told
    for one in incidents if told else ():
        assert (seconds(one.started), seconds(one.ended)) == (began, back)


@pytest.mark.parametrize(("again", "told"), [(20.6, False), (20.7, True)])
def test_what_is_sent_again_at_once_and_never_after_was_acknowledged(again: float, told: bool) -> None:
    """The capture lacks the acknowledgement; a timer would have had it sent a third time."""
    known: Row = {"unacked_since": None, "unacked_max_ms": 3_500}
    incidents = of(unheard((20.5, again), **known), sends(18), sends(20.3, 24), OTHER, THEN, sends(35))
    assert bool(incidents) == told


def test_what_is_acknowledged_in_the_next_span_is_told_once() -> None:
    late = unheard((30.1,), unacked_since=None, timeout_retransmits=1, unacked_max_ms=10_000)
    rows = [unheard(), late, sends(18), sends(20.3), sends(30.5), OTHER, THEN, sends(31, number=2, client=H2)]
    (one,) = of(*rows)
    assert (seconds(one.started), seconds(one.ended), len(one.evidence)) == (20.3, 30.5, 3)
    first = unheard((28.5, 28.7, 29.1), unacked_since=28.5)
    last = unheard((30.7, 32.3), unacked_since=None, timeout_retransmits=2, unacked_max_ms=5_500)
    (one,) = of(first, last, sends(28.3), sends(34), OTHER, sends(31, number=2, client=H2))
    assert (seconds(one.started), seconds(one.ended)) == (28.3, 34)
    assert "4 packets of broker 1" in one.headline


def test_what_it_answers_as_closed_when_it_is_back_was_not_in_vain() -> None:
    last = unheard((36.0,), unacked_since=20.5, timeout_retransmits=1, retransmits_to_closed=1)
    (one,) = of(unheard(), last, sends(18), sends(20.3), OTHER, sends(35, 36.1))
    assert (seconds(one.started), seconds(one.ended)) == (20.3, 35)


def test_what_is_sent_when_it_is_back_is_not_in_vain() -> None:
    """Of a span of ten seconds the last packet is known, and not which of them were in vain."""
    (one,) = of(unheard(last=29), sends(18), sends(20.3), OTHER, sends(27.5, number=9))
    assert (seconds(one.started), seconds(one.ended)) == (20.3, 27.5)
    assert "sent again 5 times in 7.0 s" in one.evidence[1].text


def test_one_that_is_not_heard_again() -> None:
    (one,) = of(unheard(), sends(20.3), OTHER)
    assert one.ended is None
    assert f"nothing comes of c1 ({H1}) from {clock(at(20.3))} on, not even" in one.headline


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([unheard(), sends(20.3), OTHER], True),
        ([unheard((20.5, 20.7, 21.1, 22.4)), sends(20.3), sends(22, number=2, client=H2)], False),  # too short
        ([unheard(), sends(20.3), sends(23.5, number=9), OTHER], False),  # it said something
        ([unheard(), sends(20.3), sends(23.7, number=9), THEN], True),  # it is back: the next try was due later
        ([unheard((20.5, 20.7, 21.1, 23.5)), sends(20.3), sends(22.2, number=9), OTHER], False),  # too short
        ([unheard((20.5, 20.7, 21.1, 23.5)), sends(20.3), sends(22.6, number=9), THEN], True),
        ([unheard(), sends(20.9), OTHER], True),  # that was on its way
        ([unheard(), sends(20.3)], False),  # nobody shows that the broker was heard
        ([unheard(), sends(20.3), sends(20.9, number=2, client=H2)], False),  # or later
        ([unheard(), sends(20.3), sends(24, number=2, client=H2, broker=f"{B2}:9092")], False),  # or another one
        ([unheard(), OTHER], False),  # nothing of it is in the capture
        ([unheard(timeout_retransmits=0), sends(20.3), OTHER], False),
        ([unheard(retransmits_to_closed=5), sends(20.3), OTHER], False),  # it had ended
        ([unheard(retransmits_to_closed=4), sends(20.3), OTHER], True),
    ],
)
def test_only_of_hosts_that_say_nothing(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in of(*rows)] == ["client_unreachable"] * told


@pytest.mark.parametrize(("spoke", "kinds"), [(20.3, ["client_unreachable"]), (22, ["network_loss"])])
def test_packets_that_are_sent_again_to_it_are_not_lost_ones(spoke: float, kinds: list[str]) -> None:
    again: Row = {"packets": 6, "retransmits": 5}
    rows = [unheard(number=number, **again) for number in range(11, 16)]
    connections = [THEIRS, *(connection(row["connection"], opened=1) for row in rows)]
    told = of(*rows, sends(spoke, number=9), OTHER, connections=connections)
    assert [one.kind for one in told] == kinds


@pytest.mark.parametrize(("later", "incidents"), [(30, 1), (90, 2)])
def test_what_befalls_it_again_soon_is_one_incident(later: float, incidents: int) -> None:
    times = tuple(time + later for time in RETRIES)
    more = [unheard(times), sends(24 + later, number=2, client=H2), sends(later + 20.3)]
    told = of(unheard(), sends(20.3), OTHER, sends(35), *more)
    assert len(told) == incidents
    if incidents == 1:
        assert f"c1 ({H1}) 2 times from {clock(at(20.3))} on, not even" in told[0].headline
        assert "10 packets of broker 1" in told[0].headline


@pytest.mark.parametrize(("expelled", "told"), [(30, False), (20.4, False), (20.2, True)])
def test_a_member_that_its_group_lost_by_it_is_told_as_that(expelled: float, told: bool) -> None:
    silent = group_event("silence_begun", 15, member_id="c1-id", client_id="c1", client=H1)
    lost = rebalance("session_timeout", 5, expelled, trigger_member="c1-id", trigger_client_id="c1")
    seen = of(unheard(), sends(15), sends(20.3), OTHER, rebalances=[lost], group_events=[silent])
    assert any(one.headline.startswith("nothing comes of") for one in seen) == told
    assert any("taken out of group shop" in one.headline for one in seen)


def test_of_very_many_hosts_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut_off, "_MOST", 4)
    rows = [OTHER]
    for n in range(6):
        rows += [unheard(number=10 + n, client=f"10.0.9.{n}"), sends(20.3, number=10 + n, client=f"10.0.9.{n}")]
    (one,) = of(*rows)
    assert one.headline.startswith("nothing comes of 4 hosts and more (10.0.9.0, 10.0.9.1, 10.0.9.2, 10.0.9.3) from ")


@pytest.mark.parametrize(("hosts", "apart", "incidents"), [(3, 3, 1), (3, 3.1, 3), (2, 0, 2)])
def test_hosts_that_are_cut_off_at_once_are_one_incident(hosts: int, apart: float, incidents: int) -> None:
    clients = [f"10.0.9.{n}" for n in range(hosts)]
    rows = [OTHER]
    for n, client in enumerate(clients):
        times = tuple(time + n * apart for time in (20.5, 20.7, 21.1, 23.5))
        rows += [unheard(times, number=10 + n, client=client), sends(times[0] - 0.2, number=10 + n, client=client)]
    connections = [
        THEIRS,
        *(connection(10 + n, client, client_id=f"p{n}", opened=1) for n, client in enumerate(clients)),
    ]
    others = [sends(time, number=2, client=H2) for time in (22, 25, 27, 29)]
    told = found(tcp_health=rows + others, connections=connections, cluster_events=BROKERS)
    assert len(told) == incidents
    if incidents == 1:
        assert names(told[0]) == ["p0", "p1", "p2", *clients]
        assert told[0].headline.startswith("nothing comes of 3 hosts (p0, p1, p2) from ")


# --- brokers that lead nothing ---------------------------------------------------------------------------------------

TO_BROKER = unheard(client=B2)
ASKS = connection(1, B2, client_id="broker-2-fetcher-0", opened=1, connect="established")


def answers(*times: float) -> Row:
    return health(3, "broker", list(times), [], client=H2, broker=f"{B2}:9092")


def of_broker(*rows: Row, **given: Any) -> list[Incident]:
    return of(TO_BROKER, OTHER, *rows, connections=[ASKS, THEIRS], **given)


def test_a_broker_of_which_nobody_wants_anything_and_that_hears_nothing() -> None:
    (one,) = of_broker(sends(20.3, client=B2), sends(35, client=B2, number=8))
    assert (one.kind, one.severity, one.certainty) == ("broker_down", "warning", "likely")
    assert names(one) == ["2", B2]
    assert (seconds(one.started), seconds(one.ended)) == (20.3, 35)
    assert one.headline == (
        f"broker 2 ({B2}) could not be reached from {clock(at(20.3))} on and was back after 14.7 s, while nobody is "
        f"seen to wait for it; 5 packets of broker 1 ({B1}) sent again in vain"
    )
    assert "has not come back" in of_broker(sends(20.3, client=B2))[0].headline


@pytest.mark.parametrize(
    ("silent", "told"),
    [
        ((22, 30), ["broker_down"]),
        ((2, 10), ["broker_down", "broker_down"]),  # another time
    ],
)
def test_what_is_told_of_a_broker_is_told_once(silent: tuple[float, float], told: list[str]) -> None:
    gone = silence(B2, *silent, refused=5, **GONE)
    incidents = of_broker(sends(20.3, client=B2), sends(35, client=B2, number=8), silences=[gone])
    assert [one.kind for one in incidents] == told


def test_a_broker_that_answers_others_is_not_cut_off() -> None:
    incidents = of_broker(sends(20.3, client=B2), answers(22, 23, 25), sends(35, client=B2, number=8))
    assert not [one for one in incidents if one.kind == "broker_down"]
