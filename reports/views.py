"""What needs a wider view than one connection: rows that are gathered by a key of their own, and then understood.

Groups, topics and clients speak on many connections. A view makes rows from the tables of a batch (`observe`), keyed by
what belongs together; when all rows of a key are at hand it makes tables of them (`result`). In one process the rows
wait in a spool; on Spark they are shuffled once more by key. Rows of different keys never depend on each other, and
`result` sorts what it is given: so it does not matter who observed what, in which order, or where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from reports.groups.messages import Ends


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the whole capture when results are made."""

    topics: Mapping[str, str] = field(default_factory=dict)  # names by id, as bodies write ids (without ``id:``)


class View(Protocol):
    """One such view; made anew for each engine, for it may hold what connections said."""

    name: str  # of its rows
    schema: pa.Schema  # of its rows
    key: str  # column by which rows belong together
    needs: frozenset[str]  # tables that observe looks at
    results: tuple[str, ...]  # tables that it makes

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """The rows that a batch of tables gives; ends are those of the connections in it."""

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """The tables of all rows of some keys; tables without rows are absent."""
