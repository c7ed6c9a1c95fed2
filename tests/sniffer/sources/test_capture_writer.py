"""What is written is what is read."""

from __future__ import annotations

import subprocess
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.link import ETHERNET, RAW_IP
from kafkascope.sniffer.sources.capture_writer import CaptureWriter, names_blocks, secrets_block
from kafkascope.sniffer.sources.errors import SourceError
from kafkascope.sniffer.sources.files import open_capture
from kafkascope.sniffer.sources.formats import Secret
from kafkascope.sniffer.sources.live_options import Rotation
from kafkascope.sniffer.units import SECOND_NS
from tests.needs import needs

BEGIN = 1_700_000_000 * SECOND_NS
Row = tuple[int, bytes, int, int]  # seconds since BEGIN, bytes, bytes that were cut off, link type


def packets(*rows: Row) -> Packets:
    sizes = np.array([len(content) for _, content, _, _ in rows], np.int32)
    return Packets(
        data=np.frombuffer(b"".join(content for _, content, _, _ in rows), np.uint8).copy(),
        number=np.arange(1, len(rows) + 1, dtype=np.int64),
        at=np.array([BEGIN + second * SECOND_NS + 7 for second, *_ in rows], np.int64),
        start=np.cumsum(sizes, dtype=np.int64) - sizes,
        captured=sizes,
        original=np.array([len(content) + cut for _, content, cut, _ in rows], np.int32),
        link_type=np.array([link_type for *_, link_type in rows], np.int32),
    )


def rows_of(files: list[Path]) -> list[Row]:
    found: list[Row] = []
    with open_capture([str(file) for file in files]) as capture:
        for batch in capture:
            columns = (getattr(batch, field.name).tolist() for field in fields(Packets) if field.name != "data")
            for _, at, start, captured, original, link_type in zip(*columns, strict=True):
                second, rest = divmod(at - BEGIN, SECOND_NS)
                assert rest == 7
                content = batch.data[start : start + captured].tobytes()
                found.append((second, content, original - captured, link_type))
    return found


@settings(deadline=None, max_examples=50)
@given(
    st.dictionaries(
        st.integers(1, 20), st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1)
    )
)
def test_comments_are_with_their_packets(
    tmp_path_factory: pytest.TempPathFactory, comments: dict[int, list[str]]
) -> None:
    file = tmp_path_factory.mktemp("written") / "c.pcapng"
    writer = CaptureWriter(str(file), Rotation())
    writer.begin_with(names_blocks({"10.0.0.1": "one", "fd77::1": "two"}) + secrets_block(Secret(7, b"xyz")))
    writer.write(packets(*ROWS), comments)
    writer.close()
    assert rows_of([file]) == ROWS
    with open_capture([str(file)]) as capture:
        assert sum(len(batch.number) for batch in capture) == len(ROWS)
        (described,) = capture.files
    assert [(note.packet, note.text) for note in described.notes] == [
        (number, text) for number in sorted(comments) for text in comments[number]
    ]
    assert [(one.kind, one.data) for one in described.secrets] == [(7, b"xyz")]


def test_a_comment_that_is_too_long_is_cut_between_characters(tmp_path: Path) -> None:
    file = tmp_path / "c.pcapng"
    writer = CaptureWriter(str(file), Rotation())
    writer.write(packets(*ROWS), {20: ["\u20ac" * 30_000]})
    writer.close()
    with open_capture([str(file)]) as capture:
        assert sum(len(batch.number) for batch in capture) == len(ROWS)
        assert [note.text for note in capture.files[0].notes] == ["\u20ac" * 21_845]


