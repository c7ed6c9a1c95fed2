"""Spark's daemon is a fork of a process that was there before, or loads what it needs if that is gone."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkascope.spark.prepared import PLACE, prepared

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="libraries of other systems survive no fork")


@pytest.fixture
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose path is short enough for those of sockets."""
    return tmp_path_factory.mktemp("s")


@contextmanager
def daemon(place: str, directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Spark's daemon as the JVM starts it, and the path of the socket by which it is asked for workers."""
    environment = os.environ | {
        PLACE: place,
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(directory),
    }
    command = [sys.executable, "-m", "kafkascope.spark.daemon", "pyspark.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        (length,) = struct.unpack(">i", process.stdout.read(4))
        path = process.stdout.read(length).decode()
        assert Path(path).parent == directory
        yield process, path
        assert process.stdin is not None
        process.stdin.close()  # as the JVM when it ends
        process.wait(60)


def worker(path: str) -> tuple[socket.socket, int]:
    """A worker, asked for as the JVM does, and its process."""
    asked = socket.socket(socket.AF_UNIX)
    asked.connect(path)
    (pid,) = struct.unpack(">i", asked.recv(4))
    return asked, pid


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_workers_are_forks_of_the_prepared_process_in_the_environment_of_the_jvm(sockets: Path) -> None:
    loaded = sockets / "loaded"
    with prepared(loaded.touch) as ready:
        [(name, place)] = ready.items()
        assert name == f"spark.executorEnv.{PLACE}"
        for _ in range(2):  # Spark starts another one when it has lost its daemon
            with daemon(place, sockets) as (asking, path):
                assert loaded.exists()
                connection, pid = worker(path)
                with connection:
                    stand_in = parent(pid)
                    assert stand_in != asking.pid
                    assert parent(parent(stand_in)) == os.getpid()
                    held = {os.readlink(one) for one in Path(f"/proc/{stand_in}/fd").iterdir() if one.exists()}
                    assert not any(".lock" in one for one in held)
                    assert not any(".lock" in one for one in map(os.readlink, Path(f"/proc/{pid}/fd").iterdir()))
            assert not Path(f"/proc/{stand_in}").exists()
    assert not Path(place).exists()


def test_without_the_prepared_process_the_daemon_loads_what_tasks_need(sockets: Path) -> None:
    with prepared(lambda: None) as ready:
        place = ready[f"spark.executorEnv.{PLACE}"]
        with daemon(place, sockets) as (_, path):
            connection, pid = worker(path)
            connection.close()
            os.kill(parent(parent(pid)), signal.SIGKILL)
        with daemon(place, sockets) as (asking, path):
            connection, pid = worker(path)
            connection.close()
            assert parent(pid) == asking.pid


def test_where_the_path_of_a_socket_would_be_too_long_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkascope.spark.prepared._LONGEST_PATH", 10)
    with prepared(lambda: None) as ready:
        assert ready == {}
