"""Which packets of a capture are looked at: those of a span of time, or of numbers, as `editcap` takes them.

The others are left out before anything is made of them, so what is left is a capture of its own that begins and ends
there: a connection may begin in the middle. Packets keep the numbers that they have in the whole capture.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

import numpy as np

from kafkascope.sniffer.columns import NO_TIME, Bool, Packets
from kafkascope.sniffer.units import DAY_NS, SECOND_NS

LAST = int(np.iinfo(np.int64).max)
"""Behind all times, and all numbers of packets."""

_AFTER = re.compile(r"\+(\d+(?:\.\d+)?)(ms|s|m|h|)")
_CLOCK = re.compile(r"(\d\d):(\d\d)(?::(\d\d(?:\.\d{1,9})?))?")
_EPOCH = re.compile(r"(\d{9,10})(?:\.(\d{1,9}))?")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)? ?(Z|[+-]\d\d:?\d\d)?")
_UNITS_S = {"ms": 0.001, "": 1, "s": 1, "m": 60, "h": 3600}


class Since(Enum):
    """What a moment is counted from."""

    EPOCH = auto()  # 1970 UTC
    DAY = auto()  # the begin of the day (UTC) of the capture's first packet
    FIRST = auto()  # the time of the capture's first packet


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment as a person names it."""

    text: str
    since: Since
    ns: int

    @classmethod
    def of(cls, given: str | datetime) -> Moment:
        """``2026-11-21T05:57:16.5``, ``05:57:16`` of the capture's day, ``+30s`` behind its first packet.

        Seconds since 1970 are a time too. Without a zone it is UTC. Raises ValueError.
        """
        message = "give 2026-11-21T05:57:16 (UTC), 05:57:16 of the capture's day, or +30s from its first packet"
        if not isinstance(given, str | datetime):
            raise ValueError(f"{given!r} is no time; {message}")
        text = given.isoformat() if isinstance(given, datetime) else given.strip()
        if found := _AFTER.fullmatch(text):
            return cls(text, Since.FIRST, round(float(found[1]) * _UNITS_S[found[2]] * SECOND_NS))
        try:
            if found := _CLOCK.fullmatch(text):
                day = np.datetime64(f"1970-01-01T{found[1]}:{found[2]}:{found[3] or '00'}", "ns")
                return cls(text, Since.DAY, int(day.astype(np.int64)))
            return cls(text, Since.EPOCH, absolute(text))
        except ValueError:
            raise ValueError(f"{text!r} is no time; {message}") from None

    def at(self, first: int | None) -> int:
        """Nanoseconds since 1970, by the time of the capture's first packet; behind all where that is not known."""
        if self.since is Since.EPOCH:
            return self.ns
        if first is None:
            return LAST
        return self.ns + (first - first % DAY_NS if self.since is Since.DAY else first)


def absolute(text: str) -> int:
    """Nanoseconds since 1970 of a date with or without time and zone, or of seconds since 1970; raises ValueError."""
    if found := _EPOCH.fullmatch(text):
        return int(found[1]) * SECOND_NS + int((found[2] or "").ljust(9, "0"))
    if (found := _ISO.fullmatch(text)) is None:
        raise ValueError(f"{text!r} is no time")
    day, clock, fraction, zone = found.groups()
    whole = datetime.fromisoformat(f"{day}T{clock or '00:00'}{(zone or '').replace('Z', '+00:00') or '+00:00'}")
    at = round(whole.timestamp()) * SECOND_NS + int((fraction or "").ljust(9, "0"))
    if not -LAST < at < LAST:
        raise ValueError(f"{text!r} lies outside of 1677 to 2262, which nanoseconds since 1970 can tell")
    return at


@dataclass(frozen=True, slots=True)
class Bounds:
    """A window whose ends are known."""

    since: int  # nanoseconds since 1970; ``NO_TIME``: packets without a time are in it too
    until: int  # the first that is not in it
    first: int  # number of a packet
    last: int

    def holds(self, packets: Packets) -> Bool:
        """Which packets are in it."""
        numbered = (packets.number >= self.first) & (packets.number <= self.last)
        inside: Bool = numbered & (packets.at >= self.since) & (packets.at < self.until)
        return inside

    def cut(self, packets: Packets) -> Packets:
        """Those of the packets that are in it."""
        inside = self.holds(packets)
        return packets if inside.all() else packets.rows(inside)

    def may_hold(self, first: int, last: int, earliest: int, latest: int) -> bool:
        """Whether packets with these numbers and times may be in it; ``LAST`` and ``NO_TIME``: none has a time."""
        if first > self.last or last < self.first:
            return False
        return self.since == NO_TIME or (latest >= self.since and earliest < self.until)


@dataclass(frozen=True, slots=True)
class PacketWindow:
    """A window as it was asked for."""

    since: Moment | None = None
    until: Moment | None = None  # a time of day that is not behind since is the next day's
    first: int = 1
    last: int = LAST

    @classmethod
    def of(
        cls,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        packets: str | tuple[int, int] | None = None,
    ) -> PacketWindow:
        """packets: ``A-B``, ``A-``, ``-B`` or ``A``, both included. Raises ValueError that begins with the name."""
        begin, end = _moment("since", since), _moment("until", until)
        if begin and end and begin.since is end.since is not Since.DAY and end.ns <= begin.ns:
            raise ValueError(f"until: {end.text!r} is not behind {begin.text!r}, so there is no packet in between")
        return cls(begin, end, *_numbers(packets))

    @property
    def is_everything(self) -> bool:
        """Whether no packet is left out."""
        return self == PacketWindow()

    def bounds(self, first_time: int | None) -> Bounds:
        """The window in a capture whose first packet has this time (None: no packet so far has one)."""
        if self.since is None and self.until is None:
            return Bounds(NO_TIME, LAST, self.first, self.last)
        since = NO_TIME + 1 if self.since is None else self.since.at(first_time)  # what has no time is outside
        until = LAST if self.until is None else self.until.at(first_time)
        if self.until is not None and self.until.since is Since.DAY and until <= since < LAST:
            until += DAY_NS * ((since - until) // DAY_NS + 1)
        return Bounds(since, until, self.first, self.last)

    def __str__(self) -> str:
        parts = [f"{name} {moment.text}" for name, moment in (("since", self.since), ("until", self.until)) if moment]
        if (self.first, self.last) != (1, LAST):
            parts.append(f"packets {self.first}-{'' if self.last == LAST else self.last}")
        return ", ".join(parts)


EVERYTHING = PacketWindow()


def _moment(name: str, given: str | datetime | None) -> Moment | None:
    try:
        return None if given is None else Moment.of(given)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _numbers(given: str | tuple[int, int] | None) -> tuple[int, int]:
    if given is None:
        return 1, LAST
    is_pair = isinstance(given, tuple | list) and len(given) == 2 and all(isinstance(one, int) for one in given)
    text = "{}-{}".format(*given) if is_pair else str(given)
    found = re.fullmatch(r"(\d*)(-?)(\d*)", text.strip())
    if found is None or not (found[1] or found[3]):
        raise ValueError(f"packets: {text!r} is no range; give numbers of packets as A-B, A- or -B")
    first = int(found[1] or 1)
    last = int(found[3] or LAST) if found[2] else first
    if not 0 < first <= last <= LAST:
        raise ValueError(f"packets: {text!r} holds no packet; they are numbered from 1")
    return first, last
