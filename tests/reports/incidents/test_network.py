"""Packets that are lost, and packets that take long."""

from __future__ import annotations

from typing import Any

import pytest

from kafkascope.reports.columns.text import without_port
from tests.reports.incidents.tables_of import (
    B1,
    B2,
    BROKERS,
    H1,
    H2,
    HELD,
    Row,
    at,
    connection,
    exchange,
    found,
    health,
    listed,
    names,
    only,
    seconds,
    silence,
)
from tests.reports.incidents.test_slow_brokers import writes


def sent(span: int, number: int = 1, **given: Any) -> Row:
    """What a client sent in one span."""
    return health(number, "client", [span, span + 9], [], **given)


def lossy(spans: int = 2, packets: int = 1000, again: int = 10, **given: Any) -> list[Row]:
    """Spans in which so much was sent again."""
    return [sent(10 * n, packets=packets, retransmits=again, duplicate_acks=again, **given) for n in range(spans)]


def of_kafka(rows: list[Row]) -> dict[str, list[Row]]:
    """What was sent, on connections of Kafka without a client id."""
    connections = {
        row["connection"]: connection(row["connection"], row["client"], without_port(row["broker"]), None)
        for row in rows
    }
    return {"tcp_health": rows, "connections": [*connections.values()]}


def test_packets_that_are_sent_again_are_lost() -> None:
    one = only(tcp_health=lossy(timeout_retransmits=3), connections=[connection(1)])
    assert (one.kind, one.severity, one.certainty) == ("network_loss", "warning", "certain")
    assert names(one) == [B1, H1, "c1"]
    assert (seconds(one.started), seconds(one.ended)) == (0, 19)
    assert (
        f"between broker {B1} and c1 ({H1}): 20 packets sent again (1.0 %), 6 of them only after a timeout"
        in one.headline
    )
    assert one.cost_ms == 1200


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (lossy(2, 1000, 10), True),
        (lossy(2, 1001, 10), False),  # a share of them
        (lossy(1, 1000, 19), False),  # in all
        (lossy(1, 1000, 20), True),
        (lossy(7, 300, 3), True),
        (lossy(10, 200, 2), False),  # in a span
        (lossy(2, 1000, 20, spurious_retransmits=10), True),
        (lossy(2, 1000, 19, spurious_retransmits=10), False),  # what had arrived was not lost
        (lossy(2, 1000, 20, retransmits_to_closed=10), True),
        (lossy(2, 1000, 19, retransmits_to_closed=10), False),  # a host drops what comes after it has closed
        (lossy(2, 1000, 10, client=B1), False),  # nothing is lost within a host
    ],
)
def test_loss_begins_exactly_at_its_thresholds(rows: list[Row], told: bool) -> None:
    assert [one.kind for one in found(**of_kafka(rows))] == ["network_loss"] * told


@pytest.mark.parametrize(("acknowledgements", "told"), [(1, True), (0, False)])
def test_without_acknowledgements_nothing_tells_that_it_was_lost(acknowledgements: int, told: bool) -> None:
    """As in captures that were filtered by payload."""
    rows = lossy(acknowledgements=acknowledgements)
    unheard = [row | {"duplicate_acks": 0} for row in rows]
    assert [one.certainty for one in found(**of_kafka(unheard))] == ["likely"] * told
    assert only(**of_kafka(rows)).certainty == "certain"  # receivers say that they missed it


@pytest.mark.parametrize("lacks", [{"packets_up": 0}, {"packets_down": 0}])
def test_of_one_direction_nothing_tells_that_it_was_lost_on_its_way(lacks: Row) -> None:
    rows = [row | {"duplicate_acks": 4} for row in lossy()]  # of half of it receivers say that they missed it
    assert found(tcp_health=rows, connections=[connection(1, **lacks)]) == []
    assert only(tcp_health=rows, connections=[connection(1, **lacks), connection(2)]).certainty == "likely"
    assert only(tcp_health=lossy(), connections=[connection(1, **lacks)]).certainty == "certain"


@pytest.mark.parametrize(("missed", "certainty"), [(5, "certain"), (4, "likely")])
def test_it_is_certain_where_receivers_say_that_they_missed_something(missed: int, certainty: str) -> None:
    one = only(**of_kafka([row | {"duplicate_acks": missed} for row in lossy()]))
    assert one.certainty == certainty
    one = only(**of_kafka([row | {"duplicate_acks": 0, "fast_retransmits": missed} for row in lossy()]))
    assert one.certainty == certainty


def test_paths_with_a_host_in_common_are_one_incident() -> None:
    rows = [
        *lossy(broker=f"{B1}:9092"),
        *lossy(broker=f"{B2}:9092", number=2),
        *lossy(client=H2, broker="[fd77::1]:9092", number=3),
    ]
    incidents = found(**of_kafka(rows))
    assert sorted(names(one) for one in incidents) == [[H1, B1, B2], [H2, "fd77::1"]]


# --- delays ----------------------------------------------------------------------------------------------------------


