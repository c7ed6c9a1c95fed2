"""Capture files written byte by byte, for what recordings have rarely or never."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address

from tests.sniffer.tcp_conversation import SECOND, START, Packet

END_OF_OPTIONS = (0, b"")


@dataclass(frozen=True)
class Pcapng:
    """Blocks in one byte order, ``<`` or ``>``."""

    order: str = "<"

    def block(self, kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        length = struct.pack(self.order + "I", 12 + len(body))
        return struct.pack(self.order + "I", kind) + length + body + length

    def options(self, *options: tuple[int, bytes]) -> bytes:
        pairs = (*options, END_OF_OPTIONS) if options else ()
        return b"".join(
            struct.pack(self.order + "HH", code, len(value)) + value + bytes(-len(value) % 4) for code, value in pairs
        )

    def section(self) -> bytes:
        return self.block(0x0A0D0D0A, struct.pack(self.order + "IHHq", 0x1A2B3C4D, 1, 0, -1))

    def interface(self, link_type: int = 1, snap_length: int = 0, *options: tuple[int, bytes]) -> bytes:
        return self.block(1, struct.pack(self.order + "HHI", link_type, 0, snap_length) + self.options(*options))

    def packet(self, interface: int, raw: int, data: bytes, original: int | None = None) -> bytes:
        """The enhanced packet block."""
        sizes = (len(data), len(data) if original is None else original)
        head = struct.pack(self.order + "IIIII", interface, raw >> 32, raw & 0xFFFFFFFF, *sizes)
        return self.block(6, head + data + bytes(-len(data) % 4))

    def simple_packet(self, data: bytes, original: int | None = None) -> bytes:
        return self.block(3, struct.pack(self.order + "I", len(data) if original is None else original) + data)

    def old_packet(self, interface: int, raw: int, data: bytes, drops: int = 0xFFFF) -> bytes:
        """The obsolete packet block, which counted drops."""
        sizes = (len(data), len(data))
        head = struct.pack(self.order + "HHIIII", interface, drops, raw >> 32, raw & 0xFFFFFFFF, *sizes)
        return self.block(2, head + data + bytes(-len(data) % 4))

    def secrets(self, kind: int, data: bytes) -> bytes:
        return self.block(10, struct.pack(self.order + "II", kind, len(data)) + data)


def pcap_header(order: str = "<", magic: int = 0xA1B2C3D4, link_type: int = 1) -> bytes:
    return struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link_type)


def pcap_record(seconds: int, fraction: int, data: bytes, order: str = "<", more: bytes = b"") -> bytes:
    """A record; more: what a patched format has in its header behind the four usual words."""
    return struct.pack(order + "IIII", seconds, fraction, len(data), len(data)) + more + data


def capture_of(packets: Iterable[Packet]) -> bytes:
    """A pcap file of TCP packets, as raw IP, with times in microseconds."""
    content = [pcap_header(link_type=101)]
    for packet in packets:
        ends = b"".join(ip_address(address).packed for address, _ in (packet.source, packet.target))
        ports = (packet.source[1], packet.target[1])
        tcp = struct.pack(">HHIIBBHHH", *ports, packet.seq, packet.ack, 0x50, packet.flags, 1000, 0, 0)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(packet.payload), 0, 0, 64, 6, 0) + ends
        seconds, rest = divmod(START + packet.at, SECOND)
        content.append(pcap_record(seconds, rest // 1000, ip + tcp + packet.payload))
    return b"".join(content)
