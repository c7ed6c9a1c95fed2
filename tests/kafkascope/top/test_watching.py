"""`sniff --top` on a terminal: what it leaves there when it is over, and where it is refused."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.kafkascope.conftest import Command
from tests.kafkascope.test_live import SNIFF_WITHOUT_LATE_IMPORTS
from tests.needs import needs_root
from tests.paths import PCAPS, ROOT
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.deep  # each starts a process with a terminal of its own

STORM = PCAPS / "rebalance-storm" / "capture.pcap"
SHOWN, GONE = b"\x1b[?1049h", b"\x1b[?1049l"  # the other screen of a terminal
SNIFF = (sys.executable, "-m", "kafkascope", "sniff")


@dataclass
class Terminal:
    """A program on a terminal of its own, and the packets that it is given."""

    process: subprocess.Popen[bytes]
    master: int
    slave: int
    packets: int
    seen: bytearray = field(default_factory=bytearray)

    def wait_for(self, text: bytes) -> None:
        end = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            if select.select([self.master], [], [], 1)[0]:
                self.seen += os.read(self.master, 65_536)
            else:
                assert self.process.poll() is None, bytes(self.seen[-2000:])
                assert time.monotonic() < end, bytes(self.seen[-2000:])

    def press(self, key: bytes) -> None:
        os.write(self.master, key)

    def last_words(self) -> str:
        """What it says behind the screen. Waits for it to end."""
        self.wait_for(GONE)
        self.process.wait(PATIENCE_S)
        os.set_blocking(self.master, False)
        try:
            while found := os.read(self.master, 65_536):
                self.seen += found
        except BlockingIOError:
            pass
        return self.seen.rpartition(GONE)[2].decode()


@contextmanager
def on_terminal(*arguments: str, sniff: Sequence[str] = SNIFF) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 160))
    source, packets = os.pipe()
    of_terminal = os.ttyname(slave)

    def take_terminal() -> None:
        os.close(os.open(of_terminal, os.O_RDWR))  # the first that a session opens is its own

    process = subprocess.Popen(
        [*sniff, *arguments],
        cwd=ROOT,
        stdin=slave if "--iface" in arguments else source,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=take_terminal,
        env=os.environ | {"TERM": "xterm-256color"},
    )
    os.close(source)
    try:
        yield Terminal(process, master, slave, packets)
    finally:
        process.kill()
        process.wait()
        for descriptor in (master, slave):
            os.close(descriptor)


def test_a_pipe_that_stays_open_is_watched_until_somebody_quits() -> None:
    with on_terminal("-r", "-", "--top") as terminal:
        before = termios.tcgetattr(terminal.slave)
        os.write(terminal.packets, STORM.read_bytes()[:60_000])
        terminal.wait_for(SHOWN)
        terminal.wait_for(b"9092")
        assert termios.tcgetattr(terminal.slave) != before
        terminal.press(b"q")
        assert "Traceback" not in terminal.last_words()
        assert terminal.process.returncode in (0, 1)
        assert termios.tcgetattr(terminal.slave) == before
        os.close(terminal.packets)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_end_it_and_restore_the_terminal(number: signal.Signals) -> None:
    with on_terminal("-r", "-", "--top") as terminal:
        before = termios.tcgetattr(terminal.slave)
        os.write(terminal.packets, STORM.read_bytes()[:60_000])
        terminal.wait_for(b"9092")
        terminal.process.send_signal(number)
        # The packets are through then, and the screen stays until somebody quits, but for a signal.
        terminal.last_words()
        assert termios.tcgetattr(terminal.slave) == before
        os.close(terminal.packets)


@pytest.fixture
def clients() -> Iterator[subprocess.Popen[str]]:
    script = [sys.executable, "-m", "tests.kafkascope.live_clients", "wait"]
    with subprocess.Popen(script, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("end", ["q", "SIGTERM"])
def test_an_interface_is_watched_and_what_was_seen_is_told_behind_the_screen(
    clients: subprocess.Popen[str], end: str
) -> None:
    needs_root()
    assert clients.stdout
    assert clients.stdin
    ports = [broker.rpartition(":")[2] for broker in json.loads(clients.stdout.readline())["brokers"]]
    arguments = "--iface", "lo", "--port", ",".join(ports), "--top"
    with on_terminal(*arguments, sniff=SNIFF_WITHOUT_LATE_IMPORTS) as terminal:
        before = termios.tcgetattr(terminal.slave)
        terminal.wait_for(SHOWN)
        terminal.wait_for(b"Look into")
        clients.stdin.write("\n")
        clients.stdin.flush()
        clients.stdout.readline()
        terminal.wait_for(b"127.0.0.1:")  # either broker: librdkafka chooses
        terminal.press(b"\t\t23451sr/1")
        terminal.press(b"\r\r")
        terminal.wait_for(b"Back")
        terminal.press(b"\r")
        if end == "q":
            terminal.press(b"q")
        else:
            terminal.process.send_signal(signal.SIGTERM)
        words = terminal.last_words()
        assert "packets captured" in words
        assert "Produce" in words
        assert "1 group: readers" in words
        assert terminal.process.returncode == 0
        assert termios.tcgetattr(terminal.slave) == before
        assert b"late import" not in terminal.seen


def test_the_screen_ends_when_listening_does() -> None:
    needs_root()
    with on_terminal("--iface", "lo", "--port", "9", "--top", "--duration", "1s") as terminal:
        terminal.wait_for(SHOWN)
        assert "packets captured" in terminal.last_words()
        assert terminal.process.returncode == 0


def test_the_end_of_a_pipe_leaves_the_screen_and_remarks_come_behind_it() -> None:
    with on_terminal("-r", "-", "--top") as terminal:
        os.write(terminal.packets, b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00" + bytes(8) + b"\xff\xff\x00\x00\x01\x00\x00\x00")
        os.close(terminal.packets)
        terminal.wait_for(b"ended")
        terminal.press(b"q")
        assert "kafkascope: standard input: no packets" in terminal.last_words()
        assert terminal.process.returncode == 0


def test_what_is_no_capture_is_refused_without_a_screen() -> None:
    with on_terminal("-r", "-", "--top") as terminal:
        os.write(terminal.packets, b"this is no capture, whatever else it is " * 10)
        os.close(terminal.packets)
        terminal.process.wait(PATIENCE_S)
        terminal.wait_for(b"kafkascope: ")
        assert SHOWN not in terminal.seen
        assert terminal.process.returncode == 1


def test_without_a_terminal_it_is_refused(command: Command) -> None:
    refused = command("sniff", "-r", "-", "--top")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--top needs a terminal" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-r", str(STORM), "--top"], "goes with an interface or standard input"),
        (["-r", "-", "--top", "--json"], "do not go with it"),
        (["-r", "-", "--top", "-c", "3"], "do not go with it"),
        (["-r", "-", "--top", "--topic", "orders"], "do not go with it"),
        (["-r", "-", "--top", "--groups"], "does not go with"),
        (["-r", "-", "--top", "--incidents"], "does not go with"),
        (["-r", "-", "--top", "--stats", "1s"], "does not go with"),
        (["-r", "-", "--top", "--debug"], "give one of them"),
    ],
)
def test_what_does_not_go_together_is_refused(command: Command, arguments: list[str], said: str) -> None:
    refused = command("sniff", *arguments)
    assert refused.returncode == 2
    assert said in " ".join(refused.stderr.replace("│", " ").split())
