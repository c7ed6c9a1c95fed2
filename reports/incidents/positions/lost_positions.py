"""Positions of readers that are not in the log any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import in_words, listed, named
from kafkascope.reports.columns.text import client_name
from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, every
from kafkascope.reports.incidents.planned.alterations import Alteration, retention_before
from kafkascope.reports.incidents.planned.changes import changes_made, named_in, topics_deleted
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.broker_client_ids import is_of_broker
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

ADVICE_DELETED = (
    "Compare the topic's retention (retention.ms, retention.bytes, or who ran kafka-delete-records) with how far the "
    "group was behind; auto.offset.reset decides whether it goes on at the oldest record that is left or at the end."
)
_ADVICE_BEYOND = (
    "See whether the topic was deleted and made anew, or lost records by an unclean election or a disk: what the group "
    "had committed is of the log from before. auto.offset.reset decides whether it goes on at the oldest record or at "
    "the end."
)


def offsets_lost(signs: Signs) -> Iterator[Incident]:
    """Consumers whose position is no longer in the log; followers among the brokers find that out for themselves.

    Those of topics that somebody has deleted are told with that.
    """
    apart = threshold("one_trouble") * SECOND_NS
    for topic, of_topic in sorted(_refused(signs).items()):
        for rows in in_runs(of_topic, lambda run, row: row["first"] - run[-1]["last"] <= apart):
            names = sorted({row["client_id"] for row in rows if row["client_id"]})
            groups = sorted({group for name in names for group in _readers(signs, name, topic)})
            if groups or _had_read(signs, topic, rows):  # else a tool that asked for a place of its own choice
                yield _lost(signs, topic, rows, names, groups)


def _refused(signs: Signs) -> dict[str, list[Row]]:
    """Errors of consumers whose position is out of range, by topic; without those behind a topic's deletion."""
    by_topic: dict[str, list[Row]] = defaultdict(list)
    for row in signs.errors:
        topic = row["topic"]
        if row["error"] != Error.OFFSET_OUT_OF_RANGE or not topic or is_of_broker(row["client_id"]):
            continue
        if all(row["first"] < deletion["requested"] for deletion in signs.once(topics_deleted).get(topic, ())):
            by_topic[topic].append(row)
    return by_topic


def _lost(signs: Signs, topic: str, rows: Sequence[Row], names: Sequence[str], groups: Sequence[str]) -> Incident:
    since, until = rows[0]["first"], max(row["last"] for row in rows)
    skipped = _skipped(signs, topic, since, names)
    deletion = None if skipped.is_beyond else deletion_before(signs, topic, since)
    retention = None if skipped.is_beyond or deletion else retention_before(signs, topic, since)
    partitions = sorted({f"{topic}-{row['partition']}" for row in rows if row["partition"] is not None})
    effects = [Effect("partitions", f"positions lost in {in_words(partitions)}", len(partitions))]
    cost = ""
    if lost := skipped.records:
        effects.append(Effect("records", f"{lost:,} records deleted before they were read", lost))
        cost = f"; {lost:,} records were deleted before they were read"
    return Incident(
        kind=IncidentKind.OFFSETS_LOST,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=(
            *every(Role.GROUP, groups),
            Subject(Role.TOPIC, topic),
            *signs.clients(names, signs.asked_from(rows)),
        ),
        started=since,
        ended=until,
        headline=f"{listed(names or ['a consumer'])}{' of ' + named('group', groups) if groups else ''} lost "
        f"{'its position' if len(names) <= 1 else 'their positions'} in {in_words(partitions)} at "
        f"{clock(since)}{_again(rows, until)}: {why(deletion, retention, is_beyond=skipped.is_beyond)}{cost}",
        evidence=(*_evidence(topic, rows, deletion), *altered(retention)),
        advice=_ADVICE_BEYOND if skipped.is_beyond else ADVICE_DELETED,
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=tuple(effects),
        findings=signs.explained(
            ("consumer_stuck", "lag_growing", "commits_stopped", "read_again"), since, until, groups=groups
        )
        | signs.explained(("error_loop",), since, until, clients=names),
    )


def _again(rows: Sequence[Row], until: int) -> str:
    """How often a position was lost, if one was again and again."""
    times: dict[tuple[str | None, int | None], int] = defaultdict(int)
    for row in rows:
        times[row["client_id"], row["partition"]] += row["count"]
    if max(times.values()) < threshold("crashes"):
        return ""
    return f", and again and again until {clock(until)} ({sum(times.values()):,} times in all)"


