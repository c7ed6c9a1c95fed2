"""Facts about clients are sums, of which findings are made."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.views import Known
from kafkascope.reports.measures.client_facts import FACTS
from kafkascope.reports.views.clients import ClientsView
from tests.reports.captured_tables import captured, observed


def test_sums_count_every_exchange_error_and_connection_once() -> None:
    whole, _ = captured("clients_sasl", ClientsView.needs)
    rows = observed(ClientsView(), "clients_sasl")
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
    (found,) = ClientsView().result(rows, Known(topics={"abc": "orders"}))["findings"].to_pylist()
    assert found["kind"] == "hanging_transaction"
    assert found["title"].startswith("orders-3: readers of committed records are held at offset 7 for 90 s")
    assert [observation["packet"] for observation in found["evidence"]] == [5, 9]
