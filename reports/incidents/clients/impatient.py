"""Clients that give up on requests before brokers can answer them: they close the connection, and open another."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from kafkascope.decoders.errors import Error
from kafkascope.reports.columns.arrow import among
from kafkascope.reports.columns.name_lists import listed
from kafkascope.reports.columns.text import address, client_name, counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.brokers.outages import outages
from kafkascope.reports.incidents.clients.going_on import GoingOn
from kafkascope.reports.incidents.costs import of_rebalances
from kafkascope.reports.incidents.incident import Effect, Incident, Subject, Weighed, every, in_words
from kafkascope.reports.incidents.members.restarts import loops
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.table_rows import Row
from kafkascope.reports.vocabulary.events import EventKind
from kafkascope.reports.vocabulary.finding_kinds import Severity
from kafkascope.reports.vocabulary.incident_kinds import IncidentKind, Role
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.reports.vocabulary.triggers import Certainty, Trigger
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_OF_CONNECTIONS = ("connection", "client", "client_id", "broker", "broker_port", "opened", "closed", "reset_by")
_OF_EXCHANGES = ("connection", "number", "client_id", "api", "requested", "answered", "request_packet", "request")
_ADVICE = (
    "Raise the client's request.timeout.ms (librdkafka: socket.timeout.ms, and request.timeout.ms of topics; 30 s and "
    "more by default) above fetch.max.wait.ms and above what brokers take on a bad day: each request that is given up "
    "costs a connection, and what was written is sent again."
)
_ALLOWS = r'"(?:maxWaitMs|timeoutMs)": (?P<ms>\d{1,9})\b'  # of Fetch, and of Produce
_AT_ONCE_NS = 50 * MILLISECOND_NS  # the RST by which a closed socket meets an answer
_FOLLOW = frozenset({Trigger.TOPIC_PARTITIONS_CHANGED, Trigger.LEADER_REJOINED, Trigger.MEMBER_REJOINED})
_REBALANCES = frozenset({EventKind.HEARTBEAT_REFUSED, EventKind.JOINED, EventKind.SYNCED})
_LED_ELSEWHERE = frozenset({Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH})
_EXPLAINED = (
    "connection_churn",
    "api_versions_storm",
    "metadata_storm",
    "rebalance_storm",
    "sent_again",
    "unanswered",
    "leaving_and_returning",
)


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A request that its client did not wait for."""

    exchange: Row
    until: int  # when it had opened another connection instead

    @property
    def waited(self) -> float:
        """Milliseconds for which it waited at most."""
        return float(self.until - self.exchange["requested"]) / MILLISECOND_NS


@dataclass(frozen=True, slots=True)
class Impatient:
    """A client that gives up again and again, while other connections of it go on: it is no process that ends."""

    client_id: str
    client: str
    places: list[str]  # address:port of brokers
    given_up: list[GivenUp]  # by time


def found(signs: Signs) -> list[Impatient]:
    """All of them, by client; but for names under which processes are started again and again, beside others.

    Nor brokers, which ask each other with timeouts of their own; and no request that a broker did not answer while it
    stood still, or was away: that is the trouble then. Nor who drops fetches only as it rebalances, or as leaders move
    (franz-go).
    """
    where = (pc.field("protocol") == "kafka") & pc.field("client_id").is_valid()
    reset = where & (pc.field("reset_by") == "client") & pc.field("opened").is_valid() & pc.field("closed").is_valid()
    ended: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in signs.rows("connections", _OF_CONNECTIONS, reset):
        if not signs.is_broker(row["client"], row["client_id"]):
            ended[row["client"], row["client_id"]].append(row)
    often = {who: rows for who, rows in ended.items() if len(rows) >= threshold("gives_up")}
    for loop in signs.once(loops) if often else ():
        often.pop((loop.client, loop.client_id), None)
    if not often:
        return []
    last = _last_exchanges(signs, [row["connection"] for rows in often.values() for row in rows])
    names = among("client_id", sorted({client_id for _, client_id in often}))
    all_of: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in signs.rows("connections", _OF_CONNECTIONS, where & names):
        all_of[row["client"], row["client_id"]].append(row)
    changes = _changes(signs, names, all_of)
    made = []
    for who, rows in sorted(often.items()):
        life = _History(all_of[who])
        given_up: list[GivenUp] = []
        places, apart = set[str](), 0
        for row in rows:
            exchange = last.get(row["connection"])
            if exchange is None or _is_explained(signs, row, exchange):
                continue
            if (until := life.gave_up(row, exchange)) is not None:
                given_up.append(GivenUp(exchange, until))
                places.add(address(row["broker"], row["broker_port"]))
                apart += not _within(changes.get(who, ()), exchange["requested"], until)
        if apart >= threshold("gives_up"):
            given_up.sort(key=lambda one: (one.exchange["requested"], one.exchange["connection"]))
            made.append(Impatient(who[1], who[0], sorted(places), given_up))
    return made


