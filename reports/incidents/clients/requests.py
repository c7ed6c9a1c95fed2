"""Requests that are refused, or wait, for a reason that trying again does not mend."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.nearest import near_ones
from kafkascope.reports.columns.text import address, client_name, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.outage import Outage, out_at
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.holes.unseen import first_in
from kafkascope.reports.incidents.incident import EVIDENCE_SHOWN, Effect, Incident, Weighed, every
from kafkascope.reports.incidents.members.no_protocol import unjoined
from kafkascope.reports.incidents.planned.alterations import Alteration, altered_before
from kafkascope.reports.incidents.planned.changes import topics_deleted
from kafkascope.reports.incidents.planned.planned import comes_of
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import REPLICA_ERRORS, Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_Exchange = tuple[int, int]
"""Connection and number."""
_MISSING = re.compile(r"Source topics? (?P<names>\S+(?:, \S+)*) (?:is|are) missing")  # what coordinators say
_OF_CLIENTS = frozenset(
    {"Metadata", "Produce", "Fetch", "ListOffsets", "DescribeTopicPartitions", "OffsetForLeaderEpoch"}
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Errors that are an incident by themselves: what they are called, and what to do."""

    kind: IncidentKind
    errors: frozenset[str]
    severity: Severity
    words: str  # what the clients did, with a topic behind it
    advice: str
    least: str  # threshold: how many at least
    of_many: str | None = None  # what they did, with several topics behind it; None: the same words


_REFUSALS = (
    Refusal(
        IncidentKind.UNKNOWN_TOPIC,
        frozenset({Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_TOPIC_EXCEPTION}),
        Severity.WARNING,
        "asked for a topic that does not exist",
        "Compare the name in the client's configuration with the topics that there are; create the topic, or let "
        "brokers create it (auto.create.topics.enable).",
        "unknown_topic",
        "asked for topics that do not exist",
    ),
    Refusal(
        IncidentKind.RECORD_TOO_LARGE,
        frozenset({Error.MESSAGE_TOO_LARGE, Error.RECORD_LIST_TOO_LARGE}),
        Severity.WARNING,
        "sent records larger than is allowed",
        "Make batches or records smaller (batch.size, compression), or raise max.message.bytes of the topic (and "
        "replica.fetch.max.bytes, fetch.max.bytes of its readers).",
        "refused_records",
    ),
    Refusal(
        IncidentKind.TOO_FEW_REPLICAS,
        REPLICA_ERRORS,
        Severity.CRITICAL,
        "could not write, as fewer replicas are in sync than min.insync.replicas demands",
        "Bring the replicas back that are missing (see which brokers are down); a topic with min.insync.replicas "
        "equal to its replication factor cannot be written to while any broker is away.",
        "refused_records",
    ),
)

_OF_WRITERS = frozenset(
    {
        "Produce",
        "InitProducerId",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "TxnOffsetCommit",
        "EndTxn",
        "OffsetCommit",
    }
)
_FOR_GOOD = frozenset(
    {
        Error.UNKNOWN_SERVER_ERROR,
        Error.CORRUPT_MESSAGE,
        Error.INVALID_RECORD,
        Error.INVALID_TIMESTAMP,
        Error.INVALID_REQUEST,
        Error.INVALID_REQUIRED_ACKS,
        Error.INVALID_GROUP_ID,
        Error.INVALID_COMMIT_OFFSET_SIZE,
        Error.OFFSET_METADATA_TOO_LARGE,
        Error.INVALID_TRANSACTION_TIMEOUT,
        Error.INVALID_PRODUCER_ID_MAPPING,
        Error.POLICY_VIOLATION,
        Error.UNSUPPORTED_COMPRESSION_TYPE,
        Error.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        Error.UNSUPPORTED_VERSION,
    }
)
"""What is wrong with the request itself, or with the broker whatever the request."""
_NOT_FAILED = frozenset({Error.NONE, Error.TOPIC_ALREADY_EXISTS})


