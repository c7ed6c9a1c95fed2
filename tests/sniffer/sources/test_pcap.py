"""The classic format: its magic numbers in both byte orders."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkascope.sniffer.sources import SourceError, open_capture
from kafkascope.sniffer.sources.split import SplitReader, chain, index_split, ranges
from tests.sniffer.sources.test_files import rows
from tests.sniffer.sources.written_captures import pcap_header, pcap_record


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1), (0xA1B2CD34, 1000)])
def test_all_magic_numbers(tmp_path: Path, order: str, magic: int, unit: int) -> None:
    # The patched format of Red Hat's and Kuznetzov's tcpdump has interface, protocol and direction behind the sizes.
    more = struct.pack(order + "IHBB", 2, 0x800, 4, 0) if magic == 0xA1B2CD34 else b""
    packets = [(1_700_000_000 + number, number * 7, bytes([number]) * (number + 1)) for number in range(100)]
    path = tmp_path / "file.pcap"
    records = b"".join(pcap_record(seconds, part, data, order, more) for seconds, part, data in packets)
    path.write_bytes(pcap_header(order, magic, 113) + records)
    expected = [
        (number, seconds * 1_000_000_000 + part * unit, data, len(data), 113)
        for number, (seconds, part, data) in enumerate(packets, 1)
    ]
    assert rows(open_capture(str(path))) == expected
    assert rows(open_capture(str(path), batch_bytes=61)) == expected
    splits = chain([index_split(str(path), *piece) for piece in ranges(str(path), 700)])
    assert [row for split in splits for row in rows(SplitReader(split))] == expected
    # A record cut anywhere in its header or its bytes is told, and those before it are there.
    whole = path.read_bytes()
    for missing in (1, 100, 100 + len(more), 110 + len(more)):
        path.write_bytes(whole[:-missing])
        capture = open_capture(str(path))
        assert rows(capture) == expected[:-1]
        assert [(issue.kind, issue.packet) for issue in capture.issues] == [("truncated_capture", 100)]


def test_the_link_type_is_without_the_length_of_the_check_sequence(tmp_path: Path) -> None:
    path = tmp_path / "file.pcap"
    path.write_bytes(pcap_header(link_type=0x14000000 | 1) + pcap_record(1, 2, b"abc"))
    assert [row[4] for row in rows(open_capture(str(path)))] == [1]


def test_an_unknown_version_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "file.pcap"
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 3, 0, 0, 0, 65535, 1))
    with pytest.raises(SourceError, match="version 3 of the pcap format"):
        open_capture(str(path))
