"""Large files: another process writes the exchanges, and nobody can tell."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from kafkascope import exchange_output, reading, sniffing, writing_beside
from kafkascope.exchange_output import TextWriter
from kafkascope.reading import Batch, Reading
from kafkascope.reports.columns.faults import RAISE_FAULTS
from kafkascope.reports.show.json_lines import json_lines
from kafkascope.sniffer.issues import Issue
from kafkascope.sniffer.sources.errors import SourceError
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS

CAPTURE = str(PCAPS / "removed-and-timeouts" / "capture.pcap")
IN_ALL = 633  # exchanges

HERE = os.getpid()

Written = Callable[[TextWriter, pa.Table | None, Mapping[str, pa.Table]], list[Issue]]


@pytest.fixture(autouse=True)
def however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process writes however small files are and however few cores there are, and in many parts."""
    monkeypatch.setattr(sniffing, "_LARGE", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(reading, "BATCH_BYTES", 50_000)


@pytest.fixture(autouse=True)
def alone_afterwards() -> Iterator[None]:
    yield
    assert not multiprocessing.active_children()


def in_the_other(does: Written) -> Written:
    """What `TextWriter.write` does there; here it is never called."""

    def write(self: TextWriter, exchanges: pa.Table | None, rows: Mapping[str, pa.Table]) -> list[Issue]:
        assert os.getpid() != HERE
        return does(self, exchanges, rows)

    return write


@pytest.mark.parametrize(
    "options",
    [
        ("--json", "--records"),
        ("--json", "--records", "--no-payload", "--bulk"),
        ("--json", "--where", 'api == "Fetch" and latency_ms > 1'),
        ("--records",),
        ("--records", "-v", "--topic", "orders"),
        ("--json", "--group", "nobody"),
    ],
)
def test_lines_and_remarks_are_those_of_one_process(
    options: tuple[str, ...], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = command("sniff", "-r", CAPTURE, "--limit", "processes=1", *options)
    monkeypatch.setattr(TextWriter, "write", in_the_other(TextWriter.write))
    two = command("sniff", "-r", CAPTURE, *options)
    assert (two.returncode, two.stdout, two.stderr) == (one.returncode, one.stdout, one.stderr)


@pytest.mark.parametrize("enough", [0, 2, 1_000_000])
@pytest.mark.parametrize(
    ("recording", "options"),
    [
        ("clients_codecs", ("--json", "--limit", "decompressed_bytes=300")),
        ("clients_old_formats", ("--json", "--limit", "decompressed_bytes=300")),
        ("transactions", ("--json", "--filter", "api == Produce and latency_ms > 1")),
        ("streams-kip1071", ("-v", "--api", "Fetch")),
        ("wrong-password", ("--json", "--show-secrets")),
    ],
)
def test_whoever_reads_the_records_they_are_the_same(
    enough: int, recording: str, options: tuple[str, ...], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = str(next((PCAPS / recording).glob("capture.pcap*")))
    monkeypatch.setattr(exchange_output, "RECORDS_SHOWN", 20)
    one = command("sniff", "-r", capture, "--records", "--limit", "processes=1", *options)
    monkeypatch.setattr(writing_beside, "_ENOUGH", enough)
    two = command("sniff", "-r", capture, "--records", *options)
    assert (two.returncode, two.stdout, two.stderr) == (one.returncode, one.stdout, one.stderr)
    assert one.stdout


@pytest.mark.parametrize("options", [[], ["-v"], ["-V"], ["-q"], ["--json", "-c", "3"], ["--fields", "api"]])
def test_who_needs_no_help_has_none(options: list[str], command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_called(*_: object) -> Any:
        raise AssertionError

    monkeypatch.setattr(writing_beside, "writer_beside", not_called)
    assert command("sniff", "-r", CAPTURE, *options).returncode == 0


def test_what_cannot_be_shown_is_a_line_and_a_remark(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(exchanges: pa.Table, *others: Any) -> Any:
        if 70 in exchanges["number"].to_pylist():
            raise RecursionError
        return json_lines(exchanges, *others)

    monkeypatch.delenv(RAISE_FAULTS)
    monkeypatch.setattr(exchange_output, "json_lines", wrong)
    done = command("sniff", "-r", CAPTURE, "--json")
    assert done.stdout.count("\n") == IN_ALL
    assert done.stdout.count("a fault of kafkascope") == 1
    assert "exchange 70: RecursionError" in done.stderr


def test_what_came_before_an_error_is_written(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def some(self: Reading) -> Iterator[Batch]:
        batches = whole(self)
        yield next(batches)
        raise SourceError("a.pcap", None, "it has changed", "Take it once more")

    whole = Reading._batches
    monkeypatch.setattr(Reading, "_batches", some)
    done = command("sniff", "-r", CAPTURE, "--json")
    assert (done.returncode, done.stderr) == (1, "kafkascope: a.pcap: it has changed. Take it once more.\n")
    assert 0 < done.stdout.count("\n") < IN_ALL
    assert done.stdout.endswith("}\n")


def test_a_process_that_is_killed_is_told(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> list[Issue]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []

    monkeypatch.setattr(TextWriter, "write", in_the_other(die))
    done = command("sniff", "-r", CAPTURE, "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("kafkascope: a process that helped this one was killed: not all is written; ")
    assert done.stderr.count("\n") == 1


def test_an_output_that_cannot_be_written_is_one_line(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, open("/dev/full", "w") as full:
        patch.setattr(sys, "stdout", full)
        done = command("sniff", "-r", CAPTURE, "--json")
    assert done.returncode == 1
    assert done.stderr.startswith("kafkascope: No space left on device")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("lines", [0, 1])
def test_a_closed_pipe_ends_it_quietly(lines: int) -> None:
    sniff = (
        "from kafkascope import sniffing; sniffing._LARGE = 1; from kafkascope.__main__ import sniff_main; sniff_main()"
    )
    shell = f"{sys.executable} -c '{sniff}' -r {CAPTURE} --json --records | head -n {lines}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.count("\n") == lines
