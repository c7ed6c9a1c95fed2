"""What needs a wider view than one connection: rows that are gathered by a key of their own, and then understood.

Groups, topics and clients speak on many connections. A view makes rows from the tables of a batch (`observe`), keyed by
what belongs together; when all rows of a key are at hand it makes tables of them (`result`). In one process the rows
wait in a spool; on Spark they are shuffled once more by key. Rows of different keys never depend on each other, and
`result` sorts what it is given: so it does not matter who observed what, in which order, or where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reports.arrow_columns import dictionary_codes
from reports.connection_table import issue_table
from reports.faults import INTERNAL_ERROR, all_or_nothing, fault, isolated
from reports.groups.messages import Ends
from reports.parties import ExchangePlaces
from reports.topics import ID_PREFIX
from sniffer.issues import Issue, IssueLog

_PLACES = ("connection", "requested", "answered", "first_seen", "request_packet", "response_packet")
_OF_ENDS = frozenset({"connections", "issues"})  # tables that have rows when connections end
_ROWS_AT_ONCE = 65_536  # rows that `by_key` brings together at once, if a key has no more


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the whole capture when results are made."""

    topics: Mapping[str, str] = field(default_factory=dict)  # names by id, as bodies write ids (without ``id:``)

    @classmethod
    def of(cls, topic_names: Mapping[str, str]) -> Known:
        """With names by topic as tables write those that are known by id (`TopicNames.learned`)."""
        return cls({by_id.removeprefix(ID_PREFIX): name for by_id, name in topic_names.items()})


class View(Protocol):
    """One such view; made anew for each engine, for it may hold what connections said.

    Views are listed in `reports.view_registry`, and the tables that they make in `reports.tables.RESULTS`.
    A column ``topic`` of the rows has names instead of ids, where they are known, by the time of `result`.
    """

    name: str  # of its rows
    schema: pa.Schema  # of its rows
    key: str  # column by which rows belong together
    needs: frozenset[str]  # tables that observe looks at
    results: tuple[str, ...]  # tables that it makes

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """The rows that a batch of tables gives; ends are those of the connections in it."""

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """The tables of all rows of some keys; tables without rows are absent."""


def observed(
    view: View, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]
) -> tuple[list[pa.Table], list[Issue]]:
    """The rows that a view makes of a batch, without the exchanges (or ends of connections) on which it raises.

    Each of these is an issue.
    """
    try:
        with all_or_nothing(view):
            rows = view.observe(tables, ends)
        return [] if rows is None else [rows], []
    except Exception as error:
        fault(error)
    found: list[pa.Table] = []
    issues = IssueLog()
    ended = {name: table for name, table in tables.items() if name in _OF_ENDS}
    of_exchanges = {name: table for name, table in tables.items() if name not in _OF_ENDS}
    for unit, some in (("exchanges", of_exchanges), ("connections", ended)):
        if unit in some:
            found += _observed_apart(view, some, some[unit], ends, issues)
    return found, list(issues)


def _observed_apart(
    view: View, tables: Mapping[str, pa.Table], of: pa.Table, ends: Mapping[int, Ends], issues: IssueLog
) -> list[pa.Table]:
    def observe(places: Sequence[int]) -> list[pa.Table]:
        with all_or_nothing(view):
            rows = view.observe(dict(_some(tables, of, places)), ends)
        return [] if rows is None else [rows]

    def without(places: Sequence[int], said: str) -> list[pa.Table]:
        for issue in _issues(of.slice(places[0], len(places)), f"{view.name}: {said}"):
            issues.add(issue)
        return []

    return list(isolated(range(of.num_rows), observe, without))


