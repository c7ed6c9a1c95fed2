"""Groups that several applications use: members whose topics have nothing in common."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, pairwise

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.incident import EVIDENCE_SHOWN, Effect, Incident, Subject, Weighed, every, in_words
from kafkascope.reports.incidents.signs import Signs, group_of
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_PROTOCOLS = frozenset({"classic", "consumer"})  # members of the others divide work, whatever they subscribe to
_EXPLAINED = ("rebalance_storm", "eager_assignor", "uneven_assignment")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # no pattern (KIP-848), and no id whose name is not known
_MOST = 8
"""Applications of a group that are looked at, those that were there most."""


@dataclass(frozen=True, slots=True, eq=False)
class Application:
    """Members of a group that have topics or a host in common, each of them with another one.

    A host counts because each listener of a process may be a member of its own, with topics of its own.
    """

    topics: frozenset[str]
    hosts: frozenset[str]
    clients: frozenset[tuple[str, str]]  # client id and host

    @property
    def reads(self) -> str:
        """Its topics, in words."""
        return listed(self.topics, 3)

    @property
    def names(self) -> str:
        """Its clients, in words."""
        return listed({f"{client_id} ({host})" for client_id, host in self.clients}, 3)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A rebalance that a member of one application began, and others had to take part in."""

    row: Row
    by: Application
    others: list[Application]


@dataclass(frozen=True, slots=True)
class Sharing:
    """Applications that were in one group together, of which none took the place of another."""

    group: str
    applications: list[Application]
    more: int  # that were not looked at
    since: int
    until: int | None  # None: to the end of the capture
    disturbances: list[Disturbance]


def shared(signs: Signs) -> Iterator[Incident]:
    """An incident for each such group."""
    for group, rows in groupby(signs.rebalances, key=lambda row: row["group_id"]):
        known = [row for row in rows if row["protocol"] in _PROTOCOLS and row["started"] is not None]
        if (sharing := _sharing(group, known, signs.end)) is not None:
            yield _incident(signs, sharing)


def clusters_of_connect(signs: Signs) -> Iterator[Incident]:
    """Clusters of Connect with one group id: their workers do not have the same configuration; one a group."""
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in signs.findings:
        if row["kind"] == "configurations_apart":
            by_group[group_of(row)].append(row)
    for group, found in sorted(by_group.items()):
        yield _of_connect(signs, group, found)


def _of_connect(signs: Signs, group: str, found: Sequence[Row]) -> Incident:
    names = sorted({name for row in found for name in row["client_ids"]})
    since, until = min(row["since"] for row in found), max(row["until"] for row in found)
    begun = signs.rebalances_of(group, until, since)
    effects, cost_ms, rebalances = of_rebalances(begun)
    lasted = (until - since) / MILLISECOND_NS
    hosts = {name: {*signs.hosts_of.get(name, ())} for name in names}
    others = {
        member["host"]
        for row in signs.rebalances_of(group, until)
        for member in row["members"] or ()
        if member["host"] and member["client_id"] not in hosts
    }
    reads = _read_from(signs, others.union(*hosts.values()))
    own = frozenset().union(*(reads[host] for host in set[str]().union(*hosts.values()) - others))
    theirs = frozenset().union(*(reads[host] for host in others))
    apart = bool(own and theirs) and not own & theirs
    beside = f", and reads {listed(own, 3)} where the others read {listed(theirs, 3)}" if apart else ""
    worst = max(found, key=lambda row: (row["weight"], row["id"]))
    return Incident(
        kind=IncidentKind.GROUP_SHARED,
        severity=Severity.CRITICAL,
        certainty=Certainty.LIKELY if apart else Certainty.GUESSED,
        subjects=(Subject(Role.GROUP, group), *signs.clients(names, signs.heard_of(group))),
        started=since,
        ended=until,
        headline=f"workers of Connect in group {group} do not have one configuration, from {clock(since)} to "
        f"{clock(until)}: {worst['title']}{beside}{in_words(effects)}",
        evidence=tuple(
            Weighed(seen["text"], seen["packet"], seen["at"], 0.8) for row in found for seen in row["evidence"] or ()
        ),
        advice=worst["advice"],
        cost_ms=max(cost_ms, lasted * len(names)),
        effects=(Effect("time", f"{listed(names)} did no work", len(names), lasted), *effects),
        findings=frozenset(row["id"] for row in found)
        | signs.explained(("rebalance_storm", "slow_to_join", "member_lost"), since, until, groups=[group]),
        rebalances=rebalances,
    )


def _read_from(signs: Signs, hosts: Collection[str]) -> dict[str, set[str]]:
    """The topics that each of some hosts fetched."""
    found: dict[str, set[str]] = defaultdict(set)
    where = among("client", hosts) & (pc.field("direction") == "fetch") & pc.field("topic").is_valid()
    for batch in signs.batches("throughput", ("client", "topic"), where):
        for row in batch.group_by(["client", "topic"]).aggregate([]).to_pylist():
            found[row["client"]].add(row["topic"])
    return found


