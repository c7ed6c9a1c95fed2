"""Packets whose times go back: that is told, by whatever way and in whatever pieces they are read."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from kafkascope.sniffer.issues import Issue, IssueLog
from kafkascope.sniffer.packet_window import PacketWindow
from kafkascope.sniffer.sources import open_capture
from kafkascope.sniffer.sources.split import SplitReader, chain, index_split, ranges
from tests.sniffer.sources.written_captures import Pcapng, pcap_header, pcap_record

SECOND = 1_000_000  # microseconds
STEADY = [10 * SECOND + n * SECOND // 10 for n in range(100)]
SET_BACK = STEADY[:60] + [time - 3 * SECOND for time in STEADY[60:]]


def pcap(times: Iterable[int]) -> bytes:
    return pcap_header() + b"".join(pcap_record(*divmod(time, SECOND), bytes(60)) for time in times)


def pcapng(times: Iterable[int]) -> bytes:
    form = Pcapng()
    return form.section() + form.interface() + b"".join(form.packet(0, time, bytes(60)) for time in times)


def told(issues: Iterable[Issue]) -> list[tuple[int | None, int, str]]:
    return [(one.packet, one.count, one.detail) for one in issues if one.kind == "time_goes_back"]


def written(directory: Path, form: str, times: Sequence[int]) -> str:
    data = pcapng(times) if form.startswith("pcapng") else pcap(times)
    path = directory / f"capture.{form}"
    path.write_bytes(gzip.compress(data) if form.endswith(".gz") else data)
    return str(path)


@pytest.mark.parametrize("form", ["pcap", "pcapng", "pcap.gz"])
@pytest.mark.parametrize("size", [100, 1000, 10**6])
def test_a_clock_that_was_set_back_is_told_once(tmp_path: Path, form: str, size: int) -> None:
    path = written(tmp_path, form, SET_BACK)
    capture = open_capture(path, batch_bytes=size)
    assert sum(len(packets.number) for packets in capture) == 100
    # The 61st is 2.9 s older than the 60th. After 1.9 s packets are less than a second older than that one.
    expected = [(61, 19, "a packet is 2.900 s older than one before it")]
    assert told(capture.issues) == expected
    splits = chain([index_split(path, *piece) for piece in ranges(path, max(size, 500))])
    readers = [SplitReader(split, size) for split in splits]
    assert sum(len(packets.number) for reader in readers for packets in reader) == 100
    assert told(IssueLog(issue for reader in readers for issue in reader.issues)) == expected


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_where_it_was_set_back_is_read_though_only_another_part_is_wanted(tmp_path: Path, form: str) -> None:
    path = written(tmp_path, form, SET_BACK)
    bounds = PacketWindow.of(packets="1-10").bounds(None)
    splits = [
        split
        for split in chain([index_split(path, *piece) for piece in ranges(path, 1000)])
        if split.is_worth_reading(bounds)
    ]
    assert len(splits) < 5
    readers = [SplitReader(split) for split in splits]
    assert sum(len(packets.number) for reader in readers for packets in reader) < 80
    assert told(IssueLog(issue for reader in readers for issue in reader.issues))[0][:2] == (61, 19)


def test_packets_that_were_handed_over_a_little_late_are_nothing_to_tell(tmp_path: Path) -> None:
    path = written(tmp_path, "pcapng", [time - SECOND * (n % 3 == 0) for n, time in enumerate(STEADY)])
    capture = open_capture(path)
    assert sum(len(packets.number) for packets in capture) == 100
    assert told(capture.issues) == []
