"""The first run after installation: what is compiled beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from kafkascope import compiling
from kafkascope.decoders import kernels
from kafkascope.decoders.machine_code import files, progress
from kafkascope.engine import EngineOptions
from kafkascope.reading import Reading
from kafkascope.sniffer.pairing.kernel import converse
from tests.paths import PCAPS


def test_the_process_beside_compiles_the_kernel_that_pairs() -> None:
    exec(compiling.LONGEST)
    assert cast(Any, converse).signatures


def test_it_is_started_once_when_the_first_kernel_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setattr(progress._shown, "first", None)

    def twice(number: float) -> Any:
        return 2 * number

    monkeypatch.setattr(files, "places", lambda: (tmp_path,))
    compiled = kernels.kernel(twice)
    with Reading([str(PCAPS / "eager-three-joins" / "capture.pcap")], EngineOptions(), progress_bar=False):
        assert started == []
        assert [compiled(2), compiled(True)] == [4, 2]
    assert [command[-1] for command in started] == [compiling.LONGEST]


def test_a_machine_without_room_for_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: Any, **__: Any) -> None:
        raise BlockingIOError

    monkeypatch.setattr(subprocess, "Popen", no_room)
    compiling.start()


def test_within_another_program_there_is_no_python_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *command, **_: started.append(command))
    monkeypatch.setattr(sys, "executable", "")
    compiling.start()
    assert started == []
