"""Packets without what they carry: headers with other addresses, zeros for payloads, and the right checksums.

Of headers only fields with a known meaning are kept; whatever else is in a packet becomes zeros, so that nothing goes
through which nobody has looked at. Packets keep their places in a copy of their bytes, so that segments of theirs point
to where their payloads were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kafkascope.decoders.kernels import borrowing, copy_bytes, kernel
from kafkascope.sniffer.columns import I32, I64, U8, Packets
from kafkascope.sniffer.link import (
    ARP,
    COOKED,
    COOKED2,
    END_OF_OPTIONS,
    ETHERNET,
    NO_OPERATION,
    as_writable,
    extension_headers,
    network_header,
    two_bytes,
)

MAC_BYTES, IPV4_BYTES, IPV6_BYTES = 6, 4, 16
_TCP, _UDP, _ICMP, _ICMP6 = 6, 17, 1, 58
_KEPT_OPTIONS = (2, 3, 4, 5, 8)  # MSS, window scale, SACK permitted, SACK, time stamps (RFC 9293, 7323, 2018)
_OPTIONS_MASK = sum(1 << kind for kind in _KEPT_OPTIONS)

# Columns of what is noted of a packet; places are in the data, -1: none.
(
    _MACS,  # of the first of so many MAC addresses, one behind the other
    _MAC_COUNT,
    _ADDRESSES,  # of source and target, one behind the other
    _ADDRESS_BYTES,  # of each; 0: there are none
    _ARP,  # of the first of the four addresses of ARP
    _IP,  # header
    _TRANSPORT,  # header
    _PROTOCOL,
    _END,  # of the IP packet
    _CHECKED,  # 1: all of the packet is there, so that the checksum of what IP carries can be had
    _COLUMNS,
) = range(11)

int64: Any = np.int64


@dataclass(frozen=True, slots=True)
class BlankPackets:
    """Packets whose headers are there, and where what is left to do stands."""

    packets: Packets
    _notes: I64

    def replace(self, width: int, pseudonyms: Callable[[bytes], bytes]) -> None:
        """Put pseudonyms, as long, in the place of all addresses of a width: `MAC_BYTES` and so on."""
        places = self._places(width)
        if not len(places):
            return
        data = self.packets.data
        where = places[:, None] + np.arange(width)
        unique, which = np.unique(data[where], axis=0, return_inverse=True)
        made = b"".join(pseudonyms(one.tobytes()) for one in unique)
        data[where] = np.frombuffer(made, np.uint8).reshape(-1, width)[which.reshape(-1)]

    def set_checksums(self) -> None:
        """Compute those of IP, TCP, UDP and ICMP; 0 where the capture lacks a part of what they are of."""
        _set_checksums(self.packets.data, self._notes)

    def _places(self, width: int) -> I64:
        notes = self._notes
        if width == MAC_BYTES:
            macs = notes[notes[:, _MACS] >= 0]
            second = macs[macs[:, _MAC_COUNT] == 2, _MACS] + MAC_BYTES
            arp = notes[notes[:, _ARP] >= 0, _ARP]
            return np.concatenate([macs[:, _MACS], second, arp, arp + MAC_BYTES + IPV4_BYTES])
        ip = notes[notes[:, _ADDRESS_BYTES] == width, _ADDRESSES]
        places = [ip, ip + width]
        if width == IPV4_BYTES:
            arp = notes[notes[:, _ARP] >= 0, _ARP] + MAC_BYTES
            places += [arp, arp + IPV4_BYTES + MAC_BYTES]
        return np.concatenate(places)


def blank(packets: Packets) -> BlankPackets:
    """The packets with their headers alone, in a copy of their bytes; those given are as `link.dissect` read them.

    Packets of a link type below 0, in which nothing was found, become zeros.
    """
    data = np.zeros(len(packets.data), np.uint8)
    notes = np.full((len(packets.start), _COLUMNS), -1, np.int64)
    _keep_headers(
        as_writable(packets.data),
        as_writable(packets.start),
        as_writable(packets.captured),
        as_writable(packets.original),
        as_writable(packets.link_type),
        data,
        notes,
    )
    return BlankPackets(replace(packets, data=data), notes)


@kernel
def _keep_headers(data: U8, starts: I64, captured: I32, original: I32, link_type: I32, out: U8, notes: I64) -> None:
    for row in range(starts.shape[0]):
        begin, link = starts[row], int64(link_type[row])
        end = begin + int64(captured[row])
        note = notes[row]
        note[_ADDRESS_BYTES] = 0
        if link < 0:
            continue
        version, position, remark = network_header(data, begin, end, link)
        if position > end:
            continue
        copy_bytes(data, begin, position - begin, out, begin)
        _note_macs(link, begin, position, out, note)
        if version == 0:
            if remark == ARP:
                _keep_arp(data, position, end, out, note)
            continue
        wire_end = begin + max(int64(captured[row]), int64(original[row]))
        _keep_ip(data, version, position, end, wire_end, out, note)


@borrowing
def _note_macs(link: Any, begin: Any, position: Any, out: U8, note: I64) -> None:
    """Note the addresses of a link header, all of which is there. Linux cooked ones have 8 bytes for one."""
    if link == ETHERNET and position >= begin + 14:
        note[_MACS], note[_MAC_COUNT] = begin, 2
    elif link in (COOKED, COOKED2) and position > begin:
        note[_MACS], note[_MAC_COUNT] = begin + (6 if link == COOKED else 12), 1
        out[note[_MACS] + 6] = 0
        out[note[_MACS] + 7] = 0


@borrowing
def _keep_arp(data: U8, position: Any, end: Any, out: U8, note: I64) -> None:
    """Keep ARP between Ethernet and IPv4 (RFC 826): hardware 1, protocol 0x0800, addresses of 6 and 4 bytes."""
    if (
        position + 28 <= end
        and two_bytes(data, position) == 1
        and two_bytes(data, position + 2) == 0x0800
        and two_bytes(data, position + 4) == 0x0604
    ):
        copy_bytes(data, position, 28, out, position)
        note[_ARP] = position + 8


@borrowing
def _keep_ip(data: U8, version: Any, position: Any, end: Any, wire_end: Any, out: U8, note: I64) -> None:
    offset, more = int64(0), int64(0)  # of a fragment
    least = int64(20) if version == 4 else int64(40)
    if position + least > end or data[position] >> 4 != version:
        return
    copy_bytes(data, position, least, out, position)
    note[_IP] = position
    if version == 4:
        header = int64(data[position] & 15) * 4
        claimed = two_bytes(data, position + 2)
        offset, more = two_bytes(data, position + 6) & 0x1FFF, int64(data[position + 6] >> 5 & 1)
        protocol = int64(data[position + 9])
        note[_ADDRESSES], note[_ADDRESS_BYTES] = position + 12, IPV4_BYTES
    else:
        header = least
        claimed = two_bytes(data, position + 4)
        claimed += least if claimed else 0
        protocol = int64(data[position + 6])
        note[_ADDRESSES], note[_ADDRESS_BYTES] = position + 8, IPV6_BYTES
    ip_end = position + (claimed if claimed else wire_end - position)
    place = position + header
    if header < least or place > min(end, ip_end):
        return
    if version == 6:
        first, first_at = protocol, place
        protocol, place, offset, more = extension_headers(data, place, min(end, ip_end), protocol)
        if protocol < 0 or place > min(end, ip_end):
            return
        _keep_extensions(data, first_at, place, first, out)
    note[_TRANSPORT], note[_PROTOCOL], note[_END] = place, protocol, min(end, ip_end)
    note[_CHECKED] = 1 if ip_end <= end and offset == 0 and more == 0 else 0
    if offset:
        return
    kept = int64(0)
    if protocol == _TCP:
        kept = int64(20)
    elif protocol == _UDP:
        kept = int64(8)
    elif protocol in (_ICMP, _ICMP6):
        kept = int64(4)
    kept = min(kept, note[_END] - place)
    copy_bytes(data, place, kept, out, place)
    if protocol == _TCP and kept == 20:
        options_end = min(place + int64(data[place + 12] >> 4) * 4, note[_END])
        _keep_options(data, place + 20, options_end, out)


@borrowing
def _keep_extensions(data: U8, position: Any, end: Any, protocol: Any, out: U8) -> None:
    """Keep of IPv6's extension headers what leads to the next one, and all of those of fragments (RFC 8200)."""
    while position + 8 <= end:
        following = int64(data[position])
        size = (int64(data[position + 1]) + 1) * 8
        if protocol == 44:
            size = int64(8)
            copy_bytes(data, position, 8, out, position)
        else:
            copy_bytes(data, position, 2, out, position)
            if protocol == 51:
                size = (int64(data[position + 1]) + 2) * 4
        protocol = following
        position += size


