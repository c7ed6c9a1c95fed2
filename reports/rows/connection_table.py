"""The tables of connections and of issues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kafkascope.decoders import apis
from kafkascope.reports.columns.files import files_of
from kafkascope.reports.rows.bodies import Bodies
from kafkascope.reports.vocabulary.tables import CONNECTIONS, ISSUES
from kafkascope.sniffer.columns import Bool, ConnectionRow, Exchanges, Kind
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.origins import NO_ORIGINS, Origins

# API, field of its request, attribute of Introduction.
_TOLD = (
    (apis.API_VERSIONS, "clientSoftwareName", "software"),
    (apis.API_VERSIONS, "clientSoftwareVersion", "software_version"),
    (apis.SASL_HANDSHAKE, "mechanism", "mechanism"),
)
_FROM_ROW = tuple(name for name in CONNECTIONS.names if name in ConnectionRow.__dataclass_fields__)


@dataclass(slots=True)
class Introduction:
    """What a client told about itself on a connection."""

    software: str | None = None  # ApiVersions request, v3+
    software_version: str | None = None
    mechanism: str | None = None  # SaslHandshake request


def connection_table(
    rows: Sequence[ConnectionRow], introductions: Mapping[int, Introduction], issues: Iterable[Issue], origins: Origins
) -> pa.Table:
    """One row a connection."""
    counts: dict[int | None, int] = {}
    for issue in issues:
        counts[issue.connection] = counts.get(issue.connection, 0) + issue.count
    unknown = Introduction()
    told = [introductions.get(row.connection, unknown) for row in rows]
    columns = {name: [getattr(row, name) for row in rows] for name in _FROM_ROW} | {
        "software": [introduction.software for introduction in told],
        "software_version": [introduction.software_version for introduction in told],
        "security": [_security(row, introduction) for row, introduction in zip(rows, told, strict=True)],
        "issues": [counts.get(row.connection, 0) for row in rows],
        "file": files_of(np.array([row.connection for row in rows], np.int64), origins),
    }
    return pa.Table.from_pydict(columns, schema=CONNECTIONS)


def _security(row: ConnectionRow, introduction: Introduction) -> str | None:
    if row.protocol == "kafka":
        return introduction.mechanism or ("tls" if row.tls_opened else "plaintext")
    return "tls" if row.protocol in ("tls", "https") else None


def issue_table(issues: Iterable[Issue], origins: Origins = NO_ORIGINS) -> pa.Table:
    """One row a kind of issue at one connection (or none), by connection and packet."""
    ordered = sorted(issues, key=lambda issue: (issue.connection or 0, issue.packet or 0, issue.kind))
    columns = {name: [getattr(issue, name) for issue in ordered] for name in ISSUES.names}
    packets = np.array([issue.packet or 0 for issue in ordered], np.int64)
    of_packets = files_of(packets, origins).to_pylist()
    columns["file"] = [issue.file or file for issue, file in zip(ordered, of_packets, strict=True)]
    return pa.Table.from_pydict(columns, ISSUES)


def introduce_bare(exchanges: Exchanges, introductions: dict[int, Introduction]) -> None:
    """Take in which connections begin with a bare token: before SaslHandshake (0.10) there was Kerberos alone."""
    bare = (exchanges.kind == Kind.SASL) & (exchanges.number == 1)
    for connection in exchanges.connection[bare].tolist():
        introductions.setdefault(connection, Introduction()).mechanism = "GSSAPI"


def introduce(bodies: Bodies, chosen: Bool, introductions: dict[int, Introduction]) -> None:
    """Take in what clients told about themselves in the chosen exchanges; what they told first holds."""
    tape, exchanges = bodies.requests, bodies.exchanges
    column_of = {bodies.programs.field_id(key, False, path): column for key, path, column in _TOLD}
    wanted = np.zeros(len(bodies.programs.fields), bool)
    wanted[list(column_of)] = True
    rows = np.flatnonzero(wanted[tape.field])
    frames = tape.frame_of(rows)
    there = (chosen & bodies.request_decoded)[frames]
    rows, frames = rows[there], frames[there]
    connections, fields, texts = exchanges.connection[frames], tape.field[rows], tape.strings(rows)
    for connection, field, text in zip(connections.tolist(), fields.tolist(), texts.to_pylist(), strict=True):
        introduction = introductions.setdefault(connection, Introduction())
        if text and getattr(introduction, column_of[field]) is None:
            setattr(introduction, column_of[field], text)
