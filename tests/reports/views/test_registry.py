"""What holds of every view."""

from __future__ import annotations

import gc
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.reports.columns import circles
from kafkascope.reports.columns.arrow import dictionary_codes
from kafkascope.reports.columns.order import ordered
from kafkascope.reports.columns.views import Known
from kafkascope.reports.views.guarded import results
from kafkascope.reports.views.registry import VIEWS
from tests.reports.captured_tables import observed

CAPTURES = {
    "group_rows": ["killed-consumer", "kip848"],
    "client_facts": ["clients_sasl", "zk-2.8.2"],
    "positions": ["killed-consumer", "transactions", "share-group", "zk-2.8.2"],
    "latency_counts": ["net_fetch_latency", "mixed-versions"],
    "throughput_counts": ["net_fetch_latency", "transactions"],
    "error_counts": ["clients_admin", "rebalance-storm", "zk-2.8.2"],
    "cluster_facts": ["rolling-restart", "zk-2.8.2"],
    "activity": ["rolling-restart", "killed-silent"],
}


@cache
def result_of(view: str, capture: str) -> dict[str, pa.Table]:
    """What a view makes of a whole capture."""
    made = dict(VIEWS[view]().result(observed(VIEWS[view](), capture), Known()))
    assert sum(table.num_rows for table in made.values()) > 3
    return made


@pytest.mark.no_cover  # the same ways, many times
@pytest.mark.parametrize(("view", "capture"), [(view, capture) for view in VIEWS for capture in CAPTURES[view]])
@settings(max_examples=8)
@given(cuts=st.lists(st.floats(0, 1), min_size=1, max_size=8), seed=st.integers(0, 2**32 - 1))
def test_results_do_not_hang_on_batches_nor_on_the_order_of_rows(
    view: str, capture: str, cuts: list[float], seed: int
) -> None:
    make = VIEWS[view]
    whole = result_of(view, capture)
    rows = observed(make(), capture, cuts)
    order = np.random.default_rng(seed).permutation(rows.num_rows)
    again = make().result(rows.take(pa.array(order)), Known())
    assert again.keys() == whole.keys()
    assert all(again[name].equals(whole[name]) for name in whole)


@pytest.mark.parametrize(("view", "capture"), [(view, capture) for view in VIEWS for capture in CAPTURES[view]])
def test_tasks_that_have_some_keys_each_make_the_same_tables(view: str, capture: str) -> None:
    make = VIEWS[view]
    rows = observed(make(), capture)
    task = dictionary_codes(rows[make().key])[0] % 3
    of_tasks = [make().result(rows.filter(pa.array(task == number)), Known()) for number in (2, 0, 1)]
    results = result_of(view, capture)
    assert results
    for name, whole in results.items():
        together = pa.concat_tables(made[name] for made in of_tasks if name in made)
        assert ordered(name, together).equals(ordered(name, whole))


@pytest.mark.parametrize(("view", "capture"), [(view, capture) for view in VIEWS for capture in CAPTURES[view]])
def test_results_are_made_without_circles(view: str, capture: str) -> None:
    """Nobody looks for them meanwhile (`circles.none_made`): what is in one would stay until all is done."""
    rows = observed(VIEWS[view](), capture)
    result_of(view, capture)  # what is made once in a process
    gc.collect()
    with circles.none_made():
        made = results(VIEWS[view](), rows, Known())
        assert made
        assert gc.collect() == 0
