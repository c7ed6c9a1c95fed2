"""Tables of a capture as views get them, whole or cut at will."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache

import pyarrow as pa

from kafkascope.engine import EngineOptions
from kafkascope.reading import Reading
from kafkascope.reports.columns.views import View
from tests.joined import joined
from tests.paths import PCAPS
from tests.reports.ends import Ends, ends_of

Tables = dict[str, pa.Table]


@cache
def captured(capture: str, needs: frozenset[str]) -> tuple[Tables, dict[int, Ends]]:
    """The tables of a capture, among them those that only views need, and the ends of its connections."""
    options = EngineOptions(tables=needs | {"connections", "exchanges"}, views=frozenset())
    (file,) = (PCAPS / capture).glob("capture.pcap*")
    with Reading([str(file)], options, progress_bar=False) as reading:
        tables = joined(batch.tables for batch in reading.batches())
    return tables, ends_of(tables["connections"])


def cut(tables: Tables, cuts: Sequence[float]) -> Iterator[Tables]:
    """The tables in batches, by exchanges; what is told of connections comes with the last batch."""
    exchanges = tables["exchanges"]
    places = sorted({0, exchanges.num_rows, *(int(part * exchanges.num_rows) for part in cuts)})
    of_connections = {name: whole for name, whole in tables.items() if "number" not in whole.column_names}
    for first, last in itertools.pairwise(places):
        some = exchanges.slice(first, last - first)
        of = some.select(["connection", "number"])
        batch = {
            name: whole.join(of, ["connection", "number"], join_type="left semi").select(whole.column_names)
            for name, whole in tables.items()
            if name != "exchanges" and name not in of_connections
        }
        batch = {name: rows for name, rows in batch.items() if rows.num_rows} | {"exchanges": some}
        yield batch | (of_connections if last == exchanges.num_rows else {})


def observed(view: View, capture: str, cuts: Sequence[float] = ()) -> pa.Table:
    """The rows that a view makes of a capture, whole or cut."""
    tables, ends = captured(capture, view.needs)
    parts = [rows for batch in cut(tables, cuts) if (rows := view.observe(batch, ends)) is not None]
    assert all(part.schema == view.schema for part in parts)
    return pa.concat_tables(parts)