def results(view: View, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
    """What a view makes of its rows, without the keys on which it raises: each of these is a row of issues."""
    try:
        return view.result(rows, known)
    except Exception as error:
        fault(error)

    def result(some: Sequence[tuple[Any, pa.Table]]) -> list[dict[str, pa.Table]]:
        return [view.result(pa.concat_tables(of_key for _, of_key in some), known)]

    def without(some: Sequence[tuple[Any, pa.Table]], said: str) -> list[dict[str, pa.Table]]:
        return [{"issues": issue_table(_key_issue(f"{view.name} {key}: {said}", of_key) for key, of_key in some)}]

    tables: dict[str, list[pa.Table]] = {}
    for made in isolated(list(by_key(rows, view.key)), result, without):
        for name, table in made.items():
            tables.setdefault(name, []).append(table)
    return {name: pa.concat_tables(parts) for name, parts in tables.items()}


def _some(tables: Mapping[str, pa.Table], of: pa.Table, places: Sequence[int]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of tables that belong to some rows of one of them."""
    some = of.slice(places[0], len(places))
    exchanges = None
    if "number" in of.column_names:
        exchanges = ExchangePlaces(some["connection"].to_numpy(), some["number"].to_numpy())
    for name, table in tables.items():
        if table is of:
            yield name, some
        elif exchanges is not None:
            yield name, table.filter(pa.array(exchanges.of(table) >= 0))
        else:
            yield name, table.filter(pc.is_in(table["connection"], some["connection"].combine_chunks()))


def _issues(of: pa.Table, detail: str) -> Iterator[Issue]:
    """An issue for each exchange, or for each end of a connection."""
    numbers = {name: of[name].cast(pa.int64()).to_pylist() for name in _PLACES if name in of.column_names}
    apis = of["api"].to_pylist() if "api" in of.column_names else ["connection"] * of.num_rows
    for place, api in enumerate(apis):
        row = {name: column[place] for name, column in numbers.items()}
        at = row.get("requested") or row.get("answered") or row.get("first_seen")
        packet = row.get("request_packet") or row.get("response_packet") or row["connection"]
        yield Issue(INTERNAL_ERROR, f"{api}: {detail}", row["connection"], at, packet)


def _key_issue(detail: str, rows: pa.Table) -> Issue:
    """An issue at the first message that rows of a view tell of."""

    def least(*names: str) -> int | None:
        columns = [rows[name].cast(pa.int64()) for name in names if name in rows.column_names]
        return min((one for column in columns if (one := pc.min(column).as_py()) is not None), default=None)

    packet = least("first_packet", "request_packet", "response_packet")
    return Issue(INTERNAL_ERROR, detail, least("connection", "first_connection"), least("at", "first_at"), packet)


def by_key(rows: pa.Table, key: str) -> Iterator[tuple[Any, pa.Table]]:
    """Each key with its rows, keys in ascending order (null last); rows of a key stay in their order.

    Copies rows of many small keys, or of one large one, at a time: rows may be mapped from disk.
    """
    for together, keys in keys_together(rows, key):
        for name, begin, end in keys:
            yield name, together.slice(begin, end - begin)


def keys_together(rows: pa.Table, key: str) -> Iterator[tuple[pa.Table, list[tuple[Any, int, int]]]]:
    """Rows of many small keys, or of one large one, at a time, with each of the keys and where its rows begin and end.

    Keys come in ascending order (null last); rows of a key stay in their order.
    """
    codes, distinct = dictionary_codes(rows[key])
    ascending = pc.sort_indices(distinct).to_numpy()
    rank = np.empty(len(distinct) + 1, np.int64)
    rank[ascending], rank[-1] = np.arange(len(distinct)), len(distinct)  # code -1: null
    ranks = rank[codes]
    order = np.argsort(ranks, kind="stable")
    begins = np.flatnonzero(np.diff(ranks[order], prepend=-1))
    ends = np.append(begins[1:], len(order))
    names = distinct.to_pylist()
    first = 0
    while first < len(begins):
        last = max(first + 1, int(np.searchsorted(ends, begins[first] + _ROWS_AT_ONCE, side="right")))
        together = rows.take(pa.array(order[begins[first] : ends[last - 1]]))
        found = codes[order[begins[first:last]]].tolist()
        places = ((begins[first:last] - begins[first]).tolist(), (ends[first:last] - begins[first]).tolist())
        yield together, list(zip((names[code] if code >= 0 else None for code in found), *places, strict=True))
        first = last
