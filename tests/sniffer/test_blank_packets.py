"""Packets without what they carry: made by scapy, which also says what their checksums have to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_RR
from scapy.layers.inet6 import IPv6, IPv6ExtHdrHopByHop, PadN
from scapy.layers.l2 import ARP, CookedLinux, Dot1Q, Ether
from scapy.packet import Raw

from kafkascope.decoders.pseudonyms import Pseudonyms
from kafkascope.sniffer.blank_packets import IPV4_BYTES, IPV6_BYTES, MAC_BYTES, blank
from kafkascope.sniffer.link import dissect
from tests.sniffer.test_link import packets

SECRET = b"what nobody is to know"
MACS = {"src": "00:16:3e:12:34:56", "dst": "ff:ff:ff:ff:ff:ff"}
OPTIONS = [("MSS", 1460), ("Timestamp", (5, 6)), ("SAckOK", b""), ("WScale", 7), (253, SECRET[:10])]
TCP_4 = IP(src="10.1.2.3", dst="10.1.2.4") / TCP(sport=40000, dport=9092, seq=7, options=OPTIONS) / SECRET
HOPS = IPv6ExtHdrHopByHop(options=[PadN(optdata=SECRET[:4])])
CASES: dict[str, tuple[int, Any]] = {
    "ethernet": (1, Ether(**MACS) / TCP_4),
    "vlan": (1, Ether(**MACS) / Dot1Q(vlan=5) / TCP_4),
    "cooked": (113, CookedLinux(src=b"\0\x16\x3e\x12\x34\x56") / TCP_4),
    "mpls": (1, Ether(**MACS) / MPLS(label=3) / TCP_4),
    "options": (101, IP(src="10.1.2.3", dst="10.1.2.4", options=[IPOption_RR(routers=["10.9.9.9"])]) / UDP() / SECRET),
    "udp": (101, IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=53, dport=5353) / SECRET),
    "extension": (101, IPv6(src="fd00::1", dst="fd00::2") / HOPS / UDP() / SECRET),
    "icmp": (101, IP(src="10.1.2.3", dst="10.1.2.4") / ICMP() / SECRET),
    "padding": (1, Ether(**MACS) / IP(src="10.1.2.3", dst="10.1.2.4") / TCP() / Raw(b"") / Raw(b"")),
    "other": (1, Ether(**MACS, type=0x88CC) / SECRET),
}


def scrubbed(*frames: tuple[int, bytes]) -> tuple[list[bytes], Any]:
    before = dissect(packets(*frames))
    made = blank(before.packets)
    for width in (MAC_BYTES, IPV4_BYTES, IPV6_BYTES):
        made.replace(width, Pseudonyms("key").octets)
    made.set_checksums()
    after = made.packets
    ends = zip(after.start.tolist(), after.captured.tolist(), strict=True)
    return [after.data[start : start + size].tobytes() for start, size in ends], before


@pytest.mark.parametrize("kind", CASES)
def test_headers_are_there_and_nothing_else(kind: str) -> None:
    link, packet = CASES[kind]
    content = bytes(packet) + (SECRET if kind == "padding" else b"")
    (made,), before = scrubbed((link, content))
    assert not any(SECRET[at : at + 4] in made for at in range(len(SECRET) - 4))
    for address in ("10.1.2.3", "10.1.2.4", "10.9.9.9"):
        assert bytes(map(int, address.split("."))) not in made
    assert b"\x16\x3e\x12\x34\x56" not in made
    layer = {1: Ether, 113: CookedLinux}.get(link, IPv6 if packet.haslayer(IPv6) else IP)
    read = (IP if kind == "mpls" else layer)(made)
    for transport in (TCP, UDP, ICMP):
        if packet.haslayer(transport):
            again = read.copy()
            del again[transport].chksum
            if again.haslayer(IP):
                del again[IP].chksum
            assert bytes(again) == bytes(read)  # scapy computes the same checksums
    if packet.haslayer(TCP):
        assert (read[TCP].sport, read[TCP].seq, read[TCP].flags) == (
            packet[TCP].sport,
            packet[TCP].seq,
            packet[TCP].flags,
        )
        known = [option for option in read[TCP].options if option[0] not in ("NOP", "EOL")]
        assert known == packet[TCP].options[: len(OPTIONS) - 1]
        assert before.segments.length.tolist() == [len(packet[TCP].payload)]


def test_arp_has_other_addresses() -> None:
    arp = ARP(hwsrc="00:16:3e:12:34:56", psrc="10.1.2.3", hwdst="00:00:00:00:00:00", pdst="10.1.2.4")
    (made,), _ = scrubbed((1, bytes(Ether(**MACS) / arp) + SECRET))
    read = Ether(made)[ARP]
    pseudonyms = Pseudonyms("key")
    assert read.hwsrc == Ether(made).src != arp.hwsrc
    assert Ether(made).dst == MACS["dst"]
    assert bytes(map(int, read.pdst.split("."))) == pseudonyms.octets(bytes((10, 1, 2, 4)))
    assert SECRET not in made


def test_cut_packets_and_fragments_have_no_checksum() -> None:
    whole = bytes(TCP_4)
    fragment = bytes(IP(src="10.1.2.3", dst="10.1.2.4", frag=3, flags="MF") / SECRET)
    (cut, middle), _ = scrubbed((101, whole[:60]), (101, fragment))
    assert IP(cut)[TCP].chksum == 0
    assert not any(middle[20:])


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_nothing_is_raised_on_any_bytes(data: st.DataObject) -> None:
    link, packet = data.draw(st.sampled_from(list(CASES.values())))
    content = bytearray(bytes(packet))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=5)):
        content[place] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(0, len(content)))
    frames = [(link, bytes(content[:size])), (link, bytes(packet))]
    made, before = scrubbed(*frames)
    assert [len(one) for one in made] == before.packets.captured.tolist()
    assert np.array_equal(before.packets.number, [1, 2])
