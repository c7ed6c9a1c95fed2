"""Clients that are too old for their brokers, which close the connection at what they do not take, or refuse it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.decoders.releases import oldest_taken, refused_since, releases
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address, counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.clients.requests import answers
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed, every, in_words
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_EVIDENCE = 8  # requests of a client that are told
_FINDINGS = ("old_protocol", "connection_churn", "metadata_storm", "api_versions_storm", "unanswered", "error_loop")


@dataclass(frozen=True, slots=True)
class TooOld:
    """A client, and the requests at which brokers closed its connections; by time."""

    host: str
    name: str
    rows: tuple[Row, ...]  # of exchanges, with place (of the broker) and closed (when)

    @property
    def asked(self) -> list[str]:
        """``Produce v1``, by name."""
        return sorted({_request(row) for row in self.rows})

    @property
    def who(self) -> str:
        """``c1 (10.0.1.1)``."""
        return f"{self.name} ({self.host})"


def found(signs: Signs) -> list[TooOld]:
    """All of them, by host and client id."""
    columns = ("connection", "api_key", "api", "api_version", "client_id", "requested", "request_packet")
    is_old = _is_old()
    where = is_old & (pc.field("outcome") == "unanswered") & pc.field("requested").is_valid()
    asked = sorted(signs.rows("exchanges", columns, where), key=lambda row: (row["requested"], row["connection"]))
    if not asked:
        return []
    connections = signs.connections_by_number(sorted({row["connection"] for row in asked}))
    taken = _last_taken(signs)
    of_client: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in asked:
        connection = connections.get(row["connection"])
        if (
            connection is None
            or connection["closed"] is None
            or not 0 <= connection["closed"] - row["requested"] <= SECOND_NS
            or connection["closed_by"] != "broker"
            or not connection["packets_down"]
            or connection["lost_bytes"]  # it may be the capture that lacks the answer
        ):
            continue
        place = address(connection["broker"], connection["broker_port"])
        if taken.get((place, row["api_key"], row["api_version"]), 0) < row["requested"]:
            more = {"place": place, "closed": connection["closed"]}
            of_client[connection["client"], row["client_id"] or "?"].append(row | more)
    return [
        TooOld(host, name, tuple(rows))
        for (host, name), rows in sorted(of_client.items())
        if len({row["connection"] for row in rows}) >= threshold("turned_away")
    ]


def _last_taken(signs: Signs) -> dict[tuple[str, int, int], int]:
    """By broker's place, API and old version: when the latest request was sent that was answered.

    A broker may be upgraded while the capture goes on, and its neighbours later.
    """
    latest: dict[tuple[int, int, int], int] = {}
    where = _is_old() & (pc.field("outcome") == "answered") & pc.field("requested").is_valid()
    keys = ["connection", "api_key", "api_version"]
    for batch in signs.batches("exchanges", (*keys, "requested"), where):
        for row in batch.group_by(keys).aggregate([("requested", "max")]).to_pylist():
            asked = row["connection"], row["api_key"], row["api_version"]
            latest[asked] = max(latest.get(asked, 0), row["requested_max"])
    connections = signs.connections_by_number(sorted({connection for connection, _, _ in latest})) if latest else {}
    found: dict[tuple[str, int, int], int] = {}
    for (connection, api_key, version), at in latest.items():
        if (row := connections.get(connection)) is not None:
            taken = address(row["broker"], row["broker_port"]), api_key, version
            found[taken] = max(found.get(taken, 0), at)
    return found


@cache
def _is_old() -> pc.Expression:
    """Whether a request's version is one that the newest release does not know any more."""
    old = pc.scalar(False)
    for key, first in oldest_taken().items():
        old |= (pc.field("api_key") == key) & (pc.field("api_version") < first)
    return old


def too_old(signs: Signs) -> Iterator[Incident]:
    """Incidents of clients that are too old: one each, or one of many."""
    clients = signs.once(found)
    if len(clients) >= threshold("alike"):
        yield _too_old(signs, clients)
        return
    for one in clients:
        yield _too_old(signs, [one])