def refusals(signs: Signs) -> Iterator[Incident]:
    """Topics that clients cannot use."""
    found, missing = signs.once(outages), _told_missing(signs)
    not_made = {(one.client_id, topic) for one in signs.once(unjoined) for topic in one.topics}
    apart = threshold("one_trouble") * SECOND_NS
    for refusal in _REFUSALS:
        by_topic: dict[str, list[Row]] = defaultdict(list)
        for row in signs.errors:
            if row["error"] in refusal.errors and row["topic"] and row["api"] in _OF_CLIENTS:
                deleted = signs.once(topics_deleted).get(row["topic"], ())
                told = (row["client_id"], row["topic"]) in not_made or any(comes_of(row, one) for one in deleted)
                if not told:  # with that
                    by_topic[row["topic"]].append(row)
        alike: dict[frozenset[str | None], list[str]] = defaultdict(list)  # topics by who cannot use them
        for topic, rows in sorted(by_topic.items()):
            of_kind = sum(row["count"] for row in rows) >= threshold(refusal.least)
            if refusal.kind == IncidentKind.UNKNOWN_TOPIC:
                of_kind = topic in missing or (of_kind and _stays_unknown(signs, topic, rows))
            if of_kind:
                alike[frozenset(row["client_id"] for row in rows)].append(topic)
        for topics in alike.values():
            rows = sorted(
                chain.from_iterable(by_topic[topic] for topic in topics), key=lambda row: (row["first"], row["topic"])
            )
            if refusal.kind != IncidentKind.TOO_FEW_REPLICAS:  # what is wrong with requests has no end of its own
                yield _refusal(signs, refusal, topics, rows, None)
                continue
            for run in in_runs(rows, lambda run, row: row["first"] - run[-1]["last"] <= apart):
                yield _refusal(signs, refusal, topics, run, out_at(signs, found, run[0]["first"], run[0]["broker"]))


def _told_missing(signs: Signs) -> set[str]:
    """Topics that coordinators told Streams applications are missing."""
    told = (_MISSING.search(row["title"]) for row in signs.findings if row["kind"] == "source_topics_missing")
    return {topic for one in told if one is not None for topic in one["names"].split(", ")}


def _stays_unknown(signs: Signs, topic: str, rows: Sequence[Row]) -> bool:
    """Whether clients asked for long, and nobody read or wrote the topic at any time."""
    if max(row["last"] for row in rows) - rows[0]["first"] < threshold("unknown_topic_for") * SECOND_NS:
        return False
    return topic not in signs.used_topics


def _refusal(
    signs: Signs, refusal: Refusal, topics: Sequence[str], rows: Sequence[Row], outage: Outage | None
) -> Incident:
    since, until = rows[0]["first"], max(row["last"] for row in rows)
    count = sum(row["count"] for row in rows)
    names = sorted({row["client_id"] for row in rows if row["client_id"]})
    by_error: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        by_error[row["api"], row["error"]] += row["count"]
    told = ", ".join(f"{api} {error} {counted(n, 'time')}" for (api, error), n in sorted(by_error.items()))
    severity = refusal.severity
    words = refusal.of_many if refusal.of_many and len(topics) > 1 else refusal.words
    also, advice, evidence = "", refusal.advice, answers(rows)
    if refusal.kind == IncidentKind.UNKNOWN_TOPIC and (of_making := _not_made(signs, topics)):
        error = Error[of_making[0]["error"]]
        makers = listed(sorted({row["client_id"] for row in of_making if row["client_id"]}) or ["a client"])
        also = f", as {makers} could not create {'it' if len(topics) == 1 else 'them'}: {error}"
        advice = error.advice
        evidence += [*answers(of_making), *_reasons(signs, error, "CreateTopics", of_making[0]["first"])]
    near = ""
    if refusal.kind == IncidentKind.UNKNOWN_TOPIC and len(topics) == 1:
        near = near_ones(topics[0], signs.used_topics - {*topics}).replace("; ", " (", 1)
        near += ")" if near else ""
    altered = altered_before(signs, {row["error"] for row in rows}, topics, since)
    if refusal.kind == IncidentKind.TOO_FEW_REPLICAS and outage is not None:
        severity = Severity.WARNING  # the broker's incident is the cause, and stands before it
        also = (
            f", after {signs.broker_words(outage.host, outage.started)} had {'gone' if outage.gone else 'stood still'}"
        )
    elif altered is not None:
        also, advice = f", after {altered.words}", _set_back(altered, advice)
        evidence.append(altered.evidence(0.6))
    return Incident(
        kind=refusal.kind,
        severity=severity,
        certainty=Certainty.CERTAIN,
        subjects=(*every(Role.TOPIC, topics[:EVIDENCE_SHOWN]), *signs.clients(names, signs.asked_from(rows))),
        started=since,
        ended=until,
        headline=f"{listed(names or ['a client'])} {words}: {listed(topics)}{near}, from {clock(since)} to "
        f"{clock(until)}{also} ({told})",
        evidence=tuple(evidence),
        advice=advice,
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=(Effect("requests", f"{counted(count, 'request')} refused", count, (until - since) / MILLISECOND_NS),),
        findings=signs.explained(("error_loop", "metadata_storm", "sent_again"), since, until, clients=names)
        | _of_streams(signs, topics, names),
    )


