"""Link layers, IP and TCP headers: packets made by scapy, real captures with dpkt as second opinion."""

from __future__ import annotations

import glob
import ipaddress
import random
import struct
from typing import Any

import dpkt
import numpy as np
import pytest
from scapy.contrib.erspan import ERSPAN_II, ERSPAN_III
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.ipsec import AH
from scapy.layers.l2 import ARP, GRE, LLC, SNAP, CookedLinux, CookedLinuxV2, Dot1AD, Dot1Q, Ether, Loopback
from scapy.layers.ppp import PPP, PPPoE
from scapy.layers.vxlan import VXLAN

from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.link import Dissected, dissect
from kafkascope.sniffer.sources import open_capture
from tests.paths import PCAPS

PAYLOAD = b"kafka" * 20
SEGMENT = TCP(sport=40000, dport=9092, seq=0xFFFFFFF0, ack=7, flags="PA", options=[("NOP", None), ("NOP", None)] * 2)
V4 = IP(src="10.0.0.1", dst="10.0.0.2") / SEGMENT / PAYLOAD
V6 = IPv6(src="fd00::1", dst="fd00::2")


def packets(*frames: tuple[int, bytes] | tuple[int, bytes, int]) -> Packets:
    """Packets of (link type, bytes[, size on the wire])."""
    sizes = [len(frame[1]) for frame in frames]
    wires = [frame[2] if len(frame) > 2 else len(frame[1]) for frame in frames]
    start = np.cumsum([0, *sizes])[:-1].astype(np.int64)
    count = len(frames)
    return Packets(
        np.frombuffer(b"".join(frame[1] for frame in frames), np.uint8),
        np.arange(1, count + 1, dtype=np.int64),
        np.arange(count, dtype=np.int64) * 1000,
        start,
        np.array(sizes, np.int32),
        np.array(wires, np.int32),
        np.array([frame[0] for frame in frames], np.int32),
    )


def address(high: Any, low: Any) -> str:
    whole = ipaddress.IPv6Address(int(high) << 64 | int(low))
    return str(whole.ipv4_mapped or whole)


def payloads(dissected: Dissected) -> list[bytes]:
    segments = dissected.segments
    return [
        segments.data[start : start + captured].tobytes()
        for start, captured in zip(segments.start.tolist(), segments.captured.tolist(), strict=True)
    ]


