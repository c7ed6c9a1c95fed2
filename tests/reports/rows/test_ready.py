"""Fetches that had nothing to wait for, by what their connection was told before."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.decoders import apis
from kafkascope.reports.rows.builder import TableBuilder
from kafkascope.reports.vocabulary.tables import READY
from tests.joined import joined
from tests.reports.written_exchanges import Written, batch, exchanges, some

VERSION = 11


def fetch(
    offset: int,
    records: int,
    high_watermark: int,
    *,
    stable: int | None = None,
    committed: bool = True,
    partition: int = 0,
    connection: int = 1,
) -> Written:
    """A fetch from offset on that brings records, and is told how far the partition goes."""
    asked = {"partition": partition, "fetchOffset": offset, "partitionMaxBytes": 1000}
    told = {
        "partitionIndex": partition,
        "highWatermark": high_watermark,
        "lastStableOffset": high_watermark if stable is None else stable,
        "records": batch(*[b"v"] * records, base_offset=offset) if records else b"",
    }
    return Written(
        apis.FETCH,
        VERSION,
        {
            "maxWaitMs": 500,
            "minBytes": 1,
            "isolationLevel": int(committed),
            "topics": [{"topic": "t", "partitions": [asked]}],
        },
        {"responses": [{"topic": "t", "partitions": [told]}]},
        connection=connection,
    )


def ready(*written: Written, cuts: Any = ()) -> list[tuple[int, int, int, bool]]:
    whole = exchanges(*written)
    builder = TableBuilder(frozenset({"ready"}))
    places = sorted({0, len(written), *(cut for cut in cuts if cut < len(written))})
    found = [joined(builder.observe(some(whole, first, last), {})) for first, last in pairwise(places)]
    rows = pa.concat_tables([READY.empty_table(), *(tables["ready"] for tables in found if "ready" in tables)])
    return [tuple(row.values()) for row in rows.to_pylist()]


def test_what_was_told_before_lay_there() -> None:
    assert ready(fetch(0, 2, 10), fetch(2, 3, 12), fetch(5, 7, 12)) == [
        (1, 1, 0, True),  # nothing was told before, and 8 were left behind
        (1, 2, 8, False),
        (1, 3, 7, False),
    ]


def test_a_consumer_that_is_at_the_end_has_to_wait() -> None:
    assert ready(fetch(10, 0, 10), fetch(10, 1, 11), fetch(11, 2, 13)) == [(1, 2, 0, False), (1, 3, 0, False)]


def test_the_first_fetch_that_gets_all_there_is_may_have_waited() -> None:
    assert ready(fetch(3, 2, 5)) == [(1, 1, 0, False)]


def test_open_transactions_end_what_can_be_read() -> None:
    assert ready(fetch(4, 0, 9, stable=4), fetch(4, 5, 9)) == [(1, 2, 0, False)]


def test_who_does_not_wait_for_transactions_reads_beyond_them() -> None:
    fetches = fetch(4, 2, 9, stable=4, committed=False), fetch(6, 3, 9, stable=4, committed=False)
    assert ready(*fetches) == [(1, 1, 0, True), (1, 2, 3, False)]


def test_other_partitions_and_connections_tell_nothing() -> None:
    found = ready(fetch(0, 0, 10), fetch(0, 10, 10, partition=1), fetch(0, 10, 10, connection=2))
    assert found == [(1, 2, 0, False), (2, 1, 0, False)]


made = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 3), st.integers(0, 5), st.integers(0, 1), st.integers(1, 2)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(made, st.sets(st.integers(1, 11)))
def test_it_is_the_same_however_exchanges_are_cut(fetches: list[tuple[int, ...]], cuts: set[int]) -> None:
    written = [
        fetch(offset, records, offset + records + left, partition=partition, connection=connection)
        for offset, records, left, partition, connection in fetches
    ]
    assert ready(*written, cuts=cuts) == ready(*written)
