"""TLS handshakes that one side ends: certificates that are not trusted or have expired, versions that do not fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address, address_alone, counted
from kafkascope.reports.columns.words import clock, day_and_clock
from kafkascope.reports.incidents.brokers.replication import HeldUp, held_up_between
from kafkascope.reports.incidents.incident import Incident, Weighed, every, in_words
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS

_COLUMNS = (
    "connection",
    "client",
    "broker",
    "broker_port",
    "opened",
    "closed",
    "tls_version",
    "tls_server_name",
    "tls_certificate_names",
    "tls_certificate_from",
    "tls_certificate_until",
    "tls_alert",
    "tls_alert_by",
)
_ENDS = ("close_notify", "user_canceled")  # alerts by which a side says that it has no more to say
_OF_CERTIFICATES = (
    "bad_certificate",
    "unsupported_certificate",
    "certificate_revoked",
    "certificate_unknown",
    "unknown_ca",
)
_NOTHING_IN_COMMON = ("handshake_failure", "protocol_version", "insufficient_security", "inappropriate_fallback")


Alike = dict[tuple[str, int, str, str], list[Row]]
"""Connections by the broker's address and port, which side ended the handshake, and how; by time."""


def alike(signs: Signs) -> Alike:
    """Handshakes that fail, those together that fail alike at one listener."""
    quiet = (pc.field("exchanges") == 0) & (pc.field("tls_requests").is_null() | (pc.field("tls_requests") == 0))
    # In TLS 1.2 an alert that cannot be read comes behind the handshake.
    told = ~pc.field("tls_alert").isin(_ENDS) & (
        (pc.field("tls_alert") != "encrypted") | (pc.field("tls_version") == "TLS 1.3")
    )
    may_be_kafka = pc.field("protocol") != "https"
    seen = (pc.field("packets_up") > 0) & (pc.field("packets_down") > 0)  # else what came in between is not known
    where = pc.field("tls_alert").is_valid() & told & quiet & may_be_kafka & seen
    found: Alike = defaultdict(list)
    for row in signs.rows("connections", _COLUMNS, where):
        if opened(row) and row["broker"] in signs.servers:
            found[row["broker"], row["broker_port"], row["tls_alert_by"], row["tls_alert"]].append(row)
    for rows in found.values():
        rows.sort(key=lambda row: (opened(row), row["connection"]))
    return {how: rows for how, rows in found.items() if len(rows) >= threshold("failed_handshakes")}


def failed(signs: Signs) -> Iterator[Incident]:
    """Handshakes that fail alike, at one listener: an incident for each way in which they do."""
    for (host, port, by, alert), rows in sorted(_by_cause(signs.once(alike)).items()):
        yield _failed(signs, address(host, port), by, alert, rows)


def _by_cause(found: Alike) -> Alike:
    """The same, but what cannot be read (TLS 1.3) is with those who see that the listener's certificate has expired."""
    made = dict(found)
    for how, rows in found.items():
        host, port, by, alert = how
        ends = _expired(rows) if (by, alert) != ("client", "encrypted") else None
        hidden = made.get((host, port, "client", "encrypted"), ())
        if by == "client" and ends is not None and hidden and opened(hidden[0]) > ends:
            made[how] = sorted([*rows, *hidden], key=lambda row: (opened(row), row["connection"]))
            del made[host, port, "client", "encrypted"]
    return made


def _expired(rows: Sequence[Row]) -> int | None:
    """When the certificate of the last one that shows it had ended before; None if it had not."""
    last = _last_seen(rows)
    ends: int | None = last["tls_certificate_until"]
    return ends if ends is not None and ends < opened(last) else None


def _last_seen(rows: Sequence[Row]) -> Row:
    """The last one whose certificate can be read, if any."""
    return next((row for row in reversed(rows) if row["tls_certificate_until"] is not None), rows[-1])


