"""One TLS connection: two streams of records in, plain bytes out, and what the handshake told.

A stream is worked on as far as it goes: until its bytes end, or until something is missing that may still come (the
server's hello, a secret). It waits for that no longer than WAIT_BYTES and WAIT_NS of its own; then it is passed over,
and it is told why. What is decided hangs on the packets of the stream and on what the other side's hello says, not on
how they were cut into batches.

Lost bytes: where the next record begins is known if the loss ends inside a record whose header is there. Otherwise
every place that looks like a header is tried with the sequence numbers that the loss allows; the cipher's tag tells
which is right, and how many records are missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafkascope.sniffer.columns import I64, NO_TIME
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.tls import handshake as hs
from kafkascope.sniffer.tls import keys as key_log
from kafkascope.sniffer.tls.handshake import TLS_1_2, TLS_1_3, ClientHello, ServerHello
from kafkascope.sniffer.tls.keys import Keys
from kafkascope.sniffer.tls.suites import SUITES, SUITES_OF_1_3, Suite
from kafkascope.sniffer.tls.turns import Sent, Turns
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

if TYPE_CHECKING:
    from kafkascope.sniffer.tls.protection import Protection

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA = 20, 21, 22, 23  # types of records
HEADER = 5  # bytes: type, version, length
MOST_CONTENT = 1 << 14  # bytes of a record's content
MOST_FRAGMENT = MOST_CONTENT + 2048  # of what stands behind its header (RFC 5246, 6.2.3; less in TLS 1.3)
LEAST_RECORD = HEADER + 17  # bytes of a protected record, about
WAIT_BYTES = 1 << 20  # of a stream that wait for a secret, or for the server's hello
WAIT_NS = 10 * SECOND_NS
MOST_MESSAGE = 128 << 10  # bytes of handshake messages that are kept until they are whole
MOST_TRIES = 1 << 16  # records opened in vain, of a stream, to find where it goes on behind lost bytes
MOST_FAILURES = 16  # records in a row that cannot be opened, before the secret is said not to fit
MOST_UNLOGGED = 256  # ... of a handshake, if its own secret is not logged
CLIENT, SERVER = 0, 1

NO_HELLO = "the capture does not have its beginning (the client's hello)"
NO_ANSWER = "the capture does not have the server's hello"
NO_SECRET = "the key log has no secret of it"
NO_FIT = "the logged secret does not fit: no record can be opened with it"

# Columns of a stream's rows: what each packet brought.
(
    END,  # offset in the TCP stream behind its bytes
    NUMBER,  # of the packet that had to come for them to be there in order: the highest since the latest gap
    AT,  # its time
    ACKED,  # the next six as in Runs
    ACKED_AT,
    ROUND_TRIP,
    LEAST_ROUND_TRIP,
    HEARD,
    HEARD_AT,
    COLUMNS,
) = range(10)


class Loss(NamedTuple):
    """Bytes that the capture lacks."""

    length: int
    number: int
    at: int


class Bytes(NamedTuple):
    """Bytes of a stream, and the rows that brought them, in the order of the stream."""

    data: bytes
    rows: I64  # [n, COLUMNS]


class Plain(NamedTuple):
    """Content of a record with Kafka's bytes; empty: so many bytes are lost."""

    content: bytes
    lost: int
    end: int  # offset in the TCP stream behind the record
    row: I64  # of the packet that completed it


class Step(IntEnum):
    """What became of a record."""

    TAKEN = 0
    WAITING = 1
    PASSED_OVER = 2  # it was waited for in vain: from here on the stream is not opened


@dataclass(slots=True)
class Alert:
    """Why a side ends the connection, or that it does."""

    direction: int
    name: str
    number: int
    at: int


@dataclass(slots=True)
class Stream:
    """What is known of one direction."""

    direction: int
    pending: deque[Bytes | Loss] = field(default_factory=deque)
    data: bytes = b""  # from offset on
    offset: int = 0
    rows: I64 = field(default_factory=lambda: np.zeros((0, COLUMNS), np.int64))
    skip: int = 0  # bytes behind a gap that belong to a record which lacks some
    lost_from: int = -1  # offset from which records are lost; -1: it is known where the next one begins
    latest: tuple[int, int] = (0, NO_TIME)  # number and time of the packet of the latest gap
    highest: tuple[int, int] = (0, NO_TIME)  # of the packet with the highest number since then
    searched: int = 0  # offset up to which places that look like headers are known
    places: list[int] = field(default_factory=list)  # offsets of those whose record is not whole yet
    messages: bytes = b""  # of a handshake, not whole
    is_protected: bool = False  # TLS 1.2: it has changed to the keys
    epoch: int = 0  # TLS 1.3: place in labels
    protection: Protection | None = None
    sequence: int = 0
    tries: int = 0
    failures: int = 0  # in a row
    given_up: str | None = None  # why its records are not opened
    is_waiting: bool = False  # for a secret, or for the server's hello
    has_ended: bool = False
    opened: int = 0  # records
    unopened: int = 0  # records that could not be opened, though others could
    lost_records: int = 0
    first_unopened: tuple[int, int] = (0, NO_TIME)  # packet and time
    absent: set[str] = field(default_factory=set)  # labels whose secrets were waited for in vain
    plain: list[Plain] = field(default_factory=list)


