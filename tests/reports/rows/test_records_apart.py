"""Records that are read apart from their exchanges are those that are read with them."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.decoders import apis
from kafkascope.decoders.record_columns import read_records
from kafkascope.reports.columns.faults import RAISE_FAULTS
from kafkascope.reports.rows.builder import TableBuilder
from kafkascope.reports.rows.record_tables import record_table
from kafkascope.reports.rows.records_apart import FIELDS_WITH_RECORDS, record_tables
from kafkascope.reports.vocabulary.tables import RECORDS, SCHEMAS
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.origins import NO_ORIGINS
from tests.decoders import written_batches
from tests.joined import joined
from tests.reports.ends import Ends
from tests.reports.written_exchanges import Written, batch, exchanges

ALL = frozenset(SCHEMAS)
ENDS = {connection: Ends() for connection in range(10)}


def produced(*fields: bytes, connection: int = 1, appended: int = -1) -> Written:
    """A request with so many partitions, and its answer."""
    data = [{"index": index, "records": records} for index, records in enumerate(fields)]
    told = [{"index": index, "baseOffset": 100, "logAppendTimeMs": appended} for index in range(len(fields))]
    request = {"topicData": [{"name": "t", "partitionData": data}]}
    answer = {"responses": [{"name": "t", "partitionResponses": told}]}
    return Written(apis.PRODUCE, 7, request, answer, connection=connection)


def fetched(records: bytes, connection: int = 2) -> Written:
    """A fetch of one partition, and what it brought."""
    request = {"topics": [{"topic": "u", "partitions": [{"partition": 3, "fetchOffset": 5}]}]}
    answer = {"responses": [{"topic": "u", "partitions": [{"partitionIndex": 3, "records": records}]}]}
    return Written(apis.FETCH, 11, request, answer, connection=connection)


FAR = 2**62  # milliseconds: a time that no table can hold
TALK = (
    produced(batch(b"a", b"b"), b"", batch(b"c")),
    fetched(batch(b"d", base_offset=5) + batch(b"e", base_offset=6)),
    produced(batch(b"f"), connection=2),
    fetched(b""),
    produced(batch(b"g"), appended=5_000),
)


def observed(builder: TableBuilder, talk: tuple[Written, ...] = TALK) -> dict[str, pa.Table]:
    return joined(builder.observe(exchanges(*talk), ENDS))


def read(rows: pa.Table, cuts: list[int] | None = None) -> tuple[pa.Table, list[Issue]]:
    """The records of rows of fields, which are cut into parts."""
    issues = IssueLog()
    edges = sorted({0, rows.num_rows, *(cut % (rows.num_rows + 1) for cut in cuts or ())})
    found = [RECORDS.empty_table()]
    for first, last in pairwise(edges):
        found += record_tables(rows.slice(first, last - first), (), issues, NO_ORIGINS)
    return pa.concat_tables(found), list(issues)


@given(cuts=st.lists(st.integers(0, 20), max_size=4))
def test_tables_and_issues_are_the_same(cuts: list[int]) -> None:
    whole, apart = TableBuilder(ALL), TableBuilder(ALL, records_here=0)
    expected, found = observed(whole), observed(apart)
    fields = found.pop(FIELDS_WITH_RECORDS)
    assert fields.num_rows == 5
    assert read(fields, cuts) == (expected.pop("records"), [])
    assert found.keys() == expected.keys()
    assert all(found[name].equals(expected[name]) for name in expected)
    assert list(apart.issues) == list(whole.issues)


def test_records_whose_batches_tell_of_times_too_far_are_read_with_their_exchanges() -> None:
    """Of such there is an issue, which rows of connections and of views count."""
    talk = (produced(batch(b"a")), produced(batch(b"b", timestamp=FAR)))
    whole, apart = TableBuilder(ALL), TableBuilder(ALL, records_here=0)
    expected, found = observed(whole, talk), observed(apart, talk)
    assert found.keys() == expected.keys()
    assert all(found[name].equals(expected[name]) for name in expected)
    assert "record_time_out_of_range" in {issue.kind for issue in apart.issues}
    assert list(apart.issues) == list(whole.issues)


def test_times_too_far_of_which_no_batch_tells_are_an_issue() -> None:
    record = written_batches.record(0, 2**50, b"k", b"a")  # so much later than the batch says
    field = written_batches.batch(
        record, 1, base_offset=0, base_time=1000, max_time=1000, leader_epoch=-1, producer=(-1, -1, -1)
    )
    rows = observed(TableBuilder(ALL, records_here=0), (produced(field),))
    records, issues = read(rows[FIELDS_WITH_RECORDS])
    assert records["timestamp"].to_pylist() == [None]
    assert [issue.kind for issue in issues] == ["record_time_out_of_range"]


def test_some_bytes_are_read_with_their_exchanges() -> None:
    builder = TableBuilder(ALL, records_here=1)
    first, second = observed(builder), observed(builder)
    assert FIELDS_WITH_RECORDS not in first
    assert "records" not in second
    assert read(second[FIELDS_WITH_RECORDS])[0].equals(first["records"])


def test_nobody_is_given_fields_who_wants_no_records() -> None:
    assert FIELDS_WITH_RECORDS not in observed(TableBuilder(ALL - {"records"}, records_here=0))


def test_a_fault_is_an_issue_and_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RAISE_FAULTS)
    monkeypatch.setattr("kafkascope.reports.rows.records_apart.read_records", partial(read_records, chunk_bytes=1))

    def failing(*columns: Any) -> pa.Table | None:
        table = record_table(*columns)
        if table is not None and b"e" in table["value"].to_pylist():
            raise ZeroDivisionError
        return table

    monkeypatch.setattr("kafkascope.reports.rows.records_apart.record_table", failing)
    records, issues = read(observed(TableBuilder(ALL, records_here=0))[FIELDS_WITH_RECORDS])
    assert records["value"].to_pylist() == [b"a", b"b", b"c", b"d"]
    assert [(issue.kind, issue.detail.split()[1]) for issue in issues] == [("internal_error", "ZeroDivisionError")]
