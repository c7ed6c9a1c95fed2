"""Lines for a reader that pauses, goes, or comes back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BufferedReader

import pytest

from kafkascope.outlet import Outlet

LINE = b"x" * 999 + b"\n"


def told(count: int, in_all: int) -> bytes:
    return b"# %d of %d\n" % (count, in_all)


@pytest.fixture
def pipe() -> Iterator[tuple[BufferedReader, int]]:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader:
        yield reader, writing


def test_what_there_is_room_for_is_written_whole_and_in_order(pipe: tuple[BufferedReader, int]) -> None:
    reader, writing = pipe
    outlet = Outlet(writing, told)
    texts = [b"%d\n" % number for number in range(1000)]
    for text in texts:
        outlet.write(memoryview(text))
    outlet.close()
    os.close(writing)
    assert reader.read() == b"".join(texts)
    assert outlet.lost == 0


def test_of_a_reader_that_pauses_lines_are_left_out_and_counted_where_they_would_be(
    pipe: tuple[BufferedReader, int],
) -> None:
    reader, writing = pipe
    outlet = Outlet(writing, told, most_bytes=100_000)
    outlet.write(LINE * 1000)  # more than a pipe holds: from here on nothing is written
    for _ in range(3):
        outlet.write(LINE * 100)
    assert outlet.lost == 300
    assert reader.read(1_000_000) == LINE * 1000
    lost = -1
    while lost != outlet.lost:  # until the writer has noticed that there is room
        lost = outlet.lost
        outlet.write(b"again\n")
    outlet.write(b"on\n")
    outlet.close()
    os.close(writing)
    assert reader.read() == b"# %d of %d\nagain\non\n" % (lost, lost)


def test_lines_left_out_last_are_told_at_the_end(pipe: tuple[BufferedReader, int]) -> None:
    reader, writing = pipe
    outlet = Outlet(writing, told, most_bytes=1)
    outlet.write(LINE * 1000)
    outlet.write(b"one\ntwo\n")
    assert reader.read(1_000_000) == LINE * 1000
    outlet.close()
    os.close(writing)
    assert reader.read() == b"# 2 of 2\n"


def test_a_reader_that_has_gone_is_an_error_of_what_comes_later(pipe: tuple[BufferedReader, int]) -> None:
    reader, writing = pipe
    outlet = Outlet(writing, told)
    reader.close()
    outlet.write(b"one\n")
    with pytest.raises(BrokenPipeError):
        outlet.close()
    with pytest.raises(BrokenPipeError):
        outlet.write(b"two\n")
    os.close(writing)
