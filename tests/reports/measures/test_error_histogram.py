"""The histogram of errors: nothing is lost in it, trouble is not taken for ordinary, and it stays small."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.reports.columns.views import Known
from kafkascope.reports.measures import error_histogram
from kafkascope.reports.measures.error_histogram import errors_histogram
from kafkascope.reports.views.errors import ErrorsView
from kafkascope.reports.vocabulary.tables import ERROR_HISTOGRAM, ERRORS
from tests.reports.captured_tables import captured, observed

SECOND = 1_000_000_000
HEALTHY = ("eager-three-joins", "cooperative-sticky", "kip848", "mixed-versions", "streams-kip1071", "connect")


def of_capture(capture: str) -> pa.Table:
    table = ErrorsView().result(observed(ErrorsView(), capture), Known())["error_histogram"]
    assert table.schema == ERROR_HISTOGRAM
    return table


@pytest.mark.parametrize("capture", [*HEALTHY, "clients_admin", "clients_sasl", "zk-2.8.2", "rebalance-storm"])
def test_every_error_is_counted_once_where_it_belongs(capture: str) -> None:
    tables, _ = captured(capture, ErrorsView.needs)
    keys = ["api", "error", "code", "topic", "partition", "group_id", "member_id", "broker", "client_id"]
    expected = tables["errors"].group_by(keys).aggregate([([], "count_all"), ("at", "min"), ("at", "max")])
    made = of_capture(capture).group_by(keys).aggregate([("count", "sum"), ("first", "min"), ("last", "max")])

    def rows(table: pa.Table, names: list[str]) -> set[tuple[Any, ...]]:
        return set(zip(*(table[name].to_pylist() for name in (*keys, *names)), strict=True))

    assert rows(made, ["count_sum", "first_min", "last_max"]) == rows(expected, ["count_all", "at_min", "at_max"])
    assert pc.sum(of_capture(capture)["count"]).as_py() == tables["errors"].num_rows > 1


def test_the_first_of_each_row_is_an_exchange_with_that_error() -> None:
    tables, _ = captured("rebalance-storm", ErrorsView.needs)
    answers = {
        (row["connection"], row["number"]): (row["response_packet"], row["error"])
        for row in tables["exchanges"].to_pylist()
    }
    rows = of_capture("rebalance-storm").to_pylist()
    assert rows
    for row in rows:
        assert answers[row["first_connection"], row["first_number"]] == (row["first_packet"], row["error"])


@pytest.mark.parametrize("capture", HEALTHY)
def test_errors_of_healthy_captures_are_ordinary(capture: str) -> None:
    trouble = [row for row in of_capture(capture).to_pylist() if not row["ordinary"]]
    assert not trouble
    assert all(row["reason"] for row in of_capture(capture).to_pylist())


@pytest.mark.parametrize(
    ("capture", "error", "api"),
    [
        ("rebalance-storm", "REBALANCE_IN_PROGRESS", "Heartbeat"),
        ("killed-silent", "UNKNOWN_MEMBER_ID", "OffsetCommit"),
        ("static-members", "FENCED_INSTANCE_ID", "Heartbeat"),
        ("join-errors", "INCONSISTENT_GROUP_PROTOCOL", "JoinGroup"),
        ("share-group", "INVALID_RECORD_STATE", "ShareFetch"),
        ("transactions", "INVALID_PRODUCER_EPOCH", "Produce"),
        ("zk-2.8.2", "UNKNOWN_TOPIC_OR_PARTITION", "Metadata"),
        ("clients_sasl", "SASL_AUTHENTICATION_FAILED", "SaslAuthenticate"),
    ],
)
def test_trouble_is_told_from_what_is_ordinary(capture: str, error: str, api: str) -> None:
    trouble = {(row["error"], row["api"]) for row in of_capture(capture).to_pylist() if not row["ordinary"]}
    assert (error, api) in trouble
    assert ("MEMBER_ID_REQUIRED", "JoinGroup") not in trouble
    assert ("COORDINATOR_NOT_AVAILABLE", "FindCoordinator") not in trouble


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(0, 400_000), st.sampled_from(["UNKNOWN_MEMBER_ID", "NOT_COORDINATOR"])
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 4),
)
def test_what_is_too_much_to_list_is_a_rest_and_still_counted(errors: list[tuple[int, int, str]], most: int) -> None:
    rows = [
        {"connection": 1, "number": number, "at": at * SECOND, "api": "Heartbeat", "error": error, "code": 1}
        | {"client_id": f"client-{client}", "member_id": f"member-{client}", "broker": "b:9092"}
        for number, (client, at, error) in enumerate(errors, 1)
    ]
    table = pa.Table.from_pylist(rows, schema=ERRORS)
    view = ErrorsView()
    counted = view.observe({"errors": table}, {})
    assert counted is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(error_histogram, "MOST_SERIES", most)
        made = view.result(counted, Known())["error_histogram"].to_pylist()
    assert sum(row["count"] for row in made) == len(errors)
    for name in ("UNKNOWN_MEMBER_ID", "NOT_COORDINATOR"):
        mine = [row for row in made if row["error"] == name]
        assert len({row["client_id"] for row in mine if not row["rest"]}) <= most
        assert len({row["at"] for row in mine}) <= 120
        assert all(row["client_id"] is row["member_id"] is row["broker"] is None for row in mine if row["rest"])


def test_summed_by_what_is_asked_for_trouble_comes_first() -> None:
    table = of_capture("rebalance-storm")
    frame = errors_histogram(table).to_pandas()
    assert frame["count"].sum() == pc.sum(table["count"]).as_py()
    worst = frame.to_dict("records")[0]
    assert worst["error"] == "REBALANCE_IN_PROGRESS"
    assert 0 < worst["trouble"] < worst["count"]
    assert worst["advice"]
    by_client = errors_histogram(table, by="client_id").to_pandas()
    assert list(by_client.columns) == ["client_id", "count", "trouble", "first", "last"]
    assert by_client["count"].sum() == frame["count"].sum()
    in_time = errors_histogram(table, by=["at", "error"])
    assert in_time.num_rows > len(frame)
    assert not errors_histogram(ERROR_HISTOGRAM.empty_table()).num_rows
    (everything,) = errors_histogram(table, by=[]).to_pylist()
    assert everything["count"] == frame["count"].sum()
    with pytest.raises(ValueError, match="by: colour: not among error"):
        errors_histogram(table, by=["api", "colour"])


def test_spans_of_one_answer_are_of_one_width() -> None:
    """Of an error that goes on for hours they are wider than of one that was over soon."""
    rows = [
        dict.fromkeys(ERROR_HISTOGRAM.names)
        | {"error": name, "at": n * width * SECOND, "width_ms": 1000 * width, "count": 1, "ordinary": False}
        for name, width in (("A", 300), ("B", 10))
        for n in range(3)
    ]
    table = pa.Table.from_pylist(rows, schema=ERROR_HISTOGRAM)
    by_span = errors_histogram(table, "at")
    assert [at.value // SECOND for at in by_span["at"].to_pylist()] == [0, 300, 600]
    assert by_span["count"].to_pylist() == [4, 1, 1]
    assert errors_histogram(table.slice(0, 0), []).select(["count", "trouble"]).to_pylist() == [
        {"count": 0, "trouble": 0}
    ]
