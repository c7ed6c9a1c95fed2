"""What may have gone unseen: of times of which the capture has nothing, and of hosts of which it lacks much."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.words import clock
from kafkascope.reports.incidents.holes.blackouts import Blackout, blackouts, by_connection
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import SECOND_NS

_SAYS_AGAIN_NS = 3 * SECOND_NS  # heartbeat.interval.ms: who is well says something by then


def hides(signs: Signs, since: int, until: int) -> bool:
    """Whether of half of a time or more the capture has nothing, so that nobody's silence in it says anything."""
    return 2 * lacking(signs, since, until) >= until - since > 0


def lacking(signs: Signs, since: int, until: int) -> int:
    """Nanoseconds of a time of which the capture has nothing."""
    found = signs.once(blackouts)
    first = bisect_right(found, since, key=lambda one: one.until)
    inside = found[first : bisect_left(found, until, first, key=lambda one: one.since)]
    return sum(min(one.until, until) - max(one.since, since) for one in inside)


def first_in(signs: Signs, since: int, until: int) -> Blackout | None:
    """The first of a time, both ends with it; None if the capture has all of it."""
    found = signs.once(blackouts)
    first = bisect_left(found, since, key=lambda one: one.until)
    return found[first] if first < len(found) and found[first].since <= until else None


def touches(signs: Signs, since: int, until: int) -> bool:
    """Whether there is a moment of a time, both ends with it, of which the capture has nothing."""
    return first_in(signs, since, until) is not None


def since_when(signs: Signs, at: int) -> str:
    """When somebody fell silent who was heard last at a time: what came soon behind that the capture may lack."""
    dark = first_in(signs, at, at + _SAYS_AGAIN_NS)
    return f"at {clock(at)}" if dark is None else f"between {clock(at)} and {clock(dark.until)}"


def lacks_packets(signs: Signs, host: str) -> bool:
    """Whether the capture lacks so much of what a host said and heard that its silence says nothing.

    What connections lack first behind a time of which it has nothing does not count: that was said in it.
    """
    least = threshold("answers_lacking")
    return signs.lacking(host) >= least and signs.lacking(host, but=signs.once(_lost_in_blackouts)[host]) >= least


def _lost_in_blackouts(signs: Signs) -> defaultdict[str, int]:
    """Bytes that connections lack first behind a time of which the capture has nothing, by host of either side."""
    found: defaultdict[str, int] = defaultdict(int)
    ends = [one.until for one in signs.once(blackouts)]
    rows = signs.rows("connections", ("connection", "client", "broker", "lost_bytes"), pc.field("lost_bytes") > 0)
    about = pa.array([row["connection"] for row in rows], pa.int64())
    gaps = signs.batches("issues", ("connection", "at"), pc.field("kind") == "tcp_gap")
    first_gap = by_connection(gaps, "at", about)
    for row in rows:
        at = first_gap.get(row["connection"], 0)
        place = bisect_right(ends, at) - 1
        if place >= 0 and at < ends[place] + _SAYS_AGAIN_NS:
            for host in {row["client"], row["broker"]}:
                found[host] += row["lost_bytes"]
    return found
