"""The summary of a capture as a person reads it on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kafkascope.reports.answers.capture_points import clock_text
from kafkascope.reports.columns.remarks import (
    FILTERED,
    filter_text,
    not_taken_remark,
    tls_remark,
    tls_talk_remarks,
    was_filtered,
    window_text,
)
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted

_ROWS = 12  # of each table; what is left out is counted


def summary(result: Mapping[str, Any], console: Console) -> None:
    """Print what ``Summary.result()`` gave, in a screen or two."""
    console.print(Group(*_parts(result)))


def _parts(result: Mapping[str, Any]) -> list[RenderableType]:
    exchanges = sum(result["exchanges"].values())
    parts: list[RenderableType] = [
        Text(
            f"{_time(result['first'])} to {_time(result['last'])}" if result["first"] else "no Kafka exchange was seen"
        ),
        Text(
            ", ".join(
                [
                    counted(result["packets"], "packet"),
                    _connections(result["connections"]),
                    counted(exchanges, "exchange"),
                ]
            )
            + (f" ({_listed(result['exchanges'])})" if exchanges else "")
        ),
    ]
    if window := result.get("window"):
        parts.append(Text(window_text(**window), style="yellow"))
    if chosen := result.get("filter"):
        parts.append(Text(filter_text(**chosen), style="yellow"))
    if copies := result["copies"]:
        parts.append(Text(f"{counted(copies, 'packet')} more that several files have, counted once"))
    for clock in result["clocks"][:_ROWS]:
        parts.append(Text(clock_text(clock), style="yellow" if clock["corrected"] else ""))
    if was_filtered(result):
        parts.append(Text(FILTERED, style="yellow"))
    if tls := result["tls_ports"]:
        parts.append(Text(tls_remark(tls), style="yellow"))
    parts += map(Text, tls_talk_remarks(result.get("tls_talks", ())))
    if others := result["not_taken_for_kafka"]:
        parts.append(Text(not_taken_remark(others), style="yellow"))
    if exchanges:
        parts.append(Text(f"bodies: {_listed(result['decoded'])}"))
        parts += ["", _apis(result["apis"])]
    if result["topics"]:
        parts += ["", _topics(result["topics"])]
    if result["errors"]:
        parts += ["", _counts("errors", result["errors"], "red")]
    if result["issues"]:
        parts += ["", _counts("not seen or not understood", result["issues"], "yellow")]
    return parts


def _connections(protocols: Mapping[str, int]) -> str:
    return counted(sum(protocols.values()), "connection") + (f" ({_listed(protocols)})" if protocols else "")


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {escape(name.replace('_', ' '))}" for name, count in counts.items())


def _time(text: str) -> str:
    return text.replace("T", " ")[:23]


def _apis(apis: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("API", "versions", "exchanges", "errors", "sent", "received", "p50 ms", "p90 ms", "p99 ms", "max ms"):
        table.add_column(name, justify="left" if name in ("API", "versions") else "right", no_wrap=True)
    for api in apis[: _ROWS * 2]:
        latency = api["latency_ms"]
        table.add_row(
            api["api"],
            ",".join(map(str, api["versions"])),
            f"{api['exchanges']:,}",
            Text(f"{api['errors']:,}", style="red" if api["errors"] else ""),
            size(api["request_bytes"]),
            size(api["response_bytes"]),
            *("" if latency[p] is None else f"{latency[p]:,.2f}" for p in ("p50", "p90", "p99", "max")),
        )
    return _and_more(table, len(apis), _ROWS * 2)


def _topics(topics: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("topic", "direction", "batches", "records", "bytes", "records/batch"):
        table.add_column(name, justify="left" if name in ("topic", "direction") else "right", no_wrap=True)
    for topic in topics[:_ROWS]:
        table.add_row(
            Text(shown_text(topic["topic"])),
            topic["direction"],
            f"{topic['batches']:,}",
            f"{topic['records']:,}",
            size(topic["bytes"]),
            f"{topic['records'] / topic['batches']:,.1f}" if topic["batches"] else "",
        )
    return _and_more(table, len(topics), _ROWS)


def _counts(title: str, counts: Mapping[str, int], style: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(title, style=style, no_wrap=True)
    table.add_column("count", justify="right")
    for name, count in list(counts.items())[:_ROWS]:
        table.add_row(Text(shown_text(name)), f"{count:,}")
    return _and_more(table, len(counts), _ROWS)


def _and_more(table: Table, rows: int, shown: int) -> Table:
    if rows > shown:
        table.add_row(f"and {rows - shown:,} more")
    return table


def size(count: int) -> str:
    """Bytes as people write them: 312 B, 4.5 kB, 1.2 GB."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")
