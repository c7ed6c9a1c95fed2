"""Brokers that are not there from the beginning of a capture on, of which nothing is heard but what others say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.columns.text import address, address_alone, counted, without_port
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.outage import Outage
from kafkascope.reports.incidents.brokers.outage_costs import leaderless
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.brokers.returns import BACK
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, every
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.incidents.who_is_who import Node
from kafkascope.reports.vocabulary.broker_client_ids import FOLLOWERS, follower_node
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS

_EXPLAINED = ("leader_changed", "metadata_storm", "error_loop", "sent_again", "connection_churn", "consumer_stuck")
_ADVICE = (
    "Look whether this broker should be there, and at its log for why it is not. What has a replica on it alone, or no "
    "other one in sync, is out of reach until it is back; an election of a replica that is not in sync "
    "(kafka-leader-election.sh, unclean) loses what was confirmed. If it was taken out of the cluster for good, move "
    "its replicas to others (kafka-reassign-partitions.sh)."
)


def absent(signs: Signs) -> Iterator[Incident]:
    """Brokers that hold replicas and are on no list, but for those whose outage is told anyway."""
    known: dict[Node | None, list[Outage]] = defaultdict(list)
    for one in signs.once(outages):
        known[signs.node(one.host, one.started)].append(one)
    missing: dict[Node, list[Row]] = defaultdict(list)
    for row in signs.events:
        if row["event"] == "broker_missing":
            missing[Node(row["cluster_id"], str(row["node_id"]))].append(row)
    places = _sought(signs) if len(missing) == 1 else {}
    for node, rows in sorted(missing.items(), key=lambda one: (one[0].cluster_id or "", one[0].id)):
        since = rows[0]["at"]
        back = next(
            (
                row
                for row in signs.events_of(node, since, signs.end + 1)
                if row["event"] in (*BACK, "broker_listed") and str(row["node_id"]) == node.id
            ),
            None,
        )
        until = signs.end if back is None else back["at"]
        if _was_there(signs, node, since):
            continue
        if not any(one.started <= until and since <= one.until(signs.end) for one in known[node]):
            yield _absent(signs, node, rows, back, places if len(places) == 1 else {})


def _was_there(signs: Signs, node: Node, until: int) -> bool:
    """Whether a broker replicated from others before a time, by its client id: its cluster left it out meanwhile."""
    rows = signs.connections(pc.match_substring_regex(pc.field("client_id"), FOLLOWERS))
    return any(follower_node(row["client_id"]) == node.id and (row["opened"] or 0) < until for row in rows)


def _absent(
    signs: Signs, node: Node, rows: Sequence[Row], back: Row | None, sought: Mapping[str, Sequence[Row]]
) -> Incident:
    """The incident; sought are connects that failed, by the one address:port that may be the broker's."""
    since, until = rows[0]["at"], signs.end if back is None else back["at"]
    partitions = {partition: None for row in rows for partition in row["partitions"] or ()}
    led = [
        row
        for row in signs.events_of(node, since, until + 1)
        if row["event"] == "leader_missing"
        and (row["before"] == node.id or (row["before"] is None and partitions.keys() & {*(row["partitions"] or ())}))
    ]
    topics = {partition.rpartition("-")[0] for row in led for partition in row["partitions"] or ()}
    count = sum(row["count"] or 1 for row in rows)
    held = f"{in_words(partitions, 6) or counted(count, 'partition')} {'has' if count == 1 else 'have'} a replica there"
    effects = [leaderless(signs, node, led) if led else Effect("partitions", held, count)]
    failed = [
        row
        for row in signs.errors
        if row["error"] == Error.LEADER_NOT_AVAILABLE
        and row["topic"] in topics
        and row["client_id"]
        and since <= row["last"]
        and row["first"] <= until
    ]
    names = sorted({row["client_id"] for row in failed})
    if failed:
        asked = sum(row["count"] for row in failed)
        text = f"{listed(names)} {'was' if len(names) == 1 else 'were'} told so {counted(asked, 'time')}"
        effects.append(Effect("requests", text, asked, (failed[-1]["last"] - failed[0]["first"]) / MILLISECOND_NS))
    evidence = [
        Weighed(f"{row['told_by']} names it for replicas, and not among the brokers", row["packet"], row["at"], 0.8)
        for row in rows
    ]
    for place, connects in sought.items():
        hosts = sorted({row["client"] for row in connects})
        text = f"{counted(len(connects), 'connect')} of {listed(hosts)} to {place}, which may be it, failed"
        effects.append(Effect("connects", text, len(connects)))
        evidence.append(Weighed(text, connects[0]["connection"], connects[0]["opened"], 0.7))
    if back is not None:
        evidence.append(Weighed(f"it is listed again (told by {back['told_by']})", back["packet"], back["at"], 0.6))
    returned = "has not come back" if back is None else f"was back after {duration((until - since) / MILLISECOND_NS)}"
    return Incident(
        kind=IncidentKind.BROKER_DOWN,
        severity=Severity.CRITICAL if led else Severity.WARNING if back is None else Severity.INFO,
        certainty=Certainty.LIKELY,
        subjects=(
            Subject(Role.BROKER, node.id),
            *(Subject(Role.HOST, one) for place in sought for one in (without_port(place), place)),
            *every(Role.CLIENT, names),
        ),
        started=since,
        ended=None if back is None else back["at"],
        headline=f"broker {node.id} was gone when the capture began, as is told at {clock(since)}, and {returned}"
        f"{outcome(effects)}",
        evidence=tuple(evidence),
        advice=_ADVICE,
        cost_ms=(until - since) / MILLISECOND_NS if led else 0.0,
        effects=tuple(effects),
        findings=signs.explained(_EXPLAINED, since, until, clients=names),
    )


def _sought(signs: Signs) -> dict[str, list[Row]]:
    """Connects that failed at ports of brokers, by places of which nobody tells who is there."""
    ports = {place.rpartition(":")[2] for row in signs.placing if (place := row["host"])}
    found: dict[str, list[Row]] = defaultdict(list)
    for row in signs.failed_connects:
        place = address(row["broker"], row["broker_port"])
        if str(row["broker_port"]) in ports and address_alone(place) not in signs.brokers and row["opened"] is not None:
            found[place].append(row)
    return {place: rows for place, rows in found.items() if len(rows) >= threshold("failed_connects")}
