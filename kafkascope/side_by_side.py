"""Work in processes beside this one, which are forks of it: what is imported and loaded is there once.

Python's lock lets one thread at a time work outside of kernels, so threads alone leave most of a second core idle.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from kafkascope.program import ENDING

_BETWEEN_CHECKS_S = 0.1
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h

_KILLED = (
    "a process that helped this one was killed: not all is written; with --limit processes=1 none helps, which takes "
    "less memory"
)

T = TypeVar("T")


class KilledError(ChildProcessError):
    """A process beside was killed before it was done."""


def processes_worth(worth: int, most: int) -> int:
    """How many there may be of work that is worth so many, this one among them."""
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return 1  # libraries of other systems survive no fork, and a daemon may not have processes
    return max(1, min(most, len(os.sched_getaffinity(0)), worth))


class Numbers:
    """Numbers from 0 on, each of which one process takes; whoever iterates is given what nobody has."""

    _SIZE = 2  # bytes of one; a pipe gives and takes them as a whole, and is empty behind the last

    def __init__(self, count: int) -> None:
        """count: how many there are."""
        self._taken, given = os.pipe()
        os.write(given, b"".join(number.to_bytes(self._SIZE, "big") for number in range(count)))
        os.close(given)

    def __iter__(self) -> Iterator[int]:
        while number := os.read(self._taken, self._SIZE):
            yield int.from_bytes(number, "big")

    def close(self) -> None:
        """Nobody here takes any more."""
        os.close(self._taken)


class Other(Generic[T]):
    """Work in a process of its own."""

    def __init__(self, work: Callable[[], T]) -> None:
        context = multiprocessing.get_context("fork")
        self._work = work
        self._answer, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(work, theirs), name="kafkascope-share", daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until it has handlers of its own
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # so that nobody but the process has it

    def result(self, check: Callable[[], None]) -> T:
        """What the work returns or raises; if the process was killed it is done once more, here."""
        try:
            return self.answer(check)
        except KilledError:
            return self._work()

    def answer(self, check: Callable[[], None] = lambda: None) -> T:
        """What the work returns or raises; KilledError if the process was killed. check is called while it works."""
        while not self._answer.poll(_BETWEEN_CHECKS_S):
            check()
        try:
            made, failure = self._answer.recv()
        except EOFError as error:
            raise KilledError(_KILLED) from error
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
    for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to both, and the first process ends this one
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
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