def trips(span: int, mean_ms: float, longest_ms: float, samples: int = 5, **given: Any) -> Row:
    """Round trips of a client's data in one span."""
    return sent(span, rtt_samples=samples, rtt_mean_ms=mean_ms, rtt_max_ms=longest_ms, **given)


FAST = trips(0, 1, 2)


def test_round_trips_that_grow_are_a_delay() -> None:
    one = only(**of_kafka([FAST, trips(10, 100, 120), trips(20, 90, 150), trips(30, 1, 2)]))
    assert (one.kind, one.severity, one.certainty) == ("network_delay", "warning", "likely")
    assert names(one) == [B1, H1]
    assert (seconds(one.started), seconds(one.ended)) == (10, 29)
    assert "take up to 150 ms there and back instead of 1.0 ms" in one.headline
    assert len(one.evidence) == 2


def acknowledged(number: int, asked: float, after: float, **given: Any) -> Row:
    """A request of which a broker's host said after so many seconds that it is there."""
    times = {"request_done": at(asked + 0.001), "request_acked": at(asked + 0.001 + after)}
    return exchange(number, "Produce", asked, asked + 1, **times, **given)


def test_a_delay_begins_and_ends_with_what_was_acknowledged_late() -> None:
    requests = [
        acknowledged(1, 11, 0.05),  # may have been held back by itself
        acknowledged(2, 12, 0.5, connection=2),  # of others
        acknowledged(3, 13, 0.1),
        acknowledged(4, 22, 0.1),
        acknowledged(5, 23, 0.06),
        acknowledged(6, 24, 0.001),
        acknowledged(7, 35, 0.5),  # when round trips are short again: one packet was lost
    ]
    rows = of_kafka([FAST, trips(10, 100, 120), trips(20, 90, 150), trips(30, 1, 2)])
    one = only(**rows, exchanges=requests)
    assert (seconds(one.started), seconds(one.ended)) == (13, 23.061)
    assert [(seen.packet, seen.text) for seen in one.evidence if seen.packet] == [
        (3, "this Produce was acknowledged after 100 ms")
    ]


def test_what_brokers_send_late_is_known_to_ten_seconds() -> None:
    late = [health(1, "broker", [0, 9], [], rtt_samples=9, rtt_mean_ms=1, rtt_max_ms=2)]
    late += [health(1, "broker", [10, 19], [], rtt_samples=9, rtt_mean_ms=100, rtt_max_ms=120)]
    one = only(**of_kafka(late), exchanges=[acknowledged(1, 13, 0.001)])
    assert (seconds(one.started), seconds(one.ended)) == (10, 19)


@pytest.mark.parametrize(
    ("client", "broker", "kinds"),
    [
        (H1, B1, ["network_delay"]),
        (B1, H1, ["network_delay"]),  # whoever asks the other
        (H2, B1, ["network_delay", "network_loss"]),
    ],
)
def test_what_is_lost_where_packets_take_long_had_no_room_in_the_queue(
    client: str, broker: str, kinds: list[str]
) -> None:
    late = [FAST, *(trips(at, 100, 120) for at in (10, 20))]
    lost = [
        sent(at, 2, packets=100, retransmits=10, duplicate_acks=10, client=client, broker=f"{broker}:9092")
        for at in (10, 20)
    ]
    brokers = [*BROKERS, listed(3, H1)]
    incidents = found(**of_kafka([*late, *lost]), cluster_events=brokers)
    assert sorted(one.kind for one in incidents) == kinds
    (one,) = (one for one in incidents if one.kind == "network_delay")
    assert [effect.count for effect in one.effects if effect.what == "packets"] == [20] * (len(kinds) == 1)
    assert one.cost_ms == 240


@pytest.mark.parametrize(
    ("best", "slow", "told"),
    [
        (FAST, trips(10, 36.6, 60), True),  # three of five take 21 ms, if two take 60
        (FAST, trips(10, 36.5, 60), False),  # so much more
        (FAST, trips(10, 36.6, 59.9), False),  # one acknowledgement may be held back for so long
        (FAST, trips(10, 36.6, 60, samples=4), False),
        (trips(0, 1, 2, samples=4), trips(10, 36.6, 60), False),  # with what it would be compared is not known
        (trips(0, 10, 20), trips(10, 84, 90), True),
        (trips(0, 10, 20), trips(10, 83.9, 90), False),  # so many times as much
        (FAST, trips(10, 25, 90, samples=100), False),  # seven of a hundred may be late for want of what came before
        (FAST, trips(10, 25, 60, samples=100), True),
        (trips(0, 1, 2, client=B1), trips(10, 100, 120, client=B1), False),
    ],
)
def test_a_delay_begins_exactly_at_its_thresholds(best: Row, slow: Row, told: bool) -> None:
    assert [one.kind for one in found(**of_kafka([best, slow]))] == ["network_delay"] * told


@pytest.mark.parametrize(("lacking", "told"), [(3, True), (4, False)])
def test_of_what_the_capture_lacks_much_round_trips_tell_nothing(lacking: int, told: bool) -> None:
    talked = [connection(1, bytes_up=60, bytes_down=30, lost_bytes=lacking), connection(2, bytes_up=10)]
    elsewhere = connection(3, broker=B2, bytes_up=10, lost_bytes=10)
    incidents = found(tcp_health=[FAST, trips(10, 100, 120)], connections=[*talked, elsewhere])
    assert [one.kind for one in incidents] == ["network_delay"] * told