V6_SEGMENT = SEGMENT / PAYLOAD
ROUTER = IP(src="1.1.1.1", dst="2.2.2.2")
MACS = {"src": "02:00:00:00:00:07", "dst": "02:00:00:00:00:08"}  # or scapy asks the network for them
FRAME = Ether(**MACS)
OUTER = FRAME / ROUTER
LINKS = {
    "ethernet": (1, FRAME / V4),
    "vlan": (1, FRAME / Dot1Q(vlan=7) / V4),
    "qinq": (1, FRAME / Dot1AD(vlan=5) / Dot1Q(vlan=7) / V4),
    "qinq 0x9100": (1, Ether(**MACS, type=0x9100) / Dot1Q(vlan=5) / Dot1Q(vlan=7) / V4),
    "snap": (1, Ether(**MACS, type=len(bytes(LLC() / SNAP() / V4))) / LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / SNAP() / V4),
    "cooked": (113, CookedLinux(proto=0x800) / V4),
    "cooked vlan": (113, CookedLinux(proto=0x8100) / Dot1Q(vlan=3) / V4),
    "cooked v2": (276, CookedLinuxV2(proto=0x800) / V4),
    "null": (0, Loopback(type=2) / V4),
    "null big-endian": (0, b"\x00\x00\x00\x02" + bytes(V4)),
    "loop": (108, b"\x00\x00\x00\x02" + bytes(V4)),
    "raw": (101, V4),
    "raw bsd": (12, V4),
    "raw openbsd": (14, V4),
    "ipv4": (228, V4),
    "ip options": (101, IP(src="10.0.0.1", dst="10.0.0.2", options=[IPOption_NOP()] * 8) / SEGMENT / PAYLOAD),
    "padding": (1, bytes(FRAME / V4) + bytes(9)),
    "ppp": (9, PPP(proto=0x21) / V4),
    "pppoe": (1, FRAME / PPPoE(sessionid=1) / PPP(proto=0x21) / V4),
    "mpls": (1, FRAME / MPLS(label=9, s=1, ttl=4) / V4),
    "vxlan": (1, OUTER / UDP(dport=4789) / bytes.fromhex("0800000000000700") / FRAME / V4),
    "vxlan that says what is next": (1, OUTER / UDP(dport=4790) / VXLAN(vni=7) / FRAME / V4),
    "vxlan without ethernet": (1, OUTER / UDP(dport=4790) / bytes.fromhex("0c00000100000700") / V4),
    "vxlan with a policy group": (1, OUTER / UDP(dport=8472) / VXLAN(flags=0x88, vni=7, gpid=3) / FRAME / Dot1Q() / V4),
    "geneve": (1, OUTER / UDP(dport=6081) / bytes.fromhex("0200655800000700") / bytes(8) / FRAME / V4),
    "geneve without ethernet": (
        276,
        CookedLinuxV2(proto=0x800) / ROUTER / UDP(dport=6081) / bytes.fromhex("0000080000000700") / V4,
    ),
    "gre": (1, OUTER / GRE() / V4),
    "gre with all fields": (1, OUTER / GRE(chksum_present=1, key_present=1, seqnum_present=1) / V4),
    "gre with ethernet": (1, OUTER / GRE(proto=0x6558) / FRAME / V4),
    "erspan 1": (1, OUTER / GRE(proto=0x88BE) / FRAME / V4),
    "erspan 2": (1, OUTER / GRE(proto=0x88BE, seqnum_present=1) / ERSPAN_II() / FRAME / V4),
    "erspan 3": (1, OUTER / GRE(proto=0x22EB, seqnum_present=1) / ERSPAN_III() / FRAME / V4),
    "erspan 3 with more": (
        1,
        OUTER / GRE(proto=0x22EB, seqnum_present=1) / (bytes(ERSPAN_III())[:11] + b"\x01" + bytes(8)) / FRAME / V4,
    ),
    "ip in ip": (1, OUTER / V4),
    "ip in ip of version 6": (1, FRAME / V6 / V4),
    "ipv6 in ip": (1, OUTER / V6 / V6_SEGMENT),
    "tunnels in tunnels": (1, OUTER / UDP(dport=4789) / VXLAN(vni=7) / FRAME / ROUTER / GRE() / ROUTER / ROUTER / V4),
    "slip by dpkt": (8, bytes(16) + bytes(V4)),
    "ipv6": (229, V6 / V6_SEGMENT),
    "ipv6 null": (0, b"\x1e\x00\x00\x00" + bytes(V6 / V6_SEGMENT)),
    "ipv6 cooked v2": (276, CookedLinuxV2(proto=0x86DD) / V6 / V6_SEGMENT),
    "ipv6 extensions": (
        1,
        FRAME
        / V6
        / IPv6ExtHdrHopByHop()
        / IPv6ExtHdrDestOpt()
        / IPv6ExtHdrRouting()
        / AH(nh=6, payloadlen=4, icv=b"x" * 12)
        / V6_SEGMENT,
    ),
    "ipv6 atomic fragment": (1, FRAME / V6 / IPv6ExtHdrFragment(nh=6, m=0, offset=0) / V6_SEGMENT),
}


@pytest.mark.parametrize("name", LINKS)
def test_every_link_layer_gives_the_same_segment(name: str) -> None:
    link_type, frame = LINKS[name]
    dissected = dissect(packets((link_type, bytes(frame))))
    segments = dissected.segments
    assert (dissected.other, dissected.issues) == ({}, ())
    assert payloads(dissected) == [PAYLOAD]
    hosts = ("fd00::1", "fd00::2") if "ipv6" in name else ("10.0.0.1", "10.0.0.2")
    assert address(segments.source_high[0], segments.source_low[0]) == hosts[0]
    assert address(segments.target_high[0], segments.target_low[0]) == hosts[1]
    assert (segments.source_port[0], segments.target_port[0]) == (40000, 9092)
    assert (segments.seq[0], segments.ack[0], segments.flags[0], segments.length[0]) == (0xFFFFFFF0, 7, 24, 100)