def _sharing(group: str, rows: Sequence[Row], end: int) -> Sharing | None:
    applications = _applications(rows)
    if len(applications) < 2:
        return None
    of = {host: one for one in applications for host in one.hosts}
    present = [Counter(of[member["host"]] for member in row["members"] or () if member["host"] in of) for row in rows]
    ends = [*(row["started"] for row in rows[1:]), end]
    most = Counter(one for counts in present for one in counts).most_common(_MOST)
    found = set[Application]()
    for pair in combinations((one for one, _ in most), 2):
        together = [place for place, counts in enumerate(present) if counts.keys() >= {*pair}]
        lasted = sum(ends[place] - rows[place]["started"] for place in together)
        if together and _shares(pair, present, together, lasted):
            found |= {*pair}
    together = [place for place, counts in enumerate(present) if len(counts.keys() & found) > 1]
    if not together:
        return None
    by_member = {member["member_id"]: of.get(member["host"]) for row in rows for member in row["members"] or ()}
    disturbances = []
    for (_, before), (row, counts) in pairwise(zip(rows, present, strict=True)):
        whose = by_member.get(row["trigger_member"])
        others = [one for one in before.keys() & counts.keys() & found if one != whose]
        if whose is not None and others:
            disturbances.append(Disturbance(row, whose, sorted(others, key=_order)))
    if not disturbances:
        return None
    until = None if together[-1] == len(rows) - 1 else ends[together[-1]]
    more = len(applications) - len(most)
    return Sharing(group, sorted(found, key=_order), more, rows[together[0]]["started"], until, disturbances)


def _applications(rows: Sequence[Row]) -> list[Application]:
    """Who has topics or hosts in common at any time: so who changes his topics is one, before and behind."""
    topics_of: dict[str, set[str]] = defaultdict(set)
    clients_of: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in rows:
        for member in row["members"] or ():
            if member["host"] and member["subscription"] and all(map(_TOPIC.fullmatch, member["subscription"])):
                topics_of[member["host"]].update(member["subscription"])
                clients_of[member["host"]].add((member["client_id"] or member["member_id"], member["host"]))
    hosts_of: dict[str, set[str]] = defaultdict(set)
    for host, topics in topics_of.items():
        for topic in topics:
            hosts_of[topic].add(host)
    found = []
    left = dict.fromkeys(topics_of)
    while left:
        topics, hosts, to_do = set[str](), set[str](), [next(iter(left))]
        while to_do:
            hosts.add(host := to_do.pop())
            left.pop(host, None)
            for topic in topics_of[host] - topics:
                topics.add(topic)
                to_do += hosts_of[topic] - hosts
        clients = frozenset().union(*(clients_of[host] for host in hosts))
        found.append(Application(frozenset(topics), frozenset(hosts), clients))
    return found


def _shares(
    pair: tuple[Application, Application], present: Sequence[Counter[Application]], together: Sequence[int], lasted: int
) -> bool:
    """Whether one came more than once while the other was there, or both were there for long.

    In a deployment one takes the place of the other.
    """
    first, last = together[0], together[-1]
    for stays, comes in (pair, pair[::-1]):
        there = [place for place in range(first, last + 1) if present[place][comes]]
        away = any(after > before + 1 for before, after in pairwise(there))
        if away and all(present[place][stays] for place in range(first, last + 1)):
            return True
    grown = sorted(present[last][one] - present[first][one] for one in pair)
    before = present[first - 1] if first else Counter[Application]()
    after = present[last + 1] if last + 1 < len(present) else Counter[Application]()
    in_turn = any(before[old] and not before[new] and after[new] and not after[old] for old, new in (pair, pair[::-1]))
    return lasted >= threshold("one_trouble") * SECOND_NS and not in_turn and not grown[0] < 0 < grown[1]


def _order(application: Application) -> list[str]:
    return sorted(application.topics)


def _incident(signs: Signs, one: Sharing) -> Incident:
    effects, cost_ms, rebalances = of_rebalances([disturbance.row for disturbance in one.disturbances])
    clients = sorted({client_id for application in one.applications for client_id, _ in application.clients})
    reads = "; ".join(f"{application.names} reads {application.reads}" for application in one.applications[:3])
    count = len(one.applications) + one.more
    more = f"; and {count - 3} more" if count > 3 else ""
    return Incident(
        kind=IncidentKind.GROUP_SHARED,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(
            Subject(Role.GROUP, one.group),
            *every(Role.CLIENT, clients[:EVIDENCE_SHOWN]),
            *every(Role.TOPIC, sorted(_topics(one.applications))[:EVIDENCE_SHOWN]),
        ),
        started=one.since,
        ended=one.until,
        headline=f"group {one.group} is used by {count} applications ({reads}{more}): from "
        f"{clock(one.since)} on the members of one had to rebalance {counted(len(one.disturbances), 'time')} for what "
        "those of another did" + in_words(effects),
        evidence=tuple(map(_evidence, one.disturbances)),
        advice="Give each application a group.id of its own: as it is, each start, stop and failure of one has the "
        "members of the others rebalance, and the state and the lag of the group tell of none of them. That members of "
        "one application read different topics is possible, and costs the same.",
        cost_ms=cost_ms,
        effects=effects,
        findings=signs.explained(_EXPLAINED, one.since, one.until or signs.end, groups=[one.group]),
        rebalances=rebalances,
    )


def _evidence(one: Disturbance) -> Weighed:
    row = one.row
    read = f"read {listed(_topics(one.others), 3)}"
    what = f"{row['trigger'].replace('_', ' ')} of {row['trigger_client_id'] or row['trigger_member']}"
    return Weighed(
        f"{what}, which reads {one.by.reads}: "
        f"{'; '.join(other.names for other in one.others[:3])} {read} and had to rebalance as well",
        next((seen["packet"] for seen in row["evidence"] or () if seen["packet"] is not None), None),
        row["started"],
        0.7,
    )


def _topics(applications: Sequence[Application]) -> frozenset[str]:
    return frozenset().union(*(application.topics for application in applications))