def _last_exchanges(signs: Signs, connections: Sequence[int]) -> dict[int, Row]:
    """The last exchange of each connection."""
    last: dict[int, Row] = {}
    for row in _exchanges(signs, pc.field("connection").isin(sorted(connections))):
        if row["number"] >= last.get(row["connection"], row)["number"]:
            last[row["connection"]] = row
    return last


def _is_explained(signs: Signs, connection: Row, exchange: Row) -> bool:
    """Whether the broker answered nobody when a request came."""
    of_broker = (one for one in signs.once(outages) if one.address == connection["broker"])
    return any(one.covers(exchange["requested"], signs.end) for one in of_broker)


def _changes(
    signs: Signs, names: pc.Expression, connections: Mapping[tuple[str, str], Sequence[Row]]
) -> dict[tuple[str, str], list[int]]:
    """When what some clients read, or from whom, changed, in order: they were told of a rebalance or that a partition
    is led by another broker, joined, or had their assignment."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    where = names & pc.field("event").isin(sorted(_REBALANCES))
    for row in signs.rows("group_events", ("client", "client_id", "at"), where):
        found[row["client"], row["client_id"]].append(row["at"])
    who_had = {row["connection"]: who for who, rows in connections.items() for row in rows}
    for row in signs.rows("errors", ("connection", "at"), names & pc.field("error").isin(sorted(_LED_ELSEWHERE))):
        if (who := who_had.get(row["connection"])) is not None:
            found[who].append(row["at"])
    return {who: sorted(times) for who, times in found.items()}


def _within(times: Sequence[int], since: int, until: int) -> bool:
    """Whether one of these times lies in a time, or just beside it."""
    place = bisect_left(times, since - _AT_ONCE_NS)
    return place < len(times) and times[place] <= until + _AT_ONCE_NS


class _History:
    """The connections of one client."""

    def __init__(self, connections: Sequence[Row]) -> None:
        self._going_on = GoingOn(connections)
        self._to_broker: dict[tuple[str, int], list[int]] = defaultdict(list)  # when they were opened
        opened = (row for row in connections if row["opened"] is not None)
        for row in sorted(opened, key=lambda row: (row["opened"], row["connection"])):
            self._to_broker[row["broker"], row["broker_port"]].append(row["opened"])

    def gave_up(self, connection: Row, exchange: Row) -> int | None:
        """When it had opened another connection to a broker that was about to answer; None if it did not so."""
        since, answered = exchange["requested"], exchange["answered"]
        if answered is None or not 0 <= connection["closed"] - answered <= _AT_ONCE_NS:
            return None
        if not self._going_on.has_another(connection["connection"], since, answered):
            return None  # it may be the process that ended
        opened = self._to_broker[connection["broker"], connection["broker_port"]]
        place = bisect_right(opened, since)
        if place == len(opened) or opened[place] >= answered:
            return None
        until = int(opened[place])
        least, most = threshold("hasty") * MILLISECOND_NS, threshold("patience") * SECOND_NS
        return until if least <= until - since <= most else None


def _exchanges(signs: Signs, where: pc.Expression) -> Iterator[Row]:
    """Exchanges with what their requests let brokers take, in milliseconds; without the text, which may be long."""
    for batch in signs.batches("exchanges", _OF_EXCHANGES, where & pc.field("requested").is_valid()):
        told = pc.struct_field(pc.extract_regex(batch["request"], _ALLOWS), "ms")
        yield from batch.drop_columns(["request"]).append_column("allows", told).to_pylist()


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A producer that lets replicas no time: brokers give up on its writes as its requests tell them to."""

    client_id: str
    client: str
    timeout_ms: int  # the longest of its requests
    rows: list[Row]  # exchanges, by time


def timed_out(signs: Signs) -> list[TimedOut]:
    """All of them, by client."""
    if not any(row["api"] == "Produce" and row["error"] == Error.REQUEST_TIMED_OUT for row in signs.errors):
        return []
    where = (pc.field("api") == "Produce") & (pc.field("error") == Error.REQUEST_TIMED_OUT)
    rows = [row for row in _exchanges(signs, where) if row["allows"] and row["client_id"]]
    connections = signs.connections_by_number(sorted({row["connection"] for row in rows}))
    by_client: dict[tuple[str, str], list[tuple[int, Row]]] = defaultdict(list)
    for row in rows:
        if row["connection"] in connections:
            who = row["client_id"], connections[row["connection"]]["client"]
            by_client[who].append((int(row["allows"]), row))
    made = []
    for who, of_client in sorted(by_client.items()):
        timeout_ms = max(timeout for timeout, _ in of_client)
        if len(of_client) >= threshold("gives_up") and timeout_ms <= threshold("patience") * 1000:
            in_turn = sorted((row for _, row in of_client), key=lambda row: (row["requested"], row["request_packet"]))
            made.append(TimedOut(*who, timeout_ms, in_turn))
    return made


