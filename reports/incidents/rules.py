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
from kafkascope.reports.incidents import (
    absent,
    awaited,
    brokers,
    clients,
    connects,
    coordinators,
    cut_off,
    deployments,
    fencing,
    forgotten,
    given_up,
    halted,
    handshakes,
    impatient,
    joins,
    lag,
    lost_positions,
    lost_records,
    members,
    names,
    network,
    new_partitions,
    offsets,
    oversized,
    paths,
    paused,
    planned,
    registrations,
    requests,
    restarts,
    same_address,
    shared_groups,
    slow,
    stopped,
    storage,
    stuck,
    too_old,
    transactions,
    turned_away,
    unconfirmed,
    waited_for,
)
from kafkascope.reports.incidents.incident import Incident, incident_table
from kafkascope.reports.incidents.signs import MOST_ROWS, Signs
from kafkascope.reports.rows.connection_table import issue_table
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.issue_kinds import INTERNAL_ERROR
from kafkascope.sniffer.issues import Issue


@dataclass(frozen=True, slots=True)
class Rule:
    """What tells some kinds of incidents."""

    kinds: frozenset[IncidentKind]
    needs: frozenset[str]  # tables
    find: Callable[[Signs], Iterator[Incident]]


def _rule(find: Callable[[Signs], Iterator[Incident]], needs: str, *kinds: IncidentKind) -> Rule:
    return Rule(frozenset(kinds), frozenset(needs.split()), find)


_REPLICATION = "latency exchanges tcp_health issues error_histogram rebalances findings cluster_events connections"
"""What tells what waited for replicas, where brokers have trouble with each other."""

