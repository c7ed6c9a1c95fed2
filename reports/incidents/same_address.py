"""Brokers of one cluster that advertise one address: who wants one of them reaches another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted, without_port
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import Row, Signs
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_EXPLAINED = (
    "leader_changed",
    "coordinator_moved",
    "sent_again",
    "unanswered",
    "error_loop",
    "connection_churn",
    "api_versions_storm",
    "metadata_storm",
    "idle_polling",
)


@dataclass(frozen=True, slots=True)
class Shared:
    """An address that one answer gave for several brokers, with what was said there of others that lead."""

    place: str  # address:port, or name:port
    node_ids: list[str]
    told: Row  # event
    errors: list[Row]

    @property
    def clients(self) -> list[str]:
        """Client ids of those who were sent away there."""
        return sorted({row["client_id"] for row in self.errors if row["client_id"]})


def shared(signs: Signs) -> list[Shared]:
    """All of them at which clients are sent away again and again."""
    at_once: dict[tuple[str, str, int], dict[str, Row]] = defaultdict(dict)
    for row in signs.placing:
        if row["event"] == "broker_listed":
            at_once[row["host"], row["told_by"], row["packet"]][str(row["node_id"])] = row
    places: dict[str, dict[str, Row]] = {}
    for (place, *_), nodes in at_once.items():
        if len(nodes) > 1:
            places.setdefault(place, nodes)
    found = []
    for place, nodes in sorted(places.items()):
        errors = [row for row in signs.stale_leaders if row["broker"] == place]
        if sum(row["count"] for row in errors) >= threshold("shared_address"):
            found.append(Shared(place, sorted(nodes), nodes[min(nodes)], sorted(errors, key=_first)))
    return found


def _first(error: Row) -> int:
    return int(error["first"])


def incidents(signs: Signs) -> Iterator[Incident]:
    """An incident for each of them."""
    for one in signs.once(shared):
        yield _incident(signs, one)


def _incident(signs: Signs, one: Shared) -> Incident:
    since, until = one.errors[0]["first"], max(row["last"] for row in one.errors)
    count = sum(row["count"] for row in one.errors)
    names = one.clients
    told = listed(sorted({row["error"] for row in one.errors}))
    effects = (
        Effect(
            "requests",
            f"{counted(count, 'request')} of {listed(names or ['clients'])} answered {told}",
            count,
            (until - since) / MILLISECOND_NS,
        ),
    )
    return Incident(
        kind=IncidentKind.UNREACHABLE_LISTENER,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=(
            *(Subject(Role.BROKER, node_id) for node_id in one.node_ids),
            *(Subject(Role.HOST, place) for place in (one.place, without_port(one.place))),
            *(Subject(Role.CLIENT, name) for name in names),
        ),
        started=since,
        ended=None if signs.end - until < threshold("one_trouble") * SECOND_NS else until,
        headline=f"brokers {listed(one.node_ids)} advertise one address, {one.place}: who wants one of them reaches "
        f"another, from {clock(since)} on" + outcome(effects),
        evidence=(
            Weighed(
                f"one answer of {one.told['told_by']} gives it for brokers {listed(one.node_ids)}",
                one.told["packet"],
                one.told["at"],
                0.9,
            ),
            *_evidence(one.errors),
        ),
        advice="Give each broker an address, or a port, of its own in advertised.listeners: a client connects to the "
        "very broker that leads a partition or coordinates its group. A load balancer may stand in bootstrap.servers, "
        "not in what brokers advertise; where settings are copied from broker to broker, look at this one.",
        cost_ms=(until - since) / MILLISECOND_NS * max(len(names), 1),
        effects=effects,
        findings=signs.explained(_EXPLAINED, since, until, clients=names),
    )


def _evidence(errors: Sequence[Row]) -> Iterator[Weighed]:
    for row in errors[:8]:
        text = f"{row['api']} of {row['client_id']} answered {row['error']} there, {counted(row['count'], 'time')}"
        yield Weighed(text, row["first_packet"], row["first"], 0.8)
