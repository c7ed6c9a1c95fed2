"""Times of which the capture has nothing at all: it stood still, or all did, or files of it are missing.

Nobody was silent then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkascope.reports.columns.tenths import TENTH_NS, tenths
from kafkascope.reports.columns.text import counted
from kafkascope.reports.columns.words import clock, duration
from kafkascope.reports.incidents.holes.standstills import stood_still
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.columns import I64, Bool
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

_BEHIND_NS = SECOND_NS  # what goes on shows by then what it lacks
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
    first_gap = by_connection(gaps, "at", about)
    begun, spoke = (
        by_connection(signs.batches("tcp_health", ("connection", name)), name, about)
        for name in ("first", "last_payload")
    )
    half_open = signs.batches("connections", ("connection",), pc.field("opened").is_null())
    unopened = by_connection(half_open, "connection", about).keys() & spoke.keys()
    pairs = list(zip(connection.tolist(), until.tolist(), strict=True))
    before = np.array([begun[one] < end for one, end in pairs], np.bool_)
    lacks = np.array([end <= first_gap.get(one, 0) < end + _BEHIND_NS for one, end in pairs], np.bool_)
    can_tell = np.array([first_gap.get(one, end) >= end for one, end in pairs], np.bool_)
    return before, before & can_tell, before & lacks, ~before & np.isin(connection, list(unopened))


def by_connection(batches: Iterator[pa.Table], name: str, about: pa.Array) -> dict[int, int]:
    """The least number of a column, by connection, of some of them."""
    found: dict[int, int] = {}
    for batch in batches:
        of_some = batch.filter(pc.and_(pc.is_in(batch["connection"], about), pc.is_valid(batch[name])))
        for row in of_some.group_by("connection").aggregate([(name, "min")]).to_pylist():
            number, least = row["connection"], row[f"{name}_min"]
            found[number] = min(found.get(number, least), least)
    return found
