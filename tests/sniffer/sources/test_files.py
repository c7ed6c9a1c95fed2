"""Files in every format, in batches and splits of any size, merged, cut and damaged."""

from __future__ import annotations

import gzip
import os
import random
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.comparison import compare_files
from kafkascope.sniffer.sources import SourceError, open_capture
from kafkascope.sniffer.sources.files import digest
from kafkascope.sniffer.sources.split import SplitReader, chain, chain_files, index_split, ranges
from tests.paths import ROOT
from tests.patience import PATIENCE_S
from tests.sniffer.sources.written_captures import pcap_header, pcap_record

PCAPS = ROOT / "pcaps" / "net_formats"
Row = tuple[int, int, bytes, int, int]


def rows(source: Iterable[Packets]) -> list[Row]:
    """Number, time, bytes, size on the wire and link type of every packet."""
    found: list[Row] = []
    for batch in source:
        columns = (batch.number, batch.at, batch.start, batch.captured, batch.original, batch.link_type)
        for number, at, start, captured, original, link in zip(*(c.tolist() for c in columns), strict=True):
            found.append((number, at, batch.data[start : start + captured].tobytes(), original, link))
    return found


EXPECTED = rows(open_capture(str(PCAPS / "capture.pcap.zst")))


@pytest.mark.parametrize(
    "name",
    [
        "capture.pcap.gz",
        "bigendian.pcap.gz",
        "nano.pcap.gz",
        "nano.pcapng.gz",
        "two-sections.pcapng.gz",
        "comment.pcapng.gz",
    ],
)
def test_all_formats_give_the_same_packets(name: str) -> None:
    found = rows(open_capture(str(PCAPS / name)))
    assert [(row[0], row[2:]) for row in found] == [(row[0], row[2:]) for row in EXPECTED]
    # Recorded by several programs at the same time, on one clock.
    assert max(abs(one[1] - other[1]) for one, other in zip(found, EXPECTED, strict=True)) < 100_000_000


@pytest.mark.parametrize("name", ["capture.pcap", "two-sections.pcapng"])
@pytest.mark.parametrize("size", [777, 65_536, 10**9])
def test_batches_and_splits_of_any_size_give_the_same_packets(tmp_path: Path, name: str, size: int) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.decompress((PCAPS / f"{name}.gz").read_bytes()))
    assert rows(open_capture(str(path), batch_bytes=size)) == EXPECTED
    splits = chain([index_split(str(path), *piece) for piece in ranges(str(path), max(size, 5000))])
    assert [row for split in splits for row in rows(SplitReader(split, size))] == EXPECTED


def test_a_capture_inside_packets_does_not_fool_splits(tmp_path: Path) -> None:
    inner = b"".join(pcap_record(50 + n, 0, bytes(60)) for n in range(15))
    path = tmp_path / "nested.pcap"
    path.write_bytes(pcap_header() + b"".join(pcap_record(9 + n, 0, b"\xff" * 30 + inner) for n in range(200)))
    expected = rows(open_capture(str(path)))
    assert len(expected) == 200
    splits = chain([index_split(str(path), *piece) for piece in ranges(str(path), 1000)])
    assert [row for split in splits for row in rows(SplitReader(split))] == expected


def test_overlapping_files_are_merged_by_time_whatever_the_batches(tmp_path: Path) -> None:
    seed = 5
    print("seed", seed)
    chance = random.Random(seed)
    paths = []
    for index in range(3):
        times = [100 + index] + [chance.randint(100, 160) for _ in range(50)]
        paths.append(str(tmp_path / f"{index}.pcap"))
        Path(paths[-1]).write_bytes(pcap_header() + b"".join(pcap_record(at, 0, bytes([index]) * 40) for at in times))
    expected = rows(open_capture(paths))
    assert rows(open_capture(paths[::-1], batch_bytes=100)) == expected
    assert sorted(row[0] for row in expected) == list(range(1, 154))
    keys: list[tuple[int, int]] = []
    for index in range(3):
        own = [row for row in expected if row[2][0] == index]
        assert [row[0] for row in own] == list(range(51 * index + 1, 51 * index + 52))
        keys += zip(np.maximum.accumulate([row[1] for row in own]).tolist(), (row[0] for row in own), strict=True)
    assert [number for _, number in sorted(keys)] == [row[0] for row in expected]
    capture = open_capture(paths)
    rows(capture)
    assert capture.locate(60) == (paths[1], 9)
    splits = chain_files([[index_split(path, *piece) for piece in ranges(path, 500)] for path in paths])
    found = [row for split in splits for row in rows(SplitReader(split))]
    assert sorted(found) == sorted(expected)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def replaced(path: Path) -> None:
    path.unlink()
    path.write_bytes(pcap_header() + pcap_record(1, 0, bytes(60)) * 20_000)


