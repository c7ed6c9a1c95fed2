"""Facts about clients are sums, of which findings are made."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafkascope.reports.columns.views import Known
from kafkascope.reports.measures.client_facts import FACTS
from kafkascope.reports.views.clients import ClientsView
from kafkascope.reports.vocabulary.tables import CONNECTIONS, EXCHANGES
from kafkascope.sniffer.units import SECOND_NS as SECOND
from tests.reports.captured_tables import captured, observed
from tests.reports.ends import Ends


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


@pytest.mark.parametrize("first", [1, 2])
def test_what_a_connection_left_open_is_judged_by_its_own_end(first: int) -> None:
    """Of two connections that begin in one span one ends soon; what it left open is nobody's fault."""
    of_both = {"client": "10.0.0.2", "client_id": "c", "broker": "10.0.0.1", "broker_port": 9092, "protocol": "kafka"}
    connections = [
        of_both | {"connection": number, "opened": 0, "closed": SECOND * (1 if number == first else 100)}
        for number in (1, 2)
    ]
    asked = {"number": 1, "client_id": "c", "api": "Produce", "outcome": "unanswered", "requested": SECOND // 2}

    def kinds(connection: int) -> list[str]:
        closed = [each | {"how_closed": "fin"} for each in connections]
        exchange = asked | {"connection": connection, "request_packet": 7}
        tables = {
            "connections": pa.Table.from_pylist(closed, schema=CONNECTIONS),
            "exchanges": pa.Table.from_pylist([exchange], schema=EXCHANGES),
        }
        rows = ClientsView().observe(tables, {1: Ends(), 2: Ends()})
        assert rows is not None
        findings = ClientsView().result(rows, Known()).get("findings")
        return [] if findings is None else list(findings["kind"].to_pylist())

    assert kinds(first) == []
    assert kinds(3 - first) == ["unanswered"]
