"""What the capture does not show: damage, what was not decoded, what is encrypted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import dataset as ds

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
from kafkascope.reports.columns.text import counted
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR, ISSUE_KINDS

FILES_NAMED = 2  # of a capture of several, by which it is called
CLOCKS = 20  # of files, that are told


@dataclass(slots=True)
class IssueAnswer:
    """All issues of one kind."""

    kind: str
    count: int = 0
    detail: str = ""  # of the first
    packet: int | None = None

    @property
    def meaning(self) -> str:
        """What this kind of issue says."""
        known = ISSUE_KINDS.get(self.kind)
        return known.meaning if known else ""

    @property
    def weakens(self) -> str:
        """What of the results is less than whole because of it."""
        known = ISSUE_KINDS.get(self.kind)
        return known.weakens if known else ""


def issues(table: ds.Dataset | None, faults: Sequence[str] = ()) -> list[IssueAnswer] | None:
    """Issues by kind, the most frequent first; None without the table. faults: what was met since it was written."""
    if table is None and not faults:
        return None
    found: dict[str, IssueAnswer] = {}
    if faults:
        found[INTERNAL_ERROR] = IssueAnswer(INTERNAL_ERROR, len(faults), faults[0])
    for batch in [] if table is None else table.to_batches(columns=["kind", "count", "packet", "detail"]):
        for row in pa.Table.from_batches([batch]).to_pylist():
            one = found.setdefault(row["kind"], IssueAnswer(row["kind"]))
            one.count += row["count"] or 0
            packet = row["packet"]
            if not one.detail or (packet is not None and (one.packet is None or packet < one.packet)):
                one.detail, one.packet = row["detail"] or "", packet
    return sorted(found.values(), key=lambda one: (-one.count, one.kind))


def facts(summary: Mapping[str, Any], remarks: Mapping[str, str]) -> list[tuple[str, str]]:
    """What was in the capture and how much of it was understood, as names and values; with remarks on it."""
    if not summary:
        return []
    told = [("packets", f"{summary['packets']:,}")]
    named = (("connections", "connections"), ("exchanges", "exchanges"), ("decoded", "bodies decoded"))
    for name, title in named:
        if counts := summary.get(name):
            parts = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in counts.items())
            told.append((title, parts))
    if window := summary.get("window"):
        told.append(("window", window_text(**window)))
    if chosen := summary.get("filter"):
        told.append(("filter", filter_text(**chosen)))
    told += remarks.items()
    if copies := summary.get("copies"):
        told.append(("packets captured at several points", f"{copies:,} copies, counted once"))
    if was_filtered(summary):
        told.append(("filtered", FILTERED))
    told += [("clock", clock_text(clock)) for clock in summary.get("clocks", ())[:CLOCKS]]
    if tls := summary.get("tls_ports"):
        told.append(("encrypted", tls_remark(tls)))
    told += [("within TLS", remark) for remark in tls_talk_remarks(summary.get("tls_talks", ()))]
    if others := summary.get("not_taken_for_kafka"):
        told.append(("not taken for Kafka", not_taken_remark(others)))
    return told


def name(summary: Mapping[str, Any], place: str = "capture") -> str:
    """What the capture is called: its first files; the place of the analysis where they are not known."""
    files = summary.get("captures") or [place]
    more = f" and {len(files) - FILES_NAMED} more" if len(files) > FILES_NAMED else ""
    return ", ".join(files[:FILES_NAMED]) + more


def title(summary: Mapping[str, Any], place: str = "capture") -> str:
    """What the capture is called and the time that it covers, which tells reports apart."""
    first, last = (summary.get(key) for key in ("first", "last"))
    if not first or not last:
        return name(summary, place)
    until = last[11:19] if last[:10] == first[:10] else last[:19].replace("T", " ")
    return f"{name(summary, place)}, {first[:19].replace('T', ' ')} to {until} UTC"


def headline(summary: Mapping[str, Any]) -> list[str]:
    """When and how much, in a few words each."""
    if not summary:
        return []
    first, last = summary["first"], summary["last"]
    told = [f"{_time(first)} to {_time(last)} UTC" if first else "no Kafka exchange was seen"]
    told.append(counted(summary["packets"], "packet"))
    told.append(counted(sum(summary["connections"].values()), "connection"))
    told.append(counted(sum(summary["exchanges"].values()), "exchange"))
    return told


def _time(text: str) -> str:
    return text.replace("T", " ")[:23]
