"""Signals: work that is asked to stop, and `analyze` as a process that gets one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkascope import program
from kafkascope.interrupts import Interrupted, stoppable
from kafkascope.out.stored import open_text
from kafkascope.sniffer.columns import Packets
from kafkascope.sniffer.sources.files import Capture
from tests.kafkascope.conftest import Command
from tests.needs import needs_java
from tests.paths import PCAPS, ROOT
from tests.patience import wait_until

CAPTURE = PCAPS / "eager-three-joins" / "capture.pcap"
HANDLERS: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


@pytest.fixture(autouse=True)
def _usual_handlers() -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number, handler in HANDLERS.items()}  # Spark has its own
    yield
    left = {number: signal.signal(number, handler) for number, handler in before.items()}
    assert left == HANDLERS


def nothing(_: str) -> None:
    pass


def test_what_work_gives_or_raises_comes_back() -> None:
    assert stoppable(lambda stop: (stop.is_set(), threading.current_thread().name), nothing) == (
        False,
        "kafkascope-stoppable",
    )
    with pytest.raises(KeyError, match="x"):
        stoppable(lambda stop: dict[str, int]()["x"], nothing)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_work_to_stop_and_its_echo_does_nothing(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_ONE_WISH_S", 1_000)
    said: list[str] = []

    def work(stop: threading.Event) -> None:
        os.kill(os.getpid(), number)
        stop.wait()
        wait_until(lambda: said, "it is said that the signal was heard")
        for again in HANDLERS:
            os.kill(os.getpid(), again)
        raise RuntimeError("the work was broken off")

    with pytest.raises(Interrupted) as caught:
        stoppable(work, said.append)
    assert caught.value.number == number
    assert said == [number.name]


def test_a_second_signal_has_its_usual_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "_ONE_WISH_S", 0)
    ended = threading.Event()

    def work(stop: threading.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
        ended.wait()

    with pytest.raises(KeyboardInterrupt):
        stoppable(work, nothing)
    ended.set()


def test_a_signal_that_does_not_wake_the_waiting_thread_is_heard() -> None:
    main = threading.main_thread().ident or 0

    def work(stop: threading.Event) -> bool:
        wait_until(
            lambda: "futures" in "".join(traceback.format_stack(sys._current_frames()[main])[-3:]),
            "the main thread waits for this",
        )
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # to this thread: as one that comes just before
        return stop.wait(20)

    assert stoppable(work, nothing)


def test_work_that_ends_all_the_same_has_ended() -> None:
    def work(stop: threading.Event) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        stop.wait()
        return "done"

    assert stoppable(work, nothing) == "done"


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert stoppable(lambda stop: signal.getsignal(signal.SIGINT), nothing) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def of_session(leader: int) -> dict[int, str]:
    """Command lines of the processes of a session that still run, by their numbers."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if entry.name.isdigit() and int(session) == leader and state != "Z":
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found


