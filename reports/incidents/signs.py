"""What incidents are told by: rows of the tables, few columns of each, and who is who among hosts.

A table that is not there has no rows. No more than `MOST_ROWS` of a table are read: what a rule holds is bounded.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns import scanning
from kafkascope.reports.columns.arrow import dictionary_codes, labels, numbered
from kafkascope.reports.columns.name_lists import listed, named
from kafkascope.reports.columns.tenths import TENTH_NS
from kafkascope.reports.columns.text import address, address_alone, is_name, without_port
from kafkascope.reports.findings.finding import OF_CLIENT
from kafkascope.reports.incidents.incident import Subject, every
from kafkascope.reports.measures.client_facts import NO_NAME
from kafkascope.reports.vocabulary.broker_client_ids import is_of_broker
from kafkascope.reports.vocabulary.incident_kinds import Role
from kafkascope.sniffer.units import SECOND_NS

MOST_ROWS = 200_000
_SPAN_NS = 10 * SECOND_NS  # what findings and tcp_health are counted in

Row = dict[str, Any]
_Made = TypeVar("_Made")

_CONNECTION = (
    "connection",
    "client",
    "client_port",
    "broker",
    "broker_port",
    "opened",
    "closed",
    "how_closed",
    "protocol",
    "client_id",
    "connect",
    "closed_by",
    "security",
    "lost_bytes",
    "exchanges",
    "packets_up",
    "packets_down",
)
_PLACING = ("broker_listed", "broker_moved", "broker_found")  # events of clusters that say where a broker is
REPLICA_ERRORS = frozenset({Error.NOT_ENOUGH_REPLICAS, Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""Too few replicas are in sync for what a topic demands."""
_STALE = (Error.NOT_LEADER_OR_FOLLOWER, Error.NOT_COORDINATOR)
_MOST_HOSTS = 100  # of one client id, as subjects of one incident
_COORDINATOR = re.compile(r"(?<!\S)(\S+) \(node \S+\)$")  # of coordinator_found; the latter one of coordinator_moved
_ERROR_ORDER = ("error", "api", "topic", "partition", "client_id", "broker", "group_id", "member_id")
_REBALANCE = (
    "group_id",
    "protocol",
    "from_generation",
    "to_generation",
    "started",
    "joined",
    "stable",
    "recovered",
    "trigger",
    "trigger_member",
    "trigger_client_id",
    "certainty",
    "evidence",
    "contributing",
    "leader",
    "members",
    "unowned",
    "unowned_ms",
    "cost_ms",
    "reread_records",
    "last_client_id",
    "last_by_ms",
)

_WITHOUT_POLL_INTERVAL = ("kgo", "sarama")  # names of franz-go and sarama, whose rebalance timeout is of its own

_SPAN_KEYS = ("client", "broker", "sender", "at")
_SPAN_SUMS = (
    "packets",
    "retransmits",
    "fast_retransmits",
    "timeout_retransmits",
    "spurious_retransmits",
    "retransmits_to_closed",
    "duplicate_acks",
    "sacked_gaps",
    "rtt_samples",
    "rtt_us",
)
_SPAN_MEASURES = dict.fromkeys(_SPAN_SUMS, "sum") | {"rtt_max_ms": "max", "first": "min", "last": "max"}
_SPAN_COLUMNS = (*_SPAN_KEYS, *_SPAN_SUMS[:-1], "rtt_mean_ms", "rtt_max_ms", "first", "last")


@dataclass(frozen=True, slots=True)
class Life:
    """What a host sent on one connection in ten seconds, as `tcp_health` has it."""

    row: Row

    def tenths(self, name: str) -> list[int]:
        """Begins (ns) of the tenths of a second in which it sent packets (``sent_in``) or data (``payload_in``)."""
        bits = int.from_bytes(self.row[name], "little")
        return [self.row["at"] + n * TENTH_NS for n in range(100) if bits >> n & 1]


@dataclass(frozen=True, slots=True)
class Node:
    """A broker of a cluster: several clusters may be in one capture, and number their brokers alike."""

    cluster_id: str | None
    id: str


