"""Members that live and ask for no records any more, while there are more."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders import apis
from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among, integers
from kafkascope.reports.columns.name_lists import in_words as partitions_in_words
from kafkascope.reports.columns.text import address_alone, counted
from kafkascope.reports.columns.topics import ID_PREFIX
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.holes.unseen import first_in
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, every, in_words
from kafkascope.reports.incidents.members.stuck import FINDINGS
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row, between
from kafkascope.reports.measures.progress.positions import SPAN
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.tables import TIME
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_HEARTBEATS = (apis.HEARTBEAT, apis.CONSUMER_GROUP_HEARTBEAT)
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
_ASKS_AGAIN = 5 * SECOND_NS  # who works on what it was sent for longer is not seen to ask as it is
_LEAVING_TAKES = 10 * SECOND_NS  # from the last heartbeat to being out of the group, for not having polled


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
    unseen: bool = False  # it may have asked until then: the capture has nothing of the time before


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
    lacking = {row["connection"] for row in exchanges.values() if row["answered"] is None}
    later = signs.last_answered(lacking)
    found = []
    for one, rows in waiting.items():
        last, beat = (exchanges.get((one.name, time)) for time in (one.fetch, one.beat))
        late = 0 if last is None else later.get(last["connection"], 0)
        halt = None if last is None or beat is None else _halt(signs, one, last, beat, late)
        if halt is not None and (its_own := _assigned(signs, halt, rows)) and not _is_explained(signs, halt):
            found.append(replace(halt, waiting=its_own))
    return found


def _what_waits(signs: Signs, alive: Sequence[_Alive]) -> dict[_Alive, tuple[Row, ...]]:
    """The last rows of lag of what each reads in which there is more; none if it works on, or often pauses so long."""
    of: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    where = among("group_id", [one.group for one in alive])
    where &= among("client_id", [one.name for one in alive])
    for row in signs.rows("lag", _LAG, where) if alive else ():
        of[row["group_id"], row["client_id"], row["client"]].append(row)
    return {one: _waiting(one, sorted(of[one[:3]], key=itemgetter("at"))) for one in alive}


def _waiting(one: _Alive, rows: Sequence[Row]) -> tuple[Row, ...]:
    read = sorted({row["at"] for row in rows if row["fetches"]})
    pause = max((later - earlier for earlier, later in pairwise(read)), default=0)
    last = {(row["topic"], row["partition"]): row for row in rows if row["at"] <= one.beat}
    waiting = tuple(last[key] for key in sorted(last) if not last[key]["fetches"] and last[key]["fetch_lag"])
    enough_ms = threshold("lag_stuck") * 1000
    commits = any(row["commit_stuck_ms"] is not None and row["commit_stuck_ms"] < enough_ms for row in waiting)
    if any(row["topic"].startswith(ID_PREFIX) for row in waiting):  # what it commits of that has the topic's name
        commits |= _moves_on([row for row in rows if row["at"] <= one.beat], one.beat - enough_ms * MILLISECOND_NS)
    return () if commits or one.beat - one.fetch < threshold("longest_pause") * pause else waiting


def _moves_on(rows: Sequence[Row], since: float) -> bool:
    """Whether some offset that is committed rose since a time, of rows in order of time."""
    before: dict[tuple[str, int], int] = {}
    for row in rows:
        if (offset := row["committed_offset"]) is not None:
            place = row["topic"], row["partition"]
            if row["at"] >= since and offset > before.get(place, offset):
                return True
            before[place] = offset
    return False


def _alive(signs: Signs) -> Iterator[_Alive]:
    """Members whose heartbeats went on long after their last fetch; by group and name.

    A client that is in several groups is left out: whose fetch it is, is told by the client.
    """
    enough = threshold("lag_stuck") * SECOND_NS
    spans = _last_spans(signs)
    groups = Counter(member[1:] for member in spans)
    asked = {member: span for member, span in spans.items() if signs.end - span.at >= enough}
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


def _halt(signs: Signs, one: _Alive, last: Row, beat: Row, later: int) -> Halt | None:
    """By its last fetch and heartbeat; None if the one was not answered well, or not that long ago.

    Of an answer the capture may lack a part, so that no error is known, or all, if a request that came later was
    answered (the latest of its connection: later). Where the capture stood still soon after that fetch, it may have
    asked on meanwhile.
    """
    answered = last["answered"] or (last["requested"] if last["requested"] < later else None)
    known = last["requested"] if answered is None else answered
    dark = first_in(signs, known, known + _ASKS_AGAIN)
    since = answered if dark is None else dark.until
    if since is None or last["error"] not in (Error.NONE, None) or last["throttle_ms"]:
        return None
    if beat["group_id"] != one.group or one.beat - since < threshold("lag_stuck") * SECOND_NS:
        return None
    packets = last["response_packet"], beat["request_packet"]
    return Halt(one.group, one.name, one.host, since, one.beat, packets, unseen=dark is not None)


def _assigned(signs: Signs, halt: Halt, waiting: Sequence[Row]) -> tuple[Row, ...]:
    """Those of the partitions that it was given last, as far as that is known: others it does not read any more."""
    rows = signs.rebalances_of(halt.group, halt.since)
    members = [one for row in rows[-1:] for one in row["members"] or () if one["client_id"] == halt.name]
    if not members or any(one["assignment"] is None for one in members):
        return tuple(waiting)
    given = {partition for one in members for partition in one["assignment"]}
    return tuple(row for row in waiting if f"{row['topic']}-{row['partition']}" in given)


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
    brokers = {broker for client, broker, name, _ in signs.parties if (client, name) == (halt.host, halt.name)}
    return (
        any(signs.rebalances_of(halt.group, halt.until - SECOND_NS, halt.since))
        or any(  # a rebalance that nobody is seen to begin
            row["event"] == EventKind.HEARTBEAT_REFUSED and row["detail"] == Error.REBALANCE_IN_PROGRESS
            for row in between(signs.events_of_group(halt.group), halt.since, halt.until - SECOND_NS)
        )
        or any(
            row["event"] == "left" and "poll timeout" in (row["detail"] or "") and row["client_id"] == halt.name
            for row in signs.events_of_group(halt.group)
            if halt.since <= row["at"] <= halt.until + _LEAVING_TAKES
        )
        or any(halt.since <= at <= halt.until for at in signs.once(_failed_at).get(halt.host, ()))
        or any(
            2 * (min(row["until"] or signs.end, halt.until) - max(row["since"], halt.since)) > halt.until - halt.since
            for row in signs.silences
            if address_alone(row["host"]) in brokers
        )
    )


def _failed_at(signs: Signs) -> dict[str, list[int]]:
    """When connects of each host failed."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in signs.failed_connects:
        if row["opened"] is not None:
            found[row["client"]].append(row["opened"])
    return found


def _halted(signs: Signs, halt: Halt) -> Incident:
    limit = signs.poll_intervals(halt.group).get(halt.name)
    lasted_ms = (halt.until - halt.since) / MILLISECOND_NS
    overdue = limit is not None and lasted_ms > limit
    lasted = duration(lasted_ms)
    partitions = partitions_in_words(f"{row['topic']}-{row['partition']}" for row in halt.waiting)
    waiting = sum(row["fetch_lag"] for row in halt.waiting)
    effects = (Effect("records", f"{counted(waiting, 'record')} wait", waiting),)
    heartbeats = Weighed("its last heartbeat: the process lives", halt.packets[1], halt.until, 0.6)
    text, packet = "the last answer to a fetch of it", halt.packets[0]
    if halt.unseen:
        text, packet = "it had asked for records until the capture stood still, and asked for none behind that", None
    elif packet is None:
        text = "its last fetch before: the capture lacks the answer, though it has that of a later request"
    evidence = [Weighed(text, packet, halt.since, 0.6), heartbeats]
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
            *every(Role.TOPIC, sorted({row["topic"] for row in halt.waiting})),
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
        findings=signs.explained(FINDINGS, halt.since, halt.until, groups=[halt.group]),
    )