def why(deletion: Row | None, retention: Alteration | None = None, *, is_beyond: bool = False) -> str:
    """Why a position is not in the log: who had records deleted, or changed how long they are kept, if it is known."""
    if deletion is not None:
        who = f"{client_name(deletion['client_id'])} ({deletion['host']})"
        return f"{who} had records deleted at {clock(deletion['requested'])}"
    after = "" if retention is None else f", after {retention.words}"
    return "it lies behind the end of the log" if is_beyond else f"the log does not have it any more{after}"


def altered(retention: Alteration | None) -> tuple[Weighed, ...]:
    """That somebody changed how long records are kept, as evidence."""
    return () if retention is None else (retention.evidence(0.5),)


def _evidence(topic: str, rows: Sequence[Row], deletion: Row | None) -> Iterator[Weighed]:
    if deletion is not None:
        who = client_name(deletion["client_id"])
        yield Weighed(f"DeleteRecords of {who}", deletion["request_packet"], deletion["requested"], 0.9)
    for row in rows:
        text = (
            f"Fetch of {topic}-{row['partition']} by {client_name(row['client_id'])} answered OFFSET_OUT_OF_RANGE "
            f"by {row['broker']}"
        )
        yield Weighed(text, row["first_packet"], row["first"], 0.95)


def deletion_before(signs: Signs, topic: str, until: int) -> Row | None:
    """The last request before a time by which somebody had records of a topic deleted."""
    return max(
        (
            row
            for row in signs.once(changes_made)
            if row["api"] == "DeleteRecords"
            and row["requested"] <= until
            and topic in {name for _, name in named_in(row["request"])}
        ),
        key=itemgetter("requested"),
        default=None,
    )


def _readers(signs: Signs, client_id: str, topic: str) -> set[str]:
    """Groups in which a client reads a topic, by its members; all in which it is, where none tells what it reads."""
    groups = signs.groups_of.get(client_id, [])
    if len(groups) < 2:
        return {*groups}
    told = {
        row["group_id"]
        for group in groups
        for row in signs.rebalances_of(group, signs.end)
        for member in row["members"] or ()
        if member["client_id"] == client_id
        and (
            topic in (member["subscription"] or ())
            or any(one.rpartition("-")[0] == topic for one in member["assignment"] or ())
        )
    }
    return told or {*groups}


def _had_read(signs: Signs, topic: str, errors: Sequence[Row]) -> bool:
    """Whether records of a topic had been sent on the same connection before."""
    since = {row["first_connection"]: row["first"] for row in reversed(errors)}
    where = (pc.field("topic") == topic) & pc.field("connection").isin(list(since)) & (pc.field("records") > 0)
    rows = (row for batch in signs.batches("partitions", ["at", "connection"], where) for row in batch.to_pylist())
    return any(row["at"] is not None and row["at"] < since[row["connection"]] for row in rows)


@dataclass(frozen=True, slots=True)
class _Skipped:
    """What became of positions that were lost, as far as later answers tell."""

    records: int  # between them and the begin of the log, each once
    is_beyond: bool  # whether one lies behind the end of the log


def _skipped(signs: Signs, topic: str, since: int, names: Sequence[str]) -> _Skipped:
    """Each position that some clients lost, with the first word of where the log of its partition begins and ends."""
    of_client = {row["connection"]: row["client_id"] for row in signs.connections_named(names)}
    where = (pc.field("topic") == topic) & (pc.field("api") == "Fetch") & pc.field("at").is_valid()
    columns = ("at", "connection", "number", "partition", "fetch_offset", "log_start_offset", "high_watermark", "error")
    rows = [row for row in signs.rows("partitions", columns, where) if row["at"] >= since]
    rows.sort(key=lambda row: (row["at"], row["connection"], row["number"]))
    lost: dict[int, dict[str | None, int]] = defaultdict(dict)  # by partition and client
    gone: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by partition, of whomever: from where to where
    is_beyond = False
    for row in rows:
        waiting = lost[row["partition"]]
        if row["error"] == Error.OFFSET_OUT_OF_RANGE:
            if row["connection"] in of_client and row["fetch_offset"] is not None:
                waiting.setdefault(of_client[row["connection"]], row["fetch_offset"])
        elif waiting and (start := row["log_start_offset"]) is not None and start >= 0:
            gone[row["partition"]] += [(offset, start) for offset in waiting.values()]
            is_beyond |= any(offset > (row["high_watermark"] or 0) for offset in waiting.values())
            waiting.clear()
    return _Skipped(sum(_covered(ranges) for ranges in gone.values()), is_beyond)


def _covered(ranges: Sequence[tuple[int, int]]) -> int:
    """How many offsets these have, each counted once: several groups lose the same records."""
    found = reached = 0
    for first, behind in sorted(ranges):
        found += max(behind - max(first, reached), 0)
        reached = max(reached, behind)
    return found
