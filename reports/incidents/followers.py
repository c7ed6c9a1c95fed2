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
from kafkascope.reports.columns.text import address
from kafkascope.reports.incidents.signs import Node, Row, Signs
from kafkascope.reports.vocabulary.broker_client_ids import FOLLOWERS, follower_node
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.columns import I64
from kafkascope.sniffer.units import SECOND_NS

_BESIDE_NS = SECOND_NS  # behind a silence: who is back reads first what came meanwhile
_SPAN_NS = 10 * SECOND_NS  # that a row of tcp_health is of


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

    Not those behind an error, and not where packets were sent again after a timeout: a fetch may have been lost.
    """
    number, requested, answered = _fetches(signs, connections, silences)
    order = np.lexsort((requested, number))
    number, requested, answered = number[order], requested[order], answered[order]
    long = requested[1:] - answered[:-1] >= threshold("stall") * SECOND_NS
    places = np.flatnonzero(long & (number[1:] == number[:-1]))
    found = list(map(_Pause, number[places].tolist(), answered[places].tolist(), requested[places + 1].tolist()))
    if not found:
        return
    again: dict[int, list[int]] = defaultdict(list)
    where = pc.field("connection").isin([one.connection for one in found]) & (pc.field("timeout_retransmits") > 0)
    for row in signs.rows("tcp_health", ("connection", "at"), where & pc.field("at").is_valid()):
        again[row["connection"]].append(row["at"])
    errors = refused(signs)
    for one in found:
        sent_again = any(one.since < at + _SPAN_NS and at <= one.until for at in again[one.connection])
        waits = errors.get(connections[one.connection].client_id, ())
        if not sent_again and not any(first <= one.until and one.since - SECOND_NS <= last for first, last in waits):
            yield one


def _fetches(signs: Signs, connections: Mapping[int, _Follower], silences: Sequence[Row]) -> I64:
    """Requests of followers in the time of a silence or near it: connection, when asked, and when answered, a row each.

    All that is asked there: a follower asks for more than records.
    """
    since = np.array([row["since"] for row in silences], np.int64) - _BESIDE_NS
    until = np.array([row["until"] for row in silences], np.int64) + _BESIDE_NS
    where = (
        pc.field("connection").isin(list(connections))
        & pc.field("requested").is_valid()
        & (pc.field("answered") >= moment(int(since.min())))
        & (pc.field("requested") <= moment(int(until.max())))
    )
    columns = ("connection", "requested", "answered")
    found = [np.empty((3, 0), np.int64)]
    for batch in signs.batches("exchanges", columns, where):
        rows = np.stack([batch[name].to_numpy() for name in columns])
        _, asked, told = rows
        near = np.zeros(len(asked), np.bool_)
        for place in np.flatnonzero((since <= told.max()) & (asked.min() <= until)):
            near |= (since[place] <= told) & (asked <= until[place])
        found.append(rows[:, near])
    return np.concatenate(found, axis=1)
