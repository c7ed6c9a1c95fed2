"""Issues of connections, counted by kind."""

from __future__ import annotations

import numpy as np

from kafkascope.decoders.kernels import borrowing
from kafkascope.sniffer.reassembly.state import DUPLICATE, KINDS, Integer, Record, Records, State


@borrowing
def count_issue(state: State, slot: Integer, kind: Integer, at: Integer, number: Integer, value: Integer) -> None:
    """Count an issue of a connection; the one with the lowest packet number is told in full."""
    connection = state.connections[slot]
    if connection.marks < 0:
        totals = state.totals[0]
        place = totals.free_marks
        if place >= 0:
            totals.free_marks = state.marks[place, 0].value
        else:
            place = totals.marks
            totals.marks += 1
        for index in range(KINDS):
            state.marks[place, index].count = 0
            state.marks[place, index].sum = 0
        connection.marks = place
    mark = state.marks[connection.marks, kind]
    mark.count += 1
    mark.sum += value
    if mark.count == 1 or number < mark.number:
        mark.at = at
        mark.number = number
        mark.value = value


@borrowing
def captured_twice(marks: Records, connection: Record) -> Integer:
    """How many segments of a connection were captured twice."""
    return np.int64(0) if connection.marks < 0 else marks[connection.marks, DUPLICATE].count
