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
    """The items, made in another thread, at most depth ahead, those in the making too; what it raises is raised here.

    Items are large: an item that the caller has taken is not held here.
    When the caller stops early, the thread ends at its next item; it is waited for no longer than patience_s, in
    seconds (None: until it has ended), for that item may never come.
    """
    made: queue.SimpleQueue[tuple[bool, T | BaseException | None]] = queue.SimpleQueue()
    room = threading.Semaphore(depth)
    stopped = threading.Event()

    def work() -> None:
        try:
            source = iter(items)
            while True:
                room.acquire()
                if stopped.is_set():
                    return
                made.put((True, next(source)))
        except StopIteration:
            made.put((False, None))
        except BaseException as error:
            made.put((False, error))

    thread = threading.Thread(target=work, name="kafkascope-ahead", daemon=True)
    thread.start()
    try:
        while True:
            more, what = made.get()
            room.release()
            if not more:
                if isinstance(what, BaseException):
                    raise what
                return
            yield what  # type: ignore[misc]
            what = None
    finally:
        stopped.set()
        room.release()
        thread.join(patience_s)
