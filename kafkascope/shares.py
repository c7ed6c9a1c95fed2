"""A capture read by several processes side by side, each of which has a share of the connections.

Python's lock lets one thread at a time work outside of kernels, so threads alone leave most of a second core idle. Each
process reads all of the files, which is a small part of the work, and goes on with its own share alone; rows stay on
disk where each has put them. They are forks, so that what is imported and loaded is there once.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from kafkascope.engine import ALL_TABLES, Engine, EngineOptions, Facts
from kafkascope.reading import Reading
from kafkascope.rehearsal import Rehearsal
from kafkascope.reports.columns.views import Known, partition_of
from kafkascope.reports.views.guarded import results
from kafkascope.reports.views.registry import VIEWS
from kafkascope.sniffer.capture_points import Content
from kafkascope.sniffer.link import dissect
from kafkascope.sniffer.sources.files import is_stream
from kafkascope.sniffer.sources.places import is_uri
from kafkascope.sniffer.spreading import EVERY_CONNECTION, Share

SHARE_BYTES = 48_000_000
"""Of files, that are worth a process of their own: less takes as long as it takes to load the kernels."""

SHARE_ROWS = 20_000
"""Of a view, that are worth one."""

_BETWEEN_CHECKS_S = 0.1
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h

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
    return Share(0, _processes(most, size // SHARE_BYTES))


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


def processes_for(counts: Mapping[str, int], most: int) -> int:
    """How many understand so many rows of views, if at most so many do."""
    return _processes(most, sum(counts.values()) // SHARE_ROWS)


def understood(
    rows: Callable[[str], pa.Table],
    counts: Mapping[str, int],
    known: Known,
    most: int,
    check: Callable[[], None] = lambda: None,
) -> dict[str, dict[str, pa.Table]]:
    """What views make of their rows, as `guarded.results`, by the names of the views; with at most so many processes.

    rows: those of a view; counts: how many they are, of each view that is asked. Which process does what is not fixed:
    each takes a share of the keys of a view at a time, as one key can be as much work as all others together.
    """
    works = list(_works(rows, counts, known, most))
    waiting = _Numbers(len(works))

    def work(check: Callable[[], None] = lambda: None) -> dict[int, dict[str, pa.Table]]:
        made = {}
        for number in waiting:
            check()
            made[number] = works[number].result()
        return made

    elsewhere = [work] * (processes_for(counts, most) - 1)
    with closing(waiting), side_by_side(elsewhere) as others:
        made = work(check)
        for other in others:
            made |= other.result(check)
    tables: dict[str, dict[str, list[pa.Table]]] = {name: {} for name in counts}
    for number, one in enumerate(works):
        of_share = made[number] if number in made else one.result()  # of a process that was killed
        for name, rows_of_share in of_share.items():
            tables[one.view].setdefault(name, []).append(rows_of_share)
    return {view: {name: pa.concat_tables(parts) for name, parts in of.items()} for view, of in tables.items()}


@dataclass(frozen=True, slots=True)
class _Work:
    """A share of the keys of a view."""

    view: str
    share: Share
    rows: Callable[[str], pa.Table]
    known: Known

    def result(self) -> dict[str, pa.Table]:
        """What the view makes of the rows with these keys."""
        view, rows = VIEWS[self.view](), self.rows(self.view)
        if self.share.of > 1:
            rows = rows.filter(pa.array(partition_of(rows[view.key], self.share.of) == self.share.number))
        return results(view, rows, self.known)


def _works(rows: Callable[[str], pa.Table], counts: Mapping[str, int], known: Known, most: int) -> Iterator[_Work]:
    """All that is to be done: in the order of the registry, for rows of groups take longest, and begin first so."""
    for view in VIEWS:
        if view in counts:
            of = _processes(most, counts[view] // SHARE_ROWS)
            for number in range(of):
                yield _Work(view, Share(number, of), rows, known)


class _Numbers:
    """Numbers from 0 on, each of which one process takes; whoever iterates is given what nobody has."""

    _SIZE = 2  # bytes of one; a pipe gives and takes them as a whole, and is empty behind the last

    def __init__(self, count: int) -> None:
        self._taken, given = os.pipe()
        os.write(given, b"".join(number.to_bytes(self._SIZE, "big") for number in range(count)))
        os.close(given)

    def __iter__(self) -> Iterator[int]:
        while number := os.read(self._taken, self._SIZE):
            yield int.from_bytes(number, "big")

    def close(self) -> None:
        os.close(self._taken)


def _processes(most: int, worth: int) -> int:
    """How many there may be, of work that is worth so many."""
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return 1  # libraries of other systems survive no fork, and a daemon may not have processes
    return max(1, min(most, len(os.sched_getaffinity(0)), worth))


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


class Other(Generic[T]):
    """Work in a process of its own."""

    def __init__(self, work: Callable[[], T]) -> None:
        context = multiprocessing.get_context("fork")
        self._work = work
        self._answer, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(work, theirs), name="kafkascope-share", daemon=True)
        self._process.start()
        theirs.close()  # so that nobody but the process has it

    def result(self, check: Callable[[], None]) -> T:
        """What the work returns or raises; if the process was killed it is done once more, here."""
        while not self._answer.poll(_BETWEEN_CHECKS_S):
            check()
        try:
            made, failure = self._answer.recv()
        except EOFError:
            return self._work()
        if failure is not None:
            raise failure
        return made  # type: ignore[no-any-return]

    def end(self) -> None:
        """Whatever it is doing, do it no longer."""
        self._process.kill()
        self._process.join()
        self._answer.close()


@contextmanager
def side_by_side(works: Iterable[Callable[[], T]]) -> Iterator[list[Other[T]]]:
    """Each work in a process of its own, which ends with the context at the latest."""
    others: list[Other[T]] = []
    try:
        for work in works:
            others.append(Other(work))
        yield others
    finally:
        for other in others:
            other.end()


def _work(work: Callable[[], Any], answer: Any) -> None:
    """In the other process, which ends with the thread that began it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # who looks for garbage would write to pages that are shared
    made: Any = None
    failure: Exception | None = None
    try:
        made = work()
    except Exception as error:
        failure = _to_hand_over(error)
    answer.send((made, failure))


def _to_hand_over(error: Exception) -> Exception:
    """The error, or, where it is of those that do not survive it, one with its words."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