@pytest.mark.parametrize(
    "frame",
    [
        OUTER / UDP(dport=4789) / PAYLOAD,  # flags of no VXLAN
        OUTER / UDP(dport=4789) / VXLAN(vni=7) / b"short",
        OUTER / UDP(dport=4790) / bytes.fromhex("0c00000400000700") / FRAME / V4,  # of what is not read
        OUTER / UDP(dport=6081) / bytes.fromhex("4000655800000700") / FRAME / V4,  # of another version
        OUTER / UDP(dport=6081) / bytes.fromhex("3f00655800000700") / FRAME / V4,  # options beyond the end
        OUTER / UDP(dport=6081) / bytes.fromhex("0000080000000700") / FRAME / V4,  # no IP behind it
        OUTER / GRE(version=1) / V4,
        OUTER / GRE(version=1, proto=0x88BE, seqnum_present=1) / ERSPAN_II() / FRAME / V4,
        OUTER / GRE(proto=0x22EB) / bytes(3),
        OUTER / IP(src="1.1.1.1", dst="2.2.2.2", proto=4) / bytes(30),
        FRAME / IP(src="1.1.1.1", dst="2.2.2.2", flags="MF") / UDP(dport=4789) / VXLAN(vni=7) / FRAME / V4,
        OUTER / ROUTER / ROUTER / ROUTER / ROUTER / V4,  # too many
    ],
)
def test_what_is_no_tunnel_is_other_traffic(frame: Any) -> None:
    dissected = dissect(packets((1, bytes(FRAME / V4)), (1, bytes(frame)), (1, bytes(OUTER / V4))))
    assert dissected.segments.number.tolist() == [1, 3]
    assert dissected.issues == ()
    assert dissected.other in ({"udp": 1}, {"other_ip": 1})  # as without what is behind it


@pytest.mark.parametrize("name", ["vxlan", "geneve", "gre with all fields", "erspan 3", "ip in ip"])
def test_tunnels_may_be_cut_anywhere(name: str) -> None:
    link_type, frame = LINKS[name]
    whole = bytes(frame)
    for cut in range(len(whole) + 1):
        dissected = dissect(packets((link_type, whole[:cut], len(whole)), (1, bytes(FRAME / V4))))
        if cut >= len(whole) - len(PAYLOAD):
            assert dissected.segments.length.tolist() == [100, 100]
            assert payloads(dissected)[0] == PAYLOAD[: cut - len(whole) + len(PAYLOAD)]
        else:
            assert dissected.segments.number.tolist()[-1] == 2


def test_other_traffic_is_counted_by_kind() -> None:
    address4 = IP(src="1.1.1.1", dst="2.2.2.2")
    dissected = dissect(
        packets(
            *((1, bytes(FRAME / address4 / UDP(dport=4788) / PAYLOAD)) for _ in range(2)),
            (1, bytes(FRAME / address4 / ICMP())),
            (1, bytes(FRAME / ARP())),
            (1, bytes(FRAME / address4 / GRE(proto=0x880B) / PAYLOAD)),
            (1, bytes(FRAME / IP(src="1.1.1.1", dst="2.2.2.2", proto=132) / PAYLOAD)),
            (1, bytes(Ether(**MACS, type=0x88CC) / b"lldp")),
            (1, bytes(FRAME / V4)),
        )
    )
    assert dissected.other == {"udp": 2, "icmp": 1, "arp": 1, "other_ip": 2, "not_ip": 1}
    assert dissected.issues == ()
    assert dissected.segments.number.tolist() == [8]


def test_unknown_link_type_names_its_number_and_first_packet() -> None:
    dissected = dissect(packets((1, bytes(FRAME / V4)), (250, b"abc"), (250, b""), (101, bytes(V4))))
    assert dissected.segments.number.tolist() == [1, 4]
    (issue,) = dissected.issues
    assert (issue.kind, issue.packet, issue.count) == ("unknown_link_type", 2, 2)
    assert "250" in issue.detail


def test_packets_cut_by_the_snap_length_keep_their_length() -> None:
    frame = bytes(FRAME / V4)
    headers = len(frame) - len(PAYLOAD)
    for cut in range(len(frame) + 1):
        dissected = dissect(packets((1, frame[:cut], len(frame))))
        if cut >= headers - 4:  # the TCP header without its options is enough
            assert dissected.segments.length.tolist() == [100]
            assert payloads(dissected) == [PAYLOAD[: max(cut - headers, 0)]]
            assert not dissected.issues
        else:
            assert [issue.kind for issue in dissected.issues] == ["truncated_header"]
            assert not dissected.segments.number.size


