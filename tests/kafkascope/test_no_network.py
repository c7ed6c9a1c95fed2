"""Nothing that reads captures speaks to the network: Spark's processes speak to each other, on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs_java
from tests.paths import PCAPS, ROOT

CAPTURE = str(PCAPS / "eager-three-joins" / "capture.pcap")

# What Python tells of sockets before it does it (https://docs.python.org/3/library/audit_events.html).
WATCHED = """
import json, sys

def told(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"):
        where = arguments[1] if event in ("socket.connect", "socket.sendto") else arguments[0]
        print(json.dumps(where if isinstance(where, str | None) else list(where)[:1]), file=log, flush=True)

log = open(sys.argv[1], "a")
sys.addaudithook(told)
sys.argv = sys.argv[2:]
from kafkascope import cli
cli.sniff_main() if sys.argv[0] == "sniff" else cli.main()
"""


def spoken_to(log: Path, *command: str) -> list[str]:
    """The hosts, and paths of sockets, that a command spoke to or asked for."""
    ended = subprocess.run(
        [sys.executable, "-c", WATCHED, str(log), *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    told = map(json.loads, log.read_text().splitlines())
    return [where[0] if isinstance(where, list) else where for where in told]


@pytest.mark.parametrize(
    "command",
    [
        ("sniff", "-r", CAPTURE, "--json", "--records"),
        ("kafkascope", "analyze", CAPTURE, "--in-process", "-o", "OUT", "--records"),
    ],
)
def test_nothing_is_spoken_to(command: tuple[str, ...], tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert spoken_to(tmp_path / "log", *(out if part == "OUT" else part for part in command)) == []


@pytest.mark.deep
def test_spark_stays_on_this_machine(tmp_path: Path) -> None:
    needs_java()
    hosts = spoken_to(tmp_path / "log", "kafkascope", "analyze", CAPTURE, "-o", str(tmp_path / "out"))
    assert hosts, "Python speaks to the JVM"
    of_network = {host for host in hosts if not host.startswith("/")}  # others are sockets in a directory of this user
    assert of_network <= {"127.0.0.1", "localhost", "::1"}
