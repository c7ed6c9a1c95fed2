"""Times of which the capture has nothing at all: it stood still, or all did, or files of it are missing.

Nobody was silent then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.tenths import TENTH_NS, tenths
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.incidents.standstills import stood_still
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_BEHIND_NS = SECOND_NS  # what goes on shows by then what it lacks
_SAYS_AGAIN_NS = 3 * SECOND_NS  # heartbeat.interval.ms: who is well says something by then
_MOST = 10_000  # times that are looked at, the longest
_NONE: I64 = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Blackout:
    """A time of which the capture has no packet of anybody."""

    since: int
    until: int

    @property
    def lasted(self) -> int:
        """Nanoseconds."""
        return self.until - self.since


def hides(signs: Signs, since: int, until: int) -> bool:
    """Whether of half of a time or more the capture has nothing, so that nobody's silence in it says anything."""
    return 2 * lacking(signs, since, until) >= until - since > 0


def lacking(signs: Signs, since: int, until: int) -> int:
    """Nanoseconds of a time of which the capture has nothing."""
    found = signs.once(blackouts)
    first = bisect_right(found, since, key=lambda one: one.until)
    inside = found[first : bisect_left(found, until, first, key=lambda one: one.since)]
    return sum(min(one.until, until) - max(one.since, since) for one in inside)


def lacks_packets(signs: Signs, host: str) -> bool:
    """Whether the capture lacks so much of what a host said and heard that its silence says nothing.

    What connections lack first behind a time of which it has nothing does not count: that was said in it.
    """
    if signs.lacking(host) < threshold("answers_lacking"):
        return False
    known = signs.once(_known_to_lack)
    if host not in known:
        known[host] = _lacks_packets(signs, host)
    return known[host]


def _known_to_lack(_: Signs) -> dict[str, bool]:
    """By host, as far as somebody has asked."""
    return {}


def _lacks_packets(signs: Signs, host: str) -> bool:
    ends = [one.until for one in signs.once(blackouts)]
    where = (pc.field("client") == host) | (pc.field("broker") == host)
    rows = signs.rows("connections", ("connection", "bytes_up", "bytes_down", "lost_bytes"), where)
    about = pa.array([row["connection"] for row in rows], pa.int64())
    first_gap = _by_connection(
        signs.batches("issues", ("connection", "at"), pc.field("kind") == "tcp_gap"), "at", about
    )
    lost = 0
    for row in rows:
        at = first_gap.get(row["connection"], 0)
        place = bisect_right(ends, at) - 1
        lost += 0 if place >= 0 and at < ends[place] + _SAYS_AGAIN_NS else row["lost_bytes"] or 0
    size = sum((row["bytes_up"] or 0) + (row["bytes_down"] or 0) for row in rows)
    return 100 * lost >= threshold("answers_lacking") * max(size, 1)


def first_in(signs: Signs, since: int, until: int) -> Blackout | None:
    """The first of a time, both ends with it; None if the capture has all of it."""
    found = signs.once(blackouts)
    first = bisect_left(found, since, key=lambda one: one.until)
    return found[first] if first < len(found) and found[first].since <= until else None


def touches(signs: Signs, since: int, until: int) -> bool:
    """Whether there is a moment of a time, both ends with it, of which the capture has nothing."""
    return first_in(signs, since, until) is not None


def when(signs: Signs, at: int) -> str:
    """When somebody fell silent who was heard last at a time: what came soon behind that the capture may lack."""
    dark = first_in(signs, at, at + _SAYS_AGAIN_NS)
    return f"at {clock(at)}" if dark is None else f"between {clock(at)} and {clock(dark.until)}"


def hush(signs: Signs, since: int, until: int) -> int:
    """Nanoseconds of the longest time within another in which nobody sent anything, for whatever reason."""
    begins, ends = signs.once(_nothing)
    return int((np.minimum(ends, until) - np.maximum(begins, since)).max(initial=0))


def told(found: Sequence[Blackout]) -> str:
    """What to say of them (at least one)."""
    longest = max(found, key=lambda one: (one.lasted, -one.since))
    times = f"from {clock(longest.since)} to {clock(longest.until)} ({duration(longest.lasted / MILLISECOND_NS)})"
    more = f", and {counted(len(found) - 1, 'time')} more for shorter" if len(found) > 1 else ""
    return f"nothing was captured {times}{more}: who said nothing then, and why, is not known"


