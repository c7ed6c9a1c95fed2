"""Brokers of one cluster that advertise one address: who wants one of them reaches another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby

from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import client_name, counted, is_name, without_port
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed, every
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
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
_LISTS = ("broker_listed", "broker_back")


@dataclass(frozen=True, slots=True)
class Shared:
    """An address that is listed for several brokers at once, with what was said there of others that lead."""

    place: str  # address:port, or name:port
    told: dict[str, Row]  # events, by node id
    errors: list[Row]  # by time

    @property
    def node_ids(self) -> list[str]:
        """The brokers, in order."""
        return sorted(self.told)

    @property
    def clients(self) -> list[str]:
        """Client ids of those who were sent away there."""
        return sorted({row["client_id"] for row in self.errors if row["client_id"]})


def shared(signs: Signs) -> list[Shared]:
    """All of them at which clients are sent away again and again."""
    found = []
    listed_at = {row["host"] for row in signs.placing}
    for place, told, since, until in _listed_at_once(signs):
        port = place.rpartition(":")[2] if is_name(without_port(place)) else None  # where a name leads is not told
        errors = [
            row
            for row in signs.stale_leaders
            if (row["broker"] == place if port is None else _is_behind(row["broker"], port, listed_at))
            and row["last"] >= since
            and row["first"] < until
        ]
        if sum(row["count"] for row in errors) >= threshold("shared_address"):
            found.append(Shared(place, told, sorted(errors, key=_first)))
    return sorted(found, key=lambda one: one.place)


def _is_behind(broker: str, port: str, listed_at: Set[str]) -> bool:
    """Whether a name with a port may lead to a broker's address: one that no list has."""
    return broker.rpartition(":")[2] == port and broker not in listed_at


def _listed_at_once(signs: Signs) -> Iterator[tuple[str, dict[str, Row], int, int]]:
    """Addresses of several brokers of a cluster, with what listed them, from when to when.

    A broker may take the address of one that is gone: then the cluster takes that one off the list.
    """
    places: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)  # by cluster and address; by node id
    at: dict[tuple[str, str], str] = {}  # by cluster and node id
    begun: dict[tuple[str, str], tuple[dict[str, Row], int]] = {}
    of_lists = [
        row for row in signs.events if row["event"] in (*_LISTS, "broker_unlisted") and row["node_id"] is not None
    ]
    for (moment, _), events in groupby(of_lists, key=lambda row: (row["at"], row["packet"])):
        touched = dict[tuple[str, str], None]()
        for row in events:
            cluster, node = row["cluster_id"] or "", str(row["node_id"])
            if (before := at.pop((cluster, node), None)) is not None:
                places[cluster, before].pop(node, None)
                touched[cluster, before] = None
            if row["event"] in _LISTS and row["host"]:
                at[cluster, node] = row["host"]
                places[cluster, row["host"]][node] = row
                touched[cluster, row["host"]] = None
        for key in touched:
            if len(nodes := places[key]) > 1:
                begun[key] = {**nodes}, begun[key][1] if key in begun else moment
            elif key in begun:
                told, since = begun.pop(key)
                yield key[1], told, since, moment
    for (_, place), (told, since) in begun.items():
        yield place, told, since, signs.end + 1


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
            *every(Role.BROKER, one.node_ids),
            *every(Role.HOST, (one.place, without_port(one.place))),
            *every(Role.CLIENT, names),
        ),
        started=since,
        ended=None if signs.end - until < threshold("one_trouble") * SECOND_NS else until,
        headline=f"brokers {listed(one.node_ids)} advertise one address, {one.place}: who wants one of them reaches "
        f"another, from {clock(since)} on" + outcome(effects),
        evidence=(
            *(
                Weighed(f"listed as the address of broker {node} by {row['told_by']}", row["packet"], row["at"], 0.9)
                for node, row in sorted(one.told.items())
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
        text = (
            f"{row['api']} of {client_name(row['client_id'])} answered {row['error']} there, "
            f"{counted(row['count'], 'time')}"
        )
        yield Weighed(text, row["first_packet"], row["first"], 0.8)
