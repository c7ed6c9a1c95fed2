"""Clocks of interfaces, blocks that are rare, and secrets."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkascope.sniffer.columns import NO_TIME
from kafkascope.sniffer.sources import open_capture, pcapng
from kafkascope.sniffer.sources.formats import Secret
from kafkascope.sniffer.sources.split import SplitReader, chain, index_split, ranges
from tests.sniffer.sources.test_files import Row, rows
from tests.sniffer.sources.written_captures import Pcapng

BILLION = 1_000_000_000
RESOLUTION, OFFSET = 9, 14
ORDERS = ("<", ">")
PARTS = [Pcapng(order) for order in ORDERS]


def read(path: Path, content: bytes) -> list[Row]:
    """The packets, which must be the same whether the file is read in one or in pieces."""
    path.write_bytes(content)
    found = rows(open_capture(str(path)))
    assert rows(open_capture(str(path), batch_bytes=97)) == found
    splits = chain([index_split(str(path), *piece) for piece in ranges(str(path), 128)])
    assert [row for split in splits for row in rows(SplitReader(split))] == found
    return found


def clock(order: str, resolution: int | None, offset: int = 0) -> tuple[tuple[int, bytes], ...]:
    options = [] if resolution is None else [(RESOLUTION, bytes([resolution]))]
    return (*options, (OFFSET, struct.pack(order + "q", offset))) if offset else tuple(options)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("resolution", "raw", "nanoseconds"),
    [
        (None, 1_700_000_000_123_456, 1_700_000_000_123_456_000),  # microseconds unless something else is said
        (0, 1_700_000_000, 1_700_000_000 * BILLION),
        (3, 1_700_000_000_123, 1_700_000_000_123_000_000),
        (9, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (12, 1_700_000_123_456_789_123, 1_700_000_123_456_789),  # picoseconds: so large a number is a time in 1970
        (0x80, 1_700_000_000, 1_700_000_000 * BILLION),
        (0x81, 2 * 1_700_000_000 + 1, 1_700_000_000 * BILLION + BILLION // 2),
        (0x8A, 1024 * 1_700_000_000 + 256, 1_700_000_000 * BILLION + BILLION // 4),
        (0xA0, (1_700_000_000 << 32) + (1 << 31) + 1, 1_700_000_000_500_000_000),
        (0xA0, (1_700_000_000 << 32) + 0xFFFFFFFF, 1_700_000_000_999_999_999),
    ],
)
def test_times_are_in_the_units_of_the_interface(
    tmp_path: Path, order: str, resolution: int | None, raw: int, nanoseconds: int
) -> None:
    of = Pcapng(order)
    head = of.section() + of.interface(1, 0, *clock(order, resolution))
    assert read(tmp_path / "file", head + of.packet(0, raw, b"abcd")) == [(1, nanoseconds, b"abcd", 4, 1)]
    shifted = of.section() + of.interface(1, 0, *clock(order, resolution, -1_000_000))
    found = read(tmp_path / "file", shifted + of.packet(0, raw, b"abcd"))
    assert [row[1] for row in found] == [nanoseconds - 1_000_000 * BILLION]


@given(
    st.integers(0, 18) | st.integers(0x80, 0x80 + 62),
    st.integers(0, 9_000_000_000 * BILLION),
    st.integers(-1_000_000_000, 200_000_000),
)
def test_times_are_exact(tmp_path_factory: pytest.TempPathFactory, resolution: int, wanted: int, offset: int) -> None:
    unit = Fraction(1, 2 ** (resolution & 0x7F)) if resolution & 0x80 else Fraction(1, 10**resolution)
    raw = min(wanted * Fraction(1, BILLION) // unit, (1 << 63) - 1)
    of = Pcapng()
    content = of.section() + of.interface(1, 0, *clock("<", resolution, offset)) + of.packet(0, raw, b"ab")
    path = tmp_path_factory.getbasetemp() / "clock.pcapng"
    path.write_bytes(content)
    ((_, at, *_),) = rows(open_capture(str(path)))
    expected = raw * unit * BILLION // 1 + offset * BILLION
    assert expected - (1 if resolution > 0x80 + 33 else 0) <= at <= expected


def test_each_interface_has_its_clock_and_each_section_its_interfaces(tmp_path: Path) -> None:
    little, big = Pcapng("<"), Pcapng(">")
    content = little.section() + little.interface(1, 0, *clock("<", 9)) + little.interface(113, 0, *clock("<", 0x80))
    content += little.packet(1, 50, b"a") + little.packet(0, 60 * BILLION, b"b") + little.old_packet(1, 70, b"c")
    content += big.section() + big.interface(101, 0, *clock(">", 0)) + big.packet(0, 80, b"d")
    content += big.packet(1, 90, b"e")
    path = tmp_path / "file"
    found = read(path, content)
    assert [(row[0], row[1] // BILLION, row[2], row[4]) for row in found] == [
        (1, 50, b"a", 113),
        (2, 60, b"b", 1),
        (3, 70, b"c", 113),
        (4, 80, b"d", 101),
    ]
    capture = open_capture(str(path))
    rows(capture)
    assert [(issue.kind, issue.packet) for issue in capture.issues] == [("unknown_interface", 5)]


@pytest.mark.parametrize("order", ORDERS)
def test_simple_packets_have_no_time_and_are_as_long_as_the_snap_length_lets_them(tmp_path: Path, order: str) -> None:
    of = Pcapng(order)
    content = of.section() + of.interface(1, 6)
    content += of.simple_packet(b"abc") + of.simple_packet(b"abcdef", 1500) + of.packet(0, 7_000_000, b"abcde")
    assert read(tmp_path / "file", content) == [
        (1, NO_TIME, b"abc", 3, 1),
        (2, NO_TIME, b"abcdef", 1500, 1),
        (3, 7 * BILLION, b"abcde", 5, 1),
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_old_packets(tmp_path: Path, order: str) -> None:
    of = Pcapng(order)
    content = of.section() + of.interface() + of.interface(113)
    content += of.old_packet(1, 5_000_001, b"abcde") + of.old_packet(0, 1 << 40, b"", drops=3)
    assert read(tmp_path / "file", content) == [
        (1, 5_000_001_000, b"abcde", 5, 113),
        (2, (1 << 40) * 1000, b"", 0, 1),
    ]


@pytest.mark.parametrize("kind", ["simple_packet", "old_packet", "packet"])
def test_a_block_too_short_for_what_it_claims_is_told_and_passed_over(tmp_path: Path, kind: str) -> None:
    of = Pcapng()
    bad = {
        "simple_packet": of.block(3, b""),
        "old_packet": of.block(2, struct.pack("<HHIIII", 0, 0, 0, 0, 5, 5)),
        "packet": of.block(6, struct.pack("<IIIII", 0, 0, 0, 9, 9) + bytes(8)),
    }[kind]
    path = tmp_path / "file"
    found = read(path, of.section() + of.interface() + of.packet(0, 1, b"a") + bad + of.packet(0, 2, b"b"))
    assert [row[2] for row in found] == [b"a", b"b"]
    capture = open_capture(str(path))
    rows(capture)
    assert [(issue.kind, issue.packet) for issue in capture.issues] == [("damaged_packet_record", 2)]


@pytest.mark.parametrize("order", ORDERS)
def test_secrets_are_kept_and_unknown_blocks_passed_over(tmp_path: Path, order: str) -> None:
    of = Pcapng(order)
    log = b"CLIENT_RANDOM 00 01\n"
    content = of.section() + of.secrets(0x544C534B, log) + of.interface() + of.packet(0, 1, b"a")
    content += (
        of.block(5, bytes(12)) + of.block(0x0BAD, b"custom!") + of.secrets(0x57474B4C, b"k=v") + of.packet(0, 2, b"b")
    )
    path = tmp_path / "file"
    assert [row[2] for row in read(path, content)] == [b"a", b"b"]
    capture = open_capture(str(path))
    rows(capture)
    expected = (Secret(0x544C534B, log, 0), Secret(0x57474B4C, b"k=v", 2))
    assert capture.files[0].secrets == expected
    assert not list(capture.issues)


@pytest.mark.parametrize("count", [3, 300])
def test_descriptions_of_interfaces_do_not_stop_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Each walk begins with room for all that the buffer may hold."""
    walks = []

    def counted(*arguments: Any) -> Any:
        walks.append(arguments)
        return walk(*arguments)

    walk = pcapng._walk
    monkeypatch.setattr(pcapng, "_walk", counted)
    of = Pcapng()
    path = tmp_path / "file"
    path.write_bytes(
        of.section() + b"".join(of.interface(1, 0, *clock("<", 9, i)) + of.packet(i, 5, b"a") for i in range(count))
    )
    capture = open_capture(str(path))
    (batch,) = list(capture)
    assert batch.at.tolist() == [5 + i * BILLION for i in range(count)]
    assert len(walks) == 2  # up to the section header, and behind it
    assert not list(capture.issues)


