"""What follows from it that brokers work off the requests of each connection in order (Kafka protocol guide).

What was not answered, though a later request was, lacks its answer in the capture alone; and a request waits for those
before it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from kafkascope.reports.columns.arrow import distinct_numbers, integers
from kafkascope.sniffer.columns import I64, Bool


class Answered:
    """Of open connections, when the latest request was sent that was answered."""

    def __init__(self) -> None:
        self._latest: dict[int, int] = {}

    def passed_over(self, exchanges: pa.Table) -> Bool:
        """Take in a batch; whether each of its requests was sent before another that was answered.

        So it was answered as well, whatever the capture has. Without an answer they come when their connection ends,
        behind all that was answered.
        """
        connections, place = distinct_numbers(integers(exchanges["connection"]))
        latest = np.array([self._latest.get(connection, -1) for connection in connections.tolist()], np.int64)
        sent, answered = integers(exchanges["requested"]), integers(exchanges["answered"]) >= 0
        np.maximum.at(latest, place[answered], sent[answered])
        self._latest.update(zip(connections.tolist(), latest.tolist(), strict=True))
        found: Bool = (sent >= 0) & (sent < latest[place])
        return found

    def forget(self, connections: Iterable[int]) -> None:
        """Forget connections that have ended."""
        for connection in connections:
            self._latest.pop(connection, None)


class Begun:
    """Of open connections, when the broker could begin with the next request: it works them off one by one."""

    def __init__(self) -> None:
        self._free: dict[int, int] = {}

    def earliest(self, exchanges: pa.Table, free: I64) -> I64:
        """Take in a batch; for each request, from when on the ones before it on its connection are no excuse.

        free i64[n]: from when on each one is none itself: it was answered, or should have been.
        """
        if not len(free):
            return free
        connections, place = distinct_numbers(integers(exchanges["connection"]))
        n = len(connections)
        state = np.array([self._free.get(connection, 0) for connection in connections.tolist()], np.int64)
        # Each connection begins with its state; what is highest so far in each is found for all at once.
        owner, value = np.concatenate([np.arange(n), place]), np.concatenate([state, free])
        order = np.lexsort((np.concatenate([np.zeros(n, np.int64), integers(exchanges["number"])]), owner))
        owner, value = owner[order], value[order]
        heights, height = np.unique(value, return_inverse=True)
        highest = heights[np.maximum.accumulate(owner * len(heights) + height) % len(heights)]
        last = np.searchsorted(owner, np.arange(n), "right") - 1
        self._free.update(zip(connections.tolist(), highest[last].tolist(), strict=True))
        before = np.empty(len(value), np.int64)
        before[order[1:]] = highest[:-1]
        return before[n:]

    def forget(self, connections: Iterable[int]) -> None:
        """Forget connections that have ended."""
        for connection in connections:
            self._free.pop(connection, None)