def written_over(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-40] ^= 1  # in the last packet; as large as it was
    path.write_bytes(data)


def half_written(path: Path, name: str) -> bytes:
    """Write a capture that ends within a packet, as of a program that still writes; returns the rest of it."""
    packed = (PCAPS / f"{name.removesuffix('.gz')}.gz").read_bytes()
    data = packed if name.endswith(".gz") else gzip.decompress(packed)
    path.write_bytes(data[: len(data) * 2 // 3 + 1])
    return data[len(data) * 2 // 3 + 1 :]


CHANGING = ["capture.pcap", "two-sections.pcapng", "capture.pcap.gz"]


@pytest.mark.parametrize("change", [cut, replaced, written_over])
@pytest.mark.parametrize("name", CHANGING)
def test_splits_of_a_file_that_changed_since_it_was_indexed_are_an_error(
    tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    path = tmp_path / name
    rest = half_written(path, name)
    path.write_bytes(path.read_bytes() + rest)
    splits = chain([index_split(str(path), *piece) for piece in ranges(str(path), 50_000)])
    change(path)
    with pytest.raises(
        SourceError, match=f"{name}.*(shorter than when it was first read|not what it was|not a pcapng)"
    ):
        _ = [rows(SplitReader(split)) for split in splits]


@pytest.mark.parametrize("name", CHANGING)
def test_splits_of_a_file_that_grew_since_it_was_cut_into_ranges_are_those_of_that_time(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    rest = half_written(path, name)
    before = open_capture(str(path))
    expected = rows(before)
    pieces = ranges(str(path), 50_000)
    with path.open("ab") as file:
        file.write(rest[:1000])
        file.flush()
        splits = chain([index_split(str(path), *piece) for piece in pieces])
        file.write(rest[1000:])
    readers = [SplitReader(split) for split in splits]
    assert [row for reader in readers for row in rows(reader)] == expected
    found = [(issue.kind, issue.packet) for reader in readers for issue in reader.issues if issue.kind != "file_grew"]
    assert found == [(issue.kind, issue.packet) for issue in before.issues]


def test_a_file_that_is_shorter_than_its_ranges_is_not_indexed(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap_header() + pcap_record(1, 0, bytes(60)) * 100)
    (piece,) = ranges(str(path), 10**9)
    cut(path)
    with pytest.raises(SourceError, match="shorter"):
        index_split(str(path), *piece)


def test_a_file_that_is_cut_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap_header() + pcap_record(1, 0, bytes(60)) * 100)
    capture = open_capture(str(path))
    cut(path)
    with pytest.raises(SourceError, match="shorter than when it was first read: it had"):
        rows(capture)


@pytest.mark.parametrize("name", CHANGING)
def test_a_file_that_is_written_over_while_it_is_read_is_an_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    data = half_written(path, name)
    path.write_bytes(path.read_bytes() + data)
    before = path.stat().st_mtime_ns
    with open_capture(str(path), batch_bytes=5_000) as capture:
        under_way = iter(capture)
        next(under_way)
        with path.open("r+b") as file:  # in the first packet, which is read; as large as it was
            file.seek(60)
            file.write(b"other")
        os.utime(path, ns=(before, before + 1))
        with pytest.raises(SourceError, match=f"{name}: its content is not what it was"):
            list(under_way)


def test_a_file_whose_date_alone_is_set_while_it_is_read_is_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap_header() + pcap_record(1, 0, bytes(60)) * 100)
    with open_capture(str(path)) as capture:
        os.utime(path, ns=(1, 1))
        assert len(rows(capture)) == 100


def test_a_file_that_grows_while_it_is_read_is_read_up_to_its_first_end(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap_header() + pcap_record(1, 0, bytes(60)) * 100)
    capture = open_capture(str(path))
    with path.open("ab") as file:
        file.write(pcap_record(2, 0, bytes(60)) * 10)
    assert len(rows(capture)) == 100
    (issue,) = capture.issues
    assert (issue.kind, f"{path}: grew" in issue.detail, "the 760 behind" in issue.detail) == ("file_grew", True, True)


@pytest.mark.parametrize("change", [cut, replaced, written_over])
def test_who_reads_files_again_gets_what_was_read_or_an_error(tmp_path: Path, change: Callable[[Path], None]) -> None:
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path in paths:
        path.write_bytes(pcap_header() + b"".join(pcap_record(at, 0, path.name.encode() * 20) for at in range(100)))
    first = open_capture(map(str, paths))
    expected = rows(first)
    with paths[1].open("ab") as file:
        file.write(pcap_record(2, 0, bytes(60)))
    assert rows(open_capture(map(str, paths), expected=first.contents)) == expected
    change(paths[0])
    with pytest.raises(SourceError, match=r"a\.pcap"):
        rows(open_capture(map(str, paths), expected=first.contents))


def test_another_reading_in_the_midst_of_one_finds_the_same(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap_header() + b"".join(pcap_record(at, 0, bytes(60)) for at in range(100)))
    with open_capture(str(path), batch_bytes=500) as capture, open_capture(str(path)) as again:
        under_way = iter(capture)
        next(under_way)
        written_over(path)
        rows(again)
        capture.expect(again.contents)  # both have read what is written over: the last packet
        assert sum(len(batch.number) for batch in under_way) > 50
        written_over(path)
        with open_capture(str(path)) as third:
            rows(third)
        with pytest.raises(SourceError, match="not what it was"):
            capture.expect(third.contents)


def test_files_that_were_compared_must_be_those_that_are_read(tmp_path: Path) -> None:
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path in paths:
        path.write_bytes((PCAPS.parent / "net_vlan" / "capture.pcap").read_bytes())
    joined = compare_files(map(str, paths))
    assert joined is not None
    written_over(paths[1])
    with pytest.raises(SourceError, match=r"b\.pcap: its content is not what it was"):
        rows(open_capture(map(str, paths), joined=joined))


def test_rotated_files_follow_each_other() -> None:
    capture = open_capture(str(PCAPS / "rotated-*.pcap"))
    found = rows(capture)
    assert [row[0] for row in found] == list(range(1, 1784))
    assert [row[2] for row in found] == [row[2] for row in EXPECTED]


@pytest.mark.parametrize("name", ["capture.pcap", "two-sections.pcapng"])
def test_every_truncation_keeps_what_was_before(tmp_path: Path, name: str) -> None:
    data = gzip.decompress((PCAPS / f"{name}.gz").read_bytes())[:1500]
    path = tmp_path / name
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        try:
            capture = open_capture(str(path))
            found = rows(capture)
        except SourceError:
            assert cut < 28
            continue
        assert found == EXPECTED[: len(found)]
        assert {issue.kind for issue in capture.issues} <= {"truncated_capture"}


def test_a_lying_record_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "lies.pcap"
    for size in (0xFFFFFFFF, 300 << 20, 900_000):
        bad = struct.pack("<IIII", 5, 0, size, size) + bytes(50)
        path.write_bytes(
            pcap_header()
            + pcap_record(1, 0, b"a" * 40)
            + bad
            + b"".join(pcap_record(9, 0, b"b" * 40) for _ in range(4))
        )
        capture = open_capture(str(path))
        assert [row[2][:1] for row in rows(capture)] == [b"a", b"b", b"b", b"b", b"b"]
        (issue,) = capture.issues
        assert (issue.kind, issue.packet) == ("damaged_packet_record", 2)
        assert "offset 80" in issue.detail
        assert "66 bytes" in issue.detail


def test_mutations_never_raise_anything_but_source_errors(tmp_path: Path) -> None:
    seed = 6
    print("seed", seed)
    chance = random.Random(seed)
    path = tmp_path / "mutated"
    for name in ("capture.pcap.gz", "nano.pcapng.gz", "capture.pcap.zst"):
        whole = (PCAPS / name).read_bytes()
        plain = gzip.decompress(whole)[:6000] if name.endswith(".gz") else whole
        for data in (whole, plain):
            for _ in range(15):
                changed = bytearray(data)
                for _ in range(chance.randint(1, 8)):
                    changed[chance.randrange(len(changed))] = chance.randrange(256)
                path.write_bytes(changed)
                try:
                    once, twice = open_capture(str(path)), open_capture(str(path), batch_bytes=999)
                    assert rows(once) == rows(twice)
                    assert set(once.issues) == set(twice.issues)  # batch by batch: in another order
                except SourceError:
                    pass


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "empty"), (b"hello world\n", "text"), (b"\xfd7zXZ\0", "xz"), (b"\0\1\2\3" * 9, "not a capture")],
)
def test_other_files_are_named_for_what_they_are(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=words):
        open_capture(str(path))
    with pytest.raises(SourceError, match="no captures"):
        open_capture(str(tmp_path))
    with pytest.raises(SourceError, match="no such file"):
        open_capture(str(tmp_path / "other"))


