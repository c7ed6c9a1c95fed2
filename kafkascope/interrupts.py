"""Ctrl-C, SIGTERM and SIGHUP for work that must not be interrupted at any odd place, but asked to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TypeVar

from kafkascope.program import ENDING, heard

T = TypeVar("T")


class Interrupted(Exception):  # noqa: N818 - it tells of no error
    """A signal came, and the work has stopped."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def stoppable(work: Callable[[threading.Event], T], say: Callable[[str], None]) -> T:
    """What work returns or raises, done in another thread; a signal sets the event that it is given.

    Its name is said at once, for stopping may take a while. Raises Interrupted if work raises after a signal. A second
    one has its usual effect (`heard`). Signals that are ignored stay so.
    """
    stop = threading.Event()
    received: list[signal.Signals] = []

    def ask_to_stop(number: signal.Signals) -> None:
        received.append(number)
        stop.set()
        with suppress(OSError):  # the terminal may be what has gone
            say(number.name)

    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work(stop))
        except BaseException as error:
            future.set_exception(error)

    try:
        with heard([one for one in ENDING if signal.getsignal(one) != signal.SIG_IGN], ask_to_stop):
            # A thread that the interpreter does not wait for, if a second signal ends it.
            threading.Thread(target=run, name="kafkascope-stoppable", daemon=True).start()
            # Again and again: a signal that comes just before the wait begins does not end it.
            while wait([future], timeout=0.25).not_done:
                pass
            return future.result()
    except Exception:
        if received:
            raise Interrupted(received[0]) from None
        raise
