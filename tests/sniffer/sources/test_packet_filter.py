"""The kernel's filter; what it lets through on real interfaces is in tests/kafkascope/test_live.py."""

from __future__ import annotations

import struct

import pytest

from kafkascope.sniffer.sources.packet_filter import (
    LINK_ETHERNET,
    LINK_RAW,
    MOST_PORTS,
    RETURN,
    WHOLE_BYTES,
    compiled,
    filter_program,
)
from tests.needs import needs


def test_with_more_ports_than_jumps_can_cross_all_of_tcp_passes() -> None:
    most = filter_program(range(1, MOST_PORTS + 1))
    compared = {value for *_, value in struct.iter_unpack("HBBI", most)}
    assert compared >= {*range(1, MOST_PORTS + 1)}
    assert filter_program(range(1, MOST_PORTS + 2)) == filter_program()


def returned(program: bytes) -> set[int]:
    return {value for op, _, _, value in struct.iter_unpack("HBBI", program) if op == RETURN}


def test_what_passes_is_whole_or_cut() -> None:
    assert returned(filter_program()) == {0, WHOLE_BYTES}
    assert returned(filter_program(snap_bytes=200)) == {0, 200}


@pytest.mark.parametrize("link_type", [LINK_ETHERNET, LINK_RAW])
def test_an_expression_has_the_last_word_and_packets_that_match_are_not_cut_by_it(link_type: int) -> None:
    needs("tcpdump")  # which brings libpcap
    matching = compiled("host 10.1.2.3", link_type)
    program, alone = filter_program([9092], None, matching), filter_program([9092])
    assert program[: len(alone) - 8] == alone[:-8]  # but for the last word
    assert len(program) == len(alone) - 8 + 8 * len(matching)
    assert returned(program) == {0, WHOLE_BYTES}


def test_what_is_no_expression_is_told() -> None:
    needs("tcpdump")
    with pytest.raises(ValueError, match=r"'hots 1' \(.*syntax error"):
        compiled("hots 1", LINK_ETHERNET)