@dataclass(slots=True, eq=False)
class Takeover:
    """Another broker answers at an address than before."""

    place: str  # address:port
    at: int  # when that was first seen
    cluster_id: str | None  # of the broker from before
    before: Node | None = None  # that broker; None: nobody told which it was
    rows: list[Row] = field(default_factory=list)  # the events that tell it
    until: int | None = None  # when the broker from before was seen there again

    @property
    def host(self) -> str:
        """The address."""
        return without_port(self.place)

    @property
    def after(self) -> str | None:
        """The node id of the one that is there now; None if nobody told it."""
        return next((row["after"] for row in self.rows if row["after"] is not None), None)

    @property
    def is_foreign(self) -> bool:
        """Whether that is none of the same cluster, as far as is known."""
        return any(row["detail"] is not None for row in self.rows)


@dataclass
class Signs:
    """The tables of one capture, as rules look at them. Times are int nanoseconds."""

    tables: Mapping[str, ds.Dataset]
    end: int = 0  # of the capture
    begin: int = 0
    left_out: set[str] = field(default_factory=set)  # tables of which rows were too many
    _made: dict[Callable[[Signs], Any], Any] = field(default_factory=dict)
    _asked: dict[str, scanning.Rows | None] = field(default_factory=dict)

    def _table(self, name: str) -> scanning.Rows | None:
        """A table, which most rules ask for again: of one in memory, that it is there is found out once."""
        if name not in self._asked:
            table = self.tables.get(name)
            self._asked[name] = None if table is None else scanning.as_it_lies(table)
        return self._asked[name]

    def once(self, make: Callable[[Signs], _Made]) -> _Made:
        """What a function makes of these tables: several rules ask for it, and it is made once."""
        if make not in self._made:
            self._made[make] = make(self)
        made: _Made = self._made[make]
        return made

    def batches(
        self, name: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> Iterator[pa.Table]:
        """A table, some rows at a time, with times as numbers."""
        if (table := self._table(name)) is not None:
            for batch in scanning.batches(table, columns, where):
                yield numbered(pa.Table.from_batches([batch]))

    def rows(self, name: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> list[Row]:
        """Rows of a table, in the order of the table."""
        found: list[Row] = []
        for batch in self.batches(name, columns, where):
            room = MOST_ROWS - len(found)
            if batch.num_rows > room:
                self.left_out.add(name)
            found += batch.slice(0, room).to_pylist()
        return found

    def fits(self, name: str, where: pc.Expression) -> bool:
        """Whether rows of a table are no more than `rows` takes."""
        table = self._table(name)
        found = () if table is None else scanning.batches(table, table.schema.names[:1], where)
        return sum(int(batch.num_rows) for batch in found) <= MOST_ROWS

    @cached_property
    def rebalances(self) -> list[Row]:
        """By group and time."""
        found = self.rows("rebalances", _REBALANCE)
        return sorted(found, key=lambda row: (row["group_id"], row["started"] or 0, row["to_generation"]))

    @cached_property
    def findings(self) -> list[Row]:
        """By time."""
        return sorted(self.rows("findings"), key=lambda row: (row["since"] or 0, row["id"]))

    def findings_in(self, kinds: Collection[str], since: int, until: int) -> list[Row]:
        """Findings of these kinds that overlap a time, or lie beside it: they are counted in spans."""
        return [row for row in self.findings if _is_in(row, kinds, since, until)]

    def findings_about(
        self, subjects: Collection[str], kinds: Collection[str], since: int, until: int
    ) -> frozenset[str]:
        """Ids of findings of these kinds with some subjects, in a time."""
        found = chain.from_iterable(self._findings_about.get(subject, ()) for subject in subjects)
        return frozenset(row["id"] for row in found if _is_in(row, kinds, since, until))

    def explained(
        self, kinds: Collection[str], since: int, until: int, *, groups: Sequence[str] = (), clients: Sequence[str] = ()
    ) -> frozenset[str]:
        """Ids of findings of these kinds about some groups and clients, in a time."""
        of_groups = chain.from_iterable(self._findings_about.get(f"group {group}", ()) for group in groups)
        of_clients = chain.from_iterable(self._findings_of.get(client, ()) for client in clients)
        return frozenset(row["id"] for row in chain(of_groups, of_clients) if _is_in(row, kinds, since, until))

    @cached_property
    def _findings_about(self) -> dict[str, list[Row]]:
        """By subject."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.findings:
            found[row["subject"]].append(row)
        return found

    @cached_property
    def _findings_of(self) -> dict[str, list[Row]]:
        """By client id: those about the client, not about the group that it is in."""
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.findings:
            for client_id in row["client_ids"] or () if row["subject"].startswith(OF_CLIENT) else ():
                found[client_id].append(row)
        return found

    @cached_property
    def errors(self) -> list[Row]:
        """Errors counted in spans, by time; also those that are ordinary by themselves."""
        found = [row for row in self.rows("error_histogram") if not row["rest"]]
        return sorted(found, key=lambda row: (row["first"], *(str(row[name]) for name in _ERROR_ORDER)))

    @cached_property
    def stale_leaders(self) -> list[Row]:
        """Errors by which brokers say that others lead or coordinate now, by the time of the last."""
        return sorted((row for row in self.errors if row["error"] in _STALE and row["broker"]), key=_last)

    @cached_property
    def rebootstraps(self) -> list[Row]:
        """Errors by which brokers say that they are not whom a client asked for (KIP-1242)."""
        return [row for row in self.errors if row["error"] == "REBOOTSTRAP_REQUIRED" and row["api"] == "ApiVersions"]

    @cached_property
    def used_topics(self) -> set[str]:
        """Topics that somebody read or wrote records of."""
        found = self.batches("throughput", ["topic"], pc.field("records") > 0)
        return {topic for batch in found for topic in batch["topic"].unique().to_pylist() if topic is not None}

    @cached_property
    def parties(self) -> list[tuple[str, str, str | None, bool]]:
        """Who spoke with whom: client's and broker's address, client id, whether it was Kafka; by first connection."""
        found: dict[tuple[str, str, str | None, bool], int] = {}
        for batch in self.batches("connections", ("connection", "client", "broker", "client_id", "protocol")):
            firsts = batch.group_by(["client", "broker", "client_id", "protocol"]).aggregate([("connection", "min")])
            for row in firsts.to_pylist():
                key = row["client"], row["broker"], row["client_id"], row["protocol"] == "kafka"
                found[key] = min(found.get(key, row["connection_min"]), row["connection_min"])
        return sorted(found, key=lambda key: found[key])

    @cached_property
    def failed_connects(self) -> list[Row]:
        """Connections that were refused or never answered, by number."""
        return self.connections(pc.field("connect").isin(["refused", "unanswered"]))

    def connections_to(self, places: Collection[str]) -> dict[str, list[Row]]:
        """Connections of Kafka to each of some address:ports, by number."""
        return self._to(places, pc.field("protocol") == "kafka")

    def _to(self, places: Collection[str], which: pc.Expression) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {place: [] for place in sorted(places)}
        hosts, ports = {without_port(place) for place in found}, {int(place.rpartition(":")[2]) for place in found}
        where = which & pc.field("broker").isin(sorted(hosts)) & pc.field("broker_port").isin(sorted(ports))
        if len(found) > 1 and not self.fits("connections", where):
            half = len(found) // 2
            return self._to([*found][:half], which) | self._to([*found][half:], which)
        for row in self.connections(where) if found else ():
            if (place := address(row["broker"], row["broker_port"])) in found:
                found[place].append(row)
        return found

    def served(self, places: Collection[str]) -> dict[str, list[Row]]:
        """Connections to each of some address:ports on which something was asked for and done, by number."""
        return self._to(places, pc.field("exchanges") > 2)

    def connections_named(self, client_ids: Collection[str]) -> list[Row]:
        """Connections of clients with these ids, by number."""
        return self.connections(pc.field("client_id").isin(list(client_ids)))

    def connections_of(self, clients: Collection[tuple[str, str]]) -> list[Row]:
        """Connections of some clients, each a host and a client id, by number."""
        hosts, names = {host for host, _ in clients}, {name for _, name in clients}
        where = pc.field("client").isin(list(hosts)) & pc.field("client_id").isin(list(names))
        return [row for row in self.connections(where) if (row["client"], row["client_id"]) in clients]

    def connections_between(self, pairs: Collection[tuple[str, str]]) -> list[Row]:
        """Connections between some clients' and brokers' addresses, by number."""
        clients, brokers = sorted({client for client, _ in pairs}), sorted({broker for _, broker in pairs})
        where = pc.field("client").isin(clients) & pc.field("broker").isin(brokers)
        return [row for row in self.connections(where) if (row["client"], row["broker"]) in pairs]

    def connections_by_number(self, numbers: Sequence[int]) -> dict[int, Row]:
        """Some connections, by number."""
        return {row["connection"]: row for row in self.connections(pc.field("connection").isin(list(numbers)))}

    def last_answered(self, numbers: Collection[int]) -> dict[int, int]:
        """When the latest request of connections was sent that was answered; what was sent before it was answered, too.

        As `columns.answered` has it: where an answer before that is not there, the capture lacks it.
        """
        found: dict[int, int] = {}
        where = pc.field("connection").isin(list(numbers)) & pc.field("answered").is_valid()
        for batch in self.batches("exchanges", ("connection", "requested"), where) if numbers else ():
            for row in batch.group_by("connection").aggregate([("requested", "max")]).to_pylist():
                latest = row["requested_max"] or 0
                found[row["connection"]] = max(found.get(row["connection"], 0), latest)
        return found

    def connections(self, where: pc.Expression) -> list[Row]:
        """Those that a condition holds for, by number."""
        return sorted(self.rows("connections", _CONNECTION, where), key=lambda row: int(row["connection"]))

    @cached_property
    def silences(self) -> list[Row]:
        """Of brokers, by time."""
        return sorted(self.rows("silences"), key=lambda row: (row["since"], row["host"]))

    @cached_property
    def _silences_by_host(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.silences:
            found[row["host"]].append(row)
        return found

    def silences_at(self, host: str, since: int, until: int) -> Sequence[Row]:
        """Silences of the broker at an address that overlap a time, by time: they come one after the other."""
        rows = self._silences_by_host.get(host, [])
        low = bisect_left(rows, since, key=lambda row: sys.maxsize if row["until"] is None else row["until"])
        return rows[low : bisect_left(rows, until, low, key=lambda row: row["since"])]

    @cached_property
    def events(self) -> list[Row]:
        """Of the cluster, by time."""
        return sorted(
            self.rows("cluster_events"), key=lambda row: (row["at"], row["packet"] or 0, *map(str, row.values()))
        )

    @cached_property
    def group_events(self) -> list[Row]:
        """Those that tell of silence, leaving and the broker's choice of coordinator, by time."""
        kinds = ["silence_begun", "coordinator_found", "coordinator_moved", "heartbeat_refused", "left"]
        found = self.rows("group_events", where=pc.field("event").isin(kinds))
        return sorted(found, key=lambda row: (row["at"], row["packet"] or 0, *map(str, row.values())))

    @cached_property
    def _by_group(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.rebalances:
            found[row["group_id"]].append(row)
        return found

    def rebalances_of(self, group: str, until: int, since: int = 0) -> Sequence[Row]:
        """Rebalances of a group that started in a time, both ends with it, by time."""
        rows = self._by_group.get(group, [])
        low = bisect_left(rows, since, key=lambda row: row["started"] or 0)
        return rows[low : bisect_left(rows, until + 1, low, key=lambda row: row["started"] or 0)]

    @property
    def latest_rebalances(self) -> list[Row]:
        """The last one of each group."""
        return [rows[-1] for _, rows in sorted(self._by_group.items())]

    def poll_intervals(self, group: str) -> dict[str, int]:
        """max.poll.interval.ms of the members of a group, by client id: they tell it as their rebalance timeout.

        Not so libraries that have no such interval, nor aiokafka, which does not tell its name: that has its session
        timeout there, if nothing else is set.
        """
        return {
            member["client_id"]: member["rebalance_timeout_ms"]
            for member in self._with_rebalance_timeout(group)
            if member["software"] not in _WITHOUT_POLL_INTERVAL
            and (member["software"] or member["rebalance_timeout_ms"] != member["session_timeout_ms"])
        }

    def rebalance_timeouts(self, group: str) -> dict[str, int]:
        """For how long (ms) a rebalance waits for the members of a group, by client id."""
        return {member["client_id"]: member["rebalance_timeout_ms"] for member in self._with_rebalance_timeout(group)}

    def _with_rebalance_timeout(self, group: str) -> Iterator[Row]:
        rows = self.rebalances_of(group, self.end)
        return (member for row in rows for member in row["members"] or () if member["rebalance_timeout_ms"])

    @cached_property
    def _events_by_group(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        for row in self.group_events:
            found[row["group_id"]].append(row)
        return found

    def events_of_group(self, group: str) -> Sequence[Row]:
        """Of `group_events` those of one group."""
        return self._events_by_group.get(group, [])

    @cached_property
    def _silent(self) -> dict[str, list[Row]]:
        return {
            group: [row for row in rows if row["event"] == "silence_begun"]
            for group, rows in self._events_by_group.items()
        }

    def silences_of(self, group: str, until: int) -> Sequence[Row]:
        """Silences of members of a group that had begun by then, by time."""
        rows = self._silent.get(group, [])
        return rows[: bisect_left(rows, until + 1, key=lambda row: row["at"])]

    def ends_of(self, group: str, until: int) -> Sequence[Row]:
        """Events before a time by which connections of members that had not left ended, by time."""
        rows = self._ended.get(group, [])
        return rows[: bisect_left(rows, until, key=lambda row: row["at"])]

    @cached_property
    def _ended(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = defaultdict(list)
        rows = self.rows("group_events", where=pc.field("event") == "connection_ended")
        for row in sorted(rows, key=lambda row: (row["at"], row["member_id"] or "")):
            found[row["group_id"]].append(row)
        return found

    @cached_property
    def _coordinators(self) -> dict[str, list[tuple[int, str]]]:
        """Coordinators of each group, by address or name, with the time when each was told, by time."""
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for row in self.group_events:
            if row["event"].startswith("coordinator_") and (place := _COORDINATOR.search(row["detail"] or "")):
                found[row["group_id"]].append((row["at"], self.where(place[1])))
        return found

    def coordinated_by(self, host: str, at: int) -> set[str]:
        """Groups whose coordinator was there, as far as was told by then."""
        places = {host, *map(self.where, self.listed_as(self.node(host, at)))}
        return {group for group in self._coordinators if self._coordinator_of(group, at) in places}

    def coordinates(self, host: str, group: str, at: int) -> bool:
        """Whether a group's coordinator was there, as far as was told by then."""
        place = self._coordinator_of(group, at)
        return place is not None and place in {host, *map(self.where, self.listed_as(self.node(host, at)))}

    def may_coordinate(self, host: str, group: str, at: int) -> bool:
        """The same; or whether nothing was told by then of where it is, so that only who was asked for it knows."""
        return self._coordinator_of(group, at) is None or self.coordinates(host, group, at)

    def _coordinator_of(self, group: str, at: int) -> str | None:
        told = self._coordinators.get(group, [])
        place = bisect_left(told, (at, ""))
        return told[place - 1][1] if place else None

    @cached_property
    def _bytes(self) -> dict[frozenset[str], tuple[int, int]]:
        """Bytes that a host said and heard, and those between two: how many, and how many of them in lost packets."""
        found: dict[frozenset[str], tuple[int, int]] = {}
        columns = ("client", "broker", "bytes_up", "bytes_down", "lost_bytes")
        for batch in self.batches("connections", columns):
            sums = batch.group_by(["client", "broker"]).aggregate([(name, "sum") for name in columns[2:]])
            for client, broker, up, down, lost in zip(*(column.to_pylist() for column in sums.columns), strict=True):
                for hosts in {frozenset((client, broker)), frozenset((client,)), frozenset((broker,))}:
                    size, lacking = found.get(hosts, (0, 0))
                    found[hosts] = size + (up or 0) + (down or 0), lacking + (lost or 0)
        return found

    def lacking(self, *hosts: str) -> float:
        """The percentage of the bytes that the capture lacks, of what two hosts said to each other, or one to all.

        Those that the snap length cut off do not count: who said something, and when, is known.
        """
        size, lacking = self._bytes.get(frozenset(hosts), (0, 0))
        return 100 * lacking / max(size, 1)

    @cached_property
    def servers(self) -> set[str]:
        """Addresses of brokers, and of what may be one: who serves TLS that shows no other protocol.

        Where some Kafka can be read, only at ports at which brokers serve: else any web server may be one.
        """
        places: dict[str, set[tuple[str, int]]] = {"kafka": set(), "tls": set()}
        where = pc.field("protocol").isin([*places])
        for batch in self.batches("connections", ("protocol", "broker", "broker_port"), where):
            for row in batch.group_by(["protocol", "broker", "broker_port"]).aggregate([]).to_pylist():
                places[row["protocol"]].add((row["broker"], row["broker_port"]))
        if not self.brokers:
            return {host for host, _ in places["tls"]}
        of_brokers = places["kafka"] | {place for place in places["tls"] if place[0] in self.brokers}
        ports = {port for _, port in of_brokers}
        return self.brokers | {host for host, port in places["tls"] if port in ports}

    @cached_property
    def health_spans(self) -> pa.Table | None:
        """`tcp_health` by two hosts, sender and span of ten seconds; broker is an address. None without any.

        Only of what was said with `servers`: what else is in a capture is not asked about.
        """
        servers = pa.array(self.servers, pa.string())
        parts = []
        for batch in self.batches("tcp_health", _SPAN_COLUMNS, pc.field("at").is_valid()):
            # Whole microseconds, so that the order of rows makes no difference to their sum.
            trips = pc.multiply(pc.cast(batch["rtt_samples"], "float64"), pc.fill_null(batch["rtt_mean_ms"], 0.0))
            rows = batch.append_column("rtt_us", pc.cast(pc.round(pc.multiply(trips, 1000)), "int64"))
            code, brokers = dictionary_codes(rows["broker"])
            hosts = labels(code, [without_port(broker) for broker in brokers.to_pylist()])
            rows = rows.set_column(rows.column_names.index("broker"), "broker", hosts)
            parts.append(_summed(rows.filter(pc.is_in(rows["broker"], servers))))
        return _summed(pa.concat_tables(parts)) if parts else None

    # --- who is who --------------------------------------------------------------------------------------------------

    @cached_property
    def takeovers(self) -> dict[str, list[Takeover]]:
        """Addresses at which another broker answers than before, by time; what clients met there is one with it."""
        found: dict[str, list[Takeover]] = defaultdict(list)
        for row in self.events:
            if row["event"] not in ("address_taken", "broker_back") or row["host"] is None:
                continue
            of_host = found[self.where(row["host"])]
            last = of_host[-1] if of_host and of_host[-1].until is None else None
            if row["event"] == "broker_back":
                if last is not None and last.before == Node(row["cluster_id"], str(row["node_id"])):
                    last.until = row["at"]
                continue
            before = None if row["before"] is None else Node(row["cluster_id"], row["before"])
            if last is None or last.cluster_id != row["cluster_id"] or (before and last.before not in (None, before)):
                last = Takeover(row["host"], row["at"], row["cluster_id"])
                of_host.append(last)
            last.before = last.before or before
            last.rows.append(row)
        return found

    def node(self, host: str, at: int) -> Node | None:
        """The broker at an address, at a time; None if no cluster told."""
        takeovers = self.takeovers.get(host)
        now = self.nodes.get(host)
        if not takeovers:
            turns = self._in_turn.get(host) if now is not None else None
            return now if turns is None else turns[max(bisect_right(turns, at, key=_told_at) - 1, 0)][1]
        last = next((one for one in reversed(takeovers) if one.at <= at), None)
        if last is None:
            return takeovers[0].before
        if last.until is not None and last.until <= at:
            return last.before
        coming = next((one for one in takeovers if at < one.at), None)
        if coming is not None and coming.before not in (None, last.before):
            return coming.before
        return None if coming is not None or now == last.before else now

    @cached_property
    def _in_turn(self) -> dict[str, list[tuple[int, Node]]]:
        """Of hosts at whose one place several brokers were told, one after the other: each, and when; by time."""
        found: dict[str, dict[Node, tuple[int, str]]] = defaultdict(dict)
        for row in self.placing:
            found[self.where(row["host"])].setdefault(_node_of(row), (row["at"], row["host"]))
        return {
            host: [(at, node) for node, (at, _) in told.items()]
            for host, told in found.items()
            if len(told) > 1 and len({place for _, place in told.values()}) == 1
        }

    def told_behind(self, host: str, at: int) -> Node | None:
        """The broker that was told first at a host after a time, where several were told there in turn."""
        turns = self._in_turn.get(host, [])
        return next((node for told, node in turns if told >= at), None)

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """The broker at each host that a cluster told, in the end; by address:port at hosts that have several."""
        return {where: next(iter(nodes)) for where, nodes in self._at.items() if len(nodes) == 1}

    @cached_property
    def _at(self) -> dict[str, set[Node]]:
        """All brokers at each host, in the end; and where it has several, also the one at each address:port."""
        found: dict[str, set[Node]] = defaultdict(set)
        for place, node in self._places.items():
            found[without_port(place)].add(node)
        several = {host for host, nodes in found.items() if len(nodes) > 1}
        return found | {place: {node} for place, node in self._places.items() if without_port(place) in several}

    def where(self, place: str) -> str:
        """What a broker at an address:port goes by: the address, unless other brokers are there as well."""
        return place if place in self._at else without_port(place)

    @cached_property
    def _places(self) -> dict[str, Node]:
        """The broker at each address:port, or name:port, in the end."""
        told = {row["host"]: _node_of(row) for row in self.placing}
        return told | self._left_over(told)

    @cached_property
    def placing(self) -> list[Row]:
        """Events that say where brokers are, by time."""
        return [row for row in self.events if row["event"] in _PLACING and row["host"] and row["node_id"] is not None]

    def _left_over(self, told: Mapping[str, Node]) -> dict[str, Node]:
        """Where connects fail of clients that were told names: the broker whose name has that port.

        If one is left over, which was seen at no address; and if no connect to the place succeeded.
        """
        seen = {node for place, node in told.items() if not is_name(without_port(place))}
        unseen: dict[str, set[Node]] = defaultdict(set)  # by port
        for place, node in told.items():
            if node not in seen:
                unseen[place.rpartition(":")[2]].add(node)
        if not unseen:
            return {}
        speaking = {client for client, _, _, is_kafka in self.parties if is_kafka}
        found: dict[Node, set[str]] = defaultdict(set)
        for row in self.failed_connects:
            left = unseen.get(str(row["broker_port"]), set())
            place = address(row["broker"], row["broker_port"])
            if len(left) == 1 and place not in told and row["client"] in speaking:
                found[next(iter(left))].add(place)
        alone = {next(iter(places)): node for node, places in found.items() if len(places) == 1}
        return {place: node for place, node in alone.items() if not self.reached(place)}

    def reached(self, place: str) -> bool:
        """Whether any connect to an address:port succeeded, or a connection to it was there before."""
        return place in self._reached

    @cached_property
    def _reached(self) -> set[str]:
        # Of a refused connect whose SYN the capture lacks there is an RST alone.
        was_open = pc.field("connect").is_null() & (pc.field("protocol") != "empty")
        where = (pc.field("connect") == "established") | was_open
        return {
            address(row["broker"], row["broker_port"])
            for batch in self.batches("connections", ("broker", "broker_port"), where)
            for row in batch.group_by(["broker", "broker_port"]).aggregate([]).to_pylist()
        }

    def listing(self, place: str) -> Row | None:
        """The event that lists the broker at an address:port, maybe by its name; None if none does."""
        node = self._places.get(place)
        by_address = (row for row in self.placing if row["host"] == place)
        return next(chain(by_address, (row for row in self.placing if _node_of(row) == node)), None)

    def moved_to(self, host: str, at: int) -> str | None:
        """At which other address the broker of a host was first found after a time; None if nothing tells."""
        node = self.node(host, at)
        later = (row for row in self.events_of(node, at, self.end + 1) if row["event"] == "broker_found")
        found = (without_port(row["host"]) for row in later if node is not None and str(row["node_id"]) == node.id)
        return next((other for other in found if other != host), None)

    def listed_as(self, node: Node | None) -> list[str]:
        """What address:port, or name:port, a broker has on lists."""
        return [] if node is None else self._listed.get(node, [])

    @cached_property
    def _listed(self) -> dict[Node, list[str]]:
        found: dict[Node, list[str]] = defaultdict(list)
        for place, node in self._places.items():
            found[node].append(place)
        return found

    def events_of(self, node: Node | None, since: int, until: int) -> Sequence[Row]:
        """Events of a broker's cluster in a time; none of a broker that no cluster told of."""
        if node is None:
            return []
        return [row for row in between(self.events, since, until) if row["cluster_id"] == node.cluster_id]

    @cached_property
    def brokers(self) -> set[str]:
        """Addresses of brokers."""
        return {*map(without_port, self._places)} | {broker for _, broker, _, is_kafka in self.parties if is_kafka}

    def is_broker(self, host: str, client_id: str | None) -> bool:
        """Whether who asks brokers from an address is one: by its client id, or where it has none, by whom it asks.

        Clients may be on a broker's machine, or all be on one.
        """
        if client_id and client_id != NO_NAME:
            return host in self.brokers and is_of_broker(client_id)
        return host in self._asking

    @cached_property
    def _asking(self) -> set[str]:
        """Addresses of brokers from which brokers at other addresses are asked."""
        return {client for client, broker, *_ in self.parties if client != broker} & self.brokers

    @cached_property
    def has_one_broker(self) -> bool:
        """Whether the capture has one broker, as far as it tells: then nothing waits for replicas."""
        return len({*self.nodes.values()}) == 1 and len(self.brokers) == 1

    @cached_property
    def hosts_of(self) -> dict[str, list[str]]:
        """Addresses of each client id, in the order in which it was first heard from them."""
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for client, _, client_id, _ in self.parties:
            if client_id:
                found[client_id][client] = None
        return {name: list(hosts) for name, hosts in found.items()}

    def names_at(self, hosts: Collection[str], broker: str | None = None) -> list[str]:
        """Client ids that were heard from some addresses, in order; or that spoke from there with one broker's."""
        return sorted(
            {
                client_id
                for client, spoken_with, client_id, _ in self.parties
                if client_id and client in hosts and broker in (None, spoken_with)
            }
        )

    @cached_property
    def groups_of(self) -> dict[str, list[str]]:
        """Groups in which each client id is a member."""
        found: dict[str, set[str]] = defaultdict(set)
        for row in self.rebalances:
            for member in row["members"] or ():
                if member["client_id"]:
                    found[member["client_id"]].add(row["group_id"])
        return {name: sorted(groups) for name, groups in found.items()}

    def broker(self, host: str, at: int | None = None) -> tuple[Subject, ...]:
        """A broker as a subject: the one at this address at a time, or in the end; if there are several, all."""
        nodes = (Subject(Role.BROKER, node.id) for node in self._nodes_at(host, at))
        return (*nodes, *every(Role.HOST, dict.fromkeys([host, address_alone(host)])))

    def broker_words(self, host: str, at: int | None = None) -> str:
        """``broker 2 (10.0.0.2)``: the one at this address at a time, or in the end; with its name if it has one."""
        nodes = self._nodes_at(host, at)
        if not nodes:
            return f"broker {host}"
        names = map(without_port, self.listed_as(nodes[0])) if len(nodes) == 1 else ()
        known = ", ".join(dict.fromkeys([*filter(is_name, names), host]))
        return f"{named('broker', [node.id for node in nodes])} ({known})"

    def subjects_at(self, host: str) -> tuple[Subject, ...]:
        """Who is at an address, as subjects: brokers, or a host."""
        return self.broker(host) if address_alone(host) in self.brokers else (Subject(Role.HOST, host),)

    def who(self, host: str) -> str:
        """``broker 2 (10.0.0.2)``; ``c1 (10.0.1.1)`` of a client; the address alone if it is not known."""
        if address_alone(host) in self.brokers:
            return self.broker_words(host)
        names = self.names_at([host])
        return f"{listed(names)} ({host})" if names else host

    def _nodes_at(self, host: str, at: int | None) -> list[Node]:
        node = self.nodes.get(host) if at is None else self.node(host, at)
        several = self._at.get(host, set()) if host not in self.nodes and host not in self.takeovers else set()
        return [node] if node is not None else sorted(several, key=lambda one: (one.cluster_id or "", one.id))

    def clients(self, client_ids: Sequence[str]) -> Iterator[Subject]:
        """Clients as subjects, with their hosts; of a name that very many have with some of them."""
        for name in client_ids:
            yield Subject(Role.CLIENT, name)
            for host in self.hosts_of.get(name, [])[:_MOST_HOSTS]:
                yield Subject(Role.HOST, host)


def _summed(rows: pa.Table) -> pa.Table:
    summed = rows.group_by(list(_SPAN_KEYS), use_threads=False).aggregate(list(_SPAN_MEASURES.items()))
    return summed.select([*_SPAN_KEYS, *(f"{name}_{how}" for name, how in _SPAN_MEASURES.items())]).rename_columns(
        [*_SPAN_KEYS, *_SPAN_MEASURES]
    )


def _node_of(event: Row) -> Node:
    return Node(event["cluster_id"], str(event["node_id"]))


def _told_at(turn: tuple[int, Node]) -> int:
    return turn[0]


def _last(row: Row) -> int:
    return int(row["last"])


def between(rows: Sequence[Row], since: int, until: int, name: str = "at") -> Sequence[Row]:
    """Rows, sorted by the time of that name, from since to before until."""
    low = bisect_left(rows, since, key=lambda row: row[name])
    return rows[low : bisect_left(rows, until, low, key=lambda row: row[name])]


def group_of(finding: Row) -> str:
    """The group that a finding is about."""
    return str(finding["subject"]).removeprefix("group ")


def host_of(finding: Row) -> str:
    """The address of the client that a finding is about: ``client ID (ADDRESS)``."""
    return str(finding["subject"]).rpartition(" (")[2].removesuffix(")")


def _is_in(finding: Row, kinds: Collection[str], since: int, until: int) -> bool:
    """Whether a finding is of these kinds, and overlaps a time, or lies beside it."""
    begin, end = finding["since"] or 0, finding["until"] or finding["since"] or until
    return finding["kind"] in kinds and begin <= until + _SPAN_NS and end >= since - _SPAN_NS


def packet_of(finding: Row) -> int | None:
    """The first packet that a finding names."""
    return next((one["packet"] for one in finding["evidence"] or () if one["packet"] is not None), None)
