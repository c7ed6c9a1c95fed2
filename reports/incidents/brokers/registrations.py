"""Brokers that may not join a cluster: the controller refuses them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address_alone, counted, is_name
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.costs import lost_by
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, every
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.incidents.who_is_who import Node
from kafkascope.reports.vocabulary.broker_client_ids import quorum_node
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_ASK = frozenset({"BrokerRegistration", "ControllerRegistration"})
_OF_QUORUM = frozenset({"Fetch", "FetchSnapshot", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "UpdateRaftVoter"})
_REFUSED: dict[str, tuple[str, str]] = {
    Error.DUPLICATE_BROKER_REGISTRATION: (
        "another process with its node id is there",
        "Give each broker a node.id of its own. A copy of a virtual machine or of a volume is the usual cause: stop "
        "it, and check that the right one is in the cluster. After a crash a broker waits for its own session "
        "(broker.session.timeout.ms).",
    ),
    Error.INCONSISTENT_CLUSTER_ID: (
        "it was formatted for another cluster",
        "Compare cluster.id in meta.properties of its log directories with the cluster's, and controller.quorum.* of "
        "its settings: it asks the controllers of one cluster with the data of another.",
    ),
    Error.INCONSISTENT_VOTER_SET: (
        "it has another set of controllers",
        "Compare controller.quorum.voters of all controllers: it must be the same on each.",
    ),
    Error.UNSUPPORTED_VERSION: (
        "it does not support features that the cluster has",
        "Compare its release with the cluster's metadata.version and other features (kafka-features.sh describe): it "
        "is too old for them, or they were never raised.",
    ),
    Error.INVALID_REGISTRATION: (
        "what it says of itself is not valid",
        "Compare its listeners and features with those of the other brokers; the controller's log has the reason.",
    ),
}
_EXPLAINED = ("error_loop", "idle_polling", "connection_churn", "api_versions_storm", "leader_changed", "unanswered")


def refused(signs: Signs) -> Iterator[Incident]:
    """Hosts of which the controller lets no broker in, and that did not come in later."""
    for (host, error), rows in signs.once(_kept_out).items():
        since, until = rows[0]["first"], max(row["last"] for row in rows)
        whose = _whose(signs, host, rows) if error == Error.DUPLICATE_BROKER_REGISTRATION else None
        long = until - since >= threshold("registration_refused") * SECOND_NS
        if error != Error.DUPLICATE_BROKER_REGISTRATION or whose is not None or long:
            yield _refused(signs, host, error, rows, whose)


def wanted_ids(signs: Signs) -> set[str]:
    """Node ids of brokers that other processes want as well, which are kept out."""
    return {
        own_id
        for (_, error), rows in signs.once(_kept_out).items()
        for row in (rows if error == Error.DUPLICATE_BROKER_REGISTRATION else ())
        if (own_id := quorum_node(row["client_id"]))
    }


def _kept_out(signs: Signs) -> dict[tuple[str, str], list[Row]]:
    """Errors by which brokers are kept out of a cluster, by their hosts and the error, since they came in last."""
    found = [
        row
        for row in signs.errors
        if row["error"] in _REFUSED
        and (row["api"] in _ASK or (row["api"] in _OF_QUORUM and row["error"] != Error.UNSUPPORTED_VERSION))
    ]
    registered = [row for row in signs.events if row["event"] in ("broker_registered", "broker_unfenced")]
    numbers = {row["first_connection"] for row in found} | {row["connection"] for row in registered}
    connections = signs.connections_by_number(sorted(numbers)) if found else {}
    came_in: dict[str, int] = {}  # by host: when a broker of it did so for the last time
    for row in registered:
        for host in {address_alone(row["host"] or ""), connections.get(row["connection"], {}).get("client")}:
            came_in[host or ""] = max(came_in.get(host or "", 0), row["at"])
    by_host: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in found:
        if (connection := connections.get(row["first_connection"])) is not None:
            by_host[connection["client"], row["error"]].append(row)
    # Who crashed comes in when its own session from before has ended.
    kept_out = {key: [row for row in rows if came_in.get(key[0], -1) < row["first"]] for key, rows in by_host.items()}
    return {key: rows for key, rows in sorted(kept_out.items()) if rows}


def _whose(signs: Signs, host: str, rows: Sequence[Row]) -> tuple[str, Node] | None:
    """Who has the node id that a broker asked for, where it is at another address: that, and the node."""
    of_id = next((own_id for row in rows if (own_id := quorum_node(row["client_id"]))), None)
    controllers = {signs.node(signs.where(row["broker"]), row["first"]) for row in rows} - {None}
    clusters = {node.cluster_id for node in controllers if node is not None}
    for place, node in sorted(signs.nodes.items()):
        elsewhere = address_alone(place) != host and not is_name(address_alone(place))  # which may be its own
        if node.id == of_id and elsewhere and (not clusters or node.cluster_id in clusters):
            return place, node
    # Where none of the cluster's brokers was asked about them in the capture.
    beats = (pc.field("api") == "BrokerHeartbeat") & (pc.field("client_id") == of_id) & (pc.field("part") == "total")
    hosts = {row["client"] for row in signs.rows("latency", ("client",), beats)} - {host}
    return (min(hosts), Node(None, of_id)) if of_id and hosts else None


def _refused(signs: Signs, host: str, error: str, rows: Sequence[Row], whose: tuple[str, Node] | None) -> Incident:
    since, until = rows[0]["first"], max(row["last"] for row in rows)
    count = sum(row["count"] for row in rows)
    why, advice = _REFUSED[error]
    ids = sorted({own_id for row in rows if (own_id := quorum_node(row["client_id"]))})
    effects = [Effect("requests", f"it asked {counted(count, 'time')}", count)]
    names = [row["client_id"] for row in rows if row["client_id"]]
    if whose is not None:
        place, node = whose
        why = f"{signs.broker_words(place, since)} has its node id"
        moved, out_of_sync = lost_by(signs, node, since - SECOND_NS, until)
        if moved:
            effects.append(Effect("leaders", f"{counted(moved, 'leader')} moved away from that one", moved))
        if out_of_sync:
            text = f"that one fell out of sync of {counted(len(out_of_sync), 'partition')}"
            effects.append(Effect("replicas", text, len(out_of_sync)))
    what = f"broker {listed(ids)} at {host}" if ids else f"a broker at {host}"
    return Incident(
        kind=IncidentKind.BROKER_REFUSED,
        severity=Severity.CRITICAL if len(effects) > 1 else Severity.WARNING,
        certainty=Certainty.LIKELY
        if error == Error.DUPLICATE_BROKER_REGISTRATION and whose is None
        else Certainty.CERTAIN,
        subjects=(
            Subject(Role.HOST, host),
            *every(Role.BROKER, ids),
            *(signs.broker(whose[0], since) if whose is not None else ()),
        ),
        started=since,
        ended=None if signs.end - until < SECOND_NS else until,
        headline=f"{what} may not join the cluster from {clock(since)} to {clock(until)}: {why} ({error})"
        + outcome(effects),
        evidence=tuple(
            Weighed(
                f"{row['api']} of {row['client_id'] or host} answered {error}, {counted(row['count'], 'time')}",
                row["first_packet"],
                row["first"],
                0.9,
            )
            for row in rows
        ),
        advice=advice,
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=tuple(effects),
        findings=signs.explained(_EXPLAINED, since, until, clients=names),
    )
