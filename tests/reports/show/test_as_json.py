from __future__ import annotations

import io
import json

from kafkascope.reports.show.as_json import TABLES, write
from tests.reports.show.page.made_tables import SUMMARY, everything


def test_the_object_has_every_row_of_every_answer() -> None:
    tables = everything()
    stream = io.StringIO()
    write(tables, SUMMARY, stream)
    found = json.loads(stream.getvalue())
    assert found["summary"] == SUMMARY
    assert set(found) == {"summary", *TABLES}
    for name in TABLES:
        assert (found[name] is None) == (name not in tables)
        if name in tables:
            assert len(found[name]) == tables[name].count_rows()
    assert found["rebalances"][0]["members"][0]["joined"].endswith("Z")
    assert found["findings"][0]["since"] == "2026-11-21T07:02:00.000000000Z"
    assert "bucket" not in found["latency"][0]


def test_without_tables_it_is_an_object_of_nulls() -> None:
    stream = io.StringIO()
    write({}, {}, stream)
    assert json.loads(stream.getvalue()) == {"summary": {}} | dict.fromkeys(TABLES)
