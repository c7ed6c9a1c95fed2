"""Packets that were captured before and after their addresses were translated: each counts once.

Who captures on all interfaces of a host that translates addresses (ports of containers that are published, services of
Kubernetes) has each packet of a connection twice, with two addresses of its broker. Translation leaves the client's
address and port as they are, where it can (RFC 4787, REQ-3), and sequence numbers always. So if one address and port
says the same to two others, that is one connection, and the first one of them counts.

The client is the side with the higher port. What is found hangs on the packets of one client's port alone, which
`spreading` keeps together.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import numpy as np

from kafkascope.decoders.kernels import borrowing, kernel
from kafkascope.decoders.limits import DEFAULT
from kafkascope.sniffer.columns import ACK, I8, I32, I64, NO_TIME, SYN, U8, U16, U32, U64, Segments, plain
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.link import as_writable
from kafkascope.sniffer.mixing import mixed_word
from kafkascope.sniffer.reassembly.bounds import IDLE_TIME, elapsed
from kafkascope.sniffer.tcp import host_of
from kafkascope.sniffer.units import SECOND_NS

Records = Any  # a structured array, or one element of it
Integer = Any  # int64 inside kernels

SOON = 1 * SECOND_NS  # no packet takes longer through a host
LIFETIME = 60 * SECOND_NS  # a client's port that was silent for so long is forgotten; with a copy after IDLE_TIME
COMPARED = 16  # first bytes of a payload, of which a Kafka message has its size, API and correlation id
SAID = 4  # latest segments with payload of each side that are remembered: interfaces take turns by some packets
TRIES = 16  # segments with payload by which two connections must turn out to be one
OTHERS = 2  # further addresses that one client's port speaks with at once

NOTHING, UNKNOWN, COPY = 0, 1, 2  # what such an address is
KEPT, REPEATED, DROPPED, MOVED = range(4)  # what becomes of a segment: it is none, behind its copy, a copy ...

CLIENT = np.dtype(
    [
        ("high", "u8"),  # the client's address
        ("low", "u8"),
        ("server_high", "u8"),  # that it was first seen to speak with
        ("server_low", "u8"),
        ("at", "i8"),  # of the latest segment
        ("syn_at", "i8"),  # of the latest SYN to it
        ("said", "u8", (2 * SAID,)),  # fingerprints of segments with payload: of the client's, then of the server's
        ("is_copys", "i1", (2 * SAID,)),  # 1: a copy said it, and what it is a copy of has not come yet
        ("other_high", "u8", (OTHERS,)),
        ("other_low", "u8", (OTHERS,)),
        ("other_port", "u2", (OTHERS,)),
        ("other_is", "i1", (OTHERS,)),
        ("other_tries", "i1", (OTHERS,)),
        ("syn", "u4"),
        ("port", "u2"),
        ("server_port", "u2"),
        ("next", "i1", (2,)),
        ("has_syn", "i1"),
        ("has_copy", "i1"),
    ]
)


class Translations:
    """Knows copies of packets with a translated address; memory grows with the clients' ports of the last minute.

    These may be as many as the connections that are followed; of more the ones are forgotten that were silent longest.
    """

    def __init__(self, most: int = DEFAULT.connections) -> None:
        self._most = most
        self._issues: list[Issue] = []
        self._clients = np.zeros(64, CLIENT)
        self._table = np.full(256, -1, np.int64)
        self._count = np.zeros(1, np.int64)
        self._secret = np.array([secrets.randbits(64), secrets.randbits(64) | 1], np.uint64)

    def feed(self, segments: Segments) -> Segments:
        """The next segments of the capture, without copies; one that says more than was seen has the first address."""
        named, fate = self._named(segments)
        gone = (fate == DROPPED) | (fate == REPEATED)
        return named.rows(~gone) if gone.any() else named

    def named(self, segments: Segments) -> Segments:
        """The next segments of the capture, of which copies have the first address."""
        return self._named(segments)[0]

    def take_issues(self) -> list[Issue]:
        """What copies were met since this was asked last."""
        issues, self._issues = self._issues, []
        return issues

    def _named(self, segments: Segments) -> tuple[Segments, I8]:
        count = len(segments.number)
        fate = np.zeros(count, np.int8)
        original = np.zeros((2, count), np.uint64), np.zeros(count, np.uint16)
        columns = plain(
            segments.at,
            segments.source_high,
            segments.source_low,
            segments.target_high,
            segments.target_low,
            segments.source_port,
            segments.target_port,
            segments.seq,
            segments.ack,
            segments.flags,
            segments.length,
            segments.start,
            segments.captured,
        )
        columns.append(as_writable(segments.data))
        taken = find(self._table, self._clients, self._count, self._secret, 0, fate, *original, *columns)
        while taken < count:
            self._make_room(int(segments.at[taken]))
            taken = find(self._table, self._clients, self._count, self._secret, taken, fate, *original, *columns)
        if not (copies := np.flatnonzero(fate >= DROPPED)).size:
            return segments, fate
        (high, low), port = original
        from_client = (segments.source_port > segments.target_port)[copies]
        moved = {name: getattr(segments, name).copy() for name in _ADDRESSES}
        for side, is_here in (("target", from_client), ("source", ~from_client)):
            for part, values in (("high", high), ("low", low), ("port", port)):
                moved[f"{side}_{part}"][copies[is_here]] = values[copies[is_here]]
        named = replace(segments, **moved)
        self._tell(segments, named, copies)
        return named, fate

    def _tell(self, segments: Segments, named: Segments, copies: I64) -> None:
        first = copies[0]
        side = "target" if segments.source_port[first] > segments.target_port[first] else "source"
        copy, original = (
            f"{host_of(*(int(getattr(of, f'{side}_{part}')[first]) for part in ('high', 'low')))} port "
            f"{getattr(of, f'{side}_port')[first]}"
            for of in (segments, named)
        )
        at = int(segments.at[first])
        self._issues.append(
            Issue(
                "address_translated",
                f"what {copy} says and hears is what {original} does: addresses were translated in between",
                at=None if at == NO_TIME else at,
                packet=int(segments.number[first]),
                count=len(copies),
            )
        )

    def _make_room(self, now: int) -> None:
        """Forget clients that were silent for long; if that does not make room, have more of it."""
        known = self._clients[: self._count[0]]
        silent = np.where((known["at"] == NO_TIME) | (now == NO_TIME), 0, now - known["at"])
        kept = known[silent <= np.where(known["has_copy"] != 0, IDLE_TIME, LIFETIME)]
        if len(kept) > self._most:
            kept = kept[np.argsort(kept["at"], kind="stable")[-(self._most // 2) :]]
        size = len(self._clients)
        while 4 * len(kept) > 3 * size:
            size *= 2
        self._clients = np.zeros(size, CLIENT)
        self._clients[: len(kept)] = kept
        self._count[0] = len(kept)
        self._table = np.full(4 * size, -1, np.int64)
        enter_all(self._table, self._clients, len(kept), self._secret)


_ADDRESSES = ("source_high", "source_low", "source_port", "target_high", "target_low", "target_port")


@borrowing
def _bucket(table: I64, secret: U64, high: Integer, low: Integer, port: Integer) -> Integer:
    hashed = mixed_word(mixed_word(mixed_word(secret[0] ^ high) ^ low) ^ np.uint64(port)) * secret[1]
    return np.int64(hashed >> np.uint64(32)) & (table.shape[0] - 1)


@borrowing
def _place(table: I64, clients: Records, secret: U64, high: Integer, low: Integer, port: Integer) -> Integer:
    """Where a client is in the table, or would be."""
    place = _bucket(table, secret, high, low, port)
    while table[place] >= 0:
        known = clients[table[place]]
        if known.low == low and known.port == port and known.high == high:
            break
        place = (place + 1) & (table.shape[0] - 1)
    return place


@kernel
def enter_all(table: I64, clients: Records, count: Integer, secret: U64) -> None:
    """Fill an empty table."""
    for one in range(count):
        known = clients[one]
        table[_place(table, clients, secret, known.high, known.low, known.port)] = one


@borrowing
def _begin(client: Records, high: Integer, low: Integer, port: Integer) -> None:
    """Begin anew, with the address that the client speaks with."""
    client.server_high = high
    client.server_low = low
    client.server_port = port
    client.has_syn = 0
    client.has_copy = 0
    for side in range(2):
        client.next[side] = 0
    for place in range(2 * SAID):
        client.said[place] = 0
    for other in range(OTHERS):
        client.other_is[other] = NOTHING


@borrowing
def _other(client: Records, high: Integer, low: Integer, port: Integer) -> Integer:
    """The place of another address that the client speaks with; -1 if there is no room for one more."""
    for other in range(OTHERS):
        if client.other_is[other] == NOTHING:
            client.other_high[other] = high
            client.other_low[other] = low
            client.other_port[other] = port
            client.other_is[other] = UNKNOWN
            client.other_tries[other] = 0
            return other
        if client.other_low[other] == low and client.other_port[other] == port and client.other_high[other] == high:
            return other
    return -1


@borrowing
def _was_said(client: Records, side: Integer, fingerprint: Integer) -> Integer:
    found = np.int64(0)
    for place in range(SAID):
        found |= np.int64(client.said[side * SAID + place] == fingerprint)
    return found


@borrowing
def _say(client: Records, side: Integer, fingerprint: Integer, is_copys: Integer) -> None:
    """Remember what was said last, by the client or its server."""
    place = side * SAID + client.next[side]
    client.said[place] = fingerprint
    client.is_copys[place] = is_copys
    client.next[side] = (client.next[side] + 1) % SAID


@borrowing
def _came_as_copy(client: Records, side: Integer, fingerprint: Integer) -> bool:
    """Whether a copy of a segment was handed on in its place; once, for what comes again is sent again."""
    for place in range(side * SAID, (side + 1) * SAID):
        if client.said[place] == fingerprint and client.is_copys[place]:
            client.is_copys[place] = 0
            return True
    return False


@kernel
def find(
    table: I64,
    clients: Records,
    count: I64,
    secret: U64,
    begin: Integer,
    fate: I8,
    original: U64,
    original_port: U16,
    at: I64,
    source_high: U64,
    source_low: U64,
    target_high: U64,
    target_low: U64,
    source_port: U16,
    target_port: U16,
    seq: U32,
    ack: U32,
    flags: U8,
    length: I32,
    start: I64,
    captured: I32,
    data: U8,
) -> Integer:
    """Say what becomes of segments from ``begin`` on, and of which server those are copies that are not kept.

    Returns the first one that was not looked at, for want of room; or their number.
    """
    for i in range(begin, at.shape[0]):
        if source_port[i] == target_port[i]:
            continue
        side = np.int64(source_port[i] < target_port[i])  # 0: the client says it
        if side:
            high, low, port = target_high[i], target_low[i], target_port[i]
            server_high, server_low, server_port = source_high[i], source_low[i], source_port[i]
        else:
            high, low, port = source_high[i], source_low[i], source_port[i]
            server_high, server_low, server_port = target_high[i], target_low[i], target_port[i]
        place = _place(table, clients, secret, high, low, port)
        if table[place] < 0:
            if count[0] >= clients.shape[0]:
                return i
            table[place] = count[0]
            count[0] += 1
            client = clients[table[place]]
            client.high = high
            client.low = low
            client.port = port
            client.at = at[i]
            _begin(client, server_high, server_low, server_port)
        client = clients[table[place]]
        silent = elapsed(at[i], client.at)
        if silent > LIFETIME and (client.has_copy == 0 or silent > IDLE_TIME):
            _begin(client, server_high, server_low, server_port)
        is_first = (
            client.server_low == server_low and client.server_port == server_port and client.server_high == server_high
        )
        opens = side == 0 and flags[i] & (SYN | ACK) == SYN
        if opens:
            is_again = client.has_syn and seq[i] == client.syn
            if not (is_again and (is_first or abs(elapsed(at[i], client.syn_at)) <= SOON)):
                _begin(client, server_high, server_low, server_port)  # another connection
                is_first = True
            if is_first:
                client.has_syn = 1
                client.syn = seq[i]
                client.syn_at = at[i]
        client.at = at[i]
        fingerprint = np.uint64(0)
        if length[i] > 0:
            numbers = np.uint64(seq[i]) << np.uint64(32) | np.uint64(ack[i])
            fingerprint = mixed_word(mixed_word(numbers) ^ np.uint64(length[i]))
            for byte in range(start[i], start[i] + min(np.int64(captured[i]), COMPARED)):
                fingerprint = (fingerprint ^ np.uint64(data[byte])) * np.uint64(0x100000001B3)
            fingerprint |= np.uint64(1)
        if is_first:
            if length[i] > 0 and _came_as_copy(client, side, fingerprint):
                fate[i] = REPEATED
            elif length[i] > 0:
                _say(client, side, fingerprint, 0)
            continue
        other = _other(client, server_high, server_low, server_port)
        if other < 0:
            continue
        said = length[i] > 0 and _was_said(client, side, fingerprint) > 0
        if client.other_is[other] == UNKNOWN and client.other_tries[other] < TRIES:
            if opens or said:
                client.other_is[other] = COPY
                client.has_copy = 1
            elif length[i] > 0:
                client.other_tries[other] += 1
        if client.other_is[other] == COPY:
            fate[i] = MOVED if length[i] > 0 and not said else DROPPED
            if fate[i] == MOVED:
                _say(client, side, fingerprint, 1)
            original[0, i], original[1, i], original_port[i] = client.server_high, client.server_low, client.server_port
    return at.shape[0]
