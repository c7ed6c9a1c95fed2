"""Groups whose committed offsets are gone: no error says so, and records may be passed over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow.compute as pc

from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock
from kafkascope.reports.groups.body import body_of, listed_offsets
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, every
from kafkascope.reports.incidents.incident import in_words as outcome
from kafkascope.reports.incidents.planned.changes import changes_made, named_in, topics_deleted
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import SECOND_NS

_BACK_TO = (
    "If what was passed over is wanted, set the offsets to where the group was, with its members stopped "
    "(kafka-consumer-groups --reset-offsets --to-datetime)."
)
_TWICE = "See that the application may be given records a second time."
_WITH_PACKETS = 12  # of the rows of a group: more than a person looks up
_DELETIONS = ("OffsetDelete", "DeleteGroups")


@dataclass(frozen=True, slots=True)
class Gone:
    """What a group had committed, and was told that it is not there; by time, topic and partition."""

    group: str
    rows: Sequence[Row]
    deletions: Sequence[Row]  # requests by which somebody deleted some of it

    @property
    def passed_over(self) -> int:
        """Records that it did not read, as far as that is known."""
        return sum(row["passed_over"] or 0 for row in self.rows)

    @property
    def is_meant(self) -> bool:
        """Whether all of it was deleted by somebody, and nothing passed over by that."""
        return not self.passed_over and {row["topic"] for row in self.rows} <= set(
            chain.from_iterable(row["of_topics"] for row in self.deletions)
        )

    @property
    def effect(self) -> Effect:
        """What came of it, if it was meant."""
        again = {
            (row["topic"], row["partition"]): row["committed_offset"] - row["read_from"]
            for row in self.rows
            if row["read_from"] is not None and row["read_from"] < row["committed_offset"]
        }
        if again:
            count = sum(again.values())
            return Effect("records", f"{count:,} records that group {self.group} had committed are read again", count)
        partitions = [f"{row['topic']}-{row['partition']}" for row in self.rows]
        text = f"what group {self.group} had committed of {in_words(partitions)} is gone"
        return Effect("partitions", text, len(partitions))

    def findings(self, signs: Signs) -> frozenset[str]:
        """Ids of findings that it explains."""
        return signs.explained(
            ("commits_forgotten", "read_again"), self.rows[0]["at"], self.rows[-1]["at"], groups=[self.group]
        )


def offsets_forgotten(signs: Signs) -> Iterator[Incident]:
    """Members that were told nothing is committed where something had been, and did not go on where they would have.

    What somebody deleted, and is read again, is told with that (`begun_anew`); so is what was committed of a topic that
    somebody has deleted since, as it is of a log that is gone. Where times go back nothing is told: who asked before
    the first commit seems to ask behind it.
    """
    if signs.times_go_back:
        return
    gone = [one for one in signs.once(_gone) if not one.is_meant]
    packets = _packets(signs, [row for one in gone for row in one.rows[:_WITH_PACKETS]])
    for one in gone:
        yield _forgotten(signs, one, packets)
    for group, rows in sorted(_sent_there(signs, _never(signs)).items()):
        yield _never_committed(signs, group, rows)


def begun_anew(signs: Signs, deletion: Row) -> list[Gone]:
    """What came of a request by which somebody deleted offsets of groups: these read again, as was meant."""
    place = deletion["connection"], deletion["number"]
    return [
        one
        for one in (signs.once(_gone) if deletion["api"] in _DELETIONS else ())
        if one.is_meant and place in {(row["connection"], row["number"]) for row in one.deletions}
    ]


def _gone(signs: Signs) -> list[Gone]:
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in signs.rows("forgotten_commits", where=pc.field("committed_offset").is_valid()):
        if row["read_from"] != row["committed_offset"] and not _is_of_another_log(signs, row):
            by_group[row["group_id"]].append(row)
    return [
        Gone(group, rows, _deletions(signs, group, rows))
        for group, of_group in sorted(by_group.items())
        for rows in [sorted(of_group, key=_in_order)]
    ]


def _never(signs: Signs) -> dict[str, list[Row]]:
    """Groups that had committed nothing."""
    never: dict[str, list[Row]] = defaultdict(list)
    for row in signs.rows("forgotten_commits", where=pc.field("committed_offset").is_null()):
        never[row["group_id"]].append(row)
    return {group: sorted(rows, key=_in_order) for group, rows in never.items()}


def _in_order(row: Row) -> tuple[int, str, int]:
    return row["at"], row["topic"], row["partition"]


def _is_of_another_log(signs: Signs, row: Row) -> bool:
    deleted = signs.once(topics_deleted).get(row["topic"], ())
    return any(row["committed_at"] <= deletion["requested"] <= row["at"] for deletion in deleted)


def _sent_there(signs: Signs, never: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """Rows whose member was told the offset that it read from, when it first asked where the log begins, or ends.

    Of others the capture may lack fetches in between: they were cut, or lost.
    """
    rows = [row for of_group in never.values() for row in of_group]
    clients = {(row["client"], row["client_id"]) for row in rows if row["client"] and row["client_id"]}
    by_number = {row["connection"]: row["client"] for row in signs.connections_of(clients)} if clients else {}
    where = (pc.field("api") == "ListOffsets") & pc.field("connection").isin(sorted(by_number))
    told: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)  # when, and what
    for row in signs.rows("exchanges", ("connection", "requested", "response"), where) if by_number else ():
        for topic, partition, offset in listed_offsets(body_of(row["response"])):
            told[by_number[row["connection"]], topic, partition].append((row["requested"], offset))

    def was_sent(row: Row) -> bool:
        later = [one for one in told[row["client"], row["topic"], row["partition"]] if one[0] >= row["at"]]
        soon = min(later, default=(0, 0))[0] + SECOND_NS
        return any(at <= soon and offset == row["read_from"] for at, offset in later)

    sent = {group: [row for row in of_group if was_sent(row)] for group, of_group in never.items()}
    return {group: of_group for group, of_group in sent.items() if of_group}


def _never_committed(signs: Signs, group: str, rows: Sequence[Row]) -> Incident:
    """A group that begins at the end each time that it is given partitions, for it has committed nothing."""
    since, until = rows[0]["at"], rows[-1]["at"]
    names = sorted({row["client_id"] for row in rows if row["client_id"]})
    partitions = sorted({f"{row['topic']}-{row['partition']}" for row in rows})
    count, times = sum(row["passed_over"] for row in rows), len({row["at"] for row in rows})
    text = f"{counted(count, 'record')} written since it had read there last were passed over"
    when = f"at {clock(since)}" if times == 1 else f"{times:,} times from {clock(since)} to {clock(until)}"
    effects = (Effect("records", text, count),)
    return Incident(
        kind=IncidentKind.OFFSETS_LOST,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=(
            Subject(Role.GROUP, group),
            *every(Role.TOPIC, sorted({row["topic"] for row in rows})),
            *signs.clients(names, {row["client"] for row in rows}),
        ),
        started=since,
        ended=until,
        headline=f"group {group} had committed nothing of {in_words(partitions)}, and {listed(names or ['a member'])} "
        f"went on behind where it had been, {when}" + outcome(effects),
        evidence=tuple(
            Weighed(
                f"{row['topic']}-{row['partition']}: {row['client_id'] or '?'} was told that nothing is committed, and "
                f"read from {row['read_from']:,} on, {counted(row['passed_over'], 'record')} behind what it had read",
                None,
                row["at"],
                0.95,
            )
            for row in rows[:_WITH_PACKETS]
        ),
        advice="Have the application commit what it has worked on (enable.auto.commit, or commitSync), or set "
        "auto.offset.reset to earliest: with latest, what is written while nobody reads is never read.",
        cost_ms=0,
        effects=effects,
    )


def _packets(signs: Signs, rows: Sequence[Row]) -> dict[tuple[int, int], int | None]:
    """Packets of the answers that some rows are about, by connection and number; exchanges are read once for all."""
    numbers = sorted({row["connection"] for row in rows})
    where = pc.field("connection").isin(numbers) & (pc.field("api") == "OffsetFetch")
    wanted = {(row["connection"], row["number"]) for row in rows}
    found = {}
    for batch in signs.batches("exchanges", ("connection", "number", "response_packet"), where) if rows else ():
        for row in batch.to_pylist():
            if (place := (row["connection"], row["number"])) in wanted:
                found[place] = row["response_packet"]
    return found


def _forgotten(signs: Signs, gone: Gone, packets: Mapping[tuple[int, int], int | None]) -> Incident:
    group, rows, deletions, passed_over = gone.group, gone.rows, gone.deletions, gone.passed_over
    since, until = rows[0]["at"], rows[-1]["at"]
    topics = {row["topic"] for row in rows}
    names = sorted({row["client_id"] for row in rows if row["client_id"]})
    partitions = [f"{row['topic']}-{row['partition']}" for row in rows]
    back = [row for row in rows if row["read_from"] is not None and row["read_from"] < row["committed_offset"]]
    who = sorted({f"{row['client_id'] or '?'} ({row['host']})" for row in deletions})
    why = (
        f"{listed(who)} deleted them at {clock(deletions[0]['requested'])} ({deletions[0]['api']})"
        if deletions
        else "they were deleted, or expired, where this capture does not show it"
    )
    effects = [Effect("partitions", f"commits gone of {in_words(partitions)}", len(partitions))]
    what = ""
    if passed_over:
        what = f"; {counted(passed_over, 'record')} written meanwhile were passed over"
        effects.append(Effect("records", f"{counted(passed_over, 'record')} passed over", passed_over))
    elif back:
        what = f"; it reads again from offset {back[0]['read_from']:,} of {back[0]['topic']}-{back[0]['partition']} on"
    return Incident(
        kind=IncidentKind.OFFSETS_LOST,
        severity=Severity.CRITICAL if passed_over else Severity.WARNING,
        certainty=Certainty.CERTAIN,
        subjects=(
            Subject(Role.GROUP, group),
            *every(Role.TOPIC, sorted(topics)),
            *every(Role.CLIENT, names),
            *every(Role.HOST, sorted({row["client"] for row in rows if row["client"]})),
        ),
        started=deletions[0]["requested"] if deletions else since,
        ended=until,
        headline=f"what group {group} had committed of {in_words(partitions)} was gone when "
        f"{listed(names or ['a member'])} asked at {clock(since)}: {why}{what}",
        evidence=(
            *(
                Weighed(f"{row['api']} of {row['client_id'] or '?'}", row["request_packet"], row["requested"], 0.9)
                for row in deletions
            ),
            *(
                Weighed(
                    f"{row['topic']}-{row['partition']}: {row['client_id'] or '?'} was told that nothing is committed, "
                    f"where {row['committed_offset']} had been at {clock(row['committed_at'])}, and read from "
                    f"{'an offset that was not seen' if row['read_from'] is None else row['read_from']} on",
                    packets.get((row["connection"], row["number"])),
                    row["at"],
                    0.95,
                )
                for row in rows
            ),
        ),
        advice=f"{_BACK_TO if passed_over else _TWICE} A group without members keeps its offsets for "
        "offsets.retention.minutes; auto.offset.reset decides where it goes on without any.",
        cost_ms=0,
        effects=tuple(effects),
        findings=gone.findings(signs),
    )


def _deletions(signs: Signs, group: str, rows: Sequence[Row]) -> list[Row]:
    """Requests by which somebody deleted what a group had committed, each with the topics of it (``of_topics``)."""
    since, until = min(row["committed_at"] for row in rows), rows[-1]["at"]
    topics = {row["topic"] for row in rows}
    found = []
    for row in signs.once(changes_made):
        if row["api"] in _DELETIONS and since <= row["requested"] <= until:
            named = set(named_in(row["request"]))
            whole = row["api"] == "DeleteGroups"
            of_topics = topics if whole else topics & {name for role, name in named if role == Role.TOPIC}
            if (Role.GROUP, group) in named and of_topics:
                found.append(row | {"of_topics": of_topics})
    return found
