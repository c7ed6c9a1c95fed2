"""Who spoke with whom: the two ends of connections as columns, and rows of other tables beside their exchanges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from kafkascope.decoders.kernels import borrowing, kernel
from kafkascope.reports.columns.arrow import dictionary_codes, distinct_numbers, integers
from kafkascope.reports.columns.hashing import empty_slots, slot_behind, slot_of
from kafkascope.reports.columns.text import address
from kafkascope.sniffer.columns import I32, I64


def clients_and_brokers(connections: I64, ends: Mapping[int, Ends]) -> tuple[pa.Array, pa.Array]:
    """The client's address and the broker's address:port of each connection, null where not known: as dictionaries."""
    distinct, place = distinct_numbers(connections)
    known = [ends.get(connection) for connection in distinct.tolist()]
    clients = [end and end.client for end in known]
    brokers = [end and address(end.broker, end.broker_port) for end in known]
    of_client, of_broker = (pa.array(names, pa.string()).dictionary_encode() for names in (clients, brokers))
    return of_client.take(pa.array(place)), of_broker.take(pa.array(place))


def topics_of_exchanges(exchange: I64, topic: pa.ChunkedArray) -> tuple[I64, pa.Array, I64]:
    """Each exchange (-1: none) with each of its topics once.

    Exchanges in ascending order, and the topics; and of each row that was given its place among these, or -1.
    """
    codes, distinct = dictionary_codes(topic)
    there = (exchange >= 0) & (codes >= 0)
    base = np.int64(len(distinct) + 1)
    pairs, place = distinct_numbers(exchange[there] * base + codes[there])
    places = np.full(len(exchange), -1, np.int64)
    places[there] = place
    return pairs // base, distinct.take(pa.array(pairs % base)), places


class ExchangePlaces:
    """Where each exchange of a batch is, by connection and number."""

    def __init__(self, exchanges: pa.Table) -> None:
        self._keys = _keys(exchanges)
        self._slots = empty_slots(exchanges.num_rows)
        _enter(*self._keys, self._slots)

    def of(self, rows: pa.Table) -> I64:
        """The row of the exchange that each row of another table is of; -1 if it is not in the batch."""
        found = np.empty(rows.num_rows, np.int64)
        _find(*self._keys, self._slots, *_keys(rows), found)
        return found


def _keys(rows: pa.Table) -> tuple[I64, I64]:
    return integers(rows["connection"]), integers(rows["number"])


@borrowing
def _slot(connections: I64, numbers: I64, slots: I32, connection: Any, number: Any) -> Any:
    """The slot of an exchange, or a free one."""
    slot = slot_of(connection * 1_000_003 + number, slots)  # a prime: connections have few exchanges at a time
    while slots[slot] >= 0 and (connections[slots[slot]] != connection or numbers[slots[slot]] != number):
        slot = slot_behind(slot, slots)
    return slot


@kernel
def _enter(connections: I64, numbers: I64, slots: I32) -> None:
    for row in range(connections.shape[0]):
        slots[_slot(connections, numbers, slots, connections[row], numbers[row])] = row


@kernel
def _find(connections: I64, numbers: I64, slots: I32, connection: I64, number: I64, found: I64) -> None:
    for row in range(found.shape[0]):
        if row > 0 and connection[row] == connection[row - 1] and number[row] == number[row - 1]:
            found[row] = found[row - 1]
        else:
            found[row] = slots[_slot(connections, numbers, slots, connection[row], number[row])]


class Ends(Protocol):
    """Both ends of a connection."""

    @property
    def client(self) -> str:
        """The client's address."""

    @property
    def client_port(self) -> int:
        """The client's port."""

    @property
    def broker(self) -> str:
        """The broker's address."""

    @property
    def broker_port(self) -> int:
        """The broker's port."""