def test_offloaded_segments_without_a_length() -> None:
    big = b"z" * 100_000
    packet = bytearray(bytes(IP(src="10.0.0.1", dst="10.0.0.2", len=0) / TCP() / b"") + big)
    jumbo = bytearray(bytes(V6 / TCP()) + big)
    jumbo[4:6] = b"\0\0"
    dissected = dissect(packets((101, bytes(packet)), (229, bytes(jumbo)), (101, bytes(packet[:500]), len(packet))))
    assert dissected.segments.length.tolist() == [100_000] * 3
    assert dissected.segments.captured.tolist() == [100_000, 100_000, 460]
    assert not dissected.issues


def test_damaged_headers_are_issues() -> None:
    short = bytes(IP(src="1.1.1.1", dst="2.2.2.2", len=30) / TCP() / b"x")
    long = bytes(IP(src="1.1.1.1", dst="2.2.2.2", len=1500) / TCP() / b"x")
    offset = bytearray(bytes(V4))
    offset[32] = 0x10
    wrong = b"\x95" + bytes(V4)[1:]
    dissected = dissect(packets((101, short), (101, long), (101, bytes(offset)), (101, wrong), (1, b"abc")))
    assert {(issue.kind, issue.packet, issue.count) for issue in dissected.issues} == {
        ("lying_length", 1, 2),
        ("damaged_header", 3, 2),
        ("truncated_header", 5, 1),
    }
    # A length beyond the packet is believed: what lacks becomes a gap.
    assert (dissected.segments.captured.tolist(), dissected.segments.length.tolist()) == ([1], [1460])


def test_fragments_are_counted_and_the_first_keeps_its_bytes() -> None:
    whole = bytes(SEGMENT / PAYLOAD)
    first = IP(src="10.0.0.1", dst="10.0.0.2", proto=6, flags="MF") / whole[:48]
    second = IP(src="10.0.0.1", dst="10.0.0.2", proto=6, frag=6) / whole[48:]
    sixth = V6 / IPv6ExtHdrFragment(nh=6, m=1, offset=0) / whole[:48]
    seventh = V6 / IPv6ExtHdrFragment(nh=6, m=0, offset=6) / whole[48:]
    dissected = dissect(packets(*((101, bytes(packet)) for packet in (first, second, sixth, seventh))))
    (issue,) = dissected.issues
    assert (issue.kind, issue.count) == ("ip_fragment", 4)
    assert payloads(dissected) == [PAYLOAD[:24]] * 2


@pytest.mark.parametrize("path", sorted(glob.glob(str(PCAPS / "net_*" / "*.pcap"))), ids=lambda p: p[len(str(PCAPS)) :])
def test_real_captures_as_dpkt_reads_them(path: str) -> None:
    expected = []
    with open(path, "rb") as file:
        reader = dpkt.pcap.Reader(file)
        link = {1: dpkt.ethernet.Ethernet, 113: dpkt.sll.SLL, 276: dpkt.sll2.SLL2}[reader.datalink()]
        try:
            for number, (_, frame) in enumerate(reader, 1):
                ip = link(frame).data
                if isinstance(ip, dpkt.ip.IP | dpkt.ip6.IP6) and isinstance(ip.data, dpkt.tcp.TCP):
                    tcp = ip.data
                    size = (ip.len - ip.hl * 4 if isinstance(ip, dpkt.ip.IP) else ip.plen) - tcp.off * 4
                    size = len(tcp.data) if size < 0 else size
                    ident = ip.id if isinstance(ip, dpkt.ip.IP) else 0
                    expected.append((number, tcp.sport, tcp.dport, tcp.seq, tcp.ack, tcp.flags, size, tcp.win, ident))
        except dpkt.NeedData:
            pass  # the last packet is cut
    found = []
    with open_capture(path) as capture:
        for batch in capture:
            s = dissect(batch).segments
            columns = (s.number, s.source_port, s.target_port, s.seq, s.ack, s.flags, s.length, s.window, s.ident)
            found += list(zip(*(column.tolist() for column in columns), strict=True))
    assert found == expected


NOTHING = (-1, 0, 0)
STAMP = b"\1\1\x08\x0a" + bytes(8)


def sack(*edges: int) -> bytes:
    """The option with blocks of these left and right edges, behind two bytes of padding."""
    return struct.pack(f">BBBB{len(edges)}I", 1, 1, 5, 2 + 4 * len(edges), *edges)


