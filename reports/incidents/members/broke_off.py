"""Groups whose members all leave as soon as they are sent records, and commit nothing: what they read ends them.

So does kafkajs at records in a codec that it lacks, or an application that closes its consumer at an exception. Nobody
is lost, and nothing is refused: but for the reader that is missing all is well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import moment
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import client_name, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.costs import assigned, unread
from kafkascope.reports.incidents.incident import Incident, Subject, Weighed, every, in_words
from kafkascope.reports.incidents.members.restarts import loops
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_AT_ONCE_NS = 5 * SECOND_NS  # from having partitions to leaving: the first records come within fetch.max.wait.ms
_SEVERAL = 2  # members of one generation: a job that is alone in its group may well end soon
_FINDINGS = ("leaving_and_returning", "partition_unowned", "lag_growing", "read_again", "connection_churn")
_ADVICE = (
    "See in the logs of these clients what ended them: an exception at the records that they were sent, such as of a "
    "codec that their library lacks (kafkajs has none but gzip by itself), a deserializer, or a handler that throws."
)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A member that left soon after it had got partitions."""

    row: Row  # of rebalances
    member: Row
    left: Row  # of group_events

    @property
    def stayed(self) -> int:
        """For how long it had them."""
        return int(self.left["at"] - self.member["synced"])


def broke_off(signs: Signs) -> Iterator[Incident]:
    """One for each time in which each generation of a group is such. Not of those that are started again and again."""
    left: dict[str, dict[str, Row]] = defaultdict(dict)
    for event in signs.group_events:
        if event["event"] == EventKind.LEFT and "poll timeout" not in (event["detail"] or ""):
            left[event["group_id"]].setdefault(event["member_id"], event)
    told = {loop.group for loop in signs.once(loops)}
    for group in sorted(left.keys() - told):
        if len(left[group]) < threshold("crashes"):
            continue
        run: list[_Turn] = []
        seen: set[str] = set()  # members: those of an earlier generation had read before
        for row in signs.rebalances_of(group, signs.end):
            if not row["members"]:
                continue
            turns = [] if any(member["member_id"] in seen for member in row["members"]) else _turns(row, left[group])
            seen |= {member["member_id"] for member in row["members"]}
            if not turns and run:
                yield from _incidents(signs, group, run, row)
                run = []
            run += turns
        yield from _incidents(signs, group, run, None)


def _turns(row: Row, left: dict[str, Row]) -> list[_Turn]:
    """Of all members of a generation that have partitions, if each left soon; else none."""
    members = [member for member in row["members"] if member["assignment"]]
    known = [(member, left.get(member["member_id"])) for member in members if member["synced"] is not None]
    turns = [_Turn(row, member, event) for member, event in known if event is not None]
    return turns if len(turns) == len(members) and all(0 <= one.stayed <= _AT_ONCE_NS for one in turns) else []


def _incidents(signs: Signs, group: str, run: Sequence[_Turn], after: Row | None) -> Iterator[Incident]:
    """None of few, and none of members that committed something, or were sent nothing."""
    generations: dict[int, int] = defaultdict(int)
    for one in run:
        generations[one.row["to_generation"]] += 1
    if len(run) < threshold("crashes") or max(generations.values()) < _SEVERAL or _commits(signs, group, run):
        return
    codecs = _codecs(signs, run)
    lasted = (signs.end if after is None else after["started"]) - min(one.left["at"] for one in run)
    if codecs and lasted >= threshold("awaited") * SECOND_NS:
        yield _incident(signs, group, run, codecs, after)


def _commits(signs: Signs, group: str, run: Sequence[_Turn]) -> bool:
    """Whether the group committed anything meanwhile, such as a job does that is done."""
    since, until = run[0].member["synced"], max(one.left["at"] for one in run)
    where = pc.field("api").isin(["OffsetCommit", "TxnOffsetCommit"]) & (pc.field("group_id") == group)
    where &= (pc.field("requested") >= moment(since)) & (pc.field("requested") <= moment(until + SECOND_NS))
    return any(batch.num_rows for batch in signs.batches("exchanges", ("requested",), where))


def _codecs(signs: Signs, run: Sequence[_Turn]) -> list[str]:
    """The codecs of what each of them was sent while it had its partitions; none if one was sent nothing."""
    who = {(one.left["client"], one.left["client_id"]) for one in run}
    whose = {row["connection"]: (row["client"], row["client_id"]) for row in signs.connections_of(who)}
    where = (pc.field("direction") == "fetch") & pc.field("connection").isin(sorted(whose)) & (pc.field("records") > 0)
    sent: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in signs.rows("batches", ("connection", "at", "codec"), where):
        sent[whose[row["connection"]]].append(row)
    codecs: set[str] = set()
    for one in run:
        rows = sent[one.left["client"], one.left["client_id"]]
        mine = {row["codec"] for row in rows if one.member["synced"] <= row["at"] <= one.left["at"]}
        if not mine:
            return []
        codecs |= mine
    return sorted(codecs)


def _incident(signs: Signs, group: str, run: Sequence[_Turn], codecs: Sequence[str], after: Row | None) -> Incident:
    since = min(one.left["at"] for one in run)
    ended = None if after is None else after["started"]
    names = sorted({one.left["client_id"] for one in run if one.left["client_id"]})
    ms = ((signs.end if ended is None else ended) - since) / MILLISECOND_NS
    partitions = assigned(one.member for one in run)
    effects = (unread(partitions, ms, "" if ended is not None else ", to the end of the capture"),)
    stayed = sorted(one.stayed for one in run)[len(run) // 2]
    until = max(one.left["at"] for one in run)
    packed = [codec for codec in codecs if codec != "none"]
    in_codec = f" ({listed(packed)})" if packed else ""
    return Incident(
        kind=IncidentKind.CONSUMER_STUCK,
        severity=Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(
            Subject(Role.GROUP, group),
            *every(Role.TOPIC, sorted({partition.rpartition("-")[0] for partition in partitions})),
            *every(Role.CLIENT, names),
            *every(Role.HOST, sorted({one.left["client"] for one in run})),
        ),
        started=since,
        ended=ended,
        headline=f"all members of group {group} leave as soon as they are sent records{in_codec}, and commit nothing: "
        f"{listed(names or ['members without a name'])}, {counted(len(run), 'time')} from {clock(since)} to "
        f"{clock(until)}, half of the times after "
        f"{duration(stayed / MILLISECOND_NS)}" + in_words(effects),
        evidence=tuple(
            Weighed(
                f"{client_name(one.left['client_id'])} left {duration(one.stayed / MILLISECOND_NS)} after it had got "
                f"{counted(len(one.member['assignment']), 'partition')}: it had been sent records",
                one.left["packet"],
                one.left["at"],
                0.7,
            )
            for one in run
        ),
        advice=_ADVICE,
        cost_ms=ms,
        effects=effects,
        findings=signs.explained(
            _FINDINGS, since, signs.end if ended is None else ended, groups=[group], clients=names
        ),
        rebalances=frozenset((group, one.row["to_generation"]) for one in run),
    )
