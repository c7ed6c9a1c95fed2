"""A packet socket with a ring that it shares with the kernel (Linux: packet(7), TPACKET_V3), read block by block.

The kernel filters, stamps and collects; a block is handed over when it is full, or after `PROMPT_MS`. VLAN tags that
the interface takes off stay off: segments do not depend on them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from kafkascope.decoders.kernels import allocating, borrowing
from kafkascope.sniffer.columns import I32, I64, U8
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.packet_filter import HARDWARE_LOOPBACK, NOTHING
from kafkascope.sniffer.units import SECOND_NS

ANY = "any"
PROMPT_MS = 100  # after which the kernel hands over a block that is not full
BLOCK_BYTES = 1 << 20
BLOCK_HEADER_BYTES = 48
LEAST_BLOCKS = 4

# linux/if_packet.h, linux/if_ether.h, linux/if_arp.h, asm-generic/socket.h
SOL_PACKET, ADD_MEMBERSHIP, RX_RING, STATISTICS, VERSION, IGNORE_OUTGOING = 263, 1, 5, 6, 10, 23
TPACKET_V3 = 2
MEMBERSHIP_PROMISCUOUS = 1
ETH_P_ALL = 3
HARDWARE_ADDRESS, INTERFACE_INDEX = 0x8927, 0x8933  # linux/sockios.h; the type of hardware leads the address
INTERFACE_NAME_BYTES = 16  # linux/if.h
HARDWARE_ETHERNET = 1
SO_ATTACH_FILTER = 26
BLOCK_STATUS, STATUS_USER, STATUS_LOSING = 2, 1, 4  # index of 32-bit words in a block's header, and bits of that one

int64: Any = np.int64


class Ring:
    """What comes through an interface (``any``: through all) and passes a filter; raises SourceError saying what to do.

    For whoever reads it: `gone`, whether its interface is no more; `is_losing`, whether the kernel had dropped packets
    since `statistics`, when it handed over the latest block.
    """

    def __init__(self, name: str, program_of: Callable[[bool, bool], bytes], ring_bytes: int) -> None:
        """program_of: see `packet_filter`, of cooked packets or not, to be cut or not; ring_bytes: what the ring may
        hold, or less if the kernel has no room."""
        self.name = name
        hardware = _hardware(name)
        # Ethernet comes as it is; of all else (tunnels, PPP, any) the kernel takes off the link layer.
        self.cooked = hardware not in (HARDWARE_ETHERNET, HARDWARE_LOOPBACK)
        self.gone = self.is_losing = False
        self._program_of = program_of
        self._index = 0
        self._memory: mmap.mmap | None = None
        self._next = 0
        self._blocks = max(ring_bytes // BLOCK_BYTES, LEAST_BLOCKS)
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
            self._set_up(name, hardware)
        except OSError as error:
            self.socket.close()
            message = f"the interface cannot be captured ({error.strerror or error})"
            raise SourceError(name, None, message, "Pipe instead: `tcpdump -U -w - -i NAME | sniff -r -`") from None

    def _set_up(self, name: str, hardware: int) -> None:
        self.filter(is_cut=False)
        if hardware == HARDWARE_LOOPBACK:
            # What a host sends to itself comes once more as received. A kernel before 4.20 leaves it to the filter.
            with suppress(OSError):
                self.socket.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
        self.socket.setsockopt(SOL_PACKET, VERSION, TPACKET_V3)
        while True:
            sizes = (BLOCK_BYTES, self._blocks, BLOCK_BYTES, self._blocks, PROMPT_MS, 0, 0)
            try:
                self.socket.setsockopt(SOL_PACKET, RX_RING, struct.pack("7I", *sizes))
                break
            except OSError as error:
                if error.errno != errno.ENOMEM or self._blocks <= LEAST_BLOCKS:
                    raise
                self._blocks //= 2
        self._memory = mmap.mmap(self.socket.fileno(), BLOCK_BYTES * self._blocks)
        if name != ANY:
            self._index = socket.if_nametoindex(name)
            membership = struct.pack("IHH8s", self._index, MEMBERSHIP_PROMISCUOUS, 0, b"")
            self.socket.setsockopt(SOL_PACKET, ADD_MEMBERSHIP, membership)
            self.socket.bind((name, ETH_P_ALL))

    def filter(self, *, is_cut: bool) -> None:
        """From now on let the kernel cut packets, or not: another program for the one that is there, if any.

        This needs no right. Raises OSError if the kernel has no room for both; then the one that is there stays.
        """
        self._attach(self._program_of(self.cooked, is_cut))

    def end(self) -> None:
        """Let nothing in any more, nor count it; what is in the ring stays."""
        self._attach(NOTHING)

    def _attach(self, code: bytes) -> None:
        buffer = ctypes.create_string_buffer(code)
        program = struct.pack("HL", len(code) // 8, ctypes.addressof(buffer))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)

    def blocks(self) -> Iterator[U8]:
        """The blocks that are ready, once around at most. Each is the kernel's again when the next one is asked for."""
        if self._memory is None:
            return
        for _ in range(self._blocks):
            begin = self._next * BLOCK_BYTES
            words = np.frombuffer(self._memory, np.uint32, 6, begin)
            if not words[BLOCK_STATUS] & STATUS_USER:
                return
            self.is_losing = bool(words[BLOCK_STATUS] & STATUS_LOSING)
            yield np.frombuffer(self._memory, np.uint8, min(int(words[5]), BLOCK_BYTES), begin)
            words[BLOCK_STATUS] = 0
            self._next = (self._next + 1) % self._blocks

    def failure(self) -> str | None:
        """Why its descriptor is in error, if the interface went down (it may come up again) or away (`gone`)."""
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self.gone = self.name != ANY and not self._is_there()
        if self.gone:
            return "the interface is gone"
        return os.strerror(code) if code else None

    def _is_there(self) -> bool:
        """Whether the interface still is, and not another one of its name. The socket knows its own namespace."""
        try:
            told = fcntl.ioctl(self.socket, INTERFACE_INDEX, struct.pack("40s", self.name.encode()))
        except OSError:
            return False
        return bool(struct.unpack_from("i", told, INTERFACE_NAME_BYTES)[0] == self._index)

    def statistics(self) -> tuple[int, int]:
        """Packets that passed the filter, and how many of them were dropped, since the last call."""
        received, dropped, _ = struct.unpack("3I", self.socket.getsockopt(SOL_PACKET, STATISTICS, 12))
        return received, dropped

    def close(self) -> None:
        """Let go of the socket; again is harmless."""
        self.socket.close()
        self._memory = None  # unmapped when the last view is gone


def interfaces() -> list[str]:
    """The names of those there are, and `ANY`."""
    return [*(interface for _, interface in socket.if_nameindex()), ANY]


def _hardware(name: str) -> int:
    """Hardware type of an interface, 0 for any; raises SourceError if there is no such interface."""
    if name == ANY:
        return 0
    if name not in interfaces():
        raise SourceError(name, None, "no such interface", f"There are: {', '.join(interfaces())}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        told = fcntl.ioctl(asking, HARDWARE_ADDRESS, struct.pack("40s", name.encode()))
    return int(struct.unpack_from("H", told, INTERFACE_NAME_BYTES)[0])


@borrowing
def _little(data: U8, at: int, size: int) -> Any:
    value = int64(0)
    for byte in range(size):
        value |= int64(data[at + byte]) << (8 * byte)
    return value


@allocating
def packets_of(block: U8, cooked: bool) -> tuple[I64, I64, I32, I32]:
    """Packets of a block (struct tpacket_block_desc, tpacket3_hdr, sockaddr_ll): time, start in it, sizes.

    Times are nanoseconds since 1970, sizes those in the block and on the wire. Of cooked packets those that are not IP
    are left out.
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
