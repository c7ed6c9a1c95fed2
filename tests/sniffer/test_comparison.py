"""Clocks of files, told from packets that several have: with delays, losses, drift, and where nothing can be told."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.sniffer.capture_points import CapturePoint, Joined
from kafkascope.sniffer.columns import NO_TIME, Segments
from kafkascope.sniffer.comparison import (
    MOST_WINDOW,
    SMALL,
    WORTH_IT,
    Sample,
    Sampler,
    compare,
    is_worth_it,
    joined_samples,
)
from tests.sniffer.tcp_conversation import BROKER, CLIENT, MILLISECOND, SECOND, START, Packet, segments


def talk(count: int, apart: int = 20 * MILLISECOND, seed: int = 1) -> list[Packet]:
    """Packets of two sides in turn, some of them without payload."""
    chance = np.random.default_rng(seed)
    seqs, found = [int(chance.integers(2**32)), int(chance.integers(2**32))], []
    for i in range(count):
        side = int(chance.integers(2))
        data = bytes(int(chance.choice([0, 1, 20, 900])))
        ends = (CLIENT, BROKER) if side == 0 else (BROKER, CLIENT)
        found.append(Packet(*ends, seqs[side], data, ack=seqs[1 - side], at=i * apart))
        seqs[side] += len(data)
    return found


def seen_at(
    packets: list[Packet], delays: tuple[int, int], ahead: int = 0, drift: float = 0.0, seed: int = 2
) -> Segments:
    """A talk where it is captured, after a delay for each side's packets and up to as much again."""
    chance = np.random.default_rng(seed)
    at = []
    for packet in packets:
        delay = delays[packet.source != CLIENT]
        true = packet.at + delay + (int(chance.exponential(delay / 4)) if delay else 0)
        at.append(true + ahead + round(true * drift))
    order = np.argsort(np.array(at), kind="stable").tolist()
    return segments([replace(packets[i], at=at[i]) for i in order])


def sample(found: Segments, most: int = 1 << 18) -> Sample:
    sampler = Sampler(most)
    sampler.feed(found, len(found.number))
    return sampler.sample()


@pytest.mark.parametrize("ahead", [0, 3_200 * MILLISECOND, -250 * MILLISECOND, 7 * 3600 * SECOND])
@pytest.mark.parametrize("delay", [20_000, 2 * MILLISECOND, 60 * MILLISECOND])
@pytest.mark.parametrize("drift", [0.0, 50e-6])
def test_the_delay_is_not_taken_for_the_clocks(ahead: int, delay: int, drift: float) -> None:
    packets = talk(4000)
    joined = compare(
        {
            "client": sample(seen_at(packets, (0, delay))),
            "broker": sample(seen_at(packets, (delay, 0), ahead, drift, seed=3)),
        }
    )
    assert joined is not None
    (clock,) = joined.clocks
    assert (clock.path, clock.reference) == ("broker", "client")
    assert clock.corrected == bool(ahead or (drift and delay < 10 * MILLISECOND))
    noise = 20_000 + delay // 20
    assert abs(clock.ahead_at_first - ahead) < noise
    if drift and clock.drift:
        assert abs(clock.drift - drift) < 2e-6
        assert abs(clock.ahead_at_last - ahead - 80 * SECOND * drift) < 2 * noise
    assert delay * 0.9 < clock.uncertainty < delay * 1.3 + 100_000
    assert joined.window > delay
    assert [point.rank for point in joined.points.values()] == [0, 1]
    assert joined.points["broker"].delay == joined.window


def test_captures_of_other_packets_are_not_compared() -> None:
    first, second = (sample(seen_at(talk(500, seed=seed), (0, 0))) for seed in (1, 2))
    assert compare({"a": first, "b": second}) is None
    # What is sent again after a file has ended, one way, is in the next file too.
    packets = talk(500)
    stalled = [packet for packet in packets[-60:] if packet.source == CLIENT and len(packet.payload) > 1]
    assert 5 < len(stalled) < 60
    again = [replace(packet, at=packet.at + 300 * MILLISECOND) for packet in stalled]
    assert compare({"a": first, "b": sample(segments(again))}) is None


