"""What takes longer to start than most tests take: one Spark session for all, and commands without a process each."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess
from typing import Any

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
    """Calls a command as a shell does, in this process."""

    def call(name: str, *arguments: str) -> CompletedProcess[str]:
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
