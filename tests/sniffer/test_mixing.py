"""The hash of words: as published, and the same in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from kafkascope.decoders.kernels import kernel
from kafkascope.sniffer.mixing import mixed_columns, mixed_word


@kernel
def mixed_in_kernel(words: Any, place: Any) -> Any:
    return mixed_word(words[place])


def test_it_is_splitmix64() -> None:
    # What the reference generator gives first with the seed 0.
    assert mixed_columns(np.zeros(2, np.uint64)).tolist() == [0xE220A8397B1DCDAF] * 2


def test_kernels_and_columns_have_the_same() -> None:
    words = np.array([0, 1, 1 << 63, (1 << 64) - 1], np.uint64)
    begun = words ^ np.uint64(0x9E3779B97F4A7C15)
    assert [int(mixed_in_kernel(begun, place)) for place in range(4)] == mixed_columns(words).tolist()


def test_the_order_of_columns_counts() -> None:
    one, other = np.array([1], np.uint64), np.array([2], np.uint64)
    assert mixed_columns(one, other) != mixed_columns(other, one)
