"""Views behind the last guard: what is raised in one costs the exchange or the key that it was raised on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns import circles
from kafkascope.reports.columns.arrow import one_array
from kafkascope.reports.columns.faults import all_or_nothing, fault, isolated
from kafkascope.reports.columns.parties import Ends, ExchangePlaces
from kafkascope.reports.columns.views import Known, View, by_key
from kafkascope.reports.rows.connection_table import issue_table
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.sniffer.issues import Issue, IssueLog

_PLACES = ("connection", "requested", "answered", "first_seen", "request_packet", "response_packet")


_OF_ENDS = frozenset({"connections", "issues"})  # tables that have rows when connections end


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
    of_spans = {name: table for name, table in tables.items() if name == "tcp_health"}
    of_exchanges = {name: table for name, table in tables.items() if name not in _OF_ENDS and name not in of_spans}
    for unit, some in (("exchanges", of_exchanges), ("connections", ended), ("tcp_health", of_spans)):
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
    pa.default_memory_pool().release_unused()  # of what went before: else all of it stays beside what a view needs
    try:
        with circles.none_made():
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
    exchanges = ExchangePlaces(some) if "number" in of.column_names else None
    for name, table in tables.items():
        if table is of:
            yield name, some
        elif exchanges is not None:
            yield name, table.filter(pa.array(exchanges.of(table) >= 0))
        else:
            yield name, table.filter(pc.is_in(table["connection"], one_array(some["connection"])))


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

    flat = rows.flatten()  # rows of several kinds have a struct for each

    def least(*names: str) -> int | None:
        columns = [flat[name].cast(pa.int64()) for name in flat.column_names if name.rpartition(".")[2] in names]
        return min((one for column in columns if (one := pc.min(column).as_py()) is not None), default=None)

    packet = least("first_packet", "request_packet", "response_packet")
    return Issue(INTERNAL_ERROR, detail, least("connection", "first_connection"), least("at", "first_at"), packet)
