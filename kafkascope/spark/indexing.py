"""Splits that are indexed here while Spark starts: what this process comes to until then needs no job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import takewhile

from kafkascope.sniffer.sources.split import SplitIndex
from kafkascope.spark.tasks import Range, index

_MOST_BYTES = 64 << 20  # of a range, of which one that was begun is waited for: a compressed file is one as a whole


class Indexing:
    """The first of some ranges, one after the other, in a thread, as long as this is entered."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        self._ranges = ranges
        self._found: list[SplitIndex] = []
        self._failure: Exception | None = None
        self._enough = threading.Event()
        # A thread that the interpreter does not wait for, if the analysis has failed meanwhile.
        self._thread = threading.Thread(target=self._work, name="kafkascope-index", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            for found in index(takewhile(self._is_next, self._ranges)):
                self._found.append(found)
        except Exception as error:
            self._failure = error

    def _is_next(self, one: Range) -> bool:
        return one.size <= _MOST_BYTES and not self._enough.is_set()

    def __enter__(self) -> Indexing:
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()

    def found(self, check: Callable[[], None]) -> list[SplitIndex]:
        """The indexes of as many ranges as have been begun; check is called now and then, and may raise.

        Raises SourceError if one is no capture, or has changed.
        """
        self._enough.set()
        while self._thread.is_alive():
            check()
            self._thread.join(0.1)
        if self._failure is not None:
            raise self._failure
        return self._found