def blackouts(signs: Signs) -> list[Blackout]:
    """All of them, by time.

    Where nobody sent anything, all may have waited for one. So half of the connections that are heard before and soon
    behind it must lack bytes that were said in it; or none is heard on both sides, and some behind it that were opened
    out of sight; or it was longer than anybody waits for an answer; or several who waited for nobody were silent too.
    """
    since, until = _nothing(signs)
    if not len(since):
        return []
    connection, of = _heard_behind(signs, until)
    fates = _fates(signs, connection, until[of])
    before, through, lacking, unseen = (np.bincount(of[rows], minlength=len(until)) for rows in fates)
    others = (before == 0) & (unseen > 1)
    alone = until - since >= threshold("blackout_alone") * SECOND_NS
    sure = alone | others | ((lacking > 0) & (2 * lacking >= through))
    sure[~sure] = stood_still(signs, since[~sure], until[~sure])
    found = np.flatnonzero(sure)
    return [Blackout(*times) for times in zip(since[found].tolist(), until[found].tolist(), strict=True)]


def _nothing(signs: Signs) -> tuple[I64, I64]:
    """Times long enough in which nobody sent anything, in order."""
    rows = signs.batches("tcp_health", ("at", "sent_in"), pc.field("at").is_valid())
    there = np.unique(np.concatenate([_NONE, *(np.unique(tenths(b["at"], b["sent_in"])[1]) for b in rows)]))
    places = np.flatnonzero(np.diff(there) > int(threshold("blackout") * SECOND_NS) // TENTH_NS)
    since, until = (there[places] + 1) * TENTH_NS, there[places + 1] * TENTH_NS
    longest = np.sort(np.argsort(since - until, kind="stable")[:_MOST])
    return since[longest], until[longest]


def _heard_behind(signs: Signs, until: I64) -> tuple[I64, I64]:
    """Connections that had packets soon behind the end of times, and at which place those are, once each."""
    found = [_NONE]
    for batch in signs.batches("tcp_health", ("connection", "at", "sent_in"), pc.field("at").is_valid()):
        rows, sent = tenths(batch["at"], batch["sent_in"])
        place = np.searchsorted(until, sent * TENTH_NS, "right") - 1  # these times are further apart than is soon
        soon = (place >= 0) & (sent * TENTH_NS < until[place] + _BEHIND_NS)
        connection = batch["connection"].to_numpy()[rows[soon]]
        found.append(np.unique(connection * len(until) + place[soon]))
    connection, place = np.divmod(np.unique(np.concatenate(found)), len(until))
    return connection, place


def _fates(signs: Signs, connection: I64, until: I64) -> tuple[Bool, Bool, Bool, Bool]:
    """Of connections that are heard behind a time: which were heard before it, which of those can tell, or lack bytes.

    Those that lacked some before cannot tell: of each, the first time alone is told. And which were not heard before,
    though they say something, and the capture lacks how they were opened.
    """
    about = pa.array(np.unique(connection))
    gaps = signs.batches("issues", ("connection", "at"), pc.field("kind") == "tcp_gap")
    first_gap = _by_connection(gaps, "at", about)
    begun, spoke = (
        _by_connection(signs.batches("tcp_health", ("connection", name)), name, about)
        for name in ("first", "last_payload")
    )
    half_open = signs.batches("connections", ("connection",), pc.field("opened").is_null())
    unopened = _by_connection(half_open, "connection", about).keys() & spoke.keys()
    pairs = list(zip(connection.tolist(), until.tolist(), strict=True))
    before = np.array([begun[one] < end for one, end in pairs], np.bool_)
    lacks = np.array([end <= first_gap.get(one, 0) < end + _BEHIND_NS for one, end in pairs], np.bool_)
    can_tell = np.array([first_gap.get(one, end) >= end for one, end in pairs], np.bool_)
    return before, before & can_tell, before & lacks, ~before & np.isin(connection, list(unopened))


def _by_connection(batches: Iterator[pa.Table], name: str, about: pa.Array) -> dict[int, int]:
    """The least number of a column, by connection, of some of them."""
    found: dict[int, int] = {}
    for batch in batches:
        of_some = batch.filter(pc.and_(pc.is_in(batch["connection"], about), pc.is_valid(batch[name])))
        for row in of_some.group_by("connection").aggregate([(name, "min")]).to_pylist():
            number, least = row["connection"], row[f"{name}_min"]
            found[number] = min(found.get(number, least), least)
    return found
