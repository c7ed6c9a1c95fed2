"""What every command counts on: open streams, words on standard error, and an end without a traceback."""

from __future__ import annotations

import atexit
import codecs
import errno
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INCOMPLETE, WRONG_USE, INTERFACE_GONE, INTERRUPTED = 1, 2, 3, 130
"""Exit statuses: not all was read or written; what was asked for makes no sense; an interface has gone away; Ctrl-C."""

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals by which people, terminals and service managers end a program."""
_ONE_WISH_S = 0.5  # sooner nobody asks again; coreutils' `timeout` sends its signal to the process, then to its group

Remark = Callable[[str], None]
"""Says something that is not a result, as `remark` does."""


def remark(text: str) -> None:
    """Say something that is not a result: on stderr. What it quotes of captures and files' names cannot steer it."""
    from kafkascope.decoders.characters import safe_text

    print("\n".join(map(safe_text, f"kafkascope: {text}".split("\n"))), file=sys.stderr)


@contextmanager
def heard(numbers: Iterable[signal.Signals], hear: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call hear at the first of these signals. What comes behind it is the same wish, or else has its usual effect."""
    usual: dict[signal.Signals, Any] = {}
    first_at: float | None = None

    def restore() -> None:
        for each, handler in usual.items():
            signal.signal(each, handler)

    def handle(number: int, _: object) -> None:
        nonlocal first_at
        if first_at is None:
            first_at = time.monotonic()
            hear(signal.Signals(number))
        elif time.monotonic() - first_at >= _ONE_WISH_S:
            restore()
            signal.raise_signal(number)

    for each in numbers:
        usual[each] = signal.signal(each, handle)
    try:
        yield
    finally:
        restore()


@contextmanager
def importing() -> Iterator[None]:
    """While modules are imported, which stay: Python does not look for garbage among them, now or later.

    That would take a fifth of the time to the first line; what is not frozen is searched later all the same.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if is_enabled:
            gc.enable()


def run(command: Callable[..., Any]) -> None:
    """Run a command; a closed pipe and Ctrl-C end it quietly, what cannot be written or read with one line."""
    _open_standard_streams()
    before, sys.unraisablehook = sys.unraisablehook, _interrupt_again
    try:
        try:
            command()
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # typer makes a failure of it
                raise end.__context__ from None
            if end.code == INTERRUPTED:  # what was half made then may complain when it is removed
                before = _say_nothing
            raise
        finally:
            sys.unraisablehook = before
            sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()  # the reader has gone (`| head`)
    except OSError as error:
        _discard_output()
        with suppress(OSError):
            remark(failure(error))
        sys.exit(INCOMPLETE)
    except MemoryError as error:
        _discard_output()
        remark(f"there is not enough memory ({str(error) or 'none is left'}): give more, or let fewer processes read")
        sys.exit(INCOMPLETE)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def ended(command: Callable[[], Any]) -> None:
    """Run a command, and end the process when all that is registered for its end is done, without taking Python apart.

    Threads of Arrow may outlive what they worked for, and free then what was made by Python or numpy. Where Python is
    just being taken apart this ends the process by SIGABRT, though all was done (apache/arrow#34314, #39862).
    """
    status = 0
    try:
        command()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = 1 if isinstance(end.code, str) else int(end.code or 0)
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):  # its reader has gone, or it is closed
            stream.flush()
    os._exit(status)


def _interrupt_again(unraisable: UnraisableHookArgs) -> None:
    """Ctrl-C while Python frees something is raised there, where nothing can come of it; so it comes a moment later."""
    if unraisable.exc_type is KeyboardInterrupt:
        later = threading.Timer(0.01, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        later.daemon = True
        later.start()
    else:
        sys.__unraisablehook__(unraisable)


def _say_nothing(_: object) -> None:
    pass


def _open_standard_streams() -> None:
    """Make of the three what the commands count on: open, and able to show a text in any script. Or end the program.

    One that is closed (`2>&-`) is None in Python, and the next file to be opened would take its place.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 (it stays open)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (it stays open)
    if sys.stdout is None:
        remark("standard output is closed; give it a place to go to, such as > /dev/null")
        sys.exit(INCOMPLETE)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Let nothing be written to standard output at exit either: it would fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def failure(error: OSError) -> str:
    """What could not be done, and why, as people read it."""
    if error.errno == errno.ENOSPC and error.filename is None:
        return f"{error.strerror}: standard output, or temporary files in {gettempdir()} (TMPDIR names another place)"
    if error.filename is not None and error.strerror is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)
