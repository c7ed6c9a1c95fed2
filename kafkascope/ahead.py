"""Work ahead of whoever takes the results: an iterator runs in a thread of its own, a few items ahead.

The stages spend their time in kernels and Arrow, which let other threads run; so reading, decoding and writing go on
side by side on two or three cores, in the order in which one thread would have done them.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def ahead(items: Iterable[T], depth: int = 1, patience_s: float | None = 1) -> Iterator[T]:
    """The items, made in another thread up to depth (and the one in hand) ahead; what it raises is raised here.

    When the caller stops early, the thread ends at its next item; it is waited for no longer than patience_s, in
    seconds (None: until it has ended), for that item may never come.
    """
    waiting: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(more: bool, what: T | BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                waiting.put((more, what), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put(True, item):
                    return
            put(False, None)
        except BaseException as error:
            put(False, error)

    thread = threading.Thread(target=work, name="kafkascope-ahead", daemon=True)
    thread.start()
    try:
        while True:
            more, what = waiting.get()
            if not more:
                if isinstance(what, BaseException):
                    raise what
                return
            yield what  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join(patience_s)
