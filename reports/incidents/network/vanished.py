"""What was sent again and again in vain, though both hosts lived: packets that vanish between two hosts."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, pairwise
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.arrow import among, moment
from kafkascope.reports.columns.tenths import TENTH_NS
from kafkascope.reports.columns.text import address, address_alone
from kafkascope.reports.incidents.runs import in_runs
from kafkascope.reports.incidents.signs import Life, Signs
from kafkascope.reports.incidents.table_rows import SPAN_NS, Row
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

ON_ITS_WAY_NS = SECOND_NS // 2
"""What was sent before packets began to vanish has come by then."""
_UNHEARD = (
    "connection",
    "at",
    "sender",
    "client",
    "broker",
    "last",
    "timeout_retransmits",
    "retransmits_to_closed",
    "unacked_since",
    "unacked_max_ms",
)
_SAID = ("connection", "at", "sender", "client", "broker", "payload_in", "unacked_since")
_SENT = ("connection", "at", "sender", "sent_in")


@dataclass(frozen=True, slots=True)
class Unheard:
    """What one side of a connection sent, and sent again, without an acknowledgement: data, or a connect."""

    connection: int
    sender: str  # client, broker
    client: str
    broker: str  # as `Signs.where` has it
    place: str  # the broker's address:port
    since: int  # when it was sent first
    last: int  # when it was sent last, in vain
    again: int  # how many times it was sent again
    connect: str | None = None  # unanswered, refused: it was a connect
    idle_since: int | None = None  # the last packet of the connection before; None: there was none
    to_closed: int = 0  # how often it was sent again after the other side had closed

    @property
    def source(self) -> str:
        """Who sent it."""
        return self.client if self.sender == "client" else self.broker

    @property
    def target(self) -> str:
        """Whom it was for."""
        return self.broker if self.sender == "client" else self.client


class Scope(Enum):
    """What of two hosts' packets vanishes, as far as others came through."""

    CONNECTIONS = "those of some connections, while others of the same hosts go on"
    PATH = "all between the two, while both hear others"
    CLIENT = "all that the client sends, to whomever"


@dataclass(frozen=True, slots=True)
class Vanished:
    """What vanished between a client and a broker in some time."""

    client: str
    broker: str  # as `Signs.where` has it
    scope: Scope
    unheard: tuple[Unheard, ...]  # by time
    until: int | None  # when one heard the other again, or a new connection was opened; None: not in the capture

    @property
    def since(self) -> int:
        """When the first of it was sent."""
        return self.unheard[0].since

    @property
    def last(self) -> int:
        """When something was sent in vain last."""
        return max(one.last for one in self.unheard)

    def overlaps(self, since: int, until: int) -> bool:
        """Whether something vanished in a time."""
        return self.since <= until and since <= (self.last if self.until is None else self.until)


