"""A capture of a mirrored port or an overlay, whose packets are in a tunnel: it tells what one of the inside tells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import GRE, Ether
from scapy.packet import Packet

import kafkascope
from tests.kafkascope.joined_captures import records_of, write
from tests.paths import PCAPS

STORY = PCAPS / "eager-three-joins" / "capture.pcap"
OUTER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="192.0.2.1", dst="192.0.2.2")
VXLAN = bytes.fromhex("0800000000000700")


def wrapped(folder: Path, headers: Packet) -> str:
    """The recording with its packets behind other headers."""
    begin, records = records_of(STORY)
    inside = [(at, size + len(headers), bytes(headers / data)) for at, size, data in records]
    return write(folder / "tunnel.pcap", begin, inside)


@pytest.mark.parametrize(
    "headers", [OUTER / UDP(sport=50_000, dport=4789) / VXLAN, OUTER / GRE(proto=0x6558)], ids=["vxlan", "gre"]
)
def test_it_tells_what_is_inside(tmp_path: Path, headers: Packet) -> None:
    found, plain = kafkascope.read(wrapped(tmp_path, headers), records=True), kafkascope.read(STORY, records=True)
    assert plain.arrow("records").num_rows
    for table in plain.tables:
        rows = plain.arrow(table)
        assert rows.num_rows == found.arrow(table).num_rows
        same = [name for name in rows.column_names if name != "file"]
        assert found.arrow(table).select(same).equals(rows.select(same)), table


def test_what_is_scrubbed_is_without_the_tunnel(tmp_path: Path) -> None:
    path = wrapped(tmp_path, OUTER / UDP(sport=50_000, dport=4789) / VXLAN)
    out = tmp_path / "scrubbed.pcapng"
    subprocess.run([sys.executable, "-m", "kafkascope", "scrub", path, "-o", str(out)], check=True, capture_output=True)
    assert b"\xc0\x00\x02\x01" not in out.read_bytes()  # 192.0.2.1
    assert len(kafkascope.read(out).arrow("exchanges")) == len(kafkascope.read(STORY).arrow("exchanges"))
