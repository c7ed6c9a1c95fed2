"""Findings about who comes into a group: whether it may, under which name, and whether there is work for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.findings.finding import Finding, Observation
from kafkascope.reports.findings.group import MOST_SAID, Group, group_finding, observed
from kafkascope.reports.groups.body import rows
from kafkascope.reports.groups.messages import Message
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.thresholds import threshold

_ONE_TOPOLOGY = (
    "All instances with one application.id must have one topology: give another application an application.id of its "
    "own. To change the topology of one, stop all of its instances, and delete the group (kafka-streams-groups "
    "--delete) or take a new application.id."
)
_REFUSED_JOINS: dict[str, tuple[str, str, str]] = {
    Error.INCONSISTENT_GROUP_PROTOCOL: (
        "no_common_assignor",
        "has no assignor (or protocol type) in common with the others",
        "Give all members one partition.assignment.strategy in common; to change it, roll twice: first with both, then "
        "with the new one alone.",
    ),
    Error.UNSUPPORTED_ASSIGNOR: (
        "no_common_assignor",
        "asks for an assignor that the broker does not have",
        "Set group.remote.assignor to one that the broker names (uniform, range), or leave it out.",
    ),
    Error.INVALID_SESSION_TIMEOUT: (
        "join_refused",
        "asks for a session timeout that the broker does not allow",
        "Keep session.timeout.ms between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms.",
    ),
    Error.GROUP_MAX_SIZE_REACHED: (
        "join_refused",
        "finds the group full",
        "Raise the broker's group.max.size, or start fewer members.",
    ),
    Error.GROUP_AUTHORIZATION_FAILED: (
        "join_refused",
        "may not read with this group",
        "Give its principal READ on the group.",
    ),
    Error.INVALID_REGULAR_EXPRESSION: (
        "join_refused",
        "subscribes with a pattern that the broker cannot read",
        "The broker uses RE2 (KIP-848): look-ahead and back references do not work there.",
    ),
    Error.GROUP_ID_NOT_FOUND: (
        "join_refused",
        "comes with another protocol than the group has, which is of another type",
        "Give share groups, Streams applications and consumers a group.id each: one id cannot be used by two of these "
        "types while the group is there, be it only with committed offsets.",
    ),
    Error.UNSUPPORTED_VERSION: (
        "join_refused",
        "comes with a group protocol that the broker does not have, or has switched off",
        "See group.coordinator.rebalance.protocols of the brokers and the features of the cluster (kafka-features.sh "
        "describe), or set group.protocol=classic.",
    ),
    Error.INVALID_REQUEST: (
        "join_refused",
        "asks for what the broker takes to be wrong",
        "See what the broker says of it.",
    ),
    Error.STREAMS_INVALID_TOPOLOGY: (
        "join_refused",
        "comes with a topology that the broker takes to be wrong",
        _ONE_TOPOLOGY,
    ),
    Error.STREAMS_INVALID_TOPOLOGY_EPOCH: (
        "join_refused",
        "comes with a topology epoch that the broker takes to be wrong",
        _ONE_TOPOLOGY,
    ),
    Error.STREAMS_TOPOLOGY_FENCED: (
        "join_refused",
        "comes with an older topology than the group has",
        _ONE_TOPOLOGY,
    ),
}
_NO_SHARE_GROUPS = (
    "Share groups are a feature of the cluster: kafka-features.sh describe shows share.version, and upgrade --feature "
    "share.version=1 switches it on (KIP-932; brokers from 4.1 on)."
)
NO_STREAMS_GROUPS = (
    "This protocol is a feature of the cluster: kafka-features.sh describe shows streams.version, and upgrade "
    "--feature streams.version=1 switches it on (KIP-1071; brokers from 4.1 on). Or set group.protocol=classic."
)
_ADVICE_BY_API: dict[tuple[str, str], str] = {
    (Error.INVALID_REQUEST, "StreamsGroupHeartbeat"): _ONE_TOPOLOGY,
    (Error.UNSUPPORTED_VERSION, "ShareGroupHeartbeat"): _NO_SHARE_GROUPS,
    (Error.UNSUPPORTED_VERSION, "StreamsGroupHeartbeat"): NO_STREAMS_GROUPS,
}
"""Where it is another one than that of the error."""
_ALSO_OF_MEMBERS = frozenset({Error.GROUP_ID_NOT_FOUND, Error.INVALID_REQUEST})
_SAID_MORE_OF = frozenset({Error.INVALID_REQUEST, Error.STREAMS_INVALID_TOPOLOGY, Error.STREAMS_INVALID_TOPOLOGY_EPOCH})
_INSTANCE_ERRORS = frozenset({Error.FENCED_INSTANCE_ID, Error.UNRELEASED_INSTANCE_ID})
_GENERATIONS = frozenset({"JoinGroup", "SyncGroup"})
JOINS = frozenset({"JoinGroup", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"})


def instance_ids(group: Group) -> Iterator[Finding]:
    """Instance ids that several processes use, or that one wants which the process before it has not given up."""
    refused = [m for m in group.log.messages if m.error in _INSTANCE_ERRORS]
    heard: dict[str, int] = {}
    for message in group.log.messages if refused else ():
        if member := _member(message):
            heard[member] = max(heard.get(member, 0), message.over)
    by_instance: dict[str, list[Message]] = defaultdict(list)
    for message in refused:
        instance = message.request.get("groupInstanceId") or message.request.get("instanceId") or "?"
        by_instance[instance].append(message)
    for instance, messages in sorted(by_instance.items()):
        used = [m for m in group.log.messages if _instance(m) == instance]
        had: dict[str, int] = {}  # members that had it, and since when
        for message in used:
            if message.error not in _INSTANCE_ERRORS and (member := _member(message)):
                had.setdefault(member, message.at)
        taken: list[Message] = []
        kept: list[Message] = []
        for message in messages:
            is_taken = message.error == Error.FENCED_INSTANCE_ID or _is_in_use(had, heard, message)
            (taken if is_taken else kept).append(message)
        if taken:
            yield _shared(group, instance, used, taken)
        if kept:
            yield _not_given_up(group, instance, kept)


def _shared(group: Group, instance: str, used: list[Message], refused: list[Message]) -> Finding:
    users = sorted({f"{m.client_id or '?'} ({m.client})" for m in used})
    return group_finding(
        group,
        Severity.CRITICAL,
        "instance_id_shared",
        f"Instance id {instance} is used by more than one process: {', '.join(users)}",
        [_refusal(m) for m in refused],
        "Give each process a group.instance.id of its own. In the classic protocol the older one is fenced and "
        "ends; in a KIP-848 group the newer one is refused until the older has gone.",
        0.8,
        clients=[m.client_id for m in refused],
    )


def _not_given_up(group: Group, instance: str, refused: list[Message]) -> Finding:
    names = sorted({m.client_id or "?" for m in refused})
    return group_finding(
        group,
        Severity.WARNING,
        "join_refused",
        f"{listed(names)} may not join yet: instance id {instance} was not given up by the process that had it",
        [_refusal(m) for m in refused],
        "In a KIP-848 group the id of a process that was killed, or did not close its consumer, is free when "
        "its session has timed out (group.consumer.session.timeout.ms): close consumers on SIGTERM, and have "
        "who starts processes anew try for as long. If the one before lives, see whether two have one "
        "group.instance.id.",
        0.6,
        clients=[m.client_id for m in refused],
    )


def _is_in_use(had: Mapping[str, int], heard: Mapping[str, int], refusal: Message) -> bool:
    """Whether a member that had an instance id is heard of behind a refusal of another one with that id.

    had, heard: since when members had it, and when they are heard of for the last time.
    """
    mine, until = _member(refusal), refusal.answered or refusal.at
    return any(since < refusal.at and member != mine and heard[member] > until for member, since in had.items())


def _member(message: Message) -> str | None:
    member: str | None = message.request.get("memberId") or message.response.get("memberId")
    return member


def _refusal(message: Message) -> Observation:
    return observed(message, f"{message.api} of {message.client_id or '?'} ({message.client}) answered {message.error}")


def _instance(message: Message) -> str | None:
    if message.api not in JOINS and message.api != "SyncGroup":
        return None
    instance: str | None = message.request.get("groupInstanceId") or message.request.get("instanceId")
    return instance


def joins_refused(group: Group) -> Iterator[Finding]:
    """Clients that may not join, whatever they do."""
    by_cause: dict[tuple[str, str | None], list[Message]] = defaultdict(list)
    for message in group.log.messages:
        if message.api in JOINS and message.error in _REFUSED_JOINS and _comes(message):
            by_cause[message.error, message.client_id].append(message)
    for (error, client), messages in sorted(by_cause.items(), key=lambda item: item[1][0].at):
        kind, what, advice = _REFUSED_JOINS[error]
        advice = _ADVICE_BY_API.get((error, messages[0].api), advice)
        yield group_finding(
            group,
            Severity.CRITICAL,
            kind,
            f"{client or '?'} cannot join: it {what}{_said(messages[0])}",
            [observed(m, f"{m.api} answered {error}{_offered(m)}") for m in messages],
            advice,
            0.7,
            clients=[client],
        )


def configurations_apart(group: Group) -> Iterator[Finding]:
    """Workers of Connect that join again and again, as their configuration does not become that of the assignment."""
    given: dict[str, int] = {}  # by member: where the configuration stands of which it was given work
    found: dict[tuple[str, int], list[tuple[Message, int]]] = defaultdict(list)
    for message in group.log.messages:
        member = message.request.get("memberId") if message.api in _GENERATIONS and not message.error else None
        if not member:
            continue
        if message.api == "SyncGroup":
            if (offset := _config_offset(message.response.get("assignment"))) is not None:
                given[member] = offset
        elif member in given:
            told = next((_config_offset(each.get("metadata")) for each in rows(message.request.get("protocols"))), None)
            if told is not None and told != given[member]:
                found[message.client_id or "?", told].append((message, given[member]))
    for (client, told), joins in sorted(found.items(), key=lambda item: item[1][0][0].at):
        if len(joins) < threshold("configurations_apart"):
            continue
        first, last = joins[0][0], joins[-1][0]
        yield group_finding(
            group,
            Severity.CRITICAL,
            "configurations_apart",
            f"{client} has the configuration up to offset {told}, and gets work by the one up to {joins[-1][1]}: it "
            f"joined again {counted(len(joins), 'time')}",
            [
                observed(
                    message,
                    f"JoinGroup of {client} ({message.client}) tells offset {told}, after an assignment by {at}",
                )
                for message, at in joins
            ],
            "All workers of one Connect cluster need one config.storage.topic (and offset.storage.topic and "
            "status.storage.topic): where two clusters have one group.id by mistake, give each its own. Where the "
            "topic is the same, see whether it has a single partition, was made anew, and can be read by this worker.",
            len(joins) / (len(joins) + threshold("configurations_apart")),
            (first.at, last.over),
            clients=[client],
        )


def _config_offset(metadata: Any) -> int | None:
    """Up to where a worker of Connect has its configuration, by what it tells, or by what it is given."""
    offset = metadata.get("configOffset") if isinstance(metadata, dict) else None
    return offset if isinstance(offset, int) else None


def _comes(message: Message) -> bool:
    """Whether such an error means that a member may not come; who is one may be told the same for another reason."""
    return message.error not in _ALSO_OF_MEMBERS or message.request.get("memberEpoch") == 0


def _said(message: Message) -> str:
    """What the broker says of an error that tells little by its name."""
    if message.error not in _SAID_MORE_OF:
        return ""
    said = " ".join(str(message.response.get("errorMessage") or "").split())
    return f" ({said[:MOST_SAID].rstrip('.')})" if said else ""


def _offered(message: Message) -> str:
    names = [p.get("name") for p in message.request.get("protocols") or [] if isinstance(p, dict)]
    if message.request.get("serverAssignor"):
        names.append(message.request["serverAssignor"])
    return f"; it offers {', '.join(map(str, names))}" if names else ""
