"""Brokers as followers: how long they did not ask for what they replicate, though they had been answered.

A follower fetches again as soon as it has written what it got. If it waits for others, it waits for an answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import moment
from kafkascope.reports.columns.tenths import TENTH_NS
from kafkascope.reports.columns.text import address
from kafkascope.reports.incidents.signs import Life, Signs
from kafkascope.reports.incidents.table_rows import SPAN_NS, Row, silence_row
from kafkascope.reports.incidents.who_is_who import Node
from kafkascope.reports.vocabulary.broker_client_ids import FOLLOWERS, OF_NODES, follower_node, quorum_node
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.units import SECOND_NS

_NO_ID = -2  # of a token that is no request: no other has the next one
_BESIDE_NS = SECOND_NS  # behind a silence: who is back reads first what came meanwhile


class _Follower(NamedTuple):
    """Who fetches on a connection."""

    host: str  # as `Signs.where` has it
    client_id: str


class _Pause(NamedTuple):
    """When a follower had an answer, and when it asked again."""

    connection: int
    since: int
    until: int


def follower(signs: Signs, client: str, client_id: str, leader: str, at: int) -> str:
    """Which broker asks another one from an address with such a client id, as `Signs.where` has it."""
    asked, node = signs.node(leader, at), follower_node(client_id)
    if client in signs.nodes or asked is None or node is None:
        return client
    places = signs.listed_as(Node(asked.cluster_id, node))  # there are several brokers at its address
    return signs.where(places[0]) if places else client


def refused(signs: Signs) -> dict[str, list[tuple[int, int]]]:
    """When fetches of followers were answered with errors, by client id: they wait for a second then."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in signs.errors:
        if row["api"] == "Fetch" and follower_node(row["client_id"]):
            found[row["client_id"]].append((row["first"], row["last"]))
    return found


def unfetched(signs: Signs, silences: Sequence[Row]) -> list[int]:
    """The longest time (ns) within each silence, which is over, in which its broker was to fetch, and did not.

    0 where nothing shows one that is as long as a stall. The tables are read for all silences at once.
    """
    connections = _connections(signs, {row["host"] for row in silences})
    pauses: dict[str, list[_Pause]] = defaultdict(list)
    for pause in _pauses(signs, connections, silences) if connections else ():
        pauses[connections[pause.connection].host].append(pause)
    longest = []
    for row in silences:
        within = (min(one.until, row["until"]) - max(one.since, row["since"]) for one in pauses[row["host"]])
        longest.append(max((time for time in within if time >= threshold("stall") * SECOND_NS), default=0))
    return longest


