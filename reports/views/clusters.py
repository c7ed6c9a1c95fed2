"""The view of clusters: what any connection says of brokers, leaders and coordinators, and what happened to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.decoders.payloads import CLUSTER_METADATA_TOPIC
from kafkascope.reports.cluster.facts import (
    ASKS_BY_NAME,
    FACT_APIS,
    FACT_COLUMNS,
    Fact,
    FactKind,
    answer_to_a_name,
    metadata_brokers,
    metadata_parts,
    metadata_topic,
    metadata_topics,
    said,
)
from kafkascope.reports.cluster.history import cluster_events
from kafkascope.reports.cluster.places import brokers_listed
from kafkascope.reports.columns.arrow import table_of
from kafkascope.reports.columns.parties import Ends, ExchangePlaces
from kafkascope.reports.columns.text import address, is_name, without_port
from kafkascope.reports.columns.told_clusters import ToldClusters, client_key
from kafkascope.reports.columns.views import Known
from kafkascope.reports.groups.body import body_of
from kafkascope.reports.vocabulary.group_apis import MEMBER_APIS
from kafkascope.reports.vocabulary.tables import CLUSTER_EVENTS, CLUSTER_FACTS
from kafkascope.sniffer.columns import I64

_WITH_LEADER = frozenset({"Fetch", "Produce"})
_OF_COORDINATORS = pa.array(sorted(MEMBER_APIS | {"OffsetCommit"}))
_IN_A_RACK = r'"rackId": "[^"]'  # a client that says where it is may be sent to a follower (KIP-392)
_LEADER_TOLD = pa.array([Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH])  # with these (KIP-951)

_MOST_DONE = 4  # things that a broker does on one connection, by which it is known
_MOST_GIVEN = 200_000  # units that are remembered as given: one for each topic and state of it
_MOST_ANSWERS = 200  # answers whose units are remembered by their text
MOST_FACTS = 5_000_000
"""Facts that are given of a capture (on Spark: by each task). A partition in one state is one, however often told."""

_COLUMNS = ("connection", "number", "api", "client_id", "request_packet", "response_packet", "error_code", "decoded")

_NOTHING_DONE = pa.schema([("topic", pa.string()), ("partition", pa.int32())]).empty_table()
_SAID_AT = {
    "connection": "connection",
    "number": "number",
    "client_id": "client_id",
    "answered": "at",
    "response_packet": "packet",
}


class ClustersView:
    """Facts about clusters, of which `result` makes the table ``cluster_events``.

    What an answer tells is cut into units (the list of brokers, a topic, what one request asks for), each with a number
    that its content gives it. An answer is the numbers of its units, and is left out if it says what the one before it
    on the connection said; the facts of a unit are given once. So what clients ask again and again costs next to
    nothing, and of answers that differ, only the topics that do are read.
    """

    name = "cluster_facts"
    schema = CLUSTER_FACTS
    key = "shard"
    needs = frozenset({"exchanges", "connections", "errors", "partitions"})
    results: tuple[str, ...] = ("cluster_events",)

    def __init__(self) -> None:
        self._last: dict[int, dict[str, int]] = {}  # of connections that have not ended: what they told last, by part
        self._done: dict[int, set[Fact]] = {}  # of such connections: what their brokers do that is in no list
        self._given: dict[int, bool] = {}  # units, and whether they have facts
        self._answers: dict[int, list[int]] = {}  # units of texts
        self._facts = 0
        self._cluster_of: dict[int, tuple[str, bool]] = {}  # by unit that tells one; whether it lists brokers by names
        self._clusters: dict[tuple[str, str], None] = {}  # a broker's address:port, or a client, and a cluster's id
        self._clients: dict[tuple[str, str], None] = {}  # ... of a broker that nobody has listed by it, and a client
        self._nodes: dict[tuple[str, str], None] = {}  # address:port and node, as lists have them
        self._listed: set[str] = set()  # addresses of brokers that some list has

    def tell_clusters(self, told: ToldClusters) -> None:
        """Hand on what was learned of brokers and clusters since this was asked last."""
        told.learn(self._clusters)
        told.learn_clients(self._clients)
        told.learn_nodes(self._nodes)
        self._clusters, self._clients, self._nodes = {}, {}, {}

    def observe(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> pa.Table | None:
        """Rows of CLUSTER_FACTS that a batch gives; None without any."""
        rows: list[dict[str, Any]] = []
        if "exchanges" in tables:
            for row in _speaking(tables):
                if (end := ends.get(row["connection"])) is not None:
                    rows += self._of_exchange(row, end)
            rows += self._of_work(tables, ends)
        if "connections" in tables:
            for connection in tables["connections"]["connection"].to_pylist():
                self._last.pop(connection, None)
                self._done.pop(connection, None)
        return pa.Table.from_pylist(rows, schema=CLUSTER_FACTS) if rows else None

    def result(self, rows: pa.Table, known: Known) -> dict[str, pa.Table]:
        """Rows of cluster_events, in order of time."""
        events = cluster_events(rows, known.topics, known.clusters)
        return {"cluster_events": table_of(events, CLUSTER_EVENTS)} if events else {}

    def _of_exchange(self, row: dict[str, Any], end: Ends) -> Iterator[dict[str, Any]]:
        told = {"connection": row["connection"], "number": row["number"], "client_id": row["client_id"]}
        told |= {"broker": address(end.broker, end.broker_port), "client": end.client}
        in_response = told | {"told_by": told["broker"], "at": row["answered"], "packet": row["response_packet"]}
        in_request = told | {"told_by": end.client, "at": row["requested"], "packet": row["request_packet"]}
        if row["api"] == "Metadata":
            if row["response"].is_valid:
                brokers, topics = metadata_parts(row["response"].as_buffer().to_pybytes())
                whole = row["decoded"] == "full"
                if whole or topics:  # of an answer that is cut, the list of brokers is whole if topics come behind it
                    yield from self._of_answer(in_response, "brokers", brokers, lambda text: [text], metadata_brokers)
                if whole:
                    yield from self._of_answer(in_response, "topics", topics, metadata_topics, metadata_topic)
            return
        if row["api"] == "ApiVersions":
            if facts := answer_to_a_name(body_of(row["request"].as_py()), row["error_code"]):
                yield from self._of_facts(in_response, "ApiVersions", facts)
            return
        for one in said(row["api"], body_of(row["request"].as_py()), body_of(row["response"].as_py())):
            teller, part = (in_request, f"{row['api']} request") if one.in_request else (in_response, row["api"])
            yield from self._of_facts(teller, part, one.facts)

    def _of_work(self, tables: Mapping[str, pa.Table], ends: Mapping[int, Ends]) -> Iterator[dict[str, Any]]:
        """What brokers do that nobody has listed by their addresses so far: by that they are known."""
        exchanges = tables["exchanges"]
        brokers = {
            connection: address(end.broker, end.broker_port)
            for connection in exchanges["connection"].unique().to_pylist()
            if (end := ends.get(connection)) is not None
        }
        strange = pa.array(
            [
                connection
                for connection, broker in brokers.items()
                if broker not in self._listed and len(self._done.get(connection, ())) < _MOST_DONE
            ]
        )
        if not len(strange):
            return
        for row in _worked(exchanges, tables.get("partitions"), strange):
            topic, partition, group = row.pop("topic"), row.pop("partition"), row.pop("group_id")
            if group is None:
                fact = Fact(FactKind.LEADS, topic=topic, partition=partition)
            else:
                fact = Fact(FactKind.COORDINATES, name=group)
            done = self._done.setdefault(row["connection"], set())
            if fact in done or len(done) >= _MOST_DONE:
                continue
            done.add(fact)
            broker, client = brokers[row["connection"]], ends[row["connection"]].client
            self._clients[broker, client_key(client, row["client_id"])] = None
            said_by = {"broker": broker, "told_by": broker, "client": client}
            yield from self._of_facts(row | said_by, repr(fact), (fact,))

    def _of_facts(self, teller: dict[str, Any], part: str, facts: tuple[Fact, ...]) -> Iterator[dict[str, Any]]:
        return self._of_answer(teller, part, repr(facts).encode(), lambda text: [text], lambda _: facts)

    def _of_answer(
        self,
        teller: dict[str, Any],
        part: str,
        text: bytes,
        units: Callable[[bytes], list[bytes]],
        facts: Callable[[bytes], tuple[Fact, ...]],
    ) -> Iterator[dict[str, Any]]:
        """The row of an answer that has news, and those of its facts that were not given before."""
        number = _number(text)
        last = self._last.setdefault(teller["connection"], {})
        if last.get(part) == number:
            return
        last[part] = number
        told = self._answers.get(number)
        if told is None:
            told = []
            for unit in units(text):
                one = _number(unit)
                if one not in self._given and self._facts < MOST_FACTS:
                    yield from self._give(one, facts(unit))
                if self._given.get(one, True):
                    told.append(one)
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers = {}
            self._answers[number] = told
        cluster, by_name = next((self._cluster_of[one] for one in told if one in self._cluster_of), (None, False))
        if cluster is not None and teller["told_by"] == teller["broker"]:
            self._clusters[teller["broker"], cluster] = None
            if by_name:
                self._clusters[client_key(teller["client"], teller["client_id"]), cluster] = None
        yield teller | {"shard": 0, "part": part, "told": told}

    def _give(self, unit: int, facts: tuple[Fact, ...]) -> Iterator[dict[str, Any]]:
        if len(self._given) >= _MOST_GIVEN:
            self._given = {}
        cluster = next((fact.name for fact in facts if fact.kind is FactKind.CLUSTER), None)
        brokers = [
            (fact.host, f"{fact.node_id} of {cluster}") for fact in brokers_listed(facts) if fact.host is not None
        ]
        listed = [place for place, _ in brokers]
        self._nodes |= dict.fromkeys(brokers)
        if cluster is not None and len(self._cluster_of) < _MOST_GIVEN:
            self._cluster_of[unit] = cluster, any(is_name(without_port(host)) for host in listed)
            self._clusters |= dict.fromkeys((host, cluster) for host in listed)
        if len(self._listed) < _MOST_GIVEN:
            self._listed.update(listed)
        self._given[unit] = bool(facts)
        self._facts += len(facts)
        for place, fact in enumerate(facts):
            yield {"shard": 0, "unit": unit, "place": place} | {name: getattr(fact, name) for name in FACT_COLUMNS}


def _worked(exchanges: pa.Table, partitions: pa.Table | None, connections: pa.Array) -> Iterator[dict[str, Any]]:
    """What the brokers of some connections did as leaders or coordinators, each the first time in the batch."""
    asked = pc.and_(pc.is_in(exchanges["api"], _OF_COORDINATORS), pc.equal(exchanges["error_code"], 0))
    asked = pc.and_(pc.and_(asked, pc.is_valid(exchanges["group_id"])), pc.is_in(exchanges["connection"], connections))
    row = np.arange(exchanges.num_rows)
    done = [_NOTHING_DONE, _firsts(exchanges, ["connection", "group_id"], row, asked)]
    if partitions is not None:
        row = ExchangePlaces(exchanges).of(partitions)
        led = pc.and_(pc.equal(partitions["error"], "NONE"), pc.is_in(partitions["connection"], connections))
        done.append(_firsts(partitions, ["connection", "topic", "partition"], row, pc.and_(led, pa.array(row >= 0))))
    # Several of one exchange in the order of the message: only so many of a connection are taken.
    in_order = [(name, "ascending") for name in ("row_min", "group_id", "place_min")]
    firsts = pa.concat_tables(done, promote_options="default").sort_by(in_order)
    of_exchange = exchanges.select([*_SAID_AT, "request"]).take(firsts["row_min"])
    in_a_rack = pc.fill_null(pc.match_substring_regex(of_exchange["request"], _IN_A_RACK), False)
    columns = {name: firsts[name] for name in ("group_id", "topic", "partition")}
    columns |= {name: of_exchange[kept] for kept, name in _SAID_AT.items()}
    columns["at"] = columns["at"].cast(pa.int64())
    yield from pa.table(columns).filter(pc.invert(in_a_rack)).to_pylist()


def _firsts(rows: pa.Table, keys: list[str], row: I64, which: pa.ChunkedArray) -> pa.Table:
    """The distinct keys of some rows, with the first row of the exchange that each is of, and their first place."""
    found = rows.select(keys).append_column("row", pa.array(row)).append_column("place", pa.array(np.arange(len(row))))
    found = found.filter(pc.fill_null(which, False))
    return found.group_by(keys, use_threads=False).aggregate([("row", "min"), ("place", "min")])


def _number(text: bytes) -> int:
    """A number for a text, the same in every process."""
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True)


def _speaking(tables: Mapping[str, pa.Table]) -> Iterator[dict[str, Any]]:
    """The exchanges that may say something of a cluster; times are nanoseconds, bodies Arrow's scalars."""
    exchanges = tables["exchanges"]
    apis = pa.array(sorted(FACT_APIS - _WITH_LEADER | {"Metadata"}))
    which = pc.is_in(exchanges["api"], apis).to_numpy()
    asked = pc.and_(pc.equal(exchanges["api"], "ApiVersions"), pc.greater_equal(exchanges["api_version"], ASKS_BY_NAME))
    which |= pc.fill_null(asked, False).to_numpy()
    places = ExchangePlaces(exchanges)
    if (errors := tables.get("errors")) is not None:
        place = places.of(errors.filter(pc.is_in(errors["error"], _LEADER_TOLD)))
        with_leader = pc.is_in(exchanges["api"].take(pa.array(place[place >= 0])), pa.array(sorted(_WITH_LEADER)))
        which[place[place >= 0][with_leader.to_numpy()]] = True
    if (partitions := tables.get("partitions")) is not None:
        place = places.of(partitions.filter(pc.equal(partitions["topic"], CLUSTER_METADATA_TOPIC)))
        which[place[place >= 0]] = True
    read = pc.or_kleene(pc.equal(exchanges["decoded"], "full"), pc.equal(exchanges["api"], "Metadata"))
    which &= pc.fill_null(read, False).to_numpy()
    rows = exchanges.filter(pa.array(which))
    columns = {name: rows[name].to_pylist() for name in _COLUMNS}
    columns |= {name: rows[name].cast(pa.int64()).to_pylist() for name in ("requested", "answered")}
    texts = zip(rows["request"], rows["response"], strict=True)
    for row_number, (request, response) in enumerate(texts):
        row = {name: column[row_number] for name, column in columns.items()}
        yield row | {"request": request, "response": response}