def _set_back(altered: Alteration, advice: str) -> str:
    """What to do where somebody changed a setting before."""
    return f"Set {altered.setting} of {altered.of} back, if what came of it was not meant. Else: {advice}"


def _of_streams(signs: Signs, topics: Sequence[str], names: Sequence[str]) -> frozenset[str]:
    """Findings that Streams applications have no work, as these topics are missing."""
    return frozenset(
        row["id"]
        for row in signs.findings
        if row["kind"] == "source_topics_missing"
        and {*row["client_ids"]} <= {*names}
        and any(map(row["title"].count, topics))
    )


def answers(rows: Sequence[Row]) -> list[Weighed]:
    """Rows of ``error_histogram`` as evidence."""
    return [
        Weighed(
            f"{row['api']} of {client_name(row['client_id'])} answered {row['error']} by {row['broker']}, "
            f"{counted(row['count'], 'time')}",
            row["first_packet"],
            row["first"],
            0.9,
        )
        for row in rows
    ]


def refused_for_good(signs: Signs) -> Iterator[Incident]:
    """Clients that write, commit or begin transactions in a way that brokers never accept."""
    by_error: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in signs.errors:
        if row["error"] in _FOR_GOOD and row["api"] in _OF_WRITERS:
            by_error[row["error"], row["api"]].append(row)
    for (error, api), rows in sorted(by_error.items()):
        if sum(row["count"] for row in rows) >= threshold("refused_for_good"):
            yield _refused_for_good(signs, Error[error], api, rows)


def _refused_for_good(signs: Signs, error: Error, api: str, rows: Sequence[Row]) -> Incident:
    since, until = min(row["first"] for row in rows), max(row["last"] for row in rows)
    count = sum(row["count"] for row in rows)
    names = sorted({row["client_id"] for row in rows if row["client_id"]})
    topics = {row["topic"] for row in rows if row["topic"]}
    groups = sorted({row["group_id"] for row in rows if row["group_id"]})
    what = f"{api} to {listed(topics)}" if topics else api
    evidence, advice, also = [*answers(rows), *_reasons(signs, error, api, since)], error.advice, ""
    if (altered := altered_before(signs, [error], topics, since)) is not None:
        also, advice = f", after {altered.words}", _set_back(altered, advice)
        evidence.append(altered.evidence(0.6))
    return Incident(
        kind=IncidentKind.REQUEST_REFUSED,
        severity=Severity.WARNING,
        certainty=Certainty.CERTAIN,
        subjects=(
            *signs.clients(names, signs.asked_from(rows)),
            *every(Role.TOPIC, sorted(topics)),
            *every(Role.GROUP, groups[:EVIDENCE_SHOWN]),
        ),
        started=since,
        ended=until,
        headline=f"{what} of {listed(names or ['a client'])} is refused as {error}, {counted(count, 'time')} from "
        f"{clock(since)} to {clock(until)}: {error.meaning[0].lower()}{error.meaning[1:-1]}{also}",
        evidence=tuple(evidence),
        advice=advice,
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=(Effect("requests", f"{counted(count, 'request')} refused", count, (until - since) / MILLISECOND_NS),),
        findings=signs.explained(("error_loop", "sent_again"), since, until, clients=names)
        | frozenset(
            row["id"]
            for row in signs.findings_in(("commit_refused",), since, until)
            if {*row["client_ids"]} <= {*names}
        ),
    )


