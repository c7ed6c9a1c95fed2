"""Views behind the last guard: rows that no exchange is behind are set apart by themselves."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from kafkascope.reports.columns.parties import Ends
from kafkascope.reports.columns.views import Known
from kafkascope.reports.views.guarded import observed


class Raising:
    """A view of how packets fared that cannot bear one connection."""

    name = "raising"
    schema = pa.schema([("connection", pa.int64())])
    key = "connection"
    needs = frozenset({"tcp_health"})
    results: tuple[str, ...] = ()

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        if "tcp_health" not in tables:
            return None
        if 2 in tables["tcp_health"]["connection"].to_pylist():
            raise ValueError
        return tables["tcp_health"]

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        raise AssertionError("only what it observes is asked for")


def test_a_span_that_is_raised_on_is_an_issue_and_the_others_are_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKASCOPE_RAISE_FAULTS", raising=False)
    spans = pa.table({"connection": pa.array([1, 2, 3], pa.int64())})
    rows, issues = observed(Raising(), {"tcp_health": spans}, {})
    assert pa.concat_tables(rows)["connection"].to_pylist() == [1, 3]
    assert [(issue.connection, issue.packet) for issue in issues] == [(2, 2)]