def _too_old(signs: Signs, clients: Sequence[TooOld]) -> Incident:
    rows = sorted((row for one in clients for row in one.rows), key=lambda row: (row["requested"], row["connection"]))
    since, until = rows[0]["requested"], max(row["closed"] for row in rows)
    since_when = {refused_since(row["api_key"], row["api_version"]) for row in rows}
    release = min((one for one in since_when if one is not None), key=releases().index)
    places = sorted({row["place"] for row in rows})
    names = sorted({one.name for one in clients})
    effects = (Effect("requests", f"{counted(len(rows), 'request')} refused", len(rows)),)
    who = clients[0].who if len(clients) == 1 else f"{len(clients):,} clients ({listed(names)})"
    return Incident(
        kind=IncidentKind.CLIENT_TOO_OLD,
        severity=Severity.CRITICAL,
        certainty=Certainty.LIKELY,
        subjects=(
            *every(Role.CLIENT, names),
            *every(Role.HOST, sorted({one.host for one in clients})),
            *dict.fromkeys(subject for place in places for subject in signs.broker(signs.where(place))),
        ),
        started=since,
        ended=until if until < signs.end - threshold("one_trouble") * SECOND_NS else None,
        headline=f"{who} {'is' if len(clients) == 1 else 'are'} too old for "
        f"{listed([signs.broker_words(signs.where(place)) for place in places])}: the connection is closed at each "
        f"{listed(sorted({asked for one in clients for asked in one.asked}))}, which Kafka does not know any more "
        f"since {release}, from {clock(since)} on" + in_words(effects),
        evidence=tuple(
            Weighed(
                f"{one.name} sent {_request(row)} to {row['place']}, which closed the connection after "
                f"{(row['closed'] - row['requested']) / MILLISECOND_NS:,.1f} ms without an answer",
                row["request_packet"],
                row["requested"],
                0.8,
            )
            for one in clients
            for row in one.rows[:_EVIDENCE]
        ),
        advice="Upgrade the client library: Kafka 4.0 and later take requests of clients from 2.1 on (KIP-896). Until "
        "then it needs brokers of 3.9 or earlier; findings old_protocol, in a capture of those, name who will be "
        "refused.",
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=effects,
        findings=signs.explained(_FINDINGS, since, until, clients=names),
    )


def _request(row: Row) -> str:
    return f"{row['api']} v{row['api_version']}"


def without_codec(signs: Signs) -> Iterator[Incident]:
    """Consumers that cannot be given what others compress by a codec that they do not know; one for each client id.

    Brokers give zstd to Fetch from version 10 on (KIP-110), and do not compress anew for older ones.
    """
    by_client: dict[str, list[Row]] = defaultdict(list)
    for row in signs.errors:
        if row["error"] == Error.UNSUPPORTED_COMPRESSION_TYPE and row["api"] == "Fetch" and row["client_id"]:
            by_client[row["client_id"]].append(row)
    for name, rows in sorted(by_client.items()):
        lasted = max(row["last"] for row in rows) - min(row["first"] for row in rows)
        if lasted >= threshold("without_codec") * SECOND_NS:
            yield _without_codec(signs, name, rows)


def _without_codec(signs: Signs, name: str, rows: Sequence[Row]) -> Incident:
    since, until = min(row["first"] for row in rows), max(row["last"] for row in rows)
    count, lasted = sum(row["count"] for row in rows), (until - since) / MILLISECOND_NS
    topics = sorted({row["topic"] for row in rows if row["topic"]})
    effects = (Effect("requests", f"{counted(count, 'answer')} without records", count, lasted),)
    return Incident(
        kind=IncidentKind.CLIENT_TOO_OLD,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=(*signs.clients([name], signs.asked_from(rows)), *every(Role.TOPIC, topics[:_EVIDENCE])),
        started=since,
        ended=until if until < signs.end - threshold("one_trouble") * SECOND_NS else None,
        headline=f"{name} is too old to read {listed(topics or ['a topic'])}, from {clock(since)} on: there are "
        "records in zstd, which brokers give to Fetch v10 (Kafka 2.1) and later alone" + in_words(effects),
        evidence=tuple(answers(rows[:_EVIDENCE])),
        advice="Upgrade the library of this client, or have the producers (compression.type), or the topic, use "
        "another codec. It does not get past the first record in zstd.",
        cost_ms=lasted,
        effects=effects,
        findings=signs.explained((*_FINDINGS, "idle_polling"), since, until, clients=[name]),
    )