def _not_made(signs: Signs, topics: Sequence[str]) -> list[Row]:
    """Errors of those who wanted to create some topics, in one way that fails."""
    rows = [row for row in signs.errors if row["api"] == "CreateTopics" and row["topic"] in topics]
    known = [row for row in rows if row["error"] in Error.__members__ and row["error"] not in _NOT_FAILED]
    return [row for row in known if row["error"] == known[0]["error"]]


def _reasons(signs: Signs, error: Error, api: str, at: int) -> Iterator[Weighed]:
    """The broker's words with the first of such errors that has any."""
    columns = ["at", "connection", "number", "message"]
    where = (pc.field("error") == error) & (pc.field("api") == api) & pc.field("message").is_valid()
    firsts = [
        min(
            tuple(row.values())
            for row in batch.sort_by([(name, "ascending") for name in columns]).slice(0, 1).to_pylist()
        )
        for batch in signs.batches("errors", columns, where)
    ]
    if firsts:
        yield Weighed(f"the broker says why: {min(firsts)[-1]}", None, at, 0.9)


def waiting_for_replicas(signs: Signs) -> Iterator[Incident]:
    """Writes with acks=all that living brokers could not confirm while others were away."""
    gone = [outage for outage in signs.once(outages) if outage.gone]
    if not gone:
        return
    refused = [row for row in signs.errors if row["error"] in REPLICA_ERRORS]
    late = pc.field("latency_ms").is_null() | (pc.field("latency_ms") >= threshold("replicas_late") * 1000)
    from_all = (pc.field("api") == "Produce") & pc.match_substring(pc.field("request"), '"acks": -1')
    columns = ("connection", "number", "client_id", "requested", "answered", "request_packet")
    rows = [row for row in signs.rows("exchanges", columns, from_all & late) if row["requested"] is not None]
    answered = signs.last_answered({row["connection"] for row in rows if row["answered"] is None})
    connections = signs.connections_by_number(sorted({row["connection"] for row in rows}))
    anew = _opened_anew(signs, connections, rows)
    waited: dict[tuple[int, ...], list[Row]] = defaultdict(list)  # by the places of those that were away
    for row in rows:
        connection = connections.get(row["connection"], {})
        over = _over(signs, row, connection, answered.get(row["connection"], 0), anew.get(row["connection"]))
        if over is not None and over - row["requested"] >= threshold("replicas_late") * SECOND_NS:
            row["over"] = over
            asked = signs.where(address(connection["broker"], connection["broker_port"])) if connection else None
            places = (at for at, one in enumerate(gone) if _waited_in(signs, row, asked, one))
            if not any(_came_with(row, one) for one in refused):  # else that is told
                waited[tuple(places)].append(row)
    of_others = {away: found for away, found in sorted(waited.items()) if away}
    topics = _written_to(signs, [row for found in of_others.values() for row in found])
    for away, found in of_others.items():
        found.sort(key=lambda row: (row["requested"], row["request_packet"]))
        yield _waiting(signs, [gone[at] for at in away], found, topics)


def _over(signs: Signs, row: Row, connection: Row, later: int, anew: int | None) -> int | None:
    """Until when a write is seen to wait; None if the capture lacks its answer, or may lack how its connection ended.

    later: when the latest request there was made that was answered; anew: when its client opened another connection.
    """
    if row["answered"] is not None:
        return int(row["answered"])
    if row["requested"] < later or connection.get("packets_down") == 0:
        return None
    ended = connection.get("closed") or anew
    if ended is None and signs.was_filtered:
        return None
    until = signs.end if ended is None else ended
    dark = first_in(signs, row["requested"], until)
    return until if dark is None else dark.since  # it may have been answered then


