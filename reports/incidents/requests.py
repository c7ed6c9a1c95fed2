"""Requests that are refused for a reason that trying again does not mend, and clients that brokers hold back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.name_lists import in_words, listed
from kafkascope.reports.columns.text import address, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers import Outage, out_at, outages, topic_subjects
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed
from kafkascope.reports.incidents.signs import MOST_ROWS, Row, Signs
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_EVIDENCE_OF_ERRORS = 8
_OF_TRANSACTIONS = ("Produce", "EndTxn", "InitProducerId")
_TRANSACTION = {
    "name": r'"transactionalId": "(?P<name>[^"\\]+)"',
    "timeout_ms": r'"transactionTimeoutMs": (?P<timeout_ms>[0-9]{1,9})\b',
}
_RAFT_LOG = "__cluster_metadata"  # has no transactions of producers
_ADVICE_HUNG = (
    "Find out why the producer neither commits nor aborts in time (a slow step in the midst of the transaction, a "
    "process that stopped); kafka-transactions.sh find-hanging and abort end one by hand, transaction.timeout.ms "
    "says when the coordinator does."
)
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


_REFUSALS = (
    Refusal(
        IncidentKind.UNKNOWN_TOPIC,
        frozenset({Error.UNKNOWN_TOPIC_OR_PARTITION, Error.INVALID_TOPIC_EXCEPTION}),
        Severity.WARNING,
        "asked for a topic that does not exist",
        "Compare the name in the client's configuration with the topics that there are; create the topic, or let "
        "brokers create it (auto.create.topics.enable).",
        "unknown_topic",
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
        frozenset({Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND}),
        Severity.CRITICAL,
        "could not write, as fewer replicas are in sync than min.insync.replicas demands",
        "Bring the replicas back that are missing (see which brokers are down); a topic with min.insync.replicas "
        "equal to its replication factor cannot be written to while any broker is away.",
        "refused_records",
    ),
)


_REPLICA_ERRORS = frozenset({Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND})


def refusals(signs: Signs) -> Iterator[Incident]:
    """Topics that clients cannot use."""
    found = outages(signs)
    for refusal in _REFUSALS:
        by_topic: dict[str, list[Row]] = defaultdict(list)
        for row in signs.errors:
            if row["error"] in refusal.errors and row["topic"] and row["api"] in _OF_CLIENTS:
                by_topic[row["topic"]].append(row)
        for topic, rows in sorted(by_topic.items()):
            if sum(row["count"] for row in rows) < threshold(refusal.least):
                continue
            if refusal.kind == IncidentKind.UNKNOWN_TOPIC and not _stays_unknown(signs, topic, rows):
                continue
            yield _refusal(signs, refusal, topic, rows, out_at(found, rows[0]["first"], signs.end))


def _stays_unknown(signs: Signs, topic: str, rows: Sequence[Row]) -> bool:
    """Whether clients asked for long, and nobody read or wrote the topic at any time."""
    if max(row["last"] for row in rows) - rows[0]["first"] < threshold("unknown_topic_for") * SECOND_NS:
        return False
    return topic not in signs.used_topics


def _refusal(signs: Signs, refusal: Refusal, topic: str, rows: Sequence[Row], outage: Outage | None) -> Incident:
    since, until = rows[0]["first"], max(row["last"] for row in rows)
    count = sum(row["count"] for row in rows)
    names = sorted({row["client_id"] for row in rows if row["client_id"]})
    by_error: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        by_error[row["api"], row["error"]] += row["count"]
    told = ", ".join(f"{api} {error} {counted(n, 'time')}" for (api, error), n in sorted(by_error.items()))
    severity = refusal.severity
    also = ""
    if refusal.kind == IncidentKind.TOO_FEW_REPLICAS and outage is not None:
        severity = Severity.WARNING  # the broker's incident is the cause, and stands before it
        also = f", after {signs.broker_words(outage.host)} had {'gone' if outage.gone else 'stood still'}"
    return Incident(
        kind=refusal.kind,
        severity=severity,
        certainty=Certainty.CERTAIN,
        subjects=(Subject(Role.TOPIC, topic), *signs.clients(names)),
        started=since,
        ended=until,
        headline=f"{listed(names or ['a client'])} {refusal.words}: {topic}, from {clock(since)} to "
        f"{clock(until)}{also} ({told})",
        evidence=tuple(
            Weighed(
                f"{row['api']} of {row['client_id']} answered {row['error']} by {row['broker']}, "
                f"{counted(row['count'], 'time')}",
                row["first_packet"],
                row["first"],
                0.9,
            )
            for row in rows[:_EVIDENCE_OF_ERRORS]
        ),
        advice=refusal.advice,
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=(Effect("requests", f"{counted(count, 'request')} refused", count, (until - since) / MILLISECOND_NS),),
        findings=_of_clients(signs, names, ("error_loop", "metadata_storm", "sent_again"), since, until),
    )


def waiting_for_replicas(signs: Signs) -> Iterator[Incident]:
    """Writes with acks=all that living brokers could not confirm while another broker was away."""
    for outage in outages(signs):
        if not outage.gone or any(row["error"] in _REPLICA_ERRORS for row in signs.errors):
            continue
        until = signs.end if outage.ended is None else outage.ended
        late = pc.field("latency_ms").is_null() | (pc.field("latency_ms") >= threshold("replicas_late") * 1000)
        from_all = (pc.field("api") == "Produce") & pc.match_substring(pc.field("request"), '"acks": -1')
        columns = ("connection", "number", "client_id", "requested", "answered", "request_packet")
        rows = [
            row
            for row in signs.rows("exchanges", columns, from_all & late)
            if row["requested"] is not None
            and outage.started - SECOND_NS <= row["requested"] <= until
            and (row["answered"] or signs.end) - row["requested"] >= threshold("replicas_late") * SECOND_NS
        ]
        elsewhere = signs.connections_by_number(sorted({row["connection"] for row in rows}))
        rows = [row for row in rows if elsewhere.get(row["connection"], {}).get("broker") not in (None, outage.host)]
        if rows:
            yield _waiting(signs, outage, sorted(rows, key=lambda row: (row["requested"], row["request_packet"])))


def _waiting(signs: Signs, outage: Outage, rows: Sequence[Row]) -> Incident:
    numbers = {(row["connection"], row["number"]) for row in rows}
    where = pc.field("connection").isin(sorted({row["connection"] for row in rows})) & (pc.field("api") == "Produce")
    topics = {
        row["topic"]
        for row in signs.rows("partitions", ["connection", "number", "topic"], where)
        if (row["connection"], row["number"]) in numbers
    }
    names = sorted({row["client_id"] for row in rows if row["client_id"]})
    since, until = rows[0]["requested"], max(row["answered"] or signs.end for row in rows)
    longest = max((row["answered"] or signs.end) - row["requested"] for row in rows) / MILLISECOND_NS
    return Incident(
        kind=IncidentKind.TOO_FEW_REPLICAS,
        severity=Severity.WARNING,  # the broker's incident is the cause, and stands before it
        certainty=Certainty.LIKELY,
        subjects=(*topic_subjects(topics), *signs.clients(names)),
        started=since,
        ended=until,
        headline=f"{counted(len(rows), 'write')} with acks=all of {listed(names)} to {listed(topics)} waited for up "
        f"to {duration(longest)} from {clock(since)} on: their leaders were there, but replicas on "
        f"{signs.broker_words(outage.host)} were not",
        evidence=tuple(
            Weighed(
                f"Produce with acks=all of {row['client_id']} "
                + ("was never answered" if row["answered"] is None else f"answered {clock(row['answered'])}"),
                row["request_packet"],
                row["requested"],
                0.7,
            )
            for row in rows[:_EVIDENCE_OF_ERRORS]
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
        findings=_of_clients(signs, names, ("unanswered", "sent_again"), since, until),
    )


def offsets_lost(signs: Signs) -> Iterator[Incident]:
    """Consumers whose position is no longer in the log; followers among the brokers find that out for themselves."""
    by_topic: dict[str, list[Row]] = defaultdict(list)
    for row in signs.errors:
        if row["error"] == Error.OFFSET_OUT_OF_RANGE and row["topic"] and not _is_broker(signs, row["client_id"]):
            by_topic[row["topic"]].append(row)
    for topic, rows in sorted(by_topic.items()):
        since, until = rows[0]["first"], max(row["last"] for row in rows)
        names = sorted({row["client_id"] for row in rows if row["client_id"]})
        groups = sorted({group for name in names for group in signs.groups_of.get(name, [])})
        if not groups and not _had_read(signs, topic, rows):
            continue  # a tool that asked for a place of its own choice
        skipped = _skipped(signs, topic, since)
        partitions = sorted({f"{topic}-{row['partition']}" for row in rows if row["partition"] is not None})
        lost = sum(skipped.values())
        cost = f"; {lost:,} records were deleted before they were read" if lost else ""
        effects = [Effect("partitions", f"positions lost in {in_words(partitions)}", len(partitions))]
        if lost:
            effects.append(Effect("records", f"{lost:,} records deleted before they were read", lost))
        yield Incident(
            kind=IncidentKind.OFFSETS_LOST,
            severity=Severity.CRITICAL,
            certainty=Certainty.CERTAIN,
            subjects=(
                *(Subject(Role.GROUP, group) for group in groups),
                Subject(Role.TOPIC, topic),
                *signs.clients(names),
            ),
            started=since,
            ended=until,
            headline=f"{listed(names or ['a consumer'])}{f' of group {listed(groups)}' if groups else ''} lost its "
            f"position in {in_words(partitions)} at {clock(since)}: the log does not have it any more{cost}",
            evidence=tuple(
                Weighed(
                    f"Fetch of {topic}-{row['partition']} by {row['client_id']} answered OFFSET_OUT_OF_RANGE by "
                    f"{row['broker']}",
                    row["first_packet"],
                    row["first"],
                    0.95,
                )
                for row in rows[:_EVIDENCE_OF_ERRORS]
            ),
            advice="Compare the topic's retention (retention.ms, retention.bytes, or who ran kafka-delete-records) "
            "with how far the group was behind; auto.offset.reset decides whether it goes on at the oldest record "
            "that is left or at the end.",
            cost_ms=(until - since) / MILLISECOND_NS,
            effects=tuple(effects),
            findings=_of_groups(
                signs, groups, ("consumer_stuck", "lag_growing", "commits_stopped", "read_again"), since, until
            ),
        )


def _had_read(signs: Signs, topic: str, errors: Sequence[Row]) -> bool:
    """Whether records of a topic had been sent on the same connection before."""
    since = {row["first_connection"]: row["first"] for row in reversed(errors)}
    where = (pc.field("topic") == topic) & pc.field("connection").isin(list(since)) & (pc.field("records") > 0)
    rows = (row for batch in signs.batches("partitions", ["at", "connection"], where) for row in batch.to_pylist())
    return any(row["at"] is not None and row["at"] < since[row["connection"]] for row in rows)


def _skipped(signs: Signs, topic: str, since: int) -> dict[int, int]:
    """Records between the position that was lost and the beginning of the log, by partition, as far as it was told."""
    where = (pc.field("topic") == topic) & pc.field("api").isin(["Fetch"])
    rows = signs.rows("partitions", ["at", "partition", "fetch_offset", "log_start_offset", "error"], where)
    lost: dict[int, int] = {}
    starts: dict[int, int] = {}
    for row in rows:
        if (
            row["log_start_offset"] is not None
            and row["at"] is not None
            and row["at"] >= since
            and row["log_start_offset"] >= 0
        ):
            starts[row["partition"]] = max(starts.get(row["partition"], 0), row["log_start_offset"])
        if row["error"] == Error.OFFSET_OUT_OF_RANGE and row["fetch_offset"] is not None:
            lost.setdefault(row["partition"], row["fetch_offset"])
    return {partition: starts[partition] - at for partition, at in lost.items() if starts.get(partition, 0) > at}


def _is_broker(signs: Signs, client_id: str | None) -> bool:
    hosts = signs.hosts_of.get(client_id or "", [])
    return bool(hosts) and all(host in signs.brokers for host in hosts)


# --- findings that are incidents by themselves -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """A kind of finding about one client that is an incident; findings of one client id are one, of many "
    "clients too."""

    kind: IncidentKind
    findings: frozenset[str]
    severity: Severity
    certainty: Certainty
    also: tuple[str, ...] = ()  # findings that it explains


