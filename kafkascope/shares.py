"""A capture read by several processes side by side, each of which has a share of the connections.

Each process reads all of the files, which is a small part of the work, and goes on with its own share alone; rows stay
on disk where each has put them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from kafkascope.engine import ALL_TABLES, Engine, EngineOptions, Facts
from kafkascope.reading import Reading
from kafkascope.rehearsal import Rehearsal
from kafkascope.side_by_side import processes_worth, side_by_side
from kafkascope.sniffer.capture_points import Content
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.sources.files import is_stream
from kafkascope.sniffer.sources.places import is_uri
from kafkascope.sniffer.spreading import EVERY_CONNECTION, Share

SHARE_BYTES = 48_000_000
"""Of files, that are worth a process of their own: less takes as long as it takes to load the kernels."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Sink(Protocol[T_co]):
    """What takes rows, and can be handed to another process when it has all of them."""

    def write(self, tables: Mapping[str, pa.Table], /) -> None:
        """Take in rows."""

    def finish(self) -> T_co:
        """No more rows come; what was made of them."""


Sinks = Callable[[Share], AbstractContextManager[Sink[T]]]


def first_share(paths: Sequence[str], most: int) -> Share:
    """What this process is to read of files, if at most so many processes read them."""
    if any(is_uri(path) or is_stream(path) for path in paths):
        return EVERY_CONNECTION  # what speaks to object stores survives no fork, and a pipe can be read once
    size = sum(os.stat(path).st_size for path in paths if os.path.exists(path))
    return Share(0, processes_worth(size // SHARE_BYTES, most))


def read_all(reading: Reading, sinks: Sinks[T], check: Callable[[], None] = lambda: None) -> list[T]:
    """Read to the end, with a process for each other share; what each made of its rows, this one's first.

    check is called now and then, and may raise. Afterwards the reading knows what all of them know.
    """
    here = reading.share
    if here.of > 1:
        _load_kernels()
    elsewhere = [Share(number, here.of) for number in range(1, here.of)]
    works = [partial(_read_again, reading, sinks, share) for share in elsewhere]
    with side_by_side(works) as others, sinks(here) as sink:
        _write(reading, sink, check)
        made = []
        for other in others:
            result, facts, contents = other.result(check)
            reading.take_in(facts, contents)
            made.append(result)
        if others:
            sink.write(reading.last())
        return [sink.finish(), *made]


def _load_kernels() -> None:
    """Before a fork, or each process would have its own."""
    engine = Engine(EngineOptions(tables=ALL_TABLES))
    for packets in Rehearsal():
        for _ in engine.feed(dissect(packets).segments):
            pass
    for _ in engine.finish():
        pass


def _write(reading: Reading, sink: Sink[Any], check: Callable[[], None]) -> None:
    for batch in reading.batches():
        check()
        sink.write(batch.tables)


def _read_again(reading: Reading, sinks: Sinks[T], share: Share) -> tuple[T, Facts, Mapping[str, Content]]:
    with reading.again(share) as mine, sinks(share) as sink:
        _write(mine, sink, lambda: None)
        return sink.finish(), mine.facts, mine.capture.contents
