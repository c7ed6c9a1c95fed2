from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.decoders import apis
from kafkascope.reports.measures.latency.neighbours import NEEDED, Neighbourhood, Neighbours
from kafkascope.reports.measures.latency.parts import ABSENT

CONNECTION, PRODUCE, FETCH, METADATA = 7, apis.PRODUCE, apis.FETCH, apis.METADATA


def rows_of(*exchanges: tuple[int, int, int, int], connection: int = CONNECTION, number: int = 1) -> pa.Table:
    """Exchanges of (API, requested, answered, throttle); a request and an answer take no time."""
    columns: dict[str, Any] = dict.fromkeys(NEEDED)
    columns["connection"] = [connection] * len(exchanges)
    columns["number"] = range(number, number + len(exchanges))
    columns["api_key"], columns["requested"], columns["response_done"], columns["throttle"] = zip(
        *exchanges, strict=True
    )
    columns["request_done"] = columns["requested"]
    return pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()})


def stretches(found: Neighbourhood, gap: str) -> list[tuple[int, int, int]]:
    of = getattr(found, gap)
    numbers = found.rows["number"].to_numpy()[of.row]
    return list(zip(numbers.tolist(), of.begin.tolist(), of.length.tolist(), strict=True))


def test_the_time_up_to_the_next_request_of_the_kind_is_the_applications() -> None:
    found = Neighbours().observe(rows_of((FETCH, 0, 10, 0), (METADATA, 12, 13, 0), (FETCH, 25, 30, 0)))
    assert stretches(found, "application") == [(3, 10, 15)]
    assert stretches(found, "throttled") == []
    assert found.busy_until.tolist() == [ABSENT, 10, 13]


def test_a_delay_that_was_told_is_not_the_applications() -> None:
    found = Neighbours().observe(rows_of((FETCH, 0, 10, 100), (FETCH, 120, 130, 50), (FETCH, 150, 160, 0)))
    assert stretches(found, "throttled") == [(1, 10, 100), (2, 130, 20)]  # the client did not wait for all of the 50
    assert stretches(found, "application") == [(2, 10, 10), (3, 130, 0)]
    assert found.muted_until.tolist() == [ABSENT, 110, 180]


def test_requests_in_flight_have_no_time_between_but_are_held_up_by_the_delay() -> None:
    found = Neighbours().observe(rows_of((PRODUCE, 0, 10, 1000), (PRODUCE, 5, 1012, 0), (PRODUCE, 6, 1015, 0)))
    assert stretches(found, "throttled") == []
    assert stretches(found, "application") == []
    assert found.muted_until.tolist() == [ABSENT, 1010, 1010]  # of the last one, too
    assert found.busy_until.tolist() == [ABSENT] * 3  # the same kind is not held against its own


def test_all_requests_behind_one_of_another_kind_are_held_up_by_it() -> None:
    found = Neighbours().observe(rows_of((FETCH, 0, 500, 0), (METADATA, 10, 510, 0), (METADATA, 20, 520, 0)))
    assert found.busy_until.tolist() == [ABSENT, 500, 500]


def test_requests_without_answer_and_answers_without_request() -> None:
    found = Neighbours().observe(
        rows_of((PRODUCE, 0, ABSENT, 0), (PRODUCE, 5, 10, 0), (PRODUCE, ABSENT, 20, 30), (PRODUCE, 60, 70, 0))
    )
    assert stretches(found, "application") == [(4, 20, 10)]
    assert stretches(found, "throttled") == [(3, 20, 30)]
    assert found.busy_until.tolist() == [ABSENT] * 4


def test_connections_do_not_mix_and_are_forgotten() -> None:
    neighbours = Neighbours()
    first, second = rows_of((FETCH, 0, 10, 50)), rows_of((FETCH, 0, 20, 0), connection=8)
    neighbours.observe(pa.concat_tables([first, second]))
    again = neighbours.observe(rows_of((FETCH, 30, 40, 0), connection=8, number=2))
    assert stretches(again, "application") == [(2, 20, 10)]
    neighbours.forget(pa.array([7]))
    after = neighbours.observe(rows_of((FETCH, 100, 110, 0), number=2))
    assert stretches(after, "application") == []
    assert after.muted_until.tolist() == [ABSENT]


exchange = st.tuples(
    st.integers(1, 3),
    st.sampled_from([PRODUCE, FETCH, METADATA]),
    st.integers(0, 50),
    st.integers(0, 50),
    st.sampled_from([0, 0, 30]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(exchange, min_size=1, max_size=25), st.sets(st.integers(1, 24)))
def test_it_is_the_same_however_exchanges_are_cut_into_batches(
    made: list[tuple[int, int, int, int, int]], cuts: set[int]
) -> None:
    parts = []
    numbers = dict.fromkeys(range(4), 0)
    clock = 0
    for connection, api, wait, took, throttle in made:
        numbers[connection] += 1
        clock += wait
        row = (api, clock, clock + took, throttle)
        parts.append(rows_of(row, connection=connection, number=numbers[connection]))
    table = pa.concat_tables(parts)
    places = [0, *sorted(cut for cut in cuts if cut < len(made)), len(made)]

    def everything(batches: list[pa.Table]) -> Any:
        neighbours = Neighbours()
        found = [neighbours.observe(batch) for batch in batches]
        gaps = [
            (gap, one.rows["connection"].to_numpy()[getattr(one, gap).row[i]], *stretches(one, gap)[i])
            for one in found
            for gap in ("throttled", "application")
            for i in range(len(getattr(one, gap).row))
        ]
        return (
            sorted(gaps),
            np.concatenate([one.busy_until for one in found]).tolist(),
            np.concatenate([one.muted_until for one in found]).tolist(),
        )

    batches = [table.slice(first, last - first) for first, last in itertools.pairwise(places)]
    assert everything(batches) == everything([table])
