"""Packets of live interfaces (Linux), as they come.

A thread does nothing but empty the rings that it shares with the kernel, with one copy, into batches that wait for
whoever iterates. What waits is bounded: beyond that the rings fill, and then the kernel drops packets and counts them.
Before it comes to that it cuts packets to their beginnings (`cutting`), so that bodies are lost and not headers.
"""

from __future__ import annotations

import math
import mmap
import select
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kafkascope.sniffer.columns import I32, I64, NO_TIME, U8, Bool, Packets
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.link import ETHERNET, RAW_IP
from kafkascope.sniffer.origins import Origins
from kafkascope.sniffer.sources import capture_writer
from kafkascope.sniffer.sources.capture_writer import CaptureWriter
from kafkascope.sniffer.sources.cutting import CUT_BYTES, MUCH, Cutting
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.live_options import LiveOptions, Rotation
from kafkascope.sniffer.sources.namespaces import inside
from kafkascope.sniffer.sources.order import times_going_back
from kafkascope.sniffer.sources.packet_filter import LINK_ETHERNET, LINK_RAW, WHOLE_BYTES, compiled, filter_program
from kafkascope.sniffer.sources.ring import BLOCK_BYTES, BLOCK_HEADER_BYTES, PROMPT_MS, Ring, packets_of
from kafkascope.sniffer.units import MILLISECOND_NS

SETTLED_MS = 2 * PROMPT_MS  # after which a packet has been handed over for certain
BATCH_BYTES = 4 * BLOCK_BYTES
MOST_IDLE = 3  # batches whose memory is kept for the next ones
MOST_RING_BYTES = 16 << 20
"""Of all rings together: they take their memory at once and for good, what waits in batches only while it waits."""


def between_ms(options: LiveOptions) -> int:
    """Milliseconds that lie between two batches at least."""
    if not options.is_prompt:
        return 4 * PROMPT_MS
    return PROMPT_MS if options.snap_bytes is None else 2 * PROMPT_MS


