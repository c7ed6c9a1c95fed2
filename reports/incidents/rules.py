"""All rules of incidents, one row each: what it needs, and what finds it; and all incidents of a capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyarrow import dataset as ds

from kafkascope.reports.columns.faults import fault
from kafkascope.reports.columns.words import nanoseconds
from kafkascope.reports.findings.alike import together
from kafkascope.reports.incidents.brokers import (
    absent,
    brokers,
    coordinators,
    lost_records,
    registrations,
    same_address,
    storage,
)
from kafkascope.reports.incidents.clients import (
    clients,
    fencing,
    impatient,
    oversized,
    requests,
    too_old,
    transactions,
    turned_away,
    unconfirmed,
)
from kafkascope.reports.incidents.incident import Incident, incident_table, told_with_causes
from kafkascope.reports.incidents.members import (
    awaited,
    broke_off,
    halted,
    joins,
    members,
    no_protocol,
    paused,
    restarts,
    shared_groups,
    slow,
    slow_leaders,
    stopped,
    stuck,
    waited_for,
)
from kafkascope.reports.incidents.network import (
    connects,
    cut_off,
    encrypted_storms,
    handshakes,
    names,
    network,
    paths,
    unread,
)
from kafkascope.reports.incidents.planned import deployments, offsets, on_demand, planned
from kafkascope.reports.incidents.positions import forgotten, given_up, lag, lost_positions, new_partitions, passed_over
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import MOST_ROWS
from kafkascope.reports.rows.connection_table import issue_table
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.sniffer.issues import Issue


@dataclass(frozen=True, slots=True)
class Rule:
    """What tells some kinds of incidents."""

    kinds: frozenset[IncidentKind]
    find: Callable[[Signs], Iterator[Incident]]


def _rule(find: Callable[[Signs], Iterator[Incident]], *kinds: IncidentKind) -> Rule:
    return Rule(frozenset(kinds), find)


RULES: tuple[Rule, ...] = (
    _rule(
        brokers.incidents,
        IncidentKind.BROKER_DOWN,
        IncidentKind.BROKER_RESTARTED,
        IncidentKind.BROKER_STALLED,
        IncidentKind.ADDRESS_TAKEN,
    ),
    _rule(absent.absent, IncidentKind.BROKER_DOWN),
    _rule(registrations.refused, IncidentKind.BROKER_REFUSED),
    _rule(storage.failed, IncidentKind.STORAGE_FAILED),
    _rule(coordinators.missing, IncidentKind.COORDINATOR_MISSING, IncidentKind.UNREACHABLE_LISTENER),
    _rule(
        members.lost,
        IncidentKind.CLIENT_DIED,
        IncidentKind.CLIENT_FROZEN,
        IncidentKind.CLIENT_UNREACHABLE,
        IncidentKind.CLIENT_DEPLOY,
    ),
    _rule(awaited.awaited, IncidentKind.CLIENT_DIED, IncidentKind.CLIENT_FROZEN, IncidentKind.CLIENT_UNREACHABLE),
    _rule(paused.paused, IncidentKind.CLIENT_FROZEN),
    _rule(slow.slow, IncidentKind.SLOW_PROCESSING),
    _rule(slow.locks, IncidentKind.SLOW_PROCESSING),
    _rule(slow.revoking, IncidentKind.SLOW_REVOCATION),
    _rule(waited_for.waited_for, IncidentKind.SLOW_REVOCATION),
    _rule(slow_leaders.waited_for, IncidentKind.SLOW_REVOCATION),
    _rule(joins.refused, IncidentKind.JOIN_REFUSED),
    _rule(joins.not_stored, IncidentKind.JOIN_REFUSED),
    _rule(no_protocol.not_offered, IncidentKind.JOIN_REFUSED),
    _rule(shared_groups.shared, IncidentKind.GROUP_SHARED),
    _rule(shared_groups.clusters_of_connect, IncidentKind.GROUP_SHARED),
    _rule(network.losses, IncidentKind.NETWORK_LOSS),
    _rule(paths.blocked, IncidentKind.PATH_BLOCKED, IncidentKind.CONNECTION_DROPPED, IncidentKind.CLIENT_UNREACHABLE),
    _rule(cut_off.hosts_cut_off, IncidentKind.CLIENT_UNREACHABLE),
    _rule(cut_off.brokers_cut_off, IncidentKind.BROKER_DOWN),
    _rule(network.delays, IncidentKind.NETWORK_DELAY),
    _rule(requests.refusals, IncidentKind.UNKNOWN_TOPIC, IncidentKind.RECORD_TOO_LARGE, IncidentKind.TOO_FEW_REPLICAS),
    _rule(oversized.closed_at, IncidentKind.RECORD_TOO_LARGE),
    _rule(requests.refused_for_good, IncidentKind.REQUEST_REFUSED),
    _rule(unconfirmed.refused, IncidentKind.REQUEST_REFUSED),
    _rule(given_up.given_up, IncidentKind.RECORDS_GIVEN_UP),
    _rule(lost_records.lost, IncidentKind.RECORDS_LOST),
    _rule(lost_positions.offsets_lost, IncidentKind.OFFSETS_LOST),
    _rule(passed_over.passed_over, IncidentKind.OFFSETS_LOST),
    _rule(new_partitions.begun_late, IncidentKind.OFFSETS_LOST),
    _rule(forgotten.offsets_forgotten, IncidentKind.OFFSETS_LOST),
    _rule(
        clients.told,
        IncidentKind.AUTHENTICATION_FAILED,
        IncidentKind.AUTHORIZATION_FAILED,
        IncidentKind.THROTTLED,
        IncidentKind.CONNECTION_STORM,
    ),
    _rule(encrypted_storms.storms, IncidentKind.CONNECTION_STORM),
    _rule(impatient.incidents, IncidentKind.TIMEOUT_TOO_SHORT),
    _rule(turned_away.turned_away, IncidentKind.AUTHENTICATION_FAILED, IncidentKind.TURNED_AWAY),
    _rule(too_old.too_old, IncidentKind.CLIENT_TOO_OLD),
    _rule(too_old.without_codec, IncidentKind.CLIENT_TOO_OLD),
    _rule(transactions.hung, IncidentKind.HUNG_TRANSACTION),
    _rule(transactions.overdue, IncidentKind.HUNG_TRANSACTION),
    _rule(fencing.shared, IncidentKind.PRODUCER_FENCED),
    _rule(fencing.fenced, IncidentKind.PRODUCER_FENCED),
    _rule(requests.waiting_for_replicas, IncidentKind.TOO_FEW_REPLICAS),
    _rule(stuck.stuck, IncidentKind.CONSUMER_STUCK),
    _rule(stuck.restarting, IncidentKind.CONSUMER_STUCK),
    _rule(broke_off.broke_off, IncidentKind.CONSUMER_STUCK),
    _rule(restarts.restarting, IncidentKind.CLIENT_RESTARTING),
    _rule(stopped.stopped, IncidentKind.APPLICATION_STOPPED),
    _rule(halted.halted, IncidentKind.CONSUMER_STUCK),
    _rule(lag.lagging, IncidentKind.CONSUMER_LAGGING),
    _rule(connects.listeners, IncidentKind.UNREACHABLE_LISTENER),
    _rule(connects.nowhere, IncidentKind.UNREACHABLE_LISTENER),
    _rule(connects.mute, IncidentKind.UNREACHABLE_LISTENER),
    _rule(unread.closed, IncidentKind.UNREACHABLE_LISTENER),
    _rule(same_address.incidents, IncidentKind.UNREACHABLE_LISTENER),
    _rule(names.unresolved, IncidentKind.UNREACHABLE_LISTENER),
    _rule(connects.mismatched, IncidentKind.TLS_MISMATCH),
    _rule(handshakes.failed, IncidentKind.TLS_FAILED),
    _rule(planned.changes, IncidentKind.ADMIN_ACTION),
    _rule(on_demand.made, IncidentKind.ADMIN_ACTION),
    _rule(offsets.offsets_set, IncidentKind.ADMIN_ACTION),
    _rule(planned.removals, IncidentKind.ADMIN_ACTION),
    _rule(planned.migrations, IncidentKind.GROUP_MIGRATED),
    _rule(deployments.deployments, IncidentKind.CLIENT_DEPLOY),
    _rule(deployments.took_over, IncidentKind.CLIENT_DEPLOY, IncidentKind.CLIENT_DIED),
)

NEEDED = frozenset(
    {
        "batches",
        "cluster_events",
        "connections",
        "error_histogram",
        "errors",
        "exchanges",
        "findings",
        "forgotten_commits",
        "group_events",
        "issues",
        "lag",
        "latency",
        "partitions",
        "rebalances",
        "rereads",
        "silences",
        "tcp_health",
        "throughput",
    }
)
"""Tables that rules look at."""


def conclusions(tables: Mapping[str, ds.Dataset], summary: Mapping[str, Any]) -> dict[str, pa.Table]:
    """Incidents of a capture out of its tables and its summary, and issues that were met, if any.

    A table that is not there is taken for empty. Findings are those of each client; incidents name those that
    they explain as they are called when those alike are one. A fault costs the incidents of one rule.
    """
    pa.default_memory_pool().release_unused()  # of what views needed: see `views.guarded`
    signs = Signs(tables, nanoseconds(summary.get("last")) or 0, nanoseconds(summary.get("first")) or 0)
    found: list[Incident] = []
    issues: list[Issue] = []
    for rule in RULES:
        try:
            made = list(rule.find(signs))
            if made:
                incident_table(made)  # so that what no table can hold is a fault of this rule alone
            found += made
        except Exception as error:
            issues.append(Issue(INTERNAL_ERROR, f"incidents {', '.join(sorted(rule.kinds))}: {fault(error)}"))
    found = told_with_causes(found)
    issues += [Issue("too_many_rows", f"{name}: the first {MOST_ROWS:,}") for name in sorted(signs.left_out)]
    if (findings := tables.get("findings")) is not None:
        parts = together(findings.to_table()).parts
        whole_of = {part: whole for whole, of_clients in parts.items() for part in of_clients}
        found = [_with_alike(one, parts, whole_of) for one in found]
    return {"incidents": incident_table(found)} | ({"issues": issue_table(issues)} if issues else {})


def _with_alike(incident: Incident, parts: Mapping[str, frozenset[str]], whole_of: Mapping[str, str]) -> Incident:
    """Findings that are part of one about many clients: it stands for them if the incident explains all of them."""
    candidates = {whole_of[one] for one in incident.findings if one in whole_of}
    whole = {one for one in candidates if parts[one] <= incident.findings}
    return replace(incident, findings=frozenset(one for one in incident.findings if one not in whole_of) | whole)
