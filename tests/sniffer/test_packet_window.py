"""Windows of packets: how people name them, and what is in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from kafkascope.sniffer.columns import NO_TIME, Packets
from kafkascope.sniffer.packet_window import EVERYTHING, LAST, Bounds, PacketWindow
from kafkascope.sniffer.sources.files import FileReader
from kafkascope.sniffer.sources.split import SplitReader, chain, index_split, ranges
from kafkascope.sniffer.units import DAY_NS, SECOND_NS
from tests.paths import PCAPS

DAY = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp()) * SECOND_NS
FIRST = DAY + 5 * 3600 * SECOND_NS + 7  # of a capture's packets
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ("2026-11-21", DAY),
        ("2026-11-21T00:01", DAY + 60 * SECOND_NS),
        ("2026-11-21 00:00:01.000000001", DAY + SECOND_NS + 1),
        ("2026-11-21T02:00:01.5+02:00", DAY + 3 * SECOND_NS // 2),
        ("2026-11-20T23:00:00Z", DAY - 3600 * SECOND_NS),
        (str(DAY // SECOND_NS) + ".25", DAY + SECOND_NS // 4),
        (datetime(2026, 11, 21, 2, 0, 0, 500_000, tzinfo=EAST), DAY + SECOND_NS // 2),
        ("05:57", DAY + 21420 * SECOND_NS),
        ("05:57:16.000000001", DAY + 21436 * SECOND_NS + 1),
        ("+30s", FIRST + 30 * SECOND_NS),
        ("+1.5m", FIRST + 90 * SECOND_NS),
        ("+250ms", FIRST + SECOND_NS // 4),
        ("+2", FIRST + 2 * SECOND_NS),
    ],
)
def test_moments(given: str | datetime, at: int) -> None:
    assert PacketWindow.of(since=given).bounds(FIRST) == Bounds(at, LAST, 1, LAST)


@pytest.mark.parametrize("given", ["", "noon", "25:00:00", "2026-13-01", "2026-11-21T99:00", "-30s", "+", "12"])
def test_what_is_no_moment_says_how_moments_are_written(given: str) -> None:
    with pytest.raises(ValueError, match=r"^until: .* is no time; give 2026-"):
        PacketWindow.of(until=given)


def test_an_end_by_the_clock_that_is_before_the_begin_is_of_the_next_day() -> None:
    found = PacketWindow.of("23:59:00", "00:01:00").bounds(FIRST)
    assert (found.since, found.until) == (DAY + DAY_NS - 60 * SECOND_NS, DAY + DAY_NS + 60 * SECOND_NS)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("2026-11-22T23:00", "01:00", DAY + 49 * 3600 * SECOND_NS),
        ("2026-11-24T10:00", "12:00", DAY + 84 * 3600 * SECOND_NS),
        ("+30h", "20:00", DAY + 44 * 3600 * SECOND_NS),
    ],
)
def test_an_end_by_the_clock_is_the_first_one_behind_a_begin_on_a_later_day(
    since: str, until: str, expected: int
) -> None:
    assert PacketWindow.of(since, until).bounds(FIRST).until == expected


@pytest.mark.parametrize(
    ("given", "first", "last"), [("3-5", 3, 5), ("3-", 3, LAST), ("-5", 1, 5), ("4", 4, 4), ((3, 5), 3, 5)]
)
def test_numbers(given: str | tuple[int, int], first: int, last: int) -> None:
    assert PacketWindow.of(packets=given) == PacketWindow(first=first, last=last)


@pytest.mark.parametrize("given", ["", "-", "5-3", "0-3", "a-b", "1-2-3", f"1-{LAST + 1}"])
def test_what_is_no_range_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=r"^packets: "):
        PacketWindow.of(packets=given)


def packets(*times: int) -> Packets:
    count = len(times)
    zeros = np.zeros(count, np.int64)
    small = np.zeros(count, np.int32)
    return Packets(np.zeros(0, np.uint8), np.arange(1, count + 1), np.array(times), zeros, small, small, small)


def test_what_is_in_a_window() -> None:
    some = packets(FIRST, NO_TIME, FIRST + SECOND_NS, FIRST + 2 * SECOND_NS, FIRST + SECOND_NS)

    def inside(**window: str) -> list[int]:
        held = PacketWindow.of(**window).bounds(FIRST).cut(some).number.tolist()
        return list(held)

    assert EVERYTHING.bounds(None).cut(some) is some
    assert inside(since="+1s") == [3, 4, 5]
    assert inside(until="+1s") == [1]  # the end is not in it, nor what has no time
    assert inside(since="+1s", until="+2s") == [3, 5]  # by their own times, also where a clock goes back
    assert inside(packets="2-4") == [2, 3, 4]
    assert inside(packets="2-4", since="+1s") == [3, 4]
    assert PacketWindow.of(since="+1s").bounds(None).cut(some).number.tolist() == []  # nobody knows yet when it began


@pytest.mark.parametrize("file", ["killed-silent/capture.pcap", "clients_tls/with-secrets.pcapng"])
@pytest.mark.parametrize("window", [{"since": "+3s", "until": "+5s"}, {"packets": "300-400"}])
def test_splits_outside_of_a_window_are_not_worth_reading(file: str, window: dict[str, str]) -> None:
    path = str(PCAPS / file)
    splits = chain([index_split(path, *piece) for piece in ranges(path, 32_768)])
    with_times = FileReader(path)
    next(iter(with_times))
    bounds = PacketWindow.of(**window).bounds(with_times.first_time)
    held = [sum(len(bounds.cut(packets).number) for packets in SplitReader(split)) for split in splits]
    worth = [split.is_worth_reading(bounds) for split in splits]
    assert [count > 0 for count in held] == worth
    assert 0 < sum(worth) < len(splits) - 1
