"""Fields with records as rows, for somebody else to make the table of records of them.

Only that table needs no state: a record hangs on its own field and exchange alone. All else of an exchange hangs on
those before it too (what a fetch session asked for, what lay ready, what a client did meanwhile), and takes less time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pyarrow as pa

from kafkascope.decoders.limits import DEFAULT, Limits
from kafkascope.decoders.record_columns import BatchColumns, binary_array, read_records
from kafkascope.reports.columns.arrow import Numbers, one_array
from kafkascope.reports.columns.faults import fault
from kafkascope.reports.rows.record_fields import RecordFields, scan_fields
from kafkascope.reports.rows.record_tables import batch_issues, record_table
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.sniffer.columns import Exchanges
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.origins import Origins

FIELDS_WITH_RECORDS = "fields_with_records"
"""The name under which builders and engines give rows of `field_rows`."""

_OF_EXCHANGE = tuple(column.name for column in fields(Exchanges) if column.name != "data")
_OF_FIELD = ("produced", "partition", "base_offset", "log_append_time")


def field_rows(exchanges: Exchanges, of: RecordFields, client_id: pa.Array) -> pa.Table:
    """A row for each field that has bytes: these (``content``), what is said of them, and what its exchange says."""
    there = np.flatnonzero(of.end > of.start)
    exchange = of.exchange[there]
    columns = {name: pa.array(getattr(exchanges, name)[exchange]) for name in _OF_EXCHANGE}
    columns |= {name: pa.array(getattr(of, name)[there]) for name in _OF_FIELD}
    columns["topic"] = of.topic.take(pa.array(there))
    columns["client_id"] = client_id.take(pa.array(exchange))
    columns["content"] = binary_array(exchanges.data, of.start[there], (of.end - of.start)[there])
    return pa.table(columns)


def record_tables(
    rows: pa.Table,
    secret_names: tuple[str, ...] | None,
    issues: IssueLog,
    origins: Origins,
    limits: Limits = DEFAULT,
    *,
    of_batches: bool = False,
) -> Iterator[pa.Table]:
    """Rows of the table of records, so many at a time, out of rows of `field_rows`.

    What is wrong with records is counted, as is what is raised on them, which ends it. Tables of connections and rows
    of views tell of issues too: where there are some, records are to be read with their exchanges after all.
    secret_names: see `stored_secrets.redact_stored`; None: secrets are shown.
    of_batches: what is wrong with batches has not been counted yet.
    """
    exchanges, of, client_id = _restored(rows)
    before = np.zeros(len(of), np.int64)
    batches: list[BatchColumns] = []
    try:
        scanned = scan_fields(exchanges, of)
        for chunk in read_records(scanned, limit=limits.decompressed_bytes):
            if not chunk.is_continued:
                batches.append(chunk.batches)
            table = record_table(exchanges, of, chunk, before, client_id, issues, origins, secret_names)
            if table is not None:
                yield table
        if of_batches:
            batch_issues(exchanges, of, scanned, batches, issues, limits)
    except Exception as error:
        issues.add(Issue(INTERNAL_ERROR, f"records: {fault(error)}"))


def _restored(rows: pa.Table) -> tuple[Exchanges, RecordFields, pa.Array]:
    """An exchange for each field, the fields, and the client id of each exchange."""

    def numbers(name: str) -> Numbers:
        column: Numbers = rows[name].to_numpy()
        return column

    content = one_array(rows["content"])
    _, offsets, data = content.buffers()
    edges = np.frombuffer(offsets, np.int32)[content.offset : content.offset + rows.num_rows + 1].astype(np.int64)
    exchanges = Exchanges(data=np.frombuffer(data, np.uint8), **{name: numbers(name) for name in _OF_EXCHANGE})
    of = RecordFields(
        exchange=np.arange(rows.num_rows),
        start=edges[:-1],
        end=edges[1:],
        row=np.full(rows.num_rows, -1, np.int64),
        topic=one_array(rows["topic"]),
        **{name: numbers(name) for name in _OF_FIELD},
    )
    return exchanges, of, one_array(rows["client_id"])
