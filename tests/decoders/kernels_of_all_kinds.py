"""Kernels that take and give all that kernels can, call each other, and fail."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkascope.decoders.kernels import allocating, borrowing, kernel


class Numbers(NamedTuple):
    few: NDArray[np.int64]
    many: NDArray[np.int64]


@kernel
def total(numbers: Numbers) -> Any:
    return last(numbers)


@borrowing
def last(numbers: Numbers) -> Any:
    return numbers.many[-1]


@kernel
def count_of_both(numbers: Numbers) -> Any:
    return numbers.few.shape[0] + numbers.many.shape[0]


@kernel
def of_three(number: int) -> Any:
    return increased(increased(number, 1), 2)


@borrowing
def increased(number: int, by: int) -> Any:
    return number + by


@kernel
def doubled(number: int) -> int:
    return 2 * number


@kernel
def of_another(number: int) -> int:
    return doubled(number) + 1


@allocating
def counted(upto: int) -> Any:
    return np.arange(upto)


@allocating
def counted_twice(upto: int) -> Any:
    numbers = counted(upto)
    return numbers, Numbers(numbers[:1], counted(doubled(upto)))


@kernel
def sorted_twice(numbers: Numbers, others: Numbers) -> int:
    return sort_both(numbers) + sort_both(others)


@borrowing
def sort_both(numbers: Numbers) -> int:
    """Too much to go into its caller, which has it twice."""
    return sort(numbers.few) + sort(numbers.many) + sort(numbers.few[::-1]) + sort(numbers.many[::-1])


@borrowing
def sort(numbers: NDArray[np.int64]) -> int:
    """Put in order; how many were moved."""
    moved = 0
    for end in range(1, len(numbers)):
        number, at = numbers[end], end
        while at > 0 and numbers[at - 1] > number:
            numbers[at] = numbers[at - 1]
            at -= 1
            moved += 1
        numbers[at] = number
    return moved


@kernel
def refused(number: int) -> int:
    if number < 0:
        raise ValueError("below zero", 7)
    return number


def last_of(numbers: Any) -> Any:
    return numbers[-1]


def last_by(numbers: Any, by: Any) -> Any:
    return numbers[-by]
