"""Members that do not get past a record: it is sent again and again, they end at it, or ask for nothing any more."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import apis
from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import integers
from kafkascope.reports.columns.name_lists import in_words as partitions_in_words
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, in_words
from kafkascope.reports.incidents.signs import Row, Signs, group_of
from kafkascope.reports.measures.progress.positions import SPAN
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.tables import TIME
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_FINDINGS = ("consumer_stuck", "commits_stopped", "read_again", "lag_growing")
_HEARTBEATS = (apis.HEARTBEAT, apis.CONSUMER_GROUP_HEARTBEAT)
_RESTART_FINDINGS = (*_FINDINGS, "connection_churn", "rebalance_storm", "leaving_and_returning", "partition_unowned")
AT_THE_RECORD = (
    "Look at what the application says as it ends, and at the records at these offsets (kcat -C -o OFFSET -c 1): one "
    "of them may be what ends it each time, unless it ends before it has committed anything. Have that record put "
    "aside (a dead letter topic), or set the group's offset behind it."
)
_FETCHES_AND_HEARTBEATS = pc.field("api_key").isin([apis.FETCH, *_HEARTBEATS])
_LAG = (
    "group_id",
    "client_id",
    "client",
    "topic",
    "partition",
    "at",
    "fetches",
    "committed_offset",
    "fetch_offset",
    "end_offset",
    "fetch_lag",
    "commit_stuck_ms",
)
_EXCHANGE = (
    "connection",
    "client_id",
    "group_id",
    "requested",
    "answered",
    "throttle_ms",
    "error",
    "request_packet",
    "response_packet",
)
_LEAVING_TAKES = 10 * SECOND_NS  # from the last heartbeat to being out of the group, for not having polled


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


class _Span(NamedTuple):
    at: int
    end: int


class _Alive(NamedTuple):
    """A member whose last heartbeat was sent long after its last fetch."""

    group: str
    name: str
    host: str
    fetch: int
    beat: int
    connections: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Halt:
    """A member that asks for nothing, from the last answer it got to its last heartbeat."""

    group: str
    name: str  # client id
    host: str
    since: int
    until: int
    packets: tuple[int | None, int | None]  # of that answer, and of the last heartbeat
    waiting: tuple[Row, ...] = ()  # the last rows of lag of its partitions, in which there is more


def stuck(signs: Signs) -> Iterator[Incident]:
    """Members that are sent the same records again and again: one cannot be processed, and is tried without end.

    Who waits at the end of what is committed, as for a transaction, is sent nothing; and after each rebalance members
    read again from what is committed.
    """
    times = int(threshold("same_again"))
    again: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in signs.rows("rereads", where=pc.field("times") >= times):
        again[row["group_id"], row["topic"], row["client_id"] or "?"].append(row)
    for finding in signs.findings:
        if finding["kind"] != "consumer_stuck":
            continue
        for (group, topic, name), rows in sorted(again.items()):
            if group != group_of(finding) or name not in (finding["client_ids"] or ["?"]):
                continue
            rebalances = signs.rebalances_of(group, finding["until"], min(row["at"] for row in rows))
            if _is_about(finding, topic) and 2 * len(rebalances) <= max(row["times"] for row in rows):
                yield _stuck(signs, finding, topic, name, sorted(rows, key=lambda row: (row["at"], row["partition"])))


def _is_about(finding: Row, topic: str) -> bool:
    return any(seen["text"].startswith(f"{topic}-") for seen in finding["evidence"])


def _stuck(signs: Signs, finding: Row, topic: str, name: str, rows: Sequence[Row]) -> Incident:
    group, since, until = rows[0]["group_id"], rows[0]["at"], finding["until"]
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
            *(Subject(Role.HOST, host) for host in hosts),
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
        findings=signs.explained(_FINDINGS, since, until, groups=[group]),
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
    where = pc.field("group_id").isin(sorted(groups)) & pc.field("committed_offset").is_valid()
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
            *(Subject(Role.TOPIC, topic) for topic in sorted({place.topic for place in places})),
            *(Subject(Role.CLIENT, name) for name in names),
            *(Subject(Role.HOST, host) for host in sorted({host for _, host in members})),
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


def halted(signs: Signs) -> Iterator[Incident]:
    """Members that live and ask for no records any more, while there are more; one each."""
    yield from (_halted(signs, halt) for halt in signs.once(halts))


def halts(signs: Signs) -> list[Halt]:
    """Members whose heartbeats went on long after their last fetch, though more was written; by group and name.

    They work for long on what they were sent, or poll() throws each time, or their partitions are paused: the wire does
    not tell which. But in the first case they are out of the group after max.poll.interval.ms. Of the many exchanges
    times alone are looked at, before the few that tell are read.
    """
    alive = list(_alive(signs))
    waiting = {one: rows for one, rows in _what_waits(signs, alive).items() if rows}
    exchanges = _read(signs, waiting)
    found = []
    for one, rows in waiting.items():
        last, beat = (exchanges.get((one.name, time)) for time in (one.fetch, one.beat))
        halt = None if last is None or beat is None else _halt(one, last, beat)
        if halt is not None and not _is_explained(signs, halt):
            found.append(replace(halt, waiting=rows))
    return found


def _what_waits(signs: Signs, alive: Sequence[_Alive]) -> dict[_Alive, tuple[Row, ...]]:
    """The last rows of lag of what each reads in which there is more; none if it works on, or often pauses so long."""
    of: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    where = pc.field("group_id").isin([one.group for one in alive])
    where &= pc.field("client_id").isin([one.name for one in alive])
    for row in signs.rows("lag", _LAG, where) if alive else ():
        of[row["group_id"], row["client_id"], row["client"]].append(row)
    return {one: _waiting(one, sorted(of[one[:3]], key=itemgetter("at"))) for one in alive}


def _waiting(one: _Alive, rows: Sequence[Row]) -> tuple[Row, ...]:
    read = sorted({row["at"] for row in rows if row["fetches"]})
    pause = max((later - earlier for earlier, later in pairwise(read)), default=0)
    last = {(row["topic"], row["partition"]): row for row in rows if row["at"] <= one.beat}
    waiting = tuple(last[key] for key in sorted(last) if not last[key]["fetches"] and last[key]["fetch_lag"])
    enough_ms = threshold("lag_stuck") * 1000
    commits = any((row["commit_stuck_ms"] or enough_ms) < enough_ms for row in waiting)
    return () if commits or one.beat - one.fetch < threshold("longest_pause") * pause else waiting


def _alive(signs: Signs) -> Iterator[_Alive]:
    """Members whose heartbeats went on long after their last fetch; by group and name.

    A client that is in several groups is left out: whose fetch it is, is told by the client.
    """
    enough = threshold("lag_stuck") * SECOND_NS
    asked = {member: span for member, span in _last_spans(signs).items() if signs.end - span.at >= enough}
    groups = Counter(member[1:] for member in asked)
    connections: dict[tuple[str, str], list[int]] = defaultdict(list)
    for batch in signs.batches("connections", ("client_id", "client", "connection")) if asked else ():
        for name, host, number in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if groups[name, host] == 1:
                connections[name, host].append(number)
    until = {number: span.end for member, span in asked.items() for number in connections[member[1:]]}
    fetched, heard = _latest(signs, until)
    for group, name, host in sorted(asked):
        numbers = tuple(connections[name, host])
        fetch, beat = (max((times[one] for one in numbers if one in times), default=0) for times in (fetched, heard))
        if fetch and beat - fetch >= enough:
            yield _Alive(group, name, host, fetch, beat, numbers)


def _latest(signs: Signs, until: Mapping[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    """By connection, of those given: when the last fetch was sent before a time, and when the last heartbeat."""
    fetched: dict[int, int] = {}
    heard: dict[int, int] = {}
    if not until:
        return fetched, heard
    numbers, ends = np.array(sorted(until.items()), np.int64).T
    columns = ("connection", "api_key", "requested")
    where = pc.field("connection").isin(numbers) & _FETCHES_AND_HEARTBEATS & pc.field("requested").is_valid()
    for batch in signs.batches("exchanges", columns, where):
        place = np.searchsorted(numbers, integers(batch["connection"]))
        requested, is_fetch = integers(batch["requested"]), integers(batch["api_key"]) == apis.FETCH
        for chosen, latest in ((is_fetch & (requested < ends[place]), fetched), (~is_fetch, heard)):
            times = np.zeros(len(numbers), np.int64)
            np.maximum.at(times, place[chosen], requested[chosen])
            for one in np.flatnonzero(times).tolist():
                latest[int(numbers[one])] = max(latest.get(int(numbers[one]), 0), int(times[one]))
    return fetched, heard


def _read(signs: Signs, alive: Collection[_Alive]) -> dict[tuple[str, int], Row]:
    """The last fetches and heartbeats of some members, by client id and time."""
    if not alive:
        return {}
    sent = pa.array(sorted({time for one in alive for time in (one.fetch, one.beat)}), TIME)
    where = pc.field("connection").isin([number for one in alive for number in one.connections])
    where &= _FETCHES_AND_HEARTBEATS & pc.field("requested").isin(sent)
    return {(row["client_id"], row["requested"]): row for row in signs.rows("exchanges", _EXCHANGE, where)}


def _halt(one: _Alive, last: Row, beat: Row) -> Halt | None:
    """By its last fetch and heartbeat; None if the one was not answered well, or not that long ago."""
    if last["answered"] is None or last["error"] != Error.NONE or last["throttle_ms"]:
        return None
    if beat["group_id"] != one.group or one.beat - last["answered"] < threshold("lag_stuck") * SECOND_NS:
        return None
    packets = last["response_packet"], beat["request_packet"]
    return Halt(one.group, one.name, one.host, last["answered"], one.beat, packets)


def _last_spans(signs: Signs) -> dict[tuple[str, str, str], _Span]:
    """By group, client id and host: the last span of time in which it asked for records (not that it is done)."""
    found: dict[tuple[str, str, str], _Span] = {}
    columns = ("group_id", "client_id", "client", "width_ms")
    where = (pc.field("fetches") > 0) & pc.field("group_id").is_valid()
    for batch in signs.batches("lag", (*columns, "at"), where):
        for row in batch.group_by(list(columns)).aggregate([("at", "max")]).to_pylist():
            group, name, host, width, at = row.values()
            if name is not None and host is not None:
                span = _Span(at, at + width * MILLISECOND_NS)
                found[group, name, host] = max(found.get((group, name, host), span), span, key=lambda one: one.end)
    return found


def _is_explained(signs: Signs, halt: Halt) -> bool:
    """Whether it left as one that is slow, or the group, the network or a broker kept it from asking."""
    return (
        any(signs.rebalances_of(halt.group, halt.until - SECOND_NS, halt.since))
        or any(
            row["event"] == "left" and "poll timeout" in (row["detail"] or "") and row["client_id"] == halt.name
            for row in signs.events_of_group(halt.group)
            if halt.since <= row["at"] <= halt.until + _LEAVING_TAKES
        )
        or any(
            row["client"] == halt.host and halt.since <= (row["opened"] or 0) <= halt.until
            for row in signs.failed_connects
        )
        or any(
            2 * (min(row["until"] or signs.end, halt.until) - max(row["since"], halt.since)) > halt.until - halt.since
            for row in signs.silences
        )
    )


def _halted(signs: Signs, halt: Halt) -> Incident:
    limit = signs.poll_intervals(halt.group).get(halt.name)
    lasted_ms = (halt.until - halt.since) / MILLISECOND_NS
    overdue = limit is not None and lasted_ms > limit
    lasted = duration(lasted_ms)
    partitions = partitions_in_words(f"{row['topic']}-{row['partition']}" for row in halt.waiting)
    waiting = sum(row["fetch_lag"] for row in halt.waiting)
    effects = (Effect("records", f"{counted(waiting, 'record')} wait", waiting),)
    heartbeats = Weighed("its last heartbeat: the process lives", halt.packets[1], halt.until, 0.6)
    evidence = [Weighed("the last answer to a fetch of it", halt.packets[0], halt.since, 0.6), heartbeats]
    if overdue:
        text = (
            "its application calls poll(): clients of Java and librdkafka leave otherwise, after max.poll.interval.ms "
            f"({duration(limit or 0)})"
        )
        evidence.append(Weighed(text, None, halt.since + (limit or 0) * MILLISECOND_NS, 0.7))
    evidence += [
        Weighed(
            f"{row['topic']}-{row['partition']}: "
            + ("nothing committed" if row["committed_offset"] is None else f"committed {row['committed_offset']}")
            + f", asked for from {row['fetch_offset']} on, ends at {row['end_offset']}",
            None,
            row["at"],
            0.5,
        )
        for row in halt.waiting
    ]
    return Incident(
        kind=IncidentKind.CONSUMER_STUCK,
        severity=Severity.CRITICAL if overdue else Severity.WARNING,
        certainty=Certainty.LIKELY,
        subjects=(
            Subject(Role.GROUP, halt.group),
            *(Subject(Role.TOPIC, topic) for topic in sorted({row["topic"] for row in halt.waiting})),
            Subject(Role.CLIENT, halt.name),
            Subject(Role.HOST, halt.host),
        ),
        started=halt.since,
        ended=halt.until if halt.until < signs.end - SPAN else None,
        headline=f"{halt.name} of group {halt.group} asks for no more records of {partitions}, from "
        f"{clock(halt.since)} on for {lasted}, though it is alive" + in_words(effects),
        evidence=tuple(evidence),
        advice="Look at the application's log and a thread dump: poll() throws at each call, as over a record that "
        "cannot be deserialized (from the committed offset on: kcat -C -o OFFSET -c 1; a dead letter topic "
        "puts it aside), or its partitions are paused, or it works for long on what it was sent"
        + (f" (with Java and librdkafka for max.poll.interval.ms, {duration(limit)}, at most)." if limit else "."),
        cost_ms=lasted_ms,
        effects=effects,
        findings=signs.explained(_FINDINGS, halt.since, halt.until, groups=[halt.group]),
    )
