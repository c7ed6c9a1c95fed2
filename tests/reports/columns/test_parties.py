from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.reports.columns.parties import ExchangePlaces, clients_and_brokers, topics_of_exchanges
from tests.reports.ends import Ends


def test_ends_are_named() -> None:
    ends = {
        3: Ends(),
        5: Ends("fe80::2", 1, "fe80::1", 9093),
    }
    client, broker = clients_and_brokers(np.array([5, 3, 9, 5]), ends)
    assert client.to_pylist() == ["fe80::2", "10.0.0.2", None, "fe80::2"]
    assert broker.to_pylist() == ["[fe80::1]:9093", "10.0.0.1:9092", None, "[fe80::1]:9093"]


PAIRS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), max_size=12, unique=True)


@given(PAIRS, st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=12))
def test_rows_find_their_exchange(exchanges: list[tuple[int, int]], rows: list[tuple[int, int]]) -> None:
    found = ExchangePlaces(places(exchanges)).of(places(rows))
    assert found.tolist() == [exchanges.index(row) if row in exchanges else -1 for row in rows]


def test_rows_find_exchanges_of_far_connections_and_none_in_an_empty_batch() -> None:
    ours, rows = places([(7, 1), (7, 2), (2**40, 1)]), places([(2**40, 1), (7, 2), (7, 3), (9, 1), (2**40, None)])
    assert ExchangePlaces(ours).of(rows).tolist() == [2, 1, -1, -1, -1]
    assert ExchangePlaces(ours.slice(0, 0)).of(rows).tolist() == [-1] * 5


def places(pairs: Sequence[tuple[int, int | None]]) -> pa.Table:
    columns = {name: [pair[i] for pair in pairs] for i, name in enumerate(("connection", "number"))}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def test_each_topic_of_an_exchange_is_named_once() -> None:
    topics = pa.chunked_array([["b", "a"], ["b", None, "b", "a"]])
    exchange, topic, place = topics_of_exchanges(np.array([1, 0, 1, 1, -1, 1]), topics)
    assert list(zip(exchange.tolist(), topic.to_pylist(), strict=True)) == [(0, "a"), (1, "b"), (1, "a")]
    assert place.tolist() == [1, 0, 1, -1, -1, 2]
