"""What each kind of exchange is taken to have waited for, case by case. Times are milliseconds."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.decoders import apis
from kafkascope.reports.measures.latency import parts
from kafkascope.reports.measures.latency.parts import ABSENT, Timed, split

MS = 1_000_000
FLAGS = {"top_error", "known", "more_ready"}
NANOSECONDS = {
    "requested",
    "request_done",
    "answered",
    "response_done",
    "acked",
    "round_trip",
    "least_round_trip",
    "late",
    "busy_until",
    "muted_until",
    "max_wait",
}
USUAL: dict[str, Any] = {
    "api_key": apis.METADATA,
    "requested": 1000,
    "request_done": 1000,
    "answered": 1300,
    "response_done": 1300,
    "known": True,
}
ZERO = {"error", "top_error", "late", "more_ready", "brought_bytes", "brought_records", "ready_records"}
LONG_POLL = {"api_key": apis.FETCH, "max_wait": 500, "min_bytes": 1}
DATA = {"brought_bytes": 1000, "brought_records": 10}


def timed(**values: Any) -> Timed:
    given_values = USUAL | values
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(Timed):
        value = given_values.get(field.name, 0 if field.name in ZERO else ABSENT)
        if field.name in NANOSECONDS and value != ABSENT:
            value *= MS
        columns[field.name] = np.array([value], np.bool_ if field.name in FLAGS else np.int64)
    return Timed(**columns)


def spent(**values: Any) -> dict[str, float]:
    found = {part: int(took[0]) for part, took in split(timed(**values)).items() if part not in parts.OF_SLOW}
    return {part: took / MS for part, took in found.items() if took or part == parts.SLOW}


@pytest.mark.parametrize(
    ("case", "values", "expected"),
    [
        ("nothing to wait for", {}, {"slow": 300}),
        ("idle long poll", LONG_POLL | {"answered": 1502}, {"waiting": 500, "slow": 2}),
        ("long poll of a broker that slept", LONG_POLL | {"answered": 1900}, {"waiting": 500, "slow": 400}),
        ("data came while it waited", LONG_POLL | DATA, {"waiting": 300, "slow": 0}),
        ("data lay there", LONG_POLL | DATA | {"ready_records": 3}, {"slow": 300}),
        (
            "less lay there than was asked for",
            LONG_POLL | DATA | {"ready_records": 3, "min_bytes": 900},
            {"waiting": 300, "slow": 0},
        ),
        (
            "as much lay there as was asked for",
            LONG_POLL | DATA | {"ready_records": 9, "min_bytes": 900},
            {"slow": 300},
        ),
        (
            "too little came",
            LONG_POLL | DATA | {"ready_records": 10, "min_bytes": 5000, "answered": 1501},
            {"waiting": 500, "slow": 1},
        ),
        ("more than the answer could hold", LONG_POLL | DATA | {"more_ready": True}, {"slow": 300}),
        ("not asked to wait", LONG_POLL | {"max_wait": 0}, {"slow": 300}),
        ("no bytes asked for", LONG_POLL | {"min_bytes": 0}, {"slow": 300}),
        ("the session is not known", LONG_POLL | {"error": 70, "top_error": True}, {"slow": 300}),
        ("a partition has moved", LONG_POLL | {"error": 6}, {"waiting": 300, "slow": 0}),
        ("share fetch", LONG_POLL | DATA | {"api_key": apis.SHARE_FETCH}, {"waiting": 300, "slow": 0}),
        (
            "the request is not in the capture",
            LONG_POLL | {"known": False, "max_wait": ABSENT},
            {"unsplit": 300, "slow": 0},
        ),
        ("behind another request", {"busy_until": 1200}, {"queued": 200, "slow": 100}),
        ("behind one that was answered before", {"busy_until": 900}, {"slow": 300}),
        ("muted", {"muted_until": 1250}, {"throttled": 250, "slow": 50}),
        ("muted for longer than it took", {"muted_until": 9000}, {"throttled": 300, "slow": 0}),
        (
            "behind another, then muted",
            {"busy_until": 1100, "muted_until": 1250},
            {"queued": 100, "throttled": 150, "slow": 50},
        ),
        ("the answer itself was delayed", {"api_key": apis.PRODUCE, "late": 200}, {"throttled": 200, "slow": 100}),
        ("told a delay that did not happen", {"api_key": apis.PRODUCE, "late": 400}, {"slow": 300}),
        ("produce", {"api_key": apis.PRODUCE, "acks": -1, "max_wait": 30000}, {"slow": 300}),
        (
            "replicas did not follow",
            {"api_key": apis.PRODUCE, "acks": -1, "max_wait": 290, "error": 7},
            {"replicas": 290, "slow": 10},
        ),
        ("no replicas asked for", {"api_key": apis.PRODUCE, "acks": 1, "max_wait": 290, "error": 7}, {"slow": 300}),
        ("join", {"api_key": apis.JOIN_GROUP}, {"waiting": 300, "slow": 0}),
        ("join without a member id", {"api_key": apis.JOIN_GROUP, "error": 79}, {"slow": 300}),
        ("follower", {"api_key": apis.SYNC_GROUP, "assignments": 0}, {"waiting": 300, "slow": 0}),
        (
            "follower whose group began anew",
            {"api_key": apis.SYNC_GROUP, "assignments": 0, "error": 27},
            {"waiting": 300, "slow": 0},
        ),
        ("leader", {"api_key": apis.SYNC_GROUP, "assignments": 3}, {"slow": 300}),
        ("transfer both ways", {"requested": 900, "response_done": 1350}, {"transfer": 150, "slow": 300}),
    ],
)
def test_what_the_time_was_spent_on(case: str, values: dict[str, Any], expected: dict[str, float]) -> None:
    total = sum(expected.values())
    assert spent(**values) == pytest.approx({"total": total} | expected), case


TRIP = {"round_trip": 10, "least_round_trip": 10}
LATE = 1010 + 200  # a round trip, and as long as a host may hold an acknowledgement back
HELD = 1010 + 40


@pytest.mark.parametrize(
    ("case", "values", "network", "broker"),
    [
        ("nothing tells", {"answered": 1900}, ABSENT, ABSENT),
        ("no round trip was seen", {"acked": 1001, "round_trip": ABSENT, "least_round_trip": ABSENT}, ABSENT, ABSENT),
        ("acknowledged at once, answered late", {"answered": 1900, "acked": 1021}, 10, 890),
        ("not at once, and no longer than held back", {"answered": 1900, "acked": LATE}, 10, 690),
        ("acknowledged late", {"answered": 1900, "acked": LATE + 1}, 211, 689),
        ("late with the answer", {"answered": 1900, "acked": 1900}, 900, 0),
        ("with the answer, soon, while all is well", {"answered": HELD - 1, "acked": HELD - 1}, 10, 39),
        ("with the answer, after as long as one is held back", {"answered": HELD, "acked": HELD}, 10, 0),
        ("with the answer, as round trips take long", {"answered": 1049, "acked": 1049, "round_trip": 22}, 10, 0),
        ("with the answer, as round trips are well", {"answered": 1049, "acked": 1049, "round_trip": 21}, 10, 39),
        ("sooner than ever", {"answered": 1004, "acked": 1004}, 4, 0),
        ("it was there already", {"acked": 1010, "busy_until": 1200}, 0, 100),
        ("it came as the broker became free", {"acked": 1010, "busy_until": 1006}, 4, 290),
        ("a long poll", LONG_POLL | {"answered": 1530, "acked": 1010}, 10, 20),
        ("a long poll that brought data", LONG_POLL | DATA | {"acked": 1010}, 0, 0),
    ],
)
def test_what_was_slow_is_told_apart(case: str, values: dict[str, Any], network: int, broker: int) -> None:
    found = split(timed(**{**TRIP, "response_done": values.get("answered", 1300), **values}))
    told = [int(found[part][0]) for part in (parts.NETWORK, parts.BROKER)]
    assert told == [one if one == ABSENT else one * MS for one in (network, broker)], case
    assert found[parts.UNCLEAR][0] == found[parts.SLOW][0] - sum(one for one in told if one != ABSENT), case


times = st.integers(0, 3000)


@given(
    st.sampled_from([apis.METADATA, apis.FETCH, apis.PRODUCE, apis.JOIN_GROUP, apis.SYNC_GROUP, apis.SHARE_FETCH]),
    st.lists(times, min_size=4, max_size=4),
    st.lists(st.one_of(st.just(ABSENT), times), min_size=5, max_size=5),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**40),
    st.booleans(),
    st.sampled_from([0, 7, 25, 70]),
)
def test_parts_are_never_negative_and_add_up(
    api_key: int,
    at: list[int],
    others: list[int],
    max_wait: int,
    min_bytes: int,
    ready: int,
    known: bool,
    error: int,
) -> None:
    requested, request_done, answered, response_done = sorted(at)
    busy, muted, acked, round_trip, least = others
    found = split(
        timed(
            api_key=api_key,
            requested=requested,
            request_done=request_done,
            answered=answered,
            response_done=response_done,
            busy_until=busy,
            muted_until=muted,
            acked=acked,
            round_trip=round_trip,
            least_round_trip=least,
            max_wait=max_wait,
            min_bytes=min_bytes,
            ready_records=ready,
            known=known,
            acks=-1,
            error=error,
            **DATA,
        )
    )
    of_slow = [int(found.pop(part)[0]) for part in parts.OF_SLOW]
    assert of_slow[:2] == [ABSENT, ABSENT] or min(of_slow) >= 0
    assert sum(one for one in of_slow if one != ABSENT) == found[parts.SLOW][0]
    assert all(took[0] >= 0 for took in found.values())
    assert sum(int(took[0]) for part, took in found.items() if part != parts.TOTAL) == found[parts.TOTAL][0]
    assert found[parts.TOTAL][0] == (response_done - requested) * MS