def test_packets_of_many_sections_come_together(tmp_path: Path) -> None:
    parts = [of.section() + of.interface(1 + i % 2) + of.packet(0, i, b"a") for i, of in enumerate(PARTS * 50)]
    (tmp_path / "file").write_bytes(b"".join(parts))
    (batch,) = list(open_capture(str(tmp_path / "file")))
    assert batch.at.tolist() == [1000 * i for i in range(100)]
    assert batch.link_type.tolist() == [1, 2] * 50


def test_a_packet_before_the_description_of_its_interface(tmp_path: Path) -> None:
    of = Pcapng()
    content = of.section() + of.interface() + of.packet(1, 1, b"a") + of.interface(113) + of.packet(1, 2, b"b")
    assert [(row[0], row[4]) for row in read(tmp_path / "file", content)] == [(2, 113)]


def test_interfaces_beyond_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcapng, "MOST_INTERFACES", 2)
    of = Pcapng()
    path = tmp_path / "file"
    path.write_bytes(of.section() + of.interface() * 5 + of.packet(1, 1, b"a"))
    capture = open_capture(str(path))
    assert len(rows(capture)) == 1
    assert [(issue.kind, issue.count) for issue in capture.issues] == [("interfaces_left_out", 3)]
    assert len(capture.files[0].interfaces) == 2


def test_notes_and_damage_are_told_in_their_order_however_the_file_is_cut(tmp_path: Path) -> None:
    of = Pcapng()
    content = of.section() + of.interface(1, 0, (1, b"first")) + of.packet(0, 1, b"a") + of.block(1, b"\0\0\0\0")
    content += of.packet(0, 2, b"b") + of.interface(1, 0, (1, b"second"))
    path = tmp_path / "file"
    path.write_bytes(content)
    for batch_bytes in (97, 1 << 20):
        capture = open_capture(str(path), batch_bytes=batch_bytes)
        assert len(rows(capture)) == 2
        assert [(note.packet, note.text) for note in capture.files[0].notes] == [(0, "first"), (0, "second")]
        assert [(issue.kind, issue.packet) for issue in capture.issues] == [("damaged_packet_record", 2)]
