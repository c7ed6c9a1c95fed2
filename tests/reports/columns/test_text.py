from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.reports.columns.text import (
    address,
    address_alone,
    clock_times,
    epoch_times,
    is_name,
    iso_times,
    without_port,
)

TIME = pa.timestamp("ns", tz="UTC")


@given(st.lists(st.one_of(st.none(), st.integers(0, 2**63 - 1)), max_size=20))
def test_times_are_those_of_the_calendar(nanoseconds: list[int | None]) -> None:
    times = pa.array(nanoseconds, pa.int64()).cast(TIME)
    written = (write(times).to_pylist() for write in (iso_times, epoch_times, clock_times))
    for value, iso, epoch, clock in zip(nanoseconds, *written, strict=True):
        if value is None:
            assert (iso, epoch, clock) == (None, None, None)
            continue
        seconds, rest = divmod(value, 1_000_000_000)
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
        assert iso == f"{moment.isoformat()}.{rest:09d}Z"
        assert epoch == f"{seconds}.{rest:09d}"
        assert clock == iso[11:26]


@pytest.mark.parametrize(
    ("host", "named"),
    [("10.0.0.1", False), ("fd77::1", False), ("k1.example", True), ("localhost", True), ("10.0.0", True), ("", True)],
)
def test_hosts_with_and_without_their_ports(host: str, named: bool) -> None:
    place = address(host, 9092)
    assert (without_port(place), is_name(host)) == (host, named)
    assert (address_alone(place), address_alone(host)) == (host, host)