OPTIONS = {
    "none": (b"", NOTHING),
    "time stamp": (STAMP, NOTHING),
    "scale": (b"\2\4\5\xb4\4\2\x08\x0a" + bytes(8) + b"\1\3\3\7", (7, 0, 0)),
    "largest scale": (b"\3\3\x0e\0", (14, 0, 0)),
    "larger scale": (b"\3\3\xff\0", (14, 0, 0)),
    "scale of another length": (b"\3\4\7\0", NOTHING),
    "scale behind the end": (b"\0\3\3\7", NOTHING),
    "length of 1": (b"\x08\1\3\3\7\0\0\0", NOTHING),
    "length beyond the header": (b"\3\5\7\0", NOTHING),
    "length cut off": (b"\1\1\1\3", NOTHING),
    "blocks": (STAMP + sack(1100, 1200, 1300, 1350), (-1, 150, 0)),
    "block right above ack": (sack(1000, 1100), (-1, 100, 0)),
    "block without bytes": (sack(1100, 1100), NOTHING),
    "block from right to left": (sack(1200, 1100), NOTHING),
    "bytes acknowledged before": (sack(900, 1000), (-1, 0, 900)),
    "... and a gap": (sack(900, 950, 1100, 1200), (-1, 100, 900)),
    "bytes of the second block": (sack(1110, 1120, 1100, 1200), (-1, 100, 1110)),
    "a second block of old bytes": (sack(1100, 1200, 900, 950), (-1, 100, 0)),
    "all that can be": (sack(1000, 1000 + 2**30, 1000, 1000 + 2**29), (-1, 2**30, 0)),
    "more than can be": (sack(1000, 1001 + 2**30), NOTHING),
}


def with_options(options: bytes, flags: str = "S") -> bytes:
    """A packet whose TCP header has these options, padded to words; it acknowledges 1000."""
    padded = options + bytes(-len(options) % 4)
    segment = TCP(sport=40000, dport=9092, ack=1000, flags=flags, dataofs=5 + len(padded) // 4)
    return bytes(FRAME / IP(src="10.0.0.1", dst="10.0.0.2", len=40 + len(padded)) / segment / padded)


def told_by_options(dissected: Dissected) -> tuple[int, int, int]:
    found = dissected.segments
    return int(found.scale[0]), int(found.sacked[0]), int(found.dsack[0])


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str) -> None:
    options, expected = OPTIONS[name]
    dissected = dissect(packets((1, with_options(options))))
    assert told_by_options(dissected) == expected
    assert payloads(dissected) == [b""]


def test_the_scale_is_told_with_a_syn_alone() -> None:
    assert told_by_options(dissect(packets((1, with_options(b"\3\3\7\0", "A"))))) == NOTHING


def test_options_that_were_not_captured_are_not_read() -> None:
    frame = with_options(sack(1100, 1200, 1300, 1350))
    told = [told_by_options(dissect(packets((1, frame[:size], len(frame))))) for size in range(54, len(frame) + 1)]
    assert told == [NOTHING] * (len(frame) - 54) + [(-1, 150, 0)]


def test_sequence_numbers_of_blocks_wrap() -> None:
    frame = bytearray(with_options(sack(2**32 - 10, 90)))
    frame[42:46] = struct.pack(">I", 2**32 - 50)
    assert told_by_options(dissect(packets((1, bytes(frame))))) == (-1, 100, 0)


def test_mutated_packets_never_raise_nor_point_outside() -> None:
    seed = 20
    print("seed", seed)
    chance = random.Random(seed)
    frames = [(link_type, bytes(frame)) for link_type, frame in LINKS.values() if link_type not in (9,)]
    for _ in range(200):
        mutated = []
        for link_type, frame in frames:
            changed = bytearray(frame[: chance.randint(0, len(frame))])
            for _ in range(min(chance.randint(0, 4), len(changed))):
                changed[chance.randrange(min(len(changed), 80))] = chance.randrange(256)
            if link_type == 1 and bytes(changed[12:14]) in (b"\x88\x47", b"\x88\x64", b"\x88\x48"):
                continue  # scapy's business, and slow
            mutated.append((link_type, bytes(changed), chance.choice([len(changed), len(frame), 2**31 - 1])))
        batch = packets(*mutated)
        dissected = dissect(batch)
        segments = dissected.segments
        assert (segments.captured >= 0).all()
        assert (segments.captured <= segments.length).all()
        assert (segments.start + segments.captured <= len(batch.data)).all()
        counted = sum(dissected.other.values()) + sum(issue.count for issue in dissected.issues)
        assert counted + len(segments.number) >= len(mutated)
