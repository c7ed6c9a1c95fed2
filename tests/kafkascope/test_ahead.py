from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from kafkascope.ahead import ahead as _ahead
from tests.patience import PATIENCE_S

ahead = partial(_ahead, patience_s=None)


def running() -> int:
    return sum(thread.name == "kafkascope-ahead" for thread in threading.enumerate())


def test_items_come_in_order_and_the_thread_ends() -> None:
    assert list(ahead(iter(range(1000)))) == list(range(1000))
    assert list(ahead([])) == []
    assert running() == 0


def test_what_it_raises_is_raised_behind_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("damaged")

    source = ahead(items())
    assert next(source) == 1
    with pytest.raises(ValueError, match="damaged"):
        next(source)
    assert running() == 0


def test_no_more_than_depth_are_made_ahead_those_in_the_making_too() -> None:
    made = 0
    enough = threading.Event()

    def items() -> Iterator[int]:
        nonlocal made
        for i in range(100):
            made += 1
            if made == 2:  # one taken, one in the making, or waiting
                enough.set()
            yield i

    source = ahead(items())
    assert next(source) == 0
    assert enough.wait(PATIENCE_S)
    assert made == 2
    source.close()  # type: ignore[attr-defined]
    assert running() == 0
    assert made <= 3


def test_ahead_of_ahead_keeps_the_order() -> None:
    assert list(ahead(x * 2 for x in ahead(range(50)))) == [x * 2 for x in range(50)]
