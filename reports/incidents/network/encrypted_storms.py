"""Hosts that open one connection with TLS after the other, of which nothing more can be read.

Whoever they are is not told, nor whether they authenticate: so it is told of the host, and no more than likely.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np
import pyarrow.compute as pc

from kafkascope.reports.columns.text import address, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.incident import Incident, Subject, Weighed
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_COLUMNS = ("connection", "client", "broker", "broker_port", "opened", "closed", "closed_by", "tls_requests")
_WINDOW_NS = 60 * SECOND_NS  # of the threshold connections_opened
_ADVICE = (
    "Find the program on this host that makes a client for each message or request, and have it keep one open for the "
    "life of the application. A client that is refused comes back as well: the broker's log says whether it "
    "authenticates in vain."
)


def storms(signs: Signs) -> Iterator[Incident]:
    """An incident for each host and listener of a broker, by connections on which something was asked."""
    of_hosts: dict[tuple[str, str], list[Row]] = defaultdict(list)
    asked = (pc.field("protocol") == "tls") & (pc.field("tls_requests") > 0) & (pc.field("closed_by") == "client")
    brief = int(threshold("connections_short") * SECOND_NS)
    for row in signs.rows("connections", _COLUMNS, asked & pc.field("opened").is_valid()):
        if row["closed"] - row["opened"] < brief and row["broker"] in signs.brokers - {row["client"]}:
            of_hosts[row["client"], address(row["broker"], row["broker_port"])].append(row)
    for (host, place), rows in sorted(of_hosts.items()):
        rows.sort(key=lambda row: (row["opened"], row["connection"]))
        opened = np.array([row["opened"] for row in rows], np.int64)
        most = int((np.searchsorted(opened, opened + _WINDOW_NS) - np.arange(len(opened))).max())
        if host not in signs.brokers and most >= threshold("storm_connections") * threshold("connections_opened"):
            yield _storm(signs, host, place, rows, most)


def _storm(signs: Signs, host: str, place: str, rows: Sequence[Row], most: int) -> Incident:
    since, until = rows[0]["opened"], max(row["closed"] for row in rows)
    usual = duration(median(row["closed"] - row["opened"] for row in rows) / MILLISECOND_NS)
    return Incident(
        kind=IncidentKind.CONNECTION_STORM,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(Subject(Role.HOST, host), *signs.broker(signs.where(place))),
        started=since,
        ended=until,
        headline=f"{host}, {clock(since)} to {clock(until)}: opens one connection with TLS to {place} after the other, "
        f"{most:,} in a minute, and closes them soon (half of them within {usual}); what they say cannot be read",
        evidence=(
            Weighed(
                f"{counted(len(rows), 'connection')} that the client closed within "
                f"{threshold('connections_short'):.0f} s, each with an answer",
                rows[0]["connection"],
                since,
                0.8,
            ),
        ),
        advice=_ADVICE,
        cost_ms=(until - since) / MILLISECOND_NS,
    )
