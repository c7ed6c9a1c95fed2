"""Events and rebalances of groups as lines: for people, or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kafkascope.decoders import to_json
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted, iso_times
from kafkascope.reports.columns.words import in_seconds
from kafkascope.reports.groups.history import GroupHistory, event_table, rebalance_table

_MEMBERS_SHOWN = 8
_DETAIL_SHOWN = 160
_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"
Row = dict[str, Any]


def lines(history: GroupHistory, colour: bool = False) -> list[str]:
    """A line for each event and rebalance, in order of time; a rebalance stands where it began."""
    return [_line(row, colour) for row in _rows(history)]


def json_lines(history: GroupHistory) -> list[str]:
    """The rows as JSON objects: their table, and its columns."""
    return [to_json(row) for row in _rows(history)]


def _rows(history: GroupHistory) -> Iterator[Row]:
    rows = [
        {"table": name} | row
        for name, table in (
            ("group_events", event_table(history.events)),
            ("rebalances", rebalance_table(history.rebalances)),
        )
        for row in _with_times_as_text(table).to_pylist()
    ]
    yield from sorted(rows, key=_at)  # that sort is stable: events before the rebalances of the same moment


def _at(row: Row) -> str:
    return str(row.get("at") or row.get("started") or row.get("joined") or row.get("stable") or "")


def _line(row: Row, colour: bool) -> str:
    text = _event(row) if row["table"] == "group_events" else _rebalance(row)
    line = f"{_at(row)[11:26] or '--:--:--.------'} {row['group_id']:<20} {text}"
    line = shown_text(line.rstrip())
    if not colour:
        return line
    return f"{_DIM if row['table'] == 'group_events' else _BOLD}{line}{_PLAIN}"


def _event(row: Row) -> str:
    who = row["client_id"] or row["member_id"] or "-"
    generation = "" if row["generation"] is None else f"generation {row['generation']}"
    packet = "" if row["packet"] is None else f"  (packet {row['packet']})"
    detail = row["detail"] or ""
    if len(detail) > _DETAIL_SHOWN:
        detail = f"{detail[:_DETAIL_SHOWN]}…"
    return f"{row['event']:<22} {who:<20} {generation:<15} {detail}{packet}"


def _rebalance(row: Row) -> str:
    before = "?" if row["from_generation"] is None else row["from_generation"]
    who = row["trigger_client_id"] or row["trigger_member"]
    parts = [
        f"REBALANCE {before}→{row['to_generation']} {row['trigger']}{f' of {who}' if who else ''} ({row['certainty']})",
        "never stable" if row["stable"] is None else _took(row["duration_ms"]),
        _members(row["members"]) if row["members"] or row["stable"] is not None else "members not known",
    ]
    if row["unowned_ms"]:
        parts.append(f"partitions without owner for up to {in_seconds(row['unowned_ms'], 3)}")
    if others := {other["trigger"] for other in row["contributing"]}:
        parts.append(f"also {', '.join(sorted(others))}")
    if row["inferred"]:
        parts.append("inferred")
    return "; ".join(parts)


def _took(milliseconds: float | None) -> str:
    return "took ?" if milliseconds is None else f"took {in_seconds(milliseconds, 3)}"


def _members(members: list[Row]) -> str:
    names = [member["client_id"] or member["member_id"] for member in members]
    more = f" and {len(names) - _MEMBERS_SHOWN} more" if len(names) > _MEMBERS_SHOWN else ""
    listed = f": {', '.join(names[:_MEMBERS_SHOWN])}{more}" if names else ""
    return f"{counted(len(names), 'member')}{listed}"


def _with_times_as_text(table: pa.Table) -> pa.Table:
    """Times of a table as ISO 8601, those in lists and structs too."""
    columns = [_as_text(column.combine_chunks()) for column in table.columns]
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def _as_text(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_timestamp(column.type):
        return iso_times(column)
    if pa.types.is_list(column.type):
        return pa.ListArray.from_arrays(column.offsets, _as_text(column.values), mask=column.is_null())
    if pa.types.is_struct(column.type):
        names = [field.name for field in column.type]
        return pa.StructArray.from_arrays(
            [_as_text(column.field(name)) for name in names], names=names, mask=column.is_null()
        )
    return column
