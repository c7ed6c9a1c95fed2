"""Brokers that cannot use a disk: what they answer for partitions on it, and what they tell the controller."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.columns.text import client_name, counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.brokers.registrations import wanted_ids
from kafkascope.reports.incidents.costs import lost_by
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.incidents.who_is_who import Node
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_EXPLAINED = ("leader_changed", "error_loop", "sent_again", "metadata_storm", "coordinator_moved", "commit_refused")
# Events by which it is known, and what they say.
_BY_ITSELF = "log_dirs_offline"
_SAYS = {
    _BY_ITSELF: "it told the controller that it cannot use log directory {detail}",
    "replica_offline": "{told_by} tells that its replicas are offline, though it is there",
}
_ADVICE = (
    "Look at the broker's disks (df, dmesg) and at its log (LogDirFailureChannel): a file system that is full, "
    "read-only or broken. A log directory that has failed stays out of use until the broker is started again; until "
    "then its partitions have a replica less."
)
_NOT_ITSELF = (
    "If that log has nothing of it: others told this of it, and not the broker itself. Another process that is started "
    "with its node id makes the controller believe so, too (DUPLICATE_BROKER_REGISTRATION in its log)."
)


def failed(signs: Signs) -> Iterator[Incident]:
    """Brokers of which a log directory has failed."""
    errors: dict[tuple[Node | str, int], list[Row]] = defaultdict(list)  # by broker, and how often it had come back
    events: dict[tuple[Node | str, int], list[Row]] = defaultdict(list)
    hosts: dict[tuple[Node | str, int], str] = {}
    twice = signs.once(wanted_ids)  # what is told of their replicas may be of either
    for row in signs.errors:
        if row["error"] == Error.KAFKA_STORAGE_ERROR and row["broker"]:
            host = signs.where(row["broker"])
            key = _life(signs, host, row["first"])
            errors[key].append(row)
            hosts.setdefault(key, host)
    for row in signs.events:
        if row["event"] in _SAYS and row["host"]:
            host = signs.where(row["host"])
            by_others = row["event"] != _BY_ITSELF
            if by_others and (str(row["node_id"]) in twice or _is_shut_down(signs, host, row["at"])):
                continue
            key = _life(signs, host, row["at"])
            events[key].append(row)
            hosts.setdefault(key, host)
    for key, host in sorted(hosts.items(), key=lambda one: (one[1], one[0][1])):
        yield _failed(signs, host, errors[key], events[key])


def _is_shut_down(signs: Signs, host: str, at: int) -> bool:
    """Whether a broker was about to go in an orderly way: with ZooKeeper, its replicas are offline from then on."""
    takes = threshold("shutdown_takes") * SECOND_NS
    node = signs.node(host, at) or host
    return any(
        one.gone
        and one.orderly
        and one.started - takes <= at <= one.started + SECOND_NS
        and (signs.node(one.host, one.started) or one.host) == node
        for one in signs.once(outages)
    )


def _life(signs: Signs, host: str, at: int) -> tuple[Node | str, int]:
    """A broker, and how often it had come back by then: a log directory that failed is tried again at each start."""
    node = signs.node(host, at)
    mine = [
        one
        for one in signs.once(outages)
        if one.gone and (signs.node(one.host, one.started) or one.host) == (node or host)
    ]
    return node or host, sum(one.ended is not None and one.ended <= at for one in mine)


def _failed(signs: Signs, host: str, errors: Sequence[Row], events: Sequence[Row]) -> Incident:
    since = min([*(row["first"] for row in errors), *(row["at"] for row in events)])
    again = next((one for one in signs.once(outages) if one.host == host and one.gone and one.started > since), None)
    ended = None if again is None else again.started
    count = sum(row["count"] for row in errors)
    names = sorted({row["client_id"] for row in errors if row["client_id"]})
    last = max((row["last"] for row in errors), default=since)
    partitions = {
        f"{row['topic']}-{row['partition']}" for row in errors if row["topic"] and row["partition"] is not None
    }
    until = since + int(threshold("outage_after") * SECOND_NS)
    moved, out_of_sync = lost_by(signs, signs.node(host, since), since, until)
    partitions |= out_of_sync.union(*(row["partitions"] or () for row in events))
    effects = []
    if count:
        text = f"{counted(count, 'request')} of {listed(names or ['clients'])} failed"
        effects.append(Effect("requests", text, count, (last - since) / MILLISECOND_NS))
    if moved:
        effects.append(Effect("leaders", f"{counted(moved, 'leader')} moved to other brokers", moved))
    by_itself = bool(errors) or any(row["event"] == _BY_ITSELF for row in events)
    about = f": its replicas of {in_words(partitions, 6)} are offline" if partitions else ""
    went = f", and it went away at {clock(ended)}" if ended is not None and ended - since < 60 * SECOND_NS else ""
    return Incident(
        kind=IncidentKind.STORAGE_FAILED,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN if by_itself else Certainty.LIKELY,
        subjects=signs.broker(host, since),
        started=since,
        ended=ended,
        headline=f"{signs.broker_words(host, since)} cannot use a log directory since {clock(since)}{about}{went}"
        + outcome(effects),
        evidence=tuple(_evidence(errors, events)),
        advice=_ADVICE if by_itself else f"{_ADVICE} {_NOT_ITSELF}",
        cost_ms=(last - since) / MILLISECOND_NS,
        effects=tuple(effects),
        findings=signs.explained(_EXPLAINED, since, last, clients=names),
    )


def _evidence(errors: Sequence[Row], events: Sequence[Row]) -> Iterator[Weighed]:
    for row in events:
        yield Weighed(_SAYS[row["event"]].format(**row), row["packet"], row["at"], 0.9)
    for row in errors:
        text = (
            f"{row['api']} of {client_name(row['client_id'])} answered {row['error']}, {counted(row['count'], 'time')}"
        )
        yield Weighed(text, row["first_packet"], row["first"], 0.9)
