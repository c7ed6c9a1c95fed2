"""Transactions that stay open: while readers of committed records wait, and until their coordinator aborts them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.name_lists import in_words
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.incident import Effect, Incident, Weighed, every
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import MOST_ROWS, Row, between
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

OF_TRANSACTIONS = (  # whose requests are read
    "Produce",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "InitProducerId",
)
FENCED = frozenset({Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED})
"""Errors of a producer whose epoch is not the newest: its coordinator raises it as it aborts, and as another comes."""
_ABORTED = FENCED | {Error.INVALID_TXN_STATE}
_TRANSACTION = {
    "name": r'"transactionalId": "(?P<name>[^"\\]+)"',
    "timeout_ms": r'"transactionTimeoutMs": (?P<timeout_ms>[0-9]{1,9})\b',
}
_BATCH = ("connection", "at", "topic", "partition", "base_offset", "last_offset")
_RAFT_LOG = "__cluster_metadata"  # has no transactions of producers
_ADVICE_HUNG = (
    "Find out why the producer neither commits nor aborts in time (a slow step in the midst of the transaction, a "
    "process that stopped); kafka-transactions.sh find-hanging and abort end one by hand, transaction.timeout.ms "
    "says when the coordinator does."
)


def hung(signs: Signs) -> Iterator[Incident]:
    """Transactions that stay open while records behind them wait: by the producer, where its records were seen.

    Not those of which it is told that they were open for longer than their timeout.
    """
    for producer, found in sorted(signs.once(_held).items(), key=str):
        told = [one for one in signs.once(_overdues) if one.client_id == producer.client_id]
        times = _times([one for one in found if not any(one.overlaps(*other.time) for other in told)])
        for some in [times] if producer.client_id and times else [[one] for one in times]:
            yield _hung(signs, some, producer)


def _held(signs: Signs) -> dict[Producer, list[Held]]:
    """What holds readers of committed records for long, by the producer, which writes to several brokers."""
    by_producer: dict[Producer, list[Held]] = defaultdict(list)
    for one in signs.once(_holds):
        if one.last - one.first >= threshold("open_transaction") * SECOND_NS:
            producer, connection = _producer(signs, one.topic, one.partition, one.offset)
            by_producer[producer].append(one._replace(connection=connection))
    return by_producer


def _holds(signs: Signs) -> list[Held]:
    """All that holds readers of committed records, by when it began."""
    stable = pc.field("last_stable_offset")  # brokers of before 2.0 tell -1 to who does not ask for it
    where = (stable >= 0) & (stable < pc.field("high_watermark")) & (pc.field("topic") != _RAFT_LOG)
    keys = ("topic", "partition", "last_stable_offset")
    spans: dict[tuple[str, int, int], tuple[int, int]] = {}
    for batch in signs.batches("partitions", (*keys, "at", "high_watermark"), where):
        for row in batch.group_by(list(keys)).aggregate([("at", "min"), ("at", "max")]).to_pylist():
            key = row["topic"], row["partition"], row["last_stable_offset"]
            first, last = spans.get(key, (row["at_min"], row["at_max"]))
            spans[key] = min(first, row["at_min"]), max(last, row["at_max"])
    return sorted(Held(*span, topic, partition, offset) for (topic, partition, offset), span in spans.items())


class Producer(NamedTuple):
    """Who wrote what holds readers: None where that was not seen."""

    client: str | None = None  # its address
    client_id: str | None = None
    producer_id: int | None = None


class Held(NamedTuple):
    """A partition whose readers of committed records are held at an offset, from when to when."""

    first: int
    last: int
    topic: str
    partition: int
    offset: int
    connection: int | None = None  # of who wrote there, if that was seen

    @property
    def place(self) -> str:
        """The partition in words."""
        return f"{self.topic}-{self.partition}"

    def overlaps(self, since: int, until: int) -> bool:
        """Whether they are held in a time."""
        return self.first <= until and since <= self.last


class Overdue(NamedTuple):
    """A transaction that its coordinator had aborted: the first request of it, and the one that was refused."""

    client_id: str
    name: str
    first: Row
    end: Row
    timeout_ms: int

    @property
    def time(self) -> tuple[int, int]:
        """From when to when it was open, for its producer."""
        return self.first["requested"], self.end["answered"] or self.end["requested"]

    @property
    def lasted_ms(self) -> float:
        """For how long that was."""
        since, until = self.time
        return (until - since) / MILLISECOND_NS

    @property
    def is_sure(self) -> bool:
        """Whether the coordinator said that there is no transaction; else another producer may have fenced this one."""
        return bool(self.end["api"] == "EndTxn" and self.end["error"] == Error.INVALID_TXN_STATE)


def _times(found: Sequence[Held]) -> list[list[Held]]:
    """What overlaps in time together: a producer has one transaction after the other."""
    times: list[list[Held]] = []
    until = 0
    for one in sorted(found):
        if not times or one.first > until:
            times.append([])
        times[-1].append(one)
        until = max(until, one.last)
    return times


def _hung(signs: Signs, times: Sequence[Sequence[Held]], producer: Producer) -> Incident:
    """Transactions of one producer, one after the other."""
    client_id = producer.client_id
    found = list(chain.from_iterable(times))
    since, until = found[0].first, max(one.last for one in found)
    spans = [(max(one.last for one in some) - some[0].first) / MILLISECOND_NS for some in times]
    longest = max(spans)
    partitions = in_words(dict.fromkeys(one.place for one in found))
    who = f"of {client_id}" if client_id else "(its producer is not in the capture)"
    waited = f"readers of committed records of {partitions} saw nothing new"
    headline = f"a transaction {who} stayed open: {waited} for {duration(longest)} from {clock(since)} on"
    if len(times) > 1:
        headline = f"{len(times)} transactions {who}, one after the other, stayed open from {clock(since)} on: "
        headline += f"{waited} for up to {duration(longest)} each time"
    return Incident(
        kind=IncidentKind.HUNG_TRANSACTION,
        severity=Severity.CRITICAL if len(times) == 1 else Severity.WARNING,
        certainty=Certainty.CERTAIN if client_id else Certainty.LIKELY,
        subjects=(
            *(signs.clients([client_id]) if client_id else ()),
            *every(Role.TOPIC, sorted({one.topic for one in found})),
        ),
        started=since,
        ended=until,
        headline=headline,
        evidence=tuple(
            Weighed(
                f"{one.place}: the last stable offset stays at {one.offset}, below the high watermark, for "
                f"{duration((one.last - one.first) / MILLISECOND_NS)}",
                one.connection,
                one.first,
                0.9,
            )
            for one in found
        ),
        advice=_ADVICE_HUNG,
        cost_ms=sum(span * len({one.place for one in some}) for span, some in zip(spans, times, strict=True)),
        effects=(_held_back(found, longest, "up to " if len(times) > 1 else ""),),
        findings=_findings(signs, found, since, until),
    )


def _held_back(found: Sequence[Held], ms: float, bound: str = "") -> Effect:
    places = dict.fromkeys(one.place for one in found)
    return Effect("partitions", f"{in_words(places)} held back for {bound}{duration(ms)}", len(places), ms)


def _findings(signs: Signs, found: Sequence[Held], since: int, until: int) -> frozenset[str]:
    """Those about what is held, as they begin their title or what they saw."""
    places = tuple(f"{one.place}: " for one in found)
    return frozenset(
        row["id"]
        for row in signs.findings_in(("hanging_transaction", "commits_stopped"), since, until)
        if any(text.startswith(places) for text in (row["title"], *(seen["text"] for seen in row["evidence"] or ())))
    )


def overdue(signs: Signs) -> Iterator[Incident]:
    """Transactions with which a producer wanted to go on when the coordinator had aborted them for their age.

    Those of one transactional id, one soon after the other, are one incident.
    """
    by_producer: dict[tuple[str, str], list[Overdue]] = defaultdict(list)
    for one in sorted(signs.once(_overdues), key=lambda one: one.time):
        by_producer[one.client_id, one.name].append(one)
    apart = threshold("one_trouble") * SECOND_NS
    for _, found in sorted(by_producer.items()):
        for run in in_runs(found, lambda run, one: one.time[0] - run[-1].time[1] <= apart):
            yield _overdue(signs, run)


def _held_by(signs: Signs, one: Overdue) -> list[Held]:
    """What a transaction held, for its timeout at least: offsets of the batches that its producer wrote in its time.

    Answers to fetches lack partitions of which nothing is new: a hold lasts for longer than they tell it.
    """
    since, until = one.time
    aborted = since + one.timeout_ms * MILLISECOND_NS
    written: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in between(signs.once(_written).get(one.client_id, ()), since, until):
        written[row["topic"], row["partition"]].append(row)
    holds = signs.once(_holds)
    begun = holds[bisect_left(holds, (since,)) : bisect_left(holds, (aborted,))] if written else []
    return [
        held._replace(last=max(held.last, aborted))
        for held in begun
        if any(
            None not in (row["base_offset"], row["last_offset"])
            and row["base_offset"] <= held.offset <= row["last_offset"]
            for row in written.get((held.topic, held.partition), ())
        )
    ]


def _written(signs: Signs) -> dict[str, list[Row]]:
    """Batches of transactions by the producers of overdue ones, by client id and time."""
    overdues = signs.once(_overdues)
    connections = signs.connections_named({one.client_id for one in overdues})
    name_of = {row["connection"]: row["client_id"] for row in connections}
    found: dict[str, list[Row]] = defaultdict(list)
    if not name_of:
        return found
    where = (
        pc.field("connection").isin(sorted(name_of))
        & (pc.field("direction") == "produce")
        & pc.field("transactional")
        & (pc.field("at") >= moment(min(one.time[0] for one in overdues)))
        & (pc.field("at") <= moment(max(one.time[1] for one in overdues)))
    )
    for row in sorted(signs.rows("batches", _BATCH, where), key=itemgetter("at")):
        found[name_of[row["connection"]]].append(row)
    return found


def _overdues(signs: Signs) -> list[Overdue]:
    """All of them."""
    overdues = []
    refused = {row["client_id"] for row in signs.errors if row["api"] in OF_TRANSACTIONS and row["error"] in _ABORTED}
    open_since: dict[tuple[str, str], Row] = {}
    timeouts: dict[tuple[str, str], int] = {}
    taken_by: dict[str, str] = {}
    of_clients = among("client_id", sorted(refused - {None})) & pc.field("api").isin(OF_TRANSACTIONS)
    rows = requests_of(signs, of_clients | (pc.field("api") == "InitProducerId")) if refused - {None} else []
    for row in rows:
        key = row["client_id"], row["name"]
        if row["api"] == "InitProducerId":
            timeouts[key] = int(row["timeout_ms"] or -1)
            taken_by[row["name"]] = row["client_id"]
            open_since.pop(key, None)
        elif row["error"] in _ABORTED:
            first = open_since.pop(key, None)
            if first is not None and taken_by.get(row["name"]) == row["client_id"]:
                lasted = (row["requested"] - first["requested"]) / MILLISECOND_NS
                if 0 <= timeouts[key] <= lasted:
                    overdues.append(Overdue(*key, first, row, timeouts[key]))
        elif row["api"] == "EndTxn":
            open_since.pop(key, None)
        else:
            open_since.setdefault(key, row)
    return overdues


def requests_of(signs: Signs, where: pc.Expression) -> list[Row]:
    """Requests about transactions, by time: with the transactional id, and the timeout if it is told.

    Both are cut out of the requests' text where that lies: text of records may be large.
    """
    columns = ("connection", "client_id", "requested", "answered", "api", "error", "request", "request_packet")
    found: list[Row] = []
    for batch in signs.batches("exchanges", columns, where & pc.field("requested").is_valid()):
        for name in ("name", "timeout_ms"):
            told = pc.extract_regex(batch["request"], _TRANSACTION[name])
            batch = batch.append_column(name, pc.struct_field(told, name))
        rows = batch.drop_columns(["request"]).filter(pc.is_valid(batch["name"]))
        found += rows.slice(0, MOST_ROWS - len(found)).to_pylist()
        if len(found) == MOST_ROWS:
            signs.left_out.add("exchanges")
            break
    return sorted(found, key=lambda row: (row["requested"], row["request_packet"]))


def _overdue(signs: Signs, run: Sequence[Overdue]) -> Incident:
    """Transactions of one producer, one after the other."""
    since, until = run[0].time[0], run[-1].time[1]
    client_id, name, timeout = run[0].client_id, run[0].name, duration(run[0].timeout_ms)
    held = [_held_by(signs, one) for one in run]
    times = [(one.last - one.first) / MILLISECOND_NS for of_one in held for one in of_one]
    longest = duration(max(one.lasted_ms for one in run))
    how = f"for {longest} from {clock(since)} on"
    if len(run) > 1:
        how = f"in time, {len(run)} times from {clock(since)} to {clock(until)}, the longest for {longest}"
    it = "it" if len(run) == 1 else "it each time"
    what = "the commit" if all(one.end["api"] == "EndTxn" for one in run) else "what it sent next"
    return Incident(
        kind=IncidentKind.HUNG_TRANSACTION,
        severity=Severity.CRITICAL,
        certainty=Certainty.CERTAIN if all(one.is_sure for one in run) else Certainty.LIKELY,
        subjects=tuple(signs.clients([client_id])),
        started=since,
        ended=until,
        headline=f"{client_id} did not end transaction {name} {how}; its timeout is {timeout}, so the coordinator "
        f"aborted {it}, and {what} was refused",
        evidence=tuple(seen for one in run for seen in _seen_overdue(one)),
        advice=_ADVICE_HUNG,
        # Where nobody is seen to wait, it is the time for which the transactions were open for certain.
        cost_ms=sum(times) or float(sum(one.timeout_ms for one in run)),
        effects=(_held_back([*chain.from_iterable(held)], max(times), "at least "),) if times else (),
        findings=_findings(signs, [*chain.from_iterable(held)], since, until)
        | signs.explained(("error_loop",), since, until, clients=[client_id]),
    )


def _seen_overdue(one: Overdue) -> Iterator[Weighed]:
    first, end = one.first, one.end
    of_it = "end" if one.is_sure else "go on with"
    told = f"{end['api']} answered {end['error']}: there was nothing to {of_it} any more"
    yield Weighed("the first request of the transaction", first["request_packet"], one.time[0], 0.7)
    yield Weighed(told, end["request_packet"], one.time[1], 0.95 if one.is_sure else 0.8)
    if not one.is_sure:
        text = "another process with its transactional id: none in the capture asked for it meanwhile"
        yield Weighed(text, None, None, 0.2, True)


def _producer(signs: Signs, topic: str, partition: int, offset: int) -> tuple[Producer, int | None]:
    """Who wrote the transactional batch at an offset, and on which connection."""
    where = (
        (pc.field("topic") == topic)
        & (pc.field("partition") == partition)
        & (pc.field("direction") == "produce")
        & pc.field("transactional")
        & (pc.field("base_offset") <= offset)
        & (pc.field("last_offset") >= offset)
    )
    rows = signs.rows("batches", ["connection", "producer_id", "base_offset"], where)
    if not rows:
        return Producer(), None
    first = min(rows, key=lambda row: row["connection"])
    connection = first["connection"]
    found = signs.connections_by_number([connection]).get(connection)
    who = Producer(found["client"], found["client_id"], first["producer_id"]) if found else Producer()
    return who, connection
