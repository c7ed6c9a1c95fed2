"""What findings about clients say is an incident by itself: credentials, permissions, quotas, storms of connections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers import coordinators, same_address
from kafkascope.reports.incidents.brokers.replication import HeldUp, held_up_between
from kafkascope.reports.incidents.clients import impatient, too_old, turned_away, unconfirmed
from kafkascope.reports.incidents.clients.client_causes import LOOK_AT, Beside
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, in_words
from kafkascope.reports.incidents.members import restarts
from kafkascope.reports.incidents.members.stuck import beginnings
from kafkascope.reports.incidents.network.connects import listeners
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs, host_of
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.measures.client_facts import NO_NAME
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS


@dataclass(frozen=True, slots=True)
class Told:
    """A kind of finding about one client that is an incident: one for each client id, and one for many alike."""

    kind: IncidentKind
    findings: frozenset[str]
    severity: Severity
    certainty: Certainty
    also: tuple[str, ...] = ()  # findings that it explains


_TOLD = (
    Told(
        IncidentKind.AUTHENTICATION_FAILED,
        frozenset({"authentication_failed"}),
        Severity.CRITICAL,
        Certainty.CERTAIN,
        ("connection_churn", "api_versions_storm", "unanswered"),
    ),
    Told(
        IncidentKind.AUTHORIZATION_FAILED,
        frozenset({"authorization_failed"}),
        Severity.WARNING,
        Certainty.CERTAIN,
        ("error_loop", "metadata_storm"),
    ),
    Told(
        IncidentKind.THROTTLED,
        frozenset({"throttled"}),
        Severity.WARNING,
        Certainty.CERTAIN,
        ("unanswered",),  # brokers read no more of a client until its delay is over
    ),
    Told(
        IncidentKind.CONNECTION_STORM,
        frozenset({"connection_churn"}),
        Severity.WARNING,
        Certainty.CERTAIN,
        ("api_versions_storm", "metadata_storm", "old_protocol"),
    ),
)

_OF_BROKERS = frozenset({IncidentKind.AUTHENTICATION_FAILED, IncidentKind.AUTHORIZATION_FAILED})
"""Where it is a broker that others refuse: it cannot replicate what they have."""
_ADVICE_BROKER = (
    "A broker needs ClusterAction on the cluster, of the brokers that it fetches from: name its principal in "
    "super.users on all of them, or give it that ACL."
)


def told(signs: Signs) -> Iterator[Incident]:
    """Incidents out of findings about clients."""
    known = _told_with_the_cause(signs)
    apart = threshold("one_trouble") * SECOND_NS
    for one in _TOLD:
        rows_of: dict[str, list[Row]] = defaultdict(list)
        for row in signs.findings:
            if row["kind"] not in one.findings:
                continue
            if one.kind == IncidentKind.CONNECTION_STORM and (
                row["subject"] in known or _is_broker(signs, row) or not _is_storm(row)
            ):
                continue
            rows_of[row["client_ids"][0]].append(row)
        by_client = _with_names(signs, rows_of)
        at_once = [row for found in by_client.values() for row in found if not _is_broker(signs, row)]
        at_once.sort(key=lambda row: (row["since"], row["id"]))
        for run in in_runs(at_once, lambda run, row: row["since"] <= max(_until(run[0]), _until(run[-1])) + apart):
            names = sorted({row["client_ids"][0] for row in run})
            if len(names) >= threshold("alike") and sum(len(by_client[name]) for name in names) == len(run):
                yield _told(signs, one, names, run)
                by_client = {name: found for name, found in by_client.items() if name not in names}
        for names, found in _by_cause(signs, one, by_client):
            yield _told(signs, one, names, found)


def _by_cause(signs: Signs, one: Told, by_client: Mapping[str, list[Row]]) -> Iterator[tuple[list[str], list[Row]]]:
    """Clients with their findings; as one those whose trouble has one cause, and began before that of another ended."""
    alike: dict[Hashable, list[tuple[str, list[Row]]]] = defaultdict(list)
    for name, found in sorted(by_client.items()):
        known = name != NO_NAME and not any(_is_broker(signs, row) for row in found)
        cause = _beside(signs, one, [name], found).cause if known else None
        alike[name if cause is None else (cause,)].append((name, found))
    apart = threshold("one_trouble") * SECOND_NS
    for of_cause in alike.values():
        in_order = sorted(of_cause, key=lambda each: (each[1][0]["since"], each[0]))
        for run in in_runs(in_order, lambda run, each: each[1][0]["since"] <= max(map(_until, run[-1][1])) + apart):
            yield sorted(name for name, _ in run), [row for _, found in run for row in found]


def _told_with_the_cause(signs: Signs) -> set[str]:
    """Subjects of findings that come again and again for a reason which another incident, or a finding, tells."""
    refused = {row["subject"] for row in signs.findings if row["kind"] == "authentication_failed"}
    at_places = (row for places in signs.once(beginnings).values() for place in places for row in place.rows)
    who = {(row["client_id"], row["client"]) for row in at_places}
    who |= {(one.client_id, one.client) for one in signs.once(restarts.loops)}
    who |= {*impatient.impatient(signs)}
    who |= {(one.name, one.host) for one in signs.once(unconfirmed.found)}
    who |= {(name, one.client) for one in signs.once(turned_away.found) for name in one.names}
    anywhere = {name for one in signs.once(same_address.shared) for name in one.clients}
    anywhere |= {subject.name for one in listeners(signs) for subject in one.subjects if subject.role == Role.CLIENT}
    anywhere |= coordinators.denied(signs)
    who |= {(name, host) for name in anywhere for host in signs.hosts_of.get(name, ())}
    of_processes = {f"client {one.who}" for one in signs.once(too_old.found)}
    return refused | of_processes | {f"client {name} ({host})" for name, host in who}


def _with_names(signs: Signs, by_client: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """Findings by client; what answers alone tell, whose requests the capture lacks, with the only one on their host.

    Whose connections there have a client id, each.
    """
    nameless = {client for client, _, name, is_kafka in signs.parties if is_kafka and name is None}
    found = {name: [*rows] for name, rows in by_client.items() if name != NO_NAME}
    of_host: dict[str, set[str]] = defaultdict(set)
    for name, rows in found.items():
        for row in rows:
            of_host[host_of(row)].add(name)
    for row in by_client.get(NO_NAME, ()):
        host = host_of(row)
        named = of_host[host] if host not in nameless else set[str]()
        found.setdefault(next(iter(named)) if len(named) == 1 else NO_NAME, []).append(row)
    return {name: sorted(rows, key=lambda row: (row["since"], row["id"])) for name, rows in found.items()}


def _until(finding: Row) -> int:
    return int(finding["until"] or finding["since"])


def _told(signs: Signs, one: Told, names: Sequence[str], found: Sequence[Row]) -> Incident:
    """What one client does, or many alike."""
    hosts = list(dict.fromkeys(host_of(row) for row in found))
    since, last = min(row["since"] for row in found), max(map(_until, found))
    until = min(last, signs.end)  # an order to hold back may be longer than the capture
    lasted = (until - since) / MILLISECOND_NS
    worst = max(found, key=lambda row: (row["weight"] or 0, row["id"]))
    of_broker = all(_is_broker(signs, row) for row in found)
    if len(names) > 1:
        who, what = f"{len(names):,} clients alike ({listed(names)})", _in_midst(worst["title"])
    else:
        who = f"{names[0]} ({listed(hosts)})"
        if names[0] == NO_NAME:
            who = listed([signs.broker_words(host) for host in hosts] if of_broker else hosts)
        what = "; ".join(dict.fromkeys(_in_midst(row["title"]) for row in found))
    if last > until:
        what += f", the last of it to {duration((last - until) / MILLISECOND_NS)} behind the end of the capture"
    beside = Beside() if of_broker else _beside(signs, one, names, found)
    held = held_up_between(signs, hosts, since, until) if of_broker and one.kind in _OF_BROKERS else HeldUp()
    time = [Effect("time", f"for {duration(lasted)}", None, lasted)] if lasted >= 1 else []
    costs = (*held.effects, *beside.effects)
    return Incident(
        kind=one.kind,
        severity=one.severity,
        certainty=one.certainty,
        subjects=(
            *(Subject(Role.CLIENT, name) for name in names if name != NO_NAME),
            *(one for host in hosts for one in (signs.broker(host) if of_broker else [Subject(Role.HOST, host)])),
            *beside.subjects,
        ),
        started=since,
        ended=until if until == last else None,
        headline=f"{who}, {_times(since, until)}: {'' if len(names) == 1 else 'the worst: '}{what}"
        + (f" ({beside.words})" if beside.words else "")
        + in_words(costs),
        evidence=(
            *(
                Weighed(seen["text"], seen["packet"], seen["at"], 0.8)
                for row in found
                for seen in row["evidence"] or ()
            ),
            *beside.evidence,
        ),
        advice=_ADVICE_BROKER
        if of_broker and one.kind == IncidentKind.AUTHORIZATION_FAILED
        else beside.advice or found[0]["advice"],
        cost_ms=lasted + held.cost_ms,
        effects=(*time, *costs),
        findings=frozenset(row["id"] for row in found)
        | held.findings
        | signs.explained(one.also, since, until, clients=names)
        | beside.findings,
        rebalances=held.rebalances | beside.rebalances,
    )


def _beside(signs: Signs, one: Told, names: Sequence[str], found: Sequence[Row]) -> Beside:
    """What the capture tells beside the trouble of these clients."""
    hosts = list(dict.fromkeys(host_of(row) for row in found))
    since, until = min(row["since"] for row in found), min(max(map(_until, found)), signs.end)
    look = LOOK_AT.get(one.kind)
    return Beside() if look is None else look(signs, names, hosts, since, until)


def _times(since: int, until: int) -> str:
    begin, end = clock(since), clock(until)
    return f"at {begin}" if begin == end else f"{begin} to {end}"


def _in_midst(title: str) -> str:
    """A title in the midst of a sentence."""
    return title[:1].lower() + title[1:]


def _is_broker(signs: Signs, finding: Row) -> bool:
    return signs.is_broker(host_of(finding), finding["client_ids"][0])


def _is_storm(churn: Row) -> bool:
    """Whether a client opens so many connections that it is a trouble, and not only a waste."""
    times = threshold("storm_connections")
    return bool((churn["weight"] or 0) >= times / (times + 1))  # how findings tell by how much they are over
