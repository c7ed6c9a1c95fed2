"""Members that do not get past a record: it is sent again and again, or they end at it, and begin anew there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from operator import itemgetter

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, every, in_words
from kafkascope.reports.incidents.signs import Signs, group_of
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.measures.progress.positions import SPAN
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

FINDINGS = ("consumer_stuck", "commits_stopped", "read_again", "lag_growing")
_RESTART_FINDINGS = (*FINDINGS, "connection_churn", "rebalance_storm", "leaving_and_returning", "partition_unowned")
AT_THE_RECORD = (
    "Look at what the application says as it ends, and at the records at these offsets (kcat -C -o OFFSET -c 1): one "
    "of them may be what ends it each time, unless it ends before it has committed anything. Have that record put "
    "aside (a dead letter topic), or set the group's offset behind it."
)


@dataclass(frozen=True, slots=True)
class Beginning:
    """An offset at which members of a group began again and again; rows of rereads, by time."""

    topic: str
    partition: int
    offset: int
    rows: Sequence[Row]

    @property
    def evidence(self) -> tuple[Weighed, ...]:
        """That they did."""
        text = (
            f"{self.topic}-{self.partition}: read from offset {self.offset} on again "
            f"{counted(len(self.rows), 'time')}, each time on a new connection"
        )
        return (Weighed(text, self.rows[0]["connection"], self.rows[0]["at"], 0.7),)


def stuck(signs: Signs) -> Iterator[Incident]:
    """Members that are sent the same records again and again: one cannot be processed, and is tried without end.

    A client that reads ahead (librdkafka) asks for others between two tries: then it does not commit.

    Who waits at the end of what is committed, as for a transaction, is sent nothing; and after each rebalance members
    read again from what is committed.
    """
    times = int(threshold("same_again"))
    again: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in signs.rows("rereads", where=pc.field("times") >= times):
        again[row["group_id"], row["topic"], row["client_id"] or "?"].append(row)
    findings = [row for row in signs.findings if row["kind"] in ("consumer_stuck", "commits_stopped")]
    for (group, topic, name), rows in sorted(again.items()):
        until = max(
            (
                finding["until"]
                for finding in findings
                if group == group_of(finding) and name in (finding["client_ids"] or ["?"]) and _is_about(finding, topic)
            ),
            default=None,
        )
        if until is None:
            continue
        rebalances = signs.rebalances_of(group, until, min(row["at"] for row in rows))
        if 2 * len(rebalances) <= max(row["times"] for row in rows):
            yield _stuck(signs, until, topic, name, sorted(rows, key=lambda row: (row["at"], row["partition"])))


def _is_about(finding: Row, topic: str) -> bool:
    return any(seen["text"].partition(": ")[0].rpartition("-")[0] == topic for seen in finding["evidence"])


def _stuck(signs: Signs, until: int, topic: str, name: str, rows: Sequence[Row]) -> Incident:
    group, since = rows[0]["group_id"], rows[0]["at"]
    ended = until if until < signs.end - SPAN else None
    times, records = max(row["times"] for row in rows), sum(row["records"] for row in rows)
    offsets = [f"{topic}-{row['partition']} offset {row['from_offset']}" for row in rows]
    ends = signs.rows(
        "lag",
        ("partition", "at", "end_offset"),
        (pc.field("group_id") == group) & (pc.field("topic") == topic) & pc.field("end_offset").is_valid(),
    )
    last = {
        row["partition"]: row["end_offset"] for row in sorted(ends, key=lambda row: row["at"]) if row["at"] <= until
    }
    waiting = sum(max(last.get(row["partition"], 0) - row["from_offset"], 0) for row in rows)
    effects = (
        Effect("records", f"{counted(waiting, 'record')} wait behind", waiting),
        Effect("records", f"{counted(records, 'record')} sent again", records),
    )
    hosts = sorted({row["client"] for row in rows if row["client"]})
    return Incident(
        kind=IncidentKind.CONSUMER_STUCK,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=(
            Subject(Role.GROUP, group),
            Subject(Role.TOPIC, topic),
            Subject(Role.CLIENT, name),
            *every(Role.HOST, hosts),
        ),
        started=since,
        ended=ended,
        headline=f"{name} of group {group} does not get past {listed(offsets)}: from {clock(since)} on it asked for "
        f"the same records again up to {counted(times, 'time')}" + in_words(effects),
        evidence=tuple(
            Weighed(
                f"{topic}-{row['partition']}: sent the records from offset {row['from_offset']} on again, "
                f"{counted(row['times'], 'time')} in a row",
                None,
                row["at"],
                0.9,
            )
            for row in rows
        ),
        advice="Look at the record at this offset (kcat -C -o OFFSET -c 1), and at what the application says of it; of "
        "several partitions one holds it, and the others are read again with it. Have it put aside after some tries "
        "(a dead letter topic), or set the group's offset behind it.",
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=effects,
        findings=signs.explained(FINDINGS, since, until, groups=[group]),
    )


def restarting(signs: Signs) -> Iterator[Incident]:
    """Members that end and leave, and begin anew at the same records each time; one a group.

    Those that end without leaving are told as lost (`members`).
    """
    for group, places in sorted(signs.once(beginnings).items()):
        begun = [row for place in places for row in place.rows]
        since = min(row["at"] for row in begun) - threshold("one_trouble") * SECOND_NS
        until = max(row["at"] for row in begun)
        members = {(row["client_id"], row["client"]) for row in begun}
        left = [
            row
            for row in signs.events_of_group(group)
            if row["event"] == "left"
            and (row["client_id"], row["client"]) in members
            and "poll timeout" not in (row["detail"] or "")
            and since <= row["at"] <= until
        ]
        if len(left) >= threshold("crashes"):
            yield _restarting(signs, group, places, left)


def beginnings(signs: Signs) -> dict[str, list[Beginning]]:
    """By group: where members began again and again, each time on a new connection, as processes do that end there.

    That is what the group had committed; who commits nothing reads all again whenever it likes, as jobs do.
    """
    found: dict[tuple[str, str, int, int], list[Row]] = defaultdict(list)
    columns = ("group_id", "topic", "partition", "from_offset", "at", "connection", "client_id", "client", "records")
    for row in signs.rows("rereads", columns, pc.field("client_id").is_valid()):
        found[row["group_id"], row["topic"], row["partition"], row["from_offset"]].append(row)
    again: dict[tuple[str, str, int, int], list[Row]] = {}
    for place, rows in sorted(found.items()):
        connections = {(row["client_id"], row["client"], row["connection"]) for row in rows}
        members = {member[:2] for member in connections}  # as many as connections: each of several began there once
        if len(connections) >= threshold("crashes") and len(connections) > len(members):
            again[place] = rows
    committed = _committed(signs, {group for group, *_ in again})
    by_group: dict[str, list[Beginning]] = defaultdict(list)
    for place, rows in again.items():
        if place in committed:
            by_group[place[0]].append(Beginning(*place[1:], sorted(rows, key=itemgetter("at"))))
    return by_group


def _committed(signs: Signs, groups: Set[str]) -> set[tuple[str, str, int, int]]:
    """What groups had committed, as lag has it: group, topic, partition, offset."""
    found: set[tuple[str, str, int, int]] = set()
    columns = ["group_id", "topic", "partition", "committed_offset"]
    where = among("group_id", groups) & pc.field("committed_offset").is_valid()
    for batch in signs.batches("lag", columns, where) if groups else ():
        found.update(tuple(row.values()) for row in batch.group_by(columns).aggregate([]).to_pylist())
    return found


def _restarting(signs: Signs, group: str, places: Sequence[Beginning], left: Sequence[Row]) -> Incident:
    since, until = left[0]["at"], max(row["at"] for place in places for row in place.rows)
    members = sorted({(row["client_id"], row["client"]) for row in left})
    names = sorted({name for name, _ in members})
    effects, cost_ms, rebalances = of_rebalances(signs.rebalances_of(group, until, since))
    return Incident(
        kind=IncidentKind.CONSUMER_STUCK,
        severity=Severity.CRITICAL,
        certainty=Certainty.LIKELY,
        subjects=(
            Subject(Role.GROUP, group),
            *every(Role.TOPIC, sorted({place.topic for place in places})),
            *every(Role.CLIENT, names),
            *every(Role.HOST, sorted({host for _, host in members})),
        ),
        started=since,
        ended=until if until < signs.end - threshold("one_trouble") * SECOND_NS else None,
        headline=f"{listed(names)} of group {group} {'ends' if len(names) == 1 else 'end'} again and again, "
        f"{counted(len(left), 'time')} from {clock(since)} on, and each time begins anew at {in_offsets(places)}"
        + in_words(effects),
        evidence=tuple(seen for place in places for seen in place.evidence),
        advice=AT_THE_RECORD,
        cost_ms=cost_ms,
        effects=effects,
        findings=signs.explained(_RESTART_FINDINGS, since, until, groups=[group], clients=names),
        rebalances=rebalances,
    )


def in_offsets(places: Sequence[Beginning]) -> str:
    """Where that is, in words."""
    return listed([f"{one.topic}-{one.partition} offset {one.offset}" for one in places])