@borrowing
def _keep_options(data: U8, position: Any, end: Any, out: U8) -> None:
    """Keep the options of TCP that are known; others become NOPs, and so does what lies behind damage."""
    while position < end:
        kind = int64(data[position])
        size = int64(1)
        if kind > NO_OPERATION and position + 1 < end:
            size = int64(data[position + 1])
        if kind == END_OF_OPTIONS or size < 1 or position + size > end:
            break
        known = kind > NO_OPERATION and kind < 63 and (_OPTIONS_MASK >> kind) & 1 and size >= 2
        if known:
            copy_bytes(data, position, size, out, position)
        else:
            for index in range(position, position + size):
                out[index] = NO_OPERATION
        position += size


@borrowing
def _sum(data: U8, position: Any, end: Any) -> Any:
    """The sum of 16-bit words (RFC 1071)."""
    total = int64(0)
    for index in range(position, end - 1, 2):
        total += two_bytes(data, index)
    if (end - position) & 1:
        total += int64(data[end - 1]) << 8
    return total


@borrowing
def _put_checksum(data: U8, place: Any, total: Any) -> None:
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    data[place] = (total ^ 0xFFFF) >> 8
    data[place + 1] = (total ^ 0xFFFF) & 0xFF


@kernel
def _set_checksums(data: U8, notes: I64) -> None:
    for row in range(notes.shape[0]):
        note = notes[row]
        ip, place, end, protocol = note[_IP], note[_TRANSPORT], note[_END], note[_PROTOCOL]
        if ip < 0:
            continue
        if note[_ADDRESS_BYTES] == IPV4_BYTES:
            data[ip + 10] = 0
            data[ip + 11] = 0
            header_end = ip + int64(data[ip] & 15) * 4
            if place >= header_end:  # zeros, as the options are, when it is not known how long it is
                _put_checksum(data, ip + 10, _sum(data, ip, header_end))
        field = int64(-1)
        if protocol == _TCP:
            field = place + 16
        elif protocol == _UDP:
            field = place + 6
        elif protocol in (_ICMP, _ICMP6):
            field = place + 2
        if place < 0 or field < 0 or field + 2 > end:
            continue
        is_absent = protocol == _UDP and data[field] == 0 and data[field + 1] == 0
        data[field] = 0
        data[field + 1] = 0
        if not note[_CHECKED] or is_absent:
            continue
        total = _sum(data, place, end)
        if protocol != _ICMP:
            addresses = note[_ADDRESSES]
            total += _sum(data, addresses, addresses + 2 * note[_ADDRESS_BYTES]) + protocol + end - place
        _put_checksum(data, field, total)
        if protocol == _UDP and data[field] == 0 and data[field + 1] == 0:
            data[field] = 0xFF
            data[field + 1] = 0xFF
