"""What a capture tells beside the trouble of clients: what they lack, or should have asked for, and what came of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.name_lists import listed, named
from kafkascope.reports.columns.text import client_name, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.groups.body import body_of
from kafkascope.reports.groups.body import rows as bodies
from kafkascope.reports.incidents.clients import credentials
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.incident import EVIDENCE_SHOWN, Effect, Subject, Weighed
from kafkascope.reports.incidents.members import members
from kafkascope.reports.incidents.planned.alterations import credentials_before, quota_before
from kafkascope.reports.incidents.planned.changes import changes_made
from kafkascope.reports.incidents.positions import lag
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.measures.client_facts import NO_NAME
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.permissions import OPERATIONS, REFUSED, SEEKERS
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS


@dataclass(frozen=True, slots=True)
class Beside:
    """What is added to an incident of clients; without advice it has that of its finding."""

    words: str = ""
    advice: str = ""
    subjects: tuple[Subject, ...] = ()
    effects: tuple[Effect, ...] = ()
    evidence: tuple[Weighed, ...] = ()
    findings: frozenset[str] = frozenset()
    rebalances: frozenset[tuple[str, int]] = frozenset()
    cause: Hashable = None  # what clients have in common whose trouble has one cause; None: it is not known


def _credentials(signs: Signs, names: Sequence[str], hosts: Sequence[str], since: int, _until: int) -> Beside:
    """As whom clients authenticate, by what, why that is in vain, and who altered their credentials before."""
    words, advice, users = credentials.refused(signs, names, hosts)
    altered = credentials_before(signs, users, since)
    if altered is None:
        return Beside(words, advice, cause=words if users else None)
    by = "altered", altered.made["client_id"], altered.made["host"]
    return Beside(f"{words}; {altered.words}", advice, evidence=(altered.evidence(0.6),), cause=by)


_OF_LOSS = ("member_lost", "commit_refused", "partition_unowned")
_SEEKS = "FindCoordinator"
_ROLES = {"topic": Role.TOPIC, "group": Role.GROUP}


def _sought(signs: Signs, names: Sequence[str]) -> Mapping[tuple[str, str], set[str]]:
    """Groups and transactional ids whose coordinator some clients may not look for, by client id and error."""
    where = (pc.field("api") == _SEEKS) & among("client_id", names) & pc.field("error").isin([*REFUSED])
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for batch in signs.batches("exchanges", ("client_id", "error", "request"), where):
        for row in batch.group_by(["client_id", "error", "request"]).aggregate([]).to_pylist():
            request = body_of(row["request"])
            keys = [request["key"]] if "key" in request else request.get("coordinatorKeys") or []
            if len(keys) == 1 and isinstance(keys[0], str):  # of several one may be refused alone
                found[row["client_id"], row["error"]].add(keys[0])
    return found


def _permissions(signs: Signs, names: Sequence[str], _hosts: Sequence[str], since: int, until: int) -> Beside:
    """Which permissions clients lack, as far as their errors tell, and who took some away shortly before."""
    whose = {*names}
    sought = _sought(signs, names)
    subjects, on, needed = set[Subject](), set[str](), set[str]()
    is_named = True
    for row in signs.errors_of(None if name == NO_NAME else name for name in whose):
        if row["error"] not in REFUSED or row["first"] > until or row["last"] < since:
            continue
        kind = REFUSED[row["error"]]
        told = row["topic"] if kind == "topic" else row["group_id"] if kind == "group" else None
        of_kind = {told} if told else sought[row["client_id"], row["error"]] if row["api"] == _SEEKS else set[str]()
        for name in of_kind or {None}:
            resource = "the cluster" if kind == "cluster" else f"{kind} {name}" if name else f"its {kind}"
            on.add(resource)
            is_named &= bool(name) or kind == "cluster"
            if (operation := OPERATIONS.get((row["error"], row["api"]))) is not None:
                next_one = f" ({SEEKERS[kind]})" if row["api"] == _SEEKS and kind in SEEKERS else ""
                needed.add(f"{operation} on {resource}{next_one}")
            if name and kind in _ROLES:
                subjects.add(Subject(_ROLES[kind], name))
    near = int(threshold("one_trouble") * SECOND_NS)
    advice = (
        f"Give the principal of {listed(names)} what it needs (kafka-acls --add --allow-principal): {listed(needed)}; "
        "or have it stop asking for what it may not have."
    )
    taken = [
        row for row in signs.once(changes_made) if row["api"] == "DeleteAcls" and 0 <= since - row["answered"] <= near
    ]
    after = [
        f"; {client_name(row['client_id'])} ({row['host']}) had taken permissions on {one.name} away at "
        f"{clock(row['requested'])}"
        for row in taken
        for one in sorted(subjects)
        if any(told.get("resourceNameFilter") == one.name for told in bodies(body_of(row["request"]).get("filters")))
    ]
    return Beside(
        words=listed(on, 3) + "".join(after[-1:]) if on else "",
        advice=advice if needed else "",
        subjects=tuple(sorted(subjects)[:EVIDENCE_SHOWN]),
        evidence=tuple(
            Weighed(
                f"{client_name(row['client_id'])} ({row['host']}) had taken permissions away "
                f"{duration((since - row['answered']) / MILLISECOND_NS)} before",
                row["request_packet"],
                row["requested"],
                0.6,
            )
            for row in taken
        ),
        findings=frozenset(
            row["id"]
            for row in signs.findings_in(("commits_stopped", "consumer_stuck"), since, until + near)
            if row["client_ids"] and {*row["client_ids"]} <= whose
        )
        | signs.commits_refused(REFUSED, whose, since, until + near),
        cause=frozenset(on) if on and is_named else None,
    )


def _by_quota(signs: Signs, names: Sequence[str], hosts: Sequence[str], since: int, until: int) -> Beside:
    """Who set the quota, what is refused by it, and groups that fall behind by it, or take members out, each once."""
    quota = quota_before(signs, names, since)
    refused: dict[str, int] = defaultdict(int)
    for row in signs.errors_of(names):
        if row["error"] == Error.THROTTLING_QUOTA_EXCEEDED:
            refused[row["api"]] += row["count"] * (row["first"] <= until and since <= row["last"])
    told = ", ".join(f"{api} {counted(count, 'time')}" for api, count in sorted(refused.items()) if count)
    held = signs.once(lag.by_quota)
    of_group = {(trend.group, trend.topic): trend for name in names for trend in held.get(name, ())}
    trends = [trend for _, trend in sorted(of_group.items())]
    lost = [loss for loss in signs.once(members.held_back) if loss.client_id in names and loss.host in hosts]
    groups = sorted({loss.rebalance["group_id"] for loss in lost})
    costs, _, rebalances = of_rebalances([*(loss.rebalance for loss in lost), *members.returned(signs, lost)])
    out = f"taken out of {named('group', groups)}, as no heartbeats were sent meanwhile either" if lost else ""
    explained = signs.explained(("member_paused",), since, until, clients=names)
    if lost:
        explained |= signs.explained(_OF_LOSS, since, until, groups=groups, clients=names)
    return Beside(
        words="" if quota is None else f"after {quota.words}",
        subjects=tuple(Subject(Role.GROUP, group) for group in sorted({*groups, *(trend.group for trend in trends)})),
        effects=(
            *([Effect("members", out, len(lost))] if lost else []),
            *costs,
            *([Effect("requests", f"refused: {told}", sum(refused.values()))] if told else []),
            *(
                Effect("records", f"group {trend.group} fell behind in {trend.topic}: {trend.words}", trend.grown)
                for trend in trends
            ),
        ),
        evidence=() if quota is None else (quota.evidence(0.6),),
        findings=frozenset(chain.from_iterable(lag.explained(signs, trend) for trend in trends)) | explained,
        rebalances=rebalances,
    )


LOOK_AT: Mapping[IncidentKind, Callable[[Signs, Sequence[str], Sequence[str], int, int], Beside]] = {
    IncidentKind.AUTHENTICATION_FAILED: _credentials,
    IncidentKind.AUTHORIZATION_FAILED: _permissions,
    IncidentKind.THROTTLED: _by_quota,
}
"""By kind, what to look at: given client ids, hosts, and from when to when."""
