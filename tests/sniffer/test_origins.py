"""Which file of a capture a packet came from, by its number."""

from __future__ import annotations

import numpy as np

from kafkascope.sniffer.origins import NO_ORIGINS, Origins


def places(origins: Origins, *numbers: int) -> list[int]:
    found: list[int] = origins.of(np.array(numbers, np.int64)).tolist()
    return found


def test_a_number_tells_the_file_as_soon_as_the_files_before_it_are_counted() -> None:
    origins = Origins(["a", "b", "c"])
    assert places(origins, 0, 1, 10) == [-1, 0, 0]
    origins.begin(11)
    assert places(origins, 0, 1, 10, 11, 99) == [-1, 0, 0, 1, 1]


def test_a_file_without_packets_has_none() -> None:
    assert places(Origins(["a", "empty", "c"], [1, 11, 11]), 10, 11) == [0, 2]


def test_where_there_are_no_files_nothing_is_of_one() -> None:
    assert places(NO_ORIGINS, 0, 1) == [-1, -1]