class LiveSource:
    """Packets of one or several interfaces, ``any`` standing for all; iterate until ``stop`` is called.

    A batch comes about every 100 ms, also an empty one, so that the caller can look after other things. Where traffic
    does not rest they come less often, `between_ms`, to who wants it cheap: the beginnings of packets alone, or nothing
    promptly. Packets that are written to a file are never cut: they are there to be read later, with time.
    """

    def __init__(self, interfaces: Sequence[str], options: LiveOptions | None = None) -> None:
        """Open the interfaces; raises SourceError saying what to do, ValueError if a filter is none."""
        if not sys.platform.startswith("linux"):
            advice = "Use `tcpdump -U -w - -i NAME | sniff -r -`"
            raise SourceError(interfaces[0], None, "live capture of an interface needs Linux", advice)
        options = options or LiveOptions()
        self.issues = IssueLog()
        self.origins = Origins([", ".join(dict.fromkeys(interfaces))])
        self.number = 1  # of the packet that comes next
        self.received = 0  # packets that passed the filter, as the kernel counts
        self.dropped = 0  # of those, packets for which the ring had no room
        self._latest = NO_TIME  # of the times of packets handed over
        self.cut = 0  # packets handed over whose end was left out, as too much waited
        self.is_partial = False  # whether an interface has gone for good
        self._stopped = False
        self._duration_s = options.duration_s
        self._between_ms = between_ms(options)
        self._rings: list[Ring] = []
        self._pieces: list[_Piece] = []
        self._failures: deque[str] = deque()  # of interfaces, as the reader met them
        self._reader: threading.Thread | None = None
        self._write_to, self._rotation = options.write_to, options.rotation
        self._writer: CaptureWriter | None = None
        self._failure = ""  # why nothing is written any more
        names = list(dict.fromkeys(interfaces))
        ring_bytes = min(options.buffer_bytes // 2, MOST_RING_BYTES)
        self._waiting = _Waiting(options.buffer_bytes - ring_bytes)

        self._wanted_bytes = options.snap_bytes or WHOLE_BYTES  # of each packet
        may_cut = self._wanted_bytes > CUT_BYTES and options.write_to is None
        self._cutting = Cutting() if may_cut else None

        @cache  # what it takes may be out of reach later
        def matching(cooked: bool) -> Sequence[tuple[int, int, int, int]]:
            return compiled(options.expression, LINK_RAW if cooked else LINK_ETHERNET) if options.expression else ()

        def program_of(cooked: bool, is_cut: bool) -> bytes:
            return filter_program(options.ports, CUT_BYTES if is_cut else options.snap_bytes, matching(cooked))

        try:
            with inside(options.namespace):
                for name in names:
                    self._rings.append(Ring(name, program_of, ring_bytes // len(names)))
        except BaseException:
            self.close()
            raise

    def begin_writing(self) -> None:
        """Make the file that packets are written to, if that is wanted; raises SourceError if it cannot be."""
        if self._write_to is not None:
            self._writer = _writer(self._write_to, self._rotation)

    def stop(self) -> None:
        """End the iteration once what the kernel has is read; may be called by a signal handler or another thread."""
        self._stopped = True

    @property
    def is_behind(self) -> bool:
        """Whether so much waits that packets will be dropped soon, if whoever iterates does not hurry."""
        return self._waiting.share > MUCH

    def __iter__(self) -> Iterator[Packets]:
        self._reader = threading.Thread(target=self._read, name="kafkascope-reader", daemon=True)
        self._reader.start()
        is_one = len(self._rings) == 1
        while not self._waiting.is_over:
            self._take_what_waits()
            while self._failures:
                self.issues.add(Issue("interface_failed", self._failures.popleft(), packet=self.number))
            yield self._recorded(self._gather(everything=is_one))
        yield self._recorded(self._gather(everything=True))
        self.close()

    def _take_what_waits(self) -> None:
        """What has come, as one batch: with less work by the packet, whoever iterates comes up with those that come."""
        taken, batch = 0, self._waiting.take(PROMPT_MS / 1000)
        while batch is not None:
            self._pieces.append(_piece(batch))
            taken += batch.used
            batch = self._waiting.take(0) if self._waiting.share and taken < BATCH_BYTES else None

    def _recorded(self, packets: Packets) -> Packets:
        """The packets, which are in the file as well. When they cannot be, listening goes on, and they are counted."""
        if self._writer is not None:
            try:
                self._writer.write(packets)
                return packets
            except OSError as error:
                self._writer.close()
                self._writer = None
                self._failure = f"packets were not written to {self._write_to}: {error.strerror or error}"
        if self._failure and len(packets.at):
            count, first = len(packets.at), int(packets.number[0])
            self.issues.add(Issue("capture_not_written", self._failure, packet=first, count=count))
        return packets

    def _read(self) -> None:
        """What the thread does until it is stopped: empty the rings into batches.

        What comes later, while the rest of them is worked on, is not listened to, and so neither counted nor dropped.
        """
        try:
            self._empty_rings()
            for ring in self._rings:
                with suppress(OSError):
                    ring.end()
        except BaseException as error:
            self._waiting.end(error)
        else:
            self._waiting.end()

    def _empty_rings(self) -> None:
        poll = select.poll()
        for ring in self._rings:
            poll.register(ring.socket, select.POLLIN | select.POLLERR)
        memory = _Memory()
        batch, handed = _Batch(memory), 0.0
        begun, end = time.monotonic(), math.inf
        # After a stop: until the blocks begun before it have been handed over.
        while not self._waiting.is_closed and (now := time.monotonic()) < end:
            if self._duration_s is not None and now - begun >= self._duration_s:
                self.stop()
            if self._stopped and end == math.inf:
                end = now + SETTLED_MS / 1000
            left_ms = self._between_ms - 1000 * (now - handed) if batch.used else PROMPT_MS
            for descriptor, event in poll.poll(max(0, left_ms)):
                if event & select.POLLERR:
                    self._failed(poll, descriptor)
            for ring in self._rings:
                for block in ring.blocks():
                    if not batch.has_room(len(block)):
                        self._waiting.put(batch)
                        batch, handed = _Batch(memory), time.monotonic()
                        self._cut_if_needed()
                    batch.add(block, ring.cooked)
            self._cut_if_needed()
            # A batch is work for whoever takes it, however little is in it: there are as few as being prompt allows.
            if batch.used and 1000 * (time.monotonic() - handed) >= self._between_ms:
                self._waiting.put(batch)
                batch, handed = _Batch(memory), time.monotonic()
        self._waiting.put(batch)

    def _cut_if_needed(self) -> None:
        if self._cutting is None:
            return
        dropped = any(ring.is_losing for ring in self._rings)
        if self._cutting.decide(time.monotonic(), self._waiting.share, dropped):
            for ring in self._rings:
                with suppress(OSError):
                    ring.filter(is_cut=self._cutting.is_on)

    def _failed(self, poll: Any, descriptor: int) -> None:
        """Interface went down or away. The capture goes on, as it may come up again; when the last is gone, it ends."""
        for ring in self._rings:
            if ring.socket.fileno() != descriptor:
                continue
            why = ring.failure()
            if ring.gone:
                self.is_partial = True
                poll.unregister(descriptor)
            if why:
                self._failures.append(f"{ring.name}: {why}")
        if all(ring.gone for ring in self._rings):
            self.stop()

    def _gather(self, everything: bool) -> Packets:
        """Packets of the batches taken, in order of time.

        What came through one interface a moment ago may be older than what another one is yet to hand over: it waits,
        unless everything is wanted.
        """
        now = time.monotonic()
        settled = time.time_ns() - SETTLED_MS * MILLISECOND_NS
        chosen: list[_Piece] = []
        waiting: list[_Piece] = []
        for piece in self._pieces:
            # By the second clock nothing waits for long, should somebody set the first one.
            if everything or now - piece.gathered >= SETTLED_MS / 1000:
                chosen.append(piece)
                continue
            rest = piece.at >= settled
            for pieces, rows in ((chosen, ~rest), (waiting, rest)):
                if rows.any():
                    pieces.append(piece.of(rows))
        self._pieces = waiting
        return self._together(chosen)

    def _together(self, pieces: list[_Piece]) -> Packets:
        if not pieces:
            none, none_32 = np.empty(0, np.int64), np.empty(0, np.int32)
            return Packets(np.empty(0, np.uint8), none, none, none, none_32, none_32, none_32)
        whole = pieces[0] if len(pieces) == 1 else _joined(pieces)
        if len(self._rings) > 1:
            whole = whole.of(np.argsort(whole.at, kind="stable"))
        number = np.arange(self.number, self.number + len(whole.at), dtype=np.int64)
        if cut := int(np.count_nonzero(whole.captured < np.minimum(whole.original, self._wanted_bytes))):
            self.cut += cut
            detail = f"packets cut to {CUT_BYTES} bytes: reading was too slow"
            self.issues.add(Issue("packets_cut", detail, at=int(whole.at[0]), packet=self.number, count=cut))
        self.number += len(whole.at)
        packets = Packets(whole.data, number, whole.at, whole.start, whole.captured, whole.original, whole.link_type)
        for issue in times_going_back(packets, self._latest):
            self.issues.add(issue)
        self._latest = int(packets.at.max(initial=self._latest))
        return packets

    def statistics(self) -> tuple[int, int]:
        """Packets that passed the filter so far, and how many of them the kernel had to drop (an issue, too)."""
        before = self.dropped
        for ring in self._rings:
            received, dropped = ring.statistics()
            self.received += received
            self.dropped += dropped
        if new := self.dropped - before:
            detail = "packets that the kernel dropped: reading was too slow"
            self.issues.add(Issue("kernel_drops", detail, at=time.time_ns(), packet=self.number, count=new))
        return self.received, self.dropped

    def close(self) -> None:
        """Take the last statistics and close the sockets; again is harmless."""
        self._waiting.close()
        if self._reader is not None:
            self._reader.join()
        self.statistics()
        for ring in self._rings:
            ring.close()
        self._rings = []
        if self._writer is not None:
            self._writer.close()

    def __enter__(self) -> LiveSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Batch:
    """Copies of blocks, one behind the other."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory
        self.used = 0  # bytes
        self.blocks: list[tuple[int, int, bool]] = []  # begin and end of each, whether it is cooked
        self._data = np.empty(0, np.uint8)

    @property
    def data(self) -> U8:
        """The copies."""
        return self._data[: self.used]

    def has_room(self, size: int) -> bool:
        """Whether so many bytes can be added."""
        return self.used + size <= BATCH_BYTES

    def add(self, block: U8, cooked: bool) -> None:
        """Copy a block, for which there must be room."""
        if not self.blocks:
            self._data = self._memory.array()
        end = self.used + len(block)
        self._data[self.used : end] = block
        self.blocks.append((self.used, end, cooked))
        self.used = end


class _Memory:
    """Memory of batches, used again: to the kernel fresh pages are more work than the copy into them."""

    def __init__(self) -> None:
        self._idle: deque[mmap.mmap] = deque(maxlen=MOST_IDLE)  # those that fall out are the system's again

    def array(self) -> U8:
        """An array of `BATCH_BYTES`; when neither it nor a view of it is used any more, its memory is for the next."""
        try:
            memory = self._idle.pop()
        except IndexError:
            memory = mmap.mmap(-1, BATCH_BYTES)
        array = np.frombuffer(memory, np.uint8)
        weakref.finalize(array, self._idle.append, memory).atexit = False
        return array


class _Waiting:
    """Batches on their way from the thread that reads to whoever takes them; so many bytes at most."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._batches: deque[_Batch] = deque()
        self._ended = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self.is_closed = False

    @property
    def share(self) -> float:
        """How much waits, of what may."""
        return self._bytes / self._most

    @property
    def is_over(self) -> bool:
        """Whether nothing waits and nothing will come, nor is there something to raise."""
        return self._ended and not self._batches and self._error is None

    def put(self, batch: _Batch) -> None:
        """Add a batch as soon as there is room; nothing is added once it is closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._batches or self._bytes + batch.used <= self._most or self.is_closed
            )
            if batch.used and not self.is_closed:
                self._batches.append(batch)
                self._bytes += batch.used
                self._changed.notify_all()

    def take(self, patience_s: float) -> _Batch | None:
        """The next batch; None if none comes in time, or ever. Raises what ended the reader, once all is taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._ended, patience_s)
            if not self._batches:
                if self._error is not None:
                    raise self._error
                return None
            batch = self._batches.popleft()
            self._bytes -= batch.used
            self._changed.notify_all()
            return batch

    def end(self, error: BaseException | None = None) -> None:
        """No more come."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def close(self) -> None:
        """Nobody takes any more."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class _Piece:
    """Packets of a batch; times in nanoseconds since 1970, gathered in seconds of the monotonic clock."""

    data: U8
    gathered: float
    at: I64
    start: I64
    captured: I32
    original: I32
    link_type: I32

    def of(self, rows: Bool | I64) -> _Piece:
        """Only these rows, or in this order."""
        at, start, captured, original = self.at[rows], self.start[rows], self.captured[rows], self.original[rows]
        return _Piece(self.data, self.gathered, at, start, captured, original, self.link_type[rows])


def _writer(path: str, rotation: Rotation) -> CaptureWriter:
    try:
        return CaptureWriter(path, rotation)
    except OSError as error:
        advice = (
            "Give a directory that whoever listens can write to; --user NAME says who, --user root keeps all rights"
        )
        raise SourceError(path, None, f"packets cannot be written there ({error.strerror or error})", advice) from None


def _piece(batch: _Batch) -> _Piece:
    at: list[I64] = []
    start: list[I64] = []
    captured: list[I32] = []
    original: list[I32] = []
    link_type: list[I32] = []
    for begin, end, cooked in batch.blocks:
        times, places, captured_bytes, original_bytes = packets_of(batch.data[begin:end], cooked)
        at.append(times)
        start.append(places + begin)
        captured.append(captured_bytes)
        original.append(original_bytes)
        link_type.append(np.full(len(times), RAW_IP if cooked else ETHERNET, np.int32))
    return _Piece(
        batch.data,
        time.monotonic(),
        np.concatenate(at),
        np.concatenate(start),
        np.concatenate(captured),
        np.concatenate(original),
        np.concatenate(link_type),
    )


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    """Several as one, with a copy of their bytes."""
    shifts = np.cumsum([0, *(len(piece.data) for piece in pieces[:-1])])
    return _Piece(
        np.concatenate([piece.data for piece in pieces]),
        pieces[0].gathered,
        np.concatenate([piece.at for piece in pieces]),
        np.concatenate([piece.start + shift for piece, shift in zip(pieces, shifts, strict=True)]),
        np.concatenate([piece.captured for piece in pieces]),
        np.concatenate([piece.original for piece in pieces]),
        np.concatenate([piece.link_type for piece in pieces]),
    )


def rehearse() -> None:
    """Have the kernel compiled, or loaded from its cache, before there are blocks that wait for it."""
    packets_of(np.zeros(BLOCK_HEADER_BYTES, np.uint8), False)
    capture_writer.rehearse()
