"""Frames of a link to TCP segments: link layer, VLAN tags, IP and TCP headers, by one kernel.

Link types are those of https://www.tcpdump.org/linktypes.html. Types and encapsulations that the kernel does not know
(PPP, PPPoE, MPLS, IEEE 802.11, ...) are unwrapped by scapy or dpkt and then read again as raw IP. What is in tunnels,
as overlays of containers and mirrored ports make them, is read like what is not: VXLAN (RFC 7348), Geneve (RFC 8926),
GRE (RFC 2784, 2890) with ERSPAN, IP in IP (RFC 2003, 2473, 4213), in each other up to `MOST_TUNNELS`. Fragments are not
put together: the first one gives a segment of the bytes it has, so that what the others held becomes a gap of the
stream; every fragment is counted. Tunnels in fragments are other traffic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kafkascope.decoders.kernels import borrowing, kernel
from kafkascope.sniffer.columns import I8, I32, I64, SYN, U8, U16, U32, U64, Packets, Segments
from kafkascope.sniffer.issues import Issue

# What a packet was, or what was remarkable about it: indexes of REMARKS.
UDP, ICMP, ARP, OTHER_IP, OTHER_LINK, FRAGMENT, TRUNCATED, LENGTH, HEADER, UNKNOWN_LINK, LIBRARY = range(11)


@dataclass(frozen=True, slots=True)
class Remark:
    """Name of a kind of packets; with a detail it is damage, else just other traffic."""

    kind: str
    detail: str | None = None


REMARKS = (
    Remark("udp"),
    Remark("icmp"),
    Remark("arp"),
    Remark("other_ip"),
    Remark("not_ip"),
    Remark("ip_fragment", "IP fragment of {value} bytes: fragments are not put together, the stream has a gap there"),
    Remark("truncated_header", "the capture holds {value} bytes of the packet: too few for its headers"),
    Remark("lying_length", "an IP header claims {value} bytes, which disagrees with the packet's size or its headers"),
    Remark("damaged_header", "an IP or TCP header with impossible contents at byte {value} of the packet"),
    Remark("unknown_link_type", "link type {value} is not known (see tcpdump.org/linktypes.html): packets passed over"),
)

ETHERNET, NULL, LOOP, COOKED, COOKED2 = 1, 0, 108, 113, 276
RAW_IP = 101

MOST_TUNNELS = 4  # in each other
VXLAN_PORTS = (4789, 4790, 8472)  # IANA's, and Linux's of before, which some overlays still have
GENEVE_PORT = 6081
TRANSPARENT_ETHERNET, ERSPAN, ERSPAN_3 = 0x6558, 0x88BE, 0x22EB  # what is in GRE; ERSPAN: draft-foschiano-erspan

END_OF_OPTIONS, NO_OPERATION, WINDOW_SCALE, SACK = 0, 1, 3, 5  # kinds of TCP options
LARGEST_SCALE = 14  # what is told beyond counts as this (RFC 7323, 2.3)
LARGEST_WINDOW = 1 << 30  # bytes, what comes of it: nothing that is sent or received at once spans more

int64: Any = np.int64  # numba's cast; typed loosely, as kernels mix it with plain integers


@dataclass(frozen=True, slots=True)
class Dissected:
    """What a batch of packets carried: segments, the number of other packets by kind, and what was damaged."""

    packets: Packets  # as they were read: what had to be unwrapped begins at its IP header
    segments: Segments
    other: dict[str, int]
    issues: tuple[Issue, ...]


def dissect(packets: Packets) -> Dissected:
    """Read the headers of all packets; segments keep the packets' order and share their data.

    Addresses, ports and lengths are as in ``Segments``. A length of 0 in the IP header (segmentation offload) means
    the rest of the packet, Ethernet padding is left out. Damage is counted in issues with the first packet of each
    kind, nothing is raised.
    """
    segments, counts, first, values, library, tunnels = _run(packets)
    depth = 0
    while library.size or tunnels.size:
        depth += 1
        packets = _as_writable_places(packets)
        _unwrap(packets, library)
        _enter(packets, tunnels)
        segments, counts, first, values, library, tunnels = _run(packets, enter=depth < MOST_TUNNELS)
    other: dict[str, int] = {}
    issues: list[Issue] = []
    for index, remark in enumerate(REMARKS):
        count = int(counts[index])
        if not count:
            continue
        if remark.detail is None:
            other[remark.kind] = count
            continue
        row = int(first[index])
        detail = remark.detail.format(value=int(values[index]))
        issues.append(Issue(remark.kind, detail, at=int(packets.at[row]), packet=int(packets.number[row]), count=count))
    return Dissected(packets, segments, other, tuple(issues))


def _run(packets: Packets, *, enter: bool = True) -> tuple[Segments, I64, I64, I64, I64, I64]:
    """Call the kernel and name its columns; without enter tunnels are other traffic."""
    rows = len(packets.start)
    counts, first, values = (np.zeros(len(REMARKS) + 1, np.int64) for _ in range(3))
    number, at, start = (np.empty(rows, np.int64) for _ in range(3))
    addresses = np.empty((4, rows), np.uint64)
    ports = np.empty((2, rows), np.uint16)
    seq_ack = np.empty((2, rows), np.uint32)
    flags = np.empty(rows, np.uint8)
    captured, length = (np.empty(rows, np.int32) for _ in range(2))
    window = np.empty(rows, np.uint16)
    scale = np.empty(rows, np.int8)
    sacked = np.empty(rows, np.int32)
    dsack = np.empty(rows, np.uint32)
    ident = np.empty(rows, np.uint16)
    library = np.empty(rows, np.int64)
    tunnels = np.empty((rows, 3), np.int64)
    found, unwrap, entered = _dissect(
        as_writable(packets.data),
        as_writable(packets.number),
        as_writable(packets.at),
        as_writable(packets.start),
        as_writable(packets.captured),
        as_writable(packets.original),
        as_writable(packets.link_type),
        *(number, at, addresses, ports, seq_ack, flags, start, captured, length, window, scale, sacked, dsack, ident),
        *(library, tunnels if enter else tunnels[:0], counts, first, values),
    )
    segments = Segments(
        data=packets.data,
        number=number[:found],
        at=at[:found],
        source_high=addresses[0, :found],
        source_low=addresses[1, :found],
        target_high=addresses[2, :found],
        target_low=addresses[3, :found],
        source_port=ports[0, :found],
        target_port=ports[1, :found],
        seq=seq_ack[0, :found],
        ack=seq_ack[1, :found],
        flags=flags[:found],
        start=start[:found],
        captured=captured[:found],
        length=length[:found],
        window=window[:found],
        scale=scale[:found],
        sacked=sacked[:found],
        dsack=dsack[:found],
        ident=ident[:found],
    )
    return segments, counts, first, values, library[:unwrap], tunnels[:entered]


def as_writable(array: Any) -> Any:
    """View of an array that numba types as writable and contiguous, so that the kernel is compiled once only."""
    array = np.ascontiguousarray(array)
    if array.flags.writeable:
        return array
    if not array.size:
        return np.empty(0, array.dtype)
    interface = dict(array.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    return np.asarray(_Memory(interface, array))


class _Memory:
    """Memory of a read-only array (kept alive by owner), offered as writable; the kernel only reads it."""

    def __init__(self, interface: dict[str, Any], owner: object) -> None:
        self.__array_interface__ = interface
        self.owner = owner


@borrowing
def two_bytes(data: U8, at: int) -> Any:
    """A number of two bytes, as all in these headers are big-endian."""
    return int64(data[at]) << 8 | int64(data[at + 1])


@borrowing
def _four(data: U8, at: int) -> Any:
    return (
        int64(data[at]) << 24
        | int64(data[at + 1]) << 16
        | int64(data[at + 2]) << 8
        | int64(data[at + 3])
    )  # fmt: skip


@borrowing
def _eight(data: U8, at: int) -> np.uint64:
    return np.uint64(_four(data, at)) << np.uint64(32) | np.uint64(_four(data, at + 4))


@borrowing
def network_header(data: U8, position: int, end: int, link: int) -> tuple[int, int, int]:
    """Walk the link layer: (IP version or 0, position of the IP header, remark if the version is 0)."""
    ether = int64(-1)
    if link == ETHERNET:
        if position + 14 > end:
            return 0, position, TRUNCATED
        ether = two_bytes(data, position + 12)
        position += 14
    elif link == COOKED:
        if position + 16 > end:
            return 0, position, TRUNCATED
        ether = two_bytes(data, position + 14)
        position += 16
    elif link == COOKED2:
        if position + 20 > end:
            return 0, position, TRUNCATED
        ether = two_bytes(data, position)
        position += 20
    elif link in (NULL, LOOP):
        # Address family in the byte order of the capturing host; IPv6 has another number on every system.
        if position + 4 > end:
            return 0, position, TRUNCATED
        family = _four(data, position)
        if family > 0xFFFF:
            family = (family >> 24) | ((family >> 8) & 0xFF00)
        position += 4
        if family == 2:
            return 4, position, 0
        if family in (10, 24, 28, 30):
            return 6, position, 0
        return 0, position, OTHER_LINK
    elif link in (RAW_IP, 12, 14, 228, 229):
        if position >= end:
            return 0, position, TRUNCATED
        version = int64(data[position]) >> 4
        if version in (4, 6):
            return version, position, 0
        return 0, position, HEADER
    elif link < 0:  # scapy or dpkt looked into it already: the remark, negated and lowered by one
        return 0, position, -link - 1
    else:
        return 0, position, LIBRARY

    # A length instead of a type: IEEE 802.3 with LLC, of which SNAP (aa aa 03 00 00 00) has a type again.
    if (
        0 <= ether <= 1500
        and position + 8 <= end
        and _four(data, position) == 0xAAAA0300
        and two_bytes(data, position + 4) == 0
    ):
        ether = two_bytes(data, position + 6)
        position += 8
    while ether in (0x8100, 0x88A8, 0x9100, 0x9200):
        if position + 4 > end:
            return 0, position, TRUNCATED
        ether = two_bytes(data, position + 2)
        position += 4
    if ether == 0x0800:
        return 4, position, 0
    if ether == 0x86DD:
        return 6, position, 0
    if ether == 0x0806:
        return 0, position, ARP
    if ether in (0x8847, 0x8848, 0x8864):  # MPLS, PPPoE
        return 0, position, LIBRARY
    return 0, position, OTHER_LINK


@borrowing
def extension_headers(data: U8, position: int, end: int, protocol: int) -> tuple[int, int, int, int]:
    """Walk the extension headers of IPv6 (RFC 8200): (protocol, position, fragment offset, more fragments)."""
    offset = int64(0)
    more = int64(0)
    while protocol in (0, 43, 44, 51, 60, 135, 139, 140):
        if position + 8 > end:
            return -1, position, offset, more
        following = int64(data[position])
        if protocol == 44:
            field = two_bytes(data, position + 2)
            offset = field >> 3
            more = field & 1
            position += 8
            if offset:
                return following, position, offset, more
        elif protocol == 51:
            position += (int64(data[position + 1]) + 2) * 4
        else:
            position += (int64(data[position + 1]) + 1) * 8
        protocol = following
    return protocol, position, offset, more


@borrowing
def _tunnel(data: U8, position: int, end: int, protocol: int) -> tuple[int, int]:
    """What is in a tunnel whose header begins here: where, or -1 if it is none, and its link type."""
    inner, ether = int64(-1), int64(TRANSPARENT_ETHERNET)
    if protocol == 4 or protocol == 41:
        inner, ether = position, int64(0x0800)
    elif protocol == 17 and position + 16 <= end:
        port = two_bytes(data, position + 2)
        what = int64(data[position + 8])
        if port in VXLAN_PORTS and what & 0x78 == 0x08:  # with a policy group, too (0x80)
            inner = position + 16
            if what & 0x04:  # what comes next is said (VXLAN-GPE): IP of either version, Ethernet
                following = int64(data[position + 11])
                ether = int64(0x0800) if following in (1, 2) else ether
                inner = inner if 1 <= following <= 3 else int64(-1)
        elif port == GENEVE_PORT and what >> 6 == 0:
            ether = two_bytes(data, position + 10)
            inner = position + 16 + (what & 63) * 4
    elif protocol == 47 and position + 4 <= end:
        flags, ether = two_bytes(data, position), two_bytes(data, position + 2)
        if flags & 0x4007 == 0:  # no routing, version 0
            inner = position + 4 + 4 * ((flags >> 15 & 1) + (flags >> 13 & 1) + (flags >> 12 & 1))
        if inner > 0 and ether == ERSPAN:
            inner += 8 if flags & 0x1000 else 0  # type I has neither sequence numbers nor a header
            ether = int64(TRANSPARENT_ETHERNET)
        elif 0 < inner <= end - 12 and ether == ERSPAN_3:
            inner += 20 if data[inner + 11] & 1 else 12
            ether = int64(TRANSPARENT_ETHERNET)
    if inner < 0 or inner + 20 > end:
        return -1, 0
    if ether == TRANSPARENT_ETHERNET:
        return inner, ETHERNET
    if (ether == 0x0800 or ether == 0x86DD) and data[inner] >> 4 in (4, 6):
        return inner, RAW_IP
    return -1, 0


@borrowing
def _note(counts: I64, first: I64, values: I64, remark: int, row: int, value: int) -> None:
    if counts[remark] == 0:
        first[remark] = row
        values[remark] = value
    counts[remark] += 1


@borrowing
def _options(data: U8, position: int, end: int, syn: int, ack: int) -> tuple[int, int, int]:
    """Read the options of a TCP header: window scale of a SYN, bytes sacked above ack, begin of a D-SACK.

    Options that are not whole, or whose length cannot be, end the walk; blocks of bytes that cannot be are passed over.
    """
    scale, sacked, dsack = int64(-1), int64(0), int64(0)
    while position < end:
        kind = int64(data[position])
        if kind == END_OF_OPTIONS:
            break
        if kind == NO_OPERATION:
            position += 1
            continue
        if position + 2 > end:
            break
        size = int64(data[position + 1])
        if size < 2 or position + size > end:
            break
        if kind == WINDOW_SCALE and size == 3 and syn:
            scale = min(int64(data[position + 2]), LARGEST_SCALE)
        elif kind == SACK:
            for block in range(position + 2, position + size - 7, 8):
                left, right = _four(data, block), _four(data, block + 4)
                if not 0 < (right - left) & 0xFFFFFFFF <= LARGEST_WINDOW:
                    continue
                inside = block + 16 <= position + size and _is_inside(left, right, data, block + 8)
                is_old = (ack - right) & 0xFFFFFFFF <= LARGEST_WINDOW
                # The first block may tell what came twice: bytes below ack, or inside the second block.
                if block == position + 2 and (is_old or inside):
                    dsack = left
                elif (left - ack) & 0xFFFFFFFF <= LARGEST_WINDOW:
                    sacked += (right - left) & 0xFFFFFFFF
        position += size
    return scale, min(sacked, LARGEST_WINDOW), dsack


@borrowing
def _is_inside(left: int, right: int, data: U8, block: int) -> Any:
    """Whether bytes are part of those of a SACK block."""
    begin, size = _four(data, block), (_four(data, block + 4) - _four(data, block)) & 0xFFFFFFFF
    return (left - begin) & 0xFFFFFFFF <= size and (right - begin) & 0xFFFFFFFF <= size


@kernel
def _dissect(
    data: U8,
    packet_number: I64,
    packet_at: I64,
    packet_start: I64,
    packet_captured: I32,
    packet_original: I32,
    link_type: I32,
    number: I64,
    at: I64,
    addresses: U64,
    ports: U16,
    seq_ack: U32,
    flags: U8,
    start: I64,
    captured: I32,
    length: I32,
    window: U16,
    scale: I8,
    sacked: I32,
    dsack: U32,
    ident: U16,
    library: I64,
    tunnels: I64,
    counts: I64,
    first: I64,
    values: I64,
) -> tuple[int, int, int]:
    """Fill the columns of segments; returns their number, and those of packets to unwrap by a library and of tunnels.

    Of these there are row, begin of what is in them, and its link type; if there is room for none, none is entered.
    """
    found = 0
    unwrap = 0
    entered = 0
    for row in range(packet_start.size):
        begin = packet_start[row]
        size = int64(packet_captured[row])
        end = begin + size
        wire_end = begin + max(size, int64(packet_original[row]))
        version, position, remark = network_header(data, begin, end, int64(link_type[row]))
        if version == 0:
            if remark == LIBRARY:
                library[unwrap] = row
                unwrap += 1
                continue
            value = size
            if remark == UNKNOWN_LINK:
                value = wire_end - begin  # _unwrap puts the link type there
            elif remark == HEADER:
                value = position - begin
            _note(counts, first, values, remark, row, value)
            continue
        if position >= end:
            _note(counts, first, values, TRUNCATED, row, size)
            continue
        if int64(data[position]) >> 4 != version:
            _note(counts, first, values, HEADER, row, position - begin)
            continue
        offset = int64(0)
        more = int64(0)
        if version == 4:
            if position + 20 > end:
                _note(counts, first, values, TRUNCATED, row, size)
                continue
            header = (int64(data[position]) & 15) * 4
            claimed = two_bytes(data, position + 2)
            fragment = two_bytes(data, position + 6)
            offset = fragment & 0x1FFF
            more = fragment >> 13 & 1
            protocol = int64(data[position + 9])
            source_high = np.uint64(0)
            target_high = np.uint64(0)
            source_low = np.uint64(_four(data, position + 12)) | np.uint64(0xFFFF00000000)
            target_low = np.uint64(_four(data, position + 16)) | np.uint64(0xFFFF00000000)
            if header < 20:
                _note(counts, first, values, HEADER, row, position - begin)
                continue
        else:
            if position + 40 > end:
                _note(counts, first, values, TRUNCATED, row, size)
                continue
            header = int64(40)
            claimed = two_bytes(data, position + 4)
            if claimed:
                claimed += 40
            protocol = int64(data[position + 6])
            source_high = _eight(data, position + 8)
            source_low = _eight(data, position + 16)
            target_high = _eight(data, position + 24)
            target_low = _eight(data, position + 32)
        if claimed == 0:  # segmentation offload; jumbo payload option
            claimed = wire_end - position
        if claimed < header:
            _note(counts, first, values, LENGTH, row, claimed)
            continue
        ip_end = position + claimed
        lies = ip_end > wire_end
        ip = position
        position += header
        if version == 6:
            protocol, position, offset, more = extension_headers(data, position, min(end, ip_end), protocol)
            if protocol < 0:
                _note(counts, first, values, TRUNCATED, row, size)
                continue
        if protocol != 6:
            if entered < tunnels.shape[0] and not (offset or more):
                inner, link = _tunnel(data, position, min(end, ip_end), protocol)
                if inner > 0:
                    tunnels[entered, 0], tunnels[entered, 1], tunnels[entered, 2] = row, inner, link
                    entered += 1
                    continue
            if protocol == 17:
                remark = UDP
            elif protocol in (1, 58):
                remark = ICMP
            else:
                remark = OTHER_IP
            _note(counts, first, values, remark, row, size)
            continue
        if offset or more:
            _note(counts, first, values, FRAGMENT, row, claimed)
            if offset:
                continue
        if lies:
            # Kept with the length of the IP header: tools that cut packets often forget the size on the wire.
            _note(counts, first, values, LENGTH, row, claimed)
        if position + 20 > ip_end:
            if not lies:
                _note(counts, first, values, LENGTH, row, claimed)
            continue
        if position + 20 > end:
            _note(counts, first, values, TRUNCATED, row, size)
            continue
        payload = position + (int64(data[position + 12]) >> 4) * 4
        if payload < position + 20 or payload > ip_end:
            _note(counts, first, values, HEADER, row, ip - begin)
            continue
        number[found] = packet_number[row]
        at[found] = packet_at[row]
        addresses[0, found] = source_high
        addresses[1, found] = source_low
        addresses[2, found] = target_high
        addresses[3, found] = target_low
        ports[0, found] = two_bytes(data, position)
        ports[1, found] = two_bytes(data, position + 2)
        seq_ack[0, found] = _four(data, position + 4)
        seq_ack[1, found] = _four(data, position + 8)
        flags[found] = data[position + 13]
        bytes_end = min(end, ip_end)
        start[found] = min(payload, bytes_end)
        captured[found] = max(bytes_end - payload, 0)
        length[found] = ip_end - payload
        window[found] = two_bytes(data, position + 14)
        ident[found] = two_bytes(data, ip + 4) if version == 4 else 0
        scale[found], sacked[found], dsack[found] = -1, 0, 0
        options = position + 20
        options_end = min(payload, bytes_end)
        # Most packets have a time stamp behind two bytes of padding (RFC 7323, appendix A), and nothing else.
        if options < options_end and not (
            payload == options + 12 and options + 4 <= options_end and _four(data, options) == 0x0101080A
        ):
            scale[found], sacked[found], dsack[found] = _options(
                data, options, options_end, int64(data[position + 13]) & SYN, int64(seq_ack[1, found])
            )
        found += 1
    return found, unwrap, entered


def _as_writable_places(packets: Packets) -> Packets:
    """The packets, so that where they begin may be changed."""
    names = ("start", "captured", "original", "link_type")
    return replace(packets, **{name: getattr(packets, name).copy() for name in names})


def _enter(packets: Packets, tunnels: I64) -> None:
    """Let packets begin at what is in their tunnels."""
    rows, begin, link_type = tunnels.T
    offset = begin - packets.start[rows]
    packets.start[rows] += offset
    packets.captured[rows] -= offset
    packets.original[rows] -= offset
    packets.link_type[rows] = link_type


def _unwrap(packets: Packets, rows: I64) -> None:
    """Let packets begin at their IP header; those without one get a negative link type."""
    start, captured, original, link_type = packets.start, packets.captured, packets.original, packets.link_type
    finders: dict[int, Callable[[bytes], int] | None] = {}
    for row in rows.tolist():
        kind, begin, size = int(link_type[row]), int(start[row]), int(captured[row])
        if kind not in finders:
            finders[kind] = _finder(kind)
        finder = finders[kind]
        if finder is None:
            link_type[row] = -UNKNOWN_LINK - 1
            original[row] = kind
            captured[row] = 0
            continue
        offset = finder(packets.data[begin : begin + size].tobytes())
        if offset < 0:
            link_type[row] = offset
            continue
        start[row] += offset
        captured[row] -= offset
        original[row] -= offset
        link_type[row] = RAW_IP


def _finder(link_type: int) -> Callable[[bytes], int] | None:
    """Function that gives the offset of the IP header in a frame (or a negated remark less one); None: unknown type."""
    # Both libraries are slow to import and rarely needed.
    import dpkt.pcap
    import scapy.contrib.mpls
    import scapy.layers.dot11
    import scapy.layers.inet6
    import scapy.layers.ppp
    from scapy.config import conf
    from scapy.layers.inet import IP

    layer = conf.l2types.num2layer.get(link_type)
    if layer is None:
        fixed = dpkt.pcap.dltoff.get(link_type)
        if fixed is None:
            return None
        return lambda frame: fixed if frame[fixed : fixed + 1] and frame[fixed] >> 4 in (4, 6) else -OTHER_LINK - 1

    def find(frame: bytes) -> int:
        try:
            dissected = layer(frame)
            inner = dissected.getlayer(IP) or dissected.getlayer(scapy.layers.inet6.IPv6)
        except Exception:  # whatever a foreign parser meets in foreign bytes
            return -HEADER - 1
        if inner is None or not inner.original:
            return -OTHER_LINK - 1
        return frame.find(inner.original)

    return find
