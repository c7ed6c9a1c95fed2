"""Rules about lag: where each begins to speak, and that it is silent below."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafkascope.reports.findings.lag_rules import lag_findings
from kafkascope.reports.vocabulary.tables import LAG, REREADS

SECOND = 1_000_000_000
READER = {"group_id": "g", "client_id": "c", "topic": "t", "partition": 0}


def kinds(lag: list[dict[str, Any]], rereads: list[dict[str, Any]]) -> list[str]:
    tables = (
        pa.Table.from_pylist([READER | row for row in rows], schema=schema)
        for rows, schema in ((lag, LAG), (rereads, REREADS))
    )
    return [finding.kind for finding in lag_findings(*tables)]


@pytest.mark.parametrize(
    ("column", "kind"), [("fetch_stuck_ms", "consumer_stuck"), ("commit_stuck_ms", "commits_stopped")]
)
def test_a_reader_is_stuck_after_half_a_minute(column: str, kind: str) -> None:
    row = {"at": 0, "width_ms": 60_000, "lag": 5}
    assert kinds([row | {column: 30_000}], []) == [kind]
    assert kinds([row | {column: 29_999}], []) == []


@pytest.mark.parametrize(("seconds", "grown", "found"), [(60, 1_000, ["lag_growing"]), (59, 1_000, []), (60, 999, [])])
def test_lag_that_grows_by_a_thousand_in_a_minute_is_growing(seconds: int, grown: int, found: list[str]) -> None:
    rows = [{"at": seconds * SECOND * part // 2, "width_ms": 1_000, "lag": 7 + grown * part // 2} for part in range(3)]
    assert kinds(rows, []) == found


@pytest.mark.parametrize(("records", "found"), [(500, ["read_again"]), (499, [])])
def test_a_thousand_records_that_are_read_again_are_told(records: int, found: list[str]) -> None:
    rows = [{"at": place * SECOND, "from_offset": 3, "records": part} for place, part in enumerate((500, records))]
    assert kinds([], rows) == found