def in_pieces(descriptor: int, pieces: list[bytes], go: list[threading.Event], in_time: list[bool]) -> threading.Thread:
    """Write each piece when its event comes, then close; tells whether they came."""

    def write() -> None:
        with os.fdopen(descriptor, "wb", buffering=0) as pipe:
            for piece, event in zip(pieces, go, strict=True):
                in_time.append(event.wait(PATIENCE_S))
                pipe.write(piece)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


@pytest.mark.parametrize("kind", ["-", "named"])
@pytest.mark.parametrize("compression", ["", "gzip"])
@pytest.mark.parametrize("name", ["capture.pcap", "two-sections.pcapng"])
def test_packets_come_out_of_a_pipe_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, compression: str, kind: str
) -> None:
    whole = gzip.decompress((PCAPS / f"{name}.gz").read_bytes())
    half = len(whole) // 2
    pieces = [whole[:half], whole[half:]]
    if compression:  # two members, as when something was appended
        pieces = [gzip.compress(piece) for piece in pieces]
    if kind == "-":
        reading, writing = os.pipe()
        monkeypatch.setattr(sys, "stdin", os.fdopen(reading, "rb"))
        path = "-"
    else:
        path = str(tmp_path / "pipe")
        os.mkfifo(path)
        writing = os.open(path, os.O_RDWR)  # opens without waiting for the reader
    first, second = threading.Event(), threading.Event()
    first.set()
    in_time: list[bool] = []
    thread = in_pieces(writing, pieces, [first, second], in_time)
    capture = open_capture(path)
    assert capture.size is None
    found: list[Row] = []
    for batch in capture:
        found += rows([batch])
        # All that the first half holds is there before the second is written.
        if len(found) > len(EXPECTED) // 3:
            second.set()
    thread.join()
    assert in_time == [True, True]
    assert found == EXPECTED
    assert not list(capture.issues)
    if kind == "-":
        sys.stdin.close()