def asking(signs: Signs) -> dict[str, dict[str, list[Row]]]:
    """Connections on which brokers ask others, by node id and the address that it asks from; each by number."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in signs.connections(pc.match_substring_regex(pc.field("client_id"), OF_NODES)):
        if node := follower_node(row["client_id"]) or quorum_node(row["client_id"]):
            found[node][row["client"]].append(row)
    return found


def stood_still(signs: Signs) -> list[tuple[str, Row]]:
    """Silences, as the table has them, of brokers that said nothing to others for a while, though these had answered.

    Each with the address that it asks from. Nobody else may miss a broker that leads nothing. It goes on with a
    connection on which it fetches.
    """
    by_host = [
        (host, rows)
        for _, hosts in sorted(signs.once(asking).items())
        for host, rows in sorted(hosts.items())
        if any(follower_node(row["client_id"]) for row in rows)
    ]
    numbers = [row["connection"] for _, rows in by_host for row in rows]
    lives: dict[int, list[Row]] = defaultdict(list)
    columns = ("connection", "sender", "at", "sent_in", "payload_in", "timeout_retransmits")
    where = pc.field("connection").isin(numbers) & pc.field("at").is_valid()
    for row in signs.rows("tcp_health", columns, where) if numbers else ():
        lives[row["connection"]].append(row)
    return [(host, silence) for host, rows in by_host for silence in _silences(signs, rows, lives)]


def _silences(signs: Signs, connections: Sequence[Row], lives: Mapping[int, Sequence[Row]]) -> Iterator[Row]:
    """Those of one broker, by all that it asks others on."""
    of_number = {row["connection"]: row for row in connections}
    said = np.array(sorted({at for number in of_number for at in _tenths(lives[number], "client", "payload_in")}))
    least = int(threshold("stall_of_one") * SECOND_NS)
    for place in np.flatnonzero(np.diff(said) > least + TENTH_NS).tolist():
        last, until = int(said[place]), int(said[place + 1])
        heard = [number for number in of_number if _goes_on(lives[number], last, until, least)]
        fetches = [number for number in heard if follower_node(of_number[number]["client_id"])]
        near = [row for number in heard for row in lives[number] if row["at"] < until and last < row["at"] + SPAN_NS]
        if len({of_number[number]["broker"] for number in fetches}) <= 1 or any(
            row["timeout_retransmits"] for row in near
        ):
            continue
        since = max(_answered(lives[number], until) for number in fetches)
        first = of_number[fetches[0]]
        leader = signs.where(address(first["broker"], first["broker_port"]))
        sent, asked = (
            {
                at
                for row in near
                if row["sender"] == who
                for at in Life(row).tenths(name)
                if last + TENTH_NS < at < until
            }
            for who, name in (("client", "sent_in"), ("broker", "payload_in"))
        )
        host = follower(signs, first["client"], first["client_id"], leader, since)
        yield silence_row(host, since, until) | {
            "asked": len(asked),
            "acknowledged": len(sent),
            "kept": len(heard),
            "back_connection": fetches[0],
            "back_by": "as_client",
        }


def _tenths(rows: Sequence[Row], sender: str, name: str) -> Iterator[int]:
    """Tenths of a second in which one side of a connection sent something."""
    for row in rows:
        if row["sender"] == sender:
            yield from Life(row).tenths(name)


def _answered(rows: Sequence[Row], until: int) -> int:
    """When a broker sent data last before a time."""
    return max((at for at in _tenths(rows, "broker", "payload_in") if at < until), default=0)


def _goes_on(rows: Sequence[Row], last: int, until: int, least: int) -> bool:
    """Whether a connection on which an answer had come, long before a time, is asked on again then."""
    asked = [at for at in _tenths(rows, "client", "payload_in") if at <= until + _BESIDE_NS]
    answered = _answered(rows, until)
    before = max((at for at in asked if at <= last), default=None)
    return before is not None and before <= answered <= until - least and max(asked) >= until


def _connections(signs: Signs, hosts: Set[str]) -> dict[int, _Follower]:
    """Connections on which some brokers fetch from others, by number."""
    found = {}
    is_follower = pc.match_substring_regex(pc.field("client_id"), FOLLOWERS)
    for row in signs.connections(is_follower) if hosts else ():
        leader = signs.where(address(row["broker"], row["broker_port"]))
        host = follower(signs, row["client"], row["client_id"], leader, row["opened"] or signs.begin)
        if host in hosts:
            found[row["connection"]] = _Follower(host, row["client_id"])
    return found


def _pauses(signs: Signs, connections: Mapping[int, _Follower], silences: Sequence[Row]) -> Iterator[_Pause]:
    """Those that are as long as a stall, in the time of a silence or near it.

    Not those behind an error, and not where packets were sent again after a timeout: a fetch may have been lost. Nor
    those between two requests of which one was the next but one, by their correlation ids: the capture lacks the other.
    """
    fetches = _fetches(signs, connections, silences)
    number, requested, answered, correlation = fetches[:, np.lexsort((fetches[1], fetches[0]))]
    long = requested[1:] - answered[:-1] >= threshold("stall") * SECOND_NS
    is_next = (number[1:] == number[:-1]) & (correlation[1:] == correlation[:-1] + 1)
    places = np.flatnonzero(long & is_next)
    found = list(map(_Pause, number[places].tolist(), answered[places].tolist(), requested[places + 1].tolist()))
    if not found:
        return
    again: dict[int, list[int]] = defaultdict(list)
    where = pc.field("connection").isin([one.connection for one in found]) & (pc.field("timeout_retransmits") > 0)
    for row in signs.rows("tcp_health", ("connection", "at"), where & pc.field("at").is_valid()):
        again[row["connection"]].append(row["at"])
    errors = refused(signs)
    for one in found:
        sent_again = any(one.since < at + SPAN_NS and at <= one.until for at in again[one.connection])
        waits = errors.get(connections[one.connection].client_id, ())
        if not sent_again and not any(first <= one.until and one.since - SECOND_NS <= last for first, last in waits):
            yield one


def _fetches(signs: Signs, connections: Mapping[int, _Follower], silences: Sequence[Row]) -> I64:
    """Requests of followers in the time of a silence or near it.

    Connection, when asked, when answered, and correlation id, a row each. All that is asked there: a follower asks for
    more than records.
    """
    since = np.array([row["since"] for row in silences], np.int64) - _BESIDE_NS
    until = np.array([row["until"] for row in silences], np.int64) + _BESIDE_NS
    where = (
        pc.field("connection").isin(list(connections))
        & pc.field("requested").is_valid()
        & (pc.field("answered") >= moment(int(since.min())))
        & (pc.field("requested") <= moment(int(until.max())))
    )
    columns = ("connection", "requested", "answered", "correlation_id")
    found = [np.empty((len(columns), 0), np.int64)]
    for batch in signs.batches("exchanges", columns, where):
        rows = np.stack([pc.fill_null(batch[name], _NO_ID).to_numpy() for name in columns])
        _, asked, told, _ = rows
        near = np.zeros(len(asked), np.bool_)
        for place in np.flatnonzero((since <= told.max()) & (asked.min() <= until)):
            near |= (since[place] <= told) & (asked <= until[place])
        found.append(rows[:, near])
    return np.concatenate(found, axis=1)
