"""Partitions that are added to a topic, and of which a group does not read the beginning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import moment
from kafkascope.reports.columns.name_lists import in_words as partitions_in_words
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, in_words
from kafkascope.reports.incidents.positions.told_commits import told_commits
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.triggers import Certainty

_PROTOCOLS = frozenset({"classic", "consumer"})


def begun_late(signs: Signs) -> Iterator[Incident]:
    """Groups that began partitions which were new to them behind their first records, each time.

    A member finds new partitions with its metadata (metadata.max.age.ms, five minutes), producers may have before; and
    of a partition without a commit auto.offset.reset decides.
    """
    for latest in signs.latest_rebalances:
        most: dict[str, int] = {}  # the last partition of each topic that anybody of the group had
        for row in signs.rebalances_of(latest["group_id"], signs.end):
            assigned = _assigned(row) if row["protocol"] in _PROTOCOLS else {}
            for topic, numbers in sorted(assigned.items()):
                if topic in most and (added := {one for one in numbers if one > most[topic]}):
                    yield from _begun_late(signs, row, topic, added)
                most[topic] = max(*numbers, most.get(topic, -1))


def _assigned(row: Row) -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for member in row["members"] or ():
        for name in member["assignment"] or ():
            topic, _, number = name.rpartition("-")
            if number.isdecimal():
                found[topic].add(int(number))
    return found


def _begun_late(signs: Signs, after: Row, topic: str, added: set[int]) -> Iterator[Incident]:
    clients = {(one["host"], one["client_id"]) for one in after["members"] if one["host"] and one["client_id"]}
    numbers = [row["connection"] for row in signs.connections_of(clients)]
    if after["started"] is None or not (new := _uncommitted(signs, numbers, after["started"], topic) & added):
        return
    begins = _begins(signs, numbers, after["started"], topic, new)
    skipped = {row["partition"]: row["fetch_offset_min"] - max(row["log_start_offset_min"] or 0, 0) for row in begins}
    skipped = {partition: count for partition, count in sorted(skipped.items()) if count > 0}
    if not skipped:
        return
    group, count = after["group_id"], sum(skipped.values())
    partitions = [f"{topic}-{partition}" for partition in skipped]
    at = min(row["at_min"] for row in begins if row["partition"] in skipped)
    names = sorted({name for _, name in clients})
    effects = (Effect("records", f"{counted(count, 'record')} that had been written there before are not read", count),)
    yield Incident(
        kind=IncidentKind.OFFSETS_LOST,
        severity=Severity.CRITICAL,
        certainty=Certainty.LIKELY,
        subjects=(
            Subject(Role.GROUP, group),
            Subject(Role.TOPIC, topic),
            *signs.clients(names, {host for host, _ in clients}),
        ),
        started=after["started"],
        ended=at,
        headline=f"group {group} began {partitions_in_words(partitions)}, which were new to it, behind their first "
        f"records at {clock(at)}" + in_words(effects),
        evidence=tuple(
            Weighed(
                f"{topic}-{row['partition']}: the group's first fetch asks for offset {row['fetch_offset_min']:,}, and "
                f"the log begins at {max(row['log_start_offset_min'] or 0, 0):,}",
                None,
                row["at_min"],
                0.8,
            )
            for row in begins
            if row["partition"] in skipped
        ),
        advice="Set auto.offset.reset to earliest where no record may be missed: it counts for partitions that are "
        "added, too. A shorter metadata.max.age.ms finds them sooner. To read what was passed over, set the offsets "
        "of these partitions back, with the members stopped (kafka-consumer-groups.sh --reset-offsets).",
        cost_ms=0,
        effects=effects,
        rebalances=frozenset({(group, after["to_generation"])}),
    )


def _uncommitted(signs: Signs, numbers: Sequence[int], since: int, topic: str) -> set[int]:
    """Partitions of a topic of which members are told that nothing is committed, where something is of others."""
    first: dict[int, int] = {}  # by partition, what the first answer says
    for told in told_commits(signs, numbers, topic, since):
        first.setdefault(told.partition, told.offset)
    return {one for one, offset in first.items() if offset < 0} if max(first.values(), default=-1) >= 0 else set()


def _begins(signs: Signs, numbers: Sequence[int], since: int, topic: str, added: set[int]) -> list[Row]:
    """Where each partition was begun on some connections, and where its log did: the least offsets, and the time."""
    where = (
        (pc.field("api") == "Fetch")
        & (pc.field("topic") == topic)
        & pc.field("partition").isin(sorted(added))
        & pc.field("connection").isin(sorted(numbers))
        & (pc.field("at") >= moment(since))
        & (pc.field("fetch_offset") >= 0)
    )
    columns = ["at", "fetch_offset", "log_start_offset"]
    found: dict[int, Row] = {}
    for batch in signs.batches("partitions", ["partition", *columns], where):
        for row in batch.group_by("partition").aggregate([(name, "min") for name in columns]).to_pylist():
            known = found.setdefault(row["partition"], row)
            for name in (f"{name}_min" for name in columns):
                known[name] = min((one for one in (known[name], row[name]) if one is not None), default=None)
    return [row for _, row in sorted(found.items())]