class TlsConnection:
    """Two streams; ``feed`` and ``finish`` return the plain bytes of each, which are taken away with it."""

    def __init__(self, keys: Keys | None) -> None:
        self.keys = keys
        self.streams = (Stream(0), Stream(1))
        self.client = 0  # direction of the client's stream
        self.hello: ClientHello | None = None
        self.answer: ServerHello | None = None
        self.alpn: str | None = None
        self.certificates: list[bytes | None] = [None, None]  # of client and server
        self.alerts: list[Alert] = []
        self.turns = Turns()
        self._last = 0  # highest number of its packets
        self._greeted = self._answered = 0  # numbers of the packets with the client's and the server's hello
        self._is_retried = False
        self._takes_early_data: bool | None = None
        if keys is None:
            for stream in self.streams:
                stream.given_up = ""

    @property
    def is_opened(self) -> bool:
        """Whether any record was opened."""
        return any(stream.opened for stream in self.streams)

    @property
    def may_open(self) -> bool:
        """Whether records may still be opened."""
        return any(stream.given_up is None for stream in self.streams)

    @property
    def why_not(self) -> str | None:
        """Why records were not opened; None also where nobody has logged any secrets: then nobody expects it."""
        if self.keys is None or self.keys.since is None or self.keys.since > self._last:
            return None
        return next((stream.given_up for stream in self.streams if stream.given_up), None)

    @property
    def held_bytes(self) -> int:
        """How much waits for the rest of a record, for a secret or for the server's hello."""
        held = 0
        for stream in self.streams:
            parts = [Bytes(stream.data, stream.rows), *(part for part in stream.pending if isinstance(part, Bytes))]
            held += len(stream.messages) + sum(len(part.data) + part.rows.nbytes for part in parts)
        return held

    def feed(self, parts: Sequence[Sequence[Bytes | Loss]]) -> list[list[Plain]]:
        """Take what came of each direction."""
        for stream, new in zip(self.streams, parts, strict=True):
            stream.pending.extend(new)
            for part in new:
                self._last = max(self._last, part.number if isinstance(part, Loss) else int(part.rows[:, NUMBER].max()))
        self._go_on()
        return self._taken()

    def relieve(self, why: str) -> list[list[Plain]]:
        """Wait for nothing any more, and hold no bytes but headers of records, as if the others had been lost."""
        for stream in self.streams:
            if stream.is_waiting:
                self._give_up(stream, why)
        self._go_on()
        for stream in self.streams:
            kept = HEADER if stream.lost_from < 0 else 0
            rest = len(stream.data) - kept
            if rest > 0:
                number, at = stream.rows[-1, [NUMBER, AT]].tolist()
                stream.data = stream.data[:kept]
                self._lose(stream, Loss(rest, number, at))
            stream.messages = b""
        return self._taken()

    def finish(self) -> list[list[Plain]]:
        """Nothing more comes."""
        for stream in self.streams:
            stream.has_ended = True
        self._go_on()
        self._settle()
        return self._taken()

    def _taken(self) -> list[list[Plain]]:
        if not self.may_open or self.turns.is_full:
            self._settle()
        taken = [stream.plain for stream in self.streams]
        for stream in self.streams:
            stream.plain = []
            if stream.rows.shape[0]:
                stream.rows = stream.rows[np.searchsorted(stream.rows[:, END], stream.offset, "right") :].copy()
        return taken

    def _go_on(self) -> None:
        """Work on both streams until neither gets on: what one waits for may be in the other."""
        before: tuple[object, ...] | None = None
        while (now := (self.hello, self.answer, self._takes_early_data, *self._standing)) != before:
            before = now
            for stream in self.streams:
                self._read(stream)

    def issues(self, connection: int, begun: int) -> list[Issue]:
        """What was not opened, and why; begun: time of the connection's first packet, whose number is its id."""
        found: list[Issue] = []
        if (why := self.why_not) is not None:
            found.append(Issue("tls_not_opened", f"not opened: {why}", connection, begun, connection))
        for stream in self.streams:
            side = "client" if self._side(stream) == CLIENT else "broker"
            if stream.unopened:
                detail = f"a record cannot be opened: it is damaged (bytes from the {side})"
                number, at = stream.first_unopened
                found.append(Issue("tls_damaged_record", detail, connection, at, number, stream.unopened))
            if self.is_opened and stream.lost_records:
                detail = f"TLS records that lack bytes are lost (bytes from the {side})"
                number, at = stream.latest
                found.append(Issue("tls_lost_records", detail, connection, at, number, stream.lost_records))
            if self.is_opened and stream.data:
                detail = f"the last {len(stream.data)} bytes are no whole TLS record (bytes from the {side})"
                _, number, at = stream.rows[-1, [END, NUMBER, AT]].tolist()
                found.append(Issue("tls_incomplete_record", detail, connection, at, number))
        return found

    @property
    def offers_http(self) -> bool:
        """Whether its client does: it speaks no Kafka then."""
        return self.hello is not None and self.hello.offers_http

    def facts(self) -> dict[str, Any]:
        """What the table of connections says of it, by column."""
        answer, certificate = self.answer, None
        if (data := self.certificates[SERVER]) is not None:
            from kafkascope.sniffer.tls.certificates import read_certificate

            certificate = read_certificate(data)
        suite = SUITES.get(answer.suite) if answer else None
        version = hs.VERSIONS.get(answer.version, f"0x{answer.version:04x}") if answer else None
        turns = None if self.is_opened or self.offers_http else self.turns
        alert, refused_by = (self.alerts[0].name, self.alerts[0].direction) if self.alerts else (None, None)
        if alert is None and turns is not None and turns.refused_by is not None and not turns.requests:
            alert, refused_by = "encrypted", turns.refused_by
        usual = turns.usual_time if turns else None
        return {
            "tls_version": version,
            "tls_cipher": suite.name if suite else f"0x{answer.suite:04x}" if answer else None,
            "tls_server_name": self.hello.server_name if self.hello else None,
            "tls_alpn": self.alpn,
            "tls_certificate_names": certificate.names if certificate else None,
            "tls_certificate_from": certificate.begins if certificate else None,
            "tls_certificate_until": certificate.ends if certificate else None,
            "tls_alert": alert,
            "tls_alert_by": None if alert is None else "client" if refused_by == self.client else "broker",
            "tls_opened": self.is_opened,
            "tls_requests": turns.requests if turns else None,
            "tls_first_request": _time(turns.first) if turns else None,
            "tls_last_answer": _time(turns.last) if turns else None,
            "tls_answer_ms": None if usual is None else usual / MILLISECOND_NS,
        }

    # --- records of a stream -----------------------------------------------------------------------------------------

    @property
    def _standing(self) -> tuple[tuple[bool, int], ...]:
        return tuple((stream.is_waiting, len(stream.pending)) for stream in self.streams)

    def _is_unread(self, stream: Stream) -> bool:
        """Whether there is more of a stream than was looked at, which says what the other one waits for, maybe."""
        return bool(stream.pending) and not stream.is_waiting

    def _read(self, stream: Stream) -> None:
        while not (waits := self._records(stream) is Step.WAITING) and stream.pending:
            part = stream.pending.popleft()
            if isinstance(part, Loss):
                self._lose(stream, part)
            else:
                self._append(stream, part)
        stream.is_waiting = waits

    def _append(self, stream: Stream, part: Bytes) -> None:
        data, rows = part
        if stream.skip:
            passed = min(stream.skip, len(data))
            stream.skip -= passed
            stream.offset += passed
            data = data[passed:]
        rows = _in_order(rows, stream)
        stream.data = stream.data + data if stream.data else data
        stream.rows = np.concatenate([stream.rows, rows]) if stream.rows.shape[0] else rows

    def _records(self, stream: Stream) -> Step:
        """Take records as long as there are whole ones."""
        position = 0
        step = Step.TAKEN
        data = stream.data
        while True:
            if stream.lost_from >= 0:
                stream.data = data = data[position:]
                stream.offset += position
                position = 0
                if data and stream.given_up is None and (step := self._is_ready(stream)) is not Step.TAKEN:
                    if step is Step.WAITING:
                        return step
                    continue
                if not self._find_record(stream):
                    return Step.TAKEN
                data = stream.data
            if len(data) - position < HEADER:
                break
            length = data[position + 3] << 8 | data[position + 4]
            if not _is_header(data, position):
                stream.lost_from = stream.searched = stream.offset + position
                continue
            end = position + HEADER + length
            if end > len(data):
                break
            header, fragment = data[position : position + HEADER], data[position + HEADER : end]
            step = self._record(stream, header, fragment, stream.offset + position)
            if step is Step.WAITING:
                break
            if step is Step.TAKEN:
                position = end
        stream.data = data[position:] if position else data
        stream.offset += position
        return step

    def _record(self, stream: Stream, header: bytes, fragment: bytes, begin: int) -> Step:
        kind = header[0]
        if stream.given_up is not None:
            self._look_at(stream, kind, fragment, begin)
            if kind == APPLICATION_DATA:
                self._hear(stream, begin, len(fragment))
            return Step.TAKEN
        if kind == CHANGE_CIPHER_SPEC and self._is_retried:
            return Step.TAKEN  # it stands there for the sake of others (RFC 8446, D.4), before the server's hello too
        if _is_plain(stream, kind, len(fragment)):
            self._look_at(stream, kind, fragment, begin)
            return Step.TAKEN
        if self.answer is None or (stream.protection is None and self._answered > self._limit(stream, begin)[0]):
            return self._wait(stream, begin, NO_HELLO if self.hello is None else NO_ANSWER)
        version = self.answer.version
        if kind == CHANGE_CIPHER_SPEC:
            if version == TLS_1_2:
                if stream.is_protected:
                    return self._give_up(stream, "it negotiates new keys (renegotiation), which is not supported")
                stream.is_protected, stream.sequence = True, 0
            return Step.TAKEN
        if version == TLS_1_3:
            return self._open13(stream, header, fragment, begin)
        if version == TLS_1_2:
            return self._open12(stream, header, fragment, begin)
        name = hs.VERSIONS.get(version, f"version 0x{version:04x}")
        return self._give_up(stream, f"{name} is not supported, only TLS 1.2 and 1.3 are")

    def _open12(self, stream: Stream, header: bytes, fragment: bytes, begin: int) -> Step:
        if stream.protection is None:
            found = self._keys12(stream, begin)
            if isinstance(found, Step):
                return found
            stream.protection = found
        opened = stream.protection.open(stream.sequence, header, fragment)
        if opened is None:
            return self._not_opened(stream, header, fragment, begin)
        self._opened(stream, opened, begin + HEADER + len(fragment))
        return Step.TAKEN

    def _suite(self, stream: Stream, begin: int) -> Suite | Step:
        """What the sides agreed on, where both hellos are there; else what becomes of the record."""
        assert self.answer is not None
        number = self.answer.suite
        suite = SUITES.get(number)
        if suite is None or (number in SUITES_OF_1_3) != (self.answer.version == TLS_1_3):
            return self._give_up(stream, f"cipher suite 0x{number:04x} is not supported")
        if self.hello is None:
            may_come = self._side(stream) == SERVER and self._may_greet(self.streams[1 - stream.direction])
            return self._wait(stream, begin, NO_HELLO) if may_come else self._give_up(stream, NO_HELLO)
        if self._greeted > self._limit(stream, begin)[0]:  # as far as has come: what else comes may be behind it
            return self._wait(stream, begin, NO_HELLO)
        return suite

    @staticmethod
    def _may_greet(client: Stream) -> bool:
        """Whether the client's hello may still come: it waits, or nothing of its beginning was taken or is lost."""
        return client.is_waiting or (client.offset == 0 and client.lost_from < 0 and client.given_up is None)

    def _keys12(self, stream: Stream, begin: int) -> Protection | Step:
        suite = self._suite(stream, begin)
        if isinstance(suite, Step):
            return suite
        assert self.hello is not None
        assert self.answer is not None
        master = self._secret(stream, key_log.MASTER, begin)
        if master is None:
            return self._wait(stream, begin, NO_SECRET)
        from kafkascope.sniffer.tls.protection import protections12

        both = protections12(suite, master, self.hello.random, self.answer.random, self.answer.encrypt_then_mac)
        return both[self._side(stream)]

    def _open13(self, stream: Stream, header: bytes, fragment: bytes, begin: int) -> Step:
        assert self.answer is not None
        labels = self._labels(stream)
        missing = ""
        for epoch in range(stream.epoch, len(labels)):
            if epoch == stream.epoch and stream.protection is not None:
                protection, sequence = stream.protection, stream.sequence
            else:
                found = self._keys13(stream, labels[epoch], begin)
                if isinstance(found, Step):
                    return found
                if found is None:
                    if labels[epoch] not in stream.absent:
                        missing = missing or labels[epoch]
                    continue
                protection, sequence = found, stream.sequence if epoch == stream.epoch else 0
            if (
                labels[epoch] == key_log.EARLY
                and self._takes_early_data is None
                and self._may_tell_early(stream, begin)
            ):
                return Step.WAITING
            opened = protection.open(sequence, header, fragment)
            if opened is not None:
                stream.epoch, stream.protection, stream.sequence = epoch, protection, sequence
                if labels[epoch] == key_log.EARLY and self._takes_early_data is False:
                    opened = (HANDSHAKE, b"")  # the client sends it once more
                self._opened(stream, opened, begin + HEADER + len(fragment))
                return Step.TAKEN
        if missing:
            return self._wait_for(stream, missing, begin)
        if self._takes_early_data is False and stream.epoch == 0 and labels[0] == key_log.EARLY:
            return Step.TAKEN  # early data that the server passed over as well
        return self._not_opened(stream, header, fragment, begin)

    def _keys13(self, stream: Stream, label: str, begin: int) -> Protection | Step | None:
        suite = self._suite(stream, begin)
        if isinstance(suite, Step):
            return suite
        secret = self._secret(stream, label, begin)
        if secret is None:
            return None
        from kafkascope.sniffer.tls.protection import Protection13

        return Protection13(suite, secret)

    def _labels(self, stream: Stream) -> tuple[str, ...]:
        """Of the secrets with which a stream is protected one after the other, in TLS 1.3."""
        side = self._side(stream)
        later = (key_log.HANDSHAKE[side], key_log.TRAFFIC[side])
        is_early = side == CLIENT and self.hello is not None and self.hello.early_data
        return (key_log.EARLY, *later) if is_early else later

    def _may_tell_early(self, stream: Stream, begin: int) -> bool:
        """Whether the server's encrypted extensions may still say that it takes early data."""
        server = self.streams[1 - stream.direction]
        is_over = server.has_ended or self._limit(stream, begin)[1]
        if server.given_up is not None or (is_over and not self._is_unread(server)):
            self._takes_early_data = True
            return False
        return True

    def _opened(self, stream: Stream, opened: tuple[int, bytes], end: int) -> None:
        kind, content = opened
        stream.sequence += 1
        stream.opened += 1
        stream.failures = 0
        if kind == APPLICATION_DATA:
            if content:
                stream.plain.append(Plain(content, 0, end, self._row(stream, end)))
        elif kind in (HANDSHAKE, ALERT):
            self._look_at(stream, kind, content, end - 1, is_open=True)

    def _not_opened(self, stream: Stream, header: bytes, fragment: bytes, begin: int) -> Step:
        """A record that is damaged, or whose keys do not fit."""
        if stream.lost_records:  # perhaps one more, or one less, than it seemed
            stream.lost_from = begin
            found = self._resume(stream, header, fragment, begin)
            stream.lost_from = -1
            if found or stream.given_up is not None:
                return Step.PASSED_OVER
        stream.failures += 1
        if stream.absent and not stream.opened:  # most likely of the handshake, whose secret nobody logged
            if stream.failures > MOST_UNLOGGED:
                return self._give_up(stream, NO_FIT)
            return Step.TAKEN
        if stream.failures > MOST_FAILURES:
            return self._give_up(stream, NO_FIT)
        if not stream.unopened:
            row = self._row(stream, begin + 1)
            stream.first_unopened = int(row[NUMBER]), int(row[AT])
        stream.unopened += 1
        stream.sequence += 1
        if stream.protection is not None and header[0] == APPLICATION_DATA and self._has_content(stream):
            lost = HEADER + len(fragment) - stream.protection.least_overhead
            end = begin + HEADER + len(fragment)
            stream.plain.append(Plain(b"", max(lost, 1), end, self._row(stream, end)))
        return Step.TAKEN

    # --- waiting -----------------------------------------------------------------------------------------------------

    def _limit(self, stream: Stream, begin: int) -> tuple[int, bool]:
        """The packet up to which a stream waits with what lies at an offset, or has come so far; and if that is over.

        So what comes later, in the same batch, is not waited for.
        """
        rows = [stream.rows, *(part.rows for part in stream.pending if isinstance(part, Bytes))]
        held = np.concatenate(rows) if len(rows) > 1 else rows[0]
        held = held[np.searchsorted(held[:, END], begin, "right") :]
        if not held.shape[0]:
            return 0, True
        timed = (held[:, AT] != NO_TIME) & (held[0, AT] != NO_TIME)
        late = timed & (np.where(timed, held[:, AT], 0) - np.where(timed, held[0, AT], 0) > WAIT_NS)
        over = np.flatnonzero(late | (held[:, END] - begin > WAIT_BYTES))
        if over.shape[0]:
            return int(held[: over[0] + 1, NUMBER].max()), True
        return int(held[:, NUMBER].max()), stream.has_ended

    def _secret(self, stream: Stream, label: str, begin: int) -> bytes | None:
        assert self.keys is not None
        assert self.hello is not None
        return self.keys.find(self.hello.random, label, self._limit(stream, begin)[0])

    def _wait(self, stream: Stream, begin: int, why: str | None) -> Step:
        """Wait, unless it is over or in vain; why: to be told if so."""
        assert self.keys is not None
        over = self._limit(stream, begin)[1]
        is_for_secret = why not in (NO_HELLO, NO_ANSWER)
        if not over and (self.keys.may_grow or not is_for_secret):
            return Step.WAITING
        if not is_for_secret and self._is_unread(self.streams[1 - stream.direction]):
            return Step.WAITING
        return Step.PASSED_OVER if why is None else self._give_up(stream, why)

    def _wait_for(self, stream: Stream, label: str, begin: int) -> Step:
        """Wait for one of the secrets of TLS 1.3; if in vain, do without it, as long as there is another."""
        step = self._wait(stream, begin, None)
        if step is Step.PASSED_OVER:
            stream.absent.add(label)
            if stream.absent.issuperset(self._labels(stream)):
                self._give_up(stream, NO_SECRET)
        return step

    def _give_up(self, stream: Stream, why: str) -> Step:
        stream.given_up = why
        return Step.PASSED_OVER

    # --- what is said ------------------------------------------------------------------------------------------------

    def _side(self, stream: Stream) -> int:
        return CLIENT if stream.direction == self.client else SERVER

    def _look_at(self, stream: Stream, kind: int, content: bytes, place: int, is_open: bool = False) -> None:
        """Take in a record that may be read, or the outside of one that may not."""
        if kind == CHANGE_CIPHER_SPEC:
            if self.answer is None or self.answer.version != TLS_1_3:
                stream.is_protected = True
        elif kind == ALERT:
            self._alert(stream, content if is_open or not stream.is_protected else b"", place)
        elif kind == HANDSHAKE and (is_open or not stream.is_protected):
            data = stream.messages + content
            position = 0
            for message, body in hs.messages(data):
                position += hs.MESSAGE_HEADER + len(body)
                self._message(stream, message, body, place)
            stream.messages = data[position:] if len(data) - position <= MOST_MESSAGE else b""

    def _message(self, stream: Stream, message: int, body: bytes, place: int) -> None:
        if message == hs.CLIENT_HELLO:
            hello = hs.client_hello(body)
            if hello is not None:
                if self.hello is None:
                    self.hello, self._greeted = hello, int(self._row(stream, place + 1)[NUMBER])
                self.client = stream.direction
        elif message == hs.SERVER_HELLO:
            answer = hs.server_hello(body)
            if answer is None:
                return
            self.client = 1 - stream.direction
            if answer.is_retry:  # the next hello of the client is without early data, with the same random
                self._is_retried, self._takes_early_data = True, False
            elif self.answer is None:
                self.answer, self.alpn = answer, answer.alpn
                self._answered = int(self._row(stream, place + 1)[NUMBER])
        elif message == hs.ENCRYPTED_EXTENSIONS:
            self.alpn, taken = hs.encrypted_extensions(body)
            self._takes_early_data = taken if self._takes_early_data is None else self._takes_early_data
        elif message == hs.CERTIFICATE:
            version = TLS_1_2 if self.answer is None else self.answer.version
            side = self._side(stream)
            self.certificates[side] = self.certificates[side] or hs.first_certificate(body, version)
        elif message == hs.KEY_UPDATE and self.answer is not None and self.answer.version == TLS_1_3:
            self._update(stream)

    def _update(self, stream: Stream) -> None:
        from kafkascope.sniffer.tls.protection import Protection13

        if isinstance(stream.protection, Protection13):
            stream.protection = stream.protection.next()
            stream.sequence = 0

    def _hear(self, stream: Stream, begin: int, size: int) -> None:
        """A record with data of the application, or of the end of a handshake of TLS 1.3."""
        if self.is_opened:
            return
        row = self._row(stream, begin + HEADER + size)
        moment = max(int(row[NUMBER]), stream.latest[0])
        self.turns.hear(Sent(moment, stream.direction, int(row[AT]), size))

    def _settle(self) -> None:
        self.turns.settle(self.client, self.answer is None or self.answer.version == TLS_1_3)

    def _alert(self, stream: Stream, content: bytes, place: int) -> None:
        if len(self.alerts) < 8:
            name = hs.ALERTS.get(content[1], f"alert {content[1]}") if len(content) == 2 else "encrypted"
            row = self._row(stream, place + 1)
            self.alerts.append(Alert(stream.direction, name, int(row[NUMBER]), int(row[AT])))

    def _row(self, stream: Stream, end: int) -> I64:
        """The row that brought the byte before an offset."""
        place = min(int(np.searchsorted(stream.rows[:, END], end)), stream.rows.shape[0] - 1)
        row: I64 = stream.rows[place]
        return row

    # --- lost bytes --------------------------------------------------------------------------------------------------

    def _lose(self, stream: Stream, loss: Loss) -> None:
        """Bytes are missing behind those at hand, which are less than a record."""
        stream.latest = loss.number, loss.at
        stream.highest = (0, NO_TIME)
        at_hand = len(stream.data)
        behind = stream.offset + at_hand + loss.length
        if stream.skip:  # the record that lacks some lacks more
            if loss.length <= stream.skip:
                stream.skip -= loss.length
                stream.offset = behind
                return
            stream.lost_from = stream.offset
            stream.skip = 0
        elif stream.lost_from < 0:
            begin = stream.offset
            left = -1
            if at_hand >= HEADER and _is_header(stream.data, 0):
                left = HEADER + (stream.data[3] << 8 | stream.data[4]) - at_hand - loss.length
            if left >= 0:
                self._lose_record(stream, begin, behind + left)
                stream.data, stream.offset, stream.skip = b"", behind, left
                return
            stream.lost_from = begin
        stream.data, stream.offset, stream.searched, stream.places = b"", behind, behind, []

    def _lose_record(self, stream: Stream, begin: int, end: int) -> None:
        """One record, of which it is known where it ends, lacks bytes."""
        kind = stream.data[0]
        if kind == HANDSHAKE and not stream.is_protected:
            stream.messages = b""
        stream.lost_records += 1
        if stream.is_protected or kind == APPLICATION_DATA:
            stream.sequence += 1
        if stream.protection is not None and stream.given_up is None:
            lost = end - begin - stream.protection.least_overhead
            if kind == APPLICATION_DATA and lost > 0 and self._has_content(stream):
                stream.plain.append(Plain(b"", lost, end, self._loss_row(stream)))

    def _loss_row(self, stream: Stream) -> I64:
        return np.array([0, *stream.latest, -1, NO_TIME, NO_TIME, NO_TIME, -1, NO_TIME], np.int64)

    def _has_content(self, stream: Stream) -> bool:
        """Whether what it protects now is what the application says, and not the handshake."""
        if self.answer is None or self.answer.version != TLS_1_3:
            return stream.is_protected
        return self._labels(stream)[stream.epoch] not in key_log.HANDSHAKE

    def _is_ready(self, stream: Stream) -> Step:
        """Whether all is known that helps to find a record, or need not be waited for."""
        begin = stream.offset
        if self.answer is None or (stream.protection is None and self._answered > self._limit(stream, begin)[0]):
            return self._wait(stream, begin, NO_HELLO if self.hello is None else NO_ANSWER)
        if self.answer.version == TLS_1_2 and stream.protection is None:
            found = self._keys12(stream, begin)
            if isinstance(found, Step):
                return found
        elif self.answer.version == TLS_1_3:
            labels = self._labels(stream)
            for label in labels[stream.epoch :]:
                if label in stream.absent or (label == labels[stream.epoch] and stream.protection is not None):
                    continue
                found13 = self._keys13(stream, label, begin)
                if isinstance(found13, Step):
                    return found13
                if found13 is None:
                    return self._wait_for(stream, label, begin)
        return Step.TAKEN

    def _find_record(self, stream: Stream) -> bool:
        """Look for the first record behind lost bytes; False if it is not there yet. The data begins with it then."""
        data = stream.data
        for at in _possible_begins(stream):
            end = at + HEADER + (data[at + 3] << 8 | data[at + 4])
            if end > len(data):
                stream.places.append(stream.offset + at)
            elif stream.given_up is not None:
                if end + HEADER > len(data):
                    stream.places.append(stream.offset + at)
                elif _is_header(data, end):
                    return self._go_on_at(stream, at)
            elif self._resume(stream, data[at : at + HEADER], data[at + HEADER : end], stream.offset + at):
                return self._go_on_at(stream, at)
        spare = len(data) - MOST_FRAGMENT - 2 * HEADER
        if spare > 0:
            stream.data = data[spare:]
            stream.offset += spare
        return False

    def _go_on_at(self, stream: Stream, at: int) -> bool:
        stream.data = stream.data[at:]
        stream.offset += at
        stream.lost_from, stream.places = -1, []
        return True

    def _resume(self, stream: Stream, header: bytes, fragment: bytes, begin: int) -> bool:
        """Whether a record opens with a sequence number that may be; then the stream goes on with it."""
        lost = begin - stream.lost_from
        kind = header[0]
        if self.answer is not None and self.answer.version == TLS_1_3:
            if kind != APPLICATION_DATA and not stream.is_protected:
                return False
        elif _is_plain(stream, kind, len(fragment)) or (kind == CHANGE_CIPHER_SPEC and not stream.is_protected):
            # What is taken as it is needs no keys. All else has to open: who said yes without would be asked for ever.
            stream.lost_records += 1
            return True
        least, most = -(-lost // (HEADER + MOST_FRAGMENT)), lost // LEAST_RECORD + 1
        for epoch, protection, first in self._candidates(stream, begin):
            is_same = protection is stream.protection
            for sequence in range(first + (least if is_same else 0), first + most + 1):
                if stream.tries >= MOST_TRIES:
                    self._give_up(stream, "too much is lost to find out where its records go on")
                    return False
                stream.tries += 1
                if protection.open(sequence, header, fragment) is None:
                    continue
                self._note_loss(stream, begin, epoch, protection, sequence)
                return True
        return False

    def _candidates(self, stream: Stream, begin: int) -> list[tuple[int, Protection, int]]:
        """Keys with which a stream may go on behind lost bytes: epoch, keys, the least sequence number."""
        if self.answer is None or self.hello is None:
            return []
        if self.answer.version == TLS_1_2:
            found = stream.protection or self._keys12(stream, begin)
            if isinstance(found, Step):
                return []
            stream.is_protected = True
            return [(0, found, stream.sequence if stream.protection else 0)]
        if self.answer.version != TLS_1_3:
            return []
        from kafkascope.sniffer.tls.protection import Protection13

        candidates: list[tuple[int, Protection, int]] = []
        labels = self._labels(stream)
        for epoch in range(stream.epoch, len(labels)):
            if epoch == stream.epoch and stream.protection is not None:
                candidates.append((epoch, stream.protection, stream.sequence))
                continue
            made = self._keys13(stream, labels[epoch], begin)
            if isinstance(made, Step):
                return []
            if made is not None:
                candidates.append((epoch, made, 0))
        if stream.epoch == len(labels) - 1 and isinstance(stream.protection, Protection13):
            candidates.append((stream.epoch, stream.protection.next(), 0))  # the loss hides a KeyUpdate
        return candidates

    def _note_loss(self, stream: Stream, begin: int, epoch: int, protection: Protection, sequence: int) -> None:
        """Go on with these keys, and tell what the application lost."""
        assert self.answer is not None
        is_same = protection is stream.protection
        before = stream.sequence if is_same else 0
        missing = sequence - before
        stream.lost_records += missing
        had_content = stream.protection is not None and self._has_content(stream)
        stream.epoch, stream.protection, stream.sequence = epoch, protection, sequence
        if self.answer.version == TLS_1_2 and before == 0:
            missing -= 1  # Finished
        if self._has_content(stream) and (missing > 0 or (had_content and not is_same)):
            lost = begin - stream.lost_from - missing * protection.least_overhead
            row = self._loss_row(stream)
            of_record = self._row(stream, begin + 1)
            if of_record[NUMBER] > row[NUMBER]:
                row[NUMBER], row[AT] = of_record[NUMBER], of_record[AT]
            stream.plain.append(Plain(b"", max(lost, 1), begin, row))


def _possible_begins(stream: Stream) -> Iterator[int]:
    """Where in a stream's data a record may begin: what was possible before, and then what came since."""
    held = [at - stream.offset for at in stream.places if at >= stream.offset]
    begin = max(stream.searched - stream.offset - HEADER + 1, 0)
    stream.places, stream.searched = [], stream.offset + len(stream.data)
    yield from held
    known = set(held)
    begin = stream.data.find(b"\x03", begin + 1)
    while 0 <= begin <= len(stream.data) - HEADER + 1:
        if _is_header(stream.data, begin - 1) and begin - 1 not in known:
            yield begin - 1
        begin = stream.data.find(b"\x03", begin + 1)


def _is_plain(stream: Stream, kind: int, size: int) -> bool:
    """Whether what a record says is in the clear: an alert has two bytes then."""
    return not stream.is_protected and (kind == HANDSHAKE or (kind == ALERT and size == 2))


def _time(at: int) -> int | None:
    return None if at == NO_TIME else at


def _in_order(rows: I64, stream: Stream) -> I64:
    """Rows with number and time of the packet that had to come for their bytes to be there in order."""
    numbers = rows[:, NUMBER]
    if numbers[0] < stream.highest[0] or (numbers[1:] < numbers[:-1]).any():
        rows = rows.copy()
        for row in rows:
            if row[NUMBER] < stream.highest[0]:
                row[NUMBER], row[AT] = stream.highest
            stream.highest = int(row[NUMBER]), int(row[AT])
    stream.highest = int(rows[-1, NUMBER]), int(rows[-1, AT])
    return rows


def _is_header(data: bytes, position: int) -> bool:
    """Whether a record may begin at a place at which five bytes are there."""
    length = data[position + 3] << 8 | data[position + 4]
    return (
        CHANGE_CIPHER_SPEC <= data[position] <= APPLICATION_DATA
        and data[position + 1] == 3
        and data[position + 2] <= 4
        and 0 < length <= MOST_FRAGMENT
    )
