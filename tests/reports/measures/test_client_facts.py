"""Facts about clients are sums: however the tables are cut, the findings are the same."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkascope
from kafkascope.reports.columns.views import Known
from kafkascope.reports.measures.client_facts import FACTS
from kafkascope.reports.views.clients import FactsView
from tests.paths import PCAPS
from tests.reports.ends import Ends, ends_of


@cache
def tables(capture: str) -> tuple[dict[str, pa.Table], dict[int, Ends]]:
    """The tables that the view needs, and the ends of connections."""
    (file,) = (PCAPS / capture).glob("capture.pcap*")
    cap = kafkascope.read(file)
    return {name: cap.arrow(name) for name in FactsView.needs}, ends_of(cap.arrow("connections"))


def findings(parts: list[pa.Table]) -> pa.Table:
    return FactsView().result(pa.concat_tables(parts), Known())["findings"]


@pytest.mark.parametrize("capture", ["clients_sasl", "zk-2.8.2"])
@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.floats(0, 1), min_size=1, max_size=5), shuffled=st.randoms(use_true_random=False))
def test_findings_do_not_depend_on_how_exchanges_were_cut(capture: str, cuts: list[float], shuffled: Any) -> None:
    whole, ends = tables(capture)
    exchanges = whole["exchanges"]
    places = sorted({0, exchanges.num_rows, *(int(cut * exchanges.num_rows) for cut in cuts)})
    parts = []
    for first, last in itertools.pairwise(places):
        some = exchanges.slice(first, last - first)
        of = some.select(["connection", "number"])
        batch = {"exchanges": some}
        for name in ("errors", "partitions", "batches"):
            batch[name] = whole[name].join(of, ["connection", "number"], join_type="left semi")
        parts.append(FactsView().observe(batch, ends))
    parts.append(FactsView().observe({name: whole[name] for name in ("connections", "issues")}, ends))
    there = [part for part in parts if part is not None]
    shuffled.shuffle(there)
    assert findings(there).equals(findings([FactsView().observe(whole, ends)]))


def test_sums_count_every_exchange_error_and_connection_once() -> None:
    whole, ends = tables("clients_sasl")
    rows = FactsView().observe(whole, ends)
    assert rows.schema == FACTS

    def count(kind: str) -> int:
        return pc.sum(rows.filter(pc.equal(rows["kind"], kind))["count"]).as_py() or 0

    assert count("request") == whole["exchanges"].num_rows
    assert count("error") == whole["errors"].num_rows
    kafka = pc.equal(whole["connections"]["protocol"], "kafka")
    opened = pc.is_valid(whole["connections"]["opened"])
    assert count("connection") == pc.sum(pc.and_(kafka, opened)).as_py()
    assert count("unanswered") == pc.sum(pc.equal(whole["exchanges"]["outcome"], "unanswered")).as_py()


def test_topics_known_by_id_get_their_names_in_the_end() -> None:
    fact = dict.fromkeys(FACTS.names) | {
        "client": "c (1.2.3.4)", "kind": "held_back", "api": "Fetch", "what": "id:abc-3",
        "span": 0, "count": 1, "least": 7, "most": 7, "total": 7, "first_at": 0, "last_at": 0, "first_packet": 5,
    }  # fmt: skip
    later = fact | {"span": 90_000_000_000, "first_at": 90_000_000_000, "last_at": 90_000_000_000, "first_packet": 9}
    rows = pa.Table.from_pylist([fact, later], schema=FACTS)
    (found,) = FactsView().result(rows, Known(topics={"abc": "orders"}))["findings"].to_pylist()
    assert found["kind"] == "hanging_transaction"
    assert found["title"].startswith("orders-3: readers of committed records are held at offset 7 for 90 s")
    assert [observation["packet"] for observation in found["evidence"]] == [5, 9]