_TOLD = (
    Told(
        IncidentKind.AUTHENTICATION_FAILED,
        frozenset({"authentication_failed"}),
        Severity.CRITICAL,
        Certainty.CERTAIN,
        ("connection_churn", "api_versions_storm", "unanswered"),
    ),
    Told(
        IncidentKind.AUTHORIZATION_FAILED,
        frozenset({"authorization_failed"}),
        Severity.WARNING,
        Certainty.CERTAIN,
        ("error_loop", "metadata_storm"),
    ),
    Told(IncidentKind.THROTTLED, frozenset({"throttled"}), Severity.WARNING, Certainty.CERTAIN),
    Told(
        IncidentKind.CONNECTION_STORM,
        frozenset({"connection_churn"}),
        Severity.WARNING,
        Certainty.CERTAIN,
        ("api_versions_storm", "metadata_storm", "old_protocol"),
    ),
)


def told(signs: Signs) -> Iterator[Incident]:
    """Incidents out of findings about clients."""
    refused = {row["subject"] for row in signs.findings if row["kind"] == "authentication_failed"}
    for one in _TOLD:
        by_client: dict[str, list[Row]] = defaultdict(list)
        for row in signs.findings:
            if row["kind"] not in one.findings:
                continue
            if one.kind == IncidentKind.CONNECTION_STORM and (row["subject"] in refused or _is_of_broker(signs, row)):
                continue  # that it tries again and again is told with the cause
            by_client[_client_of(row)[0]].append(row)
        if len(by_client) >= threshold("alike"):
            yield _told(signs, one, sorted(by_client), [row for found in by_client.values() for row in found])
            continue
        for name, found in sorted(by_client.items()):
            yield _told(signs, one, [name], found)