def impatient(signs: Signs) -> set[tuple[str, str]]:
    """Client id and address of all of these clients."""
    of_found = {(one.client_id, one.client) for one in signs.once(found)}
    return of_found | {(one.client_id, one.client) for one in signs.once(timed_out)}


def incidents(signs: Signs) -> Iterator[Incident]:
    """An incident for each client."""
    refused = signs.once(timed_out)
    for producer in refused:
        yield _refused(signs, producer)
    told = {(producer.client_id, producer.client) for producer in refused}
    for one in signs.once(found):
        if (one.client_id, one.client) not in told:
            yield _incident(signs, one)


def _refused(signs: Signs, one: TimedOut) -> Incident:
    since, until = one.rows[0]["requested"], max(row["answered"] or row["requested"] for row in one.rows)
    count = len(one.rows)
    effects = (Effect("requests", f"{counted(count, 'write')} answered {Error.REQUEST_TIMED_OUT}", count),)
    return Incident(
        kind=IncidentKind.TIMEOUT_TOO_SHORT,
        severity=Severity.WARNING,
        certainty=Certainty.CERTAIN,
        subjects=(Subject(Role.CLIENT, one.client_id), Subject(Role.HOST, one.client)),
        started=since,
        ended=until,
        headline=f"{client_name(one.client_id)} ({one.client}) lets replicas {duration(one.timeout_ms)} to confirm "
        f"its writes (request.timeout.ms), from {clock(since)} to {clock(until)}" + in_words(effects),
        evidence=tuple(
            Weighed(f"Produce answered {Error.REQUEST_TIMED_OUT}", row["request_packet"], row["requested"], 0.9)
            for row in one.rows
        ),
        advice=_ADVICE,
        cost_ms=(until - since) / MILLISECOND_NS,
        effects=effects,
        findings=signs.explained((*_EXPLAINED, "error_loop"), since, until, clients=[one.client_id]),
    )


def _incident(signs: Signs, one: Impatient) -> Incident:
    since, until = one.given_up[0].exchange["requested"], one.given_up[-1].until
    waited = sorted(each.waited for each in one.given_up)
    apis = sorted({each.exchange["api"] for each in one.given_up})
    asked = [(int(each.exchange["allows"]), each.exchange["api"]) for each in one.given_up if each.exchange["allows"]]
    why = ""
    if asked and (least := min(asked))[0] >= waited[0]:
        setting = "request.timeout.ms of its topics" if least[1] == "Produce" else "fetch.max.wait.ms"
        why = f", though it lets brokers hold them for {duration(least[0])} ({setting})"
    of_groups, cost_ms, rebalances = of_rebalances(
        [
            row
            for group in signs.groups_of.get(one.client_id, ())
            for row in signs.rebalances_of(group, until, since)
            if row["trigger"] in _FOLLOW and row["trigger_client_id"] == one.client_id
        ]
    )
    patience = " to ".join(dict.fromkeys([duration(waited[0]), duration(waited[-1])]))
    count = len(one.given_up)
    effects = (Effect("connections", f"{counted(count, 'connection')} closed for it", count), *of_groups)
    return Incident(
        kind=IncidentKind.TIMEOUT_TOO_SHORT,
        severity=Severity.WARNING,
        certainty=Certainty.CERTAIN if why else Certainty.LIKELY,
        subjects=(
            Subject(Role.CLIENT, one.client_id),
            Subject(Role.HOST, one.client),
            *every(Role.GROUP, sorted({group for group, _ in rebalances})),
        ),
        started=since,
        ended=until,
        headline=f"{client_name(one.client_id)} ({one.client}) gives up on its {listed(apis)} requests to "
        f"{listed(one.places)} after {patience}, before they are answered, {counted(count, 'time')} "
        f"from {clock(since)} to {clock(until)}{why}" + in_words(effects),
        evidence=tuple(
            Weighed(
                f"{each.exchange['api']} was answered after "
                f"{duration((each.exchange['answered'] - each.exchange['requested']) / MILLISECOND_NS)}, to a socket "
                f"that was closed; after {duration(each.waited)} it had another connection",
                each.exchange["request_packet"],
                each.exchange["requested"],
                0.8,
            )
            for each in one.given_up
        ),
        advice=_ADVICE,
        cost_ms=cost_ms + sum(waited),
        effects=effects,
        findings=signs.explained(
            _EXPLAINED, since, until, groups=sorted({group for group, _ in rebalances}), clients=[one.client_id]
        ),
        rebalances=rebalances,
    )
