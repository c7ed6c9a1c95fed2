"""Whether a client went on when a connection of it ended, or was a process that ended with it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from kafkascope.reports.incidents.table_rows import Row

_NEVER = 2**63 - 1


class GoingOn:
    """The connections of one client, by when they begin and end."""

    def __init__(self, connections: Iterable[Row]) -> None:
        in_turn = sorted((row["opened"] or 0, row["connection"], row["closed"]) for row in connections)
        self._opened = [opened for opened, *_ in in_turn]
        self._last_two: list[list[tuple[int, int]]] = []  # up to each: when those that last longest close, and which
        lasting: list[tuple[int, int]] = []
        for _, number, closed in in_turn:
            lasting = sorted([*lasting, (_NEVER if closed is None else closed, number)])[-2:]
            self._last_two.append(lasting)

    def has_another(self, connection: int, since: int, until: int) -> bool:
        """Whether another connection than this one was open at a time, and still was at a later one."""
        place = bisect_right(self._opened, since)
        lasting = self._last_two[place - 1] if place else []
        return any(closed > until and number != connection for closed, number in lasting)
