"""Connections that were captured before and after their addresses were translated: each is there once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from kafkascope.sniffer.columns import Segments
from kafkascope.sniffer.reassembly.bounds import IDLE_TIME
from kafkascope.sniffer.translation import LIFETIME, SAID, SOON, TRIES, Translations
from tests.sniffer.tcp_conversation import BROKER, MILLISECOND, SYN, Conversation, Packet, segments, talk

POD = ("172.18.0.3", 31092)  # the broker's address behind the translation
OTHER = ("10.0.0.9", 9092)
LATER = 30_000  # nanoseconds


def translated(packet: Packet, broker: tuple[str, int] = POD, later: int = LATER) -> Packet:
    """The packet with another address of the broker."""
    source, target = (broker if end == BROKER else end for end in (packet.source, packet.target))
    return replace(packet, source=source, target=target, at=packet.at + later)


def twice(packets: Iterable[Packet], broker: tuple[str, int] = POD) -> list[Packet]:
    """Each packet, and its copy behind it."""
    return [one for packet in packets for one in (packet, translated(packet, broker))]


def left(packets: Sequence[Packet], cuts: Iterable[int] = ()) -> list[tuple[Any, ...]]:
    """What is handed on, but for the numbers of packets."""
    stage = Translations()
    found: list[tuple[Any, ...]] = []
    begin = 0
    for end in [*sorted(cuts), len(packets)]:
        found += rows(stage.feed(segments(packets[begin:end], begin + 1)))
        begin = end
    return found


def rows(found: Segments) -> list[tuple[Any, ...]]:
    names = [one.name for one in fields(Segments) if one.name not in ("data", "number", "start")]
    columns = [getattr(found, name).tolist() for name in names]
    texts = [
        found.data[start : start + size].tobytes() for start, size in zip(found.start, found.captured, strict=True)
    ]
    return [*zip(*columns, texts, strict=True)]


ORIGINAL = talk(b"asked", b"told", b"more" * 10, b"of it")


@pytest.mark.parametrize("begin", range(6))
def test_copies_are_left_out_wherever_the_capture_begins(begin: int) -> None:
    packets = ORIGINAL[begin:]
    whole = left(twice(packets))
    originals = rows(segments(packets))
    assert [one for one in whole if one in originals] == originals
    extra = [one for one in whole if one not in originals]
    assert len(extra) == {1: 2, 2: 1}.get(begin, 0)  # of the opening, what came without a SYN cannot be known


@pytest.mark.parametrize("cut", range(1, 2 * len(ORIGINAL), 3))
def test_where_batches_end_makes_no_difference(cut: int) -> None:
    assert left(twice(ORIGINAL), [cut]) == left(twice(ORIGINAL))


def test_it_is_said_which_address_is_which() -> None:
    stage = Translations()
    stage.feed(segments(twice(ORIGINAL)))
    (issue,) = stage.take_issues()
    assert (issue.kind, issue.count, issue.packet) == ("address_translated", len(ORIGINAL), 2)
    assert issue.detail.startswith("what 172.18.0.3 port 31092 says and hears is what 10.0.0.1 port 9092 does")
    assert stage.take_issues() == []


def test_what_the_original_lacks_is_taken_from_the_copy() -> None:
    packets = twice(ORIGINAL)
    lost = next(place for place, packet in enumerate(packets) if packet.payload.startswith(b"more"))
    packets.pop(lost)
    found = left(packets)
    assert len(found) == len(ORIGINAL)
    assert [one[-1] for one in found if one[-1]] == [packet.payload for packet in ORIGINAL if packet.payload]
    (moved,) = (one for one in found if one[-1].startswith(b"more"))
    assert moved[1:7] == rows(segments([packets[lost]]))[0][1:3] + rows(segments(ORIGINAL[:1]))[0][3:7]


def test_copies_that_come_first_take_the_place_of_what_they_are_copies_of() -> None:
    """As what a container sends: it has its own address first, and another one behind the translation."""
    packets = [
        one
        for packet in ORIGINAL
        for one in (
            [packet, translated(packet)]
            if packet.source[1] == ORIGINAL[0].source[1]
            else [translated(packet, later=0), replace(packet, at=packet.at + LATER)]
        )
    ]
    found = left(packets)
    assert [one[-1] for one in found if one[-1]] == [packet.payload for packet in ORIGINAL if packet.payload]
    assert len(found) == len(ORIGINAL)
    assert len(rows(Translations().named(segments(packets)))) == len(packets)


def test_what_is_sent_again_behind_its_copy_stays() -> None:
    of = Conversation()
    of.open()
    begun = twice(of.packets)
    told = of.send(1, b"told")
    copied = [translated(told, later=0), replace(told, at=told.at + LATER), replace(told, at=told.at + MILLISECOND)]
    found = [one[-1] for one in left([*begun, *copied])]
    assert found.count(b"told") == 2


def test_interfaces_take_turns_by_some_packets() -> None:
    of = Conversation()
    sent = [of.send(0, b"x%d" % number) for number in range(SAID)]
    assert left([*sent, *map(translated, sent)]) == rows(segments(sent))


def test_other_bytes_at_the_same_place_are_another_connection() -> None:
    asked = Conversation().send(0, b"asked")
    other = replace(translated(asked), payload=b"ashes")
    assert left([asked, other]) == rows(segments([asked, other]))


def test_two_connections_of_one_port_are_two() -> None:
    first = talk(b"asked", b"told")
    second = Conversation(client_isn=77_000, broker_isn=99_000)
    second.at = 100 * MILLISECOND
    second.sides = (second.sides[0], OTHER)
    second.open()
    for number in range(2 * TRIES):
        second.send(number % 2, b"%d" % number)
    packets = [*first, *second.packets]
    assert left(packets) == rows(segments(packets))


@pytest.mark.parametrize(("later", "is_copy"), [(SOON, True), (SOON + 1, False)])
def test_the_opening_alone_shows_it_if_it_comes_soon(later: int, is_copy: bool) -> None:
    opening = ORIGINAL[0]
    assert opening.flags == SYN
    packets = [opening, translated(opening, later=later)]
    assert len(left(packets)) == 2 - is_copy


def test_a_port_that_is_used_anew_for_the_other_address_is_a_connection() -> None:
    again = Conversation(client_isn=500_000, broker_isn=700_000)
    again.at = 10_000 * MILLISECOND
    again.sides = (again.sides[0], POD)
    again.open()
    again.send(0, b"directly")
    packets = [*twice(ORIGINAL), *again.packets]
    assert left(packets) == [*rows(segments(ORIGINAL)), *rows(segments(again.packets))]
    named = rows(Translations().named(segments(packets)))
    copies = [replace(translated(packet), source=packet.source, target=packet.target) for packet in ORIGINAL]
    assert named == rows(
        segments([*(one for pair in zip(ORIGINAL, copies, strict=True) for one in pair), *again.packets])
    )


@pytest.mark.parametrize(
    ("pause", "is_known"), [(LIFETIME + 1, True), (IDLE_TIME, True), (IDLE_TIME + MILLISECOND, False)]
)
def test_a_copy_is_known_through_a_silence(pause: int, is_known: bool) -> None:
    of = Conversation()
    of.open()
    of.send(0, b"asked")
    begun = twice(of.packets)
    of.packets.clear()
    later = of.send(1, later=pause)  # without payload it does not show by itself
    found = left([*begun, later, translated(later)])
    assert len(found) == len(begun) // 2 + 2 - is_known


def test_room_is_made_for_many_clients_and_their_copies_stay_known() -> None:
    many = [packet for port in range(40_000, 40_300) for packet in talk(b"a%d" % port, port=port)[:4]]
    packets = twice(many)
    assert left(packets) == rows(segments(many))
    assert left(packets, [100, 101, 999]) == rows(segments(many))
    stage = Translations()
    slow = [replace(packet, at=packet.at + place * LIFETIME) for place, packet in enumerate(many)]
    stage.feed(segments(slow))
    assert len(stage._clients) == 64  # clients that were silent make room
    without_times = segments(packets)
    without_times.at[:] = np.iinfo(np.int64).min
    assert len(Translations().feed(without_times).number) == len(many)


def test_of_too_many_clients_those_are_forgotten_that_were_silent_longest() -> None:
    stage = Translations(100)
    flood = [replace(packet, at=packet.at + port) for port in range(40_000, 41_000) for packet in talk(port=port)[:1]]
    stage.feed(segments(flood))
    assert len(stage._clients) == 128
    assert len(stage.feed(segments([translated(flood[-1]), translated(flood[0])])).number) == 1


def test_ends_with_the_same_port_are_left_alone() -> None:
    packets = [replace(packet, source=(packet.source[0], 9092), target=(packet.target[0], 9092)) for packet in ORIGINAL]
    both = [*packets, *(replace(packet, target=("172.18.0.3", 9092)) for packet in packets)]
    assert left(both) == rows(segments(both))
