"""Connections that cannot come about: listeners that are advertised where nobody listens, TLS on one side alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.away import gone_before, missed
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.incident import EVIDENCE_SHOWN, Effect, Incident, Subject, Weighed, every
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS


def listeners(signs: Signs) -> Iterator[Incident]:
    """Addresses that brokers advertise, and at which no connect ever succeeded."""
    failed: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in signs.failed_connects:
        if row["opened"] is not None:
            failed[row["broker"], row["broker_port"]].append(row)
    gone = {silence["host"] for silence in signs.once(gone_before)}
    for (host, port), rows in sorted(failed.items()):
        place = address(host, port)
        listed_at = signs.listing(place)
        if len(rows) < threshold("failed_connects") or listed_at is None or signs.reached(place):
            continue
        rows.sort(key=lambda row: (row["opened"], row["connection"]))
        since, until = rows[0]["opened"], rows[-1]["opened"]
        broker = signs.where(place)
        if broker in gone or missed(signs, broker, since):
            continue  # it is gone, wherever it is listed
        hosts = sorted({row["client"] for row in rows})
        names = signs.names_at(hosts)
        by_name = listed_at["host"] != place
        yield Incident(
            kind=IncidentKind.UNREACHABLE_LISTENER,
            severity=Severity.CRITICAL,
            certainty=_how_sure(signs, host, until - since, by_name=by_name),
            subjects=(
                *signs.broker(broker),
                *((Subject(Role.HOST, listed_at["host"]),) if by_name else ()),
                Subject(Role.HOST, place),
                *every(Role.CLIENT, names),
                *every(Role.HOST, hosts),
            ),
            started=since,
            ended=None,
            headline=f"{signs.broker_words(broker)} advertises {listed_at['host']}, at which no connect succeeded"
            f"{f' ({place})' if by_name else ''}: "
            f"{counted(len(rows), 'connect')} of {listed(hosts)} {_how(rows)} from {clock(since)} to {clock(until)}",
            evidence=(
                Weighed(
                    f"told as a broker's address by {listed_at['told_by']}", listed_at["packet"], listed_at["at"], 0.6
                ),
                *(
                    Weighed(f"connect of {row['client']} {row['connect']}", row["connection"], row["opened"], 0.9)
                    for row in rows[:5]
                ),
            ),
            advice="Set advertised.listeners of the broker to an address and port at which it listens and that "
            "clients can reach (container, NAT and firewall in between?).",
            cost_ms=(until - since) / MILLISECOND_NS,
            effects=(Effect("connects", f"{counted(len(rows), 'connect')} failed", len(rows)),),
            findings=signs.explained(("metadata_storm", "connection_churn"), since, until, clients=names),
        )


def nowhere(signs: Signs) -> Iterator[Incident]:
    """Hosts that look for a broker where none is, and find no other: their bootstrap.servers are out of date."""
    if not signs.failed_connects:
        return
    speak = {client for client, _, _, is_kafka in signs.parties if is_kafka}
    of_brokers = {broker for _, broker, _, is_kafka in signs.parties if is_kafka}
    ports = _ports(signs)
    by_host: dict[str, list[Row]] = defaultdict(list)
    for row in signs.failed_connects:
        place = address(row["broker"], row["broker_port"])
        if (
            row["opened"] is not None
            and row["client"] not in speak
            and row["broker_port"] in ports
            and row["broker"] not in of_brokers
            and signs.listing(place) is None
        ):
            by_host[row["client"]].append(row)
    for host, rows in sorted(by_host.items()):
        rows.sort(key=lambda row: (row["opened"], row["connection"]))
        since, until = rows[0]["opened"], rows[-1]["opened"]
        if len(rows) < threshold("failed_connects") or until - since < threshold("finds_nobody") * SECOND_NS:
            continue
        places = sorted({address(row["broker"], row["broker_port"]) for row in rows})
        yield Incident(
            kind=IncidentKind.UNREACHABLE_LISTENER,
            severity=Severity.WARNING,
            certainty=Certainty.LIKELY,
            subjects=(Subject(Role.HOST, host), *every(Role.HOST, places[:EVIDENCE_SHOWN])),
            started=since,
            ended=until if signs.end - until > threshold("one_trouble") * SECOND_NS else None,
            headline=f"{host} finds no broker: {counted(len(rows), 'connect')} to {listed(places)} {_how(rows)} from "
            f"{clock(since)} to {clock(until)}, and it is not seen to reach any other",
            evidence=tuple(
                Weighed(
                    f"connect to {address(row['broker'], row['broker_port'])} {row['connect']}",
                    row["connection"],
                    row["opened"],
                    0.7,
                )
                for row in rows
            ),
            advice="See whether a broker should be there: it may be down, or have another address now. Update "
            "bootstrap.servers of this client, and name several brokers in it, so that one that is away keeps nobody "
            "out.",
            cost_ms=(until - since) / MILLISECOND_NS,
            effects=(Effect("connects", f"{counted(len(rows), 'connect')} failed", len(rows)),),
        )


_ACCEPTED = (
    "client",
    "broker",
    "broker_port",
    "client_id",
    "connection",
    "opened",
    "closed",
    "packets_down",
    "bytes_down",
    "lost_bytes",
)


_PORT = ("broker", "broker_port")
_NO_KAFKA = r"^a frame at offset 0 .*\(bytes from the broker\)$"  # what its first bytes would claim


def mute(signs: Signs) -> Iterator[Incident]:
    """Addresses that take connections of Kafka clients and never say a word of Kafka: none is a broker that works.

    Who took a connection sent a packet at least: of one without any the capture lacks that direction.
    """
    where = (pc.field("protocol") == "kafka") & (pc.field("connect") == "established") & (pc.field("bytes_up") > 0)
    by_place: dict[str, list[Row]] = defaultdict(list)
    for row in signs.rows("connections", _ACCEPTED, where):
        by_place[address(row["broker"], row["broker_port"])].append(row)
    of_others = pc.field("kind") == "implausible_size"
    of_others &= pc.match_substring_regex(pc.field("detail"), _NO_KAFKA)
    other = {issue["connection"] for issue in signs.rows("issues", ("connection",), of_others)}
    told = {outage.host for outage in signs.once(outages)}
    for place, rows in sorted(by_place.items()):
        speak = [row for row in rows if row["connection"] in other]
        if any(
            (row["bytes_down"] and row not in speak)
            or row["lost_bytes"]
            or not row["packets_down"]
            or row["opened"] is None
            for row in rows
        ):
            continue
        longest = max((row["closed"] or signs.end) - row["opened"] for row in rows)
        if longest >= threshold("finds_nobody") * SECOND_NS and told.isdisjoint({signs.where(place), place}):
            rows.sort(key=lambda row: (row["opened"], row["connection"]))
            yield _mute(signs, place, rows, longest / MILLISECOND_NS, is_other=bool(speak))


def _mute(signs: Signs, place: str, rows: Sequence[Row], longest: float, *, is_other: bool) -> Incident:
    """What listens at a place is no broker, or one that stands still; is_other: it answers, in another protocol."""
    waited = {row["connection"]: (row["closed"] or signs.end) - row["opened"] for row in rows}
    names = sorted({row["client_id"] for row in rows if row["client_id"]})
    since, until = rows[0]["opened"], max(row["closed"] or signs.end for row in rows)
    lasted, whom = duration(longest), listed(names or sorted({row["client"] for row in rows}))
    is_advertised = signs.listing(place) is not None
    broker = signs.where(place)
    who = f"{place}, which {signs.broker_words(broker)} advertises," if is_advertised else place
    said = f"says nothing to {whom} from {clock(since)} on, though it takes "
    said += "connections" if len(rows) > 1 else "the connection"
    what = "what listens there is no broker, or one that stands still"
    if is_other:
        said, what = (
            f"answers {whom} from {clock(since)} on in words that are no Kafka",
            "what listens there is no broker",
        )
    return Incident(
        kind=IncidentKind.UNREACHABLE_LISTENER,
        severity=Severity.CRITICAL if is_other and is_advertised else Severity.WARNING,
        certainty=Certainty.CERTAIN if is_other else Certainty.LIKELY,
        subjects=(
            *(signs.broker(broker) if is_advertised else ()),
            *signs.clients(names, {row["client"] for row in rows}),
            Subject(Role.HOST, place),
        ),
        started=since,
        ended=until if signs.end - until > threshold("one_trouble") * SECOND_NS else None,
        headline=f"{who} {said}: {what}; requests waited for up to {lasted}",
        evidence=tuple(
            Weighed(
                f"a connection of {row['client_id'] or row['client']}, on which it asked and was told nothing for "
                f"{duration(waited[row['connection']] / MILLISECOND_NS)}",
                row["connection"],
                row["opened"],
                0.8,
            )
            for row in rows
        ),
        advice=_ADVICE_ADVERTISED if is_advertised else _ADVICE_MUTE,
        cost_ms=sum(waited.values()) / MILLISECOND_NS,
        effects=(Effect("time", f"no answer for up to {lasted}", len(rows), longest),),
        findings=signs.explained(("unanswered",), since, until, clients=names),
    )


_ADVICE_MUTE = (
    "See what listens at this address and port. If it is no broker (another service, a proxy with nothing behind it), "
    "mend bootstrap.servers; if it is one, look at what its process does."
)
_ADVICE_ADVERTISED = (
    "See what listens at this address and port. If it is no broker (another service, a proxy with nothing behind it), "
    "set advertised.listeners of the broker to an address and port at which it listens; if it is one, look at what its "
    "process does."
)


def _ports(signs: Signs) -> set[int]:
    """Ports at which Kafka is spoken."""
    batches = signs.batches("connections", ("broker_port",), pc.field("protocol") == "kafka")
    return {port for batch in batches for port in batch["broker_port"].unique().to_pylist()}


def _how(rows: Sequence[Row]) -> str:
    """What became of connects that failed."""
    hows = sorted({row["connect"] for row in rows})
    return " or ".join("not answered" if one == "unanswered" else one for one in hows)


def _how_sure(signs: Signs, host: str, lasted: int, *, by_name: bool) -> Certainty:
    """How sure it is that a broker is somewhere else, and not gone: who is gone is taken off the list before long."""
    if any(broker == host and is_kafka for _, broker, _, is_kafka in signs.parties):
        return Certainty.LIKELY if by_name else Certainty.CERTAIN  # its host serves others
    return Certainty.LIKELY if lasted >= threshold("taken_off") * SECOND_NS else Certainty.GUESSED


def mismatched(signs: Signs) -> Iterator[Incident]:
    """Clients without TLS on a port with TLS, or the reverse."""
    by_port: dict[tuple[str, int, str], list[Row]] = defaultdict(list)
    issues = signs.rows("issues", where=pc.field("kind").isin(["plaintext_to_tls", "tls_unanswered"]))
    connections = signs.connections_by_number([issue["connection"] for issue in issues])
    # At a port that does TLS, who is not answered met a broker that ended. The second: from before the capture.
    agreed = pc.field("tls_version").is_valid() | (pc.field("tls_requests") > 0)
    does_tls = (
        {(row["broker"], row["broker_port"]) for row in signs.rows("connections", _PORT, agreed)} if issues else ()
    )
    for issue in issues:
        row = connections.get(issue["connection"])
        if row is None or row["broker"] not in signs.servers:
            continue
        if issue["kind"] == "plaintext_to_tls" or (row["broker"], row["broker_port"]) not in does_tls:
            by_port[row["broker"], row["broker_port"], issue["kind"]].append(issue | {"client": row["client"]})
    for (host, listener, kind), found in sorted(by_port.items()):
        found.sort(key=lambda one: (one["at"] or 0, one["packet"] or 0))
        since, until = found[0]["at"], found[-1]["at"]
        hosts = sorted({one["client"] for one in found})
        speaks, listens = ("plaintext", "TLS") if kind == "plaintext_to_tls" else ("TLS", "plaintext")
        yield Incident(
            kind=IncidentKind.TLS_MISMATCH,
            severity=Severity.CRITICAL,
            certainty=Certainty.CERTAIN if kind == "plaintext_to_tls" else Certainty.LIKELY,
            subjects=(*every(Role.HOST, hosts), *signs.broker(host)),
            started=since,
            ended=until,
            headline=f"{listed(hosts)} {'speaks' if len(hosts) == 1 else 'speak'} {speaks} to "
            f"{address(host, listener)}, which expects {listens}: {counted(len(found), 'connection')} from "
            f"{clock(since)} to {clock(until)}",
            evidence=tuple(Weighed(one["detail"], one["packet"], one["at"], 0.9) for one in found[:5]),
            advice="Set security.protocol of the client to what this listener speaks (SSL or SASL_SSL with TLS, "
            "PLAINTEXT or SASL_PLAINTEXT without), or give it the port of the other listener.",
            cost_ms=(until - since) / MILLISECOND_NS,
            effects=(Effect("connects", f"{counted(len(found), 'connection')} failed", len(found)),),
        )
