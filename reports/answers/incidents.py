"""What broke, out of the table of incidents: those that stand first, and what was looked at if nothing broke."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import dataset as ds

from kafkascope.reports.columns.arrow import numbered
from kafkascope.reports.columns.order import ordered
from kafkascope.reports.columns.remarks import was_filtered
from kafkascope.reports.columns.shown import shown_text
from kafkascope.reports.columns.text import counted
from kafkascope.reports.incidents.incident import Incident, incident_of
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import INCIDENT_KINDS, PLANNED

INCIDENTS_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Incidents:
    """What to look at first is first."""

    shown: list[Incident]
    left_out: int

    @property
    def trouble(self) -> list[Incident]:
        """Those that are no planned work, nor mended themselves at no cost."""
        return [one for one in self.shown if one.severity != Severity.INFO]

    @property
    def explained(self) -> frozenset[str]:
        """Ids of findings that are part of an incident."""
        return frozenset().union(*(one.findings for one in self.shown))


NOTHING_KNOWN = "no Kafka exchange was seen, so nothing can be said of incidents"


def incidents(table: ds.Dataset | None) -> Incidents | None:
    """Incidents by rank; None without a table."""
    if table is None:
        return None
    rows: list[dict[str, Any]] = []
    count = 0
    for batch in table.to_batches():
        count += batch.num_rows
        rows += numbered(pa.Table.from_batches([batch])).to_pylist()
        rows = sorted(rows, key=lambda row: int(row["rank"]))[:INCIDENTS_SHOWN]
    return Incidents([incident_of(row) for row in rows], count - len(rows))


def grave(findings: pa.Table, incidents: Iterable[Mapping[str, Any]]) -> list[str]:
    """Titles of findings above "info" that no incident explains, the gravest first; incidents: rows of their table."""
    explained = frozenset[str]().union(*((row["explains"] or {}).get("findings") or () for row in incidents))
    rows = ordered("findings", findings).select(["id", "severity", "title"]).to_pylist()
    return [row["title"] for row in rows if row["severity"] != Severity.INFO and row["id"] not in explained]


def nothing_wrong(summary: Mapping[str, Any], findings: Sequence[str] = ()) -> str:
    """What was looked at, and what the capture cannot show, in one line: for a capture without an incident.

    findings: titles of those that are grave, the gravest first; they are no incident, but not nothing either.
    """
    connections = summary.get("connections", {})
    kafka, tls = connections.get("kafka", 0), connections.get("tls", 0)
    exchanges = sum(summary.get("exchanges", {}).values())
    if not exchanges:
        return NOTHING_KNOWN
    one_way = summary.get("issues", {}).get("one_way_capture", 0)
    filtered = was_filtered(summary)
    wrong = "nothing that is wrong is seen" if filtered or 2 * one_way > kafka else "nothing is wrong"
    but = ""
    if findings:
        more = f", and {counted(len(findings) - 1, 'finding')} more" if findings[1:] else ""
        wrong, but = "no trouble is seen", f", but: {shown_text(findings[0])}{more}"
    looked = (
        f"{wrong} in this capture: {counted(exchanges, 'exchange')} on {counted(kafka, 'connection')} show "
        f"none of the {len(INCIDENT_KINDS.keys() - PLANNED)} kinds of trouble that are looked for{but}"
    )
    hidden = []
    if tls:
        hidden.append(f"what {counted(tls, 'connection')} with TLS {'says' if tls == 1 else 'say'}")
    if one_way:
        hidden.append(f"what {counted(one_way, 'connection')} said in the direction that was not captured")
    if filtered:
        hidden.append("what it was filtered of (no packet only acknowledges)")
    hidden.append("what happened before, after and elsewhere")
    return f"{looked}; it cannot show {' nor '.join(hidden)}"