def test_packets_that_were_sent_twice_do_not_mislead() -> None:
    packets = talk(2000)
    chance = np.random.default_rng(4)
    # One place lost the first of two, the other place the second.
    twice = {int(i) for i in chance.choice(2000, 15, replace=False)}
    near = [replace(p, at=p.at + 210 * MILLISECOND) if i in twice else p for i, p in enumerate(packets)]
    joined = compare({"a": sample(seen_at(near, (0, 0))), "b": sample(seen_at(packets, (0, 0), ahead=SECOND))})
    assert joined is not None
    assert abs(joined.clocks[0].ahead_at_first - SECOND) < 10_000
    assert joined.window < MOST_WINDOW


def test_the_odd_clock_is_the_wrong_one_and_those_between_lead_to_it() -> None:
    talks = [talk(300, seed=seed) for seed in (1, 2, 3)]
    # a and b have one talk in common, b and c another one, c and d a third; d is as right as b and c.
    files = {"a": [0], "b": [0, 1], "c": [1, 2], "d": [2]}
    samples = {
        name: joined_samples(
            sample(seen_at(talks[i], (0, 0), ahead=-5 * SECOND if name == "a" else 0)) for i in indexes
        )
        for name, indexes in files.items()
    }
    joined = compare(samples)
    assert joined is not None
    assert {clock.reference for clock in joined.clocks} == {"b"}
    assert [(clock.path, clock.corrected) for clock in joined.clocks] == [("a", True), ("c", False), ("d", False)]
    assert joined.clocks[0].ahead_at_first == -5 * SECOND
    # Files that have nothing in common may have the same rank.
    assert [joined.points[name].rank for name in files] == [0, 1, 0, 1]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3000), max_size=8), st.integers(5, 3000))
def test_samples_of_parts_are_the_sample_of_the_whole(cuts: list[int], most: int) -> None:
    whole = seen_at(talk(3000), (0, 0))
    expected = sample(whole, most)
    assert expected.packets == 3000
    edges = sorted({0, *cuts, 3000})
    parts, streamed = [], Sampler(most)
    for begin, end in itertools.pairwise(edges):
        part = whole.rows(slice(begin, end))
        sampler = Sampler(most, 3000)
        sampler.feed(part, end - begin)
        parts.append(sampler.sample())
        streamed.feed(part, end - begin)
    for found in (joined_samples(parts), streamed.sample()):
        assert found.packets == 3000
        for column in ("fingerprint", "at", "way"):
            assert np.array_equal(getattr(found, column), getattr(expected, column))
    assert len(expected.at) < 3 * most


def test_times_that_are_none_are_left_out() -> None:
    found = seen_at(talk(100), (0, 0))
    assert len(sample(replace(found, at=np.full(100, NO_TIME))).at) == 0
    assert compare({"a": sample(found), "b": sample(replace(found, at=np.full(100, NO_TIME)))}) is None
    assert compare({"a": sample(found), "b": joined_samples([])}) is None


def test_large_files_are_compared_if_they_overlap() -> None:
    def spans(*seconds: tuple[int, int] | None) -> bool:
        found = [None if one is None else (START + one[0] * SECOND, START + one[1] * SECOND) for one in seconds]
        return is_worth_it(SMALL + 1, lambda: found)

    assert not spans((0, 60), (60, 120), (120, 180))
    assert not spans((120, 180), (0, 60), None)
    assert spans((0, 60), (30, 90))
    assert spans((0, 600), (100, 160), (601, 700))
    assert is_worth_it(SMALL, list)
    assert WORTH_IT < MILLISECOND


def test_a_file_that_comes_while_others_are_compared_has_no_rank_of_its_own() -> None:
    joined = Joined({"a": CapturePoint(9, rank=1)}, 0, ())
    assert joined.ranks([("a", 1), ("new", 10)]).ranks == (1, 0)