def _opened_anew(signs: Signs, connections: Mapping[int, Row], rows: Sequence[Row]) -> dict[int, int]:
    """When the clients of connections whose end the capture lacks opened another one to the same broker.

    A client has one for what it writes there. So it had given up the one before, unless that has a later request.
    """
    latest = {row["connection"]: row["requested"] for row in sorted(rows, key=lambda row: int(row["requested"]))}
    still = {number: row for number, row in connections.items() if row["closed"] is None}
    times: dict[tuple[str, ...], list[int]] = defaultdict(list)
    whose = {(row["client"], row["client_id"]) for row in still.values()}
    for row in signs.connections_of(whose) if whose else ():
        if row["opened"] is not None:
            times[_between(row)].append(row["opened"])
    opened = {key: sorted(of_key) for key, of_key in times.items()}
    found: dict[int, int] = {}
    for number, row in still.items():
        of_row = opened.get(_between(row), [])
        place = bisect_right(of_row, latest[number])
        if place < len(of_row):
            found[number] = of_row[place]
    return found


def _between(connection: Row) -> tuple[str, ...]:
    """Whose connection it is, and where to."""
    return tuple(str(connection[name]) for name in ("client", "client_id", "broker", "broker_port"))


def _waited_in(signs: Signs, row: Row, broker: str | None, outage: Outage) -> bool:
    """Whether another broker than the one that was asked was away, at least for the later half of the time."""
    until = signs.end if outage.ended is None else outage.ended
    half = (row["requested"] + row["over"]) // 2
    return broker not in (None, outage.host) and bool(outage.started <= half and row["requested"] <= until)


def _came_with(row: Row, refused: Row) -> bool:
    """Whether others were refused before a write was late, or as it began."""
    late = row["requested"] + threshold("replicas_late") * SECOND_NS
    return bool(refused["first"] <= late and row["requested"] <= refused["last"])


def _written_to(signs: Signs, writes: Sequence[Row]) -> dict[_Exchange, set[str]]:
    """The topics of each of these exchanges."""
    found: dict[_Exchange, set[str]] = {(row["connection"], row["number"]): set() for row in writes}
    where = pc.field("connection").isin(sorted({connection for connection, _ in found})) & (
        pc.field("api") == "Produce"
    )
    where &= pc.field("number").isin(sorted({number for _, number in found}))
    for row in signs.rows("partitions", ["connection", "number", "topic"], where) if found else ():
        if (topics := found.get((row["connection"], row["number"]))) is not None:
            topics.add(row["topic"])
    return found


def _waiting(
    signs: Signs, away: Sequence[Outage], rows: Sequence[Row], topics_of: Mapping[_Exchange, set[str]]
) -> Incident:
    topics = set[str]().union(*(topics_of[row["connection"], row["number"]] for row in rows))
    names = sorted({row["client_id"] for row in rows if row["client_id"]})
    since, until = rows[0]["requested"], max(row["over"] for row in rows)
    longest = max(row["over"] - row["requested"] for row in rows) / MILLISECOND_NS
    return Incident(
        kind=IncidentKind.TOO_FEW_REPLICAS,
        severity=Severity.WARNING,  # the broker's incident is the cause, and stands before it
        certainty=Certainty.LIKELY,
        subjects=(*every(Role.TOPIC, sorted(topics)), *signs.clients(names, signs.asked_from(rows))),
        started=since,
        ended=until,
        headline=f"{counted(len(rows), 'write')} with acks=all of {listed(names or [client_name(None)])}"
        f"{f' to {listed(topics)}' if topics else ''} waited for up to {duration(longest)} from {clock(since)} on: "
        f"{'its leader was' if len(rows) == 1 else 'their leaders were'} there, but replicas on "
        f"{listed([signs.broker_words(one.host, one.started) for one in away])} were not",
        evidence=tuple(
            Weighed(
                f"Produce with acks=all of {client_name(row['client_id'])} "
                + ("was never answered" if row["answered"] is None else f"answered {clock(row['answered'])}"),
                row["request_packet"],
                row["requested"],
                0.7,
            )
            for row in rows
        ),
        advice="A leader confirms acks=all only when all replicas in sync have the records: bring the broker back, "
        "or make sure that a majority of controllers is left to take it out of the set (three controllers, "
        "min.insync.replicas below the number of replicas).",
        cost_ms=longest,
        effects=(
            Effect(
                "requests", f"{counted(len(rows), 'write')} waited for up to {duration(longest)}", len(rows), longest
            ),
        ),
        findings=signs.explained(("unanswered", "sent_again"), since, until, clients=names),
    )
