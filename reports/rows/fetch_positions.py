"""Which offset a fetch asked for, partition by partition.

In a fetch session a request lists only what changed since the last one (KIP-227): the last offset asked for on a
connection stays asked for until another request on it says otherwise, or one that could not be read may have.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kafkascope.reports.columns.arrow import equal_columns
from kafkascope.sniffer.columns import I64

UNKNOWN = np.int64(-(2**63))
_ALL_READ: I64 = np.zeros((2, 0), np.int64)


class _UnreadBefore:
    """How many requests of connections were not read by a time, that with it."""

    def __init__(self, unread: I64) -> None:
        self._connections, place = np.unique(unread[0], return_inverse=True)
        self._times = np.unique(unread[1])
        self._keys = np.sort(place * (len(self._times) + 1) + np.searchsorted(self._times, unread[1]))

    def count(self, connection: I64, time: I64) -> I64:
        """By these times, on these connections."""
        if not len(self._connections):
            return np.zeros(len(connection), np.int64)
        place = np.minimum(np.searchsorted(self._connections, connection), len(self._connections) - 1)
        first = place * (len(self._times) + 1)
        until = first + np.searchsorted(self._times, time, "right")
        count = np.searchsorted(self._keys, until, "left") - np.searchsorted(self._keys, first, "left")
        return np.where(self._connections[place] == connection, count, 0)


class FetchPositions:
    """The offsets last asked for, by connection, topic and partition."""

    def __init__(self) -> None:
        self._known = np.zeros((4, 0), np.int64)  # rows: connection, topic, partition, offset

    def observe(self, asked: I64, wanted: I64, unread: I64 = _ALL_READ) -> I64:
        """Take in what requests asked for; say what was asked for the wanted partitions.

        asked has the rows connection, topic (a number that stands for it), partition, time (of which only the order
        matters: a response has the time of its own request) and offset; wanted the first four of them; unread, of
        requests that were not read whole, connection and time. Returns an offset for each of wanted, ``UNKNOWN`` where
        no request that was seen told it.
        """
        if not asked.shape[1] and not wanted.shape[1] and not unread.shape[1]:
            return np.zeros(0, np.int64)
        known = self._known
        before = np.full(known.shape[1], -1, np.int64)
        keys = np.concatenate([known[:3], asked[:3], wanted[:3]], axis=1)
        time = np.concatenate([before, asked[3] * 2, wanted[3] * 2 + 1])
        offset = np.concatenate([known[3], asked[4], np.zeros(wanted.shape[1], np.int64)])
        asks = known.shape[1] + asked.shape[1]
        group = equal_columns(keys)

        order = np.argsort(time, kind="stable")
        order = order[np.argsort(group[order], kind="stable")]
        group = group[order]
        is_ask = order < asks
        place = np.arange(len(order))
        last_ask = np.maximum.accumulate(np.where(is_ask, place, -1))
        found = (last_ask >= 0) & (group[np.maximum(last_ask, 0)] == group)
        result = np.full(wanted.shape[1], UNKNOWN)
        answers = ~is_ask & found
        told_by = order[last_ask[answers]]
        missed = _UnreadBefore(unread)
        passed = [missed.count(keys[0, rows], time[rows] // 2) for rows in (order[answers], told_by)]
        result[order[answers] - asks] = np.where(passed[0] > passed[1], UNKNOWN, offset[told_by])

        if asked.shape[1] or unread.shape[1]:
            ask_group = group[is_ask]
            is_last = np.ones(len(ask_group), bool)
            is_last[:-1] = ask_group[1:] != ask_group[:-1]
            keep = order[is_ask][is_last]
            end = np.full(len(keep), np.iinfo(np.int64).max)
            keep = keep[missed.count(keys[0, keep], end) == missed.count(keys[0, keep], time[keep] // 2)]
            self._known = np.concatenate([keys[:, keep], offset[None, keep]])
        return result

    def forget(self, connections: Iterable[int]) -> None:
        """Drop what is known of connections that have ended."""
        if self._known.shape[1]:
            gone = np.fromiter(connections, np.int64)
            self._known = self._known[:, ~np.isin(self._known[0], gone)]