def told(said: str) -> list[str]:
    """Lines without that about kernels, which whoever comes first compiles."""
    return [line for line in said.splitlines() if "compiling kernels" not in line]


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For temporary files, with so short a path that there is room for sockets: without them Spark works otherwise."""
    return tmp_path_factory.mktemp("t")


def analyze(out: Path, temporary: Path, *more: str) -> subprocess.Popen[str]:
    """`analyze` in a session of its own, with a temporary directory of its own."""
    needs_java()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "kafkascope", "analyze", str(CAPTURE), "-o", str(out), *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def wait_for(process: subprocess.Popen[str], directory: Path, pattern: str) -> None:
    """Wait until a process has made such a file, or directory."""

    def is_there() -> bool:
        assert process.poll() is None, process.communicate()
        return any(directory.glob(pattern))

    wait_until(is_there, f"{pattern} in {directory}")


@pytest.mark.parametrize(
    ("begun", "number", "to"),
    [
        ("", signal.SIGINT, "process"),
        ("tables/*/*.parquet", signal.SIGHUP, "all"),
        *(
            pytest.param(begun, number, to, marks=pytest.mark.deep)
            for begun in ("", "tables/*/*.parquet")
            for number in (signal.SIGTERM, signal.SIGHUP)
            for to in ("process", "all", "both")
        ),
    ],
)
def test_analyze_that_gets_a_signal_leaves_nothing(
    tmp_path: Path, temporary: Path, begun: str, number: signal.Signals, to: str
) -> None:
    """Alone, with its JVM as by a terminal, or both as by `timeout`; while Spark starts, or a job runs."""
    out = tmp_path / "out"
    process = analyze(out, temporary)
    wait_for(process, out, f".staging-*/{begun}")
    if to != "all":
        os.kill(process.pid, number)
    if to != "process":
        os.killpg(process.pid, number)
    shown, said = process.communicate()
    assert process.returncode == 128 + number, said
    assert shown == ""
    stopping = f"kafkascope: {number.name}: stopping, and leaving {out} as it was; once more ends it at once"
    assert told(said) == [stopping]
    assert of_session(process.pid) == {}
    assert not out.exists()
    assert list(temporary.iterdir()) == []


def test_of_a_jvm_that_is_killed_one_hears_so_and_nothing_else(tmp_path: Path, temporary: Path) -> None:
    out = tmp_path / "out"
    process = analyze(out, temporary)
    wait_for(process, out, ".staging-*/tables/*/*.parquet")
    (jvm,) = [number for number, line in of_session(process.pid).items() if "SparkSubmit" in line]
    os.kill(jvm, signal.SIGKILL)
    shown, said = process.communicate()
    assert process.returncode == 1
    assert shown == ""
    line, where = told(said)
    assert line.startswith("kafkascope: Spark's JVM was killed, most often by a system without free memory; ")
    (log,) = temporary.iterdir()
    assert where == f"(all of it: {log})"
    assert of_session(process.pid) == {}
    assert not out.exists()


@pytest.mark.deep
def test_a_run_that_is_killed_while_its_jvm_starts_leaves_what_the_next_removes(
    tmp_path: Path, temporary: Path
) -> None:
    out = tmp_path / "out"
    process = analyze(out, temporary)
    wait_for(process, temporary, "*/tmp*")  # in which the JVM is to tell its port
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not of_session(process.pid), "all processes of the session end")
    assert list(temporary.iterdir()) != []
    again = analyze(out, temporary)
    _, said = again.communicate()
    assert again.returncode == 0, said
    assert list(temporary.iterdir()) == []


@pytest.mark.deep
@pytest.mark.parametrize("killed", ["python", "all"])
def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path, temporary: Path, killed: str) -> None:
    """Whether its JVM can still clean up or not."""
    out = tmp_path / "out"
    process = analyze(out, temporary)
    wait_for(process, out, ".staging-*/tables/*/*.parquet")
    (os.killpg if killed == "all" else os.kill)(process.pid, signal.SIGKILL)
    process.communicate()
    wait_until(lambda: not of_session(process.pid), "all processes of the session end")
    assert any(out.glob(".staging-*"))
    assert len(list(temporary.iterdir())) == 2  # of the JVM, and of the process that its daemon is forked of
    assert len(list(temporary.glob("*/log"))) == len(list(temporary.glob("*/prepared"))) == 1
    again = analyze(out, temporary)
    _, said = again.communicate()
    assert again.returncode == 0, said
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "summary.json", "tables"]
    assert list(temporary.iterdir()) == []


def test_the_log_that_a_failure_names_is_there(tmp_path: Path, temporary: Path) -> None:
    out = tmp_path / "out"
    process = analyze(out, temporary, "--conf", "spark.pyspark.python=/bin/false")
    _, said = process.communicate()
    assert process.returncode == 1, said
    assert told(said)[0].startswith(
        "kafkascope: Spark failed: the Python for the tasks ended as soon as it was started; "
    )
    (log,) = re.findall(r"\(all of it: (.*)\)", said)
    assert Path(log).read_text()
    assert [str(path) for path in temporary.iterdir()] == [log]
    assert not out.exists()


@pytest.mark.parametrize(
    "words",
    [
        ("sniff", "-r", str(CAPTURE), "--json"),
        ("sniff", "-r", str(CAPTURE), "--groups"),
        ("sniff", "-r", str(CAPTURE), "--incidents"),
        ("sniff", "-r", str(CAPTURE), "--tables", "OUT"),
        ("kafkascope", "analyze", str(CAPTURE), "-o", "OUT", "--in-process"),
        ("kafkascope", "report", str(CAPTURE), "-o", "OUT"),
        ("kafkascope", "diff", str(CAPTURE), str(CAPTURE), "-o", "OUT"),
        ("kafkascope", "scrub", str(CAPTURE), "-o", "OUT"),
    ],
    ids=" ".join,
)
def test_an_interrupt_leaves_nothing_and_says_no_more_than_a_line(
    words: tuple[str, ...], command: Command, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(capture: Capture) -> Iterator[Packets]:
        for packets in whole(capture):
            os.kill(os.getpid(), signal.SIGINT)
            yield packets

    whole = Capture.__iter__
    out = tmp_path / "out"
    monkeypatch.setattr(Capture, "__iter__", interrupted)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # which is replaced for the rest of a process
    done = command(*(str(out) if word == "OUT" else word for word in words))
    assert done.returncode == 130
    assert re.fullmatch(r"(kafkascope: SIGINT: stopping.*\n)?", done.stderr)
    assert not out.exists()
    assert list(temporary.iterdir()) == []


class Freed:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_while_something_is_freed_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        Freed()
        threading.Event().wait()

    before = sys.unraisablehook
    with pytest.raises(SystemExit) as end:
        program.run(command)
    assert (end.value.code, capfd.readouterr().err, sys.unraisablehook) == (130, "", before)


def test_a_report_that_is_broken_off_while_it_is_written_is_not_there(tmp_path: Path) -> None:
    def write() -> None:
        with open_text(str(tmp_path / "report")) as stream:
            stream.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert not (tmp_path / "report").exists()


IMPORTING = """
import os, signal, sys
class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt)
from kafkascope.__main__ import sniff_main
sniff_main()
"""


def test_an_interrupt_of_the_first_imports_leaves_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTING], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")
