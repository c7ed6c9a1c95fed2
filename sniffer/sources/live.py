"""Packets of live interfaces (Linux): a ring shared with the kernel (packet(7), TPACKET_V3), read block by block.

The kernel filters, stamps and collects; a block that is full, or 100 ms old, is copied out and indexed by a kernel of
ours. VLAN tags that the interface takes off stay off: segments do not depend on them.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np

from kafkascope.decoders.kernels import allocating, borrowing
from kafkascope.sniffer.columns import I32, I64, U8, Bool, Packets
from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.link import ETHERNET, RAW_IP
from kafkascope.sniffer.origins import Origins
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.units import MILLISECOND_NS, SECOND_NS

ANY = "any"
PROMPT_MS = 100  # after which the kernel hands over a block that is not full
SETTLED_MS = 2 * PROMPT_MS  # after which a packet has been handed over for certain
BLOCK_BYTES = 1 << 20
BLOCKS = 64
BLOCK_HEADER_BYTES = 48
MOST_PORTS = 57  # in the kernel's filter: its jumps reach 255 instructions; more ports: all of TCP

# linux/if_packet.h, linux/if_ether.h, linux/if_arp.h, asm-generic/socket.h
SOL_PACKET, ADD_MEMBERSHIP, RX_RING, STATISTICS, VERSION, TPACKET_V3 = 263, 1, 5, 6, 10, 2
MEMBERSHIP_PROMISCUOUS = 1
ETH_P_ALL = 3
HARDWARE_ETHERNET, HARDWARE_LOOPBACK = 1, 772
SO_ATTACH_FILTER = 26
BLOCK_STATUS, STATUS_USER = 2, 1  # index of 32-bit words in a block's header

# linux/filter.h: opcodes of the classic filter machine, and the bases of special offsets
LOAD_WORD, LOAD_HALF, LOAD_BYTE, LOAD_HALF_INDEXED = 0x20, 0x28, 0x30, 0x48
AND, SHIFT_LEFT, TO_INDEX, EQUAL, RETURN = 0x54, 0x64, 0x07, 0x15, 0x06
NETWORK_HEADER = 0x100000000 - 0x100000
PROTOCOL_OF_PACKET = 0x100000000 - 0x1000
TYPE_OF_PACKET = PROTOCOL_OF_PACKET + 4
TYPE_OF_HARDWARE = PROTOCOL_OF_PACKET + 28
PACKET_OUTGOING = 4  # linux/if_packet.h

_Instruction = tuple[int, int, str, str]  # opcode, value, blocks to go on with if it holds and if not (empty: next)

int64: Any = np.int64


class LiveSource:
    """Packets of one or several interfaces, ``any`` standing for all; iterate until ``stop`` is called.

    A batch comes every 100 ms or sooner, also an empty one, so that the caller can look after other things.
    """

    def __init__(self, interfaces: Sequence[str], ports: Sequence[int] = ()) -> None:
        """Open the interfaces for TCP traffic of the ports (none: all); raises SourceError saying what to do."""
        if not sys.platform.startswith("linux"):
            advice = "Use `tcpdump -U -w - -i NAME | sniff -r -`"
            raise SourceError(interfaces[0], None, "live capture of an interface needs Linux", advice)
        self.issues = IssueLog()
        self.origins = Origins([", ".join(dict.fromkeys(interfaces))])
        self.number = 1  # of the packet that comes next
        self.received = 0  # packets that passed the filter, as the kernel counts
        self.dropped = 0  # of those, packets for which the ring had no room
        self.is_partial = False  # whether an interface has gone for good
        self._stopped = False
        self._rings: list[_Ring] = []
        self._pieces: list[_Piece] = []
        try:
            for name in dict.fromkeys(interfaces):
                self._rings.append(_Ring(name, ports))
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """End the iteration once what the kernel has is read; may be called by a signal handler or another thread."""
        self._stopped = True

    def __iter__(self) -> Iterator[Packets]:
        poll = select.poll()
        for ring in self._rings:
            poll.register(ring.socket, select.POLLIN | select.POLLERR)
        end: float | None = None
        # After a stop: wait until the blocks begun before it have been handed over.
        while end is None or time.monotonic() < end:
            if self._stopped and end is None:
                end = time.monotonic() + SETTLED_MS / 1000
            for descriptor, event in poll.poll(PROMPT_MS):
                if event & select.POLLERR:
                    self._failed(poll, descriptor)
            yield self._gather(everything=len(self._rings) == 1)
        yield self._gather(everything=True)
        self.close()

    def _gather(self, everything: bool) -> Packets:
        """Packets of the blocks that are ready, in order of time.

        What came through one interface a moment ago may be older than what another one is yet to hand over: it waits,
        unless everything is wanted.
        """
        now = time.monotonic()
        settled = time.time_ns() - SETTLED_MS * MILLISECOND_NS
        for ring in self._rings:
            for block in ring.blocks():
                self._pieces.append(
                    _Piece(block, RAW_IP if ring.cooked else ETHERNET, now, *_index(block, ring.cooked))
                )
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
        sizes = [len(piece.block) for piece in pieces]
        shifts = np.cumsum([0, *sizes[:-1]])
        at = np.concatenate([piece.at for piece in pieces])
        order = np.argsort(at, kind="stable") if len(self._rings) > 1 else np.arange(len(at))
        number = np.arange(self.number, self.number + len(at), dtype=np.int64)
        self.number += len(at)
        return Packets(
            np.concatenate([piece.block for piece in pieces]),
            number,
            at[order],
            np.concatenate([piece.start + shift for piece, shift in zip(pieces, shifts, strict=True)])[order],
            np.concatenate([piece.captured for piece in pieces])[order],
            np.concatenate([piece.original for piece in pieces])[order],
            np.concatenate([np.full(len(piece.at), piece.link_type, np.int32) for piece in pieces])[order],
        )

    def _failed(self, poll: Any, descriptor: int) -> None:
        """Interface went down or away: an issue. The capture goes on, as the interface may come up again; when the
        last one is gone, it ends."""
        for ring in self._rings:
            if ring.socket.fileno() != descriptor:
                continue
            code = ring.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            ring.gone = ring.name != ANY and ring.name not in _interfaces()
            if ring.gone:
                self.is_partial = True
                poll.unregister(descriptor)
            if code or ring.gone:
                why = "the interface is gone" if ring.gone else os.strerror(code)
                self.issues.add(Issue("interface_failed", f"{ring.name}: {why}", packet=self.number))
        if all(ring.gone for ring in self._rings):
            self.stop()

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
        self.statistics()
        for ring in self._rings:
            ring.close()
        self._rings = []

    def __enter__(self) -> LiveSource:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Piece:
    """Packets of a block out of a ring; times in nanoseconds since 1970, gathered in seconds of the monotonic clock."""

    block: U8
    link_type: int
    gathered: float
    at: I64
    start: I64
    captured: I32
    original: I32

    def of(self, rows: Bool) -> _Piece:
        """Only these rows."""
        at, start, captured, original = self.at[rows], self.start[rows], self.captured[rows], self.original[rows]
        return _Piece(self.block, self.link_type, self.gathered, at, start, captured, original)


class _Ring:
    """A packet socket with its ring."""

    def __init__(self, name: str, ports: Sequence[int]) -> None:
        self.name = name
        hardware = _hardware(name)
        # Ethernet comes as it is; of all else (tunnels, PPP, any) the kernel takes off the link layer.
        self.cooked = hardware not in (HARDWARE_ETHERNET, HARDWARE_LOOPBACK)
        self.gone = False
        self._memory: mmap.mmap | None = None
        self._next = 0
        try:
            kind = socket.SOCK_DGRAM if self.cooked else socket.SOCK_RAW
            # With protocol 0 nothing comes before bind. Python cannot bind to all interfaces: a socket made with the
            # protocol hears them all; what comes before the ring is there stays out of it.
            self.socket = socket.socket(socket.AF_PACKET, kind, socket.htons(ETH_P_ALL) if name == ANY else 0)
        except PermissionError:
            advice = (
                "Run it with sudo, as a service of systemd with AmbientCapabilities=CAP_NET_RAW, "
                "or pipe: `sudo tcpdump -U -w - -i NAME | sniff -r -`"
            )
            raise SourceError(name, None, "capturing needs the right CAP_NET_RAW", advice) from None
        try:
            self._set_up(name, ports)
        except OSError as error:
            self.socket.close()
            message = f"the interface cannot be captured ({error.strerror or error})"
            raise SourceError(name, None, message, "Pipe instead: `tcpdump -U -w - -i NAME | sniff -r -`") from None

    def _set_up(self, name: str, ports: Sequence[int]) -> None:
        code = filter_program(ports)
        buffer = ctypes.create_string_buffer(code)
        program = struct.pack("HL", len(code) // 8, ctypes.addressof(buffer))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        self.socket.setsockopt(SOL_PACKET, VERSION, TPACKET_V3)
        self._blocks = BLOCKS
        while True:
            sizes = (BLOCK_BYTES, self._blocks, BLOCK_BYTES, self._blocks, PROMPT_MS, 0, 0)
            try:
                self.socket.setsockopt(SOL_PACKET, RX_RING, struct.pack("7I", *sizes))
                break
            except OSError as error:
                if error.errno != errno.ENOMEM or self._blocks <= 4:
                    raise
                self._blocks //= 2
        self._memory = mmap.mmap(self.socket.fileno(), BLOCK_BYTES * self._blocks)
        if name != ANY:
            membership = struct.pack("IHH8s", socket.if_nametoindex(name), MEMBERSHIP_PROMISCUOUS, 0, b"")
            self.socket.setsockopt(SOL_PACKET, ADD_MEMBERSHIP, membership)
            self.socket.bind((name, ETH_P_ALL))

    def blocks(self) -> Iterator[U8]:
        """Copies of the blocks that are ready, each given back to the kernel at once; once around at most."""
        if self._memory is None:
            return
        for _ in range(self._blocks):
            begin = self._next * BLOCK_BYTES
            words = np.frombuffer(self._memory, np.uint32, 6, begin)
            if not words[BLOCK_STATUS] & STATUS_USER:
                return
            size = min(int(words[5]), BLOCK_BYTES)
            block = np.frombuffer(self._memory, np.uint8, size, begin).copy()
            words[BLOCK_STATUS] = 0
            self._next = (self._next + 1) % self._blocks
            yield block

    def statistics(self) -> tuple[int, int]:
        """Packets and drops since the last call."""
        received, dropped, _ = struct.unpack("3I", self.socket.getsockopt(SOL_PACKET, STATISTICS, 12))
        return received, dropped

    def close(self) -> None:
        self.socket.close()
        self._memory = None  # unmapped when the last view is gone


def rehearse() -> None:
    """Have the kernel compiled, or loaded from its cache, before there are blocks that wait for it."""
    _index(np.zeros(BLOCK_HEADER_BYTES, np.uint8), False)


def _interfaces() -> list[str]:
    return [interface for _, interface in socket.if_nameindex()]


def _hardware(name: str) -> int:
    """Hardware type of an interface, 0 for any; raises SourceError if there is no such interface."""
    if name == ANY:
        return 0
    names = _interfaces()
    if name not in names:
        raise SourceError(name, None, "no such interface", f"There are: {', '.join([*names, ANY])}")
    try:
        with open(f"/sys/class/net/{name}/type", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):  # no sysfs, or that of another network namespace
        return HARDWARE_LOOPBACK if name == "lo" else HARDWARE_ETHERNET


def filter_program(ports: Sequence[int] = ()) -> bytes:
    """Program for the kernel's classic filter machine: TCP over IPv4 or IPv6, of any of the ports (none: all).

    Offsets count from the network header, so one program serves every link layer. What the program cannot look into
    (second VLAN tag, MPLS, PPPoE, fragments, IPv6 extension headers) passes. What a host sends on its loopback does
    not: it comes a second time, as received.
    """
    ports = tuple(ports) if len(ports) <= MOST_PORTS else ()
    net = NETWORK_HEADER
    blocks: dict[str, list[_Instruction]] = {
        "begin": [
            (LOAD_WORD, TYPE_OF_HARDWARE, "", ""),
            (EQUAL, HARDWARE_LOOPBACK, "", "once"),
            (LOAD_WORD, TYPE_OF_PACKET, "", ""),
            (EQUAL, PACKET_OUTGOING, "", "once"),
            (RETURN, 0, "", ""),
        ],
        "once": [
            (LOAD_WORD, PROTOCOL_OF_PACKET, "", ""),
            (EQUAL, 0x0800, "ipv4", ""),
            (EQUAL, 0x86DD, "ipv6", ""),
            *((EQUAL, ether, "accept", "") for ether in (0x8100, 0x88A8, 0x9100, 0x8847)),
            (EQUAL, 0x8864, "accept", "drop"),
        ],
        "ipv4": [
            (LOAD_BYTE, net + 9, "", ""),
            (EQUAL, 6, "", "drop"),
            (LOAD_HALF, net + 6, "", ""),
            (AND, 0x1FFF, "", ""),
            (EQUAL, 0, "", "accept"),
            (LOAD_BYTE, net, "", ""),
            (AND, 15, "", ""),
            (SHIFT_LEFT, 2, "", ""),
            (TO_INDEX, 0, "", ""),
            *_ports(LOAD_HALF_INDEXED, net, ports),
        ],
        "ipv6": [
            (LOAD_BYTE, net + 6, "", ""),
            (EQUAL, 6, "tcp6", ""),
            *((EQUAL, header, "accept", "") for header in (0, 43, 44, 51)),
            (EQUAL, 60, "accept", "drop"),
        ],
        "tcp6": _ports(LOAD_HALF, net + 40, ports),
        "accept": [(RETURN, 0x7FFFFFFF, "", "")],
        "drop": [(RETURN, 0, "", "")],
    }
    places = dict(zip(blocks, accumulate(map(len, blocks.values()), initial=0), strict=False))
    return b"".join(
        struct.pack("HBBI", op, *(places[to] - at - 1 if to else 0 for to in (yes, no)), value)
        for at, (op, value, yes, no) in enumerate(chain.from_iterable(blocks.values()))
    )


def _ports(load: int, offset: int, ports: Sequence[int]) -> list[_Instruction]:
    """Compare source and target port, which stand at offset, with all ports; no ports: accept."""
    if not ports:
        return [(EQUAL, 0, "accept", "accept")]
    equal: list[_Instruction] = [(EQUAL, port, "accept", "") for port in ports]
    fields: list[_Instruction] = [(load, offset, "", ""), *equal, (load, offset + 2, "", ""), *equal]
    return [*fields[:-1], (EQUAL, ports[-1], "accept", "drop")]


@borrowing
def _little(data: U8, at: int, size: int) -> Any:
    value = int64(0)
    for byte in range(size):
        value |= int64(data[at + byte]) << (8 * byte)
    return value


@allocating
def _index(block: U8, cooked: bool) -> tuple[I64, I64, I32, I32]:
    """Packets of a ring block (struct tpacket_block_desc, tpacket3_hdr, sockaddr_ll): time, start, sizes.

    Of cooked packets those that are not IP are left out.
    """
    rows = _little(block, 12, 4)
    at = np.empty(rows, np.int64)
    start = np.empty(rows, np.int64)
    captured = np.empty(rows, np.int32)
    original = np.empty(rows, np.int32)
    count = 0
    position = _little(block, 16, 4)
    for _ in range(rows):
        if position + 68 > block.size:
            break
        begin = position + (_little(block, position + 26, 2) if cooked else _little(block, position + 24, 2))
        size = _little(block, position + 12, 4)
        ether = int64(block[position + 50]) << 8 | int64(block[position + 51])
        if begin + size <= block.size and (not cooked or ether in (0x0800, 0x86DD)):
            at[count] = _little(block, position + 4, 4) * SECOND_NS + _little(block, position + 8, 4)
            start[count] = begin
            captured[count] = size
            original[count] = _little(block, position + 16, 4)
            count += 1
        following = _little(block, position, 4)
        if following == 0:
            break
        position += following
    return at[:count], start[:count], captured[:count], original[:count]
