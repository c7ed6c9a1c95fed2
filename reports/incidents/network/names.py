"""Places of brokers that clients never try: names that do not resolve, or mean themselves, addresses nobody has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import chain

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import OWN_HOSTS, client_name, counted, is_name, without_port
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, every
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_ASKING = frozenset(
    {
        "ApiVersions",
        "SaslHandshake",
        "SaslAuthenticate",
        "Metadata",
        "DescribeCluster",
        "FindCoordinator",
        "InitProducerId",
        "GetTelemetrySubscriptions",
        "PushTelemetry",
    }
)
"""What a client asks any broker, before it knows where those are that it needs."""

_NAMED_TOPICS = r'"topics": \[[^\]]'
_OFF = frozenset({"broker_unlisted", "broker_fenced"})  # events of brokers that are known to be gone
_ADVICE = (
    "Look whether the client's host resolves the name (getent hosts NAME); its log says so, too (Java: "
    "UnknownHostException). Set advertised.listeners to a name that all clients know, or add it to their DNS; clients "
    "inside and outside of a container network need a listener each."
)
_ADVICE_OWN = (
    "Set advertised.listeners of the brokers to an address or a name by which clients reach them: they take what "
    "brokers advertise, whatever bootstrap.servers says. Clients inside and outside of a container network need a "
    "listener each."
)
_ADVICE_NOBODY = (
    "Compare advertised.listeners of the broker with its address. A client sends nothing to an address of its own "
    "network that no host answers for (ARP: ip neigh shows FAILED); if the broker has that address, look for its host."
)


@dataclass(frozen=True, slots=True)
class _Asking:
    """A client that does nothing but ask where brokers are, and is told, again and again."""

    client: str
    client_id: str
    brokers: frozenset[str]  # address:port of those that it asks
    asked: int
    connection: int  # its first one
    since: int  # when that was opened, or the capture began
    until: int

    @property
    def is_often(self) -> bool:
        """Whether it asks so often as none does that has nothing to do."""
        return self.asked * 60 * SECOND_NS >= threshold("asked_in_vain") * (self.until - self.since)


def unresolved(signs: Signs) -> Iterator[Incident]:
    """Names that brokers advertise, and to which clients never connect, though they ask for them again and again.

    A client that cannot resolve a name sends nothing to it: what shows is that it never goes on from the broker that
    it began with. It may have gone where the capture does not see it, unless brokers that it was told of are in sight.
    So with addresses to which nobody sends anything, while clients come back for them again and again: those of some
    brokers, or all of one listener.
    """
    clusters: dict[str | None, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in signs.placing:
        clusters[row["cluster_id"]][str(row["node_id"])].append(row)
    # What was told of brokers, and who is asked for them; None: anybody.
    never_tried: list[tuple[list[Row], set[str] | None]] = []
    for nodes in clusters.values():
        of_each = list(nodes.values())
        if not (
            all(any(_is_elsewhere(row["host"]) for row in rows) for rows in of_each)
            and len({any(row["event"] == "broker_found" for row in rows) for rows in of_each}) == 1
        ):
            of_each = _out_of_sight(signs, of_each)
        tellers = {row["told_by"] for rows in nodes.values() for row in rows}
        if told := [row for rows in of_each for row in rows]:
            never_tried.append((told, tellers if len(clusters) > 1 else None))
        else:
            never_tried += [(rows, {teller}) for teller, rows in _listeners_out_of_sight(signs, nodes.values())]
    asking = _asking_in_vain(signs) if never_tried else []
    for told, asked_at in never_tried:
        mine = [one for one in asking if asked_at is None or not asked_at.isdisjoint(one.brokers)]
        if mine:
            yield _unresolved(signs, told, mine)


def _out_of_sight(signs: Signs, nodes: Sequence[list[Row]]) -> list[list[Row]]:
    """Brokers that are listed at addresses to which nobody sends anything, of a cluster that has others in sight."""
    tried = {broker for _, broker, *_ in signs.parties}
    off = {(row["cluster_id"], row["node_id"]) for row in signs.events if row["event"] in _OFF}
    aside = [
        rows
        for rows in nodes
        if not any(_is_elsewhere(row["host"]) or without_port(row["host"]) in tried for row in rows)
        and not any((row["cluster_id"], row["node_id"]) in off for row in rows)
    ]
    return aside if len(aside) < len(nodes) else []


def _listeners_out_of_sight(signs: Signs, nodes: Iterable[list[Row]]) -> Iterator[tuple[str, list[Row]]]:
    """Listeners that tell no address but such to which nobody sends anything, and that are not told themselves."""
    told: dict[str, list[Row]] = defaultdict(list)
    for row in chain(*nodes):
        if row["event"] == "broker_listed" and row["told_by"]:
            told[row["told_by"]].append(row)
    tried = {broker for _, broker, *_ in signs.parties}
    listed_at = {row["host"] for rows in told.values() for row in rows}
    for teller, rows in sorted(told.items()):
        by_address = not any(_is_elsewhere(row["host"]) for row in rows)
        if by_address and teller not in listed_at and not any(without_port(row["host"]) in tried for row in rows):
            yield teller, rows


def _is_elsewhere(place: str) -> bool:
    """Whether where a connect goes to hangs on the client: by a name, or to its own host."""
    return is_name(without_port(place)) or _is_own_host(place)


def _is_own_host(place: str) -> bool:
    """Whether an address or name is that of whoever uses it."""
    host = without_port(place)
    return host.lower() in OWN_HOSTS if is_name(host) else ip_address(host).is_loopback


def _unresolved(signs: Signs, told: Sequence[Row], asking: Sequence[_Asking]) -> Incident:
    aside = [row for row in told if _is_elsewhere(row["host"])]
    places = sorted({row["host"] for row in aside or told})
    if not aside:
        why = "no host has it in their network, or the capture does not see the way there"
        advice, sure = _ADVICE_NOBODY, Certainty.GUESSED
    elif all(map(_is_own_host, places)):
        why, advice, sure = "to each of them that is its own host", _ADVICE_OWN, Certainty.CERTAIN
    else:
        do = "name does" if len(places) == 1 else "names do"
        why, advice, sure = f"the {do} not seem to resolve there", _ADVICE, Certainty.LIKELY
    since, until = min(one.since for one in asking), max(one.until for one in asking)
    who = listed([f"{client_name(one.client_id)} ({one.client})" for one in asking])
    asked = sum(one.asked for one in asking)
    found = any(row["event"] == "broker_found" for row in told)
    names = sorted({one.client_id for one in asking})
    seen = "others in this capture do" if found else "nobody in this capture does"
    return Incident(
        kind=IncidentKind.UNREACHABLE_LISTENER,
        severity=Severity.CRITICAL,
        certainty=sure,
        subjects=(
            *every(Role.BROKER, sorted({str(row["node_id"]) for row in told})),
            *every(Role.HOST, [*places, *sorted({without_port(place) for place in places})]),
            *(
                Subject(Role.HOST, without_port(broker))
                for broker in sorted({*chain(*(one.brokers for one in asking))})
            ),
            *every(Role.CLIENT, names),
            *every(Role.HOST, sorted({one.client for one in asking})),
        ),
        started=since,
        ended=None,
        headline=f"{who} {'never connected' if aside else 'is not seen to connect'} to {listed(places)}, which brokers "
        f"advertise, though asking for brokers {counted(asked, 'time')} from {clock(since)} to {clock(until)}: {why}",
        evidence=(
            *(
                Weighed(f"told as a broker's address by {row['told_by']}", row["packet"], row["at"], 0.6)
                for row in (aside or told)[:5]
            ),
            *(
                Weighed(
                    f"{client_name(one.client_id)} asked {counted(one.asked, 'time')}, and sent nothing else",
                    one.connection,
                    one.since,
                    0.8,
                )
                for one in asking[:5]
            ),
            Weighed(f"connects to these {'names' if aside else 'addresses'}: {seen}", None, None, 0.5),
        ),
        advice=advice,
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=(Effect("clients", f"{counted(len(asking), 'client')} did no work", len(asking)),),
        findings=signs.explained(("metadata_storm",), since, until, clients=names),
    )


def _asking_in_vain(signs: Signs) -> list[_Asking]:
    """Clients that got no further than to ask for brokers and coordinators, whose answers had no error."""
    where = (pc.field("part") == "total") & pc.field("topic").is_null()
    counts: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    brokers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for batch in signs.batches("latency", ("client", "client_id", "broker", "api", "count"), where):
        sums = batch.group_by(["client", "client_id", "broker", "api"]).aggregate([("count", "sum")])
        for row in sums.to_pylist():
            who = row["client"], row["client_id"]
            counts[who][row["api"]] += row["count_sum"]
            brokers[who].add(row["broker"])
    for row in signs.errors:
        for client in signs.hosts_of.get(row["client_id"] or "", ()):
            if row["api"] in (of_client := counts.get((client, row["client_id"]), {})):
                of_client[row["api"]] -= row["count"]
    failing = {row["client"] for row in signs.failed_connects}
    counts = {who: by_api for who, by_api in counts.items() if who[1] and who[0] not in failing}
    by_topic = _asking_for_topics(signs, {who for who, by_api in counts.items() if by_api.keys() <= _ASKING})
    asked = {who: _asked(by_api, wants=who in by_topic) for who, by_api in counts.items()}
    vain = {who for who, count in asked.items() if count >= threshold("asked_in_vain")}
    first: dict[tuple[str, str], tuple[int, int]] = {}  # connection, and since when it is seen
    until: dict[tuple[str, str], int] = defaultdict(int)
    for row in signs.connections_of(vain) if vain else ():
        who = row["client"], row["client_id"]
        first.setdefault(who, (row["connection"], signs.begin if row["opened"] is None else row["opened"]))
        until[who] = max(until[who], signs.end if row["closed"] is None else row["closed"])
    found = (_Asking(*who, frozenset(brokers[who]), asked[who], *first[who], until[who]) for who in first)
    return sorted((one for one in found if one.is_often), key=lambda one: (one.client_id, one.client))


def _asking_for_topics(signs: Signs, clients: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those that ask so often where certain topics are: to look at a cluster, one asks for all, or for none."""
    counts: dict[int, int] = defaultdict(int)
    where = among("client_id", sorted({client_id for _, client_id in clients})) & (pc.field("api") == "Metadata")
    for batch in signs.batches("exchanges", ("connection", "request"), where) if clients else ():
        named = batch.filter(pc.fill_null(pc.match_substring_regex(batch["request"], _NAMED_TOPICS), False))
        for row in named.group_by("connection").aggregate([("request", "count")]).to_pylist():
            counts[row["connection"]] += row["request_count"]
    found: dict[tuple[str, str], int] = defaultdict(int)
    for number, row in signs.connections_by_number(sorted(counts)).items():
        found[row["client"], row["client_id"]] += counts[number]
    return {who for who, count in found.items() if count >= threshold("asked_in_vain")}


def _asked(by_api: Mapping[str, int], *, wants: bool) -> int:
    """How often a client asked that wants to work and does not, by how often it used each API; 0: it is another one."""
    located, begun = by_api.get("FindCoordinator", 0), by_api.get("InitProducerId", 0)
    wants |= located >= threshold("coordinator_asked") or begun > 0
    return by_api.get("Metadata", 0) + located if wants and by_api.keys() <= _ASKING else 0