def test_what_is_told_of_the_files_of_a_capture(tmp_path: Path) -> None:
    """In the order of their packets; a file is known again by its content."""
    for name, begin, count in (("b.pcap", 50, 30), ("a.pcap", 60, 200)):
        records = (pcap_record(begin + n, 0, bytes(60)) for n in range(count))
        (tmp_path / name).write_bytes(pcap_header() + b"".join(records))
    paths = [str(tmp_path / name) for name in ("a.pcap", "b.pcap")]
    origins: dict[int, int] = {}
    with open_capture(paths) as capture:
        for packets in capture:
            origins |= zip(packets.number.tolist(), capture.origins.of(packets.number).tolist(), strict=True)
        told = capture.captured()
    assert capture.origins.names == (paths[1], paths[0])
    assert [(file.file, file.first_packet, file.packets) for file in told] == [(paths[1], 1, 30), (paths[0], 31, 200)]
    assert origins == {number: int(number > 30) for number in range(1, 231)}
    assert told[0].digest != told[1].digest
    size = told[1].bytes or 0
    assert digest(paths[0], size) == told[1].digest
    changed = bytearray(Path(paths[0]).read_bytes())
    changed[-70] ^= 1  # in the header of the last packet
    Path(paths[0]).write_bytes(changed)
    assert digest(paths[0], size) != told[1].digest
    assert digest(str(tmp_path / "nothing"), 1) is None
