"""Requests whose answers the capture lacks: brokers answer each connection in order (Kafka protocol guide)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from kafkascope.reports.columns.arrow import distinct_numbers, integers
from kafkascope.sniffer.columns import Bool


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
