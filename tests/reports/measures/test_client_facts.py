"""Facts about clients are sums, of which findings are made."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kafkascope.reports.columns.answered import Answered
from kafkascope.reports.columns.views import Known
from kafkascope.reports.measures.client_facts import FACTS, facts_of
from kafkascope.reports.views.clients import ClientsView
from kafkascope.reports.vocabulary.tables import ALL_SCHEMAS, CONNECTIONS, EXCHANGES
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
    errors = whole["errors"].select(["connection", "number", "error"])
    assert count("error") == len({tuple(row.values()) for row in errors.to_pylist()})
    kafka = pc.equal(whole["connections"]["protocol"], "kafka")
    opened = pc.is_valid(whole["connections"]["opened"])
    assert count("connection") == pc.sum(pc.and_(kafka, opened)).as_py()
    assert count("unanswered") == pc.sum(pc.equal(whole["exchanges"]["outcome"], "unanswered")).as_py()


@pytest.mark.parametrize(("decoded", "cut"), [("full", 0), ("header", 9), ("none", 9)])
def test_of_fetches_that_are_not_read_whole_it_is_not_known_what_they_brought(decoded: str, cut: int) -> None:
    asked = {"connection": 1, "api": "Fetch", "outcome": "answered", "requested": SECOND, "decoded": decoded}
    rows = [asked | {"number": number, "client_id": "c", "request_packet": 7} for number in range(9)]
    of_writes = [{**each, "api": "Produce", "number": 9 + number} for number, each in enumerate(rows)]
    tables = {"exchanges": pa.Table.from_pylist([*rows, *of_writes], schema=EXCHANGES)}
    facts = ClientsView().observe(tables, {1: Ends()})
    assert facts is not None
    assert pc.sum(facts.filter(pc.equal(facts["kind"], "cut"))["count"]).as_py() == (cut or None)


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


Row = dict[str, Any]
CLIENT = "c (10.0.0.2)"
BROKER = "10.0.0.1:9092"
# An exchange that lasts from 19 s to 21 s, its request to 20 s; other tables tell of what was in it.
EXCHANGE = {"connection": 1, "number": 1, "client_id": "c", "api": "Fetch", "api_version": 4, "outcome": "answered"}
EXCHANGE |= {"requested": 19 * SECOND, "request_done": 20 * SECOND, "answered": 21 * SECOND}
EXCHANGE |= {"request_packet": 5, "response_packet": 6}
IN_IT = {"connection": 1, "number": 1, "at": 21 * SECOND}


def facts(kind: str, **tables: Row) -> list[Row]:
    """The facts of a kind that a row of each table makes, without what is null."""
    made = {name: pa.Table.from_pylist([row], schema=ALL_SCHEMAS[name]) for name, row in tables.items()}
    rows = [row for part in facts_of(made, {1: Ends()}, Answered()) for row in part.to_pylist()]
    return [
        {name: value for name, value in row.items() if name != "kind" and value is not None}
        for row in rows
        if row["kind"] == kind
    ]


def once(second: int, packet: int, span: int, measure: int | None = None, **given: Any) -> Row:
    """What all facts of one thing have: when it was, in which span, and what was measured."""
    sums = {} if measure is None else {"total": measure, "least": measure, "most": measure}
    at = second * SECOND
    known = {"client": CLIENT, "broker": BROKER, "span": span * SECOND, "count": 1, "first_at": at, "last_at": at}
    return known | sums | {"first_packet": packet} | given


def test_a_request_counts_in_the_span_in_which_it_was_asked_and_waits_from_its_end_on() -> None:
    assert facts("request", exchanges=EXCHANGE) == [once(19, 5, 10, SECOND, api="Fetch", number=4)]
    late = EXCHANGE | {"requested": None, "request_done": None, "request_packet": None, "client_id": None}
    assert facts("request", exchanges=late) == [once(21, 6, 20, None, api="Fetch", number=4, client="- (10.0.0.2)")]
    assert facts("request", exchanges=late | {"answered": None}) == []
    assert facts("unanswered", exchanges=EXCHANGE) == []
    unanswered = EXCHANGE | {"outcome": "unanswered", "answered": None}
    assert facts("unanswered", exchanges=unanswered) == [once(19, 5, 10, api="Fetch", number=1)]


@pytest.mark.parametrize(("throttle_ms", "count"), [(None, 0), (0, 0), (1, 1)])
def test_only_what_a_quota_held_back_is_throttled(throttle_ms: int | None, count: int) -> None:
    found = facts("throttled", exchanges=EXCHANGE | {"throttle_ms": throttle_ms})
    assert found == [once(19, 5, 10, 1, api="Fetch", number=4) | {"last_at": 21 * SECOND}] * count


@pytest.mark.parametrize(("version", "until"), [(7, 21), (8, 22)])
def test_a_quota_holds_back_until_its_order_is_over_where_that_comes_after_the_answer(version: int, until: int) -> None:
    (found,) = facts("throttled", exchanges=EXCHANGE | {"api_version": version, "throttle_ms": 1000})
    assert (found["first_at"], found["last_at"]) == (19 * SECOND, until * SECOND)


def test_an_error_counts_when_it_was_answered() -> None:
    error = IN_IT | {"api": "Fetch", "api_version": 4, "error": "CORRUPT_MESSAGE", "broker": BROKER, "client_id": "c"}
    counted = once(21, 6, 20, api="Fetch", what="CORRUPT_MESSAGE", number=4)
    assert facts("error", exchanges=EXCHANGE, errors=error) == [counted]
    del counted["first_packet"]
    assert facts("error", exchanges=EXCHANGE | {"number": 2}, errors=error) == [counted]


def test_an_answer_that_refuses_many_partitions_is_one_error() -> None:
    error = IN_IT | {"api": "Fetch", "broker": BROKER, "client_id": "c"}
    errors = [error | {"error": name, "partition": n} for n in range(30) for name in ("UNKNOWN_TOPIC_ID", "NONE_YET")]
    errors += [row | {"number": 2} for row in errors[:2]]
    made = {
        "exchanges": pa.Table.from_pylist([EXCHANGE], schema=EXCHANGES),
        "errors": pa.Table.from_pylist(errors, schema=ALL_SCHEMAS["errors"]),
    }
    rows = [row for part in facts_of(made, {1: Ends()}, Answered()) for row in part.to_pylist()]
    assert Counter(row["what"] for row in rows if row["kind"] == "error") == {"UNKNOWN_TOPIC_ID": 2, "NONE_YET": 2}


PRODUCED = IN_IT | {"direction": "produce", "topic": "t", "partition": 3, "codec": "none", "magic": 2, "records": 5}
PRODUCED |= {"producer_id": 0, "producer_epoch": 7, "base_sequence": 10}
PRODUCED |= {"timestamp_type": "create_time", "max_timestamp": 23 * SECOND}


def test_a_batch_its_clock_and_its_numbers() -> None:
    tables = {"exchanges": EXCHANGE, "batches": PRODUCED}
    assert facts("batch", **tables) == [once(21, 6, 20, 5, api="produce", what="none", number=2)]
    assert facts("clock", **tables) == [once(21, 6, 20, 2_000, api="produce", what="none", number=2)]
    (numbers,) = facts("sequence", **tables)
    assert numbers.pop("client") == CLIENT
    assert (numbers["api"], numbers["what"]) == ("0/7", "t-3")
    assert (numbers["total"], numbers["least"], numbers["most"]) == (5, 10, 14)


@pytest.mark.parametrize(
    ("changes", "clocks", "sequences"),
    [
        ({"timestamp_type": "log_append_time"}, 0, 1),  # the broker's clock
        ({"max_timestamp": None}, 0, 1),
        ({"direction": "fetch"}, 0, 0),
        ({"producer_id": -1}, 1, 0),
        ({"producer_id": None}, 1, 0),
        ({"base_sequence": -1}, 1, 0),
        ({"base_sequence": 0}, 1, 1),
        ({"records": 0}, 1, 0),
        ({"records": 1}, 1, 1),
    ],
)
def test_which_batches_tell_of_a_producers_clock_and_numbers(changes: Row, clocks: int, sequences: int) -> None:
    tables = {"exchanges": EXCHANGE, "batches": PRODUCED | changes}
    assert (len(facts("clock", **tables)), len(facts("sequence", **tables))) == (clocks, sequences)


@pytest.mark.parametrize(
    ("stable", "high", "api", "count"),
    [
        (4, 5, "Fetch", 1),
        (0, 5, "Fetch", 1),
        (5, 5, "Fetch", 0),
        (-1, 5, "Fetch", 0),
        (None, 5, "Fetch", 0),
        (4, 5, "ListOffsets", 0),
    ],
)
def test_readers_are_held_back_below_the_high_watermark(stable: int | None, high: int, api: str, count: int) -> None:
    offsets = {"last_stable_offset": stable, "high_watermark": high}
    partition = IN_IT | {"api": api, "topic": "t", "partition": 3} | offsets
    found = facts("held_back", exchanges=EXCHANGE, partitions=partition)
    assert found == [once(21, 6, 20, stable, api="Fetch", what="t-3")] * count


def test_a_connection_lasts_from_its_opening_to_its_end() -> None:
    row = {"connection": 1, "protocol": "kafka", "client": "10.0.0.2", "client_id": "c", "how_closed": "fin"}
    row |= {"broker": "10.0.0.1", "broker_port": 9092, "opened": 19 * SECOND, "closed": 22 * SECOND}
    of_it = {"what": "fin", "number": 1}
    assert facts("connection", connections=row) == [once(19, 1, 10, 3_000, last_at=22 * SECOND, **of_it)]
    assert facts("connection", connections=row | {"closed": None}) == [once(19, 1, 10, 0, **of_it)]
    assert facts("connection", connections=row | {"opened": None}) == []
    assert facts("connection", connections=row | {"protocol": "other"}) == []


def test_damage_of_connections_is_the_captures() -> None:
    issue = {"kind": "tcp_gap", "at": 21 * SECOND, "connection": 1, "packet": 9, "count": 4}
    damage = once(21, 9, 20, 4, client="capture", what="tcp_gap")
    del damage["broker"]
    assert facts("issue", issues=issue) == [damage]
    assert facts("issue", issues=issue | {"packet": None}) == [damage | {"first_packet": 1}]
    assert facts("issue", issues=issue | {"connection": None}) == []
