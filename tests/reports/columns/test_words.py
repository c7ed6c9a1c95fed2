from __future__ import annotations

import pytest

from kafkascope.reports.columns.words import (
    clock,
    day_and_clock,
    duration,
    exact_duration,
    in_milliseconds,
    in_seconds,
    iso_time,
)

AT = 1_795_241_060_001_999_999


def test_times_are_utc_to_the_millisecond_and_whole_where_programs_read_them() -> None:
    assert clock(AT) == "06:04:20.001"
    assert day_and_clock(AT) == "2026-11-21 06:04:20.001"
    assert iso_time(AT) == "2026-11-21T06:04:20.001999999Z"
    assert (clock(None), day_and_clock(None), iso_time(None)) == ("", "", None)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, ""),
        (0.0, "0 ms"),
        (0.42, "0.420 ms"),
        (12.0, "12.0 ms"),
        (480.4, "480 ms"),
        (3_200.0, "3.2 s"),
        (125_000.0, "2 min 5 s"),
        (3_780_000.0, "1 h 3 min"),
    ],
)
def test_a_duration_has_the_unit_that_fits(milliseconds: float | None, text: str) -> None:
    assert duration(milliseconds) == text


def test_a_duration_in_a_fixed_unit() -> None:
    assert in_milliseconds(1204.4) == "1,204 ms"
    assert (in_seconds(1_204_040.0), in_seconds(1500, 3)) == ("1,204.0 s", "1.500 s")


def test_what_clocks_differ_by_is_told_to_the_microsecond() -> None:
    assert [exact_duration(ms) for ms in (0.0123, 0.1, 3.4564, 1_204_000.123)] == [
        "12.3 µs",
        "0.100 ms",
        "3.456 ms",
        "1,204.000123 s",
    ]