def _told(signs: Signs, one: Told, names: Sequence[str], found: Sequence[Row]) -> Incident:
    """What one client does, or many alike."""
    hosts = list(dict.fromkeys(_client_of(row)[1] for row in found))
    since, until = min(row["since"] for row in found), max(row["until"] or row["since"] for row in found)
    subjects = (*(Subject(Role.CLIENT, name) for name in names), *(Subject(Role.HOST, host) for host in hosts))
    worst = max(found, key=lambda row: (row["weight"] or 0, row["id"]))
    if len(names) == 1:
        who, what = f"{names[0]} ({listed(hosts)})", "; ".join(dict.fromkeys(row["title"] for row in found))
    else:
        who, what = f"{len(names):,} clients alike ({listed(names)})", worst["title"]
    what = what[:1].lower() + what[1:]
    return Incident(
        kind=one.kind,
        severity=one.severity,
        certainty=one.certainty,
        subjects=subjects,
        started=since,
        ended=until,
        headline=f"{who}, {clock(since)} to {clock(until)}: {'' if len(names) == 1 else 'the worst: '}{what}",
        evidence=tuple(
            Weighed(seen["text"], seen["packet"], seen["at"], 0.8) for row in found for seen in row["evidence"] or ()
        ),
        advice=found[0]["advice"],
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=(
            Effect("time", f"for {duration((until - since) / MILLISECOND_NS)}", None, (until - since) / MILLISECOND_NS),
        ),
        findings=frozenset(row["id"] for row in found) | _of_clients(signs, names, one.also, since, until),
    )


