"""Until when others wait for a broker that is gone, or stands still, as for a replica in sync."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from kafkascope.reports.incidents.brokers.away import is_left_out
from kafkascope.reports.incidents.brokers.outage import Outage, of_two_clusters
from kafkascope.reports.incidents.signs import Signs
from kafkascope.reports.vocabulary.thresholds import threshold
from kafkascope.sniffer.units import SECOND_NS

FOLLOWS_NS = 15 * SECOND_NS
"""Behind the end of another broker: until it is out of the sets of replicas in sync."""
_LEFT_OUT_NS = 5 * SECOND_NS  # behind the cluster's word that it is off, or its return: nobody waits for it any more


class Waits:
    """For which brokers others waited as for replicas, and until when."""

    def __init__(self, signs: Signs, found: Sequence[Outage]) -> None:
        self._signs = signs
        self._found = found  # by time
        self._untils = [self._until(one) for one in found]
        self._latest = [*accumulate(self._untils, max)]

    def _until(self, outage: Outage) -> int:
        until = waited_for_until(self._signs, outage)
        if until is None:  # nothing tells: who waits for a replica does not stand still as a whole for long
            return outage.started + int(threshold("one_trouble") * SECOND_NS)
        return until

    def explain(self, stall: Outage) -> bool:
        """Whether a broker stands still because another one is gone, or stands still for longer."""
        least = max(stall.silence["duration_ms"], threshold("stall") * 1000)
        first = bisect_left(self._latest, stall.started)
        behind = bisect_right(self._found, stall.started + SECOND_NS, key=lambda one: one.started)
        return any(
            one.host != stall.host
            and self._untils[place] >= stall.started
            and (one.gone or one.silence["duration_ms"] > least)
            and not of_two_clusters(self._signs, one.host, stall.host, stall.started)
            for place, one in enumerate(self._found[first:behind], first)
        )


def waited_for_until(signs: Signs, outage: Outage) -> int | None:
    """When nobody waited any more for a broker as for a replica in sync: it was back, or left out; None: not known."""
    if outage.ended is not None:
        return max(outage.started + FOLLOWS_NS, outage.ended + _LEFT_OUT_NS)
    node = signs.node(outage.host, outage.started)
    events = signs.events_of(node, outage.started, signs.end + 1)
    left_out = next((row["at"] for row in events if node is not None and is_left_out(row, node)), None)
    return None if left_out is None else left_out + _LEFT_OUT_NS
