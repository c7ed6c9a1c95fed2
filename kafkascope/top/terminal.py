"""Keys of the terminal beside packets on standard input, which can be ended without whoever writes them."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

_AT_ONCE_BYTES = 1 << 20


def is_there(keys_on_input: bool) -> bool:
    """Whether a screen can be shown: standard output and error are a terminal, and keys can be read from one.

    keys_on_input: from standard input, which is not for packets.
    """
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        return False
    if keys_on_input:
        return sys.stdin.isatty()
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


class Packets:
    """What comes on standard input."""

    def __init__(self, stop: int) -> None:
        self._stop = stop
        self.is_stopped = False

    def stop(self) -> None:
        """End it as if its writer had: for signal handlers and other threads."""
        self.is_stopped = True
        os.write(self._stop, b".")


@contextmanager
def keys() -> Iterator[Packets]:
    """As long as this lasts descriptor 0 is the terminal, and `sys.stdin` what standard input was."""
    source = os.dup(0)
    of_stop, stop = os.pipe()
    end, sink = os.pipe()
    terminal = os.open("/dev/tty", os.O_RDWR)
    os.dup2(terminal, 0)
    os.close(terminal)
    before = sys.stdin
    sys.stdin = open(end)  # noqa: SIM115 (closed below)
    thread = Thread(target=hand_on, args=(source, of_stop, sink), name="kafkascope-top-input", daemon=True)
    thread.start()
    packets = Packets(stop)
    try:
        yield packets
    finally:
        packets.stop()
        sys.stdin.close()
        sys.stdin = before
        thread.join()
        os.dup2(source, 0)
        for descriptor in (source, of_stop, stop):
            os.close(descriptor)


def hand_on(source: int, stop: int, sink: int) -> None:
    """Write to sink, which is closed at the end, what source has, until it ends or there is something in stop."""
    os.set_blocking(sink, False)  # so that stop is heard also while nobody reads
    with suppress(BrokenPipeError):
        while _is_ready(source, select.POLLIN, stop) and (found := os.read(source, _AT_ONCE_BYTES)):
            left = memoryview(found)
            while left and _is_ready(sink, select.POLLOUT, stop):
                left = left[os.write(sink, left) :]
    os.close(sink)


def _is_ready(descriptor: int, event: int, stop: int) -> bool:
    """Wait for an event; whether it came before there was something in stop."""
    poll = select.poll()
    poll.register(descriptor, event)
    poll.register(stop, select.POLLIN)
    return stop not in {ready for ready, _ in poll.poll()}
