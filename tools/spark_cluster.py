"""A standalone cluster of Spark on this machine: a master and workers of one core each, as processes."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

from kafkascope.spark.sessions import find_java

HOSTS = ("127.0.0.1", "localhost")
"""Of workers: Spark does not try a slow task a second time on the same host."""

_PATIENCE_S = 600
_ANY_PORT = ("--port", "0", "--webui-port", "0")
_OPENED = ("lang", "lang.invoke", "io", "net", "nio", "util", "util.concurrent")


@contextmanager
def spark_cluster(directory: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """The URL of a master with a worker on each of HOSTS, which end with the block.

    Logs and what executors write lie in the directory; a worker's own is worker1, worker2. The environment is that of
    master and workers, and so of executors. A worker keeps to one processor, with all that it starts: else one alone
    would have threads of the JVM and Python on several. Raises RuntimeError with the log where one does not start.
    """
    home = Path(pyspark.__file__).parent
    java = [find_java().path, "-cp", f"{home}/jars/*", "-Xmx256m", "-XX:TieredStopAtLevel=1"]
    opened = [f"java.{name}" for name in _OPENED] + ["sun.nio.ch", "sun.util.calendar"]
    java += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in opened]
    serving = {**environment, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
    processors = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:

        def start(role: str, name: str, arguments: list[str], said: str, processor: Sequence[str] = ()) -> str:
            into, log = directory / name, directory / f"{name}.log"
            into.mkdir()
            command = [*processor, *java, f"org.apache.spark.deploy.{role}", *_ANY_PORT, *arguments]
            return _wait_for(log, said, stack.enter_context(_process(command, serving, into, log)))

        url = start("master.Master", "master", ["--host", HOSTS[0]], r"Starting Spark master at (spark://\S+)")
        for number, host in enumerate(HOSTS, 1):
            name = f"worker{number}"
            limits = ["--cores", "1", "--memory", "768m", "--work-dir", str(directory / name)]
            one = ["taskset", "--cpu-list", str(processors[number % len(processors)])]
            start("worker.Worker", name, ["--host", host, *limits, url], "Successfully registered with (master)", one)
        yield url


@contextmanager
def _process(
    command: list[str], environment: Mapping[str, str], directory: Path, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block, whatever happens."""
    with log.open("wb") as output:
        started = subprocess.Popen(
            command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            yield started
        finally:
            started.terminate()
            with suppress(subprocess.TimeoutExpired):
                started.wait(20)
            started.kill()
            started.wait()


def _wait_for(log: Path, pattern: str, started: subprocess.Popen[bytes]) -> str:
    """What a process says of itself, as soon as it does: the pattern's first group."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (found := re.search(pattern, log.read_text(errors="replace"))):
        if started.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(log.read_text(errors="replace"))
        time.sleep(0.1)
    return found[1]