def test_each_direction_is_measured_for_itself() -> None:
    back = health(1, "broker", [10, 19], [], rtt_samples=9, rtt_mean_ms=100, rtt_max_ms=120)
    assert found(**of_kafka([FAST, back])) == []


def test_a_host_to_which_all_is_slow_is_one_incident() -> None:
    rows = [
        row
        for number, client in enumerate((H1, H2))
        for row in (trips(0, 1, 2, client=client, number=number), trips(10, 99, 120, client=client, number=number))
    ]
    assert names(only(**of_kafka(rows))) == [B1, H1, H2]


def test_rows_without_a_time_are_passed_over() -> None:
    assert found(**of_kafka([row | {"at": None} for row in lossy()])) == []


@pytest.mark.parametrize(
    ("protocol", "broker_port", "told"),
    [("kafka", 9092, True), ("tls", 9093, True), ("https", 443, False), ("http", 80, False), ("unknown", 9092, False)],
)
def test_only_paths_to_what_may_be_a_broker_are_looked_at(protocol: str, broker_port: int, told: bool) -> None:
    place = f"{B1}:{broker_port}"
    slow = [trips(0, 1, 2, broker=place), trips(10, 100, 120, broker=place)]
    talked = [connection(1, client_id=None, protocol=protocol, broker_port=broker_port)]
    for rows, kind in ((lossy(broker=place), "network_loss"), (slow, "network_delay")):
        assert [one.kind for one in found(tcp_health=rows, connections=talked)] == [kind] * told
    # Where Kafka can be read, TLS elsewhere is that of brokers only at ports of brokers.
    clear = connection(3, broker=B2, broker_port=9093)
    assert bool(found(tcp_health=slow, connections=[*talked, clear])) == told
    serves = protocol == "kafka"
    assert bool(found(tcp_health=slow, connections=[*talked, clear | {"broker_port": 9092}])) == serves
    # What else is said with a broker takes the same path.
    assert [one.kind for one in found(tcp_health=slow, connections=[*talked, connection(2)])] == ["network_delay"]


# --- between brokers -------------------------------------------------------------------------------------------------

LATE = writes(10, {900: 12}, acks=-1)
LOST = lossy(spans=2, timeout_retransmits=1, client=B2)


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        ([trips(0, 1, 2, client=B2), trips(10, 100, 120, client=B2)], ["network_delay"]),
        (LOST, ["network_loss"]),
        ([FAST, trips(10, 100, 120)], ["broker_stalled", "network_delay"]),  # a client's
        ([trips(n, *ms, client=B2) for n, *ms in ((0, 1, 2), (50, 100, 120))], ["broker_stalled", "network_delay"]),
        ([one | {"timeout_retransmits": 0} for one in LOST], ["broker_stalled", "network_loss"]),  # repaired at once
    ],
)
def test_writes_that_wait_for_replicas_are_told_with_what_brokers_did_not_hear_of_each_other(
    rows: list[Row], kinds: list[str]
) -> None:
    incidents = found(latency=LATE, cluster_events=BROKERS, **of_kafka(rows))
    assert sorted(one.kind for one in incidents) == kinds
    if len(kinds) == 1:
        text = "12 writes that had to wait for replicas, of p1, took up to 900 ms on 1 broker"
        assert incidents[0].effects[-1].text == text
        assert incidents[0].headline.endswith(f"; {text}")
        assert text not in incidents[0].what


@pytest.mark.parametrize(
    ("timeouts", "until", "kinds"),
    [
        (20, 25, ["broker_down"]),
        (9, 25, ["broker_down", "network_loss"]),  # most of it was acknowledged
        (20, 10.4, ["network_loss"]),  # it was there
    ],
)
def test_what_is_sent_in_vain_to_a_broker_that_cannot_be_reached_is_not_lost(
    timeouts: int, until: float, kinds: list[str]
) -> None:
    again = {"unacked_since": 10.5, "timeout_retransmits": timeouts, "retransmits": 20, "packets": 30}
    row = health(1, "client", [], [10.5, 11.1, 13.5, 16.7], acknowledgements=1, **again)
    gone = silence(B1, 10, until, **HELD | {"acknowledged": 0})
    assert sorted(one.kind for one in found(silences=[gone], **of_kafka([row]))) == kinds


@pytest.mark.parametrize(("again", "told"), [(70, 1), (80, 2), (240, 2)])
def test_losses_that_lie_apart_are_told_each(again: float, told: int) -> None:
    lost = {"packets": 1000, "retransmits": 10, "duplicate_acks": 10}
    before = [sent(10 * n, **lost) for n in range(2)]  # until 19
    after = [health(2, "client", [time, time + 9], [], client=H2, **lost) for time in (again, again + 10)]
    connections = [connection(1), connection(2, H2, client_id="c2")]
    assert len(found(tcp_health=[*before, *after], connections=connections)) == told
