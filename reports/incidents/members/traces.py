"""What clients left in the tables around some time: their connections, and when packets were sent.

It is read for many clients at once: a table is read from its beginning to its end, whoever is asked about.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Life, Signs
from kafkascope.reports.incidents.table_rows import SPAN_NS, Row
from kafkascope.sniffer.units import SECOND_NS

_AT_ONCE = 100  # clients that are read for together
_NEAR_NS = 300 * SECOND_NS  # of whom times begin within this: else more rows are read than anybody wants
_SENT = ("connection", "host", "sender", "at", "sent_in", "payload_in", "timeout_retransmits")


class Whereabouts(NamedTuple):
    """Whose traces are wanted: of a client that ran at an address, in a time (ns)."""

    host: str
    names: frozenset[str]  # its client ids
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Traces:
    """What a client left."""

    connections: Mapping[int, Row]  # those that it had in the time, by number
    _of_host: Sequence[Life]  # these by time; they may be of more time than was asked for
    _of_brokers: Mapping[int, Sequence[Life]]

    def sent(self, since: int, until: int) -> Sequence[Life]:
        """What its host sent, on any connection, in spans that overlap a time, by time."""
        return _overlapping(self._of_host, since, until)

    def received(self, since: int, until: int) -> list[Life]:
        """What brokers sent to it, likewise."""
        of_each = (self._of_brokers.get(number, ()) for number in self.connections)
        return [life for lives in of_each for life in _overlapping(lives, since, until)]


def traces(signs: Signs, whose: Sequence[Whereabouts]) -> list[Traces]:
    """What each of them left."""
    found: dict[int, Traces] = {}
    in_order = sorted(range(len(whose)), key=lambda n: whose[n].since)
    together = in_runs(
        in_order, lambda run, n: len(run) < _AT_ONCE and whose[n].since - whose[run[0]].since <= _NEAR_NS
    )
    for some in together:
        found.update(zip(some, _read(signs, [whose[n] for n in some]), strict=True))
    return [found[n] for n in range(len(whose))]


def _read(signs: Signs, whose: Sequence[Whereabouts]) -> Iterator[Traces]:
    """Traces of some; of each half by itself, if those of all are more rows than are held at once."""
    alone = len(whose) == 1
    since, until = min(one.since for one in whose), max(one.until for one in whose)
    hosts = sorted({one.host for one in whose})
    names = sorted({name for one in whose for name in one.names})
    theirs = among("client", hosts) & among("client_id", names)
    theirs &= pc.field("opened").is_null() | (pc.field("opened") <= moment(until))
    theirs &= pc.field("closed").is_null() | (pc.field("closed") >= moment(since))
    if alone or signs.fits("connections", theirs):
        connections = signs.connections(theirs)
        numbers = [row["connection"] for row in connections]
        sent = among("host", hosts) | pc.field("connection").isin(numbers)
        sent &= (pc.field("at") > moment(since - SPAN_NS)) & (pc.field("at") <= moment(until))
        if alone or signs.fits("tcp_health", sent):
            yield from _sorted_out(whose, connections, signs.rows("tcp_health", _SENT, sent))
            return
    half = len(whose) // 2
    yield from _read(signs, whose[:half])
    yield from _read(signs, whose[half:])


def _sorted_out(whose: Sequence[Whereabouts], connections: Sequence[Row], sent: Sequence[Row]) -> Iterator[Traces]:
    of_clients: dict[tuple[str, str], dict[int, Row]] = defaultdict(dict)
    for row in connections:
        of_clients[row["client"], row["client_id"]][row["connection"]] = row
    of_hosts: dict[str, list[Life]] = defaultdict(list)
    of_brokers: dict[int, list[Life]] = defaultdict(list)
    for row in sorted(sent, key=lambda row: (row["at"], row["connection"], row["sender"])):
        of_hosts[row["host"]].append(Life(row))
        if row["sender"] == "broker":
            of_brokers[row["connection"]].append(Life(row))
    for one in whose:
        of_names = [of_clients[one.host, name] for name in sorted(one.names) if (one.host, name) in of_clients]
        yield Traces({number: row for rows in of_names for number, row in rows.items()}, of_hosts[one.host], of_brokers)


def _overlapping(lives: Sequence[Life], since: int, until: int) -> Sequence[Life]:
    begin = bisect_left(lives, since - SPAN_NS + 1, key=lambda life: life.row["at"])
    return lives[begin : bisect_left(lives, until + 1, begin, key=lambda life: life.row["at"])]
