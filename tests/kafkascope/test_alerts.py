"""Incidents for webhooks and commands."""

from __future__ import annotations

import json
import queue
import shlex
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from kafkascope import alerts
from kafkascope.alerts import Alerts
from tests.kafkascope.conftest import Command
from tests.paths import PCAPS
from tests.patience import PATIENCE_S

TWO = str(PCAPS / "two-at-once" / "capture.pcap.gz")


class Webhook:
    """A server that keeps what is POSTed to it; answers with the statuses that it is given, then with 204."""

    def __init__(self) -> None:
        self.posted: list[tuple[str | None, bytes]] = []
        self.statuses: list[int] = []
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                webhook.posted.append((self.headers["Content-Type"], body))
                self.send_response(webhook.statuses.pop(0) if webhook.statuses else 204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/alerts"


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    webhook = Webhook()
    serving = threading.Thread(target=webhook.server.serve_forever)
    serving.start()
    yield webhook
    webhook.server.shutdown()
    serving.join()
    webhook.server.server_close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "WAITS_S", (0.0, 0.001, 0.001))


def told(targets: list[str], *lines: bytes) -> list[str]:
    """What is remarked when lines are told."""
    remarks: list[str] = []
    telling = Alerts(targets, remarks.append)
    telling.tell(lines)
    telling.close()
    return remarks


def writing_to(file: Path) -> str:
    program = "import sys; open(sys.argv[1], 'ab').write(sys.stdin.buffer.read()); print('no result of ours')"
    return shlex.join([sys.executable, "-c", program, str(file)])


def test_incidents_of_a_capture_are_told_to_all_targets(command: Command, webhook: Webhook, tmp_path: Path) -> None:
    file = tmp_path / "told.jsonl"
    targets = ["--alert", webhook.url, "--alert", writing_to(file)]
    done = command("sniff", "-r", TWO, "--incidents", "--json", *targets)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines(keepends=True)
    alarming = [line.encode() for line in lines if json.loads(line)["severity"] != "info"]
    assert len(alarming) >= 2
    assert [body for _, body in webhook.posted] == alarming
    assert {kind for kind, _ in webhook.posted} == {"application/json"}
    assert file.read_bytes() == b"".join(alarming)


def test_what_is_not_taken_is_tried_again_and_then_said(webhook: Webhook, tmp_path: Path) -> None:
    webhook.statuses = [500]
    assert told([webhook.url], b"first\n") == []
    assert [body for _, body in webhook.posted] == [b"first\n"] * 2
    file = tmp_path / "told"
    failing = shlex.join([sys.executable, "-c", "raise SystemExit(3)"])
    [remark] = told([failing, writing_to(file)], b"second\n")
    assert remark.startswith(f"--alert {failing} did not take an incident (CalledProcessError: ")
    assert remark.endswith(": second")
    assert file.read_bytes() == b"second\n"  # others are told all the same


@pytest.mark.parametrize("target", ["/not/there", "http://127.0.0.1:1/"])
def test_a_target_that_is_not_there_is_said(target: str) -> None:
    [remark] = told([target], b"lost\n")
    assert remark.startswith(f"--alert {target} did not take an incident (")


def test_nobody_waits_for_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "MOST_WAITING", 2)
    begun, going = queue.Queue[bytes](), threading.Event()

    def slow(line: bytes) -> None:
        begun.put(line)
        assert going.wait(PATIENCE_S)

    monkeypatch.setattr(alerts, "way_to", lambda target: slow)
    remarks: list[str] = []
    telling = Alerts(["slow"], remarks.append)
    telling.tell([b"one\n"])
    assert begun.get(timeout=PATIENCE_S) == b"one\n"
    telling.tell([b"two\n", b"three\n", b"four\n"])
    assert [remark for remark in remarks if "four" in remark] == remarks != []
    going.set()
    telling.close()
    assert [begun.get_nowait(), begun.get_nowait()] == [b"two\n", b"three\n"]


@pytest.mark.parametrize("arguments", [["--alert", ""], ["--alert", "'"], ["--alert", "http://[::1/"]])
def test_what_is_no_target_is_refused(arguments: list[str], command: Command) -> None:
    done = command("sniff", "-r", TWO, "--incidents", *arguments)
    assert done.returncode == 2
    assert "--alert" in done.stderr


def test_it_goes_with_incidents_alone(command: Command) -> None:
    done = command("sniff", "-r", TWO, "--alert", "true")
    assert done.returncode == 2
    assert "--incidents" in done.stderr
