"""Who spoke with whom: the two ends of connections as columns, and rows of other tables beside their exchanges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from kafkascope.reports.columns.arrow import dictionary_codes, distinct_numbers, integers
from kafkascope.reports.columns.text import address
from kafkascope.sniffer.columns import I64


def clients_and_brokers(connections: I64, ends: Mapping[int, Ends]) -> tuple[pa.Array, pa.Array]:
    """The client's address and the broker's address:port of each connection; null for one that is not known."""
    distinct, place = distinct_numbers(connections)
    known = [ends.get(connection) for connection in distinct.tolist()]
    clients = [end and end.client for end in known]
    brokers = [end and address(end.broker, end.broker_port) for end in known]
    rows = pa.array(place)
    return pa.array(clients, pa.string()).take(rows), pa.array(brokers, pa.string()).take(rows)


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
        connection, number = (integers(exchanges[name]) for name in ("connection", "number"))
        self._order = np.lexsort((number, connection))
        self._connections = np.unique(connection)
        self._most = int(number.max(initial=0)) + 1
        self._keys = self._key(connection, number)[self._order]

    def of(self, rows: pa.Table) -> I64:
        """The row of the exchange that each row of another table is of; -1 if it is not in the batch."""
        connection, number = (integers(rows[name]) for name in ("connection", "number"))
        if not len(self._keys) or not len(connection):
            return np.full(len(connection), -1, np.int64)
        known = np.isin(connection, self._connections) & (number >= 0) & (number < self._most)
        keys = self._key(np.where(known, connection, self._connections[0]), number)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(known & (self._keys[at] == keys), self._order[at], np.int64(-1))

    def _key(self, connection: I64, number: I64) -> I64:
        return np.searchsorted(self._connections, connection) * np.int64(self._most) + number


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
