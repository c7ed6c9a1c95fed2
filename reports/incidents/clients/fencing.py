"""Transactional ids that several processes use: each that starts takes it over, and fences the one before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.clients.transactions import FENCED, requests_of
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed, every
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS

_TAKEN = (Error.NONE, Error.CONCURRENT_TRANSACTIONS)  # the latter: as soon as the other's transaction is aborted


class Takeover(NamedTuple):
    """A process that got a transactional id which another one had, and how that one was refused then."""

    by: tuple[str, str]  # client id and host
    before: tuple[str, str]
    taken: Row  # the InitProducerId
    refused: list[Row]  # errors


def shared(signs: Signs) -> Iterator[Incident]:
    """Ids that processes take from each other again and again; once is how one replaces another that hangs."""
    refused = [row for row in signs.errors if row["error"] in FENCED or _ends_in_vain(row)]
    if not refused:
        return
    by_name: dict[str, list[Row]] = defaultdict(list)
    for row in requests_of(signs, pc.field("api") == "InitProducerId"):
        if row["error"] in _TAKEN:
            by_name[row["name"]].append(row)
    numbers = sorted({row["connection"] for rows in by_name.values() for row in rows})
    hosts = {number: row["client"] for number, row in signs.connections_by_number(numbers).items()}
    for name, rows in sorted(by_name.items()):
        takeovers = _takeovers(rows, hosts, refused, signs.end)
        if len(takeovers) >= threshold("takeovers"):
            yield _shared(signs, name, takeovers)


def _ends_in_vain(error: Row) -> bool:
    """Whether the end of a transaction was refused as brokers do while another process takes the id over.

    So Kafka 4.1 answers clients that know no other word for it (librdkafka), with that other's abort under way.
    """
    return bool(error["api"] == "EndTxn" and error["error"] == Error.UNKNOWN_SERVER_ERROR)


def _takeovers(rows: Sequence[Row], hosts: dict[int, str], refused: Sequence[Row], end: int) -> list[Takeover]:
    """Those after which the one before was refused, until it took the id itself again."""
    taken: list[tuple[tuple[str, str], Row]] = []
    for row in rows:
        by = row["client_id"] or "a client", hosts.get(row["connection"], "")
        if not taken or taken[-1][0] != by:
            taken.append((by, row))
    found = []
    for place in range(1, len(taken)):
        (before, _), (by, row) = taken[place - 1 : place + 1]
        until = next((later["requested"] for other, later in taken[place + 1 :] if other == before), end)
        mine = [one for one in refused if one["client_id"] == before[0] and row["requested"] <= one["last"] <= until]
        if mine:
            found.append(Takeover(by, before, row, mine))
    return found


def _shared(signs: Signs, name: str, takeovers: Sequence[Takeover]) -> Incident:
    who = sorted({party for one in takeovers for party in (one.by, one.before)})
    errors = {id(row): row for one in takeovers for row in one.refused}
    since = takeovers[0].taken["requested"]
    until = max(row["last"] for row in errors.values())
    count = sum(row["count"] for row in errors.values())
    effects = (Effect("errors", f"{counted(count, 'request')} of who had it before refused", count),)
    return Incident(
        kind=IncidentKind.PRODUCER_FENCED,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=(
            *every(Role.CLIENT, sorted({client_id for client_id, _ in who})),
            *every(Role.HOST, sorted({host for _, host in who if host})),
        ),
        started=since,
        ended=until,
        headline=f"{listed([f'{client_id} ({host})' for client_id, host in who])} use one transactional id, {name}: "
        f"{counted(len(takeovers), 'time')} one fenced the other, from {clock(since)} to {clock(until)}"
        + outcome(effects),
        evidence=tuple(
            Weighed(
                f"{one.by[0]} ({one.by[1]}) took it over; {one.before[0]} was answered "
                f"{listed({row['error'] for row in one.refused})}",
                one.taken["request_packet"],
                one.taken["requested"],
                0.9,
            )
            for one in takeovers
        ),
        advice="Give each process a transactional.id of its own, that it keeps when it is started again (with the name "
        "of the pod or a number); let nothing run twice that is meant to run once.",
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=effects,
        findings=signs.explained(
            ("error_loop", "sent_again"), since, until, clients=[client_id for client_id, _ in who]
        ),
    )
