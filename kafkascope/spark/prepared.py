"""A process that has loaded what tasks need by the time Spark wants its workers.

With the first task Spark's JVM starts the process that workers are forked from (`daemon.py`). To load Python, our
modules and the kernels then would take longer than to decode a small capture. So a fork of the process that analyzes
loads them while the JVM starts, and when Spark's daemon comes, a fork of that does its work.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from kafkascope.side_by_side import processes_worth, side_by_side
from kafkascope.temporary import TemporaryDirectory

PLACE = "KAFKASCOPE_PREPARED"
"""Variable of the environment by which Spark's daemon knows the path of our socket."""

_TAKEN = b"t"
_PATIENCE_S = 600  # kernels may have to be compiled first, on a machine that has other things to do
_LONGEST_PATH = 100  # of a socket: sockaddr_un has room for 107 bytes


@contextmanager
def prepared(load: Callable[[], None]) -> Iterator[dict[str, str]]:
    """While it is entered there is a process that has called load, and Spark's daemon is forked of it.

    Gives the settings by which the daemon finds it: none where there can be no such process.
    """
    with TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as listening:
        path = str(directory / "prepared")
        if processes_worth(2, 2) == 1 or len(os.fsencode(path)) > _LONGEST_PATH:
            yield {}
            return
        listening.bind(path)
        listening.listen()
        with side_by_side([partial(_serve, listening, load)]):
            listening.close()  # so that nobody waits for a process that was killed
            yield {f"spark.executorEnv.{PLACE}": path}


def settled(load: Callable[[], None]) -> None:
    """Load what tasks need, in a process that workers are forked from.

    A worker looks for garbage after each task: through what is loaded here, that would take longer than a small task.
    """
    load()
    gc.collect()
    gc.freeze()


def _serve(listening: socket.socket, load: Callable[[], None]) -> None:
    settled(load)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that are forked here
    while True:
        asking, _ = listening.accept()
        if os.fork() == 0:
            try:
                _stand_in(asking)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        asking.close()


def _stand_in(asking: socket.socket) -> None:
    """Be Spark's daemon for the one that asks, with its words, streams and environment, until Spark ends it."""
    from pyspark import daemon

    _, streams, _, _ = socket.recv_fds(asking, 1, 3)
    with asking.makefile(encoding="ascii") as words:
        sys.argv, environment = json.load(words)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww"))
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > sys.stderr.fileno() and number != asking.fileno():  # locks of the analysis, which would outlive it
            with suppress(OSError):
                os.close(number)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asking.sendall(_TAKEN)
    os.register_at_fork(after_in_child=asking.close)  # workers have it too: it says that this process is there
    daemon.manager()


def hand_over() -> bool:
    """Have a fork of the prepared process stand in for this one; True when that is through, False if there is none."""
    path = os.environ.get(PLACE)
    if path is None:
        return False
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.settimeout(_PATIENCE_S)
            asking.connect(path)
            socket.send_fds(asking, [b" "], [0, 1, 2])
            asking.sendall(json.dumps([sys.argv, dict(os.environ)]).encode())
            asking.shutdown(socket.SHUT_WR)
            if asking.recv(1) != _TAKEN:
                return False
        except OSError:
            return False
        asking.settimeout(None)
        os.setpgid(0, 0)  # as Spark's daemon has it: signals from a terminal go to the process that analyzes
        return not asking.recv(1)
