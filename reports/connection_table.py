"""The tables of connections and of issues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from decoders import apis
from reports.bodies import Bodies
from reports.tables import CONNECTIONS, ISSUES
from sniffer.columns import Bool, ConnectionRow, Exchanges, Kind
from sniffer.issues import Issue

# API, field of its request, attribute of Introduction.
_TOLD = (
    (apis.API_VERSIONS, "clientSoftwareName", "software"),
    (apis.API_VERSIONS, "clientSoftwareVersion", "software_version"),
    (apis.SASL_HANDSHAKE, "mechanism", "mechanism"),
)
_FROM_ROW = frozenset(CONNECTIONS.names) & frozenset(ConnectionRow.__dataclass_fields__)


@dataclass(slots=True)
class Introduction:
    """What a client told about itself on a connection."""

    software: str | None = None  # ApiVersions request, v3+
    software_version: str | None = None
    mechanism: str | None = None  # SaslHandshake request


def connection_table(
    rows: Sequence[ConnectionRow], introductions: Mapping[int, Introduction], issues: Iterable[Issue]
) -> pa.Table:
    """One row a connection."""
    counts: dict[int | None, int] = {}
    for issue in issues:
        counts[issue.connection] = counts.get(issue.connection, 0) + issue.count
    return pa.Table.from_pylist(
        [
            {name: value for name, value in asdict(row).items() if name in _FROM_ROW}
            | _introduced(row, introductions.get(row.connection, Introduction()))
            | {"issues": counts.get(row.connection, 0)}
            for row in rows
        ],
        schema=CONNECTIONS,
    )


def _introduced(row: ConnectionRow, introduction: Introduction) -> dict[str, str | None]:
    if row.protocol == "tls":
        security: str | None = "tls"
    elif row.protocol == "kafka":
        security = introduction.mechanism or "plaintext"
    else:
        security = None
    return {
        "software": introduction.software,
        "software_version": introduction.software_version,
        "security": security,
    }


def issue_table(issues: Iterable[Issue]) -> pa.Table:
    """One row a kind of issue at one connection (or none), by connection and packet."""
    ordered = sorted(issues, key=lambda issue: (issue.connection or 0, issue.packet or 0, issue.kind))
    return pa.Table.from_pylist([asdict(issue) for issue in ordered], schema=ISSUES)


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
