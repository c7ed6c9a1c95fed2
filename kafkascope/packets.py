"""One packet by its number: what it is, and which exchanges it carries bytes of.

Tables know the packets with the first bytes of requests and responses alone; those behind are told by sender and time,
so the files are read once more, up to that packet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkascope.filters.expressions import All, Condition, Either, Expression
from kafkascope.filters.fields import COLUMNS, Kind
from kafkascope.reports.columns.text import address, counted
from kafkascope.sniffer.capture_points import Content, Joined
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.sniffer.tcp import host_of

if TYPE_CHECKING:
    from kafkascope.decoders.pseudonyms import Pseudonyms


class NoSuchPacketError(LookupError):
    """A packet that is not there, or cannot be part of an exchange; says why."""


@dataclass(frozen=True, slots=True)
class OnePacket:
    """A packet that carries bytes of a connection."""

    number: int
    at: int  # nanoseconds since 1970
    sender: str  # address:port
    receiver: str
    payload_bytes: int

    def __str__(self) -> str:
        return f"packet {self.number} ({self.sender} > {self.receiver}, {counted(self.payload_bytes, 'byte')})"

    @property
    def advice(self) -> str:
        """Where to look instead, if it is in no exchange; clients have the higher ports, and one connection on each."""
        client = max(self.sender, self.receiver, key=lambda end: int(end.rpartition(":")[2]))
        return f"--connection {client} shows what else its connection carries"

    @property
    def exchanges(self) -> Expression:
        """The exchanges whose request or response it is part of."""
        return Either((self._carries("request", "client"), self._carries("response", "broker")))

    def _carries(self, side: str, sender: str) -> Expression:
        receiver = "broker" if sender == "client" else "client"

        def holds(name: str, kind: Kind, comparison: str, value: str | int) -> Condition:
            return Condition(COLUMNS[name], kind, comparison, (value,), "")

        return All(
            (
                holds(sender, Kind.TEXT, "==", self.sender),
                holds(receiver, Kind.TEXT, "==", self.receiver),
                holds(f"{side}_packet", Kind.NUMBER, "<=", self.number),
                Either(
                    (
                        holds(f"{side}_packet", Kind.NUMBER, "==", self.number),
                        holds(f"{side}_done", Kind.TIME, ">=", self.at),
                    )
                ),
            )
        )


def find_packet(
    number: int,
    paths: Sequence[str],
    joined: Joined | None,
    *,
    expected: Mapping[str, Content] | None = None,
    pseudonyms: Pseudonyms | None = None,
) -> OnePacket:
    """The packet with this number in the files of a capture (no pipe); raises NoSuchPacketError, SourceError.

    The other arguments are those with which the files are, or were, opened to be read.
    """
    seen = 0
    with open_capture(paths, joined=joined, expected=expected) as capture:
        for packets in capture:
            seen += len(packets.number)
            found = packets.rows(packets.number == number)
            if len(found.number):
                break
        else:
            raise NoSuchPacketError(f"there is no packet {number}: the capture has {counted(seen, 'packet')}")
    segments = dissect(found).segments
    if not len(segments.number):
        raise NoSuchPacketError(f"packet {number} is none of TCP")
    if pseudonyms is not None:
        from kafkascope.reports.rows.anonymous import anonymous_hosts

        segments = anonymous_hosts(segments, pseudonyms)
    sender, receiver = (
        address(host_of(int(high[0]), int(low[0])), int(port[0]))
        for high, low, port in (
            (segments.source_high, segments.source_low, segments.source_port),
            (segments.target_high, segments.target_low, segments.target_port),
        )
    )
    one = OnePacket(number, int(segments.at[0]), sender, receiver, int(segments.length[0]))
    if not one.payload_bytes:
        raise NoSuchPacketError(f"{one} only opens, acknowledges or closes; {one.advice}")
    return one
