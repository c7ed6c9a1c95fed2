"""Addresses of brokers at which another broker answers than before."""

from __future__ import annotations

from itertools import chain

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.incidents.who_is_who import Takeover
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import SECOND_NS

ADVICE = (
    "Find out who has this address now: a DNS record, an address that was given to another host or pod, a proxy, a "
    "forwarded port. Clients of before Kafka 4.4, and those that bootstrap there, do not notice: look for records and "
    "offsets that they wrote to the wrong cluster. TLS with host names, or credentials for one cluster, prevent it."
)


def taken(signs: Signs, takeover: Takeover) -> Incident:
    """The incident of an address whose broker nobody saw fall silent."""
    host, before = takeover.host, takeover.at - 1
    effects = met(signs, takeover, takeover.at)
    return Incident(
        kind=IncidentKind.ADDRESS_TAKEN,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=signs.broker(host, before),
        started=takeover.at,
        ended=takeover.until,
        headline=f"{signs.broker_words(host, before)} is not whom clients find at its address: {words(takeover)}"
        f"{outcome(effects)}",
        evidence=evidence(takeover),
        advice=ADVICE,
        cost_ms=0.0,
        effects=effects,
    )


def words(takeover: Takeover) -> str:
    """Who answers in the place of a broker."""
    who = "another broker" if takeover.after is None else f"broker {takeover.after}"
    cluster = " of another cluster" if takeover.after is not None and takeover.is_foreign else ""
    since = clock(takeover.at)
    span = f"from {since} on" if takeover.until is None else f"from {since} to {clock(takeover.until)}"
    return f"{who}{cluster} answers at {takeover.place} {span}"


def met(signs: Signs, takeover: Takeover, since: int) -> tuple[Effect, ...]:
    """What clients met at the address, from when on anything came of it again."""
    until = signs.end if takeover.until is None else takeover.until
    connections = [
        row for row in signs.once(_connections)[takeover.place] if since - SECOND_NS <= (row["opened"] or 0) <= until
    ]
    refused = [row for row in signs.rebootstraps if row["broker"] == takeover.place and row["last"] >= takeover.at]
    effects = []
    if names := sorted({row["client_id"] for row in connections if row["client_id"]}):
        text = f"{listed(names)} connected to the other one {counted(len(connections), 'time')}"
        effects.append(Effect("connects", text, len(connections)))
    if refused:
        count = sum(row["count"] for row in refused)
        sent = sorted({row["client_id"] for row in refused if row["client_id"]})
        verb = "was" if len(sent) == 1 else "were"
        text = f"{listed(sent)} {verb} sent back to bootstrap.servers {counted(count, 'time')}"
        effects.append(Effect("errors", text, count))
    return tuple(effects)


def _connections(signs: Signs) -> dict[str, list[Row]]:
    """Connections to each of these addresses."""
    return signs.connections_to({one.place for one in chain.from_iterable(signs.takeovers.values())})


def evidence(takeover: Takeover) -> tuple[Weighed, ...]:
    """How it is known."""
    found = []
    for row in takeover.rows:
        told = f"{takeover.place} told {row['client_id']}" if row["client_id"] else f"{takeover.place} told"
        what = row["detail"] if row["after"] is None else f"it is broker {row['after']} {row['detail'] or ''}".strip()
        found.append(Weighed(f"{told}: {what}", row["packet"], row["at"], 0.9))
    return tuple(found)
