"""The table of connections by their two endpoints: open addressing, with a hash that no sender can predict."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kafkascope.decoders.kernels import borrowing, kernel
from kafkascope.sniffer.columns import I64, U64
from kafkascope.sniffer.reassembly.state import Integer, State


class Ends(NamedTuple):
    """The two endpoints of a connection, as uint64: of each the two halves of its address; both ports are one."""

    high_0: Integer
    low_0: Integer
    high_1: Integer
    low_1: Integer
    ports: Integer


@borrowing
def _hash(secret: U64, ends: Ends) -> Integer:
    mixed = secret[0]
    for word in ends:
        mixed = (mixed ^ word) * secret[1]
        mixed ^= mixed >> np.uint64(29)
    mixed = mixed * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> np.uint64(32))


@borrowing
def _bucket(table: I64, hashed: Integer) -> Integer:
    return np.int64(hashed & np.uint64(table.shape[0] - 1))


@borrowing
def find(state: State, ends: Ends) -> Integer:
    """Slot of the connection between two endpoints; -1: there is none."""
    mask = state.table.shape[0] - 1
    hashed = _hash(state.secret, ends)
    place = _bucket(state.table, hashed)
    while state.table[place] >= 0:
        known = state.connections[state.table[place]]
        if (
            known.hash == hashed
            and known.ports == ends.ports
            and known.low_0 == ends.low_0
            and known.low_1 == ends.low_1
            and known.high_0 == ends.high_0
            and known.high_1 == ends.high_1
        ):
            break
        place = (place + 1) & mask
    return state.table[place]


@borrowing
def _enter(state: State, slot: Integer) -> None:
    mask = state.table.shape[0] - 1
    place = _bucket(state.table, state.connections[slot].hash)
    while state.table[place] >= 0:
        place = (place + 1) & mask
    state.table[place] = slot


@borrowing
def leave(state: State, slot: Integer) -> None:
    """Take a connection out of the table, and move up those that it had pushed away from their bucket."""
    mask = state.table.shape[0] - 1
    hole = _bucket(state.table, state.connections[slot].hash)
    while state.table[hole] != slot:
        hole = (hole + 1) & mask
    place = hole
    while True:
        place = (place + 1) & mask
        other = state.table[place]
        if other < 0:
            break
        home = _bucket(state.table, state.connections[other].hash)
        if ((place - home) & mask) >= ((place - hole) & mask):
            state.table[hole] = other
            hole = place
    state.table[hole] = -1


@borrowing
def add(state: State, ends: Ends) -> Integer:
    """Enter two endpoints, for which there is room; return the slot of their connection, which is yet to begin."""
    totals = state.totals[0]
    slot = totals.free_slot
    if slot >= 0:
        totals.free_slot = state.connections[slot].next_free
    else:
        slot = totals.slots
        totals.slots += 1
    totals.live += 1
    connection = state.connections[slot]
    connection.high_0 = ends.high_0
    connection.low_0 = ends.low_0
    connection.high_1 = ends.high_1
    connection.low_1 = ends.low_1
    connection.ports = ends.ports
    connection.hash = _hash(state.secret, ends)
    _enter(state, slot)
    return slot


@kernel
def rehash(state: State) -> None:
    """Enter all connections into a table that is still empty."""
    for slot in range(state.totals[0].slots):
        if state.connections[slot].used:
            _enter(state, slot)
