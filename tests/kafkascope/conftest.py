"""What takes longer to start than most tests take: one Spark session for all, and commands without a process each."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from subprocess import CompletedProcess
from typing import Any, TextIO

import pytest

from kafkascope import cli
from kafkascope.spark import sessions
from tests.needs import needs_java

Command = Callable[..., "CompletedProcess[str]"]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    needs_java()
    session = sessions.session("local[2]")
    yield session
    session.stop()


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Calls a command as a shell does, in this process; data comes from a pipe, as its standard input."""

    def call(name: str, *arguments: str, data: bytes | None = None) -> CompletedProcess[str]:
        if data is not None:
            with piped(data) as stream, monkeypatch.context() as patch:
                patch.setattr(sys, "stdin", stream)
                return call(name, *arguments)
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        capfd.readouterr()
        status = 0
        log = logging.getLogger("kafkascope")
        handlers, level, propagates = list(log.handlers), log.level, log.propagate
        try:
            {"sniff": cli.sniff_main, "kafkascope": cli.main}[name]()
        except SystemExit as end:
            status = int(end.code or 0)
        finally:  # of --debug, which is for the rest of a process
            log.handlers[:] = handlers
            log.setLevel(level)
            log.propagate = propagates
        shown = capfd.readouterr()
        return CompletedProcess([name, *arguments], status, shown.out, shown.err)

    return call


@contextmanager
def piped(data: bytes) -> Iterator[TextIO]:
    """The end of a pipe at which data comes out, as long as somebody reads."""
    reading, writing = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), open(writing, "wb") as pipe:
            pipe.write(data)

    writer = threading.Thread(target=write)
    writer.start()
    with open(reading) as stream:
        yield stream
    writer.join()
