"""The view of errors: how often each came, to whom and about what, in spans of time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from kafkascope.reports.columns.arrow import integers
from kafkascope.reports.columns.parties import Ends, ExchangePlaces
from kafkascope.reports.columns.series import FINEST, spans
from kafkascope.reports.columns.views import Known, by_key
from kafkascope.reports.measures.error_histogram import WHAT, WHERE, error_histogram, summed
from kafkascope.reports.vocabulary.tables import ERROR_COUNTS


class ErrorsView:
    """Errors by name, counted; of them a histogram."""

    name = "error_counts"
    schema = ERROR_COUNTS
    key = "error"
    needs = frozenset({"errors", "exchanges"})
    results: tuple[str, ...] = ("error_histogram",)

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """Rows of ERROR_COUNTS that a batch gives; None without any."""
        found = tables.get("errors")
        if found is None or not found.num_rows:
            return None
        at = integers(found["at"])
        packet = pa.nulls(found.num_rows, pa.int64())
        if (exchanges := tables.get("exchanges")) is not None:
            place = ExchangePlaces(exchanges).of(found)
            packet = exchanges["response_packet"].take(pa.array(place, mask=place < 0))
        columns = {
            **{name: found[name] for name in (*WHAT, *WHERE)},
            "span": spans(at, FINEST),
            "count": np.ones(len(at), np.int64),
            "first_at": at,
            "last_at": at,
            "first_packet": packet,
            "first_connection": found["connection"],
            "first_number": found["number"],
        }
        return summed(pa.table([columns[name] for name in ERROR_COUNTS.names], schema=ERROR_COUNTS))

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """Rows of error_histogram, errors in order of their names; known is not needed."""
        parts = [error_histogram(of_error) for _, of_error in by_key(rows, self.key)]
        return {"error_histogram": pa.concat_tables(parts)} if parts else {}
