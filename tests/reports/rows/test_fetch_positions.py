from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.reports.rows.fetch_positions import UNKNOWN, FetchPositions

UNREAD = -1  # a request that was not read whole
# (connection, topic, partition, offset asked for or None where a response is asked what it was)
EVENTS = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 1), st.integers(0, 1), st.none() | st.integers(UNREAD, 99)), max_size=30
)


def observe(positions: FetchPositions, events: list[tuple[int, int, int, int | None]]) -> list[int]:
    rows = [(*event[:3], time, event[3]) for time, event in enumerate(events)]
    asked = np.array([row for row in rows if row[4] is not None and row[4] != UNREAD], np.int64).reshape(-1, 5).T
    wanted = np.array([row[:4] for row in rows if row[4] is None], np.int64).reshape(-1, 4).T
    unread = np.array([(row[0], row[3]) for row in rows if row[4] == UNREAD], np.int64).reshape(-1, 2).T
    told: list[int] = positions.observe(asked, wanted, unread).tolist()
    return told


@given(EVENTS, st.integers(0, 30))
def test_the_last_offset_asked_for_holds_however_the_events_are_cut(
    events: list[tuple[int, int, int, int | None]], cut: int
) -> None:
    last: dict[tuple[int, int, int], int] = {}
    expected = []
    for connection, topic, partition, offset in events:
        if offset is None:
            expected.append(last.get((connection, topic, partition), int(UNKNOWN)))
        elif offset == UNREAD:
            last = {key: told for key, told in last.items() if key[0] != connection}
        else:
            last[connection, topic, partition] = offset
    positions = FetchPositions()
    assert observe(positions, events[:cut]) + observe(positions, events[cut:]) == expected


def test_a_request_counts_for_its_own_response() -> None:
    asked = np.array([[1, 0, 0, 7, 50]], np.int64).T
    wanted = np.array([[1, 0, 0, 7]], np.int64).T
    assert FetchPositions().observe(asked, wanted).tolist() == [50]


def test_what_could_be_read_of_a_request_counts() -> None:
    asked = np.array([[1, 0, 0, 6, 40], [1, 0, 1, 6, 41], [1, 0, 0, 7, 50]], np.int64).T
    wanted = np.array([[1, 0, 0, 7], [1, 0, 1, 7]], np.int64).T
    assert FetchPositions().observe(asked, wanted, np.array([[1], [7]])).tolist() == [50, UNKNOWN]


def test_connections_that_ended_are_forgotten() -> None:
    positions = FetchPositions()
    observe(positions, [(1, 0, 0, 5), (2, 0, 0, 6)])
    positions.forget([1])
    assert observe(positions, [(1, 0, 0, None), (2, 0, 0, None)]) == [UNKNOWN, 6]
