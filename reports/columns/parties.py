"""Who spoke with whom: the two ends of connections as columns, and rows of other tables beside their exchanges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from kafkascope.reports.columns.arrow import dictionary_codes, distinct_numbers, integers, one_of_each, places_among
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
        self._connections, of = distinct_numbers(connection)
        self._least = np.full(len(self._connections), np.iinfo(np.int64).max)
        self._most = np.full(len(self._connections), -1, np.int64)
        np.minimum.at(self._least, of, number)
        np.maximum.at(self._most, of, number)
        self._base = np.cumsum(self._most - self._least + 1) - self._most  # numbers of a connection follow each other
        self._keys, place = distinct_numbers(self._base[of] + number)
        self._row = one_of_each(place)

    def of(self, rows: pa.Table) -> I64:
        """The row of the exchange that each row of another table is of; -1 if it is not in the batch."""
        connection, number = (integers(rows[name]) for name in ("connection", "number"))
        of = places_among(self._connections, connection)
        if not len(self._keys):
            return of
        known = (of >= 0) & (self._least[of] <= number) & (number <= self._most[of])
        place = places_among(self._keys, np.where(known, self._base[of] + number, np.int64(-1)))
        return np.where(place >= 0, self._row[place], np.int64(-1))


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