class _Said:
    """When hosts sent data to whom, to the tenth of a second."""

    def __init__(self, signs: Signs, found: Sequence[Unheard]) -> None:
        targets, sources = {one.target for one in found}, {one.source for one in found}
        hosts = pa.array({address_alone(host) for host in targets | sources}, pa.string())
        clients = pa.array(sources & {one.client for one in found}, pa.string())
        since, until = min(one.since for one in found), max(one.last for one in found)
        begin, end = moment(since - SPAN_NS), moment(until + int(threshold("one_trouble") * SECOND_NS))
        about = among("host", hosts) | (among("client", clients) & (pc.field("sender") == "broker"))
        where = about & (pc.field("at") > begin) & (pc.field("at") <= end) & pc.field("last_payload").is_valid()
        # By who sent and who was meant: connections, with the span's begin and its tenths of a second.
        self._bits: dict[str, dict[str, list[tuple[int, int, int]]]] = defaultdict(lambda: defaultdict(list))
        self._unacked: dict[tuple[int, str, int], int] = {}  # by connection, who sent, and span
        for row in sorted(signs.rows("tcp_health", _SAID, where), key=lambda row: (row["at"], row["connection"])):
            broker = signs.where(row["broker"])
            pair = (row["client"], broker) if row["sender"] == "client" else (broker, row["client"])
            bits = int.from_bytes(row["payload_in"], "little")
            self._bits[pair[0]][pair[1]].append((row["connection"], row["at"], bits))
            if row["unacked_since"] is not None:
                self._unacked[row["connection"], pair[0], row["at"]] = row["unacked_since"]
        # Packets of connections on which something was sent in vain, by sender; before it, and behind it.
        numbers = pc.field("connection").isin(sorted({one.connection for one in found}))
        self._sent: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
        for row in sorted(
            signs.rows("tcp_health", _SENT, numbers & pc.field("at").is_valid()), key=lambda row: row["at"]
        ):
            bits = int.from_bytes(row["sent_in"], "little")
            self._sent[row["connection"], row["sender"]].append((row["at"], bits))
        self._opened = signs.connections_to({one.place for one in found})
        self._to: dict[str, list[str]] = defaultdict(list)
        for source, by_target in self._bits.items():
            for target in by_target:
                self._to[target].append(source)

    def opened(self, place: str, client: str, since: int) -> Iterator[Row]:
        """Connections that a client opened to an address:port after a time."""
        return (row for row in self._opened[place] if row["client"] == client and (row["opened"] or 0) > since)

    def times(self, source: str, target: str, since: int, until: int) -> Iterator[int]:
        """Tenths of a second behind a time, in which one sent data to the other."""
        for _, at, bits in self._bits[source][target]:
            if at <= until and since < at + SPAN_NS:
                yield from (time for time in _tenths(at, bits) if since < time <= until)

    def heard(self, source: str, target: str, since: int, until: int, beside: int | None = None) -> Iterator[int]:
        """... in which it sent what the other acknowledged, and said something after, not on that connection."""
        spans = {(connection, at): bits for connection, at, bits in self._bits[target][source]}
        for connection, at, bits in self._bits[source][target]:
            unacked = self._unacked.get((connection, source, at), sys.maxsize)
            if connection == beside or at > until or since >= at + SPAN_NS:
                continue
            # Not what it said later: it may have been cut off until then, and acknowledged all of it at last.
            answers = spans.get((connection, at), 0) & ((1 << ((until - at) // TENTH_NS + 1)) - 1)
            if answers:
                last = min(until, unacked - TENTH_NS, at + answers.bit_length() * TENTH_NS)
                yield from (time for time in _tenths(at, bits) if since < time <= last)

    def answered(self, source: str, target: str, since: int, until: int, numbers: Collection[int]) -> bool:
        """Whether the target sent data on one of these connections: if they are new, it heard the source."""
        return any(
            since < time <= until
            for connection, at, bits in self._bits[target][source]
            if connection in numbers
            for time in _tenths(at, bits)
        )

    def packets(self, connection: int, sender: str, since: int, until: int) -> Iterator[int]:
        """Tenths of a second behind a time, in which one side of a connection sent packets."""
        for at, bits in self._sent[connection, sender]:
            if at <= until and since < at + SPAN_NS:
                yield from (time for time in _tenths(at, bits) if since < time <= until)

    def last_before(self, connection: int, at: int) -> int | None:
        """The last tenth of a second before a time, in which a connection had a packet."""
        sides = (self.packets(connection, side, 0, at - TENTH_NS) for side in ("client", "broker"))
        return max(chain.from_iterable(sides), default=None)

    def to_others(self, source: str, target: str, since: int, until: int) -> bool:
        """Whether one sent data to others than that target."""
        return any(
            True for other in [*self._bits[source]] if other != target for _ in self.times(source, other, since, until)
        )

    def from_others(self, source: str, target: str, since: int, until: int) -> bool:
        """Whether others than that source sent data to the target."""
        return any(
            True for other in self._to[target] if other != source for _ in self.times(other, target, since, until)
        )


def _tenths(at: int, bits: int) -> Iterator[int]:
    return (at + n * TENTH_NS for n in range(100) if bits >> n & 1)


def vanished(signs: Signs) -> list[Vanished]:
    """All of them, by time.

    Of hosts that send nothing to anybody meanwhile none is told: they may be off, or stand still.
    """
    found = [*signs.once(sent_again), *_refused(signs)]
    if not found:
        return []
    said = _Said(signs, found)
    runs: dict[tuple[str, str], list[list[Unheard]]] = defaultdict(list)
    for one in sorted(found, key=lambda one: (one.since, one.connection, one.sender)):
        of_pair = runs[one.client, one.broker]
        if not of_pair or one.since - max(each.last for each in of_pair[-1]) > threshold("one_trouble") * SECOND_NS:
            of_pair.append([])
        of_pair[-1].append(one)
    told = (_judged(signs, said, run) for of_pair in runs.values() for run in of_pair)
    return sorted((one for one in told if one is not None), key=lambda one: (one.since, one.client, one.broker))


def sent_again(signs: Signs) -> list[Unheard]:
    """Data, and connects, that timers sent again for so long that one of them would have been acknowledged."""
    in_vain = pc.field("timeout_retransmits") > pc.coalesce(pc.field("retransmits_to_closed"), pc.scalar(0))
    where = pc.field("unacked_since").is_valid() & in_vain  # who has closed answers that, and is there
    rows = signs.rows("tcp_health", _UNHEARD, where)
    rows.sort(key=lambda row: (row["connection"], row["sender"], row["at"]))
    whose = itemgetter("connection", "sender")
    runs = in_runs(rows, lambda run, row: whose(run[-1]) == whose(row) and row["unacked_since"] <= run[-1]["last"])
    long = [run for run in runs if run[-1]["last"] - run[0]["unacked_since"] >= threshold("cut_off") * SECOND_NS]
    connects = signs.connections_by_number([run[0]["connection"] for run in long])
    found = []
    for run in long:
        first, connection = run[0], connects.get(run[0]["connection"], {})
        how = "unanswered" if connection.get("connect") == "unanswered" else None
        host = address_alone(first["broker"])
        if host not in signs.servers or first["client"] == host or (how and not signs.reached(first["broker"])):
            continue
        found.append(
            Unheard(
                connection=first["connection"],
                sender=first["sender"],
                client=first["client"],
                broker=signs.where(first["broker"]),
                place=first["broker"],
                since=first["unacked_since"],
                last=run[-1]["last"],
                again=sum(row["timeout_retransmits"] for row in run),
                connect=how,
                to_closed=sum(row["retransmits_to_closed"] or 0 for row in run),
            )
        )
    return found


def heard_at_last(signs: Signs) -> list[Unheard]:
    """What brokers sent again for as long, and was acknowledged within the span of a row, which lacks since when then.

    That is told by how long the client sent nothing on that connection, not even acknowledgements, and the broker did.
    Without those that `sent_again` has.
    """
    long = pc.field("unacked_max_ms") >= threshold("cut_off") * SECOND_NS / MILLISECOND_NS
    where = (pc.field("sender") == "broker") & (pc.field("timeout_retransmits") > 0) & pc.field("at").is_valid()
    rows = [row for row in signs.rows("tcp_health", _UNHEARD, where & long) if row["unacked_since"] is None]
    if not rows:
        return []
    of_numbers = pc.field("connection").isin(sorted({row["connection"] for row in rows})) & pc.field("at").is_valid()
    tries: dict[int, list[Row]] = defaultdict(list)
    for row in signs.rows("tcp_health", _UNHEARD, where & of_numbers):
        tries[row["connection"]].append(row)
    sent: dict[tuple[int, str], set[int]] = defaultdict(set)
    for row in signs.rows("tcp_health", _SENT, of_numbers):
        sent[row["connection"], row["sender"]].update(Life(row).tenths("sent_in"))
    known: dict[int, list[Unheard]] = defaultdict(list)
    for one in signs.once(sent_again):
        known[one.connection].append(one)
    found = []
    for row in sorted(rows, key=itemgetter("connection", "at")):
        number, lasted = row["connection"], int(row["unacked_max_ms"] * MILLISECOND_NS)
        again = sorted(sent[number, "broker"])
        ends = (
            after
            for before, after in pairwise(sorted(sent[number, "client"]))
            if row["at"] <= after < row["at"] + SPAN_NS and after - before >= lasted - TENTH_NS
        )
        # It was sent first in the tenth of a second behind that time, and timers take longer.
        in_vain = (end for end in ends if any(end - lasted + TENTH_NS < at < end - lasted // 2 for at in again))
        back = next(in_vain, None)
        host = address_alone(row["broker"])
        if back is None or host not in signs.servers or row["client"] == host:
            continue
        since = back - lasted
        if any(one.since <= back and since - TENTH_NS <= one.last for one in known[number]):
            continue
        of_it = [each for each in tries[number] if since - SPAN_NS < each["at"] <= back]
        found.append(
            Unheard(
                connection=number,
                sender="broker",
                client=row["client"],
                broker=signs.where(row["broker"]),
                place=row["broker"],
                since=since,
                last=back,
                again=sum(each["timeout_retransmits"] for each in of_it),
                to_closed=sum(each["retransmits_to_closed"] or 0 for each in of_it),
            )
        )
    return found


def _refused(signs: Signs) -> Iterator[Unheard]:
    """Connects of a host that are refused again and again, at a place that others reach meanwhile."""
    by_place: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in signs.failed_connects:
        if row["connect"] == "refused" and row["opened"] is not None and row["client"] != row["broker"]:
            by_place[address(row["broker"], row["broker_port"])][row["client"]].append(row)
    often = {
        place: {client: rows for client, rows in by_client.items() if len(rows) >= threshold("failed_connects")}
        for place, by_client in sorted(by_place.items())
    }
    reached = signs.connections_to([place for place, by_client in often.items() if by_client])
    for place, by_client in often.items():
        for client, rows in sorted(by_client.items()):
            rows.sort(key=lambda row: (row["opened"], row["connection"]))
            since, until = rows[0]["opened"], rows[-1]["opened"]
            if {row["client"] for row in reached[place] if since < (row["opened"] or 0) <= until} - {client}:
                number, again = rows[0]["connection"], len(rows) - 1
                yield Unheard(number, "client", client, signs.where(place), place, since, until, again, "refused")


def _judged(signs: Signs, said: _Said, run: Iterable[Unheard]) -> Vanished | None:
    """What vanished, as far as the target of it lived: it sent data to others meanwhile, or answered elsewhere.

    A target that sends on to the source alone shows nothing: it may be the same data again.
    """
    lived: list[Unheard] = []
    beside = 0
    hears = False
    for one in run:
        since, until = one.since + ON_ITS_WAY_NS, one.last
        side = "broker" if one.sender == "client" else "client"
        if any(True for _ in said.packets(one.connection, side, since, sys.maxsize)):
            until -= (one.last - one.since) // 2  # its last try was answered after all; each comes twice as late
        new = {row["connection"] for row in said.opened(one.place, one.client, one.since)}
        on_others = said.answered(one.client, one.broker, since, until, new) or any(
            True for _ in said.heard(one.source, one.target, since, until, one.connection)
        )
        if on_others and one.connect is not None:
            continue  # a connect that fails where others succeed: a queue that is full, a limit
        if on_others or said.to_others(one.target, one.source, since, until):
            lived.append(replace(one, last=until, idle_since=said.last_before(one.connection, one.since)))
            beside += on_others
            hears |= one.source in signs.brokers or said.from_others(one.target, one.source, since, until)
    if not lived:
        return None
    scope = Scope.CONNECTIONS if 2 * beside >= len(lived) else Scope.PATH if hears else Scope.CLIENT
    first = lived[0]
    if scope == Scope.CONNECTIONS:
        begun = max(one.since for one in lived)
        places = sorted({one.place for one in lived})
        again = (row["opened"] for place in places for row in said.opened(place, first.client, begun))
    else:
        last = max(one.last for one in lived)
        end = last + int(threshold("one_trouble") * SECOND_NS)
        ways = sorted({(one.source, one.target) for one in lived})
        again = (at for source, target in ways for at in said.heard(source, target, last, end))
    return Vanished(first.client, first.broker, scope, tuple(lived), min(again, default=None))
