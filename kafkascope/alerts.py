"""``sniff --alert``: incidents told to others, each once and when it is over: POSTed to a URL, or given to a command.

What takes them may be slow, or away: they are told in a thread of their own, one after the other, and few may wait.
"""

from __future__ import annotations

import queue
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from kafkascope.program import Remark

WAITS_S = (0.0, 1.0, 10.0)
"""Before each try to tell of an incident."""
PATIENCE_S = 30
"""For an answer, or for a command to end."""
MOST_WAITING = 1000
_WEB = ("http", "https")


class Alerts:
    """Tells all targets of incidents."""

    def __init__(self, targets: Sequence[str], remark: Remark) -> None:
        """targets: URLs (http, https), or commands, which get a line on their standard input and are given to no shell.

        Raises ValueError if a target is neither.
        """
        self._ways = [(target, way_to(target)) for target in targets]
        self._remark = remark
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        self._hurry = threading.Event()
        self._teller = threading.Thread(target=self._tell_all, name="kafkascope-alerts", daemon=True)
        self._teller.start()

    def tell(self, lines: Iterable[bytes]) -> None:
        """Have incidents told, one JSON object a line; never waits."""
        for line in lines:
            try:
                self._waiting.put_nowait(line)
            except queue.Full:
                self._remark(f"--alert: {MOST_WAITING} incidents wait to be told; this one is not: {line.decode()}")

    def close(self) -> None:
        """Have all told that wait, without pauses between tries."""
        self._hurry.set()
        self._waiting.put(None)
        while self._teller.is_alive():
            self._teller.join(0.1)  # with pauses, in which signals are heard

    def _tell_all(self) -> None:
        while (line := self._waiting.get()) is not None:
            for target, way in self._ways:
                self._tell(target, way, line)

    def _tell(self, target: str, way: Callable[[bytes], None], line: bytes) -> None:
        for wait_s in WAITS_S:
            self._hurry.wait(wait_s)
            try:
                way(line)
                return
            except (OSError, ValueError, HTTPException, subprocess.SubprocessError) as error:
                failure = f"{type(error).__name__}: {error}"
        self._remark(f"--alert {target} did not take an incident ({failure}): {line.decode(errors='replace').strip()}")


@contextmanager
def alerts(targets: Sequence[str], remark: Remark) -> Iterator[Alerts]:
    """Alerts as long as this lasts."""
    telling = Alerts(targets, remark)
    try:
        yield telling
    except Exception:
        telling.close()
        raise
    telling.close()


def way_to(target: str) -> Callable[[bytes], None]:
    """What tells a target of an incident, and raises where that fails. Raises ValueError if it is no target."""
    if urlsplit(target).scheme in _WEB:
        return lambda line: _post(target, line)
    command = shlex.split(target)
    if not command:
        raise ValueError("give a URL, or a command")
    return lambda line: _call(command, line)


def not_to_be_run(targets: Iterable[str]) -> list[str]:
    """Those targets that are commands which this user cannot run."""
    commands = [target for target in targets if urlsplit(target).scheme not in _WEB]
    return [command for command in commands if shutil.which(shlex.split(command)[0]) is None]


def _post(url: str, line: bytes) -> None:
    request = Request(url, line, {"Content-Type": "application/json", "User-Agent": "kafkascope"})
    with urlopen(request, timeout=PATIENCE_S) as answer:
        answer.read(1)


def _call(command: Sequence[str], line: bytes) -> None:
    # What it prints is no result of ours.
    subprocess.run(command, input=line, stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE_S)
