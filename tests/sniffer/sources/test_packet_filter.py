"""The kernel's filter; what it lets through on real interfaces is in tests/kafkascope/test_live.py."""

from __future__ import annotations

import struct

from kafkascope.sniffer.sources.packet_filter import MOST_PORTS, filter_program


def test_with_more_ports_than_jumps_can_cross_all_of_tcp_passes() -> None:
    most = filter_program(range(1, MOST_PORTS + 1))
    compared = {value for *_, value in struct.iter_unpack("HBBI", most)}
    assert compared >= {*range(1, MOST_PORTS + 1)}
    assert filter_program(range(1, MOST_PORTS + 2)) == filter_program()
