"""Groups and transactions without a coordinator: nobody can join, commit, or begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.name_lists import listed, named
from kafkascope.reports.columns.text import address_alone, counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.groups.body import body_of
from kafkascope.reports.incidents.brokers.outage import Outage, out_at
from kafkascope.reports.incidents.brokers.outage_costs import uncoordinated_by
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.brokers.uncoordinated import Uncoordinated, uncoordinated
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed, every
from kafkascope.reports.incidents.signs import Signs, host_of
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_EXPLAINED = (
    "error_loop",
    "metadata_storm",
    "commit_refused",
    "commits_stopped",
    "heartbeat_held_up",
    "unanswered",
)
_ADVICE = (
    "See whether __consumer_offsets (for transactions: __transaction_state) is there and has leaders: kafka-topics.sh "
    "--describe --topic __consumer_offsets. It is made at first need, with three replicas unless "
    "offsets.topic.replication.factor (transaction.state.log.replication.factor) says otherwise: a cluster with fewer "
    "brokers never makes it. The log of the broker that is asked says why."
)
_ADVICE_WRITES = (
    "The coordinator is there, but what it writes to __consumer_offsets is not confirmed: fewer replicas are in sync "
    "than min.insync.replicas of that topic demands, or one that is in sync does not follow (kafka-topics.sh "
    "--describe --topic __consumer_offsets). Bring the brokers back that are missing, and a majority of controllers."
)
_ADVICE_AFTER = (
    "Another broker takes over if __consumer_offsets (for transactions: __transaction_state) has a replica in sync "
    "there, and a majority of controllers is left to choose it: kafka-topics.sh --describe shows the replicas, "
    "kafka-reassign-partitions.sh adds some (offsets.topic.replication.factor counts only as the topic is made)."
)
_ADVICE_IDS = (
    "Brokers get producer ids from the active controller, a thousand at a time (AllocateProducerIds): see whether it "
    "is there and answers them. Idempotent producers ask again by themselves, and write nothing until they have one."
)
_ADVICE_DENIED = (
    "Look at advertised.listeners of the broker that coordinates the group: the address that it advertises leads to "
    "another one, as where two brokers advertise one address, or a load balancer stands in between."
)


def missing(signs: Signs) -> Iterator[Incident]:
    """Times in which groups or transactions had no coordinator, but for those that are told with a broker's outage.

    And those in which an address that brokers name for it leads to another one.
    """
    found = signs.once(outages)
    told = {time.since for outage in found for time in uncoordinated_by(signs, outage)}
    for time in signs.once(uncoordinated):
        if time.since not in told:
            before = (
                one for one in found if one.troubles(time.since, time.since) or time.is_of(signs, one.host, one.started)
            )
            outage = out_at(signs, before, time.since, time.rows[0]["broker"])
            places = time.denied_at(signs) if outage is None else []
            yield _denied(signs, time, places) if places else _missing(signs, time, outage)


def denied(signs: Signs) -> set[str]:
    """Client ids of those who are sent to an address for their coordinator at which there is another broker."""
    return {name for time in signs.once(uncoordinated) if time.denied_at(signs) for name in time.names}


def _denied(signs: Signs, time: Uncoordinated, places: Sequence[str]) -> Incident:
    since, until, names = time.since, time.until, time.names
    still = until >= signs.end - SECOND_NS * threshold("coordinator_away")
    times = f"since {clock(since)}" if still else f"from {clock(since)} to {clock(until)}"
    lasted = (until - since) / MILLISECOND_NS
    told = listed(sorted({row["error"] for row in time.rows}))
    return Incident(
        kind=IncidentKind.UNREACHABLE_LISTENER,
        severity=Severity.CRITICAL,
        certainty=Certainty.LIKELY,
        subjects=(
            *every(Role.GROUP, time.groups),
            *every(Role.HOST, dict.fromkeys([*map(address_alone, places), *places])),
            *signs.clients(names, time.asked_from(signs)),
        ),
        started=since,
        ended=None if still else until,
        headline=f"who is sent to {listed(places)} for the coordinator of {named('group', time.groups)} reaches "
        f"another broker {times}: {told} {counted(time.count, 'time')} to {listed(names)}",
        evidence=_told_to(time),
        advice=_ADVICE_DENIED,
        cost_ms=lasted * len(names),
        effects=(Effect("clients", f"{counted(len(names), 'client')} did no work in it", len(names), lasted),),
        findings=signs.explained((*_EXPLAINED, "connection_churn"), since, until, groups=time.groups, clients=names),
    )


def _told_to(time: Uncoordinated) -> tuple[Weighed, ...]:
    """The first such answer to each client."""
    by_name: dict[str, Row] = {}
    for row in time.rows:
        by_name.setdefault(row["client_id"], row)
    return tuple(
        Weighed(
            f"{row['api']} of {name} answered {row['error']} by {row['broker']}", row["first_packet"], row["first"], 0.9
        )
        for name, row in sorted(by_name.items())
    )


def _missing(signs: Signs, time: Uncoordinated, outage: Outage | None) -> Incident:
    since, until, rows, names, groups = time.since, time.until, time.rows, time.names, time.groups
    told = listed(sorted({row["error"] for row in rows}))
    still = until >= signs.end - SECOND_NS * threshold("coordinator_away")
    times = f"since {clock(since)}" if still else f"from {clock(since)} to {clock(until)}"
    what = f"{listed(names)} found no coordinator {times}"
    whose = named("group", groups)
    if groups:
        had = "had" if not still else "has" if len(groups) == 1 else "have"
        what = f"{whose} {had} no coordinator {times}"
    if time.is_there and groups:
        what = f"the coordinator of {whose} could write nothing {times}"
    advice = _ADVICE_WRITES if time.is_there else _ADVICE if outage is None else _ADVICE_AFTER
    if not groups and _is_of_ids(signs, time):
        what, advice = (
            f"{listed(names)} {'was' if len(names) == 1 else 'were'} given no producer id {times}",
            _ADVICE_IDS,
        )
    after = ""
    if outage is not None:
        after = (
            f", after {signs.broker_words(outage.host, outage.started)} {'was gone' if outage.gone else 'stood still'}"
        )
    refused = signs.findings_in(("authentication_failed", "authorization_failed"), since, until)
    hosts = sorted({host_of(row) for row in refused if signs.is_broker(host_of(row), row["client_ids"][0])})
    if outage is None and hosts:
        verb = "was" if len(hosts) == 1 else "were"
        after = f", while {listed([signs.broker_words(host) for host in hosts])} {verb} refused by others"
    lasted = (until - since) / MILLISECOND_NS
    return Incident(
        kind=IncidentKind.COORDINATOR_MISSING,
        severity=Severity.WARNING if after else Severity.CRITICAL,  # the broker's incident stands before it
        certainty=Certainty.CERTAIN,
        subjects=(*every(Role.GROUP, groups), *signs.clients(names, time.asked_from(signs))),
        started=since,
        ended=None if still else until,
        headline=f"{what}{after}: {told} {counted(time.count, 'time')} to {listed(names)}",
        evidence=_told_to(time),
        advice=advice,
        cost_ms=lasted * len(names),
        effects=(Effect("clients", f"{counted(len(names), 'client')} did no work in it", len(names), lasted),),
        findings=signs.explained(_EXPLAINED, since, until, groups=groups, clients=names),
    )


def _is_of_ids(signs: Signs, time: Uncoordinated) -> bool:
    """Whether clients asked for producer ids alone, without a transactional id: no coordinator is needed for that.

    A broker that has none left answers COORDINATOR_LOAD_IN_PROGRESS until the controller gives it more.
    """
    if any(row["api"] != "InitProducerId" for row in time.rows):
        return False
    where = among("client_id", time.names) & (pc.field("api") == "InitProducerId")
    where &= pc.field("error").isin(sorted({row["error"] for row in time.rows}))
    asked = [row["request"] for row in signs.rows("exchanges", ("request",), where)]
    return bool(asked) and all(body_of(request).get("transactionalId", "") is None for request in asked)