RULES: tuple[Rule, ...] = (
    _rule(
        brokers.incidents,
        "silences connections tcp_health cluster_events findings rebalances group_events error_histogram issues "
        "latency exchanges",
        IncidentKind.BROKER_DOWN,
        IncidentKind.BROKER_RESTARTED,
        IncidentKind.BROKER_STALLED,
        IncidentKind.ADDRESS_TAKEN,
    ),
    _rule(
        absent.absent,
        "silences connections tcp_health cluster_events findings rebalances group_events error_histogram issues "
        "latency exchanges",
        IncidentKind.BROKER_DOWN,
    ),
    _rule(
        registrations.refused,
        "error_histogram connections findings cluster_events latency",
        IncidentKind.BROKER_REFUSED,
    ),
    _rule(
        storage.failed,
        "error_histogram connections findings silences tcp_health cluster_events issues",
        IncidentKind.STORAGE_FAILED,
    ),
    _rule(
        coordinators.missing,
        "error_histogram exchanges group_events connections findings silences tcp_health cluster_events issues "
        "rebalances",
        IncidentKind.COORDINATOR_MISSING,
    ),
    _rule(
        members.lost,
        "rebalances group_events connections tcp_health findings silences cluster_events error_histogram rereads lag "
        "issues",
        IncidentKind.CLIENT_DIED,
        IncidentKind.CLIENT_FROZEN,
        IncidentKind.CLIENT_UNREACHABLE,
    ),
    _rule(
        awaited.awaited,
        "rebalances exchanges group_events connections tcp_health findings silences cluster_events error_histogram "
        "latency rereads lag issues",
        IncidentKind.CLIENT_DIED,
        IncidentKind.CLIENT_FROZEN,
        IncidentKind.CLIENT_UNREACHABLE,
    ),
    _rule(
        paused.paused,
        "findings exchanges connections tcp_health rebalances issues",
        IncidentKind.CLIENT_FROZEN,
    ),
    _rule(slow.slow, "rebalances findings connections", IncidentKind.SLOW_PROCESSING),
    _rule(slow.locks, "error_histogram rebalances connections", IncidentKind.SLOW_PROCESSING),
    _rule(slow.revoking, "rebalances findings connections", IncidentKind.SLOW_REVOCATION),
    _rule(
        waited_for.waited_for, "rebalances group_events exchanges findings connections", IncidentKind.SLOW_REVOCATION
    ),
    _rule(joins.refused, "findings connections", IncidentKind.JOIN_REFUSED),
    _rule(joins.not_stored, "error_histogram rebalances findings connections", IncidentKind.JOIN_REFUSED),
    _rule(shared_groups.shared, "rebalances findings", IncidentKind.GROUP_SHARED),
    _rule(
        shared_groups.clusters_of_connect,
        "rebalances findings connections throughput",
        IncidentKind.GROUP_SHARED,
    ),
    _rule(network.losses, _REPLICATION, IncidentKind.NETWORK_LOSS),
    _rule(
        paths.blocked,
        f"{_REPLICATION} group_events silences",
        IncidentKind.PATH_BLOCKED,
        IncidentKind.CONNECTION_DROPPED,
        IncidentKind.CLIENT_UNREACHABLE,
    ),
    _rule(
        cut_off.hosts_cut_off,
        "rebalances exchanges group_events connections tcp_health findings silences cluster_events error_histogram "
        "latency issues",
        IncidentKind.CLIENT_UNREACHABLE,
    ),
    _rule(network.delays, _REPLICATION, IncidentKind.NETWORK_DELAY),
    _rule(
        requests.refusals,
        "error_histogram errors throughput connections tcp_health findings silences cluster_events issues",
        IncidentKind.UNKNOWN_TOPIC,
        IncidentKind.RECORD_TOO_LARGE,
        IncidentKind.TOO_FEW_REPLICAS,
    ),
    _rule(
        oversized.closed_at,
        "exchanges connections cluster_events findings",
        IncidentKind.RECORD_TOO_LARGE,
    ),
    _rule(
        requests.refused_for_good,
        "error_histogram errors connections cluster_events findings",
        IncidentKind.REQUEST_REFUSED,
    ),
    _rule(
        unconfirmed.refused,
        "exchanges batches connections cluster_events findings",
        IncidentKind.REQUEST_REFUSED,
    ),
    _rule(given_up.given_up, "exchanges partitions connections", IncidentKind.RECORDS_GIVEN_UP),
    _rule(lost_records.lost, "batches exchanges errors connections cluster_events", IncidentKind.RECORDS_LOST),
    _rule(
        lost_positions.offsets_lost,
        "error_histogram exchanges errors partitions connections rebalances findings cluster_events",
        IncidentKind.OFFSETS_LOST,
    ),
    _rule(
        new_partitions.begun_late,
        "rebalances exchanges partitions connections",
        IncidentKind.OFFSETS_LOST,
    ),
    _rule(
        forgotten.offsets_forgotten,
        "forgotten_commits exchanges errors connections rebalances findings cluster_events",
        IncidentKind.OFFSETS_LOST,
    ),
    _rule(
        clients.told,
        f"{_REPLICATION} rereads lag group_events silences batches",
        IncidentKind.AUTHENTICATION_FAILED,
        IncidentKind.AUTHORIZATION_FAILED,
        IncidentKind.THROTTLED,
        IncidentKind.CONNECTION_STORM,
    ),
    _rule(
        impatient.incidents,
        "connections exchanges rebalances findings cluster_events error_histogram group_events rereads lag",
        IncidentKind.TIMEOUT_TOO_SHORT,
    ),
    _rule(
        turned_away.turned_away,
        "exchanges connections findings cluster_events",
        IncidentKind.AUTHENTICATION_FAILED,
        IncidentKind.TURNED_AWAY,
    ),
    _rule(too_old.too_old, "exchanges connections findings cluster_events", IncidentKind.CLIENT_TOO_OLD),
    _rule(too_old.without_codec, "error_histogram connections findings", IncidentKind.CLIENT_TOO_OLD),
    _rule(transactions.hung, "partitions batches connections findings", IncidentKind.HUNG_TRANSACTION),
    _rule(transactions.overdue, "error_histogram exchanges connections findings", IncidentKind.HUNG_TRANSACTION),
    _rule(fencing.shared, "error_histogram exchanges connections findings", IncidentKind.PRODUCER_FENCED),
    _rule(
        requests.waiting_for_replicas,
        "silences exchanges connections tcp_health partitions error_histogram cluster_events findings issues",
        IncidentKind.TOO_FEW_REPLICAS,
    ),
    _rule(stuck.stuck, "rereads lag findings rebalances connections", IncidentKind.CONSUMER_STUCK),
    _rule(
        stuck.restarting,
        "rereads lag group_events rebalances findings connections",
        IncidentKind.CONSUMER_STUCK,
    ),
    _rule(
        restarts.restarting,
        "rereads lag group_events rebalances findings connections exchanges",
        IncidentKind.CLIENT_RESTARTING,
    ),
    _rule(stopped.stopped, "findings rebalances connections", IncidentKind.APPLICATION_STOPPED),
    _rule(
        halted.halted,
        "exchanges connections lag findings rebalances group_events silences",
        IncidentKind.CONSUMER_STUCK,
    ),
    _rule(
        lag.lagging,
        "lag findings rebalances connections exchanges group_events silences latency error_histogram tcp_health issues "
        "cluster_events",
        IncidentKind.CONSUMER_LAGGING,
    ),
    _rule(connects.listeners, "connections cluster_events tcp_health", IncidentKind.UNREACHABLE_LISTENER),
    _rule(connects.nowhere, "connections cluster_events", IncidentKind.UNREACHABLE_LISTENER),
    _rule(
        same_address.incidents,
        "error_histogram connections cluster_events findings",
        IncidentKind.UNREACHABLE_LISTENER,
    ),
    _rule(
        names.unresolved,
        "latency error_histogram connections cluster_events findings",
        IncidentKind.UNREACHABLE_LISTENER,
    ),
    _rule(connects.mismatched, "issues connections cluster_events", IncidentKind.TLS_MISMATCH),
    _rule(handshakes.failed, _REPLICATION, IncidentKind.TLS_FAILED),
    _rule(
        planned.changes,
        "exchanges errors connections cluster_events error_histogram findings rebalances",
        IncidentKind.ADMIN_ACTION,
    ),
    _rule(
        offsets.offsets_set,
        "group_events exchanges errors connections cluster_events lag",
        IncidentKind.ADMIN_ACTION,
    ),
    _rule(planned.removals, "rebalances connections", IncidentKind.ADMIN_ACTION),
    _rule(planned.migrations, "rebalances connections", IncidentKind.GROUP_MIGRATED),
    _rule(deployments.deployments, "rebalances connections", IncidentKind.CLIENT_DEPLOY),
)

NEEDED = frozenset(name for rule in RULES for name in rule.needs)
"""Tables that rules look at."""


def conclusions(tables: Mapping[str, ds.Dataset], summary: Mapping[str, Any]) -> dict[str, pa.Table]:
    """Incidents of a capture out of its tables and its summary, and issues that were met, if any.

    A table that is not there is taken for empty. Findings are those of each client; incidents name those that
    they explain as they are called when those alike are one. A fault costs the incidents of one rule.
    """
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