def _client_of(finding: Row) -> tuple[str, str]:
    """Client id and address of a finding's subject: ``client ID (ADDRESS)``."""
    name, _, host = finding["subject"].removeprefix("client ").rpartition(" (")
    return name, host.removesuffix(")")


def _is_of_broker(signs: Signs, finding: Row) -> bool:
    return _client_of(finding)[1] in signs.brokers


def lagging(signs: Signs) -> Iterator[Incident]:
    """Groups that read and commit, and fall behind all the same, in all partitions of a topic together."""
    for (group, topic), spans in sorted(_lag_by_span(signs).items()):
        most = max(span.partitions for span in spans)
        whole = sorted((span for span in spans if span.partitions == most), key=lambda span: span.at)
        first, last = whole[0], whole[-1]
        seconds = (last.at - first.at) / SECOND_NS
        if len(whole) < _LEAST_SPANS or seconds < threshold("falling_behind_for"):
            continue
        written = (last.end - first.end) / seconds
        rising = sum(later.lag > earlier.lag for earlier, later in pairwise(whole))
        if (
            written <= 0
            or rising < _RISING * (len(whole) - 1)
            or last.lag - first.lag < threshold("behind") * written
            or sum(span.commits > 0 for span in whole) < _RISING * len(whole)
            or any(
                row["group_id"] == group
                and first.at < (row["started"] or 0) - 10 * SECOND_NS
                and row["started"] <= last.at
                for row in signs.rebalances
            )
        ):
            continue
        names = sorted(name for name, groups in signs.groups_of.items() if group in groups)
        grown = last.lag - first.lag
        text = f"the lag grew by {grown:,} to {last.lag:,} records in {seconds:,.0f} s"
        yield Incident(
            kind=IncidentKind.CONSUMER_LAGGING,
            severity=Severity.WARNING,
            certainty=Certainty.CERTAIN,
            subjects=(Subject(Role.GROUP, group), Subject(Role.TOPIC, topic), *signs.clients(names)),
            started=first.at,
            ended=None,
            headline=f"group {group} reads {topic} more slowly than is written from {clock(first.at)} on: {text}; "
            f"{written:,.0f} records a second are written, {written - grown / seconds:,.0f} are read",
            evidence=tuple(
                Weighed(f"in the span that begins here it was {span.lag:,} records behind", None, span.at, 0.7)
                for span in whole[:: max(1, len(whole) // _EVIDENCE_OF_ERRORS)]
            ),
            advice="Give the group more members (up to the number of partitions) or make processing faster; see "
            "latency for whether its fetches are slow, and for the application's time between an answer and the "
            "next request.",
            cost_ms=1000 * last.lag / written,
            effects=(Effect("records", text, last.lag),),
            findings=_of_groups(signs, [group], ("lag_growing", "commits_stopped"), first.at, last.at),
        )


@dataclass(slots=True)
class Span:
    """All partitions of a topic that a group reads, in one span of time."""

    at: int
    partitions: int
    lag: int
    end: int
    commits: int


_LEAST_SPANS = 4  # fewer make no trend
_RISING = 0.75  # of the steps from span to span, and of the spans with commits: one may come late


def _lag_by_span(signs: Signs) -> dict[tuple[str, str], list[Span]]:
    found: dict[tuple[str, str], dict[int, Span]] = defaultdict(dict)
    where = pc.field("group_id").is_valid() & pc.field("lag").is_valid()
    for batch in signs.batches("lag", ("group_id", "topic", "at", "lag", "end_offset", "commits"), where):
        sums = batch.group_by(["group_id", "topic", "at"]).aggregate(
            [("lag", "count"), ("lag", "sum"), ("end_offset", "sum"), ("commits", "sum")]
        )
        for row in sums.to_pylist():
            span = found[row["group_id"], row["topic"]].setdefault(row["at"], Span(row["at"], 0, 0, 0, 0))
            span.partitions += row["lag_count"]
            span.lag += row["lag_sum"]
            span.end += row["end_offset_sum"] or 0
            span.commits += row["commits_sum"] or 0
    return {key: list(spans.values()) for key, spans in found.items()}


def hung(signs: Signs) -> Iterator[Incident]:
    """Transactions that stay open while records behind them wait: by the producer, where its records were seen."""
    where = (pc.field("last_stable_offset") < pc.field("high_watermark")) & (pc.field("topic") != _RAFT_LOG)
    keys = ("topic", "partition", "last_stable_offset")
    held: dict[tuple[str, int, int], tuple[int, int]] = {}
    for batch in signs.batches("partitions", (*keys, "at", "high_watermark"), where):
        for row in batch.group_by(list(keys)).aggregate([("at", "min"), ("at", "max")]).to_pylist():
            key = row["topic"], row["partition"], row["last_stable_offset"]
            first, last = held.get(key, (row["at_min"], row["at_max"]))
            held[key] = min(first, row["at_min"]), max(last, row["at_max"])
    by_producer: dict[tuple[int | None, str | None], list[tuple[str, int, int, int, int]]] = defaultdict(list)
    for (topic, partition, offset), (first, last) in sorted(held.items()):
        if last - first >= threshold("open_transaction") * SECOND_NS:
            by_producer[_producer(signs, topic, partition, offset)].append((topic, partition, offset, first, last))
    for (connection, client_id), found in sorted(by_producer.items(), key=str):
        since, until = min(first for *_, first, _ in found), max(last for *_, last in found)
        partitions = in_words(f"{topic}-{partition}" for topic, partition, *_ in found)
        topics = sorted({topic for topic, *_ in found})
        lasted = (until - since) / MILLISECOND_NS
        who = f"a transaction of {client_id}" if client_id else "a transaction (its producer is not in the capture)"
        clients = tuple(signs.clients([client_id])) if client_id else ()
        yield Incident(
            kind=IncidentKind.HUNG_TRANSACTION,
            severity=Severity.CRITICAL,
            certainty=Certainty.CERTAIN if client_id else Certainty.LIKELY,
            subjects=(*clients, *(Subject(Role.TOPIC, topic) for topic in topics)),
            started=since,
            ended=until,
            headline=f"{who} stayed open: readers of committed records of {partitions} saw nothing new for "
            f"{duration(lasted)} from {clock(since)} on",
            evidence=tuple(
                Weighed(
                    f"{topic}-{partition}: the last stable offset stays at {offset}, below the high watermark, for "
                    f"{duration((last - first) / MILLISECOND_NS)}",
                    connection,
                    first,
                    0.9,
                )
                for topic, partition, offset, first, last in found[:_EVIDENCE_OF_ERRORS]
            ),
            advice=_ADVICE_HUNG,
            cost_ms=lasted * len(found),
            effects=(Effect("partitions", f"{partitions} held back for {duration(lasted)}", len(found), lasted),),
            findings=_chosen(signs, ("hanging_transaction", "commits_stopped"), since, until, lambda _: True),
        )


def overdue(signs: Signs) -> Iterator[Incident]:
    """Transactions that a producer wanted to commit when the coordinator had aborted them for their age."""
    refused = {
        row["client_id"] for row in signs.errors if row["api"] == "EndTxn" and row["error"] == Error.INVALID_TXN_STATE
    }
    open_since: dict[tuple[str, str], Row] = {}
    timeouts: dict[tuple[str, str], int] = {}
    for row in _transactions(signs, sorted(refused - {None})):
        key = row["client_id"], row["name"]
        if row["api"] == "InitProducerId":
            timeouts[key] = int(row["timeout_ms"] or -1)
            open_since.pop(key, None)
        elif row["api"] == "Produce":
            open_since.setdefault(key, row)
        elif (first := open_since.pop(key, None)) is not None and row["error"] == Error.INVALID_TXN_STATE:
            lasted = (row["requested"] - first["requested"]) / MILLISECOND_NS
            if 0 <= timeouts.get(key, -1) <= lasted:
                yield _overdue(signs, *key, first, row, timeouts[key])


def _transactions(signs: Signs, client_ids: Sequence[str]) -> list[Row]:
    """Requests about transactions of some clients, by time: with the transactional id, and the timeout if it is told.

    Both are cut out of the requests' text where that lies: text of records may be large.
    """
    if not client_ids:
        return []
    columns = ("client_id", "requested", "answered", "api", "error", "request", "request_packet")
    of_clients = pc.field("client_id").isin(list(client_ids)) & pc.field("requested").is_valid()
    found: list[Row] = []
    for batch in signs.batches("exchanges", columns, of_clients & pc.field("api").isin(_OF_TRANSACTIONS)):
        for name in ("name", "timeout_ms"):
            told = pc.extract_regex(batch["request"], _TRANSACTION[name])
            batch = batch.append_column(name, pc.struct_field(told, name))
        rows = batch.drop_columns(["request"]).filter(pc.is_valid(batch["name"]))
        found += rows.slice(0, MOST_ROWS - len(found)).to_pylist()
        if len(found) == MOST_ROWS:
            signs.left_out.add("exchanges")
            break
    return sorted(found, key=lambda row: (row["requested"], row["request_packet"]))


def _overdue(signs: Signs, client_id: str, name: str, first: Row, end: Row, timeout_ms: int) -> Incident:
    since, until = first["requested"], end["answered"] or end["requested"]
    lasted = (until - since) / MILLISECOND_NS
    return Incident(
        kind=IncidentKind.HUNG_TRANSACTION,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN,
        subjects=tuple(signs.clients([client_id])),
        started=since,
        ended=until,
        headline=f"{client_id} left transaction {name} open for {duration(lasted)} from {clock(since)} on; its "
        f"timeout is {duration(timeout_ms)}, so the coordinator aborted it, and the commit was refused",
        evidence=(
            Weighed("the first records of the transaction", first["request_packet"], since, 0.7),
            Weighed(
                "EndTxn answered INVALID_TXN_STATE: there was nothing to end any more",
                end["request_packet"],
                until,
                0.95,
            ),
        ),
        advice=_ADVICE_HUNG,
        cost_ms=lasted,
        effects=(Effect("time", f"readers of committed records waited for up to {duration(lasted)}", None, lasted),),
        findings=_chosen(signs, ("hanging_transaction", "error_loop"), since, until, lambda _: True),
    )


def _producer(signs: Signs, topic: str, partition: int, offset: int) -> tuple[int | None, str | None]:
    """Connection and client id of who wrote the transactional batch at an offset; None if that was not seen."""
    where = (
        (pc.field("topic") == topic)
        & (pc.field("partition") == partition)
        & (pc.field("direction") == "produce")
        & pc.field("transactional")
        & (pc.field("base_offset") <= offset)
        & (pc.field("last_offset") >= offset)
    )
    rows = signs.rows("batches", ["connection", "base_offset"], where)
    if not rows:
        return None, None
    connection = min(row["connection"] for row in rows)
    found = signs.connections_by_number([connection]).get(connection)
    return connection, found["client_id"] if found else None


# --- connects --------------------------------------------------------------------------------------------------------


def listeners(signs: Signs) -> Iterator[Incident]:
    """Addresses that brokers advertise, and at which no connect ever succeeded."""
    failed: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in signs.failed_connects:
        failed[row["broker"], row["broker_port"]].append(row)
    advertised = {row["host"] for row in signs.events if row["event"] in ("broker_listed", "broker_moved")}
    for (host, port), rows in sorted(failed.items()):
        place = address(host, port)
        if len(rows) < threshold("failed_connects") or place not in advertised or _reached(signs, host, port):
            continue
        rows.sort(key=lambda row: row["opened"] or 0)
        since, until = rows[0]["opened"], rows[-1]["opened"]
        hosts = sorted({row["client"] for row in rows})
        names = sorted({client_id for client, _, client_id, _ in signs.parties if client in hosts and client_id})
        hows = sorted({row["connect"] for row in rows})
        how = " or ".join("not answered" if one == "unanswered" else one for one in hows)
        listed_at = next(row for row in signs.events if row["host"] == place)
        yield Incident(
            kind=IncidentKind.UNREACHABLE_LISTENER,
            severity=Severity.CRITICAL,
            certainty=Certainty.CERTAIN,
            subjects=(
                *signs.broker(host),
                Subject(Role.HOST, place),
                *(Subject(Role.CLIENT, name) for name in names),
                *(Subject(Role.HOST, client) for client in hosts),
            ),
            started=since,
            ended=None,
            headline=f"{signs.broker_words(host)} advertises {place}, at which no connect succeeded: "
            f"{counted(len(rows), 'connect')} of {listed(hosts)} {how} from {clock(since)} to {clock(until)}",
            evidence=(
                Weighed(
                    f"told as a broker's address by {listed_at['told_by']}", listed_at["packet"], listed_at["at"], 0.6
                ),
                *(
                    Weighed(f"connect of {row['client']} {row['connect']}", row["connection"], row["opened"], 0.9)
                    for row in rows[:5]
                ),
            ),
            advice="Set advertised.listeners of the broker to an address and port at which it listens and that "
            "clients can reach (container, NAT and firewall in between?).",
            cost_ms=(until - since) / MILLISECOND_NS,
            effects=(Effect("connects", f"{counted(len(rows), 'connect')} failed", len(rows)),),
            findings=_of_clients(signs, names, ("metadata_storm", "connection_churn"), since, until),
        )


def _reached(signs: Signs, host: str, port: int) -> bool:
    """Whether any connect to a place succeeded, or a connection to it was there before."""
    there = (pc.field("broker") == host) & (pc.field("broker_port") == port)
    rows = (row for batch in signs.batches("connections", ["connect"], there) for row in batch.to_pylist())
    return any(row["connect"] not in ("refused", "unanswered") for row in rows)


def mismatched(signs: Signs) -> Iterator[Incident]:
    """Clients without TLS on a port with TLS, or the reverse."""
    by_port: dict[tuple[str, int, str], list[Row]] = defaultdict(list)
    issues = signs.rows("issues", where=pc.field("kind").isin(["plaintext_to_tls", "tls_unanswered"]))
    connections = signs.connections_by_number([issue["connection"] for issue in issues])
    for issue in issues:
        row = connections.get(issue["connection"])
        if row is not None:
            by_port[row["broker"], row["broker_port"], issue["kind"]].append(issue | {"client": row["client"]})
    for (host, listener, kind), found in sorted(by_port.items()):
        found.sort(key=lambda one: (one["at"] or 0, one["packet"] or 0))
        since, until = found[0]["at"], found[-1]["at"]
        hosts = sorted({one["client"] for one in found})
        speaks, listens = ("plaintext", "TLS") if kind == "plaintext_to_tls" else ("TLS", "plaintext")
        yield Incident(
            kind=IncidentKind.TLS_MISMATCH,
            severity=Severity.CRITICAL,
            certainty=Certainty.CERTAIN if kind == "plaintext_to_tls" else Certainty.LIKELY,
            subjects=(*(Subject(Role.HOST, one) for one in hosts), *signs.broker(host)),
            started=since,
            ended=until,
            headline=f"{listed(hosts)} {'speaks' if len(hosts) == 1 else 'speak'} {speaks} to "
            f"{address(host, listener)}, which expects {listens}: {counted(len(found), 'connection')} from "
            f"{clock(since)} to {clock(until)}",
            evidence=tuple(Weighed(one["detail"], one["packet"], one["at"], 0.9) for one in found[:5]),
            advice="Set security.protocol of the client to what this listener speaks (SSL or SASL_SSL with TLS, "
            "PLAINTEXT or SASL_PLAINTEXT without), or give it the port of the other listener.",
            cost_ms=(until - since) / MILLISECOND_NS,
            effects=(Effect("connects", f"{counted(len(found), 'connection')} failed", len(found)),),
        )


# --- what all have in common -----------------------------------------------------------------------------------------


def _of_clients(signs: Signs, names: Sequence[str], kinds: Sequence[str], since: int, until: int) -> frozenset[str]:
    subjects = tuple(f"client {name} (" for name in names)
    return _chosen(signs, kinds, since, until, lambda subject: bool(subjects) and subject.startswith(subjects))


def _of_groups(signs: Signs, names: Sequence[str], kinds: Sequence[str], since: int, until: int) -> frozenset[str]:
    subjects = {f"group {name}" for name in names}
    return _chosen(signs, kinds, since, until, subjects.__contains__)


def _chosen(signs: Signs, kinds: Sequence[str], since: int, until: int, about: Callable[[str], bool]) -> frozenset[str]:
    """Findings of these kinds about some subjects that overlap a time."""
    return frozenset(
        row["id"]
        for row in signs.findings
        if row["kind"] in kinds
        and about(row["subject"])
        and (row["since"] or 0) <= until + 10 * SECOND_NS
        and (row["until"] or row["since"] or until) >= since - 10 * SECOND_NS
    )