def _failed(signs: Signs, place: str, by: str, alert: str, rows: Sequence[Row]) -> Incident:
    since, until = opened(rows[0]), opened(rows[-1])
    where = signs.where(place)
    hosts = sorted({row["client"] for row in rows})
    names = signs.names_at(hosts)
    why, advice = _why(rows, place, by, alert)
    broker = signs.broker_words(where)
    side = "clients" if by == "client" and len(hosts) > 1 else by
    hidden = sum(row["tls_alert"] == "encrypted" for row in rows) if alert != "encrypted" else 0
    if hidden:
        why += f" ({hidden:,} of them are TLS 1.3, where neither certificate nor alert can be read)"
    number = counted(len(rows), "TLS handshake")
    apart = [host for host in hosts if host in signs.brokers and host != address_alone(place)]
    who = listed([signs.broker_words(host) if host in apart else host for host in hosts])
    held = held_up_between(signs, [where, *hosts], since, until) if len(apart) == len(hosts) else HeldUp()
    return Incident(
        kind=IncidentKind.TLS_FAILED,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN if alert != "encrypted" else Certainty.LIKELY,
        subjects=(
            *every(Role.HOST, hosts),
            *signs.broker(where),
            *every(Role.CLIENT, names),
        ),
        started=since,
        ended=until,
        headline=f"{number} of {who} with {broker} at port {place.rpartition(':')[2]} failed from "
        f"{clock(since)} to {clock(until)}, each ended by the {side}: {why}" + in_words(held.effects),
        evidence=tuple(Weighed(_alert(row), row["connection"], opened(row), 0.9) for row in rows),
        advice=advice,
        cost_ms=(until - since) / MILLISECOND_NS + held.cost_ms,
        effects=held.effects,
        findings=held.findings | signs.explained(("connection_churn",), since, until, clients=names),
        rebalances=held.rebalances,
    )


def _alert(row: Row) -> str:
    by = row["tls_alert_by"]
    if row["tls_alert"] == "encrypted":
        return f"an encrypted alert of the {by}, in the place of a handshake's end"
    return f"alert {row['tls_alert']} of the {by}"


def opened(row: Row) -> int:
    """When a connection was opened, or else closed; 0 if the capture has neither."""
    return row["opened"] or row["closed"] or 0


def _why(rows: Sequence[Row], place: str, by: str, alert: str) -> tuple[str, str]:
    """Why handshakes failed, as far as alert and certificate tell; and what to do."""
    last, ends = _last_seen(rows), _expired(rows)
    begins, at = last["tls_certificate_from"], opened(last)
    if by == "client" and ends is not None:
        return f"the broker's certificate has expired on {_day(ends)}", _RENEW
    if by == "client" and begins is not None and begins > at:
        return f"the broker's certificate holds from {_day(begins)} on only", _RENEW
    if alert == "certificate_expired":
        return f"the {'broker' if by == 'client' else 'client'}'s certificate has expired", _RENEW
    if alert in _NOTHING_IN_COMMON:
        return f"they agree on no version or cipher ({alert})", _AGREE
    if by == "client":
        if alert in _OF_CERTIFICATES:
            return f"it does not accept the broker's certificate ({alert}){_names(last, place)}", _TRUST
        guess = (
            "it refused what the broker sent, most likely its certificate: not trusted, expired, or for another name"
        )
        return (guess, _TRUST) if alert == "encrypted" else (alert, _LOGS)
    if alert == "certificate_required":
        return "the client has no certificate (certificate_required)", _CLIENT_CERTIFICATE
    if alert in _OF_CERTIFICATES:
        return f"it refuses the client's certificate, or the client has none ({alert})", _CLIENT_CERTIFICATE
    guess = "it refused what the client sent last, most likely its certificate, or that it has none"
    return (guess, _CLIENT_CERTIFICATE) if alert == "encrypted" else (alert, _LOGS)


def _names(row: Row, place: str) -> str:
    """Whom the certificate is for, if not for whom the client asked for, as far as that is known."""
    names = [name.lower() for name in row["tls_certificate_names"] or ()]
    wanted = (row["tls_server_name"] or address_alone(place)).lower()
    is_named = wanted in names or f"*.{wanted.partition('.')[2]}" in names
    if not names or is_named:
        return ""
    return f", which names {listed(set(names))} and not {wanted}"


def _day(at: int) -> str:
    """A day as text."""
    return day_and_clock(at)[:10]


_RENEW = "Renew the certificate in the keystore, and look at who should have: expiry is known years before."
_AGREE = "Compare ssl.enabled.protocols and ssl.cipher.suites of client and listener."
_TRUST = (
    "Compare the broker's certificate (openssl s_client -connect HOST:PORT -showcerts) with the client's truststore: "
    "is the CA that signed it in there, is the name or address that the client uses among its names, is it in date? "
    "The client's log says which."
)
_CLIENT_CERTIFICATE = (
    "The listener demands a certificate of clients (ssl.client.auth): give the client a keystore with one that a CA in "
    "the broker's truststore has signed, and that is in date. The broker's log says which."
)
_LOGS = "The logs of client and broker say what the alert is about."
