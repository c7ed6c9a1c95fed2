"""What is known of transactions that stay open: what they hold back, and which their coordinators aborted."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.name_lists import in_words, named
from kafkascope.reports.columns.words import duration
from kafkascope.reports.incidents.incident import Effect
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import MOST_ROWS, Row, between
from kafkascope.reports.vocabulary.thresholds import threshold
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


def held_by_producer(signs: Signs) -> dict[Producer, list[Held]]:
    """What holds readers of committed records for long, by the producer, which writes to several brokers."""
    by_producer: dict[Producer, list[Held]] = defaultdict(list)
    for one in signs.once(_holds):
        if one.last - one.first >= threshold("open_transaction") * SECOND_NS:
            producer, connection = _producer(signs, one.topic, one.partition, one.offset)
            by_producer[producer].append(one._replace(connection=connection))
    return by_producer


def any_left_open(signs: Signs) -> bool:
    """Whether any transaction is known that was open for too long, or held readers back."""
    late, held = signs.once(overdues), signs.once(held_by_producer)
    return bool(late or held)


class LeftOpen(NamedTuple):
    """Transactions that a client left open as it fell silent."""

    overdues: Sequence[Overdue]
    held: Sequence[Held]  # what they held back


def left_open(signs: Signs, host: str | None, silent_at: int, until: int) -> LeftOpen:
    """Transactions of a host that were open when a process on it fell silent, and of whose producer nothing came since.

    So the producer is of that process, or was cut off with it. Not those whose timeout was over by then.
    """
    since = silent_at + SECOND_NS  # when something fell silent is known by tenths of a second, or by an answer to it
    late = [one for one in signs.once(overdues) if one.is_open_at(silent_at) and one.says_nothing(since, until)]
    at = signs.connections_by_number([one.first["connection"] for one in late])
    late = [one for one in late if (row := at.get(one.first["connection"])) and row["client"] == host]
    held = [of_one for one in late for of_one in held_by(signs, one)]
    named = {one.client_id for one in late}
    for producer, found in signs.once(held_by_producer).items():
        begun = [one for one in found if one.first <= since and one.last > since]
        if begun and host and producer.client == host and producer.client_id not in named | {None}:
            held += [] if _speaks(signs, producer, since, until) else begun
    return LeftOpen(late, held)


def _speaks(signs: Signs, producer: Producer, since: int, until: int) -> bool:
    """Whether a producer asks for anything in a time."""
    where = (pc.field("client_id") == producer.client_id) & pc.field("api").isin(OF_TRANSACTIONS)
    where &= (pc.field("requested") >= moment(since)) & (pc.field("requested") < moment(until))
    numbers = {row["connection"] for row in signs.rows("exchanges", ["connection"], where)}
    return any(row["client"] == producer.client for row in signs.connections_by_number(sorted(numbers)).values())


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
    """A transaction that its coordinator had aborted: the first request of it, and the one that was refused.

    Before that is the last one that was not.
    """

    client_id: str
    name: str
    first: Row
    before: Row
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

    def is_open_at(self, at: int) -> bool:
        """Whether it was open at a time, and its timeout not over."""
        since = self.first["requested"]
        return bool(since <= at + SECOND_NS and at < since + self.timeout_ms * MILLISECOND_NS)

    def says_nothing(self, since: int, until: int) -> bool:
        """Whether its producer asked for nothing of it in a time."""
        return bool(self.before["requested"] <= since and until <= self.end["requested"] + SECOND_NS)

    @property
    def is_sure(self) -> bool:
        """Whether the coordinator said that there is no transaction; else another producer may have fenced this one."""
        return bool(self.end["api"] == "EndTxn" and self.end["error"] == Error.INVALID_TXN_STATE)


def held_by(signs: Signs, one: Overdue) -> list[Held]:
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
    late = signs.once(overdues)
    connections = signs.connections_named({one.client_id for one in late})
    name_of = {row["connection"]: row["client_id"] for row in connections}
    found: dict[str, list[Row]] = defaultdict(list)
    if not name_of:
        return found
    where = (
        pc.field("connection").isin(sorted(name_of))
        & (pc.field("direction") == "produce")
        & pc.field("transactional")
        & (pc.field("at") >= moment(min(one.time[0] for one in late)))
        & (pc.field("at") <= moment(max(one.time[1] for one in late)))
    )
    for row in sorted(signs.rows("batches", _BATCH, where), key=itemgetter("at")):
        found[name_of[row["connection"]]].append(row)
    return found


def overdues(signs: Signs) -> list[Overdue]:
    """All of them."""
    found = []
    refused = {row["client_id"] for row in signs.errors if row["api"] in OF_TRANSACTIONS and row["error"] in _ABORTED}
    open_since: dict[tuple[str, str], Row] = {}
    timeouts: dict[tuple[str, str], int] = {}
    taken_by: dict[str, str] = {}
    latest: dict[tuple[str, str], Row] = {}
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
                    found.append(Overdue(*key, first, latest[key], row, timeouts[key]))
        elif row["api"] == "EndTxn":
            open_since.pop(key, None)
        else:
            open_since.setdefault(key, row)
        latest[key] = row
    return found


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


def held_back(found: Sequence[Held], ms: float, bound: str = "", why: str = "") -> Effect:
    """What readers of committed records wait for, and for how long at most."""
    places = dict.fromkeys(one.place for one in found)
    return Effect("partitions", f"{in_words(places)} held back for {bound}{duration(ms)}{why}", len(places), ms)


def left_behind(signs: Signs, lost: Iterable[tuple[str | None, int, int]]) -> tuple[tuple[Effect, ...], float]:
    """What it cost that hosts left transactions open, and that in all: by when they fell silent, and until when."""
    late: list[Overdue] = []
    held: list[Held] = []
    if any_left_open(signs):
        for host, silent_at, until in lost:
            left = left_open(signs, host, silent_at, until)
            late += [one for one in left.overdues if one not in late]
            held += [one for one in left.held if one not in held]
    what = named("transaction", sorted({one.name for one in late})) if late else "a transaction"
    were = f"{what} {'was' if len({one.name for one in late}) <= 1 else 'were'} left open"
    times = [(one.last - one.first) / MILLISECOND_NS for one in held]
    if times:
        return (held_back(held, max(times), "at least " if late else "", f", as {were}"),), sum(times)
    if not late:
        return (), 0
    return (Effect("transactions", f"{were}, and aborted", len(late)),), 0