@pytest.mark.parametrize("at_once", [1, 20])
def test_each_file_has_the_names_and_no_more_bytes_than_wanted(tmp_path: Path, at_once: int) -> None:
    writer = CaptureWriter(str(tmp_path / "c.pcapng"), Rotation(most_bytes=900))
    writer.begin_with(names_blocks({"10.0.0.1": "one"}))
    for begin in range(0, len(ROWS), at_once):
        batch = packets(*ROWS)
        writer.write(batch.rows(slice(begin, begin + at_once)), {number: ["said"] for number in range(1, 21, 3)})
    writer.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    assert all(b"one\0" in file.read_bytes() and file.stat().st_size <= 900 for file in files)
    assert rows_of(files) == ROWS
    assert b"".join(file.read_bytes() for file in files).count(b"said") == 7


ROWS = [(second, bytes([second]) * (50 + second), second % 2, (ETHERNET, RAW_IP)[second % 2]) for second in range(20)]


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.tuples(st.just(0), st.binary(min_size=1, max_size=70), st.integers(0, 99), st.sampled_from((1, 101)))),
    st.integers(1, 5),
)
def test_packets_of_any_size_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], at_once: int
) -> None:
    file = tmp_path_factory.mktemp("written") / "c.pcapng"
    writer = CaptureWriter(str(file), Rotation())
    for begin in range(0, len(rows), at_once):
        writer.write(packets(*rows[begin : begin + at_once]))
    writer.close()
    writer.close()
    assert rows_of([file]) == rows
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("at_once", [1, 3, 20])
@pytest.mark.parametrize(
    "rotation", [Rotation(most_bytes=500), Rotation(most_seconds=4), Rotation(500, 2), Rotation(1)]
)
def test_files_follow_each_other_alike_however_packets_come(tmp_path: Path, rotation: Rotation, at_once: int) -> None:
    writer = CaptureWriter(str(tmp_path / "c.pcapng"), rotation)
    for begin in range(0, len(ROWS), at_once):
        writer.write(packets(*ROWS[begin : begin + at_once]))
    writer.close()
    files = sorted(tmp_path.iterdir())
    assert files[0].name == "c_00001_20231114221320.pcapng"
    assert rows_of(files) == ROWS
    held = [rows_of([file]) for file in files]
    assert len(held) > 3
    for rows, file, following in zip(held, files, [*held[1:], None], strict=True):
        size, span = file.stat().st_size, rows[-1][0] - rows[0][0]
        assert len(rows) == 1 or size <= (rotation.most_bytes or size)
        assert span < (rotation.most_seconds or span + 1)
        if following is not None:  # it had no room for the next one
            late = following[0][0] - rows[0][0] >= (rotation.most_seconds or 99)
            assert late or size + 32 + len(following[0][1]) > (rotation.most_bytes or 10**9)


def test_of_many_files_the_latest_are_kept(tmp_path: Path) -> None:
    writer = CaptureWriter(str(tmp_path / "c.pcapng"), Rotation(most_seconds=4, files=2))
    writer.write(packets(*ROWS))
    writer.close()
    assert [file.name[:7] for file in sorted(tmp_path.iterdir())] == ["c_00004", "c_00005"]
    assert rows_of(sorted(tmp_path.iterdir())) == ROWS[12:]


def test_other_tools_read_it(tmp_path: Path) -> None:
    needs("tcpdump")
    file = tmp_path / "c.pcapng"
    writer = CaptureWriter(str(file), Rotation())
    writer.write(packets(*((0, bytes(14 + 20), 0, ETHERNET) for _ in range(5))))
    writer.close()
    done = subprocess.run(["tcpdump", "-nr", str(file)], capture_output=True, check=True, text=True)
    assert done.stdout.count("\n") == 5


@pytest.mark.parametrize("rotation", [Rotation(), Rotation(most_bytes=1)])
def test_a_place_that_cannot_be_written_is_an_error_at_once(tmp_path: Path, rotation: Rotation) -> None:
    with pytest.raises(OSError, match="not-there"):
        CaptureWriter(str(tmp_path / "not-there" / "c.pcapng"), rotation)
    with pytest.raises(SourceError, match=r"^s3://bucket/c\.pcapng: packets are written to local files only"):
        CaptureWriter("s3://key:secret@bucket/c.pcapng", rotation)
